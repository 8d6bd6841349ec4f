/*
 * ctl_apply.c: apply. Files are sent in one request, so that the daemon looks at them together and
 * takes all or none; only what is too large for one goes file by file.
 */
#include "engine/control.h"
#include "engine/ctl_client.h"
#include "engine/ctl_files.h"
#include "engine/ctl_json.h"
#include "engine/ctl_text.h"
#include "engine/ctl_verbs.h"
#include "engine/limits.h"

/* Files of one request. */
struct batch {
    struct ctl_source *files;
    size_t count;
};

/* --- requests -------------------------------------------------------------------------------- */

static void set_write(const struct batch *batch, struct buf *out)
{
    buf_add_z(out, "{\"files\":[");
    for (size_t i = 0; i < batch->count; i++) {
        buf_add_z(out, i ? ",{\"file\":" : "{\"file\":");
        json_write_string(str_z(batch->files[i].name), out);
        buf_add_z(out, ",\"source\":");
        json_write_string(batch->files[i].source, out);
        buf_add_char(out, '}');
    }
    buf_add_z(out, "]}");
}

/* One file is the body as it is. */
static struct ctl_request batch_request(struct ctl *ctl, const struct batch *batch,
                                        const char *method, const char *path)
{
    struct ctl_request request = {.method = method};
    struct buf body = {0};
    if (batch->count == 1) {
        request.path = ctl_path(ctl, arena_printf(&ctl->scratch, "%s?file=", path).ptr,
                                str_z(batch->files->name), "");
        request.body = batch->files->source;
        request.content_type = "application/yaml";
        return request;
    }
    set_write(batch, &body);
    request.path = str_z(path);
    request.body = arena_str(&ctl->scratch, buf_str(&body));
    request.content_type = "application/json";
    buf_free(&body);
    return request;
}

/* How many files go with one request: all of them, or each alone. */
static size_t batch_size(const struct ctl *ctl, const struct ctl_sources *files)
{
    struct buf body = {0};
    set_write(&(struct batch){files->list, files->count}, &body);
    bool fits = body.len <= CONTROL_BODY_BYTES_MAX && files->count <= SET_FILES_MAX;
    buf_free(&body);
    if (fits)
        return MAX(files->count, (size_t)1);
    ctl_say(ctl, "these are too many files for one request: each is applied by itself");
    return 1;
}

/* Two files that define one workflow: which of them would be current is nobody's wish. */
static int names_check(struct ctl *ctl, const struct ctl_sources *files)
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

/* --- what the daemon finds ------------------------------------------------------------------- */

static uint32_t place_of(const struct json *diag, const char *name)
{
    const struct json *value = json_get_z(diag, name);
    int64_t number;
    return value && json_to_int(value, &number) && number > 0 && number < UINT32_MAX
               ? (uint32_t)number
               : 0;
}

static bool is_of(const struct batch *batch, const struct ctl_source *file, const struct json *item)
{
    return batch->count == 1 || str_eq_z(json_get_text(item, "file"), file->name);
}

/* It was found here, too, and is told already. */
static bool is_told(const struct ctl_source *file, const struct json *item)
{
    for (uint32_t i = 0; i < file->diags.count; i++) {
        const struct diag *diag = &file->diags.list[i];
        if (str_eq_z(json_get_text(item, "code"), diag->code) &&
            place_of(item, "line") == diag->line && place_of(item, "column") == diag->column &&
            str_eq(json_get_text(item, "message"), diag->message))
            return true;
    }
    return false;
}

static void diag_take(struct ctl *ctl, struct diags *diags, const struct json *item)
{
    struct str code = json_get_text(item, "code"), help = json_get_text(item, "help");
    bool warning = str_eq_z(json_get_text(item, "severity"), "warning");
    struct diag *diag =
        diag_add(diags, warning ? DIAG_WARNING : DIAG_ERROR,
                 code.len == 4 ? arena_str(&ctl->arena, code).ptr : "E000", place_of(item, "line"),
                 place_of(item, "column"), MAX(place_of(item, "span"), 1u), STR_FMT,
                 STR_ARG(json_get_text(item, "message")));
    if (help.ptr)
        diag_help(diags, diag, STR_FMT, STR_ARG(help));
}

/* What the daemon found in a file, shown as if it was found here. Returns how many errors. */
static uint32_t file_diags_say(struct ctl *ctl, const struct batch *batch,
                               const struct ctl_source *file, const struct json *list)
{
    struct diags diags;
    diags_init(&diags, file->name, file->source);
    for (uint32_t i = 0; list && list->kind == JSON_LIST && i < list->count; i++)
        if (is_of(batch, file, list->items[i]) && !is_told(file, list->items[i]))
            diag_take(ctl, &diags, list->items[i]);
    uint32_t errors = diags.errors;
    diags_sort(&diags);
    ctl_diags_say(ctl, &diags);
    diags_free(&diags);
    if (errors)
        ctl_say(ctl, "%s: the daemon finds it invalid", file->name);
    return errors;
}

static uint32_t daemon_diags_say(struct ctl *ctl, const struct batch *batch,
                                 const struct json *list)
{
    uint32_t errors = 0;
    for (size_t i = 0; i < batch->count; i++)
        errors += file_diags_say(ctl, batch, &batch->files[i], list);
    return errors;
}

/* The daemon's own opinion, which knows its configuration and what is applied already: nothing is
 * applied before all files have it. A daemon that does not offer this will say it when they are. */
static int daemon_check(struct ctl *ctl, const struct batch *batch)
{
    struct ctl_request request = batch_request(ctl, batch, "POST", "/v1/validate");
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
    uint32_t errors = daemon_diags_say(ctl, batch, json_get_z(json, "diagnostics"));
    if (!ok || ok->kind != JSON_BOOL || ok->boolean)
        return CTL_OK;
    if (!errors)
        ctl_say(ctl, "the daemon finds the files invalid");
    return CTL_USAGE;
}

/* --- applying -------------------------------------------------------------------------------- */

static void answer_take(struct ctl *ctl, const struct batch *batch, struct ctl_source *file,
                        const struct json *json, struct str body)
{
    const struct json *list = batch->count > 1 ? json_get_z(json, "files") : NULL;
    for (uint32_t i = 0; list && list->kind == JSON_LIST && i < list->count; i++)
        if (is_of(batch, file, list->items[i])) {
            json = list->items[i];
            body = json_text(json, &ctl->arena);
        }
    struct str status = json_get_text(json, "status");
    file->status = status.ptr ? status : STR("applied");
    file->answer = body;
}

static int batch_apply(struct ctl *ctl, const struct batch *batch)
{
    struct ctl_request request = batch_request(ctl, batch, "PUT", "/v1/workflows");
    struct ctl_reply reply;
    const struct json *json;
    struct err err;
    if (ctl_call(ctl, &request, &reply, &err) != 0)
        return ctl_fail(ctl, &err);
    if (ctl_json_parse(reply.body, &ctl->scratch, &json, &err) != 0)
        json = NULL;
    if (reply.status == 422 && daemon_diags_say(ctl, batch, json_get_z(json, "errors")) > 0)
        return CTL_USAGE;
    if (reply.status != 200)
        return ctl_refused(ctl, &reply);
    for (size_t i = 0; i < batch->count; i++)
        answer_take(ctl, batch, &batch->files[i], json, reply.body);
    return CTL_OK;
}

static void applied_print(struct ctl *ctl, const struct ctl_sources *files)
{
    struct table table = {0};
    struct buf document = {0};
    buf_add_z(&document, "{\"files\":[");
    table_column(&table, "FILE");
    table_column(&table, "WORKFLOW");
    table_column(&table, "VERSION");
    table_column(&table, "RESULT");
    for (size_t i = 0; i < files->count; i++) {
        const struct ctl_source *file = &files->list[i];
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

/* What was found without the daemon. */
static int files_check(struct ctl *ctl, const struct ctl_sources *files)
{
    int code = CTL_OK;
    for (size_t i = 0; i < files->count; i++) {
        const struct ctl_source *file = &files->list[i];
        ctl_diags_say(ctl, &file->diags);
        if (file->plan)
            continue;
        ctl_say(ctl, "%s: " STR_FMT, file->name, STR_ARG(ctl_found_text(ctl, &file->diags)));
        code = CTL_USAGE;
    }
    return code ? code : names_check(ctl, files);
}

int ctl_verb_apply(struct ctl *ctl)
{
    struct ctl_sources files = {0};
    int code = ctl_sources_read(ctl, &files);
    if (!code)
        code = files_check(ctl, &files);
    size_t size = code ? 1 : batch_size(ctl, &files);
    for (size_t i = 0; !code && i < files.count; i += size)
        code = daemon_check(ctl, &(struct batch){&files.list[i], size});
    if (code) {
        ctl_say(ctl, "nothing was applied");
        ctl_sources_free(&files);
        return code;
    }
    for (size_t i = 0; !code && i < files.count; i += size) {
        code = batch_apply(ctl, &(struct batch){&files.list[i], size});
        if (code && size > 1)
            ctl_say(ctl, "nothing was applied");
        else if (code)
            ctl_say(ctl, "%s was not applied", files.list[i].name);
    }
    applied_print(ctl, &files);
    ctl_sources_free(&files);
    return code;
}
