#!/usr/bin/env python3
"""Steps that wait: for a time, for a signal, for the end of another run. Whatever dies meanwhile."""

import json
import time

from lib import Answer, case, main, wait_until

GATE = """
workflow: gate
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
steps:
  - id: reserve
    action: {post: svc/reserve}
    compensate: {post: svc/release}
  - id: paid
    timeout: %s
    action: {wait_for: payment, on_timeout: %s}
output: ${{ default(steps.paid.output, 'silence') }}
"""

ORDER = """
workflow: order
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
defaults:
  retry: {attempts: 3, delay: 50ms}
  compensate_retry: {attempts: 8, delay: 50ms}
steps:
  - id: reserve
    action: {post: svc/reserve}
    compensate: {post: svc/release}
  - id: ship
    action: {child: shipping, input: {weight: "${{ input.weight }}"}}
  - id: charge
    action: {post: svc/charge}
    compensate: {post: svc/refund}
output: ${{ steps.ship.output }}
"""

SHIPPING = """
workflow: shipping
input:
  type: object
  properties: {weight: {type: number, maximum: 100}}
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
defaults:
  retry: {attempts: 3, delay: 50ms}
  compensate_retry: {attempts: 8, delay: 50ms}
steps:
  - id: pack
    action: {post: svc/pack}
    compensate: {post: svc/unpack}
  - id: label
    action: {post: svc/label}
    compensate: {post: svc/unlabel}
output: {kg: "${{ input.weight }}"}
"""


def with_gate(env, timeout="1h", on_timeout="refused"):
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start("--lease", "2s")
    daemon.apply(GATE % (timeout, on_timeout))
    return ledger, daemon


def signal(daemon, run_id, name, *data):
    body = {"name": name}
    if data:
        body["data"] = data[0]
    return daemon.http("POST", "/v1/runs/%s/signal" % run_id, body)


def why(env, run_id):
    rows = env.rows("select waiting_for, step_id, detail, until from saga.why_waiting "
                    "where run_id = '%s'" % run_id)
    return rows[0] if rows else {"waiting_for": None}


def waits_for(env, run_id, what):
    wait_until("%s waits for %s" % (run_id, what), lambda: why(env, run_id)["waiting_for"] == what)
    return why(env, run_id)


# --- signals ---------------------------------------------------------------------------------------


@case
def a_signal_ends_the_wait(env):
    _, daemon = with_gate(env)
    daemon.start_run("gate", run_id="g1")
    row = waits_for(env, "g1", "signal")
    assert row["step_id"] == "paid" and "payment" in row["detail"], row
    reply = signal(daemon, "g1", "paymnet", 1)
    assert reply.status == 422 and '"payment"' in reply.json()["detail"], reply
    assert signal(daemon, "g1", "payment", {"amount": 19.90}).status == 200
    assert env.wait_state("g1") == "completed"
    assert env.sql("select output from saga.runs where run_id = 'g1'") == '{"amount":19.9}'
    assert signal(daemon, "g1", "payment", {"amount": 19.90}).status == 200, "said before"
    reply = signal(daemon, "g1", "payment", {"amount": 7})
    at = daemon.show("g1")["signals"][0]["at"]
    assert reply.status == 409 and at in reply.json()["detail"], (reply, at)
    assert signal(daemon, "nobody", "payment").status == 404
    reply = daemon.http("POST", "/v1/runs/g1/signal", {"data": 1})
    assert reply.status == 422 and reply.json()["code"] == "name_missing", reply
    reply = signal(daemon, "g1", "payment", "x" * (1 << 20))
    assert reply.status == 413, reply


@case
def an_early_signal_outlives_a_kill(env):
    ledger, daemon = with_gate(env)
    ledger.script("/reserve", Answer(delay=1.5))
    daemon.start_run("gate", run_id="g1")
    assert signal(daemon, "g1", "payment", [1, 2]).status == 200
    assert signal(daemon, "g1", "payment", [2]).status == 409
    daemon.kill()
    daemon.start("--lease", "2s")
    assert env.wait_state("g1") == "completed"
    assert json.loads(env.sql("select output from saga.runs where run_id = 'g1'")) == [1, 2]


@case
def signals_by_sql(env):
    _, daemon = with_gate(env)
    daemon.start_run("gate", run_id="g1")
    waits_for(env, "g1", "signal")
    asked = {name: env.sql("select saga.signal('g1', '%s', '%s')" % (name, data))
             for name, data in (("nonsense", "1"), ("payment", '{"by": "sql"}'))}
    assert env.wait_state("g1") == "completed"
    asked["other"] = env.sql("select saga.signal('g1', 'payment', '2')")

    def outcomes():
        rows = env.rows("select id as request_id, outcome from saga.requests")
        return {row["request_id"]: row["outcome"] for row in rows}

    wait_until("all are settled", lambda: all(outcomes().get(i) for i in asked.values()))
    found = outcomes()
    assert [found[asked[name]] for name in ("nonsense", "payment", "other")] == \
        ["refused", "done", "conflict"], found


@case
def the_timeout_of_a_signal_is_durable(env):
    _, daemon = with_gate(env, timeout="3s")
    daemon.start_run("gate", run_id="g1")
    waits_for(env, "g1", "signal")
    daemon.kill()
    time.sleep(3)
    daemon.start("--lease", "2s")
    assert env.wait_state("g1") == "compensated"
    assert daemon.show("g1")["error"]["code"] == "signal_timeout"
    reply = signal(daemon, "g1", "payment", 1)
    assert reply.status == 409 and "compensated" in reply.json()["detail"], reply


@case
def on_timeout_continue_and_park(env):
    _, daemon = with_gate(env, timeout="200ms", on_timeout="continue")
    daemon.start_run("gate", run_id="g1")
    assert env.wait_state("g1") == "completed"
    assert env.sql("select output from saga.runs where run_id = 'g1'") == '"silence"'
    daemon.apply(GATE % ("200ms", "park"))
    daemon.start_run("gate", run_id="g2")
    assert env.wait_state("g2") == "parked"
    assert signal(daemon, "g2", "payment", "late").status == 200
    assert daemon.verb("g2", "retry").status == 200
    assert env.wait_state("g2") == "completed"


@case
def sagactl_signal(env):
    _, daemon = with_gate(env)
    daemon.start_run("gate", run_id="g1")
    waits_for(env, "g1", "signal")
    shown = daemon.ctl("show", "g1")
    assert 'the signal "payment"' in shown.out, shown
    assert daemon.ctl("signal", "g1", "payment", "--data", '{"n": 1}').code == 0
    assert daemon.ctl("signal", "g1", "payment", "--data", '{"n": 1}').code == 0
    assert daemon.ctl("signal", "g1", "payment", "--data", "2").code == 9
    assert daemon.ctl("signal", "g9", "payment").code == 3
    assert daemon.ctl("signal", "g1", "payment", "--data", "{").code == 2
    assert daemon.ctl("signal", "g1").code == 2


# --- times -----------------------------------------------------------------------------------------


@case
def until_a_time(env):
    daemon = env.daemon("a").start("--lease", "2s")
    daemon.apply("workflow: alarm\ninput: {type: object, required: [at], properties: {at: {type: "
                 "string}}}\nsteps:\n  - {id: past, action: {until: \"timestamp('2001-01-01T00:"
                 "00:00Z')\"}}\n  - {id: wait, action: {until: input.at}}\n")
    at = env.sql("select saga.time_text(now() + interval '2 s')")
    daemon.start_run("alarm", {"at": at}, run_id="u1")
    daemon.start_run("alarm", {"at": "tomorrow"}, run_id="u2")
    row = waits_for(env, "u1", "timer")
    assert row["step_id"] == "wait", row
    daemon.kill()
    daemon.start("--lease", "2s")
    assert env.wait_state("u1") == "completed"
    assert env.sql("select ended_at >= '%s' from saga.runs where run_id = 'u1'" % at) == "t"
    assert env.wait_state("u2") == "compensated"
    assert "tomorrow" in daemon.show("u2")["error"]["message"]


@case
def a_run_that_starts_later(env):
    _, daemon = with_gate(env)
    at = env.sql("select saga.time_text(now() + interval '3 s')")
    daemon.start_run("gate", run_id="l1", start_at=at)
    reply = daemon.submit("gate", run_id="l1", start_at=at)
    assert reply.status == 200, reply
    assert env.state("l1") == "queued"
    assert why(env, "l1")["waiting_for"] == "timer", why(env, "l1")
    assert daemon.ctl("run", "gate", "--id", "l2", "--at", "1h").code == 0
    assert daemon.ctl("run", "gate", "--id", "l3", "--at", "soon").code != 0
    assert env.state("l2") == "queued"
    assert daemon.verb("l2", "cancel").status == 200
    assert env.wait_state("l2") == "compensated"
    env.sql("select saga.start('gate', '{}', 'l4', start_at => now() + interval '1 h')")
    env.sql("select saga.start('gate', '{}', 'l5', start_at => now() - interval '1 h')")
    assert env.wait_state("l4", "queued") == "queued"
    waits_for(env, "l5", "signal")
    signal(daemon, "l5", "payment")
    assert daemon.verb("l4", "cancel").status == 200
    assert env.wait_state("l4") == "compensated"
    daemon.kill()
    daemon.start("--lease", "2s")
    waits_for(env, "l1", "signal")
    assert env.sql("select started_at >= '%s' from saga.steps where run_id = 'l1' and "
                   "step_id = 'reserve'" % at) == "t"
    assert env.sql("select count(*) from saga.steps where run_id = 'l2' and state <> 'pending'"
                   ) == "0"
    signal(daemon, "l1", "payment")
    env.wait_state("l1")


# --- children --------------------------------------------------------------------------------------


def with_orders(env):
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start("--lease", "2s")
    daemon.apply(SHIPPING)
    daemon.apply(ORDER)
    return ledger, daemon


def done(ledger):
    return sorted(effect.path for effect in ledger.done())


@case
def a_child_completes(env):
    _, daemon = with_orders(env)
    daemon.start_run("order", {"weight": 2.50}, run_id="o1")
    assert env.wait_state("o1") == "completed"
    shown = daemon.show("o1")
    assert shown["output"] == {"kg": 2.5}, shown
    assert [(c["run_id"], c["workflow"], c["state"]) for c in shown["children"]] == \
        [("o1~ship", "shipping", "completed")], shown["children"]
    assert env.sql("select parent from saga.runs where run_id = 'o1~ship'") == "o1"
    assert env.sql("select shard = saga.shard_of('o1') from saga.runs where run_id = 'o1~ship'"
                   ) == "t"
    text = daemon.ctl("show", "o1")
    assert "o1~ship" in text.out, text
    text = daemon.ctl("show", "o1~ship")
    assert "o1" in text.out and text.code == 0, text
    assert daemon.submit("shipping", {}, run_id="o1~ship").status == 422


@case
def a_child_is_undone_with_its_parent(env):
    ledger, daemon = with_orders(env)
    ledger.always("/charge", Answer(422, {"code": "broke"}))
    daemon.start_run("order", {"weight": 1}, run_id="o1")
    assert env.wait_state("o1") == "compensated"
    child = daemon.show("o1~ship")
    assert (child["state"], child["cause"]) == ("compensated", "parent"), child
    assert done(ledger) == sorted(["/reserve", "/pack", "/label", "/unlabel", "/unpack",
                                   "/release"]), done(ledger)


@case
def a_child_that_fails(env):
    ledger, daemon = with_orders(env)
    ledger.always("/label", Answer(422, {"message": "no paper"}))
    daemon.start_run("order", {"weight": 1}, run_id="o1")
    assert env.wait_state("o1") == "compensated"
    error = daemon.show("o1")["error"]
    assert error["code"] == "child_compensated" and "no paper" in error["message"], error
    daemon.start_run("order", {"weight": 1000}, run_id="o2")
    assert env.wait_state("o2") == "compensated"
    assert daemon.show("o2")["error"]["code"] == "input_invalid", daemon.show("o2")
    daemon.apply(ORDER.replace("child: shipping", "child: nobody"))
    daemon.start_run("order", {"weight": 1}, run_id="o3")
    assert env.wait_state("o3") == "compensated"
    assert daemon.show("o3")["error"]["code"] == "no_such_workflow", daemon.show("o3")


@case
def a_parent_is_cancelled_while_its_child_runs(env):
    ledger, daemon = with_orders(env)
    ledger.script("/pack", Answer(delay=1.5))
    daemon.start_run("order", {"weight": 1}, run_id="o1")
    row = waits_for(env, "o1", "child")
    assert row["step_id"] == "ship" and "shipping" in row["detail"], row
    wait_until("the child packs", lambda: ledger.seen(path="/pack"))
    assert daemon.verb("o1", "cancel").status == 200
    assert env.wait_state("o1") == "compensated"
    child = daemon.show("o1~ship")
    assert (child["state"], child["cause"]) == ("compensated", "parent"), child
    assert done(ledger) == sorted(["/reserve", "/pack", "/unpack", "/release"]), done(ledger)


@case
def kills_around_a_child(env):
    ledger, daemon = with_orders(env)
    ledger.script("/pack", Answer(delay=1))
    ledger.always("/charge", Answer(422, {"code": "broke"}))
    ledger.script("/unlabel", Answer(delay=1))
    daemon.start_run("order", {"weight": 1}, run_id="o1")
    wait_until("the child packs", lambda: ledger.seen(path="/pack"))
    daemon.kill()
    daemon.start("--lease", "2s")
    wait_until("the child is undone", lambda: ledger.seen(path="/unlabel"))
    daemon.kill()
    daemon.start("--lease", "2s")
    assert env.wait_state("o1") == "compensated"
    assert env.state("o1~ship") == "compensated"
    assert done(ledger) == sorted(["/reserve", "/pack", "/label", "/unlabel", "/unpack",
                                   "/release"]), done(ledger)


def no_retry(daemon, run_id):
    """The child's end is known, so asking it again changes nothing: a retry is neither offered nor
    taken."""
    explained = daemon.ctl("explain", run_id)
    assert "sagactl settle " in explained.out and "sagactl retry" not in explained.out, explained
    assert "retry" not in daemon.show(run_id)["next_verbs"], daemon.show(run_id)
    assert daemon.verb(run_id, "retry").status == 409


@case
def a_child_that_is_abandoned_on_its_way_back(env):
    ledger, daemon = with_orders(env)
    daemon.apply(SHIPPING.replace("idempotency: {header: Idempotency-Key, ttl: 1d}",
                                  "idempotency: none"))
    ledger.always("/unlabel", Answer(422))
    ledger.always("/charge", Answer(422))
    daemon.start_run("order", {"weight": 1}, run_id="o1")
    assert env.wait_state("o1~ship") == "parked"
    assert daemon.verb("o1~ship", "abandon").status == 200
    assert env.wait_state("o1") == "parked"
    no_retry(daemon, "o1")
    assert env.sql("select step_id from saga.stuck where run_id = 'o1'") == "ship"
    assert daemon.verb("o1", "settle", step="ship:compensate", applied=True).status == 200
    assert env.wait_state("o1") == "compensated"


@case
def hands_on_a_child(env):
    ledger, daemon = with_orders(env)
    ledger.always("/label", Answer(500))
    ledger.keyless = False
    daemon.apply(SHIPPING.replace("idempotency: {header: Idempotency-Key, ttl: 1d}",
                                  "idempotency: none"))
    ids = ("o1", "o2", "o3")
    for run_id in ids:
        daemon.start_run("order", {"weight": 1}, run_id=run_id)
    for run_id in ids:
        assert env.wait_state(run_id + "~ship") == "parked"
        assert env.state(run_id) == "running"
        assert why(env, run_id)["waiting_for"] == "child"
        assert daemon.show(run_id)["waiting"]["child"] == "shipping"
    # Settled, the child goes on, and its parent with it.
    assert daemon.verb("o1~ship", "settle", step="label", applied=True).status == 200
    assert env.wait_state("o1") == "completed"
    # Abandoned, it leaves its parent's step unknown.
    assert daemon.verb("o2~ship", "abandon").status == 200
    assert env.wait_state("o2") == "parked"
    assert daemon.show("o2")["park_reason"] == "outcome_unknown"
    no_retry(daemon, "o2")
    assert daemon.verb("o2", "settle", step="ship", applied=True, output={"kg": 0}).status == 200
    assert env.wait_state("o2") == "completed"
    # Settled as not applied and cancelled, it refuses its parent's step.
    assert daemon.verb("o3~ship", "pause").status in (200, 409)
    assert daemon.verb("o3~ship", "compensate").status == 200
    wait_until("the child stops at its unknown step",
               lambda: env.state("o3~ship") in ("parked", "compensating"))
    daemon.verb("o3~ship", "resume")
    env.wait_state("o3~ship", "parked")
    assert daemon.verb("o3~ship", "settle", step="label", applied=False).status == 200
    assert env.wait_state("o3") == "compensated"


@case
def detached_children_and_long_names(env):
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start("--lease", "2s")
    daemon.apply(SHIPPING)
    name = "s" * 60
    daemon.apply("workflow: outer\nservices: {svc: {url: \"http://127.0.0.1:1\", idempotency: "
                 "{header: Idempotency-Key, ttl: 1d}}}\nsteps:\n"
                 "  - id: %s\n    action: {child: shipping, detached: true}\n"
                 "  - id: charge\n    action: {post: svc/charge}\n"
                 "    compensate: {post: svc/refund}\n" % name)
    ledger.always("/charge", Answer(422))
    run_id = "r" * 94
    daemon.start_run("outer", run_id=run_id)
    assert env.wait_state(run_id) == "compensated"
    residue = daemon.show(run_id)["residue"]
    assert [(e["step"], e["why"]) for e in residue] == [(name, "declared")], residue
    child = env.rows("select run_id, state, parent from saga.runs where parent is not null")[0]
    assert len(child["run_id"]) == 128 and child["run_id"].startswith(run_id + "~"), child
    assert env.wait_state(child["run_id"]) == "completed"


@case
def children_are_nested_16_deep_at_most(env):
    daemon = env.daemon("a").start("--lease", "2s")
    for i in range(18):
        daemon.apply("workflow: m%d\nsteps:\n  - {id: d, action: {child: m%d}}\n" % (i, i + 1))
    daemon.start_run("m0", run_id="m")
    assert env.wait_state("m") == "compensated"
    assert env.sql("select count(*) from saga.runs") == "17"
    assert env.sql("select count(*) from saga.runs where state <> 'compensated'") == "0"


if __name__ == "__main__":
    main()
