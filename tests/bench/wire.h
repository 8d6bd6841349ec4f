/*
 * wire.h: what the programs of the benchmark share: just enough HTTP/1.1 for keep-alive
 * connections on loopback, a clock, percentiles. No limits are guarded against and every error
 * ends the program: nothing here is meant for a network.
 */
#ifndef TESTS_BENCH_WIRE_H
#define TESTS_BENCH_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define WIRE_BYTES_MAX 65536

/* One side of a connection: what came and was not looked at yet. */
struct wire {
    int fd;
    size_t len;
    char in[WIRE_BYTES_MAX];
};

struct wire_message {
    const char *head, *body; /* borrowed from the wire until wire_next is called again */
    size_t bytes, body_len;
    int status; /* of an answer; 0 for a request */
};

/* Reads what is there. 0: the other side closed. */
int wire_read(struct wire *wire);
/* Takes the next whole message; 0: there is none yet. */
int wire_next(struct wire *wire, struct wire_message *message);
void wire_consume(struct wire *wire, const struct wire_message *message);
/* Sends all of it; the messages here fit every socket buffer. */
void wire_send(struct wire *wire, const char *data, size_t len);

int wire_connect_port(int port);
int wire_connect_path(const char *path);
int wire_listen(int *port);

int64_t now_us(void);
_Noreturn void die(const char *what);

/* A growing list of 32-bit numbers of microseconds. */
struct samples {
    uint32_t *list;
    size_t count, size;
};
void samples_add(struct samples *samples, int64_t us);
/* Sorts the list; 0 if it is empty. */
uint32_t samples_percentile(struct samples *samples, double percent);

#endif
