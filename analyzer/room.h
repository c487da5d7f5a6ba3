/*
 * room.h - arrays that grow. One thread; not async-signal-safe.
 *
 * For the commands that read traces: where there is no memory they end, with one line and status 3.
 * Who must not end, the collector, is rescued.
 */
#ifndef LAYOUTSPY_ROOM_H
#define LAYOUTSPY_ROOM_H

#include <setjmp.h>
#include <stddef.h>

/* `array` with room for one more than `count` elements of `size` bytes; `room` is how many it has
 * room for. */
void *ls_room(void *array, size_t count, size_t *room, size_t size);

/* As calloc, of at least one element. */
void *ls_new(size_t count, size_t size);

/* A copy, by malloc. */
char *ls_copied(const char *text);

/* What they do where there is no memory. */
void ls_no_memory(void) __attribute__((noreturn));

/* Go there instead, with 1; what the stack held then is leaked. NULL: end again. */
void ls_room_rescue(jmp_buf *at);

#endif
