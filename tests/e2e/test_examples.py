#!/usr/bin/env python3
"""The workflows of examples/ against a real daemon, a real database and ledgers of effects."""

import glob
import os
import subprocess
import threading
import time

from lib import ROOT, SAGACTL, Answer, case, main, wait_until

FOLDER = os.path.join(ROOT, "examples")


def source(name):
    with open(os.path.join(FOLDER, name)) as file:
        return file.read()


def start(env, daemon):
    actions = env.cluster.uri(env.database, "saga_action")
    return daemon.start("--lease", "2s", "--action-database", actions)


def ready(env, name, *services):
    ledger = env.ledger(*services) if services else None
    daemon = start(env, env.daemon("a"))
    daemon.apply(source(name))
    return ledger, daemon


def paths(ledger):
    return sorted("%s" % e.path for e in ledger.done())


@case
def all_of_them(env):
    """Every example compiles without a warning, its tests pass, and with every fault each promise
    is held."""
    files = sorted(f for f in glob.glob(FOLDER + "/*/*.yaml") if not f.endswith(".test.yaml"))
    assert len(files) >= 6, files
    for file in files:
        checked = subprocess.run([SAGACTL, "validate", file], capture_output=True, text=True)
        assert checked.returncode == 0 and "warning" not in checked.stdout + checked.stderr, checked
        tests = file.replace(".yaml", ".test.yaml")
        tests = tests if os.path.exists(tests) else file
        if "\ntests:" not in source(os.path.relpath(tests, FOLDER)):
            continue
        for more in ([], ["--faults"]):
            done = subprocess.run([SAGACTL, "test", *more, tests], capture_output=True, text=True)
            assert done.returncode == 0, done.stdout[-3000:] + done.stderr


TRIP = {"trip_id": "T-1", "traveller": "Ann", "from": "FRA", "to": "LIS", "nights": 3,
        "with_car": True}


@case
def travel(env):
    """Three bookings side by side; a full hotel waits for the slow airline and gives its booking
    back; a trip without a car goes on."""
    ledger, daemon = ready(env, "travel/trip.yaml", "airline", "hotels", "cars", "bank")
    env.sequential = False
    ledger.always("/", lambda r: Answer(201, {"id": r.path.split("/")[1] + "-1", "price": 10,
                                              "number": "220-7"}))
    together = threading.Barrier(3, timeout=20)

    def meet(request):
        if request.path in ("/bookings", "/reservations", "/rentals") and request.method == "POST":
            together.wait()

    ledger.on_request = meet  # none of the three is answered before all have come
    daemon.start_run("trip", TRIP)
    assert env.wait_state("trip-T-1") == "completed"
    ledger.on_request = None
    assert daemon.show("trip-T-1")["output"] == {"ticket": "220-7", "car": True}
    ledger.always("/reservations", Answer(409, {"code": "full"}))
    ledger.always("/bookings", Answer(201, {"id": "F2", "price": 1}, delay=0.8))
    ledger.always("/rentals", Answer(409))
    before = len(ledger.done())
    daemon.start_run("trip", dict(TRIP, trip_id="T-2"))
    assert env.wait_state("trip-T-2") == "compensated"
    done = [(e.path, e.key) for e in ledger.done()[before:]]
    assert done == [("/bookings", "trip-T-2:flight:execute"),
                    ("/bookings/F2", "trip-T-2:flight:compensate")], done


@case
def transfer(env):
    """Money moves once or not at all, also when the daemon is killed on the way."""
    env.sql(source("transfer/setup.sql"))
    _, daemon = ready(env, "transfer/transfer.yaml")
    daemon.start_run("transfer", {"transfer_id": "a-1", "from": "ann", "to": "bob", "amount": 19.90})
    assert env.wait_state("transfer-a-1") == "completed"
    daemon.start_run("transfer", {"transfer_id": "a-2", "from": "ann", "to": "zoe", "amount": 5})
    daemon.start_run("transfer", {"transfer_id": "a-3", "from": "ann", "to": "bob", "amount": 5000})
    assert env.wait_state("transfer-a-2") == "compensated"
    assert env.wait_state("transfer-a-3") == "compensated"
    assert env.sql("select string_agg(id || ' ' || balance, ', ' order by id) from bank.account") == \
        "ann 80.10, bob 19.90, zoe 0.00"
    for n in range(20):
        daemon.start_run("transfer", {"transfer_id": "k-%d" % n, "from": "ann", "to": "bob",
                                      "amount": 1})
        if n % 7 == 3:
            daemon.kill()
            start(env, daemon)
    env.wait_all(23)
    assert env.sql("select string_agg(id || ' ' || balance, ', ' order by id) from bank.account") == \
        "ann 60.10, bob 39.90, zoe 0.00"
    assert env.sql("select count(*), sum(amount) from bank.entry") == "21|39.90"


@case
def refund(env):
    """The assistant asks twice, one refund is made; an answer that is lost is not asked for again,
    a person settles it."""
    ledger, daemon = ready(env, "refund/refund.yaml", "shop", "payments", "mail")
    ledger.always("/orders", Answer(200, {"paid_cents": 900, "charge": "ch_1"}))
    ledger.always("/refunds", Answer(201, {"id": "re_1"}))
    body = {"ticket": "4711", "order_id": "O-1", "amount_cents": 500, "reason": "broken cup"}
    for _ in range(2):
        daemon.start_run("refund", body)
    assert env.wait_state("refund-4711") == "completed"
    assert len(ledger.done(path="/refunds")) == 1
    ledger.always("/refunds", Answer(201, {"id": "re_2"}, act="reset"))
    daemon.start_run("refund", dict(body, ticket="4712"))
    assert env.wait_state("refund-4712") == "parked"
    assert len(ledger.seen(key="refund-4712:pay_out:execute")) == 1
    reply = daemon.verb("refund-4712", "settle", "pay_out", applied=True, output={"id": "re_2"})
    assert reply.status == 200, reply
    assert env.wait_state("refund-4712") == "completed"
    assert len(ledger.seen(key="refund-4712:pay_out:execute")) == 1


@case
def payout(env):
    """Forty sellers, a kill in the middle: each is paid once. One that is refused: all are given
    back, each once."""
    ledger, daemon = ready(env, "payout/payout.yaml", "bank")
    env.sequential = False  # four items are undone at a time
    ledger.always("/transfers", Answer(200, {"ok": True}, delay=0.05))
    sellers = [{"id": "s%02d" % n, "cents": n} for n in range(41)]
    daemon.start_run("payout", {"day": "2026-10-25", "sellers": sellers})
    wait_until("some are paid", lambda: len(ledger.done(path="/transfers")) > 8)
    daemon.kill()
    start(env, daemon)
    assert env.wait_state("payout-2026-10-25") == "completed"
    assert daemon.show("payout-2026-10-25")["output"] == {"paid": 40}
    paid = [e.key for e in ledger.done(path="/transfers")]
    assert len(paid) == len(set(paid)) == 40, paid
    refused = {"code": "account_closed"}
    ledger.always("/transfers", lambda r: Answer(422, refused) if r.json().get("to") == "s30"
                  else Answer(200, {"ok": True}))
    daemon.start_run("payout", {"day": "2026-10-26", "sellers": sellers})
    assert env.wait_state("payout-2026-10-26") == "compensated"
    mine = [e for e in ledger.done() if e.key.startswith("payout-2026-10-26:pay.")]
    there = [e.key.split(":")[1] for e in mine if e.key.endswith(":execute")]
    back = [e.key.split(":")[1] for e in mine if e.key.endswith(":compensate")]
    assert sorted(there) == sorted(back) and len(set(back)) == len(back) > 0, (there, back)


if __name__ == "__main__":
    main(parallel=3)
