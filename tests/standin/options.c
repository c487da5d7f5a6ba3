/*
 * options.c - reads the environment of the simulated device. See options.h.
 */
#include "options.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct options options;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint64_t number(const char *name, uint64_t fallback, uint64_t low, uint64_t high) {
    const char *text = getenv(name);
    if (!text || !*text)
        return fallback;
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (*end || *text == '-' || value < low || value > high) {
        fprintf(stderr, "simulated device: %s=%s is not a number from %llu to %llu\n", name, text,
                (unsigned long long)low, (unsigned long long)high);
        _Exit(2);
    }
    return value;
}

static bool text_is_set(const char *name) {
    const char *value = getenv(name);
    return value && *value;
}

/* A copy: the program may change its environment under us. */
static const char *text(const char *name) {
    const char *value = getenv(name);
    return value && *value ? strdup(value) : NULL;
}

static void read_environment(void) {
    options.memory = number("STANDIN_MEMORY", 80ull << 30, 2u << 20, 1ull << 42);
    options.devices = (int)number("STANDIN_DEVICES", 1, 0, STANDIN_DEVICES_MAX);
    options.kernel_ns = number("STANDIN_DELAY_US", 2, 0, 60000000) * 1000;
    options.kernels_alike = text_is_set("STANDIN_DELAY_US");
    options.log = text("STANDIN_LOG");
    options.fail = text("STANDIN_FAIL");
    options.log_gpu = options.log && number("STANDIN_LOG_GPU", 0, 0, 1);
    options.injection = text("CUDA_INJECTION64_PATH");
}

const struct options *sd_options(void) {
    pthread_once(&once, read_environment);
    return &options;
}
