"""What `meson install` leaves, and that the library then works without a slash in LD_PRELOAD."""

import os
import subprocess

import pytest

from harness import BUILD, ON_STANDIN, app
from truth import Trace


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    root = tmp_path_factory.mktemp("installed")
    subprocess.run(["meson", "install", "-C", str(BUILD), "--no-rebuild", "--quiet"], check=True,
                   env={**os.environ, "DESTDIR": str(root)}, stdout=subprocess.DEVNULL)
    return root


def find(root, pattern):
    found = sorted(path for path in root.rglob(pattern) if path.is_file())
    assert len(found) == 1, f"{pattern}: {found}"
    return found[0]


def test_installs_the_library_the_program_and_the_page(installed):
    files = sorted(path.name for path in installed.rglob("*") if path.is_file() and path.suffix != ".md")
    assert files == ["layoutspy", "layoutspy.1", "liblayoutspy-dlsym.so", "liblayoutspy.so"]


def test_no_slash_is_needed(installed, tmp_path):
    library = find(installed, "liblayoutspy.so")
    env = {k: v for k, v in os.environ.items() if not k.startswith("LAYOUTSPY_")}
    env.update(LD_LIBRARY_PATH=str(library.parent), LD_PRELOAD="liblayoutspy.so", LAYOUTSPY_BUILD=str(BUILD),
               LAYOUTSPY_OUT=str(tmp_path / "t.db"))
    subprocess.run([str(ON_STANDIN), app("leaky")], check=True, env=env, stdout=subprocess.DEVNULL)
    command = find(installed, "layoutspy")
    info = subprocess.run([str(command), "info", str(tmp_path / "t.db")], capture_output=True, text=True)
    assert info.returncode == 0, info.stderr
    trace = Trace(tmp_path / "t.db")
    assert trace.one("SELECT state FROM coverage WHERE layer = 'collector'") == "on"
    assert trace.one("SELECT COUNT(*) FROM call") > 0
    trace.close()


def test_installed_run_finds_its_library(installed, tmp_path):
    command = find(installed, "layoutspy")
    done = subprocess.run([str(command), "run", "-q", "-o", str(tmp_path / "t.db"), "--", str(ON_STANDIN),
                           app("leaky")], env={**os.environ, "LAYOUTSPY_BUILD": str(BUILD)}, capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "t.db").stat().st_size > 0
