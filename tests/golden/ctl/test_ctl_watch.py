#!/usr/bin/env python3
"""watch on a terminal: a picture that is redrawn in place, whatever the terminal is like."""
import os
import re
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "lib"))
from ctl_case import SAGACTL, CtlCase, main  # noqa: E402
from fake_sagad import Answer, add_run, at, problem, run, step  # noqa: E402
from screen import Terminal  # noqa: E402

DECLINED = {"code": "card_declined", "status": 402, "message": "the card was declined"}


def scenes():
    """A run that fails at its third step and walks back."""
    begun = at(-12)
    reserve = dict(started_at=at(-12), ended_at=at(-11.5))
    charge = dict(started_at=at(-11.5), ended_at=at(-10))
    confirm = dict(started_at=at(-10))
    return [
        run("running", [step("reserve", "claimed", started_at=at(-0.2)), step("charge"),
                        step("confirm"), step("receipt", effect="irreversible")],
            created_at=at(-0.3)),
        run("running", [step("reserve", "applied", **reserve),
                        step("charge", "retrying", attempts=2, next_at=at(599),
                             error={"code": "unavailable", "status": 503, "message": "later"},
                             started_at=at(-11.5)),
                        step("confirm"), step("receipt", effect="irreversible")],
            created_at=begun),
        run("compensating", [
            step("reserve", "applied", **reserve),
            step("charge", "applied", compensation_state="claimed", **charge),
            step("confirm", "refused", error=DECLINED, **confirm, ended_at=at(-9)),
            step("receipt", effect="irreversible")],
            created_at=begun, cause="step_refused", error={"step": "confirm", **DECLINED}),
        run("compensated", [
            step("reserve", "applied", compensation_state="applied", **reserve),
            step("charge", "applied", compensation_state="applied", **charge),
            step("confirm", "refused", error=DECLINED, **confirm, ended_at=at(-9)),
            step("receipt", effect="irreversible")],
            created_at=begun, ended_at=at(-8), cause="step_refused",
            error={"step": "confirm", **DECLINED}),
    ]


class Watch(CtlCase):
    def terminal(self, *args, columns=80, rows=24, **env):
        return Terminal([SAGACTL, *args], self.env(**env), self.folder, columns, rows)

    def show(self, document):
        add_run(self.fake, document)

    def test_tree(self):
        """Each step is one line that changes in place, and the end is left on the screen."""
        first, second, third, last = scenes()
        self.show(first)
        terminal = self.terminal("watch", "order-1")
        self.assertTrue(terminal.until(lambda s: "sending" in s.text))
        self.assertTrue(terminal.screen.cursor_hidden)
        self.assertEqual(5, len(terminal.screen.text.splitlines()), terminal.screen.text)
        self.show(second)
        self.assertTrue(terminal.until(lambda s: "retry in 9m " in s.text), terminal.screen.text)
        left = re.search(r"retry in (9m \d\ds)", terminal.screen.text)[1]
        self.assertIn("2 attempts", terminal.screen.text)
        self.assertIn("503 unavailable: later", terminal.screen.text)
        self.assertTrue(terminal.until(lambda s: left not in s.text), "the clock runs")
        self.show(third)
        self.assertTrue(terminal.until(lambda s: "undoing" in s.text))
        self.assertIn("turned back: a step was refused for good", terminal.screen.text)
        self.show(last)
        self.assertEqual(5, terminal.end())
        self.assertFalse(terminal.screen.cursor_hidden)
        self.assert_golden("watch_compensated.txt", terminal.screen.text + "\n")

    def test_queued(self):
        """Why it has not begun; who stands behind a parked run is told which."""
        self.show(run("queued", [step("send")], waiting_for="timer", start_at=at(7200)))
        terminal = self.terminal("watch", "order-1")
        self.assertTrue(terminal.until(lambda s: "waits for its start at 20" in s.text))
        self.show(run("queued", [step("send")], waiting_for="lock",
                      lock={"value": "acme", "holder": "order-0", "position": 1},
                      behind={"run_id": "order-0", "reason": "repair"}))
        self.assertTrue(terminal.until(lambda s: "next: sagactl dead show order-0" in s.text))
        self.assertIn('waits for the lock "acme", which order-0 holds', terminal.screen.text)
        self.assertIn("order-0 is parked and needs a person", terminal.screen.text)
        self.show(run("completed", [step("send", "applied")]))
        self.assertEqual(0, terminal.end())

    def test_columns_left_out(self):
        """A table that a narrow terminal cuts says which columns are missing; wide ones do not."""
        self.fake.on("GET", "/v1/runs", {"runs": [run("running", [step("send")])], "next": None})
        for columns, said in (34, True), (160, False):
            terminal = self.terminal("list", "-o", "table", columns=columns)
            self.assertEqual(0, terminal.end())
            text = terminal.screen.text.replace("\n", "")
            self.assertEqual(said, "columns left out: " in text, text)
            if said:
                self.assertIn("; -o json or a wider terminal shows them", text)
        self.assertNotIn("left out", self.ctl("list").out)

    def test_symbols(self):
        """Every state of a step has its own sign; a locale without UTF-8 gets ASCII ones."""
        steps = [step("s_pending"), step("s_sending", "claimed"),
                 step("s_retrying", "retrying", next_at=at(100)),
                 step("s_waiting", "waiting", next_at=at(4000)), step("s_unknown", "unknown"),
                 step("s_applied", "applied"), step("s_refused", "refused", error=DECLINED),
                 step("s_skipped", "skipped"), step("s_withdrawn", "withdrawn"),
                 step("s_undoing", "applied", compensation_state="claimed"),
                 step("s_again", "applied", compensation_state="retrying"),
                 step("s_undone", "applied", compensation_state="applied"),
                 step("s_stuck", "applied", compensation_state="refused"),
                 step("s_lost", "applied", compensation_state="unknown"),
                 step("s_by_hand", "applied", compensation_state="skipped")]
        self.show(run("parked", steps, park_reason="compensation_failed"))
        for locale, name in (("C.UTF-8", "watch_symbols.txt"), ("C", "watch_symbols_ascii.txt")):
            terminal = self.terminal("watch", "order-1", LC_ALL=locale)
            self.assertEqual(6, terminal.end())
            text = terminal.screen.text
            self.assertEqual(locale == "C", text.isascii())
            signs = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏" if locale != "C" else "|/-\\"
            for line in text.splitlines():
                if "s_sending" in line:
                    self.assertIn(line[1], signs)
                    text = text.replace(line, line.replace(line[1], "*", 1))
            for clock, shown in ((r"retry in 1m \d\ds", "retry in 1m 40s"),
                                 (r"waits 1h 0\dm", "waits 1h 06m"),
                                 (r"parked  5m 0\ds", "parked  5m 00s")):
                self.assertRegex(text, clock)
                text = re.sub(clock, shown, text)
            self.assert_golden(name, text + "\n")

    def test_workers(self):
        """A task that nobody has taken waits for a worker; one that is taken is with it."""
        q = dict(queue="slips")
        self.show(run("compensating", [
            step("offered", "waiting", next_at=at(100), **q), step("taken", "claimed", **q),
            step("sent", "claimed"),
            step("undo_offered", "applied", compensation_state="waiting", compensation_queue="slips",
                 **q),
            step("undo_taken", "applied", compensation_state="claimed", compensation_queue="slips"),
            step("undo_sent", "applied", compensation_state="claimed", **q)]))
        terminal = self.terminal("watch", "order-1")
        self.assertTrue(terminal.until(lambda s: "undo_sent" in s.text))
        said = {line.split()[1]: " ".join(line.split()[2:])
                for line in terminal.screen.text.splitlines()[1:7]}
        self.assertEqual({"offered": "waiting for a worker", "taken": "with a worker",
                          "sent": "sending", "undo_offered": "undo waiting for a worker",
                          "undo_taken": "undo with a worker", "undo_sent": "undoing"}, said)
        self.show(run("abandoned", []))
        terminal.end()

    def test_asked(self):
        """An unknown outcome that is asked about says when the next question goes out."""
        def asked(direction, left):
            return {"direction": direction, "asked": 1, "next_at": at(left), "until": at(3600 * 9)}
        self.show(run("compensating", [
            step("charge", "unknown", unknown=asked("execute", 3600 * 5 + 30)),
            step("given_up", "unknown", unknown=dict(asked("execute", 0), next_at=None)),
            step("refund", "applied", compensation_state="unknown",
                 unknown=asked("compensate", -3))]))
        terminal = self.terminal("watch", "order-1")
        self.assertTrue(terminal.until(lambda s: "refund" in s.text))
        said = {line.split()[1]: " ".join(line.split()[2:])
                for line in terminal.screen.text.splitlines()[1:4]}
        self.assertEqual({"charge": "unknown, asks in 5h 00m", "given_up": "unknown",
                          "refund": "unknown, asking"}, said)
        self.show(run("abandoned", []))
        terminal.end()

    def test_colors(self):
        """Colour where it is wanted: not with NO_COLOR or --color never, and the picture is the
        same; --color always wins."""
        self.show(scenes()[3])
        plain = self.terminal("watch", "order-1", NO_COLOR="1")
        self.assertEqual(5, plain.end())
        self.assertEqual(set(), plain.screen.colors)
        never = self.terminal("watch", "order-1", "--color", "never")
        self.assertEqual(5, never.end())
        self.assertEqual(set(), never.screen.colors)
        colored = self.terminal("watch", "order-1")
        self.assertEqual(5, colored.end())
        self.assertLess({"31", "33", "0"}, colored.screen.colors)
        self.assertEqual(plain.screen.text, colored.screen.text)
        always = self.terminal("watch", "order-1", "--color", "always", NO_COLOR="1")
        self.assertEqual(5, always.end())
        self.assertIn("31", always.screen.colors)

    def test_narrow(self):
        """On a narrow terminal lines are cut, never wrapped."""
        self.show(scenes()[2])
        for columns in (20, 33, 10, 4):
            terminal = self.terminal("watch", "order-1", columns=columns)
            self.assertTrue(terminal.until(lambda s: "reserve"[:max(0, columns - 6)] in s.text))
            time.sleep(0.3)
            terminal.read()
            lines = terminal.screen.text.splitlines()
            self.assertEqual(6, len(lines), terminal.screen.text)
            self.assertTrue(all(len(line) < columns for line in lines), lines)
            terminal.keys(b"\x03")
            self.assertEqual(130, terminal.end())

    def test_resize(self):
        """After a resize nothing of the old frame is left."""
        self.show(scenes()[2])
        terminal = self.terminal("watch", "order-1", columns=100)
        self.assertTrue(terminal.until(lambda s: "undoing" in s.text))
        for columns in (40, 25, 120, 30, 80):
            terminal.resize(columns, 24)
            time.sleep(0.25)
            terminal.read()
            terminal.until(lambda s: False, 0.3)
            self.assertEqual(1, terminal.screen.text.count("order-1"), terminal.screen.text)
            self.assertEqual(6, len(terminal.screen.text.splitlines()), terminal.screen.text)
        self.show(scenes()[3])
        self.assertEqual(5, terminal.end())
        self.assert_golden("watch_compensated.txt", terminal.screen.text + "\n")

    def test_many_steps(self):
        """A run with more steps than rows shows those around the one in motion; the whole tree is
        left behind at the end."""
        steps = [step("step_%03d" % i, "applied" if i < 40 else "claimed" if i == 40 else "pending")
                 for i in range(100)]
        self.show(run("running", steps))
        terminal = self.terminal("watch", "order-1", rows=20)
        self.assertTrue(terminal.until(lambda s: "step_040" in s.text))
        time.sleep(0.3)
        terminal.read()
        self.assertLess(len(terminal.screen.text.splitlines()), 20)
        self.assertIn("earlier not shown", terminal.screen.text)
        self.assertIn("later not shown", terminal.screen.text)
        self.assertEqual(terminal.screen.text, terminal.screen.visible)
        self.show(run("completed", [step("step_%03d" % i, "applied") for i in range(100)]))
        self.assertEqual(0, terminal.end())
        lines = terminal.screen.text.splitlines()
        self.assertEqual(101, len(lines), terminal.screen.text)
        self.assertEqual(["step_%03d" % i for i in range(100)], [x.split()[1] for x in lines[1:]])

    def test_ctrl_c(self):
        """Ctrl-C gives the cursor back and ends with 130."""
        self.show(scenes()[1])
        terminal = self.terminal("watch", "order-1")
        self.assertTrue(terminal.until(lambda s: "retry in" in s.text))
        terminal.keys(b"\x03")
        self.assertEqual(130, terminal.end())
        self.assertFalse(terminal.screen.cursor_hidden)
        self.assertIn("the run goes on: sagactl watch order-1", terminal.screen.text)

    def test_hostile_text(self):
        """Text of a service cannot move the cursor, color, or forge lines."""
        evil = "no\x1b[2J\x1b[31m\r\nfake  completed\x07\u202e\x9b31m"
        self.show(run("parked", [step("charge", "refused",
                                      error={"code": evil, "status": 400, "message": evil})],
                      error={"step": "charge", "code": evil, "message": evil}))
        for verb in (["watch", "order-1"], ["show", "order-1"], ["explain", "order-1"]):
            terminal = self.terminal(*verb, NO_COLOR="1", columns=200)
            terminal.end()
            self.assertFalse(any(line.startswith("fake")
                                 for line in terminal.screen.text.splitlines()))
        result = self.ctl("show", "order-1")
        self.assertNotRegex(result.out, "[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")

    def test_wide_characters(self):
        """Ids and messages of double width are cut by columns, not by bytes."""
        self.show(run("parked", [step("charge", "refused", error={
            "code": "拒否", "status": 402, "message": "カードは拒否されました" * 5})]))
        terminal = self.terminal("watch", "order-1", columns=60)
        self.assertEqual(6, terminal.end())
        self.assertIn("402 拒否", terminal.screen.text)
        for line in terminal.screen.lines:
            self.assertLess(len(line), 60)

    def test_restart(self):
        """While the daemon restarts the picture stays and says so; then it goes on."""
        self.show(scenes()[1])
        terminal = self.terminal("watch", "order-1")
        self.assertTrue(terminal.until(lambda s: "retry in" in s.text))
        self.fake.stop()
        self.assertTrue(terminal.until(lambda s: "the daemon cannot answer now" in s.text))
        self.assertIn("reserve", terminal.screen.text)
        self.fake.on("GET", "/v1/runs/order-1", [problem(503, "unavailable", "no database"),
                                                 Answer(scenes()[3])])
        self.fake.start()
        self.assertEqual(5, terminal.end())
        self.assertNotIn("cannot answer", terminal.screen.text)

    def test_run_watch(self):
        """run --watch starts the run and then watches it."""
        self.show(scenes()[3])
        self.fake.on("POST", "/v1/runs", Answer({"run_id": "order-1", "state": "running"}, 202))
        terminal = self.terminal("run", "order", "--watch")
        self.assertEqual(5, terminal.end())
        self.assert_golden("watch_compensated.txt", terminal.screen.text + "\n")

    def test_dumb_terminal(self):
        """A terminal that cannot be redrawn gets a line an event."""
        self.show(scenes()[3])
        self.fake.on("GET", "/v1/runs/order-1/events", {"events": [
            {"seq": 1, "at": at(-5), "step_id": "charge", "what": "applied", "detail": ""}]})
        for term in ("dumb", ""):
            terminal = self.terminal("watch", "order-1", TERM=term)
            self.assertEqual(5, terminal.end())
            self.assertNotIn(b"\x1b", terminal.raw)
            self.assertRegex(terminal.screen.text, r"^\S+Z +charge +applied$")


if __name__ == "__main__":
    main()
