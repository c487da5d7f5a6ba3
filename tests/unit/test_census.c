/*
 * test_census.c - records of a census: their rows, exactly once, whatever comes between them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collect.h"
#include "spool_fixture.h"

#define REPORT_OOM LS_API__ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE
#define PATHS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void once(void) {
    char why[512];
    assert_int_equal(ls_collect_once(maker.spool, maker.trace, 0, why, sizeof why),
                     LS_COLLECTED_LIVE);
}

static void gave_up(uint64_t start) {
    maker_call_flags(&maker, 1, REPORT_OOM, start, start + 10, 0, 0, 0, 0, 0,
                     (const uint64_t[LS_FIELD_MAX]){1 << 20, 0, 0, 1});
}

static void test_rows(void **state) {
    (void)state;
    maker_census(&maker, 1, 1, LS_CENSUS_BEGINS, LS_CENSUS_ASKED, 100, 0, "");
    maker_storage(&maker, 1, 1, 1, 0x7f0000000000, 4096, 512);
    maker_tensor(&maker, 1, 1, 1, 4096, LS_TENSOR_CONTIGUOUS | LS_TENSOR_GLOBAL,
                 PATHS("model.weight", "optimizer.param_groups[0]['params'][0]"));
    maker_tensor(&maker, 1, 1, 1, 64,
                 LS_TENSOR_VIEW | LS_TENSOR_LOCAL | LS_TENSOR_RAISED | LS_TENSOR_GRAPH |
                     LS_TENSOR_REQUIRES_GRAD,
                 PATHS("x"));
    maker_storage(&maker, 1, 1, 2, 0x7f0000001000, 512, 0);
    maker_tensor(&maker, 1, 1, 2, 512, LS_TENSOR_LOST, PATHS(NULL));
    maker_census(&maker, 1, 1, LS_CENSUS_COMPLETE, LS_CENSUS_ASKED, 200, 0, "");
    collect();
    assert_string_equal(
        maker_ask(&maker, "SELECT id||' '||ts_ns||' '||end_ns||' '||reason||' '||"
                          "IFNULL(oom,'-')||' '||state||' '||objects||' '||tensors||' '||nodes||"
                          "' '||IFNULL(detail,'-') FROM census"),
        "1 100 200 2 - 2 1000 10 3 -");
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(id||':'||address||':'||bytes||':'||"
                                          "held_by_graph) FROM census_storage"),
                        "1:139637976727552:4096:512,2:139637976731648:512:0");
    assert_string_equal(
        maker_ask(&maker, "SELECT group_concat(id||':'||storage||':'||bytes||':'||dtype||':'||"
                          "class||':'||dims||':'||strides||':'||contiguous||requires_grad||view||"
                          "':'||held||':'||paths, ' ') FROM census_tensor"),
        "1:1:4096:float32:torch.Tensor:[1024]:[1]:100:1:2 "
        "2:1:64:float32:torch.Tensor:[16]:[1]:011:14:1 "
        "3:2:512:float32:torch.Tensor:[128]:[1]:000:16:0");
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(tensor||':'||path, ' ') "
                                          "FROM census_path"),
                        "1:model.weight 1:optimizer.param_groups[0]['params'][0] 2:x");
    assert_int_equal(maker_number(&maker, "SELECT value FROM meta WHERE key='end_ns'"), 200);
}

static void test_could_not_run(void **state) {
    (void)state;
    gave_up(10);
    maker_census(&maker, 2, 1, LS_CENSUS_FAILED, LS_CENSUS_OOM, 50, 10, "no Python");
    collect();
    assert_string_equal(maker_ask(&maker, "SELECT ts_ns||' '||end_ns||' '||state||' '||detail||"
                                          "' '||(oom = (SELECT id FROM oom)) FROM census"),
                        "50 50 4 no Python 1");
}

static void test_never_ended(void **state) {
    (void)state;
    maker_census(&maker, 1, 1, LS_CENSUS_BEGINS, LS_CENSUS_EXIT, 100, 0, "");
    maker_storage(&maker, 1, 1, 1, 0x1000, 4096, 0);
    collect();
    assert_string_equal(maker_ask(&maker, "SELECT state||IFNULL(end_ns,'-')||"
                                          "IFNULL(objects,'-')||reason FROM census"),
                        "1--3");
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM census_storage"), 1);
}

/* Each census names the call that told of its OOM, not the last one. */
static void test_its_oom(void **state) {
    (void)state;
    for (uint64_t i = 1; i <= 3; i++)
        gave_up(i * 10000000);
    maker_census(&maker, 2, 1, LS_CENSUS_BEGINS, LS_CENSUS_OOM, 40000000, 20000000, "");
    maker_census(&maker, 2, 1, LS_CENSUS_CUT, LS_CENSUS_OOM, 41000000, 20000000, "2 s were over");
    maker_census(&maker, 2, 2, LS_CENSUS_COMPLETE, LS_CENSUS_OOM, 50000000, 10000000, "");
    /* of a call that is not here: the last one before it */
    maker_census(&maker, 2, 3, LS_CENSUS_COMPLETE, LS_CENSUS_OOM, 60000000, 55000000, "");
    collect();
    assert_string_equal(maker_ask(&maker, "SELECT group_concat((SELECT ts_ns FROM oom WHERE "
                                          "oom.id = census.oom)) FROM census"),
                        "20000000,10000000,30000000");
    assert_string_equal(maker_ask(&maker, "SELECT state||detail FROM census WHERE id=1"),
                        "32 s were over");
}

/* Spread over drains, each by a collector of its own; chunks that come twice count once. */
static void test_split(void **state) {
    (void)state;
    maker_census(&maker, 1, 7, LS_CENSUS_BEGINS, LS_CENSUS_ASKED, 1, 0, "");
    once();
    for (uint32_t i = 1; i <= 20; i++) {
        maker_storage(&maker, 1, 7, i, 0x1000 * (uint64_t)i, 4096, 0);
        maker_tensor(&maker, 1, 7, i, 4096, LS_TENSOR_CONTIGUOUS, PATHS("a", "b"));
        if (i % 3 == 0)
            maker_seal(&maker, 1);
        uint32_t before[16];
        for (uint32_t s = 0; s < maker.header->slots; s++)
            before[s] = maker.slot[s].state;
        once();
        for (uint32_t s = 0; s < maker.header->slots; s++)
            maker.slot[s].state = before[s];
        once();
    }
    assert_string_equal(maker_ask(&maker, "SELECT state FROM census"), "1");
    maker_census(&maker, 1, 7, LS_CENSUS_COMPLETE, LS_CENSUS_ASKED, 2, 0, "");
    maker.header->image++; /* it runs another program now: dead, for its collector */
    collect();
    assert_string_equal(maker_ask(&maker, "SELECT COUNT(*)||' '||MIN(id)||' '||MAX(id)||' '||"
                                          "SUM(id=storage) FROM census_tensor WHERE census=7"),
                        "20 1 20 20");
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM census_storage"), 20);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM census_path"), 40);
    assert_string_equal(maker_ask(&maker, "SELECT state||' '||ts_ns||' '||end_ns FROM census"),
                        "2 1 2");
}

/* Records of two threads' censuses among each other, a text that is no UTF-8, and any bytes. */
static void test_damaged(void **state) {
    (void)state;
    struct ls_rec_tensor bad = {.head = {.size = sizeof bad, .type = LS_REC_TENSOR},
                                .census = 1,
                                .storage = 1,
                                .dims = LS_TENSOR_DIMS};
    maker_tensor(&maker, 1, 1, 9, 8, 0xffffffff, PATHS("caf\xe9", "")); /* without a storage */
    maker_tensor(&maker, 2, 2, 9, 8, 0, PATHS("x"));
    maker_raw(&maker, 1, &bad, sizeof bad);
    maker_tensor(&maker, 1, 1, 9, 16, 0, PATHS("behind it"));
    maker_storage(&maker, 2, 2, 1, UINT64_MAX, UINT64_MAX, UINT64_MAX);
    maker_storage(&maker, 2, 2, 1, 0, 0, 0);
    collect();
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(census||':'||id||':'||held, ' ') "
                                          "FROM census_tensor"),
                        "1:1:31 2:1:0");
    assert_true(maker_number(&maker, "SELECT SUM(count) FROM lost WHERE reason='damaged'") > 0);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM census_storage"), 1);
}

/* Noise in every byte of the records, one after another: never a crash or a broken trace. */
static void test_noise(void **state) {
    (void)state;
    srand(1);
    for (int round = 0; round < 60; round++) {
        maker_open(&maker, false);
        maker_census(&maker, 1, 1, LS_CENSUS_BEGINS, LS_CENSUS_ASKED, 1, 0, "");
        uint64_t from = maker.thread[1].position;
        maker_storage(&maker, 1, 1, 1, 0x1000, 4096, 0);
        maker_tensor(&maker, 1, 1, 1, 4096, 1, PATHS("a.b.c", "d"));
        maker_census(&maker, 1, 1, LS_CENSUS_CUT, LS_CENSUS_ASKED, 2, 0, "memory");
        uint64_t room = maker.thread[1].position - from;
        for (int i = 0; i < 3; i++)
            ((uint8_t *)maker.thread[1].chunk)[from + (uint64_t)rand() % room] = (uint8_t)rand();
        collect();
        maker_close(&maker);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rows, setup, teardown),
        cmocka_unit_test_setup_teardown(test_could_not_run, setup, teardown),
        cmocka_unit_test_setup_teardown(test_never_ended, setup, teardown),
        cmocka_unit_test_setup_teardown(test_its_oom, setup, teardown),
        cmocka_unit_test_setup_teardown(test_split, setup_alive, teardown),
        cmocka_unit_test_setup_teardown(test_damaged, setup, teardown),
        cmocka_unit_test(test_noise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
