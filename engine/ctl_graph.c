/*
 * ctl_graph.c: sagactl graph: a workflow as a picture, in Mermaid, DOT or, by Graphviz, SVG.
 *
 * The picture is made once, as nodes and arrows (struct picture), and then written in either
 * language, so that they cannot disagree. Whatever an author wrote is escaped for the language it
 * goes into: a title never becomes markup.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dsl/dsl.h"
#include "dsl/tests.h"
#include "engine/ctl_files.h"
#include "engine/ctl_json.h"
#include "engine/ctl_runs.h"
#include "engine/ctl_text.h"
#include "engine/ctl_verbs.h"

#define TITLE_COLUMNS_MAX 48 /* longer ones make a picture that no screen holds */
#define NOTES_MAX 6

enum shape {
    SHAPE_START,
    SHAPE_END,
    SHAPE_CALL,
    SHAPE_PIVOT,
    SHAPE_TIMER,
    SHAPE_GATE,
    SHAPE_CHILD
};

/* How a step of a run is painted. */
enum tone {
    TONE_PLAIN,
    TONE_DONE,    /* applied */
    TONE_FAILED,  /* refused, or its undo failed */
    TONE_UNDONE,  /* compensated */
    TONE_MOVING,  /* on its way, waiting, retrying */
    TONE_UNKNOWN, /* may or may not be applied */
    TONE_PASSED,  /* skipped, withdrawn */
    TONE_COUNT
};

static const struct {
    const char *name, *fill, *line;
} tones[TONE_COUNT] = {
    {"plain", "#ffffff", "#475569"},  {"done", "#dcfce7", "#15803d"},
    {"failed", "#fee2e2", "#b91c1c"}, {"undone", "#e0e7ff", "#4338ca"},
    {"moving", "#e0f2fe", "#0369a1"}, {"unknown", "#fef3c7", "#b45309"},
    {"passed", "#f1f5f9", "#94a3b8"},
};

struct drawn {
    const char *id; /* in the picture's language */
    enum shape shape;
    enum tone tone;
    struct str title, text; /* bold line, and the one below; absent: none */
    struct str notes[NOTES_MAX];
    unsigned notes_count;
    bool irreversible, best_effort;
};

struct arrow {
    const char *from, *to;
    bool back;
    struct str label; /* absent: none */
};

struct picture {
    struct arena *arena;
    const struct plan *plan;
    const struct dsl_title *titles;
    const struct model_run *run; /* NULL: none */
    struct drawn *drawn;
    struct arrow *arrows;
    size_t drawn_count, arrows_count, arrows_size;
    bool *past; /* by step: a pivot lies before it, or it is one: nothing leads back from there */
};

/* --- the picture ------------------------------------------------------------------------- */

static void arrow_add(struct picture *picture, const char *from, const char *to, bool back,
                      struct str label)
{
    if (picture->arrows_count == picture->arrows_size) {
        picture->arrows_size = picture->arrows_size ? 2 * picture->arrows_size : 64;
        picture->arrows =
            xrealloc(picture->arrows, picture->arrows_size * sizeof(*picture->arrows));
    }
    picture->arrows[picture->arrows_count++] = (struct arrow){from, to, back, label};
}

static struct str cut(struct picture *picture, struct str text)
{
    struct buf out = {0};
    text_add_cut(&out, text, TITLE_COLUMNS_MAX);
    struct str made = arena_str(picture->arena, buf_str(&out));
    buf_free(&out);
    return made;
}

static const char *step_node(struct picture *picture, uint16_t step)
{
    return arena_printf(picture->arena, "s_%s", picture->plan->steps[step].id).ptr;
}

static void note_add(struct drawn *drawn, struct str note)
{
    ASSERT(drawn->notes_count < NOTES_MAX);
    drawn->notes[drawn->notes_count++] = note;
}

static enum tone tone_of(const struct model_step *step)
{
    switch (model_phase_of(step)) {
    case MODEL_PENDING: return TONE_PLAIN;
    case MODEL_SENDING:
    case MODEL_RETRYING:
    case MODEL_WAITING:
    case MODEL_UNDOING:
    case MODEL_UNDO_RETRYING: return TONE_MOVING;
    case MODEL_UNKNOWN:
    case MODEL_UNDO_UNKNOWN: return TONE_UNKNOWN;
    case MODEL_APPLIED: return TONE_DONE;
    case MODEL_REFUSED:
    case MODEL_UNDO_FAILED: return TONE_FAILED;
    case MODEL_SKIPPED:
    case MODEL_WITHDRAWN: return TONE_PASSED;
    case MODEL_UNDONE:
    case MODEL_UNDO_SKIPPED: return TONE_UNDONE;
    }
    return TONE_PLAIN;
}

static enum shape shape_of(const struct plan_step *step)
{
    switch (step->action.kind) {
    case ACTION_SLEEP:
    case ACTION_UNTIL: return SHAPE_TIMER;
    case ACTION_WAIT_FOR: return SHAPE_GATE;
    case ACTION_CHILD: return step->pivot ? SHAPE_PIVOT : SHAPE_CHILD;
    case ACTION_HTTP:
    case ACTION_SQL:
    case ACTION_EXEC:
    case ACTION_WORKER:
    case ACTION_NONE: break;
    }
    return step->pivot ? SHAPE_PIVOT : SHAPE_CALL;
}

/* The worst tone of a step's instances, and how they stand: "applied", "3 applied, 1 refused". */
static void state_draw(struct picture *picture, const char *id, struct drawn *drawn)
{
    static const enum tone worst[] = {TONE_FAILED, TONE_UNKNOWN, TONE_MOVING, TONE_UNDONE,
                                      TONE_DONE,   TONE_PASSED,  TONE_PLAIN};
    uint32_t seen[TONE_COUNT] = {0}, count = 0;
    const char *word = NULL;
    size_t len = strlen(id);
    for (uint32_t i = 0; i < picture->run->steps_count; i++) {
        const struct model_step *step = &picture->run->steps[i];
        bool mine =
            str_starts(step->id, str_z(id)) && (step->id.len == len || step->id.ptr[len] == '.');
        if (!mine)
            continue;
        seen[tone_of(step)]++;
        word = model_step_word(step);
        count++;
    }
    for (size_t i = ARRAY_LEN(worst); i-- > 0;)
        if (seen[worst[i]])
            drawn->tone = worst[i];
    if (count == 1 && word && drawn->tone != TONE_PLAIN)
        note_add(drawn, str_z(word));
    else if (count > 1)
        note_add(drawn, arena_printf(picture->arena, "%u of %u done", seen[TONE_DONE], count));
}

static void step_draw(struct picture *picture, uint16_t index)
{
    const struct plan_step *step = &picture->plan->steps[index];
    const struct dsl_title *title = &picture->titles[index];
    struct drawn *drawn = &picture->drawn[picture->drawn_count++];
    *drawn = (struct drawn){.id = step_node(picture, index),
                            .shape = shape_of(step),
                            .title = str_z(step->id),
                            .text = cut(picture, title->action)};
    drawn->irreversible = step->action.effect == EFFECT_IRREVERSIBLE;
    drawn->best_effort = step->on_failure == ON_FAILURE_CONTINUE;
    if (title->for_each.ptr)
        note_add(drawn,
                 arena_printf(
                     picture->arena, "for each of " STR_FMT "%s",
                     STR_ARG(cut(picture, title->for_each)),
                     step->max_parallel > 1
                         ? arena_printf(picture->arena, ", %u at a time", step->max_parallel).ptr
                         : ""));
    if (title->condition.ptr)
        note_add(drawn, arena_printf(picture->arena, "if " STR_FMT,
                                     STR_ARG(cut(picture, title->condition))));
    if (step->pivot)
        note_add(drawn, drawn->irreversible ? STR("irreversible: no way back")
                                            : STR("pivot: no way back"));
    else if (drawn->irreversible)
        note_add(drawn, STR("irreversible"));
    if (drawn->best_effort)
        note_add(drawn, STR("best effort"));
    if (step->on_failure == ON_FAILURE_PARK)
        note_add(drawn, STR("parks if it fails"));
    if (picture->run)
        state_draw(picture, step->id, drawn);
}

/* What a run that turns back does as it leaves the step; absent: nothing. */
static struct str undo_label(struct picture *picture, uint16_t index)
{
    const struct plan_step *step = &picture->plan->steps[index];
    if (step->compensate.kind == ACTION_CHILD)
        return STR("the child is undone");
    if (step->compensate.kind != ACTION_NONE)
        return cut(picture, picture->titles[index].compensate);
    if (step->compensate_none)
        return arena_printf(picture->arena, "stays: " STR_FMT,
                            STR_ARG(cut(picture, str_z(step->compensate_none))));
    return step->action.effect == EFFECT_IRREVERSIBLE ? STR("stays") : STR_NONE;
}

static void arrows_draw(struct picture *picture, uint16_t index)
{
    const struct plan_step *step = &picture->plan->steps[index];
    const char *mine = step_node(picture, index);
    struct str label = undo_label(picture, index);
    bool back = !picture->past[index];
    for (uint16_t i = 0; i < step->needs_count; i++)
        arrow_add(picture, step_node(picture, step->needs[i]), mine, false, STR_NONE);
    if (!step->needs_count)
        arrow_add(picture, "start", mine, false, STR_NONE);
    if (!step->needed_by_count)
        arrow_add(picture, mine, "done", false, STR_NONE);
    for (uint16_t i = 0; back && i < step->needs_count; i++)
        arrow_add(picture, mine, step_node(picture, step->needs[i]), true, i ? STR_NONE : label);
    if (back && !step->needs_count)
        arrow_add(picture, mine, "undone", true, label);
}

static void past_mark(struct picture *picture)
{
    const struct plan *plan = picture->plan;
    picture->past = arena_array(picture->arena, bool, plan->steps_count);
    for (uint16_t i = 0; i < plan->steps_count; i++) {
        picture->past[i] = plan->steps[i].pivot;
        for (uint16_t j = 0; j < plan->steps[i].needs_count; j++)
            picture->past[i] = picture->past[i] || picture->past[plan->steps[i].needs[j]];
    }
}

static void picture_make(struct picture *picture)
{
    const struct plan *plan = picture->plan;
    enum tone done = TONE_PLAIN, undone = TONE_PLAIN;
    bool leads_back = false;
    past_mark(picture);
    if (picture->run && str_eq(picture->run->state, STR("completed")))
        done = TONE_DONE;
    if (picture->run && str_eq(picture->run->state, STR("compensated")))
        undone = TONE_UNDONE;
    for (uint16_t i = 0; i < plan->steps_count; i++)
        leads_back = leads_back || !picture->past[i];
    picture->drawn = arena_array(picture->arena, struct drawn, plan->steps_count + 3u);
    picture->drawn[picture->drawn_count++] =
        (struct drawn){.id = "start", .shape = SHAPE_START, .title = str_z(plan->workflow)};
    for (uint16_t i = 0; i < plan->steps_count; i++) {
        step_draw(picture, i);
        arrows_draw(picture, i);
    }
    picture->drawn[picture->drawn_count++] =
        (struct drawn){.id = "done", .shape = SHAPE_END, .tone = done, .title = STR("completed")};
    if (leads_back)
        picture->drawn[picture->drawn_count++] = (struct drawn){
            .id = "undone", .shape = SHAPE_END, .tone = undone, .title = STR("compensated")};
}

/* --- Mermaid ----------------------------------------------------------------------------- */

/* Inside quotes; entities are `#name;` there, and what could be Markdown or markup is one. */
static void mermaid_escape(struct buf *out, struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c < 0x80 && (strchr("\"#<>&`;\\", c) || c < ' '))
            buf_printf(out, "#%u;", c < ' ' ? ' ' : c);
        else
            buf_add_char(out, (char)c);
    }
}

static void mermaid_node(struct buf *out, const struct drawn *drawn)
{
    static const char *const shapes[][2] = {
        [SHAPE_START] = {"([", "])"}, [SHAPE_END] = {"([", "])"}, [SHAPE_CALL] = {"[", "]"},
        [SHAPE_PIVOT] = {"{{", "}}"}, [SHAPE_TIMER] = {"(", ")"}, [SHAPE_GATE] = {"[/", "/]"},
        [SHAPE_CHILD] = {"[[", "]]"},
    };
    buf_printf(out, "    %s%s\"", drawn->id, shapes[drawn->shape][0]);
    buf_add_z(out, "<b>");
    mermaid_escape(out, drawn->title);
    buf_add_z(out, "</b>");
    if (drawn->text.len) {
        buf_add_z(out, "<br/>");
        mermaid_escape(out, drawn->text);
    }
    for (unsigned i = 0; i < drawn->notes_count; i++) {
        buf_add_z(out, "<br/><i>");
        mermaid_escape(out, drawn->notes[i]);
        buf_add_z(out, "</i>");
    }
    buf_printf(out, "\"%s\n", shapes[drawn->shape][1]);
}

static void mermaid_classes(struct buf *out, const struct picture *picture)
{
    bool used[TONE_COUNT] = {0}, irreversible = false, best_effort = false;
    for (size_t i = 0; i < picture->drawn_count; i++) {
        used[picture->drawn[i].tone] = true;
        irreversible = irreversible || picture->drawn[i].irreversible;
        best_effort = best_effort || picture->drawn[i].best_effort;
    }
    for (int tone = 0; tone < TONE_COUNT; tone++)
        if (used[tone])
            buf_printf(out, "    classDef %s fill:%s,stroke:%s,color:#0f172a\n", tones[tone].name,
                       tones[tone].fill, tones[tone].line);
    if (irreversible)
        buf_add_z(out, "    classDef irreversible stroke:#b91c1c,stroke-width:3px\n");
    if (best_effort)
        buf_add_z(out, "    classDef besteffort stroke-dasharray:5 3\n");
    for (size_t i = 0; i < picture->drawn_count; i++) {
        const struct drawn *drawn = &picture->drawn[i];
        buf_printf(out, "    class %s %s\n", drawn->id, tones[drawn->tone].name);
        if (drawn->irreversible)
            buf_printf(out, "    class %s irreversible\n", drawn->id);
        if (drawn->best_effort)
            buf_printf(out, "    class %s besteffort\n", drawn->id);
    }
}

static void mermaid_write(struct buf *out, const struct picture *picture)
{
    buf_add_z(out, "flowchart TD\n");
    for (size_t i = 0; i < picture->drawn_count; i++)
        mermaid_node(out, &picture->drawn[i]);
    for (size_t i = 0; i < picture->arrows_count; i++) {
        const struct arrow *arrow = &picture->arrows[i];
        buf_printf(out, "    %s %s", arrow->from, arrow->back ? "-.->" : "-->");
        if (arrow->label.len) {
            buf_add_z(out, "|\"");
            mermaid_escape(out, arrow->label);
            buf_add_z(out, "\"|");
        }
        buf_printf(out, " %s\n", arrow->to);
    }
    mermaid_classes(out, picture);
}

/* --- DOT --------------------------------------------------------------------------------- */

/* For labels in <>, which are XML. */
static void dot_escape(struct buf *out, struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c < ' ')
            buf_add_char(out, ' ');
        else if (c < 0x80 && strchr("\"<>&[]", c))
            buf_printf(out, "&#%u;", c);
        else
            buf_add_char(out, (char)c);
    }
}

static void dot_font(struct buf *out, const char *color, const char *open, struct str text,
                     const char *close)
{
    buf_printf(out, "<br/><font point-size=\"10\" color=\"%s\">%s", color, open);
    dot_escape(out, text);
    buf_printf(out, "%s</font>", close);
}

static void dot_node(struct buf *out, const struct drawn *drawn)
{
    static const char *const shapes[] = {
        [SHAPE_START] = "oval",    [SHAPE_END] = "oval",  [SHAPE_CALL] = "box",
        [SHAPE_PIVOT] = "hexagon", [SHAPE_TIMER] = "box", [SHAPE_GATE] = "parallelogram",
        [SHAPE_CHILD] = "box",
    };
    const char *style =
        drawn->shape == SHAPE_TIMER || drawn->shape == SHAPE_CALL ? "rounded,filled" : "filled";
    buf_printf(
        out, "    %s [shape=%s, style=\"%s%s\", fillcolor=\"%s\", color=\"%s\"%s%s, label=<<b>",
        drawn->id, shapes[drawn->shape], style, drawn->best_effort ? ",dashed" : "",
        tones[drawn->tone].fill, drawn->irreversible ? "#b91c1c" : tones[drawn->tone].line,
        drawn->irreversible ? ", penwidth=2.2" : "",
        drawn->shape == SHAPE_CHILD                                 ? ", peripheries=2"
        : drawn->shape == SHAPE_GATE || drawn->shape == SHAPE_PIVOT ? ", margin=\"0.03,0.03\""
                                                                    : "");
    dot_escape(out, drawn->title);
    buf_add_z(out, "</b>");
    if (drawn->text.len)
        dot_font(out, "#334155", "", drawn->text, "");
    for (unsigned i = 0; i < drawn->notes_count; i++)
        dot_font(out, "#64748b", "<i>", drawn->notes[i], "</i>");
    buf_add_z(out, ">];\n");
}

static void dot_write(struct buf *out, const struct picture *picture)
{
    buf_printf(out,
               "digraph \"%s\" {\n"
               "    graph [rankdir=TB, bgcolor=\"white\", nodesep=0.7, ranksep=0.55, pad=0.3];\n"
               "    node [fontname=\"Helvetica\", fontsize=13, fontcolor=\"#0f172a\", "
               "margin=\"0.22,0.11\"];\n"
               "    edge [fontname=\"Helvetica\", fontsize=10, color=\"#475569\", "
               "arrowsize=0.8];\n",
               picture->plan->workflow);
    for (size_t i = 0; i < picture->drawn_count; i++)
        dot_node(out, &picture->drawn[i]);
    for (size_t i = 0; i < picture->arrows_count; i++) {
        const struct arrow *arrow = &picture->arrows[i];
        /* The way back is drawn against the ranks of the way forward. */
        buf_printf(out, "    %s -> %s", arrow->from, arrow->to);
        if (arrow->back)
            buf_printf(out, " [style=dashed, color=\"#b45309\", fontcolor=\"#b45309\", "
                            "constraint=false");
        if (arrow->back && arrow->label.len) {
            buf_add_z(out, ", label=<");
            dot_escape(out, arrow->label);
            buf_add_char(out, '>');
        }
        buf_add_z(out, arrow->back ? "];\n" : ";\n");
    }
    if (strcmp(picture->drawn[picture->drawn_count - 1].id, "undone") == 0)
        buf_add_z(out, "    {rank=same; start; undone;}\n");
    buf_add_z(out, "}\n");
}

/* --- SVG, by Graphviz -------------------------------------------------------------------- */

static NORETURN void dot_exec(int in, int out)
{
    if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0)
        _exit(126);
    execlp("dot", "dot", "-Tsvg", (char *)NULL);
    _exit(errno == ENOENT ? 127 : 126);
}

/* Reads all that the child writes. */
static bool pipe_read(int fd, struct buf *out)
{
    char chunk[16384];
    ssize_t len;
    while ((len = read(fd, chunk, sizeof(chunk))) > 0 || (len < 0 && errno == EINTR))
        if (len > 0)
            buf_add(out, chunk, (size_t)len);
    return len == 0;
}

static int svg_failed(struct ctl *ctl, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
        ctl_say(ctl, "svg needs the program `dot` of Graphviz, which is not installed");
        ctl_hint(ctl, "Install it (apt-get install graphviz), or take --format mermaid or dot.");
    } else {
        ctl_say(ctl, "`dot` has failed");
    }
    return CTL_ERROR;
}

static int svg_write(struct ctl *ctl, const struct buf *dot)
{
    struct buf svg = {0};
    int pipes[2], status = -1;
    FILE *text = tmpfile(); /* a file, so that neither side waits for the other */
    bool ok = text && fwrite(dot->data, 1, dot->len, text) == dot->len && fflush(text) == 0 &&
              lseek(fileno(text), 0, SEEK_SET) == 0 && pipe(pipes) == 0;
    if (!ok) {
        ctl_say(ctl, "could not call `dot`: %s", strerror(errno));
        if (text)
            fclose(text);
        return CTL_ERROR;
    }
    pid_t child = fork();
    if (child == 0)
        dot_exec(fileno(text), pipes[1]);
    close(pipes[1]);
    ok = child > 0 && pipe_read(pipes[0], &svg);
    close(pipes[0]);
    fclose(text);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    ok = ok && status == 0;
    if (ok)
        buf_add_str(&ctl->out, buf_str(&svg));
    buf_free(&svg);
    return ok ? CTL_OK : svg_failed(ctl, status);
}

/* --- the verb ---------------------------------------------------------------------------- */

static const struct json *picture_json(const struct picture *picture)
{
    static const char *const shapes[] = {"start", "end", "call", "pivot", "timer", "gate", "child"};
    struct arena *arena = picture->arena;
    struct json *out = json_object_new(arena, 3);
    struct json *nodes = json_list_new(arena, (uint32_t)picture->drawn_count);
    struct json *arrows = json_list_new(arena, (uint32_t)picture->arrows_count);
    for (size_t i = 0; i < picture->drawn_count; i++) {
        const struct drawn *drawn = &picture->drawn[i];
        struct json *node = json_object_new(arena, 6), *notes = json_list_new(arena, NOTES_MAX);
        for (unsigned j = 0; j < drawn->notes_count; j++)
            json_list_add(notes, json_string(arena, drawn->notes[j]));
        json_object_add_z(node, "id", json_string_z(arena, drawn->id));
        json_object_add_z(node, "shape", json_string_z(arena, shapes[drawn->shape]));
        json_object_add_z(node, "title", json_string(arena, drawn->title));
        json_object_add_z(node, "text",
                          drawn->text.len ? json_string(arena, drawn->text) : &json_null);
        json_object_add_z(node, "notes", notes);
        json_object_add_z(node, "tone", json_string_z(arena, tones[drawn->tone].name));
        json_list_add(nodes, node);
    }
    for (size_t i = 0; i < picture->arrows_count; i++) {
        const struct arrow *arrow = &picture->arrows[i];
        struct json *edge = json_object_new(arena, 4);
        json_object_add_z(edge, "from", json_string_z(arena, arrow->from));
        json_object_add_z(edge, "to", json_string_z(arena, arrow->to));
        json_object_add_z(edge, "back", json_bool(arrow->back));
        json_object_add_z(edge, "label",
                          arrow->label.len ? json_string(arena, arrow->label) : &json_null);
        json_list_add(arrows, edge);
    }
    json_object_add_z(out, "workflow", json_string_z(arena, picture->plan->workflow));
    json_object_add_z(out, "nodes", nodes);
    json_object_add_z(out, "arrows", arrows);
    return out;
}

static int picture_write(struct ctl *ctl, const struct picture *picture)
{
    const char *format = ctl_option(ctl, OPT_PICTURE);
    struct buf dot = {0};
    int code = CTL_OK;
    if (ctl_format_is_json(ctl)) {
        struct str text = json_text(picture_json(picture), picture->arena);
        (ctl->format == CTL_FORMAT_JSON ? ctl_json_pretty : ctl_json_compact)(text, &ctl->out);
    } else if (!format || strcmp(format, "mermaid") == 0) {
        mermaid_write(&ctl->out, picture);
    } else if (strcmp(format, "dot") == 0) {
        dot_write(&ctl->out, picture);
    } else {
        dot_write(&dot, picture);
        code = svg_write(ctl, &dot);
    }
    buf_free(&dot);
    return code;
}

/* The run must be one of this workflow; another version may have other steps, which is said. */
static int run_read(struct ctl *ctl, const struct plan *plan, struct ctl_run *out)
{
    int code = ctl_run_find(ctl, ctl_option(ctl, OPT_RUN), out);
    if (code)
        return code;
    if (!str_eq_z(out->run.workflow, plan->workflow)) {
        ctl_say(ctl,
                "the run \"" STR_FMT "\" is one of the workflow \"" STR_FMT "\", not of \"%s\"",
                STR_ARG(out->run.id), STR_ARG(out->run.workflow), plan->workflow);
        return CTL_USAGE;
    }
    if (out->run.version.len && !str_eq_z(out->run.version, plan->version))
        ctl_say(ctl, "the run is one of version " STR_FMT ", the file is %s",
                STR_ARG(out->run.version), plan->version);
    return CTL_OK;
}

int ctl_verb_graph(struct ctl *ctl)
{
    const char *name = ctl->args[0];
    struct str source;
    struct diags diags;
    struct ctl_run run;
    int code = ctl_source_read(ctl, name, &source);
    if (code)
        return code;
    diags_init(&diags, name, source);
    struct plan *plan = dsl_compile(source, NULL, &diags);
    if (!plan) {
        ctl_diags_say(ctl, &diags);
        ctl_say(ctl, "%s has errors; nothing was drawn", name);
        code = CTL_USAGE;
    } else if (ctl_has(ctl, OPT_RUN)) {
        code = run_read(ctl, plan, &run);
    }
    if (!code) {
        struct picture picture = {.arena = &ctl->arena,
                                  .plan = plan,
                                  .titles = dsl_titles(plan, &ctl->arena),
                                  .run = ctl_has(ctl, OPT_RUN) ? &run.run : NULL};
        picture_make(&picture);
        code = picture_write(ctl, &picture);
        free(picture.arrows);
    }
    plan_unref(plan);
    diags_free(&diags);
    return code;
}
