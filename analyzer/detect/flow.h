/*
 * flow.h - the way of tensors between calls: copies that only change how a tensor lies in memory,
 * what they were made from, and who read what they made.
 *
 * One pass over the operands of all calls, in the order in which the calls ended, and over the
 * copies beside them; loaded at the first wish of a detector, kept in `struct ls_detect`. The link
 * from a copy to its reader is by address (one inside of the other will do) and by the life of the
 * memory there; nothing is linked across memory that was given back, nor across a write. A copy of
 * bytes from device to device hands on what it copied. Main thread only.
 */
#ifndef LAYOUTSPY_DETECT_FLOW_H
#define LAYOUTSPY_DETECT_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "detect.h"

#define LS_NO_RELAYOUT SIZE_MAX

/* A row of `shape`, of kind tensor or matrix. */
struct ls_flow_shape {
    int64_t elements, bytes;
    int64_t span;   /* bytes from the first to the end of the last */
    bool in_bytes;  /* the type is not known: sizes of elements are guesses */
    bool ambiguous; /* its layout is as much the other one of the pair */
    bool dense;
    char dtype[24], layout[16];
    int dims;
    int64_t size[8], stride[8];
};

/* A copy by a kernel, or by a library's call that does nothing else: DST and SRC are known. */
struct ls_relayout {
    int64_t call, start_ns, stack; /* that made it: call.id */
    int64_t step;                  /* the step that it lies in, from 1; 0: none */
    int64_t kernel;                /* kernel.id; 0: not known */
    int64_t src_address, dst_address;
    const struct ls_flow_shape *src, *dst; /* never NULL */
    int64_t gpu_ns;   /* of its own run, or the mean of its kernel's; -1: not known */
    bool gpu_is_mean; /* the latter */
    bool turned;      /* the elements lie in another order, or gaps went or came */
    bool cast;        /* of another type */
    int64_t repeated; /* each element of the source stands so often in the destination; 1: once */

    bool continues; /* the copy before: one that is too large for a launch is made in pieces */

    /* Where its source comes from. */
    size_t from;         /* the relayout that wrote the source, LS_NO_RELAYOUT: none */
    int64_t src_life;    /* what holds the source: equal for equal memory between two allocations,
                            negative for the runtime's; 0: not known */
    bool src_is_lasting; /* that memory was there before the step, and outlives it */
    size_t before;       /* the relayout before of the same source and shape; LS_NO_RELAYOUT */
    bool src_rewritten;  /* since that one, by a call or copy that is known to write there */
    bool src_touched;    /* since that one a kernel of which nothing is known was given it */

    /* Who read it: the first library call that took it as an operand. */
    int64_t reader, reader_api, reader_stack; /* call.id (0: nobody), api.id */
    int reader_role;                          /* role.id */
    int64_t reader_address;
    const struct ls_flow_shape *reader_shape; /* as the reader was told; NULL: not known */
    int64_t readers;                          /* how many calls did */
    int64_t last_reader_step;                 /* that the last of them lies in; 0: none */
    bool reader_adds;   /* to it: it is the first value of a product's result, C */
    bool reader_nested; /* made by another library's call, of which no operands are known */
    bool touched;       /* a kernel of which nothing is known was given its address before that */
    bool reread;        /* another relayout has it as its source */

    const char *told; /* the kind of the finding that tells of it; NULL: none does yet */
};

struct ls_flow {
    struct ls_relayout *relayout; /* by call */
    size_t count;
    int64_t operand_calls; /* calls with operands: 0, nothing was told */
    bool library_calls;    /* NVIDIA's libraries worked at all */
    bool timed;            /* the GPU's times are known at all */
    void *own;
};

/* NULL: the trace cannot be read. It belongs to `d`. What it holds may be marked (`told`): of the
 * detectors that could tell of a copy the first one does, and they run from the most particular to
 * the most general. */
const struct ls_flow *ls_detect_flow(struct ls_detect *d);

/* The one that this call made, or NULL. */
struct ls_relayout *ls_flow_relayout_of(const struct ls_flow *flow, int64_t call);

/* ns that a kernel takes to read and write so many bytes, both together: LS_DEVICE_BYTES_PER_NS. */
int64_t ls_moved_ns(int64_t bytes);

/* ns that it took, by the GPU or by its bytes. */
int64_t ls_relayout_ns(const struct ls_relayout *r);
int64_t ls_relayout_bytes(const struct ls_relayout *r); /* written */

/* The stride in the source of a dimension of `size` elements that lie `stride` elements apart in
 * what it wrote; -1: they do not lie regularly there. */
int64_t ls_relayout_source_stride(const struct ls_relayout *r, int64_t stride, int64_t size);

void ls_flow_free(struct ls_flow *flow);

#endif
