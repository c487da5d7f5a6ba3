/*
 * shape_text.c - see shape_text.h. Any thread; no state.
 */
#include "shape_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "clamp.h"

const char *const ls_layout_name[LS_LAYOUTS] = {
    [LS_LAYOUT_UNKNOWN] = "unknown",     [LS_LAYOUT_NONE] = "none",
    [LS_LAYOUT_NCHW] = "nchw",           [LS_LAYOUT_NHWC] = "nhwc",
    [LS_LAYOUT_ROW_MAJOR] = "row-major", [LS_LAYOUT_COLUMN_MAJOR] = "column-major",
    [LS_LAYOUT_STRIDED] = "strided",     [LS_LAYOUT_BROADCAST] = "broadcast",
};

const char *const ls_dtype_name[LS_DTYPE_COUNT] = {
#define DTYPE(ID, name, bits, cuda, cudnn, nccl) [LS_DTYPE_##ID] = name,
#include "layoutspy/dtype.def"
};

static const uint16_t dtype_bits[LS_DTYPE_COUNT] = {
#define DTYPE(ID, name, bits, cuda, cudnn, nccl) [LS_DTYPE_##ID] = bits,
#include "layoutspy/dtype.def"
};

const char *const ls_shape_kind_name[LS_SHAPE_KINDS] = {
#define SHAPE(ID, name, what) [LS_SHAPE_##ID] = name,
#include "layoutspy/shape.def"
};

/* Those of layers and of transforms; not of products, attention, exchanges and kernels. */
static const char directions[][8] = {"in", "out", "inout", "touched", "nothing"};
enum { IN, OUT, INOUT, TOUCHED, NOTHING };
#define IS_IMAGES(ID)                                                                              \
    (LS_ROLE_##ID >= LS_ROLE_X && LS_ROLE_##ID <= LS_ROLE_SQUARES) ||                              \
        (LS_ROLE_##ID >= LS_ROLE_IMAGES_DST && LS_ROLE_##ID <= LS_ROLE_IMAGES_SRC) ||              \
        LS_ROLE_##ID == LS_ROLE_TENSOR || LS_ROLE_##ID == LS_ROLE_INDEX ||                         \
        LS_ROLE_##ID == LS_ROLE_INPUT || LS_ROLE_##ID == LS_ROLE_OUTPUT ||                         \
        LS_ROLE_##ID == LS_ROLE_BIAS || LS_ROLE_##ID == LS_ROLE_BIAS_GRAD
const struct ls_role_info ls_role_info[LS_ROLE_COUNT] = {
#define ROLE(ID, name, direction) [LS_ROLE_##ID] = {name, directions[direction], IS_IMAGES(ID)},
#include "layoutspy/role.def"
};

/* ---- the order in memory ---- */

/* Sizes and strides as they matter: in elements, none out of bounds. */
struct lies {
    unsigned dims;
    int64_t size[LS_SHAPE_DIMS], stride[LS_SHAPE_DIMS];
};

/* Do the dimensions lie within one another in this order, the closest first? `dense`: without
 * gaps. */
static bool nests(const struct lies *lies, const unsigned *order, unsigned count, bool *dense) {
    int64_t within = 0, full = 1; /* elements that what is inside spans, and has */
    *dense = true;
    for (unsigned i = 0; i < count; i++) {
        int64_t size = lies->size[order[i]], stride = lies->stride[order[i]], span;
        if (size <= 1)
            continue;
        if (within == 0 ? stride != 1 : stride < within)
            return false;
        *dense &= stride == full;
        if (__builtin_mul_overflow(size - 1, stride, &span) || span > LS_LARGEST ||
            __builtin_mul_overflow(full, size, &full))
            return false;
        within = span + (within ? within : 1);
    }
    return true;
}

static bool lies_so(const struct lies *lies, const unsigned *order, unsigned count,
                    enum ls_layout layout, struct ls_shape_facts *facts) {
    bool dense;
    if (!nests(lies, order, count, &dense))
        return false;
    if (facts->layout != LS_LAYOUT_UNKNOWN) {
        facts->ambiguous = true;
        return true;
    }
    facts->layout = layout;
    facts->dense = dense;
    return true;
}

static void order_tensor(const struct lies *lies, struct ls_shape_facts *facts) {
    unsigned order[LS_SHAPE_DIMS] = {0}, dims = lies->dims;
    bool images = dims == 4 || dims == 5;
    for (unsigned i = 0; i < dims; i++)
        order[i] = dims - 1 - i;
    lies_so(lies, order, dims, images ? LS_LAYOUT_NCHW : LS_LAYOUT_ROW_MAJOR, facts);
    if (images) { /* the channels, last but one here, become the first */
        memmove(order + 1, order, (dims - 2) * sizeof order[0]);
        order[0] = 1;
        lies_so(lies, order, dims, LS_LAYOUT_NHWC, facts);
    } else if (dims == 2 || dims == 3) {
        order[0] = dims - 2;
        order[1] = dims - 1;
        lies_so(lies, order, dims, LS_LAYOUT_COLUMN_MAJOR, facts);
    }
}

static void order_matrix(const struct lies *lies, bool rows, struct ls_shape_facts *facts) {
    static const unsigned column_major[] = {0, 1}, row_major[] = {1, 0};
    if (lies->dims < 2) {
        order_tensor(lies, facts);
        return;
    }
    if (rows)
        lies_so(lies, row_major, 2, LS_LAYOUT_ROW_MAJOR, facts);
    lies_so(lies, column_major, 2, LS_LAYOUT_COLUMN_MAJOR, facts);
    if (!rows)
        lies_so(lies, row_major, 2, LS_LAYOUT_ROW_MAJOR, facts);
    for (unsigned i = 2; i < lies->dims; i++)
        if (lies->size[i] > 1 && lies->stride[i] != lies->size[0] * lies->size[1])
            facts->dense = false;
}

/* ---- figures ---- */

static int64_t count_elements(const int64_t *size, unsigned dims) {
    int64_t elements = 1;
    for (unsigned i = 0; i < dims; i++)
        if (size[i] < 0)
            return 0;
        else if (__builtin_mul_overflow(elements, size[i], &elements) || elements > LS_LARGEST)
            elements = LS_LARGEST; /* of a damaged record */
    return elements;
}

/* What strides in bytes are counted in. */
static int64_t smallest(const int64_t *size, const int64_t *stride, unsigned dims) {
    int64_t least = 0;
    for (unsigned i = 0; i < dims; i++)
        if (size[i] > 1 && stride[i] > 0 && (least == 0 || stride[i] < least))
            least = stride[i];
    return least;
}

/* Bytes of `elements` of a type that may have fewer than 8 bits. */
static int64_t bytes_of(int64_t elements, unsigned bits, int64_t unit) {
    int64_t result;
    if (__builtin_mul_overflow(elements, bits ? (int64_t)bits : ls_clamped(unit, 1 << 16) * 8,
                               &result))
        return LS_LARGEST;
    return ls_clamped(result / 8 + (result % 8 != 0), LS_LARGEST);
}

/* False: it is settled, or cannot be told. */
static bool look(const struct ls_rec_shape *shape, struct lies *lies,
                 struct ls_shape_facts *facts) {
    const int64_t *size = shape->value, *stride = shape->value + shape->dims;
    bool bytes = shape->flags & LS_SHAPE_BYTES, odd = shape->vector_count > 1, still = false;
    int64_t unit = bytes && facts->unit ? facts->unit : 1, last = 0, span;
    lies->dims = shape->dims;
    if (shape->dims == 0 && !(shape->flags & LS_SHAPE_SCALAR))
        return false;
    for (unsigned i = 0; i < shape->dims; i++) {
        if (size[i] < 0)
            return false;
        lies->size[i] = size[i];
        lies->stride[i] = stride[i] / unit;
        if (size[i] <= 1)
            continue;
        still |= stride[i] == 0;
        odd |= stride[i] < 0 || stride[i] % unit != 0;
        if (__builtin_mul_overflow(size[i] - 1, lies->stride[i], &span) || span > LS_LARGEST ||
            span < -LS_LARGEST)
            odd = true;
        else
            last = ls_clamped(last + (span < 0 ? -span : span), LS_LARGEST);
    }
    facts->span = facts->elements ? bytes_of(last + 1, dtype_bits[shape->dtype], unit) : 0;
    if (shape->flags & LS_SHAPE_TILED)
        return false;
    facts->layout = still ? LS_LAYOUT_BROADCAST : odd ? LS_LAYOUT_STRIDED : LS_LAYOUT_UNKNOWN;
    return !still && !odd;
}

void ls_shape_measure(const struct ls_rec_shape *shape, struct ls_shape_facts *facts) {
    *facts = (struct ls_shape_facts){.unit = dtype_bits[shape->dtype] / 8};
    struct lies lies;
    if (shape->kind != LS_SHAPE_TENSOR && shape->kind != LS_SHAPE_MATRIX)
        return;
    if (!facts->unit && shape->flags & LS_SHAPE_BYTES)
        facts->unit = smallest(shape->value, shape->value + shape->dims, shape->dims);
    if (shape->dims || shape->flags & LS_SHAPE_SCALAR)
        facts->elements = count_elements(shape->value, shape->dims);
    facts->bytes = bytes_of(facts->elements, dtype_bits[shape->dtype], facts->unit);
    if (!look(shape, &lies, facts))
        return;
    if (facts->elements == 1) {
        facts->layout = LS_LAYOUT_NONE;
        facts->ambiguous = facts->dense = true;
        return;
    }
    if (shape->kind == LS_SHAPE_TENSOR)
        order_tensor(&lies, facts);
    else
        order_matrix(&lies, shape->flags & LS_SHAPE_ROWS, facts);
    if (facts->layout == LS_LAYOUT_UNKNOWN)
        facts->layout = LS_LAYOUT_STRIDED;
}

/* ---- texts ---- */

void ls_shape_numbers(char *text, size_t size, const int64_t *value, unsigned count) {
    size_t used = 0;
    text[used++] = '[';
    for (unsigned i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%" PRId64, i ? "," : "", value[i]);
    snprintf(text + used, size - used, "]");
}

/* One name after the other: those of lists first, each of `dims` numbers, then single numbers. */
static void put_object(char text[LS_DETAIL_TEXT], const struct ls_rec_shape *shape,
                       const char *const *lists, const char *const *numbers) {
    const int64_t *value = shape->value;
    const int64_t *end = value + (shape->head.size - sizeof *shape) / sizeof *value;
    char list[LS_NUMBERS_TEXT(LS_SHAPE_DIMS)];
    size_t used = 0;
    for (; *lists && value + shape->dims <= end; lists++, value += shape->dims) {
        ls_shape_numbers(list, sizeof list, value, shape->dims);
        used += (size_t)snprintf(text + used, LS_DETAIL_TEXT - used, "%s\"%s\":%s",
                                 used ? "," : "{", *lists, list);
    }
    for (; *numbers && value < end; numbers++, value++) {
        const char *comma = used ? "," : "{";
        if (*value == LS_RNN_NOT_TOLD)
            used += (size_t)snprintf(text + used, LS_DETAIL_TEXT - used, "%s\"%s\":null", comma,
                                     *numbers);
        else
            used += (size_t)snprintf(text + used, LS_DETAIL_TEXT - used, "%s\"%s\":%" PRId64, comma,
                                     *numbers, *value);
    }
    snprintf(text + used, LS_DETAIL_TEXT - used, used ? "}" : "{}");
}

bool ls_shape_detail(char text[LS_DETAIL_TEXT], const struct ls_rec_shape *shape) {
    static const char *const none[] = {NULL};
    static const char *const convolution[] = {"padding", "padding_after", "stride", "dilation",
                                              NULL};
    static const char *const convolution_one[] = {"groups", "mode", "math", NULL};
    static const char *const pooling[] = {"window", "padding", "stride", NULL};
    static const char *const pooling_one[] = {"mode", NULL};
    static const char *const rnn[] = {
        "cell", "direction", "input_size", "hidden_size", "projection_size", "layers", NULL};
    switch (shape->kind) {
    case LS_SHAPE_CONVOLUTION:
        put_object(text, shape, convolution, convolution_one);
        return true;
    case LS_SHAPE_POOLING:
        put_object(text, shape, pooling, pooling_one);
        return true;
    case LS_SHAPE_RNN:
        put_object(text, shape, none, rnn);
        return true;
    default:
        return false;
    }
}
