#include "engine/pgdev.h"

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <libpq-fe.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_S 60
#define STOP_S 60
#define DEATHS_MAX 10 /* starts that end at once before it is given up */
#define SOCKET_NAME "/.s.PGSQL.5432"
#define SOCKET_PATH_MAX (sizeof(((struct sockaddr_un *)0)->sun_path) - 1)

struct pgdev {
    struct arena arena;
    const char *bin;  /* folder of the server's programs */
    const char *saga; /* DIR/.saga */
    const char *home; /* the cluster's folder: data, log */
    const char *data, *log, *sockets;
    const char *any, *admin, *engine, *action, *psql;
    struct passwd owner; /* runs the server */
    char owner_name[64];
    uid_t dir_uid;
    gid_t dir_gid;
    bool is_ephemeral;
};

static int find_programs(struct pgdev *dev, struct err *err);
static int find_owner(struct pgdev *dev, const char *dir, struct err *err);
static int make_folders(struct pgdev *dev, const char *dir, struct err *err);
static int make_cluster(struct pgdev *dev, struct err *err);
static int write_settings(struct pgdev *dev, struct err *err);
static int start_server(struct pgdev *dev, struct err *err);
static int make_database(struct pgdev *dev, struct err *err);

int pgdev_start(const struct pgdev_options *options, struct pgdev **out, struct err *err)
{
    struct pgdev *dev = xcalloc(1, sizeof(*dev));
    char real[PATH_MAX];
    dev->is_ephemeral = options->is_ephemeral;
    int rc = 0;
    if (!realpath(options->dir, real) || (dev->is_ephemeral && geteuid() == 0 && chmod(real, 0711)))
        rc = err_set(err, ERR_IO, "folder \"%s\": %s", options->dir, strerror(errno));
    if (!rc)
        rc = find_programs(dev, err);
    if (!rc)
        rc = find_owner(dev, real, err);
    if (!rc)
        rc = make_folders(dev, real, err);
    if (!rc)
        rc = make_cluster(dev, err);
    if (!rc)
        rc = start_server(dev, err);
    if (!rc)
        rc = make_database(dev, err);
    if (rc) {
        pgdev_free(dev);
        return err_wrap(err, "private PostgreSQL");
    }
    *out = dev;
    return 0;
}

void pgdev_free(struct pgdev *dev)
{
    if (!dev)
        return;
    arena_free(&dev->arena);
    free(dev);
}

const char *pgdev_uri_admin(const struct pgdev *dev)
{
    return dev->admin;
}

const char *pgdev_uri_engine(const struct pgdev *dev)
{
    return dev->engine;
}

const char *pgdev_uri_action(const struct pgdev *dev)
{
    return dev->action;
}

const char *pgdev_psql_line(const struct pgdev *dev)
{
    return dev->psql;
}

static const char *print(struct pgdev *dev, const char *fmt, ...) PRINTF_LIKE(2, 3);
static const char *print(struct pgdev *dev, const char *fmt, ...)
{
    char text[2 * PATH_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return arena_strdup(&dev->arena, text);
}

static void pause_ms(long ms)
{
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

/* --- who and where --- */

/* The newest version that is installed; $SAGA_PG_BIN wins. */
static int find_programs(struct pgdev *dev, struct err *err)
{
    const char *given = getenv("SAGA_PG_BIN");
    if (given && *given) {
        dev->bin = print(dev, "%s", given);
        return 0;
    }
    static const char *const patterns[] = {"/usr/lib/postgresql/*/bin/initdb",
                                           "/usr/pgsql-*/bin/initdb", "/usr/local/pgsql/bin/initdb",
                                           "/usr/bin/initdb"};
    int best = -1;
    for (size_t i = 0; i < ARRAY_LEN(patterns); i++) {
        glob_t found;
        if (glob(patterns[i], 0, NULL, &found))
            continue;
        for (size_t j = 0; j < found.gl_pathc; j++) {
            const char *path = found.gl_pathv[j];
            int version = atoi(path + strcspn(path, "0123456789"));
            if (version <= best)
                continue;
            best = version;
            dev->bin = print(dev, "%.*s", (int)(strlen(path) - strlen("/initdb")), path);
        }
        globfree(&found);
    }
    if (!dev->bin)
        return err_set(err, ERR_NOT_FOUND,
                       "initdb was not found: install the Debian package \"postgresql\", or set "
                       "SAGA_PG_BIN");
    return 0;
}

static int find_owner(struct pgdev *dev, const char *dir, struct err *err)
{
    struct stat st;
    if (stat(dir, &st))
        return err_set(err, ERR_IO, "folder \"%s\": %s", dir, strerror(errno));
    dev->dir_uid = st.st_uid;
    dev->dir_gid = st.st_gid;
    errno = 0;
    struct passwd *user = geteuid() == 0 ? getpwnam("postgres") : getpwuid(geteuid());
    if (!user)
        return err_set(err, ERR_NOT_FOUND, "there is no user %s, as whom the server could be run",
                       geteuid() == 0 ? "\"postgres\"" : "entry for this process");
    dev->owner = *user;
    snprintf(dev->owner_name, sizeof(dev->owner_name), "%s", user->pw_name);
    return 0;
}

/* --- children --- */

/* In the child: becomes the owner of the cluster. */
static void become_owner(const struct pgdev *dev)
{
    if (geteuid() != 0)
        return;
    if (initgroups(dev->owner_name, dev->owner.pw_gid) || setgid(dev->owner.pw_gid) ||
        setuid(dev->owner.pw_uid))
        _exit(126);
}

/* In the child: nothing of ours leaks into the server, its output goes to the log. */
static void child_setup(int log_fd)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    int null = open("/dev/null", O_RDONLY);
    dup2(null, 0);
    dup2(log_fd, 1);
    dup2(log_fd, 2);
    close_range(3, ~0u, 0);
    if (chdir("/")) {
    }
    unsetenv("PGDATA");
    unsetenv("PGPORT");
    unsetenv("PGHOST");
    setenv("LC_ALL", "C", 1);
}

static int log_open(const struct pgdev *dev)
{
    int fd = open(dev->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd >= 0 && geteuid() == 0 && fchown(fd, dev->owner.pw_uid, dev->owner.pw_gid)) {
        close(fd);
        return -1;
    }
    return fd;
}

static pid_t spawn(const struct pgdev *dev, const char *const argv[], bool own_session,
                   struct err *err)
{
    int log_fd = log_open(dev);
    if (log_fd < 0) {
        err_set(err, ERR_IO, "log file \"%s\": %s", dev->log, strerror(errno));
        return -1;
    }
    pid_t pid = fork();
    if (pid == 0) {
        become_owner(dev);
        if (own_session)
            setsid();
        child_setup(log_fd);
        execv(argv[0], (char *const *)argv);
        _exit(127);
    }
    close(log_fd);
    if (pid < 0)
        err_set(err, ERR_UNAVAILABLE, "could not start a process: %s", strerror(errno));
    return pid;
}

/* The last line of the log is what a person would look for. */
static const char *log_tail(struct pgdev *dev)
{
    static const char none[] = "nothing in its log";
    char text[2048];
    int fd = open(dev->log, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return none;
    off_t end = lseek(fd, 0, SEEK_END);
    ssize_t got = pread(fd, text, sizeof(text) - 1,
                        end > (off_t)sizeof(text) - 1 ? end - (off_t)sizeof(text) + 1 : 0);
    close(fd);
    while (got > 0 && text[got - 1] == '\n')
        got--;
    if (got <= 0)
        return none;
    text[got] = '\0';
    const char *line = strrchr(text, '\n');
    return print(dev, "%s", line ? line + 1 : text);
}

/* --- folders --- */

static int make_folder(const char *path, uid_t uid, gid_t gid, mode_t mode, struct err *err)
{
    struct stat st;
    if (mkdir(path, mode) == 0) {
        if (geteuid() == 0 && chown(path, uid, gid))
            return err_set(err, ERR_IO, "folder \"%s\": %s", path, strerror(errno));
        if (chmod(path, mode))
            return err_set(err, ERR_IO, "folder \"%s\": %s", path, strerror(errno));
        return 0;
    }
    if (errno != EEXIST || stat(path, &st) || !S_ISDIR(st.st_mode))
        return err_set(err, ERR_IO, "folder \"%s\": %s", path,
                       errno == EEXIST ? "is in the way" : strerror(errno));
    return 0;
}

/* Can the owner of the cluster reach this folder and write in it? */
static bool owner_reaches(const struct pgdev *dev, const char *path)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        become_owner(dev);
        _exit(access(path, R_OK | W_OK | X_OK) ? 1 : 0);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

/* A folder with a name that others can guess: it must be the owner's and nobody else's. */
static int make_private(const struct pgdev *dev, const char *path, mode_t mode, struct err *err)
{
    struct stat st;
    int rc = make_folder(path, dev->owner.pw_uid, dev->owner.pw_gid, mode, err);
    if (rc)
        return rc;
    if (lstat(path, &st) || !S_ISDIR(st.st_mode) || st.st_uid != dev->owner.pw_uid ||
        (st.st_mode & 022))
        return err_set(err, ERR_IO, "folder \"%s\" belongs to somebody else", path);
    return 0;
}

static void hash_of(const char *text, char out[17])
{
    char hex[65];
    struct sha256 hash = sha256_of(str_z(text));
    sha256_hex(&hash, hex);
    memcpy(out, hex, 16);
    out[16] = '\0';
}

/* A cluster that is there already is run by the user that it belongs to, also by root. */
static void owner_of_data(struct pgdev *dev)
{
    struct stat st;
    if (geteuid() != 0 || stat(dev->data, &st) || st.st_uid == 0)
        return;
    struct passwd *user = getpwuid(st.st_uid);
    if (!user)
        return;
    dev->owner = *user;
    snprintf(dev->owner_name, sizeof(dev->owner_name), "%s", user->pw_name);
}

static int make_home(struct pgdev *dev, struct err *err)
{
    char hash[17];
    dev->home = print(dev, "%s/pg", dev->saga);
    int rc = 0;
    dev->data = print(dev, "%s/data", dev->home);
    owner_of_data(dev);
    if (access(dev->home, F_OK))
        rc = make_folder(dev->home, dev->owner.pw_uid, dev->owner.pw_gid, 0755, err);
    if (rc || owner_reaches(dev, dev->home))
        return rc;
    hash_of(dev->saga, hash);
    const char *elsewhere = print(dev, "/var/tmp/saga-pg-%s", hash);
    if ((rc = make_private(dev, elsewhere, 0755, err)))
        return rc;
    rmdir(dev->home);
    if (symlink(elsewhere, dev->home) && errno != EEXIST)
        return err_set(err, ERR_IO, "link \"%s\": %s", dev->home, strerror(errno));
    dev->home = elsewhere;
    dev->data = print(dev, "%s/data", dev->home);
    return 0;
}

static int make_folders(struct pgdev *dev, const char *dir, struct err *err)
{
    char hash[17];
    dev->saga = print(dev, "%s/.saga", dir);
    int rc = make_folder(dev->saga, dev->dir_uid, dev->dir_gid, 0755, err);
    if (rc)
        return rc;
    int fd =
        open(print(dev, "%s/.gitignore", dev->saga), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd >= 0) {
        if (write(fd, "*\n", 2) != 2 ||
            (geteuid() == 0 && fchown(fd, dev->dir_uid, dev->dir_gid))) {
        }
        close(fd);
    }
    if ((rc = make_home(dev, err)))
        return rc;
    dev->log = print(dev, "%s/postgresql.log", dev->home);
    dev->sockets = dev->home;
    if (strlen(dev->home) + strlen(SOCKET_NAME) >= SOCKET_PATH_MAX) {
        hash_of(dev->home, hash);
        dev->sockets = print(dev, "/tmp/saga-pg-%s", hash);
        rc = make_private(dev, dev->sockets, 0755, err);
    }
    struct buf host = {0}, shell = {0};
    for (const char *at = dev->sockets; *at; at++) {
        buf_printf(&host, strchr("'\\", *at) ? "\\%c" : "%c", *at);
        buf_printf(&shell, *at == '\'' ? "'\\%c'" : "%c", *at);
    }
    dev->any = print(dev, "host='%s' connect_timeout=10", host.data);
    dev->admin = print(dev, "%s dbname=saga user=postgres", dev->any);
    dev->engine = print(dev, "%s dbname=saga user=saga_engine", dev->any);
    dev->action = print(dev, "%s dbname=saga user=saga_action", dev->any);
    dev->psql = print(dev, "psql -h '%s' -U postgres saga", shell.data);
    buf_free(&host);
    buf_free(&shell);
    return rc;
}

/* --- the cluster --- */

static int run_wait(struct pgdev *dev, const char *const argv[], struct err *err)
{
    int status = 0;
    pid_t pid = spawn(dev, argv, false, err);
    if (pid < 0)
        return err->code;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return err_set(err, ERR_IO, "%s failed: %s", argv[0], log_tail(dev));
}

static int remove_tree(struct pgdev *dev, const char *path, struct err *err)
{
    const char *const argv[] = {"/bin/rm", "-rf", "--", path, NULL};
    return run_wait(dev, argv, err);
}

/* Made beside its place and moved there when it is whole: a crash leaves no half cluster. */
static int make_cluster(struct pgdev *dev, struct err *err)
{
    int rc;
    if (access(print(dev, "%s/PG_VERSION", dev->data), F_OK) == 0)
        return 0;
    const char *fresh = print(dev, "%s.new", dev->data);
    if ((rc = remove_tree(dev, fresh, err)))
        return rc;
    const char *const argv[] = {print(dev, "%s/initdb", dev->bin),
                                "-D",
                                fresh,
                                "-U",
                                "postgres",
                                "-E",
                                "UTF8",
                                "--locale=C.UTF-8",
                                "-A",
                                "peer",
                                "--no-instructions",
                                dev->is_ephemeral ? "--no-sync" : NULL,
                                NULL};
    if ((rc = run_wait(dev, argv, err)))
        return rc;
    if (rename(fresh, dev->data))
        return err_set(err, ERR_IO, "could not rename \"%s\": %s", fresh, strerror(errno));
    return 0;
}

static int write_file(struct pgdev *dev, const char *name, struct str text, struct err *err)
{
    const char *path = print(dev, "%s/%s", dev->data, name);
    const char *fresh = print(dev, "%s/%s.new", dev->data, name);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool ok = fd >= 0 && write(fd, text.ptr, text.len) == (ssize_t)text.len &&
              (geteuid() != 0 || fchown(fd, dev->owner.pw_uid, dev->owner.pw_gid) == 0) &&
              fdatasync(fd) == 0;
    if (fd >= 0)
        close(fd);
    if (!ok || rename(fresh, path))
        return err_set(err, ERR_IO, "file \"%s\": %s", path, strerror(errno));
    return 0;
}

static void ident_add(struct buf *out, uid_t uid, const char *seen[], unsigned *count)
{
    static const char *const roles[] = {"postgres", "saga_engine", "saga_action"};
    struct passwd *user = getpwuid(uid);
    if (!user)
        return;
    for (unsigned i = 0; i < *count; i++)
        if (!strcmp(seen[i], user->pw_name))
            return;
    seen[(*count)++] = xstrdup(user->pw_name);
    for (size_t i = 0; i < ARRAY_LEN(roles); i++)
        buf_printf(out, "saga \"%s\" %s\n", user->pw_name, roles[i]);
}

static void conf_quote(struct buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            buf_add_char(out, *text);
        buf_add_char(out, *text);
    }
}

/* Written before each start, because the folder may have been moved. */
static int write_settings(struct pgdev *dev, struct err *err)
{
    struct buf conf = {0}, ident = {0};
    const char *seen[4];
    unsigned count = 0;
    buf_add_z(&conf, "# Written by sagad --dev before each start.\n"
                     "listen_addresses = ''\n"
                     "unix_socket_permissions = 0777\n"
                     "unix_socket_directories = '\"");
    conf_quote(&conf, dev->sockets);
    buf_printf(&conf,
               "\"'\nmax_connections = 50\nshared_buffers = 128MB\nmax_wal_size = 1GB\n"
               "timezone = 'UTC'\nlog_timezone = 'UTC'\nlc_messages = 'C'\n"
               "log_line_prefix = '%%m [%%p] %%a '\njit = off\nfsync = %s\n"
               "full_page_writes = %s\n",
               dev->is_ephemeral ? "off" : "on", dev->is_ephemeral ? "off" : "on");
    ident_add(&ident, dev->owner.pw_uid, seen, &count);
    ident_add(&ident, 0, seen, &count);
    ident_add(&ident, dev->dir_uid, seen, &count);
    ident_add(&ident, geteuid(), seen, &count);
    for (unsigned i = 0; i < count; i++)
        free((char *)seen[i]);
    int rc = write_file(dev, "postgresql.auto.conf", buf_str(&conf), err);
    if (!rc)
        rc = write_file(dev, "pg_hba.conf", STR("local all all peer map=saga\n"), err);
    if (!rc)
        rc = write_file(dev, "pg_ident.conf", buf_str(&ident), err);
    buf_free(&conf);
    buf_free(&ident);
    return rc;
}

/* --- the server --- */

/* Process numbers are used again, after a reboot too; and a process that has ended stays until its
 * parent, who may not be us, has taken notice. */
static bool is_server(pid_t pid)
{
    char path[64], text[128];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t got = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[MAX(got, 0)] = '\0';
    const char *name = strchr(text, '('), *end = strrchr(text, ')');
    return name && end && !strncmp(name, "(postgres", 9) && end[1] && end[2] != 'Z';
}

static pid_t pid_in_file(const struct pgdev *dev)
{
    char path[PATH_MAX], text[32] = "";
    snprintf(path, sizeof(path), "%s/postmaster.pid", dev->data);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t got = read(fd, text, sizeof(text) - 1);
    close(fd);
    return got > 0 ? (pid_t)strtol(text, NULL, 10) : 0;
}

/* 0: none, or not alive. */
static pid_t server_pid(const struct pgdev *dev)
{
    pid_t pid = pid_in_file(dev);
    return pid > 1 && is_server(pid) ? pid : 0;
}

static PGPing ping(struct pgdev *dev)
{
    return PQping(print(dev, "%s dbname=postgres user=postgres", dev->any));
}

/* A server that was our child and was killed stays as a zombie, which the next one would take for
 * alive. */
static void reap_former(const struct pgdev *dev)
{
    pid_t pid = pid_in_file(dev);
    if (pid > 1 && !is_server(pid))
        waitpid(pid, NULL, WNOHANG);
}

static int spawn_server(struct pgdev *dev, pid_t *child, struct err *err)
{
    int rc = write_settings(dev, err);
    if (rc)
        return rc;
    reap_former(dev);
    const char *const argv[] = {print(dev, "%s/postgres", dev->bin), "-D", dev->data, NULL};
    *child = spawn(dev, argv, true, err);
    return *child < 0 ? (int)err->code : 0;
}

static int start_server(struct pgdev *dev, struct err *err)
{
    pid_t child = -1;
    int deaths = 0;
    for (int i = 0; i < START_S * 20; i++) {
        int status, rc;
        if (child < 0 && !server_pid(dev) && (rc = spawn_server(dev, &child, err)))
            return rc;
        if (ping(dev) == PQPING_OK)
            return 0;
        if (child > 0 && waitpid(child, &status, WNOHANG) == child) {
            /* The processes of one that was killed may need a moment to go. */
            if (++deaths == DEATHS_MAX)
                return err_set(err, ERR_UNAVAILABLE, "the server does not start: %s",
                               log_tail(dev));
            child = -1;
            pause_ms(500);
        }
        pause_ms(50);
    }
    return err_set(err, ERR_UNAVAILABLE, "the server is not ready after %d s: %s", START_S,
                   log_tail(dev));
}

static int make_database(struct pgdev *dev, struct err *err)
{
    int rc = 0;
    PGconn *conn = PQconnectdb(print(dev, "%s dbname=postgres user=postgres", dev->any));
    PGresult *result = PQexec(conn, "select from pg_database where datname = 'saga'");
    if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 0) {
        PQclear(result);
        result = PQexec(conn, "create database saga template template0 encoding 'UTF8'");
    }
    if (PQstatus(conn) != CONNECTION_OK ||
        (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK)) {
        rc = err_set(err, ERR_UNAVAILABLE, "%s", PQerrorMessage(conn));
        err->text[strcspn(err->text, "\n")] = '\0';
    }
    PQclear(result);
    PQfinish(conn);
    return rc;
}

static void remove_sockets(const struct pgdev *dev)
{
    if (dev->sockets != dev->home)
        rmdir(dev->sockets);
}

int pgdev_stop(struct pgdev *dev, struct err *err)
{
    pid_t pid = server_pid(dev);
    /* SIGINT: "fast": sessions are ended, everything is written. */
    if (pid && kill(pid, SIGINT) && errno != ESRCH)
        return err_set(err, ERR_IO, "could not stop the private PostgreSQL: %s", strerror(errno));
    for (int i = 0; pid && is_server(pid); i++) {
        if (i == STOP_S * 50)
            return err_set(err, ERR_TIMEOUT, "the private PostgreSQL does not stop within %d s",
                           STOP_S);
        pause_ms(20);
        waitpid(pid, NULL, WNOHANG); /* ours, unless it was adopted */
    }
    remove_sockets(dev);
    return 0;
}
