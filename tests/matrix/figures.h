/*
 * figures.h: what the scenarios came to, counted, and written as tables.
 */
#ifndef TESTS_MATRIX_FIGURES_H
#define TESTS_MATRIX_FIGURES_H

#include "tests/matrix/scenario.h"

#define ENDS_MAX 32
#define TIER_COUNT (EFFECT_IRREVERSIBLE + 1)

struct tally {
    uint32_t scenarios, completed, compensated, parked, elsewhere;
    uint32_t repeated;   /* had an effect twice, as the workflow allows */
    uint32_t duplicated; /* by the network, where no key is honoured */
    uint32_t broken;
};

struct figures {
    struct tally total;
    struct tally tiers[TIER_COUNT][COURSE_COUNT];
    struct tally happenings[HAPPENING_COUNT];
    struct tally keys[KEY_SUPPORT_COUNT], askings[ASKING_COUNT], extras[EXTRA_COUNT];
    uint32_t reasons[TIER_COUNT][ENDS_MAX]; /* by enum park_reason */
    uint32_t cells, refused;                /* workflows; of those, by the compiler */
};

void figures_count(struct figures *figures, const struct cell *cell, enum happening happening,
                   const struct stub_result *result, bool broken);

/* The document. No times, no names of machines: the same sources give the same bytes. */
void figures_write(const struct figures *figures, struct buf *out);

#endif
