/*
 * census_lost.c - tensors that no root reaches. See census_walk.h.
 *
 * Of all objects that the collector knows, those that the walk has not reached are candidates. As
 * the collector does, their references among each other are taken off their counts. Where something
 * is left, somebody holds the object who is no object of Python's: an operator's code, a graph of
 * autograd, the stack of a frame. What these do not reach either is held by nothing but a cycle,
 * and gone at the next collection.
 */
#include "census_walk.h"

enum { UNTIL_LOST = 1050 }; /* ms after the beginning */

struct candidates {
    struct ls_census *c;
    uint32_t first, end; /* nodes; the label of each is a count of references */
    bool tensors;        /* there is one among them: else there is nothing to find */
};

static void put_candidate(struct candidates *all, uintptr_t object) {
    struct ls_census *c = all->c;
    uint32_t node = ls_census_root(c, object, LS_EDGE_ROOT_OUTSIDE, 0, 0);
    if (node == LS_CENSUS_NONE)
        return;
    c->node[node].state = LS_NODE_PARKED | LS_NODE_CANDIDATE;
    if (ls_census_traits(c, object) & LS_TRAIT_TENSOR)
        all->tensors = true;
}

static int visit_all(void *object, void *context) {
    struct candidates *all = context;
    put_candidate(all, (uintptr_t)object);
    return !ls_census_late(all->c);
}

/* Until 3.11 there is no way but a list. */
static void put_listed(struct candidates *all) {
    void *list = ls_python_gc("get_objects");
    if (!list)
        return;
    long size = ls_py.PyList_Size(list);
    for (long i = 0; i < size && !ls_census_late(all->c); i++)
        put_candidate(all, (uintptr_t)ls_py.PyList_GetItem(list, i));
    ls_py.Py_DecRef(list);
}

static int take_off(void *child, void *context) {
    struct candidates *all = context;
    uint32_t node = ls_census_find(all->c, (uintptr_t)child);
    if (node >= all->first && node < all->end)
        all->c->node[node].label--;
    return ls_census_late(all->c);
}

/* Once the listing, which holds references, is over. */
static void take_off_counts(struct candidates *all) {
    for (uint32_t i = all->first; i < all->end; i++)
        all->c->node[i].label = ls_python_count(all->c->node[i].object);
    for (uint32_t i = all->first; i < all->end && !ls_census_late(all->c); i++)
        ls_census_references(all->c->node[i].object, take_off, all);
}

/* Still: nobody has reached it since. */
static bool is_candidate(struct ls_census *c, uint32_t i) {
    return c->node[i].state & LS_NODE_CANDIDATE && ls_census_find(c, c->node[i].object) == i;
}

static void walk_held(struct candidates *all) {
    struct ls_census *c = all->c;
    for (uint32_t i = all->first; i < all->end && !ls_census_late(c); i++)
        if (is_candidate(c, i) && c->node[i].label > 0) {
            ls_census_adopt(c, i, LS_EDGE_ROOT_OUTSIDE, 0);
            ls_census_walk_from(c, i);
        }
}

/* An instance of somebody's class says more about a cycle than the dicts and tensors in it. */
static unsigned order_of(struct ls_census *c, uint32_t i) {
    uint32_t traits = ls_census_traits(c, c->node[i].object);
    uint64_t flags = ls_python_type_flags(ls_python_type(c->node[i].object));
    if (traits & LS_TRAIT_TENSOR)
        return 2;
    return traits & LS_TRAIT_EXCEPTION || (flags & LS_TYPE_HEAP && traits & LS_TRAIT_HAS_DICT) ? 0
                                                                                               : 1;
}

static void walk_cycles(struct candidates *all) {
    struct ls_census *c = all->c;
    for (unsigned order = 0; order < 3; order++)
        for (uint32_t i = all->first; i < all->end && !ls_census_late(c); i++)
            if (is_candidate(c, i) && order_of(c, i) == order) {
                ls_census_adopt(c, i, LS_EDGE_ROOT_LOST, LS_TENSOR_LOST);
                ls_census_walk_from(c, i);
            }
}

void ls_census_lost(struct ls_census *c) {
    struct candidates all = {.c = c, .first = c->nodes};
    ls_census_phase(c, UNTIL_LOST);
    if (ls_py.PyUnstable_GC_VisitObjects)
        ls_py.PyUnstable_GC_VisitObjects(visit_all, &all);
    else
        put_listed(&all);
    all.end = c->nodes;
    if (!all.tensors || ls_census_late(c))
        return;
    take_off_counts(&all);
    if (ls_census_late(c))
        return; /* the counts mean nothing */
    c->lost_first = c->tensors;
    walk_held(&all);
    walk_cycles(&all);
    c->lost_end = c->tensors;
}
