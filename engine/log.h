/*
 * log.h: one line an event, to stderr. Only floors 6 to 8 log; nothing is logged twice.
 */
#ifndef ENGINE_LOG_H
#define ENGINE_LOG_H

#include "engine/base/str.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_HUMAN, LOG_LOGFMT, LOG_JSON };

void log_setup(enum log_level least, enum log_format format);
/* Tests and the simulator take the lines instead; NULL restores stderr. */
void log_divert(void (*sink)(void *arg, enum log_level level, const char *line), void *arg);

void log_line(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_warn(...) log_line(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)

#endif
