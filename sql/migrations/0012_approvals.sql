-- A person's word before a request is sent.

alter type saga.park_reason add value 'approval_expired';
create type saga.approval_state as enum ('pending', 'approved', 'rejected', 'expired');

alter table saga.effect add column approval saga.approval_state;
comment on column saga.effect.approval is
    'a person''s word, where the step asks for one; null: it does not';

create table saga.approval (
    shard        smallint not null,
    generation   smallint not null,
    direction    saga.direction not null,
    run_id       text collate "C" not null,
    step_id      text collate "C" not null,
    item         text collate "C" not null,
    state        saga.approval_state not null,
    request_hash bytea not null,
    request      json not null,
    message      text not null,
    by           text not null,
    asked_at     timestamptz not null,
    expires_at   timestamptz not null,
    decided_at   timestamptz,
    actor        text,
    reason       text,
    primary key (shard, run_id, step_id, item, direction, generation)
);
comment on table saga.approval is
    'What a person was asked, bound to a key and the hash of its request, and what was decided.';
create index approval_pending on saga.approval (shard, run_id) where state = 'pending';

create type saga.approval_v1 as (
    shard smallint, run_id text, step_id text, item text, direction text, generation smallint,
    state text, request_hash bytea, request json, message text, by text, asked_at timestamptz,
    expires_at timestamptz, decided_at timestamptz, actor text, reason text);

-- They take and give more now; no daemon of a released version calls them.
drop function if exists saga.load_v1(bigint, smallint, text, integer);
drop function if exists saga.load_run_v1(text);
drop view if exists saga.run_image_v1;
drop function if exists saga.load_v2(bigint, smallint, text, integer);
drop function if exists saga.load_run_v2(text);
drop view if exists saga.run_image_v2;
drop function if exists saga.apply_v2(
    text, bigint, bigint, bigint, bigint, saga.start_v2[], saga.run_v2[], saga.effect_v2[],
    saga.effect_v2[], saga.attempt_v1[], saga.finding_v1[], saga.event_v1[], saga.inbox_v1[],
    saga.signal_v1[], saga.pin_v1[], saga.input_v1[], bigint, text);
drop function if exists saga.apply_or_raise_v2(
    text, text, bigint, bigint, bigint, bigint, saga.start_v2[], saga.run_v2[], saga.effect_v2[],
    saga.effect_v2[], saga.attempt_v1[], saga.finding_v1[], saga.event_v1[], saga.inbox_v1[],
    saga.signal_v1[], saga.pin_v1[], saga.input_v1[]);
alter type saga.effect_v2 add attribute approval text;
