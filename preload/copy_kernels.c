/*
 * copy_kernels.c - reading the arguments of PyTorch's copy kernels. See copy_kernels.h.
 *
 * Sizes and strides are kept as shapes by their content; what was read before is found by its hash
 * in a table that all threads share, without a lock.
 */
#include "copy_kernels.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "copy_side.h"
#include "intern.h"
#include "known.h"
#include "operand.h"
#include "shape.h"
#include "state.h"

/* elementwise_kernel(int N, closure): the closure holds an OffsetCalculator of two tensors, which
 * are PyTorch's output and input, their addresses, the functor and in casts their types. */
struct divider {
    uint32_t divisor, magic, shift;
};
struct closure {
    int32_t dims;
    struct divider size[25]; /* of the dimensions, the innermost first */
    uint32_t stride[25][2];  /* in bytes */
    uint64_t address[2];
    int8_t functor, type[2];
};
_Static_assert(offsetof(struct closure, size) == 4 && offsetof(struct closure, stride) == 304 &&
                   offsetof(struct closure, address) == 504 &&
                   offsetof(struct closure, type) == 521,
               "as the device has it");

/* LoadWithCast<1> and StoreWithCast<1> */
struct with_cast {
    int8_t type;
    uint32_t bytes;
};
_Static_assert(offsetof(struct with_cast, bytes) == 4, "as the device has it");

/* c10::ScalarType */
static const struct ls_copy_type scalars[] = {
    [0] = {LS_DTYPE_UINT8, 1},        [1] = {LS_DTYPE_INT8, 1},
    [2] = {LS_DTYPE_INT16, 2},        [3] = {LS_DTYPE_INT32, 4},
    [4] = {LS_DTYPE_INT64, 8},        [5] = {LS_DTYPE_FLOAT16, 2},
    [6] = {LS_DTYPE_FLOAT32, 4},      [7] = {LS_DTYPE_FLOAT64, 8},
    [8] = {LS_DTYPE_COMPLEX32, 4},    [9] = {LS_DTYPE_COMPLEX64, 8},
    [10] = {LS_DTYPE_COMPLEX128, 16}, [11] = {LS_DTYPE_BOOL, 1},
    [15] = {LS_DTYPE_BFLOAT16, 2},    [23] = {LS_DTYPE_FLOAT8_E5M2, 1},
    [24] = {LS_DTYPE_FLOAT8_E4M3, 1}, [25] = {LS_DTYPE_UNKNOWN, 1},
    [26] = {LS_DTYPE_UNKNOWN, 1},     [27] = {LS_DTYPE_UINT16, 2},
    [28] = {LS_DTYPE_UINT32, 4},      [29] = {LS_DTYPE_UINT64, 8},
    [44] = {LS_DTYPE_FLOAT8_E8M0, 1},
};

static struct ls_copy_type scalar_of(int8_t type) {
    if (type < 0 || (size_t)type >= sizeof scalars / sizeof *scalars)
        return (struct ls_copy_type){LS_DTYPE_UNKNOWN, 0};
    return scalars[type];
}

bool ls_copy_kernel_fits(const struct ls_copy_kernel *kernel, const uint16_t *size,
                         uint32_t count) {
    static const struct {
        uint8_t count, at;
        uint16_t least;
    } needed[] = {
        [LS_COPY_STRIDED] = {2, 1, sizeof(uint64_t) + offsetof(struct closure, address[1])},
        [LS_COPY_STRIDED_CAST] = {2, 1, offsetof(struct closure, type[2])},
        [LS_COPY_DENSE] = {3, 2, 2 * sizeof(uint64_t)},
        [LS_COPY_DENSE_CAST] = {7, 2, 2 * sizeof(uint64_t)},
        [LS_COPY_CAT] = {5, 1, 0},
    };
    uint32_t at = needed[kernel->form].at, least = needed[kernel->form].least;
    if (kernel->form == LS_COPY_CAT) /* with the inputs' strides, of four dimensions each */
        least = kernel->batch * 21u + kernel->input_strides * 32u;
    return count == 0 ||
           (count >= needed[kernel->form].count && (size[at] == 0 || size[at] >= least));
}

/* ---- shapes ---- */

uint32_t ls_copy_shape(const struct ls_copy_side *side) {
    struct ls_shape shape;
    memset(&shape, 0, offsetof(struct ls_shape, value));
    int64_t unit = side->of.dtype == LS_DTYPE_UNKNOWN ? 1 : side->of.bytes;
    shape.kind = LS_SHAPE_TENSOR;
    shape.dims = (uint8_t)side->dims;
    shape.flags = side->of.dtype == LS_DTYPE_UNKNOWN ? LS_SHAPE_BYTES : 0;
    shape.dtype = side->of.dtype;
    shape.values = 2 * side->dims;
    for (uint32_t i = 0; i < side->dims; i++) {
        shape.value[i] = side->size[i];
        shape.value[side->dims + i] = side->stride[i] / unit;
    }
    return ls_shape_number(&shape);
}

void ls_copy_pack(struct ls_copy_side *side) {
    int64_t stride = side->of.bytes;
    for (uint32_t i = side->dims; i-- > 0; stride *= side->size[i])
        side->stride[i] = stride;
}

bool ls_copy_is_there(uint64_t address, uint64_t bytes, bool all) {
    if (!ls_known_device(address) || !ls_known_device(address + bytes - 1))
        return false;
    for (uint64_t at = 0; all && at < bytes; at += 1ull << LS_KNOWN_GRANULE)
        if (!ls_known_device(address + at))
            return false;
    return true;
}

/*
 * What was read before in this recording, and found to fit together: the numbers of two shapes, by
 * the hash of all that they were made of. Of words that two threads wrote at once none has a hash
 * that fits.
 */
#define SEEN 1024
static struct {
    _Atomic uint64_t mixed;  /* the key ^ shapes */
    _Atomic uint64_t shapes; /* of the destination, and of the source from bit 32 */
} seen[SEEN];

static uint64_t key_of(uint64_t hash) {
    return ls_hash_word(hash, atomic_load_explicit(&ls_live->epoch, memory_order_relaxed));
}

/* 0: not seen. */
static inline uint64_t seen_shapes(uint64_t key) {
    uint64_t shapes = atomic_load_explicit(&seen[key % SEEN].shapes, memory_order_relaxed);
    uint64_t mixed = atomic_load_explicit(&seen[key % SEEN].mixed, memory_order_relaxed);
    return (mixed ^ shapes) == key ? shapes : 0;
}

/* The recording knows of the shapes from here on. */
static void add_shapes(struct ls_thread *self, const struct ls_copy_side side[2],
                       const uint64_t address[2], uint64_t key) {
    ls_operand_add(self, LS_ROLE_DST, 0, ls_copy_shape(&side[0]), address[0]);
    ls_operand_add(self, LS_ROLE_SRC, 0, ls_copy_shape(&side[1]), address[1]);
    uint64_t dst = LS_OPERAND_SHAPE(self->operand[self->operand_count - 2].what);
    uint64_t src = LS_OPERAND_SHAPE(self->operand[self->operand_count - 1].what);
    if (!dst || !src)
        return;
    atomic_store_explicit(&seen[key % SEEN].shapes, dst | src << 32, memory_order_relaxed);
    atomic_store_explicit(&seen[key % SEEN].mixed, key ^ (dst | src << 32), memory_order_relaxed);
}

static inline enum ls_copy_result add_seen(struct ls_thread *self, uint64_t shapes,
                                           const uint64_t address[2]) {
    if (!ls_known_device(address[0]) || !ls_known_device(address[1]))
        return LS_COPY_ELSEWHERE;
    struct ls_operand *operand = &self->operand[self->operand_count];
    operand[0].what = LS_OPERAND(LS_ROLE_DST, 0, shapes);
    operand[0].address = address[0];
    operand[1].what = LS_OPERAND(LS_ROLE_SRC, 0, shapes >> 32);
    operand[1].address = address[1];
    self->operand_count += 2;
    return LS_COPY_TOLD;
}

static uint64_t types_of(const struct ls_copy_type of[2], int32_t count) {
    return (uint64_t)(uint32_t)count | (uint64_t)of[0].dtype << 32 | (uint64_t)of[1].dtype << 40 |
           (uint64_t)of[0].bytes << 48 | (uint64_t)of[1].bytes << 56;
}

/* ---- tensors of any strides ---- */

/* What the device divides by: as PyTorch works it out. */
static bool is_divider(const struct divider *divider) {
    uint32_t shift = 0;
    while (shift < 32 && 1ull << shift < divider->divisor)
        shift++;
    uint64_t magic = ((1ull << 32) * ((1ull << shift) - divider->divisor)) / divider->divisor + 1;
    return divider->shift == shift && divider->magic == (uint32_t)magic;
}

/* Turned around: the shape has the outermost dimension first. False: strides within elements. */
static bool read_sides(const struct closure *closure, const struct ls_copy_type of[2],
                       struct ls_copy_side side[2]) {
    uint32_t dims = (uint32_t)closure->dims;
    for (int t = 0; t < 2; t++) {
        side[t].of = of[t];
        side[t].dims = dims;
        for (uint32_t i = 0; i < dims; i++) {
            uint32_t stride = closure->stride[dims - 1 - i][t];
            if (of[t].bytes && stride % of[t].bytes)
                return false;
            side[t].size[i] = closure->size[dims - 1 - i].divisor;
            side[t].stride[i] = stride;
        }
    }
    return true;
}

/* Numbers that are met for the first time. `key`: of them. */
static __attribute__((noinline)) enum ls_copy_result
check_strided(struct ls_thread *self, const struct ls_copy_type of[2], int32_t count,
              const struct closure *closure, bool first, uint64_t key) {
    uint32_t dims = (uint32_t)closure->dims;
    uint64_t product = 1, bytes[2] = {of[0].bytes ? of[0].bytes : 1, of[1].bytes ? of[1].bytes : 1};
    for (uint32_t i = 0; i < dims; i++) {
        uint64_t size = closure->size[i].divisor;
        if (!size || (first && !is_divider(&closure->size[i])))
            return LS_COPY_UNLIKE;
        product = product <= INT32_MAX ? product * size : 0;
        bytes[0] += (size - 1) * closure->stride[i][0];
        bytes[1] += (size - 1) * closure->stride[i][1];
    }
    if (count <= 0 || product != (uint64_t)count)
        return LS_COPY_UNLIKE;
    for (int t = 0; t < 2; t++)
        if (!ls_copy_is_there(closure->address[t], bytes[t], first))
            return LS_COPY_ELSEWHERE;
    struct ls_copy_side side[2];
    if (dims > LS_SHAPE_DIMS) { /* more than a shape has */
        ls_operand_add(self, LS_ROLE_DST, 0, 0, closure->address[0]);
        ls_operand_add(self, LS_ROLE_SRC, 0, 0, closure->address[1]);
        return LS_COPY_TOLD;
    }
    if (!read_sides(closure, of, side))
        return LS_COPY_UNLIKE;
    add_shapes(self, side, closure->address, key);
    return LS_COPY_TOLD;
}

static inline enum ls_copy_result tell_strided(struct ls_thread *self,
                                               const struct ls_copy_type of[2], int32_t count,
                                               const struct closure *closure, bool first) {
    uint32_t dims = (uint32_t)closure->dims;
    if (dims > 25)
        return LS_COPY_UNLIKE;
    uint64_t hash = ls_hash_word(dims, types_of(of, count));
    for (uint32_t i = 0; i < dims; i++) {
        uint64_t strides;
        memcpy(&strides, closure->stride[i], sizeof strides);
        hash = ls_hash_word(hash ^ closure->size[i].divisor, strides);
    }
    uint64_t key = key_of(hash), shapes = seen_shapes(key);
    if (__builtin_expect(shapes && !first, 1))
        return add_seen(self, shapes, closure->address);
    return check_strided(self, of, count, closure, first, key);
}

/* ---- tensors that lie alike ---- */

static enum ls_copy_result tell_dense(struct ls_thread *self, const struct ls_copy_type of[2],
                                      int32_t count, const uint64_t address[2], bool first) {
    uint64_t key = key_of(ls_hash_word(1ull << 32, types_of(of, count)));
    uint64_t shapes = seen_shapes(key);
    if (__builtin_expect(shapes && !first, 1))
        return add_seen(self, shapes, address);
    if (count <= 0)
        return LS_COPY_UNLIKE;
    struct ls_copy_side side[2];
    for (int t = 0; t < 2; t++) {
        if (!ls_copy_is_there(address[t], (uint64_t)count * (of[t].bytes ? of[t].bytes : 1), first))
            return LS_COPY_ELSEWHERE;
        side[t] = (struct ls_copy_side){.of = of[t], .dims = 1, .size = {count}};
        ls_copy_pack(&side[t]);
    }
    if (of[0].bytes && of[1].bytes) {
        add_shapes(self, side, address, key);
        return LS_COPY_TOLD;
    }
    ls_operand_add(self, LS_ROLE_DST, 0, 0, address[0]);
    ls_operand_add(self, LS_ROLE_SRC, 0, 0, address[1]);
    return LS_COPY_TOLD;
}

enum ls_copy_result ls_copy_kernel_tell(struct ls_thread *self, const struct ls_copy_kernel *kernel,
                                        void *const *args, uint32_t inputs, bool first) {
    /* Another thread may find meanwhile that the kernel is none: its form is looked at once, and
     * nothing of its arguments is before. */
    const uint8_t form = *(const volatile uint8_t *)&kernel->form;
    if (form == LS_COPY_NONE)
        return LS_COPY_ELSEWHERE;
    const struct closure *closure = args[1];
    struct ls_copy_type of[2] = {{kernel->dst_dtype, kernel->dst_bytes},
                                 {kernel->src_dtype, kernel->src_bytes}};
    switch (form) {
    case LS_COPY_STRIDED_CAST:
        for (int t = 0; t < 2; t++)
            if (!(of[t] = scalar_of(closure->type[t])).bytes)
                return LS_COPY_UNLIKE;
        return tell_strided(self, of, *(const int32_t *)args[0], closure, first);
    case LS_COPY_STRIDED:
        return tell_strided(self, of, *(const int32_t *)args[0], closure, first);
    case LS_COPY_DENSE_CAST:
        for (int t = 0; t < 2; t++) {
            const struct with_cast *cast = args[6 - t];
            of[t] = scalar_of(cast->type);
            if (!of[t].bytes || of[t].bytes != cast->bytes)
                return LS_COPY_UNLIKE;
        }
        return tell_dense(self, of, *(const int32_t *)args[0], args[2], first);
    case LS_COPY_DENSE:
        return tell_dense(self, of, *(const int32_t *)args[0], args[2], first);
    default:
        return ls_copy_cat_tell(self, kernel, args, inputs, first);
    }
}
