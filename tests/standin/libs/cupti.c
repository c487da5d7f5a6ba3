/*
 * cupti.c - what of CUPTI needs no part of its own: its version, and switches that are taken and
 * change nothing. Any thread; not safe in a signal handler.
 */
#include "cupti_standin.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

/* Not to be had where there are several subscribers. */
#define SWITCH(name, ...)                                                                          \
    CP_EXPORT name(__VA_ARGS__) {                                                                  \
        CP_ENTER(call, CP_CALLBACK);                                                               \
        int status = lib_status(&call, cp_mode() == CP_SEVERAL ? CUPTI_ERROR_NOT_SUPPORTED : 0);   \
        return cp_leave(&call, status);                                                            \
    }

SWITCH(cuptiActivityEnableLatencyTimestamps, uint8_t enable)
SWITCH(cuptiActivityEnableLaunchAttributes, uint8_t enable)
SWITCH(cuptiActivityEnableDeviceGraph, uint8_t enable)
SWITCH(cuptiActivityEnableAllocationSource, uint8_t enable)
SWITCH(cuptiActivityEnableAllSyncRecords, uint8_t enable)
SWITCH(cuptiActivityEnableCudaEventDeviceTimestamps, uint8_t enable)

/* No card here can. */
CP_EXPORT cuptiActivityEnableHWTrace(uint8_t enable) {
    CP_ENTER(call, 0);
    int status = lib_status(&call, enable ? CUPTI_ERROR_NOT_SUPPORTED : 0);
    return cp_leave(&call, status);
}

CP_EXPORT cuptiGetLastError(void) {
    LIB_ENTER(call);
    return (CUptiResult)standin_leave(&call, call.fault);
}

CP_EXPORT cuptiGetVersion(uint32_t *version) {
    CP_ENTER(call, CP_EVERYWHERE);
    int status = lib_status(&call, version ? 0 : CUPTI_ERROR_INVALID_PARAMETER);
    if (status == 0)
        *version = cp_options()->number;
    return cp_leave(&call, status);
}
