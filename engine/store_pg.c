/*
 * store_pg.c: the connections of the store, and units on the write lane.
 */
#include "engine/store_pg_impl.h"

#include <stdio.h>
#include <stdlib.h>

const char *const store_write_sql[WRITE_STATEMENTS] = {
    [WRITE_TYPES] =
        "select t::regtype::oid::bigint from unnest($1::text[]) with ordinality as x (t, n)"
        " order by n",
    [WRITE_APPLY] = "select verdict, db_now, taken from saga.apply_v2($1, $2, $3, $4, $5, $6, $7, "
                    "$8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)",
    [WRITE_ACQUIRE] = "select lane, epoch, seq, last_time, db_now, shards, "
                      "saga.installation_v1(), saga.lost_starts_v1()::text from "
                      "saga.lane_acquire_v1($1, $2, $3, $4, $5, $6, "
                      "$7, $8, $9) order by lane",
    [WRITE_RENEW] = "select renewed, db_now from saga.lane_renew_v1($1, $2)",
    [WRITE_RELEASE] = "select saga.lane_release_v1($1, $2)",
    [WRITE_CLAIM] = "select saga.lane_claim_v1($1, $2, $3)",
    [WRITE_KICK] = "select saga.lane_kick_v1($1)",
    [WRITE_REWIND] = "select saga.rewind_v1($1, $2, $3, $4, $5, $6)",
};

const char *const store_watch_sql[WATCH_STATEMENTS] = {
    [WATCH_LOAD] = "select * from saga.load_v2($1, $2, $3, $4)",
    [WATCH_LOAD_RUN] = "select * from saga.load_run_v2($1)",
    [WATCH_TOMBSTONE] = "select state::text from saga.tombstones "
                        "where shard = saga.shard_of($1) and run_id = $1",
    [WATCH_PICK_UP] = "select saga.pick_up_v1($1, $2, $3)",
    [WATCH_APART] = "select run_id from saga.apart_v1($1, $2, $3, $4)",
    [WATCH_LANES] = "select lane, daemon, epoch, beat, ttl_us, clean, shards from saga.lanes_v1()",
    [WATCH_TAKE_OVER] = "select saga.lane_take_over_v1($1, $2, $3, $4, $5, $6)",
    [WATCH_KICK] = "select saga.lane_kick_v1($1)",
    [WATCH_POLL] = "select workflows_no, shard, id, kind, run_id, workflow_hash, body, actor, at "
                   "from saga.inbox_poll_v1($1, $2)",
    [WATCH_SOURCES] = "select hash, name, version, source, current "
                      "from saga.workflow_sources_v1($1)",
};

/* A unit on its way. Outlives the unit if the runner drops that in the meantime. */
struct flight {
    struct flight *next, **place; /* store->in_flight */
    struct store_pg *store;
    struct pgunit *unit; /* NULL: dropped, nobody wants the answer */
    struct mono sent_at;
    uint64_t seq;
    bool releases;
};

static void flight_free(struct flight *flight);
static void write_up(void *arg);
static void write_down(void *arg, const struct err *err, bool is_final);
static void watch_up(void *arg);
static void watch_down(void *arg, const struct err *err, bool is_final);
static void read_down(void *arg, const struct err *err, bool is_final);
static void notice(void *arg, const char *severity, const char *text);

/* --- life --- */

struct store_pg *store_pg_open(struct loop *loop, const struct store_pg_options *options,
                               const struct store_pg_events *events)
{
    static const char *const roles[] = {"write", "watch", "read", "search"};
    struct store_pg *store = xcalloc(1, sizeof(*store));
    unsigned sessions = options->sessions ? options->sessions : STORE_SESSIONS_MAX;
    ASSERT(sessions >= STORE_SESSIONS_MIN && sessions <= STORE_SESSIONS_MAX);
    store->magic = STORE_MAGIC;
    store->loop = loop;
    store->events = *events;
    store->uri = options->uri ? xstrdup(options->uri) : NULL;
    store->daemon = xstrdup(options->daemon);
    store->lock_file = options->lock_file ? xstrdup(options->lock_file) : NULL;
    store->ttl_us = options->ttl_us ? options->ttl_us : STORE_TTL_US;
    store->action_lanes = options->action_lanes;
    store->polls_inbox = options->polls_inbox;
    store->lock_fd = -1;
    store->crashed = true;
    store->loads_last = &store->loads;
    store->lease_timer = loop_timer_new(loop, lease_tick, store);
    store->poll_timer = loop_timer_new(loop, inbox_poll, store);
    store->apart_timer = loop_timer_new(loop, load_apart, store);
    for (int i = 0; i < 4; i++)
        snprintf(store->application[i], sizeof(store->application[i]), "sagad %s %s", store->daemon,
                 roles[i]);
    /* What sql/api/apply_v2.sql wants: found by full keys, planned once. */
    static const struct pgconn_setting plans[] = {
        {"enable_seqscan", "off"},
        {"enable_hashjoin", "off"},
        {"enable_mergejoin", "off"},
        {"plan_cache_mode", "force_generic_plan"},
    };
    struct pgconn_options write = {
        .settings = plans,
        .settings_count = ARRAY_LEN(plans),
        .uri = store->uri,
        .application = store->application[0],
        .statements = store_write_sql,
        .statements_count = WRITE_STATEMENTS,
        .stall_us = 40 * SECOND_US, /* above the statement_timeout of the session */
        .arg = store,
        .up = write_up,
        .down = write_down,
        .notice = notice,
    };
    struct pgconn_options watch = write;
    watch.settings_count = 0;
    watch.application = store->application[1];
    watch.statements = store_watch_sql;
    watch.statements_count = WATCH_STATEMENTS;
    watch.up = watch_up;
    watch.down = watch_down;
    struct pgconn_options read = watch;
    read.application = store->application[2];
    read.statements_count = 0;
    read.up = NULL;
    read.down = read_down;
    static const struct pgconn_setting patience[] = {{"statement_timeout", STORE_SEARCH_TIMEOUT}};
    struct pgconn_options search = read;
    search.application = store->application[3];
    search.settings = patience;
    search.settings_count = ARRAY_LEN(patience);
    /* In the order of need: where sessions are few, each of many daemons gets its first ones. */
    store->write = pgconn_open(loop, &write);
    watch.after = store->write;
    store->watch = pgconn_open(loop, &watch);
    read.after = store->watch;
    store->read = sessions > 2 ? pgconn_open(loop, &read) : store->watch;
    search.after = store->read;
    store->search = sessions > 3 ? pgconn_open(loop, &search) : store->read;
    return store;
}

void store_pg_close(struct store_pg *store)
{
    if (!store)
        return;
    ASSERT(store->magic == STORE_MAGIC);
    if (store->search != store->read)
        pgconn_close(store->search);
    if (store->read != store->watch)
        pgconn_close(store->read);
    pgconn_close(store->watch);
    pgconn_close(store->write);
    loop_defer_cancel(store->loop, &store->answers_call);
    while (store->in_flight)
        flight_free(store->in_flight);
    questions_free(store);
    lease_close(store);
    load_clear(store);
    inbox_forget(store);
    map_free(&store->inbox);
    loop_timer_free(store->lease_timer);
    loop_timer_free(store->poll_timer);
    loop_timer_free(store->apart_timer);
    buf_free(&store->apart);
    free(store->uri);
    free(store->daemon);
    free(store->lock_file);
    store->magic = 0;
    free(store);
}

void store_problem(struct store_pg *store, const struct err *err, bool is_final)
{
    if (store->events.problem)
        store->events.problem(store->events.arg, err, is_final);
}

struct str store_field(const PGresult *rows, int row, int column)
{
    if (PQgetisnull(rows, row, column))
        return STR_NONE;
    return (struct str){PQgetvalue(rows, row, column), (size_t)PQgetlength(rows, row, column)};
}

const uint32_t *store_pg_types(const struct store_pg *store)
{
    return store->types[0] ? store->types : NULL;
}

bool store_pg_is_up(const struct store_pg *store)
{
    return store->ready;
}

bool store_pg_can_answer(const struct store_pg *store)
{
    return pgconn_is_up(store->read);
}

void store_lost(struct store_pg *store)
{
    bool held = store->lease == LEASE_HELD;
    store->deadline = (struct mono){0};
    store->shards = 0;
    store->lease = LEASE_OFF;
    inbox_forget(store);
    load_clear(store);
    if (held)
        store->events.lost(store->events.arg);
    loop_timer_set(store->lease_timer, 0);
}

/* --- connections --- */

static void notice(void *arg, const char *severity, const char *text)
{
    struct store_pg *store;
    struct err err;
    CAST_OBJ(store, arg, STORE_MAGIC);
    err_set(&err, ERR_DATABASE, "%s: %s", severity, text);
    store_problem(store, &err, false);
}

static void types_came(void *arg, const struct pgconn_result *result)
{
    struct store_pg *store;
    CAST_OBJ(store, arg, STORE_MAGIC);
    if (result->lost)
        return;
    if (result->err.code || PQntuples(result->rows) != LIST_COUNT) {
        store_problem(store, &result->err, true);
        pgconn_reset(store->write, "could not read the types of the schema");
        return;
    }
    for (int i = 0; i < LIST_COUNT; i++)
        store->types[i] = (uint32_t)pg_int(store_field(result->rows, i, 0));
    store->ready = true;
    store->doubt = false;
    lease_ready(store);
    if (store->lease == LEASE_HELD && store->events.up)
        store->events.up(store->events.arg);
}

static void write_up(void *arg)
{
    struct store_pg *store;
    CAST_OBJ(store, arg, STORE_MAGIC);
    struct pgconn_params params = {0};
    char list[256] = "{";
    for (int i = 0; i < LIST_COUNT; i++)
        snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s", i ? "," : "",
                 pgunit_types[i]);
    strcat(list, "}");
    pgconn_param_z(&params, list);
    pgconn_exec(store->write, WRITE_TYPES, &params, 0, types_came, store);
}

static void write_down(void *arg, const struct err *err, bool is_final)
{
    struct store_pg *store;
    CAST_OBJ(store, arg, STORE_MAGIC);
    bool was_ready = store->ready;
    store->ready = false;
    store_problem(store, err, is_final);
    lease_broken(store);
    if (was_ready && store->lease == LEASE_HELD && store->events.down)
        store->events.down(store->events.arg);
}

static void watch_up(void *arg)
{
    struct store_pg *store;
    CAST_OBJ(store, arg, STORE_MAGIC);
    store->workflows_no = -1; /* any number that comes is news */
    store->polling = false;
    store->poll_us = 0;
    loop_timer_set(store->poll_timer, 0);
    loop_timer_set(store->lease_timer, 0);
    load_pump(store);
}

static void watch_down(void *arg, const struct err *err, bool is_final)
{
    struct store_pg *store;
    CAST_OBJ(store, arg, STORE_MAGIC);
    loop_timer_stop(store->poll_timer);
    store_problem(store, err, is_final);
}

static void read_down(void *arg, const struct err *err, bool is_final)
{
    struct store_pg *store;
    CAST_OBJ(store, arg, STORE_MAGIC);
    store_problem(store, err, is_final);
}

/* --- units --- */

static void *unit_encode(void *arg, const struct unit *unit)
{
    (void)arg;
    return pgunit_encode(unit);
}

static void unit_free(void *arg, void *encoded)
{
    struct pgunit *unit = encoded;
    (void)arg;
    if (unit && unit->flight)
        ((struct flight *)unit->flight)->unit = NULL;
    pgunit_free(unit);
}

static enum unit_verdict verdict_of(struct str text)
{
    static const struct {
        const char *name;
        enum unit_verdict verdict;
    } verdicts[] = {
        {"applied", UNIT_APPLIED}, {"already", UNIT_ALREADY}, {"conflict", UNIT_CONFLICT},
        {"fenced", UNIT_FENCED},   {"gap", UNIT_GAP},
    };
    for (size_t i = 0; i < ARRAY_LEN(verdicts); i++)
        if (str_eq_z(text, verdicts[i].name))
            return verdicts[i].verdict;
    return UNIT_UNDECIDED;
}

/* Only what the data itself is to blame for is rejected; after anything else that went wrong the
 * unit is sent again as it is. */
static enum unit_verdict verdict_of_error(const struct err *err)
{
    const char *state = err->sqlstate;
    if (!strcmp(state, "SAG01"))
        return UNIT_FENCED;
    if (!strncmp(state, "22", 2) || !strncmp(state, "23", 2) || !strncmp(state, "54", 2))
        return UNIT_REJECTED;
    return UNIT_UNDECIDED;
}

static void unit_answer_read(struct flight *flight, const struct pgconn_result *result,
                             struct arena *arena, struct unit_answer *answer)
{
    struct store_pg *store = flight->store;
    if (result->lost || store->doubt) {
        answer->verdict = UNIT_UNDECIDED;
    } else if (result->err.code) {
        answer->verdict = verdict_of_error(&result->err);
        answer->err = result->err;
    } else if (result->warned || PQntuples(result->rows) != 1) {
        answer->verdict = UNIT_UNDECIDED;
    } else {
        answer->verdict = verdict_of(store_field(result->rows, 0, 0));
        answer->db_now = pg_timestamp(store_field(result->rows, 0, 1));
        if (taken_decode(store_field(result->rows, 0, 2), arena, &answer->taken,
                         &answer->taken_count, &answer->err))
            answer->verdict = UNIT_UNDECIDED;
    }
}

static void flight_free(struct flight *flight)
{
    *flight->place = flight->next;
    if (flight->next)
        flight->next->place = flight->place;
    if (flight->unit)
        flight->unit->flight = NULL;
    free(flight);
}

static void unit_answered(void *arg, const struct pgconn_result *result)
{
    struct flight *flight = arg;
    struct store_pg *store = flight->store;
    struct arena arena = {0};
    struct unit_answer answer = {0};
    unit_answer_read(flight, result, &arena, &answer);
    if (answer.verdict != UNIT_UNDECIDED)
        FAILPOINT("unit_answered");
    store->flights--;
    store->release_no += flight->releases;

    bool done = answer.verdict == UNIT_APPLIED || answer.verdict == UNIT_ALREADY;
    if (wall_is_set(answer.db_now))
        loop_wall_set(store->loop, answer.db_now, flight->sent_at);
    if (done) {
        lease_beat(store, flight->sent_at);
        if (flight->unit) {
            acked_note(store, flight->unit, flight->seq, &answer);
            inbox_settled(store, flight->unit);
            store->shards &= ~flight->unit->release_shards;
        }
    }
    if (answer.verdict == UNIT_UNDECIDED && !result->lost && !store->doubt) {
        /* Later answers of this session could be taken for those of earlier units. */
        store->doubt = true;
        if (result->err.code)
            store_problem(store, &result->err, false);
        pgconn_reset(store->write, result->warned ? "a commit that may not be replicated"
                                                  : "a unit that was not decided");
    }
    bool wanted = flight->unit != NULL;
    flight_free(flight);
    if (wanted) {
        store->events.unit_answer(store->events.arg, &answer);
        FAILPOINT("unit_told");
    }
    arena_free(&arena);
    if (answer.verdict == UNIT_FENCED)
        store_lost(store);
}

static void answers_give(void *arg)
{
    struct store_pg *store;
    CAST_OBJ(store, arg, STORE_MAGIC);
    for (; store->answers_due; store->answers_due--) {
        struct unit_answer answer = {.verdict = UNIT_UNDECIDED};
        store->events.unit_answer(store->events.arg, &answer);
    }
}

static void unit_send(void *arg, void *encoded, uint64_t epoch, uint64_t seq)
{
    struct store_pg *store;
    struct pgunit *unit = encoded;
    struct pgconn_params params = {0};
    CAST_OBJ(store, arg, STORE_MAGIC);
    ASSERT(!unit->flight);
    if (!store->ready) {
        store->answers_due++;
        loop_defer(store->loop, &store->answers_call, answers_give, store);
        return;
    }
    pgconn_param_text(&params, str_z(store->daemon));
    pgconn_param_int8(&params, (int64_t)epoch);
    pgconn_param_int8(&params, (int64_t)seq);
    pgconn_param_int8(&params, unit->crc);
    pgconn_param_int8(&params, (int64_t)unit->shards);
    for (int i = 0; i < LIST_COUNT; i++)
        pgconn_param_binary(&params, pgunit_list(unit, (enum pgunit_list)i, store->types));
    pgconn_param_int8(&params, (int64_t)unit->release_shards);
    pgconn_param_text(&params, str_z(unit->release_to));

    struct flight *flight = xcalloc(1, sizeof(*flight));
    flight->store = store;
    flight->unit = unit;
    flight->sent_at = loop_mono();
    flight->seq = seq;
    flight->releases = unit->release_shards != 0;
    flight->next = store->in_flight;
    flight->place = &store->in_flight;
    if (store->in_flight)
        store->in_flight->place = &flight->next;
    store->in_flight = flight;
    unit->flight = flight;
    store->flights++;
    store->release_no += flight->releases;
    FAILPOINT("unit_send");
    pgconn_exec(store->write, WRITE_APPLY, &params, 0, unit_answered, flight);
    FAILPOINT("unit_sent");
}

static void unit_commit(void *arg, uint64_t invocation_id, void *encoded)
{
    struct store_pg *store;
    CAST_OBJ(store, arg, STORE_MAGIC);
    ASSERT(store->commit);
    store->commit(store->commit_arg, invocation_id, encoded);
}

void store_pg_commit_by(struct store_pg *store,
                        void (*commit)(void *arg, uint64_t invocation_id, void *encoded), void *arg)
{
    store->commit = commit;
    store->commit_arg = arg;
}

struct port_store store_pg_port(struct store_pg *store)
{
    return (struct port_store){
        .arg = store,
        .encode = unit_encode,
        .encoded_free = unit_free,
        .send = unit_send,
        .commit = unit_commit,
        .load = load_start,
        .load_run = load_run_start,
    };
}
