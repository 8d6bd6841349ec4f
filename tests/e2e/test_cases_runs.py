#!/usr/bin/env python3
"""Failures that bit other engines, played against the whole of this one: runs that are lost, jobs
that poison their neighbours, herds of daemons, sizes, odd places for a schema."""

import os
import random
import threading
import time

from lib import Answer, Cluster, Session, UnixConnection, case, main, parse, wait_until
from test_cases import PATIENCE, paths, step, with_steps, workflow

# --- LOST: runs nobody moves -----------------------------------------------------------------------

OPEN_AND_IDLE = """select count(*) from saga.runs r where r.state in ('running', 'compensating')
    and not exists (select from saga.steps s where s.run_id = r.run_id
                    and s.state::text in ('pending', 'claimed', 'retrying', 'waiting', 'unknown'))"""


@case
def a_lost_3_branches(env):
    """Branches that end in the same moment, forward and back, over and over: no run stays behind
    with every step done."""
    ledger, daemon = with_steps(env, *[
        "{id: %s, needs: [], action: {post: svc/%s}, compensate: {post: svc/undo_%s}}" % (s, s, s)
        for s in "abc"], "{id: d, needs: [a, b, c], action: {post: 'svc/d/${{ input.n }}'}, "
                         "compensate: {post: svc/undo_d}}")
    env.sequential = False
    ledger.always("/d", lambda request: Answer(422 if request.path.endswith(("1", "4", "7"))
                                               else 200))
    rounds = 500
    for n in range(rounds):
        daemon.start_run("flow", {"n": n}, "round-%d" % n)
    env.wait_all(rounds)
    ended = {}
    for run, state in env.states().items():
        ended[state] = ended.get(state, 0) + 1
    assert ended == {"completed": 350, "compensated": 150}, ended
    assert env.sql(OPEN_AND_IDLE) == "0"


@case
def a_lost_3_locked(env):
    """Another session holds the run's row exactly while its last step commits: the end waits for
    the lock and is not skipped; so on the way back."""
    ledger, daemon = with_steps(env, step("a"), step("b"))
    other = Session(env.cluster.folder, env.database, "postgres")
    env.closers.append(other.close)
    for last, code, ended in (("/b", 200, "completed"), ("/undo_a", 422, "compensated")):
        gate = threading.Event()
        env.closers.append(gate.set)
        ledger.script("/b", Answer(code, gate=gate if last == "/b" else None))
        if last != "/b":
            ledger.script(last, Answer(200, gate=gate))
        run = daemon.start_run("flow", {}, "locked-" + ended)
        wait_until("the last call is under way", lambda: ledger.seen(path=last))
        other.sql("begin")
        other.sql("select from saga.run where run_id = '%s' for update" % run)
        gate.set()
        time.sleep(0.5)
        assert env.state(run) in ("running", "compensating")
        other.sql("commit")
        assert env.wait_state(run, timeout=5) == ended
    assert env.sql(OPEN_AND_IDLE) == "0"
    assert len(ledger.requests) == len({r.key for r in ledger.requests})


def follow(daemon, run, seen, most):
    """Adds the numbers of the next events, `most` at most before the connection is cut; True: the
    stream has ended."""
    connection = UnixConnection(daemon.socket, 30 * PATIENCE)
    try:
        headers = {"Accept": "text/event-stream"}
        if seen:
            headers["Last-Event-ID"] = str(seen[-1])
        connection.request("GET", "/v1/runs/%s/events" % run, None, headers)
        answer = connection.getresponse()
        assert answer.status == 200, answer.status
        while most:
            line = answer.readline()
            if not line:
                return True
            if line.startswith(b"id:"):
                seen.append(int(line[3:]))
                most -= 1
        return False
    finally:
        connection.close()


@case
def a_lost_4_events(env):
    """Whoever follows a run's events, and goes on after the last that was seen, gets every one."""
    ledger, daemon = with_steps(env, """{id: pay, for_each: "input.items", max_parallel: 20,
        action: {post: "svc/pay/${{ item }}"}, compensate: {post: svc/undo}}""")
    env.sequential = False
    ledger.always("/pay", lambda request: Answer(delay=random.random() * 0.03))
    run = daemon.start_run("flow", {"items": list(range(400))}, "events")
    seen, cuts = [], 0
    while not follow(daemon, run, seen, random.randint(1, 60)):
        cuts += 1
    assert cuts > 5, cuts
    stored = parse("[%s]" % env.sql("select string_agg(seq::text, ',' order by seq) "
                                    "from saga.timeline where run_id = 'events'"))
    assert seen == stored and len(seen) > 800, (len(seen), len(stored))


@case
def a_lost_4_starts(env):
    """Starts by SQL whose transactions commit long after, and in another order than, they asked for
    their number: each becomes one run, those that roll back none."""
    ledger, daemon = with_steps(env, step("a"))
    writers, each = 20, 25
    wanted, failures, lock = set(), [], threading.Lock()

    def write(number):
        try:
            session = Session(env.cluster.folder, env.database, "postgres")
            for n in range(each):
                run = "late-%d-%d" % (number, n)
                session.sql("begin")
                session.sql("select saga.start('flow', '{}', run_id => '%s')" % run)
                session.sql("select pg_sleep(%.3f)" % (random.random() * 0.3))
                back = random.random() < 0.1
                session.sql("rollback" if back else "commit")
                if not back:
                    with lock:
                        wanted.add(run)
            session.close()
        except Exception as error:  # told by the case
            failures.append(error)

    threads = [threading.Thread(target=write, args=(n,), daemon=True) for n in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120 * PATIENCE)
    assert not failures, failures
    env.wait_all(len(wanted))
    assert set(env.states()) == wanted and set(env.states().values()) == {"completed"}
    assert {r.key.split(":")[0] for r in ledger.requests} == wanted
    assert len(ledger.requests) == len(wanted)
    assert env.sql("select count(*) from saga.inbox where outcome is null") == "0"


@case
def a_lost_5(env):
    """The daemon that holds every lane dies with all its places taken by long steps. What wakes
    runs is no step and has no place among them: another daemon goes on with timers, starts and the
    steps themselves within about one lease, however many long steps it must take up again."""
    ledger, daemon = with_steps(env, step("a", ", timeout: 60s"), name="long")
    daemon.apply(workflow("nap", "{id: nap, action: {sleep: 1s}}", step("b")))
    daemon.apply(workflow("later", step("c")))
    gate = threading.Event()
    env.closers.append(gate.set)
    ledger.always("/a", Answer(200, gate=gate))
    env.descriptors_max = 400
    for n in range(100):
        daemon.start_run("long", {}, "long-%d" % n)
    wait_until("all are in flight", lambda: len(ledger.seen(path="/a")) == 100)
    for n in range(20):
        daemon.start_run("nap", {}, "nap-%d" % n)
    env.sql("select saga.start('later', '{}', run_id => 'soon', start_at => now() + '1s')")
    wait_until("the start is taken", lambda: env.state("soon"))
    env.daemon("b").start("--lease", "2s")
    daemon.kill()
    begun = time.monotonic()
    env.sql("select saga.start('later', '{}', run_id => 'now')")
    wait_until("the sleepers wake", lambda: env.sql(
        "select count(*) from saga.runs where workflow = 'nap' and state = 'completed'") == "20")
    assert env.wait_state("soon") == "completed" and env.wait_state("now") == "completed"
    assert time.monotonic() - begun < 8 * PATIENCE
    gate.set()
    wait_until("the long ones end", lambda: env.sql(
        "select count(*) from saga.runs where workflow = 'long' and state = 'completed'") == "100")
    assert set(ledger.effects_by_key().values()) == {1}


# --- POISON: what must not be tried again and again ------------------------------------------------


@case
def a_poison_1(env):
    """One run ends the daemon each time that its step is asked for, in the midst of 200 good ones,
    under a supervisor that starts it again: that run is parked with the reason, the good ones end,
    and none of their attempts is counted as a failure."""
    ledger = env.ledger("svc")
    env.descriptors_max = 400
    daemon = env.daemon("a").start("--lease", "2s")
    daemon.apply(workflow("good", step("a"), step("b"), step("c")))
    daemon.apply(workflow("bad", step("before"), step("poison")))
    slow = lambda request: Answer(delay=0.3 + random.random())
    for path in ("/a", "/b", "/c"):
        ledger.always(path, slow)
    deaths = []

    def poison(request):
        if request.path == "/poison":
            deaths.append(request)
            daemon.process.kill()

    ledger.on_request = poison
    for n in range(100):
        daemon.start_run("good", {}, "good-%d" % n)
    daemon.start_run("bad", {}, "bad")
    stop = threading.Event()
    env.closers.append(stop.set)

    def supervise():
        while not stop.is_set():
            if daemon.process.poll() is not None:
                daemon.start("--lease", "2s", wait=False)
            time.sleep(0.02)

    supervisor = threading.Thread(target=supervise, daemon=True)
    supervisor.start()
    for n in range(100, 200):
        wait_until("it is taken", lambda: not daemon.ctl(
            "run", "good", "--id", "good-%d" % n).code)
    env.wait_all(201, timeout=120)
    stop.set()
    supervisor.join()
    states = env.states()
    assert states.pop("bad") == "parked", states
    assert set(states.values()) == {"completed"}, [r for r, s in states.items() if s != "completed"]
    (dead,) = env.rows("select run_id, reason, step_id from saga.dead_letters")
    assert dead["run_id"] == "bad" and dead["reason"] == "crash_loop", dead
    assert env.sql("select max(attempts) from saga.effect") == "1"
    assert len(deaths) < 20, len(deaths)
    assert set(ledger.effects_by_key().values()) == {1}


if __name__ == "__main__":
    main(parallel=6)
