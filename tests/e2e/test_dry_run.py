#!/usr/bin/env python3
"""Dry runs: every request is shown, nothing is sent or stored, and the token starts that run alone."""

from lib import Answer, case, main

FLOW = """
workflow: trip
input: {type: object, required: [who, cents], properties: {who: {type: string}, cents: {type: integer}}}
services: {svc: {url: "http://127.0.0.1:1", timeout: 2s, idempotency: {header: Idempotency-Key, ttl: 2d}}}
steps:
  - id: room
    action: {post: svc/rooms, body: {who: "${{ input.who }}"}}
    compensate: {delete: "svc/rooms/${{ steps.room.output.id }}"}
    output_schema: {type: object, required: [id, big], properties: {id: {type: string}, big: {type: boolean}}}
  - id: bed
    if: steps.room.output.big
    action: {post: "svc/rooms/${{ steps.room.output.id }}/beds", headers: {X-Token: "${{ secrets.token }}"}}
    compensate: {none: "it goes with the room"}
  - id: pay
    effect: irreversible
    approve: {by: other}
    action: {post: svc/payments, body: {cents: "${{ input.cents }}", room: "${{ steps.room.output.id }}"}}
output: {room: "${{ steps.room.output.id }}"}
"""
INPUT = {"who": "ann", "cents": 1990}


def started(env, more=FLOW):
    ledger = env.ledger("svc")
    ledger.always("/rooms", Answer(200, {"id": "r7", "big": True}))
    with open(env.folder + "/token", "w") as file:
        file.write("S3cr3t-t0ken")
    env.config_more += 'secrets: {token: "file:%s/token"}\n' % env.folder
    env.config_write()
    daemon = env.daemon("a").start("--lease", "2s")
    daemon.apply(more)
    return daemon, ledger


def plan_of(daemon, input=None, run_id="t1", **more):
    reply = daemon.submit("trip", input or INPUT, run_id=run_id, dry_run=True, **more)
    assert reply.status == 200, reply
    return reply.json()


def assert_nothing(env, ledger):
    assert not ledger.seen(), ledger.seen()
    for table in ("run_key", "run", "effect", "inbox"):
        assert env.rows("select count(*) n from saga.%s" % table) == [{"n": 0}], table


@case
def every_request(env):
    """Requests in order, with what only an answer would give; approvals, undos, refusals."""
    daemon, ledger = started(env)
    plan = plan_of(daemon)
    room, bed, pay = plan["steps"]
    assert [s["step"] for s in plan["steps"]] == ["room", "bed", "pay"], plan
    assert room["request"] == {"key": "t1:room:execute", "kind": "http", "service": "svc",
                               "method": "post", "target": "/rooms", "body": {"who": "ann"}}, room
    assert room["from_answers"] == [] and room["runs"] == "yes" and room["approval"] is None, room
    assert room["compensation"]["request"]["target"] == "/rooms/<answer>", room
    assert room["compensation"]["from_answers"] == ["/target"], room
    assert bed["request"]["target"] == "/rooms/<answer>/beds", bed
    assert bed["not_undone"] == "it goes with the room", bed
    assert pay["request"]["body"] == {"cents": 1990, "room": "<answer>"}, pay
    assert pay["from_answers"] == ["/body/room"], pay
    assert pay["irreversible"] and pay["pivot"] and pay["approval"] == {"by": "other"}, pay
    assert pay["if_refused"]["ends"] == "compensated", pay
    assert pay["if_refused"]["undone"] == ["room"], pay
    assert [r["step"] for r in pay["if_refused"]["residue"]] == ["bed"], pay
    assert room["if_refused"]["undone"] == [], room
    assert plan["ends"] == "completed" and "S3cr3t" not in str(plan), plan
    assert plan["plan_hash"] == plan_of(daemon, run_id="t2")["plan_hash"]
    assert plan["plan_hash"] != plan_of(daemon, {"who": "ann", "cents": 1991})["plan_hash"]
    assert_nothing(env, ledger)
    shown = daemon.ctl("run", "trip", "--input", '{"who":"ann","cents":1990}', "--id", "t1", "--dry-run")
    assert shown.code == 0, shown
    for text in ("post svc/rooms/<answer>/beds", "needs approval by other", "no way back after it",
                 "if refused: compensated; undone: room; left: bed", plan["plan_hash"]):
        assert text in shown.out, (text, shown.out)
    assert "--confirm" in shown.err, shown.err
    assert_nothing(env, ledger)


@case
def confirmed(env):
    """The token starts the run that was shown, once, at any daemon."""
    daemon, ledger = started(env, FLOW.replace("    approve: {by: other}\n", ""))
    other = env.daemon("b").start("--lease", "2s")
    plan = plan_of(daemon, run_id=None)
    reply = other.submit("trip", INPUT, confirm=plan["confirm"], wait=20)
    assert reply.status == 200 and reply.json()["run_id"] == plan["run_id"], reply
    assert reply.json()["state"] == "completed", reply
    again = daemon.submit("trip", INPUT, confirm=plan["confirm"], wait=20)
    assert again.status == 200 and again.headers["Idempotency-Replayed"] == "true", again
    assert len(ledger.seen(path="/payments")) == 1
    token = daemon.ctl("run", "trip", "--input", '{"who":"ann","cents":2}', "--dry-run", "-q").out.strip()
    run = daemon.ctl("run", "trip", "--input", '{"who":"ann","cents":2}', "--confirm", token, "--wait")
    assert run.code == 0, run


@case
def bound(env):
    """Another input, version, id, tenant, person, time or token is refused, and nothing starts."""
    daemon, ledger = started(env)
    token = plan_of(daemon)["confirm"]
    expires, workflow, digits, mac, run_id = token.split(".", 4)
    tries = [({"who": "ann", "cents": 1991}, {}, "the input is not that of the dry run"),
             (INPUT, {"run_id": "t2"}, "the run ids do not agree"),
             (INPUT, {"tenant": "acme"}, "another person, run id, tenant or start time"),
             (INPUT, {"start_at": "2031-01-01T00:00:00Z"}, "another person, run id, tenant or start time"),
             (INPUT, {"confirm": ".".join([str(int(expires) + 900), workflow, digits, mac, run_id])},
              "another person, run id, tenant or start time"),
             (INPUT, {"confirm": ".".join([expires, workflow, digits, mac, "t2"])}, "another person, run id")]
    for input, more, said in tries:
        reply = daemon.submit("trip", input, **{"confirm": token, **more})
        assert reply.status == 409 and said in reply.json()["detail"], (more, reply)
    for more in ({"confirm": "x"}, {"confirm": 5}, {"confirm": token, "dry_run": True}, {"dry_run": "yes"}):
        reply = daemon.submit("trip", INPUT, **more)
        assert reply.status == 422, (more, reply)
    # The same file with one more line is another version.
    daemon.apply(FLOW + "description: changed\n")
    reply = daemon.submit("trip", INPUT, confirm=token)
    assert reply.status == 409 and "the workflow has changed" in reply.json()["detail"], reply
    result = daemon.ctl("run", "trip", "--input", '{"who":"ann","cents":1990}', "--confirm", token)
    assert result.code == 9, result
    result = daemon.ctl("run", "trip", "--dry-run", "--wait")
    assert result.code == 2 and "--dry-run starts nothing" in result.err, result
    # A new key of the installation makes the tokens worthless that are out.
    daemon.apply(FLOW)
    env.sql("update saga.meta set confirm_key = pg_catalog.sha256('x')")
    reply = daemon.submit("trip", INPUT, confirm=token)
    assert reply.status == 409 and "another installation" in reply.json()["detail"], reply
    assert_nothing(env, ledger)


@case
def refused_input(env):
    """A dry run refuses what a submit would refuse."""
    daemon, ledger = started(env)
    reply = daemon.submit("trip", {"who": "ann"}, dry_run=True)
    assert reply.status == 422 and reply.json()["code"] == "input_invalid", reply
    assert daemon.submit("tripp", INPUT, dry_run=True).status == 404
    assert_nothing(env, ledger)


if __name__ == "__main__":
    main()
