#include "engine/migrate.h"

#include "engine/base/arena.h"
#include "engine/base/sha256.h"
#include "engine/pgconn.h"
#include "sql/bundle.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>

#define SERVER_VERSION_MIN 140000 /* bit_count, pipelines of the extended protocol */

/* "SAGA": one installation per database, so one lock per database is right. */
#define LOCK_SQL "select pg_catalog.pg_advisory_xact_lock(1396786497)"

/* Session settings of the role or database must not decide how a migration runs. Waiting for
 * another migration may take long; waiting for a table may not, because everybody who needs the
 * table queues behind the one who waits. */
#define SETTINGS_SQL                                                                          \
    "set client_encoding = 'UTF8'; set client_min_messages = warning; set timezone = 'UTC'; " \
    "set statement_timeout = 0; set idle_in_transaction_session_timeout = 0; "                \
    "set lock_timeout = '300s'; set search_path = pg_catalog, pg_temp; "                      \
    "set check_function_bodies = off; set default_transaction_read_only = off; "              \
    "set default_transaction_isolation = 'read committed'; set synchronous_commit = on"

static PGconn *open_database(const char *uri, struct err *err);
static int read_versions(PGconn *conn, struct migrate_report *report, struct err *err);
static int check_database(PGconn *conn, struct migrate_report *report, struct err *err);
static int check_versions(struct migrate_report *report, struct err *err);
static int migrate_locked(PGconn *conn, struct migrate_report *report, struct err *err);
static int run(PGconn *conn, const char *sql, const char *what, struct err *err);
static int fail(PGconn *conn, const PGresult *result, struct err *err);
static void api_hash(char hex[65]);
static bool api_is_current(PGconn *conn);

int migrate_version(void)
{
    int version = 0;
    for (const struct sql_file *file = sql_migrations; file->name; file++)
        version = atoi(file->name);
    return version;
}

int migrate_check(const char *uri, struct migrate_report *report, struct err *err)
{
    *report = (struct migrate_report){.binary_version = migrate_version()};
    PGconn *conn = open_database(uri, err);
    if (!conn)
        return err->code;
    int rc = check_database(conn, report, err);
    if (!rc)
        rc = read_versions(conn, report, err);
    if (!rc)
        rc = check_versions(report, err);
    report->up_to_date = !rc && report->schema_version >= report->binary_version;
    PQfinish(conn);
    return rc;
}

int migrate_run(const char *uri, struct migrate_report *report, struct err *err)
{
    *report = (struct migrate_report){.binary_version = migrate_version()};
    PGconn *conn = open_database(uri, err);
    if (!conn)
        return err->code;
    int rc = check_database(conn, report, err);
    if (!rc)
        rc = run(conn, SETTINGS_SQL, "settings", err);
    if (!rc)
        rc = run(conn, "begin", "begin", err);
    if (!rc)
        rc = run(conn, LOCK_SQL, "wait for another migration", err);
    if (!rc)
        rc = run(conn, "set local lock_timeout = '10s'", "settings", err);
    if (!rc)
        rc = migrate_locked(conn, report, err);
    if (!rc)
        rc = run(conn, "commit", "commit", err);
    PQfinish(conn);
    return rc;
}

/* Decides and works under the lock; the caller commits. */
static int migrate_locked(PGconn *conn, struct migrate_report *report, struct err *err)
{
    int rc = read_versions(conn, report, err);
    if (!rc)
        rc = check_versions(report, err);
    if (rc)
        return rc;
    report->up_to_date = report->schema_version > report->binary_version ||
                         (report->schema_version == report->binary_version && api_is_current(conn));
    if (report->up_to_date)
        return 0;

    if ((rc = run(conn, sql_roles[0].text, "roles", err)))
        return rc;
    if (!report->schema_version &&
        (rc = run(conn, "create schema saga authorization saga_admin", "schema", err)))
        return rc;
    if ((rc = run(conn, "set local role saga_admin", "role", err)))
        return rc;
    for (const struct sql_file *file = sql_migrations; file->name; file++) {
        int version = atoi(file->name);
        if (version <= report->schema_version)
            continue;
        if ((rc = run(conn, file->text, file->name, err)))
            return rc;
        char sql[256];
        snprintf(sql, sizeof(sql),
                 "insert into saga.migration (version, name) values (%d, '%s');"
                 "insert into saga.meta (schema_version, min_version) values (%d, 1)"
                 " on conflict (singleton) do update set schema_version = excluded.schema_version",
                 version, file->name, version);
        if ((rc = run(conn, sql, file->name, err)))
            return rc;
    }
    for (const struct sql_file *file = sql_api; file->name; file++)
        if ((rc = run(conn, file->text, file->name, err)))
            return rc;
    if ((rc = run(conn, sql_grants[0].text, "grants", err)))
        return rc;
    char hex[65], sql[160];
    api_hash(hex);
    snprintf(sql, sizeof(sql), "update saga.meta set api_hash = '%s'", hex);
    return run(conn, sql, "api hash", err);
}

void migrate_print(struct buf *out)
{
    char hex[65];
    buf_printf(out,
               "-- The schema of the saga engine, version %d, for an empty database.\n"
               "-- Run it with: psql -v ON_ERROR_STOP=1 -f FILE DATABASE\n\n%s;\n\n"
               "do $$\nbegin\n"
               "    if pg_catalog.getdatabaseencoding() <> 'UTF8' then\n"
               "        raise exception 'database \"%%\" has encoding %%, not UTF8',\n"
               "              current_database(), pg_catalog.getdatabaseencoding()\n"
               "              using hint = 'createdb -T template0 -E UTF8 NAME';\n"
               "    end if;\nend\n$$;\n\nbegin;\n" LOCK_SQL ";\n\n",
               migrate_version(), SETTINGS_SQL);
    buf_printf(out,
               "%s\ncreate schema saga authorization saga_admin;\n"
               "set local role saga_admin;\n\n",
               sql_roles[0].text);
    for (const struct sql_file *file = sql_migrations; file->name; file++)
        buf_printf(out,
                   "%s\ninsert into saga.migration (version, name) values (%d, '%s');\n"
                   "insert into saga.meta (schema_version, min_version) values (%d, 1)\n"
                   "    on conflict (singleton) do update\n"
                   "    set schema_version = excluded.schema_version;\n\n",
                   file->text, atoi(file->name), file->name, atoi(file->name));
    for (const struct sql_file *file = sql_api; file->name; file++)
        buf_printf(out, "%s\n", file->text);
    api_hash(hex);
    buf_printf(out, "%s\nupdate saga.meta set api_hash = '%s';\ncommit;\n", sql_grants[0].text,
               hex);
}

static PGconn *open_database(const char *uri, struct err *err)
{
    const char *keys[] = {"dbname", "application_name", "connect_timeout", NULL};
    const char *values[] = {uri ? uri : "", "sagad migrate", "10", NULL};
    PGconn *conn = PQconnectdbParams(keys, values, 1);
    if (PQstatus(conn) != CONNECTION_OK) { /* once more: only a verbose error tells its SQLSTATE */
        PQsetErrorVerbosity(conn, PQERRORS_VERBOSE);
        PQreset(conn);
    }
    PQsetErrorVerbosity(conn, PQERRORS_DEFAULT);
    if (PQstatus(conn) == CONNECTION_OK)
        return conn;
    pg_connect_error(conn, err);
    PQfinish(conn);
    return NULL;
}

static int check_database(PGconn *conn, struct migrate_report *report, struct err *err)
{
    snprintf(report->database, sizeof(report->database), "%s", PQdb(conn));
    if (PQserverVersion(conn) < SERVER_VERSION_MIN)
        return err_set(err, ERR_INVALID, "PostgreSQL %d is too old, version %d or later is needed",
                       PQserverVersion(conn) / 10000, SERVER_VERSION_MIN / 10000);
    PGresult *result = PQexec(conn, "select pg_catalog.getdatabaseencoding()");
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        return fail(conn, result, err);
    int rc = 0;
    if (strcmp(PQgetvalue(result, 0, 0), "UTF8") != 0)
        rc = err_set(err, ERR_INVALID,
                     "database \"%s\" has encoding %s, but UTF8 is needed: create one with "
                     "\"createdb -T template0 -E UTF8 NAME\"",
                     PQdb(conn), PQgetvalue(result, 0, 0));
    PQclear(result);
    return rc;
}

/* 0 for both if there is no schema. */
static int read_versions(PGconn *conn, struct migrate_report *report, struct err *err)
{
    PGresult *result = PQexec(conn, "select pg_catalog.to_regclass('saga.meta') is not null, "
                                    "pg_catalog.to_regnamespace('saga') is not null");
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        return fail(conn, result, err);
    bool exists = *PQgetvalue(result, 0, 0) == 't', schema = *PQgetvalue(result, 0, 1) == 't';
    PQclear(result);
    if (!exists && schema)
        return err_set(err, ERR_CONFLICT,
                       "database \"%s\" has a schema \"saga\" that is not this engine's",
                       report->database);
    if (!exists)
        return 0;
    result = PQexec(conn, "select schema_version, min_version from saga.schema_version_v1()");
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        return fail(conn, result, err);
    report->schema_version = atoi(PQgetvalue(result, 0, 0));
    report->min_version = atoi(PQgetvalue(result, 0, 1));
    PQclear(result);
    return 0;
}

static int check_versions(struct migrate_report *report, struct err *err)
{
    if (report->min_version <= report->binary_version)
        return 0;
    return err_set(err, ERR_CONFLICT,
                   "the schema in database \"%s\" is of version %d and allows daemons from version "
                   "%d on, this one is %d: install a newer sagad",
                   report->database, report->schema_version, report->min_version,
                   report->binary_version);
}

static int run(PGconn *conn, const char *sql, const char *what, struct err *err)
{
    PGresult *result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        fail(conn, result, err);
        return err_wrap(err, "migrate (%s)", what);
    }
    PQclear(result);
    return 0;
}

/* Takes the result. */
static int fail(PGconn *conn, const PGresult *result, struct err *err)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const char *hint = PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);
    if (!state)
        err_set(err, ERR_UNAVAILABLE, "connection lost: %s", PQerrorMessage(conn));
    else
        err_set(err,
                strcmp(state, "42501") == 0   ? ERR_PERMISSION
                : strcmp(state, "55P03") == 0 ? ERR_UNAVAILABLE
                                              : ERR_DATABASE,
                "%s%s%s", text ? text : "unknown error", hint ? ": " : "", hint ? hint : "");
    if (state)
        snprintf(err->sqlstate, sizeof(err->sqlstate), "%s", state);
    err->text[strcspn(err->text, "\n")] = '\0';
    PQclear((PGresult *)result);
    return err->code;
}

static void api_hash(char hex[65])
{
    struct buf all = {0};
    for (const struct sql_file *file = sql_api; file->name; file++)
        buf_add_z(&all, file->text);
    buf_add_z(&all, sql_grants[0].text);
    struct sha256 hash = sha256_of(buf_str(&all));
    sha256_hex(&hash, hex);
    buf_free(&all);
}

/* False too if the table may not be read: then the migration will say what is missing. */
static bool api_is_current(PGconn *conn)
{
    char hex[65];
    api_hash(hex);
    PGresult *result = PQexec(conn, "savepoint look; select api_hash from saga.meta");
    bool readable = PQresultStatus(result) == PGRES_TUPLES_OK;
    bool current = readable && PQntuples(result) == 1 && !strcmp(PQgetvalue(result, 0, 0), hex);
    PQclear(result);
    if (!readable)
        PQclear(PQexec(conn, "rollback to savepoint look"));
    return current;
}
