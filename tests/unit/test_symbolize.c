/*
 * test_symbolize.c - names and lines of this very program; files that are no good; the worker.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "collect.h"
#include "demangle.h"
#include "spool_maker.h"
#include "symbolizer.h"
#include "trace.h"

static const uint8_t no_id[32];
static uintptr_t called_from;

static __attribute__((noinline)) void note_caller(void) {
    called_from = (uintptr_t)__builtin_return_address(0);
    __asm__ volatile("" ::: "memory");
}

static inline __attribute__((always_inline)) void innermost(void) {
    note_caller(); /* line 1 */
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void outermost(void);
void outermost(void) {
    innermost();
    __asm__ volatile("" ::: "memory");
}

static int first_module(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    *(uintptr_t *)data = info->dlpi_addr;
    return 1;
}

static uint64_t own_offset(uintptr_t address) {
    uintptr_t bias = 0;
    dl_iterate_phdr(first_module, &bias);
    return address - bias;
}

static void test_own_lines(void **state) {
    (void)state;
    struct ls_symbol symbol[LS_INLINE_MAX];
    outermost();
    struct ls_symbols *symbols = ls_symbols_open("/proc/self/exe", no_id, 0);
    assert_non_null(symbols);
    assert_int_equal(ls_symbols_lookup(symbols, own_offset(called_from), symbol), 2);
    assert_string_equal(symbol[0].function, "innermost");
    assert_string_equal(symbol[1].function, "outermost");
    assert_non_null(strstr(symbol[0].file, "tests/unit/test_symbolize.c"));
    assert_int_equal(symbol[0].file[0], '/');
    assert_null(strstr(symbol[0].file, "/../"));
    assert_true(symbol[1].line > symbol[0].line && symbol[1].line < symbol[0].line + 10);
    ls_symbol_clear(&symbol[0]);
    ls_symbol_clear(&symbol[1]);
    assert_int_equal(ls_symbols_lookup(symbols, 0, symbol), 0);
    assert_int_equal(ls_symbols_lookup(symbols, UINT64_MAX, symbol), 0);
    ls_symbols_close(symbols);
}

/* No debug information, only dynamic symbols. */
static void test_a_library(void **state) {
    (void)state;
    struct ls_symbol symbol[LS_INLINE_MAX];
    Dl_info info;
    assert_int_not_equal(dladdr(dlsym(RTLD_DEFAULT, "qsort_r"), &info), 0);
    struct ls_symbols *symbols = ls_symbols_open(info.dli_fname, no_id, 0);
    uint64_t start = (uintptr_t)info.dli_saddr - (uintptr_t)info.dli_fbase;
    int count = ls_symbols_lookup(symbols, start + 9, symbol);
    assert_true(count >= 1);
    assert_non_null(strstr(symbol[count - 1].function, "qsort_r"));
    assert_int_equal(symbol[count - 1].function_offset, 9);
    for (int i = 0; i < count; i++)
        ls_symbol_clear(&symbol[i]);
    ls_symbols_close(symbols);
}

static void test_another_file_by_now(void **state) {
    (void)state;
    struct ls_symbol symbol[LS_INLINE_MAX];
    outermost();
    const uint8_t id[32] = {1, 2, 3};
    struct ls_symbols *symbols = ls_symbols_open("/proc/self/exe", id, 20);
    assert_int_equal(ls_symbols_lookup(symbols, own_offset(called_from), symbol), 0);
    ls_symbols_close(symbols);
    symbols = ls_symbols_open("/nonexistent", no_id, 0);
    assert_int_equal(ls_symbols_lookup(symbols, 100, symbol), 0);
    ls_symbols_close(symbols);
    symbols = ls_symbols_open("/etc/passwd", no_id, 0);
    assert_int_equal(ls_symbols_lookup(symbols, 100, symbol), 0);
    ls_symbols_close(symbols);
}

static void test_demangle(void **state) {
    (void)state;
    const char *const pairs[][2] = {
        {"main", "main"}, {"_Z4stepPfi", "step(float*, int)"}, {"_Zbroken", "_Zbroken"}, {"", ""}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        char *text = ls_demangle(pairs[i][0]);
        assert_string_equal(text, pairs[i][1]);
        free(text);
    }
}

struct answers {
    unsigned count;
    char function[64];
};

static void note_answer(void *context, uint32_t index, const struct ls_symbol *symbol, int count) {
    struct answers *answers = context;
    assert_int_equal(index, answers->count);
    answers->count++;
    if (count && symbol[0].function)
        snprintf(answers->function, sizeof answers->function, "%s", symbol[0].function);
}

static void test_worker(void **state) {
    (void)state;
    struct ls_symbolizer symbolizer = {0};
    char exe[512] = "";
    assert_true(readlink("/proc/self/exe", exe, sizeof exe - 1) > 0);
    outermost();
    for (int round = 0; round < 3; round++) {
        struct answers answers = {0};
        uint64_t offset[LS_SYMBOLIZER_BATCH];
        for (int i = 0; i < LS_SYMBOLIZER_BATCH; i++)
            offset[i] = own_offset(called_from);
        assert_true(ls_symbolizer_ask(&symbolizer, exe, no_id, 0, offset, LS_SYMBOLIZER_BATCH));
        assert_int_equal(ls_symbolizer_poll(&symbolizer, 20000, note_answer, &answers),
                         LS_SYMBOLIZER_DONE);
        assert_int_equal(answers.count, LS_SYMBOLIZER_BATCH);
        assert_string_equal(answers.function, "innermost");
    }
    /* It dies: that is told, and another one can be asked. */
    struct answers answers = {0};
    kill(symbolizer.pid, SIGKILL);
    uint64_t offset = own_offset(called_from);
    if (ls_symbolizer_ask(&symbolizer, exe, no_id, 0, &offset, 1))
        assert_int_equal(ls_symbolizer_poll(&symbolizer, 20000, note_answer, &answers),
                         LS_SYMBOLIZER_FAILED);
    assert_true(ls_symbolizer_ask(&symbolizer, exe, no_id, 0, &offset, 1));
    assert_int_equal(ls_symbolizer_poll(&symbolizer, 20000, note_answer, &answers),
                     LS_SYMBOLIZER_DONE);
    ls_symbolizer_stop(&symbolizer);
}

/* A name that unfolds to gigabytes: each argument is a pair of the one before, 33 times over. */
static void test_harmful_name(void **state) {
    (void)state;
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    struct ls_symbolizer symbolizer = {0};
    char name[512] = "_Z1f1pI1a1aE", *p = name + strlen(name);
    for (int i = 1; i < 34; i++)
        p += sprintf(p, "S_IS%c_S%c_E", digits[i], digits[i]);
    for (int i = 0; i < 5; i++) {
        char *text = ls_symbolizer_demangle(&symbolizer, i == 1 ? "_Z4stepPfi" : name, 100);
        if (i == 1)
            assert_string_equal(text, "step(float*, int)");
        assert_true(strlen(text) < 8192); /* cut off, or as it was */
        free(text);
    }
    ls_symbolizer_stop(&symbolizer);
}

static void copy_scribbled(const char *to, unsigned seed) {
    FILE *in = fopen("/proc/self/exe", "rb"), *out = fopen(to, "wb");
    static uint8_t data[8 << 20];
    size_t size = fread(data, 1, sizeof data, in);
    fclose(in);
    for (int i = 0; i < 400; i++) {
        size_t at = (unsigned)rand_r(&seed) % size;
        data[i % 4 ? at : at % 1024] = (uint8_t)rand_r(&seed);
    }
    memcpy(data, "\177ELF\2\1\1", 7);
    if (seed % 3 == 0)
        size = (unsigned)rand_r(&seed) % size;
    assert_int_equal(fwrite(data, 1, size, out), size);
    fclose(out);
}

/* Whatever a file holds, the asker gets an answer or hears that there will be none. */
static void test_corrupt_files(void **state) {
    (void)state;
    char path[] = "/tmp/layoutspy-elf-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    outermost();
    for (unsigned round = 0; round < 40; round++) {
        struct ls_symbolizer symbolizer = {0};
        struct answers answers = {0};
        uint64_t offset[8];
        copy_scribbled(path, round);
        for (unsigned i = 0; i < 8; i++)
            offset[i] = own_offset(called_from) + 97 * i;
        assert_true(ls_symbolizer_ask(&symbolizer, path, no_id, 0, offset, 8));
        ls_symbolizer_poll(&symbolizer, 5000, note_answer, &answers);
        ls_symbolizer_stop(&symbolizer);
    }
    unlink(path);
}

/* From the spool to stack_frame and site: a stack through this program, the C library and nowhere;
 * a module of a later generation at the same place. */
static void test_stacks_in_the_trace(void **state) {
    (void)state;
    struct maker maker;
    char exe[512] = "";
    assert_true(readlink("/proc/self/exe", exe, sizeof exe - 1) > 0);
    outermost();
    uint64_t at = own_offset(called_from), base = 0x10000000;
    const uint64_t address[] = {0x99, base + at, base + at};
    maker_open(&maker, false);
    maker_text(&maker, 1, LS_REC_META, "exe", exe, NULL);
    maker_stack(&maker, 2, 1, 4, 3, address); /* its module comes later, in another stream */
    maker_stack(&maker, 2, 2, 6, 1, address + 1);
    maker_stack(&maker, 2, 3, 4, 1, address);
    maker_stack(&maker, 2, 4, 4, 0, address);
    maker_call_with(&maker, 2, cudaMalloc, 1, 2, 1, 0, 0, 0, 0x1000, 1);
    maker_module(&maker, 3, 4, base, base, base + 0x8000000, exe, NULL, 0);
    maker_module(&maker, 3, 6, base, base, base + 0x8000000, "/nonexistent/libother.so", NULL, 0);
    assert_int_equal(maker_collect(&maker), LS_EXIT_OK);
    const char *site = maker_ask(&maker, "SELECT site FROM all_allocation");
    assert_non_null(strstr(site, "tests/unit/test_symbolize.c:"));
    assert_non_null(strstr(site, " innermost"));
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(function) FROM (SELECT * FROM "
                                          "stack_frame WHERE stack_id=1 ORDER BY depth)"),
                        "??,innermost,outermost,innermost,outermost");
    assert_string_equal(maker_ask(&maker, "SELECT substr(site,1,14) FROM stack_site WHERE id=2"),
                        "libother.so+0x");
    assert_string_equal(maker_ask(&maker, "SELECT site FROM stack_site WHERE id=3"), "");
    assert_string_equal(maker_ask(&maker, "SELECT site FROM stack_site WHERE id=4"), "");
    maker_close(&maker);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_lines),
        cmocka_unit_test(test_a_library),
        cmocka_unit_test(test_another_file_by_now),
        cmocka_unit_test(test_demangle),
        cmocka_unit_test(test_worker),
        cmocka_unit_test(test_harmful_name),
        cmocka_unit_test(test_corrupt_files),
        cmocka_unit_test(test_stacks_in_the_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
