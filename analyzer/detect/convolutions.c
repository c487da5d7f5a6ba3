/*
 * convolutions.c - see convolutions.h. Main thread only; not for signal handlers.
 */
#include "convolutions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../json_text.h"
#include "../query.h"
#include "../room.h"
#include "by_site.h"
#include "flow_shape.h"

/* One call, while its operands come. */
struct taking {
    const struct ls_flow *flow;
    struct ls_convolutions *made;
    struct ls_numbers layers;
    size_t layer_room, call_room;
    struct ls_conv_layer now;
    struct ls_conv_call call;
    uint64_t address[3]; /* of x, w, y */
};

static const struct {
    const char *role;
    int place; /* in x, w, y */
    enum ls_conv_pass pass;
} roles[] = {
    {"x", 0, LS_CONV_FORWARD}, {"w", 1, LS_CONV_FORWARD}, {"y", 2, LS_CONV_FORWARD},
    {"dx", 0, LS_CONV_DATA},   {"dw", 1, LS_CONV_FILTER}, {"dy", 2, LS_CONV_FORWARD},
};

static const struct ls_flow_shape **tensor_at(struct ls_conv_layer *layer, int place) {
    return place == 0 ? &layer->x : place == 1 ? &layer->w : &layer->y;
}

/* ---- one call ---- */

static void take_operand(struct taking *t, const char *role, int64_t shape, uint64_t address) {
    if (!strcmp(role, "convolution")) {
        t->now.setting = shape;
        return;
    }
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        if (strcmp(role, roles[i].role))
            continue;
        int place = roles[i].place;
        const struct ls_flow_shape **at = tensor_at(&t->now, place);
        /* Of a fused graph's tensors those in memory count, not what its operations hand on. */
        if (*at && (t->address[place] || !address))
            return;
        *at = ls_flow_shape(t->flow->own, shape);
        t->address[place] = address;
        if (roles[i].pass != LS_CONV_FORWARD) {
            t->now.pass = roles[i].pass;
            t->call.y_address = address;
        } else if (place == 2 && t->now.pass == LS_CONV_FORWARD) {
            t->call.y_address = address;
        }
        return;
    }
}

static bool is(const struct ls_flow_shape *shape, const char *layout) {
    return shape && !shape->ambiguous && !strcmp(shape->layout, layout);
}

static enum ls_conv_layouts layouts_of(const struct ls_conv_layer *l) {
    const struct ls_flow_shape *all[] = {l->x, l->w, l->y};
    int first = 0, last = 0, other = 0;
    for (int i = 0; i < 3; i++) {
        first += is(all[i], "nchw");
        last += is(all[i], "nhwc");
        other += all[i] && !all[i]->ambiguous && !is(all[i], "nchw") && !is(all[i], "nhwc");
    }
    if (other || (!first && !last))
        return LS_CONV_UNKNOWN;
    return first && last ? LS_CONV_MIXED : first ? LS_CONV_NCHW : LS_CONV_NHWC;
}

/* Each element of the output takes one product per element of its filter. */
static double flops_of(const struct ls_conv_layer *l) {
    if (!l->y || !l->w || l->w->dims < 3 || l->w->size[0] < 1)
        return 0;
    return 2.0 * (double)l->y->elements * (double)l->w->elements / (double)l->w->size[0];
}

/* The number of the layer that the call is of. */
static size_t layer_of(struct taking *t) {
    struct ls_convolutions *made = t->made;
    const struct {
        int64_t stack, api, setting, pass;
        const struct ls_flow_shape *x, *w, *y;
    } key = {t->now.stack, t->now.api, t->now.setting, t->now.pass, t->now.x, t->now.w, t->now.y};
    size_t at = ls_number_of(&t->layers, &key, sizeof key);
    if (at < made->layers)
        return at;
    made->layer = ls_room(made->layer, made->layers, &t->layer_room, sizeof *made->layer);
    made->layer[made->layers] = t->now;
    made->layer[made->layers].layouts = layouts_of(&t->now);
    made->layer[made->layers].flops = flops_of(&t->now);
    made->layer[made->layers].first_call = t->call.call;
    return made->layers++;
}

static void end_call(struct taking *t) {
    struct ls_convolutions *made = t->made;
    if (!t->call.call)
        return;
    t->call.layer = layer_of(t);
    struct ls_conv_layer *layer = &made->layer[t->call.layer];
    layer->count++;
    if (t->call.gpu_ns >= 0) {
        layer->timed++;
        layer->gpu_ns += t->call.gpu_ns;
    }
    made->call = ls_room(made->call, made->calls, &t->call_room, sizeof *made->call);
    made->call[made->calls++] = t->call;
}

static void begin_call(struct taking *t, sqlite3_stmt *stmt) {
    t->call = (struct ls_conv_call){.call = sqlite3_column_int64(stmt, 0), .gpu_ns = -1};
    t->now = (struct ls_conv_layer){
        .stack = sqlite3_column_int64(stmt, 4), .api = sqlite3_column_int64(stmt, 5), .math = -1};
    memset(t->address, 0, sizeof t->address);
    if (sqlite3_column_type(stmt, 6) != SQLITE_NULL)
        t->call.gpu_ns = sqlite3_column_int64(stmt, 6);
}

/* ---- reading ---- */

static int read_calls(struct taking *t, sqlite3 *db) {
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(
        db,
        "SELECT o.call, role.name, COALESCE(o.shape, 0), o.address, COALESCE(c.stack, 0), c.api,"
        " (SELECT gpu_ns FROM library_gpu AS g WHERE g.call = o.call)"
        " FROM operand AS o CROSS JOIN role ON role.id = o.role JOIN call AS c ON c.id = o.call"
        " WHERE o.call IN (SELECT call FROM operand WHERE role ="
        "   (SELECT id FROM role WHERE name = 'convolution'))"
        " AND c.status = 0 AND c.flags & 3 = 0 AND c.api NOT IN (SELECT id FROM api"
        "   WHERE name LIKE 'cudnnFind%' OR name LIKE 'cudnnGet%')"
        " ORDER BY o.call, o.position",
        -1, &stmt, NULL);
    while (rc == SQLITE_OK || rc == SQLITE_ROW) {
        if ((rc = sqlite3_step(stmt)) != SQLITE_ROW)
            break;
        if (sqlite3_column_int64(stmt, 0) != t->call.call) {
            end_call(t);
            begin_call(t, stmt);
        }
        take_operand(t, (const char *)sqlite3_column_text(stmt, 1), sqlite3_column_int64(stmt, 2),
                     (uint64_t)sqlite3_column_int64(stmt, 3));
    }
    end_call(t);
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static void read_settings(struct ls_convolutions *made, sqlite3 *db) {
    sqlite3_stmt *stmt = NULL, *name = NULL;
    if (sqlite3_prepare_v2(db, "SELECT detail FROM shape WHERE id = ?", -1, &stmt, NULL) ==
            SQLITE_OK &&
        sqlite3_prepare_v2(db, "SELECT name FROM api WHERE id = ?", -1, &name, NULL) == SQLITE_OK)
        for (size_t i = 0; i < made->layers; i++) {
            struct ls_conv_layer *l = &made->layer[i];
            sqlite3_bind_int64(stmt, 1, l->setting);
            const char *text = sqlite3_step(stmt) == SQLITE_ROW
                                   ? (const char *)sqlite3_column_text(stmt, 0)
                                   : NULL;
            json_t *detail = text ? json_loads(text, 0, NULL) : NULL;
            json_t *math = json_object_get(detail, "math");
            l->groups = json_integer_value(json_object_get(detail, "groups"));
            l->math = json_is_integer(math) ? json_integer_value(math) : -1;
            /* A graph tells no number of groups: its tensors do. */
            if (l->x && l->w && l->x->dims > 2 && l->w->dims > 2 && l->w->size[1] > 0)
                l->groups = l->x->size[1] / l->w->size[1];
            json_decref(detail);
            sqlite3_reset(stmt);
            sqlite3_bind_int64(name, 1, l->api);
            if (sqlite3_step(name) == SQLITE_ROW)
                l->api_name = ls_copied((const char *)sqlite3_column_text(name, 0));
            sqlite3_reset(name);
        }
    sqlite3_finalize(stmt);
    sqlite3_finalize(name);
}

/* Conversions that ran inside of the calls. */
static void read_inside(struct ls_convolutions *made, sqlite3 *db) {
    sqlite3_stmt *stmt = NULL;
    if (made->calls == 0 ||
        sqlite3_prepare_v2(db,
                           "SELECT under_id, COUNT(*), SUM(gpu_ns), SUM(to_layout = 'nhwc' AND"
                           " from_layout <> 'nhwc'), SUM(to_layout = 'nchw')"
                           " FROM conversion_run WHERE under_id NOT NULL GROUP BY under_id",
                           -1, &stmt, NULL) != SQLITE_OK)
        return;
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        const struct ls_conv_call *call = ls_conv_of(made, sqlite3_column_int64(stmt, 0));
        if (!call)
            continue;
        struct ls_conv_inside *inside = &made->layer[call->layer].inside;
        inside->count += sqlite3_column_int64(stmt, 1);
        inside->ns += sqlite3_column_int64(stmt, 2);
        inside->to_nhwc += sqlite3_column_int64(stmt, 3);
        inside->to_nchw += sqlite3_column_int64(stmt, 4);
    }
    sqlite3_finalize(stmt);
}

const struct ls_convolutions *ls_detect_convolutions(struct ls_detect *d) {
    if (d->convolutions)
        return d->convolutions;
    struct taking t = {.flow = ls_detect_flow(d)};
    if (!t.flow)
        return NULL;
    t.made = d->convolutions = ls_new(1, sizeof *t.made);
    if (!ls_query_int(d->db, 0, "SELECT 1 FROM shape WHERE kind = 'convolution' LIMIT 1"))
        return t.made;
    int rc = read_calls(&t, d->db);
    ls_numbers_free(&t.layers);
    if (rc != SQLITE_OK) {
        ls_convolutions_free(t.made);
        return d->convolutions = NULL;
    }
    read_settings(t.made, d->db);
    read_inside(t.made, d->db);
    return t.made;
}

static int by_call(const void *key, const void *element) {
    int64_t call = *(const int64_t *)key, other = ((const struct ls_conv_call *)element)->call;
    return call < other ? -1 : call > other;
}

const struct ls_conv_call *ls_conv_of(const struct ls_convolutions *c, int64_t call) {
    return c->calls ? bsearch(&call, c->call, c->calls, sizeof *c->call, by_call) : NULL;
}

void ls_convolutions_free(struct ls_convolutions *c) {
    if (!c)
        return;
    for (size_t i = 0; i < c->layers; i++)
        free(c->layer[i].api_name);
    free(c->layer);
    free(c->call);
    free(c);
}

/* ---- words ---- */

const char *ls_dims_text(char *text, size_t size, const struct ls_flow_shape *shape) {
    size_t used = 0;
    snprintf(text, size, "?");
    for (int i = 0; shape && i < shape->dims && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? "x" : "",
                                 (long long)shape->size[i]);
    return text;
}

const char *ls_layout_word(const struct ls_flow_shape *shape) {
    if (!shape)
        return "unknown";
    return shape->ambiguous && (is(shape, "nchw") || !strncmp(shape->layout, "nhwc", 4) ||
                                !strncmp(shape->layout, "nchw", 4))
               ? "nchw or nhwc"
               : shape->layout;
}

static json_t *tensor_json(const struct ls_flow_shape *shape) {
    json_t *dims = json_array(), *strides = json_array();
    for (int i = 0; shape && i < shape->dims; i++) {
        json_array_append_new(dims, json_integer(shape->size[i]));
        json_array_append_new(strides, json_integer(shape->stride[i]));
    }
    return json_pack("{s:s, s:s, s:o, s:o}", "layout", ls_layout_word(shape), "dtype",
                     shape ? shape->dtype : "unknown", "dims", dims, "strides", strides);
}

json_t *ls_conv_json(const struct ls_conv_layer *l) {
    static const char *const passes[] = {"forward", "backward of data", "backward of filter"};
    return json_pack("{s:o, s:s, s:I, s:I, s:o, s:o, s:o, s:o, s:I, s:I, s:I}", "api",
                     ls_json_text(l->api_name ? l->api_name : "unknown"), "pass", passes[l->pass],
                     "calls", (json_int_t)l->count, "groups", (json_int_t)l->groups, "input",
                     tensor_json(l->x), "filter", tensor_json(l->w), "output", tensor_json(l->y),
                     "gpu_ns", l->timed ? json_integer(l->gpu_ns) : json_null(),
                     "conversions_inside", (json_int_t)l->inside.count, "conversions_inside_ns",
                     (json_int_t)l->inside.ns, "first_call", (json_int_t)l->first_call);
}
