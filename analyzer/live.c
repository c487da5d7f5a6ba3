/*
 * live.c - an interval tree of lifetimes: a treap by address, each node with the furthest end
 * below it. See live.h. One thread; not async-signal-safe.
 */
#include "live.h"

#include <stdlib.h>

struct ls_live_node {
    struct ls_live_node *left, *right;
    uint64_t address;
    uint64_t priority;  /* random: keeps the tree shallow whatever the order of addresses */
    uint64_t end;       /* one past the last byte of the longest lifetime here */
    uint64_t end_below; /* the same over the whole subtree */
    struct ls_life *newest;
};

static uint64_t end_of(const struct ls_life *life) {
    /* An empty allocation still has its address. */
    uint64_t size = life->size ? life->size : 1;
    return life->address + size < life->address ? UINT64_MAX : life->address + size;
}

static void renew_below(struct ls_live_node *node) {
    node->end_below = node->end;
    if (node->left && node->left->end_below > node->end_below)
        node->end_below = node->left->end_below;
    if (node->right && node->right->end_below > node->end_below)
        node->end_below = node->right->end_below;
}

static void renew(struct ls_live_node *node) {
    node->end = 0;
    for (const struct ls_life *life = node->newest; life; life = life->older)
        if (end_of(life) > node->end)
            node->end = end_of(life);
    renew_below(node);
}

static struct ls_live_node *join(struct ls_live_node *left, struct ls_live_node *right) {
    if (!left || !right)
        return left ? left : right;
    if (left->priority > right->priority) {
        left->right = join(left->right, right);
        renew_below(left);
        return left;
    }
    right->left = join(left, right->left);
    renew_below(right);
    return right;
}

/* Split into addresses below `address` and the rest. */
static void split(struct ls_live_node *node, uint64_t address, struct ls_live_node **left,
                  struct ls_live_node **right) {
    if (!node) {
        *left = *right = NULL;
    } else if (node->address < address) {
        split(node->right, address, &node->right, right);
        *left = node;
        renew_below(node);
    } else {
        split(node->left, address, left, &node->left);
        *right = node;
        renew_below(node);
    }
}

static struct ls_live_node *at_address(const struct ls_live *live, uint64_t address) {
    struct ls_live_node *node = live->root;
    while (node && node->address != address)
        node = address < node->address ? node->left : node->right;
    return node;
}

static uint64_t roll(struct ls_live *live) {
    live->random += 0x9e3779b97f4a7c15u; /* splitmix64 */
    uint64_t z = live->random;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Renew the furthest ends on the way from the root to `address`. */
static void renew_path(struct ls_live_node *node, uint64_t address) {
    if (node->address != address)
        renew_path(address < node->address ? node->left : node->right, address);
    renew_below(node);
}

bool ls_live_add(struct ls_live *live, struct ls_life *life) {
    struct ls_live_node *node = at_address(live, life->address);
    if (!node) {
        node = calloc(1, sizeof *node);
        if (!node)
            return false;
        node->address = life->address;
        node->priority = roll(live);
        node->end = node->end_below = end_of(life);
        struct ls_live_node *left, *right;
        split(live->root, life->address, &left, &right);
        live->root = join(join(left, node), right);
    }
    life->older = node->newest;
    node->newest = life;
    live->count++;
    renew(node);
    renew_path(live->root, life->address);
    return true;
}

static struct ls_life *find_in(const struct ls_live_node *node, uint64_t address) {
    while (node && node->end_below > address) {
        if (node->address <= address) {
            /* The nearest start wins: what lies further left is an older, unfreed one around it. */
            struct ls_life *life = find_in(node->right, address);
            if (life)
                return life;
            for (life = address < node->end ? node->newest : NULL; life; life = life->older)
                if (address < end_of(life))
                    return life;
        }
        node = node->left;
    }
    return NULL;
}

struct ls_life *ls_live_find(const struct ls_live *live, uint64_t address) {
    return find_in(live->root, address);
}

struct ls_life *ls_live_next(const struct ls_live *live, uint64_t address) {
    const struct ls_live_node *found = NULL;
    for (const struct ls_live_node *node = live->root; node;) {
        bool low = node->address < address;
        if (!low)
            found = node;
        node = low ? node->right : node->left;
    }
    return found ? found->newest : NULL;
}

static void drop_node(struct ls_live *live, uint64_t address) {
    struct ls_live_node *left, *middle, *right;
    split(live->root, address, &left, &right);
    split(right, address + 1, &middle, &right);
    free(middle);
    live->root = join(left, right);
}

/* Take `*link` out of its node. */
static struct ls_life *take(struct ls_live *live, struct ls_live_node *node,
                            struct ls_life **link) {
    struct ls_life *life = *link;
    *link = life->older;
    life->older = NULL;
    live->count--;
    if (!node->newest) {
        drop_node(live, life->address);
    } else {
        renew(node);
        renew_path(live->root, life->address);
    }
    return life;
}

struct ls_life *ls_live_uncrowd(struct ls_live *live, uint64_t address) {
    struct ls_live_node *node = at_address(live, address);
    struct ls_life **link = node ? &node->newest : NULL;
    int count = 1;
    if (!node)
        return NULL;
    for (; (*link)->older; count++)
        link = &(*link)->older;
    return count > LS_LIVE_CROWD ? take(live, node, link) : NULL;
}

struct ls_life *ls_live_end(struct ls_live *live, uint64_t address, int64_t start_ns,
                            bool registered) {
    struct ls_live_node *node = at_address(live, address);
    if (!node)
        return NULL;
    struct ls_life **link = &node->newest;
    while (*link &&
           ((*link)->born_ns > start_ns || ((*link)->kind == LS_MEMORY_REGISTERED) != registered))
        link = &(*link)->older;
    return *link ? take(live, node, link) : NULL;
}

static struct ls_live_node *sweep(struct ls_live *live, struct ls_live_node *node,
                                  bool (*visit)(struct ls_life *life, void *context),
                                  void *context) {
    if (!node)
        return NULL;
    node->left = sweep(live, node->left, visit, context);
    struct ls_life **link = &node->newest;
    while (*link) {
        struct ls_life *life = *link, *older = life->older;
        if (visit(life, context)) {
            *link = older;
            live->count--;
        } else {
            link = &life->older;
        }
    }
    node->right = sweep(live, node->right, visit, context);
    if (node->newest) {
        renew(node);
        return node;
    }
    struct ls_live_node *rest = join(node->left, node->right);
    free(node);
    return rest;
}

void ls_live_sweep(struct ls_live *live, bool (*visit)(struct ls_life *life, void *context),
                   void *context) {
    live->root = sweep(live, live->root, visit, context);
}

static bool free_life(struct ls_life *life, void *context) {
    (void)context;
    free(life);
    return true;
}

void ls_live_destroy(struct ls_live *live) {
    ls_live_sweep(live, free_life, NULL);
}
