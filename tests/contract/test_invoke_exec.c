/* The exec invoker with real programs: what they get, what is kept of them, and how they end. */
#include "engine/invoke_exec.h"
#include "tests/lib/fake_invoke.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct world {
    struct loop *loop;
    struct secrets *secrets;
    struct invoke_exec *exec;
    const struct port_invoke *port;
    struct fake_replies replies;
    unsigned files;
    char folder[64]; /* of the test; its `bin` is exec.directory */
    char bin[80];
};

static void script(const struct world *w, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", w->bin, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n%s\n", text);
    fclose(file);
    assert_int_equal(chmod(path, 0755), 0);
}

static void world_open(struct world *w, unsigned children_max)
{
    struct invoke_exec_options options = {
        .loop = w->loop,
        .secrets = w->secrets,
        .directory = w->bin,
        .children_max = children_max,
        .grace_us = 300 * MS_US,
        .reply = fake_replies_add,
        .reply_arg = &w->replies,
    };
    w->exec = invoke_exec_new(&options);
    w->port = invoke_exec_port(w->exec);
}

static int setup(void **state)
{
    static struct world world;
    struct world *w = &world;
    struct err err;
    *w = (struct world){.files = fake_open_files()};
    strcpy(w->folder, "/tmp/test_exec.XXXXXX");
    assert_non_null(mkdtemp(w->folder));
    snprintf(w->bin, sizeof(w->bin), "%s/bin", w->folder);
    assert_int_equal(mkdir(w->bin, 0755), 0);
    assert_int_equal(loop_open(&w->loop, &err), 0);
    w->secrets = secrets_new();
    w->replies.loop = w->loop;
    world_open(w, 0);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    char command[128];
    invoke_exec_free(w->exec);
    secrets_free(w->secrets);
    loop_close(w->loop);
    fake_replies_free(&w->replies);
    snprintf(command, sizeof(command), "rm -rf %s", w->folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(fake_open_files(), w->files);    /* no descriptor stays behind */
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* and no child */
    return 0;
}

static const struct reply *run(struct world *w, struct fake_call *call)
{
    return fake_reply_to(&w->replies, fake_start(call, w->port));
}

static void assert_str(struct str got, const char *wanted)
{
    char text[4096];
    assert_non_null(got.ptr);
    snprintf(text, sizeof(text), STR_FMT, STR_ARG(got));
    assert_string_equal(text, wanted);
}

static bool contains(struct str text, const char *part)
{
    return text.ptr && memmem(text.ptr, text.len, part, strlen(part));
}

/* The environment is the key and its companions, a PATH, what was declared, and nothing else. */
static void test_environment(void **state)
{
    struct world *w = *state;
    struct fake_call call;
    struct err err;
    setenv("PGPASSWORD", "the daemon's own", 1);
    assert_int_equal(secrets_add_value(w->secrets, "token", STR("S3cr3t-\xc3\xbcmlaut"), &err), 0);
    script(w, "show", "env | grep -v '^PWD=\\|^_=\\|^SHLVL=\\|^OLDPWD=' | sort; pwd");
    fake_exec(&call, "show", NULL);
    call.invocation.direction = DIRECTION_COMPENSATE;
    call.invocation.key = STR("order-1:charge:compensate");
    call.invocation.compensates = STR("order-1:charge:execute");
    call.invocation.attempt = 2;
    fake_header(&call, STR("TOKEN"), STR("Bearer \xFFtoken\xFF"));
    const struct reply *reply = run(w, &call);
    char wanted[512];
    snprintf(wanted, sizeof(wanted),
             "PATH=/usr/local/bin:/usr/bin:/bin\nSAGA_ACTION=compensate\nSAGA_ATTEMPT=2\n"
             "SAGA_COMPENSATES=order-1:charge:execute\nSAGA_KEY=order-1:charge:compensate\n"
             "SAGA_RUN=order-1\nSAGA_STEP=charge\nTOKEN=Bearer S3cr3t-\xc3\xbcmlaut\n%s\n",
             w->bin);
    assert_int_equal(reply->kind, REPLY_EXEC);
    assert_int_equal(reply->status, 0);
    assert_str(reply->body, wanted);
}

/* The program holds no descriptor of the daemon, blocks no signal and ignores none. */
static void test_nothing_is_inherited(void **state)
{
    struct world *w = *state;
    struct fake_call call;
    sigset_t blocked, before;
    int leak = dup(1); /* not close-on-exec */
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    script(w, "show", "ls /proc/self/fd | tr '\\n' ' '; grep -E '^Sig(Blk|Ign)' /proc/self/status");
    fake_exec(&call, "show", NULL);
    const struct reply *reply = run(w, &call);
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(leak);
    unsigned long long blocks, ignores;
    char text[256];
    snprintf(text, sizeof(text), STR_FMT, STR_ARG(reply->body));
    assert_int_equal(sscanf(text, "0 1 2 3 SigBlk: %llx SigIgn: %llx", &blocks, &ignores), 2);
    assert_int_equal(blocks, 0);
    assert_int_equal(ignores & ~(3ULL << 31), 0); /* 32 and 33 are libc's own */
}

/* A-EXPR-1: values are arguments, byte for byte; no shell ever sees them. */
static void test_a_expr_1(void **state)
{
    static const char *const values[] = {
        "x'; touch PWNED; echo '",
        "$(touch PWNED)",
        "`touch PWNED`",
        "-rf",
        "a\nb",
        "--",
        "",
        "*",
        "Zo\xc3\xab \xf0\x9f\x98\x80",
    };
    struct world *w = *state;
    char path[128];
    script(w, "show", "for a in \"$@\"; do printf '[%s]' \"$a\"; done; cat");
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        struct fake_call call;
        char wanted[256];
        fake_exec(&call, "show", values[i], "second", NULL);
        call.request.body = str_z(values[i]);
        const struct reply *reply = run(w, &call);
        snprintf(wanted, sizeof(wanted), "[%s][second]%s", values[i], values[i]);
        assert_int_equal(reply->status, 0);
        assert_str(reply->body, wanted);
    }
    snprintf(path, sizeof(path), "%s/PWNED", w->bin);
    assert_int_not_equal(access(path, F_OK), 0);
}

/* Exit code, signal and both outputs arrive as they were. */
static void test_results(void **state)
{
    struct world *w = *state;
    struct fake_call call;
    script(w, "fail", "echo out; echo 'went wrong' >&2; exit 75");
    script(w, "crash", "kill -SEGV $$");
    fake_exec(&call, "fail", NULL);
    const struct reply *reply = run(w, &call);
    assert_int_equal(reply->kind, REPLY_EXEC);
    assert_int_equal(reply->status, 75);
    assert_str(reply->body, "out\n");
    assert_str(reply->stderr_text, "went wrong\n");
    assert_str(reply->error, "program \"fail\" ended with exit code 75");
    fake_exec(&call, "crash", NULL);
    reply = run(w, &call);
    assert_int_equal(reply->kind, REPLY_EXEC);
    assert_int_equal(reply->status, -SIGSEGV);
    assert_false(reply->timed_out);
}

/* True if a process with this command line still lives (zombies do not count). */
static bool lives(const char *part)
{
    char command[256];
    snprintf(command, sizeof(command),
             "ps -eo stat=,args= | grep -v '^Z' | grep -v grep | grep -q -- '%s'", part);
    return system(command) == 0;
}

/* A-EXEC-1: at the limit the whole group is ended, although a grandchild holds the pipe. */
static void test_a_exec_1_limit(void **state)
{
    struct world *w = *state;
    struct fake_call call;
    script(w, "hold", "sleep 7131 & echo hi; wait");
    fake_exec(&call, "hold", NULL);
    call.invocation.timeout_us = 500 * MS_US;
    struct mono begun = loop_mono();
    const struct reply *reply = run(w, &call);
    assert_in_range(loop_mono().us - begun.us, 450 * MS_US, 1200 * MS_US);
    assert_int_equal(reply->kind, REPLY_NO_ANSWER);
    assert_true(reply->timed_out);
    assert_int_equal(reply->status, -SIGTERM);
    assert_str(reply->body, "hi\n");
    assert_str(reply->error, "program \"hold\" was ended: no result within 500ms");
    fake_idle(w->loop, 50 * MS_US);
    assert_false(lives("sleep 7131"));
}

/* A-EXEC-1: a stray that outlives the program neither delays its answer nor stays. */
static void test_a_exec_1_stray(void **state)
{
    struct world *w = *state;
    struct fake_call call;
    script(w, "stray", "(sleep 7132 &); echo ok");
    fake_exec(&call, "stray", NULL);
    struct mono begun = loop_mono();
    const struct reply *reply = run(w, &call);
    assert_true(loop_mono().us - begun.us < SECOND_US);
    assert_int_equal(reply->kind, REPLY_EXEC);
    assert_int_equal(reply->status, 0);
    assert_str(reply->body, "ok\n");
    fake_idle(w->loop, 50 * MS_US);
    assert_false(lives("sleep 7132"));
}

/* A program that will not end is killed after the grace; one that ends in order is unknown too. */
static void test_limit_ignored(void **state)
{
    struct world *w = *state;
    struct fake_call call;
    script(w, "deaf", "trap '' TERM; while :; do sleep 0.05; done");
    script(w, "polite", "trap 'echo bye; exit 0' TERM; while :; do sleep 0.05; done");
    fake_exec(&call, "deaf", NULL);
    call.invocation.timeout_us = 200 * MS_US;
    struct mono begun = loop_mono();
    const struct reply *reply = run(w, &call);
    assert_in_range(loop_mono().us - begun.us, 450 * MS_US, 1200 * MS_US);
    assert_int_equal(reply->status, -SIGKILL);
    assert_true(reply->timed_out);
    fake_exec(&call, "polite", NULL);
    call.invocation.timeout_us = 200 * MS_US;
    reply = run(w, &call);
    assert_int_equal(reply->kind, REPLY_NO_ANSWER);
    assert_int_equal(reply->status, 0);
    assert_true(reply->timed_out);
}

/* Output without end is dropped at the limit, and the program is not held up by it. */
static void test_output_limits(void **state)
{
    struct world *w = *state;
    struct fake_call call;
    script(w, "flood", "head -c 5000000 /dev/zero | tr '\\0' x; exit 0");
    script(w, "full", "head -c 1048576 /dev/zero | tr '\\0' x");
    script(w, "noise", "yes 'line of noise' | head -c 400000 >&2; echo last >&2; exit 1");
    fake_exec(&call, "flood", NULL);
    const struct reply *reply = run(w, &call);
    assert_int_equal(reply->status, 0);
    assert_true(reply->body_dropped);
    assert_null(reply->body.ptr);
    fake_exec(&call, "full", NULL);
    reply = run(w, &call);
    assert_int_equal(reply->body.len, BODY_BYTES_MAX);
    fake_exec(&call, "noise", NULL);
    reply = run(w, &call);
    assert_int_equal(reply->status, 1);
    assert_int_equal(reply->stderr_text.len, EXEC_STDERR_BYTES_MAX);
    assert_true(str_starts((struct str){reply->stderr_text.ptr + EXEC_STDERR_BYTES_MAX - 5, 5},
                           STR("last\n")));
}

/* A-TEXT-2: bytes that are no text are dropped from the output and replaced in the messages. */
static void test_a_text_2(void **state)
{
    struct world *w = *state;
    static const char *const outputs[] = {"printf 'a\\000b'", "printf '\\377\\376'",
                                          "printf 'Zo\\303'"};
    for (size_t i = 0; i < ARRAY_LEN(outputs); i++) {
        struct fake_call call;
        char text[128];
        snprintf(text, sizeof(text), "%s; %s >&2; exit 0", outputs[i], outputs[i]);
        script(w, "raw", text);
        fake_exec(&call, "raw", NULL);
        const struct reply *reply = run(w, &call);
        assert_int_equal(reply->kind, REPLY_EXEC);
        assert_int_equal(reply->status, 0);
        assert_true(reply->body_dropped);
        assert_null(reply->body.ptr);
        assert_true(str_is_utf8(reply->stderr_text));
        assert_null(memchr(reply->stderr_text.ptr, '\0', reply->stderr_text.len));
    }
}

/* A-SECRET-2: a secret reaches a program by its environment only; nobody reads it in `ps`. */
static void test_a_secret_2(void **state)
{
    struct world *w = *state;
    struct fake_call call;
    struct err err;
    assert_int_equal(secrets_add_value(w->secrets, "token", STR("S3cr3t-value"), &err), 0);
    script(w, "show", "tr '\\0' ' ' </proc/$$/cmdline; echo \"$TOKEN\"");
    fake_exec(&call, "show", "--token", "\xFFtoken\xFF", NULL);
    const struct reply *reply = run(w, &call);
    assert_int_equal(reply->kind, REPLY_CANNOT_SEND);
    assert_str(reply->error, "argument 2 of the program has a secret");
    fake_exec(&call, "show", NULL);
    fake_header(&call, STR("TOKEN"), STR("\xFFtoken\xFF"));
    reply = run(w, &call);
    assert_true(contains(reply->body, "show S3cr3t-value\n"));
    assert_false(contains(reply->error, "S3cr3t"));
    fake_exec(&call, "show", NULL);
    fake_header(&call, STR("TOKEN"), STR("\xFFmissing\xFF"));
    reply = run(w, &call);
    assert_int_equal(reply->kind, REPLY_CANNOT_SEND);
    assert_str(reply->error, "environment entry \"TOKEN\": secret \"missing\" is not configured");
}

/* Only programs of the directory run, whatever dots, slashes and links lead out of it. */
static void test_directory(void **state)
{
    struct world *w = *state;
    struct fake_call call;
    char path[160], inside[160];
    script(w, "good", "echo good");
    snprintf(path, sizeof(path), "%s/link", w->bin);
    assert_int_equal(symlink("/bin/echo", path), 0);
    char bin[80];
    strcpy(bin, w->bin);
    strcat(w->bin, "2"); /* a name that begins like the directory's */
    assert_int_equal(mkdir(w->bin, 0755), 0);
    script(w, "evil", "echo evil");
    strcpy(w->bin, bin);
    snprintf(inside, sizeof(inside), "%s/good", w->bin);
    const char *const bad[] = {"/bin/echo", "../../../bin/echo", "link", "missing", ".", "..",
                               "",          "../bin2/evil"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        fake_exec(&call, bad[i], NULL);
        assert_int_equal(run(w, &call)->kind, REPLY_CANNOT_SEND);
    }
    const char *const good[] = {"good", "./good", "../bin/good", inside};
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        fake_exec(&call, good[i], NULL);
        const struct reply *reply = run(w, &call);
        assert_int_equal(reply->kind, REPLY_EXEC);
        assert_str(reply->body, "good\n");
    }
    invoke_exec_free(w->exec);
    strcpy(path, w->bin);
    strcpy(w->bin, "/nowhere");
    world_open(w, 0);
    strcpy(w->bin, path);
    fake_exec(&call, "good", NULL);
    const struct reply *reply = run(w, &call);
    assert_int_equal(reply->kind, REPLY_CANNOT_SEND);
    assert_str(reply->error, "exec actions are off: exec.directory \"/nowhere\" is no directory");
}

/* What cannot be passed is refused by its place. */
static void test_cannot_pass(void **state)
{
    struct world *w = *state;
    struct fake_call call;
    script(w, "good", "echo good");
    script(w, "plain", "echo plain");
    char path[160];
    snprintf(path, sizeof(path), "%s/plain", w->bin);
    chmod(path, 0644);
    fake_exec(&call, "plain", NULL); /* not executable */
    assert_int_equal(run(w, &call)->kind, REPLY_CANNOT_SEND);
    fake_exec(&call, "good", "x", NULL);
    call.args[1] = STR("a\0b");
    assert_str(run(w, &call)->error, "argument 1 of the program has a NUL");
    static const char *const names[] = {"SAGA_KEY", "A=B", "", "1A", "A B"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        fake_exec(&call, "good", NULL);
        fake_header(&call, str_z(names[i]), STR("x"));
        assert_int_equal(run(w, &call)->kind, REPLY_CANNOT_SEND);
    }
    fake_exec(&call, "good", NULL);
    fake_header(&call, STR("A"), STR("a\0b"));
    assert_int_equal(run(w, &call)->kind, REPLY_CANNOT_SEND);
}

/* A-DAEMON-3: no descriptor and no process left are our own shortage, and pass. */
static void test_a_daemon_3(void **state)
{
    struct world *w = *state;
    struct fake_call call;
    struct rlimit files, few;
    script(w, "good", "echo good");
    getrlimit(RLIMIT_NOFILE, &files);
    for (unsigned spare = 0; spare < 5; spare++) { /* it takes six for a moment */
        few = files;
        few.rlim_cur = fake_open_files() + spare;
        setrlimit(RLIMIT_NOFILE, &few);
        fake_exec(&call, "good", NULL);
        call.request.body = STR("input");
        const struct reply *reply = run(w, &call);
        setrlimit(RLIMIT_NOFILE, &files);
        assert_int_equal(reply->kind, REPLY_LOCAL_SHORTAGE);
    }
    fake_exec(&call, "good", NULL);
    assert_int_equal(run(w, &call)->status, 0);
}

/* A-DAEMON-3: where no more processes are allowed, the same. */
static void test_a_daemon_3_processes(void **state)
{
    struct world *w = *state;
    pid_t child = fork(); /* the limit counts nothing for root, so that another user is needed */
    if (child == 0) {
        struct fake_call call;
        struct rlimit none = {0, 0};
        script(w, "good", "echo good");
        chmod(w->folder, 0755);
        if (getuid() == 0 && setuid(65534) != 0)
            _exit(1);
        setrlimit(RLIMIT_NPROC, &none);
        fake_exec(&call, "good", NULL);
        _exit(run(w, &call)->kind == REPLY_LOCAL_SHORTAGE ? 0 : 2);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* A-DAEMON-5: a program that does not read its input harms nobody. */
static void test_a_daemon_5(void **state)
{
    struct world *w = *state;
    char *input = xmalloc(BODY_BYTES_MAX);
    memset(input, 'i', BODY_BYTES_MAX);
    script(w, "deaf", "exec <&-; echo done");
    script(w, "count", "wc -c");
    for (int i = 0; i < 50; i++) {
        struct fake_call call;
        fake_exec(&call, "deaf", NULL);
        call.request.body = (struct str){input, BODY_BYTES_MAX};
        assert_str(run(w, &call)->body, "done\n");
    }
    struct fake_call call;
    fake_exec(&call, "count", NULL);
    call.request.body = (struct str){input, BODY_BYTES_MAX};
    assert_str(run(w, &call)->body, "1048576\n");
    fake_exec(&call, "count", NULL); /* no input at all is an empty one */
    assert_str(run(w, &call)->body, "0\n");
    free(input);
}

/* Programs wait for their turn; one that waits past its limit was never started. */
static void test_queue(void **state)
{
    struct world *w = *state;
    struct fake_call call;
    invoke_exec_free(w->exec);
    world_open(w, 2);
    script(w, "slow", "sleep 0.4; echo done");
    uint64_t ids[5];
    for (int i = 0; i < 5; i++) {
        fake_exec(&call, "slow", NULL);
        call.invocation.timeout_us = i == 4 ? 200 * MS_US : 5 * SECOND_US;
        ids[i] = fake_start(&call, w->port);
    }
    assert_int_equal(invoke_exec_busy(w->exec), 5);
    assert_int_equal(w->replies.count, 0); /* not from inside start */
    assert_int_equal(fake_reply_to(&w->replies, ids[4])->kind, REPLY_LOCAL_SHORTAGE);
    for (int i = 0; i < 4; i++)
        assert_str(fake_reply_to(&w->replies, ids[i])->body, "done\n");
    assert_int_equal(invoke_exec_busy(w->exec), 0);
}

/* Dropped or drained: what waits was not sent; what runs is ended and its outcome is unknown. */
static void test_drop_and_drain(void **state)
{
    struct world *w = *state;
    struct fake_call call;
    invoke_exec_free(w->exec);
    world_open(w, 2);
    script(w, "hold", "sleep 7133");
    fake_exec(&call, "hold", NULL);
    uint64_t first = fake_start(&call, w->port), second = fake_start(&call, w->port);
    uint64_t third = fake_start(&call, w->port), fourth = fake_start(&call, w->port);
    fake_idle(w->loop, 50 * MS_US);
    w->port->drop(w->port->arg, third);
    w->port->drop(w->port->arg, first);
    assert_int_equal(w->replies.count, 0);
    invoke_exec_drain(w->exec, false);
    uint64_t late = fake_start(&call, w->port);
    assert_int_equal(fake_reply_to(&w->replies, third)->kind, REPLY_NOT_SENT);
    assert_int_equal(fake_reply_to(&w->replies, fourth)->kind, REPLY_NOT_SENT);
    assert_int_equal(fake_reply_to(&w->replies, late)->kind, REPLY_NOT_SENT);
    const struct reply *reply = fake_reply_to(&w->replies, first);
    assert_int_equal(reply->kind, REPLY_NO_ANSWER);
    assert_int_equal(reply->status, -SIGTERM);
    assert_false(reply->timed_out);
    assert_int_equal(invoke_exec_busy(w->exec), 1);
    invoke_exec_drain(w->exec, true);
    assert_int_equal(fake_reply_to(&w->replies, second)->kind, REPLY_NO_ANSWER);
    assert_false(lives("sleep 7133"));
}

/* Many at once: every answer is its own. */
static void test_many(void **state)
{
    struct world *w = *state;
    uint64_t ids[200];
    script(w, "echo", "cat; echo \" $1\"");
    for (int i = 0; i < 200; i++) {
        struct fake_call call;
        char number[16];
        snprintf(number, sizeof(number), "%d", i);
        fake_exec(&call, "echo", number, NULL);
        call.request.body = str_z(number);
        call.invocation.timeout_us = 30 * SECOND_US;
        ids[i] = fake_start(&call, w->port);
    }
    for (int i = 0; i < 200; i++) {
        char wanted[40];
        snprintf(wanted, sizeof(wanted), "%d %d\n", i, i);
        assert_str(fake_reply_to(&w->replies, ids[i])->body, wanted);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_environment),    TEST(test_nothing_is_inherited),
        TEST(test_a_expr_1),       TEST(test_results),
        TEST(test_a_exec_1_limit), TEST(test_a_exec_1_stray),
        TEST(test_limit_ignored),  TEST(test_output_limits),
        TEST(test_a_text_2),       TEST(test_a_secret_2),
        TEST(test_directory),      TEST(test_cannot_pass),
        TEST(test_a_daemon_3),     TEST(test_a_daemon_3_processes),
        TEST(test_a_daemon_5),     TEST(test_queue),
        TEST(test_drop_and_drain), TEST(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
