"""Annotations for GitHub: beside the right line, the most telling first, and nothing to obey."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest

from headcheck.grader import run
from headcheck.grader.reading.notebook_lines import find_file_line
from headcheck.grader.report.records import (
    DiagnosisRecord,
    ErrorRecord,
    PropertyRecord,
    SubmissionRecord,
    build_report,
)
from headcheck.grader.report.render import github, text
from headcheck.properties.violations.violation import (
    Status,
    SubmissionFailed,
    Violation,
    ViolationKind,
)
from tests.grader.report.records import make_property, make_submission

MISTAKE = DiagnosisRecord("no_scale", "The scores are not scaled.", None, 12, 7, 7)


def claim(
    number: int = 1, status: str = "failed", got: str = "1.5", line: int | None = None
) -> PropertyRecord:
    sentence = f"Claim {number} holds."
    wrong = str(Violation(ViolationKind.VALUE, "0.5 ± 50%", got, "output", sentence, "batch=1"))
    if status == "crashed":
        wrong = f"{sentence}\n  got       {SubmissionFailed(Status.CRASHED, got, None, line)}"
    return replace(make_property(sentence, status=status, message=wrong, of=1), line=line)


def submission(*claims: PropertyRecord, **more: object) -> SubmissionRecord:
    about: dict[str, Any] = {
        "name": "A",
        "score": 1.0,
        "max_score": 3.0,
        "status": "failed",
        **more,
    }
    return make_submission(*claims, **about)


def commands(*records: SubmissionRecord) -> list[str]:
    """The lines that a workflow obeys."""
    shown = github.render(build_report(records), lambda record, cell, line: 100 * cell + line)
    return [line for line in shown.splitlines() if obeyed(line)]


def obeyed(line: str) -> bool:
    """Whether the runner of GitHub obeys a line (actions/runner, ActionCommand.cs)."""
    return line.lstrip().startswith("::") or "##[" in line


def test_findings_come_in_order_and_the_text_follows() -> None:
    record = submission(claim(1), claim(2, "crashed", "ValueError: no", 7), diagnosis=(MISTAKE,))
    shown = github.render(build_report([record]), lambda *_: None)
    assert shown == (
        "::error file=ada.py,line=12,title=The mistake::"
        "The scores are not scaled. (look at line 12)\n"
        "::error file=ada.py,title=Fails%3A Claim 1 holds.::"
        "expected  0.5 ± 50%25 at output%0Agot       1.5%0Aon        batch=1\n"
        "::error file=ada.py,line=7,title=Crashed in this check%3A Claim 2 holds.::"
        "got       ValueError: no (line 7)\n"
        "::notice title=headcheck::ada.py: 1 / 3, failed\n"
    ) + text.render(build_report([record]))


def test_ungradable_file_states_the_location() -> None:
    error = ErrorRecord("syntax", "'(' was never closed", 3, 2)
    first, _ = commands(submission(error=error, status="not_tried"))
    where = "file=ada.py,line=302,title=It could not be judged%3A syntax"
    assert first == f"::error {where}::'(' was never closed (cell 3, line 2)"


def test_passed_submission_gives_only_a_notice() -> None:
    notice = "::notice title=headcheck::ada.py: 3 / 3, passed"
    assert commands(submission(status="passed", score=3.0)) == [notice]


def test_first_annotation_of_every_submission_comes_first() -> None:
    many = [claim(i) for i in range(1, 8)]
    records = [submission(*many, file=f"{name}.py") for name in "abc"]
    *errors, notice = commands(*records)
    assert len(errors) == github.MAX_ERRORS
    assert re.findall(r"file=(\w).py", "".join(errors)) == list("abcabcabca")
    told = "3 results: 3 failed; 11 more findings are in the log"
    assert notice == f"::notice title=headcheck::{told}"


@pytest.mark.parametrize(
    "attack",
    [
        "\n::error file=x::forged",
        "\n \t\u00a0::stop-commands::x",
        "%0A::error::forged",
        "##[error]forged",
        "x ##[add-mask]a",
        "\r::set-output name=a::b",
        "::notice::x",
    ],
)
def test_nothing_that_a_submission_says_is_a_command(attack: str) -> None:
    record = submission(
        claim(1, got=attack),
        replace(claim(2, "crashed", attack), case=attack),
        file=f"{attack}.py",
        name=attack,
        error=ErrorRecord(attack, attack),
        diagnosis=(replace(MISTAKE, sentence=attack),),
    )
    lines = commands(record)
    assert len(lines) == 5
    assert all(re.fullmatch(r"::(error|notice) [^:]*::[^\r\n]*", line) for line in lines)
    assert not any("##[" in line for line in lines)
    for form in ("text", "json", "html"):
        assert not any(map(obeyed, run.render_report(build_report([record]), form).splitlines()))


def test_values_of_properties_cannot_end_them() -> None:
    shown = github.format_command("error", "a:b,c%\r\n", file="a:b,c%d=e\n.py", title="x::y")
    assert shown == r"::error file=a%3Ab%2Cc%25d=e\n.py,title=x%3A%3Ay::a:b,c%25\r%0A"


# -------------------------------------------------------------- lines of notebooks

CELLS = ("# Text\nmore", "a = 1\nb = 2\n\nc = 3", "d = 4")


def notebook() -> nbformat.NotebookNode:
    v4 = nbformat.v4
    first, *code = CELLS
    cells = [v4.new_markdown_cell(first), *map(v4.new_code_cell, code)]
    made: nbformat.NotebookNode = v4.new_notebook(cells=cells)
    return made


def test_every_line_of_every_cell_is_found_in_the_file() -> None:
    written = nbformat.writes(notebook())
    lines = written.splitlines()
    for number, cell in enumerate(CELLS[1:], 1):
        for i, source in enumerate(cell.split("\n"), 1):
            found = find_file_line(written.encode(), number, i)
            assert found is not None
            assert json.loads(lines[found - 1].strip().rstrip(",")).rstrip("\n") == source


@pytest.mark.parametrize(
    "source",
    ["a\\nb\\nc", '["a\\n", "b\\nc"]', '["a", "\\nb\\n", "c"]', '["a\\nb\\n", "", "c"]'],
)
def test_source_may_be_split_anywhere(source: str) -> None:
    value = source if source.startswith("[") else f'"{source}"'
    one_a_line = value.replace(", ", ",\n")
    data = f'{{"cells": [{{"cell_type": "code",\n"source":\n{one_a_line}\n}}]}}'
    for line, letter in enumerate("abc", 1):
        found = find_file_line(data.encode(), 1, line)
        assert found is not None and letter in data.split("\n")[found - 1]


def test_keys_are_read_as_json_reads_them() -> None:
    data = b'{"cells": 1,\n"c\\u0065lls": [{"cell_type": "code", "source": "x",\n"source": "a"}]}'
    assert find_file_line(data, 1, 1) == 3


@pytest.mark.parametrize(
    "data",
    [
        *(b"\xff", b"{", b"[]", b'{"worksheets": []}', b'{"cells": {}}', b"[" * 100_000),
        b'{"cells": [{"cell_type": "markdown", "source": "a"}]}',
        b'{"cells": [{"cell_type": "code", "source": 3}]}',
        b'{"cells": [{"cell_type": "code", "source": [3]}]}',
    ],
)
def test_what_is_no_notebook_has_no_lines(data: bytes) -> None:
    assert find_file_line(data, 1, 1) is None


@pytest.mark.parametrize(("cell", "line"), [(2, 1), (1, 2), (0, 1), (1, 0)])
def test_unknown_lines_are_omitted(cell: int, line: int) -> None:
    data = b'{"cells": [{"cell_type": "code", "source": "a"}]}'
    assert find_file_line(data, cell, line) is None


def test_a_cell_is_found_by_the_number_that_jupyter_shows() -> None:
    made = notebook()
    made.cells[1].execution_count, made.cells[2].execution_count = 9, 4
    written = nbformat.writes(made)
    found = find_file_line(written.encode(), 4, 1)
    assert found is not None and "d = 4" in written.splitlines()[found - 1]
    assert find_file_line(written.encode(), 1, 1) is None


def test_missing_file_gets_its_location_as_text(tmp_path: Path) -> None:
    path = tmp_path / "ada.ipynb"
    report = build_report([submission(error=ErrorRecord("syntax", "no", 1, 3), file=str(path))])
    assert f"::error file={path},title=" in run.render_report(report, "github")
    path.write_text(nbformat.writes(notebook()), encoding="utf-8")
    line = find_file_line(path.read_bytes(), 1, 3)
    assert f"::error file={path},line={line},title=" in run.render_report(report, "github")
