#!/usr/bin/env python3
"""Workers: programs that take tasks from a queue over the control socket and report on them."""

import json
import os
import random
import socket
import threading
import time

from lib import case, main, wait_until
from pgproxy import PgProxy

LABELS = """
workflow: labels
run_id: "${{ input.id }}"
input: {type: object, required: [id], properties: {id: {type: string}}}
steps:
  - id: print
    effect: idempotent
    timeout: 20s
    action: {worker: printers, payload: {parcel: "${{ input.id }}"}, heartbeat: 2s}
    compensate: {worker: shredders, payload: {label: "${{ steps.print.output.label }}"}}
  - id: pack
    effect: idempotent
    timeout: 20s
    action: {worker: packers}
    compensate: {worker: unpackers, schedule_timeout: 1s}
output: "${{ steps.print.output.label }}"
"""


def take(daemon, queue, wait=10, **more):
    reply = daemon.http("POST", "/v1/queues/%s/take" % queue, {"wait": wait, **more}, timeout=90)
    assert reply.status == 200, reply
    return reply.json()["tasks"]


def take_one(daemon, queue, wait=10):
    tasks = take(daemon, queue, wait)
    assert len(tasks) == 1, tasks
    return tasks[0]


def report(daemon, verb, task, **more):
    return daemon.http("POST", "/v1/tasks/" + verb,
                       {"key": task["key"], "token": task["token"], **more})


def ready(env, *args):
    daemon = env.daemon("a").start(*args)
    daemon.apply(LABELS)
    return daemon


@case
def one_run(env):
    """Tasks carry key, payload and times; what the worker gives is the step's output; the reason
    why the run waits is told."""
    daemon = ready(env)
    daemon.start_run("labels", {"id": "p-1"})
    wait_until("it is offered", lambda: env.sql(
        "select waiting_for, detail from saga.why_waiting where run_id = 'p-1'") ==
        "worker|offered in queue printers, nobody has taken it")
    task = take_one(daemon, "printers")
    assert task["key"] == "p-1:print:execute" and task["payload"] == {"parcel": "p-1"}, task
    assert task["attempt"] == 1 and task["action"] == "execute" and task["run_id"] == "p-1", task
    assert task["heartbeat"] == "2s" and task["deadline"] > "2026", task
    told = env.sql("select waiting_for, detail from saga.why_waiting where run_id = 'p-1'")
    assert told == "worker|attempt 1 of execute is with a worker of queue printers", told
    assert daemon.show("p-1")["waiting"] == {"step": "print", "signal": None, "queue": "printers",
                                             "taken": True, "child": None, "service": None}
    assert take(daemon, "printers", 0) == []
    beat = report(daemon, "heartbeat", task)
    assert beat.status == 200 and beat.json()["turned_back"] is False, beat
    assert report(daemon, "complete", task, output={"label": "L-1"}).status == 200
    assert report(daemon, "complete", task, output={"label": "L-1"}).status == 200
    lost = report(daemon, "fail", task, message="oh")
    assert lost.status == 409 and lost.json()["code"] == "task_lost", lost
    assert report(daemon, "complete", take_one(daemon, "packers")).status == 200
    assert env.wait_state("p-1") == "completed"
    assert daemon.show("p-1")["output"] == "L-1"


@case
def long_poll(env):
    """A take waits for a task; one whose client hung up takes nothing away from the others."""
    daemon = ready(env)
    quitter = socket.socket(socket.AF_UNIX)
    quitter.connect(daemon.socket)
    body = b'{"wait": 30}'
    quitter.sendall(b"POST /v1/queues/printers/take HTTP/1.1\r\nHost: saga\r\n"
                    b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    time.sleep(0.3)
    got = []
    thread = threading.Thread(target=lambda: got.append(take_one(daemon, "printers", 30)))
    thread.start()
    time.sleep(0.3)
    quitter.close()
    daemon.start_run("labels", {"id": "p-1"})
    thread.join(20)
    assert got and got[0]["run_id"] == "p-1", got
    begun = time.monotonic()
    assert take(daemon, "printers", 1) == []
    assert time.monotonic() - begun >= 0.9
    for n in range(5):
        daemon.start_run("labels", {"id": "q-%d" % n})
    some = take(daemon, "printers", 10, max=3)
    rest = take(daemon, "printers", 10, max=100)
    wait_until("all are taken", lambda: len(some) + len(rest) == 5 or
               rest.extend(take(daemon, "printers", 0, max=100)))
    assert 1 <= len(some) <= 3


@case
def a_take_of_several_is_given_back(env):
    """A client hangs up while its take has one task and claims another: both are offered again at
    once, and neither has lost an attempt."""
    folder = env.folder + "/proxy"
    os.mkdir(folder)
    os.chmod(folder, 0o755)
    proxy = PgProxy(folder, env.cluster.folder + "/.s.PGSQL.5432")
    env.closers.append(proxy.close)
    daemon = env.daemon("a", "host='%s' dbname=%s user=saga_engine" % (folder, env.database))
    daemon.start()
    daemon.apply("workflow: one\nsteps:\n"
                 "  - {id: sort, timeout: 60s, retry: {attempts: 1}, effect: idempotent,"
                 " action: {worker: sorters}, compensate: {none: sorted is sorted}}\n")
    daemon.start_run("one", {}, "r-1")
    wait_until("it is offered", lambda: env.sql(
        "select count(*) from saga.why_waiting where waiting_for = 'worker'") == "1")

    def decide(number):
        if number == 3:
            proxy.released.clear()
        return "hold" if number in (1, 3) else "pass"

    # 1: the second run starts. 2: the take, which came meanwhile, claims the first task. 3: the same
    # take claims the second task.
    proxy.restart_count(decide)
    starter = threading.Thread(target=daemon.start_run, args=("one", {}, "r-2"))
    starter.start()
    wait_until("the run is on its way", lambda: proxy.count == 1)
    quitter = socket.socket(socket.AF_UNIX)
    quitter.connect(daemon.socket)
    body = b'{"wait": 30, "max": 2}'
    quitter.sendall(b"POST /v1/queues/sorters/take HTTP/1.1\r\nHost: saga\r\n"
                    b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    time.sleep(0.5)
    proxy.release()
    wait_until("the second claim is on its way", lambda: proxy.count == 3)
    quitter.close()
    time.sleep(0.2)
    proxy.release()
    starter.join(20)
    tasks = take(daemon, "sorters", 10, max=2)
    wait_until("both are taken", lambda: len(tasks) == 2 or
               tasks.extend(take(daemon, "sorters", 0, max=2)), timeout=10)
    for task in tasks:
        assert report(daemon, "complete", task).status == 200, task
    env.wait_all(2)
    assert env.states() == {"r-1": "completed", "r-2": "completed"}, env.states()


@case
def failures(env):
    """A failure for good turns the run back; compensations are tasks as well; one that nobody takes
    parks the run, and goes on when there is a worker and a retry."""
    daemon = ready(env)
    daemon.start_run("labels", {"id": "p-1"})
    report(daemon, "complete", take_one(daemon, "printers"), output={"label": "L"})
    first = take_one(daemon, "packers")
    assert report(daemon, "fail", first, message="no box", retryable=True).status == 200
    second = take_one(daemon, "packers")
    assert second["attempt"] == 2 and second["key"] == first["key"], second
    assert report(daemon, "complete", first).status == 409
    assert report(daemon, "fail", second, message="crushed", code="crushed",
                  body={"by": "press"}).status == 200
    undo = take_one(daemon, "shredders")
    assert undo["action"] == "compensate" and undo["compensates"] == "p-1:print:execute", undo
    assert undo["payload"] == {"label": "L"}
    assert report(daemon, "complete", undo).status == 200
    assert env.wait_state("p-1") == "compensated"
    error = daemon.show("p-1")["error"]
    assert error["code"] == "crushed" and error["body"] == {"by": "press"}, error
    daemon.start_run("labels", {"id": "p-2"})
    report(daemon, "complete", take_one(daemon, "printers"), output={"label": "L"})
    report(daemon, "complete", take_one(daemon, "packers"))
    assert env.wait_state("p-2") == "completed"


@case
def a_lease_3(env):
    """A worker that was silent lost the task: another one has it, and the first one's answer is
    refused; the second one's stands."""
    daemon = ready(env)
    daemon.start_run("labels", {"id": "p-1"})
    slow = take_one(daemon, "printers")
    fast = take_one(daemon, "printers", 30)
    assert fast["key"] == slow["key"] and fast["token"] != slow["token"]
    assert report(daemon, "heartbeat", slow).status == 409
    late = report(daemon, "complete", slow, output={"label": "slow"})
    assert late.status == 409 and late.json()["code"] == "task_lost", late
    assert report(daemon, "complete", fast, output={"label": "fast"}).status == 200
    report(daemon, "complete", take_one(daemon, "packers"))
    assert env.wait_state("p-1") == "completed"
    assert daemon.show("p-1")["output"] == "fast"


@case
def daemons_come_and_go(env):
    """A worker does not notice that the daemon drained, or was killed and started again."""
    daemon = ready(env, "--lease", "2s")
    daemon.start_run("labels", {"id": "p-1"})
    task = take_one(daemon, "printers")
    assert daemon.stop() == 0
    daemon.start("--lease", "2s")
    assert report(daemon, "complete", task, output={"label": "L"}).status == 200
    daemon.kill()
    daemon.start("--lease", "2s")
    task = take_one(daemon, "packers")
    daemon.kill()
    daemon.start("--lease", "2s")
    assert report(daemon, "complete", task).status == 200
    assert env.wait_state("p-1") == "completed"
    assert [(s["id"], s["attempts"]) for s in daemon.show("p-1")["steps"]] == \
        [("print", 1), ("pack", 1)]


@case
def at_another_daemon(env):
    """Reports are taken by every daemon of the database."""
    daemon = ready(env, "--lease", "2s")
    for n in range(6):
        daemon.start_run("labels", {"id": "p-%d" % n})
    tasks = take(daemon, "printers", 10, max=10)
    while len(tasks) < 6:
        tasks += take(daemon, "printers", 10, max=10)
    other = env.daemon("b").start("--lease", "2s")
    for task in tasks:
        for at in (other, daemon):
            reply = report(at, "complete", task, output={"label": task["run_id"]})
            assert reply.status == 200, reply
    bad = dict(tasks[0], token="1.0")
    for at in (other, daemon):
        reply = report(at, "complete", bad)
        assert reply.status == 409 and reply.json()["code"] == "task_lost", reply
    done = set()

    def pack():
        for at in (daemon, other):
            for task in take(at, "packers", 0, max=10):
                assert report(at, "complete", task).status == 200
                done.add(task["key"])
        return len(done) == 6

    wait_until("all are packed", pack, 30)
    env.wait_all(6)
    assert set(env.states().values()) == {"completed"}


@case
def killed_at_the_take(env):
    """A daemon that dies after a take is durable: the task's time runs out, another worker gets it.
    One that dies after the completion: the worker's second word is taken as the first."""
    daemon = env.daemon("a").start("--lease", "2s", failpoint="task_answer:1:kill")
    daemon.apply(LABELS)
    daemon.start_run("labels", {"id": "p-1"})
    try:
        take(daemon, "printers")
        raise AssertionError("it was told")
    except OSError:
        pass
    daemon.wait()
    daemon.start("--lease", "2s", failpoint="task_answer:2:kill")
    task = take_one(daemon, "printers", 30)
    assert task["attempt"] == 2, task
    try:
        report(daemon, "complete", task, output={"label": "L"})
        raise AssertionError("it was told")
    except OSError:
        pass
    daemon.wait()
    daemon.start("--lease", "2s")
    assert report(daemon, "complete", task, output={"label": "L"}).status == 200
    report(daemon, "complete", take_one(daemon, "packers"))
    assert env.wait_state("p-1") == "completed"


@case
def many_workers_and_kills(env):
    """Forty runs, four workers that now and then die, a daemon that is killed: every task is
    completed once."""
    daemon = ready(env, "--lease", "2s")
    rand = random.Random(7)
    done, taken, lock, stop = {}, set(), threading.Lock(), threading.Event()

    def work(queue):
        while not stop.is_set():
            try:
                for task in take(daemon, queue, 1, max=2):
                    with lock:
                        assert (task["key"], task["attempt"]) not in taken, task
                        taken.add((task["key"], task["attempt"]))
                    if rand.random() < 0.05:
                        continue  # the worker dies
                    reply = report(daemon, "complete", task, output={"label": task["key"]})
                    if reply.status == 200:
                        with lock:
                            assert done.setdefault(task["key"], task["attempt"]) == task["attempt"]
            except (OSError, AssertionError, json.JSONDecodeError) as error:
                if isinstance(error, AssertionError) and "Reply" not in repr(error):
                    failures.append(error)
                time.sleep(0.05)

    failures = []
    threads = [threading.Thread(target=work, args=(queue,)) for queue in ("printers", "packers") * 2]
    for n in range(40):
        daemon.start_run("labels", {"id": "p-%d" % n})
    for thread in threads:
        thread.start()
    for _ in range(2):
        time.sleep(0.7)
        daemon.kill()
        daemon.start("--lease", "2s")
    try:
        env.wait_all(40, 90)
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
    assert not failures, failures
    assert set(env.states().values()) == {"completed"}, env.states()


@case
def more_takes_than_a_run_takes_at_once(env):
    """A hundred workers wait while one run offers two hundred tasks: each has one at once, though
    a run lets only so many requests wait; nobody sleeps beside tasks that are offered."""
    daemon = env.daemon("a").start()
    daemon.apply("""
workflow: flood
input: {type: object}
steps:
  - id: pick
    for_each: input.items
    max_parallel: 200
    effect: idempotent
    timeout: 300s
    action: {worker: pickers, payload: "${{ item }}"}
    compensate: {none: "nothing is left"}
""")
    env.descriptors_max = 300
    got = []
    threads = [threading.Thread(target=lambda: got.append(take(daemon, "pickers", 50)))
               for _ in range(100)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    daemon.start_run("flood", {"items": list(range(200))}, "f-1")
    wait_until("everybody has a task", lambda: len(got) == 100, 25)
    for thread in threads:
        thread.join()
    assert all(len(tasks) == 1 for tasks in got), [len(tasks) for tasks in got]
    assert len({tasks[0]["key"] for tasks in got}) == 100
    rest = [task for _ in range(2) for task in take(daemon, "pickers", 5, max=50)]
    wait_until("the others are taken", lambda: len(rest) == 100 or
               rest.extend(take(daemon, "pickers", 1, max=100)))
    for task in [tasks[0] for tasks in got] + rest:
        assert report(daemon, "complete", task, output=task["payload"]).status == 200
    assert env.wait_state("f-1") == "completed"


@case
def bad_input(env):
    """What a worker can say wrong is told with a way out, and changes nothing."""
    daemon = ready(env)
    daemon.start_run("labels", {"id": "p-1"})
    task = take_one(daemon, "printers")
    for path, body, status, code in (
            ("queues/printers/take", {"wait": "long"}, 422, "bad_request"),
            ("queues/printers/take", {"wait": 3600}, 422, "bad_request"),
            ("queues/printers/take", {"max": -1}, 422, "bad_request"),
            ("queues/printers/take", {"wiat": 1}, 422, "unknown_member"),
            ("queues/%s/take" % ("q" * 64), {}, 422, "bad_request"),
            ("queues/printers/give", {}, 404, "not_found"),
            ("tasks/finish", {}, 404, "not_found"),
            ("tasks/complete", {}, 422, "invalid"),
            ("tasks/complete", {"key": task["key"]}, 422, "invalid"),
            ("tasks/complete", {"key": "nonsense", "token": task["token"]}, 422, "invalid"),
            ("tasks/complete", {"key": "p-1:print:undo", "token": task["token"]}, 422, "invalid"),
            ("tasks/complete", {"key": "p-1:pack:execute", "token": task["token"]}, 409,
             "task_lost"),
            ("tasks/complete", {"key": "p-1:print:execute@2", "token": task["token"]}, 409,
             "task_lost"),
            ("tasks/complete", {"key": "p-2:print:execute", "token": task["token"]}, 404,
             "not_found"),
            ("tasks/complete", {"key": task["key"], "token": task["token"] + "0"}, 409,
             "task_lost"),
            ("tasks/fail", {"key": task["key"], "token": task["token"]}, 422, "invalid"),
            ("tasks/fail", {"key": task["key"], "token": task["token"], "message": "x",
                            "retryable": "yes"}, 422, "invalid"),
            ("tasks/heartbeat", {"key": task["key"], "token": task["token"], "output": 1}, 422,
             "unknown_member")):
        reply = daemon.http("POST", "/v1/" + path, body)
        assert (reply.status, reply.json()["code"]) == (status, code), (path, body, reply)
    assert daemon.http("POST", "/v1/queues/printers/take", "[").status == 400
    assert report(daemon, "complete", task, output={"label": "L"}).status == 200


if __name__ == "__main__":
    main(parallel=4)
