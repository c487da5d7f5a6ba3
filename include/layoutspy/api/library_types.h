/*
 * library_types.h - the types of cuBLAS that the table's prototypes use. As types.h.
 */
#ifndef LAYOUTSPY_API_LIBRARY_TYPES_H
#define LAYOUTSPY_API_LIBRARY_TYPES_H

typedef enum { CUBLAS_STATUS_SUCCESS = 0 } cublasStatus_t;
typedef struct cublasContext *cublasHandle_t;

#endif
