#!/usr/bin/env python3
"""Two daemons on one database: each run has one owner at any time, whatever is killed or frozen."""

import glob
import hashlib
import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from lib import Answer, case, main, wait_until
from pgproxy import PgProxy

LEASE_S = 2.0
LEASE = ("--lease", "2s")
# Silence for the ttl and a quarter, seen by looks that are a quarter of the ttl apart.
TAKE_OVER_S = LEASE_S * 1.25 + 2 * LEASE_S / 4

ONE = """
workflow: one
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
defaults: {retry: {attempts: 3, delay: 50ms, factor: 2, max_delay: 1s, jitter: 20%}}
steps:
  - id: act
    action: {post: svc/act, body: {n: "${{ input.n }}"}}
    compensate: {post: svc/undo, body: {n: "${{ input.n }}"}}
"""

TWO = """
workflow: two
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
defaults: {retry: {attempts: 3, delay: 50ms, factor: 2, max_delay: 1s, jitter: 20%}}
steps:
  - id: first
    action: {post: svc/first, body: {n: "${{ input.n }}"}}
    compensate: {post: svc/undo_first, body: {n: "${{ input.n }}"}}
  - id: second
    action: {post: svc/second, body: {n: "${{ input.n }}"}}
    compensate: {post: svc/undo_second, body: {n: "${{ input.n }}"}}
"""

ONCE = """
workflow: once
services: {svc: {url: "http://127.0.0.1:1", idempotency: none}}
steps:
  - id: act
    effect: irreversible
    action: {post: svc/act, body: {n: "${{ input.n }}"}}
"""


def shard_of(run_id):
    return hashlib.sha256(run_id.split("~")[0].encode()).digest()[0] & 63


def owner(env, run_id):
    return env.sql("select l.daemon from saga.shard s join saga.lane l using (lane_no) "
                   "where s.shard = %d" % shard_of(run_id))


def shares(env):
    rows = env.rows("select l.daemon, count(*) as n from saga.shard s join saga.lane l "
                    "using (lane_no) group by l.daemon")
    return {row["daemon"]: row["n"] for row in rows}


def pair(env, *workflows, lease=LEASE):
    """Two daemons that have shared the shards out."""
    ledger = env.ledger("svc")
    a, b = env.daemon("a").start(*lease), env.daemon("b").start(*lease)
    for workflow in workflows or (ONE, TWO):
        a.apply(workflow)
    wait_until("the shards are shared out", lambda: all(
        31 <= shares(env).get(name, 0) <= 33 for name in "ab"), 20)
    return ledger, a, b


def id_owned_by(env, name, prefix="run"):
    """A run id whose shard that daemon owns."""
    return next(run for run in ("%s-%d" % (prefix, n) for n in range(1000))
                if owner(env, run) == name)


@case
def shards_are_shared_out(env):
    """A second daemon gets half of the shards, a drained one gives its own back at once."""
    ledger, a, b = pair(env)
    assert sum(shares(env).values()) == 64
    rows = env.rows("select * from saga.daemons order by daemon")
    assert [row["daemon"] for row in rows] == ["a", "b"] and all(row["alive"] for row in rows), rows
    listed = b.ctl("daemons", "-o", "json").json()
    assert [row["daemon"] for row in (listed["daemons"] if isinstance(listed, dict) else listed)] \
        == ["a", "b"], listed
    begun = time.monotonic()
    assert b.stop() == 0
    wait_until("all shards are back", lambda: shares(env).get("a") == 64, 10)
    assert time.monotonic() - begun < LEASE_S, "the lease was waited for"
    run = b_run = id_owned_by(env, "a", "back")
    assert a.submit("one", {"n": 1}, run, wait=10).json()["state"] == "completed", b_run


@case
def a_long_action_blocks_no_hand_over(env):
    """While a long action is in flight its shard stays where it is and takes new runs; the others
    are shared out all the same, and so is this one afterwards."""
    ledger = env.ledger("svc")
    a = env.daemon("a").start(*LEASE)
    a.apply(ONE)
    gate = threading.Event()
    ledger.script("/act", Answer(200, gate=gate))
    a.start_run("one", {"n": 1}, "long-0")
    wait_until("it is in flight", lambda: ledger.requests)
    b = env.daemon("b").start(*LEASE)
    wait_until("the shards are shared out", lambda: shares(env).get("b", 0) >= 31, 10)
    neighbours = [run for run in ("near-%d" % n for n in range(4000))
                  if shard_of(run) == shard_of("long-0")]
    for n, run in enumerate(neighbours[:10]):
        begun = time.monotonic()
        reply = (a, b)[n % 2].submit("one", {"n": n}, run, wait=10)
        assert reply.status == 200 and reply.json()["state"] == "completed", reply
        assert time.monotonic() - begun < 2.5 * float(os.environ.get("PATIENCE", "1")), n
        time.sleep(0.2)
    gate.set()
    assert env.wait_state("long-0") == "completed"


@case
def submits_at_the_other_daemon(env):
    """A submit at a daemon that does not own the run is answered as by the owner."""
    ledger, a, b = pair(env)
    for at, other in ((a, "b"), (b, "a")):
        run = id_owned_by(env, other, "cross")
        reply = at.submit("one", {"n": 1}, run, wait=10)
        assert reply.status == 200 and reply.json()["state"] == "completed", reply
        assert reply.headers["Idempotency-Replayed"] is None, reply
        again = at.submit("one", {"n": 1}, run, wait=10)
        assert again.status == 200 and again.json()["state"] == "completed", again
        assert again.headers["Idempotency-Replayed"] == "true", dict(again.headers)
        clash = at.submit("one", {"n": 2}, run)
        assert clash.status == 409 and clash.json()["code"] == "run_id_conflict", clash
        assert "/input/n" in clash.json()["detail"], clash
        wrong = at.submit("two", {"n": 1}, run)
        assert wrong.status == 409 and wrong.json()["code"] == "run_id_conflict", wrong
        started = at.submit("two", {"n": 3}, id_owned_by(env, other, "plain"))
        assert started.status in (200, 202) and started.headers["Location"].endswith(
            started.json()["run_id"]), (started, started.headers)
    env.wait_all(4)
    # Started by SQL, picked up by whoever owns the shard.
    for name in "ab":
        run = id_owned_by(env, name, "sql")
        env.sql("select saga.start('one', '{\"n\": 7}', '%s')" % run, "postgres")
        assert env.wait_state(run) == "completed"


@case
def verbs_at_the_other_daemon(env):
    """Every verb works, and is answered, at the daemon that does not own the run."""
    ledger, a, b = pair(env)
    for at, other in ((a, "b"), (b, "a")):
        gate = threading.Event()
        ledger.script("/second", Answer(200, gate=gate))
        run = id_owned_by(env, other, "verbs-" + other)
        at.start_run("two", {"n": 1}, run)
        wait_until("second is asked", lambda: ledger.seen(key=run + ":second:execute"))
        for verb in ("pause", "resume", "cancel"):
            reply = at.verb(run, verb)
            assert reply.status == 200 and reply.json()["run_id"] == run, (verb, reply)
        gate.set()
        assert env.wait_state(run) == "compensated"
        again = at.verb(run, "cancel")  # won already: repeating it is no error
        assert again.status == 200 and again.json()["state"] == "compensated", again
        assert at.verb(run, "pause").status == 409
        assert at.verb("nobody-" + run, "cancel").status == 404
        assert at.verb(id_owned_by(env, other, "nobody"), "cancel").status == 404
        # A parked run: refused for good with nothing to settle, then skipped by hand.
        run = id_owned_by(env, other, "parks-" + other)
        ledger.script("/first", Answer(200))
        ledger.always("/second", Answer(422, {"code": "no"}))
        ledger.always("/undo_first", Answer(422, {"code": "never"}))
        at.start_run("two", {"n": 1}, run)
        assert env.wait_state(run) == "parked"
        bad = at.verb(run, "settle", step="second", applied=True)
        assert bad.status == 409, bad
        retried = at.verb(run, "retry")
        assert retried.status == 200, retried
        assert env.wait_state(run, "parked") == "parked"
        wait_until("the retry was sent", lambda: len(ledger.seen(path="/undo_first")) >= 2)
        env.wait_state(run, "parked")
        skipped = at.verb(run, "skip", step="first:compensate")
        assert skipped.status == 200, skipped
        assert env.wait_state(run) == "compensated"
        ledger.always("/second", Answer(200))
        ledger.always("/undo_first", Answer(200))
    actors = set(env.sql("select distinct actor from saga.inbox").split("\n"))
    assert actors == {"uid:%d" % os.geteuid()}, actors
    env.sequential = False  # a skipped undo has no times of its own


ASKS = """
workflow: asks
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
input: {type: object, required: [n], properties: {n: {type: integer}}}
steps:
  - id: pay
    on_failure: park
    approve: {expires: 1h}
    action: {post: svc/pay, body: {n: "${{ input.n }}"}}
    compensate: {post: svc/undo_pay}
"""


@case
def words_and_refusals_of_the_other_daemon(env):
    """An approval given at the daemon that does not own the run is obeyed there; what is refused is
    refused with the status and code that the owner gives, which saga.requests keeps."""
    ledger, a, b = pair(env, ASKS, ASKS.replace("asks", "others").replace("{expires", "{by: other, "
                                                                         "expires"))
    for at, owned, other in ((a, b, "b"), (b, a, "a")):
        run, gone = id_owned_by(env, other, "asks-" + other), id_owned_by(env, other, "none")
        mine = id_owned_by(env, other, "mine-" + other)
        at.start_run("others", {"n": 1}, mine)
        at.start_run("asks", {"n": 1}, run)
        wait_until("a person is asked", lambda: env.sql(
            "select request_hash from saga.pending_approvals where run_id = '%s'" % run))
        hash = env.sql("select request_hash from saga.pending_approvals where run_id = '%s'" % run)
        ledger.script("/pay", Answer(422, {"code": "no"}))
        acts = [(run, "approve", "pay", {"hash": "0" * 64}, 409, "conflict"),
                (run, "approve", "nothing", {"hash": hash}, 404, "not_found"),
                (gone, "approve", "pay", {"hash": hash}, 404, "not_found"),
                (mine, "approve", "pay", {}, 403, "permission"),
                (run, "reject", "pay.3", {}, 404, "not_found"),
                (run, "approve", "pay", {"hash": hash}, 200, None),
                (run, "retry", None, {"input": {"n": "one"}}, 422, "invalid"),
                (run, "settle", "never", {"applied": True}, 404, "not_found"),
                (run, "settle", "pay", {"applied": True}, 409, "conflict"),
                (gone, "signal", None, {"name": "go"}, 404, "not_found"),
                (run, "signal", None, {"name": "no name!"}, 422, "invalid")]
        for id, verb, step, body, status, code in acts:
            said = []
            for daemon in (at,) if status == 200 else (at, owned):
                place = "/v1/runs/%s%s/%s" % (id, "/steps/" + step if step else "", verb)
                body = body if verb == "signal" else {"reason": "a test", **body}
                reply = daemon.http("POST", place, body)
                assert reply.status == status, (verb, step, daemon.name, reply)
                said.append((reply.json().get("code"), reply.json().get("detail")))
            assert len(set(said)) == 1 and said[0][0] == code, said
            kept = env.rows("select outcome, code, answer from saga.requests where run_id = '%s' and "
                            "kind = '%s' order by at desc limit 1" % (id, verb))
            assert [row["code"] for row in kept] == [code], (verb, kept)
            assert (kept[0]["outcome"] == "done") == (status == 200), (verb, kept)
            if status == 200:
                assert env.wait_state(run) == "parked"
        assert at.verb(mine, "cancel").status == 200
        approval = env.rows("select state, actor from saga.approvals where run_id = '%s'" % run)
        assert approval == [{"state": "approved", "actor": "uid:%d" % os.geteuid()}], approval


@case
def applied_at_the_other_daemon(env):
    """What was applied at one daemon can be started at the other in the next moment."""
    ledger, a, b = pair(env)
    for n in range(8):
        at, other = ((a, b), (b, a))[n % 2]
        at.apply(ONE.replace("workflow: one", "workflow: fresh_%d" % n))
        reply = other.submit("fresh_%d" % n, {"n": n}, "fresh-%d" % n, wait=10)
        assert reply.status == 200 and reply.json()["state"] == "completed", reply


@case
def one_id_many_callers(env):
    """60 callers at both daemons submit one id at the same moment, ten of them with another input:
    one run; the others are told that it existed, or that they differ."""
    ledger, a, b = pair(env)
    for name in "ab":
        run = id_owned_by(env, name, "rush")
        replies, start = [], threading.Barrier(60)

        def call(n):
            start.wait()
            replies.append((n % 6, (a, b)[n % 2].submit("one", {"n": 2 if n % 6 == 5 else 1}, run,
                                                        wait=20)))

        callers = [threading.Thread(target=call, args=(n,)) for n in range(60)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(40)
        assert len(replies) == 60
        first = env.rows("select input from saga.runs where run_id = '%s'" % run)[0]["input"]["n"]
        for kind, reply in replies:
            same = (2 if kind == 5 else 1) == first
            assert reply.status == (200 if same else 409), (kind, first, reply)
        new = [reply for _, reply in replies
               if reply.status == 200 and not reply.headers["Idempotency-Replayed"]]
        assert len(new) == 1, len(new)
        assert len(ledger.seen(key=run + ":act:execute")) == 1


@case
def a_oper_1(env):
    """1,000 cancels race with the answer of the last step, at the owner and at the other daemon: one
    of the two wins, everybody is told the truth, and an ended run stays as it ended."""
    ledger, a, b = pair(env)
    chance, delays, replies = random.Random(1), {}, {}
    ledger.always("/second", lambda r: Answer(200, delay=delays[r.key.split(":")[0]]))
    for n in range(1000):  # a verb at the other daemon takes its way through the inbox
        delays["race-%d" % n] = chance.uniform(0, 0.01 if n % 2 else 0.2)

    def race(n, pause):
        run = "race-%d" % n
        (a, b)[n // 2 % 2].start_run("two", {"n": n}, run)
        time.sleep(pause)
        replies[run] = (a, b)[n // 4 % 2].verb(run, "cancel")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(race, range(1000), [chance.uniform(0, 0.005) for _ in range(1000)]))
    env.wait_all(1000, 120)
    before = env.states()
    for run, reply in replies.items():
        # 202: not decided within five seconds; the request has the answer.
        won = env.sql("select outcome = 'done' from saga.requests where id = '%s'" %
                      reply.json()["id"]) == "t" if reply.status == 202 else reply.status == 200
        assert reply.status in (200, 202, 409), reply
        assert before[run] == ("compensated" if won else "completed"), (run, reply, before[run])
        assert won or reply.status == 202 or "the run has ended completed" in reply.body, reply
    ended = list(before.values())
    assert ended.count("compensated") > 100 and ended.count("completed") > 100, \
        (ended.count("compensated"), ended.count("completed"))
    lost = next(run for run, state in before.items() if state == "completed")
    assert [d.ctl("cancel", lost, "--reason", "late").code for d in (a, b)] == [9, 9]
    time.sleep(0.3)
    assert env.states() == before


@case
def waiting_at_the_other_daemon(env):
    """wait and events at the daemon that does not own the run see its end."""
    ledger, a, b = pair(env)
    run = id_owned_by(env, "b", "waits")
    ledger.script("/act", Answer(200, delay=1.0))
    a.start_run("one", {"n": 1}, run)
    events = {}
    follower = threading.Thread(
        target=lambda: events.update(done=a.ctl("events", run, "--follow", "-o", "jsonl")))
    follower.start()
    waited = a.ctl("wait", run, "--timeout", "20s")
    assert waited.code == 0, waited
    follower.join(20)
    assert events["done"].code == 0 and "completed" in events["done"].out, events


@case
def kill_one(env):
    """kill -9 of one daemon: the other takes over within lease and margin, and its runs end."""
    ledger, a, b = pair(env)
    runs = [id_owned_by(env, "b", "t%d" % n) for n in range(10)]
    gate = threading.Event()
    ledger.script("/second", *[Answer(200, gate=gate)] * 10)
    for n, run in enumerate(runs):
        b.start_run("two", {"n": n}, run)
    wait_until("all are in flight", lambda: len(ledger.seen(path="/second")) == 10)
    b.kill()
    killed = time.monotonic()
    gate.set()
    for run in runs:
        assert env.wait_state(run) == "completed"
    resent = min(r.at for r in ledger.seen(path="/second")[10:])
    assert LEASE_S / 2 < resent - killed < TAKE_OVER_S + 1.5, resent - killed
    assert shares(env) == {"a": 64}
    # The attempts keep their number: a take-over is not a failure of the participant.
    assert {row["attempts"] for row in env.rows("select attempts from saga.steps")} == {1}
    b.start(*LEASE)
    wait_until("shared out again", lambda: 31 <= shares(env).get("b", 0) <= 33, 20)


@case
def a_lease_2(env):
    """A daemon that slept through its lease writes nothing when it wakes up, and what its
    successor did stands."""
    ledger, a, b = pair(env)
    run = id_owned_by(env, "a", "zombie")
    gate = threading.Event()
    ledger.script("/second", Answer(200, {"who": "first"}, gate=gate))
    a.start_run("two", {"n": 1}, run)
    wait_until("second is asked", lambda: ledger.seen(key=run + ":second:execute"))
    a.freeze()
    gate.set()  # the answer waits in the sleeper's socket
    time.sleep(2 * LEASE_S)
    assert env.wait_state(run) == "completed"
    before = env.rows("select * from saga.timeline where run_id = '%s'" % run)
    lane = env.rows("select epoch, seq from saga.lane where lane = 'a'")
    a.thaw()
    wait_until("it notices", lambda: a.log().count("has its lease") > 1, 15)
    assert env.rows("select * from saga.timeline where run_id = '%s'" % run) == before
    after = env.rows("select epoch, seq from saga.lane where lane = 'a'")
    assert after[0]["epoch"] > lane[0]["epoch"] and after[0]["seq"] == lane[0]["seq"], (lane, after)
    assert len(ledger.seen(key=run + ":second:execute")) == 2
    wait_until("shared out again", lambda: 31 <= shares(env).get("a", 0) <= 33, 20)
    again = id_owned_by(env, "a", "after")
    assert a.submit("two", {"n": 2}, again, wait=10).json()["state"] == "completed"


def answered_too_late(env, answer, lose, database=None):
    """`once` is sent by a, which loses its lease before the answer comes."""
    ledger = env.ledger("svc")
    a = env.daemon("a", *[database] if database else []).start(*LEASE)
    a.apply(ONCE)
    gate = threading.Event()
    ledger.script("/act", Answer(*answer, gate=gate))
    a.start_run("once", {"n": 1}, "late-1")
    wait_until("it is asked", lambda: ledger.seen(path="/act"))
    lose(a)
    b = env.daemon("b").start(*LEASE)
    assert env.wait_state("late-1") == "parked"
    assert env.rows("select state from saga.steps")[0]["state"] == "unknown"
    gate.set()
    env.keys_known = True
    return ledger, a, b


def is_told(daemon):
    return "an answer came after the lease was lost" in daemon.log()


@case
def a_late_success_of_a_fenced_daemon(env):
    """The answer to what a daemon sent before it lost its lease is brought to the run's new owner,
    whether it lay in the socket while the daemon slept or came later: the run goes on from there,
    and nothing is sent again."""
    ledger, a, _ = answered_too_late(env, (200, {"id": "ch-1"}), lambda a: a.freeze())
    a.thaw()
    wait_until("it is told", lambda: is_told(a), 15)
    env.wait_state("late-1", "completed")
    assert len(ledger.requests) == 1
    finding = env.rows("select source, says, detail, actor from saga.findings")[-1]
    assert finding["source"] == "answer" and finding["says"] == "applied", finding
    assert "attempt 1" in finding["detail"] and finding["actor"] == "a", finding
    assert env.rows("select output from saga.steps")[0]["output"]["id"] == "ch-1"


@case
def a_late_refusal_of_a_fenced_daemon(env):
    """The same of a refusal: it is of one attempt, and says nothing of others, so that the run stays
    where it is; but a person sees it."""
    ledger, a, b = answered_too_late(env, (422, {"code": "card_declined"}), lambda a: a.freeze())
    a.thaw()
    wait_until("it is told", lambda: is_told(a), 15)
    wait_until("it is evidence", lambda: env.rows("select * from saga.findings"))
    finding = env.rows("select says, detail, body from saga.findings")[-1]
    assert finding["says"] == "refused" and "attempt 1" in finding["detail"], finding
    assert "card_declined" in str(finding["body"]), finding
    assert env.state("late-1") == "parked"
    told = a.ctl("dead", "show", "late-1").out
    assert "card_declined" in told, told
    settled = b.verb("late-1", "settle", step="act", applied=False)
    assert settled.status == 200, settled
    env.wait_state("late-1", "completed")
    assert len(ledger.requests) == 2


@case
def a_late_answer_without_a_database(env):
    """The daemon is awake, and its database cannot be reached until the lease has run out: the
    answer waits for it."""
    folder = env.folder + "/proxy"
    os.mkdir(folder)
    os.chmod(folder, 0o755)
    proxy = PgProxy(folder, env.cluster.folder + "/.s.PGSQL.5432")
    env.closers.append(proxy.close)
    name = folder + "/.s.PGSQL.5432"

    def lose(_):
        os.rename(name, name + ".away")
        proxy.cut()

    ledger, a, _ = answered_too_late(env, (200, {"id": "ch-1"}), lose,
                                     "host='%s' dbname=%s user=saga_engine" % (folder, env.database))
    wait_until("it is told", lambda: is_told(a), 15)
    time.sleep(0.3)
    assert env.state("late-1") == "parked"
    os.rename(name + ".away", name)
    env.wait_state("late-1", "completed")
    assert len(ledger.requests) == 1


def frozen_before_the_send(env, point):
    ledger = env.ledger("svc")
    a = env.daemon("a").start(*LEASE, failpoint=point + ":1:stop")
    a.apply(ONCE)
    a.apply(ONE)
    try:
        a.http("POST", "/v1/runs", {"workflow": "once", "input": {"n": 1}, "run_id": "once-1"},
               timeout=1)
    except OSError:
        pass
    a.frozen = True
    wait_until("it stands still", lambda: a.failed_at() == point)
    b = env.daemon("b").start(*LEASE)
    assert env.wait_state("once-1") == "parked"
    a.thaw()
    wait_until("it notices", lambda: a.log().count("has its lease") > 1, 15)
    time.sleep(0.3)
    assert ledger.requests == [], "the sleeper sent an effect that is not its own any more"
    assert env.state("once-1") == "parked"
    settled = b.verb("once-1", "settle", step="act", applied=False)
    assert settled.status == 200, settled
    env.wait_state("once-1", "compensated", "parked", "completed")
    env.keys_known = True


@case
def frozen_before_invoke(env):
    """A daemon that slept between a claim and its request does not send it when it wakes up past
    its lease: somebody else may have been told that it never happened."""
    frozen_before_the_send(env, "invoke_start")


@case
def frozen_after_invoke(env):
    """The same when the request is with the HTTP library already."""
    frozen_before_the_send(env, "invoke_started")


@case
def frozen_while_connecting(env):
    """The same in the last moment, when the connection stands."""
    frozen_before_the_send(env, "http_send")


@case
def a_dup_2(env):
    """An answer that takes many times the lease is one request: leases are kept alive while work
    is pending, and only the step's own limit ends it."""
    ledger, a, b = pair(env, lease=("--lease", "1s"))
    run = id_owned_by(env, "a", "long")
    ledger.script("/act", Answer(200, delay=15))
    lane = env.rows("select epoch from saga.lane where lane = 'a'")
    a.start_run("one", {"n": 1}, run)
    assert env.wait_state(run, timeout=40) == "completed"
    assert len(ledger.requests) == 1 and len(ledger.effects) == 1
    assert env.rows("select epoch from saga.lane where lane = 'a'") == lane
    (step,) = env.rows("select attempts from saga.steps where run_id = '%s'" % run)
    assert step["attempts"] == 1


@case
def a_dup_1(env):
    """200 runs in a daemon's first second: recovery adopts none of them, each is sent once."""
    ledger = env.ledger("svc")
    a = env.daemon("a").start(*LEASE)
    a.apply(ONE)
    a.kill()
    ledger.always("/act", Answer(200, delay=0.3))
    a.start("--lease", "1s")
    env.descriptors_max = 300  # idle connections to the ledger stay for a while

    def submit(first):
        for n in range(first, 200, 4):
            a.start_run("one", {"n": n}, "dup-%d" % n)

    clients = [threading.Thread(target=submit, args=(n,)) for n in range(4)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    env.wait_all(200)
    assert set(env.states().values()) == {"completed"}
    assert len(ledger.requests) == 200 and len({r.key for r in ledger.requests}) == 200
    assert env.sql("select count(*) from saga.attempts where number <> 1") == "0"
    assert env.sql("select count(*) from saga.attempts") == "200"


@case
def a_lease_4(env):
    """kill -9 with 20 steps in flight and a restart at once under the same name: all 20 are picked
    up, once each, without waiting for the old lease."""
    ledger = env.ledger("svc")
    a = env.daemon("a").start("--lease", "8s")
    a.apply(ONE)
    gate = threading.Event()
    ledger.script("/act", *[Answer(200, gate=gate)] * 20)
    for n in range(20):
        a.start_run("one", {"n": n}, "orphan-%d" % n)
    wait_until("all are in flight", lambda: len(ledger.requests) == 20)
    a.kill()
    begun = time.monotonic()
    a.start("--lease", "8s")
    gate.set()
    env.wait_all(20)
    assert time.monotonic() - begun < 6, "the old lease was waited for"
    assert set(env.states().values()) == {"completed"}
    for n in range(20):
        requests = ledger.seen(key="orphan-%d:act:execute" % n)
        assert len(requests) == 2 and requests[0].body == requests[1].body
        assert {r.attempt for r in requests} == {1}


@case
def without_its_lock_file(env):
    """The same name on another machine (no lock file) waits for the lease, then takes over."""
    ledger = env.ledger("svc")
    a = env.daemon("a").start(*LEASE)
    a.apply(ONE)
    ledger.script("/act", Answer(200, delay=0.5))
    a.start_run("one", {"n": 1}, "moved")
    wait_until("it is in flight", lambda: ledger.requests)
    a.kill()
    os.unlink(a.socket + ".lock")
    begun = time.monotonic()
    a.start(*LEASE)
    assert time.monotonic() - begun > LEASE_S / 2
    assert env.wait_state("moved") == "completed"
    assert len(ledger.seen(key="moved:act:execute")) == 2 and len(ledger.effects) == 1


@case
def one_name_twice(env):
    """A second daemon with the name of one that is alive is refused, also with another socket; the
    first does not notice."""
    ledger = env.ledger("svc")
    a = env.daemon("a").start(*LEASE)
    a.apply(ONE)
    same = env.daemon("a")
    same.log_path += "2"
    same.start(*LEASE, wait=False)
    assert same.wait(10) == 1, same.log()
    assert "another" in same.log() and a.is_ready(), same.log()
    other = env.daemon("a")
    other.socket, other.log_path = other.socket + "3", other.log_path + "3"
    other.start(*LEASE, wait=False)
    assert other.wait(20) == 1, other.log()
    assert 'another sagad named "a"' in other.log(), other.log()
    assert a.submit("one", {"n": 1}, "still", wait=10).json()["state"] == "completed"
    assert "lost its lease" not in a.log()


@case
def a_par_4(env):
    """Two branches that fail in the same instant keep their own retries, on two daemons."""
    env.sequential = False
    ledger, a, b = pair(env, ONE, """
workflow: fork
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
defaults: {retry: {attempts: 4, delay: 20ms, factor: 1, max_delay: 20ms, jitter: 0%}}
steps:
  - {id: left, needs: [], action: {post: svc/left}, compensate: {post: svc/undo_left}}
  - {id: right, needs: [], action: {post: svc/right}, compensate: {post: svc/undo_right}}
""")
    counts, lock = {}, threading.Lock()

    def moody(request):
        with lock:
            counts[request.key] = counts.get(request.key, 0) + 1
            return Answer(500 if counts[request.key] < 4 else 200, effect=counts[request.key] == 4)

    ledger.always("/", moody)
    for n in range(40):
        (a, b)[n % 2].start_run("fork", {}, "fork-%d" % n)
    env.wait_all(40)
    assert set(env.states().values()) == {"completed"}
    assert set(counts.values()) == {4}, counts


def at_another_time(offset):
    """A daemon whose wall clock is wrong by that; leases go by the clock that counts from boot."""
    libs = glob.glob("/usr/lib/*/faketime/libfaketime.so.1")
    assert libs, "libfaketime is not installed"
    return {"LD_PRELOAD": libs[0], "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "ASAN_OPTIONS": "verify_asan_link_order=0:" + os.environ.get("ASAN_OPTIONS", "")}


@case
def a_time_2(env):
    """Three daemons, one ten minutes ahead, one behind, and the fast one is killed: nobody takes
    over live work, no attempt is doubled, times are the database's."""
    ledger = env.ledger("svc")
    ledger.always("/", Answer(200, delay=0.3))
    fast = env.daemon("fast").start(*LEASE, environ=at_another_time("+10m"))
    fast.apply(TWO)
    right = env.daemon("right").start(*LEASE)
    slow = env.daemon("slow").start(*LEASE, environ=at_another_time("-10m"))
    wait_until("each has a share", lambda: len(shares(env)) == 3 and
               min(shares(env).values()) >= 15, 30)
    daemons = (fast, right, slow)
    for n in range(60):
        daemons[n % 3].start_run("two", {"n": n}, "r-%d" % n)
    fast.kill()
    killed = time.monotonic()
    env.wait_all(60)
    assert set(env.states().values()) == {"completed"}
    took = time.monotonic() - killed
    assert took < 60, took
    twice = [r for r in ledger.requests if r.attempt > 1]
    assert not twice, twice
    late = env.sql("select count(*) from saga.run where created_at not between "
                   "now() - interval '3 minutes' and now()")
    assert late == "0", late
    assert env.sql("select count(*) from saga.attempts where ended_at < sent_at") == "0"


if __name__ == "__main__":
    main(parallel=6)
