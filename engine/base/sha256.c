#include "engine/base/sha256.h"

#include <openssl/sha.h>

struct sha256 sha256_of(struct str data)
{
    struct sha256 hash;
    SHA256((const unsigned char *)data.ptr, data.len, hash.bytes);
    return hash;
}

void sha256_hex(const struct sha256 *hash, char out[65])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < sizeof(hash->bytes); i++) {
        out[2 * i] = digits[hash->bytes[i] >> 4];
        out[2 * i + 1] = digits[hash->bytes[i] & 15];
    }
    out[64] = '\0';
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool sha256_from_hex(struct str hex, struct sha256 *out)
{
    if (hex.len != 64)
        return false;
    for (size_t i = 0; i < 32; i++) {
        int high = hex_digit(hex.ptr[2 * i]), low = hex_digit(hex.ptr[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        out->bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

uint32_t crc32c(uint32_t crc, const void *data, size_t len)
{
    const unsigned char *p = data;
    crc = ~crc;
    while (len--) {
        crc ^= *p++;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82F63B78) : 0);
    }
    return ~crc;
}
