"""`layoutspy oom` and `memory` after a PyTorch job that died: what they say is what PyTorch counted."""

import json
import signal

import pytest

from harness import site_matches

MIB = 1 << 20


def said(outcome):
    words = outcome.out.split()
    return {words[i]: int(words[i + 1]) for i in range(0, 6, 2)}


@pytest.mark.parametrize("how, status", [("exit", 1), ("caught", 0), ("killed", -signal.SIGKILL)])
@pytest.mark.parametrize("env", [{}, {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}],
                         ids=["native", "expandable"])
def test_story(torch, how, status, env):
    outcome = torch.go("story", how, memory="512M", more_env=env)
    assert outcome.status == status, outcome.err
    torch.settle()
    counted = said(outcome)
    story = json.loads(torch.layoutspy("oom", "--json", "trace.db").out)
    growth, = [f for f in story["findings"] if f["kind"] == "linear-growth"]
    assert growth["severity"] == "problem"
    assert site_matches(growth["site"], "workloads/story.py", "kept", "step") and "16.0 MiB a step" in growth["title"]
    event = story["events"][0]
    assert not event["recovered"] and event["requested"] == 16 * MIB and event["capacity"] == 512 * MIB
    assert (event["allocated"], event["reserved"]) == (counted["allocated"], counted["reserved"])
    assert site_matches(event["site"], "workloads/story.py", "kept", "step")
    assert event["largest_hole"] < 16 * MIB and event["device_free"] < 20 * MIB
    assert sum(h["bytes"] for h in story["holders"]) == event["allocated"]
    holder = story["holders"][0]
    assert site_matches(holder["site"], "workloads/story.py", "kept", "step")
    assert (holder["bytes"], holder["blocks"]) == (counted["count"] * 16 * MIB, counted["count"])
    assert holder["growth"] == 16 * MIB
    assert story["told"]["unaccounted"] < 16 * MIB
    assert sum(s["live"] for s in story["segments"]) == event["allocated"]
    assert sum(s["size"] for s in story["segments"]) == event["reserved"]
    if how != "killed":
        assert any("kept[" in path for s in story["census"][:counted["count"]] for path in s["paths"])

    text = torch.layoutspy("oom", "trace.db").out
    assert len(text.splitlines()) <= 40 and "OUT OF MEMORY on device 0" in text
    moment, = json.loads(torch.layoutspy("memory", "--json", "--at", "oom", "trace.db").out)["devices"][0]["moments"]
    assert (moment["allocated"], moment["reserved"]) == (counted["allocated"], counted["reserved"])
    assert moment["largest_hole"] == event["largest_hole"]
    assert moment["segments"] == story["segments"]
