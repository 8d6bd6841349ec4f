#!/usr/bin/env python3
"""The services of the shop keep their promises; the other tests and the demo lean on them."""
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
BUILD = os.environ.get("BUILD", "build")


class Service:
    def __init__(self, name, ledger, *flags):
        program = os.path.join(ROOT, BUILD, "examples", "shop", name)
        self.process = subprocess.Popen(
            [program, "--port", "0", "--ledger", ledger, *flags], stdout=subprocess.PIPE, text=True
        )
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])

    def call(self, method, path, body=None, key=None, timeout=5):
        headers = {"Content-Type": "application/json", "Saga-Run": "r1", "Saga-Step": "s1"}
        if key:
            headers["Idempotency-Key"] = key
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read()), answer.headers
        finally:
            connection.close()

    def ledger(self):
        return self.call("GET", "/ledger")[1]

    def switch(self, **switches):
        return self.call("PUT", "/switches", switches)[1]

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        code = self.process.wait(10)
        self.process.stdout.close()
        return code


def same_key_same_request_is_done_once(start):
    payments = start("payments")
    first = payments.call("POST", "/charges", {"amount_cents": 4200}, key="k1")
    # Members in another order and another spelling of the number are the same request.
    again = payments.call("POST", "/charges", {"amount_cents": 4200}, key="k1")
    assert first[0] == again[0] == 201 and first[1] == again[1]
    assert first[2]["Idempotency-Replayed"] is None and again[2]["Idempotency-Replayed"] == "true"
    (row,) = payments.ledger()
    assert (row["key"], row["run"], row["step"]) == ("k1", "r1", "s1")
    assert (row["times_seen"], row["effects_applied"]) == (2, 1)
    assert len(row["request_hash"]) == 64


def same_key_other_request_is_refused(start):
    payments = start("payments")
    payments.call("POST", "/charges", {"amount_cents": 4200}, key="k1")
    status, body, _ = payments.call("POST", "/charges", {"amount_cents": 4300}, key="k1")
    assert (status, body["code"]) == (422, "idempotency_key_reused")
    assert [row["effects_applied"] for row in payments.ledger()] == [1]


def without_keys_every_request_is_an_effect(start):
    payments = start("payments", "--keyless")
    for _ in range(2):
        assert payments.call("POST", "/charges", {"amount_cents": 1}, key="k1")[0] == 201
    assert [(r["times_seen"], r["effects_applied"]) for r in payments.ledger()] == [(2, 2)]
    _, found, _ = payments.call("GET", "/charges?key=k1")
    assert [charge["id"] for charge in found["data"]] == ["ch_000002", "ch_000001"]


def ledger_outlives_a_kill(start):
    payments = start("payments")
    charge = payments.call("POST", "/charges", {"amount_cents": 7}, key="k1")[1]
    payments.end(signal.SIGKILL)
    with open(start.ledger("payments"), "a") as file:
        file.write('{"kind":"charge","subject":"torn')
    payments = start("payments")
    status, body, headers = payments.call("POST", "/charges", {"amount_cents": 7}, key="k1")
    assert (status, body, headers["Idempotency-Replayed"]) == (201, charge, "true")
    assert payments.call("POST", "/charges", {"amount_cents": 8}, key="k2")[1]["id"] == "ch_000002"
    assert [r["times_seen"] for r in payments.ledger()] == [2, 1]
    assert payments.end() == 0
    assert len(start("payments").ledger()) == 2


def damaged_ledger_is_refused(start):
    with open(start.ledger("payments"), "w") as file:
        file.write("not a ledger\n")
    program = os.path.join(ROOT, BUILD, "examples", "shop", "payments")
    done = subprocess.run(
        [program, "--port", "0", "--ledger", start.ledger("payments")],
        capture_output=True, text=True, timeout=5,
    )
    assert done.returncode == 1 and "ledger line 1" in done.stderr


def refund_gives_a_charge_back_once(start):
    payments = start("payments")
    charge = payments.call("POST", "/charges", {"amount_cents": 7}, key="c")[1]["id"]
    status, refund, _ = payments.call("POST", "/refunds", {"charge": charge}, key="r")
    assert status == 201 and refund["amount_cents"] == 7
    assert payments.call("POST", "/refunds", {"charge": charge}, key="r")[1] == refund
    status, body, _ = payments.call("POST", "/refunds", {"charge": charge}, key="other")
    assert (status, body["code"]) == (409, "charge_already_refunded")
    assert payments.call("POST", "/refunds", {"charge": "ch_999999"}, key="x")[0] == 404
    assert payments.call("POST", "/charges", {"amount_cents": 0}, key="y")[0] == 422
    assert payments.call("GET", "/charges?key=nobody")[1] == {"data": []}


def reservation_is_released_once(start):
    inventory = start("inventory")
    assert inventory.call("DELETE", "/reservations/ORD-1", key="d0")[0] == 404
    held = inventory.call("POST", "/reservations", {"sku": "lamp", "order": "ORD-1"}, key="p")
    assert held[0] == 201
    assert inventory.call("GET", "/reservations/ORD-1")[1] == held[1]
    assert inventory.call("DELETE", "/reservations/ORD-1", key="d1")[0] == 200
    assert inventory.call("DELETE", "/reservations/ORD-1", key="d1")[0] == 200  # replayed
    assert inventory.call("DELETE", "/reservations/ORD-1", key="d2")[0] == 404
    assert inventory.call("GET", "/reservations/ORD-1")[0] == 404


def mail_needs_an_address(start):
    mail = start("mail")
    assert mail.call("POST", "/messages", {"to": "a@b", "template": "receipt"}, key="m")[0] == 201
    status, body, _ = mail.call("POST", "/messages", {"to": "nobody", "template": "x"}, key="n")
    assert (status, body["code"]) == (422, "invalid_recipient")
    assert [row["what"] for row in mail.ledger()] == ["message receipt to a@b"]


def drop_does_the_work_and_loses_the_answer(start):
    payments = start("payments", "--drop", "1")
    try:
        payments.call("POST", "/charges", {"amount_cents": 7}, key="k")
        raise AssertionError("it answered")
    except (http.client.BadStatusLine, ConnectionError):
        pass
    assert [row["effects_applied"] for row in payments.ledger()] == [1]
    assert payments.call("POST", "/charges", {"amount_cents": 7}, key="k")[0] == 201
    assert [row["effects_applied"] for row in payments.ledger()] == [1]


def fail_does_nothing_and_says_when_to_return(start):
    payments = start("payments", "--fail", "503:2:7")
    for _ in range(2):
        status, _, headers = payments.call("POST", "/charges", {"amount_cents": 7}, key="k")
        assert (status, headers["Retry-After"]) == (503, "7")
    assert payments.ledger() == []
    assert payments.call("POST", "/charges", {"amount_cents": 7}, key="k")[0] == 201
    payments.switch(fail={"status": 500})
    assert payments.call("POST", "/charges", {"amount_cents": 7}, key="k2")[0] == 500
    payments.switch(fail=None)
    assert payments.call("POST", "/charges", {"amount_cents": 7}, key="k2")[0] == 201


def refuse_matches_a_field(start):
    inventory = start("inventory", "--refuse", "409:out_of_stock:sku=lamp")
    status, body, _ = inventory.call("POST", "/reservations", {"sku": "lamp", "order": "1"}, "a")
    assert (status, body["code"]) == (409, "out_of_stock")
    assert inventory.call("POST", "/reservations", {"sku": "desk", "order": "2"}, "b")[0] == 201
    state = inventory.switch(refuse={"status": 422, "code": "no", "field": "path",
                                     "value": "/reservations/"})
    assert state["refuse"]["field"] == "path"
    assert inventory.call("DELETE", "/reservations/2", key="c")[0] == 422
    assert inventory.switch(refuse=None)["refuse"] is None
    assert inventory.call("DELETE", "/reservations/2", key="c")[0] == 200


def slow_works_at_once_and_answers_late(start):
    payments = start("payments", "--slow", "400")
    try:
        payments.call("POST", "/charges", {"amount_cents": 7}, key="k", timeout=0.1)
        raise AssertionError("it answered at once")
    except TimeoutError:
        pass
    assert [row["effects_applied"] for row in payments.ledger()] == [1]
    begun = time.monotonic()
    assert payments.call("POST", "/charges", {"amount_cents": 7}, key="k")[0] == 201
    assert time.monotonic() - begun >= 0.35
    assert payments.process.poll() is None  # the client that hung up did no harm


def bad_requests_are_answered(start):
    mail = start("mail")
    connection = http.client.HTTPConnection("127.0.0.1", mail.port, timeout=5)
    connection.request("POST", "/messages", '{"to": "a@b", "to": "c@d"}')
    answer = connection.getresponse()
    assert answer.status == 400 and json.loads(answer.read())["code"] == "malformed_json"
    connection.close()
    assert mail.call("GET", "/nothing")[0] == 404


CASES = [
    same_key_same_request_is_done_once,
    same_key_other_request_is_refused,
    without_keys_every_request_is_an_effect,
    ledger_outlives_a_kill,
    damaged_ledger_is_refused,
    refund_gives_a_charge_back_once,
    reservation_is_released_once,
    mail_needs_an_address,
    drop_does_the_work_and_loses_the_answer,
    fail_does_nothing_and_says_when_to_return,
    refuse_matches_a_field,
    slow_works_at_once_and_answers_late,
    bad_requests_are_answered,
]


def run(case):
    started = []
    with tempfile.TemporaryDirectory() as folder:

        def start(name, *flags):
            started.append(Service(name, start.ledger(name), *flags))
            return started[-1]

        start.ledger = lambda name: os.path.join(folder, name + ".ledger")
        try:
            case(start)
            return True
        except Exception as error:  # reported with its case; the others still run
            import traceback

            print(f"{case.__name__}: {error!r}")
            traceback.print_exc(file=sys.stdout)
            return False
        finally:
            for service in started:
                if service.process.poll() is None:
                    service.end(signal.SIGKILL)
                service.process.stdout.close()


results = [run(case) for case in CASES]
print(f"{results.count(True)} passed, {results.count(False)} failed")
sys.exit(0 if all(results) else 1)
