/*
 * test_copies.c - copies and memsets of the simulated device: what they move, what they refuse.
 */
#include "test_standin.h"

#include <sys/mman.h>

enum { H2H, H2D, D2H, D2D, DEFAULT };
#define KIND(kind) ((enum cudaMemcpyKind)(kind))

static void fill(char *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        p[i] = (char)(i * 7 + 3);
}

static void moves_bytes(void **state) {
    (void)state;
    char from[5000], to[5000];
    char *a, *b;
    fill(from, sizeof from);
    OK(cudaMalloc((void **)&a, sizeof from));
    OK(cudaMalloc((void **)&b, sizeof from));
    OK(cudaMemcpy(a, from, sizeof from, KIND(H2D)));
    OK(cudaMemcpy(b, a, sizeof from, KIND(D2D)));
    OK(cudaMemset(b + 10, 0x5a, 20));
    OK(cudaMemcpy(to, b, sizeof to, KIND(DEFAULT)));
    memset(from + 10, 0x5a, 20);
    assert_memory_equal(from, to, sizeof to);
    OK(cudaMemcpy(to, b + 4000, 1000, KIND(D2H))); /* interior */
    assert_memory_equal(from + 4000, to, 1000);
    OK(cudaFree(a));
    OK(cudaFree(b));
}

static void refuses_what_hardware_refuses(void **state) {
    (void)state;
    char host[64] = {0};
    char *a;
    OK(cudaMalloc((void **)&a, 64));
    REFUSED(cudaMemcpy(a, host, 65, KIND(H2D)), 1);
    REFUSED(cudaMemcpy(host, a + 1, 64, KIND(D2H)), 1);
    REFUSED(cudaMemcpy(host, host + 32, 8, KIND(H2D)), 1);
    REFUSED(cudaMemcpy(a, host, 8, KIND(D2H)), 1);
    REFUSED(cudaMemcpy(a, a + 32, 8, KIND(H2H)), 1);
    REFUSED(cudaMemcpy(a, host, 8, KIND(5)), 21);
    REFUSED(cudaMemcpy(a, host, 8, KIND(-1)), 21);
    REFUSED(cudaMemcpy(NULL, host, 8, KIND(H2D)), 1);
    REFUSED(cudaMemcpy(a, NULL, 8, KIND(H2D)), 1);
    REFUSED(cudaMemcpy(a + 4096, host, 8, KIND(H2D)), 1); /* of the device, but not allocated */
    REFUSED(cudaMemcpyAsync(a, host, 8, KIND(H2D), (cudaStream_t)0x40), 400);
    REFUSED(cudaMemset(a, 0, 65), 1);
    REFUSED(cudaMemset(host, 0, 8), 1);
    REFUSED(cudaMemset(NULL, 0, 8), 1);
    REFUSED(cudaMemcpy2D(a, 4, host, 8, 8, 2, KIND(H2D)), 12);
    REFUSED(cudaMemcpy2D(a, 32, host, 8, 8, 3, KIND(H2D)), 1);
    OK(cudaMemcpy(NULL, NULL, 0, KIND(H2D)));
    OK(cudaFree(a));
    REFUSED(cudaMemcpy(a, host, 8, KIND(H2D)), 1); /* after the free */
    REFUSED(cudaMemcpyPeer(NULL, 0, host, 7, 8), 1);
}

static void pitched_and_3d(void **state) {
    (void)state;
    enum { W = 100, H = 5, D = 3 };
    char from[D][H][W], to[D][H][W];
    char *a;
    size_t pitch;
    fill(&from[0][0][0], sizeof from);
    OK(cudaMallocPitch((void **)&a, &pitch, W, H));
    assert_int_equal(pitch, 512);
    OK(cudaMemcpy2D(a, pitch, from, W, W, H, KIND(H2D)));
    OK(cudaMemset2D(a, pitch, 9, 3, 2));
    OK(cudaMemcpy2D(to, W, a, pitch, W, H, KIND(D2H)));
    assert_memory_equal(from[0][2], to[0][2], W);
    assert_true(to[0][1][2] == 9 && to[0][1][3] == from[0][1][3]);
    OK(cudaFree(a));

    struct cudaPitchedPtr p;
    struct cudaExtent extent = {W, H, D};
    OK(cudaMalloc3D(&p, extent));
    struct cudaMemcpy3DParms in = {.srcPtr = {from, W, W, H}, .dstPtr = p, .extent = extent};
    in.kind = KIND(H2D);
    OK(cudaMemcpy3D(&in));
    memset(to, 0, sizeof to);
    struct cudaMemcpy3DParms out = {.srcPtr = p, .dstPtr = {to, W, W, H}};
    out.extent = (struct cudaExtent){W - 10, H - 1, D - 1}; /* a part, from (10, 1, 1) */
    out.srcPos = (struct cudaPos){10, 1, 1};
    out.kind = KIND(D2H);
    OK(cudaMemcpy3D(&out));
    assert_memory_equal(to[1][3], &from[2][4][10], W - 10);
    out.extent.depth = D;
    REFUSED(cudaMemcpy3D(&out), 1);
    REFUSED(cudaMemcpy3D(NULL), 1);
    OK(cudaFree(p.ptr));
}

static void arrays_have_rows(void **state) {
    (void)state;
    enum { W = 30, H = 4 };
    float from[H][W], to[H][W];
    cudaArray_t a;
    struct cudaChannelFormatDesc floats = {.x = 32, .f = (enum cudaChannelFormatKind)2};
    struct cudaChannelFormatDesc bad = {.x = 7};
    fill((char *)from, sizeof from);
    REFUSED(cudaMallocArray(&a, &bad, W, H, 0), 20);
    OK(cudaMallocArray(&a, &floats, W, H, 0));
    OK(cudaMemcpy2DToArray(a, 0, 0, from, sizeof from[0], sizeof from[0], H, KIND(H2D)));
    OK(cudaMemcpy2DFromArray(to, sizeof to[0], a, 0, 0, sizeof to[0], H, KIND(D2H)));
    assert_memory_equal(from, to, sizeof to);
    memset(to, 0, sizeof to);
    struct cudaMemcpy3DParms out = {.srcArray = a, .dstPtr = {to, sizeof to[0], W, H}};
    out.extent = (struct cudaExtent){W - 2, 1, 1}; /* in elements where an array takes part */
    out.srcPos = (struct cudaPos){2, 3, 0};
    out.kind = KIND(D2H);
    OK(cudaMemcpy3D(&out));
    assert_memory_equal(to, &from[3][2], (W - 2) * sizeof(float));
    REFUSED(cudaMemcpy2DToArray(a, 4, 0, from, 120, 120, H, KIND(H2D)), 1);
    REFUSED(cudaMemcpy2DToArray((cudaArray_t)from, 0, 0, from, 120, 120, H, KIND(H2D)), 400);
    OK(cudaFreeArray(a));
    REFUSED(cudaFreeArray(a), 400);
    OK(cudaFreeArray(NULL));
}

static void variables_are_found(void **state) {
    (void)state;
    char from[64], to[64];
    void *p;
    fill(from, sizeof from);
    OK(cudaMemcpyToSymbol(some_variable, from, 64, 0, KIND(H2D)));
    OK(cudaMemcpyFromSymbol(to, some_variable, 32, 32, KIND(D2H)));
    assert_memory_equal(to, from + 32, 32);
    OK(cudaGetSymbolAddress(&p, some_variable));
    OK(cudaMemcpy(to, p, 64, KIND(D2H)));
    assert_memory_equal(to, from, 64);
    REFUSED(cudaMemcpyToSymbol(from, from, 8, 0, KIND(H2D)), 13);
    REFUSED(cudaMemcpyToSymbol(some_variable, from, 64, 1, KIND(H2D)), 1);
    REFUSED(cudaMemcpyToSymbol(some_variable, from, 8, 0, KIND(D2H)), 21);
    REFUSED(cudaFree(p), 1); /* the module's */
}

static void peers_copy(void **state) {
    (void)state;
    char from[100], to[100];
    void *a, *b;
    fill(from, sizeof from);
    OK(cudaMalloc(&a, 100));
    OK(cudaSetDevice(1));
    OK(cudaMalloc(&b, 100));
    OK(cudaMemcpy(a, from, 100, KIND(H2D)));
    OK(cudaMemcpyPeer(b, 1, a, 0, 100));
    OK(cudaMemcpy(to, b, 100, KIND(D2H)));
    assert_memory_equal(from, to, 100);
    REFUSED(cudaMemcpyPeer(b, 0, a, 0, 100), 1);
    REFUSED(cudaMemcpyPeer(b, 9, a, 0, 100), 101);
    OK(cudaFree(b));
    OK(cudaSetDevice(0));
    OK(cudaFree(a));
}

/* A registration that its owner unmapped early must not bring the process down. */
static void survives_memory_that_went_away(void **state) {
    (void)state;
    void *device;
    cudaStream_t s;
    char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    OK(cudaStreamCreate(&s));
    OK(cudaMalloc(&device, 8192));
    OK(cudaHostRegister(p, 8192, 0));
    OK(launch(s));
    OK(cudaMemcpyAsync(device, p, 8192, KIND(H2D), s));
    munmap(p, 8192);
    OK(cudaStreamSynchronize(s));
    OK(cudaHostUnregister(p));
    OK(cudaFree(device));
    OK(cudaStreamDestroy(s));
}

int test_copies(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves_bytes),
        cmocka_unit_test(refuses_what_hardware_refuses),
        cmocka_unit_test(pitched_and_3d),
        cmocka_unit_test(arrays_have_rows),
        cmocka_unit_test(variables_are_found),
        cmocka_unit_test(peers_copy),
        cmocka_unit_test(survives_memory_that_went_away),
    };
    return cmocka_run_group_tests_name("copies", tests, NULL, NULL);
}
