/*
 * nvtx.h - NVTX ranges and instants, as an NVTX v3 injection library.
 *
 * NVTX has no library of its own: each program or library that uses it carries its loader, which at
 * the first NVTX call loads what NVTX_INJECTION64_PATH names and calls InitializeInjectionNvtx2
 * (nvtx.c) there. `layoutspy run` sets the variable where it is unset; plain LD_PRELOAD does not.
 * Where it names another tool we are never asked.
 *
 * Ranges and instants become MARK records. Ranges that were begun before the recording, or in the
 * parent of a forked process, are told when the thread begins or ends its next one: marks alone
 * start no recording.
 */
#ifndef LS_NVTX_H
#define LS_NVTX_H

#include <stdatomic.h>
#include <stdint.h>

#include "mark.h"

#define LS_NVTX_DOMAINS 64       /* kept apart; later ones count as one more */
#define LS_NVTX_DOMAIN_NAME 64   /* bytes of a name that are kept */
#define LS_NVTX_STRINGS 0x40000u /* bytes of registered strings; later ones are "" */

/* A domain's handle is the address of its entry. Entry 0 is the default domain's, and has none. */
struct ls_nvtx_domain {
    _Atomic uint32_t named; /* 0 free, 1 being written, 2 `name` holds */
    _Atomic uint64_t told;  /* epoch of the session that knows its name */
    char name[LS_NVTX_DOMAIN_NAME];
};

/* The level of the new range, or LS_NVTX_NO_TRACKING: no memory, or from a signal handler that
 * interrupts this very code. `domain`: an entry's number. */
int ls_nvtx_push(uint32_t domain, const char *text);
/* The level of the ended range, -1 where none was open. */
int ls_nvtx_pop(uint32_t domain);

/* Process-wide ranges: a new id, never 0; and its end in any thread. */
uint64_t ls_nvtx_start(uint32_t domain, const char *text);
void ls_nvtx_end(uint32_t domain, uint64_t id);

void ls_nvtx_point(uint32_t domain, const char *text);

/* The entry of the domain of that name, made where there is none; 0: no name. */
uint32_t ls_nvtx_domain(const char *name);

/* The entry behind a handle, 0 where it is none of ours; and the handle of an entry. */
uint32_t ls_nvtx_domain_of(const void *handle);
void *ls_nvtx_domain_handle(uint32_t domain);

#endif
