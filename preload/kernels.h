/*
 * kernels.h - handle -> stub -> mangled name: names of launched kernels without CUPTI.
 *
 * nvcc's host code registers each kernel's stub with its name (__cudaRegisterFunction) when its
 * library is loaded; CUDA 13 then turns stubs into handles (__cudaGetKernel). Both lead to one
 * entry, which gets a number and a KERNEL record at its first recorded launch.
 */
#ifndef LS_KERNELS_H
#define LS_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

/* Called by the MAP rows of the table, whether or not anything is recorded. Names are borrowed:
 * they lie in the registering library until it calls __cudaUnregisterFatBinary. */
void ls_kernel_register(void *module, const void *stub, const char *name);
void ls_kernel_unregister(void *module);
void ls_kernel_alias(const void *handle, const void *stub);

/* A name that is longer is cut: to be told from others, and in its KERNEL record still shorter. */
#define LS_KERNEL_NAME_MOST (64u << 10)

/* The driver's modules and libraries name the functions that they hand out. The name is copied,
 * once however many handles have it; where there is no room left, launches are counted (`kernels`).
 */
void ls_kernel_name(const void *handle, const char *name);

/* The number of a launched kernel, by stub or handle; 0: its registration was not seen. Inside a
 * recorded call only (ls_self is busy). */
uint32_t ls_kernel(const void *stub_or_handle);

/* Its mangled name, which may end with the library that brought it; NULL: not known. */
const char *ls_kernel_text(const void *stub_or_handle);

/* Whether it was registered as the host's stub of a kernel, by a library that is still there. */
bool ls_kernel_is_stub(const void *function);

/* A number tells by itself whether the kernel only moves or converts data (common/kernel_words.h).
 */
#define LS_KERNEL_MOVES(number) ((number)&1)

/* A number for a name: its KERNEL record is written. For those whom others tell of (cupti/names.c);
 * 0: no room. `self` is busy. */
struct ls_thread;
uint32_t ls_kernel_define(struct ls_thread *self, const char *name);

void ls_kernels_fork_reset(void);

#endif
