#include "tests/lib/pg.h"

#include "engine/migrate.h"
#include "engine/pgdev.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define URIS_MAX 64

static struct pgdev *dev;
static char dir[64];
static int life = -1;
static pid_t keeper;
static char *uris[URIS_MAX];
static unsigned uris_count;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

/* Waits for the end of the program, then cleans up after it. */
static void keep(int fd)
{
    struct err err;
    char byte, command[128];
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    while (read(fd, &byte, 1) > 0) {
    }
    int rc = dev ? pgdev_stop(dev, &err) : 0;
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    _exit(rc || system(command));
}

void pg_test_start(void)
{
    struct err err;
    int ends[2];
    if (dev)
        return;
    strcpy(dir, "/tmp/sgtXXXXXX");
    if (!mkdtemp(dir) || pipe2(ends, O_CLOEXEC))
        die("temporary folder", dir);
    if (pgdev_start(&(struct pgdev_options){.dir = dir, .is_ephemeral = true}, &dev, &err))
        die("start", err.text);
    keeper = fork();
    if (keeper == 0) {
        close(ends[1]);
        keep(ends[0]);
    }
    close(ends[0]);
    life = ends[1];
}

void pg_test_stop(void)
{
    int status = 0;
    if (!dev)
        return;
    close(life);
    waitpid(keeper, &status, 0);
    pgdev_free(dev);
    dev = NULL;
    for (unsigned i = 0; i < uris_count; i++)
        free(uris[i]);
    uris_count = 0;
    if (status)
        die("stop", "the server did not stop");
}

const char *pg_test_uri(const char *database, const char *user)
{
    char uri[256];
    snprintf(uri, sizeof(uri), "host='%s/.saga/pg' dbname=%s user=%s", dir, database,
             user ? user : "postgres");
    for (unsigned i = 0; i < uris_count; i++)
        if (!strcmp(uris[i], uri))
            return uris[i];
    if (uris_count == URIS_MAX)
        die("too many connection strings", uri);
    return uris[uris_count++] = strdup(uri);
}

PGconn *pg_test_connect(const char *database, const char *user)
{
    PGconn *conn = PQconnectdb(pg_test_uri(database, user));
    if (PQstatus(conn) != CONNECTION_OK)
        die("connect", PQerrorMessage(conn));
    return conn;
}

void pg_test_create(const char *database, int migrated)
{
    static int pattern;
    struct err err;
    struct migrate_report report;
    PGconn *conn = pg_test_connect("postgres", NULL);
    PQclear(PQexec(conn, "set client_min_messages = error"));
    if (migrated && !pattern) { /* once; copies of it are faster */
        pg_test_sql(conn, "create database pattern template template0 encoding 'UTF8'");
        if (migrate_run(pg_test_uri("pattern", NULL), &report, &err))
            die("migrate", err.text);
        pattern = 1;
    }
    pg_test_sql(conn, "drop database if exists %s with (force)", database);
    pg_test_sql(conn, "create database %s template %s encoding 'UTF8'", database,
                migrated ? "pattern" : "template0");
    PQfinish(conn);
}

static PGresult *run(PGconn *conn, const char *sql, va_list args)
{
    char text[8192];
    vsnprintf(text, sizeof(text), sql, args);
    return PQexec(conn, text);
}

const char *pg_test_sql(PGconn *conn, const char *sql, ...)
{
    static char *value;
    va_list args;
    va_start(args, sql);
    PGresult *result = run(conn, sql, args);
    va_end(args);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
        die(sql, PQerrorMessage(conn));
    free(value);
    value = strdup(status == PGRES_TUPLES_OK && PQntuples(result) && PQnfields(result)
                       ? PQgetvalue(result, 0, 0)
                       : "");
    PQclear(result);
    return value;
}

const char *pg_test_sqlstate(PGconn *conn, const char *sql, ...)
{
    static char state[6];
    va_list args;
    va_start(args, sql);
    PGresult *result = run(conn, sql, args);
    va_end(args);
    const char *field = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    snprintf(state, sizeof(state), "%s", field ? field : "");
    PQclear(result);
    return state;
}
