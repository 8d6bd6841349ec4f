/*
 * pgdev.h: the private PostgreSQL of `sagad --dev DIR`.
 *
 * One cluster in DIR/.saga/pg, reached by a Unix socket only, with peer authentication: root, the
 * owner of DIR and the user that runs sagad may connect, nobody else. PostgreSQL refuses to run as
 * root, so it is then run as user `postgres`; where that user cannot reach DIR, the cluster lies in
 * a folder of its own under /var/tmp and DIR/.saga/pg is a link to it. A socket path that would be
 * too long for the kernel moves to a folder under /tmp.
 *
 * A server that was left running by a killed daemon is adopted. Everything here blocks (a first
 * start takes some seconds): for start-up and the end of a drain.
 */
#ifndef ENGINE_PGDEV_H
#define ENGINE_PGDEV_H

#include "engine/base/err.h"

struct pgdev;

struct pgdev_options {
    const char *dir; /* exists; the cluster lies in dir/.saga/pg */
    /* `dir` is a temporary folder that the caller removes at the end: fsync off, and as root
     * everybody may pass through it. */
    bool is_ephemeral;
};

/* Creates or finds the cluster, starts or adopts the server, creates the database `saga`. Errors:
 * ERR_NOT_FOUND (PostgreSQL is not installed; the text says which package), ERR_IO,
 * ERR_UNAVAILABLE (it does not start; the text ends with the last line of its log). */
MUST_USE int pgdev_start(const struct pgdev_options *options, struct pgdev **out, struct err *err);

/* Connection strings (key=value form), valid until pgdev_free: as the owner of the cluster (for
 * migrating), as saga_engine, and as saga_action. The roles exist once the schema does. */
const char *pgdev_uri_admin(const struct pgdev *dev);
const char *pgdev_uri_engine(const struct pgdev *dev);
const char *pgdev_uri_action(const struct pgdev *dev);
/* What a person types to look into it. */
const char *pgdev_psql_line(const struct pgdev *dev);

/* Stops the server and waits for it. Safe for data; open sessions are ended. */
MUST_USE int pgdev_stop(struct pgdev *dev, struct err *err);
void pgdev_free(struct pgdev *dev); /* leaves the server as it is; NULL is allowed */

#endif
