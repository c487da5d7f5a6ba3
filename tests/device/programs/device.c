/*
 * device.c - one line about the device, its driver and the runtime.
 */
int main(void) {
    struct cudaDeviceProp prop;
    int driver = 0, runtime = 0, count = 0;
    cudaError_t status = cudaGetDeviceCount(&count);

    if (status != cudaSuccess || count == 0) {
        fprintf(stderr, "no device: %s\n", cudaGetErrorName(status));
        return 1;
    }
    CHECK(cudaDriverGetVersion(&driver));
    CHECK(cudaRuntimeGetVersion(&runtime));
    CHECK(cudaGetDeviceProperties(&prop, 0));
    printf("%s, compute %d.%d, %zu MiB, %d device(s), driver's CUDA %d.%d, runtime %d.%d\n",
           prop.name, prop.major, prop.minor, prop.totalGlobalMem >> 20, count, driver / 1000,
           driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    return 0;
}
