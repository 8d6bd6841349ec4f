/*
 * ctl_conform_play.c: the checks, in the order in which they build on each other.
 *
 * The first subject is done, repeated, asked for other things, undone and sent late; others are for
 * what happens at once, after a cut connection, and in the wrong order.
 */
#include "engine/ctl_conform.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define CUT_PAUSE_US (300 * MS_US) /* for a participant to do what nobody waits for any more */

struct play {
    struct conform *conform;
    struct conform_report *report;
    struct conform_subject first, crowd, cut, early;
    struct rendered request;    /* of the first subject */
    struct conform_answer done; /* its answer */
    bool has_undo;
};

static void say(struct play *play, const char *name, const char *claim,
                enum conform_verdict verdict, const char *fmt, ...) PRINTF_LIKE(5, 6);
static void say(struct play *play, const char *name, const char *claim,
                enum conform_verdict verdict, const char *fmt, ...)
{
    struct conform_report *report = play->report;
    struct buf text = {0};
    va_list args;
    va_start(args, fmt);
    buf_vprintf(&text, fmt, args);
    va_end(args);
    ASSERT(report->count < CONFORM_CHECKS_MAX);
    report->list[report->count++] = (struct conform_check){
        name, claim, verdict, arena_str(play->conform->arena, buf_str(&text))};
    buf_free(&text);
}

/* --- reading answers ------------------------------------------------------------------------- */

static bool is_applied(const struct conform_answer *answer)
{
    return answer->verdict.outcome == OUTCOME_APPLIED;
}

/* A final no: certainly not done by this request. */
static bool is_no(const struct conform_answer *answer)
{
    return answer->verdict.outcome == OUTCOME_REFUSED ||
           answer->verdict.outcome == OUTCOME_CONFLICT;
}

static struct str told(const struct play *play, const struct conform_answer *answer)
{
    return conform_text(answer, play->conform->arena);
}

bool conform_same(const struct conform_answer *a, const struct conform_answer *b,
                  struct arena *arena)
{
    const struct json *left, *right;
    struct err err;
    if (!is_applied(a) || !is_applied(b))
        return false;
    if (a->reply.body.len && b->reply.body.len &&
        json_parse(a->reply.body, arena, &left, &err) == 0 &&
        json_parse(b->reply.body, arena, &right, &err) == 0)
        return json_equal(left, right);
    return str_eq(a->reply.body, b->reply.body);
}

struct str conform_text(const struct conform_answer *answer, struct arena *arena)
{
    const char *outcome = outcome_name(answer->verdict.outcome);
    if (answer->reply.kind == REPLY_HTTP)
        return arena_printf(arena, "%d (%s)", answer->reply.status, outcome);
    return arena_printf(arena, "%s (%s)",
                        answer->reply.error.len ? answer->reply.error.ptr
                                                : reply_kind_name(answer->reply.kind),
                        outcome);
}

/* --- doing ------------------------------------------------------------------------------------ */

/* A new subject, rendered, not sent. */
static int subject_open(struct play *play, struct conform_subject *subject,
                        struct rendered *request, struct err *err)
{
    int code = conform_subject_new(play->conform, subject, err);
    return code ? code : conform_render(play->conform, subject, false, request, err);
}

static bool check_first(struct play *play)
{
    static const char claim[] = "a request is done";
    play->done = conform_settle(play->conform, &play->first, false, &play->request);
    if (!is_applied(&play->done)) {
        say(play, "first", claim, CONFORM_FAIL,
            STR_FMT ": nothing else can be tried; give an input that it takes: --input JSON",
            STR_ARG(told(play, &play->done)));
        return false;
    }
    conform_subject_apply(&play->first, play->conform, play->done.verdict.output);
    say(play, "first", claim, CONFORM_PASS, STR_FMT, STR_ARG(told(play, &play->done)));
    return true;
}

static void check_again(struct play *play)
{
    static const char claim[] = "the same key again: the same answer, nothing done";
    struct conform_answer answer =
        conform_settle(play->conform, &play->first, false, &play->request);
    if (conform_same(&play->done, &answer, play->conform->arena))
        say(play, "again", claim, CONFORM_PASS, STR_FMT ", the same answer",
            STR_ARG(told(play, &answer)));
    else if (is_applied(&answer))
        say(play, "again", claim, CONFORM_FAIL,
            STR_FMT ", but another answer: it was done a second time",
            STR_ARG(told(play, &answer)));
    else
        say(play, "again", claim, CONFORM_FAIL,
            STR_FMT ": a run whose first answer was lost would not learn that it was done",
            STR_ARG(told(play, &answer)));
}

/* The answers of one key at once: NULL if they go together, else what is wrong. */
static const char *crowd_problem(struct play *play, const struct conform_answer *answers,
                                 const struct conform_answer *last)
{
    for (unsigned i = 0; i < CONFORM_AT_ONCE; i++) {
        const struct conform_answer *answer = &answers[i];
        enum outcome outcome = answer->verdict.outcome;
        if (outcome == OUTCOME_IN_PROGRESS || outcome == OUTCOME_RETRYABLE)
            continue;
        if (is_no(answer) && answer->reply.status == 409)
            return "409 is taken for a refusal: map it with `outcomes` to in_progress if it means "
                   "that the first one is still in work";
        if (!is_applied(answer))
            return "one of them got neither the answer nor \"later\"";
        if (!conform_same(answer, last, play->conform->arena))
            return "the answers differ: it was done more than once";
    }
    return is_applied(last) ? NULL : "afterwards it is not told as done";
}

static void check_at_once(struct play *play)
{
    static const char claim[] =
        "the same key at once: done once, each gets that answer or \"later\"";
    struct conform_answer answers[CONFORM_AT_ONCE];
    struct rendered request;
    struct err err;
    if (subject_open(play, &play->crowd, &request, &err) != 0) {
        say(play, "at once", claim, CONFORM_SKIP, "%s", err.text);
        return;
    }
    conform_send(play->conform, &play->crowd, false, &request, CONFORM_AT_ONCE, answers);
    struct conform_answer last = conform_settle(play->conform, &play->crowd, false, &request);
    const char *problem = crowd_problem(play, answers, &last);
    struct buf all = {0};
    for (unsigned i = 0; i < CONFORM_AT_ONCE; i++)
        buf_printf(&all, "%s" STR_FMT, i ? ", " : "", STR_ARG(told(play, &answers[i])));
    say(play, "at once", claim, problem ? CONFORM_FAIL : CONFORM_PASS, STR_FMT "%s%s",
        STR_ARG(buf_str(&all)), problem ? ": " : "", problem ? problem : "");
    buf_free(&all);
    if (is_applied(&last))
        conform_subject_apply(&play->crowd, play->conform, last.verdict.output);
}

static void check_cut(struct play *play)
{
    static const char claim[] = "the connection is cut after the request: a repeat is answered";
    struct conform_answer answer, again;
    struct rendered request;
    struct err err;
    if (subject_open(play, &play->cut, &request, &err) != 0 ||
        conform_cut(play->conform, &play->cut, &request, &err) != 0) {
        say(play, "cut", claim, CONFORM_SKIP, "%s", err.text);
        return;
    }
    usleep(CUT_PAUSE_US);
    answer = conform_settle(play->conform, &play->cut, false, &request);
    again = conform_settle(play->conform, &play->cut, false, &request);
    if (is_applied(&answer))
        conform_subject_apply(&play->cut, play->conform, answer.verdict.output);
    if (!is_applied(&answer))
        say(play, "cut", claim, CONFORM_FAIL, STR_FMT, STR_ARG(told(play, &answer)));
    else if (!conform_same(&answer, &again, play->conform->arena))
        say(play, "cut", claim, CONFORM_FAIL, STR_FMT ", but the next repeat says otherwise",
            STR_ARG(told(play, &answer)));
    else
        say(play, "cut", claim, CONFORM_PASS, STR_FMT, STR_ARG(told(play, &answer)));
}

/* --- the same key for something else ---------------------------------------------------------- */

static void check_other_body(struct play *play)
{
    static const char claim[] = "the same key with another body: refused with a 4xx";
    struct rendered other;
    struct str where;
    if (!conform_change(&play->request, CONFORM_OTHER, play->conform->arena, &other, &where)) {
        say(play, "other body", claim, CONFORM_SKIP, "the request has no JSON body to change");
        return;
    }
    struct conform_answer answer = conform_settle(play->conform, &play->first, false, &other);
    int status = answer.reply.status;
    if (answer.verdict.outcome == OUTCOME_CONFLICT)
        say(play, "other body", claim, CONFORM_PASS, STR_FMT, STR_ARG(told(play, &answer)));
    else if (is_no(&answer) && status >= 400 && status < 500)
        say(play, "other body", claim, CONFORM_PASS,
            STR_FMT "; map it with `outcomes` to conflict, and the run parks as key_conflict",
            STR_ARG(told(play, &answer)));
    else if (conform_same(&play->done, &answer, play->conform->arena))
        say(play, "other body", claim, CONFORM_FAIL,
            STR_FMT ", the first answer: it ignores that " STR_FMT " is another",
            STR_ARG(told(play, &answer)), STR_ARG(where));
    else
        say(play, "other body", claim, CONFORM_FAIL, STR_FMT " for another " STR_FMT,
            STR_ARG(told(play, &answer)), STR_ARG(where));
}

static void check_number(struct play *play)
{
    static const char claim[] = "a number written otherwise (10.1, 10.10): the same request";
    struct rendered other;
    struct str where;
    if (!conform_change(&play->request, CONFORM_NUMBER, play->conform->arena, &other, &where)) {
        say(play, "number", claim, CONFORM_SKIP, "the body has no number");
        return;
    }
    struct conform_answer answer = conform_settle(play->conform, &play->first, false, &other);
    bool same = conform_same(&play->done, &answer, play->conform->arena);
    if (is_applied(&answer) && !same)
        say(play, "number", claim, CONFORM_FAIL,
            STR_FMT ", but another answer: it was done a second time",
            STR_ARG(told(play, &answer)));
    else
        say(play, "number", claim, same ? CONFORM_PASS : CONFORM_NOTE, STR_FMT " for " STR_FMT "%s",
            STR_ARG(told(play, &answer)), STR_ARG(where),
            same ? "" : ": it compares texts; the engine always writes a number in the same way");
}

/* --- undoing ---------------------------------------------------------------------------------- */

static void check_undo(struct play *play)
{
    static const char claim[] = "what was done is undone",
                      claim_again[] = "the undo again: also done";
    struct rendered undo;
    struct err err;
    if (conform_render(play->conform, &play->first, true, &undo, &err) != 0) {
        say(play, "undo", claim, CONFORM_FAIL, "it cannot be rendered: %s", err.text);
        return;
    }
    struct conform_answer answer = conform_settle(play->conform, &play->first, true, &undo);
    play->first.undone = is_applied(&answer);
    say(play, "undo", claim, play->first.undone ? CONFORM_PASS : CONFORM_FAIL, STR_FMT,
        STR_ARG(told(play, &answer)));
    if (!play->first.undone)
        return;
    struct conform_answer again = conform_settle(play->conform, &play->first, true, &undo);
    bool both_2xx = answer.reply.status / 100 == 2 && again.reply.status / 100 == 2;
    if (!is_applied(&again))
        say(play, "undo again", claim_again, CONFORM_FAIL,
            STR_FMT ": a run whose first answer was lost would park", STR_ARG(told(play, &again)));
    else if (both_2xx && !conform_same(&answer, &again, play->conform->arena))
        say(play, "undo again", claim_again, CONFORM_FAIL,
            STR_FMT ", but another answer: it was undone a second time",
            STR_ARG(told(play, &again)));
    else
        say(play, "undo again", claim_again, CONFORM_PASS, STR_FMT, STR_ARG(told(play, &again)));
}

static void check_late(struct play *play)
{
    static const char claim[] = "late, after its undo: nothing is done";
    if (!play->first.undone)
        return;
    struct conform_answer answer =
        conform_settle(play->conform, &play->first, false, &play->request);
    if (is_no(&answer))
        say(play, "late", claim, CONFORM_PASS, STR_FMT, STR_ARG(told(play, &answer)));
    else if (conform_same(&play->done, &answer, play->conform->arena))
        say(play, "late", claim, CONFORM_NOTE,
            STR_FMT ", the stored answer of what is undone; a final no would be clearer",
            STR_ARG(told(play, &answer)));
    else
        say(play, "late", claim, CONFORM_FAIL, STR_FMT ": it was done anew",
            STR_ARG(told(play, &answer)));
}

static void check_undo_first(struct play *play)
{
    static const char claim[] = "undo before it was done: succeeds",
                      claim_late[] = "done after that undo: refused for ever";
    struct rendered request, undo;
    struct err err;
    if (subject_open(play, &play->early, &request, &err) != 0 ||
        conform_render(play->conform, &play->early, true, &undo, &err) != 0) {
        say(play, "undo first", claim, CONFORM_SKIP,
            "the undo needs the action's answer (%s); undo by a reference of your own, or by "
            "Saga-Compensates, and it works when that answer was lost",
            err.text);
        return;
    }
    struct conform_answer answer = conform_settle(play->conform, &play->early, true, &undo);
    if (!is_applied(&answer)) {
        say(play, "undo first", claim, CONFORM_FAIL,
            STR_FMT ": the run would park; answer 2xx, or map it with `outcomes` to applied",
            STR_ARG(told(play, &answer)));
        return;
    }
    say(play, "undo first", claim, CONFORM_PASS, STR_FMT, STR_ARG(told(play, &answer)));
    answer = conform_settle(play->conform, &play->early, false, &request);
    play->early.applied = is_applied(&answer);
    say(play, "late do", claim_late, is_no(&answer) ? CONFORM_PASS : CONFORM_FAIL, STR_FMT "%s",
        STR_ARG(told(play, &answer)),
        is_applied(&answer) ? ": what a run has undone would happen after all, and stay" : "");
}

/* --- afterwards ------------------------------------------------------------------------------- */

/* Undoes what the test has done; what stays is named. */
static void subject_clear(struct play *play, struct conform_subject *subject, struct buf *left)
{
    struct rendered undo;
    struct err err;
    if (!subject->run)
        return;
    if (subject->applied && !subject->undone && play->has_undo &&
        conform_render(play->conform, subject, true, &undo, &err) == 0) {
        struct conform_answer answer = conform_settle(play->conform, subject, true, &undo);
        subject->undone = is_applied(&answer) && subject != &play->early;
    }
    if (subject->applied && !subject->undone)
        buf_printf(left, "%s" STR_FMT ":" STR_FMT ":execute", left->len ? " " : "",
                   STR_ARG(subject->run->id), STR_ARG(str_z(play->conform->step->id)));
    conform_subject_free(subject);
}

int conform_play(struct conform *conform, struct conform_report *report, struct err *err)
{
    struct play play = {.conform = conform, .report = report};
    struct buf left = {0};
    play.has_undo = conform->step->compensate.kind == ACTION_HTTP;
    *report = (struct conform_report){0};
    int code = subject_open(&play, &play.first, &play.request, err);
    if (!code && check_first(&play)) {
        check_again(&play);
        check_at_once(&play);
        check_cut(&play);
        check_other_body(&play);
        check_number(&play);
        if (play.has_undo) {
            check_undo(&play);
            check_late(&play);
            check_undo_first(&play);
        } else {
            say(&play, "undo", "what was done is undone", CONFORM_SKIP,
                "the step has no compensation over HTTP");
        }
    }
    subject_clear(&play, &play.first, &left);
    subject_clear(&play, &play.crowd, &left);
    subject_clear(&play, &play.cut, &left);
    subject_clear(&play, &play.early, &left);
    if (left.len)
        report->left = arena_str(conform->arena, buf_str(&left));
    buf_free(&left);
    return code;
}

/* --- changed requests ------------------------------------------------------------------------- */

struct changing {
    struct arena *arena;
    enum conform_change change;
    struct str key; /* stays as it is, wherever it stands */
    bool done;
    struct str where;
};

static const struct json *leaf_change(struct changing *c, const struct json *value)
{
    int64_t whole;
    if (value->kind == JSON_NUMBER && c->change == CONFORM_NUMBER) {
        bool plain = !memchr(value->text.ptr, 'e', value->text.len) &&
                     !memchr(value->text.ptr, 'E', value->text.len);
        bool fraction = memchr(value->text.ptr, '.', value->text.len) != NULL;
        c->done = plain;
        return plain ? json_number(c->arena,
                                   arena_printf(c->arena, STR_FMT "%s", STR_ARG(value->text),
                                                fraction ? "0" : ".0"))
                     : value;
    }
    if (c->change == CONFORM_NUMBER)
        return value;
    if (value->kind == JSON_NUMBER) {
        c->done = true;
        return json_int(c->arena, json_to_int(value, &whole) && whole < INT64_MAX ? whole + 1 : 1);
    }
    if (value->kind == JSON_STRING && !str_eq(value->text, c->key)) {
        c->done = true;
        return json_string(c->arena, arena_printf(c->arena, STR_FMT "x", STR_ARG(value->text)));
    }
    return value;
}

static const struct json *tree_change(struct changing *c, const struct json *value, struct str path)
{
    if (c->done)
        return value;
    if (value->kind == JSON_OBJECT) {
        struct json *out = json_object_new(c->arena, value->count);
        for (uint32_t i = 0; i < value->count; i++) {
            struct str name = value->members[i].name;
            json_object_add(out, name,
                            tree_change(c, value->members[i].value,
                                        arena_printf(c->arena, STR_FMT "%s" STR_FMT, STR_ARG(path),
                                                     path.len ? "." : "", STR_ARG(name))));
        }
        return out;
    }
    if (value->kind == JSON_LIST) {
        struct json *out = json_list_new(c->arena, value->count);
        for (uint32_t i = 0; i < value->count; i++)
            json_list_add(out, tree_change(c, value->items[i],
                                           arena_printf(c->arena, STR_FMT "[%u]", STR_ARG(path),
                                                        (unsigned)i)));
        return out;
    }
    const struct json *changed = leaf_change(c, value);
    if (c->done)
        c->where = path;
    return changed;
}

bool conform_change(const struct rendered *rendered, enum conform_change change,
                    struct arena *arena, struct rendered *out, struct str *where)
{
    const struct plan_action *action = rendered->request.action;
    struct changing changing = {.arena = arena, .change = change, .key = rendered->key_sent};
    const struct json *body;
    struct err err;
    if (action->http.body_kind != BODY_JSON || !rendered->request.body.len ||
        json_parse(rendered->request.body, arena, &body, &err) != 0)
        return false;
    body = tree_change(&changing, body, STR(""));
    *out = *rendered;
    out->request.body = json_text(body, arena);
    *where = changing.where.len ? changing.where : STR("the body");
    return changing.done;
}
