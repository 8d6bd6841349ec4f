-- Somebody lets a request be sent that shows what a step would do. Kept before it is sent: nothing
-- else is written for it.
create or replace function saga.audit_dry_run_v1(p_run_id text, p_step text, p_actor text,
                                                 p_reason text)
returns text
language sql security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select saga.audit_append_v1(array[
        (case when p_run_id = '' then 64 else saga.shard_of(p_run_id) end, 0, clock_timestamp(),
         'dry_run', p_actor, p_run_id, p_step, p_reason, 'done', '')::saga.audit_act])::text;
$$;
comment on function saga.audit_dry_run_v1(text, text, text, text) is
    'Appends a dry run that is about to be sent to the audit. [engine]';
