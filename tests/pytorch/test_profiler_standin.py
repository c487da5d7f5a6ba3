"""torch.profiler on the simulated device: Kineto is a client of CUPTI that the simulated one must satisfy."""

import json
import os
import re
import subprocess
from collections import Counter

import pytest

from harness import BUILD, ON_STANDIN
from torch_harness import QUIET

SCRIPT = """
import ctypes, json, sys
import torch
from torch.profiler import ProfilerActivity, profile

x = torch.randn(256, 256)
weight = x.cuda()
big = torch.ones(1 << 22, device="cuda")
torch.cuda.synchronize()


def step():
    a = x.cuda()
    b = (a @ weight).relu()
    big.sum()
    b.cpu()
    torch.cuda.synchronize()


def session(path):
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
        for _ in range(4):
            step()
    averages = {a.key: (a.count, a.device_time_total) for a in p.key_averages()}
    assert p.key_averages().table(sort_by="cuda_time_total", row_limit=5)
    p.export_chrome_trace(path)
    return averages


print(json.dumps([session(f"{sys.argv[1]}/trace{i}.json") for i in range(2)]))
"""


@pytest.fixture(scope="module")
def profiled(tmp_path_factory, torch_python):
    if not (BUILD / "tests" / "standin" / "libs" / "libcupti.so.13").exists():
        pytest.skip("this PyTorch wants CUDA 13's libraries")
    folder = tmp_path_factory.mktemp("profiled")
    script = folder / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([ON_STANDIN, "--log", folder / "truth", "--", torch_python, script, folder],
                          env={**os.environ, **QUIET}, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout.splitlines()[-1])


def events(folder, number):
    return json.loads((folder / f"trace{number}.json").read_text())["traceEvents"]


@pytest.mark.parametrize("number", [0, 1])
def test_work_is_told(profiled, number):
    folder, _ = profiled
    found = events(folder, number)
    kinds = Counter(e.get("cat") for e in found)
    assert kinds["gpu_memcpy"] == 8
    assert kinds["kernel"] == 12
    names = Counter(e["name"] for e in found if e.get("cat") == "gpu_memcpy")
    assert names == {"Memcpy HtoD (Pageable -> Device)": 4, "Memcpy DtoH (Device -> Pageable)": 4}
    # A sum that several blocks make counts them in a semaphore, which is set first.
    memsets = [e for e in found if e.get("cat") == "gpu_memset"]
    assert len(memsets) == 4 and {e["name"] for e in memsets} == {"Memset (Device)"}


@pytest.mark.parametrize("number", [0, 1])
def test_times_and_links(profiled, number):
    folder, _ = profiled
    found = events(folder, number)
    calls = {e["args"]["correlation"]: e for e in found if e.get("cat") in ("cuda_runtime", "cuda_driver")}
    operators = [e for e in found if e.get("cat") == "cpu_op"]
    first, last = min(e["ts"] for e in operators), max(e["ts"] + e["dur"] for e in operators)
    gpu = [e for e in found if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    for e in gpu:
        call = calls[e["args"]["correlation"]]
        assert e["ts"] >= call["ts"] - 1 and first <= e["ts"] and e["ts"] + e["dur"] <= last + 5000
        assert 0 < e["dur"] < 10000
        assert e["args"]["External id"] in {o["args"]["External id"] for o in operators}
    kernels = [e for e in gpu if e["cat"] == "kernel"]
    # us: the shortest that a kernel takes here, and the longest, whatever it moves
    assert all(1.5 <= e["dur"] <= 5000.5 for e in kernels)
    assert min(e["dur"] for e in kernels) <= 2.5


def test_averages(profiled):
    _, sessions = profiled
    for averages in sessions:
        assert averages["aten::mm"][0] == 4 and averages["aten::mm"][1] > 0
        assert averages["Memcpy HtoD (Pageable -> Device)"][0] == 4


def test_kineto_is_a_well_behaved_client(profiled):
    folder, _ = profiled
    notes = [line for line in (folder / "truth").read_text().splitlines() if line.startswith("#")]
    assert not [n for n in notes if n.startswith("#misuse")]
    assert all("module=libtorch_cpu.so" in n for n in notes if re.match(r"#cupti \d+ (subscribe|register|buffer)", n))
    assert sum("subscribe" in n for n in notes) == 1
