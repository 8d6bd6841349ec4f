/*
 * sample.c: made-up data for a workflow: an input, and what its services could answer.
 *
 * Read from the source's tree, since a plan keeps neither `examples` nor the texts of expressions.
 * Deterministic: the same workflow gives the same samples. They are for playing a workflow without
 * anybody's data, and say nothing about what is typical.
 */
#include "dsl/doc.h"
#include "dsl/dsl.h"
#include "dsl/jsonschema.h"
#include "dsl/tests.h"
#include "engine/base/ascii.h"

#define SAMPLE_DEPTH_MAX 20
#define SAMPLE_TEXT_BYTES_MAX 200
#define SAMPLE_WORD "sample"

/* --- texts that fit a pattern ------------------------------------------------------------ */

/* The first character of a set such as [0-9a-f]; `*at` moves behind it. */
static char set_first(struct str pattern, size_t *at)
{
    size_t i = *at + 1;
    bool negated = i < pattern.len && pattern.ptr[i] == '^';
    i += negated;
    char first = i < pattern.len ? pattern.ptr[i] : 'x';
    if (first == '\\' && i + 1 < pattern.len)
        first = pattern.ptr[i + 1] == 'd'   ? '0'
                : pattern.ptr[i + 1] == 'w' ? 'a'
                                            : pattern.ptr[i + 1];
    while (i < pattern.len && pattern.ptr[i] != ']')
        i += pattern.ptr[i] == '\\' ? 2 : 1;
    *at = i + 1;
    return negated ? (first == 'x' ? 'y' : 'x') : first;
}

static char atom_first(struct str pattern, size_t *at)
{
    char c = pattern.ptr[*at];
    if (c == '[')
        return set_first(pattern, at);
    if (c == '\\' && *at + 1 < pattern.len) {
        c = pattern.ptr[*at + 1];
        *at += 2;
        return c == 'd' ? '0' : c == 'w' ? 'a' : c == 's' ? ' ' : c;
    }
    (*at)++;
    return c == '.' ? 'x' : c;
}

/* How often an atom is repeated: the least its quantifier allows, but at least once. */
static unsigned repeat_read(struct str pattern, size_t *at)
{
    unsigned count = 1;
    if (*at >= pattern.len)
        return count;
    if (strchr("*+?", pattern.ptr[*at])) {
        (*at)++;
    } else if (pattern.ptr[*at] == '{') {
        size_t i = *at + 1;
        for (count = 0; i < pattern.len && ascii_is_digit(pattern.ptr[i]); i++)
            count = MIN(count * 10 + (unsigned)(pattern.ptr[i] - '0'), SAMPLE_TEXT_BYTES_MAX + 0u);
        while (i < pattern.len && pattern.ptr[i] != '}')
            i++;
        *at = i + 1;
        count = MAX(count, 1u);
    }
    return count;
}

/* A guess: groups and alternatives are not understood. The schema judges it in the end. */
static struct str pattern_sample(struct str pattern, struct arena *arena)
{
    struct buf out = {0};
    for (size_t at = 0; at < pattern.len && out.len < SAMPLE_TEXT_BYTES_MAX;) {
        if (strchr("^$()", pattern.ptr[at])) {
            at++;
            continue;
        }
        if (pattern.ptr[at] == '|')
            break;
        char c = atom_first(pattern, &at);
        for (unsigned i = repeat_read(pattern, &at); i > 0; i--)
            buf_add_char(&out, c);
    }
    struct str text = arena_str(arena, buf_str(&out));
    buf_free(&out);
    return text;
}

/* --- inputs ------------------------------------------------------------------------------ */

static const struct json *value_sample(const struct json *schema, const struct json *root,
                                       unsigned depth, struct arena *arena);

static const struct json *text_sample(const struct json *schema, struct str format,
                                      struct arena *arena)
{
    struct str pattern = json_get_text(schema, "pattern");
    int64_t least = 0, most = SAMPLE_TEXT_BYTES_MAX;
    if (pattern.ptr)
        return json_string(arena, pattern_sample(pattern, arena));
    if (str_eq(format, STR("email")))
        return json_string(arena, STR("sample@example.org"));
    if (str_eq(format, STR("date-time")))
        return json_string(arena, STR("2026-01-01T00:00:00Z"));
    if (str_eq(format, STR("date")))
        return json_string(arena, STR("2026-01-01"));
    if (str_eq(format, STR("uuid")))
        return json_string(arena, STR("00000000-0000-4000-8000-000000000000"));
    if (json_get_z(schema, "minLength"))
        json_to_int(json_get_z(schema, "minLength"), &least);
    if (json_get_z(schema, "maxLength"))
        json_to_int(json_get_z(schema, "maxLength"), &most);
    struct buf text = {0};
    buf_add_z(&text, SAMPLE_WORD);
    while ((int64_t)text.len < least && text.len < SAMPLE_TEXT_BYTES_MAX)
        buf_add_char(&text, 'x');
    struct str made = arena_str(arena, buf_str(&text));
    buf_free(&text);
    return json_string(arena, (struct str){made.ptr, MIN(made.len, (size_t)MAX(most, (int64_t)0))});
}

static const struct json *number_sample(const struct json *schema, struct arena *arena)
{
    const struct json *least = json_get_z(schema, "minimum");
    const struct json *above = json_get_z(schema, "exclusiveMinimum");
    const struct json *most = json_get_z(schema, "maximum");
    int64_t number = 0;
    if (above && json_to_int(above, &number))
        return json_int(arena, number + 1);
    if (least)
        return least;
    return most && json_to_int(most, &number) && number < 1 ? most : json_int(arena, 1);
}

static const struct json *object_sample(const struct json *schema, const struct json *root,
                                        unsigned depth, struct arena *arena)
{
    const struct json *properties = json_get_z(schema, "properties");
    uint32_t count = properties && properties->kind == JSON_OBJECT ? properties->count : 0;
    struct json *made = json_object_new(arena, count);
    for (uint32_t i = 0; i < count; i++)
        json_object_add(made, properties->members[i].name,
                        value_sample(properties->members[i].value, root, depth + 1, arena));
    return made;
}

static const struct json *list_sample(const struct json *schema, const struct json *root,
                                      unsigned depth, struct arena *arena)
{
    const struct json *items = json_get_z(schema, "items");
    int64_t least = 1;
    if (json_get_z(schema, "minItems"))
        json_to_int(json_get_z(schema, "minItems"), &least);
    least = MAX(MIN(least, (int64_t)100), (int64_t)1);
    struct json *made = json_list_new(arena, (uint32_t)least);
    for (int64_t i = 0; i < least; i++)
        json_list_add(made, items ? value_sample(items, root, depth + 1, arena)
                                  : json_string(arena, STR(SAMPLE_WORD)));
    return made;
}

/* #/$defs/NAME */
static const struct json *ref_follow(const struct json *root, struct str ref)
{
    const struct json *at = root;
    for (size_t i = 1; at && i < ref.len;) {
        size_t start = i + 1, end = start;
        while (end < ref.len && ref.ptr[end] != '/')
            end++;
        at = json_get(at, (struct str){ref.ptr + start, end - start});
        i = end;
    }
    return at;
}

static struct str type_of_schema(const struct json *schema)
{
    const struct json *type = json_get_z(schema, "type");
    if (type && type->kind == JSON_LIST && type->count)
        type = type->items[0];
    if (type && type->kind == JSON_STRING)
        return type->text;
    if (json_get_z(schema, "properties"))
        return STR("object");
    return json_get_z(schema, "items") ? STR("array") : STR("string");
}

static const struct json *value_sample(const struct json *schema, const struct json *root,
                                       unsigned depth, struct arena *arena)
{
    static const char *const lists[] = {"examples", "enum"};
    static const char *const choices[] = {"anyOf", "oneOf", "allOf"};
    struct str ref = json_get_text(schema, "$ref");
    if (depth > SAMPLE_DEPTH_MAX)
        return &json_null;
    if (json_get_z(schema, "default"))
        return json_get_z(schema, "default");
    if (json_get_z(schema, "const"))
        return json_get_z(schema, "const");
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        const struct json *list = json_get_z(schema, lists[i]);
        if (list && list->kind == JSON_LIST && list->count)
            return list->items[0];
    }
    if (ref.ptr)
        return value_sample(ref_follow(root, ref), root, depth + 1, arena);
    for (size_t i = 0; i < ARRAY_LEN(choices); i++) {
        const struct json *list = json_get_z(schema, choices[i]);
        if (list && list->kind == JSON_LIST && list->count && !json_get_z(schema, "type"))
            return value_sample(list->items[0], root, depth + 1, arena);
    }
    struct str type = type_of_schema(schema);
    if (str_eq(type, STR("object")))
        return object_sample(schema, root, depth, arena);
    if (str_eq(type, STR("array")))
        return list_sample(schema, root, depth, arena);
    if (str_eq(type, STR("integer")) || str_eq(type, STR("number")))
        return number_sample(schema, arena);
    if (str_eq(type, STR("boolean")))
        return &json_true;
    if (str_eq(type, STR("null")))
        return &json_null;
    return text_sample(schema, json_get_text(schema, "format"), arena);
}

static bool source_load(const struct plan *plan, struct doc *doc, struct diags *unheard)
{
    diags_init(unheard, "", plan->source);
    doc_load(doc, plan->source, DSL_SOURCE_BYTES_MAX, DSL_NODES_MAX, unheard);
    return doc->root != NULL;
}

const struct json *dsl_sample_input(const struct plan *plan, struct arena *arena,
                                    struct schema_errors *errors)
{
    struct doc doc;
    struct diags unheard;
    const struct json *made = json_object_new(arena, 0);
    errors->count = 0;
    if (source_load(plan, &doc, &unheard)) {
        const struct node *node = node_get(doc.root, "input");
        const struct json *schema = node ? node_json(node, arena) : NULL;
        if (schema)
            made = value_sample(schema, schema, 0, arena);
    }
    doc_free(&doc);
    diags_free(&unheard);
    if (!plan->input || schema_check(plan->input, made, arena, errors))
        return made;
    return NULL;
}

/* --- outputs ----------------------------------------------------------------------------- */

/* A tree of the fields that are read of one step's output. */
struct field {
    struct str name;
    bool is_list; /* it is indexed, or items are taken from it */
    struct field *first, *next;
};

static struct field *field_of(struct field *parent, struct str name, struct arena *arena)
{
    struct field **at = &parent->first;
    for (; *at; at = &(*at)->next)
        if (str_eq((*at)->name, name))
            return *at;
    *at = arena_new(arena, struct field);
    (*at)->name = arena_str(arena, name);
    return *at;
}

static size_t word_end(struct str text, size_t at)
{
    while (at < text.len &&
           (ascii_is_alpha(text.ptr[at]) || ascii_is_digit(text.ptr[at]) || text.ptr[at] == '_'))
        at++;
    return at;
}

static bool is_loop_call(struct str name)
{
    return str_eq(name, STR("all")) || str_eq(name, STR("exists")) || str_eq(name, STR("map")) ||
           str_eq(name, STR("filter"));
}

static struct field *path_read(struct field *field, struct str text, size_t at,
                               struct arena *arena);

/* Behind the bracket that closes the one at `open`; brackets inside texts are not understood. */
static size_t call_end(struct str text, size_t open)
{
    unsigned depth = 0;
    for (size_t at = open; at < text.len; at++) {
        depth += text.ptr[at] == '(';
        depth -= text.ptr[at] == ')';
        if (!depth)
            return at + 1;
    }
    return text.len;
}

/* NAME.a.b, wherever it stands in the text from `at`, is read of the field. */
static void name_scan(struct field *field, struct str name, struct str text, size_t at,
                      struct arena *arena)
{
    for (; name.len && at + name.len < text.len; at++)
        if (memcmp(text.ptr + at, name.ptr, name.len) == 0 && text.ptr[at + name.len] == '.' &&
            (at == 0 ||
             (word_end((struct str){text.ptr, at}, at - 1) == at - 1 && text.ptr[at - 1] != '.')))
            path_read(field, text, at + name.len, arena);
}

/* After `steps.ID.output`: .a.b[0].c; a receiver call is no field, but takes items, whose fields
 * are read by the name it gives them. Returns the field at the end of the path. */
static struct field *path_read(struct field *field, struct str text, size_t at, struct arena *arena)
{
    while (at < text.len) {
        if (text.ptr[at] == '[' && at + 1 < text.len && ascii_is_digit(text.ptr[at + 1])) {
            while (at < text.len && text.ptr[at] != ']')
                at++;
            at++;
            field->is_list = true;
            field = field_of(field, STR(""), arena);
            continue;
        }
        size_t end = text.ptr[at] == '.' ? word_end(text, at + 1) : at;
        if (end <= at + 1)
            break;
        struct str name = {text.ptr + at + 1, end - at - 1};
        if (end < text.len && text.ptr[end] == '(') {
            if (!is_loop_call(name))
                break;
            field->is_list = true;
            name_scan(field_of(field, STR(""), arena),
                      (struct str){text.ptr + end + 1, word_end(text, end + 1) - end - 1}, text,
                      end + 1, arena);
            if (!str_eq(name, STR("filter"))) /* what it gives has items of the same kind */
                break;
            at = call_end(text, end);
            continue;
        }
        field = field_of(field, name, arena);
        at = end;
    }
    return field;
}

/* The field that `steps.ID.output...` at the start of the text reads; NULL: it is none of those. */
static struct field *output_field(const struct plan *plan, struct field *outputs, struct str text,
                                  struct arena *arena)
{
    static const char root[] = "steps.", output[] = ".output";
    size_t start = sizeof(root) - 1;
    if (text.len <= start || memcmp(text.ptr, root, start) != 0)
        return NULL;
    size_t end = word_end(text, start);
    uint16_t step = plan_step_find(plan, (struct str){text.ptr + start, end - start});
    if (step == PLAN_STEP_NONE || text.len - end < sizeof(output) - 1 ||
        memcmp(text.ptr + end, output, sizeof(output) - 1) != 0)
        return NULL;
    return path_read(&outputs[step], text, end + sizeof(output) - 1, arena);
}

static void text_scan(const struct plan *plan, struct field *outputs, struct str text,
                      struct arena *arena)
{
    for (size_t at = 0; at < text.len; at++)
        if (at == 0 || word_end((struct str){text.ptr, at}, at - 1) == at - 1)
            output_field(plan, outputs, (struct str){text.ptr + at, text.len - at}, arena);
}

static void node_scan(const struct plan *plan, struct field *outputs, const struct node *node,
                      struct arena *arena)
{
    if (node->kind == NODE_TEXT)
        text_scan(plan, outputs, node->text, arena);
    for (uint32_t i = 0; i < node->count && node->kind == NODE_LIST; i++)
        node_scan(plan, outputs, node->items[i], arena);
    for (uint32_t i = 0; i < node->count && node->kind == NODE_MAP; i++)
        node_scan(plan, outputs, node->pairs[i].value, arena);
}

static void item_scan(struct field *list, const struct node *node, struct arena *arena)
{
    if (node->kind == NODE_TEXT)
        name_scan(field_of(list, STR(""), arena), STR("item"), node->text, 0, arena);
    for (uint32_t i = 0; i < node->count && node->kind == NODE_LIST; i++)
        item_scan(list, node->items[i], arena);
    for (uint32_t i = 0; i < node->count && node->kind == NODE_MAP; i++)
        item_scan(list, node->pairs[i].value, arena);
}

/* What a loop goes over is a list, and its `item` is one of it. */
static void loops_scan(const struct plan *plan, struct field *outputs, const struct node *steps,
                       struct arena *arena)
{
    for (uint32_t i = 0; steps && steps->kind == NODE_LIST && i < steps->count; i++) {
        const struct node *over = node_get(steps->items[i], "for_each");
        if (!over || over->kind != NODE_TEXT)
            continue;
        struct field *list = output_field(plan, outputs, over->text, arena);
        if (!list)
            continue;
        list->is_list = true;
        item_scan(list, steps->items[i], arena);
    }
}

/* `typed`: what the step's `output_schema` makes of the field, or NULL. */
static const struct json *field_json(const struct field *field, const struct json *typed,
                                     struct arena *arena)
{
    uint32_t count = 0;
    for (const struct field *inner = field->first; inner; inner = inner->next)
        count++;
    if (field->is_list) {
        const struct field *item = field->first;
        while (item && item->name.len)
            item = item->next;
        struct json *list = json_list_new(arena, 1);
        const struct json *first =
            typed && typed->kind == JSON_LIST && typed->count ? typed->items[0] : NULL;
        json_list_add(list, item    ? field_json(item, first, arena)
                            : first ? first
                                    : json_string(arena, STR(SAMPLE_WORD)));
        return list;
    }
    if (!count)
        return typed ? typed : json_string(arena, STR(SAMPLE_WORD));
    struct json *made = json_object_new(arena, count);
    for (const struct field *inner = field->first; inner; inner = inner->next)
        json_object_add(
            made, inner->name,
            field_json(inner,
                       typed && typed->kind == JSON_OBJECT ? json_get(typed, inner->name) : NULL,
                       arena));
    return made;
}

/* A statement's answer always tells how many rows it touched; here one. */
static const struct json *sql_output(const struct json *read, struct arena *arena)
{
    struct json *out = json_object_new(arena, 2);
    const struct json *rows = read ? json_get_z(read, "rows") : NULL;
    json_object_add_z(out, "rows", rows ? rows : json_list_new(arena, 0));
    json_object_add_z(out, "count", json_int(arena, 1));
    return out;
}

static void field_join(struct field *to, const struct field *from, struct arena *arena)
{
    struct field *field = field_of(to, from->name, arena);
    field->is_list = field->is_list || from->is_list;
    field->first = field->first ? field->first : from->first;
}

/* One item's answer: what the step reads of its own output, and what others read of an item of the
 * list that the output is for them. */
static const struct field *loop_field(const struct field *root, struct arena *arena)
{
    struct field *one = arena_new(arena, struct field);
    for (const struct field *named = root->first; named; named = named->next) {
        if (named->name.len)
            field_join(one, named, arena);
        for (const struct field *item = named->first; !named->name.len && item; item = item->next)
            field_join(one, item, arena);
    }
    return one;
}

/* By the step's own `output_schema`; NULL: it has none. */
static const struct json *typed_sample(const struct node *steps, uint16_t step, struct arena *arena)
{
    const struct node *node = steps && step < steps->count && steps->kind == NODE_LIST
                                  ? node_get(steps->items[step], "output_schema")
                                  : NULL;
    const struct json *schema = node ? node_json(node, arena) : NULL;
    return schema ? value_sample(schema, schema, 0, arena) : NULL;
}

const struct str *dsl_sample_outputs(const struct plan *plan, struct arena *arena)
{
    struct doc doc;
    struct diags unheard;
    struct field *outputs = arena_array(arena, struct field, plan->steps_count);
    struct str *texts = arena_array(arena, struct str, plan->steps_count);
    const struct json **typed = arena_array(arena, const struct json *, plan->steps_count);
    if (source_load(plan, &doc, &unheard)) {
        for (uint32_t i = 0; i < doc.root->count; i++)
            if (!str_eq(doc.root->pairs[i].key->text, STR("tests")))
                node_scan(plan, outputs, doc.root->pairs[i].value, arena);
        loops_scan(plan, outputs, node_get(doc.root, "steps"), arena);
        for (uint16_t i = 0; i < plan->steps_count; i++)
            typed[i] = typed_sample(node_get(doc.root, "steps"), i, arena);
    }
    doc_free(&doc);
    diags_free(&unheard);
    for (uint16_t i = 0; i < plan->steps_count; i++) {
        const struct field *root = &outputs[i];
        if (plan->steps[i].for_each)
            root = loop_field(root, arena);
        const struct json *sample =
            root->first || root->is_list ? field_json(root, typed[i], arena) : NULL;
        if (plan->steps[i].action.kind == ACTION_SQL)
            sample = sql_output(sample, arena);
        texts[i] = sample ? json_text(sample, arena) : STR("{}");
    }
    return texts;
}

/* --- titles ------------------------------------------------------------------------------ */

/* Holes are shown as {e}, blanks as one space. */
static void title_add(struct buf *out, struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        bool hole = text.len - i > 3 && memcmp(text.ptr + i, "${{", 3) == 0;
        size_t end = i;
        while (hole && end + 1 < text.len && memcmp(text.ptr + end, "}}", 2) != 0)
            end++;
        if (hole && end + 1 < text.len) {
            struct str inner = {text.ptr + i + 3, end - i - 3};
            while (inner.len && ascii_is_space(inner.ptr[0]))
                inner.ptr++, inner.len--;
            while (inner.len && ascii_is_space(inner.ptr[inner.len - 1]))
                inner.len--;
            buf_add_char(out, '{');
            buf_add_str(out, inner);
            buf_add_char(out, '}');
            i = end + 1;
        } else if (!ascii_is_space(text.ptr[i])) {
            buf_add_char(out, text.ptr[i]);
        } else if (out->len && out->data[out->len - 1] != ' ') {
            buf_add_char(out, ' ');
        }
    }
}

static struct str title_of(const struct node *map, enum action_kind kind, struct arena *arena)
{
    static const char *const words[] = {"get",  "post",  "put",   "patch",  "delete", "sql",
                                        "exec", "sleep", "until", "worker", "child",  "wait_for"};
    struct buf out = {0};
    for (size_t i = 0; i < ARRAY_LEN(words) && map && map->kind == NODE_MAP; i++) {
        const struct node *value = node_get(map, words[i]);
        if (!value || out.len)
            continue;
        if (kind != ACTION_SQL)
            buf_printf(&out, "%s ", words[i]);
        for (uint32_t j = 0; value->kind == NODE_LIST && j < value->count; j++) {
            buf_add_z(&out, j ? " " : "");
            title_add(&out, value->items[j]->text);
        }
        if (value->kind != NODE_LIST)
            title_add(&out, value->text);
    }
    while (out.len && out.data[out.len - 1] == ' ')
        out.len--;
    struct str text = arena_str(arena, out.len ? buf_str(&out) : str_z(action_kind_name(kind)));
    buf_free(&out);
    return text;
}

/* An expression without the hole around it, on one line; absent: the step has no such key. */
static struct str words_of(const struct node *step, const char *key, struct arena *arena)
{
    const struct node *node = step && step->kind == NODE_MAP ? node_get(step, key) : NULL;
    struct buf out = {0};
    if (!node || !node->text.ptr)
        return STR_NONE;
    title_add(&out, node->text);
    struct str text = arena_str(arena, buf_str(&out));
    buf_free(&out);
    if (text.len > 2 && text.ptr[0] == '{' && text.ptr[text.len - 1] == '}')
        text = (struct str){text.ptr + 1, text.len - 2};
    return text;
}

const struct dsl_title *dsl_titles(const struct plan *plan, struct arena *arena)
{
    struct doc doc;
    struct diags unheard;
    struct dsl_title *titles = arena_array(arena, struct dsl_title, plan->steps_count);
    const struct node *steps =
        source_load(plan, &doc, &unheard) ? node_get(doc.root, "steps") : NULL;
    for (uint16_t i = 0; i < plan->steps_count; i++) {
        const struct node *step = steps && i < steps->count ? steps->items[i] : NULL;
        const struct plan_step *planned = &plan->steps[i];
        titles[i].condition = words_of(step, "if", arena);
        titles[i].for_each = words_of(step, "for_each", arena);
        titles[i].action =
            title_of(step ? node_get(step, "action") : NULL, planned->action.kind, arena);
        if (planned->compensate.kind != ACTION_NONE)
            titles[i].compensate = title_of(step ? node_get(step, "compensate") : NULL,
                                            planned->compensate.kind, arena);
    }
    doc_free(&doc);
    diags_free(&unheard);
    return titles;
}
