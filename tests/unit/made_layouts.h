/*
 * made_layouts.h - spools of layouts, for the tests of the detectors that look at them: images,
 * convolutions, products, the kernels that ran, on lines of a program "train.py".
 *
 * Calls are a microsecond long, one every LINE_NS; a kernel is numbered by its call.
 */
#ifndef LAYOUTSPY_MADE_LAYOUTS_H
#define LAYOUTSPY_MADE_LAYOUTS_H

#include <stdio.h>

#include "detect/detect.h"
#include "spool_fixture.h"

enum { NCHW, NHWC };

static uint64_t made_now;    /* ns since the start */
static uint32_t made_number; /* CUPTI's, of the last call */

/* A stack on a line of train.py, whose innermost function is f. */
__attribute__((unused)) static void made_line(uint32_t stack, uint32_t line) {
    maker_code(&maker, 1, stack, "f", "/home/me/train.py");
    maker_python(&maker, 1, stack, 1, (const struct ls_python_frame[]){{stack, line}});
    maker_mixed_stack(&maker, 1, stack, 1, 0, (const uint64_t[]){0}, stack, 0);
}

__attribute__((unused)) static void made_image(uint32_t number, enum ls_dtype dtype, int layout,
                                               int64_t n, int64_t c, int64_t h, int64_t w) {
    const int64_t first[] = {n, c, h, w, c * h * w, h * w, w, 1};
    const int64_t last[] = {n, c, h, w, c * h * w, 1, c * w, c};
    maker_shape(
        &maker, 1,
        &(struct ls_rec_shape){.id = number, .kind = LS_SHAPE_TENSOR, .dims = 4, .dtype = dtype}, 8,
        layout == NHWC ? last : first);
}

__attribute__((unused)) static void made_convolution(uint32_t number, int64_t groups) {
    maker_shape(&maker, 1,
                &(struct ls_rec_shape){.id = number, .kind = LS_SHAPE_CONVOLUTION, .dims = 2}, 11,
                (const int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, groups, 1, 0});
}

/* A call of the library or a launch with operands, in it runs of kernels of `ns` each. */
__attribute__((unused)) static void made_call_of(enum ls_api api, uint32_t stack, uint64_t f0,
                                                 unsigned count, const struct ls_operand *operand,
                                                 unsigned kernels, const uint32_t *kernel,
                                                 const uint64_t *ns) {
    uint64_t start = made_now;
    bool launch = api == LS_API_cudaLaunchKernel;
    for (unsigned i = 0; i < kernels && !launch; i++)
        maker_call_numbered(&maker, 1, cudaLaunchKernel, start + 10 + i, start + 11 + i,
                            LS_CALL_NESTED, 0, made_number + 1 + i, kernel[i], 2, 5, 6, 0);
    maker_operands(&maker, 1, api, start, start + 1000, 0, stack, launch ? made_number + 1 : 0,
                   (const uint64_t[LS_FIELD_MAX]){f0}, count, operand);
    made_now += 1000;
    for (unsigned i = 0; i < kernels; i++) {
        maker_gpu(&maker, 4, LS_GPU_KERNEL, 0, 0,
                  (struct ls_rec_gpu){.start = MADE_GPU + made_now,
                                      .end = MADE_GPU + made_now + ns[i],
                                      .correlation = ++made_number,
                                      .context = 1,
                                      .stream = 7,
                                      .value = {kernel[i], 0, 0, 0}});
        made_now += ns[i];
    }
}

#define MADE_KERNELS(...)                                                                          \
    sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), (const uint32_t[]) {               \
        __VA_ARGS__                                                                                \
    }
#define MADE_NS(...)                                                                               \
    (const uint64_t[]) {                                                                           \
        __VA_ARGS__                                                                                \
    }
#define MADE_OPERANDS(...)                                                                         \
    sizeof((const struct ls_operand[]){__VA_ARGS__}) / sizeof(struct ls_operand),                  \
        (const struct ls_operand[]) {                                                              \
        __VA_ARGS__                                                                                \
    }

__attribute__((unused)) static void made_detect(void) {
    struct ls_trace trace;
    maker_gpu_clock(&maker, 4, made_now, 2, made_now);
    collect();
    assert_int_equal(ls_trace_open(&trace, maker.trace), LS_EXIT_OK);
    assert_int_equal(ls_detect_run(&trace), LS_EXIT_OK);
    ls_trace_close(&trace);
}

/* "kind severity site count" of each finding of these kinds. */
__attribute__((unused)) static const char *made_found(const char *kinds) {
    static char sql[400];
    snprintf(sql, sizeof sql,
             "SELECT COALESCE(group_concat(kind||' '||severity||' '||replace(site,'/home/me/','')||"
             "' '||count,', '),'') FROM (SELECT * FROM finding WHERE kind IN (%s) ORDER BY id)",
             kinds);
    return maker_ask(&maker, sql);
}

/* A value of the evidence of the first finding of a kind. */
__attribute__((unused)) static const char *made_evidence(const char *kind, const char *path) {
    static char sql[300];
    snprintf(
        sql, sizeof sql,
        "SELECT json_extract(evidence,'$.%s') FROM finding WHERE kind='%s' ORDER BY id LIMIT 1",
        path, kind);
    return maker_ask(&maker, sql);
}

__attribute__((unused)) static int made_setup(void **state) {
    made_now = 1000;
    made_number = 0;
    setup(state);
    maker_gpu_clock(&maker, 4, 0, 2, 0);
    return 0;
}

#endif
