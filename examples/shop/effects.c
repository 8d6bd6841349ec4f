#include "examples/shop/effects.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* A map from texts to what is known of them: linear probing, never more than half full. */
struct known {
    struct str text; /* absent: an empty slot */
    struct effect *first, *newest;
    int64_t seen, applied;
};
struct map {
    struct known *slots;
    size_t size, used;
};

struct effects {
    int fd;
    struct arena arena; /* every effect and its texts */
    struct effect **list;
    size_t count, capacity;
    struct map keys, subjects;
    struct buf line;
};

static struct known *map_slot(const struct map *map, struct str text)
{
    size_t at = str_hash(text) & (map->size - 1);
    while (map->slots[at].text.ptr && !str_eq(map->slots[at].text, text))
        at = (at + 1) & (map->size - 1);
    return &map->slots[at];
}

static struct known *map_find(const struct map *map, struct str text)
{
    struct known *slot = map->size && text.ptr ? map_slot(map, text) : NULL;
    return slot && slot->text.ptr ? slot : NULL;
}

/* `arena` keeps the text. */
static struct known *map_put(struct map *map, struct str text, struct arena *arena)
{
    if (map->used * 2 >= map->size) {
        struct map grown = {.size = MAX(map->size * 2, (size_t)64), .used = map->used};
        grown.slots = xcalloc(grown.size, sizeof(*grown.slots));
        for (size_t i = 0; i < map->size; i++)
            if (map->slots[i].text.ptr)
                *map_slot(&grown, map->slots[i].text) = map->slots[i];
        free(map->slots);
        *map = grown;
    }
    struct known *slot = map_slot(map, text);
    if (!slot->text.ptr) {
        slot->text = arena_str(arena, text);
        map->used++;
    }
    return slot;
}

static void remember(struct effects *effects, const struct effect *given)
{
    struct arena *arena = &effects->arena;
    struct effect *effect = arena_new(arena, struct effect);
    *effect = *given;
    effect->kind = arena_str(arena, given->kind);
    effect->subject = arena_str(arena, given->subject);
    effect->key = arena_str(arena, given->key);
    effect->run = arena_str(arena, given->run);
    effect->step = arena_str(arena, given->step);
    effect->request_hash = arena_str(arena, given->request_hash);
    effect->earlier = NULL;
    struct err err;
    ASSERT(json_parse(json_text(given->answer, arena), arena, &effect->answer, &err) == 0);

    if (effects->count == effects->capacity) {
        effects->capacity = MAX(effects->capacity * 2, (size_t)64);
        effects->list = xrealloc(effects->list, effects->capacity * sizeof(struct effect *));
    }
    effects->list[effects->count++] = effect;
    map_put(&effects->subjects, effect->subject, arena)->newest = effect;
    if (!effect->key.ptr)
        return;
    struct known *known = map_put(&effects->keys, effect->key, arena);
    effect->earlier = known->newest;
    known->newest = effect;
    if (!known->first)
        known->first = effect;
    known->applied++;
}

static int line_load(struct effects *effects, struct str line, struct err *err)
{
    struct arena scratch = {0};
    const struct json *row;
    int64_t status = 0;
    int code = json_parse(line, &scratch, &row, err);
    if (!code) {
        struct str seen = json_get_text(row, "seen");
        struct effect effect = {
            .kind = json_get_text(row, "kind"),
            .subject = json_get_text(row, "subject"),
            .key = json_get_text(row, "key"),
            .run = json_get_text(row, "run"),
            .step = json_get_text(row, "step"),
            .request_hash = json_get_text(row, "request_hash"),
            .answer = json_get_z(row, "answer"),
        };
        if (seen.ptr)
            map_put(&effects->keys, seen, &effects->arena)->seen++;
        else if (effect.kind.ptr && effect.subject.ptr && effect.answer &&
                 wall_parse(json_get_text(row, "at"), &effect.at) &&
                 json_to_int(json_get_z(row, "status"), &status)) {
            effect.status = (int)status;
            remember(effects, &effect);
        } else {
            code = err_set(err, ERR_INVALID, "a line is no effect");
        }
    }
    arena_free(&scratch);
    return code;
}

static int file_load(struct effects *effects, struct err *err)
{
    struct buf text = {0};
    struct stat st;
    int code = 0;
    if (fstat(effects->fd, &st) != 0)
        return err_set(err, ERR_IO, "could not read the ledger: %s", strerror(errno));
    char *room = buf_room(&text, (size_t)st.st_size);
    if (pread(effects->fd, room, (size_t)st.st_size, 0) != st.st_size)
        code = err_set(err, ERR_IO, "could not read the ledger");
    size_t at = 0, lines = 0;
    while (!code && at < text.len) {
        const char *end = memchr(text.data + at, '\n', text.len - at);
        if (!end)
            break;
        lines++;
        code =
            line_load(effects, (struct str){text.data + at, (size_t)(end - text.data) - at}, err);
        if (code)
            err_wrap(err, "ledger line %zu", lines);
        at = (size_t)(end - text.data) + 1;
    }
    /* What was never finished was never answered. */
    if (!code && at < text.len && ftruncate(effects->fd, (off_t)at) != 0)
        code = err_set(err, ERR_IO, "could not cut the ledger: %s", strerror(errno));
    buf_free(&text);
    return code;
}

/* A new file is durable only when its directory is. */
static int directory_sync(const char *path, struct err *err)
{
    char *copy = xstrdup(path);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int failed = fd < 0 || fsync(fd) != 0;
    if (fd >= 0)
        close(fd);
    free(copy);
    if (failed)
        return err_set(err, ERR_IO, "could not sync the directory of \"%s\"", path);
    return 0;
}

int effects_open(const char *path, struct effects **out, struct err *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set(err, ERR_IO, "could not open ledger \"%s\": %s", path, strerror(errno));
    struct effects *effects = xcalloc(1, sizeof(*effects));
    effects->fd = fd;
    int code = file_load(effects, err);
    if (!code)
        code = directory_sync(path, err);
    if (code) {
        effects_close(effects);
        return code;
    }
    *out = effects;
    return 0;
}

void effects_close(struct effects *effects)
{
    close(effects->fd);
    arena_free(&effects->arena);
    free(effects->list);
    free(effects->keys.slots);
    free(effects->subjects.slots);
    buf_free(&effects->line);
    free(effects);
}

static void text_add(struct json *row, const char *name, struct str text, struct arena *arena)
{
    json_object_add_z(row, name, text.ptr ? json_string(arena, text) : &json_null);
}

int effects_add(struct effects *effects, const struct effect *effect, struct err *err)
{
    struct arena scratch = {0};
    struct json *row = json_object_new(&scratch, 9);
    text_add(row, "kind", effect->kind, &scratch);
    text_add(row, "subject", effect->subject, &scratch);
    text_add(row, "key", effect->key, &scratch);
    text_add(row, "run", effect->run, &scratch);
    text_add(row, "step", effect->step, &scratch);
    text_add(row, "request_hash", effect->request_hash, &scratch);
    text_add(row, "at", wall_format(effect->at, &scratch), &scratch);
    json_object_add_z(row, "status", json_int(&scratch, effect->status));
    json_object_add_z(row, "answer", effect->answer);
    buf_clear(&effects->line);
    json_write(row, &effects->line);
    buf_add_char(&effects->line, '\n');
    arena_free(&scratch);

    off_t before = lseek(effects->fd, 0, SEEK_END);
    ssize_t written = write(effects->fd, effects->line.data, effects->line.len);
    if (written != (ssize_t)effects->line.len || fdatasync(effects->fd) != 0) {
        int code = err_set(err, ERR_IO, "could not write the ledger: %s", strerror(errno));
        if (ftruncate(effects->fd, before) != 0)
            abort(); /* it may or may not be there: only a restart can tell */
        return code;
    }
    remember(effects, effect);
    return 0;
}

void effects_seen(struct effects *effects, struct str key)
{
    struct arena scratch = {0};
    struct json *row = json_object_new(&scratch, 1);
    text_add(row, "seen", key, &scratch);
    buf_clear(&effects->line);
    json_write(row, &effects->line);
    buf_add_char(&effects->line, '\n');
    arena_free(&scratch);
    if (write(effects->fd, effects->line.data, effects->line.len) != (ssize_t)effects->line.len)
        abort();
    map_put(&effects->keys, key, &effects->arena)->seen++;
}

size_t effects_count(const struct effects *effects)
{
    return effects->count;
}

const struct effect *effects_by_key(const struct effects *effects, struct str key)
{
    const struct known *known = map_find(&effects->keys, key);
    return known ? known->newest : NULL;
}

const struct effect *effects_by_subject(const struct effects *effects, struct str subject)
{
    const struct known *known = map_find(&effects->subjects, subject);
    return known ? known->newest : NULL;
}

const struct json *effects_json(const struct effects *effects, struct arena *arena)
{
    struct json *list = json_list_new(arena, (uint32_t)effects->count);
    for (size_t i = 0; i < effects->count; i++) {
        const struct effect *effect = effects->list[i];
        const struct known *known = map_find(&effects->keys, effect->key);
        if (known && known->first != effect)
            continue;
        struct json *row = json_object_new(arena, 9);
        text_add(row, "key", effect->key, arena);
        text_add(row, "what",
                 arena_printf(arena, STR_FMT " " STR_FMT, STR_ARG(effect->kind),
                              STR_ARG(effect->subject)),
                 arena);
        text_add(row, "run", effect->run, arena);
        text_add(row, "step", effect->step, arena);
        text_add(row, "at", wall_format(effect->at, arena), arena);
        text_add(row, "request_hash", effect->request_hash, arena);
        json_object_add_z(row, "times_seen", json_int(arena, known ? known->seen : 1));
        json_object_add_z(row, "effects_applied", json_int(arena, known ? known->applied : 1));
        json_object_add_z(row, "answer", effect->answer);
        json_list_add(list, row);
    }
    return list;
}
