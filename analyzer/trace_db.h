/*
 * trace_db.h - the trace as its writer sees it: opened or created, rows put in, closed as one file.
 *
 * Errors stick: after the first one (a full disk, say) every further put does nothing, and
 * ls_db_error() tells. Rows are only in the trace after ls_db_commit() returned true.
 * Collector and analyzer processes only; one thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_TRACE_DB_H
#define LAYOUTSPY_TRACE_DB_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layoutspy/api.h"
#include "layoutspy/format.h"

/* The statements that put rows; their text is in trace_db.c. */
enum ls_put {
    LS_PUT_API,
    LS_PUT_ROLE,
    LS_PUT_META,
    LS_PUT_COVERAGE,
    LS_PUT_LOST,
    LS_PUT_THREAD,
    LS_PUT_KERNEL,
    LS_PUT_KERNEL_LAYOUT,
    LS_PUT_SHAPE,
    LS_PUT_PRODUCT,
    LS_PUT_OPERAND,
    LS_PUT_OPERAND_SHAPE,
    LS_PUT_RAW_OPERAND,
    LS_PUT_RAW_OPERAND_DONE,
    LS_PUT_MODULE,
    LS_PUT_RAW_STACK,
    LS_PUT_RAW_STACK_DONE,
    LS_PUT_RAW_CODE,
    LS_PUT_RAW_PYTHON,
    LS_PUT_FRAME,
    LS_PUT_FRAME_RESOLVED,
    LS_PUT_FRAME_PYTHON,
    LS_PUT_STACK,
    LS_PUT_STACK_SITE,
    LS_PUT_SITE,
    LS_PUT_ALLOCATION,
    LS_PUT_ALLOCATION_END,
    LS_PUT_ALLOCATION_HOLDER,
    LS_PUT_VMM_RANGE,
    LS_PUT_VMM_RANGE_END,
    LS_PUT_BLOCK,
    LS_PUT_BLOCK_END,
    LS_PUT_BLOCK_WAIT,
    LS_PUT_BLOCK_WAIT_DONE,
    LS_PUT_MEMORY,
    LS_PUT_DEVICE_USE,
    LS_PUT_DEVICE_USE_SPLIT,
    LS_PUT_OOM,
    LS_PUT_OOM_CALL,
    LS_PUT_OOM_CALL_GONE,
    LS_PUT_OOM_HOLE,
    LS_PUT_IMAGE_COPY,
    LS_PUT_MOMENT,
    LS_PUT_SEGMENT_STATE,
    LS_PUT_LIBRARY_HANDLE,
    LS_PUT_LIBRARY_GPU,
    LS_PUT_CENSUS,
    LS_PUT_CENSUS_OOM,
    LS_PUT_CENSUS_STORAGE,
    LS_PUT_CENSUS_TENSOR,
    LS_PUT_CENSUS_PATH,
    LS_PUT_BLOCK_AUDIT,
    LS_PUT_COPY,
    LS_PUT_COPY_GONE,
    LS_PUT_COPY_ROWS,
    LS_PUT_COPY_ROWS_GONE,
    LS_PUT_COPY_GPU,
    LS_PUT_GPU_WORK,
    LS_PUT_GPU_COUNT,
    LS_PUT_GPU_CLOCK,
    LS_PUT_GPU_STATE,
    LS_PUT_KERNEL_TOTAL,
    LS_PUT_RAW_GPU,
    LS_PUT_RAW_GPU_DONE,
    LS_PUT_MARK,
    LS_PUT_PHASE,
    LS_PUT_STEP,
    LS_PUT_INGEST,
    LS_PUT_COUNT
};

struct ls_trace_db {
    sqlite3 *db;
    int rc; /* the first error, or SQLITE_OK */
    char error[256];
    bool in_transaction;
    sqlite3_stmt *put[LS_PUT_COUNT];
    sqlite3_stmt *put_call[LS_FIELD_MAX + 1]; /* by number of fields */
};

/* A row of `operand`: as its columns; 0: NULL, but for role, address and flags. */
struct ls_operand_row {
    uint64_t address;
    int64_t block, allocation;
    uint32_t shape;
    uint8_t role, flags;
};

/* The text of the schema (schema*.sql), and the number that it sets a pragma to. */
extern const char ls_schema_sql[];
int ls_schema_number(const char *pragma);

/* SQLite for one thread: a fifth of the work of a put, a tenth of that of a report, would go into
 * mutexes and counting memory. Without effect where it is in use already. */
void ls_db_configure(void);

/*
 * Open or create the trace at `path` for the recording named `recording`: a text that is the same
 * for the same spool. False: `why` gets the rest of an error line. Close with ls_db_close(), also
 * after a failure.
 */
bool ls_db_open(struct ls_trace_db *db, const char *path, const char *recording, char *why,
                size_t size);

/* Put one row. types: i int64_t; u uint64_t as its bits; n NULL whatever the int64_t; s text or
 * NULL; b pointer and int size of a blob; z int64_t, or NULL where it is 0. */
void ls_db_put(struct ls_trace_db *db, enum ls_put put, const char *types, ...);

/* The row of a call; `id` and the times as in the schema. Opens a transaction where none is. */
void ls_db_put_call(struct ls_trace_db *db, int64_t id, int64_t start_ns, int64_t duration_ns,
                    uint32_t thread, const struct ls_rec_call *call);

/* The rows of a call's operands, by position. */
void ls_db_put_operands(struct ls_trace_db *db, int64_t call, const struct ls_operand_row *row,
                        unsigned count);

/* Run `sql` and hand each row to `row`; errors stick as for puts. */
void ls_db_each(struct ls_trace_db *db, const char *sql,
                void (*row)(sqlite3_stmt *stmt, void *context), void *context);

/* After a longjmp out of what was being read: of its statements nobody knows any more. */
void ls_db_end_reading(struct ls_trace_db *db);

/* The one integer that `sql` selects, or 0. */
int64_t ls_db_number(struct ls_trace_db *db, const char *sql);

/* Run statements that change the trace, in the open transaction if there is one. */
void ls_db_exec(struct ls_trace_db *db, const char *sql);

/* True, and all that was put is in the trace; or false, and none of it is. */
bool ls_db_commit(struct ls_trace_db *db);

/* Why the last operation failed, or NULL where none did. */
const char *ls_db_error(const struct ls_trace_db *db);

/* Leave one file: checkpoint and end WAL mode. A reader may prevent that; the trace is whole
 * all the same. */
void ls_db_settle(struct ls_trace_db *db);

void ls_db_close(struct ls_trace_db *db);

#endif
