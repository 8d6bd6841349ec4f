#include "engine/ctl_json.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static size_t space_skip(struct str text, size_t at)
{
    while (at < text.len && is_space(text.ptr[at]))
        at++;
    return at;
}

/* The end of the token at `at`: a string, one of []{},: or a word. */
static size_t token_end(struct str text, size_t at)
{
    if (text.ptr[at] == '"') {
        for (at++; at < text.len && text.ptr[at] != '"'; at++)
            if (text.ptr[at] == '\\')
                at++;
        return MIN(at + 1, text.len);
    }
    if (strchr("[]{},:", text.ptr[at]))
        return at + 1;
    while (at < text.len && !is_space(text.ptr[at]) && !strchr("[]{},:\"", text.ptr[at]))
        at++;
    return at;
}

/* The end of the value at `at`, whatever it holds. */
static size_t value_end(struct str text, size_t at)
{
    size_t depth = 0;
    while (at < text.len) {
        char c = text.ptr[at];
        at = token_end(text, at);
        if (c == '[' || c == '{')
            depth++;
        else if ((c == ']' || c == '}') && depth)
            depth--;
        if (!depth)
            break;
        at = space_skip(text, at);
    }
    return at;
}

/* --- layout ---------------------------------------------------------------------------------- */

static void line_start(struct buf *out, size_t depth)
{
    buf_add_char(out, '\n');
    for (size_t i = 0; i < depth; i++)
        buf_add_z(out, "  ");
}

void ctl_json_pretty(struct str text, struct buf *out)
{
    size_t depth = 0, at = space_skip(text, 0);
    while (at < text.len) {
        char c = text.ptr[at];
        size_t end = token_end(text, at), next = space_skip(text, end);
        bool closes = next < text.len && (text.ptr[next] == ']' || text.ptr[next] == '}');
        if ((c == ']' || c == '}') && depth) {
            depth--;
            if (out->data[out->len - 1] != '[' && out->data[out->len - 1] != '{')
                line_start(out, depth);
        }
        buf_add(out, text.ptr + at, end - at);
        if (c == '[' || c == '{') {
            depth++;
            if (!closes)
                line_start(out, depth);
        } else if (c == ',') {
            line_start(out, depth);
        } else if (c == ':') {
            buf_add_char(out, ' ');
        }
        at = next;
    }
    buf_add_char(out, '\n');
}

void ctl_json_compact(struct str text, struct buf *out)
{
    size_t at = space_skip(text, 0);
    while (at < text.len) {
        size_t end = token_end(text, at);
        buf_add(out, text.ptr + at, end - at);
        at = space_skip(text, end);
    }
    buf_add_char(out, '\n');
}

/* --- parts ----------------------------------------------------------------------------------- */

struct str ctl_json_member(struct str text, const char *name)
{
    size_t at = space_skip(text, 0);
    if (at == text.len || text.ptr[at] != '{')
        return STR_NONE;
    at = space_skip(text, at + 1);
    while (at < text.len && text.ptr[at] == '"') {
        size_t end = token_end(text, at);
        struct str found = {text.ptr + at + 1, end - at - 2};
        at = space_skip(text, space_skip(text, end) + 1);
        end = value_end(text, at);
        if (str_eq_z(found, name))
            return (struct str){text.ptr + at, end - at};
        at = space_skip(text, end);
        if (at < text.len && text.ptr[at] == ',')
            at = space_skip(text, at + 1);
    }
    return STR_NONE;
}

struct str ctl_json_next_item(struct str *rest)
{
    size_t at = space_skip(*rest, 0);
    if (at < rest->len && (rest->ptr[at] == '[' || rest->ptr[at] == ','))
        at = space_skip(*rest, at + 1);
    if (at >= rest->len || rest->ptr[at] == ']')
        return STR_NONE;
    size_t end = value_end(*rest, at);
    struct str item = {rest->ptr + at, end - at};
    *rest = (struct str){rest->ptr + end, rest->len - end};
    return item;
}

/* --- reading --------------------------------------------------------------------------------- */

#define DEPTH_READ_MAX 48 /* what an answer's own members need is far less */

static struct str deep_cut(struct str text, struct arena *arena)
{
    struct buf out = {0};
    size_t depth = 0, at = space_skip(text, 0);
    while (at < text.len) {
        char c = text.ptr[at];
        size_t end = token_end(text, at);
        if ((c == '[' || c == '{') && depth == DEPTH_READ_MAX) {
            end = value_end(text, at);
            buf_add_z(&out, "\"(nested too deep to be shown)\"");
        } else {
            depth += c == '[' || c == '{';
            depth -= (c == ']' || c == '}') && depth;
            buf_add(&out, text.ptr + at, end - at);
        }
        at = space_skip(text, end);
    }
    struct str kept = arena_str(arena, buf_str(&out));
    buf_free(&out);
    return kept;
}

int ctl_json_parse(struct str text, struct arena *arena, const struct json **out, struct err *err)
{
    if (json_parse(text, arena, out, err) == 0)
        return 0;
    return json_parse(deep_cut(text, arena), arena, out, err);
}
