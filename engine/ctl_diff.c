/*
 * ctl_diff.c: sagactl diff: a workflow's file against the version that the daemon has.
 */
#include "dsl/dsl.h"
#include "dsl/plan_diff.h"
#include "engine/ctl_client.h"
#include "engine/ctl_files.h"
#include "engine/ctl_json.h"
#include "engine/ctl_text.h"
#include "engine/ctl_verbs.h"

#define RUNS_NAMED_MAX 10     /* by id; of more only the number is told */
#define RUNS_COUNTED_MAX 1000 /* of each state: one page */
#define VALUE_COLUMNS_MAX 60

struct open_run {
    struct str id, state, version;
};

struct comparison {
    struct ctl *ctl;
    const char *file;
    struct plan *mine, *theirs; /* theirs NULL: the daemon has none */
    struct plan_changes changes;
    struct open_run *runs;
    uint32_t runs_count;
    bool more_runs; /* than were counted */
    bool same;
};

/* --- the daemon's side ------------------------------------------------------------------- */

static int theirs_compile(struct comparison *c, struct str source, const char *name)
{
    struct diags diags;
    diags_init(&diags, name, source);
    c->theirs = dsl_compile(source, NULL, &diags);
    diags_free(&diags);
    if (c->theirs)
        return CTL_OK;
    ctl_say(c->ctl, "the daemon's version of \"%s\" cannot be read by this version of sagactl",
            name);
    return CTL_ERROR;
}

static int theirs_get(struct comparison *c)
{
    struct ctl *ctl = c->ctl;
    struct ctl_request request = {
        .method = "GET", .path = ctl_path(ctl, "/v1/workflows/", str_z(c->mine->workflow), "")};
    struct ctl_reply reply;
    const struct json *json;
    struct err err;
    if (ctl_call(ctl, &request, &reply, &err) != 0)
        return ctl_fail(ctl, &err);
    if (reply.status == 404)
        return CTL_OK;
    if (reply.status != 200)
        return ctl_refused(ctl, &reply);
    if (ctl_json_parse(reply.body, &ctl->arena, &json, &err) != 0) {
        ctl_say(ctl, "the daemon's answer cannot be read: %s", err.text);
        return CTL_ERROR;
    }
    struct str source = json_get_text(json, "source");
    if (!source.ptr) {
        ctl_say(ctl, "the daemon's answer has no source");
        return CTL_ERROR;
    }
    return theirs_compile(c, source, c->mine->workflow);
}

static int runs_of_state_get(struct comparison *c, const char *state)
{
    struct ctl *ctl = c->ctl;
    struct ctl_reply reply;
    const struct json *json;
    struct str after = arena_printf(&ctl->arena, "&state=%s&limit=%d", state, RUNS_COUNTED_MAX);
    int code =
        ctl_get(ctl, ctl_path(ctl, "/v1/runs?workflow=", str_z(c->mine->workflow), after.ptr),
                &reply, &json);
    if (code)
        return code;
    const struct json *list = json_get_z(json, "runs"), *next = json_get_z(json, "next");
    uint32_t count = list && list->kind == JSON_LIST ? list->count : 0;
    struct open_run *runs = arena_array(&ctl->arena, struct open_run, c->runs_count + count);
    if (c->runs_count)
        memcpy(runs, c->runs, c->runs_count * sizeof(*runs));
    for (uint32_t i = 0; i < count; i++)
        runs[c->runs_count + i] = (struct open_run){
            arena_str(&ctl->arena, json_get_text(list->items[i], "run_id")), str_z(state),
            arena_str(&ctl->arena, json_get_text(list->items[i], "version"))};
    c->runs = runs;
    c->runs_count += count;
    c->more_runs = c->more_runs || (next && next->kind == JSON_STRING);
    return CTL_OK;
}

static int runs_get(struct comparison *c)
{
    static const char *const open[] = {"queued", "running", "compensating", "parked"};
    int code = CTL_OK;
    for (size_t i = 0; !code && i < ARRAY_LEN(open); i++)
        code = runs_of_state_get(c, open[i]);
    return code;
}

/* --- for people -------------------------------------------------------------------------- */

static void value_add(struct buf *out, struct str value)
{
    if (!value.ptr)
        buf_add_z(out, "(none)");
    else if (!value.len)
        buf_add_z(out, "\"\"");
    else
        text_add_cut(out, value, VALUE_COLUMNS_MAX);
}

static void part_print(struct comparison *c, const struct plan_change *change)
{
    bool added = !change->key.len && !change->before.ptr;
    bool removed = !change->key.len && !change->after.ptr;
    enum paint paint = added ? PAINT_GREEN : removed ? PAINT_RED : PAINT_YELLOW;
    struct buf *out = &c->ctl->out;
    buf_add_z(out, "  ");
    text_add_painted(out, c->ctl->color, paint, added ? STR("+") : removed ? STR("-") : STR("~"));
    buf_printf(out, " %s%s", plan_part_name(change->part), change->name.len ? " " : "");
    text_add(out, change->name);
    buf_add_char(out, '\n');
}

static void change_print(struct comparison *c, const struct plan_change *change)
{
    struct buf *out = &c->ctl->out;
    buf_add_z(out, "      ");
    text_add(out, change->key);
    text_add_spaces(out, change->key.len < 22 ? 22 - change->key.len : 0);
    buf_add_z(out, "  ");
    value_add(out, change->before);
    buf_add_z(out, " -> ");
    value_add(out, change->after);
    if (change->follows)
        text_add_painted(out, c->ctl->color, PAINT_DIM, STR("  (follows)"));
    buf_add_char(out, '\n');
}

static void changes_print(struct comparison *c)
{
    for (uint32_t i = 0; i < c->changes.count; i++) {
        const struct plan_change *change = &c->changes.list[i];
        const struct plan_change *last = i ? &c->changes.list[i - 1] : NULL;
        if (!last || last->part != change->part || !str_eq(last->name, change->name))
            part_print(c, change);
        if (change->key.len)
            change_print(c, change);
    }
    if (!c->changes.count)
        buf_add_z(&c->ctl->out, "  nothing but comments, layout or keys that are not looked at\n");
}

static void runs_print(struct comparison *c)
{
    struct buf *out = &c->ctl->out;
    if (!c->runs_count) {
        buf_add_z(out, "no open run is affected\n");
        return;
    }
    buf_printf(out, STR_FMT "%s stay%s on the version of %s start:",
               STR_ARG(text_count(c->runs_count, "open run", &c->ctl->arena)),
               c->more_runs ? " and more" : "", c->runs_count == 1 ? "s" : "",
               c->runs_count == 1 ? "its" : "their");
    for (uint32_t i = 0; i < MIN(c->runs_count, (uint32_t)RUNS_NAMED_MAX); i++) {
        buf_add_z(out, i ? ", " : " ");
        text_add(out, c->runs[i].id);
        buf_add_char(out, ' ');
        text_add(out, c->runs[i].state);
    }
    if (c->runs_count > RUNS_NAMED_MAX)
        buf_printf(out, ", and %u more", c->runs_count - RUNS_NAMED_MAX);
    buf_add_z(out,
              "\n(sagactl migrate takes those that are parked or paused to another version)\n");
}

static void table_print_diff(struct comparison *c)
{
    struct buf *out = &c->ctl->out;
    text_add(out, str_z(c->file));
    if (!c->theirs) {
        buf_printf(out, ": the daemon has no workflow \"%s\"\n", c->mine->workflow);
        return;
    }
    if (sha256_eq(&c->mine->hash, &c->theirs->hash)) {
        buf_printf(out, ": the daemon has this version of \"%s\", ", c->mine->workflow);
        text_add(out, str_z(c->mine->version));
        buf_add_char(out, '\n');
        return;
    }
    buf_printf(out, ": workflow %s, version ", c->mine->workflow);
    text_add(out, str_z(c->theirs->version));
    buf_add_z(out, " -> ");
    text_add(out, str_z(c->mine->version));
    buf_add_char(out, '\n');
    changes_print(c);
    runs_print(c);
}

/* --- as data ----------------------------------------------------------------------------- */

static const struct json *text_or_null(struct arena *arena, struct str text)
{
    return text.ptr ? json_string(arena, text) : &json_null;
}

static const struct json *version_json(struct arena *arena, const struct plan *plan)
{
    if (!plan)
        return &json_null;
    struct json *out = json_object_new(arena, 2);
    json_object_add_z(out, "version", json_string_z(arena, plan->version));
    json_object_add_z(out, "hash", json_string_z(arena, plan->hash_hex));
    return out;
}

static const struct json *diff_json(const struct comparison *c, bool same)
{
    struct arena *arena = &c->ctl->arena;
    struct json *out = json_object_new(arena, 8);
    struct json *changes = json_list_new(arena, c->changes.count);
    struct json *runs = json_list_new(arena, c->runs_count);
    for (uint32_t i = 0; i < c->changes.count; i++) {
        const struct plan_change *change = &c->changes.list[i];
        struct json *entry = json_object_new(arena, 6);
        json_object_add_z(entry, "part", json_string_z(arena, plan_part_name(change->part)));
        json_object_add_z(entry, "name", json_string(arena, change->name));
        json_object_add_z(entry, "key", json_string(arena, change->key));
        json_object_add_z(entry, "before", text_or_null(arena, change->before));
        json_object_add_z(entry, "after", text_or_null(arena, change->after));
        json_object_add_z(entry, "follows", json_bool(change->follows));
        json_list_add(changes, entry);
    }
    for (uint32_t i = 0; i < c->runs_count; i++) {
        struct json *entry = json_object_new(arena, 3);
        json_object_add_z(entry, "run_id", text_or_null(arena, c->runs[i].id));
        json_object_add_z(entry, "state", text_or_null(arena, c->runs[i].state));
        json_object_add_z(entry, "version", text_or_null(arena, c->runs[i].version));
        json_list_add(runs, entry);
    }
    json_object_add_z(out, "file", json_string_z(arena, c->file));
    json_object_add_z(out, "workflow", json_string_z(arena, c->mine->workflow));
    json_object_add_z(out, "same", json_bool(same));
    json_object_add_z(out, "before", version_json(arena, c->theirs));
    json_object_add_z(out, "after", version_json(arena, c->mine));
    json_object_add_z(out, "changes", changes);
    json_object_add_z(out, "open_runs", runs);
    json_object_add_z(out, "more_open_runs", json_bool(c->more_runs));
    return out;
}

/* --- the verb ---------------------------------------------------------------------------- */

static int compare(struct comparison *c)
{
    struct ctl *ctl = c->ctl;
    int code = theirs_get(c);
    if (code)
        return code;
    bool same = c->theirs && sha256_eq(&c->mine->hash, &c->theirs->hash);
    if (c->theirs && !same) {
        plan_diff(c->theirs, c->mine, &ctl->arena, &c->changes);
        code = runs_get(c);
        if (code)
            return code;
    }
    struct str text = json_text(diff_json(c, same), &ctl->arena);
    if (ctl->format == CTL_FORMAT_JSON)
        ctl_json_pretty(text, &ctl->out);
    else if (ctl->format == CTL_FORMAT_JSONL)
        ctl_json_compact(text, &ctl->out);
    else if (ctl->format == CTL_FORMAT_NAME && !same)
        buf_printf(&ctl->out, "%s\n", c->mine->workflow);
    else if (ctl->format != CTL_FORMAT_NAME)
        table_print_diff(c);
    c->same = same;
    return CTL_OK;
}

int ctl_verb_diff(struct ctl *ctl)
{
    struct comparison c = {.ctl = ctl, .file = ctl->args[0]};
    struct str source;
    struct diags diags;
    int code = ctl_source_read(ctl, c.file, &source);
    if (code)
        return code;
    diags_init(&diags, c.file, source);
    c.mine = dsl_compile(source, NULL, &diags);
    if (c.mine) {
        code = compare(&c);
        if (code == CTL_ERROR) /* 1 is kept for "differs", as with diff(1) */
            code = CTL_USAGE;
        else if (!code && !c.same)
            code = CTL_ERROR;
    } else {
        ctl_diags_say(ctl, &diags);
        ctl_say(ctl, "%s has errors; nothing was compared", c.file);
        code = CTL_USAGE;
    }
    plan_unref(c.mine);
    plan_unref(c.theirs);
    diags_free(&diags);
    return code;
}
