"""C24: a convolution that goes past cuDNN: patches laid out in memory, and products."""

STEPS = 20
HOW = {"memory": "4G", "more_env": {"LAYOUTSPY_CUPTI": "full"}}


def test_bypassed(case):
    case.play("c24_conv3d", STEPS, "bypassed", **HOW)
    found, evidence = case.one("cudnn-bypassed"), case.one("cudnn-bypassed")["evidence"]
    assert found["severity"] in ("warning", "problem"), case.summary()
    case.at(found, "c24_conv3d.py", "c24 convolution", "run")
    assert evidence["dtype"] == "bfloat16" and "vol2col" in evidence["kernel"]
    assert evidence["columns_bytes"] == case.printed()["columns"] == found["gain_bytes"]
    assert found["count"] == STEPS and evidence["launches"] == 2 * STEPS  # one for each sample
    # The same operator in float32 did go to cuDNN.
    assert evidence["other_dtype"] == "float32" and evidence["cudnn_calls_in_other_dtype"] == STEPS
    assert "float32" in found["advice"]


def test_by_cudnn(case):
    case.play("c24_conv3d", STEPS, "cudnn", **HOW)
    case.none("cudnn-bypassed")


def test_unfold_is_no_convolution(case):
    case.play("c24_conv3d", STEPS, "unfold", **HOW)
    case.none("cudnn-bypassed")
