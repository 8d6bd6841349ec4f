#!/usr/bin/env python3
"""What comes on stdout: for machines exactly what the daemon sent, for people golden texts."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "lib"))
from ctl_case import ROOT, CtlCase, main  # noqa: E402
from fake_sagad import Answer, add_run, at, event, problem, run, step  # noqa: E402

DECLINED = {"code": "card_declined", "status": 402, "message": "the card was declined",
            "body": {"error": "declined"}}
BROKEN = {"code": "internal", "status": 500, "message": "inventory is broken", "body": None}
LOST = {"code": "no_answer", "status": None, "message": "no answer in 5s", "body": None}

# Digits, spellings and order that a client which reads numbers or sorts members would lose.
EXACT = ('{"z":1,"a":19.90,"big":12345678901234567890123,"e":1.0E+2,"neg":-0,'
         '"text":"caf\\u00e9 \\/ \\"q\\"","deep":%s,"dup":{"k":1}}')
DEEP = "[" * 60 + "1" + "]" * 60


def completed():
    times = dict(started_at=at(-300), ended_at=at(-299.5))
    return run("completed", [step("reserve", "applied", output={"id": 1}, **times),
                             step("charge", "applied", attempts=2, **times),
                             step("confirm", "skipped"),
                             step("receipt", "refused", effect="irreversible", error=BROKEN)],
               output={"charge_id": "ch_1"}, tenant="shop")


def parked():
    return run(
        "parked",
        [step("reserve", "applied", compensation_state="refused", attempts=1,
              compensation_attempts=10, compensation_error=BROKEN,
              compensation_key="order-1:reserve:compensate",
              started_at=at(-300), ended_at=at(-299)),
         step("audit", "applied", effect="pure", started_at=at(-299), ended_at=at(-298.9)),
         step("charge", "unknown", attempts=3, error=LOST, started_at=at(-298),
              ended_at=at(-290)),
         step("confirm"), step("receipt", effect="irreversible")],
        cause="step_refused", error={"step": "charge", **DECLINED}, tenant="shop",
        park_reason="compensation_failed", next_verbs=["retry", "settle", "skip", "abandon"],
        residue=[{"step": "reserve", "key": "order-1:reserve:execute", "state": "applied",
                  "why": "not_undone", "reason": "compensation_failed"},
                 {"step": "charge", "key": "order-1:charge:execute", "state": "unknown",
                  "why": "unknown", "reason": "outcome_unknown"}])


def retrying():
    return run("running", [step("reserve", "applied", started_at=at(-5), ended_at=at(-4.9)),
                           step("charge", "retrying", attempts=2, next_at=at(3600 * 5),
                                error={"code": "unavailable", "status": 503, "message": "later"},
                                started_at=at(-4.9)),
                           step("confirm"), step("receipt", effect="irreversible")],
               waiting_for="retry", run_id="order-2")


def looping():
    items = [step("send.%d" % n, "applied" if n < 12 else "claimed") for n in range(15)]
    items[3].update(state="retrying", attempts=2, next_at=at(3600 * 5),
                    error={"code": "unavailable", "status": 503, "message": "later"})
    few = [step("mark.a", "applied", started_at=at(-9), ended_at=at(-8)), step("mark.b", "claimed")]
    return run("running", [step("send", "waiting", attempts=0, items=40), *items,
                           step("mark", "waiting", attempts=0, items=2), *few,
                           step("sender")], run_id="order-4")


def stopped_loop():
    """A long loop on its way back: most of it undone, one item not."""
    items = [step("send.%d" % n, "applied", attempts=1, compensation_attempts=1,
                  compensation_state="applied" if n > 20 else None) for n in range(40)]
    items[20].update(compensation_state="refused", compensation_error=BROKEN)
    left = [{"step": "send.%d" % n, "key": "order-7:send.%d:execute" % n, "state": "applied",
             "why": "not_undone", "reason": "compensation_failed" if n == 20 else None}
            for n in range(21)]
    return run("parked", [step("reserve", "applied"), step("send", "applied", attempts=0, items=40),
                          *items, step("mark", "applied", attempts=0, items=1),
                          step("mark.a", "applied", compensation_state="applied")],
               run_id="order-7", cause="step_refused", error={"step": "close", **DECLINED},
               park_reason="compensation_failed", residue=left,
               next_verbs=["retry", "settle", "skip", "abandon"])


def family():
    """A child that waits for its own child."""
    return run("running", [step("pack", "applied"), step("ship", "claimed")],
               run_id="order-5~deliver", parent="order-5", waiting_for="child",
               children=[{"run_id": "order-5~deliver~ship", "workflow": "shipping",
                          "state": "parked", "created_at": at(-10), "ended_at": None},
                         {"run_id": "order-5~deliver~pack", "workflow": "packing",
                          "state": "completed", "created_at": at(-20), "ended_at": at(-15)}])


def gated():
    """Two steps are in motion; the daemon says which one the run waits for."""
    return run("running", [step("scan", "waiting", next_at=at(3600 * 5)),
                           step("slip", "applied", stays="nobody sees it"),
                           step("gate", "waiting", effect="pure", next_at=at(3600 * 5))],
               run_id="order-8", waiting_for="signal",
               waiting={"step": "gate", "signal": "approved", "queue": None, "taken": False,
                        "child": None})


def unknown(direction="execute", **more):
    return {"direction": direction, "since": at(-200), "asked": 3, "next_at": at(3600 * 5),
            "until": at(3600 * 9), "says": "unknown", "source": "reconcile", "found_at": at(-150),
            "found": "the answer proves nothing: none of the expressions is true", **more}


def asked():
    """The service is asked what became of an attempt, and of an undo."""
    return run("compensating", [
        step("reserve", "applied", started_at=at(-300), ended_at=at(-299), compensation_state="unknown",
             compensation_attempts=1, compensation_error=LOST, compensation_started_at=at(-7230),
             unknown=unknown("compensate", asked=1, next_at=at(3600 * 6),
                             found="the question was answered with 503")),
        step("charge", "unknown", attempts=2, error=LOST, started_at=at(-10830), unknown=unknown()),
        step("confirm")], run_id="order-9", cause="cancelled", waiting_for="reconcile",
        waiting={"step": "charge", "signal": None, "queue": None, "taken": False, "child": None})


def asked_in_vain():
    """Nobody told what became of it within the time for asking."""
    findings = [{"step": "charge", "direction": "execute", "number": n, "at": at(-200 + n),
                 "source": source, "says": says, "status": status, "detail": detail, "body": None,
                 "actor": actor}
                for n, source, says, status, detail, actor in (
                    (1, "reconcile", "unknown", 503, "the question was answered with 503", None),
                    (2, "reconcile", "in_progress", 200, "`in_progress` is true", None),
                    (3, "person", "retryable", None, "it is not in their books", "uid:1000"))]
    return run("parked", [step("charge", "unknown", attempts=1, error=LOST, started_at=at(-298),
                               ended_at=at(-100),
                               unknown=unknown(next_at=None, source="person", says="retryable",
                                               found="it is not in their books")),
                          step("notice", "unknown", unknown=unknown(asked=0, next_at=None,
                                                                    until=None, found=None))],
               run_id="order-10", park_reason="outcome_unknown", findings=findings,
               next_verbs=["settle", "retry", "skip", "abandon"])


def corrected():
    """People had a hand in it; it may still be undone."""
    return run("completed",
               [step("hold", "applied"),
                step("pay", "applied", key="mended-1:pay:execute@2",
                     renewed="refused, then retried by uid:7: typing error"),
                step("tell", "applied", step_input={"told": 1}, compensation_step_input=[2])],
               run_id="mended-1", undoable_until=at(3600),
               inputs=[{"number": 1, "direction": "execute", "input": {"account": "right"},
                        "at": at(-20), "actor": "uid:7"}])


HISTORY = [event(1, "claimed", "reserve"), event(2, "applied", "reserve"),
           event(3, "turned back", "charge", "step_refused"),
           event(4, "parked", "reserve", "compensation_failed")]


class Output(CtlCase):
    def world(self):
        add_run(self.fake, parked())
        add_run(self.fake, retrying())
        done = completed()
        done["run_id"] = "order-3"
        add_run(self.fake, done)
        add_run(self.fake, looping())
        add_run(self.fake, stopped_loop())
        add_run(self.fake, family())
        add_run(self.fake, gated())
        add_run(self.fake, corrected())
        add_run(self.fake, asked())
        self.fake.on("GET", "/v1/runs/order-10", asked_in_vain())
        self.fake.on("GET", "/v1/runs/order-10/events", {"events": []})
        add_run(self.fake, run("queued", [step("send", "pending")], run_id="order-6",
                               start_at=at(3600 * 5), waiting_for="timer"))
        self.fake.on("GET", "/v1/runs", {"runs": [parked(), retrying(), done], "next": None})
        self.fake.on("GET", "/v1/runs/order-1/events", {"events": HISTORY})
        bulk = {"bulk_id": "b1", "verb": "retry", "state": "done", "total": 2, "released": 2,
                "done": 1, "refused": 1, "lost": 0, "stopped": None, "filter": {"state": "parked"},
                "reason": "x", "rate": 10, "max_error_share": 0.2,
                "actor": "uid:7", "at": at(-9), "ended_at": at(-8),
                "refusals": [{"run_id": "order-2", "outcome": "refused", "answer": "the run is "
                              "running, only a parked run can be retried"}]}
        self.fake.on("GET", "/v1/bulk/b2", {
            **bulk, "bulk_id": "b2", "verb": "abandon", "state": "working", "total": 100,
            "released": 40, "done": 36, "refused": 1, "lost": 1, "rate": 0.5, "ended_at": None,
            "refusals": [*bulk["refusals"], {"run_id": "order-3", "outcome": "lost",
                                             "answer": "there is no such run"}]})
        self.fake.on("GET", "/v1/bulk", {"bulk": [bulk]})
        self.fake.on("GET", "/v1/bulk/b1", bulk)
        self.fake.on("POST", "/v1/bulk/b1/stop", {**bulk, "stopped": "stopped by uid:7"})
        self.fake.on("POST", "/v1/answers", {"run_id": "order-1", "state": "running"})
        self.fake.on("POST", "/v1/runs:retry", lambda r: {"count": 2, "token": "t", "run_ids": [
            "order-1", "order-2"]} if r.document.get("dry_run") else Answer(
                {"bulk_id": "b1", "total": 2}, 202))
        self.fake.on("GET", "/v1/dead", {"dead": [
            {"run_id": "order-1", "workflow": "order", "reason": "compensation_failed",
             "step_id": "reserve", "direction": "compensate", "parked_at": at(-200),
             "created_at": at(-300), "cause": "step_refused",
             "error": {"step": "charge", **DECLINED},
             "next_verbs": ["retry", "settle", "skip", "abandon"], "next": "retry",
             "effects": [{"step": "reserve", "direction": "execute", "state": "applied",
                          "key": "order-1:reserve:execute", "attempts": 1,
                          "request_hash": "0123456789abcdef" * 4, "first_sent": at(-299),
                          "output": {"id": 1}, "key_valid_until": at(-50)},
                         {"step": "reserve", "direction": "compensate", "state": "refused",
                          "key": "order-1:reserve:compensate@2", "attempts": 10,
                          "request_hash": "fedcba9876543210" * 4, "first_sent": at(-280),
                          "renewed": "refused, then retried by uid:7: it is mended",
                          "step_input": {"force": True}, "output": None, "error": BROKEN,
                          "key_valid_until": at(500)},
                         {"step": "charge", "direction": "execute", "state": "unknown",
                          "key": "order-1:charge:execute", "attempts": 3,
                          "key_valid_until": None}],
             "attempts": [{"step": "charge", "direction": "execute", "number": n,
                           "sent_at": at(-299 + n), "ended_at": at(-298 + n),
                           "outcome": "unknown", "status": None, "error": LOST}
                          for n in (1, 2, 3)]}]})
        self.fake.on("GET", "/v1/workflows", {"workflows": [
            {"workflow": "order", "version": "1.0", "hash": "ab" * 32, "steps": [{}, {}, {}, {}],
             "description": "Reserve stock, charge the card.", "applied_at": at(-7200),
             "applied_by": "uid:0", "current": True}]})
        self.fake.on("GET", "/v1/services", {"services": [
            {"service": "mail", "state": "closed", "in_flight": 0, "waiting": 0,
             "open_until": None, "daemons": "", "why": ""},
            {"service": "payments", "state": "open", "in_flight": 2, "waiting": 17,
             "open_until": at(12), "daemons": "sagad-1",
             "why": "it failed too often: nothing is sent to it"}]})
        self.fake.on("GET", "/v1/daemons", {"daemons": [
            {"daemon": "sagad-1", "alive": True, "left_cleanly": False, "shards": 40,
             "open_runs": 12, "epoch": 3, "units": 4711, "last_seen": at(-630),
             "lease": "10.000000s"},
            {"daemon": "sagad-2", "alive": False, "left_cleanly": True, "shards": 0,
             "open_runs": 0, "epoch": 1, "units": 17, "last_seen": at(-690),
             "lease": "10.000000s"}]})
        self.fake.on("GET", "/v1/audit", {"acts": [
            {"at": at(-60), "verb": "settle", "actor": "uid:1001", "run_id": "order-1",
             "step_id": "charge", "reason": "the bank says so", "outcome": "done", "chain": 7,
             "no": 2, "hash": "cd" * 32},
            {"at": at(-90), "verb": "cancel", "actor": "role:ann", "run_id": "order-1",
             "step_id": None, "reason": "no stock", "outcome": "refused: the run has ended",
             "chain": 7, "no": 1, "hash": "ab" * 32}]})
        self.fake.on("POST", "/v1/audit/verify", {"ok": True, "acts": 2, "chains": [
            {"chain": 7, "no": 2, "hash": "cd" * 32, "problem": None}]})
        self.fake.on("GET", "/v1/ping", {"daemon": "sagad-1", "version": "0.1.0",
                                         "database": "up", "shards": 64, "uptime_s": 3725})
        self.fake.on("POST", "/v1/runs", Answer({"run_id": "order-2", "state": "running"}, 202))
        for verb in "cancel pause resume compensate abandon retry".split():
            self.fake.on("POST", "/v1/runs/order-1/" + verb,
                         {"run_id": "order-1", "state": "compensating"})
        for verb in ("settle", "skip"):
            self.fake.on("POST", "/v1/runs/order-1/steps/charge/" + verb,
                         {"run_id": "order-1", "state": "compensating"})
        self.order = os.path.join(ROOT, "examples", "shop", "order.yaml")
        self.fake.on("PUT", "/v1/workflows", {"workflow": "order", "version": "1.0", "hash": "ab",
                                              "status": "applied", "warnings": []})
        self.fake.on("POST", "/v1/validate", {"ok": True, "diagnostics": []})

    def commands(self):
        return [["validate", self.order], ["apply", self.order], ["workflows"], ["schema"],
                ["run", "order"], ["list"], ["show", "order-1"], ["wait", "order-3"],
                ["events", "order-1"], ["explain", "order-1"], ["explain", "E203"],
                ["explain", "--states"], ["dead"], ["dead", "show", "order-1"], ["services"], ["daemons"],
                ["audit"], ["audit", "list", "--run", "order-1"], ["audit", "verify"],
                ["bulk"], ["bulk", "show", "b1"], ["bulk", "stop", "b1"],
                ["answer", "order-1:charge:execute", "--applied"],
                ["retry", "order-1", "order-2", "--yes", "--reason", "x"],
                ["ping"], ["run", "order", "--wait", "--timeout", "300ms"],
                ["settle", "order-1", "charge", "--applied", "--reason", "x"],
                ["skip", "order-1", "charge", "--reason", "x"],
                *[[verb, "order-1", "--reason", "x"]
                  for verb in "cancel pause resume compensate abandon retry".split()]]

    def test_a_cli_2_json(self):
        """With -o json stdout is one JSON document and nothing else, with -o jsonl a document a
        line, of every verb; the exit code is the same."""
        self.world()
        for command in self.commands():
            with self.subTest(command=command):
                people = self.ctl(*command)
                pretty = self.ctl(*command, "-o", "json")
                lines = self.ctl(*command, "-o", "jsonl")
                self.assertEqual([people.code] * 2, [pretty.code, lines.code])
                self.assertTrue(json.loads(pretty.out))
                self.assertTrue(pretty.out.endswith("\n"))
                self.assertTrue(lines.out)
                for line in lines.out.splitlines():
                    self.assertTrue(json.loads(line))
                self.assertEqual(pretty.out,
                                 self.ctl(*command, "--json", "--color", "always").out)

    def test_a_cli_2_exact(self):
        """Digits, spelling, order and depth of the daemon's JSON come out as they went in."""
        self.world()
        exact = EXACT % DEEP
        self.fake.on("GET", "/v1/runs/x", Answer(raw=(
            '{"run_id":"x","state":"completed","output":%s,"steps":[]}' % exact).encode()))
        for args in (["show", "x"], ["wait", "x"]):
            result = self.ctl(*args, "-o", "json")
            self.assert_exit(0, result)
            # Undo only the layout: outside of strings, JSON has no other white space.
            squeezed = self.ctl(*args, "-o", "jsonl").out
            self.assertEqual('{"run_id":"x","state":"completed","output":%s,"steps":[]}\n' % exact,
                             squeezed)
            self.assertEqual(squeezed.replace('caf\\u00e9 \\/', "").replace(" ", ""),
                             "".join(part.strip() for part in result.out.replace(
                                 'caf\\u00e9 \\/', "").splitlines()).replace(" ", "") + "\n")
        row = '{"run_id":"x","state":"completed","workflow":"w","input":%s}' % exact
        self.fake.on("GET", "/v1/runs", Answer(raw=('{"next":null,"runs":[%s,\n%s]}'
                                                    % (row, row)).encode()))
        self.assertEqual(row + "\n" + row + "\n", self.ctl("list", "-o", "jsonl").out)
        self.assertIn("19.90", self.ctl("list", "-o", "json").out)
        people = self.ctl("show", "x")
        self.assert_exit(0, people)
        self.assertIn('"a":19.90,"big":12345678901234567890123', people.out)
        self.assertIn("x    w", self.ctl("list").out)

    def test_layout(self):
        """Pretty JSON is indented by two, with empty containers closed at once."""
        self.fake.on("GET", "/v1/ping", Answer(raw=b'{"a":[],"b":{ },"c":[1,{"d":[[]]}], "e":""}'))
        self.assertEqual('{\n  "a": [],\n  "b": {},\n  "c": [\n    1,\n    {\n      "d": [\n'
                         '        []\n      ]\n    }\n  ],\n  "e": ""\n}\n',
                         self.ctl("ping", "--json").out)

    def test_names(self):
        """-q and -o name print ids only, one a line."""
        self.world()
        for command, names in ((["list"], "order-1\norder-2\norder-3\n"),
                               (["workflows"], "order\n"), (["dead"], "order-1\n"),
                               (["services"], "mail\npayments\n"), (["daemons"], "sagad-1\nsagad-2\n"),
                               (["audit"], "cd" * 32 + "\n" + "ab" * 32 + "\n"), (["ping"], "sagad-1\n"),
                               (["show", "order-1"], "order-1\n"),
                               (["dead", "show", "order-1"], "order-1\n"),
                               (["wait", "order-3"], "order-3\n"), (["run", "order"], "order-2\n"),
                               (["cancel", "order-1", "--reason", "x"], "order-1\n"),
                               (["validate", self.order], "order\n"),
                               (["apply", self.order], "order\n")):
            self.assertEqual(names, self.ctl(*command, "-q").out, command)
            self.assertEqual(names, self.ctl(*command, "-o", "name").out, command)

    STOOD_BEHIND = {"run_id": "order-7-a", "reason": "outcome_unknown"}

    def test_behind_a_parked_run(self):
        """Who stands behind a parked run, by its lock or as its parent, is told which and what to do."""
        said = ("order-7-a is parked and needs a person: it is not known whether a step was applied, "
                "and only a person can find out")
        waits = (("queued", {"waiting_for": "lock", "lock": {"value": "order-7", "holder": "order-7-a",
                                                             "position": 1}}),
                 ("running", {"waiting_for": "child", "waiting": {"step": "send", "child": "wire"}}))
        for state, more in waits:
            add_run(self.fake, run(state, [step("send", "claimed" if state == "running" else
                                                "pending")], behind=self.STOOD_BEHIND, **more))
            for verb in "explain", "show":
                told = self.ctl(verb, "order-1").out
                self.assertIn(said, told)
                self.assertIn("  sagactl dead show order-7-a ", told)
            self.assertIn("\n  %s.\n" % said, self.ctl("explain", "order-1").out)

    def test_abandoned(self):
        """Of a run that was closed as it was nothing goes on: no next time, no clock that runs."""
        add_run(self.fake, run("abandoned", [
            step("pay", "retrying", attempts=2, started_at=at(-200), next_at=at(-190)),
            step("ask", "unknown", unknown=unknown(), started_at=at(-200)),
            step("tell", "claimed", started_at=at(-200)),
            step("nap", "waiting", started_at=at(-200), next_at=at(50)),
            step("back", "applied", compensation_state="retrying", compensation_attempts=1,
                 compensation_started_at=at(-200), compensation_error=BROKEN)],
            ended_at=at(-100)))
        shown = self.ctl("show", "order-1").out
        for word in "next in", "ends in", "asked next":
            self.assertNotIn(word, shown)
        self.assertEqual(5, shown.count("1m 40s"), shown)
        told = self.ctl("explain", "order-1").out
        for line in ("pay failed 2 times and is not tried again, as the run was closed",
                     "tell had been sent, and was not answered when the run was closed",
                     "nap was waiting when the run was closed",
                     "back was not undone before the run was closed"):
            self.assertIn(line, told)
        self.assertNotIn("will be tried again", told)
        self.assertNotIn("asked next", told)

    def test_by_hand(self):
        """What is left by a person's word says whose, which and why."""
        left = [{"step": name, "key": "k", "state": state, "why": "by_hand", "reason": None}
                for name, state in (("pay", "applied"), ("ask", "refused"), ("tell", "skipped"),
                                    ("old", "applied"))]
        acts = [{"step": name, "verb": verb, "actor": "uid:7", "reason": reason, "at": at(-20)}
                for name, verb, reason in (("pay", "settle", "an older word"),
                                           ("pay", "settle", "it is in the books"),
                                           ("ask", "settle", "it is not"),
                                           ("tell", "skip", "told by phone"))]
        add_run(self.fake, run("compensated", [step("pay", "applied")], residue=left, by_hand=acts))
        shown = self.ctl("show", "order-1").out
        for line in (r"pay +settled as applied by uid:7: it is in the books",
                     r"ask +settled as not applied by uid:7: it is not",
                     r"tell +skipped by uid:7: told by phone", r"old +settled or skipped by a person"):
            self.assertRegex(shown, line)

    def test_loop_that_stopped(self):
        """A loop is told by its items: that it stopped does not mean that nothing was applied."""
        add_run(self.fake, run("parked", [
            step("send", "refused", attempts=0, items=2, error=DECLINED), step("send.a", "applied"),
            step("send.b", "refused", error=DECLINED)], park_reason="step_failed"))
        told = self.ctl("explain", "order-1").out
        self.assertIn("  send stopped, as one of its items failed for good", told)
        self.assertIn("  send.a was applied.", told)
        self.assertIn("  send.b was not applied; it failed for good", told)

    def test_pages(self):
        """A list that goes on says by which cursor; filters go to the daemon."""
        self.fake.on("GET", "/v1/runs", {"runs": [run("running", [step("a")])],
                                         "next": "2026-01-02T03:04:05Z/order-1"})
        result = self.ctl("list", "--limit", "1", "--state", "paused", "--tenant", "acme")
        self.assert_exit(0, result)
        self.assertIn("--cursor '2026-01-02T03:04:05Z/order-1' goes on from here", result.err)
        asked = self.fake.requests[-1].target
        self.assertIn("state=paused", asked)
        self.assertIn("tenant=acme", asked)

    def test_approval_times(self):
        """An approval is no appointment, and what was never sent has taken no time."""
        add_run(self.fake, run("running", [
            step("pay", "waiting", attempts=0, approval="pending", started_at=at(-60),
                 next_at=at(3630)),
            step("gone", "refused", attempts=0, approval="expired", started_at=at(-60),
                 ended_at=at(-30))],
            waiting_for="approval", waiting={"step": "pay"}))
        told = self.ctl("explain", "order-1").out
        self.assertIn("a person's approval, for step pay, at most 1h 00m more.", told)
        self.assertRegex(self.ctl("show", "order-1").out, r"pay +compensable +waiting +ends in 1h")
        self.assertRegex(self.ctl("show", "order-1").out, r"gone +compensable +refused *\n")

    def test_golden(self):
        """What people read is as it was meant to be."""
        self.world()
        for name, command in (
                ("list", ["list"]), ("list_wide", ["list", "-o", "wide"]),
                ("show_parked", ["show", "order-1"]), ("show_completed", ["show", "order-3"]),
                ("show_wide", ["show", "order-3", "-o", "wide"]),
                ("bulk", ["bulk"]), ("bulk_show", ["bulk", "show", "b1"]),
                ("bulk_show_working", ["bulk", "show", "b2"]),
                ("show_corrected", ["show", "mended-1"]),
                ("dead_show_wide", ["dead", "show", "order-1", "-o", "wide"]),
                ("show_loop", ["show", "order-4"]),
                ("show_family", ["show", "order-5~deliver"]),
                ("show_queued", ["show", "order-6"]),
                ("explain_queued", ["explain", "order-6"]),
                ("explain_parked", ["explain", "order-1"]),
                ("explain_running", ["explain", "order-2"]),
                ("show_asked", ["show", "order-9"]), ("explain_asked", ["explain", "order-9"]),
                ("explain_asked_in_vain", ["explain", "order-10"]),
                ("dead_show_asked", ["dead", "show", "order-10"]),
                ("show_gate", ["show", "order-8"]),
                ("explain_gate", ["explain", "order-8"]),
                ("explain_loop", ["explain", "order-4"]),
                ("explain_stopped_loop", ["explain", "order-7"]),
                ("explain_completed", ["explain", "order-3"]),
                ("audit", ["audit"]), ("dead_list", ["dead", "list"]), ("dead_show", ["dead", "show", "order-1"]),
                ("events", ["events", "order-1"]), ("workflows", ["workflows"]),
                ("services", ["services", "-o", "wide"]), ("daemons", ["daemons", "-o", "wide"]), ("ping", ["ping"]),
                ("wait", ["wait", "order-3"]), ("states", ["explain", "--states"]),
                ("cancel", ["cancel", "order-1", "--reason", "x"])):
            result = self.ctl(*command)
            self.assert_exit(0, result)
            self.assertEqual("", result.err)
            text = result.out.replace("4h 59m", "5h 00m").replace("4m ago", "5m ago")
            self.assert_golden(name + ".txt", text)

    def test_waits(self):
        """What a run waits for is named as far as the daemon names it."""
        self.world()
        nothing = {"step": "gate", "signal": None, "queue": None, "taken": False, "child": None}
        for waiting, text in (
                ({"queue": "slips"}, 'a worker to take its task from the queue "slips", for step gate'),
                ({"queue": "slips", "taken": True},
                 'a worker, which has its task of the queue "slips", for step gate'),
                ({"service": "pay"}, 'room under the limits of the service "pay", for step gate'),
                ({"child": "archive"}, 'a run of "archive", for step gate'),
                ({}, "the answer of a service, for step gate")):
            add_run(self.fake, run("running", [step("gate", "claimed", stays="it is only paper")],
                                   waiting={**nothing, **waiting}))
            told = self.ctl("explain", "order-1").out
            self.assertIn("It waits for %s." % text, told)
            self.assertIn("gate would be awaited; what it did stays, as the workflow says.", told)
            self.assertNotIn("sagactl signal", told)

    def test_more_states(self):
        """Every park reason, cause and state is explained in words, not by its code alone."""
        for reason in ("outcome_unknown compensation_failed pivot_passed key_conflict step_failed "
                       "crash_loop quarantine").split():
            add_run(self.fake, run("parked", [step("charge", "refused", error=DECLINED)],
                                   park_reason=reason))
            for verb in (["explain", "order-1"], ["show", "order-1"]):
                result = self.ctl(*verb)
                self.assert_exit(0, result)
                self.assertNotIn(reason, result.out)
                self.assertIn("sagactl abandon order-1 --reason TEXT", result.out)
                self.assertEqual(reason == "key_conflict", "sagactl retry" not in result.out)
        for cause in "step_refused budget deadline cancelled operator".split():
            add_run(self.fake, run("compensating", [step("a", "applied")], cause=cause))
            result = self.ctl("explain", "order-1")
            self.assertIn("Then the run turned back: ", result.out)
            self.assertNotIn("step_refused", result.out)
        for state in "queued running compensating completed compensated parked abandoned".split():
            add_run(self.fake, run(state, [step("a")]))
            self.assertIn("(version 1.0) ", self.ctl("explain", "order-1").out)
            self.assertNotIn("does not know", self.ctl("explain", "order-1").out)

    def test_park_reason_from_history(self):
        """A run document that does not say why it is parked is completed from the history."""
        add_run(self.fake, run("parked", [step("charge", "unknown", error=LOST)]))
        self.fake.on("GET", "/v1/runs/order-1/events",
                     {"events": [event(1, "parked", "charge", "outcome_unknown")]})
        self.assertIn("it is not known whether a step was applied", self.ctl("show", "order-1").out)

    def test_paused(self):
        """A paused run says so and names the verb that resumes it."""
        add_run(self.fake, run("running", [step("a", "claimed")], paused=True,
                               waiting_for="paused"))
        self.fake.on("GET", "/v1/runs", {"runs": [run("running", paused=True)], "next": None})
        self.assertIn("order-1  running, paused\n", self.ctl("show", "order-1").out)
        self.assertIn("sagactl resume order-1", self.ctl("show", "order-1").out)
        self.assertIn("a person to resume it", self.ctl("explain", "order-1").out)
        self.assertIn("running, paused", self.ctl("list").out)

    def test_audit_verify(self):
        """A chain that is not whole is shown with its problem on stdout, said, and the exit is 1."""
        self.fake.on("POST", "/v1/audit/verify", {"ok": False, "acts": 2, "chains": [
            {"chain": 7, "no": 2, "hash": "cd" * 32, "problem": "row 3 is missing"}]})
        for form in ([], ["-o", "json"], ["-q"]):
            result = self.ctl("audit", "verify", *form)
            self.assert_exit(1, result)
            self.assertIn("tampered", result.err)
        self.assertIn("row 3 is missing", self.ctl("audit", "verify").out)
        self.assert_exit(2, self.ctl("audit", "verify", "/nonexistent"))

    def test_not_dead(self):
        """dead show of a run that is not parked is not found, and says what the run is."""
        self.world()
        result = self.ctl("dead", "show", "order-3")
        self.assert_exit(3, result)
        self.assertIn('"order-3" is completed, not parked', result.err)

    def test_empty(self):
        """Empty lists: nothing on stdout for people but a word on stderr, an empty list as JSON."""
        self.fake.on("GET", "/v1/runs", {"runs": [], "next": None})
        self.fake.on("GET", "/v1/workflows", {"workflows": []})
        bulk = {"bulk_id": "b1", "verb": "retry", "state": "done", "total": 2, "released": 2,
                "done": 1, "refused": 1, "stopped": None, "filter": {}, "reason": "x",
                "actor": "uid:7", "at": at(-9), "ended_at": at(-8),
                "refusals": [{"run_id": "order-2", "answer": "the run is running, only a parked "
                              "run can be retried"}]}
        self.fake.on("GET", "/v1/bulk", {"bulk": [bulk]})
        self.fake.on("GET", "/v1/bulk/b1", bulk)
        self.fake.on("POST", "/v1/bulk/b1/stop", {**bulk, "stopped": "stopped by uid:7"})
        self.fake.on("POST", "/v1/answers", {"run_id": "order-1", "state": "running"})
        self.fake.on("POST", "/v1/runs:retry", lambda r: {"count": 2, "token": "t", "run_ids": [
            "order-1", "order-2"]} if r.document.get("dry_run") else Answer(
                {"bulk_id": "b1", "total": 2}, 202))
        self.fake.on("GET", "/v1/dead", {"dead": []})
        self.fake.on("GET", "/v1/services", {"services": []})
        self.fake.on("GET", "/v1/daemons", {"daemons": []})
        for verb, member in (("list", "runs"), ("workflows", "workflows"), ("dead", "dead"),
                             ("daemons", "daemons")):
            people = self.ctl(verb)
            self.assert_exit(0, people)
            self.assertEqual("", people.out)
            self.assertNotEqual("", people.err)
            self.assertEqual([], json.loads(self.ctl(verb, "-o", "json").out)[member])
            self.assertEqual("", self.ctl(verb, "-o", "jsonl").out)


class Lists(CtlCase):
    def test_filters(self):
        """The filters of list go to the daemon, encoded; the page's size is asked for."""
        self.fake.on("GET", "/v1/runs", {"runs": [], "next": None})
        self.ctl("list", "--state", "parked", "--workflow", "a&b=c %", "--since", "1h30m",
                 "--limit", "7", "--cursor", "x/y+z")
        self.assertEqual({"state": "parked", "workflow": "a&b=c %", "since": "1h30m",
                          "limit": "7", "cursor": "x/y+z"}, self.fake.requests[0].query)

    def pages(self, total):
        def answer(request):
            begin = int(request.query.get("cursor", "0"))
            end = min(total, begin + int(request.query["limit"]))
            return Answer({"runs": [run("running", run_id="r%04d" % i) for i in range(begin, end)],
                           "next": str(end) if end < total else None})
        self.fake.on("GET", "/v1/runs", answer)

    def test_pages(self):
        """Pages are fetched until the limit, which is 100 unless told otherwise; 0 means all."""
        self.pages(1203)
        for args, count in (([], 100), (["--limit", "700"], 700), (["--limit", "0"], 1203),
                            (["--limit", "5"], 5), (["--limit", "1203"], 1203)):
            result = self.ctl("list", "-q", *args)
            self.assert_exit(0, result)
            self.assertEqual(["r%04d" % i for i in range(count)], result.out.split())
            self.assertEqual(count < 1203, "there are more" in result.err)
            document = json.loads(self.ctl("list", "-o", "json", *args).out)
            self.assertEqual(count, len(document["runs"]))
            self.assertEqual(str(count) if count < 1203 else None, document["next"])
        rest = self.ctl("list", "-q", "--cursor", "1200")
        self.assertEqual(["r1200", "r1201", "r1202"], rest.out.split())


class Verbs(CtlCase):
    def sent(self, *args):
        self.fake.requests.clear()
        result = self.ctl(*args)
        self.assertEqual(1, len(self.fake.requests), result)
        request = self.fake.requests[0]
        return request.method, request.target, request.body.decode()

    def test_bodies(self):
        """Each verb sends what it was told, with digits as they were typed."""
        self.assertEqual(("POST", "/v1/runs", '{"workflow":"order","input":{}}'),
                         self.sent("run", "order"))
        self.assertEqual(
            ("POST", "/v1/runs", '{"workflow":"order","input":{"a": 1.50, "b":'
             '12345678901234567890},"run_id":"i-1","tenant":"t \\"x\\""}'),
            self.sent("run", "order", "--input", '{"a": 1.50, "b":12345678901234567890}',
                      "--id=i-1", "--tenant", 't "x"'))
        self.assertEqual(("POST", "/v1/runs/r%3A1/cancel", '{"reason":"say \\"why\\"\\nü"}'),
                         self.sent("cancel", "r:1", "--reason", 'say "why"\nü'))
        self.assertEqual(("POST", "/v1/runs/../pause", '{"reason":"x"}'),
                         self.sent("pause", "..", "--reason", "x"))
        self.assertEqual(
            ("POST", "/v1/runs/r1/steps/charge%3Acompensate/settle",
             '{"applied":false,"force":true,"reason":"x"}'),
            self.sent("settle", "r1", "charge:compensate", "--not-applied", "--force", "--reason",
                      "x"))
        self.assertEqual(
            ("POST", "/v1/runs/r1/steps/charge/settle",
             '{"applied":true,"output":{"id":1.0},"reason":"x"}'),
            self.sent("settle", "r1", "charge", "--applied", "--output", '{"id":1.0}', "--reason",
                      "x"))
        self.assertEqual(("POST", "/v1/runs/r1/signal", '{"name":"paid","data":[1.50]}'),
                         self.sent("signal", "r1", "paid", "--data", "[1.50]"))
        self.assertEqual(("POST", "/v1/runs/r1/signal", '{"name":"paid"}'),
                         self.sent("signal", "r1", "paid"))
        self.assertEqual(("POST", "/v1/runs/r1/steps/send.3/skip", '{"output":null,"reason":"x"}'),
                         self.sent("skip", "r1", "send.3", "--output", "null", "--reason", "x"))
        self.assertEqual(("POST", "/v1/runs/-r/retry", '{"reason":"x"}'),
                         self.sent("retry", "--reason", "x", "--", "-r"))

    def test_input_from_file_and_stdin(self):
        """--input reads @FILE and stdin, and passes the text on."""
        path = self.write("in.json", '{"n": 1.10}\n')
        self.assertIn('"input":{"n": 1.10}\n', self.sent("run", "order", "--input", "@" + path)[2])
        self.fake.requests.clear()
        self.ctl("run", "order", "--input", "-", stdin=b'{"n": 2.20}')
        self.assertEqual(b'{"workflow":"order","input":{"n": 2.20}}', self.fake.requests[0].body)

    def test_no_proxies(self):
        """Nothing of the environment leads a request elsewhere."""
        self.fake.on("GET", "/v1/ping", {"daemon": "d"})
        env = {name: "http://127.0.0.1:1/" for name in ("http_proxy", "ALL_PROXY", "all_proxy")}
        self.assert_exit(0, self.ctl("ping", env=env))

    def test_not_decided_yet(self):
        """A verb that another daemon has not decided yet says so, with its request id."""
        self.fake.on("POST", "/v1/runs/r1/cancel",
                     Answer({"request_id": "req-7", "run_id": "r1", "outcome": None}, 202))
        result = self.ctl("cancel", "r1", "--reason", "x")
        self.assert_exit(0, result)
        self.assertEqual("r1  requested\n", result.out)
        self.assertIn("not decided yet", result.err)
        self.assertIn("req-7", result.err)

    def test_conflict(self):
        """A decision that was already taken otherwise is exit 9 with the daemon's reason."""
        self.fake.on("POST", "/v1/runs/r1/cancel", problem(
            409, "conflict", "pivot_passed: the run has passed its point of no return"))
        result = self.ctl("cancel", "r1", "--reason", "x")
        self.assert_exit(9, result)
        self.assertIn("pivot_passed", result.err)


class Agent(CtlCase):
    def test_a_agent_1_existing(self):
        """A repeated start prints the same run, marked as existing, and the same exit code; the
        first one is not marked."""
        body = {"run_id": "call-1", "workflow": "order", "state": "running"}
        self.fake.on("POST", "/v1/runs", [
            Answer(body, 202, {"Location": "/v1/runs/call-1"}),
            Answer(run("completed", run_id="call-1", output={"n": 1}), 200,
                   {"Idempotency-Replayed": "true"})])
        add_run(self.fake, run("completed", run_id="call-1", output={"n": 1}))
        first = self.ctl("run", "order", "--id", "call-1")
        self.assert_exit(0, first)
        self.assertEqual("call-1  running\n", first.out)
        for args in ([], ["--wait"], ["-o", "json"], ["-q"], ["--wait", "-o", "json"]):
            again = self.ctl("run", "order", "--id", "call-1", *args)
            self.assert_exit(0, again)
            self.assertIn("call-1", again.out)
            self.assertIn("existing", again.out + again.err)
            if "json" in args:
                self.assertEqual("call-1", json.loads(again.out)["run_id"])

    def test_a_agent_1_other_input(self):
        """The same id with another input is exit 9 and names where it differs."""
        self.fake.on("POST", "/v1/runs", problem(
            409, "run_id_conflict", 'the run id "call-1" was used with another input: it differs '
            "at /input/amount"))
        result = self.ctl("run", "order", "--id", "call-1")
        self.assert_exit(9, result)
        self.assertIn("/input/amount", result.err)

    def test_a_agent_1_documented(self):
        """The help of run says that without an id a repeat starts another run."""
        text = " ".join(self.ctl("run", "--help").out.split())
        self.assertIn("every repeat starts another run: give --id", text)


if __name__ == "__main__":
    main()
