/*
 * step_optimizer.c - steps that end with the burst of an optimizer. See step_stream.h.
 * One thread; not async-signal-safe.
 *
 * A call is an optimizer's where its Python stack holds a frame of torch.optim's step (or of the
 * gradient scaler's), and no closure that the optimizer called back is inside of it. The frame
 * outside of the outermost such frame is the place that called it: each place in the program is
 * told apart. A burst is a row of calls of one place. Where the bursts of several places
 * interleave (a GAN's), one iteration is one period: the rarest place whose bursts cut the others
 * into like portions ends it.
 */
#include <stdlib.h>
#include <string.h>

#include "step_stream.h"

#define PERIOD_MAX 8 /* bursts of one place per burst of another: more is an epoch, not a step */
#define LIKE 0.8     /* share of portions that must be of the usual size */
#define SAMPLES 50   /* steps that are looked at for how they begin */
#define LEAD_SHARE                                                                                 \
    0.25 /* of a step's calls: a longer lead before its usual begin is no part of it */

/* --- which stacks are an optimizer's -------------------------------------------------------- */

struct frame_kind {
    bool python, optimizer, torch;
    char *file;
};

struct nodes {
    int64_t *parent, *frame;
    int64_t *optimizer; /* the place, 0 none */
    const char **home;  /* the file whose frames are the optimizer's own */
    int64_t count;      /* ids are below */
    struct frame_kind *kind;
    int64_t kinds;
    bool out_of_memory;
};

/* Also of any optimizer class that torch wraps: its wrapper is there, whatever the class's file. */
static bool is_optimizer(const char *file, const char *function) {
    const char *in = strstr(file, "/torch/optim/");
    if (in && !strstr(in, "lr_scheduler") && !strstr(in, "swa_utils"))
        return strcmp(function, "step") == 0 ||
               (strstr(in, "/optimizer.py") && strcmp(function, "wrapper") == 0);
    return strstr(file, "/torch/") && strstr(file, "/grad_scaler.py") &&
           (strcmp(function, "step") == 0 || strcmp(function, "update") == 0);
}

static void take_frame(sqlite3_stmt *stmt, void *context) {
    struct nodes *nodes = context;
    int64_t id = sqlite3_column_int64(stmt, 0);
    const char *file = (const char *)sqlite3_column_text(stmt, 1);
    const char *function = (const char *)sqlite3_column_text(stmt, 2);
    if (id < 0 || id >= nodes->kinds || !file || !function)
        return;
    struct frame_kind *kind = &nodes->kind[id];
    kind->python = true;
    kind->optimizer = is_optimizer(file, function);
    kind->torch = strstr(file, "/torch/") != NULL;
    free(kind->file);
    kind->file = strdup(file);
    nodes->out_of_memory |= !kind->file;
}

static void take_node(sqlite3_stmt *stmt, void *context) {
    struct nodes *nodes = context;
    int64_t id = sqlite3_column_int64(stmt, 0);
    if (id < 0 || id >= nodes->count)
        return;
    nodes->parent[id] = sqlite3_column_int64(stmt, 1);
    nodes->frame[id] = sqlite3_column_int64(stmt, 2);
}

/* Of one package where it lies in site-packages, else the same file. */
static bool same_home(const char *a, const char *b) {
    const char *package = strstr(a, "/site-packages/");
    size_t length = package ? (size_t)(package - a) + 15 : 0;
    if (package)
        length += strcspn(a + length, "/") + 1;
    return package ? strncmp(a, b, length) == 0 : strcmp(a, b) == 0;
}

/* Outer frames first: a parent's id is below its children's. */
static void place_node(struct nodes *nodes, int64_t id) {
    int64_t parent = nodes->parent[id], frame = nodes->frame[id];
    bool rooted = parent <= 0 || parent >= id;
    const struct frame_kind *kind =
        frame > 0 && frame < nodes->kinds ? &nodes->kind[frame] : &nodes->kind[0];
    int64_t place = rooted ? 0 : nodes->optimizer[parent];
    const char *home = rooted ? NULL : nodes->home[parent];
    if (kind->python && kind->optimizer && !place) {
        place = rooted ? id : parent;
    } else if (kind->python && place && !kind->torch) {
        /* The optimizer's own class, and what its package calls; else a closure that it called. */
        if (!home)
            home = kind->file;
        else if (!same_home(home, kind->file))
            place = 0;
    }
    if (kind->python && kind->optimizer && kind->torch && !home && strstr(kind->file, "/optim/") &&
        !strstr(kind->file, "/optimizer.py"))
        home = kind->file; /* torch's own class: any other file is a closure's */
    nodes->optimizer[id] = place;
    nodes->home[id] = place ? home : NULL;
}

static void free_nodes(struct nodes *nodes) {
    for (int64_t i = 0; nodes->kind && i < nodes->kinds; i++)
        free(nodes->kind[i].file);
    free(nodes->kind);
    free(nodes->parent);
    free(nodes->frame);
    free(nodes->optimizer);
    free(nodes->home);
}

static bool load_nodes(struct nodes *nodes, struct ls_trace_db *db) {
    nodes->kinds = ls_db_number(db, "SELECT MAX(id) FROM frame") + 1;
    nodes->count = ls_db_number(db, "SELECT MAX(id) FROM stack") + 1;
    nodes->kind = calloc((size_t)nodes->kinds, sizeof *nodes->kind);
    nodes->parent = calloc((size_t)nodes->count, sizeof *nodes->parent);
    nodes->frame = calloc((size_t)nodes->count, sizeof *nodes->frame);
    nodes->optimizer = calloc((size_t)nodes->count, sizeof *nodes->optimizer);
    nodes->home = calloc((size_t)nodes->count, sizeof *nodes->home);
    if (!nodes->kind || !nodes->parent || !nodes->frame || !nodes->optimizer || !nodes->home)
        return false;
    ls_db_each(db, "SELECT id, file, function FROM frame WHERE kind = 1", take_frame, nodes);
    ls_db_each(db, "SELECT id, COALESCE(parent, 0), frame FROM stack", take_node, nodes);
    for (int64_t id = 1; id < nodes->count && !nodes->out_of_memory; id++)
        place_node(nodes, id);
    return !nodes->out_of_memory;
}

struct places {
    const struct nodes *nodes;
    int64_t *of_stack; /* by stack_site.id */
    int64_t count;
    bool any;
};

static void take_stack(sqlite3_stmt *stmt, void *context) {
    struct places *places = context;
    int64_t id = sqlite3_column_int64(stmt, 0), node = sqlite3_column_int64(stmt, 1);
    if (id < 0 || id >= places->count || node <= 0 || node >= places->nodes->count)
        return;
    places->of_stack[id] = places->nodes->optimizer[node];
    places->any |= places->of_stack[id] != 0;
}

/* Set each symbol's place. False: no call of an optimizer. */
static bool mark_symbols(struct ls_step_streams *all, struct ls_trace_db *db) {
    struct nodes nodes = {0};
    struct places places = {.nodes = &nodes};
    if (ls_db_number(db, "SELECT COUNT(*) FROM frame WHERE kind = 1 AND file LIKE '%/torch/%'") ==
        0)
        return false;
    if (load_nodes(&nodes, db)) {
        places.count = ls_db_number(db, "SELECT MAX(id) FROM stack_site") + 1;
        places.of_stack = calloc((size_t)places.count, sizeof *places.of_stack);
        if (places.of_stack)
            ls_db_each(db, "SELECT id, COALESCE(stack, 0) FROM stack_site", take_stack, &places);
    }
    for (uint32_t i = 0; places.any && i < all->symbols; i++)
        if (all->symbol[i].stack < places.count)
            all->symbol[i].optimizer = places.of_stack[all->symbol[i].stack];
    free(places.of_stack);
    free_nodes(&nodes);
    return places.any;
}

/* --- bursts ----------------------------------------------------------------------------------- */

struct burst {
    int64_t place;
    uint32_t first, last; /* calls of the stream */
};

struct bursts {
    struct burst *at;
    uint32_t count, room;
};

static bool add_burst(struct bursts *bursts, int64_t place, uint32_t call) {
    if (bursts->count == bursts->room) {
        uint32_t room = bursts->room ? 2 * bursts->room : 256;
        struct burst *more = realloc(bursts->at, room * sizeof *more);
        if (!more)
            return false;
        bursts->at = more;
        bursts->room = room;
    }
    bursts->at[bursts->count++] = (struct burst){place, call, call};
    return true;
}

/* Launches have no stack: they belong to the burst that they follow at once. */
static bool find_bursts(const struct ls_step_streams *all, const struct ls_step_stream *stream,
                        struct bursts *bursts) {
    struct burst *open = NULL;
    bool at_once = false;
    for (uint32_t i = 0; i < stream->count; i++) {
        const struct ls_step_symbol *symbol = &all->symbol[stream->call[i].symbol];
        if (!symbol->stack) {
            at_once = at_once && symbol->launch;
            if (open && at_once)
                open->last = i;
            continue;
        }
        if (!open || symbol->optimizer != open->place) {
            open = NULL;
            if (!symbol->optimizer)
                continue;
            if (!add_burst(bursts, symbol->optimizer, i))
                return false;
            open = &bursts->at[bursts->count - 1];
        }
        open->last = i;
        at_once = true;
    }
    return true;
}

/* --- places that belong to one loop ----------------------------------------------------------- */

struct place {
    int64_t place;
    uint32_t first, last, count; /* bursts, by number */
};

static int by_first(const void *a, const void *b) {
    const struct place *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* All places, in order of their first burst. The number of them; 0: no memory. */
static uint32_t list_places(const struct bursts *bursts, struct place **list) {
    uint32_t count = 0, room = 0;
    *list = NULL;
    for (uint32_t i = 0; i < bursts->count; i++) {
        uint32_t at = 0;
        while (at < count && (*list)[at].place != bursts->at[i].place)
            at++;
        if (at == room) {
            room = room ? 2 * room : 16;
            struct place *more = realloc(*list, room * sizeof *more);
            if (!more)
                return 0;
            *list = more;
        }
        if (at == count)
            (*list)[count++] = (struct place){bursts->at[i].place, i, i, 0};
        (*list)[at].last = i;
        (*list)[at].count++;
    }
    qsort(*list, count, sizeof **list, by_first);
    return count;
}

/* Whether the bursts of `rare` cut those of `usual` into like portions, not too large ones. */
static bool is_period(const struct bursts *bursts, const struct place *rare,
                      const struct place *usual) {
    uint32_t portions[PERIOD_MAX + 1] = {0}, inside = 0, largest = 0, sum = 0;
    for (uint32_t i = rare->first < usual->first ? rare->first : usual->first; i <= rare->last;
         i++) {
        if (bursts->at[i].place == usual->place)
            inside++;
        if (bursts->at[i].place != rare->place)
            continue;
        portions[inside < PERIOD_MAX ? inside : PERIOD_MAX]++;
        inside = 0;
    }
    for (uint32_t i = 1; i < PERIOD_MAX; i++)
        largest = portions[i] > largest ? portions[i] : largest;
    for (uint32_t i = 0; i <= PERIOD_MAX; i++)
        sum += portions[i];
    return largest >= LIKE * sum;
}

/* Of places that interleave, the one that ends an iteration. */
static const struct place *ending_place(const struct bursts *bursts, const struct place *group,
                                        uint32_t count) {
    const struct place *usual = group, *best;
    for (uint32_t i = 1; i < count; i++)
        if (group[i].count > usual->count)
            usual = &group[i];
    best = usual;
    for (uint32_t i = 0; i < count; i++) {
        const struct place *p = &group[i];
        if (p == usual || p->count < LS_STEP_REPEATS || !is_period(bursts, p, usual))
            continue;
        if (p->count < best->count || (p->count == best->count && p->first > best->first))
            best = p;
    }
    return best;
}

/* --- where they begin ------------------------------------------------------------------------- */

struct span {
    uint32_t from, first, last; /* calls: after the step before; first and last of its burst */
};

/* How often per step a symbol comes, usually; 0: it is missing in the first, or in many. */
static uint32_t usual_count(const struct ls_step_stream *stream, uint32_t symbol,
                            const struct span *span, uint32_t count) {
    uint32_t seen[SAMPLES], n = 0, there = 0;
    uint32_t every = count > SAMPLES ? count / SAMPLES : 1;
    if (ls_step_occurrences(stream, symbol, span[0].from, span[0].first) == 0)
        return 0;
    for (uint32_t i = 1; i < count && n < SAMPLES; i += every) {
        seen[n] = ls_step_occurrences(stream, symbol, span[i].from, span[i].first);
        there += seen[n++] > 0;
    }
    uint32_t usual = ls_step_median(seen, n);
    return there >= LIKE * n ? usual : 0;
}

/* The call that a step usually begins with, and how often it comes in one: the first of a usual
 * step that the very first step has, too. */
static bool find_lead(const struct ls_step_stream *stream, const struct span *span, uint32_t count,
                      uint32_t length, uint32_t *symbol, uint32_t *times) {
    uint32_t usual = 1;
    for (uint32_t i = 1; i < count; i++) {
        uint32_t best = span[usual].last - span[usual].from, this = span[i].last - span[i].from;
        if (abs((int)(this - length)) < abs((int)(best - length)))
            usual = i;
    }
    uint32_t tries = 0;
    for (uint32_t i = span[usual].from; i < span[usual].first && tries < 4 * SAMPLES;
         i++, tries++) {
        *symbol = stream->call[i].symbol;
        if ((*times = usual_count(stream, *symbol, span, count)))
            return true;
    }
    return false;
}

/* The `times`-th last call of that symbol before the burst; `from` where there are fewer. */
static uint32_t lead_of(const struct ls_step_stream *stream, const struct span *span,
                        uint32_t symbol, uint32_t times) {
    uint32_t found = span->from;
    for (uint32_t i = span->first; i > span->from && times; i--)
        if (stream->call[i - 1].symbol == symbol) {
            found = i - 1;
            times--;
        }
    return times ? span->from : found;
}

/* One loop's steps, from their ends: the bursts of `ending` in [first, last]. */
static bool add_loop(const struct ls_step_stream *stream, const struct bursts *bursts,
                     const struct place *ending, uint32_t from, struct ls_step_list *list) {
    uint32_t count = 0, symbol = 0, times = 0;
    struct span *span = calloc(ending->count, sizeof *span);
    uint32_t *number = calloc(ending->count, sizeof *number);
    if (!span || !number) {
        free(span);
        free(number);
        list->out_of_memory = true;
        return false;
    }
    for (uint32_t i = ending->first; i <= ending->last; i++) {
        if (bursts->at[i].place != ending->place)
            continue;
        span[count++] = (struct span){from, bursts->at[i].first, bursts->at[i].last};
        from = bursts->at[i].last + 1;
    }
    for (uint32_t i = 1; i < count; i++)
        number[i - 1] = span[i].last + 1 - span[i].from;
    uint32_t length = ls_step_median(number, count - 1);
    bool known = find_lead(stream, span, count, length, &symbol, &times);
    for (uint32_t i = 0; i < count; i++)
        number[i] = (known ? lead_of(stream, &span[i], symbol, times) : span[i].from);
    if (!known && span[0].last + 1 - span[0].from > length)
        number[0] = span[0].last + 1 - length;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t lead = number[i] - span[i].from;
        /* What comes before its usual begin is its own where it is little, like zero_grad. */
        bool joined = i > 0 && lead <= 1 + LEAD_SHARE * length;
        uint32_t first = joined ? span[i].from : number[i];
        struct ls_step step = {stream->call[first].start_ns,
                               ls_step_call_end(&stream->call[span[i].last]), list->loops + 1,
                               stream->thread};
        if (joined && list->count)
            list->step[list->count - 1].end_ns = step.start_ns;
        ls_step_add(list, step);
    }
    list->loops++;
    free(span);
    free(number);
    return true;
}

static void add_groups(const struct ls_step_stream *stream, const struct bursts *bursts,
                       struct ls_step_list *list) {
    struct place *place;
    uint32_t places = list_places(bursts, &place), from = 0;
    for (uint32_t i = 0, end; i < places; i = end) {
        uint32_t last = place[i].last;
        for (end = i + 1; end < places && place[end].first < last; end++)
            last = place[end].last > last ? place[end].last : last;
        const struct place *ending = ending_place(bursts, &place[i], end - i);
        if (ending->count >= LS_STEP_REPEATS)
            add_loop(stream, bursts, ending, from, list);
        from = bursts->at[last].last + 1;
    }
    free(place);
}

bool ls_steps_by_optimizer(struct ls_step_streams *all, struct ls_trace_db *db,
                           struct ls_step_list *list) {
    struct bursts best = {0};
    const struct ls_step_stream *stream = NULL;
    if (!mark_symbols(all, db))
        return false;
    for (uint32_t i = 0; i < all->count; i++) {
        struct bursts bursts = {0};
        if (!find_bursts(all, &all->stream[i], &bursts))
            list->out_of_memory = true;
        if (bursts.count > best.count) {
            struct bursts other = best;
            best = bursts;
            bursts = other;
            stream = &all->stream[i];
        }
        free(bursts.at);
    }
    if (stream && !list->out_of_memory)
        add_groups(stream, &best, list);
    free(best.at);
    return list->count > 0;
}
