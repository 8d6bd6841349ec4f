/*
 * stub_ask.h: what a simulated service says when it is asked about an effect (`reconcile`).
 *
 * Both functions look at the run as its rows have it, so the expressions see what they will see in
 * the engine. Pure.
 */
#ifndef ENGINE_STUB_ASK_H
#define ENGINE_STUB_ASK_H

#include "engine/stub_rows.h"

struct stub_question {
    struct stub_row *row;
    struct effect_ref ref; /* of the newest generation, in a state that is asked about */
    const struct json *env;
};

/* The answer that proves what is true (see answer_sample.h), where the reconcile has an expression
 * for it, and nothing otherwise. `output`: JSON text of what the action answered; absent: none.
 * False: no such answer was found; the reply proves nothing then. Texts lie in `arena`. */
bool stub_ask_answer(const struct stub_question *question, enum outcome truth, struct str output,
                     struct arena *arena, struct reply *out);

/* What the run will take this reply for, asked at `sent_at`: OUTCOME_UNKNOWN where it proves
 * nothing, or nothing yet. */
enum outcome stub_ask_says(const struct stub_question *question, const struct reply *reply,
                           struct wall sent_at, struct arena *arena);

#endif
