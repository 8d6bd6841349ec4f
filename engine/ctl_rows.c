#include "engine/ctl_rows.h"

#include "engine/ctl_json.h"
#include "engine/ctl_model.h"
#include "engine/ctl_text.h"

#include <stdlib.h>

static const struct json *value_find(const struct json *row, const char *members)
{
    while (*members) {
        size_t len = strcspn(members, "|");
        const struct json *value = json_get(row, (struct str){members, len});
        if (value && value->kind != JSON_NULL)
            return value;
        members += len + (members[len] == '|');
    }
    return NULL;
}

static struct str time_text(struct ctl *ctl, const struct json *value, bool age)
{
    struct wall at;
    if (value->kind != JSON_STRING || !wall_parse(value->text, &at))
        return model_value_text(value, &ctl->scratch);
    return age ? text_age(at, ctl_now(), &ctl->scratch) : text_time(at, &ctl->scratch);
}

static struct table_cell cell_of(struct ctl *ctl, const struct json *row,
                                 const struct rows_column *column)
{
    const struct json *value = value_find(row, column->members), *paused;
    struct table_cell cell = {STR(""), PAINT_NONE};
    if (!value)
        return cell;
    cell.text = value->kind == JSON_STRING ? value->text : model_value_text(value, &ctl->scratch);
    switch (column->kind) {
    case ROWS_TEXT: break;
    case ROWS_STATE:
        cell.paint = text_state_paint(cell.text);
        paused = json_get_z(row, "paused");
        if (paused && paused->boolean)
            cell.text = arena_printf(&ctl->scratch, STR_FMT ", paused", STR_ARG(cell.text));
        break;
    case ROWS_AGE:
    case ROWS_TIME: cell.text = time_text(ctl, value, column->kind == ROWS_AGE); break;
    case ROWS_ERROR:
        cell.text = model_error_text(value, &ctl->scratch);
        cell.paint = PAINT_DIM;
        break;
    case ROWS_BOOL: cell.text = value->boolean ? STR("yes") : STR("no"); break;
    case ROWS_COUNT:
        if (value->kind == JSON_LIST)
            cell.text = arena_printf(&ctl->scratch, "%u", value->count);
        break;
    }
    return cell;
}

/* Which columns are shown: those of the format that at least one row fills; the first always. */
static void columns_choose(struct ctl *ctl, const struct json *const *rows, size_t rows_count,
                           const struct rows_column *columns, size_t count, bool *shown)
{
    for (size_t i = 0; i < count; i++) {
        shown[i] = i == 0;
        if (columns[i].wide && ctl->format != CTL_FORMAT_WIDE)
            continue;
        for (size_t row = 0; row < rows_count && !shown[i]; row++)
            shown[i] = cell_of(ctl, rows[row], &columns[i]).text.len > 0;
    }
}

static void table_show(struct ctl *ctl, const struct json *const *rows, size_t rows_count,
                       const struct rows_column *columns, size_t count)
{
    struct table table = {0};
    bool shown[TABLE_COLUMNS_MAX];
    ASSERT(count <= TABLE_COLUMNS_MAX);
    columns_choose(ctl, rows, rows_count, columns, count, shown);
    for (size_t i = 0; i < count; i++)
        if (shown[i])
            table_column(&table, columns[i].title);
    for (size_t row = 0; row < rows_count; row++)
        for (size_t i = 0; i < count; i++)
            if (shown[i]) {
                struct table_cell cell = cell_of(ctl, rows[row], &columns[i]);
                table_add(&table, cell.text, cell.paint);
            }
    table_print(&table, ctl);
    table_free(&table);
}

int rows_print(struct ctl *ctl, struct str list, const char *id, const struct rows_column *columns,
               size_t count)
{
    const struct json **rows = NULL, *row;
    size_t rows_count = 0, capacity = 0;
    struct str item;
    struct err err;
    while ((item = ctl_json_next_item(&list)).ptr) {
        if (ctl->format == CTL_FORMAT_JSONL) {
            ctl_json_compact(item, &ctl->out);
            continue;
        }
        if (ctl_json_parse(item, &ctl->scratch, &row, &err) != 0) {
            free(rows);
            ctl_say(ctl, "a row of the daemon's answer cannot be read: %s", err.text);
            return CTL_ERROR;
        }
        if (ctl->format == CTL_FORMAT_NAME) {
            const struct json *name = value_find(row, id);
            if (name && name->kind == JSON_STRING)
                text_add(&ctl->out, name->text);
            buf_add_char(&ctl->out, '\n');
            continue;
        }
        if (rows_count == capacity) {
            capacity = capacity ? 2 * capacity : 64;
            rows = xrealloc(rows, capacity * sizeof(struct json *));
        }
        rows[rows_count++] = row;
    }
    if (rows_count)
        table_show(ctl, rows, rows_count, columns, count);
    free(rows);
    return CTL_OK;
}
