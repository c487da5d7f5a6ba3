/*
 * load.h - libcupti, found at run time.
 *
 * Once per process, at the start of a recording; read-only after that, then any thread.
 */
#ifndef LS_CUPTI_LOAD_H
#define LS_CUPTI_LOAD_H

#include <stdbool.h>
#include <stddef.h>

#include "abi.h"

struct ls_cupti_functions {
#define FN(NEED, name, params) int(*name) params;
#include "functions.def"
};
extern struct ls_cupti_functions ls_cupti;

/*
 * The copy that is in the process already, else one beside the CUDA runtime, else where the loader
 * looks. False: `why` says what is missing. `path` gets the file that was taken.
 */
bool ls_cupti_load(char *path, size_t path_size, char *why, size_t why_size);

#endif
