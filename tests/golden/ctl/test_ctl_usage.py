#!/usr/bin/env python3
"""The command line: what is not understood is refused with exit 2, and help is on request only."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "lib"))
from ctl_case import CtlCase, main  # noqa: E402

VERBS = ("validate apply diff test graph workflows schema run list show watch wait events explain dead audit cancel "
         "pause resume compensate abandon retry settle skip signal answer bulk migrate services daemons ping completion help").split()
LATER = ("init doctor ui "
         "mcp").split()

# arguments: what the one line on stderr must contain
WRONG = [
    ([], "say what to do"),
    (["-o", "json"], "say what to do"),
    (["nope"], 'unknown verb "nope"'),
    (["lst"], "did you mean list?"),
    (["--bogus", "list"], "unknown option --bogus before the verb"),
    (["list", "--bogus"], "unknown option --bogus"),
    (["list", "--stat", "parked"], "did you mean --state?"),
    (["list", "-x"], "unknown option -x"),
    (["list", "order"], '"order" is too much'),
    (["ping", "a"], "takes no argument"),
    (["list", "--state"], "--state needs a value: STATE"),
    (["list", "--state="], "--state needs a value that is not empty"),
    (["list", "--state", "parkd"], "did you mean parked?"),
    (["list", "--state", "parked", "--state", "running"], "given twice"),
    (["list", "--since", "90"], '"90" for --since is not a duration'),
    (["list", "--since", "-1h"], "is not a duration"),
    (["list", "--limit", "many"], "is not a number"),
    (["list", "--limit", "-5"], "is not a number"),
    (["list", "--limit", "99999999999999999999"], "is not a number"),
    (["list", "--follow"], "unknown option --follow"),
    (["list", "-o", "yaml"], "is not one of table|wide|json|jsonl|name"),
    (["list", "-o", "json", "-q"], "give only one of -o, --json and -q"),
    (["list", "--json", "-o", "table"], "give only one of"),
    (["list", "--color", "sometimes"], "is not one of auto|always|never"),
    (["ping", "--json=yes"], "--json takes no value"),
    (["run"], "run needs WORKFLOW"),
    (["run", ""], "an argument of run is empty"),
    (["run", "order", "extra"], '"extra" is too much'),
    (["run", "order", "--wait", "--watch"], "give --wait or --watch, not both"),
    (["run", "order", "--watch", "-o", "json"], "use --wait with -o json"),
    (["run", "order", "--timeout", "5s"], "--timeout needs --wait or --watch"),
    (["run", "order", "--wait", "--timeout", "soon"], "is not a duration"),
    (["run", "order", "--wait", "--timeout", "0s"], "is not a duration"),
    (["show"], "show needs RUN"),
    (["show", ""], "an argument of show is empty"),
    (["show", "a", "b"], '"b" is too much'),
    (["watch"], "watch needs RUN"),
    (["wait"], "wait needs RUN"),
    (["events"], "events needs RUN"),
    (["explain"], "explain needs a RUN, a CODE or --states"),
    (["explain", "E203", "--states"], "give --states or an argument, not both"),
    (["dead", "bury"], 'not "bury"'),
    (["dead", "show"], "dead show needs a RUN"),
    (["dead", "list", "x"], "dead list takes no argument"),
    (["audit", "bury"], 'not "bury"'),
    (["audit", "list", "x"], "audit list takes no argument"),
    (["audit", "verify", "--run", "r"], "audit verify checks everything"),
    (["validate"], "validate needs FILE"),
    (["apply"], "apply needs FILE"),
    (["completion"], "completion needs bash|zsh|fish"),
    (["completion", "csh"], 'no completion for "csh"'),
    (["help", "nope"], 'unknown verb "nope"; see sagactl --help'),
    (["resume", "--state", "paused", "--reason", "x"], "--state paused is for list"),
    (["help", "lst"], 'unknown verb "lst", did you mean list?'),
    (["settle", "r1", "--applied", "--reason", "x"], "settle needs RUN STEP"),
    (["settle", "r1", "s", "--reason", "x"], "either --applied or --not-applied"),
    (["settle", "r1", "s", "--applied", "--not-applied", "--reason", "x"],
     "either --applied or --not-applied"),
    (["settle", "r1", "s", "--not-applied", "--output", "{}", "--reason", "x"],
     "--output needs --applied"),
    (["settle", "r1", "s", "--applied"], "settle needs --reason TEXT"),
    (["settle", "r1", "s:sideways", "--applied", "--reason", "x"], '"s:sideways" is not a step'),
    (["skip", "r1", "s"], "skip needs --reason TEXT"),
    (["cancel", "r1", "--reason", ""], "the reason is empty"),
    (["cancel", "r1", "--reason", "  "], "the reason is empty"),
    (["cancel", "--reason", "x"], "cancel needs RUN..., or --state"),
    (["cancel", "r1", "--state", "parked", "--reason", "x"], "give runs or a filter, not both"),
    (["cancel", "r1", "--rate", "5/s", "--reason", "x"], "are for several runs"),
    (["cancel", "r1", "r2", "--rate", "fast", "--reason", "x"], '"fast" for --rate is not a rate'),
    (["cancel", "r1", "r2", "--max-error-share", "2", "--reason", "x"], "is not a number from 0 to 1"),
    (["cancel", "--state", "parkd", "--reason", "x"], "did you mean parked?"),
    (["retry", "r1", "r2", "--input", "{}", "--reason", "x"], "a corrected input is for one run"),
    (["retry", "r1", "r2", "--step-input", "{}", "--reason", "x"], "is for one run"),
    (["answer", "--applied"], "answer needs KEY"),
    (["answer", "r:s:execute"], "either --applied or --refused"),
    (["answer", "r:s:execute", "--applied", "--refused"], "either --applied or --refused"),
    (["answer", "r:s:execute", "--refused", "--output", "{}"], "--output needs --applied"),
    (["bulk", "bury"], 'not "bury"'),
    (["bulk", "show"], "bulk show needs an ID"),
    (["bulk", "list", "x"], "bulk list takes no argument"),
    (["dead", "show", "r1", "--check"], "--check is for the list"),
]


class Usage(CtlCase):
    def setUp(self):
        super().setUp()
        self.addCleanup(lambda: self.assertEqual([], self.fake.requests, "no daemon was asked"))

    def test_a_cli_1_wrong_usage(self):
        """Every wrong command line gives exit 2, nothing on stdout, and one line that names the
        help."""
        for args, said in WRONG:
            with self.subTest(args=args):
                result = self.ctl(*args)
                self.assert_exit(2, result)
                self.assertEqual("", result.out)
                self.assertEqual(1, result.err.count("\n"), result)
                self.assertTrue(result.err.startswith("sagactl: "), result)
                self.assertIn(said, result.err)
                verb = next((a for a in args if a in VERBS), None)
                if "before the verb" in said or "unknown verb" in said:
                    verb = None
                self.assertIn("see sagactl %s--help" % (verb + " " if verb else ""), result.err)

    def test_reason(self):
        """Every verb that changes a run refuses to go without a reason."""
        for verb in "cancel pause resume compensate abandon retry".split():
            result = self.ctl(verb, "r1")
            self.assert_exit(2, result)
            self.assertIn("%s needs --reason TEXT" % verb, result.err)

    def test_later(self):
        """Verbs and options of the interface that are not built say so, with exit 2, and are in
        no help."""
        overview = self.ctl("--help").out
        for verb in LATER:
            result = self.ctl(verb, "x")
            self.assert_exit(2, result)
            self.assertIn("not supported by this version", result.err)
            self.assertNotIn("\n  %s " % verb, overview)
        for args in (["show", "r", "--effects"],):
            result = self.ctl(*args)
            self.assert_exit(2, result)
            self.assertIn("not supported by this version", result.err)

    def test_help(self):
        """Help that was asked for comes on stdout with exit 0, for each verb, and names each
        option of it."""
        for args in (["--help"], ["-h"], ["help"]):
            result = self.ctl(*args)
            self.assert_exit(0, result)
            self.assertEqual("", result.err)
            for verb in VERBS:
                self.assertIn("\n  %s" % verb, result.out)
            self.assertEqual([], [line for line in result.out.splitlines() if len(line) > 80])
        for verb in VERBS:
            result = self.ctl(verb, "--help")
            self.assert_exit(0, result)
            self.assertEqual("", result.err)
            self.assertTrue(result.out.startswith("sagactl %s" % verb), result)
            options = result.out[result.out.index("\nOptions"):]
            self.assertEqual([], [line for line in options.splitlines() if len(line) > 80])
            self.assertRegex(result.out.split("\n")[2], r"[a-zA-Z)][.?]$")
            self.assertEqual(result.out, self.ctl("help", verb).out)
            self.assertEqual(result.out, self.ctl("--help", verb).out)

    def test_help_golden(self):
        """The overview and the help of run read as they were meant to."""
        self.assert_golden("help.txt", self.ctl("--help").out)
        self.assert_golden("help_run.txt", self.ctl("run", "--help").out)

    def test_version(self):
        """--version prints one line and exits 0."""
        result = self.ctl("--version")
        self.assert_exit(0, result)
        self.assertRegex(result.out, r"^sagactl \d+\.\d+\.\d+\n$")

    def test_bytes(self):
        """Arguments that are no UTF-8 are refused before anything is sent."""
        for args in (["run", b"ord\xff"], ["run", "order", "--id", b"\xff"],
                     ["cancel", "r1", "--reason", b"\xc3"]):
            result = self.ctl(*args)
            self.assert_exit(2, result)
            self.assertIn("not UTF-8", result.err)

    def test_json_values(self):
        """A value that must be JSON is checked here: exit 2, and it says what is wrong with it."""
        bad = self.write("bad.json", '{"a": 1,}')
        for value in ("{", "{'a': 1}", "nope", "@" + bad, "@/nowhere/x.json", '{"a":1,"a":2}'):
            result = self.ctl("run", "order", "--input", value)
            self.assert_exit(2, result)
            self.assertEqual("", result.out)
            self.assertRegex(result.err, "--input is not JSON|could not read")


if __name__ == "__main__":
    main()
