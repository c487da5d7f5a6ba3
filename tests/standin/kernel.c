/*
 * kernel.c - registration and launches of kernels, which do nothing but take time.
 * See kernel.h.
 */
#include "kernel.h"

#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "handles.h"
#include "memory.h"
#include "stream.h"

static struct tree kernels;   /* by host function */
static struct tree variables; /* by shadow */

struct module *sd_module_new(void) {
    return sd_handle_new(HANDLE_MODULE, sizeof(struct module));
}

struct module *sd_module(const void *handle) {
    return sd_handle(handle, HANDLE_MODULE);
}

static struct tree_node *exact(struct tree *tree, const void *key) {
    struct tree_node *node = sd_tree_floor(tree, (uintptr_t)key, 0);
    return node && node->key == (uintptr_t)key ? node : NULL;
}

struct kernel *sd_kernel_add(struct module *module, const void *host_function, const char *name) {
    struct kernel *k = sd_handle_new(HANDLE_KERNEL, sizeof *k);
    if (!k || !(k->name = strdup(name)))
        abort();
    k->module = module;
    k->next = module->kernels;
    module->kernels = k;
    k->max_dynamic_shared = SD_SHARED_DEFAULT;
    k->node.key = (uintptr_t)host_function;
    if (host_function && !exact(&kernels, host_function))
        sd_tree_insert(&kernels, &k->node);
    else
        k->node.key = 0;
    return k;
}

struct kernel *sd_kernel(const void *function) {
    struct tree_node *node = function ? exact(&kernels, function) : NULL;
    return node ? TREE_OWNER(node, struct kernel, node) : sd_handle(function, HANDLE_KERNEL);
}

struct variable *sd_variable_add(struct module *module, const void *shadow, const char *name,
                                 uint64_t size) {
    struct variable *v = calloc(1, sizeof *v);
    if (!v || !(v->name = strdup(name ? name : "")))
        abort();
    v->size = size;
    v->next = module->variables;
    module->variables = v;
    v->node.key = (uintptr_t)shadow;
    if (shadow && !exact(&variables, shadow))
        sd_tree_insert(&variables, &v->node);
    else
        v->node.key = 0;
    return v;
}

struct memory *sd_variable_managed(struct variable *v) {
    v->managed = true;
    v->memory[0] = sd_memory_host(sd_device(0), v->size ? v->size : 1, STANDIN_MANAGED);
    if (v->memory[0])
        v->memory[0]->internal = true;
    return v->memory[0];
}

int sd_variable_find(const void *shadow, struct device *device, struct variable **out,
                     struct memory **memory) {
    struct tree_node *node = exact(&variables, shadow);
    if (!node || !shadow)
        return SD_INVALID_SYMBOL;
    struct variable *v = TREE_OWNER(node, struct variable, node);
    int on = v->managed ? 0 : device->ordinal;
    if (!v->memory[on]) {
        v->memory[on] = sd_memory_device(device, v->size ? v->size : 1, STANDIN_DEVICE);
        if (!v->memory[on])
            return SD_OUT_OF_MEMORY;
        v->memory[on]->internal = true;
    }
    *out = v;
    *memory = v->memory[on];
    return SD_OK;
}

void sd_module_delete(struct module *module) {
    for (struct kernel *k = module->kernels, *next; k; k = next) {
        next = k->next;
        if (k->node.key)
            sd_tree_remove(&kernels, &k->node);
        sd_handle_delete(k); /* its name stays: a line of the log may be about to tell it */
    }
    for (struct variable *v = module->variables, *next; v; v = next) {
        next = v->next;
        if (v->node.key)
            sd_tree_remove(&variables, &v->node);
        for (int i = 0; i < STANDIN_DEVICES_MAX; i++)
            if (v->memory[i])
                sd_memory_release(v->memory[i]);
        free(v->name);
        free(v);
    }
    sd_handle_delete(module);
}

static void forget_variable(struct tree_node *node, void *data) {
    struct variable *v = TREE_OWNER(node, struct variable, node);
    struct device *d = data;
    if (!v->managed)
        v->memory[d->ordinal] = NULL;
}

void sd_kernel_reset(struct device *device) {
    sd_tree_each(&variables, forget_variable, device);
}

int sd_launch_check(const struct launch *l, const struct kernel *kernel) {
    uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
    bool shape = l->grid[0] && l->grid[1] && l->grid[2] && threads && threads <= 1024 &&
                 l->grid[0] <= 2147483647u && l->grid[1] <= 65535 && l->grid[2] <= 65535 &&
                 l->block[0] <= 1024 && l->block[1] <= 1024 && l->block[2] <= 64;
    if (!shape)
        return l->driver ? SD_INVALID_VALUE : SD_INVALID_CONFIGURATION;
    if (l->shared > (uint64_t)kernel->max_dynamic_shared)
        return SD_INVALID_VALUE;
    /* 132 multiprocessors of 2048 threads each */
    if (l->cooperative && (uint64_t)l->grid[0] * l->grid[1] * l->grid[2] > 132 * (2048 / threads))
        return 720; /* cudaErrorCooperativeLaunchTooLarge */
    return SD_OK;
}

struct foreign {
    struct foreign *next;
    char name[];
};

const char *sd_kernel_name(const char *name) {
    static struct foreign *names;
    struct foreign *f = names;
    while (f && strcmp(f->name, name) != 0)
        f = f->next;
    if (!f) {
        f = malloc(sizeof *f + strlen(name) + 1);
        if (!f)
            abort();
        strcpy(f->name, name);
        f->next = names;
        names = f;
    }
    return f->name;
}

struct work sd_kernel_work(const struct launch *l, const struct kernel *kernel) {
    return (struct work){.kind = WORK_KERNEL,
                         .duration_ns = sd_kernel_ns(sd_threads_bytes(l->grid, l->block), 0),
                         .kernel = {.name = kernel->name,
                                    .grid = {l->grid[0], l->grid[1], l->grid[2]},
                                    .block = {l->block[0], l->block[1], l->block[2]},
                                    .shared = (unsigned)l->shared}};
}

static int launch(struct device *device, const struct launch *l, const char **name) {
    struct kernel *kernel = sd_kernel(l->function);
    if (!kernel)
        return l->driver ? SD_INVALID_HANDLE : SD_INVALID_FUNCTION;
    *name = kernel->name;
    int status = sd_launch_check(l, kernel);
    if (status)
        return status;
    struct stream *stream = sd_stream(device, l->stream, l->per_thread);
    if (!stream || stream->device != device)
        return SD_INVALID_HANDLE;
    struct graph_node *node;
    status = sd_submit_node(stream, sd_kernel_work(l, kernel), NODE_KERNEL, &node);
    if (node)
        node->shape = (struct launch_shape){l->function,
                                            {l->grid[0], l->grid[1], l->grid[2]},
                                            {l->block[0], l->block[1], l->block[2]},
                                            (unsigned)l->shared};
    return status;
}

int sd_launch(const struct launch *l, const char **name) {
    struct device *device;
    int status = sd_begin_context(&device);
    return status ? status : sd_end_with(launch(device, l, name));
}
