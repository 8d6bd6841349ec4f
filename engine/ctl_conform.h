/*
 * ctl_conform.h: what the parts of `sagactl conform` share.
 *
 * A participant is put to the test with the requests that a step of a workflow would send: the
 * same rendering (render.h), the same sending (invoke.h), the same judgement (outcome.h). It
 * is judged by its answers alone, so what it does without telling stays unseen.
 *
 * A *subject* is one effect at the participant: a run id of its own, and with it a key of its own
 * for doing and one for undoing.
 */
#ifndef ENGINE_CTL_CONFORM_H
#define ENGINE_CTL_CONFORM_H

#include "engine/ctl_core.h"
#include "engine/invoke.h"
#include "engine/outcome.h"
#include "engine/render.h"

#define CONFORM_AT_ONCE 4 /* requests with one key at the same time */

struct conform {
    struct ctl *ctl;
    struct arena *arena; /* the process's */
    const struct plan *plan;
    const struct plan_step *step;
    struct str input; /* JSON text; `{n}` in it becomes another number for each subject */
    const struct json *env;
    const struct str *outputs; /* of the other steps: made up */
    const char *url;           /* base; wins over the plan's */
    const char *prefix;        /* of run ids: new for each process */
    unsigned subjects;
    int64_t timeout_us; /* of one request */

    struct loop *loop;
    struct invoke *invoke;
    struct secrets *secrets; /* NULL: none are known */
    uint64_t next_id;
    struct conform_answer *waiting; /* by invocation id - first_id */
    uint64_t first_id;
    unsigned missing; /* answers */
};

struct conform_subject {
    struct run *run;
    bool applied, undone; /* as far as answers tell */
};

struct conform_answer {
    bool came;
    struct reply reply; /* texts in the arena */
    struct verdict verdict;
};

/* Opens and closes what sends. Errors: ERR_IO. */
MUST_USE int conform_open(struct conform *conform, struct err *err);
void conform_close(struct conform *conform);

/* Errors: ERR_INVALID (the input does not fit). */
MUST_USE int conform_subject_new(struct conform *conform, struct conform_subject *out,
                                 struct err *err);
void conform_subject_free(struct conform_subject *subject);
/* The step is applied with this output, which its undo may read. */
void conform_subject_apply(struct conform_subject *subject, const struct conform *conform,
                           struct str output);

/* The step's action, or with `undo` its compensation, as the engine would send it. Errors:
 * ERR_INVALID, naming what is missing. */
MUST_USE int conform_render(const struct conform *conform, const struct conform_subject *subject,
                            bool undo, struct rendered *out, struct err *err);

/* Sends it `count` times at once, waits for all answers and judges them. */
void conform_send(struct conform *conform, const struct conform_subject *subject, bool undo,
                  const struct rendered *rendered, unsigned count, struct conform_answer *answers);
/* Sends it, and again while the answer says "later", for about ten seconds. */
struct conform_answer conform_settle(struct conform *conform, const struct conform_subject *subject,
                                     bool undo, const struct rendered *rendered);
/* Hands the request to the kernel and closes the connection without reading. Errors: ERR_INVALID
 * (not over http://, or it needs a token from elsewhere), ERR_UNAVAILABLE. */
MUST_USE int conform_cut(struct conform *conform, const struct conform_subject *subject,
                         const struct rendered *rendered, struct err *err);

/* Both said "done" and gave the same: by value if it is JSON. */
bool conform_same(const struct conform_answer *a, const struct conform_answer *b,
                  struct arena *arena);
/* "201 applied", "no answer: unknown" */
struct str conform_text(const struct conform_answer *answer, struct arena *arena);

enum conform_change {
    CONFORM_OTHER,  /* another value */
    CONFORM_NUMBER, /* the same value of a number, written otherwise */
};
/* The request with its JSON body changed in one place, named in `where`; false if there is none to
 * change. */
bool conform_change(const struct rendered *rendered, enum conform_change change,
                    struct arena *arena, struct rendered *out, struct str *where);

#define CONFORM_VERDICTS(X)                                                  \
    X(CONFORM_PASS, "pass")                                                  \
    X(CONFORM_NOTE, "note") /* worth knowing; the engine can live with it */ \
    X(CONFORM_SKIP, "skip") /* cannot be put to it */                        \
    X(CONFORM_FAIL, "fail")
enum conform_verdict {
    CONFORM_NONE,
#define X(id, name) id,
    CONFORM_VERDICTS(X)
#undef X
};

struct conform_check {
    const char *name, *claim; /* claim: what a participant must do */
    enum conform_verdict verdict;
    struct str text; /* what it did, and what follows */
};
#define CONFORM_CHECKS_MAX 16
struct conform_report {
    struct conform_check list[CONFORM_CHECKS_MAX];
    unsigned count;
    struct str left; /* of what the test did and could not undo; absent: nothing */
};

/* Plays all checks. Errors: ERR_INVALID if nothing can be sent at all. */
MUST_USE int conform_play(struct conform *conform, struct conform_report *report, struct err *err);

#endif
