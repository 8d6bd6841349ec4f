#include "engine/ctl_text.h"
#include "engine/ctl_verbs.h"

#define HELP_COLUMNS 80
#define VERB_COLUMNS 24
#define OPTION_COLUMNS 22

/* A name and what it means, which goes on below itself. */
static void entry_print(struct ctl *ctl, struct str left, size_t left_columns, const char *help)
{
    size_t indent = 2 + left_columns + 2, room = HELP_COLUMNS - indent;
    buf_printf(&ctl->out, "  %-*.*s", (int)left_columns, (int)left.len, left.ptr);
    if (left.len > left_columns) /* a long one has its help on the next line */
        buf_printf(&ctl->out, "\n  %-*s", (int)left_columns, "");
    buf_add_z(&ctl->out, "  ");
    while (strlen(help) > room) {
        size_t cut = room;
        while (cut > 0 && help[cut] != ' ')
            cut--;
        cut = cut ? cut : room;
        buf_printf(&ctl->out, "%.*s\n%*s", (int)cut, help, (int)indent, "");
        help += cut + (help[cut] == ' ');
    }
    buf_printf(&ctl->out, "%s\n", help);
}

static void option_print(struct ctl *ctl, const struct ctl_verb_option *entry)
{
    const struct ctl_option *option = &ctl_options[entry->id];
    struct buf left = {0};
    if (option->letter)
        buf_printf(&left, "-%c, ", option->letter);
    buf_printf(&left, "--%s", option->name);
    if (option->value)
        buf_printf(&left, " %s", option->value);
    entry_print(ctl, buf_str(&left), OPTION_COLUMNS, entry->help);
    buf_free(&left);
}

static void verb_help(struct ctl *ctl, const struct ctl_verb *verb)
{
    bool any = verb->options[0].id != OPT_NONE;
    buf_printf(&ctl->out, "sagactl %s%s%s%s\n\n", verb->name, *verb->args ? " " : "", verb->args,
               any ? " [OPTIONS]" : "");
    buf_printf(&ctl->out, "%s%s\n", verb->summary,
               verb->summary[strlen(verb->summary) - 1] == '?' ? "" : ".");
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
        entry_print(ctl, buf_str(&left), VERB_COLUMNS, verb->summary);
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
            return ctl_verb_unknown(ctl, ctl->args[0]);
    }
    ctl_help(ctl, verb);
    return CTL_OK;
}
