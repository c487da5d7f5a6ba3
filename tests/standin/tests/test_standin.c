/*
 * test_standin.c - runs the groups of the simulated device's tests. See test_standin.h.
 */
#include "test_standin.h"

#include <time.h>

const char some_kernel, unknown_kernel;
char some_variable[64];
/* Registered like the rest, to time it: 20,000 kernels. */
static char many[20000];

double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void register_kernel(void **module, const void *host, const char *name) {
    __cudaRegisterFunction(module, host, (char *)(uintptr_t)name, name, -1, NULL, NULL, NULL, NULL,
                           NULL);
}

__attribute__((constructor)) static void register_module(void) {
    void **module = __cudaRegisterFatBinary(NULL);
    register_kernel(module, &some_kernel, "_Z11some_kernelv");
    __cudaRegisterVar(module, some_variable, some_variable, "some_variable", 0,
                      sizeof some_variable, 0, 0);
    __cudaRegisterFatBinaryEnd(module);
}

static void registers_many_kernels_fast(void **state) {
    (void)state;
    double start = now_ms();
    void **module = __cudaRegisterFatBinary(NULL);
    for (size_t i = 0; i < sizeof many; i++)
        register_kernel(module, &many[i], "_Z4manyv");
    for (size_t i = 0; i < sizeof many; i++) {
        cudaKernel_t kernel;
        OK(__cudaGetKernel(&kernel, &many[i]));
    }
    __cudaUnregisterFatBinary(module);
    cudaKernel_t gone;
    REFUSED(__cudaGetKernel(&gone, &many[7]), 98);
    assert_true(now_ms() - start < 2000);
}

static void launches_are_checked(void **state) {
    (void)state;
    dim3 one = dim(1, 1, 1);
    REFUSED(cudaLaunchKernel(&unknown_kernel, one, one, NULL, 0, NULL), 98);
    REFUSED(cudaLaunchKernel(NULL, one, one, NULL, 0, NULL), 98);
    REFUSED(cudaLaunchKernel(&some_kernel, dim(0, 1, 1), one, NULL, 0, NULL), 9);
    REFUSED(cudaLaunchKernel(&some_kernel, one, dim(1025, 1, 1), NULL, 0, NULL), 9);
    REFUSED(cudaLaunchKernel(&some_kernel, one, dim(32, 33, 1), NULL, 0, NULL), 9);
    REFUSED(cudaLaunchKernel(&some_kernel, dim(1, 65536, 1), one, NULL, 0, NULL), 9);
    REFUSED(cudaLaunchKernel(&some_kernel, one, one, NULL, 49153, NULL), 1);
    REFUSED(cudaLaunchKernel(&some_kernel, one, one, NULL, 0, (cudaStream_t)0x1230), 400);
    REFUSED(cudaLaunchKernelExC(NULL, &some_kernel, NULL), 1);
    assert_int_equal((int)cudaPeekAtLastError(), 1);
    assert_int_equal((int)cudaGetLastError(), 1);
    assert_int_equal((int)cudaGetLastError(), 0);
    dim3 grid, block;
    size_t shared;
    void *stream;
    REFUSED(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), 52);
    OK(__cudaPushCallConfiguration(dim(3, 1, 1), dim(64, 1, 1), 16, NULL));
    OK(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
    assert_true(grid.x == 3 && block.x == 64 && shared == 16 && stream == NULL);
    cudaKernel_t kernel;
    OK(__cudaGetKernel(&kernel, &some_kernel));
    OK(__cudaLaunchKernel(kernel, one, one, NULL, 0, NULL));
    OK(cudaDeviceSynchronize());
}

static void devices_are_checked(void **state) {
    (void)state;
    int value;
    REFUSED(cudaSetDevice(2), 101);
    REFUSED(cudaSetDevice(-1), 101);
    REFUSED(cudaGetDeviceCount(NULL), 1);
    OK(cudaGetDeviceCount(&value));
    assert_int_equal(value, 2);
    OK(cudaSetDevice(1));
    OK(cudaGetDevice(&value));
    assert_int_equal(value, 1);
    OK(cudaSetDevice(0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_checked),
        cmocka_unit_test(launches_are_checked),
        cmocka_unit_test(registers_many_kernels_fast),
    };
    int failed = cmocka_run_group_tests_name("kernels and devices", tests, NULL, NULL);
    failed += test_memory() + test_copies() + test_streams() + test_capture() + test_graph_memory();
    return failed != 0;
}
