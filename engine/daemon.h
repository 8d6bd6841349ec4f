/*
 * daemon.h: puts the parts of sagad together: store, runner, invokers, control socket.
 *
 * The order of a start: database reachable and of the right version, lanes acquired, runs loaded,
 * then the control socket answers. The order of an end: no new connections, no new sends, attempts
 * in flight awaited, leases released.
 */
#ifndef ENGINE_DAEMON_H
#define ENGINE_DAEMON_H

#include "engine/config.h"
#include "engine/loop.h"

struct daemon_options {
    struct loop *loop;
    const struct config *config; /* borrowed for the daemon's life */
    const char *database;        /* libpq URI, as saga_engine; NULL: PG* */
    const char *action_database; /* the same as saga_action; NULL: no SQL actions here */
    const char *name, *socket, *lock_file;
    const char *metrics; /* where scrapers ask (control_open_tcp); NULL: nowhere */
    void *arg;
    /* The control socket answers from now on. */
    void (*ready)(void *arg);
    /* Drained, or nothing is left to wait for. */
    void (*drained)(void *arg);
    /* It cannot go on: wrong password, unknown database, wrong schema version. */
    void (*failed)(void *arg, const struct err *err);
};

struct daemon;

/* Errors: ERR_CONFLICT (another daemon of this name runs here), ERR_IO, ERR_INVALID (config). */
MUST_USE int daemon_open(const struct daemon_options *options, struct daemon **out,
                         struct err *err);
/* Reads the secrets of the config from their files again; one that cannot be read keeps its value,
 * which the log tells. Answers to requests with the old value are masked as before. */
void daemon_reload(struct daemon *daemon);
/* Ends as soon as attempts in flight are answered, at the latest after config.drain. Idempotent. */
void daemon_drain(struct daemon *daemon);
void daemon_close(struct daemon *daemon); /* NULL is allowed */

struct daemon_file {
    const char *path;
    bool refused;      /* out: it has errors, or does not fit those that are applied */
    struct buf report; /* out: what was found in it, to be freed by the caller */
};

/* Compiles workflow files together and registers those without errors as if by PUT /v1/workflows;
 * `done` tells of each how it went (code 0: applied or unchanged). Nothing is told of those that
 * are refused at once. */
void daemon_apply(struct daemon *daemon, struct daemon_file *files, size_t count,
                  void (*done)(void *arg, const char *path, const struct err *err,
                               struct str status),
                  void *arg);

#endif
