/*
 * list_kernels.c - see list_kernels.h. Structures as MultiTensorApply.cuh of PyTorch 2.4 to 2.11
 * has them.
 */
#include "list_kernels.h"

#include <stdlib.h>
#include <string.h>

#include "copy_side.h"
#include "known.h"
#include "operand.h"

enum { LISTS_MOST = 5, BLOCKS_MOST = 320 };
enum form { NONE, PLAIN, SCALARS, OPTIMIZER };

/* Tensors that a structure has room for, by the number of its lists. */
static const uint8_t room[LISTS_MOST] = {110, 64, 48, 36, 30};
static const uint8_t room_with_scalars[LISTS_MOST] = {96, 64, 48, 36, 30};
static const uint8_t room_with_complex[LISTS_MOST] = {72, 60, 48, 36, 30}; /* scalars of 16 bytes */

/* ---- names ---- */

/* `...ILi2EE`, with what stands before the number skipped. */
static uint8_t lists_of(const char *after) {
    const char *end = strstr(after, "EEE"), *at = strstr(after, "Li");
    if (!at || !end || at > end || at[2] < '1' || at[2] > '0' + LISTS_MOST || at[3] != 'E')
        return 0;
    return (uint8_t)(at[2] - '0');
}

/* The three numbers that foreach functors end with: lists, how many of the first of them are read,
 * which one the result goes to. */
static bool result_of(const char *functor, uint8_t lists, uint8_t *read, uint8_t *result) {
    for (const char *at = functor; (at = strstr(at, "Li")); at++) {
        if (at[2] - '0' != lists || strncmp(at + 3, "ELi", 3) || strncmp(at + 7, "ELi", 3) ||
            strncmp(at + 11, "EEE", 3))
            continue;
        *read = (uint8_t)(at[6] - '0'), *result = (uint8_t)(at[10] - '0');
        return *read <= lists && *result < lists;
    }
    return false;
}

static bool starts(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* What follows the structure in the template's parameters: the operation. */
static void name_operation(const char *functor, struct ls_list_kernel *out) {
    uint8_t read, result, all = (uint8_t)((1u << out->lists) - 1);
    if (strstr(functor, "LpNormFunctorI") || strstr(functor, "LpMaxFunctorI")) {
        out->read = all; /* the result is not in a list */
    } else if (strstr(functor, "20FusedAdamMathFunctorI") ||
               strstr(functor, "19FusedSgdMathFunctorI") ||
               strstr(functor, "23FusedAdagradMathFunctorI")) {
        out->written = all & (uint8_t)~2u; /* of the gradients, the second list, only scaled ones */
        out->read = out->written;
    } else if (result_of(functor, out->lists, &read, &result)) {
        out->written = (uint8_t)(1u << result);
        out->read = (uint8_t)((1u << read) - 1);
        if (strstr(functor, "11ZeroFunctorI"))
            out->read = 0;
    }
    const char *type = strstr(functor, "FunctorI");
    if (type && out->written) {
        struct ls_copy_type of = ls_copy_type_named(type + strlen("FunctorI"));
        out->dtype = of.dtype, out->bytes = of.bytes;
    }
}

struct ls_list_kernel ls_list_kernel_named(const char *name) {
    static const struct {
        char name[40];
        enum form form;
    } structures[] = {{"18TensorListMetadataI", PLAIN},
                      {"28TensorListScalarListMetadataI", SCALARS},
                      {"32FusedOptimizerTensorListMetadataI", OPTIMIZER}};
    struct ls_list_kernel out = {.lists = 0, .dtype = LS_DTYPE_UNKNOWN};
    if (!starts(name, "_ZN2at6native"))
        return out;
    const char *template = strstr(name, "25multi_tensor_apply_kernelI");
    const char *structure = template ? strchr(template + 28, '_') : NULL; /* NS1_, NS2_ */
    for (size_t i = 0; structure && i < sizeof structures / sizeof *structures; i++)
        if (starts(structure + 1, structures[i].name)) {
            const char *after = structure + 1 + strlen(structures[i].name);
            const char *operation = strstr(after, "EEE");
            out.form = (uint8_t)structures[i].form;
            out.lists = lists_of(after);
            if (out.lists && operation)
                name_operation(operation + 2, &out);
        }
    return out;
}

/* ---- the structure ---- */

static bool fits(struct ls_list_kernel *kernel, uint32_t size, uint32_t tensors, uint32_t more) {
    uint32_t at =
        8 * (kernel->lists + 1u) * tensors + more;       /* addresses, and numbers of elements */
    uint32_t end = at + BLOCKS_MOST * 5, last = end + 4; /* what each block works on */
    kernel->tensors = (uint8_t)tensors;
    kernel->blocks_at = (uint16_t)at;
    return size == ((end + 7) & ~7u) || size == ((last + 7) & ~7u);
}

bool ls_list_kernel_fits(struct ls_list_kernel *kernel, uint32_t size) {
    uint32_t which = kernel->lists - 1u, plain = room[which], scalars = room_with_scalars[which];
    if (kernel->form == OPTIMIZER)
        return fits(kernel, size, plain, 8 * scalars);
    if (kernel->form == PLAIN)
        return fits(kernel, size, plain, 0);
    for (uint32_t bytes = 4; bytes <= 8; bytes += 4)
        if (fits(kernel, size, scalars, bytes * scalars))
            return true;
    return fits(kernel, size, room_with_complex[which], 16 * room_with_complex[which]) ||
           fits(kernel, size, scalars, 16 * scalars);
}

static uint64_t word(const char *structure, uint32_t index) {
    uint64_t value;
    memcpy(&value, structure + 8 * index, sizeof value);
    return value;
}

static enum ls_role_id role_of(const struct ls_list_kernel *kernel, uint32_t list) {
    bool written = kernel->written >> list & 1, read = kernel->read >> list & 1;
    return written ? read ? LS_ROLE_BUFFER : LS_ROLE_OUTPUT
           : read  ? LS_ROLE_INPUT
                   : LS_ROLE_ARGUMENT;
}

/* All elements of a tensor lie in one piece, in whichever order. */
static uint32_t shape_of(const struct ls_list_kernel *kernel, uint64_t elements) {
    struct ls_copy_side side = {.of = {kernel->dtype, kernel->bytes}, .dims = 1};
    if (!kernel->bytes)
        return 0;
    side.size[0] = (int64_t)elements;
    ls_copy_pack(&side);
    return ls_copy_shape(&side);
}

static void add_list(struct ls_thread *self, const struct ls_list_kernel *kernel,
                     const char *structure, uint32_t list, uint32_t tensors) {
    enum ls_role_id role = role_of(kernel, list);
    bool shaped = role == LS_ROLE_BUFFER || role == LS_ROLE_OUTPUT;
    for (uint32_t i = 0; i < tensors; i++) {
        uint64_t address = word(structure, list * kernel->tensors + i);
        uint64_t elements = word(structure, kernel->lists * kernel->tensors + i);
        if (ls_known_device(address))
            ls_operand_add(self, role, 0, shaped ? shape_of(kernel, elements) : 0, address);
    }
}

/* How many tensors: blocks are given to them one after the other. 0: the numbers do not fit. */
static uint32_t tensors_of(const struct ls_list_kernel *kernel, const char *structure,
                           uint32_t blocks) {
    const uint8_t *block = (const uint8_t *)structure + kernel->blocks_at;
    if (blocks == 0 || blocks > BLOCKS_MOST || block[0] != 0 ||
        block[blocks - 1] >= kernel->tensors)
        return 0;
    uint32_t tensors = block[blocks - 1] + 1u;
    for (uint32_t i = 0; i < tensors; i++)
        if ((int64_t)word(structure, kernel->lists * kernel->tensors + i) <= 0)
            return 0;
    return tensors;
}

enum ls_copy_result ls_list_kernel_tell(struct ls_thread *self, const struct ls_list_kernel *kernel,
                                        const void *structure, uint32_t blocks) {
    uint32_t tensors = tensors_of(kernel, structure, blocks);
    if (!tensors)
        return LS_COPY_UNLIKE;
    if (!ls_known_device(word(structure, 0)))
        return LS_COPY_ELSEWHERE;
    for (int turn = 0; turn < 3; turn++) /* what is written, what is read, the rest */
        for (uint32_t list = 0; list < kernel->lists; list++) {
            bool written = kernel->written >> list & 1, read = kernel->read >> list & 1;
            if (turn == (written ? 0 : read ? 1 : 2))
                add_list(self, kernel, structure, list, tensors);
        }
    return LS_COPY_TOLD;
}
