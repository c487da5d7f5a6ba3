/*
 * ingest_shape.c - shapes to rows. See ingest_shape.h. One thread; not async-signal-safe.
 */
#include "ingest_shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ingest_internal.h"
#include "shape_text.h"

#define TOLD_MOST (1u << 20) /* a higher number is damage */

/* A matrix of a product: alike ones of several products are one. */
struct ls_derived_shape {
    UT_hash_handle hh;
    uint32_t shape;
    char key[]; /* type, sizes, strides */
};

/* ---- numbers ---- */

static struct ls_told_shape *place(struct ls_shapes *shapes, uint32_t told) {
    if (told < shapes->room)
        return &shapes->at[told];
    if (told >= TOLD_MOST)
        return NULL;
    uint32_t room = 2 * told + 64;
    struct ls_told_shape *more = realloc(shapes->at, room * sizeof *more);
    if (!more)
        return NULL;
    memset(more + shapes->room, 0, (room - shapes->room) * sizeof *more);
    shapes->at = more;
    shapes->room = room;
    return &more[told];
}

uint32_t ls_shape_of(const struct ls_ingest *ingest, uint32_t told, uint8_t role) {
    const struct ls_shapes *shapes = &ingest->shapes;
    if (told >= shapes->room)
        return 0;
    const struct ls_told_shape *shape = &shapes->at[told];
    if (!shape->a) /* no product */
        return shape->shape;
    const char *name = role < LS_ROLE_COUNT ? ls_role_info[role].name : "";
    switch (name[0] && !name[1] ? name[0] : 0) { /* whatever it does with the matrix */
    case 'a':
        return shape->a;
    case 'b':
        return shape->b;
    case 'c':
    case 'd':
        return shape->c;
    default:
        return shape->shape;
    }
}

/* ---- rows ---- */

#define TEXT LS_NUMBERS_TEXT(LS_SHAPE_DIMS)

/* The row of a shape; `told`: its number in the spool, 0: derived. */
static void put_shape(struct ls_ingest *ingest, const struct ls_rec_shape *shape, uint32_t number,
                      uint32_t told) {
    char dims[TEXT], strides[TEXT], detail[LS_DETAIL_TEXT], types[] = "izsssssiiiiiniiiiis";
    bool lies = shape->kind == LS_SHAPE_TENSOR || shape->kind == LS_SHAPE_MATRIX;
    struct ls_shape_facts facts;
    ls_shape_measure(shape, &facts);
    if (lies) {
        ls_shape_numbers(dims, sizeof dims, shape->value, shape->dims);
        ls_shape_numbers(strides, sizeof strides, shape->value + shape->dims, shape->dims);
    } else {
        types[7] = types[8] = types[9] = types[10] = types[11] = 'n';
    }
    types[12] = shape->flags & LS_SHAPE_UID ? 'i' : 'n';
    ls_db_put(&ingest->db, LS_PUT_SHAPE, types, (int64_t)number, (int64_t)told,
              ls_shape_kind_name[shape->kind], ls_dtype_name[shape->dtype], lies ? dims : NULL,
              lies ? strides : NULL, lies ? ls_layout_name[facts.layout] : NULL,
              (int64_t)facts.ambiguous, (int64_t)facts.dense, facts.elements, facts.bytes,
              facts.span, shape->uid, (int64_t)shape->flags, (int64_t)shape->dtype_told,
              (int64_t)shape->vector_count, (int64_t)shape->vector_dim, facts.unit,
              ls_shape_detail(detail, shape) ? detail : NULL);
}

static const char *op_name(int64_t op) {
    static const char *const name[] = {"N", "T", "C"};
    return op >= 0 && op < 3 ? name[op] : "?";
}

static uint8_t dtype_of(int64_t dtype) {
    return dtype > 0 && dtype < LS_DTYPE_COUNT ? (uint8_t)dtype : LS_DTYPE_UNKNOWN;
}

static void put_product(struct ls_ingest *ingest, const struct ls_rec_shape *shape,
                        const struct ls_told_shape *number) {
    const int64_t *v = shape->value;
    ls_db_put(&ingest->db, LS_PUT_PRODUCT, "iiiissiiiiiiisssiiii", (int64_t)number->shape,
              v[LS_PRODUCT_M], v[LS_PRODUCT_N], v[LS_PRODUCT_K], op_name(v[LS_PRODUCT_OP_A]),
              op_name(v[LS_PRODUCT_OP_B]), v[LS_PRODUCT_LDA], v[LS_PRODUCT_LDB], v[LS_PRODUCT_LDC],
              v[LS_PRODUCT_BATCH], v[LS_PRODUCT_STRIDE_A], v[LS_PRODUCT_STRIDE_B],
              v[LS_PRODUCT_STRIDE_C], ls_dtype_name[shape->dtype],
              ls_dtype_name[dtype_of(v[LS_PRODUCT_DTYPE_B])],
              ls_dtype_name[dtype_of(v[LS_PRODUCT_DTYPE_C])], v[LS_PRODUCT_COMPUTE],
              (int64_t)number->a, (int64_t)number->b, (int64_t)number->c);
}

/* ---- matrices of a product ---- */

static struct ls_derived_shape *find_derived(struct ls_shapes *shapes, const char *key) {
    struct ls_derived_shape *derived;
    HASH_FIND(hh, shapes->derived, key, strlen(key), derived);
    return derived;
}

static bool add_derived(struct ls_shapes *shapes, const char *key, uint32_t number) {
    size_t length = strlen(key);
    struct ls_derived_shape *derived = calloc(1, sizeof *derived + length + 1);
    if (!derived)
        return false;
    derived->shape = number;
    memcpy(derived->key, key, length + 1);
    HASH_ADD(hh, shapes->derived, key, length, derived);
    if (derived->hh.tbl)
        return true;
    free(derived);
    return false;
}

#define KEY (2 * TEXT + 40)
static void make_key(char key[KEY], const char *dtype, const char *dims, const char *strides) {
    snprintf(key, KEY, "%s%s%s", dtype, dims, strides);
}

/* Rows x columns as they lie in memory, `ld` from column to column. Where the batch is one of
 * addresses, they are one each: a product whose results lie apart has a stride between them. */
static uint32_t derive(struct ls_ingest *ingest, const int64_t *product, uint8_t dtype,
                       int64_t rows, int64_t columns, int64_t ld, int64_t stride) {
    struct {
        struct ls_rec_shape shape;
        int64_t value[6];
    } made = {.shape = {.kind = LS_SHAPE_MATRIX, .dtype = dtype}};
    bool batch = product[LS_PRODUCT_BATCH] > 1 && product[LS_PRODUCT_STRIDE_C] != 0;
    unsigned dims = made.shape.dims = batch ? 3 : 2;
    const int64_t size[] = {rows, columns, product[LS_PRODUCT_BATCH]}, step[] = {1, ld, stride};
    char key[KEY], dims_text[TEXT], strides_text[TEXT];
    memcpy(made.value, size, dims * sizeof *size);
    memcpy(made.value + dims, step, dims * sizeof *step);
    ls_shape_numbers(dims_text, sizeof dims_text, size, dims);
    ls_shape_numbers(strides_text, sizeof strides_text, step, dims);
    make_key(key, ls_dtype_name[dtype], dims_text, strides_text);
    struct ls_derived_shape *known = find_derived(&ingest->shapes, key);
    if (known)
        return known->shape;
    uint32_t number = ++ingest->shapes.last;
    if (!add_derived(&ingest->shapes, key, number))
        ingest->out_of_memory = true;
    put_shape(ingest, &made.shape, number, 0);
    return number;
}

static void derive_all(struct ls_ingest *ingest, const struct ls_rec_shape *shape,
                       struct ls_told_shape *number) {
    const int64_t *v = shape->value, m = v[LS_PRODUCT_M], n = v[LS_PRODUCT_N], k = v[LS_PRODUCT_K];
    bool ta = v[LS_PRODUCT_OP_A] != 0, tb = v[LS_PRODUCT_OP_B] != 0;
    number->a = derive(ingest, v, shape->dtype, ta ? k : m, ta ? m : k, v[LS_PRODUCT_LDA],
                       v[LS_PRODUCT_STRIDE_A]);
    number->b = derive(ingest, v, dtype_of(v[LS_PRODUCT_DTYPE_B]), tb ? n : k, tb ? k : n,
                       v[LS_PRODUCT_LDB], v[LS_PRODUCT_STRIDE_B]);
    number->c = derive(ingest, v, dtype_of(v[LS_PRODUCT_DTYPE_C]), m, n, v[LS_PRODUCT_LDC],
                       v[LS_PRODUCT_STRIDE_C]);
}

void ls_shape_add(struct ls_ingest *ingest, const struct ls_rec_shape *record) {
    if (record->id >= TOLD_MOST)
        return;
    struct ls_told_shape *number = place(&ingest->shapes, record->id);
    if (!number) {
        ingest->out_of_memory = true;
        return;
    }
    if (number->shape) /* told again: all of one number are alike */
        return;
    number->shape = ++ingest->shapes.last;
    put_shape(ingest, record, number->shape, record->id);
    if (record->kind != LS_SHAPE_PRODUCT)
        return;
    derive_all(ingest, record, number);
    put_product(ingest, record, number);
}

/* ---- taking up what is in the tables ---- */

static void load_told(sqlite3_stmt *stmt, void *context) {
    struct ls_ingest *ingest = context;
    int64_t told = sqlite3_column_int64(stmt, 0);
    struct ls_told_shape *number =
        told > 0 && told < TOLD_MOST ? place(&ingest->shapes, (uint32_t)told) : NULL;
    if (!number) {
        ingest->out_of_memory |= told > 0 && told < TOLD_MOST;
        return;
    }
    *number = (struct ls_told_shape){
        (uint32_t)sqlite3_column_int64(stmt, 1), (uint32_t)sqlite3_column_int64(stmt, 2),
        (uint32_t)sqlite3_column_int64(stmt, 3), (uint32_t)sqlite3_column_int64(stmt, 4)};
}

static void load_derived(sqlite3_stmt *stmt, void *context) {
    struct ls_ingest *ingest = context;
    const char *dtype = (const char *)sqlite3_column_text(stmt, 1);
    const char *dims = (const char *)sqlite3_column_text(stmt, 2);
    const char *strides = (const char *)sqlite3_column_text(stmt, 3);
    char key[KEY];
    if (!dtype || !dims || !strides)
        return;
    make_key(key, dtype, dims, strides);
    if (!find_derived(&ingest->shapes, key) &&
        !add_derived(&ingest->shapes, key, (uint32_t)sqlite3_column_int64(stmt, 0)))
        ingest->out_of_memory = true;
}

void ls_shape_load(struct ls_ingest *ingest) {
    struct ls_trace_db *db = &ingest->db;
    ingest->shapes.last = (uint32_t)ls_db_number(db, "SELECT MAX(id) FROM shape");
    ls_db_each(db,
               "SELECT told,id,a,b,c FROM shape LEFT JOIN product ON product.shape=shape.id "
               "WHERE told IS NOT NULL",
               load_told, ingest);
    ls_db_each(db, "SELECT id,dtype,dims,strides FROM shape WHERE told IS NULL", load_derived,
               ingest);
}

void ls_shape_close(struct ls_shapes *shapes) {
    struct ls_derived_shape *derived, *next;
    HASH_ITER(hh, shapes->derived, derived, next) {
        HASH_DEL(shapes->derived, derived);
        free(derived);
    }
    free(shapes->at);
}
