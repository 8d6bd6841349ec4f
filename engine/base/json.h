/*
 * json.h: JSON values in an arena, with exact numbers.
 *
 * Numbers are kept as the text they were written in (`19.90`, `1234567890123456789012`), so that
 * nothing passes through a double and every digit survives. The parser is stricter than RFC 8259
 * asks: it refuses duplicate keys, lone surrogates, malformed UTF-8, `\u0000` (PostgreSQL's JSON
 * cannot show it) and nesting past JSON_DEPTH_MAX, and names the byte offset. A tree library
 * was tried on paper and left out: it would keep numbers as 64-bit or double and hold
 * reference-counted nodes outside the arenas, while the scanner in front of it, which does all
 * the work, would be needed all the same.
 *
 * Values are immutable once built and borrow from their arena (and from the parsed text, which
 * json_parse copies where it must). Object members keep the order of the source.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/err.h"

#define JSON_DEPTH_MAX 64 /* the same as the YAML loader's: neither may recurse further */

enum json_kind {
    JSON_NONE, /* no value at all; never inside a parsed tree */
    JSON_NULL,
    JSON_BOOL,
    JSON_NUMBER,
    JSON_STRING,
    JSON_LIST,
    JSON_OBJECT,
};

struct json;

struct json_member {
    struct str name;
    const struct json *value;
};

struct json {
    enum json_kind kind;
    bool boolean;
    uint32_t count;  /* of list items or object members */
    struct str text; /* JSON_NUMBER: as written. JSON_STRING: decoded UTF-8 without NUL */
    union {
        const struct json **items;
        struct json_member *members;
    };
};

extern const struct json json_null, json_true, json_false;

/* Parses one JSON text. `text` is borrowed while the arena lives: numbers point into it. Strings
 * are copied and end in a NUL, so that `.text.ptr` of a parsed string is a C string. Errors:
 * ERR_INVALID, text says what and at which byte. */
MUST_USE int json_parse(struct str text, struct arena *arena, const struct json **out,
                        struct err *err);

/* What was refused: text that is no JSON, or JSON that holds what cannot be stored. */
struct json_refusal {
    bool unstorable;    /* `\u0000` or a lone surrogate */
    struct str pointer; /* RFC 6901: the value, or for a member's name the object; in the arena */
};

/* The same; `refusal` is filled on errors. */
MUST_USE int json_parse_where(struct str text, struct arena *arena, const struct json **out,
                              struct json_refusal *refusal, struct err *err);

const struct json *json_bool(bool value);
const struct json *json_int(struct arena *arena, int64_t value);
const struct json *json_number(struct arena *arena, struct str text); /* text must be valid */
const struct json *json_string(struct arena *arena, struct str text); /* borrows text */
const struct json *json_string_z(struct arena *arena, const char *text);

/* Builders: a list or object of known capacity. Adding past it is a programmer error. */
struct json *json_list_new(struct arena *arena, uint32_t capacity);
void json_list_add(struct json *list, const struct json *item);
struct json *json_object_new(struct arena *arena, uint32_t capacity);
void json_object_add(struct json *object, struct str name, const struct json *value);
static inline void json_object_add_z(struct json *object, const char *name,
                                     const struct json *value)
{
    json_object_add(object, str_z(name), value);
}

/* NULL if `value` is no object or has no such member. */
const struct json *json_get(const struct json *value, struct str name);
static inline const struct json *json_get_z(const struct json *value, const char *name)
{
    return json_get(value, str_z(name));
}
/* The text of a string member, or STR_NONE. */
struct str json_get_text(const struct json *value, const char *name);
/* False if `value` is not an integer that fits; `1.0` and `1e2` are not integers here. */
bool json_to_int(const struct json *value, int64_t *out);
const char *json_kind_name(enum json_kind kind); /* "null", "boolean", "number", ... */

/* Walks the text of a valid JSON list without building it: gives the text of the element at `*at`
 * and moves on; `*at` is 0 before the first. False at the end. What is no valid list ends the walk
 * somewhere, inside the text. */
bool json_list_walk(struct str text, size_t *at, struct str *out);

/* Compact text, members in their order, numbers as written, non-ASCII left as UTF-8. */
void json_write(const struct json *value, struct buf *out);
/* Indented by two spaces per level, for people. */
void json_write_pretty(const struct json *value, unsigned indent, struct buf *out);
struct str json_text(const struct json *value, struct arena *arena);
/* Writes `text` as a JSON string with its quotes. */
void json_write_string(struct str text, struct buf *out);

/* Canonical form: members sorted by name, numbers as exact decimals (`1.50`, `15e-1` and `1.5`
 * are one number and are written alike). RFC 8785 would send numbers through doubles. */
void json_write_canonical(const struct json *value, struct buf *out);
/* Equal by canonical form: order of members and spelling of numbers do not matter. */
bool json_equal(const struct json *a, const struct json *b);
/* Orders two number texts exactly, whatever their size or exponent (within +-100000). */
int json_number_cmp(struct str a, struct str b);

/* The JSON pointer of the first difference, "" if the roots differ in kind; NULL-text if equal. */
struct str json_first_difference(const struct json *a, const struct json *b, struct arena *arena);

#endif
