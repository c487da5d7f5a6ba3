/*
 * cudnn_graph.c - the life of the graph API's descriptors, and a plan's execution. See
 * cudnn_graph.h. Any thread; no lock.
 */
#include "cudnn_graph.h"

#include <stddef.h>

#include "cudnn_node.h"
#include "operand.h"
#include "spool.h"

/* Those that lead to the graph: they need no block, their number is a list's from the first. */
static bool leads_to_graph(int type) {
    return type >= LS_CUDNN_BACKEND_ENGINE_DESCRIPTOR &&
           type <= LS_CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
}

static bool is_link_to_graph(int name) {
    return name == LS_CUDNN_ATTR_ENGINE_OPERATION_GRAPH ||
           name == LS_CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH ||
           name == LS_CUDNN_ATTR_ENGINECFG_ENGINE ||
           name == LS_CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG;
}

static bool is_pack(uint64_t word) {
    return LS_CUDNN_TYPE(word) == LS_CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR;
}

/* The block of a descriptor with this word, or NULL. */
static struct ls_cudnn_block *block_of(uint64_t word) {
    if (!word || leads_to_graph(LS_CUDNN_TYPE(word)) || (LS_CUDNN_DONE(word) && !is_pack(word)))
        return NULL;
    return ls_cudnn_block(LS_CUDNN_NUMBER(word));
}

static void forget(uint64_t word) {
    if (block_of(word))
        ls_cudnn_block_give(LS_CUDNN_NUMBER(word));
}

/* As if it were new. Returns its word. */
static uint64_t begin(const void *descriptor, int type) {
    uint64_t word = LS_CUDNN_WORD(type, false, 0);
    if (!leads_to_graph(type))
        word = LS_CUDNN_WORD(type, false, ls_cudnn_block_take(type));
    ls_descriptor_put(descriptor, word);
    return word;
}

void ls_cudnn_created(int status, int type, void *const *descriptor) {
    if (status != 0 || !descriptor)
        return;
    uint64_t old = ls_descriptor_take(*descriptor); /* destroyed beside us */
    if (LS_DESCRIBED_KIND(old) == LS_DESCRIBED_NODE)
        forget(old);
    if (type >= 0 && type < LS_CUDNN_TYPES)
        begin(*descriptor, type);
}

void ls_cudnn_set(int status, const void *descriptor, int name, int type, int64_t count,
                  const void *values) {
    uint64_t word = status == 0 ? ls_cudnn_word(descriptor) : 0;
    if (!word || count <= 0 || !values)
        return;
    int of = LS_CUDNN_TYPE(word);
    if (LS_CUDNN_DONE(word)) { /* it takes attributes: it was made new in its place */
        forget(word);
        word = begin(descriptor, of);
    }
    struct ls_cudnn_block *block = block_of(word);
    if (block) {
        ls_cudnn_tell(of, block, name, type, count, values);
    } else if (leads_to_graph(of) && is_link_to_graph(name) &&
               type == LS_CUDNN_TYPE_BACKEND_DESCRIPTOR) {
        uint32_t list = ls_cudnn_list_of(*(const void *const *)values);
        ls_descriptor_put(descriptor, LS_CUDNN_WORD(of, false, list));
    }
}

/* What the library fills in has the graph of what it was asked of. */
void ls_cudnn_got(int status, const void *descriptor, int name, int type, int64_t wanted,
                  const int64_t *count, const void *values) {
    if (status != 0 || type != LS_CUDNN_TYPE_BACKEND_DESCRIPTOR || !values ||
        !(name == LS_CUDNN_ATTR_ENGINEHEUR_RESULTS || is_link_to_graph(name)))
        return;
    uint32_t list = ls_cudnn_list_of(descriptor);
    int64_t told = count && *count < wanted ? *count : wanted;
    for (int64_t i = 0; i < told; i++) {
        const void *filled = ((const void *const *)values)[i];
        int filled_type = LS_CUDNN_TYPE(ls_cudnn_word(filled));
        if (leads_to_graph(filled_type))
            ls_descriptor_put(filled, LS_CUDNN_WORD(filled_type, true, list));
    }
}

void ls_cudnn_finalized(int status, const void *descriptor) {
    uint64_t word = status == 0 ? ls_cudnn_word(descriptor) : 0;
    if (!word || LS_CUDNN_DONE(word))
        return;
    int type = LS_CUDNN_TYPE(word);
    uint32_t number = LS_CUDNN_NUMBER(word);
    struct ls_cudnn_block *block = is_pack(word) ? NULL : block_of(word);
    if (block) {
        number = ls_cudnn_close(type, block);
        ls_cudnn_block_give(LS_CUDNN_NUMBER(word));
    } else if (!is_pack(word) && !leads_to_graph(type)) {
        number = LS_CUDNN_LIST_NO_ROOM; /* there was none for what it was given */
    }
    ls_descriptor_put(descriptor, LS_CUDNN_WORD(type, true, number));
}

uint64_t ls_cudnn_destroying(const void *descriptor) {
    return ls_cudnn_word(descriptor) ? ls_descriptor_take(descriptor) : 0;
}

void ls_cudnn_destroyed(int status, const void *descriptor, uint64_t word) {
    if (status == 0)
        forget(word);
    else if (word)
        ls_descriptor_put(descriptor, word);
}

/* ---- execution ---- */

/* The pack's place of a tensor, looked for from `from` on, where the last one's was; -1: none. */
static int place_of(const struct ls_cudnn_pack *pack, uint32_t count, int64_t uid, uint32_t from) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = from + i < count ? from + i : from + i - count;
        if (pack->uid[at] == uid)
            return (int)at;
    }
    return -1;
}

void ls_cudnn_execute(struct ls_thread *self, const void *plan, const void *pack_descriptor) {
    static const struct ls_cudnn_pack none;
    const struct ls_cudnn_item *item;
    uint64_t word = ls_cudnn_word(pack_descriptor), met = 0;
    struct ls_cudnn_block *block = is_pack(word) ? block_of(word) : NULL;
    const struct ls_cudnn_pack *pack = block ? &block->pack : &none;
    uint32_t given = pack->uids < pack->addresses ? pack->uids : pack->addresses, from = 0;
    if (given > LS_CUDNN_ITEMS)
        given = LS_CUDNN_ITEMS;
    uint32_t list = LS_CUDNN_TYPE(ls_cudnn_word(plan)) == LS_CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR
                        ? ls_cudnn_list_of(plan)
                        : 0;
    uint32_t items = ls_cudnn_list(list, &item);
    if (list == LS_CUDNN_LIST_NO_ROOM)
        ls_spool_lost(self, LS_LOST_SHAPES, 1);
    for (uint32_t i = 0; i < items; i++) {
        bool setting = item[i].flags & LS_CUDNN_SETTING;
        int at = setting ? -1 : place_of(pack, given, item[i].uid, from);
        if (at >= 0) {
            met |= (uint64_t)1 << at;
            from = (uint32_t)at + 1 < given ? (uint32_t)at + 1 : 0;
        }
        ls_operand_add(self, item[i].role, 0, pack->other_shapes && !setting ? 0 : item[i].shape,
                       at >= 0 ? pack->address[at] : 0);
    }
    for (uint32_t at = 0; at < given; at++) /* of a plan that was not made before our eyes */
        if (!(met >> at & 1))
            ls_operand_add(self, LS_ROLE_TENSOR, 0, 0, pack->address[at]);
    ls_operand_add(self, LS_ROLE_WORKSPACE, 0, 0, pack->workspace);
}
