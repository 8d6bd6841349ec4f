/*
 * invoke_sql.h: SQL actions.
 *
 * In the engine's own database an action commits together with its record, exactly once: the
 * statement runs in a transaction that is left open (REPLY_SQL_OPEN) until the runner has decided;
 * then the record is written in the same transaction, fenced by the action lane of that
 * connection, and both commit. A lost COMMIT is resolved by sending an empty unit under the same
 * number: if that is applied the action can never commit, if it conflicts the action did. The
 * connection is logged in as a role of its own (saga_action), which may do nothing to the engine's
 * tables.
 *
 * On another database (a service with a postgres:// URL) it is a plain transaction; a connection
 * lost in COMMIT is `commit_lost`, everything lost before that is certainly not applied. Where the
 * participant kit is installed there (guard.h; looked for once per connection) it happens once per
 * key: the transaction begins with a claim, keeps the result, and a repeat gets that result. A lost
 * COMMIT is then asked of the kit, for the invocation's timeout and at least 10 s, before it is
 * `commit_lost`. Reads, which are always rolled back, and pure actions are not guarded. An action
 * whose service declares `idempotency` is answered with REPLY_NOT_CONNECTED where the kit is
 * missing.
 *
 * Statements get their parameters bound as text, see `saga.key`, `saga.run`, `saga.step`,
 * `saga.attempt`, `saga.action`, `saga.compensates` and `saga.deadline` as settings of the
 * transaction, and may run as long as the invocation's timeout. The answer is
 * {"rows": [{column: value}], "count": n}: numbers, booleans and JSON as they are, everything else
 * as PostgreSQL's text. A statement that ends the transaction or changes the session is refused.
 */
#ifndef ENGINE_INVOKE_SQL_H
#define ENGINE_INVOKE_SQL_H

#include "engine/egress.h"
#include "engine/store_pg.h"

#define SQL_CONNECTIONS_PER_SERVICE 4
#define SQL_WAITING_MAX 10000 /* invocations that wait for a connection, over all of them */

struct invoke_sql_options {
    struct loop *loop;
    struct store_pg *store; /* whose action lanes are used, and whose commits are carried out */
    const char *uri;        /* the engine's database as saga_action; NULL: no such actions */
    const char *daemon;     /* for application_name */
    unsigned lanes;         /* connections there: the store's `action_lanes` */
    /* The URL of a service where the daemon's config has one; else the plan's counts. */
    const char *(*url)(void *arg, const char *service);
    void *url_arg;
    const struct egress *egress; /* borrowed: where services may be; NULL: the defaults */
    void (*reply)(void *arg, uint64_t invocation_id, const struct reply *reply);
    void *reply_arg;
    void (*commit_answer)(void *arg, uint64_t invocation_id, const struct unit_answer *answer);
    void *commit_arg;
};

struct invoke_sql;

/* Copies the options; registers itself with the store (store_pg_commit_by). */
struct invoke_sql *invoke_sql_new(const struct invoke_sql_options *options);
/* Open transactions are rolled back by the end of their sessions. NULL is allowed. */
void invoke_sql_free(struct invoke_sql *sql);

/* Borrowed; lives as long as `sql`. */
const struct port_invoke *invoke_sql_port(struct invoke_sql *sql);

/* What waits for a connection, and what is started later, is answered with REPLY_NOT_SENT; what
 * runs is awaited, or with `cut` ended now. */
void invoke_sql_drain(struct invoke_sql *sql, bool cut);
/* Invocations not answered, and commits not decided. */
size_t invoke_sql_busy(const struct invoke_sql *sql);

#endif
