/*
 * rows.c - the rows of a query as a table, CSV or JSON. See render.h.
 *
 * Main thread only; not for signal handlers.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../json_text.h"
#include "../output.h"
#include "render.h"

/* A table's columns are as wide as what its first rows hold; later rows may stick out. */
#define ROWS_MEASURED 1000

void ls_render_json_string(const char *text, FILE *out) {
    json_t *json = ls_json_text(text);
    json_dumpf(json, out, JSON_ENCODE_ANY);
    json_decref(json);
}

/* A column's value as text; blobs as x'..'. Lives in `buffer` or in the statement. */
static const char *value_text(sqlite3_stmt *stmt, int column, char **buffer) {
    free(*buffer);
    *buffer = NULL;
    switch (sqlite3_column_type(stmt, column)) {
    case SQLITE_NULL:
        return NULL;
    case SQLITE_BLOB: {
        const unsigned char *blob = sqlite3_column_blob(stmt, column);
        size_t size = (size_t)sqlite3_column_bytes(stmt, column);
        char *text = *buffer = malloc(size * 2 + 4);
        if (!text)
            return NULL;
        text += sprintf(text, "x'");
        for (size_t i = 0; i < size; i++)
            text += sprintf(text, "%02x", blob[i]);
        strcpy(text, "'");
        return *buffer;
    }
    default:
        return (const char *)sqlite3_column_text(stmt, column);
    }
}

void ls_render_json_value(sqlite3_stmt *stmt, int column, FILE *out) {
    char *buffer = NULL;
    switch (sqlite3_column_type(stmt, column)) {
    case SQLITE_NULL:
        fputs("null", out);
        break;
    case SQLITE_INTEGER:
        fprintf(out, "%" PRId64, (int64_t)sqlite3_column_int64(stmt, column));
        break;
    case SQLITE_FLOAT: {
        double value = sqlite3_column_double(stmt, column);
        char text[64];
        /* JSON knows no infinity. */
        snprintf(text, sizeof text, "%.15g", value);
        bool plain = value - value == 0;
        fputs(plain ? text : "null", out);
        if (plain && !strpbrk(text, ".e"))
            fputs(".0", out);
        break;
    }
    default: {
        const char *text = value_text(stmt, column, &buffer);
        ls_render_json_string(text ? text : "", out);
    }
    }
    free(buffer);
}

int ls_render_rows_json(sqlite3_stmt *stmt, FILE *out) {
    int columns = sqlite3_column_count(stmt), rc;
    const char *before = "[\n{";
    bool any = false;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW && ls_output_good()) {
        fputs(before, out);
        for (int c = 0; c < columns; c++) {
            if (c)
                fputs(", ", out);
            ls_render_json_string(sqlite3_column_name(stmt, c), out);
            fputs(": ", out);
            ls_render_json_value(stmt, c, out);
        }
        fputs("}", out);
        before = ",\n{";
        any = true;
    }
    if (rc == SQLITE_DONE)
        fputs(any ? "\n]\n" : "[]\n", out);
    return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

static void csv_field(const char *text, FILE *out) {
    if (!text)
        return;
    /* An empty text is quoted, to be told from a NULL. */
    if (*text && !strpbrk(text, ",\"\r\n")) {
        fputs(text, out);
        return;
    }
    putc('"', out);
    for (; *text; text++) {
        if (*text == '"')
            putc('"', out);
        putc(*text, out);
    }
    putc('"', out);
}

int ls_render_rows_csv(sqlite3_stmt *stmt, FILE *out) {
    int columns = sqlite3_column_count(stmt), rc;
    char *buffer = NULL;
    for (int c = 0; c < columns; c++) {
        csv_field(sqlite3_column_name(stmt, c), out);
        putc(c + 1 < columns ? ',' : '\n', out);
    }
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW && ls_output_good())
        for (int c = 0; c < columns; c++) {
            csv_field(value_text(stmt, c, &buffer), out);
            putc(c + 1 < columns ? ',' : '\n', out);
        }
    free(buffer);
    return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

struct table {
    FILE *out;
    int columns;
    int *width;
    bool *number;
    char **cell; /* ROWS_MEASURED rows of `columns` cells, owned */
    int rows;
};

/* Columns on a screen: code points, near enough. */
static int text_width(const char *text) {
    int width = 0;
    for (; *text; text++)
        width += (*text & 0xc0) != 0x80;
    return width;
}

/* One line of a table must stay one: control characters become spaces. */
static void put_cell(const struct table *t, int c, const char *text) {
    int pad = t->width[c] - text_width(text);
    bool last = c + 1 == t->columns;
    if (t->number[c])
        fprintf(t->out, "%*s", pad > 0 ? pad : 0, "");
    for (; *text; text++)
        putc((unsigned char)*text < ' ' ? ' ' : *text, t->out);
    if (!t->number[c] && !last)
        fprintf(t->out, "%*s", pad > 0 ? pad : 0, "");
    fputs(last ? "\n" : "  ", t->out);
}

static void put_measured(struct table *t, sqlite3_stmt *stmt) {
    for (int c = 0; c < t->columns; c++)
        put_cell(t, c, sqlite3_column_name(stmt, c));
    for (int c = 0; c < t->columns; c++) {
        for (int i = 0; i < t->width[c]; i++)
            putc('-', t->out);
        fputs(c + 1 < t->columns ? "  " : "\n", t->out);
    }
    for (int i = 0; i < t->rows * t->columns; i++) {
        put_cell(t, i % t->columns, t->cell[i] ? t->cell[i] : "");
        free(t->cell[i]);
    }
    t->rows = -1; /* from here on rows go straight out */
}

static void add_row(struct table *t, sqlite3_stmt *stmt, char **buffer) {
    for (int c = 0; c < t->columns; c++) {
        const char *text = value_text(stmt, c, buffer);
        if (t->rows < 0) {
            put_cell(t, c, text ? text : "");
            continue;
        }
        int type = sqlite3_column_type(stmt, c);
        int width = text ? text_width(text) : 0;
        if (width > t->width[c])
            t->width[c] = width;
        if (type != SQLITE_INTEGER && type != SQLITE_FLOAT && type != SQLITE_NULL)
            t->number[c] = false;
        t->cell[t->rows * t->columns + c] = text ? strdup(text) : NULL;
    }
    if (t->rows >= 0 && ++t->rows == ROWS_MEASURED)
        put_measured(t, stmt);
}

int ls_render_rows_table(sqlite3_stmt *stmt, FILE *out) {
    struct table t = {out, sqlite3_column_count(stmt), NULL, NULL, NULL, 0};
    size_t columns = (size_t)t.columns;
    char *buffer = NULL;
    int rc = SQLITE_NOMEM;
    t.width = calloc(columns, sizeof *t.width);
    t.number = calloc(columns, sizeof *t.number);
    t.cell = calloc(columns * ROWS_MEASURED, sizeof *t.cell);
    if (t.width && t.number && t.cell) {
        for (int c = 0; c < t.columns; c++) {
            t.width[c] = text_width(sqlite3_column_name(stmt, c));
            t.number[c] = true;
        }
        while ((rc = sqlite3_step(stmt)) == SQLITE_ROW && ls_output_good())
            add_row(&t, stmt, &buffer);
        if (t.rows >= 0)
            put_measured(&t, stmt);
    }
    free(buffer);
    free(t.cell);
    free(t.number);
    free(t.width);
    return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}
