#include "dsl/plan.h"

#include <stdlib.h>

#define X(id, name) name,
static const char *const tier_names[] = {"none", EFFECT_TIERS(X)};
static const char *const kind_names[] = {"none", ACTION_KINDS(X)};
static const char *const outcome_names[] = {"none", OUTCOMES(X)};
static const char *const on_failure_names[] = {"none", ON_FAILURES(X)};
static const char *const on_timeout_names[] = {"none", ON_TIMEOUTS(X)};
static const char *const on_unknown_names[] = {"none", ON_UNKNOWNS(X)};
static const char *const method_names[] = {"none", HTTP_METHODS(X)};
#undef X

const char *effect_tier_name(enum effect_tier tier)
{
    ASSERT((size_t)tier < ARRAY_LEN(tier_names));
    return tier_names[tier];
}

const char *action_kind_name(enum action_kind kind)
{
    ASSERT((size_t)kind < ARRAY_LEN(kind_names));
    return kind_names[kind];
}

const char *outcome_name(enum outcome outcome)
{
    ASSERT((size_t)outcome < ARRAY_LEN(outcome_names));
    return outcome_names[outcome];
}

const char *on_failure_name(enum on_failure on_failure)
{
    ASSERT((size_t)on_failure < ARRAY_LEN(on_failure_names));
    return on_failure_names[on_failure];
}

const char *on_unknown_name(enum on_unknown on_unknown)
{
    ASSERT((size_t)on_unknown < ARRAY_LEN(on_unknown_names));
    return on_unknown_names[on_unknown];
}

const char *on_timeout_name(enum on_timeout on_timeout)
{
    ASSERT((size_t)on_timeout < ARRAY_LEN(on_timeout_names));
    return on_timeout_names[on_timeout];
}

const char *http_method_name(enum http_method method)
{
    ASSERT((size_t)method < ARRAY_LEN(method_names));
    return method_names[method];
}

/* The count is the one thing of a plan that changes after it was compiled. */
struct plan *plan_ref(const struct plan *plan)
{
    struct plan *counted = (struct plan *)plan;
    ASSERT(counted->refs > 0 && counted->refs < UINT32_MAX);
    counted->refs++;
    return counted;
}

void plan_unref(const struct plan *plan)
{
    struct plan *counted = (struct plan *)plan;
    if (!counted)
        return;
    ASSERT(counted->refs > 0);
    if (--counted->refs)
        return;
    arena_free(&counted->plan_arena);
    free(counted);
}

uint16_t plan_step_find(const struct plan *plan, struct str id)
{
    for (uint16_t i = 0; i < plan->steps_count; i++)
        if (str_eq_z(id, plan->steps[i].id))
            return i;
    return PLAN_STEP_NONE;
}
