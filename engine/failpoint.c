#include "engine/failpoint.h"

#include "engine/base/base.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool failpoint_armed;

static const char *failpoint_name;
static unsigned long failpoint_left; /* hits until it happens */
static int failpoint_signal;

static const char *const names[] = {
#define X(name, what) name,
    FAILPOINTS(X)
#undef X
};

static const char *name_find(const char *text, size_t len)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strlen(names[i]) == len && strncmp(names[i], text, len) == 0)
            return names[i];
    return NULL;
}

static int signal_of(const char *text)
{
    if (strcmp(text, "kill") == 0)
        return SIGKILL;
    if (strcmp(text, "abort") == 0)
        return SIGABRT;
    return strcmp(text, "stop") == 0 ? SIGSTOP : 0;
}

int failpoint_setup(struct err *err)
{
    const char *spec = getenv("SAGA_FAILPOINT");
    if (!spec || !*spec)
        return 0;
    size_t len = strcspn(spec, ":");
    const char *rest = spec[len] ? spec + len + 1 : "";
    char *end;
    failpoint_left = strtoul(rest, &end, 10);
    if (end == rest)
        failpoint_left = 1;
    else
        rest = *end == ':' ? end + 1 : "";
    failpoint_name = name_find(spec, len);
    failpoint_signal = signal_of(rest);
    if (!failpoint_name || !failpoint_signal || !failpoint_left)
        return err_set(err, ERR_INVALID,
                       "SAGA_FAILPOINT: \"%s\" is not NAME[:N]:kill|abort|stop with a known name",
                       spec);
    failpoint_armed = true;
    return 0;
}

void failpoint_hit(const char *name)
{
    /* A name that is not in the list could never be asked for. */
    ASSERT(name_find(name, strlen(name)));
    if (strcmp(name, failpoint_name) != 0 || --failpoint_left > 0)
        return;
    failpoint_armed = false;
    fprintf(stderr, "sagad: failpoint %s\n", name);
    fflush(stderr);
    raise(failpoint_signal);
}
