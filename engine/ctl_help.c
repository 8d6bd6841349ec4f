#include "engine/ctl_text.h"
#include "engine/ctl_verbs.h"

static void option_print(struct ctl *ctl, const struct ctl_verb_option *entry)
{
    const struct ctl_option *option = &ctl_options[entry->id];
    struct buf left = {0};
    if (option->letter)
        buf_printf(&left, "-%c, ", option->letter);
    buf_printf(&left, "--%s", option->name);
    if (option->value)
        buf_printf(&left, " %s", option->value);
    buf_printf(&ctl->out, "  %-22s", left.data);
    if (left.len > 22) /* a long one has its help on the next line */
        buf_printf(&ctl->out, "\n  %-22s", "");
    buf_printf(&ctl->out, "  %s\n", entry->help);
    buf_free(&left);
}

static void verb_help(struct ctl *ctl, const struct ctl_verb *verb)
{
    bool any = verb->options[0].id != OPT_NONE;
    buf_printf(&ctl->out, "sagactl %s%s%s%s\n\n", verb->name, *verb->args ? " " : "", verb->args,
               any ? " [OPTIONS]" : "");
    buf_printf(&ctl->out, "%s.\n", verb->summary);
    if (verb->about)
        buf_printf(&ctl->out, "\n%s\n", verb->about);
    if (any)
        buf_add_z(&ctl->out, "\nOptions:\n");
    for (size_t i = 0; i < CTL_VERB_OPTIONS_MAX && verb->options[i].id; i++)
        option_print(ctl, &verb->options[i]);
    buf_add_z(&ctl->out, "\nOptions of every verb:\n");
    for (size_t i = 0; i < ctl_global_options_count; i++)
        option_print(ctl, &ctl_global_options[i]);
}

static void overview(struct ctl *ctl)
{
    const char *group = "";
    buf_add_z(&ctl->out, "sagactl VERB [ARGUMENTS] [OPTIONS]\n\nStarts and watches sagas, and "
                         "helps those that are stuck.\n");
    for (size_t i = 0; i < ctl_verbs_count; i++) {
        const struct ctl_verb *verb = &ctl_verbs[i];
        struct buf left = {0};
        if (strcmp(group, verb->group) != 0)
            buf_printf(&ctl->out, "\n%s:\n", verb->group);
        group = verb->group;
        buf_printf(&left, "%s %s", verb->name, verb->args);
        buf_printf(&ctl->out, "  %-24s  %s\n", left.data, verb->summary);
        buf_free(&left);
    }
    buf_add_z(&ctl->out, "\nOptions of every verb:\n");
    for (size_t i = 0; i < ctl_global_options_count; i++)
        option_print(ctl, &ctl_global_options[i]);
    buf_add_z(&ctl->out, "\nExit codes:\n");
#define X(id, number, help) buf_printf(&ctl->out, "  %3d  %s\n", number, help);
    CTL_EXITS(X)
#undef X
    buf_add_z(&ctl->out, "\nsagactl VERB --help tells more of each; man sagactl has all of it.\n");
}

void ctl_help(struct ctl *ctl, const struct ctl_verb *verb)
{
    if (verb)
        verb_help(ctl, verb);
    else
        overview(ctl);
}

int ctl_verb_help(struct ctl *ctl)
{
    const struct ctl_verb *verb = NULL;
    if (ctl->args_count) {
        verb = ctl_verb_find(ctl->args[0]);
        if (!verb)
            return ctl_usage(ctl, "there is no verb \"%s\"", ctl->args[0]);
    }
    ctl_help(ctl, verb);
    return CTL_OK;
}
