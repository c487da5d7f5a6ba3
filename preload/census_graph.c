/*
 * census_graph.c - what only autograd graphs keep: a kept loss of a few bytes holds all that its
 * backward pass would need. See census_walk.h.
 *
 * From the tensors' grad_fn over next_functions, each node once, and what each has saved; from all
 * tensors at once, a step at a time, so that what a node saves counts for the tensor that is
 * nearest, and one long graph leaves room for the others. Reading a saved tensor would call the
 * hooks with which it may have been saved (a checkpoint computes it anew, another one copies it
 * from the host): PyTorch tells whether there are any. Where there are, what they packed is walked
 * like any other object.
 */
#include <stdio.h>
#include <string.h>

#include "census_tensor.h"

enum { UNTIL_GRAPHS = 1900 }; /* ms after the beginning */

#define NODES_MAX (1u << 17) /* nodes that are looked at */
#define NODE_SLOTS (1u << 18)
#define SAVED_MAX 64 /* of one type of node */
#define WAY_MAX 320  /* bytes of a path */

struct saved {
    void *descriptor;
    const char *name; /* "_saved_self" */
};

/* What a type of nodes has; the latest one is kept, for graphs repeat themselves. */
struct node_type {
    uintptr_t type;
    void *next; /* next_functions */
    struct saved saved[SAVED_MAX];
    unsigned count;
};

struct graphs {
    struct ls_census *c;
    void **node;      /* references of ours, in the order of the walk */
    uint32_t *tensor; /* of each node: the one that leads to it */
    uint32_t *slot;
    uint32_t nodes, next;
    struct node_type types[64];
    unsigned hooks_untold; /* this PyTorch does not say whether there are hooks */
};

/* ---- nodes ---- */

static void add_node(struct graphs *g, void *node, uint32_t tensor) {
    uint32_t place = (uint32_t)(((uintptr_t)node >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32);
    uint32_t *slot;
    for (;; place++) {
        slot = &g->slot[place & (NODE_SLOTS - 1)];
        if (!*slot)
            break;
        if (g->node[*slot - 1] == node)
            return;
    }
    if (g->nodes == NODES_MAX) {
        g->c->cut = "graphs have more nodes than it has memory for";
        return;
    }
    ls_py.Py_IncRef(node);
    g->tensor[g->nodes] = tensor;
    g->node[g->nodes++] = node;
    *slot = g->nodes;
}

static bool is_getter(void *object) {
    return ls_python_type((uintptr_t)object) == (uintptr_t)ls_py.PyGetSetDescr_Type;
}

/* The getters of one class; those of a class before it count. `_raw_saved_` ones alone: they give
 * what is saved without unpacking it. */
static void add_getters(struct node_type *type, void *dict) {
    static const char raw[] = "_raw_saved_";
    long position = 0;
    void *key, *value;
    while (dict && ls_py.PyDict_Next(dict, &position, &key, &value)) {
        if (!is_getter(value))
            continue;
        char name[64];
        ls_python_utf8((uintptr_t)key, name, sizeof name);
        if (!type->next && strcmp(name, "next_functions") == 0)
            type->next = value;
        if (strncmp(name, raw, sizeof raw - 1) != 0 || type->count == SAVED_MAX)
            continue;
        /* The name lies in the descriptor's definition, for as long as the type. */
        type->saved[type->count++] = (struct saved){
            value,
            *(const char *const *)ls_python_word((uintptr_t)value, LS_GETTER_DEFINITION) + 4};
    }
}

static const struct node_type *type_of(struct graphs *g, void *node) {
    uintptr_t type = ls_python_type((uintptr_t)node);
    struct node_type *found = &g->types[(type >> 6 ^ type >> 12) % 64];
    if (found->type == type)
        return found;
    *found = (struct node_type){.type = type};
    void *mro = (void *)ls_python_word(type, LS_TYPE_MRO);
    for (long i = 0; mro && i < ls_py.PyTuple_Size(mro); i++)
        add_getters(found,
                    (void *)ls_python_word((uintptr_t)ls_py.PyTuple_GetItem(mro, i), LS_TYPE_DICT));
    return found;
}

/* ((node, input), ...) */
static void add_next(struct graphs *g, uint32_t i, const struct node_type *type) {
    void *next = type->next ? ls_torch_get(type->next, g->node[i]) : NULL;
    bool tuple = next && ls_python_type((uintptr_t)next) == (uintptr_t)ls_py.PyTuple_Type;
    for (long k = 0; tuple && k < ls_py.PyTuple_Size(next); k++) {
        void *pair = ls_py.PyTuple_GetItem(next, k);
        bool good = ls_python_type((uintptr_t)pair) == (uintptr_t)ls_py.PyTuple_Type &&
                    ls_py.PyTuple_Size(pair) > 0;
        void *one = good ? ls_py.PyTuple_GetItem(pair, 0) : NULL;
        if (one && one != ls_py._Py_NoneStruct)
            add_node(g, one, g->tensor[i]);
    }
    if (next)
        ls_py.Py_DecRef(next);
}

/* ---- what they saved ---- */

/* "losses[412].grad_fn._saved_self", or "losses[412].grad_fn...SinBackward0._saved_self" */
static void describe_way(struct graphs *g, uint32_t node, const char *saved, char out[WAY_MAX]) {
    const struct ls_census_tensor *from = &g->c->tensor[g->tensor[node]];
    const char *type =
        (const char *)ls_python_word(ls_python_type((uintptr_t)g->node[node]), LS_TYPE_NAME);
    bool own = from->grad_fn == g->node[node];
    snprintf(out, WAY_MAX, "%s.grad_fn%s%s%s%s", from->texts ? g->c->text + from->text : "<tensor>",
             own ? "" : "...", own ? "" : type, *saved ? "." : "", saved);
}

/* Storages that were reached by no path before are held by the one that led here. */
static void credit(struct graphs *g, uint32_t node, struct ls_census_storage *storage) {
    const struct ls_census_tensor *from = &g->c->tensor[g->tensor[node]];
    if (storage->reached)
        return;
    storage->reached = true;
    if (!from->facts || !ls_census_is_held(from))
        return; /* the graph hangs on a tensor of the host's, or on another graph */
    const struct ls_tensor_facts *facts = (const void *)(g->c->text + from->facts);
    struct ls_census_storage *holder = &g->c->storage[facts->storage - 1];
    if (holder != storage)
        holder->held_by_graph += storage->bytes;
}

/* These were found on the way, or have a path now. */
static void put_found(struct graphs *g, uint32_t node, uint32_t first, uint32_t end) {
    struct ls_census *c = g->c;
    bool made;
    ls_census_paths(c, first, end);
    for (uint32_t i = first; i < end && !ls_census_late(c); i++) {
        if (!(c->tensor[i].flags & LS_TENSOR_GRAPH))
            continue;
        if (!c->tensor[i].facts)
            ls_census_describe(c, i, (void *)c->tensor[i].object, &made);
        if (c->tensor[i].facts)
            credit(g, node, ls_census_storage_of(c, i));
    }
}

static bool is_temporary(const void *object) {
    return ls_python_count((uintptr_t)object) == 1;
}

/* Some operation's input, which may be anybody's, or a result that only the graph keeps. */
static void put_tensor(struct graphs *g, uint32_t node, const char *name, void *object) {
    struct ls_census *c = g->c;
    uint32_t known = ls_census_find_tensor(c, (uintptr_t)object);
    bool made, ours = is_temporary(object);
    if (known != LS_CENSUS_NONE && ls_census_is_held(&c->tensor[known])) {
        c->tensor[known].flags |= LS_TENSOR_GRAPH;
        return;
    }
    if (known != LS_CENSUS_NONE && !(c->tensor[known].flags & LS_TENSOR_GRAPH))
        c->tensor[known].paths = c->tensor[known].texts = 0; /* now there is a better one */
    struct ls_census_storage *storage = ls_census_storage(c, object, &made);
    if (!storage || (known == LS_CENSUS_NONE && storage->reached))
        return; /* one of several that save it, or a view of what somebody has */
    char way[WAY_MAX];
    describe_way(g, node, name, way);
    uint32_t tensor = ls_census_add_tensor(c, object, way, LS_TENSOR_GRAPH);
    if (tensor == LS_CENSUS_NONE)
        return;
    c->tensor[tensor].ours = ours;
    if (!c->tensor[tensor].facts)
        ls_census_describe(c, tensor, object, &made);
    credit(g, node, storage);
}

/* What a hook packed, or a Function of the user's. */
static void put_object(struct graphs *g, uint32_t node, const char *name, void *object) {
    struct ls_census *c = g->c;
    uint32_t first = c->tensors, renewed = c->renewed;
    char way[WAY_MAX];
    if (!(ls_census_traits(c, (uintptr_t)object) & LS_TRAIT_GC))
        return;
    describe_way(g, node, name, way);
    uint32_t text = ls_census_room(c, strlen(way) + 1);
    if (!text)
        return;
    strcpy(c->text + text, way);
    uint32_t root = ls_census_root(c, (uintptr_t)object, LS_EDGE_ROOT_GRAPH, text, LS_TENSOR_GRAPH);
    if (root == LS_CENSUS_NONE)
        return;
    ls_census_walk_from(c, root);
    put_found(g, node, first, c->tensors);
    if (c->renewed != renewed)
        put_found(g, node, c->lost_first, c->lost_end);
}

/* One SavedTensor: as it is, or what a hook packed. */
static void open_saved(struct graphs *g, uint32_t node, const char *name, void *saved) {
    void *hook = ls_py.PyObject_GetAttrString(saved, "unpack_hook");
    if (!hook) {
        ls_py.PyErr_Clear();
        g->hooks_untold++;
        return;
    }
    ls_py.Py_DecRef(hook);
    void *data = ls_py.PyObject_GetAttrString(saved, "data");
    if (data && ls_census_traits(g->c, (uintptr_t)data) & LS_TRAIT_TENSOR)
        put_tensor(g, node, name, data);
    else if (data && data != ls_py._Py_NoneStruct)
        put_object(g, node, name, data);
    if (data)
        ls_py.Py_DecRef(data);
    else
        ls_py.PyErr_Clear();
}

static void look_at(struct graphs *g, uint32_t i) {
    void *node = g->node[i];
    const struct node_type *type = type_of(g, node);
    for (unsigned k = 0; k < type->count; k++) {
        void *saved = ls_torch_get(type->saved[k].descriptor, node); /* freed ones raise */
        if (!saved)
            continue;
        if (ls_python_type((uintptr_t)saved) == (uintptr_t)ls_py.PyTuple_Type)
            for (long n = 0; n < ls_py.PyTuple_Size(saved); n++)
                open_saved(g, i, type->saved[k].name, ls_py.PyTuple_GetItem(saved, n));
        else if (saved != ls_py._Py_NoneStruct)
            open_saved(g, i, type->saved[k].name, saved);
        ls_py.Py_DecRef(saved);
    }
    /* A Function of the user's keeps what it likes. */
    if (ls_census_traits(g->c, (uintptr_t)node) & LS_TRAIT_HAS_DICT)
        put_object(g, i, "", node);
    add_next(g, i, type);
}

/* ---- all ---- */

/* A step at a time from all tensors that something holds; or else, from those that only graphs or
 * nobody known hold: these come last, and nothing counts as theirs. */
static void walk_from(struct graphs *g, bool held) {
    struct ls_census *c = g->c;
    uint32_t end = c->tensors;
    for (uint32_t i = 0; i < end; i++)
        if (c->tensor[i].grad_fn && ls_census_is_held(&c->tensor[i]) == held)
            add_node(g, c->tensor[i].grad_fn, i);
    while (g->next < g->nodes && !ls_census_late(c))
        look_at(g, g->next++);
}

/* Autograd has a thread for each. When one has failed the others may still be at their last node.
 */
static bool on_several_devices(const struct ls_census *c) {
    for (uint32_t i = 1; i < c->storages; i++)
        if (c->storage[i].device != c->storage[0].device)
            return true;
    return false;
}

void ls_census_graphs(struct ls_census *c) {
    static struct graphs g; /* one census at a time */
    c->backward |= c->elsewhere && on_several_devices(c);
    if (c->backward && !c->cut)
        c->cut = "autograd was at work in some thread: gradients and graphs were not looked at";
    if (c->backward)
        return;
    uint32_t room = ls_census_room(c, NODES_MAX * (sizeof(void *) + 4u) + NODE_SLOTS * 4u);
    if (!room)
        return;
    g = (struct graphs){.c = c, .node = (void *)(c->text + room)};
    g.tensor = (uint32_t *)(g.node + NODES_MAX);
    g.slot = g.tensor + NODES_MAX;
    ls_census_phase(c, UNTIL_GRAPHS);
    walk_from(&g, true);
    walk_from(&g, false);
    c->graph_nodes = g.nodes;
    if (g.hooks_untold && !c->cut)
        c->cut = "what graphs keep was not looked at: this PyTorch does not say where hooks would "
                 "be called";
    for (uint32_t i = 0; i < g.nodes; i++)
        ls_py.Py_DecRef(g.node[i]);
}
