/*
 * census_tensor.c - see census_tensor.h. The census's pending call.
 */
#include "census_tensor.h"

#include <stdio.h>
#include <string.h>

enum { UNTIL_TENSORS = 1650 }; /* ms after the beginning */

/* ---- PyTorch ---- */

static void *variables_of(const char *name) {
    void *module = ls_py.PyDict_GetItemString(ls_py.PyImport_GetModuleDict(), name);
    return module ? ls_py.PyModule_GetDict(module) : NULL;
}

static void *of_class(void *type, const char *name) {
    void *dict = type ? (void *)ls_python_word((uintptr_t)type, LS_TYPE_DICT) : NULL;
    return dict ? ls_py.PyDict_GetItemString(dict, name) : NULL;
}

static bool find_descriptors(struct ls_torch *torch, void *storage) {
    const struct {
        void **where;
        void *type;
        const char *name;
    } wanted[] = {
        {&torch->is_cuda, (void *)torch->tensor, "is_cuda"},
        {&torch->get_device, (void *)torch->tensor, "get_device"},
        {&torch->storage, (void *)torch->tensor, "untyped_storage"},
        {&torch->shape, (void *)torch->tensor, "shape"},
        {&torch->stride, (void *)torch->tensor, "stride"},
        {&torch->offset, (void *)torch->tensor, "storage_offset"},
        {&torch->dtype, (void *)torch->tensor, "dtype"},
        {&torch->element_size, (void *)torch->tensor, "element_size"},
        {&torch->requires_grad, (void *)torch->tensor, "requires_grad"},
        {&torch->is_view, (void *)torch->tensor, "_is_view"},
        {&torch->is_leaf, (void *)torch->tensor, "is_leaf"},
        {&torch->retains_grad, (void *)torch->tensor, "retains_grad"},
        {&torch->grad, (void *)torch->tensor, "grad"},
        {&torch->grad_fn, (void *)torch->tensor, "grad_fn"},
        {&torch->storage_size, storage, "nbytes"},
        {&torch->storage_address, storage, "data_ptr"},
    };
    for (unsigned i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!(*wanted[i].where = of_class(wanted[i].type, wanted[i].name)))
            return false;
    return true;
}

/*
 * Until 2.10 the object of a tensor that only C++ holds does not own it: the tensor may be on its
 * way out, in a thread that waits for the GIL.
 */
static bool owns_tensors(void) {
    void *variables = variables_of("torch"), *version = NULL;
    unsigned major = 0, minor = 0;
    char text[32] = "";
    if (variables)
        version = ls_py.PyDict_GetItemString(variables, "__version__");
    if (version && ls_python_is_str((uintptr_t)version))
        ls_python_utf8((uintptr_t)version, text, sizeof text);
    return sscanf(text, "%u.%u", &major, &minor) == 2 && (major > 2 || (major == 2 && minor > 10));
}

const char *ls_torch_find(struct ls_torch *torch) {
    *torch = (struct ls_torch){.module = variables_of("torch._C")};
    ls_py.PyErr_Clear();
    if (!torch->module)
        return "PyTorch is not loaded in this process";
    torch->tensor = (uintptr_t)ls_py.PyDict_GetItemString(torch->module, "TensorBase");
    if (!torch->tensor) /* its name until 2.0 */
        torch->tensor = (uintptr_t)ls_py.PyDict_GetItemString(torch->module, "_TensorBase");
    void *storage = ls_py.PyDict_GetItemString(torch->module, "StorageBase");
    if (!torch->tensor || !find_descriptors(torch, storage))
        return "this version of PyTorch is not known: its tensors lack what is asked of them";
    torch->no_dispatch =
        (uintptr_t)ls_py.PyDict_GetItemString(torch->module, "_disabled_torch_dispatch_impl");
    torch->owning = owns_tensors();
    void *graph = variables_of("torch.autograd.graph");
    torch->one_way_to_engine = graph && ls_py.PyDict_GetItemString(graph, "_engine_run_backward");
    torch->data_address = ls_py.PyDict_GetItemString(torch->module, "_data_address");
    void *modules = variables_of("torch.nn.modules.module");
    torch->nn_module = modules ? (uintptr_t)ls_py.PyDict_GetItemString(modules, "Module") : 0;
    return NULL;
}

static void *call_method(void *object, const char *name, bool with_nothing) {
    void *method = ls_py.PyObject_GetAttrString(object, name), *none = ls_py._Py_NoneStruct;
    void *result = NULL;
    if (method)
        result = with_nothing ? ls_py.PyObject_CallFunctionObjArgs(method, none, none, none, NULL)
                              : ls_py.PyObject_CallFunctionObjArgs(method, NULL);
    if (method)
        ls_py.Py_DecRef(method);
    if (!result)
        ls_py.PyErr_Clear();
    return result;
}

void ls_torch_guard(struct ls_torch *torch) {
    void *type = ls_py.PyDict_GetItemString(torch->module, "DisableTorchFunction");
    torch->guard = type ? ls_py.PyObject_CallFunctionObjArgs(type, NULL) : NULL;
    void *result = torch->guard ? call_method(torch->guard, "__enter__", false) : NULL;
    if (result)
        ls_py.Py_DecRef(result);
    else
        ls_py.PyErr_Clear();
}

void ls_torch_unguard(struct ls_torch *torch) {
    if (!torch->guard)
        return;
    void *result = call_method(torch->guard, "__exit__", true);
    if (result)
        ls_py.Py_DecRef(result);
    ls_py.Py_DecRef(torch->guard);
    torch->guard = NULL;
}

void *ls_torch_get(void *descriptor, void *object) {
    uintptr_t type = ls_python_type((uintptr_t)descriptor);
    void *(*get)(void *, void *, void *) =
        (void *(*)(void *, void *, void *))ls_python_word(type, LS_TYPE_DESCR_GET);
    void *result = get ? get(descriptor, object, (void *)ls_python_type((uintptr_t)object)) : NULL;
    if (!result)
        ls_py.PyErr_Clear();
    return result;
}

void *ls_torch_call(void *descriptor, void *object) {
    void *result = ls_py.PyObject_CallFunctionObjArgs(descriptor, object, NULL);
    if (!result)
        ls_py.PyErr_Clear();
    return result;
}

/* ---- answers ---- */

/* Each releases the object, which may be NULL: then nothing was said. */
static bool is_true(void *object) {
    bool yes = object == ls_py._Py_TrueStruct;
    if (object)
        ls_py.Py_DecRef(object);
    return yes;
}

static bool number(void *object, int64_t *value) {
    bool good = object && ls_python_type((uintptr_t)object) == (uintptr_t)ls_py.PyLong_Type;
    *value = good ? ls_py.PyLong_AsLongLong(object) : 0;
    if (*value == -1 && ls_py.PyErr_Occurred()) {
        ls_py.PyErr_Clear();
        good = false;
    }
    if (object)
        ls_py.Py_DecRef(object);
    return good;
}

/* An address of the host's may be beyond a signed number. */
static uint64_t address(void *object) {
    uint64_t value = 0;
    if (object && ls_python_type((uintptr_t)object) == (uintptr_t)ls_py.PyLong_Type)
        value = (uintptr_t)ls_py.PyLong_AsVoidPtr(object);
    if (!value && ls_py.PyErr_Occurred())
        ls_py.PyErr_Clear();
    if (object)
        ls_py.Py_DecRef(object);
    return value;
}

/* The numbers of a tuple; how many there are, -1: what it has is something else (symbols). */
static int numbers(void *tuple, int64_t *value, int room) {
    int count = -1;
    if (tuple && ls_python_type_flags(ls_python_type((uintptr_t)tuple)) & LS_TYPE_IS_TUPLE)
        count = (int)ls_py.PyTuple_Size(tuple);
    for (int i = 0; i < count && i < room; i++) {
        void *item = ls_py.PyTuple_GetItem(tuple, i);
        ls_py.Py_IncRef(item);
        if (!number(item, &value[i]))
            count = -1;
    }
    if (tuple)
        ls_py.Py_DecRef(tuple);
    return count;
}

/* The place of a dtype among the known ones; -1: no room, or it does not say. */
static int type_of(struct ls_torch *torch, void *tensor) {
    void *dtype = ls_torch_get(torch->dtype, tensor);
    if (dtype)
        ls_py.Py_DecRef(dtype); /* PyTorch keeps them for ever */
    for (unsigned i = 0; i < torch->known_types; i++)
        if (torch->types[i].dtype == dtype)
            return (int)i;
    int64_t size;
    if (!dtype || torch->known_types == LS_TORCH_TYPES ||
        !number(ls_torch_call(torch->element_size, tensor), &size))
        return -1;
    void *text = ls_py.PyObject_Str(dtype); /* "torch.float16" */
    void *bytes = text ? ls_py.PyUnicode_AsUTF8String(text) : NULL;
    const char *name = bytes ? ls_py.PyBytes_AsString(bytes) : "";
    const char *dot = strrchr(name, '.');
    unsigned place = torch->known_types++;
    torch->types[place].dtype = dtype;
    torch->types[place].size = (uint32_t)size;
    strncpy(torch->types[place].name, dot ? dot + 1 : name, sizeof torch->types[place].name - 1);
    if (bytes)
        ls_py.Py_DecRef(bytes);
    if (text)
        ls_py.Py_DecRef(text);
    ls_py.PyErr_Clear();
    return (int)place;
}

/* ---- storages ---- */

#define STORAGES_MAX (1u << 16)
#define STORAGE_SLOTS (1u << 17)

static struct ls_census_storage *storage_at(struct ls_census *c, uint64_t at, uint64_t bytes,
                                            uint8_t device, bool *made) {
    uint32_t place = (uint32_t)(((at >> 9) ^ device) * UINT64_C(0x9e3779b97f4a7c15) >> 32);
    uint32_t *slot;
    *made = false;
    for (;; place++) {
        slot = &c->storage_slot[place & (STORAGE_SLOTS - 1)];
        if (!*slot)
            break;
        struct ls_census_storage *found = &c->storage[*slot - 1];
        if (found->address == at && found->device == device)
            return found;
    }
    if (c->storages == STORAGES_MAX) {
        c->cut = "there are more storages than it has memory for";
        return NULL;
    }
    struct ls_census_storage *storage = &c->storage[c->storages++];
    *slot = c->storages;
    *storage = (struct ls_census_storage){.address = at,
                                          .bytes = bytes,
                                          .first = LS_CENSUS_NONE,
                                          .last = LS_CENSUS_NONE,
                                          .device = device};
    *made = true;
    return storage;
}

struct ls_census_storage *ls_census_storage(struct ls_census *c, void *tensor, bool *made) {
    struct ls_torch *torch = c->torch;
    int64_t device, bytes;
    *made = false;
    if (ls_census_traits(c, (uintptr_t)tensor) & LS_TRAIT_WRAPPER ||
        !is_true(ls_torch_get(torch->is_cuda, tensor)) ||
        !number(ls_torch_call(torch->get_device, tensor), &device) || device < 0)
        return NULL;
    void *storage = ls_torch_call(torch->storage, tensor);
    if (!storage)
        return NULL;
    bool sized = number(ls_torch_call(torch->storage_size, storage), &bytes);
    /* data_ptr() would make a copy-on-write storage real. */
    uint64_t at = address(torch->data_address ? ls_torch_call(torch->data_address, tensor)
                                              : ls_torch_call(torch->storage_address, storage));
    ls_py.Py_DecRef(storage);
    if (!sized || bytes <= 0 || !at)
        return NULL;
    return storage_at(c, at, (uint64_t)bytes, (uint8_t)device, made);
}

static void put_in(struct ls_census *c, struct ls_census_storage *storage, uint32_t tensor) {
    if (storage->last == LS_CENSUS_NONE)
        storage->first = tensor;
    else
        c->tensor[storage->last].next = tensor;
    storage->last = tensor;
    storage->reached |= ls_census_is_held(&c->tensor[tensor]);
}

struct ls_census_storage *ls_census_storage_of(struct ls_census *c, uint32_t tensor) {
    const struct ls_tensor_facts *facts = (const void *)(c->text + c->tensor[tensor].facts);
    return c->tensor[tensor].facts ? &c->storage[facts->storage - 1] : NULL;
}

/* ---- facts ---- */

static bool is_contiguous(const int64_t *shape, const int64_t *stride, int dims) {
    int64_t expected = 1;
    for (int i = dims - 1; i >= 0; i--) {
        if (shape[i] == 0)
            return true;
        if (shape[i] != 1 && stride[i] != expected)
            return false;
        expected *= shape[i];
    }
    return true;
}

static bool put_facts(struct ls_census *c, uint32_t tensor, void *object, bool *made) {
    struct ls_torch *torch = c->torch;
    int64_t shape[64], stride[64], offset;
    int dims = numbers(ls_torch_get(torch->shape, object), shape, 64);
    int type = type_of(torch, object);
    if (dims < 0 || dims > 64 || type < 0 ||
        numbers(ls_torch_call(torch->stride, object), stride, 64) != dims ||
        !number(ls_torch_call(torch->offset, object), &offset))
        return false;
    struct ls_census_storage *storage = ls_census_storage(c, object, made);
    int told = dims < LS_TENSOR_DIMS ? dims : LS_TENSOR_DIMS;
    uint32_t at = storage ? ls_census_room(c, sizeof(struct ls_tensor_facts) +
                                                  2 * (unsigned)told * sizeof(int64_t))
                          : 0;
    if (!at)
        return false;
    struct ls_tensor_facts *facts = (void *)(c->text + at);
    uint64_t elements = 1;
    for (int i = 0; i < dims; i++)
        elements *= (uint64_t)shape[i];
    *facts = (struct ls_tensor_facts){
        .storage = (uint32_t)(storage - c->storage) + 1,
        .dims = (uint32_t)told,
        .offset = (uint64_t)offset,
        .bytes = elements * torch->types[type].size,
        .type = (uint32_t)type,
        .name = (uint32_t)(ls_census_type_name(c, ls_python_type((uintptr_t)object)) - c->text),
    };
    memcpy(facts->shape, shape, (unsigned)told * sizeof(int64_t));
    memcpy(facts->shape + told, stride, (unsigned)told * sizeof(int64_t));
    struct ls_census_tensor *to = &c->tensor[tensor];
    if (is_contiguous(shape, stride, dims))
        to->flags |= LS_TENSOR_CONTIGUOUS;
    if (is_true(ls_torch_get(torch->requires_grad, object)))
        to->flags |= LS_TENSOR_REQUIRES_GRAD;
    if (is_true(ls_torch_call(torch->is_view, object)) || facts->bytes < storage->bytes)
        to->flags |= LS_TENSOR_VIEW;
    to->facts = at;
    put_in(c, storage, tensor);
    return true;
}

bool ls_census_describe(struct ls_census *c, uint32_t tensor, void *object, bool *made) {
    *made = false;
    if (ls_census_traits(c, (uintptr_t)object) & LS_TRAIT_WRAPPER ||
        !is_true(ls_torch_get(c->torch->is_cuda, object)))
        return false;
    c->device_tensors++;
    return put_facts(c, tensor, object, made);
}

/* ---- gradients ---- */

/* One more path, written down already, for a tensor that is known. */
static void add_text(struct ls_census *c, uint32_t tensor, const char *text, uint32_t flags) {
    struct ls_census_tensor *to = &c->tensor[tensor];
    struct ls_census_storage *storage = ls_census_storage_of(c, tensor);
    to->paths++;
    to->flags |= flags;
    if (storage)
        storage->reached |= ls_census_is_held(to);
    if (to->texts >= LS_EDGES_KEPT)
        return;
    const char *old = c->text + to->text;
    size_t had = 0, size = strlen(text) + 1;
    for (uint32_t i = 0; i < to->texts; i++)
        had += strlen(old + had) + 1;
    uint32_t at = ls_census_room(c, had + size);
    if (!at)
        return;
    memcpy(c->text + at, c->text + to->text, had);
    memcpy(c->text + at + had, text, size);
    to->text = at;
    to->texts++;
}

uint32_t ls_census_add_tensor(struct ls_census *c, void *object, const char *text, uint32_t flags) {
    uint32_t tensor = ls_census_find_tensor(c, (uintptr_t)object);
    uint32_t node = ls_census_find(c, (uintptr_t)object);
    if (node == LS_CENSUS_NONE)
        node = ls_census_root(c, (uintptr_t)object, LS_EDGE_ROOT_GRAPH, 0, 0);
    if (node != LS_CENSUS_NONE && tensor == LS_CENSUS_NONE) {
        tensor = c->tensors;
        ls_census_adopt(c, node, LS_EDGE_ROOT_GRAPH, 0);
    }
    if (tensor >= c->tensors)
        return LS_CENSUS_NONE;
    add_text(c, tensor, text, flags);
    return tensor;
}

/* Asking a tensor that is no leaf and keeps none would print a warning. */
static void add_grad(struct ls_census *c, uint32_t tensor) {
    struct ls_torch *torch = c->torch;
    void *object = (void *)c->tensor[tensor].object;
    bool leaf = is_true(ls_torch_get(torch->is_leaf, object));
    if (!leaf)
        c->tensor[tensor].grad_fn = ls_torch_get(torch->grad_fn, object);
    if (!leaf && !is_true(ls_torch_get(torch->retains_grad, object)))
        return;
    void *grad = ls_torch_get(torch->grad, object);
    if (grad && ls_census_traits(c, (uintptr_t)grad) & LS_TRAIT_TENSOR) {
        char text[512];
        const char *path = c->tensor[tensor].texts ? c->text + c->tensor[tensor].text : "<tensor>";
        size_t size = strnlen(path, sizeof text - 8);
        memcpy(text, path, size);
        strcpy(text + size, ".grad");
        const uint32_t ways =
            LS_TENSOR_GLOBAL | LS_TENSOR_LOCAL | LS_TENSOR_RAISED | LS_TENSOR_LOST;
        ls_census_add_tensor(c, grad, text, c->tensor[tensor].flags & ways);
    }
    if (grad)
        ls_py.Py_DecRef(grad);
}

void ls_census_tensors(struct ls_census *c) {
    bool made;
    ls_census_phase(c, UNTIL_TENSORS);
    for (uint32_t i = 0; i < c->tensors && !ls_census_late(c); i++) {
        if (!c->torch->owning && c->tensor[i].paths == 0)
            continue;
        ls_census_describe(c, i, (void *)c->tensor[i].object, &made);
        if (!c->backward && !(ls_census_traits(c, c->tensor[i].object) & LS_TRAIT_WRAPPER))
            add_grad(c, i);
    }
}
