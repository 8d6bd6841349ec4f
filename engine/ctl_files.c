/*
 * ctl_files.c: validate, apply, schema.
 */
#include "engine/ctl_files.h"
#include "dsl/dsl.h"
#include "dsl/lint.h"
#include "dsl/schema.h"
#include "dsl/set.h"
#include "dsl/tests.h"
#include "engine/ctl_client.h"
#include "engine/ctl_json.h"
#include "engine/ctl_runs.h"
#include "engine/ctl_text.h"
#include "engine/ctl_verbs.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

struct file {
    const char *name;
    struct str source;
    struct plan *plan; /* NULL: it has errors */
    struct diags diags;
    struct str answer; /* apply: the daemon's document */
    struct str status; /* apply: "applied", "unchanged", ... */
};

struct files {
    struct file *list;
    size_t count, capacity;
};

/* --- which files ----------------------------------------------------------------------------- */

int ctl_source_read(struct ctl *ctl, const char *name, struct str *out)
{
    FILE *stream = fopen(name, "re");
    if (!stream) {
        ctl_say(ctl, "could not read %s: %s", name, strerror(errno));
        return CTL_USAGE;
    }
    char *text = arena_alloc(&ctl->arena, DSL_SOURCE_BYTES_MAX + 2);
    size_t len = fread(text, 1, DSL_SOURCE_BYTES_MAX + 1, stream);
    bool failed = ferror(stream) != 0;
    int why = errno;
    fclose(stream);
    *out = (struct str){text, len};
    if (!failed)
        return CTL_OK;
    ctl_say(ctl, "could not read %s: %s", name, strerror(why));
    return CTL_USAGE;
}

static int file_add(struct ctl *ctl, const char *name, void *arg)
{
    struct files *files = arg;
    if (ctl_is_test_file(name)) {
        ctl_say(ctl, "%s holds tests, no workflow; play them with: sagactl test %s", name, name);
        return CTL_USAGE;
    }
    if (files->count == files->capacity) {
        files->capacity = files->capacity ? 2 * files->capacity : 16;
        files->list = xrealloc(files->list, files->capacity * sizeof(*files->list));
    }
    struct file *file = &files->list[files->count];
    *file = (struct file){.name = name};
    int code = ctl_source_read(ctl, name, &file->source);
    if (code)
        return code;
    files->count++;
    return CTL_OK;
}

static bool ends_with(const char *name, const char *end)
{
    size_t len = strlen(name), end_len = strlen(end);
    return len > end_len && strcmp(name + len - end_len, end) == 0;
}

bool ctl_is_test_file(const char *name)
{
    return ends_with(name, ".test.yaml") || ends_with(name, ".test.yml");
}

static int is_yaml_file(const struct dirent *entry)
{
    return entry->d_name[0] != '.' &&
           (ends_with(entry->d_name, ".yaml") || ends_with(entry->d_name, ".yml")) &&
           strcmp(entry->d_name, "sagad.yaml") != 0;
}

int ctl_dir_scan(struct ctl *ctl, const char *dir, bool tests,
                 int (*each)(struct ctl *ctl, const char *name, void *arg), void *arg)
{
    struct dirent **entries;
    int count = scandir(dir, &entries, is_yaml_file, alphasort), code = CTL_OK, found = 0;
    if (count < 0) {
        ctl_say(ctl, "could not read the directory %s: %s", dir, strerror(errno));
        return CTL_USAGE;
    }
    const char *slash = dir[strlen(dir) - 1] == '/' ? "" : "/";
    for (int i = 0; i < count; i++) {
        bool wanted = tests || !ctl_is_test_file(entries[i]->d_name);
        found += wanted;
        if (!code && wanted)
            code = each(
                ctl, arena_printf(&ctl->arena, "%s%s%s", dir, slash, entries[i]->d_name).ptr, arg);
        free(entries[i]);
    }
    free(entries);
    if (found)
        return code;
    ctl_say(ctl, "the directory %s has no *.yaml or *.yml", dir);
    return CTL_USAGE;
}

static void files_free(struct files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        plan_unref(files->list[i].plan);
        diags_free(&files->list[i].diags);
    }
    free(files->list);
}

/* What only shows when the files are looked at together. */
static void children_check(struct ctl *ctl, struct files *files)
{
    struct dsl_member *members = arena_array(&ctl->arena, struct dsl_member, files->count);
    for (size_t i = 0; i < files->count; i++)
        members[i] = (struct dsl_member){files->list[i].plan, &files->list[i].diags};
    dsl_set_check(NULL, members, files->count, NULL);
    for (size_t i = 0; i < files->count; i++)
        if (files->list[i].plan && files->list[i].diags.errors) {
            plan_unref(files->list[i].plan);
            files->list[i].plan = NULL;
        }
}

/* The `tests` of a workflow count here: what the daemon makes of the file does not depend on them,
 * but an author wants to hear of them. */
static void tests_check(struct file *file)
{
    if (!file->plan)
        return;
    struct tests *tests = dsl_tests_compile(file->source, false, file->plan, &file->diags);
    if (!tests) {
        plan_unref(file->plan);
        file->plan = NULL;
    }
    dsl_tests_free(tests);
}

/* Reads and compiles everything named on the command line. */
static int files_read(struct ctl *ctl, struct files *files)
{
    struct stat info;
    for (unsigned i = 0; i < ctl->args_count; i++) {
        const char *name = ctl->args[i];
        bool is_dir = stat(name, &info) == 0 && S_ISDIR(info.st_mode);
        int code =
            is_dir ? ctl_dir_scan(ctl, name, false, file_add, files) : file_add(ctl, name, files);
        if (code)
            return code;
    }
    for (size_t i = 0; i < files->count; i++) {
        struct file *file = &files->list[i];
        diags_init(&file->diags, file->name, file->source);
        file->plan = dsl_compile(file->source, NULL, &file->diags);
        tests_check(file);
        diags_sort(&file->diags);
    }
    children_check(ctl, files);
    return CTL_OK;
}

/* "2 errors, 1 warning" */
static struct str found_text(struct ctl *ctl, const struct diags *diags)
{
    struct arena *arena = &ctl->arena;
    if (!diags->warnings)
        return text_count(diags->errors, "error", arena);
    if (!diags->errors)
        return text_count(diags->warnings, "warning", arena);
    return arena_printf(arena, STR_FMT ", " STR_FMT,
                        STR_ARG(text_count(diags->errors, "error", arena)),
                        STR_ARG(text_count(diags->warnings, "warning", arena)));
}

/* The excerpts hold the file's own bytes: of one that is no UTF-8 only what can be shown. */
static void diags_add(struct buf *out, const struct diags *diags, bool color)
{
    struct buf raw = {0};
    if (str_is_utf8(diags->source)) {
        diags_print(diags, color, out);
        return;
    }
    diags_print(diags, false, &raw);
    text_add_lines(out, buf_str(&raw));
    buf_free(&raw);
}

/* --- validate -------------------------------------------------------------------------------- */

/* For the next ticks of a schedule only: nothing here is decided by this clock. */
static struct wall now(void)
{
    return (struct wall){(int64_t)time(NULL) * SECOND_US};
}

static void file_print(struct ctl *ctl, const struct file *file)
{
    const struct plan *plan = file->plan;
    diags_add(&ctl->out, &file->diags, ctl->color);
    if (!plan)
        return;
    text_add(&ctl->out, str_z(file->name));
    buf_printf(&ctl->out, ": workflow %s, " STR_FMT, plan->workflow,
               STR_ARG(text_count(plan->steps_count, "step", &ctl->arena)));
    if (file->diags.warnings)
        buf_printf(&ctl->out, ", " STR_FMT, STR_ARG(found_text(ctl, &file->diags)));
    buf_add_char(&ctl->out, '\n');
    dsl_print_schedule(plan, &ctl->out);
    dsl_print_ticks(plan, now(), &ctl->out);
}

static const struct json *file_json(struct ctl *ctl, const struct file *file)
{
    struct arena *arena = &ctl->arena;
    struct json *out = json_object_new(arena, 7);
    const struct plan *plan = file->plan;
    json_object_add_z(out, "file", json_string_z(arena, file->name));
    json_object_add_z(out, "ok", json_bool(plan != NULL));
    json_object_add_z(out, "workflow", plan ? json_string_z(arena, plan->workflow) : &json_null);
    json_object_add_z(out, "version", plan ? json_string_z(arena, plan->version) : &json_null);
    json_object_add_z(out, "hash", plan ? json_string_z(arena, plan->hash_hex) : &json_null);
    json_object_add_z(out, "steps", plan ? json_int(arena, plan->steps_count) : &json_null);
    json_object_add_z(out, "diagnostics", diags_json(&file->diags, arena));
    return out;
}

static void validate_json_print(struct ctl *ctl, const struct files *files)
{
    struct json *list = json_list_new(&ctl->arena, (uint32_t)files->count);
    for (size_t i = 0; i < files->count; i++)
        json_list_add(list, file_json(ctl, &files->list[i]));
    struct json *out = json_object_new(&ctl->arena, 1);
    json_object_add_z(out, "files", list);
    for (size_t i = 0; i < files->count && ctl->format == CTL_FORMAT_JSONL; i++)
        ctl_json_compact(json_text(list->items[i], &ctl->arena), &ctl->out);
    if (ctl->format == CTL_FORMAT_JSON)
        ctl_json_pretty(json_text(out, &ctl->arena), &ctl->out);
}

int ctl_verb_validate(struct ctl *ctl)
{
    struct files files = {0};
    int code = files_read(ctl, &files), bad = CTL_OK;
    for (size_t i = 0; !code && i < files.count; i++) {
        const struct file *file = &files.list[i];
        if (!file->plan) {
            bad = CTL_USAGE;
            ctl_say(ctl, "%s: " STR_FMT, file->name, STR_ARG(found_text(ctl, &file->diags)));
        }
        if (ctl->format == CTL_FORMAT_NAME && file->plan)
            buf_printf(&ctl->out, "%s\n", file->plan->workflow);
        else if (ctl->format == CTL_FORMAT_TABLE || ctl->format == CTL_FORMAT_WIDE)
            file_print(ctl, file);
    }
    if (!code && ctl_format_is_json(ctl))
        validate_json_print(ctl, &files);
    files_free(&files);
    return code ? code : bad;
}

/* --- apply ----------------------------------------------------------------------------------- */

void ctl_diags_say(const struct ctl *ctl, const struct diags *diags)
{
    struct buf text = {0};
    diags_add(&text, diags, ctl->color_stderr);
    if (text.len)
        fwrite(text.data, 1, text.len, stderr);
    buf_free(&text);
}

/* Two files that define one workflow: which of them would be current is nobody's wish. */
static int names_check(struct ctl *ctl, const struct files *files)
{
    for (size_t i = 0; i < files->count; i++)
        for (size_t j = i + 1; j < files->count; j++)
            if (strcmp(files->list[i].plan->workflow, files->list[j].plan->workflow) == 0) {
                ctl_say(ctl, "%s and %s both define the workflow \"%s\"; nothing was applied",
                        files->list[i].name, files->list[j].name, files->list[i].plan->workflow);
                return CTL_USAGE;
            }
    return CTL_OK;
}

static uint32_t place_of(const struct json *diag, const char *name)
{
    const struct json *value = json_get_z(diag, name);
    int64_t number;
    return value && json_to_int(value, &number) && number > 0 && number < UINT32_MAX
               ? (uint32_t)number
               : 0;
}

/* What the daemon found in a file, shown as if it was found here. Returns how many errors. */
static uint32_t daemon_diags_say(struct ctl *ctl, const struct file *file, const struct json *list)
{
    struct diags diags;
    diags_init(&diags, file->name, file->source);
    for (uint32_t i = 0; list && list->kind == JSON_LIST && i < list->count; i++) {
        const struct json *item = list->items[i];
        struct str code = json_get_text(item, "code"), help = json_get_text(item, "help");
        struct str message = json_get_text(item, "message");
        bool warning = str_eq_z(json_get_text(item, "severity"), "warning");
        struct diag *diag = diag_add(&diags, warning ? DIAG_WARNING : DIAG_ERROR,
                                     code.len == 4 ? arena_str(&ctl->arena, code).ptr : "E000",
                                     place_of(item, "line"), place_of(item, "column"),
                                     MAX(place_of(item, "span"), 1u), STR_FMT, STR_ARG(message));
        if (help.ptr)
            diag_help(&diags, diag, STR_FMT, STR_ARG(help));
    }
    uint32_t errors = diags.errors;
    diags_sort(&diags);
    ctl_diags_say(ctl, &diags);
    diags_free(&diags);
    return errors;
}

/* The daemon's own opinion, which knows its configuration: nothing is applied before all files
 * have it. A daemon that does not offer this will say it when the file is applied. */
static int daemon_check(struct ctl *ctl, const struct file *file)
{
    struct ctl_request request = {.method = "POST",
                                  .path =
                                      ctl_path(ctl, "/v1/validate?file=", str_z(file->name), ""),
                                  .body = file->source,
                                  .content_type = "application/yaml"};
    struct ctl_reply reply;
    const struct json *json;
    struct err err;
    if (ctl_call(ctl, &request, &reply, &err) != 0)
        return ctl_fail(ctl, &err);
    if (reply.status == 404 || reply.status == 405 || reply.status == 501)
        return CTL_OK;
    if (reply.status != 200)
        return ctl_refused(ctl, &reply);
    if (ctl_json_parse(reply.body, &ctl->scratch, &json, &err) != 0) {
        ctl_say(ctl, "the daemon's answer cannot be read: %s", err.text);
        return CTL_ERROR;
    }
    const struct json *ok = json_get_z(json, "ok");
    if (!ok || ok->kind != JSON_BOOL || ok->boolean)
        return CTL_OK;
    daemon_diags_say(ctl, file, json_get_z(json, "diagnostics"));
    ctl_say(ctl, "%s: the daemon finds it invalid", file->name);
    return CTL_USAGE;
}

static int file_apply(struct ctl *ctl, struct file *file)
{
    struct ctl_request request = {.method = "PUT",
                                  .path =
                                      ctl_path(ctl, "/v1/workflows?file=", str_z(file->name), ""),
                                  .body = file->source,
                                  .content_type = "application/yaml"};
    struct ctl_reply reply;
    const struct json *json;
    struct err err;
    if (ctl_call(ctl, &request, &reply, &err) != 0)
        return ctl_fail(ctl, &err);
    if (ctl_json_parse(reply.body, &ctl->scratch, &json, &err) != 0)
        json = NULL;
    if (reply.status == 422 && daemon_diags_say(ctl, file, json_get_z(json, "errors")) > 0) {
        ctl_say(ctl, "%s: the daemon finds it invalid", file->name);
        return CTL_USAGE;
    }
    if (reply.status != 200)
        return ctl_refused(ctl, &reply);
    struct str status = json_get_text(json, "status");
    file->status = status.ptr ? status : STR("applied");
    file->answer = reply.body;
    return CTL_OK;
}

static void applied_print(struct ctl *ctl, const struct files *files)
{
    struct table table = {0};
    struct buf document = {0};
    buf_add_z(&document, "{\"files\":[");
    table_column(&table, "FILE");
    table_column(&table, "WORKFLOW");
    table_column(&table, "VERSION");
    table_column(&table, "RESULT");
    for (size_t i = 0; i < files->count; i++) {
        const struct file *file = &files->list[i];
        struct buf entry = {0};
        buf_add_z(&entry, "{\"file\":");
        json_write_string(str_z(file->name), &entry);
        buf_add_z(&entry, ",\"result\":");
        buf_add_str(&entry, file->answer.ptr ? file->answer : STR("null"));
        buf_add_char(&entry, '}');
        buf_add_z(&document, i ? "," : "");
        buf_add_str(&document, buf_str(&entry));
        if (ctl->format == CTL_FORMAT_JSONL)
            ctl_json_compact(buf_str(&entry), &ctl->out);
        if (ctl->format == CTL_FORMAT_NAME && file->answer.ptr)
            buf_printf(&ctl->out, "%s\n", file->plan->workflow);
        buf_free(&entry);
        table_add(&table, str_z(file->name), PAINT_NONE);
        table_add(&table, str_z(file->plan->workflow), PAINT_NONE);
        table_add(&table, str_z(file->plan->version), PAINT_DIM);
        table_add(&table, file->answer.ptr ? file->status : STR("not applied"),
                  file->answer.ptr ? PAINT_GREEN : PAINT_RED);
    }
    buf_add_z(&document, "]}");
    if (ctl->format == CTL_FORMAT_JSON)
        ctl_json_pretty(buf_str(&document), &ctl->out);
    if (ctl->format == CTL_FORMAT_TABLE || ctl->format == CTL_FORMAT_WIDE)
        table_print(&table, ctl);
    table_free(&table);
    buf_free(&document);
}

static int files_check(struct ctl *ctl, const struct files *files)
{
    int code = CTL_OK;
    for (size_t i = 0; i < files->count; i++) {
        const struct file *file = &files->list[i];
        ctl_diags_say(ctl, &file->diags);
        if (file->plan)
            continue;
        ctl_say(ctl, "%s: " STR_FMT, file->name, STR_ARG(found_text(ctl, &file->diags)));
        code = CTL_USAGE;
    }
    if (!code)
        code = names_check(ctl, files);
    for (size_t i = 0; !code && i < files->count; i++)
        code = daemon_check(ctl, &files->list[i]);
    return code;
}

int ctl_verb_apply(struct ctl *ctl)
{
    struct files files = {0};
    int code = files_read(ctl, &files);
    if (!code)
        code = files_check(ctl, &files);
    if (code) {
        ctl_say(ctl, "nothing was applied");
        files_free(&files);
        return code;
    }
    for (size_t i = 0; !code && i < files.count; i++) {
        code = file_apply(ctl, &files.list[i]);
        if (code)
            ctl_say(ctl, "%s was not applied", files.list[i].name);
    }
    applied_print(ctl, &files);
    files_free(&files);
    return code;
}

/* --- schema ---------------------------------------------------------------------------------- */

int ctl_verb_schema(struct ctl *ctl)
{
    struct buf schema = {0};
    lang_write_editor_schema(&schema);
    if (ctl->format == CTL_FORMAT_JSONL)
        ctl_json_compact(buf_str(&schema), &ctl->out);
    else
        buf_add_str(&ctl->out, buf_str(&schema)); /* as it stands in dsl/ */
    buf_free(&schema);
    return CTL_OK;
}
