/* alerts.c: a timer for each target: ask what there is, send it, write that it was told. */
#include "engine/alerts.h"

#include "dsl/expr.h"
#include "engine/base/json.h"
#include "engine/http_text.h"
#include "engine/log.h"

#include <ctype.h>
#include <stdlib.h>

#define ALERT_ID_BIT (UINT64_C(1) << 62)
#define MAGIC 0xa1e27500
#define LINES_MAX 5 /* runs that the text names */

struct watch {
    struct alerts *alerts;
    const struct alert_target *target;
    struct loop_timer *timer;
    uint64_t invocation; /* 0: none */
    uint64_t shards;     /* of the question */
    int64_t upto;
    unsigned failures; /* in a row */
};

struct alerts {
    unsigned magic;
    struct alerts_options o;
    struct watch *watches;
    uint64_t next;
    bool stopped;
};

static void look(void *arg);

struct alerts *alerts_new(const struct alerts_options *options)
{
    struct alerts *alerts = xcalloc(1, sizeof(*alerts));
    alerts->magic = MAGIC;
    alerts->o = *options;
    alerts->watches = xcalloc(options->count + 1, sizeof(*alerts->watches));
    for (unsigned i = 0; i < options->count; i++) {
        struct watch *watch = &alerts->watches[i];
        *watch = (struct watch){.alerts = alerts, .target = &options->targets[i]};
        watch->timer = loop_timer_new(options->loop, look, watch);
        loop_timer_set(watch->timer, MIN(watch->target->every_us, SECOND_US));
    }
    return alerts;
}

void alerts_stop(struct alerts *alerts)
{
    alerts->stopped = true;
    for (unsigned i = 0; i < alerts->o.count; i++)
        loop_timer_stop(alerts->watches[i].timer);
}

void alerts_free(struct alerts *alerts)
{
    if (!alerts)
        return;
    ASSERT(alerts->magic == MAGIC);
    for (unsigned i = 0; i < alerts->o.count; i++)
        loop_timer_free(alerts->watches[i].timer);
    free(alerts->watches);
    free(alerts);
}

static void look_after(struct watch *watch, int64_t pause_us)
{
    if (!watch->alerts->stopped)
        loop_timer_set(watch->timer, pause_us);
}

static void failed(struct watch *watch, const char *why)
{
    if (watch->failures == 0)
        log_warn("alerts: \"%s\" cannot be told: %s; it is tried again", watch->target->name, why);
    watch->failures++;
    look_after(watch,
               MIN(watch->target->every_us << MIN(watch->failures - 1, 16u), ALERTS_PAUSE_US));
}

/* --- the message ----------------------------------------------------------------------------- */

static struct str text_or(const struct json *value, const char *name, const char *otherwise)
{
    struct str text = json_get_text(value, name);
    return text.len ? text : str_z(otherwise);
}

/* A participant's code, in a line that chat programs may take for markup. */
static void code_text(struct str code, struct buf *out)
{
    buf_add_z(out, ", ");
    for (size_t i = 0; i < code.len; i++)
        buf_add_char(out, isalnum((unsigned char)code.ptr[i]) || strchr("_-.: ", code.ptr[i])
                              ? code.ptr[i]
                              : '?');
}

static void runs_text(const struct json *runs, uint64_t count, struct buf *out)
{
    buf_printf(out, count == 1 ? "%llu run waits for a person:" : "%llu runs wait for a person:",
               (unsigned long long)count);
    for (uint32_t i = 0; i < MIN(runs->count, (uint32_t)LINES_MAX); i++) {
        const struct json *run = runs->items[i];
        struct str step = json_get_text(run, "step"), code = json_get_text(run, "code");
        buf_printf(out, "%s " STR_FMT " (" STR_FMT ", " STR_FMT, i ? "," : "",
                   STR_ARG(json_get_text(run, "run_id")), STR_ARG(text_or(run, "workflow", "?")),
                   STR_ARG(json_get_text(run, "reason")));
        if (step.len)
            buf_printf(out, " at " STR_FMT, STR_ARG(step));
        if (code.len)
            code_text(code, out);
        buf_add_char(out, ')');
    }
    if (count > LINES_MAX)
        buf_add_z(out, " and more");
    buf_printf(out, ". sagactl dead show " STR_FMT,
               STR_ARG(json_get_text(runs->items[0], "run_id")));
}

/* One line for people; chat programs show the member `text`. */
static struct str text_make(const struct json *parked, const struct json *breakers,
                            struct arena *arena)
{
    struct buf out = {0};
    int64_t count = 0;
    const struct json *runs = json_get_z(parked, "runs");
    json_to_int(json_get_z(parked, "count"), &count);
    if (count && runs->count)
        runs_text(runs, (uint64_t)count, &out);
    for (uint32_t i = 0; i < breakers->count; i++)
        buf_printf(&out, "%s" STR_FMT " is down: its breaker is open", out.len ? "; " : "",
                   STR_ARG(json_get_text(breakers->items[i], "service")));
    struct str text = arena_str(arena, buf_str(&out));
    buf_free(&out);
    return text;
}

static struct str message_make(const struct watch *watch, const struct json *due,
                               struct arena *arena)
{
    struct json *message = json_object_new(arena, 6);
    const struct json *parked = json_get_z(due, "parked"), *breakers = json_get_z(due, "breakers");
    json_object_add_z(message, "text", json_string(arena, text_make(parked, breakers, arena)));
    json_object_add_z(message, "daemon", json_string_z(arena, watch->alerts->o.daemon));
    json_object_add_z(message, "at",
                      json_string(arena, wall_format(loop_wall(watch->alerts->o.loop), arena)));
    json_object_add_z(message, "parked", parked);
    json_object_add_z(message, "breakers", breakers);
    return json_text(message, arena);
}

/* --- sending --------------------------------------------------------------------------------- */

static int url_find(const struct watch *watch, struct arena *arena, const char **out,
                    struct err *err)
{
    const char *secret = watch->target->secret;
    struct str url;
    *out = watch->target->url;
    if (!secret)
        return 0;
    struct str reference =
        arena_printf(arena, "%c%s%c", EXPR_SECRET_MARK, secret, EXPR_SECRET_MARK);
    int code = secrets_resolve(watch->alerts->o.secrets, reference, arena, &url, err);
    if (code)
        return code;
    if (!str_starts(url, STR("https://")) && !str_starts(url, STR("http://")))
        return err_set(err, ERR_INVALID, "the secret \"%s\" is no URL", secret);
    *out = arena_str(arena, url).ptr;
    return 0;
}

static void start(struct watch *watch, const struct request *request)
{
    const struct port_invoke *invoke = watch->alerts->o.invoke;
    struct invocation invocation = {.id = ALERT_ID_BIT | ++watch->alerts->next,
                                    .request = request,
                                    .timeout_us = ALERTS_TIMEOUT_US};
    watch->invocation = invocation.id;
    invoke->start(invoke->arg, &invocation);
}

static int send_http(struct watch *watch, struct str body, struct arena *arena, struct err *err)
{
    const struct alert_target *target = watch->target;
    const struct request_pair headers[] = {{STR("Content-Type"), STR("application/json")}};
    const struct plan_action action = {
        .kind = ACTION_HTTP, .effect = EFFECT_PURE, .http = {.method = HTTP_POST}};
    const char *url;
    int code = url_find(watch, arena, &url, err);
    if (code)
        return code;
    struct plan_service service = {.name = target->name,
                                   .auth = target->bearer ? AUTH_BEARER : AUTH_NONE};
    struct request request = {.action = &action,
                              .service = &service,
                              .headers = headers,
                              .headers_count = ARRAY_LEN(headers),
                              .body = body};
    http_url_split(url, arena, &service.url, &request.target);
    if (target->bearer)
        request.auth_secret =
            arena_printf(arena, "%c%s%c", EXPR_SECRET_MARK, target->bearer, EXPR_SECRET_MARK);
    start(watch, &request);
    return 0;
}

static void send_exec(struct watch *watch, struct str body)
{
    const struct plan_action action = {.kind = ACTION_EXEC, .effect = EFFECT_PURE};
    const struct request request = {.action = &action,
                                    .args = watch->target->args,
                                    .args_count = watch->target->args_count,
                                    .body = body};
    start(watch, &request);
}

static void told(void *arg, const struct store_answer *answer)
{
    struct watch *watch = arg;
    if (answer->err.code) { /* it is told again */
        failed(watch, answer->err.text);
        return;
    }
    if (watch->failures)
        log_info("alerts: \"%s\" is told again", watch->target->name);
    watch->failures = 0;
    look_after(watch, watch->target->every_us);
}

bool alerts_sent(uint64_t invocation_id)
{
    return (invocation_id & (ALERT_ID_BIT | ALERT_ID_BIT << 1)) == ALERT_ID_BIT;
}

void alerts_reply(struct alerts *alerts, uint64_t invocation_id, const struct reply *reply)
{
    struct watch *watch = alerts->watches;
    char shards[24], upto[24], why[160];
    for (unsigned i = 0; i < alerts->o.count && watch->invocation != invocation_id; i++)
        watch++;
    if (!watch->target)
        return;
    watch->invocation = 0;
    bool taken = (reply->kind == REPLY_HTTP && reply->status >= 200 && reply->status <= 299) ||
                 (reply->kind == REPLY_EXEC && reply->status == 0);
    if (!taken) {
        if (reply->kind == REPLY_HTTP || reply->kind == REPLY_EXEC)
            snprintf(why, sizeof(why), "it answered %d", reply->status);
        else
            snprintf(why, sizeof(why), STR_FMT, STR_ARG(reply->error));
        failed(watch, why);
        return;
    }
    snprintf(shards, sizeof(shards), "%lld", (long long)watch->shards);
    snprintf(upto, sizeof(upto), "%lld", (long long)watch->upto);
    const char *params[] = {watch->target->name, shards, upto};
    store_pg_query(alerts->o.store, "select saga.alerts_told_v1($1, $2, $3)", params,
                   ARRAY_LEN(params), told, watch);
}

/* --- looking --------------------------------------------------------------------------------- */

static void due_came(void *arg, const struct store_answer *answer)
{
    struct watch *watch = arg;
    struct arena arena = {0};
    const struct json *due;
    struct err err = answer->err;
    if (watch->alerts->stopped)
        return;
    if (!err.code && !answer->text.ptr) {
        look_after(watch, watch->target->every_us);
        return;
    }
    if (!err.code && json_parse(answer->text, &arena, &due, &err) == 0) {
        json_to_int(json_get_z(due, "upto"), &watch->upto);
        struct str body = message_make(watch, due, &arena);
        if (watch->target->args)
            send_exec(watch, body);
        else if (send_http(watch, body, &arena, &err) != 0)
            failed(watch, err.text);
    } else if (err.code == ERR_UNAVAILABLE) {
        look_after(watch, watch->target->every_us);
    } else {
        failed(watch, err.text);
    }
    arena_free(&arena);
}

static void look(void *arg)
{
    struct watch *watch = arg;
    struct alerts *alerts = watch->alerts;
    const struct alert_target *target = watch->target;
    char shards[24], on[48] = "{";
    watch->shards = runner_stats(alerts->o.runner).shards;
    if (!watch->shards || !store_pg_can_answer(alerts->o.store)) {
        look_after(watch, target->every_us);
        return;
    }
    snprintf(on, sizeof(on), "{%s%s%s", target->on_parked ? "parked," : "",
             target->on_unknown ? "unknown," : "", target->on_breaker ? "breaker," : "");
    on[strlen(on) - 1] = '}';
    snprintf(shards, sizeof(shards), "%lld", (long long)watch->shards);
    const char *params[] = {target->name, shards, on};
    store_pg_query(alerts->o.store, "select saga.alerts_take_v1($1, $2, $3)", params,
                   ARRAY_LEN(params), due_came, watch);
}
