"""The stand-in libraries: that they export what the real ones do, and answer alike.

Where a CUDA toolkit is found the real libraries take part; the rest needs none.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness import BUILD, ON_STANDIN

HERE = Path(__file__).parent
STANDINS = BUILD / "tests" / "standin" / "libs"
REAL = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "lib64"
LISTS = sorted((HERE / "symbols").glob("lib*.txt"))

sys.path.insert(0, str(HERE))
import stubs  # noqa: E402


def library_of(name):
    """The stand-in library, whose file name ends in the version of its soname."""
    found = [path for path in STANDINS.glob(f"{name}.so.*") if path.is_file()]
    assert len(found) == 1, found
    return found[0]


def fields_of(log, name):
    """The fields of each call of `name` in a truth log, with its status."""
    lines = [line.split("\t") for line in log.read_text().splitlines()]
    return [{"status": line[4], **dict(field.split("=", 1) for field in line[6:])}
            for line in lines if len(line) > 5 and line[3] == name]


def answers(folder):
    command = [sys.executable, HERE / "descriptors.py"]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True,
                          timeout=60).stdout


def test_descriptors_answer_as_the_real_ones_did():
    if not (STANDINS / "libcublasLt.so.13").exists():
        pytest.skip("the answers are those of CUDA 13's libraries")
    assert answers(STANDINS) == (HERE / "descriptors.expected").read_text()


def test_expected_answers_are_the_real_ones():
    if not (REAL / "libcudnn.so.9").exists() or not (REAL / "libcublasLt.so.13").exists():
        pytest.skip("no cuDNN 9 and cuBLASLt 13 in the toolkit")
    assert answers(REAL) == (HERE / "descriptors.expected").read_text()


def test_computing_calls(tmp_path):
    log = tmp_path / "truth"
    command = [ON_STANDIN, "--log", log, "--", sys.executable, HERE / "calls.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    product = fields_of(log, "cublasSgemm_v2")[1]
    expected = {"status": "0", "op_a": "N", "op_b": "T", "m": "4", "n": "3", "k": "2", "lda": "4",
                "ldb": "3", "ldc": "4", "a_type": "0", "batch": "1", "stream": "0"}
    assert expected.items() <= product.items()
    convolution = fields_of(log, "cudnnConvolutionForward")[0]
    expected = {"status": "0", "x_dims": "1,2,4,4", "x_strides": "32,16,4,1", "w_dims": "3,2,3,3",
                "y_dims": "1,3,4,4", "pads": "1,1", "conv_strides": "1,1", "groups": "1"}
    assert expected.items() <= convolution.items()
    assert fields_of(log, "cublasSscal_v2")[0]["status"] == "0"
    assert fields_of(log, "cudnnCTCLoss")[0]["status"] == "3000"
    reduced = fields_of(log, "ncclAllReduce")[0]
    assert {"status": "0", "count": "2", "type": "7", "op": "0", "stream": "0"}.items() <= reduced.items()
    assert [call["status"] for call in fields_of(log, "ncclCommDestroy")] == ["0", "4", "0", "4"]


@pytest.mark.parametrize("symbols", LISTS, ids=lambda path: path.stem)
def test_exports(symbols):
    head, names = stubs.read_list(symbols)
    library = library_of(symbols.stem)
    node, exported = stubs.exports(library)
    assert sorted(exported) == sorted(name for name, _ in names)
    assert node == ("-" if head["version"] == "-" else
                    library.name if head["version"] == "soname" else head["version"])


@pytest.mark.parametrize("symbols", LISTS, ids=lambda path: path.stem)
def test_lists_are_the_real_exports(symbols):
    real = REAL / library_of(symbols.stem).name
    if not real.exists():
        pytest.skip(f"no {real.name} in the toolkit")
    _, exported = stubs.exports(real)
    assert sorted(exported) == sorted(name for name, _ in stubs.read_list(symbols)[1])
