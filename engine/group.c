#include "engine/group.h"

#include <stdlib.h>

static const struct plan_step *plan_step_of(const struct run *run, const struct instance *instance)
{
    return &run->plan->steps[instance->step];
}

/* --- keys --------------------------------------------------------------------------------- */

bool keys_index(const struct str *keys, uint32_t count, struct arena *arena, uint32_t **table,
                uint32_t *mask, uint32_t *first, uint32_t *second)
{
    uint32_t size = 4;
    while (size < count * 2)
        size *= 2;
    *table = arena_array(arena, uint32_t, size);
    *mask = size - 1;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = (uint32_t)str_hash(keys[i]) & *mask;
        for (; (*table)[at]; at = (at + 1) & *mask)
            if (str_eq(keys[(*table)[at] - 1], keys[i])) {
                *first = (*table)[at] - 1;
                *second = i;
                return false;
            }
        (*table)[at] = i + 1;
    }
    return true;
}

struct str group_key(const struct group *group, uint32_t place)
{
    ASSERT(place < group->count);
    return (struct str){group->text.ptr + group->items[place].key_at, group->items[place].key_len};
}

struct str group_value(const struct group *group, uint32_t place)
{
    ASSERT(place < group->count);
    return (struct str){group->text.ptr + group->items[place].value_at,
                        group->items[place].value_len};
}

bool group_place(const struct group *group, struct str key, uint32_t *place)
{
    uint32_t at = (uint32_t)str_hash(key) & group->table_mask;
    for (; group->table[at]; at = (at + 1) & group->table_mask)
        if (str_eq(group_key(group, group->table[at] - 1), key)) {
            *place = group->table[at] - 1;
            return true;
        }
    return false;
}

/* --- from the text of the items ------------------------------------------------------------- */

static bool item_read(struct str text, struct str pair, struct group_item *item, struct str *key)
{
    struct str value, said, end;
    size_t at = 0;
    if (!json_list_walk(pair, &at, key) || !json_list_walk(pair, &at, &value))
        return false;
    if (json_list_walk(pair, &at, &said) && (said.ptr[0] != '"' || json_list_walk(pair, &at, &end)))
        return false;
    if (key->len < 3 || key->len > ITEM_KEY_BYTES_MAX + 2u || key->ptr[0] != '"')
        return false;
    *key = (struct str){key->ptr + 1, key->len - 2}; /* nothing in a key is ever escaped */
    *item = (struct group_item){.key_at = (uint32_t)(key->ptr - text.ptr),
                                .key_len = (uint8_t)key->len,
                                .value_at = (uint32_t)(value.ptr - text.ptr),
                                .value_len = (uint32_t)value.len};
    return true;
}

static uint32_t pairs_count(struct str text)
{
    struct str pair;
    uint32_t count = 0;
    for (size_t at = 0; json_list_walk(text, &at, &pair);)
        count++;
    return count;
}

/* Reads where the items stand and what they are called: the part of a group that can fail. */
static struct group *group_read(struct str text, struct arena *arena)
{
    struct str pair;
    uint32_t count = pairs_count(text), place = 0, first, second;
    if (count > PLAN_ITEMS_MAX || text.len > UINT32_MAX)
        return NULL;
    struct group_item *items = arena_array(arena, struct group_item, count);
    struct str *keys = xcalloc(count + 1, sizeof(*keys));
    bool sound = true;
    for (size_t at = 0; sound && json_list_walk(text, &at, &pair); place++)
        sound = item_read(text, pair, &items[place], &keys[place]);
    struct group *group = arena_new(arena, struct group);
    sound =
        sound && keys_index(keys, count, arena, &group->table, &group->table_mask, &first, &second);
    free(keys);
    group->text = text;
    group->count = count;
    group->items = items;
    return sound ? group : NULL;
}

bool group_text_check(struct str text)
{
    struct arena scratch = {0};
    const struct json *value;
    struct err err;
    bool sound = json_parse(text, &scratch, &value, &err) == 0 && value->kind == JSON_LIST &&
                 group_read(text, &scratch);
    arena_free(&scratch);
    return sound;
}

bool group_open(struct run *run, struct instance *own)
{
    struct arena *arena = &run->run_arena;
    struct group *group = group_read(own->execute.items, arena);
    if (!group)
        return false;
    uint32_t count = group->count;
    group->instances = arena_array(arena, struct instance *, count);
    group->standings[STANDING_PENDING] = count;
    group->undos[UNDO_NOTHING] = count;
    own->group = group;
    return true;
}

struct instance *group_instance(struct run *run, struct instance *own, uint32_t place)
{
    struct group *group = own->group;
    ASSERT(place < group->count);
    if (group->instances[place])
        return group->instances[place];
    struct instance *instance = arena_new(&run->run_arena, struct instance);
    instance->step = own->step;
    instance->place = place;
    instance->item = group_key(group, place);
    instance->execute.state = STEP_PENDING;
    instance->compensate.state = STEP_PENDING;
    instance->standing = STANDING_PENDING; /* as it was counted by group_open */
    instance->undo = UNDO_NOTHING;
    group->instances[place] = instance;
    return instance;
}

/* --- counting --------------------------------------------------------------------------------- */

static bool place_is_pending(const struct group *group, uint32_t place)
{
    return !group->instances[place] || group->instances[place]->standing == STANDING_PENDING;
}

static bool is_applied(const struct instance *instance)
{
    return instance->execute.state == STEP_APPLIED;
}

static void group_note(struct group *group, struct instance *instance, enum standing standing,
                       enum undo_status undo)
{
    group->standings[instance->standing]--;
    group->standings[standing]++;
    group->undos[instance->undo]--;
    group->undos[undo]++;
    if (undo == UNDO_DUE)
        group->due_from = MIN(group->due_from, instance->undo_place);
    if (undo == UNDO_ASK)
        group->ask_from = MIN(group->ask_from, instance->undo_place);
}

void instance_note(struct run *run, struct instance *instance)
{
    const struct plan_step *step = plan_step_of(run, instance);
    enum standing standing = standing_of(step, &instance->execute);
    enum undo_status undo = undo_of(step, instance).status;
    struct group *group = instance->item.len ? run->instances[instance->step].group : NULL;
    if (group) {
        group_note(group, instance, standing, undo);
        group->applied += is_applied(instance) - instance->counted_applied;
        instance->counted_applied = is_applied(instance);
        group->order_is_old |= instance->execute.claim_no != instance->counted_claim;
        instance->counted_claim = instance->execute.claim_no;
    }
    instance->standing = (uint8_t)standing;
    instance->undo = (uint8_t)undo;
    while (group && group->next < group->count && !place_is_pending(group, group->next))
        group->next++;
}

/* --- the way back ----------------------------------------------------------------------------- */

static int by_claim_backward(const void *a, const void *b)
{
    const struct instance *const *x = a, *const *y = b;
    uint32_t left = (*x)->execute.claim_no, right = (*y)->execute.claim_no;
    return left < right ? 1 : left > right ? -1 : 0;
}

static void order_make(struct run *run, struct group *group)
{
    if (!group->order)
        group->order = arena_array(&run->run_arena, struct instance *, group->count);
    group->order_count = 0;
    for (uint32_t i = 0; i < group->count; i++)
        if (group->instances[i] && group->instances[i]->execute.claim_no)
            group->order[group->order_count++] = group->instances[i];
    qsort(group->order, group->order_count, sizeof(struct instance *), by_claim_backward);
    for (uint32_t i = 0; i < group->order_count; i++)
        group->order[i]->undo_place = i;
    group->due_from = group->ask_from = 0;
    group->order_is_old = false;
}

struct instance *group_next_undo(struct run *run, struct group *group, enum undo_status status)
{
    ASSERT(status == UNDO_DUE || status == UNDO_ASK);
    if (!group->undos[status])
        return NULL;
    if (group->order_is_old)
        order_make(run, group);
    uint32_t *from = status == UNDO_DUE ? &group->due_from : &group->ask_from;
    while (*from < group->order_count && group->order[*from]->undo != status)
        (*from)++;
    return *from < group->order_count ? group->order[*from] : NULL;
}

bool group_is_over(const struct group *group)
{
    uint32_t over = 0;
    for (unsigned status = 0; status < UNDO_COUNT; status++)
        over += undo_is_over(status) ? group->undos[status] : 0;
    return over == group->count;
}

struct instance *group_find(const struct group *group, enum standing standing)
{
    for (uint32_t i = 0; i < group->count && group->standings[standing]; i++)
        if (group->instances[i] && group->instances[i]->standing == standing)
            return group->instances[i];
    return NULL;
}

/* --- invariants ---------------------------------------------------------------------------------
 */

static const char *item_check(const struct run *run, const struct group *group, uint32_t place)
{
    const struct instance *instance = group->instances[place];
    const struct plan_step *step = plan_step_of(run, instance);
    uint32_t found;
    if (instance->place != place || !str_eq(instance->item, group_key(group, place)) ||
        !group_place(group, instance->item, &found) || found != place)
        return "an item of a loop that is not at its place";
    if (instance->standing != standing_of(step, &instance->execute) ||
        instance->undo != undo_of(step, instance).status)
        return "an item of a loop that was not counted anew";
    if (instance->standing != STANDING_PENDING && !instance->execute.claim_no &&
        undo_of(step, instance).status == UNDO_DUE)
        return "an item of a loop to be undone that was never claimed";
    return NULL;
}

const char *group_check(const struct run *run, const struct instance *own)
{
    const struct group *group = own->group;
    uint32_t standings[STANDING_COUNT] = {0}, undos[UNDO_COUNT] = {0}, applied = 0;
    bool pending = false;
    for (uint32_t i = 0; i < group->count; i++) {
        const struct instance *instance = group->instances[i];
        const char *broken = instance ? item_check(run, group, i) : NULL;
        if (broken)
            return broken;
        standings[instance ? instance->standing : STANDING_PENDING]++;
        undos[instance ? instance->undo : UNDO_NOTHING]++;
        applied += instance && is_applied(instance);
        if (place_is_pending(group, i) && !pending && i != group->next)
            return "the next item of a loop is not its first pending one";
        pending |= place_is_pending(group, i);
    }
    if (!pending && group->next != group->count)
        return "a loop whose items all began has a next one";
    if (memcmp(standings, group->standings, sizeof(standings)) ||
        memcmp(undos, group->undos, sizeof(undos)) || applied != group->applied)
        return "the counters of a loop do not add up";
    if (own->execute.state == STEP_APPLIED && !own->execute.by_hand &&
        run->now.direction == DIRECTION_EXECUTE && standings[STANDING_PENDING])
        return "a loop is applied before all its items began";
    if (run->now.direction == DIRECTION_EXECUTE &&
        standings[STANDING_MOVING] > plan_step_of(run, own)->max_parallel)
        return "more items of a loop in motion than max_parallel";
    return NULL;
}
