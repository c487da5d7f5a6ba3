/*
 * tap_nested.c - the driver's calls that the real runtime makes inside its own, for a listener of
 * both. One row of `rows` per function of the runtime; the simulated runtime makes no such call.
 *
 * Any thread, no lock held; not in signal handlers.
 */
#include <string.h>

#include "device.h"
#include "kernel.h"
#include "tap_call.h"

/* A function of the driver and its twin for the per-thread default stream. */
struct names {
    const char *plain, *twin;
};
#define NAMES(name, suffix)                                                                        \
    (struct names) {                                                                               \
#name, #name #suffix                                                                       \
    }

/* The parameters as words: all but 4-byte ones that share a word with their neighbour. */
#define WORD(nested, i, value) ((nested)->params[i] = (uint64_t)(uintptr_t)(value))

/* Two ints side by side, as the struct has them. */
static uint64_t pair(unsigned low, unsigned high) {
    return (uint64_t)low | (uint64_t)high << 32;
}

/* ---- memory --------------------------------------------------------------------------------- */

static struct names allocate(struct sd_nested *n, const void *params) {
    memcpy(n->params, params, 2 * sizeof(uint64_t));
    return NAMES(cuMemAlloc_v2, );
}

static struct names allocate_managed(struct sd_nested *n, const void *params) {
    memcpy(n->params, params, 3 * sizeof(uint64_t));
    return NAMES(cuMemAllocManaged, );
}

static struct names allocate_async(struct sd_nested *n, const void *params) {
    memcpy(n->params, params, 3 * sizeof(uint64_t));
    return NAMES(cuMemAllocAsync, _ptsz);
}

static struct names allocate_from_pool(struct sd_nested *n, const void *params) {
    memcpy(n->params, params, 4 * sizeof(uint64_t));
    return NAMES(cuMemAllocFromPoolAsync, _ptsz);
}

static struct names allocate_host(struct sd_nested *n, const void *params) {
    memcpy(n->params, params, 2 * sizeof(uint64_t));
    WORD(n, 2, 0);
    return NAMES(cuMemHostAlloc, );
}

static struct names allocate_host_flags(struct sd_nested *n, const void *params) {
    memcpy(n->params, params, 3 * sizeof(uint64_t));
    return NAMES(cuMemHostAlloc, );
}

static struct names release(struct sd_nested *n, const void *params) {
    memcpy(n->params, params, sizeof(uint64_t));
    return NAMES(cuMemFree_v2, );
}

static struct names release_async(struct sd_nested *n, const void *params) {
    memcpy(n->params, params, 2 * sizeof(uint64_t));
    return NAMES(cuMemFreeAsync, _ptsz);
}

static struct names release_host(struct sd_nested *n, const void *params) {
    memcpy(n->params, params, sizeof(uint64_t));
    return NAMES(cuMemFreeHost, );
}

/* ---- copies and memsets --------------------------------------------------------------------- */

struct copy_params {
    void *dst;
    const void *src;
    size_t count;
    int kind;
    const void *stream; /* of the asynchronous one */
};

static void copy_words(struct sd_nested *n, const struct copy_params *p) {
    WORD(n, 0, p->dst);
    WORD(n, 1, p->src);
    WORD(n, 2, p->count);
}

static struct names copy(struct sd_nested *n, const void *params) {
    const struct copy_params *p = params;
    copy_words(n, p);
    switch (p->kind) {
    case 1:
        return NAMES(cuMemcpyHtoD_v2, _ptds);
    case 2:
        return NAMES(cuMemcpyDtoH_v2, _ptds);
    case 3:
        return NAMES(cuMemcpyDtoD_v2, _ptds);
    default:
        return NAMES(cuMemcpy, _ptds);
    }
}

static struct names copy_async(struct sd_nested *n, const void *params) {
    const struct copy_params *p = params;
    copy_words(n, p);
    WORD(n, 3, p->stream);
    switch (p->kind) {
    case 1:
        return NAMES(cuMemcpyHtoDAsync_v2, _ptsz);
    case 2:
        return NAMES(cuMemcpyDtoHAsync_v2, _ptsz);
    case 3:
        return NAMES(cuMemcpyDtoDAsync_v2, _ptsz);
    default:
        return NAMES(cuMemcpyAsync, _ptsz);
    }
}

struct set_params {
    void *ptr;
    int value;
    size_t count;
    const void *stream;
};

static struct names set(struct sd_nested *n, const void *params) {
    const struct set_params *p = params;
    WORD(n, 0, p->ptr);
    WORD(n, 1, (unsigned char)p->value);
    WORD(n, 2, p->count);
    return NAMES(cuMemsetD8_v2, _ptds);
}

static struct names set_async(struct sd_nested *n, const void *params) {
    set(n, params);
    WORD(n, 3, ((const struct set_params *)params)->stream);
    return NAMES(cuMemsetD8Async, _ptsz);
}

/* ---- launches ------------------------------------------------------------------------------- */

/* cudaLaunchKernel, cudaLaunchCooperativeKernel, __cudaLaunchKernel */
struct launch_params {
    const void *function;
    unsigned grid[3], block[3];
    void **args;
    size_t shared;
    const void *stream;
};
/* cudaLaunchKernelExC; the configuration begins like this */
struct launch_config {
    unsigned grid[3], block[3];
    size_t shared;
    const void *stream;
    void *attributes;
    unsigned count;
};
struct launch_ex_params {
    const struct launch_config *config;
    const void *function;
    void **args;
};
/* cuLaunchKernelEx */
struct driver_launch_ex_params {
    const void *config, *function;
    void **args, **extra;
};

/* The driver's handle of a kernel, and its name. Functions of a library's own runtime are not
 * registered here: they are their own handle. */
static const void *handle_of(const void *function, const char **name) {
    if (!sd_begin_registration())
        return function;
    struct kernel *k = sd_kernel(function);
    if (k)
        *name = k->name;
    sd_end();
    return k ? (const void *)k : function;
}

static void launch_words(struct sd_nested *n, const struct launch_params *p) {
    const char *ignored;
    WORD(n, 0, handle_of(p->function, &ignored));
    n->params[1] = pair(p->grid[0], p->grid[1]);
    n->params[2] = pair(p->grid[2], p->block[0]);
    n->params[3] = pair(p->block[1], p->block[2]);
    n->params[4] = pair((unsigned)p->shared, 0);
    WORD(n, 5, p->stream);
    WORD(n, 6, p->args);
    WORD(n, 7, 0);
}

static struct names launch(struct sd_nested *n, const void *params) {
    launch_words(n, params);
    return NAMES(cuLaunchKernel, _ptsz);
}

static struct names launch_cooperative(struct sd_nested *n, const void *params) {
    launch_words(n, params);
    return NAMES(cuLaunchCooperativeKernel, _ptsz);
}

static struct names launch_ex(struct sd_nested *n, const void *params) {
    const struct launch_ex_params *p = params;
    const struct launch_config *c = p->config;
    const char *ignored;
    if (!c)
        return (struct names){NULL, NULL};
    n->config[0] = pair(c->grid[0], c->grid[1]);
    n->config[1] = pair(c->grid[2], c->block[0]);
    n->config[2] = pair(c->block[1], c->block[2]);
    n->config[3] = pair((unsigned)c->shared, 0);
    n->config[4] = (uintptr_t)c->stream;
    n->config[5] = (uintptr_t)c->attributes;
    n->config[6] = c->count;
    WORD(n, 0, n->config);
    WORD(n, 1, handle_of(p->function, &ignored));
    WORD(n, 2, p->args);
    WORD(n, 3, 0);
    return NAMES(cuLaunchKernelEx, _ptsz);
}

/* ---- graphs and waits ----------------------------------------------------------------------- */

static struct names launch_graph(struct sd_nested *n, const void *params) {
    memcpy(n->params, params, 2 * sizeof(uint64_t));
    return NAMES(cuGraphLaunch, _ptsz);
}

static struct names wait_stream(struct sd_nested *n, const void *params) {
    memcpy(n->params, params, sizeof(uint64_t));
    return NAMES(cuStreamSynchronize, _ptsz);
}

static struct names wait_device(struct sd_nested *n, const void *params) {
    (void)n, (void)params;
    return NAMES(cuCtxSynchronize, );
}

static struct names wait_event(struct sd_nested *n, const void *params) {
    memcpy(n->params, params, sizeof(uint64_t));
    return NAMES(cuEventSynchronize, );
}

/* ---- the table ------------------------------------------------------------------------------ */

static const struct row {
    const char *runtime;
    struct names (*fill)(struct sd_nested *nested, const void *params);
} rows[] = {
    {"cudaLaunchKernel", launch},
    {"__cudaLaunchKernel", launch},
    {"cudaLaunchKernelExC", launch_ex},
    {"cudaLaunchCooperativeKernel", launch_cooperative},
    {"cudaMemcpyAsync", copy_async},
    {"cudaMemcpy", copy},
    {"cudaMemset", set},
    {"cudaMemsetAsync", set_async},
    {"cudaMalloc", allocate},
    {"cudaMallocManaged", allocate_managed},
    {"cudaMallocAsync", allocate_async},
    {"cudaMallocFromPoolAsync", allocate_from_pool},
    {"cudaMallocHost", allocate_host},
    {"cudaHostAlloc", allocate_host_flags},
    {"cudaFree", release},
    {"cudaFreeAsync", release_async},
    {"cudaFreeHost", release_host},
    {"cudaGraphLaunch", launch_graph},
    {"cudaStreamSynchronize", wait_stream},
    {"cudaDeviceSynchronize", wait_device},
    {"cudaEventSynchronize", wait_event},
};

static bool has_suffix(const char *name) {
    size_t length = strlen(name);
    return length > 5 &&
           (strcmp(name + length - 5, "_ptsz") == 0 || strcmp(name + length - 5, "_ptds") == 0);
}

/* Whether a name is that one or its twin. */
static bool is(const char *name, const char *plain) {
    size_t length = strlen(plain);
    return strncmp(name, plain, length) == 0 &&
           (!name[length] || (has_suffix(name) && !name[length + 5]));
}

void sd_nested_begin(struct sd_nested *n, const struct sd_tapped *outer) {
    n->call.name = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!is(outer->name, rows[i].runtime))
            continue;
        struct names names = rows[i].fill(n, outer->params);
        if (!names.plain)
            return;
        sd_tap_make_context(sd_current_ordinal()); /* the runtime's first act */
        n->call = (struct sd_tapped){.domain = SD_DOMAIN_DRIVER,
                                     .name = has_suffix(outer->name) ? names.twin : names.plain,
                                     .params = rows[i].fill == wait_device ? NULL : n->params,
                                     .kernel = outer->kernel};
        sd_tap_enter_inside(&n->call);
        return;
    }
}

void sd_nested_kernel(struct sd_tapped *call) {
    const void *function = NULL;
    if (is(call->name, "cudaLaunchKernel") || is(call->name, "cudaLaunchCooperativeKernel") ||
        is(call->name, "__cudaLaunchKernel") || is(call->name, "cuLaunchKernel") ||
        is(call->name, "cuLaunchCooperativeKernel"))
        function = *(const void *const *)call->params;
    else if (is(call->name, "cudaLaunchKernelExC"))
        function = ((const struct launch_ex_params *)call->params)->function;
    else if (is(call->name, "cuLaunchKernelEx"))
        function = ((const struct driver_launch_ex_params *)call->params)->function;
    if (function)
        handle_of(function, &call->kernel);
}
