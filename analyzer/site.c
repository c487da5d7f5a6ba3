/*
 * site.c - see site.h. No state; any thread.
 */
#include "site.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "layoutspy/table.h"

enum rule_what {
    RULE_MODULE,
    RULE_FOLDER,
    RULE_FUNCTION,
    RULE_SOURCE,
    RULE_PACKAGE,
    RULE_PYTHON,
    RULE_SCRIPT,
    RULE_STARTER
};

static const struct rule {
    enum rule_what what;
    const char *pattern;
    enum ls_site_level level;
} rules[] = {
#define RULE(WHAT, pattern, LEVEL, reason) {RULE_##WHAT, pattern, LS_SITE_##LEVEL},
#include "site_rules.def"
};

#define RULES (sizeof rules / sizeof rules[0])

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* What `path` is called below the folder that packages are installed in, or NULL. */
static const char *in_packages(const char *path) {
    static const char *const folder[] = {"/site-packages/", "/dist-packages/"};
    const char *found = NULL;
    for (int i = 0; i < 2; i++)
        for (const char *at = path; at && (at = strstr(at, folder[i]));)
            found = at += strlen(folder[i]);
    return found;
}

static bool matches_native(const struct rule *rule, const struct ls_site_frame *frame) {
    const char *package;
    switch (rule->what) {
    case RULE_MODULE:
        return fnmatch(rule->pattern, base_name(frame->module), 0) == 0;
    case RULE_FOLDER:
        return !frame->main_program &&
               strncmp(rule->pattern, frame->module, strlen(rule->pattern)) == 0;
    case RULE_FUNCTION:
        return frame->function && fnmatch(rule->pattern, frame->function, 0) == 0;
    case RULE_SOURCE:
        return frame->file && fnmatch(rule->pattern, frame->file, 0) == 0;
    case RULE_PACKAGE:
        package = in_packages(frame->module);
        return package && fnmatch(rule->pattern, package, 0) == 0;
    case RULE_PYTHON:
        return fnmatch(rule->pattern, frame->module, 0) == 0;
    default:
        return false;
    }
}

static bool matches_python(const struct rule *rule, const struct ls_site_frame *frame) {
    const char *package;
    switch (rule->what) {
    case RULE_PACKAGE:
        package = in_packages(frame->file);
        return package && fnmatch(rule->pattern, package, 0) == 0;
    case RULE_PYTHON:
    case RULE_STARTER:
        return fnmatch(rule->pattern, frame->file, 0) == 0;
    case RULE_SCRIPT:
        return frame->function && strcmp(frame->function, "<module>") == 0 &&
               fnmatch(rule->pattern, frame->file, 0) == 0 && !strchr(base_name(frame->file), '.');
    default:
        return false;
    }
}

static const struct rule *find_rule(const struct ls_site_frame *frame) {
    for (size_t i = 0; i < RULES; i++)
        if (frame->python ? matches_python(&rules[i], frame) : matches_native(&rules[i], frame))
            return &rules[i];
    return NULL;
}

enum ls_site_level ls_site_level(const struct ls_site_frame *frame) {
    /* Code made at run time, by nobody who has a name. */
    if (frame->python ? !frame->file : !frame->module)
        return LS_SITE_NEVER;
    const struct rule *rule = find_rule(frame);
    if (!rule)
        return LS_SITE_USER;
    if (frame->python || (rule->what != RULE_PACKAGE && rule->what != RULE_PYTHON))
        return rule->level;
    /* No module of a package tells as much as the Python that called it. */
    return rule->level == LS_SITE_PACKAGE ? LS_SITE_FRAMEWORK : LS_SITE_INNER;
}

/* Whether a Python frame made up the code that called it. */
static bool is_starter(const struct ls_site_frame *frame) {
    const struct rule *rule = frame->python && frame->file ? find_rule(frame) : NULL;
    return rule && rule->what == RULE_STARTER;
}

/* Whether it is a function of the runtime's or the driver's, by its name: one that is linked in
 * statically lies in the program's own module. */
static bool is_entry(const struct ls_site_frame *frame) {
    if (frame->python || !frame->function || strncmp(frame->function, "cu", 2) != 0)
        return false;
    for (int api = 1; api < LS_API_COUNT; api++)
        if ((ls_api_info[api].lib == LS_LIB_CUDART || ls_api_info[api].lib == LS_LIB_CUDA) &&
            strcmp(ls_api_info[api].name, frame->function) == 0)
            return true;
    return false;
}

/* What is inside of such a function is its own business, wherever it lies. */
static int first_outside(const struct ls_site_frame *frame, int count) {
    int first = 0;
    for (int i = 0; i < count; i++)
        if (is_entry(&frame[i]))
            first = i + 1;
    return first;
}

int ls_site_choose(const struct ls_site_frame *frame, int count) {
    int chosen = -1;
    enum ls_site_level best = LS_SITE_NEVER;
    for (int i = first_outside(frame, count); i < count && best != LS_SITE_USER; i++) {
        enum ls_site_level level = ls_site_level(&frame[i]);
        if (level == LS_SITE_NAMELESS && i > 0 && is_starter(&frame[i - 1]))
            continue;
        if (level > best) {
            best = level;
            chosen = i;
        }
    }
    return chosen;
}

void ls_site_text(const struct ls_site_frame *frame, char *text, size_t size) {
    const char *module = frame->module ? base_name(frame->module) : "??";
    if (frame->file && (frame->line || frame->python))
        snprintf(text, size, "%s:%" PRIu32 " %s", frame->file, frame->line,
                 frame->function ? frame->function : "??");
    else if (frame->function)
        snprintf(text, size, "%s!%s+0x%" PRIx64, module, frame->function, frame->function_offset);
    else
        snprintf(text, size, "%s+0x%" PRIx64, module, frame->offset);
}
