#!/usr/bin/env python3
"""A person's word: bound to the exact request, used once, by the right person, and durable."""

import json
import re

from lib import Answer, case, main, wait_until

FLOW = """
workflow: %(name)s
services: {svc: {url: "http://127.0.0.1:1", timeout: 2s, idempotency: {header: Idempotency-Key, ttl: 2d}}}
steps:
  - {id: first, action: {post: svc/first, body: {n: "${{ input.n }}"}}, compensate: {post: svc/undo_first}}
  - id: pay
    approve: {message: "Pay ${{ input.n }}?", expires: %(expires)s%(more)s}
    action: {post: svc/pay, body: {n: "${{ input.n }}", secret: no}, headers: {X-Token: "${{ secrets.token }}"}}
    compensate: {post: svc/undo_pay}
"""


def flow(name="gated", expires="1h", more=""):
    return FLOW % {"name": name, "expires": expires, "more": more}


def pending(env, run_id):
    rows = env.rows("select * from saga.pending_approvals where run_id = '%s'" % run_id)
    return rows[0] if rows else None


def until_asked(env, run_id):
    wait_until("the request waits for a person", lambda: pending(env, run_id))
    return pending(env, run_id)


def secret(env):
    with open(env.folder + "/token", "w") as file:
        file.write("S3cr3t-t0ken")
    env.config_more += 'secrets: {token: "file:%s/token"}\n' % env.folder
    env.config_write()


@case
def exact_request(env):
    """The view shows the exact request; what is approved is sent, once, also over a kill -9."""
    ledger = env.ledger("svc")
    secret(env)
    daemon = env.daemon("a").start("--lease", "2s")
    daemon.apply(flow())
    daemon.submit("gated", {"n": 1990}, run_id="g1")
    row = until_asked(env, "g1")
    request = row["request"]
    assert request == {"key": "g1:pay:execute", "kind": "http", "service": "svc", "method": "post",
                       "target": "/pay", "body": {"n": 1990, "secret": "no"}}, request
    assert row["message"] == "Pay 1990?" and row["requested_by"] == "uid:0", row
    assert not ledger.seen(path="/pay")
    why = env.rows("select waiting_for, step_id from saga.why_waiting where run_id = 'g1'")
    assert why == [{"waiting_for": "approval", "step_id": "pay"}], why
    shown = daemon.ctl("approvals")
    # It expires in an hour: today, unless that is past midnight.
    assert re.search(r"asked by   uid:0, may be decided by anyone until (\d{4}-\d\d-\d\dT)?"
                     r"\d\d:\d\d:\d\dZ \(in (59m \d\ds|1h 00m)\)\n", shown.out), shown
    assert "Pay 1990?" in shown.out and row["request_hash"][:12] in shown.out, shown
    assert "S3cr3t" not in shown.out
    wrong = daemon.ctl("approve", "g1", "pay", "--hash", "0" * 12, "--reason", "x")
    assert wrong.code == 9 and "look at it again" in wrong.err, wrong
    blind = daemon.ctl("approve", "g1", "pay", "--reason", "x")
    assert blind.code == 2 and "--hash" in blind.err and not ledger.seen(path="/pay"), blind
    ledger.script("/pay", Answer(act="never"))
    done = daemon.ctl("approve", "g1", "pay", "--hash", row["request_hash"][:12], "--reason",
                      "looked at it")
    assert done.code == 0, done
    wait_until("it is sent", lambda: ledger.seen(path="/pay"))
    daemon.kill()
    daemon.start("--lease", "2s")
    assert env.wait_state("g1") == "completed"
    sends = ledger.seen(path="/pay")
    assert len({r.body for r in sends}) == 1 and {r.key for r in sends} == {"g1:pay:execute"}
    assert sends[0].headers["x-token"] == "S3cr3t-t0ken"
    row = env.rows("select * from saga.approvals where run_id = 'g1'")[0]
    assert (row["state"], row["actor"], row["reason"]) == ("approved", "uid:0", "looked at it"), row
    # The request was claimed when it was asked for, and is told as claimed when it could be sent.
    told = [(row["what"], row["detail"]) for row in env.rows(
        "select what, detail from saga.timeline where run_id = 'g1' and step_id = 'pay' order by seq")]
    assert [what for what, _ in told] == [
        "approval asked", "approve", "claimed", "attempt applied", "applied"], told
    assert told[0][1].startswith("of anyone, until 20"), told
    assert told[2][1] == "g1:pay:execute", told
    said = daemon.ctl("events", "g1").out
    assert said.index("approval asked") < said.index("looked at it") < said.index("g1:pay:execute")
    # The same decision again is obeyed already, also under the whole hash; another one has lost.
    for hash in row["request_hash"][:12], row["request_hash"]:
        again = daemon.ctl("approve", "g1", "pay", "--hash", hash, "--reason", "looked at it")
        assert again.code == 0, again
    assert daemon.ctl("approve", "g1", "pay", "--hash", row["request_hash"], "--reason", "x").code == 9
    wrong = daemon.ctl("approve", "g1", "pay", "--hash", "0" * 12, "--reason", "looked at it")
    assert wrong.code == 9, wrong
    late = daemon.ctl("reject", "g1", "pay", "--reason", "x")
    assert late.code == 9 and "approved" in late.err, late


@case
def a_gate_1(env):
    """In a loop each item has a word of its own; the one for the first opens no other."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply("""
workflow: loop
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 2d}}}
steps:
  - id: send
    for_each: input.items
    approve: {expires: 1h}
    action: {post: svc/send, body: {to: "${{ item }}"}}
    compensate: {none: mail}
""")
    daemon.submit("loop", {"items": ["a", "b", "c"]}, run_id="l")
    first = until_asked(env, "l")
    assert first["step_id"] == "send.0"
    assert daemon.verb("l", "approve", step="send.0", hash=first["request_hash"],
                       reason="a").status == 200
    wait_until("the second asks", lambda: pending(env, "l") and
               pending(env, "l")["step_id"] == "send.1")
    replay = daemon.verb("l", "approve", step="send.1", hash=first["request_hash"], reason="a")
    assert replay.status == 409, replay
    again = daemon.verb("l", "approve", step="send.0", hash=first["request_hash"], reason="a")
    assert again.status == 200, again # it is obeyed already, and opens nothing
    assert pending(env, "l")["step_id"] == "send.1", pending(env, "l")
    assert len(ledger.seen(path="/send")) == 1
    for item in ("send.1", "send.2"):
        wait_until(item, lambda: pending(env, "l") and pending(env, "l")["step_id"] == item)
        daemon.verb("l", "approve", step=item, hash=pending(env, "l")["request_hash"], reason="b")
    assert env.wait_state("l") == "completed"
    stale = daemon.verb("l", "approve", step="send.0", hash=first["request_hash"], reason="a")
    assert stale.status == 409, stale # others were decided since
    replay = daemon.verb("l", "approve", step="send.2", hash=first["request_hash"], reason="a")
    assert replay.status == 409, replay


@case
def a_gate_2(env):
    """A word before the gate is open is refused with its reason, for a run that is not there it is
    not found; never OK and then waiting for ever."""
    ledger = env.ledger("svc")
    secret(env)
    daemon = env.daemon("a").start()
    daemon.apply(flow())
    ledger.script("/first", Answer(delay=1.0))
    daemon.submit("gated", {"n": 1}, run_id="early")
    early = daemon.ctl("approve", "early", "pay", "--hash", "12345678", "--reason", "x")
    assert early.code == 9, early
    assert daemon.ctl("approve", "nobody", "pay", "--hash", "12345678", "--reason", "x").code == 3
    row = until_asked(env, "early")
    request = env.sql("select saga.approve('early', 'pay', '%s', 'by sql')" % row["request_hash"])
    assert env.wait_state("early") == "completed"
    assert env.sql("select outcome from saga.requests where id = '%s'" % request) == "done"


@case
def by_whom(env):
    """`by: other` is not who submitted, under whatever name; a group is looked up in `people`."""
    env.ledger("svc")
    secret(env)
    env.config_more += ("people:\n  - {name: root, uids: [0], roles: [postgres]}\n"
                        "  - {name: ada, roles: [ada], groups: [finance]}\n")
    env.config_write()
    daemon = env.daemon("a").start()
    env.sql("create role ada login in role saga_operator")
    daemon.apply(flow("other", more=", by: other"))
    daemon.apply(flow("group", more=", by: finance"))
    for name in ("other", "group"):
        daemon.submit(name, {"n": 1}, run_id=name)
        row = until_asked(env, name)
        refused = daemon.ctl("approve", name, "pay", "--hash", row["request_hash"], "--reason", "x")
        assert refused.code == 4, refused
        request = env.sql("select saga.approve('%s', 'pay', '%s', 'same person')" %
                          (name, row["request_hash"]))
        wait_until("it is refused", lambda: env.sql(
            "select outcome from saga.requests where id = '%s'" % request) == "refused")
        env.sql("select saga.approve('%s', 'pay', '%s', 'I am ada')" % (name, row["request_hash"]),
                user="ada")
        assert env.wait_state(name) == "completed"
        row = env.rows("select actor from saga.approvals where run_id = '%s'" % name)[0]
        assert row["actor"] == "role:ada", row
        told = [(row["actor"], row["reason"], row["outcome"][:8]) for row in env.rows(
            "select * from saga.audit where run_id = '%s' and verb = 'approve' order by no" % name)]
        assert told == [("uid:0", "x", "refused:"), ("role:postgres", "same person", "refused:"),
                        ("role:ada", "I am ada", "done")], told
    env.sql("drop role ada")


@case
def not_given(env):
    """Rejected and expired steps are refused and walked back from; `on_expiry: park` waits for a
    person, whose retry asks again; nothing was sent meanwhile."""
    ledger = env.ledger("svc")
    secret(env)
    daemon = env.daemon("a").start()
    daemon.apply(flow())
    daemon.apply(flow("brief", expires="1s"))
    daemon.apply(flow("parks", expires="1s", more=", on_expiry: park"))
    daemon.submit("gated", {"n": 1}, run_id="rejected")
    until_asked(env, "rejected")
    assert daemon.ctl("reject", "rejected", "pay", "--reason", "too much").code == 0
    assert env.wait_state("rejected") == "compensated"
    error = daemon.show("rejected")["error"]
    assert (error["step"], error["code"], error["message"]) == ("pay", "rejected", "too much"), error
    daemon.submit("brief", {"n": 1}, run_id="brief")
    assert env.wait_state("brief") == "compensated"
    daemon.submit("parks", {"n": 1}, run_id="parks")
    assert env.wait_state("parks") == "parked"
    dead = env.rows("select reason, next_verbs from saga.dead_letters where run_id = 'parks'")[0]
    assert dead["reason"] == "approval_expired" and "retry" in dead["next_verbs"], dead
    assert daemon.ctl("retry", "parks", "--reason", "I am here now").code == 0
    row = until_asked(env, "parks")
    assert row["key"] == "parks:pay:execute@2", row
    assert daemon.ctl("approve", "parks", "pay", "--hash", row["request_hash"], "--reason",
                      "ok").code == 0
    assert env.wait_state("parks") == "completed"
    assert [r.key for r in ledger.seen(path="/pay")] == ["parks:pay:execute@2"]


main()
