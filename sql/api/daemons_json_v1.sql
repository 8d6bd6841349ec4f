-- {"daemons": [...]}.
create or replace function saga.daemons_json_v1()
returns json
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select json_build_object('daemons', coalesce(json_agg(json_build_object(
               'daemon', d.daemon, 'alive', d.alive, 'left_cleanly', d.left_cleanly,
               'shards', d.shards, 'open_runs', d.open_runs, 'epoch', d.epoch,
               'units', d.units, 'last_seen', saga.time_text(d.last_seen),
               'lease', extract(epoch from d.lease) || 's') order by d.daemon), '[]'))
      from saga.daemons d;
$$;
comment on function saga.daemons_json_v1() is
    'Daemons and what they own, as JSON. [engine, operator, reader]';
