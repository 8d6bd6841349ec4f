#!/usr/bin/env python3
"""How a daemon ends, and what does not end it: signals, drains, readers that go away."""

import os
import signal
import socket
import subprocess
import threading
import time

from lib import BUILD, Answer, case, main, spawn, wait_until

PATIENCE = float(os.environ.get("PATIENCE", "1"))

TWO = """
workflow: two
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
defaults: {retry: {attempts: 3, delay: 50ms, factor: 1, max_delay: 50ms, jitter: 0%}}
steps:
  - {id: a, action: {post: svc/a}, compensate: {post: svc/undo_a}}
  - {id: b, action: {post: svc/b}, compensate: {post: svc/undo_b}}
"""


def busy(env, *args, runs=30, seconds=1.5):
    """A daemon with that many slow first steps in flight."""
    ledger = env.ledger("svc")
    env.descriptors_max = 300
    daemon = env.daemon("a").start("--lease", "8s", *args)
    daemon.apply(TWO)
    ledger.always("/a", Answer(200, delay=seconds))
    for n in range(runs):
        daemon.start_run("two", {}, "run-%d" % n)
    wait_until("all are in flight", lambda: len(ledger.seen(path="/a")) == runs)
    return ledger, daemon


def goes_on(env, ledger, daemon, runs=30):
    """Another daemon takes the runs at once and ends them."""
    ledger.always("/a", Answer(200))
    begun = time.monotonic()
    other = env.daemon("b").start("--lease", "8s")
    env.wait_all(runs)
    assert time.monotonic() - begun < 5 * PATIENCE, "it waited for the lease"
    assert set(env.states().values()) == {"completed"}
    return other


@case
def a_daemon_4_long(env):
    """SIGTERM with time enough: nothing new is claimed, what is in flight is awaited, the drain ends
    as soon as it is idle, exit code 0, and nothing is sent twice."""
    ledger, daemon = busy(env, "--drain", "20s")
    daemon.send(signal.SIGTERM)
    begun = time.monotonic()
    wait_until("the socket is gone", lambda: not os.path.lexists(daemon.socket), 5)
    assert daemon.wait() == 0, daemon.log()
    assert 0.3 < time.monotonic() - begun < 5 * PATIENCE
    assert not ledger.seen(path="/b"), "a new step was begun in the drain"
    assert env.sql("select count(*) from saga.effect where state = 'claimed'") == "0"
    assert env.sql("select bool_and(clean) from saga.lane") == "t"
    goes_on(env, ledger, daemon)
    assert len(ledger.seen(path="/a")) == 30 and len(ledger.seen(path="/b")) == 30
    assert env.sql("select sum(pickups) from saga.effect") == "0"


@case
def a_daemon_4_short(env):
    """SIGTERM with too little time: at its end the requests are cut off and counted as unknown, the
    leases released, and another daemon asks again under the same keys at once."""
    ledger, daemon = busy(env, "--drain", "300ms", seconds=20)
    daemon.send(signal.SIGTERM)
    begun = time.monotonic()
    code = daemon.wait()
    assert time.monotonic() - begun < 3 * PATIENCE
    assert code == 0 and "cut off" in daemon.log(), (code, daemon.log())
    outcomes = env.rows("select outcome, count(*) as n from saga.attempts group by outcome")
    assert outcomes == [{"outcome": "unknown", "n": 30}], outcomes
    goes_on(env, ledger, daemon)
    assert len(ledger.seen(path="/a")) == 60 and len(ledger.done(path="/a")) == 30


@case
def a_daemon_4_second_signal(env):
    """A second signal ends it at once, with another exit code; nothing is lost."""
    ledger, daemon = busy(env, "--drain", "60s", seconds=20)
    daemon.send(signal.SIGINT)
    wait_until("it drains", lambda: "draining" in daemon.log())
    assert daemon.alive()
    daemon.send(signal.SIGTERM)
    begun = time.monotonic()
    assert daemon.wait() == 1
    assert time.monotonic() - begun < 1 * PATIENCE
    ledger.always("/a", Answer(200))
    daemon.start("--lease", "8s")
    env.wait_all(30)
    assert set(env.states().values()) == {"completed"}
    assert len(ledger.done(path="/a")) == 30


@case
def a_daemon_4_hangup(env):
    """SIGHUP does not end a daemon in production."""
    ledger, daemon = busy(env, runs=3, seconds=0.5)
    daemon.send(signal.SIGHUP)
    env.wait_all(3)
    assert daemon.alive() and set(env.states().values()) == {"completed"}


@case
def submits_in_a_drain(env):
    """A client that is connected already when the drain begins is told to go elsewhere, and those
    that wait for a run are answered before the end, which comes while they all look at it."""
    ledger, daemon = busy(env, "--drain", "20s", runs=1, seconds=1.0)
    waiting = [socket.socket(socket.AF_UNIX) for _ in range(60)]
    connected = socket.socket(socket.AF_UNIX)
    for client in waiting + [connected]:
        client.connect(daemon.socket)
        client.settimeout(20)
    for client in waiting:
        client.sendall(b"GET /v1/runs/run-0 HTTP/1.1\r\nHost: x\r\nPrefer: wait=30\r\n\r\n")
    connected.sendall(b"GET /v1/ping HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b" 200 " in connected.recv(65536)
    daemon.send(signal.SIGTERM)
    wait_until("it drains", lambda: "draining" in daemon.log())
    body = b'{"workflow":"two","input":{},"run_id":"late"}'
    connected.sendall(b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" %
                      (len(body), body))
    answer = connected.recv(65536)
    assert b" 503 " in answer.split(b"\r\n")[0] or b" 202 " in answer.split(b"\r\n")[0], answer
    connected.close()
    assert daemon.wait() == 0
    for client in waiting:
        status = client.recv(65536).split(b"\r\n")[0]
        assert b" 200 " in status or b" 503 " in status, status
        client.close()
    # Whatever it was told, repeating it elsewhere is right.
    ledger.always("/a", Answer(200))
    other = env.daemon("b").start("--lease", "8s")
    reply = other.submit("two", {}, "late", wait=10)
    assert reply.status == 200 and reply.json()["state"] == "completed", reply
    assert env.wait_state("run-0") == "completed"
    assert len(ledger.done(path="/a")) == 2


@case
def drain_without_a_database(env):
    """SIGTERM while the database is away: the daemon ends when its time is over, and what it could
    not write is found out by the next one."""
    ledger, daemon = busy(env, "--drain", "1s", runs=5, seconds=0.3)
    env.sql("alter database %s connection limit 0" % env.database)
    env.sql("select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and application_name like 'sagad %'")
    time.sleep(0.5)
    daemon.send(signal.SIGTERM)
    begun = time.monotonic()
    code = daemon.wait(20)
    assert time.monotonic() - begun < 5 * PATIENCE and code == 0, (code, daemon.log())
    env.sql("alter database %s connection limit -1" % env.database)
    daemon.start("--lease", "8s")
    env.wait_all(5)
    assert set(env.states().values()) == {"completed"}
    assert len(ledger.done(path="/a")) == 5


@case
def a_daemon_5_clients(env):
    """Clients that leave early, in the middle of anything, cost nothing but their connection."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(TWO)
    ledger.script("/a", Answer(200, delay=4))
    run = daemon.start_run("two", {}, "long")
    before = len(os.listdir("/proc/%d/fd" % daemon.pid))
    requests = (b"GET /v1/runs HTTP/1.1\r\nHost: x\r\n\r\n",
                b"GET /v1/runs/long HTTP/1.1\r\nHost: x\r\nPrefer: wait=60\r\n\r\n",
                b"GET /v1/runs/long/events HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n",
                b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{", b"GET /v1")
    for n in range(300):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(daemon.socket)
            client.sendall(requests[n % len(requests)])
            if n % 3 == 0:
                client.settimeout(5)
                if n % len(requests) in (0, 2):
                    client.recv(10)
    for _ in range(5):
        argv = "%s/sagactl --socket %s events long --follow | head -1" % (BUILD, daemon.socket)
        done = subprocess.run(["sh", "-c", argv], capture_output=True, timeout=30)
        assert done.stdout.count(b"\n") == 1, done
    assert daemon.alive()
    wait_until("their descriptors are free", lambda: len(
        os.listdir("/proc/%d/fd" % daemon.pid)) <= before + 2)
    assert env.wait_state(run) == "completed"


@case
def a_daemon_5_log(env):
    """The reader of the log goes away: the daemon goes on."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a")
    reader = spawn(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    daemon.process = spawn(daemon.argv("--log-level", "debug"), stdout=reader.stdin,
                           stderr=reader.stdin, stdin=subprocess.DEVNULL)
    daemon.pids.add(daemon.process.pid)
    reader.stdin.close()
    wait_until("it is ready", lambda: os.path.exists(daemon.socket))
    reader.kill()
    reader.wait()
    daemon.apply(TWO)
    for n in range(3):
        env.sql("select pg_terminate_backend(pid) from pg_stat_activity "
                "where datname = current_database() and application_name like 'sagad %'")
        wait_until("it is back", lambda: attempt(lambda: daemon.submit(
            "two", {}, "unheard-%d" % n).status in (200, 202)))
    env.wait_all(3)
    assert daemon.alive() and len(ledger.effects) == 6


def attempt(function):
    try:
        return function()
    except OSError:
        return False


@case
def a_daemon_5_programs(env):
    """A program that ends, or closes its input, while it is being written to is judged by its exit
    code; SIGPIPE is as usual in it."""
    env.ledger("svc")
    folder = env.folder + "/programs"
    os.mkdir(folder)
    for name, text in (("deaf", "#!/bin/sh\nexec <&-\nsleep 0.2\necho '\"deaf\"'\n"),
                       ("brief", "#!/bin/sh\nexit 0\n"),
                       ("pipes", "#!/bin/sh\nyes | head -1\ntrap | grep -c PIPE >&2\nexit 0\n")):
        with open("%s/%s" % (folder, name), "w") as file:
            file.write(text)
        os.chmod("%s/%s" % (folder, name), 0o755)
    env.config_more = 'exec: {directory: "%s"}\n' % folder
    env.config_write()
    daemon = env.daemon("a").start()
    for name in ("deaf", "brief", "pipes"):
        daemon.apply("""
workflow: %s
steps:
  - {id: run, timeout: 10s, action: {exec: [%s], stdin: "${{ input.text }}"}, compensate: {none: "a test"}}
""" % (name, name))
        run = daemon.submit(name, {"text": "x" * 600000}, name, wait=20).json()
        assert run["state"] == "completed", run
    assert daemon.show("pipes")["steps"][0]["output"] == "y\n"
    assert daemon.alive()


if __name__ == "__main__":
    main(parallel=5)
