/*
 * pg.h: a private PostgreSQL for a test program.
 *
 * One cluster in a temporary folder, fsync off, reached by a Unix socket only. It is stopped and
 * removed when the program ends, however it ends: a helper process of ours waits for that.
 */
#ifndef TESTS_LIB_PG_H
#define TESTS_LIB_PG_H

#include <libpq-fe.h>

/* Starts it at the first call. Ends the program with a message if that fails. */
void pg_test_start(void);
void pg_test_stop(void);

/* A connection string for a database as a role; valid until pg_test_stop. */
const char *pg_test_uri(const char *database, const char *user);
/* Creates a database (dropping an old one) and, if asked to, migrates it. */
void pg_test_create(const char *database, int migrated);

/* A blocking connection as the cluster's owner, or another role; ends the program on failure. */
PGconn *pg_test_connect(const char *database, const char *user);
/* Runs SQL; ends the program if it fails. Returns the first column of the first row, "" if there
 * is none; valid until the next call. */
const char *pg_test_sql(PGconn *conn, const char *sql, ...) __attribute__((format(printf, 2, 3)));
/* Runs SQL that may fail: "" on success, else the SQLSTATE. */
const char *pg_test_sqlstate(PGconn *conn, const char *sql, ...)
    __attribute__((format(printf, 2, 3)));

#endif
