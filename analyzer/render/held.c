/*
 * held.c - who holds memory and what lies in its pieces. See held.h.
 *
 * Main thread only; not for signal handlers.
 */
#include "held.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "../term.h"

#define SITE_LEAST 24    /* columns; narrower terminals wrap */
#define SITE_SHORTEST 16 /* after a sentence */

const char *ls_clip_site(struct ls_clipped *clipped, const char *site, int width) {
    int length = 0,
        room = width < (int)sizeof clipped->text ? width : (int)sizeof clipped->text - 4;
    const char *from = site;
    for (const char *p = site; *p; p++)
        length += (*p & 0xc0) != 0x80; /* code points */
    bool whole = length <= room;
    for (int skip = whole ? 0 : length - room + 3; *from && skip > 0; from++)
        skip -= (from[1] & 0xc0) != 0x80;
    snprintf(clipped->text, sizeof clipped->text, "%s%s", whole ? "" : "...", from);
    for (char *p = clipped->text; *p; p++) /* a table's line must stay one */
        if ((unsigned char)*p < ' ')
            *p = ' ';
    return clipped->text;
}

/* Left-aligned in `width` columns, whatever bytes a code point takes. */
static void put_site(const char *site, int width, FILE *out) {
    struct ls_clipped clipped;
    int length = 0;
    ls_clip_site(&clipped, site, width);
    for (const char *p = clipped.text; *p; p++)
        length += (*p & 0xc0) != 0x80;
    fprintf(out, "%s%*s", clipped.text, width > length ? width - length : 0, "");
}

static int site_width(FILE *out, int others) {
    int width = ls_term_width(out) - others;
    return width > SITE_LEAST ? width : SITE_LEAST;
}

const char *ls_age_text(char *text, size_t size, int64_t steps, int64_t ns) {
    struct ls_human human;
    if (steps > 0)
        snprintf(text, size, "%s %s", ls_human_count(&human, steps),
                 ls_plural(steps, "step", "steps"));
    else
        snprintf(text, size, "%s", ls_human_ns(&human, ns));
    return text;
}

json_t *ls_json_known(int64_t value) {
    return value < 0 ? json_null() : json_integer(value);
}

static json_t *integer(uint64_t value) {
    return json_integer((json_int_t)value);
}

/* ---- holders ---- */

static const char *growth_text(struct ls_human *h, const struct ls_holder_entry *e) {
    struct ls_human bytes;
    int64_t growth = (int64_t)(e->growth < 0 ? -e->growth : e->growth);
    if (!e->steady)
        return "?";
    if (growth == 0)
        return "0";
    snprintf(h->text, sizeof h->text, "%c%s", e->growth < 0 ? '-' : '+',
             ls_human_bytes(&bytes, growth));
    return h->text;
}

void ls_render_holders(const struct ls_holders *holders, size_t most, FILE *out) {
    struct ls_human bytes, blocks, growth;
    char age[48];
    bool steps = holders->steps > 0;
    int width = site_width(out, steps ? 48 : 36);
    uint64_t rest = 0, rest_blocks = 0;
    ls_term_style(out, LS_BOLD);
    fprintf(out, "  %-*s %10s %8s %12s", width, "who holds it", "bytes", "blocks", "oldest");
    fprintf(out, steps ? " %11s\n" : "\n", "a step");
    ls_term_style(out, LS_PLAIN);
    for (size_t i = 0; i < holders->count; i++) {
        const struct ls_holder_entry *e = &holders->holder[i];
        if (i >= most) {
            rest += e->bytes;
            rest_blocks += e->blocks;
            continue;
        }
        fputs("  ", out);
        put_site(e->site, width, out);
        fprintf(out, " %10s %8s %12s", ls_human_bytes(&bytes, (int64_t)e->bytes),
                ls_human_count(&blocks, e->blocks),
                ls_age_text(age, sizeof age, e->age_steps, e->age_ns));
        if (steps)
            fprintf(out, " %11s", growth_text(&growth, e));
        fputc('\n', out);
    }
    if (holders->count > most) {
        char text[64];
        snprintf(text, sizeof text, "%zu more %s", holders->count - most,
                 ls_plural((int64_t)(holders->count - most), "site", "sites"));
        fprintf(out, "  %-*s %10s %8s\n", width, text, ls_human_bytes(&bytes, (int64_t)rest),
                ls_human_count(&blocks, (int64_t)rest_blocks));
    }
}

json_t *ls_render_holders_json(const struct ls_holders *holders) {
    json_t *array = json_array();
    for (size_t i = 0; i < holders->count; i++) {
        const struct ls_holder_entry *e = &holders->holder[i];
        json_array_append_new(
            array, json_pack("{s:o, s:o, s:I, s:I, s:o, s:o, s:o}", "site", ls_json_text(e->site),
                             "bytes", integer(e->bytes), "blocks", (json_int_t)e->blocks, "age_ns",
                             (json_int_t)e->age_ns, "age_steps", ls_json_known(e->age_steps),
                             "growth", e->steady ? json_real(e->growth) : json_null(), "change",
                             holders->since_step ? json_integer(e->change) : json_null()));
    }
    return array;
}

/* ---- pieces ---- */

/* Several pieces as one line. */
struct piece_sum {
    uint64_t size, live, hole;
    size_t count;
};

static void add_piece(struct piece_sum *sum, const struct ls_piece *p) {
    sum->size += p->size;
    sum->live += p->live;
    sum->hole = p->hole > sum->hole ? p->hole : sum->hole;
    sum->count++;
}

static void put_sum(const struct piece_sum *sum, const char *one, const char *many, FILE *out) {
    struct ls_human size, live, hole;
    if (sum->count)
        fprintf(
            out, "  %10s %10s %12s         in %zu %s\n", ls_human_bytes(&size, (int64_t)sum->size),
            ls_human_bytes(&live, (int64_t)sum->live), ls_human_bytes(&hole, (int64_t)sum->hole),
            sum->count, ls_plural((int64_t)sum->count, one, many));
}

static void put_piece(const struct ls_history *h, const struct ls_state *state,
                      const struct ls_piece *p, int width, FILE *out) {
    struct ls_human size, live, hole, blocks, age;
    struct ls_clipped site;
    fprintf(out, "  %10s %10s %12s %6s  ", ls_human_bytes(&size, (int64_t)p->size),
            ls_human_bytes(&live, (int64_t)p->live), ls_human_bytes(&hole, (int64_t)p->hole),
            ls_human_count(&blocks, p->blocks));
    if (p->oldest)
        fprintf(out, "%9s  %s\n", ls_human_ns(&age, state->ts_ns - p->oldest->start_ns),
                ls_clip_site(&site, ls_history_site(h, p->oldest->site), width));
    else
        fputs("work of other streams\n", out);
}

/* Of one size, and nobody who reads the table could tell them apart. */
static bool alike(const struct ls_piece *a, const struct ls_piece *b) {
    struct ls_human live[2], hole[2];
    return a->size == b->size && !a->oldest == !b->oldest &&
           strcmp(ls_human_bytes(&live[0], (int64_t)a->live),
                  ls_human_bytes(&live[1], (int64_t)b->live)) == 0 &&
           strcmp(ls_human_bytes(&hole[0], (int64_t)a->hole),
                  ls_human_bytes(&hole[1], (int64_t)b->hole)) == 0;
}

/* "12 segments of 20.0 MiB, all live, oldest 12.4 s: train.py:7 forward" */
static void put_alike(const struct ls_history *h, const struct ls_state *state,
                      const struct ls_piece *const *piece, size_t count, FILE *out) {
    const struct ls_piece *p = piece[0];
    const struct ls_span *oldest = p->oldest;
    struct ls_human size, live, age;
    struct ls_clipped site;
    char text[160], how[64] = "all live";
    for (size_t i = 1; i < count && oldest; i++)
        if (piece[i]->oldest->start_ns < oldest->start_ns)
            oldest = piece[i]->oldest;
    if (p->live < p->size)
        snprintf(how, sizeof how, "each %s live", ls_human_bytes(&live, (int64_t)p->live));
    snprintf(text, sizeof text, "  %zu segments of %s, %s", count,
             ls_human_bytes(&size, (int64_t)p->size), how);
    if (!oldest) {
        fprintf(out, "%s: work of other streams\n", text);
        return;
    }
    snprintf(text + strlen(text), sizeof text - strlen(text),
             ", oldest %s: ", ls_human_ns(&age, state->ts_ns - oldest->start_ns));
    int room = ls_term_width(out) - (int)strlen(text);
    fprintf(out, "%s%s\n", text,
            ls_clip_site(&site, ls_history_site(h, oldest->site),
                         room > SITE_SHORTEST ? room : SITE_SHORTEST));
}

/* What is pinned with the most free around it comes first: it is what could be had. */
static int by_free(const void *a, const void *b) {
    const struct ls_piece *x = *(struct ls_piece *const *)a, *y = *(struct ls_piece *const *)b;
    if (x->free != y->free)
        return x->free > y->free ? -1 : 1;
    return x < y ? -1 : x > y; /* by size, as they lie */
}

void ls_render_pieces(const struct ls_history *history, const struct ls_state *state, size_t most,
                      FILE *out) {
    const struct ls_piece **pinned = calloc(state->pieces + 1, sizeof(const struct ls_piece *));
    struct piece_sum rest = {0}, empty = {0};
    int width = site_width(out, 56);
    size_t count = 0;
    if (!pinned)
        return;
    for (size_t i = 0; i < state->pieces; i++)
        if (state->piece[i].live + state->piece[i].pending)
            pinned[count++] = &state->piece[i];
        else
            add_piece(&empty, &state->piece[i]);
    if (count)
        qsort(pinned, count, sizeof *pinned, by_free);
    ls_term_style(out, LS_BOLD);
    fprintf(out, "  %10s %10s %12s %6s  %9s  %s\n", "segment", "live", "largest hole", "blocks",
            "oldest", "who pins it");
    ls_term_style(out, LS_PLAIN);
    for (size_t i = 0, like, lines = 0; i < count; i += like, lines++) {
        for (like = 1; most != LS_EVERY_ROW && i + like < count; like++)
            if (!alike(pinned[i], pinned[i + like]))
                break;
        if (lines < most && like == 1)
            put_piece(history, state, pinned[i], width, out);
        else if (lines < most)
            put_alike(history, state, &pinned[i], like, out);
        for (size_t k = 0; lines >= most && k < like; k++)
            add_piece(&rest, pinned[i + k]);
    }
    put_sum(&rest, "other", "others", out);
    put_sum(&empty, "that nothing pins", "that nothing pins", out);
    free(pinned);
}

static json_t *oldest_json(const struct ls_history *h, const struct ls_state *state,
                           const struct ls_span *s) {
    if (!s)
        return json_null();
    return json_pack("{s:I, s:o, s:o, s:I}", "id", (json_int_t)s->id, "site",
                     ls_json_text(ls_history_site(h, s->site)), "bytes", integer(s->size), "age_ns",
                     (json_int_t)(state->ts_ns - s->start_ns));
}

json_t *ls_render_pieces_json(const struct ls_history *history, const struct ls_state *state) {
    json_t *array = json_array();
    for (size_t i = 0; i < state->pieces; i++) {
        const struct ls_piece *p = &state->piece[i];
        json_array_append_new(
            array, json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:b, s:o, s:o}", "address",
                             integer(p->address), "size", integer(p->size), "live",
                             integer(p->live), "pending", integer(p->pending), "free",
                             integer(p->free), "hole", integer(p->hole), "blocks",
                             (json_int_t)p->blocks, "expandable", p->segment->expandable, "site",
                             ls_json_text(ls_history_site(history, p->segment->site)), "oldest",
                             oldest_json(history, state, p->oldest)));
    }
    return array;
}
