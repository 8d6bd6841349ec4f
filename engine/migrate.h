/*
 * migrate.h: brings the schema `saga` of a database to the version of this binary.
 *
 * Everything happens in one transaction under an advisory lock that is taken before the schema
 * exists, so any number of daemons may start on an empty database: one migrates, the others wait
 * and find it done. Blocking: for start-up and `sagad migrate`, never inside the loop.
 */
#ifndef ENGINE_MIGRATE_H
#define ENGINE_MIGRATE_H

#include "engine/base/buf.h"
#include "engine/base/err.h"

struct migrate_report {
    int schema_version; /* of the database, before; 0: there was no schema */
    int min_version;    /* daemons below it must not start */
    int binary_version; /* what this binary brings */
    bool up_to_date;    /* nothing was, or is, to be done */
    char database[64];
};

/* The schema version of this binary: the number of its last migration. */
int migrate_version(void);

/* Migrates. `uri` may be NULL (PG* environment). A database that is not UTF-8 is refused before
 * anything is written. Errors: ERR_UNAVAILABLE (no connection, lock not had in time),
 * ERR_INVALID (encoding, server version), ERR_CONFLICT (the schema is newer than this binary
 * allows), ERR_PERMISSION, ERR_DATABASE. The text names the fix where there is one. */
MUST_USE int migrate_run(const char *uri, struct migrate_report *report, struct err *err);

/* Only looks; works for any role that may use the schema. A schema that is missing or older gives
 * up_to_date = false and no error. Errors as above. */
MUST_USE int migrate_check(const char *uri, struct migrate_report *report, struct err *err);

/* The whole script for an empty database, to be read or run by psql. */
void migrate_print(struct buf *out);

#endif
