#!/usr/bin/env python3
"""The operator's hand: every verb in every state, corrected input, callbacks, races, and the account
that a parked run gives of itself."""

import json
import threading
import time

from lib import Answer, case, main, wait_until

# One step of its own for each state that a run may rest in; `kind` of the input chooses it.
FLOW = """
workflow: %(name)s
input: {type: object, required: [kind], properties: {kind: {type: string}}}
services:
  svc: {url: "http://127.0.0.1:1", timeout: 300s, idempotency: {header: Idempotency-Key, ttl: 1d}}
  plain: {url: "http://127.0.0.1:1", timeout: 200ms, idempotency: none}
defaults: {retry: {attempts: 1}, compensate_retry: {attempts: 1}}
%(more)s
steps:
  - {id: first, action: {post: svc/first}, compensate: {post: svc/undo_first}}
  - id: claimed
    if: ${{ input.kind == "claimed" || input.kind == "paused" }}
    timeout: 10m
    action: {post: svc/hold}
    compensate: {post: svc/undo}
  - id: retrying
    if: ${{ input.kind == "retrying" }}
    retry: {attempts: 100, delay: 10m, jitter: 0%%}
    action: {post: svc/busy}
    compensate: {post: svc/undo}
  - {id: timer, if: '${{ input.kind == "timer" }}', action: {sleep: 1h}}
  - {id: signal, if: '${{ input.kind == "signal" }}', action: {wait_for: go}}
  - {id: worker, if: '${{ input.kind == "worker" }}', action: {worker: q}, compensate: {none: test}}
  - id: asked
    if: ${{ input.kind == "asked" }}
    action: {post: plain/lost}
    reconcile: {get: plain/ask, applied: "response.body.n == 1", in_progress: "response.body.n == 0", every: 10m, for: 1h}
    compensate: {post: svc/undo}
  - {id: unknown, if: '${{ input.kind == "unknown" || input.kind == "late" }}', action: {post: plain/lost}, compensate: {post: svc/undo}}
  - {id: failed, if: '${{ input.kind == "failed" }}', on_failure: park, action: {post: svc/no}, compensate: {post: svc/undo}}
  - {id: repair, if: '${{ input.kind == "repair" }}', on_failure: repair, action: {post: svc/no}, compensate: {post: svc/undo}}
  - id: conflict
    if: ${{ input.kind == "conflict" }}
    action: {post: svc/conflict, outcomes: [{when: "response.status == 422", is: conflict}]}
    compensate: {post: svc/undo}
  - {id: back, if: '${{ input.kind == "back" }}', action: {post: svc/no}, compensate: {post: svc/undo}}
  - {id: stuck, if: '${{ input.kind == "stuck" }}', action: {post: svc/no}, compensate: {post: svc/undo}}
  - {id: budget, if: '${{ input.kind == "budget" }}', action: {post: svc/no}, compensate: {post: svc/undo}}
  - {id: pivot, if: '${{ input.kind == "pivot" }}', effect: irreversible, action: {post: svc/pivot}}
  - {id: after, if: '${{ input.kind == "pivot" }}', action: {post: svc/no}, compensate: {post: svc/undo}}
  - {id: held, if: '${{ input.kind == "compensated" || input.kind == "abandoned" }}', action: {sleep: 1h}}
"""

PARKED = {"unknown": "outcome_unknown", "failed": "step_failed", "repair": "repair",
          "conflict": "key_conflict", "stuck": "compensation_failed", "pivot": "pivot_passed",
          "budget": "compensation_budget", "late": "late_success"}
STATES = {"queued": "queued", "claimed": "running", "retrying": "running", "timer": "running",
          "signal": "running", "worker": "running", "asked": "running", "paused": "running",
          "back": "compensating", "completed": "completed", "window": "completed",
          "compensated": "compensated", "abandoned": "abandoned",
          **{kind: "parked" for kind in PARKED}}
VERBS = ("pause", "resume", "cancel", "compensate", "abandon", "retry", "settle", "skip", "signal")


class States:
    """Runs KIND.VERB, each resting in the state of its kind until the test ends."""

    def __init__(self, env):
        self.env = env
        self.gate = threading.Event()
        env.closers.append(self.gate.set)
        env.keys_known = False
        ledger = self.ledger = env.ledger("svc")
        env.services["plain"] = ledger
        env.config_write()
        ledger.always("/hold", Answer(200, gate=self.gate))
        ledger.always("/busy", Answer(503))
        ledger.always("/no", Answer(422, {"code": "NO"}))
        ledger.always("/conflict", Answer(422))
        ledger.always("/lost", Answer(act="never", effect=False))
        ledger.always("/ask", Answer(200, {"n": 0}, effect=False))
        ledger.always("/undo_first", lambda r: {
            "back": Answer(200, gate=self.gate), "stuck": Answer(422),
            "budget": Answer(503)}.get(r.key.split(".")[0], Answer(200)))
        self.daemon = env.daemon("a").start()
        self.daemon.apply(FLOW % {"name": "flow", "more": ""})
        self.daemon.apply(FLOW % {"name": "window", "more": "compensatable_for: 1h"})
        self.daemon.apply(FLOW.replace("compensate_retry: {attempts: 1}",
                                       "compensate_retry: {attempts: 100, delay: 100ms, factor: 1}")
                          % {"name": "budget", "more": "compensation_budget: 1s"})

    def begin(self, kind, name):
        more = {"start_at": "2099-01-01T00:00:00Z"} if kind == "queued" else {}
        workflow = kind if kind in ("window", "budget") else "flow"
        self.daemon.start_run(workflow, {"kind": kind}, "%s.%s" % (kind, name), **more)

    def settle(self, kind, name):
        """Brings it where it is to rest."""
        run = "%s.%s" % (kind, name)
        if kind in ("compensated", "abandoned"):
            verb = "cancel" if kind == "compensated" else "abandon"
            assert self.daemon.verb(run, verb).status == 200
        if kind == "late":
            self.env.wait_state(run, "parked")
            assert self.daemon.verb(run, "abandon").status == 200
            reply = self.daemon.http("POST", "/v1/answers",
                                     {"key": run + ":unknown:execute", "applied": True})
            assert reply.status == 200, reply
        if kind == "paused":
            assert self.daemon.verb(run, "pause").status == 200

    def rests(self, kind, name):
        run = "%s.%s" % (kind, name)
        wanted = {"timer": "timer", "signal": "signal", "worker": "worker", "asked": "reconcile",
                  "retrying": "retry"}.get(kind)
        row = self.env.rows("select state, park_reason, waiting_for from saga.runs "
                            "where shard = saga.shard_of('%s') and run_id = '%s'" % (run, run))[0]
        if kind == "claimed" or kind == "paused":
            return row["state"] == "running" and self.ledger.seen(key=run + ":claimed:execute")
        if kind == "back":
            return self.ledger.seen(key=run + ":first:compensate")
        return row["state"] == STATES[kind] and row["park_reason"] == PARKED.get(kind) and \
            (wanted is None or row["waiting_for"] == wanted)

    def step(self, kind):
        return {"late": "unknown", "stuck": "first:compensate", "budget": "first:compensate",
                "back": "first:compensate", "pivot": "after", "paused": "claimed"}.get(
                    kind, kind if "id: %s\n" % kind in FLOW or "{id: %s," % kind in FLOW
                    else "first")

    def act(self, kind, verb, name=None):
        run = "%s.%s" % (kind, name or verb)
        if verb == "signal":
            return self.daemon.http("POST", "/v1/runs/%s/signal" % run, {"name": "go", "data": 1})
        if verb in ("settle", "skip"):
            more = {"applied": True} if verb == "settle" else {}
            return self.daemon.verb(run, verb, self.step(kind), **more)
        return self.daemon.verb(run, verb)

    def by_hand(self, kind, verb):
        run = "%s.%s" % (kind, verb)
        if verb == "signal":
            return self.daemon.ctl("signal", run, "go", "--data", "1")
        more = [self.step(kind)] if verb in ("settle", "skip") else []
        more += ["--applied"] if verb == "settle" else []
        return self.daemon.ctl(verb, run, *more, "--reason", "a test")


# How each verb ends in each state: the answer, that of its repetition (not of retry: by then the run
# goes on), and where the run is then, if it is somewhere else.
TABLE = """
            pause    resume   cancel               compensate           abandon           retry              settle                skip                  signal
queued      200 200  200 200  200 200 compensated  200 200 compensated  200 200 abandoned 409                409 409               409 409               200 200
claimed     200 200  200 200  200 200 compensating 200 200 compensating 200 200 abandoned 409                409 409               409 409               200 200
paused      200 200  200 200  200 200 compensating 200 200 compensating 200 200 abandoned 409                409 409               409 409               200 200
retrying    200 200  200 200  200 200 compensated  200 200 compensated  200 200 abandoned 409                409 409               409 409               200 200
timer       200 200  200 200  200 200 compensated  200 200 compensated  200 200 abandoned 409                409 409               409 409               200 200
signal      200 200  200 200  200 200 compensated  200 200 compensated  200 200 abandoned 409                409 409               409 409               200 200 completed
worker      200 200  200 200  200 200 compensated  200 200 compensated  200 200 abandoned 409                409 409               409 409               200 200
asked       200 200  200 200  200 200 compensating 200 200 compensating 200 200 abandoned 409                200 200 completed     409 409               200 200
back        200 200  200 200  200 200              200 200              200 200 abandoned 409                409 409               409 409               409 409
unknown     200 200  200 200  200 200              200 200              200 200 abandoned 409                200 200 completed     200 200 completed     200 200
failed      200 200  200 200  200 200 compensated  200 200 compensated  200 200 abandoned 200                409 409               200 200 completed     200 200
repair      200 200  200 200  200 200 compensated  200 200 compensated  200 200 abandoned 200                409 409               200 200 completed     200 200
conflict    200 200  200 200  200 200              200 200              200 200 abandoned 409                200 200 completed     200 200 completed     200 200
stuck       200 200  200 200  200 200              200 200              200 200 abandoned 200                409 409               200 200 compensated   409 409
pivot       200 200  200 200  409 409              409 409              200 200 abandoned 200                409 409               200 200 completed     200 200
budget      200 200  200 200  200 200              200 200              200 200 abandoned 200                409 409               200 200 compensated   409 409
late        200 200  200 200  200 200 compensated  200 200 compensated  200 200 abandoned 409                409 409               409 409               200 200
completed   409 409  409 409  409 409              409 409              409 409           409                409 409               409 409               409 409
window      409 409  409 409  409 409              200 200 compensated  409 409           409                409 409               409 409               409 409
compensated 409 409  409 409  200 200              200 200              409 409           409                409 409               409 409               409 409
abandoned   409 409  409 409  409 409              409 409              200 200           409                409 409               409 409               409 409
"""


def table():
    """{kind: {verb: (first, again or None, state)}}"""
    found = {}
    for line in TABLE.strip().split("\n")[1:]:
        words = line.split()
        kind, words = words[0], words[1:]
        found[kind] = {}
        for verb in VERBS:
            first = int(words.pop(0))
            again = int(words.pop(0)) if verb != "retry" else None
            state = words.pop(0) if words and not words[0].isdigit() else STATES[kind]
            found[kind][verb] = (first, again, state)
        assert not words, line
    return found


@case
def verbs_apart(env):
    """Every verb in every state: obeyed or told that it lost (exit 9), the same when it is repeated,
    and where it leads; every state that has not ended has a verb that leads out."""
    states, expected, wrong = States(env), table(), []
    assert set(expected) == set(STATES)
    for kind in STATES:
        for verb in VERBS:
            states.begin(kind, verb)
    for kind in ("late", "compensated", "abandoned", "paused"):
        for verb in VERBS:
            wait_until("%s has begun" % kind, lambda: env.state("%s.%s" % (kind, verb)) in
                       ("running", "parked"))
            states.settle(kind, verb)
    for kind in STATES:
        for verb in VERBS:
            wait_until("%s.%s rests" % (kind, verb), lambda: states.rests(kind, verb))
    for kind, verbs in expected.items():
        for verb, (first, again, state) in verbs.items():
            said = states.act(kind, verb)
            if said.status != first or (first == 409 and not said.json()["detail"]):
                wrong.append("%s of %s: %r, not %d" % (verb, kind, said, first))
            if again:
                repeated = states.by_hand(kind, verb)
                if repeated.code != {200: 0, 409: 9}[again]:
                    wrong.append("%s of %s again: %r, not %d" % (verb, kind, repeated, again))
            if verb == "retry" and first == 200:
                state = None
            if state and not reached(env, "%s.%s" % (kind, verb), state):
                wrong.append("%s of %s: it is %s, not %s" %
                             (verb, kind, env.state("%s.%s" % (kind, verb)), state))
    assert not wrong, "\n".join(wrong)
    for kind, state in STATES.items():
        if state not in ("completed", "compensated", "abandoned"):
            assert any(end != state and end != "parked" for _, _, end in expected[kind].values()), kind
    states.gate.set()


def reached(env, run, state):
    try:
        return env.wait_state(run, state, timeout=10)
    except AssertionError:
        return False


if __name__ == "__main__":
    main()
