#!/usr/bin/env python3
"""Declared dry runs: a person sees what a step would do; nothing is done, claimed or written."""

import json
import threading
import time

from lib import Answer, case, main, wait_until
from test_security import as_user, opened

FLOW = """
workflow: %(name)s
run_id: ${{ input.id }}
services:
  svc: {url: "http://127.0.0.1:1", timeout: 2s, idempotency: {header: Idempotency-Key, ttl: 2d}%(service)s}
steps:
  - {id: look, action: {get: svc/accounts/7}}
  - id: first
    action: {post: svc/first, body: {n: "${{ input.n }}"}}
    compensate: {post: svc/undo_first}
    dry_run: {post: svc/previews/first, body: {n: "${{ input.n }}"}, headers: {X-Token: "${{ secrets.token }}"}}
  - id: pay
    effect: irreversible
    approve: {message: "Pay ${{ input.n }}?", expires: 1h}
    action:
      post: svc/pay
      body: {n: "${{ input.n }}", to: "${{ steps.look.output.iban }}", key: "${{ key }}"}
      headers: {X-Token: "${{ secrets.token }}"}
    dry_run:
      post: svc/previews/pay
      query: {at: "${{ run.id }}"}
      body: {n: "${{ input.n }}", to: "${{ steps.look.output.iban }}"}
      headers: {X-Token: "${{ secrets.token }}"}
      timeout: %(timeout)s
"""
SECRET = "S3cr3t-t0ken"
FROZEN = ("run_key", "run", "effect", "attempt", "event", "finding", "approval", "inbox", "signal")


def flow(name="paying", service="", timeout="2s"):
    return FLOW % {"name": name, "service": service, "timeout": timeout}


def shown(request):
    """A preview: it answers with what it got, the token too, and does nothing."""
    return Answer(200, {"fee": 12, "token": request.headers.get("x-token"),
                        "sees": json.loads(request.body)}, effect=False)


def started(env, source=None, daemons=1):
    env.secrets["token"] = SECRET
    ledger = env.ledger("svc")
    ledger.always("/accounts", Answer(200, {"iban": "DE7"}))
    ledger.always("/previews", shown)
    daemon = env.daemon("a").start("--lease", "2s")
    daemon.apply(source or flow())
    return daemon, ledger


def until_asked(env, run_id):
    wait_until("it waits for a person", lambda: env.rows(
        "select * from saga.pending_approvals where run_id = '%s'" % run_id))


def waiting(env, daemon, run_id="p1", name="paying", **input):
    daemon.submit(name, {"id": run_id, "n": 1990, **input}, run_id=run_id)
    until_asked(env, run_id)


def frozen(env):
    """All that is known of runs: a dry run changes none of it."""
    return {table: env.sql("select json_agg(t order by t::text) from saga.%s t" % table)
            for table in FROZEN}


def keyless(ledger, path, count=1):
    requests = ledger.seen(path=path)
    assert len(requests) == count, requests
    for request in requests:
        assert request.key is None and "idempotency-key" not in request.headers, request.headers
        assert "saga-attempt" not in request.headers, request.headers
        assert request.headers["saga-dry-run"] == "true", request.headers
    assert not ledger.done(path=path)
    return requests


@case
def beside_the_approval(env):
    """The approver is told the command, sees the answer to the real data, and the run has not
    noticed: no key, no effect, no row; what is approved afterwards is sent as ever, once."""
    daemon, ledger = started(env)
    waiting(env, daemon)
    listed = daemon.ctl("approvals")
    assert "sagactl dry-run p1 pay" in listed.out, listed
    entry = daemon.ctl("approvals", "--json").json()["approvals"][0]
    assert entry["dry_run"] == "sagactl dry-run p1 pay", entry
    before, keys = frozen(env), env.rows("select * from saga.keys order by key")
    told = daemon.ctl("dry-run", "p1", "pay", "--reason", "before I approve")
    assert told.code == 0, told
    for text in ("p1 pay  hash %.12s" % entry["request_hash"], "would send  post svc/pay",
                 'dry run     post svc/previews/pay?at=p1 {"n":1990,"to":"DE7"}',
                 'answer      200 {"fee":12,'):
        assert text in told.out, (text, told.out)
    answer = daemon.ctl("dry-run", "p1", "pay", "--json")
    assert answer.code == 0, answer
    answer = answer.json()
    assert answer["run_id"] == "p1" and answer["step"] == "pay", answer
    assert answer["request"] == entry["request"] and answer["request_hash"] == entry["request_hash"]
    assert "key" not in answer["dry_run"]["request"], answer
    got = answer["dry_run"]["answer"]
    assert got["status"] == 200 and got["body"]["sees"] == {"n": 1990, "to": "DE7"}, answer
    assert got["body"]["token"] != SECRET and got["took_ms"] >= 0 and "body_cut" not in got, answer
    assert daemon.ctl("dry-run", "p1", "pay", "-q").out == "p1\n"
    for request in keyless(ledger, "/previews/pay", 3):
        assert request.headers["saga-run"] == "p1" and request.step == "pay"
        assert request.headers["x-token"] == SECRET
    assert frozen(env) == before and not ledger.seen(path="/pay")
    assert env.rows("select * from saga.keys order by key") == keys
    acts = env.rows("select actor, step_id, reason, outcome from saga.audit where verb = 'dry_run' "
                    "and run_id = 'p1' order by no")
    assert acts[0] == {"actor": "uid:0", "step_id": "pay", "reason": "before I approve",
                       "outcome": "done"} and len(acts) == 3, acts
    assert not env.rows("select * from saga.audit_verify() where problem is not null")
    done = daemon.ctl("approve", "p1", "pay", "--hash", entry["request_hash"], "--reason", "fine")
    assert done.code == 0, done
    assert env.wait_state("p1") == "completed"
    assert [e.key for e in ledger.done(path="/pay")] == ["p1:pay:execute"]


@case
def none_declared(env):
    """Without `dry_run` nothing is offered, and asking for it says so."""
    daemon, ledger = started(env, flow().split("    dry_run:\n      post: svc/previews/pay")[0])
    waiting(env, daemon)
    assert "dry-run" not in daemon.ctl("approvals").out
    assert daemon.ctl("approvals", "--json").json()["approvals"][0]["dry_run"] is None
    told = daemon.ctl("dry-run", "p1", "pay")
    assert told.code == 3 and "declares no `dry_run`" in told.err, told


@case
def refused(env):
    """Every case in which there is nothing to show has a status, an exit code and a reason."""
    daemon, ledger = started(env)
    ledger.script("/accounts", Answer(503, {}, {"Retry-After": "1"}))
    daemon.submit("paying", {"id": "p1", "n": 1}, run_id="p1")

    def refuse(code, text, *args):
        told = daemon.ctl("dry-run", *args)
        assert told.code == code and text in told.err and not told.out, (args, told)

    refuse(9, "is not reached", "p1", "pay")
    until_asked(env, "p1")
    before = frozen(env)
    refuse(3, "no such run", "p2", "pay")
    refuse(3, 'no step "pray"', "p1", "pray")
    refuse(3, "is no loop", "p1", "pay.0")
    refuse(3, "declares no `dry_run`", "p1", "look")
    refuse(9, "is applied", "p1", "first")
    for body, code in (({"hash": "x"}, "unknown_member"), ({"reason": "x" * 1001}, "reason_too_long")):
        reply = daemon.http("POST", "/v1/runs/p1/steps/pay/dry_run", body)
        assert reply.status == 422 and reply.json()["code"] == code, reply
    assert daemon.http("POST", "/v1/runs/p1/steps/pay/dry_run", "x").status == 400
    assert daemon.http("POST", "/v1/runs/p1/dry_run", {"reason": "x"}).status == 404
    assert daemon.http("POST", "/v1/runs:dry_run", {"reason": "x"}).status == 404
    assert frozen(env) == before and not ledger.seen(path="/previews")
    acts = env.rows("select step_id, outcome from saga.audit where verb = 'dry_run' order by no")
    assert [a["step_id"] for a in acts] == ["pay", "first"], acts
    assert all(a["outcome"].startswith("refused: the step") for a in acts), acts
    gate = threading.Event()
    ledger.script("/undo_first", Answer(gate=gate))
    assert daemon.ctl("reject", "p1", "pay", "--reason", "too much").code == 0
    wait_until("it goes back", lambda: ledger.seen(path="/undo_first"))
    refuse(9, "the run goes back", "p1", "pay")
    gate.set()
    assert env.wait_state("p1") == "compensated"
    refuse(9, "has ended compensated", "p1", "pay")


@case
def it_would_be_the_action(env):
    """What is written differs, but with these values it is the action's own request: not sent."""
    daemon, ledger = started(env, """
workflow: paying
services: {svc: {url: "http://127.0.0.1:1", timeout: 2s, idempotency: {query: request, ttl: 2d}}}
steps:
  - id: pay
    approve: {expires: 1h}
    action: {post: svc/pay, body: {n: "${{ input.n }}"}}
    compensate: {none: it is a test}
    dry_run: {post: "svc/${{ input.path }}", body: {n: "${{ input.n }}"}}
""")
    waiting(env, daemon, path="pay")
    waiting(env, daemon, "p2", path="previews/x")
    told = daemon.ctl("dry-run", "p1", "pay")
    assert told.code == 2 and "it would make the effect" in told.err, told
    assert not ledger.seen(path="/pay")
    assert daemon.ctl("dry-run", "p2", "pay").code == 0
    keyless(ledger, "/previews")


@case
def given_by_a_person(env):
    """A parked step can be looked at before the retry, but not once a person has replaced what it
    sends: its dry run would show something else."""
    daemon, ledger = started(env, flow().replace("    approve: {message", "    on_failure: repair\n"
                                                  "    approve: {if: input.ask, message"))
    ledger.always("/pay", Answer(422, {"code": "no"}))
    daemon.submit("paying", {"id": "p1", "n": 5, "ask": False}, run_id="p1")
    assert env.wait_state("p1") == "parked"
    before = frozen(env)
    assert daemon.ctl("dry-run", "p1", "pay").code == 0
    keyless(ledger, "/previews/pay")
    assert frozen(env) == before
    assert daemon.verb("p1", "retry", step_input={"n": 4}).status == 200
    wait_until("it was tried again", lambda: len(ledger.seen(path="/pay")) == 2)
    assert env.wait_state("p1") == "parked"
    told = daemon.ctl("dry-run", "p1", "pay")
    assert told.code == 9 and "--step-input" in told.err, told


@case
def items(env):
    """Items of a loop are looked at one by one, as they stand in the list."""
    daemon, ledger = started(env, """
workflow: paying
services: {svc: {url: "http://127.0.0.1:1", timeout: 2s}}
steps:
  - id: send
    for_each: input.items
    approve: {expires: 1h}
    action: {post: svc/send, body: {to: "${{ item }}"}}
    compensate: {none: mail}
    dry_run: {post: svc/previews, body: {to: "${{ item }}", place: "${{ index }}"}}
""")
    waiting(env, daemon, items=["ann", "bob"])
    assert "sagactl dry-run p1 send.0" in daemon.ctl("approvals").out
    told = daemon.ctl("dry-run", "p1", "send.0", "--json").json()
    assert told["dry_run"]["answer"]["body"]["sees"] == {"to": "ann", "place": 0}, told
    told = daemon.ctl("dry-run", "p1", "send.1")
    assert told.code == 9 and "is not reached" in told.err, told
    told = daemon.ctl("dry-run", "p1", "send")
    assert told.code == 2 and "name an item" in told.err, told
    told = daemon.ctl("dry-run", "p1", "send.7")
    assert told.code == 3, told


@case
def bad_answers(env):
    """Refusals are answers; no answer, huge and broken ones are bounded and told."""
    daemon, ledger = started(env, flow(timeout="400ms"))
    waiting(env, daemon)

    def answered(answer, code=0):
        ledger.script("/previews/pay", answer)
        begun = time.monotonic()
        told = daemon.ctl("dry-run", "p1", "pay", "--json")
        assert told.code == code, told
        assert time.monotonic() - begun < 10
        return told.json()["dry_run"]

    told = answered(Answer(422, {"code": "frozen", "detail": "with " + SECRET}))
    assert told["answer"]["status"] == 422 and told["answer"]["body"]["code"] == "frozen", told
    assert "no answer in time" in answered(Answer(act="never", effect=False), 1)["no_answer"]
    assert answered(Answer(act="reset", effect=False), 1)["no_answer"]
    long = SECRET + "ä" * 20000
    told = answered(Answer(200, json.dumps({"x": long}), effect=False))
    assert told["answer"]["body_cut"] and len(told["answer"]["body"].encode()) <= 8192, told
    told = answered(Answer(200, "y" * 3000000, effect=False))
    assert told["answer"]["body_cut"] and told["answer"]["body"] is None, told
    told = answered(Answer(200, b"\xff\xfe\x00", effect=False))
    assert told["answer"]["body"] is None and told["answer"]["status"] == 200, told
    told = answered(Answer(200, "[" * 900 + "]" * 900, effect=False))
    assert told["answer"]["body"].startswith("[[["), told
    told = answered(Answer(302, None, {"Location": "http://127.0.0.1:1/x"}, effect=False))
    assert told["answer"]["status"] == 302, told
    assert len(ledger.seen(path="/previews/pay")) == 8 and not ledger.done(path="/previews")
    ledger.script("/previews/pay", Answer(200, "plain \x1b[31mred", {"Content-Type": "text/plain"},
                                          effect=False))
    told = daemon.ctl("dry-run", "p1", "pay")
    assert "200 plain" in told.out and "\x1b" not in told.out, told


@case
def not_let_out(env):
    """An address outside `egress` gets nothing, a service that is not there neither."""
    daemon, ledger = started(env)
    waiting(env, daemon)
    env.services["svc"] = "http://127.0.0.1:1"
    env.config_write()
    assert daemon.stop() == 0
    daemon.start("--lease", "2s")
    told = daemon.ctl("dry-run", "p1", "pay", "--json")
    assert told.code == 1 and "not_sent" in told.json()["dry_run"], told
    env.services["svc"] = ledger
    env.config_more += "egress: {deny: [127.0.0.0/8]}\n"
    env.config_write()
    assert daemon.stop() == 0
    daemon.start("--lease", "2s")
    told = daemon.ctl("dry-run", "p1", "pay")
    assert told.code == 1 and "not sent:" in told.out and "egress.deny" in told.out, told
    assert not ledger.seen(path="/previews")


@case
def at_another_daemon(env):
    """Only the owner knows what the step would send: the others name it."""
    daemon, ledger = started(env)
    waiting(env, daemon)
    other = env.daemon("b").start("--lease", "2s")
    wait_until("shards are shared", lambda: len(env.rows(
        "select * from saga.daemons where shards > 20")) == 2)
    told = {name: at.ctl("dry-run", "p1", "pay") for name, at in (("a", daemon), ("b", other))}
    assert sorted(t.code for t in told.values()) == [0, 1], told
    owner = [name for name, t in told.items() if t.code == 0][0]
    wrong = [t for t in told.values() if t.code == 1][0]
    assert 'belongs to the daemon "%s"' % owner in wrong.err and "--socket" in wrong.err, wrong
    stranger = {at.ctl("dry-run", "p9", "pay").code for at in (daemon, other)}
    assert stranger == {3}, stranger
    assert len(ledger.seen(path="/previews/pay")) == 1


@case
def limits(env):
    """A dry run takes a place at the service and waits for none; an open breaker lets none pass."""
    daemon, ledger = started(env, flow(service=", limits: {in_flight: 1}, "
                                       "breaker: {failures: 2, open_for: 30s}"))
    waiting(env, daemon)
    gate = threading.Event()
    ledger.script("/previews/pay", Answer(200, {"slow": True}, gate=gate, effect=False))
    results = []
    thread = threading.Thread(target=lambda: results.append(daemon.ctl("dry-run", "p1", "pay")))
    thread.start()
    wait_until("one is on its way", lambda: ledger.seen(path="/previews/pay"))
    full = daemon.ctl("dry-run", "p1", "pay")
    assert full.code == 1 and "its limits leave no room" in full.err, full
    reply = daemon.http("POST", "/v1/runs/p1/steps/pay/dry_run", {})
    assert reply.status == 429, reply
    gate.set()
    thread.join(30)
    assert results[0].code == 0 and "slow" in results[0].out, results
    # Its answers, however bad, do not open the breaker.
    for _ in range(4):
        ledger.script("/previews/pay", Answer(500, {}))
        assert daemon.ctl("dry-run", "p1", "pay").code == 0
    assert not env.rows("select * from saga.services where service = 'svc' and state = 'open'")
    ledger.script("/accounts", Answer(500, {}), Answer(500, {}), Answer(500, {}))
    daemon.submit("paying", {"id": "p2", "n": 1}, run_id="p2")
    wait_until("the breaker is open", lambda: env.rows(
        "select * from saga.services where service = 'svc' and state = 'open'"))
    seen = len(ledger.seen())
    closed = daemon.ctl("dry-run", "p1", "pay")
    assert closed.code == 1 and "its breaker is not closed" in closed.err, closed
    assert len(ledger.seen()) == seen


@case
def few_at_a_time(env):
    """Eight at a time for a daemon; who hangs up or comes ninth holds nothing up."""
    daemon, ledger = started(env)
    waiting(env, daemon)
    gate = threading.Event()
    ledger.always("/previews/pay", Answer(200, {}, gate=gate, effect=False))
    codes = []
    threads = [threading.Thread(target=lambda: codes.append(daemon.ctl("dry-run", "p1", "pay").code))
               for _ in range(8)]
    for thread in threads:
        thread.start()
    wait_until("eight are on their way", lambda: len(ledger.seen(path="/previews/pay")) == 8)
    reply = daemon.http("POST", "/v1/runs/p1/steps/pay/dry_run", {})
    assert reply.status == 429 and "8 dry runs are under way" in reply.json()["detail"], reply
    gate.set()
    for thread in threads:
        thread.join(30)
    assert codes == [0] * 8, codes
    assert daemon.ctl("dry-run", "p1", "pay").code == 0


def on_its_way(env):
    """A dry run that its service never answers: the thread that waits for it, and what it is told."""
    daemon, ledger = started(env, flow(timeout="10s"))
    waiting(env, daemon)
    ledger.script("/previews/pay", Answer(act="never", effect=False))
    results = []
    thread = threading.Thread(target=lambda: results.append(daemon.ctl("dry-run", "p1", "pay")))
    thread.start()
    wait_until("one is on its way", lambda: ledger.seen(path="/previews/pay"))
    return daemon, ledger, thread, results


@case
def at_the_end(env):
    """A daemon that drains answers who still waits for a dry run, and leaves in good order."""
    daemon, ledger, thread, results = on_its_way(env)
    assert daemon.stop() == 0, daemon.log()
    thread.join(30)
    assert results[0].code != 0 and "shutting down" in results[0].err, results
    daemon.start("--lease", "2s")
    assert daemon.ctl("dry-run", "p1", "pay").code == 0


@case
def lease_lost(env):
    """A daemon that lost its lease says so to who waits; the new owner shows what the old one did."""
    daemon, ledger, thread, results = on_its_way(env)
    daemon.freeze()
    other = env.daemon("b").start("--lease", "2s")
    wait_until("the other one owns all", lambda: env.rows(
        "select * from saga.daemons where daemon = 'b' and shards = 64"))
    daemon.thaw()
    thread.join(30)
    assert results[0].code == 1 and "lost its lease" in results[0].out, results
    wait_until("somebody owns it", lambda: 0 in
               {at.ctl("dry-run", "p1", "pay").code for at in (daemon, other)})
    keyless(ledger, "/previews/pay", len(ledger.seen(path="/previews/pay")))


@case
def without_the_audit(env):
    """What cannot be kept in the audit is not sent."""
    daemon, ledger = started(env)
    waiting(env, daemon)
    env.sql("revoke execute on function saga.audit_dry_run_v1(text, text, text, text) "
            "from saga_engine")
    told = daemon.ctl("dry-run", "p1", "pay")
    assert told.code == 1 and "permission denied" in told.err, told
    told = daemon.submit("paying", {"id": "p2", "n": 1}, dry_run=True, rehearse=True)
    assert told.status == 503, told
    assert not ledger.seen(path="/previews")


@case
def long_waits(env):
    """Whatever `timeout` says, an answer is waited for 10 s, and all of a run's for 30 s."""
    daemon, ledger = started(env, """
workflow: paying
services: {svc: {url: "http://127.0.0.1:1", timeout: 5m}}
steps:
  - id: send
    for_each: input.items
    action: {post: svc/send, body: {to: "${{ item }}"}}
    compensate: {none: mail}
    dry_run: {post: svc/previews, body: {to: "${{ item }}"}}
""")
    ledger.always("/previews", Answer(act="never", effect=False))
    begun = time.monotonic()
    told = daemon.ctl("run", "paying", "--input", '{"items":[1,2,3,4]}', "--dry-run", "--rehearse",
                      "--json")
    assert told.code == 0 and 29 < time.monotonic() - begun < 40, told
    shown = [step["dry_run"] for step in told.json()["steps"]]
    assert ["no answer in time" in s.get("no_answer", "") for s in shown] == [True] * 3 + [False]
    assert shown[3]["not_sent"] == "the 30 s for all of them are over", shown
    assert len(ledger.seen(path="/previews")) == 3


@case
def roles(env):
    """It takes an operator; a dry run before the start, whoever may start runs."""
    env.secrets["token"] = SECRET
    ledger = env.ledger("svc")
    ledger.always("/accounts", Answer(200, {"iban": "DE7"}))
    ledger.always("/previews", shown)
    daemon = opened(env, "roles: {read: [uid:5001], submit: [uid:5002], operate: [uid:5003]}\n")
    daemon.apply(flow())
    waiting(env, daemon)
    for uid, code in ((5001, 4), (5002, 4), (5003, 0)):
        assert as_user(daemon, uid, "dry-run", "p1", "pay").returncode == code, uid
    start = ("run", "paying", "--input", '{"id":"p9","n":1}', "--dry-run", "--rehearse")
    for uid, code in ((5001, 4), (5002, 0)):
        assert as_user(daemon, uid, *start).returncode == code, uid
    assert [r.step for r in keyless(ledger, "/previews", 2)] == ["pay", "first"]
    actors = env.rows("select actor from saga.audit where verb = 'dry_run' "
                      "and outcome not like 'refused%' order by at")
    assert [a["actor"] for a in actors] == ["uid:5003", "uid:5002"], actors


@case
def before_the_start(env):
    """With --rehearse what hangs on no answer is sent, the rest says why not; nothing is stored,
    and the token starts the run as ever. Without it nothing is sent."""
    daemon, ledger = started(env)
    args = ("run", "paying", "--input", '{"id":"p1","n":1990}', "--dry-run")
    before = frozen(env)
    plain = daemon.ctl(*args, "--json").json()
    assert not ledger.seen()
    steps = {step["step"]: step for step in plain["steps"]}
    assert "dry_run" not in steps["look"] and "answer" not in steps["first"]["dry_run"], plain
    assert steps["first"]["dry_run"]["request"] == {
        "kind": "http", "service": "svc", "method": "post", "target": "/previews/first",
        "body": {"n": 1990}}, steps["first"]
    assert steps["pay"]["dry_run"]["from_answers"] == ["/body/to"], steps["pay"]
    told = daemon.ctl(*args, "--rehearse", "--json").json()
    steps = {step["step"]: step for step in told["steps"]}
    answer = steps["first"]["dry_run"]["answer"]
    assert answer["status"] == 200 and answer["body"]["sees"] == {"n": 1990}, steps["first"]
    assert answer["body"]["token"] != SECRET, answer
    assert steps["pay"]["dry_run"]["not_sent"] == "it depends on what earlier steps answer", steps
    assert [r.path for r in ledger.seen()] == ["/previews/first"]
    keyless(ledger, "/previews/first")
    text = daemon.ctl(*args, "--rehearse")
    for line in ("only what steps declare as dry_run is sent, nothing is stored",
                 'dry run: post svc/previews/first {"n":1990}', '200 {"fee":12,',
                 "not sent: it depends on what earlier steps answer"):
        assert line in text.out, (line, text.out)
    assert frozen(env) == before
    acts = env.rows("select run_id, reason, chain from saga.audit where verb = 'dry_run'")
    assert acts == [{"run_id": None, "reason": "before a run of paying", "chain": 64}] * 2, acts
    reply = daemon.submit("paying", {"id": "p1", "n": 1990}, confirm=told["confirm"])
    assert reply.status == 202, reply
    until_asked(env, "p1")
    alone = daemon.ctl("run", "paying", "--input", '{"id":"p1","n":1}', "--rehearse")
    assert alone.code == 2 and "goes with --dry-run" in alone.err, alone
    for more in ({"rehearse": True}, {"rehearse": "yes", "dry_run": True}):
        reply = daemon.submit("paying", {"id": "p2", "n": 1}, **more)
        assert reply.status == 422 and "rehearse" in reply.json()["detail"], reply
    assert env.states().keys() == {"p1"}


@case
def made_up_answers(env):
    """A sample never goes out: neither a boolean, of which two samples are alike, nor a step that
    runs or has items only by what another answers."""
    daemon, ledger = started(env, """
workflow: paying
services: {svc: {url: "http://127.0.0.1:1", timeout: 2s}}
steps:
  - id: look
    action: {get: svc/accounts/7}
    output_schema: {type: object, properties: {big: {type: boolean}, list: {type: array, items: {type: string}}}}
  - id: value
    action: {post: svc/a}
    compensate: {none: it is a test}
    dry_run: {post: svc/previews, body: {big: "${{ steps.look.output.big }}"}}
  - id: runs
    if: steps.look.output.big
    action: {post: svc/b}
    compensate: {none: it is a test}
    dry_run: {post: svc/previews, body: {b: 1}}
  - id: loop
    for_each: steps.look.output.list
    action: {post: svc/c}
    compensate: {none: it is a test}
    dry_run: {post: svc/previews, body: {c: 1}}
  - id: head
    action: {post: svc/d}
    compensate: {none: it is a test}
    dry_run: {post: svc/previews, headers: {X-Big: "${{ string(steps.look.output.big) }}"}}
""")
    reply = daemon.submit("paying", {}, dry_run=True, rehearse=True)
    assert reply.status == 200, reply
    steps = reply.json()["steps"]
    assert {s["step"] for s in steps} >= {"value", "loop.0", "head"}, steps
    for step in steps:
        if "dry_run" in step:
            assert step["dry_run"]["not_sent"] == "it depends on what earlier steps answer", step
    assert not ledger.seen()


@case
def many_items(env):
    """Of a large run the first 20 are sent, one after the other; the others say so."""
    daemon, ledger = started(env, """
workflow: paying
services: {svc: {url: "http://127.0.0.1:1", timeout: 2s}}
steps:
  - id: send
    for_each: input.items
    max_parallel: 5
    action: {post: svc/send, body: {to: "${{ item }}"}}
    compensate: {none: mail}
    dry_run: {post: svc/previews, body: {to: "${{ item }}"}}
""")
    reply = daemon.submit("paying", {"items": list(range(25))}, dry_run=True, rehearse=True)
    assert reply.status == 200, reply
    shown = [step["dry_run"] for step in reply.json()["steps"]]
    assert [s["answer"]["body"]["sees"]["to"] for s in shown[:20]] == list(range(20)), shown
    assert all(s["not_sent"] == "only the first 20 are sent" for s in shown[20:]), shown
    assert len(ledger.seen()) == 20


if __name__ == "__main__":
    main()
