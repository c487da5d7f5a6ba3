/*
 * graph.c - graphs. See graph.h.
 */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "graph_memory.h"
#include "handles.h"
#include "tell.h"

struct graph *sd_graph_new(void) {
    struct graph *g = sd_handle_new(HANDLE_GRAPH, sizeof *g);
    if (!g)
        abort();
    g->memory = sd_graph_memory_new();
    return g;
}

void sd_graph_delete(struct graph *g) {
    for (size_t i = 0; i < g->count; i++) {
        sd_work_clear(&g->node[i]->work);
        free(g->node[i]->after);
        sd_handle_delete(g->node[i]);
    }
    free(g->node);
    sd_graph_memory_drop(g->memory);
    sd_handle_delete(g);
}

void sd_graph_depend(struct graph_node *node, struct graph_node *after) {
    for (size_t i = 0; i < node->after_count; i++)
        if (node->after[i] == after)
            return;
    node->after = realloc(node->after, (node->after_count + 1) * sizeof *node->after);
    if (!node->after)
        abort();
    node->after[node->after_count++] = after;
}

struct graph_node *sd_graph_add(struct graph *g, struct work work, int type,
                                struct graph_node *const *after, size_t after_count) {
    struct graph_node *n = sd_handle_new(HANDLE_GRAPH_NODE, sizeof *n);
    struct graph_node **grown = realloc(g->node, (g->count + 1) * sizeof *grown);
    if (!n || !grown)
        abort();
    g->node = grown;
    n->graph = g;
    n->type = type;
    n->work = work;
    n->index = g->count;
    g->node[g->count++] = n;
    for (size_t i = 0; i < after_count; i++)
        sd_graph_depend(n, after[i]);
    return n;
}

bool sd_graph_reaches(struct graph *g, struct graph_node *const *nodes, size_t count,
                      struct graph_node *const *from, size_t from_count) {
    for (size_t i = 0; i < g->count; i++)
        g->node[i]->mark = false;
    for (size_t i = 0; i < from_count; i++)
        from[i]->mark = true;
    for (size_t i = g->count; i-- > 0;)
        for (size_t j = 0; g->node[i]->mark && j < g->node[i]->after_count; j++)
            g->node[i]->after[j]->mark = true;
    for (size_t i = 0; i < count; i++)
        if (!nodes[i]->mark)
            return false;
    return true;
}

struct graph *sd_graph_clone(const struct graph *from) {
    struct graph *g = sd_graph_new();
    for (size_t i = 0; i < from->count; i++) {
        const struct graph_node *n = from->node[i];
        struct work work;
        if (!sd_work_clone(&work, &n->work))
            abort();
        struct graph_node *copy = sd_graph_add(g, work, n->type, NULL, 0);
        copy->shape = n->shape;
        for (size_t j = 0; j < n->after_count; j++)
            sd_graph_depend(copy, g->node[n->after[j]->index]);
    }
    return g;
}

static void fill(struct graph_exec *x, const struct graph *g) {
    x->work = calloc(g->count ? g->count : 1, sizeof *x->work);
    if (!x->work)
        abort();
    x->count = g->count;
    for (size_t i = 0; i < g->count; i++)
        if (!sd_work_clone(&x->work[i], &g->node[i]->work))
            abort();
    x->memory = sd_graph_memory_hold(g->memory);
}

static void empty(struct graph_exec *x) {
    for (size_t i = 0; i < x->count; i++)
        sd_work_clear(&x->work[i]);
    free(x->work);
    sd_graph_memory_drop(x->memory);
}

bool sd_graph_has_memory(const struct graph *g) {
    return g->memory->count > 0 || g->memory->releases > 0;
}

struct graph_exec *sd_graph_instantiate(const struct graph *g, uint64_t flags) {
    if (sd_graph_has_memory(g) && g->memory->instances)
        return NULL;
    struct graph_exec *x = sd_handle_new(HANDLE_GRAPH_EXEC, sizeof *x);
    if (!x)
        abort();
    static uint32_t last_number;
    x->number = ++last_number;
    x->flags = flags;
    fill(x, g);
    x->memory->instances++;
    return x;
}

void sd_graph_exec_delete(struct graph_exec *x) {
    x->memory->instances--;
    empty(x);
    sd_handle_delete(x);
}

int sd_graph_exec_update(struct graph_exec *x, const struct graph *g) {
    if (x->count != g->count)
        return 910; /* cudaErrorGraphExecUpdateFailure */
    for (size_t i = 0; i < x->count; i++)
        if (x->work[i].kind != g->node[i]->work.kind)
            return 910;
    struct graph_exec old = *x;
    fill(x, g);
    x->memory->instances++;
    old.memory->instances--;
    empty(&old);
    return SD_OK;
}

/* Event nodes take the event's state of now. */
static int launch_event(const struct work *work, struct stream *stream) {
    struct event *e = sd_handle(work->event.event, HANDLE_EVENT);
    if (!e)
        return SD_INVALID_HANDLE;
    return work->kind == WORK_RECORD ? sd_event_record(e, stream, 0)
                                     : sd_stream_wait_event(stream, e, 0);
}

/* What a launch outside of captures tells of one of its nodes. */
static void set_node(struct work *work, const struct graph_exec *x, size_t i,
                     struct graph_run *run) {
    if (!run)
        return;
    run->references++;
    work->run = run;
    work->graph = x->number;
    work->node = (uint64_t)x->number << 32 | (i + 1);
}

static int launch_nodes(struct graph_exec *x, struct stream *stream, struct graph_run *run) {
    int status = sd_graph_memory_launch(x->memory, x->flags & 1);
    for (size_t i = 0; i < x->count && !status; i++) {
        if (x->work[i].kind == WORK_RECORD || x->work[i].kind == WORK_WAIT) {
            status = launch_event(&x->work[i], stream);
            continue;
        }
        struct work work;
        if (!sd_work_clone(&work, &x->work[i]))
            abort();
        set_node(&work, x, i, run);
        status = sd_submit(stream, work, false, false);
    }
    return status;
}

int sd_graph_launch(struct graph_exec *x, struct stream *stream) {
    struct graph_run *run =
        sd_told() && !stream->capture ? sd_graph_run_new(x->number, stream) : NULL;
    int status = launch_nodes(x, stream, run);
    if (run)
        sd_graph_run_drop(run);
    return status;
}
