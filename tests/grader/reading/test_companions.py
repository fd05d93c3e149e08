"""Objects that classes are given, and the definitions of the same file that make them."""

import textwrap

import pytest

from headcheck.grader.reading.cells import read_source
from headcheck.grader.reading.companions import Companion, list_companions, list_maker_names
from headcheck.grader.reading.symbol_table import build_symbol_table

MAKERS = """
class Inner(nn.Module):
    def __init__(self, width):
        self.width = width
    def forward(self, q, k, v, mask=None):
        return q

class Pair(nn.Module):
    def forward(self, q, k):
        return q

def attend(q, k, v, mask):
    return q

class Store:
    limit: int = 3
    def update(self, k, v):
        self.k = k

class Grown(Store):
    def length(self):
        return 0
"""
CLASS = """
class Own(nn.Module):
    def __init__(self, dim, core):
        self.dim, self.inner = dim, core
    def forward(self, x, state=None):
        {}
"""


def find(call: str, makers: str = MAKERS) -> list[Companion]:
    source = read_source((makers + CLASS.format(textwrap.dedent(call))).encode(), "py")
    symbols = build_symbol_table(source)
    site = symbols.find_definition("Own")
    assert site is not None
    return list_companions(symbols, site)


@pytest.mark.parametrize(
    ("call", "makers"),
    [
        ("return self.inner(x, x, x, None)", ("Inner", "attend")),
        ("return self.inner(x, x, x)", ("Inner",)),
        ("return self.inner(x, k=x, v=x, mask=None)", ("Inner", "attend")),
        ("return self.inner(x, x)", ("Pair",)),
        ("return self.inner(x, x, x).relu() + self.inner.width", ("Inner",)),
        ("return self.inner(x, x, x, bias=3)", ()),
        ("return self.inner(x, x, x, x, x)", ()),
        ("return self.inner + x", ()),
    ],
)
def test_what_takes_the_calls_of_a_part_may_make_it(call: str, makers: tuple[str, ...]) -> None:
    expected = [Companion("__init__", "core", makers, "inner")] if makers else []
    assert find(call) == expected


@pytest.mark.parametrize(
    ("call", "makers"),
    [
        ("return state.update(x, x)", ("Store", "Grown")),
        ("return state.update(x, x), state.length()", ("Grown",)),
        ("return state.update(x, x), state.k, state.limit", ("Store", "Grown")),
        ("return state.update(x, x), state.other", ()),
        ("return x.view(3)", ()),
    ],
)
def test_what_has_the_attributes_may_make_what_a_call_takes(
    call: str, makers: tuple[str, ...]
) -> None:
    assert find(call) == ([Companion("forward", "state", makers)] if makers else [])


def test_what_is_written_into_may_be_a_plain_record() -> None:
    record = "@dataclass\nclass Kept:\n    k: Tensor = None\n    seen: int = 0\n"
    [found] = find("state.k, state.seen = x, 1; return x", record)
    assert (found.method, found.parameter, found.makers) == ("forward", "state", ("Kept",))
    assert find("return state.k + state.seen", record) == []


def test_a_part_with_a_default_is_left_at_it() -> None:
    source = MAKERS + CLASS.format("return self.inner(x, x)").replace("core)", "core=None)")
    symbols = build_symbol_table(read_source(source.encode(), "py"))
    assert list_maker_names(symbols, ["Own", "Absent"]) == []


def test_functions_and_classes_without_a_constructor_are_given_nothing() -> None:
    source = MAKERS + "\nclass Own(nn.Module):\n    def forward(self, x): return self.inner(x)\n"
    symbols = build_symbol_table(read_source(source.encode(), "py"))
    assert list_maker_names(symbols, ["Own", "attend"]) == []
