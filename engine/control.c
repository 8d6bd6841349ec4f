#include "engine/control.h"

#include "engine/log.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/http_struct.h>
#include <event2/keyvalq_struct.h>
#include <event2/listener.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

struct control {
    struct control *next; /* of this process */
    struct loop *loop;
    struct evhttp *http;
    struct evhttp_bound_socket *bound;
    char *path; /* NULL: TCP */
    dev_t dev;  /* of the socket file: another daemon's file is not removed */
    ino_t ino;
    void (*handle)(void *arg, struct control_request *request);
    void *handle_arg;
    unsigned requests;
    struct loop_timer *accept_timer; /* set while no connection is accepted */
    struct mono accept_told;
};

static struct control *controls;

#define ACCEPT_PAUSE_US (500 * MS_US)
#define ACCEPT_TELL_US (10 * SECOND_US)
#define DESCRIPTORS_KEPT_PART 4 /* a quarter of the limit */
#define REQUEST_MAGIC 0x53414741u

struct control_request {
    unsigned magic;
    struct control *control;
    struct evhttp_request *http;
    struct arena arena;
    struct evkeyvalq query;
    struct str path, body, actor;
    uid_t uid;
    const char *tenants;
    gid_t *groups; /* the first is the primary one */
    size_t groups_count;
    struct event *closed; /* the client went away while we think */
    void (*gone)(void *arg);
    void *gone_arg;
    bool is_gone, streaming;
};

/* --- the socket ----------------------------------------------------------------------------- */

/* 0: nothing there; 1: a socket that nobody listens on; else an error is set. */
static int place_look(const char *path, const struct sockaddr_un *address, struct err *err)
{
    struct stat info;
    if (lstat(path, &info) != 0)
        return 0;
    if (!S_ISSOCK(info.st_mode)) {
        err_set(err, ERR_CONFLICT, "\"%s\" is not a socket; move it away or choose --socket", path);
        return -1;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        err_set(err, ERR_IO, "could not make a socket: %s", strerror(errno));
        return -1;
    }
    int code = connect(fd, (const struct sockaddr *)address, sizeof(*address));
    int why = errno;
    close(fd);
    if (code == 0) {
        err_set(err, ERR_CONFLICT, "another process listens on \"%s\"", path);
        return -1;
    }
    if (why == ECONNREFUSED)
        return 1;
    err_set(err, ERR_CONFLICT, "could not see whether \"%s\" is in use: %s", path, strerror(why));
    return -1;
}

/* -1 with err set. The file appears with its final mode: the umask is set for the moment of bind.
 */
static int socket_bind(struct control *control, struct err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(control->path) >= sizeof(address.sun_path)) {
        err_set(err, ERR_INVALID,
                "the socket path \"%s\" is longer than %zu bytes; choose --socket", control->path,
                sizeof(address.sun_path) - 1);
        return -1;
    }
    memcpy(address.sun_path, control->path, strlen(control->path) + 1);
    int found = place_look(control->path, &address, err);
    if (found < 0)
        return -1;
    if (found == 1)
        unlink(control->path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        err_set(err, ERR_IO, "could not make a socket: %s", strerror(errno));
        return -1;
    }
    mode_t before = umask(0117);
    int code = bind(fd, (const struct sockaddr *)&address, sizeof(address));
    int why = errno;
    umask(before);
    if (code != 0 || listen(fd, 128) != 0) {
        err_set(err, ERR_IO, "could not listen on \"%s\": %s", control->path,
                strerror(code ? why : errno));
        close(fd);
        return -1;
    }
    struct stat info;
    if (lstat(control->path, &info) == 0) {
        control->dev = info.st_dev;
        control->ino = info.st_ino;
    }
    return fd;
}

/* --- requests ------------------------------------------------------------------------------- */

static enum evhttp_cmd_type command(const struct control_request *request)
{
    return evhttp_request_get_command(request->http);
}

enum control_method control_method(const struct control_request *request)
{
    switch ((int)command(request)) {
    case EVHTTP_REQ_GET: return CONTROL_GET;
    case EVHTTP_REQ_POST: return CONTROL_POST;
    case EVHTTP_REQ_PUT: return CONTROL_PUT;
    default: return CONTROL_OTHER;
    }
}

struct str control_path(const struct control_request *request)
{
    return request->path;
}

const char *control_query(const struct control_request *request, const char *name)
{
    return evhttp_find_header(&request->query, name);
}

const char *control_header(const struct control_request *request, const char *name)
{
    return evhttp_find_header(evhttp_request_get_input_headers(request->http), name);
}

struct str control_body(const struct control_request *request)
{
    return request->body;
}

struct str control_actor(const struct control_request *request)
{
    return request->actor;
}

const char *control_tenants(const struct control_request *request)
{
    return request->tenants;
}

void control_tenants_set(struct control_request *request, const char *tenants)
{
    request->tenants = tenants;
}

uid_t control_uid(const struct control_request *request)
{
    return request->uid;
}

const gid_t *control_groups(const struct control_request *request, size_t *count)
{
    *count = request->groups_count;
    return request->groups;
}

struct arena *control_arena(struct control_request *request)
{
    return &request->arena;
}

static void request_gone(struct control_request *request)
{
    void (*gone)(void *arg) = request->gone;
    if (request->is_gone)
        return;
    request->is_gone = true;
    request->gone = NULL;
    if (gone)
        gone(request->gone_arg); /* may answer, and so free, the request */
}

/* evhttp reads nothing while a request is being answered, and so does not notice a hang-up. */
static void on_closed(evutil_socket_t fd, short what, void *arg)
{
    struct control_request *request;
    CAST_OBJ(request, arg, REQUEST_MAGIC);
    (void)fd, (void)what;
    request_gone(request);
}

void control_on_gone(struct control_request *request, void (*gone)(void *arg), void *arg)
{
    request->gone = gone;
    request->gone_arg = arg;
    if (!gone || request->closed || request->is_gone)
        return;
    struct evhttp_connection *connection = evhttp_request_get_connection(request->http);
    evutil_socket_t fd = bufferevent_getfd(evhttp_connection_get_bufferevent(connection));
    request->closed =
        event_new(loop_base(request->control->loop), fd, EV_CLOSED, on_closed, request);
    if (request->closed)
        event_add(request->closed, NULL);
}

/* The kernel keeps all groups that the caller had when it connected. */
static void groups_read(struct control_request *request, int fd, gid_t primary)
{
    gid_t more[CONTROL_GROUPS_MAX];
    socklen_t size = sizeof(more);
    size_t count = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, more, &size) == 0)
        count = size / sizeof(more[0]);
    request->groups = arena_array(&request->arena, gid_t, count + 1);
    request->groups[0] = primary;
    if (count)
        memcpy(request->groups + 1, more, count * sizeof(more[0]));
    request->groups_count = count + 1;
}

static void identity_read(struct control_request *request)
{
    struct evhttp_connection *connection = evhttp_request_get_connection(request->http);
    evutil_socket_t fd = bufferevent_getfd(evhttp_connection_get_bufferevent(connection));
    struct ucred peer;
    socklen_t size = sizeof(peer);
    request->uid = (uid_t)-1;
    if (request->control->path && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) {
        request->uid = peer.uid;
        groups_read(request, fd, peer.gid);
    }
    request->actor = arena_printf(&request->arena, "uid:%ld", (long)request->uid);
}

static unsigned header_count(const struct control_request *request, const char *name)
{
    unsigned count = 0;
    for (struct evkeyval *header = evhttp_request_get_input_headers(request->http)->tqh_first;
         header; header = header->next.tqe_next)
        count += strcasecmp(header->key, name) == 0;
    return count;
}

static void request_free(struct control_request *request)
{
    if (request->closed)
        event_free(request->closed);
    evhttp_clear_headers(&request->query);
    arena_free(&request->arena);
    request->control->requests--;
    request->magic = 0;
    free(request);
}

static void on_request(struct evhttp_request *http, void *arg)
{
    struct control *control = arg;
    struct control_request *request = xcalloc(1, sizeof(*request));
    request->magic = REQUEST_MAGIC;
    request->control = control;
    request->http = http;
    control->requests++;
    identity_read(request);

    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(http);
    const char *path = uri ? evhttp_uri_get_path(uri) : NULL;
    size_t path_len = 0;
    char *decoded = evhttp_uridecode(path ? path : "/", 0, &path_len);
    if (decoded)
        request->path = arena_str(&request->arena, (struct str){decoded, path_len});
    free(decoded);
    const char *query = uri ? evhttp_uri_get_query(uri) : NULL;
    if (query)
        evhttp_parse_query_str(query, &request->query);
    struct evbuffer *input = evhttp_request_get_input_buffer(http);
    size_t len = evbuffer_get_length(input);
    if (len)
        request->body =
            arena_str(&request->arena, (struct str){(const char *)evbuffer_pullup(input, -1), len});

    if (header_count(request, "Content-Length") > 1)
        control_problem(request, 400, "bad_request", NULL, "two Content-Length headers");
    else if (!request->path.ptr || memchr(request->path.ptr, '\0', request->path.len))
        control_problem(request, 400, "bad_request", NULL, "the path cannot be decoded");
    else if (control->requests > CONTROL_CONNECTIONS_MAX)
        control_problem(request, 503, "overloaded", NULL, "too many requests at once");
    else
        control->handle(control->handle_arg, request);
}

/* --- answers -------------------------------------------------------------------------------- */

void control_header_set(struct control_request *request, const char *name, const char *value)
{
    struct evkeyvalq *headers = evhttp_request_get_output_headers(request->http);
    evhttp_remove_header(headers, name);
    evhttp_add_header(headers, name, value);
}

static const char *reason_of(int status)
{
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {400, "Bad Request"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {409, "Conflict"},
        {413, "Content Too Large"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
    };
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Status";
}

void control_reply_text(struct control_request *request, int status, const char *type,
                        struct str text)
{
    ASSERT(request->magic == REQUEST_MAGIC && !request->streaming);
    control_header_set(request, "Content-Type", type);
    struct evbuffer *body = evbuffer_new();
    evbuffer_add(body, text.ptr, text.len);
    evhttp_send_reply(request->http, status, reason_of(status), body);
    evbuffer_free(body);
    request_free(request);
}

void control_reply(struct control_request *request, int status, struct str json)
{
    control_reply_text(request, status, "application/json", json);
}

void control_problem(struct control_request *request, int status, const char *code,
                     const struct json *errors, const char *fmt, ...)
{
    struct arena *arena = &request->arena;
    struct buf detail = {0};
    va_list args;
    va_start(args, fmt);
    buf_vprintf(&detail, fmt, args);
    va_end(args);
    struct json *problem = json_object_new(arena, 6);
    json_object_add_z(problem, "type", json_string_z(arena, "about:blank"));
    json_object_add_z(problem, "title", json_string_z(arena, reason_of(status)));
    json_object_add_z(problem, "status", json_int(arena, status));
    json_object_add_z(problem, "code", json_string_z(arena, code));
    json_object_add_z(problem, "detail", json_string(arena, arena_str(arena, buf_str(&detail))));
    buf_free(&detail);
    if (errors)
        json_object_add_z(problem, "errors", errors);
    if (status == 503 || status == 429)
        control_header_set(request, "Retry-After", "1");
    control_reply_text(request, status, "application/problem+json", json_text(problem, arena));
}

static void on_stream_closed(struct evhttp_connection *connection, void *arg)
{
    struct control_request *request;
    (void)connection;
    CAST_OBJ(request, arg, REQUEST_MAGIC);
    request_gone(request);
}

void control_stream_begin(struct control_request *request)
{
    ASSERT(!request->streaming);
    control_header_set(request, "Content-Type", "text/event-stream");
    control_header_set(request, "Cache-Control", "no-store");
    evhttp_send_reply_start(request->http, 200, "OK");
    request->streaming = true;
    evhttp_connection_set_closecb(evhttp_request_get_connection(request->http), on_stream_closed,
                                  request);
}

void control_stream_event(struct control_request *request, struct str id, struct str data)
{
    ASSERT(request->streaming);
    struct evbuffer *chunk = evbuffer_new();
    evbuffer_add_printf(chunk, "id: " STR_FMT "\ndata: ", STR_ARG(id));
    evbuffer_add(chunk, data.ptr, data.len);
    evbuffer_add(chunk, "\n\n", 2);
    evhttp_send_reply_chunk(request->http, chunk);
    evbuffer_free(chunk);
}

void control_stream_end(struct control_request *request)
{
    ASSERT(request->streaming);
    struct evhttp_connection *connection = evhttp_request_get_connection(request->http);
    if (connection)
        evhttp_connection_set_closecb(connection, NULL, NULL);
    evhttp_send_reply_end(request->http);
    request_free(request);
}

/* --- no descriptor for another client ----------------------------------------------------------
 */

static void accept_again(void *arg)
{
    struct control *control = arg;
    if (control->bound)
        evconnlistener_enable(evhttp_bound_socket_get_listener(control->bound));
}

static void accept_pause(struct control *control, const char *why)
{
    evconnlistener_disable(evhttp_bound_socket_get_listener(control->bound));
    loop_timer_set(control->accept_timer, ACCEPT_PAUSE_US);
    if (control->accept_told.us && loop_mono().us - control->accept_told.us < ACCEPT_TELL_US)
        return;
    control->accept_told = loop_mono();
    log_warn("cannot take connections on the control socket: %s", why);
}

/* The socket stays readable: without a pause this would come again at once, and again. */
static void on_accept_error(struct evconnlistener *listener, void *arg)
{
    int why = EVUTIL_SOCKET_ERROR();
    struct control *control = controls;
    (void)listener;
    while (control && (void *)control->http != arg) /* evhttp puts itself there */
        control = control->next;
    ASSERT(control);
    accept_pause(control, strerror(why));
}

/* Clients must leave descriptors for the work itself. The kernel gives out the lowest number that
 * is free, so that number tells about how many are in use. */
static struct bufferevent *on_accept(struct event_base *base, void *arg)
{
    struct control *control = arg;
    struct rlimit files;
    int lowest = fcntl(evhttp_bound_socket_get_fd(control->bound), F_DUPFD_CLOEXEC, 0);
    if (lowest >= 0)
        close(lowest);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 &&
        (lowest < 0 || (rlim_t)lowest >= files.rlim_cur - files.rlim_cur / DESCRIPTORS_KEPT_PART))
        accept_pause(control, "the descriptors that are left are kept for the runs");
    return bufferevent_socket_new(base, -1, 0); /* as evhttp itself would make it */
}

/* --- life ----------------------------------------------------------------------------------- */

static struct control *control_new(struct loop *loop, const char *path,
                                   void (*handle)(void *arg, struct control_request *request),
                                   void *arg)
{
    struct control *control = xcalloc(1, sizeof(*control));
    control->loop = loop;
    control->path = path ? xstrdup(path) : NULL;
    control->handle = handle;
    control->handle_arg = arg;
    return control;
}

static void control_listen(struct control *control, int fd)
{
    control->http = evhttp_new(loop_base(control->loop));
    ASSERT(control->http);
    evhttp_set_allowed_methods(control->http, EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_PUT |
                                                  EVHTTP_REQ_DELETE | EVHTTP_REQ_HEAD |
                                                  EVHTTP_REQ_PATCH | EVHTTP_REQ_OPTIONS);
    evhttp_set_max_headers_size(control->http, CONTROL_HEADERS_BYTES_MAX);
    evhttp_set_max_body_size(control->http, CONTROL_BODY_BYTES_MAX);
    evhttp_set_timeout(control->http, CONTROL_IDLE_S);
    evhttp_set_default_content_type(control->http, NULL);
    evhttp_set_bevcb(control->http, on_accept, control);
    evhttp_set_gencb(control->http, on_request, control);
    control->bound = evhttp_accept_socket_with_handle(control->http, fd);
    ASSERT(control->bound);
    struct evconnlistener *listener = evhttp_bound_socket_get_listener(control->bound);
    control->accept_timer = loop_timer_new(control->loop, accept_again, control);
    evconnlistener_set_error_cb(listener, on_accept_error);
    control->next = controls;
    controls = control;
}

int control_open(struct loop *loop, const char *path,
                 void (*handle)(void *arg, struct control_request *request), void *arg,
                 struct control **out, struct err *err)
{
    struct control *control = control_new(loop, path, handle, arg);
    int fd = socket_bind(control, err);
    if (fd < 0) {
        free(control->path);
        free(control);
        return err->code;
    }
    control_listen(control, fd);
    *out = control;
    return 0;
}

int control_open_tcp(struct loop *loop, const char *address,
                     void (*handle)(void *arg, struct control_request *request), void *arg,
                     struct control **out, struct err *err)
{
    struct sockaddr_storage to;
    int size = sizeof(to), on = 1;
    char text[80];
    bool port_alone = address[0] && !address[strspn(address, "0123456789")];
    snprintf(text, sizeof(text), "%s%s", port_alone ? "127.0.0.1:" : "", address);
    const char *colon = strrchr(text, ':'), *bracket = strrchr(text, ']');
    if (!colon || (bracket && colon < bracket) ||
        evutil_parse_sockaddr_port(text, (struct sockaddr *)&to, &size) != 0)
        return err_set(err, ERR_INVALID,
                       "\"%.80s\" is no address like 9464, 127.0.0.1:9464 or [::1]:9464", address);
    int fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(fd, (const struct sockaddr *)&to, (socklen_t)size) != 0 || listen(fd, 16) != 0) {
        err_set(err, ERR_IO, "could not listen on \"%s\": %s", text, strerror(errno));
        if (fd >= 0)
            close(fd);
        return err->code;
    }
    *out = control_new(loop, NULL, handle, arg);
    control_listen(*out, fd);
    return 0;
}

void control_stop(struct control *control)
{
    struct stat info;
    if (!control->bound)
        return;
    if (control->path && lstat(control->path, &info) == 0 && info.st_dev == control->dev &&
        info.st_ino == control->ino)
        unlink(control->path);
    evhttp_del_accept_socket(control->http, control->bound);
    control->bound = NULL;
    loop_timer_stop(control->accept_timer);
}

void control_close(struct control *control)
{
    if (!control)
        return;
    struct control **at = &controls;
    while (*at != control)
        at = &(*at)->next;
    *at = control->next;
    control_stop(control);
    loop_timer_free(control->accept_timer);
    evhttp_free(control->http);
    free(control->path);
    free(control);
}
