/*
 * two_runtimes.c - two CUDA runtimes in one process, each with a plugin that is linked to it.
 * Arguments: what to do ("a" and "b" load a plugin, "A" and "B" use it), and the two plugins.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void *function(void *library, const char *name) {
    void *found = library ? dlsym(library, name) : NULL;
    if (!found) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return found;
}

int main(int argc, char **argv) {
    void *plugin[2] = {NULL, NULL};

    if (argc != 4)
        return 2;
    for (const char *what = argv[1]; *what; what++) {
        int n = *what == 'b' || *what == 'B';
        if (*what >= 'a')
            plugin[n] = dlopen(argv[2 + n], RTLD_NOW | RTLD_LOCAL);
        else
            ((void (*)(void))function(plugin[n], "plugin_use"))();
    }
    /* A library's handle finds what the library is linked to. */
    ((void (*)(void))function(plugin[1], "own_runtime_say"))();
    return 0;
}
