/*
 * lint.c: the saga rules. Each function is one rule with one code; dsl/explain.c has its page.
 */
#include "dsl/lint.h"

#include "dsl/compiler.h"

static const struct node *at_step(const struct compiler *cx, uint16_t index)
{
    const struct step_source *source = &cx->sources[index];
    return source->id ? source->id : source->node;
}

static bool can_fail(const struct plan_action *action)
{
    switch (action->kind) {
    case ACTION_SLEEP: return !action->sleep.duration_us;
    case ACTION_UNTIL: return false;
    case ACTION_WAIT_FOR:
        return action->timeout_us && action->wait_for.on_timeout == ON_TIMEOUT_REFUSED;
    case ACTION_CHILD: return !action->child.detached;
    case ACTION_NONE:
    case ACTION_HTTP:
    case ACTION_SQL:
    case ACTION_EXEC:
    case ACTION_WORKER: break;
    }
    return true;
}

/* A failure for good that turns the run back. A literal pause cannot fail. */
static bool turns_back(const struct plan_step *step)
{
    return can_fail(&step->action) && step->on_failure == ON_FAILURE_COMPENSATE;
}

static bool key_honoured(const struct plan_action *action)
{
    return action->idempotency.place != KEY_PLACE_NONE && action->idempotency.ttl_us > 0;
}

/* The action commits with its record, so its outcome is never unknown. */
static bool is_own_sql(const struct plan_action *action)
{
    return action->kind == ACTION_SQL && action->service == PLAN_SERVICE_NONE;
}

static const char *service_name(const struct compiler *cx, const struct plan_action *action)
{
    if (action->kind == ACTION_WORKER)
        return "the worker";
    if (action->service == PLAN_SERVICE_NONE)
        return "the program";
    return arena_printf(cx->scratch, "`%s`", cx->services[action->service].name).ptr;
}

/* Of each step the first pivot that every run has passed before it: one that it needs, or one that
 * was passed before those. They stand above it, so theirs are known. */
static void pivots_find(struct compiler *cx)
{
    for (uint16_t i = 0; i < cx->plan->steps_count; i++) {
        const struct plan_step *step = &cx->steps[i];
        uint16_t first = PLAN_STEP_NONE;
        for (uint16_t n = 0; n < step->needs_count; n++) {
            uint16_t need = step->needs[n];
            first = MIN(first, cx->sources[need].pivot_before);
            if (cx->steps[need].pivot && !cx->steps[need].condition)
                first = MIN(first, need);
        }
        cx->sources[i].pivot_before = first;
    }
}

static void compensation_missing(struct compiler *cx, uint16_t index)
{
    const struct plan_step *step = &cx->steps[index];
    enum effect_tier effect = step->action.effect;
    if (node_get_pair(cx->sources[index].node, "compensate") || cx->sources[index].broken ||
        step->action.kind == ACTION_CHILD ||
        (effect != EFFECT_IDEMPOTENT && effect != EFFECT_COMPENSABLE) ||
        cx->sources[index].pivot_before != PLAN_STEP_NONE)
        return;
    struct diag *diag = node_error(cx, "E301", at_step(cx, index),
                                   "step `%s` has an effect but no `compensate`", step->id);
    diag_help(cx->diags, diag,
              "add what undoes it, `compensate: {none: \"why not\"}`, or `effect: pure` if it only "
              "reads");
}

static void compensation_useless(struct compiler *cx, uint16_t index)
{
    const struct plan_step *step = &cx->steps[index];
    const struct pair *pair = node_get_pair(cx->sources[index].node, "compensate");
    struct diag *diag;
    if (!pair)
        return;
    enum action_kind kind = step->action.kind, undo = step->compensate.kind;
    if (action_kind_waits(kind)) {
        node_error(cx, "E303", pair->key, "`%s` has nothing to undo", action_kind_name(kind));
    } else if (kind == ACTION_CHILD) {
        node_error(cx, "E303", pair->key, "a `child` %s",
                   step->action.child.detached ? "that is detached is never undone"
                                               : "is undone by its own compensations");
    } else if (action_kind_waits(undo) || undo == ACTION_CHILD) {
        node_error(cx, "E303", pair->value, "`%s` undoes nothing", action_kind_name(undo));
    } else if (step->action.effect == EFFECT_PURE) {
        diag = node_error(cx, "E304", pair->key,
                          "step `%s` is pure: its compensation would never run", step->id);
        diag_help(cx->diags, diag, "say `effect: compensable` if the action changes something");
    } else if (step->action.effect == EFFECT_IRREVERSIBLE) {
        diag = node_error(cx, "E304", pair->key,
                          "step `%s` is irreversible: its compensation would never run", step->id);
        diag_help(cx->diags, diag, "say `effect: compensable` if it can be undone");
    }
}

static void failure_after_pivot(struct compiler *cx, uint16_t index)
{
    const struct plan_step *step = &cx->steps[index];
    uint16_t pivot = cx->sources[index].pivot_before;
    if (pivot == PLAN_STEP_NONE || !turns_back(step))
        return;
    struct diag *diag = node_warning(cx, "W301", at_step(cx, index),
                                     "step `%s` can fail after the pivot `%s`: the run would park",
                                     step->id, cx->steps[pivot].id);
    diag_help(cx->diags, diag,
              "move it before the pivot, or say `on_failure: park` or `on_failure: continue`");
}

static void irreversible_before_failure(struct compiler *cx, uint16_t index)
{
    const struct plan_step *step = &cx->steps[index];
    if (step->action.effect != EFFECT_IRREVERSIBLE || step->pivot)
        return;
    for (uint16_t i = (uint16_t)(index + 1); i < cx->plan->steps_count; i++) {
        if (!step_is_after(cx, i, index) || !turns_back(&cx->steps[i]) ||
            cx->sources[i].pivot_before != PLAN_STEP_NONE)
            continue;
        struct diag *diag = node_warning(
            cx, "W302", at_step(cx, index),
            "irreversible step `%s` runs before `%s`, which can fail and turn the run back",
            step->id, cx->steps[i].id);
        diag_help(cx->diags, diag, "put it last, after everything that can fail");
        return;
    }
}

static void pivot_beside_branch(struct compiler *cx, uint16_t index)
{
    const struct plan_step *step = &cx->steps[index];
    if (!step->pivot || step->hold) /* one that is held back waits for the branch */
        return;
    for (uint16_t i = 0; i < cx->plan->steps_count; i++) {
        bool beside = i != index && !step_is_after(cx, i, index) && !step_is_after(cx, index, i);
        if (!beside || cx->steps[i].compensate.kind == ACTION_NONE)
            continue;
        struct diag *diag = node_warning(
            cx, "W303", at_step(cx, index),
            "the pivot `%s` runs beside `%s`, which could no longer be undone after it", step->id,
            cx->steps[i].id);
        diag_help(cx->diags, diag, "let the pivot need it: `needs: [%s]`", cx->steps[i].id);
        return;
    }
}

/* What happens after an unknown outcome is safe only if it can be repeated, or asked about. */
static bool unknown_parks(const struct plan_action *action)
{
    return !action->reconcile && action->on_unknown == ON_UNKNOWN_NONE &&
           action->effect == EFFECT_COMPENSABLE && !action_kind_waits(action->kind) &&
           action->kind != ACTION_CHILD && !is_own_sql(action) && !key_honoured(action);
}

static void compensation_needs_output(struct compiler *cx, uint16_t index)
{
    const struct plan_step *step = &cx->steps[index];
    const struct step_source *source = &cx->sources[index];
    if (!source->uses_own_output || step->compensate.kind == ACTION_NONE ||
        !unknown_parks(&step->action))
        return;
    struct diag *diag = cx_warning(
        cx, "W304", source->own_output,
        "this is missing when the outcome of `%s` is unknown, so nothing can be undone", step->id);
    if (step->action.kind == ACTION_HTTP)
        diag_help(cx->diags, diag,
                  "undo by a reference of your own, declare how %s honours keys (`idempotency` "
                  "with a `ttl`), or how to ask it (`reconcile`)",
                  service_name(cx, &step->action));
    else
        diag_help(cx->diags, diag,
                  "undo by a reference of your own, such as `steps.%s.key` or the input", step->id);
}

static void retry_without_key(struct compiler *cx, uint16_t index)
{
    const struct plan_step *step = &cx->steps[index];
    const struct pair *own = node_get_pair(cx->sources[index].node, "retry");
    if (!own || step->action.retry.attempts < 2 || !unknown_parks(&step->action))
        return;
    struct diag *diag = node_warning(
        cx, "W305", own->key,
        "%s does not honour keys: after an unknown outcome `%s` is not retried, the run parks",
        service_name(cx, &step->action), step->id);
    if (step->action.kind == ACTION_HTTP)
        diag_help(cx->diags, diag,
                  "declare `idempotency` with a `ttl` if the service honours keys, `reconcile` if "
                  "it can be asked, or `effect: idempotent` if a repeat does no harm");
    else if (step->action.kind == ACTION_WORKER)
        diag_help(
            cx->diags, diag,
            "say `idempotency: {ttl: 24h}` if a worker does a key once, or `effect: idempotent` "
            "if a repeat does no harm");
    else if (step->action.kind == ACTION_SQL)
        diag_help(cx->diags, diag,
                  "say `idempotency: {ttl: 7d}` at the service where saga_guard is installed in "
                  "its database, or `effect: idempotent` if a repeat does no harm");
    else
        diag_help(cx->diags, diag, "say `effect: idempotent` if a repeat does no harm");
}

static void budget_past_ttl(struct compiler *cx, uint16_t index, const struct plan_action *action,
                            const char *what)
{
    int64_t ttl_us = action->idempotency.ttl_us;
    if (!key_honoured(action))
        return;
    if (action->timeout_us >= ttl_us || action->idempotency.settle_after_us >= ttl_us) {
        bool attempt = action->timeout_us >= ttl_us;
        struct diag *diag = node_warning(
            cx, "W306", at_step(cx, index),
            "%s of `%s` may take " STR_FMT " %s, but its key is honoured for " STR_FMT, what,
            cx->steps[index].id,
            STR_ARG(duration_format(
                attempt ? action->timeout_us : action->idempotency.settle_after_us, cx->scratch)),
            attempt ? "in one attempt" : "to settle",
            STR_ARG(duration_format(ttl_us, cx->scratch)));
        diag_help(cx->diags, diag, "past the ttl nothing is sent again: set a shorter `%s`",
                  attempt ? "timeout" : "settle_after");
        return;
    }
    if (action->retry.attempts < 2 || action->retry.budget_us <= ttl_us)
        return;
    struct diag *diag = node_warning(
        cx, "W306", at_step(cx, index),
        "%s of `%s` may be retried for " STR_FMT ", but its key is honoured for " STR_FMT, what,
        cx->steps[index].id, STR_ARG(duration_format(action->retry.budget_us, cx->scratch)),
        STR_ARG(duration_format(action->idempotency.ttl_us, cx->scratch)));
    diag_help(cx->diags, diag, "past the ttl nothing is sent again: set a shorter `budget`");
}

static void layer_warn(struct compiler *cx, const struct node *node)
{
    struct diag *diag =
        node_warning(cx, "W307", node, "the program retries by itself, under the engine's retries");
    diag_help(cx->diags, diag,
              "layers multiply, and only the outer one holds the key: let the engine retry");
}

static bool is_retrier(struct str program)
{
    static const char *const names[] = {"retry", "retry.sh", "backoff", "with-retries"};
    const char *slash = memrchr(program.ptr, '/', program.len);
    struct str name = slash ? str_z(slash + 1) : program;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (str_eq_z(name, names[i]))
            return true;
    return false;
}

static void layered_retries(struct compiler *cx, const struct node *step)
{
    static const char *const parts[] = {"action", "compensate"};
    for (size_t p = 0; p < ARRAY_LEN(parts); p++) {
        const struct node *argv = node_get(node_get(step, parts[p]), "exec");
        if (argv && argv->kind == NODE_LIST && argv->count && is_retrier(argv->items[0]->text)) {
            layer_warn(cx, argv->items[0]);
            continue;
        }
        for (uint32_t i = 1; argv && argv->kind == NODE_LIST && i < argv->count; i++) {
            struct str word = argv->items[i]->text;
            if (!str_starts(word, STR("--retry")) && !str_starts(word, STR("--retries")) &&
                !str_starts(word, STR("--max-retries")) && !str_starts(word, STR("--tries")))
                continue;
            layer_warn(cx, argv->items[i]);
        }
    }
}

static void budget_too_short(struct compiler *cx, uint16_t index)
{
    const struct plan_action *action = &cx->steps[index].action;
    const struct node *retry = node_get(cx->sources[index].node, "retry");
    const struct pair *budget = node_get_pair(retry, "budget");
    if (!budget || action->retry.attempts < 2 || action->retry.budget_us > action->timeout_us)
        return;
    struct diag *diag = node_warning(cx, "W308", budget->value,
                                     "the budget ends with the first attempt's timeout (" STR_FMT
                                     "): nothing is sent again after it",
                                     STR_ARG(duration_format(action->timeout_us, cx->scratch)));
    diag_help(cx->diags, diag, "make `timeout` shorter or `budget` longer");
}

static bool is_constant(const struct expr *expr)
{
    if (expr->op == EXPR_NAME || (expr->op >= EXPR_INPUT && expr->op <= EXPR_SECRET) ||
        (expr->op == EXPR_CALL && (expr->fn == FN_NOW || expr->fn == FN_NONE)))
        return false;
    for (uint16_t i = 0; i < expr->args_count; i++)
        if (!is_constant(expr->args[i]))
            return false;
    return true;
}

static bool never_true(struct compiler *cx, const struct expr *expr)
{
    struct expr_scope nothing = {.index = -1};
    struct err err;
    bool truth = true;
    if (expr->op == EXPR_AND)
        return never_true(cx, expr->args[0]) || never_true(cx, expr->args[1]);
    if (expr->op == EXPR_OR)
        return never_true(cx, expr->args[0]) && never_true(cx, expr->args[1]);
    return is_constant(expr) && expr_eval_bool(expr, &nothing, cx->scratch, &truth, &err) == 0 &&
           !truth;
}

static void never_runs(struct compiler *cx, uint16_t index)
{
    const struct expr *condition = cx->steps[index].condition;
    const struct pair *pair = node_get_pair(cx->sources[index].node, "if");
    if (pair && condition && never_true(cx, condition))
        node_warning(cx, "W309", pair->value, "step `%s` never runs", cx->steps[index].id);
}

static void pure_write(struct compiler *cx, uint16_t index)
{
    const struct plan_action *action = &cx->steps[index].action;
    const struct pair *pair = node_get_pair(cx->sources[index].node, "effect");
    if (!pair || action->effect != EFFECT_PURE || action->kind != ACTION_HTTP ||
        action->http.method == HTTP_GET || action->http.method == HTTP_POST)
        return;
    struct diag *diag = node_warning(
        cx, "W310", pair->value, "a `%s` is called pure: it is repeated freely and never undone",
        http_method_name(action->http.method));
    diag_help(cx->diags, diag, "say `effect: idempotent` if it changes something");
}

/* Whether an outcome rule makes "certainly not applied" of a status that says nothing. */
static bool doubt_is_retried(struct compiler *cx, const struct plan_action *action)
{
    static const int statuses[] = {500, 502, 504};
    for (size_t s = 0; s < ARRAY_LEN(statuses); s++) {
        struct json *response = json_object_new(cx->scratch, 3);
        struct expr_scope scope = {.index = -1, .response = response};
        json_object_add_z(response, "status", json_int(cx->scratch, statuses[s]));
        json_object_add_z(response, "headers", json_object_new(cx->scratch, 0));
        json_object_add_z(response, "body", json_object_new(cx->scratch, 0));
        for (uint16_t i = 0; i < action->outcomes_count; i++) {
            bool holds = false;
            struct err err;
            if (expr_eval_bool(action->outcomes[i].when, &scope, cx->scratch, &holds, &err) != 0 ||
                !holds)
                continue;
            if (action->outcomes[i].is == OUTCOME_RETRYABLE)
                return true;
            break;
        }
    }
    return false;
}

/* An answer that is lost or says nothing, and then another send that no key makes harmless. */
static void executed_twice(struct compiler *cx, uint16_t index, const struct plan_action *action,
                           const char *part)
{
    const struct pair *pair = node_get_pair(cx->sources[index].node, part);
    struct diag *diag;
    if (!pair || action->kind != ACTION_HTTP || action->http.method == HTTP_GET ||
        key_honoured(action) || action->retry.attempts < 2 || action->effect == EFFECT_PURE)
        return;
    if (action->effect == EFFECT_IDEMPOTENT &&
        (action->http.method == HTTP_POST || action->http.method == HTTP_PATCH)) {
        diag = node_warning(cx, "W314", pair->key,
                            "after a timeout this `%s` is sent again, and %s honours no keys: it "
                            "can be executed twice",
                            http_method_name(action->http.method), service_name(cx, action));
        diag_help(cx->diags, diag,
                  "declare `idempotency` with a `ttl`, or `effect: compensable` if a repeat is not "
                  "harmless");
    } else if (action->effect != EFFECT_IDEMPOTENT && !cx->diags->errors &&
               doubt_is_retried(cx, action)) {
        diag = node_warning(cx, "W314", pair->key,
                            "a 5xx that may have been applied counts as `retryable`, and %s "
                            "honours no keys: it can be executed twice",
                            service_name(cx, action));
        diag_help(cx->diags, diag,
                  "only 503 says that nothing was done: leave 500, 502 and 504 to the default");
    }
}

static void loop_without_names(struct compiler *cx, uint16_t index)
{
    const struct plan_step *step = &cx->steps[index];
    const struct pair *pair = node_get_pair(cx->sources[index].node, "for_each");
    if (!pair || step->key_by || step->action.effect == EFFECT_PURE ||
        !cx->sources[index].list_of_answer)
        return;
    struct diag *diag = node_warning(
        cx, "W312", pair->value,
        "the items come from a service, which may list them in another order: `%s.0` is no name "
        "for one of them",
        step->id);
    diag_help(cx->diags, diag, "name each by what it is: `key_by: item.id`");
}

static bool may_be_skipped(const struct compiler *cx, uint16_t index)
{
    return cx->steps[index].condition || cx->steps[index].on_failure == ON_FAILURE_CONTINUE;
}

/* A skipped or failed branch counts as done, so the join opens without it. Branches that exclude
 * each other are all conditional: then that is what the author means. */
static void join_without_branch(struct compiler *cx, uint16_t index)
{
    const struct plan_step *step = &cx->steps[index];
    const struct node *needs = node_get(cx->sources[index].node, "needs");
    uint16_t certain = 0;
    if (!needs || step->needs_count < 2 || step->action.effect == EFFECT_PURE)
        return;
    for (uint16_t i = 0; i < step->needs_count; i++)
        certain += !may_be_skipped(cx, step->needs[i]);
    for (uint16_t i = 0; certain && i < step->needs_count; i++) {
        uint16_t need = step->needs[i];
        if (!may_be_skipped(cx, need) || step_mentions(cx, index, need))
            continue;
        struct diag *diag = node_warning(cx, "W313", needs,
                                         "step `%s` runs also when `%s` was skipped or has failed",
                                         step->id, cx->steps[need].id);
        diag_help(cx->diags, diag,
                  "say when it may: `if: steps.%s.state == 'applied'`, or drop it from `needs`",
                  cx->steps[need].id);
        return;
    }
}

static int64_t least_wait(const struct plan_step *step)
{
    if (step->condition || step->for_each)
        return 0;
    if (step->action.kind == ACTION_SLEEP)
        return step->action.sleep.duration_us;
    return 0;
}

/* The deadline ends with a pivot; before one, a run that must wait longer always turns back. */
static void waits_past_deadline(struct compiler *cx)
{
    int64_t deadline_us = cx->plan->deadline_us;
    int64_t *waited = arena_array(cx->scratch, int64_t, cx->plan->steps_count);
    for (uint16_t i = 0; deadline_us && i < cx->plan->steps_count; i++) {
        const struct plan_step *step = &cx->steps[i];
        bool signal = step->action.kind == ACTION_WAIT_FOR;
        int64_t before_us = 0;
        for (uint16_t n = 0; n < step->needs_count; n++)
            before_us = MAX(before_us, waited[step->needs[n]]);
        waited[i] = MIN(before_us + least_wait(step), DURATION_US_MAX);
        if (cx->sources[i].pivot_before != PLAN_STEP_NONE)
            continue;
        struct diag *diag = NULL;
        if (before_us < deadline_us && waited[i] >= deadline_us)
            diag = node_warning(cx, "W316", at_step(cx, i),
                                "with `%s` the run waits " STR_FMT ", but its deadline ends "
                                "after " STR_FMT,
                                step->id, STR_ARG(duration_format(waited[i], cx->scratch)),
                                STR_ARG(duration_format(deadline_us, cx->scratch)));
        else if (signal && step->action.timeout_us >= deadline_us)
            diag = node_warning(
                cx, "W316", at_step(cx, i),
                "`%s` may wait " STR_FMT ", but the run's deadline ends after " STR_FMT
                ": `on_timeout` never decides",
                step->id, STR_ARG(duration_format(step->action.timeout_us, cx->scratch)),
                STR_ARG(duration_format(deadline_us, cx->scratch)));
        if (diag)
            diag_help(cx->diags, diag, "make the `deadline` longer, or the wait shorter");
    }
}

static void run_id_missing(struct compiler *cx)
{
    bool effects = false;
    for (uint16_t i = 0; i < cx->plan->steps_count; i++)
        effects = effects || cx->steps[i].action.effect > EFFECT_PURE;
    if (!effects || cx->plan->run_id)
        return;
    struct diag *diag = node_warning(cx, "W311", cx->doc->root,
                                     "the workflow has effects but no `run_id`: a submit that is "
                                     "repeated runs them again");
    diag_help(cx->diags, diag, "name the business key: `run_id: order-${{ input.order_id }}`");
}

void lint_check(struct compiler *cx)
{
    pivots_find(cx);
    for (uint16_t i = 0; i < cx->plan->steps_count; i++) {
        if (cx->steps[i].action.kind == ACTION_NONE)
            continue;
        compensation_missing(cx, i);
        compensation_useless(cx, i);
        failure_after_pivot(cx, i);
        irreversible_before_failure(cx, i);
        pivot_beside_branch(cx, i);
        compensation_needs_output(cx, i);
        retry_without_key(cx, i);
        budget_past_ttl(cx, i, &cx->steps[i].action, "the action");
        budget_past_ttl(cx, i, &cx->steps[i].compensate, "the compensation");
        layered_retries(cx, cx->sources[i].node);
        budget_too_short(cx, i);
        never_runs(cx, i);
        pure_write(cx, i);
        executed_twice(cx, i, &cx->steps[i].action, "action");
        executed_twice(cx, i, &cx->steps[i].compensate, "compensate");
        loop_without_names(cx, i);
        join_without_branch(cx, i);
    }
    waits_past_deadline(cx);
    run_id_missing(cx);
}
