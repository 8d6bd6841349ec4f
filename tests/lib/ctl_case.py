"""Runs sagactl for tests, in a folder of its own and against a fake daemon."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SAGACTL = os.path.join(ROOT, os.environ.get("BUILD", "build"), "sagactl")
GOLDEN = os.path.join(ROOT, "tests", "golden", "ctl")

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fake_sagad import FakeSagad  # noqa: E402


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __repr__(self):
        return "exit %s\n--- stdout\n%s\n--- stderr\n%s" % (self.code, self.out, self.err)


# A job in the background ignores SIGINT, and so would its children; what is caught here is the
# default there. (SIGPIPE is restored by subprocess.) Cheaper than a function run after each fork.
signal.signal(signal.SIGINT, signal.default_int_handler)


class CtlCase(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="ctl_case.")
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.fake = FakeSagad()
        self.fake.__enter__()
        self.addCleanup(self.fake.__exit__, None, None, None)

    def env(self, **more):
        env = {"PATH": os.environ["PATH"], "HOME": self.folder, "LC_ALL": "C.UTF-8",
               "TERM": "xterm", "XDG_RUNTIME_DIR": self.folder, "SAGA_SOCKET": self.fake.socket}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
            if name in os.environ:
                env[name] = os.environ[name]
        env.update(more)
        return {name: value for name, value in env.items() if value is not None}

    def start(self, *args, env=None, cwd=None, **more):
        return subprocess.Popen([SAGACTL, *args], env=self.env(**(env or {})),
                                cwd=cwd or self.folder,
                                stdin=more.pop("stdin", subprocess.DEVNULL),
                                stdout=more.pop("stdout", subprocess.PIPE),
                                stderr=more.pop("stderr", subprocess.PIPE), **more)

    def ctl(self, *args, stdin=None, env=None, cwd=None, timeout=60):
        process = self.start(*args, env=env, cwd=cwd,
                             stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE)
        try:
            out, err = process.communicate(stdin, timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        return Result(process.returncode, out.decode(), err.decode())

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        return path

    def assert_exit(self, code, result):
        self.assertEqual(code, result.code, result)

    def assert_golden(self, name, text):
        """Compares with tests/golden/ctl/NAME; UPDATE=1 writes it. Times are all one time."""
        text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z",
                      lambda found: "2026-01-02T03:04:05%sZ" % (".678" if found[1] else ""), text)
        text = re.sub(r"(?m)^(  )\d\d:\d\d:\d\d\.\d{3}\b", r"\g<1>03:04:05.678", text)
        text = re.sub(r"\d{4}-\d\d-\d\d UTC", "2026-01-02 UTC", text)
        path = os.path.join(GOLDEN, name)
        if os.environ.get("UPDATE"):
            with open(path, "w") as file:
                file.write(text)
        with open(path) as file:
            self.assertEqual(file.read(), text, "%s (UPDATE=1 writes it)" % name)


def main():
    """Runs the tests of the calling file and reports in the form that tests/run counts."""
    result = unittest.main(verbosity=1, exit=False).result
    failed = result.failures + result.errors  # a test with failed subtests is one failed test
    bad = len({getattr(test, "test_case", test).id() for test, _ in failed})
    sys.stdout.flush()
    print("%d passed, %d failed" % (result.testsRun - bad, bad))
    sys.exit(1 if bad or not result.testsRun else 0)
