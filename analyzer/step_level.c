/*
 * step_level.c - which level of a nest of loops is the program's iteration. See step_search.h.
 * One thread; not async-signal-safe.
 *
 * Candidates that come equally often are one level. Iterations usually have a copy from or to the
 * host: the innermost level with one is looked for, without copies the outermost one. What comes
 * round a few times in each turn of a further level is no iteration of its own, but a part of that
 * one's (micro-batches, two inputs that one line copies), for the larger explains the calls of
 * both. Only what a program does now and then explains nothing: reading a number (a log line),
 * asking for memory that is kept (a cache that grows), giving back what it kept for a few turns.
 */
#include "step_search.h"

#define MANY 10        /* repetitions that make a loop a likely one */
#define LEVEL 1.25     /* counts of one level, at most so far apart */
#define SAMPLES 64     /* turns that are looked at for what is usual */
#define LEVELS_MAX 128 /* more than 32 bits of count can have */

struct level {
    uint32_t from, to; /* candidates, by number */
    uint32_t count;    /* the usual number of repetitions */
    uint64_t calls;    /* by all candidates */
    struct ls_step_candidate begin;
    bool uploads, downloads, launches, work, gives, takes; /* the candidates */
    bool copies; /* from or to the host, somewhere in most of its turns */
};

/* Something was made of it. */
static bool works(const struct level *level) {
    return level->uploads || level->launches || level->work || (level->gives && level->takes);
}

/* A log line, a cache that grows, or memory of several turns that is given back at once. */
static bool now_and_then(const struct level *outer, const struct level *inner) {
    return !works(outer) && (outer->downloads || outer->gives || (outer->takes && inner->launches));
}

/* Whether the candidate has a say in how often the level comes, at the first try, the second, ...:
 * a launch may be another loop's, and what is given back is mostly the turn's before. */
static bool counts(const struct ls_step_symbol *symbol, int attempt) {
    bool only_takes = symbol->takes && !symbol->gives;
    return attempt == 0 ? symbol->stack && !only_takes : attempt == 1 ? !only_takes : true;
}

/* The count that most of the level's candidates have. */
static uint32_t usual_repeats(const struct ls_step_search *s, const struct level *level) {
    uint32_t best = 0, count = 0;
    for (int attempt = 0; attempt < 3 && !best; attempt++) {
        uint32_t run = 0, most = 0;
        for (uint32_t i = level->from; i < level->to; i++) {
            const struct ls_step_candidate *c = &s->candidate[i];
            if (!counts(&s->all->symbol[c->symbol], attempt))
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
static struct ls_step_candidate beginning(const struct ls_step_search *s,
                                          const struct level *level) {
    const struct ls_step_candidate *best = NULL;
    for (uint32_t i = level->from; i < level->to; i++) {
        const struct ls_step_candidate *c = &s->candidate[i];
        if (c->count == level->count && (!best || c->first < best->first))
            best = c;
    }
    return *best;
}

static bool copies_within(const struct ls_step_search *s, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++) {
        const struct ls_step_symbol *symbol = &s->all->symbol[s->stream->call[i].symbol];
        if (symbol->upload || symbol->download)
            return true;
    }
    return false;
}

static bool has_copies(const struct ls_step_search *s, const struct level *level) {
    const uint32_t *turn = ls_step_places(s, &level->begin);
    uint32_t count = level->begin.count, every = count > SAMPLES ? count / SAMPLES : 1;
    uint32_t tried = 0, with = 0;
    for (uint32_t i = 1; i < count; i += every, tried++)
        with += copies_within(s, turn[i - 1], turn[i]);
    return with > LS_STEP_LIKE * tried;
}

/* The level that begins at candidate `from`. */
static struct level level_from(const struct ls_step_search *s, uint32_t from) {
    struct level level = {.from = from, .to = from};
    while (level.to < s->candidates &&
           s->candidate[level.to].count <= LEVEL * s->candidate[from].count) {
        const struct ls_step_symbol *symbol = &s->all->symbol[s->candidate[level.to].symbol];
        level.uploads |= symbol->upload;
        level.downloads |= symbol->download;
        level.launches |= symbol->launch;
        level.work |= symbol->work;
        level.gives |= symbol->gives;
        level.takes |= symbol->takes;
        level.calls += s->candidate[level.to++].count;
    }
    level.count = usual_repeats(s, &level);
    level.begin = beginning(s, &level);
    level.copies = has_copies(s, &level);
    return level;
}

/* How often the inner level comes round in each turn of the outer one; 0: now so, now so. */
static uint32_t rounds(struct ls_step_search *s, const struct level *outer,
                       const struct level *inner) {
    const uint32_t *turn = ls_step_places(s, &outer->begin), *in = ls_step_places(s, &inner->begin);
    uint32_t n = 0, like = 0, last = inner->begin.count, next = 0;
    for (uint32_t i = 1; i < outer->begin.count; i++) {
        uint32_t first = next;
        while (first < last && in[first] < turn[i - 1])
            first++;
        for (next = first; next < last && in[next] < turn[i];)
            next++;
        if (ls_step_is_near(turn[i] - turn[i - 1], outer->begin.distance))
            s->distance[n++] = next - first;
    }
    if (n == 0)
        return 0;
    uint32_t usual = ls_step_median(s->distance, n);
    for (uint32_t i = 0; i < n; i++)
        like += s->distance[i] == usual;
    return like >= LS_STEP_LIKE * n ? usual : 0;
}

/* Whether the inner level is a few rounds in each step of the outer one. */
static bool is_part(struct ls_step_search *s, const struct level *outer,
                    const struct level *inner) {
    if (now_and_then(outer, inner))
        return false;
    uint32_t usual = rounds(s, outer, inner);
    return usual > 1 && usual <= LS_STEP_ROUNDS_MAX &&
           (outer->count >= MANY || outer->count >= 2 * usual);
}

/* Whether the inner of two levels is rather the iteration, its rounds in the outer one apart. */
static bool is_better(const struct level *inner, const struct level *outer) {
    /* A loop makes most of its calls each time: else these are lines that come twice in one. */
    if (inner->calls < outer->calls)
        return false;
    if (inner->copies || outer->copies)
        return inner->copies;
    if (inner->count < 2 * outer->count) /* one loop: some calls are not there from its begin */
        return true;
    if (outer->count < MANY)
        return inner->count >= MANY && works(inner);
    /* Layers lie within something that works, too; what waits or asks for memory holds few. */
    return inner->launches && !works(outer) &&
           (now_and_then(outer, inner) || inner->count > LS_STEP_ROUNDS_MAX * outer->count);
}

bool ls_step_choose(struct ls_step_search *s, struct ls_step_candidate *chosen, bool *copied) {
    struct level level[LEVELS_MAX];
    int levels = 0, best = 0;
    for (uint32_t from = 0; from < s->candidates && levels < LEVELS_MAX;) {
        level[levels] = level_from(s, from);
        from = level[levels].to;
        if (!s->copies_only || level[levels].copies)
            levels++;
    }
    if (levels == 0)
        return false;
    for (int i = 1; i < levels; i++)
        if (is_better(&level[i], &level[best]))
            best = i;
    for (int i = best - 1; i >= 0; i--)
        if (is_part(s, &level[i], &level[best])) {
            best = i;
            break;
        }
    *chosen = level[best].begin;
    *copied = level[best].copies;
    return true;
}
