/*
 * driver.c - the driver's functions alone, in the primary context: memory of several kinds, copies
 * both ways, memsets, a kernel from PTX. Counted as the others are (count.h), by hand.
 */
#include <cuda.h>

enum { BYTES = 1 << 20, ROUNDS = 5, LAUNCHES = 20 };

static const char *const ptx = ".version 7.0\n"
                               ".target sm_75\n"
                               ".address_size 64\n"
                               ".visible .entry add_one(.param .u64 data)\n"
                               "{\n"
                               "    .reg .b64 %rd<4>;\n"
                               "    .reg .b32 %r<4>;\n"
                               "    ld.param.u64 %rd1, [data];\n"
                               "    cvta.to.global.u64 %rd2, %rd1;\n"
                               "    ld.global.u32 %r1, [%rd2];\n"
                               "    add.u32 %r2, %r1, 1;\n"
                               "    st.global.u32 [%rd2], %r2;\n"
                               "    ret;\n"
                               "}\n";

static NOINLINE CUdeviceptr take(size_t size) {
    CUdeviceptr memory = 0;
    CHECK(cuMemAlloc(&memory, size));
    count_made(0, (void *)(uintptr_t)memory, size, COUNT_DEVICE, 0); /* SITE: take */
    return memory;
}

static void give_back(CUdeviceptr memory) {
    CHECK(cuMemFree(memory));
    count_freed(0, (void *)(uintptr_t)memory);
}

static void copy_all(CUdeviceptr device, CUdeviceptr other, char *pageable, char *pinned,
                     CUstream stream) {
    void *to = (void *)(uintptr_t)device, *beside = (void *)(uintptr_t)other;
    CHECK(cuMemcpyHtoD(device, pageable, BYTES));
    count_copy(0, to, pageable, BYTES, cudaMemcpyHostToDevice);
    CHECK(cuMemcpyDtoD(other, device, BYTES));
    count_copy(0, beside, to, BYTES, cudaMemcpyDeviceToDevice);
    CHECK(cuMemcpyHtoDAsync(device, pinned, BYTES / 2, stream));
    count_copy(0, to, pinned, BYTES / 2, cudaMemcpyHostToDevice);
    CHECK(cuMemcpyDtoHAsync(pinned, other, BYTES / 4, stream));
    count_copy(0, pinned, beside, BYTES / 4, cudaMemcpyDeviceToHost);
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(pageable, other, BYTES));
    count_copy(0, pageable, beside, BYTES, cudaMemcpyDeviceToHost);
    CHECK(cuMemsetD8(device, 0, BYTES));
    count_memset(0, BYTES);
    CHECK(cuMemsetD32Async(other, 7, BYTES / 8, stream));
    count_memset(0, BYTES / 2);
    CHECK(cuStreamSynchronize(stream));
}

static void launch(CUfunction function, CUdeviceptr device, CUstream stream) {
    void *arguments[] = {&device};
    for (int i = 0; i < LAUNCHES; i++)
        count_one((int)cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL),
                  &counted.launches);
    CHECK(cuStreamSynchronize(stream));
}

int main(void) {
    CUdevice ordinal;
    CUcontext context;
    CUmodule module;
    CUfunction function;
    CUstream stream;
    void *pinned;
    static char pageable[BYTES];
    int last = 0;

    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&ordinal, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, ordinal));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuModuleLoadData(&module, ptx));
    CHECK(cuModuleGetFunction(&function, module, "add_one"));
    CHECK(cuMemHostAlloc(&pinned, BYTES, 0));
    count_made(0, pinned, BYTES, COUNT_PINNED, 0);
    memset(pinned, 0, BYTES);
    CUdeviceptr device = take(BYTES), other = take(BYTES);
    take(4096 + 321); /* never given back */
    for (int round = 0; round < ROUNDS; round++) {
        copy_all(device, other, pageable, pinned, stream);
        launch(function, device, stream);
    }
    CHECK(cuMemcpyDtoH(&last, device, sizeof last));
    count_copy(0, &last, (void *)(uintptr_t)device, sizeof last, cudaMemcpyDeviceToHost);
    /* 0: this device only pretends to run kernels. */
    printf("the kernels %s\n", last == LAUNCHES ? "ran" : last == 0 ? "did nothing" : "failed");
    give_back(device);
    give_back(other);
    CHECK(cuMemFreeHost(pinned));
    count_freed(0, pinned);
    CHECK(cuModuleUnload(module));
    CHECK(cuStreamDestroy(stream));
    CHECK(cuDevicePrimaryCtxRelease(ordinal));
    return 0;
}
