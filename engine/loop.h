/*
 * loop.h: the one event loop of a process: timers, descriptors, signals, deferred calls, clocks.
 *
 * A thin layer over libevent, so that the adapters share one shape of callback and one order of
 * work. A turn of the loop is:
 *
 *   1. the callbacks of every descriptor, timer and signal that is ready,
 *   2. the calls that were deferred before this turn's step 2 began,
 *   3. the turn hooks, in the order they were added (the runner's decisions, then sends).
 *
 * The loop sleeps only when nothing is deferred. Single-threaded: every function is called from
 * the thread that runs the loop. No callback is ever called from inside the function that
 * registered it.
 *
 * Objects (struct loop_timer, loop_fd, loop_signal) belong to the caller, who frees each before
 * the loop is closed; freeing one inside its own callback is allowed, and it is silent from then
 * on. Callbacks and `arg` are borrowed until the object is freed.
 */
#ifndef ENGINE_LOOP_H
#define ENGINE_LOOP_H

#include "engine/base/clock.h"
#include "engine/base/err.h"

struct loop;
struct event_base;

/* Ignores SIGPIPE for the whole process: a write to a closed peer is an EPIPE of that one peer.
 * Errors: ERR_IO when the kernel gives no descriptors. */
MUST_USE int loop_open(struct loop **out, struct err *err);
void loop_close(struct loop *loop); /* NULL is allowed */

/* Runs turns until loop_stop; what is deferred then is still called before it returns. */
void loop_run(struct loop *loop);
/* Runs one turn, waiting for at most `wait_us` (0: not at all; negative: until something is
 * ready). For tests and for waits at start-up. */
void loop_turn(struct loop *loop, int64_t wait_us);
/* Ends loop_run after the current turn. */
void loop_stop(struct loop *loop);
bool loop_is_stopping(const struct loop *loop);

/* For libraries that sit on libevent themselves (evhttp). */
struct event_base *loop_base(struct loop *loop);

/* --- time --- */

/* CLOCK_BOOTTIME: goes on while the machine sleeps. */
struct mono loop_mono(void);

/* Database time as this process reckons it: the newest answer's clock plus CLOCK_BOOTTIME since.
 * Every reading is later than the one before, by a microsecond at least, so that what happened in
 * order is stored in order. Before the first loop_wall_set it is the machine's own clock. */
struct wall loop_wall(struct loop *loop);
/* Tells that the database's clock read `db_now` at some moment between `before_send` and now. The
 * reckoning is moved no further than that interval forces it to, so that a slow answer does not
 * shift it. The first call replaces the machine's clock. */
void loop_wall_set(struct loop *loop, struct wall db_now, struct mono before_send);

/* --- timers: one shot, relative, about a millisecond exact --- */

struct loop_timer;

struct loop_timer *loop_timer_new(struct loop *loop, void (*cb)(void *arg), void *arg);
void loop_timer_set(struct loop_timer *timer, int64_t after_us); /* replaces; 0 and less: soon */
void loop_timer_stop(struct loop_timer *timer);
bool loop_timer_is_set(const struct loop_timer *timer);
void loop_timer_free(struct loop_timer *timer); /* NULL is allowed */

/* --- descriptors: level-triggered --- */

enum loop_ready {
    LOOP_READ = 1, /* also: the peer closed, or there is an error to be read */
    LOOP_WRITE = 2,
};

struct loop_fd;

/* `cb` gets one bit of enum loop_ready at a time. Watches nothing until loop_fd_want. `fd` stays
 * the caller's, who closes it after loop_fd_free, never before: changes are handed to the kernel in
 * batches. */
struct loop_fd *loop_fd_new(struct loop *loop, int fd, void (*cb)(void *arg, unsigned ready),
                            void *arg);
void loop_fd_want(struct loop_fd *watch, unsigned ready);
void loop_fd_free(struct loop_fd *watch); /* NULL is allowed */

/* --- signals --- */

struct loop_signal;

struct loop_signal *loop_signal_new(struct loop *loop, int number,
                                    void (*cb)(void *arg, int number), void *arg);
void loop_signal_free(struct loop_signal *watch); /* NULL is allowed */

/* --- deferred calls and the turn --- */

/* Embedded in the caller's object; zeroed memory is a call that is not queued. */
struct loop_call {
    void (*fn)(void *arg);
    void *arg;
    struct loop_call *next, *prev; /* the loop's */
};

/* Queues `call` once; queueing a queued call changes nothing but fn and arg. */
void loop_defer(struct loop *loop, struct loop_call *call, void (*fn)(void *arg), void *arg);
void loop_defer_cancel(struct loop *loop, struct loop_call *call);

/* Called at the end of every turn, also of one in which nothing was ready. */
void loop_turn_add(struct loop *loop, void (*hook)(void *arg), void *arg);
void loop_turn_remove(struct loop *loop, void (*hook)(void *arg), void *arg);

#endif
