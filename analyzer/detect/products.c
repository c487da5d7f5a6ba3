/*
 * products.c - see products.h. Main thread only; not for signal handlers.
 */
#include "products.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "../room.h"

static void text_of(char *into, size_t size, sqlite3_stmt *stmt, int column) {
    const char *text = (const char *)sqlite3_column_text(stmt, column);
    snprintf(into, size, "%s", text ? text : "");
}

static int read_shapes(struct ls_products *made, sqlite3 *db) {
    sqlite3_stmt *stmt = NULL;
    size_t room = 0;
    int rc = sqlite3_prepare_v2(db,
                                "SELECT shape, m, n, k, lda, ldb, ldc, batch, stride_a, stride_b,"
                                " stride_c, op_a, op_b, dtype, dtype_b, dtype_c FROM product"
                                " ORDER BY shape",
                                -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        made->shape = ls_room(made->shape, made->shapes, &room, sizeof *made->shape);
        struct ls_product_shape *s = &made->shape[made->shapes++];
        int64_t *number[] = {&s->shape, &s->m,     &s->n,        &s->k,        &s->lda,     &s->ldb,
                             &s->ldc,   &s->batch, &s->stride_a, &s->stride_b, &s->stride_c};
        int column = 0;
        for (; column < (int)(sizeof number / sizeof *number); column++)
            *number[column] = sqlite3_column_int64(stmt, column);
        text_of(s->op_a, sizeof s->op_a, stmt, column++);
        text_of(s->op_b, sizeof s->op_b, stmt, column++);
        text_of(s->dtype, sizeof s->dtype, stmt, column++);
        text_of(s->dtype_b, sizeof s->dtype_b, stmt, column++);
        text_of(s->dtype_c, sizeof s->dtype_c, stmt, column++);
    }
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int by_shape(const void *key, const void *element) {
    int64_t shape = *(const int64_t *)key,
            other = ((const struct ls_product_shape *)element)->shape;
    return shape < other ? -1 : shape > other;
}

static const struct ls_product_shape *shape_of(const struct ls_products *p, int64_t shape) {
    return p->shapes ? bsearch(&shape, p->shape, p->shapes, sizeof *p->shape, by_shape) : NULL;
}

static void take_operand(struct ls_products *made, struct ls_product_call *call,
                         sqlite3_stmt *stmt) {
    const char *role = (const char *)sqlite3_column_text(stmt, 1);
    const char *direction = (const char *)sqlite3_column_text(stmt, 2);
    uint64_t address = (uint64_t)sqlite3_column_int64(stmt, 4);
    if (!role || !direction)
        return;
    if (!strcmp(role, "product")) {
        call->shape = shape_of(made, sqlite3_column_int64(stmt, 3));
        return;
    }
    bool a = !strcmp(role, "a"), b = !strcmp(role, "b");
    if (!a && !b && strcmp(role, "c") && strcmp(role, "d"))
        return;
    call->arrays |= (sqlite3_column_int(stmt, 5) & 1) != 0;
    if (a || b) {
        call->address[a ? LS_PRODUCT_IN_A : LS_PRODUCT_IN_B] = address;
    } else if (strcmp(direction, "in")) {
        call->address[LS_PRODUCT_OUT] = address;
        call->added |= !strcmp(direction, "inout");
    }
}

static void begin_call(struct ls_product_call *call, sqlite3_stmt *stmt) {
    *call = (struct ls_product_call){
        .call = sqlite3_column_int64(stmt, 0),
        .start_ns = sqlite3_column_int64(stmt, 6),
        .end_ns = sqlite3_column_int64(stmt, 6) + sqlite3_column_int64(stmt, 7),
        .thread = sqlite3_column_int64(stmt, 8),
        .stack = sqlite3_column_int64(stmt, 9),
        .api = sqlite3_column_int64(stmt, 10),
        .gpu_ns =
            sqlite3_column_type(stmt, 11) == SQLITE_NULL ? -1 : sqlite3_column_int64(stmt, 11),
    };
}

static int read_calls(struct ls_products *made, sqlite3 *db) {
    sqlite3_stmt *stmt = NULL;
    size_t room = 0;
    struct ls_product_call now = {0};
    int rc = sqlite3_prepare_v2(
        db,
        "SELECT o.call, role.name, role.direction, COALESCE(o.shape, 0), o.address, o.flags,"
        " c.start_ns, c.duration_ns, c.thread, COALESCE(c.stack, 0), c.api,"
        " (SELECT gpu_ns FROM library_gpu AS g WHERE g.call = o.call)"
        " FROM operand AS o CROSS JOIN role ON role.id = o.role JOIN call AS c ON c.id = o.call"
        " WHERE c.status = 0 AND c.flags & 1 = 0 AND c.api IN (SELECT id FROM api WHERE"
        "   class = 'library_call' AND (name LIKE '%gemm%' OR name LIKE 'cublasLtMatmul%'))"
        " ORDER BY c.thread, o.call, o.position",
        -1, &stmt, NULL);
    while (rc == SQLITE_OK || rc == SQLITE_ROW) {
        if ((rc = sqlite3_step(stmt)) == SQLITE_ROW && sqlite3_column_int64(stmt, 0) == now.call) {
            take_operand(made, &now, stmt);
            continue;
        }
        if (now.shape) {
            made->call = ls_room(made->call, made->calls, &room, sizeof *made->call);
            made->call[made->calls++] = now;
        }
        if (rc != SQLITE_ROW)
            break;
        begin_call(&now, stmt);
        take_operand(made, &now, stmt);
    }
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

const struct ls_products *ls_detect_products(struct ls_detect *d) {
    if (d->products)
        return d->products;
    struct ls_products *made = ls_new(1, sizeof *made);
    int rc = read_shapes(made, d->db);
    if (rc == SQLITE_OK && made->shapes)
        rc = read_calls(made, d->db);
    if (rc != SQLITE_OK) {
        ls_products_free(made);
        return NULL;
    }
    return d->products = made;
}

void ls_products_free(struct ls_products *products) {
    if (!products)
        return;
    free(products->shape);
    free(products->call);
    free(products);
}

double ls_product_flops(const struct ls_product_shape *s) {
    return 2.0 * (double)s->m * (double)s->n * (double)s->k * (double)(s->batch > 1 ? s->batch : 1);
}

int ls_dtype_bytes(const char *dtype) {
    static const struct {
        const char *name;
        int bytes;
    } known[] = {{"float16", 2}, {"bfloat16", 2},    {"float32", 4},     {"float64", 8},
                 {"int8", 1},    {"float8_e4m3", 1}, {"float8_e5m2", 1}, {"complex64", 8}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(dtype, known[i].name))
            return known[i].bytes;
    return 0;
}

json_t *ls_product_json(const struct ls_product_shape *s) {
    return json_pack("{s:I, s:I, s:I, s:s, s:s, s:I, s:I, s:I, s:I, s:s}", "m", (json_int_t)s->m,
                     "n", (json_int_t)s->n, "k", (json_int_t)s->k, "op_a", s->op_a, "op_b", s->op_b,
                     "lda", (json_int_t)s->lda, "ldb", (json_int_t)s->ldb, "ldc",
                     (json_int_t)s->ldc, "batch", (json_int_t)s->batch, "dtype", s->dtype);
}

/* ---- by line ---- */

struct ls_product_place ls_product_place(struct ls_product_lines *lines,
                                         const struct ls_product_call *call) {
    struct {
        size_t site;
        char dtype[sizeof call->shape->dtype];
    } line;
    struct {
        size_t line;
        const struct ls_product_shape *shape;
    } part;
    struct ls_product_place place;
    memset(&line, 0, sizeof line);
    memset(&part, 0, sizeof part);
    line.site = ls_site_number(&lines->sites, call->stack);
    snprintf(line.dtype, sizeof line.dtype, "%s", call->shape->dtype);
    part.line = place.line = ls_number_of(&lines->lines, &line, sizeof line);
    part.shape = call->shape;
    place.part = ls_number_of(&lines->parts, &part, sizeof part);
    return place;
}

void ls_product_lines_free(struct ls_product_lines *lines) {
    ls_sites_free(&lines->sites);
    ls_numbers_free(&lines->lines);
    ls_numbers_free(&lines->parts);
}

bool ls_product_heavier(int64_t x_ns, const struct ls_product_shape *x, int64_t y_ns,
                        const struct ls_product_shape *y) {
    return x_ns != y_ns ? x_ns > y_ns : ls_product_flops(x) > ls_product_flops(y);
}

char *ls_product_words(const struct ls_product_shape *s, int64_t shapes) {
    struct ls_human others;
    return ls_format("%lld x %lld x %lld%s%s%s", (long long)s->m, (long long)s->n, (long long)s->k,
                     shapes > 1 ? " and " : "",
                     shapes > 1 ? ls_human_count(&others, shapes - 1) : "",
                     shapes < 2    ? ""
                     : shapes == 2 ? " other shape"
                                   : " other shapes");
}
