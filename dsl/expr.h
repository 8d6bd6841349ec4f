/*
 * expr.h: compiled expressions and templates, and their pure evaluation.
 *
 * An expression is a subset of CEL (the language is in dsl/README.md); a template is a JSON-shaped
 * tree whose scalars may hold `${{ }}` holes. Both are compiled and type-checked by the compiler
 * (dsl/compile.h), immutable afterwards, and owned by the plan's arena. Evaluation terminates,
 * has no side effects, reads no clock, and allocates only in the arena it is given.
 *
 * Values are data: the result of an evaluation is never looked at for templates again.
 *
 * Secrets: `secrets.NAME` evaluates to the bytes FF NAME FF (`EXPR_SECRET_MARK`), which no valid
 * UTF-8 contains, so it cannot collide with data. The compiler lets it stand only where nothing is
 * stored or hashed (auth, sign, headers, exec `env`); the invoker puts the secret in at the last
 * moment. What the engine stores, logs and shows is therefore the reference, never the value.
 */
#ifndef DSL_EXPR_H
#define DSL_EXPR_H

#include "engine/base/clock.h"
#include "engine/base/json.h"

#define EXPR_SECRET_MARK '\xFF'

struct expr;     /* compiled expression */
struct template; /* compiled JSON-shaped template */

/* What an expression sees of another step. Borrowed while the evaluation runs. */
struct expr_step {
    struct str state;          /* "applied", "refused", "skipped", "pending", ... */
    const struct json *output; /* NULL: there is none (yet) */
    const struct json *error;  /* {code, status, message, body}, NULL: there is none */
    struct str key;            /* execute key of the newest generation; absent if never claimed */
};

/* The roots. A NULL or absent root fails the evaluation with its name if it is read. */
struct expr_scope {
    const struct json *input;
    const struct json *item;
    int64_t index; /* -1: no loop */
    const struct json *tick;
    const struct json *response; /* {status, headers, body} or {exit, stdout, stderr} or SQL's */
    const struct json *answer;
    const struct json *env; /* object of declared names */
    struct str run_id;
    struct wall started_at;
    struct str key;  /* of the action being rendered */
    struct wall now; /* when the step was first claimed: `now()` */
    /* Fills `out` for the step with this index in the plan. */
    void (*step)(const void *arg, uint16_t step, struct arena *scratch, struct expr_step *out);
    const void *step_arg;
};

/* Errors (both): ERR_INVALID with the path of what is missing or does not fit. `*out` is never
 * NULL on success; JSON_NONE stands for `omit`. Results borrow from `arena`, the plan and the
 * scope. */
MUST_USE int expr_eval(const struct expr *expr, const struct expr_scope *scope, struct arena *arena,
                       const struct json **out, struct err *err);
/* The value must be a boolean. */
MUST_USE int expr_eval_bool(const struct expr *expr, const struct expr_scope *scope,
                            struct arena *arena, bool *out, struct err *err);

MUST_USE int template_render(const struct template *template, const struct expr_scope *scope,
                             struct arena *arena, const struct json **out, struct err *err);

enum text_encoding {
    TEXT_PLAIN,
    /* Each hole is percent-encoded by itself: `/` in a value becomes %2F. For query names and
     * values render TEXT_PLAIN and encode all of it (base/uri.h), the author's own text too. */
    TEXT_PERCENT,
};
/* The template must be a scalar; the result is its text (numbers as written, null is an error).
 * An `omit` gives STR_NONE. A path template also fails where a value would make an empty or a dot
 * segment, which addresses another resource than the file says. */
MUST_USE int template_render_text(const struct template *template, const struct expr_scope *scope,
                                  enum text_encoding encoding, struct arena *arena, struct str *out,
                                  struct err *err);

#endif
