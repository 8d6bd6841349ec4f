/*
 * floor.c: how fast anything that is correct could be: the durable writes of a minimal engine and
 * its HTTP requests, and nothing else.
 *
 *   floor CONNINFO PORT SECONDS IN_FLIGHT     (IN_FLIGHT 1: the latency of a lone run)
 *
 * A run of three steps needs four commits in sequence, because a request may go out only when its
 * claim is durable: run + claim 1 | result 1 + claim 2 | result 2 + claim 3 | result 3 + end. All
 * runs in flight share them: one statement a commit, sets of rows, up to four in flight on one
 * pipelined connection; a further one only with 16 records waiting. There are no definitions, no
 * decisions, no fencing, no retries, no submitters, no history.
 */
#include "tests/bench/wire.h"

#include <arpa/inet.h>
#include <libpq-fe.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define STEPS 3
#define CONNECTIONS 64
#define UNITS 4
#define WORTH 16
#define UNIT_RUNS 1024
#define ID_BYTES 36
#define OUTPUT_BYTES_MAX 256
#define OID_TEXT 25
#define OID_INT2 21

static const char *const schema[] = {
    "drop table if exists floor_run, floor_effect",
    "create table floor_run (run_id text collate \"C\" primary key, state smallint not null, "
    "input text not null) with (fillfactor = 50)",
    "create table floor_effect (run_id text collate \"C\", step smallint, state smallint not null, "
    "output text, primary key (run_id, step)) with (fillfactor = 50)",
    "create or replace function floor_apply(starts text[], inputs text[], done text[], "
    "done_steps smallint[], outputs text[]) returns void language plpgsql "
    "set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off "
    "set plan_cache_mode = force_generic_plan as $$ begin "
    "if cardinality(starts) > 0 then "
    "insert into floor_run select s, 1, i from unnest(starts, inputs) u (s, i); "
    "insert into floor_effect select s, 1, 1 from unnest(starts) s; end if; "
    "if cardinality(done) > 0 then "
    "insert into floor_effect select d, n + 1, 1 from unnest(done, done_steps) u (d, n) "
    "where n < 3; "
    "update floor_effect e set state = 2, output = u.o from "
    "(select * from unnest(done, done_steps, outputs) x (d, n, o) offset 0) u "
    "where e.run_id = u.d and e.step = u.n; "
    "update floor_run r set state = 2 from "
    "(select * from unnest(done, done_steps) x (d, n) where n = 3 offset 0) u "
    "where r.run_id = u.d; end if; end $$",
};

struct run {
    struct run *next;
    char id[ID_BYTES + 1], input[128], output[OUTPUT_BYTES_MAX];
    int step; /* 0: not started; 1 to 3: waits for that step's answer, or for its commit */
    int64_t started_us;
};

struct list {
    struct run *first, **last;
    int count;
};

struct channel { /* a connection to the participant, one request at a time */
    struct wire wire;
    struct run *run;
};

struct text { /* a parameter that is being built */
    char *data;
    size_t len, size;
};

static PGconn *pg;
static int poll_fd, units_count, runs_open;
static long runs_started, runs_ended, units_total;
static struct list units[UNITS], to_write, to_send; /* units: a ring, oldest at units_first */
static int units_first;
static struct channel channels[CONNECTIONS];
static struct samples latency;

static void list_init(struct list *list)
{
    *list = (struct list){.last = &list->first};
}

static void list_add(struct list *list, struct run *run)
{
    run->next = NULL;
    *list->last = run;
    list->last = &run->next;
    list->count++;
}

static struct run *list_pop(struct list *list)
{
    struct run *run = list->first;
    if (!run)
        return NULL;
    list->first = run->next;
    if (!list->first)
        list->last = &list->first;
    list->count--;
    return run;
}

static _Noreturn void die_pg(const char *what)
{
    fprintf(stderr, "floor: %s: %s", what, PQerrorMessage(pg));
    exit(1);
}

/* --- writing -------------------------------------------------------------------------------- */

static void put(struct text *text, const void *data, size_t len)
{
    if (text->len + len > text->size) {
        text->size = (text->len + len) * 2;
        text->data = realloc(text->data, text->size);
        if (!text->data)
            die("out of memory");
    }
    memcpy(text->data + text->len, data, len);
    text->len += len;
}

static void put_int4(struct text *text, uint32_t value)
{
    value = htonl(value);
    put(text, &value, sizeof(value));
}

/* The header of an array of one dimension; the count is set at the end. */
static void array_begin(struct text *text, uint32_t type)
{
    text->len = 0;
    put_int4(text, 1);
    put_int4(text, 0);
    put_int4(text, type);
    put_int4(text, 0);
    put_int4(text, 1);
}

static void array_end(struct text *text, uint32_t count)
{
    uint32_t value = htonl(count);
    memcpy(text->data + 12, &value, sizeof(value));
    if (count)
        return;
    text->len = 0; /* an empty array has no dimension */
    value = htonl(OID_TEXT);
    put_int4(text, 0);
    put_int4(text, 0);
    put(text, &value, sizeof(value));
}

static void put_text(struct text *text, const char *value)
{
    put_int4(text, (uint32_t)strlen(value));
    put(text, value, strlen(value));
}

static void put_int2(struct text *text, int value)
{
    uint16_t wire = htons((uint16_t)value);
    put_int4(text, sizeof(wire));
    put(text, &wire, sizeof(wire));
}

static void unit_send(void)
{
    enum { STARTS, INPUTS, DONE, STEP, OUTPUTS, COUNT };
    static struct text texts[COUNT];
    static const uint32_t types[COUNT] = {OID_TEXT, OID_TEXT, OID_TEXT, OID_INT2, OID_TEXT};
    const char *values[COUNT];
    int lengths[COUNT], formats[COUNT];
    uint32_t starts = 0, done = 0;
    struct list *unit = &units[(units_first + units_count++) % UNITS];
    struct run *run;
    list_init(unit);
    for (int i = 0; i < COUNT; i++)
        array_begin(&texts[i], types[i]);
    while (unit->count < UNIT_RUNS && (run = list_pop(&to_write))) {
        list_add(unit, run);
        if (!run->step) {
            put_text(&texts[STARTS], run->id);
            put_text(&texts[INPUTS], run->input);
            starts++;
        } else {
            put_text(&texts[DONE], run->id);
            put_int2(&texts[STEP], run->step);
            put_text(&texts[OUTPUTS], run->output);
            done++;
        }
    }
    for (int i = 0; i < COUNT; i++) {
        uint32_t count = i < DONE ? starts : done;
        array_end(&texts[i], count);
        if (!count && types[i] == OID_INT2) {
            uint32_t type = htonl(OID_INT2);
            memcpy(texts[i].data + 8, &type, sizeof(type));
        }
        values[i] = texts[i].data;
        lengths[i] = (int)texts[i].len;
        formats[i] = 1;
    }
    units_total++;
    if (!PQsendQueryPrepared(pg, "apply", COUNT, values, lengths, formats, 1) ||
        !PQpipelineSync(pg))
        die_pg("send");
}

static void units_pump(void)
{
    while (to_write.count && units_count < UNITS && (!units_count || to_write.count >= WORTH))
        unit_send();
    int left = PQflush(pg);
    if (left < 0)
        die_pg("flush");
    struct epoll_event event = {.events = EPOLLIN | (left ? EPOLLOUT : 0), .data.ptr = NULL};
    epoll_ctl(poll_fd, EPOLL_CTL_MOD, PQsocket(pg), &event);
}

/* The oldest unit is durable: its claims may be sent. */
static void unit_applied(void)
{
    struct list *unit = &units[units_first];
    struct run *run;
    units_first = (units_first + 1) % UNITS;
    units_count--;
    while ((run = list_pop(unit))) {
        if (run->step++ < STEPS) {
            list_add(&to_send, run);
            continue;
        }
        samples_add(&latency, now_us() - run->started_us);
        runs_open--;
        runs_ended++;
        free(run);
    }
}

static void pg_receive(void)
{
    if (!PQconsumeInput(pg))
        die_pg("read");
    while (units_count && !PQisBusy(pg)) {
        PGresult *result = PQgetResult(pg);
        if (!result)
            continue;
        ExecStatusType status = PQresultStatus(result);
        PQclear(result);
        if (status == PGRES_PIPELINE_SYNC)
            unit_applied();
        else if (status != PGRES_TUPLES_OK)
            die_pg("apply");
    }
}

/* --- requests ------------------------------------------------------------------------------- */

static void requests_pump(void)
{
    static const char *const steps[STEPS + 1] = {"", "one", "two", "three"};
    static int next;
    for (int i = 0; i < CONNECTIONS && to_send.first; i++) {
        struct channel *channel = &channels[next++ % CONNECTIONS];
        if (channel->run)
            continue;
        struct run *run = channel->run = list_pop(&to_send);
        char text[512];
        int len =
            snprintf(text, sizeof(text),
                     "POST /%s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
                     "application/json\r\nIdempotency-Key: %s:%s:execute\r\n"
                     "Content-Length: %zu\r\n\r\n%s",
                     steps[run->step], run->id, steps[run->step], strlen(run->input), run->input);
        wire_send(&channel->wire, text, (size_t)len);
    }
}

static void request_answered(struct channel *channel)
{
    struct wire_message message;
    if (!wire_read(&channel->wire))
        die("the participant closed a connection");
    if (!wire_next(&channel->wire, &message))
        return;
    struct run *run = channel->run;
    if (message.status != 201 || message.body_len >= sizeof(run->output))
        die("the participant answered something else");
    memcpy(run->output, message.body, message.body_len);
    run->output[message.body_len] = '\0';
    wire_consume(&channel->wire, &message);
    channel->run = NULL;
    list_add(&to_write, run);
}

/* --- the loop ------------------------------------------------------------------------------- */

static void run_start(void)
{
    struct run *run = calloc(1, sizeof(*run));
    if (!run)
        die("out of memory");
    run->started_us = now_us();
    snprintf(run->id, sizeof(run->id), "%016llx-%019ld", (unsigned long long)run->started_us,
             runs_started);
    snprintf(run->input, sizeof(run->input), "{\"order\":\"ORD-%06ld\",\"amount\":%ld}",
             runs_started, 1990 + runs_started % 1000);
    runs_started++;
    runs_open++;
    list_add(&to_write, run);
}

static void watch(int fd, void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};
    if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        die("epoll");
}

static void setup(const char *conninfo, int port)
{
    pg = PQconnectdb(conninfo);
    if (PQstatus(pg) != CONNECTION_OK)
        die_pg("connect");
    PQclear(PQexec(pg, "set client_min_messages = error"));
    for (size_t i = 0; i < sizeof(schema) / sizeof(schema[0]); i++) {
        PGresult *result = PQexec(pg, schema[i]);
        if (PQresultStatus(result) != PGRES_COMMAND_OK)
            die_pg("schema");
        PQclear(result);
    }
    PQclear(PQprepare(pg, "apply", "select floor_apply($1, $2, $3, $4, $5)", 0, NULL));
    if (PQsetnonblocking(pg, 1) || !PQenterPipelineMode(pg))
        die_pg("pipeline");
    poll_fd = epoll_create1(EPOLL_CLOEXEC);
    watch(PQsocket(pg), NULL);
    for (int i = 0; i < CONNECTIONS; i++) {
        channels[i].wire.fd = wire_connect_port(port);
        watch(channels[i].wire.fd, &channels[i]);
    }
    list_init(&to_write);
    list_init(&to_send);
}

int main(int argc, char **argv)
{
    struct epoll_event events[256];
    if (argc != 5) {
        fprintf(stderr, "usage: floor CONNINFO PORT SECONDS IN_FLIGHT\n");
        return 2;
    }
    int in_flight = atoi(argv[4]);
    setup(argv[1], atoi(argv[2]));
    printf("ready\n");
    fflush(stdout);
    (void)getchar(); /* the counters are read before it begins */
    int64_t start_us = now_us(), until_us = start_us + atoi(argv[3]) * INT64_C(1000000);
    for (;;) {
        bool going = now_us() < until_us;
        while (going && runs_open < in_flight)
            run_start();
        if (!going && !runs_open)
            break;
        units_pump();
        requests_pump();
        int count = epoll_wait(poll_fd, events, 256, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr)
                request_answered(events[i].data.ptr);
            else
                pg_receive();
        }
    }
    printf("{\"runs\": %ld, \"seconds\": %.6f, \"units\": %ld, \"p50_us\": %u, \"p99_us\": %u}\n",
           runs_ended, (double)(now_us() - start_us) / 1e6, units_total,
           samples_percentile(&latency, 50), samples_percentile(&latency, 99));
    fflush(stdout);
    (void)getchar(); /* and again before it goes */
    PQfinish(pg);
    return 0;
}
