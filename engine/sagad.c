/*
 * sagad.c: the daemon's main: options, the private PostgreSQL of --dev, migrations, signals.
 */
#include "engine/base/buf.h"
#include "engine/config.h"
#include "engine/daemon.h"
#include "engine/failpoint.h"
#include "engine/guard.h"
#include "engine/limits.h"
#include "engine/loop.h"
#include "engine/migrate.h"
#include "engine/pgdev.h"
#include "engine/version.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { EXIT_OK = 0, EXIT_ERROR = 1, EXIT_USAGE = 2, EXIT_DATABASE = 8 };

static const char usage_text[] =
    "usage: sagad --dev [DIR] [--ephemeral]     everything for one developer\n"
    "       sagad [-c sagad.yaml] [options]     production\n"
    "       sagad migrate [--print | --check] [--database URI]\n"
    "       sagad guard --print                 SQL for the database of a participant\n"
    "\n"
    "--dev starts a private PostgreSQL in DIR/.saga (reachable by Unix socket only), migrates it,\n"
    "applies every *.yaml of DIR as workflows (sagad.yaml is read as config), applies them again\n"
    "when they change, and listens on DIR/.saga/sagad.sock.\n"
    "\n"
    "  --database URI       libpq connection string; PG* variables and service= are honoured\n"
    "  --action-database URI  the same as role saga_action, for SQL actions (default: off)\n"
    "  --socket PATH        control socket (default: $SAGA_SOCKET, $XDG_RUNTIME_DIR/sagad.sock,\n"
    "                       /run/sagad/sagad.sock)\n"
    "  --name NAME          of this daemon; two with one name do not run together (default: host)\n"
    "  --metrics ADDRESS    /metrics, /healthz and /readyz over TCP, to whoever can connect: a "
    "port of\n"
    "                       127.0.0.1, or 0.0.0.0:9464, [::1]:9464 (default: off)\n"
    "  --drain DURATION     how long SIGTERM waits for attempts in flight (default: 30s)\n"
    "  --lease DURATION     another daemon takes over after this long a silence (default: 10s)\n"
    "  --sessions N         at PostgreSQL: 2, 3 or 4; with fewer, people and reports wait for the\n"
    "                       daemon's own work (default: 4)\n"
    "  --log-format FORMAT  human, logfmt or json\n"
    "  --log-level LEVEL    debug, info, warning or error\n"
    "  --ephemeral          with --dev: data in a temporary folder that is removed at the end\n"
    "  --help, --version\n"
    "\n"
    "SIGTERM and SIGINT drain: no new sends, attempts in flight are awaited, leases are released; "
    "a\n"
    "second one ends at once, which is safe. Exit codes: 0 drained, 1 error, 2 usage or config,\n"
    "8 database unreachable.\n";

struct options {
    const char *config_path, *database, *action_database, *socket, *name, *dev_dir, *metrics;
    bool dev, ephemeral, print, check, migrate, guard;
    int64_t drain_us, lease_us; /* 0: not given */
    unsigned sessions;          /* the same */
    enum log_format log_format;
    enum log_level log_level;
    bool has_log_format;
};

struct watched { /* a workflow file of --dev */
    char *path;
    struct timespec changed;
    off_t size;
    bool seen;
    bool refused; /* as it was when it was looked at last */
};

struct process {
    struct options options;
    struct config config;
    struct loop *loop;
    struct daemon *daemon;
    struct pgdev *pgdev;
    char *socket, *lock_file, *name, *ephemeral_dir;
    char *state_dir; /* DIR/.saga */
    struct loop_signal *terminate, *interrupt, *hangup;
    struct loop_timer *files_timer;
    struct watched *files;
    unsigned files_count, files_pending, signals;
    bool announced, applied_once;
    int exit_code;
};

/* --- options -----------------------------------------------------------------------------------
 */

NORETURN static void usage_exit(const char *fmt, ...) PRINTF_LIKE(1, 2);

NORETURN static void usage_exit(const char *fmt, ...)
{
    va_list args;
    fputs("sagad: ", stderr);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputs("\nsee sagad --help\n", stderr);
    exit(EXIT_USAGE);
}

static enum log_level log_level_of(const char *text)
{
    static const char *const names[] = {"debug", "info", "warning", "error"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(text, names[i]) == 0)
            return (enum log_level)i;
    usage_exit("--log-level: \"%s\" is none of debug, info, warning, error", text);
}

enum {
    OPT_DEV = 256,
    OPT_EPHEMERAL,
    OPT_DATABASE,
    OPT_ACTION_DATABASE,
    OPT_SOCKET,
    OPT_NAME,
    OPT_METRICS,
    OPT_DRAIN,
    OPT_LEASE,
    OPT_SESSIONS,
    OPT_LOG_FORMAT,
    OPT_LOG_LEVEL,
    OPT_PRINT,
    OPT_CHECK,
    OPT_VERSION
};

static const struct option long_options[] = {
    {"dev", no_argument, NULL, OPT_DEV},
    {"ephemeral", no_argument, NULL, OPT_EPHEMERAL},
    {"config", required_argument, NULL, 'c'},
    {"database", required_argument, NULL, OPT_DATABASE},
    {"action-database", required_argument, NULL, OPT_ACTION_DATABASE},
    {"socket", required_argument, NULL, OPT_SOCKET},
    {"name", required_argument, NULL, OPT_NAME},
    {"metrics", required_argument, NULL, OPT_METRICS},
    {"drain", required_argument, NULL, OPT_DRAIN},
    {"lease", required_argument, NULL, OPT_LEASE},
    {"sessions", required_argument, NULL, OPT_SESSIONS},
    {"log-format", required_argument, NULL, OPT_LOG_FORMAT},
    {"log-level", required_argument, NULL, OPT_LOG_LEVEL},
    {"print", no_argument, NULL, OPT_PRINT},
    {"check", no_argument, NULL, OPT_CHECK},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, OPT_VERSION},
    {NULL, 0, NULL, 0},
};

static void option_take(struct options *options, int option, const char *value)
{
    switch (option) {
    case 'c': options->config_path = value; break;
    case OPT_DEV: options->dev = true; break;
    case OPT_EPHEMERAL: options->ephemeral = true; break;
    case OPT_DATABASE: options->database = value; break;
    case OPT_ACTION_DATABASE: options->action_database = value; break;
    case OPT_SOCKET: options->socket = value; break;
    case OPT_NAME: options->name = value; break;
    case OPT_METRICS: options->metrics = value; break;
    case OPT_DRAIN:
        if (!duration_parse(str_z(value), &options->drain_us))
            usage_exit("--drain: \"%s\" is not a duration like 30s", value);
        break;
    case OPT_LEASE:
        if (!duration_parse(str_z(value), &options->lease_us) ||
            !config_lease_ok(options->lease_us))
            usage_exit("--lease: \"%s\" is not a duration of 1s to 10m", value);
        break;
    case OPT_SESSIONS:
        if (!config_sessions(str_z(value), &options->sessions))
            usage_exit("--sessions: \"%s\" is none of 2, 3, 4", value);
        break;
    case OPT_LOG_FORMAT:
        options->has_log_format = true;
        if (!config_log_format(str_z(value), &options->log_format))
            usage_exit("--log-format: \"%s\" is none of human, logfmt, json", value);
        break;
    case OPT_LOG_LEVEL: options->log_level = log_level_of(value); break;
    case OPT_PRINT: options->print = true; break;
    case OPT_CHECK: options->check = true; break;
    case 'h': fputs(usage_text, stdout); exit(EXIT_OK);
    case OPT_VERSION: puts("sagad " SAGA_VERSION); exit(EXIT_OK);
    default: fputs("see sagad --help\n", stderr); exit(EXIT_USAGE);
    }
}

static void options_read(int argc, char **argv, struct options *options)
{
    int option;
    *options = (struct options){.log_level = LOG_INFO};
    if (argc > 1 && (strcmp(argv[1], "migrate") == 0 || strcmp(argv[1], "guard") == 0)) {
        options->migrate = argv[1][0] == 'm';
        options->guard = !options->migrate;
        argc--;
        argv++;
    }
    while ((option = getopt_long(argc, argv, "c:h", long_options, NULL)) != -1)
        option_take(options, option, optarg);
    if (options->dev && optind < argc)
        options->dev_dir = argv[optind++];
    if (optind < argc)
        usage_exit("unexpected argument \"%s\"", argv[optind]);
    if (options->dev && !options->dev_dir)
        options->dev_dir = ".";
    if (options->ephemeral && !options->dev)
        usage_exit("--ephemeral goes with --dev");
    if (options->dev && (options->config_path || options->database))
        usage_exit("--dev brings its own database and reads DIR/sagad.yaml");
    if (options->guard && (!options->print || options->check || options->database))
        usage_exit("guard takes --print alone: run what it prints with psql");
    if ((options->print || options->check) && !options->migrate && !options->guard)
        usage_exit("--print and --check go with migrate");
}

/* --- migrate -----------------------------------------------------------------------------------
 */

static int exit_code_of(const struct err *err)
{
    return err->code == ERR_UNAVAILABLE ? EXIT_DATABASE : EXIT_ERROR;
}

static int say_error(const struct err *err)
{
    fprintf(stderr, "sagad: %s\n", err->text);
    return exit_code_of(err);
}

static int script_print(void (*print)(struct buf *out))
{
    struct buf text = {0};
    print(&text);
    fwrite(text.data, 1, text.len, stdout);
    buf_free(&text);
    return EXIT_OK;
}

static int migrate_main(const struct options *options)
{
    struct migrate_report report;
    struct err err;
    if (options->print)
        return script_print(migrate_print);
    if (options->check) {
        if (migrate_check(options->database, &report, &err) != 0)
            return say_error(&err);
        printf("database \"%s\": schema version %d, this binary brings %d: %s\n", report.database,
               report.schema_version, report.binary_version,
               report.up_to_date ? "up to date" : "run sagad migrate");
        return report.up_to_date ? EXIT_OK : EXIT_ERROR;
    }
    if (migrate_run(options->database, &report, &err) != 0)
        return say_error(&err);
    printf("database \"%s\": %s, schema version %d\n", report.database,
           report.up_to_date ? "was up to date" : "migrated", report.binary_version);
    return EXIT_OK;
}

/* --- config ------------------------------------------------------------------------------------
 */

static int config_read(struct process *process, const char *path, bool must_exist)
{
    struct arena scratch = {0};
    struct diags diags;
    struct str source;
    struct err err;
    int code = EXIT_OK;
    config_init(&process->config);
    int read = config_file_read(path, &scratch, &source, &err);
    if (read == ERR_NOT_FOUND && !must_exist) {
        arena_free(&scratch);
        return EXIT_OK;
    }
    if (read) {
        fprintf(stderr, "sagad: %s\n", err.text);
        arena_free(&scratch);
        return EXIT_USAGE;
    }
    diags_init(&diags, path, source);
    if (!config_parse(source, &process->config, &diags)) {
        struct buf text = {0};
        diags_sort(&diags);
        diags_print(&diags, isatty(STDERR_FILENO), &text);
        fwrite(text.data, 1, text.len, stderr);
        buf_free(&text);
        code = EXIT_USAGE;
    }
    diags_free(&diags);
    arena_free(&scratch);
    return code;
}

static char *joined(const char *dir, const char *name)
{
    struct buf path = {0};
    buf_printf(&path, "%s/%s", dir, name);
    return path.data;
}

static char *default_socket(void)
{
    const char *given = getenv("SAGA_SOCKET"), *runtime = getenv("XDG_RUNTIME_DIR");
    if (given && *given)
        return xstrdup(given);
    return runtime && *runtime ? joined(runtime, "sagad.sock") : xstrdup("/run/sagad/sagad.sock");
}

static char *default_name(void)
{
    char host[64] = "sagad";
    gethostname(host, sizeof(host) - 1);
    return xstrdup(host);
}

/* --- files of --dev ------------------------------------------------------------------------------
 */

static bool is_workflow_file(const char *name)
{
    size_t len = strlen(name);
    bool tests = len > 10 && strcmp(name + len - 10, ".test.yaml") == 0; /* of `sagactl test` */
    return len > 5 && name[0] != '.' && strcmp(name + len - 5, ".yaml") == 0 && !tests &&
           strcmp(name, "sagad.yaml") != 0;
}

static struct watched *file_find(struct process *process, const char *path)
{
    for (unsigned i = 0; i < process->files_count; i++)
        if (strcmp(process->files[i].path, path) == 0)
            return &process->files[i];
    process->files = xrealloc(process->files, (process->files_count + 1) * sizeof(struct watched));
    struct watched *file = &process->files[process->files_count++];
    *file = (struct watched){.path = xstrdup(path)};
    return file;
}

static void announce(struct process *process)
{
    if (process->announced || process->files_pending || !process->applied_once)
        return;
    process->announced = true;
    printf("sagad is ready\n"
           "  socket    %s\n"
           "  database  %s\n"
           "  next      sagactl --socket %s workflows\n",
           process->socket, pgdev_psql_line(process->pgdev), process->socket);
    fflush(stdout);
}

static void file_applied(void *arg, const char *path, const struct err *err, struct str status)
{
    struct process *process = arg;
    process->files_pending--;
    if (err->code)
        log_error("%s: %s", path, err->text);
    else if (!str_eq(status, STR("unchanged")) || !process->announced)
        log_info("%s: " STR_FMT, path, STR_ARG(status));
    announce(process);
}

/* True if it is another one than when it was looked at last. */
static bool file_is_news(struct process *process, const char *path)
{
    struct stat info;
    struct watched *file = file_find(process, path);
    if (stat(path, &info) != 0 ||
        (file->seen && info.st_size == file->size && info.st_mtim.tv_sec == file->changed.tv_sec &&
         info.st_mtim.tv_nsec == file->changed.tv_nsec))
        return false;
    file->seen = true;
    file->size = info.st_size;
    file->changed = info.st_mtim;
    return true;
}

/* Files that were refused are tried again with what is new: it may be what they did not fit. */
static void files_apply(struct process *process, char *const *paths, size_t count)
{
    struct daemon_file *files = xcalloc(count + 1, sizeof(*files));
    bool *news = xcalloc(count + 1, sizeof(*news)), any = false;
    size_t chosen = 0;
    for (size_t i = 0; i < count; i++) {
        bool is_new = file_is_news(process, paths[i]);
        any = any || is_new;
        if (!is_new && !file_find(process, paths[i])->refused)
            continue;
        news[chosen] = is_new;
        files[chosen++].path = paths[i];
    }
    if (any) {
        process->files_pending += (unsigned)chosen;
        daemon_apply(process->daemon, files, chosen, file_applied, process);
    }
    for (size_t i = 0; any && i < chosen; i++) {
        file_find(process, files[i].path)->refused = files[i].refused;
        if (files[i].refused)
            process->files_pending--;
        if (files[i].refused && news[i])
            log_error("%s: not applied", files[i].path);
        if (files[i].report.len && (news[i] || !files[i].refused))
            fwrite(files[i].report.data, 1, files[i].report.len, stderr);
        buf_free(&files[i].report);
    }
    free(files);
    free(news);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void files_look(void *arg)
{
    struct process *process = arg;
    DIR *dir = opendir(process->options.dev_dir);
    char **paths = NULL;
    size_t count = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (!is_workflow_file(entry->d_name))
            continue;
        paths = xrealloc(paths, (count + 1) * sizeof(*paths));
        paths[count++] = joined(process->options.dev_dir, entry->d_name);
    }
    if (dir)
        closedir(dir);
    if (count)
        qsort(paths, count, sizeof(*paths), by_text);
    files_apply(process, paths, count);
    for (size_t i = 0; i < count; i++)
        free(paths[i]);
    free(paths);
    process->applied_once = true;
    announce(process);
    loop_timer_set(process->files_timer, 500 * MS_US);
}

/* --- running -------------------------------------------------------------------------------------
 */

static void on_ready(void *arg)
{
    struct process *process = arg;
    if (process->options.dev) {
        process->files_timer = loop_timer_new(process->loop, files_look, process);
        files_look(process);
    } else {
        log_info("ready: control socket \"%s\"", process->socket);
    }
}

static void on_drained(void *arg)
{
    struct process *process = arg;
    log_info("drained");
    loop_stop(process->loop);
}

static void on_failed(void *arg, const struct err *err)
{
    struct process *process = arg;
    process->exit_code = say_error(err);
    loop_stop(process->loop);
}

static void on_signal(void *arg, int number)
{
    struct process *process = arg;
    if (process->signals++) {
        log_warn("second %s: ending at once", strsignal(number));
        _exit(EXIT_ERROR);
    }
    log_info("%s: draining", strsignal(number));
    loop_timer_free(process->files_timer);
    process->files_timer = NULL;
    daemon_drain(process->daemon);
}

/* A terminal that closes takes its --dev along; a daemon in production has none. */
static void on_hangup(void *arg, int number)
{
    struct process *process = arg;
    if (process->options.dev)
        on_signal(arg, number);
    else
        daemon_reload(process->daemon);
}

/* DIR/.saga belongs to whoever owns DIR, so that the person can remove it. */
static int state_dir_make(struct process *process, struct err *err)
{
    struct stat info;
    const char *dir = process->options.dev_dir;
    if (stat(dir, &info) != 0 || !S_ISDIR(info.st_mode))
        return err_set(err, ERR_NOT_FOUND, "there is no folder \"%s\"", dir);
    process->state_dir = joined(dir, ".saga");
    if (mkdir(process->state_dir, 0755) == 0) {
        if (geteuid() == 0 && chown(process->state_dir, info.st_uid, info.st_gid) != 0)
            return err_set(err, ERR_IO, "could not give \"%s\" to its owner: %s",
                           process->state_dir, strerror(errno));
        char *ignore = joined(process->state_dir, ".gitignore");
        int fd = open(ignore, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (fd >= 0) {
            ssize_t written = write(fd, "*\n", 2);
            (void)written; /* only a courtesy */
            close(fd);
        }
        free(ignore);
    } else if (errno != EEXIST) {
        return err_set(err, ERR_IO, "could not make \"%s\": %s", process->state_dir,
                       strerror(errno));
    }
    return 0;
}

static int dev_prepare(struct process *process)
{
    struct err err;
    struct migrate_report report;
    char *config_path = joined(process->options.dev_dir, "sagad.yaml");
    int code = config_read(process, config_path, false);
    free(config_path);
    if (code)
        return code;
    if (state_dir_make(process, &err) != 0)
        return say_error(&err);
    struct pgdev_options options = {.dir = process->options.dev_dir,
                                    .is_ephemeral = process->options.ephemeral};
    if (process->options.ephemeral) {
        char template[] = "/tmp/saga-ephemeral-XXXXXX";
        if (!mkdtemp(template)) {
            err_set(&err, ERR_IO, "could not make a temporary folder: %s", strerror(errno));
            return say_error(&err);
        }
        process->ephemeral_dir = xstrdup(template);
        options.dir = process->ephemeral_dir;
    }
    log_info("starting the private PostgreSQL in %s/.saga/pg", options.dir);
    if (pgdev_start(&options, &process->pgdev, &err) != 0)
        return say_error(&err);
    if (migrate_run(pgdev_uri_admin(process->pgdev), &report, &err) != 0)
        return say_error(&err);
    process->socket = process->options.socket ? xstrdup(process->options.socket)
                                              : joined(process->state_dir, "sagad.sock");
    process->lock_file = joined(process->state_dir, "sagad.lock");
    process->name = xstrdup(process->options.name ? process->options.name : "dev");
    return EXIT_OK;
}

/* A server that is there and has no session to give, or is just starting, is waited for; anything
 * else, such as none at all or a wrong password, is for whoever started this daemon. */
static int schema_look(const char *database, struct migrate_report *report, struct err *err)
{
    unsigned tries = 0;
    for (;;) {
        int code = migrate_check(database, report, err);
        bool passing = code == ERR_UNAVAILABLE && (strncmp(err->sqlstate, "53", 2) == 0 ||
                                                   strcmp(err->sqlstate, "57P03") == 0);
        if (!passing)
            return code;
        if (tries++ == 0)
            log_warn("waits for the database: %s", err->text);
        /* Not all of those that wait come at once. */
        usleep((useconds_t)((250 << MIN(tries, 4u)) + getpid() % 500) * 1000);
    }
}

static int production_prepare(struct process *process)
{
    const struct options *options = &process->options;
    struct migrate_report report;
    struct err err;
    config_init(&process->config);
    int code = options->config_path ? config_read(process, options->config_path, true) : EXIT_OK;
    if (code)
        return code;
    const struct config *config = &process->config;
    if (!process->options.database)
        process->options.database = config->database;
    if (schema_look(process->options.database, &report, &err) != 0) {
        int exit_code = say_error(&err);
        if (err.code == ERR_UNAVAILABLE && !process->options.database)
            fprintf(stderr, "  name a database: --database URI, or `database` in the config; to "
                            "try it, --dev DIR brings its own\n");
        return exit_code;
    }
    if (!report.up_to_date || report.min_version > report.binary_version) {
        err_set(&err, ERR_CONFLICT,
                "the database \"%s\" has schema version %d, this sagad needs %d: run sagad migrate",
                report.database, report.schema_version, report.binary_version);
        return say_error(&err);
    }
    process->socket = options->socket  ? xstrdup(options->socket)
                      : config->socket ? xstrdup(config->socket)
                                       : default_socket();
    process->name = options->name  ? xstrdup(options->name)
                    : config->name ? xstrdup(config->name)
                                   : default_name();
    struct buf lock = {0};
    buf_printf(&lock, "%s.lock", process->socket);
    process->lock_file = lock.data;
    return EXIT_OK;
}

static int daemon_main(struct process *process)
{
    struct err err;
    struct options *options = &process->options;
    if (options->drain_us)
        process->config.drain_us = options->drain_us;
    if (options->lease_us)
        process->config.lease_us = options->lease_us;
    if (options->sessions)
        process->config.sessions = options->sessions;
    log_setup(options->log_level, options->has_log_format          ? options->log_format
                                  : process->config.has_log_format ? process->config.log_format
                                                                   : LOG_HUMAN);
    if (loop_open(&process->loop, &err) != 0)
        return say_error(&err);
    struct daemon_options daemon = {
        .loop = process->loop,
        .config = &process->config,
        .database = process->pgdev ? pgdev_uri_engine(process->pgdev) : options->database,
        .action_database =
            process->pgdev ? pgdev_uri_action(process->pgdev) : options->action_database,
        .name = process->name,
        .socket = process->socket,
        .lock_file = process->lock_file,
        .metrics = options->metrics,
        .arg = process,
        .ready = on_ready,
        .drained = on_drained,
        .failed = on_failed,
    };
    if (daemon_open(&daemon, &process->daemon, &err) != 0) {
        int code = say_error(&err);
        return err.code == ERR_INVALID ? EXIT_USAGE : code;
    }
    process->terminate = loop_signal_new(process->loop, SIGTERM, on_signal, process);
    process->interrupt = loop_signal_new(process->loop, SIGINT, on_signal, process);
    process->hangup = loop_signal_new(process->loop, SIGHUP, on_hangup, process);
    loop_run(process->loop);
    return process->exit_code;
}

static void process_free(struct process *process, int code)
{
    struct err err;
    loop_timer_free(process->files_timer);
    loop_signal_free(process->terminate);
    loop_signal_free(process->interrupt);
    loop_signal_free(process->hangup);
    daemon_close(process->daemon);
    loop_close(process->loop);
    if (process->pgdev && code == EXIT_OK && pgdev_stop(process->pgdev, &err) != 0)
        log_warn("%s", err.text);
    pgdev_free(process->pgdev);
    if (process->ephemeral_dir) {
        struct buf command = {0}; /* the name came from mkdtemp */
        buf_printf(&command, "rm -rf '%s'", process->ephemeral_dir);
        if (system(command.data) != 0)
            log_warn("could not remove %s", process->ephemeral_dir);
        buf_free(&command);
    }
    for (unsigned i = 0; i < process->files_count; i++)
        free(process->files[i].path);
    free(process->files);
    free(process->socket);
    free(process->lock_file);
    free(process->name);
    free(process->ephemeral_dir);
    free(process->state_dir);
    config_free(&process->config);
}

/* Descriptors bound the requests in flight; the soft limit is often the shell's 1024. */
static void descriptors_raise(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = MIN(limit.rlim_max, (rlim_t)65536);
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        log_warn("could not raise the limit of open files: %s", strerror(errno));
}

/* The memory of a daemon holds secrets; a developer's may be looked at. */
static void core_files_forbid(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_CORE, &limit) != 0)
        return;
    limit.rlim_cur = 0;
    if (setrlimit(RLIMIT_CORE, &limit) != 0)
        log_warn("could not forbid core files: %s", strerror(errno));
}

/* What a burst of runs needed once it will need again: giving it back to the kernel and asking for
 * it anew, page by page, costs more than the work that is done in it. */
static void memory_keep(void)
{
    mallopt(M_TRIM_THRESHOLD, 64 * 1024 * 1024);
    mallopt(M_MMAP_THRESHOLD, 4 * 1024 * 1024);
    mallopt(M_TOP_PAD, 1024 * 1024);
}

int main(int argc, char **argv)
{
    struct process process = {0};
    struct err err;
    options_read(argc, argv, &process.options);
    if (failpoint_setup(&err) != 0)
        usage_exit("%s", err.text);
    if (process.options.guard)
        return script_print(guard_print);
    if (process.options.migrate)
        return migrate_main(&process.options);
    descriptors_raise();
    if (!process.options.dev)
        core_files_forbid();
    memory_keep();
    int code = process.options.dev ? dev_prepare(&process) : production_prepare(&process);
    if (code == EXIT_OK)
        code = daemon_main(&process);
    process_free(&process, code);
    return code;
}
