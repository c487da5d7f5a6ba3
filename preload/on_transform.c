/*
 * on_transform.c - see on_transform.h. A table of fixed size: plans beyond it are not known.
 */
#include "on_transform.h"

#include <stdatomic.h>
#include <stddef.h>

#include "operand.h"
#include "shape.h"

enum { IN, OUT, SIDES };

/* ---- plans ------------------------------------------------------------------------------------
 */

#define PLANS 8192 /* PyTorch keeps up to 4096 for each device */
#define PROBES 16

struct plan {
    _Atomic uint64_t key; /* the number and one; 0: free */
    /* Numbers of shapes of both sides, apart from one another and in one place. */
    _Atomic uint32_t shape[SIDES], in_place[SIDES];
};
static struct plan plans[PLANS];

static struct plan *find(int number, bool make) {
    const uint64_t key = (uint64_t)(uint32_t)number + 1;
    for (unsigned i = 0; i < PROBES; i++) {
        struct plan *plan = &plans[((unsigned)number + i) % PLANS];
        if (atomic_load_explicit(&plan->key, memory_order_acquire) == key)
            return plan;
    }
    for (unsigned i = 0; make && i < PROBES; i++) {
        struct plan *plan = &plans[((unsigned)number + i) % PLANS];
        uint64_t none = 0;
        if (atomic_compare_exchange_strong(&plan->key, &none, key))
            return plan;
    }
    return NULL;
}

/* ---- their shapes -----------------------------------------------------------------------------
 */

static bool is_real(int type) {
    return type == LS_CUDA_R_32F || type == LS_CUDA_R_64F || type == LS_CUDA_R_16F ||
           type == LS_CUDA_R_16BF;
}

/* One side of the data. */
struct side {
    int type;
    int64_t size[LS_FFT_RANK]; /* of the transform */
    int64_t row[LS_FFT_RANK];  /* that the elements lie in: of the first dimension unused */
    int64_t stride, distance;
    bool halved; /* complex numbers of a real transform: the later half would repeat the first */
};

static uint32_t shape_of(const struct side *side, int rank, int64_t batch) {
    const int first = batch > 1;
    struct ls_shape shape = {.kind = LS_SHAPE_TENSOR,
                             .dims = (uint8_t)(rank + first),
                             .dtype = ls_cuda_dtype(side->type),
                             .dtype_told = side->type,
                             .values = (uint32_t)(2 * (rank + first))};
    int64_t *size = shape.value, *stride = shape.value + rank + first, step = side->stride;
    if (first) {
        size[0] = batch;
        stride[0] = side->distance;
    }
    for (int i = rank - 1; i >= 0; i--) {
        size[i + first] = side->size[i];
        stride[i + first] = step;
        step *= side->row[i];
    }
    if (side->halved)
        size[rank - 1 + first] = side->size[rank - 1] / 2 + 1;
    return ls_shape_number(&shape);
}

/* As cuFFT has it by itself: one behind the other; real numbers that become complex ones in their
 * own place have room for those. */
static void lie_packed(struct side *side, const struct side *other, int rank, bool in_place) {
    side->stride = side->distance = 1;
    for (int i = 0; i < rank; i++)
        side->row[i] = side->size[i];
    if (side->halved)
        side->row[rank - 1] = side->size[rank - 1] / 2 + 1;
    else if (other->halved && in_place)
        side->row[rank - 1] = 2 * (side->size[rank - 1] / 2 + 1);
    for (int i = 0; i < rank; i++)
        side->distance *= side->row[i];
}

static void keep(int number, int rank, int64_t batch, struct side sides[SIDES],
                 const bool packed[SIDES]) {
    struct plan *plan = find(number, true);
    if (!plan)
        return;
    sides[OUT].halved = is_real(sides[IN].type) && !is_real(sides[OUT].type);
    sides[IN].halved = is_real(sides[OUT].type) && !is_real(sides[IN].type);
    for (int i = IN; i < SIDES; i++) {
        if (packed[i])
            lie_packed(&sides[i], &sides[!i], rank, false);
        atomic_store(&plan->shape[i], shape_of(&sides[i], rank, batch));
        if (packed[i])
            lie_packed(&sides[i], &sides[!i], rank, true);
        atomic_store(&plan->in_place[i], shape_of(&sides[i], rank, batch));
    }
}

/* ---- what the rows call -----------------------------------------------------------------------
 */

int ls_fft_type(int type, bool in) {
    switch (type) {
    case 0x29: /* C2C */
        return LS_CUDA_C_32F;
    case 0x2a: /* R2C */
        return in ? LS_CUDA_R_32F : LS_CUDA_C_32F;
    case 0x2c: /* C2R */
        return in ? LS_CUDA_C_32F : LS_CUDA_R_32F;
    case 0x69: /* Z2Z */
        return LS_CUDA_C_64F;
    case 0x6a: /* D2Z */
        return in ? LS_CUDA_R_64F : LS_CUDA_C_64F;
    case 0x6c: /* Z2D */
        return in ? LS_CUDA_C_64F : LS_CUDA_R_64F;
    default:
        return LS_CUDA_TYPE_NONE;
    }
}

void ls_fft_made(int status, int plan, const struct ls_fft *as) {
    struct side sides[SIDES] = {{.type = as->type_in}, {.type = as->type_out}};
    if (status != 0)
        return;
    for (int i = 0; i < as->rank; i++)
        sides[IN].size[i] = sides[OUT].size[i] = as->size[i];
    keep(plan, as->rank, as->batch, sides, (const bool[SIDES]){true, true});
}

static int64_t at(const struct ls_fft_many *as, const void *array, int i) {
    return as->wide ? ((const long long *)array)[i] : ((const int *)array)[i];
}

void ls_fft_made_many(int status, int plan, const struct ls_fft_many *as) {
    struct side sides[SIDES] = {
        {.type = as->type_in, .stride = as->stride_in, .distance = as->distance_in},
        {.type = as->type_out, .stride = as->stride_out, .distance = as->distance_out}};
    const void *embed[SIDES] = {as->embed_in, as->embed_out};
    if (status != 0 || as->rank < 1 || as->rank > LS_FFT_RANK || !as->size)
        return;
    for (int i = 0; i < as->rank; i++)
        for (int side = IN; side < SIDES; side++) {
            sides[side].size[i] = at(as, as->size, i);
            sides[side].row[i] = embed[side] ? at(as, embed[side], i) : 0;
        }
    keep(plan, as->rank, as->batch, sides, (const bool[SIDES]){!embed[IN], !embed[OUT]});
}

void ls_fft_gone(int status, int plan) {
    struct plan *gone = find(plan, false);
    if (status != 0 || !gone)
        return;
    for (int i = IN; i < SIDES; i++) {
        atomic_store(&gone->shape[i], 0);
        atomic_store(&gone->in_place[i], 0);
    }
    atomic_store_explicit(&gone->key, 0, memory_order_release);
}

void ls_fft(struct ls_thread *self, int plan, const void *in, const void *out) {
    const struct plan *made = find(plan, false);
    const _Atomic uint32_t *shape = !made ? NULL : in == out ? made->in_place : made->shape;
    ls_operand_add(self, LS_ROLE_INPUT, 0, shape ? atomic_load(&shape[IN]) : 0, (uintptr_t)in);
    ls_operand_add(self, LS_ROLE_OUTPUT, 0, shape ? atomic_load(&shape[OUT]) : 0, (uintptr_t)out);
}
