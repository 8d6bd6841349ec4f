/*
 * compile_action.c: one action, forward or compensating.
 */
#include "dsl/compiler.h"
#include "engine/base/uri.h"

#include <strings.h>

#include "engine/base/ascii.h"

#define ROOTS_OF_ACTIONS (ROOT_INPUT | ROOT_STEPS | ROOT_RUN | ROOT_KEY | ROOT_ENV | ROOT_NOW)

static const char *effect_word(int value)
{
    return value <= EFFECT_IRREVERSIBLE ? effect_tier_name((enum effect_tier)value) : "";
}

struct expr_rules action_rules(const struct compiler *cx, uint16_t index, bool compensation,
                               const char *where)
{
    return (struct expr_rules){
        .where = where,
        .roots = (ROOTS_OF_ACTIONS & ~cx->fewer_roots) | (cx->sources[index].loop ? ROOT_ITEM : 0) |
                 cx->more_roots,
        .step = index,
        .steps = compensation ? STEPS_BEFORE_AND_OWN : STEPS_BEFORE,
        .guarded = node_get_pair(cx->sources[index].node, "if") != NULL,
    };
}

/* --- which keys belong together --- */

const struct pair *action_kind_find(const struct node *node)
{
    for (uint32_t i = 0; node && node->kind == NODE_MAP && i < node->count; i++) {
        const struct lang_key *key = lang_key_find(LANG_ACTION, node->pairs[i].key->text);
        if (key && key->flags & LANG_KIND)
            return &node->pairs[i];
    }
    return NULL;
}

static void one_kind_check(struct compiler *cx, const struct node *node, const struct pair *first)
{
    const struct lang_key *kind = lang_key_find(LANG_ACTION, first->key->text);
    for (uint32_t i = 0; i < node->count; i++) {
        const struct pair *pair = &node->pairs[i];
        const struct lang_key *key = lang_key_find(LANG_ACTION, pair->key->text);
        if (!key || pair == first || key->flags & LANG_PLANNED)
            continue;
        if (key->flags & LANG_KIND) {
            struct diag *diag =
                node_error(cx, "E110", pair->key, "one action only: this is a second one");
            struct place place = doc_node_place(cx->doc, first->key);
            diag->other_line = place.line;
            diag->other_column = place.column;
        } else if (key->kinds && kind->kinds && !strstr(key->kinds, kind->kinds)) {
            struct diag *diag = node_error(cx, "E111", pair->key, "`%s` does not belong to a `%s`",
                                           key->name, kind->name);
            if (strcmp(kind->name, "wait_for") == 0 && strcmp(key->name, "outcomes") == 0)
                diag_help(cx->diags, diag,
                          "a signal is data: let a later step look at it, or its `if`");
        }
    }
}

/* --- HTTP --- */

static bool is_path_char(char c)
{
    return ascii_is_alpha(c) || ascii_is_digit(c) || (c && strchr("-._~!$&'()*+,;=:@/", c));
}

static void path_char_error(struct compiler *cx, const struct node *node, size_t at, char c)
{
    struct place place = text_place(cx, node, at, at + 1);
    struct diag *diag;
    if (c == '?') {
        diag = cx_error(cx, "E117", place, "the query does not stand in the path");
        diag_help(cx->diags, diag, "write `query: {name: value}` beside it");
    } else if (c == '#') {
        cx_error(cx, "E117", place, "a path has no fragment");
    } else if (c == '%') {
        diag = cx_error(cx, "E117", place, "`%%` must be followed by two hex digits");
        diag_help(cx->diags, diag, "values in `${{ }}` are encoded by the engine");
    } else {
        cx_error(cx, "E117", place, "this character cannot stand in a path");
    }
}

/* The author's own part of a path: what a URL cannot hold is refused, other scripts are encoded.
 * `at` is where it stands in the node's text. */
static struct str path_text(struct compiler *cx, const struct node *node, size_t at,
                            struct str text)
{
    struct buf out = {0};
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (is_path_char(c) || (c == '%' && i + 2 < text.len && ascii_is_hex(text.ptr[i + 1]) &&
                                ascii_is_hex(text.ptr[i + 2])))
            buf_add_char(&out, c);
        else if ((unsigned char)c >= 0x80)
            uri_encode((struct str){&c, 1}, &out);
        else
            path_char_error(cx, node, at + i, c);
    }
    struct str path = arena_str(cx->arena, buf_str(&out));
    buf_free(&out);
    return path;
}

/* Segments that the author wrote: an empty or dot one addresses something else. */
static void path_segments_check(struct compiler *cx, const struct node *node, size_t from)
{
    struct str text = node->text;
    size_t start, end, at = from;
    bool more = template_hole_find(text, at, &start, &end);
    while (at < text.len) {
        size_t stop = at + 1;
        bool hole = false;
        while (stop < text.len && text.ptr[stop] != '/') {
            if (more && start == stop) {
                hole = true;
                stop = end + 2;
                more = template_hole_find(text, stop, &start, &end);
            } else {
                stop++;
            }
        }
        struct str segment = {text.ptr + at + 1, stop - at - 1};
        if (!hole && ((segment.len == 0 && stop < text.len) || str_eq(segment, STR(".")) ||
                      str_eq(segment, STR(".."))))
            cx_error(cx, "E117", text_place(cx, node, at, stop),
                     "a path has no empty or dot segments");
        at = stop;
    }
}

static const struct template *path_compile(struct compiler *cx, const struct node *node,
                                           size_t from, const struct expr_rules *rules)
{
    const struct template *text = text_compile_from(cx, node, from, rules);
    struct template *made = arena_new(cx->arena, struct template);
    struct template_part *parts = arena_array(cx->arena, struct template_part, text->count);
    size_t at = from, start, end;
    path_segments_check(cx, node, from);
    for (uint32_t i = 0; i < text->count; i++) {
        bool more = template_hole_find(node->text, at, &start, &end);
        size_t stop = more ? start : node->text.len;
        parts[i].expr = text->parts[i].expr;
        parts[i].text = path_text(cx, node, at, (struct str){node->text.ptr + at, stop - at});
        at = more ? end + 2 : stop;
    }
    if (text->count == 1)
        return literal_template(cx, json_string(cx->arena, parts[0].text));
    *made = (struct template){
        .kind = TEMPLATE_TEXT, .is_path = true, .count = text->count, .parts = parts};
    return made;
}

static void address_help(struct compiler *cx, const struct node *node, const char *help)
{
    struct diag *diag = node_error(cx, "E117", node, "an address is written SERVICE/PATH");
    diag_help(cx->diags, diag, "%s", help);
}

/* Without a daemon to ask, its configuration may have the address. */
static void url_missing_warn(struct compiler *cx, const struct node *node, uint16_t service)
{
    if (!cx->options || service == PLAN_SERVICE_NONE || cx->services[service].url)
        return;
    node_warning(cx, "W207", node,
                 "service `%s` has no `url`, neither here nor in the daemon's configuration",
                 cx->services[service].name);
}

/* SERVICE/PATH; the service is fixed, so no value can send the request elsewhere. */
static void address_compile(struct compiler *cx, const struct node *node,
                            const struct expr_rules *rules, struct plan_action *out)
{
    struct str text = node->text;
    size_t start, end, slash = 0;
    out->service = PLAN_SERVICE_NONE;
    if (node->kind != NODE_TEXT) {
        node_error(cx, "E103", node, "an address must be text, not %s", node_kind_name(node));
        return;
    }
    while (slash < text.len && text.ptr[slash] != '/')
        slash++;
    if (template_hole_find(text, 0, &start, &end) && start < slash) {
        struct diag *diag = cx_error(cx, "E127", text_place(cx, node, start, end + 2),
                                     "the service of an action is fixed");
        diag_help(cx->diags, diag, "only services named in the file are reached");
    } else if (memmem(text.ptr, text.len, "://", 3)) {
        address_help(cx, node, "name the host under `services`: {shop: {url: \"https://...\"}}");
    } else if (slash == 0) {
        address_help(cx, node, "name the service first: `payments/charges`");
    } else if (slash == text.len) {
        address_help(cx, node, "a path follows the service's name: `payments/charges`");
    } else {
        out->service = service_find(cx, node, (struct str){text.ptr, slash}, 0);
        url_missing_warn(cx, node, out->service);
        out->http.path = path_compile(cx, node, slash, rules);
    }
}

static void body_compile(struct compiler *cx, const struct node *node, uint16_t index,
                         bool compensation, struct plan_action *out)
{
    const struct pair *body = node_get_pair(node, "body"), *form = node_get_pair(node, "form"),
                      *text = node_get_pair(node, "text");
    const struct pair *first = body ? body : form ? form : text;
    struct expr_rules rules = action_rules(cx, index, compensation, "`body`");
    const struct pair *all[] = {body, form, text};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (all[i] && all[i] != first)
            node_error(cx, "E112", all[i]->key, "a request has one of `body`, `form` and `text`");
    if (first && out->http.method == HTTP_GET)
        node_error(cx, "E111", first->key, "`" STR_FMT "` does not belong to a `get`",
                   STR_ARG(first->key->text));
    if (body) {
        rules.omit = true;
        out->http.body_kind = BODY_JSON;
        out->http.body = template_compile(cx, body->value, &rules);
    }
    if (form) {
        rules.where = "`form`";
        rules.omit = true;
        out->http.body_kind = BODY_FORM;
        out->http.form_count = named_compile(cx, form->value, "`form`", &rules, &out->http.form);
    }
    if (text) {
        rules.where = "`text`";
        rules.omit = false;
        out->http.body_kind = BODY_TEXT;
        out->http.body = text_template_compile(cx, text->value, &rules);
    }
}

/* Whether the key can be put into the body; one that is all template may become an object. */
static bool body_is_object(const struct plan_action *action)
{
    return action->http.body_kind == BODY_JSON &&
           (action->http.body->kind == TEMPLATE_OBJECT || action->http.body->kind == TEMPLATE_EXPR);
}

static void http_idempotency_compile(struct compiler *cx, const struct node *node,
                                     struct plan_action *out)
{
    const struct node *own = node_get(node, "idempotency");
    if (own)
        idempotency_compile(cx, own, &out->idempotency);
    else if (out->service != PLAN_SERVICE_NONE)
        out->idempotency = cx->services[out->service].idempotency;
    if (out->idempotency.place != KEY_PLACE_BODY || body_is_object(out))
        return;
    if (own)
        node_error(cx, "E119", own, "the key goes into the body, but that is no JSON object");
    /* The service takes keys in bodies only, and this request has none: it cannot honour one. */
    out->idempotency = (struct plan_idempotency){.place = KEY_PLACE_NONE};
}

static void http_compile(struct compiler *cx, const struct node *node, const struct pair *kind,
                         uint16_t index, bool compensation, struct plan_action *out)
{
    struct expr_rules rules = action_rules(cx, index, compensation, "the path");
    const struct node *part;
    for (int i = HTTP_GET; i <= HTTP_DELETE; i++)
        if (str_eq_z(kind->key->text, http_method_name((enum http_method)i)))
            out->http.method = (enum http_method)i;
    address_compile(cx, kind->value, &rules, out);
    rules.omit = true;
    rules.where = "`query`";
    out->http.query_count =
        named_compile(cx, node_get(node, "query"), "`query`", &rules, &out->http.query);
    if ((part = node_get(node, "headers"))) {
        rules.where = "`headers`";
        rules.roots |= ROOT_SECRETS;
        headers_check(cx, part);
        out->http.headers_count = named_compile(cx, part, "`headers`", &rules, &out->http.headers);
    }
    body_compile(cx, node, index, compensation, out);
    http_idempotency_compile(cx, node, out);
    const struct plan_service *service =
        out->service == PLAN_SERVICE_NONE ? NULL : &cx->services[out->service];
    if (service && service->url && strncmp(service->url, "http", 4) != 0)
        node_error(cx, "E116", kind->value, "service `%s` is a database, not an HTTP service",
                   service->name);
}

/* --- SQL --- */

struct sql_scan {
    unsigned params; /* the highest $n */
    size_t second;   /* where a second statement starts, 0: none */
};

static size_t dollar_quote_skip(struct str sql, size_t at)
{
    size_t stop = at + 1;
    while (stop < sql.len && sql.ptr[stop] != '$' &&
           (sql.ptr[stop] == '_' || ascii_is_alpha(sql.ptr[stop]) ||
            (stop > at + 1 && ascii_is_digit(sql.ptr[stop]))))
        stop++;
    if (stop >= sql.len || sql.ptr[stop] != '$')
        return at + 1;
    size_t tag = stop + 1 - at;
    const char *close = memmem(sql.ptr + stop + 1, sql.len - stop - 1, sql.ptr + at, tag);
    return close ? (size_t)(close - sql.ptr) + tag : sql.len;
}

/* The end of the quoted text or comment at `at`, or `at` if there is none. */
static size_t sql_quote_skip(struct str sql, size_t at)
{
    char c = sql.ptr[at], next = at + 1 < sql.len ? sql.ptr[at + 1] : '\0';
    if (c == '\'' || c == '"') {
        bool escapes = c == '\'' && at > 0 && ascii_lower(sql.ptr[at - 1]) == 'e';
        for (at++; at < sql.len && sql.ptr[at] != c; at++)
            at += escapes && sql.ptr[at] == '\\';
        return MIN(at + 1, sql.len);
    }
    if (c == '-' && next == '-') {
        while (at < sql.len && sql.ptr[at] != '\n')
            at++;
        return at;
    }
    if (c == '/' && next == '*') {
        const char *close = memmem(sql.ptr + at + 2, sql.len - at - 2, "*/", 2);
        return close ? (size_t)(close - sql.ptr) + 2 : sql.len;
    }
    if (c == '$' && !(next >= '0' && next <= '9')) {
        size_t end = dollar_quote_skip(sql, at);
        return end == at + 1 ? at : end;
    }
    return at;
}

static struct sql_scan sql_scan(struct str sql)
{
    struct sql_scan scan = {0};
    bool ended = false;
    for (size_t at = 0; at < sql.len;) {
        size_t skipped = sql_quote_skip(sql, at);
        char c = sql.ptr[at];
        if (ended && skipped == at && !strchr(" \t\r\n;", c) && !scan.second)
            scan.second = at;
        if (skipped > at) {
            at = skipped;
            continue;
        }
        if (c == ';')
            ended = true;
        at++;
        if (c != '$')
            continue;
        unsigned number = 0;
        while (at < sql.len && sql.ptr[at] >= '0' && sql.ptr[at] <= '9' && number < 100000)
            number = number * 10 + (unsigned)(sql.ptr[at++] - '0');
        scan.params = MAX(scan.params, number);
    }
    return scan;
}

static void sql_check(struct compiler *cx, const struct node *node, struct str sql,
                      const struct node *params, uint32_t count)
{
    static const char *const words[] = {"begin", "commit", "rollback",  "abort",
                                        "start", "end",    "savepoint", "prepare"};
    struct sql_scan scan = sql_scan(sql);
    size_t start = 0, len = 0;
    while (start < sql.len && strchr(" \t\r\n", sql.ptr[start]))
        start++;
    while (start + len < sql.len && ascii_is_alpha(sql.ptr[start + len]))
        len++;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (len == strlen(words[i]) && strncasecmp(sql.ptr + start, words[i], len) == 0)
            node_error(cx, "E120", node, "the engine begins and ends the transaction itself");
    if (scan.second)
        cx_error(cx, "E120", text_place(cx, node, scan.second, scan.second + 1),
                 "one statement only: a second one starts here");
    if (scan.params > count)
        node_error(cx, "E120", node, "the statement uses $%u, but `params` has %u value%s",
                   scan.params, count, count == 1 ? "" : "s");
    else if (scan.params < count)
        node_error(cx, "E120", params, "`params` has %u value%s, but the statement uses %s%.0u",
                   count, count == 1 ? "" : "s", scan.params ? "only up to $" : "none",
                   scan.params);
}

static uint16_t templates_compile(struct compiler *cx, const struct node *node, const char *what,
                                  const struct expr_rules *rules, bool scalars,
                                  const struct template *const **out)
{
    if (!node || !node_is_list(cx, node, what))
        return 0;
    const struct template **list =
        (const struct template **)arena_alloc_array(cx->arena, node->count, sizeof(*list));
    for (uint32_t i = 0; i < node->count; i++)
        list[i] = scalars ? text_template_compile(cx, node->items[i], rules)
                          : template_compile(cx, node->items[i], rules);
    *out = list;
    return (uint16_t)node->count;
}

static void sql_compile(struct compiler *cx, const struct node *node, const struct pair *kind,
                        uint16_t index, bool compensation, struct plan_action *out)
{
    struct expr_rules rules = action_rules(cx, index, compensation, "`params`");
    const struct node *params = node_get(node, "params"), *service = node_get(node, "service");
    struct str sql, name;
    out->service = PLAN_SERVICE_NONE;
    out->sql.params_count =
        templates_compile(cx, params, "`params`", &rules, false, &out->sql.params);
    uint32_t said = cx->diags->count;
    if (read_text(cx, kind->value, "`sql`", &sql)) {
        out->sql.statement = sql.ptr;
        if (sql.len == 0)
            node_error(cx, "E103", kind->value, "the statement is empty");
        else
            sql_check(cx, kind->value, sql, params ? params : kind->value, out->sql.params_count);
    } else if (kind->value->kind == NODE_TEXT && cx->diags->count > said) {
        diag_help(cx->diags, &cx->diags->list[said],
                  "values are bound: `sql: \"... $1\"` with `params: [\"${{ input.x }}\"]`");
    }
    if (!service || !read_text(cx, service, "`service`", &name))
        return;
    out->service = service_find(cx, service, name, 0);
    if (out->service == PLAN_SERVICE_NONE)
        return;
    url_missing_warn(cx, service, out->service);
    const char *url = cx->services[out->service].url;
    if (url && strncmp(url, "http", 4) == 0)
        node_error(cx, "E116", service, "service `" STR_FMT "` is not a database", STR_ARG(name));
    else if (url)
        out->idempotency = cx->services[out->service].idempotency;
}

/* --- exec --- */

static bool is_shell(struct str program)
{
    static const char *const shells[] = {"sh", "bash", "dash", "zsh", "ksh", "fish", "busybox"};
    const char *slash = memrchr(program.ptr, '/', program.len);
    struct str name = slash ? str_z(slash + 1) : program;
    for (size_t i = 0; i < ARRAY_LEN(shells); i++)
        if (str_eq_z(name, shells[i]))
            return true;
    return false;
}

static void shell_warn(struct compiler *cx, const struct node *argv)
{
    size_t start, end;
    if (argv->count < 3 || !is_shell(argv->items[0]->text) ||
        !str_starts(argv->items[1]->text, STR("-")))
        return;
    for (uint32_t i = 2; i < argv->count && i < 3; i++)
        if (template_hole_find(argv->items[i]->text, 0, &start, &end)) {
            struct diag *diag =
                cx_warning(cx, "W204", text_place(cx, argv->items[i], start, end + 2),
                           "the shell would run whatever this value says");
            diag_help(cx->diags, diag, "pass it in `env`, or as an argument after the script");
        }
}

static void env_names_check(struct compiler *cx, const struct node *env)
{
    for (uint32_t i = 0; env && env->kind == NODE_MAP && i < env->count; i++) {
        struct str name = env->pairs[i].key->text;
        bool ok = name.len > 0 && !(name.ptr[0] >= '0' && name.ptr[0] <= '9');
        for (size_t j = 0; j < name.len; j++)
            ok = ok &&
                 (ascii_is_alpha(name.ptr[j]) || ascii_is_digit(name.ptr[j]) || name.ptr[j] == '_');
        if (!ok)
            node_error(cx, "E106", env->pairs[i].key,
                       "`" STR_FMT "` cannot be the name of an environment entry", STR_ARG(name));
        else if (str_starts(name, STR("SAGA_")))
            node_error(cx, "E121", env->pairs[i].key, "the engine sets `" STR_FMT "` itself",
                       STR_ARG(name));
    }
}

static void exec_compile(struct compiler *cx, const struct node *node, const struct pair *kind,
                         uint16_t index, bool compensation, struct plan_action *out)
{
    struct expr_rules rules = action_rules(cx, index, compensation, "`exec`");
    const struct node *argv = kind->value, *env = node_get(node, "env"),
                      *input = node_get(node, "stdin");
    size_t start, end;
    out->service = PLAN_SERVICE_NONE;
    if (argv->kind == NODE_TEXT) {
        struct diag *diag = node_error(cx, "E103", argv, "`exec` is a list, not a command line");
        diag_help(cx->diags, diag, "write `exec: [program, argument, ...]`; there is no shell");
        return;
    }
    out->exec.argv_count = templates_compile(cx, argv, "`exec`", &rules, true, &out->exec.argv);
    if (argv->kind == NODE_LIST && !argv->count)
        node_error(cx, "E103", argv, "`exec` needs at least the program");
    if (out->exec.argv_count && template_hole_find(argv->items[0]->text, 0, &start, &end))
        cx_error(cx, "E127", text_place(cx, argv->items[0], start, end + 2),
                 "the program is fixed: it cannot hold a template");
    if (out->exec.argv_count)
        shell_warn(cx, argv);
    rules.where = "`stdin`";
    if (input)
        out->exec.stdin_body = template_compile(cx, input, &rules);
    rules.where = "`env`";
    rules.omit = true;
    rules.roots |= ROOT_SECRETS;
    env_names_check(cx, env);
    out->exec.env_count = named_compile(cx, env, "`env`", &rules, &out->exec.env);
}

/* --- all kinds --- */

static enum effect_tier effect_default(const struct plan_action *action, bool compensation)
{
    bool get = action->kind == ACTION_HTTP && action->http.method == HTTP_GET;
    bool repeatable = action->kind == ACTION_HTTP &&
                      (action->http.method == HTTP_DELETE || action->http.method == HTTP_PUT);
    if (compensation)
        return repeatable ? EFFECT_IDEMPOTENT : EFFECT_COMPENSABLE;
    return get || action_kind_waits(action->kind) ? EFFECT_PURE : EFFECT_COMPENSABLE;
}

const struct shape *response_shape(const struct plan_action *action)
{
    return action->kind == ACTION_HTTP     ? response_of_http
           : action->kind == ACTION_SQL    ? response_of_sql
           : action->kind == ACTION_WORKER ? response_of_worker
                                           : response_of_exec;
}

/* The action's own rules, then its service's. */
static void rules_join(struct compiler *cx, const struct node *node, uint16_t index,
                       bool compensation, struct plan_action *out)
{
    struct expr_rules rules = action_rules(cx, index, compensation, "`outcomes`");
    const struct node *own = node_get(node, "outcomes");
    const struct plan_service *service =
        out->service == PLAN_SERVICE_NONE ? NULL : &cx->services[out->service];
    uint32_t count = own && own->kind == NODE_LIST ? own->count : 0;
    rules.roots |= ROOT_RESPONSE;
    rules.response = response_shape(out);
    struct plan_outcome_rule *list = arena_array(cx->arena, struct plan_outcome_rule,
                                                 count + (service ? service->outcomes_count : 0));
    out->outcomes_count = outcomes_compile(cx, own, &rules, list);
    for (uint16_t i = 0; service && i < service->outcomes_count; i++)
        list[out->outcomes_count++] = service->outcomes[i];
    out->outcomes = list;
}

static void timeout_resolve(struct compiler *cx, const struct node *compensate, uint16_t index,
                            struct plan_action *out)
{
    const struct node *own = compensate ? node_get(compensate, "timeout") : NULL;
    const struct node *step = node_get(cx->sources[index].node, "timeout");
    bool patient = out->kind == ACTION_WAIT_FOR || out->kind == ACTION_CHILD;
    int64_t us = 0;
    if (own)
        read_duration(cx, own, "`timeout`", MS_US, &us);
    else if (step)
        read_duration(cx, step, "`timeout`", MS_US, &us);
    else if (out->service != PLAN_SERVICE_NONE)
        us = cx->services[out->service].timeout_us;
    out->timeout_us = us || patient ? us : cx->timeout_us;
}

static void effect_read(struct compiler *cx, const struct node *node, enum lang_group group,
                        bool compensation, struct plan_action *out)
{
    int effect = 0;
    if (node && read_choice(cx, node, group, "effect", effect_word, &effect))
        out->effect = (enum effect_tier)effect;
    else
        out->effect = effect_default(out, compensation);
}

static enum action_kind kind_of(const struct lang_key *key)
{
    for (int kind = ACTION_HTTP; kind <= ACTION_WAIT_FOR; kind++)
        if (strcmp(key->kinds, action_kind_name((enum action_kind)kind)) == 0)
            return (enum action_kind)kind;
    return ACTION_NONE;
}

void action_compile(struct compiler *cx, const struct node *node, uint16_t index, bool compensation,
                    struct plan_action *out)
{
    const struct pair *kind = action_kind_find(node);
    const struct lang_key *key = kind ? lang_key_find(LANG_ACTION, kind->key->text) : NULL;
    const struct node *step = cx->sources[index].node, *tolerant;
    *out = (struct plan_action){.service = PLAN_SERVICE_NONE};
    if (!kind) {
        struct diag *diag = node_error(cx, "E110", node, "%s needs one kind of action",
                                       compensation ? "`compensate`" : "`action`");
        diag_help(cx->diags, diag, "one of: get, post, put, patch, delete, sql, exec, worker%s",
                  compensation ? "; or `none: \"why there is nothing to undo\"`"
                               : ", child, sleep, until, wait_for");
        return;
    }
    one_kind_check(cx, node, kind);
    if (key->flags & LANG_PLANNED)
        return; /* said by keys_check */
    out->line = doc_line(cx->doc, kind->key->start);
    out->kind = kind_of(key);
    switch (out->kind) {
    case ACTION_HTTP: http_compile(cx, node, kind, index, compensation, out); break;
    case ACTION_SQL: sql_compile(cx, node, kind, index, compensation, out); break;
    case ACTION_EXEC: exec_compile(cx, node, kind, index, compensation, out); break;
    case ACTION_WORKER: worker_compile(cx, node, kind, index, compensation, out); break;
    case ACTION_CHILD: child_compile(cx, node, kind, index, compensation, out); break;
    case ACTION_SLEEP: sleep_compile(cx, kind, index, compensation, out); break;
    case ACTION_UNTIL: until_compile(cx, kind, index, compensation, out); break;
    case ACTION_WAIT_FOR: wait_for_compile(cx, node, kind, index, out); break;
    case ACTION_NONE: break;
    }
    if (!action_kind_waits(out->kind) && out->kind != ACTION_CHILD)
        rules_join(cx, node, index, compensation, out);
    if (out->kind != ACTION_SLEEP && out->kind != ACTION_UNTIL)
        timeout_resolve(cx, compensation ? node : NULL, index, out);
    effect_read(cx, node_get(compensation ? node : step, "effect"),
                compensation ? LANG_COMPENSATE : LANG_STEP, compensation, out);
    if (compensation && (tolerant = node_get(node, "tolerant")))
        read_boolean(cx, tolerant, "`tolerant`", &out->tolerant);
}

/* What has no effect of its own: it carries no key. */
static void keyless_finish(struct compiler *cx, struct plan_action *out)
{
    out->effect = EFFECT_PURE;
    out->idempotency = (struct plan_idempotency){.place = KEY_PLACE_NONE};
    out->timeout_us = out->service == PLAN_SERVICE_NONE ? 0 : cx->services[out->service].timeout_us;
    if (!out->timeout_us)
        out->timeout_us = cx->timeout_us;
}

bool read_compile(struct compiler *cx, const struct node *node, uint16_t index, bool compensation,
                  struct plan_action *out)
{
    const struct pair *kind = action_kind_find(node);
    const struct lang_key *key = kind ? lang_key_find(LANG_RECONCILE, kind->key->text) : NULL;
    *out = (struct plan_action){.service = PLAN_SERVICE_NONE};
    if (!kind)
        node_error(cx, "E110", node, "`reconcile` needs one read: `get`, `sql` or `exec`");
    if (!key)
        return false; /* no read: said by keys_check */
    uint32_t errors = cx->diags->errors;
    one_kind_check(cx, node, kind);
    out->line = doc_line(cx->doc, kind->key->start);
    out->kind = kind_of(lang_key_find(LANG_ACTION, kind->key->text));
    if (out->kind == ACTION_HTTP)
        http_compile(cx, node, kind, index, compensation, out);
    else if (out->kind == ACTION_SQL)
        sql_compile(cx, node, kind, index, compensation, out);
    else
        exec_compile(cx, node, kind, index, compensation, out);
    keyless_finish(cx, out);
    return cx->diags->errors == errors;
}

bool show_compile(struct compiler *cx, const struct node *node, const struct pair *kind,
                  uint16_t index, struct plan_action *out)
{
    uint32_t errors = cx->diags->errors;
    *out = (struct plan_action){.kind = ACTION_HTTP,
                                .service = PLAN_SERVICE_NONE,
                                .line = doc_line(cx->doc, kind->key->start)};
    one_kind_check(cx, node, kind);
    http_compile(cx, node, kind, index, false, out);
    keyless_finish(cx, out);
    return cx->diags->errors == errors;
}
