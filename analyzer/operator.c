/*
 * operator.c - see operator.h. No state; any thread.
 *
 * Of PyTorch's C++ names only those are read that tell an operator for certain: not the kernels
 * that are registered for it (wrapper_CUDA__softmax may be _softmax's or softmax's).
 */
#include "operator.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

static const char *const overload_start[] = {
#define OVERLOAD(words) words,
#define WORD(word)
#define KEEP(pattern)
#include "operator_words.def"
};

static const char *const overload_word[] = {
#define OVERLOAD(words)
#define WORD(word) word,
#define KEEP(pattern)
#include "operator_words.def"
};

static const char *const kept[] = {
#define OVERLOAD(words)
#define WORD(word)
#define KEEP(pattern) pattern,
#include "operator_words.def"
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static size_t identifier_size(const char *text) {
    size_t size = 0;
    while (isalnum((unsigned char)text[size]) || text[size] == '_')
        size++;
    return size;
}

/* ---- an operator's name and its overload's ---- */

static bool starts_with(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

/* Whether `text` is `words`, or goes on with a '_' after them. */
static bool begins_with_words(const char *text, const char *words) {
    size_t size = strlen(words);
    return strncmp(text, words, size) == 0 && (text[size] == 0 || text[size] == '_');
}

/* Whether `word`, of `size` bytes, is one of the words of `phrase`. */
static bool is_word_of(const char *phrase, const char *word, size_t size) {
    for (const char *p = phrase; p; p = strchr(p, '_')) {
        p += *p == '_';
        if (strcspn(p, "_") == size && memcmp(p, word, size) == 0)
            return true;
    }
    return false;
}

static bool is_overload_word(const char *word, size_t size) {
    if (isupper((unsigned char)word[0]))
        return true;
    for (size_t i = 0; i < COUNT(overload_start); i++)
        if (is_word_of(overload_start[i], word, size))
            return true;
    for (size_t i = 0; i < COUNT(overload_word); i++)
        if (is_word_of(overload_word[i], word, size))
            return true;
    return false;
}

static bool starts_overload(const char *text) {
    if (isupper((unsigned char)text[0]))
        return true;
    for (size_t i = 0; i < COUNT(overload_start); i++)
        if (begins_with_words(text, overload_start[i]))
            return true;
    return false;
}

static bool is_kept(const char *name, size_t size) {
    char start[LS_OPERATOR_MAX];
    snprintf(start, sizeof start, "%.*s", (int)size, name);
    for (size_t i = 0; i < COUNT(kept); i++)
        if (fnmatch(kept[i], start, 0) == 0)
            return true;
    return false;
}

/* Where the overload's name begins in "max_dim", or NULL: the longest tail that can be one. */
static char *find_overload(char *name) {
    char *found = NULL, *end = name + strlen(name);
    while (end > name) {
        while (end > name && end[-1] == '_')
            end--;
        char *word = end;
        while (word > name && word[-1] != '_')
            word--;
        if (word == end || word == name || strspn(name, "_") == (size_t)(word - name) ||
            !is_overload_word(word, (size_t)(end - word)) || is_kept(name, (size_t)(end - name)))
            break;
        if (starts_overload(word))
            found = word;
        end = word;
    }
    return found;
}

static void put_aten(const char *name, const char *overload, char *out, size_t size) {
    snprintf(out, size, "aten::%s%s%s", name, overload[0] ? "." : "", overload);
}

static bool copy_identifier(const char *text, char *name, size_t size) {
    size_t length = identifier_size(text);
    snprintf(name, size, "%.*s", (int)length, text);
    return length > 0;
}

/* ---- which function is an operator's ---- */

/* "at::_ops::NAME_OVERLOAD::call(...)" and "::redispatch(...)". */
static bool entry_name(const char *function, char *out, size_t size) {
    static const char space[] = "at::_ops::";
    char name[LS_OPERATOR_MAX];
    if (!starts_with(function, space))
        return false;
    function += sizeof space - 1;
    const char *rest = function + identifier_size(function);
    if ((!starts_with(rest, "::call(") && !starts_with(rest, "::redispatch(")) ||
        !copy_identifier(function, name, sizeof name))
        return false;
    char *overload = find_overload(name);
    if (overload)
        overload[-1] = 0;
    put_aten(name, overload ? overload : "", out, size);
    return true;
}

/* "torch::autograd::VariableType::(anonymous namespace)::NAME_OVERLOAD(...)", and
 * ADInplaceOrView's; an operator that writes into its argument is NAME_out there. */
static bool autograd_name(const char *function, char *out, size_t size) {
    static const char *const space[] = {
        "torch::autograd::VariableType::(anonymous namespace)::",
        "torch::ADInplaceOrView::(anonymous namespace)::",
    };
    char name[LS_OPERATOR_MAX];
    for (size_t i = 0; i < COUNT(space); i++) {
        const char *at = strstr(function, space[i]);
        if (!at || !copy_identifier(at + strlen(space[i]), name, sizeof name) ||
            at[strlen(space[i]) + strlen(name)] != '(')
            continue;
        char *overload = find_overload(name);
        if (overload)
            overload[-1] = 0;
        if (overload && starts_with(overload, "out_"))
            overload += strlen("out_");
        put_aten(name, overload ? overload : "", out, size);
        return true;
    }
    return false;
}

bool ls_operator_name(const char *function, char *name, size_t size) {
    return entry_name(function, name, size) || autograd_name(function, name, size);
}

/* A function that NVIDIA's libraries show their callers. */
static bool nvidia_name(const char *function, char *name, size_t size) {
    static const char *const start[] = {"cublasLt",   "cublas",   "cudnn",    "nccl",  "cufft",
                                        "cusparseLt", "cusparse", "cusolver", "curand"};
    for (size_t i = 0; i < COUNT(start); i++) {
        const char *rest = function + strlen(start[i]);
        if (starts_with(function, start[i]) && isupper((unsigned char)*rest) &&
            rest[identifier_size(rest)] == 0) {
            snprintf(name, size, "%s", function);
            return true;
        }
    }
    return false;
}

static bool first_and_last(const struct ls_site_frame *frame, int count,
                           struct ls_operators *operators,
                           bool (*named)(const char *function, char *name, size_t size)) {
    char name[LS_OPERATOR_MAX];
    for (int i = 0; i < count; i++) {
        if (frame[i].python || !frame[i].function || !named(frame[i].function, name, sizeof name))
            continue;
        if (!operators->inner[0])
            memcpy(operators->inner, name, sizeof name);
        memcpy(operators->outer, name, sizeof name);
    }
    return operators->outer[0];
}

bool ls_operators_of(const struct ls_site_frame *frame, int count, struct ls_operators *operators) {
    operators->outer[0] = operators->inner[0] = 0;
    return first_and_last(frame, count, operators, ls_operator_name) ||
           first_and_last(frame, count, operators, nvidia_name);
}

/* ---- backward passes ---- */

/* "MaxPool2DWithIndices" -> "max_pool2d_with_indices". */
static void to_snake(const char *name, size_t name_size, char *out, size_t size) {
    size_t n = 0;
    for (size_t i = 0; i < name_size && n + 2 < size; i++) {
        unsigned char c = (unsigned char)name[i];
        if (isupper(c) && i > 0 && !isdigit((unsigned char)name[i - 1]) && name[i - 1] != '_')
            out[n++] = '_';
        out[n++] = (char)tolower(c);
    }
    out[n] = 0;
}

/* The class of a generated node without its "Backward0"; 0 where it is none. */
static size_t node_size(const char *name) {
    static const char end[] = "Backward";
    size_t size = identifier_size(name), found = 0;
    for (size_t i = 1; i + sizeof end - 1 <= size; i++) {
        size_t digit = i + sizeof end - 1;
        if (strncmp(name + i, end, sizeof end - 1) == 0 &&
            (digit == size || !islower((unsigned char)name[digit])))
            found = i;
    }
    return found;
}

/* A node of the graph, by the function that runs it. */
static bool node_text(const char *function, char *text, size_t size) {
    static const char generated[] = "torch::autograd::generated::", own[] = "torch::autograd::",
                      cpp[] = "torch::autograd::CppNode<";
    char name[LS_OPERATOR_MAX];
    if (starts_with(function, generated)) {
        const char *class = function + sizeof generated - 1;
        size_t class_size = node_size(class);
        if (class_size == 0)
            return false;
        to_snake(class, class_size, name, sizeof name);
        snprintf(text, size, "backward of %s", name);
        return true;
    }
    if (starts_with(function, cpp)) {
        const char *class = function + sizeof cpp - 1;
        snprintf(text, size, "backward of %.*s", (int)strcspn(class, "<>, "), class);
        return true;
    }
    if (!starts_with(function, own))
        return false;
    const char *class = function + sizeof own - 1;
    if (starts_with(class, "AccumulateGrad::"))
        snprintf(text, size, "backward: accumulate gradient");
    else if (starts_with(class, "InputBuffer::"))
        snprintf(text, size, "backward: sum of gradients");
    else if (starts_with(class, "CopySlices::"))
        snprintf(text, size, "backward of a write into a view");
    else if (starts_with(class, "CopyBackwards::"))
        snprintf(text, size, "backward of copy");
    else if (starts_with(class, "PyNode::"))
        snprintf(text, size, "backward of a Python function");
    else
        return false;
    return true;
}

/* Frames of a forward operation are outside of all others. */
static int first_forward(const struct ls_site_frame *frame, int count) {
    int i = 0;
    while (i < count && !frame[i].forward)
        i++;
    return i;
}

/* PyTorch's threads enter Python for a node that is written in it, and there alone. */
static bool python_node_text(const struct ls_site_frame *outermost, char *text, size_t size) {
    if (!outermost->file || !outermost->function || strcmp(outermost->function, "apply") != 0 ||
        fnmatch("*/torch/autograd/function.py", outermost->file, 0) != 0)
        return false;
    snprintf(text, size, "backward of a Python function");
    return true;
}

bool ls_backward_text(const struct ls_site_frame *frame, int count, char *text, size_t size) {
    bool engine = false;
    int callers = first_forward(frame, count);
    if (callers > 0 && frame[callers - 1].python)
        return python_node_text(&frame[callers - 1], text, size);
    for (int i = 0; i < count; i++) {
        const char *function = frame[i].function;
        if (!function)
            continue;
        if (node_text(function, text, size))
            return true;
        engine |= starts_with(function, "torch::autograd::Engine::");
    }
    if (engine)
        snprintf(text, size, "backward");
    return engine;
}
