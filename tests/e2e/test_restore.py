#!/usr/bin/env python3
"""A database that comes back older than what it acknowledged: that is noticed, nothing that must not
be sent twice is sent again by itself, and a person can let each run go on."""

import shutil
import subprocess

from lib import Answer, case, main, wait_until

WORKFLOW = """
workflow: order
run_id: "${{ input.id }}"
input: {type: object, required: [id], properties: {id: {type: string}}}
services:
  keyed: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}
  post: {url: "http://127.0.0.1:1", idempotency: none}
steps:
  - {id: before, action: {post: keyed/before}, compensate: {post: keyed/undo_before}}
  - {id: gate, action: {wait_for: go}, timeout: 1h}
  - {id: charge, action: {post: keyed/charge}, compensate: {post: keyed/refund}}
  - id: pack
    action: {post: post/pack}
    timeout: 1s
    reconcile: {get: "post/packed/${{ run.id }}", applied: response.body.yes, not_applied: "!response.body.yes", every: 100ms}
    compensate: {post: post/unpack}
  - {id: letter, action: {post: post/letter}, compensate: {post: post/sorry}}
  - {id: ship, effect: irreversible, action: {post: post/ship}}
"""


class Backup:
    """A copy of the files of the cluster, taken while it is stopped."""

    def __init__(self, env):
        self.env, cluster = env, env.cluster
        self.cluster, self.path = cluster, cluster.folder + "/backup"
        env.session.close()
        cluster.stop()
        self.copy(cluster.data, self.path)
        cluster.start()

    @staticmethod
    def copy(source, target):
        shutil.rmtree(target, True)
        subprocess.run(["cp", "-a", source, target], check=True)

    def restore(self):
        self.env.session.close()
        self.cluster.stop()
        self.copy(self.path, self.cluster.data)
        self.cluster.start()


def stand(env):
    """keyed honours keys; post does not, and tells what it has packed."""
    keyed = env.ledger("keyed")
    post = env.ledger("post", keyless=True)
    post.always("/packed", lambda request: Answer(200, {"yes": any(
        e.key == request.path.rsplit("/", 1)[1] + ":pack:execute" for e in post.effects)}))
    env.keys_known = False  # of runs that the restore takes away
    daemon = env.daemon("a").start("--lease", "2s")
    daemon.apply(WORKFLOW)
    return keyed, post, daemon


def patient(what):
    """Repeats a request while the daemon finds its way back."""
    last = []

    def attempt():
        last[:] = [what()]
        return last[0].status not in (503, 500, 502)

    wait_until("the daemon answers", attempt, 60, 0.1)
    return last[0]


def go(daemon, run_id):
    reply = patient(lambda: daemon.http("POST", "/v1/runs/%s/signal" % run_id, {"name": "go"}))
    assert reply.status == 200, reply


def wait_gate(env, run_id):
    wait_until("%s is at the gate" % run_id, lambda: env.sql(
        "select waiting_for from saga.runs where run_id = '%s'" % run_id) == "signal")


def sent(ledger, run_id):
    return [e.path[1:] for e in ledger.done() if e.key and e.key.startswith(run_id + ":")]


@case
def restored_under_the_daemon(env):
    """Noticed with the first unit; no keyless effect comes twice; each way out by a person works."""
    keyed, post, daemon = stand(env)
    for run_id in ("r-done", "r-fresh", "r-undo", "r-settle"):
        daemon.start_run("order", {"id": run_id})
        wait_gate(env, run_id)
    backup = Backup(env)
    for run_id in ("r-done", "r-settle"):
        go(daemon, run_id)
        assert env.wait_state(run_id) == "completed"
    reply = patient(lambda: daemon.submit("order", {"id": "r-lost"}))
    assert reply.status in (200, 202), reply
    wait_gate(env, "r-lost")
    backup.restore()
    assert env.state("r-done") == "running" and env.state("r-lost") == ""
    go(daemon, "r-done")
    assert env.wait_state("r-done") == "parked"
    # It is noticed, and told: how much, which starts, which runs.
    assert "older than what it acknowledged" in daemon.log() and "r-lost" in daemon.log()
    assert env.rows("select daemon, units_lost > 0 as lost, starts_lost from saga.rewinds") == [
        {"daemon": "a", "lost": True, "starts_lost": 1}]
    assert env.rows("select run_id, workflow, started_again from saga.lost_starts") == [
        {"run_id": "r-lost", "workflow": "order", "started_again": False}]
    assert env.sql("select string_agg(run_id, ' ' order by run_id) from saga.suspects") == \
        "r-done r-fresh r-settle r-undo"
    assert "restored" in env.sql("select string_agg(detail, ' ') from saga.timeline "
                                 "where run_id = 'r-done' and what = 'suspect'")
    # What honours its key went on; what can be asked was asked; the letter waits for a person.
    assert env.rows("select reason, step_id from saga.dead_letters where run_id = 'r-done'") == [
        {"reason": "suspect", "step_id": "letter"}]
    assert sent(keyed, "r-done") == ["before", "charge"] and len(keyed.seen(key="r-done:charge:execute")) == 2
    assert sent(post, "r-done") == ["pack", "letter", "ship"], post.done()
    wait_until("questions are answered", lambda: daemon.ctl("show", "r-done").code == 0)
    done = daemon.ctl("show", "r-done")
    assert "restored to an earlier time" in done.out and "settle" in done.out, done
    # 1. A person who knows settles, step by step: nothing is sent.
    for run_id in ("r-done", "r-settle"):
        if run_id == "r-settle":
            go(daemon, run_id)
        for step in ("letter", "ship"):
            assert env.wait_state(run_id) == "parked"
            wait_until("it stopped at " + step, lambda: env.sql(
                "select step_id from saga.dead_letters where run_id = '%s'" % run_id) == step)
            assert daemon.verb(run_id, "settle", step=step, applied=True).status == 200
        assert env.wait_state(run_id) == "completed"
        assert sent(post, run_id) == ["pack", "letter", "ship"], post.done()
    # 2. One who knows that nothing was sent vouches: the run goes on by itself, each effect once.
    go(daemon, "r-fresh")
    assert env.wait_state("r-fresh") == "parked"
    assert sent(post, "r-fresh") == ["pack"]
    assert daemon.verb("r-fresh", "retry", reason="nothing went out").status == 200
    assert env.wait_state("r-fresh") == "completed"
    assert sent(post, "r-fresh") == ["pack", "letter", "ship"], post.done()
    assert env.sql("select detail from saga.event where run_id = 'r-fresh' and what = 'trusted'"
                   ) == "nothing went out"
    # 3. The way back: neither what may have been sent, nor an undo that may have been, is passed over
    # or sent blindly.
    go(daemon, "r-undo")
    assert env.wait_state("r-undo") == "parked"
    assert daemon.verb("r-undo", "compensate").status == 200
    assert env.wait_state("r-undo") == "parked"
    assert env.sql("select reason from saga.dead_letters where run_id = 'r-undo'") == "suspect"
    assert sent(post, "r-undo") == ["pack"]
    assert daemon.verb("r-undo", "settle", step="letter", applied=False).status == 200
    wait_until("the undo of pack waits", lambda: env.sql(
        "select compensation_state from saga.steps where run_id = 'r-undo' and step_id = 'pack'")
        == "unknown")
    assert env.wait_state("r-undo") == "parked" and sent(post, "r-undo") == ["pack"]
    assert daemon.verb("r-undo", "retry", reason="it was never undone").status == 200
    assert env.wait_state("r-undo") == "compensated"
    assert sent(post, "r-undo") == ["pack", "unpack"]
    assert sent(keyed, "r-undo") == ["before", "charge", "refund", "undo_before"]
    # What was lost is submitted again: the first one may have done all of it.
    daemon.start_run("order", {"id": "r-lost"})
    wait_gate(env, "r-lost")
    daemon.kill()
    daemon.start("--lease", "2s")
    go(daemon, "r-lost")
    assert env.wait_state("r-lost") == "parked" and sent(post, "r-lost") == ["pack"]
    assert env.sql("select reason from saga.dead_letters where run_id = 'r-lost'") == "suspect"
    assert env.sql("select started_again from saga.lost_starts") == "t"
    assert daemon.verb("r-lost", "retry", reason="it only waited").status == 200
    assert env.wait_state("r-lost") == "completed"
    # A run from after the restore is like any other.
    daemon.start_run("order", {"id": "r-new"})
    wait_gate(env, "r-new")
    go(daemon, "r-new")
    assert env.wait_state("r-new") == "completed"
    assert sent(post, "r-new") == ["pack", "letter", "ship"]
    assert max(keyed.effects_by_key().values()) == 1
    assert max(post.effects_by_key().values()) == 1
    env.participants.clear()  # what the lost time did stands in no table


@case
def restored_before_the_start(env):
    """The next process of the name finds it in its lock file; a crash of it does not lose the
    finding, nor does it find it twice."""
    keyed, post, daemon = stand(env)
    daemon.start_run("order", {"id": "r-1"})
    wait_gate(env, "r-1")
    backup = Backup(env)
    go(daemon, "r-1")
    assert env.wait_state("r-1") == "completed"
    daemon.kill()
    backup.restore()
    daemon.start("--lease", "2s")
    assert env.sql("select count(*) from saga.rewinds") == "1", daemon.log()
    daemon.kill()
    daemon.start("--lease", "2s")
    assert env.sql("select count(*) from saga.rewinds") == "1"
    go(daemon, "r-1")
    assert env.wait_state("r-1") == "parked"
    assert sent(post, "r-1") == ["pack", "letter", "ship"]
    daemon.kill()
    daemon.start("--lease", "2s")
    assert env.state("r-1") == "parked"
    assert daemon.verb("r-1", "abandon").status == 200
    env.participants.clear()


@case
def no_false_alarm(env):
    """Crashes of the database, of the daemon, of both, and another database are no restore."""
    keyed, post, daemon = stand(env)
    daemon.start_run("order", {"id": "r-1"})
    wait_gate(env, "r-1")
    for turn in range(3):
        if turn != 0:
            env.session.close()
            env.cluster.kill9()
        if turn != 1:
            daemon.kill()
        if turn != 0:
            env.cluster.start()
        if turn != 1:
            daemon.start("--lease", "2s")
        reply = patient(lambda: daemon.submit("order", {"id": "n-%d" % turn}))
        assert reply.status in (200, 202), reply
    go(daemon, "r-1")
    assert env.wait_state("r-1") == "completed"
    assert sent(post, "r-1") == ["pack", "letter", "ship"]
    assert env.sql("select count(*) from saga.rewinds") == "0"
    # Another installation under the same name: its numbers begin anew, and say nothing.
    daemon.stop()
    env.sql("update saga.meta set installation = gen_random_uuid();"
            "update saga.lane set seq = 0, crcs = '{0,0,0,0,0,0,0,0}'")
    daemon.start("--lease", "2s")
    assert env.sql("select count(*) from saga.rewinds") == "0"
    for turn in range(3):
        daemon.verb("n-%d" % turn, "cancel")


if __name__ == "__main__":
    main(parallel=1)
