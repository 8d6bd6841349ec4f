-- GET /v1/approvals.
create or replace function saga.approvals_json_v1()
returns json
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select json_build_object('approvals', coalesce(json_agg(json_build_object(
        'run_id', a.run_id, 'workflow', a.workflow, 'tenant', a.tenant, 'step', a.step_id,
        'key', a.key, 'request_hash', a.request_hash, 'request', a.request, 'message', a.message,
        'by', a.by, 'requested_by', a.requested_by, 'asked_at', saga.time_text(a.asked_at),
        'expires_at', saga.time_text(a.expires_at), 'dry_run', a.dry_run) order by a.asked_at), '[]'))
      from saga.pending_approvals a;
$$;
comment on function saga.approvals_json_v1() is 'What waits for a person''s approval. [engine, operator, reader]';
