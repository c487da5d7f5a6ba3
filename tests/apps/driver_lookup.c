/*
 * driver_lookup.c - a program that has the driver's functions by dlsym() alone, as Triton and its
 * kin do: by their names, and by cuGetProcAddress. An argument is a library to be loaded whose
 * function cuFrontAnswer is called (front.c).
 */
#include <dlfcn.h>
#include <string.h>

#include "expect.h"
#include "layoutspy/api/types.h"

static void *driver;

static void *look(const char *name) {
    void *found = dlsym(driver, name);
    EXPECT(found != NULL);
    return found;
}

/* The variable `name`, of the function's type. */
#define FUNCTION(name, params)                                                                     \
    CUresult(*name) params;                                                                        \
    do {                                                                                           \
        void *found = look(#name);                                                                 \
        memcpy(&name, &found, sizeof found);                                                       \
    } while (0)

static void ask_front(const char *path) {
    int (*answer)(void);
    void *front = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    EXPECT(front != NULL);
    void *found = dlsym(front, "cuFrontAnswer");
    EXPECT(found != NULL);
    memcpy(&answer, &found, sizeof found);
    printf("front: %d\n", answer());
}

int main(int argc, char **argv) {
    CUdeviceptr p = 0, q = 0;
    CUcontext context = NULL;
    int host[100] = {0}, found_state = 0;
    void *entry = NULL;
    CUresult (*free_it)(CUdeviceptr);

    if (argc > 1)
        ask_front(argv[1]);
    EXPECT((driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) != NULL);
    FUNCTION(cuInit, (unsigned));
    FUNCTION(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice));
    FUNCTION(cuCtxSetCurrent, (CUcontext));
    FUNCTION(cuMemAlloc_v2, (CUdeviceptr *, size_t));
    FUNCTION(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t));
    FUNCTION(cuGetProcAddress_v2, (const char *, void **, int, unsigned long long, int *));
    EXPECT(dlsym(driver, "cuNoSuchFunction") == NULL && dlerror() != NULL);
    EXPECT(dlsym(driver, "cuMemAlloc_v9") == NULL && dlerror() != NULL);

    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemAlloc_v2(&p, 1000));
    CHECK(cuMemAlloc_v2(&q, 2000));
    CHECK(cuMemcpyHtoD_v2(p, host, sizeof host));
    CHECK(cuGetProcAddress_v2("cuMemFree", &entry, 12000, 0, &found_state));
    memcpy(&free_it, &entry, sizeof entry);
    CHECK(free_it(p)); /* q is lost */
    CHECK(cuGetProcAddress_v2("cuGetProcAddress", &entry, 12000, 0, &found_state));
    EXPECT(entry != NULL);
    printf("done\n");
    return 0;
}
