/*
 * products.h - the matrix products that cuBLAS and cuBLASLt were asked for, one by one, as the
 * program called them (no call that another library's call made).
 *
 * One pass over the operands of those calls; loaded at the first wish of a detector, kept in
 * `struct ls_detect`. Main thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_DETECT_PRODUCTS_H
#define LAYOUTSPY_DETECT_PRODUCTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "by_site.h"
#include "detect.h"

/* A row of `product`: column-major, as the library has it. */
struct ls_product_shape {
    int64_t shape; /* shape.id */
    int64_t m, n, k, lda, ldb, ldc, batch;
    int64_t stride_a, stride_b, stride_c;
    char op_a[2], op_b[2], dtype[24], dtype_b[24], dtype_c[24];
};

enum { LS_PRODUCT_IN_A, LS_PRODUCT_IN_B, LS_PRODUCT_OUT, LS_PRODUCT_MATRICES };

struct ls_product_call {
    int64_t call, start_ns, end_ns, thread, stack, api;
    const struct ls_product_shape *shape; /* never NULL */
    uint64_t address[LS_PRODUCT_MATRICES];
    bool arrays;    /* the addresses are those of arrays of addresses */
    bool added;     /* beta is not 0: it adds to what is there */
    int64_t gpu_ns; /* -1: not known */
};

struct ls_products {
    struct ls_product_shape *shape; /* by shape.id */
    size_t shapes;
    struct ls_product_call *call; /* by thread, and in it by number */
    size_t calls;
};

/* NULL: the trace cannot be read. It belongs to `d`. */
const struct ls_products *ls_detect_products(struct ls_detect *d);

double ls_product_flops(const struct ls_product_shape *shape); /* of the whole batch */

/* Bytes of an element: 1, 2, 4, 8, 16; 0: not known. */
int ls_dtype_bytes(const char *dtype);

/* The product as evidence shows it. */
json_t *ls_product_json(const struct ls_product_shape *shape);

/* Products by line of the program and type, which make one finding, and in it by shape. All but
 * `sites.db` zero: empty. */
struct ls_product_lines {
    struct ls_sites sites;
    struct ls_numbers lines, parts;
};

/* Where a call counts to: numbers of its line and type, and of its shape among all lines'. */
struct ls_product_place {
    size_t line, part;
};
struct ls_product_place ls_product_place(struct ls_product_lines *lines,
                                         const struct ls_product_call *call);
void ls_product_lines_free(struct ls_product_lines *lines);

/* Of two shapes of a line the one to show: that which costs more, else that which is more work. */
bool ls_product_heavier(int64_t x_ns, const struct ls_product_shape *x, int64_t y_ns,
                        const struct ls_product_shape *y);

/* "64 x 64 x 64", or where a line has several "64 x 64 x 64 and 12 other shapes", to be freed. */
char *ls_product_words(const struct ls_product_shape *shape, int64_t shapes);

void ls_products_free(struct ls_products *products);

#endif
