/*
 * known.h - which addresses recorded calls have made known, for the copies' memory kinds.
 *
 * The collector tells a pinned address from a pageable one by the recorded allocations; the
 * target only decides whether to ask CUDA about an address that no recorded call ever made known
 * (it may have been pinned beside us). So two sticky bits per 2 MiB of address space are enough:
 * "something recorded lay here", and "asked before, it was pageable".
 * Any thread; no lock; async-signal-safe once the maps exist.
 */
#ifndef LS_KNOWN_H
#define LS_KNOWN_H

#include <stdbool.h>
#include <stdint.h>

void ls_known_mark(uint64_t address, uint64_t size);
bool ls_known(uint64_t address);

void ls_asked_mark(uint64_t address);
bool ls_asked(uint64_t address);

#endif
