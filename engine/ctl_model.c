#include "engine/ctl_model.h"

#include "engine/ctl_text.h"
#include "engine/run.h"

/* --- reading --------------------------------------------------------------------------------- */

static const struct json *member(const struct json *json, const char *name)
{
    const struct json *value = json_get_z(json, name);
    return value && value->kind != JSON_NULL ? value : NULL;
}

static struct str text_of(const struct json *json, const char *name)
{
    struct str text = json_get_text(json, name);
    return text.ptr ? text : STR("");
}

static int64_t count_of(const struct json *json, const char *name)
{
    const struct json *value = member(json, name);
    int64_t count = 0;
    return value && json_to_int(value, &count) ? count : 0;
}

static struct wall time_of(const struct json *json, const char *name)
{
    struct wall at;
    struct str text = text_of(json, name);
    return text.len && wall_parse(text, &at) ? at : WALL_NONE;
}

static const struct json *list_of(const struct json *json, const char *name)
{
    const struct json *value = member(json, name);
    return value && value->kind == JSON_LIST ? value : NULL;
}

static struct model_unknown unknown_read(const struct json *json)
{
    return (struct model_unknown){
        .set = json != NULL,
        .undo = str_eq(text_of(json, "direction"), STR("compensate")),
        .asked = count_of(json, "asked"),
        .since = time_of(json, "since"),
        .next_at = time_of(json, "next_at"),
        .until = time_of(json, "until"),
        .found = text_of(json, "found"),
        .source = text_of(json, "source"),
        .found_at = time_of(json, "found_at"),
    };
}

struct str model_label(struct str step, struct str item_text, struct arena *arena)
{
    return item_text.len
               ? arena_printf(arena, STR_FMT " (" STR_FMT ")", STR_ARG(step), STR_ARG(item_text))
               : step;
}

static struct model_step step_read(const struct json *json, struct arena *arena)
{
    struct model_step step = {
        .id = text_of(json, "id"),
        .effect = text_of(json, "effect"),
        .state = text_of(json, "state"),
        .compensation_state = text_of(json, "compensation_state"),
        .key = text_of(json, "key"),
        .compensation_key = text_of(json, "compensation_key"),
        .attempts = count_of(json, "attempts"),
        .compensation_attempts = count_of(json, "compensation_attempts"),
        .output = member(json, "output"),
        .error = member(json, "error"),
        .compensation_error = member(json, "compensation_error"),
        .started_at = time_of(json, "started_at"),
        .ended_at = time_of(json, "ended_at"),
        .compensation_started_at = time_of(json, "compensation_started_at"),
        .compensation_ended_at = time_of(json, "compensation_ended_at"),
        .next_at = time_of(json, "next_at"),
        .items = count_of(json, "items"),
        .queue = text_of(json, "queue"),
        .compensation_queue = text_of(json, "compensation_queue"),
        .stays = text_of(json, "stays"),
        .renewed = text_of(json, "renewed"),
        .compensation_renewed = text_of(json, "compensation_renewed"),
        .step_input = member(json, "step_input"),
        .compensation_step_input = member(json, "compensation_step_input"),
        .unknown = unknown_read(member(json, "unknown")),
        .approval = text_of(json, "approval"),
        .folded = STR(""),
    };
    if (!step.id.len) /* rows of the view carry the other name */
        step.id = text_of(json, "step_id");
    struct str item_text = text_of(json, "item_text");
    const char *dot = item_text.len ? memchr(step.id.ptr, '.', step.id.len) : NULL;
    struct str loop = {step.id.ptr, dot ? (size_t)(dot - step.id.ptr) : step.id.len};
    step.label = model_label(step.id, item_text, arena);
    step.short_label = model_label(loop, item_text, arena);
    return step;
}

/* Nothing goes on in a run that was closed as it was: what was in motion stopped with it. */
static void step_end(struct model_step *step, struct wall ended_at)
{
    step->next_at = step->unknown.next_at = WALL_NONE;
    if (wall_is_set(step->started_at) && !wall_is_set(step->ended_at))
        step->ended_at = ended_at;
    if (wall_is_set(step->compensation_started_at) && !wall_is_set(step->compensation_ended_at))
        step->compensation_ended_at = ended_at;
}

struct model_run model_run_read(const struct json *json, struct arena *arena)
{
    const struct json *steps = list_of(json, "steps");
    const struct json *paused = member(json, "paused");
    const struct json *waiting = member(json, "waiting");
    const struct json *taken = member(waiting, "taken");
    const struct json *lock = member(json, "lock"), *behind = member(json, "behind");
    struct model_run run = {
        .id = text_of(json, "run_id"),
        .workflow = text_of(json, "workflow"),
        .version = text_of(json, "version"),
        .tenant = text_of(json, "tenant"),
        .state = text_of(json, "state"),
        .cause = text_of(json, "cause"),
        .waiting_for = text_of(json, "waiting_for"),
        .reason = text_of(json, "reason"),
        .parent = text_of(json, "parent"),
        .paused = paused && paused->kind == JSON_BOOL && paused->boolean,
        .waiting = {.step = text_of(waiting, "step"),
                    .signal = text_of(waiting, "signal"),
                    .queue = text_of(waiting, "queue"),
                    .child = text_of(waiting, "child"),
                    .service = text_of(waiting, "service"),
                    .taken = taken && taken->kind == JSON_BOOL && taken->boolean},
        .lock = {.value = text_of(lock, "value"),
                 .holder = text_of(lock, "holder"),
                 .position = count_of(lock, "position")},
        .behind = {.run = text_of(behind, "run_id"), .reason = text_of(behind, "reason")},
        .input = member(json, "input"),
        .output = member(json, "output"),
        .error = member(json, "error"),
        .parked_error = member(json, "parked_error"),
        .residue = list_of(json, "residue"),
        .attempts = list_of(json, "attempts"),
        .findings = list_of(json, "findings"),
        .by_hand = list_of(json, "by_hand"),
        .children = list_of(json, "children"),
        .verbs = list_of(json, "next_verbs"),
        .created_at = time_of(json, "created_at"),
        .ended_at = time_of(json, "ended_at"),
        .deadline_at = time_of(json, "deadline_at"),
        .start_at = time_of(json, "start_at"),
        .removed_at = time_of(json, "removed_at"),
        .inputs = list_of(json, "inputs"),
        .compensate_until = time_of(json, "compensate_until"),
        .undoable_until = time_of(json, "undoable_until"),
        .steps_count = steps ? steps->count : 0,
    };
    if (!run.reason.len)
        run.reason = text_of(json, "park_reason");
    run.steps = arena_array(arena, struct model_step, MAX(run.steps_count, 1u));
    for (uint32_t i = 0; i < run.steps_count; i++) {
        run.steps[i] = step_read(steps->items[i], arena);
        if (wall_is_set(run.ended_at))
            step_end(&run.steps[i], run.ended_at);
    }
    return run;
}

/* --- states ---------------------------------------------------------------------------------- */

bool model_is_terminal(struct str state)
{
    enum run_state known = run_state_of(state);
    return known != RUN_NONE && run_state_is_terminal(known);
}

bool model_is_over(struct str state)
{
    return model_is_terminal(state) || run_state_of(state) == RUN_PARKED;
}

int model_exit(struct str state)
{
    switch (run_state_of(state)) {
    case RUN_COMPENSATED: return CTL_COMPENSATED;
    case RUN_PARKED: return CTL_PARKED;
    case RUN_ABANDONED: return CTL_ABANDONED;
    case RUN_NONE:
    case RUN_QUEUED:
    case RUN_RUNNING:
    case RUN_COMPENSATING:
    case RUN_COMPLETED: break;
    }
    return CTL_OK;
}

struct str model_value_text(const struct json *value, struct arena *arena)
{
    return value ? json_text(value, arena) : STR("");
}

const struct json *model_run_error(const struct model_run *run)
{
    return run->parked_error ? run->parked_error : run->error;
}

struct str model_error_text(const struct json *error, struct arena *arena)
{
    if (!error)
        return STR("");
    if (error->kind != JSON_OBJECT)
        return model_value_text(error, arena);
    struct str code = text_of(error, "code"), message = text_of(error, "message");
    int64_t status = count_of(error, "status");
    if (status && code.len &&
        str_eq(message, arena_printf(arena, "the participant answered %lld", (long long)status)))
        message = STR(""); /* it only repeats the status */
    struct str prefix = status ? arena_printf(arena, "%lld ", (long long)status) : STR("");
    return arena_printf(arena, STR_FMT STR_FMT "%s" STR_FMT, STR_ARG(prefix), STR_ARG(code),
                        code.len && message.len ? ": " : "", STR_ARG(message));
}

/* --- phases ---------------------------------------------------------------------------------- */

static enum model_phase undo_phase(enum step_state state)
{
    switch (state) {
    case STEP_CLAIMED: return MODEL_UNDOING;
    case STEP_WAITING:
    case STEP_RETRYING: return MODEL_UNDO_RETRYING;
    case STEP_APPLIED: return MODEL_UNDONE;
    case STEP_REFUSED: return MODEL_UNDO_FAILED;
    case STEP_UNKNOWN: return MODEL_UNDO_UNKNOWN;
    case STEP_SKIPPED: return MODEL_UNDO_SKIPPED;
    case STEP_NONE:
    case STEP_PENDING:
    case STEP_WITHDRAWN: break;
    }
    return MODEL_PENDING; /* not begun: the action's own state counts */
}

enum model_phase model_phase_of(const struct model_step *step)
{
    enum model_phase undo = undo_phase(step_state_of(step->compensation_state));
    if (undo != MODEL_PENDING)
        return undo;
    switch (step_state_of(step->state)) {
    case STEP_CLAIMED: return MODEL_SENDING;
    case STEP_RETRYING: return MODEL_RETRYING;
    case STEP_WAITING: return MODEL_WAITING;
    case STEP_UNKNOWN: return MODEL_UNKNOWN;
    case STEP_APPLIED: return MODEL_APPLIED;
    case STEP_REFUSED: return MODEL_REFUSED;
    case STEP_SKIPPED: return MODEL_SKIPPED;
    case STEP_WITHDRAWN: return MODEL_WITHDRAWN;
    case STEP_NONE:
    case STEP_PENDING: break;
    }
    return MODEL_PENDING;
}

/* --- loops ----------------------------------------------------------------------------------- */

static bool is_item_of(const struct model_step *step, const struct model_step *loop)
{
    return str_starts(step->id, loop->id) && step->id.len > loop->id.len &&
           step->id.ptr[loop->id.len] == '.';
}

uint32_t model_items_before(const struct model_run *run, uint32_t end)
{
    uint32_t loop = end;
    while (loop > 0 && memchr(run->steps[loop - 1].id.ptr, '.', run->steps[loop - 1].id.len))
        loop--;
    if (loop == 0 || !is_item_of(&run->steps[end - 1], &run->steps[loop - 1]))
        return 0;
    return end - loop;
}

static bool went_wrong(enum model_phase phase)
{
    return phase == MODEL_RETRYING || phase == MODEL_UNKNOWN || phase == MODEL_REFUSED ||
           phase == MODEL_UNDO_RETRYING || phase == MODEL_UNDO_FAILED ||
           phase == MODEL_UNDO_UNKNOWN;
}

/* "120 items: 72 pending, 8 sending, 40 applied" */
static struct str phases_text(const struct model_step *items, uint32_t count, int64_t total,
                              struct arena *arena)
{
    uint32_t phases[MODEL_UNDO_SKIPPED + 1] = {0};
    const char *separator = ": ";
    for (uint32_t i = 0; i < count; i++)
        phases[model_phase_of(&items[i])]++;
    if (total > count)
        phases[MODEL_PENDING] += (uint32_t)(total - count);
    struct str text = text_count(MAX(total, (int64_t)count), "item", arena);
    for (unsigned phase = 0; phase < ARRAY_LEN(phases); phase++)
        if (phases[phase]) {
            text = arena_printf(arena, STR_FMT "%s%u %s", STR_ARG(text), separator, phases[phase],
                                model_phase_word((enum model_phase)phase));
            separator = ", ";
        }
    return text;
}

/* The loop's own line stands for all of its items, on the way back too. */
static struct model_step folded_step(const struct model_step *loop, const struct model_step *items,
                                     uint32_t count, struct arena *arena)
{
    struct model_step step = *loop;
    step.folded = phases_text(items, count, loop->items, arena);
    for (uint32_t i = 0; i < count; i++) {
        enum model_phase phase = model_phase_of(&items[i]);
        step.attempts += items[i].attempts;
        step.compensation_attempts += items[i].compensation_attempts;
        bool undoes = phase == MODEL_UNDOING || phase == MODEL_UNDO_RETRYING;
        if (phase >= MODEL_UNDOING && (undoes || !step.compensation_state.len))
            step.compensation_state = items[i].compensation_state;
    }
    return step;
}

void model_fold_loops(struct model_run *run, struct arena *arena)
{
    struct model_step *steps = arena_array(arena, struct model_step, MAX(run->steps_count, 1u));
    uint32_t kept = 0;
    for (uint32_t i = 0; i < run->steps_count;) {
        const struct model_step *loop = &run->steps[i++];
        uint32_t items = 0, wrong = 0;
        while (i + items < run->steps_count && is_item_of(&run->steps[i + items], loop))
            items++;
        bool fold = items > MODEL_ITEMS_SHOWN;
        steps[kept++] = fold ? folded_step(loop, &run->steps[i], items, arena) : *loop;
        for (uint32_t end = i + items; i < end; i++) {
            bool shown = !fold || (went_wrong(model_phase_of(&run->steps[i])) &&
                                   wrong++ < MODEL_ITEMS_SHOWN);
            if (shown)
                steps[kept++] = run->steps[i];
        }
    }
    run->steps = steps;
    run->steps_count = kept;
}

bool model_phase_took(const struct model_step *step, struct wall now, int64_t *out_us)
{
    bool undo = model_phase_of(step) >= MODEL_UNDOING && wall_is_set(step->compensation_started_at);
    struct wall from = undo ? step->compensation_started_at : step->started_at;
    struct wall to = undo ? step->compensation_ended_at : step->ended_at;
    bool never_sent = !undo && step->approval.len && !step->attempts;
    if (!wall_is_set(from) || never_sent)
        return false;
    *out_us = MAX((wall_is_set(to) ? to.us : now.us) - from.us, (int64_t)0);
    return true;
}

const char *model_phase_word(enum model_phase phase)
{
    switch (phase) {
    case MODEL_PENDING: return "pending";
    case MODEL_SENDING: return "sending";
    case MODEL_RETRYING: return "retrying";
    case MODEL_WAITING: return "waiting";
    case MODEL_UNKNOWN: return "unknown";
    case MODEL_APPLIED: return "applied";
    case MODEL_REFUSED: return "refused";
    case MODEL_SKIPPED: return "skipped";
    case MODEL_WITHDRAWN: return "withdrawn";
    case MODEL_UNDOING: return "undoing";
    case MODEL_UNDO_RETRYING: return "undo retrying";
    case MODEL_UNDONE: return "undone";
    case MODEL_UNDO_FAILED: return "undo failed";
    case MODEL_UNDO_UNKNOWN: return "undo unknown";
    case MODEL_UNDO_SKIPPED: return "undo skipped";
    }
    return "";
}

/* A task is offered while the step waits, and claimed while a worker has it. */
const char *model_step_word(const struct model_step *step)
{
    enum model_phase phase = model_phase_of(step);
    bool offered = step_state_of(step->compensation_state) == STEP_WAITING;
    if (step->folded.len)
        return model_phase_word(phase);
    if (step->queue.len && phase == MODEL_WAITING)
        return "waiting for a worker";
    if (step->queue.len && phase == MODEL_SENDING)
        return "with a worker";
    if (step->compensation_queue.len && phase == MODEL_UNDO_RETRYING && offered)
        return "undo waiting for a worker";
    if (step->compensation_queue.len && phase == MODEL_UNDOING)
        return "undo with a worker";
    return model_phase_word(phase);
}

const struct json *model_phase_error(const struct model_step *step)
{
    switch (model_phase_of(step)) {
    case MODEL_RETRYING:
    case MODEL_UNKNOWN:
    case MODEL_REFUSED: return step->error;
    case MODEL_UNDO_RETRYING:
    case MODEL_UNDO_FAILED:
    case MODEL_UNDO_UNKNOWN:
        return step->compensation_error ? step->compensation_error : step->error;
    case MODEL_PENDING:
    case MODEL_SENDING:
    case MODEL_WAITING:
    case MODEL_APPLIED:
    case MODEL_SKIPPED:
    case MODEL_WITHDRAWN:
    case MODEL_UNDOING:
    case MODEL_UNDONE:
    case MODEL_UNDO_SKIPPED: break;
    }
    return NULL;
}

/* --- words ----------------------------------------------------------------------------------- */

struct phrase {
    const char *name, *text;
};

static const char *phrase_find(const struct phrase *phrases, size_t count, struct str name)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq_z(name, phrases[i].name))
            return phrases[i].text;
    return NULL;
}

static const char *waiting_phrase(struct str waiting_for)
{
    static const struct phrase phrases[] = {
        {"participant", "the answer of a service"},
        {"retry", "the time of the next attempt"},
        {"timer", "a timer"},
        {"signal", "a signal"},
        {"approval", "a person's approval"},
        {"worker", "a worker"},
        {"child", "a child run"},
        {"lock", "a lock that another run holds"},
        {"breaker", "an open circuit breaker"},
        {"limit", "room under a limit"},
        {"reconcile", "an answer on what became of an attempt"},
        {"claim", "the daemon to store its next claim"},
        {"owner", "a daemon to take it over"},
        {"paused", "a person to resume it"},
        {"person", "a person to decide"},
    };
    return phrase_find(phrases, ARRAY_LEN(phrases), waiting_for);
}

/* "the lock "order-7", which order-7-a holds; 2 runs are before this one" */
static struct str lock_text(const struct model_run *run, struct arena *arena)
{
    uint32_t before = run->lock.position ? run->lock.position - 1 : 0;
    struct str turn = STR("");
    if (before)
        turn =
            arena_printf(arena, "; %s before this one",
                         before == 1 ? "1 run is" : arena_printf(arena, "%u runs are", before).ptr);
    return arena_printf(arena, "the lock \"" STR_FMT "\"%s" STR_FMT "%s" STR_FMT,
                        STR_ARG(run->lock.value), run->lock.holder.len ? ", which " : "",
                        STR_ARG(run->lock.holder), run->lock.holder.len ? " holds" : "",
                        STR_ARG(turn));
}

struct str model_waiting_text(const struct model_run *run, struct arena *arena)
{
    const char *phrase = waiting_phrase(run->waiting_for);
    if (run->waiting.signal.len)
        return arena_printf(arena, "the signal \"" STR_FMT "\"", STR_ARG(run->waiting.signal));
    if (run->waiting.queue.len)
        return arena_printf(arena,
                            run->waiting.taken
                                ? "a worker, which has its task of the queue \"" STR_FMT "\""
                                : "a worker to take its task from the queue \"" STR_FMT "\"",
                            STR_ARG(run->waiting.queue));
    if (run->waiting.child.len)
        return arena_printf(arena, "a run of \"" STR_FMT "\"", STR_ARG(run->waiting.child));
    if (run->waiting.service.len)
        return arena_printf(arena,
                            str_eq_z(run->waiting_for, "breaker")
                                ? "the breaker of the service \"" STR_FMT "\" to close"
                                : "room under the limits of the service \"" STR_FMT "\"",
                            STR_ARG(run->waiting.service));
    if (str_eq_z(run->waiting_for, "lock") && run->lock.value.len)
        return lock_text(run, arena);
    if (str_eq_z(run->waiting_for, "timer") && run_state_of(run->state) == RUN_QUEUED &&
        wall_is_set(run->start_at))
        return arena_printf(arena, "its start at " STR_FMT,
                            STR_ARG(text_time(run->start_at, arena)));
    if (str_eq_z(run->waiting_for, "limit") && run_state_of(run->state) == RUN_QUEUED)
        return run->tenant.len
                   ? arena_printf(arena,
                                  "a place: the tenant \"" STR_FMT
                                  "\" has as many runs in flight as the daemon's config allows",
                                  STR_ARG(run->tenant))
                   : STR("a place: as many runs without a tenant are in flight as the daemon's "
                         "config allows");
    return phrase ? str_z(phrase) : run->waiting_for;
}

struct str model_behind_text(const struct model_run *run, struct arena *arena)
{
    const char *reason = model_reason_text(run->behind.reason);
    if (!run->behind.run.len)
        return STR("");
    return arena_printf(arena, STR_FMT " is parked and needs a person: " STR_FMT,
                        STR_ARG(run->behind.run),
                        STR_ARG(reason ? str_z(reason) : run->behind.reason));
}

/* What was learned last: "; the newest answer, 5s ago: ..." */
static struct str found_text(const struct model_unknown *unknown, struct wall now,
                             struct arena *arena)
{
    if (!unknown->found.len)
        return STR("");
    struct str ago = wall_is_set(unknown->found_at)
                         ? arena_printf(arena, ", " STR_FMT " ago",
                                        STR_ARG(text_age(unknown->found_at, now, arena)))
                         : STR("");
    const char *what = str_eq_z(unknown->source, "person")   ? "a person said"
                       : str_eq_z(unknown->source, "answer") ? "it said by itself"
                                                             : "the newest answer";
    return arena_printf(arena, "; %s" STR_FMT ": " STR_FMT, what, STR_ARG(ago),
                        STR_ARG(unknown->found));
}

struct str model_unknown_text(const struct model_step *step, struct wall now, struct arena *arena)
{
    const struct model_unknown *unknown = &step->unknown;
    struct str since = STR(""), next = STR("");
    if (!unknown->set)
        return STR("");
    if (wall_is_set(unknown->since))
        since = arena_printf(arena, " since " STR_FMT " (" STR_FMT " ago)",
                             STR_ARG(text_time(unknown->since, arena)),
                             STR_ARG(text_age(unknown->since, now, arena)));
    if (wall_is_set(unknown->next_at))
        next = arena_printf(
            arena, ", and is asked next in " STR_FMT ", until " STR_FMT " at the latest",
            STR_ARG(text_duration(MAX(unknown->next_at.us - now.us, INT64_C(0)), arena)),
            STR_ARG(text_time(unknown->until, arena)));
    if (!wall_is_set(unknown->until) && !unknown->asked)
        return arena_printf(arena, "unknown" STR_FMT, STR_ARG(since));
    return arena_printf(arena, "unknown" STR_FMT "; its service was asked " STR_FMT STR_FMT STR_FMT,
                        STR_ARG(since), STR_ARG(text_count(unknown->asked, "time", arena)),
                        STR_ARG(next), STR_ARG(found_text(unknown, now, arena)));
}

const char *model_cause_text(struct str cause)
{
    static const struct phrase phrases[] = {
        {"step_refused", "a step was refused for good"},
        {"budget", "the retries of a step, or their time, ran out"},
        {"deadline", "its deadline passed"},
        {"cancelled", "it was cancelled"},
        {"operator", "an operator asked for it"},
        {"child", "a child run ended compensated"},
        {"parent", "its parent turned back"},
    };
    return phrase_find(phrases, ARRAY_LEN(phrases), cause);
}

const char *model_reason_text(struct str reason)
{
    static const struct phrase phrases[] = {
        {"outcome_unknown", "it is not known whether a step was applied, and only a person "
                            "can find out"},
        {"compensation_failed", "a compensation failed for good"},
        {"pivot_passed", "a step failed after the point of no return, so it cannot turn back"},
        {"key_conflict", "a service holds the key with other parameters"},
        {"step_failed", "a step failed, and the workflow says to park then"},
        {"repair", "a step was refused, and the workflow waits for a corrected input"},
        {"approval_expired", "nobody approved a step in time"},
        {"suspect", "the database was restored to an earlier time, so a step may have been sent "
                    "before: settle it, or vouch with retry that it was not"},
        {"compensation_budget", "the time that the workflow gives the way back is over"},
        {"late_success", "a step was applied after all, after the run had been abandoned"},
        {"crash_loop", "the daemon died again and again while it worked on this run"},
        {"quarantine", "PostgreSQL refused to store what happened to it"},
    };
    return phrase_find(phrases, ARRAY_LEN(phrases), reason);
}

/* --- what leads on ---------------------------------------------------------------------------- */

struct next_list {
    const struct model_run *run;
    struct arena *arena;
    struct model_next *out;
    size_t count, max;
};

static void next_add(struct next_list *list, const char *verb, const char *step, const char *option,
                     const char *meaning)
{
    if (list->count == list->max)
        return;
    list->out[list->count++] = (struct model_next){
        .command = arena_printf(list->arena, "sagactl %s " STR_FMT "%s%s%s%s --reason TEXT", verb,
                                STR_ARG(list->run->id), *step ? " " : "", step, *option ? " " : "",
                                option),
        .meaning = str_z(meaning),
    };
}

static void next_signal(struct next_list *list)
{
    if (list->count == list->max)
        return;
    list->out[list->count++] = (struct model_next){
        .command = arena_printf(list->arena, "sagactl signal " STR_FMT " " STR_FMT " --data JSON",
                                STR_ARG(list->run->id), STR_ARG(list->run->waiting.signal)),
        .meaning = STR("what it waits for has come"),
    };
}

/* A step that stands in the way of a parked run, as the verb names it; NULL: it does not. */
static const char *step_in_the_way(struct next_list *list, const struct model_step *step,
                                   bool unknown_only)
{
    enum model_phase phase = model_phase_of(step);
    bool unknown = phase == MODEL_UNKNOWN || phase == MODEL_UNDO_UNKNOWN;
    bool failed = phase == MODEL_UNDO_FAILED || (phase == MODEL_REFUSED && !list->run->cause.len);
    if (!unknown && (unknown_only || !failed))
        return NULL;
    return arena_printf(list->arena, STR_FMT "%s", STR_ARG(step->id),
                        phase >= MODEL_UNDOING ? ":compensate" : "")
        .ptr;
}

static void next_settle(struct next_list *list)
{
    for (uint32_t i = 0; i < list->run->steps_count; i++) {
        const char *step = step_in_the_way(list, &list->run->steps[i], true);
        if (!step)
            continue;
        next_add(list, "settle", step, "--applied", "the service says that it was applied");
        next_add(list, "settle", step, "--not-applied", "the service says that it was not");
    }
}

/* Who knows more than the service tells need not wait for it. */
static void next_asked(struct next_list *list)
{
    for (uint32_t i = 0; i < list->run->steps_count; i++) {
        const struct model_step *step = &list->run->steps[i];
        const char *name = step->id.ptr;
        if (!step->unknown.set || !wall_is_set(step->unknown.next_at))
            continue;
        name = arena_printf(list->arena, STR_FMT "%s", STR_ARG(step->id),
                            step->unknown.undo ? ":compensate" : "")
                   .ptr;
        next_add(list, "settle", name, "--applied", "you know that it was applied");
        next_add(list, "settle", name, "--not-applied", "you know that it was not");
    }
}

static void next_skip(struct next_list *list)
{
    for (uint32_t i = 0; i < list->run->steps_count; i++) {
        const char *step = step_in_the_way(list, &list->run->steps[i], false);
        if (step)
            next_add(list, "skip", step, "",
                     strchr(step, ':') ? "it was undone by hand: go on"
                                       : "it was done by hand: go on after it");
    }
}

/* The workflow says how to ask. */
static bool is_askable(const struct model_run *run)
{
    for (uint32_t i = 0; i < run->steps_count; i++)
        if (run->steps[i].unknown.set && wall_is_set(run->steps[i].unknown.until))
            return true;
    return false;
}

static void next_verb(struct next_list *list, struct str verb)
{
    bool unknown = str_eq_z(list->run->reason, "outcome_unknown");
    if (str_eq_z(verb, "settle"))
        next_settle(list);
    else if (str_eq_z(verb, "skip"))
        next_skip(list);
    else if (str_eq_z(verb, "retry") && str_eq_z(list->run->reason, "repair")) {
        next_add(list, "retry", "", "--input @corrected.json", "go on with a corrected input");
        next_add(list, "retry", "", "", "try again with the same");
    } else if (str_eq_z(verb, "retry"))
        next_add(list, "retry", "", "",
                 unknown && is_askable(list->run)
                     ? "ask its service again; only what is proven not applied is repeated"
                 : unknown ? "try again, if the key makes a repeat safe"
                           : "try again from where it stopped");
    else if (str_eq_z(verb, "compensate"))
        next_add(list, "compensate", "", "", "turn back: undo what was applied");
    else if (str_eq_z(verb, "abandon"))
        next_add(list, "abandon", "", "", "close it as it is; what is left is listed");
}

/* Without the daemon's own list: what semantics allow for the reason. */
static void next_parked(struct next_list *list)
{
    const struct model_run *run = list->run;
    next_settle(list);
    if (!str_eq_z(run->reason, "key_conflict"))
        next_verb(list, STR("retry"));
    next_skip(list);
    if (!run->cause.len && !str_eq_z(run->reason, "pivot_passed"))
        next_verb(list, STR("compensate"));
    next_verb(list, STR("abandon"));
}

size_t model_next_commands(const struct model_run *run, struct wall now, struct arena *arena,
                           struct model_next *out, size_t max)
{
    struct next_list list = {run, arena, out, 0, max};
    enum run_state state = run_state_of(run->state);
    if (run->behind.run.len && max)
        out[list.count++] = (struct model_next){
            .command = arena_printf(arena, "sagactl dead show " STR_FMT, STR_ARG(run->behind.run)),
            .meaning = STR("what the run that it waits for needs of a person"),
        };
    if (run->paused && !model_is_over(run->state))
        next_add(&list, "resume", "", "", "let it go on");
    if (run->waiting.signal.len)
        next_signal(&list);
    if (str_eq_z(run->waiting_for, "approval") && run->waiting.step.len) {
        const char *step = arena_printf(arena, STR_FMT, STR_ARG(run->waiting.step)).ptr;
        next_add(&list, "approve", step, "", "see the exact request, and let it be sent");
        next_add(&list, "reject", step, "", "it is not to be sent");
    }
    if (state != RUN_PARKED && !model_is_terminal(run->state))
        next_asked(&list);
    if (state == RUN_QUEUED || state == RUN_RUNNING)
        next_add(&list, "cancel", "", "", "turn back: undo what was applied");
    if (!run->paused && (state == RUN_RUNNING || state == RUN_COMPENSATING))
        next_add(&list, "pause", "", "", "send nothing new until it is resumed");
    if (wall_is_set(run->undoable_until) && !wall_passed(run->undoable_until, now))
        next_add(&list, "compensate", "", "", "undo what can be undone");
    if (state != RUN_PARKED)
        return list.count;
    for (uint32_t i = 0; run->verbs && i < run->verbs->count; i++)
        next_verb(&list, run->verbs->items[i]->text);
    if (!list.count)
        next_parked(&list);
    return list.count;
}
