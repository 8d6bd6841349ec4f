-- The newest acts first, of one run or of all.
create or replace function saga.audit_json_v1(p_run_id text, p_limit integer, p_before text)
returns json
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select json_build_object('acts', coalesce(json_agg(json_build_object(
               'at', saga.time_text(a.at), 'verb', a.verb, 'actor', a.actor, 'run_id', a.run_id,
               'step_id', a.step_id, 'reason', a.reason, 'outcome', a.outcome,
               'chain', a.chain, 'no', a.no, 'hash', a.hash)
               order by a.at desc, a.chain, a.no desc), '[]'))
      from (select *
              from saga.audit x
             where (p_run_id is null or x.run_id = p_run_id)
               and (p_before is null or x.at < p_before::timestamptz)
             order by x.at desc, x.chain, x.no desc
             limit least(coalesce(p_limit, 50), 1000)) a;
$$;
comment on function saga.audit_json_v1(text, integer, text) is
    'Acts of people as JSON. [engine, operator, reader]';
