/*
 * python_api.c - see python_api.h. Runs once, in the thread that finds an interpreter; the
 * calls, in the interpreter's main thread.
 */
#include "python_api.h"

#include <stddef.h>

#include "python_layout.h"

struct ls_python_api ls_py;

bool ls_python_api_find(void) {
    static const struct {
        const char *name;
        void **where;
        bool needed;
    } wanted[] = {
#define NEEDED(ret, name, params) {#name, (void **)&ls_py.name, true},
#define OPTIONAL(ret, name, params) {#name, (void **)&ls_py.name, false},
#define OBJECT(name) {#name, &ls_py.name, true},
#include "python_api.def"
    };
    for (unsigned i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!(*wanted[i].where = ls_python_symbol(wanted[i].name)) && wanted[i].needed)
            return false;
    return true;
}

void *ls_python_gc(const char *name) {
    void *module = ls_py.PyDict_GetItemString(ls_py.PyImport_GetModuleDict(), "gc");
    void *function =
        module ? ls_py.PyDict_GetItemString(ls_py.PyModule_GetDict(module), name) : NULL;
    void *result = function ? ls_py.PyObject_CallFunctionObjArgs(function, NULL) : NULL;
    if (!result)
        ls_py.PyErr_Clear();
    return result;
}
