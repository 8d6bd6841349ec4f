create or replace view saga.findings as
select f.run_id, f.step_id || case when f.item = '' then '' else '.' || f.item end as step_id,
       f.direction, saga.key_of(f.run_id, f.step_id, f.item, f.direction, f.generation) as key,
       f.number, f.at, f.source, f.says, f.status, f.detail, f.body, nullif(f.actor, '') as actor,
       f.daemon
  from saga.shard s
  join saga.finding f on f.shard = s.shard;
comment on view saga.findings is
    'What was learned about an effect otherwise than by the answer to an attempt.';
comment on column saga.findings.run_id is 'the run';
comment on column saga.findings.step_id is 'the step instance';
comment on column saga.findings.direction is 'execute: the action; compensate: its undo';
comment on column saga.findings.key is 'the key that it is about';
comment on column saga.findings.number is 'place among the findings about that key, from 1';
comment on column saga.findings.at is 'when';
comment on column saga.findings.source is
    'reconcile (the participant was asked), answer (it said so by itself), person (settle)';
comment on column saga.findings.says is
    'applied, refused, in_progress, retryable (proven not applied), unknown (it cannot tell)';
comment on column saga.findings.status is 'status of the answer to the question; null: none';
comment on column saga.findings.detail is 'the same in words';
comment on column saga.findings.body is 'the answer, or the output that a person gave';
comment on column saga.findings.actor is 'the person; null: nobody';
comment on column saga.findings.daemon is 'the daemon that wrote it';
