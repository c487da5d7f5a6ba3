"""The tensor census: which Python objects hold device memory. Judged by what each script says of itself."""

import json
import signal
import time

import pytest

from harness import wait_until
from torch_harness import HERE, TorchHarness

SCRIPTS = HERE / "census"
COMPLETE, CUT, FAILED = 2, 3, 4
OOM, ASKED, EXIT = 1, 2, 3
GLOBAL, LOCAL, RAISED, GRAPH, LOST = 1, 2, 4, 8, 16


class Census:
    """One census of a trace."""

    def __init__(self, trace, number=None):
        rows = trace.rows("SELECT * FROM census WHERE id = IFNULL(?, id) ORDER BY id", number)
        assert len(rows) == 1, [dict(r) for r in rows]
        self.row, self.trace = rows[0], trace
        self.id, self.state, self.reason = (self.row[k] for k in ("id", "state", "reason"))
        self.storages = {r["address"]: r for r in trace.rows("SELECT * FROM census_storage WHERE census = ?", self.id)}
        self.by_storage = {r["id"]: r["address"] for r in self.storages.values()}
        self.tensors = trace.rows("SELECT * FROM census_tensor WHERE census = ? ORDER BY id", self.id)
        self.paths = {}
        for row in trace.rows("SELECT * FROM census_path WHERE census = ? ORDER BY rowid", self.id):
            self.paths.setdefault(row["tensor"], []).append(row["path"])

    def at(self, address):
        """The tensors of a storage."""
        return [t for t in self.tensors if self.by_storage[t["storage"]] == address]

    def paths_of(self, address):
        return [p for t in self.at(address) for p in self.paths.get(t["id"], [])]

    def held(self, address):
        held = 0
        for t in self.at(address):
            held |= t["held"]
        return held

    def listing(self):
        """As listing.py has it: of tensors that are Python objects."""
        return {"storages": sorted([a, s["bytes"]] for a, s in self.storages.items()),
                "tensors": sorted([self.by_storage[t["storage"]], json.loads(t["dims"]), json.loads(t["strides"])]
                                  for t in self.tensors if not t["held"] & GRAPH or t["held"] & ~GRAPH)}


def said(outcome):
    """What the script printed, in one dictionary."""
    assert outcome.status == 0, repr(outcome)
    out = {}
    for line in outcome.out.splitlines():
        out = json.loads(line) | out  # what was said first
    return out


TRIES = 5  # where others keep the machine busy, two seconds may not be enough for a census


def go(folder, python, name, *arguments, **how):
    torch = TorchHarness(folder, python)
    how.setdefault("memory", "4G")
    for _ in range(TRIES):
        torch.out.unlink(missing_ok=True)
        torch.outcome = torch.go(SCRIPTS / f"{name}.py", *arguments, **how)
        if not torch.trace().one("SELECT COUNT(*) FROM census WHERE detail = 'its time ran out'"):
            break
    return torch


@pytest.fixture(scope="module")
def places(torch_python, tmp_path_factory):
    torch = go(tmp_path_factory.mktemp("places"), torch_python, "places", "oom")
    torch.said = said(torch.outcome)
    torch.census = Census(torch.trace())
    return torch


# ---- what it finds --------------------------------------------------------------------------


def test_complete_and_of_the_oom(places):
    row = places.census.row
    assert (row["state"], row["reason"], row["detail"]) == (COMPLETE, OOM, None)
    oom, = places.trace().rows("SELECT * FROM oom")
    assert row["oom"] == oom["id"] and row["ts_ns"] >= oom["ts_ns"] and row["end_ns"] >= row["ts_ns"]
    assert row["objects"] > 10_000
    assert row["tensors"] >= len(places.said["tensors"])


def test_storages_are_the_scripts_own(places):
    got, want = places.census.listing()["storages"], places.said["storages"]
    assert [list(s) for s in got] == want, (set(map(tuple, got)) ^ set(map(tuple, want)))


def test_tensors_are_the_scripts_own(places):
    assert places.census.listing()["tensors"] == places.said["tensors"]


def test_every_place_has_its_path(places):
    wrong = {}
    for name, (address, words) in places.said["places"].items():
        paths = places.census.paths_of(address)
        if not any(all(word in path for word in words) for path in paths):
            wrong[name] = (words, paths)
    assert not wrong, wrong


@pytest.mark.parametrize("name, path", [
    ("parameter", "model.layers.3.qkv.weight"),
    ("list", "losses[10]"),
    ("dataclass", "state.buffer"),
    ("slots", "slots.kept"),
    ("class attribute", "Class.shared"),
])
def test_paths_are_as_one_writes_them(places, name, path):
    paths = places.census.paths_of(places.said["places"][name][0])
    assert any(p == path or p.endswith("." + path) for p in paths), paths


def test_who_holds_it(places):
    held = {name: places.census.held(address) for name, (address, _) in places.said["places"].items()}
    assert held["parameter"] & GLOBAL and held["list"] & GLOBAL
    assert held["local"] & LOCAL and not held["local"] & (GLOBAL | RAISED | LOST)
    assert not any(h & LOST for h in held.values()), held


def test_views_and_strides(places):
    census, said_places = places.census, places.said["places"]
    view, = [t for t in census.at(said_places["view"][0]) if t["paths"]]
    assert (json.loads(view["dims"]), view["bytes"], view["view"], view["offset"]) == ([10], 40, 1, 10)
    assert census.storages[said_places["view"][0]]["bytes"] > 40
    strided = census.at(said_places["strided"][0])
    assert any(json.loads(t["strides"]) == [1, 2] and not t["contiguous"] for t in strided)
    weight, = [t for t in census.at(said_places["parameter"][0]) if t["held"] & GLOBAL]
    assert weight["requires_grad"] and weight["contiguous"] and not weight["view"]
    assert weight["dtype"] == "float32" and weight["class"].endswith("Parameter")
    assert json.loads(weight["dims"]) == [192, 64] and weight["bytes"] == 192 * 64 * 4


def test_command_shows_it(places):
    outcome = places.layoutspy("census", places.out)
    assert outcome.status == 0 and outcome.err == ""
    assert "model.layers.*.qkv.weight" in outcome.out and "after an out-of-memory error" in outcome.out
    shown, = json.loads(places.layoutspy("census", "--json", places.out).out)["census"]
    assert sorted([s["address"], s["bytes"]] for s in shown["storages"]) == places.said["storages"]
    sites = [s["site"] for s in shown["storages"] if "losses[10]" in " ".join(s["paths"])]
    assert len(sites) == 1 and "places.py:" in sites[0] and sites[0].endswith(" made"), sites


def test_nothing_of_a_healthy_program_is_above_info(places):
    kinds = [f for f in places.findings(above_info=True) if f["kind"] == "storage-held-by-views"]
    assert not kinds, kinds


# ---- what it leaves alone -------------------------------------------------------------------


def test_objects_that_misbehave(tmp_path, torch_python):
    torch = go(tmp_path, torch_python, "misbehave")
    out = said(torch.outcome)
    assert out["touched"] == []
    census = Census(torch.trace())
    assert census.state == COMPLETE, dict(census.row)
    missing = {name for name, address in out["kept"].items() if not census.paths_of(address)}
    assert missing <= {"deep"}, missing  # below 50,000 lists: found, its path is longer than what is told
    assert out["kept"]["deep"] in census.storages


def test_graph(tmp_path, torch_python):
    """Bytes that graphs hold are what deleting the tensors gives back; hooks and recomputation do not run."""
    torch = go(tmp_path, torch_python, "graph")
    out = said(torch.outcome)
    before, after = out["calls"]
    assert before == after
    census = Census(torch.trace())
    assert census.state == COMPLETE and census.row["nodes"] > 50
    saved, drops = out["saved"], out["drops"]
    losses = sum(census.storages[a]["held_by_graph"] for a in saved["losses"])
    assert losses == drops["losses"] - 5 * 512
    assert all(census.storages[a]["held_by_graph"] == losses // 5 for a in saved["losses"])
    for name in ("total", "deep"):
        assert census.storages[saved[name]]["held_by_graph"] == drops[name] - 512, name
    for name in ("checkpointed", "hooked", "custom"):  # what hooks hold may be theirs alone to know
        assert 0 <= census.storages[saved[name]]["held_by_graph"] <= drops[name] - 512, name
    for address in out["weights"]:
        assert census.storages[address]["held_by_graph"] == 0


def test_no_reference_is_left(tmp_path, torch_python):
    torch = go(tmp_path, torch_python, "release")
    plain = torch.go_plain(SCRIPTS / "release.py", memory="4G")
    assert torch.outcome.status == 0 and torch.outcome.same_as(plain), f"{torch.outcome}\n{plain}"
    assert torch.trace().one("SELECT COUNT(*) FROM census WHERE state = 2") >= 1


# ---- when it is made ------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["caught", "retried", "thread", "backward", "silent"])
def test_after_each_way_to_run_out(tmp_path, torch_python, how):
    torch = go(tmp_path, torch_python, "ends", how)
    for _ in range(5):  # PyTorch's threads of backward passes may abort the program at its end
        plain = torch.go_plain(SCRIPTS / "ends.py", how, memory="4G")
        if plain.status == 0:
            break
    assert torch.outcome.status == 0 and torch.outcome.err == plain.err
    out = said(torch.outcome)
    assert {k: v for k, v in out.items() if k in ("text", "type")} == \
        {k: v for k, v in said(plain).items() if k in ("text", "type")}
    trace = torch.trace()
    first = trace.one("SELECT MIN(id) FROM census")
    census = Census(trace, first)
    assert (census.reason, census.state) == (OOM, COMPLETE), dict(census.row)
    assert out["weights"] in census.storages and "weights" in census.paths_of(out["weights"])[0]
    ooms = trace.rows("SELECT id FROM oom ORDER BY id")
    assert census.row["oom"] in [r["id"] for r in ooms]
    if how in ("caught", "retried", "thread"):
        # Of a thread that has ended nothing is left but the exception, which holds its own frame.
        assert census.held(out["activation"]) & (LOST if how == "thread" else LOCAL | RAISED)
        assert any("activation" in p for p in census.paths_of(out["activation"]))
    if how == "caught":
        assert census.held(out["activation"]) & RAISED
    assert trace.one("SELECT COUNT(*) FROM census") <= len(ooms)


def test_uncaught(tmp_path, torch_python):
    """The exception goes out as it would; what its frames hold is found all the same."""
    torch = go(tmp_path, torch_python, "ends", "uncaught")
    plain = torch.go_plain(SCRIPTS / "ends.py", "uncaught", memory="4G")
    assert torch.outcome.status == plain.status == 1 and torch.outcome.err == plain.err
    activation = json.loads(torch.outcome.out.splitlines()[1])["activation"]
    census = Census(torch.trace())
    assert (census.reason, census.state) == (OOM, COMPLETE), dict(census.row)
    assert census.held(activation) & RAISED, census.paths_of(activation)


def test_at_exit_where_asked(tmp_path, torch_python):
    torch = go(tmp_path, torch_python, "places", more_env={"LAYOUTSPY_CENSUS": "exit"})
    out = said(torch.outcome)
    census = Census(torch.trace())
    assert (census.reason, census.state) == (EXIT, COMPLETE), dict(census.row)
    globals_held = {a for name, (a, _) in out["places"].items()}
    assert globals_held <= set(census.storages)


def test_not_at_exit_by_itself(tmp_path, torch_python):
    torch = go(tmp_path, torch_python, "places")
    said(torch.outcome)
    assert torch.trace().one("SELECT COUNT(*) FROM census") == 0
    skipped = {s["kind"]: s["reason"] for s in torch.report()["skipped"]}
    assert "no census" in skipped["storage-held-by-views"]


def test_switched_off(tmp_path, torch_python):
    torch = go(tmp_path, torch_python, "ends", "caught", more_env={"LAYOUTSPY_CENSUS": "off"})
    said(torch.outcome)
    trace = torch.trace()
    assert trace.one("SELECT COUNT(*) FROM census WHERE state <> 4") == 0
    assert trace.one("SELECT COUNT(*) FROM oom") == 1


# ---- asking a running program ---------------------------------------------------------------


@pytest.fixture
def loop(tmp_path, torch_python):
    torch = TorchHarness(tmp_path, torch_python)
    stop = tmp_path / "stop"
    process = torch.start(torch.argv(SCRIPTS / "live.py", stop), torch.environment(), memory="1G")
    torch.process = process
    torch.said = json.loads(process.stdout.readline())
    yield torch
    stop.touch()
    if process.poll() is None:
        process.wait(30)
    process.stdout.close()
    process.stderr.close()


def test_asked_of_a_running_loop(loop):
    pid = loop.process.pid
    for asked in range(1, TRIES + 1):
        first = loop.layoutspy("census", "--json", pid)
        assert (first.status, first.err) == (0, ""), repr(first)
        shown, = json.loads(first.out)["census"]
        assert (shown["id"], shown["reason"]) == (asked, "asked")
        if shown["detail"] != "its time ran out":
            break
    assert shown["state"] == "complete"
    addresses = {s["address"]: s for s in shown["storages"]}
    fixed = [s for s in loop.said["storages"] if s[1] == 128 * 128 * 4]
    assert len(fixed) == 12  # weights, gradients, momenta
    assert all(a in addresses and addresses[a]["bytes"] == b for a, b in fixed)
    assert {"model.3.weight", "losses[2]"} <= {p.split("__main__.")[-1] for s in shown["storages"] for p in s["paths"]}
    second = loop.layoutspy("census", pid)
    assert second.status == 0 and f"census {shown['id'] + 1}, asked for" in second.out, second.out[:300]
    (loop.folder / "stop").touch()
    rest = loop.process.stdout.read().decode()
    assert loop.process.wait(30) == 0 and json.loads(rest) == {"done": True}
    loop.settle()
    trace = loop.trace()
    assert [r["reason"] for r in trace.rows("SELECT reason FROM census ORDER BY id")] == [ASKED] * (asked + 1)
    loop.assert_true()


def test_program_that_does_not_answer(loop):
    """Stopped, it makes no call. The request stands, and is met once it goes on."""
    pid = loop.process.pid
    loop.process.send_signal(signal.SIGSTOP)
    begin = time.monotonic()
    outcome = loop.layoutspy("census", "--wait", "0.5", pid)
    assert outcome.status == 3 and outcome.out == "" and time.monotonic() - begin < 10
    assert len(outcome.err.splitlines()) == 1 and "no census within 500 ms" in outcome.err
    loop.process.send_signal(signal.SIGCONT)
    assert wait_until(lambda: '"asked"' in loop.layoutspy("census", "--json", loop.out).out, 20, 0.5)


def test_program_without_python(harness):
    """A C program says that there is nothing to look at."""
    from harness import app
    outcome = harness.record([app("leaky")], more_env={"LAYOUTSPY_CENSUS": "exit"})
    assert outcome.status == 0
    rows = harness.trace().rows("SELECT state, detail FROM census")
    assert all(r["state"] == FAILED and r["detail"] for r in rows)
