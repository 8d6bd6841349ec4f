create or replace view saga.why_not_compensated as
select r.run_id, k.workflow, r.state, r.cause, s.step_id, s.state as step_state,
       s.compensation_state,
       case when s.compensation_state in ('claimed', 'retrying', 'waiting') then 'undoing'
            when s.compensation_state in ('refused', 'unknown') then 'failed'
            when s.state in ('claimed', 'retrying', 'waiting') then 'in_flight'
            when pg_catalog.json_typeof(d.compensate) = 'string' then 'declared'
            when s.state = 'unknown' then 'unknown'
            when d.compensate::text = 'false' then 'nothing_undoes_it'
            else 'not_begun' end as why,
       case when s.compensation_state in ('refused', 'unknown', 'retrying')
                 then saga.error_text(s.compensation_error ->> 'status', s.compensation_error)
            when s.compensation_state in ('claimed', 'waiting') then 'its compensation is under way'
            when s.state in ('claimed', 'retrying', 'waiting')
                 then 'its own outcome is awaited first'
            when pg_catalog.json_typeof(d.compensate) = 'string' then d.compensate #>> '{}'
            when s.state = 'unknown' then 'nobody knows whether it was applied: settle it'
            when d.compensate::text = 'false' then 'the workflow has no compensation for it'
            when r.state = 'abandoned' then 'the run was closed before'
            else 'what was built on it is undone first' end as detail,
       s.key, s.position, s.item, r.shard
  from saga.shard h
  join saga.run r on r.shard = h.shard
  join saga.run_key k on k.shard = r.shard and k.run_id = r.run_id
  join saga.workflow w on w.hash = k.workflow_hash
  join saga.steps s on s.shard = r.shard and s.run_id = r.run_id
 cross join lateral (
      select e.step -> 'compensate' as compensate
        from pg_catalog.json_array_elements(w.steps) with ordinality e (step, position)
       where e.position = s.position) d
 where r.direction = 'compensate'
   and r.state in ('compensating', 'parked', 'abandoned')
   and s.items is null
   and s.state in ('claimed', 'retrying', 'unknown', 'applied')
   and (s.effect <> 'pure' or s.compensation_state is not null)
   and coalesce(s.compensation_state, 'pending') not in ('applied', 'skipped');
comment on view saga.why_not_compensated is
    'Steps of runs that have turned back which are not undone, and why: one row each.';
comment on column saga.why_not_compensated.run_id is 'the run';
comment on column saga.why_not_compensated.workflow is 'name of its workflow';
comment on column saga.why_not_compensated.state is 'compensating, parked or abandoned';
comment on column saga.why_not_compensated.cause is 'why it turned back';
comment on column saga.why_not_compensated.step_id is 'the step instance';
comment on column saga.why_not_compensated.step_state is 'what became of the step';
comment on column saga.why_not_compensated.compensation_state is
    'what became of its compensation; null: not begun';
comment on column saga.why_not_compensated.why is
    'undoing (under way), failed, in_flight (its own outcome first), unknown, not_begun (its turn has '
    'not come), declared (the workflow says so), nothing_undoes_it (it has no compensation)';
comment on column saga.why_not_compensated.detail is 'the same in words';
comment on column saga.why_not_compensated.key is 'the key of the effect that is still there';
comment on column saga.why_not_compensated.position is 'place of the step in the file, from 1';
comment on column saga.why_not_compensated.item is 'instance of a for_each; empty: none';
comment on column saga.why_not_compensated.shard is 'the shard of the run';
