#!/usr/bin/env python3
"""sagactl test: workflows played in simulated time, without a daemon and with every fault."""
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "lib"))
from ctl_case import ROOT, CtlCase, main  # noqa: E402

WORKFLOW = """workflow: trip
run_id: trip-${{ input.id }}
input: {type: object, required: [id], properties: {id: {type: string, examples: [t1]}}}
services:
  air: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}
  inn: {url: "http://127.0.0.1:2", idempotency: none}
steps:
  - id: flight
    action: {post: air/flights, body: {id: "${{ input.id }}"}}
    compensate: {delete: "air/flights/${{ steps.flight.output.ref }}"}
  - id: room
    action: {post: inn/rooms}
    compensate: {delete: "inn/rooms/${{ input.id }}"}
    retry: {attempts: 2, delay: 1s, jitter: 0%}
  - id: ticket
    effect: irreversible
    action: {post: air/tickets}
output: {ref: "${{ steps.flight.output.ref }}"}
"""
TESTS = """workflow: trip.yaml
tests:
  - name: all goes well
    input: {id: t1}
    answers: {flight: {status: 201, body: {ref: F1}}}
    expect:
      state: completed
      cause: none
      calls: [flight, room, "ticket:execute"]
      output: {ref: F1}
      residue: []
      steps: {flight: {output: {ref: F1}}, ticket: {attempts: 1, compensation_state: none}}
      takes: "<= 1s"
  - name: no room
    input: {id: t1}
    answers: {flight: {body: {ref: F1}}, room: [{status: 503}, {status: 409, after: 3s}]}
    expect:
      state: compensated
      cause: step_refused
      calls: ["flight:compensate", room, flight, room]
      any_order: true
      steps: {room: {state: refused, attempts: 2}, ticket: {state: pending}}
      takes: "> 4s"
  - name: nobody knows whether there is a room
    input: {id: t1}
    answers: {room: [timeout, {status: 409}]}
    at: {5m: {do: settle, step: room, applied: false, reason: they say no}}
    expect: {state: compensated, calls: [flight, room, room, "flight:compensate"]}
"""

PAYMENT = """workflow: pay
run_id: x
services: {pay: {url: "http://127.0.0.1:1", idempotency: none}}
steps:
  - id: charge
    action: {post: pay/charges}
    reconcile:
      get: pay/charges
      query: {key: "${{ key }}"}
      applied: size(response.body.data) > 0
      in_progress: response.body.state == 'pending'
      not_applied: size(response.body.data) == 0
      output: ${{ response.body.data[0] }}
    compensate:
      post: pay/refunds
      body: {charge: "${{ steps.charge.output.id }}"}
      reconcile: {get: pay/refunds, applied: response.status == 200, not_applied: response.status == 404}
  - {id: ship, effect: irreversible, action: {post: pay/parcels}}
output: {charge: "${{ steps.charge.output.id }}"}
tests:
  - name: answer lost
    answers: {charge: lost}
    expect: {state: completed, calls: [charge, ship], asks: [charge], output: {charge: sample}}
  - name: request lost
    answers: {charge: [lost_before, {body: {id: ch_1}}]}
    expect: {state: completed, calls: [charge, charge, ship], asks: [charge, charge], takes: "> 30s"}
"""


class Test(CtlCase):
    def setUp(self):
        super().setUp()
        self.addCleanup(lambda: self.assertEqual([], self.fake.requests, "no daemon was asked"))
        self.write("trip.yaml", WORKFLOW)

    def play(self, *args, **more):
        return self.ctl("test", *args, env={"SAGA_SOCKET": "/nowhere"}, **more)

    def put(self, text):
        return self.write("trip.test.yaml", "workflow: trip.yaml\ntests:\n" + text)

    def test_passing(self):
        """Tests that hold: a line each, exit 0. Files of tests find their workflow beside them."""
        self.write("trip.test.yaml", TESTS)
        result = self.play("trip.test.yaml")
        self.assert_exit(0, result)
        self.assertEqual("", result.err)
        self.assert_golden("test_passing.txt", result.out)
        self.assert_exit(0, self.play(os.path.join(self.folder, "trip.test.yaml"), cwd="/"))

    def test_failing(self):
        """A test that fails says what was expected, what came, and what happened: exit 1."""
        self.put("""
  - name: everything is wrong
    input: {id: t1}
    answers: {flight: {body: {ref: "F1\\e[31m"}}, room: {status: 409}}
    expect:
      state: completed
      cause: deadline
      reason: outcome_unknown
      calls: [flight]
      output: {ref: F1}
      residue: [room, {step: flight, why: declared}]
      steps: {room: {state: applied, compensation_state: applied, attempts: 7, output: 1}}
      takes: 1s
""")
        result = self.play("trip.test.yaml")
        self.assert_exit(1, result)
        self.assert_golden("test_failing.txt", result.out)

    def test_inline(self):
        """Tests may stand in the workflow's own file, which keeps its version."""
        before = json.loads(self.ctl("validate", "trip.yaml", "--json").out)["files"][0]["hash"]
        inline = WORKFLOW + TESTS.split("\n", 1)[1].replace("room, room", "room")
        self.write("trip.yaml", inline)
        result = self.play("trip.yaml", "-o", "json")
        self.assert_exit(1, result)
        self.assertEqual([True, True, False], [t["ok"] for t in json.loads(result.out)["tests"]])
        after = json.loads(self.ctl("validate", "trip.yaml", "--json").out)["files"][0]["hash"]
        self.assertEqual(before, after)

    APPROVED = """workflow: wire
run_id: x
input: {type: object, properties: {cents: {type: integer, default: 900}}}
services: {bank: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
steps:
  - {id: hold, action: {post: bank/holds}, compensate: {delete: bank/holds}}
  - id: pay
    effect: irreversible
    approve: {by: WHO, if: input.cents > 500, expires: 1h}
    action: {post: bank/payments}
  - {id: gift, if: "input.cents > 1000", effect: irreversible, action: {post: bank/gifts}}
tests:
  - name: approved
    at: {2m: {do: approve, step: pay}}
    input: &input {cents: 900}
    expect: {state: completed, calls: [hold, pay], takes: "< 3m"}
  - name: rejected
    at: {2m: {do: reject, step: pay, reason: not now}}
    input: *input
    expect: {state: compensated, calls: [hold, "hold:compensate"], takes: "< 3m"}
  - name: nobody says anything
    input: *input
    expect: {state: compensated, calls: [hold, "hold:compensate"], takes: ">= 1h"}
"""

    def test_approvals(self):
        """Whoever `at` says decides may: any, another person, one of the group."""
        for who in "any", "other", "treasury":
            self.write("wire.yaml", self.APPROVED.replace("WHO", who))
            result = self.play("wire.yaml")
            self.assert_exit(0, result)
            self.assertIn("3 passed, 0 failed", result.out)

    def test_approvals_with_faults(self):
        """Each fault meets what stands behind an approval too; what no walk came to is named."""
        self.write("wire.yaml", self.APPROVED.replace("WHO", "other"))
        result = self.play("--faults", "wire.yaml")
        self.assert_exit(0, result)
        first, rejected, silent = result.out.split("\n  CALL ")[1:]
        for walked in first, silent:
            self.assertRegex(walked, r"- +none +completed")
            self.assertRegex(walked, r"pay +not approved +compensated \(step_refused\) +hold ")
            self.assertRegex(walked, r"pay +every answer lost +parked \(outcome_unknown\)|"
                                     r"pay +first answer lost +completed")
        self.assertRegex(rejected, r"- +none +compensated")
        self.assertIn("\n  no walk came to: gift; write a test whose run does\n", result.out)
        self.assertRegex(result.out, r"walks, every promise held; to 1 step no walk came\n$")
        document = json.loads(self.play("--faults", "wire.yaml", "--json").out)
        self.assertEqual([["gift"], ["pay", "gift"], ["gift"]],
                         [report["unreached"] for report in document["faults"]])
        alone = self.APPROVED.replace("WHO", "any").split("tests:")[0]
        self.write("wire.yaml", alone)
        self.assertRegex(self.play("--faults", "wire.yaml").out, r"\n  pay +refused for good ")

    def test_json(self):
        """-o json and jsonl have all that is known; -o name only what failed."""
        self.write("trip.test.yaml", TESTS.replace("flight, room, room", "flight, room"))
        result = self.play("trip.test.yaml", "--json")
        self.assert_exit(1, result)
        document = json.loads(result.out)
        self.assertEqual((2, 1), (document["passed"], document["failed"]))
        good, _, bad = document["tests"]
        self.assertEqual(("trip.test.yaml", 3, "completed", None, None, {"ref": "F1"}, []),
                         (good["file"], good["line"], good["state"], good["cause"], good["reason"],
                          good["output"], good["residue"]))
        self.assertEqual(["flight", "room", "ticket"], good["calls"])
        self.assertEqual([{"line": 28, "what": "calls",
                           "expected": "flight, room, flight:compensate",
                           "got": "flight, room, room, flight:compensate"}], bad["failures"])
        self.assertIn({"at_us": 50000, "what": "flight -> 200"}, bad["trace"])
        lines = self.play("trip.test.yaml", "-o", "jsonl").out.splitlines()
        self.assertEqual(document["tests"], [json.loads(line) for line in lines])
        self.assertEqual("nobody knows whether there is a room\n",
                         self.play("trip.test.yaml", "-q").out)

    def test_same_again(self):
        """The same file gives the same bytes."""
        self.write("trip.test.yaml", TESTS)
        self.assertEqual(self.play("trip.test.yaml").out, self.play("trip.test.yaml").out)
        self.assertEqual(self.play("--faults", "trip.yaml").out,
                         self.play("--faults", "trip.yaml").out)

    def test_invalid(self):
        """What is wrong with tests has its place; nothing is played: exit 2."""
        self.put("  - {name: x, input: {id: 7}, answers: {rom: lost}, expect: {}}\n")
        result = self.play("trip.test.yaml")
        self.assert_exit(2, result)
        self.assertEqual("", result.out)
        self.assertIn("trip.test.yaml:3:27: error[E402]: the input does not fit the schema of "
                      "\"trip\": /id must be", result.err)
        self.assertIn("trip.test.yaml:3:41: error[E401]: the workflow has no step `rom`",
                      result.err)
        self.assertIn("sagactl: trip.test.yaml has errors; nothing was played\n", result.err)

    def test_broken_workflow(self):
        """An error of the workflow is shown in the workflow's own file."""
        self.write("trip.yaml", WORKFLOW.replace("input.id }}\"}}", "input.idd }}\"}}"))
        self.write("trip.test.yaml", TESTS)
        result = self.play("trip.test.yaml")
        self.assert_exit(2, result)
        self.assertIn("trip.yaml:9:", result.err)
        self.assertIn("sagactl: trip.yaml has errors", result.err)

    def test_files(self):
        """Missing files, files that name no workflow, workflows without tests, directories."""
        for name, text, said in (
                ("a.test.yaml", "workflow: b.yaml\ntests: []\n", "could not read b.yaml"),
                ("b.test.yaml", "tests: []\n", "a file of tests needs `workflow`"),
                ("c.test.yaml", "workflow: trip.yaml\n", "a file of tests needs `tests`"),
                ("d.test.yaml", "workflow: trip.yaml\ntests: []\nsteps: []\n", "unknown key"),
                ("e.test.yaml", "", "empty"),
                ("f.test.yaml", "workflow: trip.yaml\ntests: {}\n", "`tests` must be a list")):
            self.write(name, text)
            result = self.play(name)
            self.assert_exit(2, result)
            self.assertIn(said, result.err)
            os.remove(os.path.join(self.folder, name))
        self.assert_exit(2, self.play("nothing.yaml"))
        result = self.play("trip.yaml")
        self.assert_exit(2, result)
        self.assertIn("trip.yaml has no tests", result.err)
        self.assert_exit(2, self.play("."))
        self.write("trip.test.yaml", TESTS)
        result = self.play(".", "-o", "json")
        self.assertEqual({"trip.test.yaml"},
                         {os.path.basename(t["file"]) for t in json.loads(result.out)["tests"]})

    def test_other_verbs(self):
        """Directories of workflows may hold files of tests; by name they are refused."""
        self.write("trip.test.yaml", TESTS)
        self.assertEqual("trip\n", self.ctl("validate", ".", "-q").out)
        result = self.ctl("validate", "trip.test.yaml")
        self.assert_exit(2, result)
        self.assertIn("trip.test.yaml holds tests, no workflow", result.err)

    def test_run_id(self):
        """An input that gives no usable run id fails the test."""
        self.put("  - {name: x, input: {id: a b}, expect: {state: completed}}\n")
        result = self.play("trip.test.yaml")
        self.assert_exit(1, result)
        self.assertIn("run_id: ", result.out)

    def test_time(self):
        """Simulated time costs nothing: a wait of a month and the deadline of a day."""
        self.write("long.yaml", """workflow: long
run_id: x
deadline: 2d
steps:
  - {id: nap, action: {sleep: 30d}}
tests:
  - {name: the deadline, expect: {state: compensated, cause: deadline, takes: 2d}}
""")
        self.assert_exit(0, self.play("long.yaml"))
        self.write("long.yaml", """workflow: long
run_id: x
steps:
  - {id: nap, action: {sleep: 30d}}
  - {id: day, if: "now() < timestamp('2026-03-01T00:00:00Z')", action: {sleep: 1s}}
tests:
  - {name: a month, starts_at: 2026-02-10T00:00:00Z,
     expect: {state: completed, takes: ">= 30d", steps: {day: {state: skipped}}}}
""")
        self.assert_exit(0, self.play("long.yaml"))

    def test_time_in_words(self):
        """What was got is written like what the line above says, with what it leaves out."""
        self.write("long.yaml", """workflow: long
run_id: x
steps:
  - {id: nap, action: {sleep: 2h}}
  - {id: more, action: {sleep: 100ms}}
tests:
  - {name: off, expect: {takes: 2h}}
""")
        result = self.play("long.yaml")
        self.assert_exit(1, result)
        self.assertIn("completed after 2h 00m", result.out)
        self.assertIn("got       2h 100ms\n", result.out)

    def test_kinds(self):
        """Programs and statements answer in their own words."""
        self.write("kinds.yaml", """workflow: kinds
run_id: x
input: {type: object}
services: {db: {url: "postgres://localhost/x"}}
steps:
  - id: tool
    action: {exec: [/bin/tool, a]}
    compensate: {exec: [/bin/tool, undo, "${{ steps.tool.output.n }}"]}
  - id: own
    action: {sql: "insert into t values (1) returning id"}
    compensate: {sql: "delete from t where id = $1",
                 params: ["${{ steps.own.output.rows[0].id }}"]}
  - id: other
    action: {sql: "insert into u values (1)", service: db}
    compensate: {sql: "delete from u", service: db}
output: {count: "${{ steps.other.output.count }}"}
tests:
  - name: all go well by themselves
    expect: {state: completed, output: {count: 3}, calls: [tool, own, other]}
    answers: {other: {count: 3}}
  - name: in their own words
    answers:
      tool: [{exit: 75, stderr: later}, {exit: 0, stdout: {n: 5}}]
      own: [{sqlstate: "40001"}, {rows: [{id: 9}]}]
      other: {sqlstate: "23505"}
    expect:
      state: compensated
      calls: [tool, tool, own, own, other, "own:compensate", "tool:compensate"]
      steps: {tool: {output: {n: 5}}, own: {output: {rows: [{id: 9}], count: 1}}}
  - name: a killed program is unknown
    answers: {tool: {exit: -9}}
    expect: {state: parked, reason: outcome_unknown}
  - name: a lost connection
    answers: {tool: connect, own: lost, other: lost}
    expect: {state: compensated, cause: budget}
""")
        result = self.play("kinds.yaml")
        self.assert_exit(0, result)
        self.assert_exit(0, self.play("kinds.yaml", "--faults"))

    def test_loops(self):
        """Items of a loop answer for themselves, and can be expected one by one."""
        self.write("news.yaml", """workflow: news
run_id: x
services: {mail: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
steps:
  - id: readers
    action: {get: mail/readers}
  - id: send
    for_each: steps.readers.output.list
    key_by: item.id
    action: {post: mail/messages, body: {to: "${{ item.email }}"}}
    compensate: {delete: "mail/messages/${{ steps.send.output.ref }}"}
  - id: report
    action: {post: mail/reports, body: {refs: "${{ steps.send.output.map(x, x.ref) }}"}}
    compensate: {delete: mail/reports}
tests:
  - name: three readers, the third is refused
    answers:
      readers: {body: {list: [{id: a, email: a@x}, {id: b, email: b@x}, {id: c, email: c@x}]}}
      send: {body: {ref: r}}
      send.b: [{status: 503}, {body: {ref: rb}}]
      send.c: {status: 400}
    expect:
      state: compensated
      calls: [readers, send.a, send.b, send.b, send.c, "send.b:compensate", "send.a:compensate"]
      steps:
        send: {state: refused}
        send.b: {attempts: 2, output: {ref: rb}, compensation_state: applied}
        send.c: {state: refused}
""")
        self.assert_exit(0, self.play("news.yaml"))
        result = self.play("--faults", "news.yaml")
        self.assert_exit(0, result)
        self.assertIn("send.b send.a", result.out)

    def test_many_records(self):
        """Of a run with very many records every n-th is tried; long lists are cut in the table."""
        self.write("many.yaml", """workflow: many
run_id: x
services: {mail: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
steps:
  - {id: send, for_each: input.list, action: {post: mail/x}, compensate: {delete: mail/x}}
tests:
  - {name: many, input: {list: [%s]}, expect: {state: completed}}
""" % ", ".join(map(str, range(120))))
        self.assert_exit(0, self.play("many.yaml"))
        result = self.play("--faults", "many.yaml")
        self.assert_exit(0, result)
        self.assertIn("every 2. record", result.out)
        self.assertIn("…", result.out)
        wide = self.play("--faults", "many.yaml", "-o", "wide")
        self.assert_exit(0, wide)
        self.assertNotIn("…", wide.out)

    def test_questions(self):
        """Services are asked about unknown outcomes and tell the truth, unless the test says more."""
        self.write("pay.yaml", PAYMENT)
        result = self.play("pay.yaml")
        self.assert_golden("test_questions.txt", result.out)
        self.assert_exit(0, result)
        test = json.loads(self.play("pay.yaml", "-o", "json").out)["tests"][0]
        self.assertEqual((["charge", "ship"], ["charge"], []),
                         (test["calls"], test["asks"], test["notes"]))
        result = self.play("--faults", "pay.yaml")
        self.assert_exit(0, result)
        self.assert_golden("test_questions_faults.txt", result.out.split("\n  request lost\n")[0])

    def test_questions_unplayed(self):
        """An answer that cannot be made up proves nothing, and that is told with the way out."""
        said = ("charge:reconcile could not be played: no answer was found that makes `applied` "
                "true; write one under `answers`: `\"charge:reconcile\": {...}`")
        self.write("pay.yaml", PAYMENT.replace("size(response.body.data) > 0",
                                               "response.body.cents * 7 == 42"))
        result = self.play("pay.yaml")
        self.assert_exit(1, result)
        self.assertIn("        " + said + "\n", result.out)
        self.assertIn("charge:reconcile -> 200, which proves nothing", result.out)
        document = json.loads(self.play("pay.yaml", "-o", "json").out)
        self.assertEqual([said], document["tests"][0]["notes"])
        result = self.play("--faults", "pay.yaml")
        failed, table = result.out.split("\n  request lost\n")[0].split("\n  CALL ", 1)
        self.assertEqual((1, 1), (failed.count(said), table.count(said)))
        self.assertIn("every promise held", result.out)
        self.assert_exit(1, result)

    def test_questions_kinds(self):
        """Programs and statements are asked, about items of loops and workers' tasks too."""
        self.write("kinds.yaml", """workflow: kinds
run_id: x
services: {db: {url: "postgres://localhost/x"}}
steps:
  - id: print
    for_each: input.pages
    key_by: item
    action: {worker: printers, payload: {page: "${{ item }}"}}
    compensate: {worker: printers, payload: {undo: "${{ item }}"}}
    reconcile:
      exec: [/bin/printed, "${{ key }}"]
      applied: response.exit == 0 && response.stdout.page == item
      not_applied: response.exit == 1
      output: {page: "${{ response.stdout.page }}"}
  - id: other
    action: {sql: "insert into u values (1)", service: db}
    reconcile: {sql: "select * from u where key = $1", service: db, params: ["${{ key }}"],
                applied: response.count == 1, not_applied: response.count == 0,
                output: {rows: "${{ response.rows }}", count: 1}}
    compensate:
      sql: "delete from u"
      service: db
      reconcile: {sql: "select 1", service: db, applied: response.count == 0, not_applied: "true"}
output: {pages: "${{ steps.print.output.map(p, p.page) }}", name: "${{ steps.other.output.rows[0].name }}"}
tests:
  - name: all answers are lost
    input: {pages: [a, b]}
    answers: {print: lost, other: lost}
    expect:
      state: completed
      calls: [print.a, print.b, other]
      asks: [print.a, print.b, other]
      output: {pages: [a, b], name: sample}
  - name: an answer for one item
    input: {pages: [a, b]}
    answers:
      print: lost
      "print.b:reconcile": [{exit: 4}, {exit: 0, stdout: {page: b}}]
      other: {sqlstate: "23505"}
    expect:
      state: compensated
      asks: [print.a, print.b, print.b]
""")
        result = self.play("kinds.yaml")
        self.assertEqual("2 passed, 0 failed", result.out.splitlines()[-1], result.out)
        self.assert_exit(0, result)
        result = self.play("kinds.yaml", "--faults")
        self.assertNotIn("could not be played", result.out)
        self.assertIn("every promise held", result.out)

    def test_questions_answers(self):
        """A test's own answers are believed, whatever the service has done."""
        tests = """
  - name: accepted, in progress, done
    answers:
      charge: {status: 202}
      "charge:reconcile": [{body: {state: pending}}, timeout, {body: {data: [{id: ch_7}]}}]
    expect:
      state: completed
      calls: [charge, ship]
      asks: [charge, charge, charge]
      output: {charge: ch_7}
  - name: accepted, and never done
    answers: {charge: {status: 202}, "charge:reconcile": {body: {data: []}}}
    expect:
      state: compensated
      steps: {charge: {state: refused}}
      residue: []
  - name: the service says that it did nothing, and lies
    answers: {charge: [lost, {body: {id: ch_2}}], "charge:reconcile": {body: {data: []}}}
    expect: {state: completed, calls: [charge, charge, ship], output: {charge: ch_2}}
  - name: nobody answers
    answers: {charge: lost, "charge:reconcile": connect}
    expect: {state: parked, reason: outcome_unknown, takes: ">= 10m"}
  - name: the undo is asked about too
    answers: {ship: {status: 409}, "charge:compensate": lost}
    expect:
      state: compensated
      calls: [charge, ship, "charge:compensate"]
      asks: ["charge:compensate"]
      residue: []
"""
        self.write("pay.yaml", PAYMENT.split("tests:")[0] + "tests:" + tests)
        result = self.play("pay.yaml")
        self.assertEqual("5 passed, 0 failed", result.out.splitlines()[-1], result.out)
        result = self.play("--faults", "pay.yaml")
        self.assertIn("every promise held", result.out)

    def test_workers(self):
        """Workers take tasks, work, fail, die, or are not there."""
        self.write("print.yaml", """workflow: print
run_id: x
steps:
  - id: label
    action: {worker: printers, payload: {n: 1}, schedule_timeout: 1h, heartbeat: 30s}
    compensate: {worker: printers, payload: {undo: 1}}
    timeout: 10m
  - {id: last, effect: irreversible, action: {sql: select 1}}
output: {page: "${{ steps.label.output.page }}"}
tests:
  - name: it is printed
    answers: {label: {output: {page: 7}, after: 5m}}
    expect: {state: completed, output: {page: 7}, takes: ">= 5m", calls: [label, last]}
  - name: it fails for good after a second try
    answers: {label: [{fail: jam, retryable: true}, {fail: no ink, code: ink}]}
    expect: {state: compensated, cause: step_refused, calls: [label, label]}
  - name: the worker dies after it has printed
    answers: {label: lost}
    expect: {state: parked, reason: outcome_unknown, takes: "< 1m"}
  - name: the worker dies before
    answers: {label: lost_before}
    expect: {state: parked, reason: outcome_unknown}
  - name: nobody takes it
    answers: {label: timeout}
    expect: {state: compensated, calls: [], takes: ">= 1h"}
  - name: it is undone
    answers: {last: {sqlstate: "23505"}}
    expect: {state: compensated, calls: [label, last, "label:compensate"]}
""")
        self.assert_exit(0, self.play("print.yaml"))
        self.assert_exit(0, self.play("--faults", "print.yaml"))

    def test_signals_and_children(self):
        """Signals come when the test says, early ones are kept; children end as it says."""
        self.write("party.yaml", """workflow: party
run_id: x
services: {inn: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
steps:
  - {id: room, action: {post: inn/rooms}, compensate: {delete: inn/rooms}}
  - {id: food, action: {child: catering}}
  - {id: paid, timeout: 2d, action: {wait_for: payment}}
  - {id: music, action: {post: inn/music}, compensate: {delete: inn/music}}
output: {menu: "${{ steps.food.output.menu }}", by: "${{ steps.paid.output.by }}"}
tests:
  - name: it is paid after a day
    answers: {food: {output: {menu: soup}}}
    signals: {payment: {after: 1d, data: {by: ann}}}
    expect: {state: completed, output: {menu: soup, by: ann}, takes: "> 24h"}
  - name: it was paid before the wait
    answers: {food: {after: 3h}}
    signals: {payment: {data: {by: bob}}}
    expect: {state: completed, output: {menu: sample, by: bob}, takes: "< 4h"}
  - name: nobody pays
    expect:
      state: compensated
      calls: [room, food, "food:compensate", "room:compensate"]
      steps: {paid: {state: refused}}
      takes: ">= 2d"
  - name: the child turns back
    answers: {food: {ends: compensated}}
    expect: {state: compensated, calls: [room, food, "room:compensate"]}
  - name: the child is closed by a person
    answers: {food: {ends: abandoned}}
    expect: {state: parked, reason: outcome_unknown}
  - name: the child cannot be undone
    answers: {"food:compensate": {ends: abandoned}, music: {status: 400}}
    signals: {payment: {data: {by: x}}}
    expect: {state: parked}
""")
        self.assert_exit(0, self.play("party.yaml"))
        self.assert_exit(0, self.play("--faults", "party.yaml"))

    def test_signals_and_faults(self):
        """Whoever signals asks again until it is answered, so no signal is lost with the daemon;
        without tests every signal comes. A wait without a limit may last."""
        gate = """workflow: gate
run_id: x
services: {inn: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
steps:
  - {id: go, action: {wait_for: go}}
  - {id: stop, action: {wait_for: stop}}
  - {id: again, action: {wait_for: go}}
  - id: music
    action: {post: inn/music, body: {by: "${{ steps.stop.output.by }}"}}
    compensate: {delete: inn/music}
"""
        self.write("gate.yaml", gate)
        result = self.play("--faults", "gate.yaml", "--json")
        self.assert_exit(0, result)
        walks = json.loads(result.out)["faults"][0]["walks"]
        died = {w["ended"] for w in walks if w["group"] == "crash" and w["call"] == "each record"}
        self.assertEqual({"completed"}, died)
        self.write("gate.yaml", gate + """tests:
  - name: one signal at a bad moment
    signals: {go: {}, stop: {after: 1s, data: {by: ann}}}
    expect: {state: completed}
  - name: nobody signals
    expect: {state: running, steps: {go: {state: waiting}}}
""")
        self.assert_exit(0, self.play("gate.yaml"))
        result = self.play("--faults", "gate.yaml", "--json")
        self.assert_exit(0, result)
        first, second = json.loads(result.out)["faults"]
        self.assertNotIn("running", {walk["ended"] for walk in first["walks"]})
        self.assertIn("running", {walk["ended"] for walk in second["walks"]})

    def test_an_operator_asks_again(self):
        """A verb that died with the daemon is repeated, as a person would."""
        self.write("nap.yaml", """workflow: nap
run_id: x
steps:
  - {id: nap, action: {sleep: 1h}}
tests:
  - name: it is cancelled
    at: {1m: cancel}
    expect: {state: compensated, cause: cancelled}
""")
        result = self.play("--faults", "nap.yaml", "--json")
        self.assert_exit(0, result)
        walks = json.loads(result.out)["faults"][0]["walks"]
        self.assertEqual({"compensated (cancelled)"}, {walk["ended"] for walk in walks})

    def test_a_worker_reports_again(self):
        """What a worker reports is not lost with the daemon."""
        self.write("job.yaml", """workflow: job
run_id: x
steps:
  - {id: job, action: {worker: q}, compensate: {none: paper}, timeout: 1h}
tests:
  - name: it is done
    expect: {state: completed}
""")
        result = self.play("--faults", "job.yaml", "--json")
        self.assert_exit(0, result)
        walks = json.loads(result.out)["faults"][0]["walks"]
        died = {w["ended"] for w in walks if w["fault"] == "before it is durable"}
        self.assertEqual({"completed"}, died)

    def test_faults(self):
        """--faults: a table of every walk, judged by what the services know."""
        result = self.play("--faults", "trip.yaml")
        self.assert_exit(0, result)
        self.assert_golden("test_faults.txt", result.out)
        for said in ("no tests: played with an input made from the schema", "first answer lost",
                     "parked (outcome_unknown)", "every promise held"):
            self.assertIn(said, result.out)

    def test_faults_json(self):
        """The same as JSON, with the tests' own answers."""
        self.write("trip.test.yaml", TESTS)
        document = json.loads(self.play("--faults", "trip.test.yaml", "--json").out)
        self.assertEqual(0, document["broken"])
        first = document["faults"][0]
        self.assertEqual(("all goes well", False, {"id": "t1"}),
                         (first["test"], first["sample_input"], first["input"]))
        self.assertEqual(document["walks"],
                         sum(w["times"] for f in document["faults"] for w in f["walks"]))
        rows = {(w["call"], w["fault"]): w for w in first["walks"]}
        self.assertEqual("flight", rows[("room", "refused for good")]["undone"])
        self.assertEqual("room x2 (no key)", rows[("room", "arrives twice")]["doubles"])
        self.assertEqual("parked (outcome_unknown)", rows[("room", "first answer lost")]["ended"])
        lines = self.play("--faults", "trip.test.yaml", "-o", "jsonl").out.splitlines()
        self.assertEqual(3, len(lines))

    def test_faults_and_a_wrong_expectation(self):
        """A test that fails fails with --faults too: told above the table, and by the exit code."""
        self.write("trip.test.yaml", TESTS.replace("state: completed", "state: compensated", 1))
        result = self.play("--faults", "trip.test.yaml")
        self.assert_exit(1, result)
        alone = self.play("trip.test.yaml")
        self.assert_exit(1, alone)
        start = alone.out.index("  FAIL  ")
        self.assertIn(alone.out[start:alone.out.index("what happened", start)], result.out)
        self.assertEqual(1, result.out.count("  FAIL  "))
        self.assertNotIn("  ok    ", result.out)
        self.assertRegex(result.out, "walks, every promise held; tests without faults: "
                                     "2 passed, 1 failed\n$")
        document = json.loads(self.play("--faults", "trip.test.yaml", "--json").out)
        self.assertEqual((0, 2, 1), tuple(document[k] for k in ("broken", "passed", "failed")))
        self.assertEqual(["all goes well"], [test["name"] for test in document["tests"]])
        named = self.play("--faults", "trip.test.yaml", "-o", "name")
        self.assertEqual((1, "all goes well\n"), (named.code, named.out))

    def test_faults_without_input(self):
        """A schema that gives no input says so: exit 2."""
        self.write("trip.yaml", WORKFLOW.replace("examples: [t1]", "pattern: \"^(a|b)c?x{3}$\""))
        self.assert_exit(2, self.play("--faults", "trip.yaml"))
        self.write("trip.yaml", WORKFLOW.replace("examples: [t1]",
                                                 "pattern: \"^X-[0-9]{3}[a-f]\\\\w+$\""))
        result = self.play("--faults", "trip.yaml")
        self.assert_exit(0, result)
        self.assertIn('{"id":"X-000aa"}', result.out)

    def test_without_limits(self):
        """No breaker opens and no rate is kept to: the walks are those of a service without."""
        tests = """tests:
  - name: a bad minute
    input: {id: t1}
    answers: {room: [{status: 503}, {status: 200}]}
    expect: {state: completed, takes: "< 3s", calls: [flight, room, room, ticket]}
"""
        limited = WORKFLOW.replace("idempotency: none}", "idempotency: none, limits: {rate: 1/m}, "
                                   "breaker: {failures: 1, window: 1h, open_for: 10m}}")
        self.assertNotEqual(WORKFLOW, limited)
        for faults in ([], ["--faults"]):
            said = []
            for workflow in (WORKFLOW, limited):
                self.write("trip.yaml", workflow + tests)
                said.append(self.play(*faults, "trip.yaml"))
                self.assert_exit(0, said[-1])
                self.assertEqual("", said[-1].err)
            self.assertEqual(said[0].out, said[1].out)

    def test_shipped(self):
        """The tests that are shipped with the examples pass, with every fault too."""
        folder = os.path.join(ROOT, "examples")
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            if os.path.isdir(path) and any(f.endswith(".test.yaml") for f in os.listdir(path)):
                self.assert_exit(0, self.play(path))
                self.assert_exit(0, self.play("--faults", path))


if __name__ == "__main__":
    main()
