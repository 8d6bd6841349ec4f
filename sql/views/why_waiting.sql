create or replace view saga.why_waiting as
select o.run_id, k.workflow, o.state, o.waiting_for, o.since,
       case when o.waiting_for in ('retry', 'reconcile', 'timer', 'worker', 'signal', 'child',
                                   'approval')
                 then o.next_at
            end as until,
       case when o.waiting_for in ('participant', 'retry', 'reconcile', 'timer', 'worker', 'signal',
                                   'child', 'approval', 'limit', 'breaker')
            then o.step_id || case when o.item = '' then '' else '.' || o.item end end as step_id,
       case o.waiting_for
            when 'person' then 'parked: ' || r.park_reason || '; see saga.dead_letters'
            when 'paused' then 'paused by a person; resume it'
            when 'owner' then 'no living daemon carries its shard'
            when 'lock' then
                 'the lock "' || r.lock || '" ' || coalesce(
                     (select case when t.position = 0 then 'is its own: it is about to go on'
                                  else 'is held by ' || coalesce(t.holder, 'nobody at this moment') ||
                                       '; ' || case t.position when 1 then 'this run is the next'
                                                    else t.position - 1 || ' before this run' end end
                        from (select l.run_id, l.holder, l.position
                                from saga.locks l
                               where l.lock = r.lock
                                 and l.tenant is not distinct from nullif(k.tenant, '')) t
                       where t.run_id = o.run_id), 'is asked for')
            when 'participant' then 'attempt ' || o.attempts || ' of ' || o.direction ||
                                    ' is under way'
            when 'retry' then pg_catalog.concat_ws(' ', 'after attempt ' || o.attempts || ':',
                                                   saga.error_text(o.error ->> 'status', o.error))
            when 'reconcile' then 'its outcome is unknown: the participant is asked'
            when 'approval' then 'a person must approve it; see saga.pending_approvals'
            when 'worker' then
                 case o.step_state when 'waiting' then 'offered in queue ' || o.queue ||
                                                       ', nobody has taken it'
                                   else 'attempt ' || o.attempts || ' of ' || o.direction ||
                                        ' is with a worker of queue ' || o.queue end
            when 'child' then 'a run of ' || o.child || case when o.direction = 'execute'
                                                             then ' is under way'
                                                             else ' undoes what it did' end
            when 'signal' then 'the signal ' || o.signal || ' has not come'
            when 'limit' then case when o.state = 'queued' then
                 'its tenant has as many runs in flight as the daemon''s config allows' else
                 'the limits of ' || coalesce(o.service, 'its service') ||
                              ' leave no room for ' || o.direction || ' now' end
            when 'breaker' then 'the breaker of ' || coalesce(o.service, 'its service') ||
                                ' lets nothing through' ||
                                coalesce((select ' before ' || saga.time_text(
                                                     pg_catalog.max(b.open_until))
                                            from saga.service_state b
                                           where b.service = o.service and b.state = 'open'
                                             and b.open_until > pg_catalog.clock_timestamp()), '')
            when 'timer' then case when o.state = 'queued' then 'starts later' else 'sleeps' end
            else 'its daemon is about to decide' end as detail
  from saga.waiting_v1 o
  join saga.run r on r.shard = o.shard and r.run_id = o.run_id
  join saga.run_key k on k.shard = o.shard and k.run_id = o.run_id;
comment on view saga.why_waiting is 'Open runs and what each waits for: exactly one row each.';
comment on column saga.why_waiting.run_id is 'the run';
comment on column saga.why_waiting.workflow is 'name of its workflow';
comment on column saga.why_waiting.state is 'its state';
comment on column saga.why_waiting.waiting_for is
    'participant (an answer), retry, reconcile (what the participant is asked about), timer, signal, approval (of a person), child (the end of a run that it started), worker '
    '(to take its task, or to end it), limit and breaker (of the service that it sends to), claim (the daemon''s next decision), owner (a living daemon), '
    'lock (that another run holds), paused, person';
comment on column saga.why_waiting.since is 'since when';
comment on column saga.why_waiting.until is 'when it goes on by itself; null: unknown';
comment on column saga.why_waiting.step_id is 'the step that is nearest to an answer; null: none';
comment on column saga.why_waiting.detail is 'the same in words';
