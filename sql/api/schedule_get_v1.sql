-- saga.schedule_get_v2 as daemons below schema version 7 call it: the last tick alone.
create or replace function saga.schedule_get_v1(
    p_workflow text, p_hash bytea, p_cron text, p_zone text, p_overlap text, p_catch_up text,
    p_next timestamptz)
returns text
language sql volatile security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select saga.schedule_get_v2(p_workflow, p_hash, p_cron, p_zone, p_overlap, p_catch_up,
                                p_next) ->> 'last';
$$;
comment on function saga.schedule_get_v1(text, bytea, text, text, text, text, timestamptz) is
    'Where a schedule stands. [engine]';
