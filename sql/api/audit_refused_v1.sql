-- A verb that was refused at a socket, by the run's owner or because the caller has no role for it:
-- nothing else is written for it.
create or replace function saga.audit_refused_v1(p_verb text, p_run_id text, p_step text,
                                                 p_actor text, p_reason text, p_why text)
returns text
language sql security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select saga.audit_append_v1(array[
        (case when p_run_id = '' then 64 else saga.shard_of(p_run_id) end, 0, clock_timestamp(), p_verb, p_actor, p_run_id, p_step, p_reason,
         'refused: ' || p_why, '')::saga.audit_act])::text;
$$;
comment on function saga.audit_refused_v1(text, text, text, text, text, text) is
    'Appends a refused verb to the audit. [engine]';
