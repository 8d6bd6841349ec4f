-- What is learned about an effect whose outcome is unknown.

alter table saga.effect
    add column unknown_at timestamptz,
    add column ask_until timestamptz,
    add column findings integer not null default 0,
    add column found saga.outcome,
    add column answer json;
comment on column saga.effect.unknown_at is
    'since when an attempt may have been applied: its end, or its take-over';
comment on column saga.effect.ask_until is
    'while the state is unknown and next_at is set: the participant is asked until then';
comment on column saga.effect.findings is 'number of the newest row of saga.finding';
comment on column saga.effect.found is 'what that one says';
comment on column saga.effect.answer is
    'the participant''s last answer {status, headers, body}, where `reconcile` may read it';

create table saga.finding (
    shard      smallint not null,
    generation smallint not null,
    number     integer not null,
    direction  saga.direction not null,
    run_id     text collate "C" not null,
    step_id    text collate "C" not null,
    item       text collate "C" not null,
    at         timestamptz not null,
    source     text not null check (source in ('reconcile', 'answer', 'person')),
    says       saga.outcome not null,
    status     integer,
    detail     text not null,
    body       json,
    actor      text not null,
    daemon     text not null,
    primary key (shard, run_id, step_id, item, direction, generation, number)
);
comment on table saga.finding is
    'What was learned about an effect otherwise than by the answer to an attempt.';
comment on column saga.finding.says is 'retryable: proven not applied; unknown: it cannot tell';

create type saga.finding_v1 as (
    shard smallint, run_id text, step_id text, item text, direction text, generation smallint,
    number integer, at timestamptz, source text, says text, status integer, detail text, body json,
    actor text);

-- They take and give more now; no daemon of a released version calls them.
drop function if exists saga.load_v2(bigint, smallint, text, integer);
drop function if exists saga.load_run_v2(text);
drop view if exists saga.run_image_v2;
drop function if exists saga.apply_v2(
    text, bigint, bigint, bigint, bigint, saga.start_v2[], saga.run_v1[], saga.effect_v2[],
    saga.effect_v2[], saga.attempt_v1[], saga.event_v1[], saga.inbox_v1[], saga.signal_v1[],
    saga.pin_v1[], bigint, text);
drop function if exists saga.apply_or_raise_v2(
    text, text, bigint, bigint, bigint, bigint, saga.start_v2[], saga.run_v1[], saga.effect_v2[],
    saga.effect_v2[], saga.attempt_v1[], saga.event_v1[], saga.inbox_v1[], saga.signal_v1[],
    saga.pin_v1[]);
alter type saga.effect_v2
    add attribute unknown_at timestamptz,
    add attribute ask_until timestamptz,
    add attribute findings integer,
    add attribute found text,
    add attribute answer json;
