#include "engine/pgconn.h"

#include "engine/base/buf.h"
#include "engine/base/rand.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PGCONN_MAGIC 0x5067636eu
#define CONNINFO_MAX 64 /* parameters of one connection string, ours included */

/* The state of the session itself: what pgconn does next when the socket moves. */
enum pgconn_state {
    PGCONN_DOWN,       /* waits for the retry timer */
    PGCONN_CONNECTING, /* PQconnectPoll */
    PGCONN_SETUP,      /* settings and prepares are outstanding */
    PGCONN_UP,
};

struct op {
    struct op *next;
    pgconn_done *done;
    void *arg;
    bool more;  /* ends without a Sync of its own */
    bool setup; /* ours */
    bool warned;
    struct err err;
    PGresult *rows;
};

struct pgconn {
    unsigned magic;
    struct loop *loop;
    char *uri, *user, *application;
    struct pgconn_setting *settings;
    unsigned settings_count;
    char **statements;
    unsigned statements_count;
    int64_t stall_us;
    const struct pgconn *after;
    void *arg;
    void (*up)(void *arg);
    void (*down)(void *arg, const struct err *err, bool is_final);
    void (*notice)(void *arg, const char *severity, const char *text);
    const char *(*problem)(void *arg, const char *host, const struct sockaddr *peer);

    enum pgconn_state state;
    PGconn *pg;
    struct loop_fd *watch;
    int watched_fd;
    struct loop_timer *timer; /* DOWN: retry; CONNECTING, SETUP: limit; UP: stall */
    struct loop_call reset_call;
    char reset_why[128];
    struct op *first, **last; /* outstanding, oldest first */
    unsigned outstanding;
    unsigned attempt; /* connects since the last time it was up */
    struct rand rand;

    unsigned busy; /* depth of our own callbacks: freed only at 0 */
    bool closed;
};

static void start(struct pgconn *conn);
static void ready(void *arg, unsigned what);
static void timer_fired(void *arg);
static void poll_connect(struct pgconn *conn);
static void begin_setup(struct pgconn *conn);
static void receive(struct pgconn *conn);
static void flush(struct pgconn *conn);
static void fail(struct pgconn *conn, const struct err *err);
static void op_send(struct pgconn *conn, struct op *op, bool sent);
static void op_finish(struct pgconn *conn, struct op *op);
static void result_error(const PGresult *result, struct err *err);
static void notice_came(void *arg, const PGresult *result);

/* --- opening and closing --- */

static char *dup_or_null(const char *text)
{
    return text ? xstrdup(text) : NULL;
}

struct pgconn *pgconn_open(struct loop *loop, const struct pgconn_options *options)
{
    struct pgconn *conn = xcalloc(1, sizeof(*conn));
    conn->magic = PGCONN_MAGIC;
    conn->loop = loop;
    conn->uri = dup_or_null(options->uri);
    conn->user = dup_or_null(options->user);
    conn->application = dup_or_null(options->application);
    conn->settings_count = options->settings_count;
    conn->settings = xcalloc(conn->settings_count + 1, sizeof(*conn->settings));
    for (unsigned i = 0; i < conn->settings_count; i++) {
        conn->settings[i].name = xstrdup(options->settings[i].name);
        conn->settings[i].value = dup_or_null(options->settings[i].value);
    }
    conn->statements_count = options->statements_count;
    conn->statements = xcalloc(conn->statements_count + 1, sizeof(*conn->statements));
    for (unsigned i = 0; i < conn->statements_count; i++)
        conn->statements[i] = xstrdup(options->statements[i]);
    conn->stall_us = options->stall_us;
    conn->after = options->after;
    conn->arg = options->arg;
    conn->up = options->up;
    conn->down = options->down;
    conn->problem = options->problem;
    conn->notice = options->notice;
    conn->last = &conn->first;
    conn->rand = rand_seed((uint64_t)loop_mono().us ^ (uint64_t)getpid() << 32 ^ (uintptr_t)conn);
    conn->timer = loop_timer_new(loop, timer_fired, conn);
    loop_timer_set(conn->timer, 0);
    return conn;
}

/* Ends the session, whatever its state; outstanding statements stay in the list. */
static void drop_session(struct pgconn *conn)
{
    loop_fd_free(conn->watch);
    conn->watch = NULL;
    loop_timer_stop(conn->timer);
    loop_defer_cancel(conn->loop, &conn->reset_call);
    if (conn->pg)
        PQfinish(conn->pg);
    conn->pg = NULL;
    conn->state = PGCONN_DOWN;
}

static void op_free(struct op *op)
{
    PQclear(op->rows);
    free(op);
}

static void release(struct pgconn *conn)
{
    drop_session(conn);
    loop_timer_free(conn->timer);
    while (conn->first) {
        struct op *op = conn->first;
        conn->first = op->next;
        op_free(op);
    }
    for (unsigned i = 0; i < conn->settings_count; i++) {
        free((char *)conn->settings[i].name);
        free((char *)conn->settings[i].value);
    }
    for (unsigned i = 0; i < conn->statements_count; i++)
        free(conn->statements[i]);
    free(conn->settings);
    free(conn->statements);
    free(conn->uri);
    free(conn->user);
    free(conn->application);
    conn->magic = 0;
    free(conn);
}

void pgconn_close(struct pgconn *conn)
{
    if (!conn)
        return;
    ASSERT(conn->magic == PGCONN_MAGIC && !conn->closed);
    conn->closed = true;
    if (!conn->busy)
        release(conn);
}

/* Brackets everything that may call out, so that a close inside is carried out at the end. */
static void enter(struct pgconn *conn)
{
    ASSERT(conn->magic == PGCONN_MAGIC);
    conn->busy++;
}

static void leave(struct pgconn *conn)
{
    if (--conn->busy == 0 && conn->closed)
        release(conn);
}

bool pgconn_is_up(const struct pgconn *conn)
{
    return conn->state == PGCONN_UP;
}

unsigned pgconn_outstanding(const struct pgconn *conn)
{
    return conn->outstanding;
}

int pgconn_backend_pid(const struct pgconn *conn)
{
    return conn->state == PGCONN_UP ? PQbackendPID(conn->pg) : 0;
}

/* --- connecting --- */

/* Moves the first `count` elements of a comma-separated list to its end. */
static char *rotate_list(const char *list, unsigned count)
{
    struct buf out = {0};
    const char *rest = list;
    for (unsigned i = 0; i < count; i++)
        rest = strchr(rest, ',') + 1;
    buf_add_z(&out, rest);
    if (rest != list) {
        buf_add_char(&out, ',');
        buf_add(&out, list, (size_t)(rest - list) - 1);
    }
    return out.data;
}

static unsigned commas(const char *text)
{
    unsigned count = 0;
    for (; *text; text++)
        count += *text == ',';
    return count;
}

/* The next attempt begins at the next host: libpq has no limit per host in its non-blocking mode,
 * so a first host that swallows packets would hide all others. */
static void rotate_hosts(PQconninfoOption *options, unsigned attempt)
{
    static const char *const lists[] = {"host", "hostaddr", "port"};
    unsigned hosts = 0;
    for (PQconninfoOption *option = options; option->keyword; option++)
        if ((!strcmp(option->keyword, "host") || !strcmp(option->keyword, "hostaddr")) &&
            option->val)
            hosts = MAX(hosts, commas(option->val) + 1);
    if (hosts < 2)
        return;
    for (PQconninfoOption *option = options; option->keyword; option++)
        for (unsigned i = 0; i < ARRAY_LEN(lists); i++)
            if (option->val && !strcmp(option->keyword, lists[i]) &&
                commas(option->val) + 1 == hosts) {
                char *rotated = rotate_list(option->val, attempt % hosts);
                free(option->val);
                option->val = rotated;
            }
}

static const char *option_value(const PQconninfoOption *options, const char *name)
{
    for (; options->keyword; options++)
        if (!strcmp(options->keyword, name))
            return options->val;
    return NULL;
}

/* NULL with err set if the connection string cannot be read. */
static PGconn *connect_start(struct pgconn *conn, struct err *err)
{
    /* Only where the connection string is silent. */
    static const struct pgconn_setting defaults[] = {
        {"keepalives_idle", "10"},
        {"keepalives_interval", "5"},
        {"keepalives_count", "3"},
        {"tcp_user_timeout", "20000"},
        {"target_session_attrs", "read-write"},
    };
    char *message = NULL;
    PQconninfoOption *options = PQconninfoParse(conn->uri ? conn->uri : "", &message);
    if (!options) {
        err_set(err, ERR_INVALID, "connection string: %s", message ? message : "out of memory");
        err->text[strcspn(err->text, "\n")] = '\0';
        PQfreemem(message);
        return NULL;
    }
    rotate_hosts(options, conn->attempt);
    const char *names[CONNINFO_MAX + 1] = {0}, *values[CONNINFO_MAX + 1] = {0};
    unsigned count = 0;
    for (PQconninfoOption *option = options; option->keyword; option++)
        if (option->val && count < CONNINFO_MAX - 10) {
            names[count] = option->keyword;
            values[count++] = option->val;
        }
    for (unsigned i = 0; i < ARRAY_LEN(defaults); i++)
        if (!option_value(options, defaults[i].name)) {
            names[count] = defaults[i].name;
            values[count++] = defaults[i].value;
        }
    names[count] = "client_encoding";
    values[count++] = "UTF8";
    names[count] = "application_name";
    values[count++] = conn->application;
    if (conn->user) {
        names[count] = "user";
        values[count++] = conn->user;
    }
    PGconn *pg = PQconnectStartParams(names, values, 0);
    PQconninfoFree(options);
    if (!pg)
        err_set(err, ERR_UNAVAILABLE, "out of memory");
    return pg;
}

static void start(struct pgconn *conn)
{
    struct err err = {0};
    ASSERT(conn->state == PGCONN_DOWN && !conn->pg);
    if (conn->after && !pgconn_is_up(conn->after)) {
        loop_timer_set(conn->timer, PGCONN_AFTER_US);
        return;
    }
    conn->pg = connect_start(conn, &err);
    if (!conn->pg) {
        fail(conn, &err);
        return;
    }
    /* The only way to learn the SQLSTATE of a failed start: it stands in the text then. */
    PQsetErrorVerbosity(conn->pg, PQERRORS_VERBOSE);
    PQsetNoticeReceiver(conn->pg, notice_came, conn);
    conn->state = PGCONN_CONNECTING;
    if (PQstatus(conn->pg) == CONNECTION_BAD) {
        poll_connect(conn);
        return;
    }
    loop_timer_set(conn->timer, PGCONN_CONNECT_US);
    conn->watched_fd = PQsocket(conn->pg);
    conn->watch = loop_fd_new(conn->loop, conn->watched_fd, ready, conn);
    loop_fd_want(conn->watch, LOOP_WRITE);
}

/* "... FATAL:  28P01: password ..." -> 28P01; the severity may be in any language. */
static void sqlstate_in(const char *text, char out[6])
{
    for (const char *at = text; (at = strstr(at, ":  ")); at += 3) {
        const char *code = at + 3;
        size_t length = strspn(code, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        if (length == 5 && code[5] == ':' && isdigit((unsigned char)code[0])) {
            memcpy(out, code, 5);
            out[5] = '\0';
        }
    }
}

void pg_connect_error(const PGconn *pg, struct err *err)
{
    const char *text = PQerrorMessage(pg);
    err_set(err, ERR_UNAVAILABLE, "%s", *text ? text : "could not connect");
    sqlstate_in(text, err->sqlstate);
    /* Of the verbose form only the first line is for people. */
    err->text[strcspn(err->text, "\n")] = '\0';
}

/* libpq says its first words only when it is polled again. True after setting the error. */
static bool is_barred(const struct pgconn *conn, struct err *err)
{
    struct sockaddr_storage peer;
    socklen_t size = sizeof(peer);
    int fd = PQsocket(conn->pg);
    if (!conn->problem || fd < 0 || getpeername(fd, (struct sockaddr *)&peer, &size) != 0 ||
        peer.ss_family == AF_UNIX)
        return false;
    const char *host = PQhost(conn->pg), *address = PQhostaddr(conn->pg);
    const char *problem = conn->problem(conn->arg, host ? host : "", (struct sockaddr *)&peer);
    if (problem)
        err_set(err, ERR_UNAVAILABLE, "the address %s of \"%s\" is not allowed: %s",
                address && *address ? address : "?", host ? host : "", problem);
    return problem != NULL;
}

static void poll_connect(struct pgconn *conn)
{
    struct err barred;
    loop_fd_free(conn->watch);
    conn->watch = NULL;
    if (is_barred(conn, &barred)) {
        fail(conn, &barred);
        return;
    }
    PostgresPollingStatusType status =
        PQstatus(conn->pg) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PQconnectPoll(conn->pg);
    if (status == PGRES_POLLING_FAILED) {
        struct err err = {0};
        pg_connect_error(conn->pg, &err);
        fail(conn, &err);
        return;
    }
    conn->watched_fd = PQsocket(conn->pg);
    conn->watch = loop_fd_new(conn->loop, conn->watched_fd, ready, conn);
    if (status == PGRES_POLLING_OK)
        begin_setup(conn);
    else
        loop_fd_want(conn->watch, status == PGRES_POLLING_READING ? LOOP_READ : LOOP_WRITE);
}

/* What the DBA set for the role or the database must not decide how the engine works. */
static const struct pgconn_setting session_settings[] = {
    {"timezone", "UTC"},
    {"datestyle", "ISO, YMD"},
    {"intervalstyle", "postgres"},
    {"bytea_output", "hex"},
    {"standard_conforming_strings", "on"},
    {"search_path", "pg_catalog, pg_temp"},
    {"client_min_messages", "warning"}, /* a lost replica is told by a WARNING */
    {"default_transaction_isolation", "read committed"},
    {"default_transaction_deferrable", "off"},
    {"statement_timeout", "30s"},
    {"lock_timeout", "5s"},
    {"idle_in_transaction_session_timeout", "0"},
    {"idle_session_timeout", "0"},
    {"transaction_timeout", "0"},
    {"tcp_keepalives_idle", "10"},
    {"tcp_keepalives_interval", "5"},
    {"tcp_keepalives_count", "3"},
    {"client_connection_check_interval", "2s"},
    {"jit", "off"},
};

static void add_setting(struct buf *sql, const struct pgconn_setting *setting, PGconn *pg)
{
    char *value = PQescapeLiteral(pg, setting->value, strlen(setting->value));
    buf_printf(sql, "%s('%s', %s)", sql->len ? ", " : "", setting->name, value);
    PQfreemem(value);
}

/* One statement that sets what this server knows of; synchronous_commit is only ever raised. */
static char *settings_sql(struct pgconn *conn)
{
    struct buf list = {0}, sql = {0};
    for (unsigned i = 0; i < ARRAY_LEN(session_settings); i++) {
        bool replaced = false;
        for (unsigned j = 0; j < conn->settings_count; j++)
            replaced |= !strcmp(conn->settings[j].name, session_settings[i].name);
        if (!replaced)
            add_setting(&list, &session_settings[i], conn->pg);
    }
    for (unsigned i = 0; i < conn->settings_count; i++)
        if (conn->settings[i].value)
            add_setting(&list, &conn->settings[i], conn->pg);
    buf_printf(&sql,
               "select pg_catalog.set_config(s.name, v.value, false)"
               " from (values %s) as v (name, value)"
               " join pg_catalog.pg_settings s on pg_catalog.lower(s.name) = v.name"
               " union all select pg_catalog.set_config('synchronous_commit', 'on', false)"
               " where pg_catalog.current_setting('synchronous_commit') in ('off', 'local')",
               list.data);
    buf_free(&list);
    return sql.data;
}

static struct op *op_setup(void)
{
    struct op *op = xcalloc(1, sizeof(*op));
    op->setup = true;
    return op;
}

static void begin_setup(struct pgconn *conn)
{
    conn->state = PGCONN_SETUP;
    PQsetErrorVerbosity(conn->pg, PQERRORS_DEFAULT);
    if (PQsetnonblocking(conn->pg, 1) || !PQenterPipelineMode(conn->pg)) {
        struct err err;
        err_set(&err, ERR_UNAVAILABLE, "could not enter pipeline mode");
        fail(conn, &err);
        return;
    }
    loop_fd_want(conn->watch, LOOP_READ);
    /* First of all, in a statement that takes no time: the role may have a short limit. */
    op_send(conn, op_setup(),
            PQsendQueryParams(conn->pg, "set statement_timeout = 0", 0, NULL, NULL, NULL, NULL, 0));
    char *sql = settings_sql(conn);
    op_send(conn, op_setup(), PQsendQueryParams(conn->pg, sql, 0, NULL, NULL, NULL, NULL, 0));
    free(sql);
    for (unsigned i = 0; i < conn->statements_count; i++) {
        char name[16];
        snprintf(name, sizeof(name), "s%u", i);
        op_send(conn, op_setup(), PQsendPrepare(conn->pg, name, conn->statements[i], 0, NULL));
    }
    flush(conn);
}

static void setup_done(struct pgconn *conn)
{
    conn->state = PGCONN_UP;
    conn->attempt = 0;
    loop_timer_stop(conn->timer);
    if (conn->up)
        conn->up(conn->arg);
}

/* --- losing it --- */

/* Answers everything outstanding with `lost`, tells the owner, plans the next attempt. */
static void fail(struct pgconn *conn, const struct err *err)
{
    struct err cause = *err;
    struct op *op = conn->first;
    drop_session(conn);
    conn->first = NULL;
    conn->last = &conn->first;
    conn->outstanding = 0;

    int64_t pause_us = PGCONN_RETRY_MIN_US << MIN(conn->attempt, 16u);
    pause_us = MIN(pause_us, PGCONN_RETRY_MAX_US);
    pause_us = pause_us / 2 + (int64_t)rand_below(&conn->rand, (uint64_t)pause_us);
    conn->attempt++;
    loop_timer_set(conn->timer, pause_us);

    while (op) {
        struct op *next = op->next;
        if (op->done && !conn->closed) {
            struct pgconn_result result = {.err = cause, .lost = true, .warned = op->warned};
            result.err.code = ERR_UNAVAILABLE;
            op->done(op->arg, &result);
        }
        op_free(op);
        op = next;
    }
    if (conn->down && !conn->closed)
        conn->down(conn->arg, &cause, cause.code == ERR_INVALID || pg_is_final(cause.sqlstate));
}

static void fail_text(struct pgconn *conn, const char *text)
{
    struct err err;
    err_set(&err, ERR_UNAVAILABLE, "%s", text);
    err.text[strcspn(err.text, "\n")] = '\0';
    fail(conn, &err);
}

static void reset_now(void *arg)
{
    struct pgconn *conn;
    CAST_OBJ(conn, arg, PGCONN_MAGIC);
    enter(conn);
    if (!conn->closed && conn->pg)
        fail_text(conn, conn->reset_why);
    leave(conn);
}

void pgconn_reset(struct pgconn *conn, const char *why)
{
    snprintf(conn->reset_why, sizeof(conn->reset_why), "%s", why);
    loop_defer(conn->loop, &conn->reset_call, reset_now, conn);
}

static void timer_fired(void *arg)
{
    struct pgconn *conn;
    CAST_OBJ(conn, arg, PGCONN_MAGIC);
    enter(conn);
    switch (conn->state) {
    case PGCONN_DOWN: start(conn); break;
    case PGCONN_CONNECTING:
    case PGCONN_SETUP: fail_text(conn, "no answer while connecting"); break;
    case PGCONN_UP: fail_text(conn, "no answer from the server"); break;
    }
    leave(conn);
}

/* --- traffic --- */

static void ready(void *arg, unsigned what)
{
    struct pgconn *conn;
    CAST_OBJ(conn, arg, PGCONN_MAGIC);
    enter(conn);
    if (conn->state == PGCONN_CONNECTING)
        poll_connect(conn);
    else if (what == LOOP_READ)
        receive(conn);
    else
        flush(conn);
    leave(conn);
}

static void watch_stall(struct pgconn *conn)
{
    if (conn->state != PGCONN_UP || !conn->stall_us)
        return;
    if (conn->outstanding)
        loop_timer_set(conn->timer, conn->stall_us);
    else
        loop_timer_stop(conn->timer);
}

/* Called after what could be read was read: a server that waits for us does not read either. */
static void flush(struct pgconn *conn)
{
    int rc = PQflush(conn->pg);
    if (rc < 0) {
        pgconn_reset(conn, PQerrorMessage(conn->pg));
        return;
    }
    loop_fd_want(conn->watch, rc ? LOOP_READ | LOOP_WRITE : LOOP_READ);
}

/* One result of the oldest statement. Returns true once that statement is finished. */
static bool take_result(struct op *op, PGresult *result)
{
    if (!result)
        return op->more;
    switch (PQresultStatus(result)) {
    case PGRES_PIPELINE_SYNC:
        PQclear(result);
        ASSERT(!op->more);
        return true;
    case PGRES_TUPLES_OK:
    case PGRES_COMMAND_OK:
        PQclear(op->rows);
        op->rows = result;
        return false;
    case PGRES_PIPELINE_ABORTED:
        if (!op->err.code)
            err_set(&op->err, ERR_DATABASE, "not run: an earlier statement failed");
        PQclear(result);
        return false;
    default:
        if (!op->err.code)
            result_error(result, &op->err);
        PQclear(result);
        return false;
    }
}

static void receive(struct pgconn *conn)
{
    bool open = PQconsumeInput(conn->pg);
    watch_stall(conn);
    while (conn->pg && conn->first && !conn->closed && !PQisBusy(conn->pg)) {
        struct op *op = conn->first;
        if (PQstatus(conn->pg) == CONNECTION_BAD)
            break;
        if (!take_result(op, PQgetResult(conn->pg)))
            continue;
        conn->first = op->next;
        if (!conn->first)
            conn->last = &conn->first;
        conn->outstanding--;
        op_finish(conn, op);
    }
    if (!conn->pg || conn->closed)
        return;
    /* With nothing outstanding the server may still have said something: that it shuts down. */
    if (!conn->first && !PQisBusy(conn->pg))
        PQclear(PQgetResult(conn->pg));
    if (!open || PQstatus(conn->pg) == CONNECTION_BAD) {
        struct err err = {0};
        if (conn->first && conn->first->err.code)
            err = conn->first->err;
        else
            pg_connect_error(conn->pg, &err);
        err.code = ERR_UNAVAILABLE;
        fail(conn, &err);
        return;
    }
    watch_stall(conn);
    flush(conn);
}

static void op_finish(struct pgconn *conn, struct op *op)
{
    if (op->setup) {
        struct err err = op->err;
        bool last = !conn->first;
        op_free(op);
        if (err.code)
            fail(conn, &err);
        else if (last)
            setup_done(conn);
        return;
    }
    if (op->done) {
        struct pgconn_result result = {.err = op->err, .warned = op->warned};
        if (!op->err.code)
            result.rows = op->rows;
        op->done(op->arg, &result);
    }
    op_free(op);
}

/* Queues what libpq has just taken, and ends it with a Sync unless more follows. */
static void op_send(struct pgconn *conn, struct op *op, bool sent)
{
    *conn->last = op;
    conn->last = &op->next;
    conn->outstanding++;
    if (sent && !op->more)
        sent = PQpipelineSync(conn->pg);
    if (!sent)
        pgconn_reset(conn, *PQerrorMessage(conn->pg) ? PQerrorMessage(conn->pg) : "send failed");
}

static void send_statement(struct pgconn *conn, const char *sql, int index,
                           const struct pgconn_params *params, unsigned flags, pgconn_done *done,
                           void *arg)
{
    static const struct pgconn_params none;
    char name[16];
    ASSERT(conn->magic == PGCONN_MAGIC && conn->state == PGCONN_UP && !conn->closed);
    if (!params)
        params = &none;
    struct op *op = xcalloc(1, sizeof(*op));
    op->done = done;
    op->arg = arg;
    op->more = flags & PGCONN_MORE;
    int format = !(flags & PGCONN_TEXT), sent;
    snprintf(name, sizeof(name), "s%d", index);
    if (sql)
        sent = PQsendQueryParams(conn->pg, sql, params->count, NULL, params->values,
                                 params->lengths, params->formats, format);
    else
        sent = PQsendQueryPrepared(conn->pg, name, params->count, params->values, params->lengths,
                                   params->formats, format);
    op_send(conn, op, sent);
    watch_stall(conn);
    flush(conn);
}

void pgconn_exec(struct pgconn *conn, unsigned statement, const struct pgconn_params *params,
                 unsigned flags, pgconn_done *done, void *arg)
{
    ASSERT(statement < conn->statements_count);
    send_statement(conn, NULL, (int)statement, params, flags, done, arg);
}

void pgconn_query(struct pgconn *conn, const char *sql, const struct pgconn_params *params,
                  unsigned flags, pgconn_done *done, void *arg)
{
    send_statement(conn, sql, 0, params, flags, done, arg);
}

/* --- parameters --- */

static void param_add(struct pgconn_params *params, const char *value, size_t length, int format)
{
    ASSERT(params->count < PGCONN_PARAMS_MAX && length <= INT32_MAX);
    params->values[params->count] = value;
    params->lengths[params->count] = (int)length;
    params->formats[params->count++] = format;
}

void pgconn_param_text(struct pgconn_params *params, struct str text)
{
    /* Binary, because then the length counts and no NUL is looked for: text travels alike. */
    param_add(params, text.ptr, text.len, 1);
}

void pgconn_param_z(struct pgconn_params *params, const char *text)
{
    param_add(params, text, text ? strlen(text) : 0, 0);
}

void pgconn_param_binary(struct pgconn_params *params, struct str bytes)
{
    param_add(params, bytes.ptr, bytes.len, 1);
}

void pgconn_param_int8(struct pgconn_params *params, int64_t value)
{
    char *slot = params->ints[params->count];
    for (int i = 0; i < 8; i++)
        slot[i] = (char)((uint64_t)value >> (56 - 8 * i));
    param_add(params, slot, 8, 1);
}

/* --- errors and notices --- */

static void result_error(const PGresult *result, struct err *err)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    err_set(err, ERR_DATABASE, "%s", text ? text : PQresultErrorMessage(result));
    if (state)
        snprintf(err->sqlstate, sizeof(err->sqlstate), "%s", state);
    err->text[strcspn(err->text, "\n")] = '\0';
}

static void notice_came(void *arg, const PGresult *result)
{
    struct pgconn *conn;
    CAST_OBJ(conn, arg, PGCONN_MAGIC);
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    if (!severity || !text)
        return;
    if (conn->first && !strcmp(severity, "WARNING"))
        conn->first->warned = true;
    if (conn->notice && !conn->closed)
        conn->notice(conn->arg, severity, text);
}

static bool in_list(const char *sqlstate, const char *list)
{
    /* Each entry is a whole state or a class of two letters. */
    for (const char *at = list; *at; at += strcspn(at, " "), at += *at == ' ') {
        size_t length = strcspn(at, " ");
        if (*sqlstate && !strncmp(at, sqlstate, length))
            return true;
    }
    return false;
}

bool pg_is_final(const char *sqlstate)
{
    /* 3F: no schema saga; 42: it is another version, or the role may not use it. */
    return in_list(sqlstate, "28 3D 3F 42");
}
