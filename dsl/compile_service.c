/*
 * compile_service.c: `services`, and what services and actions share: idempotency, outcomes,
 * headers, retry.
 */
#include "dsl/compiler.h"

#include "dsl/services.h"
#include "engine/base/ascii.h"
#include "engine/base/decimal.h"

#define SERVICES_MAX 500

static const char *format_word(int value)
{
    static const char *const words[] = {"", "plain", "uuid", "sha256"};
    return (size_t)value < ARRAY_LEN(words) ? words[value] : "";
}

static const char *stored_failure_word(int value)
{
    static const char *const words[] = {"", "same", "next"};
    return (size_t)value < ARRAY_LEN(words) ? words[value] : "";
}

static const char *outcome_word(int value)
{
    return value <= OUTCOME_CONFLICT ? outcome_name((enum outcome)value) : "";
}

/* --- headers and other named templates --- */

static bool is_token(struct str name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (!ascii_is_alpha(c) && !ascii_is_digit(c) && !(c && strchr("!#$%&'*+-.^_`|~", c)))
            return false;
    }
    return name.len > 0 && name.len <= 256;
}

static bool equal_ignoring_case(struct str text, const char *word)
{
    size_t i;
    for (i = 0; i < text.len && word[i]; i++)
        if (ascii_lower(text.ptr[i]) != ascii_lower(word[i]))
            return false;
    return i == text.len && !word[i];
}

/* The engine sets these; a second one would contradict it. */
static bool is_reserved(struct str name)
{
    static const char *const reserved[] = {
        "host",    "content-length", "transfer-encoding", "connection",  "expect",    "te",
        "trailer", "upgrade",        "keep-alive",        "traceparent", "tracestate"};
    for (size_t i = 0; i < ARRAY_LEN(reserved); i++)
        if (equal_ignoring_case(name, reserved[i]))
            return true;
    return name.len > 5 && equal_ignoring_case((struct str){name.ptr, 5}, "saga-");
}

static void duplicate_header_check(struct compiler *cx, const struct node *node, uint32_t i)
{
    const struct node *key = node->pairs[i].key;
    for (uint32_t j = 0; j < i && i < 200; j++) {
        const struct node *other = node->pairs[j].key;
        if (str_eq(key->text, other->text) ||
            !equal_ignoring_case(key->text, arena_str(cx->scratch, other->text).ptr))
            continue;
        struct place place = doc_node_place(cx->doc, other);
        struct diag *diag =
            node_error(cx, "E003", key, "duplicate header `" STR_FMT "`", STR_ARG(key->text));
        diag->other_line = place.line;
        diag->other_column = place.column;
    }
}

static bool has_control(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (((unsigned char)text.ptr[i] < 0x20 && text.ptr[i] != '\t') || text.ptr[i] == 0x7F)
            return true;
    return false;
}

void headers_check(struct compiler *cx, const struct node *node)
{
    for (uint32_t i = 0; node->kind == NODE_MAP && i < node->count; i++) {
        const struct node *key = node->pairs[i].key;
        struct diag *diag;
        duplicate_header_check(cx, node, i);
        if (has_control(node->pairs[i].value->text))
            node_error(cx, "E115", node->pairs[i].value, "a header holds no control characters");
        if (!is_token(key->text)) {
            node_error(cx, "E115", key, "`" STR_FMT "` cannot be the name of a header",
                       STR_ARG(key->text));
        } else if (equal_ignoring_case(key->text, "idempotency-key")) {
            diag = node_error(cx, "E121", key,
                              "the engine sets `Idempotency-Key`, from durable "
                              "state");
            diag_help(cx->diags, diag, "say with `idempotency` how the service takes the key");
        } else if (is_reserved(key->text)) {
            node_error(cx, "E121", key, "the engine sets `" STR_FMT "` itself", STR_ARG(key->text));
        }
    }
}

static void literal_secret_warn(struct compiler *cx, const struct node *node,
                                const struct template *value)
{
    if (value->kind != TEMPLATE_LITERAL)
        return;
    struct diag *diag = node_warning(cx, "W206", node, "a secret would be stored with the file");
    diag_help(cx->diags, diag,
              "write `${{ secrets.NAME }}`, and the value into the daemon's "
              "configuration");
}

uint16_t named_compile(struct compiler *cx, const struct node *node, const char *what,
                       const struct expr_rules *rules, const struct plan_named **out)
{
    *out = NULL;
    if (!node || !node_is_map(cx, node, what))
        return 0;
    struct plan_named *named = arena_array(cx->arena, struct plan_named, node->count);
    for (uint32_t i = 0; i < node->count; i++) {
        const struct node *key = node->pairs[i].key;
        size_t start, end;
        if (template_hole_find(key->text, 0, &start, &end))
            node_error(cx, "E126", key, "a key cannot hold a template");
        named[i].name = cx_strdup(cx, key->text);
        named[i].value = text_template_compile(cx, node->pairs[i].value, rules);
        if (rules->roots & ROOT_SECRETS && equal_ignoring_case(key->text, "authorization"))
            literal_secret_warn(cx, node->pairs[i].value, named[i].value);
    }
    *out = named;
    return (uint16_t)node->count;
}

/* --- idempotency --- */

static bool is_pointer(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] == '~' &&
            (i + 1 >= text.len || (text.ptr[i + 1] != '0' && text.ptr[i + 1] != '1')))
            return false;
    return text.len > 1 && text.ptr[0] == '/';
}

static void key_place_compile(struct compiler *cx, const struct node *node,
                              struct plan_idempotency *out)
{
    static const struct {
        const char *name;
        enum key_place place;
    } places[] = {
        {"header", KEY_PLACE_HEADER}, {"query", KEY_PLACE_QUERY}, {"body", KEY_PLACE_BODY}};
    const struct node *first = NULL;
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        const struct pair *pair = node_get_pair(node, places[i].name);
        struct str text;
        if (!pair)
            continue;
        if (first) {
            node_error(cx, "E112", pair->key, "the key is passed in one place only");
            continue;
        }
        first = pair->key;
        if (!read_text(cx, pair->value, "the key's place", &text))
            continue;
        if (places[i].place == KEY_PLACE_HEADER && (!is_token(text) || is_reserved(text)))
            node_error(cx, "E115", pair->value, "`" STR_FMT "` cannot carry the key",
                       STR_ARG(text));
        if (places[i].place == KEY_PLACE_BODY && !is_pointer(text)) {
            struct diag *diag = node_error(cx, "E119", pair->value,
                                           "`" STR_FMT "` is no JSON pointer", STR_ARG(text));
            diag_help(cx->diags, diag, "it starts with a slash: `/idempotency_key`");
        }
        out->place = places[i].place;
        out->name = text.ptr;
    }
    if (!first)
        node_error(cx, "E102", node, "`idempotency` needs one of `header`, `query`, `body`");
}

void idempotency_compile(struct compiler *cx, const struct node *node, struct plan_idempotency *out)
{
    const struct node *part;
    int format, stored;
    *out = (struct plan_idempotency){.place = KEY_PLACE_NONE};
    if (node->kind == NODE_TEXT && str_eq(node->text, STR("none")))
        return;
    if (node->kind != NODE_MAP) {
        struct diag *diag = node_error(cx, "E103", node, "`idempotency` must be a map or `none`");
        diag_help(cx->diags, diag, "write {header: Idempotency-Key, ttl: 24h}");
        return;
    }
    if (!keys_check(cx, node, LANG_IDEMPOTENCY))
        return;
    key_place_compile(cx, node, out);
    if ((part = node_get(node, "format")) &&
        read_choice(cx, part, LANG_IDEMPOTENCY, "format", format_word, &format))
        out->format = (enum key_format)(format - 1);
    if ((part = node_get(node, "ttl")))
        read_duration(cx, part, "`ttl`", SECOND_US, &out->ttl_us);
    if ((part = node_get(node, "on_stored_failure")) &&
        read_choice(cx, part, LANG_IDEMPOTENCY, "on_stored_failure", stored_failure_word, &stored))
        out->forgets_failures = stored == 1;
    if ((part = node_get(node, "settle_after")))
        read_duration(cx, part, "`settle_after`", 0, &out->settle_after_us);
}

/* Of a database: its own saga_guard keeps the keys, so only for how long is to be said. */
static void guard_compile(struct compiler *cx, const struct node *node,
                          struct plan_idempotency *out)
{
    static const char *const others[] = {"header", "query", "body", "format"};
    const struct node *part;
    bool takes_key = node->kind != NODE_MAP;
    if (node->kind == NODE_TEXT && str_eq(node->text, STR("none")))
        return;
    for (size_t i = 0; i < ARRAY_LEN(others) && !takes_key; i++)
        takes_key = node_get(node, others[i]) != NULL;
    if (takes_key) {
        struct diag *diag = node_error(cx, "E111", node, "a database takes no idempotency key");
        diag_help(cx->diags, diag,
                  "where saga_guard is installed (`sagad guard --print`), write {ttl: 7d}");
        return;
    }
    if (!keys_check(cx, node, LANG_IDEMPOTENCY))
        return;
    if (!(part = node_get(node, "ttl"))) {
        node_error(cx, "E102", node, "`idempotency` of a database needs `ttl`");
        return;
    }
    out->place = KEY_PLACE_GUARD;
    read_duration(cx, part, "`ttl`", SECOND_US, &out->ttl_us);
    if ((part = node_get(node, "settle_after")))
        read_duration(cx, part, "`settle_after`", 0, &out->settle_after_us);
}

/* --- outcomes --- */

uint16_t outcomes_compile(struct compiler *cx, const struct node *node,
                          const struct expr_rules *rules, struct plan_outcome_rule *out)
{
    uint16_t count = 0;
    if (!node || !node_is_list(cx, node, "`outcomes`"))
        return 0;
    for (uint32_t i = 0; i < node->count; i++) {
        const struct node *rule = node->items[i], *when, *is;
        struct plan_outcome_rule made = {0};
        int outcome = 0;
        if (!keys_check(cx, rule, LANG_OUTCOME))
            continue;
        if ((when = node_get(rule, "when")))
            made.when = condition_compile(cx, when, rules);
        if ((is = node_get(rule, "is")) &&
            read_choice(cx, is, LANG_OUTCOME, "is", outcome_word, &outcome))
            made.is = (enum outcome)outcome;
        out[count++] = made;
    }
    return count;
}

/* --- retry --- */

/* "20%" or a whole number of percent */
void percent_read(struct compiler *cx, const struct node *node, const char *what, uint32_t *out)
{
    struct json number = {.kind = JSON_NUMBER, .text = node->text};
    int64_t percent;
    if (node->kind == NODE_TEXT && node->text.len > 1 && node->text.ptr[node->text.len - 1] == '%')
        number.text.len--;
    else if (node->kind != NODE_NUMBER || !str_eq(node->text, STR("0"))) {
        struct diag *diag = node_error(cx, "E109", node, "%s must be a percentage", what);
        diag_help(cx->diags, diag, "write `20%%`");
        return;
    }
    if (!json_to_int(&number, &percent) || percent < 0 || percent > 100)
        node_error(cx, "E109", node, "%s must be from 0%% to 100%%", what);
    else
        *out = (uint32_t)percent;
}

static void factor_read(struct compiler *cx, const struct node *node, uint32_t *out)
{
    struct err err;
    struct str milli;
    int64_t value;
    if (node->kind != NODE_NUMBER ||
        decimal_mul(node->text, STR("1000"), cx->scratch, &milli, &err) != 0 ||
        decimal_trunc(milli, &value, &err) != 0 || value < 1000 || value > 100000)
        node_error(cx, "E109", node, "`factor` must be a number from 1 to 100");
    else
        *out = (uint32_t)value;
}

void retry_compile(struct compiler *cx, const struct node *node, struct plan_retry *retry)
{
    const struct node *part;
    int64_t attempts;
    bool max_given = node_get(node, "max_delay") != NULL;
    if (node->kind == NODE_NUMBER) {
        struct diag *diag = node_error(cx, "E103", node, "%s must be a map, not a number",
                                       lang_group_title(LANG_RETRY));
        diag_help(cx->diags, diag, "write `{attempts: " STR_FMT "}`", STR_ARG(node->text));
        return;
    }
    if (!keys_check(cx, node, LANG_RETRY))
        return;
    if ((part = node_get(node, "attempts")) &&
        read_integer(cx, part, "`attempts`", 1, 1000, &attempts))
        retry->attempts = (uint32_t)attempts;
    if ((part = node_get(node, "delay")))
        read_duration(cx, part, "`delay`", MS_US, &retry->delay_us);
    if ((part = node_get(node, "factor")))
        factor_read(cx, part, &retry->factor_milli);
    if ((part = node_get(node, "max_delay")))
        read_duration(cx, part, "`max_delay`", MS_US, &retry->max_delay_us);
    if ((part = node_get(node, "jitter")))
        percent_read(cx, part, "`jitter`", &retry->jitter_percent);
    if ((part = node_get(node, "budget")))
        read_duration(cx, part, "`budget`", MS_US, &retry->budget_us);
    if (retry->max_delay_us >= retry->delay_us)
        return;
    if (max_given)
        node_error(cx, "E109", node_get(node, "max_delay"), "`max_delay` is shorter than `delay`");
    else
        retry->max_delay_us = retry->delay_us;
}

/* --- services --- */

/* A user in an HTTP address, or a password in any: the file is stored and shown. */
static bool has_secret(struct str authority, bool http)
{
    const char *at = memchr(authority.ptr, '@', authority.len);
    return at && (http || memchr(authority.ptr, ':', (size_t)(at - authority.ptr)));
}

/* The address is fixed and has a host; what else it may hold depends on its scheme. */
static bool url_check(struct compiler *cx, const struct node *node, struct str url)
{
    static const char *const schemes[] = {"http://", "https://", "postgres://", "postgresql://"};
    struct diag *diag;
    size_t i = 0;
    while (i < ARRAY_LEN(schemes) && !str_starts(url, str_z(schemes[i])))
        i++;
    if (i == ARRAY_LEN(schemes)) {
        diag =
            node_error(cx, "E114", node, "`" STR_FMT "` is no address of a service", STR_ARG(url));
        diag_help(cx->diags, diag, "it starts with http://, https:// or postgres://");
        return false;
    }
    bool http = i < 2;
    size_t scheme = strlen(schemes[i]);
    struct str rest = {url.ptr + scheme, url.len - scheme};
    struct str authority = {rest.ptr, strcspn(rest.ptr, "/?#")};
    if (!authority.len || memchr(rest.ptr, ' ', rest.len)) {
        node_error(cx, "E114", node, "the address has no host");
    } else if (has_secret(authority, http)) {
        diag = node_error(cx, "E210", node, "the address holds a user or password");
        diag_help(cx->diags, diag,
                  "use `auth: {basic: {user: ..., password: \"${{ secrets.NAME }}\"}}`");
    } else if (http && (memchr(rest.ptr, '?', rest.len) || memchr(rest.ptr, '#', rest.len))) {
        node_error(cx, "E114", node, "the address of a service has no query or fragment");
    } else {
        return true;
    }
    return false;
}

static void url_compile(struct compiler *cx, const struct node *node, struct plan_service *service)
{
    struct str url;
    if (!node || !read_text(cx, node, "`url`", &url) || !url_check(cx, node, url))
        return;
    while (url.len && url.ptr[url.len - 1] == '/')
        url.len--;
    service->url = cx_strdup(cx, url);
}

static void basic_compile(struct compiler *cx, const struct node *node,
                          const struct expr_rules *rules, struct plan_service *service)
{
    const struct node *user = node_get(node, "user"), *password = node_get(node, "password");
    if (!keys_check(cx, node, LANG_BASIC) || !user || !password)
        return;
    service->auth = AUTH_BASIC;
    service->auth_user = text_template_compile(cx, user, rules);
    service->auth_secret = text_template_compile(cx, password, rules);
    literal_secret_warn(cx, password, service->auth_secret);
}

static void oauth2_compile(struct compiler *cx, const struct node *node,
                           const struct expr_rules *rules, struct plan_service *service)
{
    const struct node *url = node_get(node, "token_url"), *id = node_get(node, "client_id"),
                      *secret = node_get(node, "client_secret"), *scope = node_get(node, "scope");
    struct str text;
    if (!keys_check(cx, node, LANG_OAUTH2) || !url || !id || !secret)
        return;
    service->auth = AUTH_OAUTH2;
    if (read_text(cx, url, "`token_url`", &text) && url_check(cx, url, text)) {
        if (!str_starts(text, STR("http")))
            node_error(cx, "E114", url, "tokens are fetched by HTTP");
        service->auth_token_url = text.ptr;
    }
    service->auth_user = text_template_compile(cx, id, rules);
    service->auth_secret = text_template_compile(cx, secret, rules);
    literal_secret_warn(cx, secret, service->auth_secret);
    if (scope && read_text(cx, scope, "`scope`", &text))
        service->auth_scope = text.ptr;
}

static void auth_compile(struct compiler *cx, const struct node *node, struct plan_service *service)
{
    const struct expr_rules rules = {
        .where = "`auth`",
        .roots = ROOT_INPUT | ROOT_RUN | ROOT_ENV | ROOT_SECRETS,
        .step = PLAN_STEP_NONE,
    };
    /* A token is kept for all runs, so it depends on none. */
    struct expr_rules shared = rules;
    shared.where = "`oauth2`";
    shared.roots = ROOT_ENV | ROOT_SECRETS;
    if (!node || !keys_check(cx, node, LANG_AUTH))
        return;
    const struct node *bearer = node_get(node, "bearer"), *basic = node_get(node, "basic"),
                      *oauth2 = node_get(node, "oauth2");
    unsigned ways = (bearer != NULL) + (basic != NULL) + (oauth2 != NULL);
    if (ways > 1)
        node_error(cx, "E112", node, "`auth` is one of `bearer`, `basic`, `oauth2`");
    else if (!ways && node->count == 0)
        node_error(cx, "E102", node, "`auth` needs `bearer`, `basic` or `oauth2`");
    if (bearer) {
        service->auth = AUTH_BEARER;
        service->auth_secret = text_template_compile(cx, bearer, &rules);
        literal_secret_warn(cx, bearer, service->auth_secret);
    }
    if (basic)
        basic_compile(cx, basic, &rules, service);
    if (oauth2)
        oauth2_compile(cx, oauth2, &shared, service);
}

/* The secret is the same for all runs: a service knows one. */
static void sign_compile(struct compiler *cx, const struct node *node, struct plan_service *service)
{
    const struct expr_rules rules = {
        .where = "`sign`", .roots = ROOT_ENV | ROOT_SECRETS, .step = PLAN_STEP_NONE};
    const struct node *secret = node ? node_get(node, "hmac") : NULL;
    if (!node || !keys_check(cx, node, LANG_SIGN) || !secret)
        return;
    if (service->url && strncmp(service->url, "http", 4) != 0)
        node_error(cx, "E111", node, "a database takes no signature");
    service->sign_secret = text_template_compile(cx, secret, &rules);
    literal_secret_warn(cx, secret, service->sign_secret);
}

static const struct shape *service_response(const struct plan_service *service)
{
    if (!service->url)
        return NULL;
    return strncmp(service->url, "http", 4) == 0 ? response_of_http : response_of_sql;
}

static void service_compile(struct compiler *cx, const struct node *node,
                            struct plan_service *service)
{
    struct expr_rules rules = {
        .where = "`headers` of a service",
        .roots = ROOT_INPUT | ROOT_RUN | ROOT_KEY | ROOT_ENV | ROOT_SECRETS | ROOT_NOW,
        .step = PLAN_STEP_NONE,
        .omit = true,
    };
    const struct node *part, *outcomes = node_get(node, "outcomes");
    if (!keys_check(cx, node, LANG_SERVICE))
        return;
    url_compile(cx, node_get(node, "url"), service);
    if ((part = node_get(node, "headers"))) {
        headers_check(cx, part);
        service->headers_count = named_compile(cx, part, "`headers`", &rules, &service->headers);
    }
    auth_compile(cx, node_get(node, "auth"), service);
    sign_compile(cx, node_get(node, "sign"), service);
    if ((part = node_get(node, "idempotency"))) {
        if (service->url && strncmp(service->url, "http", 4) != 0)
            guard_compile(cx, part, &service->idempotency);
        else
            idempotency_compile(cx, part, &service->idempotency);
    }
    if ((part = node_get(node, "timeout")))
        read_duration(cx, part, "`timeout`", MS_US, &service->timeout_us);
    limits_compile(cx, node_get(node, "limits"), node_get(node, "breaker"), &service->limits);
    if (!outcomes)
        return;
    rules.where = "`outcomes` of a service";
    rules.roots = ROOT_INPUT | ROOT_RUN | ROOT_KEY | ROOT_ENV | ROOT_RESPONSE;
    rules.response = service_response(service);
    struct plan_outcome_rule *list =
        arena_array(cx->arena, struct plan_outcome_rule, outcomes->count);
    service->outcomes_count = outcomes_compile(cx, outcomes, &rules, list);
    service->outcomes = list;
}

static void names_check(struct compiler *cx, const struct node *node)
{
    for (uint32_t i = 0; node->kind == NODE_MAP && i < node->count; i++) {
        const struct node *key = node->pairs[i].key;
        if (!name_is_valid(key->text, true))
            node_error(cx, "E106", key,
                       "the name of a service is [a-z][a-z0-9_-]*, at most 63 characters");
    }
}

void services_compile(struct compiler *cx, const struct node *node)
{
    const struct dsl_options *options = cx->options;
    uint32_t in_file = 0, count;
    if (node && node_is_map(cx, node, "`services`")) {
        names_check(cx, node);
        in_file = node->count;
    }
    if (in_file > SERVICES_MAX) {
        node_error(cx, "E113", node, "more than %d services", SERVICES_MAX);
        in_file = SERVICES_MAX;
    }
    count = in_file + (options ? options->services_count : 0);
    cx->services = arena_array(cx->arena, struct plan_service, count);
    cx->service_nodes =
        (const struct node **)arena_alloc_array(cx->scratch, count, sizeof(*cx->service_nodes));
    for (uint32_t i = 0; i < in_file; i++) {
        cx->services[i].name = cx_strdup(cx, node->pairs[i].key->text);
        cx->service_nodes[i] = node->pairs[i].value;
        service_compile(cx, node->pairs[i].value, &cx->services[i]);
    }
    cx->plan->services_count = (uint16_t)in_file;
    for (uint16_t i = 0; options && i < options->services_count; i++) {
        const struct plan_service *by = &options->services[i];
        uint16_t at = 0;
        while (at < in_file && strcmp(cx->services[at].name, by->name) != 0)
            at++;
        if (at == in_file)
            at = cx->plan->services_count++;
        cx->services[at].name = cx_strdup(cx, str_z(by->name));
        service_override(cx->arena, &cx->services[at], by);
    }
    cx->plan->services = cx->services;
    for (uint16_t i = 0; i < cx->plan->services_count; i++)
        cx->plan->is_limited |= plan_limits_any(&cx->services[i].limits);
}

uint16_t service_find(struct compiler *cx, const struct node *node, struct str name, size_t from)
{
    uint16_t count = cx->plan->services_count;
    for (uint16_t i = 0; i < count; i++)
        if (str_eq_z(name, cx->services[i].name))
            return i;
    struct diag *diag = cx_error(cx, "E116", text_place(cx, node, from, from + name.len),
                                 "unknown service `" STR_FMT "`", STR_ARG(name));
    const char **names = (const char **)arena_alloc_array(cx->scratch, count, sizeof(*names));
    for (uint16_t i = 0; i < count; i++)
        names[i] = cx->services[i].name;
    const char *nearest = diag_nearest(name, names, count);
    if (nearest)
        diag_help(cx->diags, diag, "a service with a similar name exists: `%s`", nearest);
    else
        diag_help(cx->diags, diag, "name it under `services`, or in the daemon's configuration");
    return PLAN_SERVICE_NONE;
}

bool dsl_services_compile(struct doc *doc, const struct node *node, struct arena *arena,
                          struct diags *diags, const struct plan_service **out, uint16_t *count)
{
    struct plan plan = {0};
    struct arena scratch = {0};
    struct compiler cx = {
        .doc = doc, .diags = diags, .plan = &plan, .arena = arena, .scratch = &scratch};
    uint32_t errors = diags->errors;
    services_compile(&cx, node);
    *out = plan.services;
    *count = plan.services_count;
    arena_free(&scratch);
    return diags->errors == errors;
}
