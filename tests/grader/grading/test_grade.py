"""From a file to its record: what is told of a wrong answer, and that it is told every time."""

import json
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.grading.grade import grade_file_or_raise
from headcheck.grader.grading.recording import select_certain_notes
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.submission import find_submissions
from headcheck.grader.report.records import SubmissionRecord, build_report, to_json
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.grader.sandbox.limits import Limits
from headcheck.grader.seed import make_seed
from headcheck.properties.families.dropout import EXTRA_DROPOUT
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.harness.case_context import FLOAT32_NOTE
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Verdict
from headcheck.properties.violations.violation import Note, Status
from tests.grader.conftest import GradeNotebook, GradeText, SandboxDriver
from tests.interpreter import run_python


def troubles(record: SubmissionRecord) -> list[str]:
    return [p.name for p in record.properties if p.status not in ("passed", "not_tried")]


def first_message(record: SubmissionRecord) -> str:
    return next(p.message for p in record.properties if p.status not in ("passed", "not_tried"))


@pytest.mark.parametrize(
    ("status", "told"),
    [(Status.PASSED, [EXTRA_DROPOUT, FLOAT32_NOTE]), (Status.FAILED, [EXTRA_DROPOUT])],
)
def test_only_a_right_answer_can_be_as_exact_as_float32(status: Status, told: list[Note]) -> None:
    exercise = BY_SLUG["causal_weights"]
    harness = Harness(make_subject({}), exercise.contract)
    harness.add_note(EXTRA_DROPOUT)
    harness.add_note(FLOAT32_NOTE)
    assert select_certain_notes(harness, [Verdict(it_equals_the_equation, status)]) == told


# ----------------------------------------------------------------------- what is wrong

SIMPLE = "import torch\ndef simplified_attention(x):\n    {body}"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("return None", "None (is there a return?)"),
        ("torch.softmax(x @ x.T, 0) @ x", "None (is there a return?)"),
        ("return (torch.softmax(x @ x.T, -1) @ x).tolist()", "a list of"),
        ("return float(x.sum())", "one float"),
        ("return (torch.softmax(x @ x.T, -1) @ x)[0]", "shape"),
        ("return torch.softmax(x @ x.T, -1) @ x, x", "a tuple of 2 (Tensor, Tensor)"),
        ("return torch.softmax(x @ x.T, -1).half() @ x.half()", "float16"),
        ("return torch.softmax(x @ y.T, 0) @ x", "NameError: name 'y' is not defined"),
        ("return torch.softmax(x @ x, 0) @ x", "RuntimeError"),
        ("return torch.softmax(x @ x.T, 0) @ x", "expected"),
        ("y = x.clone(); x.resize_(1, 1); return torch.softmax(y @ y.T, -1) @ y", "shape (1, 1)"),
    ],
    ids=["None", "no return", "list", "float", "shape", "two", "dtype", "name", "crash", "axis",
         "resized"],
)  # fmt: skip
def test_wrong_result_has_a_specific_message(
    grade_notebook: GradeNotebook, body: str, told: str
) -> None:
    [record] = grade_notebook(SIMPLE.format(body=body)).values()
    assert record.status in ("failed", "crashed")
    assert record.error is None
    assert record.score < record.max_score == 82
    assert told in first_message(record)
    if record.status == "crashed":
        assert "(cell 1, line 3)" in first_message(record)


def test_a_wrong_answer_has_a_counterexample_that_can_be_pasted(
    grade_notebook: GradeNotebook,
) -> None:
    source = SIMPLE.format(body="return (x @ x.T) @ x")
    [record] = grade_notebook(source).values()
    wrong = next(p for p in record.properties if p.name == "it_equals_the_equation")
    assert wrong.status == "failed"
    assert wrong.counterexample is not None and wrong.counterexample.code is not None
    assert wrong.case is not None and "tokens=" in wrong.case
    code = f"{source}\n{wrong.counterexample.code}"
    ran = run_python("-c", code)
    assert ran.returncode == 0 and ran.stdout.startswith("tensor(")


def test_unsupported_constructor_arguments_are_reported(grade_notebook: GradeNotebook) -> None:
    odd = """
        from torch import nn
        class CausalAttention(nn.Module):
            def __init__(self, d_in, d_out, context_length, dropout, layers, style): ...
    """
    [record] = grade_notebook(odd, slug="causal_attention").values()
    assert record.status == "crashed" and record.score == 0
    assert "TypeError: `__init__` of `CausalAttention` needs" in first_message(record)
    assert "hint" not in first_message(record)


SOMETIMES = """
    import os, time, torch
    def simplified_attention(x):
        if len(x) > 150:
            {then}
        return torch.softmax(x @ x.T, -1) @ x
"""


@pytest.mark.parametrize(
    ("then", "status", "message"),
    [
        ("os._exit(0)", "crashed", "the process ended itself"),
        ("__import__('ctypes').string_at(0)", "crashed", "the process died (Segmentation fault)"),
        ("time.sleep(60)", "timed_out", "took more than 1 s for one call"),
        ("torch.zeros(1 << 40)", "out_of_memory", "can't allocate"),
    ],
)
def test_lost_process_affects_no_other_property(
    grade_notebook: GradeNotebook, then: str, status: str, message: str
) -> None:
    [record] = grade_notebook(SOMETIMES.format(then=then), limits=Limits(call_s=1)).values()
    long = {p.name: p for p in record.properties}["a_long_sequence_is_right_too"]
    assert long.status == status
    assert record.status == ("failed" if status == "crashed" else status)  # it computes the others
    assert message in long.message and "tokens=" in long.message
    assert 0.8 * record.max_score < record.score < record.max_score
    assert record.properties[-1].status == "passed"


def test_points_earned_before_the_timeout_are_kept(grade_notebook: GradeNotebook) -> None:
    lost = SOMETIMES.format(then="time.sleep(60)")
    [record] = grade_notebook(lost, limits=Limits(total_s=9)).values()
    assert record.status == "timed_out" and record.error is None
    assert record.score > 0
    assert record.properties[0].status == "passed"
    assert {p.status for p in record.properties} <= {"passed", "timed_out", "not_asked"}
    late = next(p for p in record.properties if p.status == "timed_out")
    assert "took more than 9 s in all" in late.message


# ------------------------------------------------------------------------- determinism


def records_of(sandbox: SandboxDriver, path: Path) -> list[SubmissionRecord]:
    [handed_in] = find_submissions([str(path)])
    return [
        replace(r, seconds=0) for r in grade_file_or_raise(sandbox.server, handed_in, Settings())
    ]


@pytest.mark.whole
def test_records_are_deterministic(sandbox: SandboxDriver, tmp_path: Path) -> None:
    path = tmp_path / "ada.py"
    wrong = SIMPLE.format(body="return torch.softmax(x @ x.T / 2, -1) @ x")
    linear = "def linear(x, weight, bias):\n    return x @ weight.T - bias"
    path.write_text(f"{wrong}\n\n{linear}\n")
    first = records_of(sandbox, path)
    assert len(first) == 2 and all(troubles(record) for record in first)
    assert records_of(sandbox, path) == first

    program = """
        import sys
        from dataclasses import replace
        from headcheck.grader.grading.grade import grade_file_or_raise
        from headcheck.grader.grading.settings import Settings
        from headcheck.grader.report.records import build_report, to_json
        from headcheck.grader.sandbox.grader_side.servers import ServerHandle
        from headcheck.grader.reading.submission import find_submissions
        with ServerHandle() as server:
            records = grade_file_or_raise(server, find_submissions(sys.argv[1:])[0], Settings())
        print(to_json(build_report([replace(r, seconds=0) for r in records])))
    """
    ran = run_python("-c", textwrap.dedent(program), str(path), PYTHONHASHSEED="12345")
    assert json.loads(ran.stdout) == json.loads(to_json(build_report(first)))


def test_another_seed_sends_other_queries_and_gives_the_same_verdict(
    grade_text: GradeText,
) -> None:
    source = SIMPLE.format(body="return torch.softmax(x @ x.T, 0) @ x")
    cases: list[Sequence[str | None]] = []
    for seed in (0, 1):
        record = grade_text(source, Settings(seed=make_seed(seed)))
        assert record.status == "failed"
        cases.append([p.case for p in record.properties])
    assert cases[0] != cases[1]


# ------------------------------------------------------------------ what the mistake is

CELLS = (
    "import torch\nfrom torch import nn",
    """class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)
        mask = torch.triu(torch.ones(context_length, context_length), diagonal=1).bool()
        self.register_buffer("mask", mask)

    def forward(self, x):
        t = x.shape[1]
        scores = self.W_query(x) @ self.W_key(x).transpose(1, 2)
        scores = scores.masked_fill(self.mask[:t, :t], -torch.inf)
        weights = torch.softmax(scores / scores.shape[-1] ** 0.5, dim=1)
        return self.dropout(weights) @ self.W_value(x)
""",
)


def test_two_mistakes_are_named_with_their_lines(grade_notebook: GradeNotebook) -> None:
    [record] = grade_notebook(*CELLS).values()
    found = [(d.name, d.cell, d.line) for d in record.diagnosis]
    # The place of both has several lines; a code pattern finds that of one.
    assert found == [("scale_by_tokens", None, None), ("softmax_over_queries", 2, 15)]
    assert all(d.cases_matched == d.cases_tried >= 3 for d in record.diagnosis)
