-- One row per open run: the one thing that it waits for. saga.runs and saga.why_waiting show it.
--
-- In this order: a person (parked), a resume (paused), a living owner, its lock; then of its effects, the
-- nearest to an answer: participant, then retry, then reconcile, then what it waits for by its kind of action
-- (limit, breaker, worker, child, signal, timer); else the next decision (claim).
create or replace view saga.waiting_v1 as
select r.shard, r.run_id, r.state, e.step_id, e.item, e.direction,
       case when r.state = 'queued' then r.start_at else e.next_at end as next_at,
       case when r.state = 'parked' then 'person'
            when r.paused then 'paused'
            when not coalesce(l.last_time + 3 * l.ttl > pg_catalog.clock_timestamp(), false)
                 then 'owner'
            when r.state = 'queued' and r.lock is not null
                 and not coalesce(r.start_at > pg_catalog.clock_timestamp(), false) then 'lock'
            when e.state = 'retrying' then 'retry'
            when e.state = 'unknown' then 'reconcile'
            when e.waits_for is not null then e.waits_for::text
            when e.state = 'waiting' and e.approval = 'pending' then 'approval'
            when d.kind = 'worker' then 'worker'
            when d.kind = 'child' then 'child'
            when e.state = 'claimed' then 'participant'
            when d.kind = 'wait_for' then 'signal'
            when r.state = 'queued' then 'timer'
            when e.state = 'waiting' then 'timer'
            else 'claim' end as waiting_for,
       case when r.state = 'parked'
                 then (select pg_catalog.max(v.at) from saga.event v
                        where v.shard = r.shard and v.run_id = r.run_id and v.what = 'parked')
            when r.state = 'queued' and r.lock is not null
                 then coalesce((select t.since from saga.lock_ticket t
                                 where t.shard = r.shard and t.run_id = r.run_id), r.created_at)
            else coalesce(e.claimed_at, r.created_at) end as since,
       e.attempts, e.error, e.state as step_state, d.queue, d.signal, d.child, d.service
  from saga.shard s
  join saga.run r on r.shard = s.shard
  left join saga.lane l on l.lane_no = s.lane_no
  left join lateral (
      select x.step_id, x.item, x.direction, x.state, x.next_at, x.claimed_at, x.attempts, x.error,
             x.waits_for, x.approval
        from saga.effect x
       where x.shard = r.shard and x.run_id = r.run_id
         and (x.state in ('claimed', 'retrying', 'waiting')
              or (x.state = 'unknown' and x.next_at is not null)) -- the participant is asked
         and x.items is null -- a loop waits for its items
       order by x.state, x.next_at, x.claim_no
       limit 1) e on true
  left join lateral (
      select case e.direction when 'execute' then x.step ->> 'kind'
                              else x.step ->> 'compensate_kind' end as kind,
             case e.direction when 'execute' then x.step ->> 'queue'
                              else x.step ->> 'compensate_queue' end as queue,
             case e.direction when 'execute' then x.step ->> 'service'
                              else coalesce(x.step ->> 'compensate_service',
                                            x.step ->> 'service') end as service,
             x.step ->> 'signal' as signal, x.step ->> 'child' as child
        from saga.run_key k
        join saga.workflow w on w.hash = k.workflow_hash
       cross join lateral pg_catalog.json_array_elements(w.steps) x (step)
       where k.shard = r.shard and k.run_id = r.run_id and x.step ->> 'id' = e.step_id) d
    on true
 where r.ended_at is null;
