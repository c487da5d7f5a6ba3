/*
 * nested.c - a copy that the runtime passes on to another of its exported functions.
 */
#include "own_runtime.h"

int main(void) {
    char from[1000] = "text", to[1000];
    CHECK(cudaMemcpy(to, from, sizeof from, cudaMemcpyHostToDevice)); /* SITE: passed on */
    CHECK(cudaMemcpyAsync(to, from, sizeof from, cudaMemcpyHostToDevice, NULL)); /* SITE: direct */
    printf("%s\n", to);
    return 0;
}
