/*
 * ctl_conform.c: the verb: which step, asking before anything real is done, and the report.
 */
#include "engine/ctl_conform.h"

#include "dsl/dsl.h"
#include "dsl/jsonschema.h"
#include "dsl/tests.h"
#include "engine/config.h"
#include "engine/ctl_files.h"
#include "engine/ctl_json.h"
#include "engine/ctl_text.h"
#include "engine/ctl_verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* --- what is put to the test ------------------------------------------------------------------ */

static int config_read(struct ctl *ctl, struct config *config)
{
    const char *path = ctl_option(ctl, OPT_CONFIG);
    struct diags diags;
    struct str source;
    struct err err;
    config_init(config);
    if (!path)
        return CTL_OK;
    if (config_file_read(path, &ctl->arena, &source, &err) != 0) {
        ctl_say(ctl, "%s", err.text);
        return CTL_USAGE;
    }
    diags_init(&diags, path, source);
    bool ok = config_parse(source, config, &diags);
    if (!ok)
        ctl_diags_say(ctl, &diags);
    diags_free(&diags);
    return ok ? CTL_OK : CTL_USAGE;
}

static int secrets_read(struct ctl *ctl, const struct config *config, struct secrets **out)
{
    struct err err;
    *out = secrets_new();
    for (uint16_t i = 0; i < config->secrets_count; i++)
        if (secrets_add(*out, config->secrets[i].name, config->secrets[i].value, &err) != 0) {
            ctl_say(ctl, "secret \"%s\": %s", config->secrets[i].name, err.text);
            return CTL_USAGE;
        }
    return CTL_OK;
}

static const struct json *env_read(struct ctl *ctl, const struct config *config)
{
    struct json *env = json_object_new(&ctl->arena, config->env_count);
    for (uint16_t i = 0; i < config->env_count; i++) {
        const char *value = getenv(config->env_names[i]);
        if (value && str_is_utf8(str_z(value)))
            json_object_add_z(env, config->env_names[i], json_string_z(&ctl->arena, value));
    }
    return env;
}

static struct plan *plan_read(struct ctl *ctl, const struct config *config)
{
    const struct dsl_options options = {.services = config->services,
                                        .services_count = config->services_count,
                                        .env_names = config->env_names,
                                        .env_names_count = config->env_count};
    struct diags diags;
    struct str source;
    if (ctl_source_read(ctl, ctl->args[0], &source) != 0)
        return NULL;
    diags_init(&diags, ctl->args[0], source);
    struct plan *plan = dsl_compile(source, &options, &diags);
    if (!plan) {
        ctl_diags_say(ctl, &diags);
        ctl_say(ctl, "%s has errors; nothing was sent", ctl->args[0]);
    }
    diags_free(&diags);
    return plan;
}

static int step_find(struct conform *conform)
{
    struct ctl *ctl = conform->ctl;
    const struct plan *plan = conform->plan;
    const char *names[PLAN_STEPS_MAX], *nearest;
    for (uint16_t i = 0; i < plan->steps_count; i++) {
        names[i] = plan->steps[i].id;
        if (strcmp(names[i], ctl->args[1]) == 0)
            conform->step = &plan->steps[i];
    }
    if (!conform->step) {
        nearest = diag_nearest(str_z(ctl->args[1]), names, plan->steps_count);
        return ctl_usage(ctl, "the workflow has no step \"%s\"%s%s%s", ctl->args[1],
                         nearest ? ", did you mean " : "", nearest ? nearest : "",
                         nearest ? "?" : "");
    }
    const struct plan_action *action = &conform->step->action;
    if (action->kind != ACTION_HTTP)
        return ctl_usage(ctl,
                         "the step \"%s\" is a %s action; only HTTP participants can be tested",
                         conform->step->id, action_kind_name(action->kind));
    if (action->effect == EFFECT_PURE)
        return ctl_usage(ctl, "the step \"%s\" is pure: there is nothing to repeat or to undo",
                         conform->step->id);
    if (conform->step->for_each)
        return ctl_usage(ctl, "the step \"%s\" is a loop; write its action into a step of its own",
                         conform->step->id);
    const char *url = ctl_option(ctl, OPT_URL);
    conform->url = url ? url : plan->services[action->service].url;
    if (!conform->url)
        return ctl_usage(ctl, "the service \"%s\" has no url; say --url or --config",
                         plan->services[action->service].name);
    return CTL_OK;
}

static int input_read(struct conform *conform)
{
    struct schema_errors errors = {0};
    struct ctl *ctl = conform->ctl;
    int code = ctl_option_json(ctl, OPT_INPUT, &conform->input);
    if (code || conform->input.ptr)
        return code;
    const struct json *input = dsl_sample_input(conform->plan, &ctl->arena, &errors);
    if (!input) {
        ctl_say(ctl, "no input can be made up from the schema: " STR_FMT " " STR_FMT,
                STR_ARG(errors.list[0].pointer), STR_ARG(errors.list[0].message));
        ctl_hint(ctl, "  give one: --input JSON; {n} in it becomes a number, new for each request");
        return CTL_USAGE;
    }
    conform->input = json_text(input, &ctl->arena);
    return CTL_OK;
}

static int effects_confirm(const struct conform *conform)
{
    struct ctl *ctl = conform->ctl;
    bool is_final = conform->step->compensate.kind != ACTION_HTTP;
    ctl_say(ctl, "this does real things at %s, a few times%s", conform->url,
            is_final ? ", and cannot undo them" : ", and undoes what it can");
    if (ctl_has(ctl, OPT_YES))
        return CTL_OK;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return ctl_usage(ctl, "say --yes to do it");
    if (ctl_confirm(ctl, "go on"))
        return CTL_OK;
    ctl_say(ctl, "nothing was sent");
    return CTL_ERROR;
}

/* --- the report --------------------------------------------------------------------------------
 */

static const char *verdict_name(enum conform_verdict verdict)
{
    static const char *const names[] = {
#define X(id, name) [id] = name,
        CONFORM_VERDICTS(X)
#undef X
    };
    return names[verdict];
}

static unsigned verdict_count(const struct conform_report *report, enum conform_verdict verdict)
{
    unsigned count = 0;
    for (unsigned i = 0; i < report->count; i++)
        count += report->list[i].verdict == verdict;
    return count;
}

static void report_print(const struct conform *conform, const struct conform_report *report)
{
    static const enum paint paints[] = {[CONFORM_PASS] = PAINT_GREEN,
                                        [CONFORM_NOTE] = PAINT_YELLOW,
                                        [CONFORM_SKIP] = PAINT_DIM,
                                        [CONFORM_FAIL] = PAINT_RED};
    struct ctl *ctl = conform->ctl;
    struct buf *out = &ctl->out;
    for (unsigned i = 0; i < report->count; i++) {
        const struct conform_check *check = &report->list[i];
        text_add_painted(out, ctl->color, paints[check->verdict],
                         str_z(verdict_name(check->verdict)));
        buf_printf(out, "  %-10s  %s\n                  ", check->name, check->claim);
        text_add(out, check->text);
        buf_add_char(out, '\n');
    }
    if (report->left.len) {
        buf_add_z(out, "left behind: ");
        text_add(out, report->left);
        buf_add_char(out, '\n');
    }
    buf_printf(out, "\n%u passed, %u failed, %u noted, %u skipped\n",
               verdict_count(report, CONFORM_PASS), verdict_count(report, CONFORM_FAIL),
               verdict_count(report, CONFORM_NOTE), verdict_count(report, CONFORM_SKIP));
}

static void report_json(const struct conform *conform, const struct conform_report *report)
{
    struct ctl *ctl = conform->ctl;
    struct arena *arena = &ctl->arena;
    struct json *out = json_object_new(arena, 8), *checks = json_list_new(arena, report->count);
    for (unsigned i = 0; i < report->count; i++) {
        const struct conform_check *check = &report->list[i];
        struct json *item = json_object_new(arena, 4);
        json_object_add_z(item, "check", json_string_z(arena, check->name));
        json_object_add_z(item, "verdict", json_string_z(arena, verdict_name(check->verdict)));
        json_object_add_z(item, "claim", json_string_z(arena, check->claim));
        json_object_add_z(item, "text", json_string(arena, check->text));
        json_list_add(checks, item);
    }
    json_object_add_z(out, "workflow", json_string_z(arena, conform->plan->workflow));
    json_object_add_z(out, "step", json_string_z(arena, conform->step->id));
    json_object_add_z(out, "url", json_string_z(arena, conform->url));
    json_object_add_z(out, "checks", checks);
    json_object_add_z(out, "passed", json_int(arena, verdict_count(report, CONFORM_PASS)));
    json_object_add_z(out, "failed", json_int(arena, verdict_count(report, CONFORM_FAIL)));
    json_object_add_z(out, "left",
                      report->left.len ? json_string(arena, report->left) : &json_null);
    (ctl->format == CTL_FORMAT_JSON ? ctl_json_pretty : ctl_json_compact)(json_text(out, arena),
                                                                          &ctl->out);
}

static void report_names(const struct conform *conform, const struct conform_report *report)
{
    for (unsigned i = 0; i < report->count; i++)
        if (report->list[i].verdict == CONFORM_FAIL)
            buf_printf(&conform->ctl->out, "%s\n", report->list[i].name);
}

/* --- the verb ----------------------------------------------------------------------------------
 */

static int play(struct conform *conform)
{
    struct conform_report report;
    struct ctl *ctl = conform->ctl;
    struct err err;
    if (conform_open(conform, &err) != 0)
        return ctl_fail(ctl, &err);
    int failed = conform_play(conform, &report, &err);
    conform_close(conform);
    if (failed) {
        ctl_say(ctl, "%s", err.text);
        return CTL_USAGE;
    }
    if (ctl_format_is_json(ctl))
        report_json(conform, &report);
    else if (ctl->format == CTL_FORMAT_NAME)
        report_names(conform, &report);
    else
        report_print(conform, &report);
    return verdict_count(&report, CONFORM_FAIL) ? CTL_ERROR : CTL_OK;
}

static int conform_fill(struct conform *conform)
{
    struct ctl *ctl = conform->ctl;
    int code = step_find(conform);
    if (!code)
        code = input_read(conform);
    if (code)
        return code;
    conform->outputs = dsl_sample_outputs(conform->plan, &ctl->arena);
    conform->prefix = arena_printf(&ctl->arena, "conform-%llx-%x",
                                   (unsigned long long)(ctl_now().us / 1000), (unsigned)getpid())
                          .ptr;
    conform->timeout_us = ctl_option_duration(ctl, OPT_TIMEOUT, conform->step->action.timeout_us);
    return effects_confirm(conform);
}

int ctl_verb_conform(struct ctl *ctl)
{
    struct conform conform = {.ctl = ctl, .arena = &ctl->arena};
    struct config config;
    int code = config_read(ctl, &config);
    if (!code)
        code = secrets_read(ctl, &config, &conform.secrets);
    if (!code) {
        struct plan *plan = plan_read(ctl, &config);
        conform.plan = plan;
        conform.env = env_read(ctl, &config);
        code = plan ? conform_fill(&conform) : CTL_USAGE;
        if (!code)
            code = play(&conform);
        plan_unref(plan);
    }
    secrets_free(conform.secrets);
    config_free(&config);
    return code;
}
