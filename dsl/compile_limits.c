/*
 * compile_limits.c: `limits` and `breaker` of a service.
 */
#include "dsl/compiler.h"

#include "engine/base/clock.h"

#define IN_FLIGHT_MAX 100000
#define RATE_MAX 1000000
#define FAILURES_MAX 1000
#define RETRY_PERCENT 20
#define WINDOW_US (30 * SECOND_US)
#define OPEN_FOR_US (15 * SECOND_US)

/* "100/s" */
static void rate_read(struct compiler *cx, const struct node *node, struct plan_limits *out)
{
    static const struct {
        char unit;
        int64_t us;
    } units[] = {{'s', SECOND_US}, {'m', MINUTE_US}, {'h', HOUR_US}};
    struct str text = node->text;
    struct json number = {.kind = JSON_NUMBER, .text = text};
    int64_t rate, per_us = 0;
    bool formed = node->kind == NODE_TEXT && text.len > 2 && text.ptr[text.len - 2] == '/';
    for (size_t i = 0; formed && i < ARRAY_LEN(units); i++)
        if (text.ptr[text.len - 1] == units[i].unit)
            per_us = units[i].us;
    if (formed)
        number.text.len -= 2;
    if (!per_us || !json_to_int(&number, &rate)) {
        struct diag *diag = node_error(cx, "E109", node, "`rate` must be so many in a time");
        diag_help(cx->diags, diag, "write `100/s`; the times are s, m and h");
    } else if (rate < 1 || rate > RATE_MAX) {
        node_error(cx, "E109", node, "`rate` must be from 1 to %d", RATE_MAX);
    } else {
        out->rate = (uint32_t)rate;
        out->rate_per_us = per_us;
    }
}

static void breaker_compile(struct compiler *cx, const struct node *node, struct plan_limits *out)
{
    const struct node *part;
    int64_t failures;
    if (!keys_check(cx, node, LANG_BREAKER))
        return;
    out->breaker_window_us = WINDOW_US;
    out->breaker_open_us = OPEN_FOR_US;
    if ((part = node_get(node, "failures")) &&
        read_integer(cx, part, "`failures`", 1, FAILURES_MAX, &failures))
        out->breaker_failures = (uint32_t)failures;
    if ((part = node_get(node, "window")))
        read_duration(cx, part, "`window`", MS_US, &out->breaker_window_us);
    if ((part = node_get(node, "open_for")))
        read_duration(cx, part, "`open_for`", MS_US, &out->breaker_open_us);
}

void limits_compile(struct compiler *cx, const struct node *limits, const struct node *breaker,
                    struct plan_limits *out)
{
    const struct node *part;
    int64_t in_flight;
    if (breaker)
        breaker_compile(cx, breaker, out);
    if (!limits || !keys_check(cx, limits, LANG_LIMITS))
        return;
    if (!limits->count) {
        node_error(cx, "E102", limits, "`limits` needs `in_flight`, `rate` or `retry_share`");
        return;
    }
    out->retries_limited = true;
    out->retry_percent = RETRY_PERCENT;
    if ((part = node_get(limits, "in_flight")) &&
        read_integer(cx, part, "`in_flight`", 1, IN_FLIGHT_MAX, &in_flight))
        out->in_flight = (uint32_t)in_flight;
    if ((part = node_get(limits, "rate")))
        rate_read(cx, part, out);
    if ((part = node_get(limits, "retry_share")))
        percent_read(cx, part, "`retry_share`", &out->retry_percent);
}
