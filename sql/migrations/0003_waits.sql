-- Signals, runs that start later, runs that are started by runs.

alter type saga.run_cause add value 'parent';

alter table saga.run
    add column start_at timestamptz,
    add column parent text collate "C",
    add column depth smallint not null default 0;
comment on column saga.run.start_at is 'queued until then; null: started at once';
comment on column saga.run.parent is 'the run whose step it is; null: none';
comment on column saga.run.depth is 'how many parents it has, one above the other';
-- Written once per child, never changed.
create index run_parent on saga.run (shard, parent) where parent is not null;

create table saga.signal (
    shard  smallint not null,
    run_id text collate "C" not null,
    name   text collate "C" not null,
    data   json not null,
    at     timestamptz not null,
    actor  text not null,
    primary key (shard, run_id, name)
) with (autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_analyze_scale_factor = 0.05);
comment on table saga.signal is
    'Data for the steps that wait for its name: the first one of a name, kept also if it is early.';

create type saga.signal_v1 as (
    shard smallint, run_id text, name text, data json, at timestamptz, actor text);
create type saga.start_v2 as (
    shard smallint, run_id text, input_hash bytea, workflow_hash bytea, workflow text, tenant text,
    actor text, created_at timestamptz, deadline_at timestamptz, input json,
    state text, direction text, turn integer, cause text, park_reason text, paused boolean,
    ended_at timestamptz, error json, output json, residue json,
    start_at timestamptz, parent text, depth smallint);

-- They take more now; no daemon of a released version calls them.
drop function if exists saga.apply_v2(
    text, bigint, bigint, bigint, bigint, saga.start_v1[], saga.run_v1[], saga.effect_v2[],
    saga.effect_v2[], saga.attempt_v1[], saga.event_v1[], saga.inbox_v1[], bigint, text);
drop function if exists saga.apply_or_raise_v2(
    text, text, bigint, bigint, bigint, bigint, saga.start_v1[], saga.run_v1[], saga.effect_v2[],
    saga.effect_v2[], saga.attempt_v1[], saga.event_v1[], saga.inbox_v1[]);
