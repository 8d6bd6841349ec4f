/*
 * compile_schema.c: the JSON Schema subset to its compiled form. A keyword that is not
 * in the subset is an error: a rule that nobody checks is worse than none.
 */
#include "dsl/type.h"

#include <stdio.h>

#include "engine/base/decimal.h"

#define REFS_MAX 1000

struct reference {
    const struct node *node; /* the text of $ref */
    struct schema *schema;
};

struct compiled { /* what a $ref may point to */
    const struct node *node;
    struct schema *schema;
};

struct schema_compiler {
    struct compiler *cx;
    const struct node *root;
    struct reference *references;
    uint32_t references_count;
    struct compiled *compiled;
    uint32_t compiled_count, compiled_capacity;
};

static struct schema *compile(struct schema_compiler *sc, const struct node *node);

typedef void (*keyword_fn)(struct schema_compiler *sc, struct schema *schema,
                           const struct node *value, const char *name);

static const struct {
    const char *name;
    unsigned bits;
} types[] = {
    {"null", SCHEMA_NULL},       {"boolean", SCHEMA_BOOLEAN},
    {"integer", SCHEMA_INTEGER}, {"number", SCHEMA_NUMBER | SCHEMA_INTEGER},
    {"string", SCHEMA_STRING},   {"array", SCHEMA_ARRAY},
    {"object", SCHEMA_OBJECT},
};

static unsigned type_read(struct schema_compiler *sc, const struct node *node)
{
    const char *names[ARRAY_LEN(types)];
    struct diag *diag;
    if (node->kind == NODE_NULL) {
        diag = node_error(sc->cx, "E123", node, "`type` must be a word, not null");
        diag_help(sc->cx->diags, diag, "quote it: \"null\"");
        return 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        names[i] = types[i].name;
        if (node->kind == NODE_TEXT && str_eq_z(node->text, types[i].name))
            return types[i].bits;
    }
    diag = node_error(sc->cx, "E123", node, "`" STR_FMT "` is no type of JSON Schema",
                      STR_ARG(node->text));
    const char *nearest = diag_nearest(node->text, names, ARRAY_LEN(names));
    if (nearest)
        diag_help(sc->cx->diags, diag, "did you mean `%s`?", nearest);
    else
        diag_help(sc->cx->diags, diag,
                  "it is one of: null, boolean, integer, number, string, array, object");
    return 0;
}

static void keyword_type(struct schema_compiler *sc, struct schema *schema,
                         const struct node *value, const char *name)
{
    (void)name;
    if (value->kind != NODE_LIST) {
        schema->types = type_read(sc, value);
        return;
    }
    for (uint32_t i = 0; i < value->count; i++)
        schema->types |= type_read(sc, value->items[i]);
}

static void keyword_const(struct schema_compiler *sc, struct schema *schema,
                          const struct node *value, const char *name)
{
    (void)name;
    schema->const_value = node_json(value, sc->cx->arena);
}

static void keyword_enum(struct schema_compiler *sc, struct schema *schema,
                         const struct node *value, const char *name)
{
    (void)name;
    if (value->kind != NODE_LIST || !value->count)
        node_error(sc->cx, "E123", value, "`enum` must be a list of at least one value");
    else
        schema->enumeration = node_json(value, sc->cx->arena);
}

static void keyword_properties(struct schema_compiler *sc, struct schema *schema,
                               const struct node *value, const char *name)
{
    (void)name;
    if (!node_is_map(sc->cx, value, "`properties`"))
        return;
    schema->properties = arena_array(sc->cx->arena, struct schema_property, value->count);
    for (uint32_t i = 0; i < value->count; i++)
        schema->properties[i] = (struct schema_property){
            arena_str(sc->cx->arena, value->pairs[i].key->text),
            compile(sc, value->pairs[i].value),
        };
    schema->properties_count = value->count;
}

static void keyword_required(struct schema_compiler *sc, struct schema *schema,
                             const struct node *value, const char *name)
{
    (void)name;
    if (value->kind != NODE_LIST) {
        struct diag *diag = node_error(sc->cx, "E123", value, "`required` must be a list of names");
        if (value->kind == NODE_BOOL)
            diag_help(sc->cx->diags, diag, "it stands beside `properties`: required: [name, ...]");
        return;
    }
    schema->required = arena_array(sc->cx->arena, struct str, value->count);
    for (uint32_t i = 0; i < value->count; i++) {
        if (value->items[i]->kind != NODE_TEXT)
            node_error(sc->cx, "E123", value->items[i], "`required` holds names of properties");
        else
            schema->required[schema->required_count++] =
                arena_str(sc->cx->arena, value->items[i]->text);
    }
}

static void keyword_additional(struct schema_compiler *sc, struct schema *schema,
                               const struct node *value, const char *name)
{
    (void)name;
    if (value->kind == NODE_BOOL) {
        schema->closed = !value->boolean;
        schema->open = value->boolean;
        return;
    }
    schema->open = true;
    schema->additional = compile(sc, value);
}

static void keyword_schema(struct schema_compiler *sc, struct schema *schema,
                           const struct node *value, const char *name)
{
    if (str_eq_z(STR("items"), name))
        schema->items = compile(sc, value);
    else
        schema->not_schema = compile(sc, value);
}

static void keyword_count(struct schema_compiler *sc, struct schema *schema,
                          const struct node *value, const char *name)
{
    char what[32];
    int64_t count;
    snprintf(what, sizeof(what), "`%s`", name);
    if (!read_integer(sc->cx, value, what, 0, INT32_MAX, &count))
        return;
    bool is_min = strncmp(name, "min", 3) == 0;
    if (strcmp(name + 3, "Items") == 0)
        *(is_min ? &schema->items_min : &schema->items_max) = count;
    else
        *(is_min ? &schema->length_min : &schema->length_max) = count;
}

static void keyword_unique(struct schema_compiler *sc, struct schema *schema,
                           const struct node *value, const char *name)
{
    (void)name;
    read_boolean(sc->cx, value, "`uniqueItems`", &schema->unique);
}

static void keyword_pattern(struct schema_compiler *sc, struct schema *schema,
                            const struct node *value, const char *name)
{
    const char *error;
    size_t at;
    (void)name;
    if (value->kind != NODE_TEXT) {
        node_error(sc->cx, "E123", value, "`pattern` must be text");
        return;
    }
    schema->pattern_text = arena_str(sc->cx->arena, value->text);
    schema->pattern = pattern_compile(schema->pattern_text, sc->cx->arena, &error, &at);
    if (!schema->pattern)
        cx_error(sc->cx, "E124", text_place(sc->cx, value, at, at + 1),
                 "the pattern cannot be used: %s", error);
}

static void keyword_bound(struct schema_compiler *sc, struct schema *schema,
                          const struct node *value, const char *name)
{
    if (value->kind != NODE_NUMBER) {
        node_error(sc->cx, "E123", value, "`%s` must be a number", name);
        return;
    }
    struct str number = arena_str(sc->cx->arena, value->text);
    if (strcmp(name, "minimum") == 0)
        schema->minimum = number;
    else if (strcmp(name, "maximum") == 0)
        schema->maximum = number;
    else if (strcmp(name, "exclusiveMinimum") == 0)
        schema->above = number;
    else
        schema->below = number;
}

static void keyword_list(struct schema_compiler *sc, struct schema *schema,
                         const struct node *value, const char *name)
{
    struct schema_list *list = strcmp(name, "anyOf") == 0   ? &schema->any_of
                               : strcmp(name, "oneOf") == 0 ? &schema->one_of
                                                            : &schema->all_of;
    if (value->kind != NODE_LIST || !value->count) {
        node_error(sc->cx, "E123", value, "`%s` must be a list of at least one schema", name);
        return;
    }
    list->list =
        (const struct schema **)arena_alloc_array(sc->cx->arena, value->count, sizeof(*list->list));
    for (uint32_t i = 0; i < value->count; i++)
        list->list[i] = compile(sc, value->items[i]);
    list->count = value->count;
}

static void keyword_ref(struct schema_compiler *sc, struct schema *schema, const struct node *value,
                        const char *name)
{
    (void)name;
    if (value->kind != NODE_TEXT || !value->text.len || value->text.ptr[0] != '#') {
        struct diag *diag = node_error(sc->cx, "E125", value, "`$ref` must point into this schema");
        diag_help(sc->cx->diags, diag, "write \"#/$defs/NAME\"");
    } else if (sc->references_count == REFS_MAX) {
        node_error(sc->cx, "E125", value, "the schema has more than %d references", REFS_MAX);
    } else {
        sc->references[sc->references_count++] = (struct reference){value, schema};
    }
}

static void keyword_defs(struct schema_compiler *sc, struct schema *schema,
                         const struct node *value, const char *name)
{
    (void)schema;
    (void)name;
    if (!node_is_map(sc->cx, value, "`$defs`"))
        return;
    for (uint32_t i = 0; i < value->count; i++)
        compile(sc, value->pairs[i].value);
}

static void keyword_note(struct schema_compiler *sc, struct schema *schema,
                         const struct node *value, const char *name)
{
    (void)sc;
    (void)schema;
    (void)value;
    (void)name;
}

static const struct {
    const char *name;
    keyword_fn compile;
} keywords[] = {
    {"type", keyword_type},
    {"enum", keyword_enum},
    {"const", keyword_const},
    {"properties", keyword_properties},
    {"required", keyword_required},
    {"additionalProperties", keyword_additional},
    {"items", keyword_schema},
    {"not", keyword_schema},
    {"minItems", keyword_count},
    {"maxItems", keyword_count},
    {"minLength", keyword_count},
    {"maxLength", keyword_count},
    {"uniqueItems", keyword_unique},
    {"pattern", keyword_pattern},
    {"minimum", keyword_bound},
    {"maximum", keyword_bound},
    {"exclusiveMinimum", keyword_bound},
    {"exclusiveMaximum", keyword_bound},
    {"anyOf", keyword_list},
    {"oneOf", keyword_list},
    {"allOf", keyword_list},
    {"$ref", keyword_ref},
    {"$defs", keyword_defs},
    {"title", keyword_note},
    {"description", keyword_note},
    {"default", keyword_note},
    {"examples", keyword_note},
    {"format", keyword_note},
};

static void extension_compile(struct schema_compiler *sc, struct schema *schema,
                              const struct pair *pair)
{
    if (!str_eq(pair->key->text, STR("x-normalize")))
        return;
    if (pair->value->kind == NODE_TEXT && str_eq(pair->value->text, STR("amount")))
        schema->normalize_amount = true;
    else
        node_error(sc->cx, "E123", pair->value, "`x-normalize` can only be `amount`");
}

static void keyword_unknown(struct schema_compiler *sc, const struct node *key)
{
    const char *names[ARRAY_LEN(keywords)];
    for (size_t i = 0; i < ARRAY_LEN(keywords); i++)
        names[i] = keywords[i].name;
    struct diag *diag =
        node_error(sc->cx, "E122", key, "`" STR_FMT "` is no keyword of the schemas used here",
                   STR_ARG(key->text));
    const char *nearest = diag_nearest(key->text, names, ARRAY_LEN(names));
    if (nearest)
        diag_help(sc->cx->diags, diag, "a keyword with a similar name exists: `%s`", nearest);
    else
        diag_help(sc->cx->diags, diag,
                  "an unknown rule would be ignored silently; notes may be named `x-...`");
}

static void keyword_compile(struct schema_compiler *sc, struct schema *schema,
                            const struct pair *pair)
{
    if (str_starts(pair->key->text, STR("x-"))) {
        extension_compile(sc, schema, pair);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(keywords); i++)
        if (str_eq_z(pair->key->text, keywords[i].name)) {
            keywords[i].compile(sc, schema, pair->value, keywords[i].name);
            return;
        }
    keyword_unknown(sc, pair->key);
}

static void compiled_add(struct schema_compiler *sc, const struct node *node, struct schema *schema)
{
    if (sc->compiled_count == sc->compiled_capacity) {
        uint32_t capacity = sc->compiled_capacity ? sc->compiled_capacity * 2 : 64;
        struct compiled *grown = arena_array(sc->cx->scratch, struct compiled, capacity);
        if (sc->compiled_count)
            memcpy(grown, sc->compiled, sc->compiled_count * sizeof(*grown));
        sc->compiled = grown;
        sc->compiled_capacity = capacity;
    }
    sc->compiled[sc->compiled_count++] = (struct compiled){node, schema};
}

static struct schema *compile(struct schema_compiler *sc, const struct node *node)
{
    struct schema *schema = arena_new(sc->cx->arena, struct schema);
    schema->items_min = schema->items_max = schema->length_min = schema->length_max = -1;
    compiled_add(sc, node, schema);
    if (node->kind == NODE_BOOL) {
        schema->never = !node->boolean;
        return schema;
    }
    if (node->kind != NODE_MAP) {
        struct diag *diag = node_error(sc->cx, "E103", node, "a schema must be a map, not %s",
                                       node_kind_name(node));
        if (node->kind == NODE_TEXT)
            diag_help(sc->cx->diags, diag, "a type is written `{type: string}`");
        return schema;
    }
    for (uint32_t i = 0; i < node->count; i++)
        keyword_compile(sc, schema, &node->pairs[i]);
    return schema;
}

/* --- $ref --- */

static struct str pointer_part(struct schema_compiler *sc, struct str text, size_t *at)
{
    char *part = arena_alloc(sc->cx->scratch, text.len + 1);
    size_t len = 0;
    for (; *at < text.len && text.ptr[*at] != '/'; ++*at) {
        char c = text.ptr[*at];
        if (c == '~' && *at + 1 < text.len &&
            (text.ptr[*at + 1] == '0' || text.ptr[*at + 1] == '1'))
            c = text.ptr[++*at] == '0' ? '~' : '/';
        part[len++] = c;
    }
    return (struct str){part, len};
}

static struct schema *reference_find(struct schema_compiler *sc, struct str text)
{
    const struct node *node = sc->root;
    for (size_t at = 1; node && at < text.len;) {
        if (text.ptr[at++] != '/')
            return NULL;
        struct str part = pointer_part(sc, text, &at);
        struct json index = {.kind = JSON_NUMBER, .text = part};
        int64_t i;
        if (node->kind == NODE_LIST)
            node = json_to_int(&index, &i) && i >= 0 && i < node->count ? node->items[i] : NULL;
        else
            node = node_get(node, arena_str(sc->cx->scratch, part).ptr);
    }
    for (uint32_t i = 0; node && i < sc->compiled_count; i++)
        if (sc->compiled[i].node == node)
            return sc->compiled[i].schema;
    return NULL;
}

enum mark { MARK_NEW, MARK_OPEN, MARK_DONE };

static unsigned own_kinds(const struct schema *schema)
{
    static const unsigned bits[] = {KIND_NULL, KIND_BOOL, KIND_NUMBER, KIND_NUMBER,
                                    KIND_TEXT, KIND_LIST, KIND_OBJECT};
    unsigned kinds = schema->types ? 0 : KINDS_JSON, enumerated = 0;
    for (size_t i = 0; i < ARRAY_LEN(bits); i++)
        if (schema->types & 1u << i)
            kinds |= bits[i];
    if (schema->const_value)
        kinds &= json_kind_bit(schema->const_value);
    for (uint32_t i = 0; schema->enumeration && i < schema->enumeration->count; i++)
        enumerated |= json_kind_bit(schema->enumeration->items[i]);
    return schema->enumeration ? kinds & enumerated : kinds;
}

/* Fills `kinds` of the schema and of all it refers to. False: it refers to itself without going
 * into the value, so a check would never end. */
static bool kinds_fill(struct schema *schema)
{
    const struct schema_list *lists[] = {&schema->all_of, &schema->any_of, &schema->one_of};
    if (schema->mark != MARK_NEW)
        return schema->mark == MARK_DONE;
    bool ok = true;
    schema->mark = MARK_OPEN;
    schema->kinds = own_kinds(schema);
    if (schema->ref) {
        ok = kinds_fill((struct schema *)schema->ref);
        schema->kinds &= schema->ref->kinds;
    }
    if (schema->not_schema)
        ok = kinds_fill((struct schema *)schema->not_schema) && ok;
    for (size_t l = 0; l < ARRAY_LEN(lists); l++) {
        unsigned any = 0;
        for (uint32_t i = 0; i < lists[l]->count; i++) {
            ok = kinds_fill((struct schema *)lists[l]->list[i]) && ok;
            if (l == 0)
                schema->kinds &= lists[l]->list[i]->kinds;
            any |= lists[l]->list[i]->kinds;
        }
        if (l > 0 && lists[l]->count)
            schema->kinds &= any;
    }
    if (!schema->kinds || schema->never) /* nothing fits: no mistake of an expression */
        schema->kinds = KINDS_JSON;
    schema->mark = MARK_DONE;
    return ok;
}

static void references_resolve(struct schema_compiler *sc)
{
    for (uint32_t i = 0; i < sc->references_count; i++) {
        struct reference *reference = &sc->references[i];
        reference->schema->ref = reference_find(sc, reference->node->text);
        if (!reference->schema->ref)
            node_error(sc->cx, "E125", reference->node, "`$ref` points to nothing: `" STR_FMT "`",
                       STR_ARG(reference->node->text));
    }
    bool ends = true;
    for (uint32_t i = 0; i < sc->compiled_count; i++)
        ends = kinds_fill(sc->compiled[i].schema) && ends;
    if (!ends)
        node_error(sc->cx, "E125", sc->root, "a `$ref` of this schema leads back to itself");
}

const struct schema *schema_compile(struct compiler *cx, const struct node *node)
{
    struct schema_compiler sc = {.cx = cx, .root = node};
    sc.references = arena_array(cx->scratch, struct reference, REFS_MAX);
    struct schema *schema = compile(&sc, node);
    references_resolve(&sc);
    return schema;
}

const struct schema *input_schema_compile(struct compiler *cx, const struct node *node)
{
    const struct schema *schema = schema_compile(cx, node);
    if (schema->types && !(schema->types & SCHEMA_OBJECT))
        node_error(cx, "E123", node, "the input of a workflow is an object: `type: object`");
    return schema;
}
