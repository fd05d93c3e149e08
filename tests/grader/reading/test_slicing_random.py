"""Slices of random notebooks give what the whole notebook gives."""

import contextlib
import io
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from headcheck.grader.reading.cells import SourceCell, SubmissionSource
from headcheck.grader.reading.slicing import compute_slice

START = """\
a = 1
b = 2
c = 3
xs = [0]
d = {'k': 0}
def f(): return a
def g(): return f() + b
class A:
    x = a
    def m(self): return b
class B(A): pass
h = lambda: c"""

VARIABLE = st.sampled_from("abc")
CALLABLE = st.sampled_from("fgh")
CLASS = st.sampled_from("AB")
PARTS = {"v": VARIABLE, "w": VARIABLE, "f": CALLABLE, "g": CALLABLE, "C": CLASS, "D": CLASS}
TEMPLATES = [
    "{v} = 7",
    "{v} = {w} + 1",
    "{v}, {w} = {w}, {v}",
    "{v} += {w}",
    "{v} = {f}()",
    "{v} = {C}().m() + {C}.x",
    "{v} = len(xs) + d['k']",
    "{v} = sum([{w} for {v} in (1, 2)])",
    "{v} = ({w} := 9)",
    "del {v}",
    "xs.append({v})",
    "xs = [{v}]",
    "d['k'] = {v}",
    "d = {{'k': {v}}}",
    "if {v} % 2: {w} = 4",
    "if {v} % 2:\n    {w} = {v}\nelse:\n    {w} = {f}()",
    "for {v} in (1, 2): {w} = {v}",
    "for i in range(2):\n    {v} = {v} + i\n    d['k'] = {w}",
    "try:\n    {v} = 1 // ({w} % 2)\nexcept ZeroDivisionError:\n    {v} = 5",
    "def {f}(): return {v}",
    "def {f}({v}={w}): return {v} + {w}",
    "def {f}(): return {g}() + {v}",
    "def {f}():\n    {v} = 1\n    return [{v} + {w} for _ in '12'][0]",
    "{f} = lambda {v}={w}: {v} + {w}",
    "{f} = {g}",
    "def setup():\n    global {v}\n    {v} = {w} + 1",
    "setup()",
    "class {C}:\n    x = {v}\n    def m(self): return {v} + {w}",
    "class {C}({D}): pass",
    "class {C}({D}):\n    {v} = {w}\n    y = {v}\n    def m(self): return self.y + {v}",
    "{C}.x = {v}",
    "{C}.m = lambda self: {v}",
    "setattr({C}, 'x', {f}())",
    "print({v}, {f}())",
]


@st.composite
def programs(draw: st.DrawFn) -> list[str]:
    templates = draw(st.lists(st.sampled_from(["def setup(): pass", *TEMPLATES]), max_size=9))
    parts = [{key: draw(values) for key, values in PARTS.items()} for _ in templates]
    return [template.format(**chosen) for template, chosen in zip(templates, parts, strict=True)]


def looked_at(namespace: dict[str, Any], name: str) -> object:
    """What can be seen of a value: itself, what it returns, what its instances have."""
    try:
        value = namespace[name]
        if isinstance(value, type):
            return value.x, value().m()  # type: ignore[attr-defined]
        return value() if callable(value) else value
    except RecursionError:
        return "recursion"
    except (NameError, KeyError) as error:
        return type(error)


@given(program=programs(), name=st.sampled_from([*"abcfghABd", "xs"]))
def test_a_slice_gives_what_the_whole_notebook_gives(program: list[str], name: str) -> None:
    whole: dict[str, Any] = {"__name__": "submission"}
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            for cell in [START, *program]:
                exec(cell, whole)
        except (NameError, RecursionError, TypeError, AttributeError):
            assume(False)  # such a notebook stops
    numbered = enumerate([START, *program], start=1)
    source = SubmissionSource(tuple(SourceCell(i, text) for i, text in numbered))
    part: dict[str, Any] = {"__name__": "submission"}
    for step in compute_slice(source, name):
        exec(step.compile(), part)
    assert looked_at(part, name) == looked_at(whole, name)
