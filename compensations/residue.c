/*
 * residue.c: the honest list of what a run leaves behind.
 */
#include "compensations/unwind.h"
#include "engine/key.h"

static const char *residue_why(const struct instance *instance, const struct undo *undo)
{
    /* Whether it was done, or whether it was undone. */
    bool unknown =
        instance->execute.state == STEP_UNKNOWN || instance->compensate.state == STEP_UNKNOWN;
    switch (undo->status) {
    case UNDO_DECLARED: return "declared";
    case UNDO_BY_HAND: return "by_hand";
    case UNDO_MOVING: return "open";
    case UNDO_ASK: return "unknown";
    case UNDO_DUE: return unknown ? "unknown" : "not_undone";
    case UNDO_BLOCKED:
        return unknown || undo->reason == PARK_OUTCOME_UNKNOWN || undo->reason == PARK_KEY_CONFLICT
                   ? "unknown"
                   : "not_undone";
    case UNDO_NOTHING:
    case UNDO_UNDONE:
    case UNDO_NONE: return NULL;
    }
    return NULL;
}

/* Why the workflow leaves it, or what stands in the way. */
static const char *residue_reason(const struct plan_step *step, const struct undo *undo)
{
    if (undo->status == UNDO_BLOCKED)
        return park_reason_name(undo->reason);
    if (undo->status != UNDO_DECLARED)
        return "";
    if (step->compensate_none)
        return step->compensate_none;
    return step->on_failure == ON_FAILURE_CONTINUE ? "on_failure: continue" : "pivot: false";
}

static struct str residue_list(const struct run *run, bool unknowns_only, struct arena *arena)
{
    uint32_t count = 0;
    for (const struct instance *at = run_instance_next(run, NULL); at;
         at = run_instance_next(run, at))
        count++;
    struct json *list = json_list_new(arena, count);
    for (const struct instance *instance = run_instance_next(run, NULL); instance;
         instance = run_instance_next(run, instance)) {
        const struct plan_step *step = &run->plan->steps[instance->step];
        struct undo undo = unwind_status(run, instance);
        const char *why = residue_why(instance, &undo);
        if (!why || (unknowns_only && instance->execute.state != STEP_UNKNOWN))
            continue;
        struct str name = key_instance(step, instance->item, arena);
        struct json *entry = json_object_new(arena, 5);
        json_object_add_z(entry, "step", json_string(arena, name));
        json_object_add_z(
            entry, "key",
            json_string(arena, key_make(run->id, name, DIRECTION_EXECUTE,
                                        MAX(instance->execute.generation, (uint16_t)1), arena)));
        json_object_add_z(entry, "state",
                          json_string_z(arena, step_state_name(instance->execute.state)));
        json_object_add_z(entry, "why", json_string_z(arena, why));
        json_object_add_z(entry, "reason", json_string_z(arena, residue_reason(step, &undo)));
        json_list_add(list, entry);
    }
    return list->count ? json_text(list, arena) : STR_NONE;
}

struct str unwind_residue(const struct run *run, struct arena *arena)
{
    return residue_list(run, false, arena);
}

struct str unwind_unknowns(const struct run *run, struct arena *arena)
{
    return residue_list(run, true, arena);
}
