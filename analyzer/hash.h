/*
 * hash.h - uthash, for what reads traces: where there is no memory it does what room.h does, so
 * that who must not end, the collector, is rescued from here, too. One thread; not
 * async-signal-safe.
 */
#ifndef LAYOUTSPY_HASH_H
#define LAYOUTSPY_HASH_H

#include "room.h"

#define uthash_fatal(message) ls_no_memory()
#include <uthash.h>

#endif
