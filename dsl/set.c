#include "dsl/set.h"

#include "dsl/fit.h"

struct set {
    const struct dsl_member *members;
    size_t count;
    const struct plan *const *known;
    size_t known_count;
    struct arena scratch;
};

/* Members first, then what was known before. */
static const struct plan *plan_at(const struct set *set, size_t i)
{
    return i < set->count ? set->members[i].plan : set->known[i - set->count];
}

static size_t plans_total(const struct set *set)
{
    return set->count + set->known_count;
}

/* SIZE_MAX: there is none. */
static size_t plan_find(const struct set *set, const char *workflow)
{
    for (size_t i = 0; i < plans_total(set); i++)
        if (plan_at(set, i) && strcmp(plan_at(set, i)->workflow, workflow) == 0)
            return i;
    return SIZE_MAX;
}

/* Where NAME of the step's `child: NAME` stands; the whole file if it cannot be told. */
static struct place_of_child {
    uint32_t line, column, span;
} child_place(const struct plan *plan, const struct plan_step *step)
{
    const char *name = step->action.child.workflow;
    struct place_of_child place = {step->action.line, 1, 1};
    struct str rest = plan->source;
    for (uint32_t line = 1; line < place.line; line++) {
        const char *end = memchr(rest.ptr, '\n', rest.len);
        if (!end)
            return (struct place_of_child){0, 0, 1};
        rest.len -= (size_t)(end + 1 - rest.ptr);
        rest.ptr = end + 1;
    }
    const char *end = memchr(rest.ptr, '\n', rest.len);
    struct str text = {rest.ptr, end ? (size_t)(end - rest.ptr) : rest.len};
    const char *key = memmem(text.ptr, text.len, "child", 5);
    const char *at =
        key ? memmem(key + 5, text.len - (size_t)(key + 5 - text.ptr), name, strlen(name)) : NULL;
    for (const char *p = text.ptr; at && p < at; p++)
        place.column += ((unsigned char)*p & 0xC0) != 0x80;
    if (at)
        place.span = (uint32_t)strlen(name);
    return place;
}

static struct diag *PRINTF_LIKE(5, 6)
    report(const struct dsl_member *member, const struct plan_step *step,
           enum diag_severity severity, const char *code, const char *fmt, ...)
{
    struct place_of_child place = child_place(member->plan, step);
    struct buf text = {0};
    va_list args;
    va_start(args, fmt);
    buf_vprintf(&text, fmt, args);
    va_end(args);
    struct diag *diag = diag_add(member->diags, severity, code, place.line, place.column,
                                 place.span, STR_FMT, STR_ARG(buf_str(&text)));
    buf_free(&text);
    return diag;
}

static void unknown_report(struct set *set, const struct dsl_member *member,
                           const struct plan_step *step)
{
    size_t total = plans_total(set), count = 0;
    const char **names = (const char **)arena_alloc_array(&set->scratch, total, sizeof(*names));
    struct diag *diag = report(member, step, DIAG_WARNING, "W315", "no workflow `%s` is known here",
                               step->action.child.workflow);
    for (size_t i = 0; i < total; i++)
        if (plan_at(set, i))
            names[count++] = plan_at(set, i)->workflow;
    const char *nearest = diag_nearest(str_z(step->action.child.workflow), names, count);
    if (nearest)
        diag_help(member->diags, diag, "a workflow with a similar name exists: `%s`", nearest);
    else
        diag_help(member->diags, diag, "until it is applied the step is refused");
}

static void input_check(struct set *set, const struct dsl_member *member,
                        const struct plan_step *step, const struct plan *child)
{
    struct schema_errors errors;
    if (template_fits(step->action.child.input, child->input, &set->scratch, &errors))
        return;
    for (uint32_t i = 0; i < errors.count; i++)
        report(member, step, DIAG_ERROR, "E129",
               "the input of `%s` does not fit: " STR_FMT " " STR_FMT, child->workflow,
               STR_ARG(errors.list[i].pointer), STR_ARG(errors.list[i].message));
}

/* --- children that start each other --- */

/* Nothing of the workflow's own keeps the child from being started. */
static bool starts_always(const struct plan_step *step)
{
    return step->action.kind == ACTION_CHILD && !step->condition && !step->for_each;
}

/* The plans from `from` to `target`, by steps that start always; `via[i]` is the one before i. */
static bool path_find(struct set *set, size_t from, size_t target, size_t *via)
{
    size_t total = plans_total(set), head = 0, tail = 0;
    size_t *queue = arena_array(&set->scratch, size_t, total);
    for (size_t i = 0; i < total; i++)
        via[i] = SIZE_MAX;
    via[from] = from;
    queue[tail++] = from;
    while (head < tail) {
        size_t at = queue[head++];
        const struct plan *plan = plan_at(set, at);
        if (at == target)
            return true;
        for (uint16_t s = 0; plan && s < plan->steps_count; s++) {
            if (!starts_always(&plan->steps[s]))
                continue;
            size_t next = plan_find(set, plan->steps[s].action.child.workflow);
            if (next == SIZE_MAX || via[next] != SIZE_MAX)
                continue;
            via[next] = at;
            queue[tail++] = next;
        }
    }
    return false;
}

static void cycle_check(struct set *set, size_t index, const struct plan_step *step, size_t child)
{
    const struct dsl_member *member = &set->members[index];
    size_t *via = arena_array(&set->scratch, size_t, plans_total(set));
    struct buf way = {0};
    if (!starts_always(step) || !path_find(set, child, index, via))
        return;
    size_t *path = arena_array(&set->scratch, size_t, plans_total(set) + 1), count = 0;
    for (size_t at = index; at != child; at = via[at])
        path[count++] = via[at];
    for (size_t i = count; i-- > 0;)
        buf_printf(&way, " starts `%s`, which", plan_at(set, path[i])->workflow);
    struct diag *diag =
        report(member, step, DIAG_ERROR, "E307", "`%s`" STR_FMT " starts `%s`: without end",
               member->plan->workflow, STR_ARG(buf_str(&way)), member->plan->workflow);
    diag_help(member->diags, diag, "say with `if` when it is enough");
    buf_free(&way);
}

void dsl_set_check(const struct dsl_member *members, size_t count, const struct plan *const *known,
                   size_t known_count)
{
    struct set set = {members, count, known, known_count, {0}};
    for (size_t i = 0; i < count; i++) {
        const struct plan *plan = members[i].plan;
        for (uint16_t s = 0; plan && s < plan->steps_count; s++) {
            const struct plan_step *step = &plan->steps[s];
            if (step->action.kind != ACTION_CHILD)
                continue;
            size_t child = plan_find(&set, step->action.child.workflow);
            if (child == SIZE_MAX) {
                unknown_report(&set, &members[i], step);
                continue;
            }
            input_check(&set, &members[i], step, plan_at(&set, child));
            cycle_check(&set, i, step, child);
        }
        if (plan)
            diags_sort(members[i].diags);
    }
    arena_free(&set.scratch);
}
