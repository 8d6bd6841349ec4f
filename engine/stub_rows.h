/*
 * stub_rows.h: the rows of a run as a store holds them, in memory: for simulated worlds.
 *
 * What a unit writes and what a load gives back, without a database. A write that the real store
 * would refuse is told as the promise that it breaks.
 */
#ifndef ENGINE_STUB_ROWS_H
#define ENGINE_STUB_ROWS_H

#include "engine/port.h"

struct stub_row {
    struct arena *arena; /* borrowed: holds the rows and the texts of all records */
    struct str id;
    const struct plan *plan; /* borrowed */
    struct record_start start;
    struct record_run now;
    bool has_run_record;
    struct record_effect *effects; /* all generations, by claim */
    uint32_t effects_count, effects_capacity;
    uint32_t events;
    struct record_signal *signals;
    uint32_t signals_count;
    struct record_input *inputs;
    uint32_t inputs_count;
};

/* The unit with everything it points at, in the arena: its bytes are final. */
struct unit *stub_unit_copy(const struct unit *unit, struct arena *arena);

/* Writes one record; its texts must live as long as the row. NULL, or what is wrong with it (in
 * the row's arena). */
const char *stub_row_write(struct stub_row *row, const struct run_record *record);

/* The newest generation of one direction of a step instance; NULL: never claimed. */
const struct record_effect *stub_row_newest(const struct stub_row *row, uint16_t step,
                                            struct str item, enum direction direction);

/* The records that a load gives: the newest generation of each effect. `pickups`: the load is part
 * of a take-over, so attempts that are on their way count as picked up. */
const struct run_record *stub_row_load(struct stub_row *row, bool pickups, struct arena *arena,
                                       uint32_t *count);

#endif
