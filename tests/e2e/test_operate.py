#!/usr/bin/env python3
"""The operator's hand: every verb in every state, corrected input, callbacks, races, and the account
that a parked run gives of itself."""

import re
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


# How each verb ends in each state: the answer, that of its repetition (a retry: while the run goes on
# by it), and where the run is then, if it is somewhere else.
TABLE = """
            pause    resume   cancel               compensate           abandon           retry              settle                skip                  signal
queued      200 200  200 200  200 200 compensated  200 200 compensated  200 200 abandoned 409 409            409 409               409 409               200 200
claimed     200 200  200 200  200 200 compensating 200 200 compensating 200 200 abandoned 409 409            409 409               409 409               200 200
paused      200 200  200 200  200 200 compensating 200 200 compensating 200 200 abandoned 409 409            409 409               409 409               200 200
retrying    200 200  200 200  200 200 compensated  200 200 compensated  200 200 abandoned 409 409            409 409               409 409               200 200
timer       200 200  200 200  200 200 compensated  200 200 compensated  200 200 abandoned 409 409            409 409               409 409               200 200
signal      200 200  200 200  200 200 compensated  200 200 compensated  200 200 abandoned 409 409            409 409               409 409               200 200 completed
worker      200 200  200 200  200 200 compensated  200 200 compensated  200 200 abandoned 409 409            409 409               409 409               200 200
asked       200 200  200 200  200 200 compensating 200 200 compensating 200 200 abandoned 409 409            200 200 completed     409 409               200 200
back        200 200  200 200  200 200              200 200              200 200 abandoned 409 409            409 409               409 409               409 409
unknown     200 200  200 200  200 200              200 200              200 200 abandoned 409 409            200 200 completed     200 200 completed     200 200
failed      200 200  200 200  200 200 compensated  200 200 compensated  200 200 abandoned 200 200            409 409               200 200 completed     200 200
repair      200 200  200 200  200 200 compensated  200 200 compensated  200 200 abandoned 200 200            409 409               200 200 completed     200 200
conflict    200 200  200 200  200 200              200 200              200 200 abandoned 409 409            200 200 completed     200 200 completed     200 200
stuck       200 200  200 200  409 409              409 409              200 200 abandoned 200 200            409 409               200 200 compensated   409 409
pivot       200 200  200 200  409 409              409 409              200 200 abandoned 200 200            409 409               200 200 completed     200 200
budget      200 200  200 200  409 409              409 409              200 200 abandoned 200 200            409 409               200 200 compensated   409 409
late        200 200  200 200  200 200 compensated  200 200 compensated  200 200 abandoned 409 409            409 409               409 409               200 200
completed   409 409  409 409  409 409              409 409              409 409           409 409            409 409               409 409               409 409
window      409 409  409 409  409 409              200 200 compensated  409 409           409 409            409 409               409 409               409 409
compensated 409 409  409 409  200 200              200 200              409 409           409 409            409 409               409 409               409 409
abandoned   409 409  409 409  409 409              409 409              200 200           409 409            409 409               409 409               409 409
"""


def table():
    """{kind: {verb: (first, again, state)}}"""
    found = {}
    for line in TABLE.strip().split("\n")[1:]:
        words = line.split()
        kind, words = words[0], words[1:]
        found[kind] = {}
        for verb in VERBS:
            first = int(words.pop(0))
            again = int(words.pop(0))
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


# --- callbacks -------------------------------------------------------------------------------------

PAY = """
workflow: pay
compensatable_for: 1h
services:
  bank: {url: "http://127.0.0.1:1", timeout: 300ms, idempotency: none}
  svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}
defaults: {retry: {attempts: 1}}
steps:
  - {id: a, action: {post: bank/a}, compensate: {post: svc/undo_a}}
  - {id: b, action: {post: svc/b, body: {from: "${{ steps.a.output }}"}}, compensate: {post: svc/undo_b}}
"""


def paying(env):
    ledger = env.ledger("svc")
    env.services["bank"] = ledger
    env.config_write()
    env.keys_known = False
    ledger.always("/a", Answer(act="never", effect=False))
    daemon = env.daemon("a").start()
    daemon.apply(PAY)
    return ledger, daemon


def answer(daemon, key, **body):
    return daemon.http("POST", "/v1/answers", {"key": key, **body})


@case
def callbacks(env):
    """A participant's word on a key ends an unknown outcome, twice is once, and it is refused where
    there is nothing that it could be about."""
    ledger, daemon = paying(env)
    daemon.start_run("pay", {}, "one")
    assert env.wait_state("one") == "parked"
    for body, status, code in (({}, 422, "key_missing"), ({"key": ""}, 422, "key_missing"),
                               ({"key": "nonsense"}, 422, "key_missing"),
                               ({"key": 7}, 422, "key_missing"),
                               ({"key": "one:a:execute"}, 422, "applied_missing"),
                               ({"key": "one:a:execute", "applied": "yes"}, 422, "applied_missing"),
                               ({"key": "one:a:execute", "applied": True, "text": "x" * 1001}, 422,
                                "text_too_long"),
                               ({"key": "one:a:execute", "applied": True, "why": 1}, 422,
                                "unknown_member"),
                               ({"key": "one:a:sideways", "applied": True}, 404, "not_found"),
                               ({"key": "one:b:execute", "applied": True}, 404, "not_found"),
                               ({"key": "one:z:execute", "applied": True}, 404, "not_found"),
                               ({"key": "one:a:execute@2", "applied": True}, 404, "not_found"),
                               ({"key": "nobody:a:execute", "applied": True}, 404, "not_found")):
        reply = daemon.http("POST", "/v1/answers", body)
        assert (reply.status, reply.json()["code"]) == (status, code), (body, reply)
    assert env.state("one") == "parked"
    for _ in range(2):
        reply = answer(daemon, "one:a:execute", applied=True, output={"id": 7}, text="called back")
        assert reply.status == 200, reply
    assert env.wait_state("one") == "completed"
    assert ledger.seen(key="one:b:execute")[0].json() == {"from": {"id": 7}}
    assert len(ledger.seen(path="/a")) == 1
    found = env.rows("select source, says, detail, actor from saga.findings where run_id = 'one'")
    assert [(f["source"], f["says"], f["detail"]) for f in found] == \
        [("answer", "applied", "called back")], found
    # after the end: the same again is fine, and another word is evidence, no more
    assert answer(daemon, "one:a:execute", applied=True).status == 200
    assert answer(daemon, "one:a:execute", applied=False, text="no").status == 200
    assert env.state("one") == "completed"
    assert len(env.rows("select * from saga.findings where run_id = 'one'")) == 2


@case
def callbacks_late(env):
    """A success that is told after the step counted as not applied, and the run was compensated, is
    undone."""
    ledger, daemon = paying(env)
    daemon.start_run("pay", {}, "late")
    assert env.wait_state("late") == "parked"
    assert daemon.verb("late", "cancel").status == 200
    assert daemon.verb("late", "settle", "a:execute", applied=False).status == 200
    assert env.wait_state("late") == "compensated"
    assert not ledger.seen(path="/undo_a")
    result = daemon.ctl("answer", "late:a:execute", "--applied", "--output", '{"id": 1}',
                        "--text", "it went through after all")
    assert result.code == 0, result
    wait_until("it is undone", lambda: len(ledger.done("/undo_a")) == 1)
    assert env.wait_state("late") == "compensated"
    assert daemon.ctl("answer", "late:b:execute", "--refused").code == 3
    assert daemon.ctl("answer", "nonsense", "--refused").code == 2


@case
def callbacks_elsewhere(env):
    """At a daemon that does not own the run, and by SQL, the answers are the same."""
    ledger, daemon = paying(env)
    runs = ["r%d" % n for n in range(8)]
    for run in runs:
        daemon.start_run("pay", {}, run)
    env.wait_all(8)
    other = env.daemon("b").start()
    wait_until("both have shards", lambda: env.sql(
        "select count(*) from saga.daemons where shards > 0") == "2", 60)
    for run in runs[:6]:
        for at in (daemon, other):
            assert answer(at, run + ":b:execute", applied=True).status == 404, run
            assert answer(at, run + "x:a:execute", applied=True).status == 404, run
            assert at.verb(run, "retry", input=[1]).status == 422, run
            assert at.verb(run, "settle", "z", applied=True).status == 404, run
        for at in (other, daemon):
            assert answer(at, run + ":a:execute", applied=True, output={"id": run}).status == 200
        env.wait_state(run, "completed")
    by_sql = env.sql("select saga.answer('r6:a:execute', true, '{\"id\": 6}', 'by SQL')")
    refused = env.sql("select saga.answer('r6:b:execute', true)")
    env.wait_state("r6", "completed")
    wait_until("both are decided", lambda: env.sql(
        "select count(*) from saga.requests where kind = 'answer' and outcome is null") == "0")
    outcomes = {row["id"]: row["outcome"] for row in env.rows("select id, outcome from saga.requests")}
    assert outcomes[by_sql] == "done" and outcomes[refused] in ("refused", "done"), outcomes
    for bad in ("null, true", "'nonsense', true", "'r7:a:execute', null", "'r7:a:sideways', true"):
        try:
            env.sql("select saga.answer(%s)" % bad)
        except AssertionError as error:
            assert "answer needs a key" in str(error), error
        else:
            raise AssertionError("it was taken: %s" % bad)
    assert daemon.verb("r7", "abandon").status == 200


# --- corrected input -------------------------------------------------------------------------------

REPAIR = """
workflow: repair
input: {type: object, required: [account], properties: {account: {type: string, minLength: 2}}}
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
defaults: {retry: {attempts: 1}}
steps:
  - {id: hold, action: {post: svc/hold, body: "${{ input.account }}"}, compensate: {post: svc/free, body: "${{ input.account }}"}}
  - {id: pay, on_failure: repair, action: {post: svc/pay, body: "${{ input.account }}"}, compensate: {post: svc/back, body: "${{ input.account }}"}}
  - {id: tell, on_failure: park, action: {post: svc/tell, body: "${{ input.account }}"}, compensate: {none: told}}
"""


@case
def corrected_input(env):
    """retry --input: what is sent from now on sees the new input under a new key, what was applied
    keeps its own; --step-input replaces one body; all of it is shown."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(REPAIR)
    wrong = lambda r: Answer(422, {"code": "NO"}) if r.json() != "right" else Answer(200)
    ledger.always("/pay", wrong)
    ledger.always("/tell", lambda r: Answer(422) if isinstance(r.json(), str) else Answer(200))
    daemon.start_run("repair", {"account": "wrong"}, "one")
    assert env.wait_state("one") == "parked"
    reason = ("--reason", "typing error")
    for args, code, said in (
            (["--input", "{}"], 2, "input:"), (["--input", "[1]"], 2, "it must be an object"),
            (["--input", '{"account": "x"}'], 2, "/account"),
            (["--input", "{"], 2, "not JSON"), (["--input", "@/nowhere"], 2, "could not read"),
            (["--step-input", "nope"], 2, "not JSON")):
        result = daemon.ctl("retry", "one", *args, *reason)
        assert result.code == code and said in result.err, (args, result)
    assert env.state("one") == "parked" and len(ledger.seen(path="/pay")) == 1
    result = daemon.ctl("retry", "one", "--input", "-", *reason, stdin=b'{"account": "right"}')
    assert result.code == 0, result
    wait_until("it is parked at tell", lambda: env.sql(
        "select step_id from saga.dead_letters") == "tell")
    assert [(r.key, r.json()) for r in ledger.seen(path="/pay")] == \
        [("one:pay:execute", "wrong"), ("one:pay:execute@2", "right")]
    assert len(ledger.seen(path="/hold")) == 1
    result = daemon.ctl("retry", "one", "--step-input", '{"told": 1}', *reason)
    assert result.code == 0 and env.wait_state("one") == "completed", result
    assert ledger.seen(path="/tell")[-1].json() == {"told": 1}
    shown = daemon.ctl("show", "one", "--json").json()
    steps = {step["id"]: step for step in shown["steps"]}
    assert [i["input"] for i in shown["inputs"]] == [{"account": "right"}], shown["inputs"]
    assert shown["input"] == {"account": "wrong"}
    assert "typing error" in steps["pay"]["renewed"] and steps["tell"]["step_input"] == {"told": 1}
    assert steps["hold"]["renewed"] is None and steps["hold"]["step_input"] is None
    text = daemon.ctl("show", "one").out
    for said in ("What people corrected", '{"account":"right"}', "a new key", '{"told":1}'):
        assert said in text, (said, text)
    rows = env.rows("select number, direction, input, actor from saga.inputs")
    assert len(rows) == 1 and rows[0]["actor"].startswith("uid:"), rows
    # The way back: hold was done with the first input, pay with the second.
    daemon.start_run("repair", {"account": "wrong"}, "two")
    assert env.wait_state("two") == "parked"
    assert daemon.verb("two", "retry", input={"account": "right"}).status == 200
    wait_until("it is parked at tell", lambda: env.sql(
        "select step_id from saga.dead_letters where run_id = 'two'") == "tell")
    assert daemon.verb("two", "compensate").status == 200
    assert env.wait_state("two") == "compensated"
    assert ledger.seen(path="/free")[0].json() == "wrong"
    assert ledger.seen(path="/back")[0].json() == "right"


@case
def until_when_it_may_be_undone(env):
    """A completed run says until when it may be undone; after that it is refused, in words."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    source = ("workflow: flow\n%sservices: {svc: {url: \"http://127.0.0.1:1\"}}\nsteps:\n"
              "  - {id: a, action: {post: svc/a}, compensate: {post: svc/undo_a}}\n")
    daemon.apply(source % "compensatable_for: 2s\n")
    for run in ("in_time", "too_late"):
        daemon.start_run("flow", {}, run)
        assert env.wait_state(run) == "completed"
    shown = daemon.ctl("show", "in_time")
    assert "undoable     until 2" in shown.out and "sagactl compensate in_time" in shown.out, shown
    assert env.sql("select undoable_until = ended_at + interval '2 s' from saga.runs "
                   "where run_id = 'in_time'") == "t"
    assert daemon.ctl("compensate", "in_time", "--reason", "sent back").code == 0
    assert env.wait_state("in_time") == "compensated" and len(ledger.done("/undo_a")) == 1
    time.sleep(2)
    result = daemon.ctl("compensate", "too_late", "--reason", "sent back")
    assert result.code == 9 and "it could be undone until 2" in result.err, result
    shown = daemon.ctl("show", "too_late").out
    assert "no more: it was until 2" in shown and "sagactl compensate" not in shown, shown
    daemon.apply(source % "")
    daemon.start_run("flow", {}, "never")
    assert env.wait_state("never") == "completed"
    assert daemon.show("never")["undoable_until"] is None
    result = daemon.ctl("compensate", "never", "--reason", "sent back")
    assert result.code == 9 and "compensatable_for" in result.err, result


@case
def what_stopped_it_after_a_refusal(env):
    """Where one step's refusal turned the run back and another's undo is refused, the list tells
    the error of the step that it names; the first failure stands beside why it turned back."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply("workflow: flow\nservices: {svc: {url: \"http://127.0.0.1:1\"}}\nsteps:\n"
                 "  - {id: charge, action: {post: svc/charge}, compensate: {post: svc/refund}}\n"
                 "  - {id: ship, action: {post: svc/ship}, compensate: {post: svc/unship}}\n")
    ledger.always("/ship", Answer(422, {"code": "no_address", "message": "where to?"}))
    ledger.always("/refund", Answer(409, {"code": "refund_closed", "message": "closed on Monday"}))
    daemon.start_run("flow", {}, "r1")
    assert env.wait_state("r1") == "parked"
    (line,) = [line for line in daemon.ctl("dead").out.splitlines() if line.startswith("r1 ")]
    assert re.search(r" charge .* 409 refund_closed: closed on Monday$", line), line
    assert daemon.show("r1")["error"]["code"] == "no_address"
    for args in (["show", "r1"], ["dead", "show", "r1"]):
        out = daemon.ctl(*args).out
        assert re.search("^ *error +charge: 409 refund_closed: closed on Monday$", out, re.M), out
        assert re.search(r"^ *turned back +a step was refused for good "
                         r"\(ship: 422 no_address: where to\?\)$", out, re.M), out


@case
def what_stopped_it(env):
    """Where a person's word turned a run back and its refund is refused, the error is the refund's;
    the person's reason stands beside why it turned back. After a retry both refusals are told."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply("workflow: flow\nservices: {svc: {url: \"http://127.0.0.1:1\"}}\n"
                 "compensatable_for: 1h\nsteps:\n"
                 "  - {id: charge, action: {post: svc/charge}, compensate: {post: svc/refund}}\n")
    ledger.always("/refund", Answer(409, {"code": "refund_closed", "message": "closed on Monday"}))
    daemon.start_run("flow", {}, "r1")
    assert env.wait_state("r1") == "completed"
    assert daemon.ctl("compensate", "r1", "--reason", "sent back").code == 0
    assert env.wait_state("r1") == "parked"
    (dead,) = env.rows("select error from saga.dead_letters")
    assert (dead["error"]["step"], dead["error"]["code"]) == ("charge", "refund_closed"), dead
    assert env.sql("select detail from saga.why_not_compensated where run_id = 'r1'") == \
        "409 refund_closed: closed on Monday"
    assert env.sql("select step_id from saga.stuck where run_id = 'r1'") == "charge"
    alert = env.rows("select saga.alerts_take_v1('a test', -1, array['parked']) as told")[0]["told"]
    assert [run["code"] for run in alert["parked"]["runs"]] == ["refund_closed"], alert
    own = daemon.show("r1")["error"]
    assert (own["step"], own["code"], own["message"]) == (None, "operator", "sent back"), own
    error = "charge: 409 refund_closed: closed on Monday"
    for args in (["show", "r1"], ["wait", "r1"], ["dead", "show", "r1"]):
        out = daemon.ctl(*args).out
        assert re.search("^ *error +" + error, out, re.M), (args, out)
        assert "operator: sent back" not in out, (args, out)
    assert "409 refund_closed" in daemon.ctl("dead").out
    for args in (["show", "r1"], ["dead", "show", "r1"]):
        assert "an operator asked for it (sent back)" in daemon.ctl(*args).out, args
    explained = daemon.ctl("explain", "r1").out
    assert "turned back: an operator asked for it (sent back)" in explained, explained
    assert daemon.ctl("retry", "r1", "--reason", "asked again").code == 0
    wait_until("refused again", lambda: len(ledger.seen(path="/refund")) == 2)
    wait_until("parked again", lambda: env.state("r1") == "parked")
    told = [(row["what"], row["detail"]) for row in env.rows(
        "select what, detail from saga.timeline where run_id = 'r1' order by seq")]
    refused = [detail for what, detail in told if what == "compensation refused"]
    assert refused == ["409 refund_closed: closed on Monday"] * 2, told


@case
def retry_that_comes_again(env):
    """The same retry again, while the run goes on by it, is told that it was obeyed: by the socket,
    by SQL and with inputs. Another person's, reason's or input's is not the same, nor is it after
    something else was decided; what went on is not disturbed."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply("workflow: flow\nservices: {svc: {url: \"http://127.0.0.1:1\"}}\nsteps:\n"
                 "  - {id: a, on_failure: park, timeout: 10m, action: {post: svc/a, body: "
                 "{n: \"${{ input.n }}\"}}, compensate: {none: nothing}}\n")
    gate = threading.Event()
    env.closers.append(gate.set)

    def parked(run):
        ledger.script("/a", Answer(422), Answer(200, gate=gate))
        daemon.start_run("flow", {"n": 1}, run)
        assert env.wait_state(run) == "parked"

    def asked(run):
        return len([r for r in ledger.seen(path="/a") if r.key.startswith(run + ":")])

    parked("plain")
    assert daemon.verb("plain", "retry", reason="mended").status == 200
    wait_until("it is sent again", lambda: asked("plain") == 2)
    again = daemon.verb("plain", "retry", reason="mended")
    assert again.status == 200 and again.json()["state"] == "running", again
    assert daemon.verb("plain", "retry", reason="other").status == 409
    assert daemon.verb("plain", "retry", reason="mended", input={"n": 2}).status == 409
    assert daemon.verb("plain", "retry", reason="mended", step_input={"n": 2}).status == 409
    by_sql = env.sql("select saga.retry('plain', 'mended')")  # another person
    wait_until("it is refused", lambda: env.sql(
        "select outcome || ':' || code from saga.requests where id = '%s'" % by_sql) ==
        "refused:conflict")
    refused = env.sql("select count(*) from saga.audit where run_id = 'plain' and verb = 'retry' and "
                      "outcome like 'refused%'")
    assert refused == "4", refused

    parked("inputs")
    for more, answer in (({"input": {"n": 2.50}}, 200), ({"input": {"n": 2.50}}, 200),
                         ({"input": {"n": 3}}, 409), ({}, 409)):
        reply = daemon.verb("inputs", "retry", reason="mended", **more)
        assert reply.status == answer, (more, reply)
    parked("step")
    for more, answer in (({"step_input": {"n": 9}}, 200), ({"step_input": {"n": 9}}, 200),
                         ({"step_input": {"n": 8}}, 409), ({}, 409)):
        reply = daemon.verb("step", "retry", reason="mended", **more)
        assert reply.status == answer, (more, reply)

    parked("sql")
    for reason, outcome in (("by hand", "done"), ("by hand", "done"), ("else", "refused")):
        id = env.sql("select saga.retry('sql', '%s')" % reason)
        wait_until("it is decided", lambda: env.sql(
            "select outcome from saga.requests where id = '%s' and outcome is not null" % id))
        assert env.sql("select outcome from saga.requests where id = '%s'" % id) == outcome
    assert daemon.ctl("pause", "plain", "--reason", "a look").code == 0
    assert daemon.verb("plain", "retry", reason="mended").status == 200  # nothing was decided by that
    assert daemon.verb("plain", "resume", reason="seen").status == 200
    gate.set()
    for run in ("plain", "inputs", "step", "sql"):
        assert env.wait_state(run) == "completed"
        assert asked(run) == 2, (run, asked(run))
    late = daemon.verb("plain", "retry", reason="mended")
    assert late.status == 200 and late.json()["state"] == "completed", late
    gate.clear()
    parked("turned")
    assert daemon.verb("turned", "retry", reason="mended").status == 200
    assert daemon.verb("turned", "cancel", reason="no more").status == 200
    assert daemon.verb("turned", "retry", reason="mended").status == 409
    gate.set()
    assert env.wait_state("turned") == "compensated"


# --- after a retry ---------------------------------------------------------------------------------

SIX = """
workflow: six
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
defaults: {retry: {attempts: 1}}
steps:
%s
  - id: send
    for_each: "['w', 'x', 'y', 'z']"
    key_by: item
    on_failure: park
    action: {post: svc/send, body: "${{ item }}"}
    compensate: {post: svc/unsend}
  - {id: last, action: {post: svc/last}, compensate: {post: svc/undo}}
""" % "\n".join("  - {id: s%d, action: {post: svc/s%d}, compensate: {post: svc/undo}}" % (n, n)
                for n in range(6))


@case
def a_oper_2(env):
    """retry sends only the item that failed, and what follows."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(SIX)
    ledger.always("/send", lambda r: Answer(422 if r.json() == "y" else 200))
    daemon.start_run("six", {}, "six")
    assert env.wait_state("six") == "parked"
    before = len(ledger.requests)
    ledger.always("/send", Answer(200))
    assert daemon.ctl("retry", "six", "--reason", "it is mended").code == 0
    assert env.wait_state("six") == "completed"
    after = [r.key for r in ledger.requests[before:]]
    sent = [key for key in after if "send.y" in key]
    assert len(sent) == 1 and sent[0].endswith("@2"), after
    others = [key for key in after if key not in sent]
    rest = [item for item in ("w", "x", "z") if "six:send.%s:execute" % item in others]
    assert others[-1] == "six:last:execute" and len(others) == 1 + len(rest), after
    for item in ("w", "x", "z"):  # sent once over all
        assert len(ledger.seen(key="six:send.%s:execute" % item)) == 1, item
    for n in range(6):
        assert len(ledger.seen(path="/s%d" % n)) == 1


@case
def a_oper_3(env):
    """After fail, retry, succeed both attempts are told with their errors, and who retried, when and
    why; nothing of it can be changed by those who may read it."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(REPAIR)
    ledger.always("/pay", Answer(422, {"code": "NO", "message": "account closed"}))
    daemon.start_run("repair", {"account": "no"}, "one")
    assert env.wait_state("one") == "parked"
    ledger.always("/pay", Answer(200))
    ledger.always("/tell", Answer(200))
    assert daemon.ctl("retry", "one", "--reason", "the account is open again").code == 0
    assert env.wait_state("one") == "completed"
    history = daemon.ctl("events", "one").out
    for said in ("account closed", "retry", "the account is open again", "by uid:", "one:pay:execute@2"):
        assert said in history, (said, history)
    attempts = env.rows("select key, outcome, error from saga.attempts "
                        "where run_id = 'one' and outcome <> 'applied'")
    assert [(a["key"], a["outcome"], a["error"]["message"]) for a in attempts] == \
        [("one:pay:execute", "refused", "account closed")], attempts
    assert [(k["key"], k["state"]) for k in env.rows(
        "select key, state from saga.keys where step_id = 'pay' order by key")] == \
        [("one:pay:execute", "refused"), ("one:pay:execute@2", "applied")]
    for role in ("saga_operator", "saga_reader"):
        for change in ("delete from saga.attempt", "update saga.event set actor = 'nobody'",
                       "truncate saga.finding"):
            try:
                env.sql("begin; set local role %s; %s" % (role, change))
            except AssertionError as error:
                assert "permission denied" in str(error), error
                env.sql("rollback")
            else:
                raise AssertionError("%s may: %s" % (role, change))


@case(alone=True)
def a_poison_4(env):
    """Retries that end, on the way forward, on the way back and by crashes, while the database
    restarts: each is a dead letter with its evidence, and dead --check says that there are some."""
    states = States(env)
    daemon = states.daemon
    assert daemon.ctl("dead", "--check").code == 0
    kinds = ("failed", "stuck", "unknown")
    for n in range(10):
        for kind in kinds:
            states.begin(kind, str(n))
        if n == 5:
            env.cluster.kill9()
            env.cluster.start()
            wait_until("the daemon is back", lambda: daemon.http("GET", "/readyz").status == 200, 40)
    wait_until("each is parked", lambda: env.sql(
        "select count(*) from saga.dead_letters") == "30", 60, 0.2)
    for row in env.rows("select * from saga.dead_letters"):
        assert row["step_id"] and row["reason"] and row["parked_at"] and row["next_verbs"], row
        assert row["error"]["step"] and row["effects"], row
    assert {row["reason"] for row in env.rows("select reason from saga.dead_letters")} >= \
        {"step_failed", "outcome_unknown"}
    result = daemon.ctl("dead")
    assert result.code == 0 and result.out.count("\n") == 31, result
    result = daemon.ctl("dead", "--check", "-q")
    assert result.code == 6 and result.out.count("\n") == 30, result
    assert daemon.ctl("dead", "list", "--check", "--json").code == 6


@case
def the_report(env):
    """dead show is a whole account in order: what it was to do, what happened, what stands where
    under which key, why it stopped, and complete commands, which work as they stand."""
    states = States(env)
    for kind in PARKED:
        states.begin(kind, "x")
    for kind in PARKED:
        if kind == "late":
            states.settle(kind, "x")
        wait_until("%s rests" % kind, lambda: states.rests(kind, "x"))
    for kind, reason in PARKED.items():
        run = kind + ".x"
        result = states.daemon.ctl("dead", "show", run)
        assert result.code == 0 and not result.err, result
        text = result.out
        places = [text.index(heading) for heading in
                  ("What it was to do", "What happened", "Why it stopped", "What leads on")]
        assert places == sorted(places), text
        row = env.rows("select * from saga.dead_letters where run_id = '%s'" % run)[0]
        for effect in row["effects"]:
            if effect["state"] in ("applied", "unknown"):
                assert "key        %s\n" % effect["key"] in text, (effect, text)
                assert "hash " + effect["request_hash"][:16] in text, (effect, text)
        commands = [line.split("  ")[1] for line in text[places[-1]:].split("\n")
                    if line.startswith("  sagactl ")]
        verbs = [command.split()[1] for command in commands]
        assert list(dict.fromkeys(verbs)) == row["next_verbs"], (kind, verbs, row["next_verbs"])
        with open(env.folder + "/corrected.json", "w") as file:  # what the report tells to write
            file.write(env.sql("select input from saga.runs where run_id = '%s'" % run))
        done = states.daemon.ctl(*commands[0].replace("TEXT", "tried").split()[1:])
        assert done.code == 0, (kind, commands[0], done)
    assert states.daemon.ctl("dead", "show", "nobody").code == 3
    states.gate.set()


if __name__ == "__main__":
    main()
