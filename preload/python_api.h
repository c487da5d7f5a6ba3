/*
 * python_api.h - the interpreter's own functions and types, by their names.
 *
 * Filled in together with ls_python (python_layout.h). They may be called only where its own code
 * might be: with the GIL, between two of its instructions. Py_AddPendingCall alone needs no GIL.
 */
#ifndef LS_PYTHON_API_H
#define LS_PYTHON_API_H

#include <stdbool.h>

struct ls_python_api {
#define NEEDED(ret, name, params) ret(*name) params;
#define OBJECT(name) void *name;
#include "python_api.def"
};
extern struct ls_python_api ls_py;

/* Look all of them up, by the loader. False: one that is needed is missing. */
bool ls_python_api_find(void);

/* gc.NAME(). A new reference; NULL: it raised (and that is gone), or the module is not loaded. */
void *ls_python_gc(const char *name);

#endif
