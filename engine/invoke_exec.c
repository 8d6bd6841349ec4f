#include "engine/invoke_exec.h"
#include "engine/idmap.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXEC_PATH "/usr/local/bin:/usr/bin:/bin"
#define QUEUE_SWEEP_US (100 * MS_US)

enum task_state {
    TASK_NONE,
    TASK_QUEUED,
    TASK_RUNNING, /* a process exists, or waits to be reaped */
    TASK_ENDED    /* has no process; to be answered at the next deferred call */
};

struct pipe_end { /* ours; the other one is the program's */
    int fd;       /* -1: closed */
    struct loop_fd *watch;
};

struct task {
    struct task *next, *prev;
    enum task_state state;
    uint64_t id;
    struct invoke_exec *exec;
    struct arena arena;

    char **argv, **env;
    const char *program; /* resolved */
    struct str input;
    size_t input_sent;
    int64_t timeout_us;
    struct mono limit_at;
    struct wall sent_at;

    pid_t pid;
    struct pipe_end in, out, error;
    struct buf output, error_text;
    bool too_large;
    bool timed_out, cut, killed;
    bool answered; /* only waits to be reaped */
    struct loop_timer *timer;

    enum reply_kind ended_as; /* TASK_ENDED */
    struct str why;
};

struct tasks {
    struct task *first, *last;
};

struct invoke_exec {
    unsigned magic;
    struct invoke_exec_options options;
    struct port_invoke port;
    struct loop *loop;
    char *directory; /* resolved; NULL: off */
    char *directory_problem;
    struct idmap by_id; /* not answered yet */
    struct tasks queue, running, ended;
    unsigned running_count;
    struct loop_call flush_call, pump_call;
    struct loop_signal *child_signal;
    struct loop_timer *queue_timer;
    bool draining;
};

#define INVOKE_EXEC_MAGIC 0x65786563

static void flush(void *arg);
static void pump(void *arg);

/* --- lists, memory, answers --- */

static void tasks_add(struct tasks *list, struct task *task)
{
    task->next = NULL;
    task->prev = list->last;
    if (list->last)
        list->last->next = task;
    else
        list->first = task;
    list->last = task;
}

static void tasks_remove(struct tasks *list, struct task *task)
{
    if (task->prev)
        task->prev->next = task->next;
    else
        list->first = task->next;
    if (task->next)
        task->next->prev = task->prev;
    else
        list->last = task->prev;
}

static void pipe_close(struct pipe_end *end)
{
    if (end->fd < 0)
        return;
    loop_fd_free(end->watch);
    close(end->fd);
    *end = (struct pipe_end){.fd = -1};
}

static void task_free(struct task *task)
{
    pipe_close(&task->in);
    pipe_close(&task->out);
    pipe_close(&task->error);
    loop_timer_free(task->timer);
    buf_free(&task->output);
    buf_free(&task->error_text);
    arena_free(&task->arena);
    free(task);
}

static void end(struct task *task, enum reply_kind kind, struct str why)
{
    task->state = TASK_ENDED;
    task->ended_as = kind;
    task->why = why;
    tasks_add(&task->exec->ended, task);
    loop_defer(task->exec->loop, &task->exec->flush_call, flush, task->exec);
}

static void tell(struct task *task, const struct reply *reply)
{
    struct invoke_exec *exec = task->exec;
    task->answered = true;
    idmap_remove(&exec->by_id, task->id);
    exec->options.reply(exec->options.reply_arg, task->id, reply);
}

static void flush(void *arg)
{
    struct invoke_exec *exec;
    CAST_OBJ(exec, arg, INVOKE_EXEC_MAGIC);
    while (exec->ended.first) {
        struct task *task = exec->ended.first;
        tasks_remove(&exec->ended, task);
        struct reply reply = {
            .kind = task->ended_as,
            .sent_at = task->sent_at,
            .ended_at = loop_wall(exec->loop),
            .error = task->why,
        };
        tell(task, &reply);
        task_free(task);
    }
}

/* --- what a program writes --- */

/* Text without NUL and without half characters at its ends; other bytes become "?". */
static struct str text_of(struct buf *bytes)
{
    size_t skip = 0;
    while (skip < MIN(bytes->len, (size_t)3) && ((unsigned char)bytes->data[skip] & 0xC0) == 0x80)
        skip++; /* the cut went through a character */
    buf_drain(bytes, skip);
    bool utf8 = str_is_utf8(buf_str(bytes));
    for (size_t i = 0; i < bytes->len; i++) {
        unsigned char c = (unsigned char)bytes->data[i];
        if (c == 0 || (c > 127 && !utf8))
            bytes->data[i] = '?';
    }
    return buf_str(bytes);
}

static void reply_output(struct task *task, struct reply *reply)
{
    struct str output = buf_str(&task->output);
    reply->stderr_text = text_of(&task->error_text);
    reply->body_dropped = task->too_large;
    if (task->too_large || !output.len)
        return;
    if (memchr(output.ptr, '\0', output.len) || !str_is_utf8(output))
        reply->body_dropped = true;
    else
        reply->body = output;
}

static void reply_ended(struct task *task, int status)
{
    struct arena *arena = &task->arena;
    struct reply reply = {
        .kind = task->timed_out || task->cut ? REPLY_NO_ANSWER : REPLY_EXEC,
        .sent_at = task->sent_at,
        .ended_at = loop_wall(task->exec->loop),
        .timed_out = task->timed_out,
        .status = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status),
    };
    reply_output(task, &reply);
    if (task->timed_out)
        reply.error = arena_printf(arena, "program \"%s\" was ended: no result within %s",
                                   task->argv[0], duration_format(task->timeout_us, arena).ptr);
    else if (task->cut)
        reply.error = arena_printf(arena, "program \"%s\" was ended: given up", task->argv[0]);
    else if (WIFSIGNALED(status))
        reply.error = arena_printf(arena, "program \"%s\" was ended by signal %d (%s)",
                                   task->argv[0], WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (reply.status != 0)
        reply.error = arena_printf(arena, "program \"%s\" ended with exit code %d", task->argv[0],
                                   reply.status);
    else if (reply.body_dropped)
        reply.error = arena_printf(arena, "the output of program \"%s\" %s", task->argv[0],
                                   task->too_large ? "is too large" : "is not UTF-8 text");
    tell(task, &reply);
}

/* Reads up to `limit` bytes of what is there. Returns false at the end of the pipe. */
static bool pipe_read(struct task *task, struct pipe_end *end, size_t limit)
{
    static char block[65536];
    while (limit > 0) {
        ssize_t got = read(end->fd, block, MIN(limit, sizeof(block)));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 && errno == EAGAIN;
        limit -= (size_t)got;
        if (end == &task->error) {
            struct buf *kept = &task->error_text;
            buf_add(kept, block, (size_t)got);
            if (kept->len > EXEC_STDERR_BYTES_MAX)
                buf_drain(kept, kept->len - EXEC_STDERR_BYTES_MAX);
        } else if (task->too_large || task->output.len + (size_t)got > BODY_BYTES_MAX) {
            task->too_large = true; /* read on, so that the program is not held up */
            buf_clear(&task->output);
        } else {
            buf_add(&task->output, block, (size_t)got);
        }
    }
    return true;
}

static void task_output_ready(void *arg, unsigned ready)
{
    struct task *task = arg;
    (void)ready;
    if (!pipe_read(task, &task->out, 65536))
        pipe_close(&task->out);
}

static void task_error_ready(void *arg, unsigned ready)
{
    struct task *task = arg;
    (void)ready;
    if (!pipe_read(task, &task->error, 65536))
        pipe_close(&task->error);
}

static void task_input_ready(void *arg, unsigned ready)
{
    struct task *task = arg;
    (void)ready;
    ssize_t sent =
        write(task->in.fd, task->input.ptr + task->input_sent, task->input.len - task->input_sent);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    task->input_sent += (size_t)MAX(sent, 0);
    if (sent < 0 || task->input_sent == task->input.len) /* it may well not want to read it */
        pipe_close(&task->in);
}

/* --- the end of a program --- */

static void group_signal(const struct task *task, int number)
{
    kill(-task->pid, number); /* the leader is not reaped yet: the number is still its own */
}

static void task_timer_fired(void *arg)
{
    struct task *task = arg;
    int64_t grace_us = task->exec->options.grace_us;
    if (task->killed) {
        /* It hangs in the kernel and cannot end. The answer does not wait for that. */
        if (!task->answered)
            reply_ended(task, SIGKILL);
        return;
    }
    if (task->timed_out || task->cut) {
        task->killed = true;
        group_signal(task, SIGKILL);
    } else {
        task->timed_out = true;
        group_signal(task, SIGTERM);
    }
    loop_timer_set(task->timer, grace_us);
}

/* What the program wrote before it ended lies in the pipes; at most a pipe full of it, so that
 * a descendant that goes on writing cannot hold this up. */
static void reap(struct task *task, int status)
{
    struct invoke_exec *exec = task->exec;
    size_t pipe_bytes = 1024 * 1024;
    if (task->out.fd >= 0)
        pipe_read(task, &task->out, pipe_bytes);
    if (task->error.fd >= 0)
        pipe_read(task, &task->error, pipe_bytes);
    tasks_remove(&exec->running, task);
    exec->running_count--;
    if (!task->answered)
        reply_ended(task, status);
    task_free(task);
    loop_defer(exec->loop, &exec->pump_call, pump, exec);
}

static void exec_child_ended(void *arg, int number)
{
    struct invoke_exec *exec;
    (void)number;
    CAST_OBJ(exec, arg, INVOKE_EXEC_MAGIC);
    for (struct task *next, *task = exec->running.first; task; task = next) {
        siginfo_t info = {0};
        int status;
        next = task->next;
        if (waitid(P_PID, (id_t)task->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
            info.si_pid != task->pid)
            continue;
        group_signal(task, SIGKILL); /* strays */
        waitpid(task->pid, &status, 0);
        reap(task, status);
    }
}

/* --- the start of a program --- */

/* A pipe whose ends are not 0, 1 or 2, so that none is overwritten on the way to the program. */
static bool pipe_open(int ends[2])
{
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    for (int i = 0; i < 2; i++) {
        if (ends[i] > 2)
            continue;
        int moved = fcntl(ends[i], F_DUPFD_CLOEXEC, 3);
        int failed = errno;
        close(ends[i]);
        ends[i] = moved;
        if (moved < 0) {
            close(ends[1 - i]);
            errno = failed;
            return false;
        }
    }
    return true;
}

static void ours_keep(struct task *task, struct pipe_end *end, int fd, unsigned ready,
                      void (*cb)(void *arg, unsigned ready))
{
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    end->fd = fd;
    end->watch = loop_fd_new(task->exec->loop, fd, cb, task);
    loop_fd_want(end->watch, ready);
}

/* Returns 0 or an errno. */
static int spawn(struct task *task, int in, int out, int error)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t signals;
    short flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK;
    int code = posix_spawn_file_actions_init(&files);
    if (code)
        return code;
    code = posix_spawnattr_init(&attributes);
    if (code) {
        posix_spawn_file_actions_destroy(&files);
        return code;
    }
    if (in >= 0)
        code |= posix_spawn_file_actions_adddup2(&files, in, 0);
    else
        code |= posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    code |= posix_spawn_file_actions_adddup2(&files, out, 1);
    code |= posix_spawn_file_actions_adddup2(&files, error, 2);
    code |= posix_spawn_file_actions_addclosefrom_np(&files, 3);
    code |= posix_spawn_file_actions_addchdir_np(&files, task->exec->directory);
    code |= posix_spawnattr_setflags(&attributes, flags);
    code |= posix_spawnattr_setpgroup(&attributes, 0);
    sigfillset(&signals);
    code |= posix_spawnattr_setsigdefault(&attributes, &signals);
    sigemptyset(&signals);
    code |= posix_spawnattr_setsigmask(&attributes, &signals);
    if (code)
        code = ENOMEM;
    else
        code = posix_spawn(&task->pid, task->program, &files, &attributes, task->argv, task->env);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    return code;
}

/* Returns 0 or an errno; then nothing is left behind. */
static int launch_piped(struct task *task)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1}, error[2] = {-1, -1};
    bool has_input = task->input.ptr != NULL;
    int code = 0;
    if ((has_input && !pipe_open(in)) || !pipe_open(out) || !pipe_open(error))
        code = errno;
    if (!code)
        code = spawn(task, in[0], out[1], error[1]);
    int theirs[] = {in[0], out[1], error[1]}, ours[] = {in[1], out[0], error[0]};
    for (size_t i = 0; i < ARRAY_LEN(theirs); i++) {
        if (theirs[i] >= 0)
            close(theirs[i]);
        if (code && ours[i] >= 0)
            close(ours[i]);
    }
    if (code)
        return code;
    if (has_input)
        ours_keep(task, &task->in, in[1], LOOP_WRITE, task_input_ready);
    ours_keep(task, &task->out, out[0], LOOP_READ, task_output_ready);
    ours_keep(task, &task->error, error[0], LOOP_READ, task_error_ready);
    return 0;
}

static void launch(struct task *task)
{
    struct invoke_exec *exec = task->exec;
    int64_t left_us = task->limit_at.us - loop_mono().us;
    tasks_remove(&exec->queue, task);
    task->sent_at = loop_wall(exec->loop);
    int code = left_us > 0 ? launch_piped(task) : ETIMEDOUT;
    switch (code) {
    case 0:
        task->state = TASK_RUNNING;
        tasks_add(&exec->running, task);
        exec->running_count++;
        task->timer = loop_timer_new(exec->loop, task_timer_fired, task);
        loop_timer_set(task->timer, left_us);
        return;
    case ETIMEDOUT:
        end(task, REPLY_LOCAL_SHORTAGE, STR("no process became free within the time limit"));
        return;
    case EAGAIN:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
        end(task, REPLY_LOCAL_SHORTAGE,
            arena_printf(&task->arena, "could not start program \"%s\": %s", task->argv[0],
                         strerror(code)));
        return;
    case ETXTBSY: /* it is being replaced */
        end(task, REPLY_NOT_CONNECTED,
            arena_printf(&task->arena, "could not start program \"%s\": %s", task->argv[0],
                         strerror(code)));
        return;
    default:
        end(task, REPLY_CANNOT_SEND,
            arena_printf(&task->arena, "could not start program \"%s\": %s", task->argv[0],
                         strerror(code)));
    }
}

static void pump(void *arg)
{
    struct invoke_exec *exec;
    CAST_OBJ(exec, arg, INVOKE_EXEC_MAGIC);
    while (exec->queue.first && exec->running_count < exec->options.children_max)
        launch(exec->queue.first);
    if (exec->queue.first && !loop_timer_is_set(exec->queue_timer))
        loop_timer_set(exec->queue_timer, QUEUE_SWEEP_US);
}

static void queue_sweep(void *arg)
{
    struct invoke_exec *exec;
    CAST_OBJ(exec, arg, INVOKE_EXEC_MAGIC);
    for (struct task *next, *task = exec->queue.first; task; task = next) {
        next = task->next;
        if (task->limit_at.us > loop_mono().us)
            continue;
        tasks_remove(&exec->queue, task);
        end(task, REPLY_LOCAL_SHORTAGE, STR("no process became free within the time limit"));
    }
    pump(exec);
}

/* --- the port --- */

static bool is_inside(const char *path, const char *directory)
{
    size_t len = strlen(directory);
    return strcmp(directory, "/") == 0 || (strncmp(path, directory, len) == 0 && path[len] == '/');
}

/* The program's real place must be in the directory, whatever links and dots lead there. */
static int program_find(struct task *task, struct err *err)
{
    struct invoke_exec *exec = task->exec;
    char real[PATH_MAX];
    const char *name = task->argv[0];
    if (!exec->directory)
        return err_set(err, ERR_PERMISSION, "exec actions are off: %s",
                       exec->directory_problem ? exec->directory_problem
                                               : "no exec.directory is configured");
    const char *path =
        name[0] == '/' ? name : arena_printf(&task->arena, "%s/%s", exec->directory, name).ptr;
    if (!realpath(path, real))
        return err_set(err, ERR_NOT_FOUND, "program \"%s\": %s", name, strerror(errno));
    if (!is_inside(real, exec->directory))
        return err_set(err, ERR_PERMISSION, "program \"%s\" is not in exec.directory", name);
    task->program = arena_strdup(&task->arena, real);
    return 0;
}

static int args_render(struct task *task, const struct request *request, struct err *err)
{
    ASSERT(request->args_count > 0);
    task->argv = arena_array(&task->arena, char *, (size_t)request->args_count + 1);
    for (uint16_t i = 0; i < request->args_count; i++) {
        struct str arg = request->args[i];
        if (arg.len && memchr(arg.ptr, '\0', arg.len))
            return err_set(err, ERR_INVALID, "argument %u of the program has a NUL", i);
        if (secrets_in(arg)) /* every user of this machine can read it there */
            return err_set(err, ERR_INVALID, "argument %u of the program has a secret", i);
        task->argv[i] = (char *)arena_str(&task->arena, arg.ptr ? arg : STR("")).ptr;
    }
    return 0;
}

static bool is_variable(struct str name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        bool letter = ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_';
        if (!letter && !(i && c >= '0' && c <= '9'))
            return false;
    }
    return name.len > 0;
}

static void variable_add(struct task *task, size_t *count, struct str name, struct str value)
{
    if (value.ptr)
        task->env[(*count)++] =
            (char *)arena_printf(&task->arena, STR_FMT "=" STR_FMT, STR_ARG(name), STR_ARG(value))
                .ptr;
}

static int env_render(struct task *task, const struct invocation *invocation, struct err *err)
{
    const struct request *request = invocation->request;
    struct arena *arena = &task->arena;
    bool compensates = invocation->direction == DIRECTION_COMPENSATE;
    size_t count = 0;
    task->env = arena_array(arena, char *, (size_t)request->headers_count + 9);
    variable_add(task, &count, STR("SAGA_KEY"), invocation->key);
    variable_add(task, &count, STR("SAGA_RUN"), invocation->run_id);
    variable_add(task, &count, STR("SAGA_STEP"), invocation->step);
    variable_add(task, &count, STR("SAGA_ATTEMPT"), arena_printf(arena, "%u", invocation->attempt));
    variable_add(task, &count, STR("SAGA_ACTION"),
                 compensates ? STR("compensate") : STR("execute"));
    variable_add(task, &count, STR("SAGA_COMPENSATES"), invocation->compensates);
    variable_add(task, &count, STR("SAGA_RECONCILES"), invocation->reconciles);
    bool own_path = false;
    for (uint16_t i = 0; i < request->headers_count; i++) {
        struct str name = request->headers[i].name, value;
        int code = secrets_resolve(task->exec->options.secrets, request->headers[i].value, arena,
                                   &value, err);
        if (code)
            return err_wrap(err, "environment entry \"" STR_FMT "\"", STR_ARG(name));
        if (!is_variable(name) || str_starts(name, STR("SAGA_")))
            return err_set(err, ERR_INVALID, "environment entry \"" STR_FMT "\" cannot be set",
                           STR_ARG(name));
        if (value.len && memchr(value.ptr, '\0', value.len))
            return err_set(err, ERR_INVALID, "environment entry \"" STR_FMT "\" has a NUL",
                           STR_ARG(name));
        own_path = own_path || str_eq(name, STR("PATH"));
        variable_add(task, &count, name, value);
    }
    if (!own_path)
        task->env[count] = (char *)"PATH=" EXEC_PATH;
    return 0;
}

static void start(void *arg, const struct invocation *invocation)
{
    struct invoke_exec *exec;
    struct err err;
    CAST_OBJ(exec, arg, INVOKE_EXEC_MAGIC);
    ASSERT(invocation->request->action->kind == ACTION_EXEC);
    struct task *task = xcalloc(1, sizeof(*task));
    task->exec = exec;
    task->id = invocation->id;
    task->in.fd = task->out.fd = task->error.fd = -1;
    task->sent_at = loop_wall(exec->loop);
    task->timeout_us = invocation->timeout_us;
    task->limit_at.us = loop_mono().us + invocation->timeout_us;
    idmap_put(&exec->by_id, task->id, task);
    if (exec->draining) {
        end(task, REPLY_NOT_SENT, STR("the daemon is stopping"));
        return;
    }
    task->input = arena_str(&task->arena, invocation->request->body);
    int code = args_render(task, invocation->request, &err);
    if (!code)
        code = program_find(task, &err);
    if (!code)
        code = env_render(task, invocation, &err);
    if (code) {
        end(task, REPLY_CANNOT_SEND, arena_str(&task->arena, str_z(err.text)));
        return;
    }
    task->state = TASK_QUEUED;
    tasks_add(&exec->queue, task);
    loop_defer(exec->loop, &exec->pump_call, pump, exec);
}

static void cut_off(struct task *task, struct str why)
{
    if (task->state == TASK_QUEUED) {
        tasks_remove(&task->exec->queue, task);
        end(task, REPLY_NOT_SENT, why);
    } else if (task->state == TASK_RUNNING && !task->timed_out && !task->cut) {
        task->cut = true;
        group_signal(task, SIGTERM);
        loop_timer_set(task->timer, task->exec->options.grace_us);
    }
}

static void drop(void *arg, uint64_t invocation_id)
{
    struct invoke_exec *exec;
    CAST_OBJ(exec, arg, INVOKE_EXEC_MAGIC);
    struct task *task = idmap_get(&exec->by_id, invocation_id);
    if (task)
        cut_off(task, STR("given up"));
}

void invoke_exec_drain(struct invoke_exec *exec, bool cut)
{
    exec->draining = true;
    for (size_t i = 0; i < exec->by_id.size; i++) {
        struct task *task = exec->by_id.slots[i].value;
        if (task && (cut || task->state == TASK_QUEUED))
            cut_off(task, STR("the daemon is stopping"));
    }
}

size_t invoke_exec_busy(const struct invoke_exec *exec)
{
    return exec->by_id.used;
}

static void directory_resolve(struct invoke_exec *exec, const char *directory)
{
    struct arena scratch = {0};
    struct stat st;
    char real[PATH_MAX];
    if (realpath(directory, real) && stat(real, &st) == 0 && S_ISDIR(st.st_mode))
        exec->directory = xstrdup(real);
    else
        exec->directory_problem =
            xstrdup(arena_printf(&scratch, "exec.directory \"%s\" is no directory", directory).ptr);
    arena_free(&scratch);
}

struct invoke_exec *invoke_exec_new(const struct invoke_exec_options *options)
{
    ASSERT(options->loop && options->reply);
    struct invoke_exec *exec = xcalloc(1, sizeof(*exec));
    exec->magic = INVOKE_EXEC_MAGIC;
    exec->options = *options;
    if (!exec->options.children_max)
        exec->options.children_max = EXEC_CHILDREN_MAX;
    if (!exec->options.grace_us)
        exec->options.grace_us = EXEC_GRACE_US;
    if (options->directory)
        directory_resolve(exec, options->directory);
    exec->loop = options->loop;
    exec->port = (struct port_invoke){.arg = exec, .start = start, .drop = drop};
    exec->child_signal = loop_signal_new(exec->loop, SIGCHLD, exec_child_ended, exec);
    exec->queue_timer = loop_timer_new(exec->loop, queue_sweep, exec);
    return exec;
}

const struct port_invoke *invoke_exec_port(struct invoke_exec *exec)
{
    return &exec->port;
}

static void tasks_free(struct tasks *list)
{
    for (struct task *next, *task = list->first; task; task = next) {
        next = task->next;
        task_free(task);
    }
}

void invoke_exec_free(struct invoke_exec *exec)
{
    if (!exec)
        return;
    for (struct task *task = exec->running.first; task; task = task->next) {
        group_signal(task, SIGKILL);
        if (!task->answered || !task->killed) /* else it hangs in the kernel */
            waitpid(task->pid, NULL, 0);
    }
    tasks_free(&exec->queue);
    tasks_free(&exec->running);
    tasks_free(&exec->ended);
    loop_defer_cancel(exec->loop, &exec->flush_call);
    loop_defer_cancel(exec->loop, &exec->pump_call);
    loop_signal_free(exec->child_signal);
    loop_timer_free(exec->queue_timer);
    idmap_free(&exec->by_id);
    free(exec->directory);
    free(exec->directory_problem);
    exec->magic = 0;
    free(exec);
}
