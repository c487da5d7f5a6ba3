/*
 * site.h - which frame of a stack is the user's, and how it is written.
 *
 * The rules are site_rules.def. No state; any thread.
 */
#ifndef LAYOUTSPY_SITE_H
#define LAYOUTSPY_SITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A frame; strings may be NULL where nothing is known. Of a Python frame only the function
 * (co_name), the file (co_filename) and the line count. */
struct ls_site_frame {
    bool python;
    bool forward;       /* Python, but no caller: see the view stack_frame */
    const char *module; /* path */
    bool main_program;
    uint64_t offset; /* of the return address, in the module */
    const char *function;
    uint64_t function_offset;
    const char *file;
    uint32_t line; /* 0: not known */
};

/* How well a frame tells who it was; see site_rules.def. The best of a stack is named, of equals
 * the innermost. Native frames are inside of Python's. */
enum ls_site_level {
    LS_SITE_NEVER,
    LS_SITE_INNER,
    LS_SITE_FACE,
    LS_SITE_PLUMBING,
    LS_SITE_FRAMEWORK,
    LS_SITE_PACKAGE,
    LS_SITE_NAMELESS,
    LS_SITE_USER
};

enum ls_site_level ls_site_level(const struct ls_site_frame *frame);

/* Index of the frame to name, of `count` frames, innermost first; -1: none is worth naming. */
int ls_site_choose(const struct ls_site_frame *frame, int count);

/* "PATH:LINE FUNCTION", else "MODULE!FUNCTION+0xOFF", else "MODULE+0xOFF". */
void ls_site_text(const struct ls_site_frame *frame, char *text, size_t size);

#endif
