#include "engine/egress.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>

struct address {
    uint8_t bytes[16];
};

#define V4(a, b, c, d)                                       \
    {                                                        \
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, a, b, c, d \
    }
#define MAPPED_BITS 96

static const struct known_range {
    struct egress_range range;
    const char *problem;
} never[] = {
    {{V4(0, 0, 0, 0), 104, true}, "it is unspecified"},
    {{V4(169, 254, 0, 0), 112, true}, "it is link-local, where metadata services live"},
    {{V4(100, 100, 100, 200), 128, true}, "it is a metadata service"},
    {{V4(168, 63, 129, 16), 128, true}, "it is a metadata service"},
    {{V4(192, 0, 0, 192), 128, true}, "it is a metadata service"},
    {{V4(224, 0, 0, 0), 100, true}, "it is multicast"},
    {{V4(240, 0, 0, 0), 100, true}, "it is reserved or broadcast"},
    {{{0}, 128, true}, "it is unspecified"},
    {{{0xFE, 0x80}, 10, true}, "it is link-local"},
    {{{0xFF}, 8, true}, "it is multicast"},
    {{{0xFD, 0x00, 0x0E, 0xC2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54}, 128, true},
     "it is a metadata service"},
    {{{0xFD, 0x20, 0x00, 0xCE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54}, 128, true},
     "it is a metadata service"},
};

static const struct egress_range inside[] = {
    {V4(127, 0, 0, 0), 104, false},
    {V4(10, 0, 0, 0), 104, false},
    {V4(172, 16, 0, 0), 108, false},
    {V4(192, 168, 0, 0), 112, false},
    {V4(100, 64, 0, 0), 106, false},
    {V4(192, 0, 0, 0), 120, false},
    {V4(198, 18, 0, 0), 111, false},
    {{[15] = 1}, 128, false},
    {{0xFC}, 7, false},
    {{0xFE, 0xC0}, 10, false},
};

static bool range_holds(const struct egress_range *range, const struct address *address)
{
    unsigned whole = range->bits / 8, rest = range->bits % 8;
    uint8_t mask = (uint8_t)(0xFF00u >> rest);
    return memcmp(range->address, address->bytes, whole) == 0 &&
           (!rest || ((range->address[whole] ^ address->bytes[whole]) & mask) == 0);
}

static void v4_set(struct address *address, const uint8_t v4[4])
{
    *address = (struct address){.bytes = {[10] = 0xFF, [11] = 0xFF}};
    memcpy(address->bytes + 12, v4, 4);
}

/* The IPv4 address that an IPv6 one carries takes its place. */
static void v6_set(struct address *address, const uint8_t v6[16])
{
    static const uint8_t zeros[16], nat64[12] = {0x00, 0x64, 0xFF, 0x9B}, to4[2] = {0x20, 0x02};
    memcpy(address->bytes, v6, 16);
    if (memcmp(v6, nat64, 12) == 0)
        v4_set(address, v6 + 12);
    else if (memcmp(v6, to4, 2) == 0)
        v4_set(address, v6 + 2);
    else if (memcmp(v6, zeros, 12) == 0 && memcmp(v6, zeros, 15) != 0)
        v4_set(address, v6 + 12);
}

/* False: no address of IP. */
static bool address_read(const struct sockaddr *from, struct address *out)
{
    if (from->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, from, sizeof(in));
        v4_set(out, (const uint8_t *)&in.sin_addr);
        return true;
    }
    if (from->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, from, sizeof(in6));
        v6_set(out, in6.sin6_addr.s6_addr);
        return true;
    }
    return false;
}

static bool text_read(struct str text, struct address *out, bool *is_v4)
{
    char copy[INET6_ADDRSTRLEN];
    uint8_t bytes[16];
    if (text.len >= 2 && text.ptr[0] == '[' && text.ptr[text.len - 1] == ']')
        text = (struct str){text.ptr + 1, text.len - 2};
    if (text.len >= sizeof(copy))
        return false;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    *is_v4 = inet_pton(AF_INET, copy, bytes) == 1;
    if (*is_v4)
        v4_set(out, bytes);
    else if (inet_pton(AF_INET6, copy, bytes) == 1)
        memcpy(out->bytes, bytes, 16);
    else
        return false;
    return true;
}

const char *egress_range_parse(struct str text, struct egress_range *out)
{
    const char *slash = text.len ? memchr(text.ptr, '/', text.len) : NULL;
    struct str host = {text.ptr, slash ? (size_t)(slash - text.ptr) : text.len};
    struct address address;
    bool is_v4;
    if (!text_read(host, &address, &is_v4))
        return "it is no address like 10.0.0.0/8 or fd00::/8";
    unsigned most = is_v4 ? 32 : 128, bits = slash ? 0 : most;
    if (slash) {
        size_t digits = text.len - host.len - 1;
        for (size_t i = 0; i < digits && digits <= 3; i++) {
            unsigned digit = (unsigned)(unsigned char)slash[1 + i] - '0';
            bits = digit > 9 ? 1000 : bits * 10 + digit;
        }
        if (!digits || digits > 3 || bits > most)
            return is_v4 ? "the length of its prefix must be 0 to 32"
                         : "the length of its prefix must be 0 to 128";
    }
    memcpy(out->address, address.bytes, 16);
    out->bits = (uint8_t)(is_v4 ? bits + MAPPED_BITS : bits);
    for (unsigned bit = out->bits; bit < 128; bit++)
        if (address.bytes[bit / 8] & (0x80u >> bit % 8))
            return "there are bits behind its prefix";
    return NULL;
}

bool egress_host_is_address(struct str host)
{
    struct address address;
    bool is_v4;
    return text_read(host, &address, &is_v4);
}

static bool is_inside(const struct address *address)
{
    for (size_t i = 0; i < ARRAY_LEN(inside); i++)
        if (range_holds(&inside[i], address))
            return true;
    return false;
}

/* A name that no public name server answers for. */
static bool is_local_name(struct str host)
{
    static const char *const ends[] = {"localhost", "local", "internal",
                                       "home.arpa", "test",  "svc"};
    if (host.len && host.ptr[host.len - 1] == '.')
        host.len--;
    if (!memchr(host.ptr, '.', host.len))
        return true;
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        size_t len = strlen(ends[i]);
        if (host.len > len && host.ptr[host.len - len - 1] == '.' &&
            strncasecmp(host.ptr + host.len - len, ends[i], len) == 0)
            return true;
    }
    return false;
}

const char *egress_problem(const struct egress *egress, struct str host,
                           const struct sockaddr *address)
{
    const struct egress_range *best = NULL;
    struct address to, said;
    bool is_v4;
    if (!address_read(address, &to))
        return "it is no internet address";
    for (size_t i = 0; i < ARRAY_LEN(never); i++)
        if (range_holds(&never[i].range, &to))
            return never[i].problem;
    for (uint16_t i = 0; egress && i < egress->count; i++) {
        const struct egress_range *range = &egress->ranges[i];
        if (range_holds(range, &to) &&
            (!best || range->bits > best->bits || (range->bits == best->bits && range->deny)))
            best = range;
    }
    if (best)
        return best->deny ? "egress.deny of the config holds it" : NULL;
    if (!is_inside(&to))
        return NULL;
    /* An address in the URL is the one that is connected to, however it is written. */
    if (text_read(host, &said, &is_v4) || is_local_name(host))
        return NULL;
    return "it is a loopback or private address, and the name is a public one; if that is meant, "
           "put its range into egress.allow of the config";
}
