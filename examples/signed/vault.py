#!/usr/bin/env python3
"""A participant that takes only signed requests, standard library only: vault.py PORT SECRET_FILE

`refusal` is what a participant of your own needs; the rest is a small server around it.
"""
import hashlib
import hmac
import http.server
import re
import sys
import time

TOLERANCE_S = 300  # clocks differ, requests wait for a connection


def refusal(secret, method, target, headers, body, now=None):
    """Why a request is not to be believed, or None.

    `target` is path and query exactly as they came, `body` the bytes before anything parses them.
    The time bounds how long a request that somebody recorded can be played again; the idempotency
    key, which is signed too, takes care of it until then.
    """
    given = re.fullmatch(r"t=([0-9]{1,12}),v1=([0-9a-f]{64})", headers.get("Saga-Signature") or "")
    if not given:
        return "it is not signed"
    seconds, signature = given.groups()
    if abs((time.time() if now is None else now) - int(seconds)) > TOLERANCE_S:
        return "its signature is of another time"
    lines = ["saga-v1", method, target, headers.get("Idempotency-Key") or "", seconds,
             hashlib.sha256(body).hexdigest()]
    text = "".join(line + "\n" for line in lines).encode("latin-1")
    expected = hmac.new(secret, text, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected, signature):  # takes as long for every wrong one
        return "its signature is wrong"
    return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        why = refusal(self.server.secret, self.command, self.path, self.headers, body)
        answer = (b'{"error": "%s"}' % why.encode()) if why else b'{"charged": true}'
        self.send_response(401 if why else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


def main():
    with open(sys.argv[2], "rb") as file:
        secret = file.read()
    if secret.endswith(b"\n"):  # as the daemon reads it
        secret = secret[:-1]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    server.secret = secret
    server.serve_forever()


if __name__ == "__main__":
    main()
