#!/usr/bin/env bash
# `sagad migrate` brings an empty database up, --check says so, --print is a script that psql runs,
# and a database that is not UTF-8 is refused with the fix.
set -eu
cd "$(dirname "$0")/../.."
sagad=${BUILD:-build}/sagad
. tests/lib/pg.sh
pg_start

expect() { # WHAT TEXT PATTERN
    grep -qE -- "$3" <<<"$2" || { echo "$1: \"$2\" does not match /$3/"; exit 1; }
}
uri() { echo "host=$PGHOST user=postgres dbname=$1"; }

psql -qc 'create database a' -c 'create database b'
psql -qc "create database c encoding 'LATIN1' locale 'C' template template0"

expect "check of an empty database" "$("$sagad" migrate --check --database "$(uri a)" 2>&1 || true)" \
    "migrate"
"$sagad" migrate --database "$(uri a)" >/dev/null
expect "check" "$("$sagad" migrate --check --database "$(uri a)" 2>&1)" "up to date"
"$sagad" migrate --database "$(uri a)" >/dev/null

"$sagad" migrate --print >"$pg_folder/script.sql"
psql -q -v ON_ERROR_STOP=1 -o /dev/null -d b -f "$pg_folder/script.sql"
expect "check of the script's work" "$("$sagad" migrate --check --database "$(uri b)" 2>&1)" "up to date"

dump() { pg_dump -s -n saga -d "$1" | grep -vE '^(--|\\(un)?restrict|$)'; }
diff <(dump a) <(dump b) || { echo "the script makes another schema than migrate"; exit 1; }

code=0
out=$("$sagad" migrate --database "$(uri c)" 2>&1) || code=$?
[ "$code" -ne 0 ] || { echo "a LATIN1 database was accepted"; exit 1; }
expect "LATIN1" "$out" "createdb -T template0 -E UTF8"
expect "LATIN1, nothing written" "$(psql -At -d c -c "select count(*) from pg_namespace where nspname = 'saga'")" "^0$"

# The guide on the database itself: each line of saga.help that is a query runs.
psql -At -d a -c "select try_this from saga.help where try_this like 'select * from saga.%' and try_this not like '%...%'" |
    while read -r query; do psql -q -v ON_ERROR_STOP=1 -o /dev/null -d a -c "$query" || exit 1; done
