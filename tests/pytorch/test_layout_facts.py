"""docs/layout-facts.md says what happens: each line of its tables is run with PyTorch (layout_facts.py).
What it says of copies and calls is compared with the trace, of storage and strides with Python.

A column whose heading is in COLUMNS is measured, any other holds words. With LAYOUTSPY_WRITE_FACTS=1 what
was measured is written into the document instead; what its words rest on is held by CLAIMS all the same.
"""

import json
import os
import re
from collections import Counter

import pytest

from harness import LIBRARY, ROOT
from test_torch_cuda12 import cuda12  # noqa: F401 (a fixture)
from torch_harness import TorchHarness, make_python

DOCUMENT = ROOT / "docs" / "layout-facts.md"
TYPES = {"float32": "fp32", "float16": "fp16", "float64": "fp64"}
SCALAR = 8  # bytes: a single number, of a loss or of a scaler
TENSORS = {"x", "w", "y", "q", "k", "v", "o"}  # roles; the others are statistics, scales and workspaces


def amount(count):
    for size, unit in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= size:
            return f"{count / size:g} {unit}"
    return f"{count} B"


def counted(words, nothing):
    return "; ".join(word if n == 1 else f"{n} × {word}" for word, n in Counter(words).items()) or nothing


class Line:
    """One line of the document: what Python told of it, and what the trace holds between its two ends."""

    def __init__(self, trace, told):
        self.trace, self.told = trace, told
        [[self.start, self.end]] = trace.rows("SELECT start_ns, end_ns FROM phase WHERE name = ?", str(told["number"]))
        self.launches = self.during("""SELECT call.id AS id, start_ns, short, demangled FROM call
            JOIN kernel ON kernel.id = call.f0 JOIN api ON api.id = call.api WHERE class = 'launch' AND""")
        self.copies = sorted(self.kernel_copies() + self.plain_copies(), key=lambda copy: copy["at"])

    def during(self, sql, column="start_ns"):
        return self.trace.rows(f"{sql} {column} BETWEEN ? AND ? ORDER BY {column}", self.start, self.end)

    def operands(self, call):
        return self.trace.rows("SELECT * FROM tensor_operand WHERE call_id = ? ORDER BY position", call)

    def kernel_copies(self):
        copies = []
        for launch in self.launches:
            operands = self.operands(launch["id"])
            if operands and operands[0]["role"] == "dst":
                way, source = ("kernel", operands[1]) if len(operands) == 2 else ("cat", None)
                dst = operands[0]
                copies.append({"way": way, "bytes": dst["elements"] * dst["unit"], "dst": dst, "src": source,
                               "at": launch["start_ns"], "address": operands[1]["address"]})
            elif re.search("gather|index", launch["short"]):
                copies.append({"way": launch["short"], "bytes": None, "at": launch["start_ns"]})
            else:  # each copying kernel has been read
                assert not re.search("copy_kernel|CatArray", launch["demangled"]), (self.told, launch["demangled"])
        return copies

    def plain_copies(self):
        return [{"way": row["direction"], "bytes": row["bytes"], "at": row["start_ns"], "address": row["src"],
                 "kind": row["src_kind"] if row["direction"] == "H2D" else row["dst_kind"]}
                for row in self.during("SELECT * FROM all_copy WHERE status = 0 AND")]

    def large_copies(self):
        return [copy for copy in self.copies if copy["bytes"] is None or copy["bytes"] > SCALAR]

    def name(self, address):
        """What the line calls the tensor that holds an address."""
        names = [name["name"] for name in self.told["names"] if name["begin"] <= address < name["end"]]
        return f"`{min(names, key=len)}`" if names else None

    def of_result(self, words):
        if self.told["error"]:
            return "refused"
        return "; ".join(dict.fromkeys(map(words, self.told["results"])))

    # ---- columns ------------------------------------------------------------------------

    def storage(self):
        def words(result):
            name = self.name(result["begin"])
            began = self.trace.one("SELECT COUNT(*) FROM block_lifetime WHERE address = ? AND start_ns BETWEEN ? AND ?",
                                   result["begin"], self.start, self.end)
            if result["device"] == "cuda":  # the allocator handed it out in this line, or it is another's
                assert bool(began) != bool(name), self.told
            return name or "new"
        return self.of_result(words)

    def strides(self):
        return self.of_result(lambda result: ", ".join(map(str, result["strides"])))

    def contiguous(self):
        words = {(True, True): "both", (True, False): "yes", (False, True): "channels_last", (False, False): "no"}
        return self.of_result(lambda result: words[result["contiguous"], result["channels_last"]])

    def copied(self):
        return counted(map(self.copy_words, self.large_copies()), "nothing")

    def copy_words(self, copy):
        if "address" not in copy:
            return f"by {copy['way']}"
        if copy["way"] == "cat":
            return f"all, {amount(copy['bytes'])}"
        words = f"{self.name(copy['address']) or 'a temporary'}, {amount(copy['bytes'])}"
        if copy["way"] == "kernel":
            types = [TYPES.get(side["dtype"], side["dtype"]) for side in (copy["src"], copy["dst"])]
            return words if types[0] == types[1] else f"{words} {types[0]} to {types[1]}"
        return f"{words} memcpy" if copy["way"] == "D2D" else f"{words} {copy['way']}, {copy['kind']}"

    def copy_count(self):
        copies = self.large_copies()
        total = amount(sum(copy["bytes"] for copy in copies))
        return f"{len(copies)}, {total}" if copies else "none"

    def product(self):
        rows = self.during("SELECT gemm_call.* FROM gemm_call JOIN library_call ON id = call_id WHERE")
        return counted([f"{g['op_a']} {g['op_b']}, ld {g['lda']} {g['ldb']}" +
                        (f", batch {g['batch']}" if g["batch"] > 1 else "") for g in rows], "none")

    def cudnn(self):
        rows = self.during("SELECT * FROM library_call WHERE library = 'cudnn' AND")
        tensors = [[o for o in self.operands(row["id"]) if o["role"] in TENSORS] for row in rows]
        return counted([", ".join(f"{o['role']} {o['layout']}" for o in call) for call in tensors], "no call")

    def ran(self):
        """What computed: not the copies."""
        copies = {copy["at"] for copy in self.copies}
        kernels = [launch["short"] for launch in self.launches if launch["start_ns"] not in copies]
        calls = Counter({"cudnn": "cuDNN"}.get(row["library"], "product")
                        for row in self.during("SELECT * FROM library_call WHERE"))
        told = [name if n == 1 else f"{n} {name}s" for name, n in calls.items()]
        told += [f"{len(kernels)} kernels"] if len(kernels) > 1 else kernels
        return "refused" if self.told["error"] else ", ".join(told)

    def waits(self):
        return "yes" if self.during("SELECT * FROM api_call WHERE api = 'cudaStreamSynchronize' AND") else "no"

    def given_back(self):
        sizes = [row["size"] for row in self.during(
            "SELECT size FROM all_allocation WHERE kind IN ('device', 'pinned') AND", "end_ns")]
        return amount(sum(sizes)) if sizes else "nothing"


COLUMNS = {"storage": Line.storage, "strides": Line.strides, "contiguous": Line.contiguous, "copied": Line.copied,
           "copies": Line.copy_count, "product": Line.product, "cuDNN got": Line.cudnn, "ran": Line.ran,
           "waits": Line.waits, "given back": Line.given_back}


# ---- the document -----------------------------------------------------------------------


def tables(text):
    """(number of the line in the text, headings, code, operation) of each line that is run."""
    code, headings = None, []
    block = None
    for at, line in enumerate(text.splitlines()):
        if line.startswith("## "):
            code = None  # no section has another's
        elif line == "```python":
            block = []
        elif line == "```":
            code, block = "\n".join(block or []), None
        elif block is not None:
            block.append(line)
        elif line.startswith("| operation"):
            headings = [cell.strip() for cell in line.strip("|").split("|")]
        elif code and line.startswith("| `"):
            yield at, headings, code, re.match(r"\| `([^`]+)`", line).group(1)


def written(text, lines):
    """The text, with what was measured in its tables."""
    rows = text.splitlines()
    for at, headings, _, operation in tables(text):
        cells = [f"`{operation}`"] + [COLUMNS[heading](lines[operation]) for heading in headings[1:]]
        rows[at] = "| " + " | ".join(cells) + " |"
    return "\n".join(rows) + "\n"


def measured(torch, text):
    """The lines of a text, by their operation."""
    operations = [(code, operation) for *_, code, operation in tables(text)]
    assert len(set(operation for _, operation in operations)) == len(operations)
    path = torch.folder / "operations.json"
    path.write_text(json.dumps(operations))
    outcome = torch.go("layout_facts", path, memory="1G", more_env={"NVTX_INJECTION64_PATH": LIBRARY})
    assert (outcome.status, outcome.err) == (0, ""), repr(outcome)
    trace = torch.trace()
    assert trace.rows("SELECT * FROM coverage WHERE layer = 'layouts' AND state <> 'on'") == []
    lines = [Line(trace, json.loads(line)) for line in outcome.out.splitlines()]
    assert [line.told["operation"] for line in lines] == [operation for _, operation in operations]
    return {line.told["operation"]: line for line in lines}


# What the document's words rest on, however it is written: copies per operation.
COPIES = {
    # products
    "x @ z": 0, "x @ x.t()": 0, "y[:, :64] @ z": 0, "y[:, ::2] @ z": 1, "linear(x.t())": 0, "linear(y[:, ::2])": 1,
    "torch.bmm(a[:, ::2], b)": 0, "torch.bmm(a[:, :, ::2], b[:, ::2])": 1, "x[:1].expand(64, 64) @ z": 1,
    "torch.bmm(a[:1].expand(4, 16, 32), b)": 0, "q.transpose(1, 2) @ k.permute(0, 2, 3, 1)": 2,
    # attention
    "by(FLASH, q, k, v)": 0, "by(EFFICIENT, q, k, v)": 0, "by(CUDNN, q, k, v)": 0,
    # images
    "conv(x)": 0, "last(nhwc)": 0, "last(x)": 1, "conv(nhwc)": 1, "double(nhwc64)": 1, "norm(nhwc)": 0,
    "F.max_pool2d(nhwc, 2)": 0, "F.avg_pool2d(nhwc, 2)": 0,
    # views and copies
    "x.contiguous()": 0, "t.reshape(16, 2, 4)": 0, "t.reshape(128)": 1, "x.clone()": 1, "t.clone()": 1,
    "nhwc.to(memory_format=torch.channels_last)": 0, "image.to(memory_format=torch.channels_last)": 1,
    # the gradient scaler
    "unscaled(dense.t())": 0, "unscaled(wide[:, ::2])": 0,
}
CLAIMS = [  # operation, heading, what it says
    ("x.clone()", "storage", "new"), ("x.chunk(2, 1)", "contiguous", "no"), ("x.chunk(2, 1)", "storage", "`x`"),
    ("gray.contiguous(memory_format=torch.channels_last)", "contiguous", "both"), ("t.clone()", "strides", "1, 16"),
    ("t.view(128)", "storage", "refused"), ("by(FLASH, wide[..., ::2], k, v)", "ran", "refused"),
    ("last(nhwc)", "cuDNN got", "x nhwc, w nhwc, y nhwc"), ("conv(nhwc)", "cuDNN got", "x nhwc, w nhwc, y nhwc"),
    ("double(nhwc64)", "cuDNN got", "x nchw, w nchw, y nchw"), ("conv(nhwc)", "copied", "`conv.weight`, 18 KiB"),
    ("last(x)", "copied", "`x`, 16 KiB"), ("norm(nhwc)", "contiguous", "channels_last"),
    ("F.max_pool2d(nhwc, 2)", "contiguous", "channels_last"), ("by(CUDNN, q, k, v)", "ran", "cuDNN"),
    ('host.to("cuda")', "waits", "yes"), ('pinned.to("cuda", non_blocking=True)', "waits", "no"),
    ("torch.cuda.empty_cache()", "given back", "nothing"),
    ("del whole; torch.cuda.empty_cache()", "given back", "64 MiB"),
    ("one = whole[:1]; del whole; torch.cuda.empty_cache()", "given back", "nothing"),
    ("del parts[1:]; torch.cuda.empty_cache()", "given back", "nothing"),
]
WEIGHT_CASTS = {"twice(linear)": 1, "twice(stepped)": 1, "twice(turned)": 1, "in_two_regions(linear)": 2,
                "twice(frozen)": 2}


# Of PyTorch 2.4 the document says in words what is otherwise.
OTHERWISE_IN_2_4 = [
    "| `x[[0, 2]]` | new | 16, 1 | yes | a temporary, 16 B H2D, pageable; by index_elementwise_kernel |",
    "| `x[rows]` | new | 16, 1 | yes | by index_elementwise_kernel |",
    "| `by(CUDNN, q, k, v)` | refused | none | refused |",
    "| `F.scaled_dot_product_attention(wide[..., ::2], k, v)` | 4096, 1024, 64, 1 | 2, 32 KiB | 2 products, 3 kernels |",
    "| `F.scaled_dot_product_attention(turned, turned, turned)` | 4096, 1024, 64, 1 | none | 2 products, 3 kernels |",
]


@pytest.fixture(scope="module")
def lines(tmp_path_factory, torch_python):
    return measured(TorchHarness(tmp_path_factory.mktemp("facts"), torch_python), DOCUMENT.read_text())


def differences(lines):
    """(what the document says, what was measured) of each of its lines where the two are not the same."""
    text = DOCUMENT.read_text()
    return [pair for pair in zip(text.splitlines(), written(text, lines).splitlines()) if pair[0] != pair[1]]


def test_the_document_says_what_was_measured(lines):
    if os.environ.get("LAYOUTSPY_WRITE_FACTS") == "1":
        DOCUMENT.write_text(written(DOCUMENT.read_text(), lines))
    wrong = differences(lines)
    assert not wrong, "\n".join(f"says  {said}\nis so {is_so}" for said, is_so in wrong)


@pytest.mark.skipif(os.environ.get("LAYOUTSPY_LONG") != "1", reason="long: --long")
def test_what_is_otherwise_in_an_older_one(tmp_path, cuda12):  # noqa: F811
    torch = TorchHarness(tmp_path, make_python("2.4.1"), standin=cuda12)
    assert [is_so for _, is_so in differences(measured(torch, DOCUMENT.read_text()))] == OTHERWISE_IN_2_4


def test_copies(lines):
    assert {operation: len(lines[operation].large_copies()) for operation in COPIES} == COPIES


@pytest.mark.parametrize("operation, heading, words", CLAIMS)
def test_claim(lines, operation, heading, words):
    assert COLUMNS[heading](lines[operation]) == words


def test_autocast_casts_a_weight_once_in_a_region(lines):
    for operation, casts in WEIGHT_CASTS.items():
        ways = [copy["src"]["dtype"] + " " + copy["dst"]["dtype"] for copy in lines[operation].large_copies()
                if "weight" in (lines[operation].name(copy["address"]) or "")]
        assert ways == ["float32 float16"] * casts, operation


def test_training_with_strided_weights_copies_no_layout(lines):
    for operation in ("trained(stepped)", "trained(turned)"):
        assert all(copy["src"]["dtype"] != copy["dst"]["dtype"] for copy in lines[operation].large_copies()), operation


def test_a_source_with_gaps_is_not_copied_from_pinned_memory(lines):
    for operation in lines:
        if re.match(r"pinned\[:, .*non_blocking=True\)$", operation):
            [copy] = lines[operation].large_copies()
            assert copy["kind"] == "pageable" and lines[operation].name(copy["address"]) is None


def test_strided_attention_is_computed_in_fp32(lines):
    for operation in lines:
        if operation.startswith("F.scaled_dot"):
            ways = [(copy["src"]["dtype"], copy["dst"]["dtype"]) for copy in lines[operation].large_copies()]
            assert ways.count(("float16", "float32")) == 3 and not lines[operation].cudnn().startswith("q")


def test_what_the_last_table_refers_to_is_there(lines):
    last = DOCUMENT.read_text().rsplit("\n## ", 1)[1]
    references = [row.rsplit(" | ", 1)[1] for row in last.splitlines() if row.startswith("| ")][1:]
    operations = [operation for cell in references for operation in re.findall("`([^`]+)`", cell)]
    assert len(operations) >= 10 and set(operations) <= set(lines)
