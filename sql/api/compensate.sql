-- Starts the walk back of a parked run, or of a completed one within its window.
create or replace function saga.compensate(run_id text, reason text)
returns text
language sql volatile security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select saga.request_v1('compensate', run_id, reason, json_build_object('reason', reason));
$$;
comment on function saga.compensate(text, text) is
    'Undoes a parked or completed run. Returns a request id. [operator]';
