/*
 * ctl_text.h: text for people: columns, cutting, times, tables.
 *
 * Whatever came from outside (ids, messages of services, payloads) is made harmless on its way
 * into a line: control characters and direction overrides become U+FFFD or `?`, so that no data
 * can move the cursor, forge a line or reorder what is read. Widths are in terminal columns.
 */
#ifndef ENGINE_CTL_TEXT_H
#define ENGINE_CTL_TEXT_H

#include "engine/ctl_core.h"

/* True until told otherwise: `?` instead of U+FFFD, `...` instead of the ellipsis. */
void text_locale(bool utf8);

size_t text_width(struct str text);
/* One line: every control character is replaced, "\n" too. */
void text_add(struct buf *out, struct str text);
/* The same, but "\n" stays. */
void text_add_lines(struct buf *out, struct str text);
/* At most `columns` wide, the end cut with an ellipsis. Returns the width. */
size_t text_add_cut(struct buf *out, struct str text, size_t columns);
void text_add_spaces(struct buf *out, size_t count);

/* "12ms", "3.2s", "1m 05s", "2h 03m", "3d 04h". Never negative. */
struct str text_duration(int64_t duration_us, struct arena *arena);
/* How long ago, in one unit: "3s", "5m", "2h", "9d"; "" if `t` is not set. */
struct str text_age(struct wall t, struct wall now, struct arena *arena);
/* "2026-10-25T02:30:00Z", without fractions; "" if not set. */
struct str text_time(struct wall t, struct arena *arena);
/* The same with milliseconds: where the order of things is read. */
struct str text_time_ms(struct wall t, struct arena *arena);
/* "1 step", "2 steps" */
struct str text_count(int64_t count, const char *noun, struct arena *arena);

/* Columns of the terminal on stdout, 80 if unknown; rows likewise, 24. */
size_t text_columns(void);
size_t text_rows(void);

enum paint {
    PAINT_NONE,
    PAINT_BOLD,
    PAINT_DIM,
    PAINT_RED,
    PAINT_GREEN,
    PAINT_YELLOW,
    PAINT_BLUE,
    PAINT_MAGENTA,
};
/* Both add nothing where `color` is false. */
void text_paint(struct buf *out, bool color, enum paint paint);
void text_unpaint(struct buf *out, bool color, enum paint paint);
void text_add_painted(struct buf *out, bool color, enum paint paint, struct str text);
/* How a run's or a step's state looks. */
enum paint text_state_paint(struct str state);

/* A table: set the titles, add cells row by row, print. The last column is never padded. */
#define TABLE_COLUMNS_MAX 16
struct table_cell {
    struct str text;
    enum paint paint;
};
struct table {
    unsigned columns;
    const char *titles[TABLE_COLUMNS_MAX];
    struct table_cell *cells; /* heap */
    size_t count, capacity;
    size_t indent;
};
void table_column(struct table *table, const char *title);
void table_add(struct table *table, struct str text, enum paint paint);
/* Adds the rows to ctl->out; on a terminal each line is cut to its width. */
void table_print(struct table *table, struct ctl *ctl);
void table_free(struct table *table);

#endif
