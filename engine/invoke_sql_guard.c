/*
 * invoke_sql_guard.c: actions in other databases: their commit, and what the participant kit makes
 * of it where it is installed.
 */
#include "engine/invoke_sql_impl.h"

#include "engine/failpoint.h"
#include "engine/guard.h"
#include "engine/log.h"

#include <stdio.h>

#define RESOLVE_MIN_US (10 * SECOND_US) /* so long, or the invocation's timeout */

static void slot_doubt(struct slot *slot);

/* --- the commit --- */

/* No statement has failed: the guard says no. */
static void reply_no(struct slot *slot, const char *state, const char *text)
{
    struct err err;
    err_set(&err, ERR_CONFLICT, "%s", text);
    strcpy(err.sqlstate, state);
    sql_reply_error(slot, &err, false);
}

bool sql_is_guarded(const struct slot *slot)
{
    return slot->has_guard && slot->job->key;
}

static void kept_elsewhere(void *arg, const struct pgconn_result *result)
{
    struct slot *slot = sql_slot_of(arg);
    slot->answer.err = result->err;
}

static void committed_elsewhere(void *arg, const struct pgconn_result *result)
{
    struct slot *slot = sql_slot_of(arg);
    const struct err *err = slot->answer.err.code ? &slot->answer.err : &result->err;
    if (result->lost && sql_is_guarded(slot)) {
        slot_doubt(slot);
        return;
    }
    if (err->code) {
        sql_reply_error(slot, err, result->lost);
        sql_slot_job_done(slot);
        sql_slot_rollback(slot);
        return;
    }
    FAILPOINT("sql_elsewhere_committed");
    if (strcmp(PQcmdStatus((PGresult *)result->rows), "COMMIT") != 0) {
        struct err rolled;
        err_set(&rolled, ERR_DATABASE, "the transaction was rolled back");
        strcpy(rolled.sqlstate, "40000");
        sql_reply_error(slot, &rolled, false);
    } else {
        sql_reply_success(slot, REPLY_SQL);
    }
    sql_slot_job_done(slot);
    sql_slot_idle(slot);
}

void sql_commit_elsewhere(struct slot *slot, bool keep)
{
    slot->state = SLOT_COMMITTING;
    slot->answer = (struct unit_answer){.verdict = UNIT_NONE};
    slot->old_pid = pgconn_backend_pid(slot->conn);
    if (keep) {
        struct pgconn_params params = {0};
        pgconn_param_z(&params, slot->job->key);
        pgconn_param_z(&params, slot->body.len > BODY_BYTES_MAX ? "null" : slot->body.data);
        pgconn_query(slot->conn, guard_done_sql, &params, PGCONN_MORE, kept_elsewhere, slot);
    }
    pgconn_query(slot->conn, "commit", NULL, 0, committed_elsewhere, slot);
    FAILPOINT("sql_elsewhere_commit_sent");
}

/* --- with the guard: claim, statement, answer, in one transaction --- */

/* It was done before: success without the statement; an answer that was not kept, or too large to
 * be, is dropped. */
static void guard_reply(struct slot *slot, enum guard_verdict verdict, struct str answer)
{
    const struct invoke_sql *sql = slot->pool->sql;
    bool kept = verdict == GUARD_REPLAY && !str_eq(answer, STR("null"));
    struct reply reply = {.kind = REPLY_SQL,
                          .sent_at = slot->job->sent_at,
                          .ended_at = loop_wall(sql->o.loop),
                          .body = kept ? answer : STR_NONE,
                          .body_dropped = !kept};
    sql->o.reply(sql->o.reply_arg, slot->job->id, &reply);
}

static void guard_end(struct slot *slot)
{
    sql_slot_job_done(slot);
    sql_slot_rollback(slot);
}

static void guard_obey(struct slot *slot, enum guard_verdict verdict, struct str answer)
{
    switch (verdict) {
    case GUARD_PROCEED: sql_statement_send(slot); return;
    case GUARD_NOTHING:
        buf_clear(&slot->body);
        buf_add_z(&slot->body, "{\"rows\": [], \"count\": 0}");
        sql_commit_elsewhere(slot, false);
        return;
    case GUARD_REPLAY:
    case GUARD_EXPIRED: guard_reply(slot, verdict, answer); break;
    case GUARD_REFUSED:
        reply_no(slot, GUARD_STATE_REFUSED, "it comes after its undo: the guard refused it");
        break;
    case GUARD_CONFLICT:
        reply_no(slot, GUARD_STATE_CONFLICT, "the key was used for another request there");
        break;
    case GUARD_NONE: reply_no(slot, "0A000", "the guard there speaks another version"); break;
    }
    guard_end(slot);
}

static enum guard_verdict verdict_of(const struct pgconn_result *result, struct str *answer)
{
    const PGresult *rows = result->rows;
    *answer = STR_NONE;
    if (PQntuples(rows) != 1)
        return GUARD_NONE;
    if (!PQgetisnull(rows, 0, 1))
        *answer = (struct str){PQgetvalue(rows, 0, 1), (size_t)PQgetlength(rows, 0, 1)};
    return guard_verdict_of(str_z(PQgetvalue(rows, 0, 0)));
}

static void claimed(void *arg, const struct pgconn_result *result)
{
    struct slot *slot = sql_slot_of(arg);
    struct str answer;
    loop_timer_stop(slot->timer);
    if (result->err.code) {
        sql_reply_error(slot, &result->err, false);
        guard_end(slot);
        return;
    }
    enum guard_verdict verdict = verdict_of(result, &answer);
    guard_obey(slot, verdict, answer);
}

static void claim_send(struct slot *slot, pgconn_done *done)
{
    const struct job *job = slot->job;
    struct pgconn_params params = {0};
    pgconn_param_z(&params, job->key);
    pgconn_param_z(&params, job->hash);
    pgconn_param_z(&params, direction_name(job->direction));
    pgconn_param_z(&params, job->compensates);
    /* One Sync for the three: if BEGIN failed, nothing would run outside. */
    pgconn_query(slot->conn, "begin", NULL, PGCONN_MORE, NULL, NULL);
    pgconn_query(slot->conn, job->settings.data, NULL, PGCONN_MORE, NULL, NULL);
    pgconn_query(slot->conn, guard_claim_sql, &params, PGCONN_TEXT, done, slot);
}

void sql_guard_begin(struct slot *slot)
{
    claim_send(slot, claimed);
}

/* --- a lost COMMIT, asked of the guard --- */

/* The outcome stays unknown. */
static void doubt_give_up(struct slot *slot)
{
    struct err err;
    err_set(&err, ERR_UNAVAILABLE,
            "the connection went away in COMMIT, and the guard there could "
            "not be asked in time");
    sql_reply_error(slot, &err, true);
    sql_slot_job_done(slot);
    loop_timer_stop(slot->timer);
    pgconn_close(slot->conn); /* opened again when it is needed */
    slot->conn = NULL;
    slot->state = SLOT_IDLE;
    sql_pool_pump(slot->pool);
}

static void doubt_resolved(void *arg, const struct pgconn_result *result)
{
    struct slot *slot = sql_slot_of(arg);
    struct str answer;
    slot->is_asking = false;
    if (result->lost)
        return;             /* asked again when the connection is back, or by the timer */
    if (result->err.code) { /* the old transaction may still hold the key */
        pgconn_query(slot->conn, "rollback", NULL, 0, NULL, NULL);
        return;
    }
    loop_timer_stop(slot->timer);
    enum guard_verdict verdict = verdict_of(result, &answer);
    if (verdict == GUARD_PROCEED) { /* the key is free: the COMMIT was never done, nor can it be */
        struct err err;
        err_set(&err, ERR_UNAVAILABLE, "the connection went away in COMMIT, which was not done");
        sql_reply_error(slot, &err, false);
        guard_end(slot);
    } else if (verdict == GUARD_CONFLICT || verdict == GUARD_NONE) {
        doubt_give_up(slot); /* not what we sent: nothing is known of ours */
    } else {
        guard_obey(slot, verdict, answer);
    }
}

void sql_doubt_ask(struct slot *slot)
{
    if (slot->is_asking || !slot->conn || !pgconn_is_up(slot->conn))
        return;
    struct pgconn_params params = {0};
    pgconn_param_int8(&params, slot->old_pid);
    slot->is_asking = true;
    /* What is left of the old session holds the key: it is ours to end. */
    pgconn_query(slot->conn,
                 "select pg_catalog.pg_terminate_backend(a.pid)"
                 "  from pg_catalog.pg_stat_activity a"
                 " where a.application_name = pg_catalog.current_setting('application_name')"
                 "   and a.usename = session_user and a.datname = current_database()"
                 "   and a.pid = $1::int8 and a.pid <> pg_catalog.pg_backend_pid()",
                 &params, 0, NULL, NULL);
    claim_send(slot, doubt_resolved);
}

void sql_doubt_timer(struct slot *slot)
{
    if (loop_mono().us >= slot->resolve_until.us) {
        doubt_give_up(slot);
        return;
    }
    loop_timer_set(slot->timer, RESOLVE_AGAIN_US);
    sql_doubt_ask(slot);
}

/* The COMMIT may have reached the server: the key is there, with its answer, or is not. */
static void slot_doubt(struct slot *slot)
{
    slot->state = SLOT_RESOLVING;
    slot->is_asking = false;
    if (!slot->resolve_until.us)
        slot->resolve_until.us = loop_mono().us + MAX(slot->job->timeout_us, RESOLVE_MIN_US);
    loop_timer_set(slot->timer, RESOLVE_AGAIN_US);
}

/* --- is it there? --- */

/* Said once for each database, when the first connection stands. */
static void guard_say(struct pool *pool, bool is_there, bool is_ours)
{
    if (pool->said_guard)
        return;
    pool->said_guard = true;
    if (!is_there)
        log_info("service \"%s\": no saga_guard there; a lost commit stays unknown", pool->service);
    else if (!is_ours)
        log_warn("service \"%s\": saga_guard is installed, but this role may not use it; as its "
                 "owner: select saga_guard.allow('ROLE')",
                 pool->service);
    else
        log_info("service \"%s\": saga_guard is there; each action is done once", pool->service);
}

static void looked(void *arg, const struct pgconn_result *result)
{
    struct slot *slot = sql_slot_of(arg);
    slot->state = SLOT_IDLE;
    if (result->lost)
        return;
    bool is_there = !result->err.code && PQntuples(result->rows) == 1;
    bool is_ours = is_there && *PQgetvalue(result->rows, 0, 0) == 't';
    slot->has_guard = is_ours;
    guard_say(slot->pool, is_there, is_ours);
    sql_slot_next(slot);
}

void sql_guard_look(struct slot *slot)
{
    slot->state = SLOT_LOOKING;
    pgconn_query(slot->conn, guard_look_sql, NULL, PGCONN_TEXT, looked, slot);
}
