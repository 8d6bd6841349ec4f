/*
 * compile_dry_run.c: the request that shows what a step would do.
 *
 * Nobody but the author knows that a service only looks at it. What can be known here is checked:
 * that it is not the action's own request, and that it carries no key, neither the engine's nor one
 * that the author makes.
 */
#include "dsl/compiler.h"

#include <strings.h>

static bool node_eq(const struct node *a, const struct node *b)
{
    if (!a || !b)
        return a == b;
    if (a->kind != b->kind || a->count != b->count)
        return false;
    if (a->kind == NODE_BOOL)
        return a->boolean == b->boolean;
    for (uint32_t i = 0; a->kind == NODE_LIST && i < a->count; i++)
        if (!node_eq(a->items[i], b->items[i]))
            return false;
    for (uint32_t i = 0; a->kind == NODE_MAP && i < a->count; i++) {
        const struct pair *pair = node_find(b, a->pairs[i].key->text);
        if (!pair || !node_eq(a->pairs[i].value, pair->value))
            return false;
    }
    return a->kind == NODE_LIST || a->kind == NODE_MAP || str_eq(a->text, b->text);
}

/* Headers do not count: a service that does not know one makes the effect. */
static bool is_the_action(const struct node *action, const struct node *node)
{
    static const char *const parts[] = {"query", "body", "form", "text"};
    const struct pair *theirs = action_kind_find(action), *ours = action_kind_find(node);
    if (!theirs || !str_eq(theirs->key->text, ours->key->text) ||
        !node_eq(theirs->value, ours->value))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (!node_eq(node_get(action, parts[i]), node_get(node, parts[i])))
            return false;
    return true;
}

static void same_request_check(struct compiler *cx, const struct node *step,
                               const struct pair *pair)
{
    const struct node *action = node_get(step, "action");
    if (!action || !is_the_action(action, pair->value))
        return;
    struct diag *diag = node_error(cx, "E313", pair->key,
                                   "`dry_run` is the request of the action: it would make the "
                                   "effect");
    diag_help(cx->diags, diag,
              "another path, query or body tells the service that it only shows: `query: "
              "{dry_run: true}`");
}

static const struct node *header_find(const struct node *headers, const char *name)
{
    for (uint32_t i = 0; headers && headers->kind == NODE_MAP && i < headers->count; i++) {
        struct str text = headers->pairs[i].key->text;
        if (text.len == strlen(name) && strncasecmp(text.ptr, name, text.len) == 0)
            return headers->pairs[i].key;
    }
    return NULL;
}

/* The key of the member that the JSON pointer names. */
static const struct node *member_find(const struct node *body, const char *pointer)
{
    const struct pair *pair = NULL;
    while (*pointer == '/') {
        size_t len = strcspn(++pointer, "/");
        pair = node_find(pair ? pair->value : body, (struct str){pointer, len});
        if (!pair)
            return NULL;
        pointer += len;
    }
    return pair ? pair->key : NULL;
}

/* A key that the author makes would be remembered by the service like one of an effect. */
static void own_key_check(struct compiler *cx, const struct node *node,
                          const struct plan_idempotency *idempotency)
{
    const struct node *found = NULL;
    switch (idempotency->place) {
    case KEY_PLACE_HEADER: found = header_find(node_get(node, "headers"), idempotency->name); break;
    case KEY_PLACE_QUERY: {
        const struct pair *pair = node_get_pair(node_get(node, "query"), idempotency->name);
        found = pair ? pair->key : NULL;
        break;
    }
    case KEY_PLACE_BODY: found = member_find(node_get(node, "body"), idempotency->name); break;
    case KEY_PLACE_NONE:
    case KEY_PLACE_TASK:
    case KEY_PLACE_GUARD: break;
    }
    if (!found)
        return;
    struct diag *diag = node_error(cx, "E314", found, "a `dry_run` carries no key");
    diag_help(cx->diags, diag, "nothing is claimed for it, and no answer is to be remembered");
}

/* Where the service looks for a key: what it declares itself, else as the action says. */
static void keys_absent_check(struct compiler *cx, const struct node *node, uint16_t index,
                              const struct plan_action *made)
{
    const struct plan_action *action = &cx->steps[index].action;
    const struct plan_idempotency *service = NULL;
    if (made->service != PLAN_SERVICE_NONE)
        service = &cx->services[made->service].idempotency;
    if (service)
        own_key_check(cx, node, service);
    bool other = !service || service->place != action->idempotency.place || !service->name ||
                 !action->idempotency.name || strcmp(service->name, action->idempotency.name) != 0;
    if (action->kind == ACTION_HTTP && action->service == made->service && other)
        own_key_check(cx, node, &action->idempotency);
}

/* Why the step cannot have one, or NULL. */
static const char *useless(const struct plan_action *action)
{
    if (action_kind_waits(action->kind))
        return "waiting has no effect";
    if (action->effect == EFFECT_PURE)
        return "a pure action has no effect";
    return NULL;
}

/* The one request of it. NULL: diagnosed. */
static const struct pair *request_find(struct compiler *cx, const struct node *node)
{
    const struct pair *kind = action_kind_find(node);
    if (kind && !lang_key_find(LANG_DRY_RUN, kind->key->text)) {
        struct diag *diag =
            node_error(cx, "E312", kind->key, "a `dry_run` is an HTTP request, not `" STR_FMT "`",
                       STR_ARG(kind->key->text));
        diag_help(cx->diags, diag, "one of: get, post, put, patch, delete");
        return NULL;
    }
    if (!keys_check(cx, node, LANG_DRY_RUN))
        return NULL;
    if (!kind) {
        struct diag *diag = node_error(cx, "E110", node, "`dry_run` needs one request");
        diag_help(cx->diags, diag, "one of: get, post, put, patch, delete");
    }
    return kind;
}

/* Compiles it, and sees whether it reads other steps. What it reads is no reading of the step: that
 * runs without it. */
static bool shown_compile(struct compiler *cx, const struct node *node, const struct pair *kind,
                          uint16_t index, struct plan_action *made)
{
    struct step_source *source = &cx->sources[index];
    size_t words = (cx->plan->steps_count + 63u) / 64;
    uint64_t *kept = source->mentions;
    source->mentions = arena_array(cx->scratch, uint64_t, words);
    cx->fewer_roots = ROOT_KEY;
    bool sound = show_compile(cx, node, kind, index, made);
    cx->fewer_roots = 0;
    if (step_mentions_any(cx, index))
        cx->steps[index].dry_run_hangs = true;
    source->mentions = kept;
    return sound;
}

void dry_run_compile(struct compiler *cx, uint16_t index, bool hangs)
{
    const struct node *step = cx->sources[index].node, *part;
    const struct pair *pair = node_get_pair(step, "dry_run"), *kind;
    struct plan_step *out = &cx->steps[index];
    const char *why = out->action.kind == ACTION_NONE ? NULL : useless(&out->action);
    struct plan_action *made;
    if (!pair)
        return;
    if (why) {
        struct diag *diag =
            node_error(cx, "E312", pair->key, "`dry_run` has nothing to show: %s", why);
        diag_help(cx->diags, diag, "leave it out");
        return;
    }
    kind = node_is_map(cx, pair->value, "`dry_run`") ? request_find(cx, pair->value) : NULL;
    if (!kind)
        return;
    made = arena_new(cx->arena, struct plan_action);
    out->dry_run_hangs = hangs;
    bool sound = shown_compile(cx, pair->value, kind, index, made);
    if ((part = node_get(pair->value, "timeout")))
        read_duration(cx, part, "`timeout`", MS_US, &made->timeout_us);
    same_request_check(cx, step, pair);
    keys_absent_check(cx, pair->value, index, made);
    if (sound)
        out->dry_run = made;
}
