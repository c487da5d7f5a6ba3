/*
 * unwind.h - our own libunwind (built by tools/libunwind, static and hidden).
 */
#ifndef LS_UNWIND_H
#define LS_UNWIND_H

#define UNW_LOCAL_ONLY
#include <libunwind-layoutspy.h>
#include <libunwind.h>

#endif
