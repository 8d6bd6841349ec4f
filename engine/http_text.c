#include "engine/http_text.h"

#include <strings.h>

static bool is_one_of(struct str text, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (text.len == strlen(list[i]) && strncasecmp(text.ptr, list[i], text.len) == 0)
            return true;
    return false;
}

static bool is_token(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c <= ' ' || c >= 127 || strchr("()<>@,;:\\\"/[]?={}", c))
            return false;
    }
    return text.len > 0;
}

void http_url_split(const char *url, struct arena *arena, const char **base, struct str *target)
{
    const char *host = strstr(url, "://");
    const char *path = host ? strchr(host + strlen("://"), '/') : NULL;
    *base = path ? arena_str(arena, (struct str){url, (size_t)(path - url)}).ptr : url;
    *target = path ? str_z(path) : STR("/");
}

const char *http_header_problem(struct str name, struct str value)
{
    /* Who sets these sets where the request ends, or which connection it takes. */
    static const char *const ours[] = {
        "Content-Length", "Transfer-Encoding", "Connection",       "Expect", "Upgrade", "TE",
        "Trailer",        "Keep-Alive",        "Proxy-Connection", "Host"};
    if (!is_token(name))
        return "the name is not a header name";
    if (is_one_of(name, ours, ARRAY_LEN(ours)))
        return "it cannot be set by a workflow";
    if (value.len > HTTP_HEADER_VALUE_BYTES_MAX)
        return "the value is longer than 16 KiB";
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.ptr[i];
        if (c < ' ' || c == 127)
            return "the value has a control character";
        if (c > 127)
            return "the value is not ASCII";
    }
    return NULL;
}

/* True if a path segment means "here" or "up", however it is spelled. */
static bool is_dot_segment(struct str segment)
{
    size_t dots = 0;
    for (size_t at = 0; at < segment.len; dots++) {
        struct str rest = {segment.ptr + at, segment.len - at};
        if (rest.ptr[0] == '.')
            at++;
        else if (rest.len >= 3 && strncasecmp(rest.ptr, "%2e", 3) == 0)
            at += 3;
        else
            return false;
    }
    return dots == 1 || dots == 2;
}

const char *http_target_problem(struct str target)
{
    if (!target.len || target.ptr[0] != '/')
        return "the path does not start with a slash";
    if (target.len > HTTP_TARGET_BYTES_MAX)
        return "path and query are longer than 16 KiB";
    for (size_t i = 0; i < target.len; i++) {
        unsigned char c = (unsigned char)target.ptr[i];
        if (c <= ' ' || c >= 127 || c == '#' || c == '\\')
            return "path or query have a character that must be percent-encoded";
    }
    const char *query = memchr(target.ptr, '?', target.len);
    size_t end = query ? (size_t)(query - target.ptr) : target.len;
    for (size_t from = 1; from <= end;) {
        const char *slash = memchr(target.ptr + from, '/', end - from);
        size_t to = slash ? (size_t)(slash - target.ptr) : end;
        if (is_dot_segment((struct str){target.ptr + from, to - from}))
            return "the path has a segment \".\" or \"..\"";
        from = to + 1;
    }
    return NULL;
}

const char *http_url_problem(struct str url)
{
    size_t scheme = str_starts(url, STR("http://")) ? 7 : str_starts(url, STR("https://")) ? 8 : 0;
    if (!scheme)
        return "it does not start with http:// or https://";
    if (url.len == scheme || url.ptr[scheme] == '/' || url.ptr[scheme] == ':')
        return "it has no host";
    for (size_t i = 0; i < url.len; i++) {
        unsigned char c = (unsigned char)url.ptr[i];
        if (c <= ' ' || c >= 127)
            return "it has a character that must be percent-encoded";
        if (strchr("?#@\\", c))
            return "it has a user, a query or a fragment";
    }
    return NULL;
}

struct str http_base64(struct str data, struct arena *arena)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = arena_alloc(arena, (data.len + 2) / 3 * 4 + 1), *to = text;
    for (size_t i = 0; i < data.len; i += 3) {
        size_t left = data.len - i;
        uint32_t group = (uint32_t)(unsigned char)data.ptr[i] << 16;
        if (left > 1)
            group |= (uint32_t)(unsigned char)data.ptr[i + 1] << 8;
        if (left > 2)
            group |= (unsigned char)data.ptr[i + 2];
        *to++ = digits[group >> 18];
        *to++ = digits[group >> 12 & 63];
        *to++ = left > 1 ? digits[group >> 6 & 63] : '=';
        *to++ = left > 2 ? digits[group & 63] : '=';
    }
    return (struct str){text, (size_t)(to - text)};
}

static struct str trim(struct str text)
{
    while (text.len && strchr(" \t\r\n", text.ptr[text.len - 1]))
        text.len--;
    while (text.len && strchr(" \t", *text.ptr))
        text.ptr++, text.len--;
    return text;
}

static struct str value_copy(struct str value, struct arena *arena)
{
    struct str copy = arena_str(arena, value);
    bool utf8 = str_is_utf8(value);
    for (char *p = (char *)copy.ptr; p < copy.ptr + copy.len; p++) {
        unsigned char c = (unsigned char)*p;
        if (c < ' ' || c == 127 || (c > 127 && !utf8))
            *p = '?';
    }
    return copy;
}

static struct str name_copy(struct str name, struct arena *arena)
{
    struct str copy = arena_str(arena, name);
    for (char *p = (char *)copy.ptr; p < copy.ptr + copy.len; p++)
        if (*p >= 'A' && *p <= 'Z')
            *p = (char)(*p + 32);
    return copy;
}

struct request_pair *http_head_parse(struct str head, struct arena *arena, uint16_t *count)
{
    size_t lines = 0;
    *count = 0;
    for (size_t i = 0; i < head.len; i++)
        lines += head.ptr[i] == '\n';
    struct request_pair *pairs = arena_array(arena, struct request_pair, lines + 1);
    for (size_t from = 0; from < head.len && *count < UINT16_MAX;) {
        const char *line = head.ptr + from, *end = memchr(line, '\n', head.len - from);
        size_t len = end ? (size_t)(end - line) : head.len - from;
        const char *colon = memchr(line, ':', len);
        struct str name = {line, colon ? (size_t)(colon - line) : 0};
        /* Status lines, folded lines and rubbish have no name before a colon. */
        if (colon && is_token(name)) {
            struct str value = {colon + 1, len - name.len - 1};
            pairs[*count].name = name_copy(name, arena);
            pairs[(*count)++].value = value_copy(trim(value), arena);
        }
        from += len + 1;
    }
    return pairs;
}

struct str http_header_get(const struct request_pair *headers, uint16_t count, const char *name)
{
    for (uint16_t i = 0; i < count; i++)
        if (str_eq_z(headers[i].name, name))
            return headers[i].value;
    return STR_NONE;
}

/* The value of `charset=` in a Content-Type; absent: none. */
static struct str charset_of(struct str type)
{
    for (size_t i = 0; i + 8 < type.len; i++) {
        if (strncasecmp(type.ptr + i, "charset=", 8) != 0 ||
            (i && !strchr("; \t", type.ptr[i - 1])))
            continue;
        struct str charset = {type.ptr + i + 8, 0};
        if (*charset.ptr == '"' || *charset.ptr == '\'')
            charset.ptr++;
        const char *end = type.ptr + type.len;
        while (charset.ptr + charset.len < end && !strchr("\"'; \t", charset.ptr[charset.len]))
            charset.len++;
        return charset;
    }
    return STR_NONE;
}

static struct str latin1_convert(struct str body, struct arena *arena)
{
    size_t high = 0;
    for (size_t i = 0; i < body.len; i++)
        high += (unsigned char)body.ptr[i] > 127;
    char *text = arena_alloc(arena, body.len + high + 1), *to = text;
    for (size_t i = 0; i < body.len; i++) {
        unsigned char c = (unsigned char)body.ptr[i];
        if (c > 127)
            *to++ = (char)(0xC0 | c >> 6), *to++ = (char)(0x80 | (c & 63));
        else
            *to++ = (char)c;
    }
    return (struct str){text, (size_t)(to - text)};
}

struct str http_body_text(struct str body, const struct request_pair *headers, uint16_t count,
                          struct arena *arena)
{
    static const char *const utf8[] = {"utf-8", "utf8", "us-ascii", "ascii"};
    static const char *const latin1[] = {"iso-8859-1", "latin1", "iso_8859-1"};
    struct str coding = http_header_get(headers, count, "content-encoding");
    struct str charset = charset_of(http_header_get(headers, count, "content-type"));
    if (coding.len && !(coding.len == 8 && strncasecmp(coding.ptr, "identity", 8) == 0))
        return STR_NONE;
    if (charset.len && is_one_of(charset, latin1, ARRAY_LEN(latin1)))
        body = latin1_convert(body, arena);
    else if (charset.len && !is_one_of(charset, utf8, ARRAY_LEN(utf8)))
        return STR_NONE;
    if (str_starts(body, STR("\xEF\xBB\xBF")))
        body = (struct str){body.ptr + 3, body.len - 3};
    if (body.len > BODY_BYTES_MAX || memchr(body.ptr, '\0', body.len) || !str_is_utf8(body))
        return STR_NONE;
    return body;
}
