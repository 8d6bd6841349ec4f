-- A daemon's breaker of a service has changed.
create or replace function saga.service_changed_v1(
    p_service text, p_daemon text, p_state text, p_open_until timestamptz)
returns void
language sql security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    insert into saga.service_state (service, daemon, state, open_until, changed_at)
    values (p_service, p_daemon, p_state, p_open_until, clock_timestamp())
        on conflict (service, daemon) do update
       set state = excluded.state, open_until = excluded.open_until,
           changed_at = excluded.changed_at;
$$;
comment on function saga.service_changed_v1(text, text, text, timestamptz) is
    'Tells the other daemons of a breaker. [engine]';
