/*
 * on_cudnn.h - cuDNN's descriptors of the old API, and the operands of the calls that take them.
 *
 * A setter's wrapper keeps the shape that the library has from then on (descriptors.h), recording
 * or not; the computing calls look it up by the descriptor's address, which is never followed.
 * After a setter that failed nothing is known: cuDNN may have taken half of what it was told.
 *
 * Any thread, lock-free; errno may change. The words for operands (ls_dnn_*) are called by a
 * wrapper after the real call, while its thread is busy; their `self` is the wrapper's.
 */
#ifndef LS_ON_CUDNN_H
#define LS_ON_CUDNN_H

#include <stddef.h>
#include <stdint.h>

#include "layoutspy/format.h"
#include "thread.h"

/* enum ls_dtype of a cudnnDataType_t. */
uint8_t ls_cudnn_dtype(int type);

/* ---- setters: after the call ---- */

/* Packed in `format`; or with strides of their own. */
void ls_cudnn_set_packed(int status, const void *desc, int format, int type, int count,
                         const int *dims);
void ls_cudnn_set_strided(int status, const void *desc, int type, int count, const int *dims,
                          const int *strides);
#define ls_cudnn_set_4d(status, desc, format, type, ...)                                           \
    ls_cudnn_set_packed(status, desc, format, type, 4, (const int[]){__VA_ARGS__})
#define ls_cudnn_set_4d_strided(status, desc, type, n, c, h, w, ...)                               \
    ls_cudnn_set_strided(status, desc, type, 4, (const int[]){n, c, h, w},                         \
                         (const int[]){__VA_ARGS__})

/* `desc` was made from another one: what it says is asked of the library. */
void ls_cudnn_set_derived(int status, const void *desc);

void ls_cudnn_set_convolution(int status, const void *desc, int count, const int *pads,
                              const int *strides, const int *dilations, int mode);
void ls_cudnn_set_groups(int status, const void *desc, int groups);
void ls_cudnn_set_math(int status, const void *desc, int math);
void ls_cudnn_set_pooling(int status, const void *desc, int mode, int count, const int *windows,
                          const int *pads, const int *strides);
void ls_cudnn_set_rnn(int status, const void *desc, int cell, int direction, int input, int hidden,
                      int projection, int layers);
/* Settings that come one by one: the size of the projection, 0 for none. */
void ls_cudnn_set_projection(int status, const void *desc, int projection);
void ls_cudnn_set_sequence(int status, const void *desc, int type, int layout, int length,
                           int batch, int vector, const int *lengths);
void ls_cudnn_set_axes(int status, const void *desc, int type, int count, const int *dims,
                       const int *axes);

/* A descriptor was made: nothing is known of it yet. `desc` is what the call was given for it. */
void ls_cudnn_made(int status, const void *desc);

/* Around the call that destroys it. */
uint64_t ls_cudnn_going(const void *desc);
void ls_cudnn_gone(int status, const void *desc, uint64_t word);

/* ---- operands ---- */

/* With the descriptor's shape; without a descriptor; a setting, which has no address. */
void ls_dnn_operand(struct ls_thread *self, enum ls_role_id role, const void *desc,
                    const void *address);

/* Of what the call writes: with a beta that is not 0 it reads it as well, as `inout` says. */
void ls_dnn_blended(struct ls_thread *self, enum ls_role_id out, enum ls_role_id inout,
                    const void *desc, const void *address, int status, const void *beta);

/* Of `count` steps, one packed tensor after the other in memory. The descriptors, of which the last
 * ones may have fewer sequences, are looked up where the library has accepted them. */
void ls_dnn_steps(struct ls_thread *self, enum ls_role_id role, int status, int count,
                  const void *const *descs, const void *address);

#endif
