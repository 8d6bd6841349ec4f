-- What approve and reject put into the inbox.
create or replace function saga.approval_body_v1(p_step text, p_hash text, p_reason text)
returns json
language plpgsql immutable
set search_path = pg_catalog, saga, pg_temp
as $$
begin
    if coalesce(p_hash, '') !~ '^[0-9a-f]{8,64}$' then
        raise exception 'give the hash of the request (8 digits at least): see saga.pending_approvals'
              using errcode = 'invalid_parameter_value';
    end if;
    return json_build_object('step', p_step, 'hash', p_hash, 'reason', p_reason);
end
$$;
comment on function saga.approval_body_v1(text, text, text) is 'The body of an approval.';
