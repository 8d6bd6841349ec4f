#!/usr/bin/env python3
"""Limits and breakers of services, judged by when the participants saw what."""

import statistics
import threading
import time

from lib import Answer, PATIENCE, case, main, wait_until

ONE = """
workflow: %(name)s
services:
  svc:
    url: "http://127.0.0.1:1"
    idempotency: {header: Idempotency-Key, ttl: 1d}
    %(limits)s
  other: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}
defaults: {retry: {attempts: 5, delay: 50ms, factor: 2, max_delay: 1s, jitter: 20%%, budget: 1m}}
steps:
  - id: act
    action: {post: svc/act, body: {n: "${{ input.n }}"}}
    compensate: {post: svc/undo, body: {n: "${{ input.n }}"}}
%(more)s
"""

BACK = """
  - id: fail
    action: {post: other/fail, body: {n: "${{ input.n }}"}}
    compensate: {post: other/undo, body: {n: "${{ input.n }}"}}
"""


def workflow(limits, name="one", more=""):
    return ONE % {"limits": limits, "name": name, "more": more}


def overlap(requests, length):
    """The most requests at the same time, if each took `length` seconds: they took longer."""
    ends = sorted([(r.at, 1) for r in requests] + [(r.at + length, -1) for r in requests],
                  key=lambda end: (end[0], end[1]))
    most = now = 0
    for _, change in ends:
        now += change
        most = max(most, now)
    return most


def in_window(requests, length):
    times = sorted(r.at for r in requests)
    return max(sum(1 for t in times if begin <= t < begin + length) for begin in times)


def submit_all(daemon, count, workflow="one", prefix="run", **more):
    runs = ["%s-%d" % (prefix, n) for n in range(count)]
    for n, run in enumerate(runs):
        daemon.start_run(workflow, {"n": n}, run, **more)
    return runs


def wait_all(env, runs, state="completed", timeout=60):
    ids = ",".join("'%s'" % run for run in runs)
    wait_until("all have ended", lambda: env.sql(
        "select count(*) from saga.runs where run_id in (%s) and state = '%s'" % (ids, state)) ==
        str(len(runs)), timeout, 0.1)


@case
def in_flight_is_never_exceeded(env):
    """40 runs at a service that takes 3 at a time: never more, everything gets through, and whoever
    waits says for what."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(workflow("limits: {in_flight: 3}"))
    gate = threading.Event()
    ledger.script("/act", *[Answer(200, gate=gate)] * 3)
    runs = submit_all(daemon, 40)
    wait_until("the service is full", lambda: len(ledger.seen("act")) == 3)
    wait_until("the others wait", lambda: env.sql(
        "select count(*) from saga.why_waiting where waiting_for = 'limit'") == "37")
    time.sleep(0.3)
    assert len(ledger.seen("act")) == 3, ledger.requests
    row = env.rows("select * from saga.why_waiting where waiting_for = 'limit' limit 1")[0]
    assert "svc" in row["detail"] and row["step_id"] == "act", row
    assert env.sql("select count(*) || ' ' || count(distinct run_id) from saga.why_waiting") == \
        "40 40"
    row = env.rows("select * from saga.services where service = 'svc'")[0]
    assert (row["in_flight"], row["waiting"], row["state"]) == (3, 37, "closed"), row
    assert "limits" in row["why"], row
    listed = daemon.ctl("services", "-o", "json")
    assert listed.code == 0 and '"waiting": 37' in listed.out.replace('":37', '": 37'), listed
    shown = daemon.ctl("services")
    assert "svc" in shown.out and "closed" in shown.out, shown
    # Nothing was counted that was not sent.
    assert env.sql("select count(*) from saga.effect where state = 'waiting' and attempts = 0 "
                   "and waits_for = 'limit' and request_hash is not null") == "37"
    ledger.always("/act", Answer(200, delay=0.03))
    gate.set()
    wait_all(env, runs)
    later = ledger.seen("act")[3:]
    assert len(later) == 37 and overlap(later, 0.03) == 3, overlap(later, 0.03)


@case
def the_rate_is_kept(env):
    """20 requests a second: 60 runs take three seconds, and no second sees more."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(workflow("limits: {rate: 20/s}"))
    begun = time.monotonic()
    wait_all(env, submit_all(daemon, 60))
    took = time.monotonic() - begun
    assert 2.7 < took, took
    assert took < 6 * PATIENCE, took
    assert in_window(ledger.seen("act"), 1.0) <= 20 + 3, in_window(ledger.seen("act"), 1.0)


@case
def a_breaker_opens_tries_once_and_lets_the_undo_go_first(env):
    """Three failures, and nothing is sent for a second; the first request after it is the undo that
    waits; what waits forward follows in growing cohorts."""
    ledger = env.ledger("svc", "other")
    daemon = env.daemon("a").start()
    breaker = "breaker: {failures: 3, window: 30s, open_for: 2s}"
    daemon.apply(workflow(breaker))
    daemon.apply(workflow(breaker, "back", BACK))
    hold = threading.Event()
    ledger.script("/fail", Answer(422, {"code": "no"}, gate=hold))
    daemon.start_run("back", {"n": 1}, "back-1")
    wait_until("its first step is done", lambda: ledger.seen("fail"))
    ledger.always("/", Answer(503, {"code": "down"}))
    runs = submit_all(daemon, 3)
    wait_until("it is open", lambda: env.sql(
        "select state from saga.services where service = 'svc'") == "open")
    seen = len(ledger.requests)
    runs += submit_all(daemon, 27, prefix="later")
    hold.set()
    wait_until("the undo waits", lambda: env.sql(
        "select waiting_for from saga.why_waiting where run_id = 'back-1'") == "breaker")
    row = env.rows("select * from saga.why_waiting where run_id = 'later-5'")[0]
    assert row["waiting_for"] == "breaker" and "svc" in row["detail"], row
    row = env.rows("select * from saga.services where service = 'svc'")[0]
    assert row["open_until"] and row["daemons"] == "a" and row["why"], row
    # The first probe fails: shut for as long again.
    wait_until("a probe", lambda: len(ledger.seen()) > seen, 10)
    time.sleep(0.5)
    probes = ledger.requests[seen:]
    assert [r.path for r in probes] == ["/undo"], probes
    ledger.always("/", Answer(200, delay=0.05))
    wait_all(env, runs)
    assert env.wait_state("back-1") == "compensated"
    after = ledger.requests[seen + 1:]
    assert after[0].path == "/undo", after
    assert after[0].at - probes[0].at > 1.9, after[0].at - probes[0].at
    # One, then two or three, then twice as many: while the first was under way nothing else came.
    assert after[1].at - after[0].at > 0.04, [r.at - after[0].at for r in after[:5]]
    round_two = [r for r in after if after[0].at + 0.04 < r.at < after[1].at + 0.04]
    assert 1 <= len(round_two) <= 3, [r.at - after[0].at for r in after]
    wait_until("it is told that it works", lambda: env.sql(
        "select state from saga.service_state") == "closed")
    assert env.sql("select count(*) from saga.effect where direction = 'compensate' "
                   "and attempts = 2") == "1"


@case
def retry_after_of_years_ends_with_the_budget(env):
    """Both forms of Retry-After, centuries away: the budget says no at once, and nothing waits."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(workflow("limits: {in_flight: 5}"))
    for value in ("99999999999", "Fri, 31 Dec 9999 23:59:59 GMT"):
        ledger.script("/act", Answer(503, {"code": "later"}, {"Retry-After": value}))
    for n in (1, 2):
        reply = daemon.submit("one", {"n": n}, "years-%d" % n, wait=10)
        assert reply.json()["state"] == "compensated", reply
    assert len(ledger.seen("act")) == 2, ledger.requests


@case
def a_storm_of_one_tenant_leaves_the_others_alone(env):
    """500 runs of one tenant wait for a service; another tenant's runs take about as long as
    without them, measured here."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(workflow("limits: {in_flight: 4}"))
    ledger.always("/act", Answer(200, delay=0.04))

    def p50(prefix):
        took = []
        for n in range(21):
            begun = time.monotonic()
            reply = daemon.submit("one", {"n": n}, "%s-%d" % (prefix, n), tenant="quiet", wait=30)
            assert reply.json()["state"] == "completed", reply
            took.append(time.monotonic() - begun)
        return statistics.median(took)

    alone = p50("alone")
    storm = submit_all(daemon, 500, prefix="storm", tenant="storm")
    beside = p50("beside")
    left = int(env.sql("select count(*) from saga.runs where tenant = 'storm' "
                       "and state <> 'completed'"))
    print("    p50 alone %.0f ms, beside %d waiting runs %.0f ms" %
          (alone * 1000, left, beside * 1000))
    assert left > 100, left
    # A place is free after 10 ms on average; first come, first served would take seconds.
    assert beside < 4 * alone + 0.05 * PATIENCE, (alone, beside)
    wait_all(env, storm, timeout=90)
    assert overlap(ledger.seen("act"), 0.04) == 4


def owner_of(env, run):
    return env.sql("select l.daemon from saga.shard s join saga.lane l using (lane_no) "
                   "where s.shard = saga.shard_of('%s')" % run)


@case
def two_daemons_share_limits_and_breakers(env):
    """Together they keep to what is allowed; a breaker that opens at one is open at the other."""
    ledger = env.ledger("svc")
    a, b = env.daemon("a").start("--lease", "2s"), env.daemon("b").start("--lease", "2s")
    a.apply(workflow("limits: {in_flight: 4, retry_share: 100%}\n"
                     "    breaker: {failures: 3, window: 30s, open_for: 4s}"))
    wait_until("the shards are shared out", lambda: env.sql(
        "select count(*) from saga.daemons where shards between 31 and 33") == "2", 20)
    ledger.always("/act", Answer(200, delay=0.05))
    runs = submit_all(a, 60)
    wait_all(env, runs)
    # A share is rounded down: with 31 of 64 shards it is one of four.
    assert overlap(ledger.seen("act"), 0.05) in (3, 4), overlap(ledger.seen("act"), 0.05)
    owned = {name: [r for r in ("x-%d" % n for n in range(200)) if owner_of(env, r) == name][:4]
             for name in "ab"}
    ledger.always("/act", Answer(503, {"code": "down"}))
    for run in owned["a"]:
        a.start_run("one", {"n": 1}, run)
    wait_until("it is open at a", lambda: env.sql(
        "select state from saga.service_state where daemon = 'a'") == "open")
    opened = time.monotonic()
    time.sleep(1.5)
    seen = len(ledger.requests)
    ledger.always("/act", Answer(200))
    for run in owned["b"]:
        b.start_run("one", {"n": 1}, run)
    wait_until("they wait at b", lambda: env.sql(
        "select count(*) from saga.why_waiting where waiting_for = 'breaker'") == "8")
    assert len(ledger.requests) == seen, ledger.requests[seen:]
    wait_all(env, owned["a"] + owned["b"])
    assert ledger.requests[seen].at - opened > 3, "it was not shut"
    wait_until("it is told that it works", lambda: env.sql(
        "select state from saga.services where service = 'svc'") == "closed")


@case
def what_waits_outlives_its_daemon(env):
    """Killed while runs wait at a limit: the next daemon keeps to it, and nothing is sent twice."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start("--lease", "2s")
    daemon.apply(workflow("limits: {in_flight: 2}"))
    gate = threading.Event()
    ledger.script("/act", *[Answer(200, gate=gate)] * 2)
    runs = submit_all(daemon, 20)
    wait_until("they wait", lambda: env.sql(
        "select count(*) from saga.why_waiting where waiting_for = 'limit'") == "18")
    daemon.kill()
    gate.set()
    ledger.always("/act", Answer(200, delay=0.03))
    daemon.start("--lease", "2s")
    wait_all(env, runs)
    assert all(n == 1 for n in ledger.effects_by_key().values()), ledger.effects_by_key()
    seen = ledger.seen("act")
    known = {r.key for r in seen[:2]}  # asked again, they are answered at once
    later = [r for r in seen[2:] if r.key not in known]
    assert overlap(later, 0.03) <= 2, overlap(later, 0.03)


@case
def a_herd_1_a_crowd_that_failed_together_is_spread(env):
    """300 runs against a host that is away: when it is back they come spread over the jitter, none
    before its delay."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    source = workflow("timeout: 2s").replace("delay: 50ms, factor: 2, max_delay: 1s",
                                             "delay: 6s, factor: 1, max_delay: 6s")
    daemon.apply(source)
    ledger.always("/act", Answer(503, {"code": "down"}))
    runs = submit_all(daemon, 300)
    wait_until("all have failed once", lambda: len(ledger.seen("act")) == 300)
    first = {r.key: r.at for r in ledger.seen("act")}
    ledger.always("/act", Answer(200))
    wait_all(env, runs)
    second = [r for r in ledger.seen("act") if r.attempt == 2]
    assert len(second) == 300, len(second)
    early = [r for r in second if r.at - first[r.key] < 5.99]
    assert not early, early[:3]
    assert in_window(second, 0.1) < 30 + 15, in_window(second, 0.1)


@case
def a_herd_3_a_crowd_of_timers_keeps_to_the_limits(env):
    """400 sleeps fall due while no daemon lives: afterwards the limit is kept, each goes once, and
    a new run of somebody else is not held up."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start("--lease", "2s")
    ledger.always("/act", Answer(200, delay=0.03))
    limits = "limits: {in_flight: 5}"
    daemon.apply(workflow(limits))
    daemon.apply(workflow(limits, "late").replace(
        "steps:", "steps:\n  - {id: nap, action: {sleep: 2s}}"))
    crowd = submit_all(daemon, 400, "late", "crowd", tenant="crowd")
    daemon.kill()
    time.sleep(2.5)
    daemon.start("--lease", "2s")
    begun = time.monotonic()
    slowest = 0.0
    for n in range(10):
        at = time.monotonic()
        reply = daemon.submit("one", {"n": n}, "new-%d" % n, tenant="new", wait=30)
        assert reply.json()["state"] == "completed", reply
        slowest = max(slowest, time.monotonic() - at)
    left = int(env.sql("select count(*) from saga.runs where tenant = 'crowd' "
                       "and state <> 'completed'"))
    print("    %d of the crowd left after %.1f s, the slowest new run took %.0f ms" %
          (left, time.monotonic() - begun, slowest * 1000))
    assert left > 50, left
    assert slowest < 1.0 * PATIENCE, slowest
    wait_all(env, crowd)
    assert all(n == 1 for n in ledger.effects_by_key().values())
    assert overlap(ledger.seen("act"), 0.03) == 5, overlap(ledger.seen("act"), 0.03)


@case
def all_that_waits_are_repeats(env):
    """After an outage nothing but repeats is left, more than their share: they try whether the
    service works again all the same, and follow at once when it does."""
    ledger = env.ledger("svc")
    ledger.always("/", Answer(503, {"code": "down"}))
    daemon = env.daemon("a").start("--lease", "2s")
    daemon.apply("""
workflow: outage
services:
  svc:
    url: "http://127.0.0.1:1"
    idempotency: {header: Idempotency-Key, ttl: 1d}
    limits: {in_flight: 5}
    breaker: {failures: 3, window: 30s, open_for: 300ms}
defaults: {retry: {attempts: 100, delay: 50ms, factor: 1, max_delay: 100ms, jitter: 0%, budget: 5m}}
steps:
  - {id: act, action: {post: svc/act}, compensate: {post: svc/undo}}
""")
    for n in range(3):
        daemon.start_run("outage", {}, "run-%d" % n)
    wait_until("their share is used up",
               lambda: len([r for r in ledger.seen() if r.attempt > 1]) > 12, 30)
    ledger.always("/", Answer(200))
    healed = time.monotonic()
    env.wait_all(3)
    assert set(env.states().values()) == {"completed"}
    assert time.monotonic() - healed < 5 * PATIENCE


if __name__ == "__main__":
    main()
