/*
 * test_site.c - which frame is the user's, and how it is written.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

/* A static runtime has functions inside, under names that no rule can know. */
static void test_inside_of_an_entry(void **state) {
    (void)state;
    const struct ls_site_frame frames[] = {
        FRAME("/usr/lib/libcupti.so.13", "tell"),
        {.module = "/home/me/app", .main_program = true, .function = "tool_callback"},
        {.module = "/home/me/app", .main_program = true, .function = "cuMemAlloc_v2"},
        {.module = "/home/me/app", .main_program = true, .function = "inner_alloc"},
        {.module = "/home/me/app", .main_program = true, .function = "cudaMalloc"},
        {.module = "/home/me/app", .main_program = true, .function = "grab"},
        {.module = "/home/me/app", .main_program = true, .function = "main"},
    };
    assert_int_equal(ls_site_choose(frames, COUNT(frames)), 5);
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
    struct ls_site_frame python = {
        .python = true, .function = "<lambda>", .file = "a.py", .line = 6};
    ls_site_text(&python, text, sizeof text);
    assert_string_equal(text, "a.py:6 <lambda>");
    python.line = 0;
    ls_site_text(&python, text, sizeof text);
    assert_string_equal(text, "a.py:0 <lambda>");
}

#define PYTHON(path, function_name)                                                                \
    { .python = true, .function = function_name, .file = path, .line = 1 }
#define TORCH "/v/lib/python3.11/site-packages/torch/"

static const struct ls_site_frame inside[] = {
    FRAME(TORCH "lib/libc10_cuda.so", "c10::cuda::alloc"),
    FRAME(TORCH "lib/libtorch_python.so", "THPVariable_to"),
    FRAME("/usr/bin/python3.11", "_PyEval_EvalFrameDefault"),
};

/* Which of `count` Python frames is chosen, with PyTorch's native frames inside of them. */
static int choose_python(const struct ls_site_frame *python, int count) {
    struct ls_site_frame frames[32];
    memcpy(frames, inside, sizeof inside);
    memcpy(frames + COUNT(inside), python, (size_t)count * sizeof *python);
    return ls_site_choose(frames, COUNT(inside) + count) - COUNT(inside);
}

static void test_python_own_file(void **state) {
    (void)state;
    const struct ls_site_frame frames[] = {
        PYTHON(TORCH "nn/modules/linear.py", "forward"),
        PYTHON("/v/lib/python3.11/site-packages/vllm/worker.py", "run"),
        PYTHON("<string>", "f"),
        PYTHON("model.py", "forward"), /* as given on the command line */
        PYTHON("/home/me/train.py", "step"),
        PYTHON("<frozen runpy>", "_run_code"),
    };
    assert_int_equal(choose_python(frames, COUNT(frames)), 3);
    assert_int_equal(choose_python(frames, 3), 2);
    assert_int_equal(choose_python(frames, 2), 1);
    assert_int_equal(choose_python(frames, 1), 0);
    assert_int_equal(choose_python(frames, 0), -2); /* libtorch_python, as without Python */
}

static void test_python_package(void **state) {
    (void)state;
    const struct ls_site_frame frames[] = {
        PYTHON(TORCH "nn/functional.py", "linear"),
        PYTHON("/v/lib/python3.11/site-packages/accelerate/hooks.py", "new_forward"),
        PYTHON("/v/lib/python3.11/site-packages/transformers/trainer.py", "training_step"),
        PYTHON("/usr/lib/python3/dist-packages/mine/loop.py", "train"),
        PYTHON("/v/lib/python3.11/site-packages/vllm/entry.py", "main"),
        PYTHON("/v/bin/vllm", "<module>"),
    };
    assert_int_equal(choose_python(frames, COUNT(frames)), 3);
    assert_int_equal(choose_python(frames, 3), 1);
    const struct ls_site_frame script[] = {frames[0], frames[5]};
    assert_int_equal(choose_python(script, 2), 1);
    const struct ls_site_frame function[] = {frames[4], PYTHON("/home/me/bin/train", "step")};
    assert_int_equal(choose_python(function, 2), 1);
    const struct ls_site_frame model[] = {
        PYTHON("/v/lib/python3.11/site-packages/transformers/models/bert/modeling_bert.py", "f"),
        PYTHON("/v/lib/python3.11/site-packages/transformers/trainer.py", "train"),
    };
    assert_int_equal(choose_python(model, 2), 0);
}

static void test_python_standard_library(void **state) {
    (void)state;
    static const char *const library[] = {
        "/usr/lib/python3.11/threading.py",  "/opt/conda/lib/python3.9/contextlib.py",
        "/x/lib64/python3.13/runpy.py",      "/x/lib/python313.zip/runpy.py",
        "<frozen importlib._bootstrap>",     "<eval_with_key>.3",
        "/tmp/torchinductor_me/ab/cab.py",   TORCH "_tensor.py",
        "/home/me/pytorch/torch/_tensor.py", "/opt/packages/torch/nn/modules/module.py",
    };
    for (int i = 0; i < COUNT(library); i++) {
        const struct ls_site_frame frames[] = {PYTHON(library[i], "f"), PYTHON("<string>", "g")};
        assert_int_equal(ls_site_level(&frames[0]), LS_SITE_PLUMBING);
        assert_int_equal(choose_python(frames, 2), 1);
    }
}

static void test_python_without_a_file(void **state) {
    (void)state;
    static const char *const own[] = {
        "<ipython-input-3-0a1b>",
        "/tmp/ipykernel_12/34.py",
        "<stdin>",
        "<python-input-0>",
        "<doctest m[0]>",
        "/home/me/lib/a.py",
        "/home/me/torch/train.py",
        "/home/me/torch/utils/data.py",
    };
    for (int i = 0; i < COUNT(own); i++) {
        const struct ls_site_frame frame = PYTHON(own[i], "<module>");
        assert_int_equal(ls_site_level(&frame), LS_SITE_USER);
    }
    /* python -c, and a worker that multiprocessing starts the same way. */
    const struct ls_site_frame command[] = {PYTHON(TORCH "_tensor.py", "f"),
                                            PYTHON("<string>", "<module>")};
    assert_int_equal(choose_python(command, 2), 1);
    const struct ls_site_frame worker[] = {
        PYTHON(TORCH "_tensor.py", "f"),
        PYTHON("/usr/lib/python3.11/multiprocessing/process.py", "run"),
        PYTHON("/usr/lib/python3.11/multiprocessing/spawn.py", "spawn_main"),
        PYTHON("<string>", "<module>"),
    };
    assert_int_equal(choose_python(worker, COUNT(worker)), 0);
    const struct ls_site_frame unknown[] = {PYTHON(NULL, NULL), PYTHON("a.py", "f")};
    assert_int_equal(choose_python(unknown, 2), 1);
    assert_int_equal(choose_python(unknown, 1), -2);
}

/* A native frame of the user's inside of Python's is nearer; of a package's, it is not. */
static void test_native_inside_python(void **state) {
    (void)state;
    struct ls_site_frame frames[] = {
        FRAME("/home/me/libplugin.so", "plugin_run"),
        FRAME("/x/lib/python3.11/lib-dynload/_ctypes.cpython-311-x86_64-linux-gnu.so", "call"),
        FRAME("/usr/bin/python3.11", "_PyEval_EvalFrameDefault"),
        PYTHON("/usr/lib/python3.11/ctypes/__init__.py", "f"),
        PYTHON("/home/me/train.py", "step"),
    };
    assert_int_equal(ls_site_choose(frames, COUNT(frames)), 0);
    frames[0].module = "/v/lib/python3.11/site-packages/mine/_ext.abi3.so";
    assert_int_equal(ls_site_choose(frames, COUNT(frames)), 4);
    assert_int_equal(ls_site_choose(frames, 4), 0);
    frames[0].module = "/v/lib/python3.11/site-packages/numpy/core/_umath.so";
    assert_int_equal(ls_site_choose(frames, 4), 3);
    frames[0].module = "/x/lib/python3.11/lib-dynload/array.so";
    assert_int_equal(ls_site_choose(frames, 4), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_innermost_of_the_user),
        cmocka_unit_test(test_framework_is_passed),
        cmocka_unit_test(test_nobody),
        cmocka_unit_test(test_runtime_inside_the_program),
        cmocka_unit_test(test_inside_of_an_entry),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_python_own_file),
        cmocka_unit_test(test_python_package),
        cmocka_unit_test(test_python_standard_library),
        cmocka_unit_test(test_python_without_a_file),
        cmocka_unit_test(test_native_inside_python),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
