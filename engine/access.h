/*
 * access.h: who may do what on the control socket.
 *
 * Roles are a ladder; each may do what the ones before it may:
 *
 *     read      look at everything, check a file without registering it
 *     submit    start runs, send signals and answers, take tasks and report on them
 *     operate   the operator's verbs
 *     admin     register workflows, and whatever is not listed
 *
 * The config gives them to users and groups of this machine; who is calling is what the kernel says
 * (control.h). Without `roles` in the config everyone who can open the socket is admin: its mode is
 * the boundary then. A grant may be bound to tenants: it then holds for their runs alone, and for
 * what belongs to no run; calls about the runs of several tenants at once need one that is bound to
 * none. Root and the user that the daemon runs as are always admin: neither can be kept from the
 * daemon's memory and files.
 */
#ifndef ENGINE_ACCESS_H
#define ENGINE_ACCESS_H

#include "engine/base/str.h"
#include "engine/control.h"

enum access_role { ROLE_NONE, ROLE_READ, ROLE_SUBMIT, ROLE_OPERATE, ROLE_ADMIN };
#define ACCESS_ROLES_COUNT (ROLE_ADMIN + 1)

struct access_grant {
    enum access_role role;
    bool is_group;
    uint32_t id; /* uid or gid */
    const char *const *tenants;
    uint16_t tenants_count; /* 0: it is bound to none */
};

/* What a call is about, for callers whose grant is bound to tenants. */
enum access_reach {
    REACH_NONE,  /* nothing for them */
    REACH_FREE,  /* no run */
    REACH_SEEN,  /* the runs that the caller sees */
    REACH_RUN,   /* the run in its path */
    REACH_START, /* a new run */
};

struct access { /* {0}: the config says nothing */
    const struct access_grant *grants;
    uint16_t count;
    bool is_set;
};

const char *access_role_name(enum access_role role);
/* ROLE_NONE: there is no such role. */
enum access_role access_role_of(struct str name);

/* Reads "user:NAME", "uid:N", "group:NAME" or "gid:N"; the role is left alone. NULL if all is
 * well, else what is wrong. Asks the machine's lists of users and groups. */
const char *access_grant_parse(struct str text, struct access_grant *out);

/* The highest role of a caller that is bound to no tenant; `groups` are all of its groups. `own`:
 * whom the daemon runs as. */
enum access_role access_role_held(const struct access *access, uid_t own, uid_t uid,
                                  const gid_t *groups, size_t groups_count);
/* The tenants for whose runs a caller has at least this role, as a JSON list in `arena`; NULL:
 * none. Grants that are bound to none are not looked at. */
const char *access_tenants(const struct access *access, uid_t uid, const gid_t *groups,
                           size_t groups_count, enum access_role role, struct arena *arena);
enum access_reach access_reach(enum control_method method, struct str path);
/* What a call needs; `path` is decoded. A call that is not known needs admin. */
enum access_role access_role_needed(enum control_method method, struct str path);

#endif
