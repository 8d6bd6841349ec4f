#!/usr/bin/env python3
"""Failures that bit other engines, played against the whole of this one: runs that are lost, jobs
that poison their neighbours, herds of daemons, sizes, odd places for a schema."""

import os
import random
import threading
import time

from lib import SAGAD, Answer, Session, UnixConnection, case, main, parse, spawn, wait_until
from test_cases import PATIENCE, paths, step, with_steps, workflow
from test_data import exec_dir

SESSIONS = 4  # of a daemon with the engine's database

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


@case
def a_poison_1_needed_now(env):
    """Runs that were set apart get verbs while the session that loads them is cut again and again:
    what is loaded is not apart any more, it is not taken up a second time, and all of them end."""
    ledger, daemon = with_steps(env, step("a", ", timeout: 60s"))
    gate = threading.Event()
    env.closers.append(gate.set)
    env.descriptors_max = 300
    asked = []

    def wait(request):  # with its work, so that no repeat is answered before
        asked.append(request)
        gate.wait(60)

    ledger.on_request = wait
    for n in range(100):
        daemon.start_run("flow", {}, "run-%d" % n)
    for sent in (100, 200, 264):  # each death is one of those that were taken up before it
        wait_until("so many are sent", lambda: len(asked) >= sent)
        daemon.kill()
        daemon.start("--lease", "2s")
    wait_until("some are apart, some are loaded", lambda: 20 < int(env.sql(
        "select count(*) from saga.run where apart")) < 100)
    apart = [row["run_id"] for row in env.rows(
        "select run_id from saga.run where apart order by run_id desc limit 20")]
    for run in apart:
        env.sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name "
                "like 'sagad % watch' and datname = current_database()")
        # 503 and the like: it did not get through; 409: it did, and the answer was lost.
        wait_until("it gets through", lambda: daemon.verb(run, "cancel").status in (200, 202, 409))

    def cancelled(condition):
        return env.sql("select count(*) from saga.run r where %s and exists (select from saga.event "
                       "e where e.shard = r.shard and e.run_id = r.run_id and e.what = 'cancel')" %
                       condition)
    wait_until("the verbs are obeyed", lambda: cancelled("true") == "20")
    assert cancelled("r.apart") == "0"
    gate.set()
    env.wait_all(100, timeout=90)
    assert set(env.states().values()) == {"completed", "compensated"}, env.states()
    assert sum(state == "compensated" for state in env.states().values()) == 20
    assert set(ledger.effects_by_key().values()) == {1}


@case
def a_poison_3(env):
    """A business refusal is asked once and starts the walk back at once, whatever form it has: an
    answer of HTTP with any body, an exit code, an SQLSTATE, a worker's failure."""
    ledger = env.ledger("svc")
    folder = exec_dir(env, count="""#!/bin/sh
echo called >> "$OUT"; exit "$1"
""")
    env.sql("create table public.calls (n serial); grant insert, usage on all tables in schema "
            "public to saga_action" .replace("insert, usage", "insert"))
    daemon = env.daemon("a").start("--lease", "2s", "--action-database",
                                   env.cluster.uri(env.database, "saga_action"))
    kinds = {
        "http": 'action: {post: "svc/refuse/${{ input.n }}", outcomes: [{when: '
                '"response.status == 409", is: refused}]}',
        "http_default": 'action: {post: "svc/refuse/${{ input.n }}"}',
        "exec": 'action: {exec: [count, "75"], env: {OUT: "%s/rule"}, outcomes: [{when: '
                '"response.exit == 75", is: refused}]}' % env.folder,
        "exec_default": 'action: {exec: [count, "1"], env: {OUT: "%s/default"}}' % env.folder,
        "sql": "action: {sql: \"select public.refuse()\"}",
        "worker": "action: {worker: refusers}",
    }
    env.sql("create sequence public.refusals; create function public.refuse() returns void "
            "language plpgsql security definer as $$ begin perform nextval('public.refusals'); "
            "raise exception 'closed' using errcode = '23514'; end $$")
    for kind, action in kinds.items():
        daemon.apply(workflow("as_" + kind, step("before"), "{id: refuse, %s, compensate: "
                              "{post: svc/undo_refuse}}" % action))
    forms = [Answer(409, "the account is closed", {"Content-Type": "text/plain"}),
             Answer(409, {"code": "CLOSED"}), Answer(409, b""),
             Answer(409, "<h1>no</h1>", {"Content-Type": "application/json"})]
    runs = []
    for n, answer in enumerate(forms):
        ledger.always("/refuse/%d" % n, answer)
        for kind in ("http", "http_default"):
            runs.append(daemon.start_run("as_" + kind, {"n": n}, "%s-%d" % (kind, n)))
    for kind in ("exec", "exec_default", "sql", "worker"):
        runs.append(daemon.start_run("as_" + kind, {"n": 0}, kind))
    (task,) = daemon.http("POST", "/v1/queues/refusers/take", {"wait": 10}).json()["tasks"]
    assert daemon.http("POST", "/v1/tasks/fail", {
        "key": task["key"], "token": task["token"], "code": "CLOSED", "message": "no"}).status == 200
    env.wait_all(len(runs))
    for run in runs:
        shown = daemon.show(run)
        assert shown["state"] == "compensated" and shown["cause"] == "step_refused", shown
        refused = next(s for s in shown["steps"] if s["id"] == "refuse")
        assert refused["attempts"] == 1 and refused["state"] == "refused", refused
        assert len(ledger.seen(key=run + ":before:compensate")) == 1, run
    assert not ledger.seen(path="/undo_refuse")
    assert {len(ledger.seen(key=run + ":refuse:execute")) for run in runs
            if run.startswith("http")} == {1}
    for name in ("rule", "default"):
        with open("%s/%s" % (env.folder, name)) as file:
            assert file.read() == "called\n", name
    assert env.sql("select last_value from public.refusals") == "1"
    assert folder


@case
def a_poison_5(env):
    """A hundred tasks of one run are completed in the same moment: none is lost, none is refused,
    no step fails, and the log stays short."""
    env.ledger("svc")
    env.sequential = False
    env.descriptors_max = 400
    daemon = env.daemon("a").start("--lease", "2s")
    daemon.apply(workflow("flow", """{id: work, for_each: "input.items", max_parallel: 100,
        action: {worker: hands}, compensate: {post: svc/undo}}"""))
    daemon.start_run("flow", {"items": list(range(100))}, "many")
    tasks = []
    while len(tasks) < 100:
        tasks.extend(daemon.http("POST", "/v1/queues/hands/take",
                                 {"wait": 10, "max": 100}).json()["tasks"])
    assert len({task["key"] for task in tasks}) == 100
    lines = daemon.log().count("\n")
    together, answers = threading.Barrier(100), []

    def complete(task):
        together.wait(30)
        answers.append(daemon.http("POST", "/v1/tasks/complete", {
            "key": task["key"], "token": task["token"], "output": task["key"]}).status)

    threads = [threading.Thread(target=complete, args=(task,), daemon=True) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60 * PATIENCE)
    assert answers == [200] * 100, answers
    assert env.wait_state("many") == "completed"
    assert env.sql("select count(*), max(attempts) from saga.steps where item <> ''") == "100|1"
    assert daemon.log().count("\n") - lines < 5, daemon.log()


# --- HERD: many daemons at once --------------------------------------------------------------------


def sessions(env):
    """How many sessions each daemon has."""
    return {row["name"]: row["n"] for row in env.rows(
        "select split_part(application_name, ' ', 2) as name, count(*) as n from pg_stat_activity "
        "where application_name like 'sagad %%' and datname = '%s' group by 1" % env.database)}


def owners(env):
    """How many daemons have shards."""
    return int(env.sql("select count(distinct l.daemon) from saga.lane l join saga.shard s "
                       "on s.lane_no = l.lane_no"))


@case
def a_herd_2(env):
    """Ten daemons of two sessions each start at once at a database that has 25 for them: all of
    them work and answer, and none has more."""
    ledger = env.ledger("svc")
    env.sql("alter database %s connection limit 25" % env.database)
    daemons = [env.daemon("d%d" % n).start("--lease", "2s", "--sessions", "2", wait=False)
               for n in range(10)]
    wait_until("each has shards", lambda: owners(env) == 10, 40)
    for daemon in daemons:
        wait_until("it answers", daemon.is_ready)
    daemons[0].http("PUT", "/v1/workflows", workflow("flow", step("a"), step("b")))
    for n in range(40):
        env.sql("select saga.start('flow', '{}', run_id => 'run-%d')" % n)
    env.wait_all(40)
    assert daemons[3].http("GET", "/v1/runs/run-5").json()["state"] == "completed"
    found = daemons[4].http("GET", "/v1/runs?limit=2&where=%24.input.none%3D%3D1")  # a search
    assert found.status == 200 and not found.json()["runs"], found
    assert set(env.states().values()) == {"completed"}
    assert set(sessions(env).values()) == {2}
    assert set(ledger.effects_by_key().values()) == {1}


@case
def a_herd_2_waiting(env):
    """Six daemons of four sessions start at once where 13 are left for them: none gives up or
    floods its log, runs go on, and when there is room each has all of its own and no more."""
    ledger = env.ledger("svc")
    first = env.daemon("first").start()
    first.http("PUT", "/v1/workflows", workflow("flow", step("a"), step("b")))
    first.stop()
    env.sql("alter database %s connection limit 13" % env.database)
    daemons = [env.daemon("d%d" % n).start("--lease", "2s", wait=False) for n in range(6)]
    wait_until("the sessions are in use", lambda: sum(sessions(env).values()) >= 12, 40)
    wait_until("some have shards", lambda: owners(env) >= 2, 40)
    for n in range(20):
        env.sql("select saga.start('flow', '{}', run_id => 'early-%d')" % n)
    wait_until("they end", lambda: env.sql(
        "select count(*) from saga.runs where state = 'completed'") == "20")
    assert all(d.alive() for d in daemons)
    assert all(d.log().count("\n") < 60 for d in daemons), max((d.log() for d in daemons), key=len)
    env.sql("alter database %s connection limit -1" % env.database)
    wait_until("each has its sessions", lambda: sorted(sessions(env).values()) == [SESSIONS] * 6,
               40)
    for n, daemon in enumerate(daemons):
        wait_until("it answers", daemon.is_ready)
        daemon.start_run("flow", {}, "late-%d" % n)
    env.wait_all(26)
    assert set(env.states().values()) == {"completed"}
    assert set(sessions(env).values()) == {SESSIONS}
    assert set(ledger.effects_by_key().values()) == {1}


# --- SIZE ------------------------------------------------------------------------------------------


@case
def a_size_1(env):
    """The longest names there may be, an error text of 10 kB in characters of four bytes: nothing
    that is committed depends on how long they are, by the socket or by SQL."""
    name, long_step = "w" * 63, "s" * 63
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start("--lease", "2s")
    daemon.apply(workflow(name, step("a"), step(long_step)))
    run = "r" * 94
    text = "\U0001f98a" * 10240
    ledger.script("/" + long_step, Answer(422, {"code": text, "message": text}))
    ledger.script("/undo_a", Answer(422, {"message": text}))
    env.sql("select saga.start('%s', '{}', run_id => '%s')" % (name, run))
    assert env.wait_state(run) == "parked"
    assert env.sql("select saga.cancel('%s', '%s') is not null" % (run, text[:1000])) == "t"
    assert daemon.verb(run, "retry", reason=text[:1000]).status in (200, 422)
    env.wait_state(run, "compensated", "parked")
    if env.state(run) == "parked":
        assert daemon.verb(run, "retry").status == 200
    assert env.wait_state(run, "compensated") == "compensated"


# --- PGSEC: where the schema is --------------------------------------------------------------------


@case
def a_pgsec_3(env):
    """A database whose users have the schema on their path, and tables of their own with the names
    of ours in public: neither gets in the way of the other, and nothing is made in public."""
    names = ("run", "effect", "event", "lane", "shard", "inbox", "runs", "steps", "workflow")
    for table in names:
        env.sql("create table public.%s (theirs text)" % table)
    env.sql("create function public.shard_of(text) returns smallint language sql as "
            "'select 1/0::smallint'")
    env.sql("create function public.now() returns timestamptz language sql as 'select 1/0, null'"
            .replace("'select 1/0, null'", "'select null::timestamptz'"))
    before = env.sql("select count(*) from pg_class where relnamespace = 'public'::regnamespace")
    for role in ("saga_engine", "saga_reader", "saga_action"):
        env.sql("alter role %s in database %s set search_path = public, saga" %
                (role, env.database))
    env.sql("alter database %s set search_path = public, saga" % env.database)
    done = spawn([SAGAD, "migrate", "--database", env.cluster.uri(env.database, "postgres")])
    assert done.wait(60) == 0
    ledger, daemon = with_steps(env, step("a"), step("b"))
    ledger.script("/b", Answer(422))
    env.sql("select saga.start('flow', '{}', run_id => 'by-sql')")
    daemon.start_run("flow", {}, "by-socket")
    env.wait_all(2)
    assert set(env.states()) == {"by-sql", "by-socket"}
    assert set(env.states().values()) == {"compensated", "completed"}
    for args in (["show", "by-sql"], ["list"], ["dead"], ["explain", "by-socket"]):
        told = daemon.ctl(*args)
        assert told.code == 0, told
    for table in names:
        assert env.sql("select count(*) from public.%s" % table) == "0"
    assert env.sql("select count(*) from pg_class where relnamespace = 'public'::regnamespace") == \
        before


if __name__ == "__main__":
    main(parallel=6)
