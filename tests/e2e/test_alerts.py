#!/usr/bin/env python3
"""Alerts: somebody is told of runs that wait for a person and of services that are down, at least
once whatever dies, and not run by run."""

import os
import time

from lib import Answer, Ledger, case, main, wait_until

FLOW = """
workflow: flow
services:
  svc:
    url: "http://127.0.0.1:1"
    idempotency: none
    breaker: {failures: 3, window: 30s, open_for: 2s}
steps:
  - id: a
    effect: irreversible
    retry: {attempts: 1}
    action: {post: svc/a, body: {n: "${{ input.n }}"}}
    on_failure: park
"""

DOWN = """
workflow: flow
services:
  svc:
    url: "http://127.0.0.1:1"
    idempotency: {header: Idempotency-Key, ttl: 1d}
    breaker: {failures: 3, window: 30s, open_for: 2s}
steps:
  - id: a
    retry: {attempts: 100, delay: 100ms, max_delay: 200ms}
    action: {post: svc/a, body: {n: "${{ input.n }}"}}
    compensate: {post: svc/undo}
"""


def configure(env, *targets, more=""):
    env.config_more = "alerts:\n" + "".join("  %s\n" % target for target in targets) + more
    env.config_write()


def pager(env, *answers):
    """Who is told: not a participant of the workflows, and its requests have no key."""
    told = Ledger()
    env.closers.append(told.close)
    told.script("/hook", *answers, force=True)
    return told


def messages(told):
    return [request.json() for request in told.seen(path="/hook")]


def names(message):
    return {run["run_id"] for run in (message["parked"] or {"runs": []})["runs"]}


def is_told(env, count):
    return env.sql("select count(*) from saga.alerts where told_at is not null") == str(count)


@case
def parked_runs_are_told_once(env):
    """A refused step parks its run: one message, which says what and what to do, and none again; a
    run that is parked anew is told anew."""
    ledger, told = env.ledger("svc"), pager(env)
    configure(env, 'pager: {url: "%s/hook?team=pay", every: 1s}' % told.url)
    ledger.always("/a", Answer(409, {"code": "account_closed"}))
    daemon = env.daemon("a").start()
    daemon.apply(FLOW)
    daemon.start_run("flow", {"n": 1}, "run-1")
    wait_until("it is told", lambda: is_told(env, 1))
    (request,) = told.seen(path="/hook")
    assert request.method == "POST" and request.target == "/hook?team=pay", request
    assert request.headers["content-type"] == "application/json" and request.key is None
    message = request.json()
    (run,) = message["parked"]["runs"]
    assert (run["run_id"], run["workflow"], run["step"], run["reason"]) == \
        ("run-1", "flow", "a", "step_failed"), run
    assert message["parked"]["count"] == 1 and message["breakers"] == [], message
    assert message["daemon"] == "a" and message["at"], message
    assert message["text"] == "1 run waits for a person: run-1 (flow, step_failed at a, account_closed). " \
        "sagactl dead show run-1", message["text"]
    time.sleep(2.5)
    assert len(told.requests) == 1
    assert daemon.verb("run-1", "retry").status == 200
    wait_until("it is told anew", lambda: len(messages(told)) == 2)
    assert names(messages(told)[1]) == {"run-1"}
    assert daemon.verb("run-1", "abandon").status == 200
    wait_until("it is forgotten", lambda: env.sql("select count(*) from saga.alerts") == "0")
    assert len(told.requests) == 2


@case
def hostile_codes(env):
    """What a participant says in its code neither makes a message long, nor ends its line, nor
    speaks to a chat program."""
    ledger, told = env.ledger("svc"), pager(env)
    configure(env, 'pager: {url: "%s/hook", every: 1s}' % told.url)
    ledger.always("/a", Answer(409, {"code": "<!channel>\n\u001b[31mred" + "x" * 100000}))
    daemon = env.daemon("a").start()
    daemon.apply(FLOW)
    for n in range(5):
        daemon.start_run("flow", {"n": 1}, "run-%d" % n)
    wait_until("all are told", lambda: is_told(env, 5))
    for request in told.seen(path="/hook"):
        text = request.json()["text"]
        assert len(request.body) < 5000 and "??channel????31mred" in text, text
        assert not any(c in text for c in "\n\x1b<>"), text


@case
def a_storm_is_one_message(env):
    """60 runs park at once: one message or two, which count them and name the first 20."""
    ledger, told = env.ledger("svc"), pager(env)
    configure(env, 'pager: {url: "%s/hook", every: 2s, on: [parked]}' % told.url)
    ledger.always("/a", Answer(409, {"code": "no"}))
    daemon = env.daemon("a").start()
    daemon.apply(FLOW)
    for n in range(60):
        env.sql("select saga.start('flow', '{\"n\": %d}', run_id => 'run-%d')" % (n, n))
    wait_until("all are told", lambda: is_told(env, 60), 30)
    counts = [message["parked"]["count"] for message in messages(told)]
    assert sum(counts) == 60 and len(counts) <= 4, counts
    most = max(messages(told), key=lambda message: message["parked"]["count"])
    assert len(names(most)) == min(20, most["parked"]["count"])
    assert "%d runs wait for a person: " % most["parked"]["count"] in most["text"]
    assert most["text"].count("(flow, ") <= 5 and len(most["text"]) < 500, most["text"]


@case
def who_does_not_answer_is_told_later(env):
    """A target that is down, refuses or is gone is told again until it takes it, also after the
    daemon was killed; the runs go on as ever and the log says it once."""
    ledger, told = env.ledger("svc"), pager(env, Answer(503), Answer(500), Answer(302), Answer(200))
    configure(env, 'pager: {url: "%s/hook", every: 1s}' % told.url)
    ledger.always("/a", Answer(409, {"code": "no"}))
    daemon = env.daemon("a").start("--lease", "2s")
    daemon.apply(FLOW)
    daemon.start_run("flow", {"n": 1}, "run-1")
    wait_until("it fails", lambda: len(messages(told)) == 2, 20)
    assert daemon.log().count("cannot be told") == 1 and "it answered 503" in daemon.log()
    daemon.kill()
    assert not is_told(env, 1)
    daemon.start("--lease", "2s")
    wait_until("it is told", lambda: is_told(env, 1), 30)
    assert [names(message) for message in messages(told)] == [{"run-1"}] * 4
    time.sleep(2)
    assert len(messages(told)) == 4


@case
def two_daemons_tell_each_run_once(env):
    """Each daemon tells of its own runs; what a dead one left untold the other one tells."""
    ledger, told = env.ledger("svc"), pager(env)
    configure(env, 'pager: {url: "%s/hook", every: 1s, on: [unknown]}' % told.url)
    a, b = env.daemon("a").start("--lease", "2s"), env.daemon("b").start("--lease", "2s")
    a.apply(FLOW)
    wait_until("shared out", lambda: env.sql(
        "select count(distinct lane_no) from saga.shard where lane_no is not null") == "2", 20)
    ledger.always("/a", lambda request: Answer(409, {"code": "no"}) if request.json()["n"] % 2 else
                  Answer(act="close"))
    for n in range(20):
        env.sql("select saga.start('flow', '{\"n\": %d}', run_id => 'run-%d')" % (n, n))
    env.wait_all(20)
    unknown = {"run-%d" % n for n in range(0, 20, 2)}
    wait_until("all are told", lambda: is_told(env, len(unknown)), 20)
    counts = [run for message in messages(told) for run in names(message)]
    assert sorted(counts) == sorted(unknown), counts
    assert {message["daemon"] for message in messages(told)} == {"a", "b"}
    assert a.alive() and b.alive()


@case
def a_program_is_told(env):
    """`exec`: a program of the directory gets the message on its standard input."""
    folder = env.folder + "/programs"
    os.mkdir(folder)
    with open(folder + "/page", "w") as file:
        file.write("#!/bin/sh\ncat >>'%s/told'\necho \"$1 $#\" >>'%s/told'\n" %
                   (env.folder, env.folder))
    os.chmod(folder + "/page", 0o755)
    ledger = env.ledger("svc")
    configure(env, "oncall: {exec: [page, \"--team=pay and more\"], every: 1s}",
              more="exec: {directory: '%s'}\n" % folder)
    ledger.always("/a", Answer(409, {"code": "no"}))
    daemon = env.daemon("a").start()
    daemon.apply(FLOW)
    daemon.start_run("flow", {"n": 1}, "run-1")
    wait_until("it is told", lambda: is_told(env, 1))
    text = open(env.folder + "/told").read()
    assert text.count("1 run waits for a person: run-1") == 1, text
    assert text.rstrip().endswith("--team=pay and more 1"), text


@case
def secret_addresses(env):
    """The URL or the token may be a secret; neither shows up in logs, and an address that egress
    does not allow is not asked."""
    ledger, told = env.ledger("svc"), pager(env, Answer(500))
    env.secrets.update(hook=told.url + "/hook/T0KEN-IN-PATH", token="s3cr3t-bearer")
    configure(env, "chat: {url: 'secret:hook', bearer: token, every: 1s}")
    ledger.always("/a", Answer(409, {"code": "no"}))
    daemon = env.daemon("a").start()
    daemon.apply(FLOW)
    daemon.start_run("flow", {"n": 1}, "run-1")
    wait_until("it is told", lambda: is_told(env, 1))
    assert {r.headers["authorization"] for r in told.requests} == {"Bearer s3cr3t-bearer"}
    assert {r.target for r in told.requests} == {"/hook/T0KEN-IN-PATH"}
    assert "T0KEN" not in daemon.log() and "s3cr3t" not in daemon.log(), daemon.log()
    daemon.stop()
    env.config_more += "egress: {deny: [127.0.0.0/8]}\n"
    env.config_write()
    daemon.start()
    env.sql("update saga.alert set told_at = null")
    wait_until("it is refused", lambda: "cannot be told" in daemon.log().split("ready:")[-1])
    assert "not allowed" in daemon.log(), daemon.log()
    assert len(told.requests) == 2


@case
def an_open_breaker_is_told_once(env):
    """A service that is down is told once, however often its breaker is tried, and anew after it
    had closed."""
    ledger, told = env.ledger("svc"), pager(env)
    configure(env, 'pager: {url: "%s/hook", every: 1s, on: [breaker]}' % told.url)
    daemon = env.daemon("a").start()
    daemon.apply(DOWN)
    ledger.always("/a", Answer(503))
    daemon.start_run("flow", {"n": 1}, "run-1")
    wait_until("it is told", lambda: is_told(env, 1), 20)
    assert [b["service"] for b in messages(told)[0]["breakers"]] == ["svc"]
    assert messages(told)[0]["text"] == "svc is down: its breaker is open"
    time.sleep(5)
    assert len(messages(told)) == 1
    ledger.always("/a", Answer(200))
    assert env.wait_state("run-1", timeout=40) == "completed"
    wait_until("it is over", lambda: env.sql("select count(*) from saga.alerts") == "0", 20)
    ledger.always("/a", Answer(503))
    daemon.start_run("flow", {"n": 2}, "run-2")
    wait_until("it is told anew", lambda: len(messages(told)) == 2, 20)
    ledger.always("/a", Answer(200))
    assert env.wait_state("run-2", timeout=40) == "completed"


if __name__ == "__main__":
    main()
