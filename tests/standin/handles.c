/*
 * handles.c - live handles in a sorted set by address. See handles.h.
 *
 * The tree's node lies before the object, so the handle that programs see is an address in the
 * middle of an allocation, as with real CUDA.
 */
#include "handles.h"

#include <stdlib.h>

#include "tree.h"

struct handle {
    struct tree_node node; /* key: address of `object` */
    enum handle_type type;
    max_align_t object[];
};

static struct tree handles;

void *sd_handle_new(enum handle_type type, size_t size) {
    struct handle *h = calloc(1, sizeof *h + size);
    if (!h)
        return NULL;
    h->type = type;
    h->node.key = (uintptr_t)h->object;
    sd_tree_insert(&handles, &h->node);
    return h->object;
}

void *sd_handle(const void *pointer, enum handle_type type) {
    struct tree_node *node = sd_tree_floor(&handles, (uintptr_t)pointer, 0);
    if (!node || node->key != (uintptr_t)pointer)
        return NULL;
    struct handle *h = TREE_OWNER(node, struct handle, node);
    return h->type == type ? h->object : NULL;
}

void sd_handle_retire(void *object) {
    sd_tree_remove(&handles, &TREE_OWNER(object, struct handle, object)->node);
}

void sd_handle_free(void *retired) {
    free(TREE_OWNER(retired, struct handle, object));
}

void sd_handle_delete(void *object) {
    sd_handle_retire(object);
    sd_handle_free(object);
}

void sd_handle_each(enum handle_type type, void (*visit)(void *object, void *data), void *data) {
    struct tree_node *node;
    for (uint64_t at = 0; (node = sd_tree_ceiling(&handles, at, 0));) {
        at = node->key + 1;
        struct handle *h = TREE_OWNER(node, struct handle, node);
        if (h->type == type)
            visit(h->object, data);
    }
}
