// kernels.cu - the kernels of kernels.c, behind plain functions.

__global__ void set_all(int *data, int value, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        data[i] = value;
}

__global__ void add_one(int *data, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        data[i]++;
}

__global__ void write_nowhere(int *data) {
    data[threadIdx.x] = 1;
}

extern "C" void launch_set_all(int *data, int value, int count, cudaStream_t stream) {
    set_all<<<(count + 255) / 256, 256, 0, stream>>>(data, value, count);
}

extern "C" void launch_add_one(int *data, int count, cudaStream_t stream) {
    add_one<<<(count + 255) / 256, 256, 0, stream>>>(data, count);
}

extern "C" void launch_write_nowhere(void) {
    write_nowhere<<<1, 32>>>((int *)16);
}

__global__ void busy(float *data, int count, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float value = i < count ? data[i] : 0;
    for (int round = 0; round < rounds; round++)
        value = value * 0.999f + 1.0f;
    if (i < count)
        data[i] = value;
}

extern "C" void launch_busy(float *data, int count, int rounds, cudaStream_t stream) {
    busy<<<(count + 255) / 256, 256, 0, stream>>>(data, count, rounds);
}
