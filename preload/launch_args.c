/*
 * launch_args.c - a table of kernels with what is known of their arguments. See launch_args.h.
 *
 * Found by stub or handle, without a lock. An entry is filled in by the thread that claims it; a
 * launch that finds it claimed, or the table full, goes without operands.
 */
#include "launch_args.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "copy_kernels.h"
#include "describe.h"
#include "kernels.h"
#include "known.h"
#include "launch_sizes.h"
#include "list_kernels.h"
#include "on_call.h"
#include "operand.h"

#define KERNELS (1u << 14)
#define KERNELS_FULL (KERNELS / 4 * 3)
#define SLOTS 16          /* words of one kernel that are looked at in each launch */
#define FULL_FIRST 16     /* launches of a kernel in which all words are looked at, */
#define FULL_EVERY 64     /* and one in so many of the later ones */
#define ARGUMENTS_MOST 8  /* operands of one launch */
#define BUFFER_MOST 32764 /* bytes of arguments, in any CUDA */
#define IN_BUFFER 0xffu   /* in a slot, for the argument's number: the buffer of them all */

struct kernel {
    _Atomic uintptr_t function; /* 0: free. Never freed */
    _Atomic uint64_t stamp;     /* whose entry this is: stamp_of(), CLAIMED, or 0: nobody's */
    _Atomic uint32_t launches;
    _Atomic uint8_t sized;   /* enum sized */
    _Atomic uint8_t checked; /* a copy's arguments were as they should be, once */
    _Atomic uint8_t origin;  /* enum ls_size_source, as ls_launch_handle() was told */
    uint8_t params;          /* sizes that are known */
    struct ls_copy_kernel copy;
    struct ls_list_kernel list;   /* where the copy's form is LS_COPY_LISTS */
    _Atomic uint32_t slot[SLOTS]; /* 1 + offset / 8 | argument << 16; 0: no more */
    _Alignas(64) uint16_t size[LS_PARAMS_MOST];
};
_Static_assert(sizeof(struct kernel) == 256, "found by a shift");
enum sized { NOT_ASKED, KNOWN, UNKNOWN };
#define CLAIMED UINT64_MAX

static struct kernel *_Atomic table;
static _Atomic uint32_t used, generation;

/* Names may come again with other parameters, once a library has gone; numbers go by names. */
static uint64_t stamp_of(uint32_t number) {
    return (uint64_t)(atomic_load_explicit(&generation, memory_order_relaxed) & 0x7fffffff) << 32 |
           number;
}

void ls_launch_forget(void) {
    atomic_fetch_add(&generation, 1);
}

static inline struct kernel *kernels(bool make) {
    struct kernel *there = atomic_load_explicit(&table, memory_order_acquire);
    if (there || !make)
        return there;
    int saved = errno;
    void *map = mmap(NULL, KERNELS * sizeof *there, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    errno = saved;
    if (map == MAP_FAILED)
        return NULL;
    if (atomic_compare_exchange_strong(&table, &there, map))
        return map;
    munmap(map, KERNELS * sizeof *there); /* another thread was faster */
    return there;
}

static inline uint32_t home(uintptr_t key) {
    return (uint32_t)((key * 0x9e3779b97f4a7c15u) >> 50);
}
_Static_assert(KERNELS == 1u << (64 - 50), "the hash's bits");

/* NULL: no room. */
static __attribute__((noinline)) struct kernel *find_slowly(uintptr_t key) {
    struct kernel *all = kernels(true);
    if (!all || !key)
        return NULL;
    for (uint32_t i = home(key);; i++) {
        struct kernel *kernel = &all[i & (KERNELS - 1)];
        uintptr_t found = atomic_load_explicit(&kernel->function, memory_order_acquire);
        if (found == key)
            return kernel;
        if (found)
            continue;
        if (atomic_load_explicit(&used, memory_order_relaxed) >= KERNELS_FULL)
            return NULL;
        if (atomic_compare_exchange_strong(&kernel->function, &found, key)) {
            atomic_fetch_add(&used, 1);
            return kernel;
        }
        if (found == key)
            return kernel;
    }
}

static inline struct kernel *find(const void *function) {
    struct kernel *all = kernels(false);
    uintptr_t key = (uintptr_t)function;
    if (__builtin_expect(all && key, 1)) {
        struct kernel *kernel = &all[home(key)];
        if (__builtin_expect(atomic_load_explicit(&kernel->function, memory_order_acquire) == key,
                             1))
            return kernel;
    }
    return find_slowly(key);
}

void ls_launch_handle(const void *handle, bool is_kernel) {
    struct kernel *kernel = find(handle);
    if (!kernel)
        return;
    atomic_store(&kernel->origin, is_kernel ? LS_SIZES_OF_KERNEL : LS_SIZES_OF_FUNCTION);
    atomic_store(&kernel->stamp, 0);
}

/* What its name says that it is. */
static void go_by_name(struct kernel *kernel, const struct ls_launch *launch) {
    const char *name = launch->name ? launch->name : ls_kernel_text(launch->function);
    struct ls_copy_kernel copy = {.form = LS_COPY_NONE};
    struct ls_list_kernel list = {.lists = 0};
    if (name) {
        copy = ls_copy_kernel_named(name);
        list = ls_list_kernel_named(name);
    }
    if (list.lists)
        copy.form = LS_COPY_LISTS;
    kernel->copy = copy;
    kernel->list = list;
    kernel->params = 0;
    for (uint32_t i = 0; i < SLOTS; i++)
        atomic_store_explicit(&kernel->slot[i], 0, memory_order_relaxed);
}

/* The entry is this launch's kernel's from here on. False: another thread is at it. Where it was
 * the same kernel's, and only some library has gone, what is known stays: other threads are about
 * to use it, and what was found unlike must not be believed again. Its sizes are asked for anew. */
static bool claim(struct kernel *kernel, const struct ls_launch *launch, uint64_t had) {
    bool same = (uint32_t)had == launch->number;
    if (had == CLAIMED || !atomic_compare_exchange_strong(&kernel->stamp, &had, CLAIMED))
        return false;
    if (!same)
        go_by_name(kernel, launch);
    atomic_store_explicit(&kernel->launches, 0, memory_order_relaxed);
    atomic_store_explicit(&kernel->checked, false, memory_order_relaxed);
    atomic_store_explicit(&kernel->sized, NOT_ASKED, memory_order_relaxed);
    atomic_store_explicit(&kernel->stamp, stamp_of(launch->number), memory_order_release);
    return true;
}

/* One line for all kernels of a recording. */
static void say_unlike(struct ls_thread *self, uint8_t form) {
    static _Atomic uint64_t said;
    uint64_t epoch = atomic_load(&ls_live->epoch);
    if (atomic_exchange(&said, epoch) == epoch)
        return;
    static const char what[][32] = {
        [LS_COPY_NONE] = "",
        [LS_COPY_STRIDED] = "elementwise_kernel",
        [LS_COPY_STRIDED_CAST] = "elementwise_kernel with casts",
        [LS_COPY_DENSE] = "vectorized_elementwise_kernel",
        [LS_COPY_DENSE_CAST] = "unrolled_elementwise_kernel",
        [LS_COPY_CAT] = "CatArrayBatchedCopy",
        [LS_COPY_LISTS] = "multi_tensor_apply_kernel",
    };
    char text[160] = "kernels whose arguments do not lie as those of known versions of PyTorch are "
                     "told by their addresses alone: ";
    if (form < sizeof what / sizeof *what)
        strncat(text, what[form], sizeof text - strlen(text) - 1);
    ls_describe_coverage(self, "layouts", "partial", text);
}

/* ---- sizes ---- */

/* The kernel has these sizes: does it look as its name says? */
static void take_sizes(struct ls_thread *self, struct kernel *kernel,
                       const struct ls_launch *launch, const uint16_t *size, uint32_t count) {
    if (count && count == kernel->params && !memcmp(size, kernel->size, count * sizeof *size))
        return;
    if (kernel->params) /* another one's of the same name */
        go_by_name(kernel, launch);
    struct ls_list_kernel list = kernel->list;
    uint8_t form = kernel->copy.form;
    bool fits = form == LS_COPY_LISTS ? count && ls_list_kernel_fits(&list, size[0])
                                      : ls_copy_kernel_fits(&kernel->copy, size, (uint8_t)count);
    memcpy(kernel->size, size, count * sizeof *size);
    kernel->params = (uint8_t)count;
    kernel->list = list;
    if (fits || form == LS_COPY_NONE)
        return;
    kernel->copy.form = LS_COPY_NONE;
    say_unlike(self, form);
}

/* False: what the name says is not to be believed yet, since another thread is at it. */
static bool know_sizes(struct ls_thread *self, struct kernel *kernel,
                       const struct ls_launch *launch) {
    if (atomic_load_explicit(&ls_capturing, memory_order_relaxed) > 0 || self->in_callback)
        return true; /* a later launch asks */
    enum ls_size_source source =
        launch->kind == LS_LAUNCH_KERNEL ? LS_SIZES_OF_KERNEL
        : launch->kind == LS_LAUNCH_STUB
            ? LS_SIZES_OF_STUB
            : (enum ls_size_source)atomic_load_explicit(&kernel->origin, memory_order_relaxed);
    uint64_t stamp = stamp_of(launch->number), had = stamp;
    if (!atomic_compare_exchange_strong(&kernel->stamp, &had, CLAIMED))
        return false;
    uint16_t size[LS_PARAMS_MOST];
    int count = source == LS_SIZES_OF_NONE
                    ? -1
                    : ls_launch_sizes(source, launch->function, launch->caller, size);
    take_sizes(self, kernel, launch, size, count > 0 ? (uint32_t)count : 0);
    atomic_store_explicit(&kernel->sized, count > 0 ? KNOWN : UNKNOWN, memory_order_release);
    atomic_store_explicit(&kernel->stamp, stamp, memory_order_release);
    return true;
}

/* ---- addresses ---- */

static inline uint64_t word_at(const char *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static inline void add(struct ls_thread *self, uint64_t address) {
    uint32_t count = self->operand_count;
    if (count >= ARGUMENTS_MOST)
        return;
    for (uint32_t i = 0; i < count; i++)
        if (self->operand[i].address == address)
            return;
    self->operand[count].what = LS_OPERAND(LS_ROLE_ARGUMENT, 0, 0);
    self->operand[count].address = address;
    self->operand_count = count + 1;
}

/* Later launches look there as well. */
static void remember(struct kernel *kernel, uint32_t argument, uint32_t offset) {
    uint32_t slot = 1 + offset / 8 + (argument << 16);
    for (uint32_t i = 0; i < SLOTS; i++) {
        uint32_t there = atomic_load_explicit(&kernel->slot[i], memory_order_relaxed);
        if (!there)
            atomic_compare_exchange_strong(&kernel->slot[i], &there, slot);
        if (there == slot || !there)
            return;
    }
}

/* All words of an argument. */
static __attribute__((noinline)) void look_through(struct ls_thread *self, struct kernel *kernel,
                                                   uint32_t argument, const char *at,
                                                   uint32_t size) {
    for (uint32_t offset = 0; offset + 8 <= size; offset += 8) {
        uint64_t word = word_at(at + offset);
        if (__builtin_expect(!ls_known_device(word), 1))
            continue;
        remember(kernel, argument, offset);
        add(self, word);
    }
}

static inline bool wants_all(struct kernel *kernel) {
    uint32_t launches = atomic_load_explicit(&kernel->launches, memory_order_relaxed);
    atomic_store_explicit(&kernel->launches, launches + 1, memory_order_relaxed);
    return launches < FULL_FIRST || launches % FULL_EVERY == 0;
}

/* The words that are known to hold addresses: in `buffer`, as far as it goes, or in arguments. */
static inline __attribute__((always_inline)) void look_at_slots(struct ls_thread *self,
                                                                const struct kernel *kernel,
                                                                void *const *args,
                                                                const char *buffer, uint64_t size) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < SLOTS && count < ARGUMENTS_MOST; i++) {
        uint32_t slot = atomic_load_explicit(&kernel->slot[i], memory_order_relaxed) - 1;
        uint32_t argument = slot >> 16, offset = (slot & 0xffff) * 8;
        if (slot == UINT32_MAX)
            break;
        if (buffer ? argument != IN_BUFFER || offset + 8 > size
                   : argument >= kernel->params || !args[argument])
            continue;
        uint64_t word = word_at((buffer ? buffer : (const char *)args[argument]) + offset);
        uint32_t same = 0;
        while (same < count && self->operand[same].address != word)
            same++;
        if (same < count || !ls_known_device(word))
            continue;
        self->operand[count].what = LS_OPERAND(LS_ROLE_ARGUMENT, 0, 0);
        self->operand[count++].address = word;
    }
    self->operand_count = count;
}

static inline void scan_args(struct ls_thread *self, struct kernel *kernel, void *const *args) {
    if (!wants_all(kernel)) {
        look_at_slots(self, kernel, args, NULL, 0);
        return;
    }
    for (uint32_t i = 0; i < kernel->params; i++)
        if (kernel->size[i] >= 8 && args[i])
            look_through(self, kernel, i, args[i], kernel->size[i]);
}

/* CU_LAUNCH_PARAM_BUFFER_POINTER and CU_LAUNCH_PARAM_BUFFER_SIZE, in pairs up to an end, 0. */
static void scan_buffer(struct ls_thread *self, struct kernel *kernel, void *const *extra) {
    const char *buffer = NULL;
    uint64_t size = 0;
    for (int i = 0; i < 4 && extra[0]; i++, extra += 2) {
        if (extra[0] == (void *)1)
            buffer = extra[1];
        else if (extra[0] == (void *)2 && extra[1])
            size = *(const size_t *)extra[1];
        else
            return;
    }
    if (!buffer || size > BUFFER_MOST)
        return;
    if (wants_all(kernel))
        look_through(self, kernel, IN_BUFFER, buffer, (uint32_t)size);
    else
        look_at_slots(self, kernel, NULL, buffer, size);
}

/* ---- a launch ---- */

/* What stands in no list first: results, factors, a norm. */
static enum ls_copy_result tell_lists(struct ls_thread *self, struct kernel *kernel,
                                      const struct ls_launch *launch) {
    if (!kernel->list.tensors) /* its size is not known yet */
        return LS_COPY_ELSEWHERE;
    for (uint32_t i = 1; i < kernel->params; i++)
        if (kernel->size[i] >= 8 && launch->args[i])
            look_through(self, kernel, i, launch->args[i], kernel->size[i]);
    return launch->args[0]
               ? ls_list_kernel_tell(self, &kernel->list, launch->args[0], (uint32_t)launch->grid)
               : LS_COPY_UNLIKE;
}

/* False: it is to be scanned, like any other kernel. The form is looked at once: another thread may
 * find it unlike meanwhile. */
static bool tell_copy(struct ls_thread *self, struct kernel *kernel,
                      const struct ls_launch *launch) {
    bool first = !atomic_load_explicit(&kernel->checked, memory_order_relaxed);
    struct ls_copy_kernel copy = kernel->copy;
    if (copy.form == LS_COPY_NONE)
        return false;
    switch (copy.form == LS_COPY_LISTS
                ? tell_lists(self, kernel, launch)
                : ls_copy_kernel_tell(self, &copy, launch->args, launch->grid_y, first)) {
    case LS_COPY_TOLD:
        if (first)
            atomic_store_explicit(&kernel->checked, true, memory_order_relaxed);
        return true;
    case LS_COPY_UNLIKE:
        kernel->copy.form = LS_COPY_NONE;
        say_unlike(self, copy.form);
        return false;
    default:
        return false;
    }
}

void ls_launch_operands_of(struct ls_thread *self, const struct ls_launch *launch) {
    if (!launch->number || (!launch->args && !launch->extra))
        return;
    struct kernel *kernel = find(launch->function);
    if (!kernel)
        return;
    uint64_t stamp = atomic_load_explicit(&kernel->stamp, memory_order_acquire);
    if (__builtin_expect(stamp != stamp_of(launch->number), 0) && !claim(kernel, launch, stamp))
        return;
    enum sized sized = (enum sized)atomic_load_explicit(&kernel->sized, memory_order_acquire);
    if (__builtin_expect(sized == NOT_ASKED, 0) && launch->args) {
        int saved = errno;
        bool known = know_sizes(self, kernel, launch);
        errno = saved;
        if (!known)
            return;
        sized = (enum sized)atomic_load_explicit(&kernel->sized, memory_order_acquire);
    }
    if (kernel->copy.form && launch->args && tell_copy(self, kernel, launch))
        return;
    if (!launch->args)
        scan_buffer(self, kernel, launch->extra);
    else if (sized == KNOWN)
        scan_args(self, kernel, launch->args);
}
