/*
 * table.h - the one table as data: names, libraries, classes and fields by number.
 *
 * Built once (common/table.c) and linked into both sides. Read-only, thread-safe,
 * async-signal-safe.
 */
#ifndef LAYOUTSPY_TABLE_H
#define LAYOUTSPY_TABLE_H

#include <stdint.h>

#include "layoutspy/api.h"

/* Arrays, not pointers: the library is loaded into every process that inherits LD_PRELOAD, and
 * hundreds of relocations would cost each of them more than the rest of it. */
struct ls_field_info {
    char name[12];
    enum ls_field_type type;
};

struct ls_api_info {
    char name[64];
    enum ls_lib lib;
    enum ls_class cls;
    int field_count; /* 0 to LS_FIELD_MAX */
    struct ls_field_info field[LS_FIELD_MAX];
};

extern const struct ls_api_info ls_api_info[LS_API_COUNT]; /* [0] is empty */
extern const char ls_lib_name[LS_LIB_COUNT][12];
extern const char ls_class_name[LS_CLASS_COUNT][16];
extern const char ls_field_type_name[][8]; /* by enum ls_field_type, in lower case */

/* A hash over numbers, names and fields: equal only for the same table. Never 0. */
uint64_t ls_table_hash(void);

/* Position of a field by name in a row, or -1. */
int ls_field_index(enum ls_api api, const char *name);

#endif
