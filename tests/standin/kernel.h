/*
 * kernel.h - what programs register at load time: kernels and variables; and launches.
 *
 * Callers hold the core lock.
 */
#ifndef STANDIN_KERNEL_H
#define STANDIN_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "device.h"
#include "graph.h"
#include "tree.h"

#define SD_PARAMS_MOST 64

struct module {
    struct kernel *kernels;
    struct variable *variables;
};

/* A handle of type HANDLE_KERNEL: cudaKernel_t, cudaFunction_t, CUfunction and CUkernel alike. */
struct kernel {
    struct tree_node node; /* key: the host function; 0 for kernels without one */
    struct kernel *next;   /* of the module */
    struct module *module;
    char *name;             /* mangled; lives as long as the process, for the log */
    int max_dynamic_shared; /* as set by cudaFuncSetAttribute */
    int attribute[16];
    bool params_read;
    int params; /* -1: not known */
    struct {
        unsigned short offset, size;
    } param[SD_PARAMS_MOST];
};

struct variable {
    struct tree_node node; /* key: the host's shadow of it */
    struct variable *next;
    char *name;
    uint64_t size;
    struct memory *memory[STANDIN_DEVICES_MAX]; /* where it lies, once a device needed it */
    bool managed;
};

struct module *sd_module_new(void);
struct module *sd_module(const void *handle); /* NULL: no live module */
void sd_module_delete(struct module *module);

struct kernel *sd_kernel_add(struct module *module, const void *host_function, const char *name);
/* By host function or by handle. NULL: unknown (98). */
struct kernel *sd_kernel(const void *function);

/* Where a parameter lies and how long it is: 0, 1 (there are fewer) or 801 (not known). */
int sd_kernel_param(struct kernel *kernel, size_t index, size_t *offset, size_t *size);

struct variable *sd_variable_add(struct module *module, const void *shadow, const char *name,
                                 uint64_t size);
/* Memory for a managed variable, which the host may use before any context. NULL: none left. */
struct memory *sd_variable_managed(struct variable *variable);
/* 13 for a symbol that is none, 2 when the device is full. */
int sd_variable_find(const void *shadow, struct device *device, struct variable **out,
                     struct memory **memory);

struct launch {
    const void *function;
    unsigned grid[3], block[3];
    uint64_t shared;
    const void *stream;
    bool per_thread;
    bool cooperative;
    bool driver; /* refusals as the driver's: 1, not 9 */
};
/* Takes the lock itself. *name is the kernel's, once it is known. 0, 9, 98, 400, 701, 720, 9xx. */
int sd_launch(const struct launch *launch, const char **name);
/* A copy of a kernel's name that lives as long as the process: of one that a library brings, which
 * is registered nowhere. There are few. */
const char *sd_kernel_name(const char *name);
/* The work of one launch, no matter whether it would be refused. */
struct work sd_kernel_work(const struct launch *launch, const struct kernel *kernel);
/* What is wrong with a shape: 0, 9 or 1. */
int sd_launch_check(const struct launch *launch, const struct kernel *kernel);

void sd_kernel_reset(struct device *device);

#define SD_SHARED_DEFAULT 49152
#define SD_SHARED_MOST 232448

#endif
