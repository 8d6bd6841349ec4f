/*
 * compile_template.c: YAML values with `${{ }}` holes to templates. The holes are found in the
 * values of the tree, never in the text of the file, so a value cannot change the structure.
 */
#include "dsl/compiler.h"

/* The end of the expression that starts at `at`: the first `}}` outside its quoted texts. */
static bool hole_end_find(struct str text, size_t at, size_t *end)
{
    char quote = '\0';
    for (; at < text.len; at++) {
        char c = text.ptr[at];
        if (quote) {
            if (c == '\\')
                at++;
            else if (c == quote)
                quote = '\0';
        } else if (c == '\'' || c == '"') {
            quote = c;
        } else if (c == '}' && at + 1 < text.len && text.ptr[at + 1] == '}') {
            *end = at;
            return true;
        }
    }
    return false;
}

/* The next `${{` from `from` that is not written `$${{`. */
static bool hole_start_find(struct str text, size_t from, size_t *start)
{
    const char *end = text.ptr + text.len, *at = text.ptr + from;
    for (; (at = memchr(at, '$', (size_t)(end - at))); at++) {
        if (!str_starts((struct str){at, (size_t)(end - at)}, STR("${{")))
            continue;
        if (at > text.ptr + from && at[-1] == '$')
            continue;
        *start = (size_t)(at - text.ptr);
        return true;
    }
    return false;
}

bool template_hole_find(struct str text, size_t from, size_t *start, size_t *end)
{
    return hole_start_find(text, from, start) && hole_end_find(text, *start + 3, end);
}

/* Text between holes, with `$${{` written as `${{`. */
static struct str literal_text(struct compiler *cx, struct str text)
{
    char *copy = arena_alloc(cx->arena, text.len + 1);
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        struct str rest = {text.ptr + i, text.len - i};
        if (str_starts(rest, STR("$${{")))
            continue;
        copy[len++] = text.ptr[i];
    }
    return (struct str){copy, len};
}

const struct template *literal_template(struct compiler *cx, const struct json *value)
{
    struct template *made = arena_new(cx->arena, struct template);
    made->kind = TEMPLATE_LITERAL;
    made->literal = value;
    return made;
}

static bool is_blank(struct str text, size_t from, size_t to)
{
    for (; from < to; from++)
        if (!strchr(" \t\r\n", text.ptr[from]) || !text.ptr[from])
            return false;
    return true;
}

/* --- what looks like a template and is none --- */

/* A name after the brackets of another tool's template: `{{ input.x }}`, `${input.x}`. */
static struct str foreign_name(struct str text, size_t at, const char *open, const char *close,
                               size_t *end)
{
    size_t start = at + strlen(open), stop;
    while (start < text.len && text.ptr[start] == ' ')
        start++;
    for (stop = start;
         stop < text.len && (text.ptr[stop] == '_' || text.ptr[stop] == '.' ||
                             (text.ptr[stop] >= '0' && text.ptr[stop] <= '9') ||
                             ((text.ptr[stop] | 32) >= 'a' && (text.ptr[stop] | 32) <= 'z'));
         stop++)
        continue;
    *end = stop;
    while (*end < text.len && text.ptr[*end] == ' ')
        ++*end;
    struct str rest = {text.ptr + *end, text.len - *end};
    if (stop == start || !str_starts(rest, str_z(close)))
        return STR_NONE;
    *end += strlen(close);
    return (struct str){text.ptr + start, stop - start};
}

static bool is_ours(struct str name)
{
    static const char *const starts[] = {"input.",   "steps.", "run.",     "env.",
                                         "secrets.", "item.",  "response."};
    for (size_t i = 0; i < ARRAY_LEN(starts); i++)
        if (str_starts(name, str_z(starts[i])))
            return true;
    return false;
}

static void foreign_report(struct compiler *cx, const struct node *node, size_t from, size_t to)
{
    static const struct {
        const char *open, *close;
    } forms[] = {{"{{", "}}"}, {"${", "}"}, {"$(", ")"}};
    struct str text = node->text;
    for (size_t at = from; at < to; at++) {
        struct str rest = {text.ptr + at, to - at};
        bool may_open = text.ptr[at] == '{' || text.ptr[at] == '$';
        for (size_t i = 0; may_open && i < ARRAY_LEN(forms); i++) {
            size_t end;
            if (!str_starts(rest, str_z(forms[i].open)) ||
                (at > 0 && text.ptr[at - 1] == '$')) /* `$${{` is meant as text */
                continue;
            struct str name = foreign_name(text, at, forms[i].open, forms[i].close, &end);
            if (!name.ptr)
                continue;
            struct place place = text_place(cx, node, at, end);
            struct diag *diag;
            if (is_ours(name))
                diag = cx_error(cx, "E216", place, "`%.*s` is plain text, not a template",
                                (int)MIN(end - at, (size_t)60), text.ptr + at);
            else
                diag = cx_warning(cx, "W202", place, "`%.*s` is sent as it is: it is no template",
                                  (int)MIN(end - at, (size_t)60), text.ptr + at);
            diag_help(cx->diags, diag, "a template is written `${{ %s" STR_FMT " }}`",
                      is_ours(name) ? "" : "input.", STR_ARG(name));
            at = end - 1;
            break;
        }
    }
}

/* --- holes --- */

static struct place hole_place(const struct compiler *cx, const struct node *node, size_t from,
                               const struct expr *expr)
{
    return text_place(cx, node, from + expr->start, from + expr->end);
}

static const struct expr *hole_compile(struct compiler *cx, const struct node *node, size_t from,
                                       size_t to, const struct expr_rules *rules, bool alone)
{
    struct expr *expr = expr_parse(cx, node, from, to);
    if (!expr)
        return NULL;
    unsigned kinds = expr_check(cx, expr, node, from, rules);
    if (kinds & KIND_OMIT && (!alone || !rules->omit)) {
        struct diag *diag =
            cx_error(cx, "E214", hole_place(cx, node, from, expr), "`omit` cannot leave out %s",
                     alone ? rules->where : "a part of a text");
        diag_help(cx->diags, diag,
                  "it leaves out a whole field: `note: ${{ default(input.note, omit) }}`");
    } else if (!alone && !(kinds & (KINDS_SCALAR | KIND_SECRET))) {
        struct diag *diag = cx_error(cx, "E212", hole_place(cx, node, from, expr),
                                     "only a text, number or boolean can stand inside other text");
        diag_help(cx->diags, diag, "json(x) writes any value as text");
    } else if (alone && rules->kinds && !(kinds & rules->kinds)) {
        struct diag *diag =
            cx_error(cx, "E212", hole_place(cx, node, from, expr), "%s is needed in %s",
                     rules->kinds == KINDS_TEXT    ? "a text, number or boolean"
                     : rules->kinds == KIND_OBJECT ? "an object"
                                                   : "a duration",
                     rules->where);
        if (rules->kinds != KIND_OBJECT)
            diag_help(cx->diags, diag, "%s",
                      rules->kinds == KINDS_TEXT ? "json(x) writes any value as text"
                                                 : "duration(x) makes one of a text such as `5m`");
    }
    return expr;
}

const struct template *text_compile_from(struct compiler *cx, const struct node *node, size_t from,
                                         const struct expr_rules *rules)
{
    struct str text = node->text;
    struct template_part parts[128];
    uint32_t count = 0;
    size_t at = from, start, end;
    while (hole_start_find(text, at, &start)) {
        if (!hole_end_find(text, start + 3, &end)) {
            struct diag *diag = cx_error(cx, "E211", text_place(cx, node, start, start + 3),
                                         "this template is not closed");
            diag_help(cx->diags, diag,
                      "write `}}` after the expression, or `$${{` for the text itself");
            break;
        }
        if (count == ARRAY_LEN(parts) - 1) {
            node_error(cx, "E211", node, "a text holds at most %zu templates",
                       ARRAY_LEN(parts) - 1);
            break;
        }
        foreign_report(cx, node, at, start);
        parts[count].text = literal_text(cx, (struct str){text.ptr + at, start - at});
        parts[count++].expr = hole_compile(cx, node, start + 3, end, rules, false);
        at = end + 2;
    }
    foreign_report(cx, node, at, text.len);
    parts[count++] =
        (struct template_part){literal_text(cx, (struct str){text.ptr + at, text.len - at}), NULL};
    struct template *made = arena_new(cx->arena, struct template);
    struct template_part *kept = arena_array(cx->arena, struct template_part, count);
    memcpy(kept, parts, count * sizeof(*parts));
    made->kind = TEMPLATE_TEXT;
    made->parts = kept;
    made->count = count;
    return made;
}

/* The value is one hole and blanks around it. */
static bool is_one_hole(struct str text, size_t *start, size_t *end)
{
    return template_hole_find(text, 0, start, end) && is_blank(text, 0, *start) &&
           is_blank(text, *end + 2, text.len);
}

static const struct template *scalar_compile(struct compiler *cx, const struct node *node,
                                             const struct expr_rules *rules)
{
    size_t start, end;
    if (node->kind != NODE_TEXT)
        return literal_template(cx, node_json(node, cx->arena));
    if (is_one_hole(node->text, &start, &end)) {
        struct template *made = arena_new(cx->arena, struct template);
        made->kind = TEMPLATE_EXPR;
        made->expr = hole_compile(cx, node, start + 3, end, rules, true);
        return made->expr ? made : literal_template(cx, &json_null);
    }
    if (hole_start_find(node->text, 0, &start))
        return text_compile_from(cx, node, 0, rules);
    foreign_report(cx, node, 0, node->text.len);
    return literal_template(cx, json_string(cx->arena, literal_text(cx, node->text)));
}

static void key_check(struct compiler *cx, const struct node *key)
{
    size_t start;
    if (hole_start_find(key->text, 0, &start))
        node_error(cx, "E126", key, "a key cannot hold a template: the shape of a value is fixed");
}

static const struct template *map_compile(struct compiler *cx, const struct node *node,
                                          const struct expr_rules *rules)
{
    struct template *made = arena_new(cx->arena, struct template);
    struct template_member *members = arena_array(cx->arena, struct template_member, node->count);
    struct expr_rules inner = *rules;
    inner.omit = true;
    made->kind = node->kind == NODE_LIST ? TEMPLATE_LIST : TEMPLATE_OBJECT;
    made->members = members;
    made->count = node->count;
    for (uint32_t i = 0; i < node->count; i++) {
        if (node->kind == NODE_LIST) {
            members[i].value = template_compile(cx, node->items[i], &inner);
            continue;
        }
        key_check(cx, node->pairs[i].key);
        members[i].name = arena_str(cx->arena, node->pairs[i].key->text);
        members[i].value = template_compile(cx, node->pairs[i].value, &inner);
    }
    return made;
}

const struct template *template_compile(struct compiler *cx, const struct node *node,
                                        const struct expr_rules *rules)
{
    if (node->kind == NODE_LIST || node->kind == NODE_MAP)
        return map_compile(cx, node, rules);
    return scalar_compile(cx, node, rules);
}

const struct template *text_template_compile(struct compiler *cx, const struct node *node,
                                             const struct expr_rules *rules)
{
    if (node->kind == NODE_LIST || node->kind == NODE_MAP || node->kind == NODE_NULL) {
        node_error(cx, "E103", node, "%s must be text, not %s", rules->where, node_kind_name(node));
        return literal_template(cx, json_string(cx->arena, STR("")));
    }
    struct expr_rules scalar = *rules;
    if (!scalar.kinds)
        scalar.kinds = KINDS_TEXT;
    return scalar_compile(cx, node, &scalar);
}

const struct expr *expression_compile(struct compiler *cx, const struct node *node,
                                      const struct expr_rules *rules, unsigned kinds,
                                      const char *wanted, const struct type **type)
{
    size_t start = 0, end = node->text.len;
    if (node->kind != NODE_TEXT && node->kind != NODE_NUMBER) {
        node_error(cx, "E103", node, "%s must be an expression, not %s", rules->where,
                   node_kind_name(node));
        return NULL;
    }
    if (is_one_hole(node->text, &start, &end))
        start += 3;
    else
        start = 0, end = node->text.len;
    size_t hole;
    if (hole_start_find((struct str){node->text.ptr, end}, start, &hole)) {
        struct diag *diag =
            node_error(cx, "E201", node, "%s is one expression, not a text", rules->where);
        diag_help(cx->diags, diag, "write it bare: input.total > 100 && input.country == 'DE'");
        return NULL;
    }
    struct expr *expr = expr_parse(cx, node, start, end);
    if (!expr)
        return NULL;
    const struct type *known = expr_type_check(cx, expr, node, start, rules);
    if (!(type_kinds(known) & kinds))
        cx_error(cx, "E206", hole_place(cx, node, start, expr), "%s must be %s", rules->where,
                 wanted);
    if (type)
        *type = known;
    return expr;
}

const struct expr *condition_compile(struct compiler *cx, const struct node *node,
                                     const struct expr_rules *rules)
{
    if (node->kind == NODE_NUMBER) {
        node_error(cx, "E103", node, "%s must be an expression, not %s", rules->where,
                   node_kind_name(node));
        return NULL;
    }
    if (node->kind != NODE_BOOL)
        return expression_compile(cx, node, rules, KIND_BOOL, "true or false", NULL);
    struct expr *literal = arena_new(cx->arena, struct expr);
    literal->op = EXPR_LITERAL;
    literal->literal = json_bool(node->boolean);
    return literal;
}
