create or replace view saga.keys as
select saga.key_of(e.run_id, e.step_id, e.item, e.direction, e.generation) as key,
       pg_catalog.encode(e.request_hash, 'hex') as request_hash, e.state, e.outcome,
       case when e.approval is null then e.claimed_at
            when e.approval = 'approved' then w.decided_at end as first_sent,
       e.key_valid_until as valid_until, e.attempts, e.run_id,
       e.step_id || case when e.item = '' then '' else '.' || e.item end as step_id, e.direction
  from saga.shard s
  join saga.effect e on e.shard = s.shard
  left join saga.approval w on w.shard = e.shard and w.run_id = e.run_id
                           and w.step_id = e.step_id and w.item = e.item
                           and w.direction = e.direction and w.generation = e.generation
 where e.claim_no > 0;
comment on view saga.keys is 'Idempotency keys: every key that was ever claimed, and what became of it.';
comment on column saga.keys.key is 'run:step:direction, from the second generation on with @N';
comment on column saga.keys.request_hash is
    'SHA-256 of the request that belongs to the key; another request under it is a conflict';
comment on column saga.keys.state is 'state of the action';
comment on column saga.keys.outcome is 'its outcome over all attempts so far';
comment on column saga.keys.first_sent is 'when it was claimed, just before the first send; null: a person has not approved it';
comment on column saga.keys.valid_until is 'until when the participant is known to honour it';
comment on column saga.keys.attempts is 'how often it was sent';
comment on column saga.keys.run_id is 'the run';
comment on column saga.keys.step_id is 'the step instance';
comment on column saga.keys.direction is 'execute or compensate';
