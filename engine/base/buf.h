/*
 * buf.h: a growing byte buffer on the heap. Always NUL-terminated once something was added.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "engine/base/str.h"

#include <stdarg.h>

struct buf {
    char *data;
    size_t len, size;
};

void buf_free(struct buf *buf);
void buf_clear(struct buf *buf); /* keeps the memory */
void buf_add(struct buf *buf, const void *data, size_t len);
void buf_add_str(struct buf *buf, struct str text);
void buf_add_z(struct buf *buf, const char *text);
void buf_add_char(struct buf *buf, char c);
void buf_printf(struct buf *buf, const char *fmt, ...) PRINTF_LIKE(2, 3);
void buf_vprintf(struct buf *buf, const char *fmt, va_list args);
/* Adds `len` bytes of room to be filled by the caller; valid until the next call. */
char *buf_room(struct buf *buf, size_t len);
/* Drops `len` bytes at the front. */
void buf_drain(struct buf *buf, size_t len);
struct str buf_str(const struct buf *buf); /* borrowed until the next call; "" when empty */

/* Big-endian integers: the wire order of PostgreSQL's binary format. */
void buf_add_be16(struct buf *buf, uint16_t value);
void buf_add_be32(struct buf *buf, uint32_t value);
void buf_add_be64(struct buf *buf, uint64_t value);

#endif
