/*
 * embed.c - a program that brings Python in late, or not to stay: embed LIBPYTHON local|global.
 *
 * Calls before there is an interpreter, in its first life, between its two lives, in the second,
 * and after it. Python code sees one function, cuda(n), which asks for n bytes and frees them. The
 * interpreter's stable interface is declared here: the program is built once, for any version.
 */
#include <dlfcn.h>
#include <string.h>

#include "cuda_app.h"

/* More calls than the first part of a spool holds: where nothing of Python was there at the first
 * call, the library looks again now and then. */
#define MANY 4000

static void *python;

static void *find(const char *name) {
    void *found = dlsym(python, name);
    if (!found) {
        fprintf(stderr, "embed: no %s\n", name);
        exit(9);
    }
    return found;
}

static void ask(size_t size) {
    void *p = NULL;
    CHECK(cudaMalloc(&p, size));
    CHECK(cudaFree(p));
    CHECK(cudaDeviceSynchronize()); /* Python is looked for where no allocator waits */
}

static void *cuda(void *self, void *number) {
    (void)self;
    size_t (*as_size)(void *) = (size_t(*)(void *))find("PyLong_AsSize_t");
    ask(as_size(number));
    void *none = find("_Py_NoneStruct");
    ((void (*)(void *))find("Py_IncRef"))(none);
    return none;
}

static struct {
    const char *name;
    void *(*function)(void *, void *);
    int flags; /* 8: one argument */
    const char *doc;
} definition = {"cuda", cuda, 8, NULL};

static void live(const char *script) {
    ((void (*)(int))find("Py_InitializeEx"))(0);
    void *(*add_module)(const char *) = (void *(*)(const char *))find("PyImport_AddModule");
    void *(*make)(void *, void *, void *) =
        (void *(*)(void *, void *, void *))find("PyCFunction_NewEx");
    int (*add)(void *, const char *, void *) =
        (int (*)(void *, const char *, void *))find("PyModule_AddObject");
    add(add_module("__main__"), "cuda", make(&definition, NULL, NULL));
    int (*run)(const char *, void *) =
        (int (*)(const char *, void *))find("PyRun_SimpleStringFlags");
    if (run(script, NULL) != 0)
        exit(8);
    ask(1003); /* an interpreter, and no frame of its own around */
    if (((int (*)(void))find("Py_FinalizeEx"))() != 0)
        exit(7);
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    ask(1000);
    int scope = strcmp(argv[2], "local") == 0 ? RTLD_LOCAL : RTLD_GLOBAL;
    python = dlopen(argv[1], RTLD_NOW | scope);
    if (!python) {
        fprintf(stderr, "embed: %s\n", dlerror());
        return 9;
    }
    for (int i = 0; i < MANY; i++)
        ask(1001);
    live("def f():\n    cuda(2000)\n    g()\ndef g():\n    cuda(2001)\nf()\n");
    ask(1002);
    live(
        "\ndef f(): cuda(2002)\n\nclass Late:\n    def __del__(self): cuda(2003)\nlate = Late()\nf()\n");
    ask(1004);
    puts("done");
    return 0;
}
