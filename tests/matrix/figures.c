#include "tests/matrix/figures.h"

static void tally_add(struct tally *tally, const struct tally *one)
{
    tally->scenarios += one->scenarios;
    tally->completed += one->completed;
    tally->compensated += one->compensated;
    tally->parked += one->parked;
    tally->elsewhere += one->elsewhere;
    tally->repeated += one->repeated;
    tally->duplicated += one->duplicated;
    tally->broken += one->broken;
}

static struct tally tally_of(const struct stub_result *result, bool broken)
{
    enum run_state state = result->row.now.state;
    struct tally one = {.scenarios = 1, .broken = broken};
    one.completed = state == RUN_COMPLETED;
    one.compensated = state == RUN_COMPENSATED;
    one.parked = state == RUN_PARKED;
    one.elsewhere = !one.completed && !one.compensated && !one.parked;
    for (const struct stub_effect *effect = result->effects; effect; effect = effect->next) {
        uint32_t doubled = MIN(effect->duplicates, effect->effects);
        one.duplicated |= effect->effects > 1 && doubled > 0;
        one.repeated |= effect->effects - doubled > 1;
    }
    return one;
}

void figures_count(struct figures *figures, const struct cell *cell, enum happening happening,
                   const struct stub_result *result, bool broken)
{
    struct tally one = tally_of(result, broken);
    tally_add(&figures->total, &one);
    tally_add(&figures->tiers[cell->tier][cell->course], &one);
    tally_add(&figures->happenings[happening], &one);
    tally_add(&figures->keys[cell->key], &one);
    tally_add(&figures->askings[cell->asking], &one);
    tally_add(&figures->extras[cell->extra], &one);
    ASSERT(result->row.now.reason < ENDS_MAX);
    if (one.parked)
        figures->reasons[cell->tier][result->row.now.reason]++;
}

static void head_write(const char *what, struct buf *out)
{
    buf_printf(out,
               "| %s | scenarios | completed | compensated | parked | repeated, as declared | "
               "doubled by the network | broken |\n"
               "|---|---:|---:|---:|---:|---:|---:|---:|\n",
               what);
}

static void tally_write(const char *name, const struct tally *tally, struct buf *out)
{
    if (tally->scenarios)
        buf_printf(out, "| %s | %u | %u | %u | %u | %u | %u | %u |\n", name, tally->scenarios,
                   tally->completed, tally->compensated, tally->parked, tally->repeated,
                   tally->duplicated, tally->broken);
}

static void reasons_write(const struct figures *figures, struct buf *out)
{
    buf_add_z(out, "\n## Why they are parked\n\n| reason |");
    for (int tier = EFFECT_PURE; tier < TIER_COUNT; tier++)
        buf_printf(out, " %s |", effect_tier_name((enum effect_tier)tier));
    buf_add_z(out, "\n|---|---:|---:|---:|---:|\n");
    for (int reason = PARK_NONE; reason < ENDS_MAX; reason++) {
        uint32_t sum = 0;
        for (int tier = EFFECT_PURE; tier < TIER_COUNT; tier++)
            sum += figures->reasons[tier][reason];
        if (!sum)
            continue;
        buf_printf(out, "| `%s` |", park_reason_name((enum park_reason)reason));
        for (int tier = EFFECT_PURE; tier < TIER_COUNT; tier++)
            buf_printf(out, " %u |", figures->reasons[tier][reason]);
        buf_add_char(out, '\n');
    }
}

static void tables_write(const struct figures *figures, struct buf *out)
{
    static const char *const courses[] = {"forward", "turned back afterwards", "its compensation"};
    static const char *const keys[] = {"honoured", "past its lifetime", "none"};
    static const char *const askings[] = {"none", "truthful", "lagging", "down"};
    for (int tier = EFFECT_PURE; tier < TIER_COUNT; tier++) {
        buf_printf(out, "\n## What is under test is %s\n\n",
                   effect_tier_name((enum effect_tier)tier));
        head_write("the fault hits", out);
        for (int course = 0; course < COURSE_COUNT; course++)
            tally_write(courses[course], &figures->tiers[tier][course], out);
    }
    reasons_write(figures, out);
    buf_add_z(out, "\n## By key\n\n");
    head_write("key", out);
    for (int key = 0; key < KEY_SUPPORT_COUNT; key++)
        tally_write(keys[key], &figures->keys[key], out);
    buf_add_z(out, "\n## By reconcile\n\n");
    head_write("reconcile", out);
    for (int asking = 0; asking < ASKING_COUNT; asking++)
        tally_write(askings[asking], &figures->askings[asking], out);
    buf_add_z(out, "\n## By fault\n\n");
    head_write("fault", out);
    for (int happening = 0; happening < HAPPENING_COUNT; happening++)
        tally_write(happening_text((enum happening)happening), &figures->happenings[happening],
                    out);
    buf_add_z(out, "\n## By what the step says beside its tier\n\n");
    head_write("it says", out);
    for (int extra = 0; extra < EXTRA_COUNT; extra++)
        tally_write(extra ? extra_text((enum extra)extra) : "nothing", &figures->extras[extra],
                    out);
}

void figures_write(const struct figures *figures, struct buf *out)
{
    const struct tally *total = &figures->total;
    buf_printf(
        out,
        "# The matrix: figures\n\n"
        "Written by `make matrix`. Each scenario is one run, played with the engine's own "
        "decisions "
        "and\nrunner against services in memory, whose ledger then says what has really happened: "
        "net effects\nmust be right, or the run be parked with a residue that equals the ledger. "
        "`README.md` says what is\nvaried.\n\n"
        "%u scenarios with %u workflows: %u completed, %u compensated, %u parked; **%u broken "
        "promises**.\n"
        "In %u of them a tier or `on_unknown: retry` allowed an effect to be repeated; in %u the "
        "network doubled\na request at a service that honours no keys.\n",
        total->scenarios, figures->cells - figures->refused, total->completed, total->compensated,
        total->parked, total->broken, total->repeated, total->duplicated);
    if (figures->refused)
        buf_printf(out,
                   "%u more workflows are refused by the compiler (`on_unknown: retry` of an "
                   "irreversible action).\n",
                   figures->refused);
    tables_write(figures, out);
}
