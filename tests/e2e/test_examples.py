#!/usr/bin/env python3
"""The workflows of examples/ against a real daemon, a real database and ledgers of effects."""

import glob
import json
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
    assert len(files) >= 10, files
    for folder in sorted({os.path.dirname(f) for f in files}):  # together: a child is known to its parent
        checked = subprocess.run([SAGACTL, "validate", *(f for f in files if f.startswith(folder + "/"))],
                                 capture_output=True, text=True)
        assert checked.returncode == 0 and "warning" not in checked.stdout + checked.stderr, checked
    for file in files:
        tests = file.replace(".yaml", ".test.yaml")
        tests = tests if os.path.exists(tests) else file
        assert "\ntests:" in source(os.path.relpath(tests, FOLDER)), tests
        for more in ([], ["--faults"]):
            done = subprocess.run([SAGACTL, "test", *more, tests], capture_output=True, text=True)
            assert done.returncode == 0, done.stdout[-3000:] + done.stderr


TRIP = {"trip_id": "T-1", "traveller": "Ann", "from": "FRA", "to": "LIS", "nights": 3,
        "with_car": True}


@case
def travel(env):
    """Three bookings side by side; a full hotel waits for the slow airline and gives its booking
    back; a trip without a car goes on."""
    ledger, daemon = ready(env, "travel/trip.yaml", "airline", "hotels", "cars", "bank", "insurer")
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
    """The assistant asks twice, one refund is made; about an answer that is lost the bank is asked, and
    nothing is sent again; where it does not say, a person does."""
    ledger, daemon = ready(env, "refund/refund.yaml", "shop", "payments", "mail")
    ledger.always("/orders", Answer(200, {"paid_cents": 900, "charge": "ch_1"}))
    ledger.always("/refunds", Answer(201, {"id": "re_1"}))
    body = {"ticket": "4711", "order_id": "O-1", "amount_cents": 500, "reason": "broken cup"}
    for _ in range(2):
        daemon.start_run("refund", body)
    assert env.wait_state("refund-4711") == "completed"
    assert len(ledger.done(path="/refunds")) == 1
    told = {}

    def lost(request):
        if request.method == "POST":
            return Answer(201, {"id": "re"}, act="reset")
        return told.get(request.target.split("?key=")[1].replace("%3A", ":"), Answer(503))

    ledger.always("/refunds", lost)
    daemon.start_run("refund", dict(body, ticket="4712"))
    wait_until("the bank is asked", lambda: env.rows("select * from saga.findings"))
    told["refund-4712:pay_out:execute"] = Answer(200, [{"id": "re_2", "state": "paid"}])
    assert env.wait_state("refund-4712") == "completed"
    assert daemon.show("refund-4712")["output"] == {"refund": "re_2"}
    daemon.start_run("refund", dict(body, ticket="4713"))
    wait_until("the bank is asked", lambda: env.rows(
        "select * from saga.findings where run_id = 'refund-4713'"))
    reply = daemon.verb("refund-4713", "settle", "pay_out", applied=True, output={"id": "re_3"})
    assert reply.status == 200, reply
    assert env.wait_state("refund-4713") == "completed"
    for ticket in (4712, 4713):
        sent = [r for r in ledger.seen(key="refund-%d:pay_out:execute" % ticket) if r.method == "POST"]
        assert len(sent) == 1, sent
    # A large one waits for a person, who sees what the bank would do, and then lets it be sent.
    ledger.always("/orders", Answer(200, {"paid_cents": 20000, "charge": "ch_9"}))
    ledger.always("/refunds", Answer(201, {"id": "re_9"}))
    ledger.always("/refunds/preview", Answer(200, {"fee_cents": 30}, effect=False))
    daemon.start_run("refund", dict(body, ticket="4714", amount_cents=15000))
    wait_until("a person is asked", lambda: env.rows("select * from saga.pending_approvals"))
    row = env.rows("select * from saga.pending_approvals")[0]
    assert row["dry_run"] == "sagactl dry-run refund-4714 pay_out", row
    shown = daemon.ctl("dry-run", "refund-4714", "pay_out")
    assert shown.code == 0 and '200 {"fee_cents":30}' in shown.out, shown
    assert [r.key for r in ledger.seen(path="/refunds/preview")] == [None]
    assert daemon.ctl("approve", "refund-4714", "pay_out", "--hash", row["request_hash"],
                      "--reason", "the fee is fine").code == 0
    assert env.wait_state("refund-4714") == "completed"
    assert len(ledger.done(key="refund-4714:pay_out:execute")) == 1


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


ORDER = {"order_id": "1", "to": "Lisbon", "cents": 4200,
         "parcels": [{"id": "P-%d" % n, "sku": "tea", "grams": 500} for n in range(1, 7)]}


def children(env, run_id):
    return env.sql("select string_agg(distinct concat_ws(' ', state, cause), ', ') "
                   "from saga.runs where parent = '%s'" % run_id)


@case
def shipment(env):
    """Six parcels are six runs, through a kill; a declined charge calls all of them back, a parcel
    that the carrier or the schema refuses its siblings."""
    ledger, daemon = ready(env, "shipment/parcel.yaml", "warehouse", "carrier", "bank", "mail")
    env.sequential = False  # four children at a time
    daemon.apply(source("shipment/shipment.yaml"))

    def label(request):
        if request.method == "DELETE":
            return Answer()
        ref, to = request.json()["ref"], request.json()["to"]
        return Answer(422, {"message": "not served"}) if (ref, to) == ("P-3", "Atlantis") else \
            Answer(201, {"tracking": "TR-" + ref}, delay=0.2)

    ledger.always("/labels", label)
    daemon.start_run("shipment", ORDER)
    wait_until("some have a label", lambda: ledger.done(path="/labels"))
    daemon.kill()
    start(env, daemon)
    assert env.wait_state("shipment-1") == "completed"
    assert daemon.show("shipment-1")["output"]["tracking"] == ["TR-P-%d" % n for n in range(1, 7)]
    assert env.state("shipment-1~send.P-4") == "completed"
    labels = [e.key for e in ledger.done(path="/labels")]
    assert sorted(labels) == ["shipment-1~send.P-%d:label:execute" % n for n in range(1, 7)], labels

    ledger.always("/holds/2/capture", Answer(402, {"code": "expired"}))
    before = len(ledger.done())
    daemon.start_run("shipment", dict(ORDER, order_id="2"))
    assert env.wait_state("shipment-2") == "compensated"
    assert children(env, "shipment-2") == "compensated parent", children(env, "shipment-2")
    keys = [e.key for e in ledger.done()[before:]]
    for step in ("pick", "label"):
        back = sorted(k for k in keys if k.endswith(":%s:compensate" % step))
        assert back == ["shipment-2~send.P-%d:%s:compensate" % (n, step) for n in range(1, 7)], back
    assert keys[-1] == "shipment-2:hold:compensate", keys

    daemon.start_run("shipment", dict(ORDER, order_id="3", to="Atlantis"))
    assert env.wait_state("shipment-3") == "compensated"
    error = daemon.show("shipment-3")["error"]
    assert error["code"] == "child_compensated" and "not served" in error["message"], error
    assert not ledger.seen(path="/holds/3/capture")
    daemon.start_run("shipment", dict(ORDER, order_id="4", parcels=[
        {"id": "P-9", "sku": "anvil", "grams": 90000}]))
    assert env.wait_state("shipment-4") == "compensated"
    error = daemon.show("shipment-4")["error"]
    assert error["code"] == "input_invalid" and "grams" in error["message"], error
    assert children(env, "shipment-4") == "", children(env, "shipment-4")
    daemon.start_run("parcel", {"parcel": "P-7", "sku": "tea", "grams": 1, "to": "Lisbon"})
    assert env.wait_state("parcel-P-7") == "completed", "it is a workflow like any other"


LAST_TICK = """
    with local(now) as (select now() at time zone 'Europe/Berlin'),
    tick(at) as (select (((now - interval '03:30')::date + time '03:30') at time zone 'Europe/Berlin')
                 from local)
"""


@case
def reconcile(env):
    """A night that nobody was there for is made up for: every day that is open, each difference
    once. What the books refuse leaves the days open."""
    env.sql(source("reconcile/setup.sql"))
    ledger, daemon = ready(env, "reconcile/reconcile.yaml", "books")
    env.sequential = False  # corrections are taken back five at a time
    wait_until("the schedule is known", lambda: env.rows("select * from saga.schedules"))
    daemon.kill()
    day = "((at at time zone 'Europe/Berlin')::date - %d)"
    for back, name, ours, theirs in ((1, "a", 100, 100), (1, "b", 100, 90), (3, "c", 50, None),
                                     (1, "d", None, 7), (0, "e", 5, None)):
        for table, column, cents in (("payment", "id", ours), ("bank_line", "payment", theirs)):
            if cents is not None:
                env.sql(LAST_TICK + "insert into shop.%s (%s, day, cents) select '%s', %s, %d from tick"
                        % (table, column, name, day % back, cents))
    env.sql(LAST_TICK + "update saga.schedule set last_tick = at - interval '1 min' from tick")
    run_id, tick, until = env.sql(
        LAST_TICK + "select to_char(at at time zone 'UTC', '\"reconcile-\"YYYYMMDD\"T\"HH24MISS\"Z\"'), "
        "to_char(at at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'), %s from tick" % (day % 1)
    ).split("|")
    start(env, daemon)
    wait_until("the night is made up for", lambda: env.states().get(run_id))
    assert env.wait_state(run_id) == "completed"
    assert daemon.show(run_id)["output"] == {"until": until, "corrections": 3}, daemon.show(run_id)
    sent = {e.key: json.loads(e.body) for e in ledger.done(path="/corrections")}
    assert sent == {"%s:correct.%s:execute" % (run_id, name): {"payment": name, "cents": cents}
                    for name, cents in (("b", -10), ("c", -50), ("d", 7))}, sent
    by_hand = daemon.start_run("reconcile", {"at": tick})
    assert env.wait_state(by_hand) == "compensated", "the days are done"
    assert len(ledger.done(path="/corrections")) == 3

    ledger.always("/corrections", lambda r: Answer(409, {"code": "closed"})
                  if r.method == "POST" and r.json()["payment"] == "b" else Answer())
    env.sql("delete from shop.reconciled")
    later = env.sql("select saga.time_text('%s'::timestamptz + interval '1 s')" % tick)
    by_hand = daemon.start_run("reconcile", {"at": later})
    assert env.wait_state(by_hand) == "compensated"
    mine = [e for e in ledger.done() if e.key.startswith(by_hand)]
    there = sorted(e.key.split(":")[1] for e in mine if e.key.endswith(":execute"))
    back = sorted(e.key.split(":")[1] for e in mine if e.key.endswith(":compensate"))
    assert there == back and set(there) <= {"correct.c", "correct.d"}, (there, back)
    assert env.sql("select count(*) from shop.reconciled") == "0"


@case
def onboarding(env):
    """The agency is faster than the post, a date and a sleep pass, with kills in between; silence
    withdraws the offer."""
    ledger, daemon = ready(env, "onboarding/onboarding.yaml", "directory", "letters")
    text = source("onboarding/onboarding.yaml")
    short = text.replace("timeout: 7d", "timeout: 4s").replace("timeout: 14d", "timeout: 1s")
    short = short.replace("{sleep: 30d}", "{sleep: 1s}")  # the weeks of the example in seconds
    assert short.count("4s") == short.count("sleep: 1s") == 1
    daemon.apply(short)
    starts = env.sql("select saga.time_text(now() + interval '6 s')")
    ann = {"person": "ann", "email": "ann@example.org", "starts": starts}
    daemon.start_run("onboarding", ann)
    daemon.start_run("onboarding", dict(ann, person="bob"))

    def signal(person, name, data):
        return daemon.http("POST", "/v1/runs/onboarding-%s/signal" % person, {"name": name, "data": data})

    assert signal("ann", "background-check", {"passed": True}).status == 200
    daemon.kill()
    start(env, daemon)
    assert signal("ann", "background-check", {"passed": True}).status == 200, "as the first time"
    assert signal("ann", "background-check", {"passed": False}).status == 409
    assert signal("ann", "badge-printed", 1).status == 422
    assert signal("ann", "contract-signed", {"date": "2026-10-20"}).status == 200
    assert env.wait_state("onboarding-bob") == "compensated", "nobody has signed"
    error = daemon.show("onboarding-bob")["error"]
    assert error["code"] == "signal_timeout", error
    assert [e["step"] for e in daemon.show("onboarding-bob")["residue"]] == ["remind"]
    assert env.wait_state("onboarding-ann") == "completed"
    assert daemon.show("onboarding-ann")["output"] == {"signed_on": "2026-10-20", "reminded": False}
    opened = env.sql("select min(started_at) >= '%s' from saga.steps where run_id = 'onboarding-ann' "
                     "and step_id = 'open'" % starts)
    assert opened == "t", "not before the first day"
    assert sorted(e.path for e in ledger.done() if e.key.startswith("onboarding-bob")) == \
        ["/offers", "/people/bob", "/people/bob", "/reminders", "/withdrawals"]

    daemon.start_run("onboarding", dict(ann, person="cid"))
    assert signal("cid", "contract-signed", {"date": "2026-10-21"}).status == 200
    assert signal("cid", "background-check", {"passed": False}).status == 200
    assert env.wait_state("onboarding-cid") == "compensated", "the check is not passed"
    assert ledger.done(key="onboarding-cid:offer:compensate")


if __name__ == "__main__":
    main(parallel=3)
