/*
 * spool_fixture.h - what the tests of the collector set up: one spool each, in `maker`.
 */
#ifndef LAYOUTSPY_SPOOL_FIXTURE_H
#define LAYOUTSPY_SPOOL_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "spool_maker.h"
#include "trace.h"

static struct maker maker;

/* Of a process that is dead. */
__attribute__((unused)) static int setup(void **state) {
    (void)state;
    maker_open(&maker, false);
    return 0;
}

/* Of this one. */
__attribute__((unused)) static int setup_alive(void **state) {
    (void)state;
    maker_open(&maker, true);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    maker_close(&maker);
    return 0;
}

__attribute__((unused)) static void collect(void) {
    assert_int_equal(maker_collect(&maker), LS_EXIT_OK);
    assert_string_equal(maker_ask(&maker, "PRAGMA integrity_check"), "ok");
}

#endif
