/*
 * ids.c - see ids.h.
 */
#include "ids.h"

#include <stdlib.h>
#include <string.h>

#include "layoutspy/table.h"
#include "load.h"

static struct ls_cupti_id runtime[LS_CUPTI_IDS], driver[LS_CUPTI_IDS];
static int result; /* of asking for the runtime's first name */

/* The table's names of the runtime and the driver, to be found by name. */
#define SLOTS 1024
static uint16_t slot[SLOTS];
_Static_assert(LS_API_COUNT < SLOTS, "the table has outgrown its hash");

static uint32_t hash(const char *name, size_t length) {
    uint32_t value = 2166136261u;
    for (size_t i = 0; i < length; i++)
        value = (value ^ (unsigned char)name[i]) * 16777619u;
    return value % SLOTS;
}

static void fill_slots(void) {
    memset(slot, 0, sizeof slot);
    for (unsigned api = 1; api < LS_API_COUNT; api++) {
        const struct ls_api_info *info = &ls_api_info[api];
        if ((info->lib != LS_LIB_CUDART && info->lib != LS_LIB_CUDA) || info->cls == LS_CLASS_MAP)
            continue;
        uint32_t i = hash(info->name, strlen(info->name));
        while (slot[i])
            i = (i + 1) % SLOTS;
        slot[i] = (uint16_t)api;
    }
}

static uint16_t find(enum ls_lib lib, const char *name, size_t length) {
    for (uint32_t i = hash(name, length); slot[i]; i = (i + 1) % SLOTS) {
        const struct ls_api_info *info = &ls_api_info[slot[i]];
        if (info->lib == lib && strncmp(info->name, name, length) == 0 && !info->name[length])
            return slot[i];
    }
    return 0;
}

/* cudaMalloc_v3020, cudaMemcpyAsync_ptsz_v7000: the version is the number at the end. */
static struct ls_cupti_id runtime_id(const char *name) {
    const char *end = strrchr(name, 'v');
    if (!end || end == name || end[-1] != '_' || strlen(end) < 5 ||
        strspn(end + 1, "0123456789") != strlen(end + 1))
        return (struct ls_cupti_id){find(LS_LIB_CUDART, name, strlen(name)), 0};
    return (struct ls_cupti_id){find(LS_LIB_CUDART, name, (size_t)(end - name - 1)),
                                (uint16_t)atoi(end + 1)};
}

void ls_cupti_ids_fill(void) {
    fill_slots();
    for (uint32_t id = 1; id < LS_CUPTI_IDS; id++) {
        const char *name = NULL;
        int status = ls_cupti.cuptiGetCallbackName(LS_CUPTI_RUNTIME, id, &name);
        if (status == LS_CUPTI_OK && name)
            runtime[id] = runtime_id(name);
        if (id == 1)
            result = status;
        name = NULL;
        if (ls_cupti.cuptiGetCallbackName(LS_CUPTI_DRIVER, id, &name) == LS_CUPTI_OK && name)
            driver[id].api = find(LS_LIB_CUDA, name, strlen(name));
    }
}

int ls_cupti_ids_result(void) {
    return result;
}

struct ls_cupti_id ls_cupti_id(int domain, uint32_t id) {
    if (id >= LS_CUPTI_IDS)
        return (struct ls_cupti_id){0};
    return domain == LS_CUPTI_RUNTIME  ? runtime[id]
           : domain == LS_CUPTI_DRIVER ? driver[id]
                                       : (struct ls_cupti_id){0};
}
