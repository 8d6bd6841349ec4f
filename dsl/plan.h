/*
 * plan.h: the compiled form of a workflow: what the engine reads instead of YAML.
 *
 * A plan is immutable, type-checked, and shared by all runs of its workflow; the state of a run is
 * a parallel structure (engine/run.h). Everything hangs in the plan's own arena. Defaults are
 * already filled in: readers never look at `defaults` or at a service for a timeout. Durations are
 * microseconds; 0 means "none" unless said otherwise.
 *
 * Both directions of a step are one `struct plan_action`, so that the walks treat an action and
 * its compensation alike.
 */
#ifndef DSL_PLAN_H
#define DSL_PLAN_H

#include "dsl/expr.h"
#include "engine/base/sha256.h"

#define PLAN_STEPS_MAX 500
#define PLAN_LOCK_BYTES_MAX 256
#define PLAN_STEP_NONE UINT16_MAX
#define PLAN_SERVICE_NONE UINT16_MAX

#define EFFECT_TIERS(X)                  \
    X(EFFECT_PURE, "pure")               \
    X(EFFECT_IDEMPOTENT, "idempotent")   \
    X(EFFECT_COMPENSABLE, "compensable") \
    X(EFFECT_IRREVERSIBLE, "irreversible")
enum effect_tier {
    EFFECT_NONE,
#define X(id, name) id,
    EFFECT_TIERS(X)
#undef X
};

#define ACTION_KINDS(X)                                                       \
    X(ACTION_HTTP, "http")                                                    \
    X(ACTION_SQL, "sql")                                                      \
    X(ACTION_EXEC, "exec")                                                    \
    X(ACTION_WORKER, "worker")     /* a task in a queue that programs poll */ \
    X(ACTION_CHILD, "child")       /* another workflow's run */               \
    X(ACTION_SLEEP, "sleep")       /* waits a while */                        \
    X(ACTION_UNTIL, "until")       /* waits until a time */                   \
    X(ACTION_WAIT_FOR, "wait_for") /* waits for a signal */
enum action_kind {
    ACTION_NONE,
#define X(id, name) id,
    ACTION_KINDS(X)
#undef X
};

/* The outcome of one attempt (semantics: engine/outcome.h). */
#define OUTCOMES(X)                                                                        \
    X(OUTCOME_APPLIED, "applied")                                                          \
    X(OUTCOME_REFUSED, "refused")         /* permanently, certainly not applied by it */   \
    X(OUTCOME_RETRYABLE, "retryable")     /* not applied, may work later */                \
    X(OUTCOME_IN_PROGRESS, "in_progress") /* ask or send again later; costs budget only */ \
    X(OUTCOME_UNKNOWN, "unknown")         /* may or may not have been applied */           \
    X(OUTCOME_CONFLICT, "conflict")       /* the participant holds the key with other data */
enum outcome {
    OUTCOME_NONE,
#define X(id, name) id,
    OUTCOMES(X)
#undef X
};

#define ON_FAILURES(X)                     \
    X(ON_FAILURE_COMPENSATE, "compensate") \
    X(ON_FAILURE_CONTINUE, "continue")     \
    X(ON_FAILURE_PARK, "park")             \
    X(ON_FAILURE_REPAIR, "repair")
enum on_failure {
    ON_FAILURE_NONE,
#define X(id, name) id,
    ON_FAILURES(X)
#undef X
};

/* What a `wait_for` does whose signal does not come in time. */
#define ON_TIMEOUTS(X)                                            \
    X(ON_TIMEOUT_REFUSED, "refused")   /* the step has failed */  \
    X(ON_TIMEOUT_CONTINUE, "continue") /* applied, output null */ \
    X(ON_TIMEOUT_PARK, "park")
enum on_timeout {
    ON_TIMEOUT_NONE,
#define X(id, name) id,
    ON_TIMEOUTS(X)
#undef X
};

/* What follows an outcome that stays unknown; none: what the tier says (engine/unknown.h). */
#define ON_UNKNOWNS(X)                                                                    \
    X(ON_UNKNOWN_RECONCILE, "reconcile")                                                  \
    X(ON_UNKNOWN_RETRY, "retry")           /* the same bytes again, under the same key */ \
    X(ON_UNKNOWN_COMPENSATE, "compensate") /* the run turns back */                       \
    X(ON_UNKNOWN_CONTINUE, "continue")     /* listed in the residue */                    \
    X(ON_UNKNOWN_PARK, "park")
enum on_unknown {
    ON_UNKNOWN_NONE,
#define X(id, name) id,
    ON_UNKNOWNS(X)
#undef X
};

#define HTTP_METHODS(X)    \
    X(HTTP_GET, "get")     \
    X(HTTP_POST, "post")   \
    X(HTTP_PUT, "put")     \
    X(HTTP_PATCH, "patch") \
    X(HTTP_DELETE, "delete")
enum http_method {
    HTTP_METHOD_NONE,
#define X(id, name) id,
    HTTP_METHODS(X)
#undef X
};

/* Each returns the name of the table above, "none" for 0. */
const char *effect_tier_name(enum effect_tier tier);
const char *action_kind_name(enum action_kind kind);
const char *outcome_name(enum outcome outcome);
const char *on_failure_name(enum on_failure on_failure);
const char *http_method_name(enum http_method method);
const char *on_timeout_name(enum on_timeout on_timeout);
const char *on_unknown_name(enum on_unknown on_unknown);

/* Waiting is all they do: nothing is sent, nothing needs a key, nobody else takes part. */
static inline bool action_kind_waits(enum action_kind kind)
{
    return kind == ACTION_SLEEP || kind == ACTION_UNTIL || kind == ACTION_WAIT_FOR;
}

enum body_kind { BODY_NONE, BODY_JSON, BODY_FORM, BODY_TEXT };

/* KEY_PLACE_TASK: a worker gets it with its task. KEY_PLACE_GUARD: a database keeps it, by the
 * participant kit (engine/guard.h); nothing is sent to one that has none. */
enum key_place {
    KEY_PLACE_NONE,
    KEY_PLACE_HEADER,
    KEY_PLACE_QUERY,
    KEY_PLACE_BODY,
    KEY_PLACE_TASK,
    KEY_PLACE_GUARD
};
enum key_format { KEY_FORMAT_PLAIN, KEY_FORMAT_UUID, KEY_FORMAT_SHA256 };

/* How a participant takes the key. The header is sent always (`Idempotency-Key` by default); the
 * key counts as honoured only where a ttl is declared. */
struct plan_idempotency {
    enum key_place place; /* KEY_PLACE_NONE: declared `none` or not declared */
    const char *name;     /* header, query parameter or JSON pointer */
    enum key_format format;
    int64_t ttl_us;
    int64_t settle_after_us;
    bool forgets_failures; /* a refusal is not stored: it may be tried again under its key */
};

/* First match wins, before the default table. */
struct plan_outcome_rule {
    const struct expr *when;
    enum outcome is;
};

struct plan_retry {
    uint32_t attempts;     /* sends, 1 = no retry */
    int64_t delay_us;      /* before the second send */
    uint32_t factor_milli; /* 2000 = doubles */
    int64_t max_delay_us;
    uint32_t jitter_percent;
    int64_t budget_us; /* wall-clock over all sends */
};

struct plan_named { /* a header, query parameter, form field or environment entry */
    const char *name;
    const struct template *value;
};

struct plan_reconcile;

struct plan_action {
    enum action_kind kind; /* ACTION_NONE: there is no such action */
    enum effect_tier effect;
    uint16_t service;   /* PLAN_SERVICE_NONE: the engine's own database, or a kind without one */
    int64_t timeout_us; /* of one attempt, never 0; of a wait_for and a child, 0: no limit;
                         * 0 for sleep and until */
    struct plan_retry retry;
    bool tolerant; /* compensations: undoing what never happened is harmless */
    struct plan_idempotency idempotency;      /* effective: the action's, else its service's */
    const struct plan_outcome_rule *outcomes; /* the action's, then its service's */
    uint16_t outcomes_count;
    uint32_t line;                          /* in the source, for messages */
    const struct plan_reconcile *reconcile; /* NULL: the participant cannot be asked */
    enum on_unknown on_unknown;

    union {
        struct {
            enum http_method method;
            const struct template *path; /* after SERVICE, starts with "/"; percent-encoded */
            /* Of a read: gives an address as the service wrote it, of which path and query count,
             * from the root of the service's host; NULL: `path` holds. */
            const struct expr *location;
            const struct plan_named *query, *headers;
            uint16_t query_count, headers_count;
            enum body_kind body_kind;
            const struct template *body;   /* BODY_JSON, BODY_TEXT */
            const struct plan_named *form; /* BODY_FORM */
            uint16_t form_count;
        } http;
        struct {
            const char *statement;
            const struct template *const *params;
            uint16_t params_count;
        } sql;
        struct {
            const struct template *const *argv; /* at least the program */
            const struct plan_named *env;
            uint16_t argv_count, env_count;
            const struct template *stdin_body; /* NULL: nothing on stdin */
        } exec;
        struct {
            const struct template *duration; /* renders to a duration text */
            int64_t duration_us;             /* when it is a literal, else 0 */
        } sleep;
        struct {
            const struct expr *until; /* gives a time, or the RFC 3339 text of one */
        } until;
        struct {
            const char *signal;
            enum on_timeout on_timeout;
        } wait_for;
        struct {
            const char *queue;
            const struct template *payload; /* NULL: null */
            int64_t schedule_timeout_us;    /* until a worker takes it; 0: no limit */
            int64_t heartbeat_us;           /* a taken task is lost without a sign for that long;
                                             * 0: only the timeout counts */
        } worker;
        struct {
            const char *workflow;
            const struct template *input; /* NULL: {} */
            bool detached;                /* not waited for, never undone */
        } child;
    };
};

/* How to ask whether an action was applied. The expressions are tried in this order and read
 * `response` and `answer`; NULL: never true. None true, or the read itself failing: cannot tell. */
struct plan_reconcile {
    struct plan_action ask; /* HTTP_GET, ACTION_SQL or ACTION_EXEC; pure */
    const struct expr *applied, *in_progress, *refused, *not_applied;
    const struct template *output; /* of the step, once it is found to be applied; NULL: null */
    int64_t every_us, max_every_us, for_us;
    int64_t settle_after_us; /* its own, else the service's */
};

/* What may be sent to a service at once and over time, and when nothing is sent for a while
 * (engine/gate.h). All zero: no limits, the engine keeps no books about the service. */
struct plan_limits {
    uint32_t in_flight;        /* requests without an answer; 0: any number */
    uint32_t rate;             /* requests each rate_per_us; 0: any number */
    int64_t rate_per_us;       /* a second, minute or hour */
    bool retries_limited;      /* repeats have a share of the traffic: */
    uint32_t retry_percent;    /* of the first tries, on top of them */
    uint32_t breaker_failures; /* within breaker_window_us open it; 0: there is no breaker */
    int64_t breaker_window_us, breaker_open_us;
};

static inline bool plan_limits_any(const struct plan_limits *limits)
{
    return limits->in_flight || limits->rate || limits->retries_limited || limits->breaker_failures;
}

enum auth_kind { AUTH_NONE, AUTH_BEARER, AUTH_BASIC, AUTH_OAUTH2 };

struct plan_service {
    const char *name;
    const char *url; /* base URL without a trailing slash; NULL: only the daemon's config has it */
    const struct plan_named *headers;
    uint16_t headers_count;
    enum auth_kind auth;
    const struct template *auth_user;   /* basic: user; oauth2: client_id */
    const struct template *auth_secret; /* bearer token, basic password, oauth2 client_secret */
    const char *auth_token_url;         /* oauth2 */
    const char *auth_scope;             /* oauth2; NULL: none */
    const struct template *sign_secret; /* of the HMAC over each request; NULL: not signed */
    struct plan_idempotency idempotency;
    int64_t timeout_us; /* 0: not declared */
    const struct plan_outcome_rule *outcomes;
    uint16_t outcomes_count;
    struct plan_limits limits;
};

struct schema; /* compiled JSON Schema subset: dsl/jsonschema.h */

#define PLAN_ITEMS_MAX 10000 /* of one for_each */

enum approve_by { APPROVE_BY_ANY, APPROVE_BY_OTHER, APPROVE_BY_GROUP };

/* A person must approve the exact request before it is sent. */
struct plan_approval {
    const struct expr *condition;   /* `if`; NULL: always */
    const struct template *message; /* NULL: none */
    enum approve_by by;
    const char *group; /* APPROVE_BY_GROUP: of the daemon's `people` */
    int64_t expires_us;
    bool park; /* when nobody has decided in time; else the step is refused */
};

struct plan_step {
    const char *id;
    uint16_t index;
    uint32_t line;
    struct plan_action action;
    struct plan_action compensate; /* kind ACTION_NONE: nothing to run */
    const char *compensate_none;   /* the reason of `none: "reason"`, else NULL */
    const uint16_t *needs;         /* steps that must be done first, ascending */
    const uint16_t *needed_by;     /* the inverse, ascending */
    uint16_t needs_count, needed_by_count;
    const struct expr *condition; /* `if`, NULL: always */
    enum on_failure on_failure;
    bool pivot;
    /* Of a step with `hold`: it waits until all of these are done, those after it and others that
     * are held excepted. */
    const uint16_t *held_by;
    uint16_t held_by_count;
    bool hold;
    const struct expr *for_each;         /* gives the list; NULL: not a loop */
    const struct expr *key_by;           /* names an instance by its item; NULL: by its place */
    uint32_t max_parallel;               /* of a loop, at least 1 */
    const struct schema *output_schema;  /* NULL: anything */
    const struct plan_approval *approve; /* NULL: nobody is asked */
    /* ACTION_HTTP: shows the effect without making it, and carries no key; NULL: there is none. */
    const struct plan_action *dry_run;
    bool dry_run_hangs; /* it, the step's `if` or its items read other steps: not known before */
};

enum schedule_overlap { OVERLAP_SKIP, OVERLAP_QUEUE };
enum schedule_catch_up { CATCH_UP_NONE, CATCH_UP_LAST, CATCH_UP_ALL };

struct cron; /* engine/base/cron.h */
struct zone; /* engine/base/zone.h */

/* Starts a run per tick; its id is WORKFLOW-20261025T023000Z. */
struct plan_schedule {
    const struct cron *cron;
    const struct zone *zone; /* never NULL: UTC if not said */
    const char *cron_text, *zone_name;
    enum schedule_overlap overlap;
    enum schedule_catch_up catch_up;
    const struct template *input; /* may read `tick`; NULL: {} */
};

struct plan {
    const char *workflow;
    const char *description; /* "" if none */
    const char *version;     /* the label, else the first 12 digits of the hash */
    bool version_is_label;
    struct sha256 hash; /* of the source without `tests` */
    char hash_hex[65];
    struct str source;             /* the YAML as applied */
    bool has_tests;                /* the file holds a block of tests (dsl/tests.h) */
    const struct schema *input;    /* NULL: any object */
    const struct template *run_id; /* NULL: a UUIDv7 is made */
    const struct template *lock;   /* runs with the same value exclude each other; NULL: none */
    int64_t deadline_us;
    int64_t compensation_budget_us; /* of the way back; 0: none */
    int64_t retain_us;              /* how long a finished run is kept; 0: the daemon decides */
    int64_t compensatable_for_us; /* how long a completed run may still be undone; 0: not at all */
    const struct plan_service *services;
    const struct plan_step *steps; /* file order */
    uint16_t services_count, steps_count;
    bool is_limited;                      /* a service of it has limits or a breaker */
    const struct template *output;        /* NULL: null */
    const struct plan_schedule *schedule; /* NULL: started by nobody but submitters */

    struct arena plan_arena;
    uint32_t refs; /* plan_ref and plan_unref; single-threaded */
};

struct plan *plan_ref(const struct plan *plan);
void plan_unref(const struct plan *plan); /* NULL is allowed */
/* PLAN_STEP_NONE if there is no such step. */
uint16_t plan_step_find(const struct plan *plan, struct str id);

#endif
