/*
 * diag.h: what is wrong with a file, where, and what helps.
 *
 * Author errors are collected, all of them, and printed sorted by place. The text shape is a
 * contract (golden-tested):
 *
 *   order.yaml:49:33: error[E203]: unknown step `chrage` in expression
 *      49 |       body: {charge: "${{ steps.chrage.output.id }}"}
 *         |                                 ^^^^^^
 *      = help: a step with a similar name exists: `charge`
 */
#ifndef DSL_DIAG_H
#define DSL_DIAG_H

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/json.h"

enum diag_severity { DIAG_ERROR, DIAG_WARNING };

struct diag {
    enum diag_severity severity;
    char code[5];                      /* "E203" */
    uint32_t line;                     /* 1-based; 0: the file as a whole */
    uint32_t column;                   /* 1-based, in code points */
    uint32_t span;                     /* underlined code points, at least 1 */
    struct str message;                /* one line, no full stop */
    struct str help;                   /* STR_NONE: none */
    uint32_t other_line, other_column; /* a second place, as for duplicates; 0: none */
};

#define DIAGS_MAX 200 /* past it one last line says how many were left out */

struct diags {
    struct arena arena;
    const char *file; /* as the author named it */
    struct str source;
    struct diag *list;
    uint32_t count, capacity, left_out;
    uint32_t errors, warnings;
    struct diag unseen; /* what diag_add returns past the limit, so that callers need no check */
};

/* Further diagnostics are only counted: where they stand need not be found out. */
static inline bool diags_are_full(const struct diags *diags)
{
    return diags->count == DIAGS_MAX;
}

static inline bool diag_is_seen(const struct diags *diags, const struct diag *diag)
{
    return diag != &diags->unseen;
}

void diags_init(struct diags *diags, const char *file, struct str source); /* borrows both */
void diags_free(struct diags *diags);
/* What it returns may be filled in until diags_sort. */
struct diag *diag_add(struct diags *diags, enum diag_severity severity, const char *code,
                      uint32_t line, uint32_t column, uint32_t span, const char *fmt, ...)
    PRINTF_LIKE(7, 8);
void diag_help(struct diags *diags, struct diag *diag, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Leaves out those of `code` where an error stands at the same place: it says what is needed. */
void diags_drop_beside_errors(struct diags *diags, const char *code);
/* Takes back a warning of this code at the place, if there is one. */
void diags_drop_at(struct diags *diags, const char *code, uint32_t line, uint32_t column);
void diags_sort(struct diags *diags);
/* `color`: ANSI colours, for terminals only. */
void diags_print(const struct diags *diags, bool color, struct buf *out);
/* A list of {file, line, column, span, severity, code, message, help, other}. */
const struct json *diags_json(const struct diags *diags, struct arena *arena);

/* The candidate nearest to `word` by edit distance (at most a third of its length), or NULL. */
const char *diag_nearest(struct str word, const char *const *candidates, size_t count);

#endif
