-- Loops: the list over which a for_each runs is fixed in the row of its step.

alter table saga.effect add column items json;
comment on column saga.effect.items is
    'of a for_each, in its own row (item ''''): the list of [key, item] that its instances stand for, '
    'fixed when the step began and never written again';

create type saga.effect_v2 as (
    shard smallint, run_id text, step_id text, item text, direction text, generation smallint,
    turn integer, state text, claim_no integer, attempts integer, attempts_free integer,
    attempts_base integer, pickups integer, maybe_applied boolean, by_hand boolean,
    output_invalid boolean, outcome text, request_hash bytea, claimed_at timestamptz,
    budget_at timestamptz, key_valid_until timestamptz, next_at timestamptz, ended_at timestamptz,
    output json, error json, items json);
