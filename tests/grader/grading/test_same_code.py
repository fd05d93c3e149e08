"""The same code gets the same records, and only the same code does."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import nbformat
import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.grading import grade as grading
from headcheck.grader.grading.grade import grade_file
from headcheck.grader.grading.infer import Inferred
from headcheck.grader.grading.same_code import MAX_KNOWN, JudgedCode, make_key
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.cells import SourceCell, SubmissionSource, read_source
from headcheck.grader.reading.fingerprints import digest_code
from headcheck.grader.reading.submission import Sibling, Siblings, find_submissions
from headcheck.grader.report.records import SubmissionRecord
from headcheck.grader.sandbox.grader_side.servers import ServerHandle
from headcheck.grader.sandbox.grader_side.session import Session
from tests.grader.conftest import SandboxDriver
from tests.grader.report.records import make_crashed, make_submission, make_unjudged

SETTINGS = Settings(exercise=BY_SLUG["linear_layer"])
WRONG = """\
# {name}
def linear(x, weight, bias):
    y = x @ weight  # {comment}
    return y + bias
"""


def grade(
    server: ServerHandle, folder: Path, judged: JudgedCode, **files: str
) -> list[SubmissionRecord]:
    """Grade files one after the other."""
    records = []
    for name, text in files.items():
        path = folder / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        [handed_in] = find_submissions([str(path)])
        records += grade_file(server, handed_in, SETTINGS, judged=judged)
    return records


def forget_names(record: SubmissionRecord) -> SubmissionRecord:
    return replace(record, file="", student="", seconds=0, source=())


def test_the_same_code_is_judged_once(sandbox: SandboxDriver, tmp_path: Path) -> None:
    """Comments do not count, and what is shown of the code is everybody's own."""
    server, judged = sandbox.server, JudgedCode()
    ada = WRONG.format(name="Ada", comment="a product")
    [first] = grade(server, tmp_path, judged, ada=ada)
    [second] = grade(server, tmp_path, judged, bea=WRONG.format(name="Bea", comment="hm"))
    assert len(judged.records.results) == 1 and second.seconds < first.seconds / 4
    assert forget_names(second) == forget_names(first)
    assert second.file.endswith("bea.py") and first.file.endswith("ada.py")
    shown = "".join(each.text for each in second.source)
    assert "# hm" in shown and "Ada" not in shown and "a product" not in shown
    [alone] = grade(server, tmp_path, JudgedCode(), bea=WRONG.format(name="Bea", comment="hm"))
    assert forget_names(alone) == forget_names(second) and alone.source == second.source


@pytest.mark.parametrize(
    ("old", "new"),
    [("x @ weight", "x @ weight.T"), ("# {name}", "# {name}\n"), ("x @ weight", "x @  weight")],
    ids=["other code", "another line", "another column"],
)
def test_other_code_is_judged(sandbox: SandboxDriver, tmp_path: Path, old: str, new: str) -> None:
    judged = JudgedCode()
    grade(sandbox.server, tmp_path, judged, ada=WRONG, bea=WRONG.replace(old, new))
    assert len(judged.records.results) == 2


def test_what_files_beside_it_do_is_judged_anew(sandbox: SandboxDriver, tmp_path: Path) -> None:
    """The same code may import something else."""
    text = (
        "import helper\ndef linear(x, weight, bias):\n    return helper.linear(x, weight, bias)\n"
    )
    for name, body in (("one", "x @ weight.T + bias"), ("two", "x @ weight.T - bias")):
        folder = tmp_path / name
        folder.mkdir()
        source = f"def linear(x, weight, bias):\n    return {body}\n"
        (folder / "helper.py").write_text(source, encoding="utf-8")
    server, judged = sandbox.server, JudgedCode()
    scores = [
        record.score
        for name in ("one", "two")
        for record in grade(server, tmp_path / name, judged, answer=text)
    ]
    assert len(scores) == 2 and scores[0] > scores[1]


@pytest.mark.parametrize(
    "record",
    [
        make_submission(make_crashed("slow", status="timed_out")),
        make_submission(make_crashed("large", status="out_of_memory")),
        make_unjudged(),
    ],
    ids=["time", "memory", "error"],
)
def test_accidents_are_not_remembered(record: SubmissionRecord) -> None:
    judged = JudgedCode()
    judged.keep("key", [record])
    assert not judged.records.results


def test_files_beside_it_and_where_they_are_sought_make_a_difference() -> None:
    there = Siblings(files=(Sibling(("helper",), b""),))
    assert make_key("code", there, Inferred(), None) is None
    assert make_key("", Siblings(), Inferred(), None) is None
    kept = {
        make_key("code", Siblings(searched=sought), Inferred(), None) for sought in (True, False)
    }
    assert len(kept) == 2 and None not in kept


TWO = WRONG.replace("weight  #", "weight.T  #") + WRONG.replace("linear", "other")


def test_another_requested_name_is_judged(sandbox: SandboxDriver, tmp_path: Path) -> None:
    """Of two definitions in the same code, each gets its own records."""
    judged, scores = JudgedCode(), []
    for name in ("linear", "other"):
        path = tmp_path / f"{name}.py"
        path.write_text(TWO, encoding="utf-8")
        [handed_in] = find_submissions([f"{path}:{name}"])
        [record] = grade_file(sandbox.server, handed_in, SETTINGS, judged=judged)
        scores.append(record.score)
    assert len(judged.records.results) == 2 and scores[0] > scores[1]


def test_nothing_is_remembered_after_a_kill(
    sandbox: SandboxDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else decided, at least in part, what became of the answer."""
    judged = JudgedCode()
    monkeypatch.setattr(grading, "Session", partial(Session, killed_children=1))
    grade(sandbox.server, tmp_path, judged, ada=WRONG)
    assert not judged.records.results


def test_few_codes_are_remembered() -> None:
    judged = JudgedCode()
    for number in range(MAX_KNOWN + 2):
        judged.keep(number, ())
    assert len(judged.records.results) == MAX_KNOWN and 0 not in judged.records.results
    judged.keep(None, ())
    assert None not in judged.records.results


def digest(*texts: str) -> str:
    return digest_code(SubmissionSource(tuple(map(SourceCell, (1, 2, 3), texts))))


def test_comments_count_within_brackets_and_at_the_beginning_of_functions() -> None:
    assert digest("x = 1  # a\n# b\ny = 2") == digest("x = 1\n# c\ny = 2")
    for said in ("def f():  # {}\n    pass", "def f(x: int):\n    # {}\n    pass"):
        assert digest(said.format("a")) != digest(said.format("b"))
        assert digest(said.format("a") + "  # a") == digest(said.format("a") + "  # b")
    assert digest("def f(): pass  # a") == digest("def f(): pass  # b")
    assert digest("f(1,  # a\n2)") != digest("f(1,  # b\n2)")
    assert digest("s = '# a'") != digest("s = '# b'")
    assert digest("x = 1\ny = 2") != digest("x = 1\n\ny = 2")
    assert digest("x = 1", "y = 2") != digest("x = 1\ny = 2")


def test_what_is_not_python_has_no_digest() -> None:
    assert digest_code(read_source(b"def f(:\n", "py")) == ""


def test_long_code_has_no_digest() -> None:
    assert digest("x = 1" + "\n" * (1 << 20)) == digest("\n" * (1 << 19), "\n" * (1 << 20)) == ""
    assert digest("x = 1" + "\n" * 1000)


def test_text_cells_and_outputs_do_not_count() -> None:
    def make(title: str, output: str) -> bytes:
        code = nbformat.v4.new_code_cell(
            "x = 1", outputs=[nbformat.v4.new_output("stream", text=output)]
        )
        cells = [nbformat.v4.new_markdown_cell(title), code]
        return str(nbformat.writes(nbformat.v4.new_notebook(cells=cells))).encode()

    one, other = (read_source(make(*each), "ipynb") for each in (("Ada", "1"), ("Bea", "2")))
    assert digest_code(one) == digest_code(other) != ""
