/*
 * reload.c - a plugin is loaded, used and unloaded again and again, so that its stacks are other
 * stacks each time. Arguments: the plugin, how often, different stacks each time.
 */
#include <dlfcn.h>

#include "own_runtime.h"

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    for (int i = 0; i < atoi(argv[2]); i++) {
        void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        EXPECT(plugin != NULL);
        void (*run)(int) = (void (*)(int))dlsym(plugin, "reload_run");
        EXPECT(run != NULL);
        run(atoi(argv[3]));
        CHECK(dlclose(plugin));
        EXPECT(dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) == NULL); /* really gone */
    }
    printf("done\n");
    return 0;
}
