#include "dsl/plan_diff.h"

#include "dsl/doc.h"
#include "dsl/dsl.h"

struct side {
    const struct plan *plan;
    const struct json *root; /* the file as JSON */
};

struct differ {
    struct side before, after;
    struct arena *arena;
    struct plan_changes *out;
};

const char *plan_part_name(enum plan_part part)
{
    static const char *const names[] = {"none",
#define X(id, name) name,
                                        PLAN_PARTS(X)
#undef X
    };
    ASSERT((size_t)part < ARRAY_LEN(names));
    return names[part];
}

/* --- the list ---------------------------------------------------------------------------- */

static struct plan_change *change_add(struct differ *d, enum plan_part part, struct str name,
                                      struct str key)
{
    if (d->out->count == d->out->capacity) {
        uint32_t capacity = d->out->capacity ? 2 * d->out->capacity : 32;
        struct plan_change *list = arena_array(d->arena, struct plan_change, capacity);
        if (d->out->count)
            memcpy(list, d->out->list, d->out->count * sizeof(*list));
        d->out->list = list;
        d->out->capacity = capacity;
    }
    struct plan_change *change = &d->out->list[d->out->count++];
    *change = (struct plan_change){.part = part, .name = name, .key = key};
    return change;
}

static struct str value_text(struct differ *d, const struct json *value)
{
    if (!value)
        return STR_NONE;
    return value->kind == JSON_STRING ? value->text : json_text(value, d->arena);
}

static struct str key_join(struct differ *d, struct str path, struct str name)
{
    return path.len ? arena_printf(d->arena, STR_FMT "." STR_FMT, STR_ARG(path), STR_ARG(name))
                    : name;
}

/* --- what is written --------------------------------------------------------------------- */

static bool is_left_out(enum plan_part part, struct str path, struct str name)
{
    if (path.len)
        return false;
    if (part == PLAN_PART_STEP)
        return str_eq(name, STR("id"));
    return part == PLAN_PART_WORKFLOW &&
           (str_starts(name, STR("x-")) || str_eq(name, STR("tests")) ||
            str_eq(name, STR("steps")) || str_eq(name, STR("services")) ||
            str_eq(name, STR("workflow")));
}

/* Goes down into maps that both have, so that a change is told by its own key. */
static void value_diff(struct differ *d, enum plan_part part, struct str name, struct str path,
                       const struct json *before, const struct json *after)
{
    if (before && after && json_equal(before, after))
        return;
    bool maps = before && after && before->kind == JSON_OBJECT && after->kind == JSON_OBJECT;
    if (!maps) {
        struct plan_change *change = change_add(d, part, name, path);
        change->before = value_text(d, before);
        change->after = value_text(d, after);
        return;
    }
    for (uint32_t i = 0; i < after->count; i++) {
        const struct json_member *member = &after->members[i];
        if (!is_left_out(part, path, member->name))
            value_diff(d, part, name, key_join(d, path, member->name),
                       json_get(before, member->name), member->value);
    }
    for (uint32_t i = 0; i < before->count; i++) {
        const struct json_member *member = &before->members[i];
        if (!json_get(after, member->name) && !is_left_out(part, path, member->name))
            value_diff(d, part, name, key_join(d, path, member->name), member->value, NULL);
    }
}

/* --- what follows ------------------------------------------------------------------------ */

static void word_diff(struct differ *d, struct str step, const char *key, struct str before,
                      struct str after)
{
    if (str_eq(before, after))
        return;
    for (uint32_t i = 0; i < d->out->count; i++) { /* told by what is written */
        const struct plan_change *told = &d->out->list[i];
        if (told->part == PLAN_PART_STEP && str_eq(told->name, step) &&
            (str_eq_z(told->key, key) ||
             (str_starts(told->key, str_z(key)) && told->key.ptr[strlen(key)] == '.')))
            return;
    }
    struct plan_change *change = change_add(d, PLAN_PART_STEP, step, str_z(key));
    change->before = before;
    change->after = after;
    change->follows = true;
}

static struct str retry_text(struct differ *d, const struct plan_action *action)
{
    const struct plan_retry *retry = &action->retry;
    if (action->kind == ACTION_NONE || action_kind_waits(action->kind))
        return STR("");
    return arena_printf(
        d->arena,
        "%u attempts, " STR_FMT " x %u.%u up to " STR_FMT ", jitter %u%%, budget " STR_FMT,
        retry->attempts, STR_ARG(duration_format(retry->delay_us, d->arena)),
        retry->factor_milli / 1000, retry->factor_milli % 1000 / 100,
        STR_ARG(duration_format(retry->max_delay_us, d->arena)), retry->jitter_percent,
        STR_ARG(duration_format(retry->budget_us, d->arena)));
}

static struct str timeout_text(struct differ *d, const struct plan_action *action)
{
    return action->timeout_us ? duration_format(action->timeout_us, d->arena) : STR("");
}

static struct str needs_text(struct differ *d, const struct plan *plan,
                             const struct plan_step *step)
{
    struct buf out = {0};
    for (uint16_t i = 0; i < step->needs_count; i++)
        buf_printf(&out, "%s%s", i ? ", " : "", plan->steps[step->needs[i]].id);
    struct str text = arena_str(d->arena, out.len ? buf_str(&out) : STR("nothing"));
    buf_free(&out);
    return text;
}

static struct str honoured_text(struct differ *d, const struct plan_action *action)
{
    if (action->kind == ACTION_NONE || action->service == PLAN_SERVICE_NONE)
        return STR("");
    return action->idempotency.ttl_us ? duration_format(action->idempotency.ttl_us, d->arena)
                                      : STR("not honoured");
}

static struct str tier_text(const struct plan_action *action)
{
    return action->kind == ACTION_NONE ? STR("") : str_z(effect_tier_name(action->effect));
}

static void follows_diff(struct differ *d, const struct plan_step *before,
                         const struct plan_step *after)
{
    struct str id = str_z(after->id);
    word_diff(d, id, "effect", tier_text(&before->action), tier_text(&after->action));
    word_diff(d, id, "pivot", before->pivot ? STR("true") : STR("false"),
              after->pivot ? STR("true") : STR("false"));
    word_diff(d, id, "on_failure", str_z(on_failure_name(before->on_failure)),
              str_z(on_failure_name(after->on_failure)));
    word_diff(d, id, "needs", needs_text(d, d->before.plan, before),
              needs_text(d, d->after.plan, after));
    word_diff(d, id, "timeout", timeout_text(d, &before->action), timeout_text(d, &after->action));
    word_diff(d, id, "retry", retry_text(d, &before->action), retry_text(d, &after->action));
    word_diff(d, id, "keys", honoured_text(d, &before->action), honoured_text(d, &after->action));
    if (before->compensate.kind == ACTION_NONE || after->compensate.kind == ACTION_NONE)
        return;
    word_diff(d, id, "compensate.effect", tier_text(&before->compensate),
              tier_text(&after->compensate));
    word_diff(d, id, "compensate.timeout", timeout_text(d, &before->compensate),
              timeout_text(d, &after->compensate));
    word_diff(d, id, "compensate_retry", retry_text(d, &before->compensate),
              retry_text(d, &after->compensate));
}

/* --- parts ------------------------------------------------------------------------------- */

static void services_diff(struct differ *d)
{
    const struct json *before = json_get_z(d->before.root, "services");
    const struct json *after = json_get_z(d->after.root, "services");
    for (uint32_t i = 0; after && i < after->count; i++)
        value_diff(d, PLAN_PART_SERVICE, after->members[i].name, STR(""),
                   json_get(before, after->members[i].name), after->members[i].value);
    for (uint32_t i = 0; before && i < before->count; i++)
        if (!json_get(after, before->members[i].name))
            value_diff(d, PLAN_PART_SERVICE, before->members[i].name, STR(""),
                       before->members[i].value, NULL);
}

static const struct json *step_json(const struct side *side, uint16_t index)
{
    const struct json *steps = json_get_z(side->root, "steps");
    return steps && index < steps->count ? steps->items[index] : NULL;
}

static void steps_diff(struct differ *d)
{
    const struct plan *before = d->before.plan, *after = d->after.plan;
    for (uint16_t i = 0; i < after->steps_count; i++) {
        struct str id = str_z(after->steps[i].id);
        uint16_t old = plan_step_find(before, id);
        if (old == PLAN_STEP_NONE) {
            change_add(d, PLAN_PART_STEP, id, STR(""))->after =
                json_text(step_json(&d->after, i), d->arena);
            continue;
        }
        value_diff(d, PLAN_PART_STEP, id, STR(""), step_json(&d->before, old),
                   step_json(&d->after, i));
        follows_diff(d, &before->steps[old], &after->steps[i]);
    }
    for (uint16_t i = 0; i < before->steps_count; i++)
        if (plan_step_find(after, str_z(before->steps[i].id)) == PLAN_STEP_NONE)
            change_add(d, PLAN_PART_STEP, str_z(before->steps[i].id), STR(""))->before =
                json_text(step_json(&d->before, i), d->arena);
}

static const struct json *source_json(const struct plan *plan, struct arena *arena)
{
    struct doc doc;
    struct diags unheard;
    diags_init(&unheard, "", plan->source);
    doc_load(&doc, plan->source, DSL_SOURCE_BYTES_MAX, DSL_NODES_MAX, &unheard);
    const struct json *root = doc.root ? node_json(doc.root, arena) : json_object_new(arena, 0);
    doc_free(&doc);
    diags_free(&unheard);
    return root;
}

void plan_diff(const struct plan *before, const struct plan *after, struct arena *arena,
               struct plan_changes *out)
{
    struct differ d = {.before = {before, source_json(before, arena)},
                       .after = {after, source_json(after, arena)},
                       .arena = arena,
                       .out = out};
    *out = (struct plan_changes){0};
    value_diff(&d, PLAN_PART_WORKFLOW, STR(""), STR(""), d.before.root, d.after.root);
    services_diff(&d);
    steps_diff(&d);
}
