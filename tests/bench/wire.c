#include "tests/bench/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

_Noreturn void die(const char *what)
{
    fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
    exit(1);
}

int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

/* --- messages ------------------------------------------------------------------------------- */

int wire_read(struct wire *wire)
{
    if (wire->len == sizeof(wire->in) - 1)
        die("a message is too long");
    ssize_t got = recv(wire->fd, wire->in + wire->len, sizeof(wire->in) - 1 - wire->len, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 1;
    if (got <= 0)
        return 0;
    wire->len += (size_t)got;
    return 1;
}

int wire_next(struct wire *wire, struct wire_message *message)
{
    wire->in[wire->len] = '\0';
    const char *end = strstr(wire->in, "\r\n\r\n");
    if (!end)
        return 0;
    size_t head = (size_t)(end - wire->in) + 4, body = 0;
    for (const char *line = wire->in; line < end; line = strstr(line, "\r\n") + 2)
        if (strncasecmp(line, "content-length:", 15) == 0)
            body = strtoul(line + 15, NULL, 10);
    if (wire->len < head + body)
        return 0;
    *message = (struct wire_message){
        .head = wire->in, .body = wire->in + head, .bytes = head + body, .body_len = body};
    if (strncmp(wire->in, "HTTP/1.1 ", 9) == 0)
        message->status = atoi(wire->in + 9);
    return 1;
}

void wire_consume(struct wire *wire, const struct wire_message *message)
{
    wire->len -= message->bytes;
    memmove(wire->in, wire->in + message->bytes, wire->len);
}

void wire_send(struct wire *wire, const char *data, size_t len)
{
    if (send(wire->fd, data, len, MSG_NOSIGNAL) != (ssize_t)len)
        die("send");
}

/* --- sockets -------------------------------------------------------------------------------- */

int wire_connect_port(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

int wire_connect_path(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        die(path);
    return fd;
}

int wire_listen(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, 1024) != 0)
        die("listen");
    getsockname(fd, (struct sockaddr *)&address, &size);
    *port = ntohs(address.sin_port);
    return fd;
}

/* --- samples -------------------------------------------------------------------------------- */

void samples_add(struct samples *samples, int64_t us)
{
    if (samples->count == samples->size) {
        samples->size = samples->size ? samples->size * 2 : 1024;
        samples->list = realloc(samples->list, samples->size * sizeof(*samples->list));
        if (!samples->list)
            die("out of memory");
    }
    samples->list[samples->count++] = (uint32_t)us;
}

static int compare(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

uint32_t samples_percentile(struct samples *samples, double percent)
{
    if (!samples->count)
        return 0;
    qsort(samples->list, samples->count, sizeof(*samples->list), compare);
    return samples->list[(size_t)((double)(samples->count - 1) * percent / 100)];
}
