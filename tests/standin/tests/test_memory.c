/*
 * test_memory.c - allocations, frees, registrations and pools of the simulated device.
 */
#include "test_standin.h"

#include <unistd.h>

static void refuses_bad_frees(void **state) {
    (void)state;
    char *p, local;
    void *pinned;
    OK(cudaMalloc((void **)&p, 1000));
    OK(cudaMallocHost(&pinned, 1000));
    REFUSED(cudaMalloc(NULL, 1), 1);
    REFUSED(cudaMallocHost(NULL, 1), 1);
    REFUSED(cudaFree(p + 1), 1);
    REFUSED(cudaFree(pinned), 1);
    REFUSED(cudaFree(&local), 1);
    REFUSED(cudaFreeHost(p), 1);
    REFUSED(cudaFreeHost(&local), 1);
    OK(cudaFree(NULL));
    OK(cudaFreeHost(NULL));
    OK(cudaFree(p));
    REFUSED(cudaFree(p), 1);
    OK(cudaFreeHost(pinned));
    REFUSED(cudaFreeHost(pinned), 1);
}

static void aligns_and_reuses(void **state) {
    (void)state;
    char *a, *b, *c;
    OK(cudaMalloc((void **)&a, 1));
    OK(cudaMalloc((void **)&b, 513));
    assert_true((uintptr_t)a % 512 == 0 && (uintptr_t)b % 512 == 0 && a != b);
    OK(cudaFree(b));
    OK(cudaMalloc((void **)&c, 1000));
    assert_ptr_equal(b, c);
    OK(cudaFree(a));
    OK(cudaFree(c));
    OK(cudaMalloc((void **)&a, 0));
    assert_null(a);
}

static void runs_out_of_memory(void **state) {
    (void)state;
    enum { MOST = 1024 };
    static void *block[MOST];
    size_t available, total, count = 0;
    void *p = &p;
    OK(cudaMemGetInfo(&available, &total));
    assert_int_equal(total, 1u << 30);
    REFUSED(cudaMalloc(&p, total + 1), 2);
    REFUSED(cudaMalloc(&p, SIZE_MAX), 2);
    while (count < MOST && cudaMalloc(&block[count], 8 << 20) == cudaSuccess)
        count++;
    assert_true(count > 120 && count <= 128);
    assert_int_equal((int)cudaGetLastError(), 2);
    OK(cudaFree(block[--count]));
    OK(cudaMalloc(&block[count], 8 << 20));
    count++;
    OK(cudaMemGetInfo(&available, &total));
    assert_true(available < 8 << 20);
    while (count)
        OK(cudaFree(block[--count]));
}

static void keeps_many_allocations(void **state) {
    (void)state;
    enum { MANY = 100000 };
    static void *block[MANY];
    double start = now_ms();
    for (size_t i = 0; i < MANY; i++)
        OK(cudaMalloc(&block[i], 512 * (1 + i % 7)));
    for (size_t i = 0; i < MANY; i += 2)
        OK(cudaFree(block[i]));
    for (size_t i = 0; i < MANY; i += 2)
        OK(cudaMalloc(&block[i], 512));
    for (size_t i = 0; i < MANY; i++)
        OK(cudaFree(block[i]));
    assert_true(now_ms() - start < 10000);
}

static void registers_host_ranges(void **state) {
    (void)state;
    static char buffer[16384];
    struct cudaPointerAttributes attributes;
    OK(cudaHostRegister(buffer + 4096, 4096, 0));
    REFUSED(cudaHostRegister(buffer + 4096, 4096, 0), 712);
    REFUSED(cudaHostRegister(buffer + 6000, 10000, 0), 712);
    REFUSED(cudaHostRegister(buffer, 5000, 0), 712);
    OK(cudaPointerGetAttributes(&attributes, buffer + 5000));
    assert_int_equal(attributes.type, cudaMemoryTypeHost);
    OK(cudaPointerGetAttributes(&attributes, buffer));
    assert_int_equal(attributes.type, cudaMemoryTypeUnregistered);
    REFUSED(cudaHostUnregister(buffer), 713);
    REFUSED(cudaHostUnregister(buffer + 5000), 713);
    REFUSED(cudaFreeHost(buffer + 4096), 1);
    OK(cudaHostUnregister(buffer + 4096));
    REFUSED(cudaHostUnregister(buffer + 4096), 713);
    REFUSED(cudaHostRegister(NULL, 4096, 0), 1);
    REFUSED(cudaHostRegister(buffer, 0, 0), 1);
    REFUSED(cudaHostRegister((void *)4096, 4096, 0), 1); /* nothing is mapped there */
}

static void tells_what_lies_where(void **state) {
    (void)state;
    struct cudaPointerAttributes a;
    char *device, *pinned, *managed;
    OK(cudaMalloc((void **)&device, 4096));
    OK(cudaMallocHost((void **)&pinned, 4096));
    OK(cudaMallocManaged((void **)&managed, 4096, 1));
    OK(cudaPointerGetAttributes(&a, device + 4095));
    assert_true(a.type == cudaMemoryTypeDevice && a.devicePointer == device + 4095 &&
                a.hostPointer == NULL && a.device == 0);
    OK(cudaPointerGetAttributes(&a, pinned + 100));
    assert_true(a.type == cudaMemoryTypeHost && a.hostPointer == pinned + 100);
    OK(cudaPointerGetAttributes(&a, managed));
    assert_int_equal(a.type, cudaMemoryTypeManaged);
    managed[0] = 'x'; /* the host may touch it */
    REFUSED(cudaMallocManaged((void **)&a.hostPointer, 0, 1), 1);
    REFUSED(cudaMallocManaged((void **)&a.hostPointer, 16, 7), 1);
    OK(cudaFree(device));
    OK(cudaFree(managed));
    OK(cudaFreeHost(pinned));
}

static uint64_t pool_attribute(cudaMemPool_t pool, int attribute) {
    uint64_t value = 0;
    OK(cudaMemPoolGetAttribute(pool, (enum cudaMemPoolAttr)attribute, &value));
    return value;
}

static void pools_keep_and_give_back(void **state) {
    (void)state;
    enum { THRESHOLD = 4, RESERVED = 5, USED = 7 };
    cudaMemPool_t pool;
    cudaStream_t s;
    void *a, *b;
    uint64_t keep = UINT64_MAX;
    OK(cudaStreamCreate(&s));
    OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    OK(cudaMemPoolSetAttribute(pool, (enum cudaMemPoolAttr)THRESHOLD, &keep));
    OK(cudaMallocAsync(&a, 3 << 20, s));
    assert_int_equal(pool_attribute(pool, USED), 3 << 20);
    OK(launch(s));
    OK(cudaFreeAsync(a, s));
    REFUSED(cudaFreeAsync(a, s), 1);
    REFUSED(cudaFree(a), 1);
    OK(cudaMallocAsync(&b, 3 << 20, s)); /* the same stream may take it again at once */
    assert_ptr_equal(a, b);
    OK(cudaFreeAsync(b, s));
    OK(cudaStreamSynchronize(s));
    assert_int_equal(pool_attribute(pool, USED), 0);
    assert_int_equal(pool_attribute(pool, RESERVED), 3 << 20);
    keep = 0;
    OK(cudaMemPoolSetAttribute(pool, (enum cudaMemPoolAttr)THRESHOLD, &keep));
    OK(cudaStreamSynchronize(s));
    assert_int_equal(pool_attribute(pool, RESERVED), 0);
    REFUSED(cudaMallocAsync(&a, 2ull << 30, s), 2);
    REFUSED(cudaMallocAsync(&a, 512, (cudaStream_t)0x770), 400);
    OK(cudaMallocAsync(&a, 512, s));
    OK(cudaFree(a));
    OK(cudaMalloc(&a, 1000)); /* a stream may free it too */
    OK(cudaFreeAsync(a, s));
    REFUSED(cudaFree(a), 1);
    OK(cudaStreamSynchronize(s));
    assert_int_equal(pool_attribute(pool, RESERVED), 0);
    OK(cudaStreamDestroy(s));
}

static void a_reset_takes_everything(void **state) {
    (void)state;
    void *p, *array;
    cudaStream_t s;
    cudaEvent_t e;
    struct cudaChannelFormatDesc floats = {.x = 32};
    size_t available, total;
    OK(cudaSetDevice(1));
    OK(cudaMalloc(&p, 4 << 20));
    OK(cudaMallocArray((cudaArray_t *)&array, &floats, 64, 64, 0));
    OK(cudaStreamCreate(&s));
    OK(cudaEventCreate(&e));
    OK(launch(s));
    OK(cudaDeviceReset());
    REFUSED(cudaFree(p), 1);
    REFUSED(cudaFreeArray(array), 400);
    REFUSED(cudaStreamDestroy(s), 400);
    REFUSED(cudaEventDestroy(e), 400);
    OK(cudaMemGetInfo(&available, &total));
    assert_int_equal(available, total);
    OK(cudaSetDevice(0));
}

int test_memory(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_bad_frees),        cmocka_unit_test(aligns_and_reuses),
        cmocka_unit_test(runs_out_of_memory),       cmocka_unit_test(keeps_many_allocations),
        cmocka_unit_test(registers_host_ranges),    cmocka_unit_test(tells_what_lies_where),
        cmocka_unit_test(pools_keep_and_give_back), cmocka_unit_test(a_reset_takes_everything),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
