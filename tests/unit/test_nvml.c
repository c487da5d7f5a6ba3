/*
 * test_nvml.c - asking NVML in a thread of its own, and which of its devices is which.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "now.h"
#include "nvml.h"

#define GIB (INT64_C(1) << 30)

static const char *fake;

/* ---- which device is which ---- */

static struct ls_nvml_device device[4];

static void two_models(void) {
    memset(device, 0, sizeof device);
    for (int i = 0; i < 4; i++) {
        device[i].there = true;
        device[i].total = (i < 2 ? 24 : 80) * GIB;
        snprintf(device[i].uuid, sizeof device[i].uuid, "GPU-%d%d-abc", i, i);
        snprintf(device[i].name, sizeof device[i].name, i < 2 ? "Small" : "Large");
    }
}

static void one_model(void) {
    two_models();
    for (int i = 0; i < 4; i++) {
        device[i].total = 80 * GIB;
        snprintf(device[i].name, sizeof device[i].name, "Large");
    }
}

/* The program's devices as NVML's numbers: "0 2", with - for one that is not known. */
static const char *match(const char *visible, const char *order) {
    static char text[200];
    struct ls_nvml_match m;
    ls_nvml_match(&m, device, 4, visible, order);
    *text = '\0';
    for (size_t i = 0; i < m.count; i++) {
        char word[16];
        snprintf(word, sizeof word, m.index[i] < 0 ? "%s-" : "%s%d", i ? " " : "", m.index[i]);
        strcat(text, word);
    }
    strcat(text, *m.why ? " !" : "");
    return text;
}

static void devices_of_one_model_keep_their_order(void **state) {
    (void)state;
    one_model();
    assert_string_equal(match(NULL, NULL), "0 1 2 3");
    assert_string_equal(match("2,0", NULL), "2 0");
    assert_string_equal(match("3", "FASTEST_FIRST"), "3");
    assert_string_equal(match(" 1, 2", NULL), "1 2");
    assert_string_equal(match("", NULL), "");
    assert_string_equal(match("-1", NULL), "");
    assert_string_equal(match("1,-1,2", NULL), "1");
    assert_string_equal(match("1,7,2", NULL), "1");
    assert_string_equal(match("NoDevFiles", NULL), "");
}

static void devices_of_several_models_need_an_order(void **state) {
    (void)state;
    two_models();
    assert_string_equal(match(NULL, NULL), "- - - - !");
    assert_string_equal(match("0,2", NULL), "- - !");
    assert_string_equal(match("0,2", "PCI_BUS_ID"), "0 2");
    assert_string_equal(match(NULL, "PCI_BUS_ID"), "0 1 2 3");
    assert_string_equal(match("GPU-22", NULL), "2");
    assert_string_equal(match("gpu-33-ABC,GPU-00-abc", NULL), "3 0");
    assert_string_equal(match("GPU-", NULL), "- !");
    assert_string_equal(match("GPU-99", NULL), "- !");
}

static void parts_of_devices_are_not_known(void **state) {
    (void)state;
    one_model();
    assert_string_equal(match("MIG-1234", NULL), "- !");
    assert_string_equal(match("MIG-GPU-00-abc/1/0,0", NULL), "- 0 !");
    device[0].mig = true;
    assert_string_equal(match("0,1", NULL), "- 1 !");
    device[1].there = false;
    assert_string_equal(match("0,1", NULL), "- - !");
}

/* ---- asking ---- */

static struct ls_nvml *start(const char *mode, const char *library, bool all_pids) {
    struct ls_nvml_setup setup = {.library = library, .pid = getpid(), .all_pids = all_pids};
    setenv("FAKE_NVML", mode, 1);
    struct ls_nvml *nvml = ls_nvml_start(&setup);
    assert_non_null(nvml);
    return nvml;
}

/* One sample, or none within a time. */
static bool ask(struct ls_nvml *nvml, struct ls_nvml_sample *sample, int ms) {
    ls_nvml_ask(nvml);
    for (int64_t end = ls_now_ms() + ms; ls_now_ms() < end; usleep(2000)) {
        if (ls_nvml_take(nvml, sample))
            return true;
        if (ls_nvml_state(nvml) == LS_NVML_OFF)
            return false;
    }
    return false;
}

static void assert_why(struct ls_nvml *nvml, const char *part) {
    char why[200];
    ls_nvml_why(nvml, why, sizeof why);
    assert_int_equal(ls_nvml_state(nvml), LS_NVML_OFF);
    assert_non_null(strstr(why, part));
}

static void it_answers(void **state) {
    struct ls_nvml_sample sample;
    (void)state;
    struct ls_nvml *nvml = start("", fake, false);
    assert_true(ask(nvml, &sample, 5000));
    assert_int_equal(sample.count, 2);
    assert_int_equal(sample.reading[0].used, GIB);
    assert_int_equal(sample.reading[0].total, 24 * GIB);
    assert_int_equal(sample.reading[0].own, GIB / 4);
    assert_int_equal(sample.reading[0].others, GIB / 2);
    assert_int_equal(sample.reading[1].own, 0);
    assert_int_equal(sample.reading[1].others, GIB / 2);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    assert_true(now.tv_sec - sample.mono_ns / 1000000000 < 10);
    ls_nvml_stop(nvml);
    assert_false(ls_nvml_hangs());
}

static void a_pid_that_it_does_not_know_is_no_zero(void **state) {
    struct ls_nvml_sample sample;
    struct ls_nvml_setup setup = {.library = fake, .pid = 0};
    (void)state;
    setenv("FAKE_NVML", "", 1);
    struct ls_nvml *nvml = ls_nvml_start(&setup);
    assert_true(ask(nvml, &sample, 5000));
    assert_int_equal(sample.reading[0].own, -1);
    assert_int_equal(sample.reading[0].others, -1);
    ls_nvml_stop(nvml);
}

static void a_figure_that_it_does_not_tell_is_no_zero(void **state) {
    struct ls_nvml_sample sample;
    (void)state;
    struct ls_nvml *nvml = start("untold", fake, true);
    assert_true(ask(nvml, &sample, 5000));
    assert_int_equal(sample.reading[0].own, -1);
    assert_int_equal(sample.reading[0].others, 0);
    ls_nvml_stop(nvml);
}

static void there_is_none(void **state) {
    struct ls_nvml_sample sample;
    (void)state;
    struct ls_nvml *nvml = start("", "/nowhere/libnvidia-ml.so.1", true);
    assert_false(ask(nvml, &sample, 5000));
    assert_why(nvml, "no NVML where LAYOUTSPY_NVML says");
    ls_nvml_stop(nvml);
    nvml = start("", "libm.so.6", true);
    assert_false(ask(nvml, &sample, 5000));
    assert_why(nvml, "lacks");
    ls_nvml_stop(nvml);
}

static void it_fails(void **state) {
    struct ls_nvml_sample sample;
    (void)state;
    struct ls_nvml *nvml = start("fail", fake, true);
    assert_false(ask(nvml, &sample, 5000));
    assert_why(nvml, "error 9");
    ls_nvml_stop(nvml);
}

static void nonsense_is_no_sample(void **state) {
    struct ls_nvml_sample sample;
    (void)state;
    struct ls_nvml *nvml = start("nonsense", fake, true);
    assert_true(ask(nvml, &sample, 5000));
    assert_int_equal(sample.count, 0);
    ls_nvml_stop(nvml);
    nvml = start("many", fake, true);
    assert_false(ask(nvml, &sample, 5000));
    assert_why(nvml, "1000000 devices");
    ls_nvml_stop(nvml);
}

static void it_hangs_at_its_start(void **state) {
    struct ls_nvml_sample sample;
    (void)state;
    int64_t begin = ls_now_ms();
    struct ls_nvml *nvml = start("hang-init", fake, true);
    assert_false(ask(nvml, &sample, 10000));
    assert_why(nvml, "did not answer within 2 s");
    assert_true(ls_now_ms() - begin >= LS_NVML_PATIENCE_MS);
    begin = ls_now_ms();
    ls_nvml_stop(nvml);
    assert_true(ls_now_ms() - begin < 1500);
    assert_true(ls_nvml_hangs());
}

static void it_hangs_later(void **state) {
    struct ls_nvml_sample sample;
    (void)state;
    struct ls_nvml *nvml = start("hang-later", fake, true);
    assert_true(ask(nvml, &sample, 5000));
    assert_false(ask(nvml, &sample, 10000));
    assert_why(nvml, "did not answer");
    ls_nvml_stop(nvml);
}

static void it_can_be_stopped_at_once(void **state) {
    (void)state;
    for (int i = 0; i < 50; i++) {
        struct ls_nvml *nvml = start("", fake, true);
        if (i % 2)
            ls_nvml_ask(nvml);
        ls_nvml_stop(nvml);
    }
}

/* It lies beside this program. */
static const char *fake_path(void) {
    static char path[4200];
    ssize_t length = readlink("/proc/self/exe", path, 4096);
    char *slash = length > 0 ? memrchr(path, '/', (size_t)length) : NULL;
    assert_non_null(slash);
    strcpy(slash, "/libfake_nvml.so");
    return path;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_of_one_model_keep_their_order),
        cmocka_unit_test(devices_of_several_models_need_an_order),
        cmocka_unit_test(parts_of_devices_are_not_known),
        cmocka_unit_test(it_answers),
        cmocka_unit_test(a_pid_that_it_does_not_know_is_no_zero),
        cmocka_unit_test(a_figure_that_it_does_not_tell_is_no_zero),
        cmocka_unit_test(there_is_none),
        cmocka_unit_test(it_fails),
        cmocka_unit_test(nonsense_is_no_sample),
        cmocka_unit_test(it_can_be_stopped_at_once),
        cmocka_unit_test(it_hangs_at_its_start),
        cmocka_unit_test(it_hangs_later),
    };
    fake = fake_path();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    _exit(failed); /* threads hang, as they are meant to */
}
