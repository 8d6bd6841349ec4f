/*
 * store_pg_lease.c: which lanes are ours, and whose are free.
 *
 * The lock file (one line: boot id and up to three nonces) is what lets a daemon that was killed
 * and started again take its own lanes at once: whoever holds the file's lock and finds in it the
 * nonce that stands in the lane, on the same boot of the same machine, knows that the last holder
 * is dead. A new nonce is written to the file before it goes to the database, and the old ones stay
 * until the database has it, so that a crash in between loses nothing.
 *
 * Everything here is measured on CLOCK_BOOTTIME; wall clocks of machines are never compared.
 */
#include "engine/store_pg_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

/* The owner stops a quarter of the ttl before others may begin to think that it is dead. */
#define MARGIN(ttl_us) ((ttl_us) / 4)
#define RENEW_EVERY(ttl_us) ((ttl_us) / 4)
#define LOOK_EVERY(ttl_us) ((ttl_us) / 4)
#define ACQUIRE_EVERY_US (500 * MS_US)
#define ALIVE_MOVES 3
#define NONCE_LEN 32

/* --- the lock file --- */

static void boot_id_read(char out[40])
{
    out[0] = '\0';
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t got = read(fd, out, 36);
    out[got > 0 ? got : 0] = '\0';
    close(fd);
}

static void nonce_new(char out[NONCE_LEN + 1])
{
    uint8_t bytes[NONCE_LEN / 2];
    ssize_t got = getrandom(bytes, sizeof(bytes), 0);
    ASSERT(got == (ssize_t)sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

/* Nonces of another boot prove nothing. */
static void lock_file_read(struct store_pg *store)
{
    char text[256] = "", boot[40], now[40];
    ssize_t got = pread(store->lock_fd, text, sizeof(text) - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    boot_id_read(now);
    if (sscanf(text, "%39s %32s %32s %32s", boot, store->nonces[0], store->nonces[1],
               store->nonces[2]) < 2 ||
        strcmp(boot, now) != 0)
        memset(store->nonces, 0, sizeof(store->nonces));
}

static int lock_file_write(struct store_pg *store, bool with_old, struct err *err)
{
    char text[256], boot[40];
    if (store->lock_fd < 0)
        return 0;
    boot_id_read(boot);
    int length = snprintf(text, sizeof(text), "%s %s %s %s\n", boot, store->nonce,
                          with_old ? store->nonces[0] : "", with_old ? store->nonces[1] : "");
    /* One write, longer than what it replaces or padded to it: never half old and half new. */
    memset(text + length, ' ', sizeof(text) - (size_t)length);
    text[sizeof(text) - 1] = '\n';
    if (pwrite(store->lock_fd, text, sizeof(text), 0) != (ssize_t)sizeof(text) ||
        fdatasync(store->lock_fd))
        return err_set(err, ERR_IO, "could not write lock file \"%s\": %s", store->lock_file,
                       strerror(errno));
    return 0;
}

int lease_open(struct store_pg *store, struct err *err)
{
    if (store->lock_file && store->lock_fd < 0) {
        store->lock_fd = open(store->lock_file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (store->lock_fd < 0)
            return err_set(err, ERR_IO, "could not open lock file \"%s\": %s", store->lock_file,
                           strerror(errno));
        if (flock(store->lock_fd, LOCK_EX | LOCK_NB)) {
            close(store->lock_fd);
            store->lock_fd = -1;
            return err_set(err, ERR_CONFLICT,
                           "another sagad named \"%s\" runs on this machine (it holds \"%s\")",
                           store->daemon, store->lock_file);
        }
        lock_file_read(store);
        acked_read(store);
    }
    nonce_new(store->nonce);
    return lock_file_write(store, true, err);
}

void lease_close(struct store_pg *store)
{
    if (store->lock_fd >= 0)
        close(store->lock_fd);
    for (unsigned i = 0; i < store->seen_count; i++) {
        free(store->seen[i].lanes);
        free(store->seen[i].epochs);
        free(store->seen[i].beats);
    }
    free(store->seen);
    free(store->lanes);
    acked_free(store);
}

int store_pg_lease(struct store_pg *store, struct err *err)
{
    int code = lease_open(store, err);
    if (code)
        return code;
    store->lease_wanted = true;
    loop_timer_set(store->lease_timer, 0);
    return 0;
}

/* --- our own lanes --- */

static bool since_over(struct mono at, int64_t after_us)
{
    return loop_mono().us - at.us >= after_us;
}

void lease_beat(struct store_pg *store, struct mono sent_at)
{
    if (store->lease != LEASE_HELD || sent_at.us <= store->beat_at.us)
        return;
    store->beat_at = sent_at;
    store->deadline.us = sent_at.us + store->ttl_us - MARGIN(store->ttl_us);
}

struct mono store_pg_deadline(const struct store_pg *store)
{
    return store->lease == LEASE_HELD ? store->deadline : (struct mono){0};
}

static const struct seen_daemon *seen_self(const struct store_pg *store)
{
    for (unsigned i = 0; i < store->seen_count; i++)
        if (!strcmp(store->seen[i].name, store->daemon))
            return &store->seen[i];
    return NULL;
}

static bool is_silent(const struct seen_daemon *seen)
{
    return seen->present && since_over(seen->since, seen->ttl_us + MARGIN(seen->ttl_us));
}

static void own_tell(struct store_pg *store)
{
    const struct store_lane *write = &store->lanes[0];
    store->events.own(store->events.arg, write->epoch, write->seq, store->shards);
    store->looked_at = (struct mono){0}; /* free shards are seen, and taken, at once */
    loop_timer_set(store->lease_timer, 0);
}

/* The lanes are ours: runs may be loaded. */
static void acquired_tell(struct store_pg *store)
{
    store->lease = LEASE_HELD;
    store->beat_at = (struct mono){0};
    lease_beat(store, store->tried_at);
    own_tell(store);
}

/* That the database is older than it was stands in it now: acquired once more, with what is lost.
 */
static void rewound(void *arg, const struct pgconn_result *result)
{
    struct store_pg *store;
    CAST_OBJ(store, arg, STORE_MAGIC);
    if (store->lease != LEASE_ACQUIRING)
        return;
    store->lease = LEASE_OFF;
    if (result->lost)
        return;
    if (result->err.code || result->warned) { /* acquired anew, and noticed again */
        store_problem(store, &result->err, false);
        return;
    }
    acked_set(store, str_z(store->acked.installation), store->lanes[0].seq, store->acked.at);
    store->tried_at = (struct mono){0};
    loop_timer_set(store->lease_timer, 0);
}

static void acquired(void *arg, const struct pgconn_result *result)
{
    struct store_pg *store;
    struct err err = {0};
    CAST_OBJ(store, arg, STORE_MAGIC);
    if (store->lease != LEASE_ACQUIRING)
        return;
    store->lease = LEASE_OFF;
    if (result->lost)
        return;
    if (result->err.code) {
        store_problem(store, &result->err, false);
        if (!strcmp(result->err.sqlstate, "55P03")) {
            /* Our own last sessions hold the rows: the proof that they are dead is in hand. */
            struct pgconn_params params = {0};
            char prefix[96];
            snprintf(prefix, sizeof(prefix), "sagad %s ", store->daemon);
            pgconn_param_text(&params, str_z(prefix));
            if (store->nonces[0][0] || !store->crashed)
                pgconn_exec(store->write, WRITE_KICK, &params, 0, NULL, NULL);
        }
        return;
    }
    int count = PQntuples(result->rows);
    if (!count) {
        store->lease = LEASE_BUSY;
        if (!store->busy_told) {
            err_set(
                &err, ERR_UNAVAILABLE,
                "the lanes of \"%s\" are held: by a daemon of that name elsewhere, or by one that "
                "died; they are taken when they have stood still for the time of the lease",
                store->daemon);
            store_problem(store, &err, false);
        }
        store->busy_told = true;
        return;
    }
    store->busy_told = false;
    store->lanes = xrealloc(store->lanes, (size_t)count * sizeof(*store->lanes));
    store->lanes_count = (unsigned)count;
    struct wall now = WALL_NONE;
    for (int row = 0; row < count; row++) { /* ordered by name: the write lane is the first */
        struct store_lane *lane = &store->lanes[row];
        snprintf(lane->name, sizeof(lane->name), STR_FMT,
                 STR_ARG(store_field(result->rows, row, 0)));
        snprintf(lane->token, sizeof(lane->token), "%s", store->nonce);
        lane->epoch = (uint64_t)pg_int(store_field(result->rows, row, 1));
        lane->seq = (uint64_t)pg_int(store_field(result->rows, row, 2));
        struct wall last = pg_timestamp(store_field(result->rows, row, 3));
        struct wall db = pg_timestamp(store_field(result->rows, row, 4));
        now.us = MAX(now.us, MAX(last.us, db.us));
    }
    store->shards = (uint64_t)pg_int(store_field(result->rows, 0, 5));
    store->crashed = false;
    snprintf(store->nonces[0], sizeof(store->nonces[0]), "%s", store->nonce);
    store->nonces[1][0] = '\0';
    if (lock_file_write(store, false, &err))
        store_problem(store, &err, false);
    loop_wall_set(store->loop, now, store->tried_at);
    FAILPOINT("lease_acquired");
    for (unsigned i = 0; i < store->seen_count; i++) /* its lanes moved by our own doing */
        if (!strcmp(store->seen[i].name, store->daemon))
            store->seen[i].moves = 0;
    struct str installation = store_field(result->rows, 0, 6);
    struct wall last_time = pg_timestamp(store_field(result->rows, 0, 3));
    if (acked_is_ahead(store, installation, store->lanes[0].seq)) {
        store->lease = LEASE_ACQUIRING;
        acked_rewind(store, store->lanes[0].seq, last_time, rewound);
        return;
    }
    acked_set(store, installation, store->lanes[0].seq, last_time);
    acked_lost_set(store, store_field(result->rows, 0, 7));
    acquired_tell(store);
}

static void acquire(struct store_pg *store)
{
    struct pgconn_params params = {0};
    char nonces[128] = "{", ttl[48], actions[16];
    for (size_t i = 0; i < ARRAY_LEN(store->nonces); i++)
        if (store->nonces[i][0])
            snprintf(nonces + strlen(nonces), sizeof(nonces) - strlen(nonces), "%s%s",
                     nonces[1] ? "," : "", store->nonces[i]);
    strcat(nonces, "}");
    snprintf(ttl, sizeof(ttl), "%lld microseconds", (long long)store->ttl_us);
    snprintf(actions, sizeof(actions), "%u", store->action_lanes);
    const struct seen_daemon *self = seen_self(store);
    bool silent = self && is_silent(self);
    pgconn_param_text(&params, str_z(store->daemon));
    pgconn_param_z(&params, nonces);
    pgconn_param_text(&params, str_z(store->nonce));
    pgconn_param_z(&params, ttl);
    pgconn_param_z(&params, actions);
    pgconn_param_z(&params, store->crashed ? "true" : "false");
    pgconn_param_z(&params, silent ? self->lanes : NULL);
    pgconn_param_z(&params, silent ? self->epochs : NULL);
    pgconn_param_z(&params, silent ? self->beats : NULL);
    store->lease = LEASE_ACQUIRING;
    store->tried_at = loop_mono();
    pgconn_exec(store->write, WRITE_ACQUIRE, &params, 0, acquired, store);
}

void store_pg_reacquire(struct store_pg *store)
{
    if (store->lease != LEASE_HELD && store->lease != LEASE_BUSY)
        return;
    store->lease = LEASE_BUSY; /* nobody has to be told: the caller knows */
    store_lost(store);
}

/* The session is new: what is left of the old one may hold the lane's row, and it is ours. */
void lease_ready(struct store_pg *store)
{
    store->renewing = false;
    if (store->lease == LEASE_HELD) {
        struct pgconn_params params = {0};
        pgconn_param_text(&params, str_z(store->application[0]));
        pgconn_exec(store->write, WRITE_KICK, &params, 0, NULL, NULL);
    }
    store->tried_at = (struct mono){0};
    loop_timer_set(store->lease_timer, 0);
}

void lease_broken(struct store_pg *store)
{
    store->renewing = false;
    if (store->lease == LEASE_ACQUIRING)
        store->lease = LEASE_OFF;
    if (store->lease == LEASE_RELEASING) {
        store->lease = LEASE_OFF;
        if (store->released)
            store->released(store->released_arg);
        store->released = NULL;
    }
}

static void lanes_literal(const struct store_pg *store, struct buf *names, struct buf *epochs)
{
    for (unsigned i = 0; i < store->lanes_count; i++) {
        buf_printf(names, "%s\"%s\"", i ? "," : "{", store->lanes[i].name);
        buf_printf(epochs, "%s%llu", i ? "," : "{", (unsigned long long)store->lanes[i].epoch);
    }
    buf_add_char(names, '}');
    buf_add_char(epochs, '}');
}

static void renewed(void *arg, const struct pgconn_result *result)
{
    struct store_pg *store;
    CAST_OBJ(store, arg, STORE_MAGIC);
    struct mono sent_at = store->renewed_at;
    store->renewing = false;
    if (result->lost || store->lease != LEASE_HELD)
        return;
    if (result->err.code || result->warned) {
        if (result->err.code)
            store_problem(store, &result->err, false);
        return;
    }
    loop_wall_set(store->loop, pg_timestamp(store_field(result->rows, 0, 1)), sent_at);
    if (pg_bool(store_field(result->rows, 0, 0)))
        lease_beat(store, sent_at);
    else
        store_lost(store);
}

static void renew(struct store_pg *store)
{
    struct pgconn_params params = {0};
    struct buf names = {0}, epochs = {0};
    lanes_literal(store, &names, &epochs);
    pgconn_param_z(&params, names.data);
    pgconn_param_z(&params, epochs.data);
    store->renewed_at = loop_mono();
    store->renewing = true;
    pgconn_exec(store->write, WRITE_RENEW, &params, 0, renewed, store);
    buf_free(&names);
    buf_free(&epochs);
}

static void claimed(void *arg, const struct pgconn_result *result)
{
    struct store_pg *store;
    CAST_OBJ(store, arg, STORE_MAGIC);
    if (result->lost || store->lease != LEASE_HELD)
        return;
    if (result->err.code) {
        store_problem(store, &result->err, false);
        return;
    }
    struct str bits = store_field(result->rows, 0, 0);
    if (!bits.ptr) {
        store_lost(store);
        return;
    }
    uint64_t gained = (uint64_t)pg_int(bits) & ~store->shards;
    store->shards |= gained;
    if (gained && store->events.own_more)
        store->events.own_more(store->events.arg, gained);
}

void store_pg_claim(struct store_pg *store, uint64_t shards)
{
    struct pgconn_params params = {0};
    if (store->lease != LEASE_HELD || !store->ready)
        return;
    pgconn_param_text(&params, str_z(store->daemon));
    pgconn_param_int8(&params, (int64_t)store->lanes[0].epoch);
    pgconn_param_int8(&params, (int64_t)shards);
    pgconn_exec(store->write, WRITE_CLAIM, &params, 0, claimed, store);
}

bool store_pg_action_lane(const struct store_pg *store, unsigned index, struct store_lane *out)
{
    if (store->lease != LEASE_HELD || index + 1 >= store->lanes_count)
        return false;
    *out = store->lanes[index + 1];
    return true;
}

/* --- leaving --- */

static void released(void *arg, const struct pgconn_result *result)
{
    struct store_pg *store;
    CAST_OBJ(store, arg, STORE_MAGIC);
    if (result->lost)
        return; /* lease_broken tells */
    if (result->err.code)
        store_problem(store, &result->err, false);
    FAILPOINT("lease_released");
    store->lease = LEASE_OFF;
    if (store->released)
        store->released(store->released_arg);
    store->released = NULL;
}

struct release_note {
    struct loop_call call;
    void (*done)(void *arg);
    void *arg;
};

static void release_note(void *arg)
{
    struct release_note *note = arg;
    note->done(note->arg);
    free(note);
}

void store_pg_release(struct store_pg *store, void (*done)(void *arg), void *arg)
{
    store->lease_wanted = false;
    if (store->lease != LEASE_HELD || !store->ready) {
        struct release_note *note = xcalloc(1, sizeof(*note));
        note->done = done;
        note->arg = arg;
        loop_defer(store->loop, &note->call, release_note, note);
        return;
    }
    struct pgconn_params params = {0};
    store->lease = LEASE_RELEASING;
    store->released = done;
    store->released_arg = arg;
    pgconn_param_text(&params, str_z(store->daemon));
    pgconn_param_int8(&params, (int64_t)store->lanes[0].epoch);
    pgconn_exec(store->write, WRITE_RELEASE, &params, 0, released, store);
}

/* --- the others --- */

static struct seen_daemon *seen_get(struct store_pg *store, struct str name)
{
    for (unsigned i = 0; i < store->seen_count; i++)
        if (str_eq_z(name, store->seen[i].name))
            return &store->seen[i];
    store->seen = xrealloc(store->seen, (store->seen_count + 1) * sizeof(*store->seen));
    struct seen_daemon *seen = &store->seen[store->seen_count++];
    *seen = (struct seen_daemon){0};
    snprintf(seen->name, sizeof(seen->name), STR_FMT, STR_ARG(name));
    return seen;
}

/* Replaces `old`; returns true if it was another text. */
static bool literal_set(char **old, struct buf *text)
{
    bool moved = !*old || strcmp(*old, text->data) != 0;
    free(*old);
    *old = text->data;
    return moved;
}

/* All rows of one daemon (they follow each other: lanes are ordered by name, and a daemon's begin
 * with its own). Returns the row after them. */
static int seen_update(struct store_pg *store, const PGresult *rows, int row, struct mono now)
{
    struct str name = store_field(rows, row, 1);
    struct seen_daemon *seen = seen_get(store, name);
    struct buf lanes = {0}, epochs = {0}, beats = {0};
    bool known = seen->lanes != NULL;
    seen->shards = 0;
    seen->clean = true;
    seen->present = true;
    int first = row;
    for (; row < PQntuples(rows) && str_eq(store_field(rows, row, 1), name); row++) {
        const char *comma = row > first ? "," : "{";
        buf_printf(&lanes, "%s\"" STR_FMT "\"", comma, STR_ARG(store_field(rows, row, 0)));
        buf_printf(&epochs, "%s%lld", comma, (long long)pg_int(store_field(rows, row, 2)));
        buf_printf(&beats, "%s%lld", comma, (long long)pg_int(store_field(rows, row, 3)));
        seen->ttl_us = pg_int(store_field(rows, row, 4));
        seen->clean &= pg_bool(store_field(rows, row, 5));
        seen->shards |= (uint64_t)pg_int(store_field(rows, row, 6));
    }
    buf_add_char(&lanes, '}');
    buf_add_char(&epochs, '}');
    buf_add_char(&beats, '}');
    bool moved = literal_set(&seen->lanes, &lanes);
    moved |= literal_set(&seen->epochs, &epochs);
    moved |= literal_set(&seen->beats, &beats);
    if (moved) {
        seen->since = now;
        seen->moves += known;
    }
    return row;
}

static void daemons_tell(struct store_pg *store)
{
    struct store_daemon *daemons = xcalloc(store->seen_count + 1, sizeof(*daemons));
    unsigned count = 0;
    for (unsigned i = 0; i < store->seen_count; i++) {
        const struct seen_daemon *seen = &store->seen[i];
        if (seen->present)
            daemons[count++] = (struct store_daemon){
                .name = seen->name,
                .shards = seen->shards,
                .clean = seen->clean,
                .is_me = !strcmp(seen->name, store->daemon),
                .ttl_us = seen->ttl_us,
                .silent_us = loop_mono().us - seen->since.us,
            };
    }
    if (store->events.daemons)
        store->events.daemons(store->events.arg, daemons, count);
    free(daemons);
}

static void gained(struct store_pg *store, uint64_t shards)
{
    shards &= ~store->shards;
    store->shards |= shards;
    if (shards && store->events.own_more)
        store->events.own_more(store->events.arg, shards);
}

static void taken_over(void *arg, const struct pgconn_result *result)
{
    struct store_pg *store;
    CAST_OBJ(store, arg, STORE_MAGIC);
    store->taking_over = false;
    if (result->err.code && !result->lost) {
        store_problem(store, &result->err, false);
        if (!strcmp(result->err.sqlstate, "55P03")) {
            struct pgconn_params params = {0};
            char prefix[96];
            snprintf(prefix, sizeof(prefix), "sagad %s ", store->dead_name);
            pgconn_param_text(&params, str_z(prefix));
            pgconn_exec(store->watch, WATCH_KICK, &params, 0, NULL, NULL);
        }
    }
    if (!result->err.code && store->lease == LEASE_HELD)
        gained(store, (uint64_t)pg_int(store_field(result->rows, 0, 0)));
}

static void take_over(struct store_pg *store, const struct seen_daemon *dead)
{
    struct pgconn_params params = {0};
    snprintf(store->dead_name, sizeof(store->dead_name), "%s", dead->name);
    store->taking_over = true;
    pgconn_param_text(&params, str_z(store->daemon));
    pgconn_param_int8(&params, (int64_t)store->lanes[0].epoch);
    pgconn_param_text(&params, str_z(dead->name));
    pgconn_param_z(&params, dead->lanes);
    pgconn_param_z(&params, dead->epochs);
    pgconn_param_z(&params, dead->beats);
    pgconn_exec(store->watch, WATCH_TAKE_OVER, &params, 0, taken_over, store);
}

/* What a dead daemon left in flight moves its lane once more, not again and again. */
static void name_check(struct store_pg *store)
{
    struct seen_daemon *self = seen_get(store, str_z(store->daemon));
    struct err err;
    if (store->lease == LEASE_HELD || !store->lease_wanted)
        self->moves = 0;
    if (self->moves < ALIVE_MOVES)
        return;
    self->moves = 0;
    err_set(&err, ERR_CONFLICT,
            "another sagad named \"%s\" is alive on this database: give each its own --name",
            store->daemon);
    store_problem(store, &err, true);
}

static void looked(void *arg, const struct pgconn_result *result)
{
    struct store_pg *store;
    CAST_OBJ(store, arg, STORE_MAGIC);
    bool handed_over = store->looked_release_no != store->release_no;
    store->looking = false;
    if (result->err.code) {
        if (!result->lost)
            store_problem(store, &result->err, false);
        return;
    }
    struct mono now = loop_mono();
    for (unsigned i = 0; i < store->seen_count; i++)
        store->seen[i].present = false;
    for (int row = 0; row < PQntuples(result->rows);)
        row = seen_update(store, result->rows, row, now);
    daemons_tell(store);
    name_check(store);
    if (store->lease != LEASE_HELD)
        return;
    const struct seen_daemon *self = seen_self(store);
    /* What others handed over to us; not to be mixed up with what we are handing over just now. */
    if (self && !handed_over)
        gained(store, self->shards);
    for (unsigned i = 0; i < store->seen_count && !store->taking_over; i++) {
        const struct seen_daemon *seen = &store->seen[i];
        if (seen != self && seen->shards && is_silent(seen))
            take_over(store, seen);
    }
}

static void look_around(struct store_pg *store)
{
    store->looked_release_no = store->release_no;
    store->looking = true;
    store->looked_at = loop_mono();
    pgconn_exec(store->watch, WATCH_LANES, NULL, 0, looked, store);
}

/* --- the clock of all this --- */

void lease_tick(void *arg)
{
    struct store_pg *store;
    CAST_OBJ(store, arg, STORE_MAGIC);
    if (store->lease == LEASE_HELD && loop_mono().us >= store->deadline.us)
        store_lost(store);
    if (store->ready && store->lease == LEASE_HELD && !store->renewing &&
        since_over(store->beat_at, RENEW_EVERY(store->ttl_us)))
        renew(store);
    /* Who cannot load has no use for shards. */
    if (store->ready && pgconn_is_up(store->watch) && store->lease_wanted &&
        (store->lease == LEASE_OFF || store->lease == LEASE_BUSY) &&
        since_over(store->tried_at, MIN(ACQUIRE_EVERY_US, LOOK_EVERY(store->ttl_us))))
        acquire(store);
    if (pgconn_is_up(store->watch) && !store->looking && store->lease_wanted &&
        since_over(store->looked_at, LOOK_EVERY(store->ttl_us)))
        look_around(store);
    loop_timer_set(store->lease_timer, MIN(store->ttl_us / 16, 250 * MS_US));
}
