"""Why a definition could not be called, said as its author wrote it."""

import pytest

from headcheck.grader.reading.cells import read_source
from headcheck.grader.reading.outline import list_definitions
from headcheck.grader.reading.symbol_table import build_symbol_table
from headcheck.grader.sandbox.worker.errors import explain_call_error

TEXT = """
from torch import nn
class Head(nn.Module):
    def __init__(self, d_in, d_out, *, scale=1):
        pass
    def forward(self, x, mask=None): ...
    def split(x): ...
    @staticmethod
    def merge(x): ...
class Narrow(Head):
    def forward(this): ...
def attend(q, k): ...
"""


def explain(kind: str, text: str, source: str = TEXT) -> tuple[str, int | None] | None:
    table = build_symbol_table(read_source(source.encode(), "py"))
    problem = explain_call_error(kind, text, table)
    if problem is None:
        return None
    return problem.message, problem.position[1] if problem.position else None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "Head.__init__() takes 3 positional arguments but 4 were given",
            "`__init__` of `Head` takes 2 arguments (`d_in` and `d_out`), but 3 were given",
        ),
        (
            "Head.forward() takes from 2 to 3 positional arguments but 4 were given",
            "`forward` of `Head` takes 1 to 2 arguments (`x` and `mask`), but 3 were given",
        ),
        (
            "Narrow.__init__() takes 3 positional arguments but 4 positional arguments "
            "(and 1 keyword-only argument) were given",
            "`__init__` of `Head` takes 2 arguments (`d_in` and `d_out`), but 3 were given",
        ),
        (
            "attend() takes 2 positional arguments but 1 was given",
            "`attend` takes 2 arguments (`q` and `k`), but 1 was given",
        ),
        (
            "Head.merge() takes 1 positional argument but 2 were given",
            "`merge` of `Head` takes 1 argument (`x`), but 2 were given",
        ),
        (
            "Head.__init__() missing 2 required positional arguments: 'd_in' and 'd_out'",
            "`__init__` of `Head` needs `d_in` and `d_out`, which were not given",
        ),
        (
            "attend() missing 1 required positional argument: 'k'",
            "`attend` needs `k`, which was not given",
        ),
    ],
)
def test_arguments_are_counted_without_self_and_named(text: str, told: str) -> None:
    assert explain("TypeError", text) == (f"TypeError: {told}", None)


def test_a_method_without_self_is_told_where_it_is() -> None:
    text = "Head.split() takes 1 positional argument but 2 were given"
    told = "TypeError: `split` of `Head` has no `self`; write `def split(self, x)`"
    assert explain("TypeError", text) == (told, 7)


def test_more_than_six_arguments_are_counted() -> None:
    names = [f"'a{i}'" for i in range(8)]
    text = f"attend() missing 8 required positional arguments: {', '.join(names)}"
    told = explain("TypeError", text)
    assert told is not None and told[0].endswith("`a5` and 2 more, which were not given")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("TypeError", "unsupported operand type(s) for +: 'int' and 'str'"),
        ("TypeError", "elsewhere() missing 1 required positional argument: 'k'"),
        ("TypeError", "Head.absent() missing 1 required positional argument: 'k'"),
        ("TypeError", "attend() takes 3 positional arguments but 4 were given"),
        ("TypeError", "Head.__init__() got an unexpected keyword argument 'size'"),
        ("ValueError", "Head.__init__() takes 3 positional arguments but 4 were given"),
        ("NotImplementedError", 'Module [Head] is missing the required "forward" function'),
        ("NotImplementedError", 'Module [Other] is missing the required "forward" function'),
        ("NotImplementedError", 'Module [attend] is missing the required "forward" function'),
    ],
)
def test_other_errors_stay_as_they_are(kind: str, text: str) -> None:
    assert explain(kind, text) is None


# ------------------------------------------------------------------------- near names


@pytest.mark.parametrize(
    "written", ["forword", "fordward", "foward", "Forward", "forwards", "_forward", "forwad"]
)
def test_a_method_that_was_meant_to_be_forward_is_offered(written: str) -> None:
    source = f"class Head(Module):\n    def {written}(self, x): ..."
    told = f"there is no `forward` in `Head`; did you mean `{written}`?"
    text = 'Module [Head] is missing the required "forward" function'
    assert explain("NotImplementedError", text, source) == (told, 2)


@pytest.mark.parametrize(
    "written", ["__int__", "_init_", "__inti__", "init", "__intit__", "__INIT__"]
)
@pytest.mark.parametrize(
    "text",
    [
        "Head() takes no arguments",
        "Head.__init__() takes 1 positional argument but 3 were given",
        "Head.__init__() got an unexpected keyword argument 'd_in'",
    ],
)
def test_a_method_that_was_meant_to_be_the_constructor_is_offered(written: str, text: str) -> None:
    source = f"class Head(Module):\n    def {written}(self, d_in): ..."
    told = f"there is no `__init__` in `Head`; did you mean `{written}`?"
    assert explain("TypeError", text, source) == (told, 2)
    [definition] = list_definitions(read_source(source.encode(), "py"))
    near = definition.near_constructor
    assert near is not None and (near.written, near.line) == (written, 2)


@pytest.mark.parametrize(
    "others", ["backward", "feed_forward", "unit", "__iter__", "fwd", "__exit__"]
)
def test_other_methods_are_not_offered(others: str) -> None:
    source = f"class Head(Module):\n    def {others}(self): ..."
    [definition] = list_definitions(read_source(source.encode(), "py"))
    assert definition.near_constructor is None
    text = 'Module [Head] is missing the required "forward" function'
    assert explain("NotImplementedError", text, source) == ("there is no `forward` in `Head`", 1)


def test_an_inherited_forward_is_no_absence() -> None:
    source = "class A:\n    def forward(self): ...\nclass Head(A):\n    def forwards(self): ..."
    text = 'Module [Head] is missing the required "forward" function'
    assert explain("NotImplementedError", text, source) is None
