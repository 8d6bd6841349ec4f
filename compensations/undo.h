/*
 * undo.h: where one step instance stands on the way back. A pure function of its two sides.
 */
#ifndef COMPENSATIONS_UNDO_H
#define COMPENSATIONS_UNDO_H

#include "engine/run.h"

enum undo_status {
    UNDO_NONE,
    UNDO_MOVING,   /* its action or its compensation is still in motion */
    UNDO_DUE,      /* its compensation must be claimed */
    UNDO_ASK,      /* its outcome is unknown and may be found out: by asking, else by repeating */
    UNDO_BLOCKED,  /* a person is needed */
    UNDO_NOTHING,  /* never applied, or without an effect */
    UNDO_UNDONE,   /* compensated */
    UNDO_BY_HAND,  /* a person settled or skipped it */
    UNDO_DECLARED, /* not undone, as the workflow says: part of the residue */
};
#define UNDO_COUNT (UNDO_DECLARED + 1)

struct undo {
    enum undo_status status;
    enum park_reason reason; /* UNDO_BLOCKED */
};

/* The own instance of a for_each has nothing to undo: its items have. */
struct undo undo_of(const struct plan_step *step, const struct instance *instance);

static inline bool undo_is_over(enum undo_status status)
{
    return status >= UNDO_NOTHING;
}

#endif
