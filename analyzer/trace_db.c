/*
 * trace_db.c - see trace_db.h. One thread; not async-signal-safe.
 *
 * WAL while recording: of the journals only WAL survives a kill of this process at any
 * instruction without a sync per commit. The machine's own crash is not guarded against.
 */
#include "trace_db.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layoutspy/table.h"
#include "shape_text.h"

/* A view holds '??', which is no trigraph. */
#pragma GCC diagnostic ignored "-Wtrigraphs"
const char ls_schema_sql[] =
#include "schema.inc"
    ;

static const char *const put_sql[LS_PUT_COUNT] = {
    [LS_PUT_API] = "INSERT INTO api VALUES(?,?,?,?,?)",
    [LS_PUT_ROLE] = "INSERT INTO role VALUES(?,?,?,?)",
    [LS_PUT_META] = "INSERT OR REPLACE INTO meta VALUES(?,?)",
    [LS_PUT_COVERAGE] = "INSERT OR IGNORE INTO coverage VALUES(?,?,?)",
    [LS_PUT_LOST] = "INSERT INTO lost VALUES(?,?,?,?)",
    [LS_PUT_THREAD] = "INSERT OR REPLACE INTO thread VALUES(?,?,?)",
    [LS_PUT_KERNEL] = "INSERT OR REPLACE INTO kernel VALUES(?,?,?,?)",
    [LS_PUT_KERNEL_LAYOUT] = "INSERT OR REPLACE INTO kernel_layout VALUES(?,?,?,?)",
    [LS_PUT_SHAPE] = "INSERT INTO shape VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
    [LS_PUT_PRODUCT] = "INSERT INTO product VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
    [LS_PUT_OPERAND] = "INSERT INTO operand VALUES(?,?,?,?,?,?,?,?)",
    [LS_PUT_OPERAND_SHAPE] = "UPDATE operand SET shape=? WHERE call=? AND position=?",
    [LS_PUT_RAW_OPERAND] = "INSERT INTO raw_operand VALUES(?,?,?,?)",
    [LS_PUT_RAW_OPERAND_DONE] = "DELETE FROM raw_operand WHERE call=? AND position=?",
    [LS_PUT_MODULE] = "INSERT INTO module VALUES(?,?,?,?,?,?,?)",
    [LS_PUT_RAW_STACK] = "INSERT OR REPLACE INTO raw_stack VALUES(?,?,?,?,?,?)",
    [LS_PUT_RAW_STACK_DONE] = "DELETE FROM raw_stack WHERE id=?",
    [LS_PUT_RAW_CODE] = "INSERT OR REPLACE INTO raw_code VALUES(?,?,?)",
    [LS_PUT_RAW_PYTHON] = "INSERT OR REPLACE INTO raw_python VALUES(?,?,?)",
    [LS_PUT_FRAME] = "INSERT INTO frame(id,module,offset,kind) VALUES(?,?,?,0)",
    [LS_PUT_FRAME_RESOLVED] = "INSERT OR REPLACE INTO frame VALUES(?,?,?,?,?,?,?,?,0)",
    [LS_PUT_FRAME_PYTHON] = "INSERT INTO frame(id,function,file,line,kind) VALUES(?,?,?,?,?)",
    [LS_PUT_STACK] = "INSERT INTO stack VALUES(?,?,?)",
    [LS_PUT_STACK_SITE] = "INSERT OR REPLACE INTO stack_site(id,stack,truncated) VALUES(?,?,?)",
    [LS_PUT_SITE] = "UPDATE stack_site SET site=?,operator=?,inner_operator=? WHERE id=?",
    [LS_PUT_ALLOCATION] = "INSERT INTO allocation VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
    [LS_PUT_ALLOCATION_END] = "UPDATE allocation SET end_ns=?,free_api=?,free_stack=?,end_call=?,"
                              "end_reason=? WHERE id=?",
    [LS_PUT_ALLOCATION_HOLDER] = "UPDATE allocation SET holder=? WHERE id=?",
    [LS_PUT_VMM_RANGE] = "INSERT INTO vmm_range VALUES(?,?,NULL,?,?,?,?,?,NULL)",
    [LS_PUT_VMM_RANGE_END] = "UPDATE vmm_range SET end_ns=?,end_call=? WHERE id=?",
    [LS_PUT_BLOCK] = "INSERT INTO block VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
    [LS_PUT_BLOCK_END] = "UPDATE block SET end_ns=?,free_ns=?,free_stack=?,end_call=?,"
                         "end_reason=?,waited=? WHERE id=?",
    [LS_PUT_BLOCK_WAIT] = "INSERT INTO block_wait VALUES(?,?,?,?,?)",
    [LS_PUT_BLOCK_WAIT_DONE] = "UPDATE block_wait SET done_ns=? WHERE id=?",
    [LS_PUT_MEMORY] = "INSERT INTO memory VALUES(?,?,?,?,?,?,?)",
    [LS_PUT_DEVICE_USE] = "INSERT INTO device_use(ts_ns,device,used,total,own_process,"
                          "other_processes,source) VALUES(?,?,?,?,?,?,?)",
    [LS_PUT_DEVICE_USE_SPLIT] = "UPDATE device_use SET tracked=?,context=?,uncertain=? WHERE id=?",
    [LS_PUT_OOM] = "INSERT OR REPLACE INTO oom VALUES"
                   "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,NULL)",
    [LS_PUT_OOM_CALL] = "INSERT OR REPLACE INTO oom_call VALUES(?,?,?,?)",
    [LS_PUT_OOM_CALL_GONE] = "DELETE FROM oom_call WHERE id=?",
    [LS_PUT_OOM_HOLE] = "UPDATE oom SET largest_hole=? WHERE id=?",
    [LS_PUT_IMAGE_COPY] = "INSERT OR REPLACE INTO image_copy VALUES(?,?,?)",
    [LS_PUT_MOMENT] = "INSERT INTO moment VALUES(?,?,?,?,?,?,?,?,?)",
    /* Two at one address are one that ended unseen, and its successor. */
    [LS_PUT_SEGMENT_STATE] = "INSERT OR IGNORE INTO segment_state VALUES(?,?,?,?,?,?,?,?,?)",
    [LS_PUT_LIBRARY_HANDLE] = "INSERT INTO library_handle VALUES(?,?,?,?,?,?,?,?,?,?,?)",
    [LS_PUT_LIBRARY_GPU] = "INSERT INTO library_gpu VALUES(?,?) "
                           "ON CONFLICT(call) DO UPDATE SET gpu_ns=gpu_ns+excluded.gpu_ns",
    /* An end, mostly of one that has begun. */
    [LS_PUT_CENSUS] =
        "INSERT INTO census(id,ts_ns,end_ns,reason,state,objects,tensors,nodes,detail)"
        " VALUES(?,?,?,?,?,?,?,?,?) ON CONFLICT(id) DO UPDATE SET end_ns="
        "excluded.end_ns,state=excluded.state,objects=excluded.objects,"
        "tensors=excluded.tensors,nodes=excluded.nodes,detail=excluded.detail",
    [LS_PUT_CENSUS_OOM] = "UPDATE census SET oom=? WHERE id=?",
    [LS_PUT_CENSUS_STORAGE] = "INSERT OR IGNORE INTO census_storage VALUES(?,?,?,?,?,?)",
    [LS_PUT_CENSUS_TENSOR] = "INSERT INTO census_tensor VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
    [LS_PUT_CENSUS_PATH] = "INSERT INTO census_path VALUES(?,?,?)",
    [LS_PUT_BLOCK_AUDIT] =
        "INSERT OR REPLACE INTO block_audit VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
    [LS_PUT_COPY] = "INSERT INTO copy VALUES(?,?,?,?,?,?,?,?,?,?,NULL,?,?,?,?,?,?)",
    [LS_PUT_COPY_GONE] = "DELETE FROM copy WHERE id=?",
    [LS_PUT_COPY_ROWS] = "INSERT INTO copy_rows VALUES(?,?,?,?)",
    [LS_PUT_COPY_ROWS_GONE] = "DELETE FROM copy_rows WHERE id=?",
    /* What CUPTI says of a copy: 2 its time, 3 and 4 the kinds of source and destination, 5 the
     * direction. Ours is the finer word where it is managed memory or an array; the direction was
     * right but where a side turns out to be the host's, or not. */
    [LS_PUT_COPY_GPU] =
        "UPDATE copy SET gpu_ns=CASE WHEN ?2 IS NULL THEN gpu_ns ELSE IFNULL(gpu_ns,0)+?2 END,"
        "src_kind=CASE WHEN ?3=0 OR src_kind IN (4,5) THEN src_kind ELSE ?3 END,"
        "dst_kind=CASE WHEN ?4=0 OR dst_kind IN (4,5) THEN dst_kind ELSE ?4 END,"
        "direction=CASE WHEN ?5>0 AND (direction=0"
        " OR ?3>0 AND src_kind NOT IN (0,4,5) AND (src_kind IN (1,2)) <> (?3 IN (1,2))"
        " OR ?4>0 AND dst_kind NOT IN (0,4,5) AND (dst_kind IN (1,2)) <> (?4 IN (1,2)))"
        " THEN ?5 ELSE direction END WHERE id=?1",
    [LS_PUT_GPU_WORK] = "INSERT INTO gpu_work VALUES(NULL,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
    [LS_PUT_GPU_COUNT] = "INSERT OR REPLACE INTO gpu_count VALUES(?,?,?,?)",
    [LS_PUT_GPU_CLOCK] = "INSERT INTO gpu_clock VALUES(?,?,?)",
    [LS_PUT_GPU_STATE] = "INSERT INTO gpu_state VALUES(NULL,?,?,?)",
    [LS_PUT_KERNEL_TOTAL] = "INSERT OR REPLACE INTO kernel_total VALUES(?,?,?,?,?,?,?,?,?)",
    [LS_PUT_RAW_GPU] = "INSERT INTO raw_gpu VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
    [LS_PUT_RAW_GPU_DONE] = "DELETE FROM raw_gpu WHERE id=?",
    [LS_PUT_MARK] = "INSERT INTO mark(ts_ns,thread,kind,value,domain,text) VALUES(?,?,?,?,?,?)",
    [LS_PUT_PHASE] = "INSERT INTO phase VALUES(?,?,?,?,?,?,?,?)",
    [LS_PUT_STEP] = "INSERT INTO step VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
    [LS_PUT_INGEST] = "INSERT OR REPLACE INTO ingest VALUES(?,?,?)",
};

static void fail(struct ls_trace_db *db, int rc) {
    if (db->rc != SQLITE_OK)
        return;
    db->rc = rc;
    snprintf(db->error, sizeof db->error, "%s", sqlite3_errmsg(db->db));
}

const char *ls_db_error(const struct ls_trace_db *db) {
    return db->rc == SQLITE_OK ? NULL : db->error;
}

void ls_db_exec(struct ls_trace_db *db, const char *sql) {
    if (db->rc != SQLITE_OK)
        return;
    int rc = sqlite3_exec(db->db, sql, NULL, NULL, NULL);
    if (rc != SQLITE_OK)
        fail(db, rc);
}

static void begin(struct ls_trace_db *db) {
    if (db->in_transaction)
        return;
    ls_db_exec(db, "BEGIN IMMEDIATE");
    db->in_transaction = db->rc == SQLITE_OK;
}

bool ls_db_commit(struct ls_trace_db *db) {
    if (db->in_transaction) {
        ls_db_exec(db, "COMMIT");
        if (db->rc != SQLITE_OK)
            sqlite3_exec(db->db, "ROLLBACK", NULL, NULL, NULL);
        db->in_transaction = false;
    }
    return db->rc == SQLITE_OK;
}

static sqlite3_stmt *prepared(struct ls_trace_db *db, sqlite3_stmt **stmt, const char *sql) {
    begin(db);
    if (db->rc != SQLITE_OK)
        return NULL;
    if (!*stmt) {
        int rc = sqlite3_prepare_v3(db->db, sql, -1, SQLITE_PREPARE_PERSISTENT, stmt, NULL);
        if (rc != SQLITE_OK)
            fail(db, rc);
    }
    return *stmt;
}

static void step(struct ls_trace_db *db, sqlite3_stmt *stmt) {
    int rc = sqlite3_step(stmt);
    if (rc != SQLITE_DONE && rc != SQLITE_ROW)
        fail(db, rc);
    sqlite3_reset(stmt);
}

void ls_db_put(struct ls_trace_db *db, enum ls_put put, const char *types, ...) {
    sqlite3_stmt *stmt = prepared(db, &db->put[put], put_sql[put]);
    if (!stmt)
        return;
    va_list args;
    va_start(args, types);
    for (int i = 1; *types; types++, i++) {
        if (*types == 's') {
            sqlite3_bind_text(stmt, i, va_arg(args, const char *), -1, SQLITE_STATIC);
        } else if (*types == 'b') {
            const void *data = va_arg(args, const void *);
            sqlite3_bind_blob(stmt, i, data, va_arg(args, int), SQLITE_STATIC);
        } else {
            int64_t value = va_arg(args, int64_t);
            if (*types == 'n' || (*types == 'z' && value == 0))
                sqlite3_bind_null(stmt, i);
            else
                sqlite3_bind_int64(stmt, i, value);
        }
    }
    va_end(args);
    step(db, stmt);
}

/* INSERT INTO call(...) VALUES(...) for a call of `fields` fields: fewer columns, less work. */
static sqlite3_stmt *prepare_call(struct ls_trace_db *db, int fields) {
    static const char names[] = ",f0,f1,f2,f3,f4,f5,f6,f7,f8,f9,f10,f11";
    static const char values[] = ",?,?,?,?,?,?,?,?,?,?,?,?";
    _Static_assert(LS_FIELD_MAX == 12, "the columns of `call`");
    char sql[288];
    snprintf(sql, sizeof sql,
             "INSERT INTO call(id,start_ns,duration_ns,thread,api,status,flags,device,stack,"
             "correlation,context%.*s) VALUES(?,?,?,?,?,?,?,?,?,?,?%.*s)",
             3 * fields + (fields > 10 ? fields - 10 : 0), names, 2 * fields, values);
    return prepared(db, &db->put_call[fields], sql);
}

void ls_db_put_call(struct ls_trace_db *db, int64_t id, int64_t start_ns, int64_t duration_ns,
                    uint32_t thread, const struct ls_rec_call *call) {
    int fields = ls_api_info[call->head.api].field_count;
    begin(db);
    sqlite3_stmt *stmt = db->put_call[fields];
    if (!stmt)
        stmt = prepare_call(db, fields);
    if (!stmt || db->rc != SQLITE_OK)
        return;
    sqlite3_bind_int64(stmt, 1, id);
    sqlite3_bind_int64(stmt, 2, start_ns);
    sqlite3_bind_int64(stmt, 3, duration_ns);
    sqlite3_bind_int64(stmt, 4, thread);
    sqlite3_bind_int(stmt, 5, call->head.api);
    sqlite3_bind_int(stmt, 6, call->status);
    sqlite3_bind_int(stmt, 7, call->head.flags & ~(LS_CALL_CORRELATED | LS_CALL_OPERANDS));
    sqlite3_bind_int(stmt, 8, call->head.device);
    if (call->stack)
        sqlite3_bind_int64(stmt, 9, call->stack);
    else
        sqlite3_bind_null(stmt, 9);
    if (call->head.flags & LS_CALL_CORRELATED) {
        sqlite3_bind_int64(stmt, 10, (uint32_t)call->field[fields]);
        sqlite3_bind_int64(stmt, 11, (int64_t)(call->field[fields] >> 32));
    } else {
        sqlite3_bind_null(stmt, 10);
        sqlite3_bind_null(stmt, 11);
    }
    for (int i = 0; i < fields; i++)
        sqlite3_bind_int64(stmt, 12 + i, (int64_t)call->field[i]);
    step(db, stmt);
}

static void bind_id(sqlite3_stmt *stmt, int at, int64_t id) {
    if (id)
        sqlite3_bind_int64(stmt, at, id);
    else
        sqlite3_bind_null(stmt, at);
}

/* Several rows in one statement are no faster: each is a search in the tree. */
void ls_db_put_operands(struct ls_trace_db *db, int64_t call, const struct ls_operand_row *row,
                        unsigned count) {
    sqlite3_stmt *stmt = prepared(db, &db->put[LS_PUT_OPERAND], put_sql[LS_PUT_OPERAND]);
    if (!stmt)
        return;
    sqlite3_bind_int64(stmt, 1, call);
    for (unsigned i = 0; i < count && db->rc == SQLITE_OK; i++) {
        sqlite3_bind_int(stmt, 2, (int)i);
        sqlite3_bind_int(stmt, 3, row[i].role);
        bind_id(stmt, 4, row[i].shape);
        sqlite3_bind_int64(stmt, 5, (int64_t)row[i].address);
        sqlite3_bind_int(stmt, 6, row[i].flags);
        bind_id(stmt, 7, row[i].block);
        bind_id(stmt, 8, row[i].allocation);
        step(db, stmt);
    }
}

void ls_db_each(struct ls_trace_db *db, const char *sql,
                void (*row)(sqlite3_stmt *stmt, void *context), void *context) {
    sqlite3_stmt *stmt = NULL;
    if (db->rc != SQLITE_OK)
        return;
    int rc = sqlite3_prepare_v2(db->db, sql, -1, &stmt, NULL);
    if (rc == SQLITE_OK) {
        while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
            row(stmt, context);
    }
    if (rc != SQLITE_DONE && rc != SQLITE_OK)
        fail(db, rc);
    sqlite3_finalize(stmt);
}

void ls_db_end_reading(struct ls_trace_db *db) {
    sqlite3_stmt *next, *stmt = sqlite3_next_stmt(db->db, NULL);
    for (; stmt; stmt = next) {
        next = sqlite3_next_stmt(db->db, stmt);
        if (sqlite3_stmt_busy(stmt))
            sqlite3_finalize(stmt);
    }
}

static void first_column(sqlite3_stmt *stmt, void *context) {
    *(int64_t *)context = sqlite3_column_int64(stmt, 0);
}

int64_t ls_db_number(struct ls_trace_db *db, const char *sql) {
    int64_t number = 0;
    ls_db_each(db, sql, first_column, &number);
    return number;
}

int ls_schema_number(const char *pragma) {
    char key[64];
    snprintf(key, sizeof key, "PRAGMA %s = ", pragma);
    const char *at = strstr(ls_schema_sql, key);
    return at ? (int)strtol(at + strlen(key), NULL, 0) : 0;
}

static void put_api(struct ls_trace_db *db, int api) {
    const struct ls_api_info *info = &ls_api_info[api];
    char fields[LS_FIELD_MAX * 80 + 3], *p = fields;
    *p++ = '[';
    for (int i = 0; i < info->field_count; i++)
        p += snprintf(p, 80, "%s{\"name\":\"%s\",\"type\":\"%s\"}", i ? "," : "",
                      info->field[i].name, ls_field_type_name[info->field[i].type]);
    memcpy(p, "]", 2);
    ls_db_put(db, LS_PUT_API, "issss", (int64_t)api, info->name, ls_lib_name[info->lib],
              ls_class_name[info->cls], fields);
}

static void create(struct ls_trace_db *db, const char *recording) {
    char schema[16];
    begin(db);
    ls_db_exec(db, ls_schema_sql);
    for (int api = 1; api < LS_API_COUNT; api++)
        put_api(db, api);
    for (int64_t role = 0; role < LS_ROLE_COUNT; role++)
        ls_db_put(db, LS_PUT_ROLE, "issi", role, ls_role_info[role].name,
                  ls_role_info[role].direction, (int64_t)ls_role_info[role].images);
    snprintf(schema, sizeof schema, "%d", ls_schema_number("user_version"));
    ls_db_put(db, LS_PUT_META, "ss", "schema", schema);
    ls_db_put(db, LS_PUT_META, "ss", "layoutspy_version", LS_VERSION);
    ls_db_put(db, LS_PUT_META, "ss", "recording", recording);
    ls_db_commit(db);
}

static void copy_text(sqlite3_stmt *stmt, void *context) {
    const unsigned char *text = sqlite3_column_text(stmt, 0);
    snprintf(context, 256, "%s", text ? (const char *)text : "");
}

/* A trace that is there already must be this recording's own. */
static bool check_existing(struct ls_trace_db *db, const char *recording, char *why, size_t size) {
    char found[256] = "";
    if (ls_db_number(db, "PRAGMA application_id") != ls_schema_number("application_id")) {
        snprintf(why, size, "exists and is not a layoutspy trace; it was not touched");
        return false;
    }
    if (ls_db_number(db, "PRAGMA user_version") != ls_schema_number("user_version")) {
        snprintf(why, size, "is a trace of another version of layoutspy; it was not touched");
        return false;
    }
    ls_db_each(db, "SELECT value FROM meta WHERE key='recording'", copy_text, found);
    if (strcmp(found, recording) != 0) {
        snprintf(why, size, "holds another recording; it was not touched");
        return false;
    }
    return true;
}

void ls_db_configure(void) {
    sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

bool ls_db_open(struct ls_trace_db *db, const char *path, const char *recording, char *why,
                size_t size) {
    memset(db, 0, sizeof *db);
    ls_db_configure();
    int rc = sqlite3_open_v2(path, &db->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    if (rc != SQLITE_OK) {
        fail(db, rc);
        snprintf(why, size, "cannot be written: %s", db->error);
        return false;
    }
    sqlite3_extended_result_codes(db->db, 1);
    sqlite3_busy_timeout(db->db, 5000);
    bool fresh = ls_db_number(db, "SELECT COUNT(*) FROM sqlite_master") == 0;
    if (db->rc == SQLITE_OK && !fresh && !check_existing(db, recording, why, size))
        return false;
    ls_db_exec(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF; PRAGMA temp_store=MEMORY;"
                   "PRAGMA cache_size=-32768; PRAGMA wal_autocheckpoint=8000");
    if (db->rc == SQLITE_OK && fresh)
        create(db, recording);
    if (db->rc == SQLITE_OK)
        return true;
    if (db->rc == SQLITE_NOTADB)
        snprintf(why, size, "exists and is not a layoutspy trace; it was not touched");
    else
        snprintf(why, size, "cannot be written: %s", db->error);
    return false;
}

void ls_db_settle(struct ls_trace_db *db) {
    sqlite3_busy_timeout(db->db, 300);
    sqlite3_exec(db->db, "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode=DELETE", NULL, NULL,
                 NULL);
}

void ls_db_close(struct ls_trace_db *db) {
    for (int i = 0; i < LS_PUT_COUNT; i++)
        sqlite3_finalize(db->put[i]);
    for (size_t i = 0; i < sizeof db->put_call / sizeof db->put_call[0]; i++)
        sqlite3_finalize(db->put_call[i]);
    sqlite3_close(db->db);
    memset(db, 0, sizeof *db);
}
