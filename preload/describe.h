/*
 * describe.h - the records that open a recording.
 */
#ifndef LS_DESCRIBE_H
#define LS_DESCRIBE_H

#include "thread.h"

/* Who, where, what is covered. By the thread that started the recording, which is busy. */
void ls_session_describe(struct ls_thread *self);

/* "key\0value\0" and "layer\0state\0detail\0". Cut to fit; lost silently where there is no room. */
void ls_describe_meta(struct ls_thread *self, const char *key, const char *value);
void ls_describe_coverage(struct ls_thread *self, const char *layer, const char *state,
                          const char *detail);

#endif
