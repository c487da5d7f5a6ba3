"""Copies that change a layout: the right finding, at the right line, once, and no wrong one."""

import pytest

STEPS = 20
COPIES = ("broadcast-materialised", "cancelling-pair", "persistent-strided-operand", "copy-before-call",
          "conversion-kernels")


def play(case, mode):
    case.play("layout_copies", mode, STEPS)
    return case.printed().get("copy_bytes")


def only_copies(case, kind, count=1):
    """So many findings of this kind; of the other kinds of copies none."""
    case.none(*(other for other in COPIES if other != kind))
    found = case.found(kind)
    assert len(found) == count, case.summary()
    return found


def test_mixed_layouts_copy_the_input(case):
    size = play(case, "InputConverted")
    [found] = only_copies(case, "layout-mismatch")
    case.at(found, "layout_copies.py", "input converted", "step")
    assert found["count"] == STEPS and found["bytes"] == STEPS * size
    evidence = found["evidence"]
    assert evidence["shape"] == "copied" and evidence["copied"] == {"input": STEPS}
    assert evidence["to_nhwc"] >= STEPS and "cudnn" in evidence["layers"][0]["api"]
    assert {evidence["layers"][0][t]["layout"] for t in ("input", "filter", "output")} == {"nhwc"}
    assert "channels_last" in found["advice"]


@pytest.mark.parametrize("mode, marker", [("WeightConverted", "weight converted"), ("Trained", "trained weight")])
def test_mixed_layouts_copy_the_weight(case, mode, marker):
    size = play(case, mode)
    [found] = only_copies(case, "persistent-strided-operand")
    case.at(found, "layout_copies.py", marker, "step")
    assert found["bytes"] == STEPS * size
    evidence = found["evidence"]
    assert evidence["operand"] == "w" and evidence["sources"] == 1 and evidence["steps"] >= STEPS - 1
    assert "channels_last" in found["advice"]


def test_transposed_operand_copies_nothing(case):
    play(case, "Gram")
    case.none(*COPIES)


def test_stepped_operand_is_copied_once(case):
    size = play(case, "Stepped")
    [found] = only_copies(case, "copy-before-call")
    case.at(found, "layout_copies.py", "stepped", "step")
    assert found["count"] == STEPS and found["bytes"] == STEPS * size
    assert "every 2nd element" in found["title"]
    assert not found["evidence"]["source_is_readable"] and not found["evidence"]["asked_for"]


def test_permuted_operands_are_copied_both(case):
    size = play(case, "Permuted")
    found = only_copies(case, "copy-before-call", 2)
    assert {f["evidence"]["operand"] for f in found} == {"a", "b"}
    for one in found:
        case.at(one, "layout_copies.py", "permuted", "step")
        assert one["count"] == STEPS and one["bytes"] == STEPS * size
        assert "scaled_dot_product_attention" in one["advice"]
        assert None in one["evidence"]["copy"]["as_read"]["source_strides"]


def test_a_copy_that_was_not_needed(case):
    play(case, "AskedFor")
    [found] = only_copies(case, "copy-before-call")
    case.at(found, "layout_copies.py", "asked for", "step")
    assert found["evidence"]["source_is_readable"] and found["evidence"]["asked_for"]
    assert "needs no copy" in found["advice"] and "aten::contiguous" in found["advice"]


def test_a_buffer_that_stays(case):
    size = play(case, "Merged")
    [found] = only_copies(case, "persistent-strided-operand")
    case.at(found, "layout_copies.py", "merged", "step")
    assert found["bytes"] == STEPS * size and found["evidence"]["rewritten"] == 0
    assert "register_buffer" in found["advice"]


def test_a_buffer_that_is_filled_anew(case):
    play(case, "Refilled")
    [found] = only_copies(case, "persistent-strided-operand")
    case.at(found, "layout_copies.py", "refilled", "step")
    assert found["evidence"]["rewritten"] >= STEPS - 2
    assert "register_buffer" not in found["advice"] and "layout in which it is read" in found["advice"]


def test_there_and_back(case):
    size = play(case, "ThereAndBack")
    [found] = only_copies(case, "cancelling-pair")
    case.at(found, "layout_copies.py", "and back", "step")
    assert found["count"] == STEPS and found["bytes"] == 2 * STEPS * size
    assert found["evidence"]["first_site"].split(":")[-1].split()[0] in found["advice"]


def test_there_used_and_back(case):
    play(case, "UsedBetween")
    [found] = only_copies(case, "copy-before-call")
    case.none("layout-mismatch")
    case.at(found, "layout_copies.py", "used between", "step")


def test_an_expanded_mask_is_written_out(case):
    size = play(case, "Repeated")
    [found] = only_copies(case, "broadcast-materialised")
    case.at(found, "layout_copies.py", "repeated", "step")
    assert found["evidence"]["factor"] == 32 and found["bytes"] == STEPS * size
    assert "reader" not in found["evidence"]


@pytest.mark.parametrize("mode", ["Kept", "Bias"])
def test_what_is_right(case, mode):
    play(case, mode)
    case.none(*COPIES)


def test_autocast_is_expected(case):
    play(case, "Autocast")
    case.none(*(kind for kind in COPIES if kind != "copy-before-call"))
    assert all(f["severity"] == "info" and f["evidence"]["cast"] for f in case.found("copy-before-call"))


def test_a_convolution_without_channels_last(case):
    """Its input comes channels last, and nothing of it is about the memory format of the model."""
    size = play(case, "Sequence")
    [found] = only_copies(case, "layout-mismatch")
    case.at(found, "layout_copies.py", "sequence", "step")
    assert found["count"] == STEPS and found["bytes"] == STEPS * size
    assert found["evidence"]["to_nchw"] == STEPS and found["evidence"]["layers"][0]["filter"]["layout"] == "nchw"
    assert "leave out" not in found["advice"] and "unsqueeze(2)" in found["advice"]


def test_what_it_is_told_to_do_copies_nothing(case):
    play(case, "SequenceAsImage")
    case.none("layout-mismatch", *COPIES)


def test_volumes_have_a_memory_format_of_their_own(case):
    play(case, "Volumes")
    [found] = only_copies(case, "layout-mismatch")
    case.at(found, "layout_copies.py", "volumes", "step")
    assert "channels_last_3d" in found["advice"]


def test_the_work_of_an_operator_is_no_copy_for_a_call(case):
    size = play(case, "Shuffled")
    [found] = only_copies(case, "copy-before-call")
    case.at(found, "layout_copies.py", "shuffled", "step")
    assert found["severity"] == "info" and found["gain_ns"] == 0 and found["bytes"] == STEPS * size
    assert found["evidence"]["work_of_operator"] and not found["evidence"]["asked_for"]
    assert "aten::pixel_shuffle" in found["advice"] and "channels_last" not in found["advice"]


def test_an_output_that_the_program_turns_back(case):
    play(case, "TurnedBack")
    [found] = only_copies(case, "layout-mismatch")
    case.at(found, "layout_copies.py", "turned back", "step")
    assert found["evidence"]["shape"] == "operator" and found["count"] == STEPS
    assert "Leave it out" in found["advice"] and "has no kernel" not in found["advice"]


def test_a_view_that_is_permuted_and_stepped(case):
    play(case, "Adapter")
    [found] = only_copies(case, "persistent-strided-operand")
    case.at(found, "layout_copies.py", "adapter", "step")
    assert "permuted and stepped view, every 2nd element" in found["title"]


def test_a_weight_that_could_be_read_as_it_lies(case):
    play(case, "Needless")
    [found] = only_copies(case, "persistent-strided-operand")
    case.at(found, "layout_copies.py", "needless", "step")
    assert "needs no copy" in found["advice"] and "aten::contiguous" in found["advice"]


def test_patches_are_no_batch_of_heads(case):
    size = play(case, "Patches")
    [found] = only_copies(case, "copy-before-call")
    case.at(found, "layout_copies.py", "patches", "step")
    assert found["count"] == STEPS and found["bytes"] == STEPS * size and found["evidence"]["asked_for"]
    assert "convolution of their size" in found["advice"] and "attention" not in found["advice"]
