/*
 * tree.h - a sorted set of nodes with a two-part key: a treap, nodes embedded by their owner.
 *
 * Not locked: the owner's lock covers it. Keys must be unique within a tree.
 */
#ifndef STANDIN_TREE_H
#define STANDIN_TREE_H

#include <stdint.h>

struct tree_node {
    struct tree_node *left, *right;
    uint64_t key, key2; /* compared in this order; set before the insertion */
    uint32_t priority;
};

struct tree {
    struct tree_node *root;
};

void sd_tree_insert(struct tree *tree, struct tree_node *node);
void sd_tree_remove(struct tree *tree, struct tree_node *node);
/* The node with the greatest key <= (key, key2), or NULL. */
struct tree_node *sd_tree_floor(const struct tree *tree, uint64_t key, uint64_t key2);
/* The node with the smallest key >= (key, key2), or NULL. */
struct tree_node *sd_tree_ceiling(const struct tree *tree, uint64_t key, uint64_t key2);
/* Calls `visit` for each node in order. It must not change the tree. */
void sd_tree_each(const struct tree *tree, void (*visit)(struct tree_node *node, void *data),
                  void *data);

#define TREE_OWNER(node, type, member) ((type *)((char *)(node)-offsetof(type, member)))

#endif
