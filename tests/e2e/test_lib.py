#!/usr/bin/env python3
"""A program of tests that is told to end ends, wherever it is, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback

from lib import PATIENCE, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = """
import sys
sys.path.insert(0, %r)
from lib import *
import lib

@case(alone=%r)
def waits(env):
    env.daemon("a").start()
    child = spawn(["sleep", "600"])
    print("here", child.pid, flush=True)
    %s

if %r:
    starts = Cluster.start
    def start(self):
        print("here", os.getpid(), flush=True)
        time.sleep(600)
    Cluster.start = start
main()
"""


def members(session):
    """Processes that were begun by the program: each in a session of its own, told by TMPDIR."""
    found = []
    for name in os.listdir("/proc"):
        try:
            with open("/proc/%s/environ" % name, "rb") as file:
                if name.isdigit() and ("TMPDIR=" + session).encode() in file.read().split(b"\0"):
                    found.append(int(name))
        except OSError:
            pass
    return found


def ends(alone, wait, early=False, signals=(signal.SIGTERM,)):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # PostgreSQL runs as another user
        path, temporary = folder + "/script.py", folder + "/tmp"
        os.mkdir(temporary)
        os.chmod(temporary, 0o1777)
        with open(path, "w") as file:
            file.write(SCRIPT % (HERE, alone, wait, early))
        program = subprocess.Popen([sys.executable, path], stdout=subprocess.PIPE, text=True,
                                   env={**os.environ, "TMPDIR": temporary})
        try:
            line = program.stdout.readline()
            assert line.startswith("here "), line
            time.sleep(0.3)  # into the wait
            for number in signals:
                program.send_signal(number)
            assert program.wait(30 * PATIENCE) == 130, program.returncode
            wait_until("every process has ended", lambda: not members(temporary))
            assert not os.listdir(temporary), os.listdir(temporary)
        finally:
            program.kill()
            program.wait()
            program.stdout.close()
            for pid in members(temporary):
                os.kill(pid, signal.SIGKILL)


def in_the_main_thread():
    """Where a handler could wait for what its own thread holds: the lock of a child's wait."""
    ends(True, "child.wait()")


def in_another_thread():
    ends(False, "threading.Event().wait()", signals=(signal.SIGINT, signal.SIGTERM, signal.SIGTERM))


def while_it_asks_the_database():
    ends(True, "env.sql('select pg_sleep(600)')")


def before_the_server_is_there():
    ends(True, "pass", early=True)


failed = 0
cases = [in_the_main_thread, in_another_thread, while_it_asks_the_database,
         before_the_server_is_there]
for case in cases:
    try:
        case()
        print("ok   " + case.__name__)
    except Exception:
        failed += 1
        print("FAIL %s\n%s" % (case.__name__, traceback.format_exc()))
print("%d passed, %d failed" % (len(cases) - failed, failed))
sys.exit(1 if failed else 0)
