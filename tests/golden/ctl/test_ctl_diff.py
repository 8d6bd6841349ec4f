#!/usr/bin/env python3
"""sagactl diff: a file against what the daemon has, and which open runs that touches."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "lib"))
from ctl_case import CtlCase, main  # noqa: E402
from fake_sagad import problem  # noqa: E402

OLD = """workflow: trip
version: v1
run_id: trip-${{ input.id }}
input: {type: object, required: [id], properties: {id: {type: string}}}
services:
  air: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}
steps:
  - id: flight
    action: {post: air/flights, body: {id: "${{ input.id }}"}}
    compensate: {delete: "air/flights/${{ input.id }}"}
  - id: mail
    effect: irreversible
    on_failure: continue
    action: {post: air/mails}
"""
NEW = OLD.replace("version: v1", "version: v2").replace("type: string", "type: integer") \
    .replace("ttl: 1d", "ttl: 7d").replace("body: {id:", "body: {ref:") \
    .replace("  - id: mail\n    effect: irreversible\n    on_failure: continue\n"
             "    action: {post: air/mails}\n",
             "  - {id: ticket, effect: irreversible, action: {post: air/tickets}}\n") \
    + "output: {id: \"${{ input.id }}\"}\n"


class Diff(CtlCase):
    def diff(self, *args, **more):
        return self.ctl("diff", "trip.yaml", *args, **more)

    def serve(self, source, **runs):
        self.fake.on("GET", "/v1/workflows/trip",
                     {"workflow": "trip", "version": "v1", "source": source})
        self.fake.on("GET", "/v1/runs", lambda request: {
            "runs": [{"run_id": name, "version": "v1", "state": request.query["state"]}
                     for name in runs.get(request.query["state"], [])
                     if request.query["workflow"] == "trip"], "next": None})

    def test_same(self):
        """The daemon has this version: exit 0. Tests are no part of it."""
        self.write("trip.yaml", OLD + "tests: []\n")
        self.serve(OLD)
        result = self.diff()
        self.assert_exit(0, result)
        self.assertEqual('trip.yaml: the daemon has this version of "trip", v1\n', result.out)
        self.assertEqual("", self.diff("-q").out)
        self.assertEqual([], json.loads(self.diff("--json").out)["changes"])

    def test_changes(self):
        """What differs, by step, service and key, and the open runs: exit 1."""
        self.write("trip.yaml", NEW)
        self.serve(OLD, running=["trip-1", "trip-2"], parked=["trip-3"])
        result = self.diff()
        self.assert_exit(1, result)
        self.assertEqual("", result.err)
        self.assert_golden("diff.txt", result.out)
        self.assertEqual("trip\n", self.diff("-q").out)

    def test_json(self):
        """The same as data."""
        self.write("trip.yaml", NEW)
        self.serve(OLD, parked=["trip-3"])
        result = self.diff("-o", "json")
        self.assert_exit(1, result)
        document = json.loads(result.out)
        self.assertEqual((False, "v1", "v2"), (document["same"], document["before"]["version"],
                                               document["after"]["version"]))
        self.assertIn({"part": "service", "name": "air", "key": "idempotency.ttl",
                       "before": "1d", "after": "7d", "follows": False}, document["changes"])
        self.assertEqual([{"run_id": "trip-3", "state": "parked", "version": "v1"}],
                         document["open_runs"])
        self.assertEqual(document, json.loads(self.diff("-o", "jsonl").out))

    def test_many_runs(self):
        """Of many open runs some are named."""
        self.write("trip.yaml", NEW)
        self.serve(OLD, running=["r%d" % i for i in range(25)])
        self.assertIn("25 open runs stay on the version of their start: r0 running, r1 running",
                      self.diff().out)
        self.assertIn("r9 running, and 15 more\n", self.diff().out)

    def test_layout(self):
        """Another hash without another meaning is another version all the same."""
        self.write("trip.yaml", "# a comment\n" + OLD)
        self.serve(OLD)
        result = self.diff()
        self.assert_exit(1, result)
        self.assertIn("nothing but comments, layout", result.out)
        self.assertIn("no open run is affected", result.out)

    def test_unknown(self):
        """A workflow that the daemon does not have: exit 1."""
        self.write("trip.yaml", OLD)
        self.fake.on("GET", "/v1/workflows/trip", problem(404, "not_found", "no such workflow"))
        result = self.diff()
        self.assert_exit(1, result)
        self.assertEqual('trip.yaml: the daemon has no workflow "trip"\n', result.out)
        self.assertIsNone(json.loads(self.diff("--json").out)["before"])

    def test_trouble(self):
        """What could not be compared is never 0 or 1."""
        self.write("trip.yaml", OLD.replace("input.id", "input.idd"))
        result = self.diff()
        self.assert_exit(2, result)
        self.assertIn("trip.yaml has errors; nothing was compared", result.err)
        self.assert_exit(2, self.ctl("diff", "nothing.yaml"))
        self.write("trip.yaml", NEW)
        self.assert_exit(8, self.diff(env={"SAGA_SOCKET": "/nowhere"}))
        self.serve("workflow: trip\nsteps: what\n")
        result = self.diff()
        self.assert_exit(2, result)
        self.assertIn("cannot be read by this version of sagactl", result.err)
        self.fake.on("GET", "/v1/workflows/trip", {"workflow": "trip"})
        self.assert_exit(2, self.diff())
        self.fake.on("GET", "/v1/workflows/trip", problem(403, "forbidden", "not for you"))
        self.assert_exit(4, self.diff())
        self.serve(OLD)
        self.fake.on("GET", "/v1/runs", problem(403, "forbidden", "not for you"))
        self.assert_exit(4, self.diff())


if __name__ == "__main__":
    main()
