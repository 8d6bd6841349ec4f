/*
 * type.h: what is known of a value before there is one: the kinds that it can be of and, of objects
 * and lists, what declares their fields and items.
 *
 * A type is as wide as what is not known: the answer of a service can be anything. It borrows from
 * the plans that it speaks of and from the arena that it was made in.
 */
#ifndef DSL_TYPE_H
#define DSL_TYPE_H

#include "dsl/compiler.h"

/* Of one question: conditions, children and recursive schemas multiply. Past it nothing is known.
 */
#define TYPE_VISITS_MAX 20000

struct type {
    unsigned kinds;              /* enum kind_bits */
    const struct schema *schema; /* of its fields and items; NULL: not declared */
    const struct shape *shape;   /* of its fields, for built-in objects */
    const struct type *item;     /* of a list; NULL: see schema, else any */
    /* An object that a template of another workflow, or of this one, makes; NULL: see the others.
     * `maker` says what its expressions read. */
    const struct template *made;
    const struct plan *maker;
    uint16_t maker_step; /* the template belongs to this step; PLAN_STEP_NONE: to none */
};

/* Where types are looked for. */
struct type_source {
    const struct workflows *known; /* of children; NULL: none */
    struct arena *arena;
    unsigned visits;           /* so far; starts as 0 */
    unsigned depth, templates; /* inside each other; start as 0 */
};

enum field_answer {
    FIELD_UNKNOWN, /* there is no such field: a mistake */
    FIELD_OPEN,    /* nothing is said of it */
    FIELD_FOUND,
};

extern const struct type type_any;

struct type type_of(unsigned kinds);
struct type type_of_schema(const struct schema *schema);
struct type type_of_list(struct type item, struct arena *arena);
/* What either of them is. */
struct type type_join(struct type a, struct type b);
/* Of the items of a list. */
struct type type_item(struct type list);
/* As a value of JSON, to which times and durations turn: texts. */
struct type type_as_json(struct type type);
unsigned json_kind_bit(const struct json *value);
/* "text or null", in `arena`. */
const char *kinds_name(unsigned kinds, struct arena *arena);

/* The field of an object; `*out` is its type if FIELD_FOUND, else any. */
enum field_answer type_field(struct type_source *from, struct type of, struct str name,
                             struct type *out);
/* The names of the fields that are declared, at most `max`, for `diag_nearest`. */
size_t type_names(struct type of, const char **names, size_t max, struct arena *arena);

/* --- derive.c: of what is compiled already --- */

/* What the template of a plan renders to; `step` is the one that it belongs to, for `item`. The
 * plan's steps and input must be compiled. */
struct type type_of_template(struct type_source *from, const struct plan *plan, uint16_t step,
                             const struct template *template);
/* steps.ID.output, seen from `reader`, which may be the step itself or PLAN_STEP_NONE. */
struct type type_of_output(struct type_source *from, const struct plan *plan, uint16_t step,
                           uint16_t reader);
/* The output of a workflow that is run as a child. */
struct type type_of_child(struct type_source *from, const char *workflow);

#endif
