#include "engine/invoke_sql_impl.h"

#include "engine/failpoint.h"
#include "engine/store_pg_codec.h"

#include <stdio.h>
#include <stdlib.h>

#define CLAIM_US (20 * MS_US) /* a claim that takes longer is taken off the statement's time */

enum { SQL_APPLY };
static const char *const statements[] = {
    [SQL_APPLY] = "select saga.apply_or_raise_v2($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, "
                  "$12, $13, $14, $15, $16, $17, $18)",
};

/* A deferred answer: a reply, or that of a commit. */
struct note {
    struct note *next;
    uint64_t id;
    bool is_commit;
    enum unit_verdict verdict;
    enum reply_kind kind;
    char text[ERR_TEXT_BYTES];
};

static void slot_resolve(struct slot *slot);

/* --- answers --- */

static void notes_give(void *arg)
{
    struct invoke_sql *sql;
    CAST_OBJ(sql, arg, SQL_MAGIC);
    struct note *note = sql->notes;
    sql->notes = NULL;
    sql->notes_last = &sql->notes;
    for (struct note *next; note; note = next) {
        next = note->next;
        struct wall now = loop_wall(sql->o.loop);
        if (note->is_commit) {
            struct unit_answer answer = {.verdict = note->verdict};
            sql->o.commit_answer(sql->o.commit_arg, note->id, &answer);
        } else {
            struct reply reply = {
                .kind = note->kind, .sent_at = now, .ended_at = now, .error = str_z(note->text)};
            sql->o.reply(sql->o.reply_arg, note->id, &reply);
        }
        free(note);
    }
}

static struct note *note_add(struct invoke_sql *sql, uint64_t id)
{
    struct note *note = xcalloc(1, sizeof(*note));
    note->id = id;
    *sql->notes_last = note;
    sql->notes_last = &note->next;
    loop_defer(sql->o.loop, &sql->notes_call, notes_give, sql);
    return note;
}

static void reply_later(struct invoke_sql *sql, uint64_t id, enum reply_kind kind, const char *text)
{
    struct note *note = note_add(sql, id);
    note->kind = kind;
    snprintf(note->text, sizeof(note->text), "%s", text);
}

static void job_free(struct job *job)
{
    for (unsigned i = 0; i < job->args_count; i++)
        free(job->args[i]);
    free(job->args);
    free(job->key);
    free(job->compensates);
    free(job->statement);
    buf_free(&job->settings);
    free(job);
}

void sql_reply_error(struct slot *slot, const struct err *err, bool commit_lost)
{
    struct invoke_sql *sql = slot->pool->sql;
    struct reply reply = {.kind = REPLY_SQL,
                          .sent_at = slot->job->sent_at,
                          .ended_at = loop_wall(sql->o.loop),
                          .error = str_z(err->text),
                          .timed_out = !strcmp(err->sqlstate, "57014"),
                          .commit_lost = commit_lost};
    /* A connection that went away leaves no state: class 08 says it. */
    snprintf(reply.sqlstate, sizeof(reply.sqlstate), "%s",
             *err->sqlstate ? err->sqlstate : "08006");
    sql->o.reply(sql->o.reply_arg, slot->job->id, &reply);
}

void sql_slot_job_done(struct slot *slot)
{
    job_free(slot->job);
    slot->job = NULL;
}

/* --- results --- */

static bool is_number(struct str text)
{
    size_t i = text.len && text.ptr[0] == '-';
    return i < text.len && text.ptr[i] >= '0' && text.ptr[i] <= '9';
}

static void value_write(const PGresult *rows, int row, int column, struct buf *out)
{
    struct str text = {PQgetvalue(rows, row, column), (size_t)PQgetlength(rows, row, column)};
    if (PQgetisnull(rows, row, column)) {
        buf_add_z(out, "null");
        return;
    }
    switch (PQftype(rows, column)) {
    case 16: buf_add_z(out, *text.ptr == 't' ? "true" : "false"); return;
    case 20:
    case 21:
    case 23:
    case 26:
    case 700:
    case 701:
    case 1700:
        if (is_number(text)) { /* not NaN, Infinity */
            buf_add_str(out, text);
            return;
        }
        break;
    case 114:
    case 3802: buf_add_str(out, text); return;
    default: break;
    }
    json_write_string(text, out);
}

/* False, with the column's name, if two columns have one name. */
static bool names_differ(const PGresult *rows, const char **twice)
{
    for (int i = 0; i < PQnfields(rows); i++)
        for (int j = 0; j < i; j++)
            if (!strcmp(PQfname(rows, i), PQfname(rows, j))) {
                *twice = PQfname(rows, i);
                return false;
            }
    return true;
}

static void rows_write(const PGresult *rows, struct buf *out)
{
    buf_add_z(out, "{\"rows\": [");
    for (int row = 0; row < PQntuples(rows) && out->len <= BODY_BYTES_MAX; row++) {
        buf_add_z(out, row ? ", {" : "{");
        for (int column = 0; column < PQnfields(rows); column++) {
            buf_add_z(out, column ? ", " : "");
            json_write_string(str_z(PQfname(rows, column)), out);
            buf_add_z(out, ": ");
            value_write(rows, row, column, out);
        }
        buf_add_char(out, '}');
    }
    const char *count = PQcmdTuples((PGresult *)rows);
    buf_printf(out, "], \"count\": %s}", *count ? count : "0");
}

/* Why the result cannot be accepted; NULL if it can. */
static const char *result_refuse(const PGresult *rows, struct arena *arena)
{
    static const char *const bad[] = {"SET",     "RESET",      "DISCARD",  "LISTEN", "UNLISTEN",
                                      "PREPARE", "DEALLOCATE", "BEGIN",    "START",  "SAVEPOINT",
                                      "RELEASE", "COMMIT",     "ROLLBACK", "ABORT"};
    const char *tag = PQcmdStatus((PGresult *)rows), *twice;
    size_t word = strcspn(tag, " ");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (strlen(bad[i]) == word && !strncmp(tag, bad[i], word))
            return "the statement ends the transaction or changes the session";
    if (!names_differ(rows, &twice))
        return arena_printf(arena, "two columns of the result are named \"%s\"", twice).ptr;
    return NULL;
}

/* --- the slot --- */

struct slot *sql_slot_of(void *arg)
{
    struct slot *slot;
    CAST_OBJ(slot, arg, SQL_MAGIC);
    return slot;
}

void sql_slot_idle(struct slot *slot)
{
    slot->state = SLOT_IDLE;
    loop_timer_stop(slot->timer);
    sql_slot_next(slot);
}

static void rolled_back(void *arg, const struct pgconn_result *result)
{
    struct slot *slot = sql_slot_of(arg);
    (void)result; /* if it was lost, so was the transaction */
    if (slot->state == SLOT_ENDING)
        sql_slot_idle(slot);
}

void sql_slot_rollback(struct slot *slot)
{
    slot->state = SLOT_ENDING;
    if (pgconn_is_up(slot->conn))
        pgconn_query(slot->conn, "rollback", NULL, 0, rolled_back, slot);
    else
        sql_slot_idle(slot);
}

/* --- one transaction: begin, statement, then commit here or there --- */

void sql_reply_success(struct slot *slot, enum reply_kind kind)
{
    struct invoke_sql *sql = slot->pool->sql;
    bool too_large = slot->body.len > BODY_BYTES_MAX;
    struct reply reply = {.kind = kind,
                          .sent_at = slot->job->sent_at,
                          .ended_at = loop_wall(sql->o.loop),
                          .body = too_large ? STR_NONE : buf_str(&slot->body),
                          .body_dropped = too_large};
    sql->o.reply(sql->o.reply_arg, slot->job->id, &reply);
}

static void statement_done(void *arg, const struct pgconn_result *result)
{
    struct slot *slot = sql_slot_of(arg);
    struct arena scratch = {0};
    struct err err = result->err;
    const char *refusal = err.code ? NULL : result_refuse(result->rows, &scratch);
    loop_timer_stop(slot->timer);
    if (refusal) {
        err_set(&err, ERR_INVALID, "%s", refusal);
        strcpy(err.sqlstate, "0A000");
    }
    arena_free(&scratch);
    if (err.code) {
        sql_reply_error(slot, &err, false);
        sql_slot_job_done(slot);
        sql_slot_rollback(slot);
        return;
    }
    buf_clear(&slot->body);
    rows_write(result->rows, &slot->body);
    if (slot->pool->is_engine) {
        slot->state = SLOT_OPEN;
        FAILPOINT("sql_open");
        sql_reply_success(slot, REPLY_SQL_OPEN);
        return;
    }
    if (slot->job->is_read) {
        sql_reply_success(slot, REPLY_SQL);
        sql_slot_job_done(slot);
        sql_slot_rollback(slot);
        return;
    }
    sql_commit_elsewhere(slot, sql_is_guarded(slot));
}

void sql_statement_send(struct slot *slot)
{
    struct job *job = slot->job;
    struct pgconn_params params = {0};
    int64_t left_us = job->timeout_us - (loop_wall(slot->pool->sql->o.loop).us - job->sent_at.us);
    if (sql_is_guarded(slot) && left_us < job->timeout_us - CLAIM_US) {
        char limit[96]; /* the claim has waited for another transaction: that counts */
        snprintf(limit, sizeof(limit), "set local statement_timeout = %lld",
                 (long long)MAX(left_us / MS_US, (int64_t)1));
        pgconn_query(slot->conn, limit, NULL, PGCONN_MORE, NULL, NULL);
    }
    for (unsigned i = 0; i < job->args_count; i++)
        pgconn_param_z(&params, job->args[i]);
    pgconn_query(slot->conn, job->statement, &params, PGCONN_TEXT, statement_done, slot);
    FAILPOINT("sql_sent");
    loop_timer_set(slot->timer, job->timeout_us + GRACE_US);
}

static void slot_begin(struct slot *slot, struct job *job)
{
    slot->job = job;
    slot->state = SLOT_RUNNING;
    slot->resolve_until.us = 0;
    job->sent_at = loop_wall(slot->pool->sql->o.loop);
    FAILPOINT("sql_begin");
    if (sql_is_guarded(slot)) {
        sql_guard_begin(slot);
        loop_timer_set(slot->timer, job->timeout_us + GRACE_US);
        return;
    }
    /* One Sync for the three: if BEGIN failed, the statement would not run outside. */
    pgconn_query(slot->conn, "begin", NULL, PGCONN_MORE, NULL, NULL);
    pgconn_query(slot->conn, job->settings.data, NULL, PGCONN_MORE, NULL, NULL);
    sql_statement_send(slot);
}

static void slot_timer(void *arg)
{
    struct slot *slot = sql_slot_of(arg);
    if (slot->state == SLOT_RESOLVING && slot->pool->is_engine)
        slot_resolve(slot);
    else if (slot->state == SLOT_RESOLVING)
        sql_doubt_timer(slot);
    else if (slot->state == SLOT_RUNNING)
        pgconn_reset(slot->conn, "the statement did not end in time");
}

static struct job *pool_pop(struct pool *pool)
{
    struct job *job = pool->first;
    if (!job)
        return NULL;
    pool->first = job->next;
    if (!pool->first)
        pool->last = &pool->first;
    pool->sql->waiting--;
    return job;
}

/* Engine connections work only while the lanes are ours: every action must be able to commit. */
static bool slot_has_lane(struct slot *slot)
{
    struct store_lane lane;
    if (!slot->pool->is_engine)
        return true;
    if (!store_pg_action_lane(slot->pool->sql->o.store, slot->index, &lane))
        return false;
    if (lane.epoch != slot->epoch) {
        slot->epoch = lane.epoch;
        slot->seq = lane.seq;
    }
    return true;
}

void sql_slot_next(struct slot *slot)
{
    if (slot->state != SLOT_IDLE || !slot->conn || !pgconn_is_up(slot->conn) || !slot->pool->first)
        return;
    if (!slot_has_lane(slot)) {
        for (struct job *job; (job = pool_pop(slot->pool)); job_free(job))
            reply_later(slot->pool->sql, job->id, REPLY_NOT_SENT, "the lease was lost");
        return;
    }
    struct job *job = pool_pop(slot->pool);
    if (job->needs_guard && !slot->has_guard) {
        reply_later(slot->pool->sql, job->id, REPLY_NOT_CONNECTED,
                    "the service declares `idempotency`, but its database has no saga_guard that "
                    "this role may use");
        job_free(job);
        pgconn_reset(slot->conn, "looking for saga_guard again");
        return;
    }
    slot_begin(slot, job);
}

/* --- commit with the record --- */

static void commit_done(struct slot *slot, enum unit_verdict verdict)
{
    struct invoke_sql *sql = slot->pool->sql;
    uint64_t id = slot->job->id;
    slot->answer.verdict = verdict;
    pgunit_free(slot->unit);
    slot->unit = NULL;
    sql_slot_job_done(slot);
    sql->o.commit_answer(sql->o.commit_arg, id, &slot->answer);
}

static void commit_recorded(void *arg, const struct pgconn_result *result)
{
    struct slot *slot = sql_slot_of(arg);
    slot->answer = (struct unit_answer){.err = result->err};
    slot->in_doubt = result->lost || result->warned;
    if (!result->err.code)
        slot->answer.db_now = pg_timestamp(
            (struct str){PQgetvalue(result->rows, 0, 0), (size_t)PQgetlength(result->rows, 0, 0)});
}

static void commit_came(void *arg, const struct pgconn_result *result)
{
    struct slot *slot = sql_slot_of(arg);
    if (result->lost || result->warned || slot->in_doubt) {
        slot->state = SLOT_RESOLVING;
        if (!result->lost)
            pgconn_reset(slot->conn, "a commit that may not be replicated");
        return; /* goes on when the connection is back */
    }
    bool refused = slot->answer.err.code != ERR_NONE;
    if (!refused && result->err.code)
        slot->answer.err = result->err;
    if (!slot->answer.err.code && !strcmp(PQcmdStatus((PGresult *)result->rows), "COMMIT")) {
        FAILPOINT("sql_committed");
        slot->seq++;
        commit_done(slot, UNIT_APPLIED);
        sql_slot_idle(slot);
        return;
    }
    commit_done(slot, strcmp(slot->answer.err.sqlstate, "SAG01") ? UNIT_REJECTED : UNIT_FENCED);
    sql_slot_rollback(slot);
}

static void apply_send(struct slot *slot, const struct store_lane *lane, struct pgunit *unit,
                       uint32_t crc, unsigned flags, pgconn_done *done)
{
    struct pgconn_params params = {0};
    const uint32_t *types = store_pg_types(slot->pool->sql->o.store);
    pgconn_param_text(&params, str_z(lane->token));
    pgconn_param_text(&params, str_z(lane->name));
    pgconn_param_int8(&params, (int64_t)slot->epoch);
    pgconn_param_int8(&params, (int64_t)slot->seq + 1);
    pgconn_param_int8(&params, crc);
    pgconn_param_int8(&params, unit ? (int64_t)unit->shards : 0);
    for (int i = 0; i < LIST_COUNT; i++)
        pgconn_param_binary(&params,
                            unit ? pgunit_list(unit, (enum pgunit_list)i, types) : STR_NONE);
    pgconn_exec(slot->conn, SQL_APPLY, &params, flags, done, slot);
}

static struct slot *slot_find(struct invoke_sql *sql, uint64_t id)
{
    for (struct pool *pool = sql->pools; pool; pool = pool->next)
        for (unsigned i = 0; i < pool->slots_count; i++)
            if (pool->slots[i].job && pool->slots[i].job->id == id)
                return &pool->slots[i];
    return NULL;
}

static void commit_action(void *arg, uint64_t id, void *encoded)
{
    struct invoke_sql *sql;
    struct store_lane lane;
    CAST_OBJ(sql, arg, SQL_MAGIC);
    struct slot *slot = slot_find(sql, id);
    bool open = slot && slot->state == SLOT_OPEN;
    bool ours =
        open && store_pg_action_lane(sql->o.store, slot->index, &lane) && lane.epoch == slot->epoch;
    if (!ours) {
        /* Without its session the transaction is rolled back; without the lane it must be. */
        struct note *note = note_add(sql, id);
        note->is_commit = true;
        note->verdict = open ? UNIT_FENCED : UNIT_REJECTED;
        pgunit_free(encoded);
        if (open) {
            sql_slot_job_done(slot);
            sql_slot_rollback(slot);
        }
        return;
    }
    slot->unit = encoded;
    slot->state = SLOT_COMMITTING;
    slot->in_doubt = false;
    FAILPOINT("sql_commit");
    apply_send(slot, &lane, slot->unit, slot->unit->crc, PGCONN_MORE, commit_recorded);
    pgconn_query(slot->conn, "commit", NULL, 0, commit_came, slot);
    FAILPOINT("sql_commit_sent");
}

/* --- a lost COMMIT --- */

static void resolved(void *arg, const struct pgconn_result *result)
{
    struct slot *slot = sql_slot_of(arg);
    const char *state = result->err.sqlstate;
    slot->answer.err = (struct err){0};
    if (result->lost)
        return; /* asked again when the connection is back */
    if (result->warned) {
        pgconn_reset(slot->conn, "an answer that may not be replicated");
        return;
    }
    if (!result->err.code || !strcmp(state, "SAG04")) {
        slot->seq++; /* the number is used by the empty unit: the action can never commit */
        commit_done(slot, UNIT_REJECTED);
    } else if (!strcmp(state, "SAG02")) {
        slot->seq++;
        commit_done(slot, UNIT_APPLIED);
    } else if (!strcmp(state, "SAG01") || !strcmp(state, "SAG03")) {
        commit_done(slot, UNIT_FENCED);
    } else {
        loop_timer_set(slot->timer, RESOLVE_AGAIN_US);
        return;
    }
    sql_slot_idle(slot);
}

static void slot_resolve(struct slot *slot)
{
    struct store_lane lane;
    if (!pgconn_is_up(slot->conn))
        return;
    if (!store_pg_action_lane(slot->pool->sql->o.store, slot->index, &lane) ||
        lane.epoch != slot->epoch) {
        commit_done(slot, UNIT_FENCED);
        sql_slot_idle(slot);
        return;
    }
    /* What is left of the old session holds the row of the lane: it is ours to end. */
    pgconn_query(slot->conn,
                 "select pg_catalog.pg_terminate_backend(a.pid)"
                 "  from pg_catalog.pg_stat_activity a"
                 " where a.application_name = pg_catalog.current_setting('application_name')"
                 "   and a.usename = session_user and a.datname = current_database()"
                 "   and a.pid <> pg_catalog.pg_backend_pid()",
                 NULL, 0, NULL, NULL);
    apply_send(slot, &lane, NULL, ~slot->unit->crc, 0, resolved);
}

/* --- connections --- */

static void slot_up(void *arg)
{
    struct slot *slot = sql_slot_of(arg);
    if (slot->state == SLOT_RESOLVING) {
        if (slot->pool->is_engine)
            slot_resolve(slot);
        else
            sql_doubt_ask(slot);
    } else if (slot->pool->is_engine) {
        sql_slot_next(slot);
    } else {
        sql_guard_look(slot);
    }
}

static bool pool_is_up(const struct pool *pool)
{
    for (unsigned i = 0; i < pool->slots_count; i++)
        if (pool->slots[i].conn && pgconn_is_up(pool->slots[i].conn))
            return true;
    return false;
}

/* What waits for a database that cannot be reached was certainly not sent. */
static void slot_down(void *arg, const struct err *err, bool is_final)
{
    struct slot *slot = sql_slot_of(arg);
    struct pool *pool = slot->pool;
    (void)is_final;
    if (slot->state == SLOT_OPEN) { /* rolled back; the commit will be told */
        sql_slot_job_done(slot);
        slot->state = SLOT_IDLE;
    }
    if (!pool_is_up(pool))
        for (struct job *job; (job = pool_pop(pool)); job_free(job))
            reply_later(pool->sql, job->id, REPLY_NOT_CONNECTED, err->text);
    if (!pool->is_engine && slot->state == SLOT_IDLE) {
        pgconn_close(slot->conn); /* opened again when it is needed */
        slot->conn = NULL;
    }
}

static const char *slot_problem(void *arg, const char *host, const struct sockaddr *peer)
{
    return egress_problem(sql_slot_of(arg)->pool->sql->o.egress, str_z(host), peer);
}

static void slot_connect(struct slot *slot)
{
    struct pool *pool = slot->pool;
    char application[96];
    static const struct pgconn_setting settings[] = {
        {"search_path", NULL}, /* as the role has it: the statement is the user's */
        {"statement_timeout", "0"},
        {"idle_in_transaction_session_timeout", "60s"}, /* a frozen daemon must not lock tables */
    };
    snprintf(application, sizeof(application), "sagad %s sql%u", pool->sql->o.daemon,
             slot->index + 1);
    struct pgconn_options options = {
        .uri = pool->uri,
        .application = application,
        .settings = settings,
        .settings_count = ARRAY_LEN(settings),
        .statements = statements,
        .statements_count = pool->is_engine ? ARRAY_LEN(statements) : 0,
        .arg = slot,
        .up = slot_up,
        .down = slot_down,
        .problem = pool->is_engine ? NULL : slot_problem, /* the operator names the engine's own */
    };
    slot->conn = pgconn_open(pool->sql->o.loop, &options);
}

static struct pool *pool_new(struct invoke_sql *sql, const char *uri, unsigned slots, bool engine)
{
    struct pool *pool = xcalloc(1, sizeof(*pool));
    pool->sql = sql;
    pool->uri = xstrdup(uri);
    pool->is_engine = engine;
    pool->last = &pool->first;
    pool->slots_count = slots;
    pool->slots = xcalloc(slots, sizeof(*pool->slots));
    for (unsigned i = 0; i < slots; i++) {
        struct slot *slot = &pool->slots[i];
        slot->magic = SQL_MAGIC;
        slot->pool = pool;
        slot->index = i;
        slot->timer = loop_timer_new(sql->o.loop, slot_timer, slot);
        if (engine)
            slot_connect(slot);
    }
    pool->next = sql->pools;
    sql->pools = pool;
    return pool;
}

static void pool_free(struct pool *pool)
{
    for (unsigned i = 0; i < pool->slots_count; i++) {
        struct slot *slot = &pool->slots[i];
        pgconn_close(slot->conn);
        loop_timer_free(slot->timer);
        buf_free(&slot->body);
        pgunit_free(slot->unit);
        if (slot->job)
            job_free(slot->job);
    }
    for (struct job *job; (job = pool_pop(pool)); job_free(job)) {
    }
    free(pool->slots);
    free(pool->service);
    free(pool->uri);
    free(pool);
}

/* Gives the oldest waiting job to an idle connection, or opens one more. */
void sql_pool_pump(struct pool *pool)
{
    struct slot *fresh = NULL;
    for (unsigned i = 0; i < pool->slots_count && pool->first; i++) {
        struct slot *slot = &pool->slots[i];
        if (slot->conn && pgconn_is_up(slot->conn))
            sql_slot_next(slot);
        else if (slot->conn && slot->state == SLOT_IDLE)
            return; /* one is being connected: it will take the job, or fail it */
        if (slot->state == SLOT_LOOKING)
            return; /* as good as connected */
        else if (!slot->conn && !fresh)
            fresh = slot;
    }
    if (pool->first && fresh)
        slot_connect(fresh);
}

/* --- the port --- */

static void local_add(struct buf *sql, const char *name, struct str value)
{
    buf_printf(sql, ", pg_catalog.set_config('%s', '", name);
    for (size_t i = 0; i < value.len; i++) {
        if (value.ptr[i] == '\'')
            buf_add_char(sql, '\'');
        buf_add_char(sql, value.ptr[i]);
    }
    buf_add_z(sql, "', true)");
}

static struct job *job_new(const struct invocation *invocation)
{
    const struct request *request = invocation->request;
    struct job *job = xcalloc(1, sizeof(*job));
    struct arena scratch = {0};
    int64_t timeout_us = MAX(invocation->timeout_us, MS_US);
    job->id = invocation->id;
    job->timeout_us = timeout_us;
    job->is_read = !invocation->key.len;
    job->statement = xstrdup(request->action->sql.statement);
    job->args_count = request->args_count;
    job->args = xcalloc(request->args_count + 1u, sizeof(*job->args));
    for (unsigned i = 0; i < request->args_count; i++)
        if (request->args[i].ptr)
            job->args[i] = xstrdup(arena_str(&scratch, request->args[i]).ptr);
    struct buf *sql = &job->settings;
    buf_printf(sql, "select pg_catalog.set_config('statement_timeout', '%lld', true)",
               (long long)(timeout_us / MS_US));
    local_add(sql, "saga.key", invocation->key);
    local_add(sql, "saga.run", invocation->run_id);
    local_add(sql, "saga.step", invocation->step);
    local_add(sql, "saga.attempt", arena_printf(&scratch, "%u", invocation->attempt));
    local_add(sql, "saga.action", str_z(direction_name(invocation->direction)));
    local_add(sql, "saga.compensates", invocation->compensates);
    local_add(sql, "saga.reconciles", invocation->reconciles);
    local_add(sql, "saga.deadline", wall_format(invocation->deadline_at, &scratch));
    if (invocation->key.len && request->action->effect != EFFECT_PURE) {
        job->key = xstrdup(arena_str(&scratch, invocation->key).ptr);
        job->direction = invocation->direction;
        job->needs_guard = request->action->idempotency.place == KEY_PLACE_GUARD;
        if (invocation->direction == DIRECTION_COMPENSATE)
            job->compensates = xstrdup(arena_str(&scratch, invocation->compensates).ptr);
        sha256_hex(&request->hash, job->hash);
    }
    arena_free(&scratch);
    return job;
}

static bool is_postgres(const char *url)
{
    return url && (!strncmp(url, "postgres://", 11) || !strncmp(url, "postgresql://", 13));
}

/* The pool for this request; NULL with the reason in `why`. */
static struct pool *pool_for(struct invoke_sql *sql, const struct request *request,
                             const char **why)
{
    const char *uri = sql->o.uri;
    const struct plan_service *service = request->service;
    if (service) {
        uri = sql->o.url ? sql->o.url(sql->o.url_arg, service->name) : NULL;
        uri = uri ? uri : service->url;
        if (!is_postgres(uri)) {
            *why = uri ? "the service's url is not postgres://" : "the service has no url";
            return NULL;
        }
    } else if (!uri || !sql->o.lanes) {
        *why = "SQL actions in the engine's database are off (no connection as saga_action)";
        return NULL;
    }
    for (struct pool *pool = sql->pools; pool; pool = pool->next)
        if (pool->is_engine == !service && !strcmp(pool->uri, uri))
            return pool;
    struct pool *pool = pool_new(sql, uri, SQL_CONNECTIONS_PER_SERVICE, false);
    pool->service = xstrdup(service->name);
    return pool;
}

static const char *args_refuse(const struct request *request)
{
    if (request->args_count > PGCONN_PARAMS_MAX)
        return "more than 16 parameters";
    for (unsigned i = 0; i < request->args_count; i++)
        if (request->args[i].len && memchr(request->args[i].ptr, '\0', request->args[i].len))
            return "a parameter holds a NUL";
    return NULL;
}

static void port_start(void *arg, const struct invocation *invocation)
{
    struct invoke_sql *sql;
    CAST_OBJ(sql, arg, SQL_MAGIC);
    const char *why = args_refuse(invocation->request);
    struct pool *pool = why ? NULL : pool_for(sql, invocation->request, &why);
    if (!pool) {
        reply_later(sql, invocation->id, REPLY_CANNOT_SEND, why);
        return;
    }
    if (sql->draining || sql->waiting >= SQL_WAITING_MAX) {
        reply_later(sql, invocation->id, sql->draining ? REPLY_NOT_SENT : REPLY_LOCAL_SHORTAGE,
                    sql->draining ? "the daemon is shutting down" : "too many SQL actions wait");
        return;
    }
    struct job *job = job_new(invocation);
    *pool->last = job;
    pool->last = &job->next;
    sql->waiting++;
    sql_pool_pump(pool);
}

static bool drop_waiting(struct pool *pool, uint64_t id)
{
    for (struct job **at = &pool->first; *at; at = &(*at)->next) {
        struct job *job = *at;
        if (job->id != id)
            continue;
        *at = job->next;
        if (!*at)
            pool->last = at;
        pool->sql->waiting--;
        reply_later(pool->sql, id, REPLY_NOT_SENT, "dropped");
        job_free(job);
        return true;
    }
    return false;
}

static void port_drop(void *arg, uint64_t id)
{
    struct invoke_sql *sql;
    CAST_OBJ(sql, arg, SQL_MAGIC);
    for (struct pool *pool = sql->pools; pool; pool = pool->next)
        if (drop_waiting(pool, id))
            return;
    struct slot *slot = slot_find(sql, id);
    if (!slot)
        return;
    if (slot->state == SLOT_OPEN) { /* answered already */
        sql_slot_job_done(slot);
        sql_slot_rollback(slot);
    } else if (slot->state == SLOT_RUNNING) {
        pgconn_reset(slot->conn, "the answer is no longer wanted");
    }
}

/* --- life --- */

struct invoke_sql *invoke_sql_new(const struct invoke_sql_options *options)
{
    struct invoke_sql *sql = xcalloc(1, sizeof(*sql));
    sql->magic = SQL_MAGIC;
    sql->o = *options;
    sql->o.uri = options->uri ? xstrdup(options->uri) : NULL;
    sql->o.daemon = xstrdup(options->daemon);
    sql->notes_last = &sql->notes;
    sql->port = (struct port_invoke){.arg = sql, .start = port_start, .drop = port_drop};
    if (sql->o.uri && sql->o.lanes)
        pool_new(sql, sql->o.uri, sql->o.lanes, true);
    store_pg_commit_by(sql->o.store, commit_action, sql);
    return sql;
}

void invoke_sql_free(struct invoke_sql *sql)
{
    if (!sql)
        return;
    for (struct pool *pool = sql->pools, *next; pool; pool = next) {
        next = pool->next;
        pool_free(pool);
    }
    loop_defer_cancel(sql->o.loop, &sql->notes_call);
    for (struct note *note = sql->notes, *next; note; note = next) {
        next = note->next;
        free(note);
    }
    free((char *)sql->o.uri);
    free((char *)sql->o.daemon);
    sql->magic = 0;
    free(sql);
}

const struct port_invoke *invoke_sql_port(struct invoke_sql *sql)
{
    return &sql->port;
}

static void slot_cut(struct slot *slot)
{
    if (slot->state == SLOT_RUNNING) {
        pgconn_reset(slot->conn, "the daemon is shutting down");
    } else if (slot->state == SLOT_RESOLVING && !slot->pool->is_engine) {
        slot->resolve_until.us = 1; /* long ago */
        loop_timer_set(slot->timer, 0);
    }
}

void invoke_sql_drain(struct invoke_sql *sql, bool cut)
{
    sql->draining = true;
    for (struct pool *pool = sql->pools; pool; pool = pool->next) {
        for (struct job *job; (job = pool_pop(pool)); job_free(job))
            reply_later(sql, job->id, REPLY_NOT_SENT, "the daemon is shutting down");
        for (unsigned i = 0; i < pool->slots_count && cut; i++)
            slot_cut(&pool->slots[i]);
    }
}

size_t invoke_sql_busy(const struct invoke_sql *sql)
{
    size_t busy = sql->waiting;
    for (struct pool *pool = sql->pools; pool; pool = pool->next)
        for (unsigned i = 0; i < pool->slots_count; i++)
            busy += pool->slots[i].job != NULL;
    return busy;
}
