/*
 * Checks the libunwind that tools/libunwind/build made.
 *
 * This file is compiled four ways: as the program; with CHECK_UNWINDER as the
 * shared object that libunwind is linked into; and twice with CHECK_PAD as a
 * plugin, whose one function has a frame of that size. The two plugins differ
 * in nothing else, so that their code has the same addresses when one is
 * loaded where the other was.
 *
 * usage: check UNWINDER.so PLUGIN1.so PLUGIN2.so
 */
#define _GNU_SOURCE

typedef int (*check_sample_fn)(void);

#if defined(CHECK_PAD)

int check_plugin_call(check_sample_fn sample);

int check_plugin_call(check_sample_fn sample) {
    volatile char pad[CHECK_PAD];

    pad[0] = 0;
    pad[CHECK_PAD - 1] = 0;
    return sample() + pad[0] + pad[CHECK_PAD - 1];
}

#elif defined(CHECK_UNWINDER)

#define UNW_LOCAL_ONLY
#include <libunwind-layoutspy.h>
#include <libunwind.h>

int check_take(void **frames, int size);
int check_take_slowly(void **frames, int size);
int check_take_walking(void **frames, int size);
void check_unloaded(void);
void check_after_fork(void);

/* By libunwind's fast trace. The first frame is check_take itself. */
int check_take(void **frames, int size) {
    return unw_backtrace(frames, size);
}

/* By one unw_step() a frame, for the same result. */
int check_take_slowly(void **frames, int size) {
    unw_context_t context;
    unw_cursor_t cursor;
    unw_word_t ip;
    int n = 0;

    unw_getcontext(&context);
    unw_init_local(&cursor, &context);
    do {
        unw_get_reg(&cursor, UNW_REG_IP, &ip);
        frames[n++] = (void *)ip;
    } while (n < size && unw_step(&cursor) > 0);
    return n;
}

/* By a walk from this function's own caller; and again by what the walk noted. */
int check_take_walking(void **frames, int size) {
    struct ls_unw_load loads[256];
    unsigned long *frame = __builtin_frame_address(0);
    struct ls_unw_walk walk = {
        .ip = frame[1],
        .sp = (unsigned long)(frame + 2),
        .bp = frame[0],
        .frame = frames + 1,
        .room = size - 1,
        .load = loads,
        .load_room = 256,
    };
    int i;

    frames[0] = (void *)check_take_walking;
    if (ls_unw_walk(&walk) < 0)
        return check_take(frames, size);
    for (i = 0; i < walk.loads; i++)
        if (*(unsigned long *)loads[i].address != loads[i].value)
            return 0;
    return walk.depth + 1;
}

void check_unloaded(void) {
    __atomic_fetch_add(&ls_unw_generation, 1, __ATOMIC_RELEASE);
}

void check_after_fork(void) {
    ls_unw_after_fork();
}

#else

#include <dirent.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_FRAMES = 64 };

typedef int (*plugin_call_fn)(check_sample_fn sample);
typedef int (*take_fn)(void **frames, int size);

static take_fn take_fast;
static take_fn take_slowly;
static take_fn take_walking;
static void (*unloaded)(void);
static void (*after_fork)(void);
static take_fn take;

static int failures;
static void *caller_of_sample;
static int depth_of_sample;

static void expect(bool ok, const char *format, ...) {
    va_list args;

    if (ok)
        return;
    failures++;
    fputs("libunwind check: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

/* Every allocation of the program goes through these. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);

static _Thread_local long allocations;

void *malloc(size_t size) {
    allocations++;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    allocations++;
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size) {
    allocations++;
    return __libc_realloc(block, size);
}

/*
 * Takes the stack by libunwind and by glibc; returns 0 if they agree. Both
 * begin with the call from here, which is another one for each.
 */
__attribute__((noinline)) static int sample(void) {
    void *ours[MAX_FRAMES], *theirs[MAX_FRAMES];
    long before;
    int n, m;

    before = allocations;
    n = take(ours, MAX_FRAMES) - 1;
    expect(allocations == before, "libunwind allocated %ld times", allocations - before);
    m = backtrace(theirs, MAX_FRAMES);
    caller_of_sample = __builtin_return_address(0);
    depth_of_sample = n;
    if (n != m)
        return 1;
    return memcmp(ours + 2, theirs + 1, (size_t)(n - 1) * sizeof(void *)) != 0;
}

static int open_descriptors(void) {
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static int lines_of(const char *path) {
    FILE *file = fopen(path, "r");
    int c, n = 0;

    while ((c = getc(file)) != EOF)
        n += c == '\n';
    fclose(file);
    return n;
}

static int call_plugin(const char *path, void **caller) {
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    plugin_call_fn call;
    int differs;

    if (!plugin) {
        fprintf(stderr, "libunwind check: %s\n", dlerror());
        exit(2);
    }
    call = (plugin_call_fn)dlsym(plugin, "check_plugin_call");
    differs = call(sample);
    *caller = caller_of_sample;
    dlclose(plugin);
    return differs;
}

/*
 * One library is unloaded and another lands at its address. Without a word
 * about it libunwind errs, which shows that the case is the one in question.
 */
static void check_reload(const char *how, const char *path1, const char *path2) {
    void *caller1, *caller2;

    unloaded();
    expect(!call_plugin(path1, &caller1), "%s: wrong stack through a plugin", how);
    expect(call_plugin(path2, &caller2), "%s: the stale case does not show", how);
    expect(caller1 == caller2, "%s: the plugins' addresses differ", how);
    unloaded();
    expect(!call_plugin(path2, &caller2), "%s: wrong stack after a reload", how);
    unloaded();
    expect(!call_plugin(path1, &caller1), "%s: wrong stack after another reload", how);
    expect(caller1 == caller2, "%s: the plugins' addresses differ", how);
}

/* Code without unwind information, called with any frame pointer. */
static int call_generated(uintptr_t frame_pointer) {
    static const unsigned char code[] = {
        0x55,             /* push %rbp */
        0x48, 0x89, 0xe5, /* mov %rsp, %rbp */
        0x48, 0x85, 0xf6, /* test %rsi, %rsi */
        0x48, 0x0f, 0x45, /* cmovne %rsi, %rbp */
        0xee,             /* */
        0xff, 0xd7,       /* call *%rdi */
        0x5d,             /* pop %rbp */
        0xc3,             /* ret */
    };
    void *page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int (*call)(check_sample_fn, uintptr_t);
    int differs;

    memcpy(page, code, sizeof code);
    call = (int (*)(check_sample_fn, uintptr_t))page;
    differs = call(sample, frame_pointer);
    munmap(page, 4096);
    return differs;
}

static void check_generated_code(void) {
    char *hidden = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int depth;

    sample();
    depth = depth_of_sample;
    call_generated(0);
    expect(depth_of_sample == depth + 2, "%d frames through generated code, not %d",
           depth_of_sample, depth + 2);
    unloaded();
    call_generated((uintptr_t)hidden + 16);
    unloaded();
    call_generated((uintptr_t)hidden + 4092);
    unloaded();
    call_generated(UINTPTR_MAX - 3);
    unloaded();
    call_generated(UINT64_C(0x4141414141414141));
    unloaded();
    munmap(hidden, 4096);
}

static void sample_late(void *unused) {
    (void)unused;
    expect(!sample(), "wrong stack in a thread-specific destructor");
}

static pthread_key_t late_key;

static void *sample_in_thread(void *unused) {
    (void)unused;
    pthread_setspecific(late_key, &late_key);
    expect(!sample(), "wrong stack in a thread");
    return NULL;
}

static void run_threads(int count) {
    pthread_t thread;

    while (count-- > 0) {
        pthread_create(&thread, NULL, sample_in_thread, NULL);
        pthread_join(thread, NULL);
    }
}

static void check_threads(void) {
    int before, after;

    pthread_key_create(&late_key, sample_late);
    run_threads(10);
    before = lines_of("/proc/self/maps");
    run_threads(200);
    after = lines_of("/proc/self/maps");
    expect(after - before < 20, "200 threads left %d mappings", after - before);
}

static bool stop;

static void *unwind_all_the_time(void *unused) {
    void *frames[MAX_FRAMES];

    (void)unused;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        unloaded();
        take_slowly(frames, MAX_FRAMES);
        take_fast(frames, MAX_FRAMES);
    }
    return NULL;
}

/* A fork while other threads are in the middle of it; true if the child ends. */
static bool fork_and_unwind(void) {
    const struct timespec tick = {0, 1000000};
    void *frames[MAX_FRAMES];
    int status, ms;
    pid_t child = fork();

    if (child == 0) {
        after_fork();
        take_slowly(frames, MAX_FRAMES);
        take_fast(frames, MAX_FRAMES);
        _exit(0);
    }
    for (ms = 0; ms < 10000; ms++) {
        if (waitpid(child, &status, WNOHANG) == child)
            return status == 0;
        nanosleep(&tick, NULL);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return false;
}

static void check_fork(void) {
    pthread_t threads[2];
    int i, good = 0;

    for (i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, unwind_all_the_time, NULL);
    for (i = 0; i < 100 && good == i; i++)
        good += fork_and_unwind();
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    for (i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    expect(good == 100, "fork child %d of 100 hung or died", good + 1);
}

static void *find(void *library, const char *name) {
    void *symbol = dlsym(library, name);

    if (!symbol) {
        fprintf(stderr, "libunwind check: %s\n", dlerror());
        exit(2);
    }
    return symbol;
}

int main(int argc, char **argv) {
    void *library, *frames[MAX_FRAMES];
    int before;

    if (argc != 4 || !(library = dlopen(argv[1], RTLD_NOW))) {
        fprintf(stderr, "usage: %s UNWINDER.so PLUGIN1.so PLUGIN2.so\n", argv[0]);
        return 2;
    }
    take_fast = (take_fn)find(library, "check_take");
    take_slowly = (take_fn)find(library, "check_take_slowly");
    take_walking = (take_fn)find(library, "check_take_walking");
    unloaded = (void (*)(void))find(library, "check_unloaded");
    after_fork = (void (*)(void))find(library, "check_after_fork");
    backtrace(frames, MAX_FRAMES); /* loads libgcc */

    before = open_descriptors();
    take = take_fast;
    expect(!sample(), "wrong stack at first");
    expect(!sample(), "wrong stack at second");
    check_reload("fast", argv[2], argv[3]);
    check_generated_code();
    check_threads();
    take = take_walking;
    expect(!sample(), "wrong stack by a walk");
    expect(!sample(), "wrong stack by a second walk");
    check_reload("walking", argv[2], argv[3]);
    check_generated_code();
    check_threads();
    take = take_slowly;
    expect(!sample(), "wrong stack by steps");
    check_reload("by steps", argv[2], argv[3]);
    check_generated_code();
    check_fork();
    expect(open_descriptors() == before, "descriptors were opened");
    return failures ? 1 : 0;
}

#endif
