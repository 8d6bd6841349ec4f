-- Closes a parked run with a report of what it leaves behind.
create or replace function saga.abandon(run_id text, reason text)
returns text
language sql volatile security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select saga.request_v1('abandon', run_id, reason, json_build_object('reason', reason));
$$;
comment on function saga.abandon(text, text) is
    'Closes a run as it is. Returns a request id. [operator]';
