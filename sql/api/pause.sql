-- Nothing new is sent; deadlines and key lifetimes run on.
create or replace function saga.pause(run_id text, reason text)
returns text
language sql volatile security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select saga.request_v1('pause', run_id, reason, json_build_object('reason', reason));
$$;
comment on function saga.pause(text, text) is
    'Holds a run. Returns a request id. [operator]';
