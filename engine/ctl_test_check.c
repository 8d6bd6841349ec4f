/*
 * ctl_test_check.c: what was expected, and what the simulated world came to.
 */
#include <stdlib.h>

#include "dsl/tests.h"
#include "engine/base/ascii.h"
#include "engine/ctl_test.h"
#include "engine/ctl_text.h"
#include "engine/key.h"
#include "engine/render.h"

/* --- texts ------------------------------------------------------------------------------- */

const struct json *ctl_test_value(struct str text, struct arena *arena)
{
    const struct json *value;
    struct err err;
    if (!text.len)
        return &json_null;
    return json_parse(text, arena, &value, &err) == 0 ? value : json_string(arena, text);
}

struct str ctl_test_end_text(const struct stub_result *result, struct arena *arena)
{
    const struct record_run *now = &result->row.now;
    const char *why = "";
    if (now->state == RUN_PARKED)
        why = park_reason_name(now->reason);
    else if (now->cause != CAUSE_NONE)
        why = run_cause_name(now->cause);
    return arena_printf(arena, "%s%s%s%s%s", run_state_name(now->state), *why ? " (" : "", why,
                        *why ? ")" : "", now->paused ? ", paused" : "");
}

static struct str names_text(const struct str *names, uint32_t count, struct arena *arena)
{
    struct buf out = {0};
    for (uint32_t i = 0; i < count; i++) {
        buf_add_z(&out, i ? ", " : "");
        buf_add_str(&out, names[i]);
    }
    struct str text = count ? arena_str(arena, buf_str(&out)) : STR("none");
    buf_free(&out);
    return text;
}

static struct str *calls_names(const struct stub_call *calls, uint32_t count, struct arena *arena)
{
    struct str *names = arena_array(arena, struct str, count);
    for (uint32_t i = 0; i < count; i++)
        names[i] = calls[i].name;
    return names;
}

void ctl_test_trace_print(const struct stub_result *result, unsigned indent, struct arena *arena,
                          struct buf *out)
{
    for (uint32_t i = 0; i < result->lines_count; i++) {
        struct str at = text_duration(result->lines[i].at_us, arena);
        text_add_spaces(out, indent + (at.len < 9 ? 9 - at.len : 0));
        buf_add_str(out, at);
        buf_add_z(out, "  ");
        text_add(out, result->lines[i].text);
        buf_add_char(out, '\n');
    }
}

const struct json *ctl_test_trace_json(const struct stub_result *result, struct arena *arena)
{
    struct json *list = json_list_new(arena, result->lines_count);
    for (uint32_t i = 0; i < result->lines_count; i++) {
        struct json *line = json_object_new(arena, 2);
        json_object_add_z(line, "at_us", json_int(arena, result->lines[i].at_us));
        json_object_add_z(line, "what", json_string(arena, result->lines[i].text));
        json_list_add(list, line);
    }
    return list;
}

static struct str unplayed_text(const struct stub_unplayed *unplayed, struct arena *arena)
{
    const char *proof =
        unplayed->truth == OUTCOME_RETRYABLE ? "not_applied" : outcome_name(unplayed->truth);
    return arena_printf(arena,
                        STR_FMT " could not be played: no answer was found that makes `%s` true; "
                                "write one under `answers`: `\"" STR_FMT "\": {...}`",
                        STR_ARG(unplayed->name), proof, STR_ARG(unplayed->name));
}

void ctl_test_unplayed_add(const struct stub_result *result, struct arena *arena,
                           struct ctl_test_notes *notes)
{
    for (uint32_t i = 0; i < result->unplayed_count; i++) {
        struct str text = unplayed_text(&result->unplayed[i], arena);
        bool told = notes->count == ARRAY_LEN(notes->list);
        for (uint32_t j = 0; j < notes->count && !told; j++)
            told = str_eq(notes->list[j], text);
        if (!told)
            notes->list[notes->count++] = text;
    }
}

void ctl_test_notes_print(const struct ctl_test_notes *notes, unsigned indent, struct buf *out)
{
    for (uint32_t i = 0; i < notes->count; i++) {
        text_add_spaces(out, indent);
        text_add(out, notes->list[i]);
        buf_add_char(out, '\n');
    }
}

const struct json *ctl_test_notes_json(const struct ctl_test_notes *notes, struct arena *arena)
{
    struct json *list = json_list_new(arena, notes->count);
    for (uint32_t i = 0; i < notes->count; i++)
        json_list_add(list, json_string(arena, notes->list[i]));
    return list;
}

/* --- the world of a test ----------------------------------------------------------------- */

static int run_id_make(const struct test_file *file, const struct json *input,
                       const struct json *env, struct wall now, struct arena *arena,
                       struct str *out, struct err *err)
{
    struct expr_scope scope = {.input = input, .env = env, .index = -1, .now = now};
    *out = STR("test");
    if (!file->plan->run_id)
        return 0;
    int code = template_render_text(file->plan->run_id, &scope, TEXT_PLAIN, arena, out, err);
    if (!code)
        code = key_run_id_check(*out, err);
    return code ? err_wrap(err, "run_id") : 0;
}

int ctl_test_config(const struct test_file *file, const struct test_case *test, struct arena *arena,
                    struct stub_config *out, struct err *err)
{
    struct wall starts_at = test->starts_at;
    if (!wall_is_set(starts_at))
        starts_at = (struct wall){STUB_STARTS_AT_US};
    *out = (struct stub_config){
        .plan = file->plan,
        .input = test->input,
        .env = test->env,
        .starts_at = starts_at,
        .outputs = file->outputs,
        .answers = test->answers,
        .answers_count = test->answers_count,
        .verbs = test->verbs,
        .verbs_count = test->verbs_count,
    };
    int code = run_id_make(file, test->input, test->env, starts_at, arena, &out->run_id, err);
    return code ? code : render_lock(file->plan, test->input, arena, &out->lock, err);
}

/* --- comparing --------------------------------------------------------------------------- */

struct comparison {
    const struct test_case *test;
    const struct stub_result *result;
    struct arena *arena;
    struct test_failures *out;
};

static void differs(struct comparison *c, const struct test_expect *expect, struct str expected,
                    struct str got)
{
    if (c->out->count == TEST_FAILURES_MAX)
        return;
    struct test_failure *failure = &c->out->list[c->out->count++];
    const char *what = dsl_test_expect_name(expect->kind);
    if (expect->step != PLAN_STEP_NONE) {
        const struct plan_step *step = &c->result->row.plan->steps[expect->step];
        what = arena_printf(c->arena, "steps." STR_FMT ".%s",
                            STR_ARG(key_instance(step, expect->item, c->arena)), what)
                   .ptr;
    }
    *failure = (struct test_failure){expect->line, what, expected, got};
}

static void word_compare(struct comparison *c, const struct test_expect *expect, const char *got,
                         struct str got_text)
{
    if (!str_eq_z(expect->value->text, got))
        differs(c, expect, expect->value->text, got_text);
}

static void value_compare(struct comparison *c, const struct test_expect *expect, struct str text)
{
    const struct json *got = ctl_test_value(text, c->arena);
    if (!json_equal(expect->value, got))
        differs(c, expect, json_text(expect->value, c->arena), json_text(got, c->arena));
}

static int str_order(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

/* "charge:execute" is "charge". */
static struct str call_name(struct str name)
{
    static const char suffix[] = ":execute";
    size_t len = sizeof(suffix) - 1;
    if (name.len > len && memcmp(name.ptr + name.len - len, suffix, len) == 0)
        name.len -= len;
    return name;
}

static void calls_compare(struct comparison *c, const struct test_expect *expect,
                          const struct stub_call *calls, uint32_t got_count)
{
    uint32_t count = expect->value->count;
    struct str *expected = arena_array(c->arena, struct str, count);
    struct str *got = calls_names(calls, got_count, c->arena);
    for (uint32_t i = 0; i < count; i++)
        expected[i] = call_name(expect->value->items[i]->text);
    if (expect->any_order) {
        qsort(expected, count, sizeof(*expected), str_order);
        qsort(got, got_count, sizeof(*got), str_order);
    }
    bool same = count == got_count;
    for (uint32_t i = 0; same && i < count; i++)
        same = str_eq(expected[i], got[i]);
    if (!same)
        differs(c, expect, names_text(expected, count, c->arena),
                names_text(got, got_count, c->arena));
}

/* What is known of an entry must be so; a text is its step. */
static bool residue_entry_fits(const struct json *expected, const struct json *got)
{
    if (expected->kind == JSON_STRING)
        return str_eq(expected->text, json_get_text(got, "step"));
    for (uint32_t i = 0; i < expected->count; i++) {
        const struct json *value = json_get(got, expected->members[i].name);
        if (!value || !json_equal(expected->members[i].value, value))
            return false;
    }
    return true;
}

static void residue_compare(struct comparison *c, const struct test_expect *expect)
{
    const struct json *got = ctl_test_value(c->result->row.now.residue, c->arena);
    uint32_t count = got->kind == JSON_LIST ? got->count : 0;
    bool same = count == expect->value->count;
    for (uint32_t i = 0; same && i < count; i++) {
        bool found = false; /* both name each step once, so the order needs no care */
        for (uint32_t j = 0; j < count && !found; j++)
            found = residue_entry_fits(expect->value->items[i], got->items[j]);
        same = found;
    }
    if (!same)
        differs(c, expect, json_text(expect->value, c->arena),
                count ? json_text(got, c->arena) : STR("[]"));
}

/* "2h 100ms" */
static struct str spaced_duration(int64_t us, struct arena *arena)
{
    struct str text = duration_format(us, arena);
    struct buf out = {0};
    for (size_t i = 0; i < text.len; i++) {
        bool begins = i && ascii_is_digit(text.ptr[i]) && !ascii_is_digit(text.ptr[i - 1]);
        if (begins)
            buf_add_char(&out, ' ');
        buf_add_char(&out, text.ptr[i]);
    }
    struct str spaced = arena_str(arena, buf_str(&out));
    buf_free(&out);
    return spaced;
}

static void takes_compare(struct comparison *c, const struct test_expect *expect)
{
    int64_t took = c->result->ended_us;
    if (took < expect->at_least_us || took > expect->at_most_us)
        differs(c, expect, expect->value->text, spaced_duration(took - took % MS_US, c->arena));
}

static void step_compare(struct comparison *c, const struct test_expect *expect)
{
    const struct record_effect *execute =
        stub_row_newest(&c->result->row, expect->step, expect->item, DIRECTION_EXECUTE);
    const struct record_effect *compensate =
        stub_row_newest(&c->result->row, expect->step, expect->item, DIRECTION_COMPENSATE);
    const char *state = execute ? step_state_name(execute->state.state) : "pending";
    int64_t attempts = execute ? execute->state.attempts : 0, expected;
    switch (expect->kind) {
    case TEST_EXPECT_STEP_STATE: word_compare(c, expect, state, str_z(state)); break;
    case TEST_EXPECT_STEP_COMPENSATION_STATE:
        state = compensate ? step_state_name(compensate->state.state) : "none";
        word_compare(c, expect, state, str_z(state));
        break;
    case TEST_EXPECT_STEP_ATTEMPTS:
        if (!json_to_int(expect->value, &expected) || expected != attempts)
            differs(c, expect, json_text(expect->value, c->arena),
                    arena_printf(c->arena, "%lld", (long long)attempts));
        break;
    default: value_compare(c, expect, execute ? execute->state.output : STR_NONE);
    }
}

static void one_compare(struct comparison *c, const struct test_expect *expect)
{
    const struct record_run *now = &c->result->row.now;
    const char *cause = now->cause == CAUSE_NONE ? "none" : run_cause_name(now->cause);
    const char *reason = now->state == RUN_PARKED ? park_reason_name(now->reason) : "none";
    switch (expect->kind) {
    case TEST_EXPECT_STATE:
        word_compare(c, expect, run_state_name(now->state), ctl_test_end_text(c->result, c->arena));
        break;
    case TEST_EXPECT_CAUSE: word_compare(c, expect, cause, str_z(cause)); break;
    case TEST_EXPECT_REASON: word_compare(c, expect, reason, str_z(reason)); break;
    case TEST_EXPECT_CALLS:
        calls_compare(c, expect, c->result->calls, c->result->calls_count);
        break;
    case TEST_EXPECT_ASKS: calls_compare(c, expect, c->result->asks, c->result->asks_count); break;
    case TEST_EXPECT_OUTPUT: value_compare(c, expect, now->output); break;
    case TEST_EXPECT_RESIDUE: residue_compare(c, expect); break;
    case TEST_EXPECT_TAKES: takes_compare(c, expect); break;
    case TEST_EXPECT_STEP_STATE:
    case TEST_EXPECT_STEP_COMPENSATION_STATE:
    case TEST_EXPECT_STEP_ATTEMPTS:
    case TEST_EXPECT_STEP_OUTPUT: step_compare(c, expect); break;
    case TEST_EXPECT_NONE: break;
    }
}

void ctl_test_compare(const struct test_case *test, const struct stub_result *result,
                      struct arena *arena, struct test_failures *out)
{
    struct comparison c = {test, result, arena, out};
    out->count = 0;
    for (uint32_t i = 0; i < test->expects_count; i++)
        one_compare(&c, &test->expects[i]);
    if (result->broken &&
        out->count < TEST_FAILURES_MAX) /* a fault of the engine, not of the test */
        out->list[out->count++] = (struct test_failure){test->line, "engine", STR("sound records"),
                                                        str_z(result->broken)};
}
