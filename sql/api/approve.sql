-- A person's word on a request that waits for one; step is ID[.ITEM], request_hash as in
-- saga.pending_approvals (8 digits at least): what is approved is that request and no other.
create or replace function saga.approve(run_id text, step text, request_hash text, reason text)
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, saga, pg_temp
as $$
begin
    return saga.request_v1('approve', run_id, reason, saga.approval_body_v1(step, request_hash,
                                                                            reason));
end
$$;
comment on function saga.approve(text, text, text, text) is
    'Approves a request that waits for a person. Returns a request id. [operator]';
