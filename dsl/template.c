/*
 * template.c: JSON-shaped templates. The shape is fixed by the file; values only fill its holes
 * and are never looked at again, so no value can change the structure around it.
 */
#include "dsl/expr_eval.h"
#include "engine/base/uri.h"

static int render(struct evaluation *e, const struct template *template, const struct json **out);

static int hole_add(struct evaluation *e, const struct expr *expr, enum text_encoding encoding,
                    struct buf *out)
{
    struct value value;
    struct str text;
    int code = eval(e, expr, &value);
    if (!code)
        code = value_text(e, value, expr, &text);
    if (code)
        return code;
    code = eval_charge(e, encoding == TEXT_PERCENT ? text.len * 3 : text.len);
    if (code)
        return code;
    if (encoding == TEXT_PERCENT)
        uri_encode(text, out);
    else
        buf_add_str(out, text);
    return 0;
}

static int segment_check(struct evaluation *e, const struct expr *hole, struct str segment)
{
    if (segment.len && !str_eq(segment, STR(".")) && !str_eq(segment, STR("..")))
        return 0;
    return err_set(e->err, ERR_INVALID, "the value of \"" STR_FMT "\" makes %s of the path",
                   STR_ARG(expr_path(hole, e->arena)),
                   segment.len ? "a dot segment" : "an empty segment");
}

/* A value that is empty or made of dots would address another resource than the file says:
 * `DELETE /orders/` instead of `DELETE /orders/7`. Holes hold no "/" once they are encoded, so the
 * segments of the path are those of its literal text. */
static int path_check(struct evaluation *e, const struct template *template, struct str path)
{
    const struct expr *hole = NULL;
    size_t start = 0, end = 0;
    for (uint32_t i = 0; i < template->count; i++) {
        const struct template_part *part = &template->parts[i];
        for (size_t at = 0; at < part->text.len; at++) {
            if (part->text.ptr[at] != '/')
                continue;
            while (end < path.len && path.ptr[end] != '/')
                end++;
            int code =
                hole ? segment_check(e, hole, (struct str){path.ptr + start, end - start}) : 0;
            if (code)
                return code;
            start = ++end;
            hole = NULL;
        }
        if (part->expr)
            hole = part->expr;
    }
    return hole ? segment_check(e, hole, (struct str){path.ptr + start, path.len - start}) : 0;
}

static int text_render(struct evaluation *e, const struct template *template,
                       enum text_encoding encoding, struct str *out)
{
    struct buf text = {0};
    int code = 0;
    for (uint32_t i = 0; i < template->count && !code; i++) {
        buf_add_str(&text, template->parts[i].text);
        if (template->parts[i].expr)
            code = hole_add(e, template->parts[i].expr, encoding, &text);
    }
    if (!code)
        *out = arena_str(e->arena, buf_str(&text));
    buf_free(&text);
    if (!code && template->is_path)
        code = path_check(e, template, *out);
    return code;
}

static int list_render(struct evaluation *e, const struct template *template,
                       const struct json **out)
{
    struct json *list = json_list_new(e->arena, template->count);
    for (uint32_t i = 0; i < template->count; i++) {
        const struct json *item;
        int code = render(e, template->members[i].value, &item);
        if (code)
            return code;
        if (item->kind != JSON_NONE)
            json_list_add(list, item);
    }
    *out = list;
    return 0;
}

static int object_render(struct evaluation *e, const struct template *template,
                         const struct json **out)
{
    struct json *object = json_object_new(e->arena, template->count);
    for (uint32_t i = 0; i < template->count; i++) {
        const struct json *value;
        int code = render(e, template->members[i].value, &value);
        if (code)
            return code;
        if (value->kind != JSON_NONE)
            json_object_add(object, template->members[i].name, value);
    }
    *out = object;
    return 0;
}

static int render(struct evaluation *e, const struct template *template, const struct json **out)
{
    struct str text;
    int code;
    switch (template->kind) {
    case TEMPLATE_LITERAL: *out = template->literal; return 0;
    case TEMPLATE_EXPR: return eval_json(e, template->expr, out);
    case TEMPLATE_TEXT:
        code = text_render(e, template, TEXT_PLAIN, &text);
        if (!code)
            *out = json_string(e->arena, text);
        return code;
    case TEMPLATE_LIST: return list_render(e, template, out);
    case TEMPLATE_OBJECT: return object_render(e, template, out);
    }
    ASSERT(!"a compiled template");
    return ERR_INTERNAL;
}

int template_render(const struct template *template, const struct expr_scope *scope,
                    struct arena *arena, const struct json **out, struct err *err)
{
    struct evaluation e = {.scope = scope, .arena = arena, .err = err};
    int code = render(&e, template, out);
    return code ? code : eval_measure(&e, *out);
}

int template_render_text(const struct template *template, const struct expr_scope *scope,
                         enum text_encoding encoding, struct arena *arena, struct str *out,
                         struct err *err)
{
    struct evaluation e = {.scope = scope, .arena = arena, .err = err};
    struct value value = {.kind = VALUE_JSON};
    ASSERT(template->kind != TEMPLATE_LIST && template->kind != TEMPLATE_OBJECT);
    if (template->kind == TEMPLATE_TEXT)
        return text_render(&e, template, encoding, out);
    if (template->kind == TEMPLATE_LITERAL) {
        struct expr literal = {.op = EXPR_LITERAL, .literal = template->literal};
        value.json = template->literal;
        return value_text(&e, value, &literal, out);
    }
    int code = eval(&e, template->expr, &value);
    if (code)
        return code;
    if (value.kind == VALUE_JSON && value.json->kind == JSON_NONE) {
        *out = STR_NONE;
        return 0;
    }
    code = value_text(&e, value, template->expr, out);
    if (code || encoding == TEXT_PLAIN)
        return code;
    struct buf text = {0};
    code = eval_charge(&e, out->len * 3);
    if (code)
        return code;
    uri_encode(*out, &text);
    *out = arena_str(arena, buf_str(&text));
    buf_free(&text);
    return 0;
}
