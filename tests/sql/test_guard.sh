#!/usr/bin/env bash
# The participant kit: `sagad guard --print` installs it alone, beside the engine, and again; each
# verdict of saga_guard.claim, one after the other and in two sessions at once.
set -eu
cd "$(dirname "$0")/../.."
sagad=${BUILD:-build}/sagad
. tests/lib/pg.sh
pg_start
passed=0 failed=0

is() { # WHAT EXPECTED GOT
    if [ "$2" = "$3" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAIL %s\n  expected %s\n  got      %s\n' "$1" "$2" "$3"
    fi
}
sql() { psql -qAtX -d shop -v ON_ERROR_STOP=1 -v VERBOSITY=sqlstate "$@" 2>&1; }
as_app() { PGUSER=shop_app sql "$@"; }
claim() { # ARGUMENTS: the verdict and the answer of a claim alone, rolled back
    as_app -c "begin" -c "select verdict || coalesce(' ' || answer, '') from saga_guard.claim($1)" -c rollback
}
act() { # KEY HASH ANSWER [DIRECTION COMPENSATES]
    local more=${4:+, \'$4\'}${5:+, \'$5\'}
    as_app -c "begin" -c "select verdict from saga_guard.claim('$1', '$2'$more)" \
        -c "insert into booked values ('$1')" -c "select saga_guard.done('$1', '$3')" -c commit | sed -n 1p
}

psql -qX -c 'create database shop' -c 'create role shop_app login'
"$sagad" guard --print >"$pg_folder/guard.sql"
chmod 644 "$pg_folder/guard.sql"
install() { sql -o /dev/null -f "$pg_folder/guard.sql"; }
dump() { pg_dump -d shop -n saga_guard | grep -vE '^(--|\\(un)?restrict|$)'; }

is "it installs without the engine" "" "$(install)"
dump >"$pg_folder/once"
is "and again" "" "$(install)"
is "changing nothing" "" "$(dump | diff "$pg_folder/once" -)"
sql -c 'create table booked (key text)' -c 'grant all on booked to shop_app'

is "nobody may use it unasked" "ERROR:  42501" "$(as_app -c "select saga_guard.claim('k', 'h')")"
sql -c "select saga_guard.allow('shop_app')" >/dev/null
is "tables stay private" "ERROR:  42501" "$(as_app -c 'select * from saga_guard.effect')"
is "what is the owner's stays the owner's" "ERROR:  42501" "$(as_app -c "select saga_guard.promise_ttl('1s')")"
is "everything has a comment" "" "$(sql -c "
    select p.oid::regprocedure::text from pg_proc p
     where pronamespace = 'saga_guard'::regnamespace and obj_description(p.oid, 'pg_proc') is null
    union all
    select c.relname || '.' || a.attname from pg_class c join pg_attribute a on a.attrelid = c.oid
     where c.relnamespace = 'saga_guard'::regnamespace and c.relkind in ('r', 'v') and a.attnum > 0
       and col_description(c.oid, a.attnum) is null
    union all
    select c.relname from pg_class c
     where c.relnamespace = 'saga_guard'::regnamespace and c.relkind in ('r', 'v')
       and obj_description(c.oid, 'pg_class') is null")"
is "every function pins search_path, and nothing is open to all" "" "$(sql -c "
    select p.oid::regprocedure::text from pg_proc p
     where pronamespace = 'saga_guard'::regnamespace
       and (coalesce(array_to_string(proconfig, ','), '') not like '%search_path=pg_catalog%'
            or has_function_privilege('public', p.oid, 'execute'))")"

# --- the verdicts, one after the other
is "first" proceed "$(act k1 h1 '{"id": 7,  "n": 10.10}')"
is "a repeat gets the stored answer, byte by byte" 'replay {"id": 7,  "n": 10.10}' "$(claim "'k1', 'h1'")"
is "another hash" conflict "$(claim "'k1', 'h2'")"
is "the key of an action used for an undo" conflict "$(claim "'k1', 'h1', 'compensate', 'k0'")"
is "an undo sees what was answered" 'proceed {"id": 7,  "n": 10.10}' "$(claim "'u1', 'h', 'compensate', 'k1'")"
is "undone" proceed "$(act u1 h '{"ok": 1}' compensate k1)"
is "the undo's repeat" 'replay {"ok": 1}' "$(claim "'u1', 'h', 'compensate', 'k1'")"
is "the undo's key for another action" conflict "$(claim "'u1', 'h', 'compensate', 'k2'")"
is "late, after its undo" refused "$(claim "'k1', 'h1'")"
is "undone before, by another key" nothing "$(claim "'u1b', 'h', 'compensate', 'k1'")"

as_app -c begin -c "select saga_guard.claim('u2', 'h', 'compensate', 'k2')" -c commit >/dev/null
is "undo of nothing is remembered" nothing "$(claim "'u2', 'h', 'compensate', 'k2'")"
is "its repeat with another hash" conflict "$(claim "'u2', 'other', 'compensate', 'k2'")"
is "the late forward is refused, whatever it says" refused "$(claim "'k2', 'any'")"
is "and the undo by a new generation finds nothing" nothing "$(claim "'u2@2', 'h', 'compensate', 'k2'")"
is "the action's next generation is another key" proceed "$(claim "'k2@2', 'h'")"

as_app -c begin -c "select saga_guard.claim('k3', 'h')" -c "select saga_guard.done('k3', '{\"no\": 1}', false)" -c commit >/dev/null
is "a stored refusal is given again" 'replay {"no": 1}' "$(claim "'k3', 'h'")"
is "and there is nothing to undo" nothing "$(claim "'u3', 'h', 'compensate', 'k3'")"
is "a refusal rolled back leaves the key free" proceed "$(claim "'k4', 'h'"; claim "'k4', 'h2'" >/dev/null)"

# --- wrong use
is "commit without an answer is refused" "ERROR:  55000" \
    "$(as_app -c begin -c "select from saga_guard.claim('k5', 'h')" -c commit | tail -1)"
is "and has left nothing" proceed "$(claim "'k5', 'h2'")"
is "done without a claim" "ERROR:  55000" "$(as_app -c "select saga_guard.done('k6', '{}')")"
is "done after a replay" "ERROR:  55000" \
    "$(as_app -c "select saga_guard.done('k1', '{}')" | tail -1)"
is "no hash" "ERROR:  22004" "$(claim "'k7', null" | head -1)"
is "an undo of no name" "ERROR:  22004" "$(claim "'k7', 'h', 'compensate'" | head -1)"
is "an undo of itself" "ERROR:  22023" "$(claim "'k7', 'h', 'compensate', 'k7'" | head -1)"
is "an undo of an undo" "ERROR:  22023" "$(claim "'k7', 'h', 'compensate', 'u1'" | head -1)"
is "a strange direction" "ERROR:  23514" "$(claim "'k7', 'h', 'sideways'" | head -1)"
is "a key of 256 bytes" "ERROR:  23514" "$(claim "repeat('k', 256), 'h'" | head -1)"
is "no key" "ERROR:  23502" "$(claim "null, 'h'" | head -1)"

# --- hashes
is "order, space and spelling of numbers do not count" t \
    "$(sql -c "select saga_guard.hash('{\"a\": 10.1, \"b\": [1, {\"c\": 2}]}') = saga_guard.hash('{\"b\":[1.0,{\"c\":20e-1}],\"a\":10.100}')")"
is "everything else does" 8 \
    "$(sql -c "select count(distinct saga_guard.hash(b::jsonb)) from unnest(array['{}', '[]', '1', '\"1\"', '[1,2]', '[2,1]', '{\"a\":null}', '10.01']) b")"

# --- what is kept, and for how long
is "nothing young is forgotten" 0 "$(sql -c 'select saga_guard.forget()')"
is "nor by a negative spare" "ERROR:  22023" "$(sql -c "select saga_guard.forget('-8 days')")"
sql -c "select saga_guard.promise_ttl('1 ms')" >/dev/null
is "a shorter promise does not reach back" 0 "$(sql -c 'select pg_sleep(0.01)' -c 'select saga_guard.forget()' | tail -1)"
act k8 h '{"old": true}' >/dev/null
is "what is past its promise is forgotten" 1 "$(sql -c 'select pg_sleep(0.01)' -c 'select saga_guard.forget()' | tail -1)"
is "its repeat is told, and does nothing" expired "$(claim "'k8', 'h'")"
is "a conflict stays one" conflict "$(claim "'k8', 'h2'")"
is "its undo still finds it" proceed "$(claim "'u8', 'h', 'compensate', 'k8'")"
is "an hour more is an hour more" 0 "$(act k9 h '{}' >/dev/null; sql -c 'select pg_sleep(0.01)' -c "select saga_guard.forget('1 hour')" | tail -1)"
sql -c "select saga_guard.promise_ttl('7 days')" >/dev/null

# --- two sessions at once
wait_blocked() { # until N sessions wait for a lock
    for _ in $(seq 200); do
        [ "$(sql -c "select count(*) from pg_stat_activity where wait_event_type = 'Lock'")" -ge "$1" ] && return
        sleep 0.02
    done
    echo "nobody waits"
}
race() { # FIRST-STATEMENTS END SECOND: the second begins before the first has ended
    coproc first { PGUSER=shop_app psql -qAtX -d shop 2>&1; }
    echo "begin; $1; select 'ready';" >&"${first[1]}"
    while read -r line <&"${first[0]}" && [ "$line" != ready ]; do :; done
    as_app -c "${4:-begin}" -c "$3" -c commit >"$pg_folder/second" 2>&1 &
    local second=$!
    wait_blocked 1
    echo "$2;" >&"${first[1]}"
    local in=${first[1]}
    eval "exec $in>&-"
    wait "$second" || true
    wait
    head -1 "$pg_folder/second"
}
do_it() { echo "select from saga_guard.claim('$1', 'h'); insert into booked values ('$1'); select saga_guard.done('$1', '{\"id\": 1}')"; }
again="select verdict || coalesce(' ' || answer, '') from saga_guard.claim"
is "a duplicate waits, then replays" 'replay {"id": 1}' "$(race "$(do_it r1)" commit "$again('r1', 'h')")"
is "a duplicate of what was rolled back goes on" proceed "$(race "$(do_it r2)" rollback "$again('r2', 'h')")"
is "an undo waits for its action" 'proceed {"id": 1}' "$(race "$(do_it r3)" commit "$again('x3', 'h', 'compensate', 'r3')")"
is "an undo of what was rolled back" nothing "$(race "$(do_it r4)" rollback "$again('x4', 'h', 'compensate', 'r4')")"
is "a forward waits for the undo of nothing" refused "$(race "select from saga_guard.claim('x5', 'h', 'compensate', 'r5')" commit "$again('r5', 'h')")"
for level in 'repeatable read' serializable; do
    is "$level: the duplicate is to be tried again" "ERROR:  40001" \
        "$(race "$(do_it "r6 $level")" commit "$again('r6 $level', 'h')" "begin isolation level $level; select 1 from booked limit 0")"
    is "$level: and then replays" 'replay {"id": 1}' "$(claim "'r6 $level', 'h'")"
done
is "who does not want to wait is told" "ERROR:  55P03" \
    "$(race "$(do_it r7)" "select pg_sleep(1); commit" "set local lock_timeout = '400ms'; $again('r7', 'h')")"

# Twelve sessions, one key: one effect.
for _ in $(seq 12); do act many h '{"one": 1}' >>"$pg_folder/many" & done
wait
is "twelve at once do it once" 1 "$(grep -c proceed "$pg_folder/many")"

# --- beside the engine
"$sagad" migrate --database "host=$PGHOST user=postgres dbname=shop" >/dev/null
is "it lives beside the engine's schema" "" "$(install)"
is "and keeps what it knows" 'replay {"id": 1}' "$(claim "'r1', 'h'")"
is "each line of the guide runs" "" "$(sql -c "select try_this from saga_guard.help where try_this like 'select%' and try_this not like '%ROLE%' and try_this not like '%done%'" |
    while read -r query; do sql -o /dev/null -c begin -c "$query" -c rollback; done)"

code=0
"$sagad" guard >/dev/null 2>&1 || code=$?
is "guard without --print is wrong usage" 2 "$code"

echo
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
