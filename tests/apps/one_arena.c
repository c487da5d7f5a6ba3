/*
 * one_arena.c - an allocator that takes the whole device at start, and hands it out itself: a loop
 * of independent operations each makes a large temporary there, and the next one begins before the
 * last one is dropped. The runtime sees one allocation and no failure.
 */
#include "cuda_app.h"

enum { STEPS = 12 };

static NOINLINE void multiply(void *in, void *out) {
    void *arguments[] = {&in, &out, NULL};
    STUB(multiply, arguments);
}
MODULE(one_arena, REGISTER_KERNEL(multiply, "_Z8multiplyPvS_"))

static char *arena;
static size_t arena_size, arena_used;

static NOINLINE void reserve_device(void) {
    size_t free_bytes, total;
    CHECK(cudaMemGetInfo(&free_bytes, &total));
    arena_size = free_bytes / 100 * 95;
    CHECK(cudaMalloc((void **)&arena, arena_size)); /* SITE: arena */
}

/* First fit would be here; what counts is that nobody outside sees it. */
static void *take(size_t size) {
    if (arena_used + size > arena_size)
        return NULL;
    arena_used += size;
    return arena + arena_used - size;
}

int main(void) {
    float host[64] = {0};
    reserve_device();
    size_t temporary = arena_size / 10 * 4;
    for (int step = 0; step < STEPS; step++) {
        char *at = take(temporary);
        if (!at) {
            arena_used -= temporary; /* the last but one is dropped: too late for real ones */
            at = take(temporary);
        }
        CHECK(cudaMemcpy(at, host, sizeof host, cudaMemcpyHostToDevice));
        for (int i = 0; i < 3; i++)
            LAUNCH(dim(8, 1, 1), dim(64, 1, 1), 0, NULL, multiply(at, at));
    }
    printf("out of memory: %zu bytes of %zu are left\n", arena_size - arena_used, arena_size);
    CHECK(cudaFree(arena));
    return 0;
}
