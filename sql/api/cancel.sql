-- Waits for what is in flight, then undoes everything. Refused after the pivot.
create or replace function saga.cancel(run_id text, reason text)
returns text
language sql volatile security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select saga.request_v1('cancel', run_id, reason, json_build_object('reason', reason));
$$;
comment on function saga.cancel(text, text) is
    'Turns a run back. Returns a request id. [operator]';
