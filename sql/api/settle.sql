-- A person's evidence on an unknown outcome: it was applied (with this output), or it was not. The
-- run then goes on by itself. step is ID[.ITEM][:execute|:compensate]. force contradicts evidence
-- that is stored.
create or replace function saga.settle(run_id text, step text, applied boolean, reason text,
                                       output jsonb default null, force boolean default false)
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, saga, pg_temp
as $$
declare
    v_body json := json_build_object('reason', reason, 'step', step, 'applied', applied,
                                     'force', force, 'output', output);
    v_why  text := saga.settle_repeated_v1(run_id, 'role:' || session_user, v_body);
begin
    if v_why is not null then
        raise exception '%', v_why using errcode = 'object_not_in_prerequisite_state';
    end if;
    return saga.request_v1('settle', run_id, reason, v_body);
end
$$;
comment on function saga.settle(text, text, boolean, text, jsonb, boolean) is
    'Says what became of an unknown outcome. Returns a request id. [operator]';
