/*
 * compile_expr.c: the text of an expression to a tree of names and operators. Nothing is resolved
 * here; see check_expr.c. One syntax error ends an expression.
 */
#include "dsl/compiler.h"

#include <stdarg.h>
#include <stdio.h>

#include "engine/base/ascii.h"
#include "engine/base/decimal.h"

enum token_kind {
    TOKEN_END,
    TOKEN_NAME,
    TOKEN_NUMBER,
    TOKEN_STRING,
    TOKEN_OPERATOR, /* `text` tells which */
};

struct token {
    enum token_kind kind;
    size_t start, end; /* in the expression's text */
    struct str text;   /* as written; TOKEN_STRING: decoded */
};

struct parser {
    struct compiler *cx;
    const struct node *node;
    size_t base; /* of the expression in the node's text */
    struct str text;
    struct token now;
    size_t last_end; /* of the token before */
    unsigned nesting, nodes;
    bool failed;
};

static struct expr *expression_parse(struct parser *p);
static void token_next(struct parser *p);

static struct diag *PRINTF_LIKE(4, 5)
    fail(struct parser *p, size_t start, size_t end, const char *fmt, ...)
{
    char message[256];
    va_list args;
    if (p->failed)
        return NULL;
    va_start(args, fmt);
    vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);
    p->failed = true;
    p->now.kind = TOKEN_END;
    return cx_error(p->cx, "E201",
                    text_place(p->cx, p->node, p->base + start, p->base + MAX(end, start + 1)),
                    "%s", message);
}

static void PRINTF_LIKE(5, 6) fail_with_help(struct parser *p, size_t start, size_t end,
                                             const char *help, const char *fmt, ...)
{
    char message[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);
    struct diag *diag = fail(p, start, end, "%s", message);
    if (diag)
        diag_help(p->cx->diags, diag, "%s", help);
}

/* --- tokens --- */

static bool is_name_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char char_at(const struct parser *p, size_t at)
{
    return at < p->text.len ? p->text.ptr[at] : '\0';
}

static bool escape_decode(struct parser *p, size_t *at, struct buf *out)
{
    static const char names[] = "\\'\"`nrt?/", values[] = "\\'\"`\n\r\t?/";
    char c = char_at(p, *at);
    const char *name = c ? strchr(names, c) : NULL;
    if (name) {
        buf_add_char(out, values[name - names]);
        ++*at;
        return true;
    }
    if (c == 'u') { /* the JSON reader knows about surrogates */
        size_t len = char_at(p, *at + 5) == '\\' && char_at(p, *at + 6) == 'u' &&
                             strchr("dD", char_at(p, *at + 1)) && char_at(p, *at + 1)
                         ? 11
                         : 5;
        struct str quoted = arena_printf(p->cx->scratch, "\"\\%.*s\"",
                                         (int)MIN(len, p->text.len - *at), p->text.ptr + *at);
        const struct json *json;
        struct err err;
        if (json_parse(quoted, p->cx->scratch, &json, &err) == 0) {
            buf_add_str(out, json->text);
            *at += len;
            return true;
        }
    }
    fail(p, *at - 1, *at + 1, "unknown escape in a text");
    return false;
}

static void string_read(struct parser *p)
{
    struct buf text = {0};
    char quote = p->text.ptr[p->now.start];
    size_t at = p->now.start + 1;
    while (at < p->text.len && p->text.ptr[at] != quote) {
        if (p->text.ptr[at] != '\\') {
            buf_add_char(&text, p->text.ptr[at++]);
            continue;
        }
        at++;
        if (!escape_decode(p, &at, &text))
            break;
    }
    if (at >= p->text.len)
        fail(p, p->now.start, p->text.len, "the text is not closed: a quote is missing");
    p->now.text = arena_str(p->cx->arena, buf_str(&text));
    p->now.end = at + 1;
    buf_free(&text);
}

static void number_read(struct parser *p)
{
    size_t at = p->now.start;
    while (is_digit(char_at(p, at)) || (char_at(p, at) == '.' && is_digit(char_at(p, at + 1))))
        at++;
    p->now.end = at;
    p->now.text = (struct str){p->text.ptr + p->now.start, at - p->now.start};
    if (is_name_start(char_at(p, at)) || !decimal_is_number(p->now.text))
        fail_with_help(p, p->now.start, at + 1,
                       "numbers are written plainly: 5, 19.90; durations are duration('30s')",
                       "this is no number");
}

/* The bytes of the operator that begins with `c`, 0: there is none. */
static size_t operator_len(char c, char next)
{
    if (next == '=' && (c == '=' || c == '!' || c == '<' || c == '>'))
        return 2;
    if (next == c && (c == '&' || c == '|'))
        return 2;
    return c && strchr("<>!+-*?:()[],.", c) ? 1 : 0;
}

static void operator_read(struct parser *p)
{
    struct str rest = {p->text.ptr + p->now.start, p->text.len - p->now.start};
    size_t len = operator_len(rest.ptr[0], char_at(p, p->now.start + 1));
    if (len) {
        p->now.text = (struct str){rest.ptr, len};
        p->now.end = p->now.start + len;
        return;
    }
    size_t at = p->now.start;
    switch (rest.ptr[0]) {
    case '=': fail_with_help(p, at, at + 1, "write `==` to compare", "`=` is no operator"); break;
    case '/':
    case '%':
        fail_with_help(p, at, at + 1, "divide in a service; `x * 0.01` gives a hundredth",
                       "there is no division: its results would not be exact");
        break;
    case '&':
    case '|':
        fail_with_help(p, at, at + 1, "write `&&` and `||`", "`%c` is no operator", rest.ptr[0]);
        break;
    case '{':
    case '}':
        fail_with_help(p, at, at + 1,
                       rest.len > 1 && rest.ptr[1] == rest.ptr[0]
                           ? "the expression stands here without brackets: input.total > 100"
                           : "write the object as YAML, with a template in each of its values",
                       "there are no objects in expressions");
        break;
    case '$':
        fail_with_help(p, at, at + 1, "write the name alone: `input.x`, not `${input.x}`",
                       "`$` does not belong into an expression");
        break;
    default: fail(p, at, at + 1, "this character does not belong into an expression");
    }
}

static void token_next(struct parser *p)
{
    size_t at = p->now.end;
    if (p->failed)
        return;
    p->last_end = p->now.end;
    while (at < p->text.len && ascii_is_space(p->text.ptr[at]))
        at++;
    p->now = (struct token){.start = at, .end = at};
    char c = char_at(p, at);
    if (at >= p->text.len) {
        p->now.kind = TOKEN_END;
    } else if (is_name_start(c)) {
        while (is_name_start(char_at(p, p->now.end)) || is_digit(char_at(p, p->now.end)))
            p->now.end++;
        p->now.kind = TOKEN_NAME;
        p->now.text = (struct str){p->text.ptr + at, p->now.end - at};
    } else if (is_digit(c)) {
        p->now.kind = TOKEN_NUMBER;
        number_read(p);
    } else if (c == '\'' || c == '"') {
        p->now.kind = TOKEN_STRING;
        string_read(p);
    } else {
        p->now.kind = TOKEN_OPERATOR;
        operator_read(p);
    }
    if (p->failed)
        p->now.kind = TOKEN_END;
}

static bool at_operator(const struct parser *p, char c)
{
    return p->now.kind == TOKEN_OPERATOR && p->now.text.len == 1 && p->now.text.ptr[0] == c;
}

static bool take(struct parser *p, char c)
{
    if (!at_operator(p, c))
        return false;
    token_next(p);
    return true;
}

static void unexpected(struct parser *p, const char *wanted)
{
    if (p->now.kind == TOKEN_END)
        fail(p, p->text.len ? p->text.len - 1 : 0, p->text.len,
             "the expression ends too early: %s is missing", wanted);
    else
        fail(p, p->now.start, p->now.end, "expected %s here", wanted);
}

static void expect(struct parser *p, char c, const char *wanted)
{
    if (!take(p, c))
        unexpected(p, wanted);
}

/* --- the tree --- */

static struct expr *expr_new(struct parser *p, enum expr_op op, size_t start, size_t args)
{
    struct expr *expr = arena_new(p->cx->arena, struct expr);
    if (++p->nodes > EXPR_NODES_MAX)
        fail(p, 0, p->text.len, "the expression has more than %d parts", EXPR_NODES_MAX);
    expr->op = op;
    expr->start = expr->at = (uint32_t)start;
    expr->args_count = (uint16_t)args;
    expr->args = args ? arena_array(p->cx->arena, struct expr *, args) : NULL;
    return expr;
}

static struct expr *literal_new(struct parser *p, const struct json *value)
{
    struct expr *expr = expr_new(p, EXPR_LITERAL, p->now.start, 0);
    expr->literal = value;
    expr->end = (uint32_t)p->now.end;
    token_next(p);
    return expr;
}

static struct expr *binary_new(struct parser *p, enum expr_op op, struct expr *left, size_t at)
{
    struct expr *expr = expr_new(p, op, left->start, 2);
    expr->at = (uint32_t)at;
    expr->args[0] = left;
    return expr;
}

/* Items up to `close`, which is taken. */
static void list_parse(struct parser *p, char close, struct expr *expr, uint16_t first)
{
    struct expr *items[256];
    uint16_t count = first;
    for (uint16_t i = 0; i < first; i++)
        items[i] = expr->args[i];
    while (!p->failed && !at_operator(p, close)) {
        if (count == ARRAY_LEN(items)) {
            fail(p, p->now.start, p->now.end, "more than 256 items");
            break;
        }
        items[count++] = expression_parse(p);
        if (!take(p, ',') && !at_operator(p, close))
            unexpected(p, close == ')' ? "`,` or `)`" : "`,` or `]`");
    }
    expr->args = arena_array(p->cx->arena, struct expr *, count);
    memcpy(expr->args, items, count * sizeof(*items));
    expr->args_count = count;
    expr->end = (uint32_t)p->now.end;
    take(p, close);
}

static struct expr *name_parse(struct parser *p)
{
    struct token name = p->now;
    if (str_eq(name.text, STR("true")) || str_eq(name.text, STR("false")))
        return literal_new(p, json_bool(name.text.ptr[0] == 't'));
    if (str_eq(name.text, STR("null")))
        return literal_new(p, &json_null);
    token_next(p);
    struct expr *expr = expr_new(p, EXPR_NAME, name.start, 0);
    expr->name = name.text;
    expr->end = (uint32_t)name.end;
    if (str_eq(name.text, STR("omit")) && !at_operator(p, '(')) {
        expr->op = EXPR_OMIT;
    } else if (take(p, '(')) {
        expr->op = EXPR_CALL;
        list_parse(p, ')', expr, 0);
    }
    return expr;
}

static struct expr *primary_parse(struct parser *p)
{
    switch (p->now.kind) {
    case TOKEN_NUMBER: return literal_new(p, json_number(p->cx->arena, p->now.text));
    case TOKEN_STRING: return literal_new(p, json_string(p->cx->arena, p->now.text));
    case TOKEN_NAME: return name_parse(p);
    case TOKEN_OPERATOR:
    case TOKEN_END: break;
    }
    struct expr *expr;
    size_t start = p->now.start;
    if (take(p, '(')) {
        expr = expression_parse(p);
        expect(p, ')', "`)`");
        return expr;
    }
    expr = expr_new(p, EXPR_LIST, start, 0);
    if (take(p, '['))
        list_parse(p, ']', expr, 0);
    else
        unexpected(p, "a value");
    return expr;
}

/* After a `.`: a field, or a call on what stands before it. */
static struct expr *field_parse(struct parser *p, struct expr *of)
{
    struct token name = p->now;
    if (name.kind != TOKEN_NAME) {
        if (p->now.kind == TOKEN_NUMBER)
            fail_with_help(p, name.start, name.end, "items are written `list[0]`",
                           "expected the name of a field here");
        else
            unexpected(p, "the name of a field");
        return of;
    }
    token_next(p);
    struct expr *expr = expr_new(p, EXPR_SELECT, of->start, 1);
    expr->args[0] = of;
    expr->at = (uint32_t)name.start;
    expr->name = name.text;
    expr->end = (uint32_t)name.end;
    if (take(p, '(')) {
        expr->op = EXPR_CALL;
        list_parse(p, ')', expr, 1);
    }
    return expr;
}

static struct expr *index_parse(struct parser *p, struct expr *of)
{
    struct expr *expr = expr_new(p, EXPR_AT, of->start, 2);
    expr->at = (uint32_t)p->now.start;
    expr->args[0] = of;
    expr->args[1] = expression_parse(p);
    expr->end = (uint32_t)p->now.end;
    expect(p, ']', "`]`");
    const struct expr *at = expr->args[1];
    if (at->op == EXPR_LITERAL && at->literal->kind == JSON_STRING) { /* x['a'] is x.a */
        expr->op = EXPR_SELECT;
        expr->name = at->literal->text;
        expr->args_count = 1;
    }
    return expr;
}

static struct expr *member_parse(struct parser *p)
{
    struct expr *expr = primary_parse(p);
    while (!p->failed) {
        if (take(p, '.'))
            expr = field_parse(p, expr);
        else if (take(p, '['))
            expr = index_parse(p, expr);
        else
            break;
    }
    return expr;
}

static struct expr *unary_parse(struct parser *p)
{
    size_t start = p->now.start;
    enum expr_op op = take(p, '!') ? EXPR_NOT : take(p, '-') ? EXPR_NEGATE : EXPR_NONE;
    if (op == EXPR_NONE)
        return member_parse(p);
    struct expr *expr = expr_new(p, op, start, 1);
    if (++p->nesting > EXPR_NESTING_MAX)
        fail(p, start, start + 1, "the expression nests too deeply");
    expr->args[0] = p->failed ? expr : unary_parse(p);
    p->nesting--;
    expr->end = expr->args[0]->end;
    /* -5 is a number, not an operation: `-9223372036854775808` must be writable. */
    if (op == EXPR_NEGATE && expr->args[0]->op == EXPR_LITERAL &&
        expr->args[0]->literal->kind == JSON_NUMBER) {
        expr->op = EXPR_LITERAL;
        expr->literal =
            json_number(p->cx->arena, arena_printf(p->cx->arena, "-" STR_FMT,
                                                   STR_ARG(expr->args[0]->literal->text)));
        expr->args_count = 0;
    }
    return expr;
}

struct binary {
    const char *text;
    enum expr_op op;
    int level; /* the higher binds tighter */
};

static const struct binary binaries[] = {
    {"||", EXPR_OR, 1}, {"&&", EXPR_AND, 2}, {"==", EXPR_EQ, 3}, {"!=", EXPR_NE, 3},
    {"<=", EXPR_LE, 3}, {">=", EXPR_GE, 3},  {"<", EXPR_LT, 3},  {">", EXPR_GT, 3},
    {"in", EXPR_IN, 3}, {"+", EXPR_ADD, 4},  {"-", EXPR_SUB, 4}, {"*", EXPR_MUL, 5},
};

static const struct binary *at_binary(const struct parser *p)
{
    if (p->now.kind != TOKEN_OPERATOR && p->now.kind != TOKEN_NAME)
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(binaries); i++)
        if (binaries[i].text[0] == p->now.text.ptr[0] && str_eq_z(p->now.text, binaries[i].text))
            return &binaries[i];
    return NULL;
}

static struct expr *binary_parse(struct parser *p, int level)
{
    struct expr *left = unary_parse(p);
    const struct binary *binary;
    while (!p->failed && (binary = at_binary(p)) && binary->level >= level) {
        struct expr *expr = binary_new(p, binary->op, left, p->now.start);
        token_next(p);
        expr->args[1] = binary_parse(p, binary->level + 1);
        expr->end = expr->args[1]->end;
        left = expr;
    }
    return left;
}

static struct expr *expression_parse(struct parser *p)
{
    if (++p->nesting > EXPR_NESTING_MAX)
        fail(p, p->now.start, p->now.end, "the expression nests too deeply");
    struct expr *expr = binary_parse(p, 1);
    size_t at = p->now.start;
    if (take(p, '?')) {
        struct expr *condition = expr;
        expr = expr_new(p, EXPR_COND, condition->start, 3);
        expr->at = (uint32_t)at;
        expr->args[0] = condition;
        expr->args[1] = expression_parse(p);
        expect(p, ':', "`:`");
        expr->args[2] = expression_parse(p);
        expr->end = expr->args[2]->end;
    }
    p->nesting--;
    return expr;
}

static void trailing_report(struct parser *p)
{
    struct str word = p->now.text;
    size_t start = p->now.start, end = p->now.end;
    if (p->now.kind == TOKEN_NAME && (str_eq(word, STR("and")) || str_eq(word, STR("or")) ||
                                      str_eq(word, STR("not")) || str_eq(word, STR("is"))))
        fail_with_help(p, start, end, "write `&&`, `||`, `!` and `==`",
                       "`" STR_FMT "` is no operator", STR_ARG(word));
    else
        fail(p, start, end, "expected an operator or the end of the expression here");
}

struct expr *expr_parse(struct compiler *cx, const struct node *node, size_t from, size_t to)
{
    struct parser p = {
        .cx = cx,
        .node = node,
        .base = from,
        /* The tree's names and numbers point into this copy, which lives as long as the plan. */
        .text = arena_str(cx->arena, (struct str){node->text.ptr + from, to - from}),
    };
    token_next(&p);
    if (!p.failed && p.now.kind == TOKEN_END) {
        fail(&p, 0, p.text.len, "the expression is empty");
        return NULL;
    }
    struct expr *expr = expression_parse(&p);
    if (!p.failed && p.now.kind != TOKEN_END)
        trailing_report(&p);
    return p.failed ? NULL : expr;
}
