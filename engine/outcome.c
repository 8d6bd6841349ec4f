#include "engine/outcome.h"

#include <stdio.h>

static struct str header_find(const struct reply *reply, const char *name)
{
    for (uint16_t i = 0; i < reply->headers_count; i++)
        if (str_eq_z(reply->headers[i].name, name))
            return reply->headers[i].value;
    return STR_NONE;
}

enum outcome outcome_join(bool maybe_applied, enum outcome outcome)
{
    bool not_applied = outcome == OUTCOME_REFUSED || outcome == OUTCOME_RETRYABLE ||
                       outcome == OUTCOME_IN_PROGRESS;
    return maybe_applied && not_applied ? OUTCOME_UNKNOWN : outcome;
}

/* --- Retry-After ------------------------------------------------------------------------- */

static bool month_read(const char *name, int *month)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    for (int i = 0; i < 12; i++)
        if (strncmp(months + 3 * i, name, 3) == 0) {
            *month = i + 1;
            return true;
        }
    return false;
}

/* The three date forms of RFC 9110, section 5.6.7. */
static bool http_date_read(struct str text, struct wall *out)
{
    char copy[64], month_name[4], iso[40];
    int year, month, day, hour, minute, second;
    if (!text.len || text.len >= sizeof(copy))
        return false;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    const char *comma = strchr(copy, ',');
    if (comma && sscanf(comma, ", %2d %3s %4d %2d:%2d:%2d GMT", &day, month_name, &year, &hour,
                        &minute, &second) == 6) {
        ;
    } else if (comma && sscanf(comma, ", %2d-%3s-%2d %2d:%2d:%2d GMT", &day, month_name, &year,
                               &hour, &minute, &second) == 6) {
        year += year < 70 ? 2000 : 1900;
    } else if (sscanf(copy, "%*3s %3s %2d %2d:%2d:%2d %4d", month_name, &day, &hour, &minute,
                      &second, &year) != 6) {
        return false;
    }
    if (!month_read(month_name, &month))
        return false;
    snprintf(iso, sizeof(iso), "%04d-%02d-%02dT%02d:%02d:%02dZ", year, month, day, hour, minute,
             second);
    return wall_parse(str_z(iso), out);
}

int64_t outcome_retry_after_us(const struct reply *reply)
{
    struct str text = header_find(reply, "retry-after");
    int64_t seconds = 0;
    struct wall until, date;
    if (!text.len)
        return 0;
    size_t digits = 0;
    while (digits < text.len && text.ptr[digits] >= '0' && text.ptr[digits] <= '9' && digits < 12)
        seconds = seconds * 10 + (text.ptr[digits++] - '0');
    if (digits == text.len)
        return seconds * SECOND_US;
    if (!http_date_read(text, &until))
        return 0;
    /* Against the server's own clock: ours and theirs may be an hour apart. */
    if (!http_date_read(header_find(reply, "date"), &date))
        date = reply->ended_at;
    return MAX(until.us - date.us, (int64_t)0);
}

/* --- what the engine keeps of an answer ----------------------------------------------------- */

static bool is_json_type(const struct reply *reply)
{
    struct str type = header_find(reply, "content-type");
    return !type.len || memmem(type.ptr, type.len, "json", 4) != NULL;
}

/* The body as JSON: parsed if it says it is JSON and is, else as one string, else none. */
static const struct json *body_value(const struct reply *reply, struct arena *arena,
                                     bool *is_source)
{
    const struct json *value;
    struct err err;
    *is_source = false;
    if (!reply->body.len)
        return NULL;
    if ((reply->kind != REPLY_HTTP || is_json_type(reply)) &&
        json_parse(reply->body, arena, &value, &err) == 0) {
        *is_source = true;
        return value;
    }
    if (!str_is_utf8(reply->body) || memchr(reply->body.ptr, '\0', reply->body.len))
        return NULL;
    /* A body that calls itself JSON, and is not, may hold what the strict parser refuses for a
     * reason (NUL escapes, lone surrogates): as a plain string it is harmless. */
    return json_string(arena, reply->body);
}

static void output_fill(const struct reply *reply, struct arena *arena, struct verdict *out)
{
    bool is_source;
    const struct json *value = body_value(reply, arena, &is_source);
    if (value)
        out->output = is_source ? reply->body : json_text(value, arena);
    out->output_invalid = reply->body_dropped || (reply->body.len && !value) ||
                          (reply->body.len && !is_source && reply->kind == REPLY_HTTP &&
                           is_json_type(reply) && header_find(reply, "content-type").len);
}

/* The first text found under any of the names, in the value or in its `error` member. */
static struct str text_find(const struct json *body, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct str text = json_get_text(json_get_z(body, "error"), names[i]);
        if (!text.ptr)
            text = json_get_text(body, names[i]);
        if (text.ptr)
            return text;
    }
    return STR_NONE;
}

static bool nests_deeper(const struct json *value, unsigned depth)
{
    if (value->kind != JSON_LIST && value->kind != JSON_OBJECT)
        return false;
    if (depth == 0)
        return true;
    for (uint32_t i = 0; i < value->count; i++) {
        const struct json *inner =
            value->kind == JSON_LIST ? value->items[i] : value->members[i].value;
        if (nests_deeper(inner, depth - 1))
            return true;
    }
    return false;
}

const struct json *outcome_body_show(const struct reply *reply, size_t bytes_max,
                                     struct arena *arena)
{
    bool is_source;
    const struct json *body = body_value(reply, arena, &is_source);
    if (body && reply->body.len > bytes_max) {
        size_t cut = bytes_max; /* never inside a character */
        while (cut && ((unsigned char)reply->body.ptr[cut] & 0xC0) == 0x80)
            cut--;
        body = json_string(arena, (struct str){reply->body.ptr, cut});
    }
    if (body && nests_deeper(body, ERROR_BODY_DEPTH_MAX))
        body = json_string(arena, reply->body);
    return body ? body : &json_null;
}

static void error_fill(const struct reply *reply, struct str code, struct str message,
                       struct arena *arena, struct verdict *out)
{
    static const char *const code_names[] = {"code"};
    static const char *const message_names[] = {"message", "detail", "title"};
    bool is_source;
    const struct json *body = body_value(reply, arena, &is_source);
    struct json *error = json_object_new(arena, 4);
    struct str theirs = text_find(body, code_names, ARRAY_LEN(code_names));
    if (theirs.len && reply->kind == REPLY_HTTP)
        code = theirs;
    theirs = text_find(body, message_names, ARRAY_LEN(message_names));
    if (theirs.len && reply->kind == REPLY_HTTP)
        message = theirs;
    json_object_add_z(error, "code", json_string(arena, code));
    json_object_add_z(error, "status", out->status ? json_int(arena, out->status) : &json_null);
    json_object_add_z(error, "message", json_string(arena, message));
    json_object_add_z(error, "body", outcome_body_show(reply, ERROR_BODY_BYTES_MAX, arena));
    out->error = json_text(error, arena);
}

/* --- judging -------------------------------------------------------------------------------- */

/* Accepted is not done where the participant can be asked for the end. */
static enum outcome http_default(const struct plan_action *action, const struct reply *reply,
                                 const struct json *body)
{
    int status = reply->status;
    enum outcome outcome;
    if (status == 202 && action->reconcile)
        return OUTCOME_IN_PROGRESS;
    if (status >= 200 && status < 300)
        return OUTCOME_APPLIED;
    if (status == 429 || status == 503 || status == 425 || status == 408)
        outcome = OUTCOME_RETRYABLE;
    else if (status >= 300 && status < 500)
        outcome = OUTCOME_REFUSED;
    else
        return OUTCOME_UNKNOWN;
    const struct json *retryable = json_get_z(body, "retryable");
    if (retryable && retryable->kind == JSON_BOOL)
        outcome = retryable->boolean ? OUTCOME_RETRYABLE : OUTCOME_REFUSED;
    return outcome;
}

static enum outcome sql_default(const struct reply *reply)
{
    static const char *const passing[] = {"40001", "40P01", "55P03", "57014",
                                          "57P",   "53",    "08",    "25006"};
    if (reply->commit_lost)
        return OUTCOME_UNKNOWN;
    if (!reply->sqlstate[0])
        return OUTCOME_APPLIED;
    if (!strcmp(reply->sqlstate, "SAG22")) /* of the guard: the key was used for something else */
        return OUTCOME_CONFLICT;
    for (size_t i = 0; i < ARRAY_LEN(passing); i++)
        if (strncmp(reply->sqlstate, passing[i], strlen(passing[i])) == 0)
            return OUTCOME_RETRYABLE;
    return OUTCOME_REFUSED;
}

static enum outcome exec_default(const struct reply *reply)
{
    if (reply->timed_out || reply->status < 0)
        return OUTCOME_UNKNOWN;
    if (reply->status == 0)
        return OUTCOME_APPLIED;
    return reply->status == 75 ? OUTCOME_RETRYABLE : OUTCOME_REFUSED; /* 75: EX_TEMPFAIL */
}

static enum outcome child_default(const struct reply *reply)
{
    switch (reply->child) {
    case CHILD_DONE:
    case CHILD_STARTED: return OUTCOME_APPLIED;
    case CHILD_UNDONE:
    case CHILD_REFUSED: return OUTCOME_REFUSED;
    case CHILD_ABANDONED: return OUTCOME_UNKNOWN;
    case CHILD_NONE: break;
    }
    ASSERT(!"an end of a child");
    return OUTCOME_NONE;
}

static enum outcome worker_default(const struct reply *reply)
{
    if (!reply->failed)
        return OUTCOME_APPLIED;
    return reply->retryable ? OUTCOME_RETRYABLE : OUTCOME_REFUSED;
}

static enum outcome default_outcome(const struct plan_action *action, const struct reply *reply,
                                    const struct json *body)
{
    switch (reply->kind) {
    case REPLY_HTTP: return http_default(action, reply, body);
    case REPLY_EXEC: return exec_default(reply);
    case REPLY_SQL:
    case REPLY_SQL_OPEN: return sql_default(reply);
    case REPLY_CHILD: return child_default(reply);
    case REPLY_WORKER: return worker_default(reply);
    case REPLY_NO_ANSWER: return OUTCOME_UNKNOWN;
    case REPLY_CANNOT_SEND: return OUTCOME_REFUSED;
    case REPLY_NOT_CONNECTED:
    case REPLY_LOCAL_SHORTAGE:
    case REPLY_NOT_SENT: return OUTCOME_RETRYABLE;
    case REPLY_NONE: break;
    }
    ASSERT(!"a reply kind");
    return OUTCOME_NONE;
}

bool outcome_is_answer(const struct reply *reply)
{
    return reply->kind == REPLY_HTTP || reply->kind == REPLY_EXEC || reply->kind == REPLY_SQL ||
           reply->kind == REPLY_SQL_OPEN || reply->kind == REPLY_WORKER;
}

static const struct json *response_value(const struct reply *reply, const struct json *body,
                                         struct arena *arena)
{
    struct json *response = json_object_new(arena, 8);
    const struct json *value = body ? body : &json_null;
    if (reply->kind == REPLY_EXEC) {
        json_object_add_z(response, "exit", json_int(arena, reply->status));
        json_object_add_z(response, "stdout", value);
        json_object_add_z(
            response, "stderr",
            json_string(arena, str_is_utf8(reply->stderr_text) ? reply->stderr_text : STR("")));
        return response;
    }
    if (reply->kind == REPLY_WORKER) {
        json_object_add_z(response, "status",
                          json_string_z(arena, reply->failed ? "failed" : "completed"));
        json_object_add_z(response, "body", value);
        return response;
    }
    if (reply->kind != REPLY_HTTP) {
        json_object_add_z(response, "sqlstate", json_string_z(arena, reply->sqlstate));
        for (uint32_t i = 0; value->kind == JSON_OBJECT && i < MIN(value->count, 4u); i++)
            json_object_add(response, value->members[i].name, value->members[i].value);
        return response;
    }
    struct json *headers = json_object_new(arena, reply->headers_count);
    for (uint16_t i = 0; i < reply->headers_count; i++)
        if (!json_get(headers, reply->headers[i].name) && str_is_utf8(reply->headers[i].value))
            json_object_add(headers, reply->headers[i].name,
                            json_string(arena, reply->headers[i].value));
    json_object_add_z(response, "status", json_int(arena, reply->status));
    json_object_add_z(response, "headers", headers);
    json_object_add_z(response, "body", value);
    return response;
}

const struct json *outcome_response(const struct reply *reply, struct arena *arena)
{
    bool is_source;
    return response_value(reply, body_value(reply, arena, &is_source), arena);
}

/* The action's rules, first match wins. Returns OUTCOME_NONE if none matches; sets *failed to the
 * reason if a rule could not be evaluated before one matched. */
static enum outcome rules_judge(const struct plan_action *action, const struct reply *reply,
                                const struct json *body, const struct expr_scope *scope,
                                struct arena *arena, struct err *failed)
{
    struct expr_scope with_response = *scope;
    failed->code = ERR_NONE;
    if (!action->outcomes_count || !outcome_is_answer(reply))
        return OUTCOME_NONE;
    with_response.response = response_value(reply, body, arena);
    for (uint16_t i = 0; i < action->outcomes_count; i++) {
        struct err err;
        bool match;
        if (expr_eval_bool(action->outcomes[i].when, &with_response, arena, &match, &err) != 0) {
            if (failed->code == ERR_NONE)
                *failed = err;
            continue;
        }
        if (match)
            return action->outcomes[i].is;
    }
    return OUTCOME_NONE;
}

/* One line for people when the participant gave none. */
static void words_choose(const struct reply *reply, struct arena *arena, struct str *code,
                         struct str *message)
{
    *code = str_z(reply_kind_name(reply->kind));
    *message = reply->error;
    if (reply->kind == REPLY_HTTP) {
        *code = arena_printf(arena, "http_%d", reply->status);
        *message = arena_printf(arena, "the participant answered %d", reply->status);
        struct str location = header_find(reply, "location");
        if (reply->status >= 300 && reply->status < 400 && location.len && str_is_utf8(location))
            *message = arena_printf(arena, "redirect to " STR_FMT " (redirects are not followed)",
                                    STR_ARG(location));
    } else if (reply->kind == REPLY_EXEC && !reply->timed_out) {
        *code = arena_printf(arena, reply->status < 0 ? "signal_%d" : "exit_%d",
                             reply->status < 0 ? -reply->status : reply->status);
        if (reply->stderr_text.len && str_is_utf8(reply->stderr_text))
            *message = (struct str){reply->stderr_text.ptr, MIN(reply->stderr_text.len, 400u)};
    } else if (reply->kind == REPLY_WORKER) {
        if (reply->code.len)
            *code = reply->code;
        else
            *code = reply->failed ? STR("failed") : STR("outcome_rule");
    } else if (reply->kind == REPLY_SQL && reply->sqlstate[0]) {
        *code = arena_printf(arena, "sqlstate_%s", reply->sqlstate);
    } else if (reply->kind == REPLY_SQL || reply->kind == REPLY_SQL_OPEN) {
        *code = STR("outcome_rule");
        *message = STR("the statement went through, but a rule of `outcomes` says otherwise");
    } else if (reply->kind == REPLY_CHILD && reply->child == CHILD_REFUSED) {
        *code = reply->code.len ? reply->code : STR("child_refused");
    } else if (reply->kind == REPLY_CHILD) {
        bool undone = reply->child == CHILD_UNDONE;
        *code = undone ? STR("child_compensated") : STR("child_abandoned");
        if (!message->len)
            *message = undone ? STR("the child run was undone")
                              : STR("the child run was abandoned by a person");
    } else if (reply->kind == REPLY_NO_ANSWER || reply->timed_out) {
        *code = reply->timed_out ? STR("timeout") : STR("no_answer");
    }
    if (!message->len || !str_is_utf8(*message))
        *message = *code;
}

void outcome_judge(const struct plan_action *action, const struct reply *reply,
                   const struct expr_scope *scope, struct arena *arena, struct verdict *out)
{
    bool is_source;
    struct err failed;
    struct str code, message;
    *out = (struct verdict){.status = outcome_is_answer(reply) ? reply->status : 0};
    const struct json *body = body_value(reply, arena, &is_source);

    out->outcome = rules_judge(action, reply, body, scope, arena, &failed);
    if (out->outcome == OUTCOME_NONE) {
        out->outcome = default_outcome(action, reply, body);
        if (failed.code != ERR_NONE && out->outcome == OUTCOME_APPLIED)
            out->outcome = OUTCOME_UNKNOWN;
    }
    if (reply->kind == REPLY_HTTP)
        out->after_us = outcome_retry_after_us(reply);
    out->free = reply->kind == REPLY_LOCAL_SHORTAGE || reply->kind == REPLY_NOT_SENT ||
                out->outcome == OUTCOME_IN_PROGRESS ||
                (out->outcome == OUTCOME_RETRYABLE && out->after_us > 0);
    if (out->outcome == OUTCOME_APPLIED) {
        output_fill(reply, arena, out);
        return;
    }
    words_choose(reply, arena, &code, &message);
    if (failed.code != ERR_NONE && out->outcome == OUTCOME_UNKNOWN) {
        code = STR("outcome_rule_failed");
        message = arena_str(arena, str_z(failed.text));
    }
    error_fill(reply, code, message, arena, out);
}
