/*
 * test_streams.c - streams and events of the simulated device: late, in order, as on hardware.
 */
#include "test_standin.h"

#include <pthread.h>
#include <unistd.h>

#define KIND(kind) ((enum cudaMemcpyKind)(kind))
enum { H2D = 1, D2H = 2 };
#define NOT_READY 600

static cudaStream_t new_stream(unsigned flags) {
    cudaStream_t s;
    OK(cudaStreamCreateWithFlags(&s, flags));
    return s;
}

static void pinned_copies_run_late(void **state) {
    (void)state;
    cudaStream_t s = new_stream(1);
    char *pinned, *device, host[4];
    OK(cudaMallocHost((void **)&pinned, 4));
    OK(cudaMalloc((void **)&device, 4));
    memcpy(pinned, "old", 4);
    cudaGetLastError();
    double start = now_ms();
    OK(launch(s));
    OK(cudaMemcpyAsync(device, pinned, 4, KIND(H2D), s));
    assert_true(now_ms() - start < KERNEL_MS / 2); /* it did not wait for the kernel */
    REFUSED(cudaStreamQuery(s), NOT_READY);
    assert_int_equal((int)cudaPeekAtLastError(), 0); /* not ready is no error */
    memcpy(pinned, "new", 4);                        /* too early: the copy sees it */
    OK(cudaStreamSynchronize(s));
    assert_true(now_ms() - start >= KERNEL_MS - 1);
    OK(cudaStreamQuery(s));
    OK(cudaMemcpy(host, device, 4, KIND(D2H)));
    assert_string_equal(host, "new");
    OK(cudaFreeHost(pinned));
    OK(cudaFree(device));
    OK(cudaStreamDestroy(s));
}

static void pageable_copies_hold_the_host(void **state) {
    (void)state;
    cudaStream_t s = new_stream(1);
    char host[4] = "abc", *device;
    OK(cudaMalloc((void **)&device, 4));
    double start = now_ms();
    OK(launch(s));
    OK(cudaMemcpyAsync(device, host, 4, KIND(H2D), s));
    assert_true(now_ms() - start >= KERNEL_MS - 1);
    start = now_ms();
    OK(launch(s));
    OK(cudaMemcpyAsync(host, device, 4, KIND(D2H), s));
    assert_true(now_ms() - start >= KERNEL_MS - 1);
    assert_string_equal(host, "abc");
    OK(cudaFree(device));
    OK(cudaStreamDestroy(s));
}

static void legacy_stream_and_blocking_streams_wait(void **state) {
    (void)state;
    cudaStream_t blocking = new_stream(0), apart = new_stream(1);
    char *device, host[4];
    OK(cudaMalloc((void **)&device, 4));
    double start = now_ms();
    OK(launch(blocking));
    OK(cudaMemcpy(host, device, 4, KIND(D2H))); /* legacy: after the kernel */
    assert_true(now_ms() - start >= KERNEL_MS - 1);
    start = now_ms();
    OK(launch(apart));
    OK(cudaMemcpy(host, device, 4, KIND(D2H))); /* not after this one */
    assert_true(now_ms() - start < KERNEL_MS - 1);
    OK(cudaDeviceSynchronize());
    start = now_ms();
    OK(launch(NULL));
    OK(launch(blocking)); /* after the legacy stream's: two kernels in all */
    OK(cudaStreamSynchronize(blocking));
    assert_true(now_ms() - start >= 2 * KERNEL_MS - 2);
    start = now_ms();
    OK(launch(blocking));
    OK(launch(apart)); /* side by side */
    OK(cudaDeviceSynchronize());
    assert_true(now_ms() - start < 2 * KERNEL_MS - 2);
    OK(cudaFree(device));
    OK(cudaStreamDestroy(blocking));
    OK(cudaStreamDestroy(apart));
}

static void events_order_streams(void **state) {
    (void)state;
    cudaStream_t a = new_stream(1), b = new_stream(1);
    cudaEvent_t first, last, never;
    float ms;
    OK(cudaEventCreate(&first));
    OK(cudaEventCreate(&last));
    OK(cudaEventCreate(&never));
    OK(cudaEventRecord(first, a));
    OK(launch(a));
    OK(cudaEventRecord(last, a));
    OK(cudaStreamWaitEvent(b, last, 0));
    REFUSED(cudaEventQuery(last), NOT_READY);
    REFUSED(cudaStreamQuery(b), NOT_READY);
    REFUSED(cudaEventElapsedTime(&ms, first, last), NOT_READY);
    OK(cudaStreamSynchronize(b));
    OK(cudaEventQuery(last));
    OK(cudaEventElapsedTime(&ms, first, last));
    assert_true(ms >= KERNEL_MS - 0.1f && ms < KERNEL_MS * 3);
    OK(cudaEventQuery(never)); /* never recorded: complete */
    OK(cudaEventSynchronize(never));
    REFUSED(cudaEventElapsedTime(&ms, first, never), 400);
    OK(launch(a));
    OK(cudaEventRecord(last, a)); /* recorded again: the latest counts */
    REFUSED(cudaEventQuery(last), NOT_READY);
    OK(cudaEventDestroy(last)); /* with work under way */
    REFUSED(cudaEventQuery(last), 400);
    OK(cudaStreamDestroy(a)); /* its work still runs */
    REFUSED(cudaStreamSynchronize(a), 400);
    OK(cudaDeviceSynchronize());
    OK(cudaStreamDestroy(b));
    OK(cudaEventDestroy(first));
    OK(cudaEventDestroy(never));
}

struct seen {
    int status, order;
    cudaStream_t stream;
};
static int order;

static void host_function(void *data) {
    struct seen *seen = data;
    void *p;
    seen->order = ++order;
    seen->status = (int)cudaMalloc(&p, 16); /* not allowed in here */
}

static void callback(cudaStream_t stream, cudaError_t status, void *data) {
    struct seen *seen = data;
    seen->order = ++order;
    seen->stream = stream;
    seen->status = (int)status;
}

static void host_functions_take_their_turn(void **state) {
    (void)state;
    cudaStream_t s = new_stream(1);
    struct seen one = {-1, 0, NULL}, two = {-1, 0, NULL};
    OK(launch(s));
    OK(cudaLaunchHostFunc(s, host_function, &one));
    OK(cudaStreamAddCallback(s, callback, &two, 0));
    assert_int_equal(one.order, 0);
    OK(cudaStreamSynchronize(s));
    assert_true(one.order == 1 && two.order == 2);
    assert_true(one.status == 800 && two.status == 0 && two.stream == s);
    REFUSED(cudaLaunchHostFunc(s, NULL, NULL), 1);
    OK(cudaStreamDestroy(s));
}

static void *thread_of_its_own(void *data) {
    (void)data;
    int status =
        (int)cudaLaunchKernel_ptsz(&some_kernel, dim(1, 1, 1), dim(1, 1, 1), NULL, 0, NULL);
    status |= (int)cudaStreamSynchronize_ptsz(NULL);
    status |= (int)cudaStreamSynchronize((cudaStream_t)2); /* the same stream by its handle */
    return (void *)(intptr_t)status;
}

static void threads_have_default_streams(void **state) {
    (void)state;
    pthread_t thread[4];
    double start = now_ms();
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, thread_of_its_own, NULL), 0);
    for (int i = 0; i < 4; i++) {
        void *status;
        pthread_join(thread[i], &status);
        assert_null(status);
    }
    assert_true(now_ms() - start < 4 * KERNEL_MS - 5); /* not one after the other */
}

static void queues_are_bounded(void **state) {
    (void)state;
    cudaStream_t s = new_stream(1);
    char *device;
    OK(cudaMalloc((void **)&device, 64));
    for (int i = 0; i < 20000; i++)
        OK(cudaMemsetAsync(device, i, 64, s));
    char host[64];
    OK(cudaMemcpyAsync(host, device, 64, KIND(D2H), s));
    assert_int_equal((unsigned char)host[0], 19999 % 256);
    OK(cudaFree(device));
    OK(cudaStreamDestroy(s));
}

int test_streams(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pinned_copies_run_late),
        cmocka_unit_test(pageable_copies_hold_the_host),
        cmocka_unit_test(legacy_stream_and_blocking_streams_wait),
        cmocka_unit_test(events_order_streams),
        cmocka_unit_test(host_functions_take_their_turn),
        cmocka_unit_test(threads_have_default_streams),
        cmocka_unit_test(queues_are_bounded),
    };
    return cmocka_run_group_tests_name("streams", tests, NULL, NULL);
}
