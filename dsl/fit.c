#include "dsl/fit.h"

#include "dsl/type.h"

#define FIT_DEPTH_MAX 64

struct fit {
    struct arena *arena;
    struct schema_errors *errors;
    struct fit_reader reader;
    struct type_source from;
};

static void PRINTF_LIKE(3, 4) misfit(struct fit *fit, struct str pointer, const char *fmt, ...)
{
    struct schema_errors *errors = fit->errors;
    struct buf text = {0};
    va_list args;
    if (errors->count == SCHEMA_ERRORS_MAX)
        return;
    va_start(args, fmt);
    buf_vprintf(&text, fmt, args);
    va_end(args);
    errors->list[errors->count++] =
        (struct schema_error){pointer, arena_str(fit->arena, buf_str(&text))};
    buf_free(&text);
}

static struct str below(struct fit *fit, struct str pointer, struct str name)
{
    return arena_printf(fit->arena, STR_FMT "/" STR_FMT, STR_ARG(pointer), STR_ARG(name));
}

static void literal_fit(struct fit *fit, const struct json *value, const struct schema *schema,
                        struct str pointer)
{
    struct schema_errors found = {0};
    if (schema_check(schema, value, fit->arena, &found))
        return;
    for (uint32_t i = 0; i < found.count && fit->errors->count < SCHEMA_ERRORS_MAX; i++)
        fit->errors->list[fit->errors->count++] =
            (struct schema_error){arena_printf(fit->arena, STR_FMT STR_FMT, STR_ARG(pointer),
                                               STR_ARG(found.list[i].pointer)),
                                  found.list[i].message};
}

static const struct template_member *member_find(const struct template *template, struct str name)
{
    for (uint32_t i = 0; i < template->count; i++)
        if (str_eq(template->members[i].name, name))
            return &template->members[i];
    return NULL;
}

static bool is_required(const struct schema *schema, struct str name)
{
    for (uint32_t i = 0; i < schema->required_count; i++)
        if (str_eq(schema->required[i], name))
            return true;
    return false;
}

static const struct schema *property_find(const struct schema *schema, struct str name)
{
    for (uint32_t i = 0; i < schema->properties_count; i++)
        if (str_eq(schema->properties[i].name, name))
            return schema->properties[i].schema;
    return schema->additional;
}

static void fit_check(struct fit *fit, const struct template *template, const struct schema *schema,
                      struct str pointer, unsigned depth);

static void object_fit(struct fit *fit, const struct template *template,
                       const struct schema *schema, struct str pointer, unsigned depth)
{
    for (uint32_t i = 0; i < schema->required_count; i++)
        if (!member_find(template, schema->required[i]))
            misfit(fit, below(fit, pointer, schema->required[i]), "is required");
    for (uint32_t i = 0; i < template->count; i++) {
        const struct template_member *member = &template->members[i];
        const struct schema *property = property_find(schema, member->name);
        if (!property && schema->closed)
            misfit(fit, below(fit, pointer, member->name), "is not expected here");
        else if (property)
            fit_check(fit, member->value, property, below(fit, pointer, member->name), depth + 1);
    }
}

static void list_fit(struct fit *fit, const struct template *template, const struct schema *schema,
                     struct str pointer, unsigned depth)
{
    for (uint32_t i = 0; i < template->count && schema->items; i++)
        fit_check(fit, template->members[i].value, schema->items,
                  arena_printf(fit->arena, STR_FMT "/%u", STR_ARG(pointer), i), depth + 1);
}

/* The types that a template can be of. */
static unsigned template_types(const struct template *template)
{
    switch (template->kind) {
    case TEMPLATE_TEXT: return SCHEMA_STRING;
    case TEMPLATE_LIST: return SCHEMA_ARRAY;
    case TEMPLATE_OBJECT: return SCHEMA_OBJECT;
    case TEMPLATE_EXPR:
    case TEMPLATE_LITERAL: break;
    }
    return SCHEMA_TYPES_ALL;
}

/* --- types of expressions --- */

static void type_fit(struct fit *fit, struct type type, const struct schema *schema,
                     struct str pointer, unsigned depth);

/* An object that a template makes, maybe of another workflow. */
static void made_fit(struct fit *fit, struct type type, const struct schema *schema,
                     struct str pointer, unsigned depth)
{
    struct fit_reader reader = fit->reader;
    fit->reader.plan = type.maker;
    fit->reader.step = type.maker_step;
    fit_check(fit, type.made, schema, pointer, depth + 1);
    fit->reader = reader;
}

/* Of an object with declared fields; only those count that are there whenever it is. */
static void declared_fit(struct fit *fit, struct type type, const struct schema *schema,
                         struct str pointer, unsigned depth)
{
    const struct schema *declared = type.schema;
    struct type field;
    for (uint32_t i = 0; i < schema->required_count; i++)
        if (declared->closed &&
            type_field(&fit->from, type, schema->required[i], &field) == FIELD_UNKNOWN)
            misfit(fit, below(fit, pointer, schema->required[i]), "is required");
    for (uint32_t i = 0; i < declared->required_count; i++)
        if (schema->closed && !property_find(schema, declared->required[i]))
            misfit(fit, below(fit, pointer, declared->required[i]), "is not expected here");
    for (uint32_t i = 0; i < schema->properties_count; i++) {
        struct str name = schema->properties[i].name;
        if ((is_required(schema, name) || is_required(declared, name)) &&
            type_field(&fit->from, type, name, &field) == FIELD_FOUND)
            type_fit(fit, field, schema->properties[i].schema, below(fit, pointer, name),
                     depth + 1);
    }
}

static void type_fit(struct fit *fit, struct type type, const struct schema *schema,
                     struct str pointer, unsigned depth)
{
    if (depth > FIT_DEPTH_MAX || ++fit->from.visits > TYPE_VISITS_MAX)
        return;
    if (!(type.kinds & schema->kinds)) {
        misfit(fit, pointer, "must be %s, not %s", kinds_name(schema->kinds, fit->arena),
               kinds_name(type.kinds, fit->arena));
        return;
    }
    if (type.kinds != KIND_OBJECT)
        return; /* it may be something else, and a list may be empty */
    if (type.made) {
        made_fit(fit, type, schema, pointer, depth);
        return;
    }
    if (schema->ref)
        type_fit(fit, type, schema->ref, pointer, depth + 1);
    for (uint32_t i = 0; i < schema->all_of.count; i++)
        type_fit(fit, type, schema->all_of.list[i], pointer, depth + 1);
    if (type.schema)
        declared_fit(fit, type, schema, pointer, depth);
}

static void expr_fit(struct fit *fit, const struct template *template, const struct schema *schema,
                     struct str pointer, unsigned depth)
{
    const struct fit_reader *reader = &fit->reader;
    if (template->expr->kinds & KIND_OMIT)
        return; /* the field may be left out */
    type_fit(fit, type_of_template(&fit->from, reader->plan, reader->step, template), schema,
             pointer, depth);
}

/* --- templates --- */

static const char *template_kind_name(const struct template *template)
{
    return template->kind == TEMPLATE_TEXT   ? "text"
           : template->kind == TEMPLATE_LIST ? "a list"
                                             : "an object";
}

static void fit_check(struct fit *fit, const struct template *template, const struct schema *schema,
                      struct str pointer, unsigned depth)
{
    if (depth > FIT_DEPTH_MAX)
        return;
    if (template->kind == TEMPLATE_EXPR) {
        expr_fit(fit, template, schema, pointer, depth);
        return;
    }
    if (template->kind == TEMPLATE_LITERAL) {
        literal_fit(fit, template->literal, schema, pointer);
        return;
    }
    if (schema->types && !(schema->types & template_types(template))) {
        misfit(fit, pointer, "cannot be %s", template_kind_name(template));
        return;
    }
    if (schema->ref)
        fit_check(fit, template, schema->ref, pointer, depth + 1);
    for (uint32_t i = 0; i < schema->all_of.count; i++)
        fit_check(fit, template, schema->all_of.list[i], pointer, depth + 1);
    if (template->kind == TEMPLATE_OBJECT)
        object_fit(fit, template, schema, pointer, depth);
    else if (template->kind == TEMPLATE_LIST)
        list_fit(fit, template, schema, pointer, depth);
}

bool template_fits(const struct template *template, const struct schema *schema,
                   const struct fit_reader *reader, struct arena *arena,
                   struct schema_errors *errors)
{
    static const struct template empty = {.kind = TEMPLATE_OBJECT};
    struct fit fit = {arena, errors, *reader, {.known = reader->known, .arena = arena}};
    *errors = (struct schema_errors){0};
    if (schema)
        fit_check(&fit, template ? template : &empty, schema, STR(""), 0);
    return errors->count == 0;
}
