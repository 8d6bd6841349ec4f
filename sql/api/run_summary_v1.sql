-- A run without its payloads, as an object: what lists show.
create or replace function saga.run_summary_v1(r saga.runs)
returns json
language sql stable
set search_path = pg_catalog, saga, pg_temp
as $$
    select json_build_object(
        'run_id', r.run_id, 'workflow', r.workflow, 'version', r.version, 'tenant', r.tenant,
        'state', r.state, 'paused', r.paused, 'cause', r.cause, 'waiting_for', r.waiting_for,
        'park_reason', r.park_reason, 'error', r.error, 'created_at', saga.time_text(r.created_at),
        'ended_at', saga.time_text(r.ended_at));
$$;
comment on function saga.run_summary_v1(saga.runs) is 'A run without its payloads. [views]';
