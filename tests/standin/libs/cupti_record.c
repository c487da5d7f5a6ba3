/*
 * cupti_record.c - activity records, byte for byte as a version of CUPTI lays them out, by the
 * table cupti_layouts.def. Any thread; pure functions.
 */
#include <string.h>

#include "cupti_standin.h"

static const struct {
    uint16_t kind, size[CP_VERSIONS];
} types[CP_TYPES] = {
#define RECORD(record, number, type, ...) [CP_R_##record] = {number, {__VA_ARGS__}},
#define FIELD(...)
#include "cupti_layouts.def"
};

static const struct {
    enum cp_type type;
    uint8_t width;
    int16_t offset[CP_VERSIONS];
} fields[CP_FIELDS] = {
#define RECORD(...)
#define FIELD(record, name, member, width, ...)                                                    \
    [CP_F_##record##_##name] = {CP_R_##record, width, {__VA_ARGS__}},
#include "cupti_layouts.def"
};

#ifdef STANDIN_NVIDIA_HEADERS
/* The columns of 13.0 against its header. */
#define RECORD(record, number, type, v118, v124, v130, v133)                                       \
    typedef type check_##record;                                                                   \
    _Static_assert(CUPTI_API_VERSION != 130001 || sizeof(type) == (v130), #type);
#define FIELD(record, name, member, width, v118, v124, v130, v133)                                 \
    _Static_assert(CUPTI_API_VERSION != 130001 || (v130) == -1 ||                                  \
                       offsetof(check_##record, member) == (size_t)(v130),                         \
                   #record " " #name);
#include "cupti_layouts.def"
#endif

void cp_begin_as(struct cp_record *record, enum cp_type type, int kind) {
    memset(record, 0, sizeof *record);
    record->type = type;
    record->size = types[type].size[cp_options()->version];
    uint32_t number = (uint32_t)kind;
    memcpy(record->bytes, &number, sizeof number);
}

void cp_begin(struct cp_record *record, enum cp_type type) {
    cp_begin_as(record, type, types[type].kind);
}

void cp_set_bytes(struct cp_record *record, enum cp_field field, const void *value) {
    int16_t offset = fields[field].offset[cp_options()->version];
    if (offset >= 0 && fields[field].type == record->type)
        memcpy(record->bytes + offset, value, fields[field].width);
}

/* Little endian: a narrow field takes the low bytes. */
void cp_set(struct cp_record *record, enum cp_field field, uint64_t value) {
    cp_set_bytes(record, field, &value);
}

size_t cp_size_of_kind(int kind) {
    if (kind == CUPTI_ACTIVITY_KIND_KERNEL)
        kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    if (kind == CUPTI_ACTIVITY_KIND_DRIVER || kind == CUPTI_ACTIVITY_KIND_INTERNAL_LAUNCH_API)
        kind = CUPTI_ACTIVITY_KIND_RUNTIME;
    for (int i = 0; i < CP_TYPES; i++)
        if (types[i].kind == kind)
            return types[i].size[cp_options()->version];
    return 0;
}
