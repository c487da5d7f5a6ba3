/*
 * census_roots.c - where the walk of a census starts, and in which order. See census_walk.h.
 *
 * What people call a thing by comes first: variables of the program, of functions that run, of its
 * modules, of other modules. Exceptions come last: a tensor whose only paths lead through one is
 * there because of it. Each module is a root of its own, known before the walk begins, so that no
 * path leads from one module through the import of another one.
 */
#include "census_tensor.h"
#include "census_walk.h"
#include "python_layout.h"
#include "python_walk.h"

/* ms after the beginning, in which each phase has to be over. The half of the 2 s that a census may
 * take is for telling what was found. */
enum { UNTIL_MAIN = 500, UNTIL_FRAMES = 650, UNTIL_MODULES = 850, UNTIL_RAISED = 950 };

#define FRAMES_MAX 1024 /* of one thread: the innermost ones */
#define THREADS_MAX 4096
#define RAISED_MAX 64

struct roots {
    uint32_t first_module, end_of_modules; /* nodes */
    uint32_t raised[RAISED_MAX];
    uint32_t raised_count;
};

/* ---- exceptions ---- */

static void put_raised(struct ls_census *c, struct roots *roots, void *object) {
    if (!object || object == ls_py._Py_NoneStruct || roots->raised_count == RAISED_MAX)
        return;
    uint32_t node = ls_census_root(c, (uintptr_t)object, LS_EDGE_ROOT_RAISED, 0, LS_TENSOR_RAISED);
    if (node != LS_CENSUS_NONE)
        roots->raised[roots->raised_count++] = node;
}

/* Which each thread is handling: {thread: exception}, up to 3.11 {thread: (type, it, traceback)}.
 */
static void put_handled(struct ls_census *c, struct roots *roots) {
    void *found = ls_py._PyThread_CurrentExceptions ? ls_py._PyThread_CurrentExceptions() : NULL;
    long position = 0;
    void *key, *value;
    while (found && ls_py.PyDict_Next(found, &position, &key, &value)) {
        bool parts = ls_python_type_flags(ls_python_type((uintptr_t)value)) & LS_TYPE_IS_TUPLE;
        put_raised(c, roots, parts ? ls_py.PyTuple_GetItem(value, 1) : value);
    }
    if (found) {
        ls_py.Py_DecRef(found);
        return;
    }
    ls_py.PyErr_Clear();
    void *part[3] = {NULL, NULL, NULL};
    ls_py.PyErr_GetExcInfo(&part[0], &part[1], &part[2]);
    put_raised(c, roots, part[1]);
    for (unsigned i = 0; i < 3; i++)
        if (part[i])
            ls_py.Py_DecRef(part[i]);
}

static void put_exceptions(struct ls_census *c, struct roots *roots) {
    put_handled(c, roots);
    void *last = ls_py.PySys_GetObject("last_exc"); /* from 3.12 on */
    put_raised(c, roots, last ? last : ls_py.PySys_GetObject("last_value"));
    c->hidden =
        (uintptr_t)ls_py.PySys_GetObject("last_traceback"); /* by the exception, not by sys */
}

static void walk_raised(struct ls_census *c, const struct roots *roots) {
    c->tracebacks = true;
    c->hidden = 0;
    for (uint32_t i = 0; i < roots->raised_count; i++)
        ls_census_walk_from(c, roots->raised[i]);
    for (uint32_t i = 0; i < c->laters; i++)
        ls_census_walk_from(c, c->later[i]);
}

/* ---- modules ---- */

/* How a str ends. */
static bool is_named(uintptr_t text, const char *name, size_t length) {
    struct ls_python_text found = ls_python_text(text);
    return found.kind == 1 && found.length >= length &&
           !memcmp((const char *)found.data + found.length - length, name, length);
}
#define IS_NAMED(text, name) is_named(text, name, sizeof(name) - 1)

static bool is_module(uintptr_t object) {
    uintptr_t type = ls_python_type(object);
    return type == (uintptr_t)ls_py.PyModule_Type ||
           ls_py.PyType_IsSubtype((void *)type, ls_py.PyModule_Type);
}

static void put_modules(struct ls_census *c, struct roots *roots) {
    void *modules = ls_py.PyImport_GetModuleDict(), *name, *module;
    long position = 0;
    ls_census_root(c, (uintptr_t)modules, LS_EDGE_ROOT_MODULE, 0, LS_TENSOR_GLOBAL);
    roots->first_module = c->nodes;
    while (ls_py.PyDict_Next(modules, &position, &name, &module)) {
        if (!(ls_census_traits(c, (uintptr_t)module) & LS_TRAIT_GC) ||
            !ls_python_is_str((uintptr_t)name))
            continue;
        if (is_module((uintptr_t)module)) {
            uintptr_t dict = (uintptr_t)ls_py.PyModule_GetDict(module);
            bool main = IS_NAMED((uintptr_t)name, "__main__") &&
                        ls_python_text((uintptr_t)name).length == 8;
            ls_census_root(c, dict, main ? LS_EDGE_ROOT_MAIN : LS_EDGE_ROOT_MODULE, (uintptr_t)name,
                           LS_TENSOR_GLOBAL);
        }
        ls_census_root(c, (uintptr_t)module, LS_EDGE_ROOT_MODULE, (uintptr_t)name,
                       LS_TENSOR_GLOBAL);
    }
    roots->end_of_modules = c->nodes;
}

static void walk_main(struct ls_census *c, const struct roots *roots) {
    for (uint32_t i = roots->first_module; i < roots->end_of_modules; i++)
        if (c->node[i].kind == LS_EDGE_ROOT_MAIN)
            ls_census_walk_from(c, i);
}

static bool is_users(struct ls_census *c, uint32_t i) {
    uintptr_t object = c->node[i].object;
    if (!(ls_census_traits(c, object) & LS_TRAIT_DICT))
        return false;
    void *file = ls_py.PyDict_GetItemString((void *)object, "__file__");
    return file && ls_python_is_str((uintptr_t)file) && !ls_python_is_installed((uintptr_t)file);
}

static void walk_modules(struct ls_census *c, const struct roots *roots) {
    for (int users = 1; users >= 0; users--)
        for (uint32_t i = roots->first_module; i < roots->end_of_modules; i++)
            if (c->node[i].kind == LS_EDGE_ROOT_MODULE && is_users(c, i) == users)
                ls_census_walk_from(c, i);
}

/* Classes that no module knows, by their objects. */
static void walk_classes(struct ls_census *c) {
    for (uint32_t i = 0; i < c->nodes && !ls_census_late(c); i++) {
        if (c->node[i].kind == LS_EDGE_ROOT_FRAME)
            continue;
        uintptr_t type = ls_python_type(c->node[i].object);
        uint32_t before = c->nodes;
        if (ls_python_type_flags(type) & LS_TYPE_HEAP && ls_census_find(c, type) == LS_CENSUS_NONE)
            ls_census_reach(c, i, type, LS_EDGE_CLASS, 0);
        if (c->nodes != before)
            ls_census_walk_from(c, before);
    }
}

/* ---- frames ---- */

/* PyTorch's engine works for the thread with this frame, in threads of its own, without the GIL. */
static bool runs_backward(const struct ls_census *c, uintptr_t frame) {
    uintptr_t code = ls_python_frame_code(frame);
    uintptr_t name = ls_python_word(code, ls_python.layout.name);
    if (c->torch->one_way_to_engine)
        return IS_NAMED(name, "_engine_run_backward");
    return (IS_NAMED(name, "backward") || IS_NAMED(name, "grad")) &&
           IS_NAMED(ls_python_word(code, ls_python.layout.file), "/torch/autograd/__init__.py");
}

/* Outermost first: what a program's main function calls a thing says more than the `self` of what
 * it called last. */
static void walk_thread(struct ls_census *c, uintptr_t thread, bool own) {
    uintptr_t frame[FRAMES_MAX], next = ls_python_innermost(thread);
    unsigned count = 0;
    while ((next = ls_python_next_frame(next)) && count < FRAMES_MAX) {
        frame[count++] = next;
        /* Where this very thread is just in that function, the engine is done, or not at work yet.
         */
        c->backward |= (count > 1 || !own) && runs_backward(c, next);
        next = ls_python_word(next, ls_python.layout.back);
    }
    while (count > 0) {
        uint32_t node = ls_census_root(c, frame[--count], LS_EDGE_ROOT_FRAME, 0, LS_TENSOR_LOCAL);
        if (node != LS_CENSUS_NONE)
            ls_census_walk_from(c, node);
    }
}

/* Other threads stand still, for they wait for the GIL or run no Python. */
static void walk_frames(struct ls_census *c) {
    void *own = ls_python.this_thread();
    if (own)
        walk_thread(c, (uintptr_t)own, true);
    void *thread = ls_py.PyInterpreterState_ThreadHead(ls_py.PyInterpreterState_Get());
    for (unsigned i = 0; thread && i < THREADS_MAX; i++) {
        if (thread != own)
            walk_thread(c, (uintptr_t)thread, false);
        thread = ls_py.PyThreadState_Next(thread);
    }
}

void ls_census_roots(struct ls_census *c) {
    struct roots roots = {.raised_count = 0};
    ls_census_phase(c, UNTIL_MAIN);
    put_exceptions(c, &roots);
    put_modules(c, &roots);
    walk_main(c, &roots);
    ls_census_phase(c, UNTIL_FRAMES);
    walk_frames(c);
    ls_census_phase(c, UNTIL_MODULES);
    walk_modules(c, &roots);
    walk_classes(c);
    ls_census_phase(c, UNTIL_RAISED);
    walk_raised(c, &roots);
}
