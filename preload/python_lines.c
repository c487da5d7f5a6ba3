/*
 * python_lines.c - the three forms of CPython's line tables. See python_lines.h.
 *
 * Each describes consecutive ranges of instructions; the first range that ends behind the address
 * holds it. A damaged table gives a wrong line, never a read outside of it.
 */
#include "python_lines.h"

#include <stdbool.h>

static uint32_t as_line(int64_t line) {
    return line > 0 && line <= INT32_MAX ? (uint32_t)line : 0;
}

/* Pairs of unsigned bytes to go on, signed lines to go on after them. */
static uint32_t by_lnotab(const uint8_t *table, size_t size, int64_t line, int64_t address) {
    int64_t at = 0;
    for (size_t i = 0; i + 1 < size; i += 2) {
        at += table[i];
        if (at > address)
            break;
        line += (int8_t)table[i + 1];
    }
    return as_line(line);
}

/* Pairs of the range's length in bytes, and how far its line is from the last one's; -128: it has
 * none. */
static uint32_t by_ranges(const uint8_t *table, size_t size, int64_t line, int64_t address) {
    int64_t end = 0;
    for (size_t i = 0; i + 1 < size; i += 2) {
        int8_t step = (int8_t)table[i + 1];
        end += table[i];
        if (step != INT8_MIN)
            line += step;
        if (end > address)
            return step == INT8_MIN ? 0 : as_line(line);
    }
    return 0;
}

/* Six bits a byte, lowest first, another one follows where bit 6 is set; bit 0 is the sign. */
static int64_t signed_varint(const uint8_t *table, size_t size, size_t at) {
    uint64_t value = 0;
    for (unsigned shift = 0; at < size && shift < 36; shift += 6) {
        uint8_t byte = table[at++];
        value |= (uint64_t)(byte & 63) << shift;
        if (!(byte & 64))
            break;
    }
    return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

/* Entries begin with a byte that has bit 7 set: 4 bits of kind, 3 bits of length (in instructions
 * of 2 bytes, less one). What follows the line's step is columns. */
static uint32_t by_locations(const uint8_t *table, size_t size, int64_t line, int64_t address) {
    enum { ONE_LINE_0 = 10, ONE_LINE_2 = 12, NO_COLUMNS = 13, LONG = 14, NO_LINE = 15 };
    int64_t end = 0;
    for (size_t i = 0; i < size;) {
        unsigned kind = table[i] >> 3 & 15;
        end += ((table[i] & 7) + 1) * 2;
        if (kind >= ONE_LINE_0 && kind <= ONE_LINE_2)
            line += kind - ONE_LINE_0;
        else if (kind == NO_COLUMNS || kind == LONG)
            line += signed_varint(table, size, i + 1);
        if (end > address)
            return kind == NO_LINE ? 0 : as_line(line);
        do
            i++;
        while (i < size && !(table[i] & 0x80));
    }
    return 0;
}

uint32_t ls_python_line(enum ls_python_lines format, const uint8_t *table, size_t size,
                        int32_t first_line, int64_t address) {
    if (address < 0)
        return as_line(first_line);
    switch (format) {
    case LS_PYTHON_LINES_LNOTAB:
        return by_lnotab(table, size, first_line, address);
    case LS_PYTHON_LINES_RANGES:
        return by_ranges(table, size, first_line, address);
    case LS_PYTHON_LINES_LOCATIONS:
        return by_locations(table, size, first_line, address);
    }
    return 0;
}
