/*
 * api_bulk.c: verbs for many runs: what they would take is counted first, then the database keeps
 * what was asked for and the daemons work it off (bulk.h).
 */
#include "engine/api_impl.h"
#include "engine/key.h"

#include <stdio.h>
#include <stdlib.h>

#define RUN_IDS_MAX 10000
#define WHERE_BYTES_MAX 1000
#define RATE_DEFAULT "10"
#define RATE_MAX 1000
#define ERROR_SHARE_DEFAULT "0.2"

struct bulk_call {
    struct api *api;
    struct control_request *request;
    char id[37];
    bool dry_run;
};

static bool is_bulk_verb(enum run_event_kind kind)
{
    return kind == EVENT_CANCEL || kind == EVENT_PAUSE || kind == EVENT_RESUME ||
           kind == EVENT_RETRY || kind == EVENT_COMPENSATE || kind == EVENT_ABANDON;
}

static bool refuse(struct control_request *request, const char *code, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

/* 422; returns false, so that a check may end with it. */
static bool refuse(struct control_request *request, const char *code, const char *fmt, ...)
{
    char text[ERR_TEXT_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    control_problem(request, 422, code, NULL, "%s", text);
    return false;
}

/* A number from the body as it is written, `fallback` if it is not there; NULL after answering. */
static const char *number_read(struct control_request *request, const struct json *body,
                               const char *name, const char *fallback, double low, double high)
{
    const struct json *value = json_get_z(body, name);
    if (!value)
        return fallback;
    double number = value->kind == JSON_NUMBER ? strtod(value->text.ptr, NULL) : -1;
    if (number >= low && number <= high)
        return arena_printf(control_arena(request), "%.6g", number).ptr;
    refuse(request, "bad_number", "\"%s\" must be a number from %g to %g", name, low, high);
    return NULL;
}

static bool run_ids_check(struct control_request *request, const struct json *ids)
{
    if (ids->kind != JSON_LIST || !ids->count || ids->count > RUN_IDS_MAX)
        return refuse(request, "bad_filter", "\"run_ids\" must be a list of 1 to %d ids",
                      RUN_IDS_MAX);
    for (uint32_t i = 0; i < ids->count; i++)
        if (ids->items[i]->kind != JSON_STRING || !ids->items[i]->text.len ||
            ids->items[i]->text.len > KEY_BYTES_MAX)
            return refuse(request, "bad_filter", "\"run_ids\": the item %u is no run id", i + 1);
    return true;
}

/* The filter, checked; false after answering. `since` is what SQL reads, NULL without one. */
static bool filter_check(struct control_request *request, const struct json *filter,
                         const char **since)
{
    static const char *const texts[] = {"state", "workflow", "since", "where"};
    int64_t since_us;
    *since = NULL;
    if (!filter || filter->kind != JSON_OBJECT || !filter->count)
        return refuse(request, "filter_missing",
                      "give a \"filter\" with at least one of state, workflow, since, where, "
                      "run_ids: nothing takes every run there is");
    for (uint32_t i = 0; i < filter->count; i++) {
        const struct json_member *member = &filter->members[i];
        bool known = str_eq_z(member->name, "run_ids");
        for (size_t t = 0; t < ARRAY_LEN(texts); t++)
            known = known || str_eq_z(member->name, texts[t]);
        if (!known)
            return refuse(request, "unknown_member", "the filter has an unknown member \"%.*s\"",
                          (int)MIN(member->name.len, (size_t)60), member->name.ptr);
        if (str_eq_z(member->name, "run_ids") && !run_ids_check(request, member->value))
            return false;
        if (!str_eq_z(member->name, "run_ids") &&
            (member->value->kind != JSON_STRING || !member->value->text.len ||
             member->value->text.len > WHERE_BYTES_MAX))
            return refuse(request, "bad_filter", "\"%.*s\" must be a text of 1 to %d bytes",
                          (int)member->name.len, member->name.ptr, WHERE_BYTES_MAX);
    }
    struct str state = json_get_text(filter, "state"), age = json_get_text(filter, "since");
    if (state.ptr && run_state_of(state) == RUN_NONE)
        return refuse(request, "bad_filter", "there is no run state \"%.*s\"",
                      (int)MIN(state.len, (size_t)60), state.ptr);
    if (age.ptr && !duration_parse(age, &since_us))
        return refuse(request, "bad_filter", "since: \"%.*s\" is not a duration like 1h",
                      (int)MIN(age.len, (size_t)60), age.ptr);
    if (age.ptr)
        *since = arena_printf(control_arena(request), "%lld us", (long long)since_us).ptr;
    return true;
}

/* --- what the database says ------------------------------------------------------------------- */

static void opened(struct bulk_call *call, struct str text)
{
    char location[64];
    bulks_nudge(call->api->o.bulks);
    snprintf(location, sizeof(location), "/v1/bulk/%s", call->id);
    control_header_set(call->request, "Location", location);
    control_reply(call->request, 202, text);
}

static void missing_reply(struct control_request *request, const struct json *answer)
{
    const struct json *ids = json_get_z(answer, "run_ids");
    struct buf list = {0};
    for (uint32_t i = 0; ids && i < ids->count; i++)
        buf_printf(&list, "%s" STR_FMT, i ? ", " : "", STR_ARG(ids->items[i]->text));
    control_problem(request, 404, "not_found", NULL, "nothing was begun: there is no run " STR_FMT,
                    (int)MIN(list.len, (size_t)400), list.data);
    buf_free(&list);
}

static void verdict_reply(struct bulk_call *call, struct str text)
{
    struct control_request *request = call->request;
    const struct json *answer, *count;
    struct err err;
    int64_t runs = 0;
    if (json_parse(text, control_arena(request), &answer, &err) != 0) {
        problem_err(request, &err);
        return;
    }
    struct str verdict = json_get_text(answer, "verdict");
    if ((count = json_get_z(answer, "count")) && !json_to_int(count, &runs))
        runs = 0;
    if (str_eq_z(verdict, "counted"))
        control_reply(request, 200, text);
    else if (str_eq_z(verdict, "opened"))
        opened(call, text);
    else if (str_eq_z(verdict, "missing"))
        missing_reply(request, answer);
    else if (str_eq_z(verdict, "none"))
        control_problem(request, 404, "not_found", NULL, "the filter takes no run");
    else if (str_eq_z(verdict, "many"))
        refuse(request, "too_many", "the filter takes more than %lld runs: narrow it",
               (long long)runs);
    else if (str_eq_z(verdict, "expired"))
        control_problem(request, 409, "token_expired", NULL,
                        "the runs were counted more than 10 minutes ago: count again (dry_run)");
    else
        control_problem(request, 409, "count_changed", NULL,
                        "the filter takes %lld runs now, or is not the one that was counted: "
                        "count again (dry_run)",
                        (long long)runs);
}

static void bulk_answered(void *arg, const struct store_answer *answer)
{
    struct bulk_call *call = arg;
    if (!answer->err.code)
        verdict_reply(call, answer->text);
    else if (!search_problem(call->request, &answer->err))
        control_problem(call->request, status_of(answer->err.code), err_code_name(answer->err.code),
                        NULL, call->dry_run ? "%s" : "%s; it may have begun: GET /v1/bulk/%s",
                        answer->err.text, call->id);
}

void bulk_verb(struct api *api, struct control_request *request, struct str name)
{
    static const char *const known[] = {"filter", "dry_run",         "rate",
                                        "reason", "max_error_share", "token"};
    struct arena *arena = control_arena(request);
    struct bulk_call *call = arena_new(arena, struct bulk_call);
    const struct json *body, *dry_run, *filter;
    const char *since, *rate, *share;
    if (!is_bulk_verb(run_event_of(name))) {
        control_problem(request, 404, "not_found", NULL,
                        "there is no verb \"%.*s\" for many runs: cancel, pause, resume, retry, "
                        "compensate and abandon are",
                        (int)MIN(name.len, (size_t)40), name.ptr);
        return;
    }
    if (!body_read(request, &body) || !members_known(request, body, known, ARRAY_LEN(known)))
        return;
    filter = json_get_z(body, "filter");
    dry_run = json_get_z(body, "dry_run");
    *call = (struct bulk_call){.api = api, .request = request};
    call->dry_run = dry_run && dry_run->boolean;
    struct str reason = json_get_text(body, "reason"), token = json_get_text(body, "token");
    if (!filter_check(request, filter, &since))
        return;
    rate = number_read(request, body, "rate", RATE_DEFAULT, 0.01, RATE_MAX);
    share = rate ? number_read(request, body, "max_error_share", ERROR_SHARE_DEFAULT, 0, 1) : NULL;
    if (!share)
        return;
    if (dry_run && dry_run->kind != JSON_BOOL) {
        refuse(request, "bad_dry_run", "\"dry_run\" must be true or false");
    } else if (!call->dry_run && (!reason.len || reason.len > 1000)) {
        refuse(request, "reason_missing",
               "give a reason (a text of 1 to 1000 bytes): it is kept with each act");
    } else if (!call->dry_run && !token.len && !json_get_z(filter, "run_ids")) {
        refuse(request, "token_missing",
               "count first: the same with \"dry_run\": true answers how many runs it would take, "
               "and the \"token\" to give here");
    } else {
        struct json *each = json_object_new(arena, 1);
        json_object_add_z(each, "reason", json_string(arena, reason.ptr ? reason : STR("")));
        uuid7_make(loop_wall(api->o.loop), call->id);
        const char *params[] = {call->id,
                                arena_str(arena, name).ptr,
                                json_text(filter, arena).ptr,
                                since,
                                json_text(each, arena).ptr,
                                reason.ptr ? arena_str(arena, reason).ptr : "",
                                rate,
                                share,
                                token.len ? arena_str(arena, token).ptr : NULL,
                                call->dry_run ? "true" : "false",
                                arena_str(arena, control_actor(request)).ptr};
        store_pg_search(api->o.store,
                        "select saga.bulk_open_v1($1, $2, $3, $4::interval, $5, $6, $7, $8, $9, "
                        "$10, $11)",
                        params, ARRAY_LEN(params), bulk_answered, call);
    }
}

/* --- one that was asked for --------------------------------------------------------------------
 */

struct bulk_look {
    struct control_request *request;
    struct str id;
    bool stops;
};

static void bulk_looked(void *arg, const struct store_answer *answer)
{
    struct bulk_look *look = arg;
    const struct json *bulk = NULL;
    struct err err;
    if (answer->err.code) {
        problem_err(look->request, &answer->err);
        return;
    }
    if (!answer->text.ptr) {
        control_problem(look->request, 404, "not_found", NULL,
                        "there is no verb for many runs \"%.*s\": sagactl bulk lists them",
                        (int)MIN(look->id.len, (size_t)60), look->id.ptr);
        return;
    }
    if (look->stops && json_parse(answer->text, control_arena(look->request), &bulk, &err) == 0 &&
        str_eq_z(json_get_text(bulk, "state"), "done") && !json_get_text(bulk, "stopped").len) {
        control_problem(look->request, 409, "conflict", NULL,
                        "it is over since " STR_FMT ": every run was asked, there is nothing left "
                        "to stop",
                        STR_ARG(json_get_text(bulk, "ended_at")));
        return;
    }
    control_reply(look->request, 200, answer->text);
}

static void bulk_look(struct api *api, struct control_request *request, struct str id, bool stops)
{
    struct arena *arena = control_arena(request);
    struct bulk_look *look = arena_new(arena, struct bulk_look);
    *look = (struct bulk_look){request, arena_str(arena, id), stops};
    const char *params[] = {look->id.ptr, arena_str(arena, control_actor(request)).ptr};
    store_pg_query(api->o.store,
                   stops ? "select saga.bulk_stop_v1($1, $2)" : "select saga.bulk_json_v1($1)",
                   params, stops ? 2 : 1, bulk_looked, look);
}

void bulk_show(struct api *api, struct control_request *request, struct str id)
{
    bulk_look(api, request, id, false);
}

void bulk_stop(struct api *api, struct control_request *request, struct str id)
{
    bulk_look(api, request, id, true);
}
