#include "engine/loop.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#define TURN_HOOKS_MAX 16 /* one per adapter that acts once a turn */

struct turn_hook {
    void (*fn)(void *arg);
    void *arg;
};

struct loop {
    struct event_base *base;
    struct loop_call deferred; /* head of a ring */
    struct loop_call mark;     /* in the ring: where the running batch ends */
    struct turn_hook hooks[TURN_HOOKS_MAX];
    unsigned hooks_count;
    struct event limit; /* bounds the wait of loop_turn */
    bool stopping;

    bool wall_known;        /* the database was heard */
    int64_t wall_offset_us; /* database time = CLOCK_BOOTTIME + this */
    struct wall wall_last;  /* what loop_wall said last */
};

struct loop_timer {
    struct event event;
    void (*cb)(void *arg);
    void *arg;
};

struct loop_fd {
    struct event read, write;
    unsigned wanted;
    void (*cb)(void *arg, unsigned ready);
    void *arg;
};

struct loop_signal {
    struct event event;
    void (*cb)(void *arg, int number);
    void *arg;
};

static int64_t clock_us(clockid_t id)
{
    struct timespec now;
    ASSERT(clock_gettime(id, &now) == 0);
    return now.tv_sec * SECOND_US + now.tv_nsec / 1000;
}

static void limit_passed(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what, (void)arg; /* its only purpose is to end the wait */
}

int loop_open(struct loop **out, struct err *err)
{
    struct event_config *config = event_config_new();
    ASSERT(config);
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    /* Many short-lived changes per descriptor: one system call per turn and descriptor is enough.
     * Safe because descriptors are never closed before loop_fd_free. */
    event_config_set_flag(config, EVENT_BASE_FLAG_EPOLL_USE_CHANGELIST);
    struct event_base *base = event_base_new_with_config(config);
    event_config_free(config);
    if (!base)
        return err_set(err, ERR_IO, "could not create an event loop: %s", strerror(errno));

    signal(SIGPIPE, SIG_IGN);
    struct loop *loop = xcalloc(1, sizeof(*loop));
    loop->base = base;
    loop->deferred.next = loop->deferred.prev = &loop->deferred;
    loop->wall_offset_us = clock_us(CLOCK_REALTIME) - clock_us(CLOCK_BOOTTIME);
    event_assign(&loop->limit, base, -1, 0, limit_passed, loop);
    *out = loop;
    return 0;
}

void loop_close(struct loop *loop)
{
    if (!loop)
        return;
    event_del(&loop->limit);
    event_base_free(loop->base);
    free(loop);
}

/* Calls those that were queued when it began: a call that defers itself again does not keep the
 * loop from its descriptors. */
static void deferred_run(struct loop *loop)
{
    struct loop_call *head = &loop->deferred, *mark = &loop->mark;
    loop_defer(loop, mark, NULL, NULL);
    while (head->next != mark) {
        struct loop_call *call = head->next;
        loop_defer_cancel(loop, call);
        call->fn(call->arg);
    }
    loop_defer_cancel(loop, mark);
}

void loop_turn(struct loop *loop, int64_t wait_us)
{
    bool wait = wait_us && loop->deferred.next == &loop->deferred;
    if (wait && wait_us > 0)
        event_add(&loop->limit, &(struct timeval){wait_us / SECOND_US, wait_us % SECOND_US});
    event_base_loop(loop->base,
                    EVLOOP_NO_EXIT_ON_EMPTY | EVLOOP_ONCE | (wait ? 0 : EVLOOP_NONBLOCK));
    if (wait && wait_us > 0)
        event_del(&loop->limit);
    deferred_run(loop);
    for (unsigned i = 0; i < loop->hooks_count; i++)
        loop->hooks[i].fn(loop->hooks[i].arg);
}

void loop_run(struct loop *loop)
{
    loop->stopping = false;
    while (!loop->stopping)
        loop_turn(loop, -1);
    deferred_run(loop);
}

void loop_stop(struct loop *loop)
{
    loop->stopping = true;
}

bool loop_is_stopping(const struct loop *loop)
{
    return loop->stopping;
}

struct event_base *loop_base(struct loop *loop)
{
    return loop->base;
}

struct mono loop_mono(void)
{
    return (struct mono){clock_us(CLOCK_BOOTTIME)};
}

struct wall loop_wall(struct loop *loop)
{
    struct wall now = {loop_mono().us + loop->wall_offset_us};
    loop->wall_last.us = MAX(now.us, loop->wall_last.us + 1);
    return loop->wall_last;
}

void loop_wall_set(struct loop *loop, struct wall db_now, struct mono before_send)
{
    int64_t highest = db_now.us - before_send.us;
    int64_t lowest = db_now.us - loop_mono().us;
    if (!loop->wall_known) {
        /* Too late rather than too early: no key is used past its lifetime. */
        loop->wall_offset_us = highest;
        loop->wall_last = db_now;
        loop->wall_known = true;
        return;
    }
    loop->wall_offset_us = MIN(MAX(loop->wall_offset_us, lowest), highest);
}

static void timer_fired(evutil_socket_t fd, short what, void *arg)
{
    struct loop_timer *timer = arg;
    (void)fd, (void)what;
    timer->cb(timer->arg);
}

struct loop_timer *loop_timer_new(struct loop *loop, void (*cb)(void *arg), void *arg)
{
    struct loop_timer *timer = xcalloc(1, sizeof(*timer));
    timer->cb = cb;
    timer->arg = arg;
    event_assign(&timer->event, loop->base, -1, 0, timer_fired, timer);
    return timer;
}

void loop_timer_set(struct loop_timer *timer, int64_t after_us)
{
    after_us = MAX(after_us, 0);
    event_add(&timer->event, &(struct timeval){after_us / SECOND_US, after_us % SECOND_US});
}

void loop_timer_stop(struct loop_timer *timer)
{
    event_del(&timer->event);
}

bool loop_timer_is_set(const struct loop_timer *timer)
{
    return event_pending(&timer->event, EV_TIMEOUT, NULL);
}

void loop_timer_free(struct loop_timer *timer)
{
    if (!timer)
        return;
    event_del(&timer->event);
    free(timer);
}

static void fd_readable(evutil_socket_t fd, short what, void *arg)
{
    struct loop_fd *watch = arg;
    (void)fd, (void)what;
    watch->cb(watch->arg, LOOP_READ);
}

static void fd_writable(evutil_socket_t fd, short what, void *arg)
{
    struct loop_fd *watch = arg;
    (void)fd, (void)what;
    watch->cb(watch->arg, LOOP_WRITE);
}

struct loop_fd *loop_fd_new(struct loop *loop, int fd, void (*cb)(void *arg, unsigned ready),
                            void *arg)
{
    struct loop_fd *watch = xcalloc(1, sizeof(*watch));
    watch->cb = cb;
    watch->arg = arg;
    event_assign(&watch->read, loop->base, fd, EV_READ | EV_PERSIST, fd_readable, watch);
    event_assign(&watch->write, loop->base, fd, EV_WRITE | EV_PERSIST, fd_writable, watch);
    return watch;
}

static void event_switch(struct event *event, bool on, bool wanted)
{
    if (on && !wanted)
        event_del(event);
    if (!on && wanted)
        event_add(event, NULL);
}

void loop_fd_want(struct loop_fd *watch, unsigned ready)
{
    event_switch(&watch->read, watch->wanted & LOOP_READ, ready & LOOP_READ);
    event_switch(&watch->write, watch->wanted & LOOP_WRITE, ready & LOOP_WRITE);
    watch->wanted = ready;
}

void loop_fd_free(struct loop_fd *watch)
{
    if (!watch)
        return;
    loop_fd_want(watch, 0);
    free(watch);
}

static void signal_came(evutil_socket_t number, short what, void *arg)
{
    struct loop_signal *watch = arg;
    (void)what;
    watch->cb(watch->arg, number);
}

struct loop_signal *loop_signal_new(struct loop *loop, int number,
                                    void (*cb)(void *arg, int number), void *arg)
{
    struct loop_signal *watch = xcalloc(1, sizeof(*watch));
    watch->cb = cb;
    watch->arg = arg;
    event_assign(&watch->event, loop->base, number, EV_SIGNAL | EV_PERSIST, signal_came, watch);
    event_add(&watch->event, NULL);
    return watch;
}

void loop_signal_free(struct loop_signal *watch)
{
    if (!watch)
        return;
    event_del(&watch->event);
    free(watch);
}

void loop_defer(struct loop *loop, struct loop_call *call, void (*fn)(void *arg), void *arg)
{
    call->fn = fn;
    call->arg = arg;
    if (call->next)
        return;
    call->next = &loop->deferred;
    call->prev = loop->deferred.prev;
    call->prev->next = call;
    loop->deferred.prev = call;
}

void loop_defer_cancel(struct loop *loop, struct loop_call *call)
{
    (void)loop;
    if (!call->next)
        return;
    call->prev->next = call->next;
    call->next->prev = call->prev;
    call->next = call->prev = NULL;
}

void loop_turn_add(struct loop *loop, void (*hook)(void *arg), void *arg)
{
    ASSERT(loop->hooks_count < TURN_HOOKS_MAX);
    loop->hooks[loop->hooks_count++] = (struct turn_hook){hook, arg};
}

void loop_turn_remove(struct loop *loop, void (*hook)(void *arg), void *arg)
{
    for (unsigned i = 0; i < loop->hooks_count; i++)
        if (loop->hooks[i].fn == hook && loop->hooks[i].arg == arg) {
            memmove(&loop->hooks[i], &loop->hooks[i + 1],
                    (loop->hooks_count - i - 1) * sizeof(loop->hooks[0]));
            loop->hooks_count--;
            return;
        }
}
