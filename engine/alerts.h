/*
 * alerts.h: tells others that a run waits for a person, or that a service is down.
 *
 * Each target of the config is told by itself: a POST to its URL, or a program that gets the same
 * JSON on its standard input. What it is to be told stands in saga.alert, so that it is told at
 * least once whatever dies in between, and by whoever owns the run then. All that came up since the
 * last time goes into one message, so that an outage is not a storm.
 *
 * A target that fails is tried again after `every`, then after growing pauses up to
 * ALERTS_PAUSE_US.
 */
#ifndef ENGINE_ALERTS_H
#define ENGINE_ALERTS_H

#include "engine/invoke.h"
#include "engine/runner.h"
#include "engine/secrets.h"
#include "engine/store_pg.h"

#define ALERTS_EVERY_US (10 * SECOND_US)
#define ALERTS_TIMEOUT_US (10 * SECOND_US)
#define ALERTS_PAUSE_US (5 * MINUTE_US)

/* One of `url` and `args`. */
struct alert_target {
    const char *name;
    const char *url;    /* http or https */
    const char *secret; /* name of the secret that is the URL; then `url` is NULL */
    const char *bearer; /* name of the secret that is sent as a token; NULL: none */
    const struct str *args;
    uint16_t args_count;
    bool on_parked, on_unknown, on_breaker;
    int64_t every_us;
};

struct alerts;

struct alerts_options { /* everything is borrowed */
    struct loop *loop;
    struct runner *runner;
    struct store_pg *store;
    const struct port_invoke *invoke;
    const struct secrets *secrets;
    const char *daemon;
    const struct alert_target *targets;
    unsigned count;
};

struct alerts *alerts_new(const struct alerts_options *options);
/* Whether the invocation is one of theirs; alerts_reply takes its answer. */
bool alerts_sent(uint64_t invocation_id);
void alerts_reply(struct alerts *alerts, uint64_t invocation_id, const struct reply *reply);
/* Nothing more is told. */
void alerts_stop(struct alerts *alerts);
/* NULL is allowed. After the store was closed: its answers come here. */
void alerts_free(struct alerts *alerts);

#endif
