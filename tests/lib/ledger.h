/*
 * ledger.h: an HTTP participant for tests: remembers every request before it answers, and answers
 * as scripted.
 *
 * Lives on the test's own event loop, listens on 127.0.0.1, and reads and writes sockets itself,
 * so that it can do what no HTTP server would. Each request takes the next scripted answer; when
 * none is left, the standing one (200 `{"ok":true}` unless changed).
 */
#ifndef TESTS_LIB_LEDGER_H
#define TESTS_LIB_LEDGER_H

#include "engine/base/sha256.h"
#include "engine/loop.h"

enum ledger_act {
    LEDGER_ANSWER,   /* as below */
    LEDGER_NEVER,    /* reads the request and stays silent */
    LEDGER_RESET,    /* reads the request, then resets the connection */
    LEDGER_CLOSE,    /* reads the request, then closes the connection */
    LEDGER_CUT_READ, /* resets after `bytes` bytes of the request's body were read */
    LEDGER_CUT,      /* sends `bytes` bytes of the answer, then closes */
    LEDGER_TRICKLE,  /* sends the answer byte by byte, `delay_us` apart */
    LEDGER_RAW,      /* `body` is the whole answer, status line included */
    LEDGER_FLOOD,    /* sends `body` over and over, `repeat` times; length as `length` says */
};

enum ledger_length { LEDGER_LENGTH, LEDGER_CHUNKED, LEDGER_UNTIL_CLOSE };

struct ledger_answer {
    enum ledger_act act;
    int status;          /* 0: 200 */
    const char *headers; /* more header lines, each with \r\n; NULL: none */
    struct str body;
    int64_t delay_us;
    size_t bytes, repeat;
    enum ledger_length length;
    bool close; /* the connection, after the answer */
};

struct ledger_request {
    struct str method, target, head, body; /* body: as far as it was read */
    struct str key;                        /* Idempotency-Key */
    struct sha256 body_hash;
    struct mono at;
    unsigned connection; /* from 1, in the order they were accepted */
    bool complete;
};

struct ledger;

struct ledger *ledger_new(struct loop *loop);
void ledger_free(struct ledger *ledger);
const char *ledger_url(const struct ledger *ledger); /* http://127.0.0.1:PORT */
uint16_t ledger_port(const struct ledger *ledger);

void ledger_script(struct ledger *ledger, struct ledger_answer answer); /* borrows its texts */
void ledger_always(struct ledger *ledger, struct ledger_answer answer);

size_t ledger_count(const struct ledger *ledger);         /* requests, complete or cut */
unsigned ledger_connections(const struct ledger *ledger); /* accepted so far */
unsigned ledger_open(const struct ledger *ledger);        /* connections that stand */
const struct ledger_request *ledger_get(const struct ledger *ledger, size_t index);
/* The value of a header, the name in any case; absent: it is not there. */
struct str ledger_header(const struct ledger_request *request, const char *name);
/* Closes every connection that stands, politely; the listening socket stays. */
void ledger_hang_up(struct ledger *ledger);

#endif
