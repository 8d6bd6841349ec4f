/*
 * fake_invoke.h: for tests of invokers: an invocation without a plan, and a place where replies
 * are kept.
 */
#ifndef TESTS_LIB_FAKE_INVOKE_H
#define TESTS_LIB_FAKE_INVOKE_H

#include "engine/loop.h"
#include "engine/port.h"

/* An invocation with all it points to. Fill in, then start; everything is copied there. */
struct fake_call {
    struct plan_service service;
    struct plan_action action;
    struct request request;
    struct request_pair headers[80];
    struct str args[16];
    struct invocation invocation;
};

/* A POST to `url` with a body, a key and a time limit of 5 s. */
void fake_http(struct fake_call *call, const char *url, const char *path);
/* The program with up to 15 arguments, ended by NULL; time limit 5 s. */
void fake_exec(struct fake_call *call, const char *program, ...);
void fake_header(struct fake_call *call, struct str name, struct str value);
/* Starts it under the next id, which it returns. */
uint64_t fake_start(struct fake_call *call, const struct port_invoke *port);

struct fake_reply {
    uint64_t id;
    struct reply reply; /* copied */
    struct mono at;
};

struct fake_replies {
    struct loop *loop;
    struct arena arena;
    struct fake_reply list[4096];
    size_t count;
};

/* The callback for an invoker's options; `arg` is a struct fake_replies. */
void fake_replies_add(void *arg, uint64_t id, const struct reply *reply);
void fake_replies_free(struct fake_replies *replies);
/* Runs the loop until `count` replies are there. False after `limit_us`. */
bool fake_replies_wait(struct fake_replies *replies, size_t count, int64_t limit_us);
/* Runs the loop for that long, whatever comes. */
void fake_idle(struct loop *loop, int64_t for_us);
/* The reply to this invocation, once it is there. Fails the program if it never comes. */
const struct reply *fake_reply_to(struct fake_replies *replies, uint64_t id);
/* Absent: the reply has no such header. */
struct str fake_reply_header(const struct reply *reply, const char *name);

unsigned fake_open_files(void); /* descriptors of this process */

#endif
