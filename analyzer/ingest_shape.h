/*
 * ingest_shape.h - shapes and operands: rows of `shape`, `product` and `operand`.
 *
 * ingest_shape.c    a shape gets a number of the trace, and a product the matrices that it implies
 * ingest_operand.c  the operands of a call, each with its shape and the memory that it lies in
 *
 * The spool's numbers are the recorded process's; those of the trace count what is told and what is
 * derived from it. Both are in the tables, so that a collector's successor goes on with them. One
 * thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_INGEST_SHAPE_H
#define LAYOUTSPY_INGEST_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "layoutspy/format.h"

struct ls_ingest;
struct ls_timed_call;

/* The trace's number of a shape that was told; 0: it was not, yet. Of a product those of its
 * matrices too, else 0. */
struct ls_told_shape {
    uint32_t shape, a, b, c;
};

struct ls_derived_shape; /* by its content */

struct ls_shapes {
    struct ls_told_shape *at; /* by number of the spool */
    uint32_t room;
    uint32_t last; /* number of the trace */
    struct ls_derived_shape *derived;
};

void ls_shape_add(struct ls_ingest *ingest, const struct ls_rec_shape *record);
/* The trace's number of the shape that the spool calls `told`, of an operand with this role; 0: it
 * has not been told. */
uint32_t ls_shape_of(const struct ls_ingest *ingest, uint32_t told, uint8_t role);
void ls_shape_load(struct ls_ingest *ingest);
void ls_shape_close(struct ls_shapes *shapes);

/*
 * An operand whose shape another thread told: that record may come with the next drain. Its row is
 * there, without the shape, and one in raw_operand.
 */
struct ls_operand_waiting {
    int64_t call;
    uint32_t told;
    uint8_t position, role;
};

struct ls_operands {
    struct ls_operand_waiting *waiting;
    size_t count, room;
};

/* The operands of a call that has some, after its row. */
void ls_operand_put(struct ls_ingest *ingest, const struct ls_timed_call *call);
void ls_operand_load(struct ls_ingest *ingest);
void ls_operand_store(struct ls_ingest *ingest); /* before each commit */
void ls_operand_close(struct ls_operands *operands);

#endif
