#!/usr/bin/env python3
"""Whatever dies at whatever line, and whenever it comes back: every acknowledged run ends right,
and each effect happens once."""

import http.client
import os
import random
import signal
import threading
import time

from lib import ROOT, Answer, case, main, wait_until

LEASE = ("--lease", "2s")

TRIP = """
workflow: trip
input: {type: object, required: [n], properties: {n: {type: integer}, bad: {type: boolean}}}
run_id: trip-${{ input.n }}
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
defaults:
  retry: {attempts: 4, delay: 50ms, factor: 2, max_delay: 200ms, jitter: 20%}
  compensate_retry: {attempts: 6, delay: 50ms, factor: 2, max_delay: 200ms, jitter: 20%}
steps:
  - id: flight
    action: {post: svc/flight, body: {n: "${{ input.n }}"}}
    compensate: {post: svc/cancel_flight, body: {of: "${{ steps.flight.output.id }}"}}
  - id: hotel
    action: {post: svc/hotel, body: {n: "${{ input.n }}"}}
    compensate: {post: svc/cancel_hotel, body: {of: "${{ steps.hotel.output.id }}"}}
  - id: car
    action: {post: svc/car, body: {n: "${{ input.n }}", bad: "${{ default(input.bad, false) }}"}}
    compensate: {post: svc/cancel_car, body: {n: "${{ input.n }}"}, tolerant: true}
output: {flight: "${{ steps.flight.output.id }}"}
"""

FORWARD = ["flight", "hotel", "car"]
BACK = ["flight", "hotel", "cancel_hotel", "cancel_flight"]


def with_trip(env):
    """A ledger and a daemon (not started) that know the workflow `trip`."""
    ledger = env.ledger("svc")
    ledger.always("/", lambda r: Answer(200, {"id": "%s-%s" % (r.path[1:], r.json().get("n"))}))
    ledger.always("/car", lambda r: Answer(422, {"code": "no_car"}) if r.json()["bad"]
                  else Answer(200, {"id": "car"}))
    daemon = env.daemon("a").start(*LEASE)
    daemon.apply(TRIP)
    daemon.stop()
    return ledger, daemon


def submit(daemon, n, bad):
    """None if the daemon died over it."""
    try:
        reply = daemon.submit("trip", {"n": n, "bad": bad})
    except (OSError, http.client.HTTPException):
        return None
    assert reply.status in (200, 202), reply
    return reply


def judge(env, ledger, n, bad):
    run = "trip-%d" % n
    assert env.wait_state(run) == ("compensated" if bad else "completed"), \
        env.rows("select * from saga.timeline where run_id = '%s'" % run)
    done = [e.path[1:] for e in ledger.done() if e.key.startswith(run + ":")]
    # Of the refused step nobody may know any more that it was not applied: then it is undone too.
    assert [path for path in done if path != "cancel_car"] == (BACK if bad else FORWARD), done


def kill_at(env, points, bad, begin={}):
    """Ends the daemon at each of the points, at every hit of it while one run lives (from the one
    that `begin` says for its kind), then starts it again, submits the same once more, and looks.
    Returns the number of kills."""
    ledger, daemon = with_trip(env)
    n, kills = 0, 0
    for point in points:
        hit = first = begin.get(point.split("_")[0], 1)
        while hit < 60:
            n += 1
            how = ("kill", "abort")[n % 2]
            started = daemon.start(*LEASE, failpoint="%s:%d:%s" % (point, hit, how))
            if started:
                submit(daemon, n, bad)
                wait_until("it dies or the run ends", lambda: not daemon.alive() or
                           env.state("trip-%d" % n) in ("completed", "compensated"), 20)
                ended = time.monotonic()  # it may be about to die of the last unit
                while daemon.alive() and time.monotonic() < ended + 0.3:
                    time.sleep(0.02)
            died = not daemon.alive()
            if died:
                assert daemon.failed_at() == point, daemon.log()
                kills += 1
                daemon.start(*LEASE)
            submit(daemon, n, bad)
            judge(env, ledger, n, bad)
            daemon.kill()
            if not died:
                break
            hit = hit * 4 if point.startswith("turn") else hit + 1
        assert hit > first, "%s was not reached %d times" % (point, first)
    daemon.start(*LEASE)
    return kills


@case
def units(env):
    """A daemon that dies around the write of any unit of a run that walks back."""
    assert kill_at(env, ["unit_send", "unit_sent", "unit_answered"], True) >= 18


@case
def invocations(env):
    """A daemon that dies around any send or answer of a run that walks back."""
    points = ["invoke_start", "invoke_started", "http_send", "invoke_reply"]
    assert kill_at(env, points, True) >= 20


@case
def everything_else(env):
    """A daemon that dies while it acquires, loads, turns or answers."""
    kill_at(env, ["lease_acquired", "load_page", "submit_answer", "submit_answered", "turn_begin",
                  "turn_end"], True)


@case
def completion(env):
    """A daemon that dies around the last answer or the last unit of a run that completes."""
    kill_at(env, ["invoke_reply", "invoke_replied", "unit_send", "unit_answered", "unit_told"],
            False, {"invoke": 3, "unit": 4})


@case
def during_the_end(env):
    """A daemon that dies right after it gave its lanes back, or that gets kill -9 while it drains,
    has lost nothing."""
    ledger, daemon = with_trip(env)
    daemon.start(*LEASE, failpoint="lease_released:1:kill")
    submit(daemon, 1, False)
    daemon.stop()
    assert daemon.failed_at() == "lease_released"
    daemon.start(*LEASE)
    judge(env, ledger, 1, False)
    ledger.script("/hotel", Answer(200, {"id": "slow"}, delay=0.7))
    submit(daemon, 2, False)
    wait_until("the hotel is asked", lambda: ledger.seen(key="trip-2:hotel:execute"))
    daemon.send(signal.SIGTERM)
    time.sleep(0.2)
    daemon.kill()
    daemon.start(*LEASE)
    judge(env, ledger, 2, False)


# --- the example shop under load ---------------------------------------------------------------------


def shop_workflow():
    """The example's own file, with a mail service that honours keys and a mail of cancellation
    that may go out for a mail that never went: so that no crash needs a person."""
    with open(os.path.join(ROOT, "examples", "shop", "order.yaml")) as file:
        text = file.read()
    for old, new in (("idempotency: none", "idempotency: {header: Idempotency-Key, ttl: 1d}"),
                     ("template: cancelled}}", "template: cancelled}, tolerant: true,\n"
                      "      outcomes: [{when: 'response.status == 422', is: applied}]}")):
        assert old in text
        text = text.replace(old, new)
    return text


def order(number, bad):
    return {"order_id": "ORD-%06d" % number, "amount_cents": 1000 + number, "sku": "lamp",
            "email": ("nobody-%d" if bad else "%d@example.com") % number}


def submit_orders(daemon, numbers, bad, pause):
    """A client that repeats itself until it was answered."""
    for number in numbers:
        while True:
            try:
                reply = daemon.submit("order", order(number, bad(number)))
                assert reply.status in (200, 202, 503), reply
                if reply.status != 503:
                    break
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.02)
        time.sleep(pause)


def judge_orders(env, count, bad):
    env.wait_all(count, 90)
    states = env.states()
    expected = {"order-ORD-%06d" % n: "compensated" if bad(n) else "completed"
                for n in range(1, count + 1)}
    assert states == expected, {run: states.get(run) for run in expected
                                if states.get(run) != expected[run]}


def kills_under_load(env, seed, orders, kills):
    random_ = random.Random(seed)
    inventory, payments, mail = env.shop()
    daemon = env.daemon("a").start(*LEASE)
    daemon.apply(shop_workflow())

    def bad(number):  # an address without @: mail refuses it for good
        return number % 4 == 0

    client = threading.Thread(target=submit_orders,
                              args=(daemon, range(1, orders + 1), bad, 0.02), daemon=True)
    client.start()
    for kill in range(kills):
        time.sleep(random_.uniform(0.0, 0.35))
        if kill % 3 == 1:
            payments.switch(drop=random_.randrange(1, 3))
        if kill % 3 == 2:
            inventory.switch(slow_ms=random_.randrange(0, 60))
        daemon.kill()
        daemon.start(*LEASE)
    client.join(60)
    assert not client.is_alive()
    judge_orders(env, orders, bad)


@case
def random_kills_under_load(env):
    """60 orders and 10 kills at random moments: every order ends right, each effect once."""
    seed = int(os.environ.get("SEED", "0")) or random.SystemRandom().randrange(1 << 32)
    try:
        kills_under_load(env, seed, 60, 10)
    except AssertionError as error:
        raise AssertionError("SEED=%d: %s" % (seed, error))


@case(alone=True)
def kill_of_postgresql(env):
    """kill -9 of PostgreSQL's main process under load: the daemon goes on by itself once it is
    back, and no effect happens twice (a_pgconn_6)."""
    inventory, payments, mail = env.shop()
    daemon = env.daemon("a").start(*LEASE)
    daemon.apply(shop_workflow())
    for service in (inventory, payments, mail):
        service.switch(slow_ms=40)
    client = threading.Thread(target=submit_orders, daemon=True,
                              args=(daemon, range(1, 31), lambda n: n % 4 == 0, 0.01))
    client.start()
    for pause in (0.3, 0.8):
        time.sleep(pause)
        env.cluster.kill9()
        reply = daemon.http("GET", "/readyz")
        wait_until("it says that it is not ready", lambda: daemon.http("GET", "/readyz").status == 503)
        time.sleep(pause)
        env.cluster.start()
    client.join(60)
    assert not client.is_alive()
    judge_orders(env, 30, lambda n: n % 4 == 0)
    assert daemon.alive()


if __name__ == "__main__":
    main(parallel=5)
