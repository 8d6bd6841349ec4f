/*
 * ctl_test.c: sagactl test: plays the tests of workflow files in simulated worlds.
 */
#include "engine/ctl_test.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "dsl/dsl.h"
#include "dsl/jsonschema.h"
#include "engine/ctl_files.h"
#include "engine/ctl_json.h"
#include "engine/ctl_text.h"
#include "engine/ctl_verbs.h"

struct session {
    struct ctl *ctl;
    struct test_file *list;
    size_t count, capacity;
    bool faults;
    bool in_directory; /* files without tests are passed over */
    uint32_t passed, failed, walks, broken;
    uint32_t unreached;       /* steps to which no walk came */
    struct json *json_tests;  /* with `faults` those that failed */
    struct json *json_faults; /* NULL without `faults` */
};

/* --- files ------------------------------------------------------------------------------- */

/* A path beside that of another file. */
static const char *beside(struct ctl *ctl, const char *file, struct str path)
{
    if (path.len && path.ptr[0] == '/')
        return arena_str(&ctl->arena, path).ptr;
    const char *slash = strrchr(file, '/');
    if (!slash)
        return arena_str(&ctl->arena, path).ptr;
    return arena_printf(&ctl->arena, "%.*s/" STR_FMT, (int)(slash - file), file, STR_ARG(path)).ptr;
}

static int workflow_read(struct ctl *ctl, struct test_file *file)
{
    file->workflow = file->name;
    file->workflow_source = file->source;
    if (!ctl_is_test_file(file->name))
        return CTL_OK;
    struct str path = dsl_tests_workflow(file->source, &ctl->arena);
    if (!path.ptr) { /* its diagnostics say so */
        file->workflow = NULL;
        return CTL_OK;
    }
    file->workflow = beside(ctl, file->name, path);
    return ctl_source_read(ctl, file->workflow, &file->workflow_source);
}

static int test_file_add(struct ctl *ctl, const char *name, void *arg)
{
    struct session *session = arg;
    if (session->count == session->capacity) {
        session->capacity = session->capacity ? 2 * session->capacity : 16;
        session->list = xrealloc(session->list, session->capacity * sizeof(*session->list));
    }
    struct test_file *file = &session->list[session->count];
    *file = (struct test_file){.name = name};
    int code = ctl_source_read(ctl, name, &file->source);
    if (!code)
        code = workflow_read(ctl, file);
    if (code)
        return code;
    session->count++;
    diags_init(&file->plan_diags, file->workflow ? file->workflow : name, file->workflow_source);
    diags_init(&file->tests_diags, name, file->source);
    if (file->workflow)
        file->plan = dsl_compile(file->workflow_source, NULL, &file->plan_diags);
    if (file->plan || !file->workflow)
        file->tests =
            dsl_tests_compile(file->source, ctl_is_test_file(name), file->plan, &file->tests_diags);
    if (file->plan) {
        file->plan->is_limited = false; /* one run alone shares its services with nobody */
        file->outputs = dsl_sample_outputs(file->plan, &ctl->arena);
    }
    return CTL_OK;
}

static int files_load(struct session *session)
{
    struct ctl *ctl = session->ctl;
    struct stat info;
    for (unsigned i = 0; i < ctl->args_count; i++) {
        const char *name = ctl->args[i];
        bool is_dir = stat(name, &info) == 0 && S_ISDIR(info.st_mode);
        session->in_directory = session->in_directory || is_dir;
        int code = is_dir ? ctl_dir_scan(ctl, name, true, test_file_add, session)
                          : test_file_add(ctl, name, session);
        if (code)
            return code;
    }
    return CTL_OK;
}

static void session_free(struct session *session)
{
    for (size_t i = 0; i < session->count; i++) {
        struct test_file *file = &session->list[i];
        dsl_tests_free(file->tests);
        plan_unref(file->plan);
        diags_free(&file->plan_diags);
        diags_free(&file->tests_diags);
    }
    free(session->list);
}

/* Says what is wrong with the files; nothing is played if something is. */
static int files_check(struct session *session)
{
    struct ctl *ctl = session->ctl;
    int code = CTL_OK;
    uint32_t tests = 0;
    for (size_t i = 0; i < session->count; i++) {
        struct test_file *file = &session->list[i];
        if (!file->plan && file->workflow)
            ctl_diags_say(ctl, &file->plan_diags);
        ctl_diags_say(ctl, &file->tests_diags);
        if (file->plan && file->tests) {
            tests += file->tests->count;
            continue;
        }
        ctl_say(ctl, "%s has errors; nothing was played",
                file->plan || !file->workflow ? file->name : file->workflow);
        code = CTL_USAGE;
    }
    for (size_t i = 0; !code && !session->faults && i < session->count; i++)
        if (!session->list[i].tests->count && (!session->in_directory || !tests)) {
            ctl_say(ctl, "%s has no tests", session->list[i].name);
            ctl_hint(ctl, "Write some under `tests`, or in a file NAME.test.yaml; --faults plays "
                          "a workflow without any.");
            return CTL_USAGE;
        }
    return code;
}

/* --- one test ---------------------------------------------------------------------------- */

static const struct json *failures_json(const struct test_failures *failures, struct arena *arena)
{
    struct json *list = json_list_new(arena, failures->count);
    for (uint32_t i = 0; i < failures->count; i++) {
        const struct test_failure *failure = &failures->list[i];
        struct json *entry = json_object_new(arena, 4);
        json_object_add_z(entry, "line", json_int(arena, failure->line));
        json_object_add_z(entry, "what", json_string_z(arena, failure->what));
        json_object_add_z(entry, "expected", json_string(arena, failure->expected));
        json_object_add_z(entry, "got", json_string(arena, failure->got));
        json_list_add(list, entry);
    }
    return list;
}

static const struct json *calls_json(const struct stub_call *calls, uint32_t count,
                                     struct arena *arena)
{
    struct json *list = json_list_new(arena, count);
    for (uint32_t i = 0; i < count; i++)
        json_list_add(list, json_string(arena, calls[i].name));
    return list;
}

static const struct json *test_json(const struct test_file *file, const struct test_case *test,
                                    const struct stub_result *result,
                                    const struct test_failures *failures, struct arena *arena)
{
    const struct record_run *now = &result->row.now;
    struct json *out = json_object_new(arena, 16);
    struct ctl_test_notes notes = {0};
    ctl_test_unplayed_add(result, arena, &notes);
    json_object_add_z(out, "file", json_string_z(arena, file->name));
    json_object_add_z(out, "line", json_int(arena, test->line));
    json_object_add_z(out, "name", json_string_z(arena, test->name));
    json_object_add_z(out, "ok", json_bool(failures->count == 0));
    json_object_add_z(out, "state", json_string_z(arena, run_state_name(now->state)));
    json_object_add_z(out, "cause",
                      now->cause ? json_string_z(arena, run_cause_name(now->cause)) : &json_null);
    json_object_add_z(out, "reason",
                      now->state == RUN_PARKED ? json_string_z(arena, park_reason_name(now->reason))
                                               : &json_null);
    json_object_add_z(out, "takes_us", json_int(arena, result->ended_us));
    json_object_add_z(out, "calls", calls_json(result->calls, result->calls_count, arena));
    json_object_add_z(out, "asks", calls_json(result->asks, result->asks_count, arena));
    json_object_add_z(out, "output", ctl_test_value(now->output, arena));
    json_object_add_z(out, "residue",
                      now->residue.len ? ctl_test_value(now->residue, arena)
                                       : json_list_new(arena, 0));
    json_object_add_z(out, "failures", failures_json(failures, arena));
    json_object_add_z(out, "notes", ctl_test_notes_json(&notes, arena));
    json_object_add_z(out, "trace", ctl_test_trace_json(result, arena));
    return out;
}

static void failures_print(struct ctl *ctl, const struct test_file *file,
                           const struct stub_result *result, const struct test_failures *failures)
{
    struct buf *out = &ctl->out;
    for (uint32_t i = 0; i < failures->count; i++) {
        const struct test_failure *failure = &failures->list[i];
        buf_add_z(out, "        ");
        text_add(out, str_z(file->name));
        buf_printf(out, ":%u: %s\n          expected  ", failure->line, failure->what);
        text_add(out, failure->expected);
        buf_add_z(out, "\n          got       ");
        text_add(out, failure->got);
        buf_add_char(out, '\n');
    }
    if (!result->lines_count)
        return;
    buf_add_z(out, "        what happened:\n");
    ctl_test_trace_print(result, 8, &ctl->scratch, out);
}

static void test_print(struct ctl *ctl, const struct test_file *file, const struct test_case *test,
                       const struct stub_result *result, const struct test_failures *failures)
{
    struct ctl_test_notes notes = {0};
    struct buf *out = &ctl->out;
    bool ok = failures->count == 0;
    buf_add_z(out, "  ");
    text_add_painted(out, ctl->color, ok ? PAINT_GREEN : PAINT_RED, ok ? STR("ok  ") : STR("FAIL"));
    buf_add_z(out, "  ");
    text_add(out, str_z(test->name));
    text_paint(out, ctl->color, PAINT_DIM);
    buf_printf(out, "  " STR_FMT " after " STR_FMT ", " STR_FMT,
               STR_ARG(ctl_test_end_text(result, &ctl->scratch)),
               STR_ARG(text_duration(result->ended_us, &ctl->scratch)),
               STR_ARG(text_count(result->calls_count, "call", &ctl->scratch)));
    if (result->asks_count)
        buf_printf(out, ", " STR_FMT,
                   STR_ARG(text_count(result->asks_count, "question", &ctl->scratch)));
    text_unpaint(out, ctl->color, PAINT_DIM);
    buf_add_char(out, '\n');
    ctl_test_unplayed_add(result, &ctl->scratch, &notes);
    ctl_test_notes_print(&notes, 8, out);
    if (!ok)
        failures_print(ctl, file, result, failures);
}

/* With --faults only what fails is told: the table tells of the rest. */
static void test_tell(struct session *session, const struct test_file *file,
                      const struct test_case *test, const struct stub_result *result,
                      const struct test_failures *failures)
{
    struct ctl *ctl = session->ctl;
    if (session->faults && !failures->count)
        return;
    if (ctl->format == CTL_FORMAT_NAME && failures->count) {
        text_add(&ctl->out, str_z(test->name));
        buf_add_char(&ctl->out, '\n');
    } else if (ctl_format_is_json(ctl)) {
        const struct json *json = test_json(file, test, result, failures, &ctl->arena);
        struct str text = json_text(json, &ctl->arena); /* the result's texts end with it */
        if (ctl->format == CTL_FORMAT_JSONL)
            ctl_json_compact(text, &ctl->out);
        else
            json_list_add(session->json_tests, ctl_test_value(text, &ctl->arena));
    } else if (ctl->format != CTL_FORMAT_NAME) {
        test_print(ctl, file, test, result, failures);
    }
}

static void test_play(struct session *session, const struct test_file *file,
                      const struct test_case *test)
{
    struct ctl *ctl = session->ctl;
    struct stub_config config;
    struct stub_result result = {0};
    struct test_failures failures = {0};
    struct err err;
    if (ctl_test_config(file, test, &ctl->scratch, &config, &err) == 0) {
        stub_play(&config, &result);
        ctl_test_compare(test, &result, &ctl->scratch, &failures);
    } else {
        failures.list[failures.count++] = (struct test_failure){
            test->line, "input", STR("an input that gives a run id"), str_z(err.text)};
    }
    *(failures.count ? &session->failed : &session->passed) += 1;
    test_tell(session, file, test, &result, &failures);
    stub_result_free(&result);
    arena_reset(&ctl->scratch);
}

/* --- the verb ---------------------------------------------------------------------------- */

/* Nothing was promised about them. */
static void unreached_tell(struct session *session, const struct test_file *file,
                           const bool *reached)
{
    struct ctl *ctl = session->ctl;
    bool quiet = ctl_format_is_json(ctl) || ctl->format == CTL_FORMAT_NAME;
    uint32_t count = 0;
    for (uint16_t i = 0; i < file->plan->steps_count; i++) {
        if (reached[i])
            continue;
        if (!quiet)
            buf_printf(&ctl->out, "%s%s",
                       count ? ", " : "  no walk came to: ", file->plan->steps[i].id);
        count++;
    }
    if (count && !quiet)
        buf_add_z(&ctl->out, "; write a test whose run does\n");
    session->unreached += count;
}

static int faults_play(struct session *session, const struct test_file *file)
{
    struct ctl *ctl = session->ctl;
    uint32_t count = MAX(file->tests->count, 1u);
    bool *reached = arena_array(&ctl->arena, bool, file->plan->steps_count);
    for (uint32_t i = 0; i < count; i++) {
        struct test_faults_report report = {.reached = reached};
        const struct test_case *test = file->tests->count ? &file->tests->list[i] : NULL;
        int code = ctl_test_faults(ctl, file, test, &report);
        if (code)
            return code;
        session->walks += report.walks;
        session->broken += report.broken;
        if (ctl->format == CTL_FORMAT_JSON)
            json_list_add(session->json_faults, report.json);
    }
    unreached_tell(session, file, reached);
    return CTL_OK;
}

static void heading_print(struct session *session, const struct test_file *file)
{
    struct ctl *ctl = session->ctl;
    if (ctl_format_is_json(ctl) || ctl->format == CTL_FORMAT_NAME)
        return;
    text_paint(&ctl->out, ctl->color, PAINT_BOLD);
    text_add(&ctl->out, str_z(file->name));
    text_unpaint(&ctl->out, ctl->color, PAINT_BOLD);
    buf_add_char(&ctl->out, '\n');
}

static int files_play(struct session *session)
{
    uint32_t all = 0;
    for (size_t i = 0; i < session->count; i++)
        all += MAX(session->list[i].tests->count, 1u);
    session->json_tests = json_list_new(&session->ctl->arena, all);
    session->json_faults = session->faults ? json_list_new(&session->ctl->arena, all) : NULL;
    for (size_t i = 0; i < session->count; i++) {
        const struct test_file *file = &session->list[i];
        int code = CTL_OK;
        if (!file->tests->count && !session->faults)
            continue;
        heading_print(session, file);
        for (uint32_t j = 0; j < file->tests->count; j++)
            test_play(session, file, &file->tests->list[j]);
        if (session->faults)
            code = faults_play(session, file);
        if (code)
            return code;
    }
    return CTL_OK;
}

static void json_print(struct session *session)
{
    struct ctl *ctl = session->ctl;
    struct json *out = json_object_new(&ctl->arena, 6);
    if (session->faults) {
        json_object_add_z(out, "faults", session->json_faults);
        json_object_add_z(out, "walks", json_int(&ctl->arena, session->walks));
        json_object_add_z(out, "broken", json_int(&ctl->arena, session->broken));
    }
    json_object_add_z(out, "tests", session->json_tests);
    json_object_add_z(out, "passed", json_int(&ctl->arena, session->passed));
    json_object_add_z(out, "failed", json_int(&ctl->arena, session->failed));
    ctl_json_pretty(json_text(out, &ctl->arena), &ctl->out);
}

static void summary_print(struct session *session)
{
    struct ctl *ctl = session->ctl;
    bool bad = session->failed || session->broken;
    struct str tests =
        arena_printf(&ctl->arena, "%u passed, %u failed", session->passed, session->failed);
    struct str text = tests;
    if (session->faults) {
        const char *held = "every promise held";
        if (session->broken)
            held = arena_printf(&ctl->arena, "%u with a broken promise", session->broken).ptr;
        else if (session->unreached)
            held = arena_printf(&ctl->arena, "every promise held; to " STR_FMT " no walk came",
                                STR_ARG(text_count(session->unreached, "step", &ctl->arena)))
                       .ptr;
        text = arena_printf(&ctl->arena, STR_FMT ", %s",
                            STR_ARG(text_count(session->walks, "walk", &ctl->arena)), held);
        if (session->failed)
            text = arena_printf(&ctl->arena, STR_FMT "; tests without faults: " STR_FMT,
                                STR_ARG(text), STR_ARG(tests));
    }
    text_add_painted(&ctl->out, ctl->color, bad ? PAINT_RED : PAINT_GREEN, text);
    buf_add_char(&ctl->out, '\n');
}

int ctl_verb_test(struct ctl *ctl)
{
    struct session session = {.ctl = ctl, .faults = ctl_has(ctl, OPT_FAULTS)};
    int code = files_load(&session);
    if (!code)
        code = files_check(&session);
    if (!code)
        code = files_play(&session);
    if (!code && ctl->format == CTL_FORMAT_JSON)
        json_print(&session);
    else if (!code && ctl->format != CTL_FORMAT_JSONL && ctl->format != CTL_FORMAT_NAME)
        summary_print(&session);
    if (!code && (session.failed || session.broken))
        code = CTL_ERROR;
    session_free(&session);
    return code;
}
