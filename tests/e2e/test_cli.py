#!/usr/bin/env python3
"""sagactl against the real daemon: exit codes that tell apart what happened, stdout for data only."""

import json
import os
import re
import signal
import subprocess
import threading
import time

from lib import SAGACTL, Answer, case, main, parse, spawn, wait_until

FLOW = """
workflow: flow
input: {type: object, properties: {n: {type: integer}}}
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
defaults: {retry: {attempts: 2, delay: 50ms, factor: 1, max_delay: 50ms, jitter: 0%}}
steps:
  - {id: a, action: {post: svc/a}, compensate: {post: svc/undo_a}}
  - {id: b, timeout: 10m, action: {post: svc/b}, compensate: {post: svc/undo_b}}
"""


def with_runs(env):
    """One run of each kind: done, back, stuck, slow, closed."""
    gate = threading.Event()
    ledger = env.ledger("svc")
    ledger.gate = gate  # of "slow"
    env.closers.append(gate.set)
    daemon = env.daemon("a").start()
    with open(env.folder + "/flow.yaml", "w") as file:
        file.write(FLOW)
    assert daemon.ctl("apply", "flow.yaml").code == 0
    answers = {"back": Answer(422, {"code": "NO"}), "stuck": Answer(422), "closed": Answer(422),
               "slow": Answer(200, gate=gate)}
    ledger.always("/b", lambda r: answers.get(r.key.split(":")[0], Answer(200)))
    ledger.always("/undo_a", lambda r: Answer(422, {"code": "TOO_LATE"})
                  if r.key.startswith(("stuck", "closed")) else Answer(200))
    for run in ("done", "back", "stuck", "closed", "slow"):
        daemon.start_run("flow", {"n": 1}, run)
    for run, state in (("done", "completed"), ("back", "compensated"), ("stuck", "parked"),
                       ("closed", "parked")):
        assert env.wait_state(run) == state
    assert daemon.ctl("abandon", "closed", "--reason", "written off").code == 0
    return ledger, daemon


@case
def a_cli_1(env):
    """Each way to fail has its exit code and says why on stderr; help on request is 0."""
    ledger, daemon = with_runs(env)
    wait_until("slow is in flight", lambda: ledger.seen(key="slow:b:execute"))
    for name, text in (("bad.yaml", "workflow: bad\nsteps: 5\n"), ("bad.json", "{"),
                       ("other.yaml", FLOW.replace("workflow: flow", "workflow: flow2"))):
        with open("%s/%s" % (env.folder, name), "w") as file:
            file.write(text)
    reason = ["--reason", "a test"]
    table = [
        (0, ["help"]), (0, ["--help"]), (0, ["run", "--help"]), (0, ["ping"]), (0, ["list"]),
        (0, ["workflows"]), (0, ["daemons"]), (0, ["validate", "flow.yaml"]), (0, ["dead"]),
        (0, ["wait", "done"]), (0, ["run", "flow", "--id", "new", "--wait"]),
        (0, ["explain", "E203"]), (0, ["apply", "other.yaml"]), (0, ["show", "stuck"]),
        (0, ["list", "--state", "parked"]),
        (2, []), (2, ["explode"]), (2, ["list", "--explode"]), (2, ["run"]), (2, ["show"]),
        (2, ["show", "a", "b"]), (2, ["validate", "bad.yaml"]), (2, ["apply", "bad.yaml"]),
        (2, ["run", "flow", "--input", "{"]), (2, ["run", "flow", "--input", "@bad.json"]),
        (2, ["run", "flow", "--input", '{"n": "x"}']), (2, ["cancel", "slow"]),
        (2, ["wait", "slow", "--timeout", "soon"]), (2, ["list", "--state", "odd"]),
        (2, ["settle", "stuck", "a", *reason]), (2, ["list", "-o", "xml"]),
        (3, ["show", "nobody"]), (3, ["wait", "nobody"]), (3, ["events", "nobody"]),
        (3, ["run", "flwo"]), (3, ["cancel", "nobody", *reason]), (3, ["dead", "show", "nobody"]),
        (5, ["wait", "back"]), (5, ["run", "flow", "--id", "back", "--input", '{"n":1}', "--wait"]),
        (6, ["wait", "stuck"]), (6, ["watch", "stuck"]),
        (7, ["wait", "slow", "--timeout", "200ms"]),
        (7, ["run", "flow", "--id", "slow", "--input", '{"n":1}', "--wait", "--timeout", "200ms"]),
        (8, ["--socket", env.folder + "/nothing.sock", "list"]),
        (8, ["--socket", env.folder + "/flow.yaml", "ping"]),
        (9, ["run", "flow", "--id", "done", "--input", '{"n":2}']),
        (9, ["cancel", "done", *reason]), (9, ["skip", "done", "a", *reason]),
        (10, ["wait", "closed"])]
    wrong = []
    for code, args in table:
        done = daemon.ctl(*args)
        if done.code != code:
            wrong.append("%s: %d, not %d: %s" % (args, done.code, code, done.err))
        if code in (1, 2, 3, 4, 8, 9) and (not done.err or (done.out and "validate" not in args)):
            wrong.append("%s: nothing on stderr, or something on stdout: %r" % (args, done))
    assert not wrong, "\n".join(wrong)
    missing = daemon.ctl("validate", "absent.yaml")
    assert missing.code != 0 and "absent.yaml" in missing.err, missing
    # Ctrl-C while it waits.
    waiting = spawn([SAGACTL, "--socket", daemon.socket, "wait", "slow"], stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, text=True)
    time.sleep(0.5)
    waiting.send_signal(signal.SIGINT)
    out, err = waiting.communicate(timeout=10)
    assert waiting.returncode == 130 and not out and "slow" in err, (waiting.returncode, out, err)
    # The daemon ends while it waits, and is not there afterwards.
    waiting = spawn([SAGACTL, "--socket", daemon.socket, "wait", "slow"], stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, text=True)
    time.sleep(0.3)
    daemon.kill()
    assert daemon.ctl("list").code == 8
    daemon.start()
    ledger.gate.set()
    out, err = waiting.communicate(timeout=40)
    assert waiting.returncode in (0, 8), (waiting.returncode, out, err)
    assert env.wait_state("slow") == "completed"


@case
def without_a_database(env):
    """With the database away: reading says so and fails with another code than "not found"; the
    daemon answers ping."""
    ledger, daemon = with_runs(env)
    env.sql("alter database %s connection limit 0" % env.database)
    env.sql("select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and application_name like 'sagad %'")
    wait_until("it knows", lambda: daemon.http("GET", "/readyz").status == 503)
    for args in (["list"], ["show", "done"], ["dead"], ["workflows"]):
        done = daemon.ctl(*args)
        assert done.code in (1, 8) and not done.out and "database" in done.err, (args, done)
    ping = daemon.ctl("ping", "-o", "json")
    assert ping.code in (0, 1) and ping.json()["database"] == "down", ping
    env.sql("alter database %s connection limit -1" % env.database)
    wait_until("it is back", lambda: daemon.ctl("list").code == 0)
    ledger.gate.set()


@case
def a_cli_2(env):
    """With -o json stdout is one JSON document, with jsonl one a line, whatever is said on stderr;
    digits and order of members stay as they are."""
    ledger, daemon = with_runs(env)
    big = '{"n": 9007199254740993, "z": 1.0, "a": 1e400}'
    started = daemon.ctl("run", "flow", "--id", "digits", "--input", big, "--wait", "-o", "json")
    assert started.code == 0 and re.sub(r"\s", "", big) in re.sub(r"\s", "", started.out), started
    commands = (["list"], ["show", "done"], ["show", "stuck"], ["events", "back"], ["workflows"],
                ["dead"], ["dead", "show", "stuck"], ["daemons"], ["ping"], ["wait", "done"],
                ["wait", "stuck"], ["wait", "back"], ["explain", "E203"],
                ["run", "flow", "--id", "done", "--input", '{"n":1}'],
                ["run", "flow", "--id", "fresh", "--wait"], ["validate", "flow.yaml"],
                ["apply", "flow.yaml"], ["list", "--state", "queued"], ["schema"],
                ["pause", "slow", "--reason", "x"], ["resume", "slow", "--reason", "x"])
    wrong = []
    for args in commands:
        done = daemon.ctl(*args, "-o", "json")
        try:
            parse(done.out)
        except ValueError as error:
            wrong.append("%s: %s: %r" % (args, error, done.out[:200]))
        if "\x1b" in done.out:
            wrong.append("%s: escape sequences" % args)
    for args in (["list"], ["events", "back"], ["events", "back", "--follow"], ["workflows"],
                 ["dead"]):
        done = daemon.ctl(*args, "-o", "jsonl")
        try:
            rows = [parse(line) for line in done.out.splitlines()]
            assert rows, args
        except (ValueError, AssertionError) as error:
            wrong.append("%s -o jsonl: %r: %r" % (args, error, done.out[:200]))
    assert not wrong, "\n".join(wrong)
    names = daemon.ctl("list", "-q").out.split()
    assert set(names) == set(env.states()), names
    shown = daemon.ctl("show", "back", "-o", "json").json()
    assert list(shown)[:5] == ["run_id", "workflow", "version", "tenant", "state"], list(shown)
    needed = {"run_id", "workflow", "version", "tenant", "state", "paused", "cause", "waiting_for",
              "input", "output", "error", "created_at", "ended_at", "steps", "residue"}
    assert needed <= set(shown), needed - set(shown)
    assert {"id", "effect", "state", "compensation_state", "attempts", "key", "output", "error",
            "started_at", "ended_at"} <= set(shown["steps"][0]), shown["steps"][0]
    assert [s["id"] for s in shown["steps"]] == ["a", "b"]
    # A collation warning or a notice of the server does not reach stdout either.
    noisy = daemon.ctl("list", "-o", "json", env={"NO_COLOR": "", "TERM": "dumb"})
    assert parse(noisy.out)
    ledger.gate.set()


@case
def prefixes(env):
    """Reading verbs take a unique beginning of an id, an exact id wins; changing verbs take only
    the whole id."""
    env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(FLOW)
    for run in ("order", "order-1", "order-22", "other"):
        daemon.start_run("flow", {}, run)
    env.wait_all(4)
    assert daemon.ctl("show", "order-2", "-o", "json").json()["run_id"] == "order-22"
    assert daemon.ctl("show", "order", "-o", "json").json()["run_id"] == "order"
    several = daemon.ctl("show", "or")
    assert several.code in (2, 3, 9) and "order-1" in several.err and not several.out, several
    assert daemon.ctl("cancel", "order-2", "--reason", "x").code == 3
    assert daemon.ctl("show", "%").code == 3 and daemon.ctl("show", "order_1").code == 3


@case
def the_socket_is_found(env):
    """sagactl finds the daemon by --socket, $SAGA_SOCKET or the nearest .saga upwards, and says what
    it tried."""
    env.ledger("svc")
    daemon = env.daemon("a").start()
    deep = env.folder + "/project/sub/deep"
    os.makedirs(deep)
    os.mkdir(env.folder + "/project/.saga")
    os.symlink(daemon.socket, env.folder + "/project/.saga/sagad.sock")
    environ = {"PATH": os.environ["PATH"], "HOME": env.folder, "XDG_RUNTIME_DIR": env.folder}
    found = subprocess.run([SAGACTL, "ping", "-o", "json"], cwd=deep, env=environ,
                           capture_output=True, text=True)
    assert found.returncode == 0 and json.loads(found.stdout)["daemon"] == "a", found
    lost = subprocess.run([SAGACTL, "ping"], cwd="/", env=environ, capture_output=True, text=True)
    assert lost.returncode == 8 and env.folder in lost.stderr, lost


@case
def diff_and_graph(env):
    """The daemon's version is what a file is compared with; open runs are named; a run is drawn."""
    ledger, daemon = with_runs(env)
    wait_until("slow is in flight", lambda: ledger.seen(key="slow:b:execute"))
    assert daemon.ctl("diff", "flow.yaml").code == 0
    with open(env.folder + "/flow.yaml", "w") as file:
        file.write(FLOW.replace("attempts: 2", "attempts: 5").replace("svc/undo_a", "svc/back_a"))
    done = daemon.ctl("diff", "flow.yaml", "-o", "json")
    assert done.code == 1, done
    document = json.loads(done.out)
    assert {"part": "step", "name": "a", "key": "compensate.post", "before": "svc/undo_a",
            "after": "svc/back_a", "follows": False} in document["changes"], document
    assert {(r["run_id"], r["state"]) for r in document["open_runs"]} == {
        ("slow", "running"), ("stuck", "parked")}, document
    with open(env.folder + "/new.yaml", "w") as file:
        file.write(FLOW.replace("workflow: flow", "workflow: new"))
    assert daemon.ctl("diff", "new.yaml").code == 1
    done = daemon.ctl("graph", "flow.yaml", "--run", "stuck", "-o", "json")
    assert done.code == 0, done
    tones = {node["id"]: node["tone"] for node in json.loads(done.out)["nodes"]}
    assert tones["s_a"] == "failed" and tones["s_b"] == "failed", tones


if __name__ == "__main__":
    main(parallel=4)
