/*
 * managed.c - managed memory as many teaching programs use it: the host writes, a kernel runs, the
 * host reads. The work buffer of one of the four solvers is lost.
 */
#include "cuda_app.h"

static NOINLINE void relax(double *grid, double *work, int n) {
    void *arguments[] = {&grid, &work, &n, NULL};
    STUB(relax, arguments);
}
MODULE(managed, REGISTER_KERNEL(relax, "_Z5relaxPdS_i"))

struct solver {
    double *grid, *work;
    int n;
};

static NOINLINE void solver_open(struct solver *s, int n) {
    s->n = n;
    CHECK(cudaMallocManaged((void **)&s->grid, (size_t)n * sizeof(double), 1));
    CHECK(cudaMallocManaged((void **)&s->work, (size_t)n * sizeof(double), 1)); /* SITE: lost */
}

static NOINLINE void solver_close(struct solver *s, int forget) {
    CHECK(cudaFree(s->grid));
    if (!forget)
        CHECK(cudaFree(s->work));
}

int main(void) {
    double sum = 0;

    for (int i = 0; i < 4; i++) {
        struct solver s;
        solver_open(&s, 1000 * (i + 1));
        for (int k = 0; k < s.n; k++)
            s.grid[k] = k;
        LAUNCH(dim(4, 1, 1), dim(128, 1, 1), 0, NULL, relax(s.grid, s.work, s.n));
        CHECK(cudaDeviceSynchronize());
        sum += s.grid[s.n - 1];
        CHECK(cudaMemcpy(s.work, s.grid, 800, cudaMemcpyDefault));
        solver_close(&s, i == 2);
    }
    printf("sum %.0f\n", sum);
    return 0;
}
