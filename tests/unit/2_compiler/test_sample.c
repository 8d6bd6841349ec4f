/*
 * Made-up data: an input that fits the schema, outputs that hold what is read of them, and what
 * each step does in a few words.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "dsl/dsl.h"
#include "dsl/jsonschema.h"
#include "dsl/tests.h"

static struct plan *compile(const char *text)
{
    struct diags diags;
    struct buf report = {0};
    diags_init(&diags, "sample.yaml", str_z(text));
    struct plan *plan = dsl_compile(str_z(text), NULL, &diags);
    diags_print(&diags, false, &report);
    if (!plan)
        fail_msg("%s", report.data);
    buf_free(&report);
    diags_free(&diags);
    return plan;
}

#define TAIL                                                                                  \
    "\nrun_id: x\nservices: {s: {url: \"http://127.0.0.1:1\", idempotency: {header: K, ttl: " \
    "1d}}}\nsteps: [{id: nap, action: {sleep: 1s}}]\n"

static void assert_input(const char *schema, const char *wanted)
{
    char text[1024];
    struct arena arena = {0};
    struct schema_errors errors;
    snprintf(text, sizeof(text), "workflow: w\ninput: %s" TAIL, schema);
    struct plan *plan = compile(text);
    const struct json *input = dsl_sample_input(plan, &arena, &errors);
    if (wanted) {
        if (!input)
            fail_msg("%s: %s", schema, errors.list[0].message.ptr);
        assert_string_equal(json_text(input, &arena).ptr, wanted);
    } else {
        assert_null(input);
        assert_true(errors.count > 0);
    }
    plan_unref(plan);
    arena_free(&arena);
}

/* default, examples, enum and const come before what the type alone gives. */
static void inputs(void **state)
{
    (void)state;
    assert_input("{type: object}", "{}");
    assert_input("{type: object, properties: {a: {type: string, default: d, examples: [e]}, "
                 "b: {type: string, examples: [e, f]}, c: {enum: [5, 6]}, d: {const: k}}}",
                 "{\"a\":\"d\",\"b\":\"e\",\"c\":5,\"d\":\"k\"}");
    assert_input("{type: object, properties: {i: {type: integer}, m: {type: integer, minimum: 7}, "
                 "x: {type: number, exclusiveMinimum: 2}, z: {type: integer, maximum: -3}, "
                 "b: {type: boolean}, n: {type: \"null\"}}}",
                 "{\"i\":1,\"m\":7,\"x\":3,\"z\":-3,\"b\":true,\"n\":null}");
    assert_input(
        "{type: object, properties: {s: {type: string}, l: {type: string, minLength: 8}, "
        "m: {type: string, maxLength: 3}, t: {type: string, format: date-time}, "
        "e: {type: string, format: email}}}",
        "{\"s\":\"sample\",\"l\":\"samplexx\",\"m\":\"sam\",\"t\":\"2026-01-01T00:00:00Z\","
        "\"e\":\"sample@example.org\"}");
    assert_input("{type: object, properties: {a: {type: array, items: {type: integer}, "
                 "minItems: 2}, o: {type: object, properties: {k: {type: string}}}}}",
                 "{\"a\":[1,1],\"o\":{\"k\":\"sample\"}}");
    assert_input("{type: object, properties: {r: {$ref: \"#/$defs/id\"}, "
                 "o: {anyOf: [{type: integer}, {type: string}]}}, "
                 "$defs: {id: {type: string, examples: [x]}}}",
                 "{\"r\":\"x\",\"o\":1}");
}

/* Simple patterns are met; where a guess does not fit, there is no sample, and why. */
static void patterns(void **state)
{
    (void)state;
    assert_input("{type: object, properties: {p: {type: string, pattern: \"^ORD-[0-9]{6}$\"}}}",
                 "{\"p\":\"ORD-000000\"}");
    assert_input("{type: object, properties: {p: {type: string, "
                 "pattern: \"^[A-F]\\\\d{2,4}\\\\.x+y?.$\"}}}",
                 "{\"p\":\"A00.xyx\"}");
    assert_input("{type: object, properties: {p: {type: string, pattern: \"^(ab|cd)$\"}}}",
                 "{\"p\":\"ab\"}");
    assert_input("{type: object, properties: {p: {type: string, pattern: \"^(a|b)x{3}$\"}}}", NULL);
}

/* Whatever is read of an output is in it, with lists where lists are read. */
static void outputs(void **state)
{
    struct arena arena = {0};
    struct plan *plan = compile(
        "workflow: w\nrun_id: x\n"
        "services: {s: {url: \"http://127.0.0.1:1\", idempotency: {header: K, ttl: 1d}}}\n"
        "steps:\n"
        "  - {id: a, action: {post: s/a}, compensate: {delete: \"s/a/${{ steps.a.output.ref.id "
        "}}\"}}\n"
        "  - {id: b, action: {get: \"s/b/${{ steps.a.output.items[0].sku }}\"}}\n"
        "  - {id: c, action: {get: s/c}}\n"
        "output: {all: \"${{ steps.b.output }}\", n: \"${{ steps.b.output.list.map(x, x) }}\", "
        "nota: \"steps.c.outputs.x\"}\n");
    (void)state;
    const struct str *texts = dsl_sample_outputs(plan, &arena);
    assert_string_equal(texts[0].ptr,
                        "{\"ref\":{\"id\":\"sample\"},\"items\":[{\"sku\":\"sample\"}]}");
    assert_string_equal(texts[1].ptr, "{\"list\":[\"sample\"]}");
    assert_string_equal(texts[2].ptr, "{}");
    plan_unref(plan);
    arena_free(&arena);
}

/* What loops go over are lists of what their items are asked for; a loop's own output is read item
 * by item, also by the names that map() and its like give them. */
static void loops(void **state)
{
    struct arena arena = {0};
    struct plan *plan = compile(
        "workflow: w\nrun_id: x\n"
        "services: {s: {url: \"http://127.0.0.1:1\", idempotency: {header: K, ttl: 1d}}}\n"
        "steps:\n"
        "  - {id: a, action: {get: s/a}}\n"
        "  - {id: b, for_each: steps.a.output.list, key_by: item.id,\n"
        "     action: {post: s/b, body: {to: \"${{ item.who.name }}\", items: \"${{ 1 }}\"}},\n"
        "     compensate: {delete: \"s/b/${{ steps.b.output.ref }}\"}}\n"
        "  - {id: c, for_each: \"['x']\", action: {get: s/c}}\n"
        "output: {refs: \"${{ steps.b.output.filter(x, x != null).map(y, y.no) }}\","
        " n: \"${{ size(steps.c.output) }}\"}\n");
    (void)state;
    const struct str *texts = dsl_sample_outputs(plan, &arena);
    assert_string_equal(texts[0].ptr,
                        "{\"list\":[{\"id\":\"sample\",\"who\":{\"name\":\"sample\"}}]}");
    assert_string_equal(texts[2].ptr, "{}");
    assert_string_equal(texts[1].ptr, "{\"ref\":\"sample\",\"no\":\"sample\"}");
    plan_unref(plan);
    arena_free(&arena);
}

/* Holes are shortened, lists joined, blanks folded. */
static void titles(void **state)
{
    struct arena arena = {0};
    struct plan *plan =
        compile("workflow: w\nrun_id: x\n"
                "services: {s: {url: \"http://127.0.0.1:1\", idempotency: {header: K, ttl: 1d}}}\n"
                "steps:\n"
                "  - id: a\n"
                "    action: {post: s/a, body: {}}\n"
                "    compensate: {delete: \"s/a/${{   run.id }}/x\"}\n"
                "  - id: b\n"
                "    action:\n"
                "      sql: |\n"
                "        insert into t\n"
                "          values (1)\n"
                "    compensate: {exec: [/bin/undo, b]}\n"
                "  - {id: c, action: {sleep: 30m}}\n");
    (void)state;
    const struct dsl_title *list = dsl_titles(plan, &arena);
    assert_string_equal(list[0].action.ptr, "post s/a");
    assert_string_equal(list[0].compensate.ptr, "delete s/a/{run.id}/x");
    assert_string_equal(list[1].action.ptr, "insert into t values (1)");
    assert_string_equal(list[1].compensate.ptr, "exec /bin/undo b");
    assert_string_equal(list[2].action.ptr, "sleep 30m");
    assert_null(list[2].compensate.ptr);
    plan_unref(plan);
    arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs), cmocka_unit_test(patterns), cmocka_unit_test(outputs),
        cmocka_unit_test(loops),  cmocka_unit_test(titles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
