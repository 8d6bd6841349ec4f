#!/usr/bin/env python3
"""SQL actions in the engine's own database commit with their record: exactly once, whatever dies."""

import os
import random
import re
import threading
import time

from lib import Answer, case, main, wait_until
from pgproxy import PgProxy

LEASE = ("--lease", "2s")

MOVE = """
workflow: move
run_id: move-${{ input.n }}
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
defaults:
  retry: {attempts: 5, delay: 50ms, factor: 2, max_delay: 200ms, jitter: 20%}
  compensate_retry: {attempts: 8, delay: 50ms, factor: 2, max_delay: 200ms, jitter: 20%}
steps:
  - id: debit
    action:
      sql: "insert into public.entries (key, what, amount) values (current_setting('saga.key'), 'debit', $1::numeric) returning id, amount"
      params: ["${{ input.amount }}"]
    compensate:
      sql: "insert into public.entries (key, what, amount) values (current_setting('saga.key'), 'undo debit', $1::numeric)"
      params: ["${{ steps.debit.output.rows[0].amount }}"]
  - id: notify
    action: {post: svc/notify, body: {amount: "${{ steps.debit.output.rows[0].amount }}"}}
    compensate: {post: svc/undo_notify, tolerant: true}
  - id: credit
    action:
      sql: "insert into public.entries (key, what, amount) values (current_setting('saga.key'), 'credit', $1::numeric / $2::numeric)"
      params: ["${{ input.amount }}", "${{ input.divisor }}"]
    compensate:
      sql: "insert into public.entries (key, what) values (current_setting('saga.key'), 'undo credit')"
"""

FORWARD = ["debit", "credit"]
BACK = ["debit", "undo debit"]


def tables(env):
    env.sql("create table public.entries (id bigint generated always as identity, "
            "key text not null, what text not null, amount numeric, at timestamptz default now())")
    env.sql("grant select, insert on public.entries to saga_action")


def actions(env, host=None):
    uri = env.cluster.uri(env.database, "saga_action")
    return ("--action-database", uri.replace(env.cluster.folder, host) if host else uri)


def with_move(env):
    tables(env)
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start(*LEASE, *actions(env))
    daemon.apply(MOVE)
    return ledger, daemon


def given(n, bad):
    return {"n": n, "amount": "19.90", "divisor": 0 if bad else 1}


def submit(daemon, n, bad):
    try:
        reply = daemon.submit("move", given(n, bad))
    except OSError:
        return None
    except Exception as error:  # http.client's own
        if "Remote end closed" in str(error) or "BadStatusLine" in repr(error):
            return None
        raise
    assert reply.status in (200, 202), reply
    return reply


def judge(env, n, bad):
    run = "move-%d" % n
    assert env.wait_state(run) == ("compensated" if bad else "completed"), env.rows(
        "select * from saga.timeline where run_id = '%s'" % run)
    rows = env.rows("select key, what from public.entries where key like '%s:%%' order by id" % run)
    assert [row["what"] for row in rows] == (BACK if bad else FORWARD), rows
    assert len({row["key"] for row in rows}) == 2, rows


def balance(env):
    """Every committed row has an applied step, and the other way round."""
    odd = env.rows("""
        select e.key, e.n, k.state from (select key, count(*) as n from public.entries group by key) e
          full join (select * from saga.keys where step_id in ('debit', 'credit')) k using (key)
         where (k.state = 'applied') is distinct from (e.n = 1)
           and not (e.key is null and k.state <> 'applied')""")
    assert not odd, odd


@case
def runs(env):
    """A run with SQL and HTTP actions, forward and back: values are bound, digits kept, a failing
    statement turns it back, one attempt each."""
    ledger, daemon = with_move(env)
    run = daemon.submit("move", given(1, False), wait=10).json()
    assert run["state"] == "completed", run
    assert str(run["steps"][0]["output"]["rows"][0]["amount"]) == "19.90", run["steps"][0]
    assert ledger.requests[0].body == b'{"amount":19.90}', ledger.requests[0].body
    run = daemon.submit("move", given(2, True), wait=10).json()
    assert run["state"] == "compensated" and run["error"]["code"] == "sqlstate_22012", run
    judge(env, 1, False)
    judge(env, 2, True)
    # a_expr_2: an apostrophe and a second statement are text.
    daemon.apply("""
workflow: note
services: {}
steps:
  - id: write
    action: {sql: "insert into public.entries (key, what) values (current_setting('saga.key'), $1)", params: ["${{ input.text }}"]}
    compensate: {none: "a note"}
""".replace("services: {}\n", ""))
    evil = "O'Brien'; drop table public.entries; --\n\\ $1 %s é 😀"
    assert daemon.submit("note", {"text": evil}, wait=10).json()["state"] == "completed"
    stored = env.rows("select what from public.entries order by id desc limit 1")
    assert stored[0]["what"] == evil, stored


@case
def help_can_be_followed(env):
    """Every query of saga.help runs as it stands, for who reads too, and every view is in it."""
    queries = [query for row in env.rows("select try_this from saga.help")
               for query in row["try_this"].split("; ") if query.startswith("select * from saga.")
               or re.match("select [a-z_, ]+ from saga", query)]
    assert len(queries) > 20, queries
    for query in queries:
        env.sql("set role saga_reader; %s; reset role" % query)
    views = {row["view"] for row in env.rows(
        "select table_name as view from information_schema.views where table_schema = 'saga' "
        "and table_name !~ '_v[0-9]+$'")}
    missing = {view for view in views
               if not any(re.search(r"saga\.%s\b" % view, query) for query in queries)}
    assert missing <= {"help"}, missing


@case
def refusals(env):
    """A statement that is not allowed, that breaks a rule of the database, or that ends the
    transaction leaves nothing behind and turns the run back."""
    ledger, daemon = with_move(env)
    for name, statement in (
            ("rights", "delete from public.entries"), ("engine", "delete from saga.run"),
            ("engine2", "update saga.lane set epoch = 1"), ("missing", "select * from nowhere"),
            ("twins", "select 1 as a, 2 as a"), ("null", "insert into public.entries (key) values ('x')"),
            ("slow", "select pg_sleep(30)")):
        daemon.apply("""
workflow: bad_%s
defaults: {retry: {attempts: 1}}
steps:
  - id: first
    action: {sql: "insert into public.entries (key, what) values (current_setting('saga.key'), 'first')"}
    compensate: {sql: "insert into public.entries (key, what) values (current_setting('saga.key'), 'undo first')"}
  - id: bad
    timeout: 1s
    action: {sql: "%s"}
    compensate: {none: "it cannot work"}
""" % (name, statement))
        run = daemon.submit("bad_" + name, {}, "bad-" + name, wait=15).json()
        assert run["state"] == "compensated" and run["error"]["step"] == "bad", (name, run)
        rows = env.rows("select what from public.entries where key like 'bad-%s:%%' order by id" % name)
        assert [row["what"] for row in rows] == ["first", "undo first"], (name, rows)


POINTS = ["sql_begin", "sql_sent", "sql_open", "sql_commit", "sql_commit_sent", "sql_committed"]


def kill_at(env, bad, hits):
    ledger, daemon = with_move(env)
    daemon.stop()
    n = kills = 0
    for point in POINTS:
        for hit in hits:
            n += 1
            if daemon.start(*LEASE, *actions(env), failpoint="%s:%d:kill" % (point, hit)):
                submit(daemon, n, bad)
                wait_until("it dies or the run ends", lambda: not daemon.alive() or
                           env.state("move-%d" % n) in ("completed", "compensated"), 20)
                ended = time.monotonic()
                while daemon.alive() and time.monotonic() < ended + 0.3:
                    time.sleep(0.02)
            if not daemon.alive():
                assert daemon.failed_at() == point, daemon.log()
                kills += 1
                daemon.start(*LEASE, *actions(env))
            submit(daemon, n, bad)
            judge(env, n, bad)
            daemon.kill()
    daemon.start(*LEASE, *actions(env))
    balance(env)
    return kills


@case
def kills_forward(env):
    """A daemon that dies around any line of the last SQL action of a run that completes."""
    assert kill_at(env, False, [2]) == 6


@case
def kills_back(env):
    """The same for the first, and for the one that turns the run back."""
    assert kill_at(env, True, [1, 2]) >= 10


def through_proxy(env):
    tables(env)
    ledger = env.ledger("svc")
    folder = env.folder + "/proxy"
    os.mkdir(folder)
    os.chmod(folder, 0o755)
    proxy = PgProxy(folder, env.cluster.folder + "/.s.PGSQL.5432")
    env.closers.append(proxy.close)
    daemon = env.daemon("a", "host='%s' dbname=%s user=saga_engine" % (folder, env.database))
    daemon.start(*LEASE, *actions(env, folder))
    daemon.apply(MOVE)
    return ledger, daemon, proxy


@case
def lost_commits(env):
    """The answer to any commit, or the commit itself, is lost: no action happens twice, none is
    forgotten (a_pgconn_1)."""
    ledger, daemon, proxy = through_proxy(env)
    n = 0
    for how in ("lose_answer", "lose_request"):
        for bad in (False, True):
            for number in range(1, 20):
                n += 1
                lost = []

                def decide(count):
                    if count != number:
                        return "pass"
                    lost.append(count)
                    return how

                proxy.restart_count(decide)
                assert submit(daemon, n, bad)
                judge(env, n, bad)
                if not lost:
                    break
            assert number > 4, (how, bad, number)
    balance(env)
    assert len({r.key for r in ledger.seen(path="/notify")}) == len(ledger.seen(path="/notify"))


@case
def random_kills(env):
    """40 runs, 8 kills at random moments, on one of two daemons each time."""
    seed = int(os.environ.get("SEED", "0")) or random.SystemRandom().randrange(1 << 32)
    random_ = random.Random(seed)
    tables(env)
    env.ledger("svc")
    daemons = [env.daemon(name).start(*LEASE, *actions(env)) for name in "ab"]
    daemons[0].apply(MOVE)

    def client():
        for n in range(1, 41):
            while submit(daemons[n % 2], n, n % 4 == 0) is None:
                time.sleep(0.05)
            time.sleep(0.03)

    thread = threading.Thread(target=client, daemon=True)
    thread.start()
    for kill in range(8):
        time.sleep(random_.uniform(0.0, 0.4))
        victim = daemons[kill % 2]
        victim.kill()
        victim.start(*LEASE, *actions(env))
    thread.join(60)
    assert not thread.is_alive(), "SEED=%d" % seed
    env.wait_all(40)
    try:
        for n in range(1, 41):
            judge(env, n, n % 4 == 0)
        balance(env)
    except AssertionError as error:
        raise AssertionError("SEED=%d: %s" % (seed, error))


@case
def frozen_with_an_open_action(env):
    """A daemon that freezes with an SQL action open cannot commit it after another one took over,
    and its locks do not stay."""
    tables(env)
    env.ledger("svc")
    a = env.daemon("a").start(*LEASE, *actions(env), failpoint="sql_open:1:stop")
    a.apply(MOVE)
    try:
        a.http("POST", "/v1/runs", {"workflow": "move", "input": given(1, False)}, timeout=1)
    except OSError:
        pass
    a.frozen = True
    wait_until("it stands still", lambda: a.failed_at() == "sql_open")
    env.daemon("b").start(*LEASE, *actions(env))
    judge(env, 1, False)
    a.thaw()
    wait_until("it notices", lambda: a.log().count("has its lease") > 1, 15)
    time.sleep(0.3)
    judge(env, 1, False)
    balance(env)
    wait_until("nothing is open", lambda: env.sql(
        "select count(*) from pg_stat_activity where datname = current_database() and "
        "state like 'idle in transaction%'") == "0", 5)


@case
def a_burst_of_starts(env):
    """8,000 starts in one statement are taken in unit by unit, none of which takes so long that the
    lease runs out: each row of the inbox is found by its key, however many are open."""
    env.ledger("svc")
    daemon = env.daemon("a").start("--lease", "2s")
    daemon.apply("""
workflow: flow
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
steps:
  - {id: a, action: {post: svc/a}, compensate: {post: svc/undo}}
""")
    env.sql("select count(saga.start('flow', '{}', run_id => 'run-' || n, "
            "start_at => now() + interval '1 hour')) from generate_series(1, 8000) n")
    wait_until("all are taken in", lambda: env.sql(
        "select count(*) from saga.inbox where outcome is null") == "0", 60)
    assert env.sql("select count(*) from saga.runs where state = 'queued'") == "8000"
    assert "lost its lease" not in daemon.log(), daemon.log()
    # What every case checks at its end compares views row by row, which is not for so many.
    env.sql("select count(saga.cancel(run_id, 'over')) from saga.runs")
    wait_until("all are over", lambda: env.sql(
        "select count(*) from saga.runs where ended_at is null") == "0", 60)


if __name__ == "__main__":
    main(parallel=5)
