#include "engine/api.h"

#include "engine/api_impl.h"

#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

struct api *api_new(const struct api_options *options)
{
    struct api *api = xcalloc(1, sizeof(*api));
    api->o = *options;
    api->started = loop_mono();
    return api;
}

bool api_end(struct api *api)
{
    bool some = api->waiters || api->takes;
    some = showings_end(api) || some;
    waiters_end(api, false);
    takes_end(api, false);
    return some;
}

void api_free(struct api *api)
{
    if (!api)
        return;
    showings_end(api);
    waiters_end(api, true);
    takes_end(api, true);
    free(api);
}

/* --- small things --------------------------------------------------------------------------- */

/* UUIDv7 (RFC 9562): time-ordered, which keeps inserts at one end of the index. */
void uuid7_make(struct wall now, char out[37])
{
    uint8_t b[16];
    ssize_t got = getrandom(b, sizeof(b), 0);
    ASSERT(got == (ssize_t)sizeof(b));
    uint64_t ms = (uint64_t)(now.us / MS_US);
    for (int i = 0; i < 6; i++)
        b[i] = (uint8_t)(ms >> (40 - 8 * i));
    b[6] = (uint8_t)((b[6] & 0x0F) | 0x70);
    b[8] = (uint8_t)((b[8] & 0x3F) | 0x80);
    snprintf(out, 37, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
             b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
             b[14], b[15]);
}

int status_of(enum err_code code)
{
    switch (code) {
    case ERR_NONE: return 200;
    case ERR_INVALID: return 422;
    case ERR_NOT_FOUND: return 404;
    case ERR_CONFLICT: return 409;
    case ERR_PERMISSION: return 403;
    case ERR_LIMIT: return 429;
    case ERR_UNAVAILABLE:
    case ERR_TIMEOUT:
    case ERR_DATABASE: return 503;
    case ERR_IO:
    case ERR_INTERNAL:
    case ERR_COUNT: break;
    }
    return 500;
}

void problem_err(struct control_request *request, const struct err *err)
{
    control_problem(request, status_of(err->code), err_code_name(err->code), NULL, "%s", err->text);
}

bool body_read(struct control_request *request, const struct json **out)
{
    struct str body = control_body(request);
    struct arena *arena = control_arena(request);
    struct json_refusal refusal;
    struct err err;
    if (json_parse_where(body.len ? body : STR("{}"), arena, out, &refusal, &err) == 0) {
        if ((*out)->kind == JSON_OBJECT)
            return true;
        control_problem(request, 400, "bad_request", NULL, "the body must be a JSON object");
    } else if (!refusal.unstorable) {
        control_problem(request, 400, "bad_request", NULL, "%s", err.text);
    } else {
        struct json *entry = json_object_new(arena, 2), *errors = json_list_new(arena, 1);
        json_object_add_z(entry, "pointer", json_string(arena, refusal.pointer));
        json_object_add_z(entry, "message", json_string(arena, arena_str(arena, str_z(err.text))));
        json_list_add(errors, entry);
        control_problem(request, 422, "unstorable", errors, "%s: %.*s", err.text,
                        (int)MIN(refusal.pointer.len, (size_t)200), refusal.pointer.ptr);
    }
    return false;
}

bool members_known(struct control_request *request, const struct json *body,
                   const char *const *known, size_t count)
{
    for (uint32_t i = 0; i < body->count; i++) {
        bool found = false;
        for (size_t k = 0; k < count && !found; k++)
            found = str_eq_z(body->members[i].name, known[k]);
        if (!found) {
            control_problem(
                request, 422, "unknown_member", NULL, "the body has an unknown member \"%.*s\"",
                (int)MIN(body->members[i].name.len, (size_t)60), body->members[i].name.ptr);
            return false;
        }
    }
    return true;
}

/* --- reading -------------------------------------------------------------------------------- */

/* One question whose answer, a JSON text, is the reply as it stands. */
static void question_answered(void *arg, const struct store_answer *answer)
{
    struct control_request *request = arg;
    if (strncmp(answer->err.sqlstate, "22", 2) == 0)
        control_problem(request, 400, "bad_request", NULL, "%s", answer->err.text);
    else if (answer->err.code)
        problem_err(request, &answer->err);
    else if (!answer->text.ptr)
        control_problem(request, 404, "not_found", NULL, "there is no such thing");
    else
        control_reply(request, 200, answer->text);
}

#define SEEN_PARAMS_MAX 8

/* The statement with the caller's tenants set for as long as it runs: saga.tenants_seen() reads
 * them. `params` gets room for one more. */
static const char *seen_sql(struct control_request *request, const char *sql, const char **params,
                            unsigned *count)
{
    if (!control_tenants(request))
        return sql;
    params[(*count)++] = control_tenants(request);
    return arena_printf(control_arena(request),
                        "%s from (select pg_catalog.set_config('saga.tenants', $%u, true) as text "
                        "offset 0) tenants where tenants.text is not null",
                        sql, *count)
        .ptr;
}

void seen_query(struct api *api, struct control_request *request, const char *sql,
                const char *const *params, unsigned count, store_answered *done, void *arg)
{
    const char *all[SEEN_PARAMS_MAX + 1];
    ASSERT(count <= SEEN_PARAMS_MAX);
    for (unsigned i = 0; i < count; i++)
        all[i] = params[i];
    sql = seen_sql(request, sql, all, &count);
    store_pg_query(api->o.store, sql, all, count, done, arg);
}

static void ask(struct api *api, struct control_request *request, const char *sql,
                const char *const *params, unsigned count)
{
    seen_query(api, request, sql, params, count, question_answered, request);
}

bool search_problem(struct control_request *request, const struct err *err)
{
    if (strncmp(err->sqlstate, "22", 2) == 0)
        control_problem(request, 400, "bad_request", NULL, "%s", err->text);
    else if (strcmp(err->sqlstate, "57014") == 0)
        control_problem(request, 422, "search_too_long", NULL,
                        "looking for the runs took longer than " STORE_SEARCH_TIMEOUT
                        ": narrow it by state, workflow or since");
    else
        return false;
    return true;
}

static void runs_came(void *arg, const struct store_answer *answer)
{
    struct control_request *request = arg;
    if (!answer->err.code)
        control_reply(request, 200, answer->text);
    else if (!search_problem(request, &answer->err))
        problem_err(request, &answer->err);
}

static void runs_list(struct api *api, struct control_request *request)
{
    const char *params[SEEN_PARAMS_MAX + 1] = {
        control_query(request, "state"),  control_query(request, "workflow"),
        control_query(request, "since"),  control_query(request, "limit"),
        control_query(request, "cursor"), control_query(request, "where"),
        control_query(request, "tenant")};
    unsigned count = 7;
    int64_t since_us;
    char since[32];
    if (params[2]) {
        if (!duration_parse(str_z(params[2]), &since_us)) {
            control_problem(request, 400, "bad_request", NULL,
                            "since: \"%s\" is not a duration like 1h", params[2]);
            return;
        }
        snprintf(since, sizeof(since), "%lld us", (long long)since_us);
        params[2] = since;
    }
    if (params[3] && params[3][strspn(params[3], "0123456789")]) {
        control_problem(request, 400, "bad_request", NULL, "limit: \"%s\" is not a number",
                        params[3]);
        return;
    }
    if (params[0] && strcmp(params[0], "paused") != 0 &&
        run_state_of(str_z(params[0])) == RUN_NONE) {
        control_problem(request, 400, "bad_request", NULL, "there is no run state \"%s\"",
                        params[0]);
        return;
    }
    const char *sql =
        seen_sql(request, "select saga.runs_json_v3($1, $2, $3::interval, $4::int, $5, $6, $7)",
                 params, &count);
    /* What only reads an index must not wait for somebody's search. */
    (params[5] ? store_pg_search : store_pg_query)(api->o.store, sql, params, count, runs_came,
                                                   request);
}

/* GET /v1/dead, of one run with ?run_id=. */
static void dead_list(struct api *api, struct control_request *request)
{
    const char *params[] = {control_query(request, "run_id")};
    ask(api, request, "select saga.dead_json_v2($1)", params, 1);
}

/* GET /v1/audit: the newest acts of people, of one run with ?run_id=. */
static void audit_list(struct api *api, struct control_request *request)
{
    const char *params[] = {control_query(request, "run_id"), control_query(request, "limit"),
                            control_query(request, "before")};
    if (params[1] && (!params[1][0] || params[1][strspn(params[1], "0123456789")])) {
        control_problem(request, 400, "bad_request", NULL, "limit: \"%s\" is not a number",
                        params[1]);
        return;
    }
    ask(api, request, "select saga.audit_json_v1($1, $2::int, $3)", params, ARRAY_LEN(params));
}

/* POST /v1/audit/verify {noted?}: `noted` are the chains of an earlier answer. */
static void audit_verify(struct api *api, struct control_request *request)
{
    static const char *const known[] = {"noted"};
    const struct json *body, *noted;
    if (!body_read(request, &body) || !members_known(request, body, known, ARRAY_LEN(known)))
        return;
    noted = json_get_z(body, "noted");
    if (noted && noted->kind != JSON_LIST) {
        control_problem(request, 422, "invalid", NULL,
                        "\"noted\" must be a list of {chain, no, hash}");
        return;
    }
    const char *params[] = {noted ? json_text(noted, control_arena(request)).ptr : NULL};
    ask(api, request, "select saga.audit_verify_json_v1($1::jsonb)", params, ARRAY_LEN(params));
}

static void ping(struct api *api, struct control_request *request)
{
    struct arena *arena = control_arena(request);
    struct runner_stats stats = runner_stats(api->o.runner);
    struct json *out = json_object_new(arena, 8);
    json_object_add_z(out, "daemon", json_string_z(arena, api->o.daemon));
    json_object_add_z(out, "version", json_string_z(arena, SAGA_VERSION));
    json_object_add_z(out, "database",
                      json_string_z(arena, store_pg_is_up(api->o.store) ? "up" : "down"));
    json_object_add_z(out, "shards", json_int(arena, __builtin_popcountll(stats.shards)));
    json_object_add_z(out, "resident_runs", json_int(arena, stats.resident));
    json_object_add_z(out, "in_flight", json_int(arena, stats.in_flight));
    json_object_add_z(out, "units", json_int(arena, (int64_t)stats.units));
    json_object_add_z(out, "uptime_s",
                      json_int(arena, (loop_mono().us - api->started.us) / SECOND_US));
    control_reply(request, 200, json_text(out, arena));
}

static void ready(struct api *api, struct control_request *request)
{
    if (store_pg_is_up(api->o.store) && store_pg_can_answer(api->o.store) &&
        runner_stats(api->o.runner).shards)
        control_reply(request, 200, STR("{\"ready\":true}"));
    else
        control_problem(request, 503, "not_ready", NULL,
                        "the database is away or no shard is owned yet");
}

/* --- routes ---------------------------------------------------------------------------------- */

struct str segment_next(struct str *path)
{
    if (!path->len || path->ptr[0] != '/')
        return STR_NONE;
    const char *end = memchr(path->ptr + 1, '/', path->len - 1);
    size_t len = end ? (size_t)(end - path->ptr) - 1 : path->len - 1;
    struct str segment = {path->ptr + 1, len};
    path->ptr += len + 1;
    path->len -= len + 1;
    return segment;
}

static void run_handle(struct api *api, struct control_request *request, struct str run_id,
                       struct str rest)
{
    struct arena *arena = control_arena(request);
    bool get = control_method(request) == CONTROL_GET;
    struct str next = segment_next(&rest);
    if (!next.ptr && get) {
        run_show(api, request, run_id, prefer_wait(request));
    } else if (str_eq(next, STR("events")) && get && !rest.len) {
        events_show(api, request, run_id);
    } else if (str_eq(next, STR("steps")) && !get) {
        struct str step = arena_str(arena, segment_next(&rest)), verb = segment_next(&rest);
        if (step.len && str_eq(verb, STR("dry_run")) && !rest.len)
            step_rehearse(api, request, run_id, step);
        else
            run_verb(api, request, run_id, step, verb);
    } else if (next.ptr && control_method(request) == CONTROL_POST && !rest.len) {
        run_verb(api, request, run_id, STR(""), next);
    } else {
        control_problem(request, 404, "not_found", NULL, "there is nothing at this path");
    }
}

/* A run that is looked for among those that the caller sees. */
struct visit {
    struct api *api;
    struct control_request *request;
    struct str run_id, rest;
};

static void visit_answered(void *arg, const struct store_answer *answer)
{
    struct visit *visit = arg;
    struct arena *arena = control_arena(visit->request);
    const struct json *found = NULL;
    struct err err;
    if (answer->err.code) {
        problem_err(visit->request, &answer->err);
        return;
    }
    if (answer->text.ptr && json_parse(arena_str(arena, answer->text), arena, &found, &err) != 0)
        found = NULL;
    if (found && found->kind == JSON_LIST && found->count == 1 &&
        str_eq(found->items[0]->text, visit->run_id))
        run_handle(visit->api, visit->request, visit->run_id, visit->rest);
    else
        control_problem(visit->request, 404, "not_found", NULL, "there is no such run");
}

/* Whoever is bound to tenants finds no other's run. A search by a beginning looks by itself. */
static void run_route(struct api *api, struct control_request *request, struct str id,
                      struct str rest)
{
    struct arena *arena = control_arena(request);
    struct str run_id = arena_str(arena, id);
    bool searches = control_method(request) == CONTROL_GET && control_query(request, "prefix");
    if (!control_tenants(request) || searches) {
        run_handle(api, request, run_id, rest);
        return;
    }
    struct visit *visit = arena_new(arena, struct visit);
    *visit = (struct visit){api, request, run_id, arena_str(arena, rest)};
    seen_query(api, request, "select saga.run_find_v1($1)", &visit->run_id.ptr, 1, visit_answered,
               visit);
}

static const struct route {
    enum control_method method;
    const char *path;
    void (*handle)(struct api *api, struct control_request *request);
    const char *sql; /* instead of handle: its answer is the reply */
} routes[] = {
    {CONTROL_GET, "/v1/ping", ping, NULL},
    {CONTROL_GET, "/healthz", ping, NULL},
    {CONTROL_GET, "/readyz", ready, NULL},
    {CONTROL_GET, "/metrics", metrics_show, NULL},
    {CONTROL_PUT, "/v1/workflows", workflows_apply, NULL},
    {CONTROL_GET, "/v1/workflows", NULL, "select saga.workflows_json_v1()"},
    {CONTROL_POST, "/v1/validate", workflows_validate, NULL},
    {CONTROL_POST, "/v1/runs", run_submit, NULL},
    {CONTROL_GET, "/v1/runs", runs_list, NULL},
    {CONTROL_POST, "/v1/answers", answers_take, NULL},
    {CONTROL_GET, "/v1/dead", dead_list, NULL},
    {CONTROL_GET, "/v1/bulk", NULL, "select saga.bulk_json_v1(null)"},
    {CONTROL_GET, "/v1/services", NULL, "select saga.services_json_v1()"},
    {CONTROL_GET, "/v1/approvals", NULL, "select saga.approvals_json_v1()"},
    {CONTROL_GET, "/v1/audit", audit_list, NULL},
    {CONTROL_POST, "/v1/audit/verify", audit_verify, NULL},
    {CONTROL_GET, "/v1/daemons", NULL, "select saga.daemons_json_v1()"},
};

/* GET /v1/bulk/ID, POST /v1/bulk/ID/stop */
static void bulk_route(struct api *api, struct control_request *request, struct str id,
                       struct str rest)
{
    if (control_method(request) == CONTROL_GET && !rest.len)
        bulk_show(api, request, id);
    else if (control_method(request) == CONTROL_POST && str_eq(rest, STR("/stop")))
        bulk_stop(api, request, id);
    else
        control_problem(request, 404, "not_found", NULL, "there is nothing at this path");
}

bool tenant_admit(struct control_request *request, struct str tenant)
{
    const struct json *list;
    struct err err;
    if (!control_tenants(request))
        return true;
    int code = json_parse(str_z(control_tenants(request)), control_arena(request), &list, &err);
    ASSERT(code == 0); /* it was written from texts */
    for (uint32_t i = 0; i < list->count; i++)
        if (str_eq(list->items[i]->text, tenant))
            return true;
    control_problem(request, 403, "permission", NULL,
                    STR_FMT " starts runs of the tenants %s alone: say \"tenant\"",
                    STR_ARG(control_actor(request)), control_tenants(request));
    return false;
}

/* For a caller that has the role for some tenants alone. False after answering 403. */
static bool may_call_bound(struct api *api, struct control_request *request, enum access_role role,
                           const char *tenants)
{
    if (access_reach(control_method(request), control_path(request)) != REACH_NONE) {
        control_tenants_set(request, tenants);
        return true;
    }
    call_deny(api, request,
              arena_printf(control_arena(request),
                           "this is about the runs of all tenants; " STR_FMT
                           " has \"%s\" for those of %s alone",
                           STR_ARG(control_actor(request)), access_role_name(role), tenants));
    return false;
}

/* False after answering 403. */
static bool may_call(struct api *api, struct control_request *request)
{
    size_t count;
    const gid_t *groups = control_groups(request, &count);
    enum access_role held =
        access_role_held(api->o.access, geteuid(), control_uid(request), groups, count);
    enum access_role needed = access_role_needed(control_method(request), control_path(request));
    if (held >= needed)
        return true;
    const char *tenants = access_tenants(api->o.access, control_uid(request), groups, count, needed,
                                         control_arena(request));
    if (tenants)
        return may_call_bound(api, request, needed, tenants);
    call_deny(api, request,
              arena_printf(control_arena(request), "this needs the role \"%s\"; " STR_FMT " %s%s%s",
                           access_role_name(needed), STR_ARG(control_actor(request)),
                           held ? "has \"" : "has no role", held ? access_role_name(held) : "",
                           held ? "\"" : ""));
    return false;
}

void api_scrape(void *arg, struct control_request *request)
{
    static const struct route open[] = {{CONTROL_GET, "/metrics", metrics_show, NULL},
                                        {CONTROL_GET, "/healthz", ping, NULL},
                                        {CONTROL_GET, "/readyz", ready, NULL}};
    for (size_t i = 0; i < ARRAY_LEN(open); i++)
        if (str_eq_z(control_path(request), open[i].path) &&
            open[i].method == control_method(request)) {
            open[i].handle(arg, request);
            return;
        }
    control_problem(request, 404, "not_found", NULL,
                    "only GET /metrics, /healthz and /readyz here");
}

void api_handle(void *arg, struct control_request *request)
{
    struct api *api = arg;
    struct str path = control_path(request);
    bool path_known = false;
    if (!may_call(api, request))
        return;
    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        if (!str_eq_z(path, routes[i].path))
            continue;
        path_known = true;
        if (routes[i].method != control_method(request))
            continue;
        if (routes[i].handle)
            routes[i].handle(api, request);
        else
            ask(api, request, routes[i].sql, NULL, 0);
        return;
    }
    struct str rest = path;
    struct str version = segment_next(&rest), kind = segment_next(&rest);
    struct str id = segment_next(&rest);
    if (path_known) {
        control_problem(request, 405, "method_not_allowed", NULL, "not with this method");
    } else if (str_eq(version, STR("v1")) && str_starts(kind, STR("runs:")) && !id.ptr &&
               control_method(request) == CONTROL_POST) {
        bulk_verb(api, request, (struct str){kind.ptr + 5, kind.len - 5});
    } else if (str_eq(version, STR("v1")) && str_eq(kind, STR("bulk")) && id.len) {
        bulk_route(api, request, id, rest);
    } else if (str_eq(version, STR("v1")) && str_eq(kind, STR("runs")) && id.len) {
        run_route(api, request, id, rest);
    } else if (str_eq(version, STR("v1")) && id.len && task_route(api, request, kind, id, rest)) {
        return;
    } else if (str_eq(version, STR("v1")) && id.len && !rest.len &&
               control_method(request) == CONTROL_GET &&
               (str_eq(kind, STR("requests")) || str_eq(kind, STR("workflows")))) {
        const char *params[] = {arena_str(control_arena(request), id).ptr};
        ask(api, request,
            str_eq(kind, STR("requests")) ? "select saga.requests_json_v1($1)"
                                          : "select saga.workflow_json_v1($1)",
            params, 1);
    } else {
        control_problem(request, 404, "not_found", NULL, "there is nothing at this path");
    }
}
