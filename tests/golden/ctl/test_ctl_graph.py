#!/usr/bin/env python3
"""sagactl graph: pictures of a workflow, and of a run."""
import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "lib"))
from ctl_case import CtlCase, main  # noqa: E402
from fake_sagad import add_run, run  # noqa: E402

WORKFLOW = """workflow: trip
run_id: trip-${{ input.id }}
input:
  type: object
  required: [id, bags]
  properties:
    id: {type: string, examples: [t1]}
    bags: {type: array, items: {type: object, required: [tag], properties: {tag: {type: string}}}}
services:
  air: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}
  inn: {url: "http://127.0.0.1:2", idempotency: {header: Idempotency-Key, ttl: 1d}}
steps:
  - id: hold
    action: {post: air/holds, body: {id: "${{ input.id }}"}}
    compensate: {delete: "air/holds/${{ input.id }}"}
  - id: room
    needs: [hold]
    action: {post: inn/rooms}
    compensate: {delete: "inn/rooms/${{ input.id }}"}
  - id: bag
    needs: [hold]
    for_each: input.bags
    key_by: item.tag
    max_parallel: 5
    action: {post: air/bags, body: {tag: "${{ item.tag }}"}}
    compensate: {delete: "air/bags/${{ item.tag }}"}
  - id: paid
    needs: [room, bag]
    timeout: 2d
    action: {wait_for: payment}
  - id: ticket
    effect: irreversible
    action: {post: air/tickets}
  - id: mail
    effect: irreversible
    on_failure: continue
    if: "input.id != 'a\\"b<c>'"
    action: {post: inn/mails}
"""


def step(id, state, compensation_state=None, **more):
    return {"id": id, "effect": "compensable", "state": state,
            "compensation_state": compensation_state, "attempts": 1, "key": "k", "output": None,
            "error": None, "started_at": None, "ended_at": None, **more}


class Graph(CtlCase):
    def setUp(self):
        super().setUp()
        self.write("trip.yaml", WORKFLOW)

    def graph(self, *args, **more):
        return self.ctl("graph", "trip.yaml", *args, **more)

    def test_mermaid(self):
        """Mermaid is the default; no daemon is asked."""
        result = self.graph(env={"SAGA_SOCKET": "/nowhere"})
        self.assert_exit(0, result)
        self.assertEqual("", result.err)
        self.assert_golden("graph_mermaid.txt", result.out)
        self.assertEqual(result.out, self.graph("--format", "mermaid").out)
        self.assertEqual([], self.fake.requests)

    def test_dot(self):
        """DOT is what Graphviz reads."""
        result = self.graph("--format=dot")
        self.assert_exit(0, result)
        self.assert_golden("graph_dot.txt", result.out)
        if shutil.which("dot"):
            done = subprocess.run(["dot", "-Tcanon"], input=result.out, text=True,
                                  capture_output=True)
            self.assertEqual((0, ""), (done.returncode, done.stderr))

    def test_svg(self):
        """SVG is made by `dot`, and well-formed."""
        if not shutil.which("dot"):
            return
        result = self.graph("--format", "svg")
        self.assert_exit(0, result)
        root = xml.etree.ElementTree.fromstring(result.out)
        self.assertTrue(root.tag.endswith("svg"))
        self.assertIn("delete air/holds/{input.id}", "".join(root.itertext()))

    def test_svg_without_graphviz(self):
        """Without Graphviz, or with one that fails, it says so: exit 1."""
        result = self.graph("--format", "svg", env={"PATH": self.folder})
        self.assert_exit(1, result)
        self.assertEqual("", result.out)
        self.assertIn("needs the program `dot` of Graphviz, which is not installed", result.err)
        self.assertIn("--format mermaid", result.err)
        os.chmod(self.write("dot", "#!/bin/sh\nexit 3\n"), 0o755)
        result = self.graph("--format", "svg", env={"PATH": self.folder + ":/bin:/usr/bin"})
        self.assert_exit(1, result)
        self.assertEqual("", result.out)
        self.assertIn("`dot` has failed", result.err)

    def test_labels_are_text(self):
        """What an author wrote never becomes markup, in either language."""
        self.write("trip.yaml", WORKFLOW.replace(
            "{post: air/holds, body: {id: \"${{ input.id }}\"}}",
            "{sql: \"select ']\\\"];x<b>&#35;`\\\\n'\"}"))
        mermaid = self.graph().out
        label = re.search(r's_hold\["(.*)"\]', mermaid)[1]
        self.assertNotIn('"', label)
        self.assertNotIn("x<b>", label)
        dot = self.graph("--format", "dot")
        self.assert_exit(0, dot)
        if shutil.which("dot"):
            svg = self.graph("--format", "svg")
            self.assert_exit(0, svg)
            text = "".join(xml.etree.ElementTree.fromstring(svg.out).itertext())
            self.assertIn("x<b>&#35;`\\n", text)

    def test_json(self):
        """-o json is the picture as data; every arrow joins two nodes."""
        picture = json.loads(self.graph("-o", "json").out)
        ids = {node["id"] for node in picture["nodes"]}
        for arrow in picture["arrows"]:
            self.assertIn(arrow["from"], ids)
            self.assertIn(arrow["to"], ids)
        back = {(a["from"], a["to"]) for a in picture["arrows"] if a["back"]}
        self.assertEqual({("s_hold", "undone"), ("s_room", "s_hold"), ("s_bag", "s_hold"),
                          ("s_paid", "s_room"), ("s_paid", "s_bag")}, back)
        shapes = {node["id"]: node["shape"] for node in picture["nodes"]}
        self.assertEqual("pivot", shapes["s_ticket"])
        self.assertEqual("gate", shapes["s_paid"])

    def test_run(self):
        """--run paints the steps of a run with their states; items of a loop are counted."""
        add_run(self.fake, run("compensating", [
            step("hold", "applied", "pending"), step("room", "applied", "applied"),
            step("bag.1", "applied", "retrying"), step("bag.2", "refused"),
            step("paid", "withdrawn"), step("ticket", "pending"), step("mail", "pending")],
            run_id="trip-1", workflow="trip"))
        result = self.graph("--run", "trip", "-o", "json")
        self.assert_exit(0, result)
        self.assertIn("the run is one of version 1.0, the file is", result.err)
        nodes = {node["id"]: node for node in json.loads(result.out)["nodes"]}
        tones = {id: node["tone"] for id, node in nodes.items()}
        self.assertEqual({"start": "plain", "done": "plain", "undone": "plain", "s_hold": "done",
                          "s_room": "undone", "s_bag": "failed", "s_paid": "passed",
                          "s_ticket": "plain", "s_mail": "plain"}, tones)
        self.assertIn("undone", nodes["s_room"]["notes"])
        self.assertIn("class s_bag failed", self.graph("--run", "trip-1").out)
        self.assertIn("#fee2e2", self.graph("--run", "trip-1", "--format", "dot").out)

    def test_run_of_another_workflow(self):
        """A run of another workflow, an unknown one, no daemon."""
        add_run(self.fake, run("running", run_id="order-1"))
        result = self.graph("--run", "order-1")
        self.assert_exit(2, result)
        self.assertIn('is one of the workflow "order", not of "trip"', result.err)
        self.assert_exit(3, self.graph("--run", "nobody"))
        self.assert_exit(8, self.graph("--run", "x", env={"SAGA_SOCKET": "/nowhere"}))

    def test_bad_files(self):
        """A file with errors, and one that is not there: exit 2, nothing drawn."""
        self.write("trip.yaml", WORKFLOW.replace("input.id", "input.idd"))
        result = self.graph()
        self.assert_exit(2, result)
        self.assertEqual("", result.out)
        self.assertIn("trip.yaml has errors; nothing was drawn", result.err)
        self.assert_exit(2, self.ctl("graph", "nothing.yaml"))
        self.assert_exit(2, self.graph("--format", "png"))


if __name__ == "__main__":
    main()
