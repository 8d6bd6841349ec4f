create or replace view saga.stats as
select k.workflow, pg_catalog.count(*) as runs,
       pg_catalog.count(*) filter (where r.run_id is not null and r.ended_at is null) as open,
       pg_catalog.count(*) filter (where r.state = 'parked') as parked,
       pg_catalog.count(*) filter (where coalesce(k.outcome, r.state) = 'completed') as completed,
       pg_catalog.count(*) filter (where coalesce(k.outcome, r.state) = 'compensated') as compensated,
       pg_catalog.count(*) filter (where coalesce(k.outcome, r.state) = 'abandoned') as abandoned,
       pg_catalog.percentile_cont(0.5) within group (order by r.ended_at - r.created_at)
           as duration_p50,
       pg_catalog.percentile_cont(0.99) within group (order by r.ended_at - r.created_at)
           as duration_p99,
       pg_catalog.max(r.created_at) as last_started
  from saga.run_key k
  left join saga.run r on r.shard = k.shard and r.run_id = k.run_id
 group by k.workflow;
comment on view saga.stats is 'Counts and durations per workflow (reads every run: not for a loop).';
comment on column saga.stats.workflow is 'name of the workflow';
comment on column saga.stats.runs is 'runs ever started';
comment on column saga.stats.open is 'of those, not ended';
comment on column saga.stats.parked is 'of those, waiting for a person';
comment on column saga.stats.completed is 'ended completed';
comment on column saga.stats.compensated is 'ended with everything undone';
comment on column saga.stats.abandoned is 'closed by a person with a residue';
comment on column saga.stats.duration_p50 is 'half of the ended runs took no longer';
comment on column saga.stats.duration_p99 is 'of a hundred ended runs, 99 took no longer';
comment on column saga.stats.last_started is 'when the last one was submitted';
