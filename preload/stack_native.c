/*
 * stack_native.c - walking by libunwind, and replaying known walks. See stack_native.h.
 *
 * libunwind is linked in statically and hidden: a shared one would replace the target's C++
 * exception unwinding. Its caches know addresses, not libraries, so they are dropped after each
 * dlclose() (modules.c). Frames that its fast walk cannot do are left to unw_backtrace().
 */
#include "stack_native.h"

#include <string.h>
#include <sys/mman.h>

#include "intern.h"
#include "modules.h"
#include "stack_python.h"
#include "unwind.h"

#define OWN_FRAMES 8 /* ours, between the unwinder and the wrapper's caller, at most */
#define SETS 64
#define WAYS 8
#define LOADS 112 /* of one walk; one that depends on more is made each time */

/* A walk that can be replayed. Memory that nobody walked from is never touched. */
struct known_walk {
    uintptr_t ip, sp, bp; /* bp only where bp_used */
    uint64_t hash;        /* the result */
    uint32_t generation;
    uint16_t loads;
    bool cut, bp_used;
    uint32_t following; /* 1 + index of the walk that came next, last time */
    struct ls_unw_load load[LOADS];
};

struct ls_replay {
    struct known_walk walk[SETS * WAYS];
    uint32_t last;  /* 1 + index of the thread's last walk */
    uint32_t turns; /* which way of a set is given up next */
};

void ls_native_place(struct ls_native_place *place, const void *wrapper_frame, bool cut) {
    const uintptr_t *frame = wrapper_frame; /* saved rbp, return address */
    *place = (struct ls_native_place){
        .ip = frame[1],
        .sp = (uintptr_t)(frame + 2),
        .bp = frame[0],
        .generation = ls_modules_generation(),
        .cut = cut,
    };
}

/* ---- walking ---- */

static void begin_walk(struct ls_unw_walk *walk, const struct ls_native_place *place, void **frame,
                       uint32_t room) {
    *walk = (struct ls_unw_walk){
        .ip = place->ip, .sp = place->sp, .bp = place->bp, .frame = frame, .room = (int)room};
    if (place->cut)
        ls_python_eval_range(&walk->stop_start, &walk->stop_end);
}

/* Where the walk was cut, the last frame is the interpreter's function, whose code rewrites itself:
 * the same line of Python returns to other places once it is warm. It stands for itself. */
static void settle_cut(const struct ls_unw_walk *walk, void **frame, uint32_t depth) {
    if (depth > 0 &&
        (uintptr_t)frame[depth - 1] - 1 - walk->stop_start < walk->stop_end - walk->stop_start)
        frame[depth - 1] = (void *)(walk->stop_start + 1);
}

/* By libunwind's own entry: from here, so our frames come first. */
static uint32_t walk_otherwise(const struct ls_unw_walk *walk, void **frame, uint32_t room) {
    void *all[LS_STACK_DEPTH + 1 + OWN_FRAMES];
    int depth = unw_backtrace(all, LS_STACK_DEPTH + 1 + OWN_FRAMES), own = 0;
    uint32_t kept = 0;
    while (own < depth && own < OWN_FRAMES && (uintptr_t)all[own] != walk->ip)
        own++;
    if (own >= depth || (uintptr_t)all[own] != walk->ip) {
        frame[0] = (void *)walk->ip; /* it could not be unwound: the caller is known all the same */
        return 1;
    }
    for (; own < depth && kept < room; own++) {
        frame[kept++] = all[own];
        if ((uintptr_t)all[own] - 1 - walk->stop_start < walk->stop_end - walk->stop_start)
            break;
    }
    return kept;
}

static uint32_t walk_frames(struct ls_unw_walk *walk, void **frame, uint32_t room) {
    uint32_t depth =
        ls_unw_walk(walk) >= 0 ? (uint32_t)walk->depth : walk_otherwise(walk, frame, room);
    settle_cut(walk, frame, depth);
    return depth;
}

uint32_t ls_native_walk(const struct ls_native_place *place, void **frame, uint32_t room) {
    struct ls_unw_walk walk;
    begin_walk(&walk, place, frame, room);
    return walk_frames(&walk, frame, room);
}

static uint64_t hash_frames(void *const *frame, uint32_t depth, uint32_t generation) {
    uint64_t hash = generation * 0x9e3779b97f4a7c15u + depth;
    for (uint32_t i = 0; i < depth; i++)
        hash = ls_hash_word(hash, (uint64_t)(uintptr_t)frame[i]);
    return hash;
}

/* ---- replaying ---- */

static bool is_from(const struct known_walk *known, const struct ls_native_place *place) {
    return known->sp == place->sp && known->ip == place->ip && known->cut == place->cut &&
           known->generation == place->generation && (!known->bp_used || known->bp == place->bp);
}

/* In order, and no further than the first that differs: see stack_native.h. */
static bool holds(const struct known_walk *known) {
    for (uint32_t i = 0; i < known->loads; i++)
        if (*(const volatile uintptr_t *)known->load[i].address != known->load[i].value)
            return false;
    return true;
}

static struct ls_replay *replay_of(struct ls_thread *self) {
    if (!self->replay) {
        void *map = mmap(NULL, sizeof *self->replay, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        self->replay = map == MAP_FAILED ? NULL : map;
    }
    return self->replay;
}

static void follow(struct ls_replay *replay, uint32_t index) {
    if (replay->last)
        replay->walk[replay->last - 1].following = index + 1;
    replay->last = index + 1;
}

static uint32_t set_of(const struct ls_native_place *place) {
    uint64_t hash = ls_hash_word(place->sp, place->ip);
    return (uint32_t)(hash >> 32) % SETS * WAYS;
}

/* A known walk from this place that gives what a new one would; NULL: none. Programs repeat
 * themselves: what followed on the last walk is tried first. */
static const struct known_walk *find(struct ls_replay *replay,
                                     const struct ls_native_place *place) {
    uint32_t guess = replay->last ? replay->walk[replay->last - 1].following : 0;
    if (guess && is_from(&replay->walk[guess - 1], place) && holds(&replay->walk[guess - 1])) {
        replay->last = guess;
        return &replay->walk[guess - 1];
    }
    uint32_t set = set_of(place);
    for (uint32_t i = set; i < set + WAYS; i++) {
        if (is_from(&replay->walk[i], place) && holds(&replay->walk[i])) {
            follow(replay, i);
            return &replay->walk[i];
        }
    }
    return NULL;
}

/* The way of the set to give up: one that was never used, else in turn. */
static struct known_walk *victim(struct ls_replay *replay, const struct ls_native_place *place) {
    uint32_t set = set_of(place);
    for (uint32_t i = set; i < set + WAYS; i++)
        if (replay->walk[i].ip == 0)
            return &replay->walk[i];
    return &replay->walk[set + replay->turns++ % WAYS];
}

uint64_t ls_native_hash(struct ls_thread *self, const struct ls_native_place *place) {
    struct ls_replay *replay = replay_of(self);
    const struct known_walk *known = replay ? find(replay, place) : NULL;
    if (known)
        return known->hash;
    void *frame[LS_STACK_DEPTH + 1];
    struct ls_unw_walk walk;
    struct known_walk *kept = replay ? victim(replay, place) : NULL;
    begin_walk(&walk, place, frame, LS_STACK_DEPTH + 1);
    if (kept) {
        kept->ip = 0; /* of no place, while its loads are overwritten */
        walk.load = kept->load;
        walk.load_room = LOADS;
    }
    uint32_t depth = walk_frames(&walk, frame, LS_STACK_DEPTH + 1);
    uint64_t hash = hash_frames(frame, depth, place->generation);
    if (kept && walk.exact && depth == (uint32_t)walk.depth) {
        kept->ip = place->ip;
        kept->sp = place->sp;
        kept->bp = place->bp;
        kept->bp_used = walk.bp_used;
        kept->cut = place->cut;
        kept->generation = place->generation;
        kept->loads = (uint16_t)walk.loads;
        kept->hash = hash;
        kept->following = 0;
        follow(replay, (uint32_t)(kept - replay->walk));
    }
    return hash;
}

void ls_native_fork_reset(void) {
    ls_unw_after_fork();
}
