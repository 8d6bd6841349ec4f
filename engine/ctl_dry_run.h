/*
 * ctl_dry_run.h: what a run would do, for people to read before they confirm it.
 */
#ifndef ENGINE_CTL_DRY_RUN_H
#define ENGINE_CTL_DRY_RUN_H

#include "engine/ctl_core.h"

/* `text`: the daemon's answer to a dry run before the start. Returns an exit code. */
int ctl_dry_run_print(struct ctl *ctl, struct str text);

#endif
