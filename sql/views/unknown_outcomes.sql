create or replace view saga.unknown_outcomes as
select e.run_id, e.step_id || case when e.item = '' then '' else '.' || e.item end as step_id,
       e.direction, saga.key_of(e.run_id, e.step_id, e.item, e.direction, e.generation) as key,
       coalesce(w.decided_at, e.claimed_at) as first_sent,
       coalesce(e.unknown_at, e.ended_at, w.decided_at, e.claimed_at) as since, e.attempts,
       e.key_valid_until,
       case when e.state <> 'unknown' then 'the engine repeats it by itself'
            when e.next_at is not null and r.ended_at is null
                 then 'the participant is asked by itself, until ' || saga.time_text(e.ask_until)
            when r.state = 'parked' then 'sagactl settle ' || e.run_id || ' ' || e.step_id ||
                 case when e.item = '' then '' else '.' || e.item end || ':' || e.direction ||
                 ' --applied | --not-applied --reason ...'
            when r.ended_at is not null then 'nothing any more: it is in the residue of the run'
            else 'it does not hold the run up' end as what_settles_it,
       e.error, e.findings as asked, e.next_at as next_asked_at,
       (select f.detail from saga.finding f
         where f.shard = e.shard and f.run_id = e.run_id and f.step_id = e.step_id
           and f.item = e.item and f.direction = e.direction and f.generation = e.generation
         order by f.number desc limit 1) as found
  from saga.shard s
  join saga.effect e on e.shard = s.shard
  join saga.run r on r.shard = e.shard and r.run_id = e.run_id
  left join saga.approval w on w.shard = e.shard and w.run_id = e.run_id
                           and w.step_id = e.step_id and w.item = e.item
                           and w.direction = e.direction and w.generation = e.generation
 where e.state = 'unknown'
    or (e.maybe_applied and e.state in ('claimed', 'retrying') and r.ended_at is null);
comment on view saga.unknown_outcomes is
    'Actions and compensations of which nobody knows whether they were applied.';
comment on column saga.unknown_outcomes.run_id is 'the run';
comment on column saga.unknown_outcomes.step_id is 'the step instance';
comment on column saga.unknown_outcomes.direction is 'execute: the action; compensate: its undo';
comment on column saga.unknown_outcomes.key is 'the key: ask the participant for it';
comment on column saga.unknown_outcomes.first_sent is 'when the key was claimed, or a person approved it';
comment on column saga.unknown_outcomes.since is 'since when it is unknown';
comment on column saga.unknown_outcomes.attempts is 'how often it was sent';
comment on column saga.unknown_outcomes.key_valid_until is
    'until when the participant is known to honour the key; null: it is not known to';
comment on column saga.unknown_outcomes.what_settles_it is 'what would settle it';
comment on column saga.unknown_outcomes.error is 'the last error: {code, status, message, body}';
comment on column saga.unknown_outcomes.asked is 'how often the participant was asked';
comment on column saga.unknown_outcomes.next_asked_at is
    'when it is asked next; null: nothing more is done by itself';
comment on column saga.unknown_outcomes.found is 'what the newest question told; null: not asked';
