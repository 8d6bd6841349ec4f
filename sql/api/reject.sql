-- The other word: nothing is sent, the step is refused.
create or replace function saga.reject(run_id text, step text, request_hash text, reason text)
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, saga, pg_temp
as $$
begin
    return saga.request_v1('reject', run_id, reason, saga.approval_body_v1(step, request_hash,
                                                                           reason));
end
$$;
comment on function saga.reject(text, text, text, text) is
    'Refuses a request that waits for a person. Returns a request id. [operator]';
