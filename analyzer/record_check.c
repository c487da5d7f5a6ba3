/*
 * record_check.c - see record_check.h. Any thread; no state.
 */
#include "record_check.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "layoutspy/table.h"

static bool check_call(const struct ls_rec_call *call) {
    if (call->head.api == LS_API_NONE || call->head.api >= LS_API_COUNT)
        return false;
    const struct ls_api_info *api = &ls_api_info[call->head.api];
    unsigned fields = (unsigned)api->field_count;
    size_t size = sizeof *call + 8u * (fields + !!(call->head.flags & LS_CALL_CORRELATED));
    if (api->cls == LS_CLASS_MAP || call->head.size < size)
        return false;
    if (!(call->head.flags & LS_CALL_OPERANDS))
        return call->head.size == size;
    uint64_t operands = call->head.size > size ? LS_CALL_OPERAND_COUNT(call, fields) : 0;
    return operands > 0 && operands <= LS_OPERANDS_MOST &&
           call->head.size == size + 8 + operands * sizeof(struct ls_operand);
}

static bool check_shape(const struct ls_rec_shape *shape) {
    if (shape->head.size < sizeof *shape || shape->id == 0 || shape->kind == LS_SHAPE_NONE ||
        shape->kind >= LS_SHAPE_KINDS || shape->dims > LS_SHAPE_DIMS ||
        shape->dtype >= LS_DTYPE_COUNT)
        return false;
    unsigned values = (unsigned)(shape->head.size - sizeof *shape) / 8;
    switch (shape->kind) {
    case LS_SHAPE_TENSOR:
    case LS_SHAPE_MATRIX:
        return values == 2u * shape->dims;
    case LS_SHAPE_PRODUCT:
        return values == LS_PRODUCT_VALUES;
    case LS_SHAPE_CONVOLUTION:
        return values == 4u * shape->dims + 3;
    case LS_SHAPE_POOLING:
        return values == 3u * shape->dims + 1;
    default:
        return values <= LS_SHAPE_VALUES;
    }
}

static bool check_stack(const struct ls_rec_stack *stack) {
    return stack->head.size >= sizeof *stack && stack->id != 0 &&
           stack->depth == (stack->head.size - sizeof *stack) / 8;
}

/* Whether `count` strings end within [text, end of the record). */
static bool check_text(const struct ls_record *record, size_t text, int count) {
    if (record->size <= text)
        return false;
    const char *p = (const char *)record + text;
    const char *end = (const char *)record + record->size;
    for (; count > 0; count--) {
        const char *nul = p < end ? memchr(p, 0, (size_t)(end - p)) : NULL;
        if (!nul)
            return false;
        p = nul + 1;
    }
    return true;
}

static bool check_module(const struct ls_record *record) {
    const struct ls_rec_module *module = (const struct ls_rec_module *)record;
    if (record->size < offsetof(struct ls_rec_module, path))
        return false;
    return module->end > module->start && module->build_id_size <= sizeof module->build_id &&
           check_text(record, offsetof(struct ls_rec_module, path), 1);
}

static bool check_thread(const struct ls_rec_thread *thread) {
    return thread->head.size == sizeof *thread && thread->thread != 0 &&
           memchr(thread->name, 0, sizeof thread->name);
}

static bool check_code(const struct ls_rec_code *code) {
    return check_text(&code->head, offsetof(struct ls_rec_code, text), 2) && code->id != 0;
}

static bool check_python(const struct ls_rec_python *python) {
    return python->head.size >= sizeof *python && python->id != 0 &&
           python->depth == (python->head.size - sizeof *python) / sizeof python->frame[0];
}

static bool check_mark(const struct ls_rec_mark *mark) {
    return check_text(&mark->head, offsetof(struct ls_rec_mark, text), 1) &&
           mark->kind >= LS_MARK_STEP && mark->kind < LS_MARK_KINDS;
}

static bool check_census(const struct ls_rec_census *census) {
    return check_text(&census->head, offsetof(struct ls_rec_census, text), 1) &&
           census->census != 0 && census->state >= LS_CENSUS_BEGINS &&
           census->state < LS_CENSUS_STATES && census->reason >= LS_CENSUS_OOM &&
           census->reason < LS_CENSUS_REASONS;
}

static bool check_storage(const struct ls_rec_storage *storage) {
    return storage->head.size == sizeof *storage && storage->census != 0 && storage->id != 0;
}

/* dtype, class and paths follow the sizes and the strides. */
static bool check_tensor(const struct ls_rec_tensor *tensor) {
    if (tensor->head.size < sizeof *tensor || tensor->census == 0 || tensor->storage == 0 ||
        tensor->dims > LS_TENSOR_DIMS || tensor->paths_told > tensor->paths ||
        tensor->paths_told > LS_RECORD_LARGEST)
        return false;
    return check_text(&tensor->head, sizeof *tensor + 2 * tensor->dims * sizeof tensor->shape[0],
                      2 + (int)tensor->paths_told);
}

static bool check_gpu(const struct ls_rec_gpu *gpu) {
    return gpu->head.size == sizeof *gpu && gpu->head.api > LS_GPU_NONE &&
           gpu->head.api < LS_GPU_KINDS;
}

static bool check_gpu_state(const struct ls_rec_gpu_state *gpu) {
    return check_text(&gpu->head, offsetof(struct ls_rec_gpu_state, text), 1) &&
           gpu->state >= LS_GPU_STATE_ON && gpu->state < LS_GPU_STATES;
}

static bool check_body(const struct ls_record *record) {
    switch (record->type) {
    case LS_REC_PAD:
        return true;
    case LS_REC_CALL:
        return record->size >= sizeof(struct ls_rec_call) &&
               check_call((const struct ls_rec_call *)record);
    case LS_REC_STACK:
        return check_stack((const struct ls_rec_stack *)record);
    case LS_REC_MODULE:
        return check_module(record);
    case LS_REC_THREAD:
        return check_thread((const struct ls_rec_thread *)record);
    case LS_REC_KERNEL:
        return check_text(record, offsetof(struct ls_rec_kernel, name), 1);
    case LS_REC_META:
        return check_text(record, offsetof(struct ls_rec_text, text), 2);
    case LS_REC_COVERAGE:
        return check_text(record, offsetof(struct ls_rec_text, text), 3);
    case LS_REC_CODE:
        return check_code((const struct ls_rec_code *)record);
    case LS_REC_PYTHON:
        return check_python((const struct ls_rec_python *)record);
    case LS_REC_MARK:
        return check_mark((const struct ls_rec_mark *)record);
    case LS_REC_CENSUS:
        return check_census((const struct ls_rec_census *)record);
    case LS_REC_STORAGE:
        return check_storage((const struct ls_rec_storage *)record);
    case LS_REC_TENSOR:
        return check_tensor((const struct ls_rec_tensor *)record);
    case LS_REC_GPU:
        return check_gpu((const struct ls_rec_gpu *)record);
    case LS_REC_GPU_CLOCK:
        return record->size == sizeof(struct ls_rec_gpu_clock);
    case LS_REC_GPU_STATE:
        return check_gpu_state((const struct ls_rec_gpu_state *)record);
    case LS_REC_SHAPE:
        return check_shape((const struct ls_rec_shape *)record);
    case LS_REC_LOST:
        return record->size == sizeof(struct ls_rec_lost) && record->api < LS_LOST_COUNT;
    default:
        return false;
    }
}

uint32_t ls_record_check(const void *data, uint64_t room) {
    const struct ls_record *record = data;
    if (room < sizeof *record || record->size < sizeof *record || record->size % 8 != 0 ||
        record->size > room)
        return 0;
    if (record->type != LS_REC_PAD && record->size > LS_RECORD_LARGEST)
        return 0;
    return check_body(record) ? record->size : 0;
}

const char *ls_record_text(const struct ls_rec_text *record, int part) {
    const char *text = record->text;
    for (; part > 0; part--)
        text += strlen(text) + 1;
    return text;
}
