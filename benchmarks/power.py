"""Errors of right and wrong answers, in bounds: `python -m benchmarks.power [FOLDER]`.

Every answer in the banks (except those of GPT-2's size) gets all queries that can be recorded. The
largest error of each answer is measured in units of the bound that decides: a right answer is off
by 1 at most. For inputs in float64 the bound is that of float32, since an answer that computes in
float32 internally is right, with a note. Right answers that return no gradient where it is zero
have nothing to measure there, and are left out for that dtype. Prints a table and draws power.svg.
"""

import contextlib
import functools
import io
import math
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import torch

from headcheck.exercises import ALL, BY_SLUG, Exercise
from headcheck.exercises.answers import Answer, AnswerKind
from headcheck.grader.audit.matrix import load_answers
from headcheck.grader.batch import recording
from headcheck.grader.batch.message import PLACEHOLDER_NAME, BatchPlan, BatchRequest
from headcheck.grader.batch.plan import compile_batch_plan
from headcheck.grader.sandbox.grader_side.subject import ChannelSubject, make_subject
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.harness.harness import Harness
from headcheck.properties.violations.violation import SubmissionFailed

RIGHT = (AnswerKind.SOLUTION, AnswerKind.RIGHT)
DTYPES = ("float64", "float32")
PLOT_MIN, PLOT_MAX = 1e-12, 1e12
"""The range of the plot; errors beyond it, and NaN, are drawn at its edge."""


@dataclass(frozen=True)
class AnswerMeasurement:
    """One answer: its largest error in units of the bound, by dtype."""

    answer: Answer
    worst: Mapping[str, float]


def main() -> None:
    """Measure, print, draw."""
    torch.set_num_threads(1)
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    measured = list(_measure_all())
    print("| dtype | right | worst of them | wrong | beyond the bound | best of these | 5% best |")
    print("|---|---|---|---|---|---|---|")
    for dtype in DTYPES:
        right = sorted(m.worst[dtype] for m in measured if m.answer.kind in RIGHT)
        right = [ratio for ratio in right if math.isfinite(ratio)]
        wrong = sorted(m.worst[dtype] for m in measured if m.answer.kind is AnswerKind.WRONG)
        off = [ratio for ratio in wrong if ratio > 1]
        print(
            f"| {dtype} | {len(right)} | {right[-1]:.3g} | {len(wrong)} | {len(off)} "
            f"| {off[0]:.3g} | {off[len(off) // 20]:.3g} |"
        )
    _draw(measured, folder / "power.svg")


def _measure_all() -> Iterator[AnswerMeasurement]:
    for exercise in ALL:
        if exercise.slug != "gpt2_size":
            for answer in load_answers(exercise):
                with contextlib.redirect_stdout(io.StringIO()):
                    worst = _find_worst(answer)
                yield AnswerMeasurement(answer, worst)


def _find_worst(answer: Answer) -> dict[str, float]:
    exercise = BY_SLUG[answer.exercise]
    module = types.ModuleType("submission")
    sys.modules["submission"] = module
    exec(compile(answer.source, answer.name, "exec"), vars(module))
    subject = make_subject(vars(module))
    harness = Harness(subject, exercise.contract)
    contract = replace(harness.contract, name=PLACEHOLDER_NAME)
    worst = dict.fromkeys(DTYPES, 0.0)
    for exchange in _compile_plan(exercise, contract).batches:
        ratio = _compute_ratio(exchange, subject, harness.contract.name)
        worst[exchange.dtype] = max(worst[exchange.dtype], ratio)
    return worst


@functools.cache
def _compile_plan(exercise: Exercise, contract: Contract) -> BatchPlan:
    """Return the plan with the bounds that decide, in place of the parts that cost little."""
    with mock.patch.object(recording, "select_allowed", lambda tolerance: tolerance.float32):
        return compile_batch_plan(contract, exercise.plan_cases())


def _compute_ratio(exchange: BatchRequest, subject: ChannelSubject, name: str) -> float:
    """Return the largest error in units of the bound; infinity if no answer has the right form."""
    try:
        row = exchange.join_answers(exchange.send_to(subject, name))
    except SubmissionFailed:
        return math.inf
    ratio = (row - exchange.exact).abs() / exchange.allowed.clamp_min(1e-300)
    return float(ratio.nan_to_num(math.inf).max())


def _draw(measured: list[AnswerMeasurement], path: Path) -> None:
    figure, axes = plt.subplots(len(DTYPES), 1, sharex=True, figsize=(8, 4))
    bins = [10 ** (x / 4) for x in range(-48, 49)]
    for dtype, axis in zip(DTYPES, axes, strict=True):
        for label, colour in (("right", "#0072B2"), ("wrong", "#D55E00")):
            kinds = RIGHT if label == "right" else (AnswerKind.WRONG,)
            ratios = [m.worst[dtype] for m in measured if m.answer.kind in kinds]
            shown = [min(max(ratio, PLOT_MIN), PLOT_MAX * 0.99) for ratio in ratios]
            _, _, bars = axis.hist(shown, bins, label=label, color=colour, alpha=0.7)
            for bar in bars:  # an empty one is eight lines of the picture
                bar.set_visible(bar.get_height() > 0)
        axis.axvline(1, color="black", linestyle="--", linewidth=1)
        axis.set_xscale("log")
        axis.set_yscale("symlog")
        axis.set_ylabel(f"{dtype}\nanswers")
    axes[0].legend()
    axes[-1].set_xlabel("largest error of an answer, in units of the bound (dashed)")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
