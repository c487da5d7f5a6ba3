/*
 * env.c - the user's settings. See env.h. Runs once, at the first recorded call.
 */
#include "env.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

static const char *get(const char *name) {
    const char *value = secure_getenv(name);
    return value && *value ? value : NULL;
}

static bool is_off(const char *value) {
    return value && (!strcmp(value, "off") || !strcmp(value, "0") || !strcmp(value, "no"));
}

/* "512M" -> bytes. What makes no sense is the default: the target is not the place to complain. */
static uint64_t parse_size(const char *text, uint64_t fallback) {
    char *end;
    if (!text || *text < '0' || *text > '9')
        return fallback;
    uint64_t value = strtoull(text, &end, 10);
    unsigned shift = 0;
    switch (*end) {
    case 'k':
    case 'K':
        shift = 10;
        break;
    case 'm':
    case 'M':
        shift = 20;
        break;
    case 'g':
    case 'G':
        shift = 30;
        break;
    case 't':
    case 'T':
        shift = 40;
        break;
    default:
        break;
    }
    if (shift)
        end++;
    if (*end || value == 0 || value > UINT64_MAX >> shift)
        return fallback;
    return value << shift;
}

static enum ls_census_when census_when(const char *value) {
    if (is_off(value))
        return LS_CENSUS_NEVER;
    return value && !strcmp(value, "exit") ? LS_CENSUS_AT_EXIT : LS_CENSUS_AFTER_OOM;
}

static enum ls_cupti_mode cupti_mode(const char *value) {
    if (is_off(value))
        return LS_CUPTI_NEVER;
    return value && !strcmp(value, "copies") ? LS_CUPTI_COPIES : LS_CUPTI_FULL;
}

/* A count of at least 1. */
static uint32_t parse_count(const char *text) {
    uint64_t value = parse_size(text, 1);
    return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

void ls_env_read(struct ls_env *env) {
    const char *disable = get("LAYOUTSPY_DISABLE");
    env->disabled = getauxval(AT_SECURE) || (disable && !is_off(disable));
    env->stacks = !is_off(get("LAYOUTSPY_STACKS"));
    env->python = !is_off(get("LAYOUTSPY_PYTHON"));
    const char *graphs = get("LAYOUTSPY_GRAPHS");
    env->hooks = !is_off(get("LAYOUTSPY_HOOKS"));
    env->layouts = !is_off(get("LAYOUTSPY_LAYOUTS"));
    env->graph_nodes = graphs && !strcmp(graphs, "nodes");
    env->measure = parse_count(get("LAYOUTSPY_MEASURE"));
    env->kernel_sample = parse_count(get("LAYOUTSPY_KERNEL_SAMPLE"));
    env->cupti = cupti_mode(get("LAYOUTSPY_CUPTI"));
    env->census = census_when(get("LAYOUTSPY_CENSUS"));
    env->out = get("LAYOUTSPY_OUT");
    env->collector = get("LAYOUTSPY_COLLECTOR");
    env->spool_max = parse_size(get("LAYOUTSPY_SPOOL_MAX"), LS_SPOOL_MAX_DEFAULT);
    if (env->spool_max < LS_SPOOL_MAX_LEAST)
        env->spool_max = LS_SPOOL_MAX_LEAST;
}
