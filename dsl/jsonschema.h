/*
 * jsonschema.h: the JSON Schema subset of `input` (and later `output_schema`).
 *
 * Compiled with the workflow, so that an unknown keyword or a wrong type is a diagnostic of the
 * file; checked at submit. Numbers compare exactly. `pattern` is matched in linear
 * time, unanchored as JSON Schema says; jsonschema_pattern.h has the subset.
 */
#ifndef DSL_JSONSCHEMA_H
#define DSL_JSONSCHEMA_H

#include "engine/base/json.h"

struct schema;

struct schema_error {
    struct str pointer; /* JSON pointer into the value, "" for the root */
    struct str message; /* "must be at least 1" */
};

#define SCHEMA_ERRORS_MAX 20

struct schema_errors {
    struct schema_error list[SCHEMA_ERRORS_MAX];
    uint32_t count;
};

/* True if `value` fits; else `errors` holds the reasons (texts in `arena`). */
bool schema_check(const struct schema *schema, const struct json *value, struct arena *arena,
                  struct schema_errors *errors);

/* The value with everything that the schema calls one value (`x-normalize: amount`) written alike:
 * texts that are plain decimals become numbers. For hashes and comparisons, never for what is kept
 * or sent. Shares what did not change; schema NULL: the value. In alternatives (anyOf, oneOf) the
 * declarations of all count, whichever the value fits. */
const struct json *schema_normalize(const struct schema *schema, const struct json *value,
                                    struct arena *arena);

/* "POINTER MESSAGE; POINTER MESSAGE" of as many as fit into a line, and how many more there are. */
struct str schema_errors_text(const struct schema_errors *errors, struct arena *arena);

#endif
