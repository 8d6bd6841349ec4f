/*
 * compile_copy.c: copies of what a plan takes from the daemon's configuration, which may be
 * reloaded while the plan lives.
 */
#include "dsl/compiler.h"

static const struct json *json_copy(struct arena *arena, const struct json *value)
{
    struct json *copy;
    switch (value->kind) {
    case JSON_NONE:
    case JSON_NULL: return &json_null;
    case JSON_BOOL: return json_bool(value->boolean);
    case JSON_NUMBER: return json_number(arena, arena_str(arena, value->text));
    case JSON_STRING: return json_string(arena, arena_str(arena, value->text));
    case JSON_LIST:
        copy = json_list_new(arena, value->count);
        for (uint32_t i = 0; i < value->count; i++)
            json_list_add(copy, json_copy(arena, value->items[i]));
        return copy;
    case JSON_OBJECT:
        copy = json_object_new(arena, value->count);
        for (uint32_t i = 0; i < value->count; i++)
            json_object_add(copy, arena_str(arena, value->members[i].name),
                            json_copy(arena, value->members[i].value));
        return copy;
    }
    return &json_null;
}

static struct expr *expr_copy(struct arena *arena, const struct expr *expr)
{
    struct expr *copy;
    if (!expr)
        return NULL;
    copy = arena_new(arena, struct expr);
    *copy = *expr;
    copy->name = arena_str(arena, expr->name);
    if (expr->op == EXPR_LITERAL)
        copy->literal = json_copy(arena, expr->literal);
    else if (expr->zone)
        copy->zone = zone_copy(arena, expr->zone);
    copy->args = arena_array(arena, struct expr *, expr->args_count);
    for (uint16_t i = 0; i < expr->args_count; i++)
        copy->args[i] = expr_copy(arena, expr->args[i]);
    return copy;
}

static const struct template *template_copy(struct arena *arena, const struct template *template)
{
    struct template *copy;
    if (!template)
        return NULL;
    copy = arena_new(arena, struct template);
    *copy = *template;
    switch (template->kind) {
    case TEMPLATE_LITERAL: copy->literal = json_copy(arena, template->literal); break;
    case TEMPLATE_EXPR: copy->expr = expr_copy(arena, template->expr); break;
    case TEMPLATE_TEXT: {
        struct template_part *parts = arena_array(arena, struct template_part, template->count);
        for (uint32_t i = 0; i < template->count; i++) {
            parts[i].text = arena_str(arena, template->parts[i].text);
            parts[i].expr = expr_copy(arena, template->parts[i].expr);
        }
        copy->parts = parts;
        break;
    }
    case TEMPLATE_LIST:
    case TEMPLATE_OBJECT: {
        struct template_member *members =
            arena_array(arena, struct template_member, template->count);
        for (uint32_t i = 0; i < template->count; i++) {
            members[i].name = arena_str(arena, template->members[i].name);
            members[i].value = template_copy(arena, template->members[i].value);
        }
        copy->members = members;
        break;
    }
    }
    return copy;
}

static const struct plan_named *headers_copy(struct arena *arena, const struct plan_service *from)
{
    struct plan_named *headers = arena_array(arena, struct plan_named, from->headers_count);
    for (uint16_t i = 0; i < from->headers_count; i++) {
        headers[i].name = arena_strdup(arena, from->headers[i].name);
        headers[i].value = template_copy(arena, from->headers[i].value);
    }
    return headers;
}

static const struct plan_outcome_rule *outcomes_copy(struct arena *arena,
                                                     const struct plan_service *from)
{
    struct plan_outcome_rule *rules =
        arena_array(arena, struct plan_outcome_rule, from->outcomes_count);
    for (uint16_t i = 0; i < from->outcomes_count; i++) {
        rules[i].when = expr_copy(arena, from->outcomes[i].when);
        rules[i].is = from->outcomes[i].is;
    }
    return rules;
}

/* `limits` and `breaker` are taken whole, each by itself. */
static void limits_override(struct plan_limits *limits, const struct plan_limits *by)
{
    struct plan_limits breaker = by->breaker_failures ? *by : *limits;
    if (by->in_flight || by->rate || by->retries_limited)
        *limits = *by;
    limits->breaker_failures = breaker.breaker_failures;
    limits->breaker_window_us = breaker.breaker_window_us;
    limits->breaker_open_us = breaker.breaker_open_us;
}

void service_override(struct arena *arena, struct plan_service *service,
                      const struct plan_service *by)
{
    if (by->url)
        service->url = arena_strdup(arena, by->url);
    if (by->timeout_us)
        service->timeout_us = by->timeout_us;
    if (by->idempotency.place != KEY_PLACE_NONE) {
        service->idempotency = by->idempotency;
        service->idempotency.name = arena_strdup(arena, by->idempotency.name);
    }
    if (by->headers_count) {
        service->headers = headers_copy(arena, by);
        service->headers_count = by->headers_count;
    }
    if (by->auth != AUTH_NONE) {
        service->auth = by->auth;
        service->auth_user = template_copy(arena, by->auth_user);
        service->auth_secret = template_copy(arena, by->auth_secret);
        service->auth_token_url =
            by->auth_token_url ? arena_strdup(arena, by->auth_token_url) : NULL;
        service->auth_scope = by->auth_scope ? arena_strdup(arena, by->auth_scope) : NULL;
    }
    limits_override(&service->limits, &by->limits);
    if (by->sign_secret)
        service->sign_secret = template_copy(arena, by->sign_secret);
    if (by->outcomes_count) {
        service->outcomes = outcomes_copy(arena, by);
        service->outcomes_count = by->outcomes_count;
    }
}
