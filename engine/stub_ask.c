#include "engine/stub_ask.h"

#include "dsl/answer_sample.h"
#include "engine/ask.h"
#include "engine/render.h"
#include "engine/unknown.h"

static const struct plan_action *action_of(const struct stub_question *question)
{
    return step_action(&question->row->plan->steps[question->ref.step], question->ref.direction);
}

/* The run and what its reads see of it; NULL if there is nothing to ask, else for run_free once the
 * scope is no longer needed. */
static struct run *scope_make(const struct stub_question *question, struct arena *arena,
                              struct expr_scope *scope, struct instance **instance)
{
    uint32_t count;
    struct err err;
    struct rendered rendered;
    const struct run_record *records = stub_row_load(question->row, false, arena, &count);
    struct run *run = run_new(question->row->plan, question->row->id);
    for (uint32_t i = 0; i < count; i++)
        if (run_load(run, &records[i]))
            break; /* unsound rows: the run itself tells of them */
    *instance = run_instance(run, question->ref.step, question->ref.item);
    struct effect_state *side =
        *instance ? instance_side(*instance, question->ref.direction) : NULL;
    if (side && side->generation) {
        struct render render = {.run = run,
                                .instance = *instance,
                                .direction = question->ref.direction,
                                .generation = side->generation,
                                .now = side->claimed_at,
                                .env = question->env};
        if (render_ask(&render, arena, &rendered, scope, &err) == 0)
            return run;
    }
    run_free(run);
    return NULL;
}

static bool has_proof(const struct plan_reconcile *reconcile, enum outcome says)
{
    switch (says) {
    case OUTCOME_APPLIED: return reconcile->applied != NULL;
    case OUTCOME_IN_PROGRESS: return reconcile->in_progress != NULL;
    case OUTCOME_REFUSED: return reconcile->refused != NULL;
    case OUTCOME_RETRYABLE: return reconcile->not_applied != NULL;
    case OUTCOME_UNKNOWN:
    case OUTCOME_CONFLICT:
    case OUTCOME_NONE: break;
    }
    return false;
}

/* What is refused has not been applied either. */
static enum outcome provable(const struct plan_reconcile *reconcile, enum outcome truth)
{
    if (truth == OUTCOME_REFUSED && !reconcile->refused)
        truth = OUTCOME_RETRYABLE;
    return has_proof(reconcile, truth) ? truth : OUTCOME_UNKNOWN;
}

static void http_fill(const struct json *response, struct arena *arena, struct reply *out)
{
    const struct json *headers = json_get_z(response, "headers"), *body;
    uint32_t count = headers ? headers->count : 0;
    struct request_pair *pairs = arena_array(arena, struct request_pair, count);
    int64_t status = 200;
    json_to_int(json_get_z(response, "status"), &status);
    out->kind = REPLY_HTTP;
    out->status = (int)status;
    for (uint32_t i = 0; i < count; i++)
        if (headers->members[i].value->kind == JSON_STRING)
            pairs[out->headers_count++] =
                (struct request_pair){headers->members[i].name, headers->members[i].value->text};
    out->headers = pairs;
    body = json_get_z(response, "body");
    out->body = body ? json_text(body, arena) : STR_NONE;
}

static void reply_fill(const struct plan_action *ask, const struct json *response,
                       struct arena *arena, struct reply *out)
{
    const struct json *body;
    int64_t exit = 0;
    *out = (struct reply){0};
    if (ask->kind == ACTION_HTTP) {
        http_fill(response, arena, out);
        return;
    }
    if (ask->kind == ACTION_EXEC) {
        body = json_get_z(response, "stdout");
        json_to_int(json_get_z(response, "exit"), &exit);
        out->kind = REPLY_EXEC;
        out->status = (int)exit;
        out->stderr_text = json_get_text(response, "stderr");
        out->body = body ? json_text(body, arena) : STR_NONE;
        return;
    }
    struct json *result = json_object_new(arena, 2);
    json_object_add_z(result, "rows", json_get_z(response, "rows"));
    json_object_add_z(result, "count", json_get_z(response, "count"));
    out->kind = ask->service == PLAN_SERVICE_NONE ? REPLY_SQL_OPEN : REPLY_SQL;
    out->body = json_text(result, arena);
}

/* In the words of each kind. */
static const struct json *nothing_proven(const struct plan_action *ask, struct arena *arena)
{
    struct json *response = json_object_new(arena, 3);
    json_object_add_z(response, "status", json_int(arena, 200));
    json_object_add_z(response, "body", json_object_new(arena, 0));
    if (ask->kind != ACTION_SQL)
        return response;
    response = json_object_new(arena, 2);
    json_object_add_z(response, "rows", json_list_new(arena, 0));
    json_object_add_z(response, "count", json_int(arena, 0));
    return response;
}

bool stub_ask_answer(const struct stub_question *question, enum outcome truth, struct str output,
                     struct arena *arena, struct reply *out)
{
    const struct plan_reconcile *reconcile = action_of(question)->reconcile;
    const struct json *response = NULL, *known = NULL;
    struct expr_scope scope;
    struct instance *instance;
    struct err err;
    struct run *run = scope_make(question, arena, &scope, &instance);
    if (output.len && json_parse(output, arena, &known, &err) != 0)
        known = NULL;
    if (run)
        response = answer_sample(reconcile, provable(reconcile, truth), known, &scope, arena);
    reply_fill(&reconcile->ask, response ? response : nothing_proven(&reconcile->ask, arena), arena,
               out);
    run_free(run);
    return response != NULL;
}

enum outcome stub_ask_says(const struct stub_question *question, const struct reply *reply,
                           struct wall sent_at, struct arena *arena)
{
    const struct plan_action *action = action_of(question);
    struct expr_scope scope;
    struct instance *instance;
    struct str detail;
    struct run *run = scope_make(question, arena, &scope, &instance);
    if (!run)
        return OUTCOME_UNKNOWN;
    enum outcome says = ask_judge(action->reconcile, reply, &scope, arena, &detail);
    struct wall settled =
        unknown_settled_at(action, instance_side(instance, question->ref.direction));
    if (says == OUTCOME_RETRYABLE && sent_at.us < settled.us)
        says = OUTCOME_UNKNOWN;
    run_free(run);
    return says;
}
