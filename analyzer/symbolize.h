/*
 * symbolize.h - function, file and line behind an address of an ELF file.
 *
 * Reads whatever the file says, and files may be corrupt: it runs in the worker process of
 * symbolizer.h, which may die of it, never in the collector itself. One thread.
 */
#ifndef LAYOUTSPY_SYMBOLIZE_H
#define LAYOUTSPY_SYMBOLIZE_H

#include <stdint.h>

#define LS_INLINE_MAX 32 /* functions inlined into one another at one address */

/* One function at an address, the innermost first. Strings are to be freed; NULL: not known. */
struct ls_symbol {
    char *function;           /* demangled */
    char *file;               /* absolute where the debug information allows */
    uint32_t line;            /* 0: not known */
    uint64_t function_offset; /* of the return address, from the function's start */
};

struct ls_symbols;

/* Open a file. With another build-id than the one given, or unreadable, it has no symbols. */
struct ls_symbols *ls_symbols_open(const char *path, const uint8_t *build_id,
                                   uint32_t build_id_size);
void ls_symbols_close(struct ls_symbols *symbols);

/*
 * What is at the return address `offset` (an ELF address): 1 to LS_INLINE_MAX symbols, or 0 where
 * nothing is known. Free them with ls_symbol_clear().
 */
int ls_symbols_lookup(struct ls_symbols *symbols, uint64_t offset,
                      struct ls_symbol symbol[LS_INLINE_MAX]);
void ls_symbol_clear(struct ls_symbol *symbol);

#endif
