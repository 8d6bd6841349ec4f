-- A verb that the run's owner refused at its socket: nothing else is written for it.
create or replace function saga.audit_refused_v1(p_verb text, p_run_id text, p_step text,
                                                 p_actor text, p_reason text, p_why text)
returns text
language sql security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select saga.audit_append_v1(array[
        (saga.shard_of(p_run_id), 0, clock_timestamp(), p_verb, p_actor, p_run_id, p_step, p_reason,
         'refused: ' || p_why, '')::saga.audit_act])::text;
$$;
comment on function saga.audit_refused_v1(text, text, text, text, text, text) is
    'Appends a refused verb to the audit. [engine]';
