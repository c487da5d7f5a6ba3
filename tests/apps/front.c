/*
 * front.c - a library whose functions begin with "cu" and that looks its own names up, as cuDNN's
 * front does in the libraries behind it: built as the front, and with BACK as what is behind it.
 */
#include <dlfcn.h>
#include <string.h>

#include "expect.h"

__attribute__((visibility("default"))) int cuFrontAnswer(void);

#ifdef BACK
int cuFrontAnswer(void) {
    return 42;
}
#else
int cuFrontAnswer(void) {
    Dl_info info;
    int (*behind)(void);
    char path[4096];
    EXPECT(dladdr((void *)cuFrontAnswer, &info));
    snprintf(path, sizeof path, "%s", info.dli_fname);
    char *slash = strrchr(path, '/');
    snprintf(slash + 1, sizeof path - (size_t)(slash + 1 - path), "libcuda_front_back.so");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    EXPECT(library != NULL);
    void *found = dlsym(library, "cuFrontAnswer");
    EXPECT(found != NULL && found != (void *)cuFrontAnswer);
    memcpy(&behind, &found, sizeof found);
    return behind();
}
#endif
