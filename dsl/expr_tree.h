/*
 * expr_tree.h: the compiled shape of expressions and templates, shared by their compiler
 * (floor 2, which builds it), their evaluation and answer_sample.c (which only read it). Nobody
 * else includes it.
 *
 * The parser leaves EXPR_NAME and EXPR_SELECT chains; the checker resolves names in place, so an
 * evaluated tree holds no EXPR_NAME. Trees live in the plan's arena.
 */
#ifndef DSL_EXPR_TREE_H
#define DSL_EXPR_TREE_H

#include "dsl/expr.h"

#define EXPR_NODES_MAX 1000    /* of one expression: bounds the recursion of every walk */
#define EXPR_NESTING_MAX 48    /* of brackets and calls: bounds the parser's recursion */
#define EXPR_LOOPS_MAX 4       /* all(), map() ... inside each other */
#define EXPR_STEPS_MAX 1000000 /* evaluations and values of one template: bounds its time */
#define EXPR_BYTES_MAX (16 * 1024 * 1024) /* text built for one template: bounds its memory */

enum expr_op {
    EXPR_NONE,
    EXPR_NAME, /* unresolved identifier: `name` */
    EXPR_LITERAL,
    EXPR_OMIT,
    /* roots */
    EXPR_INPUT,
    EXPR_ITEM,
    EXPR_INDEX,
    EXPR_TICK,
    EXPR_RESPONSE,
    EXPR_ANSWER,
    EXPR_KEY,
    EXPR_RUN_ID,
    EXPR_RUN_STARTED_AT,
    EXPR_STEP,   /* `step`, `field` */
    EXPR_ENV,    /* `name` */
    EXPR_SECRET, /* `name` */
    EXPR_VAR,    /* `slot` of a surrounding loop */
    /* operators */
    EXPR_SELECT, /* args[0].name */
    EXPR_AT,     /* args[0][args[1]] */
    EXPR_NOT,
    EXPR_NEGATE,
    EXPR_EQ,
    EXPR_NE,
    EXPR_LT,
    EXPR_LE,
    EXPR_GT,
    EXPR_GE,
    EXPR_AND,
    EXPR_OR,
    EXPR_ADD,
    EXPR_SUB,
    EXPR_MUL,
    EXPR_IN,
    EXPR_COND, /* args[0] ? args[1] : args[2] */
    EXPR_LIST,
    EXPR_CALL, /* `fn` (args...); a receiver is args[0] */
};

enum expr_field { EXPR_FIELD_OUTPUT, EXPR_FIELD_STATE, EXPR_FIELD_ERROR, EXPR_FIELD_KEY };

enum expr_form {
    EXPR_FORM_CALL,     /* size(x) */
    EXPR_FORM_RECEIVER, /* x.contains(y) */
    EXPR_FORM_LOOP,     /* x.map(name, e) */
};

/* id, name, form, arguments (with the receiver; of a loop: list and body), what it gives */
#define EXPR_FUNCTIONS(X)                                                                      \
    X(FN_HAS, "has", CALL, 1, "true if the path is there, also when it is null")               \
    X(FN_SIZE, "size", CALL, 1, "characters of a text, items of a list, members of an object") \
    X(FN_STRING, "string", CALL, 1, "the text of a number, boolean, time or duration")         \
    X(FN_INT, "int", CALL, 1, "the integer of a text, or of a number without its fraction")    \
    X(FN_ALL, "all", LOOP, 2, "true if the condition holds for every item")                    \
    X(FN_EXISTS, "exists", LOOP, 2, "true if the condition holds for one item")                \
    X(FN_MAP, "map", LOOP, 2, "the list of the expression's value for each item")              \
    X(FN_FILTER, "filter", LOOP, 2, "the items for which the condition holds")                 \
    X(FN_STARTS_WITH, "startsWith", RECEIVER, 2, "true if the text starts with another")       \
    X(FN_ENDS_WITH, "endsWith", RECEIVER, 2, "true if the text ends with another")             \
    X(FN_CONTAINS, "contains", RECEIVER, 2, "true if the text contains another")               \
    X(FN_LOWER_ASCII, "lowerAscii", RECEIVER, 1, "the text with A-Z in lower case")            \
    X(FN_DEFAULT, "default", CALL, 2, "the first, or the second where it is missing or null")  \
    X(FN_JSON, "json", CALL, 1, "the value as compact JSON text")                              \
    X(FN_SHA256, "sha256", CALL, 1, "64 hex digits of the text's SHA-256")                     \
    X(FN_TIMESTAMP, "timestamp", CALL, 1,                                                      \
      "the time of an RFC 3339 text; with a zone as second value, of a local time there")      \
    X(FN_DURATION, "duration", CALL, 1, "the duration of a text such as `1h30m`")              \
    X(FN_NOW, "now", CALL, 0, "when this step was first claimed; the same in every attempt")

enum expr_fn {
    FN_NONE,
#define X(id, name, form, args, help) id,
    EXPR_FUNCTIONS(X)
#undef X
        FN_COUNT
};

struct expr {
    enum expr_op op : 8;
    enum expr_fn fn : 8;
    enum expr_field field : 8;
    uint16_t kinds; /* enum kind_bits of dsl/compiler.h: what it can be; 0: not known */
    uint16_t step;  /* EXPR_STEP */
    uint16_t slot;  /* EXPR_VAR; EXPR_CALL of a loop: where the item goes */
    uint16_t args_count;
    struct str name; /* EXPR_NAME, EXPR_SELECT, EXPR_ENV, EXPR_SECRET; the step's id */
    union {
        const struct json *literal; /* EXPR_LITERAL */
        const struct zone *zone;    /* EXPR_CALL of timestamp: of a local time; NULL: none */
    };
    struct expr **args;
    /* In the expression's text, for the checker's diagnostics; `at` is the field or operator. */
    uint32_t start, end, at;
};

enum template_kind {
    TEMPLATE_LITERAL,
    TEMPLATE_EXPR, /* the whole scalar is one hole: keeps its JSON type */
    TEMPLATE_TEXT, /* text with holes in it */
    TEMPLATE_LIST,
    TEMPLATE_OBJECT,
};

struct template_part {
    struct str text;         /* before the hole */
    const struct expr *expr; /* NULL: the end */
};

struct template_member {
    struct str name; /* TEMPLATE_OBJECT */
    const struct template *value;
};

struct template
{
    enum template_kind kind;
    bool is_path; /* a URL path: no hole may make an empty or a dot segment */
    uint32_t count;
    union {
        const struct json *literal;
        const struct expr *expr;
        const struct template_part *parts;
        const struct template_member *members;
    };
};

#endif
