/*
 * symbolize.c - symbols and lines out of ELF files. See symbolize.h. One thread, in the worker.
 *
 * libdw's own address lookups scan the whole symbol table each time and need .debug_aranges;
 * here both are indexed once per file, so that a library of a gigabyte answers in microseconds.
 * A file without debug information gets that of its build-id under /usr/lib/debug, where installed.
 */
#include "symbolize.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "begun.h"
#include "demangle.h"

/* A function without a size (assembly) is believed to reach this far, at most. */
#define SIZELESS_REACH 4096

struct function {
    uint64_t start, end;
    Elf *elf;
    uint32_t strings; /* section of the names */
    uint32_t name;
};

struct unit {
    uint64_t start, end;
    Dwarf_Off die;
};

struct elf_file {
    int fd;
    Elf *elf;
};

struct ls_symbols {
    struct elf_file file, debug;
    struct function *function;
    size_t functions;
    Dwarf *dwarf;
    struct unit *unit;
    size_t units;
};

static void close_file(struct elf_file *file) {
    elf_end(file->elf);
    if (file->fd >= 0)
        close(file->fd);
    file->elf = NULL;
    file->fd = -1;
}

static bool open_file(struct elf_file *file, const char *path, const uint8_t *build_id,
                      uint32_t build_id_size) {
    const void *found = NULL;
    file->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    file->elf = file->fd >= 0 ? elf_begin(file->fd, ELF_C_READ_MMAP, NULL) : NULL;
    if (file->elf && elf_kind(file->elf) == ELF_K_ELF) {
        ssize_t size = dwelf_elf_gnu_build_id(file->elf, &found);
        if (build_id_size == 0 ||
            (size == (ssize_t)build_id_size && memcmp(found, build_id, build_id_size) == 0))
            return true;
    }
    close_file(file);
    return false;
}

static bool add_function(struct ls_symbols *symbols, size_t *room, const GElf_Sym *sym, Elf *elf,
                         uint32_t strings) {
    int type = GELF_ST_TYPE(sym->st_info);
    if ((type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) ||
        sym->st_shndx == SHN_UNDEF || sym->st_value == 0 || sym->st_name == 0)
        return true;
    if (type == STT_NOTYPE && sym->st_size == 0 && GELF_ST_BIND(sym->st_info) == STB_LOCAL)
        return true; /* labels of the linker and of mapping tools */
    if (symbols->functions == *room) {
        *room = *room ? 2 * *room : 1024;
        struct function *more = realloc(symbols->function, *room * sizeof *more);
        if (!more)
            return false;
        symbols->function = more;
    }
    uint64_t end = sym->st_value + sym->st_size;
    symbols->function[symbols->functions++] = (struct function){
        sym->st_value, end < sym->st_value ? UINT64_MAX : end, elf, strings, sym->st_name};
    return true;
}

static void add_functions(struct ls_symbols *symbols, size_t *room, Elf *elf) {
    Elf_Scn *section = NULL;
    while ((section = elf_nextscn(elf, section))) {
        GElf_Shdr header;
        if (!gelf_getshdr(section, &header) ||
            (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM) ||
            header.sh_entsize == 0)
            continue;
        Elf_Data *data = elf_getdata(section, NULL);
        size_t count = data ? data->d_size / header.sh_entsize : 0;
        for (size_t i = 1; i < count; i++) {
            GElf_Sym sym;
            if (gelf_getsym(data, (int)i, &sym) &&
                !add_function(symbols, room, &sym, elf, header.sh_link))
                return;
        }
    }
}

/* By start; of two at the same start the larger is the better name, a sized one the best. */
static int compare_functions(const void *a, const void *b) {
    const struct function *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static bool add_unit(struct ls_symbols *symbols, size_t *room, Dwarf_Die *die) {
    Dwarf_Addr base, start, end;
    for (ptrdiff_t at = 0; (at = dwarf_ranges(die, at, &base, &start, &end)) > 0;) {
        if (start >= end)
            continue;
        if (symbols->units == *room) {
            *room = *room ? 2 * *room : 256;
            struct unit *more = realloc(symbols->unit, *room * sizeof *more);
            if (!more)
                return false;
            symbols->unit = more;
        }
        symbols->unit[symbols->units++] = (struct unit){start, end, dwarf_dieoffset(die)};
    }
    return true;
}

static int compare_units(const void *a, const void *b) {
    const struct unit *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static void index_units(struct ls_symbols *symbols) {
    size_t room = 0;
    Dwarf_CU *cu = NULL;
    Dwarf_Die die;
    uint8_t kind;
    while (dwarf_get_units(symbols->dwarf, cu, &cu, NULL, &kind, &die, NULL) == 0)
        if ((kind == DW_UT_compile || kind == DW_UT_skeleton) && !add_unit(symbols, &room, &die))
            break;
    if (symbols->units)
        qsort(symbols->unit, symbols->units, sizeof symbols->unit[0], compare_units);
}

static bool has_debug_info(Elf *elf) {
    size_t names;
    Elf_Scn *section = NULL;
    if (elf_getshdrstrndx(elf, &names) != 0)
        return false;
    while ((section = elf_nextscn(elf, section))) {
        GElf_Shdr header;
        const char *name =
            gelf_getshdr(section, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;
        if (name && (strcmp(name, ".debug_info") == 0 || strcmp(name, ".zdebug_info") == 0))
            return header.sh_type != SHT_NOBITS;
    }
    return false;
}

static void open_debug(struct ls_symbols *symbols) {
    const uint8_t *id = NULL;
    ssize_t size = dwelf_elf_gnu_build_id(symbols->file.elf, (const void **)&id);
    char path[160], *p = path;
    if (size < 2 || size > 32)
        return;
    p += sprintf(p, "/usr/lib/debug/.build-id/%02x/", id[0]);
    for (ssize_t i = 1; i < size; i++)
        p += sprintf(p, "%02x", id[i]);
    sprintf(p, ".debug");
    open_file(&symbols->debug, path, id, (uint32_t)size);
}

struct ls_symbols *ls_symbols_open(const char *path, const uint8_t *build_id,
                                   uint32_t build_id_size) {
    struct ls_symbols *symbols = calloc(1, sizeof *symbols);
    if (!symbols)
        return NULL;
    symbols->file.fd = symbols->debug.fd = -1;
    elf_version(EV_CURRENT);
    if (!open_file(&symbols->file, path, build_id, build_id_size))
        return symbols;
    Elf *with_lines = symbols->file.elf;
    if (!has_debug_info(with_lines)) {
        open_debug(symbols);
        with_lines = symbols->debug.elf;
    }
    size_t room = 0;
    add_functions(symbols, &room, symbols->file.elf);
    if (symbols->debug.elf)
        add_functions(symbols, &room, symbols->debug.elf);
    if (symbols->functions)
        qsort(symbols->function, symbols->functions, sizeof symbols->function[0],
              compare_functions);
    symbols->dwarf = with_lines ? dwarf_begin_elf(with_lines, DWARF_C_READ, NULL) : NULL;
    if (symbols->dwarf)
        index_units(symbols);
    return symbols;
}

void ls_symbols_close(struct ls_symbols *symbols) {
    if (!symbols)
        return;
    dwarf_end(symbols->dwarf);
    close_file(&symbols->file);
    close_file(&symbols->debug);
    free(symbols->function);
    free(symbols->unit);
    free(symbols);
}

/* The function that holds `pc`: sized ones that end before it do not. */
static const struct function *function_at(const struct ls_symbols *symbols, uint64_t pc) {
    size_t low = LS_BEGUN(symbols->function, symbols->functions, start, pc);
    /* Aliases and nested labels: look a few back. */
    for (int back = 0; low > 0 && back < 8; back++) {
        const struct function *function = &symbols->function[--low];
        if (pc < function->end ||
            (function->end == function->start && pc - function->start < SIZELESS_REACH))
            return function;
    }
    return NULL;
}

static bool unit_at(const struct ls_symbols *symbols, uint64_t pc, Dwarf_Die *die) {
    size_t low = LS_BEGUN(symbols->unit, symbols->units, start, pc);
    return low > 0 && pc < symbols->unit[low - 1].end &&
           dwarf_offdie(symbols->dwarf, symbols->unit[low - 1].die, die);
}

/* "a/./b/../c" to "a/c". */
static void tidy_path(char *path) {
    char *out = path;
    for (const char *in = path; *in;) {
        const char *end = in + 1 + strcspn(in + 1, "/");
        size_t length = (size_t)(end - in);
        if (length == 3 && memcmp(in, "/..", 3) == 0) {
            while (out > path && *--out != '/')
                ;
        } else if (!(length == 2 && memcmp(in, "/.", 2) == 0) && length > 1) {
            memmove(out, in, length);
            out += length;
        }
        in = end;
    }
    *out = 0;
}

static char *absolute(const char *file, Dwarf_Die *unit) {
    Dwarf_Attribute attribute;
    char *path = NULL;
    const char *folder = NULL;
    if (!file)
        return NULL;
    if (file[0] != '/')
        folder = dwarf_formstring(dwarf_attr(unit, DW_AT_comp_dir, &attribute));
    if (!folder || folder[0] != '/')
        path = strdup(file);
    else if (asprintf(&path, "%s/%s", folder, file) < 0)
        path = NULL;
    if (path && path[0] == '/')
        tidy_path(path);
    return path;
}

/* A function's name as in the source: demangled from the linkage name, which knows namespaces. */
static char *die_name(Dwarf_Die *die) {
    Dwarf_Attribute attribute;
    const char *name = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute));
    if (!name)
        name = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_name, &attribute));
    return name ? ls_demangle(name) : NULL;
}

static void call_site(Dwarf_Die *inlined, Dwarf_Die *unit, struct ls_symbol *into) {
    Dwarf_Attribute attribute;
    Dwarf_Word number, line;
    Dwarf_Files *files;
    size_t count;
    if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_line, &attribute), &line) != 0 || line == 0)
        return;
    into->line = (uint32_t)line;
    if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &attribute), &number) == 0 &&
        dwarf_getsrcfiles(unit, &files, &count) == 0 && number < count)
        into->file = absolute(dwarf_filesrc(files, number, NULL, NULL), unit);
}

/*
 * The functions at `pc`, innermost first: each inlined call tells its own name, and the file and
 * line in the function around it.
 */
static int lookup_scopes(Dwarf_Die *unit, uint64_t pc, struct ls_symbol symbol[LS_INLINE_MAX]) {
    Dwarf_Die *scopes = NULL, *chain = NULL;
    int count = 0, depth = 0;
    int found = dwarf_getscopes(unit, pc, &scopes);
    if (found > 0)
        depth = dwarf_getscopes_die(&scopes[0], &chain);
    for (int i = 0; i < depth && count < LS_INLINE_MAX; i++) {
        int tag = dwarf_tag(&chain[i]);
        if (tag == DW_TAG_inlined_subroutine && count + 1 < LS_INLINE_MAX) {
            symbol[count++].function = die_name(&chain[i]);
            call_site(&chain[i], unit, &symbol[count]);
        } else if (tag == DW_TAG_subprogram) {
            Dwarf_Addr low;
            symbol[count].function = die_name(&chain[i]);
            if (dwarf_entrypc(&chain[i], &low) == 0)
                symbol[count].function_offset = pc + 1 - low;
            count++;
            break;
        }
    }
    free(scopes);
    free(chain);
    if (count < LS_INLINE_MAX && symbol[count].line)
        count++; /* inlined into something that has no name */
    return count;
}

static int lookup_lines(struct ls_symbols *symbols, uint64_t pc,
                        struct ls_symbol symbol[LS_INLINE_MAX]) {
    Dwarf_Die unit;
    if (!unit_at(symbols, pc, &unit))
        return 0;
    int count = lookup_scopes(&unit, pc, symbol);
    Dwarf_Line *line = dwarf_getsrc_die(&unit, pc);
    int number = 0;
    if (line && dwarf_lineno(line, &number) == 0 && number > 0) {
        symbol[0].file = absolute(dwarf_linesrc(line, NULL, NULL), &unit);
        symbol[0].line = (uint32_t)number;
        if (count == 0)
            count = 1;
    }
    return count;
}

int ls_symbols_lookup(struct ls_symbols *symbols, uint64_t offset,
                      struct ls_symbol symbol[LS_INLINE_MAX]) {
    memset(symbol, 0, LS_INLINE_MAX * sizeof symbol[0]);
    if (!symbols->file.elf || offset == 0)
        return 0;
    uint64_t pc = offset - 1; /* inside the call, not after it */
    int count = symbols->units ? lookup_lines(symbols, pc, symbol) : 0;
    const struct function *function = function_at(symbols, pc);
    if (function) {
        struct ls_symbol *outer = &symbol[count ? count - 1 : 0];
        const char *name = elf_strptr(function->elf, function->strings, function->name);
        if (!outer->function && name)
            outer->function = ls_demangle(name);
        outer->function_offset = offset - function->start;
        if (count == 0 && outer->function)
            count = 1;
    }
    return count;
}

void ls_symbol_clear(struct ls_symbol *symbol) {
    free(symbol->function);
    free(symbol->file);
    memset(symbol, 0, sizeof *symbol);
}
