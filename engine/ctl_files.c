/*
 * ctl_files.c: workflow files: read, validate; schema.
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
    struct ctl_sources *files = arg;
    if (ctl_is_test_file(name)) {
        ctl_say(ctl, "%s holds tests, no workflow; play them with: sagactl test %s", name, name);
        return CTL_USAGE;
    }
    if (files->count == files->capacity) {
        files->capacity = files->capacity ? 2 * files->capacity : 16;
        files->list = xrealloc(files->list, files->capacity * sizeof(*files->list));
    }
    struct ctl_source *file = &files->list[files->count];
    *file = (struct ctl_source){.name = name};
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

void ctl_sources_free(struct ctl_sources *files)
{
    for (size_t i = 0; i < files->count; i++) {
        plan_unref(files->list[i].plan);
        diags_free(&files->list[i].diags);
    }
    free(files->list);
}

/* What only shows when the files are looked at together. */
static void children_check(struct ctl *ctl, struct ctl_sources *files)
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
static void tests_check(struct ctl_source *file)
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

int ctl_sources_read(struct ctl *ctl, struct ctl_sources *files)
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
        struct ctl_source *file = &files->list[i];
        diags_init(&file->diags, file->name, file->source);
        file->plan = dsl_compile(file->source, NULL, &file->diags);
        tests_check(file);
        diags_sort(&file->diags);
    }
    children_check(ctl, files);
    return CTL_OK;
}

struct str ctl_found_text(struct ctl *ctl, const struct diags *diags)
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

static void file_print(struct ctl *ctl, const struct ctl_source *file)
{
    const struct plan *plan = file->plan;
    diags_add(&ctl->out, &file->diags, ctl->color);
    if (!plan)
        return;
    text_add(&ctl->out, str_z(file->name));
    buf_printf(&ctl->out, ": workflow %s, " STR_FMT, plan->workflow,
               STR_ARG(text_count(plan->steps_count, "step", &ctl->arena)));
    if (file->diags.warnings)
        buf_printf(&ctl->out, ", " STR_FMT, STR_ARG(ctl_found_text(ctl, &file->diags)));
    buf_add_char(&ctl->out, '\n');
    dsl_print_schedule(plan, &ctl->out);
    dsl_print_ticks(plan, now(), &ctl->out);
}

static const struct json *file_json(struct ctl *ctl, const struct ctl_source *file)
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

static void validate_json_print(struct ctl *ctl, const struct ctl_sources *files)
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
    struct ctl_sources files = {0};
    int code = ctl_sources_read(ctl, &files), bad = CTL_OK;
    for (size_t i = 0; !code && i < files.count; i++) {
        const struct ctl_source *file = &files.list[i];
        if (!file->plan) {
            bad = CTL_USAGE;
            ctl_say(ctl, "%s: " STR_FMT, file->name, STR_ARG(ctl_found_text(ctl, &file->diags)));
        }
        if (ctl->format == CTL_FORMAT_NAME && file->plan)
            buf_printf(&ctl->out, "%s\n", file->plan->workflow);
        else if (ctl->format == CTL_FORMAT_TABLE || ctl->format == CTL_FORMAT_WIDE)
            file_print(ctl, file);
    }
    if (!code && ctl_format_is_json(ctl))
        validate_json_print(ctl, &files);
    ctl_sources_free(&files);
    return code ? code : bad;
}

void ctl_diags_say(const struct ctl *ctl, const struct diags *diags)
{
    struct buf text = {0};
    diags_add(&text, diags, ctl->color_stderr);
    if (text.len)
        fwrite(text.data, 1, text.len, stderr);
    buf_free(&text);
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
