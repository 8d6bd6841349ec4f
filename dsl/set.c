#include "dsl/set.h"

#include "dsl/expr_tree.h"
#include "dsl/fit.h"

struct set {
    const struct dsl_options *options;
    const struct dsl_member *members;
    size_t count;           /* of the members */
    struct workflows plans; /* the members' first, then what was known before */
    struct arena scratch;
};

static const struct plan *plan_at(const struct set *set, size_t i)
{
    return set->plans.list[i];
}

/* SIZE_MAX: there is none. */
static size_t plan_find(const struct set *set, const char *workflow)
{
    for (size_t i = 0; i < set->plans.count; i++)
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
    size_t total = set->plans.count, count = 0;
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

/* --- what goes into a child and what comes out --- */

static void misfits_report(const struct dsl_member *member, const struct plan_step *step,
                           const char *code, const char *what, const struct schema_errors *errors)
{
    for (uint32_t i = 0; i < errors->count; i++)
        report(member, step, DIAG_ERROR, code, "%s: " STR_FMT "%s" STR_FMT, what,
               STR_ARG(errors->list[i].pointer), errors->list[i].pointer.len ? " " : "it ",
               STR_ARG(errors->list[i].message));
}

static void input_check(struct set *set, const struct dsl_member *member,
                        const struct plan_step *step, const struct plan *child)
{
    const struct fit_reader reader = {&set->plans, member->plan, step->index};
    struct schema_errors errors;
    if (!template_fits(step->action.child.input, child->input, &reader, &set->scratch, &errors))
        misfits_report(
            member, step, "E129",
            arena_printf(&set->scratch, "the input of `%s` does not fit", child->workflow).ptr,
            &errors);
}

/* A step's own `output_schema` against what the child makes. */
static void output_check(struct set *set, const struct dsl_member *member,
                         const struct plan_step *step, const struct plan *child)
{
    static const struct template nothing = {.kind = TEMPLATE_LITERAL, .literal = &json_null};
    const struct fit_reader reader = {&set->plans, child, PLAN_STEP_NONE};
    struct schema_errors errors;
    if (step->action.child.detached)
        return;
    if (!template_fits(child->output ? child->output : &nothing, step->output_schema, &reader,
                       &set->scratch, &errors))
        misfits_report(member, step, "E130",
                       arena_printf(&set->scratch,
                                    "the output of `%s` does not fit the step's `output_schema`",
                                    child->workflow)
                           .ptr,
                       &errors);
}

static bool waits_for_known_child(const struct set *set, const struct plan *plan)
{
    for (uint16_t s = 0; s < plan->steps_count; s++) {
        const struct plan_action *action = &plan->steps[s].action;
        if (action->kind == ACTION_CHILD && !action->child.detached &&
            plan_find(set, action->child.workflow) != SIZE_MAX)
            return true;
    }
    return false;
}

/* The member's expressions once more, now that it is known what its children give. By itself it had
 * no errors: what is found is about them. */
static void reads_check(struct set *set, const struct dsl_member *member)
{
    struct diags found;
    if (!waits_for_known_child(set, member->plan))
        return;
    diags_init(&found, member->diags->file, member->plan->source);
    plan_unref(dsl_compile_among(member->plan->source, set->options, &set->plans, &found));
    for (uint32_t i = 0; i < found.count; i++) {
        const struct diag *diag = &found.list[i];
        if (diag->severity != DIAG_ERROR)
            continue;
        struct diag *copy = diag_add(member->diags, DIAG_ERROR, diag->code, diag->line,
                                     diag->column, diag->span, STR_FMT, STR_ARG(diag->message));
        if (diag->help.ptr)
            diag_help(member->diags, copy, STR_FMT, STR_ARG(diag->help));
    }
    diags_free(&found);
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
    size_t total = set->plans.count, head = 0, tail = 0;
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
    size_t *via = arena_array(&set->scratch, size_t, set->plans.count);
    struct buf way = {0};
    if (!starts_always(step) || !path_find(set, child, index, via))
        return;
    size_t *path = arena_array(&set->scratch, size_t, set->plans.count + 1), count = 0;
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

/* --- the set --- */

static void member_check(struct set *set, size_t index)
{
    const struct dsl_member *member = &set->members[index];
    const struct plan *plan = member->plan;
    for (uint16_t s = 0; s < plan->steps_count; s++) {
        const struct plan_step *step = &plan->steps[s];
        if (step->action.kind != ACTION_CHILD)
            continue;
        size_t child = plan_find(set, step->action.child.workflow);
        if (child == SIZE_MAX) {
            unknown_report(set, member, step);
            continue;
        }
        input_check(set, member, step, plan_at(set, child));
        output_check(set, member, step, plan_at(set, child));
        cycle_check(set, index, step, child);
    }
    reads_check(set, member);
    diags_sort(member->diags);
}

static struct set set_of(const struct dsl_options *options, const struct dsl_member *members,
                         size_t count, const struct workflows *known)
{
    struct set set = {.options = options, .members = members, .count = count};
    size_t known_count = known ? known->count : 0;
    const struct plan **list = (const struct plan **)arena_alloc_array(
        &set.scratch, count + known_count + 1, sizeof(*list));
    for (size_t i = 0; i < count; i++)
        list[i] = members[i].plan;
    for (size_t i = 0; i < known_count; i++)
        list[count + i] = known->list[i];
    set.plans = (struct workflows){list, count + known_count};
    return set;
}

void dsl_set_check(const struct dsl_options *options, const struct dsl_member *members,
                   size_t count, const struct workflows *known)
{
    struct set set = set_of(options, members, count, known);
    for (size_t i = 0; i < count; i++)
        if (members[i].plan)
            member_check(&set, i);
    arena_free(&set.scratch);
}

/* Which of them would be current is nobody's wish. */
void dsl_set_names_check(const struct dsl_member *members, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++) {
            const struct plan *plan = members[i].plan, *other = members[j].plan;
            if (!plan || !other || strcmp(plan->workflow, other->workflow) != 0)
                continue;
            diag_add(members[i].diags, DIAG_ERROR, "E132", 0, 0, 1,
                     "the workflow `%s` is defined by %s, too", plan->workflow,
                     members[j].diags->file);
            break;
        }
}

/* --- current parents of changed children --- */

static bool has_children(const struct plan *plan)
{
    for (uint16_t s = 0; s < plan->steps_count; s++)
        if (plan->steps[s].action.kind == ACTION_CHILD)
            return true;
    return false;
}

/* The member that the workflow at `from` runs, directly or through others; SIZE_MAX: none. */
static size_t member_reached(struct set *set, size_t from)
{
    if (!has_children(plan_at(set, from)))
        return SIZE_MAX;
    size_t total = set->plans.count, head = 0, tail = 0;
    size_t *queue = arena_array(&set->scratch, size_t, total);
    bool *seen = arena_array(&set->scratch, bool, total);
    seen[from] = true;
    queue[tail++] = from;
    while (head < tail) {
        const struct plan *plan = plan_at(set, queue[head++]);
        for (uint16_t s = 0; plan && s < plan->steps_count; s++) {
            const struct plan_action *action = &plan->steps[s].action;
            size_t next =
                action->kind == ACTION_CHILD ? plan_find(set, action->child.workflow) : SIZE_MAX;
            if (next < set->count)
                return next;
            if (next == SIZE_MAX || seen[next])
                continue;
            seen[next] = true;
            queue[tail++] = next;
        }
    }
    return SIZE_MAX;
}

/* What is wrong with one workflow among others. */
static void parent_diagnose(const struct dsl_options *options, const struct plan *parent,
                            const struct workflows *among, struct diags *out)
{
    const struct dsl_member member = {parent, out};
    diags_init(out, parent->workflow, parent->source);
    dsl_set_check(options, &member, 1, among);
}

/* "step `pay`" or "`output`": in which part of the parent the line stands. */
static struct str part_of_line(const struct plan *plan, uint32_t line, struct arena *arena)
{
    struct str rest = plan->source, key = STR("");
    const struct plan_step *step = NULL;
    for (uint32_t at = 1; at <= line && rest.len; at++) {
        const char *end = memchr(rest.ptr, '\n', rest.len);
        size_t len = end ? (size_t)(end - rest.ptr) : rest.len;
        const char *colon = memchr(rest.ptr, ':', len);
        if (colon && rest.ptr[0] >= 'a' && rest.ptr[0] <= 'z')
            key = (struct str){rest.ptr, (size_t)(colon - rest.ptr)};
        len += end ? 1 : 0;
        rest = (struct str){rest.ptr + len, rest.len - len};
    }
    for (uint16_t s = 0; s < plan->steps_count && plan->steps[s].line <= line; s++)
        step = &plan->steps[s];
    return step && (!key.len || str_eq(key, STR("steps")))
               ? arena_printf(arena, "step `%s`", step->id)
               : arena_printf(arena, "`" STR_FMT "`", STR_ARG(key));
}

static bool is_known(const struct workflows *known, const char *workflow)
{
    for (size_t i = 0; known && i < known->count; i++)
        if (known->list[i] && strcmp(known->list[i]->workflow, workflow) == 0)
            return true;
    return false;
}

static void break_report(struct set *set, const struct dsl_member *child, const struct plan *parent,
                         const struct diag *misfit, bool fitted)
{
    struct str part = part_of_line(parent, misfit->line, &set->scratch);
    struct diag *diag =
        diag_add(child->diags, fitted ? DIAG_ERROR : DIAG_WARNING, fitted ? "E131" : "W319", 0, 0,
                 1, "the current workflow `%s` %s: line %u, " STR_FMT ": " STR_FMT,
                 parent->workflow, fitted ? "would not fit any more" : "does not fit", misfit->line,
                 STR_ARG(part), STR_ARG(misfit->message));
    diag_help(child->diags, diag,
              fitted ? "its next run would fail there: apply both files together"
                     : "its runs fail there; apply it anew, too");
}

static void parent_check(struct set *set, size_t index, const struct workflows *known)
{
    const struct plan *parent = plan_at(set, index);
    size_t reached = member_reached(set, index);
    struct diags before, after;
    if (reached == SIZE_MAX)
        return;
    parent_diagnose(set->options, parent, known, &before);
    bool fitted = !before.errors && is_known(known, plan_at(set, reached)->workflow);
    parent_diagnose(set->options, parent, &set->plans, &after);
    for (uint32_t i = 0; i < after.count; i++) {
        const struct diag *misfit = &after.list[i];
        if (misfit->severity == DIAG_ERROR && strcmp(misfit->code, "E307") != 0)
            break_report(set, &set->members[reached], parent, misfit, fitted);
    }
    diags_sort(set->members[reached].diags);
    diags_free(&before);
    diags_free(&after);
}

void dsl_set_parents_check(const struct dsl_options *options, const struct dsl_member *members,
                           size_t count, const struct workflows *known)
{
    struct set set = set_of(options, members, count, known);
    for (size_t i = count; i < set.plans.count; i++)
        if (plan_at(&set, i) && plan_find(&set, plan_at(&set, i)->workflow) == i)
            parent_check(&set, i, known);
    arena_free(&set.scratch);
}
