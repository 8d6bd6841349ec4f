#include "dsl/schema.h"

#define R LANG_REQUIRED
#define P LANG_PLANNED
#define K LANG_KIND

/* A choice that is written `!x` is planned. */
#define EFFECTS "pure|idempotent|compensable|irreversible"
#define OUTCOME_WORDS "applied|refused|retryable|in_progress|unknown|conflict"

#define STEP_WORDS "none|pending|claimed|retrying|waiting|unknown|applied|refused|skipped|withdrawn"
#define CHILD_WORDS "completed|compensated|abandoned|refused"
#define TEST_VERBS "cancel|pause|resume|retry|settle|skip|compensate|abandon|approve|reject"

/* In the order of the groups: see lang_group_keys. */
const struct lang_key lang_keys[] = {
    {LANG_WORKFLOW, "workflow", LANG_NAME, 0, R, NULL, NULL, NULL, "The workflow's name."},
    {LANG_WORKFLOW, "description", LANG_TEXT, 0, 0, NULL, NULL, NULL,
     "One line, shown by `list` and to agents."},
    {LANG_WORKFLOW, "version", LANG_TEXT, 0, 0, NULL, NULL, "the content's hash",
     "A label; changed content under the same label is refused."},
    {LANG_WORKFLOW, "input", LANG_JSON_SCHEMA, 0, 0, NULL, NULL, "any object",
     "JSON Schema (a subset) of the input, checked at submit."},
    {LANG_WORKFLOW, "run_id", LANG_TEXT_TEMPLATE, 0, 0, NULL, NULL, "a UUIDv7 is made",
     "Template for the run id, the business key: the same id is the same run."},
    {LANG_WORKFLOW, "deadline", LANG_DURATION, 0, 0, NULL, NULL, NULL,
     "Wall-clock budget of the forward walk. Never limits the way back."},
    {LANG_WORKFLOW, "on_failure", LANG_CHOICE, 0, 0, NULL, "compensate|continue|park|repair",
     "compensate", "What a step that fails for good does to the run; each step may say its own."},
    {LANG_WORKFLOW, "services", LANG_GROUP_MAP, LANG_SERVICE, 0, NULL, NULL, NULL,
     "Every service that an action uses. The daemon's configuration wins over what is here."},
    {LANG_WORKFLOW, "defaults", LANG_GROUP, LANG_DEFAULTS, 0, NULL, NULL, NULL,
     "`timeout`, `retry` and `compensate_retry` for all steps."},
    {LANG_WORKFLOW, "steps", LANG_GROUP_LIST, LANG_STEP, R, NULL, NULL, NULL,
     "The steps, in order unless `needs` says otherwise."},
    {LANG_WORKFLOW, "output", LANG_TEMPLATE, 0, 0, NULL, NULL, "null",
     "Template of the run's result."},
    {LANG_WORKFLOW, "schedule", LANG_GROUP, LANG_SCHEDULE, 0, NULL, NULL, NULL,
     "Starts runs by the clock; the id of each is `WORKFLOW-20261025T023000Z`."},
    {LANG_WORKFLOW, "tests", LANG_GROUP_LIST, LANG_TEST, 0, NULL, NULL, NULL,
     "For `sagactl test`. Not part of the content's hash."},
    {LANG_WORKFLOW, "compensation_budget", LANG_DURATION, 0, 0, NULL, NULL, NULL,
     "Wall-clock budget of the backward walk; at its end the run is parked, never abandoned."},
    {LANG_WORKFLOW, "compensatable_for", LANG_DURATION, 0, 0, NULL, NULL, NULL,
     "How long a completed run may still be unwound on request."},
    {LANG_WORKFLOW, "retain", LANG_DURATION, 0, 0, NULL, NULL, "the daemon's `retain`",
     "How long a finished run's payloads and history are kept; how it ended outlives them."},
    {LANG_WORKFLOW, "lock", LANG_TEXT_TEMPLATE, 0, 0, NULL, NULL, NULL,
     "Submitted runs with the same value wait for each other, from the first step to the end."},
    {LANG_WORKFLOW, "mcp", LANG_BOOLEAN, 0, P, NULL, NULL, NULL, "Offers the workflow to agents."},

    {LANG_SERVICE, "url", LANG_TEXT, 0, 0, NULL, NULL, "the daemon's configuration",
     "Base address: `http://`, `https://` or `postgres://`."},
    {LANG_SERVICE, "headers", LANG_TEMPLATE_MAP, 0, 0, NULL, NULL, NULL,
     "Headers of every request."},
    {LANG_SERVICE, "auth", LANG_GROUP, LANG_AUTH, 0, NULL, NULL, NULL,
     "How the service knows us. Secrets are written `${{ secrets.NAME }}`."},
    {LANG_SERVICE, "sign", LANG_GROUP, LANG_SIGN, 0, NULL, NULL, "not signed",
     "Signs each request, so that the service can tell who sent it and that it is whole."},
    {LANG_SERVICE, "timeout", LANG_DURATION, 0, 0, NULL, NULL, NULL,
     "Of one attempt, for steps that name none."},
    {LANG_SERVICE, "outcomes", LANG_GROUP_LIST, LANG_OUTCOME, 0, NULL, NULL, NULL,
     "Maps answers to outcomes, for all actions of the service."},
    {LANG_SERVICE, "idempotency", LANG_NONE_OR_GROUP, LANG_IDEMPOTENCY, 0, NULL, NULL,
     "header Idempotency-Key, not honoured",
     "How the service takes the idempotency key. Of a database with saga_guard: `ttl` alone."},
    {LANG_SERVICE, "limits", LANG_GROUP, LANG_LIMITS, 0, NULL, NULL, "none",
     "How much is sent to the service."},
    {LANG_SERVICE, "breaker", LANG_GROUP, LANG_BREAKER, 0, NULL, NULL, "none",
     "When nothing is sent to it for a while, because it fails."},

    {LANG_AUTH, "bearer", LANG_TEXT_TEMPLATE, 0, 0, NULL, NULL, NULL, "A bearer token."},
    {LANG_AUTH, "basic", LANG_GROUP, LANG_BASIC, 0, NULL, NULL, NULL, "HTTP basic."},
    {LANG_AUTH, "oauth2", LANG_GROUP, LANG_OAUTH2, 0, NULL, NULL, NULL,
     "OAuth 2 client credentials."},

    {LANG_BASIC, "user", LANG_TEXT_TEMPLATE, 0, R, NULL, NULL, NULL, "The user."},
    {LANG_BASIC, "password", LANG_TEXT_TEMPLATE, 0, R, NULL, NULL, NULL, "The password."},

    {LANG_OAUTH2, "token_url", LANG_TEXT, 0, R, NULL, NULL, NULL, "Where tokens are fetched."},
    {LANG_OAUTH2, "client_id", LANG_TEXT_TEMPLATE, 0, R, NULL, NULL, NULL, "Who we are there."},
    {LANG_OAUTH2, "client_secret", LANG_TEXT_TEMPLATE, 0, R, NULL, NULL, NULL, "Our secret there."},
    {LANG_OAUTH2, "scope", LANG_TEXT, 0, 0, NULL, NULL, NULL, "Scopes, with blanks between them."},

    {LANG_SIGN, "hmac", LANG_TEXT_TEMPLATE, 0, R, NULL, NULL, NULL,
     "The secret that both sides know, `${{ secrets.NAME }}`, of HMAC-SHA256."},

    {LANG_IDEMPOTENCY, "header", LANG_TEXT, 0, 0, NULL, NULL, NULL, "The header's name."},
    {LANG_IDEMPOTENCY, "query", LANG_TEXT, 0, 0, NULL, NULL, NULL, "The query parameter's name."},
    {LANG_IDEMPOTENCY, "body", LANG_TEXT, 0, 0, NULL, NULL, NULL,
     "JSON pointer of the field in the body, such as `/idempotency_key`."},
    {LANG_IDEMPOTENCY, "format", LANG_CHOICE, 0, 0, NULL, "plain|uuid|sha256", "plain",
     "How the key is written, for services with shorter limits."},
    {LANG_IDEMPOTENCY, "ttl", LANG_DURATION, 0, 0, NULL, NULL, "not honoured",
     "How long the service remembers a key. Without it nothing relies on the key."},
    {LANG_IDEMPOTENCY, "settle_after", LANG_DURATION, 0, 0, NULL, NULL, "0s",
     "How long after an attempt the service may still apply it."},
    {LANG_IDEMPOTENCY, "on_stored_failure", LANG_CHOICE, 0, 0, NULL, "same|next", "next",
     "Whether a person's retry of a refusal takes the next key, because the service replays what "
     "it stored under the old one, or the same."},

    {LANG_LIMITS, "in_flight", LANG_COUNT, 0, 0, NULL, NULL, "any number",
     "Requests that are on their way at the same time."},
    {LANG_LIMITS, "rate", LANG_RATE, 0, 0, NULL, NULL, "any number",
     "Requests in a second, minute or hour, evenly spread."},
    {LANG_LIMITS, "retry_share", LANG_PERCENT, 0, 0, NULL, NULL, "20%",
     "Repeats of actions on top of the first tries of the last minute; 10 a minute are allowed "
     "always."},

    {LANG_BREAKER, "failures", LANG_COUNT, 0, R, NULL, NULL, NULL,
     "So many failures within `window` open it."},
    {LANG_BREAKER, "window", LANG_DURATION, 0, 0, NULL, NULL, "30s", "See `failures`."},
    {LANG_BREAKER, "open_for", LANG_DURATION, 0, 0, NULL, NULL, "15s",
     "How long nothing is sent, until one request tries."},

    {LANG_DEFAULTS, "timeout", LANG_DURATION, 0, 0, NULL, NULL, "30s", "Of one attempt."},
    {LANG_DEFAULTS, "retry", LANG_GROUP, LANG_RETRY, 0, NULL, NULL, NULL, "Of actions."},
    {LANG_DEFAULTS, "compensate_retry", LANG_GROUP, LANG_RETRY, 0, NULL, NULL, NULL,
     "Of compensations."},

    {LANG_STEP, "id", LANG_STEP_ID, 0, R, NULL, NULL, NULL, "The step's name in the workflow."},
    {LANG_STEP, "effect", LANG_CHOICE, 0, 0, NULL, EFFECTS,
     "pure for `get`, `sleep`, `until` and `wait_for`, else compensable",
     "What the action does to the world."},
    {LANG_STEP, "action", LANG_GROUP, LANG_ACTION, R, NULL, NULL, NULL,
     "What to do: exactly one action."},
    {LANG_STEP, "compensate", LANG_GROUP, LANG_COMPENSATE, 0, NULL, NULL, NULL,
     "What undoes it. Required for idempotent and compensable steps before a pivot; a `child` is "
     "undone by its own compensations."},
    {LANG_STEP, "needs", LANG_STEP_IDS, 0, 0, NULL, NULL, "the step before",
     "Steps that must be done first; `[]` starts at once."},
    {LANG_STEP, "if", LANG_EXPRESSION, 0, 0, NULL, NULL, "true", "False: the step is skipped."},
    {LANG_STEP, "for_each", LANG_EXPRESSION, 0, 0, NULL, NULL, NULL,
     "A list of at most 10,000 items: the step runs once for each, with `item` and `index`."},
    {LANG_STEP, "key_by", LANG_EXPRESSION, 0, 0, NULL, NULL, "the item's place",
     "Of a `for_each`: names each instance by its item, so that keys survive another order."},
    {LANG_STEP, "max_parallel", LANG_COUNT, 0, 0, NULL, NULL, "1",
     "Of a `for_each`: how many instances may be in motion, 1 to 10,000."},
    {LANG_STEP, "timeout", LANG_DURATION, 0, 0, NULL, NULL,
     "the service's, else the default; none for `wait_for` and `child`",
     "Of one attempt; of a `wait_for`, until the signal must have come."},
    {LANG_STEP, "retry", LANG_GROUP, LANG_RETRY, 0, NULL, NULL, NULL, "Of the action."},
    {LANG_STEP, "compensate_retry", LANG_GROUP, LANG_RETRY, 0, NULL, NULL, NULL,
     "Of the compensation."},
    {LANG_STEP, "on_failure", LANG_CHOICE, 0, 0, NULL, "compensate|continue|park|repair",
     "the workflow's",
     "What follows when the step fails for good: turn back, go on (best effort), wait for a "
     "person, or wait for corrected input (`retry --input`, `--step-input`)."},
    {LANG_STEP, "pivot", LANG_BOOLEAN, 0, 0, NULL, NULL,
     "true for irreversible steps without `on_failure: continue`",
     "Once applied the run only goes forward."},
    {LANG_STEP, "hold", LANG_BOOLEAN, 0, 0, NULL, NULL, "false",
     "Of an irreversible step: it is sent only once every other step that does not need it is "
     "done, so that nothing is left that could turn the run back."},
    {LANG_STEP, "output_schema", LANG_JSON_SCHEMA, 0, 0, NULL, NULL, "anything",
     "JSON Schema (a subset) of the output; a misfit is recorded, the step stays applied."},
    {LANG_STEP, "reconcile", LANG_GROUP, LANG_RECONCILE, 0, NULL, NULL, NULL,
     "How to ask whether the action was applied, before anything is repeated."},
    {LANG_STEP, "on_unknown", LANG_CHOICE, 0, 0, NULL, "reconcile|retry|compensate|continue|park",
     "by the tier: repeat, ask or park",
     "What follows an unknown outcome, instead of what the tier says."},
    {LANG_STEP, "approve", LANG_GROUP, LANG_APPROVE, 0, NULL, NULL, NULL,
     "A person must approve the exact rendered request before it is sent."},
    {LANG_STEP, "dry_run", LANG_GROUP, LANG_DRY_RUN, 0, NULL, NULL, NULL,
     "A request that shows the effect without making it."},

#define HTTP_METHOD(name, does)                                                                \
    {                                                                                          \
        LANG_ACTION, name, LANG_ADDRESS, 0, K, "http", NULL, NULL,                             \
            "HTTP " does " `SERVICE/PATH`; values in the path are percent-encoded one by one." \
    }
    HTTP_METHOD("get", "GET"),
    HTTP_METHOD("post", "POST"),
    HTTP_METHOD("put", "PUT"),
    HTTP_METHOD("patch", "PATCH"),
    HTTP_METHOD("delete", "DELETE"),
#undef HTTP_METHOD
    {LANG_ACTION, "sql", LANG_TEXT, 0, K, "sql", NULL, NULL,
     "One SQL statement with `$1`, `$2`; values only as bound `params`."},
    {LANG_ACTION, "exec", LANG_TEMPLATES, 0, K, "exec", NULL, NULL,
     "Program and arguments as a list; never a shell."},
    {LANG_ACTION, "sleep", LANG_DURATION_TEMPLATE, 0, K, "sleep", NULL, NULL,
     "Waits that long, durably."},
    {LANG_ACTION, "until", LANG_EXPRESSION, 0, K, "until", NULL, NULL,
     "Waits until a time, durably: an expression that gives a time or its RFC 3339 text."},
    {LANG_ACTION, "wait_for", LANG_NAME, 0, K, "wait_for", NULL, NULL,
     "Waits for a signal of that name; its data is the output."},
    {LANG_ACTION, "worker", LANG_NAME, 0, K, "worker", NULL, NULL,
     "A task in that queue, for programs that poll; what they complete with is the output."},
    {LANG_ACTION, "child", LANG_NAME, 0, K, "child", NULL, NULL,
     "Runs another workflow, whose output is the step's; it undoes itself."},
    {LANG_ACTION, "query", LANG_TEMPLATE_MAP, 0, 0, "http", NULL, NULL,
     "Query parameters, percent-encoded one by one."},
    {LANG_ACTION, "headers", LANG_TEMPLATE_MAP, 0, 0, "http", NULL, NULL,
     "Headers, after the service's."},
    {LANG_ACTION, "body", LANG_TEMPLATE, 0, 0, "http", NULL, NULL, "JSON body."},
    {LANG_ACTION, "form", LANG_TEMPLATE_MAP, 0, 0, "http", NULL, NULL, "Form body."},
    {LANG_ACTION, "text", LANG_TEXT_TEMPLATE, 0, 0, "http", NULL, NULL, "Plain text body."},
    {LANG_ACTION, "idempotency", LANG_NONE_OR_GROUP, LANG_IDEMPOTENCY, 0, "http worker", NULL,
     "the service's",
     "How the key is passed, for this action alone. A worker gets it with its task: only `ttl`."},
    {LANG_ACTION, "params", LANG_TEMPLATES, 0, 0, "sql", NULL, NULL,
     "Values of `$1`, `$2`, ... in order."},
    {LANG_ACTION, "service", LANG_TEXT, 0, 0, "sql", NULL, "the engine's own database",
     "A service with a `postgres://` address."},
    {LANG_ACTION, "env", LANG_TEMPLATE_MAP, 0, 0, "exec", NULL, NULL,
     "Environment of the program."},
    {LANG_ACTION, "stdin", LANG_TEMPLATE, 0, 0, "exec", NULL, NULL, "Standard input, as JSON."},
    {LANG_ACTION, "outcomes", LANG_GROUP_LIST, LANG_OUTCOME, 0, "http sql exec worker", NULL, NULL,
     "Maps answers to outcomes."},
    {LANG_ACTION, "on_timeout", LANG_CHOICE, 0, 0, "wait_for", "refused|continue|park", "refused",
     "What follows when the signal has not come within the step's `timeout`."},
    {LANG_ACTION, "payload", LANG_TEMPLATE, 0, 0, "worker", NULL, "null", "What the worker gets."},
    {LANG_ACTION, "schedule_timeout", LANG_DURATION, 0, 0, "worker", NULL, NULL,
     "How long the task may lie in the queue before a worker takes it."},
    {LANG_ACTION, "heartbeat", LANG_DURATION, 0, 0, "worker", NULL, NULL,
     "A taken task counts as lost when its worker gives no sign for that long."},
    {LANG_ACTION, "input", LANG_TEMPLATE, 0, 0, "child", NULL, "{}", "The child's input."},
    {LANG_ACTION, "detached", LANG_BOOLEAN, 0, 0, "child", NULL, "false",
     "The child is started, not waited for, and never undone."},

    {LANG_COMPENSATE, "none", LANG_TEXT, 0, 0, NULL, NULL, NULL,
     "There is nothing to undo; the text says why, and stands in the residue."},
    {LANG_COMPENSATE, "effect", LANG_CHOICE, 0, 0, NULL, EFFECTS,
     "idempotent for `delete` and `put`, else compensable", "What repeating it would do."},
    {LANG_COMPENSATE, "timeout", LANG_DURATION, 0, 0, NULL, NULL, "the step's", "Of one attempt."},
    {LANG_COMPENSATE, "tolerant", LANG_BOOLEAN, 0, 0, NULL, NULL, "false",
     "Undoing what never happened is harmless."},
    {LANG_COMPENSATE, "reconcile", LANG_GROUP, LANG_RECONCILE, 0, NULL, NULL, NULL,
     "How to ask whether the compensation was applied."},

    {LANG_RECONCILE, "get", LANG_ADDRESS, 0, 0, NULL, NULL, NULL,
     "The read: HTTP GET `SERVICE/PATH`. A path that is one value, such as "
     "`payments/${{ answer.headers.location }}`, is taken as the address that the service gave."},
    {LANG_RECONCILE, "sql", LANG_TEXT, 0, 0, NULL, NULL, NULL, "Or a SELECT, always rolled back."},
    {LANG_RECONCILE, "exec", LANG_TEMPLATES, 0, 0, NULL, NULL, NULL, "Or a program."},
    {LANG_RECONCILE, "query", LANG_TEMPLATE_MAP, 0, 0, NULL, NULL, NULL, "Of a `get`."},
    {LANG_RECONCILE, "headers", LANG_TEMPLATE_MAP, 0, 0, NULL, NULL, NULL, "Of a `get`."},
    {LANG_RECONCILE, "params", LANG_TEMPLATES, 0, 0, NULL, NULL, NULL, "Of a `sql`."},
    {LANG_RECONCILE, "service", LANG_TEXT, 0, 0, NULL, NULL, "the engine's own database",
     "Of a `sql`."},
    {LANG_RECONCILE, "env", LANG_TEMPLATE_MAP, 0, 0, NULL, NULL, NULL, "Of an `exec`."},
    {LANG_RECONCILE, "stdin", LANG_TEMPLATE, 0, 0, NULL, NULL, NULL, "Of an `exec`."},
    {LANG_RECONCILE, "timeout", LANG_DURATION, 0, 0, NULL, NULL, "the service's, else the default",
     "Of one read."},
    {LANG_RECONCILE, "applied", LANG_EXPRESSION, 0, 0, NULL, NULL, "never",
     "Tried first: the action has happened."},
    {LANG_RECONCILE, "in_progress", LANG_EXPRESSION, 0, 0, NULL, NULL, "never",
     "Tried second: it is being done, so ask again."},
    {LANG_RECONCILE, "refused", LANG_EXPRESSION, 0, 0, NULL, NULL, "never",
     "Tried third: it was refused for good."},
    {LANG_RECONCILE, "not_applied", LANG_EXPRESSION, 0, 0, NULL, NULL, "never",
     "Tried last: it has not happened. It is believed once the attempt's timeout and the service's "
     "`settle_after` are over. None true: cannot tell, so ask again."},
    {LANG_RECONCILE, "output", LANG_TEMPLATE, 0, 0, NULL, NULL, "null",
     "The step's output, once it is known to be applied; may read `response`."},
    {LANG_RECONCILE, "settle_after", LANG_DURATION, 0, 0, NULL, NULL, "the service's",
     "How long after an attempt a read may still miss what it did."},
    {LANG_RECONCILE, "every", LANG_DURATION, 0, 0, NULL, NULL, "5s", "Between the first reads."},
    {LANG_RECONCILE, "max_every", LANG_DURATION, 0, 0, NULL, NULL, "1m",
     "The longest time between two reads."},
    {LANG_RECONCILE, "for", LANG_DURATION, 0, 0, NULL, NULL, "10m",
     "How long it is asked; then a person is needed."},

    {LANG_APPROVE, "if", LANG_EXPRESSION, 0, 0, NULL, NULL, "true",
     "False: nobody needs to be asked."},
    {LANG_APPROVE, "message", LANG_TEXT_TEMPLATE, 0, 0, NULL, NULL, NULL,
     "What the person reads, beside the request itself."},
    {LANG_APPROVE, "by", LANG_TEXT, 0, 0, NULL, NULL, "any",
     "Who may: `any`, `other` (not who submitted the run), or a group of the daemon's `people`."},
    {LANG_APPROVE, "expires", LANG_DURATION, 0, 0, NULL, NULL, "24h",
     "How long it may be decided."},
    {LANG_APPROVE, "on_expiry", LANG_CHOICE, 0, 0, NULL, "refused|park", "refused",
     "What follows when nobody has."},

    {LANG_DRY_RUN, "get", LANG_ADDRESS, 0, 0, NULL, NULL, NULL,
     "The request, one of these: HTTP GET `SERVICE/PATH`."},
    {LANG_DRY_RUN, "post", LANG_ADDRESS, 0, 0, NULL, NULL, NULL, "HTTP POST."},
    {LANG_DRY_RUN, "put", LANG_ADDRESS, 0, 0, NULL, NULL, NULL, "HTTP PUT."},
    {LANG_DRY_RUN, "patch", LANG_ADDRESS, 0, 0, NULL, NULL, NULL, "HTTP PATCH."},
    {LANG_DRY_RUN, "delete", LANG_ADDRESS, 0, 0, NULL, NULL, NULL, "HTTP DELETE."},
    {LANG_DRY_RUN, "query", LANG_TEMPLATE_MAP, 0, 0, NULL, NULL, NULL, "As in an action."},
    {LANG_DRY_RUN, "headers", LANG_TEMPLATE_MAP, 0, 0, NULL, NULL, NULL, "As in an action."},
    {LANG_DRY_RUN, "body", LANG_TEMPLATE, 0, 0, NULL, NULL, NULL, "As in an action."},
    {LANG_DRY_RUN, "form", LANG_TEMPLATE_MAP, 0, 0, NULL, NULL, NULL, "As in an action."},
    {LANG_DRY_RUN, "text", LANG_TEXT_TEMPLATE, 0, 0, NULL, NULL, NULL, "As in an action."},
    {LANG_DRY_RUN, "timeout", LANG_DURATION, 0, 0, NULL, NULL,
     "the service's, else the default; at most 10s", "How long its answer is waited for."},

    {LANG_OUTCOME, "when", LANG_EXPRESSION, 0, R, NULL, NULL, NULL, "Condition on `response`."},
    {LANG_OUTCOME, "is", LANG_CHOICE, 0, R, NULL, OUTCOME_WORDS, NULL, "The outcome."},

    {LANG_RETRY, "attempts", LANG_COUNT, 0, 0, NULL, NULL, "3; compensations 10",
     "Sends, the first one too: 1 is no retry."},
    {LANG_RETRY, "delay", LANG_DURATION, 0, 0, NULL, NULL, "1s", "Before the second send."},
    {LANG_RETRY, "factor", LANG_FACTOR, 0, 0, NULL, NULL, "2", "How each delay grows."},
    {LANG_RETRY, "max_delay", LANG_DURATION, 0, 0, NULL, NULL, "1m; compensations 5m",
     "The longest delay."},
    {LANG_RETRY, "jitter", LANG_PERCENT, 0, 0, NULL, NULL, "20%", "How much each delay is spread."},
    {LANG_RETRY, "budget", LANG_DURATION, 0, 0, NULL, NULL, "1h",
     "Wall-clock time over all sends; a crash does not reset it."},

    {LANG_SCHEDULE, "cron", LANG_TEXT, 0, R, NULL, NULL, NULL,
     "Minute, hour, day of the month, month, day of the week, as in `30 2 * * mon-fri`."},
    {LANG_SCHEDULE, "zone", LANG_TEXT, 0, 0, NULL, NULL, "UTC",
     "The time zone of `cron`, such as `Europe/Berlin`."},
    {LANG_SCHEDULE, "overlap", LANG_CHOICE, 0, 0, NULL, "skip|queue", "skip",
     "What a tick does while the run of the one before is open: nothing, or wait for its end."},
    {LANG_SCHEDULE, "catch_up", LANG_CHOICE, 0, 0, NULL, "none|last|all", "none",
     "Which ticks of a time without a daemon are made up for."},
    {LANG_SCHEDULE, "input", LANG_TEMPLATE, 0, 0, NULL, NULL, "{}",
     "The runs' input; `tick` is the planned time."},

    {LANG_TEST_FILE, "workflow", LANG_TEXT, 0, R, NULL, NULL, NULL,
     "The workflow's file, seen from this one."},
    {LANG_TEST_FILE, "tests", LANG_GROUP_LIST, LANG_TEST, R, NULL, NULL, NULL, "The tests."},

    {LANG_TEST, "name", LANG_TEXT, 0, R, NULL, NULL, NULL, "What the test claims, in one line."},
    {LANG_TEST, "input", LANG_ANY, 0, 0, NULL, NULL, "{}", "The run's input."},
    {LANG_TEST, "env", LANG_ANY, 0, 0, NULL, NULL, "{}", "What `env.NAME` reads."},
    {LANG_TEST, "starts_at", LANG_TEXT, 0, 0, NULL, NULL, "2026-01-01T00:00:00Z",
     "When the run is submitted, in simulated time."},
    {LANG_TEST, "answers", LANG_TEST_ANSWERS, LANG_TEST_ANSWER, 0, NULL, NULL,
     "each service does what it is asked",
     "By `STEP` or `STEP:compensate`: the answer, or a list with one for each attempt, of which "
     "the last repeats; `STEP:reconcile` and `STEP:compensate:reconcile` answer the questions."},
    {LANG_TEST, "signals", LANG_GROUP_MAP, LANG_TEST_SIGNAL, 0, NULL, NULL, NULL,
     "Signals that come, by their names."},
    {LANG_TEST, "at", LANG_TEST_VERBS, LANG_TEST_VERB, 0, NULL, NULL, NULL,
     "What operators do, by the time since the submit."},
    {LANG_TEST, "expect", LANG_GROUP, LANG_TEST_EXPECT, R, NULL, NULL, NULL,
     "What must have happened in the end."},

    {LANG_TEST_ANSWER, "status", LANG_COUNT, 0, 0, NULL, NULL, "200", "HTTP status."},
    {LANG_TEST_ANSWER, "headers", LANG_ANY, 0, 0, NULL, NULL, NULL, "HTTP headers."},
    {LANG_TEST_ANSWER, "body", LANG_ANY, 0, 0, NULL, NULL,
     "`{}` with what the workflow reads of it", "HTTP body; a text is sent as it is."},
    {LANG_TEST_ANSWER, "exit", LANG_INTEGER, 0, 0, NULL, NULL, "0",
     "Exit code of a program; negative: ended by that signal."},
    {LANG_TEST_ANSWER, "stdout", LANG_ANY, 0, 0, NULL, NULL, "as `body`",
     "Standard output of a program; a text is printed as it is."},
    {LANG_TEST_ANSWER, "stderr", LANG_TEXT, 0, 0, NULL, NULL, NULL, "Standard error of a program."},
    {LANG_TEST_ANSWER, "rows", LANG_ANY, 0, 0, NULL, NULL, "[]", "Rows of a statement."},
    {LANG_TEST_ANSWER, "count", LANG_INTEGER, 0, 0, NULL, NULL, "the number of rows, else 1",
     "Rows that a statement touched."},
    {LANG_TEST_ANSWER, "sqlstate", LANG_TEXT, 0, 0, NULL, NULL, "success",
     "Five characters: how a statement failed."},
    {LANG_TEST_ANSWER, "output", LANG_ANY, 0, 0, NULL, NULL, "as `body`",
     "What a worker completes its task with, or a child its run."},
    {LANG_TEST_ANSWER, "ends", LANG_CHOICE, 0, 0, NULL, CHILD_WORDS,
     "completed; undone: compensated", "How a child ends; `refused`: it is not started."},
    {LANG_TEST_ANSWER, "fail", LANG_TEXT, 0, 0, NULL, NULL, NULL, "How a worker has failed."},
    {LANG_TEST_ANSWER, "code", LANG_TEXT, 0, 0, NULL, NULL, NULL,
     "The worker's name for its failure."},
    {LANG_TEST_ANSWER, "retryable", LANG_BOOLEAN, 0, 0, NULL, NULL, "false",
     "The worker's failure may pass."},
    {LANG_TEST_ANSWER, "after", LANG_DURATION, 0, 0, NULL, NULL, "50ms", "How long it takes."},
    {LANG_TEST_ANSWER, "done", LANG_BOOLEAN, 0, 0, NULL, NULL, "as the answer says",
     "Whether the effect has happened, whatever the answer says."},

    {LANG_TEST_SIGNAL, "after", LANG_DURATION, 0, 0, NULL, NULL, "0s",
     "The time since the submit; a signal that comes early is kept."},
    {LANG_TEST_SIGNAL, "data", LANG_ANY, 0, 0, NULL, NULL, "null", "What comes with it."},

    {LANG_TEST_VERB, "do", LANG_CHOICE, 0, R, NULL, TEST_VERBS, NULL, "The verb."},
    {LANG_TEST_VERB, "step", LANG_TEXT, 0, 0, NULL, NULL, NULL,
     "Of `settle`, `skip`, `approve` and `reject`."},
    {LANG_TEST_VERB, "applied", LANG_BOOLEAN, 0, 0, NULL, NULL, NULL, "Of `settle`."},
    {LANG_TEST_VERB, "output", LANG_ANY, 0, 0, NULL, NULL, NULL, "Of `settle` and `skip`."},
    {LANG_TEST_VERB, "reason", LANG_TEXT, 0, 0, NULL, NULL, "test", "Why it is done."},

    {LANG_TEST_EXPECT, "state", LANG_CHOICE, 0, 0, NULL,
     "completed|compensated|parked|abandoned|running|compensating", NULL, "The run's state."},
    {LANG_TEST_EXPECT, "cause", LANG_CHOICE, 0, 0, NULL,
     "none|step_refused|budget|deadline|cancelled|operator|parent", NULL, "Why it turned back."},
    {LANG_TEST_EXPECT, "reason", LANG_TEXT, 0, 0, NULL, NULL, NULL, "Why it is parked."},
    {LANG_TEST_EXPECT, "calls", LANG_ANY, 0, 0, NULL, NULL, NULL,
     "All calls in order, as `STEP` and `STEP:compensate`; each attempt is one."},
    {LANG_TEST_EXPECT, "asks", LANG_ANY, 0, 0, NULL, NULL, NULL,
     "All questions of `reconcile` in order, as `STEP` and `STEP:compensate`; `calls` has none of "
     "them."},
    {LANG_TEST_EXPECT, "any_order", LANG_BOOLEAN, 0, 0, NULL, NULL, "false",
     "The order of `calls` does not matter."},
    {LANG_TEST_EXPECT, "output", LANG_ANY, 0, 0, NULL, NULL, NULL, "The run's output."},
    {LANG_TEST_EXPECT, "residue", LANG_ANY, 0, 0, NULL, NULL, NULL,
     "What is left: a list of step names, or of maps with what is known of an entry."},
    {LANG_TEST_EXPECT, "steps", LANG_GROUP_MAP, LANG_TEST_STEP, 0, NULL, NULL, NULL,
     "How single steps ended."},
    {LANG_TEST_EXPECT, "takes", LANG_TEXT, 0, 0, NULL, NULL, NULL,
     "Simulated time from submit to end: `< 2m`, `<= 2m`, `> 1s`, `>= 1s`, or exactly `0.2s`."},

    {LANG_TEST_STEP, "state", LANG_CHOICE, 0, 0, NULL, STEP_WORDS, NULL, "Of the action."},
    {LANG_TEST_STEP, "compensation_state", LANG_CHOICE, 0, 0, NULL, STEP_WORDS, NULL,
     "Of the compensation; `none`: it was never due."},
    {LANG_TEST_STEP, "attempts", LANG_INTEGER, 0, 0, NULL, NULL, NULL, "Sends of the action."},
    {LANG_TEST_STEP, "output", LANG_ANY, 0, 0, NULL, NULL, NULL, "What the action answered."},
};
const size_t lang_keys_count = ARRAY_LEN(lang_keys);

#undef R
#undef P
#undef K

static const char *const group_names[] = {"",
#define X(id, name, title, help) name,
                                          LANG_GROUPS(X)
#undef X
};

static const char *const group_titles[] = {"",
#define X(id, name, title, help) title,
                                           LANG_GROUPS(X)
#undef X
};

static const char *const group_helps[] = {"",
#define X(id, name, title, help) help,
                                          LANG_GROUPS(X)
#undef X
};

const char *lang_group_name(enum lang_group group)
{
    ASSERT(group < LANG_GROUP_COUNT);
    return group_names[group];
}

const char *lang_group_title(enum lang_group group)
{
    ASSERT(group < LANG_GROUP_COUNT);
    return group_titles[group];
}

const char *lang_group_help(enum lang_group group)
{
    ASSERT(group < LANG_GROUP_COUNT);
    return group_helps[group];
}

/* `compensate` holds an action's keys beside its own. */
static bool group_has(enum lang_group group, const struct lang_key *key)
{
    return key->group == group || (group == LANG_COMPENSATE && key->group == LANG_ACTION);
}

/* Where the keys of `group`, or of those after it, begin. */
static size_t group_start(enum lang_group group)
{
    size_t low = 0, high = lang_keys_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lang_keys[middle].group < group)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct lang_key *lang_group_keys(enum lang_group group, size_t *count)
{
    size_t first = group_start(group);
    *count = group_start((enum lang_group)(group + 1)) - first;
    return lang_keys + first;
}

const struct lang_key *lang_key_find(enum lang_group group, struct str name)
{
    char first = name.len ? name.ptr[0] : '\0'; /* spares most of the comparisons */
    for (size_t i = group_start(group); i < lang_keys_count && lang_keys[i].group == group; i++)
        if (lang_keys[i].name[0] == first && str_eq_z(name, lang_keys[i].name))
            return &lang_keys[i];
    return group == LANG_COMPENSATE ? lang_key_find(LANG_ACTION, name) : NULL;
}

size_t lang_key_names(enum lang_group group, const char **names, size_t max)
{
    size_t count = 0;
    for (size_t i = 0; i < lang_keys_count && count < max; i++)
        if (group_has(group, &lang_keys[i]))
            names[count++] = lang_keys[i].name;
    return count;
}

bool lang_choice_has(const char *choices, struct str word)
{
    for (const char *at = choices; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL) {
        size_t len = strcspn(at, "|");
        if (str_eq(word, (struct str){at, len}))
            return true;
    }
    return false;
}

/* Words of other tools and other spellings, which no edit distance finds. */
#define MCP_HELP "it belongs to the whole workflow, and is not supported by this version"
static const struct mistake {
    enum lang_group group;
    const char *words; /* "a|b" */
    const char *help;
} mistakes[] = {
    {LANG_WORKFLOW, "name", "the workflow's name is written `workflow: NAME`"},
    {LANG_WORKFLOW, "on|trigger|triggers",
     "runs are started by `sagactl run`, the socket, saga.start() or a `schedule`"},
    {LANG_WORKFLOW, "cron|every|timer|calendar",
     "it is written `schedule: {cron: \"30 2 * * *\", zone: Europe/Berlin}`"},
    {LANG_WORKFLOW, "parallel|parallelism|concurrency",
     "steps run side by side where `needs` lets them"},
    {LANG_STEP, "foreach|forEach|for-each|loop|with_items|withItems|matrix|each|iterate|map",
     "a step for each item of a list is written `for_each: input.items`"},
    {LANG_STEP, "parallel|branches|concurrency|max_concurrency|maxConcurrency|parallelism",
     "steps run side by side where `needs` lets them, the items of a `for_each` with "
     "`max_parallel`"},
    {LANG_STEP, "until|wait_for|worker|child|payload|detached", "put it under `action`"},
    {LANG_STEP, "key|keyBy|item_key|id_by",
     "the items of a `for_each` are named by `key_by: item.id`; the keys of effects are made by "
     "the engine"},
    {LANG_STEP, "input|inputs|args|params|parameters",
     "what is sent stands in the action: `body`, `query`, `payload` or a child's `input`"},
    {LANG_STEP, "output|outputs|result|register|as|save_as",
     "what a step answered is read as `steps.ID.output`; nothing needs to be declared"},
    {LANG_STEP, "next|then|goto|transition|end",
     "the order is that of the file, or says `needs: [a, b]` at the later step"},
    {LANG_STEP, "catch|on_error|onError|except|finally|rescue",
     "what follows a failure is `on_failure`, what undoes the step `compensate`"},
    {LANG_WORKFLOW, "jobs|tasks|stages|actions|states", "the steps are listed under `steps`"},
    {LANG_WORKFLOW, "inputs|params|parameters|inputSchema", "the input's schema is `input`"},
    {LANG_WORKFLOW, "outputs|result|returns", "the run's result is `output`"},
    {LANG_WORKFLOW, "id|key|idempotency_key|workflow_id|runId", "the business key is `run_id`"},
    {LANG_WORKFLOW, "timeout|budget|max_duration", "the budget of the whole run is `deadline`"},
    {LANG_WORKFLOW, "retry|retries|compensate_retry", "put it under `defaults`"},
    {LANG_WORKFLOW, "env|variables|vars",
     "there are no variables: use `input`, or `env.NAME` of the daemon's configuration"},
    {LANG_STEP, "name|step", "a step is named by `id`"},
    {LANG_STEP, "uses|run|with|call|do|request|http|task|type|execute|forward|invoke",
     "what a step does stands under `action`, as in `action: {post: orders/create}`"},
    {LANG_STEP, "get|post|put|patch|delete|sql|exec|sleep|body|query|headers|outcomes|idempotency",
     "put it under `action`"},
    {LANG_STEP, "undo|rollback|compensation|compensator|revert|on_rollback|backward|cancel",
     "what undoes a step stands under `compensate`"},
    {LANG_STEP,
     "retries|retryCount|retry_count|max_retries|maxRetries|attempts|max_attempts|"
     "maxAttempts|retryPolicy|retry_policy",
     "retries are written `retry: {attempts: 5, delay: 1s}`"},
    {LANG_STEP, "when|condition|only_if|unless", "the condition of a step is `if`"},
    {LANG_STEP, "depends_on|dependsOn|after|requires|depends|require",
     "the steps that must be done first are `needs: [a, b]`"},
    {LANG_STEP, "timeoutSeconds|timeout_seconds|timeout_ms|timeoutMs|startToCloseTimeout",
     "it is written `timeout: 30s`"},
    {LANG_STEP, "continue_on_error|continue-on-error|continueOnError|optional|ignore_errors",
     "a best-effort step says `on_failure: continue`"},
    {LANG_STEP, "tier|safety|kind|class", "what an action does to the world is its `effect`"},
    {LANG_ACTION, "method|verb|url|uri|path|endpoint|http",
     "a request is written `post: SERVICE/PATH`, with the address of SERVICE under `services`"},
    {LANG_ACTION, "json|data|content", "a JSON body is `body`"},
    {LANG_ACTION, "type|kind|uses",
     "the kind is the key itself: `post: SERVICE/PATH`, `sql: ...`, `exec: [...]`, `child: NAME`"},
    {LANG_ACTION, "workflow|subflow|subworkflow|sub_workflow|call|invoke",
     "another workflow is run by `child: NAME` with `input`"},
    {LANG_ACTION, "signal|event|wait_event|waitFor|receive|approval",
     "a signal is awaited by `wait_for: NAME`"},
    {LANG_ACTION, "queue|task|topic|publish", "a worker's task is `worker: QUEUE` with `payload`"},
    {LANG_ACTION, "inputs|with", "what is sent is `body`, `query`, `payload` or `input`"},
    {LANG_ACTION, "sleepUntil|wait_until|waitUntil|at", "a wait for a time is `until: EXPRESSION`"},
    {LANG_ACTION, "header", "it is written `headers: {NAME: VALUE}`"},
    {LANG_ACTION, "args|arguments|command|cmd|shell|script|run|sh|bash",
     "a program is run by `exec: [program, arg]`, never by a shell"},
    {LANG_ACTION, "statement|execute_sql|insert|update|select",
     "a statement is `sql: \"...\"` with `params: [...]`"},
    {LANG_ACTION, "wait|delay|timer|pause", "a pause is `sleep: 30m`"},
    {LANG_ACTION, "timeout|retry|effect|if|needs|compensate|on_failure",
     "it stands beside `action`, not inside"},
    {LANG_COMPENSATE, "action", "the action stands directly under `compensate`"},
    {LANG_COMPENSATE, "retry|retries|attempts",
     "it is written `compensate_retry`, beside `compensate`"},
    {LANG_COMPENSATE, "method|verb|url|uri|path|endpoint|http",
     "a request is written `post: SERVICE/PATH`, with the address of SERVICE under `services`"},
    {LANG_COMPENSATE, "json|data|content", "a JSON body is `body`"},
    {LANG_RETRY,
     "max_attempts|maxAttempts|maximumAttempts|count|limit|times|retries|max_retries|"
     "max|retryCount",
     "the number of sends is `attempts`"},
    {LANG_RETRY, "initial_delay|initialInterval|initial|interval|backoff|wait|min_delay",
     "the first pause is `delay`"},
    {LANG_RETRY, "multiplier|backoffCoefficient|rate|exponent|backoff_factor",
     "how the pauses grow is `factor`"},
    {LANG_RETRY, "maxDelay|maximumInterval|max_interval|cap", "the longest pause is `max_delay`"},
    {LANG_RETRY, "timeout|deadline|max_elapsed|total_timeout|maxDuration",
     "the time for all sends is `budget`"},
    {LANG_SCHEDULE, "timezone|time_zone|timeZone|tz|location", "the time zone is `zone`"},
    {LANG_SCHEDULE, "every|interval|rate|at",
     "times are written as five fields: `cron: \"*/5 * * * *\"` is every five minutes"},
    {LANG_SCHEDULE, "concurrency|concurrencyPolicy|overlap_policy|max_active_runs",
     "what a tick does while a run is open is `overlap`"},
    {LANG_SCHEDULE, "catchup|backfill|catchUp|misfire", "it is written `catch_up: none|last|all`"},
    {LANG_SCHEDULE, "inputs|with|params|args", "the runs' input is `input`"},
    {LANG_SERVICE, "base_url|baseUrl|endpoint|host|address|uri", "the address is `url`"},
    {LANG_SERVICE, "token|bearer|api_key|password|authorization",
     "it is written `auth: {bearer: \"${{ secrets.NAME }}\"}`"},
    {LANG_IDEMPOTENCY, "key|name|header_name|field", "the header's name is `header`"},
    {LANG_IDEMPOTENCY, "expires|window|retention|lifetime", "how long a key is kept is `ttl`"},
    {LANG_SERVICE, "rate|rate_limit|rateLimit|max_concurrency|concurrency|in_flight|throttle",
     "it is written `limits: {in_flight: 20, rate: 100/s}`"},
    {LANG_SERVICE, "circuit_breaker|circuitBreaker", "it is written `breaker: {failures: 5}`"},
    {LANG_LIMITS, "max_concurrency|concurrency|parallel|max_in_flight|connections",
     "requests at the same time are limited by `in_flight`"},
    {LANG_LIMITS, "rps|qps|per_second|rate_limit", "it is written `rate: 100/s`"},
    {LANG_BREAKER, "threshold|errors|max_failures", "how many open it is `failures`"},
    {LANG_BREAKER, "timeout|reset|cooldown|reset_timeout", "how long it is open is `open_for`"},
    {LANG_OUTCOME, "if|condition|match|status",
     "the condition is `when: \"response.status == "
     "409\"`"},
    {LANG_OUTCOME, "then|outcome|result|as", "the outcome is `is`"},
    {LANG_TEST, "expects|expected|assert|then|outcome", "what must have happened is `expect`"},
    {LANG_TEST, "mocks|stubs|responses|replies|services|given", "what services say is `answers`"},
    {LANG_RECONCILE, "post|put|patch|delete|worker|child|body|form|text",
     "a `reconcile` only reads: `get`, `sql` or `exec`"},
    {LANG_RECONCILE, "found|exists|done|success|when", "what proves that it happened is `applied`"},
    {LANG_RECONCILE, "missing|absent|not_found|otherwise",
     "what proves that it has not happened is `not_applied`"},
    {LANG_RECONCILE, "interval|delay|period", "the time between reads is `every`"},
    {LANG_RECONCILE, "budget|attempts|until|max_time", "how long it is asked is `for`"},
    {LANG_APPROVE, "who|approvers|from|group|role|users|assignee",
     "who may approve is `by: any`, `by: other` or `by: GROUP`"},
    {LANG_APPROVE, "timeout|ttl|deadline|within", "how long it may be decided is `expires`"},
    {LANG_APPROVE, "text|reason|title|description|prompt", "what the person reads is `message`"},
    {LANG_APPROVE, "when|condition", "when a person is asked is `if`"},
    {LANG_STEP, "dryRun|dry-run|preview|rehearse|rehearsal|simulate|what_if|plan",
     "a request that shows the effect without making it is `dry_run`"},
    {LANG_DRY_RUN, "idempotency|key", "it carries no key: nothing is claimed for it"},
    {LANG_DRY_RUN, "retry|outcomes|effect|reconcile|approve",
     "it is sent once, and its answer is only shown"},
    {LANG_DRY_RUN, "json|data|content", "a JSON body is `body`"},
    {LANG_STEP, "mcp", MCP_HELP},
    {LANG_ACTION, "mcp", MCP_HELP},
    {LANG_STEP, "approval|gate|confirm|manual|human", "a person is asked by `approve`"},
    {LANG_TEST, "state|cause|calls|asks|output|residue|takes", "put it under `expect`"},
    {LANG_TEST, "verbs|operators|cancel", "what operators do is written `at: {10s: cancel}`"},
    {LANG_TEST_ANSWER, "status_code|http", "the HTTP status is `status`"},
    {LANG_TEST_ANSWER, "delay|latency|takes", "how long it takes is `after`"},
    {LANG_TEST_ANSWER, "json|data|response", "the answer's body is `body`"},
};

const char *lang_mistake_help(enum lang_group group, struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(mistakes); i++)
        if (mistakes[i].group == group && lang_choice_has(mistakes[i].words, name))
            return mistakes[i].help;
    return NULL;
}
