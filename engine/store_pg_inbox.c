/*
 * store_pg_inbox.c: the inbox, definitions that change, and questions.
 */
#include "engine/store_pg_impl.h"
#include "engine/unknown.h"

#include <stdio.h>
#include <stdlib.h>

#define POLL_MIN_US (50 * MS_US)
#define POLL_MAX_US (200 * MS_US)
#define ASK_AGAIN_US (5 * SECOND_US)
#define POLL_ROWS 200 /* new rows at most in one poll */

/* --- polling --- */

static struct inbox_row *row_find(struct store_pg *store, struct str id)
{
    for (struct map_node *node = map_first(&store->inbox, str_hash(id)); node;
         node = map_next(node)) {
        struct inbox_row *row = CONTAINER_OF(node, struct inbox_row, node);
        if (str_eq_z(id, row->id))
            return row;
    }
    return NULL;
}

static void row_remember(struct store_pg *store, struct str id)
{
    struct inbox_row *row = xcalloc(1, sizeof(*row));
    row->id = xmalloc(id.len + 1);
    memcpy(row->id, id.ptr, id.len);
    row->id[id.len] = '\0';
    map_insert(&store->inbox, &row->node, str_hash(id));
}

static void row_forget(struct store_pg *store, struct inbox_row *row)
{
    map_remove(&store->inbox, &row->node);
    free(row->id);
    free(row);
}

void inbox_settled(struct store_pg *store, const struct pgunit *unit)
{
    for (uint32_t i = 0; i < unit->inbox_count; i++) {
        struct inbox_row *row = row_find(store, str_z(unit->inbox_ids[i]));
        if (!row)
            continue;
        row->settled = true;
        row->settled_at = store->polls;
    }
}

/* A poll that was asked after a row was settled has been answered: it cannot come again. */
static void settled_forget(struct store_pg *store)
{
    for (size_t i = 0; i < store->inbox.size; i++)
        for (struct map_node *node = store->inbox.buckets[i], *next; node; node = next) {
            struct inbox_row *row = CONTAINER_OF(node, struct inbox_row, node);
            next = node->chain;
            if (row->settled && row->settled_at < store->polls)
                row_forget(store, row);
        }
}

void inbox_forget(struct store_pg *store)
{
    struct map_node *node;
    while ((node = map_any(&store->inbox)))
        row_forget(store, CONTAINER_OF(node, struct inbox_row, node));
}

static void sources_came(void *arg, const struct pgconn_result *result)
{
    struct store_pg *store;
    CAST_OBJ(store, arg, STORE_MAGIC);
    if (result->lost)
        return;
    if (result->err.code)
        store_problem(store, &result->err, false);
    else
        sources_deliver(store, result->rows);
}

/* One that does not compile here stays unknown: it is not asked for with every poll. */
static void definition_ask(struct store_pg *store, const struct sha256 *hash)
{
    int64_t now_us = loop_mono().us;
    if (sha256_eq(&store->asked_hash, hash) && now_us - store->asked_at.us < ASK_AGAIN_US)
        return;
    store->asked_hash = *hash;
    store->asked_at.us = now_us;
    sources_ask(store, hash, 1, sources_came, store);
}

/* False: the row stays and is offered again. */
static bool row_offer(struct store_pg *store, const PGresult *rows, int i)
{
    struct store_inbox row = {
        .shard = (uint16_t)pg_int(store_field(rows, i, 1)),
        .id = store_field(rows, i, 2),
        .kind = store_field(rows, i, 3),
        .run_id = store_field(rows, i, 4),
        .body = store_field(rows, i, 6),
        .actor = store_field(rows, i, 7),
        .at = pg_timestamp(store_field(rows, i, 8)),
    };
    struct str hash = store_field(rows, i, 5);
    if (row_find(store, row.id) || !(store->shards >> row.shard & 1))
        return false;
    if (hash.len == sizeof(struct sha256)) {
        struct sha256 wanted;
        memcpy(wanted.bytes, hash.ptr, hash.len);
        row.plan = store->events.plan(store->events.arg, &wanted);
        if (!row.plan) { /* not known yet: the row comes again with a later poll */
            definition_ask(store, &wanted);
            return false;
        }
    }
    if (!store->events.inbox || !store->events.inbox(store->events.arg, &row))
        return false;
    row_remember(store, row.id);
    return true;
}

static void polled(void *arg, const struct pgconn_result *result)
{
    struct store_pg *store;
    unsigned taken = 0;
    CAST_OBJ(store, arg, STORE_MAGIC);
    store->polling = false;
    if (result->lost)
        return;
    if (result->err.code) {
        store_problem(store, &result->err, false);
        store->poll_us = SECOND_US;
        loop_timer_set(store->poll_timer, store->poll_us);
        return;
    }
    int64_t workflows_no = pg_int(store_field(result->rows, 0, 0));
    if (workflows_no != store->workflows_no) {
        store->workflows_no = workflows_no;
        sources_ask(store, NULL, 0, sources_came, store);
    }
    for (int i = 0; i < PQntuples(result->rows) && store->lease == LEASE_HELD; i++)
        if (store_field(result->rows, i, 2).ptr)
            taken += row_offer(store, result->rows, i);
    settled_forget(store);
    store->poll_us =
        taken ? POLL_MIN_US : MIN(MAX(store->poll_us, POLL_MIN_US) * 5 / 4, POLL_MAX_US);
    loop_timer_set(store->poll_timer, store->poll_us);
}

void inbox_poll(void *arg)
{
    struct store_pg *store;
    struct pgconn_params params = {0};
    char limit[16];
    CAST_OBJ(store, arg, STORE_MAGIC);
    if (!pgconn_is_up(store->watch) || store->polling)
        return;
    bool wanted = store->polls_inbox && store->lease == LEASE_HELD;
    snprintf(limit, sizeof(limit), "%zu", wanted ? store->inbox.count + POLL_ROWS : 0);
    pgconn_param_int8(&params, wanted ? (int64_t)store->shards : 0);
    pgconn_param_z(&params, limit);
    store->polling = true;
    store->polls++;
    pgconn_exec(store->watch, WATCH_POLL, &params, 0, polled, store);
}

/* --- questions --- */

static void question_free(struct question *question)
{
    *question->place = question->next;
    if (question->next)
        question->next->place = question->place;
    loop_defer_cancel(question->store->loop, &question->late);
    free(question);
}

void questions_free(struct store_pg *store)
{
    while (store->questions)
        question_free(store->questions);
}

static void question_answer(struct question *question, const struct store_answer *answer)
{
    if (question->done)
        question->done(question->arg, answer);
    question_free(question);
}

/* "conflict", or "conflict NAME" of one among several. */
static void conflict_set(struct str text, struct err *err)
{
    size_t skip = MIN(text.len, strlen("conflict "));
    struct str name = {text.ptr + skip, text.len - skip};
    if (name.len)
        err_set(err, ERR_CONFLICT,
                "the version label of \"" STR_FMT "\" stands for another content already",
                STR_ARG(name));
    else
        err_set(err, ERR_CONFLICT, "this version label stands for another content already");
}

static void question_came(void *arg, const struct pgconn_result *result)
{
    struct question *question = arg;
    struct store_answer answer = {.err = result->err};
    if (!answer.err.code && PQntuples(result->rows) && PQnfields(result->rows))
        answer.text = store_field(result->rows, 0, 0);
    if (question->conflict_text && str_starts(answer.text, STR("conflict")))
        conflict_set(answer.text, &answer.err);
    question_answer(question, &answer);
}

static void no_connection(void *arg)
{
    struct store_answer answer = {0};
    err_set(&answer.err, ERR_UNAVAILABLE, "no connection to the database");
    question_answer(arg, &answer);
}

static void ask_by(struct pgconn *conn, struct store_pg *store, const char *sql,
                   const struct pgconn_params *params, struct question *question)
{
    question->store = store;
    question->next = store->questions;
    question->place = &store->questions;
    if (store->questions)
        store->questions->place = &question->next;
    store->questions = question;
    if (pgconn_is_up(conn))
        pgconn_query(conn, sql, params, PGCONN_TEXT, question_came, question);
    else
        loop_defer(store->loop, &question->late, no_connection, question);
}

static void ask(struct store_pg *store, const char *sql, const struct pgconn_params *params,
                struct question *question)
{
    ask_by(store->read, store, sql, params, question);
}

static struct question *question_new(store_answered *done, void *arg)
{
    struct question *question = xcalloc(1, sizeof(*question));
    question->done = done;
    question->arg = arg;
    return question;
}

void store_pg_query(struct store_pg *store, const char *sql, const char *const *params,
                    unsigned count, store_answered *done, void *arg)
{
    struct pgconn_params list = {0};
    for (unsigned i = 0; i < count; i++)
        pgconn_param_z(&list, params[i]);
    ask(store, sql, &list, question_new(done, arg));
}

void store_pg_search(struct store_pg *store, const char *sql, const char *const *params,
                     unsigned count, store_answered *done, void *arg)
{
    struct pgconn_params list = {0};
    for (unsigned i = 0; i < count; i++)
        pgconn_param_z(&list, params[i]);
    ask_by(store->search, store, sql, &list, question_new(done, arg));
}

/* What a view must know of an action beyond its kind: where its tasks are offered. */
static void queue_describe(const char *name, const struct plan_action *action, struct buf *out)
{
    if (action->kind != ACTION_WORKER)
        return;
    buf_printf(out, ", \"%s\": ", name);
    json_write_string(str_z(action->worker.queue), out);
}

/* What it waits for that has a name. */
static void wait_describe(const struct plan_action *action, struct buf *out)
{
    if (action->kind != ACTION_WAIT_FOR && action->kind != ACTION_CHILD)
        return;
    bool signal = action->kind == ACTION_WAIT_FOR;
    buf_printf(out, ", \"%s\": ", signal ? "signal" : "child");
    json_write_string(str_z(signal ? action->wait_for.signal : action->child.workflow), out);
}

static bool retry_is_taken(const struct plan_action *action, struct wall key_valid_until,
                           struct wall now)
{
    const struct effect_state side = {.key_valid_until = key_valid_until};
    return action->reconcile || unknown_way(action, &side, now) == UNKNOWN_REPEAT;
}

/* Whether a person's retry is taken while its outcome is unknown: with a key that is honoured, one
 * that is over, and without one. */
static void again_describe(const char *name, const struct plan_action *action, struct buf *out)
{
    const struct wall before = {SECOND_US}, now = {2 * SECOND_US}, later = {3 * SECOND_US};
    if (action->kind == ACTION_NONE || action_kind_waits(action->kind))
        return;
    buf_printf(out, ", \"%s\": {\"key\": %s, \"key_over\": %s, \"no_key\": %s}", name,
               retry_is_taken(action, later, now) ? "true" : "false",
               retry_is_taken(action, before, now) ? "true" : "false",
               retry_is_taken(action, WALL_NONE, now) ? "true" : "false");
}

static void step_describe(const struct plan *plan, const struct plan_step *step, struct buf *out)
{
    const struct plan_action *action = &step->action;
    buf_add_z(out, "{\"id\": ");
    json_write_string(str_z(step->id), out);
    buf_printf(out, ", \"effect\": \"%s\", \"kind\": \"%s\", \"service\": ",
               effect_tier_name(action->effect), action_kind_name(action->kind));
    if (action->service == PLAN_SERVICE_NONE)
        buf_add_z(out, "null");
    else
        json_write_string(str_z(plan->services[action->service].name), out);
    buf_add_z(out, ", \"compensate\": ");
    if (step->compensate_none)
        json_write_string(str_z(step->compensate_none), out);
    else
        buf_add_z(out, step->compensate.kind == ACTION_NONE ? "false" : "true");
    if (step->compensate.kind != ACTION_NONE)
        buf_printf(out, ", \"compensate_kind\": \"%s\"", action_kind_name(step->compensate.kind));
    if (step->compensate.kind != ACTION_NONE && step->compensate.service != PLAN_SERVICE_NONE) {
        buf_add_z(out, ", \"compensate_service\": ");
        json_write_string(str_z(plan->services[step->compensate.service].name), out);
    }
    again_describe("again", action, out);
    again_describe("compensate_again", &step->compensate, out);
    queue_describe("queue", action, out);
    wait_describe(action, out);
    queue_describe("compensate_queue", &step->compensate, out);
    if (step->dry_run)
        buf_add_z(out, ", \"dry_run\": true");
    buf_printf(out, ", \"pivot\": %s, \"on_failure\": \"%s\", \"needs\": [",
               step->pivot ? "true" : "false", on_failure_name(step->on_failure));
    for (uint16_t i = 0; i < step->needs_count; i++) {
        buf_add_z(out, i ? ", " : "");
        json_write_string(str_z(plan->steps[step->needs[i]].id), out);
    }
    buf_add_z(out, "]}");
}

static void steps_describe(const struct plan *plan, struct buf *out)
{
    for (uint16_t i = 0; i < plan->steps_count; i++) {
        buf_add_z(out, i ? ",\n " : "[");
        step_describe(plan, &plan->steps[i], out);
    }
    buf_add_char(out, ']');
}

/* SQL must know that there is a template, also when it cannot render it. */
static struct str run_id_describe(const struct plan *plan, struct str parts)
{
    return parts.ptr || !plan->run_id ? parts : STR("\"complex\"");
}

/* How long a completed run may be undone, as an interval; NULL: never. */
static const char *window_describe(const struct plan *plan, char *out, size_t size)
{
    if (!plan->compensatable_for_us)
        return NULL;
    snprintf(out, size, "%lld us", (long long)plan->compensatable_for_us);
    return out;
}

void store_pg_apply(struct store_pg *store, const struct plan *plan, struct str run_id_parts,
                    const char *actor, store_answered *done, void *arg)
{
    struct pgconn_params params = {0};
    struct buf steps = {0};
    char window[32];
    steps_describe(plan, &steps);
    struct question *question = question_new(done, arg);
    question->conflict_text = true;
    pgconn_param_binary(&params, (struct str){(const char *)plan->hash.bytes, 32});
    pgconn_param_text(&params, str_z(plan->workflow));
    pgconn_param_text(&params, str_z(plan->version));
    pgconn_param_z(&params, plan->version_is_label ? "true" : "false");
    pgconn_param_text(&params, str_z(plan->description));
    pgconn_param_text(&params, plan->source);
    pgconn_param_text(&params, buf_str(&steps));
    pgconn_param_text(&params, run_id_describe(plan, run_id_parts));
    pgconn_param_text(&params, str_z(actor));
    pgconn_param_z(&params, window_describe(plan, window, sizeof(window)));
    ask(store, "select saga.workflow_apply_v2($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::interval)",
        &params, question);
    buf_free(&steps);
}

static void definition_describe(const struct store_definition *definition, struct buf *out)
{
    const struct plan *plan = definition->plan;
    const struct {
        const char *name, *text;
    } texts[] = {{"hash", plan->hash_hex},
                 {"name", plan->workflow},
                 {"version", plan->version},
                 {"description", plan->description}};
    struct str parts = run_id_describe(plan, definition->run_id_parts);
    buf_printf(out, "{\"is_label\":%s", plan->version_is_label ? "true" : "false");
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        buf_printf(out, ",\"%s\":", texts[i].name);
        json_write_string(str_z(texts[i].text), out);
    }
    buf_add_z(out, ",\"source\":");
    json_write_string(plan->source, out);
    buf_add_z(out, ",\"steps\":");
    steps_describe(plan, out);
    char window[32];
    if (window_describe(plan, window, sizeof(window)))
        buf_printf(out, ",\"compensatable_for\":\"%s\"", window);
    if (parts.ptr)
        buf_printf(out, ",\"run_id_parts\":" STR_FMT, STR_ARG(parts));
    buf_add_char(out, '}');
}

void store_pg_apply_set(struct store_pg *store, const struct store_definition *list, size_t count,
                        const char *actor, store_answered *done, void *arg)
{
    struct pgconn_params params = {0};
    struct buf text = {0};
    struct question *question = question_new(done, arg);
    question->conflict_text = true;
    buf_add_char(&text, '[');
    for (size_t i = 0; i < count; i++) {
        buf_add_z(&text, i ? ",\n" : "");
        definition_describe(&list[i], &text);
    }
    buf_add_char(&text, ']');
    pgconn_param_text(&params, buf_str(&text));
    pgconn_param_text(&params, str_z(actor));
    ask(store, "select saga.workflows_apply_v1($1, $2)", &params, question);
    buf_free(&text);
}

void store_pg_inbox_put(struct store_pg *store, struct str id, struct str kind, struct str run_id,
                        const struct sha256 *workflow, struct str body, struct str actor,
                        store_answered *done, void *arg)
{
    struct pgconn_params params = {0};
    pgconn_param_text(&params, id);
    pgconn_param_text(&params, kind);
    pgconn_param_text(&params, run_id);
    pgconn_param_binary(&params,
                        workflow ? (struct str){(const char *)workflow->bytes, 32} : STR_NONE);
    pgconn_param_text(&params, body);
    pgconn_param_text(&params, actor);
    ask(store, "select saga.inbox_put_v1($1, $2, $3, $4, $5, $6)", &params,
        question_new(done, arg));
}
