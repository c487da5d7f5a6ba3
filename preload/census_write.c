/*
 * census_write.c - the records of a census. See census.h. The census's pending call.
 */
#include <string.h>

#include "census.h"
#include "census_tensor.h"
#include "wrap.h"

static void *reserve(struct ls_thread *self, uint32_t size, enum ls_record_type type) {
    struct ls_record *record = ls_spool_reserve(self, size);
    if (!record) {
        ls_spool_lost(self, self->chunk_error, 1);
        return NULL;
    }
    memset(record, 0, size);
    record->size = (uint16_t)size;
    record->type = (uint8_t)type;
    return record;
}

void ls_census_record(struct ls_thread *self, const struct ls_rec_census *head, const char *text) {
    uint32_t length = (uint32_t)strnlen(text, 512);
    uint32_t size = (uint32_t)(sizeof *head + length + 1 + 7) & ~7u;
    struct ls_rec_census *record = reserve(self, size, LS_REC_CENSUS);
    if (!record)
        return;
    struct ls_record own = record->head;
    *record = *head;
    record->head = own;
    memcpy(record->text, text, length);
    ls_spool_commit(self, size);
}

static size_t put(char *out, const char *text) {
    size_t size = strlen(text) + 1;
    memcpy(out, text, size);
    return size;
}

static size_t length_of(const char *texts, uint32_t count) {
    size_t size = 0;
    for (uint32_t i = 0; i < count; i++)
        size += strlen(texts + size) + 1;
    return size;
}

static bool write_tensor(struct ls_thread *self, const struct ls_census *c, uint32_t number,
                         uint32_t index) {
    const struct ls_census_tensor *tensor = &c->tensor[index];
    const struct ls_tensor_facts *facts = (const void *)(c->text + tensor->facts);
    const char *dtype = c->torch->types[facts->type].name, *class = c->text + facts->name;
    const char *paths = c->text + tensor->text;
    size_t shape = 2u * facts->dims * sizeof(int64_t), told = length_of(paths, tensor->texts);
    uint32_t size = (uint32_t)(sizeof(struct ls_rec_tensor) + shape + strlen(dtype) + 1 +
                               strlen(class) + 1 + told + 7) &
                    ~7u;
    struct ls_rec_tensor *record = reserve(self, size, LS_REC_TENSOR);
    if (!record)
        return false;
    record->census = number;
    record->storage = facts->storage;
    record->object = tensor->ours ? 0 : tensor->object;
    record->offset = facts->offset;
    record->bytes = facts->bytes;
    record->flags = tensor->flags;
    record->dims = facts->dims;
    record->paths = tensor->paths > tensor->texts ? tensor->paths : tensor->texts;
    record->paths_told = tensor->texts;
    memcpy(record->shape, facts->shape, shape);
    char *text = (char *)record->shape + shape;
    text += put(text, dtype);
    text += put(text, class);
    memcpy(text, paths, told);
    ls_spool_commit(self, size);
    return true;
}

static bool write_storage(struct ls_thread *self, const struct ls_census *c, uint32_t number,
                          uint32_t index) {
    const struct ls_census_storage *storage = &c->storage[index];
    struct ls_rec_storage *record = reserve(self, sizeof *record, LS_REC_STORAGE);
    if (!record)
        return false;
    record->head.device = storage->device;
    record->census = number;
    record->id = index + 1;
    record->address = storage->address;
    record->bytes = storage->bytes;
    record->held_by_graph = storage->held_by_graph;
    ls_spool_commit(self, sizeof *record);
    for (uint32_t i = storage->first; i != LS_CENSUS_NONE; i = c->tensor[i].next)
        if (!write_tensor(self, c, number, i))
            return false;
    return true;
}

bool ls_census_write(struct ls_thread *self, const struct ls_census *c, uint32_t number) {
    for (uint32_t i = 0; i < c->storages; i++)
        if (c->storage[i].first != LS_CENSUS_NONE && !write_storage(self, c, number, i))
            return false;
    return true;
}
