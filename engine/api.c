#include "engine/api.h"

#include "dsl/jsonschema.h"
#include "engine/api_impl.h"
#include "engine/base/rand.h"
#include "engine/failpoint.h"
#include "engine/key.h"
#include "engine/limits.h"
#include "engine/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

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
    waiters_end(api, false);
    takes_end(api, false);
    return some;
}

void api_free(struct api *api)
{
    if (!api)
        return;
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

static void ask(struct api *api, struct control_request *request, const char *sql,
                const char *const *params, unsigned count)
{
    store_pg_query(api->o.store, sql, params, count, question_answered, request);
}

static void runs_list(struct api *api, struct control_request *request)
{
    const char *params[] = {control_query(request, "state"), control_query(request, "workflow"),
                            control_query(request, "since"), control_query(request, "limit"),
                            control_query(request, "cursor")};
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
    if (params[0] && run_state_of(str_z(params[0])) == RUN_NONE) {
        control_problem(request, 400, "bad_request", NULL, "there is no run state \"%s\"",
                        params[0]);
        return;
    }
    ask(api, request, "select saga.runs_json_v1($1, $2, $3::interval, $4::int, $5)", params,
        ARRAY_LEN(params));
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

static void metric(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void metric_one(struct buf *out, const char *name, const char *type, const char *help,
                       uint64_t value)
{
    metric(out, name, type, help);
    buf_printf(out, "%s %llu\n", name, (unsigned long long)value);
}

/* The text format of Prometheus. */
static void metrics(struct api *api, struct control_request *request)
{
    struct runner_stats stats = runner_stats(api->o.runner);
    struct buf out = {0};
    metric_one(&out, "saga_runs_started_total", "counter", "Runs started by this daemon.",
               stats.started);
    metric_one(&out, "saga_submits_repeated_total", "counter",
               "Submits of a run id that was used before.", stats.taken);
    metric(&out, "saga_runs_entered_total", "counter", "Runs that came into a state.");
    for (int state = RUN_RUNNING; state < RUN_STATE_COUNT; state++)
        buf_printf(&out, "saga_runs_entered_total{state=\"%s\"} %llu\n",
                   run_state_name((enum run_state)state), (unsigned long long)stats.entered[state]);
    metric_one(&out, "saga_attempts_sent_total", "counter", "Attempts handed to an invoker.",
               stats.commands);
    metric(&out, "saga_attempts_ended_total", "counter", "Attempts that ended, by how.");
    for (int kind = REPLY_NONE + 1; kind < REPLY_KIND_COUNT; kind++)
        buf_printf(&out, "saga_attempts_ended_total{reply=\"%s\"} %llu\n",
                   reply_kind_name((enum reply_kind)kind), (unsigned long long)stats.replies[kind]);
    metric_one(&out, "saga_units_total", "counter", "Transactions acknowledged.", stats.units);
    metric_one(&out, "saga_records_total", "counter", "Records acknowledged.", stats.records);
    metric_one(&out, "saga_runs_resident", "gauge", "Runs in memory.", stats.resident);
    metric_one(&out, "saga_attempts_in_flight", "gauge", "Attempts that wait for an answer.",
               stats.in_flight);
    metric_one(&out, "saga_shards_owned", "gauge", "Shards owned and loaded, of 64.",
               (uint64_t)__builtin_popcountll(stats.shards));
    metric_one(&out, "saga_database_up", "gauge", "1 if the database can be reached.",
               store_pg_is_up(api->o.store));
    control_reply_text(request, 200, "text/plain; version=0.0.4", buf_str(&out));
    buf_free(&out);
}

/* --- definitions ---------------------------------------------------------------------------- */

struct apply {
    struct api *api;
    struct control_request *request;
    struct plan *plan;
    struct diags diags;
};

static void apply_free(struct apply *apply)
{
    plan_unref(apply->plan);
    diags_free(&apply->diags);
    free(apply);
}

static void applied(void *arg, const struct store_answer *answer)
{
    struct apply *apply = arg;
    struct arena *arena = control_arena(apply->request);
    if (answer->err.code) {
        problem_err(apply->request, &answer->err);
        apply_free(apply);
        return;
    }
    plans_put(apply->api->o.plans, apply->plan, true);
    struct json *out = json_object_new(arena, 5);
    json_object_add_z(out, "workflow", json_string_z(arena, apply->plan->workflow));
    json_object_add_z(out, "version", json_string_z(arena, apply->plan->version));
    json_object_add_z(out, "hash", json_string_z(arena, apply->plan->hash_hex));
    json_object_add_z(out, "status", json_string(arena, answer->text));
    json_object_add_z(out, "warnings", diags_json(&apply->diags, arena));
    control_reply(apply->request, 200, json_text(out, arena));
    apply_free(apply);
}

static struct apply *source_compile(struct api *api, struct control_request *request)
{
    struct apply *apply = xcalloc(1, sizeof(*apply));
    const char *file = control_query(request, "file");
    apply->api = api;
    apply->request = request;
    diags_init(&apply->diags, file ? file : "(request)", control_body(request));
    apply->plan = plans_compile(api->o.plans, control_body(request), &apply->diags);
    return apply;
}

static void workflow_apply(struct api *api, struct control_request *request)
{
    struct apply *apply = source_compile(api, request);
    if (!apply->plan) {
        const struct json *errors = diags_json(&apply->diags, control_arena(request));
        control_problem(request, 422, "workflow_invalid", errors, "the workflow has %u error%s",
                        apply->diags.errors, apply->diags.errors == 1 ? "" : "s");
        apply_free(apply);
        return;
    }
    struct str parts = dsl_run_id_parts(apply->plan, control_arena(request));
    store_pg_apply(api->o.store, apply->plan, parts, control_actor(request).ptr, applied, apply);
}

static void workflow_validate(struct api *api, struct control_request *request)
{
    struct apply *apply = source_compile(api, request);
    struct arena *arena = control_arena(request);
    struct json *out = json_object_new(arena, 2);
    json_object_add_z(out, "ok", json_bool(apply->plan != NULL));
    json_object_add_z(out, "diagnostics", diags_json(&apply->diags, arena));
    control_reply(request, 200, json_text(out, arena));
    apply_free(apply);
}

/* --- submitting ------------------------------------------------------------------------------ */

struct submission {
    struct api *api;
    struct control_request *request;
    struct str run_id, workflow, tenant;
    const struct json *input;
    struct sha256 input_hash;
    struct runner_start start;
    int wait_s;
};

static struct sha256 input_hash_of(const struct json *input)
{
    struct buf canonical = {0};
    json_write_canonical(input, &canonical);
    struct sha256 hash = sha256_of(buf_str(&canonical));
    buf_free(&canonical);
    return hash;
}

/* Errors of the input schema, as the `errors` of a problem. */
static const struct json *schema_errors_json(const struct schema_errors *errors,
                                             struct arena *arena)
{
    struct json *list = json_list_new(arena, errors->count);
    for (uint32_t i = 0; i < errors->count; i++) {
        struct json *entry = json_object_new(arena, 2);
        json_object_add_z(entry, "pointer",
                          json_string(arena, arena_printf(arena, "/input" STR_FMT,
                                                          STR_ARG(errors->list[i].pointer))));
        json_object_add_z(entry, "message", json_string(arena, errors->list[i].message));
        json_list_add(list, entry);
    }
    return list;
}

static int input_check(const struct plan *plan, const struct json *input, struct arena *arena,
                       const struct json **errors, struct err *err)
{
    struct schema_errors found = {0};
    *errors = NULL;
    if (input->kind != JSON_OBJECT)
        return err_set(err, ERR_INVALID, "the input must be an object");
    if (!plan->input || schema_check(plan->input, input, arena, &found))
        return 0;
    *errors = schema_errors_json(&found, arena);
    return err_set(err, ERR_INVALID, "the input does not fit the schema of \"%s\": %.*s %.*s",
                   plan->workflow, (int)MIN(found.list[0].pointer.len, (size_t)100),
                   found.list[0].pointer.ptr, (int)MIN(found.list[0].message.len, (size_t)200),
                   found.list[0].message.ptr);
}

/* What the workflow's `run_id` gives for this input; absent: it has none. */
static int run_id_render(const struct api *api, const struct plan *plan, const struct json *input,
                         struct wall now, struct arena *arena, struct str *out, struct err *err)
{
    struct expr_scope scope = {.input = input, .index = -1, .now = now, .env = api->o.env};
    *out = STR_NONE;
    if (!plan->run_id)
        return 0;
    int code = template_render_text(plan->run_id, &scope, TEXT_PLAIN, arena, out, err);
    return code ? err_wrap(err, "run_id") : 0;
}

/* The ids that the caller gave must all be one; without any, one is made whose shard is ours, so
 * that the common submit needs no hop. */
static int run_id_choose(struct api *api, const struct plan *plan, const struct json *input,
                         const char *const *given, size_t given_count, struct arena *arena,
                         struct str *out, struct err *err)
{
    uint64_t ours = runner_stats(api->o.runner).shards;
    char uuid[37];
    int code = run_id_render(api, plan, input, loop_wall(api->o.loop), arena, out, err);
    if (code)
        return code;
    for (size_t i = 0; i < given_count; i++) {
        if (!given[i])
            continue;
        if (out->ptr && !str_eq_z(*out, given[i]))
            return err_set(err, ERR_CONFLICT,
                           "the run ids do not agree: \"" STR_FMT "\" and \"%.100s\"",
                           STR_ARG(*out), given[i]);
        *out = str_z(given[i]);
    }
    if (out->ptr)
        return key_run_id_check(*out, err);
    for (int tries = 0; tries < 1000; tries++) {
        uuid7_make(loop_wall(api->o.loop), uuid);
        if (!ours || ours >> shard_of(str_z(uuid)) & 1)
            break;
    }
    *out = arena_str(arena, str_z(uuid));
    return 0;
}

/* RFC 3339; NULL and null: at once. */
static int start_at_read(const struct json *value, struct wall *out, struct err *err)
{
    *out = WALL_NONE;
    if (!value || value->kind == JSON_NULL)
        return 0;
    if (value->kind == JSON_STRING && wall_parse(value->text, out))
        return 0;
    return err_set(err, ERR_INVALID, "start_at must be a time like 2026-10-25T02:30:00Z");
}

/* True if the id belongs to another tenant or workflow; then the request is answered. */
static bool taken_elsewhere(struct submission *submission, struct str tenant, struct str workflow)
{
    struct control_request *request = submission->request;
    if (!str_eq(tenant, submission->tenant))
        control_problem(request, 409, "run_id_taken", NULL, "the run id is taken");
    else if (!str_eq(workflow, submission->workflow))
        control_problem(request, 409, "run_id_conflict", NULL,
                        "the run id \"" STR_FMT "\" was used for the workflow \"" STR_FMT "\"",
                        STR_ARG(submission->run_id), STR_ARG(workflow));
    else
        return false;
    return true;
}

/* The run as it is stored tells with whom, and where, the submit clashes. */
static void conflict_explain(void *arg, const struct store_answer *answer)
{
    struct submission *submission = arg;
    struct arena *arena = control_arena(submission->request);
    const struct json *run = NULL;
    struct str path = STR_NONE;
    struct err err;
    if (!answer->err.code && answer->text.ptr && json_parse(answer->text, arena, &run, &err) == 0) {
        const struct json *input = json_get_z(run, "input");
        struct str tenant = json_get_text(run, "tenant");
        if (taken_elsewhere(submission, tenant.ptr ? tenant : STR(""),
                            json_get_text(run, "workflow")))
            return;
        if (input)
            path = json_first_difference(input, submission->input, arena);
    }
    control_problem(submission->request, 409, "run_id_conflict", NULL,
                    "the run id \"" STR_FMT "\" was used with another input%s" STR_FMT,
                    STR_ARG(submission->run_id), path.ptr ? ": it differs at /input" : "",
                    STR_ARG(path));
}

static void conflict_answer(struct submission *submission)
{
    const char *params[] = {submission->run_id.ptr};
    store_pg_query(submission->api->o.store, "select saga.run_json_v1($1)", params, 1,
                   conflict_explain, submission);
}

static void replay_answer(struct submission *submission)
{
    control_header_set(submission->request, "Idempotency-Replayed", "true");
    wait_for_run(submission->api, submission->request, submission->run_id, submission->wait_s, 200,
                 200);
}

static void submit_taken(struct submission *submission, const struct unit_taken *taken)
{
    if (taken_elsewhere(submission, taken->tenant, taken->workflow))
        return;
    if (!sha256_eq(&taken->input_hash, &submission->input_hash))
        conflict_answer(submission);
    else
        replay_answer(submission);
}

static void location_set(struct submission *submission)
{
    control_header_set(submission->request, "Location",
                       arena_printf(control_arena(submission->request), "/v1/runs/" STR_FMT,
                                    STR_ARG(submission->run_id))
                           .ptr);
}

static void submit_answered(void *arg, const struct runner_answer *answer)
{
    struct submission *submission = arg;
    struct control_request *request = submission->request;
    struct arena *arena = control_arena(request);
    FAILPOINT("submit_answer");
    if (answer->err.code) {
        problem_err(request, &answer->err);
        return;
    }
    if (answer->taken) {
        submit_taken(submission, answer->taken);
        return;
    }
    location_set(submission);
    if (submission->wait_s) {
        wait_for_new_run(submission->api, request, submission->run_id, submission->wait_s, 200,
                         202);
        return;
    }
    struct json *out = json_object_new(arena, 3);
    json_object_add_z(out, "run_id", json_string(arena, submission->run_id));
    json_object_add_z(out, "workflow", json_string(arena, submission->workflow));
    json_object_add_z(out, "state", json_string_z(arena, run_state_name(answer->state)));
    control_reply(request, 202, json_text(out, arena));
    FAILPOINT("submit_answered");
}

/* The owner accepted it, or said why not. */
static void submit_by_inbox_settled(void *arg, const struct request_result *result)
{
    struct submission *submission = arg;
    struct control_request *request = submission->request;
    if (!result->settled) {
        control_reply(request, 202, result->json);
    } else if (str_eq(result->outcome, STR("conflict"))) {
        conflict_answer(submission);
    } else if (!str_eq(result->outcome, STR("done"))) {
        control_problem(request, 422, "refused", NULL, STR_FMT, STR_ARG(result->answer));
    } else if (str_eq(result->answer, STR(RUNNER_START_EXISTED))) {
        replay_answer(submission);
    } else {
        location_set(submission);
        wait_for_run(submission->api, request, submission->run_id, submission->wait_s, 200, 202);
    }
}

static void submit_by_inbox(struct submission *submission)
{
    struct arena *arena = control_arena(submission->request);
    struct json *body = json_object_new(arena, 3);
    json_object_add_z(body, "input", submission->input);
    json_object_add_z(body, "tenant", json_string(arena, submission->tenant));
    if (wall_is_set(submission->start.start_at))
        json_object_add_z(body, "start_at",
                          json_string(arena, wall_format(submission->start.start_at, arena)));
    request_put(submission->api, submission->request, STR("start"), submission->run_id,
                &submission->start.plan->hash, json_text(body, arena), submit_by_inbox_settled,
                submission);
}

static int prefer_wait(const struct control_request *request)
{
    const char *prefer = control_header(request, "Prefer");
    const char *wait = prefer ? strstr(prefer, "wait=") : NULL;
    int seconds = wait ? atoi(wait + 5) : 0;
    return MAX(0, MIN(seconds, API_WAIT_MAX_S));
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

static void workflow_unknown(struct api *api, struct control_request *request, struct str name)
{
    const char *nearest = name.ptr ? plans_nearest(api->o.plans, name) : NULL;
    control_problem(request, 404, "workflow_not_found", NULL, "there is no workflow \"%.*s\"%s%s%s",
                    (int)MIN(name.len, (size_t)80), name.ptr ? name.ptr : "",
                    nearest ? "; did you mean \"" : "", nearest ? nearest : "",
                    nearest ? "\"?" : "");
}

static void run_submit(struct api *api, struct control_request *request);

struct workflow_look {
    struct api *api;
    struct control_request *request;
    struct str name;
};

static void workflow_looked(void *arg, const struct store_answer *answer)
{
    struct workflow_look *look = arg;
    struct api *api = look->api;
    struct diags diags;
    if (answer->err.code) {
        problem_err(look->request, &answer->err);
        return;
    }
    if (answer->text.ptr) {
        diags_init(&diags, look->name.ptr, answer->text);
        struct plan *plan = dsl_compile(answer->text, api->o.dsl, &diags);
        if (plan)
            plans_put(api->o.plans, plan, true);
        plan_unref(plan);
        diags_free(&diags);
    }
    if (plans_current(api->o.plans, look->name))
        run_submit(api, look->request);
    else
        workflow_unknown(api, look->request, look->name);
}

/* It may have been applied at another daemon a moment ago. */
static void workflow_look(struct api *api, struct control_request *request, struct str name)
{
    struct workflow_look *look = arena_new(control_arena(request), struct workflow_look);
    *look = (struct workflow_look){api, request, arena_str(control_arena(request), name)};
    const char *params[] = {look->name.ptr};
    store_pg_query(api->o.store,
                   "select source from saga.workflow_sources_v1(null) where name = $1", params, 1,
                   workflow_looked, look);
}

static void run_submit(struct api *api, struct control_request *request)
{
    static const char *const known[] = {"workflow", "input", "run_id", "tenant", "start_at"};
    struct arena *arena = control_arena(request);
    const struct json *body, *errors;
    struct err err;
    if (!body_read(request, &body))
        return;
    if (json_get_z(body, "dry_run")) {
        control_problem(request, 501, "not_supported", NULL,
                        "dry_run is not supported by this version");
        return;
    }
    if (!members_known(request, body, known, ARRAY_LEN(known)))
        return;
    struct str name = json_get_text(body, "workflow");
    const struct plan *plan = name.ptr ? plans_current(api->o.plans, name) : NULL;
    if (!plan) {
        if (name.ptr)
            workflow_look(api, request, name);
        else
            workflow_unknown(api, request, name);
        return;
    }
    struct submission *submission = arena_new(arena, struct submission);
    struct wall start_at;
    const struct json *input = json_get_z(body, "input");
    submission->api = api;
    submission->request = request;
    submission->input = input ? input : json_object_new(arena, 0);
    submission->workflow = arena_str(arena, name);
    submission->tenant = json_get_text(body, "tenant");
    if (!submission->tenant.ptr)
        submission->tenant = STR("");
    submission->wait_s = prefer_wait(request);
    if (start_at_read(json_get_z(body, "start_at"), &start_at, &err) != 0) {
        control_problem(request, 422, "start_at_invalid", NULL, "%s", err.text);
        return;
    }
    if (input_check(plan, submission->input, arena, &errors, &err) != 0) {
        control_problem(request, 422, "input_invalid", errors, "%s", err.text);
        return;
    }
    const struct json *body_id = json_get_z(body, "run_id");
    if (body_id && body_id->kind != JSON_STRING) {
        control_problem(request, 422, "run_id_invalid", NULL, "run_id must be a text");
        return;
    }
    const char *given[] = {body_id ? arena_str(arena, body_id->text).ptr : NULL,
                           control_header(request, "Idempotency-Key")};
    int code = run_id_choose(api, plan, submission->input, given, ARRAY_LEN(given), arena,
                             &submission->run_id, &err);
    if (code) {
        control_problem(request, status_of((enum err_code)code),
                        code == ERR_CONFLICT ? "run_id_mismatch" : "run_id_invalid", NULL, "%s",
                        err.text);
        return;
    }
    submission->run_id = arena_str(arena, submission->run_id);
    submission->input_hash = input_hash_of(submission->input);
    submission->start = (struct runner_start){.plan = plan,
                                              .run_id = submission->run_id,
                                              .tenant = submission->tenant,
                                              .actor = control_actor(request),
                                              .input = json_text(submission->input, arena),
                                              .input_hash = submission->input_hash,
                                              .start_at = start_at};
    if (submission->start.input.len > BODY_BYTES_MAX) {
        control_problem(request, 413, "input_too_large", NULL, "the input is larger than 1 MiB");
        return;
    }
    code = runner_start(api->o.runner, &submission->start, submit_answered, submission, &err);
    if (code == ERR_UNAVAILABLE && store_pg_is_up(api->o.store))
        submit_by_inbox(submission);
    else if (code)
        problem_err(request, &err);
}

/* --- verbs ---------------------------------------------------------------------------------- */

struct verb_call {
    struct api *api;
    struct control_request *request;
    struct runner_verb verb;
};

static void verb_reply(struct control_request *request, struct str run_id, enum run_state state)
{
    struct arena *arena = control_arena(request);
    struct json *out = json_object_new(arena, 2);
    json_object_add_z(out, "run_id", json_string(arena, run_id));
    if (state != RUN_NONE)
        json_object_add_z(out, "state", json_string_z(arena, run_state_name(state)));
    control_reply(request, 200, json_text(out, arena));
}

static void verb_answered(void *arg, const struct runner_answer *answer)
{
    struct verb_call *call = arg;
    FAILPOINT("verb_answer");
    if (answer->err.code)
        problem_err(call->request, &answer->err);
    else
        verb_reply(call->request, call->verb.run_id, answer->state);
}

static void verb_state_came(void *arg, const struct store_answer *answer)
{
    struct verb_call *call = arg;
    verb_reply(call->request, call->verb.run_id,
               answer->err.code ? RUN_NONE : run_state_of(answer->text));
}

static void verb_by_inbox_settled(void *arg, const struct request_result *result)
{
    struct verb_call *call = arg;
    const char *params[] = {call->verb.run_id.ptr};
    if (!result->settled)
        control_reply(call->request, 202, result->json);
    else if (str_eq(result->outcome, STR("done")))
        store_pg_query(call->api->o.store, "select state from saga.runs where run_id = $1", params,
                       1, verb_state_came, call);
    else if (str_eq(result->answer, STR("there is no such run")))
        control_problem(call->request, 404, "not_found", NULL, "there is no such run");
    else if (call->verb.kind == EVENT_SIGNAL && str_eq(result->outcome, STR("refused")))
        control_problem(call->request, 422, "invalid", NULL, STR_FMT, STR_ARG(result->answer));
    else
        control_problem(call->request, 409, "conflict", NULL, STR_FMT, STR_ARG(result->answer));
}

static void verb_by_inbox(struct verb_call *call)
{
    struct arena *arena = control_arena(call->request);
    const struct runner_verb *verb = &call->verb;
    struct json *body = json_object_new(arena, 7);
    const struct json *output;
    struct err err;
    if (verb->kind == EVENT_SIGNAL) {
        int code = json_parse(verb->output, arena, &output, &err);
        ASSERT(code == 0); /* it was written from a tree */
        json_object_add_z(body, "name", json_string(arena, verb->name));
        json_object_add_z(body, "data", output);
        request_put(call->api, call->request, STR("signal"), verb->run_id, NULL,
                    json_text(body, arena), verb_by_inbox_settled, call);
        return;
    }
    json_object_add_z(body, "reason", json_string(arena, verb->reason));
    json_object_add_z(body, "step", json_string(arena, verb->step));
    json_object_add_z(body, "applied", json_bool(verb->applied));
    json_object_add_z(body, "force", json_bool(verb->force));
    if (verb->plan) {
        json_object_add_z(body, "to", json_string_z(arena, verb->plan->hash_hex));
        json_object_add_z(body, "dry_run", json_bool(verb->dry_run));
    }
    if (verb->output.ptr && json_parse(verb->output, arena, &output, &err) == 0)
        json_object_add_z(body, "output", output);
    request_put(call->api, call->request, str_z(run_event_name(verb->kind)), verb->run_id, NULL,
                json_text(body, arena), verb_by_inbox_settled, call);
}

/* Reads {name, data} of a signal; false after answering. */
static bool signal_body_read(struct control_request *request, struct runner_verb *verb)
{
    static const char *const known[] = {"name", "data"};
    const struct json *body;
    if (!body_read(request, &body) || !members_known(request, body, known, ARRAY_LEN(known)))
        return false;
    const struct json *data = json_get_z(body, "data");
    verb->name = json_get_text(body, "name");
    if (!verb->name.len) {
        control_problem(request, 422, "name_missing", NULL,
                        "give the signal's \"name\": a text, as a step waits for it");
        return false;
    }
    verb->output = json_text(data ? data : &json_null, control_arena(request));
    if (verb->output.len > BODY_BYTES_MAX) {
        control_problem(request, 413, "data_too_large", NULL, "the data is larger than 1 MiB");
        return false;
    }
    return true;
}

/* Reads {to, dry_run}. Errors: ERR_INVALID, ERR_NOT_FOUND (this daemon does not know the version,
 * the database may), ERR_CONFLICT. */
static int migrate_read(const struct api *api, const struct json *body, struct runner_verb *verb,
                        struct err *err)
{
    struct str to = json_get_text(body, "to");
    const struct json *dry_run = json_get_z(body, "dry_run");
    if (!to.len)
        return err_set(err, ERR_INVALID, "migrate needs \"to\": the hash of a version");
    if (dry_run && dry_run->kind != JSON_BOOL)
        return err_set(err, ERR_INVALID, "\"dry_run\" must be true or false");
    verb->dry_run = dry_run && dry_run->boolean;
    verb->plan = plans_version(api->o.plans, to, err);
    return verb->plan ? 0 : (int)err->code;
}

/* Takes in what saga.workflow_version_v1 gave. */
static void versions_learn(struct api *api, const struct store_answer *answer)
{
    struct arena scratch = {0};
    const struct json *list;
    struct err err;
    if (!answer->err.code && answer->text.ptr &&
        json_parse(answer->text, &scratch, &list, &err) == 0 && list->kind == JSON_LIST)
        for (uint32_t i = 0; i < list->count; i++) {
            const struct json *current = json_get_z(list->items[i], "current");
            struct diags diags;
            diags_init(&diags, "(stored workflow)", json_get_text(list->items[i], "source"));
            struct plan *plan =
                dsl_compile(json_get_text(list->items[i], "source"), api->o.dsl, &diags);
            if (plan)
                plans_put(api->o.plans, plan, current && current->boolean);
            plan_unref(plan);
            diags_free(&diags);
        }
    arena_free(&scratch);
}

static void version_ask(struct api *api, struct str to, store_answered *done, void *arg)
{
    struct arena scratch = {0};
    const char *params[] = {arena_str(&scratch, to).ptr};
    store_pg_query(api->o.store, "select saga.workflow_version_v1($1)", params, 1, done, arg);
    arena_free(&scratch);
}

static bool verb_body_read(struct control_request *request, struct runner_verb *verb)
{
    static const char *const known[] = {"reason", "applied", "force", "output"};
    static const char *const known_migrate[] = {"reason", "to", "dry_run"};
    const struct json *body, *applied, *force, *output;
    bool migrate = verb->kind == EVENT_MIGRATE;
    if (!body_read(request, &body))
        return false;
    if (!members_known(request, body, migrate ? known_migrate : known,
                       migrate ? ARRAY_LEN(known_migrate) : ARRAY_LEN(known)))
        return false;
    verb->reason = json_get_text(body, "reason");
    if (!verb->reason.len || verb->reason.len > 1000) {
        control_problem(request, 422, "reason_missing", NULL,
                        "give a reason (a text of 1 to 1000 bytes): it is kept with the act");
        return false;
    }
    applied = json_get_z(body, "applied");
    force = json_get_z(body, "force");
    output = json_get_z(body, "output");
    if (verb->kind == EVENT_SETTLE && (!applied || applied->kind != JSON_BOOL)) {
        control_problem(request, 422, "applied_missing", NULL,
                        "settle needs \"applied\": true or false");
        return false;
    }
    verb->applied = applied && applied->boolean;
    verb->force = force && force->kind == JSON_BOOL && force->boolean;
    if (output)
        verb->output = json_text(output, control_arena(request));
    return true;
}

static void verb_send(struct verb_call *call)
{
    struct api *api = call->api;
    struct err err;
    int code = runner_verb(api->o.runner, &call->verb, verb_answered, call, &err);
    if (code == ERR_UNAVAILABLE && store_pg_is_up(api->o.store))
        verb_by_inbox(call);
    else if (code)
        problem_err(call->request, &err);
}

/* The version that is named, by the body that was read before. */
static bool migrate_plan_find(struct verb_call *call, struct err *err)
{
    const struct json *body;
    int code = json_parse(control_body(call->request), control_arena(call->request), &body, err);
    if (!code)
        code = migrate_read(call->api, body, &call->verb, err);
    return code == 0;
}

static void version_came(void *arg, const struct store_answer *answer)
{
    struct verb_call *call = arg;
    struct err err;
    versions_learn(call->api, answer);
    if (migrate_plan_find(call, &err))
        verb_send(call);
    else
        problem_err(call->request, answer->err.code ? &answer->err : &err);
}

static void migrate_prepare(struct verb_call *call)
{
    const struct json *body;
    struct err err;
    if (migrate_plan_find(call, &err)) {
        verb_send(call);
    } else if (err.code == ERR_NOT_FOUND &&
               json_parse(control_body(call->request), control_arena(call->request), &body, &err) ==
                   0) {
        version_ask(call->api, json_get_text(body, "to"), version_came, call);
    } else {
        problem_err(call->request, &err);
    }
}

static void run_verb(struct api *api, struct control_request *request, struct str run_id,
                     struct str step, struct str name)
{
    struct verb_call *call = arena_new(control_arena(request), struct verb_call);
    *call = (struct verb_call){.api = api, .request = request};
    call->verb.kind = run_event_of(name);
    call->verb.run_id = run_id;
    call->verb.step = step;
    call->verb.actor = control_actor(request);
    bool needs_step = call->verb.kind == EVENT_SETTLE || call->verb.kind == EVENT_SKIP;
    if (call->verb.kind < EVENT_CANCEL || needs_step != (step.len > 0)) {
        control_problem(request, 404, "not_found", NULL, "there is no verb \"%.*s\" here",
                        (int)MIN(name.len, (size_t)40), name.ptr);
        return;
    }
    if (call->verb.kind == EVENT_SIGNAL ? !signal_body_read(request, &call->verb)
                                        : !verb_body_read(request, &call->verb))
        return;
    if (call->verb.kind == EVENT_MIGRATE)
        migrate_prepare(call);
    else
        verb_send(call);
}

/* --- the inbox, on the owner's side ----------------------------------------------------------- */

static void inbox_refuse(struct api *api, const struct store_inbox *row, const char *why)
{
    struct record_inbox inbox = {.id = row->id, .outcome = STR("refused"), .answer = str_z(why)};
    runner_settle(api->o.runner, row->run_id, &inbox);
}

bool api_inbox_start(struct api *api, const struct store_inbox *row)
{
    struct arena arena = {0};
    const struct json *body, *input, *errors;
    struct wall start_at;
    struct err err;
    int code = json_parse(row->body, &arena, &body, &err);
    if (!code)
        code = start_at_read(json_get_z(body, "start_at"), &start_at, &err);
    if (!code) {
        input = json_get_z(body, "input");
        if (!input || input->kind == JSON_NULL)
            input = json_object_new(&arena, 0);
        code = input_check(row->plan, input, &arena, &errors, &err);
    }
    if (!code && row->body.len > BODY_BYTES_MAX)
        code = err_set(&err, ERR_LIMIT, "the input is larger than 1 MiB");
    if (!code)
        code = key_run_id_check(row->run_id, &err);
    if (!code) {
        struct str rendered = STR_NONE;
        /* The clock's runs are named by their ticks. */
        if (!json_get_z(body, "tick") || !str_eq(row->actor, STR("schedule")))
            code = run_id_render(api, row->plan, input, row->at, &arena, &rendered, &err);
        if (!code && rendered.ptr && !str_eq(rendered, row->run_id))
            code = err_set(&err, ERR_INVALID,
                           "the run id is not the one that the workflow gives this input");
    }
    if (!code) {
        struct runner_start start = {.plan = row->plan,
                                     .run_id = row->run_id,
                                     .tenant = json_get_text(body, "tenant"),
                                     .actor = row->actor,
                                     .inbox_id = row->id,
                                     .input = json_text(input, &arena),
                                     .input_hash = input_hash_of(input),
                                     .start_at = start_at};
        code = runner_start(api->o.runner, &start, NULL, NULL, &err);
        if (code) { /* not now: it is offered again */
            arena_free(&arena);
            return false;
        }
    } else {
        inbox_refuse(api, row, err.text);
    }
    arena_free(&arena);
    return true;
}

/* A migration to a version that this daemon has not read yet. */
struct inbox_version {
    struct api *api;
    struct arena arena;
    struct str id, run_id;
};

static void inbox_version_came(void *arg, const struct store_answer *answer)
{
    struct inbox_version *wanted = arg;
    struct record_inbox inbox = {
        .id = wanted->id, .outcome = STR("refused"), .answer = STR("there is no such version")};
    versions_learn(wanted->api, answer);
    if (!answer->err.code && !answer->text.ptr)
        runner_settle(wanted->api->o.runner, wanted->run_id, &inbox);
    arena_free(&wanted->arena);
    free(wanted);
}

/* False: the row is offered again, and the version is known by then, or the row is settled. */
static bool inbox_version_ask(struct api *api, const struct store_inbox *row, struct str to)
{
    struct inbox_version *wanted = xcalloc(1, sizeof(*wanted));
    wanted->api = api;
    wanted->id = arena_str(&wanted->arena, row->id);
    wanted->run_id = arena_str(&wanted->arena, row->run_id);
    version_ask(api, to, inbox_version_came, wanted);
    return false;
}

bool api_inbox_verb(struct api *api, const struct store_inbox *row)
{
    struct arena arena = {0};
    const struct json *body;
    struct err err;
    struct runner_verb verb = {.kind = run_event_of(row->kind),
                               .run_id = row->run_id,
                               .actor = row->actor,
                               .inbox_id = row->id};
    bool done = true;
    bool report = verb.kind >= EVENT_COMPLETE && verb.kind <= EVENT_HEARTBEAT;
    if (report) {
        int code = json_parse(row->body, &arena, &body, &err);
        if (!code)
            code = task_report_read(body, &arena, &verb, &err);
        if (!code && !str_eq(verb.run_id, row->run_id))
            code = err_set(&err, ERR_INVALID, "the task belongs to another run");
        if (code)
            inbox_refuse(api, row, err.text);
        else
            done = runner_verb(api->o.runner, &verb, NULL, NULL, &err) == 0;
    } else if (verb.kind < EVENT_CANCEL) {
        inbox_refuse(api, row, "this version does not know such a request");
    } else if (json_parse(row->body, &arena, &body, &err) != 0) {
        inbox_refuse(api, row, err.text);
    } else {
        const struct json *applied = json_get_z(body, "applied");
        const struct json *force = json_get_z(body, "force");
        const struct json *output = json_get_z(body, "output");
        verb.reason = json_get_text(body, "reason");
        verb.step = json_get_text(body, "step");
        verb.applied = applied && applied->boolean;
        verb.force = force && force->boolean;
        verb.name = json_get_text(body, "name");
        if (verb.kind == EVENT_SIGNAL) {
            if (!verb.name.ptr)
                verb.name = STR("");
            output = json_get_z(body, "data");
        }
        if (output && output->kind != JSON_NULL)
            verb.output = json_text(output, &arena);
        int code = verb.kind == EVENT_MIGRATE ? migrate_read(api, body, &verb, &err) : 0;
        if (code == ERR_NOT_FOUND)
            done = inbox_version_ask(api, row, json_get_text(body, "to"));
        else if (code)
            inbox_refuse(api, row, err.text);
        else
            done = runner_verb(api->o.runner, &verb, NULL, NULL, &err) == 0;
    }
    arena_free(&arena);
    return done;
}

/* --- routes ---------------------------------------------------------------------------------- */

/* Cuts the next segment off the path "/a/b/c"; absent at the end. */
static struct str segment_next(struct str *path)
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

static void run_route(struct api *api, struct control_request *request, struct str id,
                      struct str rest)
{
    struct arena *arena = control_arena(request);
    bool get = control_method(request) == CONTROL_GET;
    struct str run_id = arena_str(arena, id);
    struct str next = segment_next(&rest);
    if (!next.ptr && get) {
        run_show(api, request, run_id, prefer_wait(request));
    } else if (str_eq(next, STR("events")) && get && !rest.len) {
        events_show(api, request, run_id);
    } else if (str_eq(next, STR("steps")) && !get) {
        struct str step = arena_str(arena, segment_next(&rest));
        run_verb(api, request, run_id, step, segment_next(&rest));
    } else if (next.ptr && control_method(request) == CONTROL_POST && !rest.len) {
        run_verb(api, request, run_id, STR(""), next);
    } else {
        control_problem(request, 404, "not_found", NULL, "there is nothing at this path");
    }
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
    {CONTROL_GET, "/metrics", metrics, NULL},
    {CONTROL_PUT, "/v1/workflows", workflow_apply, NULL},
    {CONTROL_GET, "/v1/workflows", NULL, "select saga.workflows_json_v1()"},
    {CONTROL_POST, "/v1/validate", workflow_validate, NULL},
    {CONTROL_POST, "/v1/runs", run_submit, NULL},
    {CONTROL_GET, "/v1/runs", runs_list, NULL},
    {CONTROL_GET, "/v1/dead", NULL, "select saga.dead_json_v1()"},
    {CONTROL_GET, "/v1/daemons", NULL, "select saga.daemons_json_v1()"},
};

void api_handle(void *arg, struct control_request *request)
{
    struct api *api = arg;
    struct str path = control_path(request);
    bool path_known = false;
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
