/*
 * roles.h - where each function of the table keeps what others need of its record.
 *
 * A field's role is its name (layoutspy/api.h); nothing here knows single functions.
 * Used by the target's library and by the collector. Made once by ls_roles_init(); read-only after
 * that, then any thread and async-signal-safe.
 */
#ifndef LAYOUTSPY_COMMON_ROLES_H
#define LAYOUTSPY_COMMON_ROLES_H

#include <stdbool.h>
#include <stdint.h>

#include "layoutspy/format.h"
#include "layoutspy/table.h"

/* ROLE(name): the position of the field of that name in each function, -1 where it has none. */
#define LS_ROLES(ROLE)                                                                             \
    ROLE(ptr)                                                                                      \
    ROLE(size)                                                                                     \
    ROLE(dst)                                                                                      \
    ROLE(src)                                                                                      \
    ROLE(device)                                                                                   \
    ROLE(dst_array)                                                                                \
    ROLE(src_array)                                                                                \
    ROLE(dst_device)                                                                               \
    ROLE(src_device)                                                                               \
    ROLE(symbol)                                                                                   \
    ROLE(bytes)                                                                                    \
    ROLE(kind)                                                                                     \
    ROLE(stream)                                                                                   \
    ROLE(width)                                                                                    \
    ROLE(height)                                                                                   \
    ROLE(depth)                                                                                    \
    ROLE(spitch)                                                                                   \
    ROLE(dpitch)                                                                                   \
    ROLE(format)                                                                                   \
    ROLE(handle)                                                                                   \
    ROLE(allocated)                                                                                \
    ROLE(reserved)                                                                                 \
    ROLE(event)                                                                                    \
    ROLE(free)                                                                                     \
    ROLE(total)                                                                                    \
    ROLE(attr)                                                                                     \
    ROLE(value)                                                                                    \
    ROLE(array)                                                                                    \
    ROLE(kernel)

struct ls_roles {
#define ROLE(name) int8_t name;
    LS_ROLES(ROLE)
#undef ROLE
    bool ptr_is_handle; /* the memory is a CUDA array, known by its handle */
    bool is_async;      /* the call may return before its work is done */
    bool is_reset;      /* ends all memory of the device */
    bool is_query;      /* class SYNC: asks, and does not wait */
    bool is_trim;       /* class POOL: gives memory back to the device */
    bool makes, ends;   /* class LIBRARY: a handle */
};

extern struct ls_roles ls_roles[LS_API_COUNT];

void ls_roles_init(void);

/* The call's value in a role, or `otherwise` where it has none. */
static inline uint64_t ls_role(const struct ls_rec_call *call, int8_t role, uint64_t otherwise) {
    return role >= 0 ? call->field[role] : otherwise;
}

#endif
