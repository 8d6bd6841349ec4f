/*
 * ctl_bulk.h: a verb for many runs: counted, asked about, then followed while the daemons do it.
 */
#ifndef ENGINE_CTL_BULK_H
#define ENGINE_CTL_BULK_H

#include "engine/base/json.h"
#include "engine/ctl_core.h"

/* The command line does not name just one run. */
bool ctl_bulk_wanted(const struct ctl *ctl);
/* The verb of the command line, whose reason was checked. Returns the exit code: CTL_OK if all runs
 * obeyed, CTL_CONFLICT if every one refused (it was decided otherwise before), else CTL_ERROR. */
int ctl_bulk_run(struct ctl *ctl);

struct ctl_reply;

/* One of the counts of a verb for many runs, 0 if it is not there. */
int64_t ctl_bulk_number(const struct json *json, const char *name);
/* How it ended, in a line, and the runs that did not obey; with -o json the daemon's answer. */
void ctl_bulk_print(struct ctl *ctl, const struct ctl_reply *reply, const struct json *bulk);

#endif
