/*
 * items.h: evaluates a for_each: which items there are, and what each is called.
 */
#ifndef ENGINE_ITEMS_H
#define ENGINE_ITEMS_H

#include "engine/render.h"

/* `render->instance` is the loop's own. `*out` is the JSON text of a list of [key, item] in
 * `scratch`, with a third text for people where the key is a hash: the beginning of what it was
 * made of. engine/group.h reads it. The key is the index, or what `key_by` gives: a text of up to
 * 40 letters, digits and . _ - as it is, anything else as 32 hex digits of its SHA-256.
 * Errors: ERR_INVALID; `*why` is then the code for the step's error: cannot_evaluate_for_each,
 * too_many_items, duplicate_item. */
MUST_USE int items_evaluate(const struct render *render, struct arena *scratch, struct str *out,
                            const char **why, struct err *err);

#endif
