/* The event loop: order within a turn, and the clocks. */
#include "engine/loop.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

struct world {
    struct loop *loop;
    char trace[256];
    struct loop_timer *timer;
    struct loop_fd *watch;
    struct loop_signal *signal;
    struct loop_call call, second;
    int pipe[2];
    int turns, rounds;
};

static void note(struct world *w, const char *what)
{
    strcat(w->trace, what);
    strcat(w->trace, " ");
}

static int setup(void **state)
{
    static struct world world;
    struct err err;
    world = (struct world){0};
    assert_int_equal(loop_open(&world.loop, &err), 0);
    assert_int_equal(pipe(world.pipe), 0);
    *state = &world;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    loop_timer_free(w->timer);
    loop_fd_free(w->watch);
    loop_signal_free(w->signal);
    close(w->pipe[0]);
    close(w->pipe[1]);
    loop_close(w->loop);
    return 0;
}

static void on_call(void *arg)
{
    note(arg, "call");
}

static void on_again(void *arg)
{
    struct world *w = arg;
    note(w, "again");
    if (++w->rounds < 3)
        loop_defer(w->loop, &w->call, on_again, w);
}

static void on_timer(void *arg)
{
    struct world *w = arg;
    note(w, "timer");
    loop_defer(w->loop, &w->call, on_call, w);
}

static void on_ready(void *arg, unsigned ready)
{
    struct world *w = arg;
    char byte;
    assert_int_equal(ready, LOOP_READ);
    assert_int_equal(read(w->pipe[0], &byte, 1), 1);
    note(w, "fd");
}

static void on_turn(void *arg)
{
    struct world *w = arg;
    note(w, "turn");
    w->turns++;
}

/* What is ready comes first, then what was deferred, then the hook. */
static void test_order_of_a_turn(void **state)
{
    struct world *w = *state;
    loop_turn_add(w->loop, on_turn, w);
    w->watch = loop_fd_new(w->loop, w->pipe[0], on_ready, w);
    loop_fd_want(w->watch, LOOP_READ);
    w->timer = loop_timer_new(w->loop, on_timer, w);
    loop_timer_set(w->timer, 0);
    assert_string_equal(w->trace, ""); /* nothing is called by registering it */
    loop_turn(w->loop, -1);
    assert_string_equal(w->trace, "timer call turn ");
    assert_int_equal(write(w->pipe[1], "x", 1), 1);
    loop_turn(w->loop, -1);
    assert_string_equal(w->trace, "timer call turn fd turn ");
    loop_turn_remove(w->loop, on_turn, w);
    loop_turn(w->loop, 0);
    assert_int_equal(w->turns, 2);
}

/* A call that defers itself takes a turn each time and keeps the loop awake. */
static void test_deferred_calls_do_not_starve(void **state)
{
    struct world *w = *state;
    w->watch = loop_fd_new(w->loop, w->pipe[0], on_ready, w);
    loop_fd_want(w->watch, LOOP_READ);
    assert_int_equal(write(w->pipe[1], "xx", 2), 2);
    loop_defer(w->loop, &w->call, on_again, w);
    for (int i = 0; i < 3; i++)
        loop_turn(w->loop, -1);
    assert_string_equal(w->trace, "fd again fd again again ");
    loop_defer(w->loop, &w->call, on_call, w);
    loop_defer(w->loop, &w->second, on_again, w);
    loop_defer(w->loop, &w->call, on_call, w); /* queued once */
    loop_defer_cancel(w->loop, &w->second);
    loop_turn(w->loop, 0);
    assert_string_equal(w->trace, "fd again fd again again call ");
}

static void on_ready_free(void *arg, unsigned ready)
{
    struct world *w = arg;
    (void)ready;
    note(w, "freed");
    loop_fd_free(w->watch);
    w->watch = NULL;
}

/* A descriptor may be given up inside its own callback, although it is ready in both ways. */
static void test_free_inside_callback(void **state)
{
    struct world *w = *state;
    w->watch = loop_fd_new(w->loop, w->pipe[1], on_ready_free, w);
    loop_fd_want(w->watch, LOOP_READ | LOOP_WRITE);
    close(w->pipe[0]); /* an error on the writing end shows as both */
    w->pipe[0] = dup(0);
    loop_turn(w->loop, SECOND_US);
    loop_turn(w->loop, 0);
    assert_string_equal(w->trace, "freed ");
}

static void on_stop(void *arg, int number)
{
    struct world *w = arg;
    assert_int_equal(number, SIGUSR1);
    note(w, "signal");
    loop_stop(w->loop);
    loop_defer(w->loop, &w->call, on_call, w);
}

/* A signal ends the loop; what it deferred is still called. */
static void test_signal_and_stop(void **state)
{
    struct world *w = *state;
    w->signal = loop_signal_new(w->loop, SIGUSR1, on_stop, w);
    kill(getpid(), SIGUSR1);
    loop_run(w->loop);
    assert_true(loop_is_stopping(w->loop));
    assert_string_equal(w->trace, "signal call ");
}

/* Timers fire once, at their time, and can be moved and stopped. */
static void test_timers(void **state)
{
    struct world *w = *state;
    w->timer = loop_timer_new(w->loop, on_timer, w);
    struct mono begun = loop_mono();
    loop_timer_set(w->timer, 10 * SECOND_US);
    loop_timer_set(w->timer, 50 * MS_US);
    assert_true(loop_timer_is_set(w->timer));
    loop_turn(w->loop, 5 * SECOND_US);
    assert_in_range(loop_mono().us - begun.us, 40 * MS_US, 500 * MS_US);
    assert_string_equal(w->trace, "timer call ");
    assert_false(loop_timer_is_set(w->timer));
    loop_timer_set(w->timer, 0);
    loop_timer_stop(w->timer);
    loop_turn(w->loop, 20 * MS_US);
    assert_string_equal(w->trace, "timer call ");
}

/* A peer that is gone is an error of one write, not the end of the process. */
static void test_a_daemon_5(void **state)
{
    struct world *w = *state;
    close(w->pipe[0]);
    w->pipe[0] = dup(0);
    assert_int_equal(write(w->pipe[1], "x", 1), -1);
}

static int64_t real_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * SECOND_US + now.tv_nsec / 1000;
}

/* Until the database is heard its time is the machine's; then it is the database's alone. */
static void test_database_time_begins(void **state)
{
    struct world *w = *state;
    assert_in_range(loop_wall(w->loop).us - real_us() + SECOND_US, 0, 2 * SECOND_US);
    struct mono sent = loop_mono();
    usleep(2000);
    loop_wall_set(w->loop, (struct wall){1000 * SECOND_US}, sent);
    int64_t now_us = loop_wall(w->loop).us;
    assert_in_range(now_us, 1000 * SECOND_US + 2000, 1000 * SECOND_US + 500 * MS_US);
    usleep(5000);
    assert_true(loop_wall(w->loop).us >= now_us + 5000);
}

/* A slow answer agrees with what is known and changes nothing; a clock that differs does, but
 * time never goes back. */
static void test_database_time_moves(void **state)
{
    struct world *w = *state;
    loop_wall_set(w->loop, (struct wall){1000 * SECOND_US}, loop_mono());
    int64_t now_us = loop_wall(w->loop).us;
    /* Read somewhere in a round trip of 10 s: no news. */
    loop_wall_set(w->loop, (struct wall){now_us - 3 * SECOND_US},
                  (struct mono){loop_mono().us - 10 * SECOND_US});
    assert_in_range(loop_wall(w->loop).us, now_us, now_us + 500 * MS_US);
    /* The database is 5 s ahead of the reckoning. */
    loop_wall_set(w->loop, (struct wall){now_us + 5 * SECOND_US}, loop_mono());
    now_us += 5 * SECOND_US;
    assert_in_range(loop_wall(w->loop).us, now_us, now_us + 500 * MS_US);
    /* Another database takes over whose clock is 20 ms behind: time stands until it has caught
     * up, then goes on. */
    now_us = loop_wall(w->loop).us;
    loop_wall_set(w->loop, (struct wall){now_us - 20 * MS_US}, loop_mono());
    assert_true(loop_wall(w->loop).us >= now_us);
    assert_true(loop_wall(w->loop).us < now_us + 500 * MS_US);
    usleep(40000);
    assert_in_range(loop_wall(w->loop).us, now_us + 15 * MS_US, now_us + 500 * MS_US);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_order_of_a_turn),
        TEST(test_deferred_calls_do_not_starve),
        TEST(test_free_inside_callback),
        TEST(test_signal_and_stop),
        TEST(test_timers),
        TEST(test_a_daemon_5),
        TEST(test_database_time_begins),
        TEST(test_database_time_moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
