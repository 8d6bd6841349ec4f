/*
 * secrets.h: named secrets: put into requests at the last moment, taken out of what is stored.
 *
 * A rendered request holds the reference FF NAME FF (dsl/expr.h) where a secret belongs; only
 * invokers resolve it. Whatever comes back (error lines, answers, stderr) passes secrets_mask
 * before it reaches anything that stores, shows or logs, so that an answer that echoes a secret,
 * plain or encoded, does not keep it.
 *
 * Values that were replaced or retired are still masked: requests that carry them may be on their
 * way. Of each name the newest SECRET_VALUES_MAX values are kept: access tokens change all day.
 * Memory of values is wiped when they are forgotten.
 */
#ifndef ENGINE_SECRETS_H
#define ENGINE_SECRETS_H

#include "engine/base/arena.h"
#include "engine/base/err.h"

/* A shorter value would be found in innocent text everywhere, and could not be masked. */
#define SECRET_BYTES_MIN 6
#define SECRET_BYTES_MAX (64 * 1024)
#define SECRET_VALUES_MAX 16 /* of one name, old ones included */

struct secrets;

struct secrets *secrets_new(void);
void secrets_free(struct secrets *secrets); /* NULL is allowed */

/* Reads the value from `source`: "file:PATH" (one line feed at the end is dropped) or "env:NAME".
 * A name that is known gets the new value. Names are [A-Za-z0-9_.-]{1,63}.
 * Errors: ERR_INVALID (name, source or value break a rule), ERR_NOT_FOUND, ERR_IO. No text of an
 * error holds a value. */
MUST_USE int secrets_add(struct secrets *secrets, const char *name, const char *source,
                         struct err *err);
/* The same with the value itself. */
MUST_USE int secrets_add_value(struct secrets *secrets, const char *name, struct str value,
                               struct err *err);
/* No name resolves until it is added again; every value stays masked. For a reload. */
void secrets_retire(struct secrets *secrets);

/* True if `text` holds a reference. */
bool secrets_in(struct str text);
/* Replaces references by values; without one it returns `text` itself.
 * Errors: ERR_NOT_FOUND (names the secret), ERR_INVALID (a broken reference). */
MUST_USE int secrets_resolve(const struct secrets *secrets, struct str text, struct arena *arena,
                             struct str *out, struct err *err);

/* Replaces every secret by ***NAME***: as it is, percent-encoded or form-encoded, JSON-escaped,
 * also in JSON texts inside JSON strings (in any mixture of these), or in Base64, also as a part of
 * a longer encoded text. Returns `text` itself when there is none. Where a secret stands as a bare
 * JSON number, quotes are added. */
struct str secrets_mask(const struct secrets *secrets, struct str text, struct arena *arena);

#endif
