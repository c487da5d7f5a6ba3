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
#include <structmember.h>
#if PY_VERSION_HEX >= 0x030b0000
#include <internal/pycore_frame.h>
#endif
#if PY_VERSION_HEX >= 0x030b0000
#include <internal/pycore_code.h>
#include <internal/pycore_dict.h>
#endif
#if PY_VERSION_HEX >= 0x030d0000
#include <internal/pycore_runtime.h>
#endif

#include "preload/python_api.c"
#include "preload/python_layout.c"
#include "preload/python_lines.c"
#include "preload/python_object.c"
#include "preload/python_read.c"

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
    same("tp_name", LS_TYPE_NAME, offsetof(PyTypeObject, tp_name));
    same("tp_basicsize", LS_TYPE_BASIC_SIZE, offsetof(PyTypeObject, tp_basicsize));
    same("tp_flags", LS_TYPE_FLAGS, offsetof(PyTypeObject, tp_flags));
    same("tp_traverse", LS_TYPE_TRAVERSE, offsetof(PyTypeObject, tp_traverse));
    same("tp_dict", LS_TYPE_DICT, offsetof(PyTypeObject, tp_dict));
    same("tp_descr_get", LS_TYPE_DESCR_GET, offsetof(PyTypeObject, tp_descr_get));
    same("tp_dictoffset", LS_TYPE_DICT_OFFSET, offsetof(PyTypeObject, tp_dictoffset));
    same("tp_mro", LS_TYPE_MRO, offsetof(PyTypeObject, tp_mro));
    same("heap type", LS_TYPE_HEAP, Py_TPFLAGS_HEAPTYPE);
    same("has references", LS_TYPE_HAVE_GC, Py_TPFLAGS_HAVE_GC);
    same("list", LS_TYPE_IS_LIST, Py_TPFLAGS_LIST_SUBCLASS);
    same("tuple", LS_TYPE_IS_TUPLE, Py_TPFLAGS_TUPLE_SUBCLASS);
    same("str", LS_TYPE_IS_STR, Py_TPFLAGS_UNICODE_SUBCLASS);
    same("dict", LS_TYPE_IS_DICT, Py_TPFLAGS_DICT_SUBCLASS);
    same("exception", LS_TYPE_IS_EXCEPTION, Py_TPFLAGS_BASE_EXC_SUBCLASS);
    same("type", LS_TYPE_IS_TYPE, Py_TPFLAGS_TYPE_SUBCLASS);
    same("d_name", MEMBER_NAME, offsetof(PyMemberDescrObject, d_common.d_name));
    same("d_member", MEMBER_DEFINITION, offsetof(PyMemberDescrObject, d_member));
    same("d_getset", LS_GETTER_DEFINITION, offsetof(PyGetSetDescrObject, d_getset));
    same("member's name", DEFINITION_NAME, offsetof(PyMemberDef, name));
    same("member's type", DEFINITION_TYPE, offsetof(PyMemberDef, type));
    same("member's offset", DEFINITION_OFFSET, offsetof(PyMemberDef, offset));
    same("an object", IS_OBJECT, T_OBJECT);
    same("an object or none", IS_OBJECT_OR_NOT_SET, T_OBJECT_EX);
    same("tb_frame", LS_TRACEBACK_FRAME, offsetof(PyTracebackObject, tb_frame));
    same("tb_lasti", LS_TRACEBACK_AT, offsetof(PyTracebackObject, tb_lasti));
}

#if PY_VERSION_HEX < 0x030b0000
static void check_frames(const struct ls_python_layout *ours) {
    same("tstate->frame", ours->thread_frame, offsetof(PyThreadState, frame));
    same("f_back", ours->back, offsetof(PyFrameObject, f_back));
    same("f_code", ours->code, offsetof(PyFrameObject, f_code));
    same("f_lasti", ours->instruction, offsetof(PyFrameObject, f_lasti));
    same("f_localsplus", ours->locals, offsetof(PyFrameObject, f_localsplus));
    same("f_valuestack", ours->stack, offsetof(PyFrameObject, f_valuestack));
    same("f_locals", ours->name_space, offsetof(PyFrameObject, f_locals));
    same("co_varnames", ours->names, offsetof(PyCodeObject, co_varnames));
    same("co_cellvars", ours->cells, offsetof(PyCodeObject, co_cellvars));
    same("co_freevars", ours->free, offsetof(PyCodeObject, co_freevars));
    same("owner", ours->owner, 0);
#if PY_VERSION_HEX >= 0x030a0000
    same("f_stackdepth", ours->top, offsetof(PyFrameObject, f_stackdepth));
    same("f_lasti's unit", ours->unit, 2);
    same("co_linetable", ours->lines, offsetof(PyCodeObject, co_linetable));
#else
    same("f_stacktop", ours->top, offsetof(PyFrameObject, f_stacktop));
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
    same("localsplus", ours->locals, offsetof(_PyInterpreterFrame, localsplus));
    same("co_localsplusnames", ours->names, offsetof(PyCodeObject, co_localsplusnames));
#if PY_VERSION_HEX < 0x030e0000
    same("stacktop", ours->top, offsetof(_PyInterpreterFrame, stacktop));
    same("f_locals", ours->name_space, offsetof(_PyInterpreterFrame, f_locals));
    same("f_frame", ours->frame_behind, offsetof(PyFrameObject, f_frame));
    same("gi_iframe", ours->generator, offsetof(PyGenObject, gi_iframe));
    same("gi_frame_state", ours->generator_state, offsetof(PyGenObject, gi_frame_state));
    same("a frame that runs", 0, FRAME_EXECUTING);
    same("a copy of a frame", OWNED_BY_FRAME_OBJECT, FRAME_OWNED_BY_FRAME_OBJECT);
    same("ht_cached_keys", ours->keys, offsetof(PyHeapTypeObject, ht_cached_keys));
    same("dk_log2_index_bytes", KEYS_LOG2_INDEX_BYTES,
         offsetof(PyDictKeysObject, dk_log2_index_bytes));
    same("dk_kind", KEYS_KIND, offsetof(PyDictKeysObject, dk_kind));
    same("dk_nentries", KEYS_COUNT, offsetof(PyDictKeysObject, dk_nentries));
    same("dk_indices", KEYS_INDICES, offsetof(PyDictKeysObject, dk_indices));
    same("split", KEYS_SPLIT, DICT_KEYS_SPLIT);
    same("an entry", 16, sizeof(PyDictUnicodeEntry));
    same("managed dict", LS_TYPE_MANAGED_DICT, Py_TPFLAGS_MANAGED_DICT);
#endif
#if PY_VERSION_HEX >= 0x030d0000
    same("inline values", LS_TYPE_INLINE_VALUES, Py_TPFLAGS_INLINE_VALUES);
    same("values", VALUES_FIRST, offsetof(PyDictValues, values));
    same("values are valid", VALUES_VALID, offsetof(PyDictValues, valid));
#endif
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
    offsets->interpreter_frame.localsplus = offsetof(_PyInterpreterFrame, localsplus);
    offsets->interpreter_frame.owner = offsetof(_PyInterpreterFrame, owner);
    offsets->code_object.filename = offsetof(PyCodeObject, co_filename);
    offsets->code_object.name = offsetof(PyCodeObject, co_name);
    offsets->code_object.linetable = offsetof(PyCodeObject, co_linetable);
    offsets->code_object.localsplusnames = offsetof(PyCodeObject, co_localsplusnames);
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
