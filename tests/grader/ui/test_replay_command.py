"""`headcheck replay-case`: one property on one case, and one line on what cannot be."""

import sys
from pathlib import Path

import pytest

from headcheck.grader.ui.cli import main

RIGHT = "import torch\n\ndef attend(x):\n    return torch.softmax(x @ x.mT, dim=-1) @ x\n"
CASE = "batch=1 tokens=3 context_length=3 d_in=2 heads=1 head_dim=2 dtype=float64 seed=3"


@pytest.fixture
def answer(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(RIGHT)
    return path


def replay(
    answer: Path | str,
    case: str = CASE,
    prop: str = "it_equals_the_equation",
    slug: str = "simplified_attention",
    *more: str,
) -> int:
    with pytest.MonkeyPatch.context() as patch:
        name = f"{answer}:attend"
        arguments = [case, name, "--exercise", slug, "--property", prop, *more]
        patch.setattr("sys.argv", ["headcheck", "replay-case", *arguments])
        patch.setattr("sys.path", [*sys.path])
        with pytest.raises(SystemExit) as ended:
            main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_a_case_on_which_it_holds(answer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert replay(answer) == 0
    assert capsys.readouterr().out == (
        "holds: The output equals the equation, computed in float64.\n"
    )


def test_a_case_on_which_it_does_not(answer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer.write_text(RIGHT.replace("@ x\n", "@ x * 2\n"))
    assert replay(answer) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("Fails: The output equals the equation")
    assert "  expected  " in printed and "  on        tokens=3 d=2 " in printed


def test_a_case_that_is_refused(answer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer.write_text("def attend(x):\n    raise ValueError('no')\n")
    assert replay(answer, prop="no_case_is_refused") == 1
    assert "got       ValueError: no" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"case": "tokens=none"}, "`tokens=none`: tokens is a whole number from 1 to "),
        ({"case": "width=3"}, "`width=3` is not a value of a case"),
        (
            {"case": "batch=2 tokens=3"},
            "simplified_attention has no such case; near it is batch=1 tokens=3 ",
        ),
        ({"case": "device=tpu"}, "`device=tpu` is none of cpu, cuda"),
        (
            {"case": "tokens=1", "prop": "it_attends"},
            "is not checked on such a case; near it is batch=1 tokens=3 ",
        ),
        (
            {"prop": "it_equals_the_equatoin"},
            "has no property `it_equals_the_equatoin`; did you mean `it_equals_the_equation`?",
        ),
        ({"slug": "simplified"}, "simplified"),
        ({"answer": "nowhere.py"}, "there is no file nowhere.py"),
        ({"answer": "no_such_package.part"}, "there is no module `no_such_package`"),
    ],
)
def test_what_cannot_be_replayed_is_told_in_one_line(
    answer: Path, changes: dict[str, str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given: dict[str, object] = {"answer": answer, **changes}
    assert replay(**given) == 2  # type: ignore[arg-type]
    told = capsys.readouterr().err
    assert message in told and told.count("\n") == 1


@pytest.mark.parametrize("sizes", ["d_in", "d_in%4"])
def test_sizes_of_a_replay(answer: Path, sizes: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = replay(answer, CASE, "it_equals_the_equation", "simplified_attention", "--sizes", sizes)
    assert code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_no_more_is_told_than_the_course_file_lets(
    answer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer.write_text(RIGHT.replace("@ x\n", "@ x * 2\n"))
    course = answer.parent / "headcheck.toml"
    course.write_text('feedback = "name"\n')
    assert replay(answer) == 1
    printed = capsys.readouterr().out
    assert printed == "Fails: The output equals the equation, computed in float64.\n"
    course.write_text('[feedback]\nhidden = ["values"]\n')
    assert replay(answer) == 2
    said = capsys.readouterr().err
    assert said == "headcheck: it_equals_the_equation is not shown: the course file hides it\n"
