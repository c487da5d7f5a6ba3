/*
 * census_path.c - how people would write the way to a tensor. See census_walk.h.
 *
 *   model.layers.3.attn.qkv.weight        losses[412]        cache['k']        f.<closure x>
 *   package.module.STATE.w                train.py:30 step: activ
 *   exception OutOfMemoryError at train.py:30 step: activ
 *
 * The objects in between that only the interpreter knows (an instance's dict, a closure's tuple and
 * cells, the dicts of an nn.Module) do not show.
 */
#include <stdio.h>
#include <string.h>

#include "census_tensor.h"
#include "census_walk.h"

#define DEPTH_MAX 96  /* objects on a path; of a longer one the middle is left out */
#define PATH_MAX_ 320 /* bytes of a path */
#define NAME_MAX_ 64  /* bytes of a name or key in it */
#define NESTED_MAX 2  /* paths within paths: a dict's key that is a tensor */

struct line {
    char *out;
    size_t used, room;
};

/* Cuts at whole characters. */
static void put_bytes(struct line *line, const char *text, size_t size) {
    size_t left = line->room - 1 - line->used;
    if (size > left) {
        size = left;
        while (size > 0 && ((unsigned char)text[size] & 0xc0) == 0x80)
            size--;
    }
    memcpy(line->out + line->used, text, size);
    line->used += size;
    line->out[line->used] = 0;
}

static void put(struct line *line, const char *text) {
    put_bytes(line, text, strlen(text));
}

static void put_str(struct line *line, uintptr_t text) {
    char own[NAME_MAX_];
    put_bytes(line, own, ls_python_utf8(text, own, sizeof own));
}

static void put_number(struct line *line, const char *form, long long value) {
    char own[32];
    snprintf(own, sizeof own, form, value);
    put(line, own);
}

/* ---- names of types ---- */

static const char *short_name(uintptr_t type) {
    const char *name = (const char *)ls_python_word(type, LS_TYPE_NAME);
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

static size_t full_name(uintptr_t type, char *out, size_t room) {
    struct line line = {.out = out, .room = room};
    uintptr_t dict = ls_python_word(type, LS_TYPE_DICT);
    void *module = dict && ls_python_type_flags(type) & LS_TYPE_HEAP
                       ? ls_py.PyDict_GetItemString((void *)dict, "__module__")
                       : NULL;
    if (module && ls_python_is_str((uintptr_t)module)) {
        char own[128];
        put_bytes(&line, own, ls_python_utf8((uintptr_t)module, own, sizeof own));
        put(&line, ".");
    }
    put(&line, (const char *)ls_python_word(type, LS_TYPE_NAME));
    return line.used;
}

const char *ls_census_type_name(struct ls_census *c, uintptr_t type) {
    struct ls_census_type *found = ls_census_type(c, type);
    if (!found->text) {
        char name[256];
        size_t size = full_name(type, name, sizeof name) + 1;
        uint32_t at = ls_census_room(c, size);
        if (!at)
            return "";
        memcpy(c->text + at, name, size);
        found->text = at;
    }
    return c->text + found->text;
}

/* That a tensor is the key of a dict says little of it. */
static bool is_poor(const struct ls_census_edge *edge) {
    return edge->kind == LS_EDGE_KEY_ITSELF;
}

static const struct ls_census_edge *best_edge(const struct ls_census_tensor *tensor) {
    for (uint32_t i = 0; i < tensor->paths && i < LS_EDGES_KEPT; i++)
        if (!is_poor(&tensor->edge[i]))
            return &tensor->edge[i];
    return &tensor->edge[0];
}

/* ---- steps ---- */

/* What the names that follow belong to. */
enum form {
    VALUE,      /* an object: `.name`, `[index]` */
    NAMES,      /* variables: a name by itself */
    ATTRIBUTES, /* an object's dict: `.name` */
    FOLDED,     /* one of an nn.Module's dicts: `.name` */
    CLOSURE,    /* a function's tuple of cells */
};

struct path {
    struct ls_census *c;
    struct line line;
    enum form form;
    unsigned nested;
    uintptr_t owner;   /* ATTRIBUTES: whose; CLOSURE: the function */
    bool of_exception; /* the exception was named: its traceback's frames follow */
};

/* A tensor as the key of a dict: by its own path. */
static void put_tensor(struct path *path, const struct ls_census_tensor *tensor, uintptr_t key) {
    char own[PATH_MAX_] = "Tensor";
    if (tensor->texts)
        put(&path->line, path->c->text + tensor->text);
    else if (path->nested < NESTED_MAX && tensor->paths)
        ls_census_path(path->c, best_edge(tensor), key, own, sizeof own);
    if (!tensor->texts)
        put(&path->line, own);
}

static void put_key(struct path *path, uintptr_t key) {
    struct line *line = &path->line;
    uintptr_t type = ls_python_type(key);
    if (ls_python_is_str(key)) {
        put(line, "['");
        put_str(line, key);
        put(line, "']");
    } else if (type == (uintptr_t)ls_py.PyLong_Type) {
        long long value = ls_py.PyLong_AsLongLong((void *)key);
        if (value == -1 && ls_py.PyErr_Occurred())
            ls_py.PyErr_Clear();
        put_number(line, "[%lld]", value);
    } else {
        uint32_t tensor = ls_census_find_tensor(path->c, key);
        put(line, "[");
        if (tensor != LS_CENSUS_NONE)
            put_tensor(path, &path->c->tensor[tensor], key);
        else
            put(line, short_name(type));
        put(line, "]");
    }
}

static bool is_word(uintptr_t name, const char *word) {
    char own[NAME_MAX_];
    ls_python_utf8(name, own, sizeof own);
    return strcmp(own, word) == 0;
}

/* An attribute or variable. */
static void put_name(struct path *path, uintptr_t name) {
    if (path->form == ATTRIBUTES && path->owner &&
        ls_census_traits(path->c, path->owner) & LS_TRAIT_NN_MODULE &&
        (is_word(name, "_modules") || is_word(name, "_parameters") || is_word(name, "_buffers"))) {
        path->form = FOLDED;
        return;
    }
    if (path->form != NAMES)
        put(&path->line, ".");
    put_str(&path->line, name);
    path->form = VALUE;
}

/* " at train.py:30 step: " */
static void put_place(struct path *path, uintptr_t code, uint32_t line) {
    char file[512];
    ls_python_utf8(ls_python_word(code, ls_python.layout.file), file, sizeof file);
    const char *slash = strrchr(file, '/');
    put(&path->line, slash ? slash + 1 : file);
    put_number(&path->line, ":%lld ", line);
    put_str(&path->line, ls_python_word(code, ls_python.layout.name));
    put(&path->line, ": ");
    path->form = NAMES;
}

static void put_closure(struct path *path, uint64_t index) {
    void *code = ls_py.PyFunction_GetCode((void *)path->owner);
    void *names = code ? ls_py.PyObject_GetAttrString(code, "co_freevars") : NULL;
    void *name = names ? ls_py.PyTuple_GetItem(names, (long)index) : NULL;
    put(&path->line, ".<closure ");
    if (name)
        put_str(&path->line, (uintptr_t)name);
    put(&path->line, ">");
    if (names)
        ls_py.Py_DecRef(names);
    if (ls_py.PyErr_Occurred())
        ls_py.PyErr_Clear();
    path->form = VALUE;
}

static void put_raised(struct path *path, uintptr_t exception) {
    if (path->line.used)
        put(&path->line, ": ");
    put(&path->line, "exception ");
    put(&path->line, short_name(ls_python_type(exception)));
    path->of_exception = true;
    path->form = VALUE;
}

static void put_traced(struct path *path, uintptr_t traceback) {
    uintptr_t object = ls_python_word(traceback, LS_TRACEBACK_FRAME);
    uintptr_t frame = ls_python_frame_of_object(object);
    if (!frame)
        return;
    uintptr_t code = ls_python_frame_code(frame);
    put(&path->line, " at ");
    put_place(path, code, ls_python_line_at(code, ls_python_int(traceback, LS_TRACEBACK_AT)));
}

/* A reference that has no name of its own. */
static void put_other(struct path *path, uintptr_t parent, uintptr_t child, uint64_t count) {
    struct line *line = &path->line;
    uint32_t traits = ls_census_traits(path->c, parent);
    uint32_t of_child = ls_census_traits(path->c, child);
    uintptr_t type = ls_python_type(parent);
    if (type == (uintptr_t)ls_py.PyCell_Type)
        return;
    if (type == (uintptr_t)ls_py.PyFunction_Type &&
        ls_py.PyFunction_GetClosure((void *)parent) == (void *)child) {
        path->form = CLOSURE;
        path->owner = parent;
        return;
    }
    if (traits & LS_TRAIT_GENERATOR && of_child & LS_TRAIT_FRAME)
        return;
    if (traits & LS_TRAIT_TRACEBACK) {
        if (!(of_child & LS_TRAIT_TRACEBACK))
            put_traced(path, parent);
        return;
    }
    if (of_child & LS_TRAIT_TRACEBACK && traits & LS_TRAIT_EXCEPTION) {
        if (!path->of_exception)
            put_raised(path, parent);
        return;
    }
    path->form = VALUE;
    const char *slot = ls_python_slot_name(parent, child);
    if (slot) {
        put(line, ".");
        put(line, slot);
    } else if (traits & LS_TRAIT_EXCEPTION && of_child & LS_TRAIT_EXCEPTION) {
        path->of_exception = false;
        put(line, ".<context>");
    } else if (type == (uintptr_t)ls_py.PyFunction_Type) {
        put(line, of_child & LS_TRAIT_TUPLE ? ".__defaults__" : ".__kwdefaults__");
    } else if (strcmp(short_name(type), "deque") == 0) {
        put_number(line, "[%lld]", (long long)count);
    } else if (type == (uintptr_t)ls_py.PySet_Type || type == (uintptr_t)ls_py.PyFrozenSet_Type) {
        put(line, "{}");
    } else {
        put(line, ".<");
        put(line, short_name(of_child ? ls_python_type(child) : type));
        put(line, ">");
    }
}

/* An item of a list or tuple; of a named tuple, by its name. */
static void put_index(struct path *path, uintptr_t parent, uint64_t index) {
    uintptr_t type = ls_python_type(parent);
    uintptr_t dict = ls_python_word(type, LS_TYPE_DICT);
    void *fields = NULL, *name = NULL;
    if ((ls_census_traits(path->c, parent) & (LS_TRAIT_TUPLE | LS_TRAIT_PLAIN)) == LS_TRAIT_TUPLE &&
        dict)
        fields = ls_py.PyDict_GetItemString((void *)dict, "_fields");
    if (fields && ls_python_type((uintptr_t)fields) == (uintptr_t)ls_py.PyTuple_Type &&
        (long)index < ls_py.PyTuple_Size(fields))
        name = ls_py.PyTuple_GetItem(fields, (long)index);
    if (name && ls_python_is_str((uintptr_t)name)) {
        put(&path->line, ".");
        put_str(&path->line, (uintptr_t)name);
    } else {
        put_number(&path->line, "[%lld]", (long long)index);
    }
}

static void put_step(struct path *path, uintptr_t parent, const struct ls_census_edge *edge,
                     uintptr_t child) {
    switch (edge->kind) {
    case LS_EDGE_ATTRIBUTES:
        path->form = path->form == NAMES ? NAMES : ATTRIBUTES;
        path->owner = parent;
        break;
    case LS_EDGE_KEY:
        if (path->form != VALUE && ls_python_is_str((uintptr_t)edge->label)) {
            put_name(path, (uintptr_t)edge->label);
        } else {
            put_key(path, (uintptr_t)edge->label);
            path->form = VALUE;
        }
        break;
    case LS_EDGE_KEY_ITSELF:
        put(&path->line, ".<key>");
        path->form = VALUE;
        break;
    case LS_EDGE_ATTRIBUTE:
        path->form = ATTRIBUTES;
        path->owner = parent;
        put_name(path, (uintptr_t)edge->label);
        break;
    case LS_EDGE_INDEX:
        if (path->form == CLOSURE)
            put_closure(path, edge->label);
        else
            put_index(path, parent, edge->label);
        break;
    case LS_EDGE_LOCAL:
        if (path->form == NAMES) {
            put_str(&path->line, (uintptr_t)edge->label);
        } else {
            put(&path->line, ".<local ");
            put_str(&path->line, (uintptr_t)edge->label);
            put(&path->line, ">");
        }
        path->form = VALUE;
        break;
    case LS_EDGE_TEMPORARY:
        put(&path->line, "<temporary>");
        path->form = VALUE;
        break;
    case LS_EDGE_CLASS:
        put(&path->line, ".__class__");
        path->form = VALUE;
        break;
    default:
        put_other(path, parent, child, edge->label);
    }
}

static void put_root(struct path *path, const struct ls_census_node *root) {
    path->form = VALUE;
    switch (root->kind) {
    case LS_EDGE_ROOT_MAIN:
        path->form = NAMES;
        break;
    case LS_EDGE_ROOT_MODULE:
        if (root->label)
            put_str(&path->line, (uintptr_t)root->label);
        path->form = ATTRIBUTES;
        path->owner = 0;
        break;
    case LS_EDGE_ROOT_FRAME:
        put_place(path, ls_python_frame_code(root->object), ls_python_frame_line(root->object));
        break;
    case LS_EDGE_ROOT_RAISED:
        put_raised(path, root->object);
        break;
    case LS_EDGE_ROOT_GRAPH:
        put(&path->line, path->c->text + root->label);
        break;
    case LS_EDGE_ROOT_LOST:
        put(&path->line, "unreachable ");
        put(&path->line, short_name(ls_python_type(root->object)));
        break;
    default:
        put(&path->line, "outside of Python: ");
        put(&path->line, short_name(ls_python_type(root->object)));
    }
}

size_t ls_census_path(struct ls_census *c, const struct ls_census_edge *edge, uintptr_t child,
                      char *out, size_t room) {
    static unsigned nested; /* one census at a time */
    struct path path = {.c = c, .line = {.out = out, .room = room}, .nested = nested};
    uint32_t chain[DEPTH_MAX], depth = 0;
    uint32_t root = edge->parent;
    out[0] = 0;
    if (root == LS_CENSUS_NONE) {
        put_root(&path, &c->node[ls_census_find(c, child)]);
        return path.line.used;
    }
    if (root < c->settled)
        return 0;
    for (uint32_t i = edge->parent; i != LS_CENSUS_NONE; i = c->node[i].parent) {
        if (depth < DEPTH_MAX)
            chain[depth++] = i;
        root = i;
    }
    nested++;
    put_root(&path, &c->node[root]);
    if (chain[depth - 1] != root)
        put(&path.line, "...");
    for (uint32_t i = depth - 1; i > 0; i--) {
        const struct ls_census_node *node = &c->node[chain[i - 1]];
        struct ls_census_edge step = {.label = node->label, .parent = chain[i], .kind = node->kind};
        if (ls_census_traits(c, node->object) & LS_TRAIT_TENSOR)
            step = *best_edge(&c->tensor[node->label]);
        if (step.parent != LS_CENSUS_NONE && step.parent < c->settled)
            put(&path.line, "...");
        else
            put_step(&path, c->node[chain[i]].object, &step, node->object);
    }
    put_step(&path, c->node[edge->parent].object, edge, child);
    nested--;
    return path.line.used;
}

/* ---- all of them ---- */

struct told {
    size_t rank, size;
    char text[PATH_MAX_];
};

/* The shortest first: the order of what is to be written down. */
static void sort(const struct told *told, uint32_t *order, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t j = i;
        for (; j > 0 && told[order[j - 1]].rank > told[i].rank; j--)
            order[j] = order[j - 1];
        order[j] = i;
    }
}

void ls_census_paths(struct ls_census *c, uint32_t first, uint32_t end) {
    struct told told[LS_EDGES_KEPT];
    uint32_t order[LS_EDGES_KEPT];
    for (uint32_t i = first; i < end; i++) {
        struct ls_census_tensor *tensor = &c->tensor[i];
        uint32_t count = tensor->paths < LS_EDGES_KEPT ? tensor->paths : LS_EDGES_KEPT;
        uint32_t edges = count;
        size_t all = 0;
        if (tensor->texts || ls_census_late(c))
            continue;
        count = 0;
        for (uint32_t k = 0; k < edges; k++) {
            struct told *one = &told[count];
            one->size = 1 + ls_census_path(c, &tensor->edge[k], tensor->object, one->text,
                                           sizeof one->text);
            if (one->size == 1)
                continue; /* nobody can tell any more */
            one->rank = one->size + (is_poor(&tensor->edge[k]) ? sizeof one->text : 0);
            all += one->size;
            count++;
        }
        if (count == 0)
            continue;
        sort(told, order, count);
        if (!(tensor->text = ls_census_room(c, all)))
            continue;
        char *at = c->text + tensor->text;
        for (uint32_t k = 0; k < count; k++) {
            memcpy(at, told[order[k]].text, told[order[k]].size);
            at += told[order[k]].size;
        }
        tensor->texts = count;
    }
}
