/*
 * test_plan.h: what the `tests` of a workflow say, checked and compiled.
 *
 * A test plays one run of the workflow in a simulated world: the services answer as the test says,
 * time is simulated. Read by the stub world (engine/stub_world.h) and by `sagactl test`. Immutable;
 * everything hangs in the arena of `struct tests`. Durations are microseconds.
 */
#ifndef DSL_TEST_PLAN_H
#define DSL_TEST_PLAN_H

#include "dsl/plan.h"

/* How one attempt ends. All but the first are written as a word. */
#define TEST_ANSWER_KINDS(X)                                                                      \
    X(TEST_ANSWER_REPLY, "reply")             /* the service answers */                           \
    X(TEST_ANSWER_LOST, "lost")               /* it did what was asked; its answer is lost */     \
    X(TEST_ANSWER_LOST_BEFORE, "lost_before") /* the request is lost: nothing was done */         \
    X(TEST_ANSWER_TIMEOUT, "timeout")         /* nothing was done, no answer until the timeout */ \
    X(TEST_ANSWER_CONNECT, "connect")         /* no connection: certainly not sent */
enum test_answer_kind {
    TEST_ANSWER_NONE,
#define X(id, name) id,
    TEST_ANSWER_KINDS(X)
#undef X
};

enum test_done { TEST_DONE_BY_ANSWER, TEST_DONE_YES, TEST_DONE_NO };

struct test_answer {
    enum test_answer_kind kind;
    enum test_done done;        /* whether the effect happened; else the outcome says it */
    int64_t after_us;           /* how long the service takes; -1: as usual */
    int status;                 /* http; 0: 200 */
    int exit;                   /* exec */
    const struct json *headers; /* http: object of texts; NULL: none */
    struct str body;            /* http body, exec stdout, sql result, worker's output; absent: as
                                 * usual */
    struct str stderr_text;     /* exec */
    char sqlstate[6];           /* sql: "" = success */
    const char *child_end;      /* child: "done", ... as enum child_end; NULL: done */
    bool failed, retryable;     /* worker */
    struct str message, code;   /* worker, of a failure; code absent: none */
};

/* The answers to one effect, one an attempt, or to the questions about it, one a read; the last one
 * repeats. */
struct test_answers {
    uint16_t step;
    struct str item; /* "" = the step itself, or all instances of a loop */
    bool compensation, asks;
    const struct test_answer *list;
    uint32_t count; /* at least 1 */
};

struct test_verb {
    int64_t at_us;
    const char *verb; /* "cancel", ... */
    struct str step;  /* as operators write it; "" = none */
    struct str reason, output;
    struct str name; /* signal; its data is `output` */
    bool applied;
    uint32_t line;
};

#define TEST_EXPECTS(X)                                                               \
    X(TEST_EXPECT_STATE, "state")                                                     \
    X(TEST_EXPECT_CAUSE, "cause")                                                     \
    X(TEST_EXPECT_REASON, "reason") /* why it is parked */                            \
    X(TEST_EXPECT_CALLS, "calls")   /* list of STEP and STEP:compensate */            \
    X(TEST_EXPECT_ASKS, "asks")     /* the same, of questions */                      \
    X(TEST_EXPECT_OUTPUT, "output")                                                   \
    X(TEST_EXPECT_RESIDUE, "residue") /* list of steps, or of parts of its entries */ \
    X(TEST_EXPECT_TAKES, "takes")                                                     \
    X(TEST_EXPECT_STEP_STATE, "state")                                                \
    X(TEST_EXPECT_STEP_COMPENSATION_STATE, "compensation_state")                      \
    X(TEST_EXPECT_STEP_ATTEMPTS, "attempts")                                          \
    X(TEST_EXPECT_STEP_OUTPUT, "output")
enum test_expect_kind {
    TEST_EXPECT_NONE,
#define X(id, name) id,
    TEST_EXPECTS(X)
#undef X
};

struct test_expect {
    enum test_expect_kind kind;
    uint32_t line;
    const struct json *value;
    uint16_t step; /* TEST_EXPECT_STEP_...: whose */
    struct str item;
    bool any_order;      /* TEST_EXPECT_CALLS */
    int64_t at_least_us; /* TEST_EXPECT_TAKES: inclusive */
    int64_t at_most_us;  /* INT64_MAX: no limit */
};

struct test_case {
    const char *name;
    uint32_t line;
    const struct json *input; /* an object that fits the workflow's schema */
    const struct json *env;   /* object of texts; NULL: none */
    struct wall starts_at;    /* simulated time of the submit; unset: the world's own */
    const struct test_answers *answers;
    const struct test_verb *verbs; /* ascending */
    const struct test_expect *expects;
    uint32_t answers_count, verbs_count, expects_count;
};

struct tests {
    struct arena arena;
    const struct test_case *list;
    uint32_t count;
};

#endif
