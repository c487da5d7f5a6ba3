/*
 * python_object.c - see python_object.h. The interpreter's main thread, with the GIL.
 */
#include "python_object.h"

#include "python_walk.h"

#define HIDDEN_MAX 1024         /* frames in a row that are none of Python's */
#define LOCALS_MAX 65536        /* of one frame */
#define OWNED_BY_FRAME_OBJECT 2 /* a frame whose function has returned: a copy, up to `top` */
#define TAG_BITS 3u             /* 3.14 marks a value in its lowest bits; both: a number */

static bool looks_right(uintptr_t object) {
    uint64_t type, meta, flags;
    return ls_python_try_word(object, LS_PYTHON_TYPE, &type) &&
           ls_python_try_word(type, LS_PYTHON_TYPE, &meta) &&
           ls_python_try_word(meta, LS_TYPE_FLAGS, &flags) && flags & LS_TYPE_IS_TYPE;
}

/* What has looked right so many times is believed. */
#define BELIEVED_AFTER 4096

static bool is_plausible(uintptr_t object) {
    static unsigned right;
    if (right >= BELIEVED_AFTER)
        return true;
    bool good = looks_right(object);
    right = good ? right + 1 : 0;
    return good;
}

/* ---- frames ---- */

static const struct ls_python_layout *layout(void) {
    return &ls_python.layout;
}

/* 3.11 and later keep what is no frame object. */
static bool is_bare(void) {
    return layout()->owner != 0;
}

static unsigned owner_of(uintptr_t frame) {
    return *(const uint8_t *)(frame + layout()->owner);
}

uintptr_t ls_python_frame_code(uintptr_t frame) {
    uintptr_t code = ls_python_word(frame, layout()->code);
    return is_bare() ? code & ~(uintptr_t)7 : code;
}

uint32_t ls_python_frame_line(uintptr_t frame) {
    uintptr_t code = ls_python_frame_code(frame);
    int64_t at =
        is_bare()
            ? (int64_t)(ls_python_word(frame, layout()->instruction) - (code + layout()->start))
            : (int64_t)ls_python_int(frame, layout()->instruction) * layout()->unit;
    return ls_python_line_at(code, at);
}

uintptr_t ls_python_next_frame(uintptr_t frame) {
    for (unsigned hidden = 0; frame && hidden < HIDDEN_MAX; hidden++) {
        if (!is_bare() || owner_of(frame) < layout()->hidden)
            return frame;
        frame = ls_python_word(frame, layout()->back);
    }
    return 0;
}

uintptr_t ls_python_frame_of_object(uintptr_t object) {
    if (!is_bare())
        return object;
    return layout()->frame_behind ? ls_python_word(object, layout()->frame_behind) : 0;
}

uintptr_t ls_python_frame_of_generator(uintptr_t generator) {
    if (!layout()->generator || !is_bare())
        return 0;
    int8_t state = *(const int8_t *)(generator + layout()->generator_state);
    return state < 0 ? generator + layout()->generator : 0;
}

uintptr_t ls_python_name_space(uintptr_t frame) {
    uint64_t dict = layout()->name_space ? ls_python_word(frame, layout()->name_space) : 0;
    return dict && is_plausible(dict) ? dict : 0;
}

static long size_of(uintptr_t tuple) {
    return tuple ? (long)ls_python_word(tuple, LS_PYTHON_LENGTH) : 0;
}

static uintptr_t item_of(uintptr_t tuple, long i) {
    return (uintptr_t)ls_py.PyTuple_GetItem((void *)tuple, i);
}

/* One after the other: the tuples with a frame's names. */
struct names {
    uintptr_t tuple[3];
    long count;
};

static struct names names_of(uintptr_t code) {
    struct names names = {.tuple[0] = ls_python_word(code, layout()->names)};
    if (layout()->cells) {
        names.tuple[1] = ls_python_word(code, layout()->cells);
        names.tuple[2] = ls_python_word(code, layout()->free);
    }
    for (unsigned i = 0; i < 3; i++)
        names.count += size_of(names.tuple[i]);
    return names;
}

static uintptr_t name_at(const struct names *names, long i) {
    for (unsigned part = 0; part < 3; part++) {
        if (i < size_of(names->tuple[part]))
            return item_of(names->tuple[part], i);
        i -= size_of(names->tuple[part]);
    }
    return 0;
}

/* How many values lie in a frame, variables first; -1: while it runs, that is not known. */
static long values_of(uintptr_t frame) {
    const struct ls_python_layout *at = layout();
    uintptr_t first = frame + at->locals;
    if (!at->top)
        return -1;
    if (is_bare())
        return ls_python_int(frame, at->top);
    uintptr_t stack = ls_python_word(frame, at->stack);
    if (at->minor == 9) {
        uintptr_t top = ls_python_word(frame, at->top);
        return top >= stack && stack >= first ? (long)(top - first) / 8 : -1;
    }
    int32_t depth = ls_python_int(frame, at->top);
    return depth >= 0 && stack >= first ? (long)(stack - first) / 8 + depth : -1;
}

void ls_python_each_local(uintptr_t frame, ls_python_each *each, void *context) {
    struct names names = names_of(ls_python_frame_code(frame));
    long values = values_of(frame), end = values > names.count ? values : names.count;
    if (is_bare() && owner_of(frame) == OWNED_BY_FRAME_OBJECT)
        end = values;
    for (long i = 0; i < end && i < LOCALS_MAX; i++) {
        uint64_t object = ls_python_word(frame, layout()->locals + 8 * (unsigned)i);
        if (layout()->minor >= 14) {
            if ((object & TAG_BITS) == TAG_BITS)
                continue;
            object &= ~(uint64_t)TAG_BITS;
        }
        if (object && is_plausible(object))
            each(context, i < names.count ? name_at(&names, i) : 0, (uint32_t)i, object);
    }
}

/* ---- attributes ---- */

/* What lies before an object whose type has the flag MANAGED_DICT. */
#define BEFORE(object, words) ls_python_word((object) - (words)*8u, 0)

/* The table of names that objects of a type share. */
enum { KEYS_LOG2_INDEX_BYTES = 9, KEYS_KIND = 10, KEYS_COUNT = 24, KEYS_INDICES = 32 };
#define KEYS_SPLIT 2
enum { VALUES_VALID = 3, VALUES_FIRST = 8 }; /* from 3.13 on, behind the object */
#define ATTRIBUTES_MAX 1024

/* Where an object's inline attributes lie; 0: it has none (any more). */
static uintptr_t inline_values(uintptr_t object, uintptr_t type) {
    switch (layout()->minor) {
    case 11:
        return BEFORE(object, 4);
    case 12: {
        uint64_t word = BEFORE(object, 3); /* a dict, or one less than where the values are */
        return word & 1 ? word + 1 : 0;
    }
    case 13: {
        uintptr_t values = object + ls_python_word(type, LS_TYPE_BASIC_SIZE);
        bool valid = ls_python_type_flags(type) & LS_TYPE_INLINE_VALUES && BEFORE(object, 3) == 0 &&
                     *(const uint8_t *)(values + VALUES_VALID);
        return valid ? values + VALUES_FIRST : 0;
    }
    default:
        return 0;
    }
}

void ls_python_each_inline(uintptr_t object, ls_python_each *each, void *context) {
    uintptr_t type = ls_python_type(object);
    if (!layout()->keys || !(ls_python_type_flags(type) & LS_TYPE_MANAGED_DICT))
        return;
    uintptr_t values = inline_values(object, type);
    uintptr_t keys = values ? ls_python_word(type, layout()->keys) : 0;
    if (!keys || *(const uint8_t *)(keys + KEYS_KIND) != KEYS_SPLIT)
        return;
    uint64_t count = ls_python_word(keys, KEYS_COUNT);
    uintptr_t entry =
        keys + KEYS_INDICES + (1u << *(const uint8_t *)(keys + KEYS_LOG2_INDEX_BYTES));
    for (uint32_t i = 0; i < count && i < ATTRIBUTES_MAX; i++, entry += 16) {
        uintptr_t value = ls_python_word(values, i * 8);
        if (value)
            each(context, ls_python_word(entry, 0), i, value);
    }
}

uintptr_t ls_python_dict(uintptr_t object) {
    uintptr_t type = ls_python_type(object);
    if (!(ls_python_type_flags(type) & LS_TYPE_MANAGED_DICT) || layout()->minor < 11) {
        if (ls_python_word(type, LS_TYPE_DICT_OFFSET) == 0)
            return 0;
        void **where = ls_py._PyObject_GetDictPtr((void *)object);
        return where ? (uintptr_t)*where : 0;
    }
    /* Its function would make the dict where there is none yet. */
    switch (layout()->minor) {
    case 12: {
        uint64_t word = BEFORE(object, 3);
        return word & 1 ? 0 : word;
    }
    default:
        return BEFORE(object, 3);
    }
}

/* ---- slots ---- */

enum { MEMBER_NAME = 24, MEMBER_DEFINITION = 40 }; /* a member_descriptor */
enum { DEFINITION_NAME = 0, DEFINITION_TYPE = 8, DEFINITION_OFFSET = 16 };
#define IS_OBJECT 6 /* of a definition's type: an object, */
#define IS_OBJECT_OR_NOT_SET 16

static const char *slot_in_type(uintptr_t type, uintptr_t object, uintptr_t held) {
    uintptr_t dict = ls_python_word(type, LS_TYPE_DICT);
    long position = 0;
    void *key, *value;
    while (dict && ls_py.PyDict_Next((void *)dict, &position, &key, &value)) {
        if (ls_python_type((uintptr_t)value) != (uintptr_t)ls_py.PyMemberDescr_Type)
            continue;
        uintptr_t definition = ls_python_word((uintptr_t)value, MEMBER_DEFINITION);
        int32_t what = ls_python_int(definition, DEFINITION_TYPE);
        uint64_t offset = ls_python_word(definition, DEFINITION_OFFSET);
        if ((what == IS_OBJECT || what == IS_OBJECT_OR_NOT_SET) &&
            ls_python_word(object, (unsigned)offset) == held)
            return (const char *)ls_python_word(definition, DEFINITION_NAME);
    }
    return NULL;
}

const char *ls_python_slot_name(uintptr_t object, uintptr_t held) {
    uintptr_t mro = ls_python_word(ls_python_type(object), LS_TYPE_MRO);
    const char *name = NULL;
    for (long i = 0; i < size_of(mro) && !name; i++)
        name = slot_in_type(item_of(mro, i), object, held);
    return name;
}
