/*
 * python_frames.h - the Python side of stacks: code objects and lists of frames, by the numbers
 * that the recording gave them.
 *
 * Both are kept in tables (raw_code, raw_python) until the recording is finished, so that a killed
 * collector's successor knows the numbers too. One thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_PYTHON_FRAMES_H
#define LAYOUTSPY_PYTHON_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "layoutspy/format.h"
#include "trace_db.h"

/* One function of one file: code objects that come and go have the same one. Lives as long as the
 * struct ls_python; its address tells it from others. */
struct ls_code {
    const char *name; /* co_name, and */
    const char *file; /* co_filename; NULL: not known */
};

struct ls_code_text;
struct ls_code_number;
struct ls_python_stack;

struct ls_python {
    struct ls_code_text *texts;     /* hash by name and file */
    struct ls_code_number *numbers; /* hash by the recording's number */
    struct ls_python_stack *stacks; /* likewise */
    struct ls_code unknown;
};

/* From the records, into the tables. Out of memory: what it says stays unknown. */
void ls_python_add_code(struct ls_python *python, struct ls_trace_db *db,
                        const struct ls_rec_code *record);
void ls_python_add_stack(struct ls_python *python, struct ls_trace_db *db,
                         const struct ls_rec_python *record);

/* From the tables, when a recording is taken up again. */
void ls_python_load(struct ls_python *python, struct ls_trace_db *db);

/* The frames of a stack, innermost first; of the struct ls_python. */
struct ls_python_list {
    const struct ls_python_frame *frame;
    uint32_t depth;
    bool truncated; /* there were more, outside of these */
    bool known;     /* false: what is known of it may still come */
};

/* Of stack `id`; 0 is known, and has no frames. */
struct ls_python_list ls_python_frames(const struct ls_python *python, uint32_t id);

/* The code with a number; what is not known is `unknown`. */
const struct ls_code *ls_python_code(const struct ls_python *python, uint32_t id);

/* The code of that name and file; NULL: out of memory. Without a file: `unknown`. */
const struct ls_code *ls_python_code_named(struct ls_python *python, const char *name,
                                           const char *file);

void ls_python_destroy(struct ls_python *python);

#endif
