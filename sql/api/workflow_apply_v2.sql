-- Registers a definition by its content and makes it the current one of its name. Answers
--   applied    it is new
--   current    it was known and is current again
--   unchanged  it was current
--   conflict   its version is a label that stands for other content: nothing was changed
-- The row of saga.meta is the lock: one apply at a time, and daemons see that its number moved.
create or replace function saga.workflow_apply_v2(
    p_hash bytea, p_name text, p_version text, p_is_label boolean, p_description text,
    p_source text, p_steps json, p_run_id_parts json, p_actor text,
    p_compensatable_for interval)
returns text
language plpgsql security definer
set search_path = pg_catalog, saga, pg_temp
as $$
declare
    v_no bigint;
    v_known saga.workflow;
begin
    select m.workflows_no + 1 into v_no from saga.meta m for update;
    select * into v_known from saga.workflow w where w.hash = p_hash;
    if v_known.hash is not null and
       v_known.compensatable_for is distinct from p_compensatable_for then -- it was not kept once
        update saga.workflow w set compensatable_for = p_compensatable_for where w.hash = p_hash;
    end if;
    if v_known.current then
        return 'unchanged';
    end if;
    if p_is_label and exists (select from saga.workflow w
                               where w.name = p_name and w.version = p_version
                                 and w.version_is_label and w.hash <> p_hash) then
        return 'conflict';
    end if;
    update saga.workflow w set current = false where w.name = p_name and w.current;
    if v_known.hash is not null then
        update saga.workflow w
           set current = true, applied_no = v_no, applied_at = clock_timestamp(),
               applied_by = p_actor
         where w.hash = p_hash;
    else
        insert into saga.workflow (hash, name, version, version_is_label, description, source,
                                   steps, run_id_parts, current, applied_no, applied_by,
                                   compensatable_for)
        values (p_hash, p_name, p_version, p_is_label, p_description, p_source, p_steps,
                p_run_id_parts, true, v_no, p_actor, p_compensatable_for);
    end if;
    update saga.meta set workflows_no = v_no;
    perform saga.audit_append_v1(array[(64, 0, clock_timestamp(), 'apply', p_actor, '', '',
        format('%s, version %s, hash %s', p_name, p_version, encode(p_hash, 'hex')), 'done',
        '')::saga.audit_act]);
    return case when v_known.hash is not null then 'current' else 'applied' end;
end
$$;
comment on function saga.workflow_apply_v2(bytea, text, text, boolean, text, text, json, json,
                                           text, interval) is
    'Registers a definition. [engine]';
