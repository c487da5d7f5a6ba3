/*
 * mapped.c - a growing array, as allocators with expandable segments have it: addresses are
 * reserved once, physical memory is mapped behind the end as it is needed, and unmapped from the
 * middle. Two threads have one each.
 */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdint.h>

#include "expect.h"

#define PAGE ((size_t)2 << 20)
#define PAGES 16
#define ROUNDS 20

/* As cuda.h has them, which programs of the runtime alone may do without. */
typedef int CUresult;
typedef unsigned long long CUdeviceptr, CUmemGenericAllocationHandle;
typedef struct {
    int type, requestedHandleTypes;
    struct {
        int type, id;
    } location;
    void *win32HandleMetaData;
    unsigned char allocFlags[8];
} CUmemAllocationProp;
enum { CU_MEM_LOCATION_TYPE_DEVICE = 1 };

CUresult cuMemAddressReserve(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
CUresult cuMemAddressFree(CUdeviceptr, size_t);
CUresult cuMemCreate(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *,
                     unsigned long long);
CUresult cuMemRelease(CUmemGenericAllocationHandle);
CUresult cuMemMap(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long);
CUresult cuMemUnmap(CUdeviceptr, size_t);

static NOINLINE void grow(CUdeviceptr at, size_t page, size_t pages) {
    CUmemAllocationProp prop = {.type = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle;
    CHECK(cuMemCreate(&handle, pages * PAGE, &prop, 0));
    CHECK(cuMemMap(at + page * PAGE, pages * PAGE, 0, handle, 0));
    CHECK(cuMemRelease(handle)); /* the mapping keeps it */
}

static void *use(void *unused) {
    CUdeviceptr at;
    CHECK(cudaFree(NULL));
    CHECK(cuMemAddressReserve(&at, PAGES * PAGE, 0, 0, 0));
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t page = 0; page < 6; page += 2)
            grow(at, page, 2);
        grow(at, 6, 1);
        CHECK(cuMemUnmap(at + 2 * PAGE, 4 * PAGE)); /* two mappings at once */
        grow(at, 2, 4);
        CHECK(cuMemUnmap(at, 7 * PAGE));
    }
    grow(at, 0, 3); /* held to the end */
    return unused;
}

int main(void) {
    pthread_t thread[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&thread[i], NULL, use, NULL));
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(thread[i], NULL));
    return 0;
}
