/*
 * oom_courses.h - what a program does that runs out of memory, call by call, for tests of the rows
 * of it. Each course is collected twice: at once, and by a collector that ends after every single
 * call. One thread; not async-signal-safe.
 */
#ifndef OOM_COURSES_H
#define OOM_COURSES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collect.h"
#include "spool_maker.h"
#include "trace.h"

#define REPORT LS_API__ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
#define GIVES_UP LS_API__ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE
#define MIB (UINT64_C(1) << 20)
#define NO_MEMORY 2
/* Stacks: from PyTorch's allocator, entered by one call and by another; of the program; of NCCL. */
enum { C10 = 1, C10_ELSEWHERE, USER, USER_ELSEWHERE, NCCL, BEHIND_RUNTIME };

static struct maker maker;
static uint64_t now;
static bool each; /* a collector for each call */
static int64_t allocated, reserved;

static inline void modules(void) {
    static const struct {
        uint64_t start;
        const char *path;
    } module[] = {{0x100000, "/lib/libc10_cuda.so"},
                  {0x200000, "/lib/libuser.so"},
                  {0x300000, "/lib/libnccl.so.2"},
                  {0x400000, "/lib/libcudart.so.12"}};
    for (size_t i = 0; i < sizeof module / sizeof module[0]; i++)
        maker_module(&maker, 1, 0, module[i].start, module[i].start, module[i].start + 0x100000,
                     module[i].path, NULL, 0);
    maker_stack(&maker, 1, C10, 0, 2, (const uint64_t[]){0x100100, 0x200100});
    maker_stack(&maker, 1, C10_ELSEWHERE, 0, 2, (const uint64_t[]){0x100200, 0x200200});
    maker_stack(&maker, 1, USER, 0, 1, (const uint64_t[]){0x200300});
    maker_stack(&maker, 1, USER_ELSEWHERE, 0, 1, (const uint64_t[]){0x200400});
    maker_stack(&maker, 1, NCCL, 0, 2, (const uint64_t[]){0x300100, 0x200500});
    maker_stack(&maker, 1, BEHIND_RUNTIME, 0, 2, (const uint64_t[]){0x400100, 0x300200});
}

static inline void drain(void) {
    char why[512];
    assert_int_equal(ls_collect_once(maker.spool, maker.trace, 0, why, sizeof why),
                     LS_COLLECTED_LIVE);
}

static inline void begin(bool after_each) {
    maker_open(&maker, true);
    each = after_each;
    allocated = reserved = 0;
    now = 0;
    modules();
}

static inline void call(unsigned thread, int api, uint32_t stack, int status, unsigned device,
                        const uint64_t *field) {
    now += 10;
    maker_call_flags(&maker, thread, (enum ls_api)api, now, now + 4, status, stack, 0, 0, device,
                     field);
    if (each)
        drain();
}

#define CALL(thread, api, stack, status, ...)                                                      \
    call(thread, LS_API_##api, stack, status, 0, (const uint64_t[LS_FIELD_MAX]){__VA_ARGS__})
#define ON(device, thread, api, stack, status, ...)                                                \
    call(thread, LS_API_##api, stack, status, device, (const uint64_t[LS_FIELD_MAX]){__VA_ARGS__})

static inline void report(uint32_t stack, uint64_t address, int64_t size) {
    allocated += size;
    call(1, REPORT, stack, 0, 0,
         (const uint64_t[LS_FIELD_MAX]){address, (uint64_t)size, (uint64_t)allocated,
                                        (uint64_t)reserved, 0});
}

static inline void segment(uint64_t address, uint64_t size) {
    reserved += (int64_t)size;
    CALL(1, cudaMalloc, C10, 0, address, size);
    report(C10, address, (int64_t)size);
}

static inline void flush(uint32_t stack, uint64_t address, uint64_t size) {
    reserved -= (int64_t)size;
    CALL(1, cudaFree, stack, 0, address);
}

static inline void give_up(uint32_t stack, uint64_t size) {
    call(1, GIVES_UP, stack, 0, 0,
         (const uint64_t[LS_FIELD_MAX]){size, (uint64_t)allocated, (uint64_t)reserved, 0});
}

static inline void pieces(uint64_t handle, int count, uint64_t address) {
    for (int i = 0; i < count; i++)
        CALL(1, cuMemCreate, C10, 0, handle + (uint64_t)i, 20 * MIB, 0);
    for (int i = 0; address && i < count; i++)
        CALL(1, cuMemMap, C10, 0, address + 20 * MIB * (uint64_t)i, 20 * MIB, 0,
             handle + (uint64_t)i);
}

static inline const char *rows(void) {
    return maker_ask(
        &maker,
        "SELECT group_concat(CASE source WHEN 1 THEN 'allocator' ELSE 'driver' END||"
        "CASE WHEN recovered THEN ' got' ELSE '' END||' '||(requested>>20)||'/'||"
        "IFNULL(asked>>20,'-')||' of '||(allocated>>20)||'/'||IFNULL(reserved>>20,'-')||' free '||"
        "IFNULL(device_free>>20,'-')||' x'||attempts||' at '||ts_ns||' flushed '||flushed_calls||"
        "':'||(flushed_bytes>>20)||' in '||flush_ns||' waited '||waited_ns,'; ') "
        "FROM (SELECT * FROM oom ORDER BY id)");
}

static inline const char *steps(void) {
    return maker_ask(&maker, "SELECT group_concat(kind||':'||IFNULL(bytes>>20,'-'),' ') FROM "
                             "(SELECT oom_call.* FROM oom_call JOIN oom ON oom.id = oom_call.oom "
                             "AND oom_call.id BETWEEN first_call AND last_call ORDER BY 1)");
}

/* The same in both ways of collecting. */
static inline void check(void (*course)(void), const char *want_rows, const char *want_steps) {
    for (int after_each = 0; after_each < 2; after_each++) {
        begin(after_each);
        course();
        maker.header->image++; /* it runs another program now */
        assert_int_equal(maker_collect(&maker), LS_EXIT_OK);
        assert_string_equal(maker_ask(&maker, "PRAGMA integrity_check"), "ok");
        assert_string_equal(rows(), want_rows);
        assert_string_equal(steps(), want_steps);
        assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM oom_call WHERE oom NOT IN "
                                              "(SELECT id FROM oom)"),
                         0);
        maker_close(&maker);
    }
}

#define COURSE(name) static void name(void)
#define TESTS(name, rows, steps)                                                                   \
    static void test_##name(void **state) {                                                        \
        (void)state;                                                                               \
        check(name, rows, steps);                                                                  \
    }

#endif
