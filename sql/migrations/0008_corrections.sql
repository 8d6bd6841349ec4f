-- What people correct, and the time of the way back.

alter type saga.park_reason add value 'repair';
alter type saga.park_reason add value 'compensation_budget';
alter type saga.park_reason add value 'late_success';

alter table saga.run add column compensate_until timestamptz;
comment on column saga.run.compensate_until is
    'of a run that goes back: parked then; null: it has all the time it takes';

alter table saga.effect
    add column step_input json,
    add column renewed text;
comment on column saga.effect.step_input is
    'what a person gave for this key instead of what the workflow says; null: nothing';
comment on column saga.effect.renewed is
    'why this generation was begun after another one; null: it is the first';

create table saga.input (
    shard      smallint not null,
    run_id     text collate "C" not null,
    number     integer not null,
    from_claim integer not null,
    direction  saga.direction not null,
    input      json not null,
    at         timestamptz not null,
    actor      text not null,
    primary key (shard, run_id, number)
);
comment on table saga.input is
    'Corrections of a run''s input. What was claimed before keeps the input that it saw, and so '
    'does its compensation.';
comment on column saga.input.from_claim is 'the first claim of the run that it is for';
comment on column saga.input.direction is
    'execute: for actions and their compensations; compensate: for compensations alone';

create type saga.input_v1 as (
    shard smallint, run_id text, number integer, from_claim integer, direction text, input json,
    at timestamptz, actor text);
create type saga.run_v2 as (
    shard smallint, run_id text, state text, direction text, turn integer, cause text,
    park_reason text, paused boolean, ended_at timestamptz, error json, output json, residue json,
    compensate_until timestamptz);

-- They take and give more now; no daemon of a released version calls them.
drop function if exists saga.load_v1(bigint, smallint, text, integer);
drop function if exists saga.load_run_v1(text);
drop view if exists saga.run_image_v1;
drop function if exists saga.load_v2(bigint, smallint, text, integer);
drop function if exists saga.load_run_v2(text);
drop view if exists saga.run_image_v2;
drop function if exists saga.apply_v2(
    text, bigint, bigint, bigint, bigint, saga.start_v2[], saga.run_v1[], saga.effect_v2[],
    saga.effect_v2[], saga.attempt_v1[], saga.finding_v1[], saga.event_v1[], saga.inbox_v1[],
    saga.signal_v1[], saga.pin_v1[], bigint, text);
drop function if exists saga.apply_or_raise_v2(
    text, text, bigint, bigint, bigint, bigint, saga.start_v2[], saga.run_v1[], saga.effect_v2[],
    saga.effect_v2[], saga.attempt_v1[], saga.finding_v1[], saga.event_v1[], saga.inbox_v1[],
    saga.signal_v1[], saga.pin_v1[]);
alter type saga.effect_v2
    add attribute step_input json,
    add attribute renewed text;
