/*
 * throws.cpp - C++ exceptions through frames that hooked calls were made in: destructors call CUDA
 * while the stack unwinds, on several threads. Layoutspy's own unwinder must not come between.
 */
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cuda_app.h"

namespace {

struct Buffer {
    void *p = nullptr;
    explicit Buffer(size_t size) {
        CHECK(cudaMalloc(&p, size));
    }
    ~Buffer() {
        CHECK(cudaFree(p));
    }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
};

NOINLINE int descend(int levels) {
    Buffer buffer(64 + (size_t)levels);
    if (levels == 0)
        throw std::runtime_error("bottom");
    return descend(levels - 1) + 1;
}

void called_back(void *data) {
    try {
        throw std::string("inside a callback");
    } catch (const std::string &text) {
        *static_cast<size_t *>(data) += text.size();
    }
}

void work(int *caught) {
    for (int i = 0; i < 200; i++) {
        try {
            descend(i % 12);
        } catch (const std::runtime_error &) {
            ++*caught;
        }
    }
}

} // namespace

int main() {
    int caught[3] = {0, 0, 0};
    size_t length = 0;
    std::vector<std::thread> threads;

    for (int &count : caught)
        threads.emplace_back(work, &count);
    for (std::thread &thread : threads)
        thread.join();
    for (int i = 0; i < 10; i++)
        CHECK(cudaLaunchHostFunc(nullptr, called_back, &length));
    CHECK(cudaDeviceSynchronize());
    printf("caught %d, length %zu\n", caught[0] + caught[1] + caught[2], length);
    return 0;
}
