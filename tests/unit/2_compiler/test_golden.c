/*
 * Every file of tests/golden/dsl is compiled, and what is said about it must be exactly the text
 * beside it: NAME.txt, NAME.json if it exists, NAME.schedule.txt if it exists.
 *
 * A folder set_NAME holds files that are applied together, and files known_* that were applied
 * before; what is said of the former is SET/said.txt.
 *
 * UPDATE=1 writes the expected texts instead; read the difference before you commit it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "dsl/dsl.h"
#include "dsl/lint.h"
#include "dsl/set.h"
#include "dsl/tests.h"

#define FOLDER "tests/golden/dsl"
#define FILES_MAX 500

static bool file_read(const char *path, struct buf *out)
{
    char chunk[4096];
    size_t len;
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    while ((len = fread(chunk, 1, sizeof(chunk), file)) > 0)
        buf_add(out, chunk, len);
    fclose(file);
    return true;
}

static void file_write(const char *path, struct str text)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text.ptr, 1, text.len, file), text.len);
    fclose(file);
}

static void compare(const char *name, const char *suffix, bool required, const struct buf *actual)
{
    char path[512];
    struct buf expected = {0};
    snprintf(path, sizeof(path), FOLDER "/%s%s", name, suffix);
    bool exists = file_read(path, &expected);
    if (getenv("UPDATE") && (exists || required)) {
        file_write(path, buf_str(actual));
    } else if (exists || required) {
        if (!exists)
            fail_msg("%s is missing: make update-golden writes it", path);
        if (!str_eq(buf_str(&expected), buf_str(actual)))
            print_error("--- %s, actual:\n%s---\n", path, actual->data);
        assert_string_equal(buf_str(&expected).ptr, buf_str(actual).ptr);
    }
    buf_free(&expected);
}

static void golden(void **state)
{
    char path[512], file[256];
    const char *name = *state;
    struct buf source = {0}, text = {0};
    struct diags diags;
    struct arena arena = {0};
    snprintf(path, sizeof(path), FOLDER "/%s.yaml", name);
    snprintf(file, sizeof(file), "%s.yaml", name);
    assert_true(file_read(path, &source));

    static const char *const names[] = {"REGION"};
    const struct dsl_options options = {.env_names = names, .env_names_count = 1};
    diags_init(&diags, file, buf_str(&source));
    struct plan *plan = dsl_compile(buf_str(&source), &options, &diags);
    assert_int_equal(plan == NULL, diags.errors > 0);
    if (plan) { /* as `sagactl validate` does */
        dsl_tests_free(dsl_tests_compile(buf_str(&source), false, plan, &diags));
        dsl_set_check(&options, &(struct dsl_member){plan, &diags}, 1, NULL);
        if (diags.errors)
            plan_unref(plan), plan = NULL;
    }
    diags_print(&diags, false, &text);
    if (plan)
        buf_printf(&text, "%s: %u steps, %u warnings\n", file, plan->steps_count, diags.warnings);
    else
        buf_printf(&text, "%s: refused, %u errors, %u warnings\n", file, diags.errors,
                   diags.warnings);
    compare(name, ".txt", true, &text);

    buf_clear(&text);
    json_write_pretty(diags_json(&diags, &arena), 0, &text);
    buf_add_char(&text, '\n');
    compare(name, ".json", false, &text);

    if (plan) {
        buf_clear(&text);
        dsl_print_schedule(plan, &text);
        compare(name, ".schedule.txt", false, &text);
    }
    plan_unref(plan);
    diags_free(&diags);
    arena_free(&arena);
    buf_free(&source);
    buf_free(&text);
}

/* --- sets --- */

#define SET_MAX 16

struct set_file {
    char name[256];
    struct buf source;
    struct diags diags;
    struct plan *plan;
};

static int set_file_cmp(const void *a, const void *b)
{
    return strcmp(((const struct set_file *)a)->name, ((const struct set_file *)b)->name);
}

static size_t set_read(const char *name, struct set_file *files)
{
    char path[800];
    size_t count = 0;
    struct dirent *entry;
    snprintf(path, sizeof(path), FOLDER "/%s", name);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    while ((entry = readdir(folder))) {
        const char *dot = strrchr(entry->d_name, '.');
        if (!dot || strcmp(dot, ".yaml") != 0)
            continue;
        assert_true(count < SET_MAX);
        snprintf(files[count].name, sizeof(files[count].name), "%s", entry->d_name);
        snprintf(path, sizeof(path), FOLDER "/%s/%s", name, entry->d_name);
        assert_true(file_read(path, &files[count++].source));
    }
    closedir(folder);
    qsort(files, count, sizeof(*files), set_file_cmp);
    return count;
}

static void golden_set(void **state)
{
    static struct set_file files[SET_MAX];
    struct dsl_member members[SET_MAX];
    const struct plan *before[SET_MAX];
    struct workflows known = {before, 0};
    struct buf text = {0};
    size_t count, of = 0;
    memset(files, 0, sizeof(files));
    count = set_read(*state, files);
    for (size_t i = 0; i < count; i++) {
        struct set_file *file = &files[i];
        diags_init(&file->diags, file->name, buf_str(&file->source));
        file->plan = dsl_compile(buf_str(&file->source), NULL, &file->diags);
        assert_non_null(file->plan);
        if (str_starts(str_z(file->name), STR("known_")))
            before[known.count++] = file->plan;
        else
            members[of++] = (struct dsl_member){file->plan, &file->diags};
    }
    dsl_set_names_check(members, of);
    dsl_set_check(NULL, members, of, &known);
    dsl_set_parents_check(NULL, members, of, &known);
    for (size_t i = 0; i < of; i++) {
        diags_print(members[i].diags, false, &text);
        buf_printf(&text, "%s: %u errors, %u warnings\n", members[i].diags->file,
                   members[i].diags->errors, members[i].diags->warnings);
    }
    compare(*state, "/said.txt", true, &text);
    for (size_t i = 0; i < count; i++) {
        plan_unref(files[i].plan);
        diags_free(&files[i].diags);
        buf_free(&files[i].source);
    }
    buf_free(&text);
}

static int name_cmp(const void *a, const void *b)
{
    return strcmp(((const struct CMUnitTest *)a)->name, ((const struct CMUnitTest *)b)->name);
}

/* All expected texts, to look for codes in. */
static struct buf all_expected;

static bool expected_has(const char *code)
{
    char wanted[24];
    snprintf(wanted, sizeof(wanted), "[%s]: ", code);
    return all_expected.data && strstr(all_expected.data, wanted) != NULL;
}

/* Every code that has a page is shown by a golden file, and every code shown has a page. */
static void codes(void **state)
{
    (void)state;
    char code[16];
    unsigned pages = 0;
    for (int letter = 0; letter < 2; letter++)
        for (int number = 0; number < 1000; number++) {
            snprintf(code, sizeof(code), "%c%03d", letter ? 'W' : 'E', number);
            bool has_page = dsl_explain(code) != NULL, shown = expected_has(code);
            pages += has_page;
            if (has_page != shown)
                fail_msg("%s: %s", code,
                         has_page ? "has a page, but no golden file shows it"
                                  : "is shown by a golden file, but has no page");
        }
    assert_true(pages > 60);
    assert_null(dsl_explain("E999"));
}

int main(void)
{
    static struct CMUnitTest tests[FILES_MAX];
    size_t count = 0;
    DIR *folder = opendir(FOLDER);
    struct dirent *entry;
    if (!folder) {
        fprintf(stderr, "%s: run this from the top of the tree\n", FOLDER);
        return 1;
    }
    while ((entry = readdir(folder)) && count < FILES_MAX - 1) {
        char *dot = strrchr(entry->d_name, '.');
        char path[512];
        if (str_starts(str_z(entry->d_name), STR("set_"))) {
            char *set = xstrdup(entry->d_name);
            tests[count++] =
                (struct CMUnitTest){.name = set, .test_func = golden_set, .initial_state = set};
            snprintf(path, sizeof(path), FOLDER "/%s/said.txt", set);
            file_read(path, &all_expected);
            continue;
        }
        if (!dot || strcmp(dot, ".yaml") != 0)
            continue;
        char *name = xstrdup(entry->d_name);
        name[dot - entry->d_name] = '\0';
        tests[count++] =
            (struct CMUnitTest){.name = name, .test_func = golden, .initial_state = name};
        snprintf(path, sizeof(path), FOLDER "/%s.txt", name);
        file_read(path, &all_expected);
    }
    closedir(folder);
    qsort(tests, count, sizeof(*tests), name_cmp);
    tests[count++] = (struct CMUnitTest){.name = "codes", .test_func = codes};
    int failed = _cmocka_run_group_tests("golden", tests, count, NULL, NULL);
    for (size_t i = 0; i + 1 < count; i++)
        free((char *)tests[i].name);
    buf_free(&all_expected);
    return failed;
}
