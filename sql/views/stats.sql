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
       pg_catalog.max(r.created_at) as last_started,
       coalesce(pg_catalog.sum(e.retries), 0)::bigint as retries,
       coalesce(pg_catalog.sum(e.unknown), 0)::bigint as unknown,
       coalesce(pg_catalog.sum(e.questions), 0)::bigint as questions,
       coalesce(pg_catalog.sum(e.approvals), 0)::bigint as approvals,
       pg_catalog.count(*) filter (where r.park_reason = 'key_conflict') as key_conflicts
  from saga.run_key k
  left join saga.run r on r.shard = k.shard and r.run_id = k.run_id
  left join lateral (
      select pg_catalog.sum(greatest(x.attempts - 1, 0)) as retries,
             pg_catalog.count(*) filter (
                 where x.state = 'unknown'
                    or (x.maybe_applied and x.state in ('claimed', 'retrying'))) as unknown,
             pg_catalog.sum(x.findings) as questions,
             pg_catalog.count(*) filter (
                 where x.state = 'waiting' and x.approval = 'pending') as approvals
        from saga.effect x
       where x.shard = r.shard and x.run_id = r.run_id) e on true
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
comment on column saga.stats.retries is 'attempts after the first of each key';
comment on column saga.stats.unknown is 'effects whose outcome is not known now';
comment on column saga.stats.questions is 'findings about unknown outcomes: questions, and what was said unasked';
comment on column saga.stats.approvals is 'requests that wait for a person now';
comment on column saga.stats.key_conflicts is 'runs parked because a participant holds their key for something else';
