"""liblayoutspy-dlsym.so: driver functions that a program looks up are recorded, and no lookup of
anybody else's changes."""

import resource
import subprocess
from collections import Counter

import pytest

from harness import APPS, BUILD, LIBRARY, ROOT, app
from truth import parse_log

DLSYM = BUILD / "dlsym" / "liblayoutspy-dlsym.so"
BOTH = [f"{DLSYM}:{LIBRARY}", f"{LIBRARY}:{DLSYM}"]


@pytest.mark.parametrize("preload", BOTH)
def test_what_is_looked_up_is_recorded(harness, preload):
    without = harness.plain([app("driver_lookup")], preload_standin=False)
    outcome = harness.record([app("driver_lookup")], more_env={"LD_PRELOAD": preload}, preload_standin=False)
    assert (outcome.status, outcome.out, outcome.err) == (0, "done\n", "") == (without.status, without.out, without.err)
    harness.assert_true()
    process, = [p for p in parse_log(harness.log) if p.calls]
    assert Counter(call.name for call in process.calls) == {
        "cuDevicePrimaryCtxRetain": 1, "cuMemAlloc_v2": 2, "cuMemcpyHtoD_v2": 1, "cuMemFree_v2": 1}


def test_alone_it_passes_everything_on(harness):
    """Without liblayoutspy.so, and without a recording."""
    for preload in (str(DLSYM), BOTH[0]):
        env = harness.environment(out=None, LD_PRELOAD=preload, LAYOUTSPY_DISABLE="1")
        outcome = harness.run([app("driver_lookup")], env, preload_standin=False)
        assert (outcome.status, outcome.out, outcome.err) == (0, "done\n", "")


@pytest.mark.parametrize("preload", BOTH)
def test_a_library_that_looks_its_own_names_up(harness, preload):
    outcome = harness.record([app("driver_lookup"), APPS / "libcuda_front.so"], more_env={"LD_PRELOAD": preload},
                             preload_standin=False)
    assert (outcome.status, outcome.out, outcome.err) == (0, "front: 42\ndone\n", "")
    harness.assert_true()


@pytest.mark.parametrize("order", ["{dlsym}:{ours}:{second}", "{second}:{dlsym}:{ours}", "{dlsym}:{second}:{ours}"])
def test_a_second_interposer(harness, order):
    """RTLD_NEXT is told by who asks: the second one never finds itself."""
    preload = order.format(dlsym=DLSYM, ours=LIBRARY, second=APPS / "libsecond.so")
    outcome = harness.record([app("small_copies")], more_env={"LD_PRELOAD": preload})
    without = harness.plain([app("small_copies")])
    assert (outcome.status, outcome.out) == (without.status, without.out)
    harness.assert_true()
    calls = sum(call.name == "cudaMalloc" for p in parse_log(harness.log) for call in p.calls)
    assert outcome.err.endswith(f"second: {calls}\n") and calls > 0


def test_import_torch(harness):
    """The lookups of a large program end: 10 s of processor time are far more than it needs."""
    done = subprocess.run([str(ROOT / "tests" / "pytorch" / "env")], capture_output=True, text=True)
    python = done.stdout.splitlines()[-1] if done.returncode == 0 and done.stdout else None
    if not python:
        pytest.skip("no PyTorch")
    command = harness.command([python, "-c", "import torch; print(torch.ones(3, device='cuda').shape)"])
    env = harness.environment(LD_PRELOAD=BOTH[0])
    ended = subprocess.run(command, cwd=harness.folder, env=env, capture_output=True, text=True, timeout=300,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (20, 20)))
    harness.settle()
    assert (ended.returncode, ended.stdout) == (0, "torch.Size([3])\n"), ended.stderr
