/*
 * rows.h - the table's rows read from the parameters that CUPTI hands to a callback.
 *
 * Any thread, at the exit of the call, inside a callback: nothing here calls CUDA.
 */
#ifndef LS_CUPTI_ROWS_H
#define LS_CUPTI_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "launch_args.h"
#include "layoutspy/api.h"
#include "wrap.h"

/* Whether the row wants a stack; NONE for functions that are not the runtime's or the driver's. */
enum ls_stack_want ls_row_stack(enum ls_api api);

/* Whether CUPTI says what the call's parameters are: of nvcc's own entry points
 * (__cudaLaunchKernel) it does not. */
bool ls_row_readable(enum ls_api api);

/*
 * The call's fields, into field[LS_FIELD_MAX]; returns their number. All 0 where the parameters are
 * not known. `version`: of the runtime's function (struct ls_cupti_id).
 */
uint32_t ls_row_fields(enum ls_api api, unsigned version, const void *params, int status,
                       const struct ls_call *call, uint64_t *field);

/* What a launch launched, and with which arguments; its number and name are not told here. False:
 * it is none, or its parameters are not known. */
bool ls_row_launch(enum ls_api api, const void *params, struct ls_launch *launch);

#endif
