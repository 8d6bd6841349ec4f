#!/usr/bin/env python3
"""Services with `auth: {oauth2}`: one token for all, fetched again when it expires or is refused."""

import time
import urllib.parse

from lib import Answer, Ledger, case, main, wait_until

WORKFLOW = """
workflow: pay
run_id: "${{ input.id }}"
input: {type: object, required: [id], properties: {id: {type: string}}}
services:
  svc:
    auth:
      oauth2:
        token_url: %s/oauth/token
        client_id: shop
        client_secret: ${{ secrets.client_secret }}
        scope: charges refunds
    idempotency: {header: Idempotency-Key, ttl: 1d}
defaults:
  retry: {attempts: 5, delay: 600ms, factor: 1, jitter: 0%%}
steps:
  - {id: charge, action: {post: svc/charge}, compensate: {post: svc/refund}}
"""


class TokenServer(Ledger):
    """Gives out token-1-..., token-2-...; what is not in `good` is refused by the services."""

    def __init__(self):
        super().__init__(keyless=True)
        self.given, self.good, self.expires = 0, set(), 3600
        self.always("/oauth/token", self.give)

    def give(self, request):
        self.given += 1
        token = "token-%d-%s" % (self.given, "x" * 20)
        self.good.add(token)
        return Answer(200, {"access_token": token, "token_type": "Bearer",
                            "expires_in": self.expires})

    def guard(self, request):
        """What a service answers: 401 to a token that is not good any more."""
        kind, _, token = (request.headers.get("authorization") or "").partition(" ")
        if kind == "Bearer" and token in self.good:
            return Answer(200, {"echo": token})
        return Answer(401, {"error": "invalid_token"})


def setup(env):
    env.secrets["client_secret"] = "s3cr3t of the client & more"
    tokens = TokenServer()
    env.closers.append(tokens.close)
    ledger = env.ledger("svc")
    ledger.always("/", tokens.guard)
    daemon = env.daemon("a").start()
    daemon.apply(WORKFLOW % tokens.url)
    return tokens, ledger, daemon


@case
def one_token_for_all(env):
    """Many runs at once ask for one token; the request is that of the standard; what a service
    echoes of the token is masked."""
    tokens, ledger, daemon = setup(env)
    tokens.script("/oauth/token", Answer(503), Answer(503))
    for n in range(20):
        daemon.start_run("pay", {"id": "p-%d" % n})
    env.wait_all(20)
    assert set(env.states().values()) == {"completed"}, env.states()
    assert tokens.given == 1, tokens.given
    asked = tokens.requests[-1]
    assert asked.target == "/oauth/token" and asked.method == "POST"
    assert urllib.parse.parse_qs(asked.body.decode()) == {
        "grant_type": ["client_credentials"], "client_id": ["shop"],
        "client_secret": ["s3cr3t of the client & more"], "scope": ["charges refunds"]}
    assert not [h for h in asked.headers if h.startswith("saga-") or h == "idempotency-key"]
    assert len(ledger.requests) == 20
    assert daemon.show("p-0")["steps"][0]["output"] == {"echo": "***svc.access_token***"}
    assert "token-1-" not in env.sql("select string_agg(e::text, '') from saga.effect e")


@case
def refused_token(env):
    """A token that is refused is fetched again, and the request sent once more as the same attempt;
    a second 401 is the service's answer."""
    tokens, ledger, daemon = setup(env)
    daemon.start_run("pay", {"id": "p-1"})
    assert env.wait_state("p-1") == "completed"
    tokens.good.clear()
    daemon.start_run("pay", {"id": "p-2"})
    assert env.wait_state("p-2") == "completed"
    assert tokens.given == 2
    seen = ledger.seen(key="p-2:charge:execute")
    assert [r.attempt for r in seen] == [1, 1], seen
    ledger.always("/", Answer(401, {"error": "not for you"}))
    daemon.start_run("pay", {"id": "p-3"})
    assert env.wait_state("p-3") == "compensated"
    assert len(ledger.seen(key="p-3:charge:execute")) == 2
    assert daemon.show("p-3")["error"]["status"] == 401


@case
def expired_token(env):
    """A token is not used longer than it lives."""
    tokens, ledger, daemon = setup(env)
    tokens.expires = 1
    daemon.start_run("pay", {"id": "p-1"})
    assert env.wait_state("p-1") == "completed"
    time.sleep(1.1)
    daemon.start_run("pay", {"id": "p-2"})
    assert env.wait_state("p-2") == "completed"
    assert tokens.given == 2
    used = {r.headers["authorization"][7:14] for r in ledger.requests}
    assert used == {"token-1", "token-2"}, used


@case
def no_token(env):
    """Without a token nothing is sent: the step is tried again, certainly not applied, and goes on
    when there is one; what is wrong is told, without secrets."""
    tokens, ledger, daemon = setup(env)
    tokens.always("/oauth/token", Answer(400, {"error": "invalid_client"}))
    daemon.start_run("pay", {"id": "p-1"})
    assert env.wait_state("p-1") == "compensated"
    assert ledger.requests == []
    error = daemon.show("p-1")["error"]
    assert error["code"] == "not_connected", error
    assert "the token server answered 400 invalid_client" in error["message"], error
    for broken in (Answer(200, {"token": 1}), Answer(200, raw=b"nonsense"),
                   Answer(200, {"access_token": "x"})):
        tokens.always("/oauth/token", broken)
        time.sleep(1.1)
        run = "p-%d" % len(env.states())
        daemon.start_run("pay", {"id": "b" + run})
        assert env.wait_state("b" + run) == "compensated"
    tokens.close()
    time.sleep(1.1)
    daemon.start_run("pay", {"id": "p-9"})
    assert env.wait_state("p-9") == "compensated"
    assert ledger.requests == []


@case
def slow_token(env):
    """The wait for a token counts against the attempt's limit."""
    tokens, ledger, daemon = setup(env)
    daemon.apply((WORKFLOW % tokens.url).replace("compensate: {", "timeout: 500ms, compensate: {"))
    tokens.script("/oauth/token", Answer(200, {"access_token": "token-0-late"}, delay=1.5))
    daemon.start_run("pay", {"id": "p-1"})
    wait_until("it came too late", lambda: env.sql(
        "select count(*) from saga.attempts where outcome = 'retryable' and number = 1") == "1")
    span = env.sql("select ended_at - sent_at < '1.3s' from saga.attempts where number = 1")
    assert span == "t" and "within the time limit" in env.sql("select error from saga.attempts")
    tokens.good.add("token-0-late")
    assert env.wait_state("p-1") == "completed"


if __name__ == "__main__":
    main(parallel=3)
