/*
 * env.c - the user's settings. See env.h. Runs once, at the first recorded call.
 */
#include "env.h"

#include <stdlib.h>
#include <sys/auxv.h>

#include "common/setting.h"

static const char *get(const char *name) {
    const char *value = secure_getenv(name);
    return value && *value ? value : NULL;
}

/* What makes no sense is the default: the target is not the place to complain (see describe.c). */
static uint64_t read_setting(enum ls_setting setting, uint64_t fallback) {
    char name[LS_SETTING_NAME];
    ls_setting_name(setting, name);
    ls_setting_parse(setting, get(name), &fallback);
    return fallback;
}

static bool is_on(enum ls_setting setting) {
    return read_setting(setting, 0) == 0;
}

void ls_env_read(struct ls_env *env) {
    const char *disable = get("LAYOUTSPY_DISABLE");
    env->disabled = getauxval(AT_SECURE) || (disable && !ls_setting_is_off(disable));
    env->stacks = is_on(LS_SETTING_STACKS);
    env->python = is_on(LS_SETTING_PYTHON);
    env->hooks = is_on(LS_SETTING_HOOKS);
    env->layouts = is_on(LS_SETTING_LAYOUTS);
    env->graph_nodes = !is_on(LS_SETTING_GRAPHS);
    env->measure = (uint32_t)read_setting(LS_SETTING_MEASURE, 1);
    env->kernel_sample = (uint32_t)read_setting(LS_SETTING_KERNEL_SAMPLE, 1);
    env->cupti = (enum ls_cupti_mode)read_setting(LS_SETTING_CUPTI, LS_CUPTI_FULL);
    env->census = (enum ls_census_when)read_setting(LS_SETTING_CENSUS, LS_CENSUS_AFTER_OOM);
    env->out = get("LAYOUTSPY_OUT");
    env->collector = get("LAYOUTSPY_COLLECTOR");
    env->spool_max = read_setting(LS_SETTING_SPOOL_MAX, LS_SPOOL_MAX_DEFAULT);
    if (env->spool_max < LS_SPOOL_MAX_LEAST)
        env->spool_max = LS_SPOOL_MAX_LEAST;
}

bool ls_env_wrong(int setting, char *wrong) {
    char name[LS_SETTING_NAME];
    uint64_t unused;
    ls_setting_name((enum ls_setting)setting, name);
    const char *text = get(name);
    if (ls_setting_parse((enum ls_setting)setting, text, &unused))
        return false;
    ls_setting_wrong((enum ls_setting)setting, text, wrong);
    return true;
}
