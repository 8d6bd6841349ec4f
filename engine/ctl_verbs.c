#include "engine/ctl_verbs.h"

const struct ctl_option ctl_options[OPT_COUNT] = {
#define X(id, name, letter, value, form, choices) [id] = {name, letter, value, form, choices},
    CTL_OPTIONS(X)
#undef X
};

const struct ctl_verb_option ctl_global_options[] = {
    {OPT_SOCKET, "the daemon's control socket"},
    {OPT_FORMAT, "how to print: table (for people), wide, json, jsonl, name (ids only)"},
    {OPT_JSON, "the same as -o json"},
    {OPT_QUIET, "the same as -o name"},
    {OPT_COLOR, "colour on stdout: auto (a terminal, unless NO_COLOR is set), always, never"},
    {OPT_HELP, "this help"},
};
const size_t ctl_global_options_count = ARRAY_LEN(ctl_global_options);

#define GROUP_FILES "Workflow files"
#define GROUP_RUNS "Runs"
#define GROUP_OPERATE "Operate (each but signal and answer needs --reason; the run's full id)"
#define GROUP_DAEMON "Daemon"
#define GROUP_HELP "Help"

#define REASON                                                             \
    {                                                                      \
        OPT_REASON, "why; stored with the act, shown in the run's history" \
    }
#define PREFIX_NOTE "RUN is a run id or a unique beginning of one."
/* Which runs, instead of naming them, and how fast. */
#define MANY                                                                            \
    {OPT_STATE, "instead of RUN: the runs in this state"},                              \
        {OPT_WORKFLOW, "the runs of this workflow"},                                    \
        {OPT_SINCE, "those that started within this time, like 1h or 7d"},              \
        {OPT_WHERE, "those in which this SQL/JSON path finds something: see list"},     \
        {OPT_RATE, "so many a second (default 10/s), or like 30/m"},                    \
        {OPT_ERROR_SHARE, "stop when this share of at least 10 refused (default 0.2)"}, \
        {OPT_DRY_RUN, "only say how many it would take, and the first 20"},             \
    {                                                                                   \
        OPT_YES, "do not ask"                                                           \
    }
#define MANY_NOTE                                                                            \
    "Several runs, or those of a filter: they are counted first, and it asks; where it\n"    \
    "cannot ask it needs --yes. The daemons then work them off in the order in which they\n" \
    "were started, whatever happens here: sagactl bulk shows how far it is."
#define OPERATE(verb, what, text)                                                                \
    {                                                                                            \
        .name = verb, .group = GROUP_OPERATE, .args = "RUN...", .args_max = CTL_ARGS_MAX,        \
        .arg = CTL_ARG_RUN, .summary = what, .about = text MANY_NOTE, .options = {REASON, MANY}, \
        .run = ctl_verb_operate                                                                  \
    }

const struct ctl_verb ctl_verbs[] = {
    {.name = "validate",
     .group = GROUP_FILES,
     .args = "FILE|DIR...",
     .args_min = 1,
     .args_max = CTL_ARGS_MAX,
     .arg = CTL_ARG_FILE,
     .summary = "check workflow files; prints what is wrong, the retry schedule and the undo plan",
     .about = "Prints every error and warning at once, with its place. For a file without errors\n"
              "it prints when each step is sent again and what would be undone if it failed.\n"
              "Of a directory, every *.yaml and *.yml but sagad.yaml is checked. Needs no daemon.\n"
              "Warnings never change the exit code; errors give 2.",
     .run = ctl_verb_validate},
    {.name = "apply",
     .group = GROUP_FILES,
     .args = "FILE|DIR...",
     .args_min = 1,
     .args_max = CTL_ARGS_MAX,
     .arg = CTL_ARG_FILE,
     .summary = "register workflow files with the daemon",
     .about = "All files are checked first; if one has an error, nothing is applied. New runs use\n"
              "the new definition, runs in flight keep theirs.",
     .run = ctl_verb_apply},
    {.name = "diff",
     .group = GROUP_FILES,
     .args = "FILE",
     .args_min = 1,
     .args_max = 1,
     .arg = CTL_ARG_FILE,
     .summary = "compare a workflow file with the version that the daemon has",
     .about =
         "Lists steps, services and keys that were added, removed or changed, what follows from\n"
         "that for steps that were not touched, and the open runs, which stay on their version.\n"
         "Exit: 0 the daemon has this version, 1 it has another one or none; more than 1: trouble.",
     .run = ctl_verb_diff},
    {.name = "test",
     .group = GROUP_FILES,
     .args = "FILE|DIR...",
     .args_min = 1,
     .args_max = CTL_ARGS_MAX,
     .arg = CTL_ARG_FILE,
     .summary = "play the tests of workflows in simulated time, with or without faults",
     .about =
         "FILE is a workflow with `tests`, or NAME.test.yaml, which names one. Nothing is sent "
         "and\n"
         "nothing is stored: services answer as the tests say, time is simulated.\n"
         "With --faults each test is walked again and again: each call refused, not to be had,\n"
         "lost, its answer lost, arriving twice, its questions (`reconcile`) unanswered or asked\n"
         "too early; the daemon dying and an operator cancelling at each record. The table\n"
         "says how each walk ended; a workflow without tests is played with an input made from\n"
         "its schema. A parked run is no failure, it is listed.\n"
         "Needs no daemon. Exit: 0 passed, 1 a test failed or a promise is broken, 2 invalid file.",
     .options = {{OPT_FAULTS, "walk through every fault and judge by what the services know"}},
     .run = ctl_verb_test},
    {.name = "conform",
     .group = GROUP_FILES,
     .args = "FILE STEP",
     .args_min = 2,
     .args_max = 2,
     .arg = CTL_ARG_FILE,
     .summary = "put a service to the test: does it honour keys, undo, and refuse what comes late?",
     .about =
         "Sends what the step of the workflow and its compensation would send, with keys of its\n"
         "own: the same key again, at once, with another body, a number written otherwise, after\n"
         "a cut connection; the undo, the undo again, the undo of nothing, and what comes late.\n"
         "Answers are judged by the `outcomes` of the file. It does REAL things at the service\n"
         "and undoes what it can; what it cannot is listed as left behind.\n"
         "Without --input one is made up from the schema. {n} in it becomes six digits, other\n"
         "ones for each new effect: --input '{\"order_id\": \"ORD-{n}\"}'.\n"
         "Needs no daemon. Exit: 0 no check failed, 1 one did, 2 invalid file or input.",
     .options =
         {
             {OPT_INPUT, "the run's input (default: a sample)"},
             {OPT_URL, "the service's base address (default: the file's)"},
             {OPT_CONFIG, "sagad.yaml, for services, secrets and env"},
             {OPT_TIMEOUT, "of one request (default: the step's)"},
             {OPT_YES, "do not ask"},
         },
     .run = ctl_verb_conform},
    {.name = "graph",
     .group = GROUP_FILES,
     .args = "FILE",
     .args_min = 1,
     .args_max = 1,
     .arg = CTL_ARG_FILE,
     .summary = "draw a workflow: the way forward, and the way back with what undoes each step",
     .about =
         "Solid arrows lead forward; dashed ones back, each with the compensation of the step\n"
         "that it leaves. Pivots are hexagons: behind one there is no way back. Mermaid is shown "
         "by\n"
         "most places that show Markdown; dot is Graphviz's language; svg needs Graphviz "
         "installed.\n"
         "-o json gives the same as data. Needs no daemon, except for --run.",
     .options =
         {
             {OPT_PICTURE, "mermaid (the default), dot or svg"},
             {OPT_RUN, "paint the steps with the states of this run; a unique beginning will do"},
         },
     .run = ctl_verb_graph},
    {.name = "workflows",
     .group = GROUP_FILES,
     .args = "",
     .summary = "list the registered workflows",
     .run = ctl_verb_workflows},
    {.name = "schema",
     .group = GROUP_FILES,
     .args = "",
     .summary = "print the JSON Schema of the workflow language, for editors",
     .run = ctl_verb_schema},

    {.name = "run",
     .group = GROUP_RUNS,
     .args = "WORKFLOW",
     .args_min = 1,
     .args_max = 1,
     .arg = CTL_ARG_WORKFLOW,
     .summary = "start a run",
     .about =
         "The run's id is its key: a repeat with the same id and input starts nothing new, it\n"
         "prints the existing run and says so (\"existing\"). The id comes from the workflow's\n"
         "`run_id`, else from --id. With neither, one is made up by the daemon and every repeat\n"
         "starts another run: give --id when the call itself may be repeated.\n"
         "The same id with another input is a conflict (exit 9).\n"
         "A dry run sends and stores nothing. It ends with a token that starts this run and no\n"
         "other: for 15 minutes, for the same person, version, input and id (else exit 9).\n"
         "With --rehearse the daemon sends what steps declare as `dry_run`, which has no effect,\n"
         "and shows each answer; where a request depends on earlier answers, it says so.",
     .options =
         {
             {OPT_INPUT, "the input; @FILE reads a file, - reads stdin (default: {})"},
             {OPT_ID, "the run id, [A-Za-z0-9._-]{1,94}"},
             {OPT_TENANT, "whose run it is"},
             {OPT_AT, "start it then: 2026-10-25T02:30:00Z (RFC 3339), or in a while: 30m"},
             {OPT_WAIT, "wait until the run has ended or is parked; the exit code says how"},
             {OPT_WATCH, "the same, showing the steps meanwhile"},
             {OPT_TIMEOUT, "with --wait or --watch: give up after that (exit 7); the run goes on"},
             {OPT_DRY_RUN,
              "show what would be done: every request, approval and undo; start nothing"},
             {OPT_REHEARSE,
              "with --dry-run: send the `dry_run`s of the steps and show the answers"},
             {OPT_CONFIRM,
              "start what the dry run showed, if workflow and input are still the same"},
         },
     .run = ctl_verb_run},
    {.name = "list",
     .group = GROUP_RUNS,
     .args = "",
     .summary = "list runs, newest first",
     .about = "--where takes a path of SQL/JSON over {run_id, workflow, tenant, state, cause,\n"
              "park_reason, actor, input, output, error}: a predicate, '$.input.amount > 100', or "
              "a\n"
              "filter, '$.input.items[*] ? (@.sku == \"A-1\")'. A search that takes longer than "
              "10 s\n"
              "is given up: narrow it by state, workflow or since.",
     .options =
         {
             {OPT_STATE, "only runs in this state; paused: those that a person has paused"},
             {OPT_WORKFLOW, "only runs of this workflow"},
             {OPT_TENANT, "only runs of this tenant"},
             {OPT_SINCE, "only runs that started within this time, like 1h or 7d"},
             {OPT_WHERE, "only runs in which this SQL/JSON path finds something"},
             {OPT_LIMIT, "at most so many (default 100; 0: all)"},
             {OPT_CURSOR, "go on where a list ended: as it said then, or its `next` with -o json"},
         },
     .run = ctl_verb_list},
    {.name = "show",
     .group = GROUP_RUNS,
     .args = "RUN",
     .args_min = 1,
     .args_max = 1,
     .arg = CTL_ARG_RUN,
     .summary = "show a run: its steps, error, residue, and what can be done next",
     .about = PREFIX_NOTE,
     .later = "effects",
     .run = ctl_verb_show},
    {.name = "watch",
     .group = GROUP_RUNS,
     .args = "RUN",
     .args_min = 1,
     .args_max = 1,
     .arg = CTL_ARG_RUN,
     .summary = "follow a run until it has ended or is parked; the exit code says how",
     .about = PREFIX_NOTE
     "\n"
     "On a terminal the steps are redrawn in place; elsewhere each event is one line.",
     .options = {{OPT_TIMEOUT, "give up after that (exit 7); the run goes on"}},
     .run = ctl_verb_watch},
    {.name = "wait",
     .group = GROUP_RUNS,
     .args = "RUN",
     .args_min = 1,
     .args_max = 1,
     .arg = CTL_ARG_RUN,
     .summary = "wait until a run has ended or is parked; the exit code says how",
     .about = PREFIX_NOTE,
     .options = {{OPT_TIMEOUT, "give up after that (exit 7); the run goes on"}},
     .run = ctl_verb_wait},
    {.name = "events",
     .group = GROUP_RUNS,
     .args = "RUN",
     .args_min = 1,
     .args_max = 1,
     .arg = CTL_ARG_RUN,
     .summary = "print a run's history",
     .about = PREFIX_NOTE,
     .options = {{OPT_FOLLOW, "go on printing until the run has ended (json means jsonl then)"}},
     .run = ctl_verb_events},
    {.name = "explain",
     .group = GROUP_RUNS,
     .args = "RUN|CODE",
     .args_max = 1,
     .arg = CTL_ARG_RUN,
     .summary = "explain a run, or a code of a diagnostic, in plain words",
     .about = PREFIX_NOTE
     "\n"
     "CODE is E or W and three digits, as in error[E203]. Codes and --states need no\n"
     "daemon.",
     .options = {{OPT_STATES, "print how a run's state may change, and why"}},
     .run = ctl_verb_explain},
    {.name = "dead",
     .group = GROUP_RUNS,
     .args = "[list | show RUN]",
     .args_max = 2,
     .arg = CTL_ARG_WORD,
     .words = "list|show",
     .summary = "the runs that wait for a person, with the evidence of each",
     .about = PREFIX_NOTE,
     .options = {{OPT_CHECK, "exit 6 if a run waits for a person, 0 if none does"}},
     .run = ctl_verb_dead},
    {.name = "audit",
     .group = GROUP_RUNS,
     .args = "[list | verify]",
     .args_max = 2,
     .arg = CTL_ARG_WORD,
     .words = "list|verify",
     .summary = "what people did: every verb with actor, reason and outcome, in chains of hashes",
     .about =
         "list shows the newest acts first. verify follows the chains and names the first row\n"
         "that was changed, removed or exchanged; exit 1 then. Keep what it prints with -o json\n"
         "somewhere else: audit verify FILE then also finds a chain that was written anew.",
     .options = {{OPT_RUN, "list: the acts on this run; its full id"},
                 {OPT_LIMIT, "list: how many at most (50)"}},
     .run = ctl_verb_audit},

    {.name = "approvals",
     .group = GROUP_RUNS,
     .args = "",
     .summary = "the requests that wait for a person, exactly as they would be sent",
     .run = ctl_verb_approvals},
    {.name = "dry-run",
     .group = GROUP_RUNS,
     .args = "RUN STEP",
     .args_min = 2,
     .args_max = 2,
     .arg = CTL_ARG_RUN,
     .summary = "send what a step declares as `dry_run`, and show the answer; nothing is done",
     .about =
         "For a step that waits, for an approval or to be sent again: its service is asked what\n"
         "the action would do, with the run's real data, once, without a key. The run does not\n"
         "notice. Who asked is in the audit. STEP is ID, of a loop ID.ITEM.\n"
         "Exits 1 if no answer came, 3 if the step declares none, 9 if it is not reached or done.",
     .options = {{OPT_REASON, "why; kept in the audit (may be left out)"}},
     .run = ctl_verb_dry_run},

    OPERATE("cancel", "turn a run back: what was applied is undone",
            "Attempts in flight are awaited first. After the pivot a run is not turned back.\n"
            "Of a filter without --state: queued, running and parked runs.\n\n"),
    OPERATE("pause", "send nothing new for a run until it is resumed",
            "Deadlines and the lifetimes of keys run on meanwhile.\n\n"),
    OPERATE("resume", "let a paused run go on", ""),
    OPERATE("compensate", "undo what a parked or completed run has applied",
            "A completed run can be undone as long as its workflow's `compensatable_for` says:\n"
            "sagactl show tells until when. Of a filter without --state: parked runs.\n\n"),
    OPERATE("abandon", "close a run as it is; what is left of it is reported",
            "Of a filter without --state: parked runs.\n\n"),
    {.name = "retry",
     .group = GROUP_OPERATE,
     .args = "RUN...",
     .args_max = CTL_ARGS_MAX,
     .arg = CTL_ARG_RUN,
     .summary = "let a parked run go on from the point where it stopped",
     .about = "A step whose outcome is unknown is only sent again where that is safe; elsewhere\n"
              "the answer is a conflict: settle the step first. What has been applied keeps the\n"
              "input that it saw, and so does what undoes it.\n\n" MANY_NOTE,
     .options =
         {
             REASON,
             {OPT_INPUT, "the run's corrected input, for what is sent from now on"},
             {OPT_STEP_INPUT, "what the refused step is to be sent with, instead of its body"},
             MANY,
         },
     .run = ctl_verb_operate},
    {.name = "settle",
     .group = GROUP_OPERATE,
     .args = "RUN STEP",
     .args_min = 2,
     .args_max = 2,
     .arg = CTL_ARG_RUN,
     .summary = "say whether a step of unknown outcome was applied; the run then goes on",
     .about = "STEP is ID, ID:execute or ID:compensate; without a direction it is the one in\n"
              "which the run stopped. Ask the service first: what is said here is believed.",
     .options =
         {
             {OPT_APPLIED, "the effect is there"},
             {OPT_NOT_APPLIED, "the effect is not there"},
             {OPT_OUTPUT, "with --applied: the step's output"},
             {OPT_FORCE, "even against stored evidence"},
             REASON,
         },
     .run = ctl_verb_settle},
    {.name = "skip",
     .group = GROUP_OPERATE,
     .args = "RUN STEP",
     .args_min = 2,
     .args_max = 2,
     .arg = CTL_ARG_RUN,
     .summary = "treat a step as done by hand; the run then goes on",
     .about = "STEP as for settle. It is listed in the residue as done by hand.",
     .options = {{OPT_OUTPUT, "the step's output"}, REASON},
     .run = ctl_verb_skip},

    {.name = "approve",
     .group = GROUP_OPERATE,
     .args = "RUN STEP",
     .args_min = 2,
     .args_max = 2,
     .arg = CTL_ARG_RUN,
     .summary = "let the request of a step that waits for approval be sent",
     .about =
         "What is approved is the request with that hash, once: see sagactl approvals. Without\n"
         "--hash the request is shown, and on a terminal you are asked. It covers the step's\n"
         "compensation. `by: other` and groups are looked up in the daemon's `people`.",
     .options = {{OPT_HASH, "hash of the request, its first 8 digits at least"}, REASON},
     .run = ctl_verb_approve},
    {.name = "reject",
     .group = GROUP_OPERATE,
     .args = "RUN STEP",
     .args_min = 2,
     .args_max = 2,
     .arg = CTL_ARG_RUN,
     .summary = "refuse a step that waits for approval; nothing is sent",
     .options = {{OPT_HASH, "hash of the request, its first 8 digits at least"}, REASON},
     .run = ctl_verb_approve},
    {.name = "signal",
     .group = GROUP_OPERATE,
     .args = "RUN NAME",
     .args_min = 2,
     .args_max = 2,
     .arg = CTL_ARG_RUN,
     .summary = "give a waiting step (wait_for: NAME) its data; needs no reason",
     .about = "A signal that comes before its step is kept. The first one of a name counts: the\n"
              "same data again is fine, other data is a conflict (exit 9).",
     .options = {{OPT_DATA, "the step's output (default: null)"}},
     .run = ctl_verb_signal},

    {.name = "answer",
     .group = GROUP_OPERATE,
     .args = "KEY",
     .args_min = 1,
     .args_max = 1,
     .arg = CTL_ARG_NONE,
     .summary = "bring the word of a service on a key, as its own callback would; no reason",
     .about = "KEY is what the service got as Idempotency-Key: RUN:STEP:execute or\n"
              "RUN:STEP:compensate. An answer that comes late is kept as evidence, and a success\n"
              "of what counted as not applied is undone like everything else. To decide as a\n"
              "person, settle.",
     .options =
         {
             {OPT_APPLIED, "the service did it"},
             {OPT_REFUSED, "the service refuses it for good"},
             {OPT_OUTPUT, "with --applied: its answer"},
             {OPT_TEXT, "its own words, in a line"},
         },
     .run = ctl_verb_answer},

    {.name = "bulk",
     .group = GROUP_OPERATE,
     .args = "[show|stop ID]",
     .args_max = 2,
     .arg = CTL_ARG_WORD,
     .words = "list|show|stop",
     .summary = "the verbs for many runs, how far each is; stop one (no reason)",
     .about = "What was released before a stop is still decided.",
     .run = ctl_verb_bulk},

    {.name = "migrate",
     .group = GROUP_OPERATE,
     .args = "[RUN...]",
     .args_max = 100,
     .arg = CTL_ARG_RUN,
     .summary = "let resting runs go on under another version of their workflow",
     .about =
         "A run keeps the version that it was started with, forward and backward. A parked or\n"
         "paused run can be pinned to another one: steps that have not run then follow the\n"
         "new file, and so do compensations. It is refused where a step that has run would\n"
         "be gone, or have another tier, pivot or key. Each run is checked before any is\n"
         "changed; several at once need --yes.",
     .options =
         {
             {OPT_TO, "the version: its hash, the first digits of it (6 at least), or its label"},
             {OPT_WORKFLOW, "instead of RUN: the runs of this workflow"},
             {OPT_STATE, "with --workflow: in this state"},
             {OPT_LIMIT, "with --workflow: so many at most; 0: all (default: 100)"},
             {OPT_DRY_RUN, "only say which runs could be migrated"},
             {OPT_YES, "do not ask"},
             REASON,
         },
     .run = ctl_verb_migrate},

    {.name = "services",
     .group = GROUP_DAEMON,
     .args = "",
     .summary = "list services: what is sent to them, what waits, whose breaker is open",
     .run = ctl_verb_services},
    {.name = "daemons",
     .group = GROUP_DAEMON,
     .args = "",
     .summary = "list the daemons that share the database",
     .run = ctl_verb_daemons},
    {.name = "ping",
     .group = GROUP_DAEMON,
     .args = "",
     .summary = "ask whether the daemon answers",
     .run = ctl_verb_ping},

    {.name = "completion",
     .group = GROUP_HELP,
     .args = "bash|zsh|fish",
     .args_min = 1,
     .args_max = 1,
     .arg = CTL_ARG_WORD,
     .words = "bash|zsh|fish",
     .summary = "print the completion script of a shell",
     .about = "  bash:  source <(sagactl completion bash)\n"
              "  zsh:   source <(sagactl completion zsh)\n"
              "  fish:  sagactl completion fish | source",
     .run = ctl_verb_completion},
    {.name = "help",
     .group = GROUP_HELP,
     .args = "[VERB]",
     .args_max = 1,
     .arg = CTL_ARG_NONE,
     .summary = "print the help of a verb, or this overview",
     .run = ctl_verb_help},
};
const size_t ctl_verbs_count = ARRAY_LEN(ctl_verbs);

const struct ctl_verb *ctl_verb_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(ctl_verbs); i++)
        if (strcmp(ctl_verbs[i].name, name) == 0)
            return &ctl_verbs[i];
    return NULL;
}
