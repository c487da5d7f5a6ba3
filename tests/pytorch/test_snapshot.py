"""Block by block, the trace holds what torch.cuda.memory._snapshot() says in the same run: addresses,
sizes, states and segments, at ten moments of each run; and the totals that memory_stats() says."""

import pytest

import snapshot

SETTINGS = {
    "default": "",
    "expandable": "expandable_segments:True",
    "split": "max_split_size_mb:20,roundup_power2_divisions:4,garbage_collection_threshold:0.5",
}


@pytest.mark.parametrize("run, settings", [
    ("train", "default"), ("streams", "default"), ("graph", "default"), ("devices", "default"),
    ("train", "expandable"), ("streams", "expandable"), ("graph", "expandable"), ("train", "split")])
def test_blocks_equal_the_snapshots(torch, run, settings):
    taken = torch.folder / "moments.json"
    env = {"PYTORCH_CUDA_ALLOC_CONF": SETTINGS[settings]} if SETTINGS[settings] else None
    outcome = torch.go("snapshots", run, taken, more_env=env, devices=2 if run == "devices" else 1, memory="2G")
    assert (outcome.status, outcome.out, outcome.err) == (0, "10 moments\n", ""), repr(outcome)
    torch.assert_true()
    assert torch.trace().lost() == {}

    moments = snapshot.load(taken)
    segments = [segment for moment in moments for segment in moment["segments"]]
    states = {state for segment in segments for _, _, state in segment["blocks"]}
    assert states >= {"live", "free"} | ({"pending"} if run == "streams" else set())  # else it shows little
    assert any(segment["expandable"] for segment in segments) == (settings == "expandable")
    differences = snapshot.compare(torch.out, moments)
    assert not differences, f"{len(differences)} differences\n" + "\n".join(differences[:40])
