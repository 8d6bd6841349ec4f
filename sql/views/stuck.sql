-- A daemon that lives turns to what is due within moments, so a minute late is late.
create or replace view saga.stuck as
select o.run_id, k.workflow, o.state, o.waiting_for, o.since,
       coalesce(p.step, o.step_id || case when o.item = '' then '' else '.' || o.item end)
           as step_id,
       case when o.waiting_for = 'person' then 'it is parked: ' || r.park_reason
            when o.waiting_for = 'paused' then 'it is paused'
            when o.waiting_for = 'owner' then 'no living daemon carries its shard'
            when o.waiting_for = 'worker' then 'nobody takes tasks of queue ' || o.queue
            else 'it was due at ' || saga.time_text(o.next_at) end as why,
       case when o.waiting_for = 'person' then 'select * from saga.dead_letters'
            when o.waiting_for = 'paused' then 'select saga.resume(run_id, reason)'
            when o.waiting_for = 'owner' then 'start sagad; select * from saga.daemons'
            when o.waiting_for = 'worker' then 'start a worker for that queue'
            else 'look into the log of its daemon' end as try_this
  from saga.waiting_v1 o
  join saga.run r on r.shard = o.shard and r.run_id = o.run_id
  join saga.run_key k on k.shard = o.shard and k.run_id = o.run_id
  left join lateral (
      select nullif(v.step, '') as step
        from saga.event v
       where v.shard = o.shard and v.run_id = o.run_id and v.what = 'parked'
       order by v.seq desc
       limit 1) p on o.waiting_for = 'person'
 where o.waiting_for in ('person', 'paused', 'owner')
    or (o.waiting_for = 'worker' and o.step_state = 'waiting'
        and o.since < pg_catalog.now() - interval '5 minutes')
    or (o.waiting_for in ('retry', 'timer')
        and o.next_at < pg_catalog.now() - interval '1 minute');
comment on view saga.stuck is 'Open runs that will not go on by themselves, and the way out.';
comment on column saga.stuck.run_id is 'the run';
comment on column saga.stuck.workflow is 'name of its workflow';
comment on column saga.stuck.state is 'its state';
comment on column saga.stuck.waiting_for is 'as in saga.why_waiting';
comment on column saga.stuck.since is 'since when';
comment on column saga.stuck.step_id is 'the step that it waits at or is parked for; null: none';
comment on column saga.stuck.why is 'why it does not go on';
comment on column saga.stuck.try_this is 'what to do or where to look';
