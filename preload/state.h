/*
 * state.h - the life of the in-process library, as named states.
 *
 *   UNINIT --first CUDA call--> READY (settings read) --trace claimed, spool made--> ACTIVE
 *   ACTIVE --our destructor--> CLOSING (records on: other destructors still free memory)
 *   any ----nothing can or may be recorded--> OFF
 *
 * A forked child starts again at UNINIT, with its parent's trace as the base of its own name.
 * Nothing depends on our constructor or destructor; a recording ends with the process.
 */
#ifndef LS_STATE_H
#define LS_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "env.h"
#include "layoutspy/format.h"
#include "lock.h"

enum ls_state { LS_UNINIT, LS_READY, LS_ACTIVE, LS_CLOSING, LS_OFF };

/*
 * The fast path's one question, "is this thread attached to a running session?", compares
 * ls_self->epoch with ls_live->epoch. The page is MADV_WIPEONFORK: in a forked child (even one
 * that skipped the atfork handlers) it reads 0, so nothing is written to the parent's spool.
 */
struct ls_live {
    _Atomic uint64_t epoch; /* 0: no session yet */
    _Atomic uint32_t lock[LS_LOCK_COUNT];
};
#define LS_EPOCH_OFF UINT64_MAX /* nothing is recorded in this process */
#define LS_EPOCH_HOOKS_OFF                                                                         \
    (LS_EPOCH_OFF - 2) /* of a thread: no session's, the hooks record nothing */
extern struct ls_live *_Atomic ls_live;

/* The page, made at the first need of it. */
struct ls_live *ls_live_page(void);

struct ls_session {
    _Atomic int state; /* enum ls_state */
    pid_t pid;         /* whose session it is */
    struct ls_env env;
    struct ls_spool_header *header; /* mapped for the life of the process */
    pid_t run_pid;                  /* the run that the process belongs to, see trace_name.h */
    uint64_t run_start;
    char trace[LS_PATH_MAX];  /* absolute path of the trace */
    char spool[LS_PATH_MAX];  /* absolute path of the spool */
    _Atomic uint32_t threads; /* numbers given out */
};
extern struct ls_session ls_session;

/* Slow path of every wrapper: make the session run if it can. True: it runs; *started: since this
 * very call, whose thread then has to describe it (describe.h). */
bool ls_session_ensure(bool *started);

/* Have the collector look at the spool now; waits for nothing. Returns what `drained` will reach.
 */
uint32_t ls_session_wake_collector(void);

#endif
