-- Puts a request into the inbox of whoever owns the run. A row with the same id is not put twice.
create or replace function saga.inbox_put_v1(p_id text, p_kind text, p_run_id text,
                                             p_workflow_hash bytea, p_body json, p_actor text)
returns text
language sql security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    insert into saga.inbox (shard, id, kind, run_id, workflow_hash, body, actor)
    values (saga.shard_of(p_run_id), p_id, p_kind, p_run_id, p_workflow_hash, p_body, p_actor)
        on conflict do nothing;
    select p_id;
$$;
comment on function saga.inbox_put_v1(text, text, text, bytea, json, text) is
    'Puts a request into the inbox. [engine]';
