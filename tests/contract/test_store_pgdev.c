/*
 * The private PostgreSQL of `sagad --dev`: made, adopted, started again, stopped, anywhere.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/pgdev.h"

#include <libpq-fe.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[200];

static int setup(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/sgdXXXXXX");
    assert_non_null(mkdtemp(dir));
    return 0;
}

static int teardown(void **state)
{
    char command[300];
    (void)state;
    snprintf(command, sizeof(command), "rm -rf \"%s\"", dir);
    return system(command);
}

static struct pgdev *start(void)
{
    struct pgdev *dev;
    struct err err;
    if (pgdev_start(&(struct pgdev_options){.dir = dir, .is_ephemeral = true}, &dev, &err))
        fail_msg("%s", err.text);
    return dev;
}

static void stop(struct pgdev *dev)
{
    struct err err;
    if (pgdev_stop(dev, &err))
        fail_msg("%s", err.text);
    assert_int_equal(PQping(pgdev_uri_admin(dev)), PQPING_NO_RESPONSE);
    pgdev_free(dev);
}

/* One value of the server; "" if the query failed. */
static const char *ask(const struct pgdev *dev, const char *sql)
{
    static char value[256];
    PGconn *conn = PQconnectdb(pgdev_uri_admin(dev));
    PGresult *result = PQexec(conn, sql);
    snprintf(value, sizeof(value), "%s", PQntuples(result) ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    PQfinish(conn);
    return value;
}

static int postmaster(const struct pgdev *dev)
{
    return atoi(ask(dev, "select pg_read_file('postmaster.pid', 0, 8)"));
}

/* A server that was left running is adopted, not started twice; its data stays. */
static void running_server_is_adopted(void **state)
{
    (void)state;
    struct pgdev *dev = start();
    assert_string_equal(ask(dev, "show listen_addresses"), "");
    ask(dev, "create table kept as select 7 as n");
    int pid = postmaster(dev);
    pgdev_free(dev);
    dev = start();
    assert_int_equal(postmaster(dev), pid);
    assert_string_equal(ask(dev, "select n from kept"), "7");
    stop(dev);
    dev = start();
    assert_string_equal(ask(dev, "select n from kept"), "7");
    stop(dev);
}

/* A server that was killed is started again over what it left behind. */
static void killed_server_is_started_again(void **state)
{
    (void)state;
    struct pgdev *dev = start();
    ask(dev, "create table kept as select 7 as n");
    ask(dev, "checkpoint");
    int pid = postmaster(dev);
    pgdev_free(dev);
    assert_int_equal(kill(pid, SIGKILL), 0);
    dev = start();
    assert_int_not_equal(postmaster(dev), pid);
    assert_string_equal(ask(dev, "select n from kept"), "7");
    stop(dev);
}

/* Spaces, quotes and a path that is too long for a socket are no obstacle; nor is a half-made
 * cluster. */
static void odd_folders(void **state)
{
    char command[400];
    (void)state;
    strcat(dir, "/it's a \\ 100%");
    assert_int_equal(mkdir(dir, 0755), 0);
    chmod(dir, 0755);
    snprintf(command, sizeof(command), "mkdir -p \"%s/.saga/pg/data.new/base\"", dir);
    assert_int_equal(system(command), 0);
    dir[14] = '\0';
    chmod(dir, 0755);
    dir[14] = '/';
    struct pgdev *dev = start();
    assert_string_equal(ask(dev, "select current_database()"), "saga");
    stop(dev);
    dir[14] = '\0';
    size_t length = strlen(dir);
    memset(dir + length, 'x', 110);
    dir[length] = '/';
    dir[length + 110] = '\0';
    assert_int_equal(mkdir(dir, 0755), 0);
    dev = start();
    assert_string_equal(ask(dev, "select current_database()"), "saga");
    stop(dev);
    dir[14] = '\0';
}

/* The folder is hidden from git, and nobody but its user may read the data. */
static void folder_is_private(void **state)
{
    char path[300];
    struct stat st;
    (void)state;
    struct pgdev *dev = start();
    snprintf(path, sizeof(path), "%s/.saga/.gitignore", dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(atoi(ask(dev, "show data_directory_mode")), 700);
    assert_string_equal(ask(dev, "select count(*) from pg_hba_file_rules where auth_method <> "
                                 "'peer' or type <> 'local'"),
                        "0");
    stop(dev);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(running_server_is_adopted),
        CASE(killed_server_is_started_again),
        CASE(odd_folders),
        CASE(folder_is_private),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
