/*
 * kernel_params.c - how long a kernel's parameters are. See kernel.h.
 *
 * On a device that is in the kernel's code, which is not read here. Instead, names tell it: a C++
 * name has the types of the parameters. Of types that are structs only those are known that matter
 * to the tests (PyTorch's own); any other counts as one byte, less than it is. Names that are not
 * C++'s tell nothing. Made readable by the C++ library, if there is one.
 */
#include "kernel.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static char *readable(const char *name) {
    typedef char *demangle(const char *, char *, size_t *, int *);
    static demangle *function;
    static bool looked;
    if (!looked) {
        void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
        void *symbol = library ? dlsym(library, "__cxa_demangle") : NULL;
        memcpy(&function, &symbol, sizeof function);
        looked = true;
    }
    int status = 0;
    return function && strncmp(name, "_Z", 2) == 0 ? function(name, NULL, NULL, &status) : NULL;
}

static bool begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

static long number_after(const char *text, const char *before) {
    const char *at = strstr(text, before);
    return at ? strtol(at + strlen(before), NULL, 10) : 0;
}

struct size {
    unsigned size, alignment;
};

/* PyTorch's: of 64 or 128 inputs, whose strides are told once or of each. */
static struct size inputs_of_cat(const char *type) {
    const char *at = strstr(type, "unsigned int, ");
    long inputs = number_after(type, "unsigned int, "), strides = 1;
    if (at && strchr(at + 14, ','))
        strides = strtol(strchr(at + 14, ',') + 1, NULL, 10);
    return (struct size){(unsigned)(inputs * 21 + strides * 32 + 7) & ~7u, 8};
}

/* PyTorch's, of kernels over lists of tensors: addresses, numbers of elements, what each of 320
 * blocks works on; between them scalars, or the addresses of an optimizer's counts of steps. */
static struct size lists(const char *type) {
    static const unsigned room[] = {110, 64, 48, 36, 30}, fewer[] = {96, 64, 48, 36, 30};
    const char *end = strrchr(type, '>');
    while (end && end > type && (end[-1] == '>' || end[-1] == ' '))
        end--;
    unsigned count = end && end > type ? (unsigned)(end[-1] - '0') : 0;
    if (count < 1 || count > 5)
        return (struct size){1, 1};
    bool scalars = strstr(type, "TensorListScalarListMetadata<") != NULL, own = true;
    unsigned tensors = scalars ? fewer[count - 1] : room[count - 1], more = 0;
    if (strstr(type, "FusedOptimizerTensorListMetadata<"))
        more = fewer[count - 1] * 8;
    if (scalars) {
        bool wide =
            strstr(type, "<double") || strstr(type, "<long") || strstr(type, "complex<float");
        bool widest = strstr(type, "complex<double");
        if (widest && count <= 2)
            tensors = count == 1 ? 72 : 60;
        more = tensors * (widest ? 16 : wide ? 8 : 4);
        own = false;
    }
    unsigned bytes = 8 * (count + 1) * tensors + more + 320 * 5 + (own ? 4 : 0);
    return (struct size){(bytes + 7) & ~7u, 8};
}

static struct size size_of(const char *type, size_t length) {
    static const struct {
        const char *begin;
        struct size size;
    } known[] = {
        {"unsigned char", {1, 1}},
        {"signed char", {1, 1}},
        {"char", {1, 1}},
        {"bool", {1, 1}},
        {"unsigned short", {2, 2}},
        {"short", {2, 2}},
        {"unsigned int", {4, 4}},
        {"int", {4, 4}},
        {"unsigned long", {8, 8}},
        {"long", {8, 8}},
        {"float", {4, 4}},
        {"double", {8, 8}},
        {"c10::Half", {2, 2}},
        {"c10::BFloat16", {2, 2}},
        {"__half", {2, 2}},
        {"at::native::memory::LoadWithCast<1>", {8, 4}},
        {"at::native::memory::StoreWithCast<1>", {8, 4}},
        {"at::native::gpu_kernel_impl", {528, 8}},
    };
    if (length && (type[length - 1] == '*' || type[length - 1] == '&'))
        return (struct size){8, 8};
    if (begins(type, "std::array<char*, ") || begins(type, "at::detail::Array<char*, "))
        return (struct size){8 * (unsigned)number_after(type, "char*, "), 8};
    if (strstr(type, "CatArrInputTensorMetadata<"))
        return inputs_of_cat(type);
    if (strstr(type, "TensorSizeStride<unsigned int"))
        return (struct size){32, 4};
    if (strstr(type, "ListMetadata<"))
        return lists(type);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (begins(type, known[i].begin))
            return known[i].size;
    return (struct size){1, 1};
}

/* The bracket that the one at `close` closes; NULL: there is none. */
static char *opening(char *text, char *close) {
    int depth = 0;
    for (char *at = close; at >= text; at--) {
        depth += strchr(")>}]", *at) != NULL;
        depth -= strchr("(<{[", *at) != NULL;
        if (!depth)
            return at;
    }
    return NULL;
}

static void add(struct kernel *k, char *type, size_t length) {
    char end = type[length];
    type[length] = 0;
    struct size size = size_of(type, length);
    type[length] = end;
    unsigned offset = k->params ? k->param[k->params - 1].offset + k->param[k->params - 1].size : 0;
    offset = (offset + size.alignment - 1) & ~(size.alignment - 1);
    k->param[k->params].offset = (unsigned short)offset;
    k->param[k->params++].size = (unsigned short)size.size;
}

static void read_types(struct kernel *k, char *text) {
    char *close = strrchr(text, ')');
    char *type = close ? opening(text, close) : NULL;
    int depth = 0;
    if (!type)
        return;
    k->params = 0;
    type++;
    for (char *at = type; at <= close && k->params < SD_PARAMS_MOST; at++) {
        depth += *at && strchr("(<{[", *at) != NULL;
        depth -= at < close && strchr(")>}]", *at) != NULL;
        if ((*at != ',' || depth) && at != close)
            continue;
        if (at > type)
            add(k, type, (size_t)(at - type));
        type = at + 1 + (at[1] == ' ');
    }
}

int sd_kernel_param(struct kernel *k, size_t index, size_t *offset, size_t *size) {
    if (!k->params_read) {
        char *text = readable(k->name);
        k->params = -1;
        if (text)
            read_types(k, text);
        free(text);
        k->params_read = true;
    }
    if (k->params < 0)
        return SD_NOT_SUPPORTED;
    if (index >= (size_t)k->params || !offset)
        return SD_INVALID_VALUE;
    *offset = k->param[index].offset;
    if (size)
        *size = k->param[index].size;
    return SD_OK;
}
