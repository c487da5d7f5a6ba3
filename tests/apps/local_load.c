/*
 * local_load.c - loading at run time, as Python does: the program itself knows no CUDA, it opens
 * libcudart and a plugin that needs it, both RTLD_LOCAL. Arguments: libcudart's name, the plugin,
 * and "deepbind" to have the plugin look its symbols up in its own libraries first.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *load(const char *path, int flags) {
    void *handle = dlopen(path, flags);
    if (handle == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return handle;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    int deep = argc > 3 && strcmp(argv[3], "deepbind") == 0 ? RTLD_DEEPBIND : 0;
    load(argv[1], RTLD_NOW | RTLD_LOCAL | deep);
    void *plugin = load(argv[2], RTLD_NOW | RTLD_LOCAL | deep);
    int (*run)(int) = (int (*)(int))dlsym(plugin, "plugin_run");
    if (run == NULL)
        return 1;
    printf("value %d\n", run(25));
    return 0;
}
