/*
 * schema.h: the language as one table.
 *
 * Every key of a workflow file: where it stands, what form its value has, its default and a line
 * of help. The table drives the checks for unknown and missing keys, the reference in
 * dsl/README.md and the schema for editors (dsl/workflow.schema.json), so they cannot disagree.
 */
#ifndef DSL_SCHEMA_H
#define DSL_SCHEMA_H

#include "engine/base/buf.h"

/* id, name in messages, what it is */
#define LANG_GROUPS(X)                                                                         \
    X(LANG_WORKFLOW, "workflow", "a workflow", "The file itself.")                             \
    X(LANG_SERVICE, "service", "a service", "An entry of `services`.")                         \
    X(LANG_AUTH, "auth", "`auth`", "How a service knows us: one of these.")                    \
    X(LANG_BASIC, "basic", "`basic`", "User and password.")                                    \
    X(LANG_OAUTH2, "oauth2", "`oauth2`",                                                       \
      "OAuth 2 client credentials: a token is fetched, kept and renewed.")                     \
    X(LANG_SIGN, "sign", "`sign`",                                                             \
      "How a service can tell that a request is ours and whole: header `Saga-Signature`.")     \
    X(LANG_IDEMPOTENCY, "idempotency", "`idempotency`",                                        \
      "How a service takes the key: `none`, or one of `header`, `query`, `body`. The key "     \
      "counts as honoured only where a `ttl` is declared.")                                    \
    X(LANG_LIMITS, "limits", "`limits`",                                                       \
      "What all runs together may send to a service; each daemon has its share. What may "     \
      "not be sent yet waits, as long as its budget lasts.")                                   \
    X(LANG_BREAKER, "breaker", "`breaker`",                                                    \
      "Nothing is sent to a service that fails: for a while, and then one request first. "     \
      "Failures are answers 5xx, connections that fail, and answers that do not come.")        \
    X(LANG_DEFAULTS, "defaults", "`defaults`", "For all steps.")                               \
    X(LANG_STEP, "step", "a step", "An entry of `steps`.")                                     \
    X(LANG_ACTION, "action", "an action", "Exactly one kind, and the keys of that kind.")      \
    X(LANG_COMPENSATE, "compensate", "`compensate`",                                           \
      "What undoes the step: an action, with these keys beside it; or `none`.")                \
    X(LANG_RECONCILE, "reconcile", "`reconcile`",                                              \
      "One read, and expressions that say what its answer proves. They see `response`, the "   \
      "read's, and `answer`, the last one to the action that is asked about.")                 \
    X(LANG_APPROVE, "approve", "`approve`",                                                    \
      "Whose word is needed, and for how long. It is bound to the step, its key and the hash " \
      "of its request, is used once, and covers the declared compensation.")                   \
    X(LANG_DRY_RUN, "dry_run", "`dry_run`",                                                    \
      "One request that the service answers with what the action would do, and does nothing. " \
      "It is sent when a person asks for it (`sagactl dry-run`, `run --dry-run --rehearse`), " \
      "without a key, and its answer is shown to that person alone.")                          \
    X(LANG_OUTCOME, "outcome", "an entry of `outcomes`",                                       \
      "The first one that holds decides, before the default table; a service's come after "    \
      "the action's.")                                                                         \
    X(LANG_RETRY, "retry", "`retry`", "Of `retry` and `compensate_retry`.")                    \
    X(LANG_SCHEDULE, "schedule", "`schedule`", "When runs start by the clock.")                \
    X(LANG_TEST_FILE, "test_file", "a file of tests", "Tests alone, `NAME.test.yaml`.")        \
    X(LANG_TEST, "test", "a test", "An entry of `tests`: one run, simulated.")                 \
    X(LANG_TEST_ANSWER, "test_answer", "an answer",                                            \
      "What a service answers to one attempt; the words `lost`, `lost_before`, `timeout` "     \
      "and `connect` say that no answer comes.")                                               \
    X(LANG_TEST_SIGNAL, "test_signal", "a signal", "An entry of `signals`.")                   \
    X(LANG_TEST_VERB, "test_verb", "an entry of `at`", "What an operator does then.")          \
    X(LANG_TEST_EXPECT, "test_expect", "`expect`",                                             \
      "What must have happened in the end. What is not mentioned is not looked at.")           \
    X(LANG_TEST_STEP, "test_step", "a step of `expect`", "How the step ended.")

enum lang_group {
    LANG_NO_GROUP,
#define X(id, name, title, help) id,
    LANG_GROUPS(X)
#undef X
        LANG_GROUP_COUNT
};

enum lang_form {
    LANG_TEXT,          /* a literal text */
    LANG_NAME,          /* [a-z][a-z0-9_-]{0,62} */
    LANG_STEP_ID,       /* [a-z][a-z0-9_]{0,62} */
    LANG_STEP_IDS,      /* a list of those */
    LANG_ADDRESS,       /* SERVICE/PATH */
    LANG_TEXT_TEMPLATE, /* a scalar with holes */
    LANG_TEMPLATE,      /* any value with holes */
    LANG_TEMPLATES,     /* a list of scalars with holes */
    LANG_TEMPLATE_MAP,  /* names to scalars with holes */
    LANG_EXPRESSION,
    LANG_BOOLEAN,
    LANG_COUNT,   /* at least 1 */
    LANG_INTEGER, /* may be 0 or less */
    LANG_FACTOR,
    LANG_PERCENT,
    LANG_RATE, /* "100/s" */
    LANG_DURATION,
    LANG_DURATION_TEMPLATE,
    LANG_CHOICE,        /* one of `choices` */
    LANG_GROUP,         /* a map of group `of` */
    LANG_GROUP_LIST,    /* a list of those */
    LANG_GROUP_MAP,     /* names to those */
    LANG_NONE_OR_GROUP, /* `none` or such a map */
    LANG_JSON_SCHEMA,
    LANG_TEST_ANSWERS, /* effects to an answer or a list of those */
    LANG_TEST_VERBS,   /* durations to a verb or a map of group `of` */
    LANG_ANY,
};

enum lang_flag {
    LANG_REQUIRED = 1,
    LANG_PLANNED = 2, /* part of the language, not supported by this version */
    LANG_KIND = 4,    /* selects the kind of an action */
};

#define LANG_TEST_ANSWER_WORDS "lost|lost_before|timeout|connect"

struct lang_key {
    enum lang_group group;
    const char *name;
    enum lang_form form;
    enum lang_group of;
    unsigned flags;
    const char *kinds;    /* of an action's key: the kinds it belongs to; NULL: any */
    const char *choices;  /* "a|b", of LANG_CHOICE */
    const char *fallback; /* the default, NULL: none */
    const char *help;
};

extern const struct lang_key lang_keys[]; /* in the order of the groups */
extern const size_t lang_keys_count;

/* The group's own keys: those that `compensate` shares with actions are the actions'. */
const struct lang_key *lang_group_keys(enum lang_group group, size_t *count);
const struct lang_key *lang_key_find(enum lang_group group, struct str name);
/* The names of a group's keys for `diag_nearest`, at most `max`; planned ones too. */
size_t lang_key_names(enum lang_group group, const char **names, size_t max);
const char *lang_group_name(enum lang_group group);
const char *lang_group_title(enum lang_group group);
const char *lang_group_help(enum lang_group group);
/* What an author who wrote `name` here usually means, or NULL. */
const char *lang_mistake_help(enum lang_group group, struct str name);
/* True if `word` is one of "a|b|c". */
bool lang_choice_has(const char *choices, struct str word);

/* dsl/workflow.schema.json: JSON Schema for editors. */
void lang_write_editor_schema(struct buf *out);
/* The tables of dsl/README.md. */
void lang_write_reference(struct buf *out);

#endif
