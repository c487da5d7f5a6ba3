"""What all tests share: where the build is, and how to run a program with and without layoutspy.

Environment: LAYOUTSPY_BUILD names the build directory (default: build in the tree),
LAYOUTSPY_ASAN_BUILD a sanitized one, LAYOUTSPY_LONG=1 asks for the long run. Every test works in its own folder, so any number may run side by side.
"""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from harness import BUILD, Harness  # noqa: E402


@pytest.fixture
def harness(tmp_path):
    for needed in (BUILD / "preload" / "liblayoutspy.so", BUILD / "analyzer" / "layoutspy"):
        if not needed.exists():
            pytest.fail(f"{needed} is not built")
    return Harness(tmp_path)
