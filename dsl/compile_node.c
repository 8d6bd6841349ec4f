/*
 * compile_node.c: checked reading of single values, and the check of a map's keys against the
 * language's table.
 */
#include "dsl/compiler.h"

#include <stdarg.h>
#include <stdio.h>

#include "engine/base/ascii.h"
#include "engine/base/decimal.h"

#define NAMES_MAX 100 /* keys of one group, with those of actions */

static struct diag *report(struct compiler *cx, enum diag_severity severity, const char *code,
                           struct place place, const char *fmt, va_list args)
{
    char message[1024];
    vsnprintf(message, sizeof(message), fmt, args);
    size_t len = strlen(message);
    while (len && !str_is_utf8((struct str){message, len})) /* cut inside a character */
        message[--len] = '\0';
    return diag_add(cx->diags, severity, code, place.line, place.column, place.span, "%s", message);
}

struct diag *cx_error(struct compiler *cx, const char *code, struct place place, const char *fmt,
                      ...)
{
    va_list args;
    va_start(args, fmt);
    struct diag *diag = report(cx, DIAG_ERROR, code, place, fmt, args);
    va_end(args);
    return diag;
}

struct diag *cx_warning(struct compiler *cx, const char *code, struct place place, const char *fmt,
                        ...)
{
    va_list args;
    va_start(args, fmt);
    struct diag *diag = report(cx, DIAG_WARNING, code, place, fmt, args);
    va_end(args);
    return diag;
}

struct diag *node_error(struct compiler *cx, const char *code, const struct node *node,
                        const char *fmt, ...)
{
    va_list args;
    if (node->kind == NODE_NONE) /* the loader spoke of it: one mistake, one message */
        return arena_new(cx->scratch, struct diag);
    va_start(args, fmt);
    struct diag *diag = report(cx, DIAG_ERROR, code, doc_node_place(cx->doc, node), fmt, args);
    va_end(args);
    return diag;
}

struct diag *node_warning(struct compiler *cx, const char *code, const struct node *node,
                          const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    struct diag *diag = report(cx, DIAG_WARNING, code, doc_node_place(cx->doc, node), fmt, args);
    va_end(args);
    return diag;
}

struct place text_place(const struct compiler *cx, const struct node *node, size_t from, size_t to)
{
    if (diags_are_full(cx->diags)) /* the text is read from its start, for each mistake in it */
        return (struct place){0};
    return doc_text_place(cx->doc, node, from, to);
}

const char *cx_strdup(struct compiler *cx, struct str text)
{
    return arena_str(cx->arena, text.ptr ? text : STR("")).ptr;
}

/* --- keys --- */

/* Returns the key that was probably meant, or NULL. */
static const char *unknown_key(struct compiler *cx, const struct node *key, enum lang_group group)
{
    const char *names[NAMES_MAX];
    struct diag *diag = node_error(cx, "E101", key, "unknown key `" STR_FMT "` in %s",
                                   STR_ARG(key->text), lang_group_title(group));
    const char *help = lang_mistake_help(group, key->text);
    const char *nearest =
        diag_nearest(key->text, names, lang_key_names(group, names, ARRAY_LEN(names)));
    if (help)
        diag_help(cx->diags, diag, "%s", help);
    else if (nearest)
        diag_help(cx->diags, diag, "a key with a similar name exists: `%s`", nearest);
    return help ? NULL : nearest;
}

static bool starts_with_x(struct str text)
{
    return str_starts(text, STR("x-"));
}

static bool is_meant(const char *const *meant, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(meant[i], name) == 0)
            return true;
    return false;
}

bool keys_check(struct compiler *cx, const struct node *node, enum lang_group group)
{
    const char *meant[16]; /* keys that are there under a wrong name are not missing */
    size_t meant_count = 0, count;
    const struct lang_key *own = lang_group_keys(group, &count);
    if (!node_is_map(cx, node, lang_group_title(group)))
        return false;
    for (uint32_t i = 0; i < node->count; i++) {
        const struct node *key = node->pairs[i].key;
        const struct lang_key *known = lang_key_find(group, key->text);
        if (group == LANG_WORKFLOW && starts_with_x(key->text))
            continue;
        if (known && known->flags & LANG_PLANNED) {
            node_error(cx, "E105", key,
                       "`%s` is part of the language but not supported by this version",
                       known->name);
        } else if (!known) {
            const char *nearest = unknown_key(cx, key, group);
            if (nearest && meant_count < ARRAY_LEN(meant))
                meant[meant_count++] = nearest;
        }
    }
    for (size_t i = 0; i < count; i++)
        if (own[i].flags & LANG_REQUIRED && !node_get_pair(node, own[i].name) &&
            !is_meant(meant, meant_count, own[i].name))
            node_error(cx, "E102", node, "%s needs `%s`", lang_group_title(group), own[i].name);
    return true;
}

static bool form_error(struct compiler *cx, const struct node *node, const char *what,
                       const char *form)
{
    node_error(cx, "E103", node, "%s must be %s, not %s", what, form, node_kind_name(node));
    return false;
}

bool node_is_map(struct compiler *cx, const struct node *node, const char *what)
{
    return node->kind == NODE_MAP || form_error(cx, node, what, "a map");
}

/* Plain enough to be shown inside brackets. */
static bool is_word(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!ascii_is_alpha(text.ptr[i]) && !ascii_is_digit(text.ptr[i]) && text.ptr[i] != '_' &&
            text.ptr[i] != '-')
            return false;
    return text.len > 0 && text.len <= 64;
}

bool node_is_list(struct compiler *cx, const struct node *node, const char *what)
{
    if (node->kind == NODE_LIST)
        return true;
    struct diag *diag =
        node_error(cx, "E103", node, "%s must be a list, not %s", what, node_kind_name(node));
    if (node->kind == NODE_TEXT && is_word(node->text))
        diag_help(cx->diags, diag, "write `[" STR_FMT "]`", STR_ARG(node->text));
    return false;
}

/* --- single values --- */

bool read_text(struct compiler *cx, const struct node *node, const char *what, struct str *out)
{
    size_t start, end;
    if (node->kind != NODE_TEXT && node->kind != NODE_NUMBER)
        return form_error(cx, node, what, "text");
    if (template_hole_find(node->text, 0, &start, &end)) {
        cx_error(cx, "E127", text_place(cx, node, start, end + 2),
                 "%s is fixed: it cannot hold a template", what);
        return false;
    }
    *out = arena_str(cx->arena, node->text);
    return true;
}

bool read_boolean(struct compiler *cx, const struct node *node, const char *what, bool *out)
{
    struct diag *diag;
    if (node->kind == NODE_BOOL) {
        *out = node->boolean;
        return true;
    }
    diag = node_error(cx, "E103", node, "%s must be true or false, not %s", what,
                      node_kind_name(node));
    if (node_is_old_boolean(node))
        diag_help(cx->diags, diag, "write `true` or `false`: `" STR_FMT "` is text here",
                  STR_ARG(node->text));
    return false;
}

bool read_integer(struct compiler *cx, const struct node *node, const char *what, int64_t min,
                  int64_t max, int64_t *out)
{
    struct json number = {.kind = JSON_NUMBER, .text = node->text};
    if (node->kind != NODE_NUMBER)
        return form_error(cx, node, what, "a whole number");
    if (json_to_int(&number, out) && *out >= min && *out <= max)
        return true;
    node_error(cx, "E109", node, "%s must be a whole number from %lld to %lld", what,
               (long long)min, (long long)max);
    return false;
}

static bool is_iso_duration(struct str text)
{
    return text.len > 1 && text.ptr[0] == 'P' &&
           (text.ptr[1] == 'T' || (text.ptr[1] >= '0' && text.ptr[1] <= '9'));
}

bool read_duration(struct compiler *cx, const struct node *node, const char *what, int64_t min_us,
                   int64_t *out_us)
{
    struct diag *diag;
    if (node->kind == NODE_NUMBER) {
        diag = node_error(cx, "E108", node, "%s has no unit", what);
        diag_help(cx->diags, diag, "write `" STR_FMT "s` for seconds; units are ms, s, m, h and d",
                  STR_ARG(node->text));
        return false;
    }
    if (node->kind != NODE_TEXT)
        return form_error(cx, node, what, "a duration such as 30s");
    if (!duration_parse(node->text, out_us)) {
        diag = node_error(cx, "E108", node, "`" STR_FMT "` is no duration", STR_ARG(node->text));
        diag_help(cx->diags, diag,
                  is_iso_duration(node->text)
                      ? "ISO 8601 durations are not used here: write 30s, 5m, 1h30m or 7d"
                      : "write 250ms, 30s, 5m, 1h30m or 7d");
        return false;
    }
    if (*out_us > DURATION_US_MAX) {
        node_error(cx, "E109", node, "%s must be at most 3650d", what);
        return false;
    }
    if (*out_us < min_us) {
        node_error(cx, "E109", node, "%s must be at least " STR_FMT, what,
                   STR_ARG(duration_format(min_us, cx->scratch)));
        return false;
    }
    return true;
}

/* None of the choices: says which there are. */
static bool choice_error(struct compiler *cx, const struct node *node, const char *key,
                         const char *choices)
{
    struct str word = node->text;
    const char *words[16];
    size_t count = 0;
    struct buf list = {0};
    if (lang_choice_has(choices, arena_printf(cx->scratch, "!" STR_FMT, STR_ARG(word)))) {
        node_error(cx, "E105", node,
                   "`%s: " STR_FMT "` is part of the language but not supported by this version",
                   key, STR_ARG(word));
        return false;
    }
    for (const char *at = choices; at && count < ARRAY_LEN(words);
         at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL) {
        struct str choice = {at, strcspn(at, "|")};
        if (choice.ptr[0] == '!')
            continue;
        words[count] = arena_str(cx->scratch, choice).ptr;
        buf_printf(&list, "%s%s", count ? ", " : "", words[count]);
        count++;
    }
    struct diag *diag =
        node_error(cx, "E104", node, "`%s` cannot be `" STR_FMT "`", key, STR_ARG(word));
    const char *nearest = diag_nearest(word, words, count);
    if (nearest)
        diag_help(cx->diags, diag, "did you mean `%s`?", nearest);
    else
        diag_help(cx->diags, diag, "it is one of: %s", list.data);
    buf_free(&list);
    return false;
}

bool read_choice(struct compiler *cx, const struct node *node, enum lang_group group,
                 const char *key, const char *(*name)(int value), int *out)
{
    const char *choices = lang_key_find(group, str_z(key))->choices;
    if (node->kind != NODE_TEXT)
        return form_error(cx, node, arena_printf(cx->scratch, "`%s`", key).ptr, "a word");
    for (int value = 1; lang_choice_has(choices, node->text) && name(value)[0]; value++)
        if (str_eq_z(node->text, name(value))) {
            *out = value;
            return true;
        }
    return choice_error(cx, node, key, choices);
}

bool name_is_valid(struct str text, bool dash)
{
    if (text.len == 0 || text.len > 63 || text.ptr[0] < 'a' || text.ptr[0] > 'z')
        return false;
    for (size_t i = 1; i < text.len; i++) {
        char c = text.ptr[i];
        if ((c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && !(dash && c == '-'))
            return false;
    }
    return true;
}
