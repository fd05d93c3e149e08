"""Syntax of a newer Python is told from a mistake."""

import sys
import time

import pytest

from headcheck.grader.reading.cells import read_source
from headcheck.grader.reading.newer_syntax import MAX_LENGTH, find_needed_version

OLD = (3, 11)

NEEDS_3_12 = {
    "alias": "type Heads = list[int]",
    "generic alias": "class A:\n    type Pair[T] = tuple[T, T]",
    "function": "def first[T](x: list[T]) -> T:\n    return x[0]",
    "method": "class A:\n    async def f[T: (int, str), *Ts, **P](self, x): pass",
    "class": "class Stack[T](list[T]):\n    pass",
    "same quotes": 'x = f"{d["a"]}"',
    "nested": "x = f'{f'{f'{1}'}'}'",
    "backslash": "x = f\"{'\\n'.join(a)}\"",
    "comment": 'x = f"""{\n    1  # one\n}"""',
    "format": 'x = f"{a["b"]:>{d["w"]}}"',
    "braces": 'x = f"{{{d["a"]}}}" + f\'{ {1: 2}[1]!r:{3}}\'',
    "several": 'type X = int\ndef f[T](x): return f"{x["a"]}"',
}
NEEDS_3_14 = {
    "except": "try: pass\nexcept ValueError, TypeError:\n    pass",
    "except group": "try: pass\nexcept* ValueError, errors.Other:\n    pass",
    "t-string": "x = t'{name} is {age}'",
    "both": 'type X = int\nx = t"{d["a"]}"',
}
MISTAKES = {
    "bracket": "def f(:\n    pass",
    "print": "print 'hello'",
    "Python 2": "try: pass\nexcept ValueError, e:\n    pass",
    "f-string": "x = f'{a'",
    "empty field": "def f[](x): pass\n",
    "open string": "x = f'{a[\"b]}'",
    "alias and a mistake": "type X = int\ndef f(:\n    pass",
    "type": "type X =",
    "shell": "!pip install torch",
    "deep": "x = " + "f'{" * 60 + "1" + "}'" * 60,
    "long": "x = (" + "1," * MAX_LENGTH,
}


@pytest.mark.parametrize("text", NEEDS_3_12.values(), ids=NEEDS_3_12)
def test_syntax_of_3_12_is_recognised(text: str) -> None:
    assert find_needed_version(text, OLD) == (3, 12)


@pytest.mark.parametrize("text", NEEDS_3_14.values(), ids=NEEDS_3_14)
def test_syntax_of_3_14_is_recognised(text: str) -> None:
    assert find_needed_version(text, OLD) == (3, 14)


@pytest.mark.parametrize("text", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_needs_no_other_python(text: str) -> None:
    assert find_needed_version(text, OLD) is None


@pytest.mark.skipif(sys.version_info < (3, 12), reason="syntax of Python 3.12")
@pytest.mark.parametrize("text", NEEDS_3_12.values(), ids=NEEDS_3_12)
def test_a_python_that_accepts_it_finds_no_problem(text: str) -> None:
    assert read_source(text.encode(), "py").cells[0].error is None


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python accepts it")
@pytest.mark.parametrize("text", NEEDS_3_12.values(), ids=NEEDS_3_12)
def test_the_python_that_is_needed_is_said(text: str) -> None:
    error = read_source(text.encode(), "py").cells[0].error
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert error is not None
    assert error.message == f"this needs Python 3.12; this is Python {running}"


def test_a_text_made_to_take_long_does_not() -> None:
    began = time.monotonic()
    for text in ("f'{" * 60_000, "def f" + "[" * 100_000, "class A [" * 20_000, "type x[" * 20_000):
        find_needed_version(text, OLD)
    assert time.monotonic() - began < 5
