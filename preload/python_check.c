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
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "python_layout.h"
#include "python_read.h"
#include "python_walk.h"

/* ---- the shape ---- */

#define HIDDEN_MAX 64
#define INSTRUCTIONS_MAX (1 << 28) /* bytes, of one function */
#define TEXT_MAX (1u << 24)        /* characters, of a name */

/*
 * Can eight bytes be read there? rt_sigprocmask reads the mask before it looks at what to do with
 * it: with a wish that does not exist it changes nothing, and says EFAULT or EINVAL. Unlike
 * process_vm_readv() no sandbox forbids it.
 */
static bool is_readable(uintptr_t address) {
    return syscall(SYS_rt_sigprocmask, ~0L, address, NULL, 8L) == -1 && errno == EINVAL;
}

static bool read_word(uintptr_t object, unsigned offset, uint64_t *word) {
    uintptr_t at = object + offset;
    if (object == 0 || object % sizeof(void *) != 0 || !is_readable(at & ~(uintptr_t)7) ||
        !is_readable((at + 7) & ~(uintptr_t)7))
        return false;
    *word = ls_python_word(object, offset);
    return true;
}

static bool is_of_type(uintptr_t object, const void *type) {
    uint64_t found;
    return read_word(object, LS_PYTHON_TYPE, &found) && found == (uintptr_t)type;
}

static bool is_name(uintptr_t code, unsigned offset) {
    uint64_t text, head, last;
    if (!read_word(code, offset, &text) || !is_of_type(text, ls_python.text_type) ||
        !read_word(text, LS_PYTHON_TEXT_STATE, &head) ||
        !read_word(text, ls_python.layout.wide, &head))
        return false;
    struct ls_python_text found = ls_python_text(text);
    uintptr_t end = (uintptr_t)found.data + found.length * found.kind;
    return found.kind != 0 && found.length < TEXT_MAX && read_word(end & ~(uintptr_t)7, 0, &last);
}

/* `code` is a code object, and `instruction` (as a frame has it) one of its own. */
static bool is_code(uintptr_t code, uint64_t instruction) {
    const struct ls_python_layout *layout = &ls_python.layout;
    uint64_t lines, number, count;
    if (!is_of_type(code, ls_python.code_type) || !is_name(code, layout->name) ||
        !is_name(code, layout->file) || !read_word(code, layout->lines, &lines) ||
        !is_of_type(lines, ls_python.bytes_type) ||
        !read_word(code, layout->first_line & ~7u, &number) ||
        ls_python_int(code, layout->first_line) < 0)
        return false;
    if (!layout->owner) {
        int64_t at = (int64_t)(int32_t)instruction * layout->unit;
        return at >= -layout->unit && at < INSTRUCTIONS_MAX;
    }
    int64_t at = (int64_t)(instruction - (code + layout->start));
    return read_word(code, LS_PYTHON_LENGTH, &count) && count < INSTRUCTIONS_MAX && at >= -2 &&
           at < (int64_t)count * 2 && at % 2 == 0;
}

/* Whether the frame is the interpreter's own, if it can be told. */
static bool read_hidden(uintptr_t frame, bool *hidden) {
    const struct ls_python_layout *layout = &ls_python.layout;
    uint64_t word;
    *hidden = false;
    if (!layout->owner)
        return true;
    if (!read_word(frame, layout->owner & ~7u, &word))
        return false;
    *hidden = *(const uint8_t *)(frame + layout->owner) >= layout->hidden;
    return true;
}

static bool read_innermost(uintptr_t thread, uint64_t *frame) {
    const struct ls_python_layout *layout = &ls_python.layout;
    if (!read_word(thread, layout->thread_frame, frame))
        return false;
    return !layout->chain || read_word(*frame, layout->chain_frame, frame);
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
        if (!read_hidden(frame, &hidden) || !read_word(frame, layout->code, &code) ||
            !read_word(frame, layout->instruction & ~7u, &instruction))
            return LS_PYTHON_BAD;
        instruction = layout->owner ? ls_python_word(frame, layout->instruction)
                                    : (uint32_t)ls_python_int(frame, layout->instruction);
        if (!hidden && !is_code(code & (layout->owner ? ~(uint64_t)7 : ~(uint64_t)0), instruction))
            return LS_PYTHON_BAD;
        depth += !hidden;
        skipped += hidden;
        if (!read_word(frame, layout->back, &frame))
            return LS_PYTHON_BAD;
    }
    return depth ? LS_PYTHON_GOOD : LS_PYTHON_NO_FRAME;
}

/* ---- the comparison ---- */

/* Its functions; objects are untyped here. What returns an object returns a reference of ours, but
 * for the exception that occurred. */
static struct {
    int (*add_pending)(int (*function)(void *), void *argument);
    void *(*occurred)(void);
    void (*clear)(void);
    void (*release)(void *);
    void *(*frame)(void *thread);
    void *(*back)(void *frame);
    void *(*code)(void *frame);
    int (*line)(void *frame);
    void *(*attribute)(void *object, const char *name);
    void *(*encode)(void *text);
    void *(*text)(const char *utf8);
    long (*size)(void *bytes);
    char *(*bytes)(void *bytes);
} api;

bool ls_python_check_prepare(void) {
    static const struct {
        const char *name;
        void **where;
    } wanted[] = {
        {"Py_AddPendingCall", (void **)&api.add_pending},
        {"PyErr_Occurred", (void **)&api.occurred},
        {"PyErr_Clear", (void **)&api.clear},
        {"Py_DecRef", (void **)&api.release},
        {"PyThreadState_GetFrame", (void **)&api.frame},
        {"PyFrame_GetBack", (void **)&api.back},
        {"PyFrame_GetCode", (void **)&api.code},
        {"PyFrame_GetLineNumber", (void **)&api.line},
        {"PyObject_GetAttrString", (void **)&api.attribute},
        {"PyUnicode_AsUTF8String", (void **)&api.encode},
        {"PyUnicode_FromString", (void **)&api.text},
        {"PyBytes_Size", (void **)&api.size},
        {"PyBytes_AsString", (void **)&api.bytes},
    };
    for (unsigned i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!(*wanted[i].where = ls_python_symbol(wanted[i].name)))
            return false;
    return true;
}

/* The same letters? What cannot be encoded is not compared. */
static bool same_text(void *code, const char *attribute, unsigned offset) {
    char own[4096];
    size_t size = ls_python_utf8(ls_python_word((uintptr_t)code, offset), own, sizeof own);
    void *text = api.attribute(code, attribute);
    void *bytes = text ? api.encode(text) : NULL;
    bool same = true;
    if (bytes && size < sizeof own - 4)
        same = (size_t)api.size(bytes) == size && memcmp(api.bytes(bytes), own, size) == 0;
    if (bytes)
        api.release(bytes);
    if (text)
        api.release(text);
    if (api.occurred())
        api.clear();
    return same;
}

/* Letters of each width, for the names met here may all be ASCII. */
static bool same_letters(void) {
    static const char *const samples[] = {"layout", "\u00e9t\u00e9", "\u2211", "\U0001f600"};
    bool same = true;
    for (unsigned i = 0; i < sizeof samples / sizeof *samples; i++) {
        char own[64];
        void *text = api.text(samples[i]);
        if (!text) {
            api.clear();
            continue;
        }
        ls_python_utf8((uintptr_t)text, own, sizeof own);
        same = same && strcmp(own, samples[i]) == 0;
        api.release(text);
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
    void *code = api.code(frame);
    int line = api.line(frame);
    bool same = (uintptr_t)code == place->code &&
                ls_python_line_at(place->code, place->at) == (uint32_t)(line > 0 ? line : 0) &&
                same_text(code, "co_name", layout->name) &&
                same_text(code, "co_filename", layout->file);
    api.release(code);
    return same;
}

static bool same_stack(void *thread) {
    struct ls_python_walk walk;
    ls_python_walk((uintptr_t)thread, &walk);
    void *frame = api.frame(thread);
    bool same = same_letters() && distinct_versions(&walk);
    for (uint32_t i = 0; i < walk.depth && same; i++) {
        same = frame && same_frame(&walk.place[i], frame);
        void *back = frame ? api.back(frame) : NULL;
        if (frame)
            api.release(frame);
        frame = back;
    }
    same = same && (frame != NULL) == walk.truncated;
    if (frame)
        api.release(frame);
    return same;
}

static void (*tell)(bool same);

static int compare(void *unused) {
    int saved = errno;
    (void)unused;
    void *thread = ls_python.this_thread();
    if (thread && !api.occurred())
        tell(same_stack(thread));
    errno = saved;
    return 0;
}

bool ls_python_check_later(void (*done)(bool same)) {
    tell = done;
    return api.bytes && api.add_pending(compare, NULL) == 0;
}
