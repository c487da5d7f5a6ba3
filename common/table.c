/*
 * table.c - the one table expanded to data. See layoutspy/table.h.
 */
#include "layoutspy/table.h"

#include <stddef.h>
#include <string.h>

/* A row's fields become initialisers, counted with one empty field too many. */
#define F(name, type, expression) {#name, LS_FIELD_##type},
#define COUNT(...)                                                                                 \
    (int)(sizeof((struct ls_field_info[]){__VA_ARGS__{"", 0}}) / sizeof(struct ls_field_info) - 1)
#define ROW(LIB, name, CLASS, ...)                                                                 \
    [LS_API_##name] = {#name, LS_LIB_##LIB, LS_CLASS_##CLASS, COUNT(__VA_ARGS__), {__VA_ARGS__}},
#define API(LIB, ret, name, CLASS, STACK, params, args, ...) ROW(LIB, name, CLASS, __VA_ARGS__)
#define API_TWIN(LIB, ret, name, twin, CLASS, STACK, params, args, ...)                            \
    ROW(LIB, twin, CLASS, __VA_ARGS__)

const struct ls_api_info ls_api_info[LS_API_COUNT] = {
#include "layoutspy/api/all.def"
};

const char ls_lib_name[LS_LIB_COUNT][12] = {
#define LIBRARY(ID, name, soname, versions, missing) [LS_LIB_##ID] = name,
#include "layoutspy/api/library.def"
};

const char ls_class_name[LS_CLASS_COUNT][16] = {
#define CLASS(ID, name, what) [LS_CLASS_##ID] = name,
#include "layoutspy/api/class.def"
};

const char ls_field_type_name[][8] = {
    [LS_FIELD_PTR] = "ptr",       [LS_FIELD_SIZE] = "size",     [LS_FIELD_UINT] = "uint",
    [LS_FIELD_INT] = "int",       [LS_FIELD_STREAM] = "stream", [LS_FIELD_HANDLE] = "handle",
    [LS_FIELD_KIND] = "kind",     [LS_FIELD_DIM3] = "dim3",     [LS_FIELD_KERNEL] = "kernel",
    [LS_FIELD_DEVICE] = "device",
};

/* FNV-1a, one string or byte string at a time. */
static uint64_t hash_bytes(uint64_t h, const void *data, size_t size) {
    const unsigned char *p = data;
    for (size_t i = 0; i < size; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

uint64_t ls_table_hash(void) {
    uint64_t h = 0xcbf29ce484222325u;
    for (int i = 1; i < LS_API_COUNT; i++) {
        const struct ls_api_info *row = &ls_api_info[i];
        h = hash_bytes(h, row->name, strlen(row->name) + 1);
        h = hash_bytes(h, &row->cls, sizeof row->cls);
        for (int f = 0; f < row->field_count; f++) {
            h = hash_bytes(h, row->field[f].name, strlen(row->field[f].name) + 1);
            h = hash_bytes(h, &row->field[f].type, sizeof row->field[f].type);
        }
    }
    return h ? h : 1;
}

int ls_field_index(enum ls_api api, const char *name) {
    const struct ls_api_info *row = &ls_api_info[api];
    for (int f = 0; f < row->field_count; f++)
        if (strcmp(row->field[f].name, name) == 0)
            return f;
    return -1;
}
