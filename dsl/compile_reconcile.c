/*
 * compile_reconcile.c: how a participant is asked, and what an unknown outcome does.
 */
#include "dsl/compiler.h"

#define EVERY_US (5 * SECOND_US)
#define MAX_EVERY_US MINUTE_US
#define FOR_US (10 * MINUTE_US)

static const char *on_unknown_word(int value)
{
    return value <= ON_UNKNOWN_PARK ? on_unknown_name((enum on_unknown)value) : "";
}

/* Why nothing about the action is ever unknown, or NULL. */
static const char *never_unknown(const struct plan_action *action)
{
    if (action->kind == ACTION_SQL && action->service == PLAN_SERVICE_NONE)
        return "a statement in the engine's own database commits with its record";
    if (action->kind == ACTION_CHILD)
        return "what became of a child is known";
    if (action_kind_waits(action->kind))
        return "waiting has no effect";
    return NULL;
}

static void intervals_compile(struct compiler *cx, const struct node *node,
                              const struct plan_action *action, struct plan_reconcile *out)
{
    const struct node *part;
    bool max_given = node_get(node, "max_every") != NULL;
    out->every_us = EVERY_US;
    out->max_every_us = MAX_EVERY_US;
    out->for_us = FOR_US;
    out->settle_after_us = action->idempotency.settle_after_us;
    if ((part = node_get(node, "settle_after")))
        read_duration(cx, part, "`settle_after`", 0, &out->settle_after_us);
    if ((part = node_get(node, "every")))
        read_duration(cx, part, "`every`", 10 * MS_US, &out->every_us);
    if ((part = node_get(node, "max_every")))
        read_duration(cx, part, "`max_every`", 10 * MS_US, &out->max_every_us);
    if ((part = node_get(node, "for")))
        read_duration(cx, part, "`for`", 10 * MS_US, &out->for_us);
    if ((part = node_get(node, "timeout")))
        read_duration(cx, part, "`timeout`", MS_US, &out->ask.timeout_us);
    if (out->max_every_us < out->every_us && max_given)
        node_error(cx, "E109", node_get(node, "max_every"), "`max_every` is shorter than `every`");
    out->max_every_us = MAX(out->max_every_us, out->every_us);
}

static void proofs_compile(struct compiler *cx, const struct node *node, uint16_t index,
                           bool compensation, struct plan_reconcile *out)
{
    static const char *const names[] = {"applied", "in_progress", "refused", "not_applied"};
    const struct expr **places[] = {&out->applied, &out->in_progress, &out->refused,
                                    &out->not_applied};
    const struct node *part;
    struct expr_rules rules = action_rules(cx, index, compensation, "`reconcile`");
    rules.roots |= ROOT_RESPONSE;
    rules.response = response_shape(&out->ask);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if ((part = node_get(node, names[i])))
            *places[i] = condition_compile(cx, part, &rules);
    if (!node_get_pair(node, "applied") && !node_get_pair(node, "not_applied")) {
        struct diag *diag = node_error(cx, "E102", node,
                                       "`reconcile` needs `applied` or `not_applied`: else its "
                                       "answer proves nothing");
        diag_help(cx->diags, diag, "write `applied: size(response.body.data) > 0`");
    }
    if ((part = node_get(node, "output")))
        out->output = template_compile(cx, part, &rules);
}

/* A path that is one value is an address that the service gave. */
static const struct expr *location_of(const struct plan_action *ask)
{
    const struct template *path = ask->kind == ACTION_HTTP ? ask->http.path : NULL;
    bool whole = path && path->kind == TEMPLATE_TEXT && path->count == 2 &&
                 str_eq(path->parts[0].text, STR("/")) && !path->parts[1].expr &&
                 !path->parts[1].text.len;
    return whole ? path->parts[0].expr : NULL;
}

void reconcile_compile(struct compiler *cx, const struct pair *pair, uint16_t index,
                       bool compensation, struct plan_action *action)
{
    struct plan_reconcile *made;
    const char *why = action->kind == ACTION_NONE ? NULL : never_unknown(action);
    if (!pair || !keys_check(cx, pair->value, LANG_RECONCILE))
        return;
    if (why) {
        struct diag *diag =
            node_error(cx, "E308", pair->key, "`reconcile` has nothing to ask about: %s", why);
        diag_help(cx->diags, diag, "leave it out");
        return;
    }
    made = arena_new(cx->arena, struct plan_reconcile);
    cx->more_roots = ROOT_ANSWER;
    bool reads = read_compile(cx, pair->value, index, compensation, &made->ask);
    if (made->ask.kind == ACTION_HTTP && reads)
        made->ask.http.location = location_of(&made->ask);
    intervals_compile(cx, pair->value, action, made);
    if (made->ask.kind != ACTION_NONE) /* else it is not known what `response` is */
        proofs_compile(cx, pair->value, index, compensation, made);
    cx->more_roots = 0;
    if (made->ask.kind != ACTION_NONE)
        action->reconcile = made;
}

void on_unknown_compile(struct compiler *cx, uint16_t index)
{
    const struct pair *pair = node_get_pair(cx->sources[index].node, "on_unknown");
    struct plan_action *action = &cx->steps[index].action;
    const char *why = action->kind == ACTION_NONE ? NULL : never_unknown(action);
    struct diag *diag;
    int value;
    if (!pair || !read_choice(cx, pair->value, LANG_STEP, "on_unknown", on_unknown_word, &value))
        return;
    action->on_unknown = (enum on_unknown)value;
    if (why) {
        diag = node_error(cx, "E308", pair->key, "`on_unknown` never decides: %s", why);
        diag_help(cx->diags, diag, "leave it out");
    } else if (action->on_unknown == ON_UNKNOWN_RETRY && action->effect == EFFECT_IRREVERSIBLE) {
        diag = node_error(cx, "E309", pair->value,
                          "an irreversible action is never repeated after an unknown outcome");
        diag_help(cx->diags, diag,
                  "declare `reconcile`: what is proven not applied is sent again by itself");
    } else if (action->on_unknown == ON_UNKNOWN_RECONCILE &&
               !node_get_pair(cx->sources[index].node, "reconcile")) {
        diag = node_error(cx, "E102", pair->value,
                          "`on_unknown: reconcile` needs `reconcile` beside it");
        diag_help(cx->diags, diag,
                  "say how to ask: `reconcile: {get: ..., applied: ..., not_applied: ...}`");
    } else if (action->on_unknown == ON_UNKNOWN_RETRY && action->effect == EFFECT_COMPENSABLE &&
               !action->idempotency.ttl_us) {
        diag = node_warning(cx, "W318", pair->value,
                            "the service honours no keys: sent again, `%s` can be executed twice",
                            cx->steps[index].id);
        diag_help(cx->diags, diag,
                  "declare `idempotency` with a `ttl`, or `reconcile`, or leave it to the tier");
    }
}
