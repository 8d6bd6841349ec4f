/*
 * group.h: the items of a for_each, as a run keeps them in memory.
 *
 * A group begins when the step's own record with its `items` is applied, and is kept by run_apply
 * alone. Deciding never looks through all items of a group: it reads counters, and takes the next
 * item from two places, `next` on the way forward and the undo order on the way back. An item that
 * nothing was done about is no instance yet: it costs its text, where that stands, and a pointer.
 */
#ifndef ENGINE_GROUP_H
#define ENGINE_GROUP_H

#include "compensations/undo.h"
#include "engine/standing.h"

#define ITEM_KEY_BYTES_MAX 40 /* [A-Za-z0-9._-]; longer ones become 32 hex digits */

struct group_item { /* where it stands in the text of the items */
    uint32_t key_at, value_at, value_len;
    uint8_t key_len;
};

struct group {
    struct str text; /* of the own side's items */
    uint32_t count;
    const struct group_item *items;
    struct instance **instances; /* by place; NULL: nothing was done about it */
    uint32_t *table;             /* key -> place + 1; 0: empty */
    uint32_t table_mask;

    uint32_t next;                      /* the first place that is pending; `count`: all began */
    uint32_t standings[STANDING_COUNT]; /* items by standing */
    uint32_t undos[UNDO_COUNT];         /* items by undo status */
    uint32_t applied;                   /* execute sides that are applied: some are past a pivot */

    /* The way back: items that were claimed, newest claim first; made when it is asked for. */
    struct instance **order;
    uint32_t order_count, order_size;
    bool order_is_old;
    uint32_t due_from, ask_from; /* no UNDO_DUE, UNDO_ASK in the order before these */
};

/* True if group_open could read it: a list of [key, item] with keys that differ. */
bool group_text_check(struct str text);

/* Makes the group of a loop's own instance from the items of its execute side. False: they are not
 * what items_evaluate writes. */
bool group_open(struct run *run, struct instance *own);

struct str group_key(const struct group *group, uint32_t place);
/* JSON text of the item. */
struct str group_value(const struct group *group, uint32_t place);
/* False: there is no such item. */
bool group_place(const struct group *group, struct str key, uint32_t *place);
/* The instance of an item; made if nothing was done about it yet. */
struct instance *group_instance(struct run *run, struct instance *own, uint32_t place);

/* Recounts an instance whose state has changed; for any instance, not only items. */
void instance_note(struct run *run, struct instance *instance);

/* The next item on the way back whose status is UNDO_DUE or UNDO_ASK, newest claim first; NULL:
 * there is none. */
struct instance *group_next_undo(struct run *run, struct group *group, enum undo_status status);
/* Nothing is left to undo of any item. */
bool group_is_over(const struct group *group);
/* The first item, in item order, that stands so; NULL: none. Looks through all items: for the rare
 * moments when a run turns or parks. */
struct instance *group_find(const struct group *group, enum standing standing);

/* For run_check: NULL, or what is broken. Looks through everything. */
const char *group_check(const struct run *run, const struct instance *own);

/* An index of distinct keys, in `arena`. False: keys[*first] and keys[*second] are the same. */
bool keys_index(const struct str *keys, uint32_t count, struct arena *arena, uint32_t **table,
                uint32_t *mask, uint32_t *first, uint32_t *second);

#endif
