"""Outlines: names, signatures and places, read without running anything."""

import dataclasses
import json
from typing import Any

from headcheck.grader.reading.cells import read_source
from headcheck.grader.reading.outline import find_warnings, list_definitions
from headcheck.grader.reading.parameters import Parameter
from tests.notebooks import read_notebook

IMPORTS = "import torch\nfrom torch import nn"


def outline(*cells: str) -> list[Any]:
    """The definitions of a notebook."""
    return list_definitions(read_notebook(*cells))


def parameters(*names: str) -> tuple[Parameter, ...]:
    parts = (name.partition("=") for name in names)
    return tuple(
        Parameter(name, "positional", bool(sign), int(default) if default else None)
        for name, sign, default in parts
    )


# ---------------------------------------------------------------------------- outlines


CACHE = """
class Cache(nn.Module):
    def update(self, k):
        self.k[: len(k)] = {}

class Own(nn.Module):
    def __init__(self):
        self.cache = Cache()
    {}def forward(self, x):
        return self.cache.update(x)
"""


def test_what_computes_no_gradients_is_for_inference() -> None:
    for written, decorator, expected in [
        ("k", "", False),
        ("k.detach()", "", True),
        ("k.data", "", True),
        ("k", "@torch.no_grad()\n    ", True),
    ]:
        source = read_source((IMPORTS + CACHE.format(written, decorator)).encode(), "py")
        [own] = [each for each in list_definitions(source) if each.name == "Own"]
        assert own.for_inference is expected


def test_an_outline_has_classes_and_functions() -> None:
    found = outline(
        "import torch.nn as nn\nn = 3",
        "class Head(nn.Module):\n"
        "    def __init__(self, d_in, d_out=4):\n        pass\n"
        "    def forward(self, x, mask=None):\n        return x",
        "def attend(q, /, k, *rest, scale, bias=None, **more): pass\nheads, x = [], n",
    )
    head, attend = found
    assert (head.name, head.kind, head.cell, head.line) == ("Head", "class", 2, 1)
    assert head.parameters == parameters("d_in", "d_out=4")
    assert head.forward == parameters("x", "mask=")
    assert head.bases == ("nn.Module",)
    assert (attend.name, attend.kind, attend.cell) == ("attend", "function", 3)
    assert attend.forward is None
    scale, bias = Parameter("scale", "keyword", False), Parameter("bias", "keyword", True)
    rest, more = Parameter("rest", "*", False), Parameter("more", "**", False)
    assert attend.parameters == (*parameters("q", "k"), rest, scale, bias, more)


def test_constructors_are_inherited_from_classes_bound_at_that_time() -> None:
    found = outline(
        "class A:\n    def __init__(self, a): pass\n    def forward(self, x): pass",
        "class B(A): pass",
        "class C(B):\n    def forward(self, y): pass",
        "class A(A):\n    def __init__(self, later): pass",
        "class D(nn.Module): pass",
    )
    by_name = {definition.name: definition for definition in found}
    assert by_name["B"].parameters == by_name["C"].parameters == parameters("a")
    assert by_name["B"].forward == parameters("x")
    assert by_name["C"].forward == parameters("y")
    assert by_name["A"].parameters == parameters("later")
    assert by_name["A"].forward == parameters("x")
    assert (by_name["D"].parameters, by_name["D"].forward) == (None, None)


def test_the_last_definition_is_outlined() -> None:
    cells = ("class A: pass", "x = 1", "class A:\n    def __init__(self, n): pass", "class A: pass")
    [found] = outline(*cells)
    assert found.cell == 4
    assert found.parameters is None


def test_definitions_in_branches_are_top_level_and_inner_ones_are_not() -> None:
    found = outline(
        "try:\n    def f(a): pass\nexcept E:\n    def f(b): pass",
        "if x:\n    class A: pass",
        "def outer():\n    def inner(): pass\n    y = 1\n    class B: pass",
        "class C:\n    def method(self): pass\n    z = 1",
        "if __name__ == '__main__':\n    class Hidden: pass",
    )
    assert [d.name for d in found] == ["f", "A", "outer", "C"]


def test_static_methods_have_no_self() -> None:
    [found] = outline("class A:\n    @staticmethod\n    def forward(x): pass")
    assert found.forward == parameters("x")


def test_a_module_is_outlined_without_cells() -> None:
    found = list_definitions(read_source(b"\nclass A: pass\nx = 1\n", "py"))
    assert (found[0].cell, found[0].line) == (None, 2)


def test_broken_cells_and_empty_submissions_have_empty_outlines() -> None:
    assert outline("class A(:") == []
    assert list_definitions(read_source(b"", "py")) == []


def test_records_are_plain_data() -> None:
    source = read_notebook(IMPORTS, "n = 1\nclass Wanted:\n    def forward(self, x): print(n)")
    [definition] = list_definitions(source)
    plain = json.loads(json.dumps(dataclasses.asdict(definition)))
    assert plain["forward"][0]["name"] == "x"
    for remark in find_warnings(source, "Wanted"):
        assert json.loads(json.dumps(dataclasses.asdict(remark)))["cell"] == 2


def test_lambdas_and_other_names_for_definitions_are_outlined_last() -> None:
    found = outline(
        "f = lambda q, k=1: q", "class A:\n    def __init__(self, n): pass", "B = A\nC = 3"
    )
    told = [(d.name, d.kind, d.alias_of) for d in found]
    assert told == [("A", "class", None), ("f", "function", None), ("B", "class", "A")]
    assert found[1].parameters == parameters("q", "k=1")
    assert found[2].parameters == parameters("n")


def test_a_partial_call_is_a_function_of_what_is_left() -> None:
    source = "class A:\n    def __init__(self, n, m, k=1): pass"
    for call in ("partial(A, 3, m=2)", "functools.partial(A, 3, m=2)"):
        _, made = outline(source, f"make = {call}")
        assert (made.name, made.kind, made.alias_of) == ("make", "function", None)
        assert [(p.name, p.has_default) for p in made.parameters or ()] == [
            ("m", True),
            ("k", True),
        ]
    assert len(outline(source, "make = other(A, 3)", "made = partial(print, 3)")) == 1


HANDED_ON = """
class Base(nn.Module):
    def __init__(self, width, heads, rate=0.1):
        super().__init__()

    def forward(self, *args, **kwargs):
        return self.attend(*args, **kwargs)

    def attend(self, x, mask=None):
        return x

class Own(Base):
    def __init__(self, width, **others):
        super().__init__(width, rate=0.0, **others)

class Loop(nn.Module):
    def forward(self, *args):
        return self.forward(*args)
"""


def test_what_a_method_hands_on_is_what_the_next_one_takes() -> None:
    source = read_source((IMPORTS + HANDED_ON).encode(), "py")
    found = {each.name: each for each in list_definitions(source)}
    own = found["Own"]
    assert own.forward is not None and [p.name for p in own.forward] == ["x", "mask"]
    assert own.parameters is not None
    taken = [(p.name, p.kind) for p in own.parameters]
    assert taken == [("width", "positional"), ("heads", "keyword")]
    [left] = found["Loop"].forward or ()
    assert left.kind == "*"
