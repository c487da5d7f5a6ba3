/*
 * options.h - what on-standin and the tests set by environment. Read once, at first use.
 *
 * Any thread; not in signal handlers.
 */
#ifndef STANDIN_OPTIONS_H
#define STANDIN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#define STANDIN_DEVICES_MAX 16

struct options {
    uint64_t memory;       /* STANDIN_MEMORY: bytes of each device (default 80 GiB) */
    int devices;           /* STANDIN_DEVICES: 0 to 16 (default 1) */
    uint64_t kernel_ns;    /* STANDIN_DELAY_US: how long a kernel takes (default: at least 2 us) */
    bool kernels_alike;    /* that was set: none takes longer */
    const char *log;       /* STANDIN_LOG: the truth log's path, or NULL */
    const char *fail;      /* STANDIN_FAIL: see truth.h, or NULL */
    bool log_gpu;          /* STANDIN_LOG_GPU: work and memory go to the log, too */
    const char *injection; /* CUDA_INJECTION64_PATH: see inject.c, or NULL */
};

/* Never NULL. A value that cannot be read ends the process with a line on stderr: a test that
 * runs with other settings than it believes is worse than one that does not run. */
const struct options *sd_options(void);

#endif
