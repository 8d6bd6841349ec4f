#include "engine/render.h"

#include "engine/base/uri.h"
#include "engine/group.h"
#include "engine/key.h"

/* --- scope -------------------------------------------------------------------------------- */

static const struct json *stored_value(struct str text, struct arena *arena)
{
    const struct json *value;
    struct err err;
    if (!text.ptr)
        return NULL;
    /* It was validated before it was stored. */
    int code = json_parse(text, arena, &value, &err);
    ASSERT(code == 0);
    return value;
}

/* What a loop gives: a list in item order, null where nothing was applied. */
static const struct json *group_outputs(const struct group *group, struct arena *arena)
{
    struct json *list = json_list_new(arena, group->count);
    for (uint32_t i = 0; i < group->count; i++) {
        const struct instance *instance = group->instances[i];
        const struct json *output = NULL;
        if (instance && instance->execute.state == STEP_APPLIED)
            output = stored_value(instance->execute.output, arena);
        json_list_add(list, output ? output : &json_null);
    }
    return list;
}

static void render_scope_step(const void *arg, uint16_t step, struct arena *arena,
                              struct expr_step *out)
{
    const struct render *render = arg;
    const struct run *run = render->run;
    const struct instance *instance = &run->instances[step];
    /* An item's own expressions mean itself by the name of its step. */
    if (render->instance && render->instance->step == step)
        instance = render->instance;
    const struct effect_state *side = &instance->execute;
    *out = (struct expr_step){.state = str_z(step_state_name(side->state))};
    out->output = stored_value(side->output, arena);
    if (instance->group && side->state == STEP_APPLIED && !side->by_hand)
        out->output = group_outputs(instance->group, arena);
    /* An answer without a body is null, which is not the same as no answer. */
    if (!out->output && (side->state == STEP_APPLIED || side->by_hand))
        out->output = &json_null;
    out->error = stored_value(side->error, arena);
    if (side->generation)
        out->key = key_make(run->id, key_instance(&run->plan->steps[step], instance->item, arena),
                            DIRECTION_EXECUTE, side->generation, arena);
}

int render_scope(const struct render *render, struct arena *arena, struct expr_scope *out,
                 struct err *err)
{
    const struct run *run = render->run;
    struct render *kept = arena_new(arena, struct render); /* the scope may outlive the caller's */
    *kept = *render;
    *out = (struct expr_scope){
        .index = -1,
        .env = render->env,
        .run_id = run->id,
        .started_at = run->start.start_at.us > run->start.created_at.us ? run->start.start_at
                                                                        : run->start.created_at,
        .now = render->now,
        .step = render_scope_step,
        .step_arg = kept,
        .input = run->inputs_count ? NULL : run->input,
    };
    uint32_t forward = render->instance ? render->instance->execute.claim_no : 0;
    struct str input = run_input(run, render->direction, render->claim_no, forward);
    if (!out->input && json_parse(input, arena, &out->input, err) != 0)
        return err_wrap(err, "stored input");
    if (render->instance && render->instance->item.len) {
        const struct group *group = run->instances[render->instance->step].group;
        out->index = render->instance->place;
        out->item = stored_value(group_value(group, render->instance->place), arena);
    }
    if (render->generation)
        out->key = key_make(
            run->id,
            key_instance(&run->plan->steps[render->instance->step], render->instance->item, arena),
            render->direction, render->generation, arena);
    return 0;
}

/* --- parts of an HTTP request -------------------------------------------------------------- */

static int pairs_render(const struct plan_named *named, uint16_t count,
                        const struct expr_scope *scope, struct arena *arena,
                        struct request_pair *out, uint16_t *out_count, struct err *err)
{
    for (uint16_t i = 0; i < count; i++) {
        struct str value;
        if (template_render_text(named[i].value, scope, TEXT_PLAIN, arena, &value, err) != 0)
            return err_wrap(err, "\"%s\"", named[i].name);
        if (value.ptr)
            out[(*out_count)++] = (struct request_pair){str_z(named[i].name), value};
    }
    return 0;
}

static void pair_encode(struct str name, struct str value, char *separator, struct buf *out)
{
    if (*separator)
        buf_add_char(out, *separator);
    *separator = '&';
    uri_encode(name, out);
    buf_add_char(out, '=');
    uri_encode(value, out);
}

static int pairs_encode(const struct plan_named *named, uint16_t count,
                        const struct expr_scope *scope, struct arena *arena, char *separator,
                        struct buf *out, struct err *err)
{
    struct request_pair *pairs = arena_array(arena, struct request_pair, count);
    uint16_t found = 0;
    int code = pairs_render(named, count, scope, arena, pairs, &found, err);
    for (uint16_t i = 0; i < found && !code; i++)
        pair_encode(pairs[i].name, pairs[i].value, separator, out);
    return code;
}

/* Path and query of an address that the service gave: the host stays the declared one. */
static int location_render(const struct plan_action *ask, const struct expr_scope *scope,
                           struct arena *arena, struct str *out, struct err *err)
{
    const struct json *value;
    int code = expr_eval(ask->http.location, scope, arena, &value, err);
    if (code)
        return err_wrap(err, "path");
    struct str text = value->kind == JSON_STRING ? value->text : STR("");
    const char *scheme = memmem(text.ptr, text.len, "://", 3);
    const char *slash = text.ptr;
    if (scheme)
        slash = memchr(scheme + 3, '/', text.len - (size_t)(scheme + 3 - text.ptr));
    if (!text.len || !slash || *slash != '/' || (!scheme && text.len > 1 && text.ptr[1] == '/'))
        return err_set(err, ERR_INVALID, "path: \"%.*s\" is no address of a resource",
                       (int)MIN(text.len, 80u), text.ptr);
    *out = (struct str){slash, text.len - (size_t)(slash - text.ptr)};
    return 0;
}

static int target_render(const struct plan_action *action, const struct expr_scope *scope,
                         struct str key_sent, struct arena *arena, struct buf *scratch,
                         struct str *out, struct err *err)
{
    struct str path;
    char separator = '?';
    if (action->http.location) {
        int code = location_render(action, scope, arena, &path, err);
        if (code)
            return code;
        separator = memchr(path.ptr, '?', path.len) ? '&' : '?';
    } else if (template_render_text(action->http.path, scope, TEXT_PERCENT, arena, &path, err) !=
               0) {
        return err_wrap(err, "path");
    }
    buf_add_str(scratch, path);
    int code = pairs_encode(action->http.query, action->http.query_count, scope, arena, &separator,
                            scratch, err);
    if (code)
        return err_wrap(err, "query");
    if (action->idempotency.place == KEY_PLACE_QUERY)
        pair_encode(str_z(action->idempotency.name), key_sent, &separator, scratch);
    *out = arena_str(arena, buf_str(scratch));
    return 0;
}

/* A copy of `value` with the member that `pointer` names set to `leaf`; objects on the way are
 * made where there are none. NULL if something else stands in the way. */
static const struct json *pointer_set(const struct json *value, struct str pointer,
                                      const struct json *leaf, struct arena *arena)
{
    if (!pointer.len)
        return leaf;
    if (pointer.ptr[0] != '/' || (value && value->kind != JSON_OBJECT))
        return NULL;
    const char *end = memchr(pointer.ptr + 1, '/', pointer.len - 1);
    size_t name_len = (end ? (size_t)(end - pointer.ptr) : pointer.len) - 1;
    struct str name = {pointer.ptr + 1, name_len};
    struct str rest = {pointer.ptr + 1 + name_len, pointer.len - 1 - name_len};
    const struct json *child = pointer_set(json_get(value, name), rest, leaf, arena);
    if (!child)
        return NULL;
    struct json *copy = json_object_new(arena, (value ? value->count : 0) + 1);
    for (uint32_t i = 0; value && i < value->count; i++)
        if (!str_eq(value->members[i].name, name))
            json_object_add(copy, value->members[i].name, value->members[i].value);
    json_object_add(copy, name, child);
    return copy;
}

/* What a person gave, else what the template makes. */
static int value_render(const struct template *template, const struct json *given,
                        const struct expr_scope *scope, struct arena *arena,
                        const struct json **out, struct err *err)
{
    *out = given;
    return given ? 0 : template_render(template, scope, arena, out, err);
}

static int json_body_render(const struct plan_action *action, const struct json *given,
                            const struct expr_scope *scope, struct str key_sent,
                            struct arena *arena, const struct json **body_json, struct str *out,
                            struct err *err)
{
    int code = value_render(action->http.body, given, scope, arena, body_json, err);
    if (code)
        return err_wrap(err, "body");
    if ((*body_json)->kind == JSON_NONE)
        *body_json = &json_null;
    if (action->idempotency.place == KEY_PLACE_BODY) {
        *body_json = pointer_set(*body_json, str_z(action->idempotency.name),
                                 json_string(arena, key_sent), arena);
        if (!*body_json)
            return err_set(err, ERR_INVALID, "body: no object at the key's place \"%s\"",
                           action->idempotency.name);
    }
    *out = json_text(*body_json, arena);
    return 0;
}

static int body_render(const struct plan_action *action, const struct expr_scope *scope,
                       struct str key_sent, struct arena *arena, struct buf *scratch,
                       const struct json **body_json, struct request *out,
                       const char **content_type, struct err *err)
{
    char separator = '\0';
    int code = 0;
    *body_json = NULL;
    *content_type = NULL;
    switch (action->http.body_kind) {
    case BODY_NONE: return 0;
    case BODY_JSON:
        *content_type = "application/json";
        code = json_body_render(action, out->given, scope, key_sent, arena, body_json, &out->body,
                                err);
        break;
    case BODY_FORM:
        *content_type = "application/x-www-form-urlencoded";
        code = pairs_encode(action->http.form, action->http.form_count, scope, arena, &separator,
                            scratch, err);
        out->body = arena_str(arena, buf_str(scratch));
        break;
    case BODY_TEXT:
        *content_type = "text/plain; charset=utf-8";
        code = template_render_text(action->http.body, scope, TEXT_PLAIN, arena, &out->body, err);
        break;
    }
    if (!code && out->body.len > BODY_BYTES_MAX)
        return err_set(err, ERR_LIMIT, "the body has %zu bytes, %d are allowed", out->body.len,
                       BODY_BYTES_MAX);
    return code;
}

static bool pairs_have(const struct request_pair *pairs, uint16_t count, const char *name)
{
    for (uint16_t i = 0; i < count; i++)
        if (pairs[i].name.len == strlen(name) &&
            strncasecmp(pairs[i].name.ptr, name, pairs[i].name.len) == 0)
            return true;
    return false;
}

static int http_render(const struct plan_action *action, const struct expr_scope *scope,
                       struct str key_sent, struct arena *arena, const struct json **body_json,
                       struct request *out, struct err *err)
{
    const struct plan_service *service = out->service;
    const char *content_type;
    struct buf scratch = {0};
    ASSERT(service);
    int code = target_render(action, scope, key_sent, arena, &scratch, &out->target, err);
    buf_clear(&scratch);
    if (!code)
        code = body_render(action, scope, key_sent, arena, &scratch, body_json, out, &content_type,
                           err);
    buf_free(&scratch);
    if (code)
        return code;

    struct request_pair *headers = arena_array(
        arena, struct request_pair, service->headers_count + action->http.headers_count + 1u);
    out->headers = headers;
    code = pairs_render(service->headers, service->headers_count, scope, arena, headers,
                        &out->headers_count, err);
    if (!code)
        code = pairs_render(action->http.headers, action->http.headers_count, scope, arena, headers,
                            &out->headers_count, err);
    if (code)
        return err_wrap(err, "header");
    if (content_type && !pairs_have(headers, out->headers_count, "Content-Type"))
        headers[out->headers_count++] =
            (struct request_pair){STR("Content-Type"), str_z(content_type)};
    if (service->auth_user)
        code = template_render_text(service->auth_user, scope, TEXT_PLAIN, arena, &out->auth_user,
                                    err);
    if (!code && service->auth_secret)
        code = template_render_text(service->auth_secret, scope, TEXT_PLAIN, arena,
                                    &out->auth_secret, err);
    if (code)
        return err_wrap(err, "auth");
    if (service->sign_secret)
        code = template_render_text(service->sign_secret, scope, TEXT_PLAIN, arena,
                                    &out->sign_secret, err);
    return code ? err_wrap(err, "sign") : 0;
}

/* --- other kinds --------------------------------------------------------------------------- */

/* A SQL parameter as text; absent = NULL. Lists and objects go as JSON. */
static struct str param_text(const struct json *value, struct arena *arena)
{
    switch (value->kind) {
    case JSON_NONE:
    case JSON_NULL: return STR_NONE;
    case JSON_STRING:
    case JSON_NUMBER: return value->text;
    case JSON_BOOL:
    case JSON_LIST:
    case JSON_OBJECT: return json_text(value, arena);
    }
    return STR_NONE;
}

static int sql_render(const struct plan_action *action, const struct expr_scope *scope,
                      struct arena *arena, struct request *out, struct err *err)
{
    struct str *args = arena_array(arena, struct str, action->sql.params_count);
    for (uint16_t i = 0; i < action->sql.params_count; i++) {
        const struct json *value;
        const struct json *given = out->given ? out->given->items[i] : NULL;
        if (value_render(action->sql.params[i], given, scope, arena, &value, err) != 0)
            return err_wrap(err, "parameter $%u", i + 1u);
        args[i] = param_text(value, arena);
    }
    out->args = args;
    out->args_count = action->sql.params_count;
    return 0;
}

static int exec_render(const struct plan_action *action, const struct expr_scope *scope,
                       struct arena *arena, struct request *out, struct err *err)
{
    struct str *args = arena_array(arena, struct str, action->exec.argv_count);
    for (uint16_t i = 0; i < action->exec.argv_count; i++) {
        if (template_render_text(action->exec.argv[i], scope, TEXT_PLAIN, arena, &args[i], err) !=
            0)
            return err_wrap(err, "argument %u", i);
        if (!args[i].ptr) /* an omitted argument is an empty one: positions must not move */
            args[i] = STR("");
    }
    out->args = args;
    out->args_count = action->exec.argv_count;
    struct request_pair *env = arena_array(arena, struct request_pair, action->exec.env_count);
    out->headers = env;
    if (pairs_render(action->exec.env, action->exec.env_count, scope, arena, env,
                     &out->headers_count, err) != 0)
        return err_wrap(err, "env");
    if (action->exec.stdin_body) {
        const struct json *value;
        if (value_render(action->exec.stdin_body, out->given, scope, arena, &value, err) != 0)
            return err_wrap(err, "stdin");
        out->body = value->kind == JSON_STRING ? value->text : json_text(value, arena);
    }
    return 0;
}

/* Undoing a child needs nothing but its id. */
static int child_render(const struct render *render, const struct plan_action *action,
                        const struct expr_scope *scope, struct arena *arena,
                        const struct json **body_json, struct rendered *out, struct err *err)
{
    bool undo = render->direction == DIRECTION_COMPENSATE;
    uint16_t generation = undo ? render->instance->execute.generation : render->generation;
    out->child = key_child(render->run->id, out->instance, generation, arena);
    out->request.target = out->child;
    if (undo)
        return 0;
    if (action->child.input || out->request.given) {
        int code =
            value_render(action->child.input, out->request.given, scope, arena, body_json, err);
        if (code)
            return err_wrap(err, "input");
    } else {
        *body_json = json_object_new(arena, 0);
    }
    if ((*body_json)->kind != JSON_OBJECT)
        return err_set(err, ERR_INVALID, "input: a child's input must be an object");
    out->request.body = json_text(*body_json, arena);
    if (out->request.body.len > BODY_BYTES_MAX)
        return err_set(err, ERR_LIMIT, "input: it has %zu bytes, %d are allowed",
                       out->request.body.len, BODY_BYTES_MAX);
    return 0;
}

static int worker_render(const struct plan_action *action, const struct expr_scope *scope,
                         struct arena *arena, const struct json **body_json, struct request *out,
                         struct err *err)
{
    *body_json = &json_null;
    if ((action->worker.payload || out->given) &&
        value_render(action->worker.payload, out->given, scope, arena, body_json, err) != 0)
        return err_wrap(err, "payload");
    if ((*body_json)->kind == JSON_NONE)
        *body_json = &json_null;
    out->target = str_z(action->worker.queue);
    out->body = json_text(*body_json, arena);
    if (out->body.len > BODY_BYTES_MAX)
        return err_set(err, ERR_LIMIT, "the payload has %zu bytes, %d are allowed", out->body.len,
                       BODY_BYTES_MAX);
    return 0;
}

/* --- the whole ----------------------------------------------------------------------------- */

static const struct plan_action *render_plan_action(const struct render *render)
{
    return step_action(&render->run->plan->steps[render->instance->step], render->direction);
}

const char *render_given_problem(const struct plan_action *action, const struct json *given)
{
    switch (action->kind) {
    case ACTION_HTTP: return action->http.body_kind == BODY_JSON ? NULL : "it has no JSON body";
    case ACTION_WORKER: return NULL;
    case ACTION_CHILD: return given->kind == JSON_OBJECT ? NULL : "a child takes an object";
    case ACTION_EXEC: return action->exec.stdin_body ? NULL : "its program reads no stdin";
    case ACTION_SQL:
        if (given->kind != JSON_LIST || given->count != action->sql.params_count)
            return "a statement takes the list of its parameters, all of them";
        return NULL;
    case ACTION_SLEEP:
    case ACTION_UNTIL:
    case ACTION_WAIT_FOR:
    case ACTION_NONE: break;
    }
    return "it sends nothing";
}

int render_action(const struct render *render, struct arena *arena, struct rendered *out,
                  struct err *err)
{
    const struct plan *plan = render->run->plan;
    const struct plan_action *action = render_plan_action(render);
    const struct json *body_json = NULL;
    struct expr_scope scope;
    ASSERT(render->generation);
    int code = render_scope(render, arena, &scope, err);
    if (code)
        return code;
    *out = (struct rendered){.key = scope.key};
    out->instance =
        key_instance(&plan->steps[render->instance->step], render->instance->item, arena);
    out->key_sent = key_format(out->key, action->idempotency.format, arena);
    if (render->direction == DIRECTION_COMPENSATE)
        out->compensates =
            key_format(key_make(render->run->id, out->instance, DIRECTION_EXECUTE,
                                MAX(render->instance->execute.generation, (uint16_t)1), arena),
                       step_action(&plan->steps[render->instance->step], DIRECTION_EXECUTE)
                           ->idempotency.format,
                       arena);
    struct request *request = &out->request;
    request->action = action;
    request->given = stored_value(render->step_input, arena);
    if (action->service != PLAN_SERVICE_NONE)
        request->service = &plan->services[action->service];
    switch (action->kind) {
    case ACTION_HTTP:
        code = http_render(action, &scope, out->key_sent, arena, &body_json, request, err);
        break;
    case ACTION_SQL: code = sql_render(action, &scope, arena, request, err); break;
    case ACTION_EXEC: code = exec_render(action, &scope, arena, request, err); break;
    case ACTION_CHILD:
        code = child_render(render, action, &scope, arena, &body_json, out, err);
        break;
    case ACTION_WORKER:
        code = worker_render(action, &scope, arena, &body_json, request, err);
        break;
    case ACTION_NONE:
    case ACTION_SLEEP:
    case ACTION_UNTIL:
    case ACTION_WAIT_FOR: ASSERT(!"an action with a request");
    }
    if (!code)
        request->hash = key_request_hash(request, body_json);
    return code;
}

int render_ask(const struct render *render, struct arena *arena, struct rendered *out,
               struct expr_scope *scope, struct err *err)
{
    const struct plan *plan = render->run->plan;
    const struct plan_action *action = render_plan_action(render);
    const struct plan_action *ask = &action->reconcile->ask;
    const struct effect_state *side =
        instance_side((struct instance *)render->instance, render->direction);
    const struct json *body_json;
    int code = render_scope(render, arena, scope, err);
    if (code)
        return code;
    *out = (struct rendered){.key = scope->key};
    out->instance =
        key_instance(&plan->steps[render->instance->step], render->instance->item, arena);
    out->reconciles = key_format(out->key, action->idempotency.format, arena);
    scope->key = out->reconciles;
    scope->answer = stored_value(side->answer, arena);
    struct request *request = &out->request;
    request->action = ask;
    if (ask->service != PLAN_SERVICE_NONE)
        request->service = &plan->services[ask->service];
    if (ask->kind == ACTION_SQL)
        return sql_render(ask, scope, arena, request, err);
    if (ask->kind == ACTION_EXEC)
        return exec_render(ask, scope, arena, request, err);
    request->from_origin = ask->http.location != NULL;
    return http_render(ask, scope, STR_NONE, arena, &body_json, request, err);
}

/* What an action's request is without its key. */
static int keyless_hash(const struct plan *plan, const struct plan_action *action,
                        const struct expr_scope *scope, struct arena *arena, struct sha256 *out,
                        struct err *err)
{
    struct plan_action *keyless = arena_new(arena, struct plan_action);
    const struct json *body_json;
    *keyless = *action;
    keyless->idempotency = (struct plan_idempotency){.place = KEY_PLACE_NONE};
    struct request request = {.action = keyless, .service = &plan->services[action->service]};
    int code = http_render(keyless, scope, STR_NONE, arena, &body_json, &request, err);
    if (!code)
        *out = key_request_hash(&request, body_json);
    return code;
}

int render_dry_run(const struct render *render, struct arena *arena, struct rendered *out,
                   struct err *err)
{
    const struct plan *plan = render->run->plan;
    const struct plan_step *step = &plan->steps[render->instance->step];
    struct render keyless = *render;
    struct expr_scope scope, action_scope;
    struct sha256 own, effect;
    const struct json *body_json;
    ASSERT(step->dry_run && step->dry_run->kind == ACTION_HTTP);
    keyless.direction = DIRECTION_EXECUTE;
    keyless.generation = 0;
    int code = render_scope(&keyless, arena, &scope, err);
    if (!code)
        code = render_scope(render, arena, &action_scope, err);
    if (code)
        return code;
    *out = (struct rendered){.instance = key_instance(step, render->instance->item, arena)};
    struct request *request = &out->request;
    request->action = step->dry_run;
    request->service = &plan->services[step->dry_run->service];
    code = http_render(step->dry_run, &scope, STR_NONE, arena, &body_json, request, err);
    if (code || step->action.kind != ACTION_HTTP)
        return code;
    /* The compiler has compared what is written; values may still make two requests one. */
    own = key_request_hash(request, body_json);
    if (keyless_hash(plan, &step->action, &action_scope, arena, &effect, err) == 0 &&
        sha256_eq(&own, &effect))
        return err_set(err, ERR_INVALID,
                       "the dry_run is the request of the action: it would make the effect");
    return 0;
}

int render_lock(const struct plan *plan, const struct json *input, struct arena *arena,
                struct str *out, struct err *err)
{
    struct expr_scope scope = {.input = input, .index = -1};
    *out = STR("");
    if (!plan->lock)
        return 0;
    int code = template_render_text(plan->lock, &scope, TEXT_PLAIN, arena, out, err);
    if (code)
        return err_wrap(err, "lock");
    if (!out->ptr || !out->len)
        return err_set(err, ERR_INVALID, "lock: nothing of the input is in it");
    if (out->len > PLAN_LOCK_BYTES_MAX)
        return err_set(err, ERR_INVALID, "lock: it has %zu bytes, %d is the most", out->len,
                       PLAN_LOCK_BYTES_MAX);
    for (size_t i = 0; i < out->len; i++)
        if ((unsigned char)out->ptr[i] < ' ' || out->ptr[i] == 0x7F)
            return err_set(err, ERR_INVALID, "lock: it has a control character");
    return 0;
}

int render_sleep(const struct render *render, struct arena *arena, int64_t *out_us, struct err *err)
{
    const struct plan_action *action = render_plan_action(render);
    struct expr_scope scope;
    struct str text;
    if (!action->sleep.duration) {
        *out_us = action->sleep.duration_us;
        return 0;
    }
    int code = render_scope(render, arena, &scope, err);
    if (!code)
        code = template_render_text(action->sleep.duration, &scope, TEXT_PLAIN, arena, &text, err);
    if (code)
        return err_wrap(err, "sleep");
    if (!text.ptr || !duration_parse(text, out_us))
        return err_set(err, ERR_INVALID, "sleep: \"" STR_FMT "\" is not a duration like 30s",
                       STR_ARG(text));
    return 0;
}

int render_until(const struct render *render, struct arena *arena, struct wall *out,
                 struct err *err)
{
    const struct plan_action *action = render_plan_action(render);
    const struct json *value;
    struct expr_scope scope;
    int code = render_scope(render, arena, &scope, err);
    if (!code)
        code = expr_eval(action->until.until, &scope, arena, &value, err);
    if (code)
        return err_wrap(err, "until");
    if (value->kind == JSON_STRING && wall_parse(value->text, out))
        return 0;
    struct str text = value->kind == JSON_STRING ? value->text : json_text(value, arena);
    return err_set(err, ERR_INVALID, "until: \"%.*s\" is not a time like 2026-10-25T02:30:00Z",
                   (int)MIN(text.len, 80u), text.ptr ? text.ptr : "");
}

int render_output(const struct run *run, struct arena *arena, struct str *out, struct err *err)
{
    const struct json *value;
    struct render render = {.run = run, .direction = DIRECTION_EXECUTE};
    struct expr_scope scope;
    *out = STR_NONE;
    if (!run->plan->output)
        return 0;
    int code = render_scope(&render, arena, &scope, err);
    if (!code)
        code = template_render(run->plan->output, &scope, arena, &value, err);
    if (code)
        return err_wrap(err, "output");
    *out = json_text(value->kind == JSON_NONE ? &json_null : value, arena);
    return 0;
}

/* --- copies --- */

void request_copy(const struct request *from, struct arena *arena, struct request *out)
{
    struct request_pair *headers = arena_array(arena, struct request_pair, from->headers_count);
    struct str *args = arena_array(arena, struct str, from->args_count);
    *out = *from;
    out->target = arena_str(arena, from->target);
    out->body = arena_str(arena, from->body);
    out->auth_user = arena_str(arena, from->auth_user);
    out->auth_secret = arena_str(arena, from->auth_secret);
    out->sign_secret = arena_str(arena, from->sign_secret);
    out->headers = headers;
    for (uint16_t i = 0; i < from->headers_count; i++)
        headers[i] = (struct request_pair){arena_str(arena, from->headers[i].name),
                                           arena_str(arena, from->headers[i].value)};
    out->args = args;
    for (uint16_t i = 0; i < from->args_count; i++)
        args[i] = arena_str(arena, from->args[i]);
    out->given = NULL; /* it stands in what was rendered */
}

bool request_same(const struct request *a, const struct request *b)
{
    bool same = a->action == b->action && str_eq(a->target, b->target) &&
                str_eq(a->body, b->body) && str_eq(a->auth_user, b->auth_user) &&
                str_eq(a->auth_secret, b->auth_secret) && str_eq(a->sign_secret, b->sign_secret) &&
                a->headers_count == b->headers_count && a->args_count == b->args_count;
    for (uint16_t i = 0; same && i < a->headers_count; i++)
        same = str_eq(a->headers[i].name, b->headers[i].name) &&
               str_eq(a->headers[i].value, b->headers[i].value);
    for (uint16_t i = 0; same && i < a->args_count; i++)
        same = str_eq(a->args[i], b->args[i]);
    return same;
}

/* --- for people --- */

static const struct json *text_or_json(struct str text, struct arena *arena)
{
    const struct json *value;
    struct err err;
    if (!text.ptr)
        return &json_null;
    if (json_parse(text, arena, &value, &err) == 0)
        return value;
    return json_string(arena, text);
}

const struct json *render_show(const struct rendered *rendered, struct arena *arena)
{
    const struct request *request = &rendered->request;
    const struct plan_action *action = request->action;
    struct json *out = json_object_new(arena, 8);
    if (rendered->key.ptr)
        json_object_add_z(out, "key", json_string(arena, rendered->key));
    json_object_add_z(out, "kind", json_string_z(arena, action_kind_name(action->kind)));
    if (request->service)
        json_object_add_z(out, "service", json_string_z(arena, request->service->name));
    if (action->kind == ACTION_HTTP)
        json_object_add_z(out, "method",
                          json_string_z(arena, http_method_name(action->http.method)));
    if (action->kind == ACTION_SQL)
        json_object_add_z(out, "statement", json_string_z(arena, action->sql.statement));
    if (request->target.ptr)
        json_object_add_z(out, "target", json_string(arena, request->target));
    if (request->args_count) {
        struct json *args = json_list_new(arena, request->args_count);
        for (uint16_t i = 0; i < request->args_count; i++)
            json_list_add(args,
                          request->args[i].ptr ? json_string(arena, request->args[i]) : &json_null);
        json_object_add_z(out, "args", args);
    }
    if (request->body.ptr)
        json_object_add_z(out, "body", text_or_json(request->body, arena));
    return out;
}
