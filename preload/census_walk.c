/*
 * census_walk.c - see census_walk.h. One pending call of the interpreter at a time.
 *
 * Breadth first: a node's place in the table is its place in the queue, so the first path to an
 * object is a shortest one from the roots walked so far. Objects that can refer to nothing are not
 * kept; nor are those that the collector does not track, for these refer to no tensor.
 */
#include "census_walk.h"

#include <string.h>
#include <sys/mman.h>

#include "census_tensor.h"
#include "clock.h"

#define NODES_MAX (1u << 20)
#define SLOTS (1u << 21)
#define TYPE_SLOTS 8192u
#define TYPES_MAX 6000u
#define TENSORS_MAX (1u << 16)
#define STORAGES_MAX (1u << 16)
#define STORAGE_SLOTS (1u << 17)
#define LATER_MAX 4096u
#define TEXT_MAX (16u << 20)
#define LOOK_EVERY 256 /* edges, between looks at the clock */

/* ---- the tables ---- */

static size_t put(size_t *end, size_t size) {
    size_t at = *end;
    *end += (size + 63) & ~(size_t)63;
    return at;
}

bool ls_census_begin(struct ls_census *c, struct ls_torch *torch) {
    size_t size = 0;
    size_t nodes = put(&size, NODES_MAX * sizeof *c->node), slots = put(&size, SLOTS * 4u);
    size_t types = put(&size, TYPE_SLOTS * sizeof *c->type);
    size_t tensors = put(&size, TENSORS_MAX * sizeof *c->tensor);
    size_t storages = put(&size, STORAGES_MAX * sizeof *c->storage);
    size_t storage_slots = put(&size, STORAGE_SLOTS * 4u), later = put(&size, LATER_MAX * 4u);
    size_t text = put(&size, TEXT_MAX);
    char *map = mmap(NULL, size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return false;
    *c = (struct ls_census){
        .map = map,
        .map_size = size,
        .node = (void *)(map + nodes),
        .slot = (void *)(map + slots),
        .type = (void *)(map + types),
        .tensor = (void *)(map + tensors),
        .storage = (void *)(map + storages),
        .storage_slot = (void *)(map + storage_slots),
        .later = (void *)(map + later),
        .text = map + text,
        .text_used = 8, /* 0 is nowhere */
        .began = ls_ns(CLOCK_MONOTONIC),
        .torch = torch,
    };
    return true;
}

void ls_census_end(struct ls_census *c) {
    for (uint32_t i = 0; i < c->tensors; i++) {
        if (c->tensor[i].grad_fn)
            ls_py.Py_DecRef(c->tensor[i].grad_fn);
        if (c->tensor[i].object)
            ls_py.Py_DecRef((void *)c->tensor[i].object);
    }
    munmap(c->map, c->map_size);
}

void ls_census_phase(struct ls_census *c, unsigned ms) {
    c->deadline = c->began + ms * 1000000ull;
    c->late = false;
    c->since_look = LOOK_EVERY;
    c->next = c->nodes; /* what the phase before had no time for */
}

bool ls_census_late(struct ls_census *c) {
    if (c->late || ++c->since_look < LOOK_EVERY)
        return c->late;
    c->since_look = 0;
    c->late = ls_ns(CLOCK_MONOTONIC) > c->deadline;
    if (c->late && !c->cut)
        c->cut = "its time ran out";
    return c->late;
}

uint32_t ls_census_room(struct ls_census *c, size_t size) {
    size = (size + 7) & ~(size_t)7;
    if (size > TEXT_MAX - c->text_used) {
        c->cut = "there are more tensors than it has memory for";
        return 0;
    }
    uint32_t at = c->text_used;
    c->text_used += (uint32_t)size;
    return at;
}

/* ---- types ---- */

static bool is_one_of(uintptr_t type, const void *a, const void *b, const void *d) {
    return type == (uintptr_t)a || type == (uintptr_t)b || type == (uintptr_t)d;
}

/* Whether operations on tensors of the type go through Python code of its own. */
static bool dispatches(const struct ls_torch *torch, uintptr_t type) {
    void *mro = (void *)ls_python_word(type, LS_TYPE_MRO);
    for (long i = 0; mro && i < ls_py.PyTuple_Size(mro); i++) {
        uintptr_t base = (uintptr_t)ls_py.PyTuple_GetItem(mro, i);
        void *dict = (void *)ls_python_word(base, LS_TYPE_DICT);
        void *own = dict ? ls_py.PyDict_GetItemString(dict, "__torch_dispatch__") : NULL;
        if (own)
            return (uintptr_t)own != torch->no_dispatch;
    }
    return false;
}

static bool has_attribute(uintptr_t type, const char *name) {
    void *mro = (void *)ls_python_word(type, LS_TYPE_MRO);
    for (long i = 0; mro && i < ls_py.PyTuple_Size(mro); i++) {
        uintptr_t base = (uintptr_t)ls_py.PyTuple_GetItem(mro, i);
        void *dict = (void *)ls_python_word(base, LS_TYPE_DICT);
        if (dict && ls_py.PyDict_GetItemString(dict, name))
            return true;
    }
    return false;
}

static uint32_t traits_of(const struct ls_torch *torch, uintptr_t type) {
    uint64_t flags = ls_python_type_flags(type);
    if (!(flags & LS_TYPE_HAVE_GC))
        return 0;
    uint32_t traits = LS_TRAIT_GC;
    if (flags & LS_TYPE_IS_DICT)
        traits |= LS_TRAIT_DICT;
    else if (flags & LS_TYPE_IS_LIST)
        traits |= LS_TRAIT_LIST;
    else if (flags & LS_TYPE_IS_TUPLE)
        traits |= LS_TRAIT_TUPLE;
    else if (flags & LS_TYPE_IS_EXCEPTION)
        traits |= LS_TRAIT_EXCEPTION;
    else if (type == (uintptr_t)ls_py.PyFrame_Type)
        traits |= LS_TRAIT_FRAME;
    else if (type == (uintptr_t)ls_py.PyTraceBack_Type)
        traits |= LS_TRAIT_TRACEBACK;
    else if (is_one_of(type, ls_py.PyGen_Type, ls_py.PyCoro_Type, ls_py.PyAsyncGen_Type))
        traits |= LS_TRAIT_GENERATOR;
    else if (ls_py.PyType_IsSubtype((void *)type, (void *)torch->tensor))
        traits |= LS_TRAIT_TENSOR | (dispatches(torch, type) ? LS_TRAIT_WRAPPER : 0);
    else if (torch->nn_module && ls_py.PyType_IsSubtype((void *)type, (void *)torch->nn_module))
        traits |= LS_TRAIT_NN_MODULE;
    else if (has_attribute(type, "next_functions"))
        traits |= LS_TRAIT_NODE;
    if (is_one_of(type, ls_py.PyDict_Type, ls_py.PyList_Type, ls_py.PyTuple_Type))
        traits |= LS_TRAIT_PLAIN;
    if (ls_python_word(type, LS_TYPE_DICT_OFFSET) || flags & LS_TYPE_MANAGED_DICT)
        traits |= LS_TRAIT_HAS_DICT;
    return traits;
}

static uint32_t hash(uintptr_t pointer) {
    return (uint32_t)((pointer >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

struct ls_census_type *ls_census_type(struct ls_census *c, uintptr_t type) {
    struct ls_census_type *found;
    for (uint32_t i = hash(type);; i++) {
        found = &c->type[i & (TYPE_SLOTS - 1)];
        if (found->type == type || !found->type)
            break;
    }
    uint64_t flags = ls_python_type_flags(type);
    if (found->type == type && found->flags == flags)
        return found;
    if (!found->type && c->types == TYPES_MAX)
        found = &c->one_more;
    else if (!found->type)
        c->types++;
    *found =
        (struct ls_census_type){.type = type, .flags = flags, .traits = traits_of(c->torch, type)};
    return found;
}

/* ---- nodes ---- */

static uint32_t *slot_of(struct ls_census *c, uintptr_t object) {
    for (uint32_t i = hash(object);; i++) {
        uint32_t *slot = &c->slot[i & (SLOTS - 1)];
        if (!*slot || c->node[*slot - 1].object == object)
            return slot;
    }
}

uint32_t ls_census_find(struct ls_census *c, uintptr_t object) {
    return *slot_of(c, object) - 1; /* 0 - 1 is LS_CENSUS_NONE */
}

uint32_t ls_census_find_tensor(struct ls_census *c, uintptr_t object) {
    uint32_t node = ls_census_find(c, object);
    if (node == LS_CENSUS_NONE || c->node[node].state & LS_NODE_CANDIDATE ||
        !(ls_census_traits(c, object) & LS_TRAIT_TENSOR) || c->node[node].label >= c->tensors)
        return LS_CENSUS_NONE;
    return (uint32_t)c->node[node].label;
}

static uint32_t add(struct ls_census *c, uint32_t *slot, struct ls_census_node node) {
    if (c->nodes == NODES_MAX) {
        c->cut = "there are more objects than it has memory for";
        return LS_CENSUS_NONE;
    }
    c->node[c->nodes] = node;
    *slot = c->nodes + 1;
    return c->nodes++;
}

/* What holds an object is not known so far: nobody, or nobody of Python's. A graph tells more. */
static bool is_open(const struct ls_census_node *node, uint16_t held) {
    return node->state & LS_NODE_CANDIDATE || (held == LS_TENSOR_GRAPH && node->held == 0);
}

uint32_t ls_census_root(struct ls_census *c, uintptr_t object, enum ls_edge kind, uint64_t label,
                        uint16_t held) {
    uint32_t *slot = slot_of(c, object);
    struct ls_census_node node = {
        .object = object,
        .label = label,
        .parent = LS_CENSUS_NONE,
        .kind = (uint8_t)kind,
        .state = LS_NODE_PARKED,
        .held = held,
    };
    return *slot && !is_open(&c->node[*slot - 1], held) ? LS_CENSUS_NONE : add(c, slot, node);
}

/* One more path to a tensor. What an object's own listing gave (a dict's items, a list's) is given
 * again by its tp_traverse. */
static void another_path(struct ls_census *c, uint32_t index, struct ls_census_edge edge) {
    struct ls_census_tensor *tensor = &c->tensor[index];
    if (index >= c->tensors) /* one that there was no room for */
        return;
    if (edge.kind == LS_EDGE_OTHER && tensor->last_parent == edge.parent)
        return;
    tensor->last_parent = edge.parent;
    tensor->flags |= c->node[edge.parent].held;
    if (tensor->paths < LS_EDGES_KEPT)
        tensor->edge[tensor->paths] = edge;
    tensor->paths++;
}

/* `node`: where it is known, LS_CENSUS_NONE: nowhere. */
static uint32_t new_tensor(struct ls_census *c, uintptr_t object, uint32_t node) {
    if (c->tensors == TENSORS_MAX) {
        c->cut = "there are more tensors than it has memory for";
        return LS_CENSUS_NONE;
    }
    c->tensor[c->tensors] = (struct ls_census_tensor){
        .object = object,
        .node = node,
        .last_parent = LS_CENSUS_NONE,
        .next = LS_CENSUS_NONE,
    };
    ls_py.Py_IncRef((void *)object);
    return c->tensors++;
}

/* A tensor that is known, but not by a path of Python's. */
static void renew_tensor(struct ls_census *c, uint32_t *slot, struct ls_census_node node) {
    struct ls_census_edge edge = {.label = node.label, .parent = node.parent, .kind = node.kind};
    struct ls_census_tensor *tensor = &c->tensor[c->node[*slot - 1].label];
    node.label = c->node[*slot - 1].label;
    if (node.label >= c->tensors || add(c, slot, node) == LS_CENSUS_NONE)
        return;
    tensor->paths = tensor->texts = 0;
    c->renewed++;
    another_path(c, (uint32_t)node.label, edge);
}

static void add_tensor(struct ls_census *c, uint32_t *slot, struct ls_census_node node) {
    struct ls_census_edge edge = {.label = node.label, .parent = node.parent, .kind = node.kind};
    if (*slot && !(c->node[*slot - 1].state & LS_NODE_CANDIDATE)) {
        renew_tensor(c, slot, node);
        return;
    }
    node.label = c->tensors;
    uint32_t index = add(c, slot, node);
    if (index != LS_CENSUS_NONE && new_tensor(c, node.object, index) != LS_CENSUS_NONE)
        another_path(c, (uint32_t)node.label, edge);
}

void ls_census_adopt(struct ls_census *c, uint32_t index, enum ls_edge kind, uint16_t held) {
    struct ls_census_node *node = &c->node[index];
    node->state = LS_NODE_PARKED;
    node->kind = (uint8_t)kind;
    node->held = held;
    node->label = 0;
    if (ls_census_traits(c, node->object) & LS_TRAIT_TENSOR) {
        node->label = c->tensors;
        new_tensor(c, node->object, index);
    }
}

/* A traceback keeps what its frames hold for as long as there is the exception. */
static uint16_t held_from(const struct ls_census_node *parent, uint32_t traits) {
    const uint16_t by_path = LS_TENSOR_GLOBAL | LS_TENSOR_LOCAL;
    return traits & LS_TRAIT_TRACEBACK && parent->held & by_path ? LS_TENSOR_RAISED : parent->held;
}

void ls_census_reach(struct ls_census *c, uint32_t parent, uintptr_t child, enum ls_edge kind,
                     uint64_t label) {
    uint32_t traits = ls_census_traits(c, child);
    if (!(traits & LS_TRAIT_GC) || child == c->hidden || ls_census_late(c))
        return;
    uint32_t *slot = slot_of(c, child);
    if (*slot && !is_open(&c->node[*slot - 1], c->node[parent].held)) {
        if (traits & LS_TRAIT_TENSOR)
            another_path(c, (uint32_t)c->node[*slot - 1].label,
                         (struct ls_census_edge){.label = label, .parent = parent, .kind = kind});
        return;
    }
    struct ls_census_node node = {
        .object = child,
        .label = label,
        .parent = parent,
        .kind = (uint8_t)kind,
        .held = held_from(&c->node[parent], traits),
    };
    if (traits & LS_TRAIT_TENSOR)
        add_tensor(c, slot, node);
    else if (ls_py.PyObject_GC_IsTracked((void *)child))
        add(c, slot, node);
}

/* ---- what an object refers to ---- */

struct from {
    struct ls_census *c;
    uint32_t node;
    uint32_t traits;
    uintptr_t type;
    uint64_t count;
    enum ls_edge kind;
};

static void items_of_dict(struct ls_census *c, uint32_t i, void *dict) {
    long position = 0;
    void *key, *value;
    while (ls_py.PyDict_Next(dict, &position, &key, &value) && !ls_census_late(c)) {
        ls_census_reach(c, i, (uintptr_t)value, LS_EDGE_KEY, (uintptr_t)key);
        ls_census_reach(c, i, (uintptr_t)key, LS_EDGE_KEY_ITSELF, 0);
    }
}

static void items_of(struct ls_census *c, uint32_t i, void *list, long (*size)(void *),
                     void *(*get)(void *, long)) {
    for (long at = 0; at < size(list) && !ls_census_late(c); at++) {
        uintptr_t item = (uintptr_t)get(list, at);
        if (item) /* one that is just being made has holes */
            ls_census_reach(c, i, item, LS_EDGE_INDEX, (uint64_t)at);
    }
}

static void named(void *context, uintptr_t name, uint32_t place, uintptr_t object) {
    const struct from *from = context;
    if (name)
        ls_census_reach(from->c, from->node, object, from->kind, name);
    else
        ls_census_reach(from->c, from->node, object, LS_EDGE_TEMPORARY, place);
}

static void locals_of(struct ls_census *c, uint32_t i, uintptr_t frame) {
    struct from from = {.c = c, .node = i, .kind = LS_EDGE_LOCAL};
    if (!frame)
        return;
    ls_python_each_local(frame, named, &from);
    uintptr_t dict = ls_python_name_space(frame);
    if (dict)
        ls_census_reach(c, i, dict, LS_EDGE_ATTRIBUTES, 0);
}

static void attributes_of(struct ls_census *c, uint32_t i, uintptr_t object) {
    struct from from = {.c = c, .node = i, .kind = LS_EDGE_ATTRIBUTE};
    ls_python_each_inline(object, named, &from);
    uintptr_t dict = ls_python_dict(object);
    if (dict)
        ls_census_reach(c, i, dict, LS_EDGE_ATTRIBUTES, 0);
}

/* As the collector is told. Classes have paths of their own; graphs are looked at later. */
static int visit(void *child, void *context) {
    struct from *from = context;
    bool graph = from->traits & LS_TRAIT_TENSOR &&
                 ls_census_traits(from->c, (uintptr_t)child) & LS_TRAIT_NODE;
    if ((uintptr_t)child != from->type && !graph)
        ls_census_reach(from->c, from->node, (uintptr_t)child, LS_EDGE_OTHER, from->count++);
    return ls_census_late(from->c);
}

void ls_census_references(uintptr_t object, int (*each)(void *, void *), void *context) {
    int (*traverse)(void *, int (*)(void *, void *), void *) =
        (int (*)(void *, int (*)(void *, void *), void *))ls_python_word(ls_python_type(object),
                                                                         LS_TYPE_TRAVERSE);
    if (traverse && ls_py.PyObject_GC_IsTracked((void *)object))
        traverse((void *)object, each, context);
}

static void references_of(struct ls_census *c, uint32_t i, uintptr_t object) {
    struct from from = {
        .c = c, .node = i, .traits = ls_census_traits(c, object), .type = ls_python_type(object)};
    ls_census_references(object, visit, &from);
}

static void expand(struct ls_census *c, uint32_t i) {
    uintptr_t object = c->node[i].object;
    if (c->node[i].kind == LS_EDGE_ROOT_FRAME) {
        locals_of(c, i, object);
        return;
    }
    uint32_t traits = ls_census_traits(c, object);
    if (traits & LS_TRAIT_DICT)
        items_of_dict(c, i, (void *)object);
    else if (traits & LS_TRAIT_LIST)
        items_of(c, i, (void *)object, ls_py.PyList_Size, ls_py.PyList_GetItem);
    else if (traits & LS_TRAIT_TUPLE)
        items_of(c, i, (void *)object, ls_py.PyTuple_Size, ls_py.PyTuple_GetItem);
    else if (traits & LS_TRAIT_FRAME)
        locals_of(c, i, ls_python_frame_of_object(object));
    else if (traits & LS_TRAIT_GENERATOR)
        locals_of(c, i, ls_python_frame_of_generator(object));
    if (traits & LS_TRAIT_HAS_DICT)
        attributes_of(c, i, object);
    if (!(traits & LS_TRAIT_PLAIN))
        references_of(c, i, object);
}

void ls_census_walk_from(struct ls_census *c, uint32_t node) {
    if (ls_census_late(c))
        return;
    c->next = c->nodes;
    expand(c, node);
    while (c->next < c->nodes && !ls_census_late(c)) {
        uint32_t i = c->next++;
        if (c->node[i].state & LS_NODE_PARKED)
            continue;
        if (!c->tracebacks && ls_census_traits(c, c->node[i].object) & LS_TRAIT_TRACEBACK &&
            c->laters < LATER_MAX)
            c->later[c->laters++] = i;
        else
            expand(c, i);
    }
}
