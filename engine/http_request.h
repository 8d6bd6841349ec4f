/*
 * http_request.h: what goes over the wire for one invocation: method, path, headers, body.
 *
 * Here secrets are put in and every rule of http_text.h is applied; nothing is sent yet.
 *
 * Headers, in this order: the workflow's own (of several with one name the last one holds, so that
 * an action's wins over its service's), then the engine's. `Idempotency-Key` (or the name that the
 * service declares), `Saga-Run`, `Saga-Step`, `Saga-Attempt`, `Saga-Deadline`, `Saga-Compensates`,
 * `Saga-Reconciles`, `Saga-Dry-Run`, `Saga-Signature` and `Accept-Encoding` are always the
 * engine's; `traceparent`, `Authorization` and `User-Agent` give way to a header of the workflow.
 */
#ifndef ENGINE_HTTP_REQUEST_H
#define ENGINE_HTTP_REQUEST_H

#include "engine/request.h"
#include "engine/secrets.h"

struct http_request {
    const char *method;
    const char *path;             /* and query; without the base URL's own path */
    struct request_pair *headers; /* checked; values hold secrets */
    uint16_t headers_count;
    struct str body; /* absent: none */
    bool has_content_type;
};

/* Everything lies in `arena`. Errors: ERR_INVALID, ERR_NOT_FOUND: it can never be sent. */
MUST_USE int http_request_render(const struct invocation *invocation, const struct secrets *secrets,
                                 struct arena *arena, struct http_request *out, struct err *err);

/* Adds `Saga-Signature: t=SECONDS,v1=HEX` if the service has a secret for it; for no other it does
 * nothing. HEX is HMAC-SHA256 under that secret of these six lines, each ended by a line feed:
 *
 *     saga-v1
 *     the method, as sent: POST
 *     path and query, as sent: /charges?expand=1
 *     the idempotency key, as the service gets it; empty if there is none
 *     SECONDS since 1970 as in the header
 *     SHA-256 of the body in lower-case hex, of nothing where there is none
 *
 * No field can hold a line feed. `path` has the base URL's own path in front. Errors as above. */
MUST_USE int http_request_sign(const struct invocation *invocation, const struct secrets *secrets,
                               const char *path, struct wall now, struct arena *arena,
                               struct http_request *request, struct err *err);

#endif
