"""Reading: what is text, what is a cell, what a magic leaves behind, and on which line."""

import json
import logging
import subprocess
import sys
import textwrap
import warnings
from typing import Any, Literal

import nbformat
import pytest

from headcheck.grader.reading.cells import (
    MAX_DEPTH,
    READ_BY,
    SourceCell,
    SyntaxProblem,
    Unreadable,
    read_source,
)
from headcheck.grader.reading.unread_code import UnreadCode, find_unread_code
from tests.notebooks import read_notebook, write_notebook


def only_cell(text: str) -> SourceCell:
    [cell] = read_notebook(text).cells
    return cell


def only_error(text: str) -> SyntaxProblem:
    error = only_cell(text).error
    assert error is not None
    return error


def read_code(*sources: object, **more: object) -> tuple[SourceCell, ...]:
    """The cells of a notebook of code that nobody has checked."""
    cells = [{"cell_type": "code", "source": source, **more} for source in sources]
    return read_source(json.dumps({"cells": cells}).encode(), "ipynb").cells


def assert_same_lines(cell: SourceCell, original: str) -> None:
    """Every line of the original that is still there stands where it stood."""
    assert cell.error is None, cell
    read = cell.text.split("\n")
    for number, line in enumerate(original.split("\n")):
        if line.strip().isidentifier():
            assert read[number].strip() == line.strip()


# ---------------------------------------------------------------------------- modules


def test_a_module_is_one_cell_without_a_number() -> None:
    assert read_source(b"x = 1\n", "py").cells == (SourceCell(None, "x = 1\n"),)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"\xef\xbb\xbfx = 1\n", "x = 1\n"),
        (b"x = 1\r\ny = 2\r\n", "x = 1\ny = 2\n"),
        (b"x = 1\ry = 2\r", "x = 1\ny = 2\n"),
        (b"# coding: latin-1\ns = '\xe9'\n", "# coding: latin-1\ns = 'é'\n"),
        ("s = 'é'\n".encode(), "s = 'é'\n"),
    ],
    ids=["empty", "byte-order mark", "CRLF", "CR", "latin-1 cookie", "utf-8"],
)
def test_modules_that_python_reads_are_read(data: bytes, text: str) -> None:
    assert read_source(data, "py").cells == (SourceCell(None, text),)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"x = 1\ny = '\xe9'\n", "line 2 holds the byte 0xe9. Save it as UTF-8"),
        (b"x = 1\ny\0 = 2\n", "line 2 holds a NUL byte"),
        (b"# coding: klingon\n", "unknown encoding: klingon"),
        (b"# coding: hex\nx = 1\n", "not a text encoding"),
        ("x = 1".encode("utf-16"), "UTF-16 text; save it as UTF-8"),
        (b"PK\x03\x04...", "a zip archive; unpack it"),
    ],
    ids=["latin-1", "NUL", "unknown cookie", "codec that is none", "UTF-16", "zip"],
)
def test_non_text_is_refused_with_a_reason(data: bytes, message: str) -> None:
    with pytest.raises(Unreadable, match=message) as caught:
        read_source(data, "py")
    assert "\n" not in str(caught.value)


def test_a_module_that_does_not_parse_says_where() -> None:
    [cell] = read_source(b"x = 1\ndef f(:\n", "py").cells
    assert cell.error == SyntaxProblem(f"invalid syntax ({READ_BY})", 2)


def test_magics_are_no_python_in_a_module() -> None:
    [cell] = read_source(b"%matplotlib inline\n", "py").cells
    assert cell.error is not None


# -------------------------------------------------------------------------- notebooks


def test_code_cells_that_were_not_run_are_counted_from_one() -> None:
    v4 = nbformat.v4
    cells = [v4.new_markdown_cell("# Title"), v4.new_code_cell("x = 1"), v4.new_raw_cell("raw")]
    written = v4.new_notebook(cells=[*cells, v4.new_code_cell("y = 2")])
    source = read_source(nbformat.writes(written).encode(), "ipynb")
    assert [(cell.number, cell.text) for cell in source.cells] == [(1, "x = 1"), (2, "y = 2")]


def test_notebooks_of_nbformat_3_are_read() -> None:
    v3 = nbformat.v3
    first = [v3.new_text_cell("html"), v3.new_code_cell("x = 1\n%time\nx")]
    pages = [v3.new_worksheet(cells=cells) for cells in (first, [v3.new_code_cell("y = 2")])]
    written = v3.writes_json(v3.new_notebook(worksheets=pages)).encode()
    source = read_source(written, "ipynb")
    assert [cell.number for cell in source.cells] == [1, 2]
    assert_same_lines(source.cells[0], "x = 1\n%time\nx")


@pytest.mark.parametrize(
    "content",
    [
        {"cells": [{"cell_type": "code", "source": ["x = 1\n", "x"]}]},
        {"nbformat": 4, "cells": [{"cell_type": "code", "source": "x = 1\nx", "outputs": 3}]},
        {"nbformat": 4, "metadata": None, "cells": [{"cell_type": "code", "source": "x = 1\nx"}]},
        {"nbformat": 99, "cells": [{"cell_type": "code", "source": "\ufeffx = 1\r\nx"}]},
        {"cells": [3, {"cell_type": "code", "source": "x = 1\nx"}, {"cell_type": []}]},
    ],
    ids=["bare", "wrong outputs", "wrong metadata", "future version", "cells that are none"],
)
def test_invalid_notebooks_that_hold_code_are_read(
    content: dict[str, Any], capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    source = read_source(json.dumps(content).encode(), "ipynb")
    assert [cell.text for cell in source.cells] == ["x = 1\nx"]
    assert capfd.readouterr() == ("", "")
    assert not caplog.records


def test_a_missing_source_is_an_empty_cell() -> None:
    content = {"cells": [{"cell_type": "code"}, {"cell_type": "code", "source": None}]}
    source = read_source(json.dumps(content).encode(), "ipynb")
    assert [(cell.text, cell.error) for cell in source.cells] == [("", None), ("", None)]


def test_a_source_that_is_no_text_spoils_its_cell_only() -> None:
    first, second = read_code(3, "x")
    assert first.error and first.error.message == "the cell's source is not text"
    assert second == SourceCell(2, "x")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty"),
        (b"   \n", "The file is empty"),
        (b"import torch\n", r"not a notebook \(not JSON\).*If it is Python, name it .py"),
        (b"PK\x03\x04\x14\x00", "zip archive"),
        (b"\x1f\x8b\x08", "gzip archive"),
        (b"%PDF-1.7", "PDF"),
        (b"\n<!DOCTYPE html>", "a web page"),
        (b"<html><body>Sign in</body></html>", "The file is a web page"),
        (b"\xff\xfe{\x00}\x00", "UTF-16"),
        (b'{"cells": [', "not valid JSON.*may be cut off"),
        (b"<<<<<<< HEAD\n", "not a notebook"),
        (b'{\n<<<<<<< HEAD\n"cells": []}', "git conflicts"),
        (b'{"cells": ["\xe9"]}', "not UTF-8 text \\(byte 12\\)"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "cannot be read"),
        (b"{}", "no list of cells"),
        (b"[1, 2]", "no list of cells"),
        (b'{"cells": 3}', "no list of cells"),
        (b'{"cells": []}', "no code cells"),
        (b'{"cells": [{"cell_type": "markdown", "source": "x"}]}', "no code cells"),
    ],
)
def test_invalid_notebook_is_refused_with_a_reason(data: bytes, message: str) -> None:
    with pytest.raises(Unreadable, match=message) as caught:
        read_source(data, "ipynb")
    assert "\n" not in str(caught.value)


def test_a_great_many_empty_cells_are_read() -> None:
    data = b'{"cells":[' + b",".join([b'{"cell_type":"code","source":""}'] * 100_000) + b"]}"
    assert len(read_source(data, "ipynb").cells) == 100_000


# -------------------------------------------------------------------- cells with errors


def test_a_cell_that_does_not_parse_spoils_only_itself() -> None:
    good, bad, after = read_notebook("x = 1", "x = 1\ny = = 2", "z = 3").cells
    assert (good.error, after.error) == (None, None)
    assert bad.error == SyntaxProblem(f"invalid syntax ({READ_BY})", 2)
    assert bad.text == "x = 1\ny = = 2"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("x = 1\nreturn x", 2, "outside function"),
        ("for x in y:\nprint(x)", 2, "expected an indented block"),
        ("f(a=1,\n  a=2)", 2, "keyword argument repeated"),
        ("s = 'open", 1, "unterminated string"),
        ("def f():\n  x = 1\n  nonlocal x", 3, "nonlocal"),
    ],
)
def test_errors_only_the_compiler_finds_are_reported(text: str, line: int, message: str) -> None:
    error = only_error(text)
    assert message in error.message and error.line == line


def test_syntax_of_a_newer_python_is_told_with_the_python_that_read_it() -> None:
    error = only_error("match x:\n    case 1: pass\nelse: pass")
    running = ".".join(map(str, sys.version_info[:2]))
    assert error.message.endswith(f" (read by Python {running})")


@pytest.mark.parametrize(
    "text",
    [
        "(" * 1000 + ")" * 1000,
        "-" * 100_000 + "1",
        "+".join(["1"] * 100_000),
        "a" + ".b" * (MAX_DEPTH + 1),
        "if a:\n pass\n" + "elif b:\n pass\n" * 3000,
    ],
)
def test_code_that_is_too_deep_spoils_only_its_cell(text: str) -> None:
    deep, good = read_notebook(text, "x = 1").cells
    assert deep.error and "nested" in deep.error.message
    assert good.error is None


def test_nul_and_lone_surrogates_affect_nothing_else() -> None:
    nul, half = read_code("x = 1\ny\0 = 2", "s = '\ud800'")
    assert nul.error and nul.error.line in (1, 2)
    assert half == SourceCell(2, "s = '\ufffd'")
    half.text.encode()


def test_python_warnings_are_suppressed() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cell = only_cell("%time\ns = '\\d'\nassert (s, 'x')\nif s is 'x': pass")
    assert cell.error is None


def test_top_level_await_is_fine_in_a_notebook() -> None:
    assert only_cell("await load()\nx = [y async for y in z]").error is None


# ----------------------------------------------------------------------------- magics


@pytest.mark.parametrize(
    "text",
    [
        "%matplotlib inline\nx",
        "!pip install torch\nx",
        "\n\n%load_ext autoreload\n%autoreload 2\nx",
        "!pip install \\\n   torch==2 \\\n   numpy==2\nx",
        "files = !ls \\\n   -l\nx",
        "torch?\nx",
        "?torch\ny\n??torch\nx",
        "torch.nn.Linear??\nx",
        "here = %pwd\nx",
        "if colab:\n    !pip install torch\n    %cd drive\nx",
        "s = '''\n%not a magic\n!nor this\n'''\n%time\nx",
        "    %time\n    x",
        ">>> %time\n>>> x\n... y",
        "In [1]: %time\nIn [2]: x",
        "y = 5 # why?\n!ls\nx",
        "%time y = 3\nx",
        "/print 1 2\nx",
        "%%time\nx",
        "%%headcheck linear_layer\nx",
        "\n%%time\n\n%%capture out\nx\n%matplotlib inline\ny",
        "%%timeit -n 10\nx",
        "%%prun -s cumulative\nx",
        "%%capture --no-stderr\n!ls\nx",
    ],
)
def test_magics_are_neutralised_in_place(text: str) -> None:
    cell = only_cell(text)
    assert_same_lines(cell, textwrap.dedent(text).replace(">>> ", ""))
    assert "get_ipython" not in cell.text


def test_assigned_magics_leave_none_and_commands_leave_pass() -> None:
    cell = only_cell("files = !ls\nwhere = %pwd\nif files:\n    !rm x\nelse:\n    files?")
    namespace: dict[str, object] = {}
    exec(cell.text, namespace)
    assert (namespace["files"], namespace["where"]) == (None, None)


def test_a_timed_statement_stays() -> None:
    cell = only_cell("%time x = 1 + 1\ny = %time x + 1\n%time\n%time -x\n%time !ls")
    assert cell.text == "x = 1 + 1\ny = x + 1\npass\npass\npass"


@pytest.mark.parametrize("magic", ["bash", "html", "writefile model.py", "script perl", "R", "x"])
def test_cells_in_another_language_become_empty(magic: str) -> None:
    assert only_cell(f"\n%%{magic}\nclass Wanted: pass\n<b>\n") == SourceCell(1, "")


def test_percent_signs_in_python_are_no_magics() -> None:
    text = "x = (a\n%b)\ny = a \\\n%b\nprint('%d' % 3)"
    assert only_cell(text) == SourceCell(1, text)


def test_a_cell_whose_magics_never_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("IPython.core.inputtransformer2.TRANSFORM_LOOP_LIMIT", 20)
    assert "20 iterations" in only_error("%time\n" * 30).message


def test_a_broken_cell_with_magics_says_the_right_line() -> None:
    assert only_error("!pip install \\\n   torch\nx = 1\ny = = 2").line == 4


CONFLICT = "x = 1\n<<<<<<< HEAD\ny = 2\n=======\ny = 3\n>>>>>>> other\n"


@pytest.mark.parametrize("kind", ["py", "ipynb"])
def test_unresolved_conflicts_are_called_that(kind: Literal["py", "ipynb"]) -> None:
    data = CONFLICT.encode() if kind == "py" else write_notebook(CONFLICT)
    [cell] = read_source(data, kind).cells
    assert cell.error == SyntaxProblem("it holds unresolved git conflicts; resolve them", 2)


def test_a_text_that_only_quotes_a_conflict_is_read() -> None:
    quoted = f'text = """\n{CONFLICT}"""\n'
    assert read_source(quoted.encode(), "py").cells == (SourceCell(None, quoted),)


ONLY_WRITES = "only writes a file (%%writefile)"


@pytest.mark.parametrize(
    ("kind", "first", "found"),
    [
        ("code", "%%writefile attention.py\n", (2, "cell 2", f"{ONLY_WRITES} and is not run")),
        ("raw", "", (None, "the raw cell below cell 1", "is not run")),
        ("markdown", "```python\n", (None, "the text cell below cell 1", "is not run")),
    ],
)
def test_definitions_in_cells_that_are_not_run_are_found(
    kind: str, first: str, found: tuple[int | None, str, str]
) -> None:
    code = f"{first}class Attention:\n    def forward(self, x): ...\ndef mask(n): ...\n"
    cells = [{"cell_type": "code", "source": "x = 1"}, {"cell_type": kind, "source": code}]
    data = json.dumps({"cells": cells, "nbformat": 4}).encode()
    assert find_unread_code(data) == [UnreadCode(*found, ("Attention", "mask"))]
    quiet = json.dumps({"cells": [{"cell_type": kind, "source": "a class of its own"}]}).encode()
    assert find_unread_code(quiet) == []


def test_only_a_cell_with_notebook_commands_imports_ipython() -> None:
    program = """
import json, sys
from headcheck.grader.reading.cells import read_source

def read(text):
    notebook = {"cells": [{"cell_type": "code", "source": text}]}
    return read_source(json.dumps(notebook).encode(), "ipynb").cells[0].text

assert read("x = 1") == "x = 1" and "IPython" not in sys.modules
print(read("%matplotlib inline"), "IPython" in sys.modules)
"""
    said = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert said.endswith(" True\n") and "%" not in said


def number(*cells: tuple[str, object]) -> list[int]:
    """The numbers of cells that hold this code, with these execution counts."""
    made = [{"cell_type": "code", "source": s, "execution_count": n} for s, n in cells]
    content = json.dumps({"cells": [{"cell_type": "markdown", "source": "# Text"}, *made]})
    return [cell.number or 0 for cell in read_source(content.encode(), "ipynb").cells]


@pytest.mark.parametrize(
    ("counts", "numbers"),
    [
        ((1, 2, 3), [1, 2, 3]),
        ((1, 17, 3), [1, 17, 3]),  # the second cell was run again
        ((None, None, None), [1, 2, 3]),
        ((4, None, 6), [4, 7, 6]),  # one was not run
        ((1, 2, 1), [1, 2, 3]),  # two show the same after a restart
        ((True, 0, -1), [1, 2, 3]),
        ((10**30, "2", 2.0), [1, 2, 3]),
    ],
)
def test_cells_have_the_numbers_that_jupyter_shows(
    counts: tuple[object, ...], numbers: list[int]
) -> None:
    assert number(*((f"x = {n}", each) for n, each in enumerate(counts))) == numbers


def test_a_cell_without_code_takes_no_number_from_the_others() -> None:
    assert number(("x = 1", None), (" \n", None), ("y = 2", None)) == [1, 3, 2]
    assert number(("", None), ("x = 1", 1), ("y = 2", 2)) == [3, 1, 2]


def test_the_counts_of_nbformat_3_are_read() -> None:
    v3 = nbformat.v3
    cells = [v3.new_code_cell("x = 1", prompt_number=4), v3.new_code_cell("y = 2", prompt_number=2)]
    written = v3.writes_json(v3.new_notebook(worksheets=[v3.new_worksheet(cells=cells)])).encode()
    assert [cell.number for cell in read_source(written, "ipynb").cells] == [4, 2]


def test_a_text_cell_above_all_code_is_told_by_that() -> None:
    text = {"cell_type": "raw", "source": "def mask(n): ..."}
    data = json.dumps({"cells": [text, {"cell_type": "code", "source": "x = 1"}]}).encode()
    [found] = find_unread_code(data)
    assert (found.cell, found.where) == (None, "the raw cell above the first code cell")
