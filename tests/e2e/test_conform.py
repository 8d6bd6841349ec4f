#!/usr/bin/env python3
"""sagactl conform against services that are right, the shop's, and services with one bug each:
each bug is found by its check, and by no other."""

import json
import os
import pty
import subprocess
import sys
import tempfile
import threading
import time
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
SAGACTL = os.path.join(BUILD, "sagactl")

WORKFLOW = """workflow: pay
run_id: "pay-${{ input.order }}"
input:
  type: object
  required: [order, amount]
  properties:
    order: {type: string}
    amount: {type: number, examples: [10.1]}
services:
  bank:
    url: "http://127.0.0.1:1/v1"
    idempotency: %s
    outcomes:
      - {when: "response.status == 409 && response.body.code == 'in_work'", is: in_progress}
      - {when: "response.status == 422 && response.body.code == 'other'", is: conflict}
steps:
  - id: hold
    action: {post: bank/holds, body: {order: "${{ input.order }}", amount: "${{ input.amount }}"}}
    compensate: {post: bank/releases, body: {order: "${{ input.order }}"}}
  - id: look
    effect: pure
    action: {get: bank/holds}
  - id: each
    for_each: "[1, 2]"
    action: {post: bank/holds}
    compensate: {delete: bank/holds}
  - id: file
    effect: irreversible
    action: {post: bank/holds, body: {order: "${{ input.order }}", amount: 1}}
  - id: rest
    effect: irreversible
    action: {sleep: 1s}
output: null
"""
HEADER = "{header: Idempotency-Key, ttl: 7d}"


class Bank:
    """Right in every way, but for the bug that is asked for."""

    def __init__(self, bug=None, key_from=None):
        self.bug, self.key_from = bug, key_from or (lambda h, b: h.headers["Idempotency-Key"])
        self.lock = threading.Lock()
        self.used, self.barred, self.undone, self.working = {}, set(), set(), set()
        self.effects, self.hosts = [], set()
        bank = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, body = bank.handle(self, text)
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:%d/v1" % self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def same(self, body):
        if self.bug == "compares_texts":
            return body
        return json.dumps(json.loads(body, parse_float=Decimal, parse_int=Decimal), default=float,
                          sort_keys=True)

    def handle(self, handler, text):
        key, undoes = self.key_from(handler, text), handler.headers["Saga-Compensates"]
        assert handler.path.startswith("/v1/") and handler.headers["Saga-Run"].startswith("conform-")
        if self.bug == "broken":
            return 503 if len(self.hosts) > 3 else 500, {}
        what = (handler.path, self.same(text))
        if self.bug != "races":
            self.lock.acquire()
        try:
            if self.bug == "answers_409" and key in self.working:
                return 409, {"code": "busy"}
            if self.bug == "says_in_work" and key in self.working:
                return 409, {"code": "in_work"}
            return self.decide(key, undoes, what)
        finally:
            if self.bug != "races":
                self.lock.release()

    def work(self, key):
        """Takes a while, in which others may come."""
        if self.bug in ("answers_409", "says_in_work"):
            self.working.add(key)
            self.lock.release()
            time.sleep(0.2)
            self.lock.acquire()
            self.working.discard(key)
        if self.bug == "races":
            time.sleep(0.2)

    def decide(self, key, undoes, what):
        if key in self.barred and self.bug != "accepts_late_do":
            return 409, {"code": "undone"}
        if key in self.undone:
            if self.bug == "does_undone_anew":
                return 201, {"id": "anew"}
            if self.bug == "replays_undone":
                return self.used[key][1]
            return 409, {"code": "undone"}
        if key in self.used and self.bug != "forgets_keys":
            if self.used[key][0] != what:
                if self.bug == "does_other":
                    return 201, {"id": "other"}
                if self.bug != "ignores_body":
                    return 422, {"code": "reused" if self.bug == "does_not_say_other" else "other"}
            if self.bug == "undoes_once" and undoes:
                return 404, {"code": "no_such_hold"}
            if self.bug == "says_duplicate" and not undoes:
                return 409, {"code": "duplicate"}
            return self.used[key][1]
        if undoes and (undoes not in self.used or undoes in self.undone):
            self.barred.add(undoes)
            answer = (404, {"code": "no_such_hold"}) if self.bug == "refuses_undo_of_nothing" else \
                (200, {"released": False})
        else:
            self.work(key)
            self.effects.append((key, undoes))
            answer = (200, {"released": True}) if undoes else (201, {"id": len(self.effects)})
            if undoes:
                self.undone.add(undoes)
        if self.bug == "undoes_twice" and undoes:
            return 200, {"id": len(self.effects) + time.monotonic()}
        self.used[key] = (what, answer)
        return answer


passed = failed = 0
folder = tempfile.mkdtemp()


def is_(what, expected, got):
    global passed, failed
    if expected == got:
        passed += 1
    else:
        failed += 1
        print("FAIL %s\n  expected %r\n  got      %r" % (what, expected, got))


def conform(*args, idempotency=HEADER, **more):
    path = folder + "/pay.yaml"
    with open(path, "w") as file:
        file.write(WORKFLOW % idempotency)
    return subprocess.run([SAGACTL, "conform", path, *args], capture_output=True, text=True,
                          timeout=120, stdin=subprocess.DEVNULL, **more)


def put_to_it(bank, *args, step="hold", **more):
    """The exit code, {check: verdict}, and the whole report."""
    done = conform(step, "--url", bank.url, "--yes", "-o", "json", *args, **more)
    bank.close()
    assert done.stdout, done
    report = json.loads(done.stdout)
    return done.returncode, {c["check"]: c["verdict"] for c in report["checks"]}, report


CHECKS = ["first", "again", "at once", "cut", "other body", "number", "undo", "undo again", "late",
          "undo first", "late do"]
# What each bug is found by; n: noted.
BUGS = {
    "forgets_keys": {"again", "at once", "cut", "number", "other body", "undo again"},
    "races": {"at once"},
    "answers_409": {"at once"},
    "says_in_work": set(),
    "says_duplicate": {"again", "at once", "cut", "number n"},
    "ignores_body": {"other body"},
    "does_other": {"other body"},
    "does_not_say_other": set(),
    "compares_texts": {"number n"},
    "undoes_once": {"undo again"},
    "undoes_twice": {"undo again"},
    "does_undone_anew": {"late"},
    "replays_undone": {"late n"},
    "refuses_undo_of_nothing": {"undo first"},
    "accepts_late_do": {"late do"},
}


def the_right_one():
    bank = Bank()
    code, checks, report = put_to_it(bank)
    is_("a right one passes every check", (0, dict.fromkeys(CHECKS, "pass")), (code, checks))
    is_("nothing is left behind", None, report["left"])
    is_("what was done was undone", [3, 3],
        [len([e for e in bank.effects if not e[1]]), len([e for e in bank.effects if e[1]])])


def each_bug():
    for bug, found in BUGS.items():
        bank = Bank(bug)
        code, checks, _ = put_to_it(bank)
        seen = {name + (" n" if verdict == "note" else "") for name, verdict in checks.items()
                if verdict in ("fail", "note")}
        is_(bug, found, seen)
        fails = any(not f.endswith(" n") for f in found)
        is_(bug + ": exit code", 1 if fails else 0, code)


def left_behind():
    bank = Bank("accepts_late_do")
    code, _, report = put_to_it(bank)
    is_("what could not be undone is named", 1, len(report["left"].split()))
    is_("by its key", True, report["left"].endswith(":hold:execute"))


def places_of_keys():
    uuid = []

    def header(handler, body):
        uuid.append(handler.headers["X-Key"])
        return uuid[-1]

    code, checks, _ = put_to_it(Bank(key_from=header),
                                idempotency="{header: X-Key, format: sha256, ttl: 7d}")
    is_("a header of another name, another form", (0, 64), (code, len(uuid[0])))
    code, checks, _ = put_to_it(
        Bank(key_from=lambda h, b: json.loads(b)["key"]), idempotency="{body: /key, ttl: 7d}")
    is_("in the body", (0, {"pass"}), (code, set(checks.values())))


def irreversible():
    code, checks, report = put_to_it(Bank(), step="file")
    is_("a step without an undo", (0, "skip"), (code, checks["undo"]))
    is_("what it has done is named", 3, len(report["left"].split()))


def does_nothing_unasked():
    bank = Bank()
    done = conform("hold", "--url", bank.url)
    is_("without --yes nothing is sent", (2, []), (done.returncode, bank.effects))
    is_("which is said", True, "real things" in done.stderr and "--yes" in done.stderr)
    for typed, code in (b"n\n", 1), (b"\n", 1), (b"y\n", 0):
        terminal, side = pty.openpty()
        process = subprocess.Popen([SAGACTL, "conform", folder + "/pay.yaml", "hold", "--url",
                                    bank.url], stdin=side, stderr=side, stdout=subprocess.PIPE)
        os.write(terminal, typed)
        process.communicate(timeout=60)
        os.close(side)
        os.close(terminal)
        is_("a person says %r" % typed, (code, code == 0), (process.returncode, bool(bank.effects)))
    bank.close()


def wrong_use():
    bank = Bank()
    url = ("--url", bank.url, "--yes")
    for what, args, said in (
            ("no such step", ("hald", *url), "did you mean hold?"),
            ("a pure step", ("look", *url), "pure"),
            ("a loop", ("each", *url), "loop"),
            ("no HTTP", ("rest", *url), "sleep"),
            ("no step", (), "FILE STEP"),
            ("input that does not fit", ("hold", "--input", '{"order": 1}', *url), "does not fit"),
            ("input that is no JSON", ("hold", "--input", "{", *url), "not JSON"),
            ("no such config", ("hold", "--config", folder + "/none", *url), "none")):
        done = conform(*args)
        is_(what, (2, True), (done.returncode, said in done.stderr))
        if said not in done.stderr:
            print(done.stderr)
    is_("nothing was sent", [], bank.effects)
    bank.close()
    done = conform("hold", "--url", bank.url, "--yes")
    is_("nobody listens", (1, True), (done.returncode, "fail  first" in done.stdout))
    code, checks, _ = put_to_it(Bank("broken"))
    is_("a broken one is not asked for more", (1, {"first": "fail"}), (code, checks))


def inputs():
    orders = set()
    bank = Bank()
    handle = bank.handle

    def look(handler, text):
        orders.add(json.loads(text).get("order"))
        return handle(handler, text)

    bank.handle = look
    code, _, _ = put_to_it(bank, "--input", '{"order": "A-{n}", "amount": 1}')
    is_("a number for each effect", (0, True), (code, all(o.startswith("A-") for o in orders)))
    is_("another one for each of them", 4, len({o.rstrip("x") for o in orders}))


def the_shop():
    ledgers, services = tempfile.mkdtemp(), []
    ports = {}
    for name in ("inventory", "payments"):
        service = subprocess.Popen([os.path.join(BUILD, "examples", "shop", name), "--port", "0",
                                    "--ledger", ledgers + "/" + name], stdout=subprocess.PIPE, text=True)
        services.append(service)
        ports[name] = service.stdout.readline().rsplit(":", 1)[1].strip()
    file = os.path.join(ROOT, "examples", "shop", "order.yaml")

    def shop(step, name):
        done = subprocess.run([SAGACTL, "conform", file, step, "--url",
                               "http://127.0.0.1:" + ports[name], "--yes", "-o", "json"],
                              capture_output=True, text=True, timeout=60)
        return done.returncode, {c["check"]: c["verdict"] for c in json.loads(done.stdout)["checks"]}

    code, checks = shop("charge", "payments")
    is_("payments: an undo needs the answer, so it cannot come first",
        (0, "skip", "note"), (code, checks["undo first"], checks["late"]))
    code, checks = shop("reserve", "inventory")
    is_("inventory: takes what comes after its undo", (1, "fail"), (code, checks["late do"]))
    is_("and nothing else", 1, list(checks.values()).count("fail"))
    for service in services:
        service.terminate()
        service.wait()
        service.stdout.close()


def secrets_are_used_and_not_shown():
    bank = Bank()
    seen = set()
    handle = bank.handle

    def look(handler, text):
        seen.add(handler.headers["Authorization"])
        return 401, {"code": "no", "message": "wrong token " + handler.headers["Authorization"]}

    bank.handle = look
    path = folder + "/sagad.yaml"
    with open(path, "w") as file:
        file.write('secrets: {token: "env:BANK_TOKEN"}\nservices:\n  bank:\n    url: "%s"\n'
                   '    auth: {bearer: "${{ secrets.token }}"}\n' % bank.url)
    done = conform("hold", "--config", path, "--yes", env=dict(os.environ, BANK_TOKEN="hush-hush"))
    bank.close()
    is_("a secret of the config is sent", {"Bearer hush-hush"}, seen)
    is_("and not shown", False, "hush-hush" in done.stdout + done.stderr)
    assert handle


for test in (the_right_one, each_bug, left_behind, places_of_keys, irreversible,
             does_nothing_unasked, wrong_use, inputs, the_shop, secrets_are_used_and_not_shown):
    test()
print("\n%d passed, %d failed" % (passed, failed))
sys.exit(1 if failed else 0)
