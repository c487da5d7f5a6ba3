/*
 * test_site.c - which frame is the user's, and how it is written.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "site.h"

#define FRAME(path, function_name)                                                                 \
    { .module = path, .function = function_name }
#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static void test_innermost_of_the_user(void **state) {
    (void)state;
    const struct ls_site_frame frames[] = {
        FRAME("/x/liblayoutspy.so", "cudaMalloc"),
        FRAME("/home/me/lib/libmine.so", "grab"),
        {.module = "/home/me/app", .main_program = true, .function = "main"},
        FRAME("/lib/x86_64-linux-gnu/libc.so.6", "__libc_start_call_main"),
    };
    assert_int_equal(ls_site_choose(frames, COUNT(frames)), 1);
}

static void test_framework_is_passed(void **state) {
    (void)state;
    const struct ls_site_frame frames[] = {
        FRAME("/v/site-packages/torch/lib/libc10_cuda.so", "c10::cuda::alloc"),
        FRAME("/v/site-packages/torch/lib/libtorch_cuda.so", "at::empty"),
        FRAME("/v/site-packages/torch/lib/libtorch_python.so", "THPVariable_cuda"),
        FRAME("/usr/bin/python3.11", "_PyEval_EvalFrameDefault"),
    };
    assert_int_equal(ls_site_choose(frames, COUNT(frames)), 2);
    assert_int_equal(ls_site_choose(frames, 2), 0);
    const struct ls_site_frame extension[] = {
        frames[0],
        FRAME("/v/site-packages/mine/_kernels.cpython-311-x86_64-linux-gnu.so", "mine::forward"),
        frames[2],
    };
    assert_int_equal(ls_site_choose(extension, 3), 1);
}

static void test_nobody(void **state) {
    (void)state;
    const struct ls_site_frame frames[] = {
        FRAME("/lib64/ld-linux-x86-64.so.2", "_dl_init"),
        FRAME(NULL, NULL),
        {.module = "/home/me/app", .main_program = true, .function = "_start"},
    };
    assert_int_equal(ls_site_choose(frames, COUNT(frames)), -1);
    assert_int_equal(ls_site_choose(frames, 0), -1);
}

static void test_runtime_inside_the_program(void **state) {
    (void)state;
    const struct ls_site_frame frames[] = {
        {.module = "/a/app", .main_program = true, .function = "cudaMalloc"},
        {.module = "/a/app",
         .main_program = true,
         .function = "cudaError cudaMalloc<float>(float**, unsigned long)"},
        {.module = "/a/app",
         .main_program = true,
         .function = "f",
         .file = "/opt/cuda/include/cuda_runtime.h"},
        {.module = "/usr/bin/app", .main_program = true, .function = "train"},
    };
    assert_int_equal(ls_site_choose(frames, COUNT(frames)), 3);
}

static void test_text(void **state) {
    (void)state;
    char text[64];
    struct ls_site_frame frame = {.module = "/a/libx.so",
                                  .offset = 0x1234,
                                  .function = "leak",
                                  .function_offset = 0x20,
                                  .file = "/a/a.c",
                                  .line = 4};
    ls_site_text(&frame, text, sizeof text);
    assert_string_equal(text, "/a/a.c:4 leak");
    frame.line = 0;
    ls_site_text(&frame, text, sizeof text);
    assert_string_equal(text, "libx.so!leak+0x20");
    frame.function = NULL;
    ls_site_text(&frame, text, sizeof text);
    assert_string_equal(text, "libx.so+0x1234");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_innermost_of_the_user),
        cmocka_unit_test(test_framework_is_passed),
        cmocka_unit_test(test_nobody),
        cmocka_unit_test(test_runtime_inside_the_program),
        cmocka_unit_test(test_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
