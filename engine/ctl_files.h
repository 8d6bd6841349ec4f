/*
 * ctl_files.h: reading files of the author and saying what is wrong with them.
 */
#ifndef ENGINE_CTL_FILES_H
#define ENGINE_CTL_FILES_H

#include "dsl/diag.h"
#include "engine/ctl_core.h"

/* Returns the exit code after saying why a file cannot be read; the text lies in ctl->arena and is
 * at most one byte longer than the compiler takes, so that it says what is too large. */
MUST_USE int ctl_source_read(struct ctl *ctl, const char *name, struct str *out);

/* What was found in a file, to stderr. */
void ctl_diags_say(const struct ctl *ctl, const struct diags *diags);

/* NAME.test.yaml and NAME.test.yml hold tests, no workflow. */
bool ctl_is_test_file(const char *name);

/* Calls `each` for the *.yaml and *.yml files of a directory in the order of their names, but not
 * for sagad.yaml and hidden ones; files of tests only with `tests`. Returns the first exit code
 * that is not 0, or CTL_USAGE after saying that there is none. */
MUST_USE int ctl_dir_scan(struct ctl *ctl, const char *dir, bool tests,
                          int (*each)(struct ctl *ctl, const char *name, void *arg), void *arg);

#endif
