#include "engine/dry_run.h"

#include "dsl/tests.h"
#include "engine/key.h"
#include "engine/render.h"
#include "engine/stub_world.h"

/* --- samples ----------------------------------------------------------------------------- */

/* Another value of the same kind that shares no text with the first. */
static const struct json *varied(const struct json *value, struct arena *arena)
{
    struct wall ignored;
    int64_t number;
    switch (value->kind) {
    case JSON_STRING:
        return json_string_z(arena,
                             wall_parse(value->text, &ignored) ? "2031-07-08T09:10:11Z" : "~");
    case JSON_NUMBER:
        return json_to_int(value, &number) ? json_int(arena, number + 987654321) : value;
    case JSON_LIST: {
        struct json *list = json_list_new(arena, value->count);
        for (uint32_t i = 0; i < value->count; i++)
            json_list_add(list, varied(value->items[i], arena));
        return list;
    }
    case JSON_OBJECT: {
        struct json *object = json_object_new(arena, value->count);
        for (uint32_t i = 0; i < value->count; i++)
            json_object_add(object, value->members[i].name, varied(value->members[i].value, arena));
        return object;
    }
    case JSON_NONE:
    case JSON_NULL:
    case JSON_BOOL: break;
    }
    return value;
}

static const struct str *outputs_vary(const struct plan *plan, const struct str *outputs,
                                      struct arena *arena)
{
    struct str *out = arena_array(arena, struct str, plan->steps_count);
    for (uint16_t i = 0; i < plan->steps_count; i++) {
        const struct json *value;
        struct err err;
        out[i] = outputs[i];
        if (json_parse(outputs[i], arena, &value, &err) == 0)
            out[i] = json_text(varied(value, arena), arena);
    }
    return out;
}

/* --- playing ----------------------------------------------------------------------------- */

struct play {
    const struct dry_run *order;
    const struct str *outputs;
    struct stub_result result;
    struct run *run; /* as it stood in the end */
    struct arena arena;
};

/* Every signal comes at once. */
static uint32_t signals_make(const struct plan *plan, const struct str *outputs,
                             struct test_verb *out)
{
    uint32_t count = 0;
    for (uint16_t i = 0; i < plan->steps_count; i++) {
        const struct plan_action *action = &plan->steps[i].action;
        bool repeated = action->kind != ACTION_WAIT_FOR;
        for (uint32_t j = 0; j < count && !repeated; j++)
            repeated = str_eq_z(out[j].name, action->wait_for.signal);
        if (!repeated)
            out[count++] = (struct test_verb){.verb = "signal",
                                              .step = STR(""),
                                              .reason = STR(""),
                                              .output = outputs[i],
                                              .name = str_z(action->wait_for.signal)};
    }
    return count;
}

static void play_begin(struct play *play, const struct stub_fault *fault)
{
    const struct dry_run *order = play->order;
    struct test_verb *signals =
        arena_array(&play->arena, struct test_verb, order->plan->steps_count);
    struct stub_config config = {
        .plan = order->plan,
        .run_id = order->run_id,
        .lock = order->lock,
        .input = order->input,
        .env = order->env,
        .starts_at = order->now,
        .outputs = play->outputs,
        .verbs = signals,
        .verbs_count = signals_make(order->plan, play->outputs, signals),
        .faults = fault,
        .faults_count = fault != NULL,
        .approves = true,
        .events_max = DRY_RUN_EVENTS_MAX,
    };
    uint32_t count;
    stub_play(&config, &play->result);
    const struct run_record *records =
        stub_row_load(&play->result.row, false, &play->arena, &count);
    play->run = run_new(order->plan, order->run_id);
    for (uint32_t i = 0; i < count; i++)
        run_apply(play->run, &records[i]);
}

static void play_end(struct play *play)
{
    run_free(play->run);
    stub_result_free(&play->result);
    arena_free(&play->arena);
}

/* The instances that something was done about, by claim; a loop itself does nothing. */
static struct instance **instances_of(struct play *play, uint32_t *count)
{
    uint32_t size = 0;
    for (struct instance *at = NULL; (at = run_instance_next(play->run, at));)
        size++;
    struct instance **list = arena_array(&play->arena, struct instance *, size);
    *count = 0;
    for (struct instance *at = NULL; (at = run_instance_next(play->run, at));) {
        uint32_t place = *count;
        if (at->execute.state == STEP_PENDING || instance_is_loop(play->run, at))
            continue;
        for (; place && list[place - 1]->execute.claim_no > at->execute.claim_no; place--)
            list[place] = list[place - 1];
        list[place] = at;
        ++*count;
    }
    return list;
}

/* The n-th instance of the step: names of items may come from answers. */
static struct instance *counterpart(struct instance *const *list, uint32_t count, uint16_t step,
                                    uint32_t n)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i]->step == step && n-- == 0)
            return list[i];
    return NULL;
}

/* --- what is sent ------------------------------------------------------------------------ */

static struct render render_of(const struct play *play, const struct instance *instance,
                               enum direction direction)
{
    const struct effect_state *side = instance_side((struct instance *)instance, direction);
    return (struct render){.run = play->run,
                           .instance = instance,
                           .direction = direction,
                           .generation = MAX(side->generation, (uint16_t)1),
                           .claim_no = side->claim_no,
                           .now = instance->execute.claimed_at,
                           .env = play->order->env};
}

/* NULL with `*why`: it cannot be rendered. */
static const struct json *request_of(struct play *play, const struct instance *instance,
                                     enum direction direction, struct arena *arena, struct str *why)
{
    const struct plan_action *action =
        step_action(&play->run->plan->steps[instance->step], direction);
    struct render render = render_of(play, instance, direction);
    struct rendered rendered;
    struct err err;
    if (action_kind_waits(action->kind)) {
        struct json *out = json_object_new(arena, 2);
        json_object_add_z(out, "kind", json_string_z(arena, action_kind_name(action->kind)));
        if (action->kind == ACTION_WAIT_FOR)
            json_object_add_z(out, "signal", json_string_z(arena, action->wait_for.signal));
        return out;
    }
    if (render_action(&render, arena, &rendered, &err) != 0) {
        *why = arena_str(arena, str_z(err.text));
        return NULL;
    }
    return render_show(&rendered, arena);
}

struct comparison {
    struct arena *arena;
    struct json *pointers;
};

static uint32_t size_of(const struct json *value)
{
    uint32_t size = 1;
    for (uint32_t i = 0; i < value->count; i++) {
        if (value->kind == JSON_LIST)
            size += size_of(value->items[i]);
        else if (value->kind == JSON_OBJECT)
            size += size_of(value->members[i].value);
    }
    return size;
}

/* "/charges/sample/refund" and "/charges/~/refund" have "/charges/" and "/refund" in common. */
static const struct json *text_marked(const struct json *a, const struct json *b,
                                      struct arena *arena)
{
    size_t most = MIN(a->text.len, b->text.len), head = 0, tail = 0;
    while (head < most && a->text.ptr[head] == b->text.ptr[head])
        head++;
    while (tail < most - head &&
           a->text.ptr[a->text.len - 1 - tail] == b->text.ptr[b->text.len - 1 - tail])
        tail++;
    return json_string(arena,
                       arena_printf(arena, "%.*s" DRY_RUN_ANSWER "%.*s", (int)head, a->text.ptr,
                                    (int)tail, a->text.ptr + a->text.len - tail));
}

/* `a` with what differs from `b` marked, and where that is. */
static const struct json *marked(struct comparison *comparison, const struct json *a,
                                 const struct json *b, struct str pointer)
{
    struct arena *arena = comparison->arena;
    if (b && a->kind == b->kind && a->kind == JSON_OBJECT) {
        struct json *out = json_object_new(arena, a->count);
        for (uint32_t i = 0; i < a->count; i++)
            json_object_add(out, a->members[i].name,
                            marked(comparison, a->members[i].value, json_get(b, a->members[i].name),
                                   arena_printf(arena, STR_FMT "/" STR_FMT, STR_ARG(pointer),
                                                STR_ARG(a->members[i].name))));
        return out;
    }
    if (b && a->kind == b->kind && a->kind == JSON_LIST) {
        struct json *out = json_list_new(arena, a->count);
        for (uint32_t i = 0; i < a->count; i++)
            json_list_add(out, marked(comparison, a->items[i], i < b->count ? b->items[i] : NULL,
                                      arena_printf(arena, STR_FMT "/%u", STR_ARG(pointer), i)));
        return out;
    }
    if (b && str_eq(json_text(a, arena), json_text(b, arena)))
        return a;
    json_list_add(comparison->pointers, json_string(arena, pointer));
    if (b && a->kind == JSON_STRING && b->kind == JSON_STRING)
        return text_marked(a, b, arena);
    return json_string_z(arena, DRY_RUN_ANSWER);
}

/* Adds `request`, as it is in the first play, and what it has `from_answers`, or `error`. */
static void compared_add(struct json *out, const struct json *a, const struct json *b,
                         struct str why, struct arena *arena)
{
    struct comparison comparison = {arena, json_list_new(arena, a ? size_of(a) : 0)};
    if (!a) {
        json_object_add_z(out, "request", &json_null);
        json_object_add_z(out, "error", json_string(arena, why));
        return;
    }
    json_object_add_z(out, "request", b ? marked(&comparison, a, b, STR("")) : a);
    /* Not known: with other answers the run would not get there. */
    json_object_add_z(out, "from_answers", b ? comparison.pointers : &json_null);
}

static void request_add(struct json *out, struct play plays[2], const struct instance *instance,
                        const struct instance *other, enum direction direction, struct arena *arena)
{
    struct str why = STR_NONE, ignored;
    const struct json *a = request_of(&plays[0], instance, direction, arena, &why);
    const struct json *b =
        other && a ? request_of(&plays[1], other, direction, arena, &ignored) : NULL;
    compared_add(out, a, b, why, arena);
}

/* --- what shows an effect ---------------------------------------------------------------- */

/* The step's `dry_run`; it goes to `shows` if no answer can change it. That two plays make the same
 * of it proves little: two samples of a boolean are alike. */
static const struct json *show_of(struct play plays[2], const struct instance *instance,
                                  const struct instance *other, bool runs, uint32_t place,
                                  struct dry_run_shows *shows, struct arena *arena)
{
    const struct plan_step *step = &plays[0].order->plan->steps[instance->step];
    struct json *out = json_object_new(arena, 3);
    struct render render = render_of(&plays[0], instance, DIRECTION_EXECUTE);
    struct rendered first, second;
    struct err err, ignored;
    int code = render_dry_run(&render, arena, &first, &err);
    bool compared = false, same = false;
    if (!code && other) {
        render = render_of(&plays[1], other, DIRECTION_EXECUTE);
        compared = render_dry_run(&render, arena, &second, &ignored) == 0;
        same = compared && request_same(&first.request, &second.request);
    }
    compared_add(out, code ? NULL : render_show(&first, arena),
                 compared ? render_show(&second, arena) : NULL,
                 code ? arena_str(arena, str_z(err.text)) : STR_NONE, arena);
    if (code)
        return out;
    if (step->dry_run_hangs || !runs || !same) {
        json_object_add_z(out, "not_sent",
                          json_string_z(arena, "it depends on what earlier steps answer"));
        return out;
    }
    struct dry_run_show *show = &shows->list[shows->count++];
    *show = (struct dry_run_show){.place = place, .step = first.instance};
    show->request = first.request;
    return out;
}

/* --- refusals ---------------------------------------------------------------------------- */

static const struct json *residue_of(const struct stub_result *result, struct arena *arena)
{
    const struct json *value;
    struct err err;
    struct str residue = result->row.now.residue;
    if (residue.len && json_parse(arena_str(arena, residue), arena, &value, &err) == 0)
        return value;
    return json_list_new(arena, 0);
}

/* {ends, reason?, undone, residue} when the step is refused for good. */
static const struct json *refusal_play(const struct play *plain, uint16_t step, struct arena *arena)
{
    struct stub_fault fault = {.kind = STUB_FAULT_ANSWER,
                               .step = step,
                               .first = 1,
                               .last = UINT32_MAX,
                               .answer = {.kind = TEST_ANSWER_REPLY,
                                          .after_us = -1,
                                          .done = TEST_DONE_NO,
                                          .status = 422,
                                          .exit = 1,
                                          .failed = true,
                                          .message = STR("refused"),
                                          .child_end = "refused"}};
    struct play play = {.order = plain->order, .outputs = plain->outputs};
    memcpy(fault.answer.sqlstate, "23514", 6);
    play_begin(&play, &fault);
    const struct stub_result *result = &play.result;
    struct json *out = json_object_new(arena, 4);
    struct json *undone = json_list_new(arena, result->calls_count);
    for (uint32_t i = 0; i < result->calls_count; i++)
        if (result->calls[i].direction == DIRECTION_COMPENSATE)
            json_list_add(
                undone,
                json_string(arena, key_instance(&plain->order->plan->steps[result->calls[i].step],
                                                result->calls[i].item, arena)));
    json_object_add_z(out, "ends", json_string_z(arena, run_state_name(result->row.now.state)));
    if (result->row.now.state == RUN_PARKED)
        json_object_add_z(out, "reason",
                          json_string_z(arena, park_reason_name(result->row.now.reason)));
    json_object_add_z(out, "undone", undone);
    json_object_add_z(out, "residue", residue_of(result, arena));
    play_end(&play);
    return out;
}

/* --- the plan ---------------------------------------------------------------------------- */

static const struct json *approval_show(const struct plan_step *step,
                                        const struct instance *instance, struct arena *arena)
{
    if (!instance->execute.approval)
        return &json_null;
    struct json *out = json_object_new(arena, 1);
    json_object_add_z(out, "by",
                      json_string_z(arena, step->approve->by == APPROVE_BY_ANY ? "any"
                                           : step->approve->by == APPROVE_BY_OTHER
                                               ? "other"
                                               : step->approve->group));
    return out;
}

static const struct json *step_show(struct play plays[2], const struct instance *instance,
                                    const struct instance *other, bool refusals, uint32_t place,
                                    struct dry_run_shows *shows, struct arena *arena)
{
    const struct plan_step *step = &plays[0].order->plan->steps[instance->step];
    bool skipped = instance->execute.state == STEP_SKIPPED;
    bool same = other && (other->execute.state == STEP_SKIPPED) == skipped;
    struct json *out = json_object_new(arena, 13);
    json_object_add_z(out, "step", json_string(arena, key_instance(step, instance->item, arena)));
    json_object_add_z(out, "effect", json_string_z(arena, effect_tier_name(step->action.effect)));
    json_object_add_z(out, "runs",
                      json_string_z(arena, !same     ? "depends on answers"
                                           : skipped ? "no"
                                                     : "yes"));
    json_object_add_z(out, "irreversible", json_bool(step->action.effect == EFFECT_IRREVERSIBLE));
    json_object_add_z(out, "pivot", json_bool(step->pivot));
    json_object_add_z(out, "approval", approval_show(step, instance, arena));
    if (skipped)
        return out;
    request_add(out, plays, instance, other, DIRECTION_EXECUTE, arena);
    if (step->compensate.kind != ACTION_NONE) {
        struct json *undo = json_object_new(arena, 3);
        request_add(undo, plays, instance, other, DIRECTION_COMPENSATE, arena);
        json_object_add_z(out, "compensation", undo);
    } else if (step->compensate_none) {
        json_object_add_z(out, "not_undone", json_string_z(arena, step->compensate_none));
    }
    if (step->dry_run)
        json_object_add_z(out, "dry_run",
                          show_of(plays, instance, other, same, place, shows, arena));
    if (refusals && !action_kind_waits(step->action.kind))
        json_object_add_z(out, "if_refused", refusal_play(&plays[0], instance->step, arena));
    return out;
}

static const struct json *plan_show(struct play plays[2], struct dry_run_shows *shows,
                                    struct arena *arena)
{
    const struct stub_result *result = &plays[0].result;
    const struct plan *plan = plays[0].order->plan;
    uint32_t counts[2];
    struct instance **lists[2] = {instances_of(&plays[0], &counts[0]),
                                  instances_of(&plays[1], &counts[1])};
    uint32_t *seen = arena_array(&plays[0].arena, uint32_t, plan->steps_count);
    bool refusals = (uint64_t)result->units * plan->steps_count <= DRY_RUN_REFUSALS_MAX;
    struct json *steps = json_list_new(arena, counts[0]);
    shows->list = arena_array(arena, struct dry_run_show, counts[0]);
    shows->count = 0;
    for (uint32_t i = 0; i < counts[0]; i++) {
        const struct instance *instance = lists[0][i];
        const struct instance *other =
            counterpart(lists[1], counts[1], instance->step, seen[instance->step]++);
        /* Of a loop the first item stands for all: the refusal of any stops it. */
        json_list_add(steps, step_show(plays, instance, other,
                                       refusals && seen[instance->step] == 1, i, shows, arena));
    }
    struct json *out = json_object_new(arena, 3);
    json_object_add_z(out, "ends", json_string_z(arena, run_state_name(result->row.now.state)));
    if (result->row.now.state == RUN_PARKED)
        json_object_add_z(out, "reason",
                          json_string_z(arena, park_reason_name(result->row.now.reason)));
    json_object_add_z(out, "steps", steps);
    return out;
}

int dry_run_make(const struct dry_run *order, struct arena *arena, const struct json **out,
                 struct dry_run_shows *shows, struct err *err)
{
    const struct str *outputs = dsl_sample_outputs(order->plan, arena);
    struct play plays[2] = {
        {.order = order, .outputs = outputs},
        {.order = order, .outputs = outputs_vary(order->plan, outputs, arena)},
    };
    play_begin(&plays[0], NULL);
    play_begin(&plays[1], NULL);
    int code = 0;
    if (!plays[0].result.at_rest)
        code = err_set(err, ERR_LIMIT, "the run is too large for a dry run: more than %u events",
                       DRY_RUN_EVENTS_MAX);
    else /* as text: what is shown borrows from the plays */
        code = json_parse(json_text(plan_show(plays, shows, arena), arena), arena, out, err);
    for (uint32_t i = 0; !code && i < shows->count; i++) {
        struct dry_run_show *show = &shows->list[i];
        struct request rendered = show->request;
        request_copy(&rendered, arena, &show->request);
        show->step = arena_str(arena, show->step);
    }
    play_end(&plays[0]);
    play_end(&plays[1]);
    return code;
}
