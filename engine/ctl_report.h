/*
 * ctl_report.h: a parked run as a report: what it was to do, what happened, what stands at the
 * participants, why it stopped, and what leads on.
 */
#ifndef ENGINE_CTL_REPORT_H
#define ENGINE_CTL_REPORT_H

#include "engine/ctl_model.h"

/* `row` is the run among the dead letters, NULL if it has just left them; `events` its history.
 * With -o wide also every attempt and every finding as tables. */
void report_print(struct ctl *ctl, struct model_run *run, const struct json *row,
                  const struct json *events);

#endif
