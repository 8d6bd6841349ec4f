#include "dsl/type.h"

#define SCHEMA_VISITS_MAX 1000 /* of one look-up of a field */

const struct type type_any = {.kinds = KINDS_JSON};

struct type type_of(unsigned kinds)
{
    return (struct type){.kinds = kinds};
}

struct type type_of_schema(const struct schema *schema)
{
    return (struct type){.kinds = schema->kinds, .schema = schema};
}

struct type type_of_list(struct type item, struct arena *arena)
{
    struct type *kept = arena_new(arena, struct type);
    *kept = item;
    return (struct type){.kinds = KIND_LIST, .item = kept};
}

static bool has_structure(struct type type)
{
    return type.kinds & (KIND_LIST | KIND_OBJECT);
}

struct type type_join(struct type a, struct type b)
{
    struct type joined = type_of(a.kinds | b.kinds);
    bool same = a.schema == b.schema && a.shape == b.shape && a.item == b.item && a.made == b.made;
    if (!has_structure(b) || same)
        joined = a;
    else if (!has_structure(a))
        joined = b;
    joined.kinds = a.kinds | b.kinds;
    return joined;
}

struct type type_item(struct type list)
{
    if (list.item)
        return *list.item;
    const struct schema *schema = list.schema;
    for (unsigned depth = 0; schema && depth < 20; depth++) {
        if (schema->items)
            return type_of_schema(schema->items);
        schema = schema->ref;
    }
    return type_any;
}

struct type type_as_json(struct type type)
{
    if (type.kinds & (KIND_TIME | KIND_DURATION))
        type.kinds |= KIND_TEXT;
    type.kinds &= KINDS_JSON;
    return type;
}

unsigned json_kind_bit(const struct json *value)
{
    static const unsigned bits[] = {0,         KIND_NULL, KIND_BOOL,  KIND_NUMBER,
                                    KIND_TEXT, KIND_LIST, KIND_OBJECT};
    return bits[value->kind];
}

const char *kinds_name(unsigned kinds, struct arena *arena)
{
    static const struct {
        unsigned bit;
        const char *name;
    } names[] = {
        {KIND_BOOL, "a boolean"}, {KIND_NUMBER, "a number"},     {KIND_TEXT, "text"},
        {KIND_LIST, "a list"},    {KIND_OBJECT, "an object"},    {KIND_TIME, "a time"},
        {KIND_NULL, "null"},      {KIND_DURATION, "a duration"}, {KIND_SECRET, "a secret"},
        {KIND_OMIT, "omit"},
    };
    struct buf out = {0};
    if ((kinds & KINDS_JSON) == KINDS_JSON)
        return "any value";
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (kinds & names[i].bit)
            buf_printf(&out, "%s%s", out.len ? " or " : "", names[i].name);
    const char *text = arena_str(arena, buf_str(&out)).ptr;
    buf_free(&out);
    return text;
}

/* --- fields --- */

static void field_take(enum field_answer found, struct type type, enum field_answer *answer,
                       struct type *out)
{
    if (found == FIELD_FOUND && *answer == FIELD_FOUND) { /* one of several alternatives */
        out->kinds |= type.kinds;
        if (out->schema != type.schema)
            out->schema = NULL;
    } else if (found > *answer) {
        *answer = found;
        *out = type;
    }
}

struct field_search {
    struct str name;
    bool declares;   /* some schema names fields: then other names are mistakes */
    unsigned visits; /* references may multiply */
};

static enum field_answer schema_field(const struct schema *schema, struct field_search *search,
                                      struct type *out)
{
    enum field_answer answer = FIELD_UNKNOWN;
    struct type type;
    *out = type_any;
    if (++search->visits > SCHEMA_VISITS_MAX)
        return FIELD_OPEN;
    for (uint32_t i = 0; i < schema->properties_count; i++)
        if (str_eq(schema->properties[i].name, search->name)) {
            *out = type_of_schema(schema->properties[i].schema);
            return FIELD_FOUND;
        }
    search->declares = search->declares || schema->properties_count || schema->closed;
    if (schema->additional) {
        *out = type_of_schema(schema->additional);
        return FIELD_FOUND;
    }
    if (schema->open)
        return FIELD_OPEN;
    if (schema->ref)
        field_take(schema_field(schema->ref, search, &type), type, &answer, out);
    const struct schema_list *lists[] = {&schema->all_of, &schema->any_of, &schema->one_of};
    for (size_t l = 0; l < ARRAY_LEN(lists); l++)
        for (uint32_t i = 0; i < lists[l]->count; i++)
            field_take(schema_field(lists[l]->list[i], search, &type), type, &answer, out);
    return answer == FIELD_UNKNOWN && !search->declares ? FIELD_OPEN : answer;
}

static size_t schema_names(const struct schema *schema, const char **names, size_t max,
                           struct arena *arena, unsigned *visits)
{
    size_t count = 0;
    const struct schema_list *lists[] = {&schema->all_of, &schema->any_of, &schema->one_of};
    if (++*visits > SCHEMA_VISITS_MAX)
        return 0;
    for (uint32_t i = 0; i < schema->properties_count && count < max; i++)
        names[count++] = arena_str(arena, schema->properties[i].name).ptr;
    if (schema->ref)
        count += schema_names(schema->ref, names + count, max - count, arena, visits);
    for (size_t l = 0; l < ARRAY_LEN(lists); l++)
        for (uint32_t i = 0; i < lists[l]->count; i++)
            count += schema_names(lists[l]->list[i], names + count, max - count, arena, visits);
    return count;
}

static enum field_answer made_field(struct type_source *from, struct type of, struct str name,
                                    struct type *out)
{
    for (uint32_t i = 0; i < of.made->count; i++)
        if (str_eq(of.made->members[i].name, name)) {
            *out = type_of_template(from, of.maker, of.maker_step, of.made->members[i].value);
            return FIELD_FOUND;
        }
    return FIELD_UNKNOWN;
}

static enum field_answer shape_field(const struct shape *shape, struct str name, struct type *out)
{
    for (; shape->name; shape++)
        if (str_eq_z(name, shape->name)) {
            *out = (struct type){.kinds = shape->kinds, .shape = shape->fields};
            return FIELD_FOUND;
        }
    return FIELD_UNKNOWN;
}

enum field_answer type_field(struct type_source *from, struct type of, struct str name,
                             struct type *out)
{
    struct field_search search = {.name = name};
    *out = type_any;
    if (of.shape)
        return shape_field(of.shape, name, out);
    if (of.made)
        return made_field(from, of, name, out);
    return of.schema ? schema_field(of.schema, &search, out) : FIELD_OPEN;
}

size_t type_names(struct type of, const char **names, size_t max, struct arena *arena)
{
    size_t count = 0;
    unsigned visits = 0;
    for (const struct shape *field = of.shape; field && field->name && count < max; field++)
        names[count++] = field->name;
    for (uint32_t i = 0; of.made && i < of.made->count && count < max; i++)
        names[count++] = arena_str(arena, of.made->members[i].name).ptr;
    if (of.schema)
        count += schema_names(of.schema, names + count, max - count, arena, &visits);
    return count;
}
