/*
 * What is generated from the language's table is in the tree as it would be generated now.
 * UPDATE=1 writes it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "dsl/dsl.h"
#include "dsl/schema.h"

#define SCHEMA_FILE "dsl/workflow.schema.json"
#define README_FILE "dsl/README.md"
#define BEGIN "<!-- generated from dsl/schema.c: make update-reference -->\n"
#define END "<!-- end of what is generated -->\n"

static void file_read(const char *path, struct buf *out)
{
    char chunk[4096];
    size_t len;
    FILE *file = fopen(path, "rb");
    while (file && (len = fread(chunk, 1, sizeof(chunk), file)) > 0)
        buf_add(out, chunk, len);
    if (file)
        fclose(file);
}

static void check_file(const char *path, const struct buf *wanted)
{
    struct buf actual = {0};
    file_read(path, &actual);
    bool same = str_eq(buf_str(&actual), buf_str(wanted));
    buf_free(&actual);
    if (!same && getenv("UPDATE")) {
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        fwrite(wanted->data, 1, wanted->len, file);
        fclose(file);
    } else if (!same) {
        fail_msg("%s is not up to date: make update-reference writes it", path);
    }
}

/* The editors' schema is what the table gives. */
static void editor_schema(void **state)
{
    struct buf wanted = {0};
    struct arena arena = {0};
    const struct json *value;
    struct err err;
    (void)state;
    lang_write_editor_schema(&wanted);
    assert_int_equal(json_parse(buf_str(&wanted), &arena, &value, &err), 0);
    check_file(SCHEMA_FILE, &wanted);
    arena_free(&arena);
    buf_free(&wanted);
}

/* The tables of the reference are what the table gives. */
static void readme(void **state)
{
    struct buf page = {0}, wanted = {0};
    (void)state;
    file_read(README_FILE, &page);
    assert_non_null(page.data);
    char *begin = strstr(page.data, BEGIN), *end = strstr(page.data, END);
    assert_true(begin && end && begin < end);
    buf_add(&wanted, page.data, (size_t)(begin - page.data) + strlen(BEGIN));
    buf_add_char(&wanted, '\n');
    lang_write_reference(&wanted);
    buf_add_z(&wanted, end);
    check_file(README_FILE, &wanted);
    buf_free(&page);
    buf_free(&wanted);
}

/* The example at the top of the reference compiles without a word. */
static void readme_example(void **state)
{
    struct buf page = {0}, said = {0};
    struct diags diags;
    (void)state;
    file_read(README_FILE, &page);
    char *begin = strstr(page.data, "```yaml\n");
    assert_non_null(begin);
    begin += strlen("```yaml\n");
    char *end = strstr(begin, "```\n");
    assert_non_null(end);
    struct str source = {begin, (size_t)(end - begin)};
    diags_init(&diags, "README", source);
    struct plan *plan = dsl_compile(source, NULL, &diags);
    diags_print(&diags, false, &said);
    assert_string_equal(buf_str(&said).ptr, "");
    assert_non_null(plan);
    plan_unref(plan);
    diags_free(&diags);
    buf_free(&page);
    buf_free(&said);
}

/* The table itself: no key stands twice in a group, and what is offered is described. */
static void table(void **state)
{
    (void)state;
    for (size_t i = 0; i < lang_keys_count; i++) {
        const struct lang_key *key = &lang_keys[i];
        assert_ptr_equal(lang_key_find(key->group, str_z(key->name)), key);
        assert_true(strlen(key->help) > 5 && key->help[strlen(key->help) - 1] == '.');
        assert_true((key->form == LANG_CHOICE) == (key->choices != NULL));
        if (key->flags & LANG_KIND && !(key->flags & LANG_PLANNED))
            assert_non_null(key->kinds);
        for (size_t j = 0; j < i; j++)
            assert_false(lang_keys[j].group == key->group &&
                         strcmp(lang_keys[j].name, key->name) == 0);
    }
    assert_null(lang_key_find(LANG_STEP, STR("workflow")));
    assert_non_null(lang_key_find(LANG_COMPENSATE, STR("delete")));
    assert_non_null(lang_mistake_help(LANG_STEP, STR("retryCount")));
    assert_null(lang_mistake_help(LANG_STEP, STR("retry")));
}

/* A name of another tool is never a key of ours, so its help can be reached. */
static void mistakes(void **state)
{
    (void)state;
    for (int group = 1; group < LANG_GROUP_COUNT; group++)
        for (size_t i = 0; i < lang_keys_count; i++) {
            const struct lang_key *key =
                lang_key_find((enum lang_group)group, str_z(lang_keys[i].name));
            if (key && lang_mistake_help((enum lang_group)group, str_z(key->name)))
                fail_msg("`%s` is a key and a mistake in %s", key->name,
                         lang_group_name((enum lang_group)group));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(editor_schema),  cmocka_unit_test(readme),
        cmocka_unit_test(readme_example), cmocka_unit_test(table),
        cmocka_unit_test(mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
