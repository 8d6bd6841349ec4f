#include "dsl/doc_scalar.h"

#include "engine/base/decimal.h"

#include <stdlib.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_one_of(struct str text, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq_z(text, words[i]))
            return true;
    return false;
}
#define IS_ONE_OF(text, ...)                              \
    is_one_of((text), (const char *const[]){__VA_ARGS__}, \
              ARRAY_LEN(((const char *const[]){__VA_ARGS__})))

/* [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?, 0o7 and 0x1F: YAML 1.2's core schema */
static bool is_core_number(struct str text)
{
    const char *p = text.ptr, *end = p + text.len;
    bool digits = false;
    if (text.len > 2 && p[0] == '0' && (p[1] == 'o' || p[1] == 'x')) {
        bool hex = p[1] == 'x';
        for (p += 2; p < end; p++)
            if (!(hex ? strchr("0123456789abcdefABCDEF", *p) : strchr("01234567", *p)) || !*p)
                return false;
        return true;
    }
    if (p < end && (*p == '-' || *p == '+'))
        p++;
    for (; p < end && is_digit(*p); p++)
        digits = true;
    if (p < end && *p == '.')
        for (p++; p < end && is_digit(*p); p++)
            digits = true;
    if (!digits)
        return false;
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '-' || *p == '+'))
            p++;
        if (p == end)
            return false;
        while (p < end && is_digit(*p))
            p++;
    }
    return p == end;
}

static bool is_core_word(struct str text)
{
    if (text.len > 5)
        return false;
    if (IS_ONE_OF(text, "~", "Null", "NULL", "True", "TRUE", "False", "FALSE", ".nan", ".NaN",
                  ".NAN"))
        return true;
    if (text.len && (text.ptr[0] == '-' || text.ptr[0] == '+'))
        text = (struct str){text.ptr + 1, text.len - 1};
    return IS_ONE_OF(text, ".inf", ".Inf", ".INF");
}

/* -?(0|[1-9][0-9]*)(\.[0-9]+)? */
static bool is_our_number(struct str text)
{
    return decimal_is_number(text) && !memchr(text.ptr, 'e', text.len) &&
           !memchr(text.ptr, 'E', text.len);
}

static bool is_old_boolean(struct str text, bool as_key)
{
    if (text.len > 3)
        return false;
    if (!as_key && IS_ONE_OF(text, "y", "Y", "n", "N"))
        return true;
    return IS_ONE_OF(text, "yes", "Yes", "YES", "no", "No", "NO", "on", "On", "ON", "off", "Off",
                     "OFF");
}

bool node_is_old_boolean(const struct node *node)
{
    return node->kind == NODE_TEXT && node->style == NODE_PLAIN &&
           is_old_boolean(node->text, false);
}

/* Most plain scalars begin with a character that no type of YAML 1.1 or 1.2 begins with. */
static bool may_be_typed(struct str text)
{
    return text.len == 0 || strchr("~.+-0123456789nNtTfFyYoO", text.ptr[0]);
}

static void old_boolean_warn(const struct doc *doc, struct diags *diags, const struct node *node,
                             bool as_key)
{
    if (node->style != NODE_PLAIN || !is_old_boolean(node->text, as_key))
        return;
    struct place place = doc_node_place(doc, node);
    struct diag *diag =
        diag_add(diags, DIAG_WARNING, "W001", place.line, place.column, place.span,
                 "`" STR_FMT "` is text here, but tools for YAML 1.1 read it as a boolean",
                 STR_ARG(node->text));
    diag_help(diags, diag, "quote it: \"" STR_FMT "\"; booleans are `true` and `false`",
              STR_ARG(node->text));
}

void scalar_resolve_value(const struct doc *doc, struct diags *diags, const struct node *node)
{
    struct node *value = (struct node *)node; /* the loader owns it still */
    struct str text = node->text;
    if (node->kind != NODE_TEXT || node->style != NODE_PLAIN || !may_be_typed(text))
        return;
    if (text.len == 0 || str_eq(text, STR("null"))) {
        value->kind = NODE_NULL;
    } else if (str_eq(text, STR("true")) || str_eq(text, STR("false"))) {
        value->kind = NODE_BOOL;
        value->boolean = text.ptr[0] == 't';
    } else if (is_our_number(text)) {
        value->kind = NODE_NUMBER;
    } else if (is_core_number(text) || is_core_word(text)) {
        struct place place = doc_node_place(doc, node);
        struct diag *diag =
            diag_add(diags, DIAG_ERROR, "E007", place.line, place.column, place.span,
                     "`" STR_FMT "` is read differently by different YAML tools", STR_ARG(text));
        diag_help(diags, diag,
                  "quote it if it is text: \"" STR_FMT "\"; else write a plain number, `true`, "
                  "`false` or `null`",
                  STR_ARG(text));
    } else {
        old_boolean_warn(doc, diags, node, false);
    }
}

static struct diag *key_error(const struct doc *doc, struct diags *diags, const char *code,
                              const struct node *key, const char *what)
{
    struct place place = doc_node_place(doc, key);
    return diag_add(diags, DIAG_ERROR, code, place.line, place.column, place.span, "%s", what);
}

bool scalar_check_key(const struct doc *doc, struct diags *diags, const struct node *key)
{
    struct diag *diag;
    if (key->kind == NODE_LIST || key->kind == NODE_MAP) {
        diag = key_error(doc, diags, "E010", key, "a key must be text, not a list or a map");
        diag_help(diags, diag, "quote a template: inside { } and [ ], `${{ x }}` needs quotes");
        return false;
    }
    if (key->style != NODE_PLAIN)
        return true;
    if (str_eq(key->text, STR("<<"))) {
        diag = key_error(doc, diags, "E005", key, "merge keys (`<<`) are not part of YAML 1.2");
        diag_help(diags, diag, "use `defaults`, or an alias for a whole value (`retry: *patient`)");
        return false;
    }
    if (!may_be_typed(key->text))
        return true;
    if (key->text.len == 0 || is_our_number(key->text) || is_core_number(key->text) ||
        is_core_word(key->text) || IS_ONE_OF(key->text, "true", "false", "null")) {
        diag = key_error(doc, diags, "E010", key,
                         "a key must be text, but YAML reads this as something else");
        diag_help(diags, diag, "quote it: \"" STR_FMT "\"", STR_ARG(key->text));
        return false;
    }
    old_boolean_warn(doc, diags, key, true);
    return true;
}

static int pair_cmp(const void *a_ptr, const void *b_ptr)
{
    const struct pair *a = a_ptr, *b = b_ptr;
    int order = str_cmp(a->key->text, b->key->text);
    if (order)
        return order;
    return a->key->start < b->key->start ? -1 : a->key->start > b->key->start;
}

static void duplicates_check(const struct doc *doc, struct diags *diags, const struct node *map)
{
    if (map->count < 2)
        return;
    struct pair *sorted = xmalloc(map->count * sizeof(*sorted));
    memcpy(sorted, map->pairs, map->count * sizeof(*sorted));
    qsort(sorted, map->count, sizeof(*sorted), pair_cmp);
    for (uint32_t i = 1, first = 0; i < map->count; i++) {
        if (!str_eq(sorted[first].key->text, sorted[i].key->text)) {
            first = i;
            continue;
        }
        struct place place = doc_node_place(doc, sorted[i].key);
        struct place other = doc_node_place(doc, sorted[first].key);
        struct diag *diag =
            diag_add(diags, DIAG_ERROR, "E003", place.line, place.column, place.span,
                     "duplicate key `" STR_FMT "`", STR_ARG(sorted[i].key->text));
        diag->other_line = other.line;
        diag->other_column = other.column;
    }
    free(sorted);
}

/* Brackets of a plain text that opens more than it closes: the comma after it was meant inside. */
static bool is_cut_call(const struct node *node)
{
    int open = 0;
    if (node->style != NODE_PLAIN || node->kind != NODE_TEXT)
        return false;
    for (size_t i = 0; i < node->text.len; i++)
        open += node->text.ptr[i] == '(' ? 1 : node->text.ptr[i] == ')' ? -1 : 0;
    return open > 0;
}

static void cut_call_report(const struct doc *doc, struct diags *diags, const struct node *node)
{
    struct place place = doc_node_place(doc, node);
    struct diag *diag =
        diag_add(diags, DIAG_ERROR, "E013", place.line, place.column, place.span,
                 "the comma after `" STR_FMT "` ends this value", STR_ARG(node->text));
    diag_help(diags, diag, "inside { } and [ ], quote an expression that has a comma");
    ((struct node *)node)->kind = NODE_NONE; /* the loader owns it still */
}

/* What the comma cut off looks like a key without a value. */
static void cut_rest_remove(struct node *map, uint32_t i)
{
    const struct node *value = map->pairs[i].value;
    if (value->kind != NODE_NULL || value->text.len)
        return;
    memmove(map->pairs + i, map->pairs + i + 1, (map->count - i - 1) * sizeof(*map->pairs));
    map->count--;
}

void map_check(const struct doc *doc, struct diags *diags, struct node *map)
{
    duplicates_check(doc, diags, map);
    for (uint32_t i = 0; map->flow && i + 1 < map->count; i++)
        if (is_cut_call(map->pairs[i].value)) {
            cut_call_report(doc, diags, map->pairs[i].value);
            cut_rest_remove(map, i + 1);
        }
}

void list_check(const struct doc *doc, struct diags *diags, struct node *list)
{
    for (uint32_t i = 0; list->flow && i + 1 < list->count; i++)
        if (is_cut_call(list->items[i]))
            cut_call_report(doc, diags, list->items[i]);
}

/* The scalar that starts last before `at`; they are in source order. */
static const struct node *scalar_before(const struct doc *doc, uint32_t at)
{
    uint32_t low = 0, high = doc->scalars_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (doc->scalars[middle]->start <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? doc->scalars[low - 1] : NULL;
}

/* `path: a #${{ x }}`: the author meant one value, YAML sees a comment after `a`. */
void comments_check(const struct doc *doc, struct diags *diags)
{
    struct str source = doc->source;
    const char *from = source.ptr, *end = source.ptr + source.len, *found;
    while ((found = memchr(from, '#', (size_t)(end - from)))) {
        uint32_t at = (uint32_t)(found - source.ptr), back = at;
        from = found + 1;
        if (!str_starts((struct str){found, (size_t)(end - found)}, STR("#${{")))
            continue;
        while (back > 0 && (source.ptr[back - 1] == ' ' || source.ptr[back - 1] == '\t'))
            back--;
        const struct node *scalar = scalar_before(doc, at);
        if (back == at || !scalar || scalar->end > at || scalar->end != back)
            continue;
        struct place place = doc_place(doc, at, at + 4);
        struct diag *diag =
            diag_add(diags, DIAG_ERROR, "E012", place.line, place.column, place.span,
                     "` #` starts a comment, so this template is not part of the value");
        diag_help(diags, diag, "quote the whole value, or put no space before the `#`");
    }
}

static bool has(struct str line, const char *part)
{
    return memmem(line.ptr, line.len, part, strlen(part)) != NULL;
}

/* A value that starts with a quote and goes on after the closing one. */
static bool starts_with_quote(struct str line)
{
    const char *colon = memmem(line.ptr, line.len, ": ", 2);
    if (!colon)
        return false;
    const char *end = line.ptr + line.len, *at = colon + 2;
    while (at < end && *at == ' ')
        at++;
    if (at >= end || (*at != '\'' && *at != '"'))
        return false;
    const char *close = memchr(at + 1, *at, (size_t)(end - at - 1));
    if (!close)
        return false;
    for (at = close + 1; at < end && (*at == ' ' || *at == '\r'); at++)
        continue;
    return at < end && *at != '#';
}

static bool is_in_flow(struct str line)
{
    for (size_t i = 0; i < line.len; i++) {
        if (line.ptr[i] == '[')
            return true;
        if (line.ptr[i] == '{' && (i == 0 || (line.ptr[i - 1] != '{' && line.ptr[i - 1] != '$')))
            return true;
    }
    return false;
}

const char *scalar_syntax_help(struct str line)
{
    size_t indent = 0;
    while (indent < line.len && line.ptr[indent] == ' ')
        indent++;
    if (indent < line.len && line.ptr[indent] == '\t')
        return "YAML is indented with spaces, not with tabs";
    if (has(line, " #${{"))
        return "` #` starts a comment: quote the whole value";
    if (has(line, ": !") || has(line, "- !"))
        return "a value that starts with `!` is a YAML tag: quote the expression, as in "
               "`if: \"!input.urgent\"`";
    if (starts_with_quote(line))
        return "a value that starts with a quote ends at the next one: put the whole value into "
               "the other kind of quotes";
    if (has(line, "${{") && is_in_flow(line))
        return "inside { } and [ ], a template needs quotes: {sku: \"${{ input.sku }}\"}";
    if (has(line, " ? ") && has(line, " : "))
        return "`? :` in a plain value looks like a key to YAML: quote the whole value";
    if (has(line, "${{"))
        return "quote the value that holds the template";
    if (has(line, ": @") || has(line, ": `") || has(line, ": %"))
        return "a plain value cannot start with `@`, a backtick or `%`: quote it";
    return NULL;
}

/* --- where a byte of the decoded text stands in the source --- */

struct cursor {
    struct str source;
    size_t at, end; /* in the source */
    enum node_style style;
};

static size_t escape_source_len(const struct cursor *c)
{
    switch (c->at + 1 < c->end ? c->source.ptr[c->at + 1] : 0) {
    case 'x': return 4;
    case 'u': return 6;
    case 'U': return 10;
    default: return 2;
    }
}

static size_t utf8_len(char lead)
{
    unsigned char c = (unsigned char)lead;
    return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* A backslash at the end of a line joins it with the next one. */
static bool is_line_join(const struct cursor *c)
{
    return c->style == NODE_DOUBLE && c->at + 1 < c->end && c->source.ptr[c->at] == '\\' &&
           (c->source.ptr[c->at + 1] == '\n' || c->source.ptr[c->at + 1] == '\r');
}

/* Moves over one character of both texts; returns its decoded bytes. Where they differ (folded
 * lines, indentation) both skip their blanks: the characters after them meet again. */
static size_t cursor_step(struct cursor *c, struct str text, size_t i)
{
    char now = c->source.ptr[c->at];
    if (c->style == NODE_DOUBLE && now == '\\') {
        bool joins = is_line_join(c);
        c->at += escape_source_len(c);
        if (!joins)
            return utf8_len(text.ptr[i]);
        while (c->at < c->end && is_blank(c->source.ptr[c->at]))
            c->at++;
        return 0;
    }
    if (c->style == NODE_SINGLE && now == '\'' && text.ptr[i] == '\'') {
        c->at += 2;
        return 1;
    }
    if (now == text.ptr[i] && now != '\n') {
        size_t len = utf8_len(now);
        c->at += len;
        return len;
    }
    size_t blanks = 0;
    while (c->at < c->end && is_blank(c->source.ptr[c->at]))
        c->at++;
    while (i + blanks < text.len && is_blank(text.ptr[i + blanks]))
        blanks++;
    if (!blanks && c->at < c->end && c->source.ptr[c->at] != text.ptr[i])
        c->at = c->end; /* lost: point at the end rather than loop */
    return blanks;
}

static struct cursor cursor_start(const struct doc *doc, const struct node *node)
{
    struct cursor c = {doc->source, node->start, node->end, node->style};
    if (c.style == NODE_SINGLE || c.style == NODE_DOUBLE) {
        c.at++;
        c.end -= c.end > c.at;
    } else if (c.style == NODE_LITERAL || c.style == NODE_FOLDED) {
        while (c.at < c.end && c.source.ptr[c.at] != '\n') /* the line of `|` or `>` */
            c.at++;
    }
    return c;
}

/* From byte `from` of the decoded text, where the cursor is, to byte `to`; returns the byte
 * reached, which is past `to` where the blanks around it are folded. */
static size_t cursor_move(struct cursor *c, struct str text, size_t from, size_t to)
{
    while (from < to && c->at < c->end)
        from += cursor_step(c, text, from);
    return from;
}

static uint32_t cursor_offset(struct cursor c, struct str text, size_t to)
{
    /* Where the wanted character begins a line, the break and its indentation are still ahead. */
    if (to < text.len && !is_blank(text.ptr[to])) {
        if (is_line_join(&c))
            c.at++;
        while (c.at < c.end && is_blank(c.source.ptr[c.at]))
            c.at++;
    }
    return (uint32_t)c.at;
}

struct place doc_text_place(const struct doc *doc, const struct node *node, size_t from, size_t to)
{
    struct cursor c = cursor_start(doc, node);
    size_t at = cursor_move(&c, node->text, 0, from);
    uint32_t start = cursor_offset(c, node->text, from), end = start + 1;
    if (to > from + 1) {
        cursor_move(&c, node->text, at, to - 1);
        end = cursor_offset(c, node->text, to - 1) + 1;
    }
    return doc_place(doc, start, MAX(end, start + 1));
}
