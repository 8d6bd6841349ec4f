-- Finished runs are removed; and the database notices that it was restored to an earlier time.

alter table saga.workflow
    add column retain interval,
    add column retain_known boolean not null default false,
    add column retain_after interval;
comment on column saga.workflow.retain is
    'how long a finished run is kept; null: as long as the daemon''s own setting says';
comment on column saga.workflow.retain_known is
    'a daemon has read these columns out of the source; until then no run of it is removed';
comment on column saga.workflow.retain_after is
    'how long after a run''s end something may still come: compensatable_for, the longest timeout';

alter table saga.run_key add column removed_at timestamptz;
comment on column saga.run_key.closed_at is 'when the run ended; written with outcome';
comment on column saga.run_key.removed_at is 'when its data was removed; null: saga.run has it';

-- Oldest ends first, for retention. The update that ends a run is a full one because of run_open
-- anyway, so that this costs it one entry of an index.
create index run_ended on saga.run (shard, ended_at, run_id) where ended_at is not null;
-- What was asked of a run goes with it.
create index inbox_run on saga.inbox (shard, run_id);
