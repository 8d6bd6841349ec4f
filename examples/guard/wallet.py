#!/usr/bin/env python3
"""A wallet over HTTP: each request is one SQL function in its own database (setup.sql).

    wallet.py [--port 7401]        the database as psql finds it: PGHOST, PGDATABASE, ...

Python's standard library and psql are all it needs. What is hard about being a participant is in
the database: this file only carries requests in and answers out.
"""
import argparse
import json
import os
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# A second request with a key waits for the first one's transaction, but not for long.
LATER = {"55P03": "the first one is still in work", "40001": "try again", "40P01": "try again"}
CALLS = {"/charges": "select wallet.charge(:'key', :'body')",
         "/refunds": "select wallet.refund(:'key', :'compensates', :'body')"}


def call(sql, **values):
    """One call, one transaction: {status, body}, as the database says."""
    argv = ["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=sqlstate"]
    for name, value in values.items():
        argv += ["-v", "%s=%s" % (name, value)]
    done = subprocess.run(argv, input=sql, text=True, capture_output=True,
                          env=dict(os.environ, PGOPTIONS="-c lock_timeout=2s"))
    if done.returncode == 0:
        return json.loads(done.stdout)
    state = done.stderr.strip()[-5:]
    if state in LATER:
        return {"status": 503, "body": {"code": "later", "message": LATER[state]}}
    if state[:2] in ("22", "23"):
        return {"status": 400, "body": {"code": "invalid", "message": "sqlstate " + state}}
    return {"status": 500, "body": {"code": "broken", "message": done.stderr.strip()}}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        key = self.headers.get("Idempotency-Key")
        try:
            json.loads(text or "{}")
        except ValueError:
            return self.answer(400, {"code": "invalid", "message": "the body is not JSON"})
        if self.path not in CALLS:
            return self.answer(404, {"code": "not_found", "message": "there is no such thing"})
        if not key:
            return self.answer(400, {"code": "no_key", "message": "Idempotency-Key is missing"})
        done = call(CALLS[self.path], key=key, body=text or "{}",
                    compensates=self.headers.get("Saga-Compensates") or "")
        self.answer(done["status"], done["body"])

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if status == 503:
            self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        pass  # whoever has hung up asks again


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--port", type=int, default=7401)
    server = Server(("127.0.0.1", options.parse_args().port), Handler)
    print("wallet: http://127.0.0.1:%d" % server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
