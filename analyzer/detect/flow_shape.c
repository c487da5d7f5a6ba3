/*
 * flow_shape.c - see flow_shape.h. Main thread only.
 */
#include "flow_shape.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "../room.h"

#define DIMS_MOST (int)(sizeof((struct ls_flow_shape *)0)->size / sizeof(int64_t))

struct shapes {
    struct ls_flow_shape **at; /* by id; addresses stay */
    int64_t most;
};

/* The numbers of a JSON array; how many there are, at most DIMS_MOST. */
static int numbers(const unsigned char *text, int64_t *value) {
    json_t *array = text ? json_loads((const char *)text, 0, NULL) : NULL;
    int count = (int)json_array_size(array);
    if (count > DIMS_MOST)
        count = 0; /* no record has so many */
    for (int i = 0; i < count; i++)
        value[i] = json_integer_value(json_array_get(array, (size_t)i));
    json_decref(array);
    return count;
}

static void text_of(char *into, size_t size, sqlite3_stmt *stmt, int column) {
    const char *text = (const char *)sqlite3_column_text(stmt, column);
    size_t length = text ? strlen(text) : 0;
    if (length >= size)
        length = size - 1;
    if (length)
        memcpy(into, text, length);
    into[length] = 0;
}

static void take(struct shapes *shapes, sqlite3_stmt *stmt) {
    int64_t id = sqlite3_column_int64(stmt, 0);
    if (id <= 0 || id > shapes->most)
        return;
    struct ls_flow_shape *shape = ls_new(1, sizeof *shape);
    text_of(shape->dtype, sizeof shape->dtype, stmt, 1);
    text_of(shape->layout, sizeof shape->layout, stmt, 2);
    shape->ambiguous = sqlite3_column_int(stmt, 3) != 0;
    shape->dense = sqlite3_column_int(stmt, 4) != 0;
    shape->elements = sqlite3_column_int64(stmt, 5);
    shape->bytes = sqlite3_column_int64(stmt, 6);
    shape->in_bytes = (sqlite3_column_int(stmt, 7) & 8) != 0;
    shape->span = sqlite3_column_int64(stmt, 10);
    shape->dims = numbers(sqlite3_column_text(stmt, 8), shape->size);
    if (numbers(sqlite3_column_text(stmt, 9), shape->stride) != shape->dims)
        shape->dims = 0;
    shapes->at[id] = shape;
}

void *ls_flow_shapes_load(sqlite3 *db) {
    sqlite3_stmt *stmt = NULL;
    struct shapes *shapes = ls_new(1, sizeof *shapes);
    int rc = sqlite3_prepare_v2(db, "SELECT COALESCE(MAX(id), 0) FROM shape", -1, &stmt, NULL);
    if (rc == SQLITE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW)
        shapes->most = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    stmt = NULL;
    shapes->at = ls_new((size_t)shapes->most + 1, sizeof *shapes->at);
    if (rc == SQLITE_ROW)
        rc =
            sqlite3_prepare_v2(db,
                               "SELECT id, dtype, layout, ambiguous, dense, elements, bytes, flags,"
                               " dims, strides, span FROM shape WHERE kind IN ('tensor', 'matrix')",
                               -1, &stmt, NULL);
    if (rc == SQLITE_OK)
        while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
            take(shapes, stmt);
    sqlite3_finalize(stmt);
    if (rc == SQLITE_DONE)
        return shapes;
    ls_flow_shapes_free(shapes);
    return NULL;
}

void ls_flow_shapes_free(void *all) {
    struct shapes *shapes = all;
    if (!shapes)
        return;
    for (int64_t i = 0; shapes->at && i <= shapes->most; i++)
        free(shapes->at[i]);
    free(shapes->at);
    free(shapes);
}

const struct ls_flow_shape *ls_flow_shape(const void *all, int64_t id) {
    const struct shapes *shapes = all;
    return id > 0 && id <= shapes->most ? shapes->at[id] : NULL;
}

/* Strides may be in elements of different sizes, or in bytes: the ratio is what must be one. */
bool ls_flow_turned(const struct ls_flow_shape *from, const struct ls_flow_shape *to) {
    if (from->dims != to->dims)
        return from->dense != to->dense || strcmp(from->layout, to->layout) != 0;
    int64_t one = 0, other = 0;
    for (int i = 0; i < from->dims; i++) {
        if (from->size[i] <= 1)
            continue;
        int64_t a = from->stride[i], b = to->stride[i];
        if (a == 0 || b == 0) {
            if (a != b)
                return true;
            continue;
        }
        if (one == 0) {
            one = a;
            other = b;
        } else if ((double)a * (double)other != (double)b * (double)one) {
            return true;
        }
    }
    /* One dimension alone: a step is a gap, as far as sizes of elements are known. */
    return one != 0 && !from->in_bytes && !to->in_bytes && one != other;
}

int64_t ls_flow_repeated(const struct ls_flow_shape *from) {
    int64_t times = 1;
    for (int i = 0; i < from->dims; i++)
        if (from->stride[i] == 0 && from->size[i] > 1 && times < INT64_MAX / from->size[i])
            times *= from->size[i];
    return times;
}

int64_t ls_relayout_source_stride(const struct ls_relayout *r, int64_t stride, int64_t size) {
    const struct ls_flow_shape *to = r->dst;
    if (to->in_bytes || r->src->in_bytes)
        return -1;
    for (int i = 0; i < to->dims; i++) {
        int64_t step = to->stride[i];
        if (to->size[i] <= 1 || step <= 0 || stride % step != 0 ||
            (stride / step) * (size - 1) >= to->size[i])
            continue;
        return stride / step * r->src->stride[i];
    }
    return -1;
}
