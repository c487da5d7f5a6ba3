/*
 * bench_cudnn.c - the cost of a cached convolution's execution, as PyTorch makes it: a variant pack
 * is made, told addresses, numbers and a workspace, finalized, executed, destroyed.
 *
 *   bare      the real functions through pointers
 *   recorded  the calls as a program makes them: six that are kept, one with a record, a stack that
 *             the recorder knows already (LAYOUTSPY_STACKS=off: none) and five operands
 *
 * Blocks alternate and the median block counts. Prints ns per execution. `bench-cudnn KIND N` runs
 * N blocks of one kind and prints nothing (for instruction counts).
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int cudnnBackendCreateDescriptor(int type, void **descriptor);
int cudnnBackendSetAttribute(void *descriptor, int name, int type, int64_t count,
                             const void *values);
int cudnnBackendFinalize(void *descriptor);
int cudnnBackendExecute(void *handle, void *plan, void *pack);
int cudnnBackendDestroyDescriptor(void *descriptor);

enum { BLOCKS = 151, CALLS = 500, INT64 = 3, POINTER = 6, DESCRIPTOR = 15 };
enum { CONVOLUTION = 1, ENGINE, CONFIG, PLAN = 5, FORWARD = 10, GRAPH = 15, PACK, TENSOR };

struct functions {
    int (*create)(int, void **);
    int (*set)(void *, int, int, int64_t, const void *);
    int (*finalize)(void *);
    int (*execute)(void *, void *, void *);
    int (*destroy)(void *);
};
static struct functions real,
    hooked = {cudnnBackendCreateDescriptor, cudnnBackendSetAttribute, cudnnBackendFinalize,
              cudnnBackendExecute, cudnnBackendDestroyDescriptor};
static void *plan;

static void *node(int type, int name, int kind, int64_t count, const void *values) {
    void *made;
    hooked.create(type, &made);
    hooked.set(made, name, kind, count, values);
    return made;
}

static void *finished(void *made) {
    hooked.finalize(made);
    return made;
}

static void *tensor(int64_t uid) {
    const int64_t dims[] = {2, 8, 6, 5}, strides[] = {240, 30, 5, 1};
    void *made = node(TENSOR, 902, INT64, 4, dims);
    hooked.set(made, 903, INT64, 4, strides);
    hooked.set(made, 906, INT64, 1, &uid);
    return finished(made);
}

static void make_plan(void) {
    const int64_t ones[] = {1, 1};
    void *conv = node(CONVOLUTION, 102, INT64, 2, ones);
    for (int name = 103; name <= 105; name++)
        hooked.set(conv, name, INT64, 2, ones);
    finished(conv);
    void *x = tensor('x'), *w = tensor('w'), *y = tensor('y');
    void *forward = node(FORWARD, 702, DESCRIPTOR, 1, &conv);
    hooked.set(forward, 704, DESCRIPTOR, 1, &x);
    hooked.set(forward, 703, DESCRIPTOR, 1, &w);
    hooked.set(forward, 705, DESCRIPTOR, 1, &y);
    finished(forward);
    void *graph = finished(node(GRAPH, 801, DESCRIPTOR, 1, &forward));
    void *engine = finished(node(ENGINE, 1300, DESCRIPTOR, 1, &graph));
    void *config = finished(node(CONFIG, 300, DESCRIPTOR, 1, &engine));
    plan = finished(node(PLAN, 401, DESCRIPTOR, 1, &config));
}

static void run(const struct functions *f) {
    static void *const addresses[] = {&real, &plan, &hooked}, *workspace = &real;
    static const int64_t uids[] = {'x', 'y', 'w'};
    static void *packs[8];
    for (int i = 0; i < CALLS; i++) {
        void **pack = &packs[i % 8];
        f->create(PACK, pack);
        f->set(*pack, 1001, POINTER, 3, addresses);
        f->set(*pack, 1000, INT64, 3, uids);
        f->set(*pack, 1003, POINTER, 1, &workspace);
        f->finalize(*pack);
        f->execute(NULL, plan, *pack);
        f->destroy(*pack);
    }
}

static double now_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void *function(void *library, const char *name) {
    void *found = library ? dlsym(library, name) : NULL;
    if (!found) {
        fprintf(stderr, "bench-cudnn: the no-op libcudnn is not loaded (BENCH_CUDNN)\n");
        exit(1);
    }
    return found;
}

int main(int argc, char **argv) {
    static double ns[2][BLOCKS];
    const char *path = getenv("BENCH_CUDNN");
    void *library = dlopen(path ? path : "libcudnn.so.9", RTLD_NOW | RTLD_NOLOAD);
    real = (struct functions){
        (int (*)(int, void **))function(library, "cudnnBackendCreateDescriptor"),
        (int (*)(void *, int, int, int64_t, const void *))function(library,
                                                                   "cudnnBackendSetAttribute"),
        (int (*)(void *))function(library, "cudnnBackendFinalize"),
        (int (*)(void *, void *, void *))function(library, "cudnnBackendExecute"),
        (int (*)(void *))function(library, "cudnnBackendDestroyDescriptor")};
    make_plan();
    for (int n = argc == 3 ? atoi(argv[2]) : 0; n > 0; n--)
        run(strcmp(argv[1], "bare") == 0 ? &real : &hooked);
    if (argc == 3)
        return 0;
    for (int b = -10; b < BLOCKS; b++) { /* the first few warm up */
        for (int k = 0; k < 2; k++) {
            double start = now_ns();
            run(k ? &hooked : &real);
            if (b >= 0)
                ns[k][b] = (now_ns() - start) / CALLS;
        }
        /* A real program works between its calls. */
        const struct timespec pause = {.tv_nsec = 15000000};
        nanosleep(&pause, NULL);
    }
    for (int k = 0; k < 2; k++)
        qsort(ns[k], BLOCKS, sizeof ns[k][0], by_value);
    printf("bare      %7.1f ns per execution\n", ns[0][BLOCKS / 2]);
    printf("recorded  %7.1f ns per execution\n", ns[1][BLOCKS / 2]);
    printf("added     %7.1f ns (goal 500)\n", ns[1][BLOCKS / 2] - ns[0][BLOCKS / 2]);
    return 0;
}
