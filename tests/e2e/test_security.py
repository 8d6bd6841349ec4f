#!/usr/bin/env python3
"""Who may do what, where requests may go, and what is kept of the acts of people."""

import hashlib
import hmac
import json
import os
import signal
import socket
import subprocess
import sys

from lib import ROOT, SAGACTL, Answer, case, main, spawn, wait_until

ONE = """
workflow: one
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
steps:
  - id: act
    action: {post: svc/act, body: {n: "${{ input.n }}"}}
    compensate: {post: svc/undo}
"""

WAITS = """
workflow: waits
services: {svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}}
steps:
  - id: act
    action: {post: svc/act, body: {}}
    compensate: {post: svc/undo}
  - id: word
    action: {wait_for: go}
"""

NOBODY, STAFF = 65534, 50


def as_user(daemon, uid, *args, gid=65534, groups=()):
    """sagactl as somebody else."""
    drop = ["setpriv", "--reuid=%d" % uid, "--regid=%d" % gid,
            "--groups=" + ",".join(map(str, groups)) if groups else "--clear-groups"]
    done = subprocess.run([*drop, SAGACTL, "--socket", daemon.socket, *args], capture_output=True,
                          text=True, stdin=subprocess.DEVNULL)
    return done


def opened(env, config):
    """A daemon whose socket everybody reaches: its roles are what holds."""
    assert os.geteuid() == 0, "the test acts as other users: run it as root"
    env.config_more = config
    env.config_write()
    daemon = env.daemon("a").start()
    os.chmod(env.folder, 0o755)
    os.chmod(daemon.socket, 0o666)
    return daemon


def as_nobody_http(daemon, method, path, body=""):
    """Status and JSON of a bare request, as nobody."""
    done = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "curl", "-s", "-X", method,
         "--unix-socket", daemon.socket, "-w", "\n%{http_code} %{content_type}", "-d", body,
         "http://saga" + path], capture_output=True, text=True)
    text, tail = done.stdout.rsplit("\n", 1)
    status, kind = tail.split(" ", 1)
    return int(status), kind, json.loads(text)


@case
def roles_are_a_ladder(env):
    """Each role may do what is its, and what the ones below may; the others get 403 and exit 4."""
    ledger = env.ledger("svc")
    daemon = opened(env, "roles: {read: [uid:5001], submit: [gid:5002], operate: [uid:5003],"
                         " admin: [uid:5004]}\n")
    path = env.folder + "/one.yaml"
    with open(path, "w") as file:
        file.write(ONE)
    callers = {"none": dict(uid=5000), "read": dict(uid=5001),
               "submit": dict(uid=5005, groups=(5002, 7)), "operate": dict(uid=5003),
               "admin": dict(uid=5004)}
    ladder = list(callers)

    def go(role, *args):
        who = dict(callers[role])
        return as_user(daemon, who.pop("uid"), *args, **who)

    def needs(role, *args, ok=0):
        for name in ladder:
            done = go(name, *args)
            if ladder.index(name) < ladder.index(role):
                assert done.returncode == 4, (name, args, done)
                assert 'this needs the role "' in done.stderr, done
            else:
                assert done.returncode == ok, (name, args, done)

    needs("none", "ping")
    needs("admin", "apply", path)  # asks what would change before
    assert go("operate", "apply", path).stderr.count('needs the role "admin"') == 1
    needs("read", "workflows")
    needs("read", "list")
    needs("submit", "run", "one", "--input", '{"n": 1}', "--id", "r1", "--wait")
    needs("read", "show", "r1")
    needs("read", "events", "r1")
    needs("operate", "cancel", "r1", "--reason", "no", ok=9)
    needs("submit", "signal", "r1", "go", ok=2)
    assert len(ledger.effects) == 1
    done = as_user(daemon, 5001, "list", groups=(5002,))
    assert done.returncode == 0


@case
def refusal_is_a_problem(env):
    """403 is problem+json with a stable code and says nothing of what is there."""
    env.ledger("svc")
    daemon = opened(env, "roles: {}\n")
    for method, path in (("GET", "/v1/runs"), ("GET", "/v1/runs/r1"), ("POST", "/v1/runs"),
                         ("GET", "/v1/nothing"), ("POST", "/v1/runs/r1/cancel"),
                         ("PUT", "/v1/workflows"), ("DELETE", "/v1/runs/r1"), ("GET", "/metrics"),
                         ("POST", "/v1/runs:cancel"), ("POST", "/v1/tasks/complete")):
        status, kind, problem = as_nobody_http(daemon, method, path, "{}")
        assert status == 403 and kind == "application/problem+json", (method, path, status, kind)
        assert problem["code"] == "permission" and problem["status"] == 403, problem
        assert "uid:65534 has no role" in problem["detail"], problem
    assert as_nobody_http(daemon, "GET", "/healthz")[0] == 200
    assert daemon.http("GET", "/v1/runs").status == 200  # root, and the daemon's own user


@case
def egress_is_refused_and_told(env):
    """A step whose service is out of reach by the config fails for good; nothing is sent."""
    ledger = env.ledger("svc")
    env.config_more = "egress: {deny: [127.0.0.0/8]}\n"
    env.config_write()
    daemon = env.daemon("a").start()
    daemon.apply(ONE)
    done = daemon.ctl("run", "one", "--input", '{"n": 1}', "--id", "r1", "--wait")
    assert done.code == 5, done
    told = json.loads(daemon.ctl("show", "r1", "-o", "json").out)["error"]["message"]
    assert "the address 127.0.0.1" in told and "egress.deny" in told, told
    assert not ledger.requests


def acts(env, run_id=None):
    rows = env.rows("select * from saga.audit order by chain, no")
    return [(row["verb"], row["actor"], row["outcome"].split(":")[0], row["reason"])
            for row in rows if run_id is None or row["run_id"] == run_id]


def verify(env):
    return env.rows("select * from saga.audit_verify() where problem is not null")


@case
def signatures_are_checked(env):
    """The participant of examples/signed takes what the daemon signs, forward and back, and nothing
    that was changed on the way, is old or not signed; the secret stands nowhere."""
    folder = os.path.join(ROOT, "examples", "signed")
    sys.path.insert(0, folder)
    import vault
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    env.secrets["vault_signing"] = "S1gn1ng-\u00fcber+/=secret"
    env.services["vault"] = "http://127.0.0.1:%d/base" % port
    env.config_write()
    process = spawn([sys.executable, folder + "/vault.py", str(port),
                     env.folder + "/secret-vault_signing"], stderr=subprocess.DEVNULL)
    env.closers.append(process.kill)
    wait_until("the participant listens", lambda: not socket.socket().connect_ex(
        ("127.0.0.1", port)))
    daemon = env.daemon("a").start()
    with open(folder + "/signed.yaml") as file:
        daemon.apply(file.read())
    run = daemon.start_run("signed", {"order_id": "O-1", "amount_cents": 500})
    assert env.wait_state(run) == "completed"

    with open(env.folder + "/secret-vault_signing", "w") as file:
        file.write("S1gn1ng-another-one")  # the participant's stays: what the daemon has is wrong now
    daemon.stop()
    daemon.start()
    run = daemon.start_run("signed", {"order_id": "O-2", "amount_cents": 500})
    env.wait_state(run)
    assert "its signature is wrong" in daemon.http("GET", "/v1/runs/" + run).body
    env.secrets["vault_signing_2"] = "S1gn1ng-another-one"

    # The example's own check, with what a wire saw.
    secret, body, now = b"k3y-of-both", b'{"cents":500}', 1792895400
    text = "saga-v1\nPOST\n/base/x?a=1\nK-1\n%d\n%s\n" % (now, hashlib.sha256(body).hexdigest())
    good = "t=%d,v1=%s" % (now, hmac.new(secret, text.encode(), "sha256").hexdigest())

    def why(method="POST", target="/base/x?a=1", key="K-1", body=body, header=good, at=now):
        return vault.refusal(secret, method, target,
                             {"Saga-Signature": header, "Idempotency-Key": key}, body, at)

    assert why() is None and why(at=now + 299) is None
    for wrong in (why(method="PUT"), why(target="/base/x?a=2"), why(key="K-2"), why(key=None),
                  why(body=body + b" "), why(header=good[:-1] + "0" if good[-1] != "0"
                                             else good[:-1] + "1"),
                  why(header=good.replace("t=%d" % now, "t=%d" % (now + 1)))):
        assert wrong == "its signature is wrong", wrong
    assert why(at=now + 301) == why(at=now - 301) == "its signature is of another time"
    assert why(header=None) == why(header=good + " ") == why(header="t=1") == "it is not signed"


@case
def secrets_are_read_anew(env):
    """SIGHUP: what is sent from then on carries the new value, the old one is still masked where it
    comes back, and a file that is gone leaves the value as it is."""
    ledger = env.ledger("svc")
    env.secrets["token"] = "0ld-t0ken-value"
    env.config_write()
    daemon = env.daemon("a").start()
    daemon.apply("""
workflow: flow
services:
  svc:
    url: "http://127.0.0.1:1"
    idempotency: {header: Idempotency-Key, ttl: 1d}
    auth: {bearer: "${{ secrets.token }}"}
steps:
  - {id: a, action: {post: svc/a}, compensate: {post: svc/undo}}
""")
    path = env.folder + "/secret-token"

    def sent(n):
        ledger.script("/a", Answer(200, {"echo": "0ld-t0ken-value"}))
        run = daemon.start_run("flow", {}, "run-%d" % n)
        assert env.wait_state(run) == "completed"
        return ledger.seen(key=run + ":a:execute")[0].headers["authorization"]

    def hang_up(words):
        before = daemon.log().count(words)
        daemon.send(signal.SIGHUP)
        wait_until("it is told", lambda: daemon.log().count(words) > before)

    assert sent(1) == "Bearer 0ld-t0ken-value"
    with open(path, "w") as file:
        file.write("n3w-t0ken-value")
    assert sent(2) == "Bearer 0ld-t0ken-value"
    hang_up("read 1 of 1 secrets anew")
    assert sent(3) == "Bearer n3w-t0ken-value"
    os.unlink(path)
    hang_up('secret "token" keeps its value: ')
    assert sent(4) == "Bearer n3w-t0ken-value"
    stored = env.sql("select json_agg(s)::text from saga.steps s")
    assert "t0ken" not in stored and "***token***" in stored, stored
    assert "t0ken" not in daemon.log()


@case
def denied_acts_are_kept_within_bounds(env):
    """Who asks for what is not theirs stands in the audit; a flood of it does not: of one person ten
    an hour, and the next row that is kept tells how many were not. Reading and submitting are no acts
    of operators."""
    env.ledger("svc")
    daemon = opened(env, "roles: {read: [uid:65534], operate: [uid:5003]}\n")
    daemon.apply(ONE)

    def asks(n, method, path, body='{"reason": "let me"}'):
        for _ in range(n):
            assert as_nobody_http(daemon, method, path, body)[0] == 403

    asks(1, "POST", "/v1/runs", "{}")
    asks(1, "POST", "/v1/runs/r1/signal", '{"name": "go"}')
    asks(1, "POST", "/v1/runs/r1/steps/act/approve")
    asks(1, "POST", "/v1/runs:abandon", '{"filter": {"state": "parked"}, "reason": "all"}')
    asks(1, "PUT", "/v1/workflows", "workflow: mine")
    asks(1, "POST", "/v1/runs/%s/cancel" % ("x" * 4000), "no JSON")
    rows = [row for row in env.rows("select verb, actor, run_id, step_id, reason, outcome, chain "
                                    "from saga.audit order by at") if row["actor"] == "uid:65534"]
    assert [(row["verb"], row["run_id"], row["step_id"], row["reason"]) for row in rows] == [
        ("approve", "r1", "act", "let me"), ("abandon", None, None, "all"),
        ("apply", None, None, ""), ("cancel", None, None, "")], rows
    assert rows[0]["outcome"] == 'refused: this needs the role "operate"; uid:65534 has "read"', rows
    assert [row["chain"] for row in rows[1:]] == [64, 64, 64], rows
    asks(30, "POST", "/v1/runs/r1/cancel")
    count = "select count(*) from saga.audit where actor = '%s'"
    assert env.sql(count % "uid:65534") == "10", acts(env)
    assert "uid:65534 is refused so often" in daemon.log(), daemon.log()
    for uid, kept in ((5004, "1"), (5005, "1")):
        done = as_user(daemon, uid, "cancel", "r1", "--reason", "me too")
        assert done.returncode == 4, done
        assert env.sql(count % ("uid:%d" % uid)) == kept, acts(env)
    told = [row["outcome"] for row in env.rows("select outcome from saga.audit where actor in "
                                               "('uid:5004', 'uid:5005') order by at")]
    assert told[0].endswith("(24 others before were not kept)"), told
    assert "others" not in told[1], told
    assert not verify(env)


@case
def acts_are_kept_in_order(env):
    """Every verb stands in the audit with who, why and what came of it: by the socket, by SQL, done
    and refused; what the engine does by itself does not."""
    env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(WAITS)
    for run_id in ("r1", "r2"):
        daemon.start_run("waits", {}, run_id)
        env.wait_state(run_id, "running")
    daemon.verb("r1", "pause", reason="a look")
    daemon.verb("r1", "resume", reason="seen")
    request = env.sql("select saga.cancel('r1', 'no more; \"quoted\" and \u00fc')")
    env.wait_state("r1", "compensated")
    late = env.sql("select saga.cancel('r1', 'again')")
    env.sql("select saga.abandon('r2', 'gone')")
    wait_until("they are settled", lambda: env.sql(
        "select count(*) from saga.requests where outcome is null") == "0")
    late_2 = env.sql("select saga.pause('r2', 'too late')")
    wait_until("it is settled", lambda: env.sql(
        "select outcome from saga.requests where id = '%s'" % late_2) == "refused")
    uid = "uid:%d" % os.geteuid()
    assert acts(env, "r1") == [
        ("pause", uid, "done", "a look"), ("resume", uid, "done", "seen"),
        ("cancel", "role:postgres", "done", 'no more; "quoted" and \u00fc')] + (
            [("cancel", "role:postgres", "refused", "again")] if env.sql(
                "select outcome from saga.requests where id = '%s'" % late) == "refused" else []), \
        acts(env, "r1")
    assert daemon.verb("r2", "retry", reason="by the socket").status == 409
    assert acts(env, "r2") == [("abandon", "role:postgres", "done", "gone"),
                               ("pause", "role:postgres", "refused", "too late"),
                               ("retry", uid, "refused", "by the socket")], acts(env, "r2")
    assert [act[0] for act in acts(env)].count("apply") == 1
    assert request and not verify(env)
    shown = daemon.ctl("audit", "--run", "r2", "-o", "json").json()["acts"]
    assert [act["verb"] for act in shown] == ["retry", "pause", "abandon"], shown
    assert "too late" in daemon.ctl("audit").out
    assert daemon.ctl("audit", "verify").code == 0


@case
def tampering_is_found(env):
    """A row that was changed, removed, exchanged or added is found and named; so is a chain that was
    written anew behind a head that was noted."""
    env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(WAITS)
    daemon.start_run("waits", {}, "r1")
    env.wait_state("r1", "running")
    for i in range(3):
        daemon.verb("r1", "pause", reason="p%d" % i)
        daemon.verb("r1", "resume", reason="r%d" % i)
    chain = int(env.sql("select saga.shard_of('r1')"))
    done = daemon.ctl("audit", "verify", "-o", "json")
    assert done.code == 0 and done.json()["ok"] is True, done
    noted = env.folder + "/noted.json"
    with open(noted, "w") as file:
        file.write(done.out)
    env.sql("create table kept as select * from saga.audit_act; "
            "create table kept_head as select * from saga.audit_head")

    def after(change):
        env.sql(change)
        said = daemon.ctl("audit", "verify", noted)
        problems = verify(env)
        env.sql("delete from saga.audit_act; insert into saga.audit_act select * from kept; "
                "delete from saga.audit_head; insert into saga.audit_head select * from kept_head")
        assert said.code == 1, said
        return (problems or [{"chain": chain, "problem": said.out}])[0]

    row = "chain = %d and no = 3" % chain
    for change, told in (
            ("update saga.audit_act set reason = 'x' where " + row, "row 3 (pause of run"),
            ("update saga.audit_act set actor = 'uid:7' where " + row, "row 3"),
            ("update saga.audit_act set at = at + interval '1 us' where " + row, "row 3"),
            ("update saga.audit_act set outcome = 'refused' where " + row, "row 3"),
            ("delete from saga.audit_act where " + row, "row 3 is missing"),
            ("delete from saga.audit_act where chain = %d and no > 4" % chain,
             "rows 5 to 6 are missing"),
            ("update saga.audit_act set no = 105 - no where chain = %d and no in (2, 3); "
             "update saga.audit_act set no = no - 100 where chain = %d and no > 100"
             % (chain, chain), "row 2"),
            ("delete from saga.audit_head where chain = %d" % chain, "its head is missing"),
            ("insert into saga.audit_act select a.chain, 7, a.at, a.verb, a.actor, a.run_id, a.step, "
             "a.reason, a.outcome, saga.audit_hash_v1(a.hash, row(a.chain, 7, a.at, a.verb, a.actor,"
             " a.run_id, a.step, a.reason, a.outcome, '')::saga.audit_act) from saga.audit_act a "
             "where a.chain = %d and a.no = 6" % chain, "its head says row 6, its rows end with 7")):
        found = after(change)
        assert found["chain"] == chain and told in found["problem"], (change, found)
    # Rewritten as a whole it agrees with itself, but not with what was noted.
    found = after("delete from saga.audit_act where chain = %d; update saga.audit_head set no = 0, "
                  "hash = decode(repeat('00', 32), 'hex') where chain = %d; "
                  "select saga.audit_append_v1(array(select k.a from (select row(chain, no, at, "
                  "verb, actor, run_id, step, 'forged', outcome, hash)::saga.audit_act as a, no "
                  "from kept where chain = %d order by no) k))" % (chain, chain, chain))
    assert "is not what was noted" in found["problem"], found
    assert daemon.ctl("audit", "verify", noted).code == 0
    for bad in ("{}", "[1", '{"chains": 7}'):
        with open(noted, "w") as file:
            file.write(bad)
        assert daemon.ctl("audit", "verify", noted).code == 2, bad
    assert daemon.ctl("audit", "verify", env.folder + "/none").code == 2
    assert daemon.ctl("audit", "bury").code == 2


def reader(env, name, *grants):
    env.sql("drop role if exists %s" % name)
    env.sql("create role %s login" % name)
    env.sql("grant saga_reader to %s" % name)
    for tenant in grants:
        env.sql("select saga.tenant_grant('%s', '%s')" % (name, tenant))
    return name


@case(alone=True)
def tenants_do_not_see_each_other(env):
    """A reader sees the runs of its tenants in every view and every function, and nothing of others:
    no row, no count, no error that tells. Operators see all."""
    env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(WAITS)
    daemon.apply(ONE)
    for tenant, run_id in (("acme", "a1"), ("acme", "a2"), ("bolt", "b1"), (None, "n1")):
        daemon.start_run("waits", {"secret_of": run_id}, run_id, **({"tenant": tenant} if tenant else {}))
        env.wait_state(run_id, "running")
    env.sql("select saga.start('one', '{\"n\": 1}', 'b2', 'bolt')")
    env.sql("select saga.start('one', '{\"n\": 1}', 'a3', 'acme')")
    wait_until("they have come", lambda: env.state("b2") and env.state("a3"))
    for run_id in ("a1", "b1"):
        env.sql("select saga.pause('%s', 'look')" % run_id)
    daemon.verb("b1", "resume", reason="seen")
    daemon.verb("a2", "abandon", reason="gone")
    wait_until("they are paused", lambda: env.sql(
        "select count(*) from saga.runs where run_id = 'a1' and paused") == "1")
    env.wait_state("b2", "completed")
    assert env.sql("select count(*) from saga.runs", user=reader(env, "t_open")) == "6"
    of_acme, of_bolt = reader(env, "t_acme", "acme"), reader(env, "t_bolt", "bolt")
    of_none, of_both = reader(env, "t_none"), reader(env, "t_both", "acme", "bolt")
    of_all = reader(env, "t_all", "*")
    try:
        assert env.sql("select string_agg(run_id, ',' order by run_id) from saga.runs",
                       user=of_acme) == "a1,a2,a3"
        assert env.sql("select string_agg(run_id, ',' order by run_id) from saga.runs",
                       user=of_both) == "a1,a2,a3,b1,b2"
        assert env.sql("select count(*) from saga.runs", user=of_none) == "0"
        assert env.sql("select count(*) from saga.runs", user=of_all) == "6"
        assert env.sql("select count(*) from saga.runs", user="saga_engine") == "6"
        views = env.sql("select string_agg(relname, ' ') from pg_class where relkind = 'v' and "
                        "relnamespace = 'saga'::regnamespace and relname !~ '_v[0-9]+$'").split()
        foreign = ["b1", "b2", "n1", "bolt"]
        for view in views:
            text = env.sql("select coalesce(json_agg(v), '[]')::text from saga.%s v" % view,
                           user=of_acme)
            for word in foreign:
                assert '"%s' % word not in text and "%s:" % word not in text, (view, word, text)
        for view in ("runs", "steps", "attempts", "timeline", "keys", "requests", "why_waiting",
                     "audit", "stats"):  # and its own is there
            assert env.sql("select count(*) from saga.%s" % view, user=of_acme) != "0", view
        assert env.sql("select runs from saga.stats where workflow = 'waits'", user=of_acme) == "2"
        assert env.sql("select sum(open_runs) from saga.daemons", user=of_none) == "0"
        for call in ("saga.run_json_v1('b1')", "saga.events_json_v1('b1', 0)",
                     "saga.run_find_v1('b')", "saga.run_find_v1('b1')", "saga.dead_json_v1()",
                     "saga.runs_json_v1(null, null, null, 100, null)",
                     "saga.audit_json_v1(null, 100, null)"):
            text = env.sql("select coalesce(%s::text, '')" % call, user=of_acme)
            none = env.sql("select coalesce(%s::text, '')" % call.replace("b1", "zz")
                           .replace("'b'", "'zz'"), user=of_acme)
            for word in foreign:
                assert '"%s' % word not in text, (call, text)
            if "b" in call.split("(")[1]:
                assert text == none, "what is foreign is as if it were not there: %s" % call
        assert '"a1"' in env.sql("select saga.run_json_v1('a1')::text", user=of_acme)
        # A function of the reader's own does not see a row before the policy does.
        env.sql("grant temp on database %s to %s" % (env.database, of_acme))
        leak = env.sql(
            "create function pg_temp.spy(text) returns boolean language plpgsql cost 0.0000001 as "
            "$$ begin raise notice 'spied %', $1; return true; end $$; "
            "select count(*) from saga.runs where pg_temp.spy(run_id)", user=of_acme)
        assert "spied a1" in leak and "spied b" not in leak and "spied n" not in leak, leak
        for table in ("run", "run_key", "audit_act", "tenant_reader"):
            try:
                env.sql("select * from saga.%s" % table, user=of_acme)
                raise RuntimeError("a reader reads saga." + table)
            except AssertionError as error:
                assert "permission denied" in str(error), error
        for call in ("saga.tenant_grant('t_acme', '*')", "saga.tenant_revoke('t_bolt', 'bolt')",
                     "saga.audit_verify()", "saga.audit_append_v1(null)"):
            try:
                env.sql("select %s" % call, user=of_acme)
                raise RuntimeError("a reader calls " + call)
            except AssertionError as error:
                assert "permission denied" in str(error), error
        env.sql("select saga.tenant_revoke('t_acme', 'acme')")
        assert env.sql("select count(*) from saga.runs", user=of_acme) == "0"
    finally:
        for role in ("t_open", "t_acme", "t_bolt", "t_none", "t_both", "t_all"):
            env.sql("revoke all on database %s from %s" % (env.database, role))
            env.sql("drop role %s" % role)


@case
def roles_bound_to_tenants(env):
    """At the socket a grant that is bound to tenants holds for their runs alone: lists show no other,
    another's run is not found in the very words of one that never was, a start elsewhere is 403, and
    so is what is about all tenants at once."""
    env.ledger("svc")
    daemon = opened(env, "roles:\n"
                         "  operate: [{who: uid:5001, tenants: [acme]}, uid:5009]\n"
                         "  submit: [{who: gid:5002, tenants: [acme, \"b'o\\\"lt\"]}]\n"
                         "  read: [{who: uid:5001, tenants: [bolt]}, {who: uid:5003, tenants: [cone]}]\n")
    daemon.apply(WAITS)
    daemon.apply(ONE + "    approve: {expires: 1h}\n")
    bolt = "b'o\"lt"
    for tenant, run_id in (("acme", "a1"), ("acme", "a2"), (bolt, "b1"), ("bolt", "c1"), (None, "n1")):
        more = {"tenant": tenant} if tenant else {}
        daemon.start_run("waits", {}, run_id, **more)
        daemon.start_run("one", {"n": 1}, run_id + "-p", **more)
    wait_until("they are asked for", lambda: len(env.rows("select * from saga.pending_approvals")) == 5)
    daemon.verb("b1", "pause", reason="look")

    def go(*args, uid=5001, **more):
        done = as_user(daemon, uid, *args, **more)
        return done

    def ids(*args, **more):
        done = go(*args, "-q", **more)
        assert done.returncode == 0, done
        return sorted(set(done.stdout.split()))

    acme = ["a1", "a1-p", "a2", "a2-p"]
    # Of several grants each adds its tenants; a lower role reaches further.
    assert ids("list") == acme + ["c1", "c1-p"]
    assert ids("list", "--where", "$.workflow == \"one\"") == ["a1-p", "a2-p", "c1-p"]
    assert ids("list", "--limit", "0", uid=5002, gid=5002) == acme + ["b1", "b1-p"]
    assert ids("list", uid=5003) == [] and len(ids("list", uid=5009)) == 10
    assert ids("approvals") == ["a1-p", "a2-p", "c1-p"] and ids("approvals", uid=5003) == []
    assert ids("dead") == []
    assert "b1" not in go("audit").stdout and "b1" in go("audit", uid=5009).stdout
    for verb in ("show", "events", "explain", "wait", "watch"):
        done = go(verb, "b1")
        assert done.returncode == 3, (verb, done)
    assert go("show", "c1").returncode == 0
    assert go("show", "a1-").returncode == 0 and go("show", "b").returncode == 3
    assert go("show", "n1", uid=5009).returncode == 0

    def told(method, path, body=None, uid=5001):
        done = subprocess.run(
            ["setpriv", "--reuid=%d" % uid, "--regid=65534", "--clear-groups", "curl", "-s", "-X",
             method, "--unix-socket", daemon.socket, "-w", "\n%{http_code}", "-d",
             json.dumps(body or {}), "http://saga" + path], capture_output=True, text=True)
        text, status = done.stdout.rsplit("\n", 1)
        return int(status), text

    seen = env.sql("select count(*) from saga.inbox"), env.rows("select * from saga.audit order by chain, no")
    for method, path in (("GET", "/v1/runs/%s"), ("GET", "/v1/runs/%s/events"),
                         ("GET", "/v1/runs/%s?prefix=1"), ("POST", "/v1/runs/%s/cancel"),
                         ("POST", "/v1/runs/%s/signal"), ("POST", "/v1/runs/%s/migrate"),
                         ("POST", "/v1/runs/%s/steps/act/settle"), ("POST", "/v1/runs/%s/nothing"),
                         ("POST", "/v1/runs/%s/steps/act/dry_run")):
        never = told(method, path % "zz9", {"reason": "x", "name": "go"})
        assert never[0] == 404, (method, path, never)
        for run_id in ("b1", "n1") + (("c1",) if method == "POST" else ()):
            assert told(method, path % run_id, {"reason": "x", "name": "go"}) == never, (path, run_id)
    assert seen == (env.sql("select count(*) from saga.inbox"),
                    env.rows("select * from saga.audit order by chain, no"))
    # What is about all of them, and starts.
    for method, path in (("POST", "/v1/runs:cancel"), ("GET", "/v1/bulk"), ("GET", "/metrics"),
                         ("POST", "/v1/answers"), ("POST", "/v1/queues/q/take"),
                         ("POST", "/v1/tasks/complete"), ("POST", "/v1/audit/verify")):
        status, text = told(method, path)
        assert status == 403 and "of all tenants" in text and "acme" in text, (path, status, text)
    assert told("PUT", "/v1/workflows")[0] == 403 and told("GET", "/v1/workflows")[0] == 200
    for more, status in (({"tenant": "acme"}, 202), ({"tenant": "bolt"}, 403), ({}, 403)):
        body = {"workflow": "waits", "input": {}, "run_id": "s%d" % status, **more}
        assert told("POST", "/v1/runs", body)[0] == status, more
        assert told("POST", "/v1/runs", dict(body, dry_run=True))[0] == (200 if status == 202 else 403)
    assert told("POST", "/v1/runs", {"workflow": "waits", "run_id": "b1", "tenant": "acme"})[0] == 409
    assert env.state("s202") == "running" and not env.state("s403")
    # Its own work goes on as for everybody.
    assert go("signal", "a1", "go").returncode == 0 and env.wait_state("a1") == "completed"
    assert go("cancel", "a2", "--reason", "enough").returncode == 0
    row = env.rows("select * from saga.pending_approvals where run_id = 'a1-p'")[0]
    assert go("approve", "a1-p", row["step_id"], "--hash", row["request_hash"], "--reason",
              "fine").returncode == 0
    assert env.wait_state("a1-p") == "completed"
    assert go("cancel", "c1", "--reason", "x").returncode == 3
    assert len(ids("list", uid=5009)) == 11  # the setting is gone with each statement
    # Nobody else's setting of that name widens or narrows anything.
    text = env.sql("set saga.tenants = '[\"bolt\"]'; select count(*) from saga.runs",
                   user=reader(env, "t_acme", "acme"))
    try:
        assert text.split("\n")[-1] == "5", text
    finally:
        env.sql("select saga.tenant_revoke('t_acme', 'acme')")
        env.sql("drop role t_acme")


@case
def another_tenants_id_is_taken(env):
    """Whoever submits a run id of another tenant learns that it is taken and nothing more: by the
    socket and by SQL, in words that do not depend on what the other run is."""
    env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(ONE)
    daemon.apply(WAITS)
    daemon.start_run("one", {"n": 1}, "x1", tenant="bolt")
    env.wait_state("x1", "completed")
    told = set()
    for workflow, input in (("one", {"n": 1}), ("one", {"n": 2}), ("waits", {})):
        reply = daemon.submit(workflow, input, "x1", tenant="acme")
        assert reply.status == 409 and reply.json()["code"] == "run_id_taken", reply
        told.add(reply.body)
        try:
            env.sql("select saga.start('%s', '%s', 'x1', 'acme')" % (workflow, json.dumps(input)))
            raise RuntimeError("it was taken in")
        except AssertionError as error:
            text = str(error).split("\n")[-1] if "ERROR" in str(error).split("\n")[-1] else str(error)
            assert 'run id "x1" is taken' in text and "bolt" not in text, text
    assert len(told) == 1, told


if __name__ == "__main__":
    main()
