-- Ends a pause.
create or replace function saga.resume(run_id text, reason text)
returns text
language sql volatile security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select saga.request_v1('resume', run_id, reason, json_build_object('reason', reason));
$$;
comment on function saga.resume(text, text) is
    'Lets a paused run go on. Returns a request id. [operator]';
