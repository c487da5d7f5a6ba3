/*
 * check_layout.c - preload/python_layout.c against the headers of the Python it is compiled for.
 *
 * Compiled by test_python_layout.py once per interpreter, with its internal headers. Prints each
 * offset that differs. From 3.13 on the offsets are published; then the words that they are read
 * from are compared with the structure that the interpreter publishes them in, and what is derived
 * from them with the truth.
 */
#define Py_BUILD_CORE 1
#include <Python.h>

#include <frameobject.h>
#include <stddef.h>
#include <stdio.h>
#if PY_VERSION_HEX >= 0x030b0000
#include <internal/pycore_frame.h>
#endif
#if PY_VERSION_HEX >= 0x030d0000
#include <internal/pycore_runtime.h>
#endif

#include "preload/python_layout.c"

static int differences;

static void same(const char *what, size_t ours, size_t theirs) {
    if (ours == theirs)
        return;
    printf("%s: %zu in our table, %zu in the headers\n", what, ours, theirs);
    differences++;
}

/* What no table holds. */
static void check_common(const struct ls_python_layout *ours) {
    same("type", LS_PYTHON_TYPE, offsetof(PyObject, ob_type));
    same("length of str", LS_PYTHON_LENGTH, offsetof(PyASCIIObject, length));
    same("length of bytes", LS_PYTHON_LENGTH, offsetof(PyVarObject, ob_size));
    same("hash of str", LS_PYTHON_HASH, offsetof(PyASCIIObject, hash));
    same("state of str", LS_PYTHON_TEXT_STATE, offsetof(PyASCIIObject, state));
    same("bytes", LS_PYTHON_BYTES, offsetof(PyBytesObject, ob_sval));
    same("ASCII characters", ours->ascii, sizeof(PyASCIIObject));
    same("other characters", ours->wide, sizeof(PyCompactUnicodeObject));
    same("characters of a subclass", ours->wide, offsetof(PyUnicodeObject, data));
    same("co_name", ours->name, offsetof(PyCodeObject, co_name));
    same("co_filename", ours->file, offsetof(PyCodeObject, co_filename));
    same("co_firstlineno", ours->first_line, offsetof(PyCodeObject, co_firstlineno));
}

#if PY_VERSION_HEX < 0x030b0000
static void check_frames(const struct ls_python_layout *ours) {
    same("tstate->frame", ours->thread_frame, offsetof(PyThreadState, frame));
    same("f_back", ours->back, offsetof(PyFrameObject, f_back));
    same("f_code", ours->code, offsetof(PyFrameObject, f_code));
    same("f_lasti", ours->instruction, offsetof(PyFrameObject, f_lasti));
    same("owner", ours->owner, 0);
#if PY_VERSION_HEX >= 0x030a0000
    same("f_lasti's unit", ours->unit, 2);
    same("co_linetable", ours->lines, offsetof(PyCodeObject, co_linetable));
#else
    same("f_lasti's unit", ours->unit, 1);
    same("co_lnotab", ours->lines, offsetof(PyCodeObject, co_lnotab));
#endif
}
#else
static void check_frames(const struct ls_python_layout *ours) {
    same("previous", ours->back, offsetof(_PyInterpreterFrame, previous));
    same("owner", ours->owner, offsetof(_PyInterpreterFrame, owner));
    same("owned by a generator", LS_PYTHON_OWNED_BY_GENERATOR, FRAME_OWNED_BY_GENERATOR);
    same("co_linetable", ours->lines, offsetof(PyCodeObject, co_linetable));
    same("_co_firsttraceable", ours->traceable, offsetof(PyCodeObject, _co_firsttraceable));
    same("co_code_adaptive", ours->start, offsetof(PyCodeObject, co_code_adaptive));
#if PY_VERSION_HEX >= 0x030c0000
    same("co_version", ours->version, offsetof(PyCodeObject, co_version));
#endif
#if PY_VERSION_HEX >= 0x030e0000
    same("hidden", ours->hidden, FRAME_OWNED_BY_INTERPRETER);
#elif PY_VERSION_HEX >= 0x030c0000
    same("hidden", ours->hidden, FRAME_OWNED_BY_CSTACK);
#endif
#if PY_VERSION_HEX >= 0x030d0000
    same("tstate->current_frame", ours->thread_frame, offsetof(PyThreadState, current_frame));
    same("f_executable", ours->code, offsetof(_PyInterpreterFrame, f_executable));
    same("instr_ptr", ours->instruction, offsetof(_PyInterpreterFrame, instr_ptr));
#else
    same("tstate->cframe", ours->thread_frame, offsetof(PyThreadState, cframe));
    same("current_frame", ours->chain_frame, offsetof(_PyCFrame, current_frame));
    same("f_code", ours->code, offsetof(_PyInterpreterFrame, f_code));
    same("prev_instr", ours->instruction, offsetof(_PyInterpreterFrame, prev_instr));
#endif
}
#endif

#if PY_VERSION_HEX >= 0x030d0000
/* Fills the structure with what the headers say, as an interpreter does, and reads it back. */
static struct ls_python_layout published(void) {
    static uint64_t runtime[sizeof(struct _Py_DebugOffsets) / sizeof(uint64_t)];
    struct _Py_DebugOffsets *offsets = (void *)runtime;
    memcpy(offsets->cookie, "xdebugpy", 8);
    offsets->version = PY_VERSION_HEX;
    offsets->thread_state.current_frame = offsetof(PyThreadState, current_frame);
    offsets->interpreter_frame.previous = offsetof(_PyInterpreterFrame, previous);
    offsets->interpreter_frame.executable = offsetof(_PyInterpreterFrame, f_executable);
    offsets->interpreter_frame.instr_ptr = offsetof(_PyInterpreterFrame, instr_ptr);
    offsets->interpreter_frame.owner = offsetof(_PyInterpreterFrame, owner);
    offsets->code_object.filename = offsetof(PyCodeObject, co_filename);
    offsets->code_object.name = offsetof(PyCodeObject, co_name);
    offsets->code_object.linetable = offsetof(PyCodeObject, co_linetable);
    offsets->code_object.firstlineno = offsetof(PyCodeObject, co_firstlineno);
    offsets->code_object.co_code_adaptive = offsetof(PyCodeObject, co_code_adaptive);
    offsets->unicode_object.asciiobject_size = sizeof(PyASCIIObject);
    struct ls_python_layout layout = {0};
    const char *why = read_published(&layout, PY_MINOR_VERSION, runtime);
    if (why)
        printf("refused: %s\n", why);
    return layout;
}
#endif

int main(void) {
#if PY_VERSION_HEX >= 0x030d0000
    struct ls_python_layout ours = published();
#else
    struct ls_python_layout ours = table[PY_MINOR_VERSION - OLDEST];
#endif
    same("minor version", ours.minor, PY_MINOR_VERSION);
    check_common(&ours);
    check_frames(&ours);
    return differences != 0;
}
