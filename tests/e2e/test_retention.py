#!/usr/bin/env python3
"""Retention: the data of finished runs goes when its time is over, what they came to stays, and
nothing that somebody may still need ever goes."""

import random
import time

from lib import Answer, case, main, wait_until

TABLES = ("run", "effect", "attempt", "finding", "event", "signal", "input", "approval", "inbox")

WORKFLOW = """
workflow: %(name)s
run_id: "${{ input.id }}"
input: {type: object, required: [id], properties: {id: {type: string}, note: {type: string}}}
%(more)s
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
steps:
  - {id: a, timeout: 1s, action: {post: svc/a, body: {id: "${{ input.id }}"}}, compensate: {post: svc/undo_a, timeout: 1s}}
  - {id: b, timeout: 1s, action: {post: svc/b, body: {id: "${{ input.id }}"}}, compensate: {post: svc/undo_b, timeout: 1s}}
output: {secret_of_the_run: "${{ input.id }}"}
"""


def workflow(name, more=""):
    return WORKFLOW % {"name": name, "more": more}


def rows_of(env, run_id):
    return {table: int(env.sql("select count(*) from saga.%s where run_id = '%s'" %
                               (table, run_id))) for table in TABLES}


def is_gone(env, run_id):
    return env.sql("select state from saga.tombstones where run_id = '%s'" % run_id)


def wait_gone(env, run_id):
    wait_until("%s is gone" % run_id, lambda: is_gone(env, run_id))


def stand(env, more="retain: 1s"):
    env.keys_known = False
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(workflow("order", more))
    return ledger, daemon


@case
def a_tombstone_is_left(env):
    """Nothing is left of it but how it ended; its id is taken for ever."""
    ledger, daemon = stand(env)
    ledger.script("/a", Answer(503))
    daemon.start_run("order", {"id": "r-1", "note": "private"})
    assert env.wait_state("r-1", "completed", "") in ("completed", "")
    wait_gone(env, "r-1")
    assert set(rows_of(env, "r-1").values()) == {0}, rows_of(env, "r-1")
    shown = daemon.show("r-1")
    assert (shown["state"], shown["workflow"]) == ("completed", "order"), shown
    assert shown["removed_at"] and "input" not in shown and shown["steps"] == [], shown
    done = daemon.ctl("show", "r-1")
    assert done.code == 0 and "completed" in done.out and "by retention" in done.out, done
    # Submitted again: the same run, in the state in which it ended.
    again = daemon.submit("order", {"id": "r-1", "note": "private"}, wait=5)
    assert again.status == 200 and again.headers["Idempotency-Replayed"] == "true", again
    assert again.json()["state"] == "completed" and again.json()["removed_at"], again
    other = daemon.submit("order", {"id": "r-1", "note": "other"}, wait=5)
    assert other.status == 409 and other.json()["code"] == "run_id_conflict", other
    assert "removed" in other.body, other
    assert len(ledger.done("/a")) == 1 and len(ledger.done("/b")) == 1
    # The same by SQL.
    for note, outcome in (("private", "done"), ("other", "conflict")):
        env.sql("select saga.start('order', '{\"id\": \"r-1\", \"note\": \"%s\"}')" % note)
        wait_until("the start is settled", lambda: env.sql(
            "select outcome from saga.requests where kind = 'start' order by at desc limit 1")
            == outcome)
    assert env.sql("select completed, runs from saga.stats where workflow = 'order'") == "1|1"


@case
def verbs_on_what_is_gone(env):
    """A conflict with the reason, never "not found"; that is for ids that never were."""
    ledger, daemon = stand(env)
    daemon.start_run("order", {"id": "r-1"})
    wait_gone(env, "r-1")
    for verb in ("cancel", "compensate", "retry", "pause", "abandon"):
        reply = daemon.verb("r-1", verb)
        assert reply.status == 409 and "removed" in reply.body, reply
    assert daemon.verb("r-1", "skip", step="a").status == 409
    assert daemon.http("POST", "/v1/runs/r-1/signal", {"name": "x"}).status == 409
    assert daemon.verb("r-2", "cancel").status == 404
    done = daemon.ctl("cancel", "r-1", "--reason", "x")
    assert done.code == 9 and "removed" in done.err, done
    request = env.sql("select saga.cancel('r-1', 'x')")
    wait_until("it is settled", lambda: env.sql(
        "select outcome from saga.requests where id = '%s'" % request) == "conflict")
    assert "removed" in env.sql("select answer from saga.requests where id = '%s'" % request)
    assert env.sql("select count(*) from saga.audit where run_id = 'r-1' and verb = 'cancel'"
                   ) == "3", env.rows("select * from saga.audit")


@case
def late_answers(env):
    """What a participant says of a run that is gone is kept where people see it."""
    ledger, daemon = stand(env)
    daemon.start_run("order", {"id": "r-1"})
    wait_gone(env, "r-1")
    reply = daemon.http("POST", "/v1/answers", {"key": "r-1:a:execute", "applied": True,
                                                "output": {"id": "late"}, "text": "after all"})
    assert reply.status == 409 and "saga.late_answers" in reply.body, reply
    request = env.sql("select saga.answer('r-1:b:execute', false, null, 'never did')")
    wait_until("it is settled", lambda: env.sql(
        "select outcome from saga.requests where id = '%s'" % request) == "conflict")
    rows = env.rows("select key, applied, output, text, run_ended from saga.late_answers order by at")
    assert rows == [
        {"key": "r-1:a:execute", "applied": True, "output": {"id": "late"}, "text": "after all",
         "run_ended": "completed"},
        {"key": "r-1:b:execute", "applied": False, "output": None, "text": "never did",
         "run_ended": "completed"}], rows
    time.sleep(3)  # another walk does not take them
    assert env.sql("select count(*) from saga.late_answers") == "2"


@case
def what_stays(env):
    """Parked, open, within compensatable_for, without a word on it, or with an open child."""
    env.keys_known = False
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(workflow("order", "retain: 1s"))
    daemon.apply(workflow("window", "retain: 1s\ncompensatable_for: 1h"))
    daemon.apply(workflow("unsaid"))
    daemon.apply(workflow("parking", "retain: 1s\non_failure: park"))
    daemon.apply("workflow: slow\nretain: 1s\nsteps: [{id: nap, action: {sleep: 1h}}]\n")
    daemon.apply("workflow: parent\nretain: 1s\nsteps: [{id: go,"
                 " action: {child: slow, detached: true}}]\n")
    daemon.start_run("order", {"id": "gone"})
    daemon.start_run("window", {"id": "window"})
    daemon.start_run("unsaid", {"id": "unsaid"})
    daemon.start_run("slow", {}, run_id="slow")
    daemon.start_run("parent", {}, run_id="family")
    ledger.script("/b", Answer(404))
    daemon.start_run("parking", {"id": "parked"})
    stay = ["window", "unsaid", "slow", "family", "family~go", "parked"]
    assert env.wait_state("parked") == "parked"
    assert env.wait_state("family") == "completed"
    before = {run_id: rows_of(env, run_id) for run_id in stay}
    wait_gone(env, "gone")
    time.sleep(5)
    assert {run_id: rows_of(env, run_id) for run_id in stay} == before
    assert env.sql("select string_agg(run_id, ',') from saga.tombstones") == "gone"
    # What it was kept for is still possible.
    assert daemon.verb("window", "compensate").status == 200
    assert env.wait_state("window") == "compensated"
    # With the child's end the family goes, together.
    assert daemon.verb("family~go", "cancel").status == 200
    wait_gone(env, "family")
    assert env.sql("select string_agg(run_id || ' ' || state, ', ' order by run_id) "
                   "from saga.tombstones where run_id like 'family%'") == \
        "family completed, family~go compensated"
    daemon.verb("slow", "cancel")


@case
def the_daemons_setting(env):
    """`retain` of the daemon is for workflows that do not say; definitions of before count, too."""
    env.keys_known = False
    env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(workflow("unsaid"))
    daemon.apply(workflow("long", "retain: 30d"))
    daemon.start_run("unsaid", {"id": "old"})
    daemon.start_run("long", {"id": "long"})
    assert env.wait_state("old") == "completed" and env.wait_state("long") == "completed"
    daemon.apply(workflow("unsaid", "deadline: 1h"))
    time.sleep(3)
    assert not is_gone(env, "old")
    daemon.stop()
    for word in ("5", "0s", "soon"):
        env.config_more = "retain: %s\n" % word
        env.config_write()
        daemon.start(wait=False)
        assert daemon.wait() == 2 and "retain" in daemon.log(since_start=True), daemon.log()
    env.config_more = "retain: 1s\n"
    env.config_write()
    daemon.start()
    wait_gone(env, "old")
    assert not is_gone(env, "long")


@case
def only_what_has_ended(env):
    """Whatever is asked for, at whatever time, no open or parked run ever loses a row, nor does
    anything at all go by the word of one who does not carry the shard."""
    env.keys_known = False
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(workflow("order", "on_failure: park\nretain: 100d"))
    daemon.apply("workflow: slow\nretain: 100d\nsteps: [{id: nap, action: {sleep: 1h}}]\n")
    daemon.apply("workflow: pair\nretain: 100d\nsteps:\n"
                 "  - {id: c, action: {child: slow}}\n")
    chance = random.Random(7)
    ledger.always("/b", lambda request: Answer(404 if chance.random() < 0.3 else 200))
    for i in range(30):
        daemon.start_run("order", {"id": "o-%d" % i})
        if i % 3 == 0:
            daemon.start_run("slow", {}, run_id="s-%d" % i)
            daemon.start_run("pair", {}, run_id="p-%d" % i)
        if i % 6 == 0:
            daemon.verb("s-%d" % i, "cancel")
    wait_until("orders rest", lambda: env.sql(
        "select count(*) from saga.runs where workflow = 'order' and state in "
        "('running', 'queued')") == "0")
    wait_until("definitions are known", lambda: env.sql(
        "select count(*) from saga.workflow where not retain_known") == "0")
    open_runs = [r["run_id"] for r in env.rows("select run_id from saga.run where ended_at is null")]
    ended = [r["run_id"] for r in env.rows("select run_id from saga.run where ended_at is not null")]
    assert len(open_runs) > 20 and len(ended) > 10
    before = {run_id: rows_of(env, run_id) for run_id in open_runs}
    retire = ("select coalesce(sum(saga.retire_v1('%s', %s, shard::smallint, ids, '1s', now() + '%s')), -1) "
              "from (select shard, array_agg(run_id) as ids from saga.run group by shard) x")
    epoch = env.sql("select epoch from saga.lane where lane = 'a'")
    assert env.sql(retire % ("a", int(epoch) - 1, "101 d")) == "-1"  # fenced: nothing is known to be done
    assert env.sql(retire % ("b", epoch, "101 d")) == "-1"
    assert env.sql(retire % ("a", epoch, "99 d")) == "0"
    assert len(env.rows("select run_id from saga.tombstones")) == 0
    assert int(env.sql(retire % ("a", epoch, "101 d"))) == len(ended)
    assert int(env.sql(retire % ("a", epoch, "101 d"))) == 0
    assert {run_id: rows_of(env, run_id) for run_id in open_runs} == before
    for run_id in ended:
        assert set(rows_of(env, run_id).values()) == {0}
    for run_id in open_runs:
        daemon.verb(run_id, "abandon")


@case
def killed_in_between(env):
    """A removal that is cut off anywhere is done wholly or not at all, and is done again."""
    ledger, daemon = stand(env)
    for round in range(4):
        for i in range(40):
            daemon.start_run("order", {"id": "k-%d-%d" % (round, i)})
        time.sleep(0.7 + 0.4 * round)
        daemon.kill()
        daemon.start()
    wait_until("all are gone", lambda: env.sql("select count(*) from saga.run") == "0", 40)
    assert env.sql("select count(*) from saga.tombstones") == "160"
    assert all(env.sql("select count(*) from saga.%s" % table) == "0" for table in TABLES)
    assert max(ledger.effects_by_key().values()) == 1


def latencies(daemon, prefix, seconds):
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        begun = time.monotonic()
        daemon.submit("order", {"id": "%s-%d" % (prefix, len(times))}, wait=5)
        times.append(time.monotonic() - begun)
    return sorted(times)


@case
def a_grow_2(env):
    """Removing under load: what is submitted meanwhile takes as long as without, and the tables stay
    as small as what is retained."""
    ledger, daemon = stand(env, "retain: 1h")
    quiet = latencies(daemon, "quiet", 6)
    epoch = env.sql("select epoch from saga.lane where lane = 'a'")
    # A past: as many finished runs as a day of this leaves behind.
    env.sql("""
        insert into saga.run_key (shard, run_id, input_hash, workflow_hash, workflow, tenant, lane_no, seq)
        select saga.shard_of('old-' || i), 'old-' || i, '\\x00', k.workflow_hash, 'order', '', 0, 0
          from generate_series(1, 20000) i,
               (select workflow_hash from saga.run_key limit 1) k;
        insert into saga.run (shard, created_at, run_id, actor, input, turn, state, direction, paused, ended_at)
        select k.shard, now() - interval '2 d', k.run_id, '', '{"id": "x"}', 1, 'completed', 'execute',
               false, now() - interval '2 d'
          from saga.run_key k where k.run_id like 'old-%';
        insert into saga.effect (shard, generation, claim_no, direction, run_id, step_id, item,
                attempts_base, pickups, attempts_free, attempts, state, maybe_applied, by_hand,
                output_invalid, outcome)
        select k.shard, 1, 1, 'execute', k.run_id, s, '', 0, 0, 0, 1, 'applied', false, false, false,
               'applied'
          from saga.run_key k, unnest(array['a', 'b']) s where k.run_id like 'old-%'""")
    busy = latencies(daemon, "busy", 6)
    wait_until("the past is gone", lambda: env.sql(
        "select count(*) from saga.run where run_id like 'old-%'") == "0", 120)
    def p99(times):
        return times[len(times) * 99 // 100]
    print("submit to end: p50 %.1f ms, p99 %.1f ms; while 20,000 runs are removed: p50 %.1f ms, "
          "p99 %.1f ms (%d and %d runs)" % (quiet[len(quiet) // 2] * 1e3, p99(quiet) * 1e3,
          busy[len(busy) // 2] * 1e3, p99(busy) * 1e3, len(quiet), len(busy)))
    assert p99(busy) < max(3 * p99(quiet), 0.25), (p99(quiet), p99(busy))


if __name__ == "__main__":
    main(parallel=3)
