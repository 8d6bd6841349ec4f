/*
 * test_matrix.c: every tier, key support, way to ask, fault, step and direction, played one by one
 * against services in memory; their ledger judges.
 *
 *     test_matrix            plays all; fails at a broken promise, and where FIGURES.md is not
 *                            what came out
 *     UPDATE=1 test_matrix   writes FIGURES.md instead
 *     ONLY=WORDS             plays what has these words in its name, each told; V=1: step by step
 *
 * It stops at the tenth (FAILURES) scenario with a broken promise.
 */
#include "tests/matrix/figures.h"

#include "dsl/tests.h"
#include "engine/log.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FIGURES_PATH "tests/matrix/FIGURES.md"
#define RECORDS_MAX 100  /* of one run: who needs more goes round in circles */
#define STUCK_AFTER_S 10 /* of a scenario that takes less than a millisecond */
#define APPROVED_AFTER_US (5 * SECOND_US)

struct matrix {
    struct figures figures;
    const char *only;
    uint32_t failed, failures_max;
};

static void quiet(void *arg, enum log_level level, const char *line)
{
    (void)arg, (void)level, (void)line;
}

/* A decision that goes round in circles comes to no end that a ledger could judge. */
static char playing[256];

static void stuck(int number)
{
    static const char said[] = ": it does not come to an end\n";
    (void)number;
    ssize_t ignored = write(STDOUT_FILENO, "BROKEN ", 7);
    ignored = write(STDOUT_FILENO, playing, strlen(playing));
    ignored = write(STDOUT_FILENO, said, sizeof(said) - 1);
    (void)ignored;
    _exit(1);
}

static void trace_print(const struct stub_result *result)
{
    for (uint32_t i = 0; i < result->lines_count; i++)
        printf("    %10.3f  " STR_FMT "\n", (double)result->lines[i].at_us / SECOND_US,
               STR_ARG(result->lines[i].text));
    printf("    residue: " STR_FMT "\n", STR_ARG(result->row.now.residue));
}

static bool is_wanted(const struct matrix *matrix, const char *name)
{
    return !matrix->only || strstr(name, matrix->only);
}

static void scenario_tell(struct matrix *matrix, const char *name, const struct stub_result *result,
                          const struct stub_broken *broken)
{
    for (uint32_t i = 0; i < broken->count; i++)
        printf("BROKEN %s\n    " STR_FMT "\n", name, STR_ARG(broken->list[i]));
    if (matrix->only && !broken->count)
        printf("%s: %s\n", name, run_state_name(result->row.now.state));
    if (broken->count || (matrix->only && getenv("V")))
        trace_print(result);
}

/* Returns how many records it took. */
static uint32_t scenario_play(struct matrix *matrix, const struct cell *cell,
                              const struct plan *plan, enum happening happening, uint32_t unit)
{
    static const struct test_verb approve = {
        .at_us = APPROVED_AFTER_US, .verb = "approve", .reason = {"seen", 4}};
    struct stub_fault faults[FAULTS_MAX];
    struct test_verb verb = approve;
    struct arena arena = {0};
    struct stub_result result;
    struct stub_broken broken;
    verb.step = str_z(plan->steps[cell->point].id);
    struct stub_config config = {.plan = plan,
                                 .run_id = STR("x"),
                                 .input = json_object_new(&arena, 0),
                                 .outputs = dsl_sample_outputs(plan, &arena),
                                 .faults = faults,
                                 .faults_count = cell_faults(cell, happening, unit, faults),
                                 .verbs = &verb,
                                 .verbs_count = cell->extra == EXTRA_APPROVE};
    const char *name = arena_printf(&arena, STR_FMT ": %s %u", STR_ARG(cell_text(cell, &arena)),
                                    happening_text(happening), unit)
                           .ptr;
    snprintf(playing, sizeof(playing), "%s", name);
    alarm(STUCK_AFTER_S);
    stub_play(&config, &result);
    alarm(0);
    stub_judge(&result, &broken);
    if (result.units > RECORDS_MAX && !broken.count)
        broken.list[broken.count++] =
            arena_printf(&result.arena, "it took %u records", result.units);
    uint32_t units = result.units;
    if (is_wanted(matrix, name)) {
        figures_count(&matrix->figures, cell, happening, &result, broken.count > 0);
        matrix->failed += broken.count > 0;
        scenario_tell(matrix, name, &result, &broken);
    }
    stub_result_free(&result);
    arena_free(&arena);
    return units;
}

/* What a run writes without the deaths, so that each record is one to die at. */
static enum happening happening_beneath(enum happening happening)
{
    return happening == HAPPENS_LOST_CRASH_BEFORE || happening == HAPPENS_LOST_CRASH_AFTER ||
                   happening == HAPPENS_LOST_CANCEL
               ? HAPPENS_ANSWER_LOST
               : HAPPENS_NOTHING;
}

static void cell_play(struct matrix *matrix, const struct cell *cell)
{
    struct arena arena = {0};
    struct str why;
    uint32_t units[HAPPENING_COUNT] = {0};
    struct plan *plan = cell_compile(cell, &arena, &why);
    bool may_be_refused = cell->extra == EXTRA_UNKNOWN_RETRY && cell->tier == EFFECT_IRREVERSIBLE;
    matrix->figures.cells++;
    if (!plan) {
        matrix->figures.refused++;
        if (!may_be_refused)
            printf("BROKEN " STR_FMT ": it does not compile\n" STR_FMT "\n",
                   STR_ARG(cell_text(cell, &arena)), STR_ARG(why));
        matrix->failed += !may_be_refused;
    }
    for (int i = 0; plan && i < HAPPENING_COUNT && matrix->failed < matrix->failures_max; i++) {
        enum happening happening = (enum happening)i;
        uint32_t last = 1;
        if (happening_is_at_records(happening))
            last = units[happening_beneath(happening)];
        for (uint32_t unit = 1; unit <= MIN(last, RECORDS_MAX + 0u); unit++)
            units[i] = scenario_play(matrix, cell, plan, happening, unit);
    }
    if (plan)
        plan_unref(plan);
    arena_free(&arena);
}

static void points_play(struct matrix *matrix, struct cell cell)
{
    for (cell.point = 0; cell.point < POINTS && matrix->failed < matrix->failures_max; cell.point++)
        cell_play(matrix, &cell);
}

/* What a step says beside its tier is tried at the second step. */
static void extras_play(struct matrix *matrix, struct cell cell)
{
    cell.point = 1;
    for (int extra = EXTRA_NONE + 1; extra < EXTRA_COUNT; extra++) {
        cell.extra = (enum extra)extra;
        if (cell_is_meant(&cell) && matrix->failed < matrix->failures_max)
            cell_play(matrix, &cell);
    }
}

static void matrix_play(struct matrix *matrix)
{
    for (int tier = EFFECT_PURE; tier < TIER_COUNT; tier++)
        for (int key = 0; key < KEY_SUPPORT_COUNT; key++)
            for (int asking = 0; asking < ASKING_COUNT; asking++)
                for (int course = 0; course < COURSE_COUNT; course++) {
                    struct cell cell = {.tier = (enum effect_tier)tier,
                                        .key = (enum key_support)key,
                                        .asking = (enum asking)asking,
                                        .course = (enum course)course};
                    points_play(matrix, cell);
                    extras_play(matrix, cell);
                }
}

/* --- the document ------------------------------------------------------------------------ */

static bool file_is(const char *path, struct str expected)
{
    FILE *file = fopen(path, "r");
    char chunk[4096];
    size_t at = 0, got;
    bool same = file != NULL;
    while (same && (got = fread(chunk, 1, sizeof(chunk), file)) > 0) {
        same = at + got <= expected.len && !memcmp(chunk, expected.ptr + at, got);
        at += got;
    }
    if (file)
        fclose(file);
    return same && at == expected.len;
}

static int file_write(const char *path, struct str text)
{
    FILE *file = fopen(path, "w");
    size_t written = file ? fwrite(text.ptr, 1, text.len, file) : 0;
    if (!file || fclose(file) != 0 || written != text.len) {
        perror(path);
        return 1;
    }
    return 0;
}

static int figures_keep(const struct matrix *matrix)
{
    struct buf text = {0};
    int code = 0;
    figures_write(&matrix->figures, &text);
    if (getenv("UPDATE")) {
        code = file_write(FIGURES_PATH, buf_str(&text));
        fwrite(buf_str(&text).ptr, 1, text.len, stdout);
    } else if (!file_is(FIGURES_PATH, buf_str(&text))) {
        printf("FAIL %s is not what came out: `make matrix` writes it, read the difference\n",
               FIGURES_PATH);
        code = 1;
    }
    buf_free(&text);
    return code;
}

int main(void)
{
    const char *failures = getenv("FAILURES");
    struct matrix matrix = {.only = getenv("ONLY"),
                            .failures_max = failures ? (uint32_t)atoi(failures) : 10};
    log_divert(quiet, NULL);
    signal(SIGALRM, stuck);
    matrix_play(&matrix);
    const struct tally *total = &matrix.figures.total;
    printf("%u scenarios: %u completed, %u compensated, %u parked; %u broken promises\n",
           total->scenarios, total->completed, total->compensated, total->parked, matrix.failed);
    int code = matrix.failed > 0;
    if (!code && !matrix.only)
        code = figures_keep(&matrix);
    printf("%d passed, %d failed\n", code == 0, code != 0);
    return code;
}
