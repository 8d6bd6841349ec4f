/*
 * compiler.h: what the files of the compiler share. Only dsl/compile*.c, dsl/check*.c and
 * dsl/lint.c include it.
 *
 * Order of work: the YAML tree (doc.h); the input schema, services and the steps' ids and needs;
 * then everything that holds expressions, which need those; then the saga rules (lint.h). Each
 * part reports what is wrong and goes on with something harmless, so that an author sees all
 * mistakes at once. A plan is given out only if there was no error.
 */
#ifndef DSL_COMPILER_H
#define DSL_COMPILER_H

#include "dsl/doc.h"
#include "dsl/dsl.h"
#include "dsl/expr_tree.h"
#include "dsl/jsonschema_tree.h"
#include "dsl/schema.h"
#include "engine/base/zone.h"

/* What an expression may look at, by the place where it stands. */
enum expr_root {
    ROOT_INPUT = 1,
    ROOT_STEPS = 2,
    ROOT_RUN = 4,
    ROOT_KEY = 8,
    ROOT_RESPONSE = 16,
    ROOT_ENV = 32,
    ROOT_SECRETS = 64,
    ROOT_NOW = 128,
    ROOT_ITEM = 256, /* and `index` */
    ROOT_TICK = 512,
    ROOT_ANSWER = 1024,
};

enum visible_steps {
    STEPS_BEFORE, /* those that `step` needs, directly or not */
    STEPS_BEFORE_AND_OWN,
    STEPS_ALL,
};

/* The fields of a built-in object; the last one has no name. */
struct shape {
    const char *name;
    unsigned kinds;
    const struct shape *fields; /* NULL: any */
};

struct expr_rules {
    const char *where; /* for messages: "`if`" */
    unsigned roots;
    uint16_t step; /* PLAN_STEP_NONE: of no step */
    enum visible_steps steps;
    const struct shape *response; /* NULL: any */
    bool omit;                    /* the whole value may be left out */
    unsigned kinds;               /* what a value that is one hole may be; 0: anything */
    bool guarded; /* the step has an `if` of its own: it may know what was skipped */
};

struct type; /* check_expr.c: what is known of a value */

/* What is known of a step besides its plan, in file order. */
struct step_source {
    const struct node *node; /* the step's map */
    const struct node *id;
    uint64_t *after;         /* bit i: the step runs after step i */
    uint64_t *mentions;      /* bit i: one of its expressions reads step i */
    uint16_t pivot_before;   /* lint.c: every run has passed it; PLAN_STEP_NONE: there is none */
    bool list_of_answer;     /* of a loop: `for_each` reads what a step answered */
    bool broken;             /* a key is wrong: what is missing may be there under that name */
    bool loop;               /* it has a `for_each` */
    const struct type *item; /* of a loop: what `item` is; NULL: not known yet */
    bool may_be_absent; /* it has an `if`, or a failure is no hindrance: it may have no output */
    /* Where its compensation reads steps.SELF.output, if it does. */
    bool uses_own_output;
    struct place own_output;
};

#define DURATION_US_MAX (3650 * DAY_US) /* so that no sum of durations and times overflows */
#define STEP_SLOTS 1024
_Static_assert(STEP_SLOTS > 2 * PLAN_STEPS_MAX, "the table of step ids never fills up");

struct compiler {
    struct doc *doc;
    struct diags *diags;
    const struct dsl_options *options; /* may be NULL */
    const struct workflows *known;     /* for the output of children; NULL: none */
    struct plan *plan;
    struct arena *arena;   /* the plan's */
    struct arena *scratch; /* of this compilation */
    struct plan_service *services;
    const struct node **service_nodes; /* NULL: from the options */
    struct plan_step *steps;
    struct step_source *sources;
    const char **step_ids;           /* for diag_nearest; those that cannot be used are "" */
    uint16_t step_slots[STEP_SLOTS]; /* hash table of indices plus 1 */
    int64_t timeout_us;              /* `defaults` */
    struct plan_retry retry, compensate_retry;
    enum on_failure on_failure;
    unsigned more_roots;  /* of the action that is being compiled, besides those of every action */
    unsigned fewer_roots; /* those of every action that it has not */
    const struct zone *zones[16]; /* read so far */
    size_t zones_count;
};

/* --- diagnostics --- */

struct diag *cx_error(struct compiler *cx, const char *code, struct place place, const char *fmt,
                      ...) PRINTF_LIKE(4, 5);
struct diag *cx_warning(struct compiler *cx, const char *code, struct place place, const char *fmt,
                        ...) PRINTF_LIKE(4, 5);
struct diag *node_error(struct compiler *cx, const char *code, const struct node *node,
                        const char *fmt, ...) PRINTF_LIKE(4, 5);
struct diag *node_warning(struct compiler *cx, const char *code, const struct node *node,
                          const char *fmt, ...) PRINTF_LIKE(4, 5);

/* Bytes [from, to) of a scalar's text, for a diagnostic. */
struct place text_place(const struct compiler *cx, const struct node *node, size_t from, size_t to);

/* --- compile_node.c: checked reading of single values; false: diagnosed --- */

/* `node` must be a map with keys of `group` only. */
bool keys_check(struct compiler *cx, const struct node *node, enum lang_group group);
bool node_is_map(struct compiler *cx, const struct node *node, const char *what);
bool node_is_list(struct compiler *cx, const struct node *node, const char *what);
bool read_text(struct compiler *cx, const struct node *node, const char *what, struct str *out);
bool read_boolean(struct compiler *cx, const struct node *node, const char *what, bool *out);
bool read_integer(struct compiler *cx, const struct node *node, const char *what, int64_t min,
                  int64_t max, int64_t *out);
bool read_duration(struct compiler *cx, const struct node *node, const char *what, int64_t min_us,
                   int64_t *out_us);
/* The index of the word in `names`, which start with the name of value 0 (not accepted). */
bool read_choice(struct compiler *cx, const struct node *node, enum lang_group group,
                 const char *key, const char *(*name)(int value), int *out);
bool name_is_valid(struct str text, bool dash);
const char *cx_strdup(struct compiler *cx, struct str text);

/* --- compile_expr.c, check_expr.c, compile_template.c --- */

/* An expression in the text of `node` from byte `from` to `to`, parsed only. NULL: diagnosed. */
struct expr *expr_parse(struct compiler *cx, const struct node *node, size_t from, size_t to);
/* Resolves names in place and checks types; returns the kinds it may have (enum kind_bits). */
unsigned expr_check(struct compiler *cx, struct expr *expr, const struct node *node, size_t from,
                    const struct expr_rules *rules);
const struct type *expr_type_check(struct compiler *cx, struct expr *expr, const struct node *node,
                                   size_t from, const struct expr_rules *rules);
unsigned type_kinds(const struct type *type);
/* Of the items of a list. */
const struct type *type_of_item(struct compiler *cx, const struct type *list);
/* A bare expression, or one in a whole-value hole, which can be of one of `kinds`; `wanted` names
 * them in messages. `type` may be NULL. NULL: diagnosed. */
const struct expr *expression_compile(struct compiler *cx, const struct node *node,
                                      const struct expr_rules *rules, unsigned kinds,
                                      const char *wanted, const struct type **type);
/* The same for `if`, `when`: true or false. */
const struct expr *condition_compile(struct compiler *cx, const struct node *node,
                                     const struct expr_rules *rules);
/* All three return something harmless when they diagnosed. */
const struct template *template_compile(struct compiler *cx, const struct node *node,
                                        const struct expr_rules *rules);
const struct template *text_template_compile(struct compiler *cx, const struct node *node,
                                             const struct expr_rules *rules);
/* Always a TEMPLATE_TEXT, of the node's text from byte `from`. */
const struct template *text_compile_from(struct compiler *cx, const struct node *node, size_t from,
                                         const struct expr_rules *rules);
const struct template *literal_template(struct compiler *cx, const struct json *value);
/* Bytes of the first hole, or false. */
bool template_hole_find(struct str text, size_t from, size_t *start, size_t *end);

enum kind_bits {
    KIND_NULL = 1,
    KIND_BOOL = 2,
    KIND_NUMBER = 4,
    KIND_TEXT = 8,
    KIND_LIST = 16,
    KIND_OBJECT = 32,
    KIND_TIME = 64,
    KIND_DURATION = 128,
    KIND_SECRET = 256,
    KIND_OMIT = 512,
};
#define KINDS_JSON (KIND_NULL | KIND_BOOL | KIND_NUMBER | KIND_TEXT | KIND_LIST | KIND_OBJECT)
#define KINDS_SCALAR (KIND_BOOL | KIND_NUMBER | KIND_TEXT | KIND_TIME | KIND_DURATION)
/* What can become a text: in a path, a header, an argument. */
#define KINDS_TEXT (KINDS_SCALAR | KIND_SECRET | KIND_OMIT)

const struct shape *response_shape(const struct plan_action *action);
extern const struct shape response_of_http[], response_of_sql[], response_of_exec[],
    response_of_worker[];

/* --- the parts of a workflow --- */

const struct schema *schema_compile(struct compiler *cx, const struct node *node);
/* The same for the workflow's `input`, which is an object. */
const struct schema *input_schema_compile(struct compiler *cx, const struct node *node);
void services_compile(struct compiler *cx, const struct node *node);
/* What is set in `by` replaces what `service` says; all of it is copied into `arena`. */
void service_override(struct arena *arena, struct plan_service *service,
                      const struct plan_service *by);
void idempotency_compile(struct compiler *cx, const struct node *node,
                         struct plan_idempotency *out);
uint16_t outcomes_compile(struct compiler *cx, const struct node *node,
                          const struct expr_rules *rules, struct plan_outcome_rule *out);
uint16_t named_compile(struct compiler *cx, const struct node *node, const char *what,
                       const struct expr_rules *rules, const struct plan_named **out);
void headers_check(struct compiler *cx, const struct node *node);
void limits_compile(struct compiler *cx, const struct node *limits, const struct node *breaker,
                    struct plan_limits *out);
/* "20%" into 20 */
void percent_read(struct compiler *cx, const struct node *node, const char *what, uint32_t *out);
void retry_compile(struct compiler *cx, const struct node *node, struct plan_retry *retry);
/* The service index of SERVICE in an address or `service:`; PLAN_SERVICE_NONE: diagnosed. */
uint16_t service_find(struct compiler *cx, const struct node *node, struct str name, size_t from);
/* `action` or `compensate` (with `compensation`) of step `index`: everything but retry. */
void action_compile(struct compiler *cx, const struct node *node, uint16_t index, bool compensation,
                    struct plan_action *out);
/* --- compile_time.c --- */
/* NULL: diagnosed at `place`. */
const struct zone *zone_load(struct compiler *cx, struct str name, struct place place);
/* A local time that stands in the file: its form, and what the zone's clocks make of it. */
void zone_literal_check(struct compiler *cx, const struct zone *zone, struct str text,
                        struct place place);
/* Sets the plan's schedule; its input schema is known. */
void schedule_compile(struct compiler *cx, const struct node *node);
/* The read of a `reconcile`: a `get`, `sql` or `exec`. False: diagnosed. */
bool read_compile(struct compiler *cx, const struct node *node, uint16_t index, bool compensation,
                  struct plan_action *out);
/* The request of a `dry_run`, which is one of `kind`. False: diagnosed. */
bool show_compile(struct compiler *cx, const struct node *node, const struct pair *kind,
                  uint16_t index, struct plan_action *out);
/* --- compile_approve.c: `approve` of the step, whose action is known --- */
void approve_compile(struct compiler *cx, uint16_t index);
/* --- compile_dry_run.c: `dry_run` of the step, whose action is known --- */
/* `hangs`: whether the step runs, or for what, depends on other steps. */
void dry_run_compile(struct compiler *cx, uint16_t index, bool hangs);
/* --- compile_reconcile.c --- */
/* `reconcile` of the step, or of its `compensate`, whose action is known. */
void reconcile_compile(struct compiler *cx, const struct pair *pair, uint16_t index,
                       bool compensation, struct plan_action *action);
void on_unknown_compile(struct compiler *cx, uint16_t index);
/* What the parts of an action may look at; `where` is for messages. */
struct expr_rules action_rules(const struct compiler *cx, uint16_t index, bool compensation,
                               const char *where);
/* --- compile_wait.c: the kinds that no service takes part in; `kind` is their key and value --- */
void sleep_compile(struct compiler *cx, const struct pair *kind, uint16_t index, bool compensation,
                   struct plan_action *out);
void until_compile(struct compiler *cx, const struct pair *kind, uint16_t index, bool compensation,
                   struct plan_action *out);
void wait_for_compile(struct compiler *cx, const struct node *node, const struct pair *kind,
                      uint16_t index, struct plan_action *out);
void worker_compile(struct compiler *cx, const struct node *node, const struct pair *kind,
                    uint16_t index, bool compensation, struct plan_action *out);
void child_compile(struct compiler *cx, const struct node *node, const struct pair *kind,
                   uint16_t index, bool compensation, struct plan_action *out);
/* A child is undone by its own compensations; a detached one never. */
void child_undo_fill(struct compiler *cx, struct plan_step *step);
/* The one action key of the map, or NULL. */
const struct pair *action_kind_find(const struct node *node);

uint16_t step_by_id(const struct compiler *cx, struct str id); /* PLAN_STEP_NONE: unknown */

static inline bool step_mentions(const struct compiler *cx, uint16_t step, uint16_t other)
{
    return cx->sources[step].mentions[other / 64] >> other % 64 & 1;
}

static inline bool step_mentions_any(const struct compiler *cx, uint16_t step)
{
    bool any = false;
    for (size_t i = 0; i <= (cx->plan->steps_count - 1u) / 64; i++)
        any = any || cx->sources[step].mentions[i];
    return any;
}

static inline bool step_is_after(const struct compiler *cx, uint16_t step, uint16_t other)
{
    return cx->sources[step].after[other / 64] >> other % 64 & 1;
}

#endif
