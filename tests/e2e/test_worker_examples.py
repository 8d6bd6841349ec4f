#!/usr/bin/env python3
"""The workers of examples/workers, each in its language, against a real daemon."""

import os
import shutil
import subprocess
import sys

from lib import ROOT, case, main, spawn, wait_until

FOLDER = os.path.join(ROOT, "examples", "workers")


def worker(env, daemon, name, tasks):
    program = os.path.join(FOLDER, name)
    runs = {"worker.py": [sys.executable], "worker.mjs": [shutil.which("node") or "node"]}
    log = open(os.path.join(env.folder, name + ".log"), "wb")
    process = spawn(runs.get(name, ["/bin/sh"]) + [program, daemon.socket, str(tasks)], stdout=log,
                    stderr=log, stdin=subprocess.DEVNULL,
                    env={"PATH": os.environ["PATH"], "WORKER_STATE": env.folder + "/labels"})
    env.closers.append(lambda: process.poll() is not None or process.kill())
    return process


def ends(process):
    wait_until("the worker has done its tasks", lambda: process.poll() is not None, 30)
    return process.returncode


@case
def three_languages(env):
    """One parcel goes through, one is too heavy: its label is printed, and shredded again."""
    daemon = env.daemon("a").start()
    with open(os.path.join(FOLDER, "labels.yaml")) as source:
        daemon.apply(source.read())
    printer = worker(env, daemon, "worker.sh", 2)
    scales = worker(env, daemon, "worker.py", 2)
    shredder = worker(env, daemon, "worker.mjs", 1)
    light = daemon.start_run("labels", {"parcel": "P-1"})
    heavy = daemon.start_run("labels", {"parcel": "P-2", "too_heavy": True})
    assert env.wait_state(light) == "completed"
    assert env.wait_state(heavy) == "compensated"
    assert daemon.show(light)["output"] == {"label": "LABEL-P-1", "grams": 121}
    error = daemon.show(heavy)["error"]
    assert error["code"] == "too_heavy" and "31000 g" in error["message"], error
    assert [ends(p) for p in (printer, scales, shredder)] == [0, 0, 0]
    with open(env.folder + "/worker.mjs.log") as log:
        assert log.read() == "shreds LABEL-P-2 of label-P-2:print:execute\n"


@case
def a_worker_outlives_the_daemon(env):
    """A worker keeps asking while the daemon is away, and goes on when it is back."""
    daemon = env.daemon("a").start("--lease", "2s")
    with open(os.path.join(FOLDER, "labels.yaml")) as source:
        daemon.apply(source.read())
    workers = [worker(env, daemon, name, 1) for name in ("worker.sh", "worker.py")]
    daemon.kill()
    daemon.start("--lease", "2s")
    run = daemon.start_run("labels", {"parcel": "P-3"})
    assert env.wait_state(run) == "completed"
    assert [ends(p) for p in workers] == [0, 0]


if __name__ == "__main__":
    main(parallel=2)
