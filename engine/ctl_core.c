#include "engine/ctl_core.h"

#include "engine/ctl_client.h"
#include "engine/ctl_text.h"
#include "engine/ctl_verbs.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct wall ctl_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (struct wall){(int64_t)now.tv_sec * SECOND_US + now.tv_nsec / 1000};
}

/* --- talk ----------------------------------------------------------------------------------- */

static void talk(const char *prefix, const char *fmt, va_list args)
{
    struct buf text = {0}, line = {0};
    buf_vprintf(&text, fmt, args);
    buf_add_z(&line, prefix);
    text_add_lines(&line, buf_str(&text));
    buf_add_char(&line, '\n');
    fwrite(line.data, 1, line.len, stderr);
    buf_free(&text);
    buf_free(&line);
}

void ctl_say(const struct ctl *ctl, const char *fmt, ...)
{
    va_list args;
    (void)ctl;
    va_start(args, fmt);
    talk("sagactl: ", fmt, args);
    va_end(args);
}

void ctl_hint(const struct ctl *ctl, const char *fmt, ...)
{
    va_list args;
    (void)ctl;
    va_start(args, fmt);
    talk("", fmt, args);
    va_end(args);
}

int ctl_usage(const struct ctl *ctl, const char *fmt, ...)
{
    struct buf text = {0};
    va_list args;
    va_start(args, fmt);
    buf_vprintf(&text, fmt, args);
    va_end(args);
    if (ctl->verb)
        ctl_say(ctl, STR_FMT "; see sagactl %s --help", STR_ARG(buf_str(&text)), ctl->verb->name);
    else
        ctl_say(ctl, STR_FMT "; see sagactl --help", STR_ARG(buf_str(&text)));
    buf_free(&text);
    return CTL_USAGE;
}

static int exit_of(enum err_code code)
{
    switch (code) {
    case ERR_NONE: return CTL_OK;
    case ERR_INVALID: return CTL_USAGE;
    case ERR_NOT_FOUND: return CTL_NOT_FOUND;
    case ERR_CONFLICT: return CTL_CONFLICT;
    case ERR_PERMISSION: return CTL_PERMISSION;
    case ERR_UNAVAILABLE:
    case ERR_TIMEOUT: return CTL_UNREACHABLE;
    case ERR_LIMIT:
    case ERR_DATABASE:
    case ERR_IO:
    case ERR_INTERNAL:
    case ERR_COUNT: break;
    }
    return CTL_ERROR;
}

int ctl_fail(struct ctl *ctl, const struct err *err)
{
    ctl_say(ctl, "%s", err->text);
    if (err->code == ERR_UNAVAILABLE)
        ctl_unreachable_hint(ctl);
    return exit_of(err->code);
}

/* --- stdout --------------------------------------------------------------------------------- */

bool ctl_confirm(struct ctl *ctl, const char *question)
{
    char answer[16] = "";
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO) || ctl_flush(ctl) != CTL_OK)
        return false;
    fprintf(stderr, "%s? [y/N] ", question);
    fflush(stderr);
    return fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

int ctl_flush(struct ctl *ctl)
{
    size_t done = 0;
    while (done < ctl->out.len) {
        ssize_t wrote = write(STDOUT_FILENO, ctl->out.data + done, ctl->out.len - done);
        if (wrote >= 0) {
            done += (size_t)wrote;
        } else if (errno == EPIPE) {
            /* Only where SIGPIPE is ignored; then the same end is made by hand. */
            signal(SIGPIPE, SIG_DFL);
            raise(SIGPIPE);
        } else if (errno != EINTR) {
            ctl_say(ctl, "could not write to stdout: %s", strerror(errno));
            buf_clear(&ctl->out);
            return CTL_ERROR;
        }
    }
    buf_clear(&ctl->out);
    return CTL_OK;
}

/* --- interruption ---------------------------------------------------------------------------- */

#define CURSOR_HIDE "\033[?25l"
#define CURSOR_SHOW "\033[?25h"

static char farewell_text[512];
static volatile sig_atomic_t farewell_len, cursor_hidden;

static void on_interrupt(int number)
{
    ssize_t ignored = 0;
    if (cursor_hidden)
        ignored += write(STDOUT_FILENO, CURSOR_SHOW "\n", sizeof(CURSOR_SHOW));
    if (farewell_len)
        ignored += write(STDERR_FILENO, farewell_text, (size_t)farewell_len);
    (void)ignored;
    _exit(128 + number);
}

void ctl_on_interrupt(const char *farewell)
{
    struct sigaction action = {.sa_handler = on_interrupt}, before;
    farewell_len = 0;
    if (farewell) {
        int len = snprintf(farewell_text, sizeof(farewell_text), "%s\n", farewell);
        farewell_len = MIN(len, (int)sizeof(farewell_text) - 1);
    }
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    /* Ignored from the start means a shell's background job: Ctrl-C is not meant for it. */
    if (sigaction(SIGINT, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGINT, &action, NULL);
}

void ctl_cursor_hide(struct ctl *ctl)
{
    buf_add_z(&ctl->out, CURSOR_HIDE);
    cursor_hidden = 1;
}

void ctl_cursor_show(struct ctl *ctl)
{
    buf_add_z(&ctl->out, CURSOR_SHOW);
    cursor_hidden = 0;
}
