/*
 * everycall.h - what the parts of everycall share: the checks, and what the calls work on.
 */
#ifndef EVERYCALL_H
#define EVERYCALL_H

#include "cuda_app.h"

extern int go_on; /* no failure ends the program */

/* As in cuda_app.h, but for go_on. */
#undef CHECK
#undef EXPECT
#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition) && !go_on) {                                                              \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
#define CHECK(call) EXPECT((int)(call) == 0)

enum { N = 4096, W = 64, H = 8, D = 4 };

/* A call and its twin, as it is meant. */
#define BOTH(name, twin, ...)                                                                      \
    do {                                                                                           \
        CHECK(name(__VA_ARGS__));                                                                  \
        CHECK(name##twin(__VA_ARGS__));                                                            \
    } while (0)
#define PTDS(name, ...) BOTH(name, _ptds, __VA_ARGS__)
#define PTSZ(name, ...) BOTH(name, _ptsz, __VA_ARGS__)
/* A call and its twin that the device must refuse. */
#define REFUSED(...) EXPECT((int)(__VA_ARGS__) != 0)
#define REFUSED_PTDS(name, ...)                                                                    \
    do {                                                                                           \
        REFUSED(name(__VA_ARGS__));                                                                \
        REFUSED(name##_ptds(__VA_ARGS__));                                                         \
    } while (0)

extern cudaStream_t stream;
extern cudaEvent_t event;
extern unsigned char pageable[N];
extern unsigned char *pinned;
extern void *device;

/* everycall_memory.c */
void mipmaps(void);
void batches(void);
void graph_memory(void);
void driver_memory(void);
void blocks(void); /* of PyTorch's allocator */
void library_handles(void);
/* everycall_blas.c, everycall_library.c, everycall_driver.c */
void blas_calls(void);
void library_calls(void);
/* everycall_cudnn.c: with a handle, a tensor, and memory for operands */
void cudnn_calls(cudnnHandle_t h, cudnnTensorDescriptor_t t, void *m);
void driver_calls(void);
void driver_reset(void);
/* Calls for another process's memory, with one that `self` is started as; what that one does. */
void other_process(char *self);
int export_handles(void);

#endif
