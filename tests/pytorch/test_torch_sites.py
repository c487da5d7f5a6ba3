"""Who is named: the innermost line of the user's own files; where only installed packages run, that
of the package; in autograd's threads the forward line, or what it is the backward of."""

import shutil

import pytest

from harness import site_matches
from torch_harness import HERE, TorchHarness

SITES = HERE / "sites"

# size of a block -> file, marker and function of the line that made it
USER = {
    110000: ("user_app.py", "app direct", "direct"),
    120000: ("user_ops.py", "ops make", "make"),
    130000: ("user_ops.py", "ops wrapped", "wrapped"),
    140000: ("user_ops.py", "ops generator", "generate"),
    150000: ("user_app.py", "app lambda", "<lambda>"),
    160000: ("user_app.py", "app comprehension", "(<listcomp>|anonymous)"),  # inlined since 3.12
    170000: ("user_app.py", "app coroutine", "coroutine"),
    180000: ("user_app.py", "app engine", "by_package"),
    185000: ("fakellm/engine.py", "fakellm block", "make_block"),  # a thread that no frame of the user's is in
    190000: ("user_app.py", "app thread", "in_thread"),
    210000: ("user_ops.py", "ops backward", "backward"),  # Python, in an autograd thread
}
SERVED = {
    70000: ("fakellm/engine.py", "fakellm block", "make_block"),
    80000: ("fakellm/engine.py", "fakellm block", "make_block"),
    90000: ("fakellm/engine.py", "fakellm block", "make_block"),
}


def record(folder, python, *arguments):
    """Runs with the package installed and the user's own files in a folder of theirs."""
    torch = TorchHarness(folder, python)
    packages = folder / "lib" / "site-packages"
    shutil.copytree(SITES / "fakellm", packages / "fakellm")
    for name in ("user_app.py", "user_ops.py", "user_backward.py"):
        shutil.copy(SITES / name, folder)
    outcome = torch.record([python, *arguments], more_env={"PYTHONPATH": packages}, timeout=torch.timeout)
    torch.assert_true()
    torch.outcome = outcome
    return torch


@pytest.fixture(scope="module")
def user(torch_python, tmp_path_factory):
    return record(tmp_path_factory.mktemp("user"), torch_python, "user_app.py")


@pytest.fixture(scope="module")
def served(torch_python, tmp_path_factory):
    return record(tmp_path_factory.mktemp("served"), torch_python, "-m", "fakellm.serve")


def rounded(size):
    return (size + 511) // 512 * 512


def sites_of_blocks(torch, size):
    return [row["site"] for row in torch.trace().rows("SELECT site FROM block_lifetime WHERE size = ?", rounded(size))]


def at(site, file, marker, function):
    return site_matches(site, f"sites/{file}", marker, function)


def test_scripts_run(user, served):
    assert (user.outcome.status, user.outcome.out, user.outcome.err) == (0, "12 kept\n", "")
    assert (served.outcome.status, served.outcome.out, served.outcome.err) == (0, "served (30, 10)\n", "")


@pytest.mark.parametrize("size", USER)
def test_the_users_innermost_line(user, size):
    found = sites_of_blocks(user, size)
    assert found and all(at(site, *USER[size]) for site in found), found


@pytest.mark.parametrize("size", SERVED)
def test_a_packages_own_line_where_nothing_is_the_users(served, size):
    found = sites_of_blocks(served, size)
    assert found and all(at(site, *SERVED[size]) for site in found), found


def test_a_packages_copy(served):
    sites = [row["site"] for row in served.trace().rows("SELECT site FROM pageable_copy WHERE bytes = ?", 30 * 100 * 4)]
    assert len(sites) == 1 and at(sites[0], "fakellm/engine.py", "fakellm tokens", "generate"), sites


def test_forward_and_optimizer(user):
    """A step's forward blocks name the model's line, the optimizer's state the user's call of step."""
    hidden = sites_of_blocks(user, 20 * 500 * 4)
    assert sum(at(site, "user_app.py", "app forward", "forward") for site in hidden) >= 6  # linear and relu, 3 steps
    state = [site for site in sites_of_blocks(user, 500 * 300 * 4) if at(site, "user_app.py", "app optimizer", "train")]
    assert len(state) >= 2  # Adam's two


def test_operators(user):
    """The operator that the line called, by PyTorch's name for it."""
    rows = user.trace().rows("SELECT b.site, s.operator FROM block_lifetime AS b JOIN stack_site AS s ON s.id = b.stack "
                             "WHERE size = ? ORDER BY start_ns", rounded(400 * 150 * 4))
    assert all(at(row["site"], "user_app.py", "app contiguous", "copied") for row in rows)
    assert [row["operator"] for row in rows] == ["aten::zeros", "aten::contiguous"]


def test_autograds_threads(user):
    """Blocks of its threads: the line of the forward that they belong to, or of a backward in Python."""
    workers = "SELECT DISTINCT thread FROM block_lifetime WHERE size = ?"
    found = [row["site"] for row in user.trace().rows(
        f"SELECT site FROM block_lifetime WHERE thread IN ({workers}) AND size <> ?", rounded(210000), rounded(210000))]
    assert len(found) > 10
    lines = [("user_app.py", "app forward", "forward"), ("user_app.py", "app sum", "forward"),
             ("user_app.py", "app square", "train"), ("user_ops.py", "ops grad", "backward")]
    for site in found:
        known = any(at(site, *line) for line in lines)
        assert known or site.startswith("backward of ") or site == "site unknown", site
    named = sum(any(at(site, *line) for line in lines) for site in found)
    assert named >= len(found) * 3 // 4, f"{named} of {len(found)}: {sorted(set(found))}"


BACKWARD = {
    "aten::sigmoid_backward": ("backward sigmoid", "one"), "aten::tanh_backward": ("backward tanh", "two"),
    "aten::elu_backward": ("backward elu", "inner"), "aten::softplus_backward": ("backward softplus", "outer"),
    "aten::threshold_backward": ("backward softplus", "outer"), "aten::silu_backward": ("backward silu", "main"),
}


def test_backward_work_is_its_own_forwards(torch_python, tmp_path):
    """Nodes of several threads have the same numbers; so have those that autograd makes itself."""
    torch = record(tmp_path, torch_python, "user_backward.py")
    assert (torch.outcome.status, torch.outcome.out) == (0, "done 30000\n"), repr(torch.outcome)
    rows = torch.trace().rows("""SELECT stack_site.operator AS operator, block_lifetime.site AS site, COUNT(*) AS count
        FROM block_lifetime JOIN stack_site ON stack_site.id = block_lifetime.stack GROUP BY 1, 2""")
    known = set()
    for row in rows:
        if row["operator"] in BACKWARD and not row["site"].startswith("backward"):  # made by autograd itself
            marker, function = BACKWARD[row["operator"]]
            assert at(row["site"], "user_backward.py", marker, function), (row["operator"], row["site"], row["count"])
            known.add(row["operator"])
    assert known >= set(BACKWARD) - {"aten::silu_backward"}, known
    decoys = [row for row in rows if at(row["site"], "user_backward.py", "backward decoy", "decoy")]
    assert sum(row["count"] for row in decoys) == 60, "only the forward made those"
