/*
 * room.c - see room.h.
 */
#include "room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace.h"

static jmp_buf *rescue;

void ls_room_rescue(jmp_buf *at) {
    rescue = at;
}

void ls_no_memory(void) {
    if (rescue)
        longjmp(*rescue, 1);
    fputs("layoutspy: out of memory while reading the trace\n", stderr);
    exit(LS_EXIT_INPUT);
}

static void *checked(void *memory) {
    if (!memory)
        ls_no_memory();
    return memory;
}

void *ls_room(void *array, size_t count, size_t *room, size_t size) {
    if (count < *room)
        return array;
    *room = *room ? *room * 2 : 64;
    return checked(realloc(array, *room * size));
}

void *ls_new(size_t count, size_t size) {
    return checked(calloc(count ? count : 1, size));
}

char *ls_copied(const char *text) {
    return checked(strdup(text));
}
