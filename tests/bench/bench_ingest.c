/*
 * bench_ingest.c - how fast the collector takes in launches, without and with a kernel's run each,
 * runs whose launches are missing, beside launches whose runs are, and products with their
 * operands.
 *
 * A million of each, four of the last, in parts, as from a program that is alive; only the taking
 * in is timed. Prints rows a second of this process's time, and what the end takes of it. Started
 * by ./run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#include "ingest.h"
#include "spool_maker.h"

#define RUNS 1000000u
#define PART 100000u
#define CUPTI_THREAD 9

static struct maker maker;

/* Of this process: others may be at work on the machine. */
static double seconds(void) {
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void check(bool good, const char *why) {
    if (!good) {
        fprintf(stderr, "bench-ingest: %s\n", why);
        exit(1);
    }
}

static double take(struct ls_ingest *ingest, bool all) {
    char why[512];
    double before = seconds();
    check(ls_ingest_drain(ingest, all, why, sizeof why) >= 0, why);
    return seconds() - before;
}

enum kind { LAUNCHES, WITH_RUNS, APART, PRODUCTS };
#define OPERANDS 4 /* of a product */
#define SHAPES 200

static void make_product(uint32_t i) {
    uint32_t shape = 1 + i % SHAPES;
    if (i < SHAPES)
        maker_shape(&maker, 1 + i % 4,
                    &(struct ls_rec_shape){
                        .id = shape, .kind = LS_SHAPE_PRODUCT, .dtype = LS_DTYPE_FLOAT16},
                    LS_PRODUCT_VALUES,
                    (const int64_t[LS_PRODUCT_VALUES]){8 + i, 512, 1024, 1024, 1024, 512});
    maker_call_operands(&maker, 1 + i % 4, cublasSgemm_v2, 1000 * (uint64_t)i,
                        1000 * (uint64_t)i + 900, 0, 0, 0, 0x77, MADE_OPERAND(PRODUCT, shape, 0),
                        MADE_OPERAND(A, shape, 0x7f0000000000 + 512ull * i),
                        MADE_OPERAND(B, shape, 0x7f1000000000 + 512ull * i),
                        MADE_OPERAND(C_OUT, shape, 0x7f2000000000 + 512ull * i));
}

static void bench(const char *what, enum kind kind) {
    uint32_t runs = kind == APART ? 4 * RUNS : RUNS;
    bool gpu = kind == WITH_RUNS || kind == APART;
    unsigned rows = gpu ? 2 : kind == PRODUCTS ? 1 + OPERANDS : 1;
    uint32_t number = kind == APART ? runs : 0; /* none of a launch's */
    char why[512];
    double time = 0;
    struct stat st;
    struct ls_spool *spool = calloc(1, sizeof *spool);
    struct ls_ingest *ingest = calloc(1, sizeof *ingest);
    maker_open(&maker, true);
    maker_kernel(&maker, CUPTI_THREAD, 1, "kernel");
    check(ls_spool_open(spool, maker.spool, why, sizeof why) == LS_SPOOL_OK, why);
    check(ls_ingest_open(ingest, spool, why, sizeof why), why);
    for (uint32_t from = 0; from < runs; from += PART) {
        for (uint32_t i = from; kind == PRODUCTS && i < from + PART; i++)
            make_product(i);
        for (uint32_t i = from; kind != PRODUCTS && i < from + PART; i++)
            maker_launch(&maker, 1 + i % 4, 1000 * (uint64_t)i, 1000 * (uint64_t)i + 900, 0, i + 1);
        for (uint32_t i = from; gpu && i < from + PART; i++) {
            if (i % 400 == 0) /* a buffer of CUPTI's */
                maker_gpu_clock(&maker, CUPTI_THREAD, 1000 * (uint64_t)(from + PART), 100,
                                1000 * (uint64_t)(from + PART));
            maker_kernel_run(&maker, CUPTI_THREAD, 1000 * (uint64_t)i + 2000,
                             1000 * (uint64_t)i + 2900, number + i + 1);
        }
        time += take(ingest, false);
    }
    double before = seconds();
    take(ingest, true);
    check(ls_ingest_finish(ingest, why, sizeof why), why);
    double end = seconds() - before;
    ls_ingest_close(ingest);
    ls_spool_close(spool);
    free(ingest);
    free(spool);
    stat(maker.trace, &st);
    printf("%-28s %8.0f rows/s, %5.2f s in all, the end %.2f s, %3.0f bytes a call", what,
           rows * (double)runs / time, time, end, (double)st.st_size / runs);
    if (gpu)
        printf(", %lld matched",
               (long long)maker_number(&maker, "SELECT IFNULL(SUM(count),0) FROM gpu_count "
                                               "WHERE status='matched'"));
    putchar('\n');
    maker_close(&maker);
}

int main(void) {
    bench("launches", LAUNCHES);
    bench("launches and kernels' runs", WITH_RUNS);
    bench("runs without their launches", APART);
    bench("products and operands", PRODUCTS);
    return 0;
}
