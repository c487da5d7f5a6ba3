/*
 * frames.h - stacks as lists of Python frames, outermost first: to tell what ran below which call.
 *
 * The frames of a forward operation count where a backward pass ran. Main thread only; not for
 * signal handlers.
 */
#ifndef LAYOUTSPY_FRAMES_H
#define LAYOUTSPY_FRAMES_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ls_frame_line {
    char *function, *file; /* owned by the cache */
    int line;
    bool forward; /* of the forward operation whose backward ran */
};

struct ls_frames {
    struct ls_frame_line *at; /* outermost first */
    size_t count;
};

/* Reads each stack once. */
struct ls_frame_cache;

struct ls_frame_cache *ls_frame_cache_new(sqlite3 *db);
void ls_frame_cache_free(struct ls_frame_cache *cache);

/* Of stack_site.id; none for 0. Valid as long as the cache is. */
const struct ls_frames *ls_frames_of(struct ls_frame_cache *cache, uint32_t stack);

bool ls_frame_same_function(const struct ls_frame_line *x, const struct ls_frame_line *y);
bool ls_frame_same_line(const struct ls_frame_line *x, const struct ls_frame_line *y);

/* How many frames, from the outermost on, are the same, line by line. */
size_t ls_frames_common(const struct ls_frames *x, const struct ls_frames *y);

/* "PATH:LINE FUNCTION", as sites are; to be freed. */
char *ls_frame_text(const struct ls_frame_line *frame);

#endif
