#!/usr/bin/env python3
"""The matrix sees broken rules: for each of these the ledger must find a broken promise.

    test_mutants.py          all of them
    test_mutants.py WORDS    those whose name has these words; V=1 says what saw it
"""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.chdir(ROOT)
sys.path.insert(0, os.path.join(ROOT, "tests", "lib"))
import mutants  # noqa: E402

MUTANTS = [
    ("a key that is past its lifetime is relied on", "engine/unknown.c",
     "return wall_is_set(side->key_valid_until) && at.us <= side->key_valid_until.us;",
     "return wall_is_set(side->key_valid_until);"),
    ("an unknown outcome is repeated without key support", "engine/unknown.c",
     "return wall_is_set(side->key_valid_until) && at.us <= side->key_valid_until.us;",
     "return true;"),
    ("an irreversible action is repeated", "engine/unknown.c",
     "case EFFECT_IRREVERSIBLE: return action->reconcile ? UNKNOWN_ASK : UNKNOWN_PARK;",
     "case EFFECT_IRREVERSIBLE: return UNKNOWN_REPEAT;"),
    ("a claimed effect is sent again after a take-over, whatever its tier", "engine/attempt.c",
     "way = unknown_way(action, &side, now);", "way = UNKNOWN_REPEAT;"),
    ("a later refusal wipes out an earlier unknown", "engine/attempt.c",
     "side.state = side.maybe_applied ? STEP_UNKNOWN : STEP_REFUSED;\n        side.ended_at = "
     "draft->event->now;\n        break;\n    case OUTCOME_CONFLICT:",
     "side.state = STEP_REFUSED;\n        side.maybe_applied = false;\n        side.ended_at = "
     "draft->event->now;\n        break;\n    case OUTCOME_CONFLICT:"),
    ("an early \"not applied\" is believed", "engine/ask.c",
     "reply->sent_at.us < settled.us;", "false;"),
    ("a question that failed counts as \"not applied\"", "engine/ask.c",
     "if (is_readable(reply)) {",
     "if (reply->kind == REPLY_HTTP && reply->status >= 500)\n"
     "        finding.says = OUTCOME_RETRYABLE;\n    else if (is_readable(reply)) {"),
    ("an unknown step on the way back is taken for not applied", "compensations/undo.c",
     "if (may_ask(step, side))\n        return undo(UNDO_ASK);\n    return "
     "undo_blocked(suspect_is_held(side) ? PARK_SUSPECT : PARK_OUTCOME_UNKNOWN);",
     "return undo(UNDO_NOTHING);"),
    ("a failed compensation counts as done", "compensations/undo.c",
     "case STEP_REFUSED: return undo_blocked(PARK_COMPENSATION_FAILED);",
     "case STEP_REFUSED: return undo(UNDO_UNDONE);"),
    ("a step is undone before what was built on it", "compensations/unwind.c",
     "free &= settled[step->needed_by[n]];", ";"),
    ("what was asked about in vain is asked about for ever", "compensations/unwind.c",
     "if (status == UNDO_ASK && unknown_may_ask(&step->action, &instance->execute)) {",
     "if (status == UNDO_ASK && step->action.reconcile) {"),
    ("an undo that may have happened is called not undone", "compensations/residue.c",
     "instance->execute.state == STEP_UNKNOWN || instance->compensate.state == STEP_UNKNOWN;",
     "instance->execute.state == STEP_UNKNOWN;"),
    ("the residue leaves out what is not undone", "compensations/residue.c",
     "case UNDO_DUE: return unknown ? \"unknown\" : \"not_undone\";",
     "case UNDO_DUE: return unknown ? \"unknown\" : NULL;"),
    ("the residue leaves out what the run went on without", "compensations/residue.c",
     "(unknowns_only && instance->execute.state != STEP_UNKNOWN)", "unknowns_only"),
    ("accepted is the same as not sent: an unknown attempt is forgotten", "engine/attempt.c",
     "if (verdict.outcome == OUTCOME_UNKNOWN || accepted) {", "if (accepted) {"),
]


def survived(done):
    if "BROKEN" in done.stdout:
        return None
    return "survived" if done.returncode == 0 else "the ledger did not see it, only the figures"


if __name__ == "__main__":
    sys.exit(mutants.main("matrix", MUTANTS, survived, {}))
