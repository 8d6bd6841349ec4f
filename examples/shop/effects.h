/*
 * effects.h: the durable ledger of one service: what it did, once per idempotency key.
 *
 * An append-only file of JSON lines. An effect is on disk (fsync) before effects_add returns, so
 * it is there before anybody is told about it; a torn last line, left by a crash in mid-write, is
 * cut off on the next open. How often a key was seen is counted in the same file, without fsync.
 *
 * The state of a service is nothing but its effects: what holds for a subject (an order, a charge)
 * is what the newest effect on it says.
 */
#ifndef SHOP_EFFECTS_H
#define SHOP_EFFECTS_H

#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/sha256.h"

struct effect {
    struct str kind;    /* "charge", "refund", ... */
    struct str subject; /* what it acts on: newest effect wins */
    struct str key;     /* Idempotency-Key; absent: none came along */
    struct str run, step;
    struct str request_hash; /* of method, path and body; 64 hex digits */
    struct wall at;
    int status;                   /* of the answer */
    const struct json *answer;    /* as it was given, and as it is given again */
    const struct effect *earlier; /* the one before with the same key; NULL: none */
};

struct effects;

/* Errors: ERR_IO, ERR_INVALID (the file is not a ledger). */
MUST_USE int effects_open(const char *path, struct effects **out, struct err *err);
void effects_close(struct effects *effects);

/* Makes it durable. Copies all of it. Errors: ERR_IO; then the effect does not exist. */
MUST_USE int effects_add(struct effects *effects, const struct effect *effect, struct err *err);
/* Counts a request with this key, whether it has an effect or not. */
void effects_seen(struct effects *effects, struct str key);

size_t effects_count(const struct effects *effects);
/* Newest one; NULL: none. Borrowed until effects_close. */
const struct effect *effects_by_key(const struct effects *effects, struct str key);
const struct effect *effects_by_subject(const struct effects *effects, struct str subject);

/* The answer to GET /ledger: one row per key, and one per effect that came without a key. */
const struct json *effects_json(const struct effects *effects, struct arena *arena);

#endif
