/*
 * Queues of workers' tasks in memory: order, doubles, ends of runs, and who is woken.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/queues.h"

struct world {
    struct loop *loop;
    struct queues *queues;
    struct port_tasks port;
    struct arena arena;
};

static struct world *world_open(void)
{
    struct world *w = calloc(1, sizeof(*w));
    struct err err;
    assert_int_equal(loop_open(&w->loop, &err), 0);
    w->queues = queues_new(w->loop);
    w->port = queues_port(w->queues);
    return w;
}

static void world_close(struct world *w)
{
    queues_free(w->queues);
    loop_close(w->loop);
    arena_free(&w->arena);
    free(w);
}

static const char *pop(struct world *w, const char *queue)
{
    struct str key;
    return queues_pop(w->queues, str_z(queue), &w->arena, &key) ? key.ptr : "-";
}

static void offer(struct world *w, const char *queue, const char *run, const char *key)
{
    w->port.offer(w->port.arg, str_z(queue), str_z(run), str_z(key));
}

/* First in, first out, by queue; an offer that comes twice is one. */
static void order(void **state)
{
    struct world *w = world_open();
    (void)state;
    offer(w, "a", "r1", "r1:x:execute");
    offer(w, "b", "r1", "r1:y:execute");
    offer(w, "a", "r2", "r2:x:execute");
    offer(w, "a", "r1", "r1:x:execute");
    assert_string_equal(pop(w, "a"), "r1:x:execute");
    assert_string_equal(pop(w, "a"), "r2:x:execute");
    assert_string_equal(pop(w, "a"), "-");
    offer(w, "a", "r1", "r1:x:execute");
    assert_string_equal(pop(w, "a"), "r1:x:execute");
    assert_string_equal(pop(w, "b"), "r1:y:execute");
    assert_string_equal(pop(w, "none"), "-");
    world_close(w);
}

/* The tasks of a run that has ended are gone, from the middle of a queue and from its end. */
static void ends_of_runs(void **state)
{
    struct world *w = world_open();
    (void)state;
    offer(w, "a", "r1", "r1:x:execute");
    offer(w, "a", "r2", "r2:x:execute");
    offer(w, "a", "r1", "r1:z:execute");
    offer(w, "b", "r1", "r1:y:execute");
    w->port.forget(w->port.arg, STR("r1"));
    w->port.forget(w->port.arg, STR("nobody"));
    offer(w, "a", "r3", "r3:x:execute");
    assert_string_equal(pop(w, "b"), "-");
    assert_string_equal(pop(w, "a"), "r2:x:execute");
    assert_string_equal(pop(w, "a"), "r3:x:execute");
    assert_string_equal(pop(w, "a"), "-");
    offer(w, "a", "r4", "r4:x:execute");
    queues_clear(w->queues);
    assert_string_equal(pop(w, "a"), "-");
    world_close(w);
}

static void ready(void *arg)
{
    ++*(int *)arg;
}

/* Each offer wakes one taker, the one that has waited longest; one that went away is not woken, and
 * what it was told of goes to the next. */
static void takers(void **state)
{
    struct world *w = world_open();
    int woken[3] = {0};
    struct queue_taker list[3];
    (void)state;
    for (int i = 0; i < 3; i++) {
        list[i] = (struct queue_taker){.ready = ready, .arg = &woken[i]};
        queues_wait(w->queues, STR("a"), &list[i]);
    }
    queues_unwait(w->queues, &list[1]);
    offer(w, "b", "r1", "r1:y:execute");
    offer(w, "a", "r1", "r1:x:execute");
    loop_turn(w->loop, 0);
    assert_int_equal(woken[0], 1);
    assert_int_equal(woken[2], 0);
    assert_string_equal(pop(w, "a"), "r1:x:execute");
    queues_wait(w->queues, STR("a"), &list[1]);
    offer(w, "a", "r2", "r2:x:execute");
    queues_unwait(w->queues, &list[2]); /* between the wake and the loop's turn */
    loop_turn(w->loop, 0);
    assert_int_equal(woken[1], 1);
    assert_int_equal(woken[2], 0);
    world_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order),
        cmocka_unit_test(ends_of_runs),
        cmocka_unit_test(takers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
