/*
 * expr_call.c: the functions of expressions, one per line of EXPR_FUNCTIONS.
 */
#include "dsl/expr_eval.h"

#include "engine/base/decimal.h"
#include "engine/base/sha256.h"
#include "engine/base/zone.h"

typedef int (*call_fn)(struct evaluation *e, const struct expr *expr, struct value *out);

static void set_json(struct value *out, const struct json *json)
{
    *out = (struct value){.kind = VALUE_JSON, .json = json};
}

static void set_text(struct evaluation *e, struct value *out, struct str text)
{
    set_json(out, json_string(e->arena, text));
}

static int eval_text(struct evaluation *e, const struct expr *expr, struct str *out)
{
    struct value value;
    int code = eval(e, expr, &value);
    if (code)
        return code;
    if (value.kind != VALUE_JSON || value.json->kind != JSON_STRING)
        return eval_kind_error(e, expr, value, "text");
    *out = value.json->text;
    return 0;
}

/* A missing value is the answer here, any other error stays one. */
static int eval_optional(struct evaluation *e, const struct expr *expr, bool *found,
                         struct value *out)
{
    struct err unused, *kept = e->err;
    e->err = &unused;
    e->missing = false;
    int code = eval(e, expr, out);
    e->err = kept;
    *found = !code;
    if (!code || e->missing) {
        e->missing = false;
        return 0;
    }
    *kept = unused;
    return code;
}

static int call_has(struct evaluation *e, const struct expr *expr, struct value *out)
{
    bool found;
    struct value value;
    int code = eval_optional(e, expr->args[0], &found, &value);
    set_json(out, json_bool(found));
    return code;
}

static int call_default(struct evaluation *e, const struct expr *expr, struct value *out)
{
    bool found;
    int code = eval_optional(e, expr->args[0], &found, out);
    if (code)
        return code;
    if (found && (out->kind != VALUE_JSON || out->json->kind != JSON_NULL))
        return 0;
    return eval(e, expr->args[1], out);
}

static int64_t code_points(struct str text)
{
    int64_t count = 0;
    for (size_t i = 0; i < text.len; i++)
        count += ((unsigned char)text.ptr[i] & 0xC0) != 0x80;
    return count;
}

static int call_size(struct evaluation *e, const struct expr *expr, struct value *out)
{
    struct value value;
    int code = eval(e, expr->args[0], &value);
    if (code)
        return code;
    if (value.kind == VALUE_JSON)
        eval_work(e, value.json->text.len);
    if (value.kind == VALUE_JSON && value.json->kind == JSON_STRING)
        set_json(out, json_int(e->arena, code_points(value.json->text)));
    else if (value.kind == VALUE_JSON &&
             (value.json->kind == JSON_LIST || value.json->kind == JSON_OBJECT))
        set_json(out, json_int(e->arena, value.json->count));
    else
        return eval_kind_error(e, expr->args[0], value, "text, a list or an object");
    return 0;
}

static int call_string(struct evaluation *e, const struct expr *expr, struct value *out)
{
    struct value value;
    struct str text;
    int code = eval(e, expr->args[0], &value);
    if (!code)
        code = value_text(e, value, expr->args[0], &text);
    if (!code)
        set_text(e, out, text);
    return code;
}

static int call_int(struct evaluation *e, const struct expr *expr, struct value *out)
{
    struct value value;
    int64_t number;
    int code = eval(e, expr->args[0], &value);
    if (code)
        return code;
    if (value.kind != VALUE_JSON) {
        number = value.us / SECOND_US;
    } else if (value.json->kind == JSON_NUMBER) {
        code = decimal_trunc(value.json->text, &number, e->err);
    } else if (value.json->kind == JSON_STRING) {
        struct json digits = {.kind = JSON_NUMBER, .text = value.json->text};
        if (!decimal_is_number(digits.text) || !json_to_int(&digits, &number))
            code = err_set(e->err, ERR_INVALID, "\"" STR_FMT "\" is not the text of an integer",
                           STR_ARG(expr_path(expr->args[0], e->arena)));
    } else {
        code = eval_kind_error(e, expr->args[0], value, "a number or text");
    }
    if (!code)
        set_json(out, json_int(e->arena, number));
    return code;
}

static bool text_contains(struct str text, struct str part)
{
    return part.len == 0 ||
           (text.len >= part.len && memmem(text.ptr, text.len, part.ptr, part.len) != NULL);
}

static int call_text_test(struct evaluation *e, const struct expr *expr, struct value *out)
{
    struct str text, part;
    bool truth;
    int code = eval_text(e, expr->args[0], &text);
    if (!code)
        code = eval_text(e, expr->args[1], &part);
    if (code)
        return code;
    eval_work(e, text.len);
    if (expr->fn == FN_STARTS_WITH)
        truth = str_starts(text, part);
    else if (expr->fn == FN_CONTAINS)
        truth = text_contains(text, part);
    else
        truth = text.len >= part.len &&
                str_eq((struct str){text.ptr + text.len - part.len, part.len}, part);
    set_json(out, json_bool(truth));
    return 0;
}

static int call_lower_ascii(struct evaluation *e, const struct expr *expr, struct value *out)
{
    struct str text;
    int code = eval_text(e, expr->args[0], &text);
    if (!code)
        code = eval_charge(e, text.len);
    if (code)
        return code;
    char *lower = (char *)arena_str(e->arena, text).ptr;
    for (size_t i = 0; i < text.len; i++)
        if (lower[i] >= 'A' && lower[i] <= 'Z')
            lower[i] = (char)(lower[i] + 32);
    set_text(e, out, (struct str){lower, text.len});
    return 0;
}

static int call_json(struct evaluation *e, const struct expr *expr, struct value *out)
{
    const struct json *value;
    int code = eval_json(e, expr->args[0], &value);
    if (code)
        return code;
    if (value->kind == JSON_NONE)
        return err_set(e->err, ERR_INVALID, "omit is no value that json() could write");
    code = eval_measure(e, value);
    if (code)
        return code;
    struct buf text = {0};
    json_write(value, &text);
    code = eval_charge(e, text.len);
    if (!code)
        set_text(e, out, arena_str(e->arena, buf_str(&text)));
    buf_free(&text);
    return code;
}

static int call_sha256(struct evaluation *e, const struct expr *expr, struct value *out)
{
    struct str text;
    char hex[65];
    int code = eval_text(e, expr->args[0], &text);
    if (!code)
        code = eval_charge(e, text.len);
    if (code)
        return code;
    struct sha256 hash = sha256_of(text);
    sha256_hex(&hash, hex);
    set_text(e, out, arena_str(e->arena, str_z(hex)));
    return 0;
}

/* In a gap of the zone's clocks moved on by its length; of a time shown twice the first. */
static int local_timestamp(struct evaluation *e, const struct expr *expr, struct value value,
                           struct value *out)
{
    struct wall time;
    int64_t local_us;
    if (value.kind != VALUE_JSON || value.json->kind != JSON_STRING ||
        !local_parse(value.json->text, &local_us))
        return err_set(e->err, ERR_INVALID,
                       "\"" STR_FMT "\" is not a local time such as 2026-10-25T02:30:00",
                       STR_ARG(expr_path(expr->args[0], e->arena)));
    zone_instant(expr->zone, local_us, &time, NULL);
    *out = (struct value){.kind = VALUE_TIME, .us = time.us};
    return 0;
}

static int call_timestamp(struct evaluation *e, const struct expr *expr, struct value *out)
{
    struct value value;
    struct wall time;
    int code = eval(e, expr->args[0], &value);
    if (code)
        return code;
    if (value.kind == VALUE_TIME) {
        *out = value;
        return 0;
    }
    if (expr->zone)
        return local_timestamp(e, expr, value, out);
    if (value.kind != VALUE_JSON || value.json->kind != JSON_STRING ||
        !wall_parse(value.json->text, &time))
        return err_set(e->err, ERR_INVALID,
                       "\"" STR_FMT "\" is not a time such as 2026-10-25T02:30:00Z",
                       STR_ARG(expr_path(expr->args[0], e->arena)));
    *out = (struct value){.kind = VALUE_TIME, .us = time.us};
    return 0;
}

static int call_duration(struct evaluation *e, const struct expr *expr, struct value *out)
{
    struct value value;
    int64_t us;
    int code = eval(e, expr->args[0], &value);
    if (code)
        return code;
    if (value.kind == VALUE_DURATION) {
        *out = value;
        return 0;
    }
    if (value.kind != VALUE_JSON || value.json->kind != JSON_STRING ||
        !duration_parse(value.json->text, &us))
        return err_set(e->err, ERR_INVALID, "\"" STR_FMT "\" is not a duration such as 1h30m",
                       STR_ARG(expr_path(expr->args[0], e->arena)));
    *out = (struct value){.kind = VALUE_DURATION, .us = us};
    return 0;
}

static int call_now(struct evaluation *e, const struct expr *expr, struct value *out)
{
    if (!wall_is_set(e->scope->now)) {
        e->missing = true;
        return err_set(e->err, ERR_INVALID, "\"" STR_FMT "\" is missing",
                       STR_ARG(expr_path(expr, e->arena)));
    }
    *out = (struct value){.kind = VALUE_TIME, .us = e->scope->now.us};
    return 0;
}

/* Item i of what a loop walks: of an object, the name of field i, as in CEL. */
static struct value loop_item(struct evaluation *e, const struct json *over, uint32_t i)
{
    struct value item;
    set_json(&item, over->kind == JSON_LIST ? over->items[i]
                                            : json_string(e->arena, over->members[i].name));
    return item;
}

/* all and exists stop at the item that decides. */
static int call_all_exists(struct evaluation *e, const struct expr *expr, const struct json *over,
                           struct value *out)
{
    bool is_all = expr->fn == FN_ALL, truth = is_all;
    for (uint32_t i = 0; i < over->count && truth == is_all; i++) {
        e->vars[expr->slot] = loop_item(e, over, i);
        int code = eval_boolean(e, expr->args[1], &truth);
        if (code)
            return code;
    }
    set_json(out, json_bool(truth));
    return 0;
}

static int call_map_filter(struct evaluation *e, const struct expr *expr, const struct json *over,
                           struct value *out)
{
    int code = eval_charge(e, over->count * sizeof(void *));
    if (code)
        return code;
    struct json *list = json_list_new(e->arena, over->count);
    for (uint32_t i = 0; i < over->count; i++) {
        struct value item = loop_item(e, over, i);
        const struct json *made = item.json;
        bool keep = true;
        e->vars[expr->slot] = item;
        if (expr->fn == FN_FILTER)
            code = eval_boolean(e, expr->args[1], &keep);
        else
            code = eval_json(e, expr->args[1], &made);
        if (code)
            return code;
        if (keep && made->kind != JSON_NONE)
            json_list_add(list, made);
    }
    set_json(out, list);
    return 0;
}

static int call_loop(struct evaluation *e, const struct expr *expr, struct value *out)
{
    struct value over;
    int code = eval(e, expr->args[0], &over);
    if (code)
        return code;
    if (over.kind != VALUE_JSON || (over.json->kind != JSON_LIST && over.json->kind != JSON_OBJECT))
        return eval_kind_error(e, expr->args[0], over, "a list or an object");
    if (expr->fn == FN_ALL || expr->fn == FN_EXISTS)
        return call_all_exists(e, expr, over.json, out);
    return call_map_filter(e, expr, over.json, out);
}

int eval_call(struct evaluation *e, const struct expr *expr, struct value *out)
{
    static const call_fn calls[] = {
        [FN_HAS] = call_has,
        [FN_SIZE] = call_size,
        [FN_STRING] = call_string,
        [FN_INT] = call_int,
        [FN_ALL] = call_loop,
        [FN_EXISTS] = call_loop,
        [FN_MAP] = call_loop,
        [FN_FILTER] = call_loop,
        [FN_STARTS_WITH] = call_text_test,
        [FN_ENDS_WITH] = call_text_test,
        [FN_CONTAINS] = call_text_test,
        [FN_LOWER_ASCII] = call_lower_ascii,
        [FN_DEFAULT] = call_default,
        [FN_JSON] = call_json,
        [FN_SHA256] = call_sha256,
        [FN_TIMESTAMP] = call_timestamp,
        [FN_DURATION] = call_duration,
        [FN_NOW] = call_now,
    };
    _Static_assert(ARRAY_LEN(calls) == FN_COUNT, "every function has its code");
    ASSERT(expr->fn != FN_NONE && expr->fn < FN_COUNT);
    return calls[expr->fn](e, expr, out);
}
