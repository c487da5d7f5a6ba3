/*
 * load_lock_library.c - its constructor calls CUDA, so under the loader's lock. See load_lock.c.
 */
#include <stdatomic.h>
#include <unistd.h>

#include "cuda_app.h"

extern atomic_int load_lock_inside, load_lock_linger;

__attribute__((constructor)) static void call(void) {
    atomic_store(&load_lock_inside, 1);
    usleep((useconds_t)atomic_load(&load_lock_linger));
    CHECK(cudaEventQuery(NULL));
}
