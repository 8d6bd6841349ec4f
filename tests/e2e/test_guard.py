#!/usr/bin/env python3
"""A participant with the kit of `sagad guard --print`: the example's service, and SQL actions in
its database, which happen once whatever dies."""

import json
import os
import subprocess

from lib import ROOT, SAGACTL, SAGAD, case, main, spawn, wait_until

FOLDER = os.path.join(ROOT, "examples", "guard")
LEASE = ("--lease", "2s")
POINTS = ("sql_begin", "sql_sent", "sql_elsewhere_commit_sent", "sql_elsewhere_committed",
          "invoke_reply", "unit_send")


def source(name):
    with open(os.path.join(FOLDER, name)) as file:
        return file.read()


def guard_script():
    return subprocess.run([SAGAD, "guard", "--print"], capture_output=True, text=True,
                          check=True).stdout


class Wallet:
    """The example's service and its database, which is not the engine's."""

    def __init__(self, env, guarded=True):
        self.env, self.database = env, env.database + "_wallet"
        env.cluster.sql("postgres", "create database %s" % self.database)
        if guarded:
            self.sql(guard_script())
            self.sql(source("setup.sql"))
        else:
            self.sql("create schema wallet; create table wallet.book (id serial, note text, key text)")
        self.process = spawn(
            [os.path.join(FOLDER, "wallet.py"), "--port", "0"], stdout=subprocess.PIPE, text=True,
            env=dict(os.environ, PGHOST=env.cluster.folder, PGUSER="postgres",
                     PGDATABASE=self.database))
        self.url = self.process.stdout.readline().split()[1]
        env.services["wallet"] = self.url
        env.services["books"] = "postgres://%s/%s?user=postgres" % (
            env.cluster.folder.replace("/", "%2F"), self.database)
        env.config_write()
        env.closers.append(self.close)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def sql(self, text):
        return self.env.cluster.sql(self.database, text)

    def balance(self):
        return self.sql("select balance from wallet.account where id = 'ann'")


def daemon_of(env):
    return env.daemon("a").start(*LEASE)


@case
def conforms(env):
    """The example passes every check of `sagactl conform`, and is left as it was."""
    wallet = Wallet(env)
    done = subprocess.run([SAGACTL, "conform", FOLDER + "/topup.yaml", "charge", "--url", wallet.url,
                           "--yes", "-o", "json"], capture_output=True, text=True)
    assert done.returncode == 0, done
    report = json.loads(done.stdout)
    assert {c["verdict"] for c in report["checks"]} == {"pass"}, report
    assert len(report["checks"]) == 11 and report["left"] is None, report
    assert wallet.balance() == "100.00"
    assert wallet.sql("select count(*) from wallet.charge") == "3"


@case
def goes_and_goes_back(env):
    """Money is taken and noted; what the books refuse is given back; too little money is a
    refusal; the guard holds what was used."""
    wallet = Wallet(env)
    daemon = daemon_of(env)
    daemon.apply(source("topup.yaml"))
    daemon.start_run("topup", {"topup_id": "a-1", "account": "ann", "amount": 10.25})
    assert env.wait_state("topup-a-1") == "completed"
    assert wallet.balance() == "89.75"
    wallet.sql("alter table wallet.book add check (note <> 'a-2')")
    daemon.start_run("topup", {"topup_id": "a-2", "account": "ann", "amount": 10})
    assert env.wait_state("topup-a-2") == "compensated"
    daemon.start_run("topup", {"topup_id": "a-3", "account": "ann", "amount": 1000})
    assert env.wait_state("topup-a-3") == "compensated"
    assert wallet.balance() == "89.75"
    assert "saga_guard is there" in daemon.log()
    assert wallet.sql("select string_agg(key || ' ' || a_repeat_gets, ', ' order by key) "
                      "from saga_guard.keys where key like '%:note:%'") == \
        "topup-a-1:note:execute replay"


@case
def kills(env):
    """A daemon that dies around any line of the SQL action in the participant's database: the row
    is there once, the run completes by itself, nobody is asked."""
    wallet = Wallet(env)
    daemon = daemon_of(env)
    daemon.apply(source("topup.yaml"))
    daemon.stop()
    died = 0
    for number, point in enumerate(POINTS):
        for hit in (1, 2):
            name = "k-%d-%d" % (number, hit)
            if daemon.start(*LEASE, failpoint="%s:%d:kill" % (point, hit)):
                try:
                    daemon.start_run("topup", {"topup_id": name, "account": "bob", "amount": 1})
                except (OSError, AssertionError):
                    pass
                wait_until("it dies or the run ends", lambda: not daemon.alive() or
                           env.states().get("topup-" + name) == "completed")
            if not daemon.alive():
                died += 1
                daemon.start(*LEASE)
            daemon.start_run("topup", {"topup_id": name, "account": "bob", "amount": 1})
            assert env.wait_state("topup-" + name) == "completed"
            assert wallet.sql("select count(*) from wallet.book where note = '%s'" % name) == "1", point
            daemon.kill()
    daemon.start(*LEASE)
    assert died >= 8, died
    assert wallet.sql("select balance from wallet.account where id = 'bob'") == str(100 - 2 * len(POINTS))


@case
def waits_for_the_kit(env):
    """What declares the guard is not sent without it; once it is installed, the run goes on."""
    wallet = Wallet(env, guarded=False)
    daemon = daemon_of(env)
    text = source("topup.yaml")
    before, after = text.index("  - id: charge"), text.index("  # In another database")
    text = text[:before] + text[after:text.index("output:")]
    daemon.apply(text.replace("    compensate:", "    retry: {attempts: 20, delay: 200ms, factor: 1, "
                                                 "budget: 1h}\n    compensate:"))
    daemon.start_run("topup", {"topup_id": "w-1", "account": "ann", "amount": 1})
    wait_until("it was tried", lambda: env.sql(
        "select count(*) from saga.attempts where outcome = 'retryable'") != "0")
    assert "no saga_guard" in env.sql("select min(error::text) from saga.attempts")
    assert wallet.sql("select count(*) from wallet.book") == "0"
    wallet.sql(guard_script())
    assert env.wait_state("topup-w-1") == "completed"
    assert wallet.sql("select count(*) from wallet.book") == "1"


if __name__ == "__main__":
    main(parallel=2)
