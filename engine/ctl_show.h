/*
 * ctl_show.h: the parts that show, explain and dead show have in common.
 */
#ifndef ENGINE_CTL_SHOW_H
#define ENGINE_CTL_SHOW_H

#include "engine/ctl_runs.h"

/* "label  text", cut to the terminal; nothing if the text is empty. */
void show_field(struct ctl *ctl, const char *label, struct str text);
/* A heading with an empty line before it. */
void show_heading(struct ctl *ctl, const char *heading);
/* The table of steps: what each has become, in both directions. */
void show_steps(struct ctl *ctl, const struct model_run *run);
/* Since when outcomes are unknown, and what is done about it; nothing if all are known. */
void show_unknowns(struct ctl *ctl, const struct model_run *run);
/* Corrected inputs, what was sent instead of what the workflow says, keys that were renewed;
 * nothing without any. */
void show_corrections(struct ctl *ctl, const struct model_run *run);
/* What a run leaves behind; nothing without a residue. */
void show_residue(struct ctl *ctl, const struct model_run *run);
/* The commands that lead on. */
void show_next(struct ctl *ctl, const struct model_run *run);
/* "charge: 402 card_declined: the card was declined"; "" without one. */
struct str show_error(struct ctl *ctl, const struct json *error);
/* The same of what turned a run back: of a person's word just that. */
struct str show_why(struct ctl *ctl, const struct json *error);
/* "2026-10-25T02:30:00Z (5m ago)"; "" if not set. */
struct str show_when(struct ctl *ctl, struct wall at);
/* "an operator asked for it (wrong address)"; the reason in brackets where `error` is another. */
struct str show_cause(struct ctl *ctl, const struct model_run *run);

#endif
