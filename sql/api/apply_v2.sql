-- Writes one unit: all records of one turn of a daemon's loop, as one transaction.
--
--   lane, epoch, seq, crc   the receipt: seq must be the lane's last one plus 1
--   shards                  bit per shard that the unit touches
--   starts ... approvals        records by kind; null: none of that kind
--   release, release_to     bit per shard that the lane hands over to another lane
--
-- Answers as data, so that the caller never has to read an error:
--   applied   written now
--   already   one of the last 8 numbers with the same crc: written before (takes the row lock and
--             so waits for synchronous replication like the write itself)
--   conflict  such a number with another crc
--   fenced    the lane has another epoch, or does not carry one of the shards any more
--   gap       any other number
-- All but applied write nothing. Raises (and writes nothing) when the data itself is refused:
-- classes 22, 23 and 54 (23514 with a message of ours: a row that should exist does not, a claim
-- of another turn, an inbox row that is settled); and SAG01 for fenced on an action lane.
--
-- A start whose run id exists is skipped together with every record of that run, and is returned
-- in taken; the same when the unit is sent again.
--
-- Locks in this order: lane, shard, run_key, run, lock_ticket, effect, attempt, finding, event,
-- inbox, input, approval, signal, audit_head. The lists are unnested behind "offset 0", so that each row is found by its full primary key, also on tables
-- that are empty or were never analysed; the daemon's session keeps the plan so (generic plans,
-- nested loops over indexes). These settings are not made here, because each would be paid by
-- every unit.
create or replace function saga.apply_v2(
    p_lane text, p_epoch bigint, p_seq bigint, p_crc bigint, p_shards bigint,
    p_starts saga.start_v2[], p_runs saga.run_v2[], p_claims saga.effect_v2[],
    p_effects saga.effect_v2[], p_attempts saga.attempt_v1[], p_findings saga.finding_v1[],
    p_events saga.event_v1[],
    p_inbox saga.inbox_v1[], p_signals saga.signal_v1[], p_pins saga.pin_v1[],
    p_inputs saga.input_v1[], p_approvals saga.approval_v1[],
    p_release bigint, p_release_to text,
    out verdict text, out db_now timestamptz, out taken saga.taken_v1[])
language plpgsql security definer
set search_path = pg_catalog, saga, pg_temp
as $$
declare
    v_lane_no integer;
    v_daemon text;
    v_kind saga.lane_kind;
    v_row saga.lane;
    v_taken text[];
    v_done bigint;
begin
    -- 1. The receipt.
    update saga.lane l
       set seq = p_seq, beat = l.beat + 1, crcs[p_seq % 8 + 1] = p_crc,
           last_time = greatest(l.last_time, clock_timestamp())
     where l.lane = p_lane and l.epoch = p_epoch and l.seq = p_seq - 1
       and (p_shards & ~l.shards = 0 or l.kind = 'action')
    returning l.lane_no, l.daemon, l.kind into v_lane_no, v_daemon, v_kind;
    if not found then
        select * into v_row from saga.lane l where l.lane = p_lane for update;
        db_now := clock_timestamp();
        verdict := case
            when v_row.lane is null or v_row.epoch <> p_epoch then 'fenced'
            when p_seq = v_row.seq + 1 then 'fenced' -- one of the shards is not carried any more
            when p_seq < 1 or p_seq > v_row.seq or p_seq <= v_row.seq - 8 then 'gap'
            when v_row.crcs[p_seq % 8 + 1] <> p_crc then 'conflict'
            else 'already' end;
        if verdict = 'already' and p_starts is not null then
            select array_agg((k.run_id, k.input_hash, k.workflow, k.tenant)::saga.taken_v1)
              into taken
              from (select shard, run_id from unnest(p_starts) offset 0) s
              join saga.run_key k on k.shard = s.shard and k.run_id = s.run_id
             where (k.lane_no, k.seq) is distinct from (v_row.lane_no, p_seq);
        end if;
        return;
    end if;

    -- 2. An action lane carries nothing itself: its daemon's write lane must, until the commit.
    if v_kind = 'action' then
        perform from saga.shard s
          where p_shards >> s.shard & 1 = 1 order by s.shard for share;
        if exists (select from saga.shard s
                     left join saga.lane l on l.lane_no = s.lane_no
                    where p_shards >> s.shard & 1 = 1 and l.daemon is distinct from v_daemon) then
            raise exception 'fenced' using errcode = 'SAG01';
        end if;
    end if;

    -- 3. Starts; those that are taken drop out with everything that belongs to them.
    if p_starts is not null then
        -- Nobody else writes keys of this shard, so looking first is safe, and cheaper than "on
        -- conflict", which writes a record more per row.
        insert into saga.run_key (shard, run_id, input_hash, workflow_hash, workflow, tenant,
                                  lane_no, seq)
        select s.shard, s.run_id, s.input_hash, s.workflow_hash, s.workflow, s.tenant,
               v_lane_no, p_seq
          from unnest(p_starts) s
         where not exists (select from saga.run_key k
                            where k.shard = s.shard and k.run_id = s.run_id offset 0);
        get diagnostics v_done = row_count;
        if v_done <> cardinality(p_starts) then
            select array_agg((k.run_id, k.input_hash, k.workflow, k.tenant)::saga.taken_v1),
                   array_agg(k.run_id)
              into taken, v_taken
              from (select shard, run_id from unnest(p_starts) offset 0) s
              join saga.run_key k on k.shard = s.shard and k.run_id = s.run_id
             where (k.lane_no, k.seq) is distinct from (v_lane_no, p_seq);
            p_starts := array(select x from unnest(p_starts) x where run_id <> all (v_taken));
            p_runs := array(select x from unnest(p_runs) x where run_id <> all (v_taken));
            p_claims := array(select x from unnest(p_claims) x where run_id <> all (v_taken));
            p_effects := array(select x from unnest(p_effects) x where run_id <> all (v_taken));
            p_attempts := array(select x from unnest(p_attempts) x where run_id <> all (v_taken));
            p_findings := array(select x from unnest(p_findings) x where run_id <> all (v_taken));
            p_events := array(select x from unnest(p_events) x where run_id <> all (v_taken));
            p_inbox := array(select x from unnest(p_inbox) x where run_id <> all (v_taken));
            p_inputs := array(select x from unnest(p_inputs) x where run_id <> all (v_taken));
            p_approvals := array(select x from unnest(p_approvals) x where run_id <> all (v_taken));
            p_signals := array(select x from unnest(p_signals) x where run_id <> all (v_taken));
            if cardinality(p_starts) <> v_done then
                raise exception 'wrote % of % rows (start)', v_done, cardinality(p_starts)
                      using errcode = 'check_violation';
            end if;
        end if;
        insert into saga.run (shard, run_id, created_at, deadline_at, ended_at, turn, state,
                              direction, cause, park_reason, paused, actor, input, error, output,
                              residue, start_at, parent, depth, lock)
        select s.shard, s.run_id, s.created_at, s.deadline_at, s.ended_at, s.turn,
               s.state::saga.run_state, s.direction::saga.direction, s.cause::saga.run_cause,
               s.park_reason::saga.park_reason, s.paused, s.actor, s.input, s.error, s.output,
               s.residue, s.start_at, nullif(s.parent, ''), s.depth, nullif(s.lock, '')
          from unnest(p_starts) s;
        -- Its place among those with the same lock is that of its submission; one that starts later
        -- gets its place then (locks_take_v1).
        insert into saga.lock_ticket (shard, run_id, tenant, lock)
        select s.shard, s.run_id, s.tenant, s.lock
          from unnest(p_starts) s
         where s.lock <> '' and s.ended_at is null
           and (s.start_at is null or s.start_at <= s.created_at);
    end if;

    -- 4. The run's own columns; before the claims, which are checked against the turn.
    if p_runs is not null then
        update saga.run r
           set state = u.state::saga.run_state, direction = u.direction::saga.direction,
               turn = u.turn, cause = u.cause::saga.run_cause,
               park_reason = u.park_reason::saga.park_reason, paused = u.paused,
               ended_at = u.ended_at, error = u.error, output = u.output, residue = u.residue,
               compensate_until = u.compensate_until
          from (select * from unnest(p_runs) offset 0) u
         where r.shard = u.shard and r.run_id = u.run_id;
        get diagnostics v_done = row_count;
        if v_done <> cardinality(p_runs) then
            raise exception 'wrote % of % rows (run)', v_done, cardinality(p_runs)
                  using errcode = 'check_violation';
        end if;
    end if;

    -- The lock goes with the end.
    if p_runs is not null then
        delete from saga.lock_ticket t
         using (select shard, run_id from unnest(p_runs) where ended_at is not null offset 0) u
         where t.shard = u.shard and t.run_id = u.run_id;
    end if;

    -- 5. Claims: only in the turn for which they were decided.
    if p_claims is not null then
        insert into saga.effect (shard, run_id, step_id, item, direction, generation, state,
                                 claim_no, attempts, attempts_free, attempts_base, pickups,
                                 maybe_applied, by_hand, output_invalid, outcome, request_hash,
                                 claimed_at, budget_at, key_valid_until, next_at, ended_at,
                                 output, error, items, unknown_at, ask_until, findings, found,
                                 answer, step_input, renewed, waits_for, approval)
        select c.shard, c.run_id, c.step_id, c.item, c.direction::saga.direction, c.generation,
               c.state::saga.step_state, c.claim_no, c.attempts, c.attempts_free,
               c.attempts_base, c.pickups, c.maybe_applied, c.by_hand, c.output_invalid,
               c.outcome::saga.outcome, c.request_hash, c.claimed_at, c.budget_at,
               c.key_valid_until, c.next_at, c.ended_at, c.output, c.error, c.items,
               c.unknown_at, c.ask_until, c.findings, c.found::saga.outcome, c.answer,
               c.step_input, c.renewed, c.waits_for::saga.waits_for,
               c.approval::saga.approval_state
          from (select * from unnest(p_claims) offset 0) c
          join saga.run r on r.shard = c.shard and r.run_id = c.run_id and r.turn = c.turn;
        get diagnostics v_done = row_count;
        if v_done <> cardinality(p_claims) then
            raise exception 'wrote % of % rows (claim)', v_done, cardinality(p_claims)
                  using errcode = 'check_violation', hint = 'a claim of another turn';
        end if;
    end if;

    -- 6. Effects. The list of a for_each is fixed by its claim: updates leave it where it is.
    if p_effects is not null then
        update saga.effect e
           set state = u.state::saga.step_state, claim_no = u.claim_no, attempts = u.attempts,
               attempts_free = u.attempts_free, attempts_base = u.attempts_base,
               pickups = u.pickups, maybe_applied = u.maybe_applied, by_hand = u.by_hand,
               output_invalid = u.output_invalid, outcome = u.outcome::saga.outcome,
               request_hash = u.request_hash, claimed_at = u.claimed_at, budget_at = u.budget_at,
               key_valid_until = u.key_valid_until, next_at = u.next_at, ended_at = u.ended_at,
               output = u.output, error = u.error, unknown_at = u.unknown_at,
               ask_until = u.ask_until, findings = u.findings, found = u.found::saga.outcome,
               answer = u.answer, step_input = u.step_input, renewed = u.renewed,
               waits_for = u.waits_for::saga.waits_for,
               approval = u.approval::saga.approval_state
          from (select x.*, x.direction::saga.direction as side
                  from unnest(p_effects) x offset 0) u
         where e.shard = u.shard and e.run_id = u.run_id and e.step_id = u.step_id
           and e.item = u.item and e.direction = u.side and e.generation = u.generation;
        get diagnostics v_done = row_count;
        if v_done <> cardinality(p_effects) then
            raise exception 'wrote % of % rows (effect)', v_done, cardinality(p_effects)
                  using errcode = 'check_violation';
        end if;
    end if;

    -- 7. History: inserts either write every row or raise.
    if p_attempts is not null then
        insert into saga.attempt (shard, run_id, step_id, item, direction, generation, number,
                                  sent_at, ended_at, outcome, status, error, daemon)
        select a.shard, a.run_id, a.step_id, a.item, a.direction::saga.direction, a.generation,
               a.number, a.sent_at, a.ended_at, a.outcome::saga.outcome, a.status, a.error,
               v_daemon
          from unnest(p_attempts) a;
    end if;
    if p_findings is not null then
        insert into saga.finding (shard, run_id, step_id, item, direction, generation, number, at,
                                  source, says, status, detail, body, actor, daemon)
        select f.shard, f.run_id, f.step_id, f.item, f.direction::saga.direction, f.generation,
               f.number, f.at, f.source, f.says::saga.outcome, f.status, f.detail, f.body, f.actor,
               v_daemon
          from unnest(p_findings) f;
    end if;
    if p_events is not null then
        insert into saga.event (shard, run_id, seq, at, what, step, detail, actor)
        select e.shard, e.run_id, e.seq, e.at, e.what, e.step, e.detail, e.actor
          from unnest(p_events) e;
    end if;

    -- 8. The requests that led to all this. What came again is obeyed already.
    if exists (select from unnest(p_inbox) u where u.outcome = 'refused:conflict') then
        p_inbox := array(
            select case when u.outcome = 'refused:conflict'
                             and i.kind in ('retry', 'settle', 'approve', 'reject')
                             and saga.verb_repeated_v1(i.kind, i.run_id, i.actor, i.body) is not null
                        then (u.shard, u.run_id, u.id, 'done', '')::saga.inbox_v1
                        else (u.shard, u.run_id, u.id, u.outcome, u.answer)::saga.inbox_v1 end
              from (select * from unnest(p_inbox) offset 0) u
              left join saga.inbox i on i.shard = u.shard and i.id = u.id);
    end if;
    if p_inbox is not null then
        update saga.inbox i
           set outcome = split_part(u.outcome, ':', 1),
               code = nullif(split_part(u.outcome, ':', 2), ''), answer = u.answer,
               settled_at = clock_timestamp()
          from (select * from unnest(p_inbox) offset 0) u
         -- Not "is null": the index of open rows would do for it, and be read once a record.
         where i.shard = u.shard and i.id = u.id and coalesce(i.outcome, '') = '';
        get diagnostics v_done = row_count;
        if v_done <> cardinality(p_inbox) then
            raise exception 'wrote % of % rows (inbox)', v_done, cardinality(p_inbox)
                  using errcode = 'check_violation';
        end if;
    end if;

    if p_pins is not null then
        update saga.run_key k
           set workflow_hash = p.workflow_hash
          from (select * from unnest(p_pins) offset 0) p
         where k.shard = p.shard and k.run_id = p.run_id;
        get diagnostics v_done = row_count;
        if v_done <> cardinality(p_pins) then
            raise exception 'wrote % of % rows (pin)', v_done, cardinality(p_pins)
                  using errcode = 'check_violation';
        end if;
    end if;
    if p_inputs is not null then
        insert into saga.input (shard, run_id, number, from_claim, direction, input, at, actor)
        select i.shard, i.run_id, i.number, i.from_claim, i.direction::saga.direction, i.input,
               i.at, i.actor
          from unnest(p_inputs) i;
    end if;
    -- The first row of a key asks, the second decides.
    if p_approvals is not null then
        insert into saga.approval as o (shard, run_id, step_id, item, direction, generation, state,
                                        request_hash, request, message, by, asked_at, expires_at,
                                        decided_at, actor, reason)
        select a.shard, a.run_id, a.step_id, a.item, a.direction::saga.direction, a.generation,
               a.state::saga.approval_state, a.request_hash, coalesce(a.request, 'null'),
               coalesce(a.message, ''), coalesce(a.by, ''), coalesce(a.asked_at, a.decided_at),
               coalesce(a.expires_at, a.decided_at), a.decided_at, a.actor, a.reason
          from unnest(p_approvals) a
            on conflict (shard, run_id, step_id, item, direction, generation) do update
           set state = excluded.state, decided_at = excluded.decided_at, actor = excluded.actor,
               reason = excluded.reason
         where o.request_hash = excluded.request_hash;
        get diagnostics v_done = row_count;
        if v_done <> cardinality(p_approvals) then
            raise exception 'wrote % of % rows (approval)', v_done, cardinality(p_approvals)
                  using errcode = 'check_violation', hint = 'another request';
        end if;
    end if;
    if p_signals is not null then
        insert into saga.signal (shard, run_id, name, data, at, actor)
        select s.shard, s.run_id, s.name, s.data, s.at, s.actor
          from unnest(p_signals) s;
    end if;

    if p_events is not null or p_inbox is not null then
        perform saga.audit_unit_v1(p_events, p_inbox);
    end if;

    -- 9. Shards that go to another lane.
    if p_release <> 0 then
        update saga.shard s
           set lane_no = l.lane_no
          from saga.lane l
         where l.lane = p_release_to and s.lane_no = v_lane_no and p_release >> s.shard & 1 = 1;
        get diagnostics v_done = row_count;
        if v_done <> bit_count(p_release::bit(64)) then
            raise exception 'wrote % of % rows (shard)', v_done, bit_count(p_release::bit(64))
                  using errcode = 'check_violation';
        end if;
    end if;

    verdict := 'applied';
    db_now := clock_timestamp();
end
$$;
comment on function saga.apply_v2(
    text, bigint, bigint, bigint, bigint, saga.start_v2[], saga.run_v2[], saga.effect_v2[],
    saga.effect_v2[], saga.attempt_v1[], saga.finding_v1[], saga.event_v1[], saga.inbox_v1[],
    saga.signal_v1[], saga.pin_v1[], saga.input_v1[],
    saga.approval_v1[], bigint, text) is
    'Writes one unit of a lane as one transaction. [engine]';
