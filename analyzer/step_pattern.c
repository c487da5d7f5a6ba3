/*
 * step_pattern.c - steps from the repetition of calls. See step_stream.h.
 * One thread; not async-signal-safe.
 *
 * A call that comes again at nearly equal distances (counted in calls) for most of its repetitions
 * is a candidate to cut a loop by; candidates that come equally often are one level of a nest of
 * loops. The level is chosen by what iterations usually have: a copy from or to the host. Where
 * several levels have one, the innermost, unless the next outer one is a few of its rounds and
 * launches work of its own (gradient accumulation). Where none has, the outermost.
 */
#include <stdlib.h>
#include <string.h>

#include "step_stream.h"

#define LIKE 0.8            /* share of the distances that must be usual ones */
#define NEAR 0.25           /* of the usual distance: how far from it is usual, too */
#define SLACK 2             /* calls that are always near enough */
#define COVERED 0.3         /* share of the region's work that a loop must have, */
#define COVERED_OF_ALL 0.15 /* and of the thread's */
#define SAMPLES 64          /* iterations that are looked at for what is usual */
#define MANY 10             /* repetitions that make a loop a likely one */
#define ROUNDS_MAX 8        /* of an inner loop in one step; more is an epoch of steps */
#define DEPTH_MAX 4         /* loops before and after the main one, how often */
#define THREADS_TRIED 3
#define LEVEL 1.25 /* counts of one level, at most so far apart */

struct candidate {
    uint32_t symbol, count, distance; /* the usual one */
    uint32_t first;                   /* call */
};

struct level {
    uint32_t from, to; /* candidates, by number */
    uint32_t count;    /* the usual number of repetitions */
    uint32_t distance; /* of one of them */
    uint64_t calls;    /* by all candidates */
    bool copies, launches;
};

struct search {
    const struct ls_step_streams *all;
    const struct ls_step_stream *stream;
    struct ls_step_list *list;
    uint32_t *work;     /* by call: launches (or calls) before it */
    uint32_t *place;    /* calls of a region, by symbol */
    uint32_t *begin;    /* by symbol: first of its calls in `place`; one more at the end */
    uint32_t *distance; /* scratch */
    bool copies_only;   /* loops without a copy are none: the main one had them */
    struct candidate *candidate;
    uint32_t candidates, room;
};

static const struct ls_step_symbol *symbol_at(const struct search *s, uint32_t call) {
    return &s->all->symbol[s->stream->call[call].symbol];
}

/* The region's calls by symbol (a counting sort). */
static void sort_places(struct search *s, uint32_t low, uint32_t high) {
    uint32_t symbols = s->all->symbols;
    memset(s->begin, 0, (symbols + 1) * sizeof *s->begin);
    for (uint32_t i = low; i < high; i++)
        s->begin[s->stream->call[i].symbol + 1]++;
    for (uint32_t n = 0; n < symbols; n++)
        s->begin[n + 1] += s->begin[n];
    for (uint32_t i = low; i < high; i++)
        s->place[s->begin[s->stream->call[i].symbol]++] = i;
    for (uint32_t n = symbols; n > 0; n--) /* each begin has moved on to the next one's */
        s->begin[n] = s->begin[n - 1];
    s->begin[0] = 0;
}

static bool is_near(uint32_t distance, uint32_t usual) {
    uint32_t away = distance > usual ? distance - usual : usual - distance;
    return away <= SLACK || away <= NEAR * usual;
}

static bool is_long(uint32_t distance, uint32_t usual) {
    return distance > usual && !is_near(distance, usual);
}

/* How many calls an iteration takes, at most. */
static uint32_t reach_of(const struct candidate *c) {
    return (uint32_t)((1 + NEAR) * c->distance) + SLACK;
}

/* Whether the symbol could cut a loop; the region's work is `whole`. */
static bool judge(const struct search *s, uint32_t symbol, uint32_t whole, struct candidate *c) {
    const uint32_t *place = s->place + s->begin[symbol];
    uint32_t count = s->begin[symbol + 1] - s->begin[symbol], like = 0;
    uint64_t covered = 0;
    if (count < LS_STEP_REPEATS)
        return false;
    for (uint32_t i = 1; i < count; i++)
        s->distance[i - 1] = place[i] - place[i - 1];
    uint32_t usual = ls_step_median(s->distance, count - 1);
    for (uint32_t i = 1; i < count; i++) {
        if (!is_near(place[i] - place[i - 1], usual))
            continue;
        like++;
        covered += s->work[place[i]] - s->work[place[i - 1]];
    }
    if (like < LIKE * (count - 1) || covered < COVERED * whole ||
        covered < COVERED_OF_ALL * s->work[s->stream->count] || covered == 0)
        return false;
    *c = (struct candidate){symbol, count, usual, place[0]};
    return true;
}

/* Fewest repetitions first. */
static int by_count(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    if (x->count != y->count)
        return x->count < y->count ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

static bool find_candidates(struct search *s, uint32_t low, uint32_t high) {
    uint32_t whole = s->work[high] - s->work[low];
    s->candidates = 0;
    sort_places(s, low, high);
    for (uint32_t n = 0; n < s->all->symbols; n++) {
        struct candidate c;
        if (!judge(s, n, whole, &c))
            continue;
        if (s->candidates == s->room) {
            uint32_t room = s->room ? 2 * s->room : 256;
            struct candidate *more = realloc(s->candidate, room * sizeof *more);
            if (!more)
                return false;
            s->candidate = more;
            s->room = room;
        }
        s->candidate[s->candidates++] = c;
    }
    if (s->candidates)
        qsort(s->candidate, s->candidates, sizeof *s->candidate, by_count);
    return s->candidates > 0;
}

/* The count that most of the level's candidates have; those with a stack decide, if there are. */
static uint32_t usual_repeats(const struct search *s, const struct level *level) {
    uint32_t best = 0, count = 0;
    for (int with_stack = 1; with_stack >= 0 && !best; with_stack--) {
        uint32_t run = 0, most = 0;
        for (uint32_t i = level->from; i < level->to; i++) {
            const struct candidate *c = &s->candidate[i];
            if (with_stack && !s->all->symbol[c->symbol].stack)
                continue;
            run = c->count == count ? run + 1 : 1;
            count = c->count;
            if (run > most) {
                most = run;
                best = count;
            }
        }
    }
    return best;
}

/* Of the level, the call that came first of all: it begins the loop. */
static struct candidate beginning(const struct search *s, const struct level *level) {
    const struct candidate *best = NULL;
    for (uint32_t i = level->from; i < level->to; i++) {
        const struct candidate *c = &s->candidate[i];
        if (c->count == level->count && (!best || c->first < best->first))
            best = c;
    }
    return *best;
}

/* The level that begins at candidate `from`. */
static struct level level_from(const struct search *s, uint32_t from) {
    struct level level = {.from = from, .to = from};
    while (level.to < s->candidates &&
           s->candidate[level.to].count <= LEVEL * s->candidate[from].count) {
        const struct ls_step_symbol *symbol = &s->all->symbol[s->candidate[level.to].symbol];
        level.copies |= symbol->host_copy;
        level.launches |= symbol->launch;
        level.calls += s->candidate[level.to++].count;
    }
    level.count = usual_repeats(s, &level);
    level.distance = beginning(s, &level).distance;
    return level;
}

/* Whether the inner level is a few rounds in each step of the outer one. */
static bool is_rounds(const struct level *outer, const struct level *inner) {
    uint32_t rounds = inner->count / outer->count;
    return outer->launches && outer->count >= MANY && inner->count <= ROUNDS_MAX * outer->count &&
           (uint64_t)rounds * inner->distance <= (1 + NEAR) * outer->distance;
}

/* From the outermost level inwards: remember what would do, see whether a further one is better. */
static bool choose_level(const struct search *s, struct level *chosen) {
    bool any = false;
    *chosen = (struct level){0};
    for (uint32_t from = 0; from < s->candidates;) {
        struct level level = level_from(s, from);
        bool better = true;
        from = level.to;
        if (s->copies_only && !level.copies)
            continue;
        /* A loop makes most of its calls each time: else these are lines that come twice in one. */
        if (any && level.calls < chosen->calls)
            better = false;
        else if (any && level.copies)
            better = !is_rounds(chosen, &level);
        else if (any)
            better = !chosen->copies && chosen->count < MANY && level.count >= MANY;
        if (better)
            *chosen = level;
        any = true;
    }
    return any;
}

/*
 * How many calls before its first call of `c` each iteration began: those that come before it every
 * time, the first time too, and not after its last one (then they would end the iteration before).
 */
static uint32_t head_start(const struct search *s, const struct candidate *c, uint32_t low,
                           uint32_t high) {
    const uint32_t *place = s->place + s->begin[c->symbol];
    const struct ls_step_call *call = s->stream->call;
    uint32_t back = 1;
    for (; back < c->distance && place[0] >= low + back; back++) {
        uint32_t symbol = call[place[0] - back].symbol, same = 0, tried = 0;
        uint64_t after = (uint64_t)place[c->count - 1] + c->distance - back;
        uint32_t every = c->count > SAMPLES ? c->count / SAMPLES : 1;
        if (after < high && call[after].symbol == symbol)
            break;
        for (uint32_t i = 1; i < c->count; i += every, tried++)
            same += place[i] >= back && call[place[i] - back].symbol == symbol;
        if (same < LIKE * tried)
            break;
    }
    return back - 1;
}

/* How iterations end: with the `times`-th call of a symbol; times 0: in no usual way. */
struct tail {
    uint32_t symbol, times;
};

static struct tail find_tail(struct search *s, const struct candidate *c, uint32_t back) {
    const uint32_t *place = s->place + s->begin[c->symbol];
    uint32_t every = c->count > SAMPLES ? c->count / SAMPLES : 1, votes = 0, same = 0, n = 0;
    struct tail tail = {0, 0};
    for (uint32_t i = 1; i < c->count; i += every) {
        uint32_t last = place[i] - back - 1, symbol = s->stream->call[last].symbol;
        if (!is_near(place[i] - place[i - 1], c->distance))
            continue;
        if (votes == 0)
            tail.symbol = symbol;
        votes += symbol == tail.symbol ? 1 : -1u;
    }
    for (uint32_t i = 1; i < c->count; i += every) {
        uint32_t next = place[i] - back;
        if (!is_near(place[i] - place[i - 1], c->distance))
            continue;
        same += s->stream->call[next - 1].symbol == tail.symbol;
        s->distance[n++] = ls_step_occurrences(s->stream, tail.symbol, place[i - 1] - back, next);
    }
    if (n && 2 * same > n)
        tail.times = ls_step_median(s->distance, n);
    return tail;
}

/* One past the last call of an iteration that something else follows before `limit`. */
static uint32_t end_of(const struct search *s, uint32_t from, uint32_t limit,
                       const struct candidate *c, struct tail tail) {
    for (uint32_t i = from; i < limit && tail.times; i++)
        if (s->stream->call[i].symbol == tail.symbol && --tail.times == 0)
            return i + 1;
    return limit - from < c->distance ? limit : from + c->distance;
}

/* The loop's steps. *first and *last: the calls that it spans, the second one exclusive. */
static void add_loop(struct search *s, const struct candidate *c, uint32_t low, uint32_t high,
                     uint32_t *first, uint32_t *last) {
    const uint32_t *place = s->place + s->begin[c->symbol];
    const struct ls_step_call *call = s->stream->call;
    uint32_t back = head_start(s, c, low, high), reach = reach_of(c);
    struct tail tail = find_tail(s, c, back);
    s->list->loops++;
    for (uint32_t i = 0; i < c->count; i++) {
        uint32_t from = place[i] - back, next = i + 1 < c->count ? place[i + 1] - back : high;
        bool cut = i + 1 == c->count || is_long(next - from, c->distance);
        /* After the last one comes the rest of the program. */
        if (i + 1 == c->count && next - from > reach)
            next = from + reach;
        uint32_t end = cut ? end_of(s, from, next, c, tail) : next;
        /* A first round that merely took more calls is whole. */
        if (i + 1 < c->count && next - end <= SLACK + NEAR * c->distance)
            end = next;
        ls_step_add(s->list, (struct ls_step){call[from].start_ns,
                                              end == next && i + 1 < c->count
                                                  ? call[next].start_ns
                                                  : ls_step_call_end(&call[end - 1]),
                                              s->list->loops, s->stream->thread});
        *last = end;
    }
    *first = place[0] - back;
}

/* The main loop of the calls from low to high, then those before and after it. */
static bool search_region(struct search *s, uint32_t low, uint32_t high, int depth) {
    struct level level;
    uint32_t first = low, last = high;
    if (high - low < LS_STEP_REPEATS || !find_candidates(s, low, high) || !choose_level(s, &level))
        return false;
    struct candidate c = beginning(s, &level);
    add_loop(s, &c, low, high, &first, &last);
    if (level.copies)
        s->copies_only = true;
    if (depth < DEPTH_MAX) {
        search_region(s, low, first, depth + 1);
        search_region(s, last, high, depth + 1);
    }
    return true;
}

static bool search_stream(const struct ls_step_streams *all, const struct ls_step_stream *stream,
                          struct ls_step_list *list) {
    struct search s = {.all = all, .stream = stream, .list = list};
    size_t count = stream->count;
    bool found = false, by_launches = stream->launches >= count / 100 && stream->launches > 0;
    s.work = calloc(count + 1, sizeof *s.work);
    s.place = calloc(count + 1, sizeof *s.place);
    s.distance = calloc(count + 1, sizeof *s.distance);
    s.begin = calloc(all->symbols + 2, sizeof *s.begin);
    if (s.work && s.place && s.distance && s.begin) {
        for (uint32_t i = 0; i < count; i++)
            s.work[i + 1] = s.work[i] + (by_launches ? symbol_at(&s, i)->launch : 1);
        found = search_region(&s, 0, (uint32_t)count, 0);
    } else {
        list->out_of_memory = true;
    }
    free(s.work);
    free(s.place);
    free(s.distance);
    free(s.begin);
    free(s.candidate);
    return found;
}

/* The main thread where it does a fair part of the work, then those with most calls. */
bool ls_steps_by_pattern(const struct ls_step_streams *all, int64_t main_tid,
                         struct ls_step_list *list) {
    uint64_t calls = 0, below = UINT64_MAX;
    for (uint32_t i = 0; i < all->count; i++)
        calls += all->stream[i].count;
    for (uint32_t i = 0; i < all->count; i++)
        if (all->stream[i].tid == main_tid && main_tid > 0 && all->stream[i].count > calls / 5 &&
            search_stream(all, &all->stream[i], list))
            return true;
    for (int n = 0; n < THREADS_TRIED; n++) {
        const struct ls_step_stream *best = NULL;
        for (uint32_t i = 0; i < all->count; i++)
            if (all->stream[i].count < below && (!best || all->stream[i].count > best->count))
                best = &all->stream[i];
        if (!best || best->count == 0)
            break;
        below = best->count;
        if (search_stream(all, best, list))
            return true;
    }
    return false;
}
