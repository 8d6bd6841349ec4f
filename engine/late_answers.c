/* late_answers.c: a list of rows for the inbox, put one after another when the database is there.
 */
#include "engine/late_answers.h"

#include "engine/base/json.h"
#include "engine/log.h"

#include <inttypes.h>
#include <stdlib.h>

#define AGAIN_US (500 * MS_US)
#define MAGIC 0x1a7ea115

struct late_answer {
    struct late_answer *next;
    struct arena arena;
    struct str id, run_id, key, body;
};

struct late_answers {
    unsigned magic;
    struct late_answers_options o;
    struct loop_timer *timer;
    struct late_answer *first, **last;
    unsigned count;
    bool asking;
};

static void pump(void *arg);

struct late_answers *late_answers_new(const struct late_answers_options *options)
{
    struct late_answers *answers = xcalloc(1, sizeof(*answers));
    answers->magic = MAGIC;
    answers->o = *options;
    answers->last = &answers->first;
    answers->timer = loop_timer_new(options->loop, pump, answers);
    return answers;
}

static void first_free(struct late_answers *answers)
{
    struct late_answer *first = answers->first;
    answers->first = first->next;
    if (!answers->first)
        answers->last = &answers->first;
    answers->count--;
    arena_free(&first->arena);
    free(first);
}

void late_answers_free(struct late_answers *answers)
{
    if (!answers)
        return;
    ASSERT(answers->magic == MAGIC);
    while (answers->first)
        first_free(answers);
    loop_timer_free(answers->timer);
    free(answers);
}

static void put(void *arg, const struct store_answer *answer)
{
    struct late_answers *answers;
    CAST_OBJ(answers, arg, MAGIC);
    answers->asking = false;
    if (answer->err.code != ERR_UNAVAILABLE) {
        if (answer->err.code)
            log_warn("the late answer about \"" STR_FMT "\" is lost: %s",
                     STR_ARG(answers->first->key), answer->err.text);
        first_free(answers);
    }
    loop_timer_set(answers->timer, answer->err.code ? AGAIN_US : 0);
}

static void pump(void *arg)
{
    struct late_answers *answers;
    CAST_OBJ(answers, arg, MAGIC);
    const struct late_answer *first = answers->first;
    if (!first || answers->asking)
        return;
    if (!store_pg_can_answer(answers->o.store)) {
        loop_timer_set(answers->timer, AGAIN_US);
        return;
    }
    answers->asking = true;
    store_pg_inbox_put(answers->o.store, first->id, STR("answer"), first->run_id, NULL, first->body,
                       str_z(answers->o.daemon), put, answers);
}

static struct str body_write(const struct stray_answer *answer, struct arena *arena)
{
    struct json *body = json_object_new(arena, 5);
    const struct json *output = NULL;
    struct err err;
    struct buf reason = {0};
    if (answer->output.ptr && json_parse(answer->output, arena, &output, &err) != 0)
        output = NULL;
    buf_printf(&reason, "the answer to attempt %u, which came when its daemon had lost the run",
               answer->attempt);
    struct str code = !answer->applied && output ? json_get_text(output, "code") : STR_NONE;
    if (code.len)
        buf_printf(&reason, ": " STR_FMT, STR_ARG(code));
    json_object_add_z(body, "key", json_string(arena, answer->key));
    json_object_add_z(body, "applied", json_bool(answer->applied));
    json_object_add_z(body, "attempt", json_int(arena, answer->attempt));
    json_object_add_z(body, "reason", json_string(arena, buf_str(&reason)));
    if (output)
        json_object_add_z(body, "output", output);
    struct str text = json_text(body, arena);
    buf_free(&reason);
    return text;
}

static void answered(void *arg, const struct stray_answer *answer)
{
    struct late_answers *answers;
    CAST_OBJ(answers, arg, MAGIC);
    log_warn("an answer came after the lease was lost: \"" STR_FMT "\" %s", STR_ARG(answer->key),
             answer->applied ? "is applied" : "was refused");
    if (answers->count == LATE_ANSWERS_MAX) {
        log_warn("it is lost: %d wait for the database already", LATE_ANSWERS_MAX);
        return;
    }
    struct late_answer *late = xcalloc(1, sizeof(*late));
    struct arena *arena = &late->arena;
    late->run_id = arena_str(arena, answer->run_id);
    late->key = arena_str(arena, answer->key);
    late->body = body_write(answer, arena);
    /* The same attempt may have been sent twice: by two daemons, or under two leases of one. */
    late->id = arena_printf(arena, "late:%s:%" PRId64 ":" STR_FMT, answers->o.daemon,
                            loop_wall(answers->o.loop).us, STR_ARG(answer->key));
    *answers->last = late;
    answers->last = &late->next;
    answers->count++;
    loop_timer_set(answers->timer, 0);
}

struct port_strays late_answers_port(struct late_answers *answers)
{
    return (struct port_strays){.arg = answers, .answered = answered};
}
