/*
 * How many small requests a second the HTTP invoker carries on one core: a child process answers
 * on loopback, as cheaply as it can, and is not counted.
 *
 *   bench_invoke [REQUESTS [IN_FLIGHT]]
 */
#include "engine/invoke_http.h"
#include "tests/lib/fake_invoke.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER                                                                             \
    "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 44\r\n\r\n" \
    "{\"id\":\"ch_000001\",\"amount_cents\":4200,\"a\":1}"

/* A request comes in one piece here; nothing but its end is looked at. */
static void serve(int listener)
{
    struct epoll_event events[256], event = {.events = EPOLLIN, .data.fd = listener};
    static char in[65536];
    int poll = epoll_create1(0);
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int count = epoll_wait(poll, events, 256, -1);
        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                event.data.fd = accept(listener, NULL, NULL);
                epoll_ctl(poll, EPOLL_CTL_ADD, event.data.fd, &event);
            } else if (recv(fd, in, sizeof(in), 0) <= 0) {
                close(fd);
            } else {
                (void)!send(fd, ANSWER, sizeof(ANSWER) - 1, MSG_NOSIGNAL);
            }
        }
    }
}

struct bench {
    struct loop *loop;
    const struct port_invoke *port;
    struct fake_call call;
    size_t started, wanted, answered, wrong;
};

static void answered(void *arg, uint64_t id, const struct reply *reply)
{
    struct bench *bench = arg;
    (void)id;
    bench->answered++;
    bench->wrong += reply->kind != REPLY_HTTP || reply->status != 201 || reply->body.len != 44;
    if (bench->started < bench->wanted) {
        bench->started++;
        fake_start(&bench->call, bench->port);
    }
    if (bench->answered == bench->wanted)
        loop_stop(bench->loop);
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void run(const char *url, size_t requests, size_t in_flight)
{
    struct bench bench = {.wanted = requests};
    struct err err;
    ASSERT(loop_open(&bench.loop, &err) == 0);
    struct invoke_http *http = invoke_http_new(
        &(struct invoke_http_options){.loop = bench.loop, .reply = answered, .reply_arg = &bench});
    bench.port = invoke_http_port(http);
    fake_http(&bench.call, url, "/charges");
    double cpu = cpu_seconds();
    struct mono begun = loop_mono();
    for (size_t i = 0; i < in_flight && i < requests; i++, bench.started++)
        fake_start(&bench.call, bench.port);
    loop_run(bench.loop);
    double seconds = (double)(loop_mono().us - begun.us) / 1e6;
    cpu = cpu_seconds() - cpu;
    printf("%4zu in flight: %7.0f requests/s, %5.1f us of CPU each (%7.0f/s a core), %zu wrong\n",
           in_flight, (double)requests / seconds, cpu / (double)requests * 1e6,
           (double)requests / cpu, bench.wrong);
    invoke_http_free(http);
    loop_close(bench.loop);
}

int main(int argc, char **argv)
{
    size_t requests = argc > 1 ? (size_t)atol(argv[1]) : 100000;
    size_t in_flight = argc > 2 ? (size_t)atol(argv[2]) : 0;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    char url[64];
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT(bind(listener, (struct sockaddr *)&address, len) == 0 && listen(listener, 1024) == 0);
    getsockname(listener, (struct sockaddr *)&address, &len);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u", ntohs(address.sin_port));
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        serve(listener);
    }
    static const size_t levels[] = {1, 16, 64, 256};
    for (size_t i = 0; i < ARRAY_LEN(levels); i++)
        if (!in_flight)
            run(url, levels[i] == 1 ? requests / 10 : requests, levels[i]);
    if (in_flight)
        run(url, requests, in_flight);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return 0;
}
