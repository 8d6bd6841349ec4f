#!/usr/bin/env bash
# The demo: real sagas against three real services and a private PostgreSQL.
#
# Starts sagad --dev and the shop, plays five scenes, prints what the engine and the services wrote
# down, and checks that they agree. Exits non-zero if they do not. Everything it starts, it ends;
# everything it writes lies in build/demo.
set -euo pipefail
cd "$(dirname "$0")/../.."

BUILD=${BUILD:-build}
BIN=$PWD/$BUILD
DIR=$PWD/$BUILD/demo
CTL=("$BIN/sagactl" --socket "$DIR/.saga/sagad.sock")
PAUSE=${DEMO_PAUSE:-0}
pids=()

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'; else bold='' dim='' plain=''; fi
scene() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; sleep "$PAUSE"; }
say() { printf '%s%s%s\n' "$dim" "$*" "$plain"; }
fail() { printf 'demo: %s\n' "$*" >&2; exit 1; }

cleanup() {
    local code=$?
    trap - EXIT INT TERM
    if [ -n "${sagad_pid:-}" ] && kill -TERM "$sagad_pid" 2>/dev/null; then
        wait "$sagad_pid" 2>/dev/null || true
    fi
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    [ "$code" -eq 0 ] || printf 'the logs are in %s\n' "$DIR" >&2
    exit "$code"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# An earlier demo may have left its PostgreSQL behind (kill -9): the next sagad adopts or stops it.
if [ -e "$DIR/.saga" ]; then
    "$BIN/sagad" --dev "$DIR" >/dev/null 2>&1 & old=$!
    sleep 2
    kill -TERM "$old" 2>/dev/null && wait "$old" 2>/dev/null || true
fi
rm -rf "$DIR"
mkdir -p "$DIR"
cp examples/shop/order.yaml "$DIR/"

# --- the shop ---------------------------------------------------------------------------------
port_of() { # NAME: the port it printed
    local i
    for i in $(seq 100); do
        port=$(sed -n 's/.*:\([0-9]\{2,5\}\).*/\1/p' "$DIR/$1.log" | head -n 1)
        [ -n "$port" ] && return 0
        sleep 0.05
    done
    fail "the $1 service did not start: $(cat "$DIR/$1.log")"
}
declare -A url
: >"$DIR/sagad.yaml.new"
echo "services:" >>"$DIR/sagad.yaml.new"
for service in inventory payments mail; do
    : >"$DIR/$service.log" # it is read before the service has written to it
    "$BIN/examples/shop/$service" --port 0 --ledger "$DIR/$service.ledger" >"$DIR/$service.log" 2>&1 &
    pids+=($!)
    port_of "$service"
    url[$service]=http://127.0.0.1:$port
    echo "  $service: {url: \"${url[$service]}\"}" >>"$DIR/sagad.yaml.new"
done
mv "$DIR/sagad.yaml.new" "$DIR/sagad.yaml"
switch() { curl -fsS -X PUT "${url[$1]}/switches" -d "$2" >/dev/null; }

# --- sagad ------------------------------------------------------------------------------------
sagad_start() {
    "$BIN/sagad" --dev "$DIR" >"$DIR/sagad.out" 2>>"$DIR/sagad.log" &
    sagad_pid=$!
    for _ in $(seq 600); do
        grep -q 'sagad is ready' "$DIR/sagad.out" && return 0
        kill -0 "$sagad_pid" 2>/dev/null || { tail -n 5 "$DIR/sagad.log" >&2; fail "sagad ended"; }
        sleep 0.1
    done
    fail "sagad is not ready after a minute"
}
say "starting the shop (inventory, payments, mail) and sagad with a private PostgreSQL in $BUILD/demo"
sagad_start
PSQL=$(sed -n 's/^  database  //p' "$DIR/sagad.out")
sql() { eval "$PSQL" -X -q -P pager=off -v ON_ERROR_STOP=1 '"$@"'; }
ask() { sql -At -c "$1"; }

input() { # NUMBER SKU EMAIL
    printf '{"order_id":"ORD-%06d","amount_cents":%d,"sku":"%s","email":"%s"}' "$1" $((1990 + $1)) "$2" "$3"
}
order() { # EXPECTED_EXIT NUMBER SKU EMAIL: submits, waits, tells what happened
    local code=0
    "${CTL[@]}" run order --input "$(input "$2" "$3" "$4")" --wait --timeout 60s -o name >"$DIR/last" || code=$?
    [ "$code" -eq "$1" ] || fail "order $2: sagactl run --wait ended with $code, expected $1"
    tell "$(head -n 1 "$DIR/last")"
}
tell() { # RUN: its history, without the day
    "${CTL[@]}" events "$1" | sed 's/^[^T]*T/  /; s/Z  /  /'
}
ledger() { # SERVICE KEY FIELD
    curl -fsS "${url[$1]}/ledger" | python3 -c '
import json, sys
print(sum(e[sys.argv[2]] for e in json.load(sys.stdin) if e["key"] == sys.argv[1]))' "$2" "$3"
}

scene "1. An order that goes through."
order 0 1 lamp ada@example.com

scene "2. The confirmation is refused for good: the charge is refunded, then the stock let go."
switch mail '{"refuse":{"status":422,"code":"address_rejected","field":"to","value":"nobody@example.com"}}'
order 5 2 lamp nobody@example.com

scene "3. The payment's answer is lost after the charge: payments are asked about the key, and nothing is sent again."
switch payments '{"drop":1}'
order 0 3 lamp bob@example.com
sql -At -c "select '  payments answered ' || (body -> 'body') || ': ' || detail from saga.findings where run_id = 'order-ORD-000003' order by number"
seen=$(ledger payments order-ORD-000003:charge:execute times_seen)
say "payments saw the charge $seen time and charged $(ledger payments order-ORD-000003:charge:execute effects_applied) time"
[ "$seen" -eq 1 ] || fail "the charge of order 3 was sent $seen times"

scene "4. sagad is killed with -9 while the charge is in flight; the next one asks what became of it."
switch payments '{"slow_ms":1500}'
"${CTL[@]}" run order --input "$(input 4 lamp eve@example.com)" -o name >/dev/null
for _ in $(seq 100); do
    [ "$(ledger payments order-ORD-000004:charge:execute times_seen)" -ge 1 ] && break
    sleep 0.05
done
kill -9 "$sagad_pid"
{ wait "$sagad_pid" || true; } 2>/dev/null
say "killed while payments was working"
switch payments '{"slow_ms":0}'
sagad_start
code=0
"${CTL[@]}" wait order-ORD-000004 --timeout 60s >/dev/null || code=$?
[ "$code" -eq 0 ] || fail "order 4: wait ended with $code"
tell order-ORD-000004

scene "5. The same order submitted twice: one run."
order 0 5 lamp joe@example.com
order 0 5 lamp joe@example.com

# --- what was written down ------------------------------------------------------------------------
scene "saga.runs"
sql -c "select run_id, state, cause, age, error ->> 'code' as error from saga.runs order by created_at"
scene "saga.steps"
sql -c "select run_id, step_id, effect, state, compensation_state, attempts from saga.steps order by run_id, started_at nulls last"
scene "saga.timeline of the order that was walked back"
sql -c "select to_char(at, 'HH24:MI:SS.MS') as at, step_id, what, detail from saga.timeline where run_id = 'order-ORD-000002' order by seq"
scene "The ledgers of the shop: what really happened"
for service in inventory payments mail; do
    curl -fsS "${url[$service]}/ledger" | python3 -c '
import json, sys
for e in json.load(sys.stdin):
    print("  %-10s %-36s %-34s seen %d, effects %d" % (sys.argv[1], e["key"], e["what"], e["times_seen"], e["effects_applied"]))' "$service"
done

scene "Do they agree?"
for service in inventory payments mail; do curl -fsS "${url[$service]}/ledger" >"$DIR/$service.json"; done
ask "select json_agg(json_build_object('run', run_id, 'step', step_id, 'state', state, 'undo', compensation_state, 'key', key, 'undo_key', compensation_key)) from saga.steps" >"$DIR/steps.json"
ask "select json_object_agg(run_id, state) from saga.runs" >"$DIR/runs.json"
python3 - "$DIR" <<'PYTHON'
import json, os, sys
folder = sys.argv[1]
load = lambda name: json.load(open(os.path.join(folder, name + ".json")))
effects = {}
for service in ("inventory", "payments", "mail"):
    for entry in load(service):
        effects[entry["key"]] = effects.get(entry["key"], 0) + entry["effects_applied"]
wrong = []
known = set()
for step in load("steps"):
    for key, state in ((step["key"], step["state"]), (step["undo_key"], step["undo"])):
        if not key:
            continue
        known.add(key)
        count = effects.get(key, 0)
        if (state == "applied") != (count == 1) or count > 1:
            wrong.append("%s is %s, the ledger has %d effects" % (key, state, count))
wrong += ["%s is in a ledger and in no run" % key for key in effects if key not in known]
expected = {"order-ORD-%06d" % n: "compensated" if n == 2 else "completed" for n in range(1, 6)}
runs = load("runs")
if runs != expected:
    wrong.append("the runs are %s" % runs)
for line in wrong:
    print("  WRONG: " + line)
print("  %d keys in %d runs: %s" % (len(known), len(runs), "they do not agree" if wrong else "every effect happened once, and both sides say the same"))
sys.exit(bool(wrong))
PYTHON
