/*
 * copy_names.c - which of PyTorch's copy kernels a kernel is, by its name. See copy_kernels.h.
 *
 * Names are those that nvcc mangles: template, the functor with the type that it takes, and what
 * the other parameters are. Asked once per kernel. Any thread; async-signal-safe.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "copy_side.h"
#include "layoutspy/shape.h"

static bool begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

static bool ends(const char *text, const char *with) {
    size_t length = strlen(text), end = strlen(with);
    return length >= end && strcmp(text + length - end, with) == 0;
}

/* C++ types as they are mangled. Of some, the trace has no type: their size alone counts. */
static const struct type {
    char name[28];
    uint8_t dtype, bytes;
} types[] = {
    {"fE", LS_DTYPE_FLOAT32, 4},
    {"N3c104HalfEE", LS_DTYPE_FLOAT16, 2},
    {"N3c108BFloat16EE", LS_DTYPE_BFLOAT16, 2},
    {"lE", LS_DTYPE_INT64, 8},
    {"dE", LS_DTYPE_FLOAT64, 8},
    {"iE", LS_DTYPE_INT32, 4},
    {"bE", LS_DTYPE_BOOL, 1},
    {"hE", LS_DTYPE_UINT8, 1},
    {"aE", LS_DTYPE_INT8, 1},
    {"sE", LS_DTYPE_INT16, 2},
    {"tE", LS_DTYPE_UINT16, 2},
    {"jE", LS_DTYPE_UINT32, 4},
    {"mE", LS_DTYPE_UINT64, 8},
    {"N3c107complexIfEEE", LS_DTYPE_COMPLEX64, 8},
    {"N3c107complexIdEEE", LS_DTYPE_COMPLEX128, 16},
    {"N3c1013Float8_e4m3fnEE", LS_DTYPE_FLOAT8_E4M3, 1},
    {"N3c1011Float8_e5m2EE", LS_DTYPE_FLOAT8_E5M2, 1},
    {"N3c1014Float8_e8m0fnuEE", LS_DTYPE_FLOAT8_E8M0, 1},
    {"N3c1015Float8_e4m3fnuzEE", LS_DTYPE_UNKNOWN, 1},
    {"N3c1015Float8_e5m2fnuzEE", LS_DTYPE_UNKNOWN, 1},
    {"N3c1016Float4_e2m1fn_x2EE", LS_DTYPE_UNKNOWN, 1},
    {"N3c105qint8EE", LS_DTYPE_UNKNOWN, 1},
    {"N3c106quint8EE", LS_DTYPE_UNKNOWN, 1},
    {"N3c106qint32EE", LS_DTYPE_UNKNOWN, 4},
    {"N3c105bits8EE", LS_DTYPE_UNKNOWN, 1},
    {"N3c106bits16EE", LS_DTYPE_UNKNOWN, 2},
};

static struct type taken_type(const char *functor) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (begins(functor, types[i].name))
            return types[i];
    return (struct type){.dtype = LS_DTYPE_UNKNOWN};
}

struct ls_copy_type ls_copy_type_named(const char *mangled) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strncmp(mangled, types[i].name, strlen(types[i].name) - 1) == 0)
            return (struct ls_copy_type){types[i].dtype, types[i].bytes};
    return (struct ls_copy_type){LS_DTYPE_UNKNOWN, 0};
}

/* Functors that return another type than they take. Other copies return what they take. */
static const struct functor {
    char name[40];
    uint8_t dtype, bytes;
} casts[] = {
    {"24float16_copy_kernel_cuda", LS_DTYPE_FLOAT16, 2},
    {"25bfloat16_copy_kernel_cuda", LS_DTYPE_BFLOAT16, 2},
    {"34bfloat16tofloat32_copy_kernel_cuda", LS_DTYPE_FLOAT32, 4},
    {"33float16tofloat32_copy_kernel_cuda", LS_DTYPE_FLOAT32, 4},
    {"23float4_copy_kernel_cuda", LS_DTYPE_UNKNOWN, 1},
};

/* float8_copy_kernel_cuda has its types one after the other: the lambdas that take the same are
 * numbered in that order. `lambda`: from what it takes on. */
static struct type float8_type(const char *lambda, struct type taken) {
    const char *number = lambda + strlen(taken.name);
    struct type type = {.dtype = LS_DTYPE_UNKNOWN, .bytes = 1};
    if (taken.bytes == 1)
        return taken; /* a plain copy */
    if (taken.bytes && *number == '_')
        type.dtype = LS_DTYPE_FLOAT8_E4M3;
    if (taken.bytes && begins(number, "0_"))
        type.dtype = LS_DTYPE_FLOAT8_E5M2;
    return type;
}

static struct type returned_type(const char *name, const char *lambda, struct type taken) {
    if (strstr(name, "23direct_copy_kernel_cuda"))
        return taken;
    if (strstr(name, "23float8_copy_kernel_cuda"))
        return float8_type(lambda, taken);
    for (size_t i = 0; i < sizeof casts / sizeof *casts; i++)
        if (strstr(name, casts[i].name))
            return (struct type){.dtype = casts[i].dtype, .bytes = casts[i].bytes};
    return (struct type){.dtype = LS_DTYPE_UNKNOWN};
}

/* Types from what follows the functor's own name: a lambda, "UlfE_", within the function. */
static void name_types(const char *name, struct ls_copy_kernel *out) {
    const char *functor = strstr(name, "_copy_kernel_cuda");
    const char *lambda = functor ? strstr(functor, "EUl") : NULL;
    if (!lambda)
        return;
    struct type taken = taken_type(lambda + 3), returned = returned_type(name, lambda + 3, taken);
    out->src_dtype = taken.dtype, out->src_bytes = taken.bytes;
    out->dst_dtype = returned.dtype, out->dst_bytes = returned.bytes;
}

/* The number at *at, which an `after` follows; *at moves behind it. -1: there is none. */
static long number(const char **at, const char *before, const char *after) {
    char *end;
    if (!begins(*at, before))
        return -1;
    long value = strtol(*at + strlen(before), &end, 10);
    if (end == *at + strlen(before) || !begins(end, after) || value < 0 || value > 1024)
        return -1;
    *at = end + strlen(after);
    return value;
}

/* CatArrayBatchedCopy*<OpaqueType<4>, unsigned, dims, batch, strides[, alignment[, vector]]> */
static struct ls_copy_kernel cat_named(const char *name) {
    const struct ls_copy_kernel none = {.form = LS_COPY_NONE};
    const char *at = strstr(name, "10OpaqueTypeILj");
    if (!at)
        return none;
    at += strlen("10OpaqueType");
    long bytes = number(&at, "ILj", "EEE");
    long dims = number(&at, "jLi", "E"), batch = number(&at, "Li", "E");
    long strides = number(&at, "Li", "E");
    if (bytes < 1 || bytes > 16 || dims < 1 || dims > 4 || batch < 1 ||
        (strides != 1 && strides != batch))
        return none;
    long vector = 1;
    if (strstr(name, "CatArrayBatchedCopy_vectorized")) {
        number(&at, "Li", "E"); /* the alignment */
        vector = number(&at, "Li", "E");
        if (vector < 1 || vector > 16)
            return none;
    }
    return (struct ls_copy_kernel){.form = LS_COPY_CAT,
                                   .dst_bytes = (uint8_t)bytes,
                                   .src_bytes = (uint8_t)bytes,
                                   .dims = (uint8_t)dims,
                                   .vector = (uint8_t)vector,
                                   .batch = (uint16_t)batch,
                                   .input_strides = (uint16_t)strides};
}

static enum ls_copy_form form_of(const char *name) {
    const char *template = name + strlen("_ZN2at6native");
    if (begins(template, "18elementwise_kernelI") && ends(name, "EUliE_EEviT1_")) {
        if (strstr(name, "22gpu_kernel_impl_nocastI"))
            return LS_COPY_STRIDED;
        return strstr(name, "15gpu_kernel_implI") ? LS_COPY_STRIDED_CAST : LS_COPY_NONE;
    }
    if (!strstr(name, "St5arrayIPcLm2EE") && !strstr(name, "5ArrayIPcLi2EE"))
        return LS_COPY_NONE;
    if (begins(template, "29vectorized_elementwise_kernelI"))
        return LS_COPY_DENSE;
    if (!begins(template, "27unrolled_elementwise_kernelI") ||
        !strstr(name, "23TrivialOffsetCalculatorI"))
        return LS_COPY_NONE;
    if (strstr(name, "12LoadWithCastI") && strstr(name, "13StoreWithCastI"))
        return LS_COPY_DENSE_CAST;
    return strstr(name, "15LoadWithoutCast") ? LS_COPY_DENSE : LS_COPY_NONE;
}

struct ls_copy_kernel ls_copy_kernel_named(const char *name) {
    struct ls_copy_kernel out = {.form = LS_COPY_NONE};
    if (!begins(name, "_ZN2at6native"))
        return out;
    if (strstr(name, "CatArrayBatchedCopy"))
        return cat_named(name);
    if (!strstr(name, "_copy_kernel_cuda"))
        return out;
    out.form = (uint8_t)form_of(name);
    if (out.form == LS_COPY_STRIDED || out.form == LS_COPY_DENSE)
        name_types(name, &out);
    return out;
}
