#!/usr/bin/env python3
"""After an unknown outcome: every cell of the table of the semantics, in both directions, judged by
the participant's own ledger."""

import itertools

from lib import Answer, SqlError, case, main, wait_until

EFFECTS = ("pure", "idempotent", "compensable", "irreversible")
KEYS = ("honoured", "past", "none")
# How the participant answers the question whether it was applied.
RECONCILES = ("no", "yes", "lagging", "lying", "down")
# What becomes of the first send: its answer is lost, or it is lost itself.
FAULTS = ("after", "before")
DIRECTIONS = ("execute", "compensate")

SERVICES = {"honoured": "{header: Idempotency-Key, ttl: 1h, settle_after: 900ms}",
            "past": "{header: Idempotency-Key, ttl: 1s, settle_after: 900ms}",
            "none": "none"}
# A key is past its lifetime when the answer is given up.
TIMEOUT = {"honoured": 0.3, "past": 1.2, "none": 0.3}
LAG = 0.8  # seconds that a lagging read is behind: within timeout and settle_after


class Cell:
    def __init__(self, direction, effect, key, reconcile, fault):
        self.direction, self.effect, self.key = direction, effect, key
        self.reconcile, self.fault = reconcile, fault
        self.name = "-".join((direction[:4], effect[:5], key, reconcile, fault))
        self.path = "/" + self.name

    def ways(self):
        """The table: repeat, ask or park."""
        if self.effect in ("pure", "idempotent"):
            return "repeat"
        if self.reconcile != "no":
            return "ask"
        return "repeat" if self.effect == "compensable" and self.key == "honoured" else "park"

    def expected(self):
        """The run's state, requests and effects of the action in question."""
        good = "completed" if self.direction == "execute" else "compensated"
        way = self.ways()
        happened = self.fault == "after"
        if way == "repeat":
            again = 0 if happened and self.key == "honoured" else 1
            return good, 2, (1 if happened else 0) + again
        if way == "park" or self.reconcile == "down":
            return "parked", 1, int(happened)
        if self.reconcile == "lying":  # it denies, or claims, what is not so: beyond any engine
            if happened:
                return good, 2, 1 if self.key == "honoured" else 2
            return good, 1, 0
        return good, (1 if happened else 2), 1

    def source(self, url):
        action = "post: svc/%s" % self.name
        asked = ""
        if self.reconcile != "no":
            asked = ("reconcile: {get: svc/ask%s, query: {key: \"${{ key }}\"}, timeout: 1s, "
                     "applied: response.body.n > 0, not_applied: response.body.n == 0, "
                     "output: {told: true}, every: 100ms, max_every: 300ms, for: %s%s}" %
                     (self.path, "700ms" if self.reconcile == "down" else "20s",
                      ", settle_after: 900ms" if self.key == "none" else ""))
        head = ("workflow: %s\nservices: {svc: {url: %s, timeout: %dms, idempotency: %s}, "
                "other: {url: %s, idempotency: {header: Idempotency-Key, ttl: 1h}}}\n"
                "defaults: {retry: {attempts: 3, delay: 50ms, jitter: 0%%}, "
                "compensate_retry: {attempts: 3, delay: 50ms, jitter: 0%%}}\nsteps:\n" %
                (self.name, url, TIMEOUT[self.key] * 1000, SERVICES[self.key], url))
        if self.direction == "execute":
            undo = "" if self.effect in ("pure", "irreversible") else \
                "    compensate: {post: other/undo}\n"
            return head + "  - id: it\n    effect: %s\n    action: {%s}\n%s%s" % (
                self.effect, action, "    " + asked + "\n" if asked else "", undo)
        return head + (
            "  - id: it\n    action: {post: other/do}\n"
            "    compensate: {%s, effect: %s%s}\n"
            "  - id: fails\n    action: {post: other/fails}\n    compensate: {none: test}\n" %
            (action, self.effect, ", " + asked if asked else ""))


def told(cell, ledger):
    def answer(request):
        if cell.reconcile == "down":
            return Answer(503, effect=False)
        done = [e for e in ledger.effects if e.path == cell.path]
        if cell.reconcile == "lagging":
            done = [e for e in done if request.at - e.at > LAG]
        n = len(done)
        if cell.reconcile == "lying":
            n = 1 - min(n, 1)
        return Answer(200, {"n": n}, effect=False)
    return answer


def play(env, direction):
    ledgers = {"keyed": env.ledger("keyed"), "keyless": env.ledger("keyless", keyless=True)}
    env.keys_known = False
    daemon = env.daemon("a").start()
    cells = [Cell(direction, *rest) for rest in itertools.product(EFFECTS, KEYS, RECONCILES, FAULTS)]
    for cell in cells:
        ledger = cell.ledger = ledgers["keyed" if cell.key == "honoured" else "keyless"]
        ledger.script(cell.path, Answer(act="never", effect=cell.fault == "after"))
        ledger.always("/ask" + cell.path, told(cell, ledger))
        ledger.always("/fails", Answer(422))
        daemon.apply(cell.source(ledger.url))
    for cell in cells:
        daemon.submit(cell.name, run_id=cell.name)
    states = {}

    def rest():
        states.update(env.states())
        return all(states.get(cell.name) in ("completed", "compensated", "parked", "abandoned")
                   for cell in cells)
    wait_until("all cells at rest", rest, timeout=60)
    wrong = []
    for cell in cells:
        seen = (states[cell.name],
                len([r for r in cell.ledger.requests if r.path == cell.path]),
                len([e for e in cell.ledger.effects if e.path == cell.path]))
        if seen != cell.expected():
            wrong.append("%s: state, requests, effects %s, not %s" %
                         (cell.name, seen, cell.expected()))
    assert not wrong, "\n".join(wrong)
    return daemon, cells


@case
def execute(env):
    """Each cell, of actions."""
    daemon, cells = play(env, "execute")
    # What is parked says what would settle it, with the evidence.
    parked = [cell for cell in cells if cell.expected()[0] == "parked"]
    rows = {row["run_id"]: row for row in env.rows("select * from saga.unknown_outcomes")}
    assert set(rows) == {cell.name for cell in parked}, set(rows) ^ {c.name for c in parked}
    down = [cell for cell in parked if cell.reconcile == "down"]
    for cell in down:
        row = rows[cell.name]
        assert int(row["asked"]) >= 2 and row["found"] == "the question was answered with 503", row
        assert row["what_settles_it"].startswith("sagactl settle " + cell.name), row
    found = env.rows("select * from saga.findings where run_id = '%s' order by number" %
                     down[0].name)
    assert [int(row["number"]) for row in found] == list(range(1, len(found) + 1)), found
    assert {row["says"] for row in found} == {"unknown"}, found
    # Reads carry no key of their own: they name the one they ask about.
    asks = [r for r in down[0].ledger.requests if r.path.startswith("/ask")]
    assert asks and all(r.key is None for r in asks), asks
    assert asks[0].headers["saga-reconciles"].endswith(":it:execute"), asks[0].headers
    # A person settles them all.
    for cell in parked:
        happened = cell.fault == "after"
        arguments = ["--applied"] if happened else ["--not-applied"]
        cell.ledger.always(cell.path, Answer())
        result = daemon.ctl("settle", cell.name, "it", *arguments, "--reason", "looked it up")
        assert result.code == 0, result
    wait_until("the settled runs end", lambda: all(
        env.state(cell.name) == "completed" for cell in parked))
    for cell in parked:
        done = [e for e in cell.ledger.effects if e.path == cell.path]
        assert len(done) == 1, (cell.name, done)


@case
def compensate(env):
    """Each cell, of compensations."""
    play(env, "compensate")


@case
def a_http_9(env):
    """202 is not done: with a reconcile the status resource that the service named is polled to
    its end, also over a kill -9; without one 2xx is applied."""
    ledger = env.ledger("unused")
    daemon = env.daemon("a").start("--lease", "2s")
    text = """
workflow: accepted
services: {svc: {url: "%s/base", timeout: 2s, idempotency: {header: Idempotency-Key, ttl: 1h}}}
steps:
  - id: it
    action: {post: svc/jobs}
    %s
    compensate: {post: svc/undo}
output: ${{ steps.it.output }}
""" % (ledger.url, "%s")
    daemon.apply(text % """reconcile:
      get: "svc/${{ answer.headers.location }}"
      applied: response.body.state == 'done'
      in_progress: response.body.state == 'running'
      refused: response.body.state == 'failed'
      output: ${{ response.body.result }}
      every: 200ms
      max_every: 300ms""")
    daemon.apply(text.replace("workflow: accepted", "workflow: plain") % "retry: {attempts: 2}")
    end = {}
    ledger.always("/base/jobs", lambda request: Answer(
        202, {"accepted": True}, {"Location": "/jobs/%s?view=full" % request.headers["saga-run"]}))
    ledger.always("/jobs/", lambda request: Answer(200, end.get(
        request.path.split("/")[-1], {"state": "running"})))
    daemon.submit("accepted", run_id="good")
    daemon.submit("accepted", run_id="bad")
    wait_until("both are asked about", lambda: len(ledger.seen(path="/jobs/good")) > 1 and
               len(ledger.seen(path="/jobs/bad")) > 1)
    why = env.rows("select waiting_for, detail from saga.why_waiting where run_id = 'good'")
    assert why[0]["waiting_for"] == "reconcile", why
    unknown = daemon.show("good")["steps"][0]["unknown"]
    assert unknown["asked"] > 0 and unknown["until"] and unknown["says"] == "in_progress", unknown
    told = daemon.ctl("explain", "good").out
    assert "; its service was asked " in told and "`in_progress` is true" in told, told
    daemon.kill()
    daemon.start("--lease", "2s")
    asked = len(ledger.seen(path="/jobs/good"))
    wait_until("it is asked again", lambda: len(ledger.seen(path="/jobs/good")) > asked)
    end["good"] = {"state": "done", "result": {"id": 7}}
    end["bad"] = {"state": "failed"}
    assert env.wait_state("good") == "completed"
    assert env.wait_state("bad") == "compensated"
    assert daemon.show("good")["output"] == {"id": 7}
    assert len(ledger.seen(path="/base/jobs")) == 2 and not ledger.seen(path="/base/undo")
    assert ledger.seen(path="/jobs/good")[0].target == "/jobs/good?view=full"
    env.participants.clear()  # it counts what was accepted as done, also where it then failed
    daemon.submit("plain", run_id="plain")
    assert env.wait_state("plain") == "completed"


@case
def a_idem_2(env):
    """A provider that replays a stored 500 for ever, and keys that it forgets: unknown, never a
    clean failure; no blind resend after the lifetime of the key."""
    ledger = env.ledger("svc", keyless=True)
    daemon = env.daemon("a").start()
    daemon.apply("""
workflow: stored
services: {svc: {url: "%s", timeout: 1s, idempotency: {header: Idempotency-Key, ttl: 1s}}}
defaults: {retry: {attempts: 5, delay: 300ms, factor: 1, max_delay: 300ms, jitter: 0%%}}
steps:
  - {id: it, action: {post: svc/it}, compensate: {post: svc/undo}}
""" % ledger.url)
    ledger.always("/it", Answer(500, effect=False))
    daemon.submit("stored", run_id="stored")
    assert env.wait_state("stored") == "parked"
    shown = daemon.show("stored")
    assert shown["park_reason"] == "outcome_unknown" and shown["steps"][0]["state"] == "unknown"
    sends = ledger.seen(path="/it")
    assert 1 < len(sends) < 7 and sends[-1].at - sends[0].at <= 1.0, [r.at for r in sends]
    assert not ledger.seen(path="/undo")


@case
def a_word_is_on_one_attempt(env):
    """Who repeats a settle gets the same answer, until what was sent after it is unknown again: then
    the old word is refused, and nothing is sent by it; another reason is another decision."""
    ledger = env.ledger("svc", keyless=True)
    daemon = env.daemon("a").start()
    daemon.apply("""
workflow: wire
services: {svc: {url: "%s", timeout: 500ms, idempotency: none}}
steps:
  - {id: pay, effect: irreversible, action: {post: svc/pay}}
""" % ledger.url)
    ledger.always("/pay", Answer(act="never", effect=False))
    daemon.submit("wire", run_id="w")
    assert env.wait_state("w") == "parked"
    settle = ["settle", "w", "pay", "--not-applied", "--reason"]
    assert daemon.ctl(*settle, "the bank says no").code == 0
    again = daemon.ctl(*settle, "the bank says no")  # it is on its way
    assert again.code == 0, again
    wait_until("it is unknown again", lambda: len(ledger.seen(path="/pay")) == 2 and
               env.state("w") == "parked")
    again = daemon.ctl(*settle, "the bank says no")
    assert again.code == 9 and "obeyed" in again.err and "reason of its own" in again.err, again
    tried = env.rows("select outcome from saga.audit where verb = 'settle' order by at desc limit 1")
    assert tried and "reason of its own" in tried[0]["outcome"], tried
    by_sql = "select saga.settle('w', 'pay:execute', false, 'the ledger says no')"
    env.sql(by_sql)
    wait_until("it is unknown again", lambda: len(ledger.seen(path="/pay")) == 3 and
               env.state("w") == "parked")
    try:
        taken = env.sql(by_sql)
    except SqlError as refusal:
        taken = None
        assert "reason of its own" in str(refusal), refusal
    assert not taken, taken
    assert daemon.ctl(*settle, "the bank says no").code == 9
    assert len(ledger.seen(path="/pay")) == 3
    ledger.always("/pay", Answer())
    assert daemon.ctl(*settle, "the bank has looked once more").code == 0
    assert env.wait_state("w") == "completed"
    assert len(ledger.seen(path="/pay")) == 4


main()
