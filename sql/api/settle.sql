-- A person's evidence on an unknown outcome: it was applied (with this output), or it was not. The
-- run then goes on by itself. step is ID[.ITEM][:execute|:compensate]. force contradicts evidence
-- that is stored.
create or replace function saga.settle(run_id text, step text, applied boolean, reason text,
                                       output jsonb default null, force boolean default false)
returns text
language sql volatile security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select saga.request_v1('settle', run_id, reason, json_build_object(
        'reason', reason, 'step', step, 'applied', applied, 'force', force,
        'output', output));
$$;
comment on function saga.settle(text, text, boolean, text, jsonb, boolean) is
    'Says what became of an unknown outcome. Returns a request id. [operator]';
