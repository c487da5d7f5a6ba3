"""Where layouts are right, or wrong where nobody notices, nothing above info is told of them."""

import pytest

LAYOUT = {"conversion-kernels", "copy-before-call", "layout-mismatch", "cancelling-pair", "persistent-strided-operand",
          "cudnn-bypassed", "gemm-loop", "batch-degraded", "broadcast-materialised", "copy-dominated", "misaligned",
          "round-trip", "bucket-copy"}


@pytest.mark.parametrize("mode", ["nchw", "nhwc", "products", "attention", "tiny"])
def test_nothing_is_told(case, mode):
    case.play("layout_controls", mode, 20)
    assert not LAYOUT & {f["kind"] for f in case.above_info()}, case.summary()


@pytest.mark.parametrize("mode", ["products", "tiny"])
def test_not_even_as_a_note(case, mode):
    case.play("layout_controls", mode, 20)
    case.none(*LAYOUT)
