#include "engine/ctl_bulk.h"

#include "engine/ctl_client.h"
#include "engine/ctl_json.h"
#include "engine/ctl_rows.h"
#include "engine/ctl_runs.h"
#include "engine/ctl_text.h"
#include "engine/ctl_verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define LOOK_EVERY_MS 200
#define IDS_SHOWN 5

static const enum ctl_opt filters[] = {OPT_STATE, OPT_WORKFLOW, OPT_SINCE, OPT_WHERE};
static const enum ctl_opt paces[] = {OPT_RATE, OPT_ERROR_SHARE, OPT_DRY_RUN, OPT_YES};

static bool any_of(const struct ctl *ctl, const enum ctl_opt *options, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (ctl_has(ctl, options[i]))
            return true;
    return false;
}

bool ctl_bulk_wanted(const struct ctl *ctl)
{
    return ctl->args_count != 1 || any_of(ctl, filters, ARRAY_LEN(filters)) ||
           any_of(ctl, paces, ARRAY_LEN(paces));
}

/* --- what is asked for ------------------------------------------------------------------------ */

/* "10/s", "30/m" or "10", as runs a second. */
static bool rate_parse(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    if (end == text || *text == '-')
        return false;
    if (strcmp(end, "/m") == 0)
        *out /= 60;
    else if (*end && strcmp(end, "/s") != 0)
        return false;
    return *out >= 0.01 && *out <= 1000;
}

static int usage_check(struct ctl *ctl, double *rate, double *share)
{
    const char *verb = ctl->verb->name;
    bool filtered = any_of(ctl, filters, ARRAY_LEN(filters));
    char *end;
    if (!ctl->args_count && !filtered)
        return ctl_usage(ctl, "%s needs RUN..., or --state, --workflow, --since or --where", verb);
    if (ctl->args_count && filtered)
        return ctl_usage(ctl, "give runs or a filter, not both");
    if (ctl_has(ctl, OPT_STATE) && strcmp(ctl_option(ctl, OPT_STATE), "paused") == 0)
        return ctl_usage(ctl, "--state paused is for list: resume takes the paused runs of the "
                              "other filters by itself");
    if (ctl->args_count == 1)
        return ctl_usage(ctl,
                         "--rate, --max-error-share, --dry-run and --yes are for several runs");
    if (ctl_has(ctl, OPT_INPUT) || ctl_has(ctl, OPT_STEP_INPUT))
        return ctl_usage(ctl, "a corrected input is for one run: name it");
    if (ctl_has(ctl, OPT_RATE) && !rate_parse(ctl_option(ctl, OPT_RATE), rate))
        return ctl_usage(ctl, "\"%s\" for --rate is not a rate like 10/s or 30/m, 1000/s at most",
                         ctl_option(ctl, OPT_RATE));
    if (ctl_has(ctl, OPT_ERROR_SHARE)) {
        *share = strtod(ctl_option(ctl, OPT_ERROR_SHARE), &end);
        if (*end || !(*share >= 0 && *share <= 1))
            return ctl_usage(ctl, "\"%s\" for --max-error-share is not a number from 0 to 1",
                             ctl_option(ctl, OPT_ERROR_SHARE));
    }
    return CTL_OK;
}

static void filter_write(struct ctl *ctl, struct buf *out)
{
    const char *separator = "";
    buf_add_z(out, "{");
    if (ctl->args_count)
        buf_add_z(out, "\"run_ids\":[");
    for (unsigned i = 0; i < ctl->args_count; i++, separator = ",") {
        buf_add_z(out, separator);
        json_write_string(str_z(ctl->args[i]), out);
    }
    if (ctl->args_count)
        buf_add_z(out, "]");
    for (size_t i = 0; i < ARRAY_LEN(filters); i++) {
        if (!ctl_has(ctl, filters[i]))
            continue;
        buf_printf(out, "%s\"%s\":", separator, ctl_options[filters[i]].name);
        json_write_string(str_z(ctl_option(ctl, filters[i])), out);
        separator = ",";
    }
    buf_add_z(out, "}");
}

/* With a token it is the deed, else the count. */
static int post(struct ctl *ctl, struct str token, double rate, double share, struct str *text,
                const struct json **answer)
{
    struct buf body = {0};
    struct ctl_request request = {
        .method = "POST", .path = arena_printf(&ctl->arena, "/v1/runs:%s", ctl->verb->name)};
    struct ctl_reply reply;
    struct err err;
    buf_add_z(&body, "{\"filter\":");
    filter_write(ctl, &body);
    if (rate >= 0)
        buf_printf(&body, ",\"rate\":%.6f", rate);
    if (share >= 0)
        buf_printf(&body, ",\"max_error_share\":%.6f", share);
    if (token.ptr) {
        buf_add_z(&body, ",\"reason\":");
        json_write_string(str_z(ctl_option(ctl, OPT_REASON)), &body);
        buf_add_z(&body, ",\"token\":");
        json_write_string(token, &body);
    } else {
        buf_add_z(&body, ",\"dry_run\":true");
    }
    buf_add_char(&body, '}');
    request.body = buf_str(&body);
    int code = ctl_call(ctl, &request, &reply, &err);
    buf_free(&body);
    if (code)
        return ctl_fail(ctl, &err);
    if (reply.status != 200 && reply.status != 202)
        return ctl_refused(ctl, &reply);
    *text = arena_str(&ctl->arena, reply.body);
    if (ctl_json_parse(*text, &ctl->arena, answer, &err) != 0) {
        ctl_say(ctl, "the daemon's answer cannot be read: %s", err.text);
        return CTL_ERROR;
    }
    return CTL_OK;
}

/* The first ids on stdout, how many there are beside it. */
static void counted_print(struct ctl *ctl, struct str text, const struct json *counted)
{
    const struct json *ids = json_get_z(counted, "run_ids");
    if (ctl_format_is_json(ctl)) {
        ctl_print_document(ctl, text);
        return;
    }
    for (uint32_t i = 0; ids && i < ids->count; i++) {
        text_add(&ctl->out, ids->items[i]->text);
        buf_add_char(&ctl->out, '\n');
    }
    ctl_say(ctl, "%s would take %lld run%s", ctl->verb->name,
            (long long)ctl_bulk_number(counted, "count"),
            ctl_bulk_number(counted, "count") == 1 ? "" : "s");
}

/* Says how many runs it would take, and asks. */
static bool confirmed(struct ctl *ctl, const struct json *counted)
{
    const struct json *ids = json_get_z(counted, "run_ids");
    int64_t count = ctl_bulk_number(counted, "count");
    struct buf list = {0};
    char answer[8] = "";
    uint32_t shown = ids ? MIN(ids->count, (uint32_t)IDS_SHOWN) : 0;
    for (uint32_t i = 0; i < shown; i++) {
        buf_add_z(&list, i ? ", " : "");
        text_add(&list, ids->items[i]->text);
    }
    if (count > shown)
        buf_printf(&list, " and %lld more", (long long)count - shown);
    ctl_say(ctl, "%s takes %lld run%s: %s", ctl->verb->name, (long long)count,
            count == 1 ? "" : "s", list.data);
    buf_free(&list);
    if (ctl_has(ctl, OPT_YES))
        return true;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
        ctl_say(ctl, "nothing was done: say --yes to do it");
        return false;
    }
    fprintf(stderr, "%s %s? [y/N] ", ctl->verb->name, count == 1 ? "it" : "them");
    fflush(stderr);
    if (fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y'))
        return true;
    ctl_say(ctl, "nothing was done");
    return false;
}

/* --- how far it is -----------------------------------------------------------------------------
 */

static void progress_draw(const struct json *bulk)
{
    int64_t refused = ctl_bulk_number(bulk, "refused"), lost = ctl_bulk_number(bulk, "lost");
    fprintf(stderr, "\r%lld of %lld", (long long)(ctl_bulk_number(bulk, "done") + refused + lost),
            (long long)ctl_bulk_number(bulk, "total"));
    if (refused)
        fprintf(stderr, ", %lld refused", (long long)refused);
    if (lost)
        fprintf(stderr, ", %lld lost", (long long)lost);
    fputs("\033[K", stderr);
    fflush(stderr);
}

/* Until it is over; `reply` is the whole of it then. */
static int follow(struct ctl *ctl, struct str id, struct ctl_reply *reply, const struct json **bulk)
{
    struct ctl_request request = {.method = "GET"};
    struct wall since = WALL_NONE;
    bool draws = isatty(STDERR_FILENO) && !ctl_format_is_json(ctl);
    struct err err;
    for (;;) {
        arena_reset(&ctl->scratch);
        request.path = ctl_path(ctl, "/v1/bulk/", id, "");
        int code = ctl_call(ctl, &request, reply, &err);
        if (code || reply->status != 200) {
            if (ctl_patience(ctl, code ? &err : NULL, code ? 0 : reply->status, &since))
                continue;
            return code ? ctl_fail(ctl, &err) : ctl_refused(ctl, reply);
        }
        since = WALL_NONE;
        if (ctl_json_parse(reply->body, &ctl->scratch, bulk, &err) != 0) {
            ctl_say(ctl, "the daemon's answer cannot be read: %s", err.text);
            return CTL_ERROR;
        }
        if (draws)
            progress_draw(*bulk);
        struct str state = json_get_text(*bulk, "state");
        if (str_eq(state, STR("done")) || str_eq(state, STR("stopped"))) {
            if (draws)
                fputs("\r\033[K", stderr);
            return CTL_OK;
        }
        nanosleep(&(struct timespec){.tv_nsec = LOOK_EVERY_MS * 1000000L}, NULL);
    }
}

static int bulk_exit(const struct json *bulk)
{
    int64_t total = ctl_bulk_number(bulk, "total"), refused = ctl_bulk_number(bulk, "refused");
    if (ctl_bulk_number(bulk, "done") == total)
        return CTL_OK;
    return refused && refused == ctl_bulk_number(bulk, "released") ? CTL_CONFLICT : CTL_ERROR;
}

int ctl_bulk_run(struct ctl *ctl)
{
    const struct json *counted, *begun, *bulk;
    struct ctl_reply reply;
    struct str text;
    double rate = -1, share = -1;
    int code = usage_check(ctl, &rate, &share);
    if (!code)
        code = post(ctl, STR_NONE, rate, share, &text, &counted);
    if (code)
        return code;
    if (ctl_has(ctl, OPT_DRY_RUN)) {
        counted_print(ctl, text, counted);
        return CTL_OK;
    }
    if (!ctl_bulk_number(counted, "count")) {
        ctl_say(ctl, "there is no such run to %s", ctl->verb->name);
        return CTL_OK;
    }
    if (!confirmed(ctl, counted))
        return CTL_USAGE;
    code = post(ctl, json_get_text(counted, "token"), rate, share, &text, &begun);
    if (code)
        return code;
    struct str id = json_get_text(begun, "bulk_id");
    ctl_on_interrupt(arena_printf(&ctl->arena,
                                  "\nsagactl: the daemons go on with it: sagactl bulk show " STR_FMT
                                  ", sagactl bulk stop " STR_FMT "\n",
                                  STR_ARG(id), STR_ARG(id))
                         .ptr);
    code = follow(ctl, id, &reply, &bulk);
    if (code) {
        ctl_hint(ctl, "  the daemons go on with it: sagactl bulk show " STR_FMT, STR_ARG(id));
        return code;
    }
    ctl_bulk_print(ctl, &reply, bulk);
    return bulk_exit(bulk);
}
