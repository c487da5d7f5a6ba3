/*
 * names.c - see names.h.
 *
 * CUPTI's own strings stay as long as the records that point to them, so one is read once for each
 * buffer and its place stands for it in the rest of the buffer. Whether anything can be read there
 * is asked of the kernel first: a record of an unknown version, or a damaged one, must not be a
 * fault in the target.
 */
#include "names.h"

#include <stdbool.h>
#include <string.h>

#include "intern.h"
#include "kernels.h"
#include "lock.h"
#include "readable.h"
#include "spool.h"

#define PAGE 4096u

static struct ls_intern names;

/* Not 0. */
static uint64_t hash(const char *name, size_t length) {
    uint64_t value = length, word = 0;
    size_t i = 0;
    for (; i + sizeof word <= length; i += sizeof word) {
        memcpy(&word, name + i, sizeof word);
        value = ls_hash_word(value, word);
    }
    word = 0;
    memcpy(&word, name + i, length - i);
    value = ls_hash_word(value, word);
    return value ? value : 1;
}

static bool begun(void) {
    if (atomic_load_explicit(&names.current, memory_order_acquire))
        return true;
    ls_lock(LS_LOCK_KERNELS);
    bool ok = atomic_load(&names.current) || ls_intern_begin(&names);
    ls_unlock(LS_LOCK_KERNELS);
    return ok;
}

static uint32_t define(struct ls_thread *self, const void *name) {
    return ls_kernel_define(self, name);
}

static uint32_t number(struct ls_thread *self, const char *name, size_t length) {
    uint32_t id = begun() ? ls_intern(&names, self, hash(name, length), define, name) : 0;
    if (!id)
        ls_spool_lost(self, LS_LOST_KERNELS, 1);
    return id;
}

uint32_t ls_kernel_named(struct ls_thread *self, const char *name) {
    return number(self, name, strnlen(name, LS_KERNEL_NAME_MOST));
}

static bool is_text(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            return false;
    return true;
}

/* The length of the text that can be read there, cut; 0: none, or no end, or no text. */
static size_t readable_length(const char *name) {
    uintptr_t at = (uintptr_t)name;
    if (at < PAGE || at >= (uintptr_t)1 << 47)
        return 0;
    size_t length = 0;
    while (length < LS_KERNEL_NAME_MOST) {
        size_t room = PAGE - at % PAGE;
        if (!ls_is_readable(at & ~(uintptr_t)7))
            return 0;
        size_t part = strnlen((const char *)at, room);
        if (!is_text((const char *)at, part))
            return 0;
        length += part;
        if (part < room)
            break;
        at += room;
    }
    return length < LS_KERNEL_NAME_MOST ? length : LS_KERNEL_NAME_MOST;
}

uint32_t ls_kernel_told(struct ls_thread *self, struct ls_names_seen *seen, const char *name) {
    uint32_t home = (uint32_t)(((uintptr_t)name * 0x9e3779b97f4a7c15u) >> 40);
    if (!name)
        return 0;
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t slot = (home + i) % LS_NAMES_SEEN;
        if (seen->entry[slot].name == name)
            return seen->entry[slot].id;
        if (seen->entry[slot].name)
            continue;
        size_t length = readable_length(name);
        uint32_t id = length ? number(self, name, length) : 0;
        if (id || !length) { /* else there may be room for the next launch's */
            seen->entry[slot].name = name;
            seen->entry[slot].id = id;
        }
        return id;
    }
    size_t length = readable_length(name);
    return length ? number(self, name, length) : 0;
}

void ls_kernel_names_fork_reset(void) {
    ls_intern_fork_reset(&names);
}
