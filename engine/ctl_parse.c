/*
 * ctl_parse.c: the command line, read strictly: what is not understood is never ignored.
 */
#include "engine/ctl_verbs.h"

#include "dsl/diag.h"
#include "engine/ctl_json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Verbs of the interface that this version does not have. */
static const char verbs_later[] = "doctor|init|mcp|services|ui";

static bool words_have(const char *words, struct str word)
{
    while (words && *words) {
        size_t len = strcspn(words, "|");
        if (str_eq(word, (struct str){words, len}))
            return true;
        words += len + (words[len] == '|');
    }
    return false;
}

/* The words of "a|b|c" for diag_nearest. */
static size_t words_split(struct ctl *ctl, const char *words, const char **out, size_t max)
{
    size_t count = 0;
    while (words && *words && count < max) {
        size_t len = strcspn(words, "|");
        out[count++] = arena_str(&ctl->arena, (struct str){words, len}).ptr;
        words += len + (words[len] == '|');
    }
    return count;
}

/* --- which option ---------------------------------------------------------------------------- */

static bool option_matches(enum ctl_opt id, struct str name)
{
    const struct ctl_option *option = &ctl_options[id];
    if (name.len == 2 && name.ptr[0] == '-' && option->letter == name.ptr[1])
        return true;
    return str_starts(name, STR("--")) &&
           str_eq_z((struct str){name.ptr + 2, name.len - 2}, option->name);
}

static enum ctl_opt option_find(const struct ctl_verb *verb, struct str name)
{
    /* A verb's own --format comes before the one of all verbs, which has its letter still. */
    for (size_t i = 0; verb && i < CTL_VERB_OPTIONS_MAX && verb->options[i].id; i++)
        if (option_matches(verb->options[i].id, name))
            return verb->options[i].id;
    for (size_t i = 0; i < ctl_global_options_count; i++)
        if (option_matches(ctl_global_options[i].id, name))
            return ctl_global_options[i].id;
    if (!verb && option_matches(OPT_VERSION, name))
        return OPT_VERSION;
    return OPT_NONE;
}

static int option_unknown(struct ctl *ctl, struct str name)
{
    const char *names[64], *nearest;
    size_t count = 0;
    struct str bare = name;
    while (bare.len && bare.ptr[0] == '-')
        bare = (struct str){bare.ptr + 1, bare.len - 1};
    if (ctl->verb && words_have(ctl->verb->later, bare)) {
        ctl_say(ctl, "the option " STR_FMT " is not supported by this version of sagactl",
                STR_ARG(name));
        return CTL_USAGE;
    }
    for (size_t i = 0; i < ctl_global_options_count; i++)
        names[count++] = ctl_options[ctl_global_options[i].id].name;
    for (size_t i = 0; ctl->verb && i < CTL_VERB_OPTIONS_MAX && ctl->verb->options[i].id; i++)
        names[count++] = ctl_options[ctl->verb->options[i].id].name;
    nearest = diag_nearest(bare, names, count);
    if (nearest)
        return ctl_usage(ctl, "unknown option " STR_FMT ", did you mean --%s?", STR_ARG(name),
                         nearest);
    if (!ctl->verb)
        return ctl_usage(ctl, "unknown option " STR_FMT " before the verb", STR_ARG(name));
    return ctl_usage(ctl, "unknown option " STR_FMT, STR_ARG(name));
}

/* --- its value ------------------------------------------------------------------------------- */

static int value_check(struct ctl *ctl, enum ctl_opt id, struct str name, const char *value)
{
    const struct ctl_option *option = &ctl_options[id];
    const char *words[16], *nearest;
    int64_t duration_us;
    char *end;
    if (!*value && option->form != CTL_TEXT_ANY)
        return ctl_usage(ctl, "the option " STR_FMT " needs a value that is not empty",
                         STR_ARG(name));
    if (!str_is_utf8(str_z(value)) && id != OPT_SOCKET)
        return ctl_usage(ctl, "the value of " STR_FMT " is not UTF-8", STR_ARG(name));
    switch (option->form) {
    case CTL_FLAG:
    case CTL_TEXT:
    case CTL_TEXT_ANY:
    case CTL_JSON: return 0;
    case CTL_DURATION:
        if (duration_parse(str_z(value), &duration_us) && duration_us > 0)
            return 0;
        return ctl_usage(ctl, "\"%s\" for " STR_FMT " is not a duration like 30s, 5m or 1h30m",
                         value, STR_ARG(name));
    case CTL_COUNT:
        errno = 0;
        if (*value >= '0' && *value <= '9' && strtol(value, &end, 10) <= 1000000000 && !*end &&
            !errno)
            return 0;
        return ctl_usage(ctl, "\"%s\" for " STR_FMT " is not a number from 0 to 1000000000", value,
                         STR_ARG(name));
    case CTL_CHOICE:
        if (words_have(option->choices, str_z(value)))
            return 0;
        nearest = diag_nearest(str_z(value), words,
                               words_split(ctl, option->choices, words, ARRAY_LEN(words)));
        return ctl_usage(ctl, "\"%s\" for " STR_FMT " is not one of %s%s%s%s", value, STR_ARG(name),
                         option->choices, nearest ? ", did you mean " : "", nearest ? nearest : "",
                         nearest ? "?" : "");
    }
    return 0;
}

/* One option at argv[*at]; moves *at over its value. */
static int option_read(struct ctl *ctl, int argc, char **argv, int *at)
{
    const char *text = argv[*at], *equals = strchr(text, '='), *value = NULL;
    struct str name = str_z(text);
    if (text[1] == '-' && equals) {
        name.len = (size_t)(equals - text);
        value = equals + 1;
    } else if (text[1] != '-' && name.len > 2) { /* -ojson */
        name.len = 2;
        value = text + 2;
    }
    enum ctl_opt id = option_find(ctl->verb, name);
    if (id == OPT_NONE)
        return option_unknown(ctl, name);
    if (ctl_options[id].form == CTL_FLAG) {
        if (value)
            return ctl_usage(ctl, "the option " STR_FMT " takes no value", STR_ARG(name));
        ctl->options[id] = "";
        return 0;
    }
    if (ctl->options[id])
        return ctl_usage(ctl, "the option " STR_FMT " is given twice", STR_ARG(name));
    if (!value) {
        if (*at + 1 >= argc)
            return ctl_usage(ctl, "the option " STR_FMT " needs a value: %s", STR_ARG(name),
                             ctl_options[id].value);
        value = argv[++*at];
    }
    ctl->options[id] = value;
    return value_check(ctl, id, name, value);
}

/* --- the verb and its arguments --------------------------------------------------------------- */

static int verb_read(struct ctl *ctl, const char *name)
{
    ctl->verb = ctl_verb_find(name);
    if (ctl->verb)
        return 0;
    if (words_have(verbs_later, str_z(name))) {
        ctl_say(ctl, "\"%s\" is not supported by this version of sagactl", name);
        return CTL_USAGE;
    }
    return ctl_verb_unknown(ctl, name);
}

int ctl_verb_unknown(struct ctl *ctl, const char *name)
{
    const char *names[64], *nearest;
    size_t count = 0;
    for (size_t i = 0; i < ctl_verbs_count; i++)
        names[count++] = ctl_verbs[i].name;
    nearest = diag_nearest(str_z(name), names, count);
    ctl_say(ctl, "unknown verb \"%s\"%s%s%s; see sagactl --help", name,
            nearest ? ", did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
    return CTL_USAGE;
}

static int args_check(struct ctl *ctl)
{
    const struct ctl_verb *verb = ctl->verb;
    for (unsigned i = 0; i < ctl->args_count; i++) {
        if (!*ctl->args[i])
            return ctl_usage(ctl, "an argument of %s is empty", verb->name);
        if (verb->arg != CTL_ARG_FILE && !str_is_utf8(str_z(ctl->args[i])))
            return ctl_usage(ctl, "an argument of %s is not UTF-8", verb->name);
    }
    if (ctl->args_count < verb->args_min)
        return ctl_usage(ctl, "%s needs %s", verb->name, verb->args);
    if (ctl->args_count > verb->args_max)
        return ctl_usage(ctl, "%s takes %s, \"%s\" is too much", verb->name,
                         verb->args_max ? verb->args : "no argument", ctl->args[verb->args_max]);
    return 0;
}

static int format_choose(struct ctl *ctl)
{
    static const char *const names[] = {"table", "wide", "json", "jsonl", "name"};
    const char *name = ctl->options[OPT_FORMAT];
    if (!!name + ctl_has(ctl, OPT_JSON) + ctl_has(ctl, OPT_QUIET) > 1)
        return ctl_usage(ctl, "give only one of -o, --json and -q");
    for (size_t i = 0; name && i < ARRAY_LEN(names); i++)
        if (strcmp(name, names[i]) == 0)
            ctl->format = (enum ctl_format)i;
    if (ctl_has(ctl, OPT_JSON))
        ctl->format = CTL_FORMAT_JSON;
    if (ctl_has(ctl, OPT_QUIET))
        ctl->format = CTL_FORMAT_NAME;
    return 0;
}

int ctl_parse(struct ctl *ctl, int argc, char **argv, bool *help, bool *version)
{
    bool options_over = false;
    ctl->options = arena_array(&ctl->arena, const char *, OPT_COUNT);
    ctl->args = arena_array(&ctl->arena, const char *, (size_t)argc + 1);
    for (int at = 1; at < argc; at++) {
        const char *text = argv[at];
        int code = 0;
        if (!options_over && strcmp(text, "--") == 0)
            options_over = true;
        else if (!options_over && text[0] == '-' && text[1])
            code = option_read(ctl, argc, argv, &at);
        else if (!ctl->verb)
            code = verb_read(ctl, text);
        else
            ctl->args[ctl->args_count++] = text;
        if (code)
            return code;
    }
    *help = ctl_has(ctl, OPT_HELP);
    *version = ctl_has(ctl, OPT_VERSION);
    if (*help || *version)
        return 0;
    if (!ctl->verb)
        return ctl_usage(ctl, "say what to do");
    int code = args_check(ctl);
    return code ? code : format_choose(ctl);
}

/* --- reading options -------------------------------------------------------------------------- */

int64_t ctl_option_duration(const struct ctl *ctl, enum ctl_opt id, int64_t fallback)
{
    int64_t duration_us = fallback;
    if (ctl->options[id] && !duration_parse(str_z(ctl->options[id]), &duration_us))
        return fallback;
    return duration_us;
}

int64_t ctl_option_count(const struct ctl *ctl, enum ctl_opt id, int64_t fallback)
{
    return ctl->options[id] ? strtol(ctl->options[id], NULL, 10) : fallback;
}

#define STDIN_BYTES_MAX (64 * 1024 * 1024) /* the daemon takes far less; a device never ends */

/* Whole file or stdin into the arena. */
static int file_read(struct ctl *ctl, const char *path, struct str *out, struct err *err)
{
    struct buf text = {0};
    FILE *file = path ? fopen(path, "re") : stdin;
    size_t got;
    if (!file)
        return err_set(err, ERR_INVALID, "could not read \"%s\": %s", path, strerror(errno));
    do {
        got = fread(buf_room(&text, 65536), 1, 65536, file);
        text.len -= 65536 - got;
    } while (got && text.len <= STDIN_BYTES_MAX);
    bool failed = ferror(file) != 0;
    int why = errno;
    if (path)
        fclose(file);
    int code = 0;
    if (failed)
        code = err_set(err, ERR_INVALID, "could not read \"%s\": %s", path ? path : "stdin",
                       strerror(why));
    else if (text.len > STDIN_BYTES_MAX)
        code = err_set(err, ERR_INVALID, "\"%s\" is too large", path ? path : "stdin");
    else
        *out = arena_str(&ctl->arena, buf_str(&text));
    buf_free(&text);
    return code;
}

int ctl_option_json(struct ctl *ctl, enum ctl_opt id, struct str *out)
{
    const char *value = ctl->options[id];
    const struct json *parsed;
    struct err err;
    int code = 0;
    *out = STR_NONE;
    if (!value)
        return 0;
    if (strcmp(value, "-") == 0)
        code = file_read(ctl, NULL, out, &err);
    else if (value[0] == '@')
        code = file_read(ctl, value + 1, out, &err);
    else
        *out = str_z(value);
    if (!code && (code = json_parse(*out, &ctl->arena, &parsed, &err)) != 0)
        err_wrap(&err, "the value of --%s is not JSON", ctl_options[id].name);
    return code ? ctl_fail(ctl, &err) : 0;
}
