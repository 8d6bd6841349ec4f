/*
 * str.h: a borrowed run of bytes with its length.
 *
 * A `struct str` never owns its bytes; its header or parameter comment says who does. The bytes
 * need not end in NUL, but every str made by an arena or a buf does have a NUL after its last
 * byte, so `.ptr` of such a str may be passed to C functions. A zeroed str is "absent"
 * (ptr == NULL); an empty text has ptr != NULL and len == 0.
 */
#ifndef BASE_STR_H
#define BASE_STR_H

#include "engine/base/base.h"

#include <string.h>

struct str {
    const char *ptr;
    size_t len;
};

#define STR(literal) ((struct str){(literal), sizeof(literal) - 1})
#define STR_NONE ((struct str){NULL, 0})
#define STR_FMT "%.*s"
#define STR_ARG(s) (int)(s).len, (s).ptr ? (s).ptr : ""

static inline struct str str_z(const char *text)
{
    return (struct str){text, text ? strlen(text) : 0};
}

static inline bool str_eq(struct str a, struct str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline bool str_eq_z(struct str a, const char *text)
{
    return str_eq(a, str_z(text));
}

static inline bool str_starts(struct str text, struct str prefix)
{
    return text.len >= prefix.len && memcmp(text.ptr, prefix.ptr, prefix.len) == 0;
}

/* Order by bytes, shorter first on a tie: the order of COLLATE "C". */
int str_cmp(struct str a, struct str b);
uint64_t str_hash(struct str text);

/* Bytes before the first one that is not ASCII. */
size_t str_ascii_len(struct str text);

/* True if the bytes are well-formed UTF-8 (RFC 3629: no surrogates, no overlong forms, no more
 * than U+10FFFF). NUL is accepted here; whoever stores text refuses it by name. */
bool str_is_utf8(struct str text);

#endif
