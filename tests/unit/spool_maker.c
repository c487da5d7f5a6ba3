/*
 * spool_maker.c - see spool_maker.h.
 */
#include "spool_maker.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include <cmocka.h>

#include "collect.h"
#include "layoutspy/table.h"

static uint64_t own_stat(int wanted) {
    char text[1024];
    FILE *file = fopen("/proc/self/stat", "re");
    assert_non_null(file);
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = 0;
    const char *p = strrchr(text, ')');
    for (int field = 2; field < wanted; field++)
        p = strchr(p + 1, ' ');
    return strtoull(p, NULL, 10);
}

static void fill_header(struct maker *maker, bool alive) {
    struct ls_spool_header *header = maker->header;
    header->version = LS_SPOOL_VERSION;
    header->header_size = LS_SPOOL_HEADER_SIZE;
    header->table_hash = ls_table_hash();
    header->pid = (uint32_t)getpid();
    header->pid_start = own_stat(22) + !alive;
    header->image = alive ? own_stat(28) : 0;
    header->end = LS_SPOOL_HEADER_SIZE;
    header->state = LS_RUN_ACTIVE;
    header->clock[0] = (struct ls_clock_pair){MADE_START, MADE_START, 1700000000000000000};
    memcpy(header->trace_path, maker->trace, sizeof maker->trace);
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file) {
        if (fgets(header->boot_id, 37, file))
            header->boot_id[36] = 0;
        fclose(file);
    }
    memcpy(header->magic, LS_SPOOL_MAGIC, sizeof header->magic);
}

void maker_open(struct maker *maker, bool alive) {
    memset(maker, 0, sizeof *maker);
    strcpy(maker->dir, "/tmp/layoutspy-unit-XXXXXX");
    assert_non_null(mkdtemp(maker->dir));
    sprintf(maker->trace, "%s/t.db", maker->dir);
    sprintf(maker->spool, "%s/t.db.spool", maker->dir);
    maker->fd = open(maker->spool, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(maker->fd >= 0);
    assert_int_equal(ftruncate(maker->fd, LS_SPOOL_HEADER_SIZE), 0);
    maker->map = mmap(NULL, MADE_FILE, PROT_READ | PROT_WRITE, MAP_SHARED, maker->fd, 0);
    assert_true(maker->map != MAP_FAILED);
    maker->header = (struct ls_spool_header *)maker->map;
    maker->slot = (struct ls_chunk_slot *)(maker->map + 4096);
    fill_header(maker, alive);
}

void maker_close(struct maker *maker) {
    munmap(maker->map, MADE_FILE);
    close(maker->fd);
    DIR *dir = opendir(maker->dir);
    struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
    rmdir(maker->dir);
}

/* A free chunk, or a new one at the end of the file. */
static uint32_t find_slot(struct maker *maker) {
    struct ls_spool_header *header = maker->header;
    for (uint32_t i = 0; i < header->slots; i++)
        if (maker->slot[i].state == LS_CHUNK_FREE && maker->slot[i].offset)
            return i;
    uint32_t i = header->slots;
    uint64_t offset = header->end, size = LS_CHUNK_MIN;
    assert_true(i < LS_CHUNK_MAX && offset + size <= MADE_FILE);
    assert_int_equal(ftruncate(maker->fd, (off_t)(offset + size)), 0);
    maker->slot[i].size = size;
    maker->slot[i].offset = offset;
    header->end = offset + size;
    header->slots = i + 1;
    return i;
}

static void claim(struct maker *maker, unsigned thread) {
    uint32_t i = find_slot(maker);
    struct ls_chunk *chunk = (struct ls_chunk *)(maker->map + maker->slot[i].offset);
    maker->slot[i].state = LS_CHUNK_ACTIVE;
    chunk->committed = 0;
    chunk->magic = LS_CHUNK_MAGIC;
    chunk->slot = i;
    chunk->thread = thread;
    chunk->tid = 1000 + thread;
    chunk->sequence = maker->thread[thread].sequence++;
    chunk->generation++;
    chunk->committed = sizeof *chunk;
    maker->thread[thread].chunk = chunk;
    maker->thread[thread].size = (uint32_t)maker->slot[i].size;
    maker->thread[thread].position = sizeof *chunk;
}

void maker_seal(struct maker *maker, unsigned thread) {
    struct ls_chunk *chunk = maker->thread[thread].chunk;
    if (!chunk)
        return;
    chunk->checksum = XXH3_64bits(chunk + 1, chunk->committed - sizeof *chunk);
    maker->slot[chunk->slot].state = LS_CHUNK_SEALED;
    maker->thread[thread].chunk = NULL;
}

static void write_thread(struct maker *maker, unsigned thread) {
    struct ls_rec_thread record = {.head = {.size = sizeof record, .type = LS_REC_THREAD},
                                   .tid = 1000 + thread,
                                   .thread = thread};
    sprintf(record.name, "t%u", thread);
    maker_raw(maker, thread, &record, sizeof record);
}

void maker_raw(struct maker *maker, unsigned thread, const void *data, uint32_t size) {
    assert_true(thread >= 1 && thread < MADE_THREADS);
    if (maker->thread[thread].chunk &&
        maker->thread[thread].position + size > maker->thread[thread].size)
        maker_seal(maker, thread);
    if (!maker->thread[thread].chunk) {
        claim(maker, thread);
        if (maker->thread[thread].sequence == 1)
            write_thread(maker, thread);
    }
    memcpy((uint8_t *)maker->thread[thread].chunk + maker->thread[thread].position, data, size);
    maker->thread[thread].position += size;
    atomic_store_explicit(&maker->thread[thread].chunk->committed, maker->thread[thread].position,
                          memory_order_release);
}

void maker_call_flags(struct maker *maker, unsigned thread, enum ls_api api, uint64_t start,
                      uint64_t end, int status, uint32_t stack, unsigned flags, unsigned kinds,
                      unsigned device, const uint64_t *field) {
    struct {
        struct ls_rec_call call;
        uint64_t field[LS_FIELD_MAX];
    } record = {.call = {.start = MADE_START + start,
                         .duration = end - start,
                         .status = status,
                         .stack = stack}};
    int count = ls_api_info[api].field_count;
    record.call.head =
        (struct ls_record){.size = (uint16_t)(sizeof record.call + 8 * (size_t)count),
                           .type = LS_REC_CALL,
                           .flags = (uint8_t)flags,
                           .api = (uint16_t)api,
                           .device = (uint8_t)device,
                           .kinds = (uint8_t)kinds};
    memcpy(record.field, field, (size_t)count * sizeof field[0]);
    maker_raw(maker, thread, &record, record.call.head.size);
}

void maker_numbered(struct maker *maker, unsigned thread, enum ls_api api, uint64_t start,
                    uint64_t end, unsigned flags, uint32_t stack, uint32_t correlation,
                    const uint64_t *field) {
    struct {
        struct ls_rec_call call;
        uint64_t field[LS_FIELD_MAX + 1];
    } record = {.call = {.start = MADE_START + start, .duration = end - start, .stack = stack}};
    int count = ls_api_info[api].field_count;
    record.call.head =
        (struct ls_record){.size = (uint16_t)(sizeof record.call + 8 * (size_t)(count + 1)),
                           .type = LS_REC_CALL,
                           .flags = (uint8_t)(flags | LS_CALL_CORRELATED),
                           .api = (uint16_t)api};
    memcpy(record.field, field, (size_t)count * sizeof field[0]);
    record.field[count] = LS_CORRELATION(correlation, 1);
    maker_raw(maker, thread, &record, record.call.head.size);
}

void maker_launch(struct maker *maker, unsigned thread, uint64_t start, uint64_t end,
                  unsigned flags, uint32_t correlation) {
    maker_call_numbered(maker, thread, cudaLaunchKernel, start, end, flags, 0, correlation, 1, 2, 5,
                        6, 0);
}

void maker_gpu(struct maker *maker, unsigned thread, enum ls_gpu_kind kind, unsigned flags,
               unsigned kinds, struct ls_rec_gpu work) {
    work.head = (struct ls_record){.size = sizeof work,
                                   .type = LS_REC_GPU,
                                   .flags = (uint8_t)flags,
                                   .api = (uint16_t)kind,
                                   .kinds = (uint8_t)kinds};
    maker_raw(maker, thread, &work, sizeof work);
}

void maker_gpu_clock(struct maker *maker, unsigned thread, uint64_t tick, uint64_t width,
                     uint64_t gpu) {
    struct ls_rec_gpu_clock record = {.head = {.size = sizeof record, .type = LS_REC_GPU_CLOCK},
                                      .ticks = MADE_START + tick,
                                      .width = width,
                                      .gpu_ns = MADE_GPU + gpu};
    maker_raw(maker, thread, &record, sizeof record);
}

/* Room for any record but a long one. */
static uint8_t buffer[LS_RECORD_LARGEST];

static void begin(int type, uint32_t size) {
    memset(buffer, 0, sizeof buffer);
    *(struct ls_record *)buffer =
        (struct ls_record){.size = (uint16_t)((size + 7) & ~7u), .type = (uint8_t)type};
}

static void put(struct maker *maker, unsigned thread) {
    maker_raw(maker, thread, buffer, ((struct ls_record *)buffer)->size);
}

void maker_stack(struct maker *maker, unsigned thread, uint32_t id, uint32_t modules,
                 uint32_t depth, const uint64_t *address) {
    maker_mixed_stack(maker, thread, id, modules, depth, address, 0, 0);
}

void maker_mixed_stack(struct maker *maker, unsigned thread, uint32_t id, uint32_t modules,
                       uint32_t depth, const uint64_t *address, uint32_t python, uint32_t forward) {
    struct ls_rec_stack *record = (struct ls_rec_stack *)buffer;
    begin(LS_REC_STACK, (uint32_t)sizeof *record + 8 * depth);
    record->id = id;
    record->modules = modules;
    record->depth = depth;
    record->python = python;
    record->forward = forward;
    memcpy(record->address, address, depth * sizeof address[0]);
    put(maker, thread);
}

void maker_code(struct maker *maker, unsigned thread, uint32_t id, const char *name,
                const char *file) {
    struct ls_rec_code *record = (struct ls_rec_code *)buffer;
    begin(LS_REC_CODE, (uint32_t)(sizeof *record + strlen(name) + strlen(file) + 2));
    record->id = id;
    record->first_line = 1;
    strcpy(stpcpy(record->text, name) + 1, file);
    put(maker, thread);
}

void maker_python(struct maker *maker, unsigned thread, uint32_t id, uint32_t depth,
                  const struct ls_python_frame *frame) {
    struct ls_rec_python *record = (struct ls_rec_python *)buffer;
    begin(LS_REC_PYTHON, (uint32_t)(sizeof *record + depth * sizeof *frame));
    record->id = id;
    record->depth = depth;
    memcpy(record->frame, frame, depth * sizeof *frame);
    put(maker, thread);
}

void maker_module(struct maker *maker, unsigned thread, uint32_t modules, uint64_t bias,
                  uint64_t start, uint64_t end, const char *path, const uint8_t *build_id,
                  uint32_t build_id_size) {
    struct ls_rec_module *record = (struct ls_rec_module *)buffer;
    begin(LS_REC_MODULE, (uint32_t)(offsetof(struct ls_rec_module, path) + strlen(path) + 1));
    record->bias = bias;
    record->start = start;
    record->end = end;
    record->modules = modules;
    record->build_id_size = build_id_size;
    if (build_id_size)
        memcpy(record->build_id, build_id, build_id_size);
    strcpy(record->path, path);
    put(maker, thread);
}

void maker_kernel(struct maker *maker, unsigned thread, uint32_t id, const char *name) {
    struct ls_rec_kernel *record = (struct ls_rec_kernel *)buffer;
    begin(LS_REC_KERNEL, (uint32_t)(sizeof *record + strlen(name) + 1));
    record->id = id;
    strcpy(record->name, name);
    put(maker, thread);
}

void maker_gpu_state(struct maker *maker, unsigned thread, uint64_t tick, enum ls_gpu_state state,
                     const char *text) {
    struct ls_rec_gpu_state *record = (struct ls_rec_gpu_state *)buffer;
    begin(LS_REC_GPU_STATE, (uint32_t)(offsetof(struct ls_rec_gpu_state, text) + strlen(text) + 1));
    record->ticks = MADE_START + tick;
    record->state = state;
    strcpy(record->text, text);
    put(maker, thread);
}

void maker_shape(struct maker *maker, unsigned thread, const struct ls_rec_shape *shape,
                 unsigned count, const int64_t *value) {
    begin(LS_REC_SHAPE, (uint32_t)(sizeof *shape + count * sizeof *value));
    memcpy(buffer + sizeof shape->head, &shape->head + 1, sizeof *shape - sizeof shape->head);
    memcpy(buffer + sizeof *shape, value, count * sizeof *value);
    put(maker, thread);
}

void maker_operands(struct maker *maker, unsigned thread, enum ls_api api, uint64_t start,
                    uint64_t end, unsigned flags, uint32_t stack, uint32_t correlation,
                    const uint64_t *field, unsigned count, const struct ls_operand *operand) {
    struct ls_rec_call *call = (struct ls_rec_call *)buffer;
    unsigned fields = (unsigned)ls_api_info[api].field_count, words = fields + !!correlation + 1;
    begin(LS_REC_CALL, (uint32_t)(sizeof *call + 8 * words + count * sizeof *operand));
    call->head.api = (uint16_t)api;
    call->head.flags = (uint8_t)(flags | LS_CALL_OPERANDS | (correlation ? LS_CALL_CORRELATED : 0));
    call->start = MADE_START + start;
    call->duration = end - start;
    call->stack = stack;
    memcpy(call->field, field, fields * sizeof *field);
    if (correlation)
        call->field[fields] = LS_CORRELATION(correlation, 1);
    call->field[words - 1] = count;
    memcpy(&call->field[words], operand, count * sizeof *operand);
    put(maker, thread);
}

void maker_lost(struct maker *maker, unsigned thread, enum ls_lost reason, uint64_t count,
                uint64_t start, uint64_t end) {
    struct ls_rec_lost *record = (struct ls_rec_lost *)buffer;
    begin(LS_REC_LOST, sizeof *record);
    record->head.api = (uint16_t)reason;
    record->count = count;
    record->start = MADE_START + start;
    record->end = MADE_START + end;
    put(maker, thread);
}

void maker_text(struct maker *maker, unsigned thread, int type, const char *a, const char *b,
                const char *c) {
    struct ls_rec_text *record = (struct ls_rec_text *)buffer;
    size_t size = sizeof *record + strlen(a) + strlen(b) + 2 + (c ? strlen(c) + 1 : 0);
    begin(type, (uint32_t)size);
    char *p = stpcpy(record->text, a) + 1;
    p = stpcpy(p, b) + 1;
    if (c)
        strcpy(p, c);
    put(maker, thread);
}

void maker_census(struct maker *maker, unsigned thread, uint32_t census, uint32_t state,
                  uint32_t reason, uint64_t tick, uint64_t oom, const char *text) {
    struct ls_rec_census *record = (struct ls_rec_census *)buffer;
    begin(LS_REC_CENSUS, (uint32_t)(offsetof(struct ls_rec_census, text) + strlen(text) + 1));
    record->ticks = MADE_START + tick;
    record->oom_ticks = oom ? MADE_START + oom : 0;
    record->census = census;
    record->state = state;
    record->reason = reason;
    record->objects = 1000;
    record->tensors = 10;
    record->nodes = 3;
    strcpy(record->text, text);
    put(maker, thread);
}

void maker_storage(struct maker *maker, unsigned thread, uint32_t census, uint32_t id,
                   uint64_t address, uint64_t bytes, uint64_t held_by_graph) {
    struct ls_rec_storage *record = (struct ls_rec_storage *)buffer;
    begin(LS_REC_STORAGE, sizeof *record);
    record->census = census;
    record->id = id;
    record->address = address;
    record->bytes = bytes;
    record->held_by_graph = held_by_graph;
    put(maker, thread);
}

void maker_tensor(struct maker *maker, unsigned thread, uint32_t census, uint32_t storage,
                  uint64_t bytes, uint32_t flags, const char *const *paths) {
    static const char kind[] = "float32\0torch.Tensor";
    struct ls_rec_tensor *record = (struct ls_rec_tensor *)buffer;
    size_t size = sizeof *record + 16 + sizeof kind;
    for (const char *const *path = paths; *path; path++)
        size += strlen(*path) + 1;
    begin(LS_REC_TENSOR, (uint32_t)size);
    record->census = census;
    record->storage = storage;
    record->object = 0x1000;
    record->bytes = bytes;
    record->flags = flags;
    record->dims = 1;
    record->shape[0] = (int64_t)bytes / 4;
    record->shape[1] = 1;
    char *p = (char *)&record->shape[2];
    memcpy(p, kind, sizeof kind);
    p += sizeof kind;
    for (; *paths; paths++, record->paths++, record->paths_told++)
        p = stpcpy(p, *paths) + 1;
    put(maker, thread);
}

const char *maker_ask(const struct maker *maker, const char *sql) {
    static char answer[8][512];
    static unsigned next;
    char *out = answer[next++ % 8];
    sqlite3 *db;
    sqlite3_stmt *stmt = NULL;
    assert_int_equal(sqlite3_open_v2(maker->trace, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    if (sqlite3_step(stmt) == SQLITE_ROW) {
        const unsigned char *text = sqlite3_column_text(stmt, 0);
        snprintf(out, sizeof answer[0], "%s", text ? (const char *)text : "");
    } else {
        strcpy(out, "(none)");
    }
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return out;
}

int64_t maker_number(const struct maker *maker, const char *sql) {
    return strtoll(maker_ask(maker, sql), NULL, 10);
}

int maker_collect(struct maker *maker) {
    return ls_collect_follow(maker->spool, 0);
}
