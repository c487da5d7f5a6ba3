/*
 * python_check.c - see python_check.h.
 *
 * The shape is looked at by the thread that would walk first. The comparison runs as a pending call
 * of the interpreter: on its main thread, with the GIL, between two of its instructions, where any
 * of its functions may be called; never in a hook, where the GIL may be another thread's. It keeps
 * no reference and leaves no exception.
 */
#include "python_check.h"

#include <errno.h>
#include <string.h>

#include "python_api.h"
#include "python_layout.h"
#include "python_read.h"
#include "python_walk.h"

/* ---- the shape ---- */

#define HIDDEN_MAX 64
#define INSTRUCTIONS_MAX (1 << 28) /* bytes, of one function */
#define TEXT_MAX (1u << 24)        /* characters, of a name */

static bool is_of_type(uintptr_t object, const void *type) {
    uint64_t found;
    return ls_python_try_word(object, LS_PYTHON_TYPE, &found) && found == (uintptr_t)type;
}

static bool is_name(uintptr_t code, unsigned offset) {
    uint64_t text, head, last;
    if (!ls_python_try_word(code, offset, &text) || !is_of_type(text, ls_py.PyUnicode_Type) ||
        !ls_python_try_word(text, LS_PYTHON_TEXT_STATE, &head) ||
        !ls_python_try_word(text, ls_python.layout.wide, &head))
        return false;
    struct ls_python_text found = ls_python_text(text);
    uintptr_t end = (uintptr_t)found.data + found.length * found.kind;
    return found.kind != 0 && found.length < TEXT_MAX &&
           ls_python_try_word(end & ~(uintptr_t)7, 0, &last);
}

/* `code` is a code object, and `instruction` (as a frame has it) one of its own. */
static bool is_code(uintptr_t code, uint64_t instruction) {
    const struct ls_python_layout *layout = &ls_python.layout;
    uint64_t lines, number, count;
    if (!is_of_type(code, ls_py.PyCode_Type) || !is_name(code, layout->name) ||
        !is_name(code, layout->file) || !ls_python_try_word(code, layout->lines, &lines) ||
        !is_of_type(lines, ls_py.PyBytes_Type) ||
        !ls_python_try_word(code, layout->first_line & ~7u, &number) ||
        ls_python_int(code, layout->first_line) < 0)
        return false;
    if (!layout->owner) {
        int64_t at = (int64_t)(int32_t)instruction * layout->unit;
        return at >= -layout->unit && at < INSTRUCTIONS_MAX;
    }
    int64_t at = (int64_t)(instruction - (code + layout->start));
    return ls_python_try_word(code, LS_PYTHON_LENGTH, &count) && count < INSTRUCTIONS_MAX &&
           at >= -2 && at < (int64_t)count * 2 && at % 2 == 0;
}

/* Whether the frame is the interpreter's own, if it can be told. */
static bool read_hidden(uintptr_t frame, bool *hidden) {
    const struct ls_python_layout *layout = &ls_python.layout;
    uint64_t word;
    *hidden = false;
    if (!layout->owner)
        return true;
    if (!ls_python_try_word(frame, layout->owner & ~7u, &word))
        return false;
    *hidden = *(const uint8_t *)(frame + layout->owner) >= layout->hidden;
    return true;
}

static bool read_innermost(uintptr_t thread, uint64_t *frame) {
    const struct ls_python_layout *layout = &ls_python.layout;
    if (!ls_python_try_word(thread, layout->thread_frame, frame))
        return false;
    return !layout->chain || ls_python_try_word(*frame, layout->chain_frame, frame);
}

enum ls_python_shape ls_python_check_shape(uintptr_t thread, const char **why) {
    const struct ls_python_layout *layout = &ls_python.layout;
    uint64_t frame, code, instruction;
    *why = "its thread states are not laid out as expected";
    if (!read_innermost(thread, &frame))
        return LS_PYTHON_BAD;
    int depth = 0, skipped = 0;
    *why = "its frames are not laid out as expected";
    while (frame && depth < LS_PYTHON_DEPTH && skipped < HIDDEN_MAX) {
        bool hidden;
        if (!read_hidden(frame, &hidden) || !ls_python_try_word(frame, layout->code, &code) ||
            !ls_python_try_word(frame, layout->instruction & ~7u, &instruction))
            return LS_PYTHON_BAD;
        instruction = layout->owner ? ls_python_word(frame, layout->instruction)
                                    : (uint32_t)ls_python_int(frame, layout->instruction);
        if (!hidden && !is_code(code & (layout->owner ? ~(uint64_t)7 : ~(uint64_t)0), instruction))
            return LS_PYTHON_BAD;
        depth += !hidden;
        skipped += hidden;
        if (!ls_python_try_word(frame, layout->back, &frame))
            return LS_PYTHON_BAD;
    }
    return depth ? LS_PYTHON_GOOD : LS_PYTHON_NO_FRAME;
}

/* ---- the comparison ---- */

/* The same letters? What cannot be encoded is not compared. */
static bool same_text(void *code, const char *attribute, unsigned offset) {
    char own[4096];
    size_t size = ls_python_utf8(ls_python_word((uintptr_t)code, offset), own, sizeof own);
    void *text = ls_py.PyObject_GetAttrString(code, attribute);
    void *bytes = text ? ls_py.PyUnicode_AsUTF8String(text) : NULL;
    bool same = true;
    if (bytes && size < sizeof own - 4)
        same = (size_t)ls_py.PyBytes_Size(bytes) == size &&
               memcmp(ls_py.PyBytes_AsString(bytes), own, size) == 0;
    if (bytes)
        ls_py.Py_DecRef(bytes);
    if (text)
        ls_py.Py_DecRef(text);
    if (ls_py.PyErr_Occurred())
        ls_py.PyErr_Clear();
    return same;
}

/* Letters of each width, for the names met here may all be ASCII. */
static bool same_letters(void) {
    static const char *const samples[] = {"layout", "\u00e9t\u00e9", "\u2211", "\U0001f600"};
    bool same = true;
    for (unsigned i = 0; i < sizeof samples / sizeof *samples; i++) {
        char own[64];
        void *text = ls_py.PyUnicode_FromString(samples[i]);
        if (!text) {
            ls_py.PyErr_Clear();
            continue;
        }
        ls_python_utf8((uintptr_t)text, own, sizeof own);
        same = same && strcmp(own, samples[i]) == 0;
        ls_py.Py_DecRef(text);
    }
    return same;
}

/* No two code objects share a version. */
static bool distinct_versions(const struct ls_python_walk *walk) {
    unsigned offset = ls_python.layout.version;
    for (uint32_t i = 0; offset && i < walk->depth; i++) {
        int32_t version = ls_python_int(walk->place[i].code, offset);
        for (uint32_t j = 0; j < i; j++)
            if (version != 0 && walk->place[i].code != walk->place[j].code &&
                ls_python_int(walk->place[j].code, offset) == version)
                return false;
    }
    return true;
}

static bool same_frame(const struct ls_python_place *place, void *frame) {
    const struct ls_python_layout *layout = &ls_python.layout;
    void *code = ls_py.PyFrame_GetCode(frame);
    int line = ls_py.PyFrame_GetLineNumber(frame);
    bool same = (uintptr_t)code == place->code &&
                ls_python_line_at(place->code, place->at) == (uint32_t)(line > 0 ? line : 0) &&
                same_text(code, "co_name", layout->name) &&
                same_text(code, "co_filename", layout->file);
    ls_py.Py_DecRef(code);
    return same;
}

static bool same_stack(void *thread) {
    struct ls_python_walk walk;
    ls_python_walk((uintptr_t)thread, NULL, &walk);
    void *frame = ls_py.PyThreadState_GetFrame(thread);
    bool same = same_letters() && distinct_versions(&walk);
    for (uint32_t i = 0; i < walk.depth && same; i++) {
        same = frame && same_frame(&walk.place[i], frame);
        void *back = frame ? ls_py.PyFrame_GetBack(frame) : NULL;
        if (frame)
            ls_py.Py_DecRef(frame);
        frame = back;
    }
    same = same && (frame != NULL) == walk.truncated;
    if (frame)
        ls_py.Py_DecRef(frame);
    return same;
}

static void (*tell)(bool same);

static int compare(void *unused) {
    int saved = errno;
    (void)unused;
    void *thread = ls_python.this_thread();
    if (thread && !ls_py.PyErr_Occurred())
        tell(same_stack(thread));
    errno = saved;
    return 0;
}

bool ls_python_check_later(void (*done)(bool same)) {
    tell = done;
    return ls_py.Py_AddPendingCall(compare, NULL) == 0;
}
