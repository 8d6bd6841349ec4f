/*
 * api_verb.c: what people and parents do to runs: at this daemon, at another one through the inbox,
 * and what comes out of the inbox here.
 */
#include "engine/api_impl.h"
#include "engine/failpoint.h"
#include "engine/key.h"
#include "engine/log.h"

#include <stdlib.h>

/* --- verbs ---------------------------------------------------------------------------------- */

struct verb_call {
    struct api *api;
    struct control_request *request;
    struct runner_verb verb;
    struct err refusal;
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

static void refusal_kept(void *arg, const struct store_answer *answer)
{
    struct verb_call *call = arg;
    if (answer->err.code) /* nothing came of the verb: that it was tried may be lost */
        log_warn("a refused verb is not in the audit: %s", answer->err.text);
    problem_err(call->request, &call->refusal);
}

/* A refusal leaves no record of its own: what was tried is kept before the answer. */
static void refusal_keep(struct verb_call *call, const struct err *refusal)
{
    struct arena *arena = control_arena(call->request);
    const struct runner_verb *verb = &call->verb;
    const char *params[] = {run_event_name(verb->kind),         arena_str(arena, verb->run_id).ptr,
                            arena_str(arena, verb->step).ptr,   arena_str(arena, verb->actor).ptr,
                            arena_str(arena, verb->reason).ptr, refusal->text};
    call->refusal = *refusal;
    if (refusal->code == ERR_PERMISSION) {
        struct denial_act act = {str_z(params[0]), verb->run_id, verb->step, verb->reason};
        if (!denial_keep(call->api, call->request, &act, str_z(call->refusal.text), refusal_kept,
                         call))
            problem_err(call->request, refusal);
        return;
    }
    store_pg_query(call->api->o.store, "select saga.audit_refused_v1($1, $2, $3, $4, $5, $6)",
                   params, ARRAY_LEN(params), refusal_kept, call);
}

static bool is_approval(enum run_event_kind kind)
{
    return kind == EVENT_APPROVE || kind == EVENT_REJECT;
}

/* What the inbox holds of a verb, as JSON. */
static struct str verb_body(const struct verb_call *call, struct arena *arena)
{
    const struct runner_verb *verb = &call->verb;
    struct json *body = json_object_new(arena, 10);
    const struct json *output;
    struct err err;
    if (verb->kind == EVENT_SIGNAL) {
        int code = json_parse(verb->output, arena, &output, &err);
        ASSERT(code == 0); /* it was written from a tree */
        json_object_add_z(body, "name", json_string(arena, verb->name));
        json_object_add_z(body, "data", output);
        return json_text(body, arena);
    }
    json_object_add_z(body, "reason", json_string(arena, verb->reason));
    json_object_add_z(body, "step", json_string(arena, verb->step));
    json_object_add_z(body, "applied", json_bool(verb->applied));
    json_object_add_z(body, "force", json_bool(verb->force));
    if (verb->plan) {
        json_object_add_z(body, "to", json_string_z(arena, verb->plan->hash_hex));
        json_object_add_z(body, "dry_run", json_bool(verb->dry_run));
    }
    const struct {
        const char *name;
        struct str text;
    } values[] = {
        {"output", verb->output}, {"input", verb->input}, {"step_input", verb->step_input}};
    for (size_t i = 0; i < ARRAY_LEN(values); i++)
        if (values[i].text.ptr && json_parse(values[i].text, arena, &output, &err) == 0)
            json_object_add_z(body, values[i].name, output);
    if (verb->kind == EVENT_ANSWER)
        json_object_add_z(body, "key", json_string(arena, verb->name));
    if (is_approval(verb->kind) && verb->name.ptr)
        json_object_add_z(body, "hash", json_string(arena, verb->name));
    return json_text(body, arena);
}

static void late_answer_kept(void *arg, const struct store_answer *answer)
{
    struct verb_call *call = arg;
    problem_err(call->request, answer->err.code ? &answer->err : &call->refusal);
}

/* A participant's word that came after all else of its run had gone: it is evidence, and somebody
 * should see it. It is kept before it is answered. */
static void late_answer_keep(struct verb_call *call, const struct err *refusal)
{
    struct arena *arena = control_arena(call->request);
    struct str body = verb_body(call, arena);
    const char *params[] = {arena_str(arena, call->verb.run_id).ptr, body.ptr, refusal->text,
                            arena_str(arena, call->verb.actor).ptr};
    err_set(&call->refusal, ERR_CONFLICT, "%s; the answer is kept in saga.late_answers",
            refusal->text);
    log_warn("an answer came for the run \"" STR_FMT "\", whose data was removed: see "
             "saga.late_answers",
             STR_ARG(call->verb.run_id));
    store_pg_query(call->api->o.store, "select saga.answer_late_v1($1, $2, $3, $4)", params,
                   ARRAY_LEN(params), late_answer_kept, call);
}

static void verb_repeated(void *arg, const struct store_answer *answer)
{
    struct verb_call *call = arg;
    if (!answer->err.code && answer->text.ptr)
        verb_reply(call->request, call->verb.run_id, run_state_of(answer->text));
    else
        refusal_keep(call, &call->refusal);
}

/* By the time that these come again the run goes on: it was obeyed already if it is the same. */
static bool may_be_repeated(enum run_event_kind kind)
{
    return kind == EVENT_RETRY || kind == EVENT_SETTLE || is_approval(kind);
}

static void repeat_compare(struct verb_call *call, const struct err *refusal)
{
    struct arena *arena = control_arena(call->request);
    struct str body = verb_body(call, arena);
    const char *params[] = {run_event_name(call->verb.kind),
                            arena_str(arena, call->verb.run_id).ptr,
                            arena_str(arena, call->verb.actor).ptr, body.ptr};
    call->refusal = *refusal;
    store_pg_query(call->api->o.store, "select saga.verb_repeated_v1($1, $2, $3, $4)", params,
                   ARRAY_LEN(params), verb_repeated, call);
}

static void verb_answered(void *arg, const struct runner_answer *answer)
{
    struct verb_call *call = arg;
    FAILPOINT("verb_answer");
    if (answer->removed && call->verb.kind == EVENT_ANSWER)
        late_answer_keep(call, &answer->err);
    else if (answer->err.code == ERR_CONFLICT && may_be_repeated(call->verb.kind) &&
             !answer->removed)
        repeat_compare(call, &answer->err);
    else if ((answer->err.code == ERR_CONFLICT || answer->err.code == ERR_PERMISSION) &&
             call->verb.kind != EVENT_SIGNAL && call->verb.kind != EVENT_ANSWER)
        refusal_keep(call, &answer->err);
    else if (answer->err.code)
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
    else
        control_problem(call->request, status_of(result->code), err_code_name(result->code), NULL,
                        STR_FMT, STR_ARG(result->answer));
}

static void verb_by_inbox(struct verb_call *call)
{
    request_put(call->api, call->request, str_z(run_event_name(call->verb.kind)), call->verb.run_id,
                NULL, verb_body(call, control_arena(call->request)), verb_by_inbox_settled, call);
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
            plans_learn(api->o.plans, json_get_text(list->items[i], "source"),
                        current && current->boolean, &err);
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

/* The member as JSON text; absent if it is not there. */
static struct str member_text(const struct json *body, const char *name, struct arena *arena)
{
    const struct json *value = json_get_z(body, name);
    return value ? json_text(value, arena) : STR_NONE;
}

static bool verb_body_read(struct control_request *request, struct runner_verb *verb)
{
    static const char *const known[] = {"reason", "applied", "force", "output"};
    static const char *const known_approve[] = {"reason", "hash"};
    static const char *const known_retry[] = {"reason", "input", "step_input"};
    static const char *const known_migrate[] = {"reason", "to", "dry_run"};
    const struct json *body, *applied, *force;
    bool migrate = verb->kind == EVENT_MIGRATE;
    if (!body_read(request, &body))
        return false;
    const struct {
        bool meant;
        const char *const *names;
        size_t count;
    } lists[] = {{migrate, known_migrate, ARRAY_LEN(known_migrate)},
                 {verb->kind == EVENT_RETRY, known_retry, ARRAY_LEN(known_retry)},
                 {is_approval(verb->kind), known_approve, ARRAY_LEN(known_approve)},
                 {true, known, ARRAY_LEN(known)}};
    size_t list = 0;
    while (!lists[list].meant)
        list++;
    if (!members_known(request, body, lists[list].names, lists[list].count))
        return false;
    const struct json *dry_run = migrate ? json_get_z(body, "dry_run") : NULL;
    bool only_asks = dry_run && dry_run->kind == JSON_BOOL && dry_run->boolean;
    verb->reason = json_get_text(body, "reason");
    if ((!verb->reason.len && !only_asks) || verb->reason.len > 1000) {
        control_problem(request, 422, "reason_missing", NULL,
                        "give a reason (a text of 1 to 1000 bytes): it is kept with the act");
        return false;
    }
    applied = json_get_z(body, "applied");
    force = json_get_z(body, "force");
    if (verb->kind == EVENT_SETTLE && (!applied || applied->kind != JSON_BOOL)) {
        control_problem(request, 422, "applied_missing", NULL,
                        "settle needs \"applied\": true or false");
        return false;
    }
    verb->applied = applied && applied->boolean;
    verb->force = force && force->kind == JSON_BOOL && force->boolean;
    if (is_approval(verb->kind))
        verb->name = json_get_text(body, "hash");
    verb->output = member_text(body, "output", control_arena(request));
    verb->input = member_text(body, "input", control_arena(request));
    verb->step_input = member_text(body, "step_input", control_arena(request));
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

static void settle_compared(void *arg, const struct store_answer *answer)
{
    struct verb_call *call = arg;
    struct err refusal;
    if (answer->err.code) {
        problem_err(call->request, &answer->err);
    } else if (answer->text.ptr) {
        err_set(&refusal, ERR_CONFLICT, STR_FMT, STR_ARG(answer->text));
        refusal_keep(call, &refusal);
    } else {
        verb_send(call);
    }
}

/* An old word must not be taken for one on what was sent after it. */
static void settle_compare(struct verb_call *call)
{
    struct arena *arena = control_arena(call->request);
    struct str body = verb_body(call, arena);
    const char *params[] = {arena_str(arena, call->verb.run_id).ptr,
                            arena_str(arena, call->verb.actor).ptr, body.ptr};
    store_pg_query(call->api->o.store, "select saga.settle_repeated_v1($1, $2, $3)", params,
                   ARRAY_LEN(params), settle_compared, call);
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

void run_verb(struct api *api, struct control_request *request, struct str run_id, struct str step,
              struct str name)
{
    struct verb_call *call = arena_new(control_arena(request), struct verb_call);
    *call = (struct verb_call){.api = api, .request = request};
    call->verb.kind = run_event_of(name);
    call->verb.run_id = run_id;
    call->verb.step = step;
    call->verb.actor = control_actor(request);
    bool needs_step = call->verb.kind == EVENT_SETTLE || call->verb.kind == EVENT_SKIP ||
                      is_approval(call->verb.kind);
    if (call->verb.kind < EVENT_CANCEL || call->verb.kind == EVENT_DRY_RUN ||
        needs_step != (step.len > 0)) {
        control_problem(request, 404, "not_found", NULL, "there is no verb \"%.*s\" here",
                        (int)MIN(name.len, (size_t)40), name.ptr);
        return;
    }
    if (call->verb.kind == EVENT_SIGNAL ? !signal_body_read(request, &call->verb)
                                        : !verb_body_read(request, &call->verb))
        return;
    if (call->verb.kind == EVENT_MIGRATE)
        migrate_prepare(call);
    else if (call->verb.kind == EVENT_SETTLE)
        settle_compare(call);
    else
        verb_send(call);
}

/* A participant, or whoever brings its word, says what became of a key. */
void answers_take(struct api *api, struct control_request *request)
{
    static const char *const known[] = {"key", "applied", "output", "text"};
    struct arena *arena = control_arena(request);
    struct verb_call *call = arena_new(arena, struct verb_call);
    const struct json *body, *applied;
    *call = (struct verb_call){.api = api, .request = request};
    struct runner_verb *verb = &call->verb;
    if (!body_read(request, &body) || !members_known(request, body, known, ARRAY_LEN(known)))
        return;
    applied = json_get_z(body, "applied");
    verb->kind = EVENT_ANSWER;
    verb->name = json_get_text(body, "key");
    verb->run_id = key_run_id(verb->name);
    verb->reason = json_get_text(body, "text");
    verb->output = member_text(body, "output", arena);
    verb->actor = control_actor(request);
    if (!verb->run_id.len) {
        control_problem(request, 422, "key_missing", NULL,
                        "give the \"key\" as it stood in Idempotency-Key: RUN:STEP:execute");
    } else if (!applied || applied->kind != JSON_BOOL) {
        control_problem(request, 422, "applied_missing", NULL,
                        "say \"applied\": true or false (refused for good)");
    } else if (verb->reason.len > 1000) {
        control_problem(request, 422, "text_too_long", NULL, "the text is longer than 1000 bytes");
    } else {
        verb->applied = applied->boolean;
        verb->run_id = arena_str(arena, verb->run_id);
        verb_send(call);
    }
}

/* --- the inbox, on the owner's side ---------------------------------------------------------- */

void inbox_refuse(struct api *api, const struct store_inbox *row, const struct err *why)
{
    struct record_inbox inbox = {
        .id = row->id, .outcome = STR("refused"), .code = why->code, .answer = str_z(why->text)};
    runner_settle(api->o.runner, row->run_id, &inbox);
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
    struct record_inbox inbox = {.id = wanted->id,
                                 .outcome = STR("refused"),
                                 .code = ERR_NOT_FOUND,
                                 .answer = STR("there is no such version")};
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
            inbox_refuse(api, row, &err);
        else
            done = runner_verb(api->o.runner, &verb, NULL, NULL, &err) == 0;
    } else if (verb.kind < EVENT_CANCEL || verb.kind == EVENT_DRY_RUN) {
        err_set(&err, ERR_INVALID, "this version does not know such a request");
        inbox_refuse(api, row, &err);
    } else if (json_parse(row->body, &arena, &body, &err) != 0) {
        inbox_refuse(api, row, &err);
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
        if (verb.kind == EVENT_ANSWER) {
            int64_t attempt = 0;
            const struct json *number = json_get_z(body, "attempt");
            verb.name = json_get_text(body, "key");
            if (number && json_to_int(number, &attempt))
                verb.attempt = (uint32_t)attempt;
        }
        if (is_approval(verb.kind))
            verb.name = json_get_text(body, "hash");
        if (output && output->kind != JSON_NULL)
            verb.output = json_text(output, &arena);
        const struct json *input = json_get_z(body, "input");
        const struct json *step_input = json_get_z(body, "step_input");
        if (input && input->kind != JSON_NULL)
            verb.input = json_text(input, &arena);
        if (step_input && step_input->kind != JSON_NULL)
            verb.step_input = json_text(step_input, &arena);
        int code = verb.kind == EVENT_MIGRATE ? migrate_read(api, body, &verb, &err) : 0;
        if (code == ERR_NOT_FOUND)
            done = inbox_version_ask(api, row, json_get_text(body, "to"));
        else if (code)
            inbox_refuse(api, row, &err);
        else
            done = runner_verb(api->o.runner, &verb, NULL, NULL, &err) == 0;
    }
    arena_free(&arena);
    return done;
}
