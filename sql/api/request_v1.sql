-- Puts a verb into the inbox of the run's owner; returns the id of the request, whose outcome will
-- be in saga.requests. Only inserts: whether the run exists and allows it is the owner's decision.
create or replace function saga.request_v1(p_kind text, p_run_id text, p_reason text, p_body json)
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, saga, pg_temp
as $$
declare
    v_id text := saga.uuid7_v1();
begin
    if coalesce(p_run_id, '') = '' then
        raise exception '% needs a run id', p_kind using errcode = 'invalid_parameter_value';
    end if;
    if p_kind not in ('signal', 'answer') and coalesce(length(p_reason), 0) not between 1 and 1000 then
        raise exception '% needs a reason of 1 to 1000 characters: it is kept with the act', p_kind
              using errcode = 'invalid_parameter_value';
    end if;
    if p_kind = 'settle' and p_body ->> 'applied' is null then
        raise exception 'settle needs applied: true or false'
              using errcode = 'invalid_parameter_value';
    end if;
    insert into saga.inbox (shard, id, kind, run_id, body, actor)
    values (saga.shard_of(p_run_id), v_id, p_kind, p_run_id, p_body, 'role:' || session_user);
    return v_id;
end
$$;
comment on function saga.request_v1(text, text, text, json) is 'Puts a verb into the inbox.';
