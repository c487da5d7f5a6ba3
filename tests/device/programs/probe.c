/*
 * probe.c - what CUPTI does where its documentation is silent: one line "FACT NAME: VALUE" each.
 *
 * Usage: probe calls|subscribers|graphs|library|late LIBCUPTI LIBCUBLAS
 *
 *   calls        callbacks of the runtime's and the driver's calls, their numbers, records
 *   subscribers  a second client; kinds that are enabled without a subscription
 *   graphs       the numbers of a graph's kernels, in a first and a second session
 *   library      callbacks that cuBLAS's own runtime raises
 *   late         what records and callbacks cost; hand-overs; memory ($PROBE_LAUNCHES launches)
 *
 * Callbacks come in the threads that call, buffers back in any thread.
 */
#include <cupti.h>
#include <dlfcn.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "probe.h"

void launch_add_one(int *data, int count, cudaStream_t stream);

struct probe_cupti probe_cupti;
struct probe_log probe_log;
struct probe_records probe_records;
static CUpti_SubscriberHandle subscriber;
static void *data;

static const CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                           CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET};
enum { KINDS = sizeof kinds / sizeof *kinds, COUNT = 256 };

#define FACT(name, ...) (printf("FACT %s: ", name), printf(__VA_ARGS__), puts(""), fflush(stdout))

static void enable_kinds(int on) {
    for (int i = 0; i < KINDS; i++)
        CHECK(on ? probe_cupti.ActivityEnable(kinds[i]) : probe_cupti.ActivityDisable(kinds[i]));
}

static void subscribe(void) {
    CHECK(probe_cupti.Subscribe(&subscriber, probe_callback, NULL));
    CHECK(probe_cupti.ActivityRegisterCallbacks(probe_requested, probe_completed));
}

static void enable_domains(int on) {
    CHECK(probe_cupti.EnableDomain((unsigned)on, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API));
    CHECK(probe_cupti.EnableDomain((unsigned)on, subscriber, CUPTI_CB_DOMAIN_DRIVER_API));
}

/* ---- calls ---- */

static unsigned nested, same_id; /* driver callbacks inside the runtime's; those with its number */

/* "cudaMalloc_v3020 #7 > cuMemAlloc_v2 #7": in order of entry, > where inside the one before. */
static void say_calls(const char *what) {
    char text[2000] = "";
    size_t at = 0;
    for (unsigned i = 0; i < probe_log.count && at < sizeof text - 100; i++) {
        const struct probe_entry *entry = &probe_log.entries[i];
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s #%u",
                               i == 0         ? ""
                               : entry->outer ? " > "
                                              : ", ",
                               probe_name(entry), entry->id);
        if (entry->outer && entry->domain == CUPTI_CB_DOMAIN_DRIVER_API) {
            nested++;
            same_id += entry->id == entry->outer;
        }
    }
    char name[64];
    snprintf(name, sizeof name, "callbacks-of-%s", what);
    FACT(name, "%s", probe_log.count ? text : "none");
}

#define LOGGED(what, call)                                                                         \
    do {                                                                                           \
        probe_log.count = 0;                                                                       \
        probe_log.on = 1;                                                                          \
        call;                                                                                      \
        probe_log.on = 0;                                                                          \
        say_calls(what);                                                                           \
    } while (0)

static void say_records(const char *when) {
    char name[64];
    snprintf(name, sizeof name, "records-match-callbacks%s", when);
    FACT(name, "%u of %u kernels, %u of %u copies have the number of a runtime's callback",
         probe_records.kernels_matched, probe_records.kernels, probe_records.copies_matched,
         probe_records.copies);
}

static void say_clocks(void) {
    uint64_t ours = 0, theirs = 0, least = UINT64_MAX;
    int64_t off = 0;
    for (int i = 0; i < 20; i++) {
        uint64_t before = probe_now(CLOCK_REALTIME);
        int status = probe_cupti.GetTimestamp(&theirs);
        ours = probe_now(CLOCK_REALTIME);
        if (status == 0 && ours - before < least) {
            least = ours - before;
            off = (int64_t)(theirs - before - least / 2);
        }
    }
    FACT("timestamp-beside-realtime", "%lld ns, read within %llu ns", (long long)off,
         (unsigned long long)least);
}

static void calls(void) {
    void *memory, *host = malloc(4096);
    cudaStream_t stream;
    EXPECT(host);
    memset(host, 0, 4096);
    CHECK(cudaFree(NULL));
    enable_domains(1);
    CHECK(probe_cupti.EnableDomain(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE));
    enable_kinds(1);
    LOGGED("cudaMalloc", CHECK(cudaMalloc(&memory, 1 << 20)));
    LOGGED("cudaStreamCreate", CHECK(cudaStreamCreate(&stream)));
    LOGGED("cudaMemcpy", CHECK(cudaMemcpy(memory, host, 4096, cudaMemcpyHostToDevice)));
    LOGGED("cudaMemset", CHECK(cudaMemset(memory, 0, 4096)));
    LOGGED("first-launch", launch_add_one(memory, COUNT, stream));
    uint64_t before = probe_now(CLOCK_REALTIME);
    LOGGED("launch", launch_add_one(memory, COUNT, stream));
    CHECK(cudaStreamSynchronize(stream));
    uint64_t after = probe_now(CLOCK_REALTIME);
    LOGGED("cudaMallocAsync", CHECK(cudaMallocAsync(&data, 4096, stream)));
    LOGGED("cudaFree", CHECK(cudaFree(memory)));
    FACT("nested-driver-call-has-runtime-id", "%u of %u", same_id, nested);
    FACT("function-name", "%s", probe_log.function_name ? probe_log.function_name : "none");
    FACT("resource-callbacks",
         "context-created %u, cu-init %u, module-loaded %u, module-profiled %u, stream-created %u",
         probe_log.resource[CUPTI_CBID_RESOURCE_CONTEXT_CREATED],
         probe_log.resource[CUPTI_CBID_RESOURCE_CU_INIT_FINISHED],
         probe_log.resource[CUPTI_CBID_RESOURCE_MODULE_LOADED],
         probe_log.resource[CUPTI_CBID_RESOURCE_MODULE_PROFILED],
         probe_log.resource[CUPTI_CBID_RESOURCE_STREAM_CREATED]);
    CHECK(probe_cupti.ActivityFlushAll(0));
    say_records("");
    FACT("copy-runtime-correlation-id", "%u where correlationId is %u",
         probe_records.copy_runtime_id, probe_records.copy_id);
    FACT("buffers-come-back-in", "%s", probe_records.in_caller ? "the flushing thread" : "another");
    FACT("kernel-time-in-host-window",
         "start %+lld ns after the launch, end %+lld ns before the "
         "return of the synchronisation",
         (long long)(probe_records.kernel_start - before),
         (long long)(after - probe_records.kernel_end));
    say_clocks();
    FACT("timestamp-callback-of-null", "status %d",
         probe_cupti.ActivityRegisterTimestampCallback
             ? (int)probe_cupti.ActivityRegisterTimestampCallback(NULL)
             : -1);
    enable_kinds(0);
    FACT("unsubscribe", "status %d", (int)probe_cupti.Unsubscribe(subscriber));
    FACT("finalize", "status %d", (int)probe_cupti.Finalize());
}

/* ---- subscribers ---- */

static void subscribers(void) {
    CUpti_SubscriberHandle second = NULL;
    CHECK(cudaFree(NULL));
    int registered = (int)probe_cupti.ActivityRegisterCallbacks(probe_requested, probe_completed);
    int enabled = (int)probe_cupti.ActivityEnable(kinds[0]);
    FACT("v1-enable-without-subscription", "register %d, enable %d", registered, enabled);
    int status = (int)probe_cupti.Subscribe(&subscriber, probe_callback, NULL);
    FACT("v1-subscribe", "status %d", status);
    FACT("v1-subscribe-again", "status %d",
         (int)probe_cupti.Subscribe(&second, probe_callback, NULL));
    FACT("v1-enable-then", "status %d", (int)probe_cupti.ActivityEnable(kinds[1]));
    int (*subscribe_v2)(CUpti_SubscriberHandle *, CUpti_CallbackFunc, void *, void *) =
        (int (*)(CUpti_SubscriberHandle *, CUpti_CallbackFunc, void *, void *))probe_symbol(
            "cuptiSubscribe_v2");
    if (!subscribe_v2)
        return;
    FACT("v2-subscribe-beside-v1", "status %d", subscribe_v2(&second, probe_callback, NULL, NULL));
    FACT("unsubscribe-v1", "status %d", (int)probe_cupti.Unsubscribe(subscriber));
    FACT("v2-subscribe", "status %d", subscribe_v2(&second, probe_callback, NULL, NULL));
    FACT("v1-enable-under-v2", "status %d", (int)probe_cupti.ActivityEnable(kinds[2]));
    FACT("v1-subscribe-beside-v2", "status %d",
         (int)probe_cupti.Subscribe(&subscriber, probe_callback, NULL));
}

/* ---- graphs ---- */

enum { NODES = 3, REPLAYS = 4 };

static void session(const char *name, cudaGraphExec_t exec, cudaStream_t stream) {
    char text[64];
    memset(&probe_records, 0, sizeof probe_records);
    enable_domains(1);
    enable_kinds(1);
    probe_log.on = 1;
    for (int i = 0; i < REPLAYS; i++)
        CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    probe_log.on = 0;
    CHECK(probe_cupti.ActivityFlushAll(0));
    enable_kinds(0);
    enable_domains(0);
    snprintf(text, sizeof text, "graph-kernels-%s", name);
    FACT(text, "%u of %d, %u with a graph's id, %u with the number of a launch's callback",
         probe_records.kernels, NODES * REPLAYS, probe_records.kernels_of_graphs,
         probe_records.kernels_matched);
}

static void graphs(void) {
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&data, 4096));
    launch_add_one(data, COUNT, stream);
    enable_kinds(1); /* before it is made, as its documentation wants */
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < NODES; i++)
        launch_add_one(data, COUNT, stream);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(probe_cupti.ActivityFlushAll(0));
    session("first-session", exec, stream);
    session("second-session", exec, stream);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}

/* ---- library ---- */

static void library(const char *path) {
    void *cublas = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int (*create)(void **);
    int (*sgemm)(void *, int, int, int, int, int, const float *, const float *, int, const float *,
                 int, const float *, float *, int);
    void *handle;
    const float one = 1, zero = 0;
    if (!cublas) {
        FACT("library", "cuBLAS is not here: %s", dlerror());
        return;
    }
    *(void **)&create = dlsym(cublas, "cublasCreate_v2");
    *(void **)&sgemm = dlsym(cublas, "cublasSgemm_v2");
    EXPECT(create && sgemm && create(&handle) == 0);
    CHECK(cudaMalloc(&data, 3 << 20));
    float *a = data, *b = a + (1 << 18), *c = b + (1 << 18);
#define GEMM sgemm(handle, 0, 0, 512, 512, 512, &one, a, 512, b, 512, &zero, c, 512)
    CHECK(GEMM);
    CHECK(cudaDeviceSynchronize());
    enable_domains(1);
    enable_kinds(1);
    LOGGED("cublasSgemm", CHECK(GEMM));
    CHECK(cudaDeviceSynchronize());
    CHECK(probe_cupti.ActivityFlushAll(0));
    say_records("-of-a-library");
}

/* ---- late ---- */

static double launch_us(int launches) {
    uint64_t begin = probe_now(CLOCK_MONOTONIC);
    for (int i = 0; i < launches; i++)
        launch_add_one(data, COUNT, NULL);
    CHECK(cudaDeviceSynchronize());
    return (double)(probe_now(CLOCK_MONOTONIC) - begin) / 1e3 / launches;
}

static void flush(const char *name, unsigned flag) {
    uint64_t begin = probe_now(CLOCK_MONOTONIC);
    unsigned before = probe_records.kernels;
    CHECK(probe_cupti.ActivityFlushAll(flag));
    FACT(name, "%.3f ms, %u kernels", (double)(probe_now(CLOCK_MONOTONIC) - begin) / 1e6,
         probe_records.kernels - before);
}

static void late(void) {
    const char *told = getenv("PROBE_LAUNCHES");
    int launches = told ? atoi(told) : 100000;
    size_t before, then, total;
    CHECK(cudaMalloc(&data, 4096));
    launch_us(launches / 10);
    double bare = launch_us(launches);
    CHECK(cudaMemGetInfo(&before, &total));
    enable_kinds(1);
    launch_us(launches / 10);
    CHECK(cudaMemGetInfo(&then, &total));
    FACT("device-memory-of-records", "%lld bytes", (long long)(before - then));
    double records = launch_us(launches);
    flush("flush", 0);
    flush("flush-of-nothing", 0);
    enable_domains(1);
    double all = launch_us(launches);
    enable_domains(0);
    flush("flush-forced", CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    enable_kinds(0);
    double after = launch_us(launches);
    FACT("us-per-launch", "bare %.3f, records %.3f, and all callbacks %.3f, all off again %.3f",
         bare, records, all, after);
    FACT("buffers", "%u asked for, %u back, %u kernels of %d", probe_records.requested,
         probe_records.completed, probe_records.kernels, launches * 2 + launches / 10);
}

int main(int argc, char **argv) {
    uint32_t version = 0;
    int driver = 0;
    EXPECT(argc == 4);
    CHECK(cudaFree(NULL)); /* some versions of CUPTI die where the driver does not work */
    probe_load(argv[2]);
    CHECK(cudaDriverGetVersion(&driver));
    int status = (int)probe_cupti.GetVersion(&version);
    if (strcmp(argv[1], "calls") == 0)
        FACT("version", "CUPTI %u (status %d), driver %d", version, status, driver);
    if (strcmp(argv[1], "subscribers") == 0) {
        subscribers();
        return 0;
    }
    subscribe();
    if (strcmp(argv[1], "calls") == 0)
        calls();
    else if (strcmp(argv[1], "graphs") == 0)
        graphs();
    else if (strcmp(argv[1], "library") == 0)
        library(argv[3]);
    else if (strcmp(argv[1], "late") == 0)
        late();
    return 0;
}
