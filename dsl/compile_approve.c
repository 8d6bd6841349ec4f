/*
 * compile_approve.c: whose word a step needs before it is sent.
 */
#include "dsl/compiler.h"

static const char *on_expiry_word(int value)
{
    static const char *const words[] = {"", "refused", "park"};
    return (size_t)value < ARRAY_LEN(words) ? words[value] : "";
}

static void by_compile(struct compiler *cx, const struct node *node, struct plan_approval *out)
{
    struct str name;
    if (!read_text(cx, node, "`by`", &name))
        return;
    if (str_eq(name, STR("any")))
        return;
    if (str_eq(name, STR("other"))) {
        out->by = APPROVE_BY_OTHER;
    } else if (name_is_valid(name, true)) {
        out->by = APPROVE_BY_GROUP;
        out->group = cx_strdup(cx, name);
    } else {
        struct diag *diag = node_error(
            cx, "E106", node, "`" STR_FMT "` cannot be the name of a group", STR_ARG(name));
        diag_help(cx->diags, diag, "write `any`, `other`, or a group of the daemon's `people`");
    }
}

/* The key's lifetime begins with the claim, and so before the person decides. */
static void expiry_warn(struct compiler *cx, const struct node *node, uint16_t index,
                        const struct plan_approval *approval)
{
    int64_t ttl_us = cx->steps[index].action.idempotency.ttl_us;
    if (!ttl_us || approval->expires_us < ttl_us)
        return;
    struct diag *diag =
        node_warning(cx, "W306", node,
                     "a person may take " STR_FMT " for `%s`, but its key is honoured for " STR_FMT,
                     STR_ARG(duration_format(approval->expires_us, cx->scratch)),
                     cx->steps[index].id, STR_ARG(duration_format(ttl_us, cx->scratch)));
    diag_help(cx->diags, diag, "past the ttl nothing is sent again: let it expire sooner");
}

void approve_compile(struct compiler *cx, uint16_t index)
{
    const struct pair *pair = node_get_pair(cx->sources[index].node, "approve");
    struct plan_step *step = &cx->steps[index];
    struct expr_rules rules = action_rules(cx, index, false, "`approve`");
    const struct node *part;
    int value;
    if (!pair || !keys_check(cx, pair->value, LANG_APPROVE))
        return;
    struct plan_approval *made = arena_new(cx->arena, struct plan_approval);
    made->expires_us = DAY_US;
    if ((part = node_get(pair->value, "if")))
        made->condition = condition_compile(cx, part, &rules);
    if ((part = node_get(pair->value, "message")))
        made->message = text_template_compile(cx, part, &rules);
    if ((part = node_get(pair->value, "by")))
        by_compile(cx, part, made);
    if ((part = node_get(pair->value, "expires")))
        read_duration(cx, part, "`expires`", SECOND_US, &made->expires_us);
    if ((part = node_get(pair->value, "on_expiry")) &&
        read_choice(cx, part, LANG_APPROVE, "on_expiry", on_expiry_word, &value))
        made->park = value == 2;
    if (step->action.kind != ACTION_NONE && action_kind_waits(step->action.kind)) {
        struct diag *diag = node_error(cx, "E111", pair->key, "`approve` does not belong to a `%s`",
                                       action_kind_name(step->action.kind));
        diag_help(cx->diags, diag, "put it at the step that sends something");
        return;
    }
    expiry_warn(cx, (part = node_get(pair->value, "expires")) ? part : pair->key, index, made);
    step->approve = made;
}
