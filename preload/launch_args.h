/*
 * launch_args.h - what a launch's arguments tell: the tensors of a copy, and addresses of device
 * memory among the arguments of any other kernel.
 *
 * PyTorch's copy kernels are read in full (copy_kernels.h): operands DST and SRC with their shapes.
 * So are its kernels over lists of tensors (list_kernels.h): what they write, and what they read.
 * Of any other kernel the arguments are looked through, in words of eight bytes, for addresses of
 * recorded device memory: operands ARGUMENT, without a shape. How long each argument is, the driver
 * says (CUDA 12.4), which is asked once per kernel; where nobody says it, nothing is looked at.
 * Words that never held an address in a kernel's first launches are looked at only now and then.
 *
 * In the thread that launched, after the launch, while it is busy. errno is kept. No lock; the
 * first launch of a kernel may ask the driver, and find its functions by the loader, unless a
 * stream captures or CUPTI is calling.
 */
#ifndef LS_LAUNCH_ARGS_H
#define LS_LAUNCH_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"
#include "thread.h"

/* What the function is that was launched: how to ask of its parameters. */
enum ls_launch_kind {
    LS_LAUNCH_STUB,   /* the host's, which stands for it in the runtime */
    LS_LAUNCH_KERNEL, /* cudaKernel_t, which is the driver's CUkernel */
    LS_LAUNCH_DRIVER, /* CUfunction, or CUkernel in its place: what ls_launch_handle() was told */
};

struct ls_launch {
    const void *function;
    void *const *args;  /* the addresses of the arguments; NULL: none */
    void *const *extra; /* the driver's other way: the buffer of them; NULL: none */
    const char *name;   /* mangled; NULL: what kernels.h has */
    void *caller;       /* who launched: whose runtime to ask */
    uint64_t grid;      /* LS_GRID(), as recorded */
    uint32_t number;    /* of the kernel, as recorded */
    uint32_t grid_y;
    enum ls_launch_kind kind;
};

/* As the rows of the table tell it: LAUNCHED(STUB, func, args, NULL, gridDim.y). */
#define LS_LAUNCH(KIND, function_, args_, extra_, grid_y_)                                         \
    .function = (function_), .args = (void *const *)(args_), .extra = (void *const *)(extra_),     \
    .grid_y = (grid_y_), .kind = LS_LAUNCH_##KIND

void ls_launch_operands_of(struct ls_thread *self, const struct ls_launch *launch);

static inline void ls_launch_operands(struct ls_thread *self, const struct ls_launch *launch) {
    if (ls_session.env.layouts)
        ls_launch_operands_of(self, launch);
}

/* The driver gave this handle for a function of a module (is_kernel: CUkernel): whatever was known
 * of one with that address is void. Any thread, whether or not anything is recorded. */
void ls_launch_handle(const void *handle, bool is_kernel);

/* A library's kernels are gone: others may come to lie where they were. */
void ls_launch_forget(void);

#endif
