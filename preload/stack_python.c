/*
 * stack_python.c - whether Python stacks are taken, and their numbers. See stack_python.h.
 *
 *   OFF -- start --> LOOKING -- an interpreter is there --> WAITING -- frames look right --> ON
 *
 * Any doubt leads to OFF, with a line in `coverage`. Some time after ON the interpreter itself has
 * compared (python_check.c): TELLING until a call can write down how that ended.
 *
 * Lines are resolved here, when a stack is first seen, and not by the collector: a code object may
 * be gone, and another one lie in its place, before anybody else could look; and what would have
 * to be kept instead, its line table, is larger than the lines of all stacks that go through it.
 */
#include "stack_python.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "describe.h"
#include "intern.h"
#include "python_check.h"
#include "python_read.h"
#include "python_walk.h"
#include "spool.h"
#include "stack.h"
#include "wrap.h"

#define NAME_MAX_BYTES 1024
#define FILE_MAX_BYTES 4096

enum { OFF, LOOKING, BUSY, WAITING, TELLING, ON };
static _Atomic int state;

/* What the interpreter's comparison said; it holds in forked children, too. */
enum { NOT_ASKED, ASKED, SAME, OTHER };
static _Atomic int verdict;

static struct ls_intern codes, stacks, sights; /* sights: of a stack in memory, see walk->hash */
static _Atomic uint32_t looked_at; /* LOOKING: the chunk of a thread at which was last looked */
static _Atomic uintptr_t eval_start, eval_end;

/* ---- numbers ---- */

static uint32_t define_code(struct ls_thread *self, const void *context) {
    uintptr_t code = *(const uintptr_t *)context;
    const struct ls_python_layout *layout = &ls_python.layout;
    char text[NAME_MAX_BYTES + FILE_MAX_BYTES];
    size_t name = ls_python_utf8(ls_python_word(code, layout->name), text, NAME_MAX_BYTES) + 1;
    size_t file =
        ls_python_utf8(ls_python_word(code, layout->file), text + name, FILE_MAX_BYTES) + 1;
    uint32_t size = (uint32_t)(sizeof(struct ls_rec_code) + name + file + 7) & ~7u;
    struct ls_rec_code *record = ls_spool_reserve(self, size);
    if (!record)
        return 0;
    memset((char *)record + size - 8, 0, 8);
    *record = (struct ls_rec_code){
        .head = {.size = (uint16_t)size, .type = LS_REC_CODE},
        .id = ls_intern_number(&codes),
        .first_line = (uint32_t)ls_python_int(code, layout->first_line),
    };
    uint32_t id = record->id;
    memcpy(record->text, text, name + file);
    ls_spool_commit(self, size);
    return id;
}

/* A stack as it goes into the spool. */
struct lines {
    uint32_t depth;
    bool truncated;
    struct ls_python_frame frame[LS_PYTHON_DEPTH];
};

static uint32_t define_stack(struct ls_thread *self, const void *context) {
    const struct lines *lines = context;
    uint32_t frames = lines->depth * (uint32_t)sizeof *lines->frame;
    uint32_t size = (uint32_t)sizeof(struct ls_rec_python) + frames;
    struct ls_rec_python *record = ls_spool_reserve(self, size);
    if (!record)
        return 0;
    uint32_t id = ls_intern_number(&stacks);
    *record = (struct ls_rec_python){
        .head = {.size = (uint16_t)size, .type = LS_REC_PYTHON},
        .id = id,
        .depth = lines->depth,
        .truncated = lines->truncated,
    };
    memcpy(record->frame, lines->frame, frames);
    ls_spool_commit(self, size);
    return id;
}

/* The number of a stack that was not seen yet: that of its functions and lines, which it may share
 * with another one (a program that compiles the same code again and again has few stacks). */
static uint32_t define_sight(struct ls_thread *self, const void *context) {
    const struct ls_python_walk *walk = context;
    struct lines lines = {.depth = walk->depth, .truncated = walk->truncated};
    uint64_t hash = walk->depth * 2u + walk->truncated;
    for (uint32_t i = 0; i < walk->depth; i++) {
        uintptr_t code = walk->place[i].code;
        uint32_t number = ls_intern(&codes, self, ls_python_code_hash(code), define_code, &code);
        if (!number)
            return 0; /* no room: not a stack with a hole, for good */
        uint32_t line = ls_python_line_at(code, walk->place[i].at);
        lines.frame[i] = (struct ls_python_frame){.code = number, .line = line};
        hash = ls_hash_word(hash, (uint64_t)number << 32 | line);
    }
    return ls_intern(&stacks, self, hash | 1, define_stack, &lines);
}

/* ---- whether ---- */

static void say(struct ls_thread *self, bool on, const char *detail) {
    char text[256];
    const char *between = *detail == 0 ? "" : on ? ", " : ": ";
    snprintf(text, sizeof text, "%s%s%s", ls_python.name, between, detail);
    ls_describe_coverage(self, "python-stacks", on ? "on" : "off", text);
}

static void say_verdict(struct ls_thread *self) {
    if (atomic_load(&verdict) == OTHER)
        say(self, false, "a walk and the interpreter's own functions differed: none from then on");
    else
        say(self, true, "checked against its own functions");
}

/* The comparison is done. On the interpreter's main thread, whatever that is just doing. */
static void on_verdict(bool same) {
    struct ls_thread *self = ls_self;
    int expected = ON;
    atomic_store(&verdict, same ? SAME : OTHER);
    if (!atomic_compare_exchange_strong(&state, &expected, TELLING))
        return; /* a forked child that has no recording yet will tell */
    if (!self || self->busy || self->epoch != atomic_load(&ls_live->epoch))
        return;
    expected = TELLING;
    if (!atomic_compare_exchange_strong(&state, &expected, BUSY))
        return;
    ls_busy(self);
    say_verdict(self);
    ls_not_busy(self);
    atomic_store(&state, same ? ON : OFF);
}

static void ask_once(void) {
    int expected = NOT_ASKED;
    if (atomic_compare_exchange_strong(&verdict, &expected, ASKED) &&
        !ls_python_check_later(on_verdict))
        atomic_store(&verdict, NOT_ASKED);
}

/* The first stack with frames in it: does it look right? Returns the state to be in. */
static int look_at_shape(struct ls_thread *self) {
    const char *why;
    void *thread = ls_python.is_finalizing() ? NULL : ls_python.this_thread();
    if (!thread)
        return WAITING;
    switch (ls_python_check_shape((uintptr_t)thread, &why)) {
    case LS_PYTHON_NO_FRAME:
        return WAITING;
    case LS_PYTHON_BAD:
        say(self, false, why);
        return OFF;
    case LS_PYTHON_GOOD:
        break;
    }
    say(self, true, "");
    ask_once();
    return ON;
}

static void find_eval_range(void) {
    void *function = ls_python_symbol("_PyEval_EvalFrameDefault");
    const ElfW(Sym) *symbol = NULL;
    Dl_info info;
    if (!function || !dladdr1(function, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol)
        return;
    atomic_store(&eval_end, (uintptr_t)function + symbol->st_size);
    atomic_store(&eval_start, (uintptr_t)function); /* last: other threads read them */
}

/* Is there an interpreter? Returns the state to be in. */
static int look_for_python(struct ls_thread *self) {
    const char *why;
    switch (ls_python_find(&why)) {
    case LS_PYTHON_NONE:
        return LOOKING;
    case LS_PYTHON_REFUSED:
        say(self, false, why);
        return OFF;
    case LS_PYTHON_KNOWN:
        break;
    }
    find_eval_range();
    if (atomic_load(&verdict) == OTHER) {
        say_verdict(self);
        return OFF;
    }
    return look_at_shape(self);
}

static void go_to(int next) {
    atomic_store(&state, next);
    /* The answer may have come while we were BUSY. */
    if (next == ON && atomic_load(&verdict) >= SAME)
        atomic_compare_exchange_strong(&state, &next, TELLING);
}

/* The state is not ON: can something be done about it? True: it is ON now. */
static __attribute__((noinline, cold)) bool wake(struct ls_thread *self, int seen) {
    int next = seen;
    if (seen == OFF || seen == BUSY)
        return false;
    if (seen == LOOKING) { /* rarely: each time that a thread goes on to a later chunk than any */
        if (self->sequence <= atomic_load_explicit(&looked_at, memory_order_relaxed))
            return false;
        atomic_store_explicit(&looked_at, self->sequence, memory_order_relaxed);
    }
    if (!atomic_compare_exchange_strong(&state, &seen, BUSY))
        return false;
    if (seen == LOOKING) {
        next = look_for_python(self);
    } else if (seen == WAITING) {
        next = look_at_shape(self);
    } else {
        say_verdict(self);
        atomic_store(&state, next = atomic_load(&verdict) == OTHER ? OFF : ON);
        return next == ON;
    }
    go_to(next);
    return next == ON;
}

void ls_python_start(struct ls_thread *self) {
    const struct ls_env *env = &ls_session.env;
    if (!env->stacks || !env->python) {
        ls_describe_coverage(self, "python-stacks", "off",
                             env->stacks ? "LAYOUTSPY_PYTHON=off" : "LAYOUTSPY_STACKS=off");
        return;
    }
    if (!ls_intern_begin(&codes) || !ls_intern_begin(&stacks) || !ls_intern_begin(&sights)) {
        ls_describe_coverage(self, "python-stacks", "off", "no memory for their table");
        return;
    }
    atomic_store(&looked_at, 1);
    int next = look_for_python(self);
    if (next == LOOKING)
        ls_describe_coverage(self, "python-stacks", "off",
                             "no Python in this process at its first CUDA call");
    go_to(next);
}

uint32_t ls_python_capture(struct ls_thread *self, bool may_load) {
    int now = atomic_load_explicit(&state, memory_order_acquire);
    /* An interpreter is looked for by the loader. */
    if (__builtin_expect(now != ON, 0) && ((now == LOOKING && !may_load) || !wake(self, now)))
        return 0;
    /* On its way out an interpreter frees the states of threads that still run. */
    if (ls_python.is_finalizing())
        return 0;
    void *thread = ls_python.this_thread();
    if (!thread)
        return 0;
    if (__builtin_expect(!self->seen, 0))
        self->seen = ls_seen_bytes_new();
    struct ls_python_walk walk;
    ls_python_walk((uintptr_t)thread, self->seen, &walk);
    if (walk.depth == 0)
        return 0;
    struct ls_stack_entry *entry = &self->python[(walk.hash >> 20) & (LS_PYTHON_CACHE - 1)];
    if (entry->hash == walk.hash)
        return entry->id;
    uint32_t id = ls_intern(&sights, self, walk.hash, define_sight, &walk);
    if (!id)
        ls_stack_lost(self);
    else
        *entry = (struct ls_stack_entry){walk.hash, id};
    return id;
}

bool ls_python_eval_range(uintptr_t *start, uintptr_t *end) {
    *start = atomic_load_explicit(&eval_start, memory_order_acquire);
    *end = atomic_load_explicit(&eval_end, memory_order_relaxed);
    return *start != 0;
}

bool ls_python_doubted(void) {
    return atomic_load(&verdict) == OTHER;
}

void ls_python_fork_reset(void) {
    atomic_store(&state, OFF);
    ls_intern_fork_reset(&codes);
    ls_intern_fork_reset(&stacks);
    ls_intern_fork_reset(&sights);
}
