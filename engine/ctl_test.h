/*
 * ctl_test.h: what the parts of `sagactl test` share: files of tests, one walk of a run, and its
 * comparison with what was expected.
 */
#ifndef ENGINE_CTL_TEST_H
#define ENGINE_CTL_TEST_H

#include "dsl/diag.h"
#include "dsl/tests.h"
#include "engine/ctl_core.h"
#include "engine/stub_world.h"

struct test_file {
    const char *name;     /* as given: the workflow's, or NAME.test.yaml */
    const char *workflow; /* the workflow's own file */
    struct str source, workflow_source;
    struct plan *plan;   /* NULL: it has errors */
    struct tests *tests; /* NULL: they have errors */
    struct diags plan_diags, tests_diags;
    const struct str *outputs; /* dsl_sample_outputs */
};

/* How a test came out. */
struct test_failure {
    uint32_t line;    /* of the expectation, in the file of the tests */
    const char *what; /* "state", "calls", "steps.charge.state" */
    struct str expected, got;
};
#define TEST_FAILURES_MAX 64
struct test_failures {
    struct test_failure list[TEST_FAILURES_MAX];
    uint32_t count;
};

/* The world of a test without faults: everything is borrowed from the file and the test. Fails if
 * the run's id cannot be rendered from the input. */
MUST_USE int ctl_test_config(const struct test_file *file, const struct test_case *test,
                             struct arena *arena, struct stub_config *out, struct err *err);
/* Compares; texts lie in the arena. */
void ctl_test_compare(const struct test_case *test, const struct stub_result *result,
                      struct arena *arena, struct test_failures *out);

/* "compensated (step_refused)", "parked: outcome_unknown" */
struct str ctl_test_end_text(const struct stub_result *result, struct arena *arena);

/* What could not be played as it should, and what to write instead; each once. */
struct ctl_test_notes {
    struct str list[16];
    uint32_t count;
};
/* Adds those of one walk; texts lie in the arena. */
void ctl_test_unplayed_add(const struct stub_result *result, struct arena *arena,
                           struct ctl_test_notes *notes);
void ctl_test_notes_print(const struct ctl_test_notes *notes, unsigned indent, struct buf *out);
const struct json *ctl_test_notes_json(const struct ctl_test_notes *notes, struct arena *arena);

/* The lines of what happened, each behind `indent` blanks. */
void ctl_test_trace_print(const struct stub_result *result, unsigned indent, struct arena *arena,
                          struct buf *out);
const struct json *ctl_test_trace_json(const struct stub_result *result, struct arena *arena);
/* The run's texts as JSON values; null if absent. */
const struct json *ctl_test_value(struct str text, struct arena *arena);

/* Walks with every fault; prints the table, or gives an object of JSON. `test` NULL: a sample
 * input. Returns CTL_USAGE if there is no input to play with. */
struct test_faults_report {
    bool *reached; /* the caller's, by step: set where a walk came to it */
    const struct json *json;
    uint32_t walks, broken;
};
int ctl_test_faults(struct ctl *ctl, const struct test_file *file, const struct test_case *test,
                    struct test_faults_report *out);

#endif
