/*
 * cupti_fixture.h - what stands in for CUPTI and for the spool where the unit tests read CUPTI's
 * buffers: records laid out by the simulated CUPTI's tables (NVIDIA's, per version), and a spool
 * that is an array. For one file of a program each.
 */
#ifndef LAYOUTSPY_CUPTI_FIXTURE_H
#define LAYOUTSPY_CUPTI_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "cupti/abi.h"
#include "cupti/activity.h"
#include "cupti/load.h"
#include "preload/describe.h"
#include "preload/kernels.h"
#include "preload/spool.h"
#include "preload/state.h"
#include "preload/wrap.h"

/* ---- records as versions lay them out ---- */

#define LAYOUTS "../standin/libs/cupti_layouts.def"
enum version { V11_8, V12_4, V13_0, V13_3, VERSIONS };

enum image_type {
#define RECORD(record, ...) T_##record,
#define FIELD(...)
#include LAYOUTS
    IMAGE_TYPES
};
static const struct {
    uint32_t kind;
    size_t size[VERSIONS];
} image_types[] = {
#define RECORD(record, kind, type, ...) {kind, {__VA_ARGS__}},
#define FIELD(...)
#include LAYOUTS
};
enum image_field {
#define RECORD(...)
#define FIELD(record, name, ...) F_##record##_##name,
#include LAYOUTS
};
static const struct {
    unsigned width;
    int offset[VERSIONS];
} image_fields[] = {
#define RECORD(...)
#define FIELD(record, name, member, width, ...) {width, {__VA_ARGS__}},
#include LAYOUTS
};

/* A record that begins at `at`, filled with 0xff so that what is read beside a member shows. */
__attribute__((unused)) static void begin_image(uint8_t *at, enum version version,
                                                enum image_type type) {
    memset(at, 0xff, image_types[type].size[version]);
    memcpy(at, &image_types[type].kind, sizeof(uint32_t));
}

/* A member of it, where the version has that. */
__attribute__((unused)) static void put(uint8_t *at, enum version version, enum image_field field,
                                        uint64_t value) {
    if (image_fields[field].offset[version] >= 0)
        memcpy(at + image_fields[field].offset[version], &value, image_fields[field].width);
}
#define PUT(record, name, value) put(at, version, F_##record##_##name, value)

/* ---- CUPTI ---- */

struct ls_cupti_functions ls_cupti;
static enum version next_version;
static _Atomic size_t dropped; /* since it was last asked for */
static _Atomic uint64_t gpu_now;

/* By the sizes of the records, as CUPTI itself does it. */
__attribute__((unused)) static int next_by_size(uint8_t *buffer, size_t valid, void **record) {
    uint8_t *at = *record ? *record : buffer;
    for (int passed = !*record; at + 4 <= buffer + valid; passed = 1) {
        uint32_t kind;
        size_t size = 0;
        memcpy(&kind, at, sizeof kind);
        for (unsigned i = 0; i < IMAGE_TYPES; i++)
            if (image_types[i].kind == kind)
                size = image_types[i].size[next_version];
        if (!size || at + size > buffer + valid)
            return 21; /* CUPTI_ERROR_INVALID_KIND */
        if (passed) {
            *record = at;
            return LS_CUPTI_OK;
        }
        at += size;
    }
    return LS_CUPTI_NO_MORE;
}

static int get_dropped(void *context, uint32_t stream, size_t *out) {
    (void)context;
    (void)stream;
    *out = atomic_exchange(&dropped, 0);
    return LS_CUPTI_OK;
}

static uint32_t cupti_version = 28; /* of CUDA 12.9, which takes a refusal */

static int get_version(uint32_t *version) {
    *version = cupti_version;
    return LS_CUPTI_OK;
}

static int get_timestamp(uint64_t *ns) {
    *ns = ++gpu_now;
    return LS_CUPTI_OK;
}

/* ---- the rest of the library ---- */

__thread struct ls_thread *ls_self __attribute__((tls_model("initial-exec")));
struct ls_session ls_session;
static struct ls_live live_page;
struct ls_live *_Atomic ls_live = &live_page;
static struct ls_spool_header header;

struct ls_live *ls_live_page(void) {
    return &live_page;
}

#define SPOOL_SIZE (16u << 20)
static bool full; /* the spool has no room */

/* A thread's only chunk begins anew where it ends. */
void *ls_spool_reserve_slow(struct ls_thread *self) {
    self->chunk_error = LS_LOST_CAP;
    if (full)
        return NULL;
    if (!self->chunk)
        self->chunk = calloc(1, SPOOL_SIZE);
    self->position = sizeof(struct ls_chunk);
    self->limit = SPOOL_SIZE;
    return (char *)self->chunk + self->position;
}

void ls_spool_lost(struct ls_thread *self, enum ls_lost reason, uint64_t count) {
    assert_true(self->busy);
    atomic_fetch_add(&header.lost[reason], count);
}

static _Atomic unsigned coverage; /* lines of it, */
static _Atomic unsigned unread;   /* and those of buffers that could not be read to their end */

void ls_describe_coverage(struct ls_thread *self, const char *layer, const char *state,
                          const char *detail) {
    assert_true(self->busy);
    assert_string_equal(layer, "cupti");
    assert_string_equal(state, "partial");
    if (strstr(detail, "cuptiActivityGetNextRecord")) {
        unread++;
        return;
    }
    assert_non_null(strstr(detail, "another CUPTI client"));
    coverage++;
}

static _Atomic uint32_t kernels; /* names defined */
static char kernel_name[4096][64];

uint32_t ls_kernel_define(struct ls_thread *self, const char *name) {
    assert_true(self->busy);
    uint32_t id = atomic_fetch_add(&kernels, 1) + 1;
    if (id < 4096)
        memcpy(kernel_name[id], name, strnlen(name, 63) + 1);
    return id;
}

static bool nobody; /* the calling thread cannot write */

struct ls_thread *ls_enter_callback(void) {
    if (nobody)
        return NULL;
    if (!ls_self)
        ls_self = calloc(1, sizeof *ls_self);
    return ls_self->busy ? NULL : ls_self;
}

/* ---- what a test sees ---- */

/* The n-th record of a type in the calling thread's spool, from 0; NULL: there are not so many. */
__attribute__((unused)) static const void *written(enum ls_record_type type, unsigned n) {
    const char *chunk = ls_self ? (const char *)ls_self->chunk : NULL;
    for (uint32_t at = sizeof(struct ls_chunk); chunk && at < ls_self->position;) {
        const struct ls_record *record = (const void *)(chunk + at);
        assert_true(record->size >= sizeof *record && record->size % 8 == 0);
        if (record->type == type && n-- == 0)
            return record;
        at += record->size;
    }
    return NULL;
}

__attribute__((unused)) static const struct ls_rec_gpu *gpu(unsigned n) {
    return written(LS_REC_GPU, n);
}

/* Two pages of which the second cannot be read. */
__attribute__((unused)) static char *page_with_an_end(void) {
    char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(map != MAP_FAILED);
    memset(map, 'x', 4096);
    assert_int_equal(mprotect(map + 4096, 4096, PROT_NONE), 0);
    return map;
}

static int forget(void **state) {
    (void)state;
    if (!ls_self)
        ls_self = calloc(1, sizeof *ls_self);
    if (ls_self->chunk)
        ls_self->position = sizeof(struct ls_chunk);
    ls_self->busy = false;
    memset(&header, 0, sizeof header);
    ls_session.header = &header;
    live_page.epoch++;
    full = nobody = false;
    dropped = 0;
    kernels = coverage = unread = 0;
    ls_kernel_names_fork_reset();
    ls_cupti.cuptiActivityGetNextRecord = next_by_size;
    ls_cupti.cuptiActivityGetNumDroppedRecords = get_dropped;
    ls_cupti.cuptiGetTimestamp = get_timestamp;
    ls_cupti.cuptiGetVersion = get_version;
    ls_activity_foreign(NULL);
    ls_activity_prepare();
    return 0;
}

static int let_go(void **state) {
    (void)state;
    free(ls_self->chunk);
    free(ls_self);
    ls_self = NULL;
    return 0;
}

#endif
