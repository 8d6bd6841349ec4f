-- saga.apply_or_raise_v2 as daemons below schema version 2 call it.
create or replace function saga.apply_or_raise_v1(
    p_token text, p_lane text, p_epoch bigint, p_seq bigint, p_crc bigint, p_shards bigint,
    p_starts saga.start_v1[], p_runs saga.run_v1[], p_claims saga.effect_v1[],
    p_effects saga.effect_v1[], p_attempts saga.attempt_v1[], p_events saga.event_v1[],
    p_inbox saga.inbox_v1[])
returns timestamptz
language sql security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select saga.apply_or_raise_v2(p_token, p_lane, p_epoch, p_seq, p_crc, p_shards,
                                  saga.starts_from_v1(p_starts), saga.runs_from_v1(p_runs),
                                  saga.effects_from_v1(p_claims),
                                  saga.effects_from_v1(p_effects), p_attempts, null, p_events,
                                  p_inbox, null, null, null, null);
$$;
comment on function saga.apply_or_raise_v1(
    text, text, bigint, bigint, bigint, bigint, saga.start_v1[], saga.run_v1[], saga.effect_v1[],
    saga.effect_v1[], saga.attempt_v1[], saga.event_v1[], saga.inbox_v1[]) is
    'Writes the record of a SQL action in the transaction of the action. [action]';
