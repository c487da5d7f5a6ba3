"""C22: conversion kernels inside of convolutions, by the call around them: whose choice they are is
told by what the call was given."""

STEPS = 60
HOW = {"memory": "4G", "more_env": {"LAYOUTSPY_CUPTI": "full", "STANDIN_DELAY_US": "100"}}


def test_tensors_that_are_channels_first(case):
    case.play("c22_conversions", STEPS, "first", **HOW)
    found = case.found("conversion-kernels")
    assert found and all(f["evidence"]["whose_choice"] == "tensors" for f in found), case.summary()
    # Two convolutions and their gradients: of filters both, of the input only the second one's.
    # Each has two tensors that are read, and one that is written.
    assert sum(f["evidence"]["to_nhwc"] for f in found) == 5 * 2 * STEPS
    assert sum(f["evidence"]["to_nchw"] for f in found) == 5 * STEPS
    for f in found:
        case.at(f, "c22_conversions.py", "c22 forward", "step")
        assert f["evidence"]["under_call"].startswith("cudnn") and "channels_last" in f["advice"]
        assert f["evidence"]["basis"] == "GPU times"
        assert all("nchw" in d["tensors"] and "nhwc" not in d["tensors"] for d in f["evidence"]["descriptors"])
    assert 0.1 < sum(f["evidence"]["gpu_share"] for f in found) < 0.9
    assert any(f["severity"] != "info" for f in found)
    case.none("layout-mismatch", "copy-dominated", "cudnn-bypassed")


def test_tensors_that_are_channels_last(case):
    case.play("c22_conversions", STEPS, "last", **HOW)
    case.none("conversion-kernels", "layout-mismatch", "copy-dominated", "cudnn-bypassed")


def test_without_times(case):
    case.play("c22_conversions", STEPS, "first", memory="4G")
    case.none("conversion-kernels", "layout-mismatch")
    told = {s["kind"]: s["reason"] for s in case.told["skipped"]}
    assert "no times" in told["conversion-kernels"]
