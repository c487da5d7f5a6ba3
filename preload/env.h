/*
 * env.h - the user's settings, read once from the environment.
 *
 * Read with secure_getenv: a setuid program is never recorded. Documented in docs/environment.md.
 */
#ifndef LS_ENV_H
#define LS_ENV_H

#include <stdbool.h>
#include <stdint.h>

/* LAYOUTSPY_CENSUS: on wishes and after an OOM, at exit too, or not at all. */
enum ls_census_when { LS_CENSUS_AFTER_OOM, LS_CENSUS_AT_EXIT, LS_CENSUS_NEVER };

/* LAYOUTSPY_CUPTI: whatever it can give where it can be had, copies alone (no kernels), or nothing.
 * Both in the order of common/setting.def. */
enum ls_cupti_mode { LS_CUPTI_FULL, LS_CUPTI_COPIES, LS_CUPTI_NEVER };

struct ls_env {
    bool disabled;    /* LAYOUTSPY_DISABLE=1, or a secure (setuid) program */
    bool stacks;      /* LAYOUTSPY_STACKS=off turns them off */
    bool python;      /* LAYOUTSPY_PYTHON=off: native stacks only */
    bool hooks;       /* LAYOUTSPY_HOOKS=off: what CUPTI tells alone */
    bool layouts;     /* LAYOUTSPY_LAYOUTS=off: no operands of calls, and no shapes */
    bool graph_nodes; /* LAYOUTSPY_GRAPHS=nodes: each kernel of a graph's launch, not the whole */
    enum ls_census_when census;
    enum ls_cupti_mode cupti;
    uint32_t
        measure; /* LAYOUTSPY_MEASURE: one step in so many is not recorded; 1: none is left out */
    uint32_t kernel_sample; /* LAYOUTSPY_KERNEL_SAMPLE: one run of a kernel in so many is kept; 1:
                               each */
    const char *out;        /* LAYOUTSPY_OUT: path or pattern, NULL where unset or empty */
    const char *collector;  /* LAYOUTSPY_COLLECTOR: path, "none", or NULL */
    uint64_t spool_max;     /* LAYOUTSPY_SPOOL_MAX, bytes; suffixes K M G T */
};

#define LS_SPOOL_MAX_DEFAULT (1ull << 30)
#define LS_SPOOL_MAX_LEAST (300u << 10) /* the header and two chunks: less would record nothing */

void ls_env_read(struct ls_env *env);

/* Of the setting of this number (common/setting.h): has it a value that was not understood? Then
 * what is wrong with it, in LS_SETTING_WRONG bytes. */
bool ls_env_wrong(int setting, char *wrong);

#endif
