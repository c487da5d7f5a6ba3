/*
 * test_cupti_records.c - CUPTI's records as ours: each kind in the layout of each version, short
 * and damaged ones. Sanitized, where the build is.
 */
#include "cupti_fixture.h"

static struct ls_gpu_reading reading;

/* `size` bytes as one buffer, of which nothing beyond its end can be read unnoticed. */
static void read_bytes(const uint8_t *bytes, size_t size) {
    uint8_t *exact = malloc(size ? size : 1);
    memcpy(exact, bytes, size);
    memset(&reading, 0, sizeof reading);
    ls_self->busy = true;
    ls_activity_read(ls_self, &reading, exact, size);
    ls_self->busy = false;
    free(exact);
}

static const struct ls_rec_gpu *read_image(enum version version, enum image_type type,
                                           const uint8_t *at) {
    forget(NULL);
    next_version = version;
    read_bytes(at, image_types[type].size[version]);
    const struct ls_rec_gpu *found = gpu(0);
    assert_non_null(found);
    assert_null(gpu(1));
    assert_int_equal(found->head.size, sizeof *found);
    assert_int_equal(header.lost[LS_LOST_GPU_RECORDS], 0);
    return found;
}

#define EACH_VERSION(type)                                                                         \
    uint8_t at[256];                                                                               \
    for (enum version version = V11_8; version < VERSIONS; version++)                              \
        if (begin_image(at, version, type), true)

#define SINCE(since, value) (version >= (since) ? (value) : 0)

static void test_kernel(void **state) {
    (void)state;
    EACH_VERSION(T_KERNEL) {
        PUT(KERNEL, start, 1ull << 60 | 5);
        PUT(KERNEL, end, 1ull << 60 | 9);
        PUT(KERNEL, deviceId, 3);
        PUT(KERNEL, contextId, 70001);
        PUT(KERNEL, streamId, 70002);
        PUT(KERNEL, gridX, 2147483647);
        PUT(KERNEL, gridY, 65535);
        PUT(KERNEL, gridZ, 7);
        PUT(KERNEL, blockX, 1024);
        PUT(KERNEL, blockY, 2);
        PUT(KERNEL, blockZ, 64);
        PUT(KERNEL, staticSharedMemory, 4000000000u);
        PUT(KERNEL, dynamicSharedMemory, 4000000001u);
        PUT(KERNEL, correlationId, 70003);
        PUT(KERNEL, name, (uintptr_t) "_Z4copyPf");
        PUT(KERNEL, graphNodeId, 1ull << 50);
        PUT(KERNEL, graphId, 70004);
        for (uint32_t kind = 3; kind <= 10; kind += 7) { /* KERNEL, CONCURRENT_KERNEL */
            PUT(KERNEL, kind, kind);
            ls_cupti.cuptiActivityGetNextRecord = next_by_size;
            forget(NULL);
            ls_self->busy = true;
            memset(&reading, 0, sizeof reading);
            ls_gpu_record(ls_self, &reading, at, image_types[T_KERNEL].size[version]);
            ls_self->busy = false;
            const struct ls_rec_gpu *r = gpu(0);
            assert_non_null(r);
            assert_int_equal(r->head.api, LS_GPU_KERNEL);
            assert_int_equal(r->head.device, 3);
            assert_int_equal(r->start, 1ull << 60 | 5);
            assert_int_equal(r->end, 1ull << 60 | 9);
            assert_int_equal(r->context, 70001);
            assert_int_equal(r->stream, 70002);
            assert_int_equal(r->correlation, 70003);
            assert_int_equal(r->node, 1ull << 50);
            assert_int_equal(r->graph, 70004);
            assert_string_equal(kernel_name[r->value[0]], "_Z4copyPf");
            assert_int_equal(r->value[1], 2147483647ull | 65535ull << 32 | 7ull << 48);
            assert_int_equal(r->value[2], 1024 | 2ull << 32 | 64ull << 48);
            assert_int_equal(r->value[3], 8000000001);
        }
    }
}

static void test_copy(void **state) {
    (void)state;
    EACH_VERSION(T_MEMCPY) {
        PUT(MEMCPY, copyKind, 2);
        PUT(MEMCPY, srcKind, LS_GPU_MEMORY_DEVICE);
        PUT(MEMCPY, dstKind, LS_GPU_MEMORY_PAGEABLE);
        PUT(MEMCPY, flags, version % 2);
        PUT(MEMCPY, bytes, 5ull << 40);
        PUT(MEMCPY, start, 11);
        PUT(MEMCPY, end, 12);
        PUT(MEMCPY, deviceId, 1);
        PUT(MEMCPY, contextId, 2);
        PUT(MEMCPY, streamId, 4);
        PUT(MEMCPY, correlationId, 5);
        PUT(MEMCPY, graphNodeId, 6);
        PUT(MEMCPY, graphId, 7);
        const struct ls_rec_gpu *r = read_image(version, T_MEMCPY, at);
        assert_int_equal(r->head.api, LS_GPU_COPY);
        assert_int_equal(r->head.flags, version % 2 ? LS_GPU_ASYNC : 0);
        assert_int_equal(r->head.kinds, LS_KINDS(LS_GPU_MEMORY_DEVICE, LS_GPU_MEMORY_PAGEABLE));
        assert_int_equal(r->head.device, 1);
        assert_int_equal(r->start, 11);
        assert_int_equal(r->end, 12);
        assert_int_equal(r->context, 2);
        assert_int_equal(r->stream, 4);
        assert_int_equal(r->correlation, 5);
        assert_int_equal(r->node, 6);
        assert_int_equal(r->graph, 7);
        assert_int_equal(r->value[0], 5ull << 40);
        assert_int_equal(r->value[1], 2);
        assert_int_equal(r->value[2] | r->value[3], 0);
    }
}

static void test_peer_copy(void **state) {
    (void)state;
    EACH_VERSION(T_MEMCPY2) {
        PUT(MEMCPY2, copyKind, 10);
        PUT(MEMCPY2, srcKind, LS_GPU_MEMORY_DEVICE);
        PUT(MEMCPY2, dstKind, 99); /* of no known version */
        PUT(MEMCPY2, flags, 1);
        PUT(MEMCPY2, bytes, 8);
        PUT(MEMCPY2, start, 21);
        PUT(MEMCPY2, end, 22);
        PUT(MEMCPY2, deviceId, 1);
        PUT(MEMCPY2, contextId, 2);
        PUT(MEMCPY2, streamId, 3);
        PUT(MEMCPY2, srcDeviceId, 4);
        PUT(MEMCPY2, dstDeviceId, 5);
        PUT(MEMCPY2, correlationId, 6);
        PUT(MEMCPY2, graphNodeId, 7);
        PUT(MEMCPY2, graphId, 8);
        const struct ls_rec_gpu *r = read_image(version, T_MEMCPY2, at);
        assert_int_equal(r->head.api, LS_GPU_COPY);
        assert_int_equal(r->head.flags, LS_GPU_ASYNC | LS_GPU_PEER);
        assert_int_equal(r->head.kinds, LS_KINDS(LS_GPU_MEMORY_DEVICE, LS_GPU_MEMORY_UNKNOWN));
        assert_int_equal(r->head.device, 1);
        assert_int_equal(r->start, 21);
        assert_int_equal(r->end, 22);
        assert_int_equal(r->context, 2);
        assert_int_equal(r->stream, 3);
        assert_int_equal(r->correlation, 6);
        assert_int_equal(r->node, 7);
        assert_int_equal(r->graph, 8);
        assert_int_equal(r->value[0], 8);
        assert_int_equal(r->value[1], 10);
        assert_int_equal(r->value[2], 4);
        assert_int_equal(r->value[3], 5);
    }
}

static void test_set(void **state) {
    (void)state;
    EACH_VERSION(T_MEMSET) {
        PUT(MEMSET, value, 0xabcdef01);
        PUT(MEMSET, bytes, 1ull << 33);
        PUT(MEMSET, start, 1);
        PUT(MEMSET, end, 2);
        PUT(MEMSET, deviceId, 300);
        PUT(MEMSET, contextId, 4);
        PUT(MEMSET, streamId, 5);
        PUT(MEMSET, correlationId, 6);
        PUT(MEMSET, flags, 1);
        PUT(MEMSET, memoryKind, LS_GPU_MEMORY_MANAGED);
        PUT(MEMSET, graphNodeId, 7);
        PUT(MEMSET, graphId, 8);
        const struct ls_rec_gpu *r = read_image(version, T_MEMSET, at);
        assert_int_equal(r->head.api, LS_GPU_SET);
        assert_int_equal(r->head.flags, LS_GPU_ASYNC);
        assert_int_equal(r->head.kinds, LS_KINDS(LS_GPU_MEMORY_MANAGED, 0));
        assert_int_equal(r->head.device, 255); /* more than a record can say */
        assert_int_equal(r->start, 1);
        assert_int_equal(r->end, 2);
        assert_int_equal(r->context, 4);
        assert_int_equal(r->stream, 5);
        assert_int_equal(r->correlation, 6);
        assert_int_equal(r->node, 7);
        assert_int_equal(r->graph, 8);
        assert_int_equal(r->value[0], 1ull << 33);
        assert_int_equal(r->value[1], 0xabcdef01);
    }
}

static void test_memory(void **state) {
    (void)state;
    EACH_VERSION(T_MEMORY2) {
        PUT(MEMORY2, memoryOperationType, 2);
        PUT(MEMORY2, memoryKind, LS_GPU_MEMORY_DEVICE);
        PUT(MEMORY2, correlationId, 3);
        PUT(MEMORY2, address, 0x7f0000000000);
        PUT(MEMORY2, bytes, 4096);
        PUT(MEMORY2, timestamp, 77);
        PUT(MEMORY2, deviceId, 1);
        PUT(MEMORY2, contextId, 4);
        PUT(MEMORY2, streamId, 5);
        PUT(MEMORY2, isAsync, 1);
        PUT(MEMORY2, poolAddress, 0x1234567890);
        const struct ls_rec_gpu *r = read_image(version, T_MEMORY2, at);
        assert_int_equal(r->head.api, LS_GPU_MEMORY);
        assert_int_equal(r->head.flags, LS_GPU_ASYNC);
        assert_int_equal(r->head.kinds, LS_KINDS(LS_GPU_MEMORY_DEVICE, 0));
        assert_int_equal(r->head.device, 1);
        assert_int_equal(r->start, 77);
        assert_int_equal(r->end, 77);
        assert_int_equal(r->context, 4);
        assert_int_equal(r->stream, 5);
        assert_int_equal(r->correlation, 3);
        assert_int_equal(r->node | r->graph, 0);
        assert_int_equal(r->value[0], 2);
        assert_int_equal(r->value[1], 0x7f0000000000);
        assert_int_equal(r->value[2], 4096);
        assert_int_equal(r->value[3], 0x1234567890);
    }
}

static void test_pool(void **state) {
    (void)state;
    EACH_VERSION(T_MEMORY_POOL) {
        PUT(MEMORY_POOL, memoryPoolOperationType, 3);
        PUT(MEMORY_POOL, correlationId, 4);
        PUT(MEMORY_POOL, deviceId, 5);
        PUT(MEMORY_POOL, minBytesToKeep, 6);
        PUT(MEMORY_POOL, address, 7);
        PUT(MEMORY_POOL, size, 8);
        PUT(MEMORY_POOL, timestamp, 9);
        const struct ls_rec_gpu *r = read_image(version, T_MEMORY_POOL, at);
        assert_int_equal(r->head.api, LS_GPU_POOL);
        assert_int_equal(r->head.device, 5);
        assert_int_equal(r->start, 9);
        assert_int_equal(r->end, 9);
        assert_int_equal(r->correlation, 4);
        assert_int_equal(r->context | r->stream, 0);
        assert_int_equal(r->value[0], 3);
        assert_int_equal(r->value[1], 7);
        assert_int_equal(r->value[2], 8);
        assert_int_equal(r->value[3], 6);
    }
}

static void test_sync(void **state) {
    (void)state;
    EACH_VERSION(T_SYNCHRONIZATION) {
        PUT(SYNCHRONIZATION, type, 3);
        PUT(SYNCHRONIZATION, start, 31);
        PUT(SYNCHRONIZATION, end, 32);
        PUT(SYNCHRONIZATION, correlationId, 4);
        PUT(SYNCHRONIZATION, contextId, 5);
        PUT(SYNCHRONIZATION, streamId, 6);
        PUT(SYNCHRONIZATION, cudaEventId, 7);
        PUT(SYNCHRONIZATION, returnValue, 8);
        const struct ls_rec_gpu *r = read_image(version, T_SYNCHRONIZATION, at);
        assert_int_equal(r->head.api, LS_GPU_SYNC);
        assert_int_equal(r->start, 31);
        assert_int_equal(r->end, 32);
        assert_int_equal(r->correlation, 4);
        assert_int_equal(r->context, 5);
        assert_int_equal(r->stream, 6);
        assert_int_equal(r->value[0], 3);
        assert_int_equal(r->value[1], 7);
        assert_int_equal(r->value[2], SINCE(V13_0, 8));
    }
}

static void test_overhead(void **state) {
    (void)state;
    EACH_VERSION(T_OVERHEAD) {
        PUT(OVERHEAD, overheadKind, 5 << 16);
        PUT(OVERHEAD, objectKind, LS_OBJECT_THREAD);
        PUT(OVERHEAD, objectThread, 1234);
        PUT(OVERHEAD, start, 41);
        PUT(OVERHEAD, end, 42);
        PUT(OVERHEAD, correlationId, 6);
        const struct ls_rec_gpu *r = read_image(version, T_OVERHEAD, at);
        assert_int_equal(r->head.api, LS_GPU_OVERHEAD);
        assert_int_equal(r->start, 41);
        assert_int_equal(r->end, 42);
        assert_int_equal(r->correlation, SINCE(V12_4, 6));
        assert_int_equal(r->context | r->stream | r->head.device, 0);
        assert_int_equal(r->value[0], 5 << 16);
        assert_int_equal(r->value[1], LS_OBJECT_THREAD);
        assert_int_equal(r->value[2], 1234);
        /* A stream's: the same words are the device and the context. */
        PUT(OVERHEAD, objectKind, LS_OBJECT_STREAM);
        PUT(OVERHEAD, objectProcess, 2);
        r = read_image(version, T_OVERHEAD, at);
        assert_int_equal(r->head.device, 2);
        assert_int_equal(r->context, 1234);
        assert_int_equal(r->stream, UINT32_MAX);
        assert_int_equal(r->value[2], 0);
    }
}

static void test_graph(void **state) {
    (void)state;
    EACH_VERSION(T_GRAPH_TRACE) {
        PUT(GRAPH_TRACE, correlationId, 1);
        PUT(GRAPH_TRACE, start, 51);
        PUT(GRAPH_TRACE, end, 52);
        PUT(GRAPH_TRACE, deviceId, 2);
        PUT(GRAPH_TRACE, graphId, 3);
        PUT(GRAPH_TRACE, contextId, 4);
        PUT(GRAPH_TRACE, streamId, 5);
        const struct ls_rec_gpu *r = read_image(version, T_GRAPH_TRACE, at);
        assert_int_equal(r->head.api, LS_GPU_GRAPH);
        assert_int_equal(r->start, 51);
        assert_int_equal(r->end, 52);
        assert_int_equal(r->head.device, 2);
        assert_int_equal(r->graph, 3);
        assert_int_equal(r->context, 4);
        assert_int_equal(r->stream, 5);
        assert_int_equal(r->correlation, 1);
    }
}

/* What lies behind a record is another one, not more of it. */
static void test_records_in_a_row(void **state) {
    (void)state;
    uint8_t bytes[4096], *at = bytes;
    next_version = V11_8;
    for (unsigned i = 0; i < 20; i++) {
        begin_image(at, V11_8, i % 3 ? T_OVERHEAD : T_API); /* the latter are none of ours */
        put(at, V11_8, F_OVERHEAD_start, i);
        at += image_types[i % 3 ? T_OVERHEAD : T_API].size[V11_8];
    }
    read_bytes(bytes, (size_t)(at - bytes));
    for (unsigned i = 0, n = 0; i < 20; i++) {
        if (i % 3 == 0)
            continue;
        assert_int_equal(gpu(n)->start, i);
        assert_int_equal(gpu(n)->correlation, 0);
        n++;
    }
    assert_null(gpu(13));
    assert_int_equal(reading.ignored, 7);
    assert_int_equal(header.lost[LS_LOST_GPU_RECORDS], 0);
}

/* A buffer that breaks off, and a record that is shorter than any version's. */
static void test_damage_is_counted(void **state) {
    (void)state;
    uint8_t at[256];
    next_version = V13_0;
    begin_image(at, V13_0, T_KERNEL);
    read_bytes(at, 100);
    assert_null(gpu(0));
    assert_int_equal(header.lost[LS_LOST_GPU_RECORDS], 1);
    ls_self->busy = true;
    ls_gpu_record(ls_self, &reading, at, 111);
    assert_null(gpu(0));
    assert_int_equal(header.lost[LS_LOST_GPU_RECORDS], 2);
    assert_int_equal(unread, 1); /* told once */
    ls_gpu_record(ls_self, &reading, at, 3);
    assert_int_equal(reading.ignored, 1);
    full = true;
    ls_self->position = ls_self->limit;
    put(at, V13_0, F_KERNEL_name, 0);
    ls_gpu_record(ls_self, &reading, at, sizeof at);
    assert_int_equal(header.lost[LS_LOST_CAP], 1);
}

/* ---- garbage ---- */

static uint64_t random_state = 88172645463325252u;

static uint64_t any(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

/* Leads anywhere: on, back, in between, out of the buffer. */
static int next_at_random(uint8_t *buffer, size_t valid, void **record) {
    uint64_t wish = any() % 16;
    uint8_t *at = *record ? *record : buffer;
    if (wish == 0)
        return any() % 2 ? LS_CUPTI_NO_MORE : 21;
    *record = wish == 1   ? buffer + any() % (valid + 64)
              : wish == 2 ? (uint8_t *)(uintptr_t)any()
              : *record   ? at + any() % 24 * (any() % 16 ? 8 : 1)
                          : buffer;
    return LS_CUPTI_OK;
}

static void fill_at_random(uint8_t *bytes, size_t size, const char *page) {
    for (size_t i = 0; i < size; i += 8) {
        uint64_t word = any();
        switch (i ? word % 8 : 0) {
        case 0: /* where a record may begin: a kind that CUPTI has */
            word = any() << 32 | (any() % 4 ? image_types[any() % IMAGE_TYPES].kind : any() % 60);
            break;
        case 1: /* a text without an end, with an end, or no text */
            word = (uintptr_t)page + any() % 8192;
            break;
        case 2:
            word = 0;
            break;
        default:
            break;
        }
        memcpy(bytes + i, &word, size - i < 8 ? size - i : 8);
    }
}

static void test_garbage_is_harmless(void **state) {
    (void)state;
    char *page = page_with_an_end();
    uint8_t *bytes = malloc(1024);
    uint64_t records = 0;
    for (unsigned i = 0; i < 4096; i += 64 + i % 7)
        page[i] = (char)(i % 3 ? 0 : 0xc3);
    for (unsigned round = 0; round < 1000000; round++) {
        size_t size = any() % 768;
        fill_at_random(bytes, size, page);
        ls_cupti.cuptiActivityGetNextRecord = round % 2 ? next_at_random : next_by_size;
        next_version = (enum version)(any() % VERSIONS);
        if (ls_self->chunk)
            ls_self->position = sizeof(struct ls_chunk);
        read_bytes(bytes, size);
        for (unsigned n = 0; gpu(n); n++, records++) {
            assert_int_equal(gpu(n)->head.size, sizeof(struct ls_rec_gpu));
            assert_in_range(gpu(n)->head.api, 1, LS_GPU_KINDS - 1);
            if (gpu(n)->head.api == LS_GPU_KERNEL)
                assert_in_range(gpu(n)->value[0], 0, kernels);
        }
    }
    assert_true(records > 100000);
    munmap(page, 8192);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_kernel, forget),
        cmocka_unit_test_setup(test_copy, forget),
        cmocka_unit_test_setup(test_peer_copy, forget),
        cmocka_unit_test_setup(test_set, forget),
        cmocka_unit_test_setup(test_memory, forget),
        cmocka_unit_test_setup(test_pool, forget),
        cmocka_unit_test_setup(test_sync, forget),
        cmocka_unit_test_setup(test_overhead, forget),
        cmocka_unit_test_setup(test_graph, forget),
        cmocka_unit_test_setup(test_records_in_a_row, forget),
        cmocka_unit_test_setup(test_damage_is_counted, forget),
        cmocka_unit_test_setup(test_garbage_is_harmless, forget),
    };
    return cmocka_run_group_tests(tests, NULL, let_go);
}
