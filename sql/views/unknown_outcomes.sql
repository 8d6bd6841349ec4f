create or replace view saga.unknown_outcomes as
select e.run_id, e.step_id || case when e.item = '' then '' else '.' || e.item end as step_id,
       e.direction, saga.key_of(e.run_id, e.step_id, e.item, e.direction, e.generation) as key,
       e.claimed_at as first_sent, coalesce(e.ended_at, e.claimed_at) as since, e.attempts,
       e.key_valid_until,
       case when e.state <> 'unknown' then 'the engine asks or repeats by itself'
            when r.state = 'parked' then 'sagactl settle ' || e.run_id || ' ' || e.step_id ||
                 case when e.item = '' then '' else '.' || e.item end || ':' || e.direction ||
                 ' --applied | --not-applied --reason ...'
            when r.ended_at is not null then 'nothing any more: it is in the residue of the run'
            else 'it does not hold the run up' end as what_settles_it,
       e.error
  from saga.shard s
  join saga.effect e on e.shard = s.shard
  join saga.run r on r.shard = e.shard and r.run_id = e.run_id
 where e.state = 'unknown'
    or (e.maybe_applied and e.state in ('claimed', 'retrying') and r.ended_at is null);
comment on view saga.unknown_outcomes is
    'Actions and compensations of which nobody knows whether they were applied.';
comment on column saga.unknown_outcomes.run_id is 'the run';
comment on column saga.unknown_outcomes.step_id is 'the step instance';
comment on column saga.unknown_outcomes.direction is 'execute: the action; compensate: its undo';
comment on column saga.unknown_outcomes.key is 'the key: ask the participant for it';
comment on column saga.unknown_outcomes.first_sent is 'when the key was claimed';
comment on column saga.unknown_outcomes.since is 'since when nothing more is tried';
comment on column saga.unknown_outcomes.attempts is 'how often it was sent';
comment on column saga.unknown_outcomes.key_valid_until is
    'until when the participant is known to honour the key; null: it is not known to';
comment on column saga.unknown_outcomes.what_settles_it is 'what would settle it';
comment on column saga.unknown_outcomes.error is 'the last error: {code, status, message, body}';
