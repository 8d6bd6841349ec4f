/*
 * api_denied.c: what people asked for without having the right to: told in the audit, within
 * bounds, so that nobody who may do nothing can fill it.
 */
#include "engine/api_impl.h"
#include "engine/key.h"
#include "engine/log.h"

#define REASON_BYTES_MAX 1000
#define REASON_BODY_MAX 65536 /* a larger body is not looked into for its reason */

struct denial {
    struct control_request *request;
    struct str text;
};

/* Whether one more is kept; `before`: how many were not since the last one that was. */
static bool denial_fits(struct denials *denials, uint32_t uid, uint64_t *before)
{
    int64_t now_us = loop_mono().us;
    uint32_t i = 0;
    if (!denials->since_us || now_us - denials->since_us >= DENIALS_WINDOW_US) {
        denials->since_us = now_us;
        denials->kept = denials->people_count = 0;
    }
    while (i < denials->people_count && denials->people[i].uid != uid)
        i++;
    if (denials->kept == DENIALS_MAX ||
        (i < denials->people_count && denials->people[i].kept == DENIALS_OF_ONE_MAX)) {
        if (!denials->skipped++)
            log_warn("uid:%u is refused so often that not all of it is kept in the audit", uid);
        return false;
    }
    if (i == denials->people_count)
        denials->people[denials->people_count++] = (struct denials_person){.uid = uid};
    denials->people[i].kept++;
    denials->kept++;
    *before = denials->skipped;
    denials->skipped = 0;
    return true;
}

bool denial_keep(struct api *api, struct control_request *request, const struct denial_act *act,
                 struct str why, store_answered *done, void *arg)
{
    struct arena *arena = control_arena(request);
    uint64_t before = 0;
    if (!denial_fits(&api->denials, control_uid(request), &before))
        return false;
    if (before)
        why = arena_printf(arena, STR_FMT " (%llu others before were not kept)", STR_ARG(why),
                           (unsigned long long)before);
    const char *params[] = {
        arena_str(arena, act->verb).ptr,   arena_str(arena, act->run_id).ptr,
        arena_str(arena, act->step).ptr,   arena_str(arena, control_actor(request)).ptr,
        arena_str(arena, act->reason).ptr, arena_str(arena, why).ptr};
    store_pg_query(api->o.store, "select saga.audit_refused_v1($1, $2, $3, $4, $5, $6)", params,
                   ARRAY_LEN(params), done, arg);
    return true;
}

/* --- a call without the role for it ------------------------------------------------------------
 */

/* What could not be stored, or is no id, is not told. */
static struct str fitting(struct str text, size_t most)
{
    return text.len <= most && str_is_utf8(text) ? text : STR("");
}

/* False: it is no act of an operator. */
static bool act_read(struct control_request *request, struct denial_act *act)
{
    struct str rest = control_path(request);
    struct str version = segment_next(&rest), kind = segment_next(&rest);
    *act = (struct denial_act){.run_id = STR(""), .step = STR(""), .reason = STR("")};
    if (!str_eq_z(version, "v1"))
        return false;
    if (str_eq_z(kind, "workflows") && control_method(request) == CONTROL_PUT) {
        act->verb = STR("apply");
        return true;
    }
    if (control_method(request) != CONTROL_POST)
        return false;
    if (str_starts(kind, STR("runs:"))) {
        act->verb = (struct str){kind.ptr + 5, kind.len - 5};
    } else if (str_eq_z(kind, "runs")) {
        act->run_id = fitting(segment_next(&rest), KEY_BYTES_MAX);
        act->verb = segment_next(&rest);
        if (str_eq_z(act->verb, "steps")) {
            act->step = fitting(segment_next(&rest), KEY_BYTES_MAX);
            act->verb = segment_next(&rest);
        }
    }
    enum run_event_kind event = run_event_of(act->verb);
    return event >= EVENT_CANCEL && event != EVENT_SIGNAL && event != EVENT_ANSWER;
}

static void call_denied(const struct denial *denial)
{
    control_problem(denial->request, 403, "permission", NULL, STR_FMT, STR_ARG(denial->text));
}

static void denial_kept(void *arg, const struct store_answer *answer)
{
    struct denial *denial = arg;
    if (answer->err.code)
        log_warn("a call that was refused is not in the audit: %s", answer->err.text);
    call_denied(denial);
}

void call_deny(struct api *api, struct control_request *request, struct str why)
{
    struct arena *arena = control_arena(request);
    struct denial *denial = arena_new(arena, struct denial);
    struct denial_act act;
    const struct json *body;
    struct err err;
    *denial = (struct denial){request, why};
    if (!act_read(request, &act)) {
        call_denied(denial);
        return;
    }
    if (control_method(request) == CONTROL_POST && control_body(request).len <= REASON_BODY_MAX &&
        json_parse(control_body(request), arena, &body, &err) == 0 &&
        json_get_text(body, "reason").len)
        act.reason = fitting(json_get_text(body, "reason"), REASON_BYTES_MAX);
    if (!denial_keep(api, request, &act, why, denial_kept, denial))
        call_denied(denial);
}
