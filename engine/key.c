#include "engine/key.h"

#include <openssl/sha.h>
#include <stdio.h>

/* Made once for this engine, as RFC 9562 asks of a namespace: random, never to change. */
static const uint8_t key_namespace[16] = {0x5a, 0x67, 0x1b, 0xc4, 0x0e, 0x92, 0x4f, 0x3d,
                                          0xa8, 0x51, 0x7c, 0x2e, 0xd6, 0x09, 0xb3, 0x48};

struct str key_instance(const struct plan_step *step, struct str item, struct arena *arena)
{
    if (!item.len)
        return str_z(step->id);
    return arena_printf(arena, "%s." STR_FMT, step->id, STR_ARG(item));
}

struct str key_make(struct str run_id, struct str instance, enum direction direction,
                    uint16_t generation, struct arena *arena)
{
    char suffix[8] = "";
    if (generation > 1)
        snprintf(suffix, sizeof(suffix), "@%u", generation);
    struct str key = arena_printf(arena, STR_FMT ":" STR_FMT ":%s%s", STR_ARG(run_id),
                                  STR_ARG(instance), direction_name(direction), suffix);
    ASSERT(key.len <= KEY_BYTES_MAX);
    return key;
}

struct str key_child(struct str parent, struct str instance, uint16_t generation,
                     struct arena *arena)
{
    char suffix[8] = "", hex[65];
    if (generation > 1)
        snprintf(suffix, sizeof(suffix), "@%u", generation);
    struct str id =
        arena_printf(arena, STR_FMT "~" STR_FMT "%s", STR_ARG(parent), STR_ARG(instance), suffix);
    if (id.len <= CHILD_ID_BYTES_MAX)
        return id;
    struct sha256 hash = sha256_of(id);
    sha256_hex(&hash, hex);
    return arena_printf(arena, "%.*s~%.32s", CHILD_ID_BYTES_MAX - 33, id.ptr, hex);
}

/* The part after the last `c`, cut off from `text`; absent if there is none. */
static struct str tail_cut(struct str *text, char c)
{
    const char *at = text->len ? memrchr(text->ptr, c, text->len) : NULL;
    if (!at)
        return STR_NONE;
    struct str tail = {at + 1, text->len - (size_t)(at + 1 - text->ptr)};
    text->len = (size_t)(at - text->ptr);
    return tail;
}

static bool generation_read(struct str text, uint16_t *out)
{
    unsigned value = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9' || value > UINT16_MAX)
            return false;
        value = value * 10 + (unsigned)(text.ptr[i] - '0');
    }
    *out = (uint16_t)value;
    return text.ptr[0] != '0' && value > 1 && value <= UINT16_MAX;
}

bool key_parse(struct str key, struct str *instance, enum direction *direction,
               uint16_t *generation)
{
    struct str type = tail_cut(&key, ':');
    struct str number = tail_cut(&type, '@');
    *instance = tail_cut(&key, ':');
    *direction = direction_of(type);
    *generation = 1;
    if (number.ptr && (!number.len || !generation_read(number, generation)))
        return false;
    return *direction != DIRECTION_NONE && instance->len && key.len;
}

struct str key_run_id(struct str key)
{
    const char *colon = key.len ? memchr(key.ptr, ':', key.len) : NULL;
    return (struct str){key.ptr, colon ? (size_t)(colon - key.ptr) : 0};
}

/* UUIDv5 (RFC 9562): SHA-1 over namespace and name; SHA-1 is what that version is defined by. */
static struct str key_uuid(struct str key, struct arena *arena)
{
    uint8_t digest[SHA_DIGEST_LENGTH];
    struct buf name = {0};
    buf_add(&name, key_namespace, sizeof(key_namespace));
    buf_add_str(&name, key);
    SHA1((const unsigned char *)name.data, name.len, digest);
    buf_free(&name);
    digest[6] = (uint8_t)((digest[6] & 0x0F) | 0x50);
    digest[8] = (uint8_t)((digest[8] & 0x3F) | 0x80);
    const uint8_t *d = digest;
    return arena_printf(
        arena, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", d[0], d[1],
        d[2], d[3], d[4], d[5], d[6], d[7], d[8], d[9], d[10], d[11], d[12], d[13], d[14], d[15]);
}

struct str key_format(struct str key, enum key_format format, struct arena *arena)
{
    char hex[65];
    switch (format) {
    case KEY_FORMAT_PLAIN: return key;
    case KEY_FORMAT_UUID: return key_uuid(key, arena);
    case KEY_FORMAT_SHA256: {
        struct sha256 hash = sha256_of(key);
        sha256_hex(&hash, hex);
        return arena_str(arena, str_z(hex));
    }
    }
    ASSERT(!"a key format");
    return STR_NONE;
}

int key_run_id_check(struct str run_id, struct err *err)
{
    if (!run_id.len)
        return err_set(err, ERR_INVALID, "the run id is empty");
    if (run_id.len > RUN_ID_BYTES_MAX)
        return err_set(err, ERR_INVALID, "the run id has %zu characters, %d are allowed",
                       run_id.len, RUN_ID_BYTES_MAX);
    for (size_t i = 0; i < run_id.len; i++) {
        char c = run_id.ptr[i];
        bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
        if (!ok)
            return err_set(err, ERR_INVALID,
                           "the run id has a character at position %zu that is not one of "
                           "A-Z a-z 0-9 . _ -",
                           i + 1);
    }
    return 0;
}

/* Length-prefixed parts: no two different requests give the same bytes. */
static void part_add(struct buf *buf, struct str part)
{
    buf_add_be64(buf, part.ptr ? part.len : UINT64_MAX);
    buf_add_str(buf, part);
}

struct sha256 key_request_hash(const struct request *request, const struct json *body_json)
{
    struct buf all = {0};
    const struct plan_action *action = request->action;
    part_add(&all, str_z(action_kind_name(action->kind)));
    part_add(&all, request->service ? str_z(request->service->name) : STR_NONE);
    if (action->kind == ACTION_HTTP)
        part_add(&all, str_z(http_method_name(action->http.method)));
    if (action->kind == ACTION_SQL)
        part_add(&all, str_z(action->sql.statement));
    if (action->kind == ACTION_CHILD)
        part_add(&all, str_z(action->child.workflow));
    part_add(&all, request->target);
    for (uint16_t i = 0; i < request->args_count; i++)
        part_add(&all, request->args[i]);
    if (body_json) {
        struct buf canonical = {0};
        json_write_canonical(body_json, &canonical);
        part_add(&all, buf_str(&canonical));
        buf_free(&canonical);
    } else {
        part_add(&all, request->body);
    }
    struct sha256 hash = sha256_of(buf_str(&all));
    buf_free(&all);
    return hash;
}
