#!/usr/bin/env python3
"""events --follow and watch without a terminal: a line an event, to the end, and no further."""
import json
import os
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "lib"))
from ctl_case import CtlCase, main  # noqa: E402
from fake_sagad import Answer, Hangup, add_run, event, problem, run, wait_until  # noqa: E402


class Follow(CtlCase):
    def setUp(self):
        super().setUp()
        self.events = []
        self.state = "running"
        self.streams = 0
        self.ends_after = None  # a stream that breaks off after so many events
        self.fake.on("GET", "/v1/runs/order-1", lambda request: Answer(run(self.state)))
        self.fake.on("GET", "/v1/runs/order-1/events", self.answer)

    def answer(self, request):
        if request.headers["Accept"] != "text/event-stream":
            return Answer({"events": list(self.events)})
        self.streams += 1
        return Answer(events=self.stream(int(request.headers["Last-Event-ID"] or 0)))

    def stream(self, after):
        sent = 0
        yield ": hello\n\n"
        while not self.fake.stopping.is_set():
            for each in [e for e in self.events if e["seq"] > after]:
                yield each
                after = each["seq"]
                sent += 1
                if self.ends_after and sent >= self.ends_after:
                    raise BrokenPipeError
            if self.state in ("completed", "compensated", "abandoned"):
                return
            time.sleep(0.02)

    def add(self, *whats):
        for what in whats:
            self.events.append(event(len(self.events) + 1, what, "charge"))

    def happen(self, *whats, state="completed", after=0.3):
        def later():
            time.sleep(after)
            for what in whats:
                self.add(what)
                time.sleep(0.05)
            self.state = state
        thread = threading.Thread(target=later)
        thread.start()
        self.addCleanup(thread.join)

    def test_follow(self):
        """Old and new events are printed once each as they come, and the end of the run ends it."""
        self.add("claimed", "applied")
        self.happen("turned back", "compensated", state="compensated")
        process = self.start("events", "order-1", "--follow")
        begin = time.monotonic()
        first = process.stdout.readline()
        self.assertLess(time.monotonic() - begin, 0.3 + 2, "printed at once")
        out = process.stdout.read()  # what readline has buffered, too
        _, err = process.communicate(timeout=10)
        self.assertEqual(0, process.returncode, err)
        lines = (first + out).decode().splitlines()
        self.assertEqual(["claimed", "applied", "turned back", "compensated"],
                         [line[40:].strip() for line in lines])

    def test_a_cli_2_follow_json(self):
        """With -o json or jsonl each event is one line of JSON as the daemon sent it."""
        self.add("claimed")
        self.events[0]["detail"] = "19.90 \u00e9"
        self.state = "completed"
        for form in ("json", "jsonl"):
            result = self.ctl("events", "order-1", "--follow", "-o", form)
            self.assert_exit(0, result)
            self.assertEqual(self.events, [json.loads(x) for x in result.out.splitlines()])

    def test_a_daemon_5_head(self):
        """`events --follow | head -1` ends as soon as head does, although nothing more happens,
        and the daemon goes on serving."""
        self.add("claimed", "applied")
        begin = time.monotonic()
        follow = self.start("events", "order-1", "--follow")
        head = subprocess.Popen(["head", "-n", "1"], stdin=follow.stdout, stdout=subprocess.PIPE)
        follow.stdout.close()
        self.assertIn(b"claimed", head.communicate(timeout=10)[0])
        self.assertIn(follow.wait(timeout=10), (0, -signal.SIGPIPE))
        self.assertEqual(b"", follow.stderr.read())
        follow.stderr.close()
        self.assertLess(time.monotonic() - begin, 5)
        self.add("more")  # the daemon writes to a client that is gone
        self.assertTrue(wait_until(lambda: self.fake.hangups >= 1))
        self.assertIn("more", self.ctl("events", "order-1").out)

    def test_a_daemon_5_ignored_sigpipe(self):
        """The same where SIGPIPE is ignored, as under some supervisors."""
        self.add("claimed", "applied")
        process = subprocess.run(
            ["bash", "-c", "trap '' PIPE; %s events order-1 --follow | head -n 1; "
             "echo ${PIPESTATUS[0]} >&2" % os.path.abspath(self.start.__globals__["SAGACTL"])],
            env=self.env(), capture_output=True, text=True, timeout=20, check=True)
        self.assertIn("claimed", process.stdout)
        self.assertIn(process.stderr.strip(), ("0", "141"))

    def test_reconnect(self):
        """A stream that breaks off is resumed after the last event: none twice, none missing."""
        self.ends_after = 2
        for _ in range(7):
            self.add("applied")
        self.happen("completed", after=1)
        result = self.ctl("events", "order-1", "--follow", "-q")
        self.assert_exit(0, result)
        self.assertEqual([str(n) for n in range(1, 9)], result.out.split())
        self.assertGreaterEqual(self.streams, 4)
        asked = [r.headers["Last-Event-ID"] for r in self.fake.requests
                 if r.headers["Accept"] == "text/event-stream"]
        self.assertEqual([None, "2", "4", "6"], asked[:4])

    def test_restart(self):
        """A daemon that restarts does not end the following."""
        self.add("claimed")
        process = self.start("events", "order-1", "--follow", "-q")
        self.assertEqual(b"1\n", process.stdout.readline())
        self.fake.stop()
        time.sleep(0.5)
        self.add("completed")
        self.state = "completed"
        self.fake.start()
        out = process.stdout.read()
        _, err = process.communicate(timeout=20)
        self.assertEqual((0, b"2\n"), (process.returncode, out), err)

    def test_gone(self):
        """A daemon that does not come back ends it with 8."""
        process = self.start("events", "order-1", "--follow")
        self.assertTrue(wait_until(lambda: self.streams == 1))
        self.fake.stop()
        _, err = process.communicate(timeout=60)
        self.assertEqual(8, process.returncode, err)
        self.fake.start()

    def test_parked(self):
        """watch ends when the run is parked, events --follow only when it has ended."""
        self.add("claimed", "parked")
        self.state = "parked"
        watch = self.ctl("watch", "order-1")
        self.assert_exit(6, watch)
        self.assertEqual(2, len(watch.out.splitlines()))
        self.happen("retry", "completed", after=1)
        events = self.ctl("events", "order-1", "--follow")
        self.assert_exit(0, events)
        self.assertEqual(4, len(events.out.splitlines()))

    def test_watch_lines(self):
        """Without a terminal watch prints a line an event and ends with the run's own code."""
        self.happen("claimed", "refused", "compensated", state="compensated")
        result = self.ctl("watch", "order-1")
        self.assert_exit(5, result)
        self.assertEqual(3, len(result.out.splitlines()))
        self.assertNotIn("\x1b", result.out)

    def test_ctrl_c(self):
        """Ctrl-C ends the following with 130 and keeps what was printed."""
        self.add("claimed")
        process = self.start("events", "order-1", "--follow")
        self.assertIn(b"claimed", process.stdout.readline())
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=10)
        self.assertEqual(130, process.returncode)

    def test_quiet_stream(self):
        """A run that ends without the stream saying so (it hangs) is noticed all the same."""
        def silent(request):
            if request.headers["Accept"] != "text/event-stream":
                return Answer({"events": self.events})
            return Answer(events=(": wait\n\n" for _ in iter(
                lambda: self.fake.stopping.wait(0.2), True)))
        self.fake.on("GET", "/v1/runs/order-1/events", silent)
        self.happen("completed")
        result = self.ctl("events", "order-1", "--follow")
        self.assert_exit(0, result)
        self.assertEqual(1, len(result.out.splitlines()))

    def test_refused(self):
        """A stream that is refused ends it with the code of the refusal."""
        self.fake.on("GET", "/v1/runs/order-1/events", problem(403, "permission", "not you"))
        result = self.ctl("events", "order-1", "--follow")
        self.assert_exit(4, result)
        self.assertIn("not you", result.err)

    def test_split_events(self):
        """Events that arrive byte by byte, with CR LF or several data lines, are put together."""
        self.state = "completed"
        text = ("id: 1\r\nevent: x\r\ndata: {\"seq\":1,\r\ndata: \"what\":\"claimed\"}\r\n\r\n"
                ": note\n\nid:2\ndata:{\"seq\":2,\"what\":\"applied\"}\n\n")
        self.fake.on("GET", "/v1/runs/order-1",
                     [Answer(run("running")), Answer(run("running")), Answer(run("completed"))])
        self.fake.on("GET", "/v1/runs/order-1/events",
                     lambda request: Answer(events=iter(text))
                     if request.headers["Accept"] == "text/event-stream"
                     else Answer({"events": [{"seq": 1, "what": "claimed"},
                                             {"seq": 2, "what": "applied"}]}))
        result = self.ctl("events", "order-1", "--follow", "-q")
        self.assert_exit(0, result)
        self.assertEqual("1\n2\n", result.out)


if __name__ == "__main__":
    main()
