#include "engine/invoke_oauth.h"

#include "engine/base/json.h"
#include "engine/base/uri.h"
#include "engine/http_text.h"
#include "engine/idmap.h"
#include "engine/render.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN_TIMEOUT_US (10 * SECOND_US)
#define TOKEN_MARGIN_US                                                                    \
    (30 * SECOND_US)              /* no token is used that expires within this, or a tenth \
                                   */
#define TOKEN_FAILED_US SECOND_US /* how long a failure to get one holds for all */
#define TOKENS_MAX 256            /* services come and go with definitions */
/* Invocations of the runner count from 1; those for tokens have a range of their own. */
#define TOKEN_ID_BIT (UINT64_C(1) << 63)

/* An invocation that needs a token: a copy, because it may have to wait, or to be sent again. */
struct held {
    struct held *next; /* waits for the same token, or has been answered */
    struct arena arena;
    struct invoke_oauth *oauth;
    struct token *token;
    struct invocation invocation;
    struct request request;
    struct mono limit_at;
    struct loop_timer *timer; /* while it waits */
    bool waiting, again;      /* again: it was sent with a fresh token after a 401 */
    uint64_t serial;          /* of the token it was sent with */
    enum reply_kind ended_as;
    struct str error;
};

struct token {
    struct token *next;
    char *url, *client, *secret, *scope; /* what it is for; client and secret as references */
    char mask[64];                       /* what stands in its place where it was masked */
    struct str value;                    /* own memory; absent: none */
    uint64_t serial;                     /* counts the values */
    struct mono expires_at, failed_at;
    char *failure;
    uint64_t fetch_id; /* 0: none is under way */
    struct held *waiting;
};

struct invoke_oauth {
    struct invoke_oauth_options o;
    struct port_invoke port;
    struct token *tokens;
    unsigned tokens_count;
    struct idmap held, fetches;
    uint64_t next_fetch;
    struct held *ended;
    struct loop_call ended_call;
};

/* --- what is held ---------------------------------------------------------------------------- */

static struct held *held_new(struct invoke_oauth *oauth, const struct invocation *invocation)
{
    struct held *held = xcalloc(1, sizeof(*held));
    struct arena *arena = &held->arena;
    held->oauth = oauth;
    request_copy(invocation->request, arena, &held->request);
    held->invocation = *invocation;
    held->invocation.plan = plan_ref(invocation->plan); /* service and action lie in it */
    held->invocation.request = &held->request;
    held->invocation.run_id = arena_str(arena, invocation->run_id);
    held->invocation.step = arena_str(arena, invocation->step);
    held->invocation.key = arena_str(arena, invocation->key);
    held->invocation.compensates = arena_str(arena, invocation->compensates);
    held->invocation.reconciles = arena_str(arena, invocation->reconciles);
    held->limit_at.us = loop_mono().us + invocation->timeout_us;
    idmap_put(&oauth->held, invocation->id, held);
    return held;
}

static void held_free(struct held *held)
{
    loop_timer_free(held->timer);
    idmap_remove(&held->oauth->held, held->invocation.id);
    plan_unref(held->invocation.plan);
    arena_free(&held->arena);
    free(held);
}

static void ended_tell(void *arg)
{
    struct invoke_oauth *oauth = arg;
    while (oauth->ended) {
        struct held *held = oauth->ended;
        oauth->ended = held->next;
        struct wall now = loop_wall(oauth->o.loop);
        struct reply reply = {
            .kind = held->ended_as, .sent_at = now, .ended_at = now, .error = held->error};
        oauth->o.reply(oauth->o.reply_arg, held->invocation.id, &reply);
        held_free(held);
    }
}

/* Never from inside start or drop. */
static void held_end(struct held *held, enum reply_kind kind, const char *error)
{
    struct invoke_oauth *oauth = held->oauth;
    held->waiting = false;
    if (held->timer)
        loop_timer_stop(held->timer);
    held->ended_as = kind;
    held->error =
        arena_printf(&held->arena, "service \"%s\": %s", held->request.service->name, error);
    held->next = oauth->ended;
    oauth->ended = held;
    loop_defer(oauth->o.loop, &oauth->ended_call, ended_tell, oauth);
}

static void held_send(struct held *held)
{
    const struct token *token = held->token;
    held->waiting = false;
    if (held->timer)
        loop_timer_stop(held->timer);
    held->invocation.timeout_us = MAX(held->limit_at.us - loop_mono().us, MS_US);
    held->request.auth_user = STR_NONE;
    held->request.auth_secret = arena_str(&held->arena, token->value);
    held->serial = token->serial;
    held->oauth->o.http->start(held->oauth->o.http->arg, &held->invocation);
}

/* --- tokens ---------------------------------------------------------------------------------- */

static void token_free(struct token *token)
{
    free(token->url);
    free(token->client);
    free(token->secret);
    free(token->scope);
    free(token->failure);
    if (token->value.ptr)
        explicit_bzero((char *)token->value.ptr, token->value.len);
    free((char *)token->value.ptr);
    free(token);
}

static void idle_token_drop(struct invoke_oauth *oauth)
{
    struct token **at = &oauth->tokens, **last = NULL;
    for (; *at; at = &(*at)->next)
        if (!(*at)->fetch_id && !(*at)->waiting)
            last = at;
    for (size_t i = 0; last && i < oauth->held.size; i++) {
        struct held *held = oauth->held.slots[i].value;
        if (held && held->token == *last)
            return; /* it may have to be sent again: next time */
    }
    if (!last)
        return;
    struct token *token = *last;
    *last = token->next;
    oauth->tokens_count--;
    token_free(token);
}

static struct token *token_find(struct invoke_oauth *oauth, const struct plan_service *service,
                                const char *client, const char *secret)
{
    const char *scope = service->auth_scope ? service->auth_scope : "";
    for (struct token *token = oauth->tokens; token; token = token->next)
        if (strcmp(token->url, service->auth_token_url) == 0 &&
            strcmp(token->client, client) == 0 && strcmp(token->secret, secret) == 0 &&
            strcmp(token->scope, scope) == 0)
            return token;
    if (oauth->tokens_count >= TOKENS_MAX)
        idle_token_drop(oauth);
    struct token *token = xcalloc(1, sizeof(*token));
    token->url = xstrdup(service->auth_token_url);
    token->client = xstrdup(client);
    token->secret = xstrdup(secret);
    token->scope = xstrdup(scope);
    snprintf(token->mask, sizeof(token->mask), "%.40s.access_token", service->name);
    token->next = oauth->tokens;
    oauth->tokens = token;
    oauth->tokens_count++;
    return token;
}

static bool token_is_good(const struct token *token)
{
    return token->value.ptr && loop_mono().us < token->expires_at.us;
}

static void token_failed(struct token *token, const char *why)
{
    struct held *list = token->waiting;
    free(token->failure);
    token->failure = xstrdup(why);
    token->failed_at = loop_mono();
    token->waiting = NULL;
    for (struct held *held = list, *next; held; held = next) {
        next = held->next;
        held_end(held, REPLY_NOT_CONNECTED, why);
    }
}

static void field_add(struct buf *body, const char *name, struct str value)
{
    if (body->len)
        buf_add_char(body, '&');
    buf_printf(body, "%s=", name);
    uri_encode(value, body);
}

/* The body of the token request; the answer's error names what is missing. */
static int body_make(const struct invoke_oauth *oauth, const struct token *token,
                     struct arena *arena, struct str *out, struct err *err)
{
    struct str client, secret;
    struct buf body = {0};
    int code = secrets_resolve(oauth->o.secrets, str_z(token->client), arena, &client, err);
    if (!code)
        code = secrets_resolve(oauth->o.secrets, str_z(token->secret), arena, &secret, err);
    if (code)
        return code;
    field_add(&body, "grant_type", STR("client_credentials"));
    field_add(&body, "client_id", client);
    field_add(&body, "client_secret", secret);
    if (token->scope[0])
        field_add(&body, "scope", str_z(token->scope));
    *out = arena_str(arena, buf_str(&body));
    buf_free(&body);
    return 0;
}

static void token_fetch(struct invoke_oauth *oauth, struct token *token, const char *service_name)
{
    const struct request_pair headers[] = {
        {STR("Content-Type"), STR("application/x-www-form-urlencoded")},
        {STR("Accept"), STR("application/json")}};
    struct arena arena = {0};
    struct request request = {.headers = headers, .headers_count = ARRAY_LEN(headers)};
    struct err err;
    if (body_make(oauth, token, &arena, &request.body, &err) != 0) {
        token_failed(token, err.text);
        arena_free(&arena);
        return;
    }
    struct plan_service service = {.name = service_name};
    http_url_split(token->url, &arena, &service.url, &request.target);
    struct plan_action action = {
        .kind = ACTION_HTTP, .effect = EFFECT_PURE, .http = {.method = HTTP_POST}};
    request.action = &action;
    request.service = &service;
    struct invocation invocation = {.id = TOKEN_ID_BIT | ++oauth->next_fetch,
                                    .request = &request,
                                    .timeout_us = TOKEN_TIMEOUT_US};
    token->fetch_id = invocation.id;
    idmap_put(&oauth->fetches, invocation.id, token);
    oauth->o.http->start(oauth->o.http->arg, &invocation);
    arena_free(&arena);
}

/* {access_token, expires_in} of RFC 6749, section 5.1. */
static int answer_read(const struct reply *reply, struct arena *arena, struct str *value,
                       int64_t *life_us, struct err *err)
{
    const struct json *body = NULL, *expires;
    int64_t seconds;
    if (reply->kind != REPLY_HTTP)
        return err_set(err, ERR_UNAVAILABLE, "no access token: " STR_FMT, STR_ARG(reply->error));
    if (reply->body.len && json_parse(reply->body, arena, &body, err) != 0)
        body = NULL;
    if (reply->status != 200) {
        struct str code = json_get_text(body, "error");
        return err_set(err, ERR_UNAVAILABLE, "no access token: the token server answered %d %.*s",
                       reply->status, (int)MIN(code.len, (size_t)60), code.ptr ? code.ptr : "");
    }
    *value = json_get_text(body, "access_token");
    if (value->len < SECRET_BYTES_MIN)
        return err_set(err, ERR_UNAVAILABLE,
                       "no access token: the token server's answer holds no access_token of at "
                       "least %d characters",
                       SECRET_BYTES_MIN);
    expires = json_get_z(body, "expires_in");
    *life_us = TOKEN_LIFE_US;
    if (expires && json_to_int(expires, &seconds) && seconds > 0 && seconds < 10 * 365 * 86400)
        *life_us = seconds * SECOND_US;
    return 0;
}

static void token_answered(struct invoke_oauth *oauth, uint64_t id, const struct reply *reply)
{
    struct token *token = idmap_get(&oauth->fetches, id);
    struct arena arena = {0};
    struct str value = STR_NONE;
    int64_t life_us = 0;
    struct err err;
    idmap_remove(&oauth->fetches, id);
    token->fetch_id = 0;
    int code = answer_read(reply, &arena, &value, &life_us, &err);
    if (!code && oauth->o.secrets)
        code = secrets_add_value(oauth->o.secrets, token->mask, value, &err);
    if (code) {
        token_failed(token, err.text);
        arena_free(&arena);
        return;
    }
    char *copy = xmalloc(value.len + 1);
    memcpy(copy, value.ptr, value.len);
    copy[value.len] = '\0';
    free((char *)token->value.ptr);
    token->value = (struct str){copy, value.len};
    token->serial++;
    token->expires_at.us = loop_mono().us + life_us - MIN(TOKEN_MARGIN_US, life_us / 10);
    struct held *list = token->waiting;
    token->waiting = NULL;
    for (struct held *held = list, *next; held; held = next) {
        next = held->next;
        held_send(held);
    }
    arena_free(&arena);
}

static void waiting_remove(struct held *held)
{
    struct held **at = &held->token->waiting;
    while (*at != held)
        at = &(*at)->next;
    *at = held->next;
}

static void held_late(void *arg)
{
    struct held *held = arg;
    waiting_remove(held);
    held_end(held, REPLY_NOT_CONNECTED, "no access token came within the time limit");
}

/* Sends it now or when the token has come. */
static void held_go(struct held *held)
{
    struct token *token = held->token;
    if (token_is_good(token)) {
        held_send(held);
        return;
    }
    if (!token->fetch_id && token->failure &&
        loop_mono().us < token->failed_at.us + TOKEN_FAILED_US) {
        held_end(held, REPLY_NOT_CONNECTED, token->failure);
        return;
    }
    held->waiting = true;
    if (!held->timer)
        held->timer = loop_timer_new(held->oauth->o.loop, held_late, held);
    loop_timer_set(held->timer, MAX(held->limit_at.us - loop_mono().us, MS_US));
    held->next = token->waiting;
    token->waiting = held;
    if (!token->fetch_id)
        token_fetch(held->oauth, token, held->request.service->name);
}

/* --- the port -------------------------------------------------------------------------------- */

static void start(void *arg, const struct invocation *invocation)
{
    struct invoke_oauth *oauth = arg;
    const struct request *request = invocation->request;
    if (!request->service || request->service->auth != AUTH_OAUTH2) {
        oauth->o.http->start(oauth->o.http->arg, invocation);
        return;
    }
    struct held *held = held_new(oauth, invocation);
    struct arena *arena = &held->arena;
    held->token = token_find(oauth, request->service, arena_str(arena, request->auth_user).ptr,
                             arena_str(arena, request->auth_secret).ptr);
    held_go(held);
}

static void drop(void *arg, uint64_t invocation_id)
{
    struct invoke_oauth *oauth = arg;
    struct held *held = idmap_get(&oauth->held, invocation_id);
    if (!held || !held->waiting) {
        oauth->o.http->drop(oauth->o.http->arg, invocation_id);
        return;
    }
    waiting_remove(held);
    held_end(held, REPLY_NOT_SENT, "given up while it waited for an access token");
}

static void leave(void *arg, uint64_t invocation_id)
{
    struct invoke_oauth *oauth = arg;
    struct held *held = idmap_get(&oauth->held, invocation_id);
    if (held && held->waiting) {
        drop(oauth, invocation_id);
        return;
    }
    if (held)
        held->again = true; /* it is not sent a second time */
    oauth->o.http->leave(oauth->o.http->arg, invocation_id);
}

void invoke_oauth_reply(void *arg, uint64_t invocation_id, const struct reply *reply)
{
    struct invoke_oauth *oauth = arg;
    if (invocation_id & TOKEN_ID_BIT) {
        token_answered(oauth, invocation_id, reply);
        return;
    }
    struct held *held = idmap_get(&oauth->held, invocation_id);
    if (held && reply->kind == REPLY_HTTP && reply->status == 401 && !held->again) {
        held->again = true;
        if (held->serial == held->token->serial) /* else another one has fetched a new one */
            held->token->expires_at = loop_mono();
        held_go(held);
        return;
    }
    oauth->o.reply(oauth->o.reply_arg, invocation_id, reply);
    if (held)
        held_free(held);
}

struct invoke_oauth *invoke_oauth_new(const struct invoke_oauth_options *options)
{
    struct invoke_oauth *oauth = xcalloc(1, sizeof(*oauth));
    ASSERT(options->loop && options->reply && options->http);
    oauth->o = *options;
    oauth->port = (struct port_invoke){.arg = oauth, .start = start, .drop = drop, .leave = leave};
    return oauth;
}

const struct port_invoke *invoke_oauth_port(struct invoke_oauth *oauth)
{
    return &oauth->port;
}

void invoke_oauth_free(struct invoke_oauth *oauth)
{
    if (!oauth)
        return;
    loop_defer_cancel(oauth->o.loop, &oauth->ended_call);
    while (oauth->held.used)
        for (size_t i = 0; i < oauth->held.size; i++)
            if (oauth->held.slots[i].value)
                held_free(oauth->held.slots[i].value);
    for (struct token *next, *token = oauth->tokens; token; token = next) {
        next = token->next;
        token_free(token);
    }
    idmap_free(&oauth->held);
    idmap_free(&oauth->fetches);
    free(oauth);
}
