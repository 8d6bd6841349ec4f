/*
 * ctl_verbs.h: the verbs of sagactl as one table.
 *
 * The table drives the parser, --help, shell completion and the check of the man page, so they
 * cannot disagree. A verb's function gets its arguments checked: their number, that none is empty,
 * options known, given once, and of their form.
 */
#ifndef ENGINE_CTL_VERBS_H
#define ENGINE_CTL_VERBS_H

#include "engine/ctl_core.h"

enum ctl_value {
    CTL_FLAG,
    CTL_TEXT,
    CTL_TEXT_ANY, /* may be empty */
    CTL_DURATION,
    CTL_COUNT,
    CTL_CHOICE,
    CTL_JSON, /* JSON, @FILE or - (stdin) */
};

/* id, name, letter, what its value is called, form, choices */
#define CTL_OPTIONS(X)                                                               \
    X(OPT_SOCKET, "socket", 0, "PATH", CTL_TEXT, NULL)                               \
    X(OPT_FORMAT, "format", 'o', "FORMAT", CTL_CHOICE, "table|wide|json|jsonl|name") \
    X(OPT_JSON, "json", 0, NULL, CTL_FLAG, NULL)                                     \
    X(OPT_QUIET, "quiet", 'q', NULL, CTL_FLAG, NULL)                                 \
    X(OPT_COLOR, "color", 0, "WHEN", CTL_CHOICE, "auto|always|never")                \
    X(OPT_HELP, "help", 'h', NULL, CTL_FLAG, NULL)                                   \
    X(OPT_VERSION, "version", 0, NULL, CTL_FLAG, NULL)                               \
    X(OPT_INPUT, "input", 0, "JSON|@FILE|-", CTL_JSON, NULL)                         \
    X(OPT_ID, "id", 0, "RUN_ID", CTL_TEXT, NULL)                                     \
    X(OPT_TENANT, "tenant", 0, "TENANT", CTL_TEXT, NULL)                             \
    X(OPT_WAIT, "wait", 0, NULL, CTL_FLAG, NULL)                                     \
    X(OPT_WATCH, "watch", 0, NULL, CTL_FLAG, NULL)                                   \
    X(OPT_TIMEOUT, "timeout", 0, "DURATION", CTL_DURATION, NULL)                     \
    X(OPT_STATE, "state", 0, "STATE", CTL_CHOICE,                                    \
      "queued|running|compensating|completed|compensated|parked|abandoned|paused")   \
    X(OPT_WORKFLOW, "workflow", 0, "WORKFLOW", CTL_TEXT, NULL)                       \
    X(OPT_SINCE, "since", 0, "DURATION", CTL_DURATION, NULL)                         \
    X(OPT_LIMIT, "limit", 0, "N", CTL_COUNT, NULL)                                   \
    X(OPT_CURSOR, "cursor", 0, "CURSOR", CTL_TEXT, NULL)                             \
    X(OPT_FOLLOW, "follow", 'f', NULL, CTL_FLAG, NULL)                               \
    X(OPT_STATES, "states", 0, NULL, CTL_FLAG, NULL)                                 \
    X(OPT_REASON, "reason", 0, "TEXT", CTL_TEXT_ANY, NULL)                           \
    X(OPT_APPLIED, "applied", 0, NULL, CTL_FLAG, NULL)                               \
    X(OPT_NOT_APPLIED, "not-applied", 0, NULL, CTL_FLAG, NULL)                       \
    X(OPT_FORCE, "force", 0, NULL, CTL_FLAG, NULL)                                   \
    X(OPT_OUTPUT, "output", 0, "JSON|@FILE|-", CTL_JSON, NULL)                       \
    X(OPT_DATA, "data", 0, "JSON|@FILE|-", CTL_JSON, NULL)                           \
    X(OPT_AT, "at", 0, "TIME", CTL_TEXT, NULL)                                       \
    X(OPT_FAULTS, "faults", 0, NULL, CTL_FLAG, NULL)                                 \
    X(OPT_PICTURE, "format", 0, "FORMAT", CTL_CHOICE, "mermaid|dot|svg")             \
    X(OPT_RUN, "run", 0, "RUN", CTL_TEXT, NULL)                                      \
    X(OPT_TO, "to", 0, "HASH", CTL_TEXT, NULL)                                       \
    X(OPT_DRY_RUN, "dry-run", 0, NULL, CTL_FLAG, NULL)                               \
    X(OPT_CONFIRM, "confirm", 0, "TOKEN", CTL_TEXT, NULL)                            \
    X(OPT_HASH, "hash", 0, "HASH", CTL_TEXT, NULL)                                   \
    X(OPT_YES, "yes", 0, NULL, CTL_FLAG, NULL)                                       \
    X(OPT_URL, "url", 0, "URL", CTL_TEXT, NULL)                                      \
    X(OPT_CONFIG, "config", 0, "PATH", CTL_TEXT, NULL)                               \
    X(OPT_STEP_INPUT, "step-input", 0, "JSON|@FILE|-", CTL_JSON, NULL)               \
    X(OPT_WHERE, "where", 0, "JSONPATH", CTL_TEXT, NULL)                             \
    X(OPT_RATE, "rate", 0, "N/s", CTL_TEXT, NULL)                                    \
    X(OPT_ERROR_SHARE, "max-error-share", 0, "SHARE", CTL_TEXT, NULL)                \
    X(OPT_REFUSED, "refused", 0, NULL, CTL_FLAG, NULL)                               \
    X(OPT_TEXT, "text", 0, "TEXT", CTL_TEXT, NULL)                                   \
    X(OPT_CHECK, "check", 0, NULL, CTL_FLAG, NULL)                                   \
    X(OPT_REHEARSE, "rehearse", 0, NULL, CTL_FLAG, NULL)
enum ctl_opt {
    OPT_NONE,
#define X(id, name, letter, value, form, choices) id,
    CTL_OPTIONS(X)
#undef X
        OPT_COUNT
};

struct ctl_option {
    const char *name;
    char letter; /* 0: none */
    const char *value;
    enum ctl_value form;
    const char *choices;
};
extern const struct ctl_option ctl_options[OPT_COUNT];

/* What an argument stands for: completion offers the right things. */
enum ctl_arg { CTL_ARG_NONE, CTL_ARG_FILE, CTL_ARG_WORKFLOW, CTL_ARG_RUN, CTL_ARG_WORD };

/* An option of a verb, with the help line that fits there. */
struct ctl_verb_option {
    enum ctl_opt id;
    const char *help;
};
#define CTL_VERB_OPTIONS_MAX 12

struct ctl_verb {
    const char *name;
    const char *group; /* heading of the overview */
    const char *args;  /* as written in usage lines */
    unsigned args_min, args_max;
    enum ctl_arg arg;  /* what the first argument is */
    const char *words; /* CTL_ARG_WORD: "bash|zsh|fish" */
    const char *summary;
    const char *about;                                    /* paragraphs of --help, or NULL */
    struct ctl_verb_option options[CTL_VERB_OPTIONS_MAX]; /* the table ends with OPT_NONE */
    const char *later; /* options of the interface that are not supported yet: "at|dry-run" */
    int (*run)(struct ctl *ctl);
};
extern const struct ctl_verb ctl_verbs[];
extern const size_t ctl_verbs_count;
extern const struct ctl_verb_option ctl_global_options[];
extern const size_t ctl_global_options_count;

const struct ctl_verb *ctl_verb_find(const char *name);
/* Says that there is no such verb, and which one may have been meant; CTL_USAGE. */
int ctl_verb_unknown(struct ctl *ctl, const char *name);

/* Reads the command line into ctl. Returns 0, or the exit code after saying what is wrong.
 * `*help`: help was asked for; nothing else was checked then. */
MUST_USE int ctl_parse(struct ctl *ctl, int argc, char **argv, bool *help, bool *version);

static inline bool ctl_has(const struct ctl *ctl, enum ctl_opt id)
{
    return ctl->options[id] != NULL;
}
static inline const char *ctl_option(const struct ctl *ctl, enum ctl_opt id)
{
    return ctl->options[id];
}
/* Microseconds of an option that was checked to be a duration; `fallback` if not given. */
int64_t ctl_option_duration(const struct ctl *ctl, enum ctl_opt id, int64_t fallback);
int64_t ctl_option_count(const struct ctl *ctl, enum ctl_opt id, int64_t fallback);
/* The JSON text of an option: literal, from @FILE or from stdin; absent if not given. Returns the
 * exit code after saying what is wrong. */
MUST_USE int ctl_option_json(struct ctl *ctl, enum ctl_opt id, struct str *out);

/* --help of a verb (NULL: the overview), into ctl->out. */
void ctl_help(struct ctl *ctl, const struct ctl_verb *verb);

int ctl_verb_answer(struct ctl *ctl);
int ctl_verb_apply(struct ctl *ctl);
int ctl_verb_approvals(struct ctl *ctl);
int ctl_verb_approve(struct ctl *ctl); /* and reject */
int ctl_verb_audit(struct ctl *ctl);
int ctl_verb_bulk(struct ctl *ctl);
int ctl_verb_completion(struct ctl *ctl);
int ctl_verb_services(struct ctl *ctl);
int ctl_verb_conform(struct ctl *ctl);
int ctl_verb_daemons(struct ctl *ctl);
int ctl_verb_dead(struct ctl *ctl);
int ctl_verb_diff(struct ctl *ctl);
int ctl_verb_dry_run(struct ctl *ctl);
int ctl_verb_events(struct ctl *ctl);
int ctl_verb_explain(struct ctl *ctl);
int ctl_verb_graph(struct ctl *ctl);
int ctl_verb_help(struct ctl *ctl);
int ctl_verb_list(struct ctl *ctl);
int ctl_verb_operate(struct ctl *ctl); /* cancel, pause, resume, compensate, abandon, retry */
int ctl_verb_ping(struct ctl *ctl);
int ctl_verb_run(struct ctl *ctl);
int ctl_verb_signal(struct ctl *ctl);
int ctl_verb_schema(struct ctl *ctl);
int ctl_verb_settle(struct ctl *ctl);
int ctl_verb_migrate(struct ctl *ctl);
int ctl_verb_show(struct ctl *ctl);
int ctl_verb_skip(struct ctl *ctl);
int ctl_verb_test(struct ctl *ctl);
int ctl_verb_validate(struct ctl *ctl);
int ctl_verb_wait(struct ctl *ctl);
int ctl_verb_watch(struct ctl *ctl);
int ctl_verb_workflows(struct ctl *ctl);

#endif
