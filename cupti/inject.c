/*
 * inject.c - the second way in: CUDA_INJECTION64_PATH makes the driver load us and call
 * InitializeInjection() when it is initialised, whether or not we were preloaded. A program that
 * has the CUDA runtime linked in statically can be recorded by this alone.
 *
 * In the thread that first uses the driver.
 */
#include "export.h"
#include "wrap.h"

LS_EXPORT int InitializeInjection(void);
LS_EXPORT int InitializeInjection(void) {
    ls_start_recording();
    return 1; /* success: whether anything is recorded is said in the trace, not here */
}
