/*
 * step_pattern.c - steps from the repetition of calls. See step_stream.h and step_search.h.
 * One thread; not async-signal-safe.
 *
 * A call that comes again at nearly equal distances (counted in calls) for most of its repetitions
 * is a candidate to cut a loop by. A call that always comes several times before anything is worked
 * on (two inputs, copied by one line) counts once, and so does a launch that comes several times
 * with nothing between (the pieces of a large copy). Candidates that come equally often are one
 * level of a nest of loops; step_level.c chooses one.
 */
#include <stdlib.h>
#include <string.h>

#include "step_search.h"

#define COVERED 0.3         /* share of the region's work that a loop must have, */
#define COVERED_OF_ALL 0.15 /* and of the thread's */
#define SAMPLES 64          /* iterations that are looked at for what is usual */
#define DEPTH_MAX 4         /* loops before and after the main one, how often */
#define THREADS_TRIED 3

static const struct ls_step_symbol *symbol_at(const struct ls_step_search *s, uint32_t call) {
    return &s->all->symbol[s->stream->call[call].symbol];
}

/* The region's calls by symbol (a counting sort). */
static void sort_places(struct ls_step_search *s, uint32_t low, uint32_t high) {
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

static bool is_long(uint32_t distance, uint32_t usual) {
    return distance > usual && !ls_step_is_near(distance, usual);
}

/* How many calls an iteration takes, at most. */
static uint32_t reach_of(const struct ls_step_candidate *c) {
    return (uint32_t)((1 + LS_STEP_NEAR) * c->distance) + LS_STEP_SLACK;
}

/* Whether nothing is worked on between two calls of one symbol: nothing is launched, where a thread
 * launches, else there is no other call. */
static bool together(const struct ls_step_search *s, uint32_t call, uint32_t next) {
    return s->work[next] - s->work[call] <= (symbol_at(s, call)->launch || !s->by_launches);
}

/* How many of a symbol's calls come together, usually; 1 where that is not the same each time. */
static uint32_t usual_together(struct ls_step_search *s, const uint32_t *place, uint32_t count) {
    uint32_t groups = 0, like = 0;
    for (uint32_t i = 0; i < count; groups++) {
        uint32_t first = i++;
        while (i < count && together(s, place[i - 1], place[i]))
            i++;
        s->distance[groups] = i - first;
    }
    uint32_t usual = ls_step_median(s->distance, groups);
    for (uint32_t i = 0; i < groups; i++)
        like += s->distance[i] == usual;
    return usual <= LS_STEP_ROUNDS_MAX && like >= LS_STEP_LIKE * groups ? usual : 1;
}

/* Whether nothing happens between two calls of one symbol but what the first one made itself. */
static bool in_a_row(const struct ls_step_search *s, uint32_t call, uint32_t next) {
    do
        call++;
    while (call < next && symbol_at(s, call)->passed);
    return call == next;
}

/* How many of a launch's calls are left where those in a row count once: a copy that is too large
 * for one launch is made in pieces, and no piece is a turn of the program's. */
static uint32_t count_rows(const struct ls_step_search *s, uint32_t *place, uint32_t count) {
    uint32_t kept = count ? 1 : 0;
    for (uint32_t i = 1, before = place[0]; i < count; i++) {
        uint32_t at = place[i];
        if (!in_a_row(s, before, at))
            place[kept++] = at;
        before = at;
    }
    return kept;
}

/* The symbol's calls, without those that come together with the one before. */
static uint32_t keep_first(struct ls_step_search *s, uint32_t symbol) {
    uint32_t *place = s->place + s->begin[symbol];
    uint32_t count = s->begin[symbol + 1] - s->begin[symbol], kept = 1;
    if (count < LS_STEP_REPEATS)
        return count;
    if (s->all->symbol[symbol].launch)
        count = count_rows(s, place, count);
    if (count < LS_STEP_REPEATS || usual_together(s, place, count) < 2)
        return count;
    for (uint32_t i = 1, before = place[0]; i < count; i++) {
        if (!together(s, before, place[i]))
            place[kept++] = place[i];
        before = place[i];
    }
    return kept;
}

/* Whether the symbol could cut a loop; the region's work is `whole`. */
static bool judge(struct ls_step_search *s, uint32_t symbol, uint32_t whole,
                  struct ls_step_candidate *c) {
    const uint32_t *place = s->place + s->begin[symbol];
    uint32_t count = keep_first(s, symbol), like = 0;
    uint64_t covered = 0;
    if (count < LS_STEP_REPEATS || s->all->symbol[symbol].passed) /* the launch itself will do */
        return false;
    for (uint32_t i = 1; i < count; i++)
        s->distance[i - 1] = place[i] - place[i - 1];
    uint32_t usual = ls_step_median(s->distance, count - 1);
    for (uint32_t i = 1; i < count; i++) {
        if (!ls_step_is_near(place[i] - place[i - 1], usual))
            continue;
        like++;
        covered += s->work[place[i]] - s->work[place[i - 1]];
    }
    if (like < LS_STEP_LIKE * (count - 1) || covered < COVERED * whole ||
        covered < COVERED_OF_ALL * s->work[s->stream->count] || covered == 0)
        return false;
    *c = (struct ls_step_candidate){symbol, count, usual, place[0]};
    return true;
}

/* Fewest repetitions first. */
static int by_count(const void *a, const void *b) {
    const struct ls_step_candidate *x = a, *y = b;
    if (x->count != y->count)
        return x->count < y->count ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

static bool find_candidates(struct ls_step_search *s, uint32_t low, uint32_t high) {
    uint32_t whole = s->work[high] - s->work[low];
    s->candidates = 0;
    sort_places(s, low, high);
    for (uint32_t n = 0; n < s->all->symbols; n++) {
        struct ls_step_candidate c;
        if (!judge(s, n, whole, &c))
            continue;
        if (s->candidates == s->room) {
            uint32_t room = s->room ? 2 * s->room : 256;
            struct ls_step_candidate *more = realloc(s->candidate, room * sizeof *more);
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

/*
 * How many calls before its first call of `c` each iteration began: those that come before it every
 * time, the first time too, and not after its last one (then they would end the iteration before).
 */
static uint32_t head_start(const struct ls_step_search *s, const struct ls_step_candidate *c,
                           uint32_t low, uint32_t high) {
    const uint32_t *place = ls_step_places(s, c);
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
        if (same < LS_STEP_LIKE * tried)
            break;
    }
    return back - 1;
}

/* How iterations end: with the `times`-th call of a symbol; times 0: in no usual way. */
struct tail {
    uint32_t symbol, times;
};

static struct tail find_tail(struct ls_step_search *s, const struct ls_step_candidate *c,
                             uint32_t back) {
    const uint32_t *place = ls_step_places(s, c);
    uint32_t every = c->count > SAMPLES ? c->count / SAMPLES : 1, votes = 0, same = 0, n = 0;
    struct tail tail = {0, 0};
    for (uint32_t i = 1; i < c->count; i += every) {
        uint32_t last = place[i] - back - 1, symbol = s->stream->call[last].symbol;
        if (!ls_step_is_near(place[i] - place[i - 1], c->distance))
            continue;
        if (votes == 0)
            tail.symbol = symbol;
        votes += symbol == tail.symbol ? 1 : -1u;
    }
    for (uint32_t i = 1; i < c->count; i += every) {
        uint32_t next = place[i] - back;
        if (!ls_step_is_near(place[i] - place[i - 1], c->distance))
            continue;
        same += s->stream->call[next - 1].symbol == tail.symbol;
        s->distance[n++] = ls_step_occurrences(s->stream, tail.symbol, place[i - 1] - back, next);
    }
    if (n && 2 * same > n)
        tail.times = ls_step_median(s->distance, n);
    return tail;
}

/* One past the last call of an iteration that something else follows before `limit`. */
static uint32_t end_of(const struct ls_step_search *s, uint32_t from, uint32_t limit,
                       const struct ls_step_candidate *c, struct tail tail) {
    for (uint32_t i = from; i < limit && tail.times; i++)
        if (s->stream->call[i].symbol == tail.symbol && --tail.times == 0)
            return i + 1;
    return limit - from < c->distance ? limit : from + c->distance;
}

/* The loop's steps. *first and *last: the calls that it spans, the second one exclusive. */
static void add_loop(struct ls_step_search *s, const struct ls_step_candidate *c, uint32_t low,
                     uint32_t high, uint32_t *first, uint32_t *last) {
    const uint32_t *place = ls_step_places(s, c);
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
        if (i + 1 < c->count && next - end <= LS_STEP_SLACK + LS_STEP_NEAR * c->distance)
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
static bool search_region(struct ls_step_search *s, uint32_t low, uint32_t high, int depth) {
    struct ls_step_candidate c;
    bool copies;
    uint32_t first = low, last = high;
    if (high - low < LS_STEP_REPEATS || !find_candidates(s, low, high) ||
        !ls_step_choose(s, &c, &copies))
        return false;
    add_loop(s, &c, low, high, &first, &last);
    if (copies)
        s->copies_only = true;
    if (depth < DEPTH_MAX) {
        search_region(s, low, first, depth + 1);
        search_region(s, last, high, depth + 1);
    }
    return true;
}

static bool search_stream(const struct ls_step_streams *all, const struct ls_step_stream *stream,
                          struct ls_step_list *list) {
    struct ls_step_search s = {.all = all, .stream = stream, .list = list};
    size_t count = stream->count;
    bool found = false;
    s.by_launches = stream->launches >= count / 100 && stream->launches > 0;
    s.work = calloc(count + 1, sizeof *s.work);
    s.place = calloc(count + 1, sizeof *s.place);
    s.distance = calloc(count + 1, sizeof *s.distance);
    s.begin = calloc(all->symbols + 2, sizeof *s.begin);
    if (s.work && s.place && s.distance && s.begin) {
        for (uint32_t i = 0; i < count; i++)
            s.work[i + 1] = s.work[i] + (s.by_launches ? symbol_at(&s, i)->launch : 1);
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
