/*
 * compile.c: the workflow as a whole; see compiler.h for the order of work.
 */
#include "dsl/compiler.h"
#include "dsl/lint.h"

#include <stdlib.h>

#include "engine/base/ascii.h"

static const char *on_failure_word(int value)
{
    return value <= ON_FAILURE_REPAIR ? on_failure_name((enum on_failure)value) : "";
}

/* --- the head of the file --- */

static void name_compile(struct compiler *cx, const struct node *node)
{
    struct str name;
    cx->plan->workflow = "";
    if (!node || !read_text(cx, node, "`workflow`", &name))
        return;
    if (node->kind != NODE_TEXT || !name_is_valid(name, true)) {
        struct diag *diag = node_error(
            cx, "E106", node, "`" STR_FMT "` cannot be the name of a workflow", STR_ARG(name));
        diag_help(cx->diags, diag,
                  "it starts with a small letter and has only a-z, 0-9, `_` and `-`, at most 63");
        return;
    }
    cx->plan->workflow = name.ptr;
}

#define VERSION_BYTES_MAX 64

static void labels_compile(struct compiler *cx, const struct node *root)
{
    const struct node *node;
    struct str text;
    cx->plan->description = "";
    if ((node = node_get(root, "description")) && read_text(cx, node, "`description`", &text)) {
        cx->plan->description = text.ptr;
        if (memchr(text.ptr, '\n', text.len))
            node_error(cx, "E103", node, "`description` is one line");
    }
    if (!(node = node_get(root, "version")) || !read_text(cx, node, "`version`", &text))
        return;
    bool visible = text.len > 0 && text.len <= VERSION_BYTES_MAX;
    for (size_t i = 0; i < text.len; i++)
        visible = visible && text.ptr[i] > ' ' && text.ptr[i] < 0x7F;
    if (!visible)
        node_error(cx, "E106", node, "a version is 1 to %d visible ASCII characters",
                   VERSION_BYTES_MAX);
    cx->plan->version = text.ptr;
    cx->plan->version_is_label = true;
}

/* The fixed part of a run id: the id goes into keys, paths and views. */
static void run_id_check(struct compiler *cx, const struct node *node)
{
    size_t at = 0, start, end;
    bool holes = false;
    while (at < node->text.len) {
        bool more = template_hole_find(node->text, at, &start, &end);
        size_t stop = more ? start : node->text.len;
        for (; at < stop; at++) {
            char c = node->text.ptr[at];
            if (ascii_is_alpha(c) || ascii_is_digit(c) || (c && strchr("._-", c)))
                continue;
            cx_error(cx, "E106", text_place(cx, node, at, at + 1),
                     "a run id has only letters, digits, `.`, `_` and `-`");
            return;
        }
        holes = holes || more;
        at = more ? end + 2 : stop;
    }
    if (!holes) {
        struct diag *diag = node_warning(cx, "W205", node,
                                         "every submit would be the same run: nothing of the "
                                         "input is in `run_id`");
        diag_help(cx->diags, diag, "write `run_id: order-${{ input.order_id }}`");
    }
}

static void run_id_compile(struct compiler *cx, const struct node *node)
{
    const struct expr_rules rules = {
        .where = "`run_id`", .roots = ROOT_INPUT | ROOT_ENV, .step = PLAN_STEP_NONE};
    if (!node)
        return;
    cx->plan->run_id = text_template_compile(cx, node, &rules);
    if (node->kind == NODE_TEXT || node->kind == NODE_NUMBER)
        run_id_check(cx, node);
}

/* Of the input alone: whoever looks, and whenever, finds the same value. */
static void lock_compile(struct compiler *cx, const struct node *node)
{
    const struct expr_rules rules = {
        .where = "`lock`", .roots = ROOT_INPUT, .step = PLAN_STEP_NONE};
    if (!node)
        return;
    cx->plan->lock = text_template_compile(cx, node, &rules);
    if (cx->plan->lock->kind != TEMPLATE_LITERAL || node->kind != NODE_TEXT)
        return;
    bool fits = node->text.len > 0 && node->text.len <= PLAN_LOCK_BYTES_MAX;
    for (size_t i = 0; i < node->text.len; i++)
        fits = fits && (unsigned char)node->text.ptr[i] >= ' ' && node->text.ptr[i] != 0x7F;
    if (!fits)
        node_error(cx, "E106", node, "a lock is 1 to %d bytes without control characters",
                   PLAN_LOCK_BYTES_MAX);
}

static void defaults_compile(struct compiler *cx, const struct node *root)
{
    const struct node *defaults = node_get(root, "defaults"), *node;
    int value;
    cx->timeout_us = 30 * SECOND_US;
    cx->retry = (struct plan_retry){3, SECOND_US, 2000, MINUTE_US, 20, HOUR_US};
    cx->compensate_retry = (struct plan_retry){10, SECOND_US, 2000, 5 * MINUTE_US, 20, HOUR_US};
    cx->on_failure = ON_FAILURE_COMPENSATE;
    if ((node = node_get(root, "on_failure")) &&
        read_choice(cx, node, LANG_WORKFLOW, "on_failure", on_failure_word, &value))
        cx->on_failure = (enum on_failure)value;
    if (!defaults || !keys_check(cx, defaults, LANG_DEFAULTS))
        return;
    if ((node = node_get(defaults, "timeout")))
        read_duration(cx, node, "`timeout`", MS_US, &cx->timeout_us);
    if ((node = node_get(defaults, "retry")))
        retry_compile(cx, node, &cx->retry);
    if ((node = node_get(defaults, "compensate_retry")))
        retry_compile(cx, node, &cx->compensate_retry);
}

/* --- the order of the steps --- */

static bool is_expression_word(struct str id)
{
    static const char *const words[] = {"true", "false", "null", "in", "omit"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (str_eq_z(id, words[i]))
            return true;
    return false;
}

/* Ids are looked up for every reference, so they stand in a hash table. */
static uint32_t slot_of(const struct compiler *cx, struct str id)
{
    uint32_t slot = (uint32_t)str_hash(id) % STEP_SLOTS;
    while (cx->step_slots[slot] && !str_eq_z(id, cx->step_ids[cx->step_slots[slot] - 1]))
        slot = (slot + 1) % STEP_SLOTS;
    return slot;
}

static void step_id_add(struct compiler *cx, uint16_t index)
{
    cx->step_slots[slot_of(cx, str_z(cx->step_ids[index]))] = (uint16_t)(index + 1);
}

uint16_t step_by_id(const struct compiler *cx, struct str id)
{
    uint16_t found = cx->step_slots[slot_of(cx, id)];
    return found ? (uint16_t)(found - 1) : PLAN_STEP_NONE;
}

static void id_compile(struct compiler *cx, uint16_t index)
{
    struct step_source *source = &cx->sources[index];
    const struct node *node = node_get(source->node, "id");
    cx->step_ids[index] = "";
    cx->steps[index].id = "";
    if (!node)
        return;
    source->id = node;
    cx->steps[index].id = cx_strdup(cx, node->text);
    if (node->kind != NODE_TEXT || !name_is_valid(node->text, false)) {
        struct diag *diag = node_error(cx, "E106", node, "`" STR_FMT "` cannot be the id of a step",
                                       STR_ARG(node->text));
        diag_help(cx->diags, diag,
                  "it starts with a small letter and has only a-z, 0-9 and `_`, at most 63");
        return;
    }
    if (is_expression_word(node->text))
        node_error(cx, "E106", node, "`" STR_FMT "` is a word of the expressions",
                   STR_ARG(node->text));
    uint16_t first = step_by_id(cx, node->text);
    if (first != PLAN_STEP_NONE) {
        struct place other = doc_node_place(cx->doc, cx->sources[first].id);
        struct diag *diag =
            node_error(cx, "E107", node, "duplicate step id `" STR_FMT "`", STR_ARG(node->text));
        diag->other_line = other.line;
        diag->other_column = other.column;
        return;
    }
    cx->step_ids[index] = cx->steps[index].id;
    step_id_add(cx, index);
}

/* False, and diagnosed, if the step cannot need the one that `node` names. */
static bool need_check(struct compiler *cx, const struct node *node, uint16_t index, uint16_t need)
{
    struct diag *diag;
    if (need == PLAN_STEP_NONE) {
        diag = node_error(cx, "E118", node, "unknown step `" STR_FMT "` in `needs`",
                          STR_ARG(node->text));
        const char *nearest = diag_is_seen(cx->diags, diag)
                                  ? diag_nearest(node->text, cx->step_ids, cx->plan->steps_count)
                                  : NULL;
        if (nearest)
            diag_help(cx->diags, diag, "a step with a similar name exists: `%s`", nearest);
        return false;
    }
    if (need == index) {
        node_error(cx, "E118", node, "step `" STR_FMT "` cannot need itself", STR_ARG(node->text));
        return false;
    }
    if (need > index) {
        diag = node_error(cx, "E118", node, "`needs` names a step that stands below");
        diag_help(cx->diags, diag, "move `" STR_FMT "` up; so no circle can arise",
                  STR_ARG(node->text));
        return false;
    }
    return true;
}

static void needs_read(struct compiler *cx, const struct node *node, uint16_t index)
{
    bool *needed = arena_array(cx->scratch, bool, index + 1u);
    uint16_t count = 0;
    if (!node_is_list(cx, node, "`needs`"))
        return;
    for (uint32_t i = 0; i < node->count; i++) {
        const struct node *item = node->items[i];
        uint16_t need = step_by_id(cx, item->text);
        if (item->kind != NODE_TEXT) {
            node_error(cx, "E103", item, "`needs` holds ids of steps");
        } else if (!need_check(cx, item, index, need)) {
            continue;
        } else if (needed[need]) {
            node_error(cx, "E118", item, "step `" STR_FMT "` is named twice", STR_ARG(item->text));
        } else {
            needed[need] = true;
            count++;
        }
    }
    uint16_t *needs = arena_array(cx->arena, uint16_t, count);
    count = 0;
    for (uint16_t i = 0; i < index; i++)
        if (needed[i])
            needs[count++] = i;
    cx->steps[index].needs = needs;
    cx->steps[index].needs_count = count;
}

static void needs_compile(struct compiler *cx, uint16_t index)
{
    struct step_source *source = &cx->sources[index];
    struct plan_step *step = &cx->steps[index];
    const struct node *node = node_get(source->node, "needs");
    size_t words = (size_t)cx->plan->steps_count / 64 + 1;
    if (node) {
        needs_read(cx, node, index);
    } else if (index > 0) {
        uint16_t *before = arena_new(cx->arena, uint16_t);
        *before = (uint16_t)(index - 1);
        step->needs = before;
        step->needs_count = 1;
    }
    source->after = arena_array(cx->scratch, uint64_t, words);
    source->mentions = arena_array(cx->scratch, uint64_t, words);
    for (uint16_t i = 0; i < step->needs_count; i++) {
        uint16_t need = step->needs[i];
        for (size_t w = 0; w < words; w++)
            source->after[w] |= cx->sources[need].after[w];
        source->after[need / 64] |= UINT64_C(1) << need % 64;
    }
}

static void needed_by_fill(struct compiler *cx)
{
    uint16_t count = cx->plan->steps_count;
    uint16_t **lists = (uint16_t **)arena_alloc_array(cx->scratch, count, sizeof(*lists));
    for (uint16_t i = 0; i < count; i++)
        for (uint16_t j = 0; j < cx->steps[i].needs_count; j++)
            cx->steps[cx->steps[i].needs[j]].needed_by_count++;
    for (uint16_t i = 0; i < count; i++) {
        lists[i] = arena_array(cx->arena, uint16_t, cx->steps[i].needed_by_count);
        cx->steps[i].needed_by = lists[i];
    }
    for (uint16_t i = 0; i < count; i++) /* in file order: each list is ascending */
        for (uint16_t j = 0; j < cx->steps[i].needs_count; j++)
            *lists[cx->steps[i].needs[j]]++ = i;
}

static void steps_order(struct compiler *cx, const struct node *list)
{
    uint32_t count = list && node_is_list(cx, list, "`steps`") ? list->count : 0;
    if (list && list->kind == NODE_LIST && !count)
        node_error(cx, "E102", list, "a workflow needs at least one step");
    if (count > PLAN_STEPS_MAX) {
        node_error(cx, "E113", list, "%u steps are more than %d", count, PLAN_STEPS_MAX);
        count = PLAN_STEPS_MAX;
    }
    cx->plan->steps_count = (uint16_t)count;
    cx->steps = arena_array(cx->arena, struct plan_step, count);
    cx->sources = arena_array(cx->scratch, struct step_source, count);
    cx->step_ids = (const char **)arena_alloc_array(cx->scratch, count, sizeof(*cx->step_ids));
    cx->plan->steps = cx->steps;
    for (uint16_t i = 0; i < count; i++)
        cx->step_ids[i] = "";
    for (uint16_t i = 0; i < count; i++) {
        cx->sources[i].node = list->items[i];
        cx->steps[i].index = i;
        cx->steps[i].line = doc_line(cx->doc, list->items[i]->start);
        uint32_t errors = cx->diags->errors;
        keys_check(cx, list->items[i], LANG_STEP);
        cx->sources[i].broken = cx->diags->errors > errors;
        id_compile(cx, i);
    }
    for (uint16_t i = 0; i < count; i++)
        needs_compile(cx, i);
    needed_by_fill(cx);
}

/* --- a step --- */

static void failure_compile(struct compiler *cx, uint16_t index)
{
    struct plan_step *step = &cx->steps[index];
    struct step_source *source = &cx->sources[index];
    const struct node *node = node_get(source->node, "on_failure");
    int value;
    step->on_failure = cx->on_failure;
    if (node && read_choice(cx, node, LANG_STEP, "on_failure", on_failure_word, &value))
        step->on_failure = (enum on_failure)value;
    source->loop = node_get_pair(source->node, "for_each") != NULL;
    const struct node *on_timeout = node_get(node_get(source->node, "action"), "on_timeout");
    bool unanswered = on_timeout && str_eq(on_timeout->text, STR("continue"));
    /* A loop's list is there always, with null where an item was not applied. */
    source->may_be_absent = !source->loop && (step->on_failure == ON_FAILURE_CONTINUE ||
                                              unanswered || node_get_pair(source->node, "if"));
    if ((node = node_get(source->node, "output_schema")))
        step->output_schema = schema_compile(cx, node);
}

/* `for_each` and what belongs to it; before all that may read `item`. */
static void loop_compile(struct compiler *cx, uint16_t index)
{
    static const char *const parts[] = {"key_by", "max_parallel"};
    struct plan_step *step = &cx->steps[index];
    struct step_source *source = &cx->sources[index];
    const struct node *list = node_get(source->node, "for_each"), *node;
    const struct type *type = NULL;
    struct expr_rules rules = action_rules(cx, index, false, "`for_each`");
    int64_t count = 1;
    for (size_t i = 0; i < ARRAY_LEN(parts) && !source->loop; i++) {
        const struct pair *pair = node_get_pair(source->node, parts[i]);
        if (pair)
            node_error(cx, "E102", pair->key, "`%s` needs `for_each` beside it", parts[i]);
    }
    if (!list)
        return;
    /* Both are evaluated once and kept: they look at nothing that belongs to an attempt. */
    rules.roots &= ~(unsigned)(ROOT_ITEM | ROOT_KEY | ROOT_NOW);
    step->for_each = list->kind == NODE_LIST
                         ? NULL
                         : expression_compile(cx, list, &rules, KIND_LIST, "a list", &type);
    for (uint16_t i = 0; i < index; i++)
        source->list_of_answer = source->list_of_answer || step_mentions(cx, index, i);
    if (list->kind == NODE_LIST) {
        struct diag *diag = node_error(cx, "E103", list, "`for_each` is an expression");
        diag_help(cx->diags, diag, "write `for_each: \"['a', 'b']\"`");
    }
    if (type && type_kinds(type) & KIND_LIST)
        source->item = type_of_item(cx, type);
    rules.where = "`key_by`";
    rules.roots |= ROOT_ITEM;
    if ((node = node_get(source->node, "key_by")))
        step->key_by =
            expression_compile(cx, node, &rules, KIND_TEXT | KIND_NUMBER, "text or a number", NULL);
    if ((node = node_get(source->node, "max_parallel")))
        read_integer(cx, node, "`max_parallel`", 1, PLAN_ITEMS_MAX, &count);
    step->max_parallel = (uint32_t)count;
}

static void hold_compile(struct compiler *cx, uint16_t index)
{
    struct plan_step *step = &cx->steps[index];
    const struct pair *pair = node_get_pair(cx->sources[index].node, "hold");
    if (!pair || !read_boolean(cx, pair->value, "`hold`", &step->hold) || !step->hold ||
        step->action.effect == EFFECT_IRREVERSIBLE)
        return;
    step->hold = false;
    struct diag *diag =
        node_error(cx, "E310", pair->key, "step `%s` is not irreversible", step->id);
    diag_help(cx->diags, diag, "what can be undone need not be held back: leave `hold` out");
}

/* Behind the last step that may still fail: everything but what comes after it. Two that are held
 * do not wait for each other. */
static void holds_fill(struct compiler *cx)
{
    for (uint16_t index = 0; index < cx->plan->steps_count; index++) {
        struct plan_step *step = &cx->steps[index];
        if (!step->hold)
            continue;
        uint16_t *list = arena_array(cx->arena, uint16_t, cx->plan->steps_count);
        for (uint16_t i = 0; i < cx->plan->steps_count; i++)
            if (i != index && !cx->steps[i].hold && !step_is_after(cx, i, index))
                list[step->held_by_count++] = i;
        step->held_by = list;
    }
}

static void pivot_compile(struct compiler *cx, uint16_t index)
{
    struct plan_step *step = &cx->steps[index];
    const struct node *node = node_get(cx->sources[index].node, "pivot");
    bool best_effort = step->on_failure == ON_FAILURE_CONTINUE;
    step->pivot = step->action.effect == EFFECT_IRREVERSIBLE && !best_effort;
    if (node && !read_boolean(cx, node, "`pivot`", &step->pivot))
        return;
    if (step->pivot && best_effort) {
        step->pivot = false;
        node_error(cx, "E305", node, "a step with `on_failure: continue` cannot be a pivot");
    } else if (step->pivot && step->action.on_unknown == ON_UNKNOWN_CONTINUE) {
        const struct pair *pair = node_get_pair(cx->sources[index].node, "on_unknown");
        struct diag *diag = node_error(cx, "E305", pair->value,
                                       "a step with `on_unknown: continue` cannot be a pivot: "
                                       "nobody would know whether there is a way back");
        diag_help(cx->diags, diag, "declare `reconcile`, or say `pivot: false`");
    }
}

/* `compensate: {none: "reason"}` */
static void none_compile(struct compiler *cx, const struct node *node, const struct pair *none,
                         uint16_t index)
{
    struct str reason;
    for (uint32_t i = 0; i < node->count; i++)
        if (&node->pairs[i] != none && lang_key_find(LANG_COMPENSATE, node->pairs[i].key->text))
            node_error(cx, "E110", node->pairs[i].key,
                       "`none` says that there is no compensation, so it stands alone");
    bool blank = true;
    for (size_t i = 0; i < none->value->text.len; i++)
        blank = blank && ascii_is_space(none->value->text.ptr[i]);
    if (none->value->kind != NODE_TEXT || blank) {
        struct diag *diag = node_error(cx, "E302", none->key,
                                       "`none` needs the reason why nothing is to be undone");
        diag_help(cx->diags, diag, "write `none: \"the hold expires by itself\"`");
    } else if (read_text(cx, none->value, "`none`", &reason)) {
        cx->steps[index].compensate_none = reason.ptr;
    }
}

static void compensate_compile(struct compiler *cx, const struct node *node, uint16_t index)
{
    struct plan_step *step = &cx->steps[index];
    const struct pair *none = node_get_pair(node, "none");
    struct diag *diag;
    if (node->kind == NODE_LIST) {
        diag = node_error(cx, "E103", node, "`compensate` is one action, not a list");
        diag_help(cx->diags, diag, "split the step, so that each effect has its own compensation");
        return;
    }
    if (node->kind == NODE_TEXT && str_eq(node->text, STR("none"))) {
        diag = node_error(cx, "E302", node, "`none` needs the reason why nothing is to be undone");
        diag_help(cx->diags, diag, "write `compensate: {none: \"the hold expires by itself\"}`");
        return;
    }
    if (!keys_check(cx, node, LANG_COMPENSATE))
        return;
    if (none) {
        none_compile(cx, node, none, index);
        return;
    }
    action_compile(cx, node, index, true, &step->compensate);
    step->compensate.retry = cx->compensate_retry;
    reconcile_compile(cx, node_get_pair(node, "reconcile"), index, true, &step->compensate);
}

static void action_part_compile(struct compiler *cx, uint16_t index)
{
    struct plan_step *step = &cx->steps[index];
    const struct node *source = cx->sources[index].node, *node;
    const struct pair *pair;
    if ((node = node_get(source, "action")) && keys_check(cx, node, LANG_ACTION))
        action_compile(cx, node, index, false, &step->action);
    step->action.retry = cx->retry;
    reconcile_compile(cx, node_get_pair(source, "reconcile"), index, false, &step->action);
    on_unknown_compile(cx, index);
    if ((pair = node_get_pair(source, "retry")))
        retry_compile(cx, pair->value, &step->action.retry);
    enum action_kind kind = step->action.kind;
    const char *name = action_kind_name(kind);
    if (pair && (action_kind_waits(kind) || kind == ACTION_CHILD))
        node_error(cx, "E111", pair->key, "`retry` does not belong to a `%s`", name);
    if ((kind == ACTION_SLEEP || kind == ACTION_UNTIL) && (pair = node_get_pair(source, "timeout")))
        node_error(cx, "E111", pair->key, "`timeout` does not belong to a `%s`", name);
}

static void compensate_part_compile(struct compiler *cx, uint16_t index)
{
    struct plan_step *step = &cx->steps[index];
    const struct node *source = cx->sources[index].node;
    const struct pair *compensate = node_get_pair(source, "compensate");
    const struct pair *retry = node_get_pair(source, "compensate_retry");
    if (compensate)
        compensate_compile(cx, compensate->value, index);
    if (!retry)
        return;
    if (step->compensate.kind != ACTION_NONE) {
        retry_compile(cx, retry->value, &step->compensate.retry);
    } else {
        struct plan_retry unused = cx->compensate_retry;
        retry_compile(cx, retry->value, &unused);
        if (!compensate || step->compensate_none)
            node_error(cx, "E306", retry->key, "there is no compensation to retry");
    }
}

static void step_compile(struct compiler *cx, uint16_t index)
{
    const struct node *source = cx->sources[index].node, *node;
    const struct expr_rules rules = {
        .where = "`if`",
        .roots = ROOT_INPUT | ROOT_STEPS | ROOT_RUN | ROOT_ENV | ROOT_NOW |
                 (cx->sources[index].loop ? ROOT_ITEM : 0),
        .step = index,
    };
    if (source->kind != NODE_MAP)
        return;
    loop_compile(cx, index);
    if ((node = node_get(source, "if")))
        cx->steps[index].condition = condition_compile(cx, node, &rules);
    bool hangs = step_mentions_any(cx, index);
    action_part_compile(cx, index);
    compensate_part_compile(cx, index);
    if (cx->steps[index].action.kind == ACTION_CHILD)
        child_undo_fill(cx, &cx->steps[index]);
    pivot_compile(cx, index);
    hold_compile(cx, index);
    approve_compile(cx, index);
    dry_run_compile(cx, index, hangs);
}

/* --- the hash --- */

/* Of the source without `tests:`: tests may change without making another version. */
static void hash_compute(struct compiler *cx, struct str source, const struct node *root)
{
    const struct pair *tests = node_get_pair(root, "tests");
    struct buf kept = {0};
    cx->plan->has_tests = tests != NULL;
    if (!tests) {
        cx->plan->hash = sha256_of(source);
    } else {
        size_t shift = source.len - cx->doc->source.len; /* a byte order mark */
        size_t start = tests->key->start + shift, end = source.len;
        for (uint32_t i = 0; i < root->count; i++)
            if (root->pairs[i].key->start > tests->key->start)
                end = MIN(end, root->pairs[i].key->start + shift);
        buf_add(&kept, source.ptr, start);
        buf_add(&kept, source.ptr + end, source.len - end);
        cx->plan->hash = sha256_of(buf_str(&kept));
        buf_free(&kept);
    }
    sha256_hex(&cx->plan->hash, cx->plan->hash_hex);
    if (!cx->plan->version_is_label)
        cx->plan->version = arena_printf(cx->arena, "%.12s", cx->plan->hash_hex).ptr;
}

/* --- the whole --- */

static void workflow_compile(struct compiler *cx, const struct node *root)
{
    const struct expr_rules output_rules = {
        .where = "`output`",
        .roots = ROOT_INPUT | ROOT_STEPS | ROOT_RUN | ROOT_ENV,
        .step = PLAN_STEP_NONE,
        .steps = STEPS_ALL,
        .omit = false,
    };
    const struct node *node;
    if (!keys_check(cx, root, LANG_WORKFLOW))
        return;
    name_compile(cx, node_get(root, "workflow"));
    labels_compile(cx, root);
    if ((node = node_get(root, "input")))
        cx->plan->input = input_schema_compile(cx, node);
    if ((node = node_get(root, "deadline")))
        read_duration(cx, node, "`deadline`", SECOND_US, &cx->plan->deadline_us);
    if ((node = node_get(root, "compensation_budget")))
        read_duration(cx, node, "`compensation_budget`", SECOND_US,
                      &cx->plan->compensation_budget_us);
    if ((node = node_get(root, "compensatable_for")))
        read_duration(cx, node, "`compensatable_for`", 0, &cx->plan->compensatable_for_us);
    if ((node = node_get(root, "retain")))
        read_duration(cx, node, "`retain`", SECOND_US, &cx->plan->retain_us);
    defaults_compile(cx, root);
    services_compile(cx, node_get(root, "services"));
    steps_order(cx, node_get(root, "steps"));
    run_id_compile(cx, node_get(root, "run_id"));
    lock_compile(cx, node_get(root, "lock"));
    for (uint16_t i = 0; i < cx->plan->steps_count; i++)
        failure_compile(cx, i);
    for (uint16_t i = 0; i < cx->plan->steps_count; i++)
        step_compile(cx, i);
    holds_fill(cx);
    if ((node = node_get(root, "output")))
        cx->plan->output = template_compile(cx, node, &output_rules);
    if ((node = node_get(root, "schedule")))
        schedule_compile(cx, node);
    lint_check(cx);
}

struct plan *dsl_compile(struct str source, const struct dsl_options *options, struct diags *diags)
{
    return dsl_compile_among(source, options, NULL, diags);
}

struct plan *dsl_compile_among(struct str source, const struct dsl_options *options,
                               const struct workflows *known, struct diags *diags)
{
    struct doc doc;
    struct arena scratch = {0};
    struct plan *plan = xcalloc(1, sizeof(*plan));
    struct compiler cx = {
        .doc = &doc,
        .diags = diags,
        .options = options,
        .known = known,
        .plan = plan,
        .arena = &plan->plan_arena,
        .scratch = &scratch,
    };
    plan->refs = 1;
    doc_load(&doc, source, DSL_SOURCE_BYTES_MAX, DSL_NODES_MAX, diags);
    if (doc.root) {
        workflow_compile(&cx, doc.root);
        plan->source = arena_str(&plan->plan_arena, source);
        hash_compute(&cx, plan->source, doc.root);
    }
    diags_drop_beside_errors(diags, "W001");
    bool ok = doc.root && diags->errors == 0;
    doc_free(&doc);
    arena_free(&scratch);
    diags_sort(diags);
    if (ok)
        return plan;
    plan_unref(plan);
    return NULL;
}
