#include "engine/base/sha256.h"

#include <limits.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <string.h>

struct sha256 sha256_of(struct str data)
{
    struct sha256 hash;
    SHA256((const unsigned char *)data.ptr, data.len, hash.bytes);
    return hash;
}

struct sha256 sha256_hmac(struct str key, struct str data)
{
    struct sha256 hash;
    unsigned len = sizeof(hash.bytes);
    ASSERT(key.len <= INT_MAX);
    unsigned char *done = HMAC(EVP_sha256(), key.ptr ? key.ptr : "", (int)key.len,
                               (const unsigned char *)data.ptr, data.len, hash.bytes, &len);
    ASSERT(done && len == sizeof(hash.bytes));
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

/* Half a byte at a time, for machines without an instruction for it. */
static uint32_t crc32c_plain(uint32_t crc, const unsigned char *data, size_t len)
{
    static const uint32_t table[16] = {
        0x00000000, 0x105EC76F, 0x20BD8EDE, 0x30E349B1, 0x417B1DBC, 0x5125DAD3,
        0x61C69362, 0x7198540D, 0x82F63B78, 0x92A8FC17, 0xA24BB5A6, 0xB21572C9,
        0xC38D26C4, 0xD3D3E1AB, 0xE330A81A, 0xF36E6F75,
    };
    while (len--) {
        crc ^= *data++;
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t crc32c_sse(uint32_t crc,
                                                             const unsigned char *data, size_t len)
{
    uint64_t wide = crc, word;
    for (; len >= sizeof(word); len -= sizeof(word), data += sizeof(word)) {
        memcpy(&word, data, sizeof(word));
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    while (len--)
        crc = __builtin_ia32_crc32qi(crc, *data++);
    return crc;
}
#endif

uint32_t crc32c(uint32_t crc, const void *data, size_t len)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("sse4.2"))
        return ~crc32c_sse(~crc, data, len);
#endif
    return ~crc32c_plain(~crc, data, len);
}
