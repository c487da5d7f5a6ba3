/*
 * spool_maker.h - a second writer of spools, made from format.h alone, for the unit tests of the
 * collector.
 *
 * Ticks are CLOCK_MONOTONIC ns (no TSC), and MADE_START is the first of them unless a test says
 * otherwise, so a record at tick MADE_START + n has n ns in the trace.
 */
#ifndef LAYOUTSPY_SPOOL_MAKER_H
#define LAYOUTSPY_SPOOL_MAKER_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "layoutspy/api.h"
#include "layoutspy/format.h"

#define MADE_START UINT64_C(1000000)           /* ticks: long before now */
#define MADE_GPU UINT64_C(1700000000000000000) /* CUPTI's clock at the start */
#define MADE_THREADS 64
#define MADE_FILE (64u << 20)

struct maker {
    char dir[64];
    char trace[96], spool[112];
    int fd;
    uint8_t *map;
    struct ls_spool_header *header;
    struct ls_chunk_slot *slot;
    struct {
        struct ls_chunk *chunk;
        uint32_t size, position, sequence;
    } thread[MADE_THREADS];
};

/* A spool in a new folder; `alive`: of this very process, else of one that is dead. */
void maker_open(struct maker *maker, bool alive);
/* Unmap; then remove the folder. */
void maker_close(struct maker *maker);

/* A call from tick `start` to `end` (MADE_START is added) with the fields that follow, each an
 * uint64_t, as many as the function has. */
void maker_call_flags(struct maker *maker, unsigned thread, enum ls_api api, uint64_t start,
                      uint64_t end, int status, uint32_t stack, unsigned flags, unsigned kinds,
                      unsigned device, const uint64_t *field);
#define maker_call(maker, thread, api, start, end, ...)                                            \
    maker_call_flags(maker, thread, LS_API_##api, start, end, 0, 0, 0, 0, 0,                       \
                     (const uint64_t[LS_FIELD_MAX]){__VA_ARGS__})
#define maker_failed(maker, thread, api, start, end, status, ...)                                  \
    maker_call_flags(maker, thread, LS_API_##api, start, end, status, 0, 0, 0, 0,                  \
                     (const uint64_t[LS_FIELD_MAX]){__VA_ARGS__})
#define maker_call_with(maker, thread, api, start, end, stack, flags, kinds, device, ...)          \
    maker_call_flags(maker, thread, LS_API_##api, start, end, 0, stack, flags, kinds, device,      \
                     (const uint64_t[LS_FIELD_MAX]){__VA_ARGS__})

/* The same, numbered by CUPTI, in context 1. */
void maker_numbered(struct maker *maker, unsigned thread, enum ls_api api, uint64_t start,
                    uint64_t end, unsigned flags, uint32_t stack, uint32_t correlation,
                    const uint64_t *field);
#define maker_call_numbered(maker, thread, api, start, end, flags, stack, correlation, ...)        \
    maker_numbered(maker, thread, LS_API_##api, start, end, flags, stack, correlation,             \
                   (const uint64_t[LS_FIELD_MAX]){__VA_ARGS__})
/* A launch of kernel 1, and work of the GPU: its head and what is no part of `work` is made. */
void maker_launch(struct maker *maker, unsigned thread, uint64_t start, uint64_t end,
                  unsigned flags, uint32_t correlation);
void maker_gpu(struct maker *maker, unsigned thread, enum ls_gpu_kind kind, unsigned flags,
               unsigned kinds, struct ls_rec_gpu work);
#define maker_kernel_run(maker, thread, from, to, number)                                          \
    maker_gpu(maker, thread, LS_GPU_KERNEL, 0, 0,                                                  \
              (struct ls_rec_gpu){.start = MADE_GPU + (from),                                      \
                                  .end = MADE_GPU + (to),                                          \
                                  .correlation = (number),                                         \
                                  .context = 1,                                                    \
                                  .stream = 7,                                                     \
                                  .value = {1, 2 | 3ull << 32 | 4ull << 48, 5, 6}})
/* MADE_GPU + gpu of CUPTI's clock was at tick MADE_START + tick. */
void maker_gpu_clock(struct maker *maker, unsigned thread, uint64_t tick, uint64_t width,
                     uint64_t gpu);
void maker_gpu_state(struct maker *maker, unsigned thread, uint64_t tick, enum ls_gpu_state state,
                     const char *text);

void maker_stack(struct maker *maker, unsigned thread, uint32_t id, uint32_t modules,
                 uint32_t depth, const uint64_t *address);
/* The same, inside of the Python stack of that number, or with that of a forward operation. */
void maker_mixed_stack(struct maker *maker, unsigned thread, uint32_t id, uint32_t modules,
                       uint32_t depth, const uint64_t *address, uint32_t python, uint32_t forward);
void maker_code(struct maker *maker, unsigned thread, uint32_t id, const char *name,
                const char *file);
/* Frames are pairs of a code's number and a line, innermost first. */
void maker_python(struct maker *maker, unsigned thread, uint32_t id, uint32_t depth,
                  const struct ls_python_frame *frame);
void maker_module(struct maker *maker, unsigned thread, uint32_t modules, uint64_t bias,
                  uint64_t start, uint64_t end, const char *path, const uint8_t *build_id,
                  uint32_t build_id_size);
void maker_kernel(struct maker *maker, unsigned thread, uint32_t id, const char *name);
/* A shape: all but its head, and its values. */
void maker_shape(struct maker *maker, unsigned thread, const struct ls_rec_shape *shape,
                 unsigned count, const int64_t *value);
#define maker_tensor_shape(maker, thread, number, type, dimensions, ...)                           \
    maker_shape(maker, thread,                                                                     \
                &(struct ls_rec_shape){.id = (number),                                             \
                                       .kind = LS_SHAPE_TENSOR,                                    \
                                       .dims = (dimensions),                                       \
                                       .dtype = LS_DTYPE_##type},                                  \
                2 * (dimensions), (const int64_t[]){__VA_ARGS__})
/* A call with operands; correlation 0: not numbered. */
void maker_operands(struct maker *maker, unsigned thread, enum ls_api api, uint64_t start,
                    uint64_t end, unsigned flags, uint32_t stack, uint32_t correlation,
                    const uint64_t *field, unsigned count, const struct ls_operand *operand);
#define MADE_OPERAND(ROLE, shape, at)                                                              \
    (struct ls_operand) {                                                                          \
        .what = LS_OPERAND(LS_ROLE_##ROLE, 0, shape), .address = (at)                              \
    }
#define maker_call_operands(maker, thread, api, start, end, flags, stack, correlation, f0, ...)    \
    maker_operands(maker, thread, LS_API_##api, start, end, flags, stack, correlation,             \
                   (const uint64_t[LS_FIELD_MAX]){f0},                                             \
                   sizeof((const struct ls_operand[]){__VA_ARGS__}) / sizeof(struct ls_operand),   \
                   (const struct ls_operand[]){__VA_ARGS__})
void maker_lost(struct maker *maker, unsigned thread, enum ls_lost reason, uint64_t count,
                uint64_t start, uint64_t end);
/* META: two texts. COVERAGE: three. */
void maker_text(struct maker *maker, unsigned thread, int type, const char *a, const char *b,
                const char *c);
/* A census begins (state LS_CENSUS_BEGINS) or ends. `oom`: tick of the call that told of it. */
void maker_census(struct maker *maker, unsigned thread, uint32_t census, uint32_t state,
                  uint32_t reason, uint64_t tick, uint64_t oom, const char *text);
void maker_storage(struct maker *maker, unsigned thread, uint32_t census, uint32_t id,
                   uint64_t address, uint64_t bytes, uint64_t held_by_graph);
/* Of one dimension. `paths`: NULL-ended. */
void maker_tensor(struct maker *maker, unsigned thread, uint32_t census, uint32_t storage,
                  uint64_t bytes, uint32_t flags, const char *const *paths);
/* Any bytes, committed. */
void maker_raw(struct maker *maker, unsigned thread, const void *data, uint32_t size);

/* Seal the thread's chunk; its next record claims another. */
void maker_seal(struct maker *maker, unsigned thread);

/* Ask the trace: `sql`'s one value as text ("" for NULL, "(none)" for no row), kept until the
 * next but seven; or as a number. */
const char *maker_ask(const struct maker *maker, const char *sql);
int64_t maker_number(const struct maker *maker, const char *sql);

/* Ingest all there is, as from a target that is dead. Returns what `layoutspy collect` would. */
int maker_collect(struct maker *maker);

#endif
