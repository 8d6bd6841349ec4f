/*
 * sagactl.c: the client of sagad: reads the command line, does one verb, ends with its exit code.
 */
#include "engine/ctl_client.h"
#include "engine/ctl_text.h"
#include "engine/ctl_verbs.h"
#include "engine/version.h"

#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <unistd.h>

static bool is_terminal(int fd)
{
    const char *term = getenv("TERM");
    return isatty(fd) && term && *term && strcmp(term, "dumb") != 0;
}

static bool color_wanted(const struct ctl *ctl, int fd)
{
    const char *when = ctl_option(ctl, OPT_COLOR), *no_color = getenv("NO_COLOR");
    if (when && strcmp(when, "auto") != 0)
        return strcmp(when, "always") == 0;
    return is_terminal(fd) && !(no_color && *no_color);
}

static int run(struct ctl *ctl, int argc, char **argv)
{
    bool help, version;
    int code = ctl_parse(ctl, argc, argv, &help, &version);
    if (code)
        return code;
    bool people = ctl->format == CTL_FORMAT_TABLE || ctl->format == CTL_FORMAT_WIDE;
    ctl->color = people && color_wanted(ctl, STDOUT_FILENO);
    ctl->color_stderr = color_wanted(ctl, STDERR_FILENO);
    ctl->terminal = people && is_terminal(STDOUT_FILENO);
    if (version) {
        buf_add_z(&ctl->out, "sagactl " SAGA_VERSION "\n");
        return CTL_OK;
    }
    if (help) {
        ctl_help(ctl, ctl->verb);
        return CTL_OK;
    }
    return ctl->verb->run(ctl);
}

int main(int argc, char **argv)
{
    struct ctl ctl = {0};
    setlocale(LC_CTYPE, "");
    ctl.utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    text_locale(ctl.utf8);
    ctl_on_interrupt(NULL);
    ctl.client = ctl_client_new(&ctl);
    int code = run(&ctl, argc, argv);
    int flushed = ctl_flush(&ctl);
    ctl_client_free(ctl.client);
    buf_free(&ctl.out);
    arena_free(&ctl.scratch);
    arena_free(&ctl.arena);
    return code ? code : flushed;
}
