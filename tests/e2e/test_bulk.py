#!/usr/bin/env python3
"""Verbs for many runs: counted first, released at a rate, stopped when too many go wrong, and gone
on with after a crash."""

import os
import pty
import re
import subprocess
import threading
import time

from lib import SAGACTL, Answer, case, main, spawn, wait_until

FLOW = """
workflow: flow
input: {type: object, properties: {n: {type: integer}, tag: {type: string}}}
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
defaults: {retry: {attempts: 1}}
steps:
  - {id: a, timeout: 10m, action: {post: svc/a}, compensate: {post: svc/undo_a}}
  - {id: b, timeout: 10m, on_failure: park, action: {post: svc/b}, compensate: {post: svc/undo_b}}
"""


def world(env, count, park=True, name="a", args=()):
    """So many runs r000, r001, ... parked at b (or held in a)."""
    ledger = env.ledger("svc")
    gate = threading.Event()
    env.closers.append(gate.set)
    daemon = env.daemon(name).start(*args)
    daemon.apply(FLOW)
    if park:
        ledger.always("/b", Answer(422, {"code": "NO"}))
    else:
        ledger.always("/a", Answer(200, gate=gate))
    for n in range(count):
        daemon.start_run("flow", {"n": n, "tag": "even" if n % 2 == 0 else "odd"}, "r%03d" % n)
    if park:
        env.wait_all(count)
    return ledger, daemon, gate


def bulk(daemon, verb, filter, **more):
    return daemon.http("POST", "/v1/runs:" + verb, {"filter": filter, "reason": "a test", **more})


def counted(daemon, verb, filter):
    reply = bulk(daemon, verb, filter, dry_run=True)
    assert reply.status == 200, reply
    return reply.json()


def begun(daemon, verb, filter, **more):
    token = counted(daemon, verb, filter)["token"]
    reply = bulk(daemon, verb, filter, token=token, **more)
    assert reply.status == 202, reply
    assert reply.headers["Location"] == "/v1/bulk/" + reply.json()["bulk_id"]
    return reply.json()["bulk_id"]


def over(daemon, id, timeout=60):
    def look():
        reply = daemon.http("GET", "/v1/bulk/" + id)
        assert reply.status == 200, reply
        document = reply.json()
        return document if document["state"] in ("done", "stopped") else None

    return wait_until("the bulk verb %s is over" % id, look, timeout, 0.05)


@case
def counted_first(env):
    """The dry run changes nothing; its token fits that filter, that many runs and what was there
    then, for 10 minutes."""
    _, daemon, _ = world(env, 12)
    count = counted(daemon, "abandon", {"state": "parked", "workflow": "flow"})
    assert count["count"] == 12 and count["run_ids"] == ["r%03d" % n for n in range(12)], count
    assert set(env.states().values()) == {"parked"}
    # without one, with one of another filter or verb, or with one that is none
    filter = {"state": "parked", "workflow": "flow"}
    assert bulk(daemon, "abandon", filter).json()["code"] == "token_missing"
    other = counted(daemon, "abandon", {"state": "parked"})["token"]
    assert bulk(daemon, "abandon", filter, token=other).json()["code"] == "count_changed"
    assert bulk(daemon, "retry", filter, token=count["token"]).json()["code"] == "count_changed"
    assert bulk(daemon, "abandon", filter, token="12").status == 400
    old = count["token"].split(".")
    old[1] = str(int(old[1]) - 601 * 1000000)
    reply = bulk(daemon, "abandon", filter, token=".".join(old))
    assert reply.status == 409 and reply.json()["code"] == "token_expired", reply
    # a run that came later is not touched
    daemon.start_run("flow", {"n": 99}, "later")
    env.wait_state("later", "parked")
    done = over(daemon, begun_with(daemon, "abandon", filter, count["token"], rate=100))
    assert (done["total"], done["done"], done["state"]) == (12, 12, "done"), done
    assert env.state("later") == "parked"
    assert len([s for s in env.states().values() if s == "abandoned"]) == 12
    assert env.sql("select distinct detail from saga.timeline where what = 'abandon'") \
        .startswith("a test by uid:")
    few = counted(daemon, "abandon", {"where": '$.park_reason == "step_failed"'})
    assert few["count"] == 1


def begun_with(daemon, verb, filter, token, **more):
    reply = bulk(daemon, verb, filter, token=token, **more)
    assert reply.status == 202, reply
    return reply.json()["bulk_id"]


@case
def more_than_counted(env):
    """If the filter takes more runs than were counted, nothing is begun, and the answer says how
    many there are now."""
    ledger, daemon, gate = world(env, 3, park=False)
    ledger.always("/b", Answer(422, {"code": "NO"}))
    filter = {"state": "parked"}
    assert counted(daemon, "retry", filter)["count"] == 0
    assert bulk(daemon, "retry", filter, token=counted(daemon, "retry", filter)["token"]) \
        .status == 404
    count = counted(daemon, "pause", {"state": "running"})
    assert count["count"] == 3
    token = counted(daemon, "retry", filter)["token"]
    gate.set()
    env.wait_all(3)
    env.sql("update saga.run set created_at = created_at - interval '1 min'")
    reply = bulk(daemon, "retry", filter, token=token)
    assert reply.status == 409 and "takes 3 runs now" in reply.json()["detail"], reply


@case
def by_what_is_in_it(env):
    """--where reads input, output and error, as a predicate or as a filter; a path that is none is
    refused in words, for list and for verbs."""
    _, daemon, _ = world(env, 10)
    listed = lambda where: sorted(daemon.ctl("list", "-q", "--where", where).out.split())
    assert listed("$.input.n >= 8") == ["r008", "r009"]
    assert listed('$.input ? (@.tag == "odd" && @.n < 4)') == ["r001", "r003"]
    assert listed('$.error.code == "NO" && $.input.n == 0') == ["r000"]
    assert listed("$.input.nothing.of.that") == []
    assert listed('$.run_id like_regex "^r00[12]$"') == ["r001", "r002"]
    page = daemon.http("GET", "/v1/runs?limit=2&where=%24.input.tag%3D%3D%22odd%22").json()
    assert [r["run_id"] for r in page["runs"]] == ["r009", "r007"], page
    for bad in ("$.", "input.n > 3", "$.n like_regex \"(\"", "'"):
        result = daemon.ctl("list", "--where", bad)
        assert result.code != 0 and "is no SQL/JSON path" in result.err and not result.out, result
        reply = bulk(daemon, "retry", {"where": bad}, dry_run=True)
        assert reply.status == 400 and "is no SQL/JSON path" in reply.json()["detail"], reply
    result = daemon.ctl("abandon", "--where", '$.input.tag == "even"', "--rate", "1000/s", "--yes",
                        "--reason", "even ones")
    assert result.code == 0 and "5 of 5 done" in result.out, result
    assert sorted(r for r, s in env.states().items() if s == "abandoned") == \
        ["r%03d" % n for n in range(0, 10, 2)]


@case
def where_takes_too_long(env):
    """A search that takes too long is given up and says how to narrow it; other questions do not
    wait for it."""
    _, daemon, _ = world(env, 1)
    # For each item of a long list all others are looked at.
    env.sql("update saga.run set input = (select json_build_object('n', 1, 'x', json_agg(n)) "
            "from generate_series(1, 30000) n) where run_id = 'r000'")
    where = "$.input.x[*] ? (exists($.input.x[*] ? (@ < 0)))"
    results = []
    thread = threading.Thread(target=lambda: results.append(
        daemon.ctl("list", "--where", where)))
    begin = time.monotonic()
    thread.start()
    time.sleep(0.5)
    other = time.monotonic()
    assert daemon.http("GET", "/v1/runs/r000").status == 200
    assert daemon.http("GET", "/v1/runs?limit=5").status == 200
    assert time.monotonic() - other < 3
    thread.join()
    took = time.monotonic() - begin
    assert results[0].code != 0 and "narrow it by state, workflow or since" in results[0].err, \
        (took, results)
    assert 9 < took < 25, took


@case
def rate_and_order(env):
    """Work is released at the rate, in the order in which the runs were started; after an outage
    nothing is made up for at once."""
    _, daemon, _ = world(env, 20)
    begin = time.monotonic()
    id = begun(daemon, "abandon", {"state": "parked"}, rate=10)
    time.sleep(0.5)
    middle = daemon.http("GET", "/v1/bulk/" + id).json()
    assert 1 <= middle["released"] <= 10, middle
    done = over(daemon, id)
    took = time.monotonic() - begin
    assert done["done"] == 20 and took >= 1.7, (done, took)
    order = env.sql("select string_agg(run_id, ',' order by at) from saga.requests "
                    "where kind = 'abandon'").split(",")
    assert order == sorted(order), order


@case
def stops_when_too_many_go_wrong(env):
    """Over 20 % of at least 10: nothing more is released, and it says so; the share is the
    caller's."""
    _, daemon, gate = world(env, 60, park=False)
    for n in range(0, 60, 2):  # each second one will be over before its turn comes
        assert daemon.verb("r%03d" % n, "abandon").status == 200
    ids = ["r%03d" % n for n in range(60)]
    reply = bulk(daemon, "cancel", {"run_ids": ids}, rate=10)
    assert reply.status == 202, reply
    done = over(daemon, reply.json()["bulk_id"])
    assert done["state"] == "stopped" and "were refused" in done["stopped"], done
    assert done["released"] < 40 and done["refused"] >= 4, done
    assert all("the run has ended abandoned" in w["answer"] for w in done["refusals"]), done
    assert env.sql("select count(*) from saga.bulk_runs where outcome = 'left'") == \
        str(60 - done["released"])
    reply = bulk(daemon, "cancel", {"run_ids": ids}, rate=1000, max_error_share=1)
    done = over(daemon, reply.json()["bulk_id"])
    assert done["state"] == "done" and (done["done"], done["refused"]) == (30, 30), done
    gate.set()
    env.wait_all()


@case
def stopped_by_a_person(env):
    _, daemon, _ = world(env, 30)
    id = begun(daemon, "abandon", {"state": "parked"}, rate=5)
    result = daemon.ctl("bulk", "stop", id)
    assert result.code == 0 and "stopped by uid:" in result.out, result
    done = over(daemon, id)
    assert done["state"] == "stopped" and done["released"] < 10, done
    assert daemon.ctl("bulk").out.split("\n")[1].startswith(id)
    assert daemon.ctl("bulk", "show", id, "--json").json()["stopped"] == done["stopped"]
    assert daemon.ctl("bulk", "stop", id).code == 0  # it has what it wants
    for what in ("show", "stop"):
        result = daemon.ctl("bulk", what, "nope")
        assert result.code == 3, result
        assert 'no verb for many runs "nope": sagactl bulk lists them' in result.err, result
    report = daemon.ctl("bulk", "show", id).out
    assert report.splitlines()[0].startswith(id + "  abandon  stopped  "), report
    for said in (r"asked for +20\S+Z \(\S+ ago\) by uid:", r"reason +a test", r"rate +5 a second$",
                 r'runs +\{"state":"parked"\}', r"ended +20\S+Z \("):
        assert re.search("^" + said, report, re.M), (said, report)
    assert "bulk stop" not in report, report


@case
def one_that_is_over_cannot_be_stopped(env):
    """While it works it says how to stop it; a stop after all were asked is told that it is late."""
    _, daemon, _ = world(env, 4)
    id = begun(daemon, "abandon", {"state": "parked"}, rate=1)
    report = daemon.ctl("bulk", "show", id).out
    assert "  sagactl bulk stop %s  " % id in report and "not asked for yet" in report, report
    assert re.search(r"^rate +1 a second; the \d to come takes? about \d", report, re.M), report
    assert over(daemon, id)["state"] == "done"
    result = daemon.ctl("bulk", "stop", id)
    assert result.code == 9 and "nothing left to stop" in result.err, result
    assert daemon.http("GET", "/v1/bulk/" + id).json()["stopped"] is None


@case
def lost_is_not_refused(env):
    """A run that retention removed before its turn came is lost; nobody refused, so that it does not
    count towards the share at which it stops."""
    ledger, daemon, _ = world(env, 0)
    ledger.always("/b", Answer())
    env.keys_known = False
    ids = ["x%02d" % n for n in range(14)]
    for id in ids:
        daemon.start_run("flow", {}, id)
    env.wait_all(14)
    wait_until("definitions are read", lambda: env.sql(
        "select count(*) from saga.workflow where not retain_known") == "0")
    gone = ids[1:]
    reply = bulk(daemon, "cancel", {"run_ids": ids}, rate=1, max_error_share=0.1)
    assert reply.status == 202, reply
    for id in gone:
        assert env.sql("select saga.retire_v1(l.lane, l.epoch, s.shard, array['%s'], interval '0', "
                       "now() + interval '1 day') from saga.shard s join saga.lane l using (lane_no) "
                       "where s.shard = saga.shard_of('%s')" % (id, id)) in ("0", "1")
    done = over(daemon, reply.json()["bulk_id"])
    assert done["state"] == "done" and done["done"] == 0, done
    assert done["lost"] >= 10 and done["lost"] + done["refused"] == 14, done
    assert {w["outcome"] for w in done["refusals"]} == {"lost", "refused"}, done
    assert env.sql("select count(*) from saga.bulk_runs where outcome = 'lost'") == str(done["lost"])
    out = daemon.ctl("bulk", "show", done["bulk_id"]).out
    assert " %d refused, %d lost\n" % (done["refused"], done["lost"]) in out, out


@case
def survives_a_crash(env):
    """After kill -9 in the middle it goes on, each run is asked once, and the result is whole: at
    the same daemon, or at the one that takes over."""
    _, daemon, _ = world(env, 40, args=("--lease", "2s"))
    id = begun(daemon, "abandon", {"state": "parked"}, rate=15)
    wait_until("some are done", lambda: int(env.sql(
        "select done from saga.bulk where bulk_id = '%s'" % id)) >= 5)
    daemon.kill()
    assert env.sql("select state from saga.bulk") == "working"
    other = env.daemon("b").start("--lease", "2s")
    done = over(other, id)
    assert (done["state"], done["done"], done["total"]) == ("done", 40, 40), done
    assert env.sql("select max(n) from (select count(*) n from saga.event where what = 'abandon' "
                   "group by run_id) x") == "1"
    assert set(env.states().values()) == {"abandoned"}
    assert env.sql("select count(*) from saga.requests where kind = 'abandon'") == "40"


@case
def runs_of_another_daemon(env):
    """Runs are asked wherever their owner is."""
    _, daemon, _ = world(env, 24)
    other = env.daemon("b").start()
    wait_until("both have shards", lambda: env.sql(
        "select count(*) from saga.daemons where shards > 0") == "2", 60)
    id = begun(other, "retry", {"state": "parked"}, rate=100)
    done = over(daemon, id)
    assert done["done"] == 24, done


@case
def verbs_and_states(env):
    """Without a state a verb takes what it is meant for: pause what is not paused, resume what is,
    retry, compensate and abandon what is parked; nothing that has ended."""
    ledger, daemon, gate = world(env, 4)
    ledger.always("/a", Answer(200, gate=gate))
    daemon.start_run("flow", {}, "held")
    daemon.start_run("flow", {}, "stopped")
    assert daemon.verb("stopped", "pause").status == 200
    assert daemon.verb("r003", "abandon").status == 200
    takes = lambda verb, **filter: counted(daemon, verb, {"workflow": "flow", **filter})["run_ids"]
    parked = ["r000", "r001", "r002"]
    assert takes("pause") == parked + ["held"]
    assert takes("resume") == ["stopped"]
    for verb in ("retry", "compensate", "abandon"):
        assert takes(verb) == parked, verb
    assert takes("cancel") == parked + ["held", "stopped"]
    assert takes("abandon", state="running") == ["held", "stopped"]
    assert takes("compensate", state="abandoned") == ["r003"]
    assert takes("pause", since="1h") == parked + ["held"]
    assert takes("pause", workflow="other") == []
    gate.set()
    assert daemon.verb("stopped", "resume").status == 200
    env.wait_all()


@case
def bad_input(env):
    """What is not understood is refused, names the place, and begins nothing."""
    _, daemon, _ = world(env, 1)
    for body, status, code in (
            ({}, 422, "filter_missing"), ({"filter": {}}, 422, "filter_missing"),
            ({"filter": []}, 422, "filter_missing"), ({"filter": {"stat": "x"}}, 422, "unknown_member"),
            ({"filter": {"state": "parkd"}}, 422, "bad_filter"),
            ({"filter": {"state": 1}}, 422, "bad_filter"),
            ({"filter": {"since": "soon"}}, 422, "bad_filter"),
            ({"filter": {"where": "$" + "." * 1000}}, 422, "bad_filter"),
            ({"filter": {"run_ids": []}}, 422, "bad_filter"),
            ({"filter": {"run_ids": ["a", 1]}}, 422, "bad_filter"),
            ({"filter": {"run_ids": ["r000"] * 10001}}, 422, "bad_filter"),
            ({"filter": {"run_ids": ["r000"]}, "rate": 0}, 422, "bad_number"),
            ({"filter": {"run_ids": ["r000"]}, "rate": "10"}, 422, "bad_number"),
            ({"filter": {"run_ids": ["r000"]}, "rate": 1e9}, 422, "bad_number"),
            ({"filter": {"run_ids": ["r000"]}, "max_error_share": 2}, 422, "bad_number"),
            ({"filter": {"run_ids": ["r000"]}, "reason": ""}, 422, "reason_missing"),
            ({"filter": {"run_ids": ["r000"]}, "reason": "x" * 1001}, 422, "reason_missing"),
            ({"filter": {"run_ids": ["r000"]}, "dry_run": "yes"}, 422, "bad_dry_run"),
            ({"filter": {"run_ids": ["r000"]}, "speed": 1}, 422, "unknown_member"),
            ({"filter": {"run_ids": ["r000", "nobody"]}}, 404, "not_found")):
        reply = daemon.http("POST", "/v1/runs:abandon", {"reason": "x", **body})
        assert (reply.status, reply.json()["code"]) == (status, code), (body, reply)
    for verb in ("settle", "skip", "signal", "migrate", "answer", "start", "bury", ""):
        assert bulk(daemon, verb, {"run_ids": ["r000"]}).status == 404, verb
    assert daemon.http("GET", "/v1/runs:abandon").status == 404
    assert daemon.http("GET", "/v1/bulk/nope").status == 404
    assert daemon.http("POST", "/v1/bulk/nope/stop", {}).status == 404
    assert daemon.http("POST", "/v1/bulk/nope/start", {}).status == 404
    assert daemon.http("GET", "/v1/bulk").json() == {"bulk": []}
    assert env.states() == {"r000": "parked"}


@case
def by_hand(env):
    """sagactl: exit 0 when all obeyed, 1 when some did not (with each and why), 9 when every one
    was decided otherwise before; without a terminal nothing happens without --yes."""
    _, daemon, _ = world(env, 4)
    result = daemon.ctl("abandon", "r000", "r001", "--reason", "x")
    assert result.code == 2 and "abandon takes 2 runs: r000, r001" in result.err, result
    assert "say --yes" in result.err and not result.out
    assert set(env.states().values()) == {"parked"}
    result = daemon.ctl("abandon", "--state", "parked", "--dry-run")
    assert result.code == 0 and result.out.split() == ["r000", "r001", "r002", "r003"], result
    assert "abandon would take 4 runs" in result.err, result
    assert daemon.ctl("retry", "r000", "r001", "--dry-run", "--json").json()["count"] == 2
    assert set(env.states().values()) == {"parked"}
    assert daemon.ctl("abandon", "r000", "r001", "--reason", "x", "--yes").code == 0
    result = daemon.ctl("retry", "r000", "r002", "--reason", "x", "--yes")
    assert result.code == 1 and "r000  refused  the run is abandoned" in result.out, result
    assert "1 of 2 done, 1 refused" in result.out
    result = daemon.ctl("cancel", "r000", "r001", "--reason", "x", "--yes", "--json")
    assert result.code == 9 and result.json()["refused"] == 2, result
    result = daemon.ctl("cancel", "r000", "nobody", "--reason", "x", "--yes")
    assert result.code == 3 and "there is no run nobody" in result.err, result
    result = daemon.ctl("retry", "--state", "compensating", "--reason", "x", "--yes")
    assert result.code == 0 and "no such run" in result.err, result
    result = daemon.ctl("abandon", "--workflow", "flow", "--reason", "x", "--yes", "-q")
    assert result.code == 0 and result.out.count("\n") == 1, result
    for args, said in ((["r1", "--state", "parked"], "give runs or a filter, not both"),
                       (["r1", "--yes"], "are for several runs"),
                       (["r1", "r2", "--rate", "0/s"], "is not a rate"),
                       (["r1", "r2", "--rate", "-1/s"], "is not a rate"),
                       (["r1", "r2", "--rate", "10/h"], "is not a rate"),
                       (["r1", "r2", "--max-error-share", "20%"], "is not a number from 0 to 1"),
                       ([], "cancel needs RUN..., or --state")):
        result = daemon.ctl("cancel", *args, "--reason", "x")
        assert result.code == 2 and said in result.err, result
    result = daemon.ctl("retry", "r1", "r2", "--input", "{}", "--reason", "x")
    assert result.code == 2 and "is for one run" in result.err, result


def on_terminal(daemon, env, answer, *args):
    """What sagactl says on a terminal that answers so, and its exit code."""
    leader, follower = pty.openpty()
    process = spawn([SAGACTL, *args], stdin=follower, stdout=subprocess.PIPE, stderr=follower,
                    env={"PATH": os.environ["PATH"], "SAGA_SOCKET": daemon.socket, "TERM": "xterm",
                         "LC_ALL": "C.UTF-8", **{n: v for n, v in os.environ.items()
                                                 if n.endswith("SAN_OPTIONS")}})
    os.close(follower)
    os.write(leader, answer)
    said = b""
    while True:
        try:
            part = os.read(leader, 4096)
        except OSError:  # everybody has closed it
            break
        if not part:
            break
        said += part
    out = process.stdout.read().decode()
    process.stdout.close()
    os.close(leader)
    return process.wait(60), out, said.decode()


@case
def asked_on_a_terminal(env):
    """On a terminal it shows the count and asks; only y does it, and a line shows how far it is,
    which is gone in the end."""
    _, daemon, _ = world(env, 12)
    args = ("abandon", "--state", "parked", "--reason", "x", "--rate", "20/s")
    for answer in (b"n\n", b"\n", b"\x04", b"nonsense\n"):
        code, out, said = on_terminal(daemon, env, answer, *args)
        assert code == 2 and not out and "abandon takes 12 runs: r000, r001" in said, (code, said)
        assert "abandon them? [y/N]" in said and "nothing was done" in said, said
    assert set(env.states().values()) == {"parked"}
    code, out, said = on_terminal(daemon, env, b"y\n", *args)
    assert code == 0 and "12 of 12 done" in out, (code, out, said)
    assert " of 12\x1b[K" in said and said.endswith("\r\x1b[K"), repr(said)
    assert set(env.states().values()) == {"abandoned"}


@case
def tenants_apart(env):
    """Who sees the runs of one tenant sees no verb for many runs: its filter tells of others."""
    _, daemon, _ = world(env, 2)
    over(daemon, begun(daemon, "abandon", {"state": "parked"}))
    env.sql("create role one_of_%s in role saga_reader login" % env.database)
    try:
        env.sql("select saga.tenant_grant('one_of_%s', 'acme')" % env.database)
        for query in ("select count(*) from saga.bulk", "select count(*) from saga.bulk_runs",
                      "select count(*) from saga.inputs",
                      "select json_array_length(saga.bulk_json_v1(null) -> 'bulk')",
                      "select json_array_length(saga.runs_json_v2(null, null, null, 9, null, "
                      "'$.input') -> 'runs')"):
            assert env.sql(query, user="one_of_" + env.database) == "0", query
        assert env.sql("select count(*) from saga.bulk_runs", user="saga_engine") == "2"
    finally:
        env.sql("drop owned by one_of_%s; drop role one_of_%s" % (env.database, env.database))


if __name__ == "__main__":
    main()
