/*
 * schema_write.c: what is generated from the table: the schema for editors and the reference.
 */
#include "dsl/dsl.h"
#include "dsl/expr_tree.h"
#include "dsl/schema.h"

#define DURATION_PATTERN "^([0-9]+(\\.[0-9]+)?(us|ms|s|m|h|d))+$"

/* --- dsl/workflow.schema.json --- */

static const struct json *text(struct arena *arena, const char *value)
{
    return json_string_z(arena, value);
}

static struct json *object(struct arena *arena)
{
    return json_object_new(arena, 12);
}

static const struct json *type_list(struct arena *arena, const char *a, const char *b,
                                    const char *c)
{
    struct json *list = json_list_new(arena, 3);
    const char *const names[] = {a, b, c};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (names[i])
            json_list_add(list, text(arena, names[i]));
    return list;
}

static const struct json *reference(struct arena *arena, enum lang_group group)
{
    struct json *made = object(arena);
    json_object_add_z(
        made, "$ref",
        json_string(arena, arena_printf(arena, "#/definitions/%s", lang_group_name(group))));
    return made;
}

static const struct json *choices(struct arena *arena, const char *words)
{
    struct json *list = json_list_new(arena, 16);
    for (const char *at = words; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL) {
        struct str word = {at, strcspn(at, "|")};
        if (word.ptr[0] != '!')
            json_list_add(list, json_string(arena, arena_str(arena, word)));
    }
    return list;
}

static const struct json *scalars(struct arena *arena)
{
    struct json *made = object(arena);
    json_object_add_z(made, "type", type_list(arena, "string", "number", "boolean"));
    return made;
}

static void patterned(struct arena *arena, struct json *to, const char *pattern)
{
    json_object_add_z(to, "type", text(arena, "string"));
    json_object_add_z(to, "pattern", text(arena, pattern));
}

static void listed(struct arena *arena, struct json *to, const struct json *items)
{
    json_object_add_z(to, "type", text(arena, "array"));
    json_object_add_z(to, "items", items);
}

static void mapped(struct arena *arena, struct json *to, const struct json *values)
{
    json_object_add_z(to, "type", text(arena, "object"));
    json_object_add_z(to, "additionalProperties", values);
}

static void none_or_group(struct arena *arena, struct json *to, enum lang_group group)
{
    struct json *list = json_list_new(arena, 2), *none = object(arena);
    json_object_add_z(none, "const", text(arena, "none"));
    json_list_add(list, none);
    json_list_add(list, reference(arena, group));
    json_object_add_z(to, "oneOf", list);
}

static const struct json *either(struct arena *arena, const struct json *a, const struct json *b)
{
    struct json *made = object(arena), *list = json_list_new(arena, 2);
    json_list_add(list, a);
    json_list_add(list, b);
    json_object_add_z(made, "oneOf", list);
    return made;
}

static const struct json *word_or_group(struct arena *arena, const char *words,
                                        enum lang_group group)
{
    struct json *word = object(arena);
    json_object_add_z(word, "enum", choices(arena, words));
    return either(arena, word, reference(arena, group));
}

static const struct json *answer(struct arena *arena, enum lang_group group)
{
    return word_or_group(arena, LANG_TEST_ANSWER_WORDS, group);
}

static const struct json *one_or_list(struct arena *arena, const struct json *one)
{
    struct json *list = object(arena);
    listed(arena, list, one);
    return either(arena, one, list);
}

static const struct json *step_id(struct arena *arena)
{
    struct json *made = object(arena);
    patterned(arena, made, "^[a-z][a-z0-9_]{0,62}$");
    return made;
}

static void form_write(struct arena *arena, struct json *to, const struct lang_key *key)
{
    switch (key->form) {
    case LANG_TEXT:
        json_object_add_z(to, "type", type_list(arena, "string", "number", NULL));
        break;
    case LANG_NAME: patterned(arena, to, "^[a-z][a-z0-9_-]{0,62}$"); break;
    case LANG_STEP_ID: patterned(arena, to, "^[a-z][a-z0-9_]{0,62}$"); break;
    case LANG_STEP_IDS: listed(arena, to, step_id(arena)); break;
    case LANG_ADDRESS: patterned(arena, to, "^[a-z][a-z0-9_-]*/"); break;
    case LANG_TEXT_TEMPLATE:
        json_object_add_z(to, "type", type_list(arena, "string", "number", "boolean"));
        break;
    case LANG_TEMPLATES: listed(arena, to, scalars(arena)); break;
    case LANG_TEMPLATE_MAP: mapped(arena, to, scalars(arena)); break;
    case LANG_EXPRESSION:
        json_object_add_z(to, "type", type_list(arena, "string", "boolean", NULL));
        break;
    case LANG_BOOLEAN: json_object_add_z(to, "type", text(arena, "boolean")); break;
    case LANG_COUNT:
        json_object_add_z(to, "type", text(arena, "integer"));
        json_object_add_z(to, "minimum", json_int(arena, 1));
        break;
    case LANG_INTEGER: json_object_add_z(to, "type", text(arena, "integer")); break;
    case LANG_FACTOR: json_object_add_z(to, "type", text(arena, "number")); break;
    case LANG_PERCENT:
        json_object_add_z(to, "type", type_list(arena, "string", "number", NULL));
        break;
    case LANG_RATE: patterned(arena, to, "^[1-9][0-9]*/[smh]$"); break;
    case LANG_DURATION: patterned(arena, to, DURATION_PATTERN); break;
    case LANG_DURATION_TEMPLATE: json_object_add_z(to, "type", text(arena, "string")); break;
    case LANG_CHOICE: json_object_add_z(to, "enum", choices(arena, key->choices)); break;
    case LANG_GROUP:
        json_object_add_z(
            to, "$ref",
            json_string(arena, arena_printf(arena, "#/definitions/%s", lang_group_name(key->of))));
        break;
    case LANG_GROUP_LIST: listed(arena, to, reference(arena, key->of)); break;
    case LANG_GROUP_MAP: mapped(arena, to, reference(arena, key->of)); break;
    case LANG_NONE_OR_GROUP: none_or_group(arena, to, key->of); break;
    case LANG_JSON_SCHEMA: json_object_add_z(to, "type", text(arena, "object")); break;
    case LANG_TEST_ANSWERS: mapped(arena, to, one_or_list(arena, answer(arena, key->of))); break;
    case LANG_TEST_VERBS:
        mapped(arena, to,
               word_or_group(arena, lang_key_find(key->of, STR("do"))->choices, key->of));
        break;
    case LANG_TEMPLATE:
    case LANG_ANY: break;
    }
}

static bool belongs(const struct lang_key *key, enum lang_group group)
{
    return key->group == group || (group == LANG_COMPENSATE && key->group == LANG_ACTION);
}

static const struct json *group_schema(struct arena *arena, enum lang_group group)
{
    struct json *made = object(arena), *properties = json_object_new(arena, 64);
    struct json *required = json_list_new(arena, 16);
    for (size_t i = 0; i < lang_keys_count; i++) {
        const struct lang_key *key = &lang_keys[i];
        struct json *property = object(arena);
        if (!belongs(key, group) || key->flags & LANG_PLANNED)
            continue;
        json_object_add_z(property, "description",
                          json_string(arena, key->fallback ? arena_printf(arena, "%s Default: %s.",
                                                                          key->help, key->fallback)
                                                           : str_z(key->help)));
        form_write(arena, property, key);
        json_object_add_z(properties, key->name, property);
        if (key->flags & LANG_REQUIRED)
            json_list_add(required, text(arena, key->name));
    }
    json_object_add_z(made, "description", text(arena, lang_group_help(group)));
    json_object_add_z(made, "type", text(arena, "object"));
    json_object_add_z(made, "properties", properties);
    if (required->count)
        json_object_add_z(made, "required", required);
    if (group == LANG_WORKFLOW) {
        struct json *extensions = object(arena);
        json_object_add_z(extensions, "^x-", object(arena));
        json_object_add_z(made, "patternProperties", extensions);
    }
    json_object_add_z(made, "additionalProperties", json_bool(false));
    return made;
}

void lang_write_editor_schema(struct buf *out)
{
    struct arena arena = {0};
    struct json *root = object(&arena), *definitions = json_object_new(&arena, LANG_GROUP_COUNT);
    json_object_add_z(root, "$schema", text(&arena, "http://json-schema.org/draft-07/schema#"));
    json_object_add_z(root, "title", text(&arena, "Saga workflow"));
    json_object_add_z(root, "$comment",
                      text(&arena, "Generated from dsl/schema.c: make update-reference."));
    json_object_add_z(root, "$ref", text(&arena, "#/definitions/workflow"));
    for (int group = 1; group < LANG_GROUP_COUNT; group++)
        json_object_add_z(definitions, lang_group_name((enum lang_group)group),
                          group_schema(&arena, (enum lang_group)group));
    json_object_add_z(root, "definitions", definitions);
    json_write_pretty(root, 0, out);
    buf_add_char(out, '\n');
    arena_free(&arena);
}

/* --- the reference --- */

static const char *form_text(enum lang_form form)
{
    switch (form) {
    case LANG_TEXT: return "text";
    case LANG_NAME: return "`[a-z][a-z0-9_-]{0,62}`";
    case LANG_STEP_ID: return "`[a-z][a-z0-9_]{0,62}`";
    case LANG_STEP_IDS: return "list of step ids";
    case LANG_ADDRESS: return "`SERVICE/PATH`, a template";
    case LANG_TEXT_TEMPLATE: return "text template";
    case LANG_TEMPLATE: return "template";
    case LANG_TEMPLATES: return "list of templates";
    case LANG_TEMPLATE_MAP: return "map of text templates";
    case LANG_EXPRESSION: return "expression";
    case LANG_BOOLEAN: return "`true`, `false`";
    case LANG_COUNT:
    case LANG_INTEGER: return "whole number";
    case LANG_FACTOR: return "number, 1 to 100";
    case LANG_PERCENT: return "percentage";
    case LANG_RATE: return "`100/s`, `10/m` or `5/h`";
    case LANG_DURATION: return "duration";
    case LANG_DURATION_TEMPLATE: return "duration, a template";
    case LANG_JSON_SCHEMA: return "schema";
    case LANG_TEST_ANSWERS:
    case LANG_TEST_VERBS:
    case LANG_ANY: return "anything";
    case LANG_CHOICE:
    case LANG_GROUP:
    case LANG_GROUP_LIST:
    case LANG_GROUP_MAP:
    case LANG_NONE_OR_GROUP: break;
    }
    return "";
}

static void value_write(const struct lang_key *key, struct buf *out)
{
    bool first = true;
    switch (key->form) {
    case LANG_CHOICE:
        for (const char *at = key->choices; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL) {
            if (*at == '!')
                continue;
            buf_printf(out, "%s`%.*s`", first ? "" : ", ", (int)strcspn(at, "|"), at);
            first = false;
        }
        break;
    case LANG_GROUP: buf_printf(out, "map, see %s", lang_group_title(key->of)); break;
    case LANG_GROUP_LIST: buf_printf(out, "list, see %s", lang_group_title(key->of)); break;
    case LANG_GROUP_MAP: buf_printf(out, "map of names, see %s", lang_group_title(key->of)); break;
    case LANG_NONE_OR_GROUP: buf_printf(out, "`none`, or see %s", lang_group_title(key->of)); break;
    case LANG_TEST_ANSWERS:
        buf_printf(out, "map of effects: a word or map, or a list of those, see %s",
                   lang_group_title(key->of));
        break;
    case LANG_TEST_VERBS:
        buf_printf(out, "map of durations: a verb, or see %s", lang_group_title(key->of));
        break;
    default: buf_add_z(out, form_text(key->form));
    }
}

static void group_write(enum lang_group group, struct buf *out)
{
    bool planned = false;
    struct str title = str_z(lang_group_title(group));
    buf_printf(out, "### %c" STR_FMT "\n\n%s\n\n",
               title.ptr[0] >= 'a' && title.ptr[0] <= 'z' ? title.ptr[0] - 32 : title.ptr[0],
               (int)title.len - 1, title.ptr + 1, lang_group_help(group));
    buf_add_z(out, "| key | value | default | meaning |\n|---|---|---|---|\n");
    for (size_t i = 0; i < lang_keys_count; i++) {
        const struct lang_key *key = &lang_keys[i];
        if (key->group != group || key->flags & LANG_PLANNED)
            continue;
        buf_printf(out, "| `%s` | ", key->name);
        value_write(key, out);
        buf_printf(out, " | %s | %s |\n",
                   key->flags & LANG_REQUIRED ? "required"
                   : key->fallback            ? key->fallback
                                              : "",
                   key->help);
    }
    for (size_t i = 0; i < lang_keys_count; i++) {
        const struct lang_key *key = &lang_keys[i];
        if (key->group != group || !(key->flags & LANG_PLANNED))
            continue;
        buf_printf(out, "%s`%s`",
                   planned ? ", " : "\nOf the language, but not of this version: ", key->name);
        planned = true;
    }
    buf_add_z(out, planned ? ".\n\n" : "\n");
}

static void functions_write(struct buf *out)
{
    static const struct {
        const char *name;
        enum expr_form form;
        unsigned args;
        const char *help;
    } functions[] = {
#define X(id, name, form, args, help) {name, EXPR_FORM_##form, args, help},
        EXPR_FUNCTIONS(X)
#undef X
    };
    buf_add_z(out, "### Functions\n\n| call | gives |\n|---|---|\n");
    for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
        unsigned args = functions[i].args;
        if (functions[i].form == EXPR_FORM_LOOP)
            buf_printf(out, "| `x.%s(name, e)` ", functions[i].name);
        else if (functions[i].form == EXPR_FORM_RECEIVER)
            buf_printf(out, "| `x.%s(%s)` ", functions[i].name, args == 2 ? "y" : "");
        else
            buf_printf(out, "| `%s(%s)` ", functions[i].name,
                       args == 0   ? ""
                       : args == 1 ? "x"
                                   : "x, y");
        buf_printf(out, "| %s |\n", functions[i].help);
    }
    buf_add_char(out, '\n');
}

static void codes_write(struct buf *out)
{
    buf_add_z(out, "### Codes\n\n`sagactl explain CODE` shows each wrong and right.\n\n"
                   "| code | what it says |\n|---|---|\n");
    for (int number = 0; number < 1000; number++)
        for (int letter = 0; letter < 2; letter++) {
            struct arena arena = {0};
            const char *code = arena_printf(&arena, "%c%03d", letter ? 'W' : 'E', number).ptr;
            const char *page = dsl_explain(code);
            if (page)
                buf_printf(out, "| %s | %.*s |\n", code, (int)strcspn(page, "\n") - 6, page + 6);
            arena_free(&arena);
        }
}

void lang_write_reference(struct buf *out)
{
    for (int group = 1; group < LANG_GROUP_COUNT; group++)
        group_write((enum lang_group)group, out);
    functions_write(out);
    codes_write(out);
}
