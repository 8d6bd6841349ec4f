/*
 * invoke_exec.h: runs exec actions: one program of one directory, its arguments as they are.
 *
 * Never a shell. The program gets the key and its companions in its environment (SAGA_KEY,
 * SAGA_RUN, SAGA_STEP, SAGA_ATTEMPT, SAGA_ACTION, SAGA_COMPENSATES), a PATH, what the workflow
 * declared, and nothing else of the daemon: no variable, no descriptor, no signal setting. It
 * stands in the configured directory and leads a process group of its own.
 *
 * Answers:
 *   REPLY_EXEC            it ended by itself: status = exit code, or -signal
 *   REPLY_NO_ANSWER       the time limit passed (timed_out; status = -signal, or the exit code
 *                         that it chose when told to end), or it was dropped
 *   REPLY_LOCAL_SHORTAGE  no process, descriptor or memory; or none became free in time
 *   REPLY_CANNOT_SEND     exec is off, or there is no such program, or a text cannot be passed
 *   REPLY_NOT_SENT        dropped or drained before it was started
 *
 * At the time limit the whole group gets SIGTERM, and SIGKILL EXEC_GRACE_US later. The answer is
 * given when the program itself is gone; descendants that keep its output open do not delay it,
 * and what is left of the group by then is killed.
 *
 * Standard output is the body (BODY_BYTES_MAX; text without NUL, else dropped); of standard error
 * the end is kept (EXEC_STDERR_BYTES_MAX). A program may read its input or not.
 */
#ifndef ENGINE_INVOKE_EXEC_H
#define ENGINE_INVOKE_EXEC_H

#include "engine/loop.h"
#include "engine/port.h"
#include "engine/secrets.h"

#define EXEC_CHILDREN_MAX 32 /* at a time, unless the options say otherwise */
#define EXEC_GRACE_US (2 * SECOND_US)
#define EXEC_STDERR_BYTES_MAX (16 * 1024)

struct invoke_exec_options {
    struct loop *loop;
    const struct secrets *secrets; /* may be NULL */
    const char *directory;         /* NULL: exec is off */
    unsigned children_max;         /* 0: EXEC_CHILDREN_MAX */
    int64_t grace_us;              /* 0: EXEC_GRACE_US */
    /* `reply` is borrowed until it returns. */
    void (*reply)(void *arg, uint64_t invocation_id, const struct reply *reply);
    void *reply_arg;
};

struct invoke_exec;

struct invoke_exec *invoke_exec_new(const struct invoke_exec_options *options); /* copied */
/* Kills what still runs; what is not answered then is never answered. */
void invoke_exec_free(struct invoke_exec *exec); /* NULL is allowed */

const struct port_invoke *invoke_exec_port(struct invoke_exec *exec);

/* As invoke_http_drain: nothing new is started; with `cut`, what runs is killed now. */
void invoke_exec_drain(struct invoke_exec *exec, bool cut);
size_t invoke_exec_busy(const struct invoke_exec *exec);

#endif
