/*
 * bundle.h: the SQL files as they were when the binary was built, in the order they are run.
 *
 * roles, then the migrations that are missing, then api (functions and views), then grants; see
 * engine/migrate.h. `guard` is the participant kit, for other databases: engine/guard.h. Each list
 * ends with an entry whose name is NULL.
 */
#ifndef SQL_BUNDLE_H
#define SQL_BUNDLE_H

struct sql_file {
    const char *name; /* without folder and ".sql" */
    const char *text;
};

extern const struct sql_file sql_roles[], sql_migrations[], sql_api[], sql_grants[], sql_guard[];

#endif
