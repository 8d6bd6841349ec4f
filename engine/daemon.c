#include "engine/daemon.h"

#include "engine/alerts.h"
#include "engine/api.h"
#include "engine/breakers.h"
#include "engine/failpoint.h"
#include "engine/invoke.h"
#include "engine/invoke_sql.h"
#include "engine/late_answers.h"
#include "engine/limits.h"
#include "engine/locks.h"
#include "engine/log.h"
#include "engine/queues.h"
#include "engine/retention.h"
#include "engine/runner.h"
#include "engine/schedule.h"
#include "engine/secrets.h"

#include <stdlib.h>

#define DRAIN_LOOK_US (20 * MS_US)
#define FAREWELL_US (100 * MS_US) /* for the last answers to leave */
/* Shares are evened out one look at a time, so that two daemons do not throw shards at each other.
 */
#define SHARE_SLACK 1
/* Connections on which SQL actions run in the engine's database; each is a lane of its own. */
#define ACTION_LANES 2
#define BUSY_LOOKS 4

struct daemon {
    struct daemon_options o;
    struct dsl_options dsl;
    struct json *env;
    struct arena arena;
    struct secrets *secrets;
    struct plans *plans;
    struct queues *queues;
    struct store_pg *store;
    struct invoke *invoke;
    struct invoke_sql *sql;
    struct runner *runner;
    struct api *api;
    struct schedules *schedules;
    struct retention *retention;
    struct bulks *bulks;
    struct breakers *breakers;
    struct locks *locks;
    struct late_answers *late_answers;
    struct alerts *alerts;
    struct control *control, *scrape;
    struct loop_timer *turn_timer, *drain_timer;
    struct mono drain_until;
    uint64_t shards_mine, shards_free; /* as the database said last */
    unsigned looks;
    bool owned, looked, workflows_known, is_ready, draining, releasing, released;
};

static struct wall now_of(const struct daemon *daemon)
{
    return loop_wall(daemon->o.loop);
}

/* --- the turn --------------------------------------------------------------------------------- */

static void runs_drop(struct daemon *daemon)
{
    daemon->owned = false;
    runner_lost(daemon->runner);
    queues_clear(daemon->queues);
}

/* Past the owner's own deadline no effect may start: another daemon may think this one dead. The
 * store notices by its own timer; a process that was stopped and goes on would come here first. */
static void lease_check(struct daemon *daemon)
{
    if (!daemon->owned || loop_mono().us < store_pg_deadline(daemon->store).us)
        return;
    log_warn("the lease may have run out while this daemon stood still: loading everything again");
    runs_drop(daemon);
    store_pg_reacquire(daemon->store);
}

/* The runner has dropped everything because the database does not have what it acknowledged. */
static void rewound_check(struct daemon *daemon)
{
    if (!daemon->owned || runner_epoch(daemon->runner))
        return;
    runs_drop(daemon);
    store_pg_reacquire(daemon->store);
}

static void ready_check(struct daemon *daemon);

static void on_turn_timer(void *arg)
{
    (void)arg; /* the turn hook does the work */
}

static void daemon_turn(void *arg)
{
    struct daemon *daemon = arg;
    lease_check(daemon);
    FAILPOINT("turn_begin");
    struct wall now = now_of(daemon);
    runner_turn(daemon->runner, now);
    rewound_check(daemon);
    FAILPOINT("turn_end");
    ready_check(daemon);
    struct wall due = runner_due(daemon->runner);
    if (runner_has_work(daemon->runner))
        loop_timer_set(daemon->turn_timer, 0);
    else if (wall_is_set(due))
        loop_timer_set(daemon->turn_timer, MAX(due.us - now.us, INT64_C(0)));
    else
        loop_timer_stop(daemon->turn_timer);
}

/* --- from the store ----------------------------------------------------------------------------
 */

static void ready_check(struct daemon *daemon)
{
    bool loaded = runner_stats(daemon->runner).shards == daemon->shards_mine;
    if (daemon->is_ready || !daemon->owned || !daemon->workflows_known || !daemon->looked ||
        daemon->shards_free || !loaded || !store_pg_can_answer(daemon->store) || daemon->draining)
        return;
    daemon->is_ready = true;
    log_info("owns %d of %d shards", __builtin_popcountll(daemon->shards_mine), RUN_SHARDS);
    struct err err;
    if (control_open(daemon->o.loop, daemon->o.socket, api_handle, daemon->api, &daemon->control,
                     &err) != 0) {
        daemon->o.failed(daemon->o.arg, &err);
        return;
    }
    daemon->o.ready(daemon->o.arg);
}

static void daemon_own(void *arg, uint64_t epoch, uint64_t seq, uint64_t shards)
{
    struct daemon *daemon = arg;
    log_info("has its lease (epoch %llu)", (unsigned long long)epoch);
    daemon->owned = true;
    runner_own(daemon->runner, epoch, seq, shards);
    ready_check(daemon);
}

static void daemon_own_more(void *arg, uint64_t shards)
{
    struct daemon *daemon = arg;
    if (!daemon->owned)
        return;
    daemon->shards_mine |= shards;
    daemon->shards_free &= ~shards;
    runner_own_more(daemon->runner, shards);
}

static void daemon_lost(void *arg)
{
    struct daemon *daemon = arg;
    if (daemon->owned)
        log_warn("lost its lease");
    runs_drop(daemon);
}

static void daemon_down(void *arg)
{
    struct daemon *daemon = arg;
    runner_store_down(daemon->runner);
}

static void daemon_up(void *arg)
{
    struct daemon *daemon = arg;
    runner_store_up(daemon->runner);
}

static void daemon_unit_answer(void *arg, const struct unit_answer *answer)
{
    struct daemon *daemon = arg;
    runner_unit_answer(daemon->runner, answer);
}

static void daemon_loaded(void *arg, const struct plan *plan, struct str run_id,
                          const struct run_record *records, uint32_t count)
{
    struct daemon *daemon = arg;
    runner_loaded(daemon->runner, plan, run_id, records, count);
}

static void daemon_load_done(void *arg, uint64_t shards)
{
    struct daemon *daemon = arg;
    runner_load_done(daemon->runner, shards);
}

static void daemon_load_run_done(void *arg, struct str run_id, enum run_state removed)
{
    struct daemon *daemon = arg;
    runner_load_run_done(daemon->runner, run_id, removed);
}

static const struct plan *daemon_plan(void *arg, const struct sha256 *hash)
{
    struct daemon *daemon = arg;
    return plans_by_hash(daemon->plans, hash);
}

static void daemon_workflow(void *arg, const struct store_workflow *workflow)
{
    struct daemon *daemon = arg;
    struct err err;
    if (plans_add(daemon->plans, &workflow->hash, workflow->source, workflow->current, &err) != 0)
        log_error("the stored workflow \"" STR_FMT "\" does not compile any more: %s",
                  STR_ARG(workflow->name), err.text);
}

static void daemon_workflows_done(void *arg)
{
    struct daemon *daemon = arg;
    daemon->workflows_known = true;
    ready_check(daemon);
}

static bool daemon_inbox(void *arg, const struct store_inbox *row)
{
    struct daemon *daemon = arg;
    if (daemon->draining)
        return false;
    return str_eq(row->kind, STR("start")) ? api_inbox_start(daemon->api, row)
                                           : api_inbox_verb(daemon->api, row);
}

/* Quiet shards first: they leave at once. A shard in which something is in flight takes nothing new
 * while it waits to leave, so busy ones are asked for in one look of four only, and in turn. */
static uint64_t shards_choose(struct daemon *daemon, uint64_t mine, int count)
{
    uint64_t quiet = runner_quiet_shards(daemon->runner) & mine, chosen = 0;
    for (int pass = 0; pass < 2; pass++) {
        uint64_t from = pass == 0 ? quiet : mine & ~quiet;
        if (pass == 1 && daemon->looks % BUSY_LOOKS != 0)
            break;
        for (unsigned i = 0; i < RUN_SHARDS && count > 0; i++) {
            uint64_t bit = UINT64_C(1) << (daemon->looks + i) % RUN_SHARDS;
            if (from & bit) {
                chosen |= bit;
                count--;
            }
        }
    }
    return chosen;
}

/* Unclaimed shards are taken; a living daemon with fewer gets its share. */
static void daemon_daemons(void *arg, const struct store_daemon *daemons, unsigned count)
{
    struct daemon *daemon = arg;
    uint64_t carried = 0, mine = 0;
    const struct store_daemon *poorest = NULL;
    unsigned alive = 0;
    for (unsigned i = 0; i < count; i++) {
        carried |= daemons[i].shards;
        if (daemons[i].is_me)
            mine = daemons[i].shards;
        bool lives =
            daemons[i].is_me || (!daemons[i].clean && daemons[i].silent_us < daemons[i].ttl_us / 2);
        alive += lives;
        if (lives && !daemons[i].is_me &&
            (!poorest ||
             __builtin_popcountll(daemons[i].shards) < __builtin_popcountll(poorest->shards)))
            poorest = &daemons[i];
    }
    if (!daemon->owned || daemon->draining)
        return;
    daemon->looks++;
    runner_release(daemon->runner, 0, STR(""));
    daemon->shards_mine = mine;
    daemon->shards_free = ~carried;
    daemon->looked = true;
    if (~carried)
        store_pg_claim(daemon->store, ~carried);
    int have = __builtin_popcountll(mine), share = RUN_SHARDS / (int)MAX(alive, 1u);
    if (!poorest || have <= share + SHARE_SLACK || __builtin_popcountll(poorest->shards) >= share)
        return;
    int give = MIN(have - share, share - __builtin_popcountll(poorest->shards));
    uint64_t shards = shards_choose(daemon, mine, give);
    if (shards)
        log_info("hands %d shards to \"%s\"", __builtin_popcountll(shards), poorest->name);
    runner_release(daemon->runner, shards, str_z(poorest->name));
}

static void daemon_problem(void *arg, const struct err *err, bool is_final)
{
    struct daemon *daemon = arg;
    if (is_final && !daemon->is_ready) {
        daemon->o.failed(daemon->o.arg, err);
        return;
    }
    log_warn("database: %s", err->text);
}

/* --- from the others ---------------------------------------------------------------------------
 */

static void daemon_reply(void *arg, uint64_t invocation_id, const struct reply *reply)
{
    struct daemon *daemon = arg;
    if (alerts_sent(invocation_id))
        alerts_reply(daemon->alerts, invocation_id, reply);
    else
        runner_reply(daemon->runner, invocation_id, reply);
}

static void daemon_changed(void *arg, const struct run *run)
{
    struct daemon *daemon = arg;
    api_changed(daemon->api, run->id, run->now.state);
}

/* --- opening -----------------------------------------------------------------------------------
 */

static int secrets_open(struct daemon *daemon, struct err *err)
{
    const struct config *config = daemon->o.config;
    daemon->secrets = secrets_new();
    for (uint16_t i = 0; i < config->secrets_count; i++) {
        int code =
            secrets_add(daemon->secrets, config->secrets[i].name, config->secrets[i].value, err);
        if (code) { /* whatever it is: the config names what cannot be had */
            err->code = ERR_INVALID;
            return err_wrap(err, "secret \"%s\"", config->secrets[i].name);
        }
    }
    return 0;
}

void daemon_reload(struct daemon *daemon)
{
    const struct config *config = daemon->o.config;
    unsigned failed = 0;
    struct err err;
    for (uint16_t i = 0; i < config->secrets_count; i++)
        if (secrets_add(daemon->secrets, config->secrets[i].name, config->secrets[i].value, &err)) {
            log_warn("secret \"%s\" keeps its value: %s", config->secrets[i].name, err.text);
            failed++;
        }
    log_info("read %u of %u secrets anew; the rest of the config is read at the start only",
             config->secrets_count - failed, config->secrets_count);
}

static void dsl_options_fill(struct daemon *daemon)
{
    const struct config *config = daemon->o.config;
    daemon->dsl = (struct dsl_options){.services = config->services,
                                       .services_count = config->services_count,
                                       .env_names = config->env_names,
                                       .env_names_count = config->env_count};
    daemon->env = json_object_new(&daemon->arena, config->env_count);
    for (uint16_t i = 0; i < config->env_count; i++) {
        const char *value = getenv(config->env_names[i]);
        if (value && str_is_utf8(str_z(value)))
            json_object_add_z(daemon->env, config->env_names[i],
                              json_string_z(&daemon->arena, value));
    }
}

/* Past the owner's own deadline another daemon may have been told that nothing was sent. */
static bool daemon_may_send(void *arg)
{
    const struct daemon *daemon = arg;
    return loop_mono().us < store_pg_deadline(daemon->store).us;
}

static void invoke_open(struct daemon *daemon)
{
    struct invoke_options options = {.loop = daemon->o.loop,
                                     .may_send = daemon_may_send,
                                     .may_send_arg = daemon,
                                     .secrets = daemon->secrets,
                                     .reply = daemon_reply,
                                     .reply_arg = daemon,
                                     .exec_directory = daemon->o.config->exec_directory,
                                     .egress = &daemon->o.config->egress};
    daemon->invoke = invoke_new(&options);
}

static void store_open(struct daemon *daemon)
{
    struct store_pg_options options = {.uri = daemon->o.database,
                                       .daemon = daemon->o.name,
                                       .lock_file = daemon->o.lock_file,
                                       .ttl_us = daemon->o.config->lease_us,
                                       .sessions = daemon->o.config->sessions,
                                       .action_lanes = daemon->o.action_database ? ACTION_LANES : 0,
                                       .polls_inbox = true};
    struct store_pg_events events = {.arg = daemon,
                                     .own = daemon_own,
                                     .own_more = daemon_own_more,
                                     .lost = daemon_lost,
                                     .down = daemon_down,
                                     .up = daemon_up,
                                     .unit_answer = daemon_unit_answer,
                                     .loaded = daemon_loaded,
                                     .load_done = daemon_load_done,
                                     .load_run_done = daemon_load_run_done,
                                     .plan = daemon_plan,
                                     .workflow = daemon_workflow,
                                     .workflows_done = daemon_workflows_done,
                                     .inbox = daemon_inbox,
                                     .daemons = daemon_daemons,
                                     .problem = daemon_problem};
    daemon->store = store_pg_open(daemon->o.loop, &options, &events);
}

static void daemon_commit_answer(void *arg, uint64_t invocation_id,
                                 const struct unit_answer *answer)
{
    struct daemon *daemon = arg;
    runner_commit_answer(daemon->runner, invocation_id, answer);
}

static void sql_open(struct daemon *daemon)
{
    struct invoke_sql_options options = {.loop = daemon->o.loop,
                                         .store = daemon->store,
                                         .uri = daemon->o.action_database,
                                         .daemon = daemon->o.name,
                                         .lanes = daemon->o.action_database ? ACTION_LANES : 0,
                                         .egress = &daemon->o.config->egress,
                                         .reply = invoke_reply,
                                         .reply_arg = daemon->invoke,
                                         .commit_answer = daemon_commit_answer,
                                         .commit_arg = daemon};
    daemon->sql = invoke_sql_new(&options);
    invoke_register(daemon->invoke, ACTION_SQL, invoke_sql_port(daemon->sql));
}

static const struct plan *daemon_child_plan(void *arg, struct str workflow,
                                            const struct json *input, struct err *err)
{
    const struct daemon *daemon = arg;
    return plans_for_input(daemon->plans, workflow, input, err);
}

static void runner_open(struct daemon *daemon)
{
    struct breakers_options breakers = {
        .loop = daemon->o.loop, .store = daemon->store, .daemon = daemon->o.name};
    struct locks_options locks = {.loop = daemon->o.loop, .store = daemon->store};
    daemon->breakers = breakers_new(&breakers);
    daemon->locks = locks_new(&locks);
    struct late_answers_options late_answers = {
        .loop = daemon->o.loop, .store = daemon->store, .daemon = daemon->o.name};
    daemon->late_answers = late_answers_new(&late_answers);
    struct runner_config config = {.env = daemon->env,
                                   .tenants = daemon->o.config->tenants,
                                   .tenants_count = daemon->o.config->tenants_count,
                                   .strays = late_answers_port(daemon->late_answers),
                                   .services = breakers_port(daemon->breakers),
                                   .people = daemon->o.config->people,
                                   .tasks = queues_port(daemon->queues),
                                   .locks = locks_port(daemon->locks),
                                   .plans = {.arg = daemon, .find = daemon_child_plan}};
    struct port_store store = store_pg_port(daemon->store);
    struct port_watch watch = {.arg = daemon, .changed = daemon_changed};
    daemon->runner = runner_new(&config, &store, invoke_port(daemon->invoke), &watch);
    breakers_run(daemon->breakers, daemon->runner);
    locks_run(daemon->locks, daemon->runner);
}

static void alerts_open(struct daemon *daemon)
{
    struct alerts_options options = {.loop = daemon->o.loop,
                                     .runner = daemon->runner,
                                     .store = daemon->store,
                                     .invoke = invoke_port(daemon->invoke),
                                     .secrets = daemon->secrets,
                                     .daemon = daemon->o.name,
                                     .targets = daemon->o.config->alerts,
                                     .count = daemon->o.config->alerts_count};
    daemon->alerts = alerts_new(&options);
}

int daemon_open(const struct daemon_options *options, struct daemon **out, struct err *err)
{
    struct daemon *daemon = xcalloc(1, sizeof(*daemon));
    daemon->o = *options;
    int code = secrets_open(daemon, err);
    if (code) {
        daemon_close(daemon);
        return code;
    }
    dsl_options_fill(daemon);
    daemon->plans = plans_new(&daemon->dsl);
    daemon->queues = queues_new(options->loop);
    invoke_open(daemon);
    store_open(daemon);
    sql_open(daemon);
    runner_open(daemon);
    daemon->bulks = bulks_new(options->loop, daemon->runner, daemon->store);
    alerts_open(daemon);
    struct api_options api = {.loop = options->loop,
                              .access = &options->config->access,
                              .runner = daemon->runner,
                              .store = daemon->store,
                              .plans = daemon->plans,
                              .queues = daemon->queues,
                              .bulks = daemon->bulks,
                              .dsl = &daemon->dsl,
                              .env = daemon->env,
                              .daemon = options->name};
    daemon->api = api_new(&api);
    struct schedules_options schedules = {.loop = options->loop,
                                          .runner = daemon->runner,
                                          .store = daemon->store,
                                          .plans = daemon->plans,
                                          .env = daemon->env};
    daemon->schedules = schedules_new(&schedules);
    struct retention_options retention = {.loop = options->loop,
                                          .runner = daemon->runner,
                                          .store = daemon->store,
                                          .plans = daemon->plans,
                                          .daemon = options->name,
                                          .retain_us = options->config->retain_us};
    daemon->retention = retention_new(&retention);
    daemon->turn_timer = loop_timer_new(options->loop, on_turn_timer, daemon);
    loop_turn_add(options->loop, daemon_turn, daemon);
    /* Before anything is owned: /readyz tells when it is. */
    if (options->metrics)
        code = control_open_tcp(options->loop, options->metrics, api_scrape, daemon->api,
                                &daemon->scrape, err);
    if (!code)
        code = store_pg_lease(daemon->store, err);
    if (code) {
        daemon_close(daemon);
        return code;
    }
    *out = daemon;
    return 0;
}

void daemon_close(struct daemon *daemon)
{
    if (!daemon)
        return;
    if (daemon->turn_timer)
        loop_turn_remove(daemon->o.loop, daemon_turn, daemon);
    loop_timer_free(daemon->turn_timer);
    loop_timer_free(daemon->drain_timer);
    api_free(daemon->api); /* answers what waits, before the transport goes */
    control_close(daemon->control);
    control_close(daemon->scrape);
    runner_free(daemon->runner);
    invoke_sql_free(daemon->sql);
    store_pg_close(daemon->store);
    schedules_free(daemon->schedules);
    retention_free(daemon->retention);
    bulks_free(daemon->bulks);
    breakers_free(daemon->breakers);
    locks_free(daemon->locks);
    late_answers_free(daemon->late_answers);
    alerts_free(daemon->alerts);
    invoke_free(daemon->invoke);
    plans_free(daemon->plans);
    queues_free(daemon->queues);
    secrets_free(daemon->secrets);
    arena_free(&daemon->arena);
    free(daemon);
}

/* --- ending ------------------------------------------------------------------------------------
 */

static void on_released(void *arg)
{
    struct daemon *daemon = arg;
    daemon->released = true;
    if (api_end(daemon->api))
        loop_timer_set(daemon->drain_timer, FAREWELL_US);
    else
        daemon->o.drained(daemon->o.arg);
}

static void drain_look(void *arg)
{
    struct daemon *daemon = arg;
    bool late = loop_mono().us >= daemon->drain_until.us;
    if (daemon->released) {
        daemon->o.drained(daemon->o.arg);
        return;
    }
    if (daemon->releasing)
        return;
    bool busy = invoke_busy(daemon->invoke) || invoke_sql_busy(daemon->sql);
    if (late && !runner_is_idle(daemon->runner) && busy) {
        log_warn("the drain's time is over: attempts in flight are cut off; they count as unknown");
        invoke_drain(daemon->invoke, true);
        invoke_sql_drain(daemon->sql, true);
    }
    if (!runner_is_idle(daemon->runner) && loop_mono().us < daemon->drain_until.us + SECOND_US) {
        loop_timer_set(daemon->drain_timer, DRAIN_LOOK_US);
        return;
    }
    daemon->releasing = true;
    daemon->owned = false;
    store_pg_release(daemon->store, on_released, daemon);
}

void daemon_drain(struct daemon *daemon)
{
    if (daemon->draining)
        return;
    daemon->draining = true;
    daemon->drain_until = (struct mono){loop_mono().us + daemon->o.config->drain_us};
    if (daemon->control)
        control_stop(daemon->control);
    if (daemon->scrape)
        control_stop(daemon->scrape);
    schedules_stop(daemon->schedules);
    retention_stop(daemon->retention);
    bulks_stop(daemon->bulks);
    breakers_stop(daemon->breakers);
    locks_stop(daemon->locks);
    alerts_stop(daemon->alerts);
    runner_drain(daemon->runner);
    invoke_drain(daemon->invoke, false);
    invoke_sql_drain(daemon->sql, false);
    daemon->drain_timer = loop_timer_new(daemon->o.loop, drain_look, daemon);
    loop_timer_set(daemon->drain_timer, 0);
}

/* --- files of --dev ------------------------------------------------------------------------------
 */

struct file_apply {
    struct daemon *daemon;
    struct plan *plan;
    char *path;
    void (*done)(void *arg, const char *path, const struct err *err, struct str status);
    void *done_arg;
};

static void file_applied(void *arg, const struct store_answer *answer)
{
    struct file_apply *apply = arg;
    if (!answer->err.code)
        plans_put(apply->daemon->plans, apply->plan, true);
    apply->done(apply->done_arg, apply->path, &answer->err, answer->text);
    plan_unref(apply->plan);
    free(apply->path);
    free(apply);
}

/* False: it cannot be read, and is told. */
static bool file_read(const char *path, struct arena *scratch, struct plans_file *out,
                      struct daemon_file *file)
{
    struct err err;
    if (config_file_read(path, scratch, &out->source, &err) != 0) {
        buf_printf(&file->report, "%s\n", err.text);
        return false;
    }
    out->diags = arena_new(scratch, struct diags);
    diags_init(out->diags, path, out->source);
    return true;
}

void daemon_apply(struct daemon *daemon, struct daemon_file *files, size_t count,
                  void (*done)(void *arg, const char *path, const struct err *err,
                               struct str status),
                  void *arg)
{
    struct arena scratch = {0};
    struct plans_file *sources = arena_array(&scratch, struct plans_file, count + 1);
    size_t *of = arena_array(&scratch, size_t, count + 1), read = 0;
    for (size_t i = 0; i < count; i++) {
        files[i].refused = !file_read(files[i].path, &scratch, &sources[read], &files[i]);
        if (!files[i].refused)
            of[read++] = i;
    }
    plans_compile(daemon->plans, sources, read);
    for (size_t i = 0; i < read; i++) {
        struct daemon_file *file = &files[of[i]];
        diags_print(sources[i].diags, false, &file->report);
        file->refused = !sources[i].plan;
        diags_free(sources[i].diags);
        if (file->refused)
            continue;
        struct file_apply *apply = xcalloc(1, sizeof(*apply));
        *apply = (struct file_apply){daemon, sources[i].plan, xstrdup(file->path), done, arg};
        store_pg_apply(daemon->store, apply->plan, dsl_run_id_parts(apply->plan, &scratch), "dev",
                       file_applied, apply);
    }
    arena_free(&scratch);
}
