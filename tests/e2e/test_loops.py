#!/usr/bin/env python3
"""Loops with a real daemon: many items, killed in the middle, undone exactly once; what people see
of them."""

import hashlib
import json
import os

from lib import Answer, case, main, wait_until

PATIENCE = float(os.environ.get("PATIENCE", "1"))
LEASE = ("--lease", "2s")

HEAD = """
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
defaults:
  retry: {attempts: 4, delay: 50ms, factor: 2, max_delay: 200ms, jitter: 20%}
  compensate_retry: {attempts: 6, delay: 50ms, factor: 2, max_delay: 200ms, jitter: 20%}
"""

MAILING = "workflow: mailing\n" + HEAD + """
steps:
  - {id: reserve, action: {post: svc/reserve}, compensate: {post: svc/undo_reserve}}
  - id: send
    for_each: input.items
    key_by: item.id
    max_parallel: 8
    action: {post: "svc/send/${{ item.id }}", body: {n: "${{ index }}"}}
    compensate: {post: "svc/unsend/${{ item.id }}", body: {of: "${{ steps.send.output.id }}"}}
  - {id: close, action: {post: svc/close, body: "${{ steps.send.output }}"}, compensate: {post: svc/undo_close}}
output: {sent: "${{ size(steps.send.output) }}"}
"""


def items(count):
    return {"items": [{"id": "i-%d" % n} for n in range(count)]}


def with_mailing(env, source=MAILING):
    ledger = env.ledger("svc")
    ledger.always("/send/", lambda r: Answer(200, {"id": r.path[6:]}, delay=0.01))
    daemon = env.daemon("a").start(*LEASE)
    daemon.apply(source)
    return ledger, daemon


def effects(ledger, prefix):
    return [e.path[len(prefix):] for e in ledger.done(path=prefix)]


@case
def killed_in_the_middle(env):
    """100 items, 8 at a time, the daemon is killed twice on the way forward: each is sent once, and
    the step after them reads all outputs in item order."""
    ledger, daemon = with_mailing(env)
    run = daemon.start_run("mailing", items(100))
    for part in (30, 60):
        wait_until("%d items are sent" % part, lambda: len(effects(ledger, "/send/")) >= part)
        daemon.kill()
        daemon.start(*LEASE)
    assert env.wait_state(run) == "completed", env.rows("select * from saga.timeline")
    assert sorted(effects(ledger, "/send/")) == sorted("i-%d" % n for n in range(100))
    body = ledger.done(path="/close")[0].body
    assert [row["id"] for row in json.loads(body)] == ["i-%d" % n for n in range(100)], body
    assert daemon.show(run)["output"] == {"sent": 100}


@case
def refused_and_undone(env):
    """100 items, the 71st is refused, the daemon is killed on the way forward and on the way back:
    whatever was sent is undone exactly once, after that the step before."""
    ledger, daemon = with_mailing(env)
    ledger.always("/send/i-70", Answer(422, {"code": "NO_SUCH_ADDRESS"}))
    run = daemon.start_run("mailing", items(100))
    wait_until("40 items are sent", lambda: len(effects(ledger, "/send/")) >= 40)
    daemon.kill()
    daemon.start(*LEASE)
    wait_until("20 items are undone", lambda: len(effects(ledger, "/unsend/")) >= 20)
    daemon.kill()
    daemon.start(*LEASE)
    assert env.wait_state(run) == "compensated", env.rows("select * from saga.timeline")
    sent, unsent = effects(ledger, "/send/"), effects(ledger, "/unsend/")
    assert len(sent) == len(set(sent)) and 70 <= len(sent) < 100, sent
    assert sorted(sent) == sorted(unsent), (sent, unsent)
    assert "i-70" not in sent
    shown = daemon.show(run)
    assert shown["error"]["step"] == "send.i-70", shown["error"]
    assert shown["error"]["body"]["code"] == "NO_SUCH_ADDRESS", shown["error"]
    assert ledger.done()[-1].path == "/undo_reserve", ledger.done()[-3:]
    # Newest claim first, as far as 8 at a time can tell.
    newest = {"i-%d" % n for n in range(70 - 8, 78)}
    assert unsent[0] in newest, unsent[:8]


@case
def a_par_3(env):
    """0, 1 and 1,500 items, 50 at a time, from the output of a step before: the next step begins
    once, when all are through, and reads as many outputs."""
    ledger, daemon = with_mailing(env, """
workflow: fan
%s
steps:
  - {id: list, action: {get: svc/list, query: {n: "${{ input.n }}"}}}
  - id: work
    for_each: steps.list.output
    max_parallel: 50
    action: {post: "svc/work/${{ item }}"}
    compensate: {none: it may be done twice}
  - {id: join, action: {post: svc/join, body: "${{ steps.work.output }}"}, compensate: {none: nothing to undo}}
""" % HEAD)
    ledger.always("/list", lambda r: Answer(200, list(range(int(r.target.split("n=")[1])))))
    ledger.always("/work/", lambda r: Answer(200, int(r.path[6:])))
    for count in (0, 1, 1500):
        run = daemon.start_run("fan", {"n": count})
        assert env.wait_state(run, timeout=90.0) == "completed", run
        joins = [e for e in ledger.done(path="/join") if e.key.startswith(run)]
        assert len(joins) == 1 and json.loads(joins[0].body) == list(range(count)), joins
        seen = [r for r in ledger.seen(path="/work") if r.key.startswith(run)]
        assert len(seen) == count and all(r.at < joins[0].at for r in seen), len(seen)
        steps = daemon.show(run)["steps"]
        assert [s["id"] for s in steps[2:-1]] == ["work.%d" % n for n in range(count)], steps[:5]
        assert steps[1]["output"] == list(range(count)), steps[1]


@case
def everything_at_once(env):
    """max_parallel as large as the list: the claims are cut into units, and all of them go out."""
    ledger, daemon = with_mailing(env, MAILING.replace("max_parallel: 8", "max_parallel: 10000"))
    env.descriptors_max = 600
    run = daemon.start_run("mailing", items(300))
    assert env.wait_state(run, timeout=60.0) == "completed", run
    assert len(set(effects(ledger, "/send/"))) == 300


@case
def what_people_see(env):
    """Views and sagactl: the loop as a step with its items behind it, in item order."""
    ledger, daemon = with_mailing(env)
    ledger.script("/send/i-2", Answer(500, {"id": "?"}))
    run = daemon.start_run("mailing", items(3))
    assert env.wait_state(run) == "completed"
    rows = env.rows("select step_id, state, items from saga.steps where run_id = '%s' "
                    "and step_id like 'send%%' order by step_id" % run)
    assert [(r["step_id"], r["state"]) for r in rows] == [
        ("send", "applied"), ("send.i-0", "applied"), ("send.i-1", "applied"),
        ("send.i-2", "applied")], rows
    assert [int(r["items"] or 0) for r in rows] == [3, 0, 0, 0], rows
    steps = daemon.show(run)["steps"]
    assert [s["id"] for s in steps] == ["reserve", "send", "send.i-0", "send.i-1", "send.i-2",
                                        "close"], steps
    assert [o["id"] for o in steps[1]["output"]] == ["i-0", "i-1", "i-2"], steps[1]
    assert steps[1]["key"] is None and steps[1]["items"] == 3, steps[1]
    assert steps[2]["key"] == run + ":send.i-0:execute", steps[2]
    told = [(r["step_id"], r["what"], r["detail"]) for r in env.rows(
        "select step_id, what, detail from saga.timeline where run_id = '%s' order by seq" % run)]
    assert ("send", "started", "3 items") in told, told
    assert told.index(("send", "applied", None)) > max(
        n for n, row in enumerate(told) if row[0] == "send.i-0"), told
    show = daemon.ctl("show", run).out
    assert "send.i-1" in show, show
    big = daemon.start_run("mailing", items(30))
    assert env.wait_state(big) == "completed"
    show = daemon.ctl("show", big).out
    assert "30 items: 30 applied" in show and "send.i-1 " not in show, show
    assert "send.i-29" in daemon.ctl("show", big, "-o", "wide").out


@case
def keys_are_those_of_the_list(env):
    """Items are in order of the list, not of their keys, wherever they are shown."""
    ledger, daemon = with_mailing(env)
    run = daemon.start_run("mailing", {"items": [{"id": n} for n in ("z", "10", "9", "a b")]})
    assert env.wait_state(run) == "completed"
    ids = [s["id"] for s in daemon.show(run)["steps"] if s["id"].startswith("send.")]
    assert ids[:3] == ["send.z", "send.10", "send.9"] and len(ids[3]) == len("send.") + 32, ids


@case
def a_person_settles_an_item(env):
    """An item whose outcome nobody knows parks the run; it is settled by its name, and the loop
    goes on with the next."""
    ledger, daemon = with_mailing(env, MAILING.replace(", idempotency: {header: Idempotency-Key, ttl: 1d}", "")
                                  .replace("max_parallel: 8", "max_parallel: 1"))
    ledger.script("/send/i-1", Answer(500))
    run = daemon.start_run("mailing", items(3))
    assert env.wait_state(run, "parked") == "parked"
    waits = env.rows("select step_id from saga.dead_letters where run_id = '%s'" % run)
    assert [r["step_id"] for r in waits] == ["send.i-1"], waits
    wrong = daemon.ctl("settle", run, "send.i-7", "--applied", "--reason", "x")
    assert wrong.code != 0 and 'no item "i-7"' in wrong.err, wrong
    told = daemon.ctl("settle", run, "send.i-1", "--applied", "--reason", "it is in the mailbox")
    assert told.code == 0, told
    assert env.wait_state(run) == "completed"
    assert effects(ledger, "/send/") == ["i-0", "i-2"]


@case
def too_many_or_the_same(env):
    """A list that is too long, or that names two items alike, refuses the step and says so."""
    ledger, daemon = with_mailing(env)
    run = daemon.start_run("mailing", {"items": [{"id": n} for n in range(10001)]})
    assert env.wait_state(run) == "compensated"
    error = daemon.show(run)["error"]
    assert error["code"] == "too_many_items" and "10001 items, at most 10000" in error["message"], error
    run = daemon.start_run("mailing", {"items": [{"id": "x"}, {"id": "y"}, {"id": "x"}]})
    assert env.wait_state(run) == "compensated"
    error = daemon.show(run)["error"]
    assert 'items 0 and 2 have the same key "x"' in error["message"], error
    assert not effects(ledger, "/send/")


@case
def items_with_strange_names(env):
    """Where the name of an item in keys is a hash, people are told what it was made of, wherever they
    look; a name that is told by its key is not told twice."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply("workflow: flow\nservices: {svc: {url: \"http://127.0.0.1:1\"}}\nsteps:\n"
                 "  - {id: send, on_failure: park, for_each: input.list, key_by: item.who,\n"
                 "     action: {post: svc/send, body: {who: \"${{ item.who }}\"}}, "
                 "compensate: {none: mail}}\n")
    ledger.script("/send", Answer(200), Answer(200), Answer(422, {"code": "NO"}))
    names = ["plain-1", "Ada \u00c4", "a/b", "x" * 90]
    daemon.start_run("flow", {"list": [{"who": name} for name in names]}, "r1")
    assert env.wait_state("r1") == "parked"
    hashes = {name: hashlib.sha256(name.encode()).hexdigest()[:32] for name in names}
    steps = {step["id"]: step["item_text"] for step in daemon.show("r1")["steps"]}
    assert steps == {"send": None, "send.plain-1": None, "send." + hashes["Ada \u00c4"]: "Ada \u00c4",
                     "send." + hashes["a/b"]: "a/b"}, steps
    views = "select distinct step_id, item_text from saga.%s where run_id = 'r1' and step_id is not null"
    for view in ("steps", "timeline"):
        told = {row["step_id"]: row["item_text"] for row in env.rows(views % view)}
        assert told == steps, (view, told)
    failed = "send.%s (a/b)" % hashes["a/b"]
    for args in (["show", "r1"], ["events", "r1"], ["dead", "show", "r1"], ["explain", "r1"]):
        out = daemon.ctl(*args).out
        assert failed in out and "(plain-1)" not in out, (args, out)
    assert "(Ada \u00c4)" in daemon.ctl("show", "r1").out
    assert daemon.verb("r1", "skip", step="send." + hashes["a/b"]).status == 200
    assert env.wait_state("r1") == "completed"
    last = daemon.show("r1")["steps"][-1]
    assert last["item_text"] == "x" * 60 + "...", last
    items = env.rows("select items from saga.effect where run_id = 'r1' and item = ''")[0]["items"]
    assert [len(item) for item in items] == [2, 3, 3, 3], items


if __name__ == "__main__":
    main()
