#include "engine/base/buf.h"

#include <stdio.h>
#include <stdlib.h>

void buf_free(struct buf *buf)
{
    free(buf->data);
    *buf = (struct buf){0};
}

void buf_clear(struct buf *buf)
{
    buf->len = 0;
    if (buf->data)
        buf->data[0] = '\0';
}

char *buf_room(struct buf *buf, size_t len)
{
    ASSERT(len < SIZE_MAX / 4);
    if (buf->len + len + 1 > buf->size) {
        buf->size = MAX(buf->len + len + 1, MAX(buf->size * 2, (size_t)128));
        buf->data = xrealloc(buf->data, buf->size);
    }
    char *room = buf->data + buf->len;
    buf->len += len;
    buf->data[buf->len] = '\0';
    return room;
}

void buf_add(struct buf *buf, const void *data, size_t len)
{
    char *room = buf_room(buf, len);
    if (len)
        memcpy(room, data, len);
}

void buf_add_str(struct buf *buf, struct str text)
{
    buf_add(buf, text.ptr, text.len);
}

void buf_add_z(struct buf *buf, const char *text)
{
    buf_add(buf, text, strlen(text));
}

void buf_add_char(struct buf *buf, char c)
{
    *buf_room(buf, 1) = c;
}

void buf_vprintf(struct buf *buf, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, fmt, args);
    ASSERT(len >= 0);
    char *room = buf_room(buf, (size_t)len);
    vsnprintf(room, (size_t)len + 1, fmt, again);
    va_end(again);
}

void buf_printf(struct buf *buf, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    buf_vprintf(buf, fmt, args);
    va_end(args);
}

void buf_drain(struct buf *buf, size_t len)
{
    ASSERT(len <= buf->len);
    if (!len)
        return;
    memmove(buf->data, buf->data + len, buf->len - len + 1);
    buf->len -= len;
}

struct str buf_str(const struct buf *buf)
{
    return buf->data ? (struct str){buf->data, buf->len} : STR("");
}

void buf_add_be16(struct buf *buf, uint16_t value)
{
    unsigned char *p = (unsigned char *)buf_room(buf, 2);
    p[0] = (unsigned char)(value >> 8);
    p[1] = (unsigned char)value;
}

void buf_add_be32(struct buf *buf, uint32_t value)
{
    buf_add_be16(buf, (uint16_t)(value >> 16));
    buf_add_be16(buf, (uint16_t)value);
}

void buf_add_be64(struct buf *buf, uint64_t value)
{
    buf_add_be32(buf, (uint32_t)(value >> 32));
    buf_add_be32(buf, (uint32_t)value);
}
