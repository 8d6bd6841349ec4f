-- Parked runs: {"dead": [...]}, each as saga.dead_letters shows it; the longest waiting first.
create or replace function saga.dead_json_v1()
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
               'next_verbs', d.next_verbs, 'created_at', saga.time_text(d.created_at),
               'effects', coalesce(d.effects, '[]'), 'attempts', coalesce(d.attempts, '[]'),
               'findings', coalesce(d.findings, '[]'))
               order by d.parked_at, d.run_id), '[]'))
      from (select * from saga.dead_letters order by parked_at limit 1000) d;
$$;
comment on function saga.dead_json_v1() is
    'Parked runs with their evidence, as JSON. [engine, operator, reader]';
