#!/usr/bin/env python3
"""How many runs of a tenant are in flight: the rest wait before their first step, oldest first."""

import threading
import time

from lib import Answer, case, main, wait_until

FLOW = """
workflow: flow
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
%ssteps:
  - id: a
    action: {post: svc/a, body: {n: "${{ input.n }}"}}
    compensate: {post: svc/undo_a}
  - {id: b, action: {post: svc/b}, compensate: {post: svc/undo_b}, retry: {attempts: 1}, on_failure: %s}
"""


def flow(more="", on_failure="compensate"):
    return FLOW % (more, on_failure)


def limited(env, limits, *args, source=None):
    env.config_more = "tenants: %s\n" % limits
    env.config_write()
    daemon = env.daemon("a").start(*args)
    daemon.apply(source or flow())
    return daemon


def start(env, run_id, tenant=None, more=""):
    env.sql("select saga.start('flow', '{\"n\": 1}', run_id => '%s'%s%s)" %
            (run_id, ", tenant => '%s'" % tenant if tenant else "", more))


class Crowd:
    """How many runs are between their first request and their last answer, by tenant."""

    def __init__(self, ledger, tenant_of, pause):
        self.lock, self.tenant_of, self.pause = threading.Lock(), tenant_of, pause
        self.now, self.most, self.order = {}, {}, []
        ledger.always("/a", self.enter)
        ledger.always("/b", self.leave)

    def enter(self, request):
        run = request.key.split(":")[0]
        with self.lock:
            self.order.append(run)
            inside = self.now.setdefault(self.tenant_of(run), set())
            inside.add(run)
            self.most[self.tenant_of(run)] = max(self.most.get(self.tenant_of(run), 0), len(inside))
        return Answer(200, delay=self.pause)

    def leave(self, request):
        run = request.key.split(":")[0]
        with self.lock:
            self.now[self.tenant_of(run)].discard(run)
        return Answer(200)


def waits_for_a_place(env, run_id):
    rows = env.rows("select waiting_for, detail from saga.why_waiting where run_id = '%s'" % run_id)
    return bool(rows) and rows[0]["waiting_for"] == "limit" and "its tenant" in rows[0]["detail"]


@case
def so_many_and_no_more(env):
    """40 runs of a tenant with three places: three at a time, in the order of their submission, while
    another tenant and runs without one are not held up."""
    ledger = env.ledger("svc")
    crowd = Crowd(ledger, lambda run: run.split("-")[0], 0.02)
    daemon = limited(env, "{acme: {runs: 3}, other: {runs: 1000}}")
    for n in range(40):
        daemon.http("POST", "/v1/runs", {"workflow": "flow", "input": {"n": 1}, "tenant": "acme",
                                         "run_id": "acme-%02d" % n})
    for n in range(20):
        start(env, "other-%d" % n, "other")
        start(env, "none-%d" % n)
    env.wait_all(80, 30)
    assert set(env.states().values()) == {"completed"}
    assert crowd.most["acme"] == 3, crowd.most
    assert crowd.most["none"] > 3 and crowd.most["other"] > 3, crowd.most
    begun = [run for run in crowd.order if run.startswith("acme")]
    places = {run: n for n, run in enumerate(begun)}
    assert all(abs(places["acme-%02d" % n] - n) <= 3 for n in range(40)), begun


@case
def what_waits_says_so(env):
    """The one that waits has claimed nothing and says what for; cancel and abandon work at once,
    pause and resume as well, and its deadline counts."""
    ledger = env.ledger("svc")
    gate, second = threading.Event(), threading.Event()
    ledger.script("/a", Answer(200, gate=gate), Answer(200, gate=second))
    daemon = limited(env, "{'*': {runs: 1}}", source=flow("deadline: 5s\n"))
    start(env, "first", "acme")
    wait_until("it is under way", lambda: ledger.seen(path="/a"))
    for name in ("cancelled", "abandoned", "paused", "late"):
        start(env, name, "acme")
        wait_until("it waits", lambda: waits_for_a_place(env, name))
    assert env.sql("select count(*) from saga.keys where run_id <> 'first'") == "0"
    told = daemon.ctl("explain", "late").out
    assert 'the tenant "acme" has as many runs in flight' in told, told
    listed = daemon.ctl("list", "--tenant", "acme", "--limit", "0", "-q").out.split()
    assert len(listed) == int(env.sql("select count(*) from saga.runs where tenant = 'acme'")), listed
    assert not daemon.ctl("list", "--tenant", "nobody", "-q").out
    assert daemon.verb("cancelled", "cancel").status == 200
    assert daemon.verb("abandoned", "abandon").status == 200
    assert daemon.verb("paused", "pause").status == 200
    assert not waits_for_a_place(env, "paused")
    assert daemon.verb("paused", "resume").status == 200
    assert waits_for_a_place(env, "paused")
    states = env.states()
    assert (states["cancelled"], states["abandoned"]) == ("compensated", "abandoned"), states
    gate.set()
    env.wait_state("first", "completed")
    wait_until("the next one goes", lambda: ledger.seen(key="paused:a:execute"))
    assert env.wait_state("late", "compensated", timeout=10) == "compensated"  # by its deadline
    assert env.sql("select cause from saga.runs where run_id = 'late'") == "deadline"
    second.set()
    env.wait_state("paused", "completed", "compensated")
    assert {r.key.split(":")[0] for r in ledger.seen(path="/a")} == {"first", "paused"}


@case
def a_parked_run_gives_its_place_back(env):
    """Who waits for a person does not hold up the others; when it goes on it is not held up
    either, and a run that goes back is not."""
    ledger = env.ledger("svc")
    ledger.script("/b", Answer(422, {"code": "no"}))
    daemon = limited(env, "{acme: {runs: 1}}", source=flow(on_failure="park"))
    for name in ("one", "two", "three"):
        start(env, name, "acme")
    assert env.wait_state("one", "parked", "completed") in ("parked", "completed")
    env.wait_state("two", "completed", "parked")
    env.wait_state("three", "completed", "parked")
    assert sorted(env.states().values()) == ["completed", "completed", "parked"]
    parked = env.sql("select run_id from saga.runs where state = 'parked'")
    gate = threading.Event()
    ledger.script("/a", Answer(200, gate=gate))
    start(env, "four", "acme")
    wait_until("it is under way", lambda: ledger.seen(key="four:a:execute"))
    assert daemon.verb(parked, "compensate").status == 200
    assert env.wait_state(parked, "compensated") == "compensated"
    gate.set()
    env.wait_state("four", "completed")


@case
def places_after_a_crash(env):
    """kill -9 with three in flight and many waiting: the places are taken by those that had them,
    and the others still wait their turn."""
    ledger = env.ledger("svc")
    crowd = Crowd(ledger, lambda run: "acme", 0.15)
    daemon = limited(env, "{acme: {runs: 3}}", "--lease", "2s")
    for n in range(20):
        start(env, "run-%02d" % n, "acme")
    wait_until("some are over", lambda: len(crowd.order) > 5)
    daemon.kill()
    daemon.start("--lease", "2s")
    env.wait_all(20, 30)
    assert set(env.states().values()) == {"completed"}
    assert crowd.most["acme"] <= 3, crowd.most
    assert set(ledger.effects_by_key().values()) == {1}


@case
def places_of_two_daemons(env):
    """Two daemons divide the places, and a daemon that dies leaves its part to the other."""
    ledger = env.ledger("svc")
    crowd = Crowd(ledger, lambda run: "acme", 0.05)
    a = limited(env, "{acme: {runs: 6}}", "--lease", "2s")
    b = env.daemon("b").start("--lease", "2s")
    wait_until("shared out", lambda: env.sql(
        "select count(distinct lane_no) from saga.shard where lane_no is not null") == "2", 20)
    for n in range(60):
        start(env, "run-%d" % n, "acme")
    wait_until("many are over", lambda: len(crowd.order) > 20)
    assert crowd.most["acme"] <= 7, crowd.most  # the shards need not be halved to the last one
    b.kill()
    env.wait_all(60, 40)
    assert set(env.states().values()) == {"completed"}
    assert a.alive() and set(ledger.effects_by_key().values()) == {1}


@case
def a_lock_of_its_own_starves_nobody(env):
    """One place, an old run with a lock that nobody else wants, and 40 younger ones without: the old
    one is not overtaken by them."""
    ledger = env.ledger("svc")
    daemon = limited(env, "{acme: {runs: 1}}")
    daemon.apply(flow('lock: "l${{ input.n }}"\n').replace("workflow: flow", "workflow: locked"))
    gate = threading.Event()
    ledger.script("/a", Answer(200, gate=gate))
    ledger.always("/a", Answer(200, delay=0.02))
    start(env, "first", "acme")
    wait_until("it is under way", lambda: ledger.seen(path="/a"))
    env.sql("select saga.start('locked', '{\"n\": 1}', run_id => 'old', tenant => 'acme')")
    wait_until("it waits", lambda: waits_for_a_place(env, "old"))
    for n in range(40):
        start(env, "young-%02d" % n, "acme")
    wait_until("they wait", lambda: waits_for_a_place(env, "young-39"))
    gate.set()
    env.wait_all(42, 30)
    order = [r.key.split(":")[0] for r in ledger.seen(path="/a")]
    assert order[:2] == ["first", "old"], order[:5]


WAITS = """
workflow: waits
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
steps:
  - {id: a, action: {post: svc/a}, compensate: {post: svc/undo_a}}
  - {id: w, action: {wait_for: go}, timeout: 1h}
  - {id: b, action: {post: svc/%s}, compensate: {post: svc/undo_b}}
"""


@case
def a_run_that_is_loaded_anew_keeps_its_place(env):
    """A migration loads the image of a run again; its place is not given away meanwhile."""
    ledger = env.ledger("svc")
    daemon = limited(env, "{acme: {runs: 1}}", source=WAITS % "b")
    daemon.start_run("waits", {}, "one", tenant="acme")
    wait_until("it is under way", lambda: ledger.seen(path="/a"))
    daemon.start_run("waits", {}, "two", tenant="acme")
    wait_until("the other waits", lambda: waits_for_a_place(env, "two"))
    daemon.apply(WAITS % "b2")
    new = env.sql("select encode(hash, 'hex') from saga.workflow where source like '%svc/b2%'")
    assert daemon.verb("one", "pause").status == 200
    assert daemon.verb("one", "migrate", to=new).status == 200
    assert daemon.verb("one", "resume").status == 200
    time.sleep(0.5)
    assert len(ledger.seen(path="/a")) == 1 and waits_for_a_place(env, "two")
    for run in ("one", "two"):
        daemon.verb(run, "cancel")
    env.wait_all(2)


@case
def places_and_locks(env):
    """A run that waits for a lock has no place, one that waits for a place may hold a lock: all end."""
    ledger = env.ledger("svc")
    crowd = Crowd(ledger, lambda run: "acme", 0.01)
    limited(env, "{acme: {runs: 2}}", source=flow('lock: "l${{ input.n }}"\n'))
    for n in range(30):
        env.sql("select saga.start('flow', '{\"n\": %d}', run_id => 'run-%d', tenant => 'acme')" %
                (n % 3, n))
    env.wait_all(30, 40)
    assert set(env.states().values()) == {"completed"}
    assert crowd.most["acme"] <= 2, crowd.most


if __name__ == "__main__":
    main()
