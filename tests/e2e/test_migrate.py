#!/usr/bin/env python3
"""Versions: a run keeps the one it was started with, forward and backward, until a person pins it to
another."""

from lib import Answer, case, main, wait_until

WORKFLOW = """
workflow: order
run_id: "${{ input.id }}"
input: {type: object, required: [id], properties: {id: {type: string}}}
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
steps:
  - {id: a, action: {post: svc/a%(v)s}, compensate: {post: svc/undo_a%(v)s}}
  - {id: b, on_failure: park, action: {post: svc/b%(v)s}, compensate: {post: svc/undo_b%(v)s}}
  - {id: c, action: {post: svc/c%(v)s}, compensate: {post: svc/undo_c%(v)s}}
"""


def stand(env, *more):
    """Parked at b, which the old version sends to the wrong place; the new one is applied."""
    ledger = env.ledger("svc")
    ledger.always("/b1", Answer(404))
    daemon = env.daemon("a").start(*more)
    old = daemon.apply(WORKFLOW % {"v": 1})["hash"]
    daemon.start_run("order", {"id": "r-1"})
    assert env.wait_state("r-1") == "parked"
    new = daemon.apply(WORKFLOW % {"v": 2})["hash"]
    return ledger, daemon, old, new


@case
def a_version_1(env):
    """A changed file changes nothing for runs that are open: retried and undone as they were begun."""
    ledger, daemon, old, new = stand(env)
    daemon.kill()
    daemon.start()
    assert daemon.verb("r-1", "retry").status == 200
    assert env.wait_state("r-1") == "parked"
    assert daemon.verb("r-1", "compensate").status == 200
    assert env.wait_state("r-1") == "compensated"
    assert {r.path for r in ledger.requests} == {"/a1", "/b1", "/undo_a1"}
    daemon.start_run("order", {"id": "r-2"})
    assert env.wait_state("r-2") == "completed"
    assert len(ledger.done(path="/c2")) == 1


@case
def to_the_new_one(env):
    """Migrated, then retried: what has run stays, the rest is sent as the new version says; also the
    way back, after a crash."""
    ledger, daemon, old, new = stand(env)
    reply = daemon.verb("r-1", "migrate", to=new[:12], dry_run=True)
    assert reply.status == 200, reply
    assert daemon.show("r-1")["version"] == old[:12]
    assert daemon.verb("r-1", "migrate", to=new[:12]).status == 200
    assert daemon.verb("r-1", "migrate", to=new).status == 200  # a repeat is fine
    assert daemon.show("r-1")["version"] == new[:12]
    assert daemon.verb("r-1", "retry").status == 200
    assert env.wait_state("r-1") == "completed"
    paths = [e.path for e in ledger.done()]
    assert paths == ["/a1", "/b2", "/c2"], paths
    what = env.sql("select detail from saga.timeline where run_id = 'r-1' and what = 'migrated'")
    assert what.startswith("from version %s to %s: a test" % (old[:12], new[:12])), what
    daemon.apply(WORKFLOW % {"v": 1})
    daemon.start_run("order", {"id": "r-2"})
    assert env.wait_state("r-2") == "parked"
    assert daemon.verb("r-2", "migrate", to=new).status == 200
    daemon.kill()
    daemon.start()
    assert daemon.verb("r-2", "compensate").status == 200
    assert env.wait_state("r-2") == "compensated"
    assert [e.path for e in ledger.done() if e.key.startswith("r-2:")] == ["/a1", "/undo_a2"]


@case
def refusals(env):
    """What cannot go on there stays as it is, and says why."""
    ledger, daemon, old, new = stand(env)
    gone = daemon.apply((WORKFLOW % {"v": 3}).replace("id: a,", "id: first,"))["hash"]
    reply = daemon.verb("r-1", "migrate", to=gone)
    assert reply.status == 409, reply
    assert 'step "a" has run and is not there any more' in reply.json()["detail"], reply
    assert daemon.verb("r-1", "migrate", to="0123456789").status == 404
    reply = daemon.verb("r-1", "migrate", to=new[:3])
    assert reply.status == 404 and "at least 6 digits" in reply.json()["detail"], reply
    assert daemon.verb("r-1", "migrate").status == 422
    assert daemon.verb("r-1", "migrate", to=new, applied=True).status == 422
    assert daemon.verb("nobody", "migrate", to=new).status == 404
    ledger.always("/a3", Answer(200, delay=2))
    daemon.start_run("order", {"id": "r-3"})
    wait_until("it is in flight", lambda: ledger.seen(path="/a3"))
    reply = daemon.verb("r-3", "migrate", to=new)
    assert reply.status == 409 and "pause it first" in reply.json()["detail"], reply
    assert daemon.verb("r-3", "pause").status == 200
    reply = daemon.verb("r-3", "migrate", to=new)
    assert reply.status == 409, reply
    assert daemon.verb("r-3", "resume").status == 200
    assert env.wait_state("r-3") == "completed"
    assert daemon.show("r-1")["state"] == "parked" and daemon.show("r-1")["version"] == old[:12]


@case
def paused_at_the_other_daemon(env):
    """A paused run in mid-walk goes on under the new version when it is resumed; any daemon takes the
    verb."""
    ledger, daemon, old, new = stand(env, "--lease", "2s")
    daemon.apply(WORKFLOW % {"v": 1})
    ledger.always("/a1", Answer(200, delay=1))
    daemon.start_run("order", {"id": "r-2"})
    wait_until("it is in flight", lambda: ledger.seen(key="r-2:a:execute"))
    assert daemon.verb("r-2", "pause").status == 200
    wait_until("a is done", lambda: daemon.show("r-2")["steps"][0]["state"] == "applied")
    other = env.daemon("b").start("--lease", "2s")
    for at in (other, daemon):
        reply = at.verb("r-2", "migrate", to=new)
        assert reply.status == 200, reply
    assert other.verb("r-2", "resume").status == 200
    assert env.wait_state("r-2") == "completed"
    assert [e.path for e in ledger.done() if e.key.startswith("r-2:")] == ["/a1", "/b2", "/c2"]


@case
def by_sagactl(env):
    """Several at once: each is checked first, and nothing is done without a word."""
    ledger, daemon, old, new = stand(env)
    daemon.apply(WORKFLOW % {"v": 1})
    daemon.start_run("order", {"id": "r-2"})
    assert env.wait_state("r-2") == "parked"
    done = daemon.ctl("migrate", "--workflow", "order", "--to", new, "--reason", "x")
    assert done.code == 2 and "2 of 2 runs can be migrated; say --yes" in done.err, done
    for reason in ([], ["--reason", "x"]):  # nothing is done that would be kept with it
        done = daemon.ctl("migrate", "r-1", "--to", new, "--dry-run", *reason)
        assert (done.code, done.out) == (0, "r-1  can be migrated\n"), done
    reply = daemon.http("POST", "/v1/runs/r-1/migrate", {"to": new, "dry_run": False})
    assert reply.status == 422 and reply.json()["code"] == "reason_missing", reply
    gone = daemon.apply((WORKFLOW % {"v": 3}).replace("id: a,", "id: first,"))["hash"]
    done = daemon.ctl("migrate", "r-1", "--to", gone, "--reason", "x")
    assert done.code == 9 and 'r-1  stays: step "a" has run' in done.out, done
    done = daemon.ctl("migrate", "--workflow", "order", "--state", "parked", "--to", new[:10],
                      "--reason", "x", "--yes")
    assert done.code == 0 and sorted(done.out.splitlines()) == \
        ["r-1  migrated", "r-2  migrated"], done
    for words in (["migrate", "r-1", "--reason", "x"], ["migrate", "r-1", "--to", new],
                  ["migrate", "--to", new, "--reason", "x"]):
        assert daemon.ctl(*words).code == 2, words


if __name__ == "__main__":
    main(parallel=3)
