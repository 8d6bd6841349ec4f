/*
 * store_pg_acked.c: the last unit that was acknowledged to this daemon, remembered outside the
 * database: in memory, and behind the nonces in the lock file, where the next process of this name
 * finds it, also after a reboot where the folder survives one.
 *
 * A number of the lane is never given twice, so a database that has a smaller one than was
 * acknowledged was restored to an earlier time, or is a standby that had not everything when it was
 * promoted. This is looked for whenever the lanes are acquired, which is where everything ends up
 * that does not go on by itself (a gap, a foreign epoch, a new process); it is noted in the
 * database before any run is loaded.
 */
#include "engine/store_pg_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ACKED_AT 256 /* in the lock file */
#define ACKED_BYTES 128
#define STARTS_MAX 10000
#define TOLD_MAX 20 /* ids in the log; saga.lost_starts has them all */

void acked_read(struct store_pg *store)
{
    char text[ACKED_BYTES + 1] = "";
    unsigned long long seq;
    long long at_us;
    struct acked *acked = &store->acked;
    ssize_t got = pread(store->lock_fd, text, ACKED_BYTES, ACKED_AT);
    text[got > 0 ? got : 0] = '\0';
    if (sscanf(text, "%llu %39s %lld", &seq, acked->installation, &at_us) == 3) {
        acked->seq = seq;
        acked->at.us = at_us;
    } else {
        acked->installation[0] = '\0';
    }
}

/* Not flushed: a process that dies loses nothing of it, and a machine that does, little. */
static void acked_write(const struct store_pg *store)
{
    char text[ACKED_BYTES];
    if (store->lock_fd < 0)
        return;
    int length = snprintf(text, sizeof(text), "%llu %s %lld", (unsigned long long)store->acked.seq,
                          store->acked.installation, (long long)store->acked.at.us);
    memset(text + length, ' ', sizeof(text) - (size_t)length);
    text[sizeof(text) - 1] = '\n';
    /* What cannot be written now is written with the next unit. */
    ssize_t put = pwrite(store->lock_fd, text, sizeof(text), ACKED_AT);
    (void)put;
}

static void start_forget(struct acked_start *start)
{
    free(start->run_id);
    free(start->workflow);
    *start = (struct acked_start){0};
}

void acked_free(struct store_pg *store)
{
    for (unsigned i = 0; store->acked.starts && i < STARTS_MAX; i++)
        start_forget(&store->acked.starts[i]);
    free(store->acked.starts);
    store->acked.starts = NULL;
    arena_free(&store->acked.lost_arena);
}

static bool is_taken(const struct unit_answer *answer, const char *run_id)
{
    for (uint32_t i = 0; i < answer->taken_count; i++)
        if (str_eq_z(answer->taken[i].run_id, run_id))
            return true;
    return false;
}

void acked_note(struct store_pg *store, const struct pgunit *unit, uint64_t seq,
                const struct unit_answer *answer)
{
    struct acked *acked = &store->acked;
    const char *at = unit->starts.data, *end = at ? at + unit->starts.len : NULL;
    acked->seq = MAX(acked->seq, seq);
    acked->at = answer->db_now;
    acked_write(store);
    while (at < end) {
        const char *run_id = at, *workflow = run_id + strlen(run_id) + 1;
        at = workflow + strlen(workflow) + 1;
        if (is_taken(answer, run_id))
            continue;
        if (!acked->starts)
            acked->starts = xcalloc(STARTS_MAX, sizeof(*acked->starts));
        struct acked_start *start = &acked->starts[acked->starts_next++ % STARTS_MAX];
        start_forget(start);
        *start = (struct acked_start){xstrdup(run_id), xstrdup(workflow), seq, answer->db_now};
    }
}

bool acked_is_ahead(const struct store_pg *store, struct str installation, uint64_t seq)
{
    return str_eq_z(installation, store->acked.installation) && store->acked.seq > seq;
}

void acked_set(struct store_pg *store, struct str installation, uint64_t seq, struct wall at)
{
    struct acked *acked = &store->acked;
    snprintf(acked->installation, sizeof(acked->installation), STR_FMT, STR_ARG(installation));
    acked->seq = seq;
    acked->at = at;
    acked_write(store);
}

void acked_lost_set(struct store_pg *store, struct str text)
{
    struct acked *acked = &store->acked;
    struct err err;
    arena_reset(&acked->lost_arena);
    acked->lost = NULL;
    if (text.ptr && json_parse(arena_str(&acked->lost_arena, text), &acked->lost_arena,
                               &acked->lost, &err) != 0)
        store_problem(store, &err, false);
}

struct wall store_pg_start_lost(const struct store_pg *store, struct str run_id)
{
    const struct json *lost = store->acked.lost;
    struct wall at = WALL_NONE;
    for (uint32_t i = 0; lost && i < lost->count; i++)
        if (str_eq(lost->items[i]->items[0]->text, run_id))
            return wall_parse(lost->items[i]->items[1]->text, &at) ? at : WALL_NONE;
    return at;
}

/* The starts behind `seq`, as saga.rewind_v1 takes them; `told` gets the first ids. */
static void lost_starts(const struct store_pg *store, uint64_t seq, struct buf *list,
                        struct buf *told)
{
    const struct acked *acked = &store->acked;
    struct arena scratch = {0};
    unsigned count = 0;
    buf_add_char(list, '[');
    for (unsigned i = 0; acked->starts && i < STARTS_MAX; i++) {
        const struct acked_start *start = &acked->starts[i];
        if (!start->run_id || start->seq <= seq)
            continue;
        buf_add_z(list, count ? ",[" : "[");
        json_write_string(str_z(start->run_id), list);
        buf_add_char(list, ',');
        json_write_string(str_z(start->workflow), list);
        buf_add_char(list, ',');
        json_write_string(wall_format(start->at, &scratch), list);
        buf_add_char(list, ']');
        if (count++ < TOLD_MAX)
            buf_printf(told, "%s%s", count > 1 ? ", " : "; lost starts: ", start->run_id);
    }
    buf_add_char(list, ']');
    if (count > TOLD_MAX)
        buf_printf(told, " and %u more: saga.lost_starts", count - TOLD_MAX);
    arena_free(&scratch);
}

void acked_rewind(struct store_pg *store, uint64_t seq, struct wall last_time, pgconn_done *done)
{
    struct pgconn_params params = {0};
    struct arena scratch = {0};
    struct buf list = {0}, told = {0};
    struct err err;
    lost_starts(store, seq, &list, &told);
    err_set(
        &err, ERR_DATABASE,
        "the database is older than what it acknowledged: %llu units of this daemon are missing, "
        "it seems to have been restored to " STR_FMT
        ". Runs from before are suspect: what must not be sent twice waits for a person "
        "(saga.suspects)%s",
        (unsigned long long)(store->acked.seq - seq), STR_ARG(wall_format(last_time, &scratch)),
        told.len ? told.data : "");
    store_problem(store, &err, false);
    pgconn_param_text(&params, str_z(store->daemon));
    pgconn_param_int8(&params, (int64_t)store->acked.seq);
    pgconn_param_z(&params, wall_format(store->acked.at, &scratch).ptr);
    pgconn_param_int8(&params, (int64_t)seq);
    pgconn_param_z(&params, wall_format(last_time, &scratch).ptr);
    pgconn_param_z(&params, list.data);
    pgconn_exec(store->write, WRITE_REWIND, &params, 0, done, store);
    buf_free(&list);
    buf_free(&told);
    arena_free(&scratch);
}
