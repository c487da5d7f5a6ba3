/*
 * bench_launch.c - the cost of a recorded launch, by what its arguments are.
 *
 *   bare      the real function through a pointer
 *   none      a kernel without parameters: the record alone
 *   plain     six parameters, three of them addresses of device memory
 *   large     a closure of 800 bytes, two addresses in it
 *   copy      a strided copy of PyTorch's, which is told with both tensors' shapes; and a stack
 *
 * Blocks of each kind alternate and the median block counts. Prints ns per call.
 * `bench-launch KIND N` runs N blocks of one kind and prints nothing (for instruction counts).
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
    unsigned x, y, z;
} dim3;
typedef int launch(const void *stub, dim3 grid, dim3 block, void **args, size_t shared,
                   void *stream);
launch cudaLaunchKernel;
int cudaMalloc(void **pointer, size_t size);
void __cudaRegisterFunction(void **module, const char *stub, char *device, const char *name,
                            int threads, void *tid, void *bid, void *block, void *grid, int *warp);

enum { BLOCKS = 151, CALLS = 1000 };

/* Stubs: the sizes of the parameters (noop_cudart.c). */
static const unsigned short none_sizes[] = {0}, plain_sizes[] = {8, 8, 8, 4, 4, 8, 0},
                            large_sizes[] = {4, 800, 0}, copy_sizes[] = {4, 528, 0};

static uint64_t addresses[3];
static int32_t count = 6144;
static uint64_t large[100];
static struct {
    int32_t dims;
    uint32_t size[25][3], stride[25][2];
    uint64_t address[2];
    char rest[8];
} closure = {.dims = 2, .size = {{64, 1, 6}, {96, 1431655766, 7}}, .stride = {{4, 384}, {256, 4}}};

static launch *volatile real;
static volatile int sink;

static void go(launch *function, const unsigned short *stub, void **args) {
    const dim3 one = {1, 1, 1};
    for (int i = 0; i < CALLS; i++)
        sink += function(stub, one, one, args, 0, NULL);
}

static void bare(void) {
    go(real, none_sizes, NULL);
}

static void none(void) {
    void *args[] = {NULL};
    go(cudaLaunchKernel, none_sizes, args);
}

static void plain(void) {
    uint64_t number = 5;
    void *args[] = {&addresses[0], &addresses[1], &addresses[2], &count, &count, &number};
    go(cudaLaunchKernel, plain_sizes, args);
}

static void large_closure(void) {
    void *args[] = {&count, large};
    go(cudaLaunchKernel, large_sizes, args);
}

static void copy(void) {
    void *args[] = {&count, &closure};
    go(cudaLaunchKernel, copy_sizes, args);
}

static const struct kind {
    const char *name;
    void (*run)(void);
} kinds[] = {
    {"bare", bare}, {"none", none}, {"plain", plain}, {"large", large_closure}, {"copy", copy}};

enum { KINDS = sizeof kinds / sizeof *kinds };

static double now_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void set_up(void) {
    static void *module;
    const struct {
        const unsigned short *stub;
        const char *name;
    } kernels[] = {
        {none_sizes, "_Z4nonev"},
        {plain_sizes, "_Z5plainPfS_S_iil"},
        {large_sizes, "_Z5largeiT_"},
        {copy_sizes,
         "_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastIZZZNS0_"
         "23direct_copy_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE1_clEvENKUlvE5_clEvEUlfE_EEvS4_"
         "RKT_EUliE_EEviT1_"},
    };
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        __cudaRegisterFunction(&module, (const char *)kernels[i].stub, NULL, kernels[i].name, 0,
                               NULL, NULL, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        void *memory;
        cudaMalloc(&memory, 4 << 20);
        addresses[i] = (uint64_t)(uintptr_t)memory;
    }
    closure.address[0] = large[40] = addresses[0];
    closure.address[1] = large[41] = addresses[1];
}

int main(int argc, char **argv) {
    static double ns[KINDS][BLOCKS];
    const char *library = getenv("BENCH_CUDART");
    void *handle = dlopen(library ? library : "libcudart.so", RTLD_NOW | RTLD_NOLOAD);
    real = handle ? (launch *)dlsym(handle, "cudaLaunchKernel") : NULL;
    if (!real) {
        fprintf(stderr, "bench-launch: the no-op libcudart is not loaded (BENCH_CUDART)\n");
        return 1;
    }
    set_up();
    for (int k = 0; argc == 3 && k < KINDS; k++)
        for (int n = atoi(argv[2]); n > 0 && strcmp(argv[1], kinds[k].name) == 0; n--)
            kinds[k].run();
    if (argc == 3)
        return 0;
    for (int b = -10; b < BLOCKS; b++) { /* the first few warm up */
        for (int k = 0; k < KINDS; k++) {
            double start = now_ns();
            kinds[k].run();
            if (b >= 0)
                ns[k][b] = (now_ns() - start) / CALLS;
        }
        /* A real program works between its calls. */
        const struct timespec pause = {.tv_nsec = 15000000};
        nanosleep(&pause, NULL);
    }
    for (int k = 0; k < KINDS; k++) {
        qsort(ns[k], BLOCKS, sizeof ns[k][0], by_value);
        printf("launch %-6s %7.1f ns per call%s\n", kinds[k].name, ns[k][BLOCKS / 2],
               k ? "  (goal 60, without its stack)" : "");
    }
    return 0;
}
