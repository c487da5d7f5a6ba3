/*
 * inject.c - CUDA_INJECTION64_PATH: a library that the driver loads as it is used for the first
 * time, as real drivers do. Once per process; nothing is done about a library that does not load.
 * In the child of a fork that had not used the driver yet it happens there.
 *
 * Any thread, no lock held; not in signal handlers. Other threads wait for the library, as they
 * would in a real cuInit; what it calls itself does not wait.
 */
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "device.h"
#include "options.h"
#include "tap_call.h"
#include "tell.h"
#include "truth.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool done;
static __thread bool injecting;

static void in_child(void) {
    pthread_mutex_init(&lock, NULL);
}

static void inject(const char *path) {
    sd_truth_note("#injection %d %s", (int)getpid(), path);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "InitializeInjection") : NULL;
    int (*initialize)(void);
    memcpy(&initialize, &symbol, sizeof initialize);
    if (initialize)
        initialize();
}

void sd_inject(void) {
    const char *path = sd_options()->injection;
    if (!path || atomic_load(&done) || injecting)
        return;
    injecting = true;
    pthread_mutex_lock(&lock);
    if (!atomic_load(&done)) {
        pthread_atfork(NULL, NULL, in_child);
        inject(path);
        atomic_store(&done, true);
    }
    pthread_mutex_unlock(&lock);
    injecting = false;
}

void sd_inject_before(struct standin_call *call) {
    static const char *const without_driver[] = {"__cudaPopCallConfiguration",
                                                 "__cudaGetKernel",
                                                 "cudaGetKernel",
                                                 "cudaGetFuncBySymbol",
                                                 "cudaFuncGetName",
                                                 "cudaFuncGetParamInfo",
                                                 "cudaRuntimeGetVersion",
                                                 "cudaDriverGetVersion",
                                                 "cudaProfilerStart",
                                                 "cudaProfilerStop"};
    if (!sd_options()->injection || atomic_load(&done) || sd_driver_lost())
        return;
    for (size_t i = 0; i < sizeof without_driver / sizeof *without_driver; i++)
        if (strcmp(call->name, without_driver[i]) == 0)
            return;
    sd_inject();
    call->told = sd_told();
}
