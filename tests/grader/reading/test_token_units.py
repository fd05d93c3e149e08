"""Words for comparing: disguises leave them as they are, other code does not."""

import pytest

from headcheck.exercises import ALL
from headcheck.grader.reading.cells import MAX_DEPTH, read_source
from headcheck.grader.reading.token_units import MAX_WORD_LENGTH, MAX_WORDS, extract_units

TEXT = """
import torch
import torch.nn.functional as F

LIMIT = 100

class Attention(torch.nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.W_q = torch.nn.Linear(d_in, d_out)
        self.register_buffer("mask", torch.ones(3))

    def forward(self, x):
        queries = self.W_q(x)
        weights = F.softmax(queries @ x.T / queries.shape[-1] ** 0.5, dim=-1)
        weights += self.mask
        return weights @ x

def helper(a):
    return a + LIMIT
"""

DISGUISED = '''
"""A docstring."""
from torch import nn
from torch.nn.functional import softmax as soft
import torch

def other_name(value: int) -> int:
    """Another one."""
    return (value +
            BIG)

BIG = 4096  # a comment

class Mine(nn.Module):
    """Quite another class."""

    def forward(self, tokens):
        print("hello", tokens)
        q: torch.Tensor = self.first(tokens)
        w = soft(torch.matmul(q, tokens.T) / q.shape[-1] ** 0.5, -1)
        w = w + self.hidden
        "nothing"
        return torch.matmul(w, tokens)

    def __init__(self, a, b) -> None:
        super().__init__()
        self.first = nn.Linear(a, b)
        self.register_buffer("hidden", torch.ones(3))
'''


def words(text: str) -> list[str]:
    return sorted(" ".join(unit.words) for unit in extract_units(read_source(text.encode(), "py")))


def test_renaming_changes_no_word() -> None:
    assert words(TEXT) == words(DISGUISED)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("softmax", "sigmoid"),
        ("dim=-1", "dim=0"),
        ("** 0.5", "** 2"),
        ("x.T", "x"),
        ("+=", "-="),
        ("queries @ x.T", "x @ queries.T"),
        ("weights @ x", "queries @ x"),
        ("return a", "return not a"),
    ],
)
def test_different_code_has_different_words(old: str, new: str) -> None:
    assert old in TEXT
    assert words(TEXT) != words(TEXT.replace(old, new))


def test_units_are_functions_and_what_is_beside_them() -> None:
    found = extract_units(read_source(TEXT.encode(), "py"))
    assert [unit.name for unit in found] == [
        "Attention.__init__", "Attention.forward", "helper", "",
    ]  # fmt: skip
    forward = found[1]
    assert " ".join(forward.words[:7]) == "def $0 $1 = $2 call( $3"
    assert forward.words.count("softmax(") == 1
    assert forward.lines[0] == 13 and max(forward.lines) == 17
    assert all(len(unit.words) == len(unit.lines) for unit in found)


def test_cells_that_are_no_python_are_left_out_and_others_have_their_number() -> None:
    notebook = b"""{"cells": [
        {"cell_type": "code", "source": "def broken("},
        {"cell_type": "markdown", "source": "x = 1"},
        {"cell_type": "code", "source": "%time x = 1\\ndef f(a):\\n    return a"}]}"""
    found = extract_units(read_source(notebook, "ipynb"))
    assert [(unit.name, unit.cell, unit.lines[0]) for unit in found] == [("f", 3, 2), ("", 3, 1)]


def test_sent_words_are_bounded() -> None:
    text = "x = 1\n" * MAX_WORDS + f"{'y' * 100}({'z' * 100})"
    assert (
        sum(len(unit.words) for unit in extract_units(read_source(text.encode(), "py")))
        == MAX_WORDS
    )
    found = extract_units(read_source(f"def {'n' * 1000}(): return {'m' * 1000}".encode(), "py"))
    assert (
        len(found[0].name) == 2 * MAX_WORD_LENGTH
        and max(map(len, found[0].words)) == MAX_WORD_LENGTH
    )


@pytest.mark.parametrize("nest", ["({})", "-{}", "[{}]", "f({})", "({} + 1)", "{}.a", "{}[0]"])
def test_the_deepest_tree_that_is_read_is_spelled(nest: str) -> None:
    text = "x"
    while True:
        deeper = nest.format(text)
        if read_source(deeper.encode(), "py").cells[0].error or len(deeper) > 10 * MAX_DEPTH:
            break
        text = deeper
    assert extract_units(read_source(text.encode(), "py"))


def test_every_statement_and_expression_of_the_language_is_spelled() -> None:
    text = """
async def f(a, /, b=1, *c, d: int = 2, **e):
    global g
    async with a as b, c: pass
    async for i in a: await i
    else: del a[1:2, ::3], b.c
    return {**a, 1: 2}, {1, *b}, [i async for i in a if i], {i: i for i in a}
def h():
    def inner():
        nonlocal k
        k = lambda *a, k=1: (yield from a)
    k = yield
    try: raise ValueError("x") from None
    except* (A, B) as e: ...
    finally: assert not e, "text"
    while (n := 1) < 2 <= 3 or n is not None and n in a: break
    for x in a:
        with open(f"{a!r:>{n}}") as f, g: continue
    match a:
        case {"x": [1, *rest], **others} if n: pass
        case B(c=2) | None | "s": pass
        case _ as whole: return a if n else ~n
class C(B, metaclass=M):
    x: int
    y: int = 1j + b"z" + ...
    @property
    def z(self): import a.b
"""
    source = read_source(text.encode(), "py")
    assert source.cells[0].error is None
    assert [unit.name for unit in extract_units(source)] == ["f", "h", "C.z", "C"]


def test_every_bank_answer_has_words() -> None:
    for exercise in ALL:
        assert sum(map(len, words(exercise.solution))) > 10
