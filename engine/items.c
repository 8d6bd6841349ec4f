#include "engine/items.h"

#include "engine/group.h"
#include "engine/limits.h"

#define KEY_HEX_DIGITS 32
#define SAID_BYTES_MAX 60 /* of what is kept for people of a key that is hashed */

static bool key_is_plain(struct str text)
{
    if (!text.len || text.len > ITEM_KEY_BYTES_MAX)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
        if (!ok)
            return false;
    }
    return true;
}

/* The beginning of a text, without a broken character at its end. */
static struct str beginning(struct str text, struct arena *arena)
{
    struct str cut = {text.ptr, MIN(text.len, (size_t)SAID_BYTES_MAX)};
    if (cut.len == text.len)
        return text;
    while (cut.len && !str_is_utf8(cut))
        cut.len--;
    return arena_printf(arena, STR_FMT "...", STR_ARG(cut));
}

/* `said`: what a hashed key was made of; absent: the key tells it itself. */
static int key_make_text(const struct json *value, struct arena *arena, struct str *out,
                         struct str *said, struct err *err)
{
    struct str text;
    switch (value->kind) {
    case JSON_STRING:
    case JSON_NUMBER: text = value->text; break;
    case JSON_BOOL: text = value->boolean ? STR("true") : STR("false"); break;
    case JSON_NONE:
    case JSON_NULL:
    case JSON_LIST:
    case JSON_OBJECT:
        return err_set(err, ERR_INVALID, "key_by gives %s %s, not a text or number",
                       value->kind == JSON_OBJECT ? "an" : "a", json_kind_name(value->kind));
    }
    *said = STR_NONE;
    if (key_is_plain(text)) {
        *out = text;
        return 0;
    }
    *said = beginning(text, arena);
    char hex[65];
    struct sha256 hash = sha256_of(text);
    sha256_hex(&hash, hex);
    *out = arena_str(arena, (struct str){hex, KEY_HEX_DIGITS});
    return 0;
}

static int keys_make(const struct plan_step *step, const struct json *list,
                     struct expr_scope *scope, struct arena *arena, struct str *keys,
                     struct str *said, struct err *err)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const struct json *value;
        if (!step->key_by) {
            keys[i] = arena_printf(arena, "%u", i);
            continue;
        }
        scope->item = list->items[i];
        scope->index = i;
        int code = expr_eval(step->key_by, scope, arena, &value, err);
        if (!code)
            code = key_make_text(value, arena, &keys[i], &said[i], err);
        if (code)
            return err_wrap(err, "item %u", i);
    }
    return 0;
}

static int items_write(const struct json *list, const struct str *keys, const struct str *said,
                       struct buf *out, struct err *err)
{
    buf_add_char(out, '[');
    for (uint32_t i = 0; i < list->count; i++) {
        buf_add_z(out, i ? ",[\"" : "[\"");
        buf_add_str(out, keys[i]);
        buf_add_z(out, "\",");
        json_write(list->items[i], out);
        if (said[i].ptr) {
            buf_add_char(out, ',');
            json_write_string(said[i], out);
        }
        buf_add_char(out, ']');
        if (out->len > ITEMS_BYTES_MAX)
            return err_set(
                err, ERR_INVALID,
                "the items of for_each have more than %d MiB; let them be small and name "
                "what is large",
                ITEMS_BYTES_MAX / 1024 / 1024);
    }
    buf_add_char(out, ']');
    return 0;
}

static int list_check(const struct json *list, const char **why, struct err *err)
{
    if (list->kind != JSON_LIST)
        return err_set(err, ERR_INVALID, "for_each gives %s %s, not a list",
                       list->kind == JSON_OBJECT ? "an" : "a", json_kind_name(list->kind));
    if (list->count <= PLAN_ITEMS_MAX)
        return 0;
    *why = "too_many_items";
    return err_set(err, ERR_INVALID, "for_each gives %u items, at most %d are allowed", list->count,
                   PLAN_ITEMS_MAX);
}

int items_evaluate(const struct render *render, struct arena *scratch, struct str *out,
                   const char **why, struct err *err)
{
    const struct plan_step *step = &render->run->plan->steps[render->instance->step];
    const struct json *list;
    struct expr_scope scope;
    uint32_t *table, mask, first, second;
    *why = "cannot_evaluate_for_each";
    int code = render_scope(render, scratch, &scope, err);
    if (!code)
        code = expr_eval(step->for_each, &scope, scratch, &list, err);
    if (!code)
        code = list_check(list, why, err);
    if (code)
        return code;
    struct str *keys = arena_array(scratch, struct str, list->count);
    struct str *said = arena_array(scratch, struct str, list->count);
    code = keys_make(step, list, &scope, scratch, keys, said, err);
    if (code)
        return code;
    if (!keys_index(keys, list->count, scratch, &table, &mask, &first, &second)) {
        *why = "duplicate_item";
        return err_set(err, ERR_INVALID, "items %u and %u have the same key \"" STR_FMT "\"", first,
                       second, STR_ARG(said[first].ptr ? said[first] : keys[first]));
    }
    struct buf text = {0};
    code = items_write(list, keys, said, &text, err);
    if (!code)
        *out = arena_str(scratch, buf_str(&text));
    buf_free(&text);
    if (code)
        *why = "too_many_items";
    return code;
}
