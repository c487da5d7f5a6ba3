/*
 * ingest_internal.h - what the ingest*.c files share. See ingest.h.
 */
#ifndef LAYOUTSPY_INGEST_INTERNAL_H
#define LAYOUTSPY_INGEST_INTERNAL_H

#include "ingest.h"

/* A call with its times in ns and its number. */
struct ls_timed_call {
    const struct ls_rec_call *record;
    uint32_t thread;
    int64_t id;
    int64_t start_ns;
    int64_t end_ns;
};

/* ingest_memory.c: begin and end lifetimes. */
/* The array of `count` elements of `size` bytes, with room for one more: it may have moved. NULL:
 * out of memory, it is as it was. */
void *ls_ingest_room(void *array, size_t count, size_t *room, size_t size);
/* Bytes that a call which allocates asked for; where it failed, at least so many. */
uint64_t ls_ingest_asked_size(const struct ls_rec_call *call);
void ls_ingest_alloc(struct ls_ingest *ingest, const struct ls_timed_call *call);
void ls_ingest_free(struct ls_ingest *ingest, const struct ls_timed_call *call);
/* A level of a mipmapped array: known to copies, but no lifetime of its own. */
void ls_ingest_array_level(struct ls_ingest *ingest, const struct ls_timed_call *call);
void ls_ingest_reset(struct ls_ingest *ingest, const struct ls_timed_call *call);
/* Of `address` from this call on, or NULL and out_of_memory; the size and what else differs are the
 * caller's to fill in before ls_ingest_begin_life(), which takes it. */
struct ls_life *ls_ingest_new_life(struct ls_ingest *ingest, const struct ls_timed_call *call,
                                   uint64_t address, enum ls_memory kind);
void ls_ingest_begin_life(struct ls_ingest *ingest, struct ls_live *live, struct ls_life *life);
/* A life that was taken out of its ls_live. */
void ls_ingest_end_life(struct ls_ingest *ingest, struct ls_life *life,
                        const struct ls_timed_call *call, enum ls_end reason);
void ls_ingest_store_born(struct ls_ingest *ingest); /* before each commit */
void ls_ingest_load_live(struct ls_ingest *ingest);
void ls_ingest_end_reused(struct ls_ingest *ingest); /* before the end */

/* ingest_census.c: begin and end, storages and tensors of a census; what later records tell. */
void ls_census_put(struct ls_ingest *ingest, const struct ls_rec_census *record);
void ls_census_put_storage(struct ls_ingest *ingest, const struct ls_rec_storage *record);
void ls_census_put_tensor(struct ls_ingest *ingest, const struct ls_rec_tensor *record);
void ls_census_store(struct ls_ingest *ingest);  /* before each commit */
void ls_census_finish(struct ls_ingest *ingest); /* before the end */

/* ingest_library.c: handles of libraries, and the GPU's time of their calls */
void ls_library_call(struct ls_ingest *ingest, const struct ls_timed_call *call);
/* Work of the GPU for the library's call `under`, the outermost one. */
void ls_library_gpu(struct ls_ingest *ingest, int64_t under, int64_t gpu_ns);
void ls_library_gpu_store(struct ls_ingest *ingest); /* before each commit */
void ls_library_load(struct ls_ingest *ingest);
void ls_library_close(struct ls_ingest *ingest);

/* ingest_record.c: any record; the names of enum ls_lost in the trace. */
/* Of a copy: `call.id` of the one that has the row, which may be an inner call. `replaces`: gets
 * the row that this one takes the place of, or 0. Any other call: 0. */
int64_t ls_ingest_copy_row(struct ls_ingest *ingest, const struct ls_timed_call *call,
                           int64_t *replaces);
extern const char *const ls_lost_name[LS_LOST_COUNT];
void ls_ingest_record(struct ls_ingest *ingest, const struct ls_record *record, uint32_t thread);

/* ingest_finish.c: what the start and the end of a recording tell. */
void ls_cost_put(struct ls_ingest *ingest); /* meta: what recording cost; ingest_cost.c */
void ls_ingest_put_number(struct ls_ingest *ingest, const char *key, int64_t number); /* meta */
void ls_ingest_put_start(struct ls_ingest *ingest);
void ls_ingest_put_end(struct ls_ingest *ingest);
bool ls_ingest_exited(const struct ls_ingest *ingest); /* its exit handlers ran */

#endif
