"""C25: the same layer, one size beyond 2^31 elements: a convolution without groups runs a kernel for
grouped ones."""

HOW = {"memory": "16G", "more_env": {"LAYOUTSPY_CUPTI": "full", "STANDIN_DELAY_US": "200"}}
CALLS = 20


def test_beyond_32_bits(program):
    program.play_app("one_layer", 64, 63, 513, CALLS, 1, **HOW)
    found, elements = program.one("kernel-choice"), program.printed()["elements"]
    evidence = found["evidence"]
    assert found["count"] == CALLS and found["severity"] in ("warning", "problem"), program.summary()
    assert evidence["kernel"] == "conv2d_grouped_direct_kernel" and evidence["kernel_for_groups"]
    assert evidence["elements"] == elements > 2**31 and evidence["crosses_2_31"]
    assert evidence["layer"]["input"]["dims"] == [64, 128, 513, 513] and evidence["layer"]["groups"] == 1
    assert evidence["flops_per_s"] > 0 and "split the batch" in found["advice"]
    program.at(found, "one_layer.c", "convolution", "convolve")
    program.none("layout-mismatch", "conversion-kernels")


def test_within_32_bits(program):
    program.play_app("one_layer", 16, 15, 257, CALLS, 1, **HOW)
    program.none("kernel-choice", "layout-mismatch", "conversion-kernels")


def test_with_groups(program):
    program.play_app("one_layer", 16, 15, 257, CALLS, 4, **HOW)
    program.none("kernel-choice")
