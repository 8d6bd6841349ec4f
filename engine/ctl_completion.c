/*
 * ctl_completion.c: shell completion, made from the table of verbs.
 *
 * Run ids and workflow names are asked of the daemon while completing; without one, nothing is
 * offered there.
 */
#include "engine/ctl_verbs.h"

static void choices_write(struct buf *out, const char *choices, char separator)
{
    for (const char *at = choices; at && *at; at++)
        buf_add_char(out, *at == '|' ? separator : *at);
}

/* --- bash ------------------------------------------------------------------------------------ */

static void bash_options_write(struct buf *out, const struct ctl_verb_option *options, size_t max)
{
    for (size_t i = 0; i < max && options[i].id; i++) {
        const struct ctl_option *option = &ctl_options[options[i].id];
        if (option->letter)
            buf_printf(out, " -%c", option->letter);
        buf_printf(out, " --%s", option->name);
    }
}

/* The case arm for the value of an option. */
static void bash_value_write(struct buf *out, const struct ctl_option *option)
{
    if (!option->value)
        return;
    if (option->letter)
        buf_printf(out, "    -%c|--%s)\n", option->letter, option->name);
    else
        buf_printf(out, "    --%s)\n", option->name);
    if (option->choices) {
        buf_add_z(out, "        COMPREPLY=($(compgen -W \"");
        choices_write(out, option->choices, ' ');
        buf_add_z(out, "\" -- \"$cur\"))\n");
    } else if (strcmp(option->value, "PATH") == 0) {
        buf_add_z(out, "        COMPREPLY=($(compgen -f -- \"$cur\"))\n");
    } else if (strcmp(option->value, "WORKFLOW") == 0) {
        buf_add_z(out, "        COMPREPLY=($(compgen -W \"$(sagactl workflows -q 2>/dev/null)\" "
                       "-- \"$cur\"))\n");
    }
    buf_add_z(out, "        return\n        ;;\n");
}

static void bash_args_write(struct buf *out, const struct ctl_verb *verb)
{
    buf_printf(out, "    %s)\n", verb->name);
    switch (verb->arg) {
    case CTL_ARG_NONE: break;
    case CTL_ARG_FILE: buf_add_z(out, "        words=$(compgen -f -- \"$cur\")\n"); break;
    case CTL_ARG_WORKFLOW:
        buf_add_z(out, "        words=$(sagactl workflows -q 2>/dev/null)\n");
        break;
    case CTL_ARG_RUN:
        buf_add_z(out, "        words=$(sagactl list -q --limit 200 2>/dev/null)\n");
        break;
    case CTL_ARG_WORD:
        buf_add_z(out, "        words=\"");
        choices_write(out, verb->words, ' ');
        buf_add_z(out, "\"\n");
        break;
    }
    if (strcmp(verb->name, "dead") == 0)
        buf_add_z(out, "        [ \"$prev\" = show ] && "
                       "words=$(sagactl dead list -q 2>/dev/null)\n");
    if (strcmp(verb->name, "help") == 0)
        buf_add_z(out, "        words=$verbs\n");
    buf_add_z(out, "        options=\"");
    bash_options_write(out, verb->options, CTL_VERB_OPTIONS_MAX);
    buf_add_z(out, "\"\n        ;;\n");
}

static void bash_write(struct buf *out)
{
    buf_add_z(out, "# bash completion for sagactl: source <(sagactl completion bash)\n"
                   "_sagactl() {\n"
                   "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                   "    local verb= words= options= i\n"
                   "    local verbs=\"");
    for (size_t i = 0; i < ctl_verbs_count; i++)
        buf_printf(out, "%s%s", i ? " " : "", ctl_verbs[i].name);
    buf_add_z(out, "\"\n    local globals=\"");
    bash_options_write(out, ctl_global_options, ctl_global_options_count);
    buf_add_z(out, "\"\n"
                   "    COMPREPLY=()\n"
                   "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
                   "        case \" $verbs \" in *\" ${COMP_WORDS[i]} \"*)\n"
                   "            verb=${COMP_WORDS[i]}\n"
                   "            break ;;\n"
                   "        esac\n"
                   "    done\n"
                   "    case $prev in\n");
    for (size_t id = OPT_NONE + 1; id < OPT_COUNT; id++)
        bash_value_write(out, &ctl_options[id]);
    buf_add_z(out, "    esac\n    case $verb in\n    '')\n        words=$verbs\n        ;;\n");
    for (size_t i = 0; i < ctl_verbs_count; i++)
        bash_args_write(out, &ctl_verbs[i]);
    buf_add_z(out, "    esac\n"
                   "    case $cur in\n"
                   "    -*) words=\"$options $globals\" ;;\n"
                   "    esac\n"
                   "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                   "}\n"
                   "complete -o filenames -F _sagactl sagactl\n");
}

/* --- zsh ------------------------------------------------------------------------------------- */

/* Text inside single quotes and an _arguments specification. */
static void zsh_text_write(struct buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            buf_add_z(out, "'\\''");
        else if (*text == '[' || *text == ']' || *text == ':')
            buf_printf(out, "\\%c", *text);
        else
            buf_add_char(out, *text);
    }
}

static void zsh_value_write(struct buf *out, const struct ctl_option *option)
{
    if (!option->value)
        return;
    buf_add_char(out, ':');
    zsh_text_write(out, option->value);
    buf_add_char(out, ':');
    if (option->choices) {
        buf_add_char(out, '(');
        choices_write(out, option->choices, ' ');
        buf_add_char(out, ')');
    } else if (strcmp(option->value, "PATH") == 0) {
        buf_add_z(out, "_files");
    } else if (strcmp(option->value, "WORKFLOW") == 0) {
        buf_add_z(out, "_sagactl_workflows");
    }
}

static void zsh_option_write(struct buf *out, const struct ctl_verb_option *entry)
{
    const struct ctl_option *option = &ctl_options[entry->id];
    if (option->letter) {
        buf_printf(out, " \\\n            '-%c[", option->letter);
        zsh_text_write(out, entry->help);
        buf_add_char(out, ']');
        zsh_value_write(out, option);
        buf_add_char(out, '\'');
    }
    buf_printf(out, " \\\n            '--%s%s[", option->name, option->value ? "=" : "");
    zsh_text_write(out, entry->help);
    buf_add_char(out, ']');
    zsh_value_write(out, option);
    buf_add_char(out, '\'');
}

static void zsh_verb_write(struct buf *out, const struct ctl_verb *verb)
{
    buf_printf(out, "    %s)\n        _arguments", verb->name);
    for (size_t i = 0; i < CTL_VERB_OPTIONS_MAX && verb->options[i].id; i++)
        zsh_option_write(out, &verb->options[i]);
    for (size_t i = 0; i < ctl_global_options_count; i++)
        zsh_option_write(out, &ctl_global_options[i]);
    switch (verb->arg) {
    case CTL_ARG_NONE: break;
    case CTL_ARG_FILE: buf_add_z(out, " \\\n            '*:file:_files'"); break;
    case CTL_ARG_WORKFLOW:
        buf_add_z(out, " \\\n            '1:workflow:_sagactl_workflows'");
        break;
    case CTL_ARG_RUN: buf_add_z(out, " \\\n            '1:run:_sagactl_runs'"); break;
    case CTL_ARG_WORD:
        buf_add_z(out, " \\\n            '1:what:(");
        choices_write(out, verb->words, ' ');
        buf_add_z(out, ")'");
        break;
    }
    if (strcmp(verb->name, "dead") == 0)
        buf_add_z(out, " \\\n            '2:run:_sagactl_runs'");
    if (strcmp(verb->name, "help") == 0)
        buf_add_z(out, " \\\n            '1:verb:_sagactl_verbs'");
    buf_add_z(out, "\n        ;;\n");
}

static void zsh_write(struct buf *out)
{
    buf_add_z(out, "#compdef sagactl\n"
                   "# zsh completion for sagactl: source <(sagactl completion zsh)\n"
                   "_sagactl_workflows() { compadd -- ${(f)\"$(sagactl workflows -q "
                   "2>/dev/null)\"} }\n"
                   "_sagactl_runs() { compadd -- ${(f)\"$(sagactl list -q --limit 200 "
                   "2>/dev/null)\"} }\n"
                   "_sagactl_verbs() {\n"
                   "    local -a verbs=(\n");
    for (size_t i = 0; i < ctl_verbs_count; i++) {
        buf_printf(out, "        '%s:", ctl_verbs[i].name);
        zsh_text_write(out, ctl_verbs[i].summary);
        buf_add_z(out, "'\n");
    }
    buf_add_z(out, "    )\n"
                   "    _describe verb verbs\n"
                   "}\n"
                   "_sagactl() {\n"
                   "    local curcontext=$curcontext state\n"
                   "    if ((CURRENT == 2)); then\n"
                   "        _sagactl_verbs\n"
                   "        return\n"
                   "    fi\n"
                   "    local verb=$words[2]\n"
                   "    shift words\n"
                   "    ((CURRENT--))\n"
                   "    case $verb in\n");
    for (size_t i = 0; i < ctl_verbs_count; i++)
        zsh_verb_write(out, &ctl_verbs[i]);
    buf_add_z(out, "    esac\n"
                   "}\n"
                   "compdef _sagactl sagactl\n");
}

/* --- fish ------------------------------------------------------------------------------------ */

static void fish_text_write(struct buf *out, const char *text)
{
    buf_add_char(out, '\'');
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            buf_add_char(out, '\\');
        buf_add_char(out, *text);
    }
    buf_add_char(out, '\'');
}

static void fish_option_write(struct buf *out, const char *verb,
                              const struct ctl_verb_option *entry)
{
    const struct ctl_option *option = &ctl_options[entry->id];
    buf_add_z(out, "complete -c sagactl");
    if (verb)
        buf_printf(out, " -n '__fish_seen_subcommand_from %s'", verb);
    if (option->letter)
        buf_printf(out, " -s %c", option->letter);
    buf_printf(out, " -l %s", option->name);
    if (option->value)
        buf_add_z(out, strcmp(option->value, "PATH") == 0 ? " -r -F" : " -x");
    if (option->choices) {
        buf_add_z(out, " -a '");
        choices_write(out, option->choices, ' ');
        buf_add_char(out, '\'');
    } else if (option->value && strcmp(option->value, "WORKFLOW") == 0) {
        buf_add_z(out, " -a '(sagactl workflows -q 2>/dev/null)'");
    }
    buf_add_z(out, " -d ");
    fish_text_write(out, entry->help);
    buf_add_char(out, '\n');
}

static void fish_args_write(struct buf *out, const struct ctl_verb *verb)
{
    if (verb->arg == CTL_ARG_NONE)
        return;
    buf_printf(out, "complete -c sagactl -n '__fish_seen_subcommand_from %s'", verb->name);
    switch (verb->arg) {
    case CTL_ARG_NONE: break;
    case CTL_ARG_FILE: buf_add_z(out, " -F"); break;
    case CTL_ARG_WORKFLOW: buf_add_z(out, " -a '(sagactl workflows -q 2>/dev/null)'"); break;
    case CTL_ARG_RUN: buf_add_z(out, " -a '(sagactl list -q --limit 200 2>/dev/null)'"); break;
    case CTL_ARG_WORD:
        buf_add_z(out, " -a '");
        choices_write(out, verb->words, ' ');
        buf_add_char(out, '\'');
        break;
    }
    buf_add_char(out, '\n');
}

static void fish_write(struct buf *out)
{
    buf_add_z(out, "# fish completion for sagactl: sagactl completion fish | source\n"
                   "complete -c sagactl -f\n");
    for (size_t i = 0; i < ctl_global_options_count; i++)
        fish_option_write(out, NULL, &ctl_global_options[i]);
    for (size_t i = 0; i < ctl_verbs_count; i++) {
        const struct ctl_verb *verb = &ctl_verbs[i];
        buf_printf(out, "complete -c sagactl -n __fish_use_subcommand -a %s -d ", verb->name);
        fish_text_write(out, verb->summary);
        buf_add_char(out, '\n');
        for (size_t j = 0; j < CTL_VERB_OPTIONS_MAX && verb->options[j].id; j++)
            fish_option_write(out, verb->name, &verb->options[j]);
        fish_args_write(out, verb);
    }
}

int ctl_verb_completion(struct ctl *ctl)
{
    const char *shell = ctl->args[0];
    if (strcmp(shell, "bash") == 0)
        bash_write(&ctl->out);
    else if (strcmp(shell, "zsh") == 0)
        zsh_write(&ctl->out);
    else if (strcmp(shell, "fish") == 0)
        fish_write(&ctl->out);
    else
        return ctl_usage(ctl, "there is no completion for \"%s\", only for bash, zsh and fish",
                         shell);
    return CTL_OK;
}
