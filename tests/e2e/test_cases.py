#!/usr/bin/env python3
"""Failures that bit other engines, played against the whole of this one: compensation, retries,
answers of HTTP services, idempotency, changing definitions."""

import os
import socket
import subprocess
import threading
import time
from email.utils import formatdate

from lib import SAGACTL, Answer, case, main, spawn, wait_until

PATIENCE = float(os.environ.get("PATIENCE", "1"))
KEYED = 'svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}'
FAST = """defaults:
  retry: {attempts: 3, delay: 50ms, factor: 2, max_delay: 400ms, jitter: 20%}
  compensate_retry: {attempts: 3, delay: 50ms, factor: 2, max_delay: 400ms, jitter: 20%}
"""


def workflow(name, *steps, head=FAST, services=KEYED):
    return "workflow: %s\n%sservices:\n  %s\nsteps:\n%s\n" % (
        name, head, services, "\n".join("  - " + step for step in steps))


def step(name, more="", undo="", undo_more=""):
    return "{id: %s, action: {post: svc/%s}, compensate: {post: svc/%s%s}%s}" % (
        name, name, undo or "undo_" + name, undo_more, more)


def with_steps(env, *steps, name="flow", **more):
    """A ledger and a daemon that know one workflow of these steps."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start("--lease", "2s")
    daemon.apply(workflow(name, *steps, **more))
    return ledger, daemon


def paths(ledger):
    return [r.path[1:] for r in ledger.requests]


def timeline(env, run):
    return [(row["step_id"], row["what"], row["detail"]) for row in env.rows(
        "select step_id, what, detail from saga.timeline where run_id = '%s' order by seq" % run)]


# --- COMP: compensation: order, once, never --------------------------------------------------------


@case
def a_comp_1(env):
    """A compensation that fails in passing is repeated under its key, and nothing overtakes it."""
    ledger, daemon = with_steps(env, *[step(s) for s in "abcd"])
    ledger.script("/d", Answer(422, {"code": "NO"}))
    ledger.script("/undo_c", Answer(500), Answer(500))
    run = daemon.submit("flow", {}, "comp1", wait=20).json()
    assert run["state"] == "compensated", run
    assert paths(ledger) == ["a", "b", "c", "d", "undo_c", "undo_c", "undo_c", "undo_b", "undo_a"]
    assert {r.key for r in ledger.seen(path="/undo_c")} == {"comp1:c:compensate"}
    assert [r.attempt for r in ledger.seen(path="/undo_c")] == [1, 2, 3]
    assert {r.headers["saga-compensates"] for r in ledger.seen(path="/undo_c")} == \
        {"comp1:c:execute"}
    c = next(s for s in run["steps"] if s["id"] == "c")
    assert c["compensation_attempts"] == 3 and c["compensation_state"] == "applied", c


@case
def a_comp_2(env):
    """A compensation that fails for good is never painted over: the run is parked, listed with the
    error, and only a person's word ends it."""
    ledger, daemon = with_steps(env, *[step(s) for s in "abc"])
    ledger.script("/c", Answer(422, {"code": "NO"}))
    ledger.always("/undo_b", Answer(422, {"code": "REFUND_CLOSED", "message": "too late"}))
    daemon.start_run("flow", {}, "comp2")
    assert env.wait_state("comp2") == "parked"
    waited = daemon.ctl("wait", "comp2")
    assert waited.code == 6, waited
    assert paths(ledger) == ["a", "b", "c", "undo_b"]
    (dead,) = env.rows("select * from saga.dead_letters")
    assert dead["reason"] == "compensation_failed" and dead["step_id"] == "b", dead
    assert dead["error"]["step"] == "b" and dead["error"]["code"] == "REFUND_CLOSED", dead
    first = daemon.show("comp2")["error"]  # why it turned back stays the run's own error
    assert first["step"] == "c" and first["code"] == "NO", first
    undo = next(e for e in dead["effects"]
                if e["step"] == "b" and e["direction"] == "compensate")
    assert undo["error"]["code"] == "REFUND_CLOSED", undo
    listed = daemon.ctl("dead")
    assert listed.code == 0 and "comp2" in listed.out, listed
    shown = daemon.ctl("dead", "show", "comp2")
    assert shown.code == 0 and "REFUND_CLOSED" in shown.out, shown
    time.sleep(0.5)
    assert env.state("comp2") == "parked" and len(ledger.requests) == 4
    skipped = daemon.ctl("skip", "comp2", "b:compensate", "--reason", "refunded by bank transfer")
    assert skipped.code == 0, skipped
    assert env.wait_state("comp2") == "compensated"
    assert paths(ledger)[4:] == ["undo_a"]
    run = daemon.show("comp2")
    assert run["error"]["code"] == "NO", run
    assert [r["step"] for r in run["residue"]] == ["b"], run["residue"]
    told = [t for t in timeline(env, "comp2") if "refunded by bank transfer" in str(t)]
    assert told, timeline(env, "comp2")
    assert daemon.ctl("wait", "comp2").code == 5


@case
def a_comp_3(env):
    """What is undone follows from a step's last state, not from how many attempts it took."""
    ledger, daemon = with_steps(env, step("a"), step("b", undo_more=", tolerant: true"))
    ledger.script("/a", Answer(500), Answer(500))
    ledger.script("/b", Answer(500), Answer(500), Answer(422, {"code": "NO"}))
    run = daemon.submit("flow", {}, "comp3", wait=20).json()
    assert run["state"] == "compensated", run
    # Two 500s leave the outcome of b open, and a later 422 proves nothing about them.
    assert paths(ledger) == ["a", "a", "a", "b", "b", "b", "undo_b", "undo_a"], paths(ledger)
    # The same without an unknown: b is refused, and not undone.
    ledger.requests.clear()
    ledger.script("/a", Answer(503), Answer(503))
    ledger.script("/b", Answer(503), Answer(503), Answer(422, {"code": "NO"}))
    run = daemon.submit("flow", {}, "comp3b", wait=20).json()
    assert run["state"] == "compensated", run
    assert paths(ledger) == ["a", "a", "a", "b", "b", "b", "undo_a"], paths(ledger)


@case
def a_comp_4(env):
    """A deadline that passes while a step's outcome is unknown: that step is undone, then the one
    before; nothing stays open."""
    ledger, daemon = with_steps(
        env, step("a"), step("b", ", timeout: 2500ms", undo_more=", tolerant: true"),
        head="deadline: 1s\n" + FAST)
    ledger.script("/b", Answer(200, act="never"))
    begun = time.monotonic()
    run = daemon.submit("flow", {}, "comp4", wait=20).json()
    assert run["state"] == "compensated" and run["cause"] == "deadline", run
    assert 2 < time.monotonic() - begun < 5 * PATIENCE
    assert paths(ledger) == ["a", "b", "undo_b", "undo_a"]
    (b,) = [s for s in run["steps"] if s["id"] == "b"]
    assert b["state"] == "unknown" and b["compensation_state"] == "applied", b
    assert run["error"]["code"] == "deadline", run["error"]


@case
def a_comp_5(env):
    """A compensation that can never work is not hammered: one caller, growing pauses with jitter,
    no CPU; an outright refusal is not even repeated."""
    ledger = env.ledger("svc")
    daemons = [env.daemon(name).start("--lease", "2s") for name in "ab"]
    slow = """defaults:
  compensate_retry: {attempts: 5, delay: 400ms, factor: 2, max_delay: 10s, jitter: 20%}
"""
    daemons[0].apply(workflow("flow", step("a"), step("b"), head=slow))
    ledger.always("/b", Answer(422, {"code": "NO"}))
    ledger.always("/undo_a", Answer(503))
    daemons[0].start_run("flow", {}, "comp5")
    wait_until("the first try", lambda: ledger.seen(path="/undo_a"))
    before, begun = sum(cpu_s(d.pid) for d in daemons), time.monotonic()
    assert env.wait_state("comp5") == "parked"
    used = sum(cpu_s(d.pid) for d in daemons) - before
    assert used < 0.1 * (time.monotonic() - begun), used
    times = [r.at for r in ledger.seen(path="/undo_a")]
    pauses = [later - earlier for earlier, later in zip(times, times[1:])]
    assert len(times) == 5, times
    for pause, base in zip(pauses, (0.4, 0.8, 1.6, 3.2)):
        assert base <= pause < base * 1.2 + 0.3 * PATIENCE, pauses
    (dead,) = env.rows("select reason, effects from saga.dead_letters")
    assert dead["reason"] == "compensation_failed"
    assert any(e["error"] and e["error"]["status"] == 503 for e in dead["effects"]), dead
    ledger.requests.clear()
    ledger.always("/undo_a", Answer(401))
    daemons[1].start_run("flow", {}, "comp5b")
    assert env.wait_state("comp5b") == "parked"
    time.sleep(1)
    assert paths(ledger) == ["a", "b", "undo_a"], paths(ledger)


def cpu_s(pid):
    with open("/proc/%d/stat" % pid) as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@case
def a_comp_7(env):
    """Cancel in mid-flight: the step is brought to its end, then all is undone; a second cancel
    changes nothing; a cancel that comes too late is told so."""
    ledger, daemon = with_steps(env, *[step(s) for s in "abcde"])
    gate = threading.Event()
    ledger.script("/d", Answer(200, gate=gate))
    daemon.start_run("flow", {}, "comp7")
    wait_until("d is asked", lambda: ledger.seen(path="/d"))
    assert daemon.ctl("cancel", "comp7", "--reason", "customer called").code == 0
    time.sleep(0.3)
    assert not ledger.seen(path="/undo"), "nothing is undone while d is under way"
    assert daemon.verb("comp7", "cancel").status == 200
    gate.set()
    assert env.wait_state("comp7") == "compensated"
    assert paths(ledger) == ["a", "b", "c", "d", "undo_d", "undo_c", "undo_b", "undo_a"]
    run = daemon.show("comp7")
    assert run["cause"] == "cancelled" and run["error"]["message"] == "customer called", run
    assert daemon.verb("comp7", "cancel").status == 200  # it was cancelled: said again, no harm
    # Nothing applied yet: cancelled all the same.
    gate = threading.Event()
    ledger.script("/a", Answer(503, headers={"Retry-After": "30"}))
    daemon.start_run("flow", {}, "comp7b")
    wait_until("a waits", lambda: env.sql(
        "select state from saga.steps where run_id = 'comp7b' and step_id = 'a'") == "retrying")
    assert daemon.verb("comp7b", "cancel").status == 200
    assert env.wait_state("comp7b", timeout=5) == "compensated"
    assert len(ledger.seen(key="comp7b:a:execute")) == 1
    # Completed: too late.
    assert daemon.submit("flow", {}, "comp7c", wait=10).json()["state"] == "completed"
    late = daemon.ctl("cancel", "comp7c", "--reason", "x")
    assert late.code == 9 and late.err, late
    assert env.state("comp7c") == "completed"


@case
def a_comp_8(env):
    """After a good walk back the caller can still read why: the business error, apart from what
    became of the undo, even if that had trouble of its own."""
    ledger, daemon = with_steps(env, *[step(s) for s in "abc"])
    ledger.script("/c", Answer(422, {"code": "NO_STOCK", "detail": "3 left"}))
    ledger.script("/undo_b", Answer(503, {"code": "BUSY"}))
    done = daemon.ctl("run", "flow", "--id", "comp8", "--wait", "-o", "json")
    assert done.code == 5, done
    shown = daemon.ctl("show", "comp8", "-o", "json")
    assert shown.code == 0, shown
    run = shown.json()
    assert run["state"] == "compensated" and run["cause"] == "step_refused", run
    error = run["error"]
    assert (error["step"], error["code"], error["status"]) == ("c", "NO_STOCK", 422), error
    assert error["body"] == {"code": "NO_STOCK", "detail": "3 left"}, error
    assert [s["compensation_state"] for s in run["steps"]] == ["applied", "applied", None], run
    view = env.rows("select error from saga.runs where run_id = 'comp8'")
    assert view[0]["error"] == error
    person = daemon.ctl("show", "comp8")
    assert person.code == 0 and "NO_STOCK" in person.out, person


# --- PAR: parallel branches ------------------------------------------------------------------------


@case
def a_par_1(env):
    """One branch fails while another acts and a third waits: nothing is undone before the acting one
    has ended, the third never starts, and what was before the fork is undone last."""
    env.sequential = False
    ledger, daemon = with_steps(
        env, step("before"), step("fails", ", needs: [before]"), step("acts", ", needs: [before]"),
        step("after", ", needs: [fails]"), step("join", ", needs: [acts, after]"))
    ledger.script("/fails", Answer(422, {"code": "NO"}, delay=0.3))
    ledger.script("/acts", Answer(200, delay=1.2))
    run = daemon.submit("flow", {}, "par1", wait=20).json()
    assert run["state"] == "compensated" and run["error"]["step"] == "fails", run
    assert paths(ledger)[-2:] == ["undo_acts", "undo_before"] and len(ledger.requests) == 5
    assert {s["id"]: s["state"] for s in run["steps"]}["after"] in ("pending", "withdrawn"), run
    # a_par_2: a branch whose failure is let go holds nobody up, and opens no join early.
    daemon.apply(workflow("loose", step("x", ", needs: [], on_failure: continue"),
                          step("y", ", needs: []"), step("z", ", needs: []"),
                          """id: all
    needs: [x, y, z]
    action: {post: svc/all, body: {x: "${{ default(steps.x.output, null) }}", y: "${{ steps.y.output.ok }}"}}
    compensate: {post: svc/undo_all}"""))
    ledger.requests.clear()
    ledger.script("/x", Answer(422))
    ledger.script("/y", Answer(200, delay=0.6))
    ledger.script("/z", Answer(200, delay=1.0))
    begun = time.monotonic()
    run = daemon.submit("loose", {}, "par2", wait=20).json()
    assert run["state"] == "completed" and time.monotonic() - begun >= 1, run
    (join,) = ledger.seen(path="/all")
    assert join.body == b'{"x":null,"y":true}', join.body


# --- DUP, IDEM ---------------------------------------------------------------------------------------


@case
def a_dup_3(env):
    """A slow but good answer after our limit: the same key and bytes again, one effect, and the
    first attempt is told as unknown, not as failed."""
    ledger, daemon = with_steps(
        env, "{id: pay, timeout: 700ms, action: {post: svc/pay, body: {cents: 1990, at: '${{ "
        "run.started_at }}'}}, compensate: {post: svc/undo}}")
    ledger.script("/pay", Answer(200, {"id": "ch_1"}, delay=1.1))
    run = daemon.submit("flow", {}, "dup3", wait=20).json()
    assert run["state"] == "completed" and run["steps"][0]["output"] == {"id": "ch_1"}, run
    requests = ledger.seen(path="/pay")
    assert len(requests) == 2 and len(ledger.effects) == 1
    assert len({(r.key, r.body) for r in requests}) == 1
    attempts = env.rows("select number, outcome from saga.attempts order by number")
    assert [(a["number"], a["outcome"]) for a in attempts] == [(1, "unknown"), (2, "applied")]
    assert all("failed" not in str(t) for t in timeline(env, "dup3")), timeline(env, "dup3")


@case
def a_idem_1(env):
    """The first request outlives our limit; meanwhile its key is answered 409 "in use", which the
    service's outcomes call in_progress: the step ends with the stored success, nothing is undone."""
    ledger, daemon = with_steps(
        env, "{id: pay, timeout: 500ms, action: {post: svc/pay, outcomes: [{when: \"response.status "
        "== 409 && response.body.code == 'idempotency_key_in_use'\", is: in_progress}]}, "
        "compensate: {post: svc/undo}}")
    busy = Answer(409, {"code": "idempotency_key_in_use"}, effect=False)
    ledger.script("/pay", Answer(200, {"id": "ch_1"}, delay=1.5))
    ledger.script("/pay", busy, busy, busy, busy, force=True)  # more than there are attempts
    run = daemon.submit("flow", {}, "idem1", wait=20).json()
    assert run["state"] == "completed" and run["steps"][0]["output"] == {"id": "ch_1"}, run
    assert paths(ledger) == ["pay"] * 6 and len(ledger.effects) == 1
    assert len({(r.key, r.body) for r in ledger.requests}) == 1


@case
def a_idem_2(env):
    """A service that stores its 500: whether it did the work or not, the outcome is unknown and
    never a clean failure. Past the key's lifetime nothing is sent blindly."""
    ledger, daemon = with_steps(env, step("pay"))
    for run_id, done in (("idem2a", False), ("idem2b", True)):
        ledger.always("/pay", Answer(500, {"code": "stored"}, effect=done))
        run = daemon.submit("flow", {}, run_id, wait=20).json()
        assert run["state"] == "parked", run
        sent = ledger.seen(key=run_id + ":pay:execute")
        assert len(sent) == 6, "three times forward, three times on the way back, to find out"
        assert len({r.body for r in sent}) == 1
        assert env.sql("select state from saga.steps where run_id = '%s'" % run_id) == "unknown"
    assert not ledger.seen(path="/undo_pay")
    daemon.apply(workflow("short", "{id: pay, retry: {attempts: 3, delay: 1s, jitter: 0%, budget: "
                          "1h}, action: {post: svc/pay}, compensate: {post: svc/undo_pay}}",
                          services=KEYED.replace("1d", "2s"), head="defaults: {timeout: 500ms}\n"))
    ledger.always("/pay", Answer(200, act="reset"))
    daemon.start_run("short", {}, "idem2c")
    wait_until("it was sent", lambda: ledger.seen(key="idem2c:pay:execute"))
    daemon.verb("idem2c", "pause")
    time.sleep(2.2)
    daemon.verb("idem2c", "resume")
    assert env.wait_state("idem2c") == "parked"
    assert len(ledger.seen(key="idem2c:pay:execute")) == 1, "the service may have forgotten the key"
    assert env.sql("select state from saga.steps where run_id = 'idem2c'") == "unknown"


@case
def a_idem_3(env):
    """The client dies after it has sent the submit; run again it gets the one run, its result and
    its exit code, also after the run has failed and been compensated."""
    ledger, daemon = with_steps(env, step("a"), step("b"))
    for key, answer, code in (("idem3", Answer(200, delay=0.5), 0),
                              ("idem3b", Answer(422, {"code": "NO"}, delay=0.5), 5)):
        ledger.script("/b", answer)
        argv = [SAGACTL, "--socket", daemon.socket, "run", "flow", "--id", key, "--wait"]
        client = spawn(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until("it has begun", lambda: ledger.seen(key=key + ":a:execute"))
        client.kill()
        client.wait()
        again = daemon.ctl("run", "flow", "--id", key, "--wait", "-o", "json")
        assert again.code == code and again.json()["run_id"] == key, again
        later = daemon.ctl("run", "flow", "--id", key, "--wait")
        assert later.code == code and "existing" in later.out + later.err, later
        assert len(ledger.seen(key=key + ":a:execute")) == 1
    assert len(env.states()) == 2


@case
def a_idem_4(env):
    """A body that was cut off on the way goes out again whole: length and bytes are equal on every
    attempt."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(workflow("flow", "{id: a, action: {post: svc/a, body: {note: '${{ input.note }}'}}"
                          ", compensate: {post: svc/undo}}", head=FAST.replace(
                              "attempts: 3", "attempts: 5", 1)))
    for name, size in (("small", 1000), ("large", 900000)):
        ledger.requests.clear()
        for cut in (0, 512, size // 2):
            ledger.script("/a", Answer(act="cut_read", bytes=cut, effect=False))
        ledger.script("/a", Answer(act="reset", effect=False))
        note = "".join(chr(97 + n % 26) for n in range(size))
        run = daemon.submit("flow", {"note": note}, name, wait=20).json()
        assert run["state"] == "completed", run
        assert len(ledger.requests) == 5
        whole = ledger.requests[-1].body
        assert len({r.headers["content-length"] for r in ledger.requests}) == 1
        assert len({r.key for r in ledger.requests}) == 1
        assert ledger.requests[-2].body == whole
        for request in ledger.requests[:3]:
            assert whole.startswith(request.body), request
        assert note in whole.decode()
    # A 307 is not followed, and nothing is sent without its body.
    ledger.requests.clear()
    ledger.script("/a", Answer(307, headers={"Location": ledger.url + "/b"}))
    run = daemon.submit("flow", {"note": "x"}, "redirected", wait=20).json()
    assert run["state"] == "compensated" and paths(ledger) == ["a"], (run, paths(ledger))


@case
def a_agent_1(env):
    """A caller that loses the answer and calls again, and again: one run, every repeat gets it and
    is told that it existed; without an id each call is a run of its own, and the help says so."""
    ledger, daemon = with_steps(env, step("a"), step("b"))
    ledger.script("/b", Answer(200, delay=0.6))
    body = b'{"workflow":"flow","input":{"n":1},"run_id":"tool-call-7"}'
    head = b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n"
    for n in range(5):
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(daemon.socket)
            prefer = b"Prefer: wait=20\r\n" if n % 2 else b""
            caller.sendall(head % (len(body), prefer) + body)
            time.sleep(0.05)
    reply = daemon.submit("flow", {"n": 1}, "tool-call-7", wait=20)
    assert reply.status == 200 and reply.json()["state"] == "completed", reply
    assert reply.headers["Idempotency-Replayed"] == "true"
    by_header = daemon.http("POST", "/v1/runs", {"workflow": "flow", "input": {"n": 1}},
                            {"Idempotency-Key": "tool-call-7"})
    assert by_header.status == 200 and by_header.json()["run_id"] == "tool-call-7", by_header
    assert len(env.states()) == 1 and len(ledger.requests) == 2
    first, second = (daemon.start_run("flow", {"n": 1}) for _ in range(2))
    assert first != second
    assert "every repeat\nstarts another run" in daemon.ctl("help", "run").out
    env.wait_all(3)


# --- HTTP --------------------------------------------------------------------------------------------


@case
def a_http_3(env):
    """A redirect is never followed: no GET, no second request; the step is refused and the error
    names where it pointed."""
    ledger, daemon = with_steps(env, "{id: a, action: {post: 'svc/a/${{ input.n }}'}, "
                                "compensate: {post: svc/undo}}")
    for status in (301, 302, 303, 307, 308):
        target = ledger.url + "/elsewhere"
        ledger.script("/a/%d" % status, Answer(status, headers={"Location": target}))
        run = daemon.submit("flow", {"n": status}, "redirect-%d" % status, wait=10).json()
        assert run["state"] == "compensated", run
        assert run["error"]["status"] == status and target in run["error"]["message"], run
    assert [r.method for r in ledger.requests] == ["POST"] * 5
    assert not ledger.seen(path="/elsewhere") and not ledger.effects


@case
def a_http_5(env):
    """Retry-After is honoured in seconds and in all three date forms, against the server's own
    clock, costs no attempt, and in the past it means the normal pause."""
    env.sequential = False
    names = ["seconds", "imf", "rfc850", "asctime", "hour_off", "past", "broken"]
    ledger, daemon = with_steps(env, *[step(n, ", needs: []") for n in names],
                                head=FAST.replace("attempts: 3", "attempts: 2", 1))

    def date(form, ahead, shift=0):
        at = time.time() + shift + ahead
        if form == "imf":
            return formatdate(at, usegmt=True)
        return time.strftime({"rfc850": "%A, %d-%b-%y %H:%M:%S GMT",
                              "asctime": "%a %b %e %H:%M:%S %Y"}[form], time.gmtime(at))

    def later(header, shift=0, status=503):
        return lambda r: Answer(status, headers={
            "Retry-After": header(), "Date": formatdate(time.time() + shift, usegmt=True)})

    answers = {"seconds": later(lambda: "3", status=429),
               "imf": later(lambda: date("imf", 3)),
               "rfc850": later(lambda: date("rfc850", 3), status=429),
               "asctime": later(lambda: date("asctime", 3)),
               "hour_off": later(lambda: date("imf", 3, 3600), 3600),
               "past": later(lambda: date("imf", -30)),
               "broken": later(lambda: "soon")}
    seen = {}

    def moody(request):
        name = request.path[1:]
        seen[name] = seen.get(name, 0) + 1
        return answers[name](request) if seen[name] == 1 else Answer(200)

    ledger.always("/", moody)
    run = daemon.submit("flow", {}, "retry-after", wait=20).json()
    assert run["state"] == "completed", run
    for name in names:
        first, second = (r.at for r in ledger.seen(path="/" + name))
        pause = second - first
        if name in ("past", "broken"):
            assert 0.04 < pause < 1.0 * PATIENCE, (name, pause)
        else:  # dates have whole seconds
            assert 1.9 < pause < 4.5 * PATIENCE, (name, pause)
    # It costs no attempt: 2 are allowed, 5 are sent.
    seen.clear()
    counts = []

    def busy(request):
        counts.append(1)
        return Answer(429, headers={"Retry-After": "1"}) if len(counts) < 4 else Answer(200)

    daemon.apply(workflow("busy", step("seconds"), head=FAST.replace(
        "attempts: 3", "attempts: 1", 1)))
    ledger.always("/seconds", busy)
    assert daemon.submit("busy", {}, "busy", wait=20).json()["state"] == "completed"
    assert len(counts) == 4


@case
def a_http_8(env):
    """Hundreds of requests to servers that never answer, or never even accept, end at their limit;
    others are not held up, and no connection is left."""
    ledger, daemon = with_steps(
        env, step("a", ", timeout: 3s", undo_more=", tolerant: true"),
        head=FAST.replace("attempts: 3", "attempts: 1", 1))
    hole = socket.create_server(("127.0.0.1", 0), backlog=0)
    fillers = []
    for _ in range(4):  # its queue is full: SYNs are dropped from now on
        filler = socket.socket()
        filler.setblocking(False)
        filler.connect_ex(hole.getsockname())
        fillers.append(filler)
    env.closers.append(lambda: [s.close() for s in [hole, *fillers]])
    env.services["hole"] = "http://127.0.0.1:%d" % hole.getsockname()[1]
    env.config_write()
    assert daemon.stop() == 0
    daemon.start("--lease", "2s")
    daemon.apply(workflow("falls", "{id: a, timeout: 3s, action: {post: hole/a}, compensate: "
                          "{post: hole/undo}}", services=KEYED.replace("svc", "hole"),
                          head=FAST.replace("attempts: 3", "attempts: 1", 1)))
    daemon.apply(workflow("quick", step("b")))
    ledger.always("/a", Answer(act="never", effect=False))
    before = len(os.listdir("/proc/%d/fd" % daemon.pid))
    begun = time.monotonic()
    for n in range(100):
        daemon.start_run("flow", {}, "silent-%d" % n)
        daemon.start_run("falls", {}, "hole-%d" % n)
    for n in range(20):
        at = time.monotonic()
        assert daemon.submit("quick", {}, wait=10).json()["state"] == "completed"
        assert time.monotonic() - at < 1.5 * PATIENCE, "it waited for the others"
    submitted = time.monotonic() - begun
    env.wait_all(220)
    assert time.monotonic() - begun < submitted + 4.5 * PATIENCE
    assert set(env.states().values()) == {"completed", "compensated"}
    took = env.rows("select min(extract(epoch from ended_at - started_at)) as low, "
                    "max(extract(epoch from ended_at - started_at)) as high from saga.steps "
                    "where run_id like 'silent-%' or run_id like 'hole-%'")[0]
    assert 2.6 < took["low"] and took["high"] < 3 * 1.1 + 0.7 * PATIENCE, took
    outcomes = env.rows("select left(run_id, 4) as kind, outcome, count(*) as n from saga.attempts "
                        "where direction = 'execute' and run_id not like '0%' "
                        "group by 1, 2 order by 1, 2")
    assert {(row["kind"], row["outcome"]) for row in outcomes} == \
        {("hole", "retryable"), ("sile", "unknown")}, outcomes
    # Only those that answered the undo are kept for the next request.
    env.descriptors_max = before + 120
    assert len(os.listdir("/proc/%d/fd" % daemon.pid)) < env.descriptors_max


@case
def a_http_9(env):
    """202 counts as applied (without a reconcile), is stored as it came, and is undone like it."""
    ledger, daemon = with_steps(env, step("a"), step("b"))
    ledger.script("/a", Answer(202, {"job": 7}, headers={"Location": "/jobs/7"}))
    ledger.script("/b", Answer(422))
    run = daemon.submit("flow", {}, "accepted", wait=10).json()
    assert run["state"] == "compensated", run
    assert run["steps"][0]["output"] == {"job": 7} and paths(ledger) == ["a", "b", "undo_a"], run


@case
def a_http_10(env):
    """Success in a 404 and failure in a 200 are what the file says they are; a rule that cannot be
    evaluated never makes a success."""
    ledger, daemon = with_steps(env, step("a"), step(
        "b", undo_more=", outcomes: [{when: 'response.status == 404', is: applied}]"), """id: c
    action:
      post: svc/c
      outcomes:
        - {when: "response.status == 200 && response.body.ok == false", is: refused}
    compensate: {post: svc/undo_c, tolerant: true}""")
    ledger.script("/c", Answer(200, {"ok": False, "code": "NOT_REALLY"}, effect=False))
    ledger.script("/undo_b", Answer(404))
    run = daemon.submit("flow", {}, "h10", wait=10).json()
    assert run["state"] == "compensated" and run["error"]["code"] == "NOT_REALLY", run
    assert paths(ledger) == ["a", "b", "c", "undo_b", "undo_a"], paths(ledger)
    # Without the rule a 404 of an undo is a failure.
    ledger.script("/c", Answer(200, {"ok": False}, effect=False))
    ledger.script("/undo_a", Answer(404))
    daemon.start_run("flow", {}, "h10b")
    assert env.wait_state("h10b") == "parked"
    (dead,) = env.rows("select reason, step_id from saga.dead_letters")
    assert dead == {"reason": "compensation_failed", "step_id": "a"}
    # `ok` is missing: unknown, not success; the key is honoured, so it is asked again.
    ledger.requests.clear()
    ledger.script("/c", Answer(200, {"fine": True}), Answer(200, {"ok": True}), force=True)
    run = daemon.submit("flow", {}, "h10c", wait=10).json()
    assert run["state"] == "completed", run
    assert paths(ledger) == ["a", "b", "c", "c"]
    attempts = env.rows("select outcome, error ->> 'code' as code from saga.attempts where run_id = "
                        "'h10c' and step_id = 'c' order by number")
    assert attempts[0] == {"outcome": "unknown", "code": "outcome_rule_failed"}, attempts


# --- POISON ------------------------------------------------------------------------------------------


@case
def a_poison_2(env):
    """What is refused, what is retried, what is unknown: one table, checked by the number of
    requests and by the outcome that is stored; undone only what may have been applied."""
    ledger = env.ledger("svc")
    closed = socket.create_server(("127.0.0.1", 0))
    refused_port = closed.getsockname()[1]
    closed.close()
    plain = socket.create_server(("127.0.0.1", 0))  # speaks no TLS
    plain_port = plain.getsockname()[1]

    def mute():
        while True:
            try:
                connection, _ = plain.accept()
            except OSError:
                return
            try:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            except OSError:
                pass
            connection.close()

    threading.Thread(target=mute, daemon=True).start()
    env.closers.append(plain.close)
    env.services["gone"] = "http://127.0.0.1:%d" % refused_port
    env.services["nodns"] = "http://no-such-host.invalid"
    env.services["notls"] = "https://127.0.0.1:%d" % plain_port
    env.config_write()
    daemon = env.daemon("a").start()
    template = """
workflow: probe_%s
defaults:
  retry: {attempts: 3, delay: 20ms, factor: 1, max_delay: 20ms, jitter: 0%%}
services:
  svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}
  %s: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}
steps:
  - {id: before, action: {post: svc/before}, compensate: {post: svc/undo_before}}
  - id: probe
    timeout: 5s
    action: {post: "%s/probe/${{ input.row }}"}
    compensate: {post: "svc/undo/${{ input.row }}", tolerant: true}
"""
    for service in ("svc2", "gone", "nodns", "notls"):
        if service == "svc2":
            env.services["svc2"] = ledger
            env.config_write()
            assert daemon.stop() == 0
            daemon.start()
        daemon.apply(template % (service, service, service))
    no = dict(effect=False)
    rows = [(str(status), Answer(status, {"x": 1}, **no), 1, "refused")
            for status in (400, 401, 402, 403, 404, 405, 409, 410, 422, 451)]
    rows += [(str(status), Answer(status, {"x": 1}, **no), 3, "retryable")
             for status in (408, 425, 429, 503)]
    rows += [(str(status), Answer(status, {"x": 1}, **no), 3, "unknown")
             for status in (500, 501, 502, 504, 507)]
    rows += [("stays", Answer(400, {"retryable": True}, **no), 3, "retryable"),
             ("final", Answer(503, {"retryable": False}, **no), 1, "refused"),
             ("quota", Answer(429, {"retryable": False}, **no), 1, "refused"),
             ("word", Answer(503, {"retryable": "no"}, **no), 3, "retryable"),
             ("text", Answer(409, "in the way", headers={"Content-Type": "text/plain"}, **no), 1,
              "refused"),
             ("empty", Answer(409, b"", **no), 1, "refused"),
             ("reset", Answer(act="reset", **no), 3, "unknown"),
             ("close", Answer(act="close", **no), 3, "unknown"),
             ("halfhead", Answer(act="cut", bytes=20, **no), 3, "unknown"),
             ("halfbody", Answer(200, "x" * 100, act="cut", bytes=120, **no), 3, "unknown"),
             ("junk", Answer(raw=b"HELLO\r\n\r\n", **no), 3, "unknown"),
             ("badlength", Answer(raw=b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n{}", **no), 3,
              "unknown"),
             ("http10", Answer(raw=b"HTTP/1.0 200 OK\r\n\r\n{}", **no), 1, "applied"),
             ("204", Answer(204, b"", **no), 1, "applied"),
             ("201", Answer(201, "", **no), 1, "applied"),
             ("notjson", Answer(200, "OK", headers={"Content-Type": "text/plain"}, **no), 1,
              "applied"),
             ("brokenjson", Answer(200, '{"a":', **no), 1, "applied")]
    for name, answer, _, _ in rows:
        ledger.always("/probe/" + name, answer)
    for name, *_ in rows:
        daemon.start_run("probe_svc2", {"row": name}, "row-" + name)
    for service in ("gone", "nodns", "notls"):
        daemon.start_run("probe_" + service, {"row": service}, "row-" + service)
    env.wait_all(len(rows) + 3, 60)
    rows += [(service, None, 0, "retryable") for service in ("gone", "nodns", "notls")]
    outcomes = {row["run_id"]: row for row in env.rows(
        "select distinct on (run_id) run_id, outcome, number from saga.attempts "
        "where step_id = 'probe' and direction = 'execute' order by run_id, number desc")}
    states = env.states()
    wrong = []
    for name, _, sends, outcome in rows:
        seen = len(ledger.seen(path="/probe/" + name))
        undone = len(ledger.seen(path="/undo/" + name))
        last = outcomes["row-" + name]
        state = "completed" if outcome == "applied" else "compensated"
        undo = 1 if outcome == "unknown" else 0
        got = (seen, last["outcome"], states["row-" + name], undone)
        if got != (sends, outcome, state, undo) or last["number"] != max(sends, 1) and sends:
            wrong.append("%s: %s, not %s" % (name, got, (sends, outcome, state, undo)))
        if not sends and last["number"] != 3:
            wrong.append("%s: %d attempts" % (name, last["number"]))
    assert not wrong, "\n".join(wrong)


# --- VERSION -----------------------------------------------------------------------------------------


@case
def a_version_1(env):
    """Runs in flight keep the definition they began with, forward and back, whatever is applied
    meanwhile; new ones get the new one; a label stands for one content."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start("--lease", "2s")
    pause = "{id: pause, action: {sleep: 1500ms}}"
    v1 = workflow("flow", step("a"), pause, step("b"), step("c"), head="version: 'one'\n" + FAST)
    v2 = workflow("flow", step("a", undo="other_undo_a"), pause, step("new"), step("c"),
                  head="version: 'two'\n" + FAST)
    first = daemon.apply(v1)
    ledger.always("/c", lambda r: Answer(422 if int(r.key.split(":")[0].split("-")[1]) % 2 else 200))
    for n in range(10):
        daemon.start_run("flow", {}, "v1-%d" % n)
    second = daemon.apply(v2)
    assert first["hash"] != second["hash"]
    for n in range(4):
        daemon.start_run("flow", {}, "v2-%d" % n)
    daemon.kill()  # the old definition has to be found again, too
    daemon.start("--lease", "2s")
    env.wait_all(14)
    for n in range(10):
        mine = [r.path[1:] for r in ledger.requests
                if r.key.startswith("v1-%d:" % n) and not (r.path == "/a")]
        assert mine == (["b", "c", "undo_b", "undo_a"] if n % 2 else ["b", "c"]), (n, mine)
        assert daemon.show("v1-%d" % n)["version"] == "one"
    for n in range(4):
        mine = [r.path[1:] for r in ledger.requests
                if r.key.startswith("v2-%d:" % n) and not (r.path == "/a")]
        assert mine == (["new", "c", "undo_new", "other_undo_a"] if n % 2 else ["new", "c"]), mine
        assert daemon.show("v2-%d" % n)["version"] == "two"
    reply = daemon.http("PUT", "/v1/workflows", v2.replace("other_undo_a", "third_undo_a"))
    assert reply.status == 409, reply
    again = daemon.apply(v1)  # known: made current again
    assert again["hash"] == first["hash"] and again["status"] == "current", again


# --- LOST ---------------------------------------------------------------------------------------------


@case
def a_lost_1(env):
    """What falls due while no daemon is alive (a sleep, a retry's pause, a deadline) happens within
    a second of the next start."""
    ledger, daemon = with_steps(env, step("a"), "{id: nap, action: {sleep: 2s}}", step("b"),
                                name="sleeper")
    slow = "defaults: {retry: {attempts: 3, delay: 2s, factor: 1, max_delay: 2s, jitter: 0%}}\n"
    daemon.apply(workflow("retrier", step("c"), head=slow))
    daemon.apply(workflow("late", step("d"), step("e"), head="deadline: 2s\n" + slow))
    ledger.script("/c", Answer(503))
    ledger.script("/e", Answer(503))
    for name in ("sleeper", "retrier", "late"):
        daemon.start_run(name, {}, name)
    wait_until("all wait", lambda: env.sql(
        "select count(*) from saga.steps where state in ('waiting', 'retrying')") == "3")
    daemon.kill()
    time.sleep(3)
    daemon.start("--lease", "2s")
    started = time.monotonic()
    assert env.wait_state("sleeper") == "completed" and env.wait_state("retrier") == "completed"
    assert env.wait_state("late") == "compensated"
    assert time.monotonic() - started < 1.5 * PATIENCE
    assert daemon.show("late")["cause"] == "deadline"
    assert [r.path for r in ledger.seen() if r.key.startswith("late:")] == ["/d", "/e", "/undo_d"]
    # It is not early either.
    daemon.start_run("sleeper", {}, "second")
    assert env.wait_state("second") == "completed"
    (nap,) = env.rows("select extract(epoch from ended_at - started_at) as s from saga.steps "
                      "where run_id = 'second' and step_id = 'nap'")
    assert 2 <= nap["s"] < 3 * PATIENCE, nap


@case
def a_lost_2(env):
    """A daemon that dies while an action runs uses up no attempt; dying over one action again and
    again ends in a dead letter that says so."""
    ledger, daemon = with_steps(env, step("a", ", timeout: 60s"))
    gate = threading.Event()
    env.closers.append(gate.set)
    ledger.always("/a", Answer(200, gate=gate))
    ledger.script("/a", *[Answer(200, gate=gate, effect=False)] * 4)
    daemon.start_run("flow", {}, "lost2")
    for n in range(4):
        wait_until("it is sent", lambda: len(ledger.seen(path="/a")) == n + 1)
        daemon.kill()
        daemon.start("--lease", "2s")
    wait_until("it is sent", lambda: len(ledger.seen(path="/a")) == 5)
    assert env.sql("select attempts, pickups from saga.effect") == "1|4"
    gate.set()
    assert env.wait_state("lost2") == "completed"
    assert {(r.key, r.attempt, r.body) for r in ledger.seen(path="/a")} == \
        {("lost2:a:execute", 1, b"")}
    gate.clear()
    ledger.script("/a", *[Answer(200, gate=gate, effect=False)] * 10)
    daemon.start_run("flow", {}, "loop")
    for n in range(6):
        wait_until("it is sent", lambda: len(ledger.seen(key="loop:a:execute")) == n + 1)
        daemon.kill()
        daemon.start("--lease", "2s")
    assert env.wait_state("loop") == "parked"
    (dead,) = env.rows("select reason, next_verbs from saga.dead_letters")
    assert dead["reason"] == "crash_loop" and "retry" in dead["next_verbs"], dead
    assert len(ledger.seen(key="loop:a:execute")) == 6
    gate.set()
    assert daemon.verb("loop", "retry").status == 200
    assert env.wait_state("loop") in ("completed", "parked")


if __name__ == "__main__":
    main(parallel=6)
