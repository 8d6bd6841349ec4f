#!/usr/bin/env python3
"""What /metrics tells is well-formed, true, and to be had without the control socket."""

import http.client
import re
import shutil
import socket
import subprocess

from lib import Answer, case, main, wait_until

FLOW = """
workflow: %s
services: {svc: {url: "http://127.0.0.1:1", timeout: 500ms, idempotency: %s}}
steps:
  - id: pay
    action: {post: svc/pay}
    compensate: {post: svc/undo}
    retry: {attempts: 3, delay: 50ms, jitter: 0%%}
%s
"""
KEYED = "{header: Idempotency-Key, ttl: 1h}"
RECONCILE = """    reconcile: {get: svc/ask, applied: response.status == 200, not_applied: response.status == 404,
                every: 100ms, for: 5s}"""
APPROVED = "  - {id: gate, approve: {}, action: {post: svc/gate}, compensate: {post: svc/undo}}"
SAMPLE = re.compile(r'^([a-z_:][a-z0-9_:]*)(?:\{([a-z_]+="[^"\\\n]*"(?:,[a-z_]+="[^"\\\n]*")*)\})? (\d+)$')


def parsed(text):
    """{series: value}; fails at what a scraper would refuse, and at a counter without its ending."""
    series, types, helps, family = {}, {}, set(), None
    assert text.endswith("\n"), text[-50:]
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split(" ", 3)[2]
            assert family not in helps and len(line.split(" ", 3)) == 4, line
            helps.add(family)
        elif line.startswith("# TYPE "):
            name, kind = line.split(" ")[2:]
            assert name == family and name not in types and kind in ("counter", "gauge"), line
            assert (kind == "counter") == name.endswith("_total"), line
            types[name] = kind
        else:
            match = SAMPLE.match(line)
            assert match and match.group(1) == family and family in types, line
            name = line.rsplit(" ", 1)[0]
            assert name not in series, "twice: " + name
            series[name] = int(match.group(3))
    if shutil.which("promtool"):
        done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return series


def scrape(daemon):
    reply = daemon.http("GET", "/metrics")
    assert reply.status == 200 and reply.headers["Content-Type"] == "text/plain; version=0.0.4", reply
    return parsed(reply.body)


def of(series, name, **labels):
    inner = ",".join('%s="%s"' % pair for pair in labels.items())
    return series[name + ("{%s}" % inner if inner else "")]


@case
def counted(env):
    """Retries, replays, conflicts, unknown outcomes, questions, repeats without a key, dead letters."""
    ledger = env.ledger("svc")
    ledger.keyless = True
    daemon = env.daemon("a").start("--lease", "2s")
    before = scrape(daemon)
    for name in ("saga_unknown_outcomes", "saga_approvals_pending", "saga_submits_conflicting_total"):
        assert before[name] == 0, name

    daemon.apply(FLOW % ("busy", KEYED, ""))
    ledger.script("/pay", Answer(503), Answer(200, {}, {"Idempotency-Replayed": "true"}))
    assert daemon.submit("busy", {"n": 1}, run_id="b1", wait=20).json()["state"] == "completed"
    assert daemon.submit("busy", {"n": 1}, run_id="b1").status == 200
    assert daemon.submit("busy", {"n": 2}, run_id="b1").status == 409

    daemon.apply(FLOW % ("asks", "none", RECONCILE))
    ledger.script("/pay", Answer(act="close"))
    ledger.always("/ask", Answer(200))
    assert daemon.submit("asks", run_id="q1", wait=20).json()["state"] == "completed"

    daemon.apply(FLOW % ("lost", "none", ""))
    ledger.script("/pay", Answer(act="close"))
    assert daemon.submit("lost", run_id="l1", wait=20).json()["state"] == "parked"

    daemon.apply(FLOW % ("again", "none", "    on_unknown: retry"))
    ledger.script("/pay", Answer(act="close"))
    assert daemon.submit("again", run_id="r1", wait=20).json()["state"] == "completed"

    daemon.apply(FLOW % ("gated", KEYED, APPROVED))
    daemon.start_run("gated", run_id="g1")
    wait_until("it waits for a person", lambda: env.rows("select * from saga.pending_approvals"))

    series = scrape(daemon)
    assert of(series, "saga_service_retries_total", service="svc") == 2, series
    assert of(series, "saga_service_replays_total", service="svc") == 1, series
    assert of(series, "saga_service_unguarded_repeats_total", service="svc") == 1, series
    assert of(series, "saga_submits_repeated_total") == 2, series
    assert of(series, "saga_submits_conflicting_total") == 1, series
    assert of(series, "saga_outcomes_total", outcome="unknown") == 3, series
    assert of(series, "saga_outcomes_total", outcome="retryable") == 1, series
    assert of(series, "saga_findings_total", source="reconcile", says="applied") == 1, series
    assert of(series, "saga_runs_parked_total", reason="outcome_unknown") == 1, series
    assert of(series, "saga_dead_letters", reason="outcome_unknown") == 1, series
    assert of(series, "saga_unknown_outcomes") == 1 and of(series, "saga_approvals_pending") == 1, series
    assert of(series, "saga_shards_acquired_total") == 1, series
    stats = {row["workflow"]: row for row in env.rows("select * from saga.stats")}
    assert stats["lost"]["unknown"] == 1 and stats["lost"]["retries"] == 0, stats["lost"]
    assert stats["busy"]["retries"] == 1 and stats["busy"]["unknown"] == 0, stats["busy"]
    assert stats["gated"]["approvals"] == 1 and stats["asks"]["questions"] == 1, stats

    daemon.kill()
    daemon.start("--lease", "2s")
    series = scrape(daemon)
    assert of(series, "saga_runs_loaded_total") == 2, series  # the parked one, and the one that waits
    assert of(series, "saga_dead_letters", reason="outcome_unknown") == 1, series


def get(port, path, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@case
def own_listener(env):
    """--metrics answers scrapers on loopback, with nothing that changes or shows a run."""
    port = free_port()
    daemon = env.daemon("a").start("--lease", "2s", "--metrics", str(port))
    status, text = get(port, "/metrics")
    assert status == 200 and parsed(text)["saga_database_up"] == 1, text
    assert get(port, "/healthz")[0] == 200 and get(port, "/readyz")[0] == 200
    for method, path in (("GET", "/v1/runs"), ("POST", "/v1/runs"), ("POST", "/metrics"), ("GET", "/"),
                         ("PUT", "/v1/workflows"), ("GET", "/v1/approvals"), ("GET", "/metrics/x")):
        status, text = get(port, path, method)
        assert status == 404 and "only GET /metrics" in text, (method, path, status, text)
    assert daemon.stop() == 0
    for address, code in (("nonsense", 2), ("127.0.0.1", 2), ("256.1.1.1:1", 2), ("1.2.3.4:9464", 1)):
        daemon.start("--metrics", address, wait=False)
        assert daemon.wait() == code, (address, daemon.log(since_start=True))
        assert address in daemon.log(since_start=True)


if __name__ == "__main__":
    main()
