"""Settings that mean nothing, under LD_PRELOAD alone: nothing is printed, and the trace says so."""

import pytest

from harness import app


def coverage(harness):
    return harness.trace().rows("SELECT detail FROM coverage WHERE layer = 'settings' ORDER BY detail")


def test_the_trace_tells_of_settings_that_mean_nothing(harness):
    wrong = {"LAYOUTSPY_CUPTI": "ful", "LAYOUTSPY_KERNEL_ROWS": "2M", "LAYOUTSPY_MEASURE": "off", "LAYOUTSPY_STACKS": "OFF"}
    outcome = harness.same_with_and_without([app("leaky")], more_env=wrong)
    assert outcome.status == 0
    told = [detail for detail, in coverage(harness)]
    assert [line.split("=")[0] for line in told] == sorted(wrong)
    assert told[0] == "LAYOUTSPY_CUPTI='ful' is no value of it; give full, copies or off: the default was taken"
    assert harness.trace().one("SELECT COUNT(stack) FROM call") > 0  # on is the default
    for verb in ("info", "report"):
        outcome = harness.layoutspy(verb, harness.out)
        assert outcome.status == 0 and "LAYOUTSPY_STACKS='OFF'" in " ".join(outcome.out.split())


def test_right_settings_are_not_told_of(harness):
    harness.record([app("leaky")], more_env={"LAYOUTSPY_CENSUS": "exit", "LAYOUTSPY_SPOOL_MAX": "4m", "LAYOUTSPY_GRAPHS": ""})
    assert coverage(harness) == []


@pytest.mark.parametrize("hooks, says", [
    ("off", "Nothing was recorded: LAYOUTSPY_HOOKS=off: nothing but what CUPTI tells is recorded, and LAYOUTSPY_CUPTI=off"),
    ("on", None)])
def test_nothing_recorded_is_said(harness, hooks, says):
    harness.record([app("last_request")], more_env={"LAYOUTSPY_HOOKS": hooks, "LAYOUTSPY_CUPTI": "off"})
    outcome = harness.layoutspy("report", harness.out)
    text = " ".join(outcome.out.split())
    assert outcome.status == 0
    assert (says in text and "No problems" not in text) if says else "Nothing was recorded" not in text
