#!/usr/bin/env python3
"""validate, apply, schema, explain CODE: what is done with files, most of it without a daemon."""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "lib"))
from ctl_case import ROOT, CtlCase, main  # noqa: E402
from fake_sagad import Answer, Hangup, problem  # noqa: E402

GOOD = """workflow: %s
version: v1
run_id: x-${{ input.id }}
input: {type: object, required: [id], properties: {id: {type: string}}}
services: {shop: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
steps:
  - id: take
    action: {post: shop/things, body: {id: "${{ input.id }}"}}
    compensate: {delete: "shop/things/${{ input.id }}"}
"""
WARNED = GOOD.replace("run_id: x-${{ input.id }}\n", "")
BAD = GOOD.replace("${{ input.id }}\"}}", "${{ input.idd }}\"}}").replace("compensate", "compensat")


class Validate(CtlCase):
    def setUp(self):
        super().setUp()
        self.addCleanup(lambda: self.assertEqual([], self.fake.requests, "no daemon was asked"))

    def test_good(self):
        """A file without errors: exit 0, the retry schedule and the undo plan."""
        self.write("good.yaml", GOOD % "good")
        result = self.ctl("validate", "good.yaml", env={"SAGA_SOCKET": "/nowhere"})
        self.assert_exit(0, result)
        self.assertEqual("", result.err)
        self.assert_golden("validate_good.txt", result.out)

    def test_warning(self):
        """Warnings are shown and never change the exit code."""
        self.write("warned.yaml", WARNED % "warned")
        result = self.ctl("validate", "warned.yaml")
        self.assert_exit(0, result)
        self.assertIn("warning[W", result.out)
        self.assertIn("workflow warned, 1 step, 1 warning", result.out)

    def test_a_cli_1_bad_file(self):
        """Errors: exit 2, all of them on stdout in the exact shape, and a word on stderr."""
        self.write("bad.yaml", BAD % "bad")
        result = self.ctl("validate", "bad.yaml")
        self.assert_exit(2, result)
        self.assert_golden("validate_bad.txt", result.out)
        self.assertEqual("sagactl: bad.yaml: 2 errors\n", result.err)
        for line in result.out.splitlines():
            self.assertRegex(line, r"^(bad.yaml:\d+:\d+: error\[E\d{3}\]: .+| {3}\d\d? \| .*|"
                                   r" *\d+ \|.*| {6}\| +\^+| {3}= help: .+)$")

    def test_several(self):
        """Several files and directories: each is checked, one error is enough for exit 2; the
        daemon's own configuration in a directory is no workflow."""
        self.write("d/b.yaml", GOOD % "b")
        self.write("d/a.yml", GOOD % "a")
        self.write("d/sagad.yaml", "services: {}")
        self.write("d/.hidden.yaml", "nope")
        self.write("d/README.md", "nope")
        self.write("bad.yaml", BAD % "bad")
        self.assertEqual("a\nb\n", self.ctl("validate", "d", "-q").out)
        self.assertEqual("a\nb\n", self.ctl("validate", "d/", "-q").out)
        result = self.ctl("validate", "d", "bad.yaml", "-q")
        self.assert_exit(2, result)
        self.assertEqual("a\nb\n", result.out)

    def test_children(self):
        """Files are looked at together: a child among them is known, its input is checked, and
        nobody starts itself without end."""
        child = "workflow: %s\nrun_id: x-${{ input.id }}\nsteps:\n  - {id: run, action: {child: %s%s}}\n"
        self.write("good.yaml", GOOD % "good")
        self.write("parent.yaml", child % ("parent", "good", ", input: {id: \"${{ input.id }}\"}"))
        self.write("wrong.yaml", child % ("wrong", "good", ", input: {id: 7}"))
        self.write("loop.yaml", child % ("loop", "loop", ""))
        result = self.ctl("validate", "parent.yaml", "good.yaml")
        self.assert_exit(0, result)
        self.assertNotIn("warning", result.out)
        result = self.ctl("validate", "parent.yaml")
        self.assert_exit(0, result)
        self.assertIn("parent.yaml:4:31: warning[W315]: no workflow `good` is known here", result.out)
        result = self.ctl("validate", "wrong.yaml", "good.yaml", "loop.yaml")
        self.assert_exit(2, result)
        self.assertIn("wrong.yaml:4:31: error[E129]: the input of `good` does not fit: /id must be "
                      "text, not a number", result.out)
        self.assertIn("loop.yaml:4:31: error[E307]: `loop` starts `loop`: without end", result.out)
        self.assertIn("workflow good, 1 step\n", result.out)

    def test_schedule(self):
        """Of a workflow with a schedule the next three ticks are shown, in its zone."""
        self.write("s.yaml", GOOD % "s" +
                   "schedule: {cron: \"30 2 * * *\", zone: Asia/Tokyo, input: {id: \"${{ tick }}\"}}\n")
        result = self.ctl("validate", "s.yaml")
        self.assert_exit(0, result)
        self.assertRegex(result.out, r"\nSchedule \(`30 2 \* \* \*` in Asia/Tokyo; the next runs\)\n"
                                     r"(  \d{4}-\d\d-\d\dT02:30:00\+09:00\n){3}$")

    def test_json(self):
        """-o json names each file with what was found in it."""
        self.write("good.yaml", GOOD % "good")
        self.write("bad.yaml", BAD % "bad")
        result = self.ctl("validate", "good.yaml", "bad.yaml", "-o", "json")
        self.assert_exit(2, result)
        good, bad = json.loads(result.out)["files"]
        self.assertEqual((True, "good", "v1", 1, []), (good["ok"], good["workflow"],
                                                       good["version"], good["steps"],
                                                       good["diagnostics"]))
        self.assertRegex(good["hash"], "^[0-9a-f]{64}$")
        self.assertEqual((False, None, "bad.yaml"), (bad["ok"], bad["workflow"], bad["file"]))
        first = bad["diagnostics"][0]
        self.assertEqual(("bad.yaml", "error"), (first["file"], first["severity"]))
        self.assertRegex(first["code"], r"^E\d{3}$")
        self.assertEqual(2, len(self.ctl("validate", "good.yaml", "bad.yaml", "-o",
                                         "jsonl").out.splitlines()))

    def test_unreadable(self):
        """A file that cannot be read, an empty directory, a file of binary or of no bytes:
        exit 2, saying why."""
        os.makedirs(os.path.join(self.folder, "empty"))
        with open(os.path.join(self.folder, "binary.yaml"), "wb") as file:
            file.write(b"\x00\xff\xfe" * 100)
        self.write("nothing.yaml", "")
        for name, said in (("missing.yaml", "missing.yaml: No such file"),
                           ("empty", "has no *.yaml"), ("binary.yaml", "error"),
                           ("nothing.yaml", "error")):
            result = self.ctl("validate", name)
            self.assert_exit(2, result)
            self.assertIn(said, result.err)

    def test_large(self):
        """A file over the language's limit is refused by that limit."""
        self.write("large.yaml", "# " + "x" * (1024 * 1024) + "\n" + GOOD % "large")
        result = self.ctl("validate", "large.yaml")
        self.assert_exit(2, result)
        self.assertIn("error[", result.out)

    def test_explain_code(self):
        """Each code of a diagnostic has a page; an unknown one is not found."""
        result = self.ctl("explain", "E301", env={"SAGA_SOCKET": "/nowhere"})
        self.assert_exit(0, result)
        self.assertTrue(result.out.startswith("E301"))
        self.assertEqual("E301", json.loads(self.ctl("explain", "E301", "--json").out)["code"])
        result = self.ctl("explain", "E999")
        self.assert_exit(3, result)
        self.assertEqual("", result.out)
        self.assertIn("a code is E (an error) or W (a warning)", result.err)
        result = self.ctl("explain", "W099")
        self.assert_exit(3, result)
        self.assertIn("of its kind there are W001\n", result.err)
        # what could be a run's id is looked for; then it is told what a code is like
        for word, said in (("X999", "a code is E"), ("e301", "sagactl explain E301")):
            result = self.ctl("explain", word, env={"SAGA_SOCKET": "/nowhere"})
            self.assert_exit(8, result)
            self.assertIn(said, result.err)
            self.assertEqual("", result.out)
        self.assertNotIn("code", self.ctl("explain", "x99", env={"SAGA_SOCKET": "/nowhere"}).err)

    def test_explain_every_code(self):
        """Every code that the compiler's sources use can be explained."""
        sources = subprocess.run(["git", "ls-files", "dsl/*.c"], cwd=ROOT, text=True,
                                 capture_output=True, check=True).stdout.split()
        codes = set()
        for name in sources:
            with open(os.path.join(ROOT, name)) as file:
                codes |= set(re.findall(r'"([EW]\d{3})"', file.read()))
        self.assertGreater(len(codes), 20)
        for code in sorted(codes):
            self.assert_exit(0, self.ctl("explain", code))

    def test_schema(self):
        """schema prints the schema that the repository ships."""
        result = self.ctl("schema", env={"SAGA_SOCKET": "/nowhere"})
        self.assert_exit(0, result)
        with open(os.path.join(ROOT, "dsl", "workflow.schema.json")) as file:
            self.assertEqual(file.read(), result.out)


class Apply(CtlCase):
    def setUp(self):
        super().setUp()
        self.fake.on("POST", "/v1/validate", {"ok": True, "diagnostics": []})
        self.fake.on("PUT", "/v1/workflows", self.apply)
        self.status = ["applied", "unchanged", "current"]

    def answer(self, source):
        return {"workflow": source.split()[1], "version": "v1", "hash": "ab" * 32,
                "status": self.status.pop(0), "warnings": []}

    def apply(self, request):
        if request.headers["Content-Type"] != "application/json":
            return Answer(self.answer(request.body.decode()))
        return Answer({"files": [dict(self.answer(f["source"]), file=f["file"])
                                 for f in request.document["files"]]})

    def puts(self):
        """The names of the files of each request."""
        return [[f["file"] for f in r.document["files"]]
                if r.headers["Content-Type"] == "application/json" else [r.query["file"]]
                for r in self.fake.sent("PUT", "/v1/workflows")]

    def test_results(self):
        """Each file is named with its result; they are sent together, a single one byte for
        byte."""
        for name in "abc":
            self.write("d/%s.yaml" % name, GOOD % name)
        result = self.ctl("apply", "d")
        self.assert_exit(0, result)
        self.assert_golden("apply.txt", result.out)
        self.assertEqual([["d/a.yaml", "d/b.yaml", "d/c.yaml"]], self.puts())
        for method, path in ("POST", "/v1/validate"), ("PUT", "/v1/workflows"):
            self.assertEqual([{"file": "d/%s.yaml" % name, "source": GOOD % name} for name in "abc"],
                             self.fake.sent(method, path)[0].document["files"])
        self.status = ["unchanged"]
        self.assert_exit(0, self.ctl("apply", "d/a.yaml"))
        self.assertEqual(["d/a.yaml"], self.puts()[1])
        self.assertEqual((GOOD % "a").encode(), self.fake.sent("PUT", "/v1/workflows")[1].body)

    def test_too_many_for_one_request(self):
        """What is too large for one request goes file by file, and that is said."""
        for name in "abc":
            self.write("%s.yaml" % name, GOOD % name + "# %s\n" % ("x" * 900_000))
        result = self.ctl("apply", "a.yaml", "b.yaml", "c.yaml")
        self.assert_exit(0, result)
        self.assertIn("too many files for one request: each is applied by itself", result.err)
        self.assertEqual([["a.yaml"], ["b.yaml"], ["c.yaml"]], self.puts())

    def test_warnings_of_the_daemon(self):
        """What only the daemon can warn of is shown once, what was found here is not repeated."""
        self.write("a.yaml", GOOD % "a")
        self.write("b.yaml", GOOD % "b")
        found = {"file": "b.yaml", "line": 0, "column": 0, "span": 1, "severity": "warning",
                 "code": "W319", "message": "the current workflow `p` does not fit",
                 "help": None, "other": None}
        self.fake.on("POST", "/v1/validate", {"ok": True, "diagnostics": [found]})
        result = self.ctl("apply", "a.yaml", "b.yaml")
        self.assert_exit(0, result)
        self.assertEqual(1, result.err.count("b.yaml: warning[W319]: the current workflow `p`"))
        self.assertNotIn("a.yaml: warning", result.err)

    def test_all_or_nothing(self):
        """One file with an error and nothing is applied, nothing even sent; the errors are on
        stderr."""
        self.write("d/a.yaml", GOOD % "a")
        self.write("d/b.yaml", BAD % "b")
        result = self.ctl("apply", "d")
        self.assert_exit(2, result)
        self.assertEqual("", result.out)
        self.assertIn("d/b.yaml:", result.err)
        self.assertIn("error[E", result.err)
        self.assertIn("nothing was applied", result.err)
        self.assertEqual([], self.fake.requests)

    def test_daemon_disagrees(self):
        """What only the daemon knows to be wrong (its configuration) stops all files too, and is
        shown with the source line."""
        self.write("a.yaml", GOOD % "a")
        self.write("b.yaml", GOOD % "b")
        found = {"file": "b.yaml", "line": 8, "column": 14, "span": 4, "severity": "error",
                 "code": "E218", "message": "the daemon's configuration says no",
                 "help": "ask its operator", "other": None}
        self.fake.on("POST", "/v1/validate", {"ok": False, "diagnostics": [found]})
        result = self.ctl("apply", "a.yaml", "b.yaml")
        self.assert_exit(2, result)
        self.assertIn("b.yaml:8:14: error[E218]: the daemon's configuration says no\n"
                      "    8 |     action: {post: shop/things", result.err)
        self.assertIn("   = help: ask its operator\n", result.err)
        self.assertIn("b.yaml: the daemon finds it invalid\n", result.err)
        self.assertNotIn("a.yaml: the daemon", result.err)
        self.assertEqual([], self.puts())

    def test_refused(self):
        """If the daemon refuses files that it found valid, none is applied; file by file, the
        output tells apart what was."""
        for name in "abc":
            self.write("%s.yaml" % name, GOOD % name)
        conflict = problem(409, "conflict", 'the version label of "b" stands for another content')
        self.fake.on("PUT", "/v1/workflows", conflict)
        result = self.ctl("apply", "a.yaml", "b.yaml", "c.yaml")
        self.assert_exit(9, result)
        self.assertIn("stands for another content", result.err)
        self.assertIn("nothing was applied", result.err)
        states = lambda: [line.split("  ")[-1].strip() for line in result.out.splitlines()[1:]]
        self.assertEqual(["not applied"] * 3, states())
        for name in "abc":
            self.write("%s.yaml" % name, GOOD % name + "# %s\n" % ("x" * 900_000))
        self.fake.on("PUT", "/v1/workflows", [Answer({"status": "applied"}), conflict])
        result = self.ctl("apply", "a.yaml", "b.yaml", "c.yaml")
        self.assert_exit(9, result)
        self.assertIn("b.yaml was not applied", result.err)
        self.assertEqual(["applied", "not applied", "not applied"], states())
        self.assertEqual(3, len(self.puts()))

    def test_invalid_for_the_daemon(self):
        """A 422 of the daemon with diagnostics is exit 2 with these diagnostics."""
        self.write("a.yaml", GOOD % "a")
        self.fake.on("POST", "/v1/validate", problem(404, "not_found", "no such path"))
        self.fake.on("PUT", "/v1/workflows", problem(
            422, "workflow_invalid", "the workflow has 1 error",
            errors=[{"line": 1, "column": 11, "span": 1, "severity": "error", "code": "E106",
                     "message": "not today", "help": None}]))
        result = self.ctl("apply", "a.yaml")
        self.assert_exit(2, result)
        self.assertIn("a.yaml:1:11: error[E106]: not today", result.err)

    def test_same_name(self):
        """Two files of one workflow are refused before anything is sent."""
        self.write("a.yaml", GOOD % "same")
        self.write("b.yaml", GOOD % "same")
        result = self.ctl("apply", "a.yaml", "b.yaml")
        self.assert_exit(2, result)
        self.assertIn('a.yaml and b.yaml both define the workflow "same"', result.err)
        self.assertEqual([], self.fake.requests)

    def test_json(self):
        """-o json has the daemon's own answer for each file."""
        self.write("a.yaml", GOOD % "a")
        files = json.loads(self.ctl("apply", "a.yaml", "-o", "json").out)["files"]
        self.assertEqual("a.yaml", files[0]["file"])
        self.assertEqual("applied", files[0]["result"]["status"])

    def test_names(self):
        """File names with blanks and signs arrive as they are."""
        self.write("a & b.yaml", GOOD % "a")
        self.assert_exit(0, self.ctl("apply", "a & b.yaml"))
        self.assertEqual([["a & b.yaml"]], self.puts())

    def test_unreachable(self):
        """Without a daemon: exit 8, nothing applied."""
        self.write("a.yaml", GOOD % "a")
        result = self.ctl("apply", "a.yaml", env={"SAGA_SOCKET": "/nowhere"})
        self.assert_exit(8, result)
        self.assertIn("nothing was applied", result.err)


if __name__ == "__main__":
    main()
