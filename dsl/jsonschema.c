#include "dsl/jsonschema_tree.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/decimal.h"

#define LINE_BYTES_MAX 380 /* of what is told of all misfits together */

struct check {
    struct arena *arena;
    struct schema_errors *errors;
    struct arena *scratch;
    uint64_t work;
    unsigned nesting;
    bool exhausted;
};

/* Where the checked value stands: pointers are written only for errors. */
struct step {
    const struct step *up;
    struct str name; /* absent: an index */
    uint32_t index;
};

static bool check_value(struct check *c, const struct schema *schema, const struct json *value,
                        const struct step *at, bool silent);

static void work_add(struct check *c, uint64_t work)
{
    c->work += work;
    if (c->work > SCHEMA_WORK_MAX)
        c->exhausted = true;
}

static void pointer_write(const struct step *at, struct buf *out)
{
    if (!at)
        return;
    pointer_write(at->up, out);
    if (!at->name.ptr) {
        buf_printf(out, "/%u", at->index);
        return;
    }
    buf_add_char(out, '/');
    for (size_t i = 0; i < at->name.len; i++) {
        if (at->name.ptr[i] == '~')
            buf_add_z(out, "~0");
        else if (at->name.ptr[i] == '/')
            buf_add_z(out, "~1");
        else
            buf_add_char(out, at->name.ptr[i]);
    }
}

/* Always false, so that checks can return it. */
static bool PRINTF_LIKE(4, 5)
    misfit(struct check *c, const struct step *at, bool silent, const char *fmt, ...)
{
    if (silent || c->errors->count == SCHEMA_ERRORS_MAX)
        return false;
    struct schema_error *error = &c->errors->list[c->errors->count++];
    struct buf text = {0};
    va_list args;
    pointer_write(at, &text);
    error->pointer = arena_str(c->arena, buf_str(&text));
    buf_clear(&text);
    va_start(args, fmt);
    buf_vprintf(&text, fmt, args);
    va_end(args);
    error->message = arena_str(c->arena, buf_str(&text));
    buf_free(&text);
    return false;
}

static unsigned value_types(const struct json *value)
{
    switch (value->kind) {
    case JSON_NONE:
    case JSON_NULL: return SCHEMA_NULL;
    case JSON_BOOL: return SCHEMA_BOOLEAN;
    case JSON_NUMBER: return SCHEMA_NUMBER | (decimal_is_whole(value->text) ? SCHEMA_INTEGER : 0);
    case JSON_STRING: return SCHEMA_STRING;
    case JSON_LIST: return SCHEMA_ARRAY;
    case JSON_OBJECT: return SCHEMA_OBJECT;
    }
    return 0;
}

static const char *const type_names[] = {"null", "a boolean", "an integer", "a number",
                                         "text", "a list",    "an object"};

static bool check_type(struct check *c, const struct schema *schema, const struct json *value,
                       const struct step *at, bool silent)
{
    if (!schema->types || (schema->types & value_types(value)))
        return true;
    struct buf wanted = {0};
    for (unsigned i = 0; i < ARRAY_LEN(type_names); i++)
        if (schema->types & 1u << i)
            buf_printf(&wanted, "%s%s", wanted.len ? " or " : "", type_names[i]);
    const char *found = type_names[__builtin_ctz(value_types(value))];
    if (value->kind == JSON_NUMBER)
        found = schema->types & SCHEMA_INTEGER ? "a number with a fraction" : "a number";
    misfit(c, at, silent, "must be %s, not %s", wanted.data, found);
    buf_free(&wanted);
    return false;
}

static bool check_constants(struct check *c, const struct schema *schema, const struct json *value,
                            const struct step *at, bool silent)
{
    if (schema->const_value && !json_equal(schema->const_value, value))
        return misfit(c, at, silent, "must be " STR_FMT,
                      STR_ARG(json_text(schema->const_value, c->scratch)));
    if (!schema->enumeration)
        return true;
    for (uint32_t i = 0; i < schema->enumeration->count; i++)
        if (json_equal(schema->enumeration->items[i], value))
            return true;
    return misfit(c, at, silent, "must be one of " STR_FMT,
                  STR_ARG(json_text(schema->enumeration, c->scratch)));
}

static bool check_number(struct check *c, const struct schema *schema, const struct json *value,
                         const struct step *at, bool silent)
{
    struct str n = value->text;
    bool ok = true;
    if (schema->minimum.ptr && json_number_cmp(n, schema->minimum) < 0)
        ok = misfit(c, at, silent, "must be at least " STR_FMT, STR_ARG(schema->minimum));
    if (schema->maximum.ptr && json_number_cmp(n, schema->maximum) > 0)
        ok = misfit(c, at, silent, "must be at most " STR_FMT, STR_ARG(schema->maximum));
    if (schema->above.ptr && json_number_cmp(n, schema->above) <= 0)
        ok = misfit(c, at, silent, "must be more than " STR_FMT, STR_ARG(schema->above));
    if (schema->below.ptr && json_number_cmp(n, schema->below) >= 0)
        ok = misfit(c, at, silent, "must be less than " STR_FMT, STR_ARG(schema->below));
    return ok;
}

static const char *plural(int64_t count)
{
    return count == 1 ? "" : "s";
}

static int64_t code_points(struct str text)
{
    int64_t count = 0;
    for (size_t i = 0; i < text.len; i++)
        count += ((unsigned char)text.ptr[i] & 0xC0) != 0x80;
    return count;
}

static bool check_string(struct check *c, const struct schema *schema, const struct json *value,
                         const struct step *at, bool silent)
{
    bool ok = true;
    int64_t length =
        schema->length_min >= 0 || schema->length_max >= 0 ? code_points(value->text) : 0;
    if (schema->length_min >= 0 && length < schema->length_min)
        ok = misfit(c, at, silent, "must have at least %lld character%s",
                    (long long)schema->length_min, plural(schema->length_min));
    if (schema->length_max >= 0 && length > schema->length_max)
        ok = misfit(c, at, silent, "must have at most %lld character%s",
                    (long long)schema->length_max, plural(schema->length_max));
    if (schema->pattern)
        work_add(c, (uint64_t)value->text.len * pattern_size(schema->pattern) / 64);
    if (schema->pattern && !c->exhausted &&
        !pattern_match(schema->pattern, value->text, c->scratch))
        ok =
            misfit(c, at, silent, "must match the pattern " STR_FMT, STR_ARG(schema->pattern_text));
    return ok;
}

static int text_cmp(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

static bool check_unique(struct check *c, const struct json *value, const struct step *at,
                         bool silent)
{
    struct str *texts = arena_array(c->scratch, struct str, value->count);
    for (uint32_t i = 0; i < value->count; i++) {
        struct buf text = {0};
        json_write_canonical(value->items[i], &text);
        texts[i] = arena_str(c->scratch, buf_str(&text));
        buf_free(&text);
    }
    qsort(texts, value->count, sizeof(*texts), text_cmp);
    for (uint32_t i = 1; i < value->count; i++)
        if (str_eq(texts[i - 1], texts[i]))
            return misfit(c, at, silent, "must not hold the same item twice: %.*s",
                          (int)MIN(texts[i].len, (size_t)60), texts[i].ptr);
    return true;
}

static bool check_list(struct check *c, const struct schema *schema, const struct json *value,
                       const struct step *at, bool silent)
{
    bool ok = true;
    if (schema->items_min >= 0 && value->count < schema->items_min)
        ok = misfit(c, at, silent, "must have at least %lld item%s", (long long)schema->items_min,
                    plural(schema->items_min));
    if (schema->items_max >= 0 && value->count > schema->items_max)
        ok = misfit(c, at, silent, "must have at most %lld item%s", (long long)schema->items_max,
                    plural(schema->items_max));
    if (schema->unique && !check_unique(c, value, at, silent))
        ok = false;
    for (uint32_t i = 0; schema->items && i < value->count; i++) {
        struct step here = {.up = at, .index = i};
        if (!check_value(c, schema->items, value->items[i], &here, silent))
            ok = false;
    }
    return ok;
}

static const struct schema *property_find(const struct schema *schema, struct str name)
{
    for (uint32_t i = 0; i < schema->properties_count; i++)
        if (str_eq(schema->properties[i].name, name))
            return schema->properties[i].schema;
    return NULL;
}

static bool check_object(struct check *c, const struct schema *schema, const struct json *value,
                         const struct step *at, bool silent)
{
    bool ok = true;
    work_add(c, (uint64_t)value->count * (schema->required_count + schema->properties_count) / 64);
    for (uint32_t i = 0; i < schema->required_count && !c->exhausted; i++)
        if (!json_get(value, schema->required[i])) {
            struct step here = {.up = at, .name = schema->required[i]};
            ok = misfit(c, &here, silent, "is required");
        }
    if (!schema->properties_count && !schema->closed && !schema->additional)
        return ok;
    for (uint32_t i = 0; i < value->count && !c->exhausted; i++) {
        struct step here = {.up = at, .name = value->members[i].name};
        const struct schema *property = property_find(schema, here.name);
        if (!property)
            property = schema->additional;
        if (property) {
            if (!check_value(c, property, value->members[i].value, &here, silent))
                ok = false;
        } else if (schema->closed) {
            ok = misfit(c, &here, silent, "is not expected here");
        }
    }
    return ok;
}

static bool check_combinations(struct check *c, const struct schema *schema,
                               const struct json *value, const struct step *at, bool silent)
{
    bool ok = true;
    uint32_t fitting = 0;
    for (uint32_t i = 0; i < schema->all_of.count; i++)
        if (!check_value(c, schema->all_of.list[i], value, at, silent))
            ok = false;
    for (uint32_t i = 0; i < schema->any_of.count && !fitting; i++)
        fitting += check_value(c, schema->any_of.list[i], value, at, true);
    if (schema->any_of.count && !fitting)
        ok = misfit(c, at, silent, "fits none of the alternatives (anyOf)");
    fitting = 0;
    for (uint32_t i = 0; i < schema->one_of.count; i++)
        fitting += check_value(c, schema->one_of.list[i], value, at, true);
    if (schema->one_of.count && fitting != 1)
        ok = misfit(c, at, silent, "must fit exactly one of the alternatives (oneOf), but fits %u",
                    fitting);
    if (schema->not_schema && check_value(c, schema->not_schema, value, at, true))
        ok = misfit(c, at, silent, "has a form that is excluded (not)");
    return ok;
}

static bool check_value(struct check *c, const struct schema *schema, const struct json *value,
                        const struct step *at, bool silent)
{
    work_add(c, 1);
    if (c->nesting == SCHEMA_NESTING_MAX)
        c->exhausted = true;
    if (c->exhausted)
        return false;
    if (schema->never)
        return misfit(c, at, silent, "is not allowed");
    c->nesting++;
    bool ok = check_type(c, schema, value, at, silent);
    if (ok && schema->ref)
        ok = check_value(c, schema->ref, value, at, silent);
    if (ok) {
        ok = check_constants(c, schema, value, at, silent);
        if (value->kind == JSON_NUMBER && !check_number(c, schema, value, at, silent))
            ok = false;
        if (value->kind == JSON_STRING && !check_string(c, schema, value, at, silent))
            ok = false;
        if (value->kind == JSON_LIST && !check_list(c, schema, value, at, silent))
            ok = false;
        if (value->kind == JSON_OBJECT && !check_object(c, schema, value, at, silent))
            ok = false;
        if (!check_combinations(c, schema, value, at, silent))
            ok = false;
    }
    c->nesting--;
    return ok;
}

bool schema_check(const struct schema *schema, const struct json *value, struct arena *arena,
                  struct schema_errors *errors)
{
    struct arena scratch = {0};
    struct check c = {.arena = arena, .errors = errors, .scratch = &scratch};
    errors->count = 0;
    bool ok = check_value(&c, schema, value, NULL, false);
    if (c.exhausted) { /* `not` may have turned a refusal into a fit */
        errors->count = 0;
        ok = misfit(&c, NULL, false, "takes too much work to check against its schema");
    }
    arena_free(&scratch);
    return ok;
}

static struct str error_text(const struct schema_error *error, struct arena *arena)
{
    return arena_printf(arena, "%.*s %.*s", (int)MIN(error->pointer.len, (size_t)100),
                        error->pointer.ptr, (int)MIN(error->message.len, (size_t)200),
                        error->message.ptr);
}

struct str schema_errors_text(const struct schema_errors *errors, struct arena *arena)
{
    struct buf out = {0};
    uint32_t i = 0;
    for (; i < errors->count; i++) {
        struct str entry = error_text(&errors->list[i], arena);
        if (i && out.len + entry.len > LINE_BYTES_MAX)
            break;
        buf_add_z(&out, i ? "; " : "");
        buf_add_str(&out, entry);
    }
    if (i < errors->count)
        buf_printf(&out, "; and %u more", errors->count - i);
    struct str text = arena_str(arena, buf_str(&out));
    buf_free(&out);
    return text;
}
