create or replace view saga.approvals as
select a.run_id, a.step_id || case when a.item = '' then '' else '.' || a.item end as step_id,
       saga.key_of(a.run_id, a.step_id, a.item, a.direction, a.generation) as key, a.state,
       pg_catalog.encode(a.request_hash, 'hex') as request_hash, a.request, a.message, a.by,
       a.asked_at, a.expires_at, a.decided_at, nullif(a.actor, '') as actor,
       nullif(a.reason, '') as reason
  from saga.shard s
  join saga.approval a on a.shard = s.shard;
comment on view saga.approvals is 'Every request that a person was asked about, and the word.';
comment on column saga.approvals.run_id is 'the run';
comment on column saga.approvals.step_id is 'the step instance';
comment on column saga.approvals.key is 'the key that it was for';
comment on column saga.approvals.state is
    'pending, approved, rejected, expired; pending of a run that has turned back: nobody decides it';
comment on column saga.approvals.request_hash is 'hash of the request';
comment on column saga.approvals.request is 'the exact request';
comment on column saga.approvals.message is 'what the workflow said to the person';
comment on column saga.approvals.by is 'who might decide';
comment on column saga.approvals.asked_at is 'since when it waited';
comment on column saga.approvals.expires_at is 'until when it might be decided';
comment on column saga.approvals.decided_at is 'when it was decided, and used; null: it was not';
comment on column saga.approvals.actor is 'who decided';
comment on column saga.approvals.reason is 'and why';
