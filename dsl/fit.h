/*
 * fit.h: whether what a template will render can fit a schema, as far as it is known before.
 */
#ifndef DSL_FIT_H
#define DSL_FIT_H

#include "dsl/expr.h"
#include "dsl/jsonschema.h"

/* True if `template` (NULL: an empty object) may render to something that fits `schema` (NULL:
 * anything). Literal values are checked, expressions can be anything; fields that are missing for
 * certain, and fields that a closed schema does not know, are told. Texts in `arena`. */
bool template_fits(const struct template *template, const struct schema *schema,
                   struct arena *arena, struct schema_errors *errors);

#endif
