#!/usr/bin/env python3
"""Runs that the clock starts: one per tick, whatever dies, and what was missed as the file says."""

import time

from lib import case, main, wait_until

CLOCK = """
workflow: clock
run_id: order-${{ input.at }}
input: {type: object, required: [at], properties: {at: {type: string}}}
schedule: {cron: "%s", overlap: %s, catch_up: %s, input: {at: "${{ tick }}"}}
steps:
  - id: work
    action: %s
output: ${{ input.at }}
"""

WAIT = "{wait_for: go}"
NAP = "{sleep: 10ms}"


def schedule(env):
    rows = env.rows("select * from saga.schedules")
    return rows[0] if rows else None


def begin(env, cron="0 0 * * *", overlap="skip", catch_up="none", action=NAP):
    daemon = env.daemon("a").start("--lease", "2s")
    daemon.apply(CLOCK % (cron, overlap, catch_up, action))
    wait_until("the schedule is known", lambda: schedule(env))
    return daemon


def down_since(env, daemon, text):
    """As if the daemons had been down since then, with the tick of each midnight missed."""
    daemon.kill()
    env.sql("update saga.schedule set last_tick = date_bin('1 day', now() - interval '%s', "
            "timestamptz '2000-01-01')" % text)
    daemon.start("--lease", "2s")


def ticks(env):
    return [row["run_id"] for row in env.rows("select run_id from saga.runs order by 1")]


def named(env, back):
    return env.sql("select to_char(date_bin('1 day', now(), timestamptz '2000-01-01') - "
                   "%d * interval '1 day', '\"clock-\"YYYYMMDD\"T\"HH24MISS\"Z\"') "
                   % back)


def settles(env):
    """The schedule has dealt with all that is due."""
    wait_until("no tick is left", lambda: env.sql(
        "select last_tick >= date_bin('1 day', now(), timestamptz '2000-01-01') "
        "from saga.schedule") == "t")


@case
def catch_up_all_makes_one_run_per_tick(env):
    daemon = begin(env, catch_up="all")
    assert ticks(env) == [], "a new schedule begins now"
    row = schedule(env)
    assert row["next_tick"] > row["last_tick"] and row["zone"] == "UTC", row
    env.sql("set time zone 'UTC'")
    down_since(env, daemon, "4 days")
    wait_until("three runs are there", lambda: len(ticks(env)) >= 3)
    daemon.kill()  # between two ticks, or in one
    daemon.start("--lease", "2s")
    settles(env)
    env.wait_all(4)
    first = env.rows("select run_id, state, output, actor from saga.runs order by 1")[0]
    assert first["run_id"] == named(env, 3), (first, named(env, 3))
    assert first["state"] == "completed" and first["actor"] == "schedule", first
    assert first["output"].replace("-", "").replace(":", "") == first["run_id"][6:], first


@case
def catch_up_last_and_none(env):
    env.sql("set time zone 'UTC'")
    daemon = begin(env, catch_up="last")
    down_since(env, daemon, "4 days")
    settles(env)
    env.wait_all(1)
    assert ticks(env) == [named(env, 0)], ticks(env)
    # Changed: it begins anew.
    daemon.apply(CLOCK % ("0 0 * * *", "skip", "none", NAP))
    wait_until("the change is known", lambda: (schedule(env) or {}).get("catch_up") == "none")
    down_since(env, daemon, "4 days")
    time.sleep(3)
    assert len(ticks(env)) == 1, ticks(env)


@case
def overlap_skip(env):
    daemon = begin(env, catch_up="all", action=WAIT)
    down_since(env, daemon, "4 days")
    settles(env)
    wait_until("its run is there", lambda: len(ticks(env)) == 1)
    assert schedule(env)["skipped"] >= 3, schedule(env)
    assert "a tick is skipped" in daemon.log()
    daemon.http("POST", "/v1/runs/%s/signal" % ticks(env)[0], {"name": "go"})
    env.wait_all()


@case
def overlap_queue(env):
    daemon = begin(env, overlap="queue", catch_up="all", action=WAIT)
    down_since(env, daemon, "2 days")
    wait_until("the first is there", lambda: len(ticks(env)) == 1)
    time.sleep(2.5)
    assert len(ticks(env)) == 1, ticks(env)
    for count in (1, 2):
        run_id = ticks(env)[-1]
        wait_until("it waits", lambda: env.sql(
            "select count(*) from saga.why_waiting where waiting_for = 'signal'") == "1")
        daemon.http("POST", "/v1/runs/%s/signal" % run_id, {"name": "go"})
        env.wait_state(run_id, "completed")
        if count == 1:
            wait_until("the next is there", lambda: len(ticks(env)) == 2)
    settles(env)


@case
def ticks_that_wait_outlive_their_daemon(env):
    """Two ticks came while the run before them was open, then their daemon died: they have waited,
    nobody has missed them."""
    daemon = begin(env, overlap="queue", catch_up="none", action=WAIT)
    daemon.kill()
    env.sql("update saga.schedule set last_tick = date_bin('1 day', now(), timestamptz "
            "'2000-01-01') - interval '2 days', last_run = 'before'")
    env.sql("insert into saga.run_key (shard, run_id, input_hash, workflow_hash, workflow, tenant, "
            "lane_no, seq) select saga.shard_of('before'), 'before', '', workflow_hash, 'clock', "
            "'', 0, 0 from saga.schedule")
    env.sql("insert into saga.run (shard, run_id, created_at, state, direction, turn, paused, "
            "actor, input, ended_at) select saga.shard_of('before'), 'before', now(), 'completed', "
            "'execute', 0, false, '', '{}', now()")
    daemon.start("--lease", "2s")
    for count in (1, 2):
        wait_until("it is started", lambda: named(env, 2 - count) in ticks(env))
        env.wait_state(named(env, 2 - count), "running")
        daemon.http("POST", "/v1/runs/%s/signal" % named(env, 2 - count), {"name": "go"})
        env.wait_state(named(env, 2 - count), "completed")


@case
def a_removed_schedule_ends(env):
    daemon = begin(env, catch_up="all")
    daemon.apply("workflow: clock\nsteps:\n  - {id: work, action: {sleep: 10ms}}\n")
    assert schedule(env) is None
    down_since(env, daemon, "4 days")
    time.sleep(3)
    assert ticks(env) == [], ticks(env)


@case
def two_daemons_make_one_run_per_tick(env):
    a = begin(env, catch_up="all")
    down_since(env, a, "6 days")
    b = env.daemon("b").start("--lease", "2s")
    settles(env)
    env.wait_all(6)
    assert len(set(ticks(env))) == 6
    assert b.alive() and a.alive()


if __name__ == "__main__":
    main()
