-- Parked runs: {"dead": [...]}, each as saga.dead_letters shows it; the longest waiting first,
-- 1000 at most. With an id just that one.
create or replace function saga.dead_json_v2(p_run_id text)
returns json
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select json_build_object('dead', coalesce(json_agg(json_build_object(
               'run_id', d.run_id, 'workflow', d.workflow, 'version', d.version,
               'tenant', d.tenant, 'state', 'parked', 'park_reason', d.reason,
               'reason', d.reason, 'parked_at', saga.time_text(d.parked_at),
               'step_id', d.step_id, 'direction', d.direction, 'cause', d.cause,
               'error', d.error, 'input', d.input, 'residue', d.residue,
               'next_verbs', d.next_verbs, 'next', d.next_verbs[1],
               'created_at', saga.time_text(d.created_at),
               'effects', coalesce(d.effects, '[]'), 'attempts', coalesce(d.attempts, '[]'),
               'findings', coalesce(d.findings, '[]'))
               order by d.parked_at, d.run_id), '[]'))
      from (select * from saga.dead_letters x
             where p_run_id is null or (x.shard = saga.shard_of(p_run_id) and x.run_id = p_run_id)
             order by x.parked_at
             limit 1000) d;
$$;
comment on function saga.dead_json_v2(text) is
    'Parked runs with their evidence, as JSON. [engine, operator, reader]';
