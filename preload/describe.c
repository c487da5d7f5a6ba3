/*
 * describe.c - who is recorded, where, and what the recording can see. See describe.h.
 * Runs once per recording, in the thread that started it.
 */
#include "describe.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "census.h"
#include "collector.h"
#include "common/setting.h"
#include "env.h"
#include "export.h"
#include "modules.h"
#include "spool.h"
#include "stack_python.h"
#include "state.h"
#include "trace_name.h"

#define TEXT_MAX 4096

LS_EXPORT const char *layoutspy_version(void);
LS_EXPORT const char *layoutspy_version(void) {
    return LS_VERSION;
}

/* A record of `count` NUL-terminated texts. */
static void write_texts(struct ls_thread *self, enum ls_record_type type, int count,
                        const char *const *text) {
    uint32_t size = sizeof(struct ls_rec_text);
    size_t length[3];
    for (int i = 0; i < count; i++) {
        length[i] = strnlen(text[i], TEXT_MAX / 2 - 1);
        size += (uint32_t)length[i] + 1;
    }
    size = (size + 7) & ~7u;
    struct ls_rec_text *record = ls_spool_reserve(self, size);
    if (!record)
        return;
    memset(record, 0, size);
    record->head.size = (uint16_t)size;
    record->head.type = (uint8_t)type;
    char *at = record->text;
    for (int i = 0; i < count; i++) {
        memcpy(at, text[i], length[i]);
        at += length[i] + 1;
    }
    ls_spool_commit(self, size);
}

void ls_describe_meta(struct ls_thread *self, const char *key, const char *value) {
    write_texts(self, LS_REC_META, 2, (const char *const[]){key, value});
}

void ls_describe_coverage(struct ls_thread *self, const char *layer, const char *state,
                          const char *detail) {
    write_texts(self, LS_REC_COVERAGE, 3, (const char *const[]){layer, state, detail});
}

static void meta_number(struct ls_thread *self, const char *key, long value) {
    char text[32];
    snprintf(text, sizeof text, "%ld", value);
    ls_describe_meta(self, key, text);
}

/* The command line as one would read it: arguments separated by blanks. */
static void meta_command_line(struct ls_thread *self) {
    char text[TEXT_MAX];
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return;
    for (ssize_t i = 0; i + 1 < n; i++)
        if (text[i] == 0)
            text[i] = ' ';
    text[n] = 0;
    ls_describe_meta(self, "cmdline", text);
}

static void meta_process(struct ls_thread *self) {
    char text[LS_PATH_MAX] = "";
    ssize_t n = readlink("/proc/self/exe", text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    ls_describe_meta(self, "exe", text);
    meta_command_line(self);
    if (getcwd(text, sizeof text))
        ls_describe_meta(self, "cwd", text);
    if (gethostname(text, sizeof text) == 0)
        ls_describe_meta(self, "host", text);
    meta_number(self, "ppid", getppid());
    if (ls_trace_name_parent())
        ls_describe_meta(self, "parent_trace", ls_trace_name_parent());
}

/* Settings that change what memory and devices a program sees. */
static void meta_environment(struct ls_thread *self) {
    static const char *const names[] = {"CUDA_VISIBLE_DEVICES",          "CUDA_DEVICE_ORDER",
                                        "CUDA_MODULE_LOADING",           "CUDA_LAUNCH_BLOCKING",
                                        "PYTORCH_CUDA_ALLOC_CONF",       "PYTORCH_ALLOC_CONF",
                                        "PYTORCH_NO_CUDA_MEMORY_CACHING"};
    char key[64];
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = secure_getenv(names[i]);
        if (!value)
            continue;
        snprintf(key, sizeof key, "env.%s", names[i]);
        ls_describe_meta(self, key, value);
    }
}

static void coverage_of_hooks(struct ls_thread *self) {
    if (!ls_session.env.hooks) {
        ls_describe_coverage(self, "hooks", "off",
                             "LAYOUTSPY_HOOKS=off: nothing but what CUPTI tells is recorded");
        return;
    }
    ls_describe_coverage(
        self, "cudart", "on",
        "calls through libcudart.so; a static cudart, RTLD_DEEPBIND and dlsym on a "
        "handle pass beside it");
    ls_describe_coverage(self, "driver", "partial",
                         "calls of programs linked with libcuda.so.1, and through addresses that "
                         "the runtime was asked for; dlsym passes beside it, but for "
                         "liblayoutspy-dlsym.so");
    ls_describe_coverage(self, "libraries", "partial",
                         "products of cuBLAS and cuBLASLt, layers of cuDNN, exchanges of NCCL, "
                         "transforms of cuFFT; other calls pass beside it");
}

/* The target prints nothing: who reads the trace is told. */
static void coverage_of_settings(struct ls_thread *self) {
    char wrong[LS_SETTING_WRONG], text[LS_SETTING_WRONG + 32];
    for (int i = 0; i < LS_SETTINGS; i++) {
        if (!ls_env_wrong(i, wrong))
            continue;
        snprintf(text, sizeof text, "%s: the default was taken", wrong);
        ls_describe_coverage(self, "settings", "ignored", text);
    }
}

static void coverage(struct ls_thread *self) {
    coverage_of_settings(self);
    coverage_of_hooks(self);
    ls_describe_coverage(self, "native-stacks", ls_session.env.stacks ? "on" : "off",
                         ls_session.env.stacks ? "" : "LAYOUTSPY_STACKS=off");
    if (!ls_session.env.layouts)
        ls_describe_coverage(self, "layouts", "off", "LAYOUTSPY_LAYOUTS=off");
    ls_describe_coverage(self, "collector", ls_collector_result.state, ls_collector_result.detail);
}

void ls_session_describe(struct ls_thread *self) {
    ls_describe_meta(self, "layoutspy_version", LS_VERSION);
    meta_process(self);
    meta_environment(self);
    coverage(self);
    ls_python_start(self);
    ls_census_start(self);
}
