"""`check` in a process of one's own: what it judges, and what it says."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headcheck import check
from headcheck.exercises import ALL, BY_SLUG, Exercise
from headcheck.exercises.answers import find_answer, list_answers
from headcheck.grader.grading.grade import grade_file_or_raise
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.submission import Submission
from headcheck.grader.report.records import DiagnosisRecord
from headcheck.grader.sandbox.grader_side.in_process import UnconfinedSandbox
from headcheck.grader.ui.jupyter import CannotCheck, CheckInterrupted
from headcheck.grader.ui.jupyter.checking import MORE, CheckResult, check_in_namespace, make_request
from headcheck.grader.ui.jupyter.progress import Progress
from headcheck.properties.terms.depth import Depth
from headcheck.properties.terms.group import PropertyGroup
from tests.grader.report.records import make_failed, make_submission
from tests.grader.ui.jupyter.cells import check_answer, run_cell, run_solution

ANSWERS = [
    pytest.param(exercise, kind, id=f"{exercise.slug}-{kind}")
    for exercise in ALL
    for kind in ("solution", "stub", "another")
    if exercise.slug != "gpt2_size"  # nothing special, and seconds each
]


# ------------------------------------------------------------------------------- the verdict


def answer_of(exercise: Exercise, kind: str) -> str:
    if kind == "solution":
        return exercise.solution
    if kind == "stub":
        return find_answer(exercise, "stub").source
    return next(a.source for a in list_answers(exercise, "wrong") if a.name != "stub")


@pytest.mark.deep
@pytest.mark.parametrize(("exercise", "kind"), ANSWERS)
def test_the_verdicts_are_those_of_the_command(
    exercise: Exercise, kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "answer.py"
    path.write_text(answer_of(exercise, kind), encoding="utf-8")
    with UnconfinedSandbox("a test") as place:
        [graded] = grade_file_or_raise(
            place, Submission(path, path.name), Settings(exercise=exercise)
        )
    here = check_answer(exercise.slug, path.read_text(encoding="utf-8")).record
    assert [(p.name, p.status, p.points) for p in here.properties] == [
        (p.name, p.status, p.points) for p in graded.properties
    ]
    assert [d.name for d in here.diagnosis] == [d.name for d in graded.diagnosis]


def test_a_right_answer_gets_full_marks() -> None:
    found = check_answer("causal_weights")
    assert found.passed
    assert found.score == found.record.max_score == 67
    assert str(found).splitlines()[0].endswith("causal_weights (causal_weights)  67 / 67  passed")
    assert repr(found) == str(found)


def test_wrong_answer_gets_location_and_example() -> None:
    wrong = find_answer(BY_SLUG["causal_weights"], "no_scale").source
    found = check_answer("causal_weights", wrong)
    assert not found.passed
    assert [d.name for d in found.record.diagnosis] == ["no_scale"]
    text = str(found)
    assert "expected  " in text
    assert "      For example, 2 tokens, queries of width 4:\n" in text


def test_the_result_shows_itself_as_a_fragment_and_as_text() -> None:
    found = check_answer("linear_layer")
    bundle = found._repr_mimebundle_(include=None, exclude=None)
    assert bundle == {"text/plain": str(found), "text/html": found._repr_html_()}
    page = bundle["text/html"]
    assert page.startswith('<div class="headcheck">')
    assert page.rstrip().endswith("</div>")
    assert "<script" not in page
    assert "http" not in page


MISTAKE = DiagnosisRecord("no_mask", "Nothing is hidden.", 3, 12, 7, 7)
CLAIMS = [replace(make_failed(f"Claim {n}."), follows=True) for n in range(9)]
RESULT = CheckResult(make_submission(*CLAIMS, diagnosis=(MISTAKE,)))


def test_what_follows_is_folded_as_text_and_as_a_page() -> None:
    assert f"  8 more checks fail for this reason; {MORE} shows them" in str(RESULT)
    assert "Claim 1." not in str(RESULT)
    assert "8 more checks fail for this reason" in RESULT._repr_html_()


def test_all_of_it_is_there_to_print() -> None:
    assert all(claim.claim in RESULT.verbose for claim in CLAIMS)
    assert MORE not in RESULT.verbose


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """An answer in a module: this one."""
    return x @ weight.transpose(0, 1) + bias


def test_imported_definition_is_located_by_its_file() -> None:
    found = check(linear)
    assert found.passed
    assert found.record.file == Path(__file__).name


def test_exercise_is_inferred_from_name_and_arguments() -> None:
    for slug in ("multi_head_attention", "masked_multi_head"):
        namespace = run_solution(slug)
        found = check_in_namespace(namespace["MultiHeadAttention"], make_request(), namespace)
        assert found.record.exercise == slug


def test_other_required_names_come_from_the_caller() -> None:
    namespace = run_solution("weight_transfer")
    namespace["check"] = check
    exec("found = check(transfer_weights)", namespace)
    assert namespace["found"].passed


def test_missing_name_is_reported() -> None:
    namespace = run_solution("weight_transfer")
    del namespace["SelfAttention_v1"]
    record = check_in_namespace(namespace["transfer_weights"], make_request(), namespace).record
    assert record.error is not None
    assert "`SelfAttention_v1` is not defined yet; run the cell that defines it" in (
        record.error.message
    )


def test_an_answer_under_another_name_is_found_by_the_name_it_has() -> None:
    namespace = run_cell("mine = lambda x, weight, bias: x @ weight.mT + bias")
    found = check_in_namespace(namespace["mine"], make_request("linear_layer"), namespace)
    assert (found.passed, found.record.name) == (True, "mine")


def test_exception_becomes_a_result() -> None:
    found = check_answer("linear_layer", "def linear(x, weight, bias):\n    return x.nothing\n")
    assert found.record.status == "crashed"
    assert "AttributeError: 'Tensor' object has no attribute 'nothing'" in str(found)
    assert "Traceback" not in str(found)


def test_submission_prints_and_warnings_are_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    check_answer(
        "linear_layer",
        """
        import warnings
        def linear(x, weight, bias):
            print("noise")
            warnings.warn("more noise")
            return x @ weight.mT + bias
        """,
    )
    assert capsys.readouterr() == ("", "")


# ------------------------------------------------------------------------- the course file

EXAM = """
round = 10
[points.linear_layer]
values = 48
[feedback]
level = "message"
hidden = ["purity"]
"""
WRONG_LINEAR = "def linear(x, weight, bias):\n    return x @ weight.mT + 2 * bias"


def test_check_goes_by_the_course_file_beside_the_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("headcheck.toml").write_text(EXAM)
    right, wrong = check_answer("linear_layer"), check_answer("linear_layer", WRONG_LINEAR)
    assert right.score == right.record.max_score == 80
    detached = WRONG_LINEAR.replace("x @ weight.mT + 2 * bias", "(x @ weight.mT + bias).detach()")
    nearly = check_answer("linear_layer", detached)
    assert 0 < nearly.score < 80 and nearly.score % 10 == 0
    assert wrong.record.hidden > 0
    for shown in (str(wrong), wrong.verbose, wrong._repr_html_(), repr(wrong.record)):
        assert "seed=" not in shown and "±" not in shown
        assert "an input is changed" not in shown
    assert "The output equals the equation" in wrong.verbose


def test_a_course_file_may_have_everything_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    usual = check_answer("linear_layer").record
    Path("headcheck.toml").write_text('thorough = ["linear_layer"]\n')
    thorough = check_answer("linear_layer").record
    assert usual.only_thorough > 0
    assert len(thorough.properties) == len(usual.properties) + usual.only_thorough


def test_a_course_file_can_be_named_and_is_read_with_care(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("exam.toml").write_text('feedback = "name"')
    told = check_answer("linear_layer", WRONG_LINEAR, course="exam.toml")
    assert "hint" not in told.verbose and "equals the equation" in told.verbose
    assert "±" in check_answer("linear_layer", WRONG_LINEAR).verbose
    Path("exam.toml").write_text("\nfeedback = 'nam'")
    with pytest.raises(CannotCheck) as caught:
        check_answer("linear_layer", course="exam.toml")
    assert str(caught.value) == "exam.toml, line 2: there is no level 'nam'; did you mean 'name'?"
    with pytest.raises(CannotCheck, match=r"no\.toml, line 1: there is no such file"):
        check_answer("linear_layer", course="no.toml")
    with pytest.raises(CannotCheck, match="course is the path of a file, as in"):
        check_answer("linear_layer", course=3)


def test_an_interrupt_tells_nothing_that_is_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    groups = ", ".join(f'"{group.value}"' for group in PropertyGroup)
    Path("headcheck.toml").write_text(f"[feedback]\nhidden = [{groups}]")
    said = str(interrupt_late())
    assert "broken" not in said and "equation" not in said


# ------------------------------------------------------------------------------- interruptions


def stopping(after: int, calls: list[int] | None = None) -> dict[str, Any]:
    """A wrong answer during whose call number `after` somebody interrupts."""
    namespace = run_solution("causal_weights")
    right: Callable[..., Any] = namespace["causal_weights"]
    calls = [] if calls is None else calls

    def causal_weights(queries: Tensor, keys: Tensor) -> Any:
        calls.append(1)
        if len(calls) == after:
            raise KeyboardInterrupt
        renormalised, masked = right(queries, keys)
        return renormalised * 1.5, masked

    return {"causal_weights": causal_weights}


def interrupt_late() -> CheckInterrupted:
    """What a check says that is interrupted ten calls before its end."""
    calls: list[int] = []
    whole = stopping(0, calls)
    check_in_namespace(whole["causal_weights"], make_request(), whole)
    namespace = stopping(after=len(calls) - 10)
    with pytest.raises(CheckInterrupted) as caught:
        check_in_namespace(namespace["causal_weights"], make_request(), namespace)
    assert str(caught.value).startswith("stopped after ")
    return caught.value


def test_immediate_interrupt_says_so() -> None:
    namespace = stopping(after=1)
    with pytest.raises(
        CheckInterrupted, match=r"^stopped before the first check of causal_weights was"
    ):
        check_in_namespace(namespace["causal_weights"], make_request(), namespace)


def test_interrupt_reports_partial_results() -> None:
    interrupted = interrupt_late()
    assert "failed by then: “The output equals the equation" in str(interrupted)
    assert interrupted._render_traceback_() == [f"headcheck: {interrupted}"]
    # The next check is none the worse for it.
    assert check_answer("causal_weights").passed


def test_internal_error_says_it_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: object) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr("headcheck.grader.ui.jupyter.checking.grade_inferred", broken)
    with pytest.raises(ZeroDivisionError) as caught:
        check_answer("linear_layer")
    assert caught.value.__notes__ == [
        "an internal error of headcheck: please report it, with these lines"
    ]


# ---------------------------------------------------------------------------- wrong arguments


class Attention(nn.Module):
    """Nothing that is asked for."""


class CausalAttention(nn.Module):
    """A name that is asked for, with other arguments."""

    def __init__(self, width: int) -> None:
        super().__init__()


WRONG: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "an instance": ((Attention(),), {}, "takes the class, not an instance of it: write check(Att"),
    "its name": (("Attention",), {}, "not a string: write check(Attention), without quotes"),
    "some text": (("a b",), {}, "not a string: write check(MultiHeadAttention), without quotes"),
    "a number": ((3,), {}, "not something of type int: write the name that you defined"),
    "a module": ((torch,), {}, "not something of type module: write"),
    "no exercise": ((Attention,), {}, "no exercise asks for `Attention()`: say which exercise is "),
    "arguments": (
        (CausalAttention,),
        {},
        "`CausalAttention` takes (width); it should take `CausalAttention(d_in, d_out, context_len",
    ),
    "misspelt": ((Attention,), {"exercise": "causal_atention"}, "did you mean causal_attention?"),
    "another kind": (
        (Attention,),
        {"exercise": "linear_layer"},
        "`Attention` is a class, and linear_layer asks for a function, `linear(x, weight, bias)`",
    ),
    "the other kind": (
        (linear,),
        {"exercise": "causal_attention"},
        "`linear` is a function, and causal_attention asks for a class, `CausalAttention(d_in",
    ),
    "no slug": ((Attention,), {"exercise": 3}, "an exercise, or its folder, not a int"),
    "no seed": ((linear,), {"seed": "a"}, "seed is a whole number from 0 on, not 'a'"),
    "a negative seed": ((linear,), {"seed": -1}, "seed is a whole number from 0 on, not -1"),
    "nameless": ((lambda x, weight, bias: x,), {}, "needs a name: assign it to one"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_argument_gets_a_message_with_the_fix(case: str) -> None:
    given, options, message = WRONG[case]
    with pytest.raises(CannotCheck) as caught:
        check(*given, **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value._render_traceback_() == [f"headcheck: {caught.value}"]


# ------------------------------------------------------------------------------------ progress


def test_progress_on_a_terminal_is_one_line_that_is_wiped_away(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headcheck.grader.ui.jupyter.progress._is_terminal", lambda: True)
    assert check_answer("linear_layer").passed
    shown = capsys.readouterr()
    assert shown.out == ""
    claims = len(BY_SLUG["linear_layer"].at(Depth.USUAL).properties)
    assert f"checking linear: 0 of {claims} checks" in shown.err
    assert "\n" not in shown.err
    assert shown.err.endswith("\r\x1b[K")


def test_progress_is_silent_where_nobody_could_see_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_answer("linear_layer").passed
    assert capsys.readouterr() == ("", "")


def test_progress_that_is_done_says_nothing_or_that_it_looks_for_the_mistake() -> None:
    assert Progress("linear").message == "checking linear: finding out what it computes"


def test_another_seed_chooses_other_cases() -> None:
    wrong = find_answer(BY_SLUG["causal_weights"], "no_scale").source
    one, other = (check_answer("causal_weights", wrong, seed=seed).record for seed in (0, 1))
    assert [p.status for p in one.properties] == [p.status for p in other.properties]
    assert [p.case for p in one.properties] != [p.case for p in other.properties]


def test_the_package_has_no_other_names() -> None:
    import headcheck

    with pytest.raises(AttributeError, match="module 'headcheck' has no attribute 'chek'"):
        headcheck.chek  # noqa: B018  # asking is the test
