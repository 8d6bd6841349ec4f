-- As daemons of older schema versions ask: all of them.
create or replace function saga.dead_json_v1()
returns json
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select saga.dead_json_v2(null);
$$;
comment on function saga.dead_json_v1() is
    'Parked runs with their evidence, as JSON. [engine, operator, reader]';
