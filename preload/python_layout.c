/*
 * python_layout.c - see python_layout.h. Runs once, in the thread that starts a recording, or
 * later where an interpreter is loaded later.
 *
 * The table was read off the headers of each version (with Py_BUILD_CORE); tests/python compiles
 * the same offsets against the headers of every version that is installed. Within one minor
 * version CPython keeps these structures as they are. Whatever is wrong here is caught before it
 * matters: python_check.c looks at the first stack without trusting any of it, and compares with
 * the interpreter's own answers after that.
 */
#include "python_layout.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layoutspy/format.h"
#include "python_api.h"

struct ls_python ls_python;

#define OLDEST 9
#define NEWEST 14
#define PUBLISHED 13 /* from here on _PyRuntime tells the offsets */
#define NO_OWNER 255

static const struct ls_python_layout table[] = {
    {
        .minor = 9,
        .thread_frame = 24,
        .back = 24,
        .code = 32,
        .instruction = 104,
        .unit = 1,
        .name = 112,
        .file = 104,
        .first_line = 40,
        .lines = 120,
        .line_format = LS_PYTHON_LINES_LNOTAB,
        .ascii = 48,
        .wide = 72,
        .locals = 360,
        .names = 72,
        .cells = 88,
        .free = 80,
        .stack = 64,
        .top = 72,
        .name_space = 56,
    },
    {
        .minor = 10,
        .thread_frame = 24,
        .back = 24,
        .code = 32,
        .instruction = 96,
        .unit = 2,
        .name = 112,
        .file = 104,
        .first_line = 40,
        .lines = 120,
        .line_format = LS_PYTHON_LINES_RANGES,
        .ascii = 48,
        .wide = 72,
        .locals = 352,
        .names = 72,
        .cells = 88,
        .free = 80,
        .stack = 64,
        .top = 80,
        .name_space = 56,
    },
    {
        .minor = 11,
        .thread_frame = 56,
        .chain = true,
        .chain_frame = 8,
        .back = 48,
        .code = 32,
        .instruction = 56,
        .owner = 69,
        .hidden = NO_OWNER,
        .name = 120,
        .file = 112,
        .first_line = 72,
        .lines = 136,
        .traceable = 168,
        .start = 184,
        .line_format = LS_PYTHON_LINES_LOCATIONS,
        .ascii = 48,
        .wide = 72,
        .locals = 72,
        .names = 96,
        .top = 64,
        .name_space = 24,
        .frame_behind = 24,
        .generator = 80,
        .generator_state = 75,
        .keys = 872,
    },
    {
        .minor = 12,
        .thread_frame = 56,
        .chain = true,
        .chain_frame = 0,
        .back = 8,
        .code = 0,
        .instruction = 56,
        .owner = 70,
        .hidden = 3,
        .name = 120,
        .file = 112,
        .first_line = 68,
        .lines = 136,
        .version = 92,
        .traceable = 176,
        .start = 192,
        .line_format = LS_PYTHON_LINES_LOCATIONS,
        .ascii = 40,
        .wide = 56,
        .locals = 72,
        .names = 96,
        .top = 64,
        .name_space = 40,
        .frame_behind = 24,
        .generator = 72,
        .generator_state = 67,
        .keys = 880,
    },
};

/* Which 64-bit word of _PyRuntime holds what, by minor version. Words 0 to 2 are a cookie, the
 * version and whether the build is free-threaded. */
enum word {
    FRAME,
    BACK,
    CODE,
    INSTRUCTION,
    LOCALS,
    OWNER,
    FILE_NAME,
    NAME,
    LINES,
    FIRST_LINE,
    NAMES,
    START,
    ASCII
};
static const uint8_t words[][13] = {
    [0] = {[FRAME] = 23,
           [BACK] = 29,
           [CODE] = 30,
           [INSTRUCTION] = 31,
           [LOCALS] = 32,
           [OWNER] = 33,
           [FILE_NAME] = 35,
           [NAME] = 36,
           [LINES] = 38,
           [FIRST_LINE] = 39,
           [NAMES] = 41,
           [START] = 43,
           [ASCII] = 70},
    [1] = {[FRAME] = 26,
           [BACK] = 32,
           [CODE] = 33,
           [INSTRUCTION] = 34,
           [LOCALS] = 35,
           [OWNER] = 36,
           [FILE_NAME] = 40,
           [NAME] = 41,
           [LINES] = 43,
           [FIRST_LINE] = 44,
           [NAMES] = 46,
           [START] = 48,
           [ASCII] = 80},
};
#define LARGEST_OFFSET 4096 /* of any that is believed */

/* From what the interpreter publishes. Of what a stack needs, three offsets are not told; they have
 * kept their distance to others since 3.12: co_version follows co_firstlineno by six ints,
 * _co_firsttraceable and co_extra lie before the instructions, and a str with other than ASCII
 * letters has two more words before them. */
static const char *read_published(struct ls_python_layout *layout, unsigned minor,
                                  const uint64_t *runtime) {
    if (!runtime || memcmp(runtime, "xdebugpy", 8) != 0 || runtime[1] >> 16 != (0x300u | minor))
        return "it does not publish the offsets that this version should";
    if (runtime[2] != 0)
        return "free-threaded builds are not supported";
    const uint8_t *at = words[minor - PUBLISHED];
    for (unsigned i = 0; i < sizeof words[0]; i++)
        if (runtime[at[i]] >= LARGEST_OFFSET)
            return "an offset that it publishes cannot be";
    uint16_t start = (uint16_t)runtime[at[START]], ascii = (uint16_t)runtime[at[ASCII]];
    uint16_t first_line = (uint16_t)runtime[at[FIRST_LINE]];
    *layout = (struct ls_python_layout){
        .minor = (uint16_t)minor,
        .thread_frame = (uint16_t)runtime[at[FRAME]],
        .back = (uint16_t)runtime[at[BACK]],
        .code = (uint16_t)runtime[at[CODE]],
        .instruction = (uint16_t)runtime[at[INSTRUCTION]],
        .owner = (uint16_t)runtime[at[OWNER]],
        .hidden = 3,
        .name = (uint16_t)runtime[at[NAME]],
        .file = (uint16_t)runtime[at[FILE_NAME]],
        .first_line = first_line,
        .lines = (uint16_t)runtime[at[LINES]],
        .version = (uint16_t)(first_line + 6 * sizeof(int)),
        .traceable = (uint16_t)(start - 2 * sizeof(void *)),
        .start = start,
        .line_format = LS_PYTHON_LINES_LOCATIONS,
        .ascii = ascii,
        .wide = (uint16_t)(ascii + 2 * sizeof(void *)),
        .locals = (uint16_t)runtime[at[LOCALS]],
        .names = (uint16_t)runtime[at[NAMES]],
    };
    if (minor == PUBLISHED) { /* as in 3.12 */
        const struct ls_python_layout *before = &table[PUBLISHED - 1 - OLDEST];
        layout->top = before->top;
        layout->name_space = before->name_space;
        layout->frame_behind = before->frame_behind;
        layout->generator = before->generator;
        layout->generator_state = before->generator_state;
        layout->keys = before->keys;
    }
    return NULL;
}

static const char *find_layout(struct ls_python_layout *layout, const char *version) {
    char *end;
    unsigned long major = strtoul(version, &end, 10);
    unsigned long minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
    if (major != 3 || minor < OLDEST || minor > NEWEST)
        return "only versions 3.9 to 3.14 are known";
    if (minor >= PUBLISHED)
        return read_published(layout, (unsigned)minor, ls_python_symbol("_PyRuntime"));
    *layout = table[minor - OLDEST];
    return NULL;
}

/* libpython, where it was loaded for its loader's eyes only (RTLD_LOCAL). */
static int find_library(struct dl_phdr_info *info, size_t size, void *data) {
    char *path = data;
    (void)size;
    const char *base = strrchr(info->dlpi_name, '/');
    base = base ? base + 1 : info->dlpi_name;
    bool stub = strncmp(base, "libpython3.so", 13) == 0; /* for the stable ABI: no interpreter */
    if (stub || strncmp(base, "libpython3.", 11) != 0 || strlen(info->dlpi_name) >= LS_PATH_MAX)
        return 0;
    strcpy(path, info->dlpi_name);
    return 1;
}

#define ENTRY "PyGILState_GetThisThreadState"

static bool find_handle(void **handle) {
    char path[LS_PATH_MAX];
    *handle = RTLD_DEFAULT;
    if (dlsym(RTLD_DEFAULT, ENTRY))
        return true;
    if (!dl_iterate_phdr(find_library, path))
        return false;
    *handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD); /* never closed: what was found must stay */
    return *handle && dlsym(*handle, ENTRY);
}

void *ls_python_symbol(const char *name) {
    return dlsym(ls_python.handle, name);
}

/* Data and functions alike: what POSIX says of dlsym() holds here. */
static bool find_symbols(struct ls_python *python) {
    void *finalizing = ls_python_symbol("_Py_IsFinalizing"); /* its name until 3.12 */
    if (!finalizing)
        finalizing = ls_python_symbol("Py_IsFinalizing");
    python->this_thread = (void *(*)(void))ls_python_symbol(ENTRY);
    python->is_finalizing = (int (*)(void))finalizing;
    return python->this_thread && finalizing && ls_python_api_find();
}

static _Atomic bool known;

bool ls_python_known(void) {
    return atomic_load_explicit(&known, memory_order_acquire);
}

enum ls_python_found ls_python_find(const char **why) {
    struct ls_python *python = &ls_python;
    if (ls_python_known())
        return LS_PYTHON_KNOWN; /* in a forked child */
    if (!find_handle(&python->handle))
        return LS_PYTHON_NONE;
    const char *(*version)(void) = (const char *(*)(void))ls_python_symbol("Py_GetVersion");
    if (!version)
        return LS_PYTHON_NONE; /* it only calls itself alike */
    const char *text = version();
    snprintf(python->name, sizeof python->name, "CPython %.*s", (int)strcspn(text, " "), text);
    *why = find_layout(&python->layout, text);
    if (!*why && !find_symbols(python))
        *why = "it does not export what is needed";
    python->refused = *why;
    atomic_store_explicit(&known, !*why, memory_order_release);
    return *why ? LS_PYTHON_REFUSED : LS_PYTHON_KNOWN;
}
