/*
 * test_outcome.c: the table "Outcomes of one attempt", row by row (A-POISON-2).
 */
#include "engine/outcome.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const struct plan_action post = {.kind = ACTION_HTTP, .effect = EFFECT_COMPENSABLE};
static struct arena arena;

static int arena_clear(void **state)
{
    (void)state;
    arena_free(&arena);
    return 0;
}

static struct verdict judge(const struct reply *reply)
{
    struct expr_scope scope = {.index = -1};
    struct verdict verdict;
    outcome_judge(&post, reply, &scope, &arena, &verdict);
    return verdict;
}

static struct verdict judge_http(int status, const char *type, const char *body)
{
    struct request_pair header = {STR("content-type"), str_z(type)};
    struct reply reply = {.kind = REPLY_HTTP,
                          .status = status,
                          .headers = &header,
                          .headers_count = type ? 1 : 0,
                          .body = str_z(body)};
    return judge(&reply);
}

static void a_poison_2_statuses(void **state)
{
    static const struct {
        int status;
        enum outcome outcome;
    } rows[] = {
        {200, OUTCOME_APPLIED},   {201, OUTCOME_APPLIED},   {202, OUTCOME_APPLIED},
        {204, OUTCOME_APPLIED},   {205, OUTCOME_APPLIED},   {301, OUTCOME_REFUSED},
        {302, OUTCOME_REFUSED},   {304, OUTCOME_REFUSED},   {307, OUTCOME_REFUSED},
        {400, OUTCOME_REFUSED},   {401, OUTCOME_REFUSED},   {403, OUTCOME_REFUSED},
        {404, OUTCOME_REFUSED},   {409, OUTCOME_REFUSED},   {410, OUTCOME_REFUSED},
        {422, OUTCOME_REFUSED},   {408, OUTCOME_RETRYABLE}, {425, OUTCOME_RETRYABLE},
        {429, OUTCOME_RETRYABLE}, {503, OUTCOME_RETRYABLE}, {500, OUTCOME_UNKNOWN},
        {501, OUTCOME_UNKNOWN},   {502, OUTCOME_UNKNOWN},   {504, OUTCOME_UNKNOWN},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct verdict verdict = judge_http(rows[i].status, NULL, NULL);
        if (verdict.outcome != rows[i].outcome)
            fail_msg("%d is %s, not %s", rows[i].status, outcome_name(verdict.outcome),
                     outcome_name(rows[i].outcome));
        assert_int_equal(verdict.status, rows[i].status);
    }
}

static void a_poison_2_other_ends(void **state)
{
    static const struct {
        struct reply reply;
        enum outcome outcome;
        bool free;
    } rows[] = {
        {{.kind = REPLY_NOT_CONNECTED}, OUTCOME_RETRYABLE, false},
        {{.kind = REPLY_LOCAL_SHORTAGE}, OUTCOME_RETRYABLE, true},
        {{.kind = REPLY_NOT_SENT}, OUTCOME_RETRYABLE, true},
        {{.kind = REPLY_CANNOT_SEND}, OUTCOME_REFUSED, false},
        {{.kind = REPLY_NO_ANSWER}, OUTCOME_UNKNOWN, false},
        {{.kind = REPLY_EXEC, .status = 0}, OUTCOME_APPLIED, false},
        {{.kind = REPLY_EXEC, .status = 75}, OUTCOME_RETRYABLE, false},
        {{.kind = REPLY_EXEC, .status = 1}, OUTCOME_REFUSED, false},
        {{.kind = REPLY_EXEC, .status = -9}, OUTCOME_UNKNOWN, false},
        {{.kind = REPLY_SQL, .sqlstate = ""}, OUTCOME_APPLIED, false},
        {{.kind = REPLY_SQL, .sqlstate = "40001"}, OUTCOME_RETRYABLE, false},
        {{.kind = REPLY_SQL, .sqlstate = "40P01"}, OUTCOME_RETRYABLE, false},
        {{.kind = REPLY_SQL, .sqlstate = "55P03"}, OUTCOME_RETRYABLE, false},
        {{.kind = REPLY_SQL, .sqlstate = "57P01"}, OUTCOME_RETRYABLE, false},
        {{.kind = REPLY_SQL, .sqlstate = "23505"}, OUTCOME_REFUSED, false},
        {{.kind = REPLY_SQL, .sqlstate = "42601"}, OUTCOME_REFUSED, false},
        {{.kind = REPLY_SQL, .sqlstate = "SAG21"}, OUTCOME_REFUSED, false},
        {{.kind = REPLY_SQL, .sqlstate = "SAG22"}, OUTCOME_CONFLICT, false},
        {{.kind = REPLY_SQL, .commit_lost = true}, OUTCOME_UNKNOWN, false},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct verdict verdict = judge(&rows[i].reply);
        if (verdict.outcome != rows[i].outcome || verdict.free != rows[i].free)
            fail_msg("row %zu (%s %d %s) is %s", i, reply_kind_name(rows[i].reply.kind),
                     rows[i].reply.status, rows[i].reply.sqlstate, outcome_name(verdict.outcome));
    }
}

/* `retryable` in the body is heard where the status alone would say refused or retryable. */
static void the_body_says_retryable(void **state)
{
    (void)state;
    assert_int_equal(judge_http(422, "application/json", "{\"retryable\":true}").outcome,
                     OUTCOME_RETRYABLE);
    assert_int_equal(judge_http(503, "application/problem+json", "{\"retryable\":false}").outcome,
                     OUTCOME_REFUSED);
    assert_int_equal(judge_http(500, "application/json", "{\"retryable\":true}").outcome,
                     OUTCOME_UNKNOWN);
    assert_int_equal(judge_http(422, "application/json", "{\"retryable\":\"true\"}").outcome,
                     OUTCOME_REFUSED);
}

/* A-HTTP-2: an empty or odd body never makes a failure of a 2xx. */
static void a_http_2_bodies(void **state)
{
    (void)state;
    struct verdict verdict = judge_http(204, NULL, NULL);
    assert_null(verdict.output.ptr);
    assert_false(verdict.output_invalid);
    verdict = judge_http(200, "text/plain", "OK");
    assert_string_equal(verdict.output.ptr, "\"OK\"");
    assert_false(verdict.output_invalid);
    verdict = judge_http(200, "application/json", "{\"id\": 9007199254740993}");
    assert_string_equal(verdict.output.ptr, "{\"id\": 9007199254740993}");
    verdict = judge_http(200, "application/json", "{broken");
    assert_int_equal(verdict.outcome, OUTCOME_APPLIED);
    assert_true(verdict.output_invalid);
    verdict = judge_http(200, "application/octet-stream", "\xff\xfe");
    assert_int_equal(verdict.outcome, OUTCOME_APPLIED);
    assert_true(verdict.output_invalid);
    assert_null(verdict.output.ptr);
}

/* The participant's own code, message and body are kept; a long body is cut inside no character. */
static void errors_are_kept(void **state)
{
    char body[2 * ERROR_BODY_BYTES_MAX];
    (void)state;
    struct verdict verdict = judge_http(422, "application/json",
                                        "{\"error\":{\"code\":\"NO_STOCK\",\"message\":\"none\"}}");
    assert_string_equal(verdict.error.ptr,
                        "{\"code\":\"NO_STOCK\",\"status\":422,\"message\":\"none\",\"body\":"
                        "{\"error\":{\"code\":\"NO_STOCK\",\"message\":\"none\"}}}");
    memset(body, 'a', sizeof(body));
    for (size_t i = 1; i + 2 < sizeof(body); i += 2)
        memcpy(body + i, "\xc3\xa4", 2);
    body[sizeof(body) - 1] = '\0';
    verdict = judge_http(400, "text/plain", body);
    assert_true(str_is_utf8(verdict.error));
    assert_true(verdict.error.len < ERROR_BODY_BYTES_MAX + 200);
}

static void a_redirect_names_its_target(void **state)
{
    struct request_pair location = {STR("location"), STR("https://else.where/x")};
    struct reply reply = {
        .kind = REPLY_HTTP, .status = 307, .headers = &location, .headers_count = 1};
    (void)state;
    struct verdict verdict = judge(&reply);
    assert_int_equal(verdict.outcome, OUTCOME_REFUSED);
    assert_non_null(strstr(verdict.error.ptr, "https://else.where/x"));
}

static int64_t retry_after(const char *value, const char *date)
{
    struct request_pair headers[] = {{STR("retry-after"), str_z(value)},
                                     {STR("date"), str_z(date)}};
    struct reply reply = {
        .kind = REPLY_HTTP, .status = 503, .headers = headers, .headers_count = date ? 2 : 1};
    assert_true(wall_parse(STR("2026-10-25T10:00:00Z"), &reply.ended_at));
    return outcome_retry_after_us(&reply);
}

/* A-HTTP-5: seconds and the three date forms, taken against the answer's own Date. */
static void a_http_5_retry_after(void **state)
{
    static const char date[] = "Sun, 25 Oct 2026 11:00:00 GMT"; /* a clock that is an hour off */
    (void)state;
    assert_int_equal(retry_after("7", NULL), 7 * SECOND_US);
    assert_int_equal(retry_after("Sun, 25 Oct 2026 10:00:07 GMT", NULL), 7 * SECOND_US);
    assert_int_equal(retry_after("Sun, 25 Oct 2026 11:00:07 GMT", date), 7 * SECOND_US);
    assert_int_equal(retry_after("Sunday, 25-Oct-26 10:00:07 GMT", NULL), 7 * SECOND_US);
    assert_int_equal(retry_after("Sun Oct 25 10:00:07 2026", NULL), 7 * SECOND_US);
    assert_int_equal(retry_after("Sun, 25 Oct 2026 09:00:00 GMT", NULL), 0);
    assert_int_equal(retry_after("soon", NULL), 0);
    assert_int_equal(retry_after("-5", NULL), 0);
    assert_int_equal(retry_after("999999999999999999999", NULL), 0);
    /* Asked to wait, an attempt costs time only; a plain 503 costs an attempt. */
    assert_false(judge_http(503, NULL, NULL).free);
}

/* Applied > unknown > not applied: a later refusal proves nothing about an earlier send. */
static void joining(void **state)
{
    (void)state;
    assert_int_equal(outcome_join(false, OUTCOME_REFUSED), OUTCOME_REFUSED);
    assert_int_equal(outcome_join(true, OUTCOME_REFUSED), OUTCOME_UNKNOWN);
    assert_int_equal(outcome_join(true, OUTCOME_RETRYABLE), OUTCOME_UNKNOWN);
    assert_int_equal(outcome_join(true, OUTCOME_APPLIED), OUTCOME_APPLIED);
    assert_int_equal(outcome_join(true, OUTCOME_CONFLICT), OUTCOME_CONFLICT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_poison_2_statuses, arena_clear),
        cmocka_unit_test_teardown(a_poison_2_other_ends, arena_clear),
        cmocka_unit_test_teardown(the_body_says_retryable, arena_clear),
        cmocka_unit_test_teardown(a_http_2_bodies, arena_clear),
        cmocka_unit_test_teardown(errors_are_kept, arena_clear),
        cmocka_unit_test_teardown(a_redirect_names_its_target, arena_clear),
        cmocka_unit_test_teardown(a_http_5_retry_after, arena_clear),
        cmocka_unit_test_teardown(joining, arena_clear),
    };
    return cmocka_run_group_tests_name("outcomes", tests, NULL, NULL);
}
