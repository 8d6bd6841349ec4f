create or replace view saga.pending_approvals as
select a.run_id, k.workflow, nullif(k.tenant, '') as tenant,
       a.step_id || case when a.item = '' then '' else '.' || a.item end as step_id,
       saga.key_of(a.run_id, a.step_id, a.item, a.direction, a.generation) as key,
       pg_catalog.encode(a.request_hash, 'hex') as request_hash, a.request, a.message, a.by,
       r.actor as requested_by, a.asked_at, a.expires_at,
       'sagactl approve ' || a.run_id || ' ' || a.step_id ||
       case when a.item = '' then '' else '.' || a.item end || ' --hash ' ||
       pg_catalog.left(pg_catalog.encode(a.request_hash, 'hex'), 12) || ' --reason ...' as try_this,
       (select 'sagactl dry-run ' || a.run_id || ' ' || a.step_id ||
               case when a.item = '' then '' else '.' || a.item end
          from saga.workflow w
         cross join lateral pg_catalog.json_array_elements(w.steps) x (step)
         where w.hash = k.workflow_hash and x.step ->> 'id' = a.step_id
           and x.step ->> 'dry_run' = 'true') as dry_run
  from saga.shard s
  join saga.approval a on a.shard = s.shard and a.state = 'pending'
  join saga.effect e on e.shard = a.shard and e.run_id = a.run_id and e.step_id = a.step_id
                    and e.item = a.item and e.direction = a.direction
                    and e.generation = a.generation and e.state = 'waiting'
  join saga.run r on r.shard = a.shard and r.run_id = a.run_id and r.ended_at is null
  join saga.run_key k on k.shard = a.shard and k.run_id = a.run_id;
comment on view saga.pending_approvals is
    'Requests that wait for a person: exactly what will be sent, and nothing else.';
comment on column saga.pending_approvals.run_id is 'the run';
comment on column saga.pending_approvals.workflow is 'name of its workflow';
comment on column saga.pending_approvals.tenant is 'whom it belongs to; null: nobody in particular';
comment on column saga.pending_approvals.step_id is 'the step instance';
comment on column saga.pending_approvals.key is 'the key under which it will be sent';
comment on column saga.pending_approvals.request_hash is
    'hash of the request: an approval that names it cannot approve another one';
comment on column saga.pending_approvals.request is
    'the exact request: service, method, target, arguments, body; without headers and secrets';
comment on column saga.pending_approvals.message is 'what the workflow says to the person';
comment on column saga.pending_approvals.by is
    'any, other (not who submitted the run), or a group of the daemon''s people';
comment on column saga.pending_approvals.requested_by is 'who submitted the run';
comment on column saga.pending_approvals.asked_at is 'since when it waits';
comment on column saga.pending_approvals.expires_at is 'until when it may be decided';
comment on column saga.pending_approvals.try_this is 'the command that approves it';
comment on column saga.pending_approvals.dry_run is
    'the command that shows what the service would do; null: the step declares no dry_run';
