-- saga.apply_v2 as daemons below schema version 2 call it: their effects have no `items` and no findings,
-- their runs no parents and no signals.
create or replace function saga.apply_v1(
    p_lane text, p_epoch bigint, p_seq bigint, p_crc bigint, p_shards bigint,
    p_starts saga.start_v1[], p_runs saga.run_v1[], p_claims saga.effect_v1[],
    p_effects saga.effect_v1[], p_attempts saga.attempt_v1[], p_events saga.event_v1[],
    p_inbox saga.inbox_v1[], p_release bigint, p_release_to text,
    out verdict text, out db_now timestamptz, out taken saga.taken_v1[])
language plpgsql security definer
set search_path = pg_catalog, saga, pg_temp
as $$
begin
    select a.verdict, a.db_now, a.taken into verdict, db_now, taken
      from saga.apply_v2(p_lane, p_epoch, p_seq, p_crc, p_shards, saga.starts_from_v1(p_starts),
                         saga.runs_from_v1(p_runs), saga.effects_from_v1(p_claims),
                         saga.effects_from_v1(p_effects),
                         p_attempts, null, p_events, p_inbox, null, null, null, null, p_release,
                         p_release_to) a;
end
$$;
comment on function saga.apply_v1(
    text, bigint, bigint, bigint, bigint, saga.start_v1[], saga.run_v1[], saga.effect_v1[],
    saga.effect_v1[], saga.attempt_v1[], saga.event_v1[], saga.inbox_v1[], bigint, text) is
    'Writes one unit of a lane as one transaction. [engine]';
