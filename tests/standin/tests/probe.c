/*
 * probe.c - what needs a process of its own: `standin-probe VERB` does one thing to the simulated
 * device; ../../e2e/test_standin.py looks at its status, its output and the log.
 */
#include "../../apps/cuda_app.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char kernel;

__attribute__((constructor)) static void module(void) {
    void **m = __cudaRegisterFatBinary(NULL);
    __cudaRegisterFunction(m, &kernel, NULL, "_Z5probev", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(m);
}

static void launch(cudaStream_t stream) {
    CHECK(cudaLaunchKernel(&kernel, dim(2, 1, 1), dim(64, 1, 1), NULL, 0, stream));
}

/* The host touches device memory. */
static int segv(void) {
    char *p;
    CHECK(cudaMalloc((void **)&p, 100));
    return *(volatile char *)p;
}

static int child_status(pid_t pid) {
    int status;
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* 3 in the child of a process with a context, whichever way it was forked; the parent goes on. */
static int fork_after(void) {
    void *p;
    int count;
    cudaStream_t s;
    CHECK(cudaMalloc(&p, 100));
    CHECK(cudaStreamCreate(&s));
    for (int raw = 0; raw < 2; raw++) {
        launch(s);
        pid_t pid = raw ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
        if (pid == 0) {
            bool all = cudaMalloc(&p, 100) == 3 && cudaFree(p) == 3 &&
                       cudaStreamSynchronize(s) == 3 && cudaDeviceSynchronize() == 3 &&
                       cudaGetDeviceCount(&count) == 3 &&
                       cudaMemcpy(p, p, 1, cudaMemcpyDefault) == 3 && cudaStreamDestroy(s) == 3;
            cudaGetErrorName((cudaError_t)3);
            __cudaRegisterFatBinary(NULL);
            _exit(all ? 7 : 8);
        }
        EXPECT(child_status(pid) == 7);
    }
    CHECK(cudaFree(p));
    CHECK(cudaStreamDestroy(s));
    return 0;
}

/* A child of a process that never used the driver is as good as any. */
static int fork_before(void) {
    pid_t pid = fork();
    if (pid == 0) {
        void *p;
        CHECK(cudaMalloc(&p, 100));
        launch(NULL);
        CHECK(cudaFree(p));
        exit(7);
    }
    EXPECT(child_status(pid) == 7);
    void *p;
    CHECK(cudaMalloc(&p, 100));
    return 0;
}

static void *churn(void *data) {
    for (;;) {
        void *p;
        if (cudaMalloc(&p, 4096) != cudaSuccess)
            return data;
        cudaMemset(p, 1, 4096);
        cudaFree(p);
    }
}

/* Forks while other threads are inside the device. */
static int fork_storm(void) {
    pthread_t thread[2];
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_create(&thread[i], NULL, churn, NULL) == 0);
    for (int i = 0; i < 100; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            void *p;
            /* Before the threads' first call the child is free to use the device. */
            int status = (int)cudaMalloc(&p, 16);
            _exit(status == 0 || status == 3 ? 0 : 1);
        }
        EXPECT(child_status(pid) == 0);
    }
    _exit(0);
}

static void *late;

static void free_late(void) {
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(late));
    launch(NULL);
}

__attribute__((destructor)) static void after_exit(void) {
    void *p;
    if (late) {
        CHECK(cudaMalloc(&p, 16));
        CHECK(cudaFree(p));
        puts("freed after exit");
    }
}

/* Work is under way and threads are busy when main returns; CUDA is used after it. */
static int exit_busy(void) {
    pthread_t thread;
    CHECK(cudaMalloc(&late, 100));
    atexit(free_late);
    EXPECT(pthread_create(&thread, NULL, churn, NULL) == 0);
    launch(NULL);
    return 0;
}

/* A daemon closes everything and opens its own; no file of its may get a byte of ours. */
static int close_all(void) {
    void *p;
    char got[64];
    CHECK(cudaMalloc(&p, 100));
    EXPECT(syscall(SYS_close_range, 3, ~0u, 0) == 0);
    int fd[1000], count = 0;
    while (count < 800 && (fd[count] = open("daemon.out", O_RDWR | O_CREAT, 0666)) >= 0)
        count++;
    EXPECT(write(fd[0], "mine", 4) == 4);
    CHECK(cudaMemset(p, 1, 100));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(p));
    EXPECT(pread(fd[0], got, sizeof got, 0) == 4 && memcmp(got, "mine", 4) == 0);
    return 0;
}

/* Tells the statuses of a few calls, for the fault switch. */
static int faults(void) {
    void *p = NULL, *q = NULL;
    for (int i = 0; i < 4; i++)
        printf("%d ", (int)cudaMalloc(i ? &q : &p, 16));
    printf("%d ", (int)cudaMemset(p, 0, 16));
    printf("%d ", (int)cudaMemset(p, 0, 16));
    printf("%d ", (int)cudaFree(p));
    printf("%d\n", (int)cudaGetLastError());
    return 0;
}

/* Device memory without any context or device. */
static int no_device(void) {
    void *p;
    int count = -1;
    printf("%d ", (int)cudaGetDeviceCount(&count));
    printf("%d ", count);
    printf("%d ", (int)cudaMalloc(&p, 16));
    printf("%d\n", (int)cudaSetDevice(0));
    return 0;
}

/* ---- the driver ----------------------------------------------------------------------------- */

typedef int (*driver_call)();

static driver_call driver(const char *name) {
    void *function = NULL;
    driver_call typed;
    enum cudaDriverEntryPointQueryResult found = (enum cudaDriverEntryPointQueryResult)1;
    CHECK(cudaGetDriverEntryPointByVersion(name, &function, 13000, 0, &found));
    EXPECT((int)found == 0 && function);
    memcpy(&typed, &function, sizeof typed);
    return typed;
}

struct location {
    int type, id;
};
struct properties {
    int type, handles;
    struct location location;
    void *unused;
    unsigned char flags[8];
};
struct access {
    struct location location;
    int flags;
};

/* Addresses, physical memory, mappings: what growing segments do. */
static int vmm(void) {
    unsigned long long base, handle[3];
    size_t page;
    struct properties prop = {.type = 1, .location = {1, 0}};
    struct access access = {{1, 0}, 3};
    EXPECT(driver("cuMemCreate")(handle, (size_t)2 << 20, &prop, 0ull) == 3); /* before cuInit */
    CHECK(driver("cuInit")(0));
    CHECK(cudaFree(NULL));
    CHECK(driver("cuMemGetAllocationGranularity")(&page, &prop, 0));
    CHECK(driver("cuMemAddressReserve")(&base, 8 * page, (size_t)0, 0ull, 0ull));
    for (int i = 0; i < 2; i++) {
        CHECK(driver("cuMemCreate")(&handle[i], page, &prop, 0ull));
        CHECK(driver("cuMemMap")(base + (unsigned)i * page, page, (size_t)0, handle[i], 0ull));
        CHECK(driver("cuMemSetAccess")(base + (unsigned)i * page, page, &access, (size_t)1));
    }
    char *p = (char *)(uintptr_t)base, text[] = "over the border", got[sizeof text];
    CHECK(cudaMemcpy(p + page - 5, text, sizeof text, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(got, p + page - 5, sizeof text, cudaMemcpyDeviceToHost));
    EXPECT(strcmp(text, got) == 0);
    EXPECT(cudaMemcpy(p + 2 * page - 1, text, 2, cudaMemcpyHostToDevice) == 1);
    EXPECT(cudaFree(p) == 1);
    EXPECT(driver("cuMemCreate")(&handle[2], (size_t)1 << 40, &prop, 0ull) == 2);
    EXPECT(driver("cuMemAddressFree")(base, 8 * page) == 1); /* still mapped */
    CHECK(driver("cuMemUnmap")(base, 2 * page));
    EXPECT(cudaMemcpy(p, text, 2, cudaMemcpyHostToDevice) == 1);
    for (int i = 0; i < 2; i++) {
        CHECK(driver("cuMemRelease")(handle[i]));
        EXPECT(driver("cuMemRelease")(handle[i]) == 1);
    }
    CHECK(driver("cuMemAddressFree")(base, 8 * page));
    size_t available, total;
    CHECK(cudaMemGetInfo(&available, &total));
    EXPECT(available == total);
    return 0;
}

/* cuGetProcAddress finds everything, itself included, and what it finds works. */
static int proc_address(void) {
    static const char *const names[] = {"cuGetProcAddress", "cuInit",
                                        "cuMemAlloc",       "cuCtxCreate",
                                        "cuLaunchKernelEx", "cuStreamGetCaptureInfo",
                                        "cuGetErrorName",   "cuTensorMapEncodeTiled",
                                        "cuMemcpyHtoD",     "cuEventDestroy"};
    int (*again)(const char *, void **, int, unsigned long long, int *);
    driver_call found = driver("cuGetProcAddress");
    memcpy(&again, &found, sizeof again);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *function = NULL;
        int state = -1;
        CHECK(again(names[i], &function, 13000, 0, &state));
        EXPECT(function && state == 0);
    }
    void *function = &function;
    int state = -1;
    CHECK(again("cuNoSuchThing", &function, 13000, 0, &state));
    EXPECT(!function && state == 1);
    unsigned flags;
    int active = -1;
    CHECK(driver("cuInit")(0));
    CHECK(driver("cuDevicePrimaryCtxGetState")(0, &flags, &active));
    EXPECT(active == 0);
    CHECK(cudaFree(NULL));
    CHECK(driver("cuDevicePrimaryCtxGetState")(0, &flags, &active));
    EXPECT(active == 1);
    return 0;
}

int main(int argc, char **argv) {
    static const struct {
        const char *verb;
        int (*run)(void);
    } verbs[] = {{"segv", segv},
                 {"fork-after", fork_after},
                 {"fork-before", fork_before},
                 {"fork-storm", fork_storm},
                 {"exit-busy", exit_busy},
                 {"close-all", close_all},
                 {"faults", faults},
                 {"no-device", no_device},
                 {"vmm", vmm},
                 {"proc-address", proc_address}};
    for (size_t i = 0; argc == 2 && i < sizeof verbs / sizeof *verbs; i++)
        if (strcmp(argv[1], verbs[i].verb) == 0)
            return verbs[i].run();
    fprintf(stderr, "standin-probe: no such verb\n");
    return 2;
}
