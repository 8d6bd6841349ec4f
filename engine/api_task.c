/*
 * api_task.c: workers: taking tasks from a queue, and reporting on them.
 *
 * A take is a long poll. Each task is claimed durably before it is handed out; one whose worker
 * hung up meanwhile is given back at once, certainly not started.
 */
#include "engine/api_impl.h"
#include "engine/failpoint.h"
#include "engine/key.h"
#include "engine/queues.h"

#include <stdlib.h>

#define TAKE_WAIT_MAX_S 60
#define TAKE_TASKS_MAX 100
#define QUEUE_NAME_BYTES_MAX 63
#define TAKE_AGAIN_US (20 * MS_US)

#define TAKE_MAGIC 0x54414b45u

struct take {
    unsigned magic;
    struct take *next, **place;
    struct api *api;
    struct control_request *request;
    struct arena *arena; /* the request's */
    struct str queue;
    uint32_t max, asking; /* asking: claims that are not decided */
    struct json *tasks;
    bool gone, over;
    struct queue_taker taker;
    struct loop_timer *timer, *again; /* its end; a task cannot be claimed now */
};

static void take_more(struct take *take);

static void take_free(struct take *take)
{
    queues_unwait(take->api->o.queues, &take->taker);
    loop_timer_free(take->timer);
    loop_timer_free(take->again);
    *take->place = take->next;
    if (take->next)
        take->next->place = take->place;
    take->magic = 0;
    free(take);
}

/* Answers once nothing is being claimed any more. */
static void take_end(struct take *take)
{
    struct control_request *request = take->request;
    struct json *out = json_object_new(take->arena, 1);
    if (take->asking)
        return;
    json_object_add_z(out, "tasks", take->tasks);
    control_on_gone(request, NULL, NULL);
    take_free(take);
    FAILPOINT("task_answer");
    control_reply(request, 200, json_text(out, control_arena(request)));
}

static struct json *times_json(const struct run_task *task, struct arena *arena, struct json *out)
{
    json_object_add_z(out, "deadline", json_string(arena, wall_format(task->deadline_at, arena)));
    json_object_add_z(out, "heartbeat",
                      task->heartbeat_us
                          ? json_string(arena, duration_format(task->heartbeat_us, arena))
                          : &json_null);
    return out;
}

static const struct json *task_json(const struct run_task *task, struct arena *arena)
{
    struct json *out = json_object_new(arena, 10);
    const struct json *payload;
    struct err err;
    int code = json_parse(arena_str(arena, task->payload), arena, &payload, &err);
    ASSERT(code == 0); /* the engine has written it */
    json_object_add_z(out, "key", json_string(arena, arena_str(arena, task->key)));
    json_object_add_z(out, "token", json_string(arena, arena_str(arena, task->token)));
    json_object_add_z(out, "run_id", json_string(arena, arena_str(arena, key_run_id(task->key))));
    json_object_add_z(out, "step", json_string(arena, arena_str(arena, task->step)));
    json_object_add_z(out, "action", json_string_z(arena, direction_name(task->direction)));
    json_object_add_z(out, "attempt", json_int(arena, task->attempt));
    json_object_add_z(out, "compensates",
                      task->compensates.ptr
                          ? json_string(arena, arena_str(arena, task->compensates))
                          : &json_null);
    json_object_add_z(out, "payload", payload);
    return times_json(task, arena, out);
}

/* The worker went away before it was told: the task has certainly not been started. */
static void give_back(struct api *api, struct str key, struct str token)
{
    struct reply reply = {.kind = REPLY_NOT_SENT, .error = STR("its worker hung up")};
    struct runner_verb verb = {
        .kind = EVENT_FAIL, .run_id = key_run_id(key), .key = key, .token = token, .reply = &reply};
    struct err err;
    if (runner_verb(api->o.runner, &verb, NULL, NULL, &err) != 0)
        return; /* the lease is gone: the task's time will tell */
}

static void claimed(void *arg, const struct runner_answer *answer)
{
    struct take *take = arg;
    take->asking--;
    if (!answer->err.code && take->gone)
        give_back(take->api, answer->task->key, answer->task->token);
    else if (!answer->err.code)
        json_list_add(take->tasks, task_json(answer->task, take->arena));
    take_more(take);
}

static void take_more(struct take *take)
{
    struct api *api = take->api;
    bool later = false;
    struct str key;
    struct err err;
    while (!take->gone && !take->over && take->tasks->count + take->asking < take->max &&
           queues_pop(api->o.queues, take->queue, take->arena, &key)) {
        struct runner_verb verb = {.kind = EVENT_TAKE, .run_id = key_run_id(key), .key = key};
        if (runner_verb(api->o.runner, &verb, claimed, take, &err) == 0) {
            take->asking++;
        } else if (runner_stats(api->o.runner).shards >> shard_of(verb.run_id) & 1) {
            /* Not now: too much waits for its run already. Looking for it again is up to this
             * take: no new offer may come. Of a run that is not here its owner offers it. */
            struct port_tasks port = queues_port(api->o.queues);
            port.offer(port.arg, take->queue, verb.run_id, key);
            loop_timer_set(take->again, TAKE_AGAIN_US);
            later = true;
            break;
        }
    }
    if (take->asking)
        return;
    if (take->tasks->count || take->gone || take->over)
        take_end(take);
    else if (!later && !take->taker.queue)
        queues_wait(api->o.queues, take->queue, &take->taker);
}

/* There may be a task, or one that could not be claimed before can be now. */
static void take_look(void *arg)
{
    struct take *take;
    CAST_OBJ(take, arg, TAKE_MAGIC);
    take_more(take);
}

static void take_over(void *arg)
{
    struct take *take;
    CAST_OBJ(take, arg, TAKE_MAGIC);
    take->over = true;
    take_more(take);
}

static void take_gone(void *arg)
{
    struct take *take;
    CAST_OBJ(take, arg, TAKE_MAGIC);
    take->gone = true;
    for (uint32_t i = 0; i < take->tasks->count; i++)
        give_back(take->api, json_get_text(take->tasks->items[i], "key"),
                  json_get_text(take->tasks->items[i], "token"));
    take_more(take);
}

static bool count_read(struct control_request *request, const struct json *body, const char *name,
                       int64_t max, int64_t *out)
{
    const struct json *value = json_get_z(body, name);
    if (!value)
        return true;
    if (value->kind == JSON_NUMBER && json_to_int(value, out) && *out >= 0 && *out <= max)
        return true;
    control_problem(request, 422, "bad_request", NULL, "%s must be a whole number from 0 to %lld",
                    name, (long long)max);
    return false;
}

static void queue_take(struct api *api, struct control_request *request, struct str queue)
{
    static const char *const known[] = {"worker", "wait", "max"};
    const struct json *body;
    int64_t wait_s = 0, max = 1;
    if (!queue.len || queue.len > QUEUE_NAME_BYTES_MAX) {
        control_problem(request, 422, "bad_request", NULL, "a queue's name has 1 to %d characters",
                        QUEUE_NAME_BYTES_MAX);
        return;
    }
    if (!body_read(request, &body) || !members_known(request, body, known, ARRAY_LEN(known)) ||
        !count_read(request, body, "wait", TAKE_WAIT_MAX_S, &wait_s) ||
        !count_read(request, body, "max", TAKE_TASKS_MAX, &max))
        return;
    struct take *take = xcalloc(1, sizeof(*take));
    take->magic = TAKE_MAGIC;
    take->api = api;
    take->request = request;
    take->arena = control_arena(request);
    take->queue = arena_str(take->arena, queue);
    take->max = (uint32_t)MAX(max, INT64_C(1));
    take->tasks = json_list_new(take->arena, take->max);
    take->taker = (struct queue_taker){.ready = take_look, .arg = take};
    take->timer = loop_timer_new(api->o.loop, take_over, take);
    take->again = loop_timer_new(api->o.loop, take_look, take);
    take->next = api->takes;
    take->place = &api->takes;
    if (take->next)
        take->next->place = &take->next;
    api->takes = take;
    control_on_gone(request, take_gone, take);
    loop_timer_set(take->timer, wait_s * SECOND_US);
    take_more(take);
}

void takes_end(struct api *api, bool all)
{
    for (struct take *take = api->takes, *next; take; take = next) {
        next = take->next;
        take->over = true;
        if (take->asking && !all)
            continue; /* its claims come to an end, or are lost with the lease */
        struct control_request *request = take->request;
        control_on_gone(request, NULL, NULL);
        take_free(take);
        control_problem(request, 503, "shutting_down", NULL, "the daemon is shutting down");
    }
}

/* --- reports -------------------------------------------------------------------------------- */

struct report {
    struct api *api;
    struct control_request *request;
    struct runner_verb verb;
    struct str body; /* as it came: what goes through the inbox */
};

static void report_answered(void *arg, const struct runner_answer *answer)
{
    struct report *report = arg;
    struct control_request *request = report->request;
    struct arena *arena = control_arena(request);
    FAILPOINT("task_answer");
    if (answer->err.code == ERR_CONFLICT) {
        control_problem(request, 409, "task_lost", NULL, "%s", answer->err.text);
        return;
    }
    if (answer->err.code) {
        problem_err(request, &answer->err);
        return;
    }
    struct json *out = json_object_new(arena, 4);
    json_object_add_z(out, "run_id", json_string(arena, report->verb.run_id));
    if (answer->task) {
        times_json(answer->task, arena, out);
        json_object_add_z(out, "turned_back", json_bool(answer->task->turned_back));
    }
    control_reply(request, 200, json_text(out, arena));
}

static void report_settled(void *arg, const struct request_result *result)
{
    struct report *report = arg;
    struct arena *arena = control_arena(report->request);
    if (!result->settled) {
        control_reply(report->request, 202, result->json);
    } else if (str_eq(result->outcome, STR("done"))) {
        struct json *out = json_object_new(arena, 1);
        json_object_add_z(out, "run_id", json_string(arena, report->verb.run_id));
        control_reply(report->request, 200, json_text(out, arena));
    } else {
        bool none = str_eq(result->answer, STR("there is no such run"));
        control_problem(report->request, none ? 404 : 409, none ? "not_found" : "task_lost", NULL,
                        STR_FMT, STR_ARG(result->answer));
    }
}

/* An answer that is too large is dropped, as one of a service would be: the work is done. */
static void output_read(const struct json *output, struct arena *arena, struct reply *reply)
{
    if (!output || output->kind == JSON_NULL)
        return;
    reply->body = json_text(output, arena);
    if (reply->body.len > BODY_BYTES_MAX) {
        reply->body = STR_NONE;
        reply->body_dropped = true;
    }
}

int task_report_read(const struct json *body, struct arena *arena, struct runner_verb *verb,
                     struct err *err)
{
    struct reply *reply = arena_new(arena, struct reply);
    const struct json *retryable = json_get_z(body, "retryable");
    verb->key = json_get_text(body, "key");
    verb->token = json_get_text(body, "token");
    if (!verb->key.len || !verb->token.len)
        return err_set(err, ERR_INVALID, "give the task's \"key\" and \"token\" as the take did");
    verb->run_id = arena_str(arena, key_run_id(verb->key));
    if (!verb->run_id.len)
        return err_set(err, ERR_INVALID, "\"key\" is no key of a task");
    if (verb->kind == EVENT_HEARTBEAT)
        return 0;
    reply->kind = REPLY_WORKER;
    reply->failed = verb->kind == EVENT_FAIL;
    if (reply->failed) {
        if (retryable && retryable->kind != JSON_BOOL)
            return err_set(err, ERR_INVALID, "\"retryable\" must be true or false");
        reply->retryable = retryable && retryable->boolean;
        reply->code = json_get_text(body, "code");
        reply->error = json_get_text(body, "message");
        if (!reply->error.len || reply->error.len > 1000 || reply->code.len > 100)
            return err_set(err, ERR_INVALID,
                           "give a \"message\" of 1 to 1000 bytes, and a \"code\" of at most 100");
    }
    output_read(json_get_z(body, reply->failed ? "body" : "output"), arena, reply);
    verb->reply = reply;
    return 0;
}

static void task_report(struct api *api, struct control_request *request, struct str name)
{
    static const char *const complete[] = {"key", "token", "output"};
    static const char *const fail[] = {"key", "token", "code", "message", "retryable", "body"};
    struct arena *arena = control_arena(request);
    struct report *report = arena_new(arena, struct report);
    const struct json *body;
    struct err err;
    *report = (struct report){.api = api, .request = request};
    report->verb.kind = run_event_of(name);
    report->verb.actor = control_actor(request);
    bool failed = report->verb.kind == EVENT_FAIL;
    if (report->verb.kind < EVENT_COMPLETE || report->verb.kind > EVENT_HEARTBEAT) {
        control_problem(request, 404, "not_found", NULL,
                        "a task can be told complete, fail or heartbeat");
        return;
    }
    size_t known = failed ? ARRAY_LEN(fail) : report->verb.kind == EVENT_COMPLETE ? 3 : 2;
    if (!body_read(request, &body) ||
        !members_known(request, body, failed ? fail : complete, known))
        return;
    int code = task_report_read(body, arena, &report->verb, &err);
    if (!code)
        code = runner_verb(api->o.runner, &report->verb, report_answered, report, &err);
    if (code == ERR_UNAVAILABLE && store_pg_is_up(api->o.store))
        request_put(api, request, name, report->verb.run_id, NULL, json_text(body, arena),
                    report_settled, report);
    else if (code)
        problem_err(request, &err);
}

bool task_route(struct api *api, struct control_request *request, struct str kind, struct str name,
                struct str rest)
{
    if (control_method(request) != CONTROL_POST)
        return false;
    if (str_eq(kind, STR("queues")) && str_eq(rest, STR("/take")))
        queue_take(api, request, name);
    else if (str_eq(kind, STR("tasks")) && !rest.len)
        task_report(api, request, arena_str(control_arena(request), name));
    else
        return false;
    return true;
}
