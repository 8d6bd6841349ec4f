/*
 * sha256.h: SHA-256 over libcrypto, and the small functions that need it.
 */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include "engine/base/arena.h"

struct sha256 {
    uint8_t bytes[32];
};

struct sha256 sha256_of(struct str data);
/* HMAC-SHA-256 (RFC 2104). */
struct sha256 sha256_hmac(struct str key, struct str data);
/* Writes 64 lower-case hex digits and a NUL. */
void sha256_hex(const struct sha256 *hash, char out[65]);
bool sha256_from_hex(struct str hex, struct sha256 *out);
static inline bool sha256_eq(const struct sha256 *a, const struct sha256 *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

/* CRC-32C (Castagnoli, reflected 0x82F63B78): the receipt of a unit. */
uint32_t crc32c(uint32_t crc, const void *data, size_t len);

#endif
