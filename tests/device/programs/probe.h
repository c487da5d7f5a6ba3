/*
 * probe.h - probe.c's client of CUPTI: what its callbacks and buffers told. Included once.
 *
 * The log is of one thread, the records of any: they are counted while nobody reads them but after
 * a flush.
 */
#ifndef PROBE_H
#define PROBE_H

/* CUPTI's functions, of the library that was named. MAY be missing: NULL. */
#define PROBE_FUNCTIONS                                                                            \
    FN(MUST, Subscribe, (CUpti_SubscriberHandle *, CUpti_CallbackFunc, void *))                    \
    FN(MUST, Unsubscribe, (CUpti_SubscriberHandle))                                                \
    FN(MUST, EnableDomain, (uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain))               \
    FN(MUST, GetCallbackName, (CUpti_CallbackDomain, uint32_t, const char **))                     \
    FN(MUST, GetVersion, (uint32_t *))                                                             \
    FN(MUST, GetTimestamp, (uint64_t *))                                                           \
    FN(MUST, Finalize, (void))                                                                     \
    FN(MUST, ActivityRegisterCallbacks,                                                            \
       (CUpti_BuffersCallbackRequestFunc, CUpti_BuffersCallbackCompleteFunc))                      \
    FN(MUST, ActivityEnable, (CUpti_ActivityKind))                                                 \
    FN(MUST, ActivityDisable, (CUpti_ActivityKind))                                                \
    FN(MUST, ActivityFlushAll, (uint32_t))                                                         \
    FN(MUST, ActivityGetNextRecord, (uint8_t *, size_t, CUpti_Activity **))                        \
    FN(MAY, ActivityRegisterTimestampCallback, (void *))

struct probe_cupti {
#define FN(need, name, parameters) CUptiResult(*name) parameters;
    PROBE_FUNCTIONS
#undef FN
};

enum { PROBE_ENTRIES = 256, PROBE_IDS = 1 << 16, PROBE_RESOURCES = 64, PROBE_BUFFER = 1 << 20 };

struct probe_entry {
    CUpti_CallbackDomain domain;
    uint32_t cbid, id, outer; /* outer: the number of the call that it is inside of, 0: none */
};
struct probe_log {
    int on;
    unsigned count, depth;
    struct probe_entry entries[PROBE_ENTRIES];
    uint32_t open[8];
    unsigned char runtime_ids[PROBE_IDS]; /* numbers of the runtime's calls, by their low bits */
    unsigned resource[PROBE_RESOURCES];
    const char *function_name;
};
struct probe_records {
    unsigned requested, completed, kernels, kernels_matched, kernels_of_graphs, copies,
        copies_matched;
    uint32_t copy_id, copy_runtime_id;
    uint64_t kernel_start, kernel_end; /* of the last one */
    int in_caller;
};

extern struct probe_cupti probe_cupti;
extern struct probe_log probe_log;
extern struct probe_records probe_records;
static void *probe_library;

static inline void *probe_symbol(const char *name) {
    return dlsym(probe_library, name);
}

static inline void probe_load(const char *path) {
    probe_library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!probe_library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
#define FN(need, name, parameters)                                                                 \
    *(void **)&probe_cupti.name = probe_symbol("cupti" #name);                                     \
    EXPECT(probe_cupti.name || #need[1] == 'A');
    PROBE_FUNCTIONS
#undef FN
}

static inline uint64_t probe_now(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline const char *probe_name(const struct probe_entry *entry) {
    const char *name = NULL;
    int status = (int)probe_cupti.GetCallbackName(entry->domain, entry->cbid, &name);
    return status == 0 && name ? name : "?";
}

static inline void probe_enter(CUpti_CallbackDomain domain, uint32_t cbid,
                               const CUpti_CallbackData *info) {
    if (domain == CUPTI_CB_DOMAIN_RUNTIME_API)
        probe_log.runtime_ids[info->correlationId % PROBE_IDS] = 1;
    if (probe_log.on && probe_log.count < PROBE_ENTRIES)
        probe_log.entries[probe_log.count++] =
            (struct probe_entry){domain, cbid, info->correlationId,
                                 probe_log.depth ? probe_log.open[(probe_log.depth - 1) % 8] : 0};
    if (probe_log.on && !probe_log.function_name)
        probe_log.function_name = info->functionName;
    probe_log.open[probe_log.depth++ % 8] = info->correlationId;
}

static void CUPTIAPI probe_callback(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
                                    const void *given) {
    const CUpti_CallbackData *info = given;
    (void)user;
    if (domain == CUPTI_CB_DOMAIN_RESOURCE)
        probe_log.resource[cbid % PROBE_RESOURCES]++;
    else if (info->callbackSite == CUPTI_API_ENTER)
        probe_enter(domain, cbid, info);
    else if (probe_log.depth > 0)
        probe_log.depth--;
}

static void CUPTIAPI probe_requested(uint8_t **buffer, size_t *size, size_t *records) {
    *buffer = aligned_alloc(8, PROBE_BUFFER);
    *size = *buffer ? PROBE_BUFFER : 0;
    *records = 0;
    __atomic_add_fetch(&probe_records.requested, 1, __ATOMIC_RELAXED);
}

static inline void probe_take(const CUpti_Activity *record) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
        const CUpti_ActivityKernel8 *kernel = (const void *)record;
        probe_records.kernels++;
        probe_records.kernels_matched += probe_log.runtime_ids[kernel->correlationId % PROBE_IDS];
        probe_records.kernels_of_graphs += kernel->graphId != 0;
        probe_records.kernel_start = kernel->start;
        probe_records.kernel_end = kernel->end;
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
        const CUpti_ActivityMemcpy5 *copy = (const void *)record;
        probe_records.copies++;
        probe_records.copies_matched += probe_log.runtime_ids[copy->correlationId % PROBE_IDS];
        probe_records.copy_id = copy->correlationId;
        probe_records.copy_runtime_id = copy->runtimeCorrelationId;
    }
}

static void CUPTIAPI probe_completed(CUcontext context, uint32_t stream, uint8_t *buffer,
                                     size_t size, size_t valid) {
    CUpti_Activity *record = NULL;
    (void)context, (void)stream, (void)size;
    while (probe_cupti.ActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
        probe_take(record);
    free(buffer);
    probe_records.completed++;
    probe_records.in_caller = syscall(SYS_gettid) == getpid();
}

#endif
