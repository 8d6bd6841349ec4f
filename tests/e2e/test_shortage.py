#!/usr/bin/env python3
"""What the machine cannot give for a while: descriptors for clients, for connections, for programs.
It is never taken for a refusal of the participant."""

import os
import resource
import socket
import stat
import time

from lib import Answer, case, main, wait_until

WORKFLOW = """
workflow: busy
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
defaults:
  retry: {attempts: 2, delay: 50ms, factor: 1, jitter: 0%}
steps:
  - {id: a, action: {post: svc/a}, compensate: {post: svc/undo_a}}
  - {id: b, action: {exec: [tool]}, compensate: {none: it only looks}}
"""


def files(limit):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


def cpu_seconds(pid):
    with open("/proc/%d/stat" % pid) as text:
        fields = text.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def with_tool(env):
    """A program that the daemon may run."""
    folder = env.folder + "/tools"
    os.mkdir(folder)
    os.chmod(folder, 0o755)
    with open(folder + "/tool", "w") as tool:
        tool.write("#!/bin/sh\necho '{}'\n")
    os.chmod(folder + "/tool", stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
    env.config_more += "exec: {directory: \"%s\"}\n" % folder
    env.config_write()


@case
def a_daemon_2(env):
    """Out of descriptors for clients: no busy loop, no flood in the log; runs go on; afterwards all
    is as before."""
    ledger = env.ledger("svc")
    with_tool(env)
    daemon = env.daemon("a").start(preexec_fn=files(64))
    daemon.apply(WORKFLOW)
    ledger.script("/a", Answer(200, delay=1.0))
    daemon.start_run("busy", {}, "r-1")
    clients = []
    for _ in range(100):
        client = socket.socket(socket.AF_UNIX)
        client.setblocking(False)
        try:
            client.connect(daemon.socket)
        except OSError:
            pass
        clients.append(client)
    lines, used, begun = daemon.log().count("\n"), cpu_seconds(daemon.pid), time.monotonic()
    assert env.wait_state("r-1") == "completed"
    time.sleep(3)
    span = time.monotonic() - begun
    share = (cpu_seconds(daemon.pid) - used) / span
    assert share < 0.5, "it uses %.0f %% of a processor" % (100 * share)
    assert daemon.log().count("\n") - lines <= 2 * span + 5, daemon.log()
    for client in clients:
        client.close()
    wait_until("it answers again", lambda: daemon.http("GET", "/readyz").status == 200, 10)
    daemon.start_run("busy", {}, "r-2")
    assert env.wait_state("r-2") == "completed"


@case
def a_daemon_3(env):
    """Fewer descriptors than the work wants: it takes longer, no attempt is counted as refused, and
    nothing is undone."""
    ledger = env.ledger("svc")
    with_tool(env)
    daemon = env.daemon("a").start(preexec_fn=files(44))
    daemon.apply(WORKFLOW)
    ledger.always("/a", Answer(200, delay=0.2))
    for n in range(60):
        daemon.start_run("busy", {}, "r-%d" % n)
    env.wait_all(60, 90)
    assert set(env.states().values()) == {"completed"}, env.states()
    assert not ledger.seen(path="/undo_a")
    assert len(ledger.done(path="/a")) == 60


@case
def descriptors_taken_away(env):
    """The limit sinks below what is open while runs are in flight, and is lifted again."""
    ledger = env.ledger("svc")
    with_tool(env)
    daemon = env.daemon("a").start()
    daemon.apply(WORKFLOW)
    limits = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (20, limits[1]))
    env.sql("select saga.start('busy', '{}', 'r-' || n) from generate_series(1, 10) n")
    time.sleep(3)
    assert not [s for s in env.states().values() if s != "running"], env.states()
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, limits)
    env.wait_all(10)
    assert set(env.states().values()) == {"completed"}, env.states()
    assert not ledger.seen(path="/undo_a")


if __name__ == "__main__":
    main(parallel=2)
