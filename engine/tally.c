#include "engine/tally.h"

#include <stdlib.h>

void tally_records(struct tally *tally, const struct run_decision *decision)
{
    for (uint32_t i = 0; i < decision->records_count; i++) {
        const struct run_record *record = &decision->records[i];
        if (record->kind == RECORD_ATTEMPT)
            tally->outcomes[record->attempt.outcome]++;
        else if (record->kind == RECORD_FINDING)
            tally->findings[record->finding.source][record->finding.says]++;
        else if (record->kind == RECORD_RUN && record->run.state == RUN_PARKED)
            tally->parked[record->run.reason]++;
    }
}

static struct tally_service *service_of(struct tally *tally, const struct run *run,
                                        const struct effect_ref *ref)
{
    uint16_t index = step_action(&run->plan->steps[ref->step], ref->direction)->service;
    const char *name = index == PLAN_SERVICE_NONE ? "" : run->plan->services[index].name;
    for (uint32_t i = 0; i < tally->services_count; i++)
        if (strcmp(tally->services[i].name, name) == 0)
            return &tally->services[i];
    if (tally->services_count > TALLY_SERVICES_MAX)
        return &tally->services[TALLY_SERVICES_MAX];
    struct tally_service *service = &tally->services[tally->services_count++];
    service->name = xstrdup(tally->services_count > TALLY_SERVICES_MAX ? "other" : name);
    return service;
}

void tally_sent(struct tally *tally, struct run *run, const struct effect_ref *ref,
                uint32_t attempt, struct wall now)
{
    struct tally_service *service = service_of(tally, run, ref);
    struct instance *instance = run_instance(run, ref->step, ref->item);
    service->sent++;
    service->repeated += attempt > 1;
    if (!instance || attempt < 2)
        return;
    const struct effect_state *side = instance_side(instance, ref->direction);
    bool honoured = wall_is_set(side->key_valid_until) && now.us <= side->key_valid_until.us;
    bool harmless =
        step_action(&run->plan->steps[ref->step], ref->direction)->effect == EFFECT_PURE;
    service->unguarded += side->maybe_applied && !honoured && !harmless;
}

void tally_reply(struct tally *tally, const struct run *run, const struct effect_ref *ref,
                 const struct reply *reply)
{
    for (uint16_t i = 0; i < reply->headers_count; i++)
        if (str_eq(reply->headers[i].name, STR("idempotency-replayed")) &&
            str_eq(reply->headers[i].value, STR("true"))) {
            service_of(tally, run, ref)->replayed++;
            return;
        }
}

void tally_free(struct tally *tally)
{
    for (uint32_t i = 0; i < tally->services_count; i++)
        free(tally->services[i].name);
}
