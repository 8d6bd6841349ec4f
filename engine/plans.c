#include "engine/plans.h"

#include "dsl/jsonschema.h"
#include "dsl/set.h"
#include "engine/base/map.h"

#include <stdlib.h>

struct entry {
    struct map_node by_hash, by_name;
    const struct plan *plan;
    bool current; /* linked in by_name */
};

struct plans {
    const struct dsl_options *options;
    struct map by_hash, by_name;
};

static uint64_t hash_key(const struct sha256 *hash)
{
    return str_hash((struct str){(const char *)hash->bytes, sizeof(hash->bytes)});
}

struct plans *plans_new(const struct dsl_options *options)
{
    struct plans *plans = xcalloc(1, sizeof(*plans));
    plans->options = options;
    return plans;
}

void plans_free(struct plans *plans)
{
    struct map_node *node;
    if (!plans)
        return;
    while ((node = map_any(&plans->by_hash))) {
        struct entry *entry = CONTAINER_OF(node, struct entry, by_hash);
        map_remove(&plans->by_hash, node);
        plan_unref(entry->plan);
        free(entry);
    }
    map_free(&plans->by_hash);
    map_free(&plans->by_name);
    free(plans);
}

static struct entry *entry_by_hash(const struct plans *plans, const struct sha256 *hash)
{
    struct map_node *node = map_first(&plans->by_hash, hash_key(hash));
    for (; node; node = map_next(node)) {
        struct entry *entry = CONTAINER_OF(node, struct entry, by_hash);
        if (sha256_eq(&entry->plan->hash, hash))
            return entry;
    }
    return NULL;
}

static struct entry *entry_by_name(const struct plans *plans, struct str name)
{
    struct map_node *node = map_first(&plans->by_name, str_hash(name));
    for (; node; node = map_next(node)) {
        struct entry *entry = CONTAINER_OF(node, struct entry, by_name);
        if (str_eq_z(name, entry->plan->workflow))
            return entry;
    }
    return NULL;
}

static void entry_make_current(struct plans *plans, struct entry *entry)
{
    struct str name = str_z(entry->plan->workflow);
    struct entry *before = entry_by_name(plans, name);
    if (before == entry)
        return;
    if (before) {
        map_remove(&plans->by_name, &before->by_name);
        before->current = false;
    }
    map_insert(&plans->by_name, &entry->by_name, str_hash(name));
    entry->current = true;
}

void plans_put(struct plans *plans, const struct plan *plan, bool current)
{
    struct entry *entry = entry_by_hash(plans, &plan->hash);
    if (!entry) {
        entry = xcalloc(1, sizeof(*entry));
        entry->plan = plan_ref(plan);
        map_insert(&plans->by_hash, &entry->by_hash, hash_key(&plan->hash));
    }
    if (current)
        entry_make_current(plans, entry);
}

int plans_learn(struct plans *plans, struct str source, bool current, struct err *err)
{
    struct diags diags;
    int code = 0;
    diags_init(&diags, "(stored workflow)", source);
    struct plan *plan = dsl_compile(source, plans->options, &diags);
    if (plan) {
        plans_put(plans, plan, current);
        plan_unref(plan);
    } else {
        diags_sort(&diags);
        code = err_set(err, ERR_INVALID, "%u:%u: " STR_FMT, diags.list[0].line,
                       diags.list[0].column, STR_ARG(diags.list[0].message));
    }
    diags_free(&diags);
    return code;
}

int plans_add(struct plans *plans, const struct sha256 *hash, struct str source, bool current,
              struct err *err)
{
    struct entry *entry = entry_by_hash(plans, hash);
    if (!entry)
        return plans_learn(plans, source, current, err);
    if (current)
        entry_make_current(plans, entry);
    return 0;
}

const struct plan *plans_by_hash(const struct plans *plans, const struct sha256 *hash)
{
    struct entry *entry = entry_by_hash(plans, hash);
    return entry ? entry->plan : NULL;
}

const struct plan *plans_current(const struct plans *plans, struct str name)
{
    struct entry *entry = entry_by_name(plans, name);
    return entry ? entry->plan : NULL;
}

const struct plan *plans_for_input(const struct plans *plans, struct str name,
                                   const struct json *input, struct err *err)
{
    const struct plan *plan = plans_current(plans, name);
    struct schema_errors found = {0};
    struct arena scratch = {0};
    if (!plan) {
        err_set(err, ERR_NOT_FOUND, "there is no workflow \"" STR_FMT "\"", STR_ARG(name));
        return NULL;
    }
    if (plan->input && !schema_check(plan->input, input, &scratch, &found)) {
        err_set(err, ERR_INVALID, "the input does not fit the schema of \"%s\": " STR_FMT,
                plan->workflow, STR_ARG(schema_errors_text(&found, &scratch)));
        plan = NULL;
    }
    arena_free(&scratch);
    return plan;
}

/* Those with errors lose their plan. True if one did. */
static bool files_drop(struct plans_file *files, size_t count)
{
    bool dropped = false;
    for (size_t i = 0; i < count; i++) {
        if (!files[i].plan || !files[i].diags->errors)
            continue;
        plan_unref(files[i].plan);
        files[i].plan = NULL;
        dropped = true;
    }
    return dropped;
}

void plans_compile(const struct plans *plans, struct plans_file *files, size_t count)
{
    const struct plan **current = xcalloc(plans->by_name.count + 1, sizeof(struct plan *));
    struct dsl_member *members = xcalloc(count + 1, sizeof(*members));
    struct workflows known = {current, 0};
    for (size_t i = 0; i < plans->by_name.size; i++)
        for (struct map_node *node = plans->by_name.buckets[i]; node; node = node->chain)
            current[known.count++] = CONTAINER_OF(node, struct entry, by_name)->plan;
    for (size_t i = 0; i < count; i++)
        files[i].plan = dsl_compile(files[i].source, plans->options, files[i].diags);
    for (bool again = true; again;) { /* what is dropped was looked at by the others */
        for (size_t i = 0; i < count; i++)
            members[i] = (struct dsl_member){files[i].plan, files[i].diags};
        dsl_set_check(plans->options, members, count, &known);
        again = files_drop(files, count);
        if (again)
            continue;
        dsl_set_parents_check(plans->options, members, count, &known);
        again = files_drop(files, count);
    }
    for (size_t i = 0; i < count; i++)
        diags_sort(files[i].diags);
    free(members);
    free(current);
}

const struct plan *plans_version(const struct plans *plans, struct str text, struct err *err)
{
    const struct plan *found = NULL;
    for (size_t i = 0; i < plans->by_hash.size; i++)
        for (struct map_node *node = plans->by_hash.buckets[i]; node; node = node->chain) {
            const struct plan *plan = CONTAINER_OF(node, struct entry, by_hash)->plan;
            bool by_hash =
                text.len >= PLANS_HASH_DIGITS_MIN && str_starts(str_z(plan->hash_hex), text);
            if (!by_hash && !(plan->version_is_label && str_eq_z(text, plan->version)))
                continue;
            if (found) {
                err_set(err, ERR_CONFLICT, "several versions are \"%.*s\": give more of the hash",
                        (int)MIN(text.len, (size_t)80), text.ptr);
                return NULL;
            }
            found = plan;
        }
    if (!found && text.len < PLANS_HASH_DIGITS_MIN)
        err_set(
            err, ERR_NOT_FOUND,
            "there is no version \"%.*s\": give a label, or at least %d digits of the hash (see "
            "sagactl workflows)",
            (int)text.len, text.ptr, PLANS_HASH_DIGITS_MIN);
    else if (!found)
        err_set(err, ERR_NOT_FOUND, "there is no version \"%.*s\" (see sagactl workflows)",
                (int)MIN(text.len, (size_t)80), text.ptr);
    return found;
}

void plans_each(const struct plans *plans, void (*fn)(void *arg, const struct plan *plan),
                void *arg)
{
    for (size_t i = 0; i < plans->by_name.size; i++)
        for (struct map_node *node = plans->by_name.buckets[i]; node; node = node->chain)
            fn(arg, CONTAINER_OF(node, struct entry, by_name)->plan);
}

const char *plans_nearest(const struct plans *plans, struct str name)
{
    const char **names = xcalloc(plans->by_name.count, sizeof(char *));
    size_t count = 0;
    for (size_t i = 0; i < plans->by_name.size; i++)
        for (struct map_node *node = plans->by_name.buckets[i]; node; node = node->chain)
            names[count++] = CONTAINER_OF(node, struct entry, by_name)->plan->workflow;
    const char *nearest = diag_nearest(name, names, count);
    free(names);
    return nearest;
}
