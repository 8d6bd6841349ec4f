/*
 * api_metrics.c: GET /metrics.
 *
 * Counters are of this process, from its start. What waits for somebody is of the whole
 * installation and comes from the database: the same at each daemon, left out while it is away.
 */
#include "engine/api_impl.h"
#include "engine/tally.h"

static void head(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void one(struct buf *out, const char *name, const char *type, const char *help,
                uint64_t value)
{
    head(out, name, type, help);
    buf_printf(out, "%s %llu\n", name, (unsigned long long)value);
}

static void labelled(struct buf *out, const char *name, const char *label, const char *value,
                     uint64_t number)
{
    buf_printf(out, "%s{%s=\"%s\"} %llu\n", name, label, value, (unsigned long long)number);
}

static void runs_write(const struct api *api, struct buf *out)
{
    struct runner_stats stats = runner_stats(api->o.runner);
    one(out, "saga_runs_started_total", "counter", "Runs started by this daemon.", stats.started);
    one(out, "saga_submits_repeated_total", "counter", "Submits of a run id that was used before.",
        stats.taken);
    one(out, "saga_submits_conflicting_total", "counter",
        "Submits of a run id that was used for something else.", api->conflicts);
    head(out, "saga_runs_entered_total", "counter", "Runs that came into a state.");
    for (int state = RUN_RUNNING; state < RUN_STATE_COUNT; state++)
        labelled(out, "saga_runs_entered_total", "state", run_state_name((enum run_state)state),
                 stats.entered[state]);
    one(out, "saga_shards_acquired_total", "counter",
        "Times that this daemon began to own shards: starts and leases won anew.", stats.acquired);
    one(out, "saga_runs_loaded_total", "counter",
        "Open runs picked up: at a start, from another daemon, or again after an error.",
        stats.loaded);
    one(out, "saga_units_total", "counter", "Transactions acknowledged.", stats.units);
    one(out, "saga_records_total", "counter", "Records acknowledged.", stats.records);
    one(out, "saga_runs_resident", "gauge", "Runs in memory.", stats.resident);
    one(out, "saga_attempts_in_flight", "gauge", "Attempts that wait for an answer.",
        stats.in_flight);
    one(out, "saga_runs_held", "gauge",
        "Waits for room at a service: its limits or its breaker leave none.", stats.held);
    one(out, "saga_breakers_open", "gauge", "Services whose breaker is not closed.", stats.open);
    one(out, "saga_shards_owned", "gauge", "Shards owned and loaded, of 64.",
        (uint64_t)__builtin_popcountll(stats.shards));
    one(out, "saga_database_up", "gauge", "1 if the database can be reached.",
        store_pg_is_up(api->o.store));
    one(out, "saga_uptime_seconds", "gauge", "Since this daemon started.",
        (uint64_t)((loop_mono().us - api->started.us) / SECOND_US));
    head(out, "saga_attempts_ended_total", "counter", "Attempts that ended, by how.");
    for (int kind = REPLY_NONE + 1; kind < REPLY_KIND_COUNT; kind++)
        labelled(out, "saga_attempts_ended_total", "reply", reply_kind_name((enum reply_kind)kind),
                 stats.replies[kind]);
    one(out, "saga_attempts_sent_total", "counter", "Attempts and questions handed to an invoker.",
        stats.commands);
}

static void services_write(const struct tally *tally, struct buf *out)
{
    static const struct {
        const char *name, *help;
        size_t offset;
    } counters[] = {
        {"saga_service_attempts_total", "Attempts sent, by service.",
         offsetof(struct tally_service, sent)},
        {"saga_service_retries_total", "Attempts after the first one that this engine sent.",
         offsetof(struct tally_service, repeated)},
        {"saga_service_replays_total",
         "Answers that the service gave from memory (Idempotency-Replayed: true).",
         offsetof(struct tally_service, replayed)},
        {"saga_service_unguarded_repeats_total",
         "Sends of what may have been done already, under a key that is not honoured: possible "
         "duplicates.",
         offsetof(struct tally_service, unguarded)},
    };
    for (size_t i = 0; i < ARRAY_LEN(counters); i++) {
        head(out, counters[i].name, "counter", counters[i].help);
        for (uint32_t j = 0; j < tally->services_count; j++)
            labelled(out, counters[i].name, "service", tally->services[j].name,
                     *(const uint64_t *)(const void *)((const char *)&tally->services[j] +
                                                       counters[i].offset));
    }
}

static void tally_write(const struct tally *tally, struct buf *out)
{
    head(out, "saga_outcomes_total", "counter", "Attempts, by what they came to.");
    for (int outcome = OUTCOME_NONE + 1; outcome < TALLY_OUTCOMES; outcome++)
        labelled(out, "saga_outcomes_total", "outcome", outcome_name((enum outcome)outcome),
                 tally->outcomes[outcome]);
    head(out, "saga_findings_total", "counter",
         "What was found out about unknown outcomes, by who said it; retryable: not applied.");
    for (int source = FINDING_NONE + 1; source < TALLY_FINDINGS; source++)
        for (int says = OUTCOME_NONE + 1; says < OUTCOME_CONFLICT; says++)
            buf_printf(out, "saga_findings_total{source=\"%s\",says=\"%s\"} %llu\n",
                       finding_source_name((enum finding_source)source),
                       outcome_name((enum outcome)says),
                       (unsigned long long)tally->findings[source][says]);
    head(out, "saga_runs_parked_total", "counter",
         "Runs that came to need a person, by why; key_conflict: the participant holds the key "
         "for something else.");
    for (int reason = PARK_NONE + 1; reason < TALLY_REASONS; reason++)
        labelled(out, "saga_runs_parked_total", "reason",
                 park_reason_name((enum park_reason)reason), tally->parked[reason]);
    services_write(tally, out);
}

static uint64_t number_of(const struct json *object, const char *name)
{
    const struct json *value = json_get_z(object, name);
    int64_t number = 0;
    return value && json_to_int(value, &number) ? (uint64_t)number : 0;
}

/* `waits` is {unknown, approvals, dead: {reason: count}}. */
static void waits_write(const struct json *waits, struct buf *out)
{
    const struct json *dead = json_get_z(waits, "dead");
    one(out, "saga_unknown_outcomes", "gauge",
        "Effects of open runs of which nobody knows whether they were applied.",
        number_of(waits, "unknown"));
    one(out, "saga_approvals_pending", "gauge", "Requests that wait for a person's approval.",
        number_of(waits, "approvals"));
    head(out, "saga_dead_letters", "gauge", "Parked runs, by why.");
    for (int reason = PARK_NONE + 1; reason < TALLY_REASONS; reason++) {
        const char *name = park_reason_name((enum park_reason)reason);
        labelled(out, "saga_dead_letters", "reason", name, dead ? number_of(dead, name) : 0);
    }
}

struct scrape {
    struct api *api;
    struct control_request *request;
};

static void scrape_answer(void *arg, const struct store_answer *answer)
{
    struct scrape *scrape = arg;
    struct buf out = {0};
    const struct json *waits;
    struct err err;
    runs_write(scrape->api, &out);
    tally_write(runner_tally(scrape->api->o.runner), &out);
    if (answer && !answer->err.code && answer->text.ptr &&
        json_parse(answer->text, control_arena(scrape->request), &waits, &err) == 0)
        waits_write(waits, &out);
    control_reply_text(scrape->request, 200, "text/plain; version=0.0.4", buf_str(&out));
    buf_free(&out);
}

void metrics_show(struct api *api, struct control_request *request)
{
    struct scrape *scrape = arena_new(control_arena(request), struct scrape);
    *scrape = (struct scrape){api, request};
    if (store_pg_is_up(api->o.store))
        store_pg_query(api->o.store, "select saga.metrics_v1()", NULL, 0, scrape_answer, scrape);
    else
        scrape_answer(scrape, NULL);
}
