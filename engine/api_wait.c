/*
 * api_wait.c: requests that wait: for a run to end, for new events, for another daemon's answer.
 *
 * Each waiter looks at the database when it is told that its run has changed (the daemon owns it;
 * who waits for the end is told of ends only) and now and then in any case (it may not). One
 * question at a time; what comes meanwhile is remembered and asked again.
 */
#include "engine/api_impl.h"

#include <stdio.h>
#include <stdlib.h>

#define LOOK_EVERY_US (500 * MS_US)
#define REQUEST_LOOK_US (50 * MS_US)

/* Of a run whose data was removed, too. */
#define RUN_STATE_SQL                                                              \
    "select state from saga.runs where shard = saga.shard_of($1) and run_id = $1 " \
    "union all "                                                                   \
    "select state from saga.tombstones where shard = saga.shard_of($1) and run_id = $1 "

enum waiter_kind { WAITER_RUN, WAITER_EVENTS, WAITER_REQUEST };

#define WAITER_MAGIC 0x57414954u

struct waiter {
    unsigned magic;
    enum waiter_kind kind;
    struct waiter *next, **place;
    struct api *api;
    struct control_request *request; /* NULL: answered, only a question is still out */
    struct str run_id;               /* in the request's arena */
    struct mono until;
    struct loop_timer *timer;
    bool asking, again;
    bool rests, whole; /* WAITER_RUN: it was seen at rest; the question is for all of it */
    int status_end, status_open;
    int64_t seen;  /* WAITER_EVENTS: highest number sent */
    struct str id; /* WAITER_REQUEST */
    void (*done)(void *arg, const struct request_result *result);
    void *done_arg;
};

static void look(struct waiter *waiter);

static void on_timer(void *arg)
{
    struct waiter *waiter;
    CAST_OBJ(waiter, arg, WAITER_MAGIC);
    look(waiter);
}

static void waiter_free(struct waiter *waiter)
{
    *waiter->place = waiter->next;
    if (waiter->next)
        waiter->next->place = waiter->place;
    loop_timer_free(waiter->timer);
    waiter->magic = 0;
    free(waiter);
}

/* The request is about to be answered: the waiter goes, or stays for its question to come back. */
static struct control_request *waiter_finish(struct waiter *waiter)
{
    struct control_request *request = waiter->request;
    control_on_gone(request, NULL, NULL);
    waiter->request = NULL;
    if (waiter->asking)
        loop_timer_stop(waiter->timer);
    else
        waiter_free(waiter);
    return request;
}

/* The client went away: the answer goes nowhere, but the request must have one. */
static void on_gone(void *arg)
{
    struct waiter *waiter;
    CAST_OBJ(waiter, arg, WAITER_MAGIC);
    bool streaming = waiter->kind == WAITER_EVENTS;
    struct control_request *request = waiter_finish(waiter);
    if (streaming)
        control_stream_end(request);
    else
        control_problem(request, 503, "gone", NULL, "the client went away");
}

static struct waiter *waiter_new(struct api *api, struct control_request *request,
                                 enum waiter_kind kind, int64_t wait_us)
{
    struct waiter *waiter = xcalloc(1, sizeof(*waiter));
    waiter->magic = WAITER_MAGIC;
    waiter->kind = kind;
    waiter->api = api;
    waiter->request = request;
    waiter->until = (struct mono){loop_mono().us + wait_us};
    waiter->timer = loop_timer_new(api->o.loop, on_timer, waiter);
    waiter->next = api->waiters;
    waiter->place = &api->waiters;
    if (waiter->next)
        waiter->next->place = &waiter->next;
    api->waiters = waiter;
    control_on_gone(request, on_gone, waiter);
    return waiter;
}

static bool is_over(const struct waiter *waiter)
{
    return loop_mono().us >= waiter->until.us;
}

static void look_later(struct waiter *waiter, int64_t every_us)
{
    int64_t left_us = waiter->until.us - loop_mono().us;
    loop_timer_set(waiter->timer, MAX(MIN(left_us, every_us), MS_US));
}

/* --- a run's end ------------------------------------------------------------------------------ */

static bool state_rests(struct str name)
{
    enum run_state state = run_state_of(name);
    return run_state_is_terminal(state) || state == RUN_PARKED;
}

/* A run may be megabytes long, and nest deeper than can be read here: whether it rests is asked
 * for by itself, and the whole, which goes to the client as it comes, only once. */
static void run_came(struct waiter *waiter, const struct store_answer *answer)
{
    bool came = !answer->err.code && answer->text.ptr;
    if (came && !waiter->whole && state_rests(answer->text))
        waiter->rests = true;
    if (!is_over(waiter) && (!waiter->rests || answer->err.code)) {
        look_later(waiter, LOOK_EVERY_US);
        return;
    }
    if (!waiter->whole) {
        waiter->whole = true;
        look(waiter);
        return;
    }
    int status = waiter->rests ? waiter->status_end : waiter->status_open;
    struct control_request *request = waiter_finish(waiter);
    if (answer->err.code)
        problem_err(request, &answer->err);
    else if (!answer->text.ptr)
        control_problem(request, 404, "not_found", NULL, "there is no such run");
    else
        control_reply(request, status, answer->text);
}

static struct waiter *run_waiter_new(struct api *api, struct control_request *request,
                                     struct str run_id, int wait_s, int status_end, int status_open)
{
    struct waiter *waiter = waiter_new(api, request, WAITER_RUN, wait_s * SECOND_US);
    waiter->run_id = run_id;
    waiter->status_end = status_end;
    waiter->status_open = status_open;
    waiter->whole = wait_s == 0;
    return waiter;
}

void wait_for_run(struct api *api, struct control_request *request, struct str run_id, int wait_s,
                  int status_end, int status_open)
{
    look(run_waiter_new(api, request, run_id, wait_s, status_end, status_open));
}

void wait_for_new_run(struct api *api, struct control_request *request, struct str run_id,
                      int wait_s, int status_end, int status_open)
{
    look_later(run_waiter_new(api, request, run_id, wait_s, status_end, status_open),
               LOOK_EVERY_US);
}

struct find {
    struct api *api;
    struct control_request *request;
    int wait_s;
    bool events;
};

static void events_begin(struct api *api, struct control_request *request, struct str run_id);

/* {"run_id": the one} or {"candidates": [...]}; null: none. */
static void found(void *arg, const struct store_answer *answer)
{
    struct find *find = arg;
    struct control_request *request = find->request;
    struct arena *arena = control_arena(request);
    const struct json *result;
    struct err err;
    if (answer->err.code) {
        problem_err(request, &answer->err);
        return;
    }
    if (!answer->text.ptr || json_parse(arena_str(arena, answer->text), arena, &result, &err) ||
        result->kind != JSON_LIST || !result->count) {
        control_problem(request, 404, "not_found", NULL, "there is no such run");
        return;
    }
    if (result->count > 1) {
        struct json *problem = json_object_new(arena, 5);
        json_object_add_z(problem, "title", json_string_z(arena, "Conflict"));
        json_object_add_z(problem, "status", json_int(arena, 409));
        json_object_add_z(problem, "code", json_string_z(arena, "ambiguous"));
        json_object_add_z(problem, "detail",
                          json_string_z(arena, "several run ids begin like that"));
        json_object_add_z(problem, "candidates", result);
        control_reply_text(request, 409, "application/problem+json", json_text(problem, arena));
        return;
    }
    struct str run_id = arena_str(arena, result->items[0]->text); /* a C string from here on */
    if (find->events)
        events_begin(find->api, request, run_id);
    else
        wait_for_run(find->api, request, run_id, find->wait_s, 200, 200);
}

/* Calls found() with the run ids that match; an exact one wins. */
static void find_run(struct api *api, struct control_request *request, struct str run_id,
                     int wait_s, bool events)
{
    struct find *find = arena_new(control_arena(request), struct find);
    const char *params[] = {run_id.ptr};
    *find = (struct find){.api = api, .request = request, .wait_s = wait_s, .events = events};
    seen_query(api, request, "select saga.run_find_v1($1)", params, 1, found, find);
}

void run_show(struct api *api, struct control_request *request, struct str run_id, int wait_s)
{
    if (control_query(request, "prefix"))
        find_run(api, request, run_id, wait_s, false);
    else
        wait_for_run(api, request, run_id, wait_s, 200, 200);
}

/* --- events ----------------------------------------------------------------------------------- */

static void events_listed(void *arg, const struct store_answer *answer)
{
    struct control_request *request = arg;
    if (answer->err.code)
        problem_err(request, &answer->err);
    else if (!answer->text.ptr)
        control_problem(request, 404, "not_found", NULL, "there is no such run");
    else
        control_reply(request, 200, answer->text);
}

static void events_begin(struct api *api, struct control_request *request, struct str run_id)
{
    const char *accept = control_header(request, "Accept");
    const char *last = control_header(request, "Last-Event-ID");
    if (!accept || !strstr(accept, "text/event-stream")) {
        const char *params[] = {run_id.ptr, "0"};
        store_pg_query(api->o.store, "select saga.events_json_v1($1, $2::bigint)", params, 2,
                       events_listed, request);
        return;
    }
    control_stream_begin(request);
    struct waiter *waiter = waiter_new(api, request, WAITER_EVENTS, 365 * DAY_US);
    waiter->run_id = run_id;
    waiter->seen = last ? atoll(last) : 0;
    look(waiter);
}

void events_show(struct api *api, struct control_request *request, struct str run_id)
{
    find_run(api, request, run_id, 0, true);
}

static void events_came(struct waiter *waiter, const struct store_answer *answer)
{
    struct arena scratch = {0};
    const struct json *result = NULL, *events, *ended;
    struct err err;
    int code = answer->err.code || !answer->text.ptr
                   ? ERR_UNAVAILABLE
                   : json_parse(answer->text, &scratch, &result, &err);
    events = code ? NULL : json_get_z(result, "events");
    for (uint32_t i = 0; events && i < events->count; i++) {
        const struct json *seq = json_get_z(events->items[i], "seq");
        int64_t number;
        if (!json_to_int(seq, &number) || number <= waiter->seen)
            continue;
        waiter->seen = number;
        control_stream_event(waiter->request, seq->text, json_text(events->items[i], &scratch));
    }
    ended = code ? NULL : json_get_z(result, "ended");
    bool end = ended && ended->kind == JSON_BOOL && ended->boolean;
    arena_free(&scratch);
    if (end)
        control_stream_end(waiter_finish(waiter));
    else
        look_later(waiter, LOOK_EVERY_US);
}

/* --- another daemon's answer -------------------------------------------------------------------
 */

/* Rows of before codes were kept have none. */
static enum err_code code_of(struct str name, struct str outcome)
{
    for (enum err_code code = ERR_NONE + 1; code < ERR_COUNT; code++)
        if (str_eq_z(name, err_code_name(code)))
            return code;
    return str_eq_z(outcome, "done") ? ERR_NONE : ERR_CONFLICT;
}

static void request_came(struct waiter *waiter, const struct store_answer *answer)
{
    struct request_result result = {.json = STR("{}")};
    struct arena *arena = control_arena(waiter->request);
    const struct json *row;
    struct err err;
    if (!answer->err.code && answer->text.ptr) {
        result.json = arena_str(arena, answer->text);
        if (json_parse(result.json, arena, &row, &err) == 0) {
            result.outcome = json_get_text(row, "outcome");
            result.answer = json_get_text(row, "answer");
            result.code = code_of(json_get_text(row, "code"), result.outcome);
            result.settled = result.outcome.ptr != NULL;
        }
    }
    if (!result.settled && !is_over(waiter)) {
        look_later(waiter, REQUEST_LOOK_US);
        return;
    }
    if (!result.answer.ptr)
        result.answer = STR("");
    void (*done)(void *arg, const struct request_result *result) = waiter->done;
    void *arg = waiter->done_arg;
    waiter_finish(waiter);
    done(arg, &result);
}

struct put {
    struct api *api;
    struct control_request *request;
    struct str id;
    void (*done)(void *arg, const struct request_result *result);
    void *done_arg;
};

static void put_answered(void *arg, const struct store_answer *answer)
{
    struct put *put = arg;
    if (answer->err.code) {
        problem_err(put->request, &answer->err);
        return;
    }
    struct waiter *waiter = waiter_new(put->api, put->request, WAITER_REQUEST, API_VERB_WAIT_US);
    waiter->id = put->id;
    waiter->done = put->done;
    waiter->done_arg = put->done_arg;
    look(waiter);
}

void request_put(struct api *api, struct control_request *request, struct str kind,
                 struct str run_id, const struct sha256 *workflow, struct str body,
                 void (*done)(void *arg, const struct request_result *result), void *arg)
{
    struct put *put = arena_new(control_arena(request), struct put);
    char id[37];
    uuid7_make(loop_wall(api->o.loop), id);
    *put = (struct put){.api = api, .request = request, .done = done, .done_arg = arg};
    put->id = arena_str(control_arena(request), str_z(id));
    store_pg_inbox_put(api->o.store, put->id, kind, run_id, workflow, body, control_actor(request),
                       put_answered, put);
}

/* --- looking -----------------------------------------------------------------------------------
 */

static void looked(void *arg, const struct store_answer *answer)
{
    struct waiter *waiter;
    CAST_OBJ(waiter, arg, WAITER_MAGIC);
    waiter->asking = false;
    if (!waiter->request) { /* answered meanwhile */
        waiter_free(waiter);
        return;
    }
    if (waiter->again) {
        waiter->again = false;
        look(waiter);
        return;
    }
    switch (waiter->kind) {
    case WAITER_RUN: run_came(waiter, answer); break;
    case WAITER_EVENTS: events_came(waiter, answer); break;
    case WAITER_REQUEST: request_came(waiter, answer); break;
    }
}

static void look(struct waiter *waiter)
{
    char number[24];
    const char *params[] = {waiter->kind == WAITER_REQUEST ? waiter->id.ptr : waiter->run_id.ptr,
                            number};
    if (!waiter->request)
        return;
    if (waiter->asking) {
        waiter->again = true;
        return;
    }
    waiter->asking = true;
    snprintf(number, sizeof(number), "%lld", (long long)waiter->seen);
    switch (waiter->kind) {
    case WAITER_RUN:
        waiter->whole |= waiter->rests;
        store_pg_query(waiter->api->o.store,
                       waiter->whole ? "select saga.run_json_v1($1)" : RUN_STATE_SQL, params, 1,
                       looked, waiter);
        break;
    case WAITER_EVENTS:
        store_pg_query(waiter->api->o.store, "select saga.events_json_v1($1, $2::bigint)", params,
                       2, looked, waiter);
        break;
    case WAITER_REQUEST:
        store_pg_query(waiter->api->o.store, "select saga.requests_json_v1($1)", params, 1, looked,
                       waiter);
        break;
    }
}

void api_changed(struct api *api, struct str run_id, enum run_state state)
{
    bool rests = run_state_is_terminal(state) || state == RUN_PARKED;
    for (struct waiter *waiter = api->waiters, *next; waiter; waiter = next) {
        next = waiter->next;
        if (waiter->kind == WAITER_REQUEST || (waiter->kind == WAITER_RUN && !rests))
            continue;
        if (!waiter->request || !str_eq(waiter->run_id, run_id))
            continue;
        waiter->rests = rests;
        look(waiter);
    }
}

void waiters_end(struct api *api, bool all)
{
    for (struct waiter *waiter = api->waiters, *next; waiter; waiter = next) {
        struct control_request *request = waiter->request;
        bool streaming = waiter->kind == WAITER_EVENTS;
        next = waiter->next;
        if (request)
            control_on_gone(request, NULL, NULL);
        waiter->request = NULL;
        if (waiter->asking && !all)
            loop_timer_stop(waiter->timer); /* freed when its question comes back */
        else
            waiter_free(waiter);
        if (request && streaming)
            control_stream_end(request);
        else if (request)
            control_problem(request, 503, "shutting_down", NULL, "the daemon is shutting down");
    }
}
