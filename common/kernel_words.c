/*
 * kernel_words.c - see kernel_words.h. Asked once per kernel: every pattern is tried.
 */
#include "kernel_words.h"

#include <stddef.h>
#include <string.h>

static const struct ls_kernel_words words[] = {
#define KERNEL(pattern, CHANGE, from, to, why) {pattern, from, to, LS_KERNEL_##CHANGE},
#include "kernel_words.def"
};

/* `*` is anything; the rest of each piece between is found at the first place where it fits. */
static bool is_like(const char *name, const char *pattern) {
    size_t piece = strcspn(pattern, "*");
    if (strncmp(name, pattern, piece) != 0)
        return false;
    name += piece;
    pattern += piece;
    while (*pattern) {
        pattern += strspn(pattern, "*");
        piece = strcspn(pattern, "*");
        if (!*pattern)
            return true;
        if (!pattern[piece]) {
            size_t left = strlen(name);
            return left >= piece && strcmp(name + left - piece, pattern) == 0;
        }
        const char *found = memmem(name, strlen(name), pattern, piece);
        if (!found)
            return false;
        name = found + piece;
        pattern += piece;
    }
    return *name == 0;
}

const struct ls_kernel_words *ls_kernel_words(const char *name) {
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (is_like(name, words[i].pattern))
            return &words[i];
    return NULL;
}
