#!/usr/bin/env python3
"""Workflows that run each other are applied: a child that its parents would not fit any more."""

import json
import os
import signal

from lib import SAGAD, case, main, spawn, wait_until

PAY = """
workflow: pay
run_id: pay-${{ input.id }}
input: {type: object, required: [id], properties: {id: {type: string}}}
steps: [{id: a, action: {sleep: 1ms}}]
output: {charge_id: "c-${{ input.id }}"}
"""

ORDER = """
workflow: order
run_id: order-${{ input.id }}
input: {type: object, required: [id], properties: {id: {type: string}}}
steps:
  - id: pay
    action: {child: pay, input: {id: "${{ input.id }}"}}
output: {charge: "${{ steps.pay.output.charge_id }}"}
"""

PAY_2 = PAY.replace("charge_id:", "charge:").replace("required: [id]", "required: [id, cents]")
ORDER_2 = ORDER.replace("output.charge_id", "output.charge").replace(
    'input.id }}"}}', 'input.id }}", cents: 5}}')


def put(daemon, *sources, path="/v1/workflows", method="PUT"):
    """Several workflows in one request."""
    return daemon.http(method, path, json.dumps({"files": [
        {"file": "f%d.yaml" % i, "source": source} for i, source in enumerate(sources)]}),
        {"Content-Type": "application/json"})


def current(env):
    return env.rows("select name, version from saga.workflow where current order by name")


@case
def a_child_that_its_parent_would_not_fit_any_more(env):
    """Refused with the parent, the step, the line and what does not fit, and nothing changes; in
    one request with the parent it is applied, and what runs then is the new pair."""
    daemon = env.daemon("a").start("--lease", "2s")
    daemon.apply(PAY)
    daemon.apply(ORDER)
    before = current(env)
    reply = daemon.http("PUT", "/v1/workflows", PAY_2)
    said = [(e["code"], e["message"]) for e in reply.json()["errors"]]
    assert reply.status == 422 and said == [
        ("E131", "the current workflow `order` would not fit any more: line 7, step `pay`: the "
                 "input of `pay` does not fit: /cents is required"),
        ("E131", "the current workflow `order` would not fit any more: line 8, `output`: unknown "
                 "field `charge_id` of `steps.pay.output`")], reply
    assert "apply both files together" in reply.json()["errors"][0]["help"], reply
    reply = daemon.http("POST", "/v1/validate", PAY_2)
    assert not reply.json()["ok"], reply
    reply = daemon.http("PUT", "/v1/workflows", ORDER_2)  # nor does the parent go first
    assert reply.status == 422 and "E204" in [e["code"] for e in reply.json()["errors"]], reply
    assert current(env) == before
    run = daemon.submit("order", {"id": "1"}, wait=10).json()
    assert run["state"] == "completed" and run["output"] == {"charge": "c-1"}, run

    assert put(daemon, PAY_2, ORDER_2, path="/v1/validate", method="POST").json()["ok"]
    assert current(env) == before
    reply = put(daemon, PAY_2, ORDER_2)
    assert reply.status == 200, reply
    assert [(f["file"], f["workflow"], f["status"]) for f in reply.json()["files"]] == [
        ("f0.yaml", "pay", "applied"), ("f1.yaml", "order", "applied")], reply
    run = daemon.submit("order", {"id": "2"}, wait=10).json()
    assert run["state"] == "completed" and run["output"] == {"charge": "c-2"}, run
    assert [f["status"] for f in put(daemon, PAY_2, ORDER_2).json()["files"]] == ["unchanged"] * 2
    assert [f["status"] for f in put(daemon, ORDER, PAY).json()["files"]] == ["current"] * 2


@case
def a_parent_that_never_fitted(env):
    """A parent may come before its child; a child that it does not fit is then a warning, because
    nothing gets worse."""
    daemon = env.daemon("a").start("--lease", "2s")
    assert [w["code"] for w in daemon.apply(ORDER)["warnings"]] == ["W315"]
    warnings = daemon.apply(PAY_2)["warnings"]
    assert [w["code"] for w in warnings] == ["W319", "W319"], warnings
    assert "`order` does not fit" in warnings[0]["message"], warnings
    assert daemon.apply(ORDER_2)["warnings"] == []
    run = daemon.submit("order", {"id": "1"}, wait=10).json()
    assert run["state"] == "completed", run


@case
def all_or_none(env):
    """Of files in one request none is applied if one has errors, or a label that stands for other
    content; a request that is none is refused."""
    daemon = env.daemon("a").start("--lease", "2s")
    labelled = PAY.replace("workflow: pay", "workflow: pay\nversion: '1'")
    daemon.apply(labelled)
    before = current(env)
    other = ORDER.replace("workflow: order", "workflow: other")
    reply = put(daemon, other, labelled.replace("1ms", "2ms"))
    assert reply.status == 409 and '"pay"' in reply.json()["detail"], reply
    reply = put(daemon, other, "workflow: bad\n")
    assert reply.status == 422 and {e["file"] for e in reply.json()["errors"]} == {"f1.yaml"}, reply
    reply = put(daemon, other, other.replace("charge:", "paid:"))
    assert reply.status == 422 and [e["code"] for e in reply.json()["errors"]] == ["E132"], reply
    assert current(env) == before
    for body in ('{"files": []}', '{"files": 1}', '{"files": [1]}', '{"files": [{"source": 1}]}',
                 '{"files": [{"file": "a"}]}', '{"files": [{"source": "", "x": 1}]}', "{}",
                 '{"files": [{"source": ""}], "x": 1}', '{"files": [{"source": ""}]}',
                 json.dumps({"files": [{"source": "x"}] * 1001})):
        reply = daemon.http("PUT", "/v1/workflows", body, {"Content-Type": "application/json"})
        assert reply.status == 422, (body, reply)
    assert daemon.http("PUT", "/v1/workflows", "[", {"Content-Type": "application/json"}).status == 400
    assert current(env) == before


@case
def a_directory_by_sagactl(env):
    """apply DIR brings both at once; the child alone is refused in words that say where."""
    daemon = env.daemon("a").start("--lease", "2s")
    folder = env.folder + "/flows"
    os.mkdir(folder)

    def write(**files):
        for name, text in files.items():
            with open("%s/%s.yaml" % (folder, name), "w") as file:
                file.write(text)

    write(pay=PAY, order=ORDER)
    assert daemon.ctl("apply", folder).code == 0
    write(pay=PAY_2)
    result = daemon.ctl("apply", folder + "/pay.yaml")
    assert result.code == 2 and "line 8, `output`: unknown field `charge_id`" in result.err, result
    assert result.err.endswith("nothing was applied\n"), result
    result = daemon.ctl("apply", folder)
    assert result.code == 2 and "order.yaml:8:40: error[E204]" in result.err, result
    write(order=ORDER_2)
    result = daemon.ctl("apply", folder)
    assert result.code == 0 and result.out.count("applied") == 2, result
    run = daemon.submit("order", {"id": "1"}, wait=10).json()
    assert run["output"] == {"charge": "c-1"}, run


@case
def files_of_dev_that_change_together(env):
    """Under --dev files are saved one after the other: the child waits until its parent is there."""
    folder = env.folder + "/dev"
    os.mkdir(folder)

    def write(name, text):
        with open("%s/%s.yaml" % (folder, name), "w") as file:
            file.write(text)

    def err():
        with open(env.folder + "/dev.err") as file:
            return file.read()

    write("pay", PAY)
    write("order", ORDER)
    with open(env.folder + "/dev.out", "w") as out, open(env.folder + "/dev.err", "w") as log:
        process = spawn([SAGAD, "--dev", folder, "--ephemeral"], stdout=out, stderr=log)
    env.closers.append(lambda: process.poll() is None and process.kill())
    daemon = env.daemon("dev")
    daemon.socket = folder + "/.saga/sagad.sock"
    wait_until("both are applied", lambda: err().count(": applied") == 2, 40)
    write("pay", PAY_2)
    wait_until("the child is refused", lambda: "error[E131]: the current workflow `order`" in err(), 10)
    wait_until("it is said", lambda: "pay.yaml: not applied" in err(), 10)
    assert daemon.submit("order", {"id": "1"}, wait=10).json()["output"] == {"charge": "c-1"}
    write("order", ORDER_2)
    wait_until("both are applied", lambda: err().count(": applied") == 4, 10)
    assert daemon.submit("order", {"id": "2"}, wait=10).json()["output"] == {"charge": "c-2"}
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0, err()
    env.daemons.remove(daemon)
    env.keys_known = False  # its database is gone


if __name__ == "__main__":
    main()
