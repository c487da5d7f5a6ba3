/*
 * census_walk.h - which objects can be reached, and by which path: the tables of a census, and the
 * walk that fills them.
 *
 * Everything here runs in one pending call of the interpreter: on its main thread, with the GIL,
 * between two of its instructions. No code of the user's is run: objects are asked for their
 * references as the garbage collector asks them (tp_traverse), and what has names (dicts, lists,
 * frames, attributes) is read as it lies. Pointers in the tables are borrowed, but for tensors:
 * they hold until PyTorch is asked for the first time, for it lets the GIL go. From then on nodes
 * before `settled` are numbers only; what is found later is walked, and its paths are written, at
 * once.
 */
#ifndef LS_CENSUS_WALK_H
#define LS_CENSUS_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layoutspy/format.h"
#include "python_object.h"

/* How an object is reached from its parent, and what `label` means. */
enum ls_edge {
    LS_EDGE_ROOT_MAIN,    /* the variables of __main__ */
    LS_EDGE_ROOT_MODULE,  /* a module, or its variables; label: its name, a str */
    LS_EDGE_ROOT_FRAME,   /* `object` is a running frame, see python_object.h */
    LS_EDGE_ROOT_RAISED,  /* an exception that is being handled, or was not handled */
    LS_EDGE_ROOT_LOST,    /* found among all objects only: of a reference cycle, */
    LS_EDGE_ROOT_OUTSIDE, /* or held by something that is no object of Python's */
    LS_EDGE_ROOT_GRAPH,   /* label: where its text lies in the census's text */
    LS_EDGE_ATTRIBUTES,   /* an object's __dict__ */
    LS_EDGE_KEY,          /* the value of a dict; label: its key */
    LS_EDGE_KEY_ITSELF,   /* the key of a dict */
    LS_EDGE_ATTRIBUTE,    /* label: its name, a str */
    LS_EDGE_INDEX,        /* of a list or tuple; label: the index */
    LS_EDGE_LOCAL,        /* of a frame or generator; label: its name, a str */
    LS_EDGE_TEMPORARY,    /* of a frame or generator: what it works on */
    LS_EDGE_CLASS,        /* an object's class */
    LS_EDGE_OTHER,        /* label: the how-many-eth reference */
};
#define LS_EDGE_IS_ROOT(kind) ((kind) <= LS_EDGE_ROOT_GRAPH)

/* What is known of a type, once it was met. */
enum ls_trait {
    LS_TRAIT_GC = 1, /* its objects have references */
    LS_TRAIT_DICT = 4,
    LS_TRAIT_LIST = 8,
    LS_TRAIT_TUPLE = 16,
    LS_TRAIT_PLAIN = 32, /* exactly that, and no subclass */
    LS_TRAIT_FRAME = 64,
    LS_TRAIT_GENERATOR = 128,
    LS_TRAIT_TRACEBACK = 256,
    LS_TRAIT_EXCEPTION = 512,
    LS_TRAIT_TENSOR = 1024,
    LS_TRAIT_WRAPPER = 2048, /* a tensor that hands operations on to other ones it holds */
    LS_TRAIT_NN_MODULE = 4096,
    LS_TRAIT_HAS_DICT = 8192,
    LS_TRAIT_NODE = 16384, /* of an autograd graph */
};
struct ls_census_type {
    uintptr_t type;
    uint64_t flags;  /* its own; other ones: another type lies there now */
    uint32_t traits; /* enum ls_trait */
    uint32_t text;   /* its full name in the census's text; 0: not asked for yet */
};

enum ls_node_state {
    LS_NODE_PARKED = 1,    /* known, and expanded only when its turn comes */
    LS_NODE_CANDIDATE = 2, /* unreached so far: who reaches it makes a node of it (census_lost.c) */
};
struct ls_census_node {
    uintptr_t object;
    uint64_t label; /* of a tensor: its place among the tensors, where the label is kept, too */
    uint32_t parent;
    uint8_t kind;  /* enum ls_edge */
    uint8_t state; /* enum ls_node_state */
    uint16_t held; /* enum ls_tensor_flag: LOCAL, RAISED, GLOBAL, GRAPH, LOST; 0: outside */
};

struct ls_census_edge {
    uint64_t label;
    uint32_t parent;
    uint32_t kind;
};

#define LS_EDGES_KEPT 4 /* paths of a tensor that are told */
#define LS_CENSUS_NONE UINT32_MAX
struct ls_census_tensor {
    uintptr_t object; /* a reference of ours; 0: it has no object that stays */
    uint32_t node;
    uint32_t flags; /* enum ls_tensor_flag */
    uint32_t paths;
    uint32_t last_parent; /* that led here */
    struct ls_census_edge edge[LS_EDGES_KEPT];
    uint32_t text, texts; /* its told paths: where in the census's text, and how many */
    uint32_t facts;       /* census_tensor.h: where in the census's text; 0: not looked at */
    uint32_t next;        /* of the same storage; LS_CENSUS_NONE: the last */
    bool ours;            /* an object that lives no longer than our reference */
    void *grad_fn;        /* a reference of ours, or NULL */
};

/* Somebody else than a graph holds it. */
static inline bool ls_census_is_held(const struct ls_census_tensor *tensor) {
    return tensor->flags & (LS_TENSOR_GLOBAL | LS_TENSOR_LOCAL | LS_TENSOR_RAISED | LS_TENSOR_LOST);
}

struct ls_census_storage {
    uint64_t address, bytes, held_by_graph;
    uint32_t first, last; /* tensors */
    uint8_t device;
    bool reached; /* by a path, not only through a graph */
};

struct ls_torch;

struct ls_census {
    /* Everything lies in one mapping. */
    void *map;
    size_t map_size;
    struct ls_census_node *node;
    uint32_t *slot; /* by address: a node + 1 */
    struct ls_census_type *type;
    struct ls_census_tensor *tensor;
    struct ls_census_storage *storage;
    uint32_t *storage_slot;
    uint32_t *later; /* tracebacks that were met before their turn */
    char *text;
    uint32_t nodes, types, tensors, storages, laters, text_used;

    uint32_t settled; /* what nodes before this one point to may be gone */
    uint32_t next;    /* the first node that was not expanded yet */
    uint16_t held;    /* what is put down for paths from the root that is walked */
    uintptr_t hidden; /* an object that is not reached for now */
    bool elsewhere;   /* after an OOM in another thread than the one that makes the census */
    bool backward;    /* autograd runs somewhere: gradients and graphs may change meanwhile */
    bool tracebacks;  /* their turn has come */
    uint32_t lost_first, lost_end; /* tensors that were found by census_lost.c, */
    uint32_t renewed;              /* and how many a graph had a better path for */
    uint64_t began, deadline;      /* CLOCK_MONOTONIC ns; deadline: of the phase that runs */
    unsigned since_look;
    bool late;       /* the deadline has passed */
    const char *cut; /* why it is not complete, for people; NULL: it is */

    uint64_t device_tensors, graph_nodes;
    struct ls_census_type one_more; /* the latest one that the table has no room for */
    struct ls_torch *torch;
};

/* Map the tables. False: no memory. */
bool ls_census_begin(struct ls_census *c, struct ls_torch *torch);

/* Give back all references and the tables. */
void ls_census_end(struct ls_census *c);

/* A phase may take until `ms` after the beginning. */
void ls_census_phase(struct ls_census *c, unsigned ms);
/* It has taken longer. Cheap: the clock is read now and then. */
bool ls_census_late(struct ls_census *c);

struct ls_census_type *ls_census_type(struct ls_census *c, uintptr_t type);
static inline uint32_t ls_census_traits(struct ls_census *c, uintptr_t object) {
    return ls_census_type(c, ls_python_type(object))->traits;
}

/* The node of an object, LS_CENSUS_NONE: it was not reached. */
uint32_t ls_census_find(struct ls_census *c, uintptr_t object);

/* The tensor that an object is, where it was reached. */
uint32_t ls_census_find_tensor(struct ls_census *c, uintptr_t object);

/* An object that the walk starts from. LS_CENSUS_NONE: it is known already, or there is no room. */
uint32_t ls_census_root(struct ls_census *c, uintptr_t object, enum ls_edge kind, uint64_t label,
                        uint16_t held);

/* A candidate becomes a root of the walk; a tensor, a tensor without a path. */
void ls_census_adopt(struct ls_census *c, uint32_t node, enum ls_edge kind, uint16_t held);

/* `child` is reached from the node `parent`: a new node, or another path to a tensor. */
void ls_census_reach(struct ls_census *c, uint32_t parent, uintptr_t child, enum ls_edge kind,
                     uint64_t label);

/* Each reference of an object, as the collector is told of them. */
void ls_census_references(uintptr_t object, int (*visit)(void *child, void *context),
                          void *context);

/* What the node's object refers to, and then all that can be reached from there. */
void ls_census_walk_from(struct ls_census *c, uint32_t node);

/* `size` bytes among the census's text, 8-aligned; 0: no room. */
uint32_t ls_census_room(struct ls_census *c, size_t size);

/* census_roots.c: walk from all roots. */
void ls_census_roots(struct ls_census *c);

/* census_lost.c: what no root reaches. */
void ls_census_lost(struct ls_census *c);

/* census_path.c: the path of an edge, as people read it. Returns its length; cut to fit. */
size_t ls_census_path(struct ls_census *c, const struct ls_census_edge *edge, uintptr_t child,
                      char *out, size_t room);
/* Write down the paths of the tensors from `first` to before `end`, where that was not done yet:
 * while no Python has run since the walk. */
void ls_census_paths(struct ls_census *c, uint32_t first, uint32_t end);
/* "package.module.Class" */
const char *ls_census_type_name(struct ls_census *c, uintptr_t type);

#endif
