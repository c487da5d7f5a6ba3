/*
 * start.c - the CUPTI layer's part in the life of a recording. See cupti.h.
 */
#include "cupti.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "ask.h"
#include "client.h"
#include "describe.h"
#include "flush.h"
#include "load.h"
#include "manners.h"
#include "names.h"
#include "state.h"

#define AT_EXIT_MS 1000

static void say_version(struct ls_thread *self, const char *path) {
    char text[32] = "unknown";
    uint32_t version;
    if (ls_cupti.cuptiGetVersion(&version) == LS_CUPTI_OK)
        snprintf(text, sizeof text, "%u", version);
    ls_describe_meta(self, "cupti_version", text);
    ls_describe_meta(self, "cupti_path", path);
}

static void say_coverage(struct ls_thread *self, enum ls_client_state state, const char *why) {
    static const char copies[] =
        "GPU times of copies and memsets; no kernels (LAYOUTSPY_CUPTI=copies)";
    if (state == LS_CLIENT_ON && !*why)
        ls_describe_coverage(self, "cupti", "on",
                             ls_session.env.cupti == LS_CUPTI_COPIES ? copies : "");
    else
        ls_describe_coverage(self, "cupti", state == LS_CLIENT_REFUSED ? "unavailable" : "partial",
                             why);
}

/* Counts and sums of kernels are then a part of what there was. */
static void say_sample(struct ls_thread *self) {
    char text[200];
    if (ls_session.env.kernel_sample <= 1 || ls_session.env.cupti == LS_CUPTI_COPIES)
        return;
    snprintf(text, sizeof text,
             "GPU times of one run in %u (LAYOUTSPY_KERNEL_SAMPLE): counts and sums are of these",
             ls_session.env.kernel_sample);
    ls_describe_coverage(self, "kernels", "partial", text);
}

void ls_cupti_start(struct ls_thread *self) {
    char path[PATH_MAX] = "", why[300] = "";
    enum ls_client_state state = LS_CLIENT_REFUSED;
    if (ls_session.env.cupti == LS_CUPTI_NEVER) {
        ls_client_refuse();
        ls_describe_coverage(self, "cupti", "off", "LAYOUTSPY_CUPTI=off: no GPU times");
        return;
    }
    if (ls_cupti_load(path, sizeof path, why, sizeof why))
        state = ls_client_begin(self, why, sizeof why);
    if (state == LS_CLIENT_REFUSED) {
        ls_client_refuse();
        ls_flush_end();
    } else {
        say_version(self, path);
        say_sample(self);
        ls_flush_before_exit();
        ls_ask_again(); /* for a second time */
    }
    say_coverage(self, state, why);
}

bool ls_cupti_started(void) {
    return ls_client_state() != LS_CLIENT_NONE;
}

bool ls_cupti_pause(const char *reason) {
    return ls_client_pause(reason);
}

void ls_cupti_resume(void) {
    ls_client_resume();
}

void ls_cupti_flush(unsigned ms) {
    if (ls_client_state() == LS_CLIENT_ON)
        ls_flush_now(false, ms);
}

void ls_cupti_end(void) {
    static _Atomic uint64_t ended; /* the session that it was done for */
    uint64_t epoch = atomic_load(&ls_live->epoch);
    if (ls_session.pid != getpid() || atomic_exchange(&ended, epoch) == epoch)
        return;
    ls_client_end(ls_client_state() != LS_CLIENT_ON ||
                  ls_flush_now(!ls_client_is_one_of_several(), AT_EXIT_MS));
    ls_flush_end();
}

void ls_cupti_fork_reset(void) {
    ls_client_fork_reset();
    ls_flush_fork_reset();
    ls_other_fork_reset();
    ls_kernel_names_fork_reset();
}
