/*
 * check_nvtx.c - our NVTX numbers and layouts against NVIDIA's headers. Compiled, never linked,
 * where a toolkit is found: drift is a compile error.
 */
#include <nvtx3/nvToolsExt.h>

#include <stddef.h>

#include "nvtx_abi.h"

#define SAME(ours, theirs)                                                                         \
    _Static_assert((long)(ours) == (long)(theirs), "NVIDIA's header says otherwise: " #theirs)

#define HANDLED(module, number, name) SAME(number, NVTX_CBID_##module##_##name);
LS_NVTX_HANDLED
#undef HANDLED
SAME(LS_NVTX_ETID_CALLBACKS, NVTX_ETID_CALLBACKS);
SAME(LS_NVTX_MODULE_CORE, NVTX_CB_MODULE_CORE);
SAME(LS_NVTX_MODULE_CORE2, NVTX_CB_MODULE_CORE2);
SAME(LS_NVTX_ASCII, NVTX_MESSAGE_TYPE_ASCII);
SAME(LS_NVTX_UNICODE, NVTX_MESSAGE_TYPE_UNICODE);
SAME(LS_NVTX_REGISTERED, NVTX_MESSAGE_TYPE_REGISTERED);
_Static_assert(LS_NVTX_NO_TRACKING == NVTX_NO_PUSH_POP_TRACKING, "levels");

#define PLACE(ours, theirs)                                                                        \
    SAME(offsetof(struct ls_nvtx_attributes, ours), offsetof(nvtxEventAttributes_t, theirs))
PLACE(size, size);
PLACE(payload, payload);
PLACE(message_type, messageType);
PLACE(message, message);
SAME(sizeof(struct ls_nvtx_attributes), sizeof(nvtxEventAttributes_t));
SAME(offsetof(struct ls_nvtx_callbacks, module_table),
     offsetof(NvtxExportTableCallbacks, GetModuleFunctionTable));
SAME(sizeof(nvtxRangeId_t), sizeof(uint64_t));
_Static_assert(__builtin_types_compatible_p(ls_nvtx_get_table, NvtxGetExportTableFunc_t), "tables");
