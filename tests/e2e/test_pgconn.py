#!/usr/bin/env python3
"""What PostgreSQL and the way to it can do to a daemon: lost answers, lost sessions, none to have."""

import os
import threading
import time

from lib import Answer, case, main, wait_until
from pgproxy import PgProxy

FIVE = """
workflow: five
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
defaults:
  retry: {attempts: 3, delay: 50ms, factor: 2, max_delay: 200ms, jitter: 20%%}
  compensate_retry: {attempts: 5, delay: 50ms, factor: 2, max_delay: 200ms, jitter: 20%%}
steps:
%s
"""
STEPS = "abcde"
BACKWARD = FIVE % "\n".join(
    "  - {id: %s, action: {post: svc/%s}, compensate: {post: svc/undo_%s}}" % (s, s, s)
    for s in STEPS)
FORK = (FIVE % "\n".join(
    "  - {id: %s, needs: %s, action: {post: svc/%s}, compensate: {post: svc/undo_%s}}" %
    (s, "[]" if s in "abcd" else "[a, b, c, d]", s, s) for s in STEPS)).replace("five", "fork")


def with_proxy(env, *workflows):
    """A daemon behind a proxy, and a ledger that refuses step e."""
    ledger = env.ledger("svc")
    ledger.always("/e", Answer(422, {"code": "NO"}))
    folder = env.folder + "/proxy"
    os.mkdir(folder)
    os.chmod(folder, 0o755)
    proxy = PgProxy(folder, env.cluster.folder + "/.s.PGSQL.5432")
    env.closers.append(proxy.close)
    daemon = env.daemon("a", "host='%s' dbname=%s user=saga_engine" % (folder, env.database))
    daemon.start()
    for workflow in workflows:
        daemon.apply(workflow)
    return ledger, daemon, proxy


def lose_each(env, workflow, source, how):
    """Loses the N-th write of a run, for every N that there is; each run ends as if nothing had
    happened, and nothing is asked of the participant a second time."""
    ledger, daemon, proxy = with_proxy(env, source)
    total = 0
    for n in range(1, 40):
        run = "%s-%d" % (how.replace("_", "-"), n)
        lost = []

        def decide(number):
            if number != n:
                return "pass"
            lost.append(number)
            return how

        proxy.restart_count(decide)
        reply = daemon.submit(workflow, {}, run, wait=20)
        assert reply.status in (200, 202), (n, reply)
        assert env.wait_state(run) == "compensated", (n, env.rows(
            "select * from saga.timeline where run_id = '%s'" % run))
        if not lost:
            break
        total += 1
        keys = [r.key for r in ledger.requests if r.key.startswith(run + ":")]
        assert len(keys) == len(set(keys)) == 9, (n, keys)
        # The same submit again is the one run.
        again = daemon.submit(workflow, {}, run)
        assert again.status == 200 and again.headers["Idempotency-Replayed"] == "true", (n, again)
    return total


@case
def a_pgconn_1_answers(env):
    """The answer to any commit of a run with undo is lost: the commit is found out, not repeated,
    and neither is any request."""
    assert lose_each(env, "five", BACKWARD, "lose_answer") >= 10


@case
def a_pgconn_1_requests(env):
    """A write is lost before it reaches PostgreSQL: it is sent again."""
    assert lose_each(env, "five", BACKWARD, "lose_request") >= 10


@case
def a_pgconn_1_parallel(env):
    """The same with branches that run and are undone side by side."""
    env.sequential = False
    assert lose_each(env, "fork", FORK, "lose_answer") >= 5


@case
def a_pgconn_1_many(env):
    """Under load every tenth answer is lost: 60 runs end right, no request is made twice."""
    ledger, daemon, proxy = with_proxy(env, BACKWARD)
    proxy.restart_count(lambda number: "lose_answer" if number % 10 == 0 else "pass")

    def submit(first):
        for n in range(first, 60, 3):
            reply = daemon.submit("five", {}, "load-%d" % n)
            assert reply.status in (200, 202), reply

    clients = [threading.Thread(target=submit, args=(n,)) for n in range(3)]
    for client in clients:
        client.start()
    for client in clients:
        client.join(60)
    env.wait_all(60)
    assert set(env.states().values()) == {"compensated"}
    keys = [r.key for r in ledger.requests]
    assert len(keys) == len(set(keys)) == 60 * 9


@case
def a_late_answer(env):
    """While PostgreSQL's answer is held back nothing is sent and nobody is told; then all goes on."""
    ledger, daemon, proxy = with_proxy(env, BACKWARD)
    proxy.restart_count(lambda number: "hold" if number == 1 else "pass")
    replies = []
    client = threading.Thread(target=lambda: replies.append(daemon.submit("five", {}, "held")))
    client.start()
    wait_until("it is committed", lambda: env.states() == {"held": "running"})
    time.sleep(0.5)
    assert not ledger.requests and not replies
    proxy.release()
    client.join(20)
    assert replies[0].status == 202
    assert env.wait_state("held") == "compensated"


@case
def cut_connections(env):
    """Every connection is cut again and again while runs are under way: they end, none is asked for
    twice, and reading works again at once."""
    ledger, daemon, proxy = with_proxy(env, BACKWARD)
    ledger.always("/b", Answer(200, delay=0.15))
    for n in range(12):
        reply = wait_until("a submit is taken", lambda: accepted(daemon, "cut-%d" % n), 10)
        assert reply.status in (200, 202)
        proxy.cut()
    env.wait_all(12)
    assert set(env.states().values()) == {"compensated"}
    keys = [r.key for r in ledger.requests]
    assert len(keys) == len(set(keys)) == 12 * 9
    wait_until("reading works", lambda: daemon.http("GET", "/v1/runs").status == 200, 5)


def accepted(daemon, run):
    reply = daemon.submit("five", {}, run)
    return reply if reply.status in (200, 202) else None


@case
def a_pgconn_5(env):
    """The session that watches the inbox is killed: starts by SQL are picked up as fast as before."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(BACKWARD.replace("/e}", "/f}"))
    ended = env.sql("select count(*) from (select pg_terminate_backend(pid) from pg_stat_activity "
                    "where datname = current_database() and application_name = 'sagad a watch') x")
    assert ended == "1"
    env.sql("select saga.start('five', '{}', 'first')")
    env.wait_state("first")
    slow = []
    for n in range(15):
        begun = time.monotonic()
        env.sql("select saga.start('five', '{}', 'sql-%d')" % n)
        key = "sql-%d:a:execute" % n
        wait_until("it is picked up", lambda: ledger.seen(key=key), 5, 0.01)
        slow.append(time.monotonic() - begun)
        time.sleep(0.1)
    assert sorted(slow)[7] < 0.4 * float(os.environ.get("PATIENCE", "1")), slow
    env.wait_all(16)


@case
def a_pgconn_6_at_start(env):
    """No session to be had at the start: the daemon waits and says so, then starts by itself."""
    env.ledger("svc")
    env.sql("alter database %s connection limit 0" % env.database)
    daemon = env.daemon("a").start("--lease", "2s", wait=False)
    wait_until("it says why it waits", lambda: "too many connections" in daemon.log(), 10)
    time.sleep(1.5)
    assert daemon.alive() and not daemon.is_ready()
    assert daemon.log().count("\n") < 12, daemon.log()
    env.sql("alter database %s connection limit -1" % env.database)
    wait_until("it starts", daemon.is_ready, 15)
    # A drain while it waits ends it, too.
    env.sql("alter database %s connection limit 0" % env.database)
    other = env.daemon("b").start("--lease", "2s", wait=False)
    wait_until("it says why it waits", lambda: "too many connections" in other.log(), 10)
    other.send(15)
    other.wait(10)
    env.sql("alter database %s connection limit -1" % env.database)


def undone_or_in_doubt(env, ledger):
    """All runs were undone. Only where the first answer to `e` was lost with the lease may a run be
    parked: the refusal of the second send proves nothing about the first."""
    for run, state in env.states().items():
        in_doubt = state == "parked" and len(ledger.seen(key=run + ":e:execute")) > 1
        assert state == "compensated" or in_doubt, (run, state)


@case
def a_pgconn_6_in_mid_run(env):
    """All sessions are killed and none can be had for a while: /readyz says so, and the runs end
    afterwards without help, each effect once."""
    ledger = env.ledger("svc")
    ledger.always("/e", Answer(422, {"code": "NO"}))
    ledger.always("/b", Answer(200, delay=0.3))
    daemon = env.daemon("a").start("--lease", "2s")
    daemon.apply(BACKWARD)
    for n in range(10):
        daemon.start_run("five", {}, "mid-%d" % n)
    for pause in (0.5, 4):  # shorter, and longer, than the lease
        env.sql("alter database %s connection limit 0" % env.database)
        env.sql("select pg_terminate_backend(pid) from pg_stat_activity "
                "where datname = current_database() and application_name like 'sagad %'")
        wait_until("it knows", lambda: daemon.http("GET", "/readyz").status == 503)
        refused = daemon.submit("five", {}, "refused")
        assert refused.status in (202, 503), refused
        time.sleep(pause)
        env.sql("alter database %s connection limit -1" % env.database)
        wait_until("it is back", lambda: daemon.http("GET", "/readyz").status == 200, 20)
    wait_until("a submit is taken", lambda: accepted(daemon, "refused"))
    env.wait_all(11)
    undone_or_in_doubt(env, ledger)


@case
def a_pgconn_2(env):
    """The database is read-only for a while: nothing is sent that is not stored first, the result
    of what runs is stored afterwards, and all runs end without help."""
    ledger = env.ledger("svc")
    ledger.always("/e", Answer(422, {"code": "NO"}))
    ledger.always("/b", Answer(200, delay=0.4))
    daemon = env.daemon("a").start("--lease", "2s")
    daemon.apply(BACKWARD)
    for n in range(8):
        daemon.start_run("five", {}, "ro-%d" % n)
    wait_until("they run", lambda: len(ledger.seen(path="/b")) == 8)
    env.sql("alter database %s set default_transaction_read_only = on" % env.database)
    env.sql("select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and application_name like 'sagad %'")
    wait_until("it knows", lambda: daemon.http("GET", "/readyz").status == 503)
    time.sleep(1.0)
    seen = len(ledger.requests)
    time.sleep(1.5)
    assert len(ledger.requests) == seen, "something was sent that could not be stored"
    env.sql("alter database %s reset default_transaction_read_only" % env.database)
    env.wait_all(8)
    undone_or_in_doubt(env, ledger)


@case
def roles_that_lock_up(env):
    """Limits that a DBA sets for the role do not reach the daemon's sessions, and nothing is open
    while an action runs (a_pglock_3)."""
    ledger = env.ledger("svc")
    for setting in ("statement_timeout = '200ms'", "lock_timeout = '100ms'",
                    "idle_in_transaction_session_timeout = '100ms'",
                    "idle_session_timeout = '300ms'", "timezone = 'Asia/Kathmandu'",
                    "datestyle = 'SQL, DMY'", "intervalstyle = 'sql_standard'",
                    "search_path = 'public'", "synchronous_commit = off",
                    "default_transaction_isolation = 'serializable'"):
        env.sql("alter role saga_engine in database %s set %s" % (env.database, setting))
    daemon = env.daemon("a").start()
    daemon.apply(BACKWARD)
    ledger.script("/a", Answer(200, delay=2))
    daemon.start_run("five", {}, "limits")
    wait_until("it is in flight", lambda: ledger.requests)
    time.sleep(0.3)
    open_ = env.sql("select count(*) from pg_stat_activity where datname = current_database() and "
                    "application_name like 'sagad %' and "
                    "xact_start < clock_timestamp() - interval '150 ms'")  # what it asks is shorter
    assert open_ == "0"
    assert env.wait_state("limits") == "completed"
    assert "terminat" not in daemon.log() and "timeout" not in daemon.log(), daemon.log()
    shown = daemon.show("limits")
    assert shown["created_at"].endswith("Z"), shown
    same = env.sql("select created_at = '%s' from saga.runs" % shown["created_at"])
    assert same == "t"


if __name__ == "__main__":
    main(parallel=5)
