/*
 * decide.h: the one entry of the core: (state, event) -> (records, commands).
 *
 * Pure: no clock, no randomness, no I/O. Time is a field of the event, jitter a function of the
 * run, step and attempt. The same image and event give the same decision, byte for byte.
 *
 * Duty of the caller: the records of a decision are journalled as one group; its commands are
 * carried out only after the unit with that group is acknowledged; no other event of the run is
 * decided in between.
 */
#ifndef ENGINE_DECIDE_H
#define ENGINE_DECIDE_H

#include "engine/decision.h"

/* Applies what it decides to `run` (see decision.h). `out` borrows from `scratch`, which must live
 * until the decision was carried out. A verb that cannot be obeyed decides nothing and says why
 * in out->answer. An event that no longer fits (a late reply, a due time that moved) decides
 * nothing. */
void run_decide(struct run *run, const struct run_event *event, struct arena *scratch,
                struct run_decision *out);

/* When the next EVENT_DUE should be sent; WALL_NONE: never. */
struct wall run_due(const struct run *run);

#endif
