-- Breakers that another daemon found open and that still are: {"services": [{service, open_until}]}.
create or replace function saga.services_open_v1(p_daemon text)
returns json
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select json_build_object('services', coalesce(json_agg(json_build_object(
               'service', s.service, 'open_until', saga.time_text(s.open_until))), '[]'))
      from (select x.service, max(x.open_until) as open_until
              from saga.service_state x
             where x.daemon <> p_daemon and x.state = 'open'
               and x.open_until > clock_timestamp()
             group by x.service) s;
$$;
comment on function saga.services_open_v1(text) is
    'Open breakers of the other daemons, as JSON. [engine]';
