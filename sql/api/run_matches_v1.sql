-- Whether a path finds something in a run that is neither false nor null: a predicate
-- ($.input.amount > 100) and a filter ($.input.items[*] ? (@.sku == "A-1")) both do what they look
-- like. The error of a run that stopped without turning back is that of its step. Where the path
-- does not fit the run's shape, it finds nothing.
create or replace function saga.run_matches_v1(p_shard smallint, p_run_id text, p_where jsonpath)
returns boolean
language sql stable
set search_path = pg_catalog, saga, pg_temp
as $$
    select coalesce(jsonb_path_query_first(jsonb_build_object(
               'run_id', r.run_id, 'workflow', k.workflow, 'tenant', nullif(k.tenant, ''),
               'state', r.state, 'cause', r.cause, 'park_reason', r.park_reason,
               'actor', r.actor, 'input', saga.jsonb_or_null_v1(r.input),
               'output', saga.jsonb_or_null_v1(r.output),
               'error', saga.jsonb_or_null_v1(coalesce(r.error, (
                   select e.error
                     from saga.effect e
                    where e.shard = r.shard and e.run_id = r.run_id and e.error is not null
                      and e.state in ('refused', 'unknown')
                    order by coalesce(e.ended_at, e.unknown_at) desc nulls last
                    limit 1)))), p_where, '{}', true),
               'false') not in ('false', 'null')
      from saga.run r
      join saga.run_key k on k.shard = r.shard and k.run_id = r.run_id
     where r.shard = p_shard and r.run_id = p_run_id;
$$;
comment on function saga.run_matches_v1(smallint, text, jsonpath) is
    'Whether a path finds something in a run. [engine, operator, reader]';
