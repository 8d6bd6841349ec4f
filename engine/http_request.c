#include "engine/http_request.h"
#include "engine/base/rand.h"
#include "engine/http_text.h"

#include <strings.h>

#define SIGNATURE_HEADERS 1
#define HEADERS_MAX 64 /* of a workflow; servers refuse more than about a hundred */

/* What the engine itself says with every request. */
struct own_header {
    const char *name;
    struct str value; /* absent: not sent */
    bool yields;      /* to a header of the workflow with this name */
};

struct renderer {
    const struct request *request;
    const struct secrets *secrets;
    struct arena *arena;
    struct request_pair *headers;
    uint16_t count;
    struct err *err;
};

static const char *method_of(const struct request *request)
{
    switch (request->action->http.method) {
    case HTTP_GET: return "GET";
    case HTTP_POST: return "POST";
    case HTTP_PUT: return "PUT";
    case HTTP_PATCH: return "PATCH";
    case HTTP_DELETE: return "DELETE";
    case HTTP_METHOD_NONE: break;
    }
    ASSERT(!"an HTTP action has a method");
    return NULL;
}

/* W3C trace context: one trace per run, one span per attempt, the same after a crash. */
static struct str traceparent(const struct invocation *invocation, struct arena *arena)
{
    char run[65];
    struct sha256 hash = sha256_of(invocation->run_id);
    uint64_t span = rand_mix(str_hash(invocation->step) ^ rand_mix(invocation->attempt) ^
                             rand_mix(str_hash(invocation->key) + invocation->direction));
    sha256_hex(&hash, run);
    return arena_printf(arena, "00-%.32s-%016llx-01", run, (unsigned long long)(span | 1));
}

static int auth_render(struct renderer *r, struct str *out)
{
    struct str user, secret;
    *out = STR_NONE;
    if (!r->request->auth_secret.ptr)
        return 0;
    int code = secrets_resolve(r->secrets, r->request->auth_secret, r->arena, &secret, r->err);
    if (!code)
        code = secrets_resolve(r->secrets, r->request->auth_user, r->arena, &user, r->err);
    if (code)
        return err_wrap(r->err, "header \"Authorization\"");
    if (r->request->auth_user.ptr) {
        struct str both =
            arena_printf(r->arena, STR_FMT ":" STR_FMT, STR_ARG(user), STR_ARG(secret));
        *out = arena_printf(r->arena, "Basic %s", http_base64(both, r->arena).ptr);
    } else {
        *out = arena_printf(r->arena, "Bearer " STR_FMT, STR_ARG(secret));
    }
    return 0;
}

static bool name_eq(struct str a, struct str b)
{
    return a.len == b.len && strncasecmp(a.ptr, b.ptr, a.len) == 0;
}

static bool is_own(struct str name, const struct own_header *own, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (own[i].value.ptr && !own[i].yields && name_eq(name, str_z(own[i].name)))
            return true;
    return false;
}

static bool is_given(struct str name, const struct request *request, uint16_t from)
{
    for (uint16_t i = from; i < request->headers_count; i++)
        if (name_eq(name, request->headers[i].name))
            return true;
    return false;
}

static int header_add(struct renderer *r, struct str name, struct str value)
{
    const char *problem = http_header_problem(name, value);
    if (problem)
        return err_set(r->err, ERR_INVALID, "header \"%.*s\" cannot be sent: %s",
                       (int)MIN(name.len, (size_t)100), name.ptr, problem);
    r->headers[r->count++] =
        (struct request_pair){arena_str(r->arena, name), arena_str(r->arena, value)};
    return 0;
}

static int headers_render(struct renderer *r, const struct own_header *own, size_t own_count)
{
    const struct request *request = r->request;
    int code = 0;
    for (uint16_t i = 0; i < request->headers_count && !code; i++) {
        struct str name = request->headers[i].name, value;
        if (is_given(name, request, i + 1) || is_own(name, own, own_count))
            continue;
        code = secrets_resolve(r->secrets, request->headers[i].value, r->arena, &value, r->err);
        if (code)
            return err_wrap(r->err, "header \"" STR_FMT "\"", STR_ARG(name));
        code = header_add(r, name, value);
    }
    for (size_t i = 0; i < own_count && !code; i++) {
        struct str name = str_z(own[i].name);
        if (own[i].value.ptr && !(own[i].yields && is_given(name, request, 0)))
            code = header_add(r, name, own[i].value);
    }
    return code;
}

static int all_headers_render(struct renderer *r, const struct invocation *invocation)
{
    const struct plan_idempotency *idempotency = &r->request->action->idempotency;
    struct str auth, deadline = STR_NONE;
    int code = auth_render(r, &auth);
    if (code)
        return code;
    /* The engine also speaks for itself (to token servers). */
    bool of_run = invocation->run_id.ptr != NULL;
    struct str attempt = of_run && !invocation->is_dry_run
                             ? arena_printf(r->arena, "%u", invocation->attempt)
                             : STR_NONE;
    if (wall_is_set(invocation->deadline_at))
        deadline = wall_format(invocation->deadline_at, r->arena);
    const struct own_header own[] = {
        {idempotency->place == KEY_PLACE_HEADER ? idempotency->name : "Idempotency-Key",
         invocation->key, false},
        {"Saga-Run", invocation->run_id, false},
        {"Saga-Step", invocation->step, false},
        {"Saga-Attempt", attempt, false},
        {"Saga-Deadline", deadline, false},
        {"Saga-Compensates", invocation->compensates, false},
        {"Saga-Reconciles", invocation->reconciles, false},
        {"Saga-Dry-Run", invocation->is_dry_run ? STR("true") : STR_NONE, false},
        /* Anything else would have to be unpacked within bounds. */
        {"Accept-Encoding", STR("identity"), false},
        {"traceparent", of_run ? traceparent(invocation, r->arena) : STR_NONE, true},
        {"Authorization", auth, true},
        {"User-Agent", STR("sagad"), true},
    };
    r->headers =
        arena_array(r->arena, struct request_pair,
                    (size_t)r->request->headers_count + ARRAY_LEN(own) + SIGNATURE_HEADERS);
    return headers_render(r, own, ARRAY_LEN(own));
}

int http_request_render(const struct invocation *invocation, const struct secrets *secrets,
                        struct arena *arena, struct http_request *out, struct err *err)
{
    const struct request *request = invocation->request;
    const char *problem = http_target_problem(request->target);
    struct renderer r = {.request = request, .secrets = secrets, .arena = arena, .err = err};
    if (!problem && request->headers_count > HEADERS_MAX)
        problem = "there are more than 64 headers";
    if (problem)
        return err_set(err, ERR_INVALID, "the request cannot be sent: %s", problem);
    int code = all_headers_render(&r, invocation);
    if (code)
        return code;
    *out = (struct http_request){
        .method = method_of(request),
        .path = arena_str(arena, request->target).ptr,
        .headers = r.headers,
        .headers_count = r.count,
        .body = arena_str(arena, request->body),
        .has_content_type = is_given(STR("Content-Type"), request, 0),
    };
    return 0;
}

int http_request_sign(const struct invocation *invocation, const struct secrets *secrets,
                      const char *path, struct wall now, struct arena *arena,
                      struct http_request *request, struct err *err)
{
    struct str secret;
    char body[65], mac[65];
    if (!invocation->request->sign_secret.ptr)
        return 0;
    if (secrets_resolve(secrets, invocation->request->sign_secret, arena, &secret, err) != 0)
        return err_wrap(err, "header \"Saga-Signature\"");
    struct sha256 hash = sha256_of(request->body.ptr ? request->body : STR(""));
    sha256_hex(&hash, body);
    long long seconds = (long long)(now.us / SECOND_US);
    struct str text = arena_printf(arena, "saga-v1\n%s\n%s\n" STR_FMT "\n%lld\n%s\n",
                                   request->method, path, STR_ARG(invocation->key), seconds, body);
    hash = sha256_hmac(secret, text);
    sha256_hex(&hash, mac);
    request->headers[request->headers_count++] = (struct request_pair){
        STR("Saga-Signature"), arena_printf(arena, "t=%lld,v1=%s", seconds, mac)};
    return 0;
}
