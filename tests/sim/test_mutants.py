#!/usr/bin/env python3
"""The simulator's checkers see broken protocols: each mutant of the core must fail in some seed.

    test_mutants.py          all of them
    test_mutants.py WORDS    those whose name has these words; V=1 says how long each took, and
                             what saw it

A mutant is one small change to a copy of a source file; what the database does is changed in the
simulator's model of it. A change that no longer applies, or that
survives all seeds, fails this test.
"""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.chdir(ROOT)
sys.path.insert(0, os.path.join(ROOT, "tests", "lib"))
import mutants  # noqa: E402

SEEDS = "8000"

MUTANTS = [
    ("locks: a run begins without asking", "engine/decide.c",
     "if (run->start.lock.len && !run->lock_held) {", "if (false) {"),
    ("locks: a run that was opened again goes back without", "engine/decide.c",
     "return run->start.lock.len && run_state_is_terminal(run->now.state) ? RUN_QUEUED",
     "return false ? RUN_QUEUED"),
    ("locks: whoever takes a run over does not ask", "engine/decide.c",
     "    struct run *run = draft->run;\n    queued_due(draft);\n    if (!decide_is_active(run))\n"
     "        return;\n    for (struct instance",
     "    struct run *run = draft->run;\n    if (!decide_is_active(run))\n"
     "        return;\n    for (struct instance"),
    ("locks: the database lets a second one in", "tests/sim/locks.c",
     "(other->holds_lock || before))", "before)"),
    ("locks: a parked run lets go of it", "tests/sim/world.c",
     "        if (run_state_is_terminal(row->now.state))\n            locks_release(row);",
     "        if (run_state_is_terminal(row->now.state) || row->now.state == RUN_PARKED)\n"
     "            locks_release(row);"),
    ("limits: any number is in flight", "engine/gate.c",
     "room.sends = most > used ? most - used : 0;", "room.sends = most;"),
    ("limits: each daemon takes all of them", "engine/gate.c",
     "(uint64_t)gate->limits.in_flight * share_of(gate) / GATE_SHARES",
     "(uint64_t)gate->limits.in_flight"),
    ("limits: nobody wakes what waits", "engine/gates.c",
     "while ((waiter = gate_next(&entry->gate, runner->now))) {",
     "while ((waiter = NULL)) {"),
    ("limits: places of what was lost are not given back", "engine/gates.c",
     "if (passage->entry)\n        gate_dropped(", "if (false)\n        gate_dropped("),
    ("limits: an answer frees no place", "engine/gate.c",
     "    gate_dropped(gate, opening);\n    /* What was", "    /* What was"),
    ("limits: a run that was woken sends as much as it has", "engine/gate.c",
     "room.sends = MIN(room.sends, 1u);", "room.sends = 1000;"),
    ("an unknown outcome is repeated without key support", "engine/unknown.c",
     "return wall_is_set(side->key_valid_until) && at.us <= side->key_valid_until.us;",
     "return true;"),
    ("a claimed effect is sent again after a take-over, whatever its tier", "engine/attempt.c",
     "way = unknown_way(action, &side, now);", "way = UNKNOWN_REPEAT;"),
    ("a later refusal wipes out an earlier unknown", "engine/attempt.c",
     "side.state = side.maybe_applied ? STEP_UNKNOWN : STEP_REFUSED;\n        side.ended_at = "
     "draft->event->now;\n        break;\n    case OUTCOME_CONFLICT:",
     "side.state = STEP_REFUSED;\n        side.maybe_applied = false;\n        side.ended_at = "
     "draft->event->now;\n        break;\n    case OUTCOME_CONFLICT:"),
    ("an unknown attempt is forgotten", "engine/attempt.c",
     "if (verdict.outcome == OUTCOME_UNKNOWN || accepted) {", "if (accepted) {"),
    ("an early \"not applied\" is believed", "engine/ask.c",
     "reply->sent_at.us < settled.us;", "false;"),
    ("a question that failed counts as \"not applied\"", "engine/ask.c",
     "if (is_readable(reply)) {",
     "if (reply->kind == REPLY_HTTP && reply->status >= 500)\n"
     "        finding.says = OUTCOME_RETRYABLE;\n    else if (is_readable(reply)) {"),
    ("a late success of a run that was undone is forgotten", "engine/decide.c",
     "if (unwind_is_open(draft->run))\n            success_is_late(draft);",
     "if (false)\n            success_is_late(draft);"),
    ("nobody wakes what waits for a place of its tenant", "engine/tenants.c",
     "tenant->listed = false;\n        wake(runner, tenant);", "tenant->listed = false;"),
    ("places of what ended are not given back", "engine/tenants.c",
     "if (!active && slot->has_place)\n        tenant->active--;", ""),
    ("places of what was lost are not given back", "engine/tenants.c",
     "        tenant->active--;\n        list(runner, tenant);\n    }\n    slot->has_place = false;",
     "    }\n    slot->has_place = false;"),
    ("whatever a lost attempt was answered counts as applied", "engine/strays.c",
     ".applied = verdict.outcome == OUTCOME_APPLIED,", ".applied = true,"),
    ("a held step does not wait", "engine/forward.c",
     "for (uint16_t i = 0; i < step->held_by_count; i++)",
     "for (uint16_t i = 0; i < 0; i++)"),
    ("a corrected input is also that of what was claimed before", "engine/run.c",
     "if (meant && (!claim || claim >= correction->from_claim))", "if (meant)"),
    ("accepted counts as done", "engine/outcome.c",
     "return OUTCOME_IN_PROGRESS;\n    if (status >= 200", "return OUTCOME_APPLIED;\n    if (status >= 200"),
    ("what was asked about in vain is sent again", "engine/unknown.c",
     "case EFFECT_IRREVERSIBLE: return action->reconcile ? UNKNOWN_ASK : UNKNOWN_PARK;",
     "case EFFECT_IRREVERSIBLE: return action->reconcile ? UNKNOWN_REPEAT : UNKNOWN_PARK;"),
    ("a step is undone before what was built on it", "compensations/unwind.c",
     "free &= settled[step->needed_by[n]];", ";"),
    ("an unknown step on the way back is taken for not applied", "compensations/undo.c",
     "if (may_ask(step, side))\n        return undo(UNDO_ASK);\n    return "
     "undo_blocked(suspect_is_held(side) ? PARK_SUSPECT : PARK_OUTCOME_UNKNOWN);",
     "return undo(UNDO_NOTHING);"),
    ("a failed compensation counts as done", "compensations/undo.c",
     "case STEP_REFUSED: return undo_blocked(PARK_COMPENSATION_FAILED);",
     "case STEP_REFUSED: return undo(UNDO_UNDONE);"),
    ("a unit is resent under a new number", "engine/lane.c",
     "for (struct box *box = runner->sent; box; box = box->next)\n        box_send(runner, box);",
     "for (struct box *box = runner->sent; box; box = box->next) {\n        "
     "box->seq = ++runner->seq;\n        box_send(runner, box);\n    }"),
    ("a gap behind a failed unit counts as written", "engine/lane.c",
     "} else if (answer->verdict == UNIT_GAP) {", "} else if (false) {"),
    ("a loaded run does not recover", "engine/runner.c",
     "work_queue_first(runner, work_new(slot, EVENT_RECOVER));", ""),
    ("a SQL action that was rolled back counts as applied", "engine/runner.c",
     "if (input->answer.verdict == UNIT_APPLIED || input->answer.verdict == UNIT_ALREADY) {",
     "if (true) {"),
    ("commands go out before their records are acknowledged", "engine/lane.c",
     "    box_add(runner->open, work);\n}",
     "    box_add(runner->open, work);\n    for (uint32_t i = 0; i < work->decision.commands_count; "
     "i++)\n        if (work->decision.commands[i].kind == COMMAND_INVOKE)\n            "
     "command_invoke(runner, work->slot, &work->decision.commands[i], NULL);\n    "
     "work->decision.commands_count = 0;\n}"),
    ("a taken run id is started all the same", "engine/lane.c",
     "taken = taken_find(answer, work->slot->id);", "taken = NULL;"),
    ("fenced is ignored", "engine/lane.c",
     "if (answer->verdict == UNIT_FENCED ||", "if ("),
    ("the direction is not looked at when a branch retries after the turn", "engine/attempt.c",
     "return side->maybe_applied && !step->compensate.tolerant;", "return true;"),
    ("retries that wait go on after the turn", "compensations/unwind.c",
     "attempt_give_up(draft, instance, DIRECTION_EXECUTE);", ";"),
    ("max_parallel is ignored on the way forward", "engine/forward.c",
     "group->standings[STANDING_MOVING] < max_parallel &&", "true &&"),
    ("max_parallel is ignored on the way back", "compensations/unwind.c",
     "           group->undos[UNDO_MOVING] < max_parallel;\n}", "           max_parallel;\n}"),
    ("items are undone while others are in flight", "compensations/unwind.c",
     "return !group->standings[STANDING_MOVING] && !group->undos[UNDO_BLOCKED] &&",
     "return !group->undos[UNDO_BLOCKED] &&"),
    ("an item that a person is needed for is passed over on the way back",
     "compensations/unwind.c",
     "return !group->standings[STANDING_MOVING] && !group->undos[UNDO_BLOCKED] &&",
     "return !group->standings[STANDING_MOVING] &&"),
    ("items are undone oldest claim first", "engine/group.c",
     "return left < right ? 1 : left > right ? -1 : 0;",
     "return left < right ? -1 : left > right ? 1 : 0;"),
    ("a loop is over before all its items are undone", "compensations/unwind.c",
     ".over = group_is_over(group) && unwind_is_over(run, own),",
     ".over = !group->undos[UNDO_MOVING],"),
    ("an item is compensated twice", "compensations/undo.c",
     "case STEP_APPLIED: return undo(side->by_hand ? UNDO_BY_HAND : UNDO_UNDONE);",
     "case STEP_APPLIED: return undo(side->generation == 1 ? UNDO_DUE : UNDO_UNDONE);"),
    ("a loop is applied once its last item has begun", "engine/forward.c",
     "if (group->standings[STANDING_DONE] == group->count) {",
     "if (group->next == group->count) {"),
    ("the items of a loop are not kept", "engine/run.c",
     "record->effect.state.items = arena_str(arena, record->effect.state.items);",
     "record->effect.state.items = STR_NONE;"),
    ("what was claimed beside a refusal is sent all the same", "compensations/unwind.c",
     "            claim_withdraw(draft, instance);", "            ;"),
    ("a child that was undone counts as completed", "engine/children.c",
     "reply.child = CHILD_UNDONE;", "reply.child = CHILD_DONE;"),
    ("a child that is about to turn back counts as undone", "engine/children.c",
     "} else if (child->now.state == RUN_COMPENSATED && undo) {", "} else if (undo) {"),
    ("an applied child needs no undoing", "compensations/undo.c",
     "    if (step->compensate.kind != ACTION_NONE)\n        return undo(UNDO_DUE);",
     "    if (step->compensate.kind == ACTION_CHILD)\n        return undo(UNDO_NOTHING);\n"
     "    if (step->compensate.kind != ACTION_NONE)\n        return undo(UNDO_DUE);"),
    ("a repeated signal is kept again", "engine/wait.c",
     "return answer->code != ERR_NONE || first;", "return answer->code != ERR_NONE;"),
    ("a signal is forgotten by a load", "engine/run.c",
     "case RECORD_SIGNAL: signal_apply(run, &record->signal); break;",
     "case RECORD_SIGNAL: break;"),
    ("a worker's token is not compared", "engine/task.c",
     "if (!side->attempts || !wall_is_set(deadline) ||\n        !str_eq(draft->event->task.token, "
     "task_token(key, side, deadline, draft->scratch))) {",
     "if (!side->attempts || !wall_is_set(deadline)) {"),
    ("a worker's token does not name its attempt", "engine/task.c",
     'buf_printf(&text, " %u %lld ", side->attempts, (long long)deadline.us);',
     'buf_printf(&text, " %u %lld ", 1u, (long long)deadline.us);'),
    ("a take is no new attempt", "engine/task.c",
     "side.attempts++;\n    side.next_at = task->heartbeat_us",
     "side.attempts += !side.attempts;\n    side.next_at = task->heartbeat_us"),
    ("what was taken can be taken again", "engine/task.c",
     "if (side.state != STEP_WAITING || side.approval",
     "if ((side.state != STEP_WAITING && side.state != STEP_CLAIMED) || side.approval"),
    ("a task is not offered again after a load", "engine/task.c",
     "== ACTION_WORKER && side->state == STEP_WAITING)\n        offer_command",
     "== ACTION_NONE && side->state == STEP_WAITING)\n        offer_command"),
    ("a failure counts although its worker was given up", "engine/task.c",
     "bool late = complete && side->maybe_applied &&",
     "bool late = side->maybe_applied &&"),
    ("a heartbeat does not keep the task", "engine/task.c",
     "            side.next_at = next;\n", ""),
    ("a silent worker has certainly done nothing", "engine/task.c",
     "struct reply reply = {.kind = REPLY_NO_ANSWER,",
     "struct reply reply = {.kind = REPLY_NOT_CONNECTED,"),
    ("a repeated completion is refused", "engine/task.c",
     "bool same = complete ? side->state == STEP_APPLIED",
     "bool same = complete ? side->state == STEP_NONE"),
    ("a worker is told before its take is durable", "engine/lane.c",
     "    box_add(runner->open, work);\n}",
     "    box_add(runner->open, work);\n    if (work->event.kind == EVENT_TAKE && "
     "!work->decision.answer.code) {\n        struct runner_answer now = {.task = "
     "work->decision.task};\n        answer_send(work, &now);\n    }\n}"),
    ("a claimed task is sent anew by a take-over", "engine/decide.c",
     "if (step_action(decide_step(draft, instance), direction)->kind == ACTION_WORKER)\n"
     "        task_recover(draft, instance, direction);",
     "if (side->state == STEP_CLAIMED && step_action(decide_step(draft, instance), "
     "direction)->kind == ACTION_WORKER) {\n        struct effect_state again = *side;\n        "
     "task_offer(draft, instance, direction, &again);\n        draft_effect(draft, instance, "
     "direction, &again);\n    } else if (step_action(decide_step(draft, instance), "
     "direction)->kind == ACTION_WORKER)\n        task_recover(draft, instance, direction);"),
    ("a queued run starts before its time", "engine/decide.c",
     "(wall_is_set(run->start.start_at) && !wall_passed(run->start.start_at, event->now))",
     "false"),
    ("nobody wakes up for a queued run", "engine/decide.c",
     "? WALL_NONE\n                              : run->start.start_at,",
     "? WALL_NONE\n                              : WALL_NONE,"),
    ("a tick is taken without a look at the row's last one", "tests/sim/schedules.c",
     "if (!schedule->exists || schedule->last_tick.us >= question->tick.us)",
     "if (!schedule->exists)"),
    ("a tick does not look for the run before it in the inbox", "tests/sim/schedules.c",
     "(row && !run_state_is_terminal(row->now.state)) || (entry && !entry->settled);",
     "row && !run_state_is_terminal(row->now.state);"),
    ("a tick is started before its time", "engine/tick.c",
     "    if (!wall_passed(tick, now))\n        return WALL_NONE;\n", ""),
    ("a tick whose answer is lost counts as dealt with", "engine/tick.c",
     "        state->last = WALL_NONE;\n", "        state->last = state->tick;\n"),
    ("a tick that finds the run before it open is passed over", "engine/tick.c",
     "case TICK_ANSWER_BUSY: state->busy_until = state->asked_at; break;",
     "case TICK_ANSWER_BUSY: state->last = state->tick; break;"),
    ("ticks that waited count as missed after a take-over", "engine/tick.c",
     "    state->busy_until = busy_until;\n", "    state->busy_until = WALL_NONE;\n"),
    ("only one of the ticks that waited is started", "engine/tick.c",
     "        state->busy_until = state->asked_at; /* ticks",
     "        state->busy_until = WALL_NONE; /* ticks"),
    ("catch_up: all makes up for the newest tick only", "engine/tick.c",
     "if (waits || schedule->catch_up == CATCH_UP_ALL)", "if (waits)"),
    ("catch_up: last forgets the missed tick", "engine/tick.c",
     "return missed && schedule->catch_up == CATCH_UP_NONE ?", "return missed ?"),
]


def survived(done):
    return None if done.returncode else f"survived {SEEDS} seeds"


if __name__ == "__main__":
    sys.exit(mutants.main("sim", MUTANTS, survived, {"SEEDS": SEEDS}))
