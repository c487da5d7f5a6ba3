"""What is reduced among ranks and copied out of where it was reduced; and what is not copied."""

from test_layout_controls import LAYOUT

STEPS = 20


def test_ddp_copies_out_of_its_buckets(case):
    case.play("ddp_buckets", "copied", STEPS)
    found = case.one("bucket-copy")
    size = case.printed()["gradients"]
    assert found["count"] == STEPS * 7 and found["bytes"] == STEPS * size, case.summary()
    assert found["gain_bytes"] == size, found
    assert "gradient_as_bucket_view=True" in found["advice"]
    case.none("copy-before-call", "cancelling-pair")


def test_views_of_buckets_are_not_copied(case):
    case.play("ddp_buckets", "views", STEPS)
    case.none("bucket-copy", "copy-before-call")
    assert not LAYOUT & {f["kind"] for f in case.above_info()}, case.summary()


def test_a_small_gradient_with_other_strides(case):
    """PyTorch warns of it; the copy is 2 KiB a step."""
    case.play("ddp_buckets", "strides", STEPS)
    assert case.printed()["warned"] == 1
    assert not (LAYOUT | {"bucket-copy"}) & {f["kind"] for f in case.above_info()}, case.summary()


def test_a_flat_buffer_of_its_own(case):
    case.play("ddp_buckets", "flat", STEPS)
    found = case.one("bucket-copy")
    size = case.printed()["gradients"]
    case.at(found, "ddp_buckets.py", "back out", "reduce_by_hand")
    assert found["count"] == STEPS * 7 and found["bytes"] == STEPS * size, case.summary()
