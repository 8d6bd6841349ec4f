#!/usr/bin/env python3
"""An editor with yaml-language-server completes, explains and checks workflow files.

Installs the pinned npm package below build/ and speaks LSP to it over stdio. The workflow names
dsl/workflow.schema.json in its first line, as the examples do.
"""
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile
import time

VERSION = "1.19.2"
ROOT = pathlib.Path(__file__).resolve().parents[3]
HOME = ROOT / os.environ.get("BUILD", "build") / "yaml-language-server"
PROGRAM = HOME / "node_modules" / "yaml-language-server" / "bin" / "yaml-language-server"
SCHEMA = ROOT / "dsl" / "workflow.schema.json"
ANSWER_SECONDS = 30

WORKFLOW = """\
# yaml-language-server: $schema=SCHEMA
workflow: order
run_id: order-${{ input.id }}
services:
  shop: {url: "http://127.0.0.1:7001"}
steps:
  - id: reserve
    effect: compensable
    action:
      post: shop/holds
      body: {a: 1}
    compensate:
      delete: shop/holds/1
      tolerant: true
"""


def install():
    package = PROGRAM.parents[1] / "package.json"
    if package.exists() and json.loads(package.read_text())["version"] == VERSION:
        return
    if not shutil.which("npm"):
        sys.exit("npm is missing: this test installs yaml-language-server with it")
    HOME.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(HOME),
         f"yaml-language-server@{VERSION}"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    if done.returncode:
        sys.exit(f"npm could not install yaml-language-server@{VERSION}; is the registry "
                 f"reachable?\n{done.stdout}")


class Server:
    def __init__(self):
        self.process = subprocess.Popen(["node", str(PROGRAM), "--stdio"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL)
        self.buffer = b""
        self.number = 0
        self.diagnostics = {}

    def send(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def receive(self, deadline):
        while True:
            head, found, rest = self.buffer.partition(b"\r\n\r\n")
            if found:
                length = int([line for line in head.split(b"\r\n")
                              if line.lower().startswith(b"content-length")][0].split(b":")[1])
                if len(rest) >= length:
                    self.buffer = rest[length:]
                    return json.loads(rest[:length])
            ready, _, _ = select.select([self.process.stdout], [], [],
                                        max(0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError("the language server does not answer")
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                raise EOFError("the language server has ended")
            self.buffer += data

    def handle(self, message):
        """What the server says or asks by itself."""
        if message.get("method") == "textDocument/publishDiagnostics":
            params = message["params"]
            self.diagnostics[params["uri"]] = params["diagnostics"]
        elif message.get("method") == "workspace/configuration":
            settings = {"yaml": {"schemaStore": {"enable": False}, "completion": True,
                                 "hover": True, "validate": True}}
            self.send({"id": message["id"],
                       "result": [settings.get(item.get("section", ""), {})
                                  for item in message["params"]["items"]]})
        elif "method" in message and "id" in message:
            self.send({"id": message["id"], "result": None})

    def request(self, method, params):
        self.number += 1
        self.send({"id": self.number, "method": method, "params": params})
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            message = self.receive(deadline)
            if message.get("id") == self.number and "method" not in message:
                assert "error" not in message, message
                return message["result"]
            self.handle(message)

    def diagnostics_of(self, uri):
        deadline = time.monotonic() + ANSWER_SECONDS
        while uri not in self.diagnostics:
            self.handle(self.receive(deadline))
        return [item["message"] for item in self.diagnostics.pop(uri)]

    def close(self):
        try:
            self.request("shutdown", None)
            self.send({"method": "exit"})
            self.process.wait(5)
        except Exception:
            self.process.kill()
            self.process.wait()


class Editor:
    def __init__(self, server, folder):
        self.server, self.folder, self.count = server, folder, 0

    def open(self, text):
        self.count += 1
        path = pathlib.Path(self.folder) / f"w{self.count}.yaml"
        text = text.replace("SCHEMA", str(SCHEMA))
        path.write_text(text)
        self.server.send({"method": "textDocument/didOpen", "params": {"textDocument": {
            "uri": path.as_uri(), "languageId": "yaml", "version": 1, "text": text}}})
        return path.as_uri(), text

    @staticmethod
    def place(uri, text, mark):
        line = next(i for i, line in enumerate(text.split("\n")) if mark in line)
        column = text.split("\n")[line].index(mark)
        return {"textDocument": {"uri": uri}, "position": {"line": line, "character": column}}

    def complete(self, text, mark):
        """The labels offered where `mark` stands; the mark is taken out first."""
        line = next(i for i, line in enumerate(text.split("\n")) if mark in line)
        column = text.split("\n")[line].index(mark)
        uri, _ = self.open(text.replace(mark, ""))
        answer = self.server.request("textDocument/completion", {
            "textDocument": {"uri": uri}, "position": {"line": line, "character": column}})
        items = answer["items"] if isinstance(answer, dict) else answer or []
        return {item["label"] for item in items}

    def hover(self, text, mark):
        uri, text = self.open(text)
        answer = self.server.request("textDocument/hover", self.place(uri, text, mark))
        return json.dumps(answer)

    def check(self, text):
        uri, _ = self.open(text)
        return self.server.diagnostics_of(uri)


def case_keys_of_a_step(editor):
    """Inside a step the keys of a step are offered, and none that this version cannot do."""
    offered = editor.complete(WORKFLOW + "    @@", "@@")
    assert {"timeout", "retry", "needs", "if", "on_failure", "pivot", "reconcile", "for_each"} <= offered, offered
    assert not {"steps", "post"} & offered, offered


def case_keys_of_a_compensation(editor):
    """Inside `compensate` an action's keys and its own are offered."""
    offered = editor.complete(WORKFLOW + "      @@", "@@")
    assert {"outcomes", "timeout", "effect"} <= offered, offered


def case_words(editor):
    """Where a word is chosen, the words are offered."""
    offered = editor.complete(WORKFLOW.replace("effect: compensable", "effect: @@"), "@@")
    assert {"pure", "idempotent", "compensable", "irreversible"} <= offered, offered


def case_top(editor):
    """At the top of the file the keys of a workflow are offered."""
    offered = editor.complete(WORKFLOW + "@@", "@@")
    assert {"deadline", "defaults", "input", "output"} <= offered, offered


def case_hover(editor):
    """A key explains itself."""
    assert "What undoes it" in editor.hover(WORKFLOW, "compensate:")
    assert "business key" in editor.hover(WORKFLOW, "run_id")


def case_clean(editor):
    """A good workflow gets no remark."""
    said = editor.check(WORKFLOW)
    assert said == [], said


def case_mistakes(editor):
    """A wrong key, a wrong word, a bare number as a duration and a missing key are underlined."""
    said = editor.check(WORKFLOW.replace("compensate:", "compensat:"))
    assert any("compensat" in message for message in said), said
    said = editor.check(WORKFLOW.replace("effect: compensable", "effect: reversible"))
    assert any("irreversible" in message for message in said), said
    said = editor.check(WORKFLOW + "    timeout: 30\n")
    assert said, said
    said = editor.check(WORKFLOW.replace("workflow: order\n", ""))
    assert any("workflow" in message for message in said), said


def main():
    install()
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        server = Server()
        try:
            server.request("initialize", {
                "processId": os.getpid(), "rootUri": pathlib.Path(folder).as_uri(),
                "capabilities": {"workspace": {"configuration": True},
                                 "textDocument": {"hover": {"contentFormat": ["markdown"]},
                                                  "completion": {}}}})
            server.send({"method": "initialized", "params": {}})
            editor = Editor(server, folder)
            for name, case in list(globals().items()):
                if not name.startswith("case_"):
                    continue
                try:
                    case(editor)
                    passed += 1
                except AssertionError as error:
                    failed += 1
                    print(f"{name}: {case.__doc__}\n    {error}")
        finally:
            server.close()
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
