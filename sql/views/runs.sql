-- What a run waits for is looked up run by run, and only if it is asked for: joined, a planner without
-- statistics may look through all that waits for each run.
create or replace view saga.runs as
select r.run_id, k.workflow, w.version, nullif(k.tenant, '') as tenant, r.state, r.paused, r.cause,
       (select o.waiting_for from saga.waiting_v1 o
         where o.shard = r.shard and o.run_id = r.run_id limit 1) as waiting_for, r.created_at, r.ended_at,
       coalesce(r.ended_at, pg_catalog.clock_timestamp()) - r.created_at as age,
       r.input, r.output, r.error, r.park_reason, r.deadline_at, r.residue, r.actor,
       r.shard, r.parent, r.start_at,
       case when r.ended_at is null then r.compensate_until end as compensate_until,
       case when r.state = 'completed' and r.parent is null
            then r.ended_at + w.compensatable_for end as undoable_until
  from saga.shard s
  join saga.run r on r.shard = s.shard
  join saga.run_key k on k.shard = r.shard and k.run_id = r.run_id
  left join saga.workflow w on w.hash = k.workflow_hash;
comment on view saga.runs is 'Runs: one row each, finished ones too.';
comment on column saga.runs.run_id is 'the id; what you ask for with sagactl show RUN';
comment on column saga.runs.workflow is 'name of its workflow';
comment on column saga.runs.version is 'version of the definition under which it runs';
comment on column saga.runs.tenant is 'whom it belongs to; null: nobody in particular';
comment on column saga.runs.state is
    'queued, running, compensating, completed, compensated, parked (waits for a person), abandoned';
comment on column saga.runs.paused is 'a person has paused it: nothing new is sent';
comment on column saga.runs.cause is
    'why it turned back: step_refused, budget, deadline, cancelled, operator, parent; null: it did not';
comment on column saga.runs.waiting_for is
    'what an open run waits for; details in saga.why_waiting; null: it has ended';
comment on column saga.runs.created_at is 'when it was submitted';
comment on column saga.runs.ended_at is 'when it ended; null: it is open';
comment on column saga.runs.age is 'how long it took, or takes so far';
comment on column saga.runs.input is 'its input, as it came';
comment on column saga.runs.output is 'its result; null until it is completed';
comment on column saga.runs.error is
    'the first failure: {step, code, status, message, body}; kept through the walk back';
comment on column saga.runs.park_reason is 'why it is parked; null: it is not';
comment on column saga.runs.deadline_at is 'after it the run turns back; null: no deadline';
comment on column saga.runs.residue is
    'what it leaves behind that is applied or unknown, with reasons; once parked or ended';
comment on column saga.runs.actor is 'who submitted it: uid:1000, role:shop';
comment on column saga.runs.parent is 'the run whose step it is; null: it was submitted';
comment on column saga.runs.start_at is 'when a queued run starts; null: it started at once';
comment on column saga.runs.shard is
    'its shard: with "shard = saga.shard_of(ID)" one run is found at once';
comment on column saga.runs.compensate_until is
    'of a run that goes back: it is parked then; null: it has all the time it takes';
comment on column saga.runs.undoable_until is
    'of a completed run: until when saga.compensate undoes it; null: it cannot be undone';
