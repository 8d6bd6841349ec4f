/*
 * jsonschema_pattern.h: the regular expressions of `pattern`, without a library.
 *
 * Matching takes time linear in the text for every pattern (no backtracking), looks at code
 * points, and does not depend on a locale. The subset of ECMA-262: literals, `.`, classes with
 * ranges and `\d \w \s \D \W \S`, `\t \n \r \f \v`, `\xHH`, `\uHHHH`, anchors, groups (capturing
 * or `(?:`), `|`, `* + ?` and `{m,n}` up to 1000, also lazy (they match the same texts). Refused by
 * name: look-around, back references, `\b`, `\p`.
 */
#ifndef DSL_JSONSCHEMA_PATTERN_H
#define DSL_JSONSCHEMA_PATTERN_H

#include "engine/base/arena.h"

#define PATTERN_INSTRUCTIONS_MAX 5000 /* counted repetitions are written out */

struct pattern;

/* NULL if the pattern is not in the subset: `*error` says why and `*at` is the byte. */
const struct pattern *pattern_compile(struct str text, struct arena *arena, const char **error,
                                      size_t *at);
uint32_t pattern_size(const struct pattern *pattern); /* steps for each character, at most */
/* True if a part of the text matches; `text` is valid UTF-8. */
bool pattern_match(const struct pattern *pattern, struct str text, struct arena *scratch);

#endif
