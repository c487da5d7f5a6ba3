/*
 * What the patches in tools/libunwind/ add to libunwind's interface.
 *
 * All of it is hidden: it can be used by what the static library is linked
 * into, and by nobody else.
 */
#ifndef LIBUNWIND_LAYOUTSPY_H
#define LIBUNWIND_LAYOUTSPY_H

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The generation of the loaded objects. Add one (atomically) whenever an object
 * may have been unloaded; each cache of unwind information is dropped when it
 * is next used, by the thread that uses it.
 */
extern unsigned long ls_unw_generation;

/* Call it in a fork child before it unwinds for the first time. */
void ls_unw_after_fork(void);

/* A word of memory that a walk depends on. */
struct ls_unw_load {
    unsigned long address, value;
};

/* What ls_unw_walk() is given, and what it finds. */
struct ls_unw_walk {
    unsigned long ip, sp, bp;           /* a return address, and the registers on return to it */
    unsigned long stop_start, stop_end; /* a frame in this code is the last one; 0, 0: none is */
    void **frame;                       /* return addresses, innermost first; the first is ip */
    struct ls_unw_load *load;
    int room, load_room;
    int depth, loads;
    int bp_used; /* the result depends on bp, too */
    int exact;   /* with the same ip, sp (and bp), the loads in this order decide the result */
};

/*
 * Walk the calling thread's stack from the given registers on. 0: done, or
 * there was no more room; negative: a frame that cannot be walked this way, the
 * depth tells how far it came.
 */
int ls_unw_walk(struct ls_unw_walk *walk);

#ifdef __cplusplus
}
#endif

#endif
