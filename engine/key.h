/*
 * key.h: the idempotency key of an effect, and the hash that guards it.
 *
 * `runId:stepId:actionType`, from the second generation on with `@N`. Run ids have no `:`, step
 * instances neither, so the form is injective. These bytes are fixed for ever: an upgrade that
 * changed them would repeat effects (tests/unit/3_state/test_key.c holds golden keys).
 */
#ifndef ENGINE_KEY_H
#define ENGINE_KEY_H

#include "engine/run.h"

#define KEY_BYTES_MAX 255 /* visible ASCII; what the strictest common providers take */

/* "charge" or "send.3" */
struct str key_instance(const struct plan_step *step, struct str item, struct arena *arena);

struct str key_make(struct str run_id, struct str instance, enum direction direction,
                    uint16_t generation, struct arena *arena);

/* The run id of a child: PARENT~STEP, from the second generation on with `@N`. Over
 * CHILD_ID_BYTES_MAX its tail is replaced by `~` and 32 hex digits of the whole id's SHA-256; the
 * root stays, and with it the shard. */
#define CHILD_ID_BYTES_MAX 128
struct str key_child(struct str parent, struct str instance, uint16_t generation,
                     struct arena *arena);

/* The key as a participant gets it: plain, UUIDv5 in our namespace, or 64 hex digits. */
struct str key_format(struct str key, enum key_format format, struct arena *arena);

/* Takes a key apart: `instance` is "charge" or "send.3", borrowed. False if it is no key. */
bool key_parse(struct str key, struct str *instance, enum direction *direction,
               uint16_t *generation);

/* The run id that a key begins with, borrowed; empty: it is no key. */
struct str key_run_id(struct str key);

/* A submitted id: [A-Za-z0-9._-]{1,94}. Errors: ERR_INVALID, saying what is wrong with it. */
MUST_USE int key_run_id_check(struct str run_id, struct err *err);

/* SHA-256 over action kind, service name, method, target and body. JSON bodies are hashed in
 * canonical form (sorted members, exact decimals), others as they are. Neither headers nor base
 * URLs nor secrets take part, so that a moved service or a rotated token changes nothing.
 * `body_json` is the tree of a JSON body, NULL for any other body. */
struct sha256 key_request_hash(const struct request *request, const struct json *body_json);

#endif
