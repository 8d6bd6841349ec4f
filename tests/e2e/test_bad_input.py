#!/usr/bin/env python3
"""Whatever is wrong with what it is given, the engine says what, changes nothing, and goes on."""

import json
import os
import signal
import socket
import stat
import subprocess
import threading
import time

from lib import SAGACTL, SAGAD, Answer, case, main, spawn, wait_until

ONE = """
workflow: one
input:
  type: object
  required: [n]
  additionalProperties: true
  properties: {n: {type: integer, minimum: 1}, note: {type: string}}
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
steps:
  - id: act
    action: {post: svc/act, body: {n: "${{ input.n }}"}}
    compensate: {post: svc/undo}
"""

NAMED = """
workflow: named
run_id: named-${{ input.n }}
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
steps:
  - id: act
    action: {post: svc/act, body: {n: "${{ input.n }}"}}
    compensate: {post: svc/undo}
"""


def sagad(*args, timeout=30, env=None):
    return subprocess.run([SAGAD, *args], capture_output=True, text=True, timeout=timeout,
                          stdin=subprocess.DEVNULL, env=env)


def with_one(env):
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(ONE)
    daemon.apply(NAMED)
    return ledger, daemon


# --- starting ----------------------------------------------------------------------------------------


@case
def database_unreachable(env):
    """No server: exit code 8 and why; for migrate too."""
    uri = "host=/nonexistent dbname=x user=saga_engine"
    for args in (["--database", uri, "--socket", env.folder + "/x.sock"],
                 ["migrate", "--database", uri], ["migrate", "--check", "--database", uri],
                 ["--database", env.cluster.uri("nosuchdatabase"), "--socket", env.folder + "/x"]):
        done = sagad(*args)
        assert done.returncode == 8, (args, done)
        assert done.stderr.startswith("sagad: ") and done.stderr.count("\n") == 1, done.stderr
        assert "nonexistent" in done.stderr or "nosuchdatabase" in done.stderr, done.stderr
    done = sagad("--socket", env.folder + "/x.sock", env={**os.environ, "PGHOST": "/nonexistent"})
    assert done.returncode == 8 and "nonexistent" in done.stderr, done
    assert "--database URI" in done.stderr and "--dev DIR" in done.stderr, done.stderr
    assert not os.path.exists(env.folder + "/x.sock")


@case
def schema_of_another_version(env):
    """A database without the schema, or with one that needs a newer daemon: exit code 1, and what
    to do."""
    env.cluster.sql("postgres", "create database empty_%s template template0" % env.database)
    uri = env.cluster.uri("empty_" + env.database, "postgres")
    done = sagad("--database", uri, "--socket", env.folder + "/x.sock")
    assert done.returncode == 1 and "run sagad migrate" in done.stderr, done
    check = sagad("migrate", "--check", "--database", uri)
    assert check.returncode == 1 and "run sagad migrate" in check.stdout, check
    env.cluster.sql("postgres", "drop database empty_%s" % env.database)
    env.sql("update saga.meta set schema_version = 99, min_version = 99")
    done = sagad("--database", env.uri, "--socket", env.folder + "/x.sock")
    assert done.returncode == 1 and "99" in done.stderr, done
    done = sagad("migrate", "--database", env.cluster.uri(env.database, "postgres"))
    assert done.returncode == 1 and "install a newer sagad" in done.stderr, done
    env.sql("update saga.meta set schema_version = 1, min_version = 1")


@case
def a_text_3(env):
    """A database that is not UTF-8 is refused before anything is written, with the way out."""
    for encoding in ("LATIN1", "SQL_ASCII"):
        name = "%s_%s" % (encoding.lower(), env.database)
        env.cluster.sql("postgres", "create database %s template template0 encoding '%s' "
                        "locale 'C'" % (name, encoding))
        done = sagad("migrate", "--database", env.cluster.uri(name, "postgres"))
        assert done.returncode == 1, done
        assert encoding in done.stderr and "createdb -T template0 -E UTF8" in done.stderr, done
        assert env.cluster.sql(name, "select count(*) from pg_namespace where nspname = 'saga'") \
            == "0"
        done = sagad("--database", env.cluster.uri(name, "postgres"), "--socket",
                     env.folder + "/x.sock")
        assert done.returncode == 1 and encoding in done.stderr, done
        env.cluster.sql("postgres", "drop database " + name)
    # What a role sets for its sessions does not matter.
    env.ledger("svc")
    uri = env.uri + " client_encoding=LATIN1"
    daemon = env.daemon("a", uri).start()
    daemon.apply(ONE)
    reply = daemon.submit("one", {"n": 1, "note": "Zoë 😀"}, wait=10)
    assert reply.json()["state"] == "completed" and reply.json()["input"]["note"] == "Zoë 😀", reply


@case
def usage_and_config(env):
    """What is wrong with the command line or the config is exit code 2, and says where."""
    for args, word in ((["--nothing"], "nothing"), (["--lease", "5ms"], "5ms"),
                       (["--drain", "soon"], "soon"), (["--sessions", "1"], "2, 3, 4"), (["--log-level", "loud"], "loud"),
                       (["--log-format", "xml"], "xml"), (["extra"], "extra"),
                       (["--ephemeral"], "--ephemeral"), (["--print"], "--print"),
                       (["--dev", env.folder, "--database", "x"], "--dev"),
                       (["-c", env.folder + "/absent.yaml"], "absent.yaml"),
                       (["--database"], "database")):
        done = sagad(*args)
        assert done.returncode == 2 and word in done.stderr and not done.stdout, (args, done)
    for text, words in (("servces: {}", [":1:1: error[E", "services"]),
                        ("services: [a]", [":1:11: error[E"]),
                        ("services: {a: {link: x}}", [":1:"]),
                        ("sessions: 9", [":1:11: error[E901]", "2, 3 or 4"]),
                        ("tenants: [a]", [":1:10: error[E902]", "{runs: 10}"]),
                        ("tenants: {a: 5}", [":1:14: error[E902]", "{runs: NUMBER}"]),
                        ("tenants: {a: {runs: 0}}", [":1:21: error[E901]", "from 1"]),
                        ("tenants: {a: {runs: 1e9}}", [":1:21: error[E901]", "from 1"]),
                        ("tenants: {a: {runs: 99999999999999999999}}", [":1:21:", "from 1"]),
                        ("alerts: [a]", [":1:9: error[E901]", "map of targets"]),
                        ("alerts: {a: {on: [parked]}}", [":1:13: error[E902]", "url: URL"]),
                        ("alerts: {a: {url: 'ftp://x'}}", [":1:19: error[E901]", "https://"]),
                        ("alerts: {a: {url: 'http://me:pw@x/y'}}", [":1:19: error[E901]"]),
                        ("alerts: {a: {url: 'http://x/a b'}}", [":1:19: error[E901]"]),
                        ("alerts: {a: {url: 'http://x', on: [late]}}", [":1:36:", "breaker"]),
                        ("alerts: {a: {url: 'http://x', every: 1ms}}", [":1:38:", "at least 1s"]),
                        ("alerts: {a: {url: 'http://x', evry: 1s}}", [":1:31: error[E903]", "`every`"]),
                        ("alerts: {a: {exec: [page]}}", [":1:13:", "exec: {directory: PATH}"]),
                        ("alerts: {a: {exec: page}}", ["program and its arguments"]),
                        ("alerts: {a: {url: 'secret:hook'}}", [":1:13:", "no secret `hook`"]),
                        ("alerts: {a: {url: 'http://x', bearer: tok}}", [":1:13:", "secret `tok`"]),
                        ("drain: 5", [":1:8: error[E", "30s"]),
                        ("lease: 1h", [":1:8: error[E"]),
                        ("secrets: {a: 5}", [":1:"]),
                        ("log_format: loud", [":1:13: error[E", "human"]),
                        ("services: {a: {url: x}}\nservices: {}", ["E003", "2:1", "1:1"]),
                        ("a: [", [": error[E0"]),
                        ("- a", [":1:1: error[E"])):
        path = env.folder + "/bad.yaml"
        with open(path, "w") as file:
            file.write(text + "\n")
        done = sagad("-c", path, "--database", env.uri, "--socket", env.folder + "/x.sock")
        assert done.returncode == 2, (text, done)
        assert all(word in done.stderr for word in ["bad.yaml", *words]), (text, done.stderr)
    for source, word in (("file:%s/absent" % env.folder, "absent"), ("env:NOT_SET", "NOT_SET"),
                         ("literal", "secret")):
        with open(path, "w") as file:
            file.write('secrets: {token: "%s"}\n' % source)
        done = sagad("-c", path, "--database", env.uri, "--socket", env.folder + "/x.sock")
        assert done.returncode == 2 and "token" in done.stderr and word in done.stderr, done
    assert sagad("--help").returncode == 0 and sagad("--version").stdout.startswith("sagad ")
    done = sagad("--database", env.uri, env=dict(os.environ, SAGA_FAILPOINT="nowhere:kill"))
    assert done.returncode == 2 and "nowhere" in done.stderr, done


# --- the control socket --------------------------------------------------------------------------------


@case
def a_daemon_1_what_stands_there(env):
    """Only a socket that nobody listens on is replaced; a file, a folder, a link, or another
    process's socket is refused and left as it was."""
    daemon = env.daemon("a")
    path = daemon.socket

    def refused(words):
        daemon.start(wait=False)
        assert daemon.wait(20) == 1, daemon.log()
        assert words in daemon.log(since_start=True), daemon.log()

    with open(path, "w") as file:
        file.write("precious")
    refused("is not a socket")
    with open(path) as file:
        assert file.read() == "precious"
    os.unlink(path)
    os.mkdir(path)
    refused("is not a socket")
    assert os.path.isdir(path)
    os.rmdir(path)
    os.symlink(env.folder + "/elsewhere", path)
    refused("is not a socket")
    assert os.readlink(path) == env.folder + "/elsewhere"
    assert not os.path.lexists(env.folder + "/elsewhere")
    os.unlink(path)
    with socket.socket(socket.AF_UNIX) as alive:
        alive.bind(path)
        alive.listen()
        refused("another process listens")
        alive.settimeout(5)
        alive.accept()[0].close()  # its look, nothing more
    # That one is dead now: its file is stale.
    assert stat.S_ISSOCK(os.lstat(path).st_mode)
    daemon.start()
    assert daemon.http("GET", "/v1/ping").status == 200
    long = env.daemon("b")
    long.socket = env.folder + "/" + "x" * 120
    long.start(wait=False)
    assert long.wait(20) == 1 and "longer than" in long.log(), long.log()


@case
def a_daemon_1_restarts(env):
    """kill -9 and start, 15 times: no file of the dead one is in the way, and each start is fast."""
    ledger, daemon = with_one(env)
    slowest = 0
    for n in range(1, 16):
        daemon.kill()
        assert stat.S_ISSOCK(os.lstat(daemon.socket).st_mode)
        begun = time.monotonic()
        daemon.start()
        slowest = max(slowest, time.monotonic() - begun)
        assert daemon.submit("one", {"n": n}, wait=5).json()["state"] == "completed"
    assert slowest < 3 * float(os.environ.get("PATIENCE", "1")), slowest


@case
def a_daemon_1_mode(env):
    """With umask 000 the socket has mode 0660 from the first instant, and the lock file 0600."""
    env.ledger("svc")
    daemon = env.daemon("a")
    modes, stop = set(), threading.Event()

    def watch():
        while not stop.is_set():
            try:
                modes.add(stat.S_IMODE(os.lstat(daemon.socket).st_mode))
            except FileNotFoundError:
                pass

    watcher = threading.Thread(target=watch)
    watcher.start()
    daemon.start(umask=0)
    wait_until("it was seen", lambda: modes, 5)
    stop.set()
    watcher.join()
    assert modes == {0o660}, [oct(mode) for mode in modes]
    assert stat.S_IMODE(os.lstat(daemon.socket + ".lock").st_mode) == 0o600
    if os.geteuid() == 0:  # a stranger gets no further than connect()
        done = subprocess.run(["setpriv", "--reuid=nobody", "--clear-groups", SAGACTL, "--socket",
                               daemon.socket, "ping"], capture_output=True, text=True)
        assert done.returncode in (4, 8) and "ermission" in done.stderr, done


def rss_kib(pid):
    with open("/proc/%d/status" % pid) as file:
        return int(next(line for line in file if line.startswith("VmRSS")).split()[1])


def raw_request(daemon, data, patience=10):
    """What the daemon answers to these bytes, until it closes."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(patience)
        connection.connect(daemon.socket)
        try:
            for chunk in data if not isinstance(data, bytes) else [data]:
                connection.sendall(chunk)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        answer = b""
        try:
            while True:
                part = connection.recv(65536)
                if not part:
                    break
                answer += part
        except OSError:
            pass
        return answer


@case
def a_daemon_1_floods(env):
    """100 MB without a line feed, an endless head, an endless body: cut off within the limits."""
    ledger, daemon = with_one(env)
    before = rss_kib(daemon.pid)
    mega = b"a" * 1000000
    for head in (b"", b"GET /v1/ping HTTP/1.1\r\nX: ", b"POST /v1/runs HTTP/1.1\r\nHost: x\r\n"
                 b"Content-Length: 100000000\r\n\r\n",
                 b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                 b"5f5e100\r\n"):
        answer = raw_request(daemon, [head, *[mega] * 100])
        assert b" 200 " not in answer.split(b"\r\n")[0], answer[:200]
        assert daemon.http("GET", "/v1/ping").status == 200
    assert rss_kib(daemon.pid) - before < 16 * 1024, (before, rss_kib(daemon.pid))


@case
def a_daemon_1_idle(env):
    """300 connections that say nothing, and 50 that stop in mid-request, hold nobody up."""
    ledger, daemon = with_one(env)
    idle = []
    try:
        for n in range(350):
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(daemon.socket)
            if n >= 300:
                connection.sendall(b"POST /v1/runs HTTP/1.1\r\nContent-Length: 50\r\n\r\n{")
            idle.append(connection)
        begun = time.monotonic()
        for n in range(1, 11):
            assert daemon.submit("one", {"n": n}, wait=5).json()["state"] == "completed"
        assert time.monotonic() - begun < 5 * float(os.environ.get("PATIENCE", "1"))
    finally:
        for connection in idle:
            connection.close()
    wait_until("their descriptors are free",
               lambda: len(os.listdir("/proc/%d/fd" % daemon.pid)) < 60)


@case
def no_descriptors_left(env):
    """With no descriptor left for clients the daemon neither spins nor floods its log; runs go on,
    and so does everything afterwards (a_daemon_2)."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a")
    daemon.start(preexec_fn=limit_descriptors)
    daemon.apply(ONE)
    ledger.script("/act", Answer(200, delay=1.5))
    run = daemon.start_run("one", {"n": 1})
    crowd = []
    try:
        for _ in range(100):
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(1)
            try:
                connection.connect(daemon.socket)
            except OSError:
                break
            crowd.append(connection)
        cpu, lines, begun = cpu_s(daemon.pid), daemon.log().count("\n"), time.monotonic()
        assert env.wait_state(run) == "completed"
        time.sleep(2)
        seconds = time.monotonic() - begun
        assert cpu_s(daemon.pid) - cpu < 0.25 * seconds, "it spins"
        assert daemon.log().count("\n") - lines < 3 * seconds, daemon.log()
    finally:
        for connection in crowd:
            connection.close()
    reply = wait_until("it answers again", lambda: attempt(
        lambda: daemon.submit("one", {"n": 2}, wait=5)))
    assert reply.json()["state"] == "completed"


def limit_descriptors():
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


def attempt(function):
    try:
        return function()
    except OSError:
        return None


def cpu_s(pid):
    with open("/proc/%d/stat" % pid) as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@case
def not_http(env):
    """Bytes that are no request, or an ambiguous one, are refused; the daemon stays."""
    ledger, daemon = with_one(env)
    body = json.dumps({"workflow": "one", "input": {"n": 1}}).encode()
    for data in (b"\x00\x01\x02\r\n\r\n", b"GARBAGE\r\n\r\n", b"GET\r\n\r\n", b"\r\n" * 50,
                 b"POST /v1/runs HTTP/1.1\r\nContent-Length: -5\r\n\r\n" + body,
                 b"POST /v1/runs HTTP/1.1\r\nContent-Length: x\r\n\r\n" + body,
                 b"POST /v1/runs HTTP/1.1\r\nContent-Length: %d\r\nContent-Length: 5\r\n\r\n%s" %
                 (len(body), body),
                 b"PUT /v1/workflows HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"):
        answer = raw_request(daemon, data)
        assert not answer or b" 20" not in answer.split(b"\r\n")[0], (data, answer[:300])
    assert env.states() == {}
    for method, path, status in (("GET", "/nothing", 404), ("GET", "/v1", 404),
                                 ("DELETE", "/v1/runs", 405), ("POST", "/v1/ping", 405),
                                 ("GET", "/v1/runs/a%00b", 400), ("GET", "/v1/runs/..%2f..", 404),
                                 ("GET", "/v1/runs/nobody", 404), ("GET", "/v1/workflows/no", 404),
                                 ("GET", "/v1/runs/nobody/events", 404),
                                 ("GET", "/v1/requests/nothing", 404),
                                 ("POST", "/v1/runs/nobody/explode", 404),
                                 ("POST", "/v1/runs/nobody/steps/a/cancel", 404),
                                 ("GET", "/v1/runs?state=odd", 400),
                                 ("GET", "/v1/runs?since=yesterday", 400),
                                 ("GET", "/v1/runs?limit=many", 400),
                                 ("GET", "/v1/runs?limit=-1", 400),
                                 ("GET", "/v1/runs?cursor=junk", 400)):
        reply = daemon.http(method, path, {} if method == "POST" else None)
        assert reply.status == status, (method, path, reply)
        assert reply.headers["Content-Type"] == "application/problem+json", dict(reply.headers)
        problem = reply.json()
        assert problem["status"] == status and problem["code"] and problem["detail"], problem


# --- submits -----------------------------------------------------------------------------------------


@case
def bodies(env):
    """Malformed JSON is 400; what cannot be stored is 422 and says where; what is too large is 413;
    nothing is stored."""
    ledger, daemon = with_one(env)

    def post(body, path="/v1/runs"):
        return daemon.http("POST", path, body)

    for body in ("", "{", "[]", "5", '{"workflow": "one", "workflow": "one"}', '{"a": 1e}',
                 '{"a": NaN}', '{"a": 01}', b'{"a": "\xff"}', b'{"a": "\xc0\x80"}',
                 '{"a": "\n"}', "[" * 100000, '{"a":' * 70 + "1" + "}" * 70, "{} {}"):
        reply = post(body)
        expected = (404,) if body == "" else (400,)
        assert reply.status in expected, (body[:80], reply)
    for value, words in (("a\\u0000b", "u0000"), ("\\ud800", "surrogate"), ("\\udc00x", "surrogate"),
                         ("\\ud800\\u0041", "surrogate")):
        reply = post('{"workflow": "one", "input": {"n": 1, "list": [0, {"note": "%s"}]}}' % value)
        assert reply.status == 422, (value, reply)
        problem = reply.json()
        assert words in problem["detail"], problem
        assert problem["errors"][0]["pointer"] == "/input/list/1/note", problem
        reply = post('{"workflow": "one", "input": {"n": 1, "a/b~c%s": 1}}' % value)
        assert reply.status == 422 and reply.json()["errors"][0]["pointer"].startswith("/input"), \
            reply
    reply = post({"workflow": "one", "input": {"n": 1, "note": "x" * (3 << 20)}})
    assert reply.status == 413, reply
    reply = post({"workflow": "one", "input": {"n": 1, "note": "x" * (1 << 20)}})
    assert reply.status == 413 and "1 MiB" in reply.json()["detail"], reply
    reply = post({"workflow": "one", "input": {"n": 0, "note": 5}})
    assert reply.status == 422 and reply.json()["code"] == "input_invalid", reply
    assert {e["pointer"] for e in reply.json()["errors"]} == {"/input/n", "/input/note"}, reply
    told = daemon.ctl("run", "one", "--input", '{"n": 0}')
    assert told.code == 2 and told.err.count("must be") == 1, told
    for more in ({"inputs": {}}, {"input": []}, {"input": None}, {"input": "x"}, {"run_id": 5}):
        reply = post({"workflow": "one", "input": {"n": 1}, **more})
        assert reply.status == 422, (more, reply)
    assert post({"workflow": 5}).status in (404, 422)
    assert env.states() == {}
    reply = post({"workflow": "one", "input": {"n": 1, "note": "x" * (1 << 19)}})
    assert reply.status == 202, reply


@case
def unknown_workflow(env):
    """An unknown workflow is 404 and names the nearest one; sagactl says the same."""
    ledger, daemon = with_one(env)
    reply = daemon.submit("nmaed", {"n": 1})
    assert reply.status == 404 and reply.json()["code"] == "workflow_not_found", reply
    assert 'did you mean "named"' in reply.json()["detail"], reply
    done = daemon.ctl("run", "nmaed", "--input", "{}")
    assert done.code == 3 and "named" in done.err and not done.out, done
    assert "did you mean" not in daemon.submit("entirely-other").json()["detail"]


@case
def run_ids(env):
    """Bad characters, a length over 94, ids that do not agree, ids used for something else."""
    ledger, daemon = with_one(env)
    for bad in ("a:b", "a b", "ä", "a/b", "a~b", "", "x" * 95, "a\n", "a\u200b", ".." * 50):
        reply = daemon.http("POST", "/v1/runs", {"workflow": "one", "input": {"n": 1},
                                                 "run_id": bad})
        assert reply.status == 422 and reply.json()["code"] == "run_id_invalid", (bad, reply)
    for good in ("x" * 94, "A.b_c-9", "."):
        reply = daemon.submit("one", {"n": 1}, good, wait=10)
        assert reply.status == 200 and reply.json()["run_id"] == good, reply
        assert daemon.show(good)["run_id"] == good
    # Body, header and template must agree.
    for body_id, header, code in (("named-1", None, 202), (None, "named-1", 200),
                                  ("named-1", "named-1", 200), ("named-2", None, 409),
                                  (None, "named-2", 409), ("named-1", "other", 409)):
        body = {"workflow": "named", "input": {"n": 1}}
        if body_id:
            body["run_id"] = body_id
        reply = daemon.http("POST", "/v1/runs", body,
                            {"Idempotency-Key": header} if header else {})
        assert reply.status == code, (body_id, header, reply)
        if code == 409:
            assert reply.json()["code"] == "run_id_mismatch", reply
    reply = daemon.http("POST", "/v1/runs", {"workflow": "one", "input": {"n": 1}, "run_id": "p"},
                        {"Idempotency-Key": "q"})
    assert reply.status == 409 and reply.json()["code"] == "run_id_mismatch", reply
    # A template that cannot be rendered, or renders to what is no id.
    reply = daemon.submit("named", {"m": 1})
    assert reply.status == 422 and "input.n" in reply.json()["detail"], reply
    reply = daemon.submit("named", {"n": "a b"})
    assert reply.status == 422 and reply.json()["code"] == "run_id_invalid", reply
    # Another input, another workflow, another tenant.
    daemon.start_run("one", {"n": 1, "deep": {"list": [1, {"x": 1}], "same": True}}, "mine")
    for other, path in (({"n": 2}, "/input/n"), ({"n": 1}, "/input/deep"),
                        ({"n": 1, "deep": {"list": [1, {"x": 2}], "same": True}},
                         "/input/deep/list/1/x"),
                        ({"n": 1, "deep": {"list": [1, {"x": 1}], "same": True}, "extra": 1},
                         "/input/extra")):
        reply = daemon.submit("one", other, "mine")
        assert reply.status == 409 and reply.json()["code"] == "run_id_conflict", reply
        assert reply.json()["detail"].endswith(path), (path, reply)
    reply = daemon.submit("one", {"deep": {"same": True, "list": [1, {"x": 1}]}, "n": 1}, "mine")
    assert reply.status == 200, reply  # members in another order are the same input
    assert reply.headers["Idempotency-Replayed"] == "true"
    reply = daemon.submit("named", {"n": "mine"}, "named-mine")
    reply = daemon.submit("one", {"n": 7}, "named-mine")
    assert reply.status == 409 and 'workflow "named"' in reply.json()["detail"], reply
    reply = daemon.submit("one", {"n": 1, "deep": {"list": [1, {"x": 1}], "same": True}}, "mine",
                          tenant="acme")
    assert reply.status == 409 and reply.json()["code"] == "run_id_taken", reply
    assert "one" not in reply.json()["detail"], "another tenant learns nothing more"
    env.wait_all()


@case
def verbs(env):
    """A verb without a reason, with unknown members, on nobody, on a step that does not exist."""
    ledger, daemon = with_one(env)
    run = daemon.start_run("one", {"n": 1}, "done-1")
    assert env.wait_state(run) == "completed"
    for body, status in (({}, 422), ({"reason": ""}, 422), ({"reason": 5}, 422),
                         ({"reason": "x" * 1001}, 422), ({"reason": "x", "odd": 1}, 422),
                         ("nonsense", 400)):
        reply = daemon.http("POST", "/v1/runs/done-1/cancel", body)
        assert reply.status == status, (body, reply)
    for verb in ("cancel", "pause", "resume", "retry", "compensate", "abandon"):
        reply = daemon.verb(run, verb)
        assert reply.status == 409 and reply.json()["detail"], (verb, reply)
        assert daemon.verb("nobody", verb).status == 404
    reply = daemon.verb(run, "settle", step="act")
    assert reply.status == 422 and "applied" in reply.json()["detail"], reply
    assert daemon.verb(run, "settle", step="act", applied=True).status == 409
    assert daemon.verb(run, "skip", step="nothing").status in (404, 409)
    assert env.state(run) == "completed"


# --- what is wrong with a workflow's surroundings --------------------------------------------------------


@case
def secrets_and_services_that_are_missing(env):
    """A secret that the daemon does not have, or a service without an address: the step is refused
    with words about it, before anything is sent; what was done before is undone."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply("""
workflow: missing
services:
  svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}
  guarded: {url: "%s", auth: {bearer: "${{ secrets.absent_token }}"}, idempotency: none}
steps:
  - {id: first, action: {post: svc/first}, compensate: {post: svc/undo_first}}
  - {id: second, action: {post: guarded/second}, compensate: {post: guarded/undo_second}}
""" % ledger.url)
    reply = daemon.submit("missing", {}, wait=10)
    run = reply.json()
    assert run["state"] == "compensated", run
    assert run["error"]["step"] == "second" and "absent_token" in run["error"]["message"], run
    assert [r.path for r in ledger.requests] == ["/first", "/undo_first"]
    source = """
workflow: nowhere
services: {elsewhere: {idempotency: none}}
steps:
  - {id: act, action: {post: elsewhere/act}, compensate: {post: elsewhere/undo}}
"""
    reply = daemon.http("PUT", "/v1/workflows", source)
    if reply.status == 200:
        run = daemon.submit("nowhere", {}, wait=10).json()
        assert run["state"] == "compensated" and "elsewhere" in run["error"]["message"], run
    else:
        assert reply.status == 422 and "elsewhere" in reply.body, reply


@case
def workflows_that_are_wrong(env):
    """A workflow with errors is 422 with all of them, and nothing of it is registered; the same
    label for other content is 409."""
    ledger, daemon = with_one(env)
    reply = daemon.http("PUT", "/v1/workflows?file=order.yaml", "workflow: bad\nsteps: [{id: A}]\n")
    problem = reply.json()
    assert reply.status == 422 and problem["code"] == "workflow_invalid", reply
    assert len(problem["errors"]) >= 2 and all(
        e["line"] and e["column"] for e in problem["errors"]), problem
    assert daemon.http("GET", "/v1/workflows/bad").status == 404
    for body in ("", "\x00", "a: &a [*a]", "x" * (1 << 20), b"\xff\xfe", "[" * 100000):
        reply = daemon.http("PUT", "/v1/workflows", body)
        assert reply.status in (413, 422), (body[:20], reply)
    assert daemon.http("PUT", "/v1/workflows", "#" * (3 << 20)).status == 413
    child = "workflow: %s\nrun_id: x-${{ input.id }}\nsteps: [{id: run, action: {child: %s}}]\n"
    reply = daemon.http("PUT", "/v1/workflows", child % ("again", "again"))
    assert reply.status == 422 and [e["code"] for e in reply.json()["errors"]] == ["E307"], reply
    reply = daemon.http("PUT", "/v1/workflows", child % ("parent", "nobody"))
    assert reply.status == 200 and [w["code"] for w in reply.json()["warnings"]] == ["W315"], reply
    labelled = ONE.replace("workflow: one", "workflow: one\nversion: '7'")
    assert daemon.apply(labelled)["version"] == "7"
    reply = daemon.http("PUT", "/v1/workflows", labelled.replace("svc/undo", "svc/undo2"))
    assert reply.status == 409, reply
    assert daemon.apply(labelled)["status"] == "unchanged"


@case
def dev_with_a_bad_file(env):
    """sagad --dev with an invalid file beside a good one: the error is printed, the good one is
    applied, the daemon goes on; repaired, it is applied too."""
    ledger = env.ledger("svc")
    folder = env.folder + "/dev"
    os.mkdir(folder)
    with open(folder + "/sagad.yaml", "w") as file:
        file.write('services: {svc: {url: "%s"}}\n' % ledger.url)
    for name, text in (("good.yaml", ONE), ("bad.yaml", "workflow: bad\nsteps: 5\n"),
                       ("a.yaml", "workflow: parent\nrun_id: x\nsteps:\n"
                        "  - {id: b, action: {child: one}}\n"
                        "  - {id: c, action: {child: elsewhere}}\n"),
                       ("note.txt", "nothing"), (".hidden.yaml", "nothing")):
        with open("%s/%s" % (folder, name), "w") as file:
            file.write(text)
    with open(env.folder + "/dev.out", "w") as out, open(env.folder + "/dev.err", "w") as err:
        process = spawn([SAGAD, "--dev", folder, "--ephemeral"], stdout=out, stderr=err)
    env.closers.append(lambda: process.poll() is None and process.kill())

    def read(name):
        with open(env.folder + "/" + name) as file:
            return file.read()

    wait_until("it is ready", lambda: "sagad is ready" in read("dev.out"), 40)
    assert "bad.yaml:2:8: error[E" in read("dev.err"), read("dev.err")
    assert "no workflow `elsewhere` is known here" in read("dev.err"), read("dev.err")
    assert "no workflow `one`" not in read("dev.err"), "its file stands beside: " + read("dev.err")
    daemon = env.daemon("dev")
    daemon.socket = folder + "/.saga/sagad.sock"
    assert daemon.submit("one", {"n": 1}, wait=10).json()["state"] == "completed"
    assert daemon.submit("bad", {}).status == 404
    with open(folder + "/bad.yaml", "w") as file:
        file.write(NAMED.replace("workflow: named", "workflow: bad"))
    wait_until("it is applied", lambda: daemon.http("GET", "/v1/workflows/bad").status == 200, 5)
    with open(folder + "/good.yaml", "w") as file:
        file.write("workflow: one\nsteps: [\n")
    wait_until("the error is told", lambda: "good.yaml:" in read("dev.err"), 5)
    assert daemon.submit("one", {"n": 2}, wait=10).json()["state"] == "completed"
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0, read("dev.err")
    assert not os.path.lexists(daemon.socket)
    env.daemons.remove(daemon)
    env.keys_known = False  # its database is gone
    temporary = [name for name in os.listdir("/tmp") if name.startswith("saga-ephemeral-")]
    ours = [name for name in temporary if name in read("dev.err")]
    assert not ours, ours


if __name__ == "__main__":
    main(parallel=5)
