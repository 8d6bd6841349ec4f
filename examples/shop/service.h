/*
 * service.h: what the three services of the shop have in common: a small HTTP server on loopback
 * that does each thing once per Idempotency-Key, and switches that make it misbehave on purpose.
 *
 * Order of work for each request to the service's own routes:
 *
 *   1. `fail`: answer 500 or 503 and do nothing, as often as told,
 *   2. a key seen before: the stored answer again, with `Idempotency-Replayed: true`; with another
 *      method, path or body: 422 `idempotency_key_reused`,
 *   3. `refuse`: say no,
 *   4. the service's own rules; its effect is in the ledger, on disk, before any answer,
 *   5. `drop`: close the connection without an answer; `slow`: answer late.
 *
 * With `keyless` step 2 is left out: that is what a service without idempotency keys does.
 */
#ifndef SHOP_SERVICE_H
#define SHOP_SERVICE_H

#include "examples/shop/effects.h"

/* A request; borrowed until the handler returns. */
struct call {
    const char *method;      /* "GET", "POST", "PUT", "DELETE" */
    struct str path;         /* decoded, starts with "/" */
    struct str query_key;    /* the query parameter `key`; absent: none */
    const struct json *body; /* NULL: none */
    struct arena *arena;     /* for the answer */
    const struct effects *effects;
};

struct answer {
    int status;
    const struct json *body;
    const char *kind;   /* of the effect; NULL: there is none */
    struct str subject; /* of the effect */
};

struct service {
    const char *name;
    int port; /* unless --port says otherwise */
    void (*handle)(const struct call *call, struct answer *answer);
};

/* Runs until SIGTERM or SIGINT. Returns the process's exit code: 0 stopped, 1 error, 2 usage. */
int service_main(const struct service *service, int argc, char **argv);

/* Helpers for handlers. An id is PREFIX_000001, counted by the ledger. */
struct str service_id(const struct call *call, const char *prefix);
void service_refuse(const struct call *call, struct answer *answer, int status, const char *code,
                    const char *detail);

#endif
