"""Variables of a notebook, set to other numbers before a class is built."""

from typing import Any

import pytest
import torch
from torch import Tensor

from headcheck.grader.reading.cells import read_source
from headcheck.grader.reading.symbol_table import build_symbol_table
from headcheck.grader.reading.variables import GlobalVariable, list_variables
from headcheck.grader.sandbox.grader_side.session import Session
from headcheck.grader.sandbox.grader_side.subject import ChannelSubject, InProcessChannel
from headcheck.grader.sandbox.limits import Limits
from headcheck.grader.sandbox.wire import Message
from headcheck.grader.sandbox.worker import runtime
from headcheck.grader.sandbox.worker.runtime import WorkerRuntime
from headcheck.properties.subject import CallOptions
from headcheck.properties.violations.violation import SubmissionFailed
from tests.grader.conftest import SandboxDriver
from tests.grader.sandbox.runtimes import load_cells, make_subject
from tests.notebooks import write_notebook

# As in the lecture "Let's build GPT", whose sizes are the notebook's.
CELLS = (
    "import torch\nimport torch.nn as nn\nfrom torch.nn import functional as F",
    "batch_size = 16; block_size = 32\nn_embd, n_head = 64, 4\ndropout = 0.0\nlearning_rate = 1e-3",
    "head_size = n_embd // n_head\ndevice = 'cuda' if torch.cuda.is_available() else 'cpu'",
    """class Head(nn.Module):
    def __init__(self, head_size):
        super().__init__()
        self.key = nn.Linear(n_embd, head_size, bias=False)
        self.query = nn.Linear(n_embd, head_size, bias=False)
        self.value = nn.Linear(n_embd, head_size, bias=False)
        self.register_buffer('tril', torch.tril(torch.ones(block_size, block_size)))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        B, T, C = x.shape
        k, q = self.key(x), self.query(x)
        wei = q @ k.transpose(-2, -1) * C**-0.5
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float('-inf'))
        return self.dropout(F.softmax(wei, dim=-1)) @ self.value(x)""",
    """class MultiHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList([Head(head_size) for _ in range(n_head)])
        self.proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        assert x.shape[-1] == n_embd
        return self.proj(torch.cat([h(x) for h in self.heads], dim=-1))""",
    "for step in range(10**9):\n    learning_rate *= 0.9",
)


def load(*names: str, cells: tuple[str, ...] = CELLS) -> ChannelSubject:
    host, reply = load_cells(*cells, names=names)
    assert reply.op == "ok", reply.meta
    return ChannelSubject(InProcessChannel(host))


def call(module: Any, *shape: int) -> Tensor:
    result = module.forward([torch.ones(shape)], CallOptions())
    return torch.as_tensor(result.outputs[0])


# --------------------------------------------------------------------------- which there are


def list_found(*cells: str) -> list[GlobalVariable]:
    return list_variables(build_symbol_table(read_source(write_notebook(*cells), "ipynb")))


def test_variables_are_listed_with_who_needs_them() -> None:
    both = ("Head", "MultiHead")
    assert list_found(*CELLS) == [
        GlobalVariable("block_size", 32, 2, 1, both),
        GlobalVariable("n_embd", 64, 2, 2, both),
        GlobalVariable("n_head", 4, 2, 2, ("MultiHead",)),
        GlobalVariable("dropout", 0.0, 2, 3, both),
        GlobalVariable("head_size", None, 3, 1, ("MultiHead",)),
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("n = 3", 3),
        ("n: int = -3", -3),
        ("n = True", True),
        ("n = m = 0.5", 0.5),
        ("(m, n) = (1, 2)", 2),
        ("n = 1\nn = 2", 2),
        ("n = 1\nn += 2", None),
        ("n = '3'", None),
        ("n = 1e999", None),
        ("n = 9" + "9" * 99, None),
        ("n = 3 * 4", None),
        ("n = [1, 2]", None),
        ("m, n = range(2)", None),
        ("for n in range(3): pass", None),
    ],
)
def test_the_value_is_a_plain_number(text: str, value: float | None) -> None:
    found = {each.name: each for each in list_found(text, "def f(): return n")}
    assert found["n"].value == value and type(found["n"].value) is type(value)


def test_no_more_than_so_many_are_listed() -> None:
    names = [f"n{i}" for i in range(500)]
    cell = "\n".join(f"{name} = 1" for name in names)
    assert len(list_found(cell, f"def f(): return [{', '.join(names)}]")) == 200


def test_an_outline_has_the_variables() -> None:
    source = torch.tensor(list(write_notebook(*CELLS))).byte()
    read = Message(1, "read", {"kind": "ipynb"}, (("source", source),))
    outline = WorkerRuntime().answer(read).meta["value"]
    described = {"name": "n_head", "value": 4, "cell": 2, "line": 2, "read_by": ("MultiHead",)}
    assert described in outline["variables"]


# ------------------------------------------------------------------------------ what is set


def test_a_class_is_built_with_the_sizes_that_are_set() -> None:
    subject = load("Head")
    head = subject.construct(
        "Head", {"head_size": 3}, 1, variables={"n_embd": 5, "block_size": 7, "dropout": 0.5}
    )
    shapes = {name: info.shape for name, info in head.describe_tensors().items()}
    assert shapes["key.weight"] == (3, 5) and shapes["tril"] == (7, 7)
    assert call(head, 2, 7, 5).shape == (2, 7, 3)


def test_what_is_computed_from_a_variable_follows() -> None:
    subject = load("MultiHead")
    module = subject.construct("MultiHead", {}, 1, variables={"n_embd": 12, "n_head": 3})
    shapes = {name: info.shape for name, info in module.describe_tensors().items()}
    assert shapes["heads.2.key.weight"] == (4, 12) and "heads.3.key.weight" not in shapes


def test_objects_of_different_sizes_live_side_by_side() -> None:
    subject = load("MultiHead")
    small = subject.construct("MultiHead", {}, 1, variables={"n_embd": 8, "n_head": 2})
    own = subject.construct("MultiHead", {}, 1)
    wide = subject.construct("MultiHead", {}, 1, variables={"n_embd": 16})
    for module, width in ((small, 8), (own, 64), (wide, 16), (small, 8)):
        assert call(module, 1, 4, width).shape == (1, 4, width)
    for way in ("deepcopy", "pickle", "state_dict"):
        for module, width in ((small, 8), (own, 64), (wide, 16)):
            assert call(module.copy(way), 1, 4, width).shape == (1, 4, width)


def test_functions_read_what_is_set() -> None:
    subject = load(
        "scaled", cells=("factor = 2\nhalf = factor / 2", "def scaled(x): return x * half")
    )
    assert call(subject.get_function("scaled", {"factor": 6}), 1).item() == 3
    assert call(subject.get_function("scaled"), 1).item() == 1


def test_the_last_of_several_assignments_is_replaced_too() -> None:
    cells = ("n = 2", "n *= 3\nm = n + 1", "def wanted(x): return x * m")
    subject = load("wanted", cells=cells)
    assert call(subject.get_function("wanted", {"n": 10}), 1).item() == 11


def test_many_sizes_are_set_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "MAX_VARIANTS", 3)
    subject = load("Head")
    for width in (2, 3, 4, 5, 2):
        head = subject.construct("Head", {"head_size": 1}, 1, variables={"n_embd": width})
        assert call(head, 1, 2, width).shape == (1, 2, 1)
    assert call(subject.construct("Head", {"head_size": 1}, 1), 1, 2, 64).shape == (1, 2, 1)


def test_sizes_are_set_in_a_confined_process_too(sandbox: SandboxDriver) -> None:
    session = Session(sandbox.server, write_notebook(*CELLS), "ipynb", Limits())
    listed = {each["name"]: each["value"] for each in session.read_outline()["variables"]}
    assert listed["n_embd"] == 64
    session.load("Head")
    for _ in range(2):
        head = ChannelSubject(session).construct(
            "Head", {"head_size": 3}, 1, variables={"n_embd": 5, "block_size": 4}
        )
        assert call(head, 2, 4, 5).shape == (2, 4, 3)
        session.close()
        session.revive()
    session.close()


# ---------------------------------------------------------------------------- what is refused


def test_a_variable_that_is_not_needed_is_refused() -> None:
    subject = load("Head")
    with pytest.raises(SubmissionFailed, match="there is no variable `learning_rate` to be set"):
        subject.construct("Head", {"head_size": 1}, 1, variables={"learning_rate": 1})
    assert call(subject.construct("Head", {"head_size": 1}, 1), 1, 2, 64).shape == (1, 2, 1)


def test_an_error_with_other_values_is_located() -> None:
    subject = load("wanted", cells=("n = 2\nm = 6 // n", "def wanted(x): return x * m"))
    with pytest.raises(SubmissionFailed) as caught:
        call(subject.get_function("wanted", {"n": 0}), 1)
    assert "ZeroDivisionError" in str(caught.value) and (caught.value.cell, caught.value.line) == (
        1,
        2,
    )


def test_objects_of_this_process_have_no_variables_to_be_set() -> None:
    with pytest.raises(SubmissionFailed, match="there is no variable `n` to be set"):
        make_subject(wanted=abs).get_function("wanted", {"n": 1})
