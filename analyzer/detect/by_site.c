/*
 * by_site.c - see by_site.h. Main thread only; not for signal handlers.
 */
#include "by_site.h"

#include <stdlib.h>
#include <string.h>

#include "../hash.h"
#include "../room.h"
#include "layout_cost.h"

struct ls_number {
    size_t number;
    UT_hash_handle hh;
    char key[];
};

size_t ls_number_of(struct ls_numbers *numbers, const void *key, size_t size) {
    struct ls_number *at;
    HASH_FIND(hh, numbers->first, key, size, at);
    if (at)
        return at->number;
    at = ls_new(1, sizeof *at + size);
    at->number = numbers->count++;
    memcpy(at->key, key, size);
    HASH_ADD_KEYPTR(hh, numbers->first, at->key, size, at);
    return at->number;
}

void ls_numbers_free(struct ls_numbers *numbers) {
    struct ls_number *at, *next;
    HASH_ITER(hh, numbers->first, at, next) {
        HASH_DEL(numbers->first, at);
        free(at);
    }
    numbers->count = 0;
}

/* Of a stack that was not asked for before. */
static size_t number_of_text(struct ls_sites *sites, int64_t stack) {
    char *text = ls_site_of(sites->db, stack);
    size_t known = sites->texts.count, number = ls_number_of(&sites->texts, text, strlen(text));
    if (number < known) {
        free(text);
        return number;
    }
    sites->text = ls_room(sites->text, number, &sites->text_room, sizeof *sites->text);
    sites->text[number] = text;
    return number;
}

size_t ls_site_number(struct ls_sites *sites, int64_t stack) {
    size_t known = sites->stacks.count, at = ls_number_of(&sites->stacks, &stack, sizeof stack);
    if (at == known) {
        sites->of_stack = ls_room(sites->of_stack, at, &sites->stack_room, sizeof *sites->of_stack);
        sites->of_stack[at] = number_of_text(sites, stack);
    }
    return sites->of_stack[at];
}

void ls_sites_free(struct ls_sites *sites) {
    for (size_t i = 0; i < sites->texts.count; i++)
        free(sites->text[i]);
    free(sites->text);
    free(sites->of_stack);
    ls_numbers_free(&sites->stacks);
    ls_numbers_free(&sites->texts);
}
