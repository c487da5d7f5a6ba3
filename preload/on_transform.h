/*
 * on_transform.h - what cuFFT's plans were made for, by the plan's number, and the operands of the
 * transforms.
 *
 * Kept from where a plan is made until it is destroyed, recording or not. A made plan's arrays are
 * looked at once the call has succeeded. Any thread, lock-free; errno is kept.
 */
#ifndef LS_ON_TRANSFORM_H
#define LS_ON_TRANSFORM_H

#include <stdbool.h>
#include <stdint.h>

#include "on_gemm.h"
#include "thread.h"

#define LS_FFT_RANK 3

/* A plan over data that lies as cuFFT has it by itself. */
struct ls_fft {
    int rank;
    int64_t size[LS_FFT_RANK], batch;
    int type_in, type_out; /* cudaDataType */
};

/* The same with arrays of int, or of long long where `wide` is set; without one for a side its
 * other numbers do not count. */
struct ls_fft_many {
    int rank;
    const void *size, *embed_in, *embed_out;
    int64_t stride_in, distance_in, stride_out, distance_out, batch;
    bool wide;
    int type_in, type_out;
};

/* cufftType: the two types. */
#define LS_FFT_TYPES(type) ls_fft_type(type, true), .type_out = ls_fft_type(type, false)
int ls_fft_type(int type, bool in);

void ls_fft_made(int status, int plan, const struct ls_fft *as);
void ls_fft_made_many(int status, int plan, const struct ls_fft_many *as);
void ls_fft_gone(int status, int plan);

void ls_fft(struct ls_thread *self, int plan, const void *in, const void *out);

#endif
