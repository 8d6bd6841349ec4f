-- Writes a unit in the transaction of a SQL action, or raises, so that the user's rows never commit
-- without their record. Called as saga_action on the connection of an action lane, just before
-- COMMIT. p_token is the nonce of the lane's lease: statements of workflows run as the same role
-- and do not know it.
--
-- Raises SAG01 fenced (or a wrong token), SAG02 conflict (the number was used by other bytes),
-- SAG03 gap, SAG04 already; and what saga.apply_v2 raises.
create or replace function saga.apply_or_raise_v2(
    p_token text, p_lane text, p_epoch bigint, p_seq bigint, p_crc bigint, p_shards bigint,
    p_starts saga.start_v2[], p_runs saga.run_v2[], p_claims saga.effect_v2[],
    p_effects saga.effect_v2[], p_attempts saga.attempt_v1[], p_findings saga.finding_v1[], p_events saga.event_v1[],
    p_inbox saga.inbox_v1[], p_signals saga.signal_v1[], p_pins saga.pin_v1[],
    p_inputs saga.input_v1[], p_approvals saga.approval_v1[])
returns timestamptz
language plpgsql security definer
set search_path = pg_catalog, saga, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    v_answer record;
begin
    if not exists (select from saga.lane l
                    where l.lane = p_lane and l.kind = 'action' and l.nonce = p_token) then
        raise exception 'fenced' using errcode = 'SAG01';
    end if;
    select * into v_answer
      from saga.apply_v2(p_lane, p_epoch, p_seq, p_crc, p_shards, p_starts, p_runs, p_claims,
                         p_effects, p_attempts, p_findings, p_events, p_inbox, p_signals, p_pins, p_inputs,
                         p_approvals, 0, '');
    if v_answer.verdict <> 'applied' then
        raise exception '%', v_answer.verdict
              using errcode = case v_answer.verdict when 'fenced' then 'SAG01'
                                                    when 'conflict' then 'SAG02'
                                                    when 'gap' then 'SAG03'
                                                    else 'SAG04' end;
    end if;
    return v_answer.db_now;
end
$$;
comment on function saga.apply_or_raise_v2(
    text, text, bigint, bigint, bigint, bigint, saga.start_v2[], saga.run_v2[], saga.effect_v2[],
    saga.effect_v2[], saga.attempt_v1[], saga.finding_v1[], saga.event_v1[], saga.inbox_v1[], saga.signal_v1[],
    saga.pin_v1[], saga.input_v1[], saga.approval_v1[]) is
    'Writes the record of a SQL action in the transaction of the action. [action]';
