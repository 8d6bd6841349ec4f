#!/usr/bin/env python3
"""A worker in Python, standard library only: worker.py SOCKET [TASKS]

Weighs parcels (queue `scales`), and sends heartbeats while it does. Ends after TASKS tasks.
"""
import http.client
import json
import socket
import sys
import threading
import time


class Daemon(http.client.HTTPConnection):
    """HTTP over sagad's control socket."""

    def __init__(self, path):
        super().__init__("saga", timeout=90)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def post(path, where, body):
    """The answer's status and JSON."""
    daemon = Daemon(path)
    try:
        daemon.request("POST", "/v1/" + where, json.dumps(body),
                       {"Content-Type": "application/json"})
        answer = daemon.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        daemon.close()


def beat(path, task, ended):
    """Says that the task is still worked on, several times in the span that is asked for."""
    while task["heartbeat"] and not ended.wait(2):
        post(path, "tasks/heartbeat", {"key": task["key"], "token": task["token"]})


def weigh(parcel, heavy):
    """What this worker is for. Raises ValueError for a parcel that nobody carries."""
    grams = 31000 if heavy else 100 + 7 * len(parcel)
    if grams > 30000:
        raise ValueError("%s weighs %d g, 30000 are allowed" % (parcel, grams))
    return grams


def work(path, task):
    ended = threading.Event()
    threading.Thread(target=beat, args=(path, task, ended), daemon=True).start()
    word = {"key": task["key"], "token": task["token"]}
    try:
        word["output"] = {"grams": weigh(task["payload"]["parcel"], task["payload"]["heavy"])}
        verb = "complete"
    except ValueError as error:
        word.update(code="too_heavy", message=str(error), retryable=False)
        verb = "fail"
    finally:
        ended.set()
    status, answer = post(path, "tasks/" + verb, word)
    if status == 409:
        print("lost the task to another worker:", answer["detail"], file=sys.stderr)
    return status in (200, 202)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    path, left = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else -1
    while left != 0:
        try:
            status, answer = post(path, "queues/scales/take", {"worker": "python", "wait": 30})
            for task in answer["tasks"] if status == 200 else []:
                left -= work(path, task)
        except (OSError, http.client.HTTPException) as error:
            print("the daemon is away:", error, file=sys.stderr)
            time.sleep(1)


if __name__ == "__main__":
    main()
