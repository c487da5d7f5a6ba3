/*
 * used.c - takes the device's memory in steps, and says how much cudaMemGetInfo finds in use after
 * each: "used NS BYTES", NS of CLOCK_REALTIME. It stays at each step for longer than whoever looks
 * from outside waits between two looks.
 */
#include <time.h>

enum { STEPS = 4, STAY_MS = 1300 };
#define STEP ((size_t)200 << 20)

static void say_used(void) {
    struct timespec now;
    size_t available, total;
    CHECK(cudaMemGetInfo(&available, &total));
    clock_gettime(CLOCK_REALTIME, &now);
    printf("used %lld %zu\n", (long long)now.tv_sec * 1000000000 + now.tv_nsec, total - available);
}

static void stay(void) {
    nanosleep(&(struct timespec){STAY_MS / 1000, STAY_MS % 1000 * 1000000L}, NULL);
}

int main(void) {
    void *memory[STEPS];
    CHECK(cudaFree(NULL));
    for (int i = 0; i < STEPS; i++) {
        CHECK(cudaMalloc(&memory[i], STEP));
        say_used();
        stay();
    }
    for (int i = 0; i < STEPS; i++)
        CHECK(cudaFree(memory[i]));
    return 0;
}
