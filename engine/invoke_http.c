/*
 * Objects: a `transfer` is one invocation; it waits in the queue of its `target` (one base URL)
 * until a `carrier` (an easy handle) is free, and then flies on a `lane` (a multi handle with its
 * own connections) of the target. libcurl never queues anything.
 */
#include "engine/invoke_http.h"

#include "engine/failpoint.h"
#include "engine/http_request.h"
#include "engine/http_text.h"
#include "engine/idmap.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECT_TIMEOUT_US (5 * SECOND_US)
#define TARGETS_MAX 64                 /* idle ones are dropped past it */
#define SPARE_TRANSFERS_MAX 64         /* kept for reuse with their memory */
#define QUEUE_SWEEP_US (100 * MS_US)   /* how late a waiting transfer may notice its limit */
#define LANE_SWEEP_US (15 * SECOND_US) /* how often idle lanes are looked for */
#define LANE_IDLE_US (30 * SECOND_US)  /* their connections are closed then */
#define CONNECTION_IDLE_SECONDS 15L    /* not reused after that: many servers close at 15 to 60 */

#define LANES_MAX (HTTP_TRANSFERS_MAX / HTTP_LANE_TRANSFERS_MAX)

enum transfer_state { TRANSFER_NONE, TRANSFER_QUEUED, TRANSFER_FLYING, TRANSFER_ENDED };

struct transfer {
    struct transfer *next, *prev; /* in the queue of its target, or among the ended ones */
    enum transfer_state state;
    uint64_t id;
    struct invoke_http *http;
    struct target *target;
    struct carrier *carrier; /* while flying */
    struct arena arena;      /* everything of the request, and of the reply */

    const char *service;
    struct http_request request;
    const char *path;         /* with the base URL's own path in front */
    struct curl_slist *lines; /* the headers */
    bool fresh_connection;
    struct mono limit_at;
    int64_t timeout_us;
    struct wall sent_at;

    bool may_have_left; /* a connection stood and the request was about to go out */
    bool resend_caught;
    bool held_back;    /* by may_send */
    bool starved;      /* no descriptor or no memory for a socket */
    bool dialed;       /* some address may be connected to */
    struct str barred; /* an address that may not, and why */
    bool too_large;
    bool head_whole; /* up to its empty line */
    struct buf head, answer;

    enum reply_kind ended_as; /* TRANSFER_ENDED */
    struct str error;
};

struct transfers { /* a list */
    struct transfer *first, *last;
};

struct carrier {
    struct carrier *next; /* among the free ones */
    struct invoke_http *http;
    CURL *easy;
    struct target *target; /* whose URL is set */
    struct lane *lane;     /* while flying */
    struct transfer *transfer;
    bool fresh_connection; /* is set */
    char error[CURL_ERROR_SIZE];
};

/* One socket of a lane. Between requests it stays with the kernel's poll set: taking it out and
 * putting it back would be two system calls a request. */
struct watch {
    struct lane *lane;
    curl_socket_t socket;
    struct loop_fd *fd;
    bool wanted; /* libcurl waits for it */
};

struct lane {
    struct target *target;
    CURLM *multi;
    struct loop_timer *timer;
    struct loop_call call;
    bool kicked; /* libcurl wants its timeouts handled now */
    unsigned flying;
    struct mono idle_since;
};

struct target {
    struct target *next;
    struct invoke_http *http;
    char *url;
    const char *path; /* of the URL: in front of every request's */
    CURLU *parsed;
    char *host; /* of the URL, as libcurl understands it */
    struct transfers queue;
    unsigned flying;
    struct lane *lanes[LANES_MAX];
    unsigned lanes_count; /* lanes[] up to here may be NULL */
};

struct invoke_http {
    unsigned magic;
    struct invoke_http_options options;
    struct port_invoke port;
    struct loop *loop;
    struct target *targets;
    unsigned targets_count;
    struct idmap by_id;
    struct idmap idle;      /* watches of idle connections, by socket + 1 */
    struct transfers ended; /* answered at the next deferred call */
    struct loop_call flush_call, pump_call;
    struct transfer *spare;
    unsigned spare_count;
    struct carrier *carriers; /* free ones */
    unsigned flying, flying_max, target_flying_max, queued;
    struct loop_timer *queue_timer, *lane_timer;
    bool draining;
};

#define INVOKE_HTTP_MAGIC 0x68747470

static void flush(void *arg);
static void pump(void *arg);
static void lane_turn(void *arg);

/* --- lists, memory --- */

static void transfers_add(struct transfers *list, struct transfer *transfer)
{
    transfer->next = NULL;
    transfer->prev = list->last;
    if (list->last)
        list->last->next = transfer;
    else
        list->first = transfer;
    list->last = transfer;
}

static void transfers_remove(struct transfers *list, struct transfer *transfer)
{
    if (transfer->prev)
        transfer->prev->next = transfer->next;
    else
        list->first = transfer->next;
    if (transfer->next)
        transfer->next->prev = transfer->prev;
    else
        list->last = transfer->prev;
}

static struct transfer *transfer_new(struct invoke_http *http, const struct invocation *invocation)
{
    struct transfer *transfer = http->spare;
    if (transfer) {
        http->spare = transfer->next;
        http->spare_count--;
    } else {
        transfer = xcalloc(1, sizeof(*transfer));
    }
    transfer->http = http;
    transfer->id = invocation->id;
    idmap_put(&http->by_id, transfer->id, transfer);
    return transfer;
}

static void transfer_free(struct transfer *transfer)
{
    struct invoke_http *http = transfer->http;
    struct transfer kept = {.arena = transfer->arena, .head = transfer->head};
    idmap_remove(&http->by_id, transfer->id);
    buf_free(&transfer->answer);
    if (http->spare_count == SPARE_TRANSFERS_MAX) {
        buf_free(&kept.head);
        arena_free(&kept.arena);
        free(transfer);
        return;
    }
    arena_reset(&kept.arena);
    buf_clear(&kept.head);
    kept.next = http->spare;
    *transfer = kept;
    http->spare = transfer;
    http->spare_count++;
}

/* Ends a transfer that has no answer; it is told at the next deferred call, so that start and
 * drop never call back. */
static void end(struct transfer *transfer, enum reply_kind kind, struct str error)
{
    transfer->state = TRANSFER_ENDED;
    transfer->ended_as = kind;
    transfer->error = error;
    transfers_add(&transfer->http->ended, transfer);
    loop_defer(transfer->http->loop, &transfer->http->flush_call, flush, transfer->http);
}

static void tell(struct transfer *transfer, const struct reply *reply)
{
    const struct invoke_http_options *options = &transfer->http->options;
    options->reply(options->reply_arg, transfer->id, reply);
    transfer_free(transfer);
}

static void flush(void *arg)
{
    struct invoke_http *http;
    CAST_OBJ(http, arg, INVOKE_HTTP_MAGIC);
    while (http->ended.first) {
        struct transfer *transfer = http->ended.first;
        transfers_remove(&http->ended, transfer);
        struct reply reply = {
            .kind = transfer->ended_as,
            .sent_at = transfer->sent_at,
            .ended_at = loop_wall(http->loop),
            .error = transfer->error,
        };
        tell(transfer, &reply);
    }
}

/* --- the request in libcurl's form --- */

/* The nodes of the list lie in the arena: libcurl only reads them. */
static void line_add(struct transfer *transfer, struct curl_slist ***end, const char *line)
{
    struct curl_slist *node = arena_new(&transfer->arena, struct curl_slist);
    node->data = (char *)line;
    **end = node;
    *end = &node->next;
}

static void lines_make(struct transfer *transfer)
{
    const struct http_request *request = &transfer->request;
    struct curl_slist **end = &transfer->lines;
    for (uint16_t i = 0; i < request->headers_count; i++) {
        struct str name = request->headers[i].name, value = request->headers[i].value;
        /* libcurl takes "Name:" as "leave it out"; "Name;" sends it empty. */
        char *line = arena_alloc(&transfer->arena, name.len + value.len + 3);
        memcpy(line, name.ptr, name.len);
        memcpy(line + name.len, value.len ? ": " : ";", value.len ? 2 : 1);
        if (value.len)
            memcpy(line + name.len + 2, value.ptr, value.len);
        line_add(transfer, &end, line);
    }
    line_add(transfer, &end, "Expect:");
    if (!request->has_content_type)
        line_add(transfer, &end, "Content-Type:"); /* its own would say that it is a form */
}

/* --- targets and lanes --- */

static void lane_free(struct lane *lane)
{
    loop_defer_cancel(lane->target->http->loop, &lane->call);
    curl_multi_cleanup(lane->multi);
    loop_timer_free(lane->timer);
    free(lane);
}

static void target_free(struct target *target)
{
    for (unsigned i = 0; i < target->lanes_count; i++)
        if (target->lanes[i])
            lane_free(target->lanes[i]);
    for (struct carrier *carrier = target->http->carriers; carrier; carrier = carrier->next)
        if (carrier->target == target)
            carrier->target = NULL;
    curl_url_cleanup(target->parsed);
    curl_free(target->host);
    free(target->url);
    free(target);
}

static struct target *target_new(struct invoke_http *http, const char *url)
{
    CURLU *parsed = curl_url();
    char *host;
    if (!parsed || curl_url_set(parsed, CURLUPART_URL, url, CURLU_DISALLOW_USER) != CURLUE_OK ||
        curl_url_get(parsed, CURLUPART_HOST, &host, 0) != CURLUE_OK) {
        curl_url_cleanup(parsed);
        return NULL;
    }
    struct target *target = xcalloc(1, sizeof(*target));
    target->http = http;
    target->url = xstrdup(url);
    target->parsed = parsed;
    target->host = host;
    const char *path = strchr(strstr(target->url, "://") + 3, '/');
    target->path = path ? path : "";
    if (strcmp(target->path, "/") == 0)
        target->path = "";
    target->next = http->targets;
    http->targets = target;
    http->targets_count++;
    return target;
}

static int target_find(struct transfer *transfer, const struct plan_service *service,
                       struct err *err)
{
    struct invoke_http *http = transfer->http;
    const char *url = NULL;
    if (http->options.url)
        url = http->options.url(http->options.url_arg, service->name);
    if (!url)
        url = service->url;
    if (!url)
        return err_set(err, ERR_NOT_FOUND, "no URL is known");
    for (struct target *target = http->targets; target; target = target->next)
        if (strcmp(target->url, url) == 0) {
            transfer->target = target;
            return 0;
        }
    const char *problem = http_url_problem(str_z(url));
    transfer->target = problem ? NULL : target_new(http, url);
    if (!transfer->target)
        return err_set(err, ERR_INVALID, "the URL cannot be used: %s",
                       problem ? problem : "it cannot be parsed");
    return 0;
}

static void lane_kick(struct lane *lane)
{
    lane->kicked = true;
    loop_defer(lane->target->http->loop, &lane->call, lane_turn, lane);
}

static void lane_timer_fired(void *arg)
{
    lane_kick(arg);
}

static int lane_timer_wanted(CURLM *multi, long wait_ms, void *arg)
{
    struct lane *lane = arg;
    (void)multi;
    if (wait_ms > 0) {
        loop_timer_set(lane->timer, wait_ms * MS_US);
        return 0;
    }
    loop_timer_stop(lane->timer);
    if (wait_ms == 0)
        lane_kick(lane);
    return 0;
}

static void lane_socket_ready(void *arg, unsigned ready)
{
    struct watch *watch = arg;
    struct lane *lane = watch->lane;
    int running;
    int bits = ready == LOOP_WRITE ? CURL_CSELECT_OUT : CURL_CSELECT_IN;
    if (!watch->wanted) { /* closed by the server while idle: libcurl finds out when it looks */
        loop_fd_want(watch->fd, 0);
        return;
    }
    loop_defer(lane->target->http->loop, &lane->call, lane_turn, lane);
    curl_multi_socket_action(lane->multi, watch->socket, bits, &running);
}

static void watch_free(struct watch *watch)
{
    loop_fd_free(watch->fd);
    free(watch);
}

/* The watch of an idle connection, taken out of the idle ones; NULL: there is none. */
static struct watch *idle_take(struct invoke_http *http, curl_socket_t socket)
{
    struct watch *watch = idmap_get(&http->idle, (uint64_t)socket + 1);
    if (watch)
        idmap_remove(&http->idle, (uint64_t)socket + 1);
    return watch;
}

static void lane_socket_released(struct invoke_http *http, CURL *easy, struct watch *watch)
{
    struct carrier *carrier = NULL;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &carrier);
    /* Only of a connection that stood is the end told (http_socket_close). Others, and the
     * sockets of name look-ups, are closed without a word. */
    if (!carrier || !carrier->transfer || !carrier->transfer->may_have_left) {
        watch_free(watch);
        return;
    }
    watch->wanted = false;
    loop_fd_want(watch->fd, LOOP_READ);
    idmap_put(&http->idle, (uint64_t)watch->socket + 1, watch);
}

static int lane_socket_wanted(CURL *easy, curl_socket_t socket, int what, void *lane_arg,
                              void *watch_arg)
{
    struct lane *lane = lane_arg;
    struct invoke_http *http = lane->target->http;
    struct watch *watch = watch_arg;
    if (what == CURL_POLL_REMOVE) {
        if (watch)
            lane_socket_released(http, easy, watch);
        return 0;
    }
    if (!watch) {
        watch = idle_take(http, socket);
        if (!watch) {
            watch = xcalloc(1, sizeof(*watch));
            watch->socket = socket;
            watch->fd = loop_fd_new(http->loop, socket, lane_socket_ready, watch);
        }
        watch->lane = lane;
        curl_multi_assign(lane->multi, socket, watch);
    }
    watch->wanted = true;
    loop_fd_want(watch->fd,
                 (what & CURL_POLL_IN ? LOOP_READ : 0u) | (what & CURL_POLL_OUT ? LOOP_WRITE : 0u));
    return 0;
}

static struct lane *lane_new(struct target *target)
{
    CURLM *multi = curl_multi_init();
    if (!multi)
        return NULL;
    struct lane *lane = xcalloc(1, sizeof(*lane));
    lane->target = target;
    lane->multi = multi;
    lane->timer = loop_timer_new(target->http->loop, lane_timer_fired, lane);
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, lane_socket_wanted);
    curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, lane);
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, lane_timer_wanted);
    curl_multi_setopt(multi, CURLMOPT_TIMERDATA, lane);
    curl_multi_setopt(multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
    /* Above the connections in use, or every end of a transfer searches for one to close. */
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, 2L * HTTP_LANE_TRANSFERS_MAX);
    return lane;
}

/* The first lane with room: a lone request keeps using the same connection. */
static struct lane *lane_pick(struct target *target)
{
    for (unsigned i = 0; i < LANES_MAX; i++) {
        if (!target->lanes[i]) {
            target->lanes[i] = lane_new(target);
            target->lanes_count = MAX(target->lanes_count, i + 1);
        }
        if (!target->lanes[i] || target->lanes[i]->flying < HTTP_LANE_TRANSFERS_MAX)
            return target->lanes[i];
    }
    return NULL;
}

/* URLs come and go with configurations. Not done while targets are in use: only from here. */
static void idle_targets_drop(struct invoke_http *http)
{
    struct target **at = &http->targets;
    while (*at && http->targets_count > TARGETS_MAX) {
        struct target *target = *at;
        if (target->flying || target->queue.first) {
            at = &target->next;
            continue;
        }
        *at = target->next;
        http->targets_count--;
        target_free(target);
    }
}

static void lanes_sweep(void *arg)
{
    struct invoke_http *http;
    CAST_OBJ(http, arg, INVOKE_HTTP_MAGIC);
    bool some = false;
    for (struct target *target = http->targets; target; target = target->next)
        for (unsigned i = 0; i < target->lanes_count; i++) {
            struct lane *lane = target->lanes[i];
            if (lane && !lane->flying && loop_mono().us - lane->idle_since.us >= LANE_IDLE_US) {
                lane_free(lane);
                target->lanes[i] = NULL;
            }
            some = some || target->lanes[i];
        }
    idle_targets_drop(http);
    if (some)
        loop_timer_set(http->lane_timer, LANE_SWEEP_US);
}

/* --- callbacks of a transfer --- */

/* The connection stands. A second call means that libcurl found the first connection dead and is
 * about to send the same request again. */
static int carrier_about_to_send(void *arg, char *ip, char *local_ip, int port, int local_port)
{
    struct transfer *transfer = ((struct carrier *)arg)->transfer;
    (void)ip, (void)local_ip, (void)port, (void)local_port;
    if (transfer->may_have_left) {
        transfer->resend_caught = true;
        return CURL_PREREQFUNC_ABORT;
    }
    FAILPOINT("http_send");
    const struct invoke_http_options *options = &transfer->http->options;
    if (options->may_send && !options->may_send(options->may_send_arg)) {
        transfer->held_back = true;
        return CURL_PREREQFUNC_ABORT;
    }
    transfer->may_have_left = true;
    return CURL_PREREQFUNC_OK;
}

static bool is_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS ||
           error == EADDRNOTAVAIL || error == EAGAIN;
}

/* Connections are judged by their address, however the name was looked up; a connection that is
 * used again was judged when it was made. */
static bool is_barred(struct transfer *transfer, const struct sockaddr *address)
{
    const char *host = transfer->target->host;
    const char *problem = egress_problem(transfer->http->options.egress, str_z(host), address);
    char text[INET6_ADDRSTRLEN] = "?";
    if (!problem)
        return false;
    if (address->sa_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, text, sizeof(text));
    else if (address->sa_family == AF_INET6)
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)address)->sin6_addr, text, sizeof(text));
    if (!transfer->barred.ptr)
        transfer->barred = arena_printf(
            &transfer->arena, "service \"%s\": the address %s of \"%.200s\" is not allowed: %s",
            transfer->service, text, host, problem);
    return true;
}

static curl_socket_t carrier_socket_open(void *arg, curlsocktype purpose,
                                         struct curl_sockaddr *address)
{
    struct transfer *transfer = ((struct carrier *)arg)->transfer;
    (void)purpose;
    if (is_barred(transfer, &address->addr))
        return CURL_SOCKET_BAD;
    transfer->dialed = true;
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    if (fd < 0) {
        transfer->starved = is_shortage(errno);
        return CURL_SOCKET_BAD;
    }
    /* One whose end was not told: the number means another socket now. */
    struct watch *stale = idle_take(transfer->http, fd);
    if (stale)
        watch_free(stale);
    return fd;
}

static int http_socket_close(void *arg, curl_socket_t socket)
{
    struct invoke_http *http;
    CAST_OBJ(http, arg, INVOKE_HTTP_MAGIC);
    struct watch *watch = idle_take(http, socket);
    if (watch)
        watch_free(watch);
    return close(socket);
}

static size_t carrier_head(char *line, size_t size, size_t count, void *arg)
{
    struct transfer *transfer = ((struct carrier *)arg)->transfer;
    size_t len = size * count;
    if (len >= 5 && memcmp(line, "HTTP/", 5) == 0) {
        buf_clear(&transfer->head); /* an interim answer (1xx) came before */
        transfer->head_whole = false;
    }
    transfer->head_whole |= len <= 2 && (line[0] == '\r' || line[0] == '\n');
    if (transfer->head.len + len > HEADERS_BYTES_MAX) {
        transfer->too_large = true;
        return 0;
    }
    buf_add(&transfer->head, line, len);
    return len;
}

static size_t carrier_body(char *data, size_t size, size_t count, void *arg)
{
    struct transfer *transfer = ((struct carrier *)arg)->transfer;
    size_t len = size * count;
    if (transfer->answer.len + len > BODY_BYTES_MAX) {
        transfer->too_large = true;
        return 0;
    }
    buf_add(&transfer->answer, data, len);
    return len;
}

/* --- carriers --- */

/* Options that hold for the life of the handle. */
static void carrier_setup(struct carrier *carrier)
{
    CURL *easy = carrier->easy;
    const char *ca_file = carrier->http->options.ca_file;
    curl_easy_setopt(easy, CURLOPT_PRIVATE, carrier);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, carrier->error);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, carrier_about_to_send);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, carrier);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, carrier_socket_open);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, carrier);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, http_socket_close);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, carrier->http); /* outlives the handle */
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, carrier_head);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, carrier);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, carrier_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, carrier);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* the environment's proxies do not count */
    curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    /* Without it, a name server that does not answer blocks the whole loop: the end of the
     * transfer would wait for the thread that looks the name up. */
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, CONNECTION_IDLE_SECONDS);
    if (ca_file)
        curl_easy_setopt(easy, CURLOPT_CAINFO, ca_file);
}

static struct carrier *carrier_take(struct invoke_http *http)
{
    struct carrier *carrier = http->carriers;
    if (carrier) {
        http->carriers = carrier->next;
        return carrier;
    }
    CURL *easy = curl_easy_init();
    if (!easy)
        return NULL;
    carrier = xcalloc(1, sizeof(*carrier));
    carrier->http = http;
    carrier->easy = easy;
    carrier_setup(carrier);
    return carrier;
}

static void carrier_give_back(struct carrier *carrier)
{
    carrier->transfer = NULL;
    carrier->lane = NULL;
    carrier->next = carrier->http->carriers;
    carrier->http->carriers = carrier;
}

static void carrier_free(struct carrier *carrier)
{
    curl_easy_cleanup(carrier->easy);
    free(carrier);
}

/* Sets what changes from one request to the next. */
static bool carrier_load(struct carrier *carrier, struct transfer *transfer, int64_t left_us)
{
    CURL *easy = carrier->easy;
    int64_t connect_us = transfer->http->options.connect_timeout_us;
    const struct http_request *request = &transfer->request;
    /* POST, PUT and PATCH say "Content-Length: 0" when there is nothing to send. */
    bool has_body = request->body.ptr || request->method[0] == 'P';
    CURLcode code = CURLE_OK;
    if (carrier->target != transfer->target) {
        code |= curl_easy_setopt(easy, CURLOPT_CURLU, transfer->target->parsed);
        carrier->target = transfer->target;
    }
    code |= curl_easy_setopt(easy, CURLOPT_REQUEST_TARGET, transfer->path);
    code |= curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer->lines);
    if (has_body) {
        code |= curl_easy_setopt(easy, CURLOPT_POST, 1L);
        code |=
            curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body.ptr ? request->body.ptr : "");
        code |= curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)request->body.len);
    } else {
        code |= curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    }
    code |= curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
    /* Rounded up: a limit of less than a millisecond must not become "none". */
    code |= curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)((left_us + 999) / MS_US));
    code |= curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                             (long)((MIN(left_us, connect_us) + 999) / MS_US));
    if (carrier->fresh_connection != transfer->fresh_connection) {
        long fresh = transfer->fresh_connection;
        code |= curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, fresh);
        code |= curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, fresh);
        carrier->fresh_connection = transfer->fresh_connection;
    }
    carrier->error[0] = '\0';
    return code == CURLE_OK;
}

static void queue_leave(struct transfer *transfer)
{
    transfers_remove(&transfer->target->queue, transfer);
    transfer->http->queued--;
}

static void launch(struct transfer *transfer)
{
    struct invoke_http *http = transfer->http;
    struct target *target = transfer->target;
    int64_t left_us = transfer->limit_at.us - loop_mono().us;
    queue_leave(transfer);
    struct lane *lane = left_us > 0 ? lane_pick(target) : NULL;
    struct carrier *carrier = lane ? carrier_take(http) : NULL;
    if (!carrier) {
        end(transfer, REPLY_LOCAL_SHORTAGE,
            left_us > 0 ? STR("out of memory for a connection")
                        : STR("no connection became free within the time limit"));
        return;
    }
    carrier->transfer = transfer;
    carrier->lane = lane;
    transfer->carrier = carrier;
    transfer->state = TRANSFER_FLYING;
    transfer->sent_at = loop_wall(http->loop);
    if (!carrier_load(carrier, transfer, left_us) ||
        curl_multi_add_handle(lane->multi, carrier->easy) != CURLM_OK) {
        carrier_give_back(carrier);
        end(transfer, REPLY_LOCAL_SHORTAGE, STR("out of memory for a request"));
        return;
    }
    lane->flying++;
    target->flying++;
    http->flying++;
    if (!loop_timer_is_set(http->lane_timer))
        loop_timer_set(http->lane_timer, LANE_SWEEP_US);
}

/* Takes the transfer off its connection, which closes it unless the transfer was done. */
static void land(struct transfer *transfer)
{
    struct carrier *carrier = transfer->carrier;
    struct lane *lane = carrier->lane;
    curl_multi_remove_handle(lane->multi, carrier->easy);
    if (--lane->flying == 0)
        lane->idle_since = loop_mono();
    lane->target->flying--;
    transfer->http->flying--;
    transfer->carrier = NULL;
    carrier_give_back(carrier);
}

/* Sends what waits, one of each target at a time, as long as there is room. */
static void pump(void *arg)
{
    struct invoke_http *http;
    CAST_OBJ(http, arg, INVOKE_HTTP_MAGIC);
    bool moved = http->queued > 0;
    while (moved) {
        moved = false;
        for (struct target *target = http->targets; target; target = target->next)
            if (target->queue.first && http->flying < http->flying_max &&
                target->flying < http->target_flying_max) {
                launch(target->queue.first);
                moved = true;
            }
    }
    if (http->queued && !loop_timer_is_set(http->queue_timer))
        loop_timer_set(http->queue_timer, QUEUE_SWEEP_US);
}

static void queue_sweep(void *arg)
{
    struct invoke_http *http;
    CAST_OBJ(http, arg, INVOKE_HTTP_MAGIC);
    struct mono now = loop_mono();
    for (struct target *target = http->targets; target; target = target->next)
        for (struct transfer *next, *transfer = target->queue.first; transfer; transfer = next) {
            next = transfer->next;
            if (transfer->limit_at.us > now.us)
                continue;
            queue_leave(transfer);
            end(transfer, REPLY_LOCAL_SHORTAGE,
                STR("no connection became free within the time limit"));
        }
    pump(http);
}

/* --- the end of a transfer --- */

/* True if this process has no descriptor left: then a failure before the request is our own. */
static bool is_starved(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd < 0 && is_shortage(errno);
}

static void reply_unsent(struct transfer *transfer, CURLcode code, struct reply *reply)
{
    struct arena *arena = &transfer->arena;
    CURL *easy = transfer->carrier->easy;
    const char *detail =
        transfer->carrier->error[0] ? transfer->carrier->error : curl_easy_strerror(code);
    long os_error = 0;
    if (transfer->held_back) {
        reply->kind = REPLY_NOT_SENT;
        reply->error = STR("held back: the lease may have run out");
        return;
    }
    /* A name may lead elsewhere the next time, or be opened in the config by then; an address in
     * the URL stays what it is. */
    if (transfer->barred.ptr && !transfer->dialed) {
        bool stays = egress_host_is_address(str_z(transfer->target->host));
        reply->kind = stays ? REPLY_CANNOT_SEND : REPLY_NOT_CONNECTED;
        reply->error = transfer->barred;
        return;
    }
    curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &os_error);
    if (transfer->starved || code == CURLE_OUT_OF_MEMORY || is_shortage((int)os_error) ||
        is_starved()) {
        reply->kind = REPLY_LOCAL_SHORTAGE;
        reply->error = arena_printf(
            arena, "service \"%s\": no descriptor or memory for a connection", transfer->service);
        return;
    }
    bool never = code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL;
    reply->kind = never ? REPLY_CANNOT_SEND : REPLY_NOT_CONNECTED;
    reply->timed_out = code == CURLE_OPERATION_TIMEDOUT;
    reply->error =
        arena_printf(arena, "service \"%s\": could not connect: %s", transfer->service, detail);
}

static void reply_lost(struct transfer *transfer, CURLcode code, struct reply *reply)
{
    struct arena *arena = &transfer->arena;
    long status = 0;
    curl_easy_getinfo(transfer->carrier->easy, CURLINFO_RESPONSE_CODE, &status);
    const char *detail =
        transfer->carrier->error[0] ? transfer->carrier->error : curl_easy_strerror(code);
    reply->kind = REPLY_NO_ANSWER;
    reply->timed_out = code == CURLE_OPERATION_TIMEDOUT;
    if (reply->timed_out)
        reply->error = arena_printf(arena, "service \"%s\": no answer within %s", transfer->service,
                                    duration_format(transfer->timeout_us, arena).ptr);
    else if (transfer->resend_caught)
        reply->error = arena_printf(
            arena, "service \"%s\": the connection was closed before an answer", transfer->service);
    else if (status >= 200)
        reply->error = arena_printf(arena, "service \"%s\": the answer %ld broke off: %s",
                                    transfer->service, status, detail);
    else
        reply->error =
            arena_printf(arena, "service \"%s\": no answer: %s", transfer->service, detail);
}

static void reply_answered(struct transfer *transfer, struct reply *reply)
{
    struct arena *arena = &transfer->arena;
    long status = 0;
    curl_easy_getinfo(transfer->carrier->easy, CURLINFO_RESPONSE_CODE, &status);
    reply->kind = REPLY_HTTP;
    reply->status = (int)status;
    reply->headers = http_head_parse(buf_str(&transfer->head), arena, &reply->headers_count);
    if (!transfer->too_large && transfer->answer.len)
        reply->body =
            http_body_text(buf_str(&transfer->answer), reply->headers, reply->headers_count, arena);
    reply->body_dropped = transfer->too_large || (transfer->answer.len && !reply->body.ptr);
    if (reply->body_dropped)
        reply->error =
            arena_printf(arena, "service \"%s\": the answer %ld %s", transfer->service, status,
                         transfer->too_large ? "is too large" : "is not UTF-8 text");
}

static void finish(struct transfer *transfer, CURLcode code)
{
    struct reply reply = {
        .sent_at = transfer->sent_at,
        .ended_at = loop_wall(transfer->http->loop),
    };
    /* libcurl takes a head that breaks off for one without more lines. */
    if (code == CURLE_OK && !transfer->head_whole)
        code = CURLE_PARTIAL_FILE;
    if (code == CURLE_OK || transfer->too_large)
        reply_answered(transfer, &reply);
    else if (transfer->may_have_left)
        reply_lost(transfer, code, &reply);
    else
        reply_unsent(transfer, code, &reply);
    land(transfer);
    tell(transfer, &reply);
}

/* Once a turn for each lane that was touched. */
static void lane_turn(void *arg)
{
    struct lane *lane = arg;
    CURLMsg *message;
    int running, left;
    if (lane->kicked) {
        lane->kicked = false;
        curl_multi_socket_action(lane->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
    while ((message = curl_multi_info_read(lane->multi, &left))) {
        struct carrier *carrier = NULL;
        CURLcode code = message->data.result;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &carrier);
        finish(carrier->transfer, code);
    }
    pump(lane->target->http);
}

/* --- the port --- */

static int prepare(struct transfer *transfer, const struct invocation *invocation, struct err *err)
{
    const struct plan_service *service = invocation->request->service;
    ASSERT(service && invocation->request->action->kind == ACTION_HTTP);
    transfer->service = arena_strdup(&transfer->arena, service->name);
    int code = target_find(transfer, service, err);
    if (!code)
        code = http_request_render(invocation, transfer->http->options.secrets, &transfer->arena,
                                   &transfer->request, err);
    if (code)
        return err_wrap(err, "service \"%s\"", service->name);
    transfer->path = arena_printf(&transfer->arena, "%s%s",
                                  invocation->request->from_origin ? "" : transfer->target->path,
                                  transfer->request.path)
                         .ptr;
    code = http_request_sign(invocation, transfer->http->options.secrets, transfer->path,
                             transfer->sent_at, &transfer->arena, &transfer->request, err);
    if (code)
        return err_wrap(err, "service \"%s\"", service->name);
    lines_make(transfer);
    return 0;
}

static void start(void *arg, const struct invocation *invocation)
{
    struct invoke_http *http;
    CAST_OBJ(http, arg, INVOKE_HTTP_MAGIC);
    struct err err;
    struct transfer *transfer = transfer_new(http, invocation);
    transfer->sent_at = loop_wall(http->loop);
    transfer->timeout_us = invocation->timeout_us;
    transfer->limit_at.us = loop_mono().us + invocation->timeout_us;
    transfer->fresh_connection = invocation->fresh_connection;
    if (http->draining) {
        end(transfer, REPLY_NOT_SENT, STR("the daemon is stopping"));
        return;
    }
    if (prepare(transfer, invocation, &err) != 0) {
        end(transfer, REPLY_CANNOT_SEND, arena_str(&transfer->arena, str_z(err.text)));
        return;
    }
    transfer->state = TRANSFER_QUEUED;
    transfers_add(&transfer->target->queue, transfer);
    http->queued++;
    loop_defer(http->loop, &http->pump_call, pump, http);
}

static void cut_off(struct transfer *transfer, struct str why)
{
    if (transfer->state == TRANSFER_QUEUED) {
        queue_leave(transfer);
        end(transfer, REPLY_NOT_SENT, why);
    } else if (transfer->state == TRANSFER_FLYING) {
        land(transfer);
        end(transfer, transfer->may_have_left ? REPLY_NO_ANSWER : REPLY_NOT_SENT, why);
    }
}

static void drop(void *arg, uint64_t invocation_id)
{
    struct invoke_http *http;
    CAST_OBJ(http, arg, INVOKE_HTTP_MAGIC);
    struct transfer *transfer = idmap_get(&http->by_id, invocation_id);
    if (!transfer)
        return;
    cut_off(transfer, STR("given up"));
    loop_defer(http->loop, &http->pump_call, pump, http);
}

static void leave(void *arg, uint64_t invocation_id)
{
    struct invoke_http *http;
    CAST_OBJ(http, arg, INVOKE_HTTP_MAGIC);
    const struct transfer *transfer = idmap_get(&http->by_id, invocation_id);
    if (transfer && !transfer->may_have_left)
        drop(http, invocation_id);
}

void invoke_http_drain(struct invoke_http *http, bool cut)
{
    http->draining = true;
    for (size_t i = 0; i < http->by_id.size; i++) {
        struct transfer *transfer = http->by_id.slots[i].value;
        if (transfer && (cut || transfer->state == TRANSFER_QUEUED))
            cut_off(transfer, STR("the daemon is stopping"));
    }
}

size_t invoke_http_busy(const struct invoke_http *http)
{
    return http->by_id.used;
}

static unsigned flying_limit(unsigned wanted)
{
    struct rlimit files;
    unsigned max = HTTP_TRANSFERS_MAX;
    if (wanted)
        return MIN(wanted, max);
    /* The other half is for everything else: control socket, children, idle connections. */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur / 2 < max)
        max = MAX((unsigned)(files.rlim_cur / 2), 4u);
    return max;
}

struct invoke_http *invoke_http_new(const struct invoke_http_options *options)
{
    ASSERT(options->loop && options->reply);
    ASSERT(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
    struct invoke_http *http = xcalloc(1, sizeof(*http));
    http->magic = INVOKE_HTTP_MAGIC;
    http->options = *options;
    if (!http->options.connect_timeout_us)
        http->options.connect_timeout_us = CONNECT_TIMEOUT_US;
    http->loop = options->loop;
    http->port = (struct port_invoke){.arg = http, .start = start, .drop = drop, .leave = leave};
    http->flying_max = flying_limit(options->transfers_max);
    /* A service that hangs must not take the connections of all others. */
    http->target_flying_max = MAX(http->flying_max / 2, 1u);
    http->queue_timer = loop_timer_new(http->loop, queue_sweep, http);
    http->lane_timer = loop_timer_new(http->loop, lanes_sweep, http);
    return http;
}

const struct port_invoke *invoke_http_port(struct invoke_http *http)
{
    return &http->port;
}

void invoke_http_free(struct invoke_http *http)
{
    if (!http)
        return;
    for (size_t i = 0; i < http->by_id.size; i++) {
        struct transfer *transfer = http->by_id.slots[i].value;
        if (transfer && transfer->state == TRANSFER_FLYING)
            land(transfer);
    }
    while (http->by_id.used)
        for (size_t i = 0; i < http->by_id.size; i++)
            if (http->by_id.slots[i].value)
                transfer_free(http->by_id.slots[i].value);
    for (struct target *next, *target = http->targets; target; target = next) {
        next = target->next;
        target_free(target);
    }
    for (struct carrier *next, *carrier = http->carriers; carrier; carrier = next) {
        next = carrier->next;
        carrier_free(carrier);
    }
    for (struct transfer *next, *transfer = http->spare; transfer; transfer = next) {
        next = transfer->next;
        buf_free(&transfer->head);
        arena_free(&transfer->arena);
        free(transfer);
    }
    loop_defer_cancel(http->loop, &http->flush_call);
    loop_defer_cancel(http->loop, &http->pump_call);
    loop_timer_free(http->queue_timer);
    loop_timer_free(http->lane_timer);
    idmap_free(&http->by_id);
    for (size_t i = 0; i < http->idle.size; i++)
        if (http->idle.slots[i].value)
            watch_free(http->idle.slots[i].value);
    idmap_free(&http->idle);
    http->magic = 0;
    free(http);
    curl_global_cleanup();
}
