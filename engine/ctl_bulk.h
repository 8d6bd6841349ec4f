/*
 * ctl_bulk.h: a verb for many runs: counted, asked about, then followed while the daemons do it.
 */
#ifndef ENGINE_CTL_BULK_H
#define ENGINE_CTL_BULK_H

#include "engine/ctl_core.h"

/* The command line does not name just one run. */
bool ctl_bulk_wanted(const struct ctl *ctl);
/* The verb of the command line, whose reason was checked. Returns the exit code: CTL_OK if all runs
 * obeyed, CTL_CONFLICT if every one refused (it was decided otherwise before), else CTL_ERROR. */
int ctl_bulk_run(struct ctl *ctl);

#endif
