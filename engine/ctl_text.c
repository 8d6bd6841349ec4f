#include "engine/ctl_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

static bool locale_utf8 = true;

void text_locale(bool utf8)
{
    locale_utf8 = utf8;
}

/* --- characters ------------------------------------------------------------------------------ */

struct glyph {
    struct str bytes;
    size_t width;
    bool harmful;
};

static bool is_harmful(uint32_t c)
{
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || (c >= 0x202A && c <= 0x202E) ||
           (c >= 0x2066 && c <= 0x2069) || c == 0x2028 || c == 0x2029;
}

static size_t width_of(uint32_t c)
{
    if (c < 0x7F || !locale_utf8)
        return 1;
    int width = wcwidth((wchar_t)c);
    return width < 0 ? 1 : (size_t)width;
}

/* The next character of the text, which is not empty. A byte that is no UTF-8 is a harmful
 * character of its own. */
static struct glyph glyph_next(struct str text)
{
    unsigned char lead = (unsigned char)text.ptr[0];
    size_t len = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    struct glyph glyph = {.bytes = {text.ptr, MIN(len, text.len)}};
    if (text.len < len || !str_is_utf8(glyph.bytes)) {
        glyph.bytes.len = 1;
        glyph.harmful = true;
        glyph.width = 1;
        return glyph;
    }
    uint32_t c = len == 1 ? lead : lead & (0x7Fu >> len);
    for (size_t i = 1; i < len; i++)
        c = c << 6 | ((unsigned char)text.ptr[i] & 0x3F);
    glyph.harmful = is_harmful(c);
    glyph.width = glyph.harmful ? 1 : width_of(c);
    return glyph;
}

static struct str str_after(struct str text, size_t bytes)
{
    return (struct str){text.ptr + bytes, text.len - bytes};
}

static void glyph_add(struct buf *out, struct glyph glyph)
{
    if (glyph.harmful)
        buf_add_z(out, locale_utf8 ? "\xEF\xBF\xBD" : "?");
    else
        buf_add_str(out, glyph.bytes);
}

size_t text_width(struct str text)
{
    size_t width = 0;
    while (text.len) {
        struct glyph glyph = glyph_next(text);
        width += glyph.width;
        text = str_after(text, glyph.bytes.len);
    }
    return width;
}

void text_add(struct buf *out, struct str text)
{
    while (text.len) {
        struct glyph glyph = glyph_next(text);
        glyph_add(out, glyph);
        text = str_after(text, glyph.bytes.len);
    }
}

void text_add_lines(struct buf *out, struct str text)
{
    while (text.len) {
        struct glyph glyph = glyph_next(text);
        if (text.ptr[0] == '\n')
            buf_add_char(out, '\n');
        else
            glyph_add(out, glyph);
        text = str_after(text, glyph.bytes.len);
    }
}

size_t text_add_cut(struct buf *out, struct str text, size_t columns)
{
    const char *ellipsis = locale_utf8 ? "\xE2\x80\xA6" : "...";
    size_t mark = locale_utf8 ? 1 : 3, width = 0;
    if (text_width(text) <= columns) {
        text_add(out, text);
        return text_width(text);
    }
    if (columns < mark)
        return 0;
    while (text.len) {
        struct glyph glyph = glyph_next(text);
        if (width + glyph.width + mark > columns)
            break;
        glyph_add(out, glyph);
        width += glyph.width;
        text = str_after(text, glyph.bytes.len);
    }
    buf_add_z(out, ellipsis);
    return width + mark;
}

void text_add_spaces(struct buf *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        buf_add_char(out, ' ');
}

/* --- times ----------------------------------------------------------------------------------- */

struct str text_duration(int64_t us, struct arena *arena)
{
    us = MAX(us, (int64_t)0);
    if (us < SECOND_US)
        return arena_printf(arena, "%dms", (int)(us / MS_US));
    if (us < MINUTE_US)
        return arena_printf(arena, "%d.%ds", (int)(us / SECOND_US),
                            (int)(us % SECOND_US / (100 * MS_US)));
    if (us < HOUR_US)
        return arena_printf(arena, "%dm %02ds", (int)(us / MINUTE_US),
                            (int)(us % MINUTE_US / SECOND_US));
    if (us < DAY_US)
        return arena_printf(arena, "%dh %02dm", (int)(us / HOUR_US),
                            (int)(us % HOUR_US / MINUTE_US));
    return arena_printf(arena, "%lldd %02dh", (long long)(us / DAY_US),
                        (int)(us % DAY_US / HOUR_US));
}

struct str text_age(struct wall t, struct wall now, struct arena *arena)
{
    int64_t us = MAX(now.us - t.us, (int64_t)0);
    if (!wall_is_set(t))
        return STR("");
    if (us < 2 * MINUTE_US)
        return arena_printf(arena, "%ds", (int)(us / SECOND_US));
    if (us < 2 * HOUR_US)
        return arena_printf(arena, "%dm", (int)(us / MINUTE_US));
    if (us < 2 * DAY_US)
        return arena_printf(arena, "%dh", (int)(us / HOUR_US));
    return arena_printf(arena, "%lldd", (long long)(us / DAY_US));
}

struct str text_time(struct wall t, struct arena *arena)
{
    if (!wall_is_set(t))
        return STR("");
    return wall_format((struct wall){t.us - t.us % SECOND_US}, arena);
}

struct str text_time_ms(struct wall t, struct arena *arena)
{
    struct str seconds = text_time(t, arena);
    if (!seconds.len)
        return seconds;
    return arena_printf(arena, "%.*s.%03dZ", (int)seconds.len - 1, seconds.ptr,
                        (int)(t.us % SECOND_US / MS_US));
}

struct str text_count(int64_t count, const char *noun, struct arena *arena)
{
    return arena_printf(arena, "%lld %s%s", (long long)count, noun, count == 1 ? "" : "s");
}

/* --- the terminal ---------------------------------------------------------------------------- */

static size_t size_from(const char *variable, size_t fallback)
{
    const char *text = getenv(variable);
    int value = text ? atoi(text) : 0;
    return value > 0 ? (size_t)value : fallback;
}

size_t text_columns(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
        return size.ws_col;
    return size_from("COLUMNS", 80);
}

size_t text_rows(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row)
        return size.ws_row;
    return size_from("LINES", 24);
}

void text_paint(struct buf *out, bool color, enum paint paint)
{
    static const char *const codes[] = {
        [PAINT_NONE] = "",         [PAINT_BOLD] = "\033[1m",     [PAINT_DIM] = "\033[2m",
        [PAINT_RED] = "\033[31m",  [PAINT_GREEN] = "\033[32m",   [PAINT_YELLOW] = "\033[33m",
        [PAINT_BLUE] = "\033[34m", [PAINT_MAGENTA] = "\033[35m",
    };
    if (color)
        buf_add_z(out, codes[paint]);
}

void text_unpaint(struct buf *out, bool color, enum paint paint)
{
    if (color && paint != PAINT_NONE)
        buf_add_z(out, "\033[0m");
}

void text_add_painted(struct buf *out, bool color, enum paint paint, struct str text)
{
    text_paint(out, color, paint);
    text_add(out, text);
    text_unpaint(out, color, paint);
}

enum paint text_state_paint(struct str state)
{
    static const struct {
        const char *state;
        enum paint paint;
    } paints[] = {
        {"completed", PAINT_GREEN},    {"applied", PAINT_GREEN},   {"parked", PAINT_RED},
        {"refused", PAINT_RED},        {"unknown", PAINT_MAGENTA}, {"compensating", PAINT_YELLOW},
        {"compensated", PAINT_YELLOW}, {"retrying", PAINT_YELLOW}, {"abandoned", PAINT_MAGENTA},
        {"running", PAINT_BLUE},       {"claimed", PAINT_BLUE},    {"waiting", PAINT_BLUE},
        {"queued", PAINT_DIM},         {"pending", PAINT_DIM},     {"skipped", PAINT_DIM},
        {"withdrawn", PAINT_DIM},
    };
    for (size_t i = 0; i < ARRAY_LEN(paints); i++)
        if (str_eq_z(state, paints[i].state))
            return paints[i].paint;
    return PAINT_NONE;
}

/* --- tables ---------------------------------------------------------------------------------- */

void table_column(struct table *table, const char *title)
{
    ASSERT(table->columns < TABLE_COLUMNS_MAX && !table->count);
    table->titles[table->columns++] = title;
}

void table_add(struct table *table, struct str text, enum paint paint)
{
    if (table->count == table->capacity) {
        table->capacity = table->capacity ? 2 * table->capacity : 64;
        table->cells = xrealloc(table->cells, table->capacity * sizeof(*table->cells));
    }
    table->cells[table->count++] = (struct table_cell){text, paint};
}

#define COLUMN_SHOWN_MIN 4 /* fewer characters of a longer column show nothing */

static void row_print(const struct table *table, const size_t *widths, const struct table_cell *row,
                      struct ctl *ctl)
{
    size_t room = ctl->terminal ? text_columns() : SIZE_MAX, used = table->indent;
    text_add_spaces(&ctl->out, table->indent);
    for (unsigned i = 0; i < table->columns && used < room; i++) {
        text_paint(&ctl->out, ctl->color, row[i].paint);
        size_t width = text_add_cut(&ctl->out, row[i].text, room - used);
        text_unpaint(&ctl->out, ctl->color, row[i].paint);
        used += width;
        bool more = false;
        for (unsigned j = i + 1; j < table->columns; j++)
            more = more || row[j].text.len;
        if (!more)
            break;
        size_t gap = MIN(widths[i] - MIN(width, widths[i]) + 2, room - used);
        text_add_spaces(&ctl->out, gap);
        used += gap;
    }
    buf_add_char(&ctl->out, '\n');
}

/* A narrow terminal ends the lines; that something is missing must not have to be guessed. */
static void left_out_print(const struct table *table, const size_t *widths, struct ctl *ctl)
{
    size_t at = table->indent;
    bool any = false;
    for (unsigned i = 0; i < table->columns && ctl->terminal; i++) {
        bool shown = at + MIN(widths[i], (size_t)COLUMN_SHOWN_MIN) <= text_columns();
        at += widths[i] + 2;
        if (shown || !*table->titles[i])
            continue;
        buf_printf(&ctl->out, "%s%s", any ? ", " : "columns left out: ", table->titles[i]);
        any = true;
    }
    if (any)
        buf_add_z(&ctl->out, "; -o json or a wider terminal shows them\n");
}

void table_print(struct table *table, struct ctl *ctl)
{
    size_t widths[TABLE_COLUMNS_MAX] = {0};
    struct table_cell titles[TABLE_COLUMNS_MAX];
    bool titled = false;
    for (unsigned i = 0; i < table->columns; i++) {
        titles[i] = (struct table_cell){str_z(table->titles[i]), PAINT_DIM};
        widths[i] = text_width(titles[i].text);
        titled = titled || widths[i];
    }
    for (size_t i = 0; i < table->count; i++) {
        size_t width = text_width(table->cells[i].text);
        widths[i % table->columns] = MAX(widths[i % table->columns], width);
    }
    if (titled)
        row_print(table, widths, titles, ctl);
    for (size_t i = 0; i < table->count; i += table->columns)
        row_print(table, widths, table->cells + i, ctl);
    left_out_print(table, widths, ctl);
}

void table_free(struct table *table)
{
    free(table->cells);
    *table = (struct table){0};
}
