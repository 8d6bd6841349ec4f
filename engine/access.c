#include "engine/access.h"

#include <grp.h>
#include <pwd.h>
#include <stdio.h>

#define NAME_BYTES_MAX 64

static const char *const names[ACCESS_ROLES_COUNT] = {
    [ROLE_NONE] = "none",       [ROLE_READ] = "read",   [ROLE_SUBMIT] = "submit",
    [ROLE_OPERATE] = "operate", [ROLE_ADMIN] = "admin",
};

/* `*` stands for one segment, `**` at the end for any number of them, none included. The first that
 * fits decides. */
static const struct {
    enum control_method method;
    const char *path;
    enum access_role needed;
} calls[] = {
    {CONTROL_GET, "/healthz", ROLE_NONE},
    {CONTROL_GET, "/readyz", ROLE_NONE},
    {CONTROL_GET, "/v1/ping", ROLE_NONE},
    {CONTROL_GET, "/**", ROLE_READ},
    {CONTROL_POST, "/v1/validate", ROLE_READ},
    {CONTROL_POST, "/v1/runs", ROLE_SUBMIT},
    {CONTROL_POST, "/v1/runs/*/signal", ROLE_SUBMIT},
    {CONTROL_POST, "/v1/answers", ROLE_SUBMIT},
    {CONTROL_POST, "/v1/queues/*/take", ROLE_SUBMIT},
    {CONTROL_POST, "/v1/tasks/*", ROLE_SUBMIT},
    {CONTROL_POST, "/v1/runs/**", ROLE_OPERATE},
    {CONTROL_POST, "/v1/bulk/*/stop", ROLE_OPERATE},
    {CONTROL_POST, "/v1/audit/verify", ROLE_OPERATE},
};

const char *access_role_name(enum access_role role)
{
    return names[role];
}

enum access_role access_role_of(struct str name)
{
    for (int role = ROLE_READ; role < ACCESS_ROLES_COUNT; role++)
        if (str_eq_z(name, names[role]))
            return (enum access_role)role;
    return ROLE_NONE;
}

static bool number_read(struct str text, uint32_t *out)
{
    uint64_t value = 0;
    if (!text.len || text.len > 10)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(text.ptr[i] - '0');
    }
    *out = (uint32_t)value;
    return value < UINT32_MAX; /* the largest is "nobody known" */
}

static bool name_look_up(const char *name, struct access_grant *out)
{
    if (out->is_group) {
        const struct group *group = getgrnam(name);
        out->id = group ? group->gr_gid : 0;
        return group != NULL;
    }
    const struct passwd *user = getpwnam(name);
    out->id = user ? user->pw_uid : 0;
    return user != NULL;
}

const char *access_grant_parse(struct str text, struct access_grant *out)
{
    static const struct {
        const char *prefix;
        bool is_group, by_name;
    } forms[] = {{"user:", false, true},
                 {"uid:", false, false},
                 {"group:", true, true},
                 {"gid:", true, false}};
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        struct str prefix = str_z(forms[i].prefix);
        if (!str_starts(text, prefix))
            continue;
        struct str rest = {text.ptr + prefix.len, text.len - prefix.len};
        char name[NAME_BYTES_MAX];
        out->is_group = forms[i].is_group;
        if (!forms[i].by_name)
            return number_read(rest, &out->id) ? NULL : "it holds no number";
        if (!rest.len || rest.len >= sizeof(name) || memchr(rest.ptr, '\0', rest.len))
            return "it holds no name";
        memcpy(name, rest.ptr, rest.len);
        name[rest.len] = '\0';
        if (name_look_up(name, out))
            return NULL;
        return out->is_group ? "this machine has no such group" : "this machine has no such user";
    }
    return "write user:NAME, uid:NUMBER, group:NAME or gid:NUMBER";
}

static bool grant_fits(const struct access_grant *grant, uid_t uid, const gid_t *groups,
                       size_t groups_count)
{
    if (!grant->is_group)
        return grant->id == uid;
    for (size_t i = 0; i < groups_count; i++)
        if (groups[i] == grant->id)
            return true;
    return false;
}

enum access_role access_role_held(const struct access *access, uid_t own, uid_t uid,
                                  const gid_t *groups, size_t groups_count)
{
    enum access_role held = ROLE_NONE;
    if (!access->is_set)
        return ROLE_ADMIN;
    if (uid == (uid_t)-1) /* the kernel did not say */
        return ROLE_NONE;
    if (uid == 0 || uid == own)
        return ROLE_ADMIN;
    for (uint16_t i = 0; i < access->count; i++)
        if (access->grants[i].role > held && !access->grants[i].tenants_count &&
            grant_fits(&access->grants[i], uid, groups, groups_count))
            held = access->grants[i].role;
    return held;
}

const char *access_tenants(const struct access *access, uid_t uid, const gid_t *groups,
                           size_t groups_count, enum access_role role, struct arena *arena)
{
    struct buf list = {0};
    for (uint16_t i = 0; i < access->count && uid != (uid_t)-1; i++) {
        const struct access_grant *grant = &access->grants[i];
        if (grant->role < role || !grant->tenants_count ||
            !grant_fits(grant, uid, groups, groups_count))
            continue;
        for (uint16_t t = 0; t < grant->tenants_count; t++) {
            buf_add_char(&list, list.len ? ',' : '[');
            json_write_string(str_z(grant->tenants[t]), &list);
        }
    }
    if (list.len)
        buf_add_char(&list, ']');
    const char *text = list.len ? arena_str(arena, buf_str(&list)).ptr : NULL;
    buf_free(&list);
    return text;
}

/* Bytes up to the next slash. */
static size_t segment_len(const char *text, size_t left)
{
    const char *slash = memchr(text, '/', left);
    return slash ? (size_t)(slash - text) : left;
}

static bool path_fits(struct str path, const char *pattern)
{
    const char *at = path.ptr, *end = path.ptr + path.len;
    while (*pattern == '/') {
        size_t wanted = strcspn(++pattern, "/");
        if (strcmp(pattern, "**") == 0)
            return true;
        if (at == end || *at != '/')
            return false;
        size_t len = segment_len(at + 1, (size_t)(end - at) - 1);
        bool any = wanted == 1 && *pattern == '*';
        if (any ? len == 0 : (len != wanted || memcmp(at + 1, pattern, len) != 0))
            return false;
        at += 1 + len;
        pattern += wanted;
    }
    return at == end;
}

enum access_reach access_reach(enum control_method method, struct str path)
{
    static const struct {
        enum control_method method;
        const char *path;
        enum access_reach reach;
    } reaches[] = {
        {CONTROL_GET, "/v1/runs", REACH_SEEN},      {CONTROL_GET, "/v1/runs/**", REACH_RUN},
        {CONTROL_POST, "/v1/runs", REACH_START},    {CONTROL_POST, "/v1/runs/**", REACH_RUN},
        {CONTROL_GET, "/v1/dead", REACH_SEEN},      {CONTROL_GET, "/v1/approvals", REACH_SEEN},
        {CONTROL_GET, "/v1/audit", REACH_SEEN},     {CONTROL_GET, "/v1/requests/*", REACH_SEEN},
        {CONTROL_GET, "/v1/workflows", REACH_FREE}, {CONTROL_GET, "/v1/workflows/*", REACH_FREE},
        {CONTROL_POST, "/v1/validate", REACH_FREE},
    };
    for (size_t i = 0; i < ARRAY_LEN(reaches); i++)
        if (reaches[i].method == method && path_fits(path, reaches[i].path))
            return reaches[i].reach;
    return REACH_NONE;
}

enum access_role access_role_needed(enum control_method method, struct str path)
{
    /* In bulk: a colon instead of a segment. */
    if (method == CONTROL_POST && str_starts(path, STR("/v1/runs:")))
        return ROLE_OPERATE;
    for (size_t i = 0; i < ARRAY_LEN(calls); i++)
        if (calls[i].method == method && path_fits(path, calls[i].path))
            return calls[i].needed;
    return ROLE_ADMIN;
}
