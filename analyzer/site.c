/*
 * site.c - see site.h. No state; any thread.
 */
#include "site.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum rule_what { RULE_MODULE, RULE_FOLDER, RULE_FUNCTION, RULE_SOURCE };

static const struct rule {
    enum rule_what what;
    const char *pattern;
    enum ls_site_level level;
} rules[] = {
#define RULE(WHAT, pattern, LEVEL, reason) {RULE_##WHAT, pattern, LS_SITE_##LEVEL},
#include "site_rules.def"
};

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool matches(const struct rule *rule, const struct ls_site_frame *frame) {
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
    }
    return false;
}

enum ls_site_level ls_site_level(const struct ls_site_frame *frame) {
    if (!frame->module) /* code made at run time, by nobody who has a name */
        return LS_SITE_NEVER;
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (matches(&rules[i], frame))
            return rules[i].level;
    return LS_SITE_USER;
}

int ls_site_choose(const struct ls_site_frame *frame, int count) {
    int chosen = -1;
    enum ls_site_level best = LS_SITE_NEVER;
    for (int i = 0; i < count && best != LS_SITE_USER; i++) {
        enum ls_site_level level = ls_site_level(&frame[i]);
        if (level > best) {
            best = level;
            chosen = i;
        }
    }
    return chosen;
}

void ls_site_text(const struct ls_site_frame *frame, char *text, size_t size) {
    const char *module = frame->module ? base_name(frame->module) : "??";
    if (frame->file && frame->line)
        snprintf(text, size, "%s:%" PRIu32 " %s", frame->file, frame->line,
                 frame->function ? frame->function : "??");
    else if (frame->function)
        snprintf(text, size, "%s!%s+0x%" PRIx64, module, frame->function, frame->function_offset);
    else
        snprintf(text, size, "%s+0x%" PRIx64, module, frame->offset);
}
