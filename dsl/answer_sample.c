#include "dsl/answer_sample.h"

#include "dsl/expr_tree.h"

#define TRIES_MAX 8192 /* answers that are held against the expressions */
#define CHOICES_MAX 12
#define SIZE_MAX_OF_LIST 100
#define DEPTH_MAX 64 /* of what is known of the output */

enum choice_kind {
    CHOICE_ABSENT,
    CHOICE_VALUE,
    CHOICE_OBJECT,
    CHOICE_LIST,
    CHOICE_ROWS /* a number: how many rows there are */
};

struct choice {
    enum choice_kind kind;
    const struct json *value;
    uint32_t size; /* of a list */
};

/* A place in the answer that is read, or that others lie in. */
struct place {
    struct str name;       /* in its object; items of a list have none */
    struct place *members; /* in the order in which they were met */
    struct place *item;    /* all items of a list are alike */
    struct place *next;    /* the parent's next member */
    struct place *met;     /* the place that was met after this one, anywhere */
    uint32_t least;        /* items, so that those that are read by number are there */
    bool fixed;            /* it has no other choices than those that it was given */
    struct choice choices[CHOICES_MAX];
    uint32_t choices_count, chosen;
};

struct sampler {
    const struct plan_reconcile *reconcile;
    const struct expr_scope *scope; /* without a response */
    struct arena *arena;
    struct place *root, **met_tail;
    struct place *rows; /* of a statement's answer */
    struct place *vars[EXPR_LOOPS_MAX];
};

/* --- places ------------------------------------------------------------------------------ */

static struct place *place_new(struct sampler *sampler, struct str name)
{
    struct place *place = arena_new(sampler->arena, struct place);
    place->name = name;
    *sampler->met_tail = place;
    sampler->met_tail = &place->met;
    return place;
}

static struct place *member_of(struct sampler *sampler, struct place *place, struct str name)
{
    struct place **at = &place->members;
    for (; *at; at = &(*at)->next)
        if (str_eq((*at)->name, name))
            return *at;
    return *at = place_new(sampler, name);
}

static struct place *item_of(struct sampler *sampler, struct place *place)
{
    if (!place->item)
        place->item = place_new(sampler, STR(""));
    return place->item;
}

static void choice_add(struct place *place, struct choice choice)
{
    for (uint32_t i = 0; i < place->choices_count; i++) {
        const struct choice *have = &place->choices[i];
        if (have->kind == choice.kind && have->size == choice.size &&
            (choice.kind != CHOICE_VALUE || json_equal(have->value, choice.value)))
            return;
    }
    if (place->choices_count < CHOICES_MAX)
        place->choices[place->choices_count++] = choice;
}

static void value_add(struct place *place, const struct json *value)
{
    if (!place->fixed)
        choice_add(place, (struct choice){CHOICE_VALUE, value, 0});
}

static void size_add(struct place *place, int64_t size)
{
    if (!place->fixed && size >= 0 && size <= SIZE_MAX_OF_LIST)
        choice_add(place, (struct choice){CHOICE_LIST, NULL, (uint32_t)size});
}

/* The value that it is compared with, and its neighbours. */
static void compared_add(struct sampler *sampler, struct place *place, const struct json *value)
{
    int64_t number;
    value_add(place, value);
    if (value->kind == JSON_BOOL)
        value_add(place, json_bool(!value->boolean));
    if (value->kind == JSON_NUMBER && json_to_int(value, &number) && number < INT32_MAX &&
        number > INT32_MIN) {
        value_add(place, json_int(sampler->arena, number + 1));
        value_add(place, json_int(sampler->arena, number - 1));
    }
}

/* --- reading the expressions --------------------------------------------------------------- */

static bool is_constant(const struct expr *expr)
{
    if (expr->op == EXPR_RESPONSE || expr->op == EXPR_VAR || expr->op == EXPR_OMIT)
        return false;
    for (uint16_t i = 0; i < expr->args_count; i++)
        if (!is_constant(expr->args[i]))
            return false;
    return true;
}

/* What it is for this action; NULL: it depends on the answer, or cannot be told. */
static const struct json *constant_of(struct sampler *sampler, const struct expr *expr)
{
    const struct json *value;
    struct err err;
    if (!is_constant(expr) || expr_eval(expr, sampler->scope, sampler->arena, &value, &err) != 0)
        return NULL;
    return value->kind == JSON_NONE ? NULL : value;
}

static bool passes_through(enum expr_fn fn)
{
    return fn == FN_DEFAULT || fn == FN_FILTER || fn == FN_LOWER_ASCII || fn == FN_STRING ||
           fn == FN_INT || fn == FN_TIMESTAMP || fn == FN_DURATION;
}

/* The place that the expression's value comes from; NULL: from none, or from many. */
static struct place *place_of(struct sampler *sampler, const struct expr *expr)
{
    const struct json *index;
    struct place *place;
    int64_t number;
    if (expr->op == EXPR_RESPONSE)
        return sampler->root;
    if (expr->op == EXPR_VAR)
        return sampler->vars[expr->slot];
    if (expr->op == EXPR_CALL && passes_through(expr->fn))
        return place_of(sampler, expr->args[0]);
    if (expr->op != EXPR_SELECT && expr->op != EXPR_AT)
        return NULL;
    place = place_of(sampler, expr->args[0]);
    if (!place || expr->op == EXPR_SELECT)
        return place ? member_of(sampler, place, expr->name) : NULL;
    index = constant_of(sampler, expr->args[1]);
    if (index && index->kind == JSON_STRING)
        return member_of(sampler, place, index->text);
    if (index && json_to_int(index, &number) && number >= 0 && number < SIZE_MAX_OF_LIST)
        place->least = MAX(place->least, (uint32_t)number + 1);
    return item_of(sampler, place);
}

static void visit(struct sampler *sampler, const struct expr *expr, bool is_condition);

/* What `side` is compared with says what it could be. */
static void compared_visit(struct sampler *sampler, const struct expr *side,
                           const struct expr *other)
{
    const struct json *value = constant_of(sampler, other);
    bool is_size = side->op == EXPR_CALL && side->fn == FN_SIZE;
    struct place *place = place_of(sampler, is_size ? side->args[0] : side);
    int64_t size;
    if (!place || !value)
        return;
    if (!is_size) {
        compared_add(sampler, place, value);
        return;
    }
    if (!json_to_int(value, &size))
        return;
    item_of(sampler, place);
    size_add(place, size);
    size_add(place, size + 1);
    size_add(place, size - 1);
}

static void in_visit(struct sampler *sampler, const struct expr *expr)
{
    struct place *place = place_of(sampler, expr->args[0]);
    const struct json *list = constant_of(sampler, expr->args[1]);
    for (uint32_t i = 0; place && list && list->kind == JSON_LIST && i < list->count; i++)
        value_add(place, list->items[i]);
    place = place_of(sampler, expr->args[1]);
    const struct json *value = constant_of(sampler, expr->args[0]);
    if (place && value)
        compared_add(sampler, item_of(sampler, place), value);
}

static void call_visit(struct sampler *sampler, const struct expr *expr, bool is_condition)
{
    struct place *place = expr->args_count ? place_of(sampler, expr->args[0]) : NULL;
    const struct json *value = expr->args_count > 1 ? constant_of(sampler, expr->args[1]) : NULL;
    bool loops =
        expr->fn == FN_ALL || expr->fn == FN_EXISTS || expr->fn == FN_MAP || expr->fn == FN_FILTER;
    bool tests_text =
        expr->fn == FN_STARTS_WITH || expr->fn == FN_ENDS_WITH || expr->fn == FN_CONTAINS;
    if (loops) {
        visit(sampler, expr->args[0], false);
        sampler->vars[expr->slot] = place ? item_of(sampler, place) : NULL;
        visit(sampler, expr->args[1], expr->fn != FN_MAP);
        return;
    }
    if (place && value && (tests_text || expr->fn == FN_DEFAULT))
        compared_add(sampler, place, value);
    if (place && is_condition && expr->fn == FN_DEFAULT) {
        value_add(place, &json_true);
        value_add(place, &json_false);
    }
    for (uint16_t i = 0; i < expr->args_count; i++)
        visit(sampler, expr->args[i], false);
}

/* Bounded by EXPR_NODES_MAX, as every walk over an expression. */
static void visit(struct sampler *sampler, const struct expr *expr, bool is_condition)
{
    struct place *place = place_of(sampler, expr);
    bool inner = expr->op == EXPR_AND || expr->op == EXPR_OR || expr->op == EXPR_NOT;
    if (expr->op == EXPR_CALL) {
        call_visit(sampler, expr, is_condition);
        return;
    }
    if (place && is_condition) {
        value_add(place, &json_true);
        value_add(place, &json_false);
    }
    if (expr->op >= EXPR_EQ && expr->op <= EXPR_GE) {
        compared_visit(sampler, expr->args[0], expr->args[1]);
        compared_visit(sampler, expr->args[1], expr->args[0]);
    }
    if (expr->op == EXPR_IN)
        in_visit(sampler, expr);
    for (uint16_t i = 0; i < expr->args_count; i++)
        visit(sampler, expr->args[i], inner || (expr->op == EXPR_COND && (i == 0 || is_condition)));
}

/* Where the template takes the output from, what is known of the output lies. */
static void known_put(struct sampler *sampler, struct place *place, const struct json *known,
                      unsigned depth)
{
    if (place->fixed || depth == DEPTH_MAX)
        return;
    if (known->kind == JSON_OBJECT) {
        for (uint32_t i = 0; i < known->count; i++)
            known_put(sampler, member_of(sampler, place, known->members[i].name),
                      known->members[i].value, depth + 1);
        return;
    }
    if (known->kind == JSON_LIST && known->count && place->item) {
        known_put(sampler, place->item, known->items[0], depth + 1);
        return;
    }
    uint32_t count = place->choices_count;
    struct choice had[CHOICES_MAX];
    memcpy(had, place->choices, sizeof(had));
    place->choices_count = 0;
    value_add(place, known);
    for (uint32_t i = 0; i < count; i++)
        choice_add(place, had[i]);
}

static void output_visit(struct sampler *sampler, const struct template *template,
                         const struct json *known, unsigned depth)
{
    struct place *place;
    switch (template->kind) {
    case TEMPLATE_LITERAL: break;
    case TEMPLATE_EXPR:
        visit(sampler, template->expr, false);
        place = place_of(sampler, template->expr);
        if (place && known && known->kind != JSON_NULL)
            known_put(sampler, place, known, depth);
        break;
    case TEMPLATE_TEXT:
        for (uint32_t i = 0; i < template->count; i++)
            if (template->parts[i].expr)
                visit(sampler, template->parts[i].expr, false);
        break;
    case TEMPLATE_LIST:
        for (uint32_t i = 0; i < template->count; i++)
            output_visit(sampler, template->members[i].value, NULL, depth + 1);
        break;
    case TEMPLATE_OBJECT:
        for (uint32_t i = 0; i < template->count; i++)
            output_visit(sampler, template->members[i].value,
                         json_get(known, template->members[i].name), depth + 1);
    }
}

/* --- what could stand at a place ----------------------------------------------------------- */

static void shape_http(struct sampler *sampler)
{
    struct place *status = member_of(sampler, sampler->root, STR("status"));
    struct choice had[CHOICES_MAX];
    uint32_t count = status->choices_count;
    memcpy(had, status->choices, sizeof(had));
    status->choices_count = 0;
    value_add(status, json_int(sampler->arena, 200));
    for (uint32_t i = 0; i < count; i++) { /* other answers are not read */
        int64_t code = 0;
        bool is_code = had[i].kind == CHOICE_VALUE && json_to_int(had[i].value, &code);
        if (is_code && ((code >= 200 && code < 300 && code != 202) || code == 404 || code == 410))
            value_add(status, had[i].value);
    }
    if (count)
        value_add(status, json_int(sampler->arena, 404));
    status->fixed = true;
    member_of(sampler, sampler->root, STR("body"));
    struct place *headers = member_of(sampler, sampler->root, STR("headers"));
    choice_add(headers, (struct choice){CHOICE_OBJECT, NULL, 0});
    headers->fixed = true;
}

static void shape_exec(struct sampler *sampler)
{
    struct place *exit = member_of(sampler, sampler->root, STR("exit"));
    bool read = exit->choices_count > 0;
    if (!read)
        value_add(exit, json_int(sampler->arena, 0));
    exit->fixed = true;
    member_of(sampler, sampler->root, STR("stdout"));
    struct place *text = member_of(sampler, sampler->root, STR("stderr"));
    if (!text->choices_count)
        value_add(text, json_string_z(sampler->arena, ""));
    text->fixed = true;
}

static void shape_sql(struct sampler *sampler)
{
    struct place *count = member_of(sampler, sampler->root, STR("count"));
    struct place *sqlstate = member_of(sampler, sampler->root, STR("sqlstate"));
    int64_t size;
    sampler->rows = member_of(sampler, sampler->root, STR("rows"));
    item_of(sampler, sampler->rows);
    for (uint32_t i = 0; i < count->choices_count; i++)
        if (json_to_int(count->choices[i].value, &size))
            size_add(sampler->rows, size);
    count->choices_count = 0;
    choice_add(count, (struct choice){CHOICE_ROWS, NULL, 0});
    count->fixed = true;
    sqlstate->choices_count = 0;
    value_add(sqlstate, json_string_z(sampler->arena, ""));
    sqlstate->fixed = true;
}

/* A value that it is compared with, another one, then that it is not there. */
static void choices_complete(struct sampler *sampler, struct place *place)
{
    uint32_t count = place->choices_count;
    struct choice had[CHOICES_MAX];
    if (place->fixed)
        return;
    memcpy(had, place->choices, sizeof(had));
    place->choices_count = 0;
    if (place->members)
        choice_add(place, (struct choice){CHOICE_OBJECT, NULL, 0});
    if (place->item)
        size_add(place, MAX(place->least, 1u));
    for (uint32_t i = 0; i < MIN(count, CHOICES_MAX - 4u); i++)
        choice_add(place, had[i]);
    if (place->item)
        size_add(place, 0);
    if (!place->members && !place->item && (!count || had[0].value->kind == JSON_STRING)) {
        value_add(place, json_string_z(sampler->arena, "sample"));
        value_add(place, json_string_z(sampler->arena, "other"));
    }
    choice_add(place, (struct choice){CHOICE_ABSENT, NULL, 0});
}

/* --- the search -------------------------------------------------------------------------- */

static const struct json *place_json(const struct sampler *sampler, const struct place *place,
                                     struct arena *arena)
{
    const struct choice *choice = &place->choices[place->chosen];
    uint32_t count = 0;
    switch (choice->kind) {
    case CHOICE_ABSENT: return NULL;
    case CHOICE_VALUE: return choice->value;
    case CHOICE_ROWS: {
        const struct json *rows = place_json(sampler, sampler->rows, arena);
        return json_int(arena, rows && rows->kind == JSON_LIST ? rows->count : 0);
    }
    case CHOICE_LIST: {
        struct json *list = json_list_new(arena, choice->size);
        const struct json *item =
            choice->size && place->item ? place_json(sampler, place->item, arena) : NULL;
        for (uint32_t i = 0; i < choice->size; i++)
            json_list_add(list, item ? item : &json_null);
        return list;
    }
    case CHOICE_OBJECT: break;
    }
    for (const struct place *member = place->members; member; member = member->next)
        count++;
    struct json *object = json_object_new(arena, count);
    for (const struct place *member = place->members; member; member = member->next) {
        const struct json *value = place_json(sampler, member, arena);
        if (value)
            json_object_add(object, member->name, value);
    }
    return object;
}

/* 2: it proves what it should and nothing else, 1: that comes first, 0: it does not. */
static int response_judge(const struct sampler *sampler, enum outcome says,
                          const struct json *response, struct arena *arena)
{
    const struct plan_reconcile *reconcile = sampler->reconcile;
    const struct expr *proofs[] = {reconcile->applied, reconcile->in_progress, reconcile->refused,
                                   reconcile->not_applied};
    const enum outcome says_of[] = {OUTCOME_APPLIED, OUTCOME_IN_PROGRESS, OUTCOME_REFUSED,
                                    OUTCOME_RETRYABLE};
    struct expr_scope scope = *sampler->scope;
    enum outcome first = OUTCOME_UNKNOWN;
    const struct json *output;
    unsigned hold = 0;
    struct err err;
    scope.response = response;
    for (size_t i = 0; i < ARRAY_LEN(proofs); i++) {
        bool holds = false;
        if (!proofs[i] || expr_eval_bool(proofs[i], &scope, arena, &holds, &err) != 0 || !holds)
            continue;
        if (!hold++)
            first = says_of[i];
    }
    if (first != says)
        return 0;
    bool has_output = says != OUTCOME_APPLIED || !reconcile->output ||
                      template_render(reconcile->output, &scope, arena, &output, &err) == 0;
    return hold <= 1 && has_output ? 2 : 1;
}

/* The next combination; what was met first changes fastest. False: that was the last one. */
static bool choices_step(struct sampler *sampler)
{
    for (struct place *place = sampler->root; place; place = place->met) {
        if (++place->chosen < place->choices_count)
            return true;
        place->chosen = 0;
    }
    return false;
}

static const struct json *response_find(struct sampler *sampler, enum outcome says)
{
    struct arena scratch = {0};
    struct str found = STR_NONE;
    const struct json *value = NULL;
    struct err err;
    for (uint32_t tries = 0; tries < TRIES_MAX; tries++) {
        const struct json *response = place_json(sampler, sampler->root, &scratch);
        int fits = response_judge(sampler, says, response, &scratch);
        if (fits == 2 || (fits == 1 && !found.ptr))
            found = json_text(response, sampler->arena);
        arena_reset(&scratch);
        if (fits == 2 || !choices_step(sampler))
            break;
    }
    arena_free(&scratch);
    if (found.ptr && json_parse(found, sampler->arena, &value, &err) != 0)
        value = NULL;
    return value;
}

const struct json *answer_sample(const struct plan_reconcile *reconcile, enum outcome says,
                                 const struct json *output, const struct expr_scope *scope,
                                 struct arena *arena)
{
    const struct {
        const struct expr *expr;
        enum outcome says;
    } proofs[] = {{reconcile->applied, OUTCOME_APPLIED},
                  {reconcile->in_progress, OUTCOME_IN_PROGRESS},
                  {reconcile->refused, OUTCOME_REFUSED},
                  {reconcile->not_applied, OUTCOME_RETRYABLE}};
    struct expr_scope without = *scope;
    struct sampler sampler = {.reconcile = reconcile, .scope = &without, .arena = arena};
    without.response = NULL;
    sampler.met_tail = &sampler.root;
    sampler.root = place_new(&sampler, STR(""));
    for (int wanted = 1; wanted >= 0; wanted--) /* what is to hold is met first */
        for (size_t i = 0; i < ARRAY_LEN(proofs); i++)
            if (proofs[i].expr && (proofs[i].says == says) == wanted)
                visit(&sampler, proofs[i].expr, true);
    if (reconcile->ask.kind == ACTION_HTTP)
        shape_http(&sampler);
    else if (reconcile->ask.kind == ACTION_EXEC)
        shape_exec(&sampler);
    else
        shape_sql(&sampler);
    if (reconcile->output)
        output_visit(&sampler, reconcile->output, output, 0);
    choice_add(sampler.root, (struct choice){CHOICE_OBJECT, NULL, 0});
    sampler.root->fixed = true;
    for (struct place *place = sampler.root; place; place = place->met)
        choices_complete(&sampler, place);
    return response_find(&sampler, says);
}
