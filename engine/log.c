#include "engine/log.h"

#include "engine/base/buf.h"
#include "engine/base/json.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

static enum log_level log_least = LOG_INFO;
static enum log_format log_format_used = LOG_HUMAN;
static void (*log_sink)(void *arg, enum log_level level, const char *line);
static void *log_sink_arg;

void log_setup(enum log_level least, enum log_format format)
{
    log_least = least;
    log_format_used = format;
}

void log_divert(void (*sink)(void *arg, enum log_level level, const char *line), void *arg)
{
    log_sink = sink;
    log_sink_arg = arg;
}

static const char *level_name(enum log_level level)
{
    switch (level) {
    case LOG_DEBUG: return "debug";
    case LOG_INFO: return "info";
    case LOG_WARN: return "warning";
    case LOG_ERROR: return "error";
    }
    return "";
}

static void line_format(enum log_level level, const char *text, struct buf *out)
{
    char at[40];
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t len = strftime(at, sizeof(at), "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(at + len, sizeof(at) - len, ".%03ldZ", now.tv_nsec / 1000000);
    switch (log_format_used) {
    case LOG_HUMAN:
        buf_printf(out, "%.12s ", at + 11);
        if (level != LOG_INFO)
            buf_printf(out, "%s: ", level_name(level));
        buf_add_z(out, text);
        break;
    case LOG_LOGFMT:
        buf_printf(out, "ts=%s level=%s msg=", at, level_name(level));
        json_write_string(str_z(text), out);
        break;
    case LOG_JSON:
        buf_printf(out, "{\"ts\":\"%s\",\"level\":\"%s\",\"msg\":", at, level_name(level));
        json_write_string(str_z(text), out);
        buf_add_char(out, '}');
        break;
    }
    buf_add_char(out, '\n');
}

void log_line(enum log_level level, const char *fmt, ...)
{
    struct buf text = {0}, line = {0};
    va_list args;
    if (level < log_least)
        return;
    va_start(args, fmt);
    buf_vprintf(&text, fmt, args);
    va_end(args);
    if (log_sink) {
        log_sink(log_sink_arg, level, text.data);
    } else {
        line_format(level, text.data, &line);
        /* One write, so that lines of several processes do not mix; a lost reader is no error. */
        ssize_t written = write(STDERR_FILENO, line.data, line.len);
        (void)written;
    }
    buf_free(&text);
    buf_free(&line);
}
