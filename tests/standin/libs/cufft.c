/*
 * cufft.c - cuFFT: plans with work areas, streams, and transforms without arithmetic. Any thread:
 * one lock guards the table of plans; not safe in a signal handler.
 *
 * Fields: plan; on making a plan rank dims batch size (of its work area); on transforms stream src
 * dst direction.
 */
#include <pthread.h>
#include <stdio.h>

#include "cufft_types.h"
#include "lib.h"

#define EXPORT STANDIN_EXPORT cufftResult
#define PLANS 8192 /* PyTorch keeps up to 4096 */
#define MAX_RANK 3
#define WORK_GRANULE (2u << 20) /* a plan of its own takes device memory in these steps */

struct plan {
    bool used, made, own_area;
    cudaStream_t stream;
    void *area; /* own or given */
    size_t area_size;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct plan plans[PLANS];

/* A handle is the plan's number plus one. NULL for a dead one. */
static struct plan *plan_of(cufftHandle handle) {
    return handle > 0 && handle <= PLANS && plans[handle - 1].used ? &plans[handle - 1] : NULL;
}

static int create(cufftHandle *handle) {
    if (!handle)
        return CUFFT_INVALID_VALUE;
    if (standin_need_context())
        return CUFFT_SETUP_FAILED;
    int status = CUFFT_ALLOC_FAILED;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < PLANS && status; i++) {
        if (plans[i].used)
            continue;
        plans[i] = (struct plan){.used = true, .own_area = true};
        *handle = i + 1;
        status = 0;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static int destroy(cufftHandle handle) {
    pthread_mutex_lock(&lock);
    struct plan *plan = plan_of(handle);
    void *area = plan && plan->own_area ? plan->area : NULL;
    if (plan)
        plan->used = false;
    pthread_mutex_unlock(&lock);
    if (area)
        standin_internal_free(area);
    return plan ? 0 : CUFFT_INVALID_PLAN;
}

EXPORT cufftCreate(cufftHandle *handle) {
    LIB_ENTER(call);
    int status = call.fault ? call.fault : create(handle);
    standin_put_signed(&call, "plan", status ? 0 : *handle);
    return standin_leave(&call, status);
}

EXPORT cufftDestroy(cufftHandle handle) {
    LIB_ENTER(call);
    standin_put_signed(&call, "plan", handle);
    return standin_leave(&call, call.fault ? call.fault : destroy(handle));
}

/* ---- settings ---- */

EXPORT cufftSetStream(cufftHandle handle, cudaStream_t stream) {
    LIB_ENTER(call);
    struct plan *plan = plan_of(handle);
    int status = lib_status(&call, plan ? 0 : CUFFT_INVALID_PLAN);
    standin_put_signed(&call, "plan", handle);
    lib_put_pointer(&call, "stream", stream);
    if (status == 0)
        plan->stream = stream;
    return standin_leave(&call, status);
}

EXPORT cufftSetAutoAllocation(cufftHandle handle, int automatic) {
    LIB_ENTER(call);
    struct plan *plan = plan_of(handle);
    int status = lib_status(&call, plan ? 0 : CUFFT_INVALID_PLAN);
    standin_put_signed(&call, "plan", handle);
    standin_put_signed(&call, "value", automatic);
    if (status == 0)
        plan->own_area = automatic != 0;
    return standin_leave(&call, status);
}

EXPORT cufftSetWorkArea(cufftHandle handle, void *area) {
    LIB_ENTER(call);
    struct plan *plan = plan_of(handle);
    int status = lib_status(&call, plan ? 0 : CUFFT_INVALID_PLAN);
    standin_put_signed(&call, "plan", handle);
    lib_put_pointer(&call, "ptr", area);
    standin_put(&call, "size", 0); /* which the program does not say */
    if (status == 0) {
        if (plan->own_area && plan->area)
            standin_internal_free(plan->area);
        plan->own_area = false;
        plan->area = area;
    }
    return standin_leave(&call, status);
}

EXPORT cufftGetSize(cufftHandle handle, size_t *size) {
    LIB_ENTER(call);
    struct plan *plan = plan_of(handle);
    int status = lib_status(&call, !plan ? CUFFT_INVALID_PLAN : size ? 0 : CUFFT_INVALID_VALUE);
    if (status == 0)
        *size = plan->area_size;
    return standin_leave(&call, status);
}

EXPORT cufftGetVersion(int *version) {
    LIB_ENTER(call);
    int status = lib_status(&call, version ? 0 : CUFFT_INVALID_VALUE);
    if (status == 0)
        *version = STANDIN_CUFFT_VERSION;
    return standin_leave(&call, status);
}

/* ---- making plans ---- */

struct shape {
    int rank;
    long long dims[MAX_RANK];
    long long batch;
    size_t element; /* bytes of a complex number of the transform */
};

static size_t element_of(cufftType type) {
    switch ((int)type) {
    case CUFFT_C2C:
    case CUFFT_R2C:
    case CUFFT_C2R:
        return 8;
    case CUFFT_Z2Z:
    case CUFFT_D2Z:
    case CUFFT_Z2D:
        return 16;
    default:
        return 0;
    }
}

static int take_area(struct plan *plan) {
    if (!plan->own_area)
        return 0;
    size_t granules = (plan->area_size + WORK_GRANULE - 1) / WORK_GRANULE;
    return standin_internal_alloc(&plan->area, (granules ? granules : 1) * (size_t)WORK_GRANULE)
               ? CUFFT_ALLOC_FAILED
               : 0;
}

static int make(struct standin_call *call, cufftHandle handle, const struct shape *shape,
                size_t *size) {
    struct plan *plan = plan_of(handle);
    long long elements = shape->batch;
    standin_put_signed(call, "rank", shape->rank);
    char dims[80];
    snprintf(dims, sizeof dims, "%lld,%lld,%lld", shape->dims[0], shape->dims[1], shape->dims[2]);
    standin_put_text(call, "dims", dims);
    standin_put_signed(call, "batch", shape->batch);
    if (call->fault)
        return call->fault;
    if (!plan || plan->made)
        return CUFFT_INVALID_PLAN;
    if (shape->rank < 1 || shape->rank > MAX_RANK || !shape->element)
        return shape->element ? CUFFT_INVALID_VALUE : CUFFT_INVALID_TYPE;
    if (shape->batch < 1)
        return CUFFT_INVALID_SIZE;
    for (int i = 0; i < shape->rank; i++) {
        if (shape->dims[i] < 1)
            return CUFFT_INVALID_SIZE;
        elements *= shape->dims[i];
    }
    plan->area_size = (size_t)elements * shape->element;
    int status = take_area(plan);
    plan->made = status == 0;
    if (size)
        *size = plan->area_size;
    standin_put(call, "size", plan->area_size);
    return status;
}

static struct shape shape_of(int rank, const long long *dims, long long batch, size_t element) {
    struct shape shape = {.rank = rank, .batch = batch, .element = element};
    for (int i = 0; dims && i < rank && i < MAX_RANK; i++)
        shape.dims[i] = dims[i];
    return shape;
}

static struct shape shape_of_ints(int rank, const int *dims, long long batch, size_t element) {
    struct shape shape = {.rank = rank, .batch = batch, .element = element};
    for (int i = 0; dims && i < rank && i < MAX_RANK; i++)
        shape.dims[i] = dims[i];
    return shape;
}

#define MAKE(...)                                                                                  \
    LIB_ENTER(call);                                                                               \
    struct shape shape = __VA_ARGS__;                                                              \
    standin_put_signed(&call, "plan", plan);                                                       \
    return standin_leave(&call, make(&call, plan, &shape, size))

EXPORT cufftMakePlan1d(cufftHandle plan, int nx, cufftType type, int batch, size_t *size) {
    MAKE({1, {nx}, batch, element_of(type)});
}

EXPORT cufftMakePlan2d(cufftHandle plan, int nx, int ny, cufftType type, size_t *size) {
    MAKE({2, {nx, ny}, 1, element_of(type)});
}

EXPORT cufftMakePlan3d(cufftHandle plan, int nx, int ny, int nz, cufftType type, size_t *size) {
    MAKE({3, {nx, ny, nz}, 1, element_of(type)});
}

EXPORT cufftMakePlanMany(cufftHandle plan, int rank, int *n, int *inembed, int istride, int idist,
                         int *onembed, int ostride, int odist, cufftType type, int batch,
                         size_t *size) {
    (void)inembed, (void)istride, (void)idist, (void)onembed, (void)ostride, (void)odist;
    MAKE(shape_of_ints(rank, n, batch, element_of(type)));
}

EXPORT cufftMakePlanMany64(cufftHandle plan, int rank, long long int *n, long long int *inembed,
                           long long int istride, long long int idist, long long int *onembed,
                           long long int ostride, long long int odist, cufftType type,
                           long long int batch, size_t *size) {
    (void)inembed, (void)istride, (void)idist, (void)onembed, (void)ostride, (void)odist;
    MAKE(shape_of(rank, n, batch, element_of(type)));
}

/* The element is taken from the type that the transform computes in. */
EXPORT cufftXtMakePlanMany(cufftHandle plan, int rank, long long int *n, long long int *inembed,
                           long long int istride, long long int idist, cudaDataType inputtype,
                           long long int *onembed, long long int ostride, long long int odist,
                           cudaDataType outputtype, long long int batch, size_t *size,
                           cudaDataType executiontype) {
    (void)inembed, (void)istride, (void)idist, (void)onembed, (void)ostride, (void)odist;
    (void)inputtype, (void)outputtype;
    MAKE(shape_of(rank, n, batch, executiontype == CUDA_C_64F ? 16 : 8));
}

/* Create and make in one call: the plan goes again where making it fails. */
#define PLAN(...)                                                                                  \
    LIB_ENTER(call);                                                                               \
    struct shape shape = __VA_ARGS__;                                                              \
    int status = call.fault ? call.fault : create(plan);                                           \
    if (status == 0 && (status = make(&call, *plan, &shape, NULL)) != 0)                           \
        destroy(*plan);                                                                            \
    standin_put_signed(&call, "plan", status ? 0 : *plan);                                         \
    return standin_leave(&call, status)

EXPORT cufftPlan1d(cufftHandle *plan, int nx, cufftType type, int batch) {
    PLAN({1, {nx}, batch, element_of(type)});
}

EXPORT cufftPlan2d(cufftHandle *plan, int nx, int ny, cufftType type) {
    PLAN({2, {nx, ny}, 1, element_of(type)});
}

EXPORT cufftPlan3d(cufftHandle *plan, int nx, int ny, int nz, cufftType type) {
    PLAN({3, {nx, ny, nz}, 1, element_of(type)});
}

EXPORT cufftPlanMany(cufftHandle *plan, int rank, int *n, int *inembed, int istride, int idist,
                     int *onembed, int ostride, int odist, cufftType type, int batch) {
    (void)inembed, (void)istride, (void)idist, (void)onembed, (void)ostride, (void)odist;
    PLAN(shape_of_ints(rank, n, batch, element_of(type)));
}

/* ---- transforms ---- */

static int transform(struct standin_call *call, cufftHandle handle, const void *in, void *out,
                     int direction) {
    const struct plan *plan = plan_of(handle);
    standin_put_signed(call, "plan", handle);
    if (plan)
        lib_put_pointer(call, "stream", plan->stream);
    lib_put_pointer(call, "src", in);
    lib_put_pointer(call, "dst", out);
    standin_put_signed(call, "direction", direction);
    if (call->fault)
        return call->fault;
    if (!plan || !plan->made)
        return CUFFT_INVALID_PLAN;
    if (!in || !out || (direction != CUFFT_FORWARD && direction != CUFFT_INVERSE))
        return CUFFT_INVALID_VALUE;
    if (plan->area_size && !plan->area)
        return CUFFT_NO_WORKSPACE;
    if (!standin_reachable(in, 1) || !standin_reachable(out, 1))
        return CUFFT_EXEC_FAILED;
    if (standin_launch((standin_stream)plan->stream, "cufft_kernel", NULL, NULL, 0))
        return CUFFT_EXEC_FAILED;
    return 0;
}

#define TRANSFORM(direction)                                                                       \
    LIB_ENTER(call);                                                                               \
    return standin_leave(&call, transform(&call, plan, in, out, direction))

EXPORT cufftXtExec(cufftHandle plan, void *in, void *out, int direction) {
    TRANSFORM(direction);
}

EXPORT cufftExecC2C(cufftHandle plan, cufftComplex *in, cufftComplex *out, int direction) {
    TRANSFORM(direction);
}

EXPORT cufftExecR2C(cufftHandle plan, cufftReal *in, cufftComplex *out) {
    TRANSFORM(CUFFT_FORWARD);
}

EXPORT cufftExecC2R(cufftHandle plan, cufftComplex *in, cufftReal *out) {
    TRANSFORM(CUFFT_INVERSE);
}

EXPORT cufftExecZ2Z(cufftHandle plan, cufftDoubleComplex *in, cufftDoubleComplex *out,
                    int direction) {
    TRANSFORM(direction);
}

EXPORT cufftExecD2Z(cufftHandle plan, cufftDoubleReal *in, cufftDoubleComplex *out) {
    TRANSFORM(CUFFT_FORWARD);
}

EXPORT cufftExecZ2D(cufftHandle plan, cufftDoubleComplex *in, cufftDoubleReal *out) {
    TRANSFORM(CUFFT_INVERSE);
}
