# pg.sh: a private PostgreSQL for a test script. Source it, then:
#
#   pg_start            starts one in a temporary folder (Unix socket only, fsync off); sets PGHOST,
#                       PGUSER, PGDATABASE, so that psql and libpq find it
#   pg_stop             stops and removes it; also done when the script ends
#
# PostgreSQL refuses to run as root: then it runs as user postgres.

pg_folder=

pg_as_owner() {
    if [ "$(id -u)" -eq 0 ]; then
        setpriv --reuid postgres --regid postgres --init-groups "$@"
    else
        "$@"
    fi
}

pg_start() {
    local bin
    bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
    pg_folder=$(mktemp -d /tmp/sgtXXXXXX)
    [ "$(id -u)" -ne 0 ] || chown postgres "$pg_folder"
    trap pg_stop EXIT
    pg_as_owner "$bin/initdb" -D "$pg_folder/data" -U postgres -A trust -E UTF8 --locale=C.UTF-8 \
        --no-sync --no-instructions >/dev/null
    cat >>"$pg_folder/data/postgresql.conf" <<CONF
listen_addresses = ''
unix_socket_directories = '$pg_folder'
fsync = off
CONF
    (cd / && pg_as_owner "$bin/pg_ctl" -D "$pg_folder/data" -l "$pg_folder/log" -w start >/dev/null)
    pg_ctl_path=$bin/pg_ctl
    export PGHOST=$pg_folder PGUSER=postgres PGDATABASE=postgres
}

pg_stop() {
    [ -n "$pg_folder" ] || return 0
    (cd / && pg_as_owner "$pg_ctl_path" -D "$pg_folder/data" -m immediate -w stop >/dev/null)
    rm -rf "$pg_folder"
    pg_folder=
}
