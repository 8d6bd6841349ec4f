#!/usr/bin/env python3
"""Locks of workflows: runs of one value one after another, as the participants saw them."""

import hashlib
import json
import random
import signal
import threading
import time

from lib import Answer, SqlError, case, main, wait_until

LEASE = ("--lease", "2s")

WORK = """
workflow: %(name)s
lock: account-${{ input.account }}
%(more)s
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
defaults: {retry: {attempts: 3, delay: 50ms, factor: 2, max_delay: 1s, jitter: 20%%}}
steps:
  - id: first
    action: {post: svc/first, body: {n: "${{ input.n }}"}}
    compensate: {post: svc/undo_first, body: {n: "${{ input.n }}"}}
  - id: second
    action: {post: svc/second, body: {n: "${{ input.n }}"}}
    compensate: {post: svc/undo_second, body: {n: "${{ input.n }}"}}
"""


def workflow(name="work", more=""):
    return WORK % {"name": name, "more": more}


def shard_of(run_id):
    return hashlib.sha256(run_id.encode()).digest()[0] & 63


def owner(env, run_id):
    return env.sql("select l.daemon from saga.shard s join saga.lane l using (lane_no) "
                   "where s.shard = %d" % shard_of(run_id))


def submit(daemon, run_id, account="a", n=0, workflow="work", **more):
    return daemon.start_run(workflow, {"account": account, "n": n}, run_id, **more)


def locks(env, columns="position, run_id"):
    return [tuple(row.values()) for row in env.rows(
        "select %s from saga.locks order by tenant nulls first, lock, position" % columns)]


def holder(env):
    return env.sql("select coalesce(max(run_id), '') from saga.locks where position = 0")


def waits(env, run_id):
    return env.sql("select waiting_for from saga.why_waiting where run_id = '%s'" % run_id)


def one_after_another(ledger):
    """No request of a run lies between two of another one; returns the runs in their order."""
    order = []
    for request in ledger.seen():
        run = request.key.split(":")[0]
        if not order or order[-1] != run:
            order.append(run)
    assert len(order) == len(set(order)), order
    return order


def gated(ledger, path="/first"):
    """The first request there waits until the event that is returned is set."""
    gate = threading.Event()
    ledger.script(path, Answer(200, gate=gate))
    return gate


@case
def runs_follow_in_the_order_of_their_submission(env):
    """The holder goes on, the others have sent nothing, say what they wait for, and follow in order;
    runs of another value do not wait."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(workflow())
    gate = gated(ledger)
    submit(daemon, "run-0")
    wait_until("the first one is under way", lambda: len(ledger.seen("first")) == 1)
    for n in range(1, 5):
        submit(daemon, "run-%d" % n, n=n)
    submit(daemon, "elsewhere", account="b")
    env.wait_state("elsewhere", "completed")
    assert locks(env) == [(n, "run-%d" % n) for n in range(5)], locks(env)
    assert len([r for r in ledger.seen() if "run-" in r.key]) == 1
    row = env.rows("select * from saga.why_waiting where run_id = 'run-3'")[0]
    assert row["waiting_for"] == "lock" and row["state"] == "queued", row
    assert row["detail"] == \
        'the lock "account-a" is held by run-0; 2 before this run', row
    row = env.rows("select * from saga.why_waiting where run_id = 'run-1'")[0]
    assert row["detail"] == \
        'the lock "account-a" is held by run-0; this run is the next', row
    shown = daemon.ctl("show", "run-3")
    assert 'the lock "account-a", which run-0 holds; 2 runs are before this one' in shown.out, shown
    explained = daemon.ctl("explain", "run-2")
    assert 'It waits for the lock "account-a", which run-0 holds; 1 run is before this one.' in \
        explained.out, explained
    shown = daemon.ctl("show", "run-0")
    assert "holds lock" in shown.out and "account-a" in shown.out, shown
    assert daemon.show("run-1")["lock"]["position"] == 1
    assert env.sql("select run_id from saga.runs where waiting_for = 'lock' and run_id = 'run-4'")
    gate.set()
    env.wait_all()
    order = [run for run in one_after_another_of(ledger, "run-")]
    assert order == ["run-%d" % n for n in range(5)], order
    assert locks(env) == [], locks(env)


def one_after_another_of(ledger, prefix):
    return [run for run in dict.fromkeys(
        r.key.split(":")[0] for r in ledger.seen()) if run.startswith(prefix)]


@case
def two_daemons_never_let_two_in(env):
    """20 runs of one value at two daemons: one after another, whoever carries them."""
    ledger = env.ledger("svc")
    a = env.daemon("a").start(*LEASE)
    a.apply(workflow())
    b = env.daemon("b").start(*LEASE)
    wait_until("both carry shards", lambda: env.sql(
        "select count(distinct lane_no) from saga.shard") == "2", timeout=60)
    ledger.always("/first", Answer(200, delay=0.02))
    ledger.always("/second", Answer(200, delay=0.02))
    for n in range(20):
        submit(a if n % 2 else b, "run-%d" % n, n=n)
    env.wait_all(20)
    assert len(one_after_another(ledger)) == 20
    owners = {owner(env, "run-%d" % n) for n in range(20)}
    assert owners == {"a", "b"}, owners


@case
def a_killed_holder_keeps_its_lock(env):
    """Its daemon is killed in mid-attempt: the lock stays with the run until somebody else has ended
    it; who waits elsewhere waits on."""
    ledger = env.ledger("svc")
    a = env.daemon("a").start(*LEASE)
    a.apply(workflow())
    b = env.daemon("b").start(*LEASE)
    wait_until("both carry shards", lambda: env.sql(
        "select count(distinct lane_no) from saga.shard") == "2", timeout=60)
    names = ["run-%d" % n for n in range(40)]
    at_a = [run for run in names if owner(env, run) == "a"]
    at_b = [run for run in names if owner(env, run) == "b"]
    gate = gated(ledger)
    submit(a, at_a[0])
    wait_until("the holder is under way", lambda: len(ledger.seen("first")) == 1)
    submit(b, at_b[0], n=1)
    submit(b, at_a[1], n=2)
    wait_until("two wait", lambda: len(locks(env)) == 3)
    a.kill()
    time.sleep(1)
    assert holder(env) == at_a[0] and len(ledger.seen("first")) == 1
    gate.set()
    env.wait_all(3)
    assert one_after_another(ledger) == [at_a[0], at_b[0], at_a[1]], one_after_another(ledger)


@case
def killed_and_restarted_all_the_time(env):
    """Two daemons of which one dies every moment: never two at a time, and every run ends."""
    ledger = env.ledger("svc")
    daemons = [env.daemon(name).start(*LEASE) for name in ("a", "b")]
    daemons[0].apply(workflow())
    ledger.always("/first", Answer(200, delay=0.05))
    ledger.always("/second", Answer(200, delay=0.05))
    for n in range(16):
        submit(daemons[n % 2], "run-%d" % n, n=n)
    for turn in range(4):
        time.sleep(0.3 + random.random() / 2)
        victim = daemons[turn % 2]
        victim.kill()
        victim.start(*LEASE)
    env.wait_all(16)
    assert len(one_after_another(ledger)) == 16
    assert locks(env) == []


@case
def a_parked_run_keeps_its_lock(env):
    """Parked it is still in the way, and the view says so; what a person decides lets the next in,
    whether the run goes on or is abandoned."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(workflow())
    ledger.script("/undo_first", Answer(422), Answer(422))
    ledger.script("/second", Answer(422), Answer(422))
    submit(daemon, "first")
    env.wait_state("first", "parked")
    submit(daemon, "second", n=1)
    wait_until("it waits", lambda: waits(env, "second") == "lock")
    time.sleep(0.5)
    assert env.state("second") == "queued" and waits(env, "first") == "person"
    assert locks(env, "position, run_id, state") == \
        [(0, "first", "parked"), (1, "second", "queued")], locks(env)
    assert daemon.show("second")["behind"] == {"run_id": "first", "reason": "compensation_failed"}
    assert daemon.show("first")["behind"] is None
    told = daemon.ctl("explain", "second").out
    assert "first is parked and needs a person: a compensation failed" in told, told
    assert "sagactl dead show first" in told, told
    assert daemon.verb("first", "abandon").status == 200
    env.wait_state("second", "parked")
    submit(daemon, "third", n=2)
    wait_until("it waits", lambda: waits(env, "third") == "lock")
    assert daemon.verb("second", "retry").status == 200
    env.wait_state("second", "compensated")
    env.wait_state("third", "completed")
    assert locks(env) == []


@case
def behind_a_parked_child_of_the_holder(env):
    """The run that needs a person is found over the lock and the children in between."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    leaf = workflow("leaf").replace("lock: account-${{ input.account }}\n", "")
    daemon.apply(leaf)
    daemon.apply("workflow: middle\nsteps: [{id: down, action: {child: leaf, input: {n: 1}}}]\n")
    daemon.apply("workflow: top\nlock: account-${{ input.account }}\n"
                 "steps: [{id: go, action: {child: middle, input: {n: 1}}}]\n")
    daemon.apply(workflow())
    ledger.script("/second", Answer(422))
    ledger.script("/undo_first", Answer(422))
    submit(daemon, "holder", workflow="top")
    env.wait_state("holder~go~down", "parked")
    submit(daemon, "waits", n=1)
    wait_until("it waits", lambda: waits(env, "waits") == "lock")
    for run_id in "waits", "holder", "holder~go":
        assert daemon.show(run_id)["behind"] == \
            {"run_id": "holder~go~down", "reason": "compensation_failed"}, run_id
    assert daemon.verb("holder~go~down", "abandon").status == 200
    wait_until("nobody stands behind it", lambda: not (daemon.show("waits")["behind"] or {}).get(
        "run_id", "").startswith("holder~go~down"))


@case
def who_waits_can_be_cancelled_paused_and_abandoned(env):
    """Each works at once; a paused one is passed over and keeps its place, and nothing was sent for
    those that went."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(workflow())
    gate = gated(ledger)
    for n in range(5):
        submit(daemon, "run-%d" % n, n=n)
    wait_until("the first one is under way", lambda: len(ledger.seen("first")) == 1)
    assert daemon.verb("run-1", "cancel").status == 200
    env.wait_state("run-1", "compensated", timeout=5)
    assert daemon.verb("run-2", "pause").status == 200
    assert daemon.verb("run-3", "abandon").status == 200
    assert env.state("run-3") == "abandoned" and waits(env, "run-2") == "paused"
    assert daemon.ctl("list", "--state", "paused", "-q").out == "run-2\n"
    assert locks(env) == [(0, "run-0"), (1, "run-2"), (2, "run-4")], locks(env)
    gate.set()
    env.wait_state("run-4", "completed")
    assert env.state("run-2") == "queued"
    assert daemon.verb("run-2", "resume").status == 200
    env.wait_state("run-2", "completed")
    assert one_after_another(ledger) == ["run-0", "run-4", "run-2"], one_after_another(ledger)


@case
def a_deadline_counts_while_it_waits(env):
    """Who waits longer than its deadline goes back without having begun."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(workflow())
    daemon.apply(workflow("hasty", "deadline: 1s"))
    gate = gated(ledger)
    submit(daemon, "slow")
    wait_until("the first one is under way", lambda: len(ledger.seen("first")) == 1)
    submit(daemon, "late", workflow="hasty")
    env.wait_state("late", "compensated")
    assert daemon.show("late")["cause"] == "deadline"
    gate.set()
    env.wait_state("slow", "completed")
    assert one_after_another(ledger) == ["slow"]


PARENT = """
workflow: parent
lock: account-${{ input.account }}
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
steps:
  - id: sub
    action: {child: work, input: {account: "${{ input.account }}", n: "${{ input.n }}"}}
"""


@case
def children_run_under_the_lock_of_their_root(env):
    """A child whose workflow has the same lock does not wait for its own parent."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(workflow())
    daemon.apply(PARENT)
    for n in range(3):
        submit(daemon, "run-%d" % n, n=n, workflow="parent")
    env.wait_all()
    order = list(dict.fromkeys(r.key.split("~")[0] for r in ledger.seen()))
    assert order == ["run-0", "run-1", "run-2"], order
    assert env.sql("select count(*) from saga.runs where state = 'completed'") == "6"
    assert env.sql("select count(*) from saga.run where parent is not null and lock is not null") \
        == "0"


@case
def tenants_do_not_meet_but_workflows_do(env):
    """The same value of two tenants is two locks; of two workflows it is one."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(workflow())
    daemon.apply(workflow("other"))
    gate = gated(ledger)
    submit(daemon, "mine")
    wait_until("the first one is under way", lambda: len(ledger.seen("first")) == 1)
    submit(daemon, "theirs", tenant="acme")
    env.wait_state("theirs", "completed")
    submit(daemon, "also-mine", workflow="other")
    wait_until("it waits", lambda: waits(env, "also-mine") == "lock")
    gate.set()
    env.wait_state("also-mine", "completed")


@case
def odd_values_are_refused(env):
    """At the socket with 422, by SQL as a refused request, in both cases with the reason; nothing is
    started."""
    env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(workflow())
    daemon.apply(workflow("bare").replace("lock: account-${{", "lock: ${{"))
    odd = [({"n": 1}, "account"), ({"account": None, "n": 1}, "account"),
           ({"account": [1], "n": 1}, "account"), ({"account": "", "n": 1}, "nothing of the input"),
           ({"account": "x" * 257, "n": 1}, "257 bytes, 256 is the most"),
           ({"account": "a\nb", "n": 1}, "control character")]
    for number, (body, why) in enumerate(odd):
        reply = daemon.submit("bare", body, "socket-%d" % number)
        assert reply.status == 422 and why in reply.json()["detail"], (body, reply)
        assert reply.json()["detail"].startswith("lock: "), reply
        env.sql("select saga.start('bare', '%s', 'sql-%d')" % (json.dumps(body), number))
    wait_until("all are refused", lambda: env.sql(
        "select count(*) from saga.requests where outcome = 'refused' and answer ~ '^lock: '") ==
        str(len(odd)))
    assert env.sql("select count(*) from saga.run") == "0"
    for value in (7, True, "x" * 256, "Äpfel \\ \"'"):
        run = daemon.start_run("bare", {"account": value, "n": 1})
        env.wait_state(run, "completed")
    dry = daemon.ctl("run", "work", "--input", '{"account": "z", "n": 1}', "--dry-run")
    assert dry.code == 0 and 'no other run holds the lock "account-z"' in dry.out, dry
    dry = daemon.submit("bare", {"n": 1}, dry_run=True)
    assert dry.status == 422, dry


@case
def sql_starts_and_later_starts_take_their_turn(env):
    """A run that starts later holds up nobody before its time; a run by SQL waits like any other."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(workflow())
    at = time.time() + 2.5
    submit(daemon, "later", start_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at + 1)))
    gate = gated(ledger)
    env.sql("select saga.start('work', '{\"account\": \"a\", \"n\": 1}', 'by-sql')")
    wait_until("it is under way", lambda: len(ledger.seen("first")) == 1)
    assert holder(env) == "by-sql" and waits(env, "later") == "timer"
    env.sql("select saga.start('work', '{\"account\": \"a\", \"n\": 2}', 'by-sql-2')")
    wait_until("its time has come", lambda: waits(env, "later") == "lock", timeout=10)
    assert locks(env) == [(0, "by-sql"), (1, "by-sql-2"), (2, "later")], locks(env)
    gate.set()
    env.wait_all(3)
    assert one_after_another(ledger) == ["by-sql", "by-sql-2", "later"], one_after_another(ledger)


@case
def a_completed_run_waits_for_its_lock_before_it_goes_back(env):
    """`compensate` of a run that has ended: it takes the lock again, and waits for whoever has it."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(workflow(more="compensatable_for: 1h"))
    submit(daemon, "done")
    env.wait_state("done", "completed")
    ledger.script("/first", Answer(200, gate=(gate := threading.Event())))
    submit(daemon, "now", n=1)
    wait_until("it is under way", lambda: len(ledger.seen("first")) == 2)
    assert daemon.verb("done", "compensate").status == 200
    wait_until("it waits", lambda: waits(env, "done") == "lock")
    assert locks(env) == [(0, "now"), (1, "done")], locks(env)
    explained = daemon.ctl("explain", "done")
    assert "was opened again, and waits for its lock" in explained.out, explained
    time.sleep(0.5)
    assert not ledger.seen("undo_second"), ledger.requests
    daemon.kill()
    daemon.start()
    time.sleep(0.5)
    assert not ledger.seen("undo_second"), ledger.requests
    gate.set()
    env.wait_state("now", "completed")
    env.wait_state("done", "compensated")
    assert locks(env) == []


@case
def a_drain_hands_over_who_waits(env):
    """A daemon that leaves takes neither lock nor place along."""
    ledger = env.ledger("svc")
    a = env.daemon("a").start(*LEASE)
    a.apply(workflow())
    gate = gated(ledger)
    submit(a, "run-0")
    wait_until("the first one is under way", lambda: len(ledger.seen("first")) == 1)
    for n in range(1, 6):
        submit(a, "run-%d" % n, n=n)
    b = env.daemon("b").start(*LEASE)
    wait_until("both carry shards", lambda: env.sql(
        "select count(distinct lane_no) from saga.shard") == "2", timeout=60)
    gate.set()
    a.stop(signal.SIGTERM)
    env.wait_all(6)
    order = one_after_another(ledger)
    assert order == ["run-%d" % n for n in range(6)], order
    assert b.alive()


@case
def the_database_allows_one_holder(env):
    """Even a daemon that asks wrongly cannot make a second holder, nor a ticket of an ended run."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(workflow())
    gate = gated(ledger)
    submit(daemon, "run-0")
    wait_until("the first one is under way", lambda: len(ledger.seen("first")) == 1)
    submit(daemon, "run-1", n=1)
    wait_until("it waits", lambda: waits(env, "run-1") == "lock")
    assert env.sql("select saga.locks_take_v1('{run-1,run-0,nobody}')") == "[2]"
    try:
        env.sql("update saga.lock_ticket set held_since = now() where run_id = 'run-1'")
        assert False, "a second holder"
    except SqlError as error:
        assert "lock_holder" in str(error), error
    gate.set()
    env.wait_all(2)
    assert env.sql("select saga.locks_take_v1('{run-1,run-0}')") == "[]"
    assert locks(env) == []


if __name__ == "__main__":
    main(parallel=4)
