/*
 * rows.c - the table expanded to readers of CUPTI's parameters. See rows.h and layoutspy/api.h.
 *
 * A reader has the row's parameters as variables of their names and evaluates the same expressions
 * as the row's wrapper does.
 */
#include "rows.h"

#include <stddef.h>
#include <string.h>

#include "describe.h"
#include "driver.h"
#include "layoutspy/each.h"
#include "layoutspy/table.h"
#include "row_words.h"

/* What a wrapper asks of CUDA cannot be asked from a callback. */
#undef ls_memory_size
#define ls_memory_size(address) ((void)(address), (uint64_t)0)
/* The form of the call is told by its version: cudaGraphAddNode's later one came with CUDA 12.3
 * (and was called _v2 until 13), that of the batches with 13. */
#undef ls_by_major
#define ls_by_major(function, since_13, before)                                                    \
    (ls_version >= 13000 || ls_version == 12030 ? (since_13) : (before))

#define LOCAL(name) __attribute__((unused)) __typeof__(ls_params->name) name = ls_params->name;
#define F(name, type, expression) (uint64_t)(expression),

#define READ(name, params, args, ...)                                                              \
    struct params_##name LS_PARAMS_STRUCT(params, args);                                           \
    static uint32_t read_##name(const void *ls_data, __attribute__((unused)) unsigned ls_version,  \
                                __attribute__((unused)) int ls_status,                             \
                                __attribute__((unused)) const struct ls_call *ls_calling,          \
                                uint64_t *ls_out_fields) {                                         \
        __attribute__((unused)) const struct params_##name *ls_params = ls_data;                   \
        LS_EACH(LOCAL, args)                                                                       \
        const uint64_t ls_field[] = {__VA_ARGS__};                                                 \
        memcpy(ls_out_fields, ls_field, sizeof ls_field);                                          \
        return sizeof ls_field / sizeof(uint64_t);                                                 \
    }
#define ls_device (ls_calling->self->device)

/* Of launches, what was launched and with what. */
#define LAUNCHED(...) *ls_launched = (struct ls_launch){LS_LAUNCH(__VA_ARGS__)};
#define STATEMENTS(...) __VA_ARGS__
#define TELL(name, args, operands)                                                                 \
    static void tell_##name(const void *ls_data, struct ls_launch *ls_launched) {                  \
        const struct params_##name *ls_params = ls_data;                                           \
        LS_EACH(LOCAL, args)                                                                       \
        STATEMENTS operands                                                                        \
    }

/* CUPTI tells of these libraries; rows of others expand to nothing. */
#define TOLD_CUDART , 1
#define TOLD_CUDA , 1
#define ROWS(LIB, X, ...) LS_EACH_CAT(ROWS_, SECOND(TOLD_##LIB, 0, ))(X, __VA_ARGS__)
#define SECOND(...) SECOND_OF(__VA_ARGS__)
#define SECOND_OF(first, second, ...) second
#define ROWS_1(X, ...) X(__VA_ARGS__)
#define ROWS_0(X, ...)

#define API(LIB, ret, name, CLASS, STACK, params, args, ...)                                       \
    ROWS(LIB, READ, name, params, args, __VA_ARGS__)
#define API_OPERANDS(LIB, ret, name, CLASS, STACK, params, args, operands, ...)                    \
    ROWS(LIB, READ, name, params, args, __VA_ARGS__)                                               \
    ROWS(LIB, TELL, name, args, operands)
#define API_OPERANDS_TWIN(LIB, ret, name, twin, CLASS, STACK, params, args, operands, ...)         \
    API_OPERANDS(LIB, ret, twin, CLASS, STACK, params, args, operands, __VA_ARGS__)
#define API_MAP(LIB, ret, name, params, args, ...)
#include "layoutspy/api/all.def"

#define STACK_CASE(name, STACK)                                                                    \
    case LS_API_##name:                                                                            \
        return LS_STACK_##STACK;
#define READ_CASE(name, ...)                                                                       \
    case LS_API_##name:                                                                            \
        return read_##name(params, version, status, call, field);
#define TELL_CASE(name, ...)                                                                       \
    case LS_API_##name:                                                                            \
        tell_##name(params, launch);                                                               \
        return true;

enum ls_stack_want ls_row_stack(enum ls_api api) {
    switch (api) {
#define API(LIB, ret, name, CLASS, STACK, params, args, ...) ROWS(LIB, STACK_CASE, name, STACK)
#define API_MAP(LIB, ret, name, params, args, ...)
#include "layoutspy/api/all.def"
    default:
        return LS_STACK_NONE;
    }
}

bool ls_row_readable(enum ls_api api) {
    return strncmp(ls_api_info[api].name, "__", 2) != 0;
}

uint32_t ls_row_fields(enum ls_api api, unsigned version, const void *params, int status,
                       const struct ls_call *call, uint64_t *field) {
    if (!params || !ls_row_readable(api)) {
        memset(field, 0, LS_FIELD_MAX * sizeof *field);
        return (uint32_t)ls_api_info[api].field_count;
    }
    switch (api) {
#define API(LIB, ret, name, CLASS, STACK, params, args, ...) ROWS(LIB, READ_CASE, name, )
#define API_MAP(LIB, ret, name, params, args, ...)
#include "layoutspy/api/all.def"
    default:
        return 0;
    }
}

bool ls_row_launch(enum ls_api api, const void *params, struct ls_launch *launch) {
    if (!params || !ls_row_readable(api))
        return false;
    switch (api) {
#define API(LIB, ret, name, CLASS, STACK, params, args, ...)
#define API_OPERANDS(LIB, ret, name, CLASS, STACK, params, args, operands, ...)                    \
    ROWS(LIB, TELL_CASE, name, )
#define API_OPERANDS_TWIN(LIB, ret, name, twin, CLASS, STACK, params, args, operands, ...)         \
    ROWS(LIB, TELL_CASE, twin, )
#define API_MAP(LIB, ret, name, params, args, ...)
#include "layoutspy/api/all.def"
    default:
        return false;
    }
}
