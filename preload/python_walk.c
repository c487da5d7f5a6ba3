/*
 * python_walk.c - see python_walk.h. Hot: no lock, no allocation, no system call, no call into
 * Python. Any thread.
 *
 * What identifies a frame. A code object may be freed and another one come to lie at the very same
 * address, with name, file name and line table at the same addresses, too. So the contents count.
 * From 3.12 on each code object has a number that is given once. Before that: of name and file name
 * the hash that a str keeps of itself, where it has been asked for (names are, when they are
 * interned), else its characters; and the line table, whole where people edit and reload (cells,
 * scripts, exec), by its size and samples in installed packages. What the samples miss is an
 * installed function that was edited and reloaded while the program ran, in the same place.
 *
 * A line is what the instruction says. While a trace function runs, a frame's f_lineno may hold a
 * number of its own; that is not looked at.
 */
#include "python_walk.h"

#include <stdatomic.h>

#include "intern.h"
#include "python_read.h"

#define HIDDEN_MAX 1024           /* frames in a row that are none of Python's: more is no stack */
#define TEXT_MAX 1024             /* bytes of a str that are looked at */
#define LARGEST_TABLE (64u << 10) /* bytes of a line table that are looked at */

static inline uint64_t spread(uint64_t value, uint64_t odd) {
    value *= odd;
    return value ^ value >> 32;
}

/* Each word times another number, so that order counts and no product waits for the one before. */
static uint64_t hash_bytes(const char *bytes, size_t size) {
    uint64_t hash = size, odd = 0x9fb21c651e98df25u, word;
    size_t i = 0;
    for (; i + 8 <= size; i += 8, odd += 0x3c6ef372fe94f82au) {
        memcpy(&word, bytes + i, 8);
        hash += spread(word ^ i, odd);
    }
    if (size >= 8) {
        memcpy(&word, bytes + size - 8, 8); /* some of it again */
        return hash + spread(word, odd);
    }
    for (word = 0; i < size; i++)
        word = word << 8 | (uint8_t)bytes[i];
    return hash + spread(word, odd);
}

/* The end of a file name says more than its beginning. */
static __attribute__((noinline)) uint64_t hash_characters(uintptr_t text,
                                                          struct ls_seen_bytes *seen) {
    struct ls_python_text found = ls_python_text(text);
    size_t size = found.length * found.kind, skipped = size > TEXT_MAX ? size - TEXT_MAX : 0;
    return ls_seen_hash(seen, (const char *)found.data + skipped, size - skipped, hash_bytes) ^
           size << 32;
}

static inline uint64_t text_identity(uintptr_t text, struct ls_seen_bytes *seen) {
    uint64_t hash = ls_python_word(text, LS_PYTHON_HASH);
    return hash != UINT64_MAX ? hash : hash_characters(text, seen);
}

__attribute__((noinline, cold)) bool ls_python_is_installed(uintptr_t file) {
    static const char *const parts[] = {"/site-packages/", "/dist-packages/", "/lib/python3",
                                        "<frozen "};
    struct ls_python_text text = ls_python_text(file);
    if (text.kind != 1)
        return false;
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++)
        if (memmem(text.data, text.length, parts[i], strlen(parts[i])))
            return true;
    return false;
}

/* The same, remembered: the file's identity, and in its lowest bit the answer. Any thread may
 * overwrite a place; a word is written at once. */
#define ANSWERS 256
static inline bool installed(uintptr_t file, uint64_t identity) {
    static _Atomic uint64_t answers[ANSWERS];
    _Atomic uint64_t *place = &answers[(identity >> 32 ^ identity >> 8) % ANSWERS];
    uint64_t answer = atomic_load_explicit(place, memory_order_relaxed);
    if (__builtin_expect((answer ^ identity) >> 1 != 0, 0)) {
        answer = (identity & ~(uint64_t)1) | ls_python_is_installed(file);
        atomic_store_explicit(place, answer, memory_order_relaxed);
    }
    return answer & 1;
}

/* The files of the walk's last frames: their characters are hashed once, where they have to be. */
#define FILES 8
struct last_files {
    uintptr_t file[FILES];
    uint64_t identity[FILES];
    struct ls_seen_bytes *seen;
};

static inline uint64_t file_identity(uintptr_t file, struct last_files *last) {
    uint64_t identity = ls_python_word(file, LS_PYTHON_HASH);
    if (identity != UINT64_MAX)
        return identity;
    unsigned i = (file >> 6 ^ file >> 9) % FILES;
    if (file != last->file[i]) {
        last->file[i] = file;
        last->identity[i] = hash_characters(file, last->seen);
    }
    return last->identity[i];
}

static inline uint64_t lines_identity(uintptr_t lines, struct ls_seen_bytes *seen) {
    uint64_t size = ls_python_word(lines, LS_PYTHON_LENGTH);
    return ls_seen_hash(seen, (const char *)(lines + LS_PYTHON_BYTES),
                        size < LARGEST_TABLE ? size : LARGEST_TABLE, hash_bytes);
}

static inline uint64_t lines_samples(uintptr_t lines) {
    uint64_t size = ls_python_word(lines, LS_PYTHON_LENGTH), last = 0, middle = 0;
    if (size >= 8) {
        last = ls_python_word(lines, (unsigned)(LS_PYTHON_BYTES + size - 8));
        middle = ls_python_word(lines, (unsigned)(LS_PYTHON_BYTES + (size - 8) / 2));
    }
    /* A short table: the bytes behind it, up to 8, belong to the object's allocation. */
    return spread(ls_python_word(lines, LS_PYTHON_BYTES) ^ size << 48, 0xd6e8feb86659fd93u) ^
           spread(last, 0xa0761d6478bd642fu) ^ spread(middle, 0xe7037ed1a0b428dbu);
}

/* What a code object is, whatever lies at its address later. */
static inline uint64_t code_identity(const struct ls_python_layout *layout, uintptr_t code,
                                     struct last_files *last) {
    uintptr_t name = ls_python_word(code, layout->name), file = ls_python_word(code, layout->file);
    uint64_t first_line = (uint32_t)ls_python_int(code, layout->first_line);
    uint64_t version = layout->version ? (uint32_t)ls_python_int(code, layout->version) : 0;
    if (version) /* for other interpreters of the process count on their own: the name, too */
        return spread(ls_python_word(name, LS_PYTHON_HASH) ^ code, 0x9fb21c651e98df25u) +
               spread(version << 32 ^ first_line ^ file << 7, 0xa0761d6478bd642fu);
    uintptr_t lines = ls_python_word(code, layout->lines);
    uint64_t of_file = file_identity(file, last);
    return spread(text_identity(name, last->seen) ^ code, 0x9fb21c651e98df25u) +
           spread(of_file ^ first_line << 32, 0xe7037ed1a0b428dbu) +
           (installed(file, of_file) ? lines_samples(lines) : lines_identity(lines, last->seen));
}

/* By the characters alone: whether a str has been asked for its hash changes. */
uint64_t ls_python_code_hash(uintptr_t code) {
    const struct ls_python_layout *layout = &ls_python.layout;
    uint64_t hash = ls_hash_word(hash_characters(ls_python_word(code, layout->name), NULL),
                                 hash_characters(ls_python_word(code, layout->file), NULL));
    return ls_hash_word(hash, (uint32_t)ls_python_int(code, layout->first_line)) | 1;
}

uintptr_t ls_python_innermost(uintptr_t thread) {
    const struct ls_python_layout *layout = &ls_python.layout;
    uintptr_t frame = ls_python_word(thread, layout->thread_frame);
    if (layout->chain && frame)
        frame = ls_python_word(frame, layout->chain_frame);
    return frame;
}

/* Where a frame is; false: it is the interpreter's own, or has not begun. */
static inline bool place_of(const struct ls_python_layout *layout, uintptr_t frame,
                            struct ls_python_place *place) {
    place->code = ls_python_word(frame, layout->code);
    if (!layout->owner) {
        place->at = (int64_t)ls_python_int(frame, layout->instruction) * layout->unit;
        return true;
    }
    uint8_t owner = *(const uint8_t *)(frame + layout->owner);
    if (owner >= layout->hidden)
        return false;
    place->code &= ~(uintptr_t)7; /* 3.14 counts references in the low bits */
    place->at =
        (int64_t)(ls_python_word(frame, layout->instruction) - (place->code + layout->start));
    return owner == LS_PYTHON_OWNED_BY_GENERATOR ||
           place->at >= (int64_t)ls_python_int(place->code, layout->traceable) * 2;
}

/* The next frame of Python's from `frame` on outwards; 0: there is none. */
static inline uintptr_t find_complete(const struct ls_python_layout *layout, uintptr_t frame,
                                      struct ls_python_place *place) {
    for (unsigned hidden = 0; frame && hidden < HIDDEN_MAX; hidden++) {
        if (place_of(layout, frame, place))
            return frame;
        frame = ls_python_word(frame, layout->back);
    }
    return 0;
}

void ls_python_walk(uintptr_t thread, struct ls_seen_bytes *seen, struct ls_python_walk *walk) {
    const struct ls_python_layout layout = ls_python.layout;
    struct last_files last = {.seen = seen};
    struct ls_python_place place;
    uint64_t hash = 0;
    uint32_t depth = 0;
    uintptr_t frame = find_complete(&layout, ls_python_innermost(thread), &place);
    while (frame && depth < LS_PYTHON_DEPTH) {
        walk->place[depth++] = place;
        hash = ls_hash_word(hash, code_identity(&layout, place.code, &last) ^
                                      spread((uint64_t)place.at, 0xd6e8feb86659fd93u));
        frame = find_complete(&layout, ls_python_word(frame, layout.back), &place);
    }
    walk->depth = depth;
    walk->truncated = frame != 0;
    walk->hash = ls_hash_word(hash, depth * 2 + walk->truncated) | 1;
}
