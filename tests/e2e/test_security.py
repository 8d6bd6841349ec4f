#!/usr/bin/env python3
"""Who may do what, where requests may go, and what is kept of the acts of people."""

import json
import os
import subprocess

from lib import SAGACTL, case, main, wait_until

ONE = """
workflow: one
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
steps:
  - id: act
    action: {post: svc/act, body: {n: "${{ input.n }}"}}
    compensate: {post: svc/undo}
"""

WAITS = """
workflow: waits
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
steps:
  - id: act
    action: {post: svc/act, body: {}}
    compensate: {post: svc/undo}
  - id: word
    wait_for: {signal: go}
    timeout: 1h
"""

NOBODY, STAFF = 65534, 50


def as_user(daemon, uid, *args, gid=65534, groups=()):
    """sagactl as somebody else."""
    drop = ["setpriv", "--reuid=%d" % uid, "--regid=%d" % gid,
            "--groups=" + ",".join(map(str, groups)) if groups else "--clear-groups"]
    done = subprocess.run([*drop, SAGACTL, "--socket", daemon.socket, *args], capture_output=True,
                          text=True, stdin=subprocess.DEVNULL)
    return done


def opened(env, config):
    """A daemon whose socket everybody reaches: its roles are what holds."""
    assert os.geteuid() == 0, "the test acts as other users: run it as root"
    env.config_more = config
    env.config_write()
    daemon = env.daemon("a").start()
    os.chmod(env.folder, 0o755)
    os.chmod(daemon.socket, 0o666)
    return daemon


def as_nobody_http(daemon, method, path, body=""):
    """Status and JSON of a bare request, as nobody."""
    done = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "curl", "-s", "-X", method,
         "--unix-socket", daemon.socket, "-w", "\n%{http_code} %{content_type}", "-d", body,
         "http://saga" + path], capture_output=True, text=True)
    text, tail = done.stdout.rsplit("\n", 1)
    status, kind = tail.split(" ", 1)
    return int(status), kind, json.loads(text)


@case
def roles_are_a_ladder(env):
    """Each role may do what is its, and what the ones below may; the others get 403 and exit 4."""
    ledger = env.ledger("svc")
    daemon = opened(env, "roles: {read: [uid:5001], submit: [gid:5002], operate: [uid:5003],"
                         " admin: [uid:5004]}\n")
    path = env.folder + "/one.yaml"
    with open(path, "w") as file:
        file.write(ONE)
    callers = {"none": dict(uid=5000), "read": dict(uid=5001),
               "submit": dict(uid=5005, groups=(5002, 7)), "operate": dict(uid=5003),
               "admin": dict(uid=5004)}
    ladder = list(callers)

    def go(role, *args):
        who = dict(callers[role])
        return as_user(daemon, who.pop("uid"), *args, **who)

    def needs(role, *args, ok=0):
        for name in ladder:
            done = go(name, *args)
            if ladder.index(name) < ladder.index(role):
                assert done.returncode == 4, (name, args, done)
                assert 'this needs the role "' in done.stderr, done
            else:
                assert done.returncode == ok, (name, args, done)

    needs("none", "ping")
    needs("admin", "apply", path)  # asks what would change before
    assert go("operate", "apply", path).stderr.count('needs the role "admin"') == 1
    needs("read", "workflows")
    needs("read", "list")
    needs("submit", "run", "one", "--input", '{"n": 1}', "--id", "r1", "--wait")
    needs("read", "show", "r1")
    needs("read", "events", "r1")
    needs("operate", "cancel", "r1", "--reason", "no", ok=9)
    needs("submit", "signal", "r1", "go", ok=2)
    assert len(ledger.effects) == 1
    done = as_user(daemon, 5001, "list", groups=(5002,))
    assert done.returncode == 0


@case
def refusal_is_a_problem(env):
    """403 is problem+json with a stable code and says nothing of what is there."""
    env.ledger("svc")
    daemon = opened(env, "roles: {}\n")
    for method, path in (("GET", "/v1/runs"), ("GET", "/v1/runs/r1"), ("POST", "/v1/runs"),
                         ("GET", "/v1/nothing"), ("POST", "/v1/runs/r1/cancel"),
                         ("PUT", "/v1/workflows"), ("DELETE", "/v1/runs/r1"), ("GET", "/metrics"),
                         ("POST", "/v1/runs:cancel"), ("POST", "/v1/tasks/complete")):
        status, kind, problem = as_nobody_http(daemon, method, path, "{}")
        assert status == 403 and kind == "application/problem+json", (method, path, status, kind)
        assert problem["code"] == "permission" and problem["status"] == 403, problem
        assert "uid:65534 has no role" in problem["detail"], problem
    assert as_nobody_http(daemon, "GET", "/healthz")[0] == 200
    assert daemon.http("GET", "/v1/runs").status == 200  # root, and the daemon's own user


@case
def egress_is_refused_and_told(env):
    """A step whose service is out of reach by the config fails for good; nothing is sent."""
    ledger = env.ledger("svc")
    env.config_more = "egress: {deny: [127.0.0.0/8]}\n"
    env.config_write()
    daemon = env.daemon("a").start()
    daemon.apply(ONE)
    done = daemon.ctl("run", "one", "--input", '{"n": 1}', "--id", "r1", "--wait")
    assert done.code == 5, done
    told = json.loads(daemon.ctl("show", "r1", "-o", "json").out)["error"]["message"]
    assert "the address 127.0.0.1" in told and "egress.deny" in told, told
    assert not ledger.requests


main()
