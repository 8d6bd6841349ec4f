/*
 * doc.h: a YAML file as a tree of nodes that know where they stand.
 *
 * Stricter than YAML 1.2: no tags, merge keys, second document, duplicate or non-text keys, and
 * no plain scalar that YAML's core schema would type in a way that this language does not, so
 * that editors and engine never read a file differently. The rules and limits are listed in
 * dsl/README.md. Every breach is a diagnostic; all are collected.
 *
 * Aliases share the node of their anchor, so the tree is a graph without cycles: limits count it
 * as if it were written out. Positions are byte offsets into `source` (after a byte order mark).
 */
#ifndef DSL_DOC_H
#define DSL_DOC_H

#include "dsl/diag.h"

#define DOC_DEPTH_MAX JSON_DEPTH_MAX
#define DOC_ANCHORS_MAX 1000

enum node_kind {
    NODE_NONE, /* a value that was diagnosed already */
    NODE_NULL,
    NODE_BOOL,
    NODE_NUMBER,
    NODE_TEXT,
    NODE_LIST,
    NODE_MAP,
};

enum node_style { NODE_PLAIN, NODE_SINGLE, NODE_DOUBLE, NODE_LITERAL, NODE_FOLDED };

struct node;

struct pair {
    const struct node *key; /* NODE_TEXT */
    const struct node *value;
};

struct node {
    enum node_kind kind : 8;
    enum node_style style : 8; /* of scalars */
    bool boolean;
    bool flow;           /* written in [] or {} */
    uint32_t start, end; /* bytes; of a block list or map: its first key or dash */
    uint32_t count;      /* of items or pairs */
    uint32_t weight;     /* values of this subtree with aliases written out; keys are none */
    uint32_t height;     /* levels below, with aliases written out; 0 for scalars */
    struct str text;     /* of scalars: decoded; numbers as written */
    union {
        const struct node **items;
        struct pair *pairs;
    };
};

struct doc {
    struct arena arena; /* owns the nodes */
    struct str source;  /* borrowed; without a byte order mark */
    const struct node *root;
    uint32_t *lines; /* byte offset of each line's start */
    uint32_t lines_count;
    uint32_t *samples; /* byte offset of every 256th code point; NULL if all is ASCII */
    uint32_t samples_count;
    struct node **scalars; /* in source order, for the comment trap */
    uint32_t scalars_count, scalars_capacity;
};

struct place {
    uint32_t line, column, span; /* as in struct diag */
};

/* `root` is NULL after a syntax error, a limit, or an empty file (all of them diagnosed). */
void doc_load(struct doc *doc, struct str source, size_t bytes_max, uint32_t nodes_max,
              struct diags *diags);
void doc_free(struct doc *doc);

uint32_t doc_line(const struct doc *doc, uint32_t at); /* 1-based */
struct place doc_place(const struct doc *doc, uint32_t start, uint32_t end);
struct place doc_node_place(const struct doc *doc, const struct node *node);
/* The place of bytes [from, to) of a scalar's decoded text in the source. */
struct place doc_text_place(const struct doc *doc, const struct node *node, size_t from, size_t to);

/* NULL if `map` is no map or has no such key. */
const struct pair *node_find(const struct node *map, struct str key);

static inline const struct pair *node_get_pair(const struct node *map, const char *key)
{
    return node_find(map, str_z(key));
}

static inline const struct node *node_get(const struct node *map, const char *key)
{
    const struct pair *pair = node_get_pair(map, key);
    return pair ? pair->value : NULL;
}

/* The node as JSON; its texts are copied. */
const struct json *node_json(const struct node *node, struct arena *arena);
/* A plain `yes`, `off` and such, which are booleans to tools for YAML 1.1 and text here. */
bool node_is_old_boolean(const struct node *node);
const char *node_kind_name(const struct node *node); /* "text", "a list", ... */

#endif
