/*
 * load.c: the participant of the benchmark, and who submits to sagad: one process, one thread.
 *
 *   load
 *
 * Prints "port N", then answers each POST on that port at once, for as long as it lives. A line on
 * its standard input makes it a client too; each ends with one line of JSON:
 *
 *   submit SOCKET SECONDS IN_FLIGHT   starts runs, at most IN_FLIGHT not at their last step yet
 *   sleep SOCKET COUNT WORKFLOW       starts COUNT runs of another workflow
 *   lone SOCKET SECONDS               one run at a time, each waited for
 *
 * A run counts as done when its request to /three came; the clock of `submit` stops when sagad has
 * no run in memory any more.
 */
#include "tests/bench/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLIENTS 448 /* sagad takes 512 connections; a submit is answered when it is durable */
#define TENTHS 10
#define ANSWER                                                                             \
    "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 44\r\n\r\n" \
    "{\"id\":\"ch_000001\",\"amount_cents\":4200,\"a\":1}"

enum mode { MODE_NONE, MODE_SUBMIT, MODE_SLEEP, MODE_LONE, MODE_DRAIN };

struct client {
    struct wire wire;
    int busy;
    int64_t sent_us;
};

static int poll_fd, listener;
static enum mode mode;
static struct client clients[CLIENTS];
static char workflow[64];
static long in_flight_max, count_max;
static long submitted, accepted, refused, finished, requests;
static int64_t start_us, until_us;
static struct samples lone, finished_at; /* since start_us */

static void watch(int fd, void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};
    if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        die("epoll");
}

/* --- participant ---------------------------------------------------------------------------- */

static void accept_one(void)
{
    struct wire *wire = calloc(1, sizeof(*wire));
    wire->fd = accept(listener, NULL, NULL);
    if (wire->fd < 0)
        die("accept");
    watch(wire->fd, wire);
}

static void serve(struct wire *wire)
{
    struct wire_message message;
    if (!wire_read(wire)) {
        close(wire->fd);
        free(wire);
        return;
    }
    while (wire_next(wire, &message)) {
        requests++;
        if (strncmp(message.head, "POST /three ", 12) == 0) {
            finished++;
            if (mode == MODE_SUBMIT)
                samples_add(&finished_at, now_us() - start_us);
        }
        wire_consume(wire, &message);
        wire_send(wire, ANSWER, sizeof(ANSWER) - 1);
    }
}

/* --- submitting ------------------------------------------------------------------------------ */

static void submit(struct client *client)
{
    char body[256], text[512];
    int len = snprintf(body, sizeof(body),
                       "{\"workflow\":\"%s\",\"input\":{\"order\":\"ORD-%06ld\",\"amount\":%ld}}",
                       workflow, submitted, 1990 + submitted % 1000);
    len = snprintf(text, sizeof(text),
                   "POST /v1/runs HTTP/1.1\r\nHost: saga\r\nContent-Type: application/json\r\n"
                   "%sContent-Length: %d\r\n\r\n%s",
                   mode == MODE_LONE ? "Prefer: wait=10\r\n" : "", len, body);
    submitted++;
    client->busy = 1;
    client->sent_us = now_us();
    wire_send(&client->wire, text, (size_t)len);
}

static void ask_ping(struct client *client)
{
    static const char text[] = "GET /v1/ping HTTP/1.1\r\nHost: saga\r\n\r\n";
    client->busy = 1;
    wire_send(&client->wire, text, sizeof(text) - 1);
}

static int may_submit(void)
{
    if (mode == MODE_SLEEP)
        return submitted < count_max;
    if (mode == MODE_LONE)
        return now_us() < until_us;
    return mode == MODE_SUBMIT && submitted - finished - refused < in_flight_max &&
           now_us() < until_us;
}

static void report(void)
{
    int64_t took_us = now_us() - start_us;
    size_t tenth = finished_at.count / TENTHS;
    double first = 0, last = 0;
    if (tenth > 1) {
        const uint32_t *at = finished_at.list;
        size_t end = finished_at.count - 1;
        first = (double)tenth * 1e6 / at[tenth - 1];
        last = (double)(tenth - 1) * 1e6 / (at[end] - at[end - tenth + 1] + 1);
    }
    printf("{\"runs\": %ld, \"refused\": %ld, \"requests\": %ld, \"seconds\": %.6f, "
           "\"first_tenth\": %.1f, \"last_tenth\": %.1f, \"lone\": %zu, \"p50_us\": %u, "
           "\"p99_us\": %u}\n",
           accepted, refused, requests, (double)took_us / 1e6, first, last, lone.count,
           samples_percentile(&lone, 50), samples_percentile(&lone, 99));
    fflush(stdout);
    for (int i = 0; i < CLIENTS; i++)
        if (clients[i].wire.fd > 0)
            close(clients[i].wire.fd);
    memset(clients, 0, sizeof(clients));
    mode = MODE_NONE;
}

static void answered(struct client *client, const struct wire_message *message)
{
    client->busy = 0;
    if (mode == MODE_DRAIN) {
        if (strstr(message->body, "\"resident_runs\":0,"))
            report();
        return;
    }
    if (message->status == (mode == MODE_LONE ? 200 : 202)) {
        accepted++;
    } else if (refused++ == 0) {
        fprintf(stderr, "bench: sagad answered %d: %.*s\n", message->status, (int)message->body_len,
                message->body);
    }
    if (mode == MODE_LONE)
        samples_add(&lone, now_us() - client->sent_us);
}

static void receive(struct client *client)
{
    struct wire_message message;
    if (!wire_read(&client->wire))
        die("sagad closed a connection");
    if (!wire_next(&client->wire, &message))
        return;
    answered(client, &message);
    if (mode != MODE_NONE)
        wire_consume(&client->wire, &message);
}

static void clients_pump(void)
{
    int count = mode == MODE_LONE ? 1 : CLIENTS, busy = 0;
    for (int i = 0; i < count; i++) {
        if (!clients[i].busy && may_submit())
            submit(&clients[i]);
        busy += clients[i].busy;
    }
    if (busy || mode == MODE_NONE)
        return;
    if (mode == MODE_DRAIN)
        ask_ping(&clients[0]);
    else if (mode == MODE_SUBMIT && (now_us() < until_us || finished + refused < submitted))
        return;
    else if (mode == MODE_SUBMIT)
        mode = MODE_DRAIN;
    else if (!may_submit())
        report();
}

/* --- commands -------------------------------------------------------------------------------- */

static void command(void)
{
    char line[512], verb[16], path[256], third[64];
    int number = 0;
    ssize_t got = read(STDIN_FILENO, line, sizeof(line) - 1);
    if (got <= 0)
        exit(0); /* who started it is gone */
    line[got] = '\0';
    strcpy(workflow, "bench");
    if (sscanf(line, "%15s %255s %d %63s", verb, path, &number, third) < 3)
        die("a command is not understood");
    submitted = accepted = refused = finished = requests = 0;
    lone.count = finished_at.count = 0;
    start_us = now_us();
    until_us = start_us + number * INT64_C(1000000);
    if (strcmp(verb, "submit") == 0) {
        mode = MODE_SUBMIT;
        in_flight_max = atol(third);
    } else if (strcmp(verb, "lone") == 0) {
        mode = MODE_LONE;
    } else {
        mode = MODE_SLEEP;
        count_max = number;
        strcpy(workflow, third);
    }
    for (int i = 0; i < CLIENTS; i++) {
        clients[i].wire.fd = wire_connect_path(path);
        watch(clients[i].wire.fd, &clients[i]);
    }
}

static void dispatch(void *what)
{
    struct client *client = what;
    if (what == &poll_fd)
        command();
    else if (what == &listener)
        accept_one();
    else if (client >= clients && client < clients + CLIENTS)
        receive(client);
    else
        serve(what);
}

int main(void)
{
    struct epoll_event events[256];
    int port;
    poll_fd = epoll_create1(EPOLL_CLOEXEC);
    listener = wire_listen(&port);
    watch(listener, &listener);
    watch(STDIN_FILENO, &poll_fd);
    printf("port %d\n", port);
    fflush(stdout);
    for (;;) {
        int count = epoll_wait(poll_fd, events, 256, mode == MODE_NONE ? -1 : 1);
        for (int i = 0; i < count; i++)
            dispatch(events[i].data.ptr);
        clients_pump();
    }
}
