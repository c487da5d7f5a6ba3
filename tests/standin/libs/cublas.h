/*
 * cublas.h - the inside of the cuBLAS stand-in.
 */
#ifndef STANDIN_CUBLAS_H
#define STANDIN_CUBLAS_H

#include "cublas_types.h"
#include "lib.h"

struct cublasContext {
    int lt_magic;               /* STANDIN_CUBLASLT_MAGIC */
    struct cublasContext *next; /* the list of live handles */
    cudaStream_t stream;
    int pointer_mode, atomics_mode, math_mode, sm_count_target;
    void *own_workspace; /* device memory that cublasCreate took */
    void *workspace;     /* the one in use: own_workspace, or the program's */
    size_t workspace_size;
};

/* Whether `handle` came from cublasCreate and is not destroyed. */
bool cublas_handle_live(const struct cublasContext *handle);

/* Logs the handle. Returns the call's fault, or CUBLAS_STATUS_NOT_INITIALIZED for a handle that is
 * not live, or 0. */
int cublas_check_handle(struct standin_call *call, const struct cublasContext *handle);

/* Puts a kernel on the handle's stream. A cuBLAS status. */
int cublas_launch(const struct cublasContext *handle, const char *kernel);

/* Bytes of one element, or 0 for a type that the stand-in does not know. */
size_t cublas_element_size(int data_type);

#endif
