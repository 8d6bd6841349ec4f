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

-- --- restored to an earlier time ---

alter type saga.park_reason add value 'suspect';

create table saga.rewind (
    no          integer generated always as identity primary key,
    at          timestamptz not null,
    daemon      text collate "C" not null,
    acked_seq   bigint not null,
    acked_at    timestamptz not null,
    found_seq   bigint not null,
    found_at    timestamptz not null
);
comment on table saga.rewind is
    'A daemon found the database older than what it had acknowledged: it was restored, or a standby '
    'that had not everything was promoted. Runs from before are suspect until a person vouches.';
comment on column saga.rewind.acked_seq is 'the last unit of that daemon that was acknowledged';
comment on column saga.rewind.found_seq is 'the last one that the database has';
comment on column saga.rewind.found_at is 'when that one was written: about where it was restored to';

create table saga.lost_start (
    rewind_no integer not null,
    shard     smallint not null,
    run_id    text collate "C" not null,
    workflow  text collate "C" not null,
    acked_at  timestamptz not null,
    primary key (shard, run_id, rewind_no)
);
comment on table saga.lost_start is
    'Runs whose start was acknowledged and is not in the restored database.';
