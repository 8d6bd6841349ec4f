/*
 * confirm.c: "EXPIRES.WORKFLOW.INPUT.MAC.RUN_ID": seconds since 1970, 12 hex digits each of the
 * hashes, so that a misfit can be named, 64 of the HMAC, which covers all of both, and the id.
 */
#include "engine/confirm.h"

#include "engine/base/buf.h"

#define SHORT_DIGITS 12

struct token {
    struct str expires, workflow, input, mac, run_id;
};

struct str confirm_plan_hash(const struct confirm *confirm, struct arena *arena)
{
    struct buf text = {0};
    char hex[65];
    buf_add_z(&text, "saga plan 1\n");
    sha256_hex(&confirm->workflow, hex);
    buf_printf(&text, "%s\n", hex);
    sha256_hex(&confirm->input, hex);
    buf_printf(&text, "%s\n", hex);
    struct sha256 hash = sha256_of(buf_str(&text));
    buf_free(&text);
    sha256_hex(&hash, hex);
    return arena_str(arena, str_z(hex));
}

/* Each part behind its length, so that no two orders give the same bytes. */
static void mac_make(const struct confirm *confirm, struct str key, struct str expires,
                     char out[65])
{
    char workflow[65], input[65];
    struct buf text = {0};
    sha256_hex(&confirm->workflow, workflow);
    sha256_hex(&confirm->input, input);
    const struct str parts[] = {STR("saga confirm 1"), expires,         str_z(workflow),
                                str_z(input),          confirm->run_id, confirm->tenant,
                                confirm->actor};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        buf_printf(&text, "%zu:" STR_FMT ",", parts[i].len, STR_ARG(parts[i]));
    buf_printf(&text, "%lld",
               wall_is_set(confirm->start_at) ? (long long)confirm->start_at.us : 0LL);
    struct sha256 mac = sha256_hmac(key, buf_str(&text));
    buf_free(&text);
    sha256_hex(&mac, out);
}

struct str confirm_token_make(const struct confirm *confirm, struct str key, struct wall expires_at,
                              struct arena *arena)
{
    char workflow[65], input[65], mac[65];
    struct str expires = arena_printf(arena, "%lld", (long long)(expires_at.us / SECOND_US));
    sha256_hex(&confirm->workflow, workflow);
    sha256_hex(&confirm->input, input);
    mac_make(confirm, key, expires, mac);
    return arena_printf(arena, STR_FMT ".%.*s.%.*s.%s." STR_FMT, STR_ARG(expires), SHORT_DIGITS,
                        workflow, SHORT_DIGITS, input, mac, STR_ARG(confirm->run_id));
}

/* Up to the next dot, which is left out. False: there is none. */
static bool part_cut(struct str *rest, struct str *out)
{
    const char *dot = rest->len ? memchr(rest->ptr, '.', rest->len) : NULL;
    if (!dot)
        return false;
    *out = (struct str){rest->ptr, (size_t)(dot - rest->ptr)};
    *rest = (struct str){dot + 1, rest->len - out->len - 1};
    return true;
}

static bool token_read(struct str text, struct token *out)
{
    out->run_id = text;
    if (!part_cut(&out->run_id, &out->expires) || !part_cut(&out->run_id, &out->workflow) ||
        !part_cut(&out->run_id, &out->input) || !part_cut(&out->run_id, &out->mac))
        return false;
    for (size_t i = 0; i < out->expires.len; i++)
        if (out->expires.ptr[i] < '0' || out->expires.ptr[i] > '9')
            return false;
    return out->expires.len && out->expires.len <= 12 && out->workflow.len == SHORT_DIGITS &&
           out->input.len == SHORT_DIGITS && out->mac.len == 64 && out->run_id.len;
}

struct str confirm_token_run_id(struct str token)
{
    struct token read;
    return token_read(token, &read) ? read.run_id : STR_NONE;
}

/* All 64 digits are looked at, however early they differ. */
static bool macs_equal(struct str given, const char made[65])
{
    unsigned differs = 0;
    for (size_t i = 0; i < 64; i++)
        differs |= (unsigned)(given.ptr[i] ^ made[i]);
    return !differs;
}

int confirm_token_check(struct str text, const struct confirm *confirm, struct str key,
                        struct wall now, struct err *err)
{
    struct token token;
    char workflow[65], input[65], mac[65];
    int64_t expires_s = 0;
    if (!token_read(text, &token))
        return err_set(err, ERR_INVALID, "this is no confirm token: a dry run gives one");
    sha256_hex(&confirm->workflow, workflow);
    sha256_hex(&confirm->input, input);
    workflow[SHORT_DIGITS] = input[SHORT_DIGITS] = 0;
    if (!str_eq_z(token.workflow, workflow))
        return err_set(err, ERR_CONFLICT,
                       "the workflow has changed since the dry run: its version was " STR_FMT
                       ", now it is %s. Look again",
                       STR_ARG(token.workflow), workflow);
    if (!str_eq_z(token.input, input))
        return err_set(err, ERR_CONFLICT, "the input is not that of the dry run: look again");
    mac_make(confirm, key, token.expires, mac);
    if (!macs_equal(token.mac, mac))
        return err_set(
            err, ERR_CONFLICT,
            "the token is not for this: another person, run id, tenant or start time, or "
            "another installation");
    for (size_t i = 0; i < token.expires.len; i++)
        expires_s = expires_s * 10 + (token.expires.ptr[i] - '0');
    if (now.us > expires_s * SECOND_US)
        return err_set(err, ERR_CONFLICT, "the token is over: it was good for 15 minutes");
    return 0;
}
