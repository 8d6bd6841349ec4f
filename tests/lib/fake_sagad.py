"""A control socket that answers as it is told: for tests of sagactl.

    with FakeSagad() as fake:
        fake.on("GET", "/v1/ping", {"daemon": "d"})
        ... run sagactl with --socket fake.socket ...
        fake.requests[0].headers["Prefer"]

An answer is a document (status 200), an Answer, a list of those (one a request, the last one
stays), or a function of the request that gives one. What is not told is answered 404.
"""

import datetime
import http.server
import json
import os
import shutil
import socketserver
import tempfile
import threading
import time
import urllib.parse


class Answer:
    """status and document; `raw` bytes instead of a document; `events` makes it a stream."""

    def __init__(self, document=None, status=200, headers=None, raw=None, content_type=None,
                 delay=0, events=None):
        self.status = status
        self.headers = headers or {}
        self.delay = delay
        self.events = events
        self.content_type = content_type or "application/json"
        self.raw = raw if raw is not None else json.dumps(document).encode()


def problem(status, code, detail, **more):
    """application/problem+json, as the daemon makes it."""
    document = {"type": "about:blank", "title": "Title", "status": status, "code": code,
                "detail": detail, **more}
    headers = {"Retry-After": "1"} if status in (429, 503) else {}
    return Answer(document, status, headers, content_type="application/problem+json")


class Hangup(Exception):
    """Raised by an answering function: the connection is closed without an answer."""


class Request:
    def __init__(self, handler, body):
        url = urllib.parse.urlsplit(handler.path)
        self.method = handler.command
        self.target = handler.path
        self.path = urllib.parse.unquote(url.path)
        self.query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        self.headers = handler.headers
        self.body = body

    @property
    def document(self):
        return json.loads(self.body)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def address_string(self):
        return "unix"

    def handle_any(self):
        fake = self.server.fake
        if self.server.stopped:
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = Request(self, body)
        try:
            answer = fake.answer(request)
        except Hangup:
            self.close_connection = True
            return
        if answer.delay:
            fake.stopping.wait(answer.delay)
        try:
            self.send_answer(answer)
        except (BrokenPipeError, ConnectionResetError):
            fake.hangups += 1
            self.close_connection = True

    def send_answer(self, answer):
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.events is None:
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(answer.raw)))
            self.end_headers()
            self.wfile.write(answer.raw)
            return
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in answer.events:
            if isinstance(chunk, dict):
                chunk = "id: %d\ndata: %s\n\n" % (chunk["seq"], json.dumps(chunk))
            data = chunk.encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    do_GET = do_POST = do_PUT = do_DELETE = handle_any


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 64
    stopped = False

    def handle_error(self, request, client_address):
        pass  # a client that goes away is what some tests are about


class FakeSagad:
    def __init__(self, path=None):
        self.folder = None if path else tempfile.mkdtemp(prefix="fake_sagad.")
        self.socket = path or os.path.join(self.folder, "sagad.sock")
        self.routes = {}
        self.requests = []
        self.hangups = 0  # clients that were gone when they were written to
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        self.server = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *error):
        self.stop()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def start(self):
        self.stopping.clear()
        self.server = Server(self.socket, Handler)
        self.server.fake = self
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self):
        self.stopping.set()
        if self.server:
            self.server.stopped = True  # connections that are kept alive get no more answers
            self.server.shutdown()
            self.server.server_close()
            self.server = None
            os.unlink(self.socket)

    def on(self, method, path, answer):
        self.routes[method, path] = answer

    def answer(self, request):
        with self.lock:
            self.requests.append(request)
            answer = self.routes.get((request.method, request.path))
            if isinstance(answer, list):
                answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if callable(answer):
            answer = answer(request)
        if answer is None:
            return problem(404, "not_found", "there is nothing at this path")
        return answer if isinstance(answer, Answer) else Answer(answer)

    def sent(self, method, path):
        """The requests that came to this place."""
        return [r for r in self.requests if (r.method, r.path) == (method, path)]


# --- documents ---


def at(seconds):
    """The time so many seconds from now, as the daemon writes it."""
    when = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return when.isoformat()


def step(name, state="pending", **more):
    return {"id": name, "effect": "compensable", "state": state, "compensation_state": None,
            "attempts": 0 if state == "pending" else 1, "key": "r1:%s:execute" % name,
            "output": None, "error": None, "started_at": None, "ended_at": None, **more}


def run(state="running", steps=(), run_id="order-1", **more):
    """A run as `show -o json` has it."""
    ended = state in ("completed", "compensated", "abandoned")
    return {"run_id": run_id, "workflow": "order", "version": "1.0", "tenant": "", "state": state,
            "paused": False, "cause": None,
            "waiting_for": None if ended else "person" if state == "parked" else "participant",
            "input": {"order_id": "ORD-000001"}, "output": None, "error": None,
            "created_at": at(-300), "ended_at": at(-295) if ended else None,
            "steps": list(steps), "residue": [], **more}


def event(seq, what, step_id="", detail=""):
    return {"seq": seq, "at": at(-100 + seq), "step_id": step_id, "what": what, "detail": detail}


def add_run(fake, document):
    """Makes a run known under its id and every beginning of it."""
    run_id = document["run_id"]
    for end in range(1, len(run_id) + 1):
        fake.on("GET", "/v1/runs/" + run_id[:end], document)
    fake.on("GET", "/v1/runs/%s/events" % run_id, {"events": []})


def wait_until(true, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.02)
    return False
