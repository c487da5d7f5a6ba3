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

#ifdef __cplusplus
}
#endif

#endif
