"""C19: cached memory given back and asked for again. What made it happen is told apart: memory was
short, the program said so each step, the pool met a limit, or there is no pool."""

from truth import parse_log


def calls(case):
    (process,) = [p for p in parse_log(case.log) if p.calls]
    return [c for c in process.calls if c.name in ("cudaMalloc", "cudaFree")]


def given_back(case):
    """By the device's own log: frees and their bytes."""
    freed = [c for c in calls(case) if c.name == "cudaFree" and c.number("ptr")]
    return len(freed), sum(c.number("size") for c in freed)


def pressure(case):
    """By the device's own log: requests that failed, bytes freed before each was served."""
    failed = freed = 0
    waiting = None
    for call in calls(case):
        if call.name == "cudaMalloc" and call.status:
            failed += 1
            waiting = 0
        elif call.name == "cudaFree" and waiting is not None:
            waiting += call.number("size")
        elif call.name == "cudaMalloc" and waiting is not None:
            freed += waiting
            waiting = None
    return failed, freed


# ---- PyTorch ----------------------------------------------------------------------------------


def test_pressure(case):
    case.play("c19_pressure", memory="1G")
    told, (failed, freed) = case.printed(), pressure(case)
    found = case.one("cache-flush-stall", "warning")
    evidence = found["evidence"]
    assert evidence["trigger"] == "memory pressure"
    assert found["count"] == told["retries"] == failed == evidence["failed_requests"]
    assert found["bytes"] == freed == evidence["requested_again_bytes"]
    assert found["time_ns"] > 0
    assert 1 <= evidence["per_step"] <= 2.1
    case.at(found, "c19_pressure.py", "requested", "scratch")
    assert sum(s["count"] for s in evidence["sites"]) == failed
    # What is held is not the matter: the cache was large enough each time.
    assert evidence["cache_was_enough"] == failed and "stream" in found["advice"]
    assert "Remove the call" not in found["advice"]
    case.only("cache-flush-stall")
    case.none("oom", "leak")


def test_emptied_each_step(case):
    case.play("c19_explicit", "step", memory="2G")
    frees, freed = given_back(case)
    found = case.one("cache-flush-stall")
    evidence = found["evidence"]
    assert found["severity"] in ("warning", "problem")
    assert evidence["trigger"] == "explicit"
    assert found["count"] == case.printed()["steps"]
    assert (evidence["frees"], found["bytes"]) == (frees, freed)
    assert 0.9 * freed < evidence["requested_again_bytes"] < freed
    assert found["time_ns"] == evidence["free_ns"] + evidence["request_ns"] > 0
    assert "torch.cuda.empty_cache()" in found["advice"]
    case.at(found, "c19_explicit.py", "step", "empty_after_step")
    case.only("cache-flush-stall")


def test_emptied_each_epoch(case):
    case.play("c19_explicit", "epoch", memory="2G")
    found = case.one("cache-flush-stall", "info")
    assert found["count"] == 3 and found["bytes"] == given_back(case)[1]
    case.at(found, "c19_explicit.py", "epoch", "empty_after_epoch")
    case.only()


def test_emptied_once(case):
    case.play("c19_explicit", "once", memory="2G")
    assert given_back(case)[0] > 0
    case.none("cache-flush-stall")
    case.only()


def test_a_limit(case):
    case.play("c19_limit", memory="2G", more_env={"PYTORCH_CUDA_ALLOC_CONF": "garbage_collection_threshold:0.3"})
    found = case.one("cache-flush-stall")
    assert found["evidence"]["trigger"] == "limit of the pool"
    assert "garbage_collection_threshold" in found["advice"]
    assert (found["evidence"]["frees"], found["bytes"]) == given_back(case)
    case.at(found, "c19_limit.py", "requested", "work")
    case.only("cache-flush-stall")


# ---- C ----------------------------------------------------------------------------------------


def test_no_pool(program):
    """Work that is worth waiting for: each free waits for it."""
    program.play_app("flushes", "churn", memory="1G", more_env={"STANDIN_DELAY_US": 50})
    told = program.printed()
    found = program.one("cache-flush-stall", "problem")
    assert found["evidence"]["trigger"] == "the program's own frees"
    # The first two allocations ask for nothing that was there before.
    assert found["count"] == told["times"] - 2
    assert found["bytes"] == told["bytes"] * (told["times"] - 2) // told["times"]
    program.at(found, "flushes.c", "freed", "give_back")
    assert found["evidence"]["request_site"].endswith(" churn")
    program.only("cache-flush-stall")


def test_kept(program):
    program.play_app("flushes", "kept", memory="1G")
    program.none("cache-flush-stall")
    program.only()


def test_own_pool(program):
    program.play_app("flushes", "pool", memory="256M")
    told, (failed, freed) = program.printed(), pressure(program)
    found = program.one("cache-flush-stall")
    assert found["evidence"]["trigger"] == "memory pressure"
    assert found["severity"] in ("warning", "problem")
    assert found["count"] == told["times"] == failed
    assert found["bytes"] == told["bytes"] == freed
    program.at(found, "flushes.c", "wanted", "take")
    program.only("cache-flush-stall")
