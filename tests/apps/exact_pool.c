/*
 * exact_pool.c MODE - a recurrent net over sequences of ever other length, which gets its buffers
 * from the device in several ways. Prints what was asked of cudaMalloc in all, and the most that
 * the net used at once.
 *
 *   each      cudaMalloc and cudaFree for each buffer
 *   exact     a pool that reuses only buffers of exactly the wanted size, and gives back only when
 *             the device is full
 *   rounded   the same pool with sizes rounded up to powers of two
 *   steady    `exact`, with sequences of one length
 *   load      a model's weights, of sizes that are all different, then a run without any allocation
 */
#include "cuda_app.h"

enum { LONGEST = 120, SHORTEST = 2, LAYERS = 2, ROW = 64 << 10, POOL = 1024 };

static NOINLINE void cell(void *in, void *out) {
    void *arguments[] = {&in, &out, NULL};
    STUB(cell, arguments);
}
MODULE(exact_pool, REGISTER_KERNEL(cell, "_Z4cellPvS_"))

static struct buffer {
    void *at;
    size_t size;
    int used;
} pool[POOL];
static int buffers;
static int caching, rounding, steady;
static size_t asked, used, most;

static NOINLINE void give_back_all(void) {
    int kept = 0;
    for (int i = 0; i < buffers; i++) {
        if (pool[i].used)
            pool[kept++] = pool[i];
        else
            CHECK(cudaFree(pool[i].at));
    }
    buffers = kept;
}

static NOINLINE void *device_memory(size_t size) {
    void *at = NULL;
    if (cudaMalloc(&at, size) != cudaSuccess) { /* SITE: pool */
        (void)cudaGetLastError();
        give_back_all();
        CHECK(cudaMalloc(&at, size));
    }
    asked += size;
    return at;
}

static size_t rounded(size_t size) {
    size_t power = 1;
    while (rounding && power < size)
        power *= 2;
    return rounding ? power : size;
}

static NOINLINE void *get(size_t size) {
    size = rounded(size);
    used += size;
    if (used > most)
        most = used;
    for (int i = 0; caching && i < buffers; i++)
        if (pool[i].size == size && !pool[i].used) {
            pool[i].used = 1;
            return pool[i].at;
        }
    void *at = device_memory(size);
    EXPECT(buffers < POOL);
    pool[buffers++] = (struct buffer){at, size, 1};
    return at;
}

static NOINLINE void put(void *at) {
    for (int i = 0; i < buffers; i++) {
        if (pool[i].at != at)
            continue;
        used -= pool[i].size;
        pool[i].used = 0;
        if (!caching) {
            CHECK(cudaFree(at));
            pool[i] = pool[--buffers];
        }
        return;
    }
}

static void sequence(int length, const void *host) {
    void *buffer[LAYERS + 1];
    for (int i = 0; i <= LAYERS; i++) {
        buffer[i] = get((size_t)length * ROW * (size_t)(i + 1));
        if (i == 0)
            CHECK(cudaMemcpy(buffer[0], host, ROW, cudaMemcpyHostToDevice));
        else
            LAUNCH(dim(8, 1, 1), dim(64, 1, 1), 0, NULL, cell(buffer[i - 1], buffer[i]));
    }
    for (int i = 0; i <= LAYERS; i++)
        put(buffer[i]);
}

static NOINLINE void load(const void *host) {
    void *weights[64];
    for (int i = 0; i < 64; i++) {
        size_t size = (size_t)(ROW + i * 4096);
        CHECK(cudaMalloc(&weights[i], size));
        asked += size;
        CHECK(cudaMemcpy(weights[i], host, ROW, cudaMemcpyHostToDevice));
    }
    for (int step = 0; step < 60; step++) {
        CHECK(cudaMemcpy(weights[0], host, ROW, cudaMemcpyHostToDevice));
        for (int i = 1; i < 64; i++)
            LAUNCH(dim(8, 1, 1), dim(64, 1, 1), 0, NULL, cell(weights[i - 1], weights[i]));
    }
    for (int i = 0; i < 64; i++)
        CHECK(cudaFree(weights[i]));
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    void *host = calloc(1, ROW);
    EXPECT(host != NULL);
    caching = strcmp(mode, "each") != 0;
    rounding = strcmp(mode, "rounded") == 0;
    steady = strcmp(mode, "steady") == 0;
    if (strcmp(mode, "load") == 0) {
        load(host);
    } else {
        for (int length = LONGEST; length >= SHORTEST; length--)
            sequence(steady ? LONGEST : length, host);
        give_back_all();
    }
    free(host);
    printf("asked=%zu most=%zu\n", asked, most);
    return 0;
}
