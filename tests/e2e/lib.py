"""What the end-to-end tests share: a private PostgreSQL, daemons, participants, and the checks.

Each file of tests makes one cluster; each case gets a database of its own (a copy of a migrated
one), its own daemons and participants, and is judged at its end by what the participants wrote
down (Env.check). Everything that is started is ended by its process id, also after a failure.
"""

import base64
import http.client
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
SAGAD = os.path.join(BUILD, "sagad")
SAGACTL = os.path.join(BUILD, "sagactl")
TESTS_LIB = os.path.join(ROOT, "tests", "lib")
# Under AddressSanitizer or on a busy machine everything takes longer.
PATIENCE = float(os.environ.get("PATIENCE", "1"))

sys.path.insert(0, TESTS_LIB)


def wait_until(what, look, timeout=20.0, every=0.02):
    """Returns the first true value of look(); fails with `what` when there is none in time."""
    end = time.monotonic() + timeout * PATIENCE
    while True:
        value = look()
        if value:
            return value
        if time.monotonic() >= end:
            raise AssertionError("not within %g s: %s" % (timeout * PATIENCE, what))
        time.sleep(every)


def parse(text):
    """JSON with every digit of its numbers."""
    return json.loads(text, parse_float=Decimal)


# --- processes -------------------------------------------------------------------------------------

_living = []
_living_lock = threading.Lock()
_folders = []  # removed at the end of the program at the latest
_ending = threading.Event()


def spawn(argv, **more):
    """A child in a session of its own, killed at the end of the program at the latest."""
    with _living_lock:  # what is not in the list when it is gone through has not been started
        if _ending.is_set():
            raise AssertionError("the program is being ended")
        process = subprocess.Popen(argv, start_new_session=True, **more)
        _living[:] = [p for p in _living if p.poll() is None] + [process]
    return process


def kill_living():
    with _living_lock:
        for process in _living:
            if process.poll() is None:
                try:
                    process.send_signal(signal.SIGCONT)
                    process.kill()
                except ProcessLookupError:
                    pass
                process.wait()


def folder_remove(folder):
    """Also while the last processes of a killed server write into it."""
    for _ in range(50):
        shutil.rmtree(folder, True)
        if not os.path.exists(folder):
            break
        time.sleep(0.05)


def end_on_signals():
    """SIGTERM and SIGINT end the program, and with it all that it started. A thread of its own does
    that: a handler runs inside whatever the main thread is doing, and would wait for ever for a lock
    that the main thread holds (that of a process which it waits for, say)."""
    taken, told = os.pipe()
    os.set_blocking(told, False)

    def wait_for_one():
        os.read(taken, 1)
        _ending.set()
        kill_living()
        for folder in _folders:
            folder_remove(folder)
        os._exit(130)

    threading.Thread(target=wait_for_one, daemon=True).start()
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: None)


def session_members(leaders):
    """Processes whose session was begun by one of these processes: their children, however deep."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % name) as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) in leaders and fields[0] != "Z" and int(name) not in leaders:
            found[int(name)] = int(fields[3])
    return found


# --- PostgreSQL ------------------------------------------------------------------------------------


def pg_bin():
    given = os.environ.get("SAGA_PG_BIN")
    if given:
        return given
    base = "/usr/lib/postgresql"
    versions = [v for v in os.listdir(base) if os.path.exists("%s/%s/bin/initdb" % (base, v))]
    return "%s/%s/bin" % (base, max(versions, key=float))


class Cluster:
    """A private PostgreSQL on a Unix socket, fsync off: what is tested survives processes, not
    machines."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="sge")
        _folders.append(self.folder)
        self.data = self.folder + "/data"
        self.log = self.folder + "/postgresql.log"
        self.process = None
        self.lock = threading.Lock()
        self.number = 0
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
        self.run("initdb", "-D", self.data, "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8",
                 "-A", "trust", "--no-sync", "--no-instructions")
        with open(self.data + "/postgresql.conf", "a") as file:
            file.write("listen_addresses = ''\nunix_socket_directories = '%s'\n"
                       "max_connections = 80\nfsync = off\nfull_page_writes = off\n"
                       "shared_buffers = 8MB\nmax_wal_size = 256MB\ntimezone = 'UTC'\n"
                       "log_line_prefix = '%%m [%%p] %%a %%d '\nlc_messages = 'C'\n"
                       "log_min_messages = warning\njit = off\n" % self.folder)
        self.start()
        self.sql("postgres", "create database template_saga template template0 encoding 'UTF8'")
        done = subprocess.run([SAGAD, "migrate", "--database", self.uri("template_saga", "postgres")],
                              capture_output=True, text=True)
        assert done.returncode == 0, done

    def argv(self, program, *args):
        drop = []
        if os.geteuid() == 0:
            drop = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
        return [*drop, "%s/%s" % (pg_bin(), program), *args]

    def run(self, program, *args):
        done = subprocess.run(self.argv(program, *args), capture_output=True, text=True, cwd="/")
        assert done.returncode == 0, done

    def start(self):
        """Also after a kill -9: the old server's backends may need a moment to notice."""
        def attempt():
            if self.process is None or self.process.poll() is not None:
                with open(self.log, "a") as log:
                    self.process = spawn(self.argv("postgres", "-D", self.data), stdout=log,
                                         stderr=log, cwd="/")
            return subprocess.run([pg_bin() + "/pg_isready", "-q", "-h", self.folder, "-U",
                                   "postgres", "-d", "postgres"]).returncode == 0

        wait_until("PostgreSQL starts", attempt, 60, 0.1)

    def kill9(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(60)

    def remove(self):
        self.stop()
        shutil.rmtree(self.folder, True)

    def uri(self, database, user="saga_engine"):
        return "host='%s' dbname=%s user=%s" % (self.folder, database, user)

    def sql(self, database, sql, user="postgres"):
        """Through a psql of its own, for what runs once."""
        session = Session(self.folder, database, user)
        try:
            return session.sql(sql)
        finally:
            session.close()

    def database(self):
        """The name of a new migrated database."""
        with self.lock:
            self.number += 1
            name = "case%d" % self.number
            self.sql("postgres", "create database %s template template_saga" % name)
        return name


class SqlError(AssertionError):
    pass


class Session:
    """A psql that stays: asking is cheap enough to be repeated. Comes back after a restart of the
    server."""

    def __init__(self, host, database, user):
        self.argv = ["psql", "-XAtq", "-h", host, "-U", user, "-d", database]
        self.process = None
        self.lock = threading.Lock()

    def open(self):
        self.process = spawn(self.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)

    def close(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait(30)
            self.process.stdout.close()
            self.process = None

    def sql(self, text):
        """Rows as lines of columns with | between them."""
        with self.lock:
            if self.process is None or self.process.poll() is not None:
                self.open()
            lines = []
            try:
                self.process.stdin.write(text.rstrip(";\n") + ";\n\\echo =end= :ERROR\n")
                self.process.stdin.flush()
                for line in self.process.stdout:
                    if line.startswith("=end= "):
                        break
                    lines.append(line)
                else:
                    raise SqlError("psql ended: %s" % "".join(lines))
            except OSError as error:
                raise SqlError("psql ended: %s" % error)
            answer = "".join(lines).rstrip("\n")
            if line != "=end= false\n":
                raise SqlError("%s\n%s" % (text, answer))
            return answer


# --- a participant ---------------------------------------------------------------------------------


class Answer:
    """How a ledger answers one request.

    `effect`: whether the work is done before the answer; by default for 2xx. `act`: answer, never
    (no answer), reset (RST after the request was read), close, cut (the first `bytes` of the
    answer), cut_read (RST after `bytes` of the request's body). `gate`: an event that is waited for before the answer goes out.
    """

    def __init__(self, status=200, body=None, headers=None, delay=0.0, effect=None, act="answer",
                 bytes=0, raw=None, gate=None, close=False):
        self.status, self.headers, self.delay = status, headers or {}, delay
        self.body = {"ok": True} if body is None and status < 400 else body
        self.effect = (status < 300) if effect is None else effect
        self.act, self.bytes, self.raw, self.gate, self.close = act, bytes, raw, gate, close


class Request:
    def __init__(self, method, target, headers, body):
        self.method, self.target, self.headers, self.body = method, target, headers, body
        self.path = target.split("?")[0]
        self.key = headers.get("idempotency-key")
        self.at = time.monotonic()

    @property
    def step(self):
        return self.headers.get("saga-step")

    @property
    def attempt(self):
        return int(self.headers.get("saga-attempt", "0"))

    def json(self):
        return parse(self.body)

    def __repr__(self):
        return "%s %s key=%s" % (self.method, self.target, self.key)


class Effect:
    def __init__(self, request, answer):
        self.key, self.path, self.body, self.at = request.key, request.path, request.body, time.monotonic()
        self.answer = answer

    def __repr__(self):
        return "%s %s" % (self.path, self.key)


class Ledger:
    """An HTTP participant on loopback that does its work before it answers, once per key, and
    remembers every request. A key seen before gets its stored answer, unless `keyless`.

    script(path, Answer...): the next requests to paths that begin so, one answer each; a replay of
    a key whose work is done does not use one up, unless `force` is set. always(path, Answer or
    function of the request): from then on.
    """

    def __init__(self, keyless=False):
        self.keyless = keyless
        self.lock = threading.Lock()
        self.requests, self.effects = [], []
        self.by_key = {}
        self.scripts, self.standing = {}, {}
        self.on_request = None  # called with each request when it is complete, before anything else
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        self.url = "http://127.0.0.1:%d" % self.port
        self.closing = False
        threading.Thread(target=self.accept, daemon=True).start()

    def script(self, path, *answers, force=False):
        with self.lock:
            self.scripts.setdefault(path, []).extend((answer, force) for answer in answers)

    def always(self, path, answer):
        with self.lock:
            self.standing[path] = answer

    def close(self):
        self.closing = True
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()

    def accept(self):
        while not self.closing:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    @staticmethod
    def longest(table, path):
        found = [prefix for prefix in table if path.startswith(prefix) and table[prefix]]
        return max(found, key=len) if found else None

    def cut_read(self, target):
        """If the next script for it says so: how many bytes of the body are read before the reset."""
        with self.lock:
            prefix = self.longest(self.scripts, target.split("?")[0])
            if prefix is None or self.scripts[prefix][0][0].act != "cut_read":
                return None
            return self.scripts[prefix].pop(0)[0].bytes

    def choose(self, request):
        """The answer, and whether the work is to be done for it; the lock is held."""
        stored = None if self.keyless or not request.key else self.by_key.get(request.key)
        prefix = self.longest(self.scripts, request.path)
        if prefix is not None and (not stored or self.scripts[prefix][0][1]):
            answer = self.scripts[prefix].pop(0)[0]
            return answer, answer.effect and not stored
        if stored:
            same = stored[0] == (request.method, request.target, request.body)
            if not same:
                return Answer(422, {"code": "idempotency_key_reused"}), False
            return Answer(stored[1].status, stored[1].body, {"Idempotency-Replayed": "true"}), False
        prefix = self.longest(self.standing, request.path)
        answer = self.standing[prefix] if prefix is not None else Answer()
        if callable(answer):
            answer = answer(request)
        return answer, answer.effect

    def serve(self, connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buffered = b""
        try:
            while True:
                while b"\r\n\r\n" not in buffered:
                    part = connection.recv(65536)
                    if not part:
                        return
                    buffered += part
                head, buffered = buffered.split(b"\r\n\r\n", 1)
                lines = head.decode("latin-1").split("\r\n")
                method, target, _ = lines[0].split(" ", 2)
                headers = {}
                for line in lines[1:]:
                    name, value = line.split(":", 1)
                    headers[name.strip().lower()] = value.strip()
                length = int(headers.get("content-length", "0"))
                cut = self.cut_read(target)
                if cut is not None:
                    while len(buffered) < min(cut, length):
                        buffered += connection.recv(65536)
                    with self.lock:
                        self.requests.append(Request(method, target, headers, buffered[:cut]))
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                          struct.pack("ii", 1, 0))
                    return
                while len(buffered) < length:
                    part = connection.recv(65536)
                    if not part:
                        return
                    buffered += part
                body, buffered = buffered[:length], buffered[length:]
                if not self.handle(connection, Request(method, target, headers, body)):
                    return
        except (OSError, ValueError):
            pass
        finally:
            connection.close()

    def handle(self, connection, request):
        """False: the connection is closed."""
        if self.on_request:
            self.on_request(request)
        with self.lock:
            self.requests.append(request)
            answer, works = self.choose(request)
            if works and request.method != "GET":
                self.effects.append(Effect(request, answer))
                if request.key:
                    self.by_key[request.key] = ((request.method, request.target, request.body),
                                                answer)
        if answer.gate:
            answer.gate.wait(300)
        if answer.delay:
            time.sleep(answer.delay)
        if answer.act == "never":
            while connection.recv(65536):
                pass
            return False
        if answer.act == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        if answer.act == "close":
            return False
        raw = answer.raw if answer.raw is not None else self.render(answer, request.method)
        if answer.act == "cut":
            connection.sendall(raw[:answer.bytes])
            return False
        connection.sendall(raw)
        return not answer.close and answer.raw is None

    @staticmethod
    def render(answer, method):
        body = answer.body
        headers = {name.lower(): value for name, value in answer.headers.items()}
        if body is None:
            body = b""
        elif isinstance(body, str):
            body = body.encode()
        elif not isinstance(body, bytes):
            body = json.dumps(body, default=str).encode()
            headers.setdefault("content-type", "application/json")
        if body and "content-type" not in headers:
            headers["content-type"] = "application/json"
        head = "HTTP/1.1 %d X\r\ncontent-length: %d\r\n" % (answer.status, len(body))
        head += "".join("%s: %s\r\n" % pair for pair in headers.items())
        return (head + "\r\n").encode("latin-1") + body

    # --- what it saw ---

    def seen(self, step=None, key=None, path=None):
        with self.lock:
            return [r for r in self.requests
                    if (step is None or r.step == step) and (key is None or r.key == key) and
                    (path is None or r.path.startswith(path))]

    def done(self, path=None, key=None):
        with self.lock:
            return [e for e in self.effects
                    if (path is None or e.path.startswith(path)) and (key is None or e.key == key)]

    def effects_by_key(self):
        counts = {}
        with self.lock:
            for effect in self.effects:
                counts[effect.key] = counts.get(effect.key, 0) + 1
        return counts


class Shop:
    """One of the example services: its own program and ledger file; survives kill -9."""

    def __init__(self, name, folder):
        self.name, self.keyless = name, name == "mail"
        self.path = "%s/%s.ledger" % (folder, name)
        self.process = None
        self.port = 0
        self.start()

    def start(self, *flags):
        program = os.path.join(BUILD, "examples", "shop", self.name)
        self.process = spawn([program, "--port", str(self.port), "--ledger", self.path, *flags],
                             stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        self.port = int(line.rsplit(":", 1)[1])
        self.url = "http://127.0.0.1:%d" % self.port

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(10)
        self.process.stdout.close()

    def call(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10 * PATIENCE)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            return parse(connection.getresponse().read())
        finally:
            connection.close()

    def switch(self, **switches):
        return self.call("PUT", "/switches", switches)

    def ledger(self):
        return self.call("GET", "/ledger")

    def effects_by_key(self):
        counts = {}
        for row in self.ledger():
            if row["effects_applied"]:
                counts[row["key"]] = counts.get(row["key"], 0) + row["effects_applied"]
        return counts


# --- a daemon --------------------------------------------------------------------------------------


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return parse(self.body)

    def __repr__(self):
        return "%d %s" % (self.status, self.body[:2000])


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("saga", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def json(self):
        return parse(self.out)

    def __repr__(self):
        return "exit %s\n--- stdout\n%s\n--- stderr\n%s" % (self.code, self.out, self.err)


class Daemon:
    """A sagad in production mode on the case's database."""

    def __init__(self, env, name="a", uri=None):
        self.env, self.name = env, name
        self.uri = uri or env.uri
        self.socket = "%s/%s.sock" % (env.folder, name)
        self.log_path = "%s/%s.log" % (env.folder, name)
        self.process = None
        self.frozen = False
        self.pids = set()

    def argv(self, *args):
        return [SAGAD, "-c", self.env.config_path, "--database", self.uri, "--socket", self.socket,
                "--name", self.name, *args]

    def start(self, *args, wait=True, failpoint=None, environ=None, **more):
        """`args` such as "--lease", "2s". With wait, returns once it answers; False if it died
        before (a failpoint may be reached that early)."""
        assert self.process is None or self.process.poll() is not None, "it runs"
        env = dict(os.environ)
        env.pop("SAGA_FAILPOINT", None)
        env.update(environ or {})
        if failpoint:
            env["SAGA_FAILPOINT"] = failpoint
        self.mark = os.path.getsize(self.log_path) if os.path.exists(self.log_path) else 0
        with open(self.log_path, "ab") as log:
            self.process = spawn(self.argv(*args), stdout=log, stderr=log, env=env,
                                 stdin=subprocess.DEVNULL, **more)
        self.pids.add(self.process.pid)
        if not wait:
            return self
        try:
            wait_until("the daemon is ready", lambda: self.is_ready() or
                       self.process.poll() is not None, 40)
        except AssertionError as error:
            raise AssertionError("%s\n%s" % (error, self.log()))
        if self.process.poll() is not None:
            if failpoint:
                return False
            raise AssertionError("sagad ended with %d\n%s" % (self.process.returncode, self.log()))
        return self

    def is_ready(self):
        return "ready: control socket" in self.log(since_start=True)

    def log(self, since_start=False):
        if not os.path.exists(self.log_path):
            return ""
        with open(self.log_path, errors="replace") as file:
            file.seek(self.mark if since_start else 0)
            return file.read()

    @property
    def pid(self):
        return self.process.pid

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.frozen = False

    def freeze(self):
        os.kill(self.pid, signal.SIGSTOP)
        self.frozen = True

    def thaw(self):
        os.kill(self.pid, signal.SIGCONT)
        self.frozen = False

    def send(self, number):
        self.process.send_signal(number)

    def wait(self, timeout=60):
        return self.process.wait(timeout * PATIENCE)

    def stop(self, number=signal.SIGTERM):
        """Drains; returns the exit code."""
        if self.frozen:
            self.thaw()
        self.send(number)
        return self.wait()

    def failed_at(self):
        """The failpoint that ended it, or None."""
        found = re.findall(r"^sagad: failpoint (\w+)$", self.log(since_start=True), re.M)
        return found[-1] if found else None

    # --- using it ---

    def http(self, method, path, body=None, headers=None, timeout=30.0):
        connection = UnixConnection(self.socket, timeout * PATIENCE)
        try:
            if body is not None and not isinstance(body, (bytes, str)):
                body = json.dumps(body, default=str)
            if isinstance(body, str):
                body = body.encode()
            try:
                connection.request(method, path, body, headers or {})
            except (BrokenPipeError, ConnectionResetError):
                connection._HTTPConnection__state = "Request-sent"  # it may have said why
            answer = connection.getresponse()
            reply = Reply(answer.status, answer.headers, answer.read().decode("utf-8", "replace"))
            self.env.outputs.append(reply.body)
            return reply
        finally:
            connection.close()

    def submit(self, workflow, input=None, run_id=None, wait=0, **more):
        body = {"workflow": workflow, "input": input or {}, **more}
        if run_id:
            body["run_id"] = run_id
        return self.http("POST", "/v1/runs", body,
                         {"Prefer": "wait=%d" % wait} if wait else None, 30 + wait)

    def start_run(self, workflow, input=None, run_id=None, **more):
        """Submits; returns the run id once that is acknowledged."""
        reply = self.submit(workflow, input, run_id, **more)
        assert reply.status in (200, 202), reply
        return reply.json()["run_id"]

    def verb(self, run_id, verb, step=None, **body):
        body.setdefault("reason", "a test")
        place = "/steps/%s" % step if step else ""
        return self.http("POST", "/v1/runs/%s%s/%s" % (run_id, place, verb), body)

    def show(self, run_id):
        reply = self.http("GET", "/v1/runs/" + run_id)
        assert reply.status == 200, reply
        return reply.json()

    def apply(self, source):
        reply = self.http("PUT", "/v1/workflows", source)
        assert reply.status == 200, reply
        return reply.json()

    def ctl(self, *args, stdin=None, env=None, timeout=60):
        environ = {"PATH": os.environ["PATH"], "HOME": self.env.folder, "SAGA_SOCKET": self.socket,
                   "LC_ALL": "C.UTF-8", **(env or {})}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
            if name in os.environ:
                environ[name] = os.environ[name]
        done = subprocess.run([SAGACTL, *args], capture_output=True, input=stdin, env=environ,
                              cwd=self.env.folder, timeout=timeout * PATIENCE,
                              stdin=subprocess.DEVNULL if stdin is None else None)
        result = Result(done.returncode, done.stdout.decode(), done.stderr.decode())
        self.env.outputs.append(result.out + result.err)
        return result


# --- a case ----------------------------------------------------------------------------------------

TERMINAL = ("completed", "compensated", "abandoned")
WAITS = ("participant", "retry", "timer", "signal", "approval", "worker", "child", "lock", "breaker",
         "limit", "reconcile", "claim", "owner", "paused", "person")


class Env:
    """What one case works with. Ended by close(); judged by check()."""

    def __init__(self, cluster, name):
        self.cluster, self.name = cluster, name
        self.folder = tempfile.mkdtemp(prefix="sge")
        _folders.append(self.folder)
        self.database = cluster.database()
        self.uri = cluster.uri(self.database)
        self.session = Session(cluster.folder, self.database, "postgres")
        self.daemons, self.participants, self.services = [], [], {}
        self.outputs, self.secrets, self.config_more = [], {}, ""
        self.closers = []
        self.config_path = self.folder + "/sagad.yaml"
        self.sequential = True  # steps of every workflow run one after the other
        self.descriptors_max = 100  # of a daemon, at its end
        self.keys_known = True  # every key in a ledger belongs to a run of this database
        self.config_write()

    def config_write(self):
        lines = ["services:"] if self.services else ["services: {}"]
        for name, participant in self.services.items():
            url = participant if isinstance(participant, str) else participant.url
            lines.append('  %s: {url: "%s"}' % (name, url))
        if self.secrets:
            lines.append("secrets:")
            for name, value in self.secrets.items():
                path = "%s/secret-%s" % (self.folder, name)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(value)
                lines.append('  %s: "file:%s"' % (name, path))
        with open(self.config_path, "w") as file:
            file.write("\n".join(lines) + "\n" + self.config_more)

    def ledger(self, *services, keyless=False):
        """A ledger that stands for these services."""
        ledger = Ledger(keyless)
        self.participants.append(ledger)
        for name in services or ("svc",):
            self.services[name] = ledger
        self.config_write()
        return ledger

    def shop(self):
        for name in ("inventory", "payments", "mail"):
            service = Shop(name, self.folder)
            self.participants.append(service)
            self.services[name] = service
        self.config_write()
        return self.services["inventory"], self.services["payments"], self.services["mail"]

    def daemon(self, name="a", uri=None):
        daemon = Daemon(self, name, uri)
        self.daemons.append(daemon)
        return daemon

    def sql(self, text, user="postgres"):
        if user == "postgres":
            return self.session.sql(text)
        return self.cluster.sql(self.database, text, user)

    def rows(self, query, user="postgres"):
        return parse(self.sql("select coalesce(json_agg(t), '[]') from (%s) t" % query, user))

    def states(self):
        return {row["run_id"]: row["state"]
                for row in self.rows("select run_id, state from saga.runs")}

    def state(self, run_id):
        return self.sql("select state from saga.runs where run_id = '%s'" % run_id)

    def wait_state(self, run_id, *states, timeout=30.0):
        states = states or TERMINAL + ("parked",)
        wait_until("%s is %s (it is %s)" % (run_id, " or ".join(states), "?"),
                   lambda: self.state(run_id) in states, timeout, 0.03)
        return self.state(run_id)

    def wait_all(self, count=None, timeout=60.0):
        """Until every run has ended or is parked; `count`: and there are so many."""
        def look():
            rest, total = self.sql(
                "select count(*) filter (where state not in ('completed', 'compensated', "
                "'abandoned', 'parked')), count(*) from saga.runs").split("|")
            return int(rest) == 0 and (count is None or int(total) == count)

        try:
            wait_until("every run rests", look, timeout, 0.05)
        except AssertionError:
            rows = self.rows("select run_id, state, waiting_for from saga.runs "
                             "where ended_at is null")
            raise AssertionError("runs that do not come to rest: %s" % rows)

    # --- the common points ---

    def check(self):
        """What must hold after every case."""
        wrong = []
        wrong += self.check_runs()
        wrong += self.check_effects()
        wrong += self.check_walks()
        wrong += self.check_history()
        self.stop_daemons(wrong)
        wrong += self.check_secrets()
        assert not wrong, "\n".join(wrong)

    def check_runs(self):
        """Each run has ended, or is listed with a reason."""
        rows = self.rows(
            "select r.run_id, r.state, r.waiting_for, r.park_reason, d.run_id is not null as dead, "
            "(select count(*) from saga.why_waiting w where w.run_id = r.run_id) as why "
            "from saga.runs r left join saga.dead_letters d on d.run_id = r.run_id "
            "where r.ended_at is null")
        wrong = []
        for row in rows:
            if row["waiting_for"] is None or row["why"] != 1:
                wrong.append("open and without one reason: %s" % row)
            if (row["state"] == "parked") != row["dead"] or \
                    (row["state"] == "parked") != (row["park_reason"] is not None):
                wrong.append("parked and dead letters do not agree: %s" % row)
        waits = self.rows("select w.run_id, w.waiting_for, w.detail, r.waiting_for as shown, "
                          "r.run_id is not null as is_run, r.ended_at from saga.why_waiting w "
                          "left join saga.runs r on r.run_id = w.run_id")
        for row in waits:
            if not row["is_run"] or row["ended_at"] or not row["detail"] or \
                    row["waiting_for"] not in WAITS:
                wrong.append("a wait of nothing that is open, or without a reason: %s" % row)
        # In one statement: a case may end while runs go on.
        counts = self.sql("select count(*), (select count(*) from saga.why_waiting) "
                          "from saga.runs where ended_at is null").split("|")
        if counts[0] != counts[1]:
            wrong.append("%s open runs and %s waits" % tuple(counts))
        return wrong

    def check_effects(self):
        """One effect per key where keys are honoured, none without a claim, and the ledgers say
        what the tables say."""
        wrong, counts = [], {}
        for participant in self.participants:
            for key, count in participant.effects_by_key().items():
                counts[key] = counts.get(key, 0) + count
                if count > 1 and not participant.keyless:
                    wrong.append("%d effects under key %s" % (count, key))
        if not self.participants:
            return wrong
        keys = self.rows("select key, state, step_id, run_id, direction from saga.keys")
        known = {row["key"]: row for row in keys}
        if self.keys_known:
            wrong += ["an effect of nobody: %s" % key for key in counts if key not in known]
        for key, row in known.items():
            if row["state"] == "refused" and counts.get(key):
                wrong.append("refused, yet the ledger has %d: %s" % (counts[key], key))
        return wrong

    def check_walks(self):
        """In a walked-back run everything applied was undone once, in reverse order; items of a
        loop in any order among themselves."""
        rows = self.rows(
            "select s.run_id, s.step_id, s.effect, s.state, s.compensation_state as undo, "
            "s.compensation_started_at as begun, s.compensation_ended_at as ended, s.position, "
            "e.at, exists (select from json_array_elements(r.residue) x "
            "where x ->> 'step' = s.step_id) as left_over "
            "from saga.steps s join saga.runs r using (run_id) "
            "left join lateral (select s.ended_at as at) e on true "
            "where r.state = 'compensated' and s.items is null order by s.run_id, s.position")
        wrong, runs = [], {}
        for row in rows:
            runs.setdefault(row["run_id"], []).append(row)
        for run_id, steps in runs.items():
            undone = {}
            for step in steps:
                if step["state"] in ("applied", "unknown", "claimed", "retrying"):
                    if step["effect"] != "pure" and step["undo"] != "applied" and \
                            not step["left_over"]:
                        wrong.append("%s: %s is %s and its undo is %s" %
                                     (run_id, step["step_id"], step["state"], step["undo"]))
                if step["undo"] is not None:
                    undone.setdefault(step["position"], []).append(step)
            undone = [undone[position] for position in sorted(undone, key=int)]
            for early, late in zip(undone, undone[1:]) if self.sequential else ():
                first = min(early, key=lambda step: step["begun"])
                last = max(late, key=lambda step: step["ended"])
                if first["begun"] < last["ended"]:
                    wrong.append("%s: undo of %s began before that of %s had ended" %
                                 (run_id, first["step_id"], last["step_id"]))
        return wrong

    def check_history(self):
        """History is whole and agrees with the state."""
        wrong = []
        for row in self.rows("select run_id, count(*) as n, min(seq) as low, max(seq) as high "
                             "from saga.event group by run_id "
                             "having count(*) <> max(seq) or min(seq) <> 1"):
            wrong.append("events with gaps: %s" % row)
        for row in self.rows(
                "select a.run_id, a.step_id, a.direction, a.number, e.attempts from saga.attempt a "
                "left join saga.effect e using (shard, run_id, step_id, item, direction, generation) "
                "where e.attempts is null or a.number > e.attempts"):
            wrong.append("an attempt that its effect does not count: %s" % row)
        for row in self.rows(
                "select run_id, k.outcome, r.run_id is null as gone from saga.run_key k "
                "left join saga.run r using (shard, run_id) "
                "where (k.outcome is null) <> (r.run_id is not null)"):
            wrong.append("a tombstone beside its run, or none without one: %s" % row)
        for row in self.rows("select run_id, count(*) as n from saga.timeline where run_id in "
                             "(select run_id from saga.run where ended_at is not null) "
                             "and what <> 'answered' "  # evidence comes when it comes
                             "group by run_id having max(at) <> max(at) filter "
                             "(where what in ('completed', 'compensated', 'abandoned'))"):
            wrong.append("something happened after the end: %s" % row)
        return wrong

    def check_secrets(self):
        """No secret in tables, logs or output, in any of the usual spellings."""
        if not self.secrets:
            return []
        texts = {"what was printed": "\n".join(self.outputs)}
        for daemon in self.daemons:
            texts["log of " + daemon.name] = daemon.log()
        with open(self.cluster.log, errors="replace") as file:
            texts["log of PostgreSQL"] = file.read()
        done = subprocess.run([pg_bin() + "/pg_dump", "-h", self.cluster.folder, "-U", "postgres",
                               "-a", self.database], capture_output=True)
        assert done.returncode == 0, done.stderr
        texts["the tables"] = done.stdout.decode()
        wrong = []
        for name, value in self.secrets.items():
            for form, text in spellings(value).items():
                wrong += ["secret %s (%s) stands in %s" % (name, form, place)
                          for place, content in texts.items() if text in content]
        return wrong

    def stop_daemons(self, wrong):
        """Ends the daemons in good order; they must leave nothing behind."""
        for daemon in self.daemons:
            if not daemon.alive():
                continue
            fds = len(os.listdir("/proc/%d/fd" % daemon.pid))
            if fds > self.descriptors_max:
                wrong.append("daemon %s holds %d descriptors" % (daemon.name, fds))
            code = daemon.stop()
            if code != 0:
                wrong.append("daemon %s ended with %d\n%s" % (daemon.name, code, daemon.log()[-3000:]))
            if os.path.lexists(daemon.socket):
                wrong.append("daemon %s left its socket" % daemon.name)
        for daemon in self.daemons:
            left = session_members(daemon.pids)
            if left:
                wrong.append("daemon %s left processes %s" % (daemon.name, left))
        left = self.cluster.sql("postgres", "select count(*) from pg_stat_activity where "
                                "datname = '%s' and application_name like 'sagad %%' "
                                "and pid <> pg_backend_pid()" % self.database)
        if left != "0":
            try:
                wait_until("sessions end", lambda: self.cluster.sql(
                    "postgres", "select count(*) from pg_stat_activity where datname = '%s' and "
                    "application_name like 'sagad %%'" % self.database) == "0", 5)
            except AssertionError:
                wrong.append("%s database sessions are left" % left)

    def close(self):
        for closer in reversed(self.closers):
            closer()
        for daemon in self.daemons:
            if daemon.alive():
                if daemon.frozen:
                    daemon.thaw()
                daemon.kill()
        for member in session_members({pid for daemon in self.daemons for pid in daemon.pids}):
            try:
                os.kill(member, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for participant in self.participants:
            participant.close()

    def remove(self):
        self.session.close()
        self.cluster.sql("postgres", "drop database if exists %s with (force)" % self.database)
        shutil.rmtree(self.folder, True)

    def story(self):
        """For the report of a failure."""
        parts = ["case %s, database %s" % (self.name, self.database)]
        for daemon in self.daemons:
            parts.append("--- log of %s\n%s" % (daemon.name, daemon.log()[-2000:]))
        try:
            parts.append("--- runs\n%s" % self.sql(
                "select run_id, state, cause, park_reason, waiting_for, left(error::text, 200) "
                "from saga.runs order by ended_at is not null, created_at desc limit 5"))
        except (AssertionError, subprocess.TimeoutExpired) as error:
            parts.append("no word from the database: %s" % error)
        for participant in self.participants:
            if isinstance(participant, Ledger):
                parts.append("--- last requests\n" + "\n".join(
                    "%.3f %r attempt %d" % (r.at, r, r.attempt) for r in participant.requests[-8:]))
        return "\n".join(parts)


def spellings(value):
    raw = value.encode()
    inner = base64.b64encode(raw).decode().rstrip("=")
    return {
        "plain": value,
        "percent-encoded": urllib.parse.quote(value, safe=""),
        "form-encoded": urllib.parse.quote_plus(value),
        "Base64": inner,
        "JSON-escaped": json.dumps(value)[1:-1],
    }


# --- running the cases of a file -------------------------------------------------------------------

_cases = []


def case(function=None, alone=False):
    """Registers a case of the file that is run: a function of an Env. `alone`: nothing else runs
    beside it (it stops the cluster, or measures)."""
    def register(f):
        f.alone = alone
        if f.__module__ == "__main__":  # a file may take helpers from another, not its cases
            _cases.append(f)
        return f

    return register(function) if function else register


def run_case(cluster, function):
    env = None
    begun = time.monotonic()
    try:
        env = Env(cluster, function.__name__)
        function(env)
        env.check()
        failure = None
    except Exception as error:  # reported with its case; the others still run
        failure = "%s: %s\n%s\n%s" % (function.__name__, error, traceback.format_exc(),
                                      env.story() if env else "")
    finally:
        if env:
            env.close()
            try:
                env.remove()
            except Exception as error:
                failure = failure or "%s: %s" % (function.__name__, error)
    return failure, time.monotonic() - begun


def main(parallel=3):
    """Runs the cases of the calling file; arguments choose some of them by name."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    wanted = [f for f in _cases
              if not sys.argv[1:] or any(re.search(p, f.__name__) for p in sys.argv[1:])]
    failures = passed = 0
    cluster = None
    end_on_signals()
    try:
        cluster = Cluster()
        with ThreadPoolExecutor(parallel) as pool:
            jobs = [(f, pool.submit(run_case, cluster, f)) for f in wanted if not f.alone]
            results = [(f, job.result()) for f, job in jobs]
        for f in wanted:
            if f.alone:
                results.append((f, run_case(cluster, f)))
        for f, (failure, seconds) in results:
            if failure:
                failures += 1
                print("FAIL %s (%.1f s)\n%s\n" % (f.__name__, seconds, failure))
            else:
                passed += 1
                print("ok   %-50s %.1f s" % (f.__name__, seconds))
            sys.stdout.flush()
    finally:
        while _ending.is_set():  # what fails now fails because of that; the program ends by itself
            time.sleep(1)
        if cluster:
            cluster.remove()
        kill_living()
    print("%d passed, %d failed" % (passed, failures))
    sys.exit(1 if failures or not passed else 0)
