/*
 * compile_tests.c: the `tests` of a workflow.
 *
 * Whatever a test says is held against the plan: steps that exist, an input that fits the schema,
 * answers of the step's own kind. Each mistake has its place in the file.
 */
#include "dsl/compiler.h"
#include "dsl/tests.h"

#include <stdio.h>
#include <stdlib.h>

#include "dsl/jsonschema.h"
#include "engine/base/ascii.h"

#define TESTS_MAX 1000

struct tests_compiler {
    struct compiler cx;
    struct tests *out;
    const struct plan *plan;
};

static void tests_list_compile(struct tests_compiler *tx, const struct node *node);
static bool choice_check(struct tests_compiler *tx, const struct node *node, enum lang_group group,
                         const char *key);
static void test_compile(struct tests_compiler *tx, const struct node *node, struct test_case *out);

/* --- the front door ---------------------------------------------------------------------- */

const char *dsl_test_expect_name(enum test_expect_kind kind)
{
    static const char *const names[] = {"none",
#define X(id, name) name,
                                        TEST_EXPECTS(X)
#undef X
    };
    ASSERT((size_t)kind < ARRAY_LEN(names));
    return names[kind];
}

struct tests *dsl_tests_compile(struct str source, bool own_file, const struct plan *plan,
                                struct diags *diags)
{
    struct doc doc;
    struct arena scratch = {0};
    struct diags unheard; /* of a workflow's file the compiler has spoken already */
    struct tests *tests = xcalloc(1, sizeof(*tests));
    if (!own_file && plan && !plan->has_tests)
        return tests; /* most files: they need not be read once more */
    diags_init(&unheard, "", source);
    doc_load(&doc, source, DSL_SOURCE_BYTES_MAX, DSL_NODES_MAX, own_file ? diags : &unheard);
    struct tests_compiler tx = {
        .cx = {.doc = &doc, .diags = diags, .arena = &tests->arena, .scratch = &scratch},
        .out = tests,
        .plan = plan,
    };
    const struct node *list = NULL;
    if (doc.root && (!own_file || keys_check(&tx.cx, doc.root, LANG_TEST_FILE)))
        list = node_get(doc.root, "tests");
    if (list)
        tests_list_compile(&tx, list);
    bool ok = doc.root && diags->errors == 0;
    doc_free(&doc);
    arena_free(&scratch);
    diags_free(&unheard);
    diags_sort(diags);
    if (ok)
        return tests;
    dsl_tests_free(tests);
    return NULL;
}

void dsl_tests_free(struct tests *tests)
{
    if (!tests)
        return;
    arena_free(&tests->arena);
    free(tests);
}

struct str dsl_tests_workflow(struct str source, struct arena *arena)
{
    struct doc doc;
    struct diags unheard;
    struct str found = STR_NONE;
    diags_init(&unheard, "", source);
    doc_load(&doc, source, DSL_SOURCE_BYTES_MAX, DSL_NODES_MAX, &unheard);
    const struct node *node = doc.root ? node_get(doc.root, "workflow") : NULL;
    if (node && node->kind == NODE_TEXT && node->text.len)
        found = arena_str(arena, node->text);
    doc_free(&doc);
    diags_free(&unheard);
    return found;
}

static void tests_list_compile(struct tests_compiler *tx, const struct node *node)
{
    if (!node_is_list(&tx->cx, node, "`tests`"))
        return;
    if (node->count > TESTS_MAX) {
        node_error(&tx->cx, "E109", node, "a file holds at most %d tests", TESTS_MAX);
        return;
    }
    struct test_case *list = arena_array(&tx->out->arena, struct test_case, node->count);
    tx->out->list = list;
    for (uint32_t i = 0; i < node->count; i++) {
        test_compile(tx, node->items[i], &list[i]);
        tx->out->count++;
        const struct node *name = node_get(node->items[i], "name");
        for (uint32_t j = 0; j < i && name; j++)
            if (*list[i].name && strcmp(list[j].name, list[i].name) == 0)
                node_error(&tx->cx, "E404", name, "another test has this name, in line %u",
                           list[j].line);
    }
}

/* --- what is named ----------------------------------------------------------------------- */

struct named_effect {
    uint16_t step;
    struct str item;
    bool compensation, asks;
};

/* What may stand behind a step's name. */
enum suffixes { SUFFIX_NONE, SUFFIX_DIRECTION, SUFFIX_QUESTION };

/* :compensate, :execute; :reconcile, alone or behind one of those. */
static bool suffix_read(struct str suffix, enum suffixes allowed, struct named_effect *out)
{
    const char *colon = memchr(suffix.ptr, ':', suffix.len);
    size_t len = colon ? (size_t)(colon - suffix.ptr) : suffix.len;
    struct str first = {suffix.ptr, len}, rest = {suffix.ptr + len + 1, 0};
    if (colon)
        rest.len = suffix.len - len - 1;
    if (str_eq(first, STR("reconcile")) && !colon) {
        out->asks = true;
        return allowed >= SUFFIX_QUESTION;
    }
    out->compensation = str_eq(first, STR("compensate"));
    if (!out->compensation && !str_eq(first, STR("execute")))
        return false;
    out->asks = colon && str_eq(rest, STR("reconcile"));
    return colon ? out->asks && allowed >= SUFFIX_QUESTION : allowed >= SUFFIX_DIRECTION;
}

/* STEP, STEP.ITEM, and what is allowed behind it. */
static bool effect_read(struct tests_compiler *tx, const struct node *node, struct str text,
                        enum suffixes allowed, struct named_effect *out)
{
    static const char *const nouns[] = {"step", "effect", "effect or question"};
    static const char *const ways_out[] = {
        "write STEP without a direction", "write STEP or STEP:compensate",
        "write STEP or STEP:compensate, and :reconcile behind it for the question"};
    const char *names[PLAN_STEPS_MAX];
    const char *colon = memchr(text.ptr, ':', text.len);
    struct str name = {text.ptr, colon ? (size_t)(colon - text.ptr) : text.len};
    *out = (struct named_effect){.item = STR("")};
    if (colon && !suffix_read((struct str){colon + 1, text.len - name.len - 1}, allowed, out)) {
        struct diag *diag = node_error(&tx->cx, "E403", node, "`" STR_FMT "` names no %s",
                                       STR_ARG(text), nouns[allowed]);
        diag_help(tx->cx.diags, diag, "%s", ways_out[allowed]);
        return false;
    }
    const char *dot = memchr(name.ptr, '.', name.len);
    if (dot) {
        out->item = arena_str(&tx->out->arena,
                              (struct str){dot + 1, name.len - (size_t)(dot - name.ptr) - 1});
        name.len = (size_t)(dot - name.ptr);
    }
    out->step = plan_step_find(tx->plan, name);
    if (out->step != PLAN_STEP_NONE)
        return true;
    struct diag *diag =
        node_error(&tx->cx, "E401", node, "the workflow has no step `" STR_FMT "`", STR_ARG(name));
    for (uint16_t i = 0; i < tx->plan->steps_count; i++)
        names[i] = tx->plan->steps[i].id;
    const char *nearest = diag_nearest(name, names, tx->plan->steps_count);
    if (nearest)
        diag_help(tx->cx.diags, diag, "a step with a similar name exists: `%s`", nearest);
    return false;
}

/* --- input ------------------------------------------------------------------------------- */

/* The node that a JSON pointer names, or the nearest above it. */
static const struct node *node_at(const struct node *node, struct str pointer)
{
    size_t at = 0;
    while (at < pointer.len && (node->kind == NODE_MAP || node->kind == NODE_LIST)) {
        size_t start = at + 1, end = start;
        while (end < pointer.len && pointer.ptr[end] != '/')
            end++;
        struct str part = {pointer.ptr + start, end - start};
        const struct node *next = NULL;
        if (node->kind == NODE_LIST) {
            unsigned long index = strtoul(part.ptr, NULL, 10);
            next = index < node->count ? node->items[index] : NULL;
        }
        for (uint32_t i = 0; node->kind == NODE_MAP && i < node->count; i++)
            if (str_eq(node->pairs[i].key->text, part))
                next = node->pairs[i].value;
        if (!next)
            return node;
        node = next;
        at = end;
    }
    return node;
}

static void input_compile(struct tests_compiler *tx, const struct node *test,
                          const struct node *node, struct test_case *out)
{
    struct schema_errors errors = {0};
    out->input = node ? node_json(node, &tx->out->arena) : json_object_new(&tx->out->arena, 0);
    const struct node *place = node ? node : test;
    if (node && node->kind != NODE_MAP) {
        node_is_map(&tx->cx, node, "`input`");
        return;
    }
    if (!tx->plan->input || schema_check(tx->plan->input, out->input, tx->cx.scratch, &errors))
        return;
    for (uint32_t i = 0; i < errors.count; i++) {
        const struct schema_error *error = &errors.list[i];
        struct diag *diag =
            node_error(&tx->cx, "E402", node ? node_at(node, error->pointer) : place,
                       "the input does not fit the schema of \"%s\": %s" STR_FMT " " STR_FMT,
                       tx->plan->workflow, error->pointer.len ? "" : "it", STR_ARG(error->pointer),
                       STR_ARG(error->message));
        if (!node)
            diag_help(tx->cx.diags, diag, "write `input: {...}`");
    }
}

static void env_compile(struct tests_compiler *tx, const struct node *node, struct test_case *out)
{
    if (!node_is_map(&tx->cx, node, "`env`"))
        return;
    struct json *env = json_object_new(&tx->out->arena, node->count);
    for (uint32_t i = 0; i < node->count; i++) {
        struct str text;
        if (read_text(&tx->cx, node->pairs[i].value, "a value of `env`", &text))
            json_object_add(env, arena_str(&tx->out->arena, node->pairs[i].key->text),
                            json_string(&tx->out->arena, text));
    }
    out->env = env;
}

/* --- answers ----------------------------------------------------------------------------- */

static const struct {
    const char *key;
    enum action_kind kind;
} answer_keys[] = {
    {"status", ACTION_HTTP}, {"headers", ACTION_HTTP},     {"body", ACTION_HTTP},
    {"exit", ACTION_EXEC},   {"stdout", ACTION_EXEC},      {"stderr", ACTION_EXEC},
    {"rows", ACTION_SQL},    {"count", ACTION_SQL},        {"sqlstate", ACTION_SQL},
    {"ends", ACTION_CHILD},  {"output", ACTION_WORKER},    {"fail", ACTION_WORKER},
    {"code", ACTION_WORKER}, {"retryable", ACTION_WORKER},
};

/* An http answer has no exit code. */
static bool answer_kind_check(struct tests_compiler *tx, const struct node *node,
                              enum action_kind kind)
{
    bool ok = true;
    for (size_t i = 0; i < ARRAY_LEN(answer_keys); i++) {
        const struct pair *pair = node_get_pair(node, answer_keys[i].key);
        bool of_child = kind == ACTION_CHILD && strcmp(answer_keys[i].key, "output") == 0;
        if (!pair || answer_keys[i].kind == kind || of_child)
            continue;
        node_error(&tx->cx, "E403", pair->key, "`%s` belongs to the answer of %s, this is %s",
                   answer_keys[i].key, action_kind_name(answer_keys[i].kind),
                   action_kind_name(kind));
        ok = false;
    }
    return ok;
}

/* Text as it is, anything else as JSON. */
static struct str payload_read(struct tests_compiler *tx, const struct node *node)
{
    struct arena *arena = &tx->out->arena;
    return node->kind == NODE_TEXT ? arena_str(arena, node->text)
                                   : json_text(node_json(node, arena), arena);
}

static void answer_http_read(struct tests_compiler *tx, const struct node *node,
                             struct test_answer *out)
{
    const struct node *value;
    int64_t number;
    if ((value = node_get(node, "status")) &&
        read_integer(&tx->cx, value, "`status`", 100, 599, &number))
        out->status = (int)number;
    if ((value = node_get(node, "body")))
        out->body = payload_read(tx, value);
    value = node_get(node, "headers");
    if (!value || !node_is_map(&tx->cx, value, "`headers`"))
        return;
    struct json *headers = json_object_new(&tx->out->arena, value->count);
    for (uint32_t i = 0; i < value->count; i++) {
        struct str text, name = arena_str(&tx->out->arena, value->pairs[i].key->text);
        for (size_t j = 0; j < name.len; j++) /* as invokers give them */
            ((char *)name.ptr)[j] = ascii_lower(name.ptr[j]);
        if (read_text(&tx->cx, value->pairs[i].value, "a header", &text))
            json_object_add(headers, name, json_string(&tx->out->arena, text));
    }
    out->headers = headers;
}

static void answer_exec_read(struct tests_compiler *tx, const struct node *node,
                             struct test_answer *out)
{
    const struct node *value;
    int64_t number;
    if ((value = node_get(node, "exit")) &&
        read_integer(&tx->cx, value, "`exit`", -64, 255, &number))
        out->exit = (int)number;
    if ((value = node_get(node, "stdout")))
        out->body = payload_read(tx, value);
    if ((value = node_get(node, "stderr")))
        read_text(&tx->cx, value, "`stderr`", &out->stderr_text);
}

static void answer_sql_read(struct tests_compiler *tx, const struct node *node,
                            struct test_answer *out)
{
    const struct node *rows = node_get(node, "rows"), *count = node_get(node, "count"), *value;
    struct str text;
    int64_t number = rows && rows->kind == NODE_LIST ? rows->count : 1;
    if (rows && !node_is_list(&tx->cx, rows, "`rows`"))
        return;
    if (count && !read_integer(&tx->cx, count, "`count`", 0, INT32_MAX, &number))
        return;
    if (rows || count)
        out->body = arena_printf(
            &tx->out->arena, "{\"rows\":" STR_FMT ",\"count\":%lld}",
            STR_ARG(rows ? json_text(node_json(rows, tx->cx.scratch), tx->cx.scratch) : STR("[]")),
            (long long)number);
    if ((value = node_get(node, "sqlstate")) && read_text(&tx->cx, value, "`sqlstate`", &text)) {
        if (text.len != 5)
            node_error(&tx->cx, "E109", value, "`sqlstate` has five characters, such as 23505");
        else
            memcpy(out->sqlstate, text.ptr, 5);
    }
}

static void answer_worker_read(struct tests_compiler *tx, const struct node *node,
                               struct test_answer *out)
{
    static const char *const of_failure[] = {"code", "retryable"};
    const struct node *value;
    if ((value = node_get(node, "output")))
        out->body = json_text(node_json(value, &tx->out->arena), &tx->out->arena);
    if ((value = node_get(node, "fail")))
        out->failed = read_text(&tx->cx, value, "`fail`", &out->message);
    if ((value = node_get(node, "code")))
        read_text(&tx->cx, value, "`code`", &out->code);
    if ((value = node_get(node, "retryable")))
        read_boolean(&tx->cx, value, "`retryable`", &out->retryable);
    for (size_t i = 0; i < ARRAY_LEN(of_failure) && !out->failed; i++)
        if (node_get(node, of_failure[i]))
            node_error(&tx->cx, "E403", node_get_pair(node, of_failure[i])->key,
                       "`%s` says more of a failure, but there is no `fail`", of_failure[i]);
}

static void answer_child_read(struct tests_compiler *tx, const struct node *node, bool compensation,
                              struct test_answer *out)
{
    const struct node *value;
    if ((value = node_get(node, "output")))
        out->body = json_text(node_json(value, &tx->out->arena), &tx->out->arena);
    if (!(value = node_get(node, "ends")) || !choice_check(tx, value, LANG_TEST_ANSWER, "ends"))
        return;
    /* Seen from what was asked of it: to do its work, or to undo it. */
    bool completed = str_eq(value->text, STR("completed"));
    bool compensated = str_eq(value->text, STR("compensated"));
    if (compensation ? compensated : completed)
        out->child_end = "done";
    else if (compensated)
        out->child_end = "undone";
    else if (completed)
        node_error(&tx->cx, "E403", value, "a child that is told to turn back does not complete");
    else
        out->child_end = str_eq(value->text, STR("refused")) ? "refused" : "abandoned";
}

static bool answer_word_read(struct tests_compiler *tx, const struct node *node,
                             struct test_answer *out)
{
    static const char *const words[] = {
#define X(id, name) name,
        TEST_ANSWER_KINDS(X)
#undef X
    };
    for (size_t i = 1; i < ARRAY_LEN(words); i++)
        if (str_eq_z(node->text, words[i])) {
            out->kind = (enum test_answer_kind)(i + 1);
            return true;
        }
    struct diag *diag =
        node_error(&tx->cx, "E104", node, "an answer cannot be `" STR_FMT "`", STR_ARG(node->text));
    const char *nearest = diag_nearest(node->text, words + 1, ARRAY_LEN(words) - 1);
    if (nearest)
        diag_help(tx->cx.diags, diag, "did you mean `%s`?", nearest);
    else
        diag_help(tx->cx.diags, diag,
                  "it is a map such as {status: 200}, or one of: lost, lost_before, timeout, "
                  "connect");
    return false;
}

static bool answer_read(struct tests_compiler *tx, const struct node *node, enum action_kind kind,
                        bool compensation, struct test_answer *out)
{
    const struct node *value;
    bool done;
    *out = (struct test_answer){.kind = TEST_ANSWER_REPLY, .after_us = -1};
    if (node->kind == NODE_TEXT && kind == ACTION_CHILD) {
        node_error(&tx->cx, "E403", node, "a child's answer is written {ends: compensated}");
        return false;
    }
    if (node->kind == NODE_TEXT)
        return answer_word_read(tx, node, out);
    if (!keys_check(&tx->cx, node, LANG_TEST_ANSWER) || !answer_kind_check(tx, node, kind))
        return false;
    if ((value = node_get(node, "after")))
        read_duration(&tx->cx, value, "`after`", 0, &out->after_us);
    if ((value = node_get(node, "done")) && read_boolean(&tx->cx, value, "`done`", &done))
        out->done = done ? TEST_DONE_YES : TEST_DONE_NO;
    if (kind == ACTION_HTTP)
        answer_http_read(tx, node, out);
    else if (kind == ACTION_EXEC)
        answer_exec_read(tx, node, out);
    else if (kind == ACTION_SQL)
        answer_sql_read(tx, node, out);
    else if (kind == ACTION_WORKER)
        answer_worker_read(tx, node, out);
    else if (kind == ACTION_CHILD)
        answer_child_read(tx, node, compensation, out);
    return true;
}

static const struct plan_action *action_of(const struct tests_compiler *tx,
                                           const struct named_effect *effect)
{
    const struct plan_step *step = &tx->plan->steps[effect->step];
    return effect->compensation ? &step->compensate : &step->action;
}

static bool reconcile_check(struct tests_compiler *tx, const struct node *node,
                            const struct plan_action *action)
{
    if (action->reconcile)
        return true;
    node_error(&tx->cx, "E403", node, "`" STR_FMT "` is never asked about: it has no `reconcile`",
               STR_ARG(node->text));
    return false;
}

static void answers_read(struct tests_compiler *tx, const struct pair *pair,
                         struct test_answers *out)
{
    struct named_effect effect;
    if (!effect_read(tx, pair->key, pair->key->text, SUFFIX_QUESTION, &effect))
        return;
    const struct plan_action *action = action_of(tx, &effect);
    enum action_kind kind = action->kind;
    if (effect.asks && !reconcile_check(tx, pair->key, action))
        return;
    if (effect.asks)
        kind = action->reconcile->ask.kind;
    if (kind == ACTION_NONE || action_kind_waits(kind)) {
        node_error(&tx->cx, "E403", pair->key, "`" STR_FMT "` asks nobody: it has no answer",
                   STR_ARG(pair->key->text));
        return;
    }
    const struct node *value = pair->value;
    uint32_t count = value->kind == NODE_LIST ? value->count : 1;
    struct test_answer *list = arena_array(&tx->out->arena, struct test_answer, count);
    if (count == 0)
        node_error(&tx->cx, "E403", value, "the list of answers is empty");
    for (uint32_t i = 0; i < count; i++)
        if (!answer_read(tx, value->kind == NODE_LIST ? value->items[i] : value, kind,
                         effect.compensation, &list[i]))
            return;
    for (uint32_t i = 0; i < count && effect.asks; i++) {
        const struct pair *done =
            node_get_pair(value->kind == NODE_LIST ? value->items[i] : value, "done");
        if (done)
            node_error(&tx->cx, "E403", done->key,
                       "`done` belongs to the answer of an action: a question does nothing");
    }
    *out = (struct test_answers){effect.step, effect.item, effect.compensation,
                                 effect.asks, list,        count};
}

static void answers_compile(struct tests_compiler *tx, const struct node *node,
                            struct test_case *out)
{
    if (!node_is_map(&tx->cx, node, "`answers`"))
        return;
    struct test_answers *answers = arena_array(&tx->out->arena, struct test_answers, node->count);
    for (uint32_t i = 0; i < node->count; i++)
        answers_read(tx, &node->pairs[i], &answers[i]);
    out->answers = answers;
    out->answers_count = node->count;
}

/* --- at ---------------------------------------------------------------------------------- */

static bool verb_word_read(struct tests_compiler *tx, const struct node *node,
                           struct test_verb *out)
{
    const char *words[16];
    size_t count = 0;
    const char *choices = lang_key_find(LANG_TEST_VERB, STR("do"))->choices;
    for (const char *at = choices; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        words[count++] = arena_str(&tx->out->arena, (struct str){at, strcspn(at, "|")}).ptr;
    for (size_t i = 0; i < count && node->kind == NODE_TEXT; i++)
        if (str_eq_z(node->text, words[i])) {
            out->verb = words[i];
            return true;
        }
    struct diag *diag =
        node_error(&tx->cx, "E104", node, "an operator cannot `" STR_FMT "`", STR_ARG(node->text));
    const char *nearest = diag_nearest(node->text, words, count);
    if (str_eq(node->text, STR("signal")))
        diag_help(tx->cx.diags, diag,
                  "a signal stands under the test's `signals`: `signals: {NAME: {after: 5s}}`");
    else if (nearest)
        diag_help(tx->cx.diags, diag, "did you mean `%s`?", nearest);
    else
        diag_help(tx->cx.diags, diag,
                  "it is one of: cancel, pause, resume, retry, settle, skip, "
                  "compensate, abandon, approve, reject");
    return false;
}

static bool verb_is_approval(const struct test_verb *verb)
{
    return strcmp(verb->verb, "approve") == 0 || strcmp(verb->verb, "reject") == 0;
}

static void verb_step_read(struct tests_compiler *tx, const struct node *node,
                           struct test_verb *out)
{
    struct named_effect effect;
    bool approval = out->verb && verb_is_approval(out);
    if (!read_text(&tx->cx, node, "`step`", &out->step) ||
        !effect_read(tx, node, out->step, approval ? SUFFIX_NONE : SUFFIX_DIRECTION, &effect))
        return;
    if (approval && !tx->plan->steps[effect.step].approve)
        node_error(&tx->cx, "E403", node, "nobody is asked about `%s`: the step has no `approve`",
                   tx->plan->steps[effect.step].id);
}

/* Some verbs are about one step. */
static void verb_step_check(struct tests_compiler *tx, const struct node *node,
                            const struct test_verb *verb)
{
    if (!verb->verb || verb->step.len)
        return;
    if (!verb_is_approval(verb) && strcmp(verb->verb, "settle") != 0 &&
        strcmp(verb->verb, "skip") != 0)
        return;
    struct diag *diag =
        node_error(&tx->cx, "E403", node, "`%s` does not say of which step", verb->verb);
    diag_help(tx->cx.diags, diag, "write `{do: %s, step: STEP}`", verb->verb);
}

static void verb_read(struct tests_compiler *tx, const struct pair *pair, struct test_verb *out)
{
    const struct node *node = pair->value, *value;
    *out = (struct test_verb){
        .step = STR(""), .reason = STR("test"), .line = doc_line(tx->cx.doc, pair->key->start)};
    read_duration(&tx->cx, pair->key, "a time of `at`", 0, &out->at_us);
    if (node->kind == NODE_TEXT) {
        verb_word_read(tx, node, out);
        verb_step_check(tx, node, out);
        return;
    }
    if (!keys_check(&tx->cx, node, LANG_TEST_VERB))
        return;
    if ((value = node_get(node, "do")))
        verb_word_read(tx, value, out);
    if ((value = node_get(node, "step")))
        verb_step_read(tx, value, out);
    else
        verb_step_check(tx, node, out);
    if ((value = node_get(node, "reason")))
        read_text(&tx->cx, value, "`reason`", &out->reason);
    if ((value = node_get(node, "applied")))
        read_boolean(&tx->cx, value, "`applied`", &out->applied);
    if ((value = node_get(node, "output")))
        out->output = json_text(node_json(value, &tx->out->arena), &tx->out->arena);
}

static int verb_cmp(const void *a, const void *b)
{
    const struct test_verb *x = a, *y = b;
    return x->at_us != y->at_us ? (x->at_us < y->at_us ? -1 : 1)
                                : (x->line > y->line) - (x->line < y->line);
}

static void signal_read(struct tests_compiler *tx, const struct pair *pair, struct test_verb *out)
{
    const struct node *value;
    *out = (struct test_verb){.verb = "signal",
                              .step = STR(""),
                              .reason = STR(""),
                              .output = STR("null"),
                              .name = arena_str(&tx->out->arena, pair->key->text),
                              .line = doc_line(tx->cx.doc, pair->key->start)};
    bool awaited = false;
    for (uint16_t i = 0; i < tx->plan->steps_count; i++) {
        const struct plan_action *action = &tx->plan->steps[i].action;
        awaited = awaited || (action->kind == ACTION_WAIT_FOR &&
                              str_eq_z(pair->key->text, action->wait_for.signal));
    }
    if (!awaited)
        node_error(&tx->cx, "E403", pair->key, "no step waits for the signal `" STR_FMT "`",
                   STR_ARG(pair->key->text));
    if (!keys_check(&tx->cx, pair->value, LANG_TEST_SIGNAL))
        return;
    if ((value = node_get(pair->value, "after")))
        read_duration(&tx->cx, value, "`after`", 0, &out->at_us);
    if ((value = node_get(pair->value, "data")))
        out->output = json_text(node_json(value, &tx->out->arena), &tx->out->arena);
}

/* What people do, and signals, by time. */
static void verbs_compile(struct tests_compiler *tx, const struct node *at,
                          const struct node *signals, struct test_case *out)
{
    uint32_t count = 0;
    if (at && !node_is_map(&tx->cx, at, "`at`"))
        at = NULL;
    if (signals && !node_is_map(&tx->cx, signals, "`signals`"))
        signals = NULL;
    struct test_verb *verbs = arena_array(&tx->out->arena, struct test_verb,
                                          (at ? at->count : 0u) + (signals ? signals->count : 0u));
    for (uint32_t i = 0; at && i < at->count; i++)
        verb_read(tx, &at->pairs[i], &verbs[count++]);
    for (uint32_t i = 0; signals && i < signals->count; i++)
        signal_read(tx, &signals->pairs[i], &verbs[count++]);
    qsort(verbs, count, sizeof(*verbs), verb_cmp);
    out->verbs = verbs;
    out->verbs_count = count;
}

/* --- expect ------------------------------------------------------------------------------ */

#define EXPECTS_OF_A_STEP 4

struct expects {
    struct tests_compiler *tx;
    struct test_expect *list;
    uint32_t count;
};

static struct test_expect *expect_add(struct expects *expects, enum test_expect_kind kind,
                                      const struct node *node)
{
    struct test_expect *expect = &expects->list[expects->count++];
    *expect = (struct test_expect){.kind = kind,
                                   .line = doc_line(expects->tx->cx.doc, node->start),
                                   .value = node_json(node, &expects->tx->out->arena),
                                   .step = PLAN_STEP_NONE,
                                   .item = STR(""),
                                   .at_most_us = INT64_MAX};
    return expect;
}

static bool choice_check(struct tests_compiler *tx, const struct node *node, enum lang_group group,
                         const char *key)
{
    const char *choices = lang_key_find(group, str_z(key))->choices, *words[24];
    struct buf all = {0};
    size_t count = 0;
    if (node->kind == NODE_TEXT && lang_choice_has(choices, node->text))
        return true;
    for (const char *at = choices; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL) {
        words[count] = arena_str(tx->cx.scratch, (struct str){at, strcspn(at, "|")}).ptr;
        buf_printf(&all, "%s%s", count ? ", " : "", words[count]);
        count++;
    }
    struct diag *diag =
        node_error(&tx->cx, "E104", node, "`%s` cannot be `" STR_FMT "`", key, STR_ARG(node->text));
    const char *nearest = diag_nearest(node->text, words, count);
    if (nearest)
        diag_help(tx->cx.diags, diag, "did you mean `%s`?", nearest);
    else
        diag_help(tx->cx.diags, diag, "it is one of: %s", all.data);
    buf_free(&all);
    return false;
}

/* "< 2m", ">= 1s", "3s" */
static void takes_read(struct tests_compiler *tx, const struct node *node,
                       struct test_expect *expect)
{
    struct str text = node->text;
    size_t at = 0;
    while (at < text.len && (text.ptr[at] == '<' || text.ptr[at] == '>' || text.ptr[at] == '='))
        at++;
    struct str sign = {text.ptr, at};
    while (at < text.len && text.ptr[at] == ' ')
        at++;
    int64_t us;
    if (node->kind != NODE_TEXT ||
        !duration_parse((struct str){text.ptr + at, text.len - at}, &us) ||
        (sign.len && !lang_choice_has("<|<=|>|>=|==", sign))) {
        struct diag *diag = node_error(&tx->cx, "E403", node, "`takes` must compare a duration");
        diag_help(tx->cx.diags, diag, "write `takes: \"< 2m\"`, with <, <=, >, >= or nothing");
        return;
    }
    bool below = sign.len && sign.ptr[0] == '<', above = sign.len && sign.ptr[0] == '>';
    int64_t strict = sign.len == 1;
    expect->at_least_us = below ? 0 : above ? us + strict : us;
    expect->at_most_us = above ? INT64_MAX : below ? us - strict : us;
}

static void calls_check(struct tests_compiler *tx, const struct node *node, const char *key)
{
    struct named_effect effect;
    char what[16];
    bool asks = strcmp(key, "asks") == 0;
    snprintf(what, sizeof(what), "`%s`", key);
    if (!node_is_list(&tx->cx, node, what))
        return;
    for (uint32_t i = 0; i < node->count; i++) {
        const struct node *item = node->items[i];
        if (item->kind != NODE_TEXT)
            node_error(&tx->cx, "E103", item, "an entry of `%s` must be STEP or STEP:compensate",
                       key);
        else if (effect_read(tx, item, item->text, SUFFIX_DIRECTION, &effect) && asks)
            reconcile_check(tx, item, action_of(tx, &effect));
    }
}

static void residue_check(struct tests_compiler *tx, const struct node *node)
{
    struct named_effect effect;
    if (!node_is_list(&tx->cx, node, "`residue`"))
        return;
    for (uint32_t i = 0; i < node->count; i++) {
        const struct node *item = node->items[i];
        const struct node *step = item->kind == NODE_MAP ? node_get(item, "step") : item;
        if (!step || step->kind != NODE_TEXT)
            node_error(&tx->cx, "E103", item,
                       "an entry of `residue` must be a step, or a map with its `step`");
        else
            effect_read(tx, step, step->text, SUFFIX_NONE, &effect);
    }
}

static void expect_step_read(struct expects *expects, const struct pair *pair)
{
    static const enum test_expect_kind kinds[EXPECTS_OF_A_STEP] = {
        TEST_EXPECT_STEP_STATE, TEST_EXPECT_STEP_COMPENSATION_STATE, TEST_EXPECT_STEP_ATTEMPTS,
        TEST_EXPECT_STEP_OUTPUT};
    struct tests_compiler *tx = expects->tx;
    struct named_effect effect;
    int64_t number;
    if (!effect_read(tx, pair->key, pair->key->text, SUFFIX_NONE, &effect) ||
        !keys_check(&tx->cx, pair->value, LANG_TEST_STEP))
        return;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        const char *name = dsl_test_expect_name(kinds[i]);
        const struct node *node = node_get(pair->value, name);
        if (!node)
            continue;
        if (kinds[i] == TEST_EXPECT_STEP_ATTEMPTS)
            read_integer(&tx->cx, node, "`attempts`", 0, 100000, &number);
        else if (kinds[i] != TEST_EXPECT_STEP_OUTPUT)
            choice_check(tx, node, LANG_TEST_STEP, name);
        struct test_expect *expect = expect_add(expects, kinds[i], node);
        expect->step = effect.step;
        expect->item = effect.item;
    }
}

static void expect_steps_read(struct expects *expects, const struct node *node)
{
    for (uint32_t i = 0; node && i < node->count; i++)
        expect_step_read(expects, &node->pairs[i]);
}

static void expect_calls_read(struct expects *expects, const struct node *node)
{
    const struct node *calls = node_get(node, "calls");
    const struct pair *any_order = node_get_pair(node, "any_order");
    struct tests_compiler *tx = expects->tx;
    bool any = false;
    if (any_order) {
        read_boolean(&tx->cx, any_order->value, "`any_order`", &any);
        if (!calls)
            node_error(&tx->cx, "E403", any_order->key, "`any_order` says something of `calls`");
    }
    if (!calls)
        return;
    calls_check(tx, calls, "calls");
    expect_add(expects, TEST_EXPECT_CALLS, calls)->any_order = any;
}

static void expect_asks_read(struct expects *expects, const struct node *node)
{
    const struct node *asks = node_get(node, "asks");
    if (!asks)
        return;
    calls_check(expects->tx, asks, "asks");
    expect_add(expects, TEST_EXPECT_ASKS, asks);
}

static void expect_compile(struct tests_compiler *tx, const struct node *node,
                           struct test_case *out)
{
    const struct node *value, *steps = node_get(node, "steps");
    struct expects expects = {.tx = tx};
    struct str text;
    if (!keys_check(&tx->cx, node, LANG_TEST_EXPECT))
        return;
    if (steps && !node_is_map(&tx->cx, steps, "`steps`"))
        steps = NULL;
    uint32_t steps_count = steps ? steps->count : 0;
    expects.list = arena_array(&tx->out->arena, struct test_expect,
                               node->count + steps_count * EXPECTS_OF_A_STEP);
    if ((value = node_get(node, "state")) && choice_check(tx, value, LANG_TEST_EXPECT, "state"))
        expect_add(&expects, TEST_EXPECT_STATE, value);
    if ((value = node_get(node, "cause")) && choice_check(tx, value, LANG_TEST_EXPECT, "cause"))
        expect_add(&expects, TEST_EXPECT_CAUSE, value);
    if ((value = node_get(node, "reason")) && read_text(&tx->cx, value, "`reason`", &text))
        expect_add(&expects, TEST_EXPECT_REASON, value);
    expect_calls_read(&expects, node);
    expect_asks_read(&expects, node);
    if ((value = node_get(node, "output")))
        expect_add(&expects, TEST_EXPECT_OUTPUT, value);
    if ((value = node_get(node, "residue"))) {
        residue_check(tx, value);
        expect_add(&expects, TEST_EXPECT_RESIDUE, value);
    }
    expect_steps_read(&expects, steps);
    if ((value = node_get(node, "takes")))
        takes_read(tx, value, expect_add(&expects, TEST_EXPECT_TAKES, value));
    if (!expects.count && tx->cx.diags->errors == 0)
        node_error(&tx->cx, "E403", node, "a test that expects nothing cannot fail");
    out->expects = expects.list;
    out->expects_count = expects.count;
}

/* --- one test ---------------------------------------------------------------------------- */

static void test_compile(struct tests_compiler *tx, const struct node *node, struct test_case *out)
{
    const struct node *value;
    struct str text;
    out->name = "";
    out->line = doc_line(tx->cx.doc, node->start);
    if (!keys_check(&tx->cx, node, LANG_TEST) || !tx->plan)
        return;
    if ((value = node_get(node, "name")) && read_text(&tx->cx, value, "`name`", &text))
        out->name = text.ptr;
    input_compile(tx, node, node_get(node, "input"), out);
    if ((value = node_get(node, "env")))
        env_compile(tx, value, out);
    if ((value = node_get(node, "starts_at")) && read_text(&tx->cx, value, "`starts_at`", &text) &&
        !wall_parse(text, &out->starts_at))
        node_error(&tx->cx, "E109", value,
                   "`starts_at` must be a time such as "
                   "2026-10-25T02:30:00Z");
    if ((value = node_get(node, "answers")))
        answers_compile(tx, value, out);
    verbs_compile(tx, node_get(node, "at"), node_get(node, "signals"), out);
    if ((value = node_get(node, "expect")) && node_is_map(&tx->cx, value, "`expect`"))
        expect_compile(tx, value, out);
}
