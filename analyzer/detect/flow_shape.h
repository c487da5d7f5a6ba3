/*
 * flow_shape.h - the rows of `shape` as numbers, and what a copy does between two of them. Main
 * thread only.
 */
#ifndef LAYOUTSPY_DETECT_FLOW_SHAPE_H
#define LAYOUTSPY_DETECT_FLOW_SHAPE_H

#include <sqlite3.h>

#include "flow.h"

/* NULL: the table cannot be read. */
void *ls_flow_shapes_load(sqlite3 *db);
void ls_flow_shapes_free(void *shapes);

/* By shape.id; NULL: there is none, or it is no tensor and no matrix. */
const struct ls_flow_shape *ls_flow_shape(const void *shapes, int64_t id);

/* A copy from one to the other puts the elements in another order, or takes gaps out or in. */
bool ls_flow_turned(const struct ls_flow_shape *from, const struct ls_flow_shape *to);

/* How often each element of it is read by a copy of all: the sizes along strides of 0. */
int64_t ls_flow_repeated(const struct ls_flow_shape *from);

#endif
