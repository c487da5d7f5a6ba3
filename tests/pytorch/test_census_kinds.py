"""What the census asks of PyTorch's tensors, and what it does not: kinds that do not say, hooks of graphs
that are not called, errors that come in hundreds. Read from the spool itself."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "python"))

import census_spool  # noqa: E402
from census_spool import COMPLETE, CUT, OOM  # noqa: E402

SCRIPTS = HERE / "census"


def go(torch, name):
    """Runs the script; it must do as without us. Returns its output and its censuses."""
    quiet = {"LAYOUTSPY_COLLECTOR": "none"}
    outcome = torch.run(torch.argv(SCRIPTS / f"{name}.py"), torch.environment(**quiet), timeout=torch.timeout,
                        memory="2G", log=False)
    without = torch.go_plain(SCRIPTS / f"{name}.py", memory="2G")
    assert outcome.same_as(without), f"with layoutspy: {outcome}\nwithout: {without}"
    assert outcome.status == 0, repr(outcome)
    return outcome.out, census_spool.read(Path(f"{torch.out}.spool"))


def test_kinds_of_tensors(torch):
    out, censuses = go(torch, "kinds")
    assert out == "[] 0 True\n", "nothing of the script's was called, nothing was made"
    assert [(c.reason, c.state) for c in censuses] == [(OOM, COMPLETE)]
    census, paths = censuses[0], censuses[0].paths()
    for name in ("fake", "meta", "wrapper", "empty", "given_back"):
        assert name not in paths
    expected = {"subclass": ((101,), "float32"), "wrapper.inner": ((102,), "float32"), "lazy": ((103,), "float32"),
                "expanded": ((104, 7), "float32"), "permuted": ((7, 3, 5), "float32"), "half": ((106,), "bfloat16"),
                "complex_": ((107,), "complex64"), "flags": ((108,), "bool"), "scalar": ((), "float32"),
                "transposed": ((6, 4), "float32"), "many_dims": ((1,) * 16, "float32")}
    for path, (shape, dtype) in expected.items():
        assert (census.by_path(path).shape, census.by_path(path).dtype) == (shape, dtype), path
    assert census.by_path("subclass").cls == "__main__.Subclass"
    assert census.by_path("parameter").cls == "torch.nn.parameter.Parameter"
    assert census.by_path("expanded").stride == (1, 0) and census.by_path("permuted").stride == (1, 35, 7)
    contiguous = {p for p in expected if "contiguous" in census.by_path(p).flags}
    assert contiguous == set(expected) - {"expanded", "permuted", "transposed"}
    assert {p for p in ("no_leaf", "kept_grad", "parameter") if "requires_grad" in census.by_path(p).flags} == \
        {"no_leaf", "kept_grad"}
    assert census.by_path("kept_grad.grad").shape == (110,)


def test_hooks_of_graphs_are_not_called(torch):
    out, censuses = go(torch, "saved")
    assert out.startswith("[]\n")
    census = censuses[0]
    assert census.state == COMPLETE
    held = {name: census.storage_of(name).held_by_graph for name in
            ("checkpointed", "hooked", "on_host", "own", "over", "plain")}
    assert held == {"checkpointed": 0, "hooked": 4000, "on_host": 0, "own": 8000, "over": 0, "plain": 4000}
    ways = {t.paths[0]: t for t in census.tensors() if "graph" in t.flags and t.paths != ["x"]}
    assert set(ways) == {"hooked.grad_fn...SinBackward0._saved_self.tensor", "plain.grad_fn...SinBackward0._saved_self",
                         "own.grad_fn...KeepsBackward._saved_tensors", "own.grad_fn...KeepsBackward.kept['k'][0]"}
    assert all(t.bytes == 4000 for t in ways.values())


def test_graphs_are_left_alone_while_autograd_works(torch):
    _, censuses = go(torch, "backward_elsewhere")
    census = censuses[0]
    assert (census.state, census.text.split(":")[0]) == (CUT, "autograd was at work in some thread")
    assert {"kept", "loss"} <= set(census.paths()) and census.nodes == 0


def test_hundreds_of_errors(torch):
    """A loop of retries is not held up by a census each time."""
    out, censuses = go(torch, "retries")
    assert out == "0\n"
    assert 1 <= len(censuses) <= 12
    assert {c.state for c in censuses} <= {COMPLETE, CUT}
    assert all("kept" in c.paths() for c in censuses)
    assert len({c.oom_ticks for c in censuses}) == len(censuses), "each of another error"


