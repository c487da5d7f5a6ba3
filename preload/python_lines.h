/*
 * python_lines.h - the line of an instruction, from the tables that CPython's compiler writes.
 *
 * Pure functions of their arguments: any thread, safe in a signal handler.
 */
#ifndef LS_PYTHON_LINES_H
#define LS_PYTHON_LINES_H

#include <stddef.h>
#include <stdint.h>

enum ls_python_lines {
    LS_PYTHON_LINES_LNOTAB,    /* 3.9: co_lnotab */
    LS_PYTHON_LINES_RANGES,    /* 3.10: co_linetable, PEP 626 */
    LS_PYTHON_LINES_LOCATIONS, /* from 3.11 on: co_linetable with columns, PEP 657 */
};

/*
 * The line of the instruction at `address` (bytes from the first one; negative: the function has
 * not begun). 0: the instruction has no line, or lies outside of the table.
 */
uint32_t ls_python_line(enum ls_python_lines format, const uint8_t *table, size_t size,
                        int32_t first_line, int64_t address);

#endif
