/*
 * layouts.h - which layouts reached which library calls, by site, and what was converted for them:
 * what `layoutspy layouts` shows.
 *
 * One thread; not async-signal-safe. Exits with one line where there is no memory.
 */
#ifndef LAYOUTSPY_LAYOUTS_H
#define LAYOUTSPY_LAYOUTS_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LS_NO_TIME (-1) /* of gpu_ns: no run on the GPU was seen */

/* Texts are owned. JSON texts (dims, strides) may be NULL: not known. */
struct ls_layout_operand {
    char *role, *dtype, *layout, *dims, *strides;
    bool ambiguous; /* its layout is as much the other one of the pair */
    int position;   /* among the call's operands */
    int64_t count;  /* calls that were given it */
    int64_t bytes;  /* of the tensor, once */
};

struct ls_layout_change {
    char *kernel; /* short name, or the library's function that does nothing else */
    char *from, *to;
    char *under; /* the library's function around it; NULL: none */
    char *site;
    int64_t count, gpu_ns;
};

/* Calls of one function at one site. */
struct ls_layout_site {
    char *site, *api, *operator; /* operator NULL: none */
    int64_t calls, gpu_ns, duration_ns;
    struct ls_layout_operand *operand; /* by position, then count */
    size_t operands;
};

/* Copies and conversions by the operator that launched them. */
struct ls_layout_copier {
    char *operator;
    int64_t count, gpu_ns;
    int64_t changed; /* of count: those that changed the layout */
};

struct ls_layouts {
    bool told; /* there are operands at all */
    bool timed;
    int64_t kernel_ns; /* GPU time of all kernels; 0: none known */
    int64_t change_ns; /* of those that convert; LS_NO_TIME */
    int64_t change_count;
    char *no_times;              /* why no time of the GPU is known; NULL: nothing tells */
    int64_t graph_ns;            /* of the GPU, of graphs' runs as a whole; 0: not known */
    int64_t graph_launches;      /* they ran again what is here once, as it was captured */
    struct ls_layout_site *site; /* by GPU time, then calls */
    size_t sites;
    struct ls_layout_change *change; /* by GPU time, then count */
    size_t changes;
    struct ls_layout_copier *copier; /* by GPU time, then count */
    size_t copiers;
};

/* SQLITE_OK, or the code of the query that failed. Free in any case. */
int ls_layouts_load(struct ls_layouts *layouts, sqlite3 *db);
void ls_layouts_free(struct ls_layouts *layouts);

#endif
