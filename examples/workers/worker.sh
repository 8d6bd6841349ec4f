#!/bin/sh
# A worker in shell, with curl and jq: ./worker.sh SOCKET [TASKS]
# Prints labels (queue `printers`) until it has done TASKS of them (default: for ever).
set -eu
socket=${1:?usage: worker.sh SOCKET [TASKS]}
tasks=${2:--1}
state=${WORKER_STATE:-/tmp/labels}

post() { # PATH BODY
    curl -sS --fail-with-body --unix-socket "$socket" -H 'Content-Type: application/json' \
        "http://saga/v1/$1" -d "$2"
}

mkdir -p "$state"
while [ "$tasks" -ne 0 ]; do
    # Waits up to 30 seconds for a task. A daemon that restarts is asked again.
    answer=$(post queues/printers/take '{"worker": "shell", "wait": 30}') || { sleep 1; continue; }
    task=$(printf '%s' "$answer" | jq -c '.tasks[0] // empty')
    [ -n "$task" ] || continue

    # The key names the effect: what was done for it before is not done again.
    key=$(printf '%s' "$task" | jq -r .key)
    done_for_key=$state/$(printf '%s' "$key" | tr -c 'A-Za-z0-9._\n-' _)
    if [ ! -e "$done_for_key" ]; then
        label="LABEL-$(printf '%s' "$task" | jq -r .payload.parcel)"
        printf '%s\n' "$label" >"$done_for_key.new"
        mv "$done_for_key.new" "$done_for_key"
    fi

    post tasks/complete "$(printf '%s' "$task" | jq -c --arg text "$(cat "$done_for_key")" \
        '{key, token, output: {label: $text}}')" >/dev/null || continue
    tasks=$((tasks - 1))
done
