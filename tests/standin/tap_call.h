/*
 * tap_call.h - how the fronts' functions are told to the listener of tap.h.
 *
 * TAP() runs a call's body. Where nobody wants to know of calls it costs a look at call.told;
 * else the parameters go into a struct of CUPTI's layout, and the listener hears of the call around
 * the body, and of the driver's call that the real runtime makes inside it (tap_nested.c).
 *
 * Any thread; not in signal handlers.
 */
#ifndef STANDIN_TAP_CALL_H
#define STANDIN_TAP_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "layoutspy/each.h"
#include "standin.h"
#include "tap.h"

/* A driver's call inside one of the runtime's, with room for its parameters. */
struct sd_nested {
    struct sd_tapped call; /* its name is NULL where there is none */
    uint64_t params[16];
    uint64_t config[8]; /* CUlaunchConfig */
};

struct sd_tap_frame {
    struct sd_tapped call;
    struct sd_nested nested;
};

/* `kernel`: the mangled name where the caller knows it, else NULL. */
void sd_tap_begin(struct sd_tap_frame *frame, enum sd_domain domain, const char *name,
                  const void *params, const char *kernel);
void sd_tap_end(struct sd_tap_frame *frame, int status);

/* As sd_tap_enter(), with the number of the call that the thread is in. */
void sd_tap_enter_inside(struct sd_tapped *call);
/* Tells and makes a context that is not there yet. No lock held. */
void sd_tap_make_context(int ordinal);

/* tap_nested.c */
void sd_nested_begin(struct sd_nested *nested, const struct sd_tapped *outer);
void sd_nested_kernel(struct sd_tapped *launch);

/* inject.c: CUDA_INJECTION64_PATH. Before the driver is used for the first time, no lock held. */
void sd_inject(void);
/* The same for a call of the runtime, unless it is one that does without the driver. */
void sd_inject_before(struct standin_call *call);

/* `run` is the body as an expression; a front gives its parameters' names in `args`. */
#define TAP(tap_domain, symbol, params, args, result, run)                                         \
    if (__builtin_expect(call.told, 0)) {                                                          \
        struct LS_PARAMS_STRUCT(params, args) tap_params = {LS_EACH_STRIP args};                   \
        struct sd_tap_frame tap_frame;                                                             \
        sd_tap_begin(&tap_frame, tap_domain, symbol, &tap_params, NULL);                           \
        call.correlation = tap_frame.call.correlation;                                             \
        result = run;                                                                              \
        sd_tap_end(&tap_frame, result);                                                            \
    } else {                                                                                       \
        result = run;                                                                              \
    }
#define TAP_VOID(tap_domain, symbol, result, run)                                                  \
    if (__builtin_expect(call.told, 0)) {                                                          \
        struct sd_tap_frame tap_frame;                                                             \
        sd_tap_begin(&tap_frame, tap_domain, symbol, NULL, NULL);                                  \
        call.correlation = tap_frame.call.correlation;                                             \
        result = run;                                                                              \
        sd_tap_end(&tap_frame, result);                                                            \
    } else {                                                                                       \
        result = run;                                                                              \
    }

#endif
