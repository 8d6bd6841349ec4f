/*
 * ctl_files.h: reading files of the author and saying what is wrong with them.
 */
#ifndef ENGINE_CTL_FILES_H
#define ENGINE_CTL_FILES_H

#include "dsl/dsl.h"
#include "engine/ctl_core.h"

/* Returns the exit code after saying why a file cannot be read; the text lies in ctl->arena and is
 * at most one byte longer than the compiler takes, so that it says what is too large. */
MUST_USE int ctl_source_read(struct ctl *ctl, const char *name, struct str *out);

/* A workflow file that is named on the command line, or lies in a directory that is. */
struct ctl_source {
    const char *name;
    struct str source;
    struct plan *plan; /* NULL: it has errors */
    struct diags diags;
    struct str answer; /* apply: the daemon's document */
    struct str status; /* apply: "applied", "unchanged", ... */
};

struct ctl_sources {
    struct ctl_source *list;
    size_t count, capacity;
};

/* Reads and compiles everything that is named, looked at together. Returns the exit code after
 * saying what cannot be read; errors of the files are in their diagnostics. */
MUST_USE int ctl_sources_read(struct ctl *ctl, struct ctl_sources *files);
void ctl_sources_free(struct ctl_sources *files);

/* "2 errors, 1 warning" */
struct str ctl_found_text(struct ctl *ctl, const struct diags *diags);

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
