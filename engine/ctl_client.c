#include "engine/ctl_client.h"

#include "engine/base/uri.h"
#include "engine/control.h"
#include "engine/ctl_json.h"
#include "engine/ctl_text.h"
#include "engine/ctl_verbs.h"
#include "engine/version.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

struct ctl_client {
    CURL *easy;
    char socket[4096];       /* as named in messages; "" until chosen */
    char socket_short[4096]; /* what is connected to: fits into an address */
    struct buf tried;        /* where none was found, a line each */
};

struct ctl_client *ctl_client_new(struct ctl *ctl)
{
    (void)ctl;
    return xcalloc(1, sizeof(struct ctl_client));
}

void ctl_client_free(struct ctl_client *client)
{
    if (!client)
        return;
    if (client->easy)
        curl_easy_cleanup(client->easy);
    buf_free(&client->tried);
    free(client);
}

/* --- which socket ---------------------------------------------------------------------------- */

static bool socket_try(struct ctl_client *client, const char *path)
{
    struct stat info;
    if (stat(path, &info) == 0 && S_ISSOCK(info.st_mode)) {
        snprintf(client->socket, sizeof(client->socket), "%s", path);
        return true;
    }
    buf_printf(&client->tried, "\n    %s: %s", path,
               errno == EACCES ? "permission denied" : "no socket there");
    return false;
}

/* True if whoever made `dir`/.saga may speak for `dir`: its owner, root, or ourselves. */
static bool saga_dir_trusted(const struct stat *dir, const struct stat *saga)
{
    return saga->st_uid == dir->st_uid || saga->st_uid == 0 || saga->st_uid == geteuid();
}

static bool socket_find_upwards(struct ctl_client *client)
{
    char dir[3500], path[4096];
    struct stat dir_info, saga_info;
    if (!getcwd(dir, sizeof(dir)))
        return false;
    for (;;) {
        const char *slash = strcmp(dir, "/") == 0 ? "" : "/";
        snprintf(path, sizeof(path), "%s%s.saga", dir, slash);
        if (stat(dir, &dir_info) == 0 && stat(path, &saga_info) == 0) {
            snprintf(path, sizeof(path), "%s%s.saga/sagad.sock", dir, slash);
            if (!saga_dir_trusted(&dir_info, &saga_info))
                buf_printf(&client->tried, "\n    %s: passed, it belongs to another user", path);
            else if (socket_try(client, path))
                return true;
        }
        char *last = strrchr(dir, '/');
        if (!last || !dir[1])
            break;
        last[last == dir] = '\0';
    }
    if (!client->tried.len)
        buf_add_z(&client->tried, "\n    .saga/sagad.sock here and in every directory above: none");
    return false;
}

/* NULL: the usual places are looked at. */
static const char *socket_named(struct ctl *ctl)
{
    const char *named = ctl_option(ctl, OPT_SOCKET);
    if (!named)
        named = getenv("SAGA_SOCKET");
    return named && *named ? named : NULL;
}

static bool socket_choose(struct ctl *ctl)
{
    struct ctl_client *client = ctl->client;
    char path[4096];
    const char *named = socket_named(ctl), *runtime = getenv("XDG_RUNTIME_DIR");
    if (named)
        return socket_try(client, named);
    if (socket_find_upwards(client))
        return true;
    if (runtime && *runtime) {
        snprintf(path, sizeof(path), "%s/sagad.sock", runtime);
        if (socket_try(client, path))
            return true;
    }
    return socket_try(client, "/run/sagad/sagad.sock");
}

/* A path that does not fit into a socket address is reached through its directory. */
static void socket_shorten(struct ctl_client *client)
{
    char dir[4096];
    char *last;
    snprintf(client->socket_short, sizeof(client->socket_short), "%s", client->socket);
    if (strlen(client->socket) < sizeof(((struct sockaddr_un *)0)->sun_path))
        return;
    snprintf(dir, sizeof(dir), "%s", client->socket);
    last = strrchr(dir, '/');
    if (!last)
        return;
    *last = '\0';
    int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC); /* for the life of the process */
    if (fd >= 0)
        snprintf(client->socket_short, sizeof(client->socket_short), "/proc/self/fd/%d/%s", fd,
                 last + 1);
}

static int client_ready(struct ctl *ctl, struct err *err)
{
    struct ctl_client *client = ctl->client;
    if (client->socket_short[0])
        return 0;
    if (!socket_choose(ctl))
        return err_set(err, ERR_UNAVAILABLE, "no daemon found: there is no control socket");
    socket_shorten(client);
    return 0;
}

void ctl_unreachable_hint(struct ctl *ctl)
{
    struct ctl_client *client = ctl->client;
    if (client->socket[0]) {
        ctl_hint(ctl, "  start it: sagad --dev DIR, or as it is started here");
        return;
    }
    ctl_hint(ctl, "  looked at:" STR_FMT, STR_ARG(buf_str(&client->tried)));
    if (socket_named(ctl)) {
        ctl_hint(ctl, "  start one there: sagad --socket %s ..., or name the socket of another",
                 socket_named(ctl));
        return;
    }
    ctl_hint(ctl,
             "  start one here: sagad --dev .   or name its socket: --socket PATH, SAGA_SOCKET");
}

/* --- one request ------------------------------------------------------------------------------ */

struct transfer {
    struct ctl *ctl;
    CURL *easy;
    struct ctl_reply *reply;
    struct buf body;
    struct curl_slist *headers;
    const struct ctl_stream *stream;
    struct buf line_rest, id, data; /* of the stream */
    bool too_large, stopped;
};

static size_t on_body(char *bytes, size_t size, size_t count, void *arg);
static size_t on_header(char *line, size_t size, size_t count, void *arg);

static void header_add(struct transfer *transfer, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void header_add(struct transfer *transfer, const char *fmt, ...)
{
    struct buf line = {0};
    va_list args;
    va_start(args, fmt);
    buf_vprintf(&line, fmt, args);
    va_end(args);
    transfer->headers = curl_slist_append(transfer->headers, line.data);
    ASSERT(transfer->headers);
    buf_free(&line);
}

static void easy_prepare(struct transfer *transfer, struct str path)
{
    CURL *easy = transfer->easy;
    struct ctl_client *client = transfer->ctl->client;
    struct str url = arena_printf(&transfer->ctl->scratch, "http://saga" STR_FMT, STR_ARG(path));
    curl_easy_reset(easy);
    curl_easy_setopt(easy, CURLOPT_URL, url.ptr);
    curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, client->socket_short);
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L); /* a run may be called ".." */
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, 5L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "sagactl/" SAGA_VERSION);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
}

static void easy_prepare_request(struct transfer *transfer, const struct ctl_request *request)
{
    CURL *easy = transfer->easy;
    easy_prepare(transfer, request->path);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT, (long)(CTL_CALL_TIMEOUT_S + request->wait_s));
    header_add(transfer, "Expect:");
    if (request->body.ptr || strcmp(request->method, "GET") != 0) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.len);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body.ptr ? request->body.ptr : "");
        curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
        curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
        header_add(transfer, "Content-Type: %s",
                   request->content_type ? request->content_type : "application/json");
    }
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
    if (request->wait_s)
        header_add(transfer, "Prefer: wait=%d", request->wait_s);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer->headers);
}

static size_t on_header(char *line, size_t size, size_t count, void *arg)
{
    struct transfer *transfer = arg;
    struct str text = {line, size * count};
    static const struct str replayed = {"idempotency-replayed: true", 26};
    if (text.len >= replayed.len && strncasecmp(text.ptr, replayed.ptr, replayed.len) == 0)
        transfer->reply->replayed = true;
    if (text.len > 12 && strncasecmp(text.ptr, "retry-after:", 12) == 0)
        transfer->reply->retry_after_s = atoi(text.ptr + 12);
    if (text.len > 13 && strncasecmp(text.ptr, "content-type:", 13) == 0)
        transfer->reply->is_problem = memmem(text.ptr, text.len, "problem+json", 12) != NULL;
    return text.len;
}

/* Turns libcurl's failure into one of ours. */
static int failure_of(CURL *easy, CURLcode code, struct ctl_client *client, struct err *err)
{
    long os_errno = 0;
    curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &os_errno);
    if (code == CURLE_COULDNT_CONNECT && (os_errno == EACCES || os_errno == EPERM))
        return err_set(err, ERR_PERMISSION,
                       "permission denied at the socket %s; it is open to its owner and group",
                       client->socket);
    if (code == CURLE_COULDNT_CONNECT && os_errno == ECONNREFUSED)
        return err_set(err, ERR_UNAVAILABLE, "nobody listens on %s: the daemon is not running",
                       client->socket);
    if (code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST)
        return err_set(err, ERR_UNAVAILABLE, "could not connect to %s: %s", client->socket,
                       os_errno ? strerror((int)os_errno) : curl_easy_strerror(code));
    if (code == CURLE_OPERATION_TIMEDOUT)
        return err_set(err, ERR_TIMEOUT, "no answer from the daemon at %s", client->socket);
    return err_set(err, ERR_TIMEOUT, "the connection to the daemon at %s broke: %s", client->socket,
                   curl_easy_strerror(code));
}

int ctl_call(struct ctl *ctl, const struct ctl_request *request, struct ctl_reply *out,
             struct err *err)
{
    struct ctl_client *client = ctl->client;
    struct transfer transfer = {.ctl = ctl, .reply = out};
    long status = 0;
    *out = (struct ctl_reply){0};
    /* Said here, because a daemon that stops reading in the middle cannot say it. */
    if (request->body.len > CONTROL_BODY_BYTES_MAX)
        return err_set(err, ERR_INVALID, "a request of %zu bytes is too large, the limit is %d",
                       request->body.len, CONTROL_BODY_BYTES_MAX);
    if (client_ready(ctl, err) != 0)
        return err->code;
    if (!client->easy)
        client->easy = curl_easy_init();
    ASSERT(client->easy);
    transfer.easy = client->easy;
    easy_prepare_request(&transfer, request);
    CURLcode code = curl_easy_perform(client->easy);
    curl_slist_free_all(transfer.headers);
    curl_easy_getinfo(client->easy, CURLINFO_RESPONSE_CODE, &status);
    out->status = (int)status;
    out->body = arena_str(&ctl->scratch, buf_str(&transfer.body));
    buf_free(&transfer.body);
    if (transfer.too_large)
        return err_set(err, ERR_INTERNAL, "the daemon's answer is too large");
    /* A daemon that refuses a body by its size answers before it has read all of it. */
    if (code != CURLE_OK && !(code == CURLE_SEND_ERROR && status >= 400))
        return failure_of(client->easy, code, client, err);
    return 0;
}

/* --- streams ---------------------------------------------------------------------------------- */

static void stream_line(struct transfer *transfer, struct str line)
{
    const struct ctl_stream *stream = transfer->stream;
    if (line.len && line.ptr[line.len - 1] == '\r')
        line.len--;
    if (!line.len) { /* the end of an event */
        if (transfer->data.len && !transfer->stopped)
            transfer->stopped =
                !stream->event(stream->arg, buf_str(&transfer->id), buf_str(&transfer->data));
        buf_clear(&transfer->data);
        return;
    }
    const char *colon = memchr(line.ptr, ':', line.len);
    struct str name = {line.ptr, colon ? (size_t)(colon - line.ptr) : line.len};
    struct str value = {line.ptr + name.len + (colon != NULL), 0};
    value.len = (size_t)(line.ptr + line.len - value.ptr);
    if (value.len && value.ptr[0] == ' ')
        value = (struct str){value.ptr + 1, value.len - 1};
    if (str_eq(name, STR("id"))) {
        buf_clear(&transfer->id);
        buf_add_str(&transfer->id, value);
    } else if (str_eq(name, STR("data"))) {
        if (transfer->data.len)
            buf_add_char(&transfer->data, '\n');
        buf_add_str(&transfer->data, value);
    }
}

static size_t on_body(char *bytes, size_t size, size_t count, void *arg)
{
    struct transfer *transfer = arg;
    size_t len = size * count;
    long status = 0;
    curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    bool is_stream = transfer->stream && status == 200;
    struct buf *into = is_stream ? &transfer->line_rest : &transfer->body;
    if (into->len + len > CTL_REPLY_BYTES_MAX) {
        transfer->too_large = true;
        return 0;
    }
    buf_add(into, bytes, len);
    char *end;
    while (is_stream && !transfer->stopped && into->len &&
           (end = memchr(into->data, '\n', into->len)) != NULL) {
        size_t line = (size_t)(end - into->data);
        stream_line(transfer, (struct str){into->data, line});
        buf_drain(into, line + 1);
    }
    return transfer->stopped ? 0 : len;
}

bool ctl_reader_gone(void)
{
    struct pollfd fd = {.fd = STDOUT_FILENO};
    return poll(&fd, 1, 0) > 0 && (fd.revents & (POLLERR | POLLNVAL));
}

/* Drives the stream until it ends, is stopped, or stdout's reader has gone: nothing that comes
 * then would be read. */
static CURLcode stream_perform(CURLM *multi, struct transfer *transfer)
{
    const struct ctl_stream *stream = transfer->stream;
    struct curl_waitfd out = {.fd = STDOUT_FILENO};
    CURLMsg *message;
    int running = 1, left;
    for (;;) {
        curl_multi_perform(multi, &running);
        while ((message = curl_multi_info_read(multi, &left)) != NULL)
            if (message->msg == CURLMSG_DONE)
                return message->data.result;
        if (transfer->stopped || (stream->tick && !stream->tick(stream->arg)))
            return CURLE_OK;
        curl_multi_poll(multi, &out, 1, stream->tick_ms ? stream->tick_ms : 1000, NULL);
        if (ctl_reader_gone())
            return CURLE_OK;
    }
}

int ctl_stream(struct ctl *ctl, const struct ctl_stream *stream, struct ctl_reply *reply,
               struct err *err)
{
    struct transfer transfer = {.ctl = ctl, .reply = reply, .stream = stream};
    long status = 0;
    int failed = 0;
    *reply = (struct ctl_reply){0};
    if (client_ready(ctl, err) != 0)
        return err->code;
    CURLM *multi = curl_multi_init();
    transfer.easy = curl_easy_init();
    ASSERT(multi && transfer.easy);
    easy_prepare(&transfer, stream->path);
    header_add(&transfer, "Accept: text/event-stream");
    if (stream->last_id.len)
        header_add(&transfer, "Last-Event-ID: " STR_FMT, STR_ARG(stream->last_id));
    curl_easy_setopt(transfer.easy, CURLOPT_HTTPHEADER, transfer.headers);
    curl_multi_add_handle(multi, transfer.easy);
    CURLcode code = stream_perform(multi, &transfer);
    curl_easy_getinfo(transfer.easy, CURLINFO_RESPONSE_CODE, &status);
    reply->status = (int)status;
    reply->body = arena_str(&ctl->scratch, buf_str(&transfer.body));
    if (transfer.too_large)
        failed = err_set(err, ERR_INTERNAL, "an event of the daemon is too large");
    else if (!status && code != CURLE_OK)
        failed = failure_of(transfer.easy, code, ctl->client, err);
    curl_multi_remove_handle(multi, transfer.easy);
    curl_easy_cleanup(transfer.easy);
    curl_multi_cleanup(multi);
    curl_slist_free_all(transfer.headers);
    buf_free(&transfer.body);
    buf_free(&transfer.line_rest);
    buf_free(&transfer.id);
    buf_free(&transfer.data);
    return failed;
}

/* --- refusals --------------------------------------------------------------------------------- */

static int exit_of_status(int status)
{
    switch (status) {
    case 400:
    case 413:
    case 422:
    case 501: return CTL_USAGE;
    case 401:
    case 403: return CTL_PERMISSION;
    case 404: return CTL_NOT_FOUND;
    case 409: return CTL_CONFLICT;
    default: return CTL_ERROR;
    }
}

/* "input/amount_cents: must be at least 1" and a help line. */
static void problem_error_say(struct ctl *ctl, const struct json *error)
{
    struct str pointer = json_get_text(error, "pointer"), help = json_get_text(error, "help");
    struct str message = json_get_text(error, "message");
    if (message.ptr)
        ctl_hint(ctl, "  " STR_FMT "%s" STR_FMT, STR_ARG(pointer), pointer.len ? ": " : "",
                 STR_ARG(message));
    if (help.len)
        ctl_hint(ctl, "    help: " STR_FMT, STR_ARG(help));
}

int ctl_refused(struct ctl *ctl, const struct ctl_reply *reply)
{
    const struct json *problem = NULL, *errors;
    struct err err;
    if (ctl_json_parse(reply->body, &ctl->scratch, &problem, &err) != 0)
        problem = NULL;
    struct str detail = json_get_text(problem, "detail"), code = json_get_text(problem, "code");
    if (!detail.len)
        detail = json_get_text(problem, "title");
    if (detail.len)
        ctl_say(ctl, STR_FMT "%s" STR_FMT "%s", STR_ARG(detail), code.len ? " (" : "",
                STR_ARG(code), code.len ? ")" : "");
    else
        ctl_say(ctl, "%sthe daemon answered with HTTP status %d",
                reply->status == 413 ? "what was sent is too large: " : "", reply->status);
    errors = json_get_z(problem, "errors");
    for (uint32_t i = 0; errors && errors->kind == JSON_LIST && i < errors->count; i++)
        problem_error_say(ctl, errors->items[i]);
    if ((reply->status == 429 || reply->status == 503) && reply->retry_after_s)
        ctl_hint(ctl, "try again in %d s", reply->retry_after_s);
    return exit_of_status(reply->status);
}

int ctl_get(struct ctl *ctl, struct str path, struct ctl_reply *reply, const struct json **json)
{
    struct ctl_request request = {.method = "GET", .path = path};
    const struct json *parsed;
    struct err err;
    if (ctl_call(ctl, &request, reply, &err) != 0)
        return ctl_fail(ctl, &err);
    if (reply->status != 200)
        return ctl_refused(ctl, reply);
    if (ctl_json_parse(reply->body, &ctl->scratch, &parsed, &err) != 0) {
        ctl_say(ctl, "the daemon's answer cannot be read: %s", err.text);
        return CTL_ERROR;
    }
    if (json)
        *json = parsed;
    return CTL_OK;
}

struct str ctl_path(struct ctl *ctl, const char *before, struct str part, const char *after)
{
    struct buf path = {0};
    buf_add_z(&path, before);
    uri_encode(part, &path);
    buf_add_z(&path, after);
    struct str kept = arena_str(&ctl->scratch, buf_str(&path));
    buf_free(&path);
    return kept;
}
