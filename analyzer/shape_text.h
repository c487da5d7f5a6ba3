/*
 * shape_text.h - shapes as the trace tells of them: names, sizes and strides as text, and the word
 * for the order in which a tensor lies in memory.
 *
 * Any thread; no state; numbers may be those of a damaged record.
 */
#ifndef LAYOUTSPY_SHAPE_TEXT_H
#define LAYOUTSPY_SHAPE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layoutspy/format.h"

/*
 * The words. Sizes of 1 are passed over: their strides mean nothing; so are sizes of 0. Of what is
 * left, the order names the dimension that lies closest together first; it holds where that one's
 * stride is 1 and every other stride is at least what lies within it, so gaps are allowed (a slice
 * of a tensor, a leading dimension above the rows) and overlaps are not. Looked at in this order:
 *
 *   unknown       no sizes were told, one is below 0, or strides mean nothing (LS_SHAPE_TILED)
 *   none          one element: it lies in no order, and is `ambiguous`
 *   broadcast     the stride of a size above 1 is 0: one element stands for several
 *   strided       a stride is below 0; several elements lie together as one (vector_count)
 * of a tensor of 4 or 5 dimensions, whose second one is the channels:
 *   nchw          W, H, (D,) C, N: the last dimension first
 *   nhwc          C, W, H, (D,) N: the second one first, then from the last to the third
 * of any other:
 *   row-major     the last dimension first, then outwards
 *   column-major  the last but one first, the last one, then outwards; of 2 and 3 dimensions
 * of a matrix (rows, columns, then the batch, whose stride may be any but 0):
 *   column-major  rows are closest; where it is told as one of rows (LS_SHAPE_ROWS) that is asked
 *   row-major     after whether columns are
 * and of all:
 *   strided       anything else: permuted otherwise, overlapping, or a step above 1
 *
 * Where both words of a pair hold (one channel, or one pixel; a vector) the first one of the list
 * stands, and `ambiguous` says that it is as much the other: no mismatch with anything. Strides in
 * bytes (LS_SHAPE_BYTES) are counted in elements of the type, or of the smallest one where the type
 * is not known: `unit`.
 */
enum ls_layout {
    LS_LAYOUT_UNKNOWN,
    LS_LAYOUT_NONE,
    LS_LAYOUT_NCHW,
    LS_LAYOUT_NHWC,
    LS_LAYOUT_ROW_MAJOR,
    LS_LAYOUT_COLUMN_MAJOR,
    LS_LAYOUT_STRIDED,
    LS_LAYOUT_BROADCAST,
    LS_LAYOUTS
};

extern const char *const ls_layout_name[LS_LAYOUTS];
extern const char *const ls_dtype_name[LS_DTYPE_COUNT];
extern const char *const ls_shape_kind_name[LS_SHAPE_KINDS];

/* Roles: the name; in, out, inout, touched or nothing; and whether a tensor of 4 dimensions in it
 * is images, or what is like them: where not, nchw is just row-major, and nhwc strided. */
struct ls_role_info {
    const char *name, *direction;
    bool images;
};
extern const struct ls_role_info ls_role_info[LS_ROLE_COUNT];

/* Of a shape of kind TENSOR or MATRIX. */
struct ls_shape_facts {
    enum ls_layout layout;
    bool ambiguous;
    bool dense;       /* neither gaps nor overlaps: the elements fill what they span */
    int64_t unit;     /* bytes of an element; 0: not known, or less than one */
    int64_t elements; /* product of the sizes */
    int64_t bytes;    /* of so many elements */
    int64_t span;     /* bytes from the first element to the end of the last */
};
void ls_shape_measure(const struct ls_rec_shape *shape, struct ls_shape_facts *facts);

/* `count` numbers as a JSON array. */
#define LS_NUMBERS_TEXT(count) ((count)*21 + 3)
void ls_shape_numbers(char *text, size_t size, const int64_t *value, unsigned count);

/* What a shape of kind CONVOLUTION, POOLING or RNN says, as a JSON object; any other: false. */
#define LS_DETAIL_TEXT 1280
bool ls_shape_detail(char text[LS_DETAIL_TEXT], const struct ls_rec_shape *shape);

#endif
