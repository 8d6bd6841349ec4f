/*
 * run_id_parts.c: the run_id template in a form that SQL can render.
 */
#include "dsl/dsl.h"
#include "dsl/expr_tree.h"

static const struct json *part_literal(struct str text, struct arena *arena)
{
    struct json *part = json_object_new(arena, 1);
    json_object_add_z(part, "lit", json_string(arena, text));
    return part;
}

/* {"path": [name, ...]} of `input.name...`, or NULL for any other expression. */
static const struct json *part_path(const struct expr *expr, struct arena *arena)
{
    struct str names[JSON_DEPTH_MAX];
    uint32_t count = 0;
    for (; expr->op == EXPR_SELECT && count < ARRAY_LEN(names); expr = expr->args[0])
        names[count++] = expr->name;
    if (expr->op != EXPR_INPUT || !count)
        return NULL;
    struct json *path = json_list_new(arena, count);
    while (count)
        json_list_add(path, json_string(arena, names[--count]));
    struct json *part = json_object_new(arena, 1);
    json_object_add_z(part, "path", path);
    return part;
}

static bool expr_part_add(struct json *parts, const struct expr *expr, struct arena *arena)
{
    const struct json *part = part_path(expr, arena);
    if (part)
        json_list_add(parts, part);
    return part != NULL;
}

struct str dsl_run_id_parts(const struct plan *plan, struct arena *arena)
{
    const struct template *template = plan->run_id;
    bool simple = true;
    if (!template)
        return STR_NONE;
    if (template->kind == TEMPLATE_LITERAL && template->literal->kind == JSON_STRING) {
        struct json *parts = json_list_new(arena, 1);
        json_list_add(parts, part_literal(template->literal->text, arena));
        return json_text(parts, arena);
    }
    uint32_t holes = template->kind == TEMPLATE_TEXT ? template->count : 1;
    struct json *parts = json_list_new(arena, holes * 2);
    if (template->kind == TEMPLATE_EXPR) {
        simple = expr_part_add(parts, template->expr, arena);
    } else if (template->kind == TEMPLATE_TEXT) {
        for (uint32_t i = 0; i < template->count && simple; i++) {
            if (template->parts[i].text.len)
                json_list_add(parts, part_literal(template->parts[i].text, arena));
            if (template->parts[i].expr)
                simple = expr_part_add(parts, template->parts[i].expr, arena);
        }
    } else {
        simple = false;
    }
    return simple ? json_text(parts, arena) : STR("\"complex\"");
}
