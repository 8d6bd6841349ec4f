/*
 * expr_eval.h: the evaluator's own types, shared by expr.c (operators), expr_call.c (functions)
 * and template.c. Nobody else includes it.
 *
 * Times and durations exist only inside an expression; at its edge, in a list and in an object
 * they are JSON texts (RFC 3339, `1h30m`).
 */
#ifndef DSL_EXPR_EVAL_H
#define DSL_EXPR_EVAL_H

#include "dsl/expr_tree.h"

enum value_kind { VALUE_JSON, VALUE_TIME, VALUE_DURATION };

struct value {
    enum value_kind kind;
    const struct json *json; /* VALUE_JSON; JSON_NONE is `omit` */
    int64_t us;
};

struct evaluation {
    const struct expr_scope *scope;
    struct arena *arena;
    struct err *err;
    uint32_t steps;
    size_t bytes;
    bool missing; /* the error is a missing value: `default` and `has` recover from it */
    struct value vars[EXPR_LOOPS_MAX];
};

extern const struct json expr_omitted; /* JSON_NONE */

MUST_USE int eval(struct evaluation *e, const struct expr *expr, struct value *out);
MUST_USE int eval_json(struct evaluation *e, const struct expr *expr, const struct json **out);
MUST_USE int eval_call(struct evaluation *e, const struct expr *expr, struct value *out);
MUST_USE int eval_boolean(struct evaluation *e, const struct expr *expr, bool *out);

/* The text that a scalar becomes inside other text. Errors: ERR_INVALID. */
MUST_USE int value_text(struct evaluation *e, struct value value, const struct expr *expr,
                        struct str *out);
/* Counts the work of looking at so many bytes as steps. */
void eval_work(struct evaluation *e, size_t bytes);
/* Charges text against EXPR_BYTES_MAX before it is built. */
MUST_USE int eval_charge(struct evaluation *e, size_t bytes);
/* ERR_LIMIT if the result nests past JSON_DEPTH_MAX or holds too many values. */
MUST_USE int eval_measure(struct evaluation *e, const struct json *value);
/* `input.items[2].id`, for messages; cut when long. */
struct str expr_path(const struct expr *expr, struct arena *arena);
const char *value_kind_name(struct value value); /* with its article: "a number" */
/* "\"input.n\" is a number, not ..."; `wanted` has its article. */
int eval_kind_error(struct evaluation *e, const struct expr *expr, struct value value,
                    const char *wanted);
MUST_USE int duration_text(struct evaluation *e, int64_t us, struct str *out);

#endif
