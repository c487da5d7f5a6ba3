/*
 * two_sessions.c MODE [ITERATIONS] - two inference sessions in turn, each with an arena of its own
 * that takes memory from the device in large regions. Prints the size of a region and how many
 * iterations were done.
 *
 *   grow    the second one's arena takes a new region in each iteration, and never uses one again
 *   alone   only the first one runs: its arena takes a few regions and then has enough
 *   kill    as grow, but dies of a signal in the middle
 *   until   as grow, and gives everything back before it ends
 */
#include <signal.h>

#include "cuda_app.h"

enum { REGION = 16 << 20, INPUT = 1 << 16, REGIONS = 256, ENOUGH = 3 };

static NOINLINE void encode(void *in, void *out) {
    void *arguments[] = {&in, &out, NULL};
    STUB(encode, arguments);
}
MODULE(two_sessions, REGISTER_KERNEL(encode, "_Z6encodePvS_"))

struct session {
    void *input;
    void *region[REGIONS];
    int regions;
    int reuses; /* the arena finds its old regions again */
};

static NOINLINE int arena_extend(struct session *s) {
    void *at;
    if (s->regions == REGIONS || cudaMalloc(&at, REGION) != cudaSuccess) /* SITE: extend */
        return 0;
    s->region[s->regions++] = at;
    return 1;
}

static NOINLINE int run_session(struct session *s, const void *host, void *result) {
    if ((!s->reuses || s->regions < ENOUGH) && !arena_extend(s))
        return 0;
    void *work = s->region[s->regions - 1];
    CHECK(cudaMemcpy(s->input, host, INPUT, cudaMemcpyHostToDevice));
    for (int i = 0; i < 4; i++)
        LAUNCH(dim(8, 1, 1), dim(64, 1, 1), 0, NULL, encode(s->input, work));
    CHECK(cudaMemcpy(result, s->input, 256, cudaMemcpyDeviceToHost));
    return 1;
}

static NOINLINE int embed(struct session *s, const void *host, void *result) {
    int done = run_session(s, host, result);
    return done;
}

static NOINLINE int rank_pairs(struct session *s, const void *host, void *result) {
    int done = run_session(s, host, result);
    return done ? done : -1;
}

static void close_session(struct session *s) {
    for (int i = 0; i < s->regions; i++)
        CHECK(cudaFree(s->region[i]));
    CHECK(cudaFree(s->input));
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    int wanted = argc > 2 ? atoi(argv[2]) : 1000, done = 0;
    static struct session first = {.reuses = 1}, second;
    void *host = calloc(1, INPUT), *result = calloc(1, 256);
    EXPECT(host != NULL && result != NULL);
    CHECK(cudaMalloc(&first.input, INPUT));
    CHECK(cudaMalloc(&second.input, INPUT));
    for (; done < wanted; done++) {
        if (embed(&first, host, result) <= 0)
            break;
        if (strcmp(mode, "alone") != 0 && rank_pairs(&second, host, result) <= 0)
            break;
        if (strcmp(mode, "kill") == 0 && done == wanted / 2)
            raise(SIGKILL);
    }
    if (strcmp(mode, "until") == 0 || strcmp(mode, "alone") == 0) {
        close_session(&first);
        close_session(&second);
    }
    free(host);
    free(result);
    printf("region_bytes=%d iterations=%d\n", REGION, done);
    return done < wanted;
}
