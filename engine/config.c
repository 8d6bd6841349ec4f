#include "engine/config.h"

#include "dsl/doc.h"
#include "engine/http_text.h"
#include "engine/limits.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

#define FILE_BYTES_MAX (1024 * 1024)
#define CONFIG_NODES_MAX 20000

struct reader {
    struct config *config;
    struct doc doc;
    struct diags *diags;
};

void config_init(struct config *config)
{
    *config = (struct config){
        .drain_us = CONFIG_DRAIN_US, .lease_us = CONFIG_LEASE_US, .sessions = CONFIG_SESSIONS};
}

void config_free(struct config *config)
{
    arena_free(&config->arena);
    *config = (struct config){0};
}

int config_file_read(const char *path, struct arena *arena, struct str *out, struct err *err)
{
    FILE *file = fopen(path, "rbe");
    if (!file)
        return err_set(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "could not read \"%s\": %s",
                       path, strerror(errno));
    struct buf text = {0};
    char chunk[16384];
    size_t got;
    while ((got = fread(chunk, 1, sizeof(chunk), file)) > 0 && text.len <= FILE_BYTES_MAX)
        buf_add(&text, chunk, got);
    int code = 0;
    if (ferror(file))
        code = err_set(err, ERR_IO, "could not read \"%s\": %s", path, strerror(errno));
    else if (text.len > FILE_BYTES_MAX)
        code = err_set(err, ERR_LIMIT, "\"%s\" is larger than 1 MiB", path);
    else
        *out = arena_str(arena, buf_str(&text));
    fclose(file);
    buf_free(&text);
    return code;
}

bool config_log_format(struct str text, enum log_format *out)
{
    static const char *const names[] = {"human", "logfmt", "json"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (str_eq_z(text, names[i])) {
            *out = (enum log_format)i;
            return true;
        }
    return false;
}

bool config_lease_ok(int64_t lease_us)
{
    return lease_us >= SECOND_US && lease_us <= 10 * MINUTE_US;
}

bool config_sessions(struct str text, unsigned *out)
{
    if (text.len != 1 || text.ptr[0] < '2' || text.ptr[0] > '4')
        return false;
    *out = (unsigned)(text.ptr[0] - '0');
    return true;
}

/* --- reading nodes ---------------------------------------------------------------------------- */

static struct diag *complain(struct reader *reader, const char *code, const struct node *node,
                             const char *fmt, ...) PRINTF_LIKE(4, 5);

static struct diag *complain(struct reader *reader, const char *code, const struct node *node,
                             const char *fmt, ...)
{
    struct place place = doc_node_place(&reader->doc, node);
    struct buf text = {0};
    va_list args;
    va_start(args, fmt);
    buf_vprintf(&text, fmt, args);
    va_end(args);
    struct diag *diag = diag_add(reader->diags, DIAG_ERROR, code, place.line, place.column,
                                 place.span, "%s", text.data);
    buf_free(&text);
    return diag;
}

static void unknown_key(struct reader *reader, const struct node *key, const char *const *keys,
                        size_t count)
{
    struct diag *diag =
        complain(reader, "E903", key, "unknown key `" STR_FMT "`", STR_ARG(key->text));
    const char *nearest = diag_nearest(key->text, keys, count);
    if (nearest)
        diag_help(reader->diags, diag, "a similar key exists: `%s`", nearest);
}

static const char *text_read(struct reader *reader, const struct node *node, const char *what)
{
    if (node->kind != NODE_TEXT || !node->text.len) {
        complain(reader, "E901", node, "`%s` must be a text, not %s", what, node_kind_name(node));
        return NULL;
    }
    return arena_str(&reader->config->arena, node->text).ptr;
}

/* A map of names to texts. */
static const struct config_pair *pairs_read(struct reader *reader, const struct node *node,
                                            const char *what, uint16_t *out_count)
{
    if (node->kind != NODE_MAP) {
        complain(reader, "E901", node, "`%s` must be a map, not %s", what, node_kind_name(node));
        return NULL;
    }
    struct config_pair *pairs =
        arena_array(&reader->config->arena, struct config_pair, node->count);
    for (uint32_t i = 0; i < node->count; i++) {
        const char *text = text_read(reader, node->pairs[i].value, what);
        if (text)
            pairs[(*out_count)++] = (struct config_pair){
                arena_str(&reader->config->arena, node->pairs[i].key->text).ptr, text};
    }
    return pairs;
}

static void env_read(struct reader *reader, const struct node *node)
{
    struct config *config = reader->config;
    if (node->kind != NODE_LIST) {
        complain(reader, "E901", node, "`env` must be a list of names");
        return;
    }
    const char **names =
        (const char **)arena_alloc_array(&config->arena, node->count, sizeof(char *));
    for (uint32_t i = 0; i < node->count; i++) {
        const char *name = text_read(reader, node->items[i], "env");
        if (name)
            names[config->env_count++] = name;
    }
    config->env_names = names;
}

static void exec_read(struct reader *reader, const struct node *node)
{
    const struct node *directory = node_get(node, "directory");
    if (!directory || node->count != 1) {
        complain(reader, "E902", node, "`exec` has the form {directory: PATH}");
        return;
    }
    reader->config->exec_directory = text_read(reader, directory, "directory");
}

/* uids and roles become the actors of the core: "uid:1000", "role:ada". */
static void ids_read(struct reader *reader, const struct node *list, const char *prefix,
                     struct json *ids)
{
    for (uint32_t i = 0; list && list->kind == NODE_LIST && i < list->count; i++)
        json_list_add(ids, json_string(&reader->config->arena,
                                       arena_printf(&reader->config->arena, "%s:" STR_FMT, prefix,
                                                    STR_ARG(list->items[i]->text))));
}

static void person_read(struct reader *reader, const struct node *node, struct json *people)
{
    static const char *const keys[] = {"name", "uids", "roles", "groups"};
    struct arena *arena = &reader->config->arena;
    const struct node *name = node_get(node, "name");
    const struct node *lists[] = {node_get(node, "uids"), node_get(node, "roles"),
                                  node_get(node, "groups")};
    uint32_t count = 0;
    bool known = node->kind == NODE_MAP && name && name->kind == NODE_TEXT;
    for (uint32_t i = 0; known && i < node->count; i++) {
        bool found = false;
        for (size_t k = 0; k < ARRAY_LEN(keys); k++)
            found = found || str_eq_z(node->pairs[i].key->text, keys[k]);
        known = found;
    }
    for (size_t i = 0; known && i < ARRAY_LEN(lists); i++) {
        known = !lists[i] || lists[i]->kind == NODE_LIST;
        count += known && lists[i] ? lists[i]->count : 0;
    }
    if (!known) {
        complain(reader, "E902", node,
                 "a person has the form {name: NAME, uids: [...], roles: [...], groups: [...]}");
        return;
    }
    struct json *person = json_object_new(arena, 3), *ids = json_list_new(arena, count);
    struct json *groups = json_list_new(arena, lists[2] ? lists[2]->count : 0);
    ids_read(reader, lists[0], "uid", ids);
    ids_read(reader, lists[1], "role", ids);
    for (uint32_t i = 0; lists[2] && i < lists[2]->count; i++)
        json_list_add(groups, json_string(arena, arena_str(arena, lists[2]->items[i]->text)));
    json_object_add_z(person, "name", json_string(arena, arena_str(arena, name->text)));
    json_object_add_z(person, "ids", ids);
    json_object_add_z(person, "groups", groups);
    json_list_add(people, person);
}

static void people_read(struct reader *reader, const struct node *node)
{
    if (node->kind != NODE_LIST) {
        complain(reader, "E901", node, "`people` must be a list");
        return;
    }
    struct json *people = json_list_new(&reader->config->arena, node->count);
    for (uint32_t i = 0; i < node->count; i++)
        person_read(reader, node->items[i], people);
    reader->config->people = people;
}

static void ranges_read(struct reader *reader, const struct node *list, bool deny,
                        struct egress_range *ranges)
{
    struct egress *egress = &reader->config->egress;
    for (uint32_t i = 0; list && list->kind == NODE_LIST && i < list->count; i++) {
        const char *text = text_read(reader, list->items[i], "egress");
        if (!text)
            continue;
        struct egress_range range = {.deny = deny};
        const char *problem = egress_range_parse(str_z(text), &range);
        if (problem)
            complain(reader, "E901", list->items[i], "`%s` is no range of addresses: %s", text,
                     problem);
        else
            ranges[egress->count++] = range;
    }
}

static void egress_read(struct reader *reader, const struct node *node)
{
    const struct node *allow = node_get(node, "allow"), *deny = node_get(node, "deny");
    bool lists = (!allow || allow->kind == NODE_LIST) && (!deny || deny->kind == NODE_LIST);
    if (node->kind != NODE_MAP || node->count != (uint32_t)(!!allow + !!deny) || !lists) {
        complain(reader, "E902", node, "`egress` has the form {allow: [RANGE], deny: [RANGE]}");
        return;
    }
    uint32_t count = (allow ? allow->count : 0) + (deny ? deny->count : 0);
    struct egress_range *ranges = arena_array(&reader->config->arena, struct egress_range, count);
    reader->config->egress.ranges = ranges;
    ranges_read(reader, allow, false, ranges);
    ranges_read(reader, deny, true, ranges);
}

/* {who: group:acme, tenants: [acme]}: NULL after complaining. */
static const char *bound_read(struct reader *reader, const struct node *item,
                              struct access_grant *grant)
{
    struct arena *arena = &reader->config->arena;
    const struct node *who = node_get(item, "who"), *list = node_get(item, "tenants");
    if (!who || !list || item->count != 2 || list->kind != NODE_LIST || !list->count) {
        complain(
            reader, "E902", item,
            "an entry of `roles` has the form user:NAME, or {who: user:NAME, tenants: [NAME]}");
        return NULL;
    }
    if (grant->role == ROLE_ADMIN) {
        complain(reader, "E901", item,
                 "`admin` cannot be bound to tenants: workflows belong to all of them");
        return NULL;
    }
    const char **names = (const char **)arena_alloc_array(arena, list->count, sizeof(char *));
    for (uint32_t i = 0; i < list->count; i++)
        if (!(names[i] = text_read(reader, list->items[i], "tenants")))
            return NULL;
    grant->tenants = names;
    grant->tenants_count = (uint16_t)list->count;
    return text_read(reader, who, "who");
}

static void role_read(struct reader *reader, const struct pair *pair, struct access_grant *grants,
                      uint32_t room)
{
    struct access *access = &reader->config->access;
    enum access_role role = access_role_of(pair->key->text);
    if (role == ROLE_NONE) {
        struct diag *diag = complain(reader, "E903", pair->key, "unknown role `" STR_FMT "`",
                                     STR_ARG(pair->key->text));
        diag_help(reader->diags, diag, "roles are read, submit, operate and admin");
        return;
    }
    if (pair->value->kind != NODE_LIST) {
        complain(reader, "E901", pair->value, "the role `%s` needs a list like [group:ops]",
                 access_role_name(role));
        return;
    }
    for (uint32_t i = 0; i < pair->value->count && access->count < room; i++) {
        const struct node *item = pair->value->items[i];
        struct access_grant grant = {.role = role};
        const char *text = item->kind == NODE_MAP ? bound_read(reader, item, &grant)
                                                  : text_read(reader, item, "roles");
        const char *problem = text ? access_grant_parse(str_z(text), &grant) : NULL;
        if (problem)
            complain(reader, "E901", item, "`%s` is nobody: %s", text, problem);
        else if (text)
            grants[access->count++] = grant;
    }
}

static void roles_read(struct reader *reader, const struct node *node)
{
    struct access *access = &reader->config->access;
    uint32_t count = 0;
    if (node->kind != NODE_MAP) {
        complain(reader, "E902", node, "`roles` has the form {ROLE: [user:NAME, group:NAME]}");
        return;
    }
    for (uint32_t i = 0; i < node->count; i++)
        if (node->pairs[i].value->kind == NODE_LIST)
            count += node->pairs[i].value->count;
    struct access_grant *grants = arena_array(&reader->config->arena, struct access_grant, count);
    access->grants = grants;
    access->is_set = true;
    for (uint32_t i = 0; i < node->count; i++)
        role_read(reader, &node->pairs[i], grants, count);
}

static void duration_read(struct reader *reader, const struct node *node, const char *what,
                          int64_t *out_us)
{
    if (node->kind != NODE_TEXT || !duration_parse(node->text, out_us)) {
        struct diag *diag = complain(reader, "E901", node, "`%s` is not a duration", what);
        diag_help(reader->diags, diag, "write it like 30s");
    }
}

/* --- alerts ----------------------------------------------------------------------------------- */

/* The key is known: that some tools read the word as a boolean needs no warning. */
static void alert_on_read(struct reader *reader, const struct pair *pair,
                          struct alert_target *target)
{
    const struct node *node = pair->value;
    struct place place = doc_node_place(&reader->doc, pair->key);
    diags_drop_at(reader->diags, "W001", place.line, place.column);
    for (uint32_t i = 0; node->kind == NODE_LIST && i < node->count; i++) {
        struct str what = node->items[i]->text;
        if (str_eq_z(what, "parked"))
            target->on_parked = true;
        else if (str_eq_z(what, "unknown"))
            target->on_unknown = true;
        else if (str_eq_z(what, "breaker"))
            target->on_breaker = true;
        else
            complain(reader, "E901", node->items[i], "`on` is a list of parked, unknown, breaker");
    }
    if (node->kind != NODE_LIST || !node->count)
        complain(reader, "E901", node, "`on` is a list of parked, unknown, breaker");
}

static void alert_url_read(struct reader *reader, const struct node *node,
                           struct alert_target *target)
{
    const char *url = text_read(reader, node, "url");
    if (!url)
        return;
    if (str_starts(str_z(url), STR("secret:")))
        target->secret = url + strlen("secret:");
    else
        target->url = url;
    const char *base = "";
    struct str path = STR("/");
    if (target->url)
        http_url_split(url, &reader->config->arena, &base, &path);
    if (target->secret ? !*target->secret
                       : http_url_problem(str_z(base)) || http_target_problem(path))
        complain(reader, "E901", node, "`url` is https://HOST/PATH, or secret:NAME");
}

static void alert_exec_read(struct reader *reader, const struct node *node,
                            struct alert_target *target)
{
    struct arena *arena = &reader->config->arena;
    if (node->kind != NODE_LIST || !node->count || node->count > 64) {
        complain(reader, "E901", node, "`exec` is a list: the program and its arguments");
        return;
    }
    struct str *args = arena_array(arena, struct str, node->count);
    for (uint32_t i = 0; i < node->count; i++)
        if (node->items[i]->kind == NODE_TEXT)
            args[target->args_count++] = arena_str(arena, node->items[i]->text);
        else
            complain(reader, "E901", node->items[i], "an argument is a text");
    target->args = args;
}

static void alert_read(struct reader *reader, const struct pair *pair, struct alert_target *target)
{
    static const char *const keys[] = {"url", "exec", "bearer", "on", "every"};
    const struct node *node = pair->value;
    *target = (struct alert_target){.name = arena_str(&reader->config->arena, pair->key->text).ptr,
                                    .every_us = ALERTS_EVERY_US};
    for (uint32_t i = 0; node->kind == NODE_MAP && i < node->count; i++) {
        struct str key = node->pairs[i].key->text;
        const struct node *value = node->pairs[i].value;
        if (str_eq_z(key, "url"))
            alert_url_read(reader, value, target);
        else if (str_eq_z(key, "exec"))
            alert_exec_read(reader, value, target);
        else if (str_eq_z(key, "bearer"))
            target->bearer = text_read(reader, value, "bearer");
        else if (str_eq_z(key, "on"))
            alert_on_read(reader, &node->pairs[i], target);
        else if (str_eq_z(key, "every"))
            duration_read(reader, value, "every", &target->every_us);
        else
            unknown_key(reader, node->pairs[i].key, keys, ARRAY_LEN(keys));
    }
    if (!node_get(node, "on"))
        target->on_parked = target->on_breaker = true;
    if (target->every_us < SECOND_US)
        complain(reader, "E901", node_get(node, "every"), "`every` is at least 1s");
    if (!node_get(node, "url") == !node_get(node, "exec"))
        complain(
            reader, "E902", node,
            "a target of alerts has the form {url: URL, bearer: SECRET, on: [...], every: 10s}, "
            "or with `exec: [PROGRAM, ARGUMENT...]` for the URL");
}

static void alerts_read(struct reader *reader, const struct node *node)
{
    struct config *config = reader->config;
    if (node->kind != NODE_MAP) {
        complain(reader, "E901", node, "`alerts` must be a map of targets, not %s",
                 node_kind_name(node));
        return;
    }
    struct alert_target *targets = arena_array(&config->arena, struct alert_target, node->count);
    for (uint32_t i = 0; i < node->count; i++)
        alert_read(reader, &node->pairs[i], &targets[i]);
    config->alerts = targets;
    config->alerts_count = (uint16_t)node->count;
}

/* Names of what other settings declare. */
static void alerts_check(struct reader *reader, const struct node *node)
{
    const struct config *config = reader->config;
    for (uint16_t i = 0; i < config->alerts_count; i++) {
        const struct alert_target *target = &config->alerts[i];
        const char *secrets[] = {target->secret, target->bearer};
        if (target->args && !config->exec_directory)
            complain(reader, "E902", node->pairs[i].value,
                     "`exec` needs the directory of the programs: exec: {directory: PATH}");
        for (size_t k = 0; k < ARRAY_LEN(secrets); k++) {
            bool known = !secrets[k];
            for (uint16_t s = 0; !known && s < config->secrets_count; s++)
                known = !strcmp(config->secrets[s].name, secrets[k]);
            if (!known)
                complain(reader, "E902", node->pairs[i].value,
                         "there is no secret `%s`: declare it under `secrets`", secrets[k]);
        }
    }
}

/* --- tenants ---------------------------------------------------------------------------------- */

static bool number_read(struct str text, uint32_t most, uint32_t *out)
{
    uint64_t number = 0;
    for (size_t i = 0; i < text.len && number <= most; i++) {
        if (!isdigit((unsigned char)text.ptr[i]))
            return false;
        number = number * 10 + (uint64_t)(text.ptr[i] - '0');
    }
    *out = (uint32_t)number;
    return number >= 1 && number <= most;
}

static void tenants_read(struct reader *reader, const struct node *node)
{
    struct config *config = reader->config;
    if (node->kind != NODE_MAP) {
        complain(reader, "E902", node,
                 "`tenants` has the form {acme: {runs: 50}, \"*\": {runs: 10}}");
        return;
    }
    struct tenant_limit *limits = arena_array(&config->arena, struct tenant_limit, node->count);
    for (uint32_t i = 0; i < node->count; i++) {
        const struct node *name = node->pairs[i].key, *value = node->pairs[i].value;
        const struct node *runs = value->kind == NODE_MAP ? node_get(value, "runs") : NULL;
        limits[i].name = arena_str(&config->arena, name->text).ptr;
        if (!runs || value->count != 1)
            complain(reader, "E902", value, "a tenant has the form {runs: NUMBER}");
        else if (runs->kind != NODE_NUMBER ||
                 !number_read(runs->text, RESIDENT_RUNS_MAX, &limits[i].runs))
            complain(reader, "E901", runs, "`runs` is a number from 1 to %d", RESIDENT_RUNS_MAX);
    }
    config->tenants = limits;
    config->tenants_count = (uint16_t)node->count;
}

static void key_read(struct reader *reader, const struct pair *pair)
{
    static const char *const keys[] = {"database", "name",     "socket",  "log_format", "drain",
                                       "lease",    "services", "secrets", "env",        "exec",
                                       "egress",   "roles",    "people",  "retain",     "sessions",
                                       "alerts",   "tenants"};
    struct config *config = reader->config;
    struct str key = pair->key->text;
    const struct node *value = pair->value;
    if (str_eq_z(key, "database"))
        config->database = text_read(reader, value, "database");
    else if (str_eq_z(key, "name"))
        config->name = text_read(reader, value, "name");
    else if (str_eq_z(key, "socket"))
        config->socket = text_read(reader, value, "socket");
    else if (str_eq_z(key, "services"))
        dsl_services_compile(&reader->doc, value, &config->arena, reader->diags, &config->services,
                             &config->services_count);
    else if (str_eq_z(key, "secrets"))
        config->secrets = pairs_read(reader, value, "secrets", &config->secrets_count);
    else if (str_eq_z(key, "env"))
        env_read(reader, value);
    else if (str_eq_z(key, "exec"))
        exec_read(reader, value);
    else if (str_eq_z(key, "people"))
        people_read(reader, value);
    else if (str_eq_z(key, "egress"))
        egress_read(reader, value);
    else if (str_eq_z(key, "roles"))
        roles_read(reader, value);
    else if (str_eq_z(key, "alerts"))
        alerts_read(reader, value);
    else if (str_eq_z(key, "tenants"))
        tenants_read(reader, value);
    else if (str_eq_z(key, "drain"))
        duration_read(reader, value, "drain", &config->drain_us);
    else if (str_eq_z(key, "retain")) {
        duration_read(reader, value, "retain", &config->retain_us);
        if (config->retain_us < SECOND_US)
            complain(reader, "E901", value, "`retain` is a duration of at least 1s");
    } else if (str_eq_z(key, "lease")) {
        duration_read(reader, value, "lease", &config->lease_us);
        if (!config_lease_ok(config->lease_us))
            complain(reader, "E901", value, "`lease` is a duration of 1s to 10m");
    } else if (str_eq_z(key, "sessions")) {
        if (!config_sessions(value->text, &config->sessions))
            complain(reader, "E901", value, "`sessions` is 2, 3 or 4");
    } else if (str_eq_z(key, "log_format")) {
        config->has_log_format = true;
        if (!config_log_format(value->text, &config->log_format))
            complain(reader, "E901", value, "`log_format` is one of human, logfmt, json");
    } else if (!str_starts(key, STR("x-"))) {
        unknown_key(reader, pair->key, keys, ARRAY_LEN(keys));
    }
}

bool config_parse(struct str source, struct config *config, struct diags *diags)
{
    struct reader reader = {.config = config, .diags = diags};
    config_init(config);
    doc_load(&reader.doc, source, FILE_BYTES_MAX, CONFIG_NODES_MAX, diags);
    const struct node *root = reader.doc.root;
    if (root && root->kind != NODE_MAP)
        complain(&reader, "E901", root, "the config must be a map of settings");
    for (uint32_t i = 0; root && root->kind == NODE_MAP && i < root->count; i++)
        key_read(&reader, &root->pairs[i]);
    if (config->alerts_count)
        alerts_check(&reader, node_get(root, "alerts"));
    doc_free(&reader.doc);
    return diags->errors == 0;
}
