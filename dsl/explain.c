/*
 * explain.c: a page for every code, shown by `sagactl explain CODE`.
 *
 * A page names the mistake, says why it matters, and shows it wrong and right. Codes: E0 and W0
 * the YAML, E1 the language, E2 and W2 expressions, E3 and W3 the saga rules, E4 tests. A code
 * keeps its meaning for ever.
 */
#include "dsl/dsl.h"

#define PAGE(code, title, why, wrong, right)                                   \
    {                                                                          \
        code, code ": " title "\n\n" why "\nwrong:\n" wrong "\nright:\n" right \
    }

static const struct {
    const char *code, *page;
} pages[] = {
    /* clang-format off */
    PAGE("E001", "a character that a workflow file cannot hold",
         "A workflow file is UTF-8 without control characters. What it holds is stored,\n"
         "sent as JSON and shown on terminals, and each of these would do something else\n"
         "with a broken byte or a NUL.\n",
         "    note: \"caf\\xE9\"          # a byte of Latin-1\n",
         "    note: \"café\"             # the same letter, saved as UTF-8\n"),
    PAGE("E002", "the YAML cannot be read",
         "The text is no YAML. The usual reasons: a template without quotes inside { } or\n"
         "[ ], a value that starts with a quote and goes on after it, `? :` in a plain\n"
         "value, tabs as indentation.\n",
         "    body: {sku: ${{ input.sku }}}\n"
         "    if: 'a' == input.kind\n",
         "    body: {sku: \"${{ input.sku }}\"}\n"
         "    if: \"'a' == input.kind\"\n"),
    PAGE("E003", "a key stands twice",
         "YAML tools differ in which of the two they take, so one of them would be ignored\n"
         "without a word. Headers count as equal in any case of their letters.\n",
         "    timeout: 5s\n"
         "    timeout: 30s\n",
         "    timeout: 30s\n"),
    PAGE("E004", "a YAML tag",
         "Tags make other values of a text, each YAML library in its own way. An\n"
         "expression that starts with `!` looks like one, too.\n",
         "    if: !input.express\n",
         "    if: \"!input.express\"\n"),
    PAGE("E005", "a merge key",
         "`<<` is not part of YAML 1.2, and editors and tools disagree about what it\n"
         "overrides.\n",
         "    retry:\n"
         "      <<: *patient\n"
         "      attempts: 5\n",
         "    retry: *patient              # a whole value\n"
         "    # or for all steps:\n"
         "    defaults: {retry: {attempts: 5}}\n"),
    PAGE("E006", "a second document",
         "A file holds one workflow; `---` in the middle would hide the rest from tools\n"
         "that read the first document only.\n",
         "    workflow: a\n"
         "    ---\n"
         "    workflow: b\n",
         "    workflow: a                  # and b in its own file\n"),
    PAGE("E007", "a value that YAML tools read differently",
         "Typed without quotes are only `true`, `false`, `null` and plain numbers (`5`,\n"
         "`-3`, `19.90`). Every other word that some YAML reads as a number, a boolean or\n"
         "null has to be quoted, so that your editor and the engine never differ.\n",
         "    zip: 01234\n"
         "    limit: 1e3\n"
         "    nothing: ~\n",
         "    zip: \"01234\"\n"
         "    limit: 1000\n"
         "    nothing: null\n"),
    PAGE("E008", "an alias without its anchor",
         "An alias repeats a value that was anchored above it. It cannot stand inside that\n"
         "value.\n",
         "    retry: *patient\n",
         "    x-retry: &patient {attempts: 5}\n"
         "    # ...\n"
         "    retry: *patient\n"),
    PAGE("E009", "the file is too large",
         "Limits: 1 MiB, 64 levels, 20,000 values with aliases written out, 1,000 anchors.\n"
         "They keep a file of 300 bytes from becoming gigabytes.\n",
         "    a: &a [x, x, x, x, x, x, x, x, x]\n"
         "    b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]   # ... and so on\n",
         "    a: &a [x, x]\n"
         "    b: [*a, *a]\n"),
    PAGE("E010", "a key that is not text",
         "The names in a map are texts. A number, `true` or `null` as a key needs quotes;\n"
         "a template cannot be a key at all.\n",
         "    body: {1: one, true: yes}\n",
         "    body: {\"1\": one, \"true\": \"yes\"}\n"),
    PAGE("E011", "the file is empty",
         "There is no YAML document in the file.\n",
         "    # only a comment\n",
         "    workflow: order\n"
         "    steps: []                    # and at least one step\n"),
    PAGE("E012", "a template inside a comment",
         "A `#` after a space starts a comment, so the template is not part of the value\n"
         "and would be lost without a word.\n",
         "    note: order #${{ input.id }}\n",
         "    note: \"order #${{ input.id }}\"\n"),
    PAGE("E013", "a comma that ends a value",
         "Inside { } and [ ] a comma separates values, also inside the brackets of a call.\n",
         "    body: {note: default(input.note, omit)}\n"
         "    outcomes: [{when: contains(a, b), is: refused}]\n",
         "    body: {note: \"${{ default(input.note, omit) }}\"}\n"
         "    outcomes: [{when: \"a.contains(b)\", is: refused}]\n"),
    PAGE("E014", "another version of YAML",
         "YAML 1.1 reads `no`, `0123` and `12:30` in its own way. Workflows are read by\n"
         "the rules of YAML 1.2.\n",
         "    %YAML 1.1\n"
         "    ---\n"
         "    workflow: order\n",
         "    workflow: order\n"),
    PAGE("W001", "a word that YAML 1.1 reads as a boolean",
         "`yes`, `no`, `on`, `off`, `y` and `n` are text here. Tools for YAML 1.1 read\n"
         "them as booleans, so somebody will misread the file.\n",
         "    country: NO\n",
         "    country: \"NO\"\n"),
    PAGE("E101", "an unknown key",
         "A key that is not part of the language would be ignored, and with it what it was\n"
         "meant to say. Own notes may stand under `x-...` at the top of the file.\n",
         "    - id: charge\n"
         "      retryCount: 5\n",
         "    - id: charge\n"
         "      retry: {attempts: 5}\n"),
    PAGE("E102", "a key is missing",
         "The map needs this key.\n",
         "    - action: {get: shop/orders}\n",
         "    - id: look\n"
         "      action: {get: shop/orders}\n"),
    PAGE("E103", "a value of the wrong form",
         "The key wants another form of value: a map, a list, a text, a boolean. A step\n"
         "has one compensation, so `compensate` is no list either; two effects are two\n"
         "steps.\n",
         "    compensate:\n"
         "      - delete: shop/orders/1\n"
         "      - delete: shop/holds/1\n",
         "    compensate: {delete: shop/orders/1}\n"),
    PAGE("E104", "a word that is none of the choices",
         "The key takes one of a few words.\n",
         "    effect: reversible\n",
         "    effect: compensable\n"),
    PAGE("E105", "part of the language, but not of this version",
         "The language has this key, and this version does not carry it out. It is refused\n"
         "rather than ignored, because a workflow without it would behave otherwise.\n",
         "    mcp: true\n",
         "    description: Ships an order and takes the money\n"),
    PAGE("E106", "a name that cannot be used",
         "Names go into keys, paths, views and file names. Workflows and services:\n"
         "[a-z][a-z0-9_-]*, steps: [a-z][a-z0-9_]*, both at most 63 characters; run ids:\n"
         "letters, digits, `.`, `_` and `-`.\n",
         "    workflow: Order Processing\n"
         "    run_id: order/${{ input.id }}\n",
         "    workflow: order-processing\n"
         "    run_id: order-${{ input.id }}\n"),
    PAGE("E107", "two steps with one id",
         "The id of a step is part of its key, so it must be unique in the workflow.\n",
         "    - id: charge\n"
         "      # ...\n"
         "    - id: charge\n",
         "    - id: charge\n"
         "      # ...\n"
         "    - id: charge_fee\n"),
    PAGE("E108", "a duration that cannot be read",
         "A duration is a number with a unit: ms, s, m, h or d, also several of them. A\n"
         "bare number does not say whether it means seconds or milliseconds.\n",
         "    timeout: 30\n"
         "    deadline: PT10M\n",
         "    timeout: 30s\n"
         "    deadline: 10m\n"),
    PAGE("E109", "a number out of its range",
         "The value has the right form, but not a possible size.\n",
         "    retry: {attempts: 0, jitter: 120%}\n",
         "    retry: {attempts: 1, jitter: 20%}\n"),
    PAGE("E110", "not exactly one action",
         "An action is one of get, post, put, patch, delete, sql, exec, sleep, until,\n"
         "wait_for, worker, child. Two effects are two steps, so that each has its own key\n"
         "and its own compensation. `none` stands alone.\n",
         "    action:\n"
         "      post: shop/orders\n"
         "      delete: shop/carts/1\n",
         "    - id: order\n"
         "      action: {post: shop/orders}\n"
         "    - id: clear_cart\n"
         "      action: {delete: shop/carts/1}\n"),
    PAGE("E111", "a key of another kind of action",
         "The key does not belong to this kind of action: `body` to a `sql`, `timeout` to\n"
         "a `sleep`.\n",
         "    action: {sleep: 5m}\n"
         "    timeout: 10s\n",
         "    action: {sleep: 5m}\n"),
    PAGE("E112", "one thing said twice",
         "Only one of these keys can be used: one body of a request, one place of the key,\n"
         "one way to log in.\n",
         "    post: mail/send\n"
         "    body: {to: x}\n"
         "    text: hello\n",
         "    post: mail/send\n"
         "    body: {to: x, text: hello}\n"),
    PAGE("E113", "too many",
         "A workflow has at most 500 steps and 500 services.\n",
         "    steps: [...]                 # 501 of them\n",
         "    # split the workflow\n"),
    PAGE("E114", "no address of a service",
         "The address starts with http://, https:// or postgres:// and has a host. It has\n"
         "no query, fragment or template: the services a workflow can reach are fixed.\n",
         "    url: shop.example.com\n",
         "    url: https://shop.example.com\n"),
    PAGE("E115", "no name of a header",
         "A header is named by letters, digits and a few signs, without blanks.\n",
         "    headers: {\"X Trace\": a}\n",
         "    headers: {X-Trace: a}\n"),
    PAGE("E116", "an unknown service",
         "Every service an action uses is named under `services`, or in the daemon's\n"
         "configuration. A request needs an HTTP service, an SQL action a database.\n",
         "    post: paymets/charges\n",
         "    post: payments/charges\n"),
    PAGE("E117", "an address that cannot be used",
         "An address is SERVICE/PATH. The path has no query (that is `query`), no fragment\n"
         "and no empty or dot segments. Values in `${{ }}` are percent-encoded one by one.\n",
         "    get: https://shop.example.com/orders?id=${{ input.id }}\n",
         "    get: shop/orders\n"
         "    query: {id: \"${{ input.id }}\"}\n"),
    PAGE("E118", "a step that cannot be needed",
         "`needs` names steps that stand above, once each. So no circle can arise, and the\n"
         "file reads in the order in which it runs.\n",
         "    - id: pack\n"
         "      needs: [ship]\n"
         "    - id: ship\n",
         "    - id: pack\n"
         "    - id: ship\n"
         "      needs: [pack]\n"),
    PAGE("E119", "the key cannot go there",
         "A service that takes its key in the body names the field by a JSON pointer, and\n"
         "the action needs a JSON `body` to put it into.\n",
         "    idempotency: {body: key, ttl: 24h}\n",
         "    idempotency: {body: /key, ttl: 24h}\n"),
    PAGE("E120", "an SQL action that cannot work",
         "One statement, with as many `params` as it has `$1`, `$2`, ...; values are\n"
         "bound, never written into the statement. The engine begins and commits: in its\n"
         "own database together with the step's record.\n",
         "    sql: \"update stock set n = n - $1 where sku = $2; commit\"\n"
         "    params: [\"${{ input.n }}\"]\n",
         "    sql: \"update stock set n = n - $1 where sku = $2\"\n"
         "    params: [\"${{ input.n }}\", \"${{ input.sku }}\"]\n"),
    PAGE("E121", "a name that the engine sets",
         "The engine mints the key from durable state and sends it on every attempt; a key\n"
         "of your own would be another one after a crash. It also sets `Saga-*`,\n"
         "`traceparent`, `Host` and the headers of the connection, and `SAGA_*` in the\n"
         "environment of programs.\n",
         "    headers: {Idempotency-Key: \"${{ input.id }}\"}\n",
         "    idempotency: {header: Idempotency-Key, ttl: 24h}\n"),
    PAGE("E122", "an unknown keyword of JSON Schema",
         "The schema of `input` is a subset of JSON Schema. A rule that is not in it would\n"
         "not be checked, so it is refused.\n",
         "    email: {type: string, minLenght: 3}\n",
         "    email: {type: string, minLength: 3}\n"),
    PAGE("E123", "a keyword of JSON Schema with a wrong value",
         "The keyword is known, but its value cannot be used.\n",
         "    n: {type: int}\n"
         "    required: true\n",
         "    n: {type: integer}\n"
         "    required: [n]\n"),
    PAGE("E124", "a pattern that cannot be used",
         "Patterns are regular expressions without look-around, back references, \\b and\n"
         "\\p, because they are matched in linear time. A pattern matches anywhere in the\n"
         "text; anchor it with ^ and $.\n",
         "    pattern: \"^(?!test)[a-z]+$\"\n",
         "    pattern: \"^[a-z]+$\"\n"),
    PAGE("E125", "a $ref that leads nowhere",
         "`$ref` points into the same schema and must not lead back to itself.\n",
         "    a: {$ref: \"#/definitions/a\"}\n",
         "    $defs: {a: {type: string}}\n"
         "    properties: {a: {$ref: \"#/$defs/a\"}}\n"),
    PAGE("E126", "a template as a key",
         "The shape of a value is fixed by the file; templates only fill its values. So no\n"
         "input can change what is sent around it.\n",
         "    body: {\"${{ input.field }}\": 1}\n",
         "    body: {field: \"${{ input.field }}\", value: 1}\n"),
    PAGE("E127", "a template where a fixed text is needed",
         "Services, programs, statements and names are fixed, so that reading the file\n"
         "tells what a run can do. Values go into paths, queries, bodies, `params` and\n"
         "arguments.\n",
         "    sql: \"select * from ${{ input.table }}\"\n",
         "    sql: \"select * from orders where id = $1\"\n"
         "    params: [\"${{ input.id }}\"]\n"),
    PAGE("E128", "a cron expression that cannot be read",
         "Five fields: minute, hour, day of the month, month, day of the week. Each is\n"
         "`*`, a number, a range `a-b`, a step `*/n` or `a-b/n`, or a list of these with\n"
         "commas; months and weekdays have names, too (jan-dec, sun-sat). Seconds, years\n"
         "and letters such as `L` are not part of it, and a date that never comes is a\n"
         "mistake.\n",
         "    schedule: {cron: \"0 30 2 * * ?\"}\n"
         "    schedule: {cron: \"0 0 31 2 *\"}\n",
         "    schedule: {cron: \"30 2 * * *\", zone: Europe/Berlin}\n"
         "    schedule: {cron: \"0 0 28 2 *\"}\n"),
    PAGE("E129", "an input that cannot fit",
         "What a schedule or a `child` passes lacks a field that the workflow's `input`\n"
         "requires, or holds a value that cannot fit its schema, fixed or of a type that is\n"
         "known: every run that is started like this would be refused.\n",
         "    input: {type: object, required: [day]}\n"
         "    schedule: {cron: \"0 2 * * *\"}\n",
         "    input: {type: object, required: [day]}\n"
         "    schedule: {cron: \"0 2 * * *\", input: {day: \"${{ tick }}\"}}\n"),
    PAGE("E130", "an output that cannot fit",
         "The step declares with `output_schema` what its child does not give: the child's\n"
         "`output` lacks a field, or makes it of another type.\n",
         "    # the child: output: {charge_id: \"${{ steps.charge.output.id }}\"}\n"
         "    action: {child: pay}\n"
         "    output_schema: {type: object, required: [receipt]}\n",
         "    action: {child: pay}\n"
         "    output_schema: {type: object, required: [charge_id]}\n"),
    PAGE("E131", "a child that its parents do not fit any more",
         "A workflow that is applied already runs this one, and what it passes or reads does\n"
         "not fit the new version. A run starts its child by name, as it is current then, so\n"
         "the parent's next run would fail there. Apply both files together, or keep what\n"
         "the parent needs until it is applied anew.\n",
         "    sagactl apply pay.yaml\n",
         "    sagactl apply pay.yaml order.yaml\n"),
    PAGE("E132", "two files with one workflow",
         "Files that are applied together each define another workflow; which of two of one\n"
         "name would be current is nobody's wish.\n",
         "    sagactl apply order.yaml old/order.yaml\n",
         "    sagactl apply order.yaml\n"),
    PAGE("E201", "an expression that cannot be read",
         "Expressions are a small language: names, fields, literals, == != < <= > >= && ||\n"
         "! + - * ?: in, and a few functions. There is no division, because its results\n"
         "would not be exact.\n",
         "    if: input.total = 5 and input.kind == x\n",
         "    if: input.total == 5 && input.kind == 'x'\n"),
    PAGE("E202", "an unknown name",
         "A value starts with input, steps, run, key, response, env or secrets. A text\n"
         "needs quotes.\n",
         "    if: inputs.kind == express\n",
         "    if: input.kind == 'express'\n"),
    PAGE("E203", "an unknown step",
         "The expression reads a step that the workflow does not have.\n",
         "    body: {charge: \"${{ steps.chrage.output.id }}\"}\n",
         "    body: {charge: \"${{ steps.charge.output.id }}\"}\n"),
    PAGE("E204", "an unknown field",
         "The input's schema declares its fields, and this is none of them; or the value\n"
         "has no fields. A schema that allows more says `additionalProperties: true`.\n",
         "    to: ${{ input.emial }}\n",
         "    to: ${{ input.email }}\n"),
    PAGE("E205", "a step that cannot have run",
         "Only steps that are done for certain can be read: those that this one needs,\n"
         "directly or not. A compensation may read its own step, too.\n",
         "    - id: pack\n"
         "      action: {post: shop/pack, body: {n: \"${{ steps.ship.output.n }}\"}}\n"
         "    - id: ship\n",
         "    - id: ship\n"
         "    - id: pack\n"
         "      action: {post: shop/pack, body: {n: \"${{ steps.ship.output.n }}\"}}\n"),
    PAGE("E206", "an operation on the wrong type",
         "The schema says what types the input has, and this operation cannot work on\n"
         "them. Nothing is converted silently: string(x), int(x), timestamp(x) and\n"
         "duration(x) do it where it is meant.\n",
         "    if: input.count > '5'\n",
         "    if: input.count > 5\n"),
    PAGE("E207", "an unknown function",
         "The functions are listed in dsl/README.md.\n",
         "    ${{ lower(input.email) }}\n",
         "    ${{ input.email.lowerAscii() }}\n"),
    PAGE("E208", "a function called in another way than it is made for",
         "Functions of CEL that are called on a value stay so (`x.contains(y)`); the\n"
         "others take it in brackets (`size(x)`). has() asks for a path. Loops name their\n"
         "item first: `list.all(x, x > 0)`.\n",
         "    if: contains(input.email, \"@\")\n",
         "    if: input.email.contains(\"@\")\n"),
    PAGE("E209", "a name that is not known here",
         "`response` is the answer to an action, so only `outcomes` know it; `key` is the\n"
         "key of the action that is rendered; `now()` needs a step.\n",
         "    if: response.status == 404\n",
         "    outcomes:\n"
         "      - {when: \"response.status == 404\", is: applied}\n"),
    PAGE("E210", "a secret where it would be stored",
         "Bodies, paths, queries, ids, conditions and outputs are stored and shown.\n"
         "Secrets are put in at the last moment, and only in `auth`, `sign`, `headers` and in\n"
         "`env` of an exec.\n",
         "    body: {token: \"${{ secrets.api_token }}\"}\n",
         "    headers: {Authorization: \"Bearer ${{ secrets.api_token }}\"}\n"),
    PAGE("E211", "a template that is not closed",
         "A template starts with `${{` and ends with `}}`. The text `${{` itself is\n"
         "written `$${{`.\n",
         "    note: \"${{ input.note }\"\n",
         "    note: \"${{ input.note }}\"\n"),
    PAGE("E212", "a list or object where a text is needed",
         "Inside other text, and in paths, headers and arguments, a value must be a text,\n"
         "number or boolean. json(x) writes any value as text.\n",
         "    note: \"items: ${{ [1, 2] }}\"\n",
         "    note: \"items: ${{ json([1, 2]) }}\"\n"),
    PAGE("E213", "a secret inside an expression",
         "The engine works with the names of secrets, never with their values, so it\n"
         "cannot compare or change them.\n",
         "    if: size(secrets.token) > 0\n",
         "    headers: {X-Token: \"${{ secrets.token }}\"}\n"),
    PAGE("E214", "omit where nothing can be left out",
         "`omit` leaves out a field of an object, an item of a list, a header or a\n"
         "parameter. It cannot leave out a part of a text, a path or the whole body of a\n"
         "run.\n",
         "    note: \"dear ${{ default(input.name, omit) }}\"\n",
         "    note: \"dear ${{ default(input.name, 'customer') }}\"\n"),
    PAGE("E215", "a name that workflows may not read",
         "`env.NAME` reads only what the daemon's configuration lists under `env`.\n",
         "    ${{ env.HOME }}\n",
         "    env: [REGION]                # in the daemon's configuration\n"
         "    ${{ env.REGION }}\n"),
    PAGE("E216", "the template of another tool",
         "This is plain text here and would be sent as it is.\n",
         "    to: \"${input.email}\"\n",
         "    to: \"${{ input.email }}\"\n"),
    PAGE("E217", "an unknown time zone",
         "Zones are those of the system's zone database (package tzdata), by their full\n"
         "name. Abbreviations such as CEST name no zone: they hold for half a year, and\n"
         "more than one place has them.\n",
         "    until: \"timestamp('2026-10-25T09:00', 'CEST')\"\n"
         "    schedule: {cron: \"0 9 * * *\", zone: Berlin}\n",
         "    until: \"timestamp('2026-10-25T09:00', 'Europe/Berlin')\"\n"
         "    schedule: {cron: \"0 9 * * *\", zone: Europe/Berlin}\n"),
    PAGE("W208", "a local time that the clocks skip or show twice",
         "Where clocks are set forward, a local time in the gap counts as if they had not\n"
         "been: 02:30 becomes 03:30. Where they are set back, an hour comes twice, and the\n"
         "first is taken. An offset says which moment is meant.\n",
         "    until: \"timestamp('2026-10-25T02:30:00', 'Europe/Berlin')\"\n",
         "    until: \"timestamp('2026-10-25T02:30:00+01:00')\"\n"),
    PAGE("W202", "what looks like a template of another tool",
         "It is sent as it is. That is right if the service fills it in, and wrong if you\n"
         "meant it as a template.\n",
         "    text: \"Dear {{name}}\"\n",
         "    text: \"Dear ${{ input.name }}\"\n"),
    PAGE("W203", "the output of a step that may have none",
         "A step that was skipped by its `if`, or whose failure is no hindrance, has no\n"
         "output. Reading it then makes this step fail.\n",
         "    note: ${{ steps.gift.output.id }}\n",
         "    note: ${{ default(steps.gift.output.id, omit) }}\n"),
    PAGE("W204", "a value inside a shell script",
         "A shell runs whatever the value says. An argument or an environment entry is\n"
         "only data.\n",
         "    exec: [sh, -c, \"echo ${{ input.name }}\"]\n",
         "    exec: [sh, -c, \"echo \\\"$NAME\\\"\"]\n"
         "    env: {NAME: \"${{ input.name }}\"}\n"),
    PAGE("W205", "a run id that is always the same",
         "The id decides which submits are the same run. Without a value of the input, all\n"
         "of them are.\n",
         "    run_id: order\n",
         "    run_id: order-${{ input.order_id }}\n"),
    PAGE("W206", "a secret in the file",
         "The file is stored and shown as it is. A secret belongs into the daemon's\n"
         "configuration.\n",
         "    auth: {bearer: \"s3cr3t\"}\n",
         "    auth: {bearer: \"${{ secrets.payments_token }}\"}\n"),
    PAGE("W207", "a service without an address",
         "Neither the file nor the daemon's configuration says where the service is, so\n"
         "its actions cannot be sent. Name it in one of them.\n",
         "    services: {shop: {}}\n",
         "    services: {shop: {url: \"https://shop.example.com\"}}\n"),
    PAGE("E301", "an effect without compensation",
         "The step changes something and the run may have to turn back after it. Say what\n"
         "undoes it, or why nothing has to be undone, or that the action only reads.\n",
         "    - id: charge\n"
         "      action: {post: payments/charges}\n",
         "    - id: charge\n"
         "      action: {post: payments/charges}\n"
         "      compensate: {post: payments/refunds}\n"),
    PAGE("E302", "`none` without a reason",
         "Whoever looks at the residue of a run at night reads this text. It says why\n"
         "nothing is undone.\n",
         "    compensate: none\n",
         "    compensate: {none: \"the hold expires after an hour\"}\n"),
    PAGE("E303", "a compensation where nothing happens",
         "A pause changes nothing, so there is nothing to undo; and it undoes nothing.\n",
         "    action: {sleep: 5m}\n"
         "    compensate: {post: shop/wake}\n",
         "    action: {sleep: 5m}\n"),
    PAGE("E304", "a compensation that would never run",
         "Pure steps have no effect, and irreversible ones cannot be undone; a\n"
         "compensation there would be ignored. One of the two is not what you mean.\n",
         "    effect: irreversible\n"
         "    action: {post: mail/messages}\n"
         "    compensate: {post: mail/apologies}\n",
         "    effect: compensable\n"
         "    action: {post: mail/messages}\n"
         "    compensate: {post: mail/apologies}\n"),
    PAGE("E305", "a best-effort step as a pivot",
         "A pivot says that the run only goes forward once the step is applied. A step\n"
         "whose failure is no hindrance cannot promise that.\n",
         "    on_failure: continue\n"
         "    pivot: true\n",
         "    on_failure: continue\n"),
    PAGE("E306", "retries of a compensation that does not exist",
         "There is no compensation to retry.\n",
         "    effect: irreversible\n"
         "    compensate_retry: {attempts: 20}\n",
         "    effect: irreversible\n"),
    PAGE("E308", "a question about what is never unknown",
         "A statement in the engine's own database commits with its record, what became of\n"
         "a child is known, and waiting has no effect: there is nothing to find out.\n",
         "    action: {sql: \"insert into paid values ($1)\", params: [\"${{ input.id }}\"]}\n"
         "    reconcile: {sql: \"select from paid\", applied: response.count > 0}\n",
         "    action: {sql: \"insert into paid values ($1)\", params: [\"${{ input.id }}\"]}\n"),
    PAGE("E309", "an irreversible action repeated blindly",
         "After an unknown outcome an irreversible action may have happened, and nothing\n"
         "takes it back. Only what is proven not applied may be sent again.\n",
         "    effect: irreversible\n"
         "    on_unknown: retry\n",
         "    effect: irreversible\n"
         "    reconcile:\n"
         "      get: mail/messages\n"
         "      query: {reference: \"${{ key }}\"}\n"
         "      applied: size(response.body.items) > 0\n"
         "      not_applied: size(response.body.items) == 0\n"),
    PAGE("E310", "a step that need not be held back",
         "`hold` sends an irreversible step only when nothing is left that could turn the\n"
         "run back. What can be undone is undone instead.\n",
         "    - id: reserve\n"
         "      hold: true\n"
         "      action: {post: stock/reservations}\n"
         "      compensate: {delete: stock/reservations/1}\n",
         "    - id: payout\n"
         "      effect: irreversible\n"
         "      hold: true\n"
         "      action: {post: bank/payouts}\n"),
    PAGE("W318", "a repeat that can be executed twice",
         "`on_unknown: retry` sends the same bytes again although the first ones may have\n"
         "been carried out, to a service that does not say that it honours keys.\n",
         "    services: {pay: {url: \"https://pay\", idempotency: none}}\n"
         "    steps:\n"
         "      - id: charge\n"
         "        on_unknown: retry\n",
         "    services: {pay: {url: \"https://pay\", idempotency: {header: Idempotency-Key, ttl: 24h}}}\n"
         "    steps:\n"
         "      - id: charge\n"),
    PAGE("W301", "a step that can fail after the pivot",
         "Past the pivot the run cannot turn back. A failure for good leaves it parked\n"
         "until a person decides.\n",
         "    - id: send_money\n"
         "      effect: irreversible\n"
         "    - id: book\n"
         "      action: {post: ledger/entries}\n",
         "    - id: send_money\n"
         "      effect: irreversible\n"
         "    - id: book\n"
         "      on_failure: park\n"
         "      action: {post: ledger/entries}\n"),
    PAGE("W302", "an irreversible step too early",
         "When a later step fails, the run turns back and this effect stays in the\n"
         "residue. Order the steps by reversibility: what can be undone first, what cannot\n"
         "last.\n",
         "    - id: mail\n"
         "      effect: irreversible\n"
         "      on_failure: continue\n"
         "    - id: charge\n",
         "    - id: charge\n"
         "    - id: mail\n"
         "      effect: irreversible\n"
         "      on_failure: continue\n"),
    PAGE("W303", "a pivot beside a branch that can be undone",
         "If the branch fails after the pivot was applied, neither direction is open and\n"
         "the run parks.\n",
         "    - id: reserve\n"
         "    - id: pay\n"
         "      needs: []\n"
         "      effect: irreversible\n",
         "    - id: reserve\n"
         "    - id: pay\n"
         "      needs: [reserve]\n"
         "      effect: irreversible\n"),
    PAGE("W304", "a compensation that may lack what it needs",
         "When an answer is lost, the step has no output. If its outcome cannot be found\n"
         "out either, the compensation cannot be rendered and the run parks. Undo by a\n"
         "reference that you chose yourself.\n",
         "    action: {post: shop/orders}\n"
         "    compensate: {delete: \"shop/orders/${{ steps.order.output.id }}\"}\n",
         "    action: {post: shop/orders, body: {ref: \"${{ run.id }}\"}}\n"
         "    compensate: {delete: \"shop/orders/${{ run.id }}\"}\n"),
    PAGE("W305", "retries that cannot follow an unknown outcome",
         "Without keys at the service a lost answer is never followed by a second send: it\n"
         "could apply the effect twice. These retries only serve certain failures, such as\n"
         "503.\n",
         "    services: {shop: {url: \"http://shop\"}}\n"
         "    # ...\n"
         "    retry: {attempts: 5}\n",
         "    services: {shop: {url: \"http://shop\", idempotency: {header: Idempotency-Key, ttl: 24h}}}\n"
         "    # ...\n"
         "    retry: {attempts: 5}\n"),
    PAGE("W306", "retries that outlive the key",
         "After its ttl the service has forgotten the key, so nothing is sent again.\n",
         "    idempotency: {header: Idempotency-Key, ttl: 30m}\n"
         "    # ...\n"
         "    retry: {budget: 1h}\n",
         "    idempotency: {header: Idempotency-Key, ttl: 30m}\n"
         "    # ...\n"
         "    retry: {budget: 20m}\n"),
    PAGE("W307", "retries under retries",
         "Retries of several layers multiply (3 x 3 x 3 = 27 sends), and only the\n"
         "outermost one holds the key. Leave them to the engine.\n",
         "    exec: [curl, --retry, \"5\", \"https://shop/orders\"]\n",
         "    exec: [curl, \"https://shop/orders\"]\n"
         "    retry: {attempts: 5}\n"),
    PAGE("W308", "a budget without a second attempt",
         "The first attempt may take as long as the whole budget, and then none is left.\n",
         "    timeout: 30s\n"
         "    retry: {attempts: 5, budget: 20s}\n",
         "    timeout: 5s\n"
         "    retry: {attempts: 5, budget: 1m}\n"),
    PAGE("W309", "a step that never runs",
         "Its condition is false for every input.\n",
         "    if: false\n",
         "    if: input.express\n"),
    PAGE("W310", "a write that is called pure",
         "Pure steps are repeated freely and never undone.\n",
         "    effect: pure\n"
         "    action: {delete: shop/carts/1}\n",
         "    effect: idempotent\n"
         "    action: {delete: shop/carts/1}\n"),
    PAGE("E312", "a dry run that cannot be one",
         "A `dry_run` is one HTTP request that shows what the action would do. A program, a\n"
         "statement, a worker's task or a child could leave something behind, and a step\n"
         "without an effect has nothing to show.\n",
         "    action: {post: shop/orders}\n"
         "    dry_run: {exec: [preview]}\n",
         "    action: {post: shop/orders}\n"
         "    dry_run: {post: shop/orders/preview}\n"),
    PAGE("E313", "a dry run that makes the effect",
         "Method, path, query and body are those of the action, so the service would do what\n"
         "it is only to show. A header is no difference: a service that does not know it\n"
         "passes over it.\n",
         "    action: {post: shop/orders, body: {sku: \"${{ input.sku }}\"}}\n"
         "    dry_run: {post: shop/orders, body: {sku: \"${{ input.sku }}\"}}\n",
         "    action: {post: shop/orders, body: {sku: \"${{ input.sku }}\"}}\n"
         "    dry_run: {post: shop/orders, query: {dry_run: true}, body: {sku: \"${{ input.sku }}\"}}\n"),
    PAGE("E314", "a dry run with a key",
         "The service would remember the answer under the key, or take the key for that of an\n"
         "effect. A dry run may be asked for any number of times; nothing is claimed for it.\n",
         "    action: {post: shop/orders, idempotency: {query: request}}\n"
         "    dry_run: {post: shop/previews, query: {request: \"${{ run.id }}\"}}\n",
         "    action: {post: shop/orders, idempotency: {query: request}}\n"
         "    dry_run: {post: shop/previews}\n"),
    PAGE("W311", "effects without a business key",
         "Whoever submits again after a lost answer gets a second run with all its\n"
         "effects, unless `run_id` says which submits are the same.\n",
         "    workflow: order\n"
         "    steps: [...]\n",
         "    workflow: order\n"
         "    run_id: order-${{ input.order_id }}\n"
         "    steps: [...]\n"),
    PAGE("E307", "workflows that start each other without end",
         "A workflow runs itself as a child, directly or through others, and no condition\n"
         "ever stops it.\n",
         "    workflow: tree\n"
         "    steps:\n"
         "      - {id: deeper, action: {child: tree}}\n",
         "    workflow: tree\n"
         "    steps:\n"
         "      - {id: deeper, if: size(input.parts) > 0, action: {child: tree, input: {...}}}\n"),
    PAGE("W315", "a child that is not known",
         "No workflow of this name is among the files that were looked at, nor known to\n"
         "the daemon. It may be applied later; a run that comes to the step before that is\n"
         "refused there.\n",
         "    action: {child: bookin}\n",
         "    action: {child: booking}\n"),
    PAGE("W316", "a wait that outlives the deadline",
         "The deadline limits the whole forward walk up to the pivot, waits included. When\n"
         "it ends the run turns back, before the wait does.\n",
         "    deadline: 10m\n"
         "    # ...\n"
         "    - {id: pause, action: {sleep: 30m}}\n",
         "    deadline: 1h\n"
         "    # ...\n"
         "    - {id: pause, action: {sleep: 30m}}\n"),
    PAGE("W317", "missed ticks that are skipped",
         "`catch_up: all` makes a run for each tick that nobody was there for, one right\n"
         "after the other. `overlap: skip`, the default, skips a tick while the run before\n"
         "it is open, so that of several missed ticks only the first one may get its run.\n",
         "    schedule: {cron: \"30 3 * * *\", catch_up: all}\n",
         "    schedule: {cron: \"30 3 * * *\", catch_up: all, overlap: queue}\n"
         "    # or, if one run makes up for all that was missed:\n"
         "    schedule: {cron: \"30 3 * * *\", catch_up: last}\n"),
    PAGE("W319", "a parent that does not fit",
         "A workflow that is applied already runs this one and does not fit it; nor did it\n"
         "fit before, so nothing gets worse. Its runs fail at that step until it is applied\n"
         "anew.\n",
         "    sagactl apply pay.yaml\n",
         "    sagactl apply pay.yaml order.yaml\n"),
    PAGE("W312", "a loop whose instances have no names",
         "Without `key_by` an instance is named by its place in the list. If the list is\n"
         "fetched again and comes in another order, the place says nothing about the item.\n",
         "    for_each: steps.find.output.orders\n"
         "    action: {post: shop/invoices, body: {order: \"${{ item.id }}\"}}\n",
         "    for_each: steps.find.output.orders\n"
         "    key_by: item.id\n"
         "    action: {post: shop/invoices, body: {order: \"${{ item.id }}\"}}\n"),
    PAGE("W313", "a join that opens without a branch",
         "Skipped steps and failed ones with `on_failure: continue` count as done, so what\n"
         "needs them runs without what they should have brought.\n",
         "    - {id: discount, if: input.member, needs: [], action: {...}}\n"
         "    - {id: price, needs: [], action: {...}}\n"
         "    - {id: charge, needs: [discount, price], action: {...}}\n",
         "    - id: charge\n"
         "      needs: [discount, price]\n"
         "      if: \"steps.discount.state == 'applied' || !input.member\"\n"
         "      action: {...}\n"),
    PAGE("W314", "a write that can be executed twice",
         "A timeout, and a 500, 502 or 504, leave open whether the service did it. Sending\n"
         "again is safe only where the service honours the key, or where a repeat does no\n"
         "harm. `retryable` means: certainly not applied.\n",
         "    services: {shop: {url: \"http://shop\"}}\n"
         "    # ...\n"
         "    action:\n"
         "      post: shop/orders\n"
         "      outcomes: [{when: response.status >= 500, is: retryable}]\n",
         "    services: {shop: {url: \"http://shop\", idempotency: {header: Idempotency-Key, ttl: 24h}}}\n"
         "    # ...\n"
         "    action: {post: shop/orders}     # 503 is retried, 500 is sent again with its key\n"),
    PAGE("E401", "a test that names an unknown step",
         "Answers, calls and expectations name steps of the workflow, a loop's items as\n"
         "STEP.ITEM, compensations as STEP:compensate.\n",
         "    answers: {chrage: {status: 402}}\n",
         "    answers: {charge: {status: 402}, \"charge:compensate\": {status: 200}}\n"),
    PAGE("E402", "a test whose input does not fit the schema",
         "Such a run would be refused at submit and there would be nothing to play.\n",
         "    input: {order_id: 7}\n",
         "    input: {order_id: ORD-000007}\n"),
    PAGE("E403", "a test that says what cannot be",
         "An answer belongs to the kind of its action, a wait has none, and a test that\n"
         "expects nothing cannot fail.\n",
         "    answers: {charge: {exit: 1}}     # charge is a request\n"
         "    expect: {takes: soon}\n",
         "    answers: {charge: {status: 402}}\n"
         "    expect: {takes: \"< 2m\"}\n"),
    PAGE("E404", "two tests of one name",
         "A test is known by its name, in reports and in the heads of people.\n",
         "    tests:\n"
         "      - {name: it works, expect: {state: completed}}\n"
         "      - {name: it works, expect: {state: compensated}}\n",
         "    tests:\n"
         "      - {name: an order goes through, expect: {state: completed}}\n"
         "      - {name: a declined card turns back, expect: {state: compensated}}\n"),
    /* clang-format on */
};

const char *dsl_explain(const char *code)
{
    for (size_t i = 0; i < ARRAY_LEN(pages); i++)
        if (strcmp(code, pages[i].code) == 0)
            return pages[i].page;
    return NULL;
}
