/*
 * ctl_rows.h: the daemon's lists of rows as tables.
 */
#ifndef ENGINE_CTL_ROWS_H
#define ENGINE_CTL_ROWS_H

#include "engine/ctl_core.h"

enum rows_kind {
    ROWS_TEXT,
    ROWS_STATE, /* painted; "paused" beside it */
    ROWS_AGE,   /* of a time */
    ROWS_TIME,
    ROWS_ERROR, /* {code, status, message} in one line */
    ROWS_BOOL,  /* "yes", "no" */
    ROWS_COUNT, /* a number, or how many items a list has */
};

struct rows_column {
    const char *title;
    const char *members; /* "workflow|name": the first that a row has */
    enum rows_kind kind;
    bool wide; /* only with -o wide */
};

/* Prints the rows as the format says: `list` is the text of a list of objects. `id` names the
 * member that -o name prints ("run_id"). A column that no row has a value for is left out.
 * Not for CTL_FORMAT_JSON, whose document is the caller's. */
MUST_USE int rows_print(struct ctl *ctl, struct str list, const char *id,
                        const struct rows_column *columns, size_t count);

#endif
