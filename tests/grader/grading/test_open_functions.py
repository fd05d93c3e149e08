"""A function of queries, keys and values is judged as what it computes, end to end."""

import json
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from headcheck.grader.grading.grade import grade_file_or_raise
from headcheck.grader.grading.infer import OPEN
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.submission import Submission
from headcheck.grader.report.records import SubmissionRecord
from headcheck.grader.sandbox.grader_side.in_process import UnconfinedSandbox
from tests.grader.grading.open_classes import HEAD, UNKNOWN, broken, told

SCORES = "q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5"
DEFAULT = "`dropout` of its calls keeps its default, and is not judged"
APART = "its inputs have the shape (batch, heads, tokens, width)"


def write(takes: str = "q, k, v", scores: str = SCORES, mask: str = "", out: str = "w @ v") -> str:
    """The source of a function."""
    lines = [f"s = {scores}", mask or "pass", "w = s.softmax(-1)", f"return {out}"]
    return f"def attend({takes}):\n" + textwrap.indent("\n".join(lines), "    ") + "\n\n\n"


USED = f"""
{write()}
class Mixer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, x):
        return attend(self.q(x), self.k(x), self.v(x))
"""


def grade(source: str, folder: Path) -> Mapping[str | None, SubmissionRecord]:
    path = folder / "ada.py"
    path.write_text(HEAD + source, encoding="utf-8")
    with UnconfinedSandbox("a test") as place:
        records = grade_file_or_raise(place, Submission(path, path.name), Settings())
    return {record.name: record for record in records}


MASKED = "if mask is not None:\n    s = s.masked_fill(mask == 0, -1e9)"
BLOCKED = "s = s.masked_fill(pad, -torch.inf)"
FUTURE = "s = s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1), -torch.inf)"
EINSUM = "torch.einsum('bqd,bkd->bqk', q, k) / q.shape[-1] ** 0.5"
LATER = "torch.einsum('bqhd,bkhd->bhqk', q, k) / q.shape[-1] ** 0.5"
RIGHT = {
    "any axes": (write(), [APART]),
    "a mask, and weights": (
        write("q, k, v, mask=None, dropout=None", mask=MASKED, out="w @ v, w"),
        [DEFAULT, APART, "its mask is true where a query may attend"],
    ),
    "a mask that is required": (
        write("q, k, v, pad", mask=BLOCKED),
        [APART, "its mask is true where a query may not attend"],
    ),
    "another order": (
        write("values, keys, queries").replace(
            "    s =", "    q, k, v = queries, keys, values\n    s ="
        ),
        [APART],
    ),
    "causal": (write(mask=FUTURE), [APART]),
    "one head": (write(scores=EINSUM), []),
    "heads after tokens": (
        write(scores=LATER, out="torch.einsum('bhqk,bkhd->bqhd', w, v)"),
        ["its inputs have the shape (batch, tokens, heads, width)"],
    ),
    "one sequence": (
        write(scores="q @ k.T / q.shape[-1] ** 0.5"),
        ["its input has the shape (tokens, width), without a batch"],
    ),
    "names that say nothing": (
        write("a, b, c", "a @ b.mT / a.shape[-1] ** 0.5", out="w @ c"),
        [APART],
    ),
    "torch's own": (
        "def attend(q, k, v, causal=False):\n"
        "    return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)\n",
        ["every call of it is given `causal`, True", APART],
    ),
}


@pytest.mark.sampled("kind", RIGHT, list(RIGHT)[1::6])
def test_a_right_function_passes_and_what_was_assumed_is_said(kind: str, tmp_path: Path) -> None:
    source, assumed = RIGHT[kind]
    record = grade(source, tmp_path)["attend"]
    assert (record.status, record.exercise) == ("passed", OPEN), broken(record)
    assert told(record)[1:-1] == assumed


@pytest.mark.parametrize(
    ("source", "mistake"),
    [
        (write(scores="q @ k.mT"), ["no_scale"]),
        (write().replace("s.softmax(-1)", "s.softmax(-2)"), ["softmax_over_queries"]),
        (write("q, k, v, mask=None", mask=MASKED.replace("-1e9", "0.0")), ["filled_with_zero"]),
        (write(scores="q @ q.mT / q.shape[-1] ** 0.5"), ["queries_with_queries"]),
        (write(out="w @ k"), ["keys_averaged"]),
    ],
    ids=["no scale", "another axis", "a mask of zeros", "no keys", "no values"],
)
def test_a_wrong_function_fails_and_a_known_mistake_is_named(
    source: str, mistake: list[str], tmp_path: Path
) -> None:
    record = grade(source, tmp_path)["attend"]
    assert record.status == "failed"
    assert [found.name for found in record.diagnosis] == mistake
    if mistake in (["queries_with_queries"], ["keys_averaged"]):
        assert "keys_and_values_come_from_their_own_tokens" in broken(record)


@pytest.mark.parametrize(
    "body",
    ["a + (b - a) * c", "a @ b.mT @ c", "(a + b + c) / 3", "((a - b) ** 2 * c).mean()", "a.no(b)"],
)
def test_another_function_of_three_tensors_is_not_accused(body: str, tmp_path: Path) -> None:
    [record] = grade(f"def three(a, b, c):\n    return {body}\n", tmp_path).values()
    assert (record.score, record.properties) == (0, ())
    assert record.error is not None
    assert "not recognised as attention by what it computes: `three`" in record.error.message


def test_a_function_of_other_things_is_not_tried(tmp_path: Path) -> None:
    [record] = grade("def one(x, flag=True):\n    return x\n", tmp_path).values()
    assert record.error is not None
    assert "by what it computes" not in record.error.message


@pytest.mark.whole
def test_a_function_that_a_judged_class_uses_is_a_part_of_it(tmp_path: Path) -> None:
    assert grade(USED, tmp_path).keys() == {"Mixer"}
    assert grade(UNKNOWN + write(), tmp_path).keys() == {"attend"}


def test_a_function_that_resembles_an_exercise_is_judged_as_what_it_is(tmp_path: Path) -> None:
    name = "scaled_dot_product_attention"
    masked = MASKED.replace("mask", "attn_mask")
    source = write("query, key, value, attn_mask=None", mask=masked).replace("attend", name)
    source = source.replace("    s =", "    q, k, v = query, key, value\n    s =", 1)
    record = grade(source, tmp_path)[name]
    assert (record.status, record.exercise) == ("passed", OPEN), broken(record)


def test_a_counterexample_calls_the_function(tmp_path: Path) -> None:
    source = write(scores=EINSUM.replace(" / q.shape[-1] ** 0.5", ""))
    record = grade(source, tmp_path)["attend"]
    shown = next(p.counterexample for p in record.properties if p.counterexample is not None)
    assert shown.code is not None
    assert "print(attend(x, x, x))" in shown.code
    namespace: dict[str, object] = {}
    exec(HEAD + source + shown.code.replace("print(", "found = ("), namespace)
    expected = json.loads(shown.code.rpartition("expected output: ")[2])
    assert not torch.allclose(namespace["found"], torch.tensor(expected).double())  # type: ignore[arg-type]
