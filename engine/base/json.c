#include "engine/base/json.h"

#include <stdio.h>
#include <stdlib.h>

const struct json json_null = {.kind = JSON_NULL};
const struct json json_true = {.kind = JSON_BOOL, .boolean = true};
const struct json json_false = {.kind = JSON_BOOL, .boolean = false};

struct parser {
    struct str text;
    size_t at;
    unsigned depth;
    struct arena *arena;
    struct err *err;
    bool unstorable;
    unsigned failed_depth;
    struct {
        struct str name; /* absent: an index */
        uint32_t index;  /* UINT32_MAX: the container itself */
    } path[JSON_DEPTH_MAX];
};

static int value_parse(struct parser *p, const struct json **out);

static int fail(struct parser *p, const char *what)
{
    p->failed_depth = p->depth;
    return err_set(p->err, ERR_INVALID, "invalid JSON at byte %zu: %s", p->at, what);
}

static void path_set(struct parser *p, struct str name, uint32_t index)
{
    p->path[p->depth - 1].name = name;
    p->path[p->depth - 1].index = index;
}

static int fail_unstorable(struct parser *p, const char *what)
{
    p->unstorable = true;
    return fail(p, what);
}

static void space_skip(struct parser *p)
{
    while (p->at < p->text.len && strchr(" \t\r\n", p->text.ptr[p->at]) && p->text.ptr[p->at])
        p->at++;
}

static bool next_is(const struct parser *p, char c)
{
    return p->at < p->text.len && p->text.ptr[p->at] == c;
}

static bool word_read(struct parser *p, struct str word)
{
    struct str rest = {p->text.ptr + p->at, p->text.len - p->at};
    if (!str_starts(rest, word))
        return false;
    p->at += word.len;
    return true;
}

static size_t digits_skip(struct parser *p)
{
    size_t start = p->at;
    while (p->at < p->text.len && p->text.ptr[p->at] >= '0' && p->text.ptr[p->at] <= '9')
        p->at++;
    return p->at - start;
}

static int number_parse(struct parser *p, const struct json **out)
{
    size_t start = p->at;
    if (next_is(p, '-'))
        p->at++;
    if (next_is(p, '0'))
        p->at++;
    else if (!digits_skip(p))
        return fail(p, "a digit is missing");
    if (next_is(p, '.')) {
        p->at++;
        if (!digits_skip(p))
            return fail(p, "a digit is missing after the decimal point");
    }
    if (next_is(p, 'e') || next_is(p, 'E')) {
        p->at++;
        if (next_is(p, '+') || next_is(p, '-'))
            p->at++;
        size_t digits = digits_skip(p);
        if (!digits)
            return fail(p, "a digit is missing in the exponent");
        if (digits > 5) /* see json_number_cmp */
            return fail(p, "the exponent is too large");
    }
    *out = json_number(p->arena, (struct str){p->text.ptr + start, p->at - start});
    return 0;
}

static bool hex4_read(struct parser *p, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++, p->at++) {
        char c = p->at < p->text.len ? p->text.ptr[p->at] : 0;
        uint32_t digit;
        if (c >= '0' && c <= '9')
            digit = (uint32_t)(c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            digit = (uint32_t)((c | 32) - 'a' + 10);
        else
            return false;
        *out = *out << 4 | digit;
    }
    return true;
}

static size_t utf8_write(uint32_t code, char *to)
{
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        to[0] = (char)(0xC0 | code >> 6);
        to[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        to[0] = (char)(0xE0 | code >> 12);
        to[1] = (char)(0x80 | (code >> 6 & 0x3F));
        to[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    to[0] = (char)(0xF0 | code >> 18);
    to[1] = (char)(0x80 | (code >> 12 & 0x3F));
    to[2] = (char)(0x80 | (code >> 6 & 0x3F));
    to[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}

static int unicode_escape_parse(struct parser *p, char *to, size_t *len)
{
    uint32_t code, low;
    if (!hex4_read(p, &code))
        return fail(p, "\\u needs four hex digits");
    if (code == 0)
        return fail_unstorable(p, "\\u0000 cannot be stored");
    if (code >= 0xDC00 && code <= 0xDFFF)
        return fail_unstorable(p, "a lone low surrogate");
    if (code >= 0xD800 && code <= 0xDBFF) {
        if (!word_read(p, STR("\\u")) || !hex4_read(p, &low) || low < 0xDC00 || low > 0xDFFF)
            return fail_unstorable(p, "a lone high surrogate");
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    *len += utf8_write(code, to + *len);
    return 0;
}

/* The opening quote has been read; `len` bytes up to the closing quote need decoding. */
static int escapes_decode(struct parser *p, size_t end, struct str *out)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    char *to = arena_alloc(p->arena, end - p->at + 1);
    size_t len = 0;
    while (p->at < end) {
        char c = p->text.ptr[p->at++];
        if (c != '\\') {
            to[len++] = c;
            continue;
        }
        char escape = p->text.ptr[p->at++];
        const char *name = escape ? strchr(names, escape) : NULL;
        if (name) {
            to[len++] = values[name - names];
        } else if (escape == 'u') {
            int code = unicode_escape_parse(p, to, &len);
            if (code)
                return code;
        } else {
            p->at--;
            return fail(p, "an unknown escape");
        }
    }
    *out = (struct str){to, len};
    return 0;
}

static int string_parse(struct parser *p, struct str *out)
{
    bool escaped = false;
    size_t start = ++p->at, end = start;
    for (;; end++) {
        if (end >= p->text.len) {
            p->at = end;
            return fail(p, "a string is not closed");
        }
        unsigned char c = (unsigned char)p->text.ptr[end];
        if (c == '"')
            break;
        if (c < 0x20) {
            p->at = end;
            return fail(p, "a control character in a string");
        }
        if (c == '\\') {
            escaped = true;
            end++;
        }
    }
    *out = (struct str){p->text.ptr + start, end - start};
    if (escaped) {
        int code = escapes_decode(p, end, out);
        if (code)
            return code;
    } else {
        *out = arena_str(p->arena, *out); /* with its NUL, see json.h */
    }
    p->at = end + 1;
    return 0;
}

/* Grows while parsing; the final array lies in the arena. */
struct members {
    struct json_member *list;
    uint32_t count, capacity;
};

static void members_add(struct members *members, struct str name, const struct json *value)
{
    if (members->count == members->capacity) {
        members->capacity = members->capacity ? members->capacity * 2 : 8;
        members->list = xrealloc(members->list, members->capacity * sizeof(*members->list));
    }
    members->list[members->count++] = (struct json_member){name, value};
}

static int list_parse(struct parser *p, struct members *found)
{
    p->at++;
    space_skip(p);
    if (next_is(p, ']')) {
        p->at++;
        return 0;
    }
    for (;;) {
        const struct json *item;
        path_set(p, STR_NONE, found->count);
        int code = value_parse(p, &item);
        if (code)
            return code;
        members_add(found, STR_NONE, item);
        space_skip(p);
        if (next_is(p, ']'))
            break;
        if (!next_is(p, ','))
            return fail(p, "expected , or ] in a list");
        p->at++;
    }
    p->at++;
    return 0;
}

static int member_parse(struct parser *p, struct members *found)
{
    struct str name;
    const struct json *value;
    space_skip(p);
    if (!next_is(p, '"'))
        return fail(p, "expected a member name in quotes");
    int code = string_parse(p, &name);
    if (code)
        return code;
    space_skip(p);
    if (!next_is(p, ':'))
        return fail(p, "expected : after a member name");
    p->at++;
    path_set(p, name, 0);
    code = value_parse(p, &value);
    if (code)
        return code;
    path_set(p, STR_NONE, UINT32_MAX);
    members_add(found, name, value);
    return 0;
}

static int object_parse(struct parser *p, struct members *found)
{
    p->at++;
    space_skip(p);
    if (next_is(p, '}')) {
        p->at++;
        return 0;
    }
    for (;;) {
        int code = member_parse(p, found);
        if (code)
            return code;
        space_skip(p);
        if (next_is(p, '}'))
            break;
        if (!next_is(p, ','))
            return fail(p, "expected , or } in an object");
        p->at++;
    }
    p->at++;
    return 0;
}

static int member_name_cmp(const void *a, const void *b)
{
    return str_cmp(((const struct json_member *)a)->name, ((const struct json_member *)b)->name);
}

static int duplicates_check(struct parser *p, const struct json *object)
{
    if (object->count < 2)
        return 0;
    struct json_member *sorted = xmalloc(object->count * sizeof(*sorted));
    int code = 0;
    memcpy(sorted, object->members, object->count * sizeof(*sorted));
    qsort(sorted, object->count, sizeof(*sorted), member_name_cmp);
    for (uint32_t i = 1; i < object->count && !code; i++)
        if (str_eq(sorted[i - 1].name, sorted[i].name))
            code = err_set(p->err, ERR_INVALID, "invalid JSON at byte %zu: duplicate key \"%.*s\"",
                           p->at, (int)MIN(sorted[i].name.len, (size_t)100), sorted[i].name.ptr);
    free(sorted);
    return code;
}

static int container_parse(struct parser *p, const struct json **out)
{
    struct members found = {0};
    bool is_list = next_is(p, '[');
    if (p->depth == JSON_DEPTH_MAX)
        return fail(p, "nested too deeply");
    p->depth++;
    path_set(p, STR_NONE, UINT32_MAX);
    int code = is_list ? list_parse(p, &found) : object_parse(p, &found);
    p->depth--;
    if (!code) {
        struct json *value =
            is_list ? json_list_new(p->arena, found.count) : json_object_new(p->arena, found.count);
        for (uint32_t i = 0; i < found.count; i++) {
            if (is_list)
                value->items[i] = found.list[i].value;
            else
                value->members[i] = found.list[i];
        }
        value->count = found.count;
        *out = value;
        if (!is_list)
            code = duplicates_check(p, value);
    }
    free(found.list);
    return code;
}

static int value_parse(struct parser *p, const struct json **out)
{
    space_skip(p);
    if (p->at >= p->text.len)
        return fail(p, "the text ends too early");
    char c = p->text.ptr[p->at];
    if (c == '{' || c == '[')
        return container_parse(p, out);
    if (c == '"') {
        struct str text;
        int code = string_parse(p, &text);
        if (!code)
            *out = json_string(p->arena, text);
        return code;
    }
    if (c == '-' || (c >= '0' && c <= '9'))
        return number_parse(p, out);
    if (word_read(p, STR("null"))) {
        *out = &json_null;
        return 0;
    }
    if (word_read(p, STR("true")) || word_read(p, STR("false"))) {
        *out = json_bool(c == 't');
        return 0;
    }
    return fail(p, "expected a value");
}

static int text_parse(struct parser *p, const struct json **out)
{
    if (!str_is_utf8(p->text))
        return err_set(p->err, ERR_INVALID, "invalid JSON: the text is not valid UTF-8");
    int code = value_parse(p, out);
    if (code)
        return code;
    space_skip(p);
    if (p->at < p->text.len)
        return fail(p, "more text after the value");
    return 0;
}

/* The path is left as it is: only what is deeper than nothing is ever read. */
static void parser_begin(struct parser *p, struct str text, struct arena *arena, struct err *err)
{
    p->text = text;
    p->at = 0;
    p->depth = p->failed_depth = 0;
    p->arena = arena;
    p->err = err;
    p->unstorable = false;
}

/* One token of a JSON pointer (RFC 6901). */
static void pointer_add(struct str name, struct buf *out)
{
    buf_add_char(out, '/');
    for (size_t i = 0; i < name.len; i++)
        if (name.ptr[i] == '~' || name.ptr[i] == '/')
            buf_add_z(out, name.ptr[i] == '~' ? "~0" : "~1");
        else
            buf_add_char(out, name.ptr[i]);
}

int json_parse(struct str text, struct arena *arena, const struct json **out, struct err *err)
{
    struct parser p;
    parser_begin(&p, text, arena, err);
    return text_parse(&p, out);
}

int json_parse_where(struct str text, struct arena *arena, const struct json **out,
                     struct json_refusal *refusal, struct err *err)
{
    struct parser p;
    struct buf pointer = {0};
    parser_begin(&p, text, arena, err);
    int code = text_parse(&p, out);
    if (!code)
        return 0;
    for (unsigned i = 0; i < p.failed_depth; i++)
        if (p.path[i].name.ptr)
            pointer_add(p.path[i].name, &pointer);
        else if (p.path[i].index != UINT32_MAX)
            buf_printf(&pointer, "/%u", p.path[i].index);
    *refusal = (struct json_refusal){p.unstorable, STR("")};
    if (pointer.len)
        refusal->pointer = arena_str(arena, buf_str(&pointer));
    buf_free(&pointer);
    return code;
}

const struct json *json_bool(bool value)
{
    return value ? &json_true : &json_false;
}

static struct json *json_new(struct arena *arena, enum json_kind kind)
{
    struct json *value = arena_new(arena, struct json);
    value->kind = kind;
    return value;
}

const struct json *json_int(struct arena *arena, int64_t value)
{
    return json_number(arena, arena_printf(arena, "%lld", (long long)value));
}

const struct json *json_number(struct arena *arena, struct str text)
{
    struct json *value = json_new(arena, JSON_NUMBER);
    value->text = text;
    return value;
}

const struct json *json_string(struct arena *arena, struct str text)
{
    struct json *value = json_new(arena, JSON_STRING);
    value->text = text.ptr ? text : STR("");
    return value;
}

const struct json *json_string_z(struct arena *arena, const char *text)
{
    return json_string(arena, str_z(text));
}

struct json *json_list_new(struct arena *arena, uint32_t capacity)
{
    struct json *list = json_new(arena, JSON_LIST);
    list->items = (const struct json **)arena_alloc_array(arena, capacity, sizeof(*list->items));
    return list;
}

void json_list_add(struct json *list, const struct json *item)
{
    ASSERT(list->kind == JSON_LIST && item);
    list->items[list->count++] = item;
}

struct json *json_object_new(struct arena *arena, uint32_t capacity)
{
    struct json *object = json_new(arena, JSON_OBJECT);
    object->members = arena_array(arena, struct json_member, capacity);
    return object;
}

void json_object_add(struct json *object, struct str name, const struct json *value)
{
    ASSERT(object->kind == JSON_OBJECT && value);
    object->members[object->count++] = (struct json_member){name, value};
}

const struct json *json_get(const struct json *value, struct str name)
{
    if (!value || value->kind != JSON_OBJECT)
        return NULL;
    for (uint32_t i = 0; i < value->count; i++)
        if (str_eq(value->members[i].name, name))
            return value->members[i].value;
    return NULL;
}

struct str json_get_text(const struct json *value, const char *name)
{
    const struct json *member = json_get_z(value, name);
    return member && member->kind == JSON_STRING ? member->text : STR_NONE;
}

bool json_to_int(const struct json *value, int64_t *out)
{
    if (!value || value->kind != JSON_NUMBER || !value->text.len)
        return false;
    bool negative = value->text.ptr[0] == '-';
    int64_t sum = 0;
    for (size_t i = negative; i < value->text.len; i++) {
        int digit = value->text.ptr[i] - '0';
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(sum, 10, &sum) ||
            __builtin_sub_overflow(sum, digit, &sum)) /* negative sums reach INT64_MIN */
            return false;
    }
    if (!negative && sum == INT64_MIN)
        return false;
    *out = negative ? sum : -sum;
    return true;
}

const char *json_kind_name(enum json_kind kind)
{
    static const char *const names[] = {"nothing", "null", "boolean", "number",
                                        "string",  "list", "object"};
    ASSERT(kind < ARRAY_LEN(names));
    return names[kind];
}

void json_write_string(struct str text, struct buf *out)
{
    buf_add_char(out, '"');
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        switch (c) {
        case '"': buf_add_z(out, "\\\""); break;
        case '\\': buf_add_z(out, "\\\\"); break;
        case '\n': buf_add_z(out, "\\n"); break;
        case '\r': buf_add_z(out, "\\r"); break;
        case '\t': buf_add_z(out, "\\t"); break;
        default:
            if (c < 0x20 || c == 0x7F)
                buf_printf(out, "\\u%04x", c);
            else
                buf_add_char(out, (char)c);
        }
    }
    buf_add_char(out, '"');
}

static void line_start(struct buf *out, unsigned level, bool pretty)
{
    if (pretty)
        buf_printf(out, "\n%*s", (int)(level * 2), "");
}

static void value_write(const struct json *value, struct buf *out, unsigned level, bool pretty)
{
    switch (value->kind) {
    case JSON_NONE: ASSERT(!"a JSON value"); break;
    case JSON_NULL: buf_add_z(out, "null"); break;
    case JSON_BOOL: buf_add_z(out, value->boolean ? "true" : "false"); break;
    case JSON_NUMBER: buf_add_str(out, value->text); break;
    case JSON_STRING: json_write_string(value->text, out); break;
    case JSON_LIST:
        buf_add_char(out, '[');
        for (uint32_t i = 0; i < value->count; i++) {
            if (i)
                buf_add_char(out, ',');
            line_start(out, level + 1, pretty);
            value_write(value->items[i], out, level + 1, pretty);
        }
        if (value->count)
            line_start(out, level, pretty);
        buf_add_char(out, ']');
        break;
    case JSON_OBJECT:
        buf_add_char(out, '{');
        for (uint32_t i = 0; i < value->count; i++) {
            if (i)
                buf_add_char(out, ',');
            line_start(out, level + 1, pretty);
            json_write_string(value->members[i].name, out);
            buf_add_z(out, pretty ? ": " : ":");
            value_write(value->members[i].value, out, level + 1, pretty);
        }
        if (value->count)
            line_start(out, level, pretty);
        buf_add_char(out, '}');
        break;
    }
}

void json_write(const struct json *value, struct buf *out)
{
    value_write(value, out, 0, false);
}

void json_write_pretty(const struct json *value, unsigned indent, struct buf *out)
{
    value_write(value, out, indent, true);
}

struct str json_text(const struct json *value, struct arena *arena)
{
    struct buf out = {0};
    json_write(value, &out);
    struct str text = arena_str(arena, buf_str(&out));
    buf_free(&out);
    return text;
}

/* A number taken apart: 0.DIGITS x 10^exponent, digits without zeros at either end. */
struct number {
    bool negative;
    const char *first; /* first significant digit in the text, may have a '.' among them */
    size_t span;       /* bytes from first to last significant digit */
    size_t digits;     /* 0 for zero */
    int64_t exponent;
};

static struct number number_read(struct str text)
{
    struct number n = {0};
    size_t at = 0;
    int64_t point = -1, digits_seen = 0, first_digit = -1, exponent = 0;
    const char *last = NULL;
    if (at < text.len && text.ptr[at] == '-') {
        n.negative = true;
        at++;
    }
    for (; at < text.len && text.ptr[at] != 'e' && text.ptr[at] != 'E'; at++) {
        char c = text.ptr[at];
        if (c == '.') {
            point = digits_seen;
            continue;
        }
        if (c != '0') {
            if (first_digit < 0) {
                first_digit = digits_seen;
                n.first = text.ptr + at;
            }
            last = text.ptr + at;
        }
        digits_seen++;
    }
    if (point < 0)
        point = digits_seen;
    if (at < text.len) {
        bool negative = text.ptr[++at] == '-';
        if (text.ptr[at] == '-' || text.ptr[at] == '+')
            at++;
        for (; at < text.len; at++)
            exponent = exponent * 10 + (text.ptr[at] - '0');
        if (negative)
            exponent = -exponent;
    }
    if (!n.first) { /* zero has no sign here: -0 and 0 are one number */
        n.negative = false;
        return n;
    }
    n.span = (size_t)(last - n.first) + 1;
    n.digits = n.span - (memchr(n.first, '.', n.span) ? 1 : 0);
    n.exponent = point - first_digit + exponent;
    return n;
}

static char number_digit(const struct number *n, size_t *at)
{
    if (*at >= n->span)
        return '0';
    if (n->first[*at] == '.')
        (*at)++;
    return n->first[(*at)++];
}

int json_number_cmp(struct str a_text, struct str b_text)
{
    struct number a = number_read(a_text), b = number_read(b_text);
    if (a.negative != b.negative)
        return a.negative ? -1 : 1;
    int sign = a.negative ? -1 : 1;
    if (!a.digits || !b.digits)
        return sign * ((a.digits > 0) - (b.digits > 0));
    if (a.exponent != b.exponent)
        return a.exponent < b.exponent ? -sign : sign;
    for (size_t at_a = 0, at_b = 0; at_a < a.span || at_b < b.span;) {
        char x = number_digit(&a, &at_a), y = number_digit(&b, &at_b);
        if (x != y)
            return x < y ? -sign : sign;
    }
    return 0;
}

/* Plain decimals where they are short, `0.DIGITSeN` beyond: one spelling for one number. */
static void number_write_canonical(struct str text, struct buf *out)
{
    struct number n = number_read(text);
    if (!n.digits) {
        buf_add_char(out, '0');
        return;
    }
    if (n.negative)
        buf_add_char(out, '-');
    size_t at = 0;
    if (n.exponent > 40 || n.exponent < -40) {
        buf_add_z(out, "0.");
        for (size_t i = 0; i < n.digits; i++)
            buf_add_char(out, number_digit(&n, &at));
        buf_printf(out, "e%lld", (long long)n.exponent);
        return;
    }
    if (n.exponent <= 0)
        buf_add_char(out, '0');
    for (int64_t i = 0; i < n.exponent; i++)
        buf_add_char(out, number_digit(&n, &at));
    if ((int64_t)n.digits <= n.exponent)
        return;
    buf_add_char(out, '.');
    for (int64_t i = n.exponent; i < 0; i++)
        buf_add_char(out, '0');
    for (int64_t i = MAX(n.exponent, (int64_t)0); i < (int64_t)n.digits; i++)
        buf_add_char(out, number_digit(&n, &at));
}

void json_write_canonical(const struct json *value, struct buf *out)
{
    switch (value->kind) {
    case JSON_NUMBER: number_write_canonical(value->text, out); break;
    case JSON_LIST:
        buf_add_char(out, '[');
        for (uint32_t i = 0; i < value->count; i++) {
            if (i)
                buf_add_char(out, ',');
            json_write_canonical(value->items[i], out);
        }
        buf_add_char(out, ']');
        break;
    case JSON_OBJECT: {
        struct json_member *sorted = xmalloc(value->count * sizeof(*sorted));
        if (value->count)
            memcpy(sorted, value->members, value->count * sizeof(*sorted));
        qsort(sorted, value->count, sizeof(*sorted), member_name_cmp);
        buf_add_char(out, '{');
        for (uint32_t i = 0; i < value->count; i++) {
            if (i)
                buf_add_char(out, ',');
            json_write_string(sorted[i].name, out);
            buf_add_char(out, ':');
            json_write_canonical(sorted[i].value, out);
        }
        buf_add_char(out, '}');
        free(sorted);
        break;
    }
    case JSON_NONE:
    case JSON_NULL:
    case JSON_BOOL:
    case JSON_STRING: json_write(value, out); break;
    }
}

static bool scalars_equal(const struct json *a, const struct json *b)
{
    if (a->kind == JSON_NUMBER)
        return json_number_cmp(a->text, b->text) == 0;
    if (a->kind == JSON_STRING)
        return str_eq(a->text, b->text);
    return a->kind != JSON_BOOL || a->boolean == b->boolean;
}

static struct str pointer_join(struct str name, struct str rest, struct arena *arena)
{
    struct buf pointer = {0};
    pointer_add(name, &pointer);
    buf_add_str(&pointer, rest);
    struct str joined = arena_str(arena, buf_str(&pointer));
    buf_free(&pointer);
    return joined;
}

/* Pushes the pointer's last part on the way out, so that equal values cost no memory. */
static bool difference_find(const struct json *a, const struct json *b, struct arena *arena,
                            struct str *path)
{
    *path = STR("");
    if (a->kind != b->kind)
        return true;
    if (a->kind == JSON_LIST) {
        for (uint32_t i = 0; i < MIN(a->count, b->count); i++)
            if (difference_find(a->items[i], b->items[i], arena, path)) {
                *path = arena_printf(arena, "/%u" STR_FMT, i, STR_ARG(*path));
                return true;
            }
        if (a->count != b->count)
            *path = arena_printf(arena, "/%u", MIN(a->count, b->count));
        return a->count != b->count;
    }
    if (a->kind != JSON_OBJECT)
        return !scalars_equal(a, b);
    for (uint32_t i = 0; i < a->count; i++) {
        struct str name = a->members[i].name;
        const struct json *other = json_get(b, name);
        if (other && !difference_find(a->members[i].value, other, arena, path))
            continue;
        *path = pointer_join(name, other ? *path : STR(""), arena);
        return true;
    }
    for (uint32_t i = 0; i < b->count; i++)
        if (!json_get(a, b->members[i].name)) {
            *path = pointer_join(b->members[i].name, STR(""), arena);
            return true;
        }
    return false;
}

struct str json_first_difference(const struct json *a, const struct json *b, struct arena *arena)
{
    struct str path;
    return difference_find(a, b, arena, &path) ? path : STR_NONE;
}

bool json_equal(const struct json *a, const struct json *b)
{
    struct arena scratch = {0};
    bool equal = !json_first_difference(a, b, &scratch).ptr;
    arena_free(&scratch);
    return equal;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static size_t spaces_skip(struct str text, size_t at)
{
    while (at < text.len && is_space(text.ptr[at]))
        at++;
    return at;
}

/* Behind the string that begins at `at`. */
static size_t string_skip(struct str text, size_t at)
{
    for (at++; at < text.len && text.ptr[at] != '"'; at++)
        at += text.ptr[at] == '\\';
    return MIN(at + 1, text.len);
}

/* Behind the value that begins at `at`: at the comma or bracket that follows it. */
static size_t value_skip(struct str text, size_t at)
{
    uint32_t depth = 0;
    while (at < text.len) {
        char c = text.ptr[at];
        if (c == '"') {
            at = string_skip(text, at);
            continue;
        }
        if (!depth && (c == ',' || c == ']' || c == '}'))
            break;
        depth += c == '[' || c == '{';
        depth -= c == ']' || c == '}';
        at++;
    }
    return at;
}

bool json_list_walk(struct str text, size_t *at, struct str *out)
{
    size_t start = spaces_skip(text, *at);
    if (start >= text.len || text.ptr[start] != (*at ? ',' : '['))
        return false;
    start = spaces_skip(text, start + 1);
    if (start >= text.len || text.ptr[start] == ']')
        return false;
    size_t end = value_skip(text, start);
    *at = end;
    while (end > start && is_space(text.ptr[end - 1]))
        end--;
    *out = (struct str){text.ptr + start, end - start};
    return true;
}
