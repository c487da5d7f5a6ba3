/*
 * test_target.c - what the library keeps track of in the target: known addresses, captures,
 * roles of fields.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "preload/kernels.h"
#include "preload/known.h"
#include "preload/on_call.h"
#include "preload/state.h"

#define MIB (1ull << 20)
#define BASE 0x7f0000000000ull /* on a 2 MiB border */

static void test_known_covers_the_range_and_no_more(void **state) {
    (void)state;
    ls_known_mark(BASE + 2 * MIB, 4 * MIB);
    assert_false(ls_known(BASE + 2 * MIB - 1));
    assert_true(ls_known(BASE + 2 * MIB));
    assert_true(ls_known(BASE + 6 * MIB - 1));
    assert_false(ls_known(BASE + 6 * MIB));
}

static void test_known_takes_small_and_unaligned_ranges(void **state) {
    (void)state;
    uint64_t border = BASE + 64 * MIB;
    ls_known_mark(border - 8, 16);
    assert_true(ls_known(border - 2 * MIB));
    assert_true(ls_known(border));
    assert_false(ls_known(border + 2 * MIB));
    assert_false(ls_known(border - 2 * MIB - 1));
}

static void test_known_marks_across_words(void **state) {
    (void)state;
    uint64_t start = BASE + (1ull << 36);
    ls_known_mark(start, 1000 * MIB); /* 500 bits: eight words and more */
    for (uint64_t at = 0; at < 1000; at += 2)
        assert_true(ls_known(start + at * MIB));
    assert_false(ls_known(start + 1000 * MIB));
}

static void test_known_ignores_what_cannot_be(void **state) {
    (void)state;
    ls_known_mark(0, 4096);
    ls_known_mark(1ull << 48, 4096);
    ls_known_mark(BASE + (1ull << 37), 0);
    ls_known_mark(BASE + (1ull << 37), 1ull << 45);
    assert_false(ls_known(0));
    assert_false(ls_known(1ull << 48));
    assert_false(ls_known(BASE + (1ull << 37)));
}

static void test_asked_is_apart_from_known(void **state) {
    (void)state;
    uint64_t at = BASE + (1ull << 38);
    ls_asked_mark(at + 5);
    assert_true(ls_asked(at));
    assert_true(ls_asked(at + 2 * MIB - 1));
    assert_false(ls_asked(at + 2 * MIB));
    assert_false(ls_known(at));
}

/* ---- captures ---- */

static struct ls_thread first = {.tid = 11}, second = {.tid = 12, .device = 1};
#define BEGIN LS_CLASS_CAPTURE_BEGIN
#define END LS_CLASS_CAPTURE_END
#define PTSZ(name) LS_API_##name##_ptsz

static void begin(struct ls_thread *self, uint64_t stream, int status) {
    uint64_t field[] = {stream, 0};
    ls_before_capture(self);
    assert_true(ls_capturing > 0); /* from before the call on */
    ls_on_capture(self, LS_API_cudaStreamBeginCapture, BEGIN, status, field);
}

static void end(struct ls_thread *self, uint64_t stream, int status) {
    uint64_t field[] = {stream, 0};
    ls_on_capture(self, LS_API_cudaStreamEndCapture, END, status, field);
}

static int no_captures(void **state) {
    (void)state;
    ls_roles_init();
    ls_capture_forget();
    return ls_capturing != 0;
}

static void test_captures(void **state) {
    (void)state;
    begin(&first, 0x1000, 0);
    begin(&first, 0x2000, 0);
    assert_int_equal(ls_capturing, 2);
    assert_true(ls_capture_awaited());
    begin(&second, 0x3000, 400); /* refused: nothing began */
    begin(&second, 0x1000, 401); /* it captures already, and goes on */
    assert_int_equal(ls_capturing, 2);
    end(&first, 0x1000, 903); /* another thread's capture goes on */
    end(&first, 0x1000, 401);
    end(&first, 0x3000, 0); /* of none that is known */
    assert_int_equal(ls_capturing, 2);
    end(&second, 0x1000, 901); /* broken, and over */
    end(&first, 0x2000, 0);
    end(&first, 0x2000, 0);
    assert_int_equal(ls_capturing, 0);
    assert_false(ls_capture_awaited());
}

static void test_captures_that_end_otherwise(void **state) {
    (void)state;
    uint64_t field[] = {0x1000};
    begin(&first, 0x1000, 0);
    begin(&second, 0x2000, 0);
    ls_on_stream_end(&second, LS_API_cudaStreamDestroy, 400, field);
    assert_int_equal(ls_capturing, 2);
    ls_on_stream_end(&second, LS_API_cudaStreamDestroy, 0, field); /* by any thread */
    assert_int_equal(ls_capturing, 1);
    ls_on_device(&first, LS_API_cudaDeviceReset, 0, NULL); /* another device's */
    ls_on_device(&second, LS_API_cudaDeviceReset, 700, NULL);
    assert_int_equal(ls_capturing, 1);
    ls_on_device(&second, LS_API_cudaDeviceReset, 0, NULL);
    assert_int_equal(ls_capturing, 0);
    begin(&second, 0x2000, 0);
    field[0] = 1;
    ls_on_device(&first, LS_API_cuDevicePrimaryCtxReset_v2, 0, field);
    assert_int_equal(ls_capturing, 0);
    begin(&first, 0x1000, 0); /* its end is not seen, but its stream's next capture */
    begin(&first, 0x1000, 0);
    assert_int_equal(ls_capturing, 1);
    end(&first, 0x1000, 0);
    assert_int_equal(ls_capturing, 0);
}

/* Of a thread's own default stream, whatever it is called: each thread has another one. */
static void test_captures_of_own_streams(void **state) {
    (void)state;
    uint64_t field[] = {0, 0};
    begin(&first, 2, 0);
    ls_before_capture(&second);
    ls_on_capture(&second, PTSZ(cudaStreamBeginCapture), BEGIN, 0, field);
    assert_int_equal(ls_capturing, 2);
    ls_on_capture(&first, PTSZ(cuStreamEndCapture), END, 0, field);
    assert_int_equal(ls_capturing, 1);
    end(&second, 2, 0);
    assert_int_equal(ls_capturing, 0);
    begin(&first, 2, 0);
    begin(&first, 0x1000, 0);
    begin(&second, 2, 0);
    ls_before_capture(&first); /* an exception left that call */
    assert_int_equal(ls_capturing, 4);
    ls_capture_thread_gone(first.tid); /* other streams outlive their threads */
    assert_int_equal(ls_capturing, 2);
    end(&second, 0x1000, 0);
    end(&second, 2, 0);
    assert_int_equal(ls_capturing, 0);
}

static void test_more_captures_than_places(void **state) {
    (void)state;
    for (uint64_t stream = 1; stream <= 200; stream++)
        begin(&first, stream << 12, 0);
    assert_int_equal(ls_capturing, 64);
    for (uint64_t stream = 1; stream <= 200; stream++)
        end(&first, stream << 12, 0);
    assert_int_equal(ls_capturing, 0);
}

/* ---- names of the driver's functions ---- */

static size_t mapped(void) {
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%zu", &pages), 1);
    fclose(file);
    return pages * 4096;
}

/* Ever new handles under the same names, as a module has that is loaded again and again: kept once.
 */
static void test_a_name_is_kept_once(void **state) {
    (void)state;
    static char name[4000];
    memset(name, 'n', sizeof name - 1);
    ls_kernel_name((void *)0x10, name);
    size_t before = mapped();
    for (uintptr_t handle = 2; handle < 20000; handle++)
        ls_kernel_name((void *)(handle << 4), name);
    assert_true(mapped() - before < 16 * MIB);
}

/* Ever new names, too: an end, and launches without a name are counted. */
static void test_names_without_end(void **state) {
    (void)state;
    static struct ls_spool_header header;
    static char name[4000];
    size_t before = mapped();
    memset(name, 'n', sizeof name - 1);
    for (uintptr_t handle = 30000; handle < 50000; handle++) {
        name[snprintf(name, sizeof name, "%lu", (unsigned long)handle)] = 'n';
        ls_kernel_name((void *)(handle << 4), name);
    }
    assert_true(mapped() - before < 48 * MIB);
    ls_session.header = &header;
    ls_self = &first;
    assert_int_equal(ls_kernel((void *)(49999ul << 4)), 0);
    assert_int_equal(header.lost[LS_LOST_KERNELS], 1);
    ls_self = NULL;
}

static void test_device_follows_successful_calls(void **state) {
    (void)state;
    struct ls_thread thread = {.device = 1};
    uint64_t field[] = {3};
    ls_roles_init();
    ls_on_device(&thread, LS_API_cudaSetDevice, 101, field);
    assert_int_equal(thread.device, 1);
    ls_on_device(&thread, LS_API_cudaInitDevice, 0, field);
    assert_int_equal(thread.device, 1);
    ls_on_device(&thread, LS_API_cudaSetDevice, 0, field);
    assert_int_equal(thread.device, 3);
}

static void test_a_grid_is_cut_to_its_place(void **state) {
    (void)state;
    assert_true(LS_DIM3(INT32_MAX, 65535, 65535) == 0xffffffff7fffffff);
    assert_true(LS_DIM3(1, 0x12345, 2) == 0x0002234500000001); /* such a launch is refused */
    assert_true(LS_DIM3(1, 3, 0x12345) == 0x2345000300000001);
}

/* Each class that the target tracks must find the fields it needs in each of its rows. */
static void test_rows_have_the_fields_of_their_class(void **state) {
    (void)state;
    ls_roles_init();
    for (int i = 1; i < LS_API_COUNT; i++) {
        const struct ls_roles *role = &ls_roles[i];
        switch (ls_api_info[i].cls) {
        case LS_CLASS_DEVICE_ALLOC:
        case LS_CLASS_ASYNC_ALLOC:
        case LS_CLASS_MANAGED_ALLOC:
        case LS_CLASS_PINNED_ALLOC:
        case LS_CLASS_REGISTER:
            assert_true(role->ptr >= 0 && role->size >= 0);
            break;
        case LS_CLASS_FREE:
        case LS_CLASS_UNREGISTER:
            assert_true(role->ptr >= 0);
            break;
        case LS_CLASS_COPY: {
            enum ls_api api = (enum ls_api)i;
            assert_true(role->dst >= 0 || ls_field_index(api, "dst_array") >= 0 ||
                        ls_field_index(api, "symbol") >= 0);
            assert_true(role->src >= 0 || ls_field_index(api, "src_array") >= 0 ||
                        ls_field_index(api, "symbol") >= 0);
            assert_true(ls_field_index(api, "bytes") >= 0 || ls_field_index(api, "width") >= 0);
            break;
        }
        default:
            break;
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_covers_the_range_and_no_more),
        cmocka_unit_test(test_known_takes_small_and_unaligned_ranges),
        cmocka_unit_test(test_known_marks_across_words),
        cmocka_unit_test(test_known_ignores_what_cannot_be),
        cmocka_unit_test(test_asked_is_apart_from_known),
        cmocka_unit_test_setup(test_captures, no_captures),
        cmocka_unit_test_setup(test_captures_that_end_otherwise, no_captures),
        cmocka_unit_test_setup(test_captures_of_own_streams, no_captures),
        cmocka_unit_test_setup(test_more_captures_than_places, no_captures),
        cmocka_unit_test(test_a_name_is_kept_once),
        cmocka_unit_test(test_names_without_end),
        cmocka_unit_test(test_device_follows_successful_calls),
        cmocka_unit_test(test_a_grid_is_cut_to_its_place),
        cmocka_unit_test(test_rows_have_the_fields_of_their_class),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
