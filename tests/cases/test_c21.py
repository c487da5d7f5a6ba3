"""C21: channels last asked for in float32, where it costs conversions; and tensors of one call in
several layouts. What helps depends on the type."""

STEPS = 200
HOW = {"memory": "4G", "more_env": {"LAYOUTSPY_CUPTI": "full", "STANDIN_DELAY_US": "100"}}
WRONG = {"gemm-loop", "cudnn-bypassed", "kernel-choice", "copy-dominated", "batch-degraded", "misaligned"}


def test_channels_last_in_float32(case):
    case.play("c21_channels_last", STEPS, "last", **HOW)
    found = case.found("layout-mismatch")
    assert len(found) == 2, case.summary()
    for f in found:
        evidence = f["evidence"]
        assert (f["count"], evidence["shape"]) == (STEPS, "float32")
        # Input and filter before, output after.
        assert evidence["conversions_inside"] == 3 * STEPS
        assert (evidence["to_nchw"], evidence["to_nhwc"]) == (2 * STEPS, STEPS)
        layer = evidence["layers"][0]
        assert [layer[t]["layout"] for t in ("input", "filter", "output")] == ["nhwc"] * 3
        assert layer["input"]["dims"] == [32, 256, 7, 7] and layer["input"]["dtype"] == "float32"
        assert evidence["conversions_inside_ns"] > evidence["convolutions_ns"] > 0
        assert "float32" in f["advice"] and f["severity"] in ("warning", "problem")
    places = sorted(f["site"] for f in found)
    case.at({"site": places[0]}, "c21_channels_last.py", "c21 first", "forward")
    case.at({"site": places[1]}, "c21_channels_last.py", "c21 second", "forward")
    # The same conversions are told once more by the kernels, without a gain of their own.
    assert all(f["severity"] == "info" and f["gain_ns"] == 0 for f in case.found("conversion-kernels"))
    case.none(*WRONG)


def test_channels_first(case):
    case.play("c21_channels_last", STEPS, "first", **HOW)
    case.none("layout-mismatch", "conversion-kernels", *WRONG)
    case.only()


def test_channels_last_in_bfloat16(case):
    case.play("c21_channels_last", STEPS, "last_half", **HOW)
    case.none("layout-mismatch", "conversion-kernels", *WRONG)
    case.only()


def test_a_filter_that_lies_otherwise(case):
    """PyTorch copies the input before the first convolution of each step."""
    case.play("c21_channels_last", STEPS, "filter_last", **HOW)
    copied = [f for f in case.found("layout-mismatch") if f["evidence"]["copies_around"]]
    assert len(copied) == 1, case.summary()
    assert copied[0]["evidence"]["copied"] == {"input": STEPS}
    case.at(copied[0], "c21_channels_last.py", "c21 first", "forward")
    case.none("copy-before-call", *WRONG)


def test_an_operator_in_between(case):
    """GroupNorm wants channels first: copied for it, and copied back for the next convolution."""
    case.play("c21_channels_last", STEPS, "normalised", **HOW)
    shapes = {f["evidence"]["shape"]: f for f in case.found("layout-mismatch")}
    assert set(shapes) == {"operator", "copied"}, case.summary()
    assert shapes["operator"]["evidence"]["copies_around"] == STEPS
    assert "group_norm" in shapes["operator"]["evidence"]["operator"]
    case.at(shapes["operator"], "c21_channels_last.py", "c21 norm", "forward")
    case.at(shapes["copied"], "c21_channels_last.py", "c21 second", "forward")
    assert "group_norm" in shapes["copied"]["advice"]
    case.none("conversion-kernels", *WRONG)


def test_an_operator_of_another_model(case):
    """What another model's GroupNorm copies has no part in it."""
    case.play("c21_channels_last", STEPS, "two_models", **HOW)
    shapes = {f["evidence"]["shape"]: f for f in case.found("layout-mismatch")}
    assert set(shapes) == {"operator", "copied"}, case.summary()
    case.at(shapes["operator"], "c21_channels_last.py", "c21 last norm", "<module>")
    case.at(shapes["copied"], "c21_channels_last.py", "c21 other", "<module>")
    assert "group_norm" not in shapes["copied"]["advice"]
    case.none("conversion-kernels", *WRONG)
