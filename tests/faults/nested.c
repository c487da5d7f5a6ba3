/*
 * nested.c - a copy that the runtime passes on to another of its exported functions.
 */
#include "own_runtime.h"

int main(void) {
    char from[1000] = "text", to[1000];
    CHECK(cudaMemcpy(to, from, sizeof from, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpyAsync(to, from, sizeof from, cudaMemcpyHostToDevice, NULL));
    printf("%s\n", to);
    return 0;
}
