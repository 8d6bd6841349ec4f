-- Attempts that did not go right are rows; one that did is told by its effect and made up here. The
-- last error is kept by the effect alone.
create or replace view saga.attempts as
select saga.key_of(a.run_id, a.step_id, a.item, a.direction, a.generation) as key,
       a.number, a.direction, a.sent_at, a.ended_at, a.outcome, a.status,
       coalesce(a.error, case when a.number = e.attempts then e.error end) as error, a.daemon,
       a.run_id, a.step_id || case when a.item = '' then '' else '.' || a.item end as step_id
  from saga.shard s
  join saga.attempt a on a.shard = s.shard
  join saga.effect e on e.shard = a.shard and e.run_id = a.run_id and e.step_id = a.step_id
                    and e.item = a.item and e.direction = a.direction
                    and e.generation = a.generation
union all
select saga.key_of(e.run_id, e.step_id, e.item, e.direction, e.generation),
       e.attempts, e.direction, case when e.attempts = 1 then coalesce(w.decided_at, e.claimed_at) end,
       e.ended_at,
       case when e.ended_at is not null then e.outcome end, null, null,
       case when e.ended_at is null then l.daemon end,
       e.run_id, e.step_id || case when e.item = '' then '' else '.' || e.item end
  from saga.shard s
  join saga.effect e on e.shard = s.shard
  left join saga.lane l on l.lane_no = s.lane_no
  left join saga.approval w on w.shard = e.shard and w.run_id = e.run_id
                           and w.step_id = e.step_id and w.item = e.item
                           and w.direction = e.direction and w.generation = e.generation
 where e.attempts > 0
   and not exists (select from saga.attempt a
                    where a.shard = e.shard and a.run_id = e.run_id and a.step_id = e.step_id
                      and a.item = e.item and a.direction = e.direction
                      and a.generation = e.generation and a.number = e.attempts);
comment on view saga.attempts is 'Attempts: each send of an action or compensation.';
comment on column saga.attempts.key is 'the key that went with it';
comment on column saga.attempts.number is 'from 1; a resend after a crash keeps its number';
comment on column saga.attempts.direction is 'execute or compensate';
comment on column saga.attempts.sent_at is 'when it was sent; null: not recorded';
comment on column saga.attempts.ended_at is 'when its outcome was known; null: it is under way';
comment on column saga.attempts.outcome is
    'applied, refused, retryable, in_progress, unknown, conflict; null: under way';
comment on column saga.attempts.status is 'HTTP status or exit code; null: none, or not recorded';
comment on column saga.attempts.error is 'what went wrong: {code, status, message, body}';
comment on column saga.attempts.daemon is 'who sent it; null: not recorded';
comment on column saga.attempts.run_id is 'the run';
comment on column saga.attempts.step_id is 'the step instance';
