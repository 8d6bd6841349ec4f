#include "tests/lib/ledger.h"
#include "engine/base/buf.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

struct connection {
    struct connection *next;
    struct ledger *ledger;
    int fd;
    unsigned number;
    struct loop_fd *watch;
    struct loop_timer *timer;
    struct buf in, out;
    size_t out_at;
    struct ledger_request *request; /* the one being read */
    size_t body_wanted;
    struct ledger_answer answer; /* of the request that was read */
    size_t repeated;
    bool answering, dead;
};

struct ledger {
    struct loop *loop;
    struct arena arena;
    int fd;
    struct loop_fd *watch;
    uint16_t port;
    char url[64];
    struct connection *connections;
    unsigned accepted;
    struct ledger_request **requests;
    size_t count, capacity;
    struct ledger_answer *script;
    size_t script_count, script_at;
    struct ledger_answer always;
    struct loop_call bury;
};

static void serve(struct connection *c);

/* Frees dead connections outside their own callbacks. */
static void bury(void *arg)
{
    struct ledger *ledger = arg;
    for (struct connection **at = &ledger->connections; *at;) {
        struct connection *c = *at;
        if (!c->dead) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        loop_timer_free(c->timer);
        buf_free(&c->in);
        buf_free(&c->out);
        free(c);
    }
}

static void hang_up(struct connection *c, bool reset)
{
    if (c->dead)
        return;
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    if (reset)
        setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    loop_fd_free(c->watch);
    close(c->fd);
    loop_timer_stop(c->timer);
    c->dead = true;
    loop_defer(c->ledger->loop, &c->ledger->bury, bury, c->ledger);
}

static void request_done(struct connection *c)
{
    c->request = NULL;
    c->answering = false;
    buf_clear(&c->out);
    c->out_at = 0;
    if (c->answer.close || c->answer.act == LEDGER_CLOSE)
        hang_up(c, false);
    else
        serve(c); /* the next one may be there already */
}

static void write_more(struct connection *c)
{
    while (!c->dead && c->answering) {
        if (c->out_at == c->out.len && c->answer.act == LEDGER_FLOOD &&
            c->repeated < c->answer.repeat) {
            buf_clear(&c->out);
            c->out_at = 0;
            c->repeated++;
            if (c->answer.length == LEDGER_CHUNKED)
                buf_printf(&c->out, "%zx\r\n", c->answer.body.len);
            buf_add_str(&c->out, c->answer.body);
            if (c->answer.length == LEDGER_CHUNKED)
                buf_add_z(&c->out, c->repeated == c->answer.repeat ? "\r\n0\r\n\r\n" : "\r\n");
        }
        if (c->out_at == c->out.len) {
            loop_fd_want(c->watch, LOOP_READ);
            if (c->answer.act == LEDGER_CUT || c->answer.length == LEDGER_UNTIL_CLOSE)
                hang_up(c, false);
            else
                request_done(c);
            return;
        }
        size_t len = c->out.len - c->out_at;
        if (c->answer.act == LEDGER_TRICKLE)
            len = 1;
        ssize_t sent = send(c->fd, c->out.data + c->out_at, len, MSG_NOSIGNAL);
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            loop_fd_want(c->watch, LOOP_READ | LOOP_WRITE);
            return;
        }
        if (sent < 0) {
            hang_up(c, false);
            return;
        }
        c->out_at += (size_t)sent;
        if (c->answer.act == LEDGER_TRICKLE) {
            loop_timer_set(c->timer, c->answer.delay_us);
            return;
        }
    }
}

static void head_write(struct connection *c)
{
    const struct ledger_answer *answer = &c->answer;
    int status = answer->status ? answer->status : 200;
    size_t length = answer->body.len * (answer->act == LEDGER_FLOOD ? answer->repeat : 1);
    buf_printf(&c->out, "HTTP/1.1 %d Status\r\n%s", status, answer->headers ? answer->headers : "");
    if (answer->length == LEDGER_CHUNKED)
        buf_add_z(&c->out, "Transfer-Encoding: chunked\r\n");
    else if (answer->length == LEDGER_LENGTH && status != 204 && status != 304)
        buf_printf(&c->out, "Content-Length: %zu\r\n", length);
    if (answer->close || answer->length == LEDGER_UNTIL_CLOSE)
        buf_add_z(&c->out, "Connection: close\r\n");
    buf_add_z(&c->out, "\r\n");
}

static void answer_now(void *arg)
{
    struct connection *c = arg;
    const struct ledger_answer *answer = &c->answer;
    if (c->out.len || c->repeated) { /* a trickle goes on */
        write_more(c);
        return;
    }
    switch (answer->act) {
    case LEDGER_NEVER: return;
    case LEDGER_RESET: hang_up(c, true); return;
    case LEDGER_CLOSE: hang_up(c, false); return;
    case LEDGER_CUT_READ: return; /* the whole body came before the cut */
    case LEDGER_RAW: buf_add_str(&c->out, answer->body); break;
    case LEDGER_FLOOD: head_write(c); break;
    case LEDGER_ANSWER:
    case LEDGER_CUT:
    case LEDGER_TRICKLE:
        head_write(c);
        if (answer->length == LEDGER_CHUNKED && answer->body.len)
            buf_printf(&c->out, "%zx\r\n", answer->body.len);
        buf_add_str(&c->out, answer->body);
        if (answer->length == LEDGER_CHUNKED)
            buf_add_z(&c->out, answer->body.len ? "\r\n0\r\n\r\n" : "0\r\n\r\n");
        break;
    }
    if (answer->act == LEDGER_CUT && answer->bytes < c->out.len)
        c->out.len = answer->bytes;
    write_more(c);
}

struct str ledger_header(const struct ledger_request *request, const char *name)
{
    size_t len = strlen(name);
    const char *at = request->head.ptr, *end = at + request->head.len;
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        size_t line = line_end ? (size_t)(line_end - at) : (size_t)(end - at);
        if (line > len && at[len] == ':' && strncasecmp(at, name, len) == 0) {
            struct str value = {at + len + 1, line - len - 1};
            while (value.len && (*value.ptr == ' '))
                value.ptr++, value.len--;
            while (value.len && strchr("\r\n ", value.ptr[value.len - 1]))
                value.len--;
            return value;
        }
        at += line + 1;
    }
    return STR_NONE;
}

static struct ledger_request *request_begin(struct connection *c, size_t head_len)
{
    struct ledger *ledger = c->ledger;
    struct ledger_request *request = arena_new(&ledger->arena, struct ledger_request);
    request->head = arena_str(&ledger->arena, (struct str){c->in.data, head_len});
    const char *space = memchr(request->head.ptr, ' ', head_len);
    const char *second = space ? strchr(space + 1, ' ') : NULL;
    if (second) {
        request->method = (struct str){request->head.ptr, (size_t)(space - request->head.ptr)};
        request->target = (struct str){space + 1, (size_t)(second - space) - 1};
    }
    request->key = ledger_header(request, "Idempotency-Key");
    request->at = loop_mono();
    request->connection = c->number;
    struct str length = ledger_header(request, "Content-Length");
    c->body_wanted = length.ptr ? (size_t)atol(length.ptr) : 0;
    if (ledger->count == ledger->capacity) {
        ledger->capacity = MAX(ledger->capacity * 2, (size_t)64);
        ledger->requests = xrealloc(ledger->requests, ledger->capacity * sizeof(request));
    }
    ledger->requests[ledger->count++] = request;
    c->answer = ledger->script_at < ledger->script_count ? ledger->script[ledger->script_at++]
                                                         : ledger->always;
    c->repeated = 0;
    buf_drain(&c->in, head_len);
    return request;
}

/* Takes one request out of what was read, if it is there. */
static void serve(struct connection *c)
{
    if (c->answering || c->dead)
        return;
    if (!c->request) {
        const char *blank = c->in.len ? memmem(c->in.data, c->in.len, "\r\n\r\n", 4) : NULL;
        if (!blank)
            return;
        c->request = request_begin(c, (size_t)(blank - c->in.data) + 4);
    }
    struct ledger_request *request = c->request;
    bool cut = c->answer.act == LEDGER_CUT_READ && c->in.len >= c->answer.bytes;
    if (c->in.len < c->body_wanted && !cut)
        return;
    size_t len = MIN(c->in.len, c->body_wanted);
    request->complete = len == c->body_wanted;
    request->body = arena_str(&c->ledger->arena, (struct str){len ? c->in.data : "", len});
    request->body_hash = sha256_of(request->body);
    if (cut) {
        hang_up(c, true);
        return;
    }
    buf_drain(&c->in, len);
    c->answering = true;
    if (c->answer.delay_us && c->answer.act != LEDGER_TRICKLE)
        loop_timer_set(c->timer, c->answer.delay_us);
    else
        answer_now(c);
}

static void connection_ready(void *arg, unsigned ready)
{
    struct connection *c = arg;
    if (ready == LOOP_WRITE) {
        write_more(c);
        return;
    }
    char *room = buf_room(&c->in, 65536);
    ssize_t got = recv(c->fd, room, 65536, 0);
    int error = errno;
    c->in.len -= 65536 - (size_t)MAX(got, 0);
    if (got > 0)
        serve(c);
    else if (got == 0 || (error != EAGAIN && error != EWOULDBLOCK))
        hang_up(c, false);
}

static void accept_ready(void *arg, unsigned ready)
{
    struct ledger *ledger = arg;
    int fd = accept4(ledger->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    (void)ready;
    if (fd < 0)
        return;
    struct connection *c = xcalloc(1, sizeof(*c));
    c->ledger = ledger;
    c->fd = fd;
    c->number = ++ledger->accepted;
    c->watch = loop_fd_new(ledger->loop, fd, connection_ready, c);
    c->timer = loop_timer_new(ledger->loop, answer_now, c);
    c->next = ledger->connections;
    ledger->connections = c;
    loop_fd_want(c->watch, LOOP_READ);
}

struct ledger *ledger_new(struct loop *loop)
{
    struct ledger *ledger = xcalloc(1, sizeof(*ledger));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    ledger->loop = loop;
    ledger->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    ASSERT(ledger->fd >= 0);
    ASSERT(bind(ledger->fd, (struct sockaddr *)&address, len) == 0);
    ASSERT(listen(ledger->fd, 1024) == 0);
    ASSERT(getsockname(ledger->fd, (struct sockaddr *)&address, &len) == 0);
    ledger->port = ntohs(address.sin_port);
    snprintf(ledger->url, sizeof(ledger->url), "http://127.0.0.1:%u", ledger->port);
    ledger->always = (struct ledger_answer){.body = STR("{\"ok\":true}")};
    ledger->watch = loop_fd_new(loop, ledger->fd, accept_ready, ledger);
    loop_fd_want(ledger->watch, LOOP_READ);
    return ledger;
}

void ledger_hang_up(struct ledger *ledger)
{
    for (struct connection *c = ledger->connections; c; c = c->next)
        hang_up(c, false);
}

void ledger_free(struct ledger *ledger)
{
    ledger_hang_up(ledger);
    bury(ledger);
    loop_defer_cancel(ledger->loop, &ledger->bury);
    loop_fd_free(ledger->watch);
    close(ledger->fd);
    arena_free(&ledger->arena);
    free(ledger->requests);
    free(ledger->script);
    free(ledger);
}

const char *ledger_url(const struct ledger *ledger)
{
    return ledger->url;
}

uint16_t ledger_port(const struct ledger *ledger)
{
    return ledger->port;
}

void ledger_script(struct ledger *ledger, struct ledger_answer answer)
{
    ledger->script = xrealloc(ledger->script, (ledger->script_count + 1) * sizeof(answer));
    ledger->script[ledger->script_count++] = answer;
}

void ledger_always(struct ledger *ledger, struct ledger_answer answer)
{
    ledger->always = answer;
}

size_t ledger_count(const struct ledger *ledger)
{
    return ledger->count;
}

unsigned ledger_connections(const struct ledger *ledger)
{
    return ledger->accepted;
}

unsigned ledger_open(const struct ledger *ledger)
{
    unsigned open = 0;
    for (const struct connection *c = ledger->connections; c; c = c->next)
        open += !c->dead;
    return open;
}

const struct ledger_request *ledger_get(const struct ledger *ledger, size_t index)
{
    ASSERT(index < ledger->count);
    return ledger->requests[index];
}
