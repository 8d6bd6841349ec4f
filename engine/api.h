/*
 * api.h: what the requests on the control socket mean.
 *
 * Writing goes through the runner where this daemon owns the run, else through the inbox; reading
 * asks the database, whose functions build the JSON, so that digits and order of members stay as
 * they came.
 */
#ifndef ENGINE_API_H
#define ENGINE_API_H

#include "engine/access.h"
#include "engine/bulk.h"
#include "engine/control.h"
#include "engine/plans.h"
#include "engine/runner.h"
#include "engine/store_pg.h"

#define API_VERB_WAIT_US (5 * SECOND_US) /* then a verb at another daemon is answered 202 */
#define API_WAIT_MAX_S 600               /* of Prefer: wait=N */

struct api;

struct api_options { /* everything is borrowed for the api's life */
    struct loop *loop;
    struct runner *runner;
    struct store_pg *store;
    struct plans *plans;
    struct queues *queues;
    struct bulks *bulks;
    const struct dsl_options *dsl;
    const struct json *env; /* what `env.NAME` of a run_id may read */
    const char *daemon;
    const struct access *access;
};

struct api *api_new(const struct api_options *options);
void api_free(struct api *api); /* NULL is allowed; requests that wait are answered 503 */

/* Answers what waits (503), for the end of a drain. True if there was something: the answers need a
 * moment of the loop. */
bool api_end(struct api *api);

/* For control_open_tcp: GET /metrics, /healthz and /readyz, for whoever asks. */
void api_scrape(void *arg, struct control_request *request);
/* For control_open. */
void api_handle(void *arg, struct control_request *request);
/* A run's facts became durable: wakes who waits for it. */
void api_changed(struct api *api, struct str run_id, enum run_state state);

/* A start that came through the inbox. Returns false to have it offered again later. */
bool api_inbox_start(struct api *api, const struct store_inbox *row);
bool api_inbox_verb(struct api *api, const struct store_inbox *row);

#endif
