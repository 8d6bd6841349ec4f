#!/usr/bin/env python3
"""Exit codes: each of the table, told apart, with the message on stderr."""
import os
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "lib"))
from ctl_case import SAGACTL, CtlCase, main  # noqa: E402
from fake_sagad import Answer, Hangup, add_run, problem, run, step, wait_until  # noqa: E402


class Refusals(CtlCase):
    def refused(self, code, answer, said):
        self.fake.on("POST", "/v1/runs", answer)
        for path in ("/v1/runs/r1/cancel", "/v1/runs/r1/steps/s/skip"):
            self.fake.on("POST", path, answer)
        self.fake.on("GET", "/v1/runs/r1", answer)
        self.fake.on("GET", "/v1/runs", answer)
        for args in (("run", "order"), ("cancel", "r1", "--reason", "x"),
                     ("skip", "r1", "s", "--reason", "x"), ("list",), ("list", "-o", "json")):
            result = self.ctl(*args)
            self.assert_exit(code, result)
            self.assertEqual("", result.out)
            self.assertTrue(result.err.startswith("sagactl: "), result)
            self.assertIn(said, result.err)
        return result

    def test_a_cli_1_statuses(self):
        """Each kind of refusal has its own exit code, whatever was asked for."""
        for status, code in ((400, 2), (401, 4), (403, 4), (404, 3), (409, 9), (413, 2), (422, 2),
                             (429, 1), (500, 1), (501, 2), (503, 1)):
            with self.subTest(status=status):
                self.refused(code, problem(status, "some_code", "what went wrong"),
                             "what went wrong (some_code)")

    def test_not_json(self):
        """A refusal without a document (as transports make them) is reported by its status."""
        for status, code in ((413, 2), (503, 1)):
            self.refused(code, Answer(raw=b"<html>no</html>", status=status,
                                      content_type="text/html"), "HTTP status %d" % status)

    def test_too_large(self):
        """A request that no daemon takes is refused here, with exit 2."""
        path = self.write("big.json", '{"a": "%s"}' % ("x" * 3000000))
        result = self.ctl("run", "order", "--input", "@" + path)
        self.assert_exit(2, result)
        self.assertIn("is too large", result.err)
        self.assertEqual([], self.fake.requests)

    def test_retry_after(self):
        """A daemon that is overloaded or without its database says when to come back."""
        result = self.refused(1, problem(503, "unavailable", "the database is away"), "away")
        self.assertIn("try again in 1 s", result.err)

    def test_input_errors(self):
        """Every error of an input that does not fit is shown with its place and help."""
        self.fake.on("POST", "/v1/runs", problem(
            422, "input_invalid", "the input does not fit",
            errors=[{"pointer": "/amount_cents", "message": "must be at least 1", "help": None},
                    {"pointer": "/sku", "message": "is required", "help": "a text like lamp"}]))
        result = self.ctl("run", "order", "--input", '{"amount_cents": 0}')
        self.assert_exit(2, result)
        self.assertIn("  /amount_cents: must be at least 1\n", result.err)
        self.assertIn("  /sku: is required\n    help: a text like lamp\n", result.err)

    def test_answer_is_no_json(self):
        """An answer of status 200 that cannot be read is an error, never empty success."""
        for raw in (b"", b"<html>", b'{"runs": ['):
            self.fake.on("GET", "/v1/runs", Answer(raw=raw))
            for args in (["list"], ["list", "-o", "json"]):
                result = self.ctl(*args)
                self.assert_exit(1, result)
                self.assertEqual("", result.out)
                self.assertIn("cannot be read", result.err)


class Unreachable(CtlCase):
    def test_a_cli_1_no_socket(self):
        """Without any socket: exit 8, the places that were looked at, and how to start a daemon."""
        result = self.ctl("list", env={"SAGA_SOCKET": None})
        self.assert_exit(8, result)
        self.assertEqual("", result.out)
        self.assertIn("%s/sagad.sock: no socket there" % self.folder, result.err)
        self.assertIn("/run/sagad/sagad.sock", result.err)
        self.assertIn("sagad --dev", result.err)

    def test_named_socket_that_is_none(self):
        """Who has named a socket is not told to name one."""
        for args, env in (["--socket", "/nope", "list"], {}), (["list"], {"SAGA_SOCKET": "/nope"}):
            result = self.ctl(*args, env=env)
            self.assert_exit(8, result)
            self.assertIn("/nope: no socket there\n", result.err)
            self.assertIn("start one there: sagad --socket /nope ", result.err)
            self.assertNotIn("or name its socket", result.err)

    def test_named_socket(self):
        """A socket that is named is the only one tried: another daemon is never reached instead."""
        good = os.path.join(self.folder, "sagad.sock")
        os.symlink(self.fake.socket, good)
        for args, env in ((["list", "--socket", "/nowhere/x.sock"], {}),
                          (["list"], {"SAGA_SOCKET": "/nowhere/x.sock"})):
            result = self.ctl(*args, env=env)
            self.assert_exit(8, result)
            self.assertIn("/nowhere/x.sock", result.err)
            self.assertNotIn(good, result.err)
        self.assertEqual([], self.fake.requests)

    def test_stale_socket(self):
        """A socket that nobody listens on: exit 8, saying that the daemon is not running."""
        stale = os.path.join(self.folder, "stale.sock")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(stale)
        result = self.ctl("ping", "--socket", stale)
        self.assert_exit(8, result)
        self.assertIn("nobody listens on %s: the daemon is not running" % stale, result.err)

    def test_lookup_order(self):
        """--socket wins over SAGA_SOCKET, that over the nearest .saga upwards, that over
        XDG_RUNTIME_DIR."""
        self.fake.on("GET", "/v1/ping", {"daemon": "near", "version": "1", "database": "up",
                                         "shards": 64, "uptime_s": 1})
        deep = os.path.join(self.folder, "project", "a", "b")
        os.makedirs(os.path.join(self.folder, "project", ".saga"))
        os.makedirs(deep)
        near = os.path.join(self.folder, "project", ".saga", "sagad.sock")
        os.symlink(self.fake.socket, near)
        gone = os.path.join(self.folder, "gone")
        os.makedirs(gone)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(os.path.join(gone, "sagad.sock"))
        self.assert_exit(0, self.ctl("ping", cwd=deep,
                                     env={"SAGA_SOCKET": None, "XDG_RUNTIME_DIR": gone}))
        self.assert_exit(0, self.ctl("ping", cwd="/", env={"SAGA_SOCKET": near,
                                                           "XDG_RUNTIME_DIR": gone}))
        self.assert_exit(0, self.ctl("ping", "--socket", near, cwd="/",
                                     env={"SAGA_SOCKET": gone + "/sagad.sock"}))
        os.symlink(self.fake.socket, os.path.join(self.folder, "sagad.sock"))
        self.assert_exit(0, self.ctl("ping", cwd="/", env={"SAGA_SOCKET": None}))
        # The nearest one exists but is dead: a daemon elsewhere is not meant.
        os.unlink(near)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(near)
        result = self.ctl("ping", cwd=deep, env={"SAGA_SOCKET": None})
        self.assert_exit(8, result)
        self.assertIn(near, result.err)

    def test_long_path(self):
        """A socket whose path is longer than an address holds is reached all the same."""
        deep = os.path.join(self.folder, "d" * 60, "e" * 60)
        os.makedirs(deep)
        os.rename(self.fake.socket, os.path.join(deep, "sagad.sock"))
        os.symlink(os.path.join(deep, "sagad.sock"), self.fake.socket)
        self.fake.on("GET", "/v1/ping", {"daemon": "d"})
        self.assertGreater(len(os.path.join(deep, "sagad.sock")), 108)
        self.assert_exit(0, self.ctl("ping", "--socket", os.path.join(deep, "sagad.sock")))

    def as_nobody(self, *args, cwd="/", env=None):
        def drop():
            os.setgid(65534)
            os.setuid(65534)
        process = subprocess.run(["/proc/self/fd/%d" % self.binary, *args], preexec_fn=drop,
                                 cwd=cwd, capture_output=True, text=True, pass_fds=(self.binary,),
                                 env=self.env(**(env or {})), check=False)
        return process

    def test_permission(self):
        """A socket that may not be used gives exit 4, not 8."""
        if os.geteuid() == 0:
            # Only root can become somebody who may not.
            self.binary = os.open(SAGACTL, os.O_RDONLY)
            self.addCleanup(os.close, self.binary)
            os.chmod(os.path.dirname(self.fake.socket), 0o755)
            os.chmod(self.fake.socket, 0o600)
            process = self.as_nobody("ping")
            self.assertEqual(4, process.returncode, process)
            self.assertIn("permission denied", process.stderr)
        else:
            os.chmod(self.fake.socket, 0)
            result = self.ctl("ping")
            self.assert_exit(4, result)
            self.assertIn("permission denied", result.err)

    def test_planted_socket(self):
        """A .saga that another user left in a directory above (like /tmp) is passed over."""
        self.binary = os.open(SAGACTL, os.O_RDONLY)
        self.addCleanup(os.close, self.binary)
        shared = os.path.join(self.folder, "shared")
        mine = os.path.join(shared, "mine")
        os.makedirs(os.path.join(shared, ".saga"))
        os.makedirs(mine)
        os.chmod(self.folder, 0o755)
        os.symlink(self.fake.socket, os.path.join(shared, ".saga", "sagad.sock"))
        os.chmod(os.path.dirname(self.fake.socket), 0o755)
        os.chmod(self.fake.socket, 0o666)
        self.fake.on("GET", "/v1/ping", {"daemon": "planted"})
        if os.geteuid() != 0:
            return  # one user cannot plant as another; the rest of the walk is tested above
        foreign = 12345
        os.chown(os.path.join(shared, ".saga"), foreign, foreign)
        process = self.as_nobody("ping", cwd=mine, env={"SAGA_SOCKET": None})
        self.assertEqual(8, process.returncode, process)
        self.assertIn("passed, it belongs to another user", process.stderr)
        self.assertEqual([], self.fake.requests)
        os.chown(shared, foreign, foreign)
        process = self.as_nobody("ping", cwd=mine, env={"SAGA_SOCKET": None})
        self.assertEqual(0, process.returncode, process)

    def test_lost_answer(self):
        """A connection that breaks before the answer: exit 8, and the request is sent only once."""
        def hang_up(request):
            raise Hangup()
        self.fake.on("POST", "/v1/runs", hang_up)
        self.fake.on("POST", "/v1/runs/r1/cancel", hang_up)
        result = self.ctl("run", "order")
        self.assert_exit(8, result)
        self.assertIn("may have been started", result.err)
        self.assertEqual(1, len(self.fake.requests))
        result = self.ctl("cancel", "r1", "--reason", "x")
        self.assert_exit(8, result)
        self.assertIn("may have been done", result.err)
        self.assertEqual(2, len(self.fake.requests))


class Ends(CtlCase):
    def started(self, *states):
        """A daemon whose run goes through these states, one a question."""
        documents = [run(state, [step("reserve")],
                         error={"step": "charge", "code": "card_declined", "status": 402,
                                "message": "no"} if state != "completed" else None)
                     for state in states]
        self.fake.on("POST", "/v1/runs", Answer(
            {"run_id": "order-1", "workflow": "order", "state": "running"}, 202,
            {"Location": "/v1/runs/order-1"}))
        self.fake.on("GET", "/v1/runs/order-1", documents)
        self.fake.on("GET", "/v1/runs/order-1/events", {"events": []})

    def test_a_cli_1_ends(self):
        """run --wait, wait and watch end with the code of the run's end."""
        for state, code in (("completed", 0), ("compensated", 5), ("parked", 6),
                            ("abandoned", 10)):
            for args in (["run", "order", "--wait"], ["run", "order", "--watch"],
                         ["wait", "order-1"], ["watch", "order-1"],
                         ["run", "order", "--wait", "-o", "json"], ["wait", "order-1", "-q"]):
                with self.subTest(state=state, args=args):
                    self.started("running", "running", state)
                    result = self.ctl(*args)
                    self.assert_exit(code, result)
        result = self.ctl("show", "order-1")
        self.assert_exit(0, result)

    def test_cancelled(self):
        """A cancelled run ends compensated, and so does the wait for it."""
        self.started("running")
        self.fake.on("GET", "/v1/runs/order-1", run("compensated", cause="cancelled"))
        self.assert_exit(5, self.ctl("wait", "order-1"))

    def test_a_cli_1_wait_times_out(self):
        """A wait that is over before the run is: exit 7, in time, and stdout tells the state."""
        self.started("running")
        self.fake.on("GET", "/v1/runs/order-1",
                     lambda request: Answer(run("running"), delay=min(
                         5, int((request.headers["Prefer"] or "wait=0").split("=")[1]))))
        for timeout, limit in (("300ms", 2.5), ("1s", 3.5)):
            begin = time.monotonic()
            result = self.ctl("run", "order", "--wait", "--timeout", timeout)
            self.assert_exit(7, result)
            self.assertLess(time.monotonic() - begin, limit)
            self.assertIn("order-1  running", result.out)
            self.assertIn("timed out", result.err)
        for args in (["wait", "order-1", "--timeout", "300ms"],
                     ["watch", "order-1", "--timeout", "300ms"]):
            self.assert_exit(7, self.ctl(*args))

    def test_long_poll(self):
        """Waiting asks the daemon to hold its answer instead of asking again and again."""
        self.started("running")
        self.fake.on("GET", "/v1/runs/order-1", [Answer(run("running")),
                                                 Answer(run("running"), delay=1),
                                                 Answer(run("completed"))])
        self.assert_exit(0, self.ctl("wait", "order-1"))
        asked = self.fake.sent("GET", "/v1/runs/order-1")
        self.assertEqual(3, len(asked))
        self.assertEqual("1", asked[0].query["prefix"])
        for request in asked[1:]:
            self.assertRegex(request.headers["Prefer"], r"^wait=\d+$")

    def test_not_a_busy_loop(self):
        """A daemon that answers at once is still asked only a few times a second."""
        self.started("running")
        self.assert_exit(7, self.ctl("wait", "order-1", "--timeout", "1500ms"))
        self.assertLess(len(self.fake.requests), 12)

    def test_restart(self):
        """A daemon that restarts in the middle of a wait does not end it."""
        self.started("running")
        process = self.start("wait", "order-1")
        self.assertTrue(wait_until(lambda: len(self.fake.requests) >= 2))
        self.fake.stop()
        time.sleep(0.6)
        self.fake.on("GET", "/v1/runs/order-1", [
            problem(503, "unavailable", "the database is away"), Answer(run("compensated"))])
        self.fake.start()
        out, err = process.communicate(timeout=20)
        self.assertEqual(5, process.returncode, err)
        self.assertIn(b"trying again", err)

    def test_a_cli_1_ctrl_c(self):
        """Ctrl-C ends every wait with 130 and says that the run goes on."""
        self.started("running")
        self.fake.on("GET", "/v1/runs/order-1", [Answer(run("running")),
                                                 Answer(run("running"), delay=30)])
        for args in (["run", "order", "--wait"], ["wait", "order-1"], ["watch", "order-1"]):
            self.fake.requests.clear()
            self.fake.on("GET", "/v1/runs/order-1", [Answer(run("running")),
                                                     Answer(run("running"), delay=30)])
            process = self.start(*args)
            self.assertTrue(wait_until(lambda: len(self.fake.sent("GET", "/v1/runs/order-1")) >= 1))
            time.sleep(0.2)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=10)
            self.assertEqual(130, process.returncode, err)
            self.assertIn(b"interrupted; the run goes on", err)

    def test_lookups(self):
        """An unknown run is 3; an ambiguous beginning is 2 and names the candidates; reading verbs
        ask by prefix, changing ones never."""
        self.assert_exit(3, self.ctl("show", "nope"))
        self.fake.on("GET", "/v1/runs/ord", problem(409, "ambiguous", "more than one",
                                                    candidates=["order-1", "order-2"]))
        for verb in ("show", "wait", "watch", "events", "explain"):
            result = self.ctl(verb, "ord")
            self.assert_exit(2, result)
            self.assertEqual("", result.out)
            self.assertIn("  order-1\n  order-2\n", result.err)
            self.assertNotIn("and more", result.err)
        self.fake.on("GET", "/v1/runs/many", problem(409, "ambiguous", "more than one", candidates=[
            "many-%02d" % n for n in range(11)]))
        result = self.ctl("show", "many")
        self.assertIn("  many-09\n  and more: give more of it\n", result.err)
        self.assertNotIn("many-10", result.err)
        self.assertTrue(all(r.query.get("prefix") == "1" for r in self.fake.requests))
        self.fake.requests.clear()
        add_run(self.fake, run("running"))
        self.assert_exit(0, self.ctl("show", "ord"))
        self.assert_exit(3, self.ctl("cancel", "ord", "--reason", "x"))
        self.assertEqual(["/v1/runs/ord/cancel"],
                         [r.target for r in self.fake.requests if r.method == "POST"])

    def test_full_stdout(self):
        """Output that cannot be written is an error, not a success."""
        self.fake.on("GET", "/v1/runs", {"runs": [run("running")], "next": None})
        with open("/dev/full", "w") as full:
            process = self.start("list", stdout=full)
            _, err = process.communicate(timeout=10)
        self.assertEqual(1, process.returncode)
        self.assertIn(b"could not write to stdout", err)


if __name__ == "__main__":
    main()
