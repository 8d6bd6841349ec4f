-- The tables. Every primary key starts with the shard; every join carries it. No foreign keys: the
-- only writer is saga.apply_v1, which compares the row count of every statement with the records
-- it was given. Text keys are COLLATE "C", so that no change of a locale can reorder an index.

-- --- words, in the order of the X-lists of the C sources (a test compares them) ---

create type saga.run_state as enum
    ('queued', 'running', 'compensating', 'completed', 'compensated', 'parked', 'abandoned');
create type saga.step_state as enum
    ('pending', 'claimed', 'retrying', 'waiting', 'unknown', 'applied', 'refused', 'skipped',
     'withdrawn');
create type saga.run_cause as enum ('step_refused', 'budget', 'deadline', 'cancelled', 'operator');
create type saga.park_reason as enum
    ('outcome_unknown', 'compensation_failed', 'pivot_passed', 'key_conflict', 'step_failed',
     'crash_loop', 'quarantine');
create type saga.outcome as enum
    ('applied', 'refused', 'retryable', 'in_progress', 'unknown', 'conflict');
create type saga.direction as enum ('execute', 'compensate');
create type saga.effect_tier as enum ('pure', 'idempotent', 'compensable', 'irreversible');
create type saga.lane_kind as enum ('write', 'action');

-- --- the installation ---

create table saga.meta (
    singleton      boolean primary key default true check (singleton),
    schema_version integer not null,
    min_version    integer not null,
    api_hash       text not null default '',
    installation   uuid not null default pg_catalog.gen_random_uuid(),
    workflows_no   bigint not null default 0,
    created_at     timestamptz not null default pg_catalog.now()
);
comment on table saga.meta is 'One row: the version of the schema and who this installation is.';
comment on column saga.meta.min_version is
    'daemons with a lower schema version must not start: newer record kinds are in use';
comment on column saga.meta.api_hash is 'hash of the functions and views that are installed';
comment on column saga.meta.workflows_no is 'raised by every apply, so that daemons notice it';

create table saga.migration (
    version    integer primary key,
    name       text not null,
    applied_at timestamptz not null default pg_catalog.now(),
    applied_by text not null default session_user
);
comment on table saga.migration is 'The migrations that were applied.';

-- --- who writes ---

create table saga.lane (
    lane      text collate "C" primary key,
    lane_no   integer generated always as identity unique,
    daemon    text collate "C" not null,
    kind      saga.lane_kind not null,
    epoch     bigint not null default 1,
    seq       bigint not null default 0,
    crcs      bigint[] not null default '{0,0,0,0,0,0,0,0}',
    beat      bigint not null default 0,
    shards    bigint not null default 0,
    ttl       interval not null,
    nonce     text not null,
    last_time timestamptz not null default pg_catalog.clock_timestamp(),
    clean     boolean not null default false
) with (fillfactor = 10, autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0);
comment on table saga.lane is
    'What is leased and what writes: one row served by one connection. seq is never reset.';
comment on column saga.lane.epoch is 'fencing number: raised by every acquisition and take-over';
comment on column saga.lane.seq is 'number of the last unit that was applied';
comment on column saga.lane.crcs is 'receipts of the last 8 units, at seq % 8 + 1';
comment on column saga.lane.beat is 'raised by every unit and renewal; unchanged for ttl = dead';
comment on column saga.lane.shards is
    'bit per shard that it carries: what saga.shard says, kept by a trigger there, so that a unit '
    'is checked by the statement that books it';
comment on column saga.lane.clean is 'released in a drain: nothing was in flight';
create index lane_daemon on saga.lane (daemon);

create table saga.shard (
    shard   smallint primary key check (shard between 0 and 63),
    lane_no integer
) with (fillfactor = 50);
comment on table saga.shard is 'Which lane carries a shard; null: free for anyone.';
insert into saga.shard (shard) select pg_catalog.generate_series(0, 63);

create function saga.shard_moved()
returns trigger
language plpgsql
set search_path = pg_catalog, saga, pg_temp
as $$
begin
    update saga.lane l
       set shards = l.shards # (1::bigint << new.shard)
     where l.lane_no in (old.lane_no, new.lane_no);
    return null;
end
$$;
create trigger shard_moved after update of lane_no on saga.shard
    for each row when (old.lane_no is distinct from new.lane_no)
    execute function saga.shard_moved();

-- --- definitions ---

create table saga.workflow (
    hash             bytea primary key check (pg_catalog.length(hash) = 32),
    name             text collate "C" not null,
    version          text collate "C" not null,
    version_is_label boolean not null,
    description      text not null,
    source           text not null,
    steps            json not null,
    run_id_parts     json,
    current          boolean not null,
    applied_no       bigint not null,
    applied_at       timestamptz not null default pg_catalog.clock_timestamp(),
    applied_by       text not null
);
comment on table saga.workflow is 'Definitions by content; one per name is current.';
comment on column saga.workflow.steps is
    'list of {id, effect, kind, service, compensate: true | false | "reason", ...} in file order';
comment on column saga.workflow.run_id_parts is
    'the run_id template as a list of {"lit": text} and {"path": [name, ...]}; null: there is no '
    'template; the string "complex": there is one that SQL cannot render';
create unique index workflow_current on saga.workflow (name) where current;
create unique index workflow_label on saga.workflow (name, version) where version_is_label;

-- --- runs ---

create table saga.run_key (
    shard         smallint not null,
    run_id        text collate "C" not null,
    input_hash    bytea not null,
    workflow_hash bytea not null,
    workflow      text collate "C" not null,
    tenant        text collate "C" not null,
    lane_no       integer not null,
    seq           bigint not null,
    outcome       saga.run_state,
    closed_at     timestamptz,
    primary key (shard, run_id)
) with (autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_analyze_scale_factor = 0.05);
comment on table saga.run_key is
    'The only authority on run ids. Outlives the run''s data: later it is the tombstone.';
comment on column saga.run_key.outcome is
    'how the run ended: written when its data is removed, null as long as saga.run tells it';
comment on column saga.run_key.seq is
    'with lane_no: the unit that inserted it, so that a unit that is sent again is answered alike';

-- Columns that change come last: an update logs a row from its first byte that differs.
create table saga.run (
    shard       smallint not null,
    created_at  timestamptz not null,
    deadline_at timestamptz,
    run_id      text collate "C" not null,
    actor       text not null,
    input       json not null,
    turn        integer not null,
    state       saga.run_state not null,
    direction   saga.direction not null,
    cause       saga.run_cause,
    park_reason saga.park_reason,
    paused      boolean not null,
    ended_at    timestamptz,
    error       json,
    output      json,
    residue     json,
    primary key (shard, run_id)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_scale_factor = 0.05);
comment on table saga.run is 'The state of a run.';
create index run_open on saga.run (shard, run_id) where ended_at is null;
-- Costs a write nothing that can be measured and lets "the newest runs" skip the old pages.
create index run_created on saga.run using brin (created_at) with (pages_per_range = 16);

create table saga.effect (
    shard           smallint not null,
    generation      smallint not null,
    claim_no        integer not null,
    direction       saga.direction not null,
    claimed_at      timestamptz,
    budget_at       timestamptz,
    key_valid_until timestamptz,
    run_id          text collate "C" not null,
    step_id         text collate "C" not null,
    item            text collate "C" not null,
    request_hash    bytea,
    attempts_base   integer not null,
    pickups         integer not null,
    attempts_free   integer not null,
    attempts        integer not null,
    state           saga.step_state not null,
    maybe_applied   boolean not null,
    by_hand         boolean not null,
    output_invalid  boolean not null,
    outcome         saga.outcome,
    next_at         timestamptz,
    ended_at        timestamptz,
    output          json,
    error           json,
    primary key (shard, run_id, step_id, item, direction, generation)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_scale_factor = 0.05);
comment on table saga.effect is
    'One direction of a step instance and generation: the claim, made before the first send.';

create table saga.attempt (
    shard      smallint not null,
    generation smallint not null,
    number     integer not null,
    direction  saga.direction not null,
    run_id     text collate "C" not null,
    step_id    text collate "C" not null,
    item       text collate "C" not null,
    sent_at    timestamptz,
    ended_at   timestamptz,
    outcome    saga.outcome,
    status     integer,
    daemon     text not null,
    error      json,
    primary key (shard, run_id, step_id, item, direction, generation, number)
);
comment on table saga.attempt is
    'An attempt that did not go right the first time; the others are told by their effect.';

create table saga.event (
    shard  smallint not null,
    run_id text collate "C" not null,
    seq    integer not null,
    at     timestamptz not null,
    what   text not null,
    step   text not null,
    detail text not null,
    actor  text not null,
    primary key (shard, run_id, seq)
);
comment on table saga.event is 'What happened to a run that no other row tells by itself.';

create table saga.inbox (
    shard         smallint not null,
    id            text collate "C" not null,
    kind          text collate "C" not null,
    run_id        text collate "C" not null,
    workflow_hash bytea,
    body          json not null,
    actor         text not null,
    at            timestamptz not null default pg_catalog.clock_timestamp(),
    outcome       text,
    answer        text,
    settled_at    timestamptz,
    primary key (shard, id)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02,
        autovacuum_analyze_scale_factor = 0.05);
comment on table saga.inbox is
    'Everything that does not start at the owner of a run; settled by the owner''s unit.';
comment on column saga.inbox.outcome is 'null: not settled; then done, refused or conflict';
create index inbox_open on saga.inbox (shard, id) where outcome is null;

-- --- what saga.apply_v1 takes and saga.load_v1 gives: one list per kind of record ---
--
-- Lists of rows, not parallel lists of columns: unnesting 22 parallel lists costs 25 times as much
-- as unnesting one list of 22 columns. Names of states travel as text, because the numbers of enum
-- types differ between databases.

create type saga.run_v1 as (
    shard smallint, run_id text, state text, direction text, turn integer, cause text,
    park_reason text, paused boolean, ended_at timestamptz, error json, output json, residue json);
create type saga.start_v1 as (
    shard smallint, run_id text, input_hash bytea, workflow_hash bytea, workflow text, tenant text,
    actor text, created_at timestamptz, deadline_at timestamptz, input json,
    state text, direction text, turn integer, cause text, park_reason text, paused boolean,
    ended_at timestamptz, error json, output json, residue json);
create type saga.effect_v1 as (
    shard smallint, run_id text, step_id text, item text, direction text, generation smallint,
    turn integer, state text, claim_no integer, attempts integer, attempts_free integer,
    attempts_base integer, pickups integer, maybe_applied boolean, by_hand boolean,
    output_invalid boolean, outcome text, request_hash bytea, claimed_at timestamptz,
    budget_at timestamptz, key_valid_until timestamptz, next_at timestamptz, ended_at timestamptz,
    output json, error json);
create type saga.attempt_v1 as (
    shard smallint, run_id text, step_id text, item text, direction text, generation smallint,
    number integer, sent_at timestamptz, ended_at timestamptz, outcome text, status integer,
    error json);
create type saga.event_v1 as (
    shard smallint, run_id text, seq integer, at timestamptz, what text, step text, detail text,
    actor text);
create type saga.inbox_v1 as (shard smallint, run_id text, id text, outcome text, answer text);
create type saga.taken_v1 as (run_id text, input_hash bytea, workflow text, tenant text);
