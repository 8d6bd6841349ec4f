"""A proxy in front of PostgreSQL that loses what a test wants lost.

Listens on a Unix socket (FOLDER/.s.PGSQL.5432, so that libpq's host=FOLDER finds it) and passes
bytes on to another one. It reads the protocol just far enough to know which Sync of the client ends
a write of the engine (a call of saga.apply_v2 or apply_or_raise_v2), and which answer belongs to it.
Each such write asks `decide(number)`, numbered from 1 over all connections; its answer is one of

    "pass"         nothing special
    "lose_answer"  PostgreSQL commits; the answer is thrown away and the connection cut
    "lose_request" the request is thrown away and the connection cut: nothing was committed
    "hold"         the answer is kept back until release() is called
"""

import os
import socket
import struct
import threading

WRITES = (b"saga.apply_v2(", b"saga.apply_or_raise_v2(")


class Cut(Exception):
    pass


class Link:
    """One client's connection."""

    def __init__(self, proxy, client):
        self.proxy, self.client = proxy, client
        self.server = socket.socket(socket.AF_UNIX)
        self.server.connect(proxy.target)
        self.lock = threading.Lock()
        self.statements = {}  # name of a prepared statement -> it is a write
        self.writes = False  # since the last Sync
        self.held = b""  # bytes of a request that is not decided yet
        self.answers = []  # what was decided for each Sync without ReadyForQuery, oldest first

    def run(self):
        for work in (self.from_client, self.from_server):
            threading.Thread(target=self.guard, args=(work,), daemon=True).start()

    def guard(self, work):
        try:
            work()
        except (OSError, Cut):
            pass
        finally:
            self.close()

    def close(self):
        for end in (self.client, self.server):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    @staticmethod
    def exactly(end, count):
        data = b""
        while len(data) < count:
            part = end.recv(count - len(data))
            if not part:
                raise Cut
            data += part
        return data

    def from_client(self):
        length = self.exactly(self.client, 4)
        self.server.sendall(length + self.exactly(self.client, struct.unpack("!I", length)[0] - 4))
        while True:
            head = self.exactly(self.client, 5)
            kind, size = head[:1], struct.unpack("!I", head[1:])[0] - 4
            body = self.exactly(self.client, size)
            self.note(kind, body)
            self.held += head + body
            if kind == b"S":
                self.sync()
            elif not self.writes:
                self.server.sendall(self.held)
                self.held = b""

    def note(self, kind, body):
        if kind == b"P":
            name, query = body.split(b"\0")[:2]
            self.statements[name] = any(word in query for word in WRITES)
            self.writes |= name == b"" and self.statements[name]
        elif kind == b"B":
            self.writes |= self.statements.get(body.split(b"\0")[1], False)

    def sync(self):
        decision = "pass"
        if self.writes:
            decision = self.proxy.number_next()
        self.writes = False
        if decision == "lose_request":
            raise Cut
        with self.lock:
            self.answers.append(decision)
        self.server.sendall(self.held)
        self.held = b""

    def from_server(self):
        kept = b""
        while True:
            head = self.exactly(self.server, 5)
            message = head + self.exactly(self.server, struct.unpack("!I", head[1:])[0] - 4)
            with self.lock:
                decision = self.answers[0] if self.answers else "pass"
                if head[:1] == b"Z" and self.answers:
                    self.answers.pop(0)
            if decision == "pass":
                self.client.sendall(message)
                continue
            kept += message
            if head[:1] == b"Z":
                if decision == "lose_answer":
                    raise Cut
                self.proxy.released.wait()
                self.client.sendall(kept)
                kept = b""


class PgProxy:
    """`folder`: where it listens; `target`: PostgreSQL's socket file."""

    def __init__(self, folder, target):
        self.folder, self.target = folder, target
        self.lock = threading.Lock()
        self.count, self.decide = 0, lambda number: "pass"
        self.released = threading.Event()
        self.links = []
        self.path = folder + "/.s.PGSQL.5432"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        os.chmod(self.path, 0o777)
        self.listener.listen(64)
        self.closing = self.refusing = False
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while not self.closing:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            if self.refusing:
                client.close()
                continue
            try:
                link = Link(self, client)
            except OSError:
                client.close()
                continue
            self.links.append(link)
            link.run()

    def number_next(self):
        with self.lock:
            self.count += 1
            return self.decide(self.count)

    def restart_count(self, decide):
        """Writes are numbered from 1 again, and decided by this function."""
        with self.lock:
            self.count, self.decide = 0, decide
            self.released.clear()

    def release(self):
        self.released.set()

    def cut(self):
        """Every connection that stands."""
        for link in self.links:
            link.close()
        self.links.clear()

    def close(self):
        self.closing = True
        self.released.set()
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        self.cut()
        os.unlink(self.path)
