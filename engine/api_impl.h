/*
 * api_impl.h: what the api*.c share; nobody else includes it.
 */
#ifndef ENGINE_API_IMPL_H
#define ENGINE_API_IMPL_H

#include "engine/api.h"
#include "engine/version.h"

struct waiter;
struct take;
struct showing;

/* Refused calls that are kept in the audit, of this daemon: how many of all and of one person in a
 * window of time. So a flood of them adds at most 2400 rows a day. */
#define DENIALS_WINDOW_US (INT64_C(3600) * SECOND_US)
#define DENIALS_MAX 100
#define DENIALS_OF_ONE_MAX 10

struct denials {
    int64_t since_us; /* of the window; 0: none has begun */
    uint64_t skipped; /* not kept since the last one that was */
    uint32_t kept, people_count;
    struct denials_person {
        uint32_t uid, kept;
    } people[DENIALS_MAX];
};

struct api {
    struct api_options o;
    struct mono started;
    uint64_t conflicts; /* submits of a run id that was used for something else */
    struct waiter *waiters;
    struct take *takes;
    struct denials denials;
    struct showing *showings; /* dry runs that are being sent */
};

/* What became of a row put into another daemon's inbox. */
struct request_result {
    bool settled;
    struct str outcome, answer;
    enum err_code code; /* why it was not done; ERR_NONE: done */
    struct str json;    /* the request as saga.requests shows it */
};

/* Cuts the next segment off the path "/a/b/c"; absent at the end. */
struct str segment_next(struct str *path);
int status_of(enum err_code code);
void problem_err(struct control_request *request, const struct err *err);
void uuid7_make(struct wall now, char out[37]);
/* True after answering what a search over many runs was refused for: a path that is none, or that
 * it took too long. */
bool search_problem(struct control_request *request, const struct err *err);
/* False after answering: 400 for what is no JSON object, 422 for JSON that cannot be stored. */
bool body_read(struct control_request *request, const struct json **out);
/* False after answering 422: the body has another member. */
bool members_known(struct control_request *request, const struct json *body,
                   const char *const *known, size_t count);

/* A question that shows the runs of the caller's tenants alone (control_tenants). `sql` is "select
 * saga.NAME(...)" of a function that is granted to readers: others do not heed tenants. */
void seen_query(struct api *api, struct control_request *request, const char *sql,
                const char *const *params, unsigned count, store_answered *done, void *arg);
/* False after answering 403: the caller's grant is bound to other tenants. */
bool tenant_admit(struct control_request *request, struct str tenant);

/* Answers with the run's JSON once it has ended or is parked (`status_end`), or after `wait_s`
 * seconds (`status_open`); at once with wait_s = 0. */
void wait_for_run(struct api *api, struct control_request *request, struct str run_id, int wait_s,
                  int status_end, int status_open);
/* The same for a run that was just started here: its end will be told, nothing is asked before. */
void wait_for_new_run(struct api *api, struct control_request *request, struct str run_id,
                      int wait_s, int status_end, int status_open);
/* GET /v1/runs/ID, with ?prefix=1 also by a unique beginning. */
void run_show(struct api *api, struct control_request *request, struct str run_id, int wait_s);
/* GET /v1/runs/ID/events, as JSON or as server-sent events. */
void events_show(struct api *api, struct control_request *request, struct str run_id);

/* Puts a row into the inbox and waits up to API_VERB_WAIT_US for the owner. `done` must answer the
 * request; errors of the way are answered here. `arg` and texts live in the request's arena. */
void request_put(struct api *api, struct control_request *request, struct str kind,
                 struct str run_id, const struct sha256 *workflow, struct str body,
                 void (*done)(void *arg, const struct request_result *result), void *arg);

/* Ends all waits, answering 503. With `all`, no question will come back any more. */
void waiters_end(struct api *api, bool all);

/* --- api_apply.c --- */

/* PUT /v1/workflows and POST /v1/validate: a file as it is, or several as a JSON document. */
void workflows_apply(struct api *api, struct control_request *request);
void workflows_validate(struct api *api, struct control_request *request);

/* --- api_metrics.c --- */

/* GET /metrics: the text format of Prometheus. */
void metrics_show(struct api *api, struct control_request *request);

/* --- api_start.c --- */

/* POST /v1/runs */
void run_submit(struct api *api, struct control_request *request);
/* The wait in seconds that `Prefer: wait=N` asks for. */
int prefer_wait(const struct control_request *request);

/* --- api_verb.c --- */

/* POST /v1/runs/ID/VERB, /v1/runs/ID/steps/STEP/VERB; step is "" without one. */
/* POST /v1/answers */
void answers_take(struct api *api, struct control_request *request);
void run_verb(struct api *api, struct control_request *request, struct str run_id, struct str step,
              struct str name);
/* Settles a request of the inbox that cannot be obeyed. */
void inbox_refuse(struct api *api, const struct store_inbox *row, const struct err *why);

/* --- api_denied.c --- */

/* What somebody wanted who may not; texts without a value are "". */
struct denial_act {
    struct str verb, run_id, step, reason;
};

/* Puts it into the audit, if it is within the bounds; false: it is not, and `done` is not called.
 */
bool denial_keep(struct api *api, struct control_request *request, const struct denial_act *act,
                 struct str why, store_answered *done, void *arg);
/* Answers 403; what operators and admins may call is kept first. `why` lives in the request. */
void call_deny(struct api *api, struct control_request *request, struct str why);

/* --- api_rehearse.c --- */

/* A declared `dry_run` to be sent. */
struct show {
    struct str step; /* instance */
    struct request request;
    uint32_t place;           /* the caller's */
    const struct json *shown; /* then: {answer}, {no_answer} or {not_sent} */
    struct err refusal;       /* why it was not even tried; code 0: it was */
};

/* Those of one request on the socket; all of it lies in the request's arena. */
struct showing {
    struct showing *next;
    struct api *api;
    struct control_request *request;
    const struct plan *plan; /* referenced from showing_begin until `done` */
    struct str run_id;
    struct show *list;
    uint32_t count, at;
    struct mono until;
    void (*done)(struct showing *showing); /* must answer the request */
};

/* Keeps in the audit who asked for what, then sends them one after the other. `run_id` is "" where
 * there is no run yet. Answers the request itself if the audit cannot be written: nothing is sent
 * then. */
void showing_begin(struct showing *showing, struct str run_id, struct str step, struct str reason);
/* Answers 503 to those that wait. True if there were some. */
bool showings_end(struct api *api);

/* POST /v1/runs/ID/steps/STEP/dry_run */
void step_rehearse(struct api *api, struct control_request *request, struct str run_id,
                   struct str step);

/* --- api_bulk.c --- */

/* GET /v1/bulk/ID; POST /v1/bulk/ID/stop. */
void bulk_show(struct api *api, struct control_request *request, struct str id);
void bulk_stop(struct api *api, struct control_request *request, struct str id);
/* POST /v1/runs:VERB */
void bulk_verb(struct api *api, struct control_request *request, struct str name);

/* --- api_task.c --- */

/* Workers: POST /v1/queues/NAME/take, /v1/tasks/VERB. False: it is none of these. */
bool task_route(struct api *api, struct control_request *request, struct str kind, struct str name,
                struct str rest);
/* Reads {key, token, ...} of the report `verb->kind`. What it points to lies in `arena` and `body`.
 * Errors: ERR_INVALID. */
MUST_USE int task_report_read(const struct json *body, struct arena *arena,
                              struct runner_verb *verb, struct err *err);
/* Ends the takes that wait, answering 503; those whose claims are not decided end by themselves, or
 * with `all` too: no answer will come any more. */
void takes_end(struct api *api, bool all);

#endif
