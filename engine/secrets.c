#include "engine/secrets.h"
#include "dsl/expr.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define NAME_BYTES_MAX 63
#define NESTED_LEVELS 4   /* of JSON texts in JSON strings */
#define BASE64_CORE_MIN 6 /* shorter pieces stand in any text by chance */

struct secret {
    struct secret *next;
    char name[NAME_BYTES_MAX + 1];
    struct str value;     /* own memory */
    struct str base64[3]; /* what its encoding surely holds, by its place in a group of three */
    bool retired;         /* masked, never resolved */
};

struct secrets {
    struct secret *list;
    bool starts[256]; /* bytes that some form of some secret may begin with */
};

struct secrets *secrets_new(void)
{
    return xcalloc(1, sizeof(struct secrets));
}

static void text_wipe(struct str text)
{
    if (text.ptr)
        explicit_bzero((char *)text.ptr, text.len);
    free((char *)text.ptr);
}

static void secret_free(struct secret *secret)
{
    text_wipe(secret->value);
    for (size_t i = 0; i < ARRAY_LEN(secret->base64); i++)
        text_wipe(secret->base64[i]);
    free(secret);
}

void secrets_free(struct secrets *secrets)
{
    struct secret *next;
    if (!secrets)
        return;
    for (struct secret *secret = secrets->list; secret; secret = next) {
        next = secret->next;
        secret_free(secret);
    }
    free(secrets);
}

static bool name_is_valid(struct str name)
{
    if (!name.len || name.len > NAME_BYTES_MAX)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        bool letter = (c | 32) >= 'a' && (c | 32) <= 'z';
        if (!letter && !(c >= '0' && c <= '9') && !(c && strchr("_.-", c)))
            return false;
    }
    return true;
}

/* The characters of the Base64 form that depend on nothing but the secret when `before` bytes
 * stand in front of it: those that share bits with a neighbour are left out. */
static struct str base64_core(struct str value, size_t before)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t first_bit = before * 8, end_bit = (before + value.len) * 8;
    size_t first = (first_bit + 5) / 6, end = end_bit / 6;
    char *text = xmalloc(end - first + 1);
    for (size_t i = first; i < end; i++) {
        unsigned six = 0;
        for (size_t bit = i * 6; bit < i * 6 + 6; bit++) {
            unsigned char byte = (unsigned char)value.ptr[bit / 8 - before];
            six = six << 1 | (byte >> (7 - bit % 8) & 1);
        }
        text[i - first] = alphabet[six];
    }
    text[end - first] = '\0';
    return (struct str){text, end - first};
}

static char base64_plain(char c)
{
    return c == '-' ? '+' : c == '_' ? '/' : c;
}

static void starts_add(struct secrets *secrets, const struct secret *secret)
{
    secrets->starts[(unsigned char)secret->value.ptr[0]] = true;
    secrets->starts['%'] = secrets->starts['\\'] = true;
    if (secret->value.ptr[0] == ' ')
        secrets->starts['+'] = true;
    for (size_t i = 0; i < ARRAY_LEN(secret->base64); i++) {
        if (secret->base64[i].len < BASE64_CORE_MIN)
            continue;
        char first = secret->base64[i].ptr[0];
        secrets->starts[(unsigned char)first] = true;
        if (first == '+')
            secrets->starts['-'] = true;
        if (first == '/')
            secrets->starts['_'] = true;
    }
}

/* The list has the newest first. */
static void oldest_forget(struct secrets *secrets, const char *name)
{
    unsigned count = 0;
    for (struct secret **at = &secrets->list; *at;) {
        struct secret *secret = *at;
        if (strcmp(secret->name, name) == 0 && ++count > SECRET_VALUES_MAX) {
            *at = secret->next;
            secret_free(secret);
        } else {
            at = &secret->next;
        }
    }
}

int secrets_add_value(struct secrets *secrets, const char *name, struct str value, struct err *err)
{
    if (!name_is_valid(str_z(name)))
        return err_set(err, ERR_INVALID, "invalid name of a secret: \"%s\"", name);
    if (value.len < SECRET_BYTES_MIN)
        return err_set(err, ERR_INVALID, "secret \"%s\" is shorter than %d bytes", name,
                       SECRET_BYTES_MIN);
    if (value.len > SECRET_BYTES_MAX)
        return err_set(err, ERR_LIMIT, "secret \"%s\" is longer than %d bytes", name,
                       SECRET_BYTES_MAX);
    if (memchr(value.ptr, '\0', value.len) || !str_is_utf8(value))
        return err_set(err, ERR_INVALID, "secret \"%s\" is not UTF-8 text", name);

    struct secret *same = NULL;
    for (struct secret *old = secrets->list; old; old = old->next) {
        if (strcmp(old->name, name) != 0)
            continue;
        old->retired = true;
        if (str_eq(old->value, value))
            same = old;
    }
    if (same) { /* a reload must not grow the list */
        same->retired = false;
        return 0;
    }
    struct secret *secret = xcalloc(1, sizeof(*secret));
    strcpy(secret->name, name);
    char *copy = xmalloc(value.len + 1);
    memcpy(copy, value.ptr, value.len);
    copy[value.len] = '\0';
    secret->value = (struct str){copy, value.len};
    for (size_t i = 0; i < ARRAY_LEN(secret->base64); i++)
        secret->base64[i] = base64_core(secret->value, i);
    secret->next = secrets->list;
    secrets->list = secret;
    starts_add(secrets, secret);
    oldest_forget(secrets, name);
    return 0;
}

static int file_read(const char *name, const char *path, struct buf *out, struct err *err)
{
    ssize_t got = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return err_set(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO,
                       "could not read secret \"%s\" from \"%s\": %s", name, path, strerror(errno));
    while (out->len <= SECRET_BYTES_MAX) {
        size_t before = out->len;
        char *room = buf_room(out, 4096);
        got = read(fd, room, 4096);
        out->len = before + (size_t)MAX(got, 0);
        if (got <= 0)
            break;
    }
    int failed = got < 0 ? errno : 0;
    close(fd);
    if (failed)
        return err_set(err, ERR_IO, "could not read secret \"%s\" from \"%s\": %s", name, path,
                       strerror(failed));
    if (out->len && out->data[out->len - 1] == '\n')
        out->len--;
    if (out->len && out->data[out->len - 1] == '\r')
        out->len--;
    return 0;
}

int secrets_add(struct secrets *secrets, const char *name, const char *source, struct err *err)
{
    int code;
    if (strncmp(source, "env:", 4) == 0) {
        const char *value = getenv(source + 4);
        if (!value)
            return err_set(err, ERR_NOT_FOUND,
                           "secret \"%s\": there is no environment variable \"%s\"", name,
                           source + 4);
        return secrets_add_value(secrets, name, str_z(value), err);
    }
    if (strncmp(source, "file:", 5) != 0)
        return err_set(err, ERR_INVALID, "secret \"%s\" must come from file:PATH or env:NAME",
                       name);
    struct buf value = {0};
    code = file_read(name, source + 5, &value, err);
    if (!code)
        code = secrets_add_value(secrets, name, buf_str(&value), err);
    if (value.data)
        explicit_bzero(value.data, value.size);
    buf_free(&value);
    return code;
}

void secrets_retire(struct secrets *secrets)
{
    for (struct secret *secret = secrets->list; secret; secret = secret->next)
        secret->retired = true;
}

bool secrets_in(struct str text)
{
    return text.len && memchr(text.ptr, EXPR_SECRET_MARK & 0xFF, text.len);
}

static const struct secret *secret_find(const struct secrets *secrets, struct str name)
{
    const struct secret *secret = secrets ? secrets->list : NULL;
    while (secret && (secret->retired || !str_eq_z(name, secret->name)))
        secret = secret->next;
    return secret;
}

int secrets_resolve(const struct secrets *secrets, struct str text, struct arena *arena,
                    struct str *out, struct err *err)
{
    struct buf joined = {0};
    const int mark = EXPR_SECRET_MARK & 0xFF;
    int code = 0;
    *out = text;
    if (!secrets_in(text))
        return 0;
    for (size_t at = 0; at < text.len && !code;) {
        const char *from = text.ptr + at, *name = memchr(from, mark, text.len - at);
        buf_add(&joined, from, name ? (size_t)(name - from) : text.len - at);
        if (!name)
            break;
        name++;
        const char *end = memchr(name, mark, (size_t)(text.ptr + text.len - name));
        struct str reference = {name, end ? (size_t)(end - name) : 0};
        const struct secret *secret = secret_find(secrets, reference);
        if (!end || !name_is_valid(reference))
            code = err_set(err, ERR_INVALID, "a reference to a secret is broken");
        else if (!secret)
            code = err_set(err, ERR_NOT_FOUND, "secret \"" STR_FMT "\" is not configured",
                           STR_ARG(reference));
        else
            buf_add_str(&joined, secret->value);
        at = end ? (size_t)(end - text.ptr) + 1 : text.len;
    }
    if (!code)
        *out = arena_str(arena, buf_str(&joined));
    if (joined.data)
        explicit_bzero(joined.data, joined.size);
    buf_free(&joined);
    return code;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* `digits` hex digits at text[at], or -1. */
static int64_t hex_read(struct str text, size_t at, size_t digits)
{
    int64_t value = 0;
    if (at + digits > text.len)
        return -1;
    for (size_t i = at; i < at + digits; i++) {
        int digit = hex_value(text.ptr[i]);
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

static size_t utf8_put(int64_t code, char *to)
{
    if (code < 0x80)
        return to[0] = (char)code, 1;
    if (code < 0x800)
        return to[0] = (char)(0xC0 | code >> 6), to[1] = (char)(0x80 | (code & 63)), 2;
    if (code < 0x10000) {
        to[0] = (char)(0xE0 | code >> 12);
        to[1] = (char)(0x80 | (code >> 6 & 63));
        to[2] = (char)(0x80 | (code & 63));
        return 3;
    }
    to[0] = (char)(0xF0 | code >> 18);
    to[1] = (char)(0x80 | (code >> 12 & 63));
    to[2] = (char)(0x80 | (code >> 6 & 63));
    to[3] = (char)(0x80 | (code & 63));
    return 4;
}

static size_t backslashes(struct str text, size_t at)
{
    size_t count = 0;
    while (at + count < text.len && text.ptr[at + count] == '\\')
        count++;
    return count;
}

/* Decodes the JSON escape at text[at], as it is written in a text that stands in `level` - 1
 * further JSON strings: there each backslash is doubled as often, and so is each quote escaped.
 * Returns how many bytes it took (0: no escape), and in `to` the bytes it means. */
static size_t escape_read(struct str text, size_t at, unsigned level, char to[4], size_t *len)
{
    static const char names[] = "/bfnrt", values[] = "/\b\f\n\r\t";
    size_t half = (size_t)1 << (level - 1), run = backslashes(text, at);
    char c = at + run < text.len ? text.ptr[at + run] : 0;
    const char *simple = c ? strchr(names, c) : NULL;
    *len = 1;
    if (run >= 2 * half)
        return to[0] = '\\', 2 * half;
    if (run == 2 * half - 1 && c == '"')
        return to[0] = '"', run + 1;
    if (run == half && simple)
        return to[0] = values[simple - names], run + 1;
    int64_t code = run == half && c == 'u' ? hex_read(text, at + run + 1, 4) : -1;
    if (code < 0)
        return 0;
    size_t took = run + 5;
    if (code >= 0xD800 && code < 0xDC00 && backslashes(text, at + took) == half &&
        at + took + half < text.len && text.ptr[at + took + half] == 'u') {
        int64_t low = hex_read(text, at + took + half + 1, 4);
        if (low >= 0xDC00 && low < 0xE000) {
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
            took += half + 5;
        }
    }
    *len = utf8_put(code, to);
    return took;
}

/* Length of what stands at text[at] and means `value`, or 0. Each byte may be written plainly or
 * in any of the encodings, whatever the next one uses. */
static size_t plain_match(struct str text, size_t at, struct str value, unsigned level)
{
    size_t from = at, done = 0;
    while (done < value.len) {
        char bytes[4];
        size_t len = 0, took = 0;
        if (at >= text.len)
            return 0;
        char c = text.ptr[at];
        int64_t hex = c == '%' ? hex_read(text, at + 1, 2) : -1;
        if (hex == (unsigned char)value.ptr[done]) {
            at += 3;
            done++;
            continue;
        }
        if (c == '\\')
            took = escape_read(text, at, level, bytes, &len);
        if (took && len <= value.len - done && memcmp(bytes, value.ptr + done, len) == 0) {
            at += took;
            done += len;
            continue;
        }
        if (c != value.ptr[done] && !(c == '+' && value.ptr[done] == ' '))
            return 0;
        at++;
        done++;
    }
    return at - from;
}

/* Length of what stands at text[at] and spells the Base64 `core`, in either alphabet, its `+` and
 * `/` plainly or encoded; or 0. */
static size_t base64_match(struct str text, size_t at, struct str core, unsigned level)
{
    size_t from = at;
    if (core.len < BASE64_CORE_MIN)
        return 0;
    for (size_t i = 0; i < core.len; i++) {
        char bytes[4];
        size_t len = 0, took = 0;
        if (at >= text.len)
            return 0;
        int64_t hex = text.ptr[at] == '%' ? hex_read(text, at + 1, 2) : -1;
        if (text.ptr[at] == '\\')
            took = escape_read(text, at, level, bytes, &len);
        char c = hex >= 0 ? (char)hex : took && len == 1 ? bytes[0] : text.ptr[at];
        if (base64_plain(c) != core.ptr[i])
            return 0;
        at += hex >= 0 ? 3 : took ? took : 1;
    }
    return at - from;
}

static size_t secret_match(const struct secret *secret, struct str text, size_t at, unsigned levels)
{
    size_t len = 0;
    for (unsigned level = 1; level <= levels && !len; level++) {
        len = plain_match(text, at, secret->value, level);
        for (size_t i = 0; !len && i < ARRAY_LEN(secret->base64); i++)
            len = base64_match(text, at, secret->base64[i], level);
    }
    return len;
}

/* True if text[at, at + len) is a whole JSON number outside quotes: replaced by a bare word it
 * would break the document. */
static bool is_bare_number(struct str text, size_t at, size_t len)
{
    for (size_t i = at; i < at + len; i++)
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
    size_t before = at, after = at + len;
    while (before > 0 && strchr(" \t\r\n", text.ptr[before - 1]) && text.ptr[before - 1])
        before--;
    while (after < text.len && strchr(" \t\r\n", text.ptr[after]) && text.ptr[after])
        after++;
    bool opens = before == 0 || (text.ptr[before - 1] && strchr(":,[", text.ptr[before - 1]));
    bool closes = after == text.len || (text.ptr[after] && strchr(",]}", text.ptr[after]));
    return opens && closes;
}

struct str secrets_mask(const struct secrets *secrets, struct str text, struct arena *arena)
{
    struct buf masked = {0};
    size_t kept = 0;
    if (!secrets || !secrets->list || !text.ptr)
        return text;
    /* An error often quotes a whole JSON text. */
    unsigned levels = memmem(text.ptr, text.len, "\\\\", 2) ? NESTED_LEVELS : 1;
    for (size_t at = 0; at < text.len;) {
        const struct secret *found = NULL;
        size_t len = 0;
        if (secrets->starts[(unsigned char)text.ptr[at]])
            for (const struct secret *secret = secrets->list; secret; secret = secret->next) {
                size_t match = secret_match(secret, text, at, levels);
                if (match > len) /* one secret may begin with another */
                    len = match, found = secret;
            }
        if (!found) {
            at++;
            continue;
        }
        const char *quote = is_bare_number(text, at, len) ? "\"" : "";
        buf_add(&masked, text.ptr + kept, at - kept);
        buf_printf(&masked, "%s***%s***%s", quote, found->name, quote);
        at += len;
        kept = at;
    }
    if (!kept)
        return text;
    buf_add(&masked, text.ptr + kept, text.len - kept);
    struct str out = arena_str(arena, buf_str(&masked));
    buf_free(&masked);
    return out;
}
