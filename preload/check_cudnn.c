/*
 * check_cudnn.c - the numbers of cudnn_attribute.def against NVIDIA's header: drift is a compile
 * error. Compiled (never linked) where a header is found that has all of them.
 */
#if __has_include(<cudnn.h>)
#include <cudnn.h>
#if CUDNN_VERSION >= 91900
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#define VALUE(name, value) _Static_assert((int)CUDNN_##name == (value), #name);
#define OPERAND(name, value, role)                                                                 \
    _Static_assert((int)CUDNN_ATTR_OPERATION_##name == (value), #name);
#include "cudnn_attribute.def"
#endif
#endif

typedef int not_empty;
