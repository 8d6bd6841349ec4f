/*
 * check_expr.c: resolves the names of an expression and checks its types, as far as they are
 * known: what comes from a service can be anything, what the input's schema declares cannot.
 * Every part is checked, so that one expression may report several mistakes.
 */
#include "dsl/type.h"

#include <stdarg.h>
#include <stdio.h>

struct variable {
    struct str name;
    struct type type;
};

struct checker {
    struct compiler *cx;
    const struct node *node;
    size_t from_byte; /* of the expression in the node's text */
    const struct expr_rules *rules;
    struct variable vars[EXPR_LOOPS_MAX];
    uint16_t vars_count;
    struct type_source from;
    bool guarded; /* inside has() or default(): a missing value is expected */
};

static const struct shape shape_run[] = {
    {"id", KIND_TEXT, NULL}, {"started_at", KIND_TIME, NULL}, {NULL, 0, NULL}};
static const struct shape shape_error[] = {{"code", KIND_TEXT | KIND_NULL, NULL},
                                           {"status", KIND_NUMBER | KIND_NULL, NULL},
                                           {"message", KIND_TEXT | KIND_NULL, NULL},
                                           {"body", KINDS_JSON, NULL},
                                           {NULL, 0, NULL}};
static const struct shape shape_step[] = {{"output", KINDS_JSON, NULL},
                                          {"state", KIND_TEXT, NULL},
                                          {"error", KIND_OBJECT | KIND_NULL, shape_error},
                                          {"key", KIND_TEXT, NULL},
                                          {NULL, 0, NULL}};
const struct shape response_of_http[] = {{"status", KIND_NUMBER, NULL},
                                         {"headers", KIND_OBJECT, NULL},
                                         {"body", KINDS_JSON, NULL},
                                         {NULL, 0, NULL}};
const struct shape response_of_sql[] = {
    {"rows", KIND_LIST, NULL}, {"count", KIND_NUMBER, NULL}, {NULL, 0, NULL}};
const struct shape response_of_exec[] = {{"exit", KIND_NUMBER | KIND_NULL, NULL},
                                         {"stdout", KINDS_JSON, NULL},
                                         {"stderr", KIND_TEXT, NULL},
                                         {NULL, 0, NULL}};

const struct shape response_of_worker[] = {{"status", KIND_TEXT, NULL}, /* completed, failed */
                                           {"body", KINDS_JSON, NULL},
                                           {NULL, 0, NULL}};

/* Roots in the order of messages. */
static const struct root {
    const char *name;
    unsigned bit;
    enum expr_op op; /* EXPR_NONE: only with a field */
    const char *use; /* where it can be used, or how */
} roots[] = {
    {"input", ROOT_INPUT, EXPR_INPUT, "wherever there is a run"},
    {"steps", ROOT_STEPS, EXPR_NONE, "steps.ID.output"},
    {"run", ROOT_RUN, EXPR_NONE, "run.id"},
    {"key", ROOT_KEY, EXPR_KEY, "in an action or a compensation"},
    {"response", ROOT_RESPONSE, EXPR_RESPONSE, "in `outcomes` and `reconcile`"},
    {"env", ROOT_ENV, EXPR_NONE, "env.NAME"},
    {"secrets", ROOT_SECRETS, EXPR_NONE, "secrets.NAME"},
    {"item", ROOT_ITEM, EXPR_ITEM, "in a step with `for_each`"},
    {"index", ROOT_ITEM, EXPR_INDEX, "in a step with `for_each`"},
    {"tick", ROOT_TICK, EXPR_TICK, "in the `input` of a `schedule`"},
    {"answer", ROOT_ANSWER, EXPR_ANSWER, "in `reconcile`"},
};

static const struct function {
    const char *name;
    enum expr_form form;
    unsigned args;
} functions[] = {{"", EXPR_FORM_CALL, 0},
#define X(id, name, form, args, help) {name, EXPR_FORM_##form, args},
                 EXPR_FUNCTIONS(X)
#undef X
};

static struct type check(struct checker *k, struct expr *expr);
static struct type check_name(struct checker *k, struct expr *expr);
static struct type check_select(struct checker *k, struct expr *expr);
static struct type check_at(struct checker *k, struct expr *expr);
static struct type check_operator(struct checker *k, struct expr *expr);
static struct type check_call(struct checker *k, struct expr *expr);

/* --- messages --- */

static struct place part_place(const struct checker *k, uint32_t start, uint32_t end)
{
    return text_place(k->cx, k->node, k->from_byte + start, k->from_byte + MAX(end, start + 1));
}

static struct diag *PRINTF_LIKE(5, 6)
    bad(struct checker *k, const char *code, uint32_t start, uint32_t end, const char *fmt, ...)
{
    char message[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);
    return cx_error(k->cx, code, part_place(k, start, end), "%s", message);
}

static void nearest_help(struct checker *k, struct diag *diag, const char *kind, struct str word,
                         const char *const *names, size_t count)
{
    if (!diag_is_seen(k->cx->diags, diag))
        return;
    const char *nearest = diag_nearest(word, names, count);
    if (nearest)
        diag_help(k->cx->diags, diag, "a %s with a similar name exists: `%s`", kind, nearest);
}

/* The source of a part, for messages; cut when long. */
static struct str part_text(const struct checker *k, const struct expr *expr)
{
    struct str text = {k->node->text.ptr + k->from_byte + expr->start, expr->end - expr->start};
    if (text.len > 60)
        text.len = 60;
    while (text.len && !str_is_utf8(text))
        text.len--;
    return text;
}

/* False, and diagnosed, if the value can be none of `wanted`. */
static bool need(struct checker *k, const struct expr *expr, struct type type, unsigned wanted)
{
    if (type.kinds & KIND_SECRET) {
        struct diag *diag =
            bad(k, "E213", expr->start, expr->end, "a secret cannot be used inside an expression");
        diag_help(k->cx->diags, diag,
                  "a secret stands alone in its hole, as in \"Bearer ${{ secrets.NAME }}\"");
        return false;
    }
    if (type.kinds & wanted)
        return true;
    bad(k, "E206", expr->start, expr->end, "`" STR_FMT "` is %s, but %s is needed here",
        STR_ARG(part_text(k, expr)), kinds_name(type.kinds, k->cx->scratch),
        kinds_name(wanted, k->cx->scratch));
    return false;
}

/* --- names --- */

static const struct root *root_find(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(roots); i++)
        if (str_eq_z(name, roots[i].name))
            return &roots[i];
    return NULL;
}

static enum expr_fn function_find(struct str name)
{
    for (size_t i = 1; i < ARRAY_LEN(functions); i++)
        if (str_eq_z(name, functions[i].name))
            return (enum expr_fn)i;
    return FN_NONE;
}

static int variable_find(const struct checker *k, struct str name)
{
    for (int i = k->vars_count - 1; i >= 0; i--)
        if (str_eq(k->vars[i].name, name))
            return i;
    return -1;
}

static bool root_allowed(struct checker *k, const struct expr *expr, const struct root *root)
{
    if (k->rules->roots & root->bit)
        return true;
    uint32_t end = expr->start + (uint32_t)strlen(root->name);
    struct diag *diag;
    if (root->bit == ROOT_SECRETS) {
        diag = bad(k, "E210", expr->start, end, "a secret would be stored by %s", k->rules->where);
        diag_help(
            k->cx->diags, diag,
            "secrets may stand only in `auth`, in `sign`, in `headers` and in `env` of an exec");
        return false;
    }
    diag =
        bad(k, "E209", expr->start, end, "`%s` cannot be used in %s", root->name, k->rules->where);
    if (root->op != EXPR_NONE)
        diag_help(k->cx->diags, diag, "it is known only %s", root->use);
    return false;
}

static struct type root_type(struct checker *k, enum expr_op op)
{
    switch (op) {
    case EXPR_INPUT:
        return k->cx->plan->input ? type_of_schema(k->cx->plan->input) : type_of(KIND_OBJECT);
    case EXPR_RESPONSE: return (struct type){.kinds = KIND_OBJECT, .shape = k->rules->response};
    case EXPR_KEY: return type_of(KIND_TEXT);
    case EXPR_INDEX: return type_of(KIND_NUMBER);
    case EXPR_TICK: return type_of(KIND_TEXT);
    case EXPR_ITEM: {
        const struct type *item =
            k->rules->step == PLAN_STEP_NONE ? NULL : k->cx->sources[k->rules->step].item;
        return item ? *item : type_any;
    }
    default: return type_any;
    }
}

static void unknown_name(struct checker *k, const struct expr *expr)
{
    const char *names[ARRAY_LEN(roots) + EXPR_LOOPS_MAX];
    size_t count = 0;
    struct diag *diag = bad(k, "E202", expr->start, expr->end,
                            "unknown name `" STR_FMT "` in expression", STR_ARG(expr->name));
    if (function_find(expr->name) != FN_NONE) {
        diag_help(k->cx->diags, diag, "it is a function: write `" STR_FMT "(...)`",
                  STR_ARG(expr->name));
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(roots); i++)
        names[count++] = roots[i].name;
    for (uint16_t i = 0; i < k->vars_count; i++)
        names[count++] = arena_str(k->cx->scratch, k->vars[i].name).ptr;
    const char *nearest = diag_nearest(expr->name, names, count);
    if (nearest)
        diag_help(k->cx->diags, diag, "did you mean `%s`?", nearest);
    else
        diag_help(k->cx->diags, diag,
                  "a text needs quotes: '" STR_FMT "'; a value starts with `input.` or `steps.`",
                  STR_ARG(expr->name));
}

static struct type check_name(struct checker *k, struct expr *expr)
{
    int slot = variable_find(k, expr->name);
    if (slot >= 0) {
        expr->op = EXPR_VAR;
        expr->slot = (uint16_t)slot;
        return k->vars[slot].type;
    }
    const struct root *root = root_find(expr->name);
    if (!root) {
        unknown_name(k, expr);
        return type_any;
    }
    if (root->op == EXPR_NONE) {
        struct diag *diag =
            bad(k, "E202", expr->start, expr->end, "`%s` alone has no value", root->name);
        diag_help(k->cx->diags, diag, "write `%s`", root->use);
        return type_any;
    }
    if (!root_allowed(k, expr, root))
        return type_any;
    expr->op = root->op;
    return root_type(k, root->op);
}

static const struct shape *shape_find(const struct shape *fields, struct str name)
{
    for (const struct shape *field = fields; field->name; field++)
        if (str_eq_z(name, field->name))
            return field;
    return NULL;
}

static struct type shape_type(const struct shape *field)
{
    return (struct type){.kinds = field->kinds, .shape = field->fields};
}

static struct diag *unknown_field(struct checker *k, const struct expr *expr,
                                  const char *const *names, size_t count)
{
    const struct expr *of = expr->args[0];
    struct diag *diag =
        bad(k, "E204", expr->at, expr->end, "unknown field `" STR_FMT "` of `" STR_FMT "`",
            STR_ARG(expr->name), STR_ARG(part_text(k, of)));
    const char *nearest = diag_nearest(expr->name, names, count);
    if (nearest)
        diag_help(k->cx->diags, diag, "a field with a similar name exists: `%s`", nearest);
    return diag;
}

static void fields_help(struct checker *k, struct diag *diag, const char *const *names,
                        size_t count)
{
    struct buf list = {0};
    for (size_t i = 0; i < count; i++)
        buf_printf(&list, "%s`%s`", i ? ", " : "", names[i]);
    diag_help(k->cx->diags, diag, "it has %s", count ? list.data : "no fields");
    buf_free(&list);
}

static void unknown_shape_field(struct checker *k, const struct expr *expr,
                                const struct shape *fields)
{
    const char *names[16] = {NULL};
    struct type of = {.kinds = KIND_OBJECT, .shape = fields};
    size_t count = type_names(of, names, ARRAY_LEN(names), k->cx->scratch);
    struct diag *diag = unknown_field(k, expr, names, count);
    if (!diag->help.ptr)
        fields_help(k, diag, names, count);
}

/* Of an object that a schema declares or a child's `output` makes. */
static void unknown_declared_field(struct checker *k, const struct expr *expr, struct type of)
{
    const char *names[256];
    size_t count = type_names(of, names, ARRAY_LEN(names), k->cx->scratch);
    struct diag *diag = unknown_field(k, expr, names, count);
    if (diag->help.ptr)
        return;
    if (of.made && count <= 16)
        fields_help(k, diag, names, count);
    else
        diag_help(k->cx->diags, diag, "declare it under `properties` of the schema");
}

/* --- steps --- */

static bool is_true(const struct node *node)
{
    return node && node->kind == NODE_BOOL && node->boolean;
}

/* Of the file, not of the plan: a step that stands below is not compiled yet. */
static struct type output_type(struct checker *k, uint16_t step)
{
    const struct node *action = node_get(k->cx->sources[step].node, "action");
    const struct node *child = node_get(action, "child");
    if (k->cx->steps[step].output_schema)
        return type_of_schema(k->cx->steps[step].output_schema);
    if (node_get(action, "sql"))
        return (struct type){.kinds = KIND_OBJECT, .shape = response_of_sql};
    if (node_get(action, "sleep") || node_get(action, "until"))
        return type_of(KIND_NULL);
    if (child && child->kind == NODE_TEXT && !is_true(node_get(action, "detached")))
        return type_of_child(&k->from, arena_str(k->cx->scratch, child->text).ptr);
    return type_any;
}

/* A loop's output is the list of its instances', null where one was not applied; inside its own
 * compensation it is the instance's. */
static struct type step_output_type(struct checker *k, uint16_t step)
{
    struct type output = output_type(k, step);
    if (!k->cx->sources[step].loop || k->rules->step == step)
        return output;
    output.kinds |= KIND_NULL;
    return type_of_list(output, k->cx->scratch);
}

/* Whether the step has run, if it runs at all, before this place is evaluated. */
static bool step_visible(struct checker *k, const struct expr *expr, uint16_t step)
{
    const struct expr_rules *rules = k->rules;
    const char *id = k->cx->step_ids[step];
    uint32_t start = expr->at, end = expr->end;
    if (rules->steps == STEPS_ALL || rules->step == PLAN_STEP_NONE ||
        step_is_after(k->cx, rules->step, step) ||
        (rules->steps == STEPS_BEFORE_AND_OWN && step == rules->step))
        return true;
    if (step == rules->step) {
        bad(k, "E205", start, end, "step `%s` cannot read itself before it ran", id);
        return false;
    }
    struct diag *diag = bad(k, "E205", start, end, "step `%s` need not have run before `%s`", id,
                            k->cx->step_ids[rules->step]);
    if (step_is_after(k->cx, step, rules->step))
        diag_help(k->cx->diags, diag, "`%s` runs after `%s`: move it up", id,
                  k->cx->step_ids[rules->step]);
    else
        diag_help(k->cx->diags, diag, "add it to `needs` of `%s`", k->cx->step_ids[rules->step]);
    return false;
}

static void absent_output_note(struct checker *k, const struct expr *expr, uint16_t step)
{
    struct compiler *cx = k->cx;
    bool own = k->rules->step == step;
    if (k->guarded)
        return;
    if (own && !cx->sources[step].uses_own_output) {
        cx->sources[step].uses_own_output = true;
        cx->sources[step].own_output = part_place(k, expr->start, expr->end);
    }
    if (own || k->rules->guarded || !cx->sources[step].may_be_absent)
        return;
    struct diag *diag =
        cx_warning(cx, "W203", part_place(k, expr->start, expr->end),
                   "step `%s` may have no output: it can be skipped or fail", cx->step_ids[step]);
    diag_help(cx->diags, diag, "use default(" STR_FMT ", ...) or has(...)",
              STR_ARG(part_text(k, expr)));
}

/* steps.ID.FIELD: `expr` selects FIELD of a selection of ID. */
static struct type check_step(struct checker *k, struct expr *expr)
{
    struct expr *of = expr->args[0];
    const struct shape *field = shape_find(shape_step, expr->name);
    if (!root_allowed(k, of->args[0], root_find(STR("steps"))))
        return type_any;
    uint16_t step = step_by_id(k->cx, of->name);
    if (step == PLAN_STEP_NONE) {
        struct diag *diag = bad(k, "E203", of->at, of->end,
                                "unknown step `" STR_FMT "` in expression", STR_ARG(of->name));
        nearest_help(k, diag, "step", of->name, k->cx->step_ids, k->cx->plan->steps_count);
        return type_any;
    }
    if (!field) {
        unknown_shape_field(k, expr, shape_step);
        return type_any;
    }
    if (!step_visible(k, of, step))
        return type_any;
    enum expr_field which = (enum expr_field)(field - shape_step);
    if (k->rules->step != PLAN_STEP_NONE)
        k->cx->sources[k->rules->step].mentions[step / 64] |= UINT64_C(1) << step % 64;
    expr->op = EXPR_STEP;
    expr->step = step;
    expr->field = which;
    expr->name = of->name;
    expr->args_count = 0;
    if (which != EXPR_FIELD_OUTPUT)
        return shape_type(field);
    absent_output_note(k, expr, step);
    return step_output_type(k, step);
}

static struct type check_env(struct checker *k, struct expr *expr)
{
    const struct dsl_options *options = k->cx->options;
    if (!root_allowed(k, expr->args[0], root_find(STR("env"))))
        return type_any;
    expr->op = EXPR_ENV;
    expr->args_count = 0;
    if (!options) /* no daemon to ask */
        return type_of(KIND_TEXT);
    for (uint16_t i = 0; i < options->env_names_count; i++)
        if (str_eq_z(expr->name, options->env_names[i]))
            return type_of(KIND_TEXT);
    struct diag *diag = bad(k, "E215", expr->at, expr->end,
                            "the daemon's configuration lets no workflow read `env." STR_FMT "`",
                            STR_ARG(expr->name));
    nearest_help(k, diag, "name", expr->name, options->env_names, options->env_names_count);
    return type_any;
}

/* run.id, env.NAME, secrets.NAME and steps.ID.FIELD; false: nothing of that kind. */
static bool check_root_field(struct checker *k, struct expr *expr, struct type *out)
{
    struct expr *of = expr->args[0];
    if (of->op == EXPR_SELECT && of->args[0]->op == EXPR_NAME &&
        str_eq(of->args[0]->name, STR("steps")) && variable_find(k, of->args[0]->name) < 0) {
        *out = check_step(k, expr);
        return true;
    }
    if (of->op != EXPR_NAME || variable_find(k, of->name) >= 0)
        return false;
    const struct root *root = root_find(of->name);
    if (!root || root->op != EXPR_NONE)
        return false;
    *out = type_any;
    if (root->bit == ROOT_ENV) {
        *out = check_env(k, expr);
    } else if (root->bit == ROOT_SECRETS) {
        if (!root_allowed(k, of, root))
            return true;
        expr->op = EXPR_SECRET;
        expr->args_count = 0;
        *out = type_of(KIND_SECRET);
    } else if (root->bit == ROOT_RUN) {
        const struct shape *field = shape_find(shape_run, expr->name);
        if (!root_allowed(k, of, root))
            return true;
        if (!field) {
            unknown_shape_field(k, expr, shape_run);
            return true;
        }
        expr->op = field == shape_run ? EXPR_RUN_ID : EXPR_RUN_STARTED_AT;
        expr->args_count = 0;
        *out = shape_type(field);
    } else { /* steps.ID with nothing after it */
        struct diag *diag = bad(k, "E202", expr->start, expr->end,
                                "`" STR_FMT "` alone has no value", STR_ARG(part_text(k, expr)));
        diag_help(k->cx->diags, diag, "write `" STR_FMT ".output`, `.state`, `.error` or `.key`",
                  STR_ARG(part_text(k, expr)));
    }
    return true;
}

static struct type check_select(struct checker *k, struct expr *expr)
{
    struct type type;
    if (check_root_field(k, expr, &type))
        return type;
    struct type of = check(k, expr->args[0]);
    if (of.kinds & KIND_SECRET || !(of.kinds & KIND_OBJECT)) {
        if (of.kinds & KIND_SECRET)
            need(k, expr->args[0], of, KIND_OBJECT);
        else
            bad(k, "E204", expr->at, expr->end,
                "`" STR_FMT "` is %s and has no field `" STR_FMT "`",
                STR_ARG(part_text(k, expr->args[0])), kinds_name(of.kinds, k->cx->scratch),
                STR_ARG(expr->name));
        return type_any;
    }
    if (type_field(&k->from, of, expr->name, &type) != FIELD_UNKNOWN)
        return type;
    if (of.shape)
        unknown_shape_field(k, expr, of.shape);
    else
        unknown_declared_field(k, expr, of);
    return type_any;
}

static struct type check_at(struct checker *k, struct expr *expr)
{
    struct type of = check(k, expr->args[0]), at = check(k, expr->args[1]);
    if (!need(k, expr->args[0], of, KIND_LIST | KIND_OBJECT))
        return type_any;
    unsigned wanted =
        (of.kinds & KIND_LIST ? KIND_NUMBER : 0) | (of.kinds & KIND_OBJECT ? KIND_TEXT : 0);
    if (!need(k, expr->args[1], at, wanted) || of.kinds & KIND_OBJECT)
        return type_any;
    return type_item(of);
}

/* --- operators --- */

/* steps.x.state == 'aplied' would be false for ever. */
static void state_word_check(struct checker *k, const struct expr *state, const struct expr *word)
{
    static const char *const words[] = {"pending", "claimed", "retrying", "waiting",  "unknown",
                                        "applied", "refused", "skipped",  "withdrawn"};
    if (state->op != EXPR_STEP || state->field != EXPR_FIELD_STATE || word->op != EXPR_LITERAL ||
        word->literal->kind != JSON_STRING)
        return;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (str_eq_z(word->literal->text, words[i]))
            return;
    struct diag *diag = bad(k, "E206", word->start, word->end, "no step is ever in this state");
    const char *nearest = diag_nearest(word->literal->text, words, ARRAY_LEN(words));
    if (nearest)
        diag_help(k->cx->diags, diag, "did you mean '%s'?", nearest);
    else
        diag_help(k->cx->diags, diag, "what is done is 'applied', 'refused' or 'skipped'");
}

static struct type check_equality(struct checker *k, struct expr *expr, struct type a,
                                  struct type b)
{
    unsigned comparable = KINDS_JSON | KIND_TIME | KIND_DURATION;
    if (!need(k, expr->args[0], a, comparable) || !need(k, expr->args[1], b, comparable))
        return type_of(KIND_BOOL);
    state_word_check(k, expr->args[0], expr->args[1]);
    state_word_check(k, expr->args[1], expr->args[0]);
    if (a.kinds & b.kinds)
        return type_of(KIND_BOOL);
    struct diag *diag =
        bad(k, "E206", expr->start, expr->end, "%s and %s are never equal",
            kinds_name(a.kinds, k->cx->scratch), kinds_name(b.kinds, k->cx->scratch));
    if (b.kinds == KIND_NULL)
        diag_help(k->cx->diags, diag, "ask has(" STR_FMT ") whether it is there",
                  STR_ARG(part_text(k, expr->args[0])));
    else if ((a.kinds | b.kinds) & KIND_TIME && (a.kinds | b.kinds) & KIND_TEXT)
        diag_help(k->cx->diags, diag, "timestamp(x) makes a time of a text");
    return type_of(KIND_BOOL);
}

static struct type check_order(struct checker *k, struct expr *expr, struct type a, struct type b)
{
    unsigned ordered = KIND_NUMBER | KIND_TEXT | KIND_TIME | KIND_DURATION;
    if (!need(k, expr->args[0], a, ordered) || !need(k, expr->args[1], b, ordered) ||
        a.kinds & b.kinds & ordered)
        return type_of(KIND_BOOL);
    struct diag *diag =
        bad(k, "E206", expr->start, expr->end, "%s and %s cannot be ordered",
            kinds_name(a.kinds, k->cx->scratch), kinds_name(b.kinds, k->cx->scratch));
    if ((a.kinds | b.kinds) & KIND_TIME && (a.kinds | b.kinds) & KIND_TEXT)
        diag_help(k->cx->diags, diag, "timestamp(x) makes a time of a text");
    else if ((a.kinds | b.kinds) & KIND_DURATION && (a.kinds | b.kinds) & KIND_TEXT)
        diag_help(k->cx->diags, diag, "duration(x) makes a duration of a text");
    return type_of(KIND_BOOL);
}

static unsigned sum_kinds(enum expr_op op, unsigned a, unsigned b)
{
    unsigned both = a & b & (op == EXPR_ADD ? KIND_NUMBER | KIND_TEXT | KIND_LIST : KIND_NUMBER);
    if (op == EXPR_MUL)
        return both;
    if (a & b & KIND_DURATION)
        both |= KIND_DURATION;
    if (a & KIND_TIME && b & KIND_DURATION)
        both |= KIND_TIME;
    if (op == EXPR_ADD && a & KIND_DURATION && b & KIND_TIME)
        both |= KIND_TIME;
    if (op == EXPR_SUB && a & b & KIND_TIME)
        both |= KIND_DURATION;
    return both;
}

static struct type check_arithmetic(struct checker *k, struct expr *expr, struct type a,
                                    struct type b)
{
    unsigned wanted = KIND_NUMBER;
    if (expr->op != EXPR_MUL)
        wanted |= KIND_TIME | KIND_DURATION;
    if (expr->op == EXPR_ADD)
        wanted |= KIND_TEXT | KIND_LIST;
    if (!need(k, expr->args[0], a, wanted) || !need(k, expr->args[1], b, wanted))
        return type_of(wanted);
    unsigned kinds = sum_kinds(expr->op, a.kinds, b.kinds);
    if (kinds) {
        struct type sum = type_join(a, b);
        sum.kinds = kinds;
        return sum;
    }
    struct diag *diag =
        bad(k, "E206", expr->start, expr->end, "%s and %s cannot be %s",
            kinds_name(a.kinds, k->cx->scratch), kinds_name(b.kinds, k->cx->scratch),
            expr->op == EXPR_ADD   ? "added"
            : expr->op == EXPR_SUB ? "subtracted"
                                   : "multiplied");
    if ((a.kinds | b.kinds) & KIND_TEXT && (a.kinds | b.kinds) & KIND_NUMBER)
        diag_help(k->cx->diags, diag, "string(x) makes text of a number, int(x) a number of text");
    return type_of(wanted);
}

static struct type check_in(struct checker *k, struct expr *expr, struct type a, struct type b)
{
    struct type item = type_item(b);
    unsigned comparable = KINDS_JSON | KIND_TIME | KIND_DURATION;
    if (b.kinds == KIND_TEXT) {
        struct diag *diag = bad(k, "E206", expr->start, expr->end,
                                "`in` looks into lists and objects, not into text");
        diag_help(k->cx->diags, diag, "write `x.contains(y)`");
        return type_of(KIND_BOOL);
    }
    if (!need(k, expr->args[0], a, comparable) ||
        !need(k, expr->args[1], b, KIND_LIST | KIND_OBJECT))
        return type_of(KIND_BOOL);
    if (!(b.kinds & KIND_LIST)) /* of an object: is there a field with this name? */
        need(k, expr->args[0], a, KIND_TEXT);
    if (b.kinds == KIND_LIST && !(a.kinds & item.kinds))
        bad(k, "E206", expr->start, expr->end, "%s is never in a list of %s",
            kinds_name(a.kinds, k->cx->scratch), kinds_name(item.kinds, k->cx->scratch));
    return type_of(KIND_BOOL);
}

static struct type check_list(struct checker *k, struct expr *expr)
{
    struct type item = {.kinds = 0};
    for (uint16_t i = 0; i < expr->args_count; i++) {
        struct type type = check(k, expr->args[i]);
        if (!need(k, expr->args[i], type, KINDS_JSON | KIND_TIME | KIND_DURATION | KIND_OMIT))
            type = type_any;
        type = type_as_json(type);
        item = i ? type_join(item, type) : type;
    }
    return type_of_list(item.kinds ? item : type_any, k->cx->scratch);
}

static struct type check_condition(struct checker *k, struct expr *expr)
{
    struct type condition = check(k, expr->args[0]);
    need(k, expr->args[0], condition, KIND_BOOL);
    struct type yes = check(k, expr->args[1]), no = check(k, expr->args[2]);
    return type_join(yes, no);
}

static struct type check_operator(struct checker *k, struct expr *expr)
{
    struct type a, b = {0};
    if (expr->op == EXPR_LIST)
        return check_list(k, expr);
    if (expr->op == EXPR_COND)
        return check_condition(k, expr);
    a = check(k, expr->args[0]);
    if (expr->args_count > 1)
        b = check(k, expr->args[1]);
    switch (expr->op) {
    case EXPR_NOT: need(k, expr->args[0], a, KIND_BOOL); return type_of(KIND_BOOL);
    case EXPR_NEGATE:
        need(k, expr->args[0], a, KIND_NUMBER | KIND_DURATION);
        return type_of(a.kinds & (KIND_NUMBER | KIND_DURATION)
                           ? a.kinds & (KIND_NUMBER | KIND_DURATION)
                           : KIND_NUMBER);
    case EXPR_AND:
    case EXPR_OR:
        need(k, expr->args[0], a, KIND_BOOL);
        need(k, expr->args[1], b, KIND_BOOL);
        return type_of(KIND_BOOL);
    case EXPR_EQ:
    case EXPR_NE: return check_equality(k, expr, a, b);
    case EXPR_LT:
    case EXPR_LE:
    case EXPR_GT:
    case EXPR_GE: return check_order(k, expr, a, b);
    case EXPR_IN: return check_in(k, expr, a, b);
    default: return check_arithmetic(k, expr, a, b);
    }
}

/* --- functions --- */

static bool is_path(const struct expr *expr)
{
    return expr->op == EXPR_SELECT || expr->op == EXPR_AT || expr->op == EXPR_NAME;
}

static bool call_form_check(struct checker *k, const struct expr *expr,
                            const struct function *function)
{
    bool is_receiver = expr->args_count && expr->at != expr->start;
    bool wants_receiver = function->form != EXPR_FORM_CALL;
    uint32_t end = expr->at + (uint32_t)expr->name.len;
    struct diag *diag = NULL;
    if (is_receiver && !wants_receiver) {
        diag = bad(k, "E208", expr->at, end, "`%s` is called with its value in brackets",
                   function->name);
        diag_help(k->cx->diags, diag, "write `%s(" STR_FMT ")`", function->name,
                  STR_ARG(part_text(k, expr->args[0])));
    } else if (!is_receiver && wants_receiver) {
        diag = bad(k, "E208", expr->at, end, "`%s` is called on a value", function->name);
        diag_help(k->cx->diags, diag, "write `x.%s(%s)`", function->name,
                  function->form == EXPR_FORM_LOOP ? "name, expression"
                  : function->args == 2            ? "y"
                                                   : "");
    } else if (expr->args_count != function->args + (function->form == EXPR_FORM_LOOP) &&
               !(expr->args_count == 2 && function == &functions[FN_TIMESTAMP])) {
        unsigned given = expr->args_count - wants_receiver;
        unsigned wanted = function->args + (function->form == EXPR_FORM_LOOP) - wants_receiver;
        diag = bad(k, "E208", expr->at, end, "`%s` takes %u%s value%s, not %u", function->name,
                   wanted, function == &functions[FN_TIMESTAMP] ? " or 2" : "",
                   wanted == 1 && function != &functions[FN_TIMESTAMP] ? "" : "s", given);
    }
    return !diag;
}

/* x.map(name, e): the arguments become the list and the body. */
static struct type check_loop(struct checker *k, struct expr *expr)
{
    struct type over = check(k, expr->args[0]);
    struct expr *name = expr->args[1], *body = expr->args[2];
    struct type item = over.kinds & KIND_OBJECT ? type_of(KINDS_JSON) : type_item(over);
    need(k, expr->args[0], over, KIND_LIST | KIND_OBJECT);
    if (name->op != EXPR_NAME || root_find(name->name) || function_find(name->name) != FN_NONE) {
        bad(k, "E208", name->start, name->end, "a new name for the item is needed here");
        return type_any;
    }
    if (k->vars_count == EXPR_LOOPS_MAX) {
        bad(k, "E208", expr->start, expr->end, "loops nest deeper than %d", EXPR_LOOPS_MAX);
        return type_any;
    }
    k->vars[k->vars_count] = (struct variable){name->name, item};
    expr->slot = k->vars_count++;
    struct type made = check(k, body);
    k->vars_count--;
    expr->args[1] = body;
    expr->args_count = 2;
    if (expr->fn == FN_MAP) {
        need(k, body, made, KINDS_JSON | KIND_TIME | KIND_DURATION | KIND_OMIT);
        return type_of_list(type_as_json(made), k->cx->scratch);
    }
    need(k, body, made, KIND_BOOL);
    if (expr->fn != FN_FILTER)
        return type_of(KIND_BOOL);
    return type_of_list(item, k->cx->scratch);
}

static struct type check_guarded(struct checker *k, struct expr *expr)
{
    bool outer = k->guarded;
    struct expr *path = expr->args[0];
    if (expr->fn == FN_HAS && !is_path(path)) {
        bad(k, "E208", path->start, path->end, "has() asks for a path such as `input.note`");
        return type_of(KIND_BOOL);
    }
    k->guarded = true;
    struct type type = check(k, path);
    k->guarded = outer;
    if (type.kinds & KIND_SECRET)
        need(k, path, type, KINDS_JSON);
    if (expr->fn == FN_HAS)
        return type_of(KIND_BOOL);
    struct type other = check(k, expr->args[1]);
    if (other.kinds & KIND_SECRET)
        need(k, expr->args[1], other, KINDS_JSON);
    type.kinds &= ~(unsigned)KIND_NULL;
    return type.kinds ? type_join(type, other) : other;
}

static void literal_check(struct checker *k, const struct expr *expr, enum expr_fn fn)
{
    struct wall time;
    int64_t us;
    if (expr->op != EXPR_LITERAL || expr->literal->kind != JSON_STRING)
        return;
    if (fn == FN_DURATION && !duration_parse(expr->literal->text, &us))
        bad(k, "E206", expr->start, expr->end, "this is no duration such as '30s' or '1h30m'");
    if (fn != FN_TIMESTAMP || wall_parse(expr->literal->text, &time))
        return;
    struct diag *diag =
        bad(k, "E206", expr->start, expr->end, "this is no time such as '2026-10-25T02:30:00Z'");
    if (local_parse(expr->literal->text, &us))
        diag_help(k->cx->diags, diag, "name the zone: timestamp('" STR_FMT "', 'Europe/Berlin')",
                  STR_ARG(expr->literal->text));
}

/* timestamp(x, 'Europe/Berlin'): the zone becomes part of the call. */
static struct type check_local_time(struct checker *k, struct expr *expr)
{
    const struct expr *text = expr->args[0], *zone = expr->args[1];
    need(k, text, check(k, expr->args[0]), KIND_TEXT);
    if (zone->op != EXPR_LITERAL || zone->literal->kind != JSON_STRING) {
        struct diag *diag =
            bad(k, "E208", zone->start, zone->end, "the zone is a text that stands here");
        diag_help(k->cx->diags, diag,
                  "write timestamp(x, 'Europe/Berlin'); a zone that varies is an offset in x");
        return type_of(KIND_TIME);
    }
    const struct zone *known =
        zone_load(k->cx, zone->literal->text, part_place(k, zone->start, zone->end));
    if (known && text->op == EXPR_LITERAL && text->literal->kind == JSON_STRING)
        zone_literal_check(k->cx, known, text->literal->text,
                           part_place(k, text->start, text->end));
    expr->zone = known;
    expr->args_count = 1;
    return type_of(KIND_TIME);
}

static struct type check_plain_call(struct checker *k, struct expr *expr)
{
    struct type types[2] = {{0}, {0}};
    ASSERT(expr->args_count <= ARRAY_LEN(types));
    for (uint16_t i = 0; i < expr->args_count; i++)
        types[i] = check(k, expr->args[i]);
    struct expr *first = expr->args_count ? expr->args[0] : NULL;
    switch (expr->fn) {
    case FN_SIZE:
        need(k, first, types[0], KIND_TEXT | KIND_LIST | KIND_OBJECT);
        return type_of(KIND_NUMBER);
    case FN_STRING: need(k, first, types[0], KINDS_SCALAR); return type_of(KIND_TEXT);
    case FN_INT:
        need(k, first, types[0], KIND_NUMBER | KIND_TEXT | KIND_TIME | KIND_DURATION);
        return type_of(KIND_NUMBER);
    case FN_STARTS_WITH:
    case FN_ENDS_WITH:
    case FN_CONTAINS:
        need(k, first, types[0], KIND_TEXT);
        need(k, expr->args[1], types[1], KIND_TEXT);
        return type_of(KIND_BOOL);
    case FN_JSON:
        need(k, first, types[0], KINDS_JSON | KIND_TIME | KIND_DURATION);
        return type_of(KIND_TEXT);
    case FN_LOWER_ASCII:
    case FN_SHA256: need(k, first, types[0], KIND_TEXT); return type_of(KIND_TEXT);
    case FN_TIMESTAMP:
        if (need(k, first, types[0], KIND_TEXT | KIND_TIME))
            literal_check(k, first, FN_TIMESTAMP);
        return type_of(KIND_TIME);
    case FN_DURATION:
        if (need(k, first, types[0], KIND_TEXT | KIND_DURATION))
            literal_check(k, first, FN_DURATION);
        return type_of(KIND_DURATION);
    case FN_NOW:
        if (!(k->rules->roots & ROOT_NOW))
            bad(k, "E209", expr->start, expr->end, "`now()` cannot be used in %s", k->rules->where);
        return type_of(KIND_TIME);
    case FN_NONE:
    case FN_HAS:
    case FN_DEFAULT:
    case FN_ALL:
    case FN_EXISTS:
    case FN_MAP:
    case FN_FILTER:
    case FN_COUNT: break;
    }
    return type_any;
}

/* Names that other languages have for it. */
static const char *foreign_function(struct str name)
{
    static const struct {
        const char *words, *ours;
    } functions_elsewhere[] = {
        {"len|length|count", "size(x)"},
        {"lower|toLower|toLowerCase|downcase", "x.lowerAscii()"},
        {"str|toString|to_string|text", "string(x)"},
        {"number|to_number|toInt|parseInt|integer", "int(x)"},
        {"toJson|to_json|toJSON|tojson|stringify", "json(x)"},
        {"coalesce|ifnull|orDefault|or", "default(x, y)"},
        {"exists_one|any|some", "x.exists(name, condition)"},
        {"every", "x.all(name, condition)"},
        {"select|where", "x.filter(name, condition)"},
        {"includes|indexOf|include", "x.contains(y)"},
        {"starts_with|hasPrefix", "x.startsWith(y)"},
        {"ends_with|hasSuffix", "x.endsWith(y)"},
        {"date|time|datetime", "timestamp(x)"},
    };
    for (size_t i = 0; i < ARRAY_LEN(functions_elsewhere); i++)
        if (lang_choice_has(functions_elsewhere[i].words, name))
            return functions_elsewhere[i].ours;
    return NULL;
}

static struct type check_call(struct checker *k, struct expr *expr)
{
    enum expr_fn fn = function_find(expr->name);
    if (fn == FN_NONE) {
        const char *names[FN_COUNT];
        for (size_t i = 1; i < FN_COUNT; i++)
            names[i - 1] = functions[i].name;
        struct diag *diag = bad(k, "E207", expr->at, expr->at + (uint32_t)expr->name.len,
                                "unknown function `" STR_FMT "`", STR_ARG(expr->name));
        const char *ours = foreign_function(expr->name);
        if (ours)
            diag_help(k->cx->diags, diag, "write `%s`", ours);
        else
            nearest_help(k, diag, "function", expr->name, names, FN_COUNT - 1);
        return type_any;
    }
    if (!call_form_check(k, expr, &functions[fn]))
        return type_any;
    expr->fn = fn;
    if (functions[fn].form == EXPR_FORM_LOOP)
        return check_loop(k, expr);
    if (fn == FN_HAS || fn == FN_DEFAULT)
        return check_guarded(k, expr);
    if (fn == FN_TIMESTAMP && expr->args_count == 2)
        return check_local_time(k, expr);
    return check_plain_call(k, expr);
}

static struct type check_any(struct checker *k, struct expr *expr)
{
    switch (expr->op) {
    case EXPR_NAME: return check_name(k, expr);
    case EXPR_SELECT: return check_select(k, expr);
    case EXPR_AT: return check_at(k, expr);
    case EXPR_LITERAL: return type_of(json_kind_bit(expr->literal));
    case EXPR_OMIT: return type_of(KIND_OMIT);
    case EXPR_CALL: return check_call(k, expr);
    default: return check_operator(k, expr);
    }
}

static struct type check(struct checker *k, struct expr *expr)
{
    struct type type = check_any(k, expr);
    expr->kinds = type.kinds;
    return type;
}

unsigned expr_check(struct compiler *cx, struct expr *expr, const struct node *node, size_t from,
                    const struct expr_rules *rules)
{
    struct checker k = {.cx = cx,
                        .node = node,
                        .from_byte = from,
                        .rules = rules,
                        .from = {.known = cx->known, .arena = cx->scratch}};
    return check(&k, expr).kinds;
}

const struct type *expr_type_check(struct compiler *cx, struct expr *expr, const struct node *node,
                                   size_t from, const struct expr_rules *rules)
{
    struct checker k = {.cx = cx,
                        .node = node,
                        .from_byte = from,
                        .rules = rules,
                        .from = {.known = cx->known, .arena = cx->scratch}};
    struct type *type = arena_new(cx->scratch, struct type);
    *type = check(&k, expr);
    return type;
}

unsigned type_kinds(const struct type *type)
{
    return type->kinds;
}

const struct type *type_of_item(struct compiler *cx, const struct type *list)
{
    struct type *item = arena_new(cx->scratch, struct type);
    *item = type_item(*list);
    return item;
}
