"""How inexact are right answers in 16 bits? `python -m benchmarks.half_precision [SEEDS] [SLUG]`.

Judges right answers by the two claims that compare errors in 16 bits with those of plain torch
(`properties/families/precision.py`), on the cases of many seeds. The answers are those of the banks
of all exercises with these claims, and modules that attend by the algorithms of
`tests/properties/conftest.py`. Prints who is accused, and for each exercise the largest ratio of an
answer's error to the error that it is compared with; it may be `LARGEST_RATIO` at most. An answer
that does not run in this process is listed as not judged. The exit code is 1 if a right answer is
accused.
"""

import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from headcheck.exercises import ALL, BY_SLUG, Exercise
from headcheck.grader.audit.matrix import load_answers, load_namespace
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.check import find_first_failure
from headcheck.properties.families import precision
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Property, Verdict
from headcheck.properties.violations.violation import Status
from headcheck.reference import causal_mask, merge_heads, split_heads
from tests.properties.conftest import RIGHT, Algorithm

SEEDS = 50
CLAIMS = (
    precision.bfloat16_is_as_exact_as_plain_torch,
    precision.float16_is_as_exact_as_plain_torch,
)
ATTENDED = ("self_attention_v2", "causal_attention", "multi_head_attention")
"""the exercises that the algorithms answer, too"""


@dataclass(frozen=True)
class RightAnswer:
    """A right answer: the definitions of its file."""

    name: str
    namespace: dict[str, Any]


class Attention(nn.Module):
    """Attention by one of the algorithms, for the exercises of `ATTENDED`."""

    algorithm: Algorithm
    causal: bool

    def __init__(
        self,
        d_in: int,
        d_out: int,
        context_length: int = 0,
        dropout: float = 0.0,
        num_heads: int = 0,
        qkv_bias: bool = False,
    ) -> None:
        super().__init__()
        self.heads = num_heads or 1
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        if num_heads:
            self.out_proj = nn.Linear(d_out, d_out)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of every sequence, or of one sequence without an axis for the batch."""
        layers, tokens = (self.W_query, self.W_key, self.W_value), x.shape[-2]
        sequences = x.reshape(-1, tokens, x.shape[-1])
        q, k, v = (split_heads(layer(sequences), self.heads) for layer in layers)
        mask = causal_mask(tokens) if self.causal else torch.ones(tokens, tokens, dtype=torch.bool)
        attended = type(self).algorithm(q, k, v, q.shape[-1] ** -0.5, mask)
        context = merge_heads(attended).reshape(*x.shape[:-1], -1)
        return self.out_proj(context) if hasattr(self, "out_proj") else context


def list_answers(exercise: Exercise) -> list[RightAnswer]:
    """Return the right answers of the bank, and those by the algorithms."""
    bank = [each for each in load_answers(exercise) if not each.is_wrong]
    answers = [RightAnswer(each.name, load_namespace(each)) for each in bank]
    if exercise.slug not in ATTENDED:
        return answers
    return answers + [make_module(exercise, *named) for named in RIGHT.items()]


def make_module(exercise: Exercise, name: str, attend: Algorithm) -> RightAnswer:
    """Make an answer to an exercise of `ATTENDED` that attends by an algorithm."""
    entry, causal = exercise.contract.name, exercise.slug != "self_attention_v2"
    own = {"algorithm": staticmethod(attend), "causal": causal}
    return RightAnswer(name, {entry: type(entry, (Attention,), own)})


@dataclass
class Worst:
    """The largest ratio of an error to the error that it is compared with, and where it is."""

    ratio: float = 0.0
    where: str = ""
    compared: int = 0

    def add(self, ratio: float, where: str) -> None:
        """Take one comparison into account."""
        self.compared += 1
        if ratio > self.ratio:
            self.ratio, self.where = ratio, where


def measure(
    exercise: Exercise, seeds: Sequence[int], claims: Sequence[Property]
) -> Iterator[Verdict]:
    """Judge all right answers under each seed and print a row of the table; yield what fails."""
    worst, on, original = Worst(), "", precision.assert_comparable

    def compare(got: Tensor, plain: list[Tensor], exact: Tensor, where: str) -> None:
        own, allowed = precision.measure_errors(got, plain, exact)
        worst.add(own / allowed if allowed else 0.0, f"{on}, {where}")
        original(got, plain, exact, where)

    answers = list_answers(exercise)
    with mock.patch.object(precision, "assert_comparable", compare):
        for seed in seeds:
            cases = exercise.plan_cases(seed)
            for answer in answers:
                harness = Harness(make_subject(answer.namespace), exercise.contract)
                for claim in claims:
                    on = f"{answer.name}, {claim.dtypes[0]}, seed {seed}"
                    verdict = find_first_failure(claim, harness, cases[claim])
                    if verdict.status is not Status.PASSED:
                        print(f"not judged, or accused: {exercise.slug}/{on}: {verdict.message}")
                        yield verdict
    cells = exercise.slug, len(answers), worst.compared, f"{worst.ratio:.2f}", worst.where
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def main() -> int:
    """Measure and print."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    seeds = range(int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS)
    chosen = [BY_SLUG[slug] for slug in sys.argv[2:]] or ALL
    print(f"Right answers under {len(seeds)} seeds; at most {precision.LARGEST_RATIO:g} is allowed")
    print("| exercise | answers | errors compared | largest ratio | of |")
    print("|---|---|---|---|---|")
    found = Counter[Status]()
    for exercise in chosen:
        claims = [claim for claim in CLAIMS if claim in exercise.properties]
        if claims:
            found.update(verdict.status for verdict in measure(exercise, seeds, claims))
    accused = found.pop(Status.FAILED, 0)
    print(f"{accused} accused, {found.total()} not judged")
    return 1 if accused else 0


if __name__ == "__main__":
    sys.exit(main())
