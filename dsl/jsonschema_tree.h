/*
 * jsonschema_tree.h: the compiled shape of a schema, shared by its compiler (floor 2), the check
 * at submit, and the type checker of expressions. Nobody else includes it. Lives in the plan.
 */
#ifndef DSL_JSONSCHEMA_TREE_H
#define DSL_JSONSCHEMA_TREE_H

#include "dsl/jsonschema.h"
#include "dsl/jsonschema_pattern.h"

enum schema_type { /* bits; an integer is a number too */
                   SCHEMA_NULL = 1,
                   SCHEMA_BOOLEAN = 2,
                   SCHEMA_INTEGER = 4,
                   SCHEMA_NUMBER = 8,
                   SCHEMA_STRING = 16,
                   SCHEMA_ARRAY = 32,
                   SCHEMA_OBJECT = 64,
                   SCHEMA_TYPES_ALL = 127,
};

#define SCHEMA_NESTING_MAX 200  /* of one check: $ref may recurse along with the value */
#define SCHEMA_WORK_MAX 2000000 /* schemas applied, and 64ths of comparisons, in one check */

struct schema_property {
    struct str name;
    const struct schema *schema;
};

struct schema_list {
    const struct schema **list;
    uint32_t count;
};

struct schema {
    bool never;     /* the schema `false` */
    unsigned types; /* enum schema_type bits; 0: any */
    bool closed;    /* additionalProperties: false */
    bool open;      /* additionalProperties: true or a schema was written */
    bool unique;
    bool normalize_amount; /* x-normalize: amount */
    const struct schema *ref;
    const struct json *const_value; /* NULL: none */
    const struct json *enumeration; /* a list, NULL: none */
    struct schema_property *properties;
    uint32_t properties_count;
    struct str *required;
    uint32_t required_count;
    const struct schema *additional; /* NULL: anything, or nothing if closed */
    const struct schema *items;
    int64_t items_min, items_max, length_min, length_max; /* -1: none */
    const struct pattern *pattern;
    struct str pattern_text;
    struct str minimum, maximum, above, below; /* numbers as written; absent: none */
    struct schema_list any_of, one_of, all_of;
    const struct schema *not_schema;
    unsigned kinds, mark; /* of the compiler: enum kind_bits that can fit, and its progress */
};

#endif
