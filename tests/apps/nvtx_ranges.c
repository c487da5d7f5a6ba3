/*
 * nvtx_ranges.c - a program with NVTX ranges of every form: nested, by domain, started and ended in
 * different threads, wide and long texts, registered strings, before the first CUDA call, never
 * ended. Prints what NVTX returned: levels and whether ids differ.
 */
#include <pthread.h>
#include <wchar.h>

#include <nvtx3/nvToolsExt.h>

#include "cuda_app.h"

enum { ROUNDS = 5, BYTES = 4096 };

static void *device;
static unsigned char host[BYTES];

static NOINLINE void feed(void) {
    CHECK(cudaMemcpy(device, host, BYTES, cudaMemcpyHostToDevice)); /* SITE: feed */
}

static void *worker(void *range) {
    int first = nvtxRangePushA("worker"), second = nvtxRangePushA("worker inner");
    nvtxRangeEnd(*(nvtxRangeId_t *)range);
    int popped = nvtxRangePop();
    printf("worker %d %d, popped %d %d\n", first, second, popped, nvtxRangePop());
    return NULL;
}

static void in_a_domain(nvtxDomainHandle_t domain) {
    nvtxEventAttributes_t attributes = {.version = NVTX_VERSION,
                                        .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                        .messageType = NVTX_MESSAGE_TYPE_REGISTERED};
    attributes.message.registered = nvtxDomainRegisterStringA(domain, "gemm");
    int first = nvtxDomainRangePushEx(domain, &attributes);
    attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
    attributes.message.ascii = "inner gemm";
    int second = nvtxDomainRangePushEx(domain, &attributes);
    nvtxDomainMarkEx(domain, &attributes);
    printf("domain %d %d", first, second);
    printf(", popped %d", nvtxDomainRangePop(domain));
    printf(" %d", nvtxDomainRangePop(domain));
    printf(" %d\n", nvtxDomainRangePop(domain));
}

static void texts(void) {
    char text[2000] = "";
    for (int i = 0; i < 300; i++)
        strcat(text, "\u00e9"); /* two bytes each */
    nvtxRangePushA(text);
    nvtxRangePop();
    nvtxRangePushW(L"Gr\u00f6\u00dfe \u6f22\u5b57 \U0001f600");
    nvtxRangePop();
    nvtxMarkA("here");
    nvtxMarkW(L"th\u00e9re");
}

int main(void) {
    pthread_t thread;
    int outer = nvtxRangePushA("program"), inner = nvtxRangePushA("loading");
    printf("before %d %d\n", outer, inner);
    CHECK(cudaMalloc(&device, BYTES));
    printf("loaded %d\n", nvtxRangePop());
    for (int i = 0; i < ROUNDS; i++) {
        nvtxRangePushA("round");
        nvtxRangePushA("feed");
        feed();
        nvtxRangePop();
        CHECK(cudaMemset(device, 0, BYTES));
        nvtxRangePop();
    }
    nvtxDomainHandle_t domain = nvtxDomainCreateA("my library");
    printf("a domain again is %s\n",
           nvtxDomainCreateW(L"my library") == domain ? "the same" : "other");
    in_a_domain(domain);
    texts();
    nvtxRangeId_t span = nvtxRangeStartA("span"), other = nvtxRangeStartW(L"other");
    printf("ids %s\n", span == other ? "are equal" : span && other ? "differ" : "are 0");
    pthread_create(&thread, NULL, worker, &span);
    pthread_join(thread, NULL);
    nvtxRangePushA("left open");
    CHECK(cudaFree(device));
    nvtxDomainDestroy(domain);
    return 0;
}
