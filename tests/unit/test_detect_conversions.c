/*
 * test_detect_conversions.c - conversion-kernels, layout-mismatch, copy-dominated, kernel-choice.
 */
#include <string.h>

#include "made_layouts.h"

#define ALL "'conversion-kernels','layout-mismatch','copy-dominated','kernel-choice'"

enum { TO_NHWC = 1, TO_NCHW, CONV, COPY, REFORMAT, GROUPED, KERNELS };
enum { X = 1, W, Y, X_LAST, W_LAST, Y_LAST, SETTING, SETTING_GROUPS };

static void kernels(void) {
    static const char *const name[KERNELS] = {
        [TO_NHWC] = "_ZN5cudnn3ops16nchwToNhwcKernelIfEEvv",
        [TO_NCHW] = "_ZN5cudnn3ops16nhwcToNchwKernelIfEEvv",
        [CONV] = "sm80_xmma_fprop_implicit_gemm_bf16bf16_nhwckrsc_nhwc_tilesize128x128x32",
        [COPY] = "_ZN2at6native18elementwise_kernelINS0_23direct_copy_kernel_cudaEEEvi",
        [REFORMAT] = "_ZN15genericReformat16copyPackedKernelIffLb1ELb1EEEvv",
        [GROUPED] = "_ZN5cudnn3cnn28conv2d_grouped_direct_kernelIfEEvv"};
    for (uint32_t i = 1; i < KERNELS; i++)
        maker_kernel(&maker, 1, i, name[i]);
}

static void shapes(enum ls_dtype dtype) {
    for (int layout = NCHW; layout <= NHWC; layout++) {
        made_image(layout ? X_LAST : X, dtype, layout, 32, 64, 28, 28);
        made_image(layout ? W_LAST : W, dtype, layout, 128, 64, 3, 3);
        made_image(layout ? Y_LAST : Y, dtype, layout, 32, 128, 28, 28);
    }
    made_convolution(SETTING, 1);
    made_convolution(SETTING_GROUPS, 4);
    kernels();
    made_line(1, 7);
    made_line(2, 9);
}

#define CONVOLUTION(x, w, y, stack, kernels, ns)                                                   \
    made_call_of(LS_API_cudnnConvolutionForward, stack, 0x77,                                      \
                 MADE_OPERANDS(MADE_OPERAND(X, x, 0x10000), MADE_OPERAND(W, w, 0x20000),           \
                               MADE_OPERAND(CONVOLUTION, SETTING, 0),                              \
                               MADE_OPERAND(Y, y, 0x30000)),                                       \
                 kernels, ns)

/* All tensors channels first in 16 bits: the library converts for its kernel. */
static void test_tensors_choice(void **state) {
    (void)state;
    shapes(LS_DTYPE_BFLOAT16);
    for (int i = 0; i < 20; i++)
        CONVOLUTION(X, W, Y, 1, MADE_KERNELS(TO_NHWC, CONV, TO_NCHW), MADE_NS(20000, 50000, 30000));
    made_detect();
    assert_string_equal(made_found(ALL), "conversion-kernels problem train.py:7 f 40");
    assert_string_equal(made_evidence("conversion-kernels", "whose_choice"), "tensors");
    assert_string_equal(made_evidence("conversion-kernels", "under_call"),
                        "cudnnConvolutionForward");
    assert_string_equal(made_evidence("conversion-kernels", "gpu_share"), "0.5");
    assert_string_equal(made_evidence("conversion-kernels", "to_nhwc"), "20");
    assert_string_equal(made_evidence("conversion-kernels", "descriptors[0].calls"), "20");
    assert_int_equal(maker_number(&maker, "SELECT gain_ns FROM finding WHERE kind ="
                                          " 'conversion-kernels'"),
                     20 * 50000);
}

/* Channels last throughout, in float32: the library converts all the same, and that is the fault
 * of asking for channels last. */
static void test_float32_last(void **state) {
    (void)state;
    shapes(LS_DTYPE_FLOAT32);
    for (int i = 0; i < 20; i++)
        CONVOLUTION(X_LAST, W_LAST, Y_LAST, 1, MADE_KERNELS(TO_NCHW, CONV, TO_NHWC),
                    MADE_NS(20000, 50000, 30000));
    made_detect();
    assert_string_equal(made_found(ALL), "layout-mismatch problem train.py:7 f 20, "
                                         "conversion-kernels info train.py:7 f 40");
    assert_string_equal(made_evidence("layout-mismatch", "shape"), "float32");
    assert_string_equal(made_evidence("layout-mismatch", "conversions_inside_ns"), "1000000");
    assert_string_equal(made_evidence("layout-mismatch", "convolutions_ns"), "1000000");
    assert_string_equal(made_evidence("conversion-kernels", "whose_choice"), "library");
    assert_string_equal(made_evidence("conversion-kernels", "told_by"), "layout-mismatch");
}

/* The filter lies otherwise than the images. */
static void test_mixed(void **state) {
    (void)state;
    shapes(LS_DTYPE_FLOAT32);
    for (int i = 0; i < 40; i++)
        CONVOLUTION(X, W_LAST, Y, 2, MADE_KERNELS(TO_NCHW, CONV), MADE_NS(20000, 50000));
    made_detect();
    assert_string_equal(made_found(ALL), "layout-mismatch problem train.py:9 f 40, "
                                         "conversion-kernels info train.py:9 f 40");
    assert_string_equal(made_evidence("layout-mismatch", "shape"), "mixed");
    assert_string_equal(made_evidence("layout-mismatch", "layers[0].filter.layout"), "nhwc");
}

/* A framework's copy before each call, and one after it for an operator of another layout. */
static void test_copied(void **state) {
    (void)state;
    shapes(LS_DTYPE_BFLOAT16);
    for (int i = 0; i < 20; i++) {
        made_call_of(
            LS_API_cudaLaunchKernel, 1, COPY,
            MADE_OPERANDS(MADE_OPERAND(DST, X_LAST, 0x10000), MADE_OPERAND(SRC, X, 0x40000)),
            MADE_KERNELS(COPY), MADE_NS(40000));
        CONVOLUTION(X_LAST, W_LAST, Y_LAST, 1, MADE_KERNELS(CONV), MADE_NS(50000));
        made_call_of(
            LS_API_cudaLaunchKernel, 2, COPY,
            MADE_OPERANDS(MADE_OPERAND(DST, Y, 0x50000), MADE_OPERAND(SRC, Y_LAST, 0x30000)),
            MADE_KERNELS(COPY), MADE_NS(30000));
    }
    made_detect();
    assert_string_equal(made_found("'conversion-kernels','layout-mismatch'"),
                        "layout-mismatch problem train.py:7 f 20, "
                        "layout-mismatch problem train.py:9 f 20");
    assert_string_equal(made_evidence("layout-mismatch", "shape"), "copied");
    assert_string_equal(made_evidence("layout-mismatch", "copied.input"), "20");
    assert_string_equal(made_evidence("layout-mismatch", "copies_around_ns"), "800000");
    assert_string_equal(maker_ask(&maker, "SELECT json_extract(evidence,'$.shape') FROM finding"
                                          " WHERE kind='layout-mismatch' ORDER BY id DESC"),
                        "operator");
}

/* The same with images of another size in each step: each shape is copied once. */
static void test_copied_grows(void **state) {
    (void)state;
    shapes(LS_DTYPE_BFLOAT16);
    for (uint32_t i = 0; i < 40; i++) {
        made_image(30 + 3 * i, LS_DTYPE_BFLOAT16, NCHW, 32, 64, 28, 29 + i);
        made_image(31 + 3 * i, LS_DTYPE_BFLOAT16, NHWC, 32, 64, 28, 29 + i);
        made_image(32 + 3 * i, LS_DTYPE_BFLOAT16, NHWC, 32, 128, 28, 29 + i);
        made_call_of(LS_API_cudaLaunchKernel, 1, COPY,
                     MADE_OPERANDS(MADE_OPERAND(DST, 31 + 3 * i, 0x10000),
                                   MADE_OPERAND(SRC, 30 + 3 * i, 0x40000)),
                     MADE_KERNELS(COPY), MADE_NS(40000));
        CONVOLUTION(31 + 3 * i, W_LAST, 32 + 3 * i, 1, MADE_KERNELS(CONV), MADE_NS(50000));
    }
    made_detect();
    assert_string_equal(made_found("'layout-mismatch'"), "layout-mismatch problem train.py:7 f 40");
    assert_string_equal(made_evidence("layout-mismatch", "copied.input"), "40");
}

/* What PyTorch's kernels are told of the same: dimensions joined, strides in bytes, no type. */
static void joined(uint32_t number, int layout, int64_t c) {
    const int64_t n = 32, pixels = 28 * 28;
    const int64_t first[] = {n, c, pixels, c * pixels * 2, pixels * 2, 2};
    const int64_t last[] = {n, c, pixels, c * pixels * 2, 2, c * 2};
    maker_shape(&maker, 1,
                &(struct ls_rec_shape){.id = number,
                                       .kind = LS_SHAPE_TENSOR,
                                       .dims = 3,
                                       .dtype = LS_DTYPE_UNKNOWN,
                                       .flags = LS_SHAPE_BYTES},
                6, layout == NHWC ? last : first);
}

static void copy_by(uint32_t stack, uint32_t to, uint64_t dst, uint32_t from, uint64_t src) {
    made_call_of(LS_API_cudaLaunchKernel, stack, COPY,
                 MADE_OPERANDS(MADE_OPERAND(DST, to, dst), MADE_OPERAND(SRC, from, src)),
                 MADE_KERNELS(COPY), MADE_NS(40000));
}

/* The reader proves that a batch of matrices was images, or the writer does; without either they
 * stay what they are. */
static void test_joined_copies_are_of_images(void **state) {
    enum { X_JOINED = 20, X_LAST_JOINED, Y_JOINED, Y_LAST_JOINED };
    (void)state;
    shapes(LS_DTYPE_BFLOAT16);
    made_line(3, 11);
    joined(X_JOINED, NCHW, 64);
    joined(X_LAST_JOINED, NHWC, 64);
    joined(Y_JOINED, NCHW, 128);
    joined(Y_LAST_JOINED, NHWC, 128);
    for (int i = 0; i < 20; i++) {
        copy_by(1, X_LAST_JOINED, 0x10000, X_JOINED, 0x40000);
        CONVOLUTION(X_LAST, W_LAST, Y_LAST, 1, MADE_KERNELS(CONV), MADE_NS(50000));
        copy_by(2, Y_JOINED, 0x50000, Y_LAST_JOINED, 0x30000);
        copy_by(3, X_JOINED, 0x60000, X_LAST_JOINED, 0x70000);
    }
    made_detect();
    assert_string_equal(
        maker_ask(&maker, "SELECT group_concat(site || CASE WHEN from_layout IN ('nchw', 'nhwc')"
                          " THEN ' ' || from_layout || ' ' || to_layout ELSE '' END, ', ')"
                          " FROM (SELECT * FROM layout_conversion ORDER BY length(site), site)"),
        "/home/me/train.py:7 f nchw nhwc, /home/me/train.py:9 f nhwc nchw, /home/me/train.py:11 f");
    assert_string_equal(maker_ask(&maker, "SELECT COUNT(*) FROM image_copy"), "40");
}

/* A kernel whose name holds "nhwc" is no conversion; one-off conversions are only noted. */
static void test_nothing(void **state) {
    (void)state;
    shapes(LS_DTYPE_BFLOAT16);
    CONVOLUTION(X, W, Y, 2, MADE_KERNELS(TO_NHWC, CONV), MADE_NS(200, 50000));
    for (int i = 0; i < 50; i++)
        CONVOLUTION(X_LAST, W_LAST, Y_LAST, 1, MADE_KERNELS(CONV), MADE_NS(50000));
    made_detect();
    assert_string_equal(made_found(ALL), "conversion-kernels info train.py:9 f 1");
}

/* An engine without a library call: kernels' names alone. */
static void copies(int count, int others) {
    kernels();
    made_line(1, 7);
    for (int i = 0; i < count; i++)
        made_call_of(LS_API_cudaLaunchKernel, 1, REFORMAT,
                     MADE_OPERANDS(MADE_OPERAND(ARGUMENT, 0, 0x1000)), MADE_KERNELS(REFORMAT),
                     MADE_NS(3500));
    for (int i = 0; i < others; i++)
        made_call_of(LS_API_cudaLaunchKernel, 1, CONV,
                     MADE_OPERANDS(MADE_OPERAND(ARGUMENT, 0, 0x1000)), MADE_KERNELS(CONV),
                     MADE_NS(3500));
    made_detect();
}

static void test_copy_dominated(void **state) {
    (void)state;
    copies(300, 3);
    assert_string_equal(made_found(ALL), "copy-dominated problem train.py:7 f 300");
    assert_string_equal(made_evidence("copy-dominated", "mean_ns"), "3500");
    assert_string_equal(made_evidence("copy-dominated", "launch_bound"), "1");
    assert_string_equal(made_evidence("copy-dominated", "copies[0].kernel"), "copyPackedKernel");
    assert_int_equal(maker_number(&maker, "SELECT gain_ns FROM finding"), 300 * 3500);
}

/* A third of the time: no copy-dominated, but they are conversions all the same. */
static void test_not_dominated(void **state) {
    (void)state;
    copies(300, 600);
    assert_string_equal(made_found(ALL), "conversion-kernels problem train.py:7 f 300");
    assert_string_equal(made_evidence("conversion-kernels", "whose_choice"), "no call");
}

/* One size of a layer is far slower than the next, by a kernel for groups. */
static void test_kernel_choice(void **state) {
    (void)state;
    shapes(LS_DTYPE_BFLOAT16);
    made_image(20, LS_DTYPE_BFLOAT16, NHWC, 64, 128, 513, 513);
    made_image(21, LS_DTYPE_BFLOAT16, NHWC, 63, 128, 513, 513);
    made_image(22, LS_DTYPE_BFLOAT16, NHWC, 128, 128, 3, 3);
    made_image(23, LS_DTYPE_BFLOAT16, NHWC, 64, 128, 257, 257);
    made_image(24, LS_DTYPE_BFLOAT16, NHWC, 63, 128, 257, 257);
    for (int i = 0; i < 4; i++) {
        CONVOLUTION(20, 22, 23, 1, MADE_KERNELS(GROUPED), MADE_NS(1193000000));
        CONVOLUTION(21, 22, 24, 2, MADE_KERNELS(CONV), MADE_NS(19000000));
    }
    made_detect();
    assert_string_equal(made_found(ALL), "kernel-choice problem train.py:7 f 4");
    assert_string_equal(made_evidence("kernel-choice", "kernel_for_groups"), "1");
    assert_string_equal(made_evidence("kernel-choice", "crosses_2_31"), "1");
    assert_int_equal(maker_number(&maker, "SELECT CAST(json_extract(evidence,'$.times_slower') AS"
                                          " INTEGER) FROM finding WHERE kind='kernel-choice'"),
                     61);
    assert_non_null(
        strstr(maker_ask(&maker, "SELECT advice FROM finding WHERE kind='kernel-choice'"),
               "split the batch"));
}

/* Images of another size in each step, on one line, by two of its stacks: a finding for each
 * reason.
 */
static void test_kernel_choice_grows(void **state) {
    (void)state;
    shapes(LS_DTYPE_BFLOAT16);
    made_line(3, 7);
    for (uint32_t i = 0; i < 2000; i++) { /* 29 to 2028 wide */
        made_image(30 + 2 * i, LS_DTYPE_BFLOAT16, NCHW, 32, 64, 28, 29 + i);
        made_image(31 + 2 * i, LS_DTYPE_BFLOAT16, NCHW, 32, 128, 28, 29 + i);
        for (uint32_t k = 0; k < 2; k++)
            CONVOLUTION(30 + 2 * i, W, 31 + 2 * i, k ? 3 : 1, MADE_KERNELS(GROUPED),
                        MADE_NS(20000 + i));
    }
    /* Those wider than an eighth of this are near it, and up to 266 an eighth as fast. */
    made_image(10000, LS_DTYPE_BFLOAT16, NHWC, 32, 64, 28, 2000);
    made_image(10001, LS_DTYPE_BFLOAT16, NHWC, 32, 128, 28, 2000);
    CONVOLUTION(10000, W_LAST, 10001, 2, MADE_KERNELS(CONV), MADE_NS(19000));
    made_detect();
    assert_string_equal(
        maker_ask(
            &maker,
            "SELECT group_concat(t, '; ') FROM (SELECT severity||' '||count||' '||time_ns||' '"
            "||(gain_ns>0)||' '||json_extract(evidence,'$.shapes')||' '||"
            "json_extract(evidence,'$.layer.input.dims[3]') AS t FROM finding"
            " WHERE kind='kernel-choice' ORDER BY count)"),
        "info 32 647344 1 16 251; warning 3968 83350656 0 1984 2028");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, made_setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_tensors_choice),
        TEST(test_float32_last),
        TEST(test_mixed),
        TEST(test_copied),
        TEST(test_copied_grows),
        TEST(test_joined_copies_are_of_images),
        TEST(test_nothing),
        TEST(test_copy_dominated),
        TEST(test_not_dominated),
        TEST(test_kernel_choice),
        TEST(test_kernel_choice_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
