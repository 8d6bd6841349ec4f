/*
 * api_apply.c: workflow files to be looked at or applied. One file is the body itself; files that
 * belong together are {"files": [{"file": NAME, "source": TEXT}, ...]} with the type
 * application/json: they are checked with each other and applied all or none.
 */
#include "dsl/set.h"
#include "engine/api_impl.h"
#include "engine/limits.h"

#include <stdlib.h>

struct apply {
    struct api *api;
    struct control_request *request;
    struct plans_file *files;
    size_t count;
    bool is_set; /* asked as a document, answered as one */
};

static void apply_free(struct apply *apply)
{
    for (size_t i = 0; i < apply->count; i++) {
        plan_unref(apply->files[i].plan);
        diags_free(apply->files[i].diags);
        free(apply->files[i].diags);
    }
    free(apply->files);
    free(apply);
}

static void file_add(struct apply *apply, const char *name, struct str source)
{
    struct plans_file *file = &apply->files[apply->count++];
    file->source = source;
    file->diags = xcalloc(1, sizeof(*file->diags));
    diags_init(file->diags, name, source);
}

/* --- reading --------------------------------------------------------------------------------- */

static struct apply *apply_new(struct api *api, struct control_request *request, size_t count)
{
    struct apply *apply = xcalloc(1, sizeof(*apply));
    apply->api = api;
    apply->request = request;
    apply->files = xcalloc(count, sizeof(*apply->files));
    return apply;
}

/* The entry's source; absent after answering: it is none. */
static struct str entry_read(struct control_request *request, const struct json *entry)
{
    static const char *const known[] = {"file", "source"};
    const struct json *source = entry->kind == JSON_OBJECT ? json_get_z(entry, "source") : NULL;
    if (!source || source->kind != JSON_STRING) {
        control_problem(request, 422, "source_missing", NULL,
                        "each of \"files\" is {\"file\": its name, \"source\": its text}");
        return STR_NONE;
    }
    if (!members_known(request, entry, known, ARRAY_LEN(known)))
        return STR_NONE;
    return source->text.len ? source->text : STR("");
}

/* NULL after answering. */
static struct apply *set_read(struct api *api, struct control_request *request)
{
    static const char *const known[] = {"files"};
    const struct json *body, *files;
    if (!body_read(request, &body) || !members_known(request, body, known, ARRAY_LEN(known)))
        return NULL;
    files = json_get_z(body, "files");
    if (!files || files->kind != JSON_LIST || !files->count || files->count > SET_FILES_MAX) {
        control_problem(request, 422, "files_missing", NULL,
                        "\"files\" is a list of 1 to %d workflow files", SET_FILES_MAX);
        return NULL;
    }
    struct apply *apply = apply_new(api, request, files->count);
    apply->is_set = true;
    for (uint32_t i = 0; i < files->count; i++) {
        struct str source = entry_read(request, files->items[i]);
        if (!source.ptr) {
            apply_free(apply);
            return NULL;
        }
        struct str name = json_get_text(files->items[i], "file");
        file_add(apply, name.len ? arena_str(control_arena(request), name).ptr : "(request)",
                 source);
    }
    return apply;
}

static bool is_json(const struct control_request *request)
{
    const char *type = control_header(request, "Content-Type");
    return type && strncmp(type, "application/json", strlen("application/json")) == 0;
}

/* NULL after answering. */
static struct apply *apply_read(struct api *api, struct control_request *request)
{
    struct apply *apply;
    const char *file = control_query(request, "file");
    if (is_json(request)) {
        apply = set_read(api, request);
        if (!apply)
            return NULL;
    } else {
        apply = apply_new(api, request, 1);
        file_add(apply, file ? file : "(request)", control_body(request));
    }
    plans_compile(api->o.plans, apply->files, apply->count);
    struct dsl_member *members =
        arena_array(control_arena(request), struct dsl_member, apply->count);
    for (size_t i = 0; i < apply->count; i++)
        members[i] = (struct dsl_member){apply->files[i].plan, apply->files[i].diags};
    dsl_set_names_check(members, apply->count);
    return apply;
}

/* --- answers --------------------------------------------------------------------------------- */

static uint32_t errors_count(const struct apply *apply)
{
    uint32_t errors = 0;
    for (size_t i = 0; i < apply->count; i++)
        errors += apply->files[i].diags->errors;
    return errors;
}

/* What is said of all files, in one list. */
static const struct json *diagnostics(const struct apply *apply)
{
    struct arena *arena = control_arena(apply->request);
    uint32_t total = 0;
    for (size_t i = 0; i < apply->count; i++)
        total += apply->files[i].diags->count;
    struct json *all = json_list_new(arena, total);
    for (size_t i = 0; i < apply->count; i++) {
        const struct json *list = diags_json(apply->files[i].diags, arena);
        for (uint32_t d = 0; d < list->count; d++)
            json_list_add(all, list->items[d]);
    }
    return all;
}

static struct json *applied_json(const struct apply *apply, size_t index, struct str status)
{
    struct arena *arena = control_arena(apply->request);
    const struct plan *plan = apply->files[index].plan;
    struct json *out = json_object_new(arena, 6);
    if (apply->is_set)
        json_object_add_z(out, "file", json_string_z(arena, apply->files[index].diags->file));
    json_object_add_z(out, "workflow", json_string_z(arena, plan->workflow));
    json_object_add_z(out, "version", json_string_z(arena, plan->version));
    json_object_add_z(out, "hash", json_string_z(arena, plan->hash_hex));
    json_object_add_z(out, "status", json_string(arena, status));
    json_object_add_z(out, "warnings", diags_json(apply->files[index].diags, arena));
    return out;
}

static void applied(void *arg, const struct store_answer *answer)
{
    struct apply *apply = arg;
    struct arena *arena = control_arena(apply->request);
    const struct json *states = NULL;
    struct err err;
    if (answer->err.code) {
        problem_err(apply->request, &answer->err);
        apply_free(apply);
        return;
    }
    if (apply->is_set && json_parse(answer->text, arena, &states, &err) != 0)
        states = NULL;
    struct json *list = json_list_new(arena, (uint32_t)apply->count);
    for (size_t i = 0; i < apply->count; i++) {
        struct str status = answer->text;
        plans_put(apply->api->o.plans, apply->files[i].plan, true);
        if (apply->is_set) /* the database made the list */
            status = states && i < states->count ? states->items[i]->text : STR("applied");
        json_list_add(list, applied_json(apply, i, status));
    }
    const struct json *out = list->items[0];
    if (apply->is_set) {
        struct json *document = json_object_new(arena, 1);
        json_object_add_z(document, "files", list);
        out = document;
    }
    control_reply(apply->request, 200, json_text(out, arena));
    apply_free(apply);
}

void workflows_apply(struct api *api, struct control_request *request)
{
    struct apply *apply = apply_read(api, request);
    if (!apply)
        return;
    const char *actor = control_actor(request).ptr;
    uint32_t errors = errors_count(apply);
    if (errors) {
        control_problem(request, 422, "workflow_invalid", diagnostics(apply),
                        apply->is_set ? "the workflows have %u error%s"
                                      : "the workflow has %u error%s",
                        errors, errors == 1 ? "" : "s");
        apply_free(apply);
        return;
    }
    struct arena *arena = control_arena(request);
    struct store_definition *list = arena_array(arena, struct store_definition, apply->count);
    for (size_t i = 0; i < apply->count; i++)
        list[i] = (struct store_definition){apply->files[i].plan,
                                            dsl_run_id_parts(apply->files[i].plan, arena)};
    if (apply->is_set)
        store_pg_apply_set(api->o.store, list, apply->count, actor, applied, apply);
    else
        store_pg_apply(api->o.store, list->plan, list->run_id_parts, actor, applied, apply);
}

void workflows_validate(struct api *api, struct control_request *request)
{
    struct apply *apply = apply_read(api, request);
    if (!apply)
        return;
    struct arena *arena = control_arena(request);
    struct json *out = json_object_new(arena, 2);
    json_object_add_z(out, "ok", json_bool(!errors_count(apply)));
    json_object_add_z(out, "diagnostics", diagnostics(apply));
    control_reply(request, 200, json_text(out, arena));
    apply_free(apply);
}
