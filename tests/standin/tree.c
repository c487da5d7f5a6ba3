/*
 * tree.c - a treap: a search tree whose nodes also form a heap of random priorities, which keeps
 * it shallow. See tree.h.
 */
#include "tree.h"

#include <stdbool.h>
#include <stddef.h>

static bool before(uint64_t a, uint64_t a2, uint64_t b, uint64_t b2) {
    return a < b || (a == b && a2 < b2);
}

/* Splits `root` into the nodes before `at` and the others. */
static void split(struct tree_node *root, const struct tree_node *at, struct tree_node **left,
                  struct tree_node **right) {
    while (root) {
        if (before(root->key, root->key2, at->key, at->key2)) {
            *left = root;
            left = &root->right;
            root = root->right;
        } else {
            *right = root;
            right = &root->left;
            root = root->left;
        }
    }
    *left = *right = NULL;
}

static struct tree_node *merge(struct tree_node *left, struct tree_node *right) {
    struct tree_node *root = NULL, **link = &root;
    while (left && right) {
        if (left->priority > right->priority) {
            *link = left;
            link = &left->right;
            left = left->right;
        } else {
            *link = right;
            link = &right->left;
            right = right->left;
        }
    }
    *link = left ? left : right;
    return root;
}

static uint32_t next_priority(void) {
    static uint32_t state = 2463534242u; /* xorshift; a race only makes it less random */
    uint32_t x = state;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return state = x;
}

void sd_tree_insert(struct tree *tree, struct tree_node *node) {
    node->priority = next_priority();
    struct tree_node **link = &tree->root;
    while (*link && (*link)->priority >= node->priority)
        link = before((*link)->key, (*link)->key2, node->key, node->key2) ? &(*link)->right
                                                                          : &(*link)->left;
    split(*link, node, &node->left, &node->right);
    *link = node;
}

void sd_tree_remove(struct tree *tree, struct tree_node *node) {
    struct tree_node **link = &tree->root;
    while (*link != node)
        link = before((*link)->key, (*link)->key2, node->key, node->key2) ? &(*link)->right
                                                                          : &(*link)->left;
    *link = merge(node->left, node->right);
}

struct tree_node *sd_tree_floor(const struct tree *tree, uint64_t key, uint64_t key2) {
    struct tree_node *best = NULL;
    for (struct tree_node *at = tree->root; at;) {
        if (before(key, key2, at->key, at->key2)) {
            at = at->left;
        } else {
            best = at;
            at = at->right;
        }
    }
    return best;
}

struct tree_node *sd_tree_ceiling(const struct tree *tree, uint64_t key, uint64_t key2) {
    struct tree_node *best = NULL;
    for (struct tree_node *at = tree->root; at;) {
        if (before(at->key, at->key2, key, key2)) {
            at = at->right;
        } else {
            best = at;
            at = at->left;
        }
    }
    return best;
}

static void each(struct tree_node *at, void (*visit)(struct tree_node *, void *), void *data) {
    for (; at; at = at->right) {
        each(at->left, visit, data);
        visit(at, data);
    }
}

void sd_tree_each(const struct tree *tree, void (*visit)(struct tree_node *node, void *data),
                  void *data) {
    each(tree->root, visit, data);
}
