/*
 * fit.h: whether what a template will render can fit a schema, as far as it is known before.
 */
#ifndef DSL_FIT_H
#define DSL_FIT_H

#include "dsl/expr.h"
#include "dsl/jsonschema.h"
#include "dsl/plan.h"

struct workflows;

/* Whose expressions they are. */
struct fit_reader {
    const struct workflows *known; /* of its children; NULL: none */
    const struct plan *plan;
    uint16_t step; /* PLAN_STEP_NONE: of none */
};

/* True if `template` (NULL: an empty object) may render to something that fits `schema` (NULL:
 * anything). Told is what is certain: literal values that do not fit, expressions whose type can
 * be none that is needed, fields that will be missing, and fields that a closed schema does not
 * know. Texts in `arena`. */
bool template_fits(const struct template *template, const struct schema *schema,
                   const struct fit_reader *reader, struct arena *arena,
                   struct schema_errors *errors);

#endif
