/*
 * test_replay.c - replayed stacks against glibc's backtrace().
 *
 * Random call paths through frames of every shape: with and without a frame pointer, of variable
 * size, realigned, inside libc's callbacks, above signal frames, on fibers whose memory is mapped
 * anew at the same address with another size. A hash must stand for one list of return addresses,
 * whether it came from a walk or from a replay, and each list must have one hash.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <alloca.h>
#include <execinfo.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "preload/stack_native.h"

#define NOINLINE __attribute__((noinline, noclone))
#define ROOM 120

static struct ls_thread self;
static uint64_t dice = 88172645463325252u;
static long sights, differences;

static uint32_t roll(uint32_t sides) {
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return (uint32_t)(dice >> 33) % sides;
}

/* ---- what has been seen: hash -> frames, and frames -> hash ---- */

struct seen {
    uint64_t hash;
    int depth;
    void *frame[ROOM];
};
#define SEEN_MAX 65536
static struct seen *seen;
static size_t seen_count;
static uint32_t by_hash[1 << 18], by_frames[1 << 18]; /* 1 + index; 0: free */

static uint64_t mix(void *const *frame, int depth) {
    uint64_t h = (uint64_t)depth;
    for (int i = 0; i < depth; i++)
        h = (h ^ (uint64_t)(uintptr_t)frame[i]) * 0x100000001b3u;
    return h * 0x9e3779b97f4a7c15u;
}

static bool same(const struct seen *known, void *const *frame, int depth) {
    return known->depth == depth && !memcmp(known->frame, frame, (size_t)depth * sizeof *frame);
}

static void judge(uint64_t hash, void *const *frame, int depth) {
    const uint32_t mask = (1 << 18) - 1;
    uint32_t h = (uint32_t)(hash * 0x9e3779b97f4a7c15u >> 40) & mask;
    uint32_t f = (uint32_t)(mix(frame, depth) >> 40) & mask;
    while (by_hash[h] && seen[by_hash[h] - 1].hash != hash)
        h = (h + 1) & mask;
    while (by_frames[f] && !same(&seen[by_frames[f] - 1], frame, depth))
        f = (f + 1) & mask;
    if (by_hash[h] != by_frames[f])
        differences++;
    if (by_hash[h] || by_frames[f] || seen_count == SEEN_MAX)
        return;
    seen[seen_count].hash = hash;
    seen[seen_count].depth = depth;
    memcpy(seen[seen_count].frame, frame, (size_t)depth * sizeof *frame);
    by_hash[h] = by_frames[f] = (uint32_t)++seen_count;
}

/* In the place of a wrapper. */
static NOINLINE void look(void) {
    void *truth[ROOM], *walked[ROOM];
    struct ls_native_place place;
    ls_native_place(&place, __builtin_frame_address(0), false);
    uint64_t hash = ls_native_hash(&self, &place);
    int depth = backtrace(truth, ROOM), skip = 0;
    while (skip < depth && truth[skip] != __builtin_return_address(0))
        skip++;
    assert_true(skip < depth);
    judge(hash, truth + skip, depth - skip);
    int ours = (int)ls_native_walk(&place, walked, ROOM);
    if (ours != depth - skip || memcmp(walked, truth + skip, (size_t)ours * sizeof(void *)) != 0)
        differences++;
    sights++;
}

/* ---- frames of every shape ---- */

static void go_on(int depth);

static NOINLINE void plain(int depth) {
    volatile int pad[3] = {depth, 1, 2};
    go_on(depth - pad[1]);
    pad[0] = pad[2];
}

static NOINLINE void plain_wide(int depth) {
    volatile char pad[777] = {1};
    go_on(depth - pad[0]);
    pad[776] = 0;
}

static NOINLINE __attribute__((optimize("no-omit-frame-pointer"))) void framed(int depth) {
    volatile int pad[5] = {depth};
    go_on(pad[0] - 1);
}

static NOINLINE void variable(int depth) {
    size_t size = 16 + 16 * roll(40);
    volatile char *room = alloca(size);
    room[0] = 0;
    go_on(depth - 1);
    room[size - 1] = 0;
}

static NOINLINE void realigned(int depth) {
    volatile char room[64] __attribute__((aligned(64))) = {1};
    size_t size = 16 + 16 * roll(8);
    volatile char *more = alloca(size);
    more[size - 1] = room[0];
    go_on(depth - 1);
    room[63] = more[size - 1];
}

/* Uses rbp for something else. */
static NOINLINE void busy(int depth) {
    uint64_t a = roll(1000), b = a * 3, c = b ^ 77, d = c + a, e = d * b, f = e - c;
    for (int i = 0; i < 2; i++) {
        go_on(i ? 0 : depth - 1);
        a += b;
        b ^= c + d;
        c += e;
        d ^= f;
        e += a;
        f ^= b;
    }
    volatile uint64_t keep = a + b + c + d + e + f;
    (void)keep;
}

static int callback_depth;
static int compare(const void *a, const void *b) {
    int depth = callback_depth;
    callback_depth = 0;
    if (depth > 0)
        go_on(depth - 1);
    return *(const int *)a - *(const int *)b;
}

static NOINLINE void by_qsort(int depth) {
    int numbers[] = {3, 1, 2};
    callback_depth = depth;
    qsort(numbers, 3, sizeof *numbers, compare);
}

static int handler_depth;
static void handler(int signal) {
    (void)signal;
    int depth = handler_depth;
    handler_depth = 0;
    go_on(depth - 1);
}

static NOINLINE void by_signal(int depth) {
    handler_depth = depth;
    raise(SIGUSR1);
}

static void go_on(int depth) {
    static void (*const shapes[])(int) = {plain, plain_wide, framed,   variable,
                                          busy,  realigned,  by_qsort, by_signal};
    if (depth <= 0) {
        look();
        return;
    }
    uint32_t shape = roll(64);
    shapes[shape < 56 ? shape % 6 : shape - 56](depth);
}

static void expect_no_difference(long least) {
    if (differences)
        print_error("%ld of %ld stacks differ\n", differences, sights);
    assert_int_equal(differences, 0);
    assert_true(sights >= least);
}

static void test_random_paths(void **state) {
    (void)state;
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_NODEFER};
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 20000; i++) {
        /* Few paths again and again, among ones that never come back. */
        uint64_t kept = dice;
        if (i % 4)
            dice = 0x9e3779b97f4a7c15u * (1 + roll(50));
        uint64_t begun = dice;
        go_on((int)(begun % 12));
        if (i % 4)
            dice = kept + (uint64_t)i;
    }
    expect_no_difference(20000);
}

/* ---- fibers ---- */

static ucontext_t home, fiber;
static int fiber_depth;

static void run_fiber(void) {
    go_on(fiber_depth);
}

/* The same address each time, another size: the lower end of the old stack may be unmapped now. */
static void test_fibers_at_one_address(void **state) {
    (void)state;
    char *top =
        (char *)mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + (1 << 20);
    for (int i = 0; i < 3000; i++) {
        size_t size = (size_t)(64 + 4 * roll(40)) << 10;
        /* Stacks share their lower end: what was the upper part of a large one is unmapped later.
         */
        char *low = top - (1 << 20);
        munmap(low, 1 << 20);
        assert_ptr_equal(
            mmap(low, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            low);
        getcontext(&fiber);
        fiber.uc_stack.ss_sp = low;
        fiber.uc_stack.ss_size = size;
        fiber.uc_link = &home;
        fiber_depth = (int)roll(6);
        makecontext(&fiber, run_fiber, 0);
        swapcontext(&home, &fiber);
    }
    expect_no_difference(3000);
}

/* The same place, reached from different callers in turn. */
static NOINLINE void look_from(int variant) {
    if (variant)
        plain(0);
    else
        framed(0);
}

static void test_equal_registers_other_callers(void **state) {
    (void)state;
    for (int i = 0; i < 2000; i++) {
        look_from((int)roll(2));
        busy(1);
    }
    expect_no_difference(4000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_paths),
        cmocka_unit_test(test_fibers_at_one_address),
        cmocka_unit_test(test_equal_registers_other_callers),
    };
    void *warm[4];
    backtrace(warm, 4); /* loads libgcc */
    seen = calloc(SEEN_MAX, sizeof *seen);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
