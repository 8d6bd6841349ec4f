-- As daemons of older schema versions call it: without compensatable_for.
create or replace function saga.workflow_apply_v1(
    p_hash bytea, p_name text, p_version text, p_is_label boolean, p_description text,
    p_source text, p_steps json, p_run_id_parts json, p_actor text)
returns text
language sql security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select saga.workflow_apply_v2(p_hash, p_name, p_version, p_is_label, p_description, p_source,
                                  p_steps, p_run_id_parts, p_actor, null);
$$;
comment on function saga.workflow_apply_v1(bytea, text, text, boolean, text, text, json, json,
                                           text) is
    'Registers a definition. [engine]';
