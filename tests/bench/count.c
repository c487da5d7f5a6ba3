/*
 * count.c - lets a program under callgrind say which of its parts are counted.
 *
 * A library, loaded by tests/bench/torch_cost.py: what lies before and between the parts runs at
 * valgrind's plain speed. Without valgrind the functions do nothing.
 */
#include <valgrind/callgrind.h>

void bench_count_begin(void);
void bench_count_begin(void) {
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_ZERO_STATS;
}

/* Write what was counted since the last beginning, under a name. */
void bench_count_end(const char *name);
void bench_count_end(const char *name) {
    CALLGRIND_DUMP_STATS_AT(name);
    CALLGRIND_STOP_INSTRUMENTATION;
}
