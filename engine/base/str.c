#include "engine/base/str.h"

int str_cmp(struct str a, struct str b)
{
    size_t common = MIN(a.len, b.len);
    int order = common ? memcmp(a.ptr, b.ptr, common) : 0;
    if (order)
        return order;
    return a.len < b.len ? -1 : a.len > b.len;
}

/* FNV-1a with a final mix: ids share long prefixes, so the low bits need the stirring. */
uint64_t str_hash(struct str text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < text.len; i++)
        hash = (hash ^ (unsigned char)text.ptr[i]) * UINT64_C(0x100000001b3);
    hash ^= hash >> 32;
    return hash * UINT64_C(0x9e3779b97f4a7c15) >> 7;
}

/* Length of the sequence that starts at p, or 0 if it is malformed. */
static size_t utf8_sequence(const unsigned char *p, size_t left)
{
    unsigned char lead = p[0];
    size_t len;
    unsigned char low = 0x80, high = 0xBF;

    if (lead < 0x80)
        return 1;
    if (lead >= 0xC2 && lead <= 0xDF) {
        len = 2;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
        len = 3;
        if (lead == 0xE0)
            low = 0xA0;
        if (lead == 0xED)
            high = 0x9F;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
        len = 4;
        if (lead == 0xF0)
            low = 0x90;
        if (lead == 0xF4)
            high = 0x8F;
    } else {
        return 0;
    }
    if (left < len || p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if (p[i] < 0x80 || p[i] > 0xBF)
            return 0;
    return len;
}

size_t str_ascii_len(struct str text)
{
    size_t at = 0;
    uint64_t word; /* nearly all text is ASCII, so eight bytes are looked at together */
    for (; at + sizeof(word) <= text.len; at += sizeof(word)) {
        memcpy(&word, text.ptr + at, sizeof(word));
        if (word & UINT64_C(0x8080808080808080))
            break;
    }
    while (at < text.len && (unsigned char)text.ptr[at] < 0x80)
        at++;
    return at;
}

bool str_is_utf8(struct str text)
{
    size_t at = str_ascii_len(text);
    while (at < text.len) {
        size_t len = utf8_sequence((const unsigned char *)text.ptr + at, text.len - at);
        if (!len)
            return false;
        at += len;
        at += str_ascii_len((struct str){text.ptr + at, text.len - at});
    }
    return true;
}
