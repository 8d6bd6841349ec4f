/*
 * store_pg_load.c: rows back into runs, page by page, and the definitions they need.
 *
 * Loads are answered in the order in which they were asked. A page whose runs need a definition
 * that this daemon does not know fetches the definition first and then reads the page again.
 */
#include "engine/store_pg_impl.h"

#include <stdio.h>
#include <stdlib.h>

#define PAGE_RUNS_MIN 64
#define PAGE_RUNS_MAX 1024
#define PAGE_BYTES (4 * 1024 * 1024) /* aimed at; a page of one run may be larger */

/* Runs set apart: how long those that were taken up may keep the next ones waiting, several
 * together and one alone, and how often it is looked. Alone is where a run that kills its owner is
 * told from others, so that one gets the time of a slow answer. */
#define APART_PATIENCE_US (2 * SECOND_US)
#define APART_ALONE_PATIENCE_US (30 * SECOND_US)
#define APART_EVERY_US (SECOND_US / 20)
#define APART_EVERY_MAX_US (SECOND_US / 2)

static void load_add(struct store_pg *store, struct load *load)
{
    load->store = store;
    load->limit = PAGE_RUNS_MIN;
    load->after_shard = -1;
    *store->loads_last = load;
    store->loads_last = &load->next;
    load_pump(store);
}

void load_start(void *arg, uint64_t shards)
{
    struct store_pg *store;
    CAST_OBJ(store, arg, STORE_MAGIC);
    struct load *load = xcalloc(1, sizeof(*load));
    load->shards = shards;
    load->run_id = xstrdup("");
    load_add(store, load);
}

static void load_run_add(struct store_pg *store, struct str run_id)
{
    struct load *load = xcalloc(1, sizeof(*load));
    load->run_id = xmalloc(run_id.len + 1);
    memcpy(load->run_id, run_id.ptr, run_id.len);
    load->run_id[run_id.len] = '\0';
    load_add(store, load);
}

void load_run_start(void *arg, struct str run_id)
{
    struct store_pg *store;
    CAST_OBJ(store, arg, STORE_MAGIC);
    load_run_add(store, run_id);
}

static void load_free(struct load *load)
{
    free(load->run_id);
    free(load);
}

static struct load *load_pop(struct store_pg *store)
{
    struct load *load = store->loads;
    store->loads = load->next;
    if (!store->loads)
        store->loads_last = &store->loads;
    return load;
}

/* Nobody wants them any more; the answer that is under way will be passed over. */
void load_clear(struct store_pg *store)
{
    store->loads_stale += store->loading;
    while (store->loads)
        load_free(load_pop(store));
    store->loading = false;
    loop_timer_stop(store->apart_timer);
    buf_clear(&store->apart);
}

/* True if the answer is of no use: nobody waits for it, or it did not come; then the page is asked
 * again when the connection is back. */
static bool is_stale(struct store_pg *store, const struct pgconn_result *result)
{
    if (store->loads_stale) {
        store->loads_stale--;
        return true;
    }
    if (result->lost)
        store->loading = false;
    return result->lost;
}

/* --- runs set apart --- */

static void apart_came(void *arg, const struct pgconn_result *result)
{
    struct store_pg *store;
    CAST_OBJ(store, arg, STORE_MAGIC);
    if (!store->apart.len)
        return;         /* the lanes were lost in the meantime */
    if (result->lost) { /* some may be taken up, and nobody knows which: all are read again */
        buf_clear(&store->apart);
        load_start(store, store->shards);
        return;
    }
    if (result->err.code)
        store_problem(store, &result->err, false);
    int count = result->err.code ? 0 : PQntuples(result->rows);
    if (!count && !result->err.code && !store->apart_patient) {
        buf_clear(&store->apart); /* there are no more */
        return;
    }
    int64_t waited = loop_mono().us - store->apart_since.us;
    loop_timer_set(store->apart_timer, MAX(APART_EVERY_US, MIN(waited / 8, APART_EVERY_MAX_US)));
    if (!count)
        return;
    store->apart_since = loop_mono();
    store->apart_count = (unsigned)count;
    buf_clear(&store->apart);
    for (int row = 0; row < count; row++) {
        struct str id = store_field(result->rows, row, 0); /* [A-Za-z0-9._~-]: never quoted */
        buf_printf(&store->apart, "%s" STR_FMT, row ? "," : "{", STR_ARG(id));
        load_run_add(store, id);
    }
    buf_add_z(&store->apart, "}");
}

void load_apart(void *arg)
{
    struct store_pg *store;
    CAST_OBJ(store, arg, STORE_MAGIC);
    struct pgconn_params params = {0};
    if (!store->apart.len)
        return;
    int64_t patience = store->apart_count > 1 ? APART_PATIENCE_US : APART_ALONE_PATIENCE_US;
    if (!pgconn_is_up(store->watch)) {
        loop_timer_set(store->apart_timer, APART_EVERY_MAX_US);
        return;
    }
    if (!store->lanes_count)
        return;
    store->apart_patient = store->apart_count && loop_mono().us - store->apart_since.us < patience;
    pgconn_param_text(&params, str_z(store->lanes[0].name));
    pgconn_param_int8(&params, (int64_t)store->lanes[0].epoch);
    pgconn_param_z(&params, store->apart.data);
    pgconn_param_z(&params, store->apart_patient ? "true" : "false");
    pgconn_exec(store->watch, WATCH_APART, &params, 0, apart_came, store);
}

static void apart_begin(struct store_pg *store)
{
    if (store->apart.len)
        return; /* it goes on, with the new shards too */
    buf_add_z(&store->apart, "{}");
    store->apart_count = 0;
    loop_timer_set(store->apart_timer, 0);
}

/* --- pages --- */

static void load_finish(struct store_pg *store, enum run_state removed)
{
    struct load *load = load_pop(store);
    store->loading = false;
    if (load->shards) {
        store->events.load_done(store->events.arg, load->shards);
        apart_begin(store);
    } else
        store->events.load_run_done(store->events.arg, str_z(load->run_id), removed);
    load_free(load);
    load_pump(store);
}

static void fields_read(const PGresult *rows, int row, struct str fields[IMAGE_COUNT])
{
    for (int i = 0; i < IMAGE_COUNT; i++)
        fields[i] = store_field(rows, row, i);
}

static void sources_came(void *arg, const struct pgconn_result *result)
{
    struct store_pg *store;
    CAST_OBJ(store, arg, STORE_MAGIC);
    if (is_stale(store, result))
        return;
    if (result->err.code)
        store_problem(store, &result->err, false);
    else
        sources_deliver(store, result->rows);
    store->loading = false;
    load_pump(store);
}

/* Asks for definitions that the page needs and that are not known; false if there is none, or if
 * they were asked for already and did not come (they do not compile here any more). */
static bool ask_missing(struct store_pg *store, const PGresult *rows)
{
    struct sha256 missing[16];
    unsigned count = 0;
    for (int row = 0; row < PQntuples(rows) && count < ARRAY_LEN(missing); row++) {
        struct str fields[IMAGE_COUNT];
        struct sha256 hash;
        bool known = false;
        fields_read(rows, row, fields);
        if (!image_hash(fields, &hash) || store->events.plan(store->events.arg, &hash))
            continue;
        for (unsigned i = 0; i < count; i++)
            known |= sha256_eq(&missing[i], &hash);
        if (!known)
            missing[count++] = hash;
    }
    if (!count || store->loads->sources_asked)
        return false;
    store->loads->sources_asked = true;
    sources_ask(store, missing, count, sources_came, store);
    return true;
}

static void deliver(struct store_pg *store, const PGresult *rows, int row)
{
    struct arena arena = {0};
    struct str fields[IMAGE_COUNT];
    struct image image;
    struct sha256 hash;
    struct err err = {0};
    fields_read(rows, row, fields);
    const struct plan *plan = NULL;
    if (image_hash(fields, &hash))
        plan = store->events.plan(store->events.arg, &hash);
    if (!plan)
        err_set(&err, ERR_INTERNAL,
                "run \"" STR_FMT "\": its definition of \"" STR_FMT "\" is not available",
                STR_ARG(fields[IMAGE_run_id]), STR_ARG(fields[IMAGE_workflow]));
    else if (!image_decode(fields, plan, &arena, &image, &err))
        store->events.loaded(store->events.arg, plan, image.run_id, image.records, image.count);
    if (err.code)
        store_problem(store, &err, false);
    arena_free(&arena);
}

static uint32_t next_limit(const PGresult *rows, uint32_t limit)
{
    size_t bytes = 0;
    for (int row = 0; row < PQntuples(rows); row++)
        for (int i = 0; i < IMAGE_COUNT; i++)
            bytes += (size_t)PQgetlength(rows, row, i);
    uint64_t fits = bytes ? (uint64_t)limit * PAGE_BYTES / bytes : PAGE_RUNS_MAX;
    return (uint32_t)MAX(1u, MIN(fits, (uint64_t)PAGE_RUNS_MAX));
}

/* Where the next page begins. */
static void load_advance(struct load *load, const PGresult *rows)
{
    int last = PQntuples(rows) - 1;
    struct str id = store_field(rows, last, IMAGE_run_id);
    load->after_shard = (int16_t)pg_int(store_field(rows, last, IMAGE_shard));
    load->run_id = xrealloc(load->run_id, id.len + 1);
    memcpy(load->run_id, id.ptr, id.len);
    load->run_id[id.len] = '\0';
    load->sources_asked = false;
}

/* Begins the load anew with the next connection. False: there was an answer. */
static bool load_failed(struct store_pg *store, const struct pgconn_result *result,
                        const char *what)
{
    if (!result->err.code)
        return false;
    store_problem(store, &result->err, false);
    store->loading = false;
    pgconn_reset(store->watch, what);
    return true;
}

/* A run that is not there: perhaps it was, and its data was removed. */
static void tombstone_came(void *arg, const struct pgconn_result *result)
{
    struct store_pg *store;
    CAST_OBJ(store, arg, STORE_MAGIC);
    if (is_stale(store, result) || load_failed(store, result, "could not look for a run"))
        return;
    load_finish(store,
                PQntuples(result->rows) ? run_state_of(store_field(result->rows, 0, 0)) : RUN_NONE);
}

static void tombstone_ask(struct store_pg *store)
{
    struct pgconn_params params = {0};
    pgconn_param_text(&params, str_z(store->loads->run_id));
    pgconn_exec(store->watch, WATCH_TOMBSTONE, &params, 0, tombstone_came, store);
}

static void page_came(void *arg, const struct pgconn_result *result)
{
    struct store_pg *store;
    CAST_OBJ(store, arg, STORE_MAGIC);
    if (is_stale(store, result) || load_failed(store, result, "could not load runs"))
        return;
    const PGresult *rows = result->rows;
    struct load *load = store->loads;
    if (ask_missing(store, rows))
        return;
    FAILPOINT("load_page");
    for (int row = 0; row < PQntuples(rows); row++)
        deliver(store, rows, row);
    if (!load->shards && !PQntuples(rows)) {
        tombstone_ask(store);
        return;
    }
    if (!load->shards || (uint32_t)PQntuples(rows) < load->limit) {
        load_finish(store, RUN_NONE);
        return;
    }
    load_advance(load, rows);
    load->limit = next_limit(rows, load->limit);
    store->loading = false;
    load_pump(store);
}

/* A run that is needed now does not wait to be taken up apart, but it is counted as taken up, on
 * the same connection before it is read: what is loaded is never apart. */
static void run_ask(struct store_pg *store, const struct load *load)
{
    struct pgconn_params params = {0};
    pgconn_param_text(&params, str_z(store->lanes_count ? store->lanes[0].name : ""));
    pgconn_param_int8(&params, store->lanes_count ? (int64_t)store->lanes[0].epoch : 0);
    pgconn_param_text(&params, str_z(load->run_id));
    pgconn_exec(store->watch, WATCH_PICK_UP, &params, 0, NULL, NULL);
    params = (struct pgconn_params){0};
    pgconn_param_text(&params, str_z(load->run_id));
    pgconn_exec(store->watch, WATCH_LOAD_RUN, &params, 0, page_came, store);
}

void load_pump(struct store_pg *store)
{
    struct load *load = store->loads;
    struct pgconn_params params = {0};
    if (!load || store->loading || !pgconn_is_up(store->watch))
        return;
    store->loading = true;
    if (!load->shards) {
        run_ask(store, load);
        return;
    }
    char shard[8], limit[16];
    snprintf(shard, sizeof(shard), "%d", load->after_shard);
    snprintf(limit, sizeof(limit), "%u", load->limit);
    pgconn_param_int8(&params, (int64_t)load->shards);
    pgconn_param_z(&params, shard);
    pgconn_param_text(&params, str_z(load->run_id));
    pgconn_param_z(&params, limit);
    pgconn_exec(store->watch, WATCH_LOAD, &params, 0, page_came, store);
}

/* --- definitions --- */

void sources_ask(struct store_pg *store, const struct sha256 *hashes, unsigned count,
                 pgconn_done *done, void *arg)
{
    struct pgconn_params params = {0};
    struct buf list = {0};
    for (unsigned i = 0; i < count; i++) {
        char hex[65];
        sha256_hex(&hashes[i], hex);
        buf_printf(&list, "%s\"\\\\x%s\"", i ? "," : "{", hex);
    }
    if (count)
        buf_add_z(&list, "}");
    pgconn_param_z(&params, count ? list.data : NULL);
    pgconn_exec(store->watch, WATCH_SOURCES, &params, 0, done, arg);
    buf_free(&list);
}

void sources_deliver(struct store_pg *store, const PGresult *rows)
{
    for (int row = 0; row < PQntuples(rows); row++) {
        struct str hash = store_field(rows, row, 0);
        struct store_workflow workflow = {
            .name = store_field(rows, row, 1),
            .version = store_field(rows, row, 2),
            .source = store_field(rows, row, 3),
            .current = pg_bool(store_field(rows, row, 4)),
        };
        ASSERT(hash.len == sizeof(workflow.hash.bytes));
        memcpy(workflow.hash.bytes, hash.ptr, hash.len);
        if (store->events.workflow)
            store->events.workflow(store->events.arg, &workflow);
    }
    if (store->events.workflows_done)
        store->events.workflows_done(store->events.arg);
}
