/*
 * expr.c: the operators of expressions. Functions are in expr_call.c.
 *
 * `&&`, `||` and `?:` evaluate only what decides, from left to right. Values of different kinds
 * are never equal; only values of one kind can be ordered.
 */
#include "dsl/expr_eval.h"

#include "engine/base/decimal.h"

#define PATH_BYTES_MAX 160 /* of a path in a message */
#define WORK_BYTES 64      /* looked at in the time of one step */
#define LOOKUP_BYTES 4     /* as many for each field that a look-up passes */

const struct json expr_omitted = {.kind = JSON_NONE};

static int eval_root(struct evaluation *e, const struct expr *expr, struct value *out);
static int eval_step(struct evaluation *e, const struct expr *expr, struct value *out);
static int eval_select(struct evaluation *e, const struct expr *expr, struct value *out);
static int eval_at(struct evaluation *e, const struct expr *expr, struct value *out);
static int eval_unary(struct evaluation *e, const struct expr *expr, struct value *out);
static int eval_equality(struct evaluation *e, const struct expr *expr, struct value *out);
static int eval_order(struct evaluation *e, const struct expr *expr, struct value *out);
static int eval_logic(struct evaluation *e, const struct expr *expr, struct value *out);
static int eval_arithmetic(struct evaluation *e, const struct expr *expr, struct value *out);
static int eval_in(struct evaluation *e, const struct expr *expr, struct value *out);
static int eval_list(struct evaluation *e, const struct expr *expr, struct value *out);
static int compare_charge(struct evaluation *e, const struct json *value);

static struct value value_of(const struct json *json)
{
    return (struct value){.kind = VALUE_JSON, .json = json};
}

int eval(struct evaluation *e, const struct expr *expr, struct value *out)
{
    if (e->steps >= EXPR_STEPS_MAX)
        return err_set(e->err, ERR_LIMIT, "the expression does more than %d steps", EXPR_STEPS_MAX);
    e->steps++;
    switch (expr->op) {
    case EXPR_LITERAL: *out = value_of(expr->literal); return 0;
    case EXPR_OMIT: *out = value_of(&expr_omitted); return 0;
    case EXPR_VAR: *out = e->vars[expr->slot]; return 0;
    case EXPR_INPUT:
    case EXPR_ITEM:
    case EXPR_INDEX:
    case EXPR_TICK:
    case EXPR_RESPONSE:
    case EXPR_ANSWER:
    case EXPR_KEY:
    case EXPR_RUN_ID:
    case EXPR_RUN_STARTED_AT:
    case EXPR_ENV:
    case EXPR_SECRET: return eval_root(e, expr, out);
    case EXPR_STEP: return eval_step(e, expr, out);
    case EXPR_SELECT: return eval_select(e, expr, out);
    case EXPR_AT: return eval_at(e, expr, out);
    case EXPR_NOT:
    case EXPR_NEGATE: return eval_unary(e, expr, out);
    case EXPR_EQ:
    case EXPR_NE: return eval_equality(e, expr, out);
    case EXPR_LT:
    case EXPR_LE:
    case EXPR_GT:
    case EXPR_GE: return eval_order(e, expr, out);
    case EXPR_AND:
    case EXPR_OR:
    case EXPR_COND: return eval_logic(e, expr, out);
    case EXPR_ADD:
    case EXPR_SUB:
    case EXPR_MUL: return eval_arithmetic(e, expr, out);
    case EXPR_IN: return eval_in(e, expr, out);
    case EXPR_LIST: return eval_list(e, expr, out);
    case EXPR_CALL: return eval_call(e, expr, out);
    case EXPR_NONE:
    case EXPR_NAME: break;
    }
    ASSERT(!"a compiled expression");
    return ERR_INTERNAL;
}

static void path_write(const struct expr *expr, struct buf *out)
{
    static const char *const fields[] = {"output", "state", "error", "key"};
    switch (expr->op) {
    case EXPR_INPUT: buf_add_z(out, "input"); break;
    case EXPR_ITEM: buf_add_z(out, "item"); break;
    case EXPR_INDEX: buf_add_z(out, "index"); break;
    case EXPR_TICK: buf_add_z(out, "tick"); break;
    case EXPR_RESPONSE: buf_add_z(out, "response"); break;
    case EXPR_ANSWER: buf_add_z(out, "answer"); break;
    case EXPR_KEY: buf_add_z(out, "key"); break;
    case EXPR_RUN_ID: buf_add_z(out, "run.id"); break;
    case EXPR_RUN_STARTED_AT: buf_add_z(out, "run.started_at"); break;
    case EXPR_ENV: buf_printf(out, "env." STR_FMT, STR_ARG(expr->name)); break;
    case EXPR_SECRET: buf_printf(out, "secrets." STR_FMT, STR_ARG(expr->name)); break;
    case EXPR_STEP:
        buf_printf(out, "steps." STR_FMT ".%s", STR_ARG(expr->name), fields[expr->field]);
        break;
    case EXPR_VAR:
    case EXPR_NAME: buf_add_str(out, expr->name); break;
    case EXPR_LITERAL:
        if (expr->literal->kind == JSON_STRING || expr->literal->kind == JSON_NUMBER)
            buf_add_str(out, expr->literal->text);
        else
            buf_add_z(out, json_kind_name(expr->literal->kind));
        break;
    case EXPR_SELECT:
        path_write(expr->args[0], out);
        buf_printf(out, "." STR_FMT, STR_ARG(expr->name));
        break;
    case EXPR_AT:
        path_write(expr->args[0], out);
        buf_add_char(out, '[');
        path_write(expr->args[1], out);
        buf_add_char(out, ']');
        break;
    case EXPR_CALL: {
#define X(id, name, form, args, help) name,
        static const char *const names[] = {"", EXPR_FUNCTIONS(X)};
#undef X
        buf_printf(out, "%s()", names[expr->fn]);
        break;
    }
    default: buf_add_z(out, "the expression"); break;
    }
}

struct str expr_path(const struct expr *expr, struct arena *arena)
{
    struct buf out = {0};
    path_write(expr, &out);
    struct str text = buf_str(&out);
    if (text.len > PATH_BYTES_MAX)
        text.len = PATH_BYTES_MAX;
    while (text.len && !str_is_utf8(text)) /* never cut inside a character */
        text.len--;
    text = arena_str(arena, text);
    buf_free(&out);
    return text;
}

const char *value_kind_name(struct value value)
{
    static const char *const names[] = {"omit", "null",   "a boolean", "a number",
                                        "text", "a list", "an object"};
    if (value.kind != VALUE_JSON)
        return value.kind == VALUE_TIME ? "a time" : "a duration";
    return names[value.json->kind];
}

static int missing(struct evaluation *e, const struct expr *expr)
{
    e->missing = true;
    return err_set(e->err, ERR_INVALID, "\"" STR_FMT "\" is missing",
                   STR_ARG(expr_path(expr, e->arena)));
}

static int root_json(struct evaluation *e, const struct expr *expr, const struct json *json,
                     struct value *out)
{
    if (!json)
        return missing(e, expr);
    *out = value_of(json);
    return 0;
}

static int root_text(struct evaluation *e, const struct expr *expr, struct str text,
                     struct value *out)
{
    return root_json(e, expr, text.ptr ? json_string(e->arena, text) : NULL, out);
}

static int eval_root(struct evaluation *e, const struct expr *expr, struct value *out)
{
    const struct expr_scope *scope = e->scope;
    switch (expr->op) {
    case EXPR_INPUT: return root_json(e, expr, scope->input, out);
    case EXPR_ITEM: return root_json(e, expr, scope->item, out);
    case EXPR_TICK: return root_json(e, expr, scope->tick, out);
    case EXPR_RESPONSE: return root_json(e, expr, scope->response, out);
    case EXPR_ANSWER: return root_json(e, expr, scope->answer, out);
    case EXPR_KEY: return root_text(e, expr, scope->key, out);
    case EXPR_RUN_ID: return root_text(e, expr, scope->run_id, out);
    case EXPR_ENV: return root_json(e, expr, json_get(scope->env, expr->name), out);
    case EXPR_INDEX:
        return root_json(e, expr, scope->index < 0 ? NULL : json_int(e->arena, scope->index), out);
    case EXPR_RUN_STARTED_AT:
        if (!wall_is_set(scope->started_at))
            return missing(e, expr);
        *out = (struct value){.kind = VALUE_TIME, .us = scope->started_at.us};
        return 0;
    default: break;
    }
    ASSERT(expr->op == EXPR_SECRET);
    return root_text(e, expr,
                     arena_printf(e->arena, "%c" STR_FMT "%c", EXPR_SECRET_MARK,
                                  STR_ARG(expr->name), EXPR_SECRET_MARK),
                     out);
}

static int eval_step(struct evaluation *e, const struct expr *expr, struct value *out)
{
    struct expr_step step = {0};
    if (!e->scope->step)
        return missing(e, expr);
    e->scope->step(e->scope->step_arg, expr->step, e->arena, &step);
    switch (expr->field) {
    case EXPR_FIELD_OUTPUT: return root_json(e, expr, step.output, out);
    case EXPR_FIELD_STATE: return root_text(e, expr, step.state, out);
    case EXPR_FIELD_ERROR: return root_json(e, expr, step.error, out);
    case EXPR_FIELD_KEY: return root_text(e, expr, step.key, out);
    }
    return ERR_INTERNAL;
}

int eval_kind_error(struct evaluation *e, const struct expr *expr, struct value value,
                    const char *wanted)
{
    return err_set(e->err, ERR_INVALID, "\"" STR_FMT "\" is %s, not %s",
                   STR_ARG(expr_path(expr, e->arena)), value_kind_name(value), wanted);
}

/* A field of null counts as missing: the output of a skipped step is null. */
static int eval_select(struct evaluation *e, const struct expr *expr, struct value *out)
{
    struct value from;
    int code = eval(e, expr->args[0], &from);
    if (code)
        return code;
    if (from.kind == VALUE_JSON && from.json->kind == JSON_NULL)
        return missing(e, expr);
    if (from.kind != VALUE_JSON || from.json->kind != JSON_OBJECT)
        return eval_kind_error(e, expr->args[0], from, "an object");
    eval_work(e, from.json->count * LOOKUP_BYTES);
    return root_json(e, expr, json_get(from.json, expr->name), out);
}

static int eval_at(struct evaluation *e, const struct expr *expr, struct value *out)
{
    struct value from, at;
    int64_t index;
    int code = eval(e, expr->args[0], &from);
    if (!code)
        code = eval(e, expr->args[1], &at);
    if (code)
        return code;
    if (from.kind != VALUE_JSON)
        return eval_kind_error(e, expr->args[0], from, "a list or an object");
    switch (from.json->kind) {
    case JSON_NULL: return missing(e, expr);
    case JSON_OBJECT:
        if (at.kind != VALUE_JSON || at.json->kind != JSON_STRING)
            return eval_kind_error(e, expr->args[1], at, "the text that names a field");
        eval_work(e, from.json->count * LOOKUP_BYTES);
        return root_json(e, expr, json_get(from.json, at.json->text), out);
    case JSON_LIST:
        if (at.kind != VALUE_JSON || !json_to_int(at.json, &index))
            return eval_kind_error(e, expr->args[1], at, "an integer");
        if (index < 0 || index >= from.json->count)
            return missing(e, expr);
        return root_json(e, expr, from.json->items[index], out);
    default: return eval_kind_error(e, expr->args[0], from, "a list or an object");
    }
}

int eval_boolean(struct evaluation *e, const struct expr *expr, bool *out)
{
    struct value value;
    int code = eval(e, expr, &value);
    if (code)
        return code;
    if (value.kind != VALUE_JSON || value.json->kind != JSON_BOOL)
        return eval_kind_error(e, expr, value, "a boolean");
    *out = value.json->boolean;
    return 0;
}

static int eval_unary(struct evaluation *e, const struct expr *expr, struct value *out)
{
    struct value value;
    struct str text;
    bool truth = false;
    int code;
    if (expr->op == EXPR_NOT) {
        code = eval_boolean(e, expr->args[0], &truth);
        *out = value_of(json_bool(!truth));
        return code;
    }
    code = eval(e, expr->args[0], &value);
    if (code)
        return code;
    if (value.kind == VALUE_DURATION && value.us != INT64_MIN) {
        *out = (struct value){.kind = VALUE_DURATION, .us = -value.us};
        return 0;
    }
    if (value.kind != VALUE_JSON || value.json->kind != JSON_NUMBER)
        return eval_kind_error(e, expr->args[0], value, "a number");
    code = decimal_sub(STR("0"), value.json->text, e->arena, &text, e->err);
    if (!code)
        *out = value_of(json_number(e->arena, text));
    return code;
}

static int eval_pair(struct evaluation *e, const struct expr *expr, struct value *a,
                     struct value *b)
{
    int code = eval(e, expr->args[0], a);
    return code ? code : eval(e, expr->args[1], b);
}

/* Comparing walks both values: that work counts too. */
static int values_equal(struct evaluation *e, struct value a, struct value b, bool *out)
{
    if (a.kind != b.kind) {
        *out = false;
        return 0;
    }
    if (a.kind != VALUE_JSON) {
        *out = a.us == b.us;
        return 0;
    }
    if (a.json->kind == JSON_NONE || b.json->kind == JSON_NONE)
        return err_set(e->err, ERR_INVALID, "omit cannot be compared");
    int code = compare_charge(e, a.json);
    if (!code)
        *out = json_equal(a.json, b.json);
    return code;
}

static int eval_equality(struct evaluation *e, const struct expr *expr, struct value *out)
{
    struct value a, b;
    bool equal = false;
    int code = eval_pair(e, expr, &a, &b);
    if (!code)
        code = values_equal(e, a, b, &equal);
    *out = value_of(json_bool(equal == (expr->op == EXPR_EQ)));
    return code;
}

static int eval_order(struct evaluation *e, const struct expr *expr, struct value *out)
{
    struct value a, b;
    int order, code = eval_pair(e, expr, &a, &b);
    if (code)
        return code;
    if (a.kind != b.kind)
        return eval_kind_error(e, expr->args[1], b, value_kind_name(a));
    if (a.kind != VALUE_JSON)
        order = a.us < b.us ? -1 : a.us > b.us;
    else if (a.json->kind != JSON_NUMBER && a.json->kind != JSON_STRING)
        return eval_kind_error(e, expr->args[0], a, "a number, text, time or duration");
    else if (a.json->kind != b.json->kind)
        return eval_kind_error(e, expr->args[1], b, value_kind_name(a));
    else if (a.json->kind == JSON_NUMBER)
        order = json_number_cmp(a.json->text, b.json->text);
    else
        order = str_cmp(a.json->text, b.json->text);
    if (a.kind == VALUE_JSON)
        eval_work(e, a.json->text.len + b.json->text.len);
    bool truth = expr->op == EXPR_LT   ? order < 0
                 : expr->op == EXPR_LE ? order <= 0
                 : expr->op == EXPR_GT ? order > 0
                                       : order >= 0;
    *out = value_of(json_bool(truth));
    return 0;
}

static int eval_logic(struct evaluation *e, const struct expr *expr, struct value *out)
{
    bool truth;
    int code = eval_boolean(e, expr->args[0], &truth);
    if (code)
        return code;
    if (expr->op == EXPR_COND)
        return eval(e, expr->args[truth ? 1 : 2], out);
    if (truth == (expr->op == EXPR_AND))
        code = eval_boolean(e, expr->args[1], &truth);
    *out = value_of(json_bool(truth));
    return code;
}

static int time_arithmetic(struct evaluation *e, const struct expr *expr, struct value a,
                           struct value b, struct value *out)
{
    bool add = expr->op == EXPR_ADD, both_times = a.kind == VALUE_TIME && b.kind == VALUE_TIME;
    bool fits = add ? !both_times && a.kind != VALUE_JSON && b.kind != VALUE_JSON
                    : a.kind != VALUE_JSON && b.kind != VALUE_JSON &&
                          !(a.kind == VALUE_DURATION && b.kind == VALUE_TIME);
    if (expr->op == EXPR_MUL || !fits)
        return eval_kind_error(e, expr->args[1], b, "what can be added to or taken from a time");
    bool is_time = (a.kind == VALUE_TIME) != (b.kind == VALUE_TIME);
    out->kind = is_time ? VALUE_TIME : VALUE_DURATION;
    if (add ? __builtin_add_overflow(a.us, b.us, &out->us)
            : __builtin_sub_overflow(a.us, b.us, &out->us))
        return err_set(e->err, ERR_LIMIT, "the time is out of range");
    return 0;
}

static int concatenate(struct evaluation *e, struct value a, struct value b, struct value *out)
{
    if (a.json->kind == JSON_STRING) {
        int code = eval_charge(e, a.json->text.len + b.json->text.len);
        if (!code)
            *out = value_of(
                json_string(e->arena, arena_printf(e->arena, STR_FMT STR_FMT, STR_ARG(a.json->text),
                                                   STR_ARG(b.json->text))));
        return code;
    }
    int code = eval_charge(e, ((size_t)a.json->count + b.json->count) * sizeof(void *));
    if (code)
        return code;
    struct json *list = json_list_new(e->arena, a.json->count + b.json->count);
    for (uint32_t i = 0; i < a.json->count; i++)
        json_list_add(list, a.json->items[i]);
    for (uint32_t i = 0; i < b.json->count; i++)
        json_list_add(list, b.json->items[i]);
    *out = value_of(list);
    return 0;
}

static int eval_arithmetic(struct evaluation *e, const struct expr *expr, struct value *out)
{
    struct value a, b;
    struct str text;
    int code = eval_pair(e, expr, &a, &b);
    if (code)
        return code;
    if (a.kind != VALUE_JSON || b.kind != VALUE_JSON)
        return time_arithmetic(e, expr, a, b, out);
    if (expr->op == EXPR_ADD && a.json->kind == b.json->kind &&
        (a.json->kind == JSON_STRING || a.json->kind == JSON_LIST))
        return concatenate(e, a, b, out);
    if (a.json->kind != JSON_NUMBER)
        return eval_kind_error(e, expr->args[0], a, "a number");
    if (b.json->kind != JSON_NUMBER)
        return eval_kind_error(e, expr->args[1], b, "a number");
    if (expr->op == EXPR_ADD)
        code = decimal_add(a.json->text, b.json->text, e->arena, &text, e->err);
    else if (expr->op == EXPR_SUB)
        code = decimal_sub(a.json->text, b.json->text, e->arena, &text, e->err);
    else
        code = decimal_mul(a.json->text, b.json->text, e->arena, &text, e->err);
    if (!code)
        *out = value_of(json_number(e->arena, text));
    return code;
}

static int eval_in(struct evaluation *e, const struct expr *expr, struct value *out)
{
    struct value needle, hay;
    bool found = false;
    int code = eval_pair(e, expr, &needle, &hay);
    if (code)
        return code;
    if (hay.kind != VALUE_JSON || (hay.json->kind != JSON_LIST && hay.json->kind != JSON_OBJECT))
        return eval_kind_error(e, expr->args[1], hay, "a list or an object");
    if (hay.json->kind == JSON_OBJECT) {
        if (needle.kind != VALUE_JSON || needle.json->kind != JSON_STRING)
            return eval_kind_error(e, expr->args[0], needle, "the name of a field");
        found = json_get(hay.json, needle.json->text) != NULL;
    }
    eval_work(e, hay.json->count * LOOKUP_BYTES);
    for (uint32_t i = 0; hay.json->kind == JSON_LIST && i < hay.json->count && !found && !code; i++)
        code = values_equal(e, needle, value_of(hay.json->items[i]), &found);
    *out = value_of(json_bool(found));
    return code;
}

static int eval_list(struct evaluation *e, const struct expr *expr, struct value *out)
{
    struct json *list = json_list_new(e->arena, expr->args_count);
    for (uint16_t i = 0; i < expr->args_count; i++) {
        const struct json *item;
        int code = eval_json(e, expr->args[i], &item);
        if (code)
            return code;
        if (item->kind != JSON_NONE)
            json_list_add(list, item);
    }
    *out = value_of(list);
    return 0;
}

int duration_text(struct evaluation *e, int64_t us, struct str *out)
{
    if (us == INT64_MIN)
        return err_set(e->err, ERR_LIMIT, "the duration is out of range");
    struct str text = duration_format(us < 0 ? -us : us, e->arena);
    *out = us < 0 ? arena_printf(e->arena, "-" STR_FMT, STR_ARG(text)) : text;
    return 0;
}

static int time_text(struct evaluation *e, int64_t us, struct str *out)
{
    /* Years 0 to 9999: what RFC 3339 can write. */
    if (us < INT64_C(-62167219200) * SECOND_US || us >= INT64_C(253402300800) * SECOND_US)
        return err_set(e->err, ERR_LIMIT, "the time is out of range");
    *out = wall_format((struct wall){us}, e->arena);
    return 0;
}

int eval_json(struct evaluation *e, const struct expr *expr, const struct json **out)
{
    struct value value;
    struct str text;
    int code = eval(e, expr, &value);
    if (code)
        return code;
    if (value.kind == VALUE_JSON) {
        *out = value.json;
        return 0;
    }
    code = value.kind == VALUE_TIME ? time_text(e, value.us, &text)
                                    : duration_text(e, value.us, &text);
    if (!code)
        *out = json_string(e->arena, text);
    return code;
}

int value_text(struct evaluation *e, struct value value, const struct expr *expr, struct str *out)
{
    if (value.kind == VALUE_TIME)
        return time_text(e, value.us, out);
    if (value.kind == VALUE_DURATION)
        return duration_text(e, value.us, out);
    switch (value.json->kind) {
    case JSON_STRING:
    case JSON_NUMBER: *out = value.json->text; return 0;
    case JSON_BOOL: *out = value.json->boolean ? STR("true") : STR("false"); return 0;
    case JSON_NONE:
    case JSON_NULL:
    case JSON_LIST:
    case JSON_OBJECT: break;
    }
    return eval_kind_error(e, expr, value, "text, a number or a boolean");
}

void eval_work(struct evaluation *e, size_t bytes)
{
    /* A limit that is passed here ends the evaluation at its next step. */
    e->steps += (uint32_t)MIN(bytes / WORK_BYTES, (size_t)EXPR_STEPS_MAX);
}

int eval_charge(struct evaluation *e, size_t bytes)
{
    if (bytes > EXPR_BYTES_MAX - e->bytes)
        return err_set(e->err, ERR_LIMIT, "the expression builds more than %d MiB",
                       EXPR_BYTES_MAX >> 20);
    e->bytes += bytes;
    return 0;
}

/* Counts the parts of a value: its work when it is compared, its size when it is the result. */
static int measure(struct evaluation *e, const struct json *value, unsigned depth, bool compared)
{
    uint64_t parts = 1;
    if (compared) /* long texts take time; the fields of an object are looked up one by one */
        parts += value->text.len / WORK_BYTES +
                 (value->kind == JSON_OBJECT ? (uint64_t)value->count * value->count / 64 : 0);
    if (parts > EXPR_STEPS_MAX - MIN(e->steps, (uint32_t)EXPR_STEPS_MAX))
        return err_set(e->err, ERR_LIMIT, "the value has too many parts");
    e->steps += (uint32_t)parts;
    if (value->kind != JSON_LIST && value->kind != JSON_OBJECT)
        return 0;
    if (depth == JSON_DEPTH_MAX)
        return err_set(e->err, ERR_LIMIT, "the value nests deeper than %d", JSON_DEPTH_MAX);
    for (uint32_t i = 0; i < value->count; i++) {
        const struct json *part =
            value->kind == JSON_LIST ? value->items[i] : value->members[i].value;
        int code = measure(e, part, depth + 1, compared);
        if (code)
            return code;
    }
    return 0;
}

int eval_measure(struct evaluation *e, const struct json *value)
{
    return measure(e, value, 0, false);
}

static int compare_charge(struct evaluation *e, const struct json *value)
{
    return measure(e, value, 0, true);
}

int expr_eval(const struct expr *expr, const struct expr_scope *scope, struct arena *arena,
              const struct json **out, struct err *err)
{
    struct evaluation e = {.scope = scope, .arena = arena, .err = err};
    int code = eval_json(&e, expr, out);
    return code ? code : eval_measure(&e, *out);
}

int expr_eval_bool(const struct expr *expr, const struct expr_scope *scope, struct arena *arena,
                   bool *out, struct err *err)
{
    struct evaluation e = {.scope = scope, .arena = arena, .err = err};
    return eval_boolean(&e, expr, out);
}
