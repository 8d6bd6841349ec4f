-- Schedules: which tick of each was dealt with last.

create table saga.schedule (
    shard         smallint not null,
    workflow      text collate "C" not null,
    workflow_hash bytea not null,
    cron          text not null,
    zone          text not null,
    overlap       text not null check (overlap in ('skip', 'queue')),
    catch_up      text not null check (catch_up in ('none', 'last', 'all')),
    last_tick     timestamptz not null,
    next_tick     timestamptz,
    last_run      text collate "C",
    skipped       bigint not null default 0,
    last_skipped  timestamptz,
    primary key (shard, workflow)
);
comment on table saga.schedule is
    'One row per workflow that has a schedule: written with the start of each tick''s run.';
comment on column saga.schedule.last_tick is
    'the last tick that was started or skipped; of a new or changed schedule: when it began';
