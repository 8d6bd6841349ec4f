#include "engine/bulk.h"

#include "engine/log.h"

#include <stdlib.h>

#define LOOK_US SECOND_US
#define WORK_US (100 * MS_US) /* while one is open */

struct bulks {
    struct loop *loop;
    struct runner *runner;
    struct store_pg *store;
    struct loop_timer *timer;
    bool asking, stopped;
};

static void look(void *arg);

struct bulks *bulks_new(struct loop *loop, struct runner *runner, struct store_pg *store)
{
    struct bulks *bulks = xcalloc(1, sizeof(*bulks));
    *bulks = (struct bulks){.loop = loop, .runner = runner, .store = store};
    bulks->timer = loop_timer_new(loop, look, bulks);
    loop_timer_set(bulks->timer, LOOK_US);
    return bulks;
}

void bulks_nudge(struct bulks *bulks)
{
    if (!bulks->asking && !bulks->stopped)
        loop_timer_set(bulks->timer, 0);
}

void bulks_stop(struct bulks *bulks)
{
    bulks->stopped = true;
    loop_timer_stop(bulks->timer);
}

void bulks_free(struct bulks *bulks)
{
    if (!bulks)
        return;
    loop_timer_free(bulks->timer);
    free(bulks);
}

static void worked(void *arg, const struct store_answer *answer)
{
    struct bulks *bulks = arg;
    bulks->asking = false;
    if (answer->err.code && answer->err.code != ERR_UNAVAILABLE)
        log_warn("verbs in bulk: %s", answer->err.text);
    bool open = answer->text.ptr && !str_eq(answer->text, STR("0"));
    if (!bulks->stopped)
        loop_timer_set(bulks->timer, open ? WORK_US : LOOK_US);
}

static void look(void *arg)
{
    struct bulks *bulks = arg;
    char shards[24];
    const char *params[] = {shards};
    uint64_t owned = runner_stats(bulks->runner).shards;
    if (!owned || !store_pg_can_answer(bulks->store)) {
        loop_timer_set(bulks->timer, LOOK_US);
        return;
    }
    snprintf(shards, sizeof(shards), "%lld", (long long)owned);
    bulks->asking = true;
    store_pg_query(bulks->store, "select saga.bulk_work_v1($1)", params, 1, worked, bulks);
}
