#!/usr/bin/env python3
"""What goes in comes out: digits, bytes, texts; templates cannot be broken out of; secrets stay."""

import base64
import json
import os
import re
import subprocess
import time
import urllib.parse

from lib import Answer, case, main, wait_until

KEYED = 'svc: {url: "http://127.0.0.1:1", idempotency: {header: Idempotency-Key, ttl: 1d}}'
FAST = "defaults: {retry: {attempts: 3, delay: 50ms, factor: 1, max_delay: 50ms, jitter: 0%}}\n"


def flow(steps, head=FAST, services=KEYED, name="flow"):
    return "workflow: %s\n%sservices:\n  %s\nsteps:\n%s" % (name, head, services, steps)


def exec_dir(env, **scripts):
    """A folder of programs that exec actions may run."""
    folder = env.folder + "/programs"
    os.mkdir(folder)
    for name, text in scripts.items():
        path = "%s/%s" % (folder, name)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, 0o755)
    env.config_more = 'exec: {directory: "%s"}\n' % folder
    env.config_write()
    return folder


# --- NUM ---------------------------------------------------------------------------------------------

BIG = ["9007199254740993", "1610521604143693812", "1234567890123456789012", "-0", "19.90",
       "0.10", "1e400", "-12345678901234567890.123456789", "100000000000000000000000000.5"]


@case
def a_num_1(env):
    """Digits are the same everywhere: in the next request, in the undo, in show, in the views."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(flow("""
  - id: first
    action: {post: svc/first, body: {all: "${{ input.all }}"}}
    compensate: {post: svc/undo_first, body: {all: "${{ input.all }}", theirs: "${{ steps.first.output.theirs }}"}}
  - id: second
    action:
      post: svc/second
      body: {theirs: "${{ steps.first.output.theirs }}", one: "${{ input.all[0] }}"}
    compensate: {post: svc/undo_second}
  - id: exact
    if: input.all[0] == 9007199254740993 && input.all[0] != 9007199254740992
    action: {post: svc/exact, body: {sum: "${{ input.all[0] + 1 }}", product: "${{ 1990 * 0.01 }}"}}
    compensate: {post: svc/undo_exact}
  - id: last
    action: {post: svc/last}
    compensate: {post: svc/undo_last}
"""))
    numbers = "[%s]" % ",".join(BIG)
    ledger.script("/first", Answer(200, '{"theirs":%s}' % numbers))
    ledger.script("/last", Answer(422))
    reply = daemon.http("POST", "/v1/runs", '{"workflow":"flow","run_id":"num","input":{"all":%s}}' %
                        numbers, {"Prefer": "wait=20"})
    assert reply.json()["state"] == "compensated", reply
    bodies = {r.path[1:]: r.body.decode() for r in ledger.requests}
    assert bodies["first"] == '{"all":%s}' % numbers, bodies
    assert bodies["second"] == '{"theirs":%s,"one":%s}' % (numbers, BIG[0]), bodies
    assert bodies["exact"] == '{"sum":9007199254740994,"product":19.90}', bodies
    assert bodies["undo_first"] == '{"all":%s,"theirs":%s}' % (numbers, numbers), bodies
    flat = re.sub(r"\s", "", reply.body)
    assert flat.count(numbers) == 2, flat  # input, output of the first step
    shown = re.sub(r"\s", "", daemon.ctl("show", "num", "-o", "json").out)
    assert shown.count(numbers) == 2, shown
    assert env.sql("select input ->> 'all' from saga.runs") == numbers
    assert env.sql("select output ->> 'theirs' from saga.steps where step_id = 'first'") == numbers
    # The same numbers written otherwise are the same input.
    again = daemon.http("POST", "/v1/runs", '{"input": {"all": [%s]}, "workflow": "flow", '
                        '"run_id": "num"}' % ", ".join(BIG).replace("19.90", "19.9"))
    assert again.status == 200 and again.headers["Idempotency-Replayed"] == "true", again
    clash = daemon.http("POST", "/v1/runs", '{"workflow":"flow","run_id":"num","input":{"all":%s}}' %
                        numbers.replace("9007199254740993", "9007199254740992"))
    assert clash.status == 409 and clash.json()["detail"].endswith("/input/all/0"), clash


@case
def a_num_2(env):
    """Request bytes are the same over attempts and restarts; order of members stays; stored
    payloads keep their bytes."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start("--lease", "2s")
    daemon.apply(flow("""
  - id: a
    action: {post: svc/a, body: "${{ input.doc }}"}
    compensate: {post: svc/undo, body: {copy: "${{ steps.a.output }}"}}
  - {id: b, action: {post: svc/b}, compensate: {post: svc/undo_b}}
""", head="defaults: {retry: {attempts: 5, delay: 400ms, factor: 1, max_delay: 1s, jitter: 0%}}\n"))
    document = '{"b":1,"a":{"z":1.0,"y":[]},"\\u00e9":"\\u20ac \\/ \\"","n":1.10}'
    ledger.script("/a", Answer(500), Answer(500))
    ledger.script("/a", Answer(200, '{ "z" : 1.0,\n "a" : [ 1 , 2 ],  "\\u00e9": "é" }'))
    ledger.script("/b", Answer(422))
    daemon.http("POST", "/v1/runs", '{"workflow":"flow","run_id":"bytes","input":{"doc":%s}}' %
                document)
    wait_until("the first attempt", lambda: ledger.seen(path="/a"))
    daemon.kill()
    daemon.start("--lease", "2s")
    wait_until("the second attempt", lambda: len(ledger.seen(path="/a")) == 2)
    daemon.kill()
    daemon.start("--lease", "2s")
    assert env.wait_state("bytes") == "compensated"
    requests = ledger.seen(path="/a")
    assert len(requests) == 3 and len({r.body for r in requests}) == 1, requests
    body = requests[0].body.decode()
    assert list(json.loads(body)) == ["b", "a", "é", "n"] and '"z":1.0' in body and \
        '"n":1.10' in body, body
    assert json.loads(body) == json.loads(document)
    undo = ledger.seen(path="/undo")[-1].body.decode()
    assert list(json.loads(undo)["copy"]) == ["z", "a", "é"] and '"z":1.0' in undo, undo
    stored = env.sql("select output::text from saga.steps where step_id = 'a'")
    assert stored == '{ "z" : 1.0,\n "a" : [ 1 , 2 ],  "\\u00e9": "é" }', stored
    hashes = {row["request_hash"] for row in env.rows(
        "select request_hash from saga.keys where step_id = 'a' and direction = 'execute'")}
    assert len(hashes) == 1


@case
def a_retry_with_the_amount_written_otherwise(env):
    """A submit that comes again and says the same is the same run, however it spells the amount;
    another amount is a conflict. Over the socket, at another daemon, and in SQL."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start("--lease", "2s")
    daemon.apply("""
workflow: pay
run_id: "${{ input.id }}"
input:
  type: object
  required: [id, amount]
  properties:
    id: {type: string}
    amount: {type: [number, string], x-normalize: amount}
    note: {type: string}
services:
  %s
steps:
  - {id: a, action: {post: svc/a, body: {amount: "${{ input.amount }}"}}, compensate: {post: svc/u}}
""" % KEYED)
    spellings = ("10.10", "10.1", "10.100", '"10.10"', '"10.1"')
    for i, first in enumerate(spellings):
        run_id = "p-%d" % i
        body = '{"workflow": "pay", "input": {"id": "%s", "amount": %s}}'
        reply = daemon.http("POST", "/v1/runs", body % (run_id, first))
        assert reply.status == 202, reply
        assert env.wait_state(run_id) == "completed"
        for again in spellings:
            reply = daemon.http("POST", "/v1/runs", body % (run_id, again), {"Prefer": "wait=5"})
            assert reply.status == 200 and reply.headers["Idempotency-Replayed"] == "true", reply
        for other in ("10.11", '"10.11"', '"10.10 "', '"010.10"'):
            reply = daemon.http("POST", "/v1/runs", body % (run_id, other))
            assert reply.status == 409 and "/input/amount" in reply.body, reply
        assert [r.body for r in ledger.seen(key="%s:a:execute" % run_id)] == \
            [('{"amount":%s}' % first).encode()]
    def settled(text):
        env.sql("select saga.start('pay', '%s')" % text)
        return wait_until("the start is settled", lambda: env.sql(
            "select outcome from saga.requests where kind = 'start' order by at desc limit 1"))
    assert settled('{"id": "p-0", "amount": "10.1"}') == "done"
    assert settled('{"id": "p-0", "amount": 11}') == "conflict"
    other = env.daemon("b").start("--lease", "2s")
    wait_until("shards are shared", lambda: env.sql(
        "select count(*) from saga.lane where shards <> 0") == "2", 30)
    for i, _ in enumerate(spellings):
        for amount, status in (('"10.1"', 200), ("10.2", 409)):
            reply = other.http("POST", "/v1/runs", '{"workflow": "pay", "input": {"id": "p-%d", '
                               '"amount": %s}}' % (i, amount), {"Prefer": "wait=5"})
            assert reply.status == status, reply
    assert len(ledger.done("/a")) == len(spellings)


# --- TEXT ---------------------------------------------------------------------------------------------


@case
def a_text_1(env):
    """NUL in an answer: the effect counts, the output is flagged, the run ends; the undo runs."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(flow("""
  - {id: a, action: {post: svc/a}, compensate: {post: svc/undo_a}}
  - {id: b, action: {post: svc/b}, compensate: {post: svc/undo_b}}
"""))
    for name, body in (("escape", '{"r":"a\\u0000b"}'), ("raw", b'{"r":"a\x00b"}'),
                       ("high", '{"r":"\\ud800"}'), ("low", '{"r":"x\\udc00"}'),
                       ("name", '{"\\u0000":1}')):
        ledger.script("/a", Answer(200, body))
        ledger.script("/b", Answer(422, body))
        run = daemon.submit("flow", {}, "nul-" + name, wait=10).json()
        assert run["state"] == "compensated" and run["error"]["step"] == "b", (name, run)
        assert run["steps"][0]["state"] == "applied", (name, run)
        assert [r.path for r in ledger.seen() if r.key.startswith("nul-%s:" % name)] == \
            ["/a", "/b", "/undo_a"]
        flagged = env.sql("select output_invalid from saga.effect where run_id = 'nul-%s' and "
                          "step_id = 'a' and direction = 'execute'" % name)
        assert flagged == "t", name
        for args in (["show", "nul-" + name], ["events", "nul-" + name],
                     ["show", "nul-" + name, "-o", "json"], ["explain", "nul-" + name]):
            assert daemon.ctl(*args).code == 0, args
    for view in ("runs", "steps", "attempts", "timeline", "keys", "dead_letters"):
        env.sql("select count(x::text) from saga.%s x" % view)


@case
def nested_as_deep_as_it_may_be(env):
    """An output as deep as JSON may be: whoever waits for the run's end hears of it at once, also
    where the whole is too deep to be read; a signal that is too deep is refused with the reason."""
    ledger = env.ledger("svc")
    deep = json.loads("[" * 64 + "]" * 64)
    ledger.always("/deep", Answer(200, deep))
    daemon = env.daemon("a").start()
    daemon.apply(flow("""
  - {id: get, action: {post: svc/deep}, compensate: {post: svc/undo}}
""", name="deep") + 'output: "${{ steps.get.output }}"\n')
    begun = time.monotonic()
    reply = daemon.submit("deep", {}, "d-1", wait=60)
    assert reply.status == 200 and reply.json()["output"] == deep, reply
    assert daemon.http("GET", "/v1/runs/d-1", headers={"Prefer": "wait=60"}).status == 200
    assert daemon.ctl("wait", "d-1", "--timeout", "30s").code == 0
    assert time.monotonic() - begun < 30, "nobody was told"
    daemon.apply(flow("""
  - {id: get, action: {wait_for: go}}
""", name="waits"))
    daemon.start_run("waits", {}, "w-1")
    request = env.sql("select saga.signal('w-1', 'go', '%s')" % ("[" * 80 + "]" * 80))
    said = wait_until("it is refused", lambda: env.sql(
        "select answer from saga.requests where id = '%s' and outcome = 'refused'" % request))
    assert "nested too deeply" in said, said
    assert daemon.http("POST", "/v1/runs/w-1/signal", {"name": "go", "data": 1}).status == 200
    assert env.wait_state("w-1") == "completed"


@case
def a_text_2(env):
    """Raw bytes from programs and odd charsets from services: the outcome is recorded every time,
    and nothing that reads the row stumbles."""
    ledger = env.ledger("svc")
    exec_dir(env, nul="#!/bin/sh\nprintf 'a\\000b'\n", bad="#!/bin/sh\nprintf '\\377\\376'\n",
             cut="#!/bin/sh\nprintf 'ok \\303'\n", fails="#!/bin/sh\nprintf '\\377\\000' >&2\nexit 3\n",
             big="#!/bin/sh\nhead -c 3000000 /dev/zero | tr '\\000' 'x'\n",
             edge="#!/bin/sh\nhead -c 1048575 /dev/zero | tr '\\000' 'x'; printf '\\303\\244'\n",
             fine="#!/bin/sh\nprintf '{\"a\": \"\\303\\244\"}'\n")
    daemon = env.daemon("a").start()
    names = ["nul", "bad", "cut", "fails", "big", "edge", "fine"]
    for name in names:
        daemon.apply(flow("""
  - {id: run, action: {exec: [%s]}, compensate: {post: svc/undo}}
""" % name, name="exec_" + name))
    daemon.apply(flow("""
  - {id: get, action: {post: "svc/${{ input.n }}"}, compensate: {post: svc/undo}}
"""))
    for name in names:
        run = daemon.submit("exec_" + name, {}, "x-" + name, wait=20).json()
        assert run["state"] == ("compensated" if name == "fails" else "completed"), (name, run)
        output = run["steps"][0]["output"]
        if name == "fine":
            assert output == {"a": "ä"}, output
        elif name != "fails":
            assert output is None, (name, str(output)[:100])
    flagged = env.rows("select run_id from saga.effect where output_invalid and step_id = 'run'")
    assert {row["run_id"] for row in flagged} == {"x-nul", "x-bad", "x-cut", "x-big", "x-edge"}
    texts = {"latin_declared": ("text/plain; charset=ISO-8859-1", "Zo\u00eb".encode("latin-1")),
             "latin_hidden": ("text/plain", "Zo\u00eb".encode("latin-1")),
             "json_latin": ("application/json; charset=iso-8859-1", '"Zo\u00eb"'.encode("latin-1")),
             "utf8": ("application/json; charset=utf-8", '"Zo\u00eb \U0001f600"'.encode()),
             "bom": ("application/json", b"\xef\xbb\xbf{}"),
             "utf16": ("application/json; charset=utf-16", '"x"'.encode("utf-16")),
             "gzip": ("application/json", b"\x1f\x8b\x08\x00nonsense")}
    for name, (kind, body) in texts.items():
        headers = {"Content-Type": kind}
        if name == "gzip":
            headers["Content-Encoding"] = "gzip"
        ledger.script("/" + name, Answer(200, body, headers))
        run = daemon.submit("flow", {"n": name}, "t-" + name, wait=10).json()
        assert run["state"] == "completed" and run["steps"][0]["state"] == "applied", (name, run)
        if name == "utf8":
            assert run["output"] is None and run["steps"][0]["output"] == "Zoë 😀", run
        shown = daemon.ctl("show", "t-" + name, "-o", "json")
        assert shown.code == 0 and shown.json()["run_id"], shown
    for view in ("runs", "steps", "attempts", "timeline"):
        env.sql("select count(x::text) from saga.%s x" % view)


# --- EXPR ---------------------------------------------------------------------------------------------

NASTY = ["plain", "O'Brien'; DROP TABLE t;--", 'a"b\\c\n', "a/b?c#d ../ \u00e9", "a&b=c", "%2e%2e",
         "\"}, \"admin\": true, {", "key: value\n- list", "${{ secrets.token }}", "$${{ x }}", "{{x}}",
         "a;b|c`id`$(id)", "\t\r\n", "\u2028\u200b\U0001f600"]


@case
def a_expr_2(env):
    """Values are data in every place: JSON stays one string, path and query are encoded piece by
    piece, and arrive as they were."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(flow("""
  - id: a
    action:
      post: svc/items/${{ input.v }}/end
      query: {q: "${{ input.v }}", fixed: "1"}
      body: {note: "${{ input.v }}", text: "<${{ input.v }}>", list: ["${{ input.v }}"]}
    compensate: {post: svc/undo}
"""))
    for n, value in enumerate(NASTY):
        run = daemon.submit("flow", {"v": value}, "e-%d" % n, wait=10).json()
        assert run["state"] == "completed", (value, run)
        (request,) = ledger.seen(key="e-%d:a:execute" % n)
        assert re.fullmatch(r"/items/[A-Za-z0-9._~%-]*/end\?q=[A-Za-z0-9._~%-]*&fixed=1",
                            request.target), request.target
        path, query = request.target.split("?")
        assert urllib.parse.unquote(path.split("/")[2]) == value, (value, request.target)
        assert urllib.parse.parse_qs(query.replace("+", "%2B"), keep_blank_values=True) == \
            {"q": [value], "fixed": ["1"]}, request.target
        assert request.json() == {"note": value, "text": "<%s>" % value, "list": [value]}
    # What would address something else is refused before anything is sent.
    for n, value in enumerate(("..", ".", "")):
        run = daemon.submit("flow", {"v": value}, "dots-%d" % n, wait=10).json()
        assert run["state"] == "compensated" and not ledger.seen(key="dots-%d:a:execute" % n), run


@case
def a_expr_3(env):
    """A value cannot change the structure around it, and a scalar that is one expression keeps its
    type."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    daemon.apply(flow("""
  - id: a
    action:
      post: svc/a
      headers: {X-Note: "${{ input.header }}"}
      body: {note: "${{ input.v }}", number: "${{ input.n }}", flag: "${{ input.f }}", nothing: "${{ default(input.absent, null) }}", text: "n=${{ input.n }}"}
    compensate: {post: svc/undo}
"""))
    evil = '"}, "admin": true, {'
    run = daemon.submit("flow", {"v": evil, "n": 5, "f": False, "header": "x"}, "s", wait=10).json()
    assert run["state"] == "completed", run
    assert ledger.requests[0].body.decode() == \
        '{"note":%s,"number":5,"flag":false,"nothing":null,"text":"n=5"}' % json.dumps(evil)
    # a_http_6: a header cannot be broken out of either; the message names it, not the value.
    for n, value in enumerate(("a\r\nX-Evil: 1", "a\nb", "a\r\n\r\n{}", "x" * 70000)):
        run = daemon.submit("flow", {"v": "", "n": 1, "f": True, "header": value}, "h-%d" % n,
                            wait=10).json()
        assert run["state"] == "compensated", run
        assert "X-Note" in run["error"]["message"] and "Evil" not in run["error"]["message"], run
        assert not ledger.seen(key="h-%d:a:execute" % n)


@case
def a_expr_4(env):
    """What is missing is never an empty text: known when the file is, it is an error there; else
    the step fails before any request, with the path; default() and omit are the way out."""
    ledger = env.ledger("svc")
    daemon = env.daemon("a").start()
    for typo, word in (("steps.quot.output.total", "quote"), ("inptu.x", "input"),
                       ("steps.quote.outptu", "output")):
        reply = daemon.http("PUT", "/v1/workflows", flow("""
  - {id: quote, action: {post: svc/quote}, compensate: {none: "a quote"}}
  - {id: pay, action: {post: svc/pay, body: {amount: "${{ %s }}"}}, compensate: {post: svc/undo}}
""" % typo))
        assert reply.status == 422 and word in reply.body, reply
    daemon.apply(flow("""
  - {id: quote, action: {post: svc/quote}, compensate: {none: "a quote"}}
  - {id: maybe, if: input.maybe, action: {post: svc/maybe}, compensate: {none: "nothing"}}
  - id: pay
    action:
      post: svc/pay
      body: {amount: "${{ steps.quote.output.total }}", tip: "${{ default(steps.maybe.output.tip, 0) }}", note: "${{ default(input.note, omit) }}"}
    compensate: {post: svc/undo}
"""))
    for name, body in (("typo", {"totl": 5}), ("null", "null"), ("list", [1]),
                       ("text", '"total"'), ("empty", b"")):
        ledger.script("/quote", Answer(200, body))
        run = daemon.submit("flow", {"maybe": False}, "m-" + name, wait=10).json()
        assert run["state"] == "compensated", (name, run)
        assert "steps.quote.output" in run["error"]["message"] and run["error"]["step"] == "pay", run
        assert not ledger.seen(key="m-%s:pay:execute" % name)
    ledger.script("/quote", Answer(200, {"total": 7}))
    run = daemon.submit("flow", {"maybe": False}, "m-fine", wait=10).json()
    assert run["state"] == "completed", run
    assert ledger.seen(key="m-fine:pay:execute")[0].body == b'{"amount":7,"tip":0}'


# --- SECRET -------------------------------------------------------------------------------------------

SECRET = "S3cr3t-\u00fcmlaut+/= \"q\\"


@case
def a_secret_1(env):
    """A secret that a service echoes in every spelling, in errors, headers and bodies, stands in no
    table, log or output; where it would be stored it is refused with the file."""
    ledger = env.ledger("svc")
    env.secrets = {"token": SECRET, "plain": "AKIA0123456789SECRET"}
    exec_dir(env, leak="""#!/bin/sh
echo "out $TOKEN"; echo "err $TOKEN" >&2; exit ${1:-0}
""")
    env.config_write()
    daemon = env.daemon("a").start("--log-level", "debug", "--lease", "2s")
    for place in ('query: {k: "${{ secrets.token }}"}', 'body: {k: "${{ secrets.token }}"}'):
        reply = daemon.http("PUT", "/v1/workflows", flow(
            "  - {id: a, action: {post: svc/a, %s}, compensate: {post: svc/undo}}" % place))
        assert reply.status == 422 and "E210" in reply.body, reply
    daemon.apply(flow("""
  - id: auth
    action: {post: "guarded/auth/${{ input.how }}", headers: {X-Api-Key: "${{ secrets.plain }}"}}
    compensate: {post: guarded/undo, tolerant: true}
  - id: program
    action: {exec: [leak, "${{ input.code }}"], env: {TOKEN: "${{ secrets.token }}"}}
    compensate: {exec: [leak, "3"], env: {TOKEN: "${{ secrets.token }}"}}
  - {id: last, action: {post: svc/last}, compensate: {post: svc/undo_last}}
""", services=KEYED + """
  guarded:
    url: "%s"
    auth: {basic: {user: me, password: "${{ secrets.plain }}"}}
    headers: {X-Token: "${{ secrets.plain }}"}
    idempotency: {header: Idempotency-Key, ttl: 1d}
""" % ledger.url))

    def echo(request):
        how = request.path.split("/")[-1]
        secret = SECRET
        spelled = {"plain": secret, "json": json.dumps(secret), "url": urllib.parse.quote(secret),
                   "form": urllib.parse.quote_plus(secret),
                   "base64": base64.b64encode(secret.encode()).decode(),
                   "inner": base64.b64encode(b"xy" + secret.encode() + b"zzz").decode(),
                   "key": request.headers.get("x-api-key", ""),
                   "basic": request.headers.get("authorization", "")}
        status = 422 if how in ("json", "url", "basic") else 500 if how == "form" else 200
        return Answer(status, {"message": "bad token " + spelled.get(how, ""), "echo": spelled},
                      {"X-Echo": spelled["url"], "Location": "/x?" + spelled["form"]}, effect=False)

    ledger.always("/auth", echo)
    for n, (how, code) in enumerate((("plain", "0"), ("json", "0"), ("url", "0"), ("form", "0"),
                                     ("base64", "3"), ("inner", "75"), ("key", "3"),
                                     ("basic", "0"))):
        if n % 2:
            ledger.script("/last", Answer(422))
        daemon.start_run("flow", {"how": how, "code": code}, "s-" + how)
    env.wait_all(8)
    assert ledger.seen(path="/auth")[0].headers["x-api-key"] == env.secrets["plain"]
    for run in env.states():
        for args in (["show", run], ["show", run, "-o", "json"], ["events", run], ["explain", run],
                     ["dead"], ["dead", "show", run], ["list", "-o", "wide"]):
            daemon.ctl(*args)
    outputs = env.rows("select output from saga.steps where output is not null")
    assert "***" in json.dumps(outputs, default=str), outputs


@case
def a_secret_2(env):
    """While a program runs, its command line holds no secret and its environment nothing of the
    daemon's; the daemon's own command line and a crash keep it as well."""
    env.ledger("svc")
    env.secrets = {"token": "hush-hush-4711"}
    folder = exec_dir(env, waits="""#!/bin/sh
env > "$OUT.env"; tr '\\0' ' ' < /proc/$$/cmdline > "$OUT.cmd"; ls -l /proc/$$/fd > "$OUT.fd"
echo $$ > "$OUT.pid"; while [ ! -e "$OUT.go" ]; do sleep 0.05; done; echo '"done"'
""")
    daemon = env.daemon("a").start(environ={"PGPASSWORD": "database-password-77",
                                            "AWS_SECRET": "other-77"})
    out = env.folder + "/out"
    daemon.apply(flow("""
  - id: run
    action: {exec: [waits, visible], env: {TOKEN: "${{ secrets.token }}", OUT: "%s"}, stdin: {a: 1}}
    compensate: {none: "it only looks"}
""" % out))
    daemon.start_run("flow", {}, "look")
    wait_until("it runs", lambda: os.path.exists(out + ".pid"))

    def read(name):
        with open(out + name) as file:
            return file.read()

    wait_until("it has written", lambda: read(".pid").strip())
    with open("/proc/%s/cmdline" % read(".pid").strip()) as file:
        assert "hush" not in file.read() and "hush" not in read(".cmd")
    environ = dict(line.split("=", 1) for line in read(".env").splitlines() if "=" in line)
    assert environ["TOKEN"] == "hush-hush-4711" and environ["SAGA_KEY"] == "look:run:execute"
    assert set(environ) <= {"TOKEN", "OUT", "PATH", "PWD", "SHLVL", "_", "OLDPWD", "SAGA_KEY",
                            "SAGA_RUN", "SAGA_STEP", "SAGA_ATTEMPT", "SAGA_ACTION",
                            "SAGA_COMPENSATES", "SAGA_DEADLINE"}, sorted(environ)
    theirs = "".join(environ.values())
    assert "database-password-77" not in theirs and "other-77" not in theirs, environ
    links = [line.split(" -> ")[-1] for line in read(".fd").splitlines() if " -> " in line]
    assert len([link for link in links if not link.startswith("/proc")]) <= 5, links
    with open("/proc/%d/cmdline" % daemon.pid) as file:
        assert "hush" not in file.read()
    shown = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert "waits visible" in shown and "hush-hush" not in shown, shown
    with open("/proc/%d/limits" % daemon.pid) as file:
        core = next(line for line in file if line.startswith("Max core file size"))
    assert core.split()[4] == "0", core  # the soft limit
    with open(out + ".go", "w"):
        pass
    assert env.wait_state("look") == "completed"
    assert not os.path.exists(folder + "/core")


@case
def programs_do_not_outlive_their_limit(env):
    """A grandchild that holds the pipe delays nobody, the limit ends the whole group, and a cut
    program is unknown, not failed (a_exec_1, a_expr_1)."""
    env.ledger("svc")
    exec_dir(env, forks="#!/bin/sh\n(sleep 300 &)\necho '\"ok\"'\n",
             hangs="#!/bin/sh\nsleep 300 & echo hi\nwait\n",
             echoes="#!/bin/sh\nprintf '%s' \"$1\"\n")
    daemon = env.daemon("a").start()
    for name in ("forks", "hangs"):
        daemon.apply(flow("""
  - {id: run, timeout: 1s, retry: {attempts: 1}, action: {exec: [%s]}, compensate: {post: svc/undo, tolerant: true}}
""" % name, name=name))
    daemon.apply(flow("""
  - {id: run, action: {exec: [echoes, "${{ input.v }}"]}, compensate: {post: svc/undo}}
"""))
    begun = time.monotonic()
    run = daemon.submit("forks", {}, "forks", wait=10).json()
    assert run["state"] == "completed" and run["steps"][0]["output"] == "ok", run
    assert time.monotonic() - begun < 3 * float(os.environ.get("PATIENCE", "1"))
    run = daemon.submit("hangs", {}, "hangs", wait=15).json()
    assert run["state"] == "parked" and run["park_reason"] == "outcome_unknown", run
    assert run["steps"][0]["state"] == "unknown", run
    assert daemon.verb("hangs", "settle", step="run", applied=True).status == 200
    assert env.wait_state("hangs") == "completed"
    for n, value in enumerate(("x'; touch %s/pwn; echo '" % env.folder, "$(touch %s/pwn)" % env.folder,
                               "`touch %s/pwn`" % env.folder, "-rf", "-n\nb", "* ~ ?")):
        run = daemon.submit("flow", {"v": value}, "arg-%d" % n, wait=10).json()
        assert run["steps"][0]["output"] == value, (value, run)
    assert not os.path.exists(env.folder + "/pwn")
    env.keys_known = True


if __name__ == "__main__":
    main(parallel=5)
