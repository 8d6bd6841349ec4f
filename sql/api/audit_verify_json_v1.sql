-- What saga.audit_verify says, as one object; "chains" is what to note and to give the next time.
create or replace function saga.audit_verify_json_v1(p_noted jsonb)
returns json
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select json_build_object(
        'ok', coalesce(bool_and(v.problem is null), true),
        'acts', coalesce(sum(v.acts), 0),
        'chains', coalesce(json_agg(json_build_object(
            'chain', v.chain, 'no', v.acts, 'hash', v.head, 'problem', v.problem)
            order by v.chain), '[]'))
      from saga.audit_verify(p_noted) v;
$$;
comment on function saga.audit_verify_json_v1(jsonb) is
    'Checks the chains of saga.audit, as JSON. [engine, operator]';
