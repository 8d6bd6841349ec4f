-- Runs that go on under another version of their workflow.

create type saga.pin_v1 as (shard smallint, run_id text, workflow_hash bytea);

-- They take more now; no daemon of a released version calls them.
drop function if exists saga.apply_v2(
    text, bigint, bigint, bigint, bigint, saga.start_v2[], saga.run_v1[], saga.effect_v2[],
    saga.effect_v2[], saga.attempt_v1[], saga.event_v1[], saga.inbox_v1[], saga.signal_v1[], bigint,
    text);
drop function if exists saga.apply_or_raise_v2(
    text, text, bigint, bigint, bigint, bigint, saga.start_v2[], saga.run_v1[], saga.effect_v2[],
    saga.effect_v2[], saga.attempt_v1[], saga.event_v1[], saga.inbox_v1[], saga.signal_v1[]);
