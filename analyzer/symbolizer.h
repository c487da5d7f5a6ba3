/*
 * symbolizer.h - symbolize.h and demangle.h in a process of its own, asked without waiting.
 *
 * A corrupt file may make the worker crash or hang; the collector then drops that file's names
 * and starts another worker. One question at a time. The worker is forked from this process at
 * the first question, keeps no descriptor of it, and dies with it.
 * One thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_SYMBOLIZER_H
#define LAYOUTSPY_SYMBOLIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "symbolize.h"

#define LS_SYMBOLIZER_BATCH 256 /* addresses in one question, at most */

struct ls_symbolizer {
    pid_t pid; /* 0: no worker */
    int fd;
    uint32_t asked;  /* addresses in the open question, 0: none */
    uint32_t deaths; /* of workers that were asked to demangle */
    uint8_t *answer;
    size_t size, room;
};

enum ls_symbolizer_state {
    LS_SYMBOLIZER_WAITING, /* no answer yet */
    LS_SYMBOLIZER_DONE,    /* each address was handed to the callback */
    LS_SYMBOLIZER_FAILED,  /* no answer will come: the worker died */
};

/* For each address of the question, in its order; symbols are only lent. */
typedef void (*ls_symbolizer_fn)(void *context, uint32_t index, const struct ls_symbol *symbol,
                                 int count);

/* Ask for return addresses (ELF addresses) of a file. False: no worker can be had. */
bool ls_symbolizer_ask(struct ls_symbolizer *symbolizer, const char *path, const uint8_t *build_id,
                       uint32_t build_id_size, const uint64_t *offset, uint32_t count);

/* Wait up to `timeout_ms` for the answer. */
enum ls_symbolizer_state ls_symbolizer_poll(struct ls_symbolizer *symbolizer, int timeout_ms,
                                            ls_symbolizer_fn each, void *context);

/*
 * `name` demangled by the worker, or a copy of it where that takes longer than `timeout_ms`; to be
 * freed. Not while a question is open.
 */
char *ls_symbolizer_demangle(struct ls_symbolizer *symbolizer, const char *name, int timeout_ms);

/* End the worker, also in the middle of a question. */
void ls_symbolizer_stop(struct ls_symbolizer *symbolizer);

#endif
