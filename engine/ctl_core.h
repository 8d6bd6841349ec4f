/*
 * ctl_core.h: what all parts of sagactl share: the invocation, exit codes, and how it talks.
 *
 * stdout carries data only, and only through ctl->out; everything else is talk and goes to stderr
 * through ctl_say.
 */
#ifndef ENGINE_CTL_CORE_H
#define ENGINE_CTL_CORE_H

#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/json.h"

/* A contract: scripts rely on the numbers. */
#define CTL_EXITS(X)                                                                 \
    X(CTL_OK, 0, "ok; the run ended completed")                                      \
    X(CTL_ERROR, 1, "error")                                                         \
    X(CTL_USAGE, 2, "wrong usage, invalid file or input")                            \
    X(CTL_NOT_FOUND, 3, "not found")                                                 \
    X(CTL_PERMISSION, 4, "permission denied")                                        \
    X(CTL_COMPENSATED, 5, "the run ended compensated")                               \
    X(CTL_PARKED, 6, "the run is parked and needs a person")                         \
    X(CTL_TIMEOUT, 7, "the wait timed out")                                          \
    X(CTL_UNREACHABLE, 8, "the daemon is unreachable")                               \
    X(CTL_CONFLICT, 9, "conflict: id used with other input, decision already taken") \
    X(CTL_ABANDONED, 10, "the run ended abandoned")                                  \
    X(CTL_INTERRUPTED, 130, "interrupted by Ctrl-C")
enum ctl_exit {
#define X(id, number, help) id = number,
    CTL_EXITS(X)
#undef X
};

enum ctl_format {
    CTL_FORMAT_TABLE,
    CTL_FORMAT_WIDE,
    CTL_FORMAT_JSON,
    CTL_FORMAT_JSONL,
    CTL_FORMAT_NAME,
};

struct ctl_verb;
struct ctl_client;

#define CTL_ARGS_MAX 4096 /* more files than that are better named by their directory */

struct ctl {
    struct arena arena;   /* the whole process: the command line */
    struct arena scratch; /* the daemon's answers and what is read of them; verbs that go on for
                           * long reset it between turns */
    const struct ctl_verb *verb;
    const char **options; /* by enum ctl_opt; NULL: not given; "" for a flag that is */
    const char **args;    /* after the verb */
    unsigned args_count;
    enum ctl_format format;
    bool color;        /* of stdout */
    bool color_stderr; /* of stderr */
    bool terminal;     /* stdout is one that can be redrawn */
    bool utf8;         /* the locale's */
    struct buf out;    /* stdout; ctl_flush writes it */
    struct ctl_client *client;
};

/* The machine's clock: ages and waits only, nothing that is stored. */
struct wall ctl_now(void);

static inline bool ctl_format_is_json(const struct ctl *ctl)
{
    return ctl->format == CTL_FORMAT_JSON || ctl->format == CTL_FORMAT_JSONL;
}

/* One line (or several, with "\n" inside) to stderr after "sagactl: ". Control characters in the
 * text reach no terminal. */
void ctl_say(const struct ctl *ctl, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* The same without the prefix: help that follows an error. */
void ctl_hint(const struct ctl *ctl, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Says what is wrong with the command line and where its help is. Returns CTL_USAGE. */
int ctl_usage(const struct ctl *ctl, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Says the error. Returns the exit code for it. */
int ctl_fail(struct ctl *ctl, const struct err *err);

/* Writes ctl->out to stdout at once. A reader that went away ends the process as SIGPIPE does;
 * another failure is said and returned as CTL_ERROR. */
int ctl_flush(struct ctl *ctl);

/* Asks on the terminal, after what was printed so far; `question` has no mark. False at once where
 * nobody could answer. */
bool ctl_confirm(struct ctl *ctl, const char *question);

/* Arms SIGINT and SIGTERM: they end the process with 130 and 143, after writing `farewell` to
 * stderr (NULL: nothing) and giving the terminal its cursor back. The text is copied. */
void ctl_on_interrupt(const char *farewell);
/* A live picture is drawn: the cursor is hidden until then. */
void ctl_cursor_hide(struct ctl *ctl);
void ctl_cursor_show(struct ctl *ctl);

#endif
