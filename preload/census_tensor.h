/*
 * census_tensor.h - what PyTorch says of a tensor, asked of the base class itself: no subclass, no
 * mode and no property of the user's comes in between.
 *
 * In the census's pending call (census_walk.h). Nothing here makes a CUDA call.
 */
#ifndef LS_CENSUS_TENSOR_H
#define LS_CENSUS_TENSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "census_walk.h"

#define LS_TORCH_TYPES 32

/* PyTorch, as far as it is here. Objects are borrowed from its modules. */
struct ls_torch {
    void *module;           /* torch._C's variables */
    uintptr_t tensor;       /* TensorBase */
    bool one_way_to_engine; /* all backward passes go through one function, from 2.3 on */
    bool owning;            /* each of its objects owns its tensor */
    uintptr_t nn_module;    /* nn.Module; 0: not loaded */
    uintptr_t no_dispatch;  /* the __torch_dispatch__ of tensors that have none */
    void *is_cuda, *get_device, *storage; /* descriptors of TensorBase */
    void *shape, *stride, *offset, *dtype, *element_size;
    void *requires_grad, *is_view, *is_leaf, *retains_grad, *grad, *grad_fn;
    void *storage_size, *storage_address; /* of StorageBase */
    void *data_address;                   /* a function, or NULL */
    void *guard; /* ours: while it is entered no torch function is called */
    struct {
        void *dtype;
        uint32_t size;
        char name[24];
    } types[LS_TORCH_TYPES];
    unsigned known_types;
};

/* Find PyTorch among the modules that are loaded. NULL: done; else why not, for people. */
const char *ls_torch_find(struct ls_torch *torch);
void ls_torch_guard(struct ls_torch *torch);
void ls_torch_unguard(struct ls_torch *torch);

/* obj.attribute, obj.method(): by a descriptor of its class. A new reference, NULL: it raised, and
 * the exception is gone. */
void *ls_torch_get(void *descriptor, void *object);
void *ls_torch_call(void *descriptor, void *object);

/* What is kept of a tensor in the census's text. */
struct ls_tensor_facts {
    uint32_t storage;
    uint32_t dims;
    uint64_t offset, bytes;
    uint32_t type; /* an index into the torch's types */
    uint32_t name; /* of its class, in the census's text */
    int64_t shape[];
};

/*
 * Ask for a tensor's facts, find or make its storage, and put it there. False: it is no tensor on a
 * device, or one that does not say (a wrapper, a fake one); then nothing is kept of it. `made`: the
 * storage was not known before.
 */
bool ls_census_describe(struct ls_census *c, uint32_t tensor, void *object, bool *made);

/* The storage of a tensor, new or known; NULL: it is none on a device, or it does not say. */
struct ls_census_storage *ls_census_storage(struct ls_census *c, void *tensor, bool *made);

/* The storage of a tensor that was described; NULL: it was not. */
struct ls_census_storage *ls_census_storage_of(struct ls_census *c, uint32_t tensor);

/* All that the walk found, and their gradients. */
void ls_census_tensors(struct ls_census *c);

/* A tensor that was found by asking, not by the walk, with its path and the flags that this gives
 * it: the one that the walk knows, or a new one, of which the census keeps a reference.
 * LS_CENSUS_NONE: no room. */
uint32_t ls_census_add_tensor(struct ls_census *c, void *object, const char *path, uint32_t flags);

/* census_graph.c: what only autograd graphs keep. */
void ls_census_graphs(struct ls_census *c);

#endif
