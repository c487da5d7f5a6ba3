/*
 * census_group.c - storages of a census that are alike. See census.h.
 *
 * Main thread only; not for signal handlers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "census.h"
#include "trace.h"

static void *need(void *memory) {
    if (!memory) {
        fputs("layoutspy: out of memory while looking at a census\n", stderr);
        exit(LS_EXIT_INPUT);
    }
    return memory;
}

const struct ls_counted_tensor *ls_census_tensor(const struct ls_counted_storage *s) {
    const char *path = ls_census_path(s);
    for (size_t i = 0; i < s->tensors; i++)
        if (path ? s->tensor[i].path_count && s->tensor[i].path[0] == path : !s->tensor[i].view)
            return &s->tensor[i];
    return s->tensors ? s->tensor : NULL;
}

struct one {
    char *pattern;
    const struct ls_counted_storage *storage;
};

static int by_kind(const struct one *x, const struct one *y) {
    int order = strcmp(x->pattern, y->pattern);
    if (!order)
        order = strcmp(x->storage->site, y->storage->site);
    return order ? order : x->storage->device - y->storage->device;
}

static int by_kind_and_size(const void *a, const void *b) {
    const struct one *x = a, *y = b;
    int order = by_kind(x, y);
    if (order)
        return order;
    if (x->storage->bytes != y->storage->bytes)
        return x->storage->bytes > y->storage->bytes ? -1 : 1;
    return x->storage->id < y->storage->id ? -1 : x->storage->id > y->storage->id;
}

static int by_weight(const void *a, const void *b) {
    const struct ls_storage_group *x = a, *y = b;
    uint64_t one = x->bytes + x->held_by_graph, other = y->bytes + y->held_by_graph;
    if (one != other)
        return one > other ? -1 : 1;
    int order = strcmp(x->pattern, y->pattern);
    return order ? order : x->storage[0]->id < y->storage[0]->id ? -1 : 1;
}

static struct ls_storage_group whole(const struct one *one, size_t count) {
    struct ls_storage_group g = {.pattern = one->pattern, .storages = count};
    g.storage = need(calloc(count, sizeof *g.storage));
    for (size_t i = 0; i < count; i++) {
        const struct ls_counted_storage *s = g.storage[i] = one[i].storage;
        g.bytes += s->bytes;
        g.held_by_graph += s->held_by_graph;
        g.tensors += s->tensors;
        g.views += s->views;
        g.held |= s->held;
        for (size_t t = 0; t < s->tensors; t++)
            g.paths += s->tensor[t].paths;
        if (i)
            free(one[i].pattern);
    }
    return g;
}

size_t ls_census_groups(const struct ls_census *census,
                        bool (*want)(const struct ls_counted_storage *storage, void *context),
                        void *context, struct ls_storage_group **group) {
    size_t count = 0, groups = 0;
    struct one *one = need(calloc(census->storages + 1, sizeof *one));
    for (size_t i = 0; i < census->storages; i++) {
        const struct ls_counted_storage *s = &census->storage[i];
        if (want && !want(s, context))
            continue;
        const char *path = ls_census_path(s);
        one[count].storage = s;
        one[count++].pattern = path ? ls_census_pattern(path) : need(strdup(""));
    }
    if (count)
        qsort(one, count, sizeof *one, by_kind_and_size);
    *group = need(calloc(count + 1, sizeof **group));
    for (size_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && by_kind(&one[from], &one[to]) == 0;)
            to++;
        (*group)[groups++] = whole(one + from, to - from);
    }
    free(one);
    if (groups)
        qsort(*group, groups, sizeof **group, by_weight);
    return groups;
}

void ls_census_groups_free(struct ls_storage_group *group, size_t count) {
    for (size_t i = 0; i < count; i++) {
        free(group[i].pattern);
        free(group[i].storage);
    }
    free(group);
}
