/*
 * compile_wait.c: actions that no service takes part in: waits, workers and children.
 */
#include "dsl/compiler.h"

static const char *on_timeout_word(int value)
{
    return value <= ON_TIMEOUT_PARK ? on_timeout_name((enum on_timeout)value) : "";
}

/* NULL, and diagnosed, if `node` is no name; `what` starts the message. */
static const char *name_read(struct compiler *cx, const struct node *node, const char *what)
{
    struct str name;
    if (!read_text(cx, node, what, &name))
        return NULL;
    if (node->kind == NODE_TEXT && name_is_valid(name, true))
        return name.ptr;
    struct diag *diag =
        node_error(cx, "E106", node, "`" STR_FMT "` cannot be the name in %s", STR_ARG(name), what);
    diag_help(cx->diags, diag,
              "it starts with a small letter and has only a-z, 0-9, `_` and `-`, at most 63");
    return NULL;
}

/* --- waits --- */

void sleep_compile(struct compiler *cx, const struct pair *kind, uint16_t index, bool compensation,
                   struct plan_action *out)
{
    struct expr_rules rules = action_rules(cx, index, compensation, "`sleep`");
    size_t start, end;
    if (kind->value->kind == NODE_TEXT && template_hole_find(kind->value->text, 0, &start, &end)) {
        rules.kinds = KIND_TEXT | KIND_DURATION;
        out->sleep.duration = text_template_compile(cx, kind->value, &rules);
        return;
    }
    if (read_duration(cx, kind->value, "`sleep`", MS_US, &out->sleep.duration_us))
        out->sleep.duration =
            literal_template(cx, json_string(cx->arena, arena_str(cx->arena, kind->value->text)));
}

void until_compile(struct compiler *cx, const struct pair *kind, uint16_t index, bool compensation,
                   struct plan_action *out)
{
    const struct node *node = kind->value;
    struct expr_rules rules = action_rules(cx, index, compensation, "`until`");
    struct wall time;
    int64_t us;
    struct diag *diag;
    if (node->kind == NODE_TEXT && wall_parse(node->text, &time)) {
        diag = node_error(cx, "E201", node, "`until` is an expression");
        diag_help(cx->diags, diag, "write `until: \"timestamp('" STR_FMT "')\"`",
                  STR_ARG(node->text));
        return;
    }
    if (node->kind == NODE_TEXT && duration_parse(node->text, &us)) {
        diag = node_error(cx, "E201", node, "`until` is a time, not a duration");
        diag_help(cx->diags, diag, "write `sleep: " STR_FMT "`", STR_ARG(node->text));
        return;
    }
    const struct expr *expr = expression_compile(cx, node, &rules, KIND_TEXT | KIND_TIME,
                                                 "a time, or the RFC 3339 text of one", NULL);
    out->until.until = expr;
    if (expr && expr->op == EXPR_LITERAL && expr->literal->kind == JSON_STRING &&
        !wall_parse(expr->literal->text, &time))
        node_error(cx, "E206", node, "this is no time such as '2026-10-25T02:30:00Z'");
}

void wait_for_compile(struct compiler *cx, const struct node *node, const struct pair *kind,
                      uint16_t index, struct plan_action *out)
{
    const struct pair *on_timeout = node_get_pair(node, "on_timeout");
    int value;
    out->wait_for.signal = name_read(cx, kind->value, "`wait_for`");
    out->wait_for.on_timeout = ON_TIMEOUT_REFUSED;
    if (!on_timeout)
        return;
    if (read_choice(cx, on_timeout->value, LANG_ACTION, "on_timeout", on_timeout_word, &value))
        out->wait_for.on_timeout = (enum on_timeout)value;
    if (!node_get_pair(cx->sources[index].node, "timeout")) {
        struct diag *diag = node_error(cx, "E102", on_timeout->key,
                                       "`on_timeout` needs the step's `timeout`: without one the "
                                       "wait has no limit");
        diag_help(cx->diags, diag, "write `timeout: 2h` beside `action`");
    }
}

/* --- workers --- */

/* The task itself carries the key: what is to be said is only for how long a worker does a key
 * once. */
static void task_key_compile(struct compiler *cx, const struct node *node,
                             struct plan_idempotency *out)
{
    static const char *const places[] = {"header", "query", "body", "format"};
    const struct node *ttl;
    if (!node || (node->kind == NODE_TEXT && str_eq(node->text, STR("none"))))
        return;
    if (node->kind != NODE_MAP) {
        struct diag *diag = node_error(cx, "E103", node, "`idempotency` must be a map or `none`");
        diag_help(cx->diags, diag, "write {ttl: 24h}");
        return;
    }
    if (!keys_check(cx, node, LANG_IDEMPOTENCY))
        return;
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        const struct pair *pair = node_get_pair(node, places[i]);
        if (pair)
            node_error(cx, "E111", pair->key,
                       "a worker gets the key with its task: say only `ttl`");
    }
    ttl = node_get(node, "ttl");
    if (ttl && read_duration(cx, ttl, "`ttl`", SECOND_US, &out->ttl_us))
        out->place = KEY_PLACE_TASK;
}

void worker_compile(struct compiler *cx, const struct node *node, const struct pair *kind,
                    uint16_t index, bool compensation, struct plan_action *out)
{
    struct expr_rules rules = action_rules(cx, index, compensation, "`payload`");
    const struct node *part;
    out->worker.queue = name_read(cx, kind->value, "`worker`");
    if ((part = node_get(node, "payload")))
        out->worker.payload = template_compile(cx, part, &rules);
    if ((part = node_get(node, "schedule_timeout")))
        read_duration(cx, part, "`schedule_timeout`", MS_US, &out->worker.schedule_timeout_us);
    if ((part = node_get(node, "heartbeat")))
        read_duration(cx, part, "`heartbeat`", MS_US, &out->worker.heartbeat_us);
    task_key_compile(cx, node_get(node, "idempotency"), &out->idempotency);
}

/* --- children --- */

/* A literal that can be no object. */
static void child_input_check(struct compiler *cx, const struct node *input)
{
    size_t start, end;
    if (input->kind == NODE_MAP ||
        (input->kind == NODE_TEXT && template_hole_find(input->text, 0, &start, &end)))
        return;
    struct diag *diag = node_error(cx, "E103", input, "the input of a child must be a map, not %s",
                                   node_kind_name(input));
    diag_help(cx->diags, diag, "write `input: {order_id: \"${{ input.order_id }}\"}`");
}

void child_compile(struct compiler *cx, const struct node *node, const struct pair *kind,
                   uint16_t index, bool compensation, struct plan_action *out)
{
    struct expr_rules rules = action_rules(cx, index, compensation, "`input` of a child");
    const struct node *input = node_get(node, "input"), *detached = node_get(node, "detached");
    const struct pair *effect = node_get_pair(cx->sources[index].node, "effect");
    if (input && input->kind == NODE_TEXT)
        rules.kinds = KIND_OBJECT;
    out->child.workflow = name_read(cx, kind->value, "`child`");
    if (input) {
        child_input_check(cx, input);
        out->child.input = template_compile(cx, input, &rules);
    }
    if (detached)
        read_boolean(cx, detached, "`detached`", &out->child.detached);
    if (effect && !compensation && !str_eq(effect->value->text, STR("compensable"))) {
        struct diag *diag =
            node_error(cx, "E111", effect->key, "`effect` does not belong to a `child`");
        diag_help(cx->diags, diag,
                  "its own steps say what they do; `pivot: true` forbids the way back");
    }
}

void child_undo_fill(struct compiler *cx, struct plan_step *step)
{
    const struct plan_action *action = &step->action;
    step->action.effect = EFFECT_COMPENSABLE;
    if (action->child.detached) {
        step->compensate = (struct plan_action){.service = PLAN_SERVICE_NONE};
        step->compensate_none = "a detached child runs on by itself";
        return;
    }
    step->compensate = (struct plan_action){
        .kind = ACTION_CHILD,
        .effect = EFFECT_IDEMPOTENT, /* the engine's own request to its own run */
        .service = PLAN_SERVICE_NONE,
        .retry = cx->compensate_retry,
        .line = action->line,
        .child = {.workflow = action->child.workflow},
    };
}
