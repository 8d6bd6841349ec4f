#include "dsl/diag.h"

#include <stdio.h>
#include <stdlib.h>

#define NEAREST_WORD_MAX 64 /* longer words are no typing mistakes of ours */

void diags_init(struct diags *diags, const char *file, struct str source)
{
    *diags = (struct diags){.file = file, .source = source};
}

void diags_free(struct diags *diags)
{
    free(diags->list);
    arena_free(&diags->arena);
    *diags = (struct diags){0};
}

static struct str message_format(struct arena *arena, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    ASSERT(len >= 0);
    char *text = arena_alloc(arena, (size_t)len + 1);
    vsnprintf(text, (size_t)len + 1, fmt, args);
    for (int i = 0; i < len; i++) /* authors' names may hold anything; a message is one line */
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7F)
            text[i] = ' ';
    return (struct str){text, (size_t)len};
}

/* A node that aliases reach twice is checked twice; the author hears of it once. */
static struct diag *same_find(struct diags *diags, const struct diag *wanted)
{
    for (uint32_t i = 0; i < diags->count; i++) {
        struct diag *diag = &diags->list[i];
        if (diag->line == wanted->line && diag->column == wanted->column &&
            strcmp(diag->code, wanted->code) == 0 && str_eq(diag->message, wanted->message))
            return diag;
    }
    return NULL;
}

struct diag *diag_add(struct diags *diags, enum diag_severity severity, const char *code,
                      uint32_t line, uint32_t column, uint32_t span, const char *fmt, ...)
{
    struct diag diag = {.severity = severity, .line = line, .column = column};
    uint32_t *counter = severity == DIAG_ERROR ? &diags->errors : &diags->warnings;
    va_list args;
    ASSERT(strlen(code) == 4);
    if (diags_are_full(diags)) {
        ++*counter;
        diags->left_out++;
        return &diags->unseen;
    }
    memcpy(diag.code, code, 5);
    diag.span = MAX(span, 1u);
    va_start(args, fmt);
    diag.message = message_format(&diags->arena, fmt, args);
    va_end(args);
    struct diag *same = same_find(diags, &diag);
    if (same)
        return same;
    ++*counter;
    if (diags->count == diags->capacity) {
        /* All at once: pointers that diag_add returned stay valid until the sort. */
        diags->capacity = DIAGS_MAX;
        diags->list = xrealloc(diags->list, diags->capacity * sizeof(*diags->list));
    }
    diags->list[diags->count] = diag;
    return &diags->list[diags->count++];
}

void diag_help(struct diags *diags, struct diag *diag, const char *fmt, ...)
{
    va_list args;
    if (!diag_is_seen(diags, diag))
        return;
    va_start(args, fmt);
    diag->help = message_format(&diags->arena, fmt, args);
    va_end(args);
}

static bool has_error_at(const struct diags *diags, uint32_t line, uint32_t column)
{
    for (uint32_t i = 0; i < diags->count; i++)
        if (diags->list[i].severity == DIAG_ERROR && diags->list[i].line == line &&
            diags->list[i].column == column)
            return true;
    return false;
}

void diags_drop_beside_errors(struct diags *diags, const char *code)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < diags->count; i++) {
        const struct diag *diag = &diags->list[i];
        if (diag->severity == DIAG_WARNING && strcmp(diag->code, code) == 0 &&
            has_error_at(diags, diag->line, diag->column))
            diags->warnings--;
        else
            diags->list[kept++] = *diag;
    }
    diags->count = kept;
}

void diags_drop_at(struct diags *diags, const char *code, uint32_t line, uint32_t column)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < diags->count; i++) {
        const struct diag *diag = &diags->list[i];
        if (diag->severity == DIAG_WARNING && strcmp(diag->code, code) == 0 && diag->line == line &&
            diag->column == column)
            diags->warnings--;
        else
            diags->list[kept++] = *diag;
    }
    diags->count = kept;
}

static int diag_cmp(const void *a_ptr, const void *b_ptr)
{
    const struct diag *a = a_ptr, *b = b_ptr;
    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    if (a->column != b->column)
        return a->column < b->column ? -1 : 1;
    if (a->severity != b->severity)
        return a->severity < b->severity ? -1 : 1;
    int order = strcmp(a->code, b->code);
    return order ? order : str_cmp(a->message, b->message);
}

void diags_sort(struct diags *diags)
{
    if (diags->count)
        qsort(diags->list, diags->count, sizeof(*diags->list), diag_cmp);
}

static struct str source_line(struct str source, uint32_t line)
{
    const char *at = source.ptr, *end = source.ptr + source.len;
    for (uint32_t i = 1; i < line && at < end; i++) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        at = next ? next + 1 : end;
    }
    const char *stop = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    size_t len = (size_t)((stop ? stop : end) - at);
    if (len && at[len - 1] == '\r')
        len--;
    return (struct str){at, len};
}

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

/* Columns are code points of the file; a BOM at its start is none, and a tab is one. */
static struct str line_without_bom(struct str line, uint32_t number)
{
    if (number == 1 && str_starts(line, STR("\xEF\xBB\xBF")))
        return (struct str){line.ptr + 3, line.len - 3};
    return line;
}

#define SHOWN_BEFORE 70 /* code points of a long line shown before the underlined part */
#define SHOWN_MAX 120

struct shown { /* the part of a line that is printed */
    struct str text;
    uint32_t column; /* of its first code point */
    bool cut_left, cut_right;
};

static struct shown line_cut(struct str line, uint32_t column)
{
    struct shown shown = {.column = 1};
    uint32_t count = 0, first = 1;
    size_t start = 0, stop = line.len;
    for (size_t i = 0; i < line.len; i++)
        count += !is_continuation(line.ptr[i]);
    if (count > SHOWN_MAX && column > SHOWN_BEFORE)
        first = column - SHOWN_BEFORE;
    uint32_t at = 0;
    for (size_t i = 0; i < line.len; i++) {
        if (is_continuation(line.ptr[i]))
            continue;
        at++;
        if (at == first)
            start = i;
        if (at == first + SHOWN_MAX) {
            stop = i;
            shown.cut_right = true;
            break;
        }
    }
    shown.text = (struct str){line.ptr + start, stop - start};
    shown.column = first;
    shown.cut_left = first > 1;
    return shown;
}

static void shown_print(struct shown shown, struct buf *out)
{
    if (shown.cut_left)
        buf_add_z(out, "...");
    for (size_t i = 0; i < shown.text.len; i++) { /* no control character reaches a terminal */
        unsigned char c = (unsigned char)shown.text.ptr[i];
        buf_add_char(out, c < 0x20 || c == 0x7F ? ' ' : (char)c);
    }
    if (shown.cut_right)
        buf_add_z(out, "...");
}

static void excerpt_print(const struct diags *diags, const struct diag *diag, bool color,
                          struct buf *out)
{
    const char *blue = color ? "\033[1;34m" : "", *reset = color ? "\033[0m" : "";
    const char *mark = !color ? "" : diag->severity == DIAG_ERROR ? "\033[1;31m" : "\033[1;33m";
    struct str line = line_without_bom(source_line(diags->source, diag->line), diag->line);
    struct shown shown = line_cut(line, diag->column);
    uint32_t width = 0, before = diag->column - shown.column + (shown.cut_left ? 3 : 0);
    for (size_t i = 0; i < shown.text.len; i++)
        width += !is_continuation(shown.text.ptr[i]);
    width += shown.cut_left ? 3 : 0;
    uint32_t room = width > before ? width - before : 1;

    buf_printf(out, "%s%5u |%s ", blue, diag->line, reset);
    shown_print(shown, out);
    buf_printf(out, "\n%s      |%s %*s%s", blue, reset, (int)before, "", mark);
    for (uint32_t i = 0; i < MIN(diag->span, room); i++)
        buf_add_char(out, '^');
    buf_printf(out, "%s\n", reset);
}

static void diag_print(const struct diags *diags, const struct diag *diag, bool color,
                       struct buf *out)
{
    const char *bold = color ? "\033[1m" : "", *reset = color ? "\033[0m" : "";
    const char *paint = !color ? "" : diag->severity == DIAG_ERROR ? "\033[1;31m" : "\033[1;33m";
    const char *word = diag->severity == DIAG_ERROR ? "error" : "warning";
    buf_printf(out, "%s%s", bold, diags->file);
    if (diag->line)
        buf_printf(out, ":%u:%u", diag->line, diag->column);
    buf_printf(out, ":%s %s%s[%s]%s: " STR_FMT, reset, paint, word, diag->code, reset,
               STR_ARG(diag->message));
    if (diag->other_line)
        buf_printf(out, " (first at %u:%u)", diag->other_line, diag->other_column);
    buf_add_char(out, '\n');
    if (diag->line)
        excerpt_print(diags, diag, color, out);
    if (diag->help.ptr)
        buf_printf(out, "   = %shelp:%s " STR_FMT "\n", bold, reset, STR_ARG(diag->help));
}

void diags_print(const struct diags *diags, bool color, struct buf *out)
{
    for (uint32_t i = 0; i < diags->count; i++)
        diag_print(diags, &diags->list[i], color, out);
    if (diags->left_out)
        buf_printf(out, "%s: %u more not shown\n", diags->file, diags->left_out);
}

static struct json *place_json(struct arena *arena, uint32_t line, uint32_t column)
{
    struct json *place = json_object_new(arena, 2);
    json_object_add_z(place, "line", json_int(arena, line));
    json_object_add_z(place, "column", json_int(arena, column));
    return place;
}

const struct json *diags_json(const struct diags *diags, struct arena *arena)
{
    struct json *list = json_list_new(arena, diags->count);
    for (uint32_t i = 0; i < diags->count; i++) {
        const struct diag *diag = &diags->list[i];
        struct json *item = json_object_new(arena, 9);
        json_object_add_z(item, "file", json_string(arena, arena_str(arena, str_z(diags->file))));
        json_object_add_z(item, "line", json_int(arena, diag->line));
        json_object_add_z(item, "column", json_int(arena, diag->column));
        json_object_add_z(item, "span", json_int(arena, diag->span));
        json_object_add_z(item, "severity",
                          json_string_z(arena, diag->severity == DIAG_ERROR ? "error" : "warning"));
        json_object_add_z(item, "code", json_string(arena, arena_str(arena, str_z(diag->code))));
        json_object_add_z(item, "message", json_string(arena, arena_str(arena, diag->message)));
        json_object_add_z(item, "help",
                          diag->help.ptr ? json_string(arena, arena_str(arena, diag->help))
                                         : &json_null);
        json_object_add_z(item, "other",
                          diag->other_line ? place_json(arena, diag->other_line, diag->other_column)
                                           : &json_null);
        json_list_add(list, item);
    }
    return list;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

/* Optimal string alignment: a swap of neighbours is one mistake. Case counts as none. */
static unsigned edit_distance(struct str a, struct str b)
{
    unsigned rows[3][NEAREST_WORD_MAX + 1];
    unsigned *before = rows[0], *last = rows[1], *now = rows[2];
    for (size_t j = 0; j <= b.len; j++)
        last[j] = (unsigned)j;
    for (size_t i = 1; i <= a.len; i++) {
        now[0] = (unsigned)i;
        for (size_t j = 1; j <= b.len; j++) {
            unsigned differs = lower(a.ptr[i - 1]) != lower(b.ptr[j - 1]);
            now[j] = MIN(MIN(last[j] + 1, now[j - 1] + 1), last[j - 1] + differs);
            if (i > 1 && j > 1 && lower(a.ptr[i - 1]) == lower(b.ptr[j - 2]) &&
                lower(a.ptr[i - 2]) == lower(b.ptr[j - 1]))
                now[j] = MIN(now[j], before[j - 2] + 1);
        }
        unsigned *spare = before;
        before = last;
        last = now;
        now = spare;
    }
    return last[b.len];
}

const char *diag_nearest(struct str word, const char *const *candidates, size_t count)
{
    const char *best = NULL;
    unsigned best_distance = 0;
    if (!word.len || word.len > NEAREST_WORD_MAX)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        struct str candidate = str_z(candidates[i]);
        if (candidate.len > NEAREST_WORD_MAX)
            continue;
        unsigned distance = edit_distance(word, candidate);
        unsigned allowed = (unsigned)MAX(MAX(word.len, candidate.len) / 3, (size_t)1);
        if (distance > allowed || (word.len == 1 && distance))
            continue;
        if (!best || distance < best_distance) {
            best = candidates[i];
            best_distance = distance;
        }
    }
    return best;
}
