/*
 * test_sim.c: many simulated worlds, one seed each.
 *
 *     test_sim                 SEEDS (1000) worlds from FIRST (1) on
 *     SEED=42 test_sim         one world, told step by step on stderr
 *
 * It stops at the tenth (FAILURES) world that fails.
 */
#include "engine/log.h"
#include "tests/sim/world.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void quiet(void *arg, enum log_level level, const char *line)
{
    struct world *world = arg;
    (void)level;
    if (world)
        world_trace(world, "log: %s", line);
}

static bool world_holds(uint64_t seed, FILE *trace)
{
    struct world *world = xcalloc(1, sizeof(*world));
    log_divert(quiet, world);
    world_init(world, seed, trace);
    world_run(world);
    if (world->failure[0])
        printf("seed %llu: %s\n    replay: make sim SEED=%llu\n", (unsigned long long)seed,
               world->failure, (unsigned long long)seed);
    bool holds = !world->failure[0];
    world_free(world);
    free(world);
    return holds;
}

int main(void)
{
    uint64_t seed = number_of("SEED", 0), first = number_of("FIRST", 1);
    uint64_t seeds = number_of("SEEDS", 1000), failed = 0;
    uint64_t failures = number_of("FAILURES", 10);
    if (seed)
        return world_holds(seed, stderr) ? 0 : 1;
    printf("seeds %llu to %llu\n", (unsigned long long)first,
           (unsigned long long)(first + seeds - 1));
    for (uint64_t i = 0; i < seeds && failed < failures; i++)
        failed += !world_holds(first + i, NULL);
    printf("%d passed, %d failed\n", failed == 0, failed != 0);
    return failed != 0;
}
