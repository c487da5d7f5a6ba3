/*
 * flushes.c MODE - programs that give device memory back and ask for it again. Prints how often,
 * and how many bytes.
 *
 *   churn   each of 40 rounds allocates two buffers, works, and frees them
 *   kept    the same work in buffers that are made once
 *   pool    a cache of the program's own, emptied whenever the device has no room: each of 12
 * rounds wants one piece that only fits after that (device of 256 MiB)
 */
#include "cuda_app.h"

enum { ROUNDS = 40, SHORT = 12 };
static const size_t LARGE = 8u << 20, SMALL = 2u << 20, PIECE = 150u << 20;

static long long times, bytes;

static NOINLINE void work(const void *in, void *out) {
    void *arguments[] = {&in, &out, NULL};
    STUB(work, arguments);
}
MODULE(flushes, REGISTER_KERNEL(work, "_Z4workPKvPv"))

static NOINLINE void run(void *in, void *out) {
    for (int i = 0; i < 8; i++)
        LAUNCH(dim(8, 1, 1), dim(64, 1, 1), 0, NULL, work(in, out));
}

static NOINLINE void give_back(void *buffer, size_t size) {
    CHECK(cudaFree(buffer)); /* SITE: freed */
    bytes += (long long)size;
    times++;
}

static NOINLINE void churn(void) {
    for (int i = 0; i < ROUNDS; i++) {
        void *in, *out;
        CHECK(cudaMalloc(&in, LARGE)); /* SITE: churned */
        CHECK(cudaMalloc(&out, SMALL));
        run(in, out);
        give_back(in, LARGE);
        give_back(out, SMALL);
    }
}

static NOINLINE void kept(void) {
    void *in, *out;
    CHECK(cudaMalloc(&in, LARGE));
    CHECK(cudaMalloc(&out, SMALL));
    for (int i = 0; i < ROUNDS; i++)
        run(in, out);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}

static void *cached;

static NOINLINE void *take(void) {
    void *piece;
    if (cudaMalloc(&piece, PIECE) == cudaSuccess) /* SITE: wanted */
        return piece;
    cudaGetLastError();
    give_back(cached, PIECE);
    cached = NULL;
    CHECK(cudaMalloc(&piece, PIECE));
    return piece;
}

static NOINLINE void pool(void) {
    for (int i = 0; i < SHORT; i++) {
        void *piece = take();
        run(piece, piece);
        cached = piece;
    }
    CHECK(cudaFree(cached));
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "churn") == 0)
        churn();
    else if (strcmp(mode, "kept") == 0)
        kept();
    else if (strcmp(mode, "pool") == 0)
        pool();
    else
        return 2;
    printf("times=%lld bytes=%lld\n", times, bytes);
    return 0;
}
