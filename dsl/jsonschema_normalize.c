/*
 * jsonschema_normalize.c: what a schema declares to be one value, as one value.
 */
#include "dsl/jsonschema_tree.h"

struct normalizer {
    struct arena *arena;
    uint64_t work; /* schemas applied: $ref may recurse along with the value */
};

static const struct json *normalize(struct normalizer *n, const struct schema *schema,
                                    const struct json *value, unsigned nesting);

/* A plain decimal, as a person writes an amount: -?(0|[1-9][0-9]*)([.][0-9]+)? */
static bool is_amount(struct str text)
{
    size_t at = text.len && text.ptr[0] == '-' ? 1 : 0, digits = at;
    while (at < text.len && text.ptr[at] >= '0' && text.ptr[at] <= '9')
        at++;
    if (at == digits || (text.ptr[digits] == '0' && at > digits + 1))
        return false;
    if (at == text.len)
        return true;
    if (text.ptr[at++] != '.' || at == text.len)
        return false;
    while (at < text.len && text.ptr[at] >= '0' && text.ptr[at] <= '9')
        at++;
    return at == text.len;
}

static const struct json *normalize_all(struct normalizer *n, const struct schema_list *schemas,
                                        const struct json *value, unsigned nesting)
{
    for (uint32_t i = 0; i < schemas->count; i++)
        value = normalize(n, schemas->list[i], value, nesting);
    return value;
}

static const struct schema *member_schema(const struct schema *schema, struct str name)
{
    for (uint32_t i = 0; i < schema->properties_count; i++)
        if (str_eq(schema->properties[i].name, name))
            return schema->properties[i].schema;
    return schema->additional;
}

static const struct json *normalize_object(struct normalizer *n, const struct schema *schema,
                                           const struct json *value, unsigned nesting)
{
    struct json *made = json_object_new(n->arena, value->count);
    bool changed = false;
    for (uint32_t i = 0; i < value->count; i++) {
        const struct json_member *member = &value->members[i];
        const struct json *part =
            normalize(n, member_schema(schema, member->name), member->value, nesting);
        changed |= part != member->value;
        json_object_add(made, member->name, part);
    }
    return changed ? made : value;
}

static const struct json *normalize_list(struct normalizer *n, const struct schema *schema,
                                         const struct json *value, unsigned nesting)
{
    struct json *made = json_list_new(n->arena, value->count);
    bool changed = false;
    for (uint32_t i = 0; i < value->count; i++) {
        const struct json *part = normalize(n, schema->items, value->items[i], nesting);
        changed |= part != value->items[i];
        json_list_add(made, part);
    }
    return changed ? made : value;
}

static const struct json *normalize(struct normalizer *n, const struct schema *schema,
                                    const struct json *value, unsigned nesting)
{
    if (!schema || nesting > SCHEMA_NESTING_MAX || ++n->work > SCHEMA_WORK_MAX)
        return value;
    if (schema->normalize_amount && value->kind == JSON_STRING && is_amount(value->text))
        value = json_number(n->arena, value->text);
    value = normalize(n, schema->ref, value, nesting + 1);
    value = normalize_all(n, &schema->all_of, value, nesting + 1);
    value = normalize_all(n, &schema->any_of, value, nesting + 1);
    value = normalize_all(n, &schema->one_of, value, nesting + 1);
    if (value->kind == JSON_OBJECT && (schema->properties_count || schema->additional))
        value = normalize_object(n, schema, value, nesting + 1);
    else if (value->kind == JSON_LIST && schema->items)
        value = normalize_list(n, schema, value, nesting + 1);
    return value;
}

const struct json *schema_normalize(const struct schema *schema, const struct json *value,
                                    struct arena *arena)
{
    struct normalizer normalizer = {.arena = arena};
    return normalize(&normalizer, schema, value, 0);
}
