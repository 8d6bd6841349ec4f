/*
 * failpoint.h: named lines at which a test can end or freeze the daemon.
 *
 * SAGA_FAILPOINT=NAME[:N]:kill|abort|stop makes the N-th time (1 if not given) that FAILPOINT(NAME)
 * is reached raise SIGKILL, SIGABRT or SIGSTOP in this process; it happens once. Without the
 * variable a failpoint is one test of a flag. Compiled in always, so that what is tested is what is
 * shipped. Adapters and mains only: decisions know nothing of it.
 */
#ifndef ENGINE_FAILPOINT_H
#define ENGINE_FAILPOINT_H

#include "engine/base/err.h"

/* The names, and what is true when one is reached. */
#define FAILPOINTS(X)                                                               \
    X("lease_acquired", "the lanes are ours, nothing is loaded")                    \
    X("lease_released", "the lanes are given back, the process still runs")         \
    X("load_page", "a page of runs came from the database")                         \
    X("unit_send", "a unit is encoded, nothing of it has left")                     \
    X("unit_sent", "a unit was handed to the kernel")                               \
    X("unit_answered", "the database has decided a unit, the runner does not know") \
    X("unit_told", "the runner has the answer, nothing follows from it yet")        \
    X("invoke_start", "a claim is durable, its request has not left")               \
    X("invoke_started", "a request was handed to its invoker")                      \
    X("http_send", "the connection stands, the request has not left")               \
    X("invoke_reply", "an answer came, the runner does not know")                   \
    X("invoke_replied", "the runner has the answer, nothing of it is durable")      \
    X("sql_begin", "an SQL action is to begin, nothing has left")                   \
    X("sql_sent", "BEGIN and the statement were handed to the kernel")              \
    X("sql_open", "the statement is done and open, the runner does not know")       \
    X("sql_commit", "action and record are to be committed, nothing has left")      \
    X("sql_commit_sent", "record and COMMIT were handed to the kernel")             \
    X("sql_committed", "action and record are committed, the runner does not know") \
    X("sql_elsewhere_commit_sent", "elsewhere: COMMIT was handed to the kernel")    \
    X("sql_elsewhere_committed", "elsewhere: committed, the runner does not know")  \
    X("turn_begin", "before the decisions of a turn")                               \
    X("turn_end", "after the decisions and sends of a turn")                        \
    X("submit_answer", "a submit is durable, the caller does not know")             \
    X("submit_answered", "the answer to a submit was handed to the socket")         \
    X("verb_answer", "a verb is decided, the caller does not know")                 \
    X("task_answer", "a task is taken or ended, its worker does not know")          \
    X("inbox_offer", "a row of the inbox is about to be taken")

extern bool failpoint_armed;

#define FAILPOINT(name)          \
    do {                         \
        if (failpoint_armed)     \
            failpoint_hit(name); \
    } while (0)

/* Reads SAGA_FAILPOINT. Errors: ERR_INVALID, saying what is wrong with it. */
MUST_USE int failpoint_setup(struct err *err);
void failpoint_hit(const char *name);

#endif
