/*
 * derive.c: types of compiled expressions and templates. They are read off the tree each time, not
 * kept with it: what a child gives depends on the workflows that are known when somebody asks.
 */
#include "dsl/type.h"

/* Both bound the recursion: parts of expressions, and templates of children that run each other. */
#define DEPTH_MAX (EXPR_NODES_MAX + 500)
#define TEMPLATES_MAX 100

struct derivation {
    struct type_source *from;
    const struct plan *plan;
    uint16_t step; /* for `item`; PLAN_STEP_NONE: there is none */
    struct type vars[EXPR_LOOPS_MAX];
};

static struct type derive(struct derivation *d, const struct expr *expr);

/* As wide as its compiler left it. */
static struct type type_compiled(const struct expr *expr)
{
    return type_of(expr->kinds ? expr->kinds : KINDS_JSON);
}

static struct type derive_item(struct derivation *d)
{
    const struct expr *list = d->step == PLAN_STEP_NONE ? NULL : d->plan->steps[d->step].for_each;
    return list ? type_item(derive(d, list)) : type_any;
}

static struct type derive_select(struct derivation *d, const struct expr *expr)
{
    struct type field;
    type_field(d->from, derive(d, expr->args[0]), expr->name, &field);
    return field;
}

static struct type derive_list(struct derivation *d, const struct expr *expr)
{
    struct type item = {.kinds = 0};
    for (uint16_t i = 0; i < expr->args_count; i++) {
        struct type type = type_as_json(derive(d, expr->args[i]));
        item = i ? type_join(item, type) : type;
    }
    return type_of_list(item.kinds ? item : type_any, d->from->arena);
}

/* The functions whose value has the structure of what they are given. */
static struct type derive_call(struct derivation *d, const struct expr *expr)
{
    struct type first, second;
    if (expr->fn == FN_FILTER)
        return derive(d, expr->args[0]);
    if (expr->fn == FN_DEFAULT) {
        first = derive(d, expr->args[0]);
        second = derive(d, expr->args[1]);
        first.kinds &= ~(unsigned)KIND_NULL;
        return first.kinds ? type_join(first, second) : second;
    }
    if (expr->fn != FN_MAP)
        return type_compiled(expr);
    first = derive(d, expr->args[0]);
    d->vars[expr->slot] = first.kinds & KIND_OBJECT ? type_any : type_item(first);
    second = type_as_json(derive(d, expr->args[1]));
    return type_of_list(second.kinds ? second : type_any, d->from->arena);
}

static struct type derive_structure(struct derivation *d, const struct expr *expr)
{
    struct type of;
    switch (expr->op) {
    case EXPR_INPUT: return d->plan->input ? type_of_schema(d->plan->input) : type_of(KIND_OBJECT);
    case EXPR_STEP:
        return expr->field == EXPR_FIELD_OUTPUT
                   ? type_of_output(d->from, d->plan, expr->step, d->step)
                   : type_compiled(expr);
    case EXPR_ITEM: return derive_item(d);
    case EXPR_VAR: return d->vars[expr->slot];
    case EXPR_SELECT: return derive_select(d, expr);
    case EXPR_AT:
        of = derive(d, expr->args[0]);
        return of.kinds & KIND_OBJECT ? type_any : type_item(of);
    case EXPR_COND: return type_join(derive(d, expr->args[1]), derive(d, expr->args[2]));
    case EXPR_LIST: return derive_list(d, expr);
    case EXPR_CALL: return derive_call(d, expr);
    case EXPR_NONE:
    case EXPR_NAME:
    case EXPR_LITERAL:
    case EXPR_OMIT:
    case EXPR_INDEX:
    case EXPR_TICK:
    case EXPR_RESPONSE:
    case EXPR_ANSWER:
    case EXPR_KEY:
    case EXPR_RUN_ID:
    case EXPR_RUN_STARTED_AT:
    case EXPR_ENV:
    case EXPR_SECRET:
    case EXPR_NOT:
    case EXPR_NEGATE:
    case EXPR_EQ:
    case EXPR_NE:
    case EXPR_LT:
    case EXPR_LE:
    case EXPR_GT:
    case EXPR_GE:
    case EXPR_AND:
    case EXPR_OR:
    case EXPR_ADD:
    case EXPR_SUB:
    case EXPR_MUL:
    case EXPR_IN: break;
    }
    return type_compiled(expr);
}

/* Both say at most what it can be: so it is of a kind that both allow. */
static struct type derive(struct derivation *d, const struct expr *expr)
{
    if (++d->from->visits > TYPE_VISITS_MAX || d->from->depth >= DEPTH_MAX)
        return type_any;
    d->from->depth++;
    struct type type = derive_structure(d, expr);
    d->from->depth--;
    if (type.kinds & type_compiled(expr).kinds)
        type.kinds &= type_compiled(expr).kinds;
    return type;
}

static struct type derive_template(struct type_source *from, const struct plan *plan, uint16_t step,
                                   const struct template *template)
{
    struct derivation d = {.from = from, .plan = plan, .step = step};
    struct type type = {.kinds = 0};
    switch (template->kind) {
    case TEMPLATE_LITERAL: return type_of(json_kind_bit(template->literal));
    case TEMPLATE_TEXT: return type_of(KIND_TEXT);
    case TEMPLATE_EXPR: type = type_as_json(derive(&d, template->expr)); break;
    case TEMPLATE_OBJECT:
        return (struct type){
            .kinds = KIND_OBJECT, .made = template, .maker = plan, .maker_step = step};
    case TEMPLATE_LIST:
        for (uint32_t i = 0; i < template->count; i++) {
            struct type item = type_of_template(from, plan, step, template->members[i].value);
            type = i ? type_join(type, item) : item;
        }
        return type_of_list(type.kinds ? type : type_any, from->arena);
    }
    return type.kinds ? type : type_any;
}

struct type type_of_template(struct type_source *from, const struct plan *plan, uint16_t step,
                             const struct template *template)
{
    if (from->templates >= TEMPLATES_MAX)
        return type_any;
    from->templates++;
    struct type type = derive_template(from, plan, step, template);
    from->templates--;
    return type;
}

struct type type_of_child(struct type_source *from, const char *workflow)
{
    const struct plan *child = NULL;
    for (size_t i = 0; from->known && i < from->known->count && !child; i++)
        if (from->known->list[i] && strcmp(from->known->list[i]->workflow, workflow) == 0)
            child = from->known->list[i];
    if (!child)
        return type_any;
    return child->output ? type_of_template(from, child, PLAN_STEP_NONE, child->output)
                         : type_of(KIND_NULL);
}

static struct type own_output(struct type_source *from, const struct plan_step *step)
{
    if (step->output_schema)
        return type_of_schema(step->output_schema);
    switch (step->action.kind) {
    case ACTION_SQL: return (struct type){.kinds = KIND_OBJECT, .shape = response_of_sql};
    case ACTION_SLEEP:
    case ACTION_UNTIL: return type_of(KIND_NULL);
    case ACTION_CHILD:
        return step->action.child.detached ? type_any
                                           : type_of_child(from, step->action.child.workflow);
    case ACTION_NONE:
    case ACTION_HTTP:
    case ACTION_EXEC:
    case ACTION_WORKER:
    case ACTION_WAIT_FOR: break;
    }
    return type_any;
}

struct type type_of_output(struct type_source *from, const struct plan *plan, uint16_t step,
                           uint16_t reader)
{
    struct type output = own_output(from, &plan->steps[step]);
    if (!plan->steps[step].for_each || reader == step)
        return output;
    output.kinds |= KIND_NULL;
    return type_of_list(output, from->arena);
}
