/*
 * made_steps.h - streams of calls of which the iterations are known, for the tests of the search
 * for steps: an in-memory trace, its calls one after the other. A call takes 10 ns, and the next
 * begins MADE_TICK after it began.
 */
#ifndef LAYOUTSPY_MADE_STEPS_H
#define LAYOUTSPY_MADE_STEPS_H

#include <stdint.h>

#include "layoutspy/format.h"
#include "layoutspy/table.h"
#include "trace_db.h"

#define MADE_TICK 20
#define MADE_BEGINS 4096

struct made_steps {
    struct ls_trace_db db;
    sqlite3_stmt *call;
    int64_t calls, now;
    int64_t begin[MADE_BEGINS]; /* of each iteration that a step is expected of */
    int64_t end[MADE_BEGINS];
    int begins, ends;
};
extern struct made_steps t;

/* For each test; cmocka's. */
int setup(void **state);
int teardown(void **state);

/* A statement by sqlite3_mprintf()'s rules; and the one number that a query gives. */
void sql(const char *format, ...);
int64_t ask(const char *text);

/* What programs do. Stacks are numbers; launches have none. `blocks` have stacks from `stack` on.
 */
void call_of(int thread, enum ls_api api, int stack, int kernel);
void launches(int first, int count);
void upload(int stack);
void download(int stack);
void blocks(int stack, int count);
void setup_calls(void); /* memory and weights, in a loop without launches */
void mark(enum ls_mark kind, int thread, int64_t ns, int64_t value, int64_t domain,
          const char *text);

/* An iteration begins with the next call, or has ended with the last one. */
void begins(void);
void ends(void);

/* Find the steps: of that source, one per iteration, each from its first call to its last. */
void assert_steps(const char *source);
void assert_source(const char *source);

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
