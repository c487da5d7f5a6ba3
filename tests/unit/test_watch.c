/*
 * test_watch.c - whether a process still runs the program that was recorded.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "watch.h"

static uint64_t stat_field(pid_t pid, int wanted) {
    char path[40], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    const char *p = strrchr(text, ')');
    for (int field = 2; field < wanted; field++)
        p = strchr(p + 1, ' ');
    return strtoull(p, NULL, 10);
}

static void watch_it(struct ls_watch *watch, pid_t pid) {
    ls_watch_init(watch, pid, stat_field(pid, 22), stat_field(pid, 28), 0);
}

static bool dead_within(struct ls_watch *watch, int ms) {
    for (; !ls_watch_dead(watch) && ms > 0; ms -= 10)
        usleep(10000);
    return ls_watch_dead(watch);
}

static void test_self(void **state) {
    (void)state;
    struct ls_watch watch;
    watch_it(&watch, getpid());
    assert_false(ls_watch_dead(&watch));
    ls_watch_destroy(&watch);
    ls_watch_init(&watch, getpid(), stat_field(getpid(), 22) + 1, 0,
                  0); /* the pid's earlier owner */
    assert_true(ls_watch_dead(&watch));
    assert_false(watch.replaced);
    ls_watch_destroy(&watch);
    ls_watch_init(&watch, getpid(), stat_field(getpid(), 22), 0, 0);
    assert_false(ls_watch_dead(&watch));
    ls_watch_destroy(&watch);
}

/* Its pid means nothing here; what tells is whether its namespace is still there. */
static void test_elsewhere(void **state) {
    (void)state;
    struct ls_watch watch;
    struct stat own, other;
    assert_int_equal(stat("/proc/self/ns/pid", &own), 0);
    ls_watch_init(&watch, getpid(), stat_field(getpid(), 22) + 1, 0, 1); /* no such namespace */
    assert_true(watch.elsewhere);
    assert_true(ls_watch_dead(&watch) || own.st_ino != 0xeffffffc);
    ls_watch_destroy(&watch);
    int told[2];
    pid_t inside = 0;
    assert_int_equal(pipe(told), 0);
    pid_t pid = fork();
    if (pid == 0) { /* a process of its own: its later children alone are in the namespace */
        inside = unshare(CLONE_NEWPID) == 0 ? fork() : -1;
        if (inside == 0)
            for (;;)
                pause();
        _exit(write(told[1], &inside, sizeof inside) != sizeof inside);
    }
    waitpid(pid, NULL, 0);
    assert_int_equal(read(told[0], &inside, sizeof inside), sizeof inside);
    close(told[0]);
    close(told[1]);
    if (inside < 0)
        skip();
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/pid", (int)inside);
    assert_int_equal(stat(path, &other), 0);
    ls_watch_init(&watch, 1, 12345, 0, other.st_ino);
    assert_true(watch.elsewhere);
    assert_false(ls_watch_dead(&watch));
    ls_watch_destroy(&watch);
    kill(inside, SIGKILL);
}

static void test_killed(void **state) {
    (void)state;
    struct ls_watch watch, by_proc;
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    watch_it(&watch, pid);
    watch_it(&by_proc, pid);
    close(by_proc.pidfd);
    by_proc.pidfd = -1; /* an old kernel */
    assert_false(ls_watch_dead(&watch));
    assert_false(ls_watch_dead(&by_proc));
    kill(pid, SIGKILL);
    assert_true(dead_within(&watch, 5000)); /* a zombie is dead, too */
    assert_true(dead_within(&by_proc, 5000));
    waitpid(pid, NULL, 0);
    ls_watch_destroy(&watch);
    watch_it(&by_proc, getpid());
    ls_watch_destroy(&by_proc);
}

static void test_exec(void **state) {
    (void)state;
    struct ls_watch watch;
    int go[2];
    assert_int_equal(pipe(go), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        if (read(go[0], &byte, 1) == 1)
            execlp("sleep", "sleep", "30", (char *)NULL);
        _exit(1);
    }
    watch_it(&watch, pid);
    assert_false(ls_watch_dead(&watch));
    assert_int_equal(write(go[1], "x", 1), 1);
    assert_true(dead_within(&watch, 5000));
    assert_true(watch.replaced);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    ls_watch_destroy(&watch);
    close(go[0]);
    close(go[1]);
}

static void *sleep_on(void *unused) {
    while (pause())
        continue;
    return unused;
}

/* Its main thread has ended, others have not. */
static void test_threads_outlive_main(void **state) {
    (void)state;
    struct ls_watch watch, by_proc;
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, sleep_on, NULL);
        pthread_exit(NULL);
    }
    watch_it(&watch, pid);
    watch_it(&by_proc, pid);
    close(by_proc.pidfd);
    by_proc.pidfd = -1;
    assert_false(dead_within(&watch, 700));
    assert_false(ls_watch_dead(&by_proc));
    kill(pid, SIGKILL);
    assert_true(dead_within(&watch, 5000));
    waitpid(pid, NULL, 0);
    ls_watch_destroy(&watch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_self),      cmocka_unit_test(test_killed),
        cmocka_unit_test(test_exec),      cmocka_unit_test(test_threads_outlive_main),
        cmocka_unit_test(test_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
