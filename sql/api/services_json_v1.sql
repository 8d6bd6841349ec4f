-- {"services": [...]}.
create or replace function saga.services_json_v1()
returns json
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select json_build_object('services', coalesce(json_agg(json_build_object(
               'service', s.service, 'state', s.state, 'in_flight', s.in_flight,
               'waiting', s.waiting, 'open_until', saga.time_text(s.open_until),
               'daemons', s.daemons, 'why', s.why) order by s.service), '[]'))
      from saga.services s;
$$;
comment on function saga.services_json_v1() is
    'Services, their breakers and what waits for them, as JSON. [engine, operator, reader]';
