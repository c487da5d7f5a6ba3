/*
 * fake_nvml.c - an NVML of two devices, which does as FAKE_NVML says: answers, hangs in one of its
 * functions, fails, or tells nonsense. Any thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define GIB (1ull << 30)

struct memory {
    unsigned long long total, free, used;
};
struct process {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlDeviceGetCount_v2(unsigned *count);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
EXPORT int nvmlDeviceGetUUID(void *device, char *text, unsigned size);
EXPORT int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory);
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count,
                                                   struct process *process);

static int is(const char *mode) {
    const char *wanted = getenv("FAKE_NVML");
    return wanted && strcmp(wanted, mode) == 0;
}

static void hang(void) {
    for (;;)
        pause();
}

int nvmlInit_v2(void) {
    if (is("hang-init"))
        hang();
    return is("fail") ? 9 : 0;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = is("many") ? 1000000 : 2;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    *device = (void *)(unsigned long)(index + 1);
    return 0;
}

int nvmlDeviceGetUUID(void *device, char *text, unsigned size) {
    if (is("nonsense"))
        memset(text, 'x', size);
    else
        snprintf(text, size, "GPU-%ld", (long)device);
    return 0;
}

int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory) {
    static int asked;
    if (is("hang-later") && ++asked > 4)
        hang();
    *memory = (struct memory){24 * GIB, 20 * GIB, (unsigned long)device * GIB};
    if (is("nonsense"))
        memset(memory, 0xff, sizeof *memory);
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count,
                                            struct process *process) {
    if (is("nonsense")) {
        *count = 0xffffffff;
        return 0;
    }
    if (is("untold")) {
        process[0] = (struct process){(unsigned)getpid(), ~0ull, 0, 0};
        *count = 1;
        return 0;
    }
    process[0] = (struct process){1, GIB / 2, 0, 0};
    process[1] = (struct process){(unsigned)getpid(), GIB / 4, 0, 0};
    *count = device == (void *)1 ? 2 : 1;
    return 0;
}
