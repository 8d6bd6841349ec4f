/*
 * guard.h: the participant kit (sql/guard): the script that installs it in a participant's
 * database, and the words in which SQL actions speak with it.
 */
#ifndef ENGINE_GUARD_H
#define ENGINE_GUARD_H

#include "engine/base/buf.h"

/* The script that installs it, in one transaction, to be read or run by psql. Running it again
 * changes nothing that is right already. */
void guard_print(struct buf *out);

/* What a claim says: see sql/guard/claim.sql. */
#define GUARD_VERDICTS(X)         \
    X(GUARD_PROCEED, "proceed")   \
    X(GUARD_REPLAY, "replay")     \
    X(GUARD_REFUSED, "refused")   \
    X(GUARD_NOTHING, "nothing")   \
    X(GUARD_CONFLICT, "conflict") \
    X(GUARD_EXPIRED, "expired")
enum guard_verdict {
    GUARD_NONE,
#define X(id, name) id,
    GUARD_VERDICTS(X)
#undef X
};
enum guard_verdict guard_verdict_of(struct str name); /* GUARD_NONE for an unknown name */

/* One row: may the session's role use it? No row: it is not installed. */
extern const char guard_look_sql[];
/* Parameters: key, request hash, direction, key that is undone. Columns: verdict, answer. */
extern const char guard_claim_sql[];
/* Parameters: key, answer. */
extern const char guard_done_sql[];

/* In the place of a SQLSTATE, where no statement failed but the guard said no. */
#define GUARD_STATE_REFUSED "SAG21"
#define GUARD_STATE_CONFLICT "SAG22" /* judged as a conflict: engine/outcome.c */

#endif
